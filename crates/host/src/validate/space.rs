//! Space as SCSI tells it: log page 0Ch (logical block provisioning), else GET LBA STATUS.

use crate::esxi::counters::Kind;
use crate::esxi::lun::Lun;
use crate::initiator::cdb::Cdb;
use crate::initiator::session::{Data, SessionError};

/// GET LBA STATUS commands for one look; a map in more pieces counts as not reported.
const LOOKS_MAX: u32 = 4096;

/// Bytes asked of one GET LBA STATUS: 511 descriptors.
const ANSWER: u32 = 8 + 511 * 16;

/// Where a figure comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// USED LBA MAPPING RESOURCE COUNT of log page 0Ch.
    LogPage,
    /// The sum of mapped ranges.
    LbaStatus,
}

fn get_lba_status(lba: u64) -> Cdb {
    let mut cdb = [0; 16];
    (cdb[0], cdb[1]) = (0x9e, 0x12);
    cdb[2..10].copy_from_slice(&lba.to_be_bytes());
    cdb[10..14].copy_from_slice(&ANSWER.to_be_bytes());
    cdb
}

/// LOG SENSE of cumulative values.
fn log_sense(page: u8) -> Cdb {
    let mut cdb = [0; 16];
    (cdb[0], cdb[2], cdb[7], cdb[8]) = (0x4d, 0x40 | page, 4, 0);
    cdb
}

fn be(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |value, byte| value << 8 | u64::from(*byte))
}

/// SBC-4 6.5.5: parameter 0002h is the USED LBA MAPPING RESOURCE COUNT, in units of 2 to the
/// THRESHOLD EXPONENT blocks.
fn decode_used(page: &[u8], exponent: u8) -> Option<u64> {
    if page.first()? & 0x3f != 0x0c {
        return None;
    }
    let length = be(page.get(2..4)?) as usize;
    let mut rest = page.get(4..(4 + length).min(page.len()))?;
    while rest.len() >= 4 {
        let (code, size) = (be(&rest[..2]), usize::from(rest[3]));
        let value = rest.get(4..4 + size)?;
        if code == 2 {
            return be(value.get(..4)?).checked_shl(exponent.into());
        }
        rest = &rest[4 + size..];
    }
    None
}

fn exponent(lun: &mut Lun) -> u8 {
    let mut cdb = [0; 16];
    cdb[..6].copy_from_slice(&[0x12, 1, 0xb2, 0, 64, 0]);
    let page = lun.command(Kind::Other, cdb, Data::In(vec![0; 64]), 0).unwrap_or_default();
    page.get(4).copied().unwrap_or(0) & 0x3f
}

/// The provisioning status of a range of blocks: how many of them are mapped.
///
/// # Errors
/// When the LUN does not tell.
pub(super) fn mapped(lun: &mut Lun, lba: u64, blocks: u64) -> Result<u64, SessionError> {
    let (mut at, mut sum) = (lba, 0);
    let end = lba + blocks;
    for _ in 0..LOOKS_MAX {
        let data = Data::In(vec![0; ANSWER as usize]);
        let answer = lun.command(Kind::Other, get_lba_status(at), data, 0)?;
        let told = SessionError::Unsupported("the answer to GET LBA STATUS is not understood");
        let (count, next) = clip(&answer, at, end).ok_or(told)?;
        sum += count;
        at = next;
        if at >= end {
            return Ok(sum);
        }
    }
    Err(SessionError::Unsupported("the map has too many pieces"))
}

/// Of an answer to GET LBA STATUS: the mapped blocks between two addresses, and the address behind
/// the last range. None when it does not go on from the start.
fn clip(answer: &[u8], start: u64, end: u64) -> Option<(u64, u64)> {
    let length = be(answer.get(..4)?) as usize + 4;
    let (mut mapped, mut next) = (0, start);
    for range in answer.get(8..length.min(answer.len()))?.chunks_exact(16) {
        let first = be(&range[..8]);
        next = first + be(&range[8..12]);
        // PROVISIONING STATUS (SBC-4 5.6.2.4): 1h and 2h are unmapped; 0h is 'mapped or not known'.
        if !matches!(range[12] & 0xf, 1 | 2) {
            mapped += next.min(end).saturating_sub(first.max(start));
        }
    }
    (next > start).then_some((mapped, next))
}

/// What log page 0Ch says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Used {
    /// Bytes of the LUN that have space.
    pub(super) bytes: u64,
    /// Bytes in which it counts.
    pub(super) unit: u64,
}

/// USED LBA MAPPING RESOURCE COUNT of log page 0Ch; none if there is none.
pub(super) fn used_by_log(lun: &mut Lun) -> Option<Used> {
    let exponent = exponent(lun);
    let page = lun.command(Kind::Other, log_sense(0x0c), Data::In(vec![0; 1024]), 0);
    let blocks = decode_used(&page.ok()?, exponent)?;
    Some(Used { bytes: blocks.saturating_mul(512), unit: 512 << exponent.min(54) })
}

/// Bytes that the array uses for a LUN, and who says so; none if it does not say.
pub(super) fn used(lun: &mut Lun) -> Option<(u64, Source)> {
    if let Some(used) = used_by_log(lun) {
        return Some((used.bytes, Source::LogPage));
    }
    let blocks = lun.identity.size_bytes / 512;
    mapped(lun, 0, blocks).ok().map(|blocks| (blocks * 512, Source::LbaStatus))
}

#[cfg(test)]
mod tests;
