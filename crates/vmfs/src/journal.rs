//! A host's journal: the one transaction that it is about to carry out. The layout is ours; the
//! blocks belong to the file .jbc.sf, 64 KiB for each heartbeat slot.

use std::collections::BTreeMap;

use crc_fast::{CrcAlgorithm, checksum};

use crate::bytes::{Sector, get_u32, get_u64, put_u32, put_u64};
use crate::limits::TRANSACTION_SECTORS_MAX;

/// Bytes for each slot.
pub(crate) const SLOT: u64 = 0x1_0000;

/// Sectors before the images: magic, count, checksum, generation, then addresses.
const HEADER: usize = 1024;
const MAGIC: u32 = 0x4a52_4e4c;

/// Sectors to change, by volume address.
pub(crate) type Changes = BTreeMap<u64, Box<Sector>>;

/// A record of changes that the host with this heartbeat generation makes.
pub(crate) fn emit(changes: &Changes, generation: u64) -> Vec<u8> {
    assert!(changes.len() <= TRANSACTION_SECTORS_MAX, "operations are split before");
    let mut out = vec![0; HEADER];
    put_u32(&mut out, 0, MAGIC);
    put_u32(&mut out, 4, changes.len() as u32);
    put_u64(&mut out, 16, generation);
    for (number, (address, image)) in changes.iter().enumerate() {
        put_u64(&mut out, 24 + number * 8, *address);
        out.extend_from_slice(&image[..]);
    }
    let crc = checksum(CrcAlgorithm::Crc32IsoHdlc, &out) as u32;
    put_u32(&mut out, 8, crc);
    out
}

/// The changes of a record that is whole and of this generation; else there is nothing to do.
pub(crate) fn parse(bytes: &[u8], generation: u64) -> Option<Changes> {
    let count = get_u32(bytes, 4) as usize;
    if get_u32(bytes, 0) != MAGIC || get_u64(bytes, 16) != generation {
        return None;
    }
    if count > TRANSACTION_SECTORS_MAX {
        return None;
    }
    let mut record = bytes.get(..HEADER + count * 512)?.to_vec();
    put_u32(&mut record, 8, 0);
    if checksum(CrcAlgorithm::Crc32IsoHdlc, &record) as u32 != get_u32(bytes, 8) {
        return None;
    }
    let image = |number: usize| -> Box<Sector> {
        let at = HEADER + number * 512;
        Box::new(record[at..at + 512].try_into().expect("512 bytes"))
    };
    Some((0..count).map(|number| (get_u64(&record, 24 + number * 8), image(number))).collect())
}
