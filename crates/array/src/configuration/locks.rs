//! Snapshot locks (retention): nobody deletes a locked snapshot before its lock ends, not even an
//! administrator.

use block::VolumeId;
use serde::{Deserialize, Serialize};

use super::Configuration;
use crate::ArrayError;
use crate::limits::LOCK_SECONDS_MAX;

/// A snapshot that must not be deleted yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SnapshotLock {
    /// The snapshot's pool, which must not be forgotten either.
    pool: String,
    /// The lock ends then, seconds since 1970.
    until: u64,
}

impl Configuration {
    /// When a snapshot's lock ends or ended, seconds since 1970; `None` if it never had one.
    pub fn locked_until(&self, snapshot: VolumeId) -> Option<u64> {
        self.snapshot_locks.get(&snapshot.0).map(|lock| lock.until)
    }

    /// Snapshots of a pool that have or had a lock.
    pub fn locked_in(&self, pool: &str) -> impl Iterator<Item = VolumeId> {
        let of_pool = self.snapshot_locks.iter().filter(move |(_, lock)| lock.pool == pool);
        of_pool.map(|(&id, _)| VolumeId(id))
    }

    /// Whether a snapshot may be deleted now. A clock that goes backwards only locks longer.
    ///
    /// # Errors
    /// While it is locked.
    pub fn check_unlocked(&self, snapshot: VolumeId, now: u64) -> Result<(), ArrayError> {
        match self.locked_until(snapshot) {
            Some(until) if now < until => Err(ArrayError::Locked { until }),
            _ => Ok(()),
        }
    }

    /// Whether a pool may be forgotten now.
    ///
    /// # Errors
    /// While it holds a locked snapshot: when the last of the locks ends.
    pub fn check_pool_unlocked(&self, pool: &str, now: u64) -> Result<(), ArrayError> {
        let of_pool = self.snapshot_locks.values().filter(|lock| lock.pool == pool);
        match of_pool.map(|lock| lock.until).max() {
            Some(until) if now < until => Err(ArrayError::Locked { until }),
            _ => Ok(()),
        }
    }

    /// Locks a snapshot, or locks it for longer.
    ///
    /// # Errors
    /// When the moment is over, too far away, or earlier than an existing lock's end.
    pub fn lock_snapshot(
        &mut self,
        pool: &str,
        snapshot: VolumeId,
        until: u64,
        now: u64,
    ) -> Result<(), ArrayError> {
        if until <= now {
            return Err(ArrayError::LockInThePast);
        }
        if until - now > LOCK_SECONDS_MAX {
            return Err(ArrayError::LockTooLong);
        }
        if let Some(current) = self.locked_until(snapshot).filter(|current| until < *current) {
            return Err(ArrayError::LockShortened { until: current });
        }
        let lock = SnapshotLock { pool: pool.to_owned(), until };
        self.snapshot_locks.insert(snapshot.0, lock);
        Ok(())
    }

    /// Locks a snapshot as it was locked before, over or not.
    pub(super) fn restore_lock(&mut self, pool: &str, snapshot: VolumeId, until: u64) {
        let lock = SnapshotLock { pool: pool.to_owned(), until };
        self.snapshot_locks.insert(snapshot.0, lock);
    }

    /// Forgets the lock of a snapshot that is gone or was never made.
    pub fn forget_lock(&mut self, snapshot: VolumeId) {
        self.snapshot_locks.remove(&snapshot.0);
    }
}

#[cfg(test)]
mod tests;
