use super::*;
use crate::limits::OPERATION_BYTES;

const ONE: VolumeId = VolumeId(1);
const OTHER: VolumeId = VolumeId(2);

/// Hosts, each with a session of its number, and the commands that went on.
struct World {
    throttle: Throttle<u64>,
    now: Duration,
    next: u64,
}

fn iops(iops: u32) -> RateLimits {
    RateLimits { iops: Some(iops), ..RateLimits::default() }
}

fn bytes_per_second(bytes: u64) -> RateLimits {
    RateLimits { bytes_per_second: Some(bytes), ..RateLimits::default() }
}

impl World {
    fn new() -> Self {
        let mut throttle = Throttle::default();
        for session in 0..10 {
            throttle.open_session(SessionId(session), &format!("host{session}"));
        }
        Self { throttle, now: Duration::ZERO, next: 0 }
    }

    fn claim(&mut self, host: u64, volume: VolumeId, bytes: u64, order: Order) -> Claim {
        self.next += 1;
        Claim {
            host: HostNumber(host),
            session: SessionId(host),
            command: CommandId(self.next),
            volumes: [Some(volume), None],
            cost: Cost::of_command(bytes),
            order,
        }
    }

    /// Sends a command; returns its number, and whether it passed.
    fn send(&mut self, host: u64, volume: VolumeId, bytes: u64, order: Order) -> (u64, bool) {
        let claim = self.claim(host, volume, bytes, order);
        let number = self.next;
        let passed = self.throttle.admit(claim, number);
        assert!(passed.is_none_or(|passed| passed == number));
        (number, passed.is_some())
    }

    /// Sends so many commands of 4 KiB; returns how many passed.
    fn fill(&mut self, count: usize, host: u64, volume: VolumeId) -> usize {
        (0..count).filter(|_| self.send(host, volume, 4096, Order::Queued).1).count()
    }

    fn pass(&mut self, time: Duration) {
        self.now += time;
        self.throttle.set_now(self.now);
    }

    /// Lets time pass as the reactor does: it wakes when something is due, and only then.
    fn run(&mut self, time: Duration) -> Vec<u64> {
        let until = self.now + time;
        let (mut released, mut wakes) = (Vec::new(), 0_u64);
        while let Some(due) = self.throttle.due().filter(|due| *due <= until) {
            self.now = self.now.max(due);
            self.throttle.set_now(self.now);
            let some = self.throttle.release();
            wakes += 1;
            released.extend(some);
            let held: u64 = self.throttle.gates.values().map(|gate| gate.counts.commands).sum();
            assert!(wakes <= 10 + released.len() as u64 + held, "woken for nothing");
        }
        self.now = until;
        self.throttle.set_now(until);
        released
    }
}

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn without_limits_nothing_is_held_back() {
    let mut world = World::new();
    assert!(world.throttle.is_idle());
    assert_eq!(world.fill(1000, 1, ONE), 1000);
    assert_eq!((world.throttle.due(), world.throttle.of_volume(ONE)), (None, None));
}

#[test]
fn a_volume_gets_its_burst_at_once_and_then_its_rate() {
    let mut world = World::new();
    world.throttle.limit_volume(ONE, RateLimits { burst_ms: 500, ..iops(100) });
    assert_eq!(world.fill(1000, 1, ONE), 50);
    assert_eq!(world.run(SECOND).len(), 100);
    assert_eq!(world.run(5 * SECOND).len(), 500);
    let held = world.throttle.of_volume(ONE).unwrap();
    assert_eq!((held.commands, held.waiting), (950, 350));
    assert!(held.time > 600 * SECOND, "{held:?}");
    assert_eq!(world.run(10 * SECOND).len(), 350);
    // After a pause it has its burst again, and no more than that.
    world.pass(100 * SECOND);
    assert_eq!(world.fill(1000, 1, ONE), 50);
}

#[test]
fn what_is_released_is_exact_however_often_somebody_looks() {
    for step in [Duration::from_micros(137), Duration::from_millis(7), SECOND / 3] {
        let mut world = World::new();
        world.throttle.limit_volume(ONE, iops(1000));
        let mut done = world.fill(3000, 1, ONE);
        while world.now < Duration::from_millis(1500) {
            world.pass(step);
            done += world.throttle.release().len();
        }
        let most = 100 + world.now.as_millis() as usize;
        assert!(done <= most + 1, "{done} of {most} with {step:?}");
        // What is saved up in a longer step than the burst is lost.
        let is_lost = step > Duration::from_millis(100);
        assert!(is_lost || done + 2 + step.as_millis() as usize >= most, "{done} of {most}");
    }
}

