//! Throttle (rate limits, QoS): holds back commands of limited volumes and of limited hosts before they
//! queue for their turn, and the requests that copies are carried out by.
//!
//! A command passes the limit of its volume and then that of its host; where it has to wait, hosts take
//! turns, and the sessions of a host. So a host that is held back keeps no other waiting, and a volume
//! that is held back keeps no other volume of the same host waiting. Commands of one session for one
//! volume stay in their order.
//!
//! Locks (COMPARE AND WRITE, reservations) go before what is held back, as long as locks alone stay
//! within the limit: other hosts wait for whoever has a lock, and hosts give up a datastore whose locks
//! they cannot renew. They are counted like anything else.

mod limiter;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use array::RateLimits;
use block::{Request, VolumeId};
use hashbrown::HashMap;

use crate::dispatch::Asked;
use crate::limits::RELEASES_PER_TURN;
use crate::scheduler::{Entry, HostNumber, Shares, Turn, Turns};
use crate::work::{CommandId, SessionId};
pub(crate) use limiter::Cost;
use limiter::Limiter;

/// What has limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Place {
    Volume(VolumeId),
    /// A host, by its number in [`Throttle::hosts`].
    Host(u64),
}

/// Which rule of order a command or request has among those of its session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// Behind those that came before.
    Queued,
    /// The same, and no later one may pass it, not even a lock (ORDERED).
    Ordered,
    /// Before those that wait (HEAD OF QUEUE).
    First,
    /// A lock: it need not wait for others.
    Lock,
}

/// What wants to pass.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Claim {
    pub(crate) host: HostNumber,
    pub(crate) session: SessionId,
    pub(crate) command: CommandId,
    /// The volumes that it works on: a copy has two.
    pub(crate) volumes: [Option<VolumeId>; 2],
    pub(crate) cost: Cost,
    pub(crate) order: Order,
}

impl Claim {
    /// A request by which a command is carried out that was counted as one I/O when it began.
    pub(crate) fn of_request(
        (host, session): (HostNumber, SessionId),
        (id, volume, request): &Asked,
        bytes: u64,
    ) -> Self {
        let source = match request {
            Request::Copy { source, .. } if source != volume => Some(*source),
            _ => None,
        };
        Self {
            host,
            session,
            command: CommandId(id.0),
            volumes: [Some(*volume), source],
            cost: Cost::of_part(bytes),
            order: Order::Queued,
        }
    }
}

/// What was held back at one place since it has limits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct HeldBack {
    /// Commands and requests that had to wait.
    pub(crate) commands: u64,
    /// How long those waited that do not wait any more.
    pub(crate) time: Duration,
    /// Those that wait now.
    pub(crate) waiting: u64,
}

/// What waits, and how far it has come.
struct Held<C> {
    claim: Claim,
    stage: usize,
    since: Duration,
    item: C,
}

/// The limits of one place and what waits there.
struct Gate<C> {
    limiter: Limiter,
    turns: Turns<Held<C>>,
    counts: HeldBack,
    /// When it is looked at next; set while something waits.
    due: Option<Duration>,
}

/// Stages that a claim passes: its volumes, then its host.
const STAGES: usize = 3;

/// The limits, and what they hold back.
pub(crate) struct Throttle<C> {
    gates: BTreeMap<Place, Gate<C>>,
    /// When gates are looked at next.
    due: BTreeSet<(Duration, Place)>,
    /// Numbers of the hosts that have limits.
    hosts: HashMap<String, u64>,
    last_host: u64,
    /// The hosts of sessions.
    sessions: HashMap<SessionId, String>,
    /// How many commands wait, by session, that no later one may pass.
    ordered: HashMap<SessionId, usize>,
    /// The time, as it was told last.
    now: Duration,
}

impl<C> Default for Throttle<C> {
    fn default() -> Self {
        Self {
            gates: BTreeMap::new(),
            due: BTreeSet::new(),
            hosts: HashMap::new(),
            last_host: 0,
            sessions: HashMap::new(),
            ordered: HashMap::new(),
            now: Duration::ZERO,
        }
    }
}

impl<C> Throttle<C> {
    pub(crate) const fn set_now(&mut self, now: Duration) {
        self.now = now;
    }

    /// Whether nothing has limits, so that nothing needs to be asked.
    pub(crate) fn is_idle(&self) -> bool {
        self.gates.is_empty()
    }

    /// Limits of a volume, also for what waits.
    pub(crate) fn limit_volume(&mut self, volume: VolumeId, limits: RateLimits) {
        self.limit(Place::Volume(volume), limits);
    }

