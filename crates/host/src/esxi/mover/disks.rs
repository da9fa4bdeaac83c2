//! Whole virtual disks: clone, move, inflate, zero, punch, reclaim.

use anyhow::{Context, Result, ensure};
use vmfs::file::{File, FileContent, FileExtent, Fill};
use vmfs::limits::FILE_BLOCK;
use vmfs::vmdk::{DiskDescriptor, DiskFormat};
use vmfs::{LockMode, Place};

use super::copy::{Between, Destination, Piece};
use super::decide::{CloneFacts, Fallback, decide};
use super::window::Windows;
use super::{Progress, Report, chain, tell, thin};
use crate::esxi::datastore::Datastore;
use crate::esxi::lun::Identity;

/// A clone to make: numbers of datastores and paths in them.
#[derive(Clone, Copy, Debug)]
pub struct Clone<'a> {
    /// The source's datastore and path.
    pub source: (usize, &'a str),
    /// The destination's.
    pub destination: (usize, &'a str),
    /// The destination's format.
    pub format: DiskFormat,
    /// What the virtual machine is like.
    pub machine: MachineState,
}

/// A virtual machine whose disk is cloned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MachineState {
    /// Powered off, or none.
    Still,
    /// It has a snapshot.
    HasSnapshot,
    /// Powered on, a Windows guest that is quiesced: `disk.EnableUUID` is TRUE.
    Quiesced,
}

/// A virtual machine that writes while its disk moves. Gets the number of bytes that are copied
/// for good; returns what it writes next: offset and bytes, of whole sectors.
pub type LiveWriter<'a> = dyn FnMut(u64) -> Option<(u64, Vec<u8>)> + 'a;

struct Open {
    source: File,
    destination: File,
    size: u64,
    reason: Option<Fallback>,
    /// A thick disk becomes thin.
    leaves_zeros: bool,
}

/// Clones a virtual disk.
///
/// # Errors
/// [`super::Cancelled`], and whatever the datastores say; nothing is left of the destination then.
pub fn clone(
    stores: &mut [Datastore],
    order: Clone<'_>,
    progress: &mut Progress<'_>,
) -> Result<Report> {
    let (store, path) = order.source;
    if stores[store].volume.disk_descriptor(path)?.parent.is_some() {
        return chain::clone(stores, order, progress);
    }
    let open = begin(stores, order, LockMode::ReadOnly)?;
    copy(stores, order, open, progress, &mut |_| None)
}

/// Moves a virtual disk to another place while a virtual machine writes to it: what it writes goes
/// to both sides once a region is copied. The source is deleted at the end.
///
/// # Errors
/// As [`clone`]; the source stays then.
pub fn storage_vmotion(
    stores: &mut [Datastore],
    order: Clone<'_>,
    progress: &mut Progress<'_>,
    writer: &mut LiveWriter<'_>,
) -> Result<Report> {
    let report = mirror_copy(stores, order, progress, writer)?;
    let (store, path) = order.source;
    stores[store].volume.remove_disk(path)?;
    Ok(report)
}

/// As [`storage_vmotion`], but the source stays.
///
/// # Errors
/// As [`clone`]; a disk with snapshots is refused.
pub fn mirror_copy(
    stores: &mut [Datastore],
    order: Clone<'_>,
    progress: &mut Progress<'_>,
    writer: &mut LiveWriter<'_>,
) -> Result<Report> {
    let (store, path) = order.source;
    let parent = stores[store].volume.disk_descriptor(path)?.parent;
    ensure!(parent.is_none(), "{path} is a snapshot's redo log: remove the snapshots first");
    let open = begin(stores, order, LockMode::Exclusive)?;
    copy(stores, order, open, progress, writer)
}

fn copy(
    stores: &mut [Datastore],
    order: Clone<'_>,
    mut open: Open,
    progress: &mut Progress<'_>,
    writer: &mut LiveWriter<'_>,
) -> Result<Report> {
    let mut report = Report::default();
    let copied = copy_windows(stores, order, &mut open, &mut report, progress, writer);
    finish(stores, order, open, copied)?;
    Ok(report)
}

