//! Commands about the configuration as one file.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use api::{Configuration, Imported};
use clap::Subcommand;
use reqwest::Method;

use crate::commands::Session;
use crate::tables::table;

/// Stands for the standard input.
const STANDARD_INPUT: &str = "-";

#[derive(Debug, Subcommand)]
pub(crate) enum ConfigurationCommand {
    /// Write hosts, groups, maps, portals, thresholds, schedules and alerts as JSON.
    Export {
        /// Where to; the standard output when left out. A new file that its owner alone can read.
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
    },
}

impl Session {
    pub(crate) fn configuration(&self, command: &ConfigurationCommand) -> Result<()> {
        match command {
            ConfigurationCommand::Export { file, with_secrets } => {
                let route = format!("/v1/configuration?with_secrets={with_secrets}");
                let configuration = self.client.get::<Configuration>(&route)?;
                let text = serde_json::to_string_pretty(&configuration)?;
                if let Some(file) = file {
                    return write_new(file, &text);
                }
                println!("{text}");
                Ok(())
            }
            ConfigurationCommand::Import { file, dry_run } => self.import(file, *dry_run),
        }
    }

    fn import(&self, file: &Path, dry_run: bool) -> Result<()> {
        let text = read(file).with_context(|| format!("cannot read {}", file.display()))?;
        // What serde says could quote a secret.
        let configuration: Configuration = serde_json::from_str(&text).map_err(|error| {
            let (line, column) = (error.line(), error.column());
            anyhow::anyhow!("{} is not what 'gantry configuration export' writes, at line {line} column {column}", file.display())
        })?;
        let route = format!("/v1/configuration?dry_run={dry_run}");
        let imported: Imported = self.client.send(Method::POST, &route, &configuration)?;
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

fn read(file: &Path) -> std::io::Result<String> {
    if file != Path::new(STANDARD_INPUT) {
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
