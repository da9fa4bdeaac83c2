//! Fair queueing of commands (deficit round robin). Commands wait in lanes, one for each pool; in a
//! lane hosts share equally what the pool can do, however many sessions and commands each has
//! there, and the sessions of one host take turns. A lane has a bounded amount of work under way:
//! so a host that asks for little does not wait behind all that another has asked for, and a pool
//! that stalls holds up only commands for that pool. Of the bounded amount a host takes at most as
//! much as it leaves free for others, and a host with nothing under way always gets its turn.
//!
//! Shares are counted in bytes of work, each command with [`COMMAND_COST`] besides. Commands of one
//! session for one pool stay in their order. The same queue, with other bounds, stands before the
//! engine, where large commands come as the requests that they are cut into.

use std::collections::{BTreeMap, VecDeque};

use hashbrown::HashMap;

use crate::limits::{COMMAND_COST, COST_MAX, EXPECTING_COMMANDS_MAX, SHARE_BYTES};
use crate::work::{CommandId, SessionId};

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
            under_way: HashMap::new(),
            last_ended: None,
        }
    }

    /// Queues a command.
    pub(crate) fn push(&mut self, turn: Turn, command: C) {
        let cost = turn.cost();
        let entry = Entry { id: turn.command, cost, command };
        self.sessions(turn).commands.push_back(entry);
    }

    /// A command waits before all others of its session in its lane (HEAD OF QUEUE).
    pub(crate) fn push_first(&mut self, turn: Turn, command: C) {
        let cost = turn.cost();
        let entry = Entry { id: turn.command, cost, command };
        self.sessions(turn).commands.push_front(entry);
    }

    fn sessions(&mut self, turn: Turn) -> &mut SessionQueue<C> {
        let queue = self.lanes.entry(turn.lane).or_default();
        queue.session(turn.host, turn.session)
    }

    /// Whether [`Self::start_next`] has a command to give.
    pub(crate) fn can_start(&self) -> bool {
        self.lanes.iter().any(|(&lane, queue)| queue.can_start(lane, self.bounds))
    }

    /// Whether the session whose command ended last is likely to send another one soon: it waits
    /// for nothing, and few commands are under way.
    pub(crate) fn expects_a_command(&self) -> bool {
        let waits = |session| self.under_way.values().any(|begun| begun.session == session);
        self.under_way.len() <= EXPECTING_COMMANDS_MAX && !self.last_ended.is_some_and(waits)
    }

    /// The command whose turn it is; it is under way until [`Self::finished`].
    pub(crate) fn start_next(&mut self) -> Option<C> {
        let bounds = self.bounds;
        let can_start = |(lane, queue): &(&Lane, &Queue<C>)| queue.can_start(**lane, bounds);
        let after = (std::ops::Bound::Excluded(self.last_lane), std::ops::Bound::Unbounded);
        let next = self.lanes.range(after).find(can_start);
        let lane = *next.or_else(|| self.lanes.iter().find(can_start))?.0;
        self.last_lane = lane;
        let taken = self.lanes.get_mut(&lane)?.take_next(lane, bounds)?;
        Some(self.begin(lane, taken))
    }

    /// All commands of a session, or of everybody, in order: they are under way from now on,
    /// whatever the bounds are. Task management must find them where it looks.
    pub(crate) fn start_all_of(&mut self, only: Option<SessionId>) -> Vec<C> {
        let mut started = Vec::new();
        let lanes: Vec<Lane> = self.lanes.keys().copied().collect();
        for lane in lanes {
            let taken = self.lanes.get_mut(&lane).map(|queue| queue.take_all_of(only));
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
            queue.withdraw(&is_unwanted, &mut withdrawn);
        }
        self.lanes.retain(|_, queue| !queue.is_idle());
        withdrawn
    }

    /// A session has ended: nobody waits for its commands.
    pub(crate) fn forget(&mut self, session: SessionId) {
        for queue in self.lanes.values_mut() {
            queue.take_all_of(Some(session));
        }
        let of_session = self.under_way.iter().filter(|(_, begun)| begun.session == session);
        let commands: Vec<CommandId> = of_session.map(|(&command, _)| command).collect();
        commands.into_iter().for_each(|command| self.finished(command));
        self.lanes.retain(|_, queue| !queue.is_idle());
    }
}

impl Turn {
    fn cost(&self) -> i64 {
        // Debts are paid in rounds, so that a cost without a bound would be a loop without one.
        self.bytes.min(COST_MAX).cast_signed() + COMMAND_COST
    }
}

/// A command that has its turn.
type Taken<C> = (HostNumber, SessionId, Entry<C>);

/// A command and what its turn costs.
struct Entry<C> {
    id: CommandId,
    cost: i64,
    command: C,
}

/// Lane: the commands that wait for one pool.
struct Queue<C> {
    under_way: Load,
    /// The same of each host that has anything under way.
    of_hosts: HashMap<HostNumber, Load>,
    /// Hosts in the order of their turns.
    hosts: VecDeque<Host<C>>,
}

