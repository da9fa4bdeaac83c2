//! The abort-and-retry scenario. A host whose heartbeat is not answered in time aborts it, reads
//! the block, and tries again with what it has read. If the aborted command lands after the abort
//! was answered, the retry misses, and the host loses the datastore (IBM, VPLEX, Broadcom 326437).
//!
//! An array cannot be made to stall for 8 s from outside; so the abort follows at once, while the
//! command is most likely under way. What is judged is what the array did after it had said of the
//! command that it is gone; a retry that fails otherwise than by MISCOMPARE is told and not judged.

use std::thread;
use std::time::Duration;

use anyhow::Result;

use crate::initiator::cdb;
use crate::initiator::session::{Data, HeaderDigest, Session, SessionError};
use crate::validate::bench::Bench;
use crate::validate::model::Aborts;

/// How long to wait for a late change, in one round of ten.
const LATE: Duration = Duration::from_millis(20);

/// How often a retry is sent that the array is too busy for.
const BUSY_RETRIES: u32 = 50;
const BUSY_WAIT: Duration = Duration::from_millis(20);

/// Findings that are kept in words.
const FINDINGS_MAX: usize = 8;

/// BUSY and TASK SET FULL (SAM-5 5.3.1), then sense keys (SPC-5 4.5.6).
const BUSY: i32 = 0x08;
const TASK_SET_FULL: i32 = 0x28;
const MISCOMPARE: i32 = 0x0e;
const UNIT_ATTENTION: i32 = 0x06;

type Image = Vec<u8>;

/// What a round's block may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Held {
    /// What was there before.
    Old,
    /// What the aborted command writes.
    New,
    /// What the retry writes.
    Retried,
    /// Something else.
    Strange,
}

/// Whether a command that was answered has written: `None` after an error of which SAM-5 does not say
/// (TASK ABORTED, MEDIUM ERROR).
fn outcome_of(result: &Result<(), SessionError>) -> Option<bool> {
    match result {
        Ok(()) => Some(true),
        Err(SessionError::Command { key: MISCOMPARE | UNIT_ATTENTION, .. }) => Some(false),
        Err(SessionError::Command { status: BUSY | TASK_SET_FULL, .. }) => Some(false),
        Err(_) => None,
    }
}

/// The blocks of a round differ from those of all others.
struct Images {
    old: Image,
    new: Image,
    retried: Image,
}

impl Images {
    fn of(round: u64) -> Self {
        let image = |number: u64| {
            let mut image = vec![0; 512];
            image[..8].copy_from_slice(&(round * 3 + number).to_le_bytes());
            image
        };
        Self { old: image(1), new: image(2), retried: image(3) }
    }

    fn held(&self, found: &Image) -> Held {
        let all = [(&self.old, Held::Old), (&self.new, Held::New), (&self.retried, Held::Retried)];
        all.into_iter().find(|(image, _)| *image == found).map_or(Held::Strange, |(_, held)| held)
    }
}

/// What the retry came to.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Retry {
    Good,
    /// MISCOMPARE: it did not find what had just been read; what the block holds since.
    Missed(Held),
    /// Something else: says nothing about the aborted command.
    Failed(String),
}

/// A round whose ABORT TASK was answered with 'complete' or 'does not exist': by both the command is
/// gone, and changes nothing any more.
#[derive(Clone, Debug)]
struct Outcome {
    response: u32,
    /// Whether the command ended with GOOD, if it was answered before the abort was.
    known: Option<bool>,
    /// What was read then, and a moment later.
    found: [Held; 2],
    retry: Retry,
}

impl Outcome {
    /// Why the array is wrong, if it is: it changed the block after it had answered the abort, or answered
    /// the command with something else than it did. Nobody else writes to the block.
    fn fault(&self) -> Option<String> {
        let [found, later] = self.found;
        match self.known {
            Some(true) if found != Held::New => {
                return Some(format!("GOOD, but the block then read was {found:?}"));
            }
            Some(false) if found == Held::New => {
                return Some("an error, but the block had been written".to_owned());
            }
            _ => {}
        }
        if !matches!(found, Held::Old | Held::New) {
            return Some("the block held what nobody wrote".to_owned());
        }
        if later != found {
            return Some(format!("the block read first was {found:?}, and then {later:?}"));
        }
        match self.retry {
            Retry::Missed(held) if held != found => Some(format!(
                "the block read was {found:?}; a COMPARE AND WRITE of that missed, and the block then read \
                 was {held:?}"
            )),
            Retry::Missed(held) => {
                Some(format!("the block read before and after a retry that missed was {held:?}"))
            }
            Retry::Good | Retry::Failed(_) => None,
        }
    }
}

