//! Retry state machine for pools that are configured but not open: when each is tried again, what a
//! try may open, and what administrators are told, once for each kind of trouble.
//!
//! A try is work of a thread: it looks at the devices ([`Sight`]), asks [`Caution::admits`], and opens
//! them. One try of a pool is under way at a time, however long it takes: a device that hangs keeps
//! one thread and nothing else. Files that somebody still writes (a copy that is under way) are not
//! opened by a try that nobody asked for, and what was refused for its content is opened again when
//! it looks otherwise, or rarely.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::limits::{OPENING_PATIENCE, REOPEN_PAUSE, REOPEN_PAUSE_UNCHANGED};

/// A device as it is seen without opening it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sight {
    /// Nothing is there, or it cannot be looked at.
    Absent,
    /// A file.
    File {
        /// Device and inode number.
        identity: (u64, u64),
        /// Its size in bytes.
        size_bytes: u64,
        /// When its content last changed, in nanoseconds since 1970.
        modified_ns: i128,
    },
    /// Something of which no time of the last change is known, such as a block device.
    Other,
}

/// Why a pool is not open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Trouble {
    /// A device is not there, or the system refuses it.
    Absent,
    /// Another process holds a device.
    Held,
    /// Somebody still writes its files.
    Changing,
    /// What the devices hold is not the pool, or not all of it.
    Unfit,
    /// A device looks as it did when it was refused, and was not opened.
    Unchanged,
    /// A device does not answer; the try goes on.
    Silent,
    /// An administrator has to decide: a part of the journal is lost.
    Undecided,
    /// Another owner took its devices: only an administrator opens it again.
    Fenced,
}

/// What a try may open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Caution {
    /// Whatever is there: the daemon starts, or an administrator asks.
    None,
    /// What looks as it did at the last try.
    Settled(Vec<Sight>),
    /// The same, if it does not look as it did when it was refused.
    Changed {
        /// At the last try.
        last: Vec<Sight>,
        /// When it was refused.
        refused: Vec<Sight>,
    },
}

impl Caution {
    /// Whether devices that look so may be opened.
    ///
    /// # Errors
    /// [`Trouble::Changing`] or [`Trouble::Unchanged`].
    pub fn admits(&self, sights: &[Sight]) -> Result<(), Trouble> {
        let last = match self {
            Self::None => return Ok(()),
            Self::Changed { refused, .. } if refused == sights => return Err(Trouble::Unchanged),
            Self::Settled(last) | Self::Changed { last, .. } => last,
        };
        let moves = |(at, sight): (usize, &Sight)| match sight {
            Sight::File { .. } => last.get(at) != Some(sight),
            Sight::Absent | Sight::Other => false,
        };
        if sights.iter().enumerate().any(moves) { Err(Trouble::Changing) } else { Ok(()) }
    }
}

/// A pool that is not open.
#[derive(Clone, Debug, Default)]
struct Closed {
    /// When it is tried again, and how; `None` while a try is under way, or an administrator has to
    /// decide.
    next: Option<Duration>,
    /// Since when a thread looks at the devices and opens them.
    since: Option<Duration>,
    /// Whether the devices are open, and the engine reads them.
    is_recovering: bool,
    /// Whether the try takes longer than it may without being named.
    is_late: bool,
    /// Whether an administrator asked for it after the try had begun.
    is_asked: bool,
    /// How the devices looked at the last try.
    last: Option<Vec<Sight>>,
    /// How they looked when they were refused for their content, and when that was.
    refused: Option<(Vec<Sight>, Duration)>,
    /// Why the last try that ended did not open it.
    trouble: Option<Trouble>,
    /// The kinds of trouble that were told.
    told: BTreeSet<Trouble>,
}

/// Pools that are configured and not open; no more than are configured.
#[derive(Clone, Debug, Default)]
pub struct Reopening {
    pools: BTreeMap<String, Closed>,
}

impl Reopening {
    /// A try of a pool begins, whether or not it was tried before; returns what it may open.
    pub fn begin(&mut self, pool: &str, is_asked: Asked, now: Duration) -> Caution {
        let closed = self.pools.entry(pool.to_owned()).or_default();
        (closed.next, closed.since) = (None, Some(now));
        (closed.is_recovering, closed.is_late) = (false, false);
        let due =
            |(_, at): &(Vec<Sight>, Duration)| now.saturating_sub(*at) < REOPEN_PAUSE_UNCHANGED;
        match (is_asked, closed.last.clone(), closed.refused.clone().filter(due)) {
            (Asked::ByAdministrator, ..) | (Asked::ByNobody, None, _) => Caution::None,
            (Asked::ByNobody, Some(last), None) => Caution::Settled(last),
            (Asked::ByNobody, Some(last), Some((refused, _))) => Caution::Changed { last, refused },
        }
    }

    /// A thread has looked at the devices of a pool.
    pub fn looked(&mut self, pool: &str, sights: Vec<Sight>) {
        if let Some(closed) = self.pools.get_mut(pool) {
            closed.last = Some(sights);
        }
    }

    /// The devices of a pool are open, and the engine reads them; that may take as long as recovery
    /// does.
    pub fn recovers(&mut self, pool: &str) {
        if let Some(closed) = self.pools.get_mut(pool) {
            (closed.since, closed.is_recovering) = (None, true);
        }
    }