#[test]
fn large_commands_are_held_by_bytes_and_what_is_owed_is_paid_first() {
    let mut world = World::new();
    world.throttle.limit_volume(ONE, bytes_per_second(10 << 20));
    assert!(world.send(1, ONE, 32 << 20, Order::Queued).1, "it goes, and is owed");
    world.fill(10, 1, ONE);
    assert!(world.run(3 * SECOND).is_empty());
    assert_eq!(world.run(SECOND).len(), 10);
}

#[test]
fn a_large_command_is_as_many_operations_as_it_has_work() {
    let mut world = World::new();
    world.throttle.limit_volume(ONE, iops(100));
    assert!(world.send(1, ONE, 20 * OPERATION_BYTES, Order::Queued).1);
    world.fill(1, 1, ONE);
    assert!(world.run(SECOND / 11).is_empty());
    assert_eq!(world.run(SECOND / 50).len(), 1);
}

#[test]
fn both_limits_hold_and_the_narrower_one_counts() {
    let mut world = World::new();
    let limits = RateLimits { iops: Some(100), ..bytes_per_second(1 << 20) };
    world.throttle.limit_volume(ONE, limits);
    let small = world.fill(500, 1, ONE) + world.run(SECOND).len();
    assert!((105..=111).contains(&small), "{small}");
    world.throttle.withdraw(None, |_| true);
    world.pass(10 * SECOND);
    let sent = (0..100).filter(|_| world.send(1, ONE, 64 << 10, Order::Queued).1).count();
    let large = sent + world.run(SECOND).len();
    assert!((16..=19).contains(&large), "{large}");
}

#[test]
fn other_volumes_of_the_host_and_other_hosts_go_on() {
    let mut world = World::new();
    world.throttle.limit_volume(ONE, iops(10));
    world.fill(100, 1, ONE);
    assert_eq!(world.fill(100, 1, OTHER), 100);
    let mut world = World::new();
    world.throttle.limit_host("host1", iops(10));
    world.fill(100, 1, ONE);
    assert_eq!(world.fill(100, 2, ONE), 100);
    assert!(!world.send(1, OTHER, 4096, Order::Queued).1, "the limit is for all its volumes");
}

#[test]
fn hosts_take_turns_at_a_volume() {
    let mut world = World::new();
    world.throttle.limit_volume(ONE, iops(100));
    world.fill(1000, 1, ONE);
    let (last, _) = world.send(2, ONE, 4096, Order::Queued);
    let released = world.run(SECOND / 2);
    assert!(released.contains(&last), "{} went first", released.len());
}

#[test]
fn a_command_passes_the_limits_of_both_and_costs_no_host_what_its_volume_holds() {
    let mut world = World::new();
    world.throttle.limit_volume(ONE, iops(10));
    world.throttle.limit_host("host1", iops(100));
    world.fill(500, 1, ONE);
    assert_eq!(world.fill(500, 1, OTHER), 9, "one of ten is spent");
    let released = world.run(10 * SECOND);
    assert!((491..=500 + 100).contains(&released.len()), "{}", released.len());
    let of_one = released.iter().filter(|number| **number <= 500).count();
    assert!((95..=101).contains(&of_one), "{of_one}");
}

#[test]
fn another_limit_counts_for_what_waits() {
    let mut world = World::new();
    world.throttle.limit_volume(ONE, iops(10));
    world.fill(1000, 1, ONE);
    assert!(world.run(SECOND).len() <= 10);
    world.throttle.limit_volume(ONE, iops(500));
    let faster = world.run(SECOND).len();
    assert!((499..=501).contains(&faster), "{faster}");
    world.throttle.limit_volume(ONE, iops(10));
    assert!(world.run(SECOND).len() <= 12);
    world.throttle.limit_volume(ONE, RateLimits::default());
    assert!(world.run(Duration::ZERO).len() > 400);
    assert!(world.throttle.is_idle());
}

#[test]
fn a_debt_stays_in_bytes_when_the_limit_is_another() {
    let mut world = World::new();
    world.throttle.limit_volume(ONE, bytes_per_second(1 << 20));
    world.send(1, ONE, 32 << 20, Order::Queued);
    world.fill(1, 1, ONE);
    world.throttle.limit_volume(ONE, bytes_per_second(32 << 20));
    assert_eq!(world.run(SECOND).len(), 1);
}

