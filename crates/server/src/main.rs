//! `gantryd`: the array's daemon.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use clap::Parser;
use server::LogFormat;
use tracing_subscriber::EnvFilter;

fn main() -> ExitCode {
    let options = server::Options::parse();
    log(options.log);
    match server::run(&options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("gantryd: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Begins to write the log to standard error.
fn log(format: LogFormat) {
    let filter = EnvFilter::try_from_env("GANTRY_LOG").unwrap_or_else(|_| EnvFilter::new("info"));
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(false);
    match format {
        LogFormat::Text => log.init(),
        LogFormat::Json => log.json().flatten_event(true).init(),
    }
}