    /// An administrator wants a pool of which a try is under way.
    pub fn ask(&mut self, pool: &str) {
        if let Some(closed) = self.pools.get_mut(pool) {
            closed.is_asked = true;
        }
    }

    /// Whether an administrator asked meanwhile for a try that ended without an attempt to open
    /// anything: then it is made.
    pub fn take_asked(&mut self, pool: &str, trouble: Trouble) -> bool {
        let asked = self.pools.get_mut(pool).map(|closed| std::mem::take(&mut closed.is_asked));
        asked.unwrap_or(false) && matches!(trouble, Trouble::Changing | Trouble::Unchanged)
    }

    /// A try has ended, or a pool that was open is not any more; returns whether administrators are
    /// told: once for each kind of trouble, until the pool is open, and not that files change.
    pub fn failed(&mut self, pool: &str, trouble: Trouble, now: Duration) -> bool {
        let closed = self.pools.entry(pool.to_owned()).or_default();
        (closed.since, closed.is_recovering) = (None, false);
        closed.trouble = Some(trouble);
        closed.next = match trouble {
            Trouble::Undecided | Trouble::Fenced => None,
            Trouble::Absent
            | Trouble::Held
            | Trouble::Changing
            | Trouble::Unfit
            | Trouble::Unchanged
            | Trouble::Silent => Some(now + REOPEN_PAUSE),
        };
        match trouble {
            Trouble::Unfit => closed.refused = closed.last.clone().map(|last| (last, now)),
            Trouble::Unchanged => return false,
            Trouble::Changing => {
                closed.refused = None;
                return false;
            }
            Trouble::Absent
            | Trouble::Held
            | Trouble::Silent
            | Trouble::Undecided
            | Trouble::Fenced => {
                closed.refused = None;
            }
        }
        closed.told.insert(trouble)
    }

    /// Tries that take longer than [`OPENING_PATIENCE`] and were not named before; they go on.
    /// Administrators are told of the first one of a pool.
    pub fn late(&mut self, now: Duration) -> Vec<(String, Told)> {
        let mut late = Vec::new();
        for (name, closed) in &mut self.pools {
            let is_over = |since| now.saturating_sub(since) >= OPENING_PATIENCE;
            if closed.since.is_some_and(is_over) && !closed.is_late {
                closed.is_late = true;
                let is_new = closed.told.insert(Trouble::Silent);
                late.push((name.clone(), if is_new { Told::Now } else { Told::Before }));
            }
        }
        late
    }

    /// Whether a try is under way that was named as late.
    pub fn is_late(&self, pool: &str) -> bool {
        self.pools.get(pool).is_some_and(|closed| closed.since.is_some() && closed.is_late)
    }

    /// Why the last try of a pool that ended did not open it; `None` if it is open, or none has ended.
    pub fn trouble(&self, pool: &str) -> Option<Trouble> {
        self.pools.get(pool)?.trouble
    }

    /// A pool is another controller's: it wrote the files, and had them locked, so that it is no copy
    /// that is under way when they differ at the next try.
    pub fn leave_to_others(&mut self, pool: &str) {
        if let Some(closed) = self.pools.get_mut(pool) {
            closed.last = None;
        }
    }

    /// Sets when a pool is tried again that would be tried at some time anyway.
    pub fn postpone(&mut self, pool: &str, at: Duration) {
        let next = self.pools.get_mut(pool).and_then(|closed| closed.next.as_mut());
        next.into_iter().for_each(|next| *next = at);
    }

    /// Pools whose next try is due.
    pub fn due(&self, now: Duration) -> Vec<String> {
        let due = self.pools.iter().filter(|(_, closed)| closed.next.is_some_and(|at| at <= now));
        due.map(|(name, _)| name.clone()).collect()
    }

    /// Whether a try of a pool is under way.
    pub fn is_trying(&self, pool: &str) -> bool {
        let closed = self.pools.get(pool);
        closed.is_some_and(|closed| closed.since.is_some() || closed.is_recovering)
    }

    /// Whether a thread opens the devices of a pool, and has not taken [`OPENING_PATIENCE`] yet.
    pub fn is_fresh(&self, pool: &str, now: Duration) -> bool {
        let since = self.pools.get(pool).and_then(|closed| closed.since);
        since.is_some_and(|since| now.saturating_sub(since) < OPENING_PATIENCE)
    }

    /// Every pool that is not open.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.pools.keys().map(String::as_str)
    }

    /// Whether all pools are open.
    pub fn is_empty(&self) -> bool {
        self.pools.is_empty()
    }

    /// A pool is open, or not configured any more; returns whether anything was told of it that is
    /// over now.
    pub fn forget(&mut self, pool: &str) -> bool {
        self.pools.remove(pool).is_some_and(|closed| !closed.told.is_empty())
    }
}

/// Whether administrators know of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// They are told.
    Now,
    /// They were told.
    Before,
}

/// Who wants a pool to be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// The array tries by itself.
    ByNobody,
    /// An administrator.
    ByAdministrator,
}

#[cfg(test)]
mod tests;
