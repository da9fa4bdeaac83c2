//! The volume manager below the file system: which bytes of which partitions are the volume. Each
//! disk of a volume has a header that says which part of the volume it holds; the first one, the
//! head, also says how many disks there are and which.

use crate::bytes::{Sector, Uuid, get_text, get_u32, get_u64, put_text, put_u32, put_u64};
use crate::limits::{EXTENTS_MAX, VOLUME_DISKS_MAX};
use crate::lock::{Contention, Locking, read_patiently, write_patiently};
use crate::partition::{self, Table};
use crate::{Disk, Error, Result};

/// Where the header begins in a partition.
const HEADER: u64 = 0x10_0000;
const MAGIC: u32 = 0xc001_d00d;
/// Where the volume's bytes begin in a partition.
const DATA: u64 = 0x110_0000;
const EXTENT: u64 = 256 << 20;
/// Names of the volume's disks, on the head only.
const DISK_NAMES: u64 = 0x17_e200;
const DISK_NAME: usize = 256;
const EXTENT_BITMAP: u64 = 0x18_0200;
const EXTENT_TABLE: u64 = 0x18_0600;
const EXTENT_ENTRY: usize = 128;

/// In the device's sector: the volume of which a host is about to make the disk a part, and since
/// when. Hosts of that volume take turns by its own locks.
const CLAIMED_BY: usize = 0xa2;
const CLAIMED_SINCE: usize = 0xb2;

/// A byte of one of a volume's disks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The disk's number in the volume; 0 is the head.
    pub disk: usize,
    /// Byte of that disk.
    pub at: u64,
}

impl Place {
    /// The place so many bytes behind this one.
    #[must_use]
    pub fn plus(self, bytes: u64) -> Self {
        Self { at: self.at + bytes, ..self }
    }

    /// The sector in which it lies, and the byte inside.
    pub(crate) fn sector(self) -> (Self, usize) {
        (Self { at: self.at / 512 * 512, ..self }, (self.at % 512) as usize)
    }
}

/// The part of a volume that lies on one disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    /// First byte of the partition.
    pub(crate) partition: u64,
    /// Byte of the volume that comes first.
    pub(crate) first: u64,
    /// Bytes.
    pub(crate) length: u64,
}

impl Part {
    /// First byte of the disk that is the volume's.
    pub(crate) fn base(&self) -> u64 {
        self.partition + DATA
    }

    pub(crate) fn end(&self) -> u64 {
        self.first + self.length
    }
}

/// What a disk's header says: its part, and the volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) part: Part,
    /// The volume.
    pub(crate) uuid: Uuid,
    /// Bytes of the whole volume.
    pub(crate) size: u64,
    /// One more with each change of the volume; the same on all of its disks.
    pub(crate) generation: u64,
    /// Disks of the volume.
    pub(crate) disks: u32,
    /// When the volume was made, in microseconds since 1970.
    created_us: u64,
}

impl Header {
    fn volume_sector(&self, now_us: u64) -> [u8; 512] {
        let mut out = [0; 512];
        let (first, count) = (self.part.first / EXTENT, self.part.length / EXTENT);
        put_u64(&mut out, 0x00, self.size);
        put_u64(&mut out, 0x08, self.generation);
        put_u32(&mut out, 0x10, 1);
        put_text(&mut out, 0x14, 64, &self.uuid.to_string());
        self.uuid.put(&mut out, 0x54);
        put_u64(&mut out, 0x68, self.created_us);
        put_u32(&mut out, 0x74, count as u32);
        put_u64(&mut out, 0x78, first);
        put_u64(&mut out, 0x80, first + count - 1);
        put_u64(&mut out, 0x88, now_us);
        put_u32(&mut out, 0x90, self.disks);
        out
    }

