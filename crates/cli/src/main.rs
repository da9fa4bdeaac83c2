//! `gantry`: the administrator's command line. Speaks the management interface, nothing else.
#![forbid(unsafe_code)]

mod access;
mod arguments;
mod chap;
mod client;
mod commands;
mod size;
mod tables;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    let arguments = arguments::Arguments::parse();
    match commands::run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("gantry: {error:#}");
            ExitCode::FAILURE
        }
    }
}