impl<C> Default for Queue<C> {
    fn default() -> Self {
        Self { under_way: Load::default(), of_hosts: HashMap::new(), hosts: VecDeque::new() }
    }
}

/// A host with commands that wait.
struct Host<C> {
    number: HostNumber,
    /// Deficit counter: bytes it may still spend in this round; negative if its last command cost
    /// more.
    credit: i64,
    /// Its sessions in the order of their turns.
    sessions: VecDeque<SessionQueue<C>>,
}

/// A session with commands that wait.
struct SessionQueue<C> {
    session: SessionId,
    commands: VecDeque<Entry<C>>,
}

impl<C> Queue<C> {
    fn is_idle(&self) -> bool {
        self.under_way.commands == 0 && self.hosts.is_empty()
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

    fn can_start(&self, lane: Lane, bounds: Bounds) -> bool {
        self.hosts.iter().any(|host| self.may_start(host, lane, bounds))
    }

    /// Whether the bounds let a host start its next command. It may have under way as much as it
    /// leaves free for others.
    fn may_start(&self, host: &Host<C>, lane: Lane, bounds: Bounds) -> bool {
        let Some(load) = self.of_hosts.get(&host.number).filter(|_| lane.is_some()) else {
            return true;
        };
        load.commands < bounds.commands.saturating_sub(self.under_way.commands)
            && load.bytes + host.next_cost() <= bounds.bytes - self.under_way.bytes
    }

    fn session(&mut self, number: HostNumber, session: SessionId) -> &mut SessionQueue<C> {
        let at = self.hosts.iter().position(|host| host.number == number).unwrap_or_else(|| {
            self.hosts.push_back(Host { number, credit: 0, sessions: VecDeque::new() });
            self.hosts.len() - 1
        });
        let sessions = &mut self.hosts[at].sessions;
        let at = sessions.iter().position(|queue| queue.session == session).unwrap_or_else(|| {
            sessions.push_back(SessionQueue { session, commands: VecDeque::new() });
            sessions.len() - 1
        });
        &mut sessions[at]
    }

    /// Deficit round robin: a host has its turn until its share of the round is spent. One of them
    /// may start.
    fn take_next(&mut self, lane: Lane, bounds: Bounds) -> Option<Taken<C>> {
        let mut host = self.hosts.pop_front()?;
        while !self.may_start(&host, lane, bounds) || !host.begins_turn() {
            self.hosts.push_back(host);
            host = self.hosts.pop_front()?;
        }
        let number = host.number;
        let taken = host.take_next();
        if let Some((_, entry)) = &taken {
            host.credit -= entry.cost;
        }
        match host.sessions.is_empty() {
            true => {}
            false if host.credit > 0 => self.hosts.push_front(host),
            false => self.hosts.push_back(host),
        }
        taken.map(|(session, entry)| (number, session, entry))
    }

    fn withdraw(&mut self, is_unwanted: &impl Fn(&C) -> bool, withdrawn: &mut Vec<C>) {
        for session in self.hosts.iter_mut().flat_map(|host| &mut host.sessions) {
            let commands = std::mem::take(&mut session.commands);
            for entry in commands {
                if is_unwanted(&entry.command) {
                    withdrawn.push(entry.command)
                } else {
                    session.commands.push_back(entry)
                }
            }
        }
        self.forget_empty();
    }

    /// Removes sessions and hosts without waiting commands from the round.
    fn forget_empty(&mut self) {
        for host in &mut self.hosts {
            host.sessions.retain(|session| !session.commands.is_empty());
        }
        self.hosts.retain(|host| !host.sessions.is_empty());
    }

    fn take_all_of(&mut self, only: Option<SessionId>) -> Vec<Taken<C>> {
        let mut taken = Vec::new();
        for host in &mut self.hosts {
            for queue in &mut host.sessions {
                if only.is_none_or(|only| queue.session == only) {
                    let (number, session) = (host.number, queue.session);
                    taken.extend(queue.commands.drain(..).map(|entry| (number, session, entry)));
                }
            }
        }
        self.forget_empty();
        taken
    }
}

impl<C> Host<C> {
    /// Whether it has its turn, with what is left of its share or with the share of a new round. A
    /// command that cost more than a share is paid for in rounds to come.
    fn begins_turn(&mut self) -> bool {
        if self.credit <= 0 {
            self.credit += SHARE_BYTES;
        }
        self.credit > 0
    }

    /// Cost of its next command.
    fn next_cost(&self) -> i64 {
        let next = self.sessions.front().and_then(|session| session.commands.front());
        next.map_or(0, |entry| entry.cost)
    }

    fn take_next(&mut self) -> Option<(SessionId, Entry<C>)> {
        let mut queue = self.sessions.pop_front()?;
        let entry = queue.commands.pop_front()?;
        let session = queue.session;
        if !queue.commands.is_empty() {
            self.sessions.push_back(queue);
        }
        Some((session, entry))
    }
}

#[cfg(test)]
mod tests;