    fn parse(partition: u64, bytes: &[u8; 1024]) -> Result<Self> {
        if get_u32(bytes, 0) != MAGIC || get_u32(bytes, 4) != 5 {
            return Err(Error::Format("there is no LVM header of version 5".into()));
        }
        if Uuid::get(bytes, CLAIMED_BY) != Uuid::default() {
            return Err(Error::Format("the LUN was to become an extent and did not".into()));
        }
        let volume = &bytes[512..];
        let count = u64::from(get_u32(volume, 0x74));
        let first = get_u64(volume, 0x78).min(u64::from(u32::MAX)) * EXTENT;
        let part = Part { partition, first, length: count * EXTENT };
        let (size, disks) = (get_u64(volume, 0x00), get_u32(volume, 0x90));
        let alone = disks == 1 && (first > 0 || size != part.length);
        if count == 0 || count > EXTENTS_MAX || size < part.end() || disks == 0 || alone {
            return Err(Error::Format(format!("the LVM says {size} bytes in {count} extents")));
        }
        if disks > VOLUME_DISKS_MAX {
            return Err(Error::Format(format!("the LVM says {disks} disks")));
        }
        let (uuid, generation) = (Uuid::get(volume, 0x54), get_u64(volume, 0x08));
        Ok(Self { part, uuid, size, generation, disks, created_us: get_u64(volume, 0x68) })
    }

    /// The same volume with another size and number of disks.
    pub(crate) fn changed(&self, size: u64, disks: u32) -> Self {
        Self { size, disks, generation: self.generation + 1, ..*self }
    }

    /// What another disk of the volume says.
    pub(crate) fn of_part(&self, part: Part) -> Self {
        Self { part, ..*self }
    }

    /// Whether a disk says the same of the volume as this one.
    pub(crate) fn agrees_with(&self, other: &Self) -> bool {
        *self == other.of_part(self.part)
    }
}

/// Whole extents that a disk has room for behind the header of a partition.
fn room(disk: &impl Disk, partition: u64) -> u64 {
    (disk.size_bytes().saturating_sub(partition + DATA) / EXTENT).min(EXTENTS_MAX)
}

fn room_or_refuse(disk: &impl Disk, partition: u64) -> Result<u64> {
    match room(disk, partition) {
        0 => Err(Error::Format("the LUN is too small: it needs 274 MiB".into())),
        extents => Ok(extents),
    }
}

/// Bytes of a volume that a disk has room for.
pub(crate) fn length_on(disk: &impl Disk, partition: u64) -> Result<u64> {
    Ok(room_or_refuse(disk, partition)? * EXTENT)
}

fn now_us(disk: &mut impl Disk) -> u64 {
    u64::from(disk.wall_clock()) * 1_000_000
}

/// Writes the metadata of a volume that takes the rest of the disk from a partition's first byte.
pub(crate) fn format(
    disk: &mut impl Disk,
    partition: u64,
    device: Uuid,
    uuid: Uuid,
) -> Result<Header> {
    let size = length_on(disk, partition)?;
    let now = now_us(disk);
    disk.zero(partition + HEADER, DATA - HEADER)?;
    let part = Part { partition, first: 0, length: size };
    let header = Header { part, uuid, size, generation: 1, disks: 1, created_us: now };
    let sectors = [device_sector(&part, device, now), header.volume_sector(now)];
    disk.write(partition + HEADER, &sectors.concat())?;
    write_extents(disk, &part)?;
    let name = name_of(disk);
    put_name(disk, &part, 0, &name)?;
    Ok(header)
}

fn device_sector(part: &Part, device: Uuid, now_us: u64) -> [u8; 512] {
    let mut out = [0; 512];
    let extents = (part.length / EXTENT) as u32;
    put_u32(&mut out, 0x00, MAGIC);
    put_u32(&mut out, 0x04, 5);
    put_u32(&mut out, 0x5a, 512);
    put_u64(&mut out, 0x5e, part.length + DATA - HEADER);
    put_u32(&mut out, 0x66, 1);
    put_u32(&mut out, 0x6a, extents);
    put_u32(&mut out, 0x6e, extents.saturating_sub(1));
    put_u64(&mut out, 0x72, 1);
    put_u64(&mut out, 0x7a, DATA);
    device.put(&mut out, 0x82);
    put_u64(&mut out, 0x92, now_us);
    put_u64(&mut out, 0x9a, now_us);
    put_u32(&mut out, 0xbe, 1);
    out
}

