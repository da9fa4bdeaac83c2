//! WRITE SAME (16) with the UNMAP bit (SBC-4 4.7.3.4.4): it may unmap only what would read the same as the
//! block that is sent; else it shall write.

use super::{MIB, Scratch, ended, says};
use crate::esxi::counters::Kind;
use crate::initiator::cdb::{self, Cdb};
use crate::initiator::ranges::pattern as bytes_of;
use crate::initiator::session::{Data, SessionError};
use crate::validate::model::Verdict;

type Probe = Result<super::Probe, SessionError>;

fn with_unmap(mut cdb: Cdb) -> Cdb {
    cdb[1] |= 8;
    cdb
}

/// LBPWS of VPD page B2h.
fn is_claimed(scratch: &mut Scratch<'_>) -> bool {
    scratch.page(0xb2).get(5).copied().unwrap_or(0) & 0x40 != 0
}

/// What lies in a megabyte after a WRITE SAME of a block, counted in blocks.
#[derive(Debug, Default, PartialEq, Eq)]
struct Contents {
    written: usize,
    kept: usize,
    zeros: usize,
    others: usize,
}

impl Contents {
    fn of(read: &[u8], block: &[u8], before: &[u8]) -> Self {
        let mut found = Self::default();
        for (is, was) in read.chunks(512).zip(before.chunks(512)) {
            match is {
                _ if is == block => found.written += 1,
                _ if is == was => found.kept += 1,
                _ if is.iter().all(|byte| *byte == 0) => found.zeros += 1,
                _ => found.others += 1,
            }
        }
        found
    }

    fn words(&self) -> String {
        let all = self.written + self.kept + self.zeros + self.others;
        let kinds = [
            (self.written, "hold the block"),
            (self.kept, "hold what they held before"),
            (self.zeros, "read as zeros"),
            (self.others, "hold something else"),
        ];
        let found = kinds.into_iter().filter(|(count, _)| *count > 0);
        let found = found.map(|(count, what)| format!("{count} of {all} blocks {what}"));
        found.collect::<Vec<_>>().join(", ")
    }
}

/// WRITE SAME of a pattern over a megabyte that holds another one.
struct Patterned {
    done: Result<Vec<u8>, SessionError>,
    contents: Contents,
}

impl Patterned {
    fn send(scratch: &mut Scratch<'_>, cdb: Cdb) -> Result<Self, SessionError> {
        scratch.fill(0, MIB, 5)?;
        let block = bytes_of(6, 0, 512);
        let done = scratch.send(Kind::Zero, cdb, Data::Out(block.clone()));
        let read = scratch.lun.read_bytes(scratch.at, MIB)?;
        Ok(Self { done, contents: Contents::of(&read, &block, &bytes_of(5, 0, MIB)) })
    }

    fn words(&self) -> String {
        format!("{}, {}", ended(&self.done), self.contents.words())
    }

    fn verdict(&self) -> Verdict {
        const ALL: usize = (MIB / 512) as usize;
        match (self.done.is_ok(), self.contents.written, self.contents.kept) {
            (true, ALL, _) => Verdict::Honest,
            (false, _, ALL) => Verdict::NotClaimed,
            _ => Verdict::Lie,
        }
    }
}

pub(super) fn plain_pattern(scratch: &mut Scratch<'_>) -> Probe {
    let cdb = cdb::write_same(scratch.lba(0), (MIB / 512) as u32);
    let sent = Patterned::send(scratch, cdb)?;
    Ok(says("WRITE SAME (16) repeats the block it is given", sent.words(), sent.verdict()))
}

/// The command that the probe before sent, with one bit more: what differs is what the bit does.
pub(super) fn pattern(scratch: &mut Scratch<'_>) -> Probe {
    let claim = format!(
        "LBPWS = {}, LBPRZ = {}: zeros may be unmapped, all else is written (SBC-4 4.7.3.4.4)",
        u8::from(is_claimed(scratch)),
        scratch.page(0xb2).get(5).copied().unwrap_or(0) >> 2 & 7
    );
    let plain = cdb::write_same(scratch.lba(0), (MIB / 512) as u32);
    let without = Patterned::send(scratch, plain)?;
    if without.verdict() != Verdict::Honest {
        let found = format!("without the bit: {}; not asked with it", without.words());
        let verdict = if without.done.is_ok() { Verdict::Unclear } else { Verdict::NotClaimed };
        return Ok(says(claim, found, verdict));
    }
    let sent = Patterned::send(scratch, with_unmap(plain))?;
    let deallocated = match (sent.verdict(), scratch.mapped(0, MIB)) {
        (Verdict::Lie, Some(0)) => "; GET LBA STATUS: unmapped",
        _ => "",
    };
    let found = format!("without the bit: written; with it: {}{deallocated}", sent.words());
    Ok(says(claim, found, sent.verdict()))
}

pub(super) fn zeros(scratch: &mut Scratch<'_>) -> Probe {
    let is_claimed = is_claimed(scratch);
    let claim = if is_claimed { "LBPWS = 1" } else { "LBPWS = 0" };
    let Some(granule) = scratch.granule() else {
        return Ok(says(claim, "a granule is too large to be tried", Verdict::Unclear));
    };
    let (at, length) = (granule.at, granule.several());
    scratch.fill(at, length, 7)?;
    let before = scratch.used();
    let done = unmap_by_write_same(scratch, [at, length], granule.bytes());
    let zero = scratch.is_zero(at, length)?;
    let kept = scratch.holds(at, [at, length], 7)?;
    let state = if zero { "reads as zeros" } else { "does NOT read as zeros" };
    let found = format!("{}, {state}", ended(&done));
    let (found, verdict) = match (done.is_ok(), zero, kept) {
        (true, true, _) => {
            let freed = scratch.freed([at, length], before)?;
            let verdict = if is_claimed { freed.verdict() } else { Verdict::NotClaimed };
            (format!("{found}, {}", freed.words()), verdict)
        }
        (false, _, true) if !is_claimed => (found, Verdict::NotClaimed),
        _ => (found, Verdict::Lie),
    };
    Ok(says(claim, found, verdict))
}

/// Zeros over a range, a mebibyte at a time or a granule, as the LUN allows; the first failure ends it.
fn unmap_by_write_same(
    scratch: &mut Scratch<'_>,
    [at, length]: [u64; 2],
    granule: u64,
) -> Result<Vec<u8>, SessionError> {
    let most = match scratch.lun.identity.write_same_blocks_max {
        0 => u64::MAX,
        blocks => blocks * 512,
    };
    let step = ((MIB / granule).max(1) * granule).min(most);
    let mut done = 0;
    while done < length {
        let part = step.min(length - done);
        let cdb = with_unmap(cdb::write_same(scratch.lba(at + done), (part / 512) as u32));
        scratch.send(Kind::Zero, cdb, Data::Out(vec![0; 512]))?;
        done += part;
    }
    Ok(Vec::new())
}

#[cfg(test)]
mod tests;