/// What the decision depends on, for two disks on datastores.
pub(super) fn facts(
    stores: &mut [Datastore],
    order: Clone<'_>,
    descriptor: &DiskDescriptor,
    is_eager: bool,
) -> CloneFacts {
    let source = identities(&mut stores[order.source.0]);
    let destination = identities(&mut stores[order.destination.0]);
    let all = || source.iter().chain(&destination);
    let alignment = all().map(Identity::copy_alignment).max().unwrap_or(1);
    let spans_arrays = |luns: &[Identity]| luns.iter().any(|lun| !lun.same_array(&luns[0]));
    let lun = stores[order.destination.0].volume.disk();
    CloneFacts {
        enabled: lun.settings.hardware_accelerated_move,
        clone_status: lun.vaai.clone,
        identified: all().all(|lun| lun.naa.is_some()),
        same_array: destination[0].same_array(&source[0]),
        block_sizes: [FILE_BLOCK; 2],
        only_source_is_rdm: false,
        eager_to_thin: is_eager && !descriptor.thin && order.format == DiskFormat::Thin,
        quiesced: order.machine == MachineState::Quiesced,
        has_snapshot: order.machine == MachineState::HasSnapshot,
        sparse: descriptor.parent.is_some() && order.machine != MachineState::HasSnapshot,
        aligned: descriptor.size.is_multiple_of(alignment),
        extents_on_other_arrays: spans_arrays(&source) || spans_arrays(&destination),
    }
}

/// What the LUNs of a datastore say of themselves, the head first.
pub(super) fn identities(store: &mut Datastore) -> Vec<Identity> {
    store.volume.disks().map(|lun| lun.identity.clone()).collect()
}

fn begin(stores: &mut [Datastore], order: Clone<'_>, mode: LockMode) -> Result<Open> {
    let (from, path) = order.source;
    let descriptor = stores[from].volume.disk_descriptor(path)?;
    let source = stores[from].volume.open_disk(path, mode)?;
    let is_eager = source.allocated() >= descriptor.size && source.to_be_zeroed() == 0;
    let facts = facts(stores, order, &descriptor, is_eager);
    let (reason, leaves_zeros) = (decide(&facts), facts.eager_to_thin);
    let ((to, path), size) = (order.destination, descriptor.size);
    match stores[to].volume.create_disk(path, size, order.format) {
        Ok(destination) => Ok(Open { source, destination, size, reason, leaves_zeros }),
        Err(error) => {
            stores[from].volume.close(source)?;
            Err(error.into())
        }
    }
}

fn finish(
    stores: &mut [Datastore],
    order: Clone<'_>,
    open: Open,
    copied: Result<()>,
) -> Result<()> {
    stores[order.source.0].volume.close(open.source)?;
    let (to, path) = order.destination;
    stores[to].volume.close(open.destination)?;
    if copied.is_err() {
        stores[to].volume.remove_disk(path)?;
    }
    copied
}

fn copy_windows(
    stores: &mut [Datastore],
    order: Clone<'_>,
    open: &mut Open,
    report: &mut Report,
    progress: &mut Progress<'_>,
    writer: &mut LiveWriter<'_>,
) -> Result<()> {
    for [offset, length] in Windows::over(open.size) {
        copy_window(stores, order, open, report, [offset, length])?;
        while let Some((at, bytes)) = writer(offset + length) {
            mirror(stores, order, open, offset + length, (at, &bytes))?;
        }
        stores[order.source.0].volume.pulse_if_due()?;
        stores[order.destination.0].volume.pulse_if_due()?;
        tell(progress, offset + length, open.size)?;
    }
    Ok(())
}