fn write_extents(disk: &mut impl Disk, part: &Part) -> Result<()> {
    let mut bitmap = vec![0_u8; 1024];
    let mut table = vec![0; (part.length / EXTENT) as usize * EXTENT_ENTRY];
    for (number, entry) in table.chunks_mut(EXTENT_ENTRY).enumerate() {
        bitmap[number / 8] |= 1 << (number % 8);
        let inside = number as u64 * EXTENT;
        entry[0] = 1;
        put_u32(entry, 1, number as u32);
        put_u64(entry, 9, DATA + inside);
        put_u64(entry, 17, part.first + inside);
        put_u64(entry, 25, EXTENT);
        put_u32(entry, 33, 1);
    }
    table.resize(table.len().next_multiple_of(512), 0);
    write_patiently(disk, part.partition + EXTENT_TABLE, &table)?;
    write_patiently(disk, part.partition + EXTENT_BITMAP, &bitmap)
}

/// The name of a partition in the head's table: the disk's, and the partition's number.
pub(crate) fn name_of(disk: &impl Disk) -> String {
    format!("{}:1", disk.name())
}

/// Enters the name of a volume's disk in the table of the head.
pub(crate) fn put_name(disk: &mut impl Disk, head: &Part, number: u64, name: &str) -> Result<()> {
    let mut entry = [0; 512];
    let at = number * DISK_NAME as u64;
    let sector = head.partition + DISK_NAMES + at / 512 * 512;
    read_patiently(disk, sector, &mut entry)?;
    let inside = (at % 512) as usize;
    entry[inside..inside + DISK_NAME].fill(0);
    put_text(&mut entry, inside, DISK_NAME - 1, name);
    write_patiently(disk, sector, &entry)
}

/// Reads the names of a volume's disks, without the partition's number, from its head.
pub(crate) fn names(disk: &mut impl Disk, head: &Header) -> Result<Vec<String>> {
    let mut table = vec![0; (u64::from(head.disks) as usize * DISK_NAME).next_multiple_of(512)];
    read_patiently(disk, head.part.partition + DISK_NAMES, &mut table)?;
    let name = |entry: &[u8]| {
        let name = get_text(entry, 0, DISK_NAME);
        name.strip_suffix(":1").map(str::to_owned).unwrap_or(name)
    };
    let mut names: Vec<String> =
        table.chunks(DISK_NAME).take(head.disks as usize).map(name).collect();
    // The head knows itself.
    names[0] = disk.name();
    Ok(names)
}

/// Lets the last part of a volume take what its disk has more than it takes now, in whole extents.
/// The last sector that is written is the one that tells the part's size. Returns the part.
pub(crate) fn grow(disk: &mut impl Disk, header: &Header) -> Result<Part> {
    let old = header.part;
    let length = room(disk, old.partition) * EXTENT;
    if length <= old.length {
        return Ok(old);
    }
    let part = Part { length, ..old };
    let at = part.partition + HEADER;
    let mut device = [0; 512];
    read_patiently(disk, at, &mut device)?;
    let extents = (length / EXTENT) as u32;
    put_u64(&mut device, 0x5e, length + DATA - HEADER);
    put_u32(&mut device, 0x6a, extents);
    put_u32(&mut device, 0x6e, extents - 1);
    let generation = get_u64(&device, 0x72) + 1;
    put_u64(&mut device, 0x72, generation);
    let now = now_us(disk);
    put_u64(&mut device, 0x9a, now);
    write_extents(disk, &part)?;
    write_patiently(disk, at, &device)?;
    Ok(part)
}

/// Writes what a disk says of its volume: one sector. On the head it decides.
pub(crate) fn write_volume(disk: &mut impl Disk, header: &Header) -> Result<()> {
    let now = now_us(disk);
    let at = header.part.partition + HEADER + 512;
    write_patiently(disk, at, &header.volume_sector(now))
}

/// Reads the header of a disk, whatever part of a volume it holds.
pub(crate) fn read(disk: &mut impl Disk, partition: u64) -> Result<Header> {
    let mut bytes = [0; 1024];
    read_patiently(disk, partition + HEADER, &mut bytes)?;
    Header::parse(partition, &bytes)
}

/// Reads the header of the head of a volume.
pub(crate) fn read_head(disk: &mut impl Disk, partition: u64) -> Result<Header> {
    let header = read(disk, partition)?;
    if header.part.first > 0 {
        return Err(Error::Format("the LUN is an extent of a datastore, not its head".into()));
    }
    Ok(header)
}

