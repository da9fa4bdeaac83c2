//! Hosts that reach this controller and not another one: when that one has their pool, or is to take it, they lose
//! their disks, and nothing shows it before. Administrators are told of such a host once, after a time in which its
//! other session would have come, and once more when it has.
//!
//! A controller knows the names of its own initiators, and the digests of those at the others.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::following::digest_of_host;
use crate::limits::PATH_MISSED;

/// Hosts that are here, and the controllers at which they are not.
#[derive(Clone, Debug, Default)]
pub struct MissingPaths {
    /// By controller, then by the initiator's name; only names that were here at the last look.
    missing: BTreeMap<u16, BTreeMap<String, Missing>>,
}

#[derive(Clone, Copy, Debug)]
struct Missing {
    since: Duration,
    is_told: bool,
}

/// What administrators are told of one controller.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct News {
    /// Hosts without a path to it for [`PATH_MISSED`] now.
    pub lacking: Vec<String>,
    /// Hosts of which that was told, and which have one now.
    pub complete: Vec<String>,
}

impl MissingPaths {
    /// Compares the initiators that have sessions here with those at another controller that is heard: what is
    /// news of it.
    pub fn look(
        &mut self,
        controller: u16,
        here: &BTreeSet<&str>,
        there: &BTreeSet<u32>,
        now: Duration,
    ) -> News {
        let known = self.missing.remove(&controller).unwrap_or_default();
        let (mut missing, mut news) = (BTreeMap::new(), News::default());
        for &name in here {
            let before = known.get(name).copied();
            if there.contains(&digest_of_host(name)) {
                news.complete.extend(before.filter(|one| one.is_told).map(|_| name.to_owned()));
                continue;
            }
            let Missing { since, is_told } =
                before.unwrap_or(Missing { since: now, is_told: false });
            let is_time = now.saturating_sub(since) >= PATH_MISSED;
            if is_time && !is_told {
                news.lacking.push(name.to_owned());
            }
            missing.insert(name.to_owned(), Missing { since, is_told: is_told || is_time });
        }
        self.missing.insert(controller, missing);
        news
    }

    /// Another controller is silent, or says nothing of its hosts: for all others nothing is known any more.
    pub fn retain(&mut self, is_heard: impl Fn(u16) -> bool) {
        self.missing.retain(|controller, _| is_heard(*controller));
    }

    /// How many hosts were told to lack a path to each controller.
    pub fn counts(&self) -> impl Iterator<Item = (u16, usize)> {
        self.missing.keys().map(|&controller| (controller, self.lacking(controller).count()))
    }

    /// Digests of the hosts that were told to lack a path to a controller.
    pub fn lacking(&self, controller: u16) -> impl Iterator<Item = u32> {
        let hosts = self.missing.get(&controller).into_iter().flatten();
        hosts.filter(|(_, one)| one.is_told).map(|(name, _)| digest_of_host(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    struct Scene {
        paths: MissingPaths,
        now: Duration,
    }

    impl Scene {
        fn new() -> Self {
            Self { paths: MissingPaths::default(), now: Duration::ZERO }
        }

        /// Looks once a second for so long; all news of that time.
        fn look(&mut self, seconds: u32, here: &[&str], there: &[&str]) -> News {
            let here: BTreeSet<&str> = here.iter().copied().collect();
            let there = there.iter().map(|name| digest_of_host(name)).collect();
            let mut all = News::default();
            for _ in 0..seconds {
                let News { lacking, complete } = self.paths.look(2, &here, &there, self.now);
                all.lacking.extend(lacking);
                all.complete.extend(complete);
                self.now += SECOND;
            }
            all
        }

        fn told(&self) -> usize {
            self.paths.counts().map(|(_, count)| count).sum()
        }
    }

    fn patience() -> u32 {
        PATH_MISSED.as_secs() as u32
    }

    #[test]
    fn a_host_that_is_nowhere_else_is_told_once_and_once_more_when_it_is() {
        let mut scene = Scene::new();
        assert_eq!(scene.look(patience(), &["a", "b"], &["b"]), News::default());
        let lacking = News { lacking: vec!["a".to_owned()], ..News::default() };
        assert_eq!(scene.look(100, &["a", "b"], &["b"]), lacking);
        assert_eq!(scene.told(), 1);
        let complete = News { complete: vec!["a".to_owned()], ..News::default() };
        assert_eq!(scene.look(100, &["a", "b"], &["a", "b"]), complete);
        assert_eq!(scene.told(), 0);
    }

    #[test]
    fn one_that_comes_to_the_other_in_time_or_goes_is_not_told() {
        let mut scene = Scene::new();
        assert_eq!(scene.look(patience(), &["a"], &[]), News::default());
        assert_eq!(scene.look(1, &["a"], &["a"]), News::default());
        assert_eq!(scene.look(patience(), &["a"], &[]), News::default(), "it begins anew");
        assert_eq!(scene.look(1, &[], &[]), News::default(), "it has left");
        assert_eq!(scene.look(patience(), &["a"], &[]), News::default());
    }

    #[test]
    fn a_controller_that_is_silent_says_nothing_of_its_hosts() {
        let mut scene = Scene::new();
        assert_eq!(scene.look(patience() + 1, &["a"], &[]).lacking.len(), 1);
        scene.paths.retain(|controller| controller != 2);
        assert_eq!(scene.told(), 0);
        assert_eq!(scene.look(patience(), &["a"], &[]), News::default(), "it is looked at anew");
    }
}
