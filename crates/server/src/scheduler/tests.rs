use std::collections::BTreeMap;

use super::*;
use crate::limits::{LANE_COMMANDS_MAX, SHARE_BYTES};

const BOUNDS: Bounds = Bounds { commands: LANE_COMMANDS_MAX, bytes: 1 << 40 };

/// A command of a test: host, session, number.
type Command = (u64, u64, u64);

/// Keeps every session's queue full and counts what each host gets.
struct World {
    scheduler: Scheduler<Command>,
    next: u64,
    served: BTreeMap<u64, u64>,
}

impl World {
    fn new() -> Self {
        Self::with(BOUNDS)
    }

    fn with(bounds: Bounds) -> Self {
        Self { scheduler: Scheduler::new(bounds), next: 0, served: BTreeMap::new() }
    }

    fn push(&mut self, host: u64, session: u64, lane: Lane, bytes: u64) -> CommandId {
        self.next += 1;
        let command = CommandId(self.next);
        let (host_number, session_id) = (HostNumber(host), SessionId(session));
        let turn = Turn { lane, host: host_number, session: session_id, command, bytes };
        self.scheduler.push(turn, (host, session, self.next));
        command
    }

    fn fill(&mut self, count: usize, host: u64, session: u64, lane: Lane, bytes: u64) {
        for _ in 0..count {
            self.push(host, session, lane, bytes);
        }
    }

    /// The next command, which ends at once.
    fn serve(&mut self) -> Option<Command> {
        let (host, session, number) = self.scheduler.start_next()?;
        *self.served.entry(host).or_default() += 1;
        self.scheduler.finished(CommandId(number));
        Some((host, session, number))
    }
}

/// Jain's index: 1 if all have the same.
fn jain(shares: impl Iterator<Item = u64> + Clone) -> f64 {
    let sum: f64 = shares.clone().map(|share| share as f64).sum();
    let squares: f64 = shares.clone().map(|share| (share as f64).powi(2)).sum();
    sum * sum / (shares.count() as f64 * squares)
}

#[test]
fn sixty_four_hosts_with_deep_queues_get_equal_shares_in_every_round() {
    let mut world = World::new();
    for host in 0..64 {
        world.fill(128, host, host, Some(0), 4096);
    }
    for _ in 0..10_000 {
        let (host, session, _) = world.serve().unwrap();
        world.push(host, session, Some(0), 4096);
    }
    assert!(jain(world.served.values().copied()) > 0.999, "{:?}", world.served);
}

#[test]
fn a_host_with_eight_sessions_gets_no_more_than_one_with_one() {
    let mut world = World::new();
    for session in 0..8 {
        world.fill(256, 1, session, Some(0), 4096);
    }
    world.fill(256, 2, 100, Some(0), 4096);
    let mut sessions: BTreeMap<u64, u64> = BTreeMap::new();
    for _ in 0..400 {
        let (_, session, _) = world.serve().unwrap();
        *sessions.entry(session).or_default() += 1;
    }
    assert_eq!(world.served, BTreeMap::from([(1, 200), (2, 200)]));
    assert!((0..8).all(|session| sessions[&session] == 25), "{sessions:?}");
}

#[test]
fn shares_are_of_bytes_and_not_of_commands() {
    let mut world = World::new();
    for _ in 0..1000 {
        world.push(1, 1, Some(0), 1 << 20);
        world.push(2, 2, Some(0), 4096);
    }
    let mut cost = BTreeMap::from([(1, 0), (2, 0)]);
    while world.served.get(&2).is_none_or(|&served| served < 1000) {
        let (host, _, _) = world.serve().unwrap();
        *cost.get_mut(&host).unwrap() += COMMAND_COST + if host == 1 { 1 << 20 } else { 4096 };
    }
    // What one command costs, and one share, is all that they differ by.
    let difference: i64 = cost[&1] - cost[&2];
    assert!(difference.abs() <= (1 << 20) + COMMAND_COST + SHARE_BYTES, "{cost:?}");
}

#[test]
fn who_asks_for_little_waits_for_one_round_only() {
    let mut world = World::new();
    for host in 0..10 {
        world.fill(256, host, host, Some(0), 4096);
    }
    assert!((0..500).all(|_| world.serve().is_some()));
    world.push(99, 99, Some(0), 4096);
    let round = 10 * (SHARE_BYTES / (COMMAND_COST + 4096) + 1);
    let waits = (0..).take_while(|_| world.serve().unwrap().0 != 99).count();
    assert!((waits as i64) <= 2 * round, "{waits} of others went first");
}

