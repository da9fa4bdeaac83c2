//! Subcommands for export and import of the configuration.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use api::{Configuration, Imported};
use clap::Subcommand;
use reqwest::Method;

use crate::commands::Invocation;
use crate::missing::Missing;
use crate::tables::table;

/// Stands for the standard input, or the standard output.
const STANDARD_STREAM: &str = "-";

#[derive(Debug, Subcommand)]
pub(crate) enum ConfigurationCommand {
    /// Write hosts, groups, maps, portals, thresholds, schedules and alerts as JSON, and what pools
    /// and volumes there are.
    Export {
        /// Where to; the standard output when left out, or -. A new file that its owner alone can read.
        file: Option<PathBuf>,
        /// Also write the secrets. Works over the daemon's socket only.
        #[arg(long)]
        with_secrets: bool,
    },
    /// Make and change what a file names. If any of it is not possible, nothing is changed. What
    /// the file does not name stays.
    Import {
        /// What export wrote; - for the standard input.
        file: PathBuf,
        /// Only say what would change.
        #[arg(long)]
        dry_run: bool,
        /// First make the pools and volumes that the file describes and the array does not have.
        /// They are empty.
        #[arg(long)]
        create: bool,
    },
}

impl Invocation {
    pub(crate) fn configuration(&self, command: &ConfigurationCommand) -> Result<()> {
        match command {
            ConfigurationCommand::Export { file, with_secrets } => {
                let route = format!("/v1/configuration?with_secrets={with_secrets}");
                let configuration = self.client.get::<Configuration>(&route)?;
                let text = serde_json::to_string_pretty(&configuration)?;
                if let Some(file) = file.as_ref().filter(|file| !is_standard_stream(file)) {
                    return write_new(file, &text);
                }
                terminal::say!("{text}");
                Ok(())
            }
            ConfigurationCommand::Import { file, dry_run, create } => {
                let mut configuration = parse(file)?;
                let missing = if *create {
                    self.take_missing(&mut configuration)?
                } else {
                    Missing::default()
                };
                if *dry_run && !missing.is_empty() {
                    return self.told(missing.in_words());
                }
                self.make(&missing)?;
                self.import(&configuration, *dry_run, missing.in_words())
            }
        }
    }

    /// Says what would be made. What depends on it can only be checked when it is there.
    fn told(&self, changes: Vec<String>) -> Result<()> {
        self.show(&Imported { dry_run: true, changes }, |imported| {
            let mut rows = table(&[]);
            for change in &imported.changes {
                rows.add_row([change]);
            }
            rows.add_row(["The rest is checked once these are there."]);
            rows
        })
    }

    /// Imports; `before` is what was made for it.
    fn import(&self, file: &Configuration, dry_run: bool, before: Vec<String>) -> Result<()> {
        let route = format!("/v1/configuration?dry_run={dry_run}");
        let mut imported: Imported = self.client.send(Method::POST, &route, file)?;
        imported.changes.splice(0..0, before);
        self.show(&imported, |imported| {
            let mut rows = table(&[]);
            for change in &imported.changes {
                rows.add_row([change]);
            }
            let end = match (imported.changes.len(), imported.dry_run) {
                (0, _) => "Nothing is different.".to_owned(),
                (count, true) => format!("{count} change(s) would be made."),
                (count, false) => format!("{count} change(s) were made."),
            };
            rows.add_row([end]);
            rows
        })
    }
}

fn parse(file: &Path) -> Result<Configuration> {
    let text = read(file).with_context(|| format!("cannot read {}", file.display()))?;
    // What serde says could quote a secret.
    serde_json::from_str(&text).map_err(|error| {
        let (line, column) = (error.line(), error.column());
        anyhow::anyhow!(
            "{} is not what 'gantry configuration export' writes, at line {line} column {column}",
            file.display()
        )
    })
}

fn is_standard_stream(file: &Path) -> bool {
    file == Path::new(STANDARD_STREAM)
}

fn read(file: &Path) -> std::io::Result<String> {
    if !is_standard_stream(file) {
        return fs::read_to_string(file);
    }
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text)?;
    Ok(text)
}

fn write_new(file: &Path, text: &str) -> Result<()> {
    let mut options = fs::OpenOptions::new();
    let opened = options.write(true).create_new(true).mode(0o600).open(file);
    let mut opened = opened.with_context(|| format!("cannot make {}", file.display()))?;
    writeln!(opened, "{text}").with_context(|| format!("cannot write {}", file.display()))
}
