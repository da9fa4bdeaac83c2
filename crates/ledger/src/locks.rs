//! Lock contention: which hosts compete for which blocks by COMPARE AND WRITE.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use block::VolumeId;

use crate::hosts::HostId;
use crate::limits::{LOCK_ATTEMPTS_MAX, LOCK_HOSTS_MAX, LOCK_RANGES_MAX, LOCK_VOLUMES_MAX};

/// How an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockOutcome {
    /// The blocks were replaced.
    Done,
    /// They held something else.
    Miscompare,
    /// Nothing was compared.
    Refused,
}

/// One COMPARE AND WRITE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// When it ended.
    pub at: Duration,
    /// Host that sent it.
    pub host: HostId,
    /// The first logical block.
    pub lba: u64,
    /// Bytes that were compared.
    pub bytes: u64,
    /// How it ended.
    pub outcome: LockOutcome,
}

/// All attempts at one range.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LockRange {
    /// The first logical block.
    pub lba: u64,
    /// Bytes of the last attempt.
    pub bytes: u64,
    /// Attempts; perhaps also those at a range that made room.
    pub attempts: u64,
    /// Those of them that found something else.
    pub miscompares: u64,
    /// The first few hosts that made them, in the order of their first one.
    pub hosts: Vec<HostId>,
    /// When the last one was.
    pub last: Duration,
}

/// The attempts on one volume.
#[derive(Clone, Debug, Default)]
pub struct LockMap {
    /// All attempts.
    pub attempts: u64,
    /// Those of them that found something else.
    pub miscompares: u64,
    /// The latest ones, oldest first.
    pub recent: VecDeque<Attempt>,
    ranges: BTreeMap<u64, LockRange>,
    last: Duration,
}

impl LockMap {
    /// The ranges with most miscompares first, then with most attempts, then with the lowest block.
    pub fn contended(&self) -> Vec<&LockRange> {
        let mut ranges: Vec<&LockRange> = self.ranges.values().collect();
        ranges.sort_by_key(|range| {
            (std::cmp::Reverse((range.miscompares, range.attempts)), range.lba)
        });
        ranges
    }

    fn add(&mut self, attempt: Attempt) {
        self.attempts += 1;
        self.miscompares += u64::from(attempt.outcome == LockOutcome::Miscompare);
        self.last = attempt.at;
        if self.recent.len() == LOCK_ATTEMPTS_MAX {
            self.recent.pop_front();
        }
        self.recent.push_back(attempt);
        let range = self.range(attempt.lba);
        range.bytes = attempt.bytes;
        range.attempts += 1;
        range.miscompares += u64::from(attempt.outcome == LockOutcome::Miscompare);
        range.last = attempt.at;
        if range.hosts.len() < LOCK_HOSTS_MAX && !range.hosts.contains(&attempt.host) {
            range.hosts.push(attempt.host);
        }
    }

    /// The range from a block. A new one inherits the count of the one that makes room, so that
    /// ranges with many attempts are never lost to many with few (Metwally's space-saving).
    fn range(&mut self, lba: u64) -> &mut LockRange {
        let mut inherited = 0;
        if self.ranges.len() == LOCK_RANGES_MAX && !self.ranges.contains_key(&lba) {
            let rarest = self.ranges.values().min_by_key(|range| (range.attempts, range.last));
            if let Some(rarest) =
                rarest.map(|range| range.lba).and_then(|lba| self.ranges.remove(&lba))
            {
                inherited = rarest.attempts;
            }
        }
        let new = || LockRange { lba, attempts: inherited, ..LockRange::default() };
        self.ranges.entry(lba).or_insert_with(new)
    }
}

/// The attempts on all volumes.
#[derive(Debug, Default)]
pub(crate) struct Locks(BTreeMap<VolumeId, LockMap>);

impl Locks {
    pub(crate) fn add(&mut self, volume: VolumeId, attempt: Attempt) {
        if self.0.len() == LOCK_VOLUMES_MAX && !self.0.contains_key(&volume) {
            let idle = self.0.iter().min_by_key(|(_, map)| map.last).map(|(volume, _)| *volume);
            idle.map(|volume| self.0.remove(&volume));
        }
        self.0.entry(volume).or_default().add(attempt);
    }

    pub(crate) fn of(&self, volume: VolumeId) -> Option<&LockMap> {
        self.0.get(&volume)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (VolumeId, &LockMap)> {
        self.0.iter().map(|(volume, map)| (*volume, map))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attempt(at: u64, host: u32, lba: u64, outcome: LockOutcome) -> Attempt {
        Attempt { at: Duration::from_secs(at), host: HostId(host), lba, bytes: 512, outcome }
    }

    #[test]
    fn the_most_contended_range_comes_first_and_names_who_contends() {
        let mut map = LockMap::default();
        (0..9).for_each(|at| map.add(attempt(at, 1, 100, LockOutcome::Done)));
        map.add(attempt(9, 1, 200, LockOutcome::Done));
        map.add(attempt(10, 2, 200, LockOutcome::Miscompare));
        map.add(attempt(11, 2, 300, LockOutcome::Refused));
        let order: Vec<u64> = map.contended().iter().map(|range| range.lba).collect();
        assert_eq!(order, [200, 100, 300]);
        let first = map.contended()[0];
        assert_eq!(first.hosts, [HostId(1), HostId(2)]);
        assert_eq!((first.attempts, first.miscompares, first.last.as_secs()), (2, 1, 10));
        assert_eq!((map.attempts, map.miscompares, map.recent.len()), (12, 1, 12));
    }

    #[test]
    fn a_range_with_many_attempts_outlives_any_number_with_few() {
        let mut map = LockMap::default();
        for at in 0..20_000 {
            map.add(attempt(at, 1, 1_000_000 + at, LockOutcome::Done));
            if at % 20 == 0 {
                map.add(attempt(at, 2, 7, LockOutcome::Miscompare));
            }
        }
        let first = map.contended()[0];
        assert_eq!((first.lba, first.miscompares), (7, 1000));
        assert_eq!(map.contended().len(), LOCK_RANGES_MAX);
        assert_eq!(map.recent.len(), LOCK_ATTEMPTS_MAX);
    }

    #[test]
    fn volumes_are_bounded() {
        let mut locks = Locks::default();
        for volume in 0..=LOCK_VOLUMES_MAX as u64 {
            locks.add(VolumeId(volume), attempt(volume, 1, 0, LockOutcome::Done));
        }
        assert_eq!(locks.iter().count(), LOCK_VOLUMES_MAX);
        assert!(locks.iter().all(|(volume, _)| volume != VolumeId(0)));
    }
}
