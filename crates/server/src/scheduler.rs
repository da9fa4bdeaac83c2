//! Fair queueing of commands (deficit round robin). Commands wait in lanes, one for each pool; in a
//! lane hosts share equally what the pool can do, however many sessions and commands each has
//! there, and the sessions of one host take turns. A lane has a bounded amount of work under way:
//! so a host that asks for little does not wait behind all that another has asked for, and a pool
//! that stalls holds up only commands for that pool. Of the bounded amount a host takes at most as
//! much as it leaves free for others, and a host with nothing under way always gets its turn.
//!
//! Shares are counted in bytes of work, each command with [`COMMAND_COST`] besides. Commands of one
//! session for one pool stay in their order. The same queue, with other bounds, stands before the
//! engine, where large commands come as the requests that they are cut into. An administrator may
//! give a host several shares.

mod turns;

use std::collections::BTreeMap;

use hashbrown::HashMap;

use crate::limits::{COMMAND_COST, COST_MAX, EXPECTING_COMMANDS_MAX};
use crate::work::{CommandId, SessionId};
use turns::{Host, Taken};

pub(crate) use turns::{Entry, Shares, Turns};

/// Where commands queue: the pool, or `None` for what needs none and ends at once.
pub(crate) type Lane = Option<usize>;

/// Number of a host: all its sessions have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct HostNumber(pub(crate) u64);

/// Scheduling key of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Turn {
    pub(crate) lane: Lane,
    pub(crate) host: HostNumber,
    pub(crate) session: SessionId,
    pub(crate) command: CommandId,
    /// Cost in bytes of work.
    pub(crate) bytes: u64,
}

/// Bounds of a lane: work under way at once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    pub(crate) commands: usize,
    /// All that they cost.
    pub(crate) bytes: i64,
}

/// Work under way of a lane, or of a host there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Load {
    commands: usize,
    bytes: i64,
}

impl Load {
    fn begin(&mut self, cost: i64) {
        self.commands += 1;
        self.bytes += cost;
    }

    fn end(&mut self, cost: i64) {
        self.commands -= 1;
        self.bytes -= cost;
    }
}

/// A command under way.
#[derive(Clone, Copy)]
struct Begun {
    lane: Lane,
    host: HostNumber,
    session: SessionId,
    cost: i64,
}

/// The commands that wait for their turn, and where those are that had it.
pub(crate) struct Scheduler<C> {
    bounds: Bounds,
    lanes: BTreeMap<Lane, Queue<C>>,
    /// The lane that had the last turn.
    last_lane: Lane,
    shares: Shares,
    under_way: HashMap<CommandId, Begun>,
    /// The session whose command ended last.
    last_ended: Option<SessionId>,
}

impl<C> Scheduler<C> {
    pub(crate) fn new(bounds: Bounds) -> Self {
        Self {
            bounds,
            lanes: BTreeMap::new(),
            last_lane: None,
            shares: Shares::default(),
            under_way: HashMap::new(),
            last_ended: None,
        }
    }

    /// A host has so many shares from now on, also of what waits; 1 is what all others have.
    pub(crate) fn set_share(&mut self, host: HostNumber, share: u8) {
        self.shares.set(host, share);
    }

    /// Queues a command.
    pub(crate) fn push(&mut self, turn: Turn, command: C) {
        let queue = self.lanes.entry(turn.lane).or_default();
        queue.turns.push(turn.host, turn.session, turn.entry(command));
    }

    /// A command waits before all others of its session in its lane (HEAD OF QUEUE).
    pub(crate) fn push_first(&mut self, turn: Turn, command: C) {
        let queue = self.lanes.entry(turn.lane).or_default();
        queue.turns.push_first(turn.host, turn.session, turn.entry(command));
    }

    /// Whether [`Self::start_next`] has a command to give.
    pub(crate) fn can_start(&self) -> bool {
        let Self { bounds, shares, .. } = self;
        self.lanes.iter().any(|(&lane, queue)| queue.can_start(lane, *bounds, shares))
    }

    /// Whether the session whose command ended last is likely to send another one soon: it waits
    /// for nothing, and few commands are under way.
    pub(crate) fn expects_a_command(&self) -> bool {
        let waits = |session| self.under_way.values().any(|begun| begun.session == session);
        self.under_way.len() <= EXPECTING_COMMANDS_MAX && !self.last_ended.is_some_and(waits)
    }

    /// The command whose turn it is; it is under way until [`Self::finished`].
    pub(crate) fn start_next(&mut self) -> Option<C> {
        let Self { bounds, lanes, last_lane, shares, .. } = self;
        let (bounds, shares) = (*bounds, &*shares);
        let can_start =
            |(lane, queue): &(&Lane, &Queue<C>)| queue.can_start(**lane, bounds, shares);
        let after = (std::ops::Bound::Excluded(*last_lane), std::ops::Bound::Unbounded);
        let next = lanes.range(after).find(can_start);
        let lane = *next.or_else(|| lanes.iter().find(can_start))?.0;
        *last_lane = lane;
        let taken = lanes.get_mut(&lane)?.take_next(lane, bounds, shares)?;
        Some(self.begin(lane, taken))
    }

