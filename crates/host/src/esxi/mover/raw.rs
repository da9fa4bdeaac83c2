//! Clones a virtual disk to a raw device: what Forklift's populator asks ESXi for by `vmkfstools -i DISK
//! -d rdm:DEVICE MAPPING`.

use anyhow::{Context, Result, ensure};
use vmfs::file::{File, FileContent};
use vmfs::limits::FILE_BLOCK;
use vmfs::vmdk::DiskDescriptor;
use vmfs::{LockMode, Place};

use super::copy::{Between, Destination, Piece};
use super::decide::{CloneFacts, Fallback, decide};
use super::disks::identities;
use super::window::Windows;
use super::{Progress, Report, tell};
use crate::esxi::datastore::Datastore;
use crate::esxi::lun::{Identity, Lun};

/// Clones the disk of a path to the first bytes of a device, by EXTENDED COPY unless there is a reason not
/// to. What the disk does not hold is zeroed on the device, whatever was there.
///
/// # Errors
/// [`super::Cancelled`], after which part of the device is written; a device that is smaller than the
/// disk, before anything is written.
pub fn clone_to_device(
    store: &mut Datastore,
    path: &str,
    lun: &mut Lun,
    progress: &mut Progress<'_>,
) -> Result<Report> {
    let descriptor = store.volume.disk_descriptor(path)?;
    let (disk, device) = (descriptor.size, lun.identity.size_bytes);
    ensure!(
        device >= disk,
        "Failed to clone disk: {} has {device} bytes, the disk {disk}: choose a larger device",
        lun.identity.name()
    );
    let mut report = Report::default();
    let reason = decide(&facts(store, lun, &descriptor));
    if descriptor.parent.is_some() {
        let reason = reason.unwrap_or(Fallback::Sparse);
        from_chain(store, path, (lun, reason), &mut report, progress)?;
        return Ok(report);
    }
    let source = store.volume.open_disk(path, LockMode::ReadOnly)?;
    let copied = from_disk(store, &source, (lun, reason), disk, &mut report, progress);
    store.volume.close(source)?;
    copied.map(|()| report)
}

fn facts(store: &mut Datastore, lun: &Lun, descriptor: &DiskDescriptor) -> CloneFacts {
    let source = identities(store);
    let alignments = source.iter().chain([&lun.identity]).map(Identity::copy_alignment);
    CloneFacts {
        enabled: lun.settings.hardware_accelerated_move,
        clone_status: lun.vaai.clone,
        identified: source.iter().chain([&lun.identity]).all(|one| one.naa.is_some()),
        same_array: source.iter().all(|one| one.same_array(&lun.identity)),
        block_sizes: [FILE_BLOCK; 2],
        only_source_is_rdm: false,
        eager_to_thin: false,
        sparse: descriptor.parent.is_some(),
        quiesced: false,
        has_snapshot: false,
        aligned: descriptor.size.is_multiple_of(alignments.max().unwrap_or(1)),
        extents_on_other_arrays: source.iter().any(|one| !one.same_array(&source[0])),
    }
}

fn from_disk(
    store: &mut Datastore,
    source: &File,
    (lun, reason): (&mut Lun, Option<Fallback>),
    size: u64,
    report: &mut Report,
    progress: &mut Progress<'_>,
) -> Result<()> {
    for [offset, length] in Windows::over(size) {
        for extent in store.volume.extents(source, offset, length)? {
            let FileContent::Data(from) = extent.content else {
                lun.zero_range([extent.offset, extent.length])?;
                report.zeroed_bytes += extent.length;
                continue;
            };
            let to = Place { disk: 0, at: extent.offset };
            let pieces = [Piece { from, to, length: extent.length }];
            let (stores, to) = (std::slice::from_mut(store), Destination::Device(&mut *lun));
            Between { stores, from: 0, to }.copy(&pieces, reason, report)?;
        }
        store.volume.pulse_if_due()?;
        tell(progress, offset + length, size)?;
    }
    Ok(())
}

/// A disk with snapshots is read through its redo logs.
fn from_chain(
    store: &mut Datastore,
    path: &str,
    (lun, reason): (&mut Lun, Fallback),
    report: &mut Report,
    progress: &mut Progress<'_>,
) -> Result<()> {
    let mut chain = store.volume.open_chain(path, LockMode::ReadOnly)?;
    let size = chain.size();
    let mut work = || -> Result<()> {
        for offset in (0..size).step_by(FILE_BLOCK as usize) {
            let mut bytes = vec![0; FILE_BLOCK.min(size - offset) as usize];
            store.volume.read_chain(&mut chain, offset, &mut bytes)?;
            let length = bytes.len() as u64;
            if bytes.iter().any(|byte| *byte != 0) {
                vmfs::Disk::write(lun, offset, &bytes).context("writing to the device")?;
                report.host_bytes += length;
            } else {
                lun.zero_range([offset, length])?;
                report.zeroed_bytes += length;
            }
            store.volume.pulse_if_due()?;
            tell(progress, offset + length, size)?;
        }
        Ok(())
    };
    let done = work();
    store.volume.close_chain(chain)?;
    report.fallbacks.insert(reason.to_string(), report.host_bytes);
    done
}
