//! Incremental gathering of answers about many objects. The reactor looks at some between what
//! hosts ask for, so that nobody waits while ten thousand are described; another thread makes the
//! answer of what it saw (docs/decisions/0100).
//!
//! Each object is as it was when it was looked at. Everything that was answered before the request
//! came is seen: a look that is under way already serves nobody who asks now, one that has not begun
//! serves all.

use std::collections::VecDeque;
use std::time::Instant;

use api::{Problem, Route};
use block::VolumeId;
use slab::Slab;

use super::problems::internal;
use super::{Caller, Management, Progress};
use crate::data_plane::DataPlane;
use crate::described::Described;
use crate::guard::guarded;
use crate::iscsi::{Connection, Sessions};
use crate::limits::{GATHERED_PER_TURN, GATHERING_TIME_PER_TURN};
use crate::pools::PoolId;

#[cfg(test)]
mod tests;

/// What there is to look at.
#[derive(Clone, Copy)]
pub(crate) struct Scene<'a> {
    pub(crate) plane: &'a DataPlane,
    pub(crate) sessions: &'a Sessions,
    pub(crate) connections: &'a Slab<Connection>,
}

impl Scene<'_> {
    /// Bytes received from initiators and sent to them since the daemon started, on connections of
    /// every kind: closed, logging in, of discovery sessions, of normal sessions.
    pub(super) fn traffic(self) -> (u64, u64) {
        let closed = (self.plane.traffic.received, self.plane.traffic.sent);
        self.connections.iter().fold(closed, |(received, sent), (_, connection)| {
            (received + connection.received, sent + connection.sent)
        })
    }
}

/// What somebody looks for: whoever looks for the same may share the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Subject {
    pub(super) route: Route,
    pub(super) with_secrets: bool,
    /// The target session identifying handle, where one session is meant.
    pub(super) session: Option<u16>,
}

/// Objects that are looked at one by one.
pub(super) trait Gather {
    /// Looks at the next object; `false` if there is none.
    fn look(&mut self, management: &Management, scene: Scene<'_>) -> bool;

    /// What all of them come to.
    ///
    /// # Errors
    /// When the one that was meant is not there any more.
    fn describe(
        self: Box<Self>,
        management: &Management,
        scene: Scene<'_>,
    ) -> Result<Described, Problem>;
}

/// Looks that are under way, or have not begun.
#[derive(Default)]
pub(super) struct Gatherings {
    /// The first one is under way; all others have not begun, and are each of another subject.
    waiting: VecDeque<Gathering>,
    has_begun: bool,
}

struct Gathering {
    subject: Subject,
    objects: Box<dyn Gather>,
    callers: Vec<Caller>,
}

impl Gatherings {
    /// Has somebody wait for an answer: for that of a look which has not begun, if there is one.
    pub(super) fn add(&mut self, subject: Subject, objects: Box<dyn Gather>, caller: Caller) {
        let begun = usize::from(self.has_begun);
        let mut waiting = self.waiting.iter_mut().skip(begun);
        match waiting.find(|other| other.subject == subject) {
            Some(other) => other.callers.push(caller),
            None => self.waiting.push_back(Gathering { subject, objects, callers: vec![caller] }),
        }
    }

