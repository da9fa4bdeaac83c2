//! A host's journal: the one transaction that it is about to carry out. The layout is ours; the
//! blocks belong to the file .jbc.sf, 64 KiB for each heartbeat slot.
//!
//! A record names the locks that its transaction holds. Giving one of them back is what makes it
//! void: by then its changes are made, and others may make theirs.

use std::collections::BTreeMap;

use crc_fast::{CrcAlgorithm, checksum};

use crate::bytes::{Sector, get_u32, get_u64, put_u32, put_u64};
use crate::limits::{TRANSACTION_LOCKS_MAX, TRANSACTION_SECTORS_MAX};

/// Bytes for each slot.
pub(crate) const SLOT: u64 = 0x1_0000;

/// Sectors before the images: magic, count, checksum, number of locks, generation, addresses of
/// the images; then addresses and tokens of the locks.
const HEADER: usize = LOCKS + TRANSACTION_LOCKS_MAX * 16;
const LOCKS: usize = 1024;
const MAGIC: u32 = 0x4b52_4e4c;

/// Sectors to change, by volume address.
pub(crate) type Changes = BTreeMap<u64, Box<Sector>>;

/// What a host is about to change.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) changes: Changes,
    /// Addresses and tokens of locks: of all that are given back when the changes are made. With
    /// none, the record must be cleared instead.
    pub(crate) locks: Vec<(u64, u64)>,
}

/// A record of changes that the host with this heartbeat generation makes.
pub(crate) fn emit(changes: &Changes, locks: &[(u64, u64)], generation: u64) -> Vec<u8> {
    assert!(changes.len() <= TRANSACTION_SECTORS_MAX, "operations are split before");
    assert!(locks.len() <= TRANSACTION_LOCKS_MAX, "with more, the record is cleared");
    let mut out = vec![0; HEADER];
    put_u32(&mut out, 0, MAGIC);
    put_u32(&mut out, 4, changes.len() as u32);
    put_u32(&mut out, 12, locks.len() as u32);
    put_u64(&mut out, 16, generation);
    for (number, (address, image)) in changes.iter().enumerate() {
        put_u64(&mut out, 24 + number * 8, *address);
        out.extend_from_slice(&image[..]);
    }
    for (number, (address, token)) in locks.iter().enumerate() {
        put_u64(&mut out, LOCKS + number * 16, *address);
        put_u64(&mut out, LOCKS + number * 16 + 8, *token);
    }
    let crc = checksum(CrcAlgorithm::Crc32IsoHdlc, &out) as u32;
    put_u32(&mut out, 8, crc);
    out
}

/// A record that is whole and of this generation; else there is nothing to do.
pub(crate) fn parse(bytes: &[u8], generation: u64) -> Option<Record> {
    let (count, locks) = (get_u32(bytes, 4) as usize, get_u32(bytes, 12) as usize);
    if get_u32(bytes, 0) != MAGIC || get_u64(bytes, 16) != generation {
        return None;
    }
    if count > TRANSACTION_SECTORS_MAX || locks > TRANSACTION_LOCKS_MAX {
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
    let change = |number: usize| (get_u64(&record, 24 + number * 8), image(number));
    let lock = |number: usize| {
        let at = LOCKS + number * 16;
        (get_u64(&record, at), get_u64(&record, at + 8))
    };
    Some(Record {
        changes: (0..count).map(change).collect(),
        locks: (0..locks).map(lock).collect(),
    })
}

const _: () = assert!(24 + TRANSACTION_SECTORS_MAX * 8 <= LOCKS);
const _: () = assert!(HEADER + TRANSACTION_SECTORS_MAX * 512 <= SLOT as usize);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_as_it_was_written_and_only_if_it_is_whole() {
        let changes: Changes =
            (1..=124).map(|number| (number * 512, Box::new([number as u8; 512]))).collect();
        let locks: Vec<(u64, u64)> = (0..64).map(|number| (number * 1024, number)).collect();
        let mut bytes = emit(&changes, &locks, 7);
        bytes.resize(SLOT as usize, 0);
        assert_eq!(parse(&bytes, 7), Some(Record { changes, locks }));
        assert_eq!(parse(&bytes, 8), None, "another host's, or the same host's before it died");
        for at in [5, 9, 17, 30, LOCKS + 8, HEADER, SLOT as usize - 1] {
            bytes[at] ^= 1;
            assert_eq!(parse(&bytes, 7), None, "byte {at}");
            bytes[at] ^= 1;
        }
        assert_eq!(parse(&bytes[..4096], 7), None);
    }
}