/// A write of the virtual machine: to the source, and to the destination where that is copied.
fn mirror(
    stores: &mut [Datastore],
    order: Clone<'_>,
    open: &mut Open,
    copied: u64,
    (at, bytes): (u64, &[u8]),
) -> Result<()> {
    ensure!(at + bytes.len() as u64 <= open.size, "a write beyond the disk's end");
    stores[order.source.0].volume.write_at(&mut open.source, at, bytes)?;
    if at >= copied {
        return Ok(());
    }
    let both = bytes.len().min((copied - at) as usize);
    Ok(stores[order.destination.0].volume.write_at(&mut open.destination, at, &bytes[..both])?)
}

fn copy_window(
    stores: &mut [Datastore],
    order: Clone<'_>,
    open: &mut Open,
    report: &mut Report,
    [offset, length]: [u64; 2],
) -> Result<()> {
    let (from, to) = (order.source.0, order.destination.0);
    let whole = stores[from].volume.extents(&open.source, offset, length)?;
    for extent in whole {
        let range = [extent.offset, extent.length];
        let FileContent::Data(source_at) = extent.content else {
            fill_hole(&mut stores[to], order.format, &mut open.destination, range, report)?;
            continue;
        };
        if let (true, Some(reason)) = (open.leaves_zeros, open.reason) {
            let (source, destination) = ((from, source_at), (to, &mut open.destination));
            thin::copy(stores, source, destination, range, reason, report)?;
            continue;
        }
        let store = &mut stores[to].volume;
        store.allocate(&mut open.destination, blocks_around(range), Fill::ToBeZeroed)?;
        let places = store.extents(&open.destination, extent.offset, extent.length)?;
        let pieces = pair(source_at, extent.offset, &places)?;
        let to_store = Destination::Store(to);
        Between { stores, from, to: to_store }.copy(&pieces, open.reason, report)?;
        zero_rest(&mut stores[to], &open.destination, range)?;
        stores[to].volume.mark_written(&mut open.destination, blocks_around(range))?;
    }
    Ok(())
}

/// The last block of a disk may be longer than the disk; nobody reads there, but a larger disk
/// would.
fn zero_rest(store: &mut Datastore, file: &File, [offset, length]: [u64; 2]) -> Result<()> {
    let end = offset + length;
    let rest = end.next_multiple_of(FILE_BLOCK) - end;
    if rest == 0 {
        return Ok(());
    }
    for extent in store.volume.extents(file, end, rest)? {
        if let FileContent::Data(at) | FileContent::ToBeZeroed(at) = extent.content {
            store.lun(at)?.zero_range([at.at, extent.length])?;
        }
    }
    Ok(())
}

fn blocks_around([offset, length]: [u64; 2]) -> [u64; 2] {
    let start = offset / FILE_BLOCK * FILE_BLOCK;
    [start, (offset + length).next_multiple_of(FILE_BLOCK) - start]
}

/// What is a hole in the source is one in a thin destination, is left to be zeroed in a zeroed
/// thick one, and is zeroed in an eager zeroed one.
fn fill_hole(
    store: &mut Datastore,
    format: DiskFormat,
    file: &mut File,
    range: [u64; 2],
    report: &mut Report,
) -> Result<()> {
    if format == DiskFormat::EagerZeroedThick {
        zero_to_be_zeroed(store, file, range, report)
    } else {
        report.skipped_bytes += range[1];
        Ok(())
    }
}

fn pair(source_at: Place, offset: u64, places: &[FileExtent]) -> Result<Vec<Piece>> {
    let piece = |extent: &FileExtent| match extent.content {
        FileContent::Data(to) | FileContent::ToBeZeroed(to) => {
            Some(Piece { from: source_at.plus(extent.offset - offset), to, length: extent.length })
        }
        FileContent::Hole => None,
    };
    places.iter().map(piece).collect::<Option<_>>().context("blocks were allocated before")
}

