//! The honesty card: what the array advertises is tried, and every GOOD is read back. Each probe
//! knows a lie that some target told.

mod consistency;
mod copying;
mod deallocation;
mod freed;
mod locking;
mod unmap_bit;
mod zeroing;

use std::collections::BTreeSet;

use anyhow::Result;

use super::Context;
use super::bench::Bench;
use super::model::{Probe, Verdict};
use super::progress::Progress;
use super::store::Store;
use crate::esxi::counters::Kind;
use crate::esxi::lun::Lun;
use crate::initiator::cdb::{self, Cdb};
use crate::initiator::ranges::pattern;
use crate::initiator::session::{Data, SessionError};

const MIB: u64 = 1 << 20;

/// Bytes at the end of the LUN that the probes write.
const SCRATCH: u64 = 64 * MIB;

/// What a probe works on: the first LUN, over one path, with a session of its own.
struct Scratch<'a> {
    bench: &'a Bench,
    lun: Lun,
    /// First byte that may be written; a multiple of 1 MiB.
    at: u64,
    /// Cuts the power of the array, if somebody can.
    power_cut: Option<&'a str>,
    /// Operation codes that are known not to exist, and count as that once.
    missing: &'a BTreeSet<u8>,
    /// Those that this probe found not to exist.
    unknown: BTreeSet<u8>,
    /// The first command that was not answered.
    silence: Option<SessionError>,
}

