//! Content of virtual disks, written and read back several megabytes at a time, so that preparing
//! and checking cost little beside what is measured.

use anyhow::{Context, Result, ensure};
use vmfs::file::{File, FileContent, Fill};
use vmfs::limits::FILE_BLOCK;
use vmfs::vmdk::DiskFormat;
use vmfs::{LockMode, Place};

use crate::esxi::counters::Kind;
use crate::esxi::datastore::Datastore;
use crate::esxi::lun::Job;
use crate::initiator::cdb;
use crate::initiator::ranges::pattern;
use crate::initiator::session::Data;

/// Bytes of a READ or WRITE.
const TRANSFER: u64 = 1 << 20;

/// Sectors that are soiled at once.
const SOIL_OUTSTANDING: u64 = 64;

/// Bytes that are worked on at once.
const WINDOW: u64 = 64 << 20;

/// A disk of which some parts hold data and the rest zeros.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    /// Bytes of the disk: a multiple of 1 MiB.
    pub(super) size: u64,
    /// Bytes of data in it, spread over it in equal pieces: likewise.
    pub(super) data: u64,
    /// What the data depend on.
    pub(super) seed: u64,
}

/// Pieces that the data of a disk are spread over.
const PIECES: u64 = 8;

impl Layout {
    /// The parts with data: offset and length, in order.
    pub(super) fn parts(&self) -> Vec<[u64; 2]> {
        let (stride, piece) = (self.size / PIECES, self.data.div_ceil(PIECES));
        if self.data >= self.size || stride < FILE_BLOCK {
            return vec![[0, self.data.min(self.size)]];
        }
        let stride = stride / FILE_BLOCK * FILE_BLOCK;
        let piece = piece.next_multiple_of(FILE_BLOCK).min(stride);
        let parts = (0..PIECES).map(|number| [number * stride, piece]);
        let mut left = self.data;
        let parts = parts.map(|[offset, length]| {
            let taken = length.min(left);
            left -= taken;
            [offset, taken]
        });
        parts.filter(|part| part[1] > 0).collect()
    }

    /// What lies at an offset, for one transfer that does not cross a part's edge.
    fn bytes(&self, offset: u64, length: u64) -> Vec<u8> {
        let inside = self.parts().iter().any(|[at, size]| (*at..at + size).contains(&offset));
        if inside { pattern(self.seed, offset, length) } else { vec![0; length as usize] }
    }
}

/// Creates a disk and writes its data.
///
/// # Errors
/// As the datastore.
pub(super) fn create(
    store: &mut Datastore,
    path: &str,
    layout: &Layout,
    format: DiskFormat,
) -> Result<()> {
    let mut file = store.volume.create_disk(path, layout.size, format)?;
    let written = write_all(store, &mut file, layout);
    store.volume.close(file)?;
    written
}

fn write_all(store: &mut Datastore, file: &mut File, layout: &Layout) -> Result<()> {
    for [offset, length] in layout.parts() {
        for at in (offset..offset + length).step_by(WINDOW as usize) {
            write(store, file, layout, [at, WINDOW.min(offset + length - at)])?;
            store.volume.pulse_if_due()?;
        }
    }
    Ok(())
}

/// Writes a part of a disk's data; whole blocks of the file system.
///
/// # Errors
/// As the datastore.
pub(super) fn write(
    store: &mut Datastore,
    file: &mut File,
    layout: &Layout,
    range: [u64; 2],
) -> Result<()> {
    store.volume.allocate(file, range, Fill::ToBeZeroed)?;
    for extent in store.volume.extents(file, range[0], range[1])? {
        let (FileContent::Data(at) | FileContent::ToBeZeroed(at)) = extent.content else {
            continue;
        };
        let disk = store.lun(at)?;
        disk.over([0, extent.length], TRANSFER, |done, length| Job {
            tag: 0,
            kind: Kind::Write,
            cdb: cdb::write((at.at + done) / 512, (length / 512) as u32),
            data: Data::Out(pattern(layout.seed, extent.offset + done, length)),
            bytes: length,
        })?;
    }
    Ok(store.volume.mark_written(file, range)?)
}

/// Reads a whole disk back and compares; returns where it differs first.
///
/// # Errors
/// As the datastore.
pub(super) fn first_difference(
    store: &mut Datastore,
    path: &str,
    layout: &Layout,
) -> Result<Option<u64>> {
    let file = store.volume.open_disk(path, LockMode::ReadOnly)?;
    let found = compare(store, &file, layout);
    store.volume.close(file)?;
    found
}

/// As [`first_difference`]; a difference is an error.
///
/// # Errors
/// When the disk holds something else.
pub(super) fn check(store: &mut Datastore, path: &str, layout: &Layout) -> Result<()> {
    let different = first_difference(store, path, layout)?;
    ensure!(
        different.is_none(),
        "WRONG CONTENTS: {path} differs from byte {} on from what it should hold",
        different.unwrap_or(0)
    );
    Ok(())
}

fn compare(store: &mut Datastore, file: &File, layout: &Layout) -> Result<Option<u64>> {
    ensure!(file.length() == layout.size, "the disk has another size than it was given");
    for offset in (0..layout.size).step_by(WINDOW as usize) {
        let length = WINDOW.min(layout.size - offset);
        for extent in store.volume.extents(file, offset, length)? {
            let different = match extent.content {
                FileContent::Data(at) => {
                    compare_data(store, at, [extent.offset, extent.length], layout)?
                }
                FileContent::Hole | FileContent::ToBeZeroed(_) => {
                    should_be_empty([extent.offset, extent.length], layout)
                }
            };
            if different.is_some() {
                return Ok(different);
            }
        }
        store.volume.pulse_if_due()?;
    }
    Ok(None)
}