    /// Limits of a host, also for what waits. They outlive its sessions.
    pub(crate) fn limit_host(&mut self, name: &str, limits: RateLimits) {
        let number = match self.hosts.get(name) {
            Some(&number) => number,
            None if limits.is_unlimited() => return,
            None => {
                self.last_host += 1;
                self.hosts.insert(name.to_owned(), self.last_host);
                self.last_host
            }
        };
        if limits.is_unlimited() {
            self.hosts.remove(name);
        }
        self.limit(Place::Host(number), limits);
    }

    fn limit(&mut self, place: Place, limits: RateLimits) {
        let now = self.now;
        match self.gates.get_mut(&place) {
            Some(gate) => gate.limiter.change(limits, now),
            None if limits.is_unlimited() => return,
            None => {
                self.gates.insert(place, Gate::new(limits, now));
            }
        }
        self.look_later(place);
    }

    /// A session of a host begins.
    pub(crate) fn open_session(&mut self, session: SessionId, host: &str) {
        self.sessions.insert(session, host.to_owned());
    }

    /// Lets a command or request pass, which is then returned, or holds it until
    /// [`Self::next_released`] returns it.
    pub(crate) fn admit(&mut self, claim: Claim, item: C) -> Option<C> {
        if claim.order == Order::Lock && self.lock_passes(&claim) {
            return Some(item);
        }
        let held = Held { claim, stage: 0, since: self.now, item };
        match self.advance(held) {
            Some(passed) => Some(passed.item),
            None => {
                if claim.order == Order::Ordered {
                    *self.ordered.entry(claim.session).or_default() += 1;
                }
                None
            }
        }
    }

    /// Whether a lock goes out of turn: then it is counted at all its places.
    fn lock_passes(&mut self, claim: &Claim) -> bool {
        if self.ordered.contains_key(&claim.session) {
            return false;
        }
        let now = self.now;
        let places: Vec<Place> = self.places(claim).collect();
        let is_open = |place: &Place| {
            let gate = self.gates.get_mut(place);
            gate.is_none_or(|gate| gate.limiter.opens_for_locks_in(now).is_zero())
        };
        if !places.iter().all(is_open) {
            return false;
        }
        for place in places {
            if let Some(gate) = self.gates.get_mut(&place) {
                gate.limiter.spend_on_lock(claim.cost);
            }
            self.look_later(place);
        }
        true
    }

    fn places(&self, claim: &Claim) -> impl Iterator<Item = Place> {
        let host = self.place_of_host(claim.session);
        claim.volumes.into_iter().flatten().map(Place::Volume).chain(host)
    }

    fn place_of_host(&self, session: SessionId) -> Option<Place> {
        if self.hosts.is_empty() {
            return None;
        }
        self.hosts.get(self.sessions.get(&session)?).copied().map(Place::Host)
    }

    /// Takes something as far as the limits let it; it is returned if it has passed them all.
    fn advance(&mut self, mut held: Held<C>) -> Option<Held<C>> {
        let now = self.now;
        while held.stage < STAGES {
            let place = match held.claim.volumes.get(held.stage) {
                Some(volume) => volume.map(Place::Volume),
                None => self.place_of_host(held.claim.session),
            };
            let gate = place.and_then(|place| Some((place, self.gates.get_mut(&place)?)));
            if let Some((place, gate)) = gate {
                if !gate.turns.is_empty() || !gate.limiter.opens_in(now).is_zero() {
                    gate.hold(held, now);
                    self.look_later(place);
                    return None;
                }
                gate.limiter.spend(held.claim.cost);
            }
            held.stage += 1;
        }
        Some(held)
    }

    /// Says when a gate is looked at next, and forgets one that holds nothing back any more.
    fn look_later(&mut self, place: Place) {
        let Some(gate) = self.gates.get_mut(&place) else { return };
        if let Some(due) = gate.due.take() {
            self.due.remove(&(due, place));
        }
        if !gate.turns.is_empty() {
            let due = self.now + gate.limiter.opens_in(self.now);
            gate.due = Some(due);
            self.due.insert((due, place));
        } else if gate.limiter.is_unlimited() {
            self.gates.remove(&place);
        }
    }

    /// When [`Self::release`] has something to do; `None` while nothing waits.
    pub(crate) fn due(&self) -> Option<Duration> {
        self.due.first().map(|(due, _)| *due)
    }

    /// What may go on now, as much of it as one turn of the loop takes; what is left is due at once.
    pub(crate) fn release(&mut self) -> Vec<C> {
        let mut released = Vec::new();
        let mut moves_left = RELEASES_PER_TURN;
        while moves_left > 0
            && let Some(&(due, place)) = self.due.first()
            && due <= self.now
        {
            let now = self.now;
            let Some(gate) = self.gates.get_mut(&place) else { break };
            let taken = gate.take_open(now, &mut moves_left);
            self.look_later(place);
            for mut held in taken {
                held.stage += 1;
                if let Some(passed) = self.advance(held) {
                    self.forget_ordered(&passed.claim);
                    released.push(passed.item);
                }
            }
        }
        released
    }

