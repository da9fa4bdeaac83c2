//! Subcommand for changed blocks: asks for one part after the other, and shows all as one.

use anyhow::{Result, bail};
use api::{CHANGES_MAX, ChangedExtent, ExtentState, SnapshotChanges};
use clap::Args;
use notation::format_size;

use crate::commands::{Invocation, split};
use crate::snapshots::snapshot_route;

/// Which snapshots are compared, and from where on.
#[derive(Debug, Args)]
pub(crate) struct DiffArguments {
    #[arg(value_name = "POOL/NAME")]
    path: String,
    /// The older snapshot, of the same pool; without it all that the snapshot holds is shown.
    #[arg(long, value_name = "POOL/NAME")]
    base: Option<String>,
    /// Begin at this byte, a multiple of 4096.
    #[arg(long, value_name = "BYTE", default_value_t = 0)]
    offset: u64,
    /// Show so many extents at most, 1 to 10000, and say where to go on.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=CHANGES_MAX))]
    limit: Option<u64>,
}

impl DiffArguments {
    /// The query for the part that begins at a byte.
    fn route(&self, offset: u64) -> Result<String> {
        let limit = self.limit.unwrap_or(CHANGES_MAX);
        let mut route =
            format!("{}/changes?offset={offset}&limit={limit}", snapshot_route(&self.path)?);
        if let Some(base) = &self.base {
            let (pool, _) = split(&self.path)?;
            let path = if base.contains('/') { base.clone() } else { format!("{pool}/{base}") };
            let (base_pool, name) = split(&path)?;
            if base_pool != pool {
                bail!(
                    "snapshots of two pools cannot be compared: name a snapshot of pool '{pool}'"
                );
            }
            route += &format!("&base={name}");
        }
        Ok(route)
    }
}

impl Invocation {
    pub(crate) fn snapshot_changes(&self, arguments: &DiffArguments) -> Result<()> {
        let mut changes: SnapshotChanges = self.client.get(&arguments.route(arguments.offset)?)?;
        if !self.is_json() {
            terminal::say!("{:>20} {:>20}  STATE", "OFFSET", "LENGTH");
        }
        let (mut shown, mut total) = (0, 0);
        loop {
            if !self.is_json() {
                changes.extents.iter().for_each(show_extent);
                shown += changes.extents.len() as u64;
                total += changes.extents.drain(..).map(|extent| extent.length).sum::<u64>();
            }
            let Some(next) = changes.next_offset.filter(|_| arguments.limit.is_none()) else {
                break;
            };
            let more: SnapshotChanges = self.client.get(&arguments.route(next)?)?;
            join(&mut changes, more);
        }
        if self.is_json() {
            terminal::say!("{}", serde_json::to_string_pretty(&changes)?);
            return Ok(());
        }
        terminal::say!("{shown} extents, {}.", format_size(total));
        if let Some(next) = changes.next_offset {
            terminal::say!("There may be more: go on with --offset {next}.");
        }
        Ok(())
    }
}

/// Adds what comes behind; extents that were divided become one again.
fn join(changes: &mut SnapshotChanges, more: SnapshotChanges) {
    changes.next_offset = more.next_offset;
    changes.map_pages += more.map_pages;
    for extent in more.extents {
        match changes.extents.last_mut() {
            Some(last) if last.state == extent.state && end(last) == extent.offset => {
                last.length += extent.length;
            }
            _ => changes.extents.push(extent),
        }
    }
}

fn end(extent: &ChangedExtent) -> u64 {
    extent.offset + extent.length
}

fn show_extent(extent: &ChangedExtent) {
    let state = match extent.state {
        ExtentState::Data => "data",
        ExtentState::Zero => "zero",
    };
    terminal::say!("{:>20} {:>20}  {state}", extent.offset, extent.length);
}
