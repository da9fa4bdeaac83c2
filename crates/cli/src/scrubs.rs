//! Subcommands for scrubs.

use anyhow::Result;
use api::{Scrub, StartScrub};
use clap::Subcommand;
use reqwest::Method;

use crate::commands::Invocation;
use crate::pools::pool_route;
use crate::tables::{Table, table};
use notation::{format_size, parse_size};

#[derive(Debug, Subcommand)]
pub(crate) enum ScrubCommand {
    /// Read all that a pool holds and compare it with its checksums, in the background. If a scrub
    /// is under way, its rate is changed.
    Start {
        pool: String,
        /// Bytes per second that are read at most, for example 50M.
        #[arg(long, default_value = "200M", value_parser = parse_size)]
        rate: u64,
    },
    /// End a scrub that is under way.
    Stop { pool: String },
    /// Show how a scrub is doing, or how the last one ended: every bad place by volume and LBA.
    Show { pool: String },
}

impl Invocation {
    pub(crate) fn scrub(&self, command: &ScrubCommand) -> Result<()> {
        match command {
            ScrubCommand::Start { pool, rate } => {
                let body = StartScrub { rate_bytes: Some(*rate) };
                self.changed::<Scrub>(Method::PUT, &scrub_route(pool)?, &body, |_| {
                    let rate = format_size(*rate);
                    format!("Pool {pool} is being scrubbed, {rate} per second at most.")
                })
            }
            ScrubCommand::Stop { pool } => {
                self.delete(&scrub_route(pool)?, &format!("Pool {pool} is not being scrubbed."))
            }
            ScrubCommand::Show { pool } => {
                self.show(&self.client.get::<Scrub>(&scrub_route(pool)?)?, scrub_details)
            }
        }
    }
}

fn scrub_route(pool: &str) -> Result<String> {
    Ok(format!("{}/scrub", pool_route(pool)?))
}

fn scrub_details(scrub: &Scrub) -> Table {
    let mut rows = table(&[]);
    let state = match (scrub.running, scrub.complete, scrub.scanned_bytes) {
        (true, ..) => "running",
        (_, true, _) => "complete",
        (_, _, 0) => "none since the start",
        _ => "stopped",
    };
    let scanned =
        format!("{} of {}", format_size(scrub.scanned_bytes), format_size(scrub.total_bytes));
    for (name, value) in [
        ("Pool", scrub.pool.clone()),
        ("State", state.to_owned()),
        ("Compared", scanned),
        ("Rate, at most", format!("{} per second", format_size(scrub.rate_bytes))),
        ("Bad blocks", scrub.bad_blocks.to_string()),
        ("Bad pages of the map", scrub.bad_pages.to_string()),
        ("Repaired pages", scrub.repaired_pages.to_string()),
    ] {
        rows.add_row([name.to_owned(), value]);
    }
    for bad in &scrub.bad {
        let last = bad.lba + bad.blocks.max(1) - 1;
        let place = format!("{}/{}, LBA {} to {last}", scrub.pool, bad.volume, bad.lba);
        rows.add_row(["Bad".to_owned(), place]);
    }
    rows
}
