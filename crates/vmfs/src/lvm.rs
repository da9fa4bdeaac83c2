//! The volume manager below the file system: which bytes of the partition are the volume.

use crate::bytes::{Uuid, get_u32, get_u64, put_text, put_u32, put_u64};
use crate::limits::EXTENTS_MAX;
use crate::lock::{read_patiently, write_patiently};
use crate::{Disk, Error, Result};

const HEADER: u64 = 0x10_0000;
const MAGIC: u32 = 0xc001_d00d;
const DATA: u64 = 0x110_0000;
const EXTENT: u64 = 256 << 20;
const EXTENT_BITMAP: u64 = 0x18_0200;
const EXTENT_TABLE: u64 = 0x18_0600;
const EXTENT_ENTRY: usize = 128;

/// A logical volume on one partition.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LogicalVolume {
    /// First byte of the partition.
    pub(crate) partition: u64,
    /// The volume's byte 0 on the disk.
    pub(crate) base: u64,
    /// Bytes of the volume.
    pub(crate) size: u64,
    pub(crate) uuid: Uuid,
}

/// Writes the metadata of a volume that takes the rest of the disk from a partition's first byte.
pub(crate) fn format(
    disk: &mut impl Disk,
    partition: u64,
    device: Uuid,
    uuid: Uuid,
) -> Result<LogicalVolume> {
    let rest = disk.size_bytes().saturating_sub(partition + DATA);
    let extents = (rest / EXTENT).min(EXTENTS_MAX);
    if extents == 0 {
        return Err(Error::Format("the LUN is too small: it needs 274 MiB".into()));
    }
    let now = u64::from(disk.wall_clock()) * 1_000_000;
    let size = extents * EXTENT;
    disk.zero(partition + HEADER, DATA - HEADER)?;
    let mut header = [0; 1024];
    device_metadata(&mut header[..512], size + DATA - HEADER, extents, device, now);
    volume_metadata(&mut header[512..], size, extents, uuid, now);
    disk.write(partition + HEADER, &header)?;
    write_extents(disk, partition, extents)?;
    Ok(LogicalVolume { partition, base: partition + DATA, size, uuid })
}

fn device_metadata(out: &mut [u8], total: u64, extents: u64, device: Uuid, now: u64) {
    put_u32(out, 0x00, MAGIC);
    put_u32(out, 0x04, 5);
    put_u32(out, 0x5a, 512);
    put_u64(out, 0x5e, total);
    put_u32(out, 0x66, 1);
    put_u32(out, 0x6a, extents as u32);
    put_u32(out, 0x6e, extents as u32 - 1);
    put_u64(out, 0x72, 1);
    put_u64(out, 0x7a, DATA);
    device.put(out, 0x82);
    put_u64(out, 0x92, now);
    put_u64(out, 0x9a, now);
    put_u32(out, 0xbe, 1);
}

fn volume_metadata(out: &mut [u8], size: u64, extents: u64, uuid: Uuid, now: u64) {
    put_u64(out, 0x00, size);
    put_u64(out, 0x08, 1);
    put_u32(out, 0x10, 1);
    put_text(out, 0x14, 64, &uuid.to_string());
    uuid.put(out, 0x54);
    put_u64(out, 0x68, now);
    put_u32(out, 0x74, extents as u32);
    put_u64(out, 0x80, extents - 1);
    put_u64(out, 0x88, now);
    put_u32(out, 0x90, 1);
}

fn write_extents(disk: &mut impl Disk, partition: u64, extents: u64) -> Result<()> {
    let mut bitmap = vec![0_u8; 1024];
    let mut table = vec![0; extents as usize * EXTENT_ENTRY];
    for (number, entry) in table.chunks_mut(EXTENT_ENTRY).enumerate() {
        bitmap[number / 8] |= 1 << (number % 8);
        let logical = number as u64 * EXTENT;
        entry[0] = 1;
        put_u32(entry, 1, number as u32);
        put_u64(entry, 9, DATA + logical);
        put_u64(entry, 17, logical);
        put_u64(entry, 25, EXTENT);
        put_u32(entry, 33, 1);
    }
    table.resize(table.len().next_multiple_of(512), 0);
    write_patiently(disk, partition + EXTENT_TABLE, &table)?;
    write_patiently(disk, partition + EXTENT_BITMAP, &bitmap)
}

/// Lets the volume take what the disk has more than it takes now, in whole extents. The last sector
/// that is written is the one that tells the volume's size.
pub(crate) fn grow(disk: &mut impl Disk, old: &LogicalVolume) -> Result<()> {
    let extents = (disk.size_bytes().saturating_sub(old.base) / EXTENT).min(EXTENTS_MAX);
    let size = extents * EXTENT;
    if size <= old.size {
        return Ok(());
    }
    let at = old.partition + HEADER;
    let mut header = [0; 1024];
    read_patiently(disk, at, &mut header)?;
    let now = u64::from(disk.wall_clock()) * 1_000_000;
    let (device, volume) = header.split_at_mut(512);
    put_u64(device, 0x5e, size + DATA - HEADER);
    put_u32(device, 0x6a, extents as u32);
    put_u32(device, 0x6e, extents as u32 - 1);
    let generation = get_u64(device, 0x72) + 1;
    put_u64(device, 0x72, generation);
    put_u64(device, 0x9a, now);
    put_u64(volume, 0x00, size);
    let generation = get_u64(volume, 0x08) + 1;
    put_u64(volume, 0x08, generation);
    put_u32(volume, 0x74, extents as u32);
    put_u64(volume, 0x80, extents - 1);
    put_u64(volume, 0x88, now);
    write_extents(disk, old.partition, extents)?;
    write_patiently(disk, at, device)?;
    write_patiently(disk, at + 512, volume)
}

/// Reads the metadata.
pub(crate) fn open(disk: &mut impl Disk, partition: u64) -> Result<LogicalVolume> {
    let lv = read(disk, partition)?;
    if lv.base + lv.size > disk.size_bytes() {
        return Err(Error::Format("the volume ends beyond the LUN".into()));
    }
    Ok(lv)
}

/// Reads the metadata of a volume that may have grown with its disk, whose size is not asked for.
pub(crate) fn read(disk: &mut impl Disk, partition: u64) -> Result<LogicalVolume> {
    let mut header = [0; 1024];
    read_patiently(disk, partition + HEADER, &mut header)?;
    if get_u32(&header, 0) != MAGIC || get_u32(&header, 4) != 5 {
        return Err(Error::Format("there is no LVM header of version 5".into()));
    }
    let (size, extents) = (get_u64(&header, 512), u64::from(get_u32(&header, 512 + 0x74)));
    if size == 0 || size != extents * EXTENT || extents > EXTENTS_MAX {
        return Err(Error::Format(format!("the LVM says {size} bytes in {extents} extents")));
    }
    let uuid = Uuid::get(&header, 512 + 0x54);
    Ok(LogicalVolume { partition, base: partition + DATA, size, uuid })
}