    /// Looks at objects until the turn is over or all were looked at; gives the looks that ended,
    /// some perhaps by a mistake of ours.
    fn turn(
        &mut self,
        is_over: impl Fn() -> bool,
        mut look: impl FnMut(&mut dyn Gather) -> Result<bool, String>,
    ) -> Vec<(Gathering, Result<(), String>)> {
        let mut ended = Vec::new();
        for _ in 0..GATHERED_PER_TURN {
            let Some(first) = self.waiting.front_mut() else { break };
            self.has_begun = true;
            let result = look(&mut *first.objects);
            if !matches!(result, Ok(true)) {
                self.has_begun = false;
                let first = self.waiting.pop_front();
                ended.extend(first.map(|first| (first, result.map(drop))));
            }
            if is_over() {
                break;
            }
        }
        ended
    }
}

impl Progress {
    /// A look at objects, each by its key.
    pub(super) fn gather<K: Keys, T: 'static>(
        route: Route,
        keys: K,
        look: impl FnMut(&Management, Scene<'_>, K::Key) -> Option<T> + 'static,
        describe: impl FnOnce(&Management, Scene<'_>, Vec<T>) -> Described + 'static,
    ) -> Self {
        Self::gather_for(
            Subject { route, with_secrets: false, session: None },
            keys,
            look,
            describe,
        )
    }

    /// The same, of any subject.
    pub(super) fn gather_for<K: Keys, T: 'static>(
        subject: Subject,
        keys: K,
        look: impl FnMut(&Management, Scene<'_>, K::Key) -> Option<T> + 'static,
        describe: impl FnOnce(&Management, Scene<'_>, Vec<T>) -> Described + 'static,
    ) -> Self {
        Self::Gather(subject, Box::new(Each { keys, look, found: Vec::new(), describe }))
    }
}

impl Management {
    /// Whether there are objects to be looked at.
    pub(crate) fn is_gathering(&self) -> bool {
        !self.gatherings.waiting.is_empty()
    }

    /// Looks at some objects, for as long as a turn of the loop has time for it.
    pub(crate) fn look_at_some(&mut self, scene: Scene<'_>) {
        let mut gatherings = std::mem::take(&mut self.gatherings);
        let began = Instant::now();
        let is_over = || began.elapsed() >= GATHERING_TIME_PER_TURN;
        let ended = gatherings.turn(is_over, |objects| guarded(|| objects.look(self, scene)));
        self.gatherings = gatherings;
        for (Gathering { objects, callers, .. }, ended) in ended {
            let described = ended.and_then(|()| guarded(|| objects.describe(self, scene)));
            self.answer_all(callers, &described.unwrap_or_else(|said| Err(internal(&said))));
        }
    }

    fn answer_all(&mut self, callers: Vec<Caller>, answer: &Result<Described, Problem>) {
        for caller in callers {
            self.answer(caller, answer.clone());
        }
    }
}

/// The names of objects, one after the other.
pub(super) trait Keys: 'static {
    type Key;
    fn next(&mut self, plane: &DataPlane) -> Option<Self::Key>;

    /// How many there are, about: room is made for so many at once, since a growing list is copied.
    fn count(&self, plane: &DataPlane) -> usize;
}

/// Names that were written down, of objects of which there are few.
impl<K: 'static> Keys for std::vec::IntoIter<K> {
    type Key = K;

    fn next(&mut self, _: &DataPlane) -> Option<K> {
        Iterator::next(self)
    }

    fn count(&self, _: &DataPlane) -> usize {
        self.len()
    }
}

/// Every volume and snapshot of every pool: none is left out that is there all the time.
#[derive(Default)]
pub(super) struct EachVolume {
    /// The next ones, the last one first.
    next: Vec<(PoolId, VolumeId)>,
    last: Option<(PoolId, VolumeId)>,
}

impl Keys for EachVolume {
    type Key = (PoolId, VolumeId);

    fn next(&mut self, plane: &DataPlane) -> Option<Self::Key> {
        if self.next.is_empty() {
            self.next = plane.pools.volumes_after(self.last, GATHERED_PER_TURN);
            self.next.reverse();
        }
        let next = self.next.pop()?;
        self.last = Some(next);
        Some(next)
    }

    fn count(&self, plane: &DataPlane) -> usize {
        plane.pools.iter().map(|(_, pool)| pool.store.volume_count()).sum()
    }
}

/// Objects of one kind.
struct Each<K, L, T, D> {
    keys: K,
    look: L,
    found: Vec<T>,
    describe: D,
}

impl<K, L, T, D> Gather for Each<K, L, T, D>
where
    K: Keys,
    L: FnMut(&Management, Scene<'_>, K::Key) -> Option<T>,
    D: FnOnce(&Management, Scene<'_>, Vec<T>) -> Described,
{
    fn look(&mut self, management: &Management, scene: Scene<'_>) -> bool {
        if self.found.capacity() == 0 {
            self.found.reserve(self.keys.count(scene.plane));
        }
        let Some(key) = self.keys.next(scene.plane) else { return false };
        self.found.extend((self.look)(management, scene, key));
        true
    }

    fn describe(
        self: Box<Self>,
        management: &Management,
        scene: Scene<'_>,
    ) -> Result<Described, Problem> {
        Ok((self.describe)(management, scene, self.found))
    }
}