/// A probe.
type Try = fn(&mut Scratch<'_>) -> Result<Probe, SessionError>;

const PROBES: [(&str, Try); 17] = [
    ("Does COMPARE AND WRITE take as many blocks as it says, and no more?", locking::limit),
    ("Does COMPARE AND WRITE compare?", locking::compare),
    ("Does ABORT TASK answer, for ended and unknown tasks too?", locking::abort),
    ("WRITE SAME of 0 blocks: to the end, or refused", zeroing::zero_length),
    ("WRITE SAME writes other patterns than zeros", unmap_bit::plain_pattern),
    ("WRITE SAME with the UNMAP bit writes other patterns than zeros", unmap_bit::pattern),
    ("WRITE SAME with the UNMAP bit frees, and reads as zeros", unmap_bit::zeros),
    ("WRITE SAME takes as many blocks as it says, and no more", zeroing::limit),
    ("FUA: written through when the LUN says it can", zeroing::force_unit_access),
    ("UNMAP frees its granularity, and only that", deallocation::granularity),
    ("UNMAP keeps its own limits", deallocation::limits),
    ("UNMAP without ranges changes nothing", deallocation::nothing),
    ("Used space follows writes and UNMAP", deallocation::space),
    ("EXTENDED COPY takes as many segments as it says, and never some of them", copying::segments),
    ("EXTENDED COPY refuses LUNs that are not mapped to the host", copying::unmapped),
    ("Provisioning bits agree with each other", consistency::provisioning),
    ("Pages and operation codes that are listed exist", consistency::listed),
];

/// Probes, and a look at each verdict.
pub(super) fn count() -> usize {
    PROBES.len()
}

/// Asks everything. Each verdict is written as soon as it is known; what cannot be asked because
/// the array is gone is not, so that it is asked again when the validation goes on.
///
/// # Errors
/// When the folder cannot be written.
pub(super) fn examine(
    context: &Context,
    store: &Store,
    progress: &mut Progress,
) -> Result<Vec<Probe>> {
    let mut missing = BTreeSet::new();
    let mut probes = Vec::new();
    for (number, (question, probe)) in PROBES.iter().enumerate() {
        let kept = store.kept(&format!("honesty-{number}"), || {
            progress.begin(question, "promises");
            let lun = context.bench.lun_by_one_path(0, "probe")?;
            Ok(ask(context, lun, (question, *probe), &missing))
        });
        progress.done("promises");
        let (probe, unknown) = kept.unwrap_or_else(|error| {
            let found = says("", format!("{error:#}"), Verdict::NoAnswer);
            (Probe { question: (*question).to_owned(), ..found }, Vec::new())
        });
        missing.extend(unknown);
        probes.push(probe);
    }
    Ok(probes)
}

/// Asks one question; also returns which operation codes were found not to exist.
fn ask(
    context: &Context,
    lun: Lun,
    (question, probe): (&str, Try),
    missing: &BTreeSet<u8>,
) -> (Probe, Vec<u8>) {
    let at = (lun.identity.size_bytes - SCRATCH) / MIB * MIB;
    let power_cut = context.power_cut.as_deref();
    let (bench, unknown) = (&context.bench, BTreeSet::new());
    let mut scratch = Scratch { bench, lun, at, power_cut, missing, unknown, silence: None };
    let mut found = probe(&mut scratch).unwrap_or_else(|error| {
        let verdict = if is_silence(&error) { Verdict::NoAnswer } else { Verdict::Unclear };
        says("", format!("the probe ended early: {error}"), verdict)
    });
    if let Some(silence) = scratch.silence.take().filter(|_| found.verdict != Verdict::NoAnswer) {
        // Of contents that were LOST the words tell; silence is the finding.
        let silence = silence.to_string();
        if !found.found.contains(&silence) {
            found.found = format!("{}; {silence}", found.found);
        }
        found.verdict = Verdict::NoAnswer;
    }
    let found = once(found, &scratch.unknown, missing);
    (Probe { question: question.to_owned(), ..found }, scratch.unknown.into_iter().collect())
}

/// A command that does not exist is one finding, not one of each probe that needs it.
fn once(mut found: Probe, unknown: &BTreeSet<u8>, missing: &BTreeSet<u8>) -> Probe {
    if found.verdict == Verdict::Lie && unknown.intersection(missing).next().is_some() {
        found.verdict = Verdict::NotClaimed;
        found.found += "; the command does not exist, which counts once, above";
    }
    found
}

/// Whether the array was silent, or is gone.
fn is_silence(error: &SessionError) -> bool {
    match error {
        SessionError::NoAnswer { .. }
        | SessionError::Lost
        | SessionError::Connect { .. }
        | SessionError::AllPathsDown
        | SessionError::PermanentlyLost => true,
        SessionError::Url(_)
        | SessionError::TakenOver
        | SessionError::Command { .. }
        | SessionError::Unsupported(_) => false,
    }
}

fn says(claim: impl Into<String>, found: impl Into<String>, verdict: Verdict) -> Probe {
    Probe { question: String::new(), claim: claim.into(), found: found.into(), verdict }
}

/// A command's end, for people.
fn ended<T>(result: &Result<T, SessionError>) -> String {
    match result {
        Ok(_) => "GOOD".to_owned(),
        Err(SessionError::Command { key, ascq, .. }) if *key != 0 => {
            format!("{key:02X}h/{:02X}h/{:02X}h", ascq >> 8, ascq & 0xff)
        }
        Err(error) => error.to_string(),
    }
}

/// Whether the command as such is unknown: INVALID COMMAND OPERATION CODE.
fn is_unknown<T>(result: &Result<T, SessionError>) -> bool {
    matches!(result, Err(SessionError::Command { key: 5, ascq: 0x2000, .. }))
}

impl Scratch<'_> {
    /// Writes a pattern; `at` counts from the scratch area's start.
    fn fill(&mut self, at: u64, length: u64, seed: u64) -> Result<(), SessionError> {
        let start = self.at + at;
        self.lun.over([start, length], MIB, |here, length| crate::esxi::lun::Job {
            tag: 0,
            kind: Kind::Write,
            cdb: cdb::write(here / 512, (length / 512) as u32),
            data: Data::Out(pattern(seed, here - start, length)),
            bytes: length,
        })
    }

    /// Whether a range still holds what [`Scratch::fill`] wrote from `origin` on.
    fn holds(
        &mut self,
        origin: u64,
        [at, length]: [u64; 2],
        seed: u64,
    ) -> Result<bool, SessionError> {
        let read = self.lun.read_bytes(self.at + at, length)?;
        Ok(read == pattern(seed, at - origin, length))
    }

    fn is_zero(&mut self, at: u64, length: u64) -> Result<bool, SessionError> {
        Ok(self.lun.read_bytes(self.at + at, length)?.iter().all(|byte| *byte == 0))
    }

    fn lba(&self, at: u64) -> u64 {
        (self.at + at) / 512
    }

    /// A command. Silence is no answer of which a probe could make something: it ends the probe
    /// at its next command.
    fn send(&mut self, kind: Kind, cdb: Cdb, data: Data) -> Result<Vec<u8>, SessionError> {
        let done = self.lun.command(kind, cdb, data, 0);
        if is_unknown(&done) {
            self.unknown.insert(cdb[0]);
        }
        if let Err(error) = &done
            && is_silence(error)
        {
            self.silence.get_or_insert_with(|| error.clone());
        }
        done
    }

    /// A vital product data page, empty if there is none.
    fn page(&mut self, page: u8) -> Vec<u8> {
        let mut cdb = [0; 16];
        cdb[..6].copy_from_slice(&[0x12, 1, page, 0, 252, 0]);
        self.send(Kind::Other, cdb, Data::In(vec![0; 252])).unwrap_or_default()
    }

    /// Mapped blocks of a range, if the LUN tells.
    fn mapped(&mut self, at: u64, length: u64) -> Option<u64> {
        let lba = self.lba(at);
        super::space::mapped(&mut self.lun, lba, length / 512).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_does_not_exist_counts_once() {
        let lie = says("", "20h/00h", Verdict::Lie);
        let (none, caw) = (BTreeSet::new(), BTreeSet::from([0x89]));
        assert_eq!(once(lie.clone(), &caw, &none).verdict, Verdict::Lie, "the first one");
        assert_eq!(once(lie.clone(), &caw, &caw).verdict, Verdict::NotClaimed);
        assert_eq!(once(lie.clone(), &none, &caw).verdict, Verdict::Lie, "for another reason");
        assert_eq!(once(lie, &BTreeSet::from([0x42]), &caw).verdict, Verdict::Lie);
    }

    #[test]
    fn endings_are_written_as_the_standard_writes_them() {
        let command = |key, ascq| SessionError::Command { opcode: 0x93, status: 2, key, ascq };
        assert_eq!(ended(&Err::<(), _>(command(5, 0x2400))), "05h/24h/00h");
        assert_eq!(ended(&Ok(())), "GOOD");
        assert!(is_unknown(&Err::<(), _>(command(5, 0x2000))));
        assert!(!is_unknown(&Err::<(), _>(command(5, 0x2400))));
    }
}
