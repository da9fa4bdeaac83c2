//! When a pool goes after its hosts: none of them reaches the controller that has it, and some reach another one
//! that would take it. A network in front of one controller has failed then, and the link and the devices, by
//! which other controllers judge whether an owner is gone, know nothing of it.
//!
//! The controller that has the pool decides, by its own sessions and by what the other one says on the link of its
//! sessions. It gives the pool by a planned switch. Where hosts reach both, or some reach one and some the other,
//! nothing moves.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::limits::{HOSTS_AWAY, LINK_SILENCE};

/// Names an initiator in few bytes: FNV-1a of its iSCSI name.
pub fn digest_of_host(name: &str) -> u32 {
    name.bytes().fold(0x811c_9dc5, |sum, byte| (sum ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

/// Pools that are open here, and that no host reaches here; no more than are configured.
#[derive(Clone, Debug, Default)]
pub struct Following {
    pools: BTreeMap<String, Away>,
}

/// The hosts of a pool are at another controller.
#[derive(Clone, Copy, Debug)]
struct Away {
    controller: u16,
    since: Duration,
    /// The last look.
    latest: Duration,
}

impl Following {
    /// A pool is open here, and its hosts are all at another controller that would take it, or (`None`) not; whether
    /// it is given to that one now. Looks that are further apart than a controller may be silent begin anew, so that
    /// a daemon that stood still does not count that time.
    pub fn look(&mut self, pool: &str, hosts_at: Option<u16>, now: Duration) -> bool {
        let Some(controller) = hosts_at else {
            self.pools.remove(pool);
            return false;
        };
        let known = self.pools.get(pool).filter(|away| {
            away.controller == controller && now.saturating_sub(away.latest) < LINK_SILENCE
        });
        let since = known.map_or(now, |away| away.since);
        let is_time = now.saturating_sub(since) >= HOSTS_AWAY;
        self.pools.insert(pool.to_owned(), Away { controller, since, latest: now });
        is_time
    }

    /// Pools of which that does not hold are open here no more.
    pub fn retain(&mut self, is_open: impl Fn(&str) -> bool) {
        self.pools.retain(|pool, _| is_open(pool));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// The first look, in seconds, at which the pool is given away, if hosts are there as that says.
    fn given(
        hosts_at: impl Fn(u32) -> Option<u16>,
        looks: impl Iterator<Item = u32>,
    ) -> Option<u32> {
        let mut following = Following::default();
        let mut looks = looks;
        looks.find(|&second| following.look("p", hosts_at(second), second * SECOND))
    }

    #[test]
    fn a_pool_goes_after_hosts_that_are_at_the_same_controller_for_long_enough() {
        let limit = HOSTS_AWAY.as_secs() as u32;
        assert_eq!(given(|_| Some(2), 3..100), Some(3 + limit));
        assert_eq!(given(|_| None, 0..100), None);
        let back_once = |second| (second != 5).then_some(2);
        assert_eq!(given(back_once, 0..100), Some(6 + limit), "one was back meanwhile");
        let elsewhere = |second| Some(if second < 5 { 2 } else { 3 });
        assert_eq!(given(elsewhere, 0..100), Some(5 + limit), "they went on to another one");
    }

    #[test]
    fn a_standstill_of_this_daemon_does_not_count() {
        let limit = HOSTS_AWAY.as_secs() as u32;
        let looks = (0..3).chain(60..100);
        assert_eq!(given(|_| Some(2), looks), Some(60 + limit));
        let mut following = Following::default();
        assert!(!following.look("p", Some(2), SECOND));
        following.retain(|_| false);
        assert!(following.pools.is_empty());
    }

    #[test]
    fn hosts_are_named_by_the_published_sums() {
        assert_eq!(digest_of_host(""), 0x811c_9dc5);
        assert_eq!(digest_of_host("a"), 0xe40c_292c);
        assert_eq!(digest_of_host("foobar"), 0xbf9c_f968);
    }
}