    fn forget_ordered(&mut self, claim: &Claim) {
        if claim.order == Order::Ordered
            && let Some(count) = self.ordered.get_mut(&claim.session)
        {
            *count -= 1;
            if *count == 0 {
                self.ordered.remove(&claim.session);
            }
        }
    }

    /// Takes out what waits of a session, or of all, and is unwanted. It is not counted by the limits
    /// that it has not passed.
    pub(crate) fn withdraw(
        &mut self,
        only: Option<SessionId>,
        mut is_unwanted: impl FnMut(&C) -> bool,
    ) -> Vec<C> {
        let mut withdrawn = Vec::new();
        let places: Vec<Place> = self.due.iter().map(|(_, place)| *place).collect();
        for place in places {
            let Some(gate) = self.gates.get_mut(&place) else { continue };
            let taken = gate.withdraw(only, &mut is_unwanted, self.now);
            if !taken.is_empty() {
                self.look_later(place);
            }
            for held in taken {
                self.forget_ordered(&held.claim);
                withdrawn.push(held.item);
            }
        }
        withdrawn
    }

    /// Whether something waits of a session that is meant.
    pub(crate) fn holds(&self, session: SessionId, is_meant: impl Fn(&C) -> bool) -> bool {
        let waiting = self.due.iter().filter_map(|(_, place)| self.gates.get(place));
        waiting.into_iter().any(|gate| gate.turns.has(session, |held| is_meant(&held.item)))
    }

    /// A session has ended. What waits of it goes on as that of no host, unless it is withdrawn.
    pub(crate) fn close_session(&mut self, session: SessionId) {
        self.sessions.remove(&session);
    }

    /// What was held back for the limits of a volume; `None` if it has none.
    pub(crate) fn of_volume(&self, volume: VolumeId) -> Option<HeldBack> {
        self.gates.get(&Place::Volume(volume)).map(|gate| gate.counts)
    }

    /// What was held back for the limits of hosts, by host.
    pub(crate) fn held_hosts(&self) -> Vec<(String, HeldBack)> {
        let counts = |number| self.gates.get(&Place::Host(number)).map(|gate| gate.counts);
        let held = self.hosts.iter();
        let held = held.filter_map(|(name, &number)| Some((name.clone(), counts(number)?)));
        let mut held: Vec<(String, HeldBack)> = held.collect();
        held.sort_by(|one, other| one.0.cmp(&other.0));
        held
    }
}

impl<C> Gate<C> {
    fn new(limits: RateLimits, now: Duration) -> Self {
        let (turns, counts) = (Turns::default(), HeldBack::default());
        Self { limiter: Limiter::new(limits, now), turns, counts, due: None }
    }

    fn hold(&mut self, held: Held<C>, now: Duration) {
        let held = Held { since: now, ..held };
        let Claim { host, session, command, order, .. } = held.claim;
        let turn = Turn { lane: None, host, session, command, bytes: held.claim.cost.bytes };
        let entry = turn.entry(held);
        self.counts.commands += 1;
        self.counts.waiting += 1;
        match order {
            Order::First => self.turns.push_first(host, session, entry),
            Order::Queued | Order::Ordered | Order::Lock => self.turns.push(host, session, entry),
        }
    }

    /// What goes on now, in the order of turns.
    fn take_open(&mut self, now: Duration, moves_left: &mut usize) -> Vec<Held<C>> {
        let mut taken = Vec::new();
        while *moves_left > 0
            && self.limiter.opens_in(now).is_zero()
            && let Some((_, _, Entry { command: held, .. })) = self.turns.take(&Shares::default())
        {
            *moves_left -= 1;
            self.limiter.spend(held.claim.cost);
            self.counts.ended(&held, now);
            taken.push(held);
        }
        taken
    }

    fn withdraw(
        &mut self,
        only: Option<SessionId>,
        is_unwanted: &mut impl FnMut(&C) -> bool,
        now: Duration,
    ) -> Vec<Held<C>> {
        let withdrawn = self.turns.withdraw(only, |held| is_unwanted(&held.item));
        let held = withdrawn.into_iter().map(|(_, _, entry)| entry.command);
        held.inspect(|held| self.counts.ended(held, now)).collect()
    }
}

impl HeldBack {
    fn ended<C>(&mut self, held: &Held<C>, now: Duration) {
        self.waiting -= 1;
        self.time += now.saturating_sub(held.since);
    }
}

#[cfg(test)]
mod tests;