#[test]
fn a_pool_that_stalls_holds_up_no_other() {
    let mut world = World::new();
    const ALONE_MAX: usize = LANE_COMMANDS_MAX / 2;
    world.fill(2 * LANE_COMMANDS_MAX, 1, 1, Some(0), 0);
    let mut started = Vec::new();
    while let Some(command) = world.scheduler.start_next() {
        started.push(command);
    }
    assert_eq!(started.len(), ALONE_MAX);
    assert!(!world.scheduler.can_start());
    world.push(1, 1, Some(1), 0);
    world.push(1, 1, None, 0);
    assert!(world.scheduler.can_start());
    assert!(world.serve().is_some() && world.serve().is_some() && world.serve().is_none());
    world.scheduler.finished(CommandId(started[0].2));
    assert_eq!(world.serve(), Some((1, 1, ALONE_MAX as u64 + 1)));
}

#[test]
fn what_needs_no_pool_is_never_held_back() {
    let mut world = World::new();
    world.fill(2 * LANE_COMMANDS_MAX, 1, 1, None, 0);
    let started = std::iter::from_fn(|| world.scheduler.start_next()).count();
    assert_eq!(started, 2 * LANE_COMMANDS_MAX);
}

#[test]
fn commands_of_a_session_stay_in_order_but_for_the_head_of_queue() {
    let mut world = World::new();
    for session in [1, 2, 1, 2, 1] {
        world.push(1, session, Some(0), 4096);
    }
    let turn = Turn {
        lane: Some(0),
        host: HostNumber(1),
        session: SessionId(1),
        command: CommandId(9),
        bytes: 0,
    };
    world.scheduler.push_first(turn, (1, 1, 9));
    let of_first: Vec<u64> =
        std::iter::from_fn(|| world.serve()).filter(|c| c.1 == 1).map(|c| c.2).collect();
    assert_eq!(of_first, [9, 1, 3, 5]);
}

#[test]
fn task_management_finds_what_it_looks_for() {
    let mut world = World::new();
    let own = world.push(1, 1, Some(0), 0);
    world.push(2, 2, Some(0), 0);
    assert_eq!(world.scheduler.start_all_of(Some(SessionId(1))), [(1, 1, 1)]);
    assert_eq!(world.scheduler.start_all_of(None), [(2, 2, 2)]);
    world.scheduler.finished(own);
    world.scheduler.finished(CommandId(2));
    assert!(world.scheduler.lanes.is_empty());
}

#[test]
fn a_session_that_ends_leaves_nothing_behind() {
    let mut world = World::new();
    world.fill(5, 1, 1, Some(0), 0);
    world.scheduler.start_next();
    world.push(2, 2, Some(1), 0);
    world.scheduler.forget(SessionId(1));
    assert_eq!(world.serve(), Some((2, 2, 6)));
    assert!(world.scheduler.lanes.is_empty() && world.scheduler.under_way.is_empty());
    world.scheduler.finished(CommandId(1));
}

#[test]
fn a_name_that_is_used_twice_is_counted_once() {
    let mut world = World::new();
    for _ in 0..2 {
        let turn = Turn {
            lane: Some(0),
            host: HostNumber(1),
            session: SessionId(1),
            command: CommandId(7),
            bytes: 0,
        };
        world.scheduler.push(turn, (1, 1, 7));
        world.scheduler.start_next();
    }
    world.scheduler.finished(CommandId(7));
    assert!(world.scheduler.lanes.is_empty());
}

#[test]
fn a_command_is_expected_of_a_session_that_waits_for_nothing() {
    let mut world = World::new();
    assert!(world.scheduler.expects_a_command());
    world.push(1, 1, Some(0), 4096);
    world.serve();
    assert!(world.scheduler.expects_a_command());
    let first = world.push(1, 1, Some(0), 4096);
    world.scheduler.start_next();
    assert!(!world.scheduler.expects_a_command(), "the session waits for its answer");
    world.push(2, 2, Some(0), 4096);
    world.serve();
    assert!(world.scheduler.expects_a_command(), "another one was answered");
    for _ in 0..2 {
        world.push(3, 3, Some(0), 4096);
        world.scheduler.start_next();
    }
    assert!(!world.scheduler.expects_a_command(), "much is under way");
    world.scheduler.finished(first);
    assert!(world.scheduler.expects_a_command());
}

// An UNMAP whose descriptors name 500 TB, which is refused, had its host wait for as many rounds.
#[test]
fn no_cost_takes_for_ever_to_be_paid() {
    let mut world = World::new();
    world.fill(100, 1, 1, Some(0), u64::MAX);
    assert!((0..100).all(|_| world.serve().is_some()));
}