/// Counts a round.
fn note(aborts: &mut Aborts, round: u64, outcome: &Outcome) {
    aborts.old += u64::from(outcome.found[0] == Held::Old);
    aborts.new += u64::from(outcome.found[0] == Held::New);
    let answer = if outcome.response == 0 { "function complete" } else { "task does not exist" };
    let mut words = None;
    if let Some(fault) = outcome.fault() {
        aborts.wrong += 1;
        words = Some(fault);
    } else if let Retry::Failed(error) = &outcome.retry {
        aborts.retries_failed += 1;
        words = Some(format!("not counted as wrong: the retry failed: {error}"));
    }
    if let Some(words) = words.filter(|_| aborts.findings.len() < FINDINGS_MAX) {
        let command = match outcome.known {
            Some(true) => "ended with GOOD before that",
            Some(false) => "ended with an error before that",
            None => "was not answered, or with an error that leaves it open",
        };
        aborts.findings.push(format!(
            "round {round}: ABORT TASK was answered with '{answer}', the command {command}; {words}"
        ));
    }
}

struct Client {
    session: Session,
    lba: u64,
}

impl Client {
    /// Each round has a block of its own: what comes late cannot be taken for another round's.
    fn connect(bench: &Bench, round: u64) -> Result<Self> {
        let unit = bench.other();
        let initiator = "iqn.1998-01.com.vmware:validate-retry";
        let session = Session::connect(&bench.paths(unit)[0], initiator, HeaderDigest::None)?;
        let lba = first_lba(bench) + round;
        Ok(Self { session, lba })
    }

    fn read(&mut self) -> Result<Image, SessionError> {
        self.session.command(cdb::read(self.lba, 1), Data::In(vec![0; 512]))
    }

    fn write(&mut self, image: &Image) -> Result<(), SessionError> {
        self.session.command(cdb::write(self.lba, 1), Data::Out(image.clone())).map(|_| ())
    }

    fn swap(&mut self, from: &Image, to: &Image) -> Result<(), SessionError> {
        let data = [from.as_slice(), to].concat();
        self.session.command(cdb::compare_and_write(self.lba, 1), Data::Out(data)).map(|_| ())
    }

    /// Begins to swap, aborts; returns the answer, and whether the command had ended with GOOD.
    fn swap_and_abort(
        &mut self,
        images: &Images,
        wait: Duration,
    ) -> Result<(u32, Option<bool>), SessionError> {
        let data = Data::Out([images.old.as_slice(), &images.new].concat());
        self.session.submit(0, cdb::compare_and_write(self.lba, 1), data)?;
        let name = self.session.last_task().ok_or(SessionError::Lost)?;
        thread::sleep(wait);
        let (response, mut ended) = self.session.abort_task(name)?;
        let known = ended.pop().and_then(|finished| outcome_of(&finished.result));
        if known.is_none() && matches!(response, 0 | 1) {
            self.session.forget_last();
        }
        Ok((response, known))
    }

    /// Swaps what was read; an array that is busy is asked again.
    fn retry(&mut self, images: &Images, found: &Image) -> Result<Retry, SessionError> {
        let mut busy = 0;
        loop {
            match self.swap(found, &images.retried) {
                Ok(()) => return Ok(Retry::Good),
                Err(SessionError::Command { key: MISCOMPARE, .. }) => {
                    let held = self.read()?;
                    return Ok(Retry::Missed(images.held(&held)));
                }
                Err(SessionError::Command { status: BUSY | TASK_SET_FULL, .. })
                    if busy < BUSY_RETRIES =>
                {
                    busy += 1;
                    thread::sleep(BUSY_WAIT);
                }
                Err(error) => return Ok(Retry::Failed(error.to_string())),
            }
        }
    }

