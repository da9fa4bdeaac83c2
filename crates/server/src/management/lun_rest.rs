//! LUN number quarantine: how long a number rests between two volumes, and which numbers sessions
//! hold.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use array::{FreeLuns, HeldLun, Rest};

use super::Management;
use crate::data_plane::DataPlane;
use crate::iscsi::Session;
use crate::limits::HELD_BY_ENDED_MAX;

/// How long LUN numbers rest, and what must be known for that.
pub(super) struct LunRest {
    begun: Instant,
    length: Duration,
    free: FreeLuns,
    /// What sessions held when they ended, oldest first, and when that was.
    ended: VecDeque<(Instant, HeldLun)>,
}

impl LunRest {
    pub(super) fn new(seconds: u64, free: FreeLuns) -> Self {
        let length = Duration::from_secs(seconds);
        Self { begun: Instant::now(), length, free, ended: VecDeque::new() }
    }

    /// Seconds since the daemon began.
    pub(super) fn now(&self) -> u64 {
        self.begun.elapsed().as_secs()
    }

    /// The numbers that sessions hold, or held until they ended a short while ago.
    pub(super) fn held(&self, plane: &DataPlane) -> Vec<HeldLun> {
        let held = plane.exports.held_luns(self.length);
        let ended = self.ended.iter().filter(|(at, _)| at.elapsed() < self.length);
        held.chain(ended.map(|(_, held)| held.clone())).collect()
    }

    /// What decides now whether a number may go to another volume.
    pub(super) fn rest<'a>(&self, held: &'a [HeldLun]) -> Rest<'a> {
        Rest { now: self.now(), seconds: self.length.as_secs(), held, free: self.free }
    }
}

impl Management {
    /// Lets the numbers rest that a session holds which ends now. To be called while the device
    /// server still knows it.
    pub(crate) fn session_ends(&mut self, plane: &DataPlane, session: &Session) {
        let LunRest { length, ended, .. } = &mut self.lun_rest;
        while ended.front().is_some_and(|(at, _)| at.elapsed() >= *length)
            || ended.len() >= HELD_BY_ENDED_MAX
        {
            ended.pop_front();
        }
        let held = plane.exports.held_luns_of(session.nexus, &session.port.name, *length);
        let held = held.into_iter().map(|held| (Instant::now(), held));
        ended.extend(held.take(HELD_BY_ENDED_MAX));
    }
}
