//! Detection of host-side copies by checksum sampling: remembers some checksums of what a host
//! read, and looks for them in what it writes.
//!
//! One checksum alone says little: it has 32 bits, and the same data may stand in many places. So a
//! move is believed only when another one of the same host between the same volumes went equally
//! far, as blocks of one file do.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use block::{BLOCK, Sample, VolumeId};

use crate::explain::Facts;
use crate::hosts::HostId;
use crate::limits::{
    COPIES_MAX, COPY_MATCHES_MIN, COPY_WINDOW, MOVES_REMEMBERED, READS_REMEMBERED,
    SKIPPED_ZEROS_MIN, WATCHED_HOSTS_MAX, ZEROS_WINDOW,
};
use crate::rows::Zeros;

/// Data that a host read from one place and wrote to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostCopy {
    /// The host.
    pub host: HostId,
    /// Where it read.
    pub source: VolumeId,
    /// Where it wrote; perhaps the same volume.
    pub destination: VolumeId,
    /// Sampled blocks that moved alike.
    pub matches: u64,
    /// Distance from source to destination of the last of them, bytes.
    pub distance: i64,
    /// Whether any of them went a distance that is no multiple of a block.
    pub misaligned: bool,
    /// When the first one was written.
    pub first: Duration,
    /// When the last one was written.
    pub last: Duration,
    /// Moves that were not believed yet, or lately: checksum and distance.
    moves: VecDeque<(u32, i64)>,
    /// Zeros read from the source and written to the destination while the last copy went on.
    zeros: Zeros,
    /// Counters of the two volumes at the last look, and its time.
    mark: Option<(Zeros, Duration)>,
    /// Facts about the two volumes when the first of them was about to be deleted.
    settled: Option<Facts>,
}

impl HostCopy {
    /// About how many bytes were copied.
    pub const fn estimated_bytes(&self) -> u64 {
        self.matches * Sample::INTERVAL * BLOCK
    }

    /// Facts about the two volumes before one of them was deleted.
    pub const fn settled(&self) -> Option<Facts> {
        self.settled
    }

    /// Whether enough was seen to speak of a copy.
    pub const fn is_certain(&self) -> bool {
        self.matches >= COPY_MATCHES_MIN
    }

    /// Whether most of the zeros that the host met were read and not written, as by one that makes
    /// a thick disk thin.
    pub fn skips_zeros(&self) -> bool {
        let skipped = self.zeros.read.saturating_sub(self.zeros.written);
        skipped >= SKIPPED_ZEROS_MIN && skipped * 2 >= self.zeros.read
    }

    /// Counts the zeros since the last look, if that was lately. After a long pause it is another
    /// copy.
    fn saw(&mut self, seen: Zeros, now: Duration) {
        let before = self.mark.replace((seen, now));
        let pause = before.map_or(Duration::MAX, |(_, at)| now.saturating_sub(at));
        match before {
            Some((before, _)) if pause <= ZEROS_WINDOW => {
                self.zeros.read += seen.read.saturating_sub(before.read);
                self.zeros.written += seen.written.saturating_sub(before.written);
            }
            Some(_) if pause <= COPY_WINDOW => {}
            _ => self.zeros = Zeros::default(),
        }
    }

    /// Takes a move; returns how many are believed more than before.
    fn take(&mut self, crc: u32, distance: i64, now: Duration) -> u64 {
        // Blocks that are all alike move in any distance.
        if self.moves.iter().any(|&(known, _)| known == crc) {
            return 0;
        }
        let alike = self.moves.iter().filter(|(_, other)| *other == distance).count();
        if self.moves.len() == MOVES_REMEMBERED {
            self.moves.pop_front();
        }
        self.moves.push_back((crc, distance));
        // The second one of a distance speaks for the first one, too.
        let believed = match alike {
            0 => return 0,
            1 => 2,
            _ => 1,
        };
        self.matches += believed;
        self.distance = distance;
        self.misaligned |= distance % BLOCK as i64 != 0;
        self.last = now;
        believed
    }
}

/// Where sampled data was read.
#[derive(Clone, Copy, Debug)]
struct Seen {
    crc: u32,
    volume: VolumeId,
    offset: u64,
    at: Duration,
}

/// Sampled checksums of all hosts.
#[derive(Debug, Default)]
pub(crate) struct Sketch {
    reads: BTreeMap<HostId, Box<[Option<Seen>]>>,
    copies: BTreeMap<(HostId, VolumeId, VolumeId), HostCopy>,
}

