//! Partition tables as ESXi makes them: GPT with one partition of VMware's type, or an older MBR.

use crc_fast::{CrcAlgorithm, checksum};

use crate::bytes::{get_u32, get_u64, put_u32, put_u64};
use crate::lock::{read_patiently, write_patiently};
use crate::{Disk, Error, Result};

/// First sector of the one partition.
const FIRST_LBA: u64 = 2048;

/// VMware VMFS, aa31e02a-400f-11db-9590-000c2911d1b8, as GPT stores it.
const VMFS_TYPE: [u8; 16] = [
    0x2a, 0xe0, 0x31, 0xaa, 0x0f, 0x40, 0xdb, 0x11, 0x95, 0x90, 0x00, 0x0c, 0x29, 0x11, 0xd1, 0xb8,
];

const ENTRIES: usize = 128;
const ENTRY: usize = 128;
const TABLE: usize = ENTRIES * ENTRY;

/// Which table stands before a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Table {
    /// GUID partition table: ESXi 5 and later.
    Gpt,
    /// Master boot record with type FBh: earlier.
    Mbr,
    /// None: the volume begins at the first byte.
    None,
}

/// The first byte of the partition behind a table.
pub(crate) fn first_byte(table: Table) -> u64 {
    match table {
        Table::None => 0,
        Table::Mbr | Table::Gpt => FIRST_LBA * 512,
    }
}

/// Writes a table; returns the first byte of the partition.
pub fn write(disk: &mut impl Disk, table: Table, identity: [u8; 16]) -> Result<u64> {
    match table {
        Table::None => {}
        Table::Mbr => disk.write(0, &boot_record(disk.size_bytes() / 512, FIRST_LBA, 0xfb))?,
        Table::Gpt => write_gpt(disk, identity)?,
    }
    Ok(first_byte(table))
}

/// Finds the volume's partition: the first byte of it.
pub fn find(disk: &mut impl Disk) -> Result<u64> {
    let mut start = vec![0; 512 * 34];
    read_patiently(disk, 0, &mut start)?;
    if start[510..512] != [0x55, 0xaa] {
        return Ok(0);
    }
    if start[450] == 0xfb {
        return Ok(u64::from(get_u32(&start, 454)) * 512);
    }
    if &start[512..520] != b"EFI PART" {
        return Ok(0);
    }
    let mut entries = start[1024..].chunks(ENTRY);
    let entry = entries.find(|entry| entry.len() == ENTRY && entry[..16] == VMFS_TYPE);
    let missing = || Error::Format("the partition table has no VMFS partition".into());
    Ok(get_u64(entry.ok_or_else(missing)?, 32) * 512)
}

/// Lets the volume's partition, the last one, end where the disk does. The copy at the new end of
/// the disk is written first: while the first one is half written, that one is whole.
pub(crate) fn grow(disk: &mut impl Disk) -> Result<()> {
    let mut start = vec![0; 512 * 34];
    read_patiently(disk, 0, &mut start)?;
    let sectors = disk.size_bytes() / 512;
    if start[510..512] != [0x55, 0xaa] {
        return Ok(());
    }
    if start[450] == 0xfb {
        let length = sectors - u64::from(get_u32(&start, 454));
        put_u32(&mut start, 458, u32::try_from(length).unwrap_or(u32::MAX));
        return write_patiently(disk, 0, &start[..512]);
    }
    if &start[512..520] != b"EFI PART" || get_u64(&start, 512 + 32) == sectors - 1 {
        return Ok(());
    }
    let (record, rest) = start.split_at_mut(512);
    let (header, table) = rest.split_at_mut(512);
    let shape = [get_u32(header, 80), get_u32(header, 84)];
    if shape != [ENTRIES as u32, ENTRY as u32] || get_u64(header, 72) != 2 {
        return Err(Error::Format("the partition table has another shape".into()));
    }
    grow_last_entry(table, sectors - 34)?;
    put_u64(header, 32, sectors - 1);
    put_u64(header, 48, sectors - 34);
    put_u32(header, 88, crc(table));
    let mut copy = header.to_vec();
    put_u64(&mut copy, 24, sectors - 1);
    put_u64(&mut copy, 32, 1);
    put_u64(&mut copy, 72, sectors - 33);
    put_header_crc(&mut copy);
    put_header_crc(header);
    write_patiently(disk, (sectors - 33) * 512, &[table, &copy[..]].concat())?;
    write_patiently(disk, 512, &[&header[..], table].concat())?;
    if record[450] == 0xee {
        write_patiently(disk, 0, &boot_record(sectors, 1, 0xee))?;
    }
    Ok(())
}

fn grow_last_entry(table: &mut [u8], last: u64) -> Result<()> {
    let used = |entry: &&mut [u8]| entry[..16] != [0; 16];
    let entry = table.chunks_mut(ENTRY).filter(used).max_by_key(|entry| get_u64(entry, 32));
    match entry {
        Some(entry) if entry[..16] == VMFS_TYPE => {
            put_u64(entry, 40, last);
            Ok(())
        }
        _ => Err(Error::Argument("another partition lies behind the volume's")),
    }
}

/// The checksum of a header: of its first 92 bytes, with 0 in its own place.
fn put_header_crc(header: &mut [u8]) {
    put_u32(header, 16, 0);
    let found = crc(&header[..92]);
    put_u32(header, 16, found);
}

fn boot_record(sectors: u64, first: u64, kind: u8) -> [u8; 512] {
    let mut record = [0; 512];
    record[446..450].copy_from_slice(&[0, 0, 2, 0]);
    record[450..454].copy_from_slice(&[kind, 0xff, 0xff, 0xff]);
    put_u32(&mut record, 454, first as u32);
    put_u32(&mut record, 458, u32::try_from(sectors - first).unwrap_or(u32::MAX));
    record[510..].copy_from_slice(&[0x55, 0xaa]);
    record
}

fn crc(bytes: &[u8]) -> u32 {
    checksum(CrcAlgorithm::Crc32IsoHdlc, bytes) as u32
}

fn write_gpt(disk: &mut impl Disk, identity: [u8; 16]) -> Result<()> {
    let sectors = disk.size_bytes() / 512;
    let last_usable = sectors - 34;
    let mut table = vec![0; TABLE];
    table[..16].copy_from_slice(&VMFS_TYPE);
    table[16..32].copy_from_slice(&identity);
    put_u64(&mut table, 32, FIRST_LBA);
    put_u64(&mut table, 40, last_usable);
    let header = |own: u64, other: u64, table_at: u64| {
        let mut header = [0; 512];
        header[..8].copy_from_slice(b"EFI PART");
        put_u32(&mut header, 8, 0x0001_0000);
        put_u32(&mut header, 12, 92);
        put_u64(&mut header, 24, own);
        put_u64(&mut header, 32, other);
        put_u64(&mut header, 40, 34);
        put_u64(&mut header, 48, last_usable);
        header[56..72].copy_from_slice(&identity);
        header[71] ^= 0xff;
        put_u64(&mut header, 72, table_at);
        put_u32(&mut header, 80, ENTRIES as u32);
        put_u32(&mut header, 84, ENTRY as u32);
        put_u32(&mut header, 88, crc(&table));
        let own_crc = crc(&header[..92]);
        put_u32(&mut header, 16, own_crc);
        header
    };
    disk.write(0, &boot_record(sectors, 1, 0xee))?;
    disk.write(512, &header(1, sectors - 1, 2))?;
    disk.write(1024, &table)?;
    disk.write((sectors - 33) * 512, &table)?;
    disk.write((sectors - 1) * 512, &header(sectors - 1, 1, sectors - 33))?;
    Ok(())
}
