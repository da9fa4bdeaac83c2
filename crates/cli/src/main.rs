//! `gantry`: the administrator's command line. Speaks the management interface; only the check of
//! a pool that no daemon uses reads devices itself.
#![forbid(unsafe_code)]

mod access;
mod advice;
mod alerts;
mod arguments;
mod chap;
mod client;
mod clock;
mod commands;
mod configuration;
mod confirmation;
mod controllers;
mod identification;
mod labels;
mod manuals;
mod mirrors;
mod missing;
mod offload;
mod pool_import;
mod pools;
mod primitives;
mod printable;
mod rate_limits;
mod schedules;
mod scrubs;
mod snapshots;
mod starting;
mod support_bundle;
mod tables;
mod tasks;
mod top;
mod users;
mod verify;

use std::process::ExitCode;

use clap::Parser;

use crate::arguments::Object;
use crate::pools::PoolCommand;

fn main() -> ExitCode {
    let arguments = arguments::Arguments::parse();
    if let Object::Pool(PoolCommand::Verify { devices, quick }) = &arguments.object {
        return verify::run(devices, *quick, arguments.global.json);
    }
    let done = match &arguments.object {
        Object::Completions { shell } => {
            manuals::print_completions(*shell);
            Ok(())
        }
        Object::SupportBundle(bundle) => support_bundle::run(bundle, &arguments.global),
        Object::ManPages { folder } => manuals::write_pages(folder),
        _ => commands::run(&arguments),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            terminal::complain!("gantry: {error:#}");
            ExitCode::FAILURE
        }
    }
}
