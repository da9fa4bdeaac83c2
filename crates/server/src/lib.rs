//! The daemon: sockets, event loop, HTTP and the wiring between the rooms. It uses all of them, and
//! none uses it.
//!
//! One reactor thread owns every connection, the device server and the pools, so that a command
//! goes from socket to disk without changing threads; HTTP runs beside it and sends messages.
#![forbid(unsafe_code)]

mod alerts;
mod backing;
mod controller;
mod data_directory;
mod data_plane;
mod described;
mod device_times;
mod dispatch;
mod events;
mod exports;
mod guard;
mod heartbeat;
mod http;
mod iscsi;
mod ledger_feed;
pub mod limits;
mod link;
mod log_writer;
pub mod logs;
mod management;
mod open_files;
mod options;
mod pool;
mod pool_scan;
mod pools;
mod reactor;
mod recovery_key;
mod rod_token_spaces;
mod rotating_log;
mod scheduler;
mod source_address;
mod throttle;
mod trust;
mod unit_states;
mod witness;
mod work;
mod yielding;

use anyhow::{Context, Result};
use clap::CommandFactory;

pub use options::{IoMethod, LogFormat, Options};

/// The target portal group of portals that were given at the start, of the only controller.
pub(crate) const TARGET_PORTAL_GROUP_TAG: u16 = 1;

/// Runs the daemon until SIGTERM or SIGINT.
pub fn run(options: &Options) -> Result<()> {
    if options.print_scsi_reference {
        terminal::say_part!("{}", scsi::reference());
        return Ok(());
    }
    if options.print_man_page {
        let page = clap_mangen::Man::new(Options::command()).section("8");
        let mut text = Vec::new();
        page.render(&mut text)?;
        terminal::say_part!("{}", String::from_utf8(text)?);
        return Ok(());
    }
    if let Some(daemon) = options.tell_end_of {
        return link::tell_end_of(daemon);
    }
    let data = options.data.as_ref().context("--data DIR is missing")?;
    let directory = data_directory::DataDirectory::open(data)?;
    block::install_arena(options.buffer_memory << 20);
    let open_files = open_files::OpenFiles::prepare(
        options.sessions.connections_max,
        options.http.http_connections_max,
    );
    reactor::Reactor::start(options, directory, open_files)?.run()
}
