//! Offload ledger: counters by host and volume of what was asked and what became of it.

use std::time::Duration;

use block::{Primitive, TurnedOff, VolumeId};
use hashbrown::HashMap;

use crate::hosts::HostId;
use crate::limits::{REFUSALS_PER_ROW_MAX, ROWS_MAX};
use crate::series::{Flow, FlowSample};

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// GOOD.
    Good,
    /// A COMPARE AND WRITE found another content than it expected.
    Miscompare,
    /// A unit attention condition was told instead, or the command ended early through no fault of
    /// anyone: the host repeats it.
    Interrupted,
    /// Not done, and why.
    Refused(Refusal),
}

/// Why a command was not done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The status in T10's words.
    pub status: &'static str,
    /// Sense key, additional sense code and qualifier, of CHECK CONDITION.
    pub sense: Option<(u8, u8, u8)>,
    /// The name of the sense code in T10's words; empty without one.
    pub reason: &'static str,
    /// The primitive that was turned off, if that is why.
    pub turned_off: Option<TurnedOff>,
}

/// A reason for refusals, and how often it was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The command's name in T10's words.
    pub command: &'static str,
    /// Its kind.
    pub primitive: Primitive,
    /// Why.
    pub refusal: Refusal,
    /// How often.
    pub count: u64,
    /// When first.
    pub first: Duration,
    /// When last.
    pub last: Duration,
}

/// Counters of one class of commands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sums {
    /// Commands that ended with a status.
    pub commands: u64,
    /// Those of them that were not done.
    pub refused: u64,
    /// Bytes that they named, of copies on the side of the destination. Of a refused command whose
    /// list was not read none are known.
    pub asked_bytes: u64,
    /// Those of them for which it was done.
    pub done_bytes: u64,
    /// Microseconds that the commands took together.
    pub micros: u64,
}

/// Byte counters by outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Effects {
    /// Copied to here by taking a reference.
    pub referenced_bytes: u64,
    /// Copied to here by reading and writing in the array.
    pub copied_bytes: u64,
    /// Copied from here, in either way.
    pub source_bytes: u64,
    /// Made holes by UNMAP or WRITE SAME: whole blocks.
    pub zeroed_bytes: u64,
    /// COMPARE AND WRITE that found another content.
    pub miscompares: u64,
    /// Estimate of bytes that the host itself copied to here.
    pub host_copied_bytes: u64,
    /// Zeros that came in WRITE commands: whole blocks.
    pub host_zeroed_bytes: u64,
    /// Holes that were read, in reads of whole blocks.
    pub read_hole_bytes: u64,
}

/// Bytes of zeros, in whole blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Zeros {
    pub(crate) read: u64,
    pub(crate) written: u64,
}

/// One host and one volume.
#[derive(Clone, Debug)]
pub struct Row {
    /// The host.
    pub host: HostId,
    /// The volume.
    pub volume: VolumeId,
    /// Counters by [`Primitive::index`].
    pub sums: [Sums; Primitive::COUNT],
    /// Byte counters.
    pub effects: Effects,
    /// Why commands were refused.
    pub refusals: Vec<Refused>,
    /// When anything was asked last.
    pub last: Duration,
    /// When an EXTENDED COPY of this host to this volume was done last.
    pub last_copy: Option<Duration>,
    /// Where that came from.
    pub last_copy_source: Option<VolumeId>,
    /// When zeros came in WRITE commands, first and last.
    pub zeroing: Option<(Duration, Duration)>,
    /// How many of these zeros came since the last WRITE SAME that was done, bytes.
    pub zeroed_since: u64,
    /// Activity since the last second began.
    recent: FlowSample,
    /// Activity of the last second.
    pub(crate) rates: FlowSample,
}

impl Row {
    fn new(host: HostId, volume: VolumeId) -> Self {
        Self {
            host,
            volume,
            sums: [Sums::default(); Primitive::COUNT],
            effects: Effects::default(),
            refusals: Vec::new(),
            last: Duration::ZERO,
            last_copy: None,
            last_copy_source: None,
            zeroing: None,
            zeroed_since: 0,
            recent: FlowSample::default(),
            rates: FlowSample::default(),
        }
    }

    /// Counters of one class of commands.
    pub const fn of(&self, primitive: Primitive) -> &Sums {
        &self.sums[primitive.index()]
    }

    /// Rates of the last second.
    pub const fn rates(&self) -> &FlowSample {
        &self.rates
    }

    /// Whether the host has its offloads attached: it compares and writes, or lets the array zero.
    pub(crate) fn offloads_without_copying(&self) -> bool {
        let kinds = [Primitive::CompareAndWrite, Primitive::WriteSame];
        kinds.into_iter().any(|kind| self.of(kind).commands > 0)
    }

