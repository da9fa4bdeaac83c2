//! Support bundle: one .tar.gz of bounded size with what the daemon answers, what its data directory
//! holds and what this machine is, without secrets (docs/decisions/0175).
//!
//! The daemon need not answer: each part that is missing is named in the manifest, with the reason.

mod answers;
mod archive;
mod data_directory;
mod machine;
mod redaction;

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;
use serde_json::json;

use crate::arguments::Global;
use crate::client::{Client, DATA_DEFAULT, read_token};
use crate::clock;
use archive::{Archive, Summary};
use redaction::Redaction;

/// Stands for standard output.
const STANDARD_STREAM: &str = "-";

/// What goes into the bundle besides what always does.
#[derive(Debug, Args)]
pub(crate) struct SupportBundleArguments {
    /// Where it is written, '-' for standard output; a new file in this folder, named after the
    /// time, when left out.
    file: Option<PathBuf>,
    /// A log of the daemon that is not in the journal, for example of a container; may be repeated.
    #[arg(long = "log", value_name = "FILE")]
    logs: Vec<PathBuf>,
}

/// Collects everything, and writes the bundle.
pub(crate) fn run(arguments: &SupportBundleArguments, global: &Global) -> Result<()> {
    let time = clock::now();
    let file =
        arguments.file.clone().unwrap_or_else(|| format!("gantry-support-{time}.tar.gz").into());
    let is_stream = file == Path::new(STANDARD_STREAM);
    let output = open(&file, is_stream)?;
    let written = collect(output, time, arguments, global);
    match written {
        Ok(summary) => {
            if !is_stream {
                tell(&file, &summary, global.json);
            }
            Ok(())
        }
        Err(error) => {
            if !is_stream {
                // What is there is half a bundle, which nobody wants.
                let _ = fs::remove_file(&file);
            }
            Err(error.context(format!("writing {}", file.display())))
        }
    }
}

/// A new file that only its owner may read.
fn open(file: &Path, is_stream: bool) -> Result<Box<dyn Write>> {
    if is_stream {
        return Ok(Box::new(io::stdout().lock()));
    }
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600);
    match options.open(file) {
        Ok(file) => Ok(Box::new(file) as Box<dyn Write>),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            bail!("{} exists: name another file", file.display())
        }
        Err(error) => Err(error).context(format!("cannot write {}", file.display())),
    }
}

fn collect(
    output: Box<dyn Write>,
    time: u64,
    arguments: &SupportBundleArguments,
    global: &Global,
) -> Result<Summary> {
    let data = global.data.clone().unwrap_or_else(|| PathBuf::from(DATA_DEFAULT));
    // Over the network the data directory of this machine is another array's, or nobody's.
    let data = global.url.is_none().then_some(data);
    let token = read_token(global.token_file.as_deref()).ok().flatten();
    let redaction = Redaction::with_secrets_of(data.as_deref(), token.as_deref());
    let mut archive = Archive::new(output, time, redaction);
    match Client::new(global) {
        Ok(client) => answers::collect(&client, &mut archive)?,
        Err(error) => archive.missing("answers", &format!("{error:#}")),
    }
    match &data {
        Some(data) => data_directory::collect(data, &mut archive)?,
        None => archive.missing("data-directory", "the array was asked over the network"),
    }
    machine::collect(data.as_deref(), &mut archive)?;
    for log in &arguments.logs {
        let name = log.file_name().map_or("log".into(), |name| name.to_string_lossy());
        archive.add_tail(&format!("logs/{name}"), log)?;
    }
    archive.finish()
}

fn tell(file: &Path, summary: &Summary, is_json: bool) {
    if is_json {
        let said = json!({
            "file": file.display().to_string(),
            "files": summary.files,
            "missing": summary.missing,
        });
        terminal::say!("{said:#}");
        return;
    }
    terminal::say!("Wrote {} with {} files.", file.display(), summary.files);
    // What is missing for one reason is one line: a daemon that does not answer costs them all.
    for missing in summary.missing.chunk_by(|one, next| one.1 == next.1) {
        let (name, reason) = &missing[0];
        match missing.len() - 1 {
            0 => terminal::say!("Without {name}: {reason}"),
            more => terminal::say!("Without {name} and {more} more: {reason}"),
        }
    }
    terminal::say!(
        "It has no passwords, keys, tokens or CHAP secrets. It has names and addresses: look at it before you give it away."
    );
}