/// Zeroes the blocks of a range that are to be, and says of them that they are.
pub(super) fn zero_to_be_zeroed(
    store: &mut Datastore,
    file: &mut File,
    [offset, length]: [u64; 2],
    report: &mut Report,
) -> Result<()> {
    let [start, whole] = blocks_around([offset, length]);
    let extents = store.volume.extents(file, start, whole)?;
    let mut zeroed = 0;
    for extent in extents {
        if let FileContent::ToBeZeroed(at) = extent.content {
            store.lun(at)?.zero_range([at.at, extent.length])?;
            zeroed += extent.length;
        }
    }
    report.zeroed_bytes += zeroed;
    if zeroed > 0 {
        store.volume.mark_written(file, [start, whole])?;
    }
    Ok(())
}

/// Runs a step over the windows of a disk, which stays open for it.
fn over_windows(
    store: &mut Datastore,
    file: File,
    progress: &mut Progress<'_>,
    mut step: impl FnMut(&mut Datastore, &mut File, [u64; 2]) -> Result<()>,
) -> Result<()> {
    let size = file.length();
    let mut file = file;
    let mut work = || -> Result<()> {
        for [offset, length] in Windows::over(size) {
            step(store, &mut file, [offset, length])?;
            store.volume.pulse_if_due()?;
            tell(progress, offset + length, size)?;
        }
        Ok(())
    };
    let done = work();
    store.volume.close(file)?;
    done
}

/// Zeroes what is to be zeroed: a zeroed thick disk becomes an eager zeroed one (`-k`). Also the
/// second half of creating one.
///
/// # Errors
/// [`super::Cancelled`]: what is not zeroed yet is still marked so.
pub fn eager_zero(
    store: &mut Datastore,
    file: File,
    progress: &mut Progress<'_>,
) -> Result<Report> {
    let mut report = Report::default();
    over_windows(store, file, progress, |store, file, range| {
        zero_to_be_zeroed(store, file, range, &mut report)
    })?;
    Ok(report)
}

/// Makes a thin disk thick and zeroed (`-j`).
///
/// # Errors
/// [`super::Cancelled`]; no space.
pub fn inflate(store: &mut Datastore, file: File, progress: &mut Progress<'_>) -> Result<Report> {
    let mut report = Report::default();
    over_windows(store, file, progress, |store, file, range| {
        store.volume.allocate(file, blocks_around(range), Fill::ToBeZeroed)?;
        zero_to_be_zeroed(store, file, range, &mut report)
    })?;
    Ok(report)
}

/// Overwrites a whole disk with zeros (`-w`).
///
/// # Errors
/// [`super::Cancelled`]: part of it is zeroed.
pub fn overwrite_with_zeros(
    store: &mut Datastore,
    file: File,
    progress: &mut Progress<'_>,
) -> Result<Report> {
    let mut report = Report::default();
    over_windows(store, file, progress, |store, file, range| {
        let around = blocks_around(range);
        store.volume.allocate(file, around, Fill::ToBeZeroed)?;
        for extent in store.volume.extents(file, around[0], around[1])? {
            if let FileContent::Data(at) | FileContent::ToBeZeroed(at) = extent.content {
                store.lun(at)?.zero_range([at.at, extent.length])?;
                report.zeroed_bytes += extent.length;
            }
        }
        Ok(store.volume.mark_written(file, around)?)
    })?;
    Ok(report)
}

/// Gives back the blocks of a disk that hold only zeros (`-K`), and unmaps them.
///
/// # Errors
/// [`super::Cancelled`]: part of it is done.
pub fn punch_zeros(
    store: &mut Datastore,
    file: File,
    progress: &mut Progress<'_>,
) -> Result<Report> {
    let mut report = Report::default();
    over_windows(store, file, progress, |store, file, [offset, length]| {
        for at in (offset..offset + length).step_by(FILE_BLOCK as usize) {
            let extent = store.volume.extents(file, at, FILE_BLOCK)?[0];
            let place = match extent.content {
                FileContent::Hole => continue,
                FileContent::ToBeZeroed(place) => place,
                FileContent::Data(place) => {
                    let bytes = store.lun(place)?.read_bytes(place.at, FILE_BLOCK)?;
                    if bytes.iter().any(|byte| *byte != 0) {
                        continue;
                    }
                    place
                }
            };
            store.lun(place)?.unmap_range([place.at, FILE_BLOCK])?;
            store.volume.punch(file, [at, FILE_BLOCK])?;
            report.unmapped_bytes += FILE_BLOCK;
        }
        Ok(())
    })?;
    Ok(report)
}