#[test]
fn limits_of_a_host_that_come_while_commands_wait_hold_them_too() {
    let mut world = World::new();
    world.throttle.limit_volume(ONE, iops(1000));
    world.fill(1000, 1, ONE);
    world.throttle.limit_host("host1", iops(10));
    assert!(world.run(SECOND).len() <= 12);
    // A host that logs in again does not have its burst again.
    world.throttle.close_session(SessionId(1));
    world.throttle.withdraw(Some(SessionId(1)), |_| true);
    world.throttle.open_session(SessionId(1), "host1");
    assert!(world.fill(100, 1, OTHER) <= 1);
}

#[test]
fn locks_go_at_once_while_locks_alone_are_within_the_limit() {
    let mut world = World::new();
    world.throttle.limit_volume(ONE, iops(100));
    world.fill(1000, 1, ONE);
    for _ in 0..100 {
        world.run(SECOND / 50);
        assert!(world.send(2, ONE, 1024, Order::Lock).1);
        assert!(world.send(1, ONE, 1024, Order::Lock).1);
    }
    // They are counted: nothing else was done meanwhile.
    let before = world.throttle.of_volume(ONE).unwrap();
    assert!(before.waiting > 980, "{before:?}");
    // A storm of locks is held back as anything else is.
    let passed = (0..1000).filter(|_| world.send(1, ONE, 1024, Order::Lock).1).count();
    assert!(passed <= 11, "{passed}");
}

#[test]
fn commands_of_a_session_stay_in_order_and_no_lock_passes_an_ordered_one() {
    let mut world = World::new();
    world.throttle.limit_volume(ONE, iops(100));
    world.fill(10, 1, ONE);
    let first = world.send(1, ONE, 4096, Order::Queued).0;
    let ordered = world.send(1, ONE, 4096, Order::Ordered).0;
    let (lock, passed) = world.send(1, ONE, 1024, Order::Lock);
    assert!(!passed);
    let head = world.send(1, ONE, 4096, Order::First).0;
    assert_eq!(world.run(SECOND), [head, first, ordered, lock]);
    world.fill(100, 1, ONE);
    assert!(world.send(1, ONE, 1024, Order::Lock).1, "nothing is in its way any more");
}

#[test]
fn what_is_withdrawn_costs_nothing_and_leaves_nothing_behind() {
    let mut world = World::new();
    world.throttle.limit_volume(ONE, iops(10));
    world.fill(100, 1, ONE);
    world.fill(100, 2, ONE);
    world.send(2, ONE, 4096, Order::Ordered);
    assert!(world.throttle.holds(SessionId(2), |_| true));
    assert!(!world.throttle.holds(SessionId(3), |_| true));
    assert_eq!(world.throttle.withdraw(Some(SessionId(2)), |_| true).len(), 101);
    assert!(world.send(2, ONE, 1024, Order::Lock).1, "no ordered command is left");
    assert_eq!(world.throttle.withdraw(None, |number| *number == 50), [50]);
    assert_eq!(world.throttle.withdraw(None, |_| true).len(), 98);
    assert_eq!(world.throttle.due(), None);
    let held = world.throttle.of_volume(ONE).unwrap();
    assert_eq!(held.waiting, 0);
    assert!(world.run(10 * SECOND).is_empty());
    world.throttle.limit_volume(ONE, RateLimits::default());
    assert!(world.throttle.is_idle());
}

#[test]
fn a_copy_is_counted_at_both_of_its_volumes() {
    let mut world = World::new();
    world.throttle.limit_volume(OTHER, bytes_per_second(1 << 20));
    let request = Request::Copy { source: OTHER, source_offset: 0, destination: 0, length: 1 };
    let asked = (crate::work::RequestId(7), ONE, request);
    let claim = Claim::of_request((HostNumber(1), SessionId(1)), &asked, 2 << 20);
    assert_eq!(claim.volumes, [Some(ONE), Some(OTHER)]);
    assert_eq!(world.throttle.admit(claim, 7), Some(7));
    assert_eq!(world.throttle.admit(claim, 8), None);
    assert_eq!(world.run(3 * SECOND), [8]);
}

// A limit of a volume that nobody waits for must not be looked at again and again.
#[test]
fn one_turn_lets_a_bounded_number_go_on() {
    let mut world = World::new();
    world.throttle.limit_volume(ONE, iops(10));
    world.fill(3 * RELEASES_PER_TURN, 1, ONE);
    world.throttle.limit_volume(ONE, RateLimits::default());
    assert_eq!(world.throttle.release().len(), RELEASES_PER_TURN);
    assert!(world.throttle.due().is_some_and(|due| due <= world.now));
    // What comes meanwhile waits behind the others.
    assert!(!world.send(1, ONE, 4096, Order::Queued).1);
    assert_eq!(world.run(Duration::ZERO).len(), 2 * RELEASES_PER_TURN);
}