/// The first byte with data in a range that the file system says is empty.
fn should_be_empty([offset, length]: [u64; 2], layout: &Layout) -> Option<u64> {
    let overlap = |[at, size]: &[u64; 2]| {
        let from = offset.max(*at);
        (from < (offset + length).min(at + size)).then_some(from)
    };
    layout.parts().iter().find_map(overlap)
}

fn compare_data(
    store: &mut Datastore,
    place: Place,
    [offset, length]: [u64; 2],
    layout: &Layout,
) -> Result<Option<u64>> {
    let (lun, at) = (store.lun(place)?, place.at);
    let (mut next, mut first) = (0, None::<u64>);
    while next < length || lun.in_flight() > 0 {
        while next < length && lun.in_flight() < lun.settings.outstanding as usize {
            let taken = TRANSFER.min(length - next);
            lun.submit(Job {
                tag: next,
                kind: Kind::Read,
                cdb: cdb::read((at + next) / 512, (taken / 512) as u32),
                data: Data::In(vec![0xee; taken as usize]),
                bytes: taken,
            })?;
            next += taken;
        }
        for done in lun.wait()? {
            done.result?;
            let Data::In(bytes) = done.data else { continue };
            let wanted = layout.bytes(offset + done.tag, bytes.len() as u64);
            let different = bytes.iter().zip(&wanted).position(|(is, should)| is != should);
            let different = different.map(|place| offset + done.tag + place as u64);
            first = [first, different].into_iter().flatten().min();
        }
    }
    Ok(first)
}

/// Writes something into the first sector of each megabyte of a disk's blocks, so that whoever
/// says to zero the same blocks later, and does not, is found out.
///
/// # Errors
/// As the datastore.
pub(super) fn soil(store: &mut Datastore, path: &str) -> Result<()> {
    for (place, length) in places(store, path)? {
        let lun = store.lun(place)?;
        let outstanding = std::mem::replace(&mut lun.settings.outstanding, SOIL_OUTSTANDING);
        let soiled = lun.over([place.at, length], FILE_BLOCK, |at, _| Job {
            tag: 0,
            kind: Kind::Write,
            cdb: cdb::write(at / 512, 1),
            data: Data::Out(vec![0xd1; 512]),
            bytes: 512,
        });
        lun.settings.outstanding = outstanding;
        soiled?;
    }
    Ok(())
}

/// Deletes a disk and gives its blocks back to the array at once, as VMFS-6 does.
///
/// # Errors
/// As the datastore, or when the array refuses UNMAP.
pub(super) fn remove_and_unmap(store: &mut Datastore, path: &str) -> Result<()> {
    let places = places(store, path)?;
    store.volume.remove_disk(path)?;
    unmap(store, &places)
}

/// Where the blocks of a disk lie: place and length.
///
/// # Errors
/// As the datastore.
pub(super) fn places(store: &mut Datastore, path: &str) -> Result<Vec<(Place, u64)>> {
    let file = store.volume.open_disk(path, LockMode::ReadOnly)?;
    let extents = store.volume.extents(&file, 0, file.length());
    store.volume.close(file)?;
    let place = |extent: &vmfs::file::FileExtent| match extent.content {
        FileContent::Data(at) | FileContent::ToBeZeroed(at) => Some((at, extent.length)),
        FileContent::Hole => None,
    };
    Ok(extents?.iter().filter_map(place).collect())
}

/// Gives ranges of a LUN back.
///
/// # Errors
/// When the array refuses UNMAP.
pub(super) fn unmap(store: &mut Datastore, places: &[(Place, u64)]) -> Result<()> {
    for (place, length) in places {
        let unmapped = store.lun(*place)?.unmap_range([place.at, *length]);
        unmapped.context("giving space back")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn data_are_spread_over_the_disk_and_add_up() {
        let spread = Layout { size: 64 * MIB, data: 20 * MIB, seed: 1 };
        let parts = spread.parts();
        assert_eq!(parts.iter().map(|part| part[1]).sum::<u64>(), 20 * MIB);
        assert_eq!((parts[0], parts[1]), ([0, 3 * MIB], [8 * MIB, 3 * MIB]));
        assert!(parts.iter().all(|[at, size]| at + size <= spread.size));
        let whole = Layout { data: 64 * MIB, ..spread.clone() };
        assert_eq!(whole.parts(), [[0, 64 * MIB]]);
        let small = Layout { size: 4 * MIB, data: 2 * MIB, seed: 1 };
        assert_eq!(small.parts(), [[0, 2 * MIB]]);
        assert_eq!(Layout { data: 0, ..spread }.parts(), Vec::<[u64; 2]>::new());
    }

    #[test]
    fn a_hole_where_data_should_be_is_found() {
        let layout = Layout { size: 64 * MIB, data: 16 * MIB, seed: 1 };
        assert_eq!(should_be_empty([2 * MIB, 6 * MIB], &layout), None);
        assert_eq!(should_be_empty([2 * MIB, 7 * MIB], &layout), Some(8 * MIB));
        assert_eq!(should_be_empty([MIB, MIB], &layout), Some(MIB));
    }
}