/// Starts all that may start, and counts it by host.
fn start_all(world: &mut World) -> BTreeMap<u64, usize> {
    let mut started = BTreeMap::new();
    while let Some((host, _, _)) = world.scheduler.start_next() {
        *started.entry(host).or_default() += 1;
    }
    started
}

// 1,024 reads of 32 MiB were under way, and a read of another host waited for one of them to end.
#[test]
fn a_host_with_nothing_under_way_has_its_turn_whatever_others_have() {
    let mut world = World::new();
    for host in 0..4 {
        world.fill(2 * LANE_COMMANDS_MAX, host, host, Some(0), 32 << 20);
    }
    start_all(&mut world);
    assert!(!world.scheduler.can_start());
    world.fill(10, 99, 99, Some(0), 4096);
    assert!(world.scheduler.can_start());
    assert_eq!(world.scheduler.start_next().map(|(host, ..)| host), Some(99));
}

#[test]
fn what_is_under_way_is_bounded_in_bytes_and_shared() {
    const PIECE: u64 = (1 << 20) - COMMAND_COST as u64;
    let mut world = World::with(Bounds { commands: 1000, bytes: 32 << 20 });
    world.fill(1000, 1, 1, Some(0), PIECE);
    assert_eq!(start_all(&mut world), BTreeMap::from([(1, 16)]));
    world.fill(1000, 2, 2, Some(0), PIECE);
    assert_eq!(start_all(&mut world), BTreeMap::from([(2, 8)]));
    // One that is larger than all bounds goes alone, and the lane is free again afterwards.
    world.push(3, 3, Some(0), 64 << 20);
    world.push(3, 3, Some(0), 64 << 20);
    assert_eq!(start_all(&mut world), BTreeMap::from([(3, 1)]));
    for command in 1..=world.next {
        world.scheduler.finished(CommandId(command));
    }
    assert_eq!(start_all(&mut world).len(), 3, "each goes on");
}

#[test]
fn a_host_with_several_shares_gets_as_many_times_what_others_get() {
    let mut world = World::new();
    world.scheduler.set_share(HostNumber(1), 3);
    for host in [1, 2, 3] {
        world.fill(512, host, host, Some(0), 4096);
    }
    for _ in 0..5000 {
        let (host, session, _) = world.serve().unwrap();
        world.push(host, session, Some(0), 4096);
    }
    let served = |world: &World, host| world.served[&host] as f64;
    let ratio = served(&world, 1) / served(&world, 2);
    assert!((2.9..3.1).contains(&ratio), "{:?}", world.served);
    assert_eq!(world.served[&2], world.served[&3]);
    // Another share counts for what waits already.
    world.scheduler.set_share(HostNumber(1), 1);
    let before = world.served.clone();
    for _ in 0..3000 {
        let (host, session, _) = world.serve().unwrap();
        world.push(host, session, Some(0), 4096);
    }
    let got = |host| (world.served[&host] - before[&host]) as f64;
    assert!((0.95..1.05).contains(&(got(1) / got(2))), "{:?}", world.served);
}

// A minimum: beside seven hosts that ask for all they can get, and with large commands at that.
#[test]
fn a_share_is_a_minimum_whatever_others_ask_for() {
    let mut world = World::new();
    world.scheduler.set_share(HostNumber(0), 7);
    world.fill(4000, 0, 0, Some(0), 4096);
    for host in 1..8 {
        world.fill(200, host, host, Some(0), 1 << 20);
    }
    let mut work = BTreeMap::from([(true, 0), (false, 0)]);
    for _ in 0..20_000 {
        let (host, session, _) = world.serve().unwrap();
        let bytes = if host == 0 { 4096 } else { 1 << 20 };
        *work.get_mut(&(host == 0)).unwrap() += COMMAND_COST as u64 + bytes;
        world.push(host, session, Some(0), bytes);
    }
    let least = (work[&true] + work[&false]) / 2;
    assert!(work[&true] * 10 > least * 9, "half of the work is its: {work:?}");
}

#[test]
fn a_host_with_several_shares_has_more_under_way_and_leaves_room_for_others() {
    let mut world = World::with(Bounds { commands: 1000, bytes: 1 << 40 });
    world.scheduler.set_share(HostNumber(1), 3);
    world.fill(2000, 1, 1, Some(0), 4096);
    assert_eq!(start_all(&mut world), BTreeMap::from([(1, 750)]));
    world.fill(2000, 2, 2, Some(0), 4096);
    assert_eq!(start_all(&mut world), BTreeMap::from([(2, 125)]));
}
