//! WRITE SAME (Zero), and FUA.

use super::{MIB, Scratch, ended, is_unknown, says};
use crate::esxi::counters::Kind;
use crate::initiator::cdb::{self, Cdb};
use crate::initiator::ranges::pattern;
use crate::initiator::session::{Data, SessionError};
use crate::validate::model::Verdict;

type Probe = Result<super::Probe, SessionError>;

/// Blocks that the test of a limit writes at most: more would take long where zeros are written.
const LIMIT_TRIED: u64 = (256 << 20) / 512;

pub(super) fn zero_length(scratch: &mut Scratch<'_>) -> Probe {
    let size = scratch.lun.identity.size_bytes;
    let at = size - MIB - scratch.at;
    scratch.fill(at, MIB, 4)?;
    let not_zero = scratch.page(0xb0).get(4).copied().unwrap_or(0) & 1 == 1;
    let cdb = cdb::write_same(scratch.lba(at), 0);
    let done = scratch.send(Kind::Zero, cdb, Data::Out(vec![0; 512]));
    let (zero, kept) = (scratch.is_zero(at, MIB)?, scratch.holds(at, [at, MIB], 4)?);
    let state = match (zero, kept) {
        (true, _) => "zero to the end",
        (_, true) => "nothing was written",
        _ => "some of it was written",
    };
    let verdict = match (done.is_ok(), zero, kept) {
        (true, true, _) if !not_zero => Verdict::Honest,
        (false, _, true) if is_unknown(&done) => Verdict::NotClaimed,
        (false, _, true) => Verdict::Honest,
        _ => Verdict::Lie,
    };
    let claim =
        if not_zero { "WSNZ = 1: refused" } else { "WSNZ = 0: to the LUN's end, or refused" };
    Ok(says(claim, format!("{}, {state}", ended(&done)), verdict))
}

pub(super) fn limit(scratch: &mut Scratch<'_>) -> Probe {
    let most = scratch.lun.identity.write_same_blocks_max;
    let claim = match most {
        0 => "no MAXIMUM WRITE SAME LENGTH".to_owned(),
        most => format!("MAXIMUM WRITE SAME LENGTH {most}"),
    };
    if most == 0 {
        return Ok(says(claim, "there is no limit to try", Verdict::NotClaimed));
    }
    let blocks = scratch.lun.identity.size_bytes / 512;
    if most >= blocks || most >= LIMIT_TRIED {
        return Ok(says(claim, "too large to be tried on this LUN", Verdict::Unclear));
    }
    let first = blocks - most - 1;
    let same = |scratch: &mut Scratch<'_>, count: u64| {
        let cdb = cdb::write_same(first, count as u32);
        scratch.send(Kind::Zero, cdb, Data::Out(vec![0; 512]))
    };
    let mark = pattern(8, 0, 512);
    for lba in [first, first + most / 2, blocks - 1] {
        scratch.send(Kind::Write, cdb::write(lba, 1), Data::Out(mark.clone()))?;
    }
    let more = same(scratch, most + 1);
    let kept = scratch.lun.read_bytes(first * 512, 512)? == mark;
    let all = same(scratch, most);
    let zero = scratch.lun.read_bytes((first + most / 2) * 512, 512)?.iter().all(|byte| *byte == 0);
    let found = format!("{most} blocks: {}; {} blocks: {}", ended(&all), most + 1, ended(&more));
    let fits = all.is_ok() && zero && (more.is_ok() != kept);
    Ok(says(claim, found, if fits { Verdict::Honest } else { Verdict::Lie }))
}

/// MODE SENSE (6) of the caching page: DPOFUA of the header, WCE of the page.
fn caching(scratch: &mut Scratch<'_>) -> Option<(bool, Option<bool>)> {
    let mut cdb = [0; 16];
    cdb[..6].copy_from_slice(&[0x1a, 8, 8, 0, 64, 0]);
    let sense = scratch.send(Kind::Other, cdb, Data::In(vec![0; 64])).ok()?;
    let page = sense.get(4 + usize::from(*sense.get(3)?)..)?;
    let write_cache = (page.first()? & 0x3f == 8).then(|| page[2] & 4 != 0);
    Some((sense[2] & 0x10 != 0, write_cache))
}

pub(super) fn force_unit_access(scratch: &mut Scratch<'_>) -> Probe {
    let Some((claimed, cache)) = caching(scratch) else {
        return Ok(says("MODE SENSE does not tell", "not tried", Verdict::Unclear));
    };
    let fua = |mut cdb: Cdb| {
        cdb[1] |= 8;
        cdb
    };
    scratch.fill(0, 512, 1)?;
    let lba = scratch.lba(0);
    let wrote = scratch.send(Kind::Write, fua(cdb::write(lba, 1)), Data::Out(pattern(9, 0, 512)));
    let right = scratch.holds(0, [0, 512], if wrote.is_ok() { 9 } else { 1 })?;
    let read = scratch.send(Kind::Read, fua(cdb::read(lba, 1)), Data::In(vec![0; 512]));
    let mut synchronize = [0; 16];
    synchronize[0] = 0x91;
    let synchronized = scratch.send(Kind::Other, synchronize, Data::None);
    let claim = format!(
        "DPOFUA = {}, WCE = {}",
        u8::from(claimed),
        cache.map_or("not told".to_owned(), |cache| u8::from(cache).to_string())
    );
    let survived = match scratch.power_cut {
        Some(command) if claimed && wrote.is_ok() => Some(survives(scratch, command)?),
        _ => None,
    };
    let found = format!(
        "WRITE: {}, READ: {}, SYNCHRONIZE CACHE: {}; {}",
        ended(&wrote),
        ended(&read),
        ended(&synchronized),
        match survived {
            None => "whether it survives a power cut cannot be seen from outside".to_owned(),
            Some(0) => "all of it survived a power cut".to_owned(),
            Some(lost) => format!("{lost} of {FUA_BLOCKS} writes LOST in a power cut"),
        }
    );
    let without_flush = cache == Some(true) && is_unknown(&synchronized) && wrote.is_err();
    let verdict = match (claimed, wrote.is_ok() && read.is_ok(), survived) {
        _ if !right || without_flush => Verdict::Lie,
        (true, false, _) | (true, true, Some(1..)) => Verdict::Lie,
        (true, true, Some(0)) => Verdict::Honest,
        (true, true, None) => Verdict::Unclear,
        (false, ..) => Verdict::NotClaimed,
    };
    Ok(says(claim, found, verdict))
}

/// Writes that are followed by a power cut.
const FUA_BLOCKS: u64 = 64;

/// Writes blocks with FUA, has the power cut, and counts those that are not there any more.
fn survives(scratch: &mut Scratch<'_>, command: &str) -> Result<u64, SessionError> {
    scratch.fill(0, FUA_BLOCKS * 512, 1)?;
    for number in 0..FUA_BLOCKS {
        let mut cdb = cdb::write(scratch.lba(number * 512), 1);
        cdb[1] |= 8;
        scratch.send(Kind::Write, cdb, Data::Out(pattern(10, number * 512, 512)))?;
    }
    let cut = std::process::Command::new("sh").args(["-c", command]).status();
    if !cut.is_ok_and(|status| status.success()) {
        return Err(SessionError::Unsupported("--power-cut: the command failed"));
    }
    let read = scratch.lun.read_bytes(scratch.at, FUA_BLOCKS * 512)?;
    let wanted = pattern(10, 0, FUA_BLOCKS * 512);
    let lost = read.chunks(512).zip(wanted.chunks(512)).filter(|(is, should)| is != should);
    Ok(lost.count() as u64)
}
