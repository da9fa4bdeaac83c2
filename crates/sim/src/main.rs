//! The command line of the simulator.
#![forbid(unsafe_code)]

mod cli;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Simulates the pool engine on a disk that loses power, and several controllers that share their disks, and looks
/// for broken promises.
#[derive(Parser)]
#[command(name = "gantry-sim", version)]
struct Options {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Play many runs of the engine.
    Run(cli::engine::RunOptions),
    /// Look for each of the deliberate mistakes in the engine; every one must be found.
    Planted(cli::engine::PlantedOptions),
    /// Play one run again and tell its story.
    Replay(cli::engine::ReplayOptions),
    /// Runs of several controllers that take a pool from each other.
    #[command(subcommand)]
    Controllers(cli::controllers::Command),
}

fn main() -> ExitCode {
    match Options::parse().command {
        Command::Run(options) => cli::engine::run(&options),
        Command::Planted(options) => cli::engine::planted(&options),
        Command::Replay(options) => cli::engine::replay(&options),
        Command::Controllers(command) => cli::controllers::execute(&command),
    }
}