    /// Zeros that were read here, and that became zeros here in whatever way.
    pub(crate) const fn zeros(&self) -> Zeros {
        let Effects { read_hole_bytes, host_zeroed_bytes, zeroed_bytes, .. } = self.effects;
        Zeros { read: read_hole_bytes, written: host_zeroed_bytes + zeroed_bytes }
    }

    /// Counts a command that ended.
    pub(crate) fn ended(&mut self, primitive: Primitive, took: Duration, done: bool) {
        let micros = took.as_micros() as u64;
        let (sums, recent) =
            (&mut self.sums[primitive.index()], &mut self.recent[primitive.index()]);
        sums.commands += 1;
        sums.refused += u64::from(!done);
        sums.micros += micros;
        recent.commands += 1.0;
        recent.micros += micros as f32;
    }

    /// Counts bytes.
    pub(crate) fn worked(&mut self, primitive: Primitive, bytes: u64, done: bool) {
        let sums = &mut self.sums[primitive.index()];
        sums.asked_bytes += bytes;
        if done {
            sums.done_bytes += bytes;
            self.recent[primitive.index()].bytes += bytes as f32;
        }
    }

    /// Notes why a command was refused.
    pub(crate) fn refused(&mut self, new: Refused) {
        let same =
            |known: &&mut Refused| known.refusal == new.refusal && known.command == new.command;
        if let Some(known) = self.refusals.iter_mut().find(same) {
            known.count += 1;
            known.last = new.last;
            return;
        }
        if self.refusals.len() == REFUSALS_PER_ROW_MAX {
            let oldest = (0..self.refusals.len()).min_by_key(|&at| self.refusals[at].last);
            oldest.map(|at| self.refusals.swap_remove(at));
        }
        self.refusals.push(new);
    }

    /// Begins a new second after so many.
    pub(crate) fn tick(&mut self, seconds: f32) {
        self.rates = std::mem::take(&mut self.recent).map(|flow| Flow {
            commands: flow.commands / seconds,
            bytes: flow.bytes / seconds,
            micros: flow.micros / seconds,
        });
    }
}

/// All rows, in the order in which they began.
#[derive(Debug, Default)]
pub(crate) struct Rows {
    rows: Vec<Row>,
    places: HashMap<(HostId, VolumeId), usize>,
}

impl Rows {
    /// The row of a host and a volume, used now.
    pub(crate) fn get(&mut self, host: HostId, volume: VolumeId, now: Duration) -> &mut Row {
        let at = match self.places.get(&(host, volume)) {
            Some(&at) => at,
            None => self.insert(host, volume),
        };
        let row = &mut self.rows[at];
        row.last = now;
        row
    }

    fn insert(&mut self, host: HostId, volume: VolumeId) -> usize {
        let at = if self.rows.len() < ROWS_MAX {
            self.rows.push(Row::new(host, volume));
            self.rows.len() - 1
        } else {
            let idle = (0..ROWS_MAX).min_by_key(|&at| self.rows[at].last).unwrap_or(0);
            let old = std::mem::replace(&mut self.rows[idle], Row::new(host, volume));
            self.places.remove(&(old.host, old.volume));
            idle
        };
        self.places.insert((host, volume), at);
        at
    }

    pub(crate) fn find(&self, host: HostId, volume: VolumeId) -> Option<&Row> {
        self.places.get(&(host, volume)).map(|&at| &self.rows[at])
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Row> {
        self.rows.iter()
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Row> {
        self.rows.iter_mut()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_row_that_was_idle_longest_makes_room() {
        let mut rows = Rows::default();
        for number in 0..=ROWS_MAX as u64 {
            rows.get(HostId(1), VolumeId(number), Duration::from_secs(number));
        }
        assert_eq!(rows.iter().count(), ROWS_MAX);
        assert!(rows.find(HostId(1), VolumeId(0)).is_none());
        let last = rows.find(HostId(1), VolumeId(ROWS_MAX as u64)).map(|row| row.volume);
        assert_eq!(last, Some(VolumeId(ROWS_MAX as u64)));
    }

    const REFUSAL: Refusal =
        Refusal { status: "CHECK CONDITION", sense: None, reason: "", turned_off: None };

    #[test]
    fn refusals_of_one_reason_are_counted_together_and_their_number_is_bounded() {
        let mut row = Row::new(HostId(1), VolumeId(1));
        let refused = |asc: u8| Refused {
            command: "UNMAP",
            primitive: Primitive::Unmap,
            refusal: Refusal { sense: Some((5, asc, 0)), ..REFUSAL },
            count: 1,
            first: Duration::from_secs(asc.into()),
            last: Duration::from_secs(asc.into()),
        };
        row.refused(refused(1));
        row.refused(refused(1));
        assert_eq!((row.refusals.len(), row.refusals[0].count), (1, 2));
        (2..20).for_each(|asc| row.refused(refused(asc)));
        assert_eq!(row.refusals.len(), REFUSALS_PER_ROW_MAX);
        assert!(row.refusals.iter().all(|kept| kept.first >= Duration::from_secs(12)));
    }
}
