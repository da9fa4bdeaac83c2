//! UNMAP (Delete).

use super::freed::Freed;
use super::{MIB, Scratch, ended, is_unknown, says};
use crate::esxi::counters::Kind;
use crate::initiator::cdb;
use crate::initiator::session::{Data, SessionError};
use crate::validate::model::Verdict;
use crate::validate::space;

type Probe = Result<super::Probe, SessionError>;
type Ended = Result<Vec<u8>, SessionError>;

fn unmap(scratch: &mut Scratch<'_>, list: Vec<u8>) -> Ended {
    scratch.send(Kind::Delete, cdb::unmap(list.len() as u16), Data::Out(list))
}

/// Whether UNMAP is advertised: LBPME and LBPU.
fn claimed(scratch: &mut Scratch<'_>) -> bool {
    let bit = scratch.page(0xb2).get(5).copied().unwrap_or(0) & 0x80 != 0;
    scratch.lun.identity.thin && bit
}

pub(super) fn granularity(scratch: &mut Scratch<'_>) -> Probe {
    let is_claimed = claimed(scratch);
    let claim = format!(
        "LBPU = {}, OPTIMAL UNMAP GRANULARITY {} blocks, LBPRZ = {}",
        u8::from(is_claimed),
        scratch.lun.identity.unmap_granularity,
        u8::from(scratch.lun.identity.reads_zeros)
    );
    let Some(granule) = scratch.granule() else {
        return Ok(says(claim, "too large to be tried", Verdict::Unclear));
    };
    let (at, length) = (granule.at, granule.several());
    let begin = at.saturating_sub(granule.bytes());
    let end = at + length + granule.bytes();
    scratch.fill(begin, end - begin, 12)?;
    let before = scratch.used();
    let (lba, blocks) = (scratch.lba(at), length / 512);
    let done = unmap_in_steps(scratch, [lba, blocks], granule.blocks);
    let sides = scratch.holds(begin, [begin, at - begin], 12)?
        && scratch.holds(begin, [at + length, granule.bytes()], 12)?;
    let zero = scratch.is_zero(at, length)?;
    let kept = scratch.holds(begin, [at, length], 12)?;
    let freed = scratch.freed([at, length], before)?;
    let found = format!(
        "{blocks} blocks: {}, {}, neighbours {}, {}",
        ended(&done),
        if zero { "read as zeros" } else { "do not read as zeros" },
        if sides { "kept" } else { "LOST" },
        freed.words()
    );
    // What is not unmapped may read as before (SBC-4 4.7.3.4.2).
    let is_torn = done.is_ok()
        && scratch.lun.identity.reads_zeros
        && !zero
        && (!kept || matches!(freed, Freed::Left(0, _)));
    let verdict = match (is_claimed, done.is_ok()) {
        _ if !sides || is_torn => Verdict::Lie,
        (true, false) => Verdict::Lie,
        (false, _) => Verdict::NotClaimed,
        (true, true) => freed.verdict(),
    };
    Ok(says(claim, found, verdict))
}

/// UNMAPs whole granules, as many with a command as the LUN allows; the first failure ends it.
fn unmap_in_steps(scratch: &mut Scratch<'_>, [lba, blocks]: [u64; 2], granule: u64) -> Ended {
    let most = match scratch.lun.identity.unmap_blocks_max {
        0 => blocks,
        most => u64::from(most),
    };
    let step = (most / granule * granule).max(granule).min(blocks);
    let mut done = 0;
    while done < blocks {
        let part = step.min(blocks - done);
        unmap(scratch, cdb::unmap_list(lba + done, part as u32))?;
        done += part;
    }
    Ok(Vec::new())
}

fn ranges(ranges: &[(u64, u32)]) -> Vec<u8> {
    let mut list = vec![0; 8];
    let length = ranges.len() * 16;
    list[..2].copy_from_slice(&((length + 6) as u16).to_be_bytes());
    list[2..4].copy_from_slice(&(length as u16).to_be_bytes());
    for (lba, blocks) in ranges {
        list.extend(lba.to_be_bytes());
        list.extend(blocks.to_be_bytes());
        list.extend([0; 4]);
    }
    list
}

