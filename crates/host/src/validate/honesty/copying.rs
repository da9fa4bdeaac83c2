//! EXTENDED COPY (Clone).

use super::{MIB, Scratch, ended, is_unknown, says};
use crate::esxi::counters::Kind;
use crate::initiator::cdb::{self, Segment};
use crate::initiator::ranges::pattern;
use crate::initiator::session::{Data, SessionError};
use crate::validate::model::Verdict;

type Probe = Result<super::Probe, SessionError>;
type Ended = Result<Vec<u8>, SessionError>;

/// Segments of one command that are tried; more make lists that some targets refuse for their
/// length alone.
const SEGMENTS_TRIED: u64 = 1024;

fn copy(scratch: &mut Scratch<'_>, [from, to]: [&[u8; 16]; 2], segments: &[Segment]) -> Ended {
    let list = cdb::extended_copy_segments(from, to, segments);
    scratch.send(Kind::Clone, cdb::extended_copy(list.len() as u32), Data::Out(list))
}

/// Copies single blocks, as many segments as wanted, and counts those that arrived.
fn copy_segments(
    scratch: &mut Scratch<'_>,
    naa: &[u8; 16],
    count: u64,
) -> Result<(Ended, u64), SessionError> {
    let room = (count * 512).next_multiple_of(MIB);
    scratch.fill(0, room, 16)?;
    scratch.fill(16 * MIB, room, 17)?;
    let (source, destination) = (scratch.lba(0), scratch.lba(16 * MIB));
    let segments: Vec<Segment> =
        (0..count).map(|number| (source + number, destination + number, 1)).collect();
    let done = copy(scratch, [naa, naa], &segments);
    let read = scratch.lun.read_bytes(scratch.at + 16 * MIB, count * 512)?;
    let wanted = pattern(16, 0, count * 512);
    let arrived = read.chunks(512).zip(wanted.chunks(512)).filter(|(is, should)| is == should);
    Ok((done, arrived.count() as u64))
}

pub(super) fn segments(scratch: &mut Scratch<'_>) -> Probe {
    let third_party = scratch.lun.identity.third_party_copy;
    let Some(naa) = scratch.lun.identity.naa else {
        return Ok(says("no NAA identifier", "not tried", Verdict::NotClaimed));
    };
    let most = scratch.lun.identity.copy.map_or(0, |(segments, _)| u64::from(segments));
    let claim = format!("3PC = {}, {most} segments", u8::from(third_party));
    let tried = most.clamp(1, SEGMENTS_TRIED);
    let (done, arrived) = copy_segments(scratch, &naa, tried)?;
    if !third_party && is_unknown(&done) {
        return Ok(says(claim, ended(&done), Verdict::NotClaimed));
    }
    let mut found = format!("{tried} segments: {}, {arrived} arrived", ended(&done));
    let mut honest = done.is_ok() && arrived == tried;
    if tried == most {
        let (more, arrived) = copy_segments(scratch, &naa, most + 1)?;
        found += &format!("; {} segments: {}, {arrived} arrived", most + 1, ended(&more));
        honest &= more.is_err() || arrived == most + 1;
    }
    Ok(says(claim, found, if honest { Verdict::Honest } else { Verdict::Lie }))
}

pub(super) fn unmapped(scratch: &mut Scratch<'_>) -> Probe {
    let claim = "only LUNs that the host sees can be copied from (CVE-2020-28374)";
    let Some(naa) = scratch.lun.identity.naa else {
        return Ok(says(claim, "no NAA identifier, so nothing to copy by", Verdict::NotClaimed));
    };
    let mut found = Vec::new();
    let mut verdict = Verdict::Honest;
    let destination = scratch.lba(0);
    for (name, change) in [("last byte", 15), ("tenth byte", 9)] {
        let mut other = naa;
        other[change] ^= 0x5a;
        scratch.fill(0, MIB, 18)?;
        let done = copy(scratch, [&other, &naa], &[(0, destination, 2048)]);
        let kept = scratch.holds(0, [0, MIB], 18)?;
        found.push(format!(
            "an identifier with another {name}: {}, destination {}",
            ended(&done),
            if kept { "kept" } else { "OVERWRITTEN" }
        ));
        if is_unknown(&done) && verdict == Verdict::Honest {
            verdict = Verdict::NotClaimed;
        }
        if done.is_ok() || !kept {
            verdict = Verdict::Lie;
        }
    }
    Ok(says(claim, found.join("; "), verdict))
}