/// A disk that is claimed for a volume: nobody makes it part of another one.
pub(crate) struct Claim {
    image: Sector,
    device: Uuid,
    /// The part that the disk becomes.
    pub(crate) part: Part,
}

/// A claim for another volume that is younger than this, in microseconds, may be of a host that is at
/// work.
const CLAIM_US: u64 = 60_000_000;

/// Claims a disk that is no part of a volume for the volume's bytes from `first` on. The caller holds
/// the volume's lock for this.
///
/// With a partition table the header lies elsewhere than without one, so two volumes may want the disk
/// in different places. Each looks at the other place after it has claimed its own: one of them, or both,
/// sees the other's claim and takes its own back.
pub(crate) fn claim(
    disk: &mut impl Disk,
    [partition, first]: [u64; 2],
    [device, volume]: [Uuid; 2],
    locking: Locking,
) -> Result<Claim> {
    let length = length_on(disk, partition)?;
    let part = Part { partition, first, length };
    let (at, now) = (partition + HEADER, now_us(disk));
    let mut found = [0; 512];
    read_patiently(disk, at, &mut found)?;
    // Another host may have made it a part since the caller looked. Its first sector is written
    // last, so the rest, read behind it, is as new; what changes later is found by the swap.
    let is_part = |other: Header| other.uuid != volume || other.part.first < first;
    if read(disk, partition).is_ok_and(is_part) {
        return Err(BECAME_EXTENT);
    }
    if is_claimed(&found, volume, now) {
        return Err(TAKEN);
    }
    let mut image = device_sector(&part, device, now);
    volume.put(&mut image, CLAIMED_BY);
    put_u64(&mut image, CLAIMED_SINCE, now);
    if !locking.swap(disk, at, [&found, &image], &mut Contention::default())? {
        return Err(TAKEN);
    }
    if let Err(error) = refuse_elsewhere(disk, &part, volume) {
        // If this fails, the other volume has overwritten it, or it grows old.
        let _ = locking.swap(disk, at, [&image, &found], &mut Contention::default());
        return Err(error);
    }
    Ok(Claim { image, device, part })
}

/// Whether a device's sector says that another volume's host is at work on it.
fn is_claimed(sector: &Sector, volume: Uuid, now: u64) -> bool {
    let (by, since) = (Uuid::get(sector, CLAIMED_BY), get_u64(sector, CLAIMED_SINCE));
    let is_other = get_u32(sector, 0) == MAGIC && by != Uuid::default() && by != volume;
    is_other && now < since.saturating_add(CLAIM_US)
}

/// Refuses a disk that another volume claims, or has, in a place where ours is not. The claim is looked
/// for first: it ends only when the partition table and the header tell of the volume.
fn refuse_elsewhere(disk: &mut impl Disk, part: &Part, volume: Uuid) -> Result<()> {
    let places = [Table::None, Table::Gpt].map(partition::first_byte);
    for other in places.into_iter().filter(|place| *place != part.partition) {
        let mut sector = [0; 512];
        read_patiently(disk, other + HEADER, &mut sector)?;
        if is_claimed(&sector, volume, now_us(disk)) {
            return Err(TAKEN);
        }
    }
    let present = partition::find(disk);
    let Some(present) = present.ok().filter(|place| *place != part.partition) else {
        return Ok(());
    };
    match read(disk, present) {
        Ok(header) if header.uuid != volume => Err(BECAME_EXTENT),
        Ok(_) | Err(_) => Ok(()),
    }
}

const BECAME_EXTENT: Error =
    Error::Argument("the LUN has just become an extent of another datastore");

const TAKEN: Error = Error::Argument(
    "the LUN is being added to another datastore, or a host died while it did: try again in a minute",
);

impl Claim {
    /// Makes the disk a part of the volume, which does not know of it yet.
    pub(crate) fn complete(
        self,
        disk: &mut impl Disk,
        header: &Header,
        locking: Locking,
    ) -> Result<()> {
        let at = self.part.partition + HEADER;
        disk.zero(at + 512, DATA - HEADER - 512)?;
        write_volume(disk, header)?;
        write_extents(disk, &self.part)?;
        let done = device_sector(&self.part, self.device, now_us(disk));
        let swapped = locking.swap(disk, at, [&self.image, &done], &mut Contention::default())?;
        if swapped { Ok(()) } else { Err(TAKEN) }
    }
}
