//! `gantryd`: the array's daemon.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    let options = server::Options::parse();
    if let Err(error) = options.check_log() {
        terminal::complain!("gantryd: {error}");
        return ExitCode::FAILURE;
    }
    let log = server::logs::start(options.log, options.log_address.as_ref());
    match server::run(&options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            log.plain(&format!("gantryd: {error:#}"));
            ExitCode::FAILURE
        }
    }
}