pub(super) fn limits(scratch: &mut Scratch<'_>) -> Probe {
    let identity = scratch.lun.identity.clone();
    let (most, blocks) = (identity.unmap_descriptors_max, identity.unmap_blocks_max);
    let claim = format!("up to {most} ranges, {blocks} blocks");
    if !claimed(scratch) || most == 0 || blocks == 0 {
        return Ok(says(claim, "not tried", Verdict::NotClaimed));
    }
    scratch.fill(0, 4 * MIB, 13)?;
    let (mut found, mut verdict) = (Vec::new(), Verdict::Honest);
    if most < 4000 {
        let first = scratch.lba(0);
        let every_second = |count: u32| -> Vec<(u64, u32)> {
            (0..u64::from(count)).map(|number| (first + number % 4096 * 2, 1)).collect()
        };
        let (exact, more) = (ranges(&every_second(most)), ranges(&every_second(most + 1)));
        let (exact, more) = (unmap(scratch, exact), unmap(scratch, more));
        found.push(format!("{most} ranges: {}, {}: {}", ended(&exact), most + 1, ended(&more)));
        let kept = scratch.holds(0, [512, 512], 13)?;
        if exact.is_err() || !kept {
            verdict = Verdict::Lie;
        }
    }
    let room = identity.size_bytes / 512;
    if blocks < u32::MAX && u64::from(blocks) < room {
        let lba = room - u64::from(blocks) - 1;
        let mark = scratch.lun.read_bytes(lba * 512, 512)?;
        let more = unmap(scratch, cdb::unmap_list(lba, blocks + 1));
        let same = scratch.lun.read_bytes(lba * 512, 512)? == mark;
        found.push(format!("{} blocks: {}", u64::from(blocks) + 1, ended(&more)));
        if more.is_err() && !same {
            verdict = Verdict::Lie;
        }
    }
    let found =
        if found.is_empty() { "too large to be tried".to_owned() } else { found.join("; ") };
    Ok(says(claim, found, verdict))
}

pub(super) fn nothing(scratch: &mut Scratch<'_>) -> Probe {
    let claimed = claimed(scratch);
    scratch.fill(0, 4 * MIB, 14)?;
    // A real one before, so that there is a last range which a target could take again.
    let lba = scratch.lba(4 * MIB);
    let real = unmap(scratch, cdb::unmap_list(lba, 8));
    let empty = scratch.send(Kind::Delete, cdb::unmap(0), Data::None);
    let head = unmap(scratch, ranges(&[]));
    let zero = scratch.lba(0);
    let zero = unmap(scratch, ranges(&[(zero, 0)]));
    let kept = scratch.holds(0, [0, 4 * MIB], 14)?;
    let found = format!(
        "no list: {}, no ranges: {}, a range of 0 blocks: {}; contents {}",
        ended(&empty),
        ended(&head),
        ended(&zero),
        if kept { "kept" } else { "LOST" }
    );
    let fine = empty.is_ok() && head.is_ok() && zero.is_ok();
    let verdict = match () {
        () if !kept => Verdict::Lie,
        () if !claimed && is_unknown(&real) => Verdict::NotClaimed,
        () if fine => Verdict::Honest,
        () => Verdict::Lie,
    };
    Ok(says("not an error (SBC-4 5.36)", found, verdict))
}

pub(super) fn space(scratch: &mut Scratch<'_>) -> Probe {
    const LENGTH: u64 = 8 * MIB;
    let lba = scratch.lba(0);
    let list = cdb::unmap_list(lba, (LENGTH / 512) as u32);
    let _ = unmap(scratch, list.clone());
    let Some((empty, source)) = space::used(&mut scratch.lun) else {
        let claim = "neither log page 0Ch nor GET LBA STATUS";
        return Ok(says(claim, "not reported", Verdict::NotClaimed));
    };
    let claim = match source {
        space::Source::LogPage => "log page 0Ch",
        space::Source::LbaStatus => "GET LBA STATUS",
    };
    if let Some(coarse) = scratch.used().map(|used| used.unit).filter(|unit| *unit > MIB) {
        let found = format!("it counts in units of {} MiB, too coarse to be tried", coarse / MIB);
        return Ok(says(claim, found, Verdict::Unclear));
    }
    scratch.fill(0, LENGTH, 15)?;
    let full = scratch.used_reaches(|used| mib(empty, used) >= 7.9)?;
    let done = unmap(scratch, list);
    let again = scratch.used_reaches(|used| done.is_err() || mib(full, used) <= -7.9)?;
    let found = format!(
        "8 MiB written: {:+.1} MiB; UNMAP of them: {}, {:+.1} MiB",
        mib(empty, full),
        ended(&done),
        mib(full, again)
    );
    let verdict = match (mib(empty, full) >= 7.9, done.is_ok(), mib(full, again) <= -7.9) {
        (true, true, true) => Verdict::Honest,
        (_, false, _) => Verdict::NotClaimed,
        _ => Verdict::Lie,
    };
    Ok(says(claim, found, verdict))
}

fn mib(from: u64, to: u64) -> f64 {
    (to as f64 - from as f64) / MIB as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_ranges_carry_their_lengths() {
        assert_eq!(ranges(&[]), [0, 6, 0, 0, 0, 0, 0, 0]);
        assert_eq!(ranges(&[(7, 8)]), cdb::unmap_list(7, 8));
        assert_eq!(ranges(&[(1, 1), (3, 1)]).len(), 40);
    }
}
