//! Clones of disks with snapshots: read through the redo logs, and so never offloaded.

use anyhow::Result;
use vmfs::LockMode;
use vmfs::chain::Chain;
use vmfs::file::File;
use vmfs::limits::FILE_BLOCK;
use vmfs::vmdk::DiskFormat;

use super::decide::{Fallback, decide};
use super::disks::{Clone, facts, zero_to_be_zeroed};
use super::{Progress, Report, tell};
use crate::esxi::datastore::Datastore;

/// Clones what a disk with snapshots shows.
pub(super) fn clone(
    stores: &mut [Datastore],
    order: Clone<'_>,
    progress: &mut Progress<'_>,
) -> Result<Report> {
    let ((from, source), (to, destination)) = (order.source, order.destination);
    let descriptor = stores[from].volume.disk_descriptor(source)?;
    let reason = decide(&facts(stores, order, &descriptor, false)).unwrap_or(Fallback::Sparse);
    let mut chain = stores[from].volume.open_chain(source, LockMode::ReadOnly)?;
    let made = stores[to].volume.create_disk(destination, chain.size(), order.format);
    let mut file = match made {
        Ok(file) => file,
        Err(error) => {
            stores[from].volume.close_chain(chain)?;
            return Err(error.into());
        }
    };
    let mut report = Report::default();
    let copied = copy(stores, order, (&mut chain, &mut file), &mut report, progress);
    stores[from].volume.close_chain(chain)?;
    stores[to].volume.close(file)?;
    if copied.is_err() {
        stores[to].volume.remove_disk(destination)?;
    }
    copied?;
    report.fallbacks.insert(reason.to_string(), report.host_bytes);
    Ok(report)
}

fn copy(
    stores: &mut [Datastore],
    order: Clone<'_>,
    (chain, file): (&mut Chain, &mut File),
    report: &mut Report,
    progress: &mut Progress<'_>,
) -> Result<()> {
    let size = chain.size();
    for offset in (0..size).step_by(FILE_BLOCK as usize) {
        let mut bytes = vec![0; FILE_BLOCK.min(size - offset) as usize];
        stores[order.source.0].volume.read_chain(chain, offset, &mut bytes)?;
        let length = bytes.len() as u64;
        let store = &mut stores[order.destination.0];
        if bytes.iter().any(|byte| *byte != 0) {
            store.volume.write_at(file, offset, &bytes)?;
            report.host_bytes += length;
        } else if order.format == DiskFormat::EagerZeroedThick {
            zero_to_be_zeroed(store, file, [offset, length], report)?;
        } else {
            report.skipped_bytes += length;
        }
        stores[order.source.0].volume.pulse_if_due()?;
        stores[order.destination.0].volume.pulse_if_due()?;
        tell(progress, offset + length, size)?;
    }
    Ok(())
}