    /// All commands of a session, or of everybody, in order: they are under way from now on,
    /// whatever the bounds are. Task management must find them where it looks.
    pub(crate) fn start_all_of(&mut self, only: Option<SessionId>) -> Vec<C> {
        let mut started = Vec::new();
        let lanes: Vec<Lane> = self.lanes.keys().copied().collect();
        for lane in lanes {
            let taken = self.lanes.get_mut(&lane).map(|queue| queue.turns.withdraw(only, |_| true));
            for taken in taken.into_iter().flatten() {
                started.push(self.begin(lane, taken));
            }
        }
        started
    }

    fn begin(&mut self, lane: Lane, (host, session, entry): Taken<C>) -> C {
        // An initiator that gives two commands one name has one of them counted.
        self.finished(entry.id);
        let cost = entry.cost;
        self.under_way.insert(entry.id, Begun { lane, host, session, cost });
        let queue = self.lanes.entry(lane).or_default();
        queue.under_way.begin(cost);
        queue.of_hosts.entry(host).or_default().begin(cost);
        entry.command
    }

    /// A command has ended; does nothing if it is not under way.
    pub(crate) fn finished(&mut self, command: CommandId) {
        let Some(begun) = self.under_way.remove(&command) else { return };
        let lane = begun.lane;
        self.last_ended = Some(begun.session);
        if let Some(queue) = self.lanes.get_mut(&lane) {
            queue.end(begun);
            if queue.is_idle() {
                self.lanes.remove(&lane);
            }
        }
    }

    /// Takes out all commands that wait and that nobody waits for; they had no turn.
    pub(crate) fn withdraw(&mut self, is_unwanted: impl Fn(&C) -> bool) -> Vec<C> {
        let mut withdrawn = Vec::new();
        for queue in self.lanes.values_mut() {
            withdrawn.extend(queue.turns.withdraw(None, &is_unwanted));
        }
        self.lanes.retain(|_, queue| !queue.is_idle());
        withdrawn.into_iter().map(|(_, _, entry)| entry.command).collect()
    }

    /// A session has ended: nobody waits for its commands.
    pub(crate) fn forget(&mut self, session: SessionId) {
        for queue in self.lanes.values_mut() {
            queue.turns.withdraw(Some(session), |_| true);
        }
        let of_session = self.under_way.iter().filter(|(_, begun)| begun.session == session);
        let commands: Vec<CommandId> = of_session.map(|(&command, _)| command).collect();
        commands.into_iter().for_each(|command| self.finished(command));
        self.lanes.retain(|_, queue| !queue.is_idle());
    }
}

impl Turn {
    /// What waits for its turn.
    pub(crate) fn entry<C>(&self, command: C) -> Entry<C> {
        Entry { id: self.command, cost: self.cost(), command }
    }

    fn cost(&self) -> i64 {
        // Debts are paid in rounds, so that a cost without a bound would be a loop without one.
        self.bytes.min(COST_MAX).cast_signed() + COMMAND_COST
    }
}

/// Lane: the commands that wait for one pool.
struct Queue<C> {
    under_way: Load,
    /// The same of each host that has anything under way.
    of_hosts: HashMap<HostNumber, Load>,
    turns: Turns<C>,
}

impl<C> Default for Queue<C> {
    fn default() -> Self {
        Self { under_way: Load::default(), of_hosts: HashMap::new(), turns: Turns::default() }
    }
}

impl<C> Queue<C> {
    fn is_idle(&self) -> bool {
        self.under_way.commands == 0 && self.turns.is_empty()
    }

    fn end(&mut self, begun: Begun) {
        self.under_way.end(begun.cost);
        if let Some(load) = self.of_hosts.get_mut(&begun.host) {
            load.end(begun.cost);
            if load.commands == 0 {
                self.of_hosts.remove(&begun.host);
            }
        }
    }

    fn can_start(&self, lane: Lane, bounds: Bounds, shares: &Shares) -> bool {
        let room = Room { bounds, under_way: self.under_way, of_hosts: &self.of_hosts, shares };
        self.turns.any(|host| lane.is_none() || room.allows(host))
    }

    /// Deficit round robin: a host has its turn until its share of the round is spent. One of them
    /// may start.
    fn take_next(&mut self, lane: Lane, bounds: Bounds, shares: &Shares) -> Option<Taken<C>> {
        let room = Room { bounds, under_way: self.under_way, of_hosts: &self.of_hosts, shares };
        self.turns.take_next(shares, |host| lane.is_none() || room.allows(host))
    }
}

/// What of a lane's bounds is free.
struct Room<'a> {
    bounds: Bounds,
    under_way: Load,
    of_hosts: &'a HashMap<HostNumber, Load>,
    shares: &'a Shares,
}

impl Room<'_> {
    /// Whether the bounds let a host start its next command. It may have under way as much as it
    /// leaves free for others, or so many times as much as it has shares.
    fn allows<C>(&self, host: &Host<C>) -> bool {
        let Some(load) = self.of_hosts.get(&host.number) else { return true };
        let share = self.shares.of(host.number);
        let commands = self.bounds.commands.saturating_sub(self.under_way.commands);
        let bytes = self.bounds.bytes - self.under_way.bytes;
        load.commands < commands.saturating_mul(share.unsigned_abs() as usize)
            && load.bytes + host.next_cost() <= bytes.saturating_mul(share)
    }
}

#[cfg(test)]
mod tests;
