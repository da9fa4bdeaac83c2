//! Fail-back by looks at made-up times: what begins the wait anew, what makes it longer, what does not.

use super::*;

const AFTER: Duration = Duration::from_secs(20);
const POLICY: Policy = Policy { controller: 1, after: AFTER };

const NOT_READY: [Preferred; 4] =
    [Preferred::Silent, Preferred::Maintenance, Preferred::GivenAway, Preferred::Lacking];

/// Looks at 'p' once a second.
struct Clock {
    fail_backs: FailBacks,
    now: Duration,
}

impl Clock {
    fn new() -> Self {
        Self { fail_backs: FailBacks::default(), now: Duration::from_secs(1000) }
    }

    fn look(&mut self, preferred: Preferred) -> Verdict {
        self.now += Duration::from_secs(1);
        self.fail_backs.look("p", POLICY, preferred, self.now)
    }

    /// Seconds of readiness until the pool is given, at most that many; and the wait that was told.
    fn until_given(&mut self, most: u32) -> (Option<u32>, Option<Duration>) {
        let mut told = None;
        for seconds in 0..=most {
            match self.look(Preferred::Ready) {
                Verdict::Give => return (Some(seconds), told),
                Verdict::WaitLonger { wait, .. } => {
                    assert_eq!(told.replace(wait), None, "it is told once");
                }
                Verdict::Wait => {}
            }
        }
        (None, told)
    }

    /// It is given, and found here again after a time.
    fn give_for(&mut self, kept: Duration) {
        self.fail_backs.gave("p", self.now);
        self.now += kept;
    }
}

#[test]
fn a_pool_is_given_back_when_its_controller_was_ready_for_the_whole_time() {
    let mut clock = Clock::new();
    assert_eq!(clock.look(Preferred::Silent), Verdict::Wait);
    assert_eq!(clock.fail_backs.left("p"), None, "it is not ready");
    assert_eq!(clock.until_given(100), (Some(20), None));
    for not_ready in NOT_READY {
        let mut clock = Clock::new();
        assert_eq!(clock.until_given(19), (None, None));
        assert_eq!(clock.fail_backs.left("p"), Some(Duration::from_secs(1)));
        assert_eq!(clock.look(not_ready), Verdict::Wait, "{not_ready:?}");
        assert_eq!(clock.until_given(100), (Some(20), None), "{not_ready:?} begins it anew");
    }
}

#[test]
fn a_time_in_which_nobody_looked_does_not_count() {
    let mut clock = Clock::new();
    assert_eq!(clock.until_given(19), (None, None));
    clock.now += LINK_SILENCE;
    assert_eq!(clock.until_given(100), (Some(20), None), "it stood still itself");
}

#[test]
fn other_words_begin_it_anew() {
    let mut clock = Clock::new();
    assert_eq!(clock.until_given(19), (None, None));
    for policy in [Policy { controller: 3, ..POLICY }, Policy { after: AFTER / 2, ..POLICY }] {
        clock.now += Duration::from_secs(1);
        let verdict = clock.fail_backs.look("p", policy, Preferred::Ready, clock.now);
        assert_eq!(verdict, Verdict::Wait, "{policy:?}");
    }
    clock.fail_backs.retain(|_| false);
    assert_eq!(clock.until_given(100), (Some(20), None));
}

#[test]
fn a_controller_that_loses_the_pool_again_soon_is_waited_for_twice_as_long_each_time() {
    let mut clock = Clock::new();
    assert_eq!(clock.until_given(100).0, Some(20));
    let mut wait = AFTER;
    for _ in 0..20 {
        clock.give_for(Duration::from_secs(30));
        assert_eq!(clock.look(Preferred::Silent), Verdict::Wait, "it is not known why yet");
        wait = (2 * wait).min(FAIL_BACK_WAIT_MAX);
        let (seconds, told) = clock.until_given(200_000);
        assert_eq!((seconds.map(u64::from), told), (Some(wait.as_secs()), Some(wait)));
    }
    assert_eq!(wait, FAIL_BACK_WAIT_MAX, "no longer than that");
    // It kept the pool for as long as it was waited for.
    clock.give_for(FAIL_BACK_WAIT_MAX);
    assert_eq!(clock.until_given(100), (Some(20), None));
    clock.give_for(FAIL_BACK_SOON - Duration::from_secs(2));
    assert_eq!(clock.until_given(100), (Some(40), Some(2 * AFTER)));
}

#[test]
fn a_pool_that_an_administrator_moved_away_again_was_not_lost() {
    for meant in [Preferred::Maintenance, Preferred::GivenAway] {
        let mut clock = Clock::new();
        assert_eq!(clock.until_given(100).0, Some(20));
        clock.give_for(Duration::from_secs(30));
        // What it said while it had the pool may be all that is known at first.
        assert_eq!(clock.look(Preferred::Lacking), Verdict::Wait);
        assert_eq!(clock.look(meant), Verdict::Wait);
        assert_eq!(clock.look(Preferred::Silent), Verdict::Wait, "its daemon is started again");
        assert_eq!(clock.until_given(100), (Some(20), None), "{meant:?}");
    }
}

#[test]
fn a_pool_that_nobody_took_is_given_later() {
    let mut clock = Clock::new();
    assert_eq!(clock.until_given(100).0, Some(20));
    clock.give_for(Duration::from_secs(10));
    let again = Verdict::WaitLonger { kept: Duration::from_secs(11), wait: 2 * AFTER };
    assert_eq!(clock.look(Preferred::Ready), again);
}