impl Sketch {
    /// A host read sampled blocks.
    pub(crate) fn read(
        &mut self,
        host: HostId,
        volume: VolumeId,
        samples: &[Sample],
        at: Duration,
    ) {
        if samples.is_empty() {
            return;
        }
        if !self.reads.contains_key(&host) {
            if self.reads.len() >= WATCHED_HOSTS_MAX {
                return;
            }
            self.reads.insert(host, vec![None; READS_REMEMBERED].into());
        }
        let Some(table) = self.reads.get_mut(&host) else { return };
        for &Sample { offset, crc } in samples {
            table[place(crc)] = Some(Seen { crc, volume, offset, at });
        }
    }

    /// A host wrote sampled blocks. Returns an estimate of the bytes among them that it had read
    /// elsewhere, which may count some of an earlier write.
    pub(crate) fn written(
        &mut self,
        host: HostId,
        volume: VolumeId,
        samples: &[Sample],
        now: Duration,
    ) -> u64 {
        let mut believed = 0;
        for sample in samples {
            let seen =
                self.reads.get_mut(&host).and_then(|table| table[place(sample.crc)].as_mut());
            let Some(seen) = seen.filter(|seen| seen.crc == sample.crc) else { continue };
            let fresh = now.saturating_sub(seen.at) <= COPY_WINDOW;
            let elsewhere = (seen.volume, seen.offset) != (volume, sample.offset);
            if fresh && elsewhere {
                let seen = *seen;
                let distance = sample.offset as i64 - seen.offset as i64;
                let copy = self.copy(host, seen.volume, volume, now);
                let before = copy.is_certain();
                let more = copy.take(sample.crc, distance, now);
                believed += match (before, copy.is_certain()) {
                    (true, _) => more,
                    (false, true) => copy.matches,
                    (false, false) => 0,
                };
            }
        }
        believed * Sample::INTERVAL * BLOCK
    }

    fn copy(
        &mut self,
        host: HostId,
        source: VolumeId,
        destination: VolumeId,
        now: Duration,
    ) -> &mut HostCopy {
        let key = (host, source, destination);
        if self.copies.len() >= COPIES_MAX && !self.copies.contains_key(&key) {
            // One that is not certain goes first.
            let idle = self.copies.iter().min_by_key(|(_, copy)| (copy.is_certain(), copy.last));
            let idle = idle.map(|(key, _)| *key);
            idle.map(|key| self.copies.remove(&key));
        }
        self.copies.entry(key).or_insert_with(|| HostCopy {
            host,
            source,
            destination,
            matches: 0,
            distance: 0,
            misaligned: false,
            first: now,
            last: now,
            moves: VecDeque::with_capacity(MOVES_REMEMBERED),
            zeros: Zeros::default(),
            mark: None,
            settled: None,
        })
    }

    /// Tells the copies of a host that go on, from or to a volume, what zeros went by:
    /// `zeros(source, destination)` are those read from the one and written to the other so far.
    pub(crate) fn mark(
        &mut self,
        host: HostId,
        volume: VolumeId,
        now: Duration,
        zeros: impl Fn(VolumeId, VolumeId) -> Zeros,
    ) {
        let (first, last) = (VolumeId(0), VolumeId(u64::MAX));
        let of_host = self.copies.range_mut((host, first, first)..=(host, last, last));
        for copy in of_host.map(|(_, copy)| copy) {
            let is_meant = copy.source == volume || copy.destination == volume;
            if is_meant && now.saturating_sub(copy.last) <= ZEROS_WINDOW {
                copy.saw(zeros(copy.source, copy.destination), now);
            }
        }
    }

    /// Keeps what is known of a copy, unless something is kept already.
    pub(crate) fn settle(&mut self, copy: &HostCopy, known: Facts) {
        let key = (copy.host, copy.source, copy.destination);
        if let Some(copy) = self.copies.get_mut(&key) {
            copy.settled.get_or_insert(known);
        }
    }

    /// Copies that are certain.
    pub(crate) fn copies(&self) -> impl Iterator<Item = &HostCopy> {
        self.copies.values().filter(|copy| copy.is_certain())
    }
}

/// Sampled checksums are multiples of the interval, so the bits above it tell them apart.
fn place(crc: u32) -> usize {
    (crc / Sample::INTERVAL as u32) as usize % READS_REMEMBERED
}

#[cfg(test)]
mod tests;
