//! Public interface of the ledger: records what happened, and answers questions about it.

use std::collections::BTreeMap;
use std::time::Duration;

use block::{Primitive, RequestStatistics, VolumeId};

use crate::explain::Facts;
use crate::histogram::{Latencies, Latency};
use crate::history::{History, Subject};
use crate::hosts::{HostId, Hosts};
use crate::limits::{GAP_SECONDS_MAX, REFUSAL_WINDOW};
use crate::locks::{Attempt, LockMap, LockOutcome, Locks};
use crate::rows::{Outcome, Refusal, Refused, Row, Rows, Zeros};
use crate::series::{FlowSample, SpaceSample};
use crate::sketch::{HostCopy, Sketch};

/// A command that ended with a status.
#[derive(Clone, Copy, Debug)]
pub struct CommandEnded {
    /// Host that sent it.
    pub host: HostId,
    /// The volume that it was addressed to, if there is one.
    pub volume: Option<VolumeId>,
    /// Its name in T10's words.
    pub name: &'static str,
    /// Its kind.
    pub primitive: Primitive,
    /// The first logical block that it names.
    pub lba: u64,
    /// Bytes that it names; 0 if a list says it ([`Primitive::has_list`]).
    pub bytes: u64,
    /// How long it took.
    pub took: Duration,
    /// How it ended.
    pub outcome: Outcome,
}

/// A request to a volume that ended.
#[derive(Clone, Copy, Debug)]
pub struct RequestEnded<'a> {
    /// Whose command it belongs to.
    pub host: HostId,
    /// The command's kind.
    pub primitive: Primitive,
    /// The volume.
    pub volume: VolumeId,
    /// Where a copy came from.
    pub source: Option<VolumeId>,
    /// Bytes that it named.
    pub asked_bytes: u64,
    /// Whether it was carried out.
    pub done: bool,
    /// Statistics of the request.
    pub statistics: &'a RequestStatistics,
}

/// Everything that is kept.
#[derive(Debug, Default)]
pub struct Ledger {
    now: Duration,
    hosts: Hosts,
    rows: Rows,
    latencies: Latencies,
    sketch: Sketch,
    locks: Locks,
    history: History,
}

impl Ledger {
    /// The number of a host; a new one if it was never seen.
    pub fn host(&mut self, name: &str) -> HostId {
        self.hosts.id(name)
    }

    /// The host of that name, if it was ever seen.
    pub fn find_host(&self, name: &str) -> Option<HostId> {
        self.hosts.find(name)
    }

    /// The name of a host.
    pub fn host_name(&self, id: HostId) -> &str {
        self.hosts.name(id)
    }

    /// Takes a command that ended.
    pub fn command(&mut self, command: &CommandEnded) {
        let CommandEnded { host, primitive, bytes, took, outcome, .. } = *command;
        self.latencies.add(command.name, took, outcome == Outcome::Good);
        let Some(volume) = command.volume else { return };
        if outcome == Outcome::Interrupted {
            return;
        }
        if primitive == Primitive::CompareAndWrite {
            self.lock_attempt(volume, command);
        }
        let (row, now) = (self.rows.get(host, volume, self.now), self.now);
        let done = outcome == Outcome::Good;
        row.ended(primitive, took, done);
        if bytes > 0 {
            row.worked(primitive, bytes, done);
        }
        match outcome {
            Outcome::Good if primitive == Primitive::WriteSame => row.zeroed_since = 0,
            Outcome::Miscompare => row.effects.miscompares += 1,
            Outcome::Refused(refusal) if primitive != Primitive::Other => {
                let (command, count) = (command.name, 1);
                row.refused(Refused { command, primitive, refusal, count, first: now, last: now });
            }
            _ => {}
        }
    }

    fn lock_attempt(&mut self, volume: VolumeId, command: &CommandEnded) {
        let outcome = match command.outcome {
            Outcome::Good => LockOutcome::Done,
            Outcome::Miscompare => LockOutcome::Miscompare,
            Outcome::Refused(_) => LockOutcome::Refused,
            Outcome::Interrupted => return,
        };
        let CommandEnded { host, lba, bytes, .. } = *command;
        self.locks.add(volume, Attempt { at: self.now, host, lba, bytes, outcome });
    }

    /// Takes a request that ended.
    pub fn request(&mut self, request: &RequestEnded<'_>) {
        let RequestEnded { host, primitive, volume, statistics, .. } = *request;
        if let (Some(source), true) = (request.source, request.done) {
            let row = self.rows.get(host, source, self.now);
            row.effects.source_bytes += request.asked_bytes;
        }
        match primitive {
            Primitive::Read => self.read(request),
            Primitive::Write => self.written(request),
            _ => {}
        }
        if !primitive.is_offload() || primitive == Primitive::CompareAndWrite {
            return;
        }
        let row = self.rows.get(host, volume, self.now);
        if primitive.has_list() {
            row.worked(primitive, request.asked_bytes, request.done);
        }
        row.effects.referenced_bytes += statistics.referenced_bytes;
        row.effects.copied_bytes += statistics.copied_bytes;
        row.effects.zeroed_bytes += statistics.zeroed_bytes;
        if request.done && request.source.is_some() {
            (row.last_copy, row.last_copy_source) = (Some(self.now), request.source);
        }
    }

    fn read(&mut self, request: &RequestEnded<'_>) {
        let RequestEnded { host, volume, statistics, .. } = *request;
        self.sketch.read(host, volume, &statistics.samples, self.now);
        if statistics.hole_bytes > 0 {
            let row = self.rows.get(host, volume, self.now);
            row.effects.read_hole_bytes += statistics.hole_bytes;
            self.mark(host, volume);
        }
    }