    /// A round; none where the abort was refused: the command goes on, and may.
    fn round(&mut self, round: u64) -> Result<Option<Outcome>, SessionError> {
        let images = Images::of(round);
        self.write(&images.old)?;
        let wait = Duration::from_micros(round % 4 * 40);
        let (response, known) = self.swap_and_abort(&images, wait)?;
        if !matches!(response, 0 | 1) {
            return Ok(None);
        }
        let first = self.read()?;
        let mut found = [images.held(&first); 2];
        if round.is_multiple_of(10) {
            thread::sleep(LATE);
            found[1] = images.held(&self.read()?);
        }
        let retry = self.retry(&images, &first)?;
        Ok(Some(Outcome { response, known, found, retry }))
    }
}

fn first_lba(bench: &Bench) -> u64 {
    (bench.size_bytes(bench.other()) - super::QUIET) / 512 + 1024
}

/// Runs so many rounds.
///
/// # Errors
/// When the array is not reachable any more.
pub(super) fn run(bench: &Bench, rounds: u64) -> Result<Aborts> {
    let mut client = Client::connect(bench, 0)?;
    let mut aborts = Aborts { rounds, ..Aborts::default() };
    for round in 0..rounds {
        client.lba = first_lba(bench) + round;
        match client.round(round) {
            Ok(Some(outcome)) => {
                match outcome.response {
                    0 => aborts.complete += 1,
                    _ => aborts.ended_before += 1,
                }
                note(&mut aborts, round, &outcome);
            }
            // A command that is under way still, or a connection that went: both end here.
            Ok(None) | Err(_) => {
                aborts.refused += 1;
                client = Client::connect(bench, round)?;
            }
        }
    }
    Ok(aborts)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(known: Option<bool>, found: [Held; 2], retry: Retry) -> Aborts {
        let mut aborts = Aborts::default();
        note(&mut aborts, 7, &Outcome { response: 1, known, found, retry });
        aborts
    }

    #[test]
    fn a_good_that_did_not_write_and_a_strange_block_are_wrong() {
        for (found, known, count) in [
            (Held::Old, None, 0),
            (Held::New, None, 0),
            (Held::New, Some(true), 0),
            (Held::Old, Some(false), 0),
            (Held::Old, Some(true), 1),
            (Held::New, Some(false), 1),
            (Held::Strange, None, 1),
        ] {
            assert_eq!(judged(known, [found; 2], Retry::Good).wrong, count, "{found:?} {known:?}");
        }
    }

    #[test]
    fn a_retry_that_missed_is_wrong_with_its_evidence_and_one_that_failed_is_not_judged() {
        let missed = judged(None, [Held::Old; 2], Retry::Missed(Held::New));
        assert_eq!((missed.wrong, missed.retries_failed), (1, 0));
        for part in
            ["round 7: ", "'task does not exist'", "was not answered", "read was Old", "was New"]
        {
            assert!(missed.findings[0].contains(part), "{:?}", missed.findings);
        }
        let failed = judged(None, [Held::New; 2], Retry::Failed("lost".to_owned()));
        assert_eq!((failed.wrong, failed.retries_failed), (0, 1));
        assert!(failed.findings[0].ends_with("the retry failed: lost"), "{:?}", failed.findings);
        let later = judged(None, [Held::Old, Held::New], Retry::Missed(Held::New));
        assert_eq!((later.wrong, later.old), (1, 1));
    }

    #[test]
    fn an_error_that_leaves_it_open_whether_it_wrote_says_nothing() {
        let command =
            |status, key| Err(SessionError::Command { opcode: 0x89, status, key, ascq: 0 });
        for (result, known) in [
            (Ok(()), Some(true)),
            (command(2, MISCOMPARE), Some(false)),
            (command(2, UNIT_ATTENTION), Some(false)),
            (command(BUSY, 0), Some(false)),
            (command(0x40, 0), None),
            (command(2, 3), None),
            (Err(SessionError::Lost), None),
        ] {
            assert_eq!(outcome_of(&result), known, "{result:?}");
        }
    }

    #[test]
    fn no_two_blocks_of_a_round_or_of_its_neighbours_are_alike() {
        let (one, two) = (Images::of(1), Images::of(2));
        for (image, held) in
            [(&one.old, Held::Old), (&one.new, Held::New), (&one.retried, Held::Retried)]
        {
            assert_eq!((one.held(image), two.held(image)), (held, Held::Strange));
        }
    }
}