/// A guest's UNMAP of a range of its thin disk: whole blocks in it are given back to the datastore;
/// with /VMFS3/EnableBlockDelete also to the array. Other disks have nothing to give back.
///
/// # Errors
/// When the array refuses UNMAP; a range beyond the disk.
pub fn guest_unmap(
    store: &mut Datastore,
    path: &str,
    [offset, length]: [u64; 2],
) -> Result<Report> {
    let descriptor = store.volume.disk_descriptor(path)?;
    let end = offset.checked_add(length).filter(|end| *end <= descriptor.size);
    let end = end.context("a range beyond the end of the disk")?;
    let (first, end) = (offset.next_multiple_of(FILE_BLOCK), end / FILE_BLOCK * FILE_BLOCK);
    let mut report = Report::default();
    if !descriptor.thin || first >= end {
        return Ok(report);
    }
    let mut file = store.volume.open_disk(path, LockMode::Exclusive)?;
    let mut give_back = || -> Result<()> {
        if store.volume.disk().settings.enable_block_delete {
            for extent in store.volume.extents(&file, first, end - first)? {
                if let FileContent::Data(at) | FileContent::ToBeZeroed(at) = extent.content {
                    store.lun(at)?.unmap_range([at.at, extent.length])?;
                    report.unmapped_bytes += extent.length;
                }
            }
        }
        Ok(store.volume.punch(&mut file, [first, end - first])?)
    };
    let given = give_back();
    store.volume.close(file)?;
    given.map(|()| report)
}

/// Gives free blocks of the file system back to the array: takes `blocks` of them at a time into a
/// temporary file, unmaps them, until all of the wanted bytes were taken (`-y`, `esxcli storage
/// vmfs unmap`).
///
/// # Errors
/// When the array refuses UNMAP. The temporary file goes in any case.
pub fn reclaim(
    store: &mut Datastore,
    [bytes, blocks]: [u64; 2],
    progress: &mut Progress<'_>,
) -> Result<Report> {
    let name = format!(".asyncUnmapFile{}", std::process::id());
    let mut file = store.volume.create(&name)?;
    let mut report = Report::default();
    let unmapped =
        unmap_free(store, &mut file, [bytes, blocks * FILE_BLOCK], &mut report, progress);
    store.volume.close(file)?;
    store.volume.remove_path(&name)?;
    unmapped?;
    Ok(report)
}

fn unmap_free(
    store: &mut Datastore,
    file: &mut File,
    [bytes, step]: [u64; 2],
    report: &mut Report,
    progress: &mut Progress<'_>,
) -> Result<()> {
    store.volume.set_length(file, bytes.next_multiple_of(FILE_BLOCK))?;
    for offset in (0..bytes).step_by(step as usize) {
        let length = step.min(bytes - offset).next_multiple_of(FILE_BLOCK);
        // All that was free may have been taken by others meanwhile: then there is nothing left.
        match store.volume.allocate(file, [offset, length], Fill::AsIs) {
            Err(vmfs::Error::NoSpace) => return Ok(()),
            other => other?,
        }
        for extent in store.volume.extents(file, offset, length)? {
            if let FileContent::Data(at) = extent.content {
                store.lun(at)?.unmap_range([at.at, extent.length])?;
                report.unmapped_bytes += extent.length;
            }
        }
        tell(progress, offset + length, bytes)?;
    }
    Ok(())
}