    fn written(&mut self, request: &RequestEnded<'_>) {
        let RequestEnded { host, volume, statistics, .. } = *request;
        if statistics.samples.is_empty() && statistics.zeroed_bytes == 0 {
            return;
        }
        let copied = self.sketch.written(host, volume, &statistics.samples, self.now);
        let row = self.rows.get(host, volume, self.now);
        row.effects.host_copied_bytes += copied;
        if statistics.zeroed_bytes > 0 {
            row.effects.host_zeroed_bytes += statistics.zeroed_bytes;
            row.zeroed_since += statistics.zeroed_bytes;
            let first = row.zeroing.map_or(self.now, |(first, _)| first);
            row.zeroing = Some((first, self.now));
        }
        self.mark(host, volume);
    }

    /// Lets copies that go on at a volume look at the zeros that went by.
    fn mark(&mut self, host: HostId, volume: VolumeId) {
        let zeros = |volume| self.rows.find(host, volume).map(Row::zeros).unwrap_or_default();
        self.sketch.mark(host, volume, self.now, |source, destination| Zeros {
            read: zeros(source).read,
            written: zeros(destination).written,
        });
    }

    /// Tells the time, since an arbitrary start; `pools` is asked for the space of all pools when a
    /// second has passed.
    pub fn tick(&mut self, now: Duration, pools: impl FnOnce() -> BTreeMap<String, SpaceSample>) {
        let (last, second) = (self.now.as_secs(), now.as_secs());
        self.now = self.now.max(now);
        if second <= last {
            return;
        }
        let flows = self.flows((second - last) as f32);
        let pools = pools();
        for second in second.saturating_sub(GAP_SECONDS_MAX).max(last)..second {
            self.history.push(second, &flows);
            self.history.push_pools(second, &pools);
        }
    }

    /// Rates since the last tick of every subject that was active.
    fn flows(&mut self, seconds: f32) -> BTreeMap<Subject, FlowSample> {
        let mut flows: BTreeMap<Subject, FlowSample> = BTreeMap::new();
        for row in self.rows.iter_mut() {
            row.tick(seconds);
            if row.rates == FlowSample::default() {
                continue;
            }
            for subject in [Subject::Total, Subject::Volume(row.volume), Subject::Host(row.host)] {
                let sums = flows.entry(subject).or_default();
                sums.iter_mut().zip(&row.rates).for_each(|(sum, flow)| sum.add(flow));
            }
        }
        flows
    }

    /// Rows by host and volume.
    pub fn rows(&self) -> impl Iterator<Item = &Row> {
        self.rows.iter()
    }

    /// Row of one host and volume.
    pub fn row(&self, host: HostId, volume: VolumeId) -> Option<&Row> {
        self.rows.find(host, volume)
    }

    /// How long commands took, by name.
    pub fn latencies(&self) -> impl Iterator<Item = &Latency> {
        self.latencies.iter()
    }

    /// Copies that hosts made themselves.
    pub fn host_copies(&self) -> impl Iterator<Item = &HostCopy> {
        self.sketch.copies()
    }

    /// Keeps what is known of a copy of which an end is about to be deleted: it will not be found
    /// out again.
    pub fn settle(&mut self, copy: &HostCopy, known: Facts) {
        self.sketch.settle(copy, known);
    }

    /// What this ledger knows of the reason of a copy; the rest is taken from `known`.
    pub fn facts(&self, copy: &HostCopy, known: Facts) -> Facts {
        let of_host = || self.rows().filter(|row| row.host == copy.host);
        let lately = |row: &Row| row.last_copy.is_some_and(|at| at + REFUSAL_WINDOW >= copy.first);
        let here =
            |row: &Row| row.volume == copy.destination && row.last_copy_source == Some(copy.source);
        Facts {
            misaligned: copy.misaligned,
            refusal: self.refusal_of(copy),
            skips_zeros: copy.skips_zeros(),
            copies_here: of_host().any(|row| here(row) && lately(row)),
            copies_elsewhere: of_host().any(lately),
            offloads_else: of_host().any(Row::offloads_without_copying),
            ..known
        }
    }

    /// The last EXTENDED COPY at either end that was refused lately, if none succeeded since.
    fn refusal_of(&self, copy: &HostCopy) -> Option<Refusal> {
        let rows = || {
            let ends = [copy.destination, copy.source];
            ends.into_iter().filter_map(|volume| self.rows.find(copy.host, volume))
        };
        let done = rows().filter_map(|row| row.last_copy).max();
        let refused = rows().flat_map(|row| &row.refusals);
        let refused = refused.filter(|refused| refused.primitive == Primitive::ExtendedCopy);
        let refused = refused.max_by_key(|refused| refused.last).filter(|refused| {
            done.is_none_or(|done| done < refused.last)
                && refused.last + REFUSAL_WINDOW >= copy.last
        });
        refused.map(|refused| refused.refusal)
    }

    /// Lock contention by volume.
    pub fn locks(&self) -> impl Iterator<Item = (VolumeId, &LockMap)> {
        self.locks.iter()
    }

    /// Lock contention on one volume.
    pub fn locks_of(&self, volume: VolumeId) -> Option<&LockMap> {
        self.locks.of(volume)
    }

    /// The past week.
    pub const fn history(&self) -> &History {
        &self.history
    }
}

#[cfg(test)]
mod tests;
