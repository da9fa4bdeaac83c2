//! `gantryd`: the array's daemon.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    let options = server::Options::parse();
    let log = server::logs::start(options.log);
    match server::run(&options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            log.plain(&format!("gantryd: {error:#}"));
            ExitCode::FAILURE
        }
    }
}
