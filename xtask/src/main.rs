//! Every developer command: `cargo xtask NAME`.
#![forbid(unsafe_code)]

mod bench;
mod ceph_cluster;
mod check;
mod demo;
mod disk_space;
mod docs;
mod foreign;
mod history;
mod integrations;
mod package;
mod process;
mod release;
mod rest;
mod setup;
mod sim;
mod soak;
mod spdk;
mod test;
mod validate;
mod web;
mod workspace;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Debug, Parser)]
#[command(name = "cargo xtask", about = "Every developer command of Gantry")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Install the system packages that building and testing need, or name them.
    Setup,
    /// Start an array, show every offload against the same work done by the host.
    Demo(demo::Options),
    /// Run everything: setup, check, unit tests, simulator, black-box tests.
    Test(test::Options),
    /// Check formatting, lints, edges between rooms, banned calls, sizes, generated pages.
    Check,
    /// Count import cycles of the pool engine, and fields that files touch of other owners.
    Walls,
    /// Run the simulator; arguments go to gantry-sim as they are.
    Sim {
        /// Arguments for gantry-sim, for example: run --seconds 60.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Record what 64 clients do to the same blocks, and check that one order explains it.
    History(history::Options),
    /// Measure the data path against the bare wire, the raw file and tgt.
    Bench(bench::Options),
    /// Send Schemathesis against the management interface of a daemon of its own.
    Rest(rest::Options),
    /// A day's work of hosts in little time: verified I/O, failures, recovery, live changes.
    Soak(soak::Options),
    /// Measure what statistics cost: daemons with and without them, in turn.
    BenchStatistics(bench::Options),
    /// Run 'gantry-host validate' on our array and on tgt, and write docs/validation.
    Validate(validate::Options),
    /// Build the Debian package: daemon, command line, completions, man pages, systemd unit.
    Package,
    /// Build the package and an OCI image of its programs, without a container daemon.
    Container,
    /// Build an OCI image of the CSI driver for Kubernetes, without a container daemon.
    CsiContainer,
    /// Write the generated pages of docs/reference.
    Docs,
    /// Build the web page: its types of the REST interface, and web/dist from web/src.
    Web,
}

fn main() -> ExitCode {
    let result = match Arguments::parse().task {
        Task::Setup => setup::run(),
        Task::Demo(options) => demo::run(&options),
        Task::Test(options) => test::run(&options),
        Task::Check => check::run(),
        Task::Walls => check::walls::report(),
        Task::Sim { arguments } => sim::run(&arguments),
        Task::History(options) => history::run(&options),
        Task::Bench(options) => bench::run(&options),
        Task::Rest(options) => rest::run(&options),
        Task::Soak(options) => soak::run(&options),
        Task::BenchStatistics(options) => bench::run_statistics(&options),
        Task::Validate(options) => validate::run(&options),
        Task::Package => package::run().map(drop),
        Task::Container => package::container(),
        Task::CsiContainer => package::csi_container(),
        Task::Docs => docs::write(),
        Task::Web => web::build(),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            terminal::complain!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}
