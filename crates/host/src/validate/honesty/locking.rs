//! COMPARE AND WRITE (ATS) and ABORT TASK.

use super::{Scratch, ended, is_unknown, says};
use crate::esxi::counters::Kind;
use crate::initiator::cdb;
use crate::initiator::ranges::pattern;
use crate::initiator::session::{Data, HeaderDigest, Session, SessionError, TaskName};
use crate::validate::model::Verdict;

type Probe = Result<super::Probe, SessionError>;

/// Swaps `blocks` blocks at the scratch area's start from one pattern to another, then says
/// whether that is what lies there.
fn swap(
    scratch: &mut Scratch<'_>,
    blocks: u64,
) -> Result<(Result<Vec<u8>, SessionError>, bool), SessionError> {
    let length = blocks * 512;
    scratch.fill(0, length, 1)?;
    let data = [pattern(1, 0, length), pattern(2, 0, length)].concat();
    let cdb = cdb::compare_and_write(scratch.lba(0), blocks as u8);
    let done = scratch.send(Kind::Ats, cdb, Data::Out(data));
    let seed = if done.is_ok() { 2 } else { 1 };
    let right = scratch.holds(0, [0, length], seed)?;
    Ok((done, right))
}

pub(super) fn limit(scratch: &mut Scratch<'_>) -> Probe {
    let most = u64::from(scratch.lun.identity.ats_blocks_max);
    let claim = format!("MAXIMUM COMPARE AND WRITE LENGTH {most}");
    let (done, right) = swap(scratch, most.max(1))?;
    let mut found = format!("{} blocks: {}", most.max(1), ended(&done));
    let mut verdict = match (most, &done, right) {
        (_, _, false) => Verdict::Lie,
        (0, Err(_), _) => Verdict::NotClaimed,
        (0, Ok(_), _) | (_, Ok(_), _) => Verdict::Honest,
        (_, Err(_), _) => Verdict::Lie,
    };
    if !right {
        found += ", and the blocks are not what they should be";
    }
    if (1..255).contains(&most) {
        let (done, right) = swap(scratch, most + 1)?;
        found += &format!("; {} blocks: {}", most + 1, ended(&done));
        if !right {
            found += ", and the blocks are not what they should be";
            verdict = Verdict::Lie;
        }
    }
    Ok(says(claim, found, verdict))
}

pub(super) fn compare(scratch: &mut Scratch<'_>) -> Probe {
    scratch.fill(0, 512, 1)?;
    let data = [pattern(3, 0, 512), pattern(2, 0, 512)].concat();
    let cdb = cdb::compare_and_write(scratch.lba(0), 1);
    let done = scratch.send(Kind::Ats, cdb, Data::Out(data));
    let kept = scratch.holds(0, [0, 512], 1)?;
    let nothing = scratch.send(Kind::Ats, cdb::compare_and_write(scratch.lba(0), 0), Data::None);
    let found = format!(
        "a miscompare ends with {}, the block is {}; 0 blocks: {}",
        ended(&done),
        if kept { "kept" } else { "OVERWRITTEN" },
        ended(&nothing)
    );
    let reported = matches!(done, Err(SessionError::Command { key: 0xe, ascq: 0x1d00, .. }));
    let verdict = match () {
        () if !kept || done.is_ok() => Verdict::Lie,
        () if is_unknown(&done) && scratch.lun.identity.ats_blocks_max == 0 => Verdict::NotClaimed,
        () if reported => Verdict::Honest,
        () => Verdict::Lie,
    };
    Ok(says("0Eh/1Dh/00h when the blocks differ, and nothing is written", found, verdict))
}

pub(super) fn abort(scratch: &mut Scratch<'_>) -> Probe {
    let url = scratch.bench.paths(0)[0].clone();
    let initiator = "iqn.1998-01.com.vmware:validate-abort";
    let mut session = Session::connect(&url, initiator, HeaderDigest::None)?;
    let read = |session: &mut Session| session.command(cdb::read(0, 1), Data::In(vec![0; 512]));
    read(&mut session)?;
    let last = session.last_task().ok_or(SessionError::Lost)?;
    let unknown = TaskName { initiator_task_tag: 0x7fff_fff0, ..last };
    let mut answers = Vec::new();
    for name in [last, unknown, last, unknown] {
        answers.push(session.abort_task(name)?.0);
    }
    let alive = read(&mut session).is_ok();
    let words: Vec<&str> = answers.iter().map(|answer| response(*answer)).collect();
    let found = format!(
        "ended, unknown, ended, unknown: {}; the session {}",
        words.join(", "),
        if alive { "lives" } else { "is DEAD" }
    );
    let verdict = abort_verdict(&answers, alive);
    Ok(says("task management (RFC 7143 11.6)", found, verdict))
}

/// Judges the answers to ABORT TASK. 'Task management function not supported' is an answer that
/// the standard has, and no lie.
fn abort_verdict(answers: &[u32], alive: bool) -> Verdict {
    let fine = answers.iter().all(|answer| matches!(answer, 0 | 1));
    let refused = answers.iter().all(|answer| matches!(answer, 0 | 1 | 5));
    match (fine, refused) {
        _ if !alive => Verdict::Lie,
        (true, _) => Verdict::Honest,
        (false, true) => Verdict::NotClaimed,
        (false, false) => Verdict::Lie,
    }
}

/// RESPONSE of RFC 7143 11.6.1.
fn response(answer: u32) -> &'static str {
    match answer {
        0 => "function complete",
        1 => "task does not exist",
        2 => "LUN does not exist",
        5 => "not supported",
        255 => "REJECTED",
        _ => "another answer",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_abort_that_is_not_supported_is_no_lie() {
        let rows: [(&[u32], bool, Verdict); 8] = [
            (&[0, 1, 0, 1], true, Verdict::Honest),
            (&[5, 5, 5, 5], true, Verdict::NotClaimed),
            (&[0, 5, 1, 5], true, Verdict::NotClaimed),
            (&[0, 2, 0, 2], true, Verdict::Lie),
            (&[0, 255, 0, 255], true, Verdict::Lie),
            (&[5, 5, 5, 255], true, Verdict::Lie),
            (&[0, 1, 0, 1], false, Verdict::Lie),
            (&[5, 5, 5, 5], false, Verdict::Lie),
        ];
        for (answers, alive, verdict) in rows {
            assert_eq!(abort_verdict(answers, alive), verdict, "{answers:?} {alive}");
        }
    }
}
