//! Login throttling (rate limiting with exponential back-off) that slows down password guesses
//! without locking out users who know theirs.
//!
//! Wrong passwords are counted three times: for a user from an address, for the address, and for
//! the user. Each counter allows some without a wait; after those, each wait is twice as long as
//! the one before. A known user, one who logged in before with this browser or from this address,
//! waits only for wrong passwords of the same browser or address.

use std::collections::{BTreeMap, VecDeque};

use crate::limits::{
    ADDRESS_FAILURES_FREE, FAILURES_FORGOTTEN_SECONDS, FAILURES_MAX, KNOWN_ADDRESSES_MAX,
    PAIR_FAILURES_FREE, USER_FAILURES_FREE, USER_WAIT_SECONDS_MAX, USERS_MAX, WAIT_SECONDS_MAX,
};

#[cfg(test)]
mod tests;

/// Wrong passwords of late, and where users logged in from.
#[derive(Debug, Default)]
pub struct Limiter {
    pairs: Counters,
    addresses: Counters,
    users: Counters,
    /// Addresses from which each user logged in, the latest last.
    known: BTreeMap<String, VecDeque<String>>,
}

/// Origin of a password attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// The name that was given, whether there is such a user or not.
    pub user: String,
    /// Where from: an address without its port, of IPv6 the network.
    pub address: String,
    /// Identifier of the browser, if this user logged in with it before.
    pub browser: Option<String>,
}

/// One kind of counter.
#[derive(Debug, Default)]
struct Counters(BTreeMap<String, Failures>);

#[derive(Clone, Copy, Debug)]
struct Failures {
    count: u32,
    last: u64,
}

/// How many are free, and how long one waits at most.
#[derive(Clone, Copy, Debug)]
struct Pace {
    free: u32,
    seconds_max: u64,
}

const PAIR: Pace = Pace { free: PAIR_FAILURES_FREE, seconds_max: WAIT_SECONDS_MAX };
const ADDRESS: Pace = Pace { free: ADDRESS_FAILURES_FREE, seconds_max: WAIT_SECONDS_MAX };
const USER: Pace = Pace { free: USER_FAILURES_FREE, seconds_max: USER_WAIT_SECONDS_MAX };

impl Pace {
    /// Seconds from the last one on in which no other attempt is looked at.
    fn wait(self, count: u32) -> u64 {
        match count.saturating_sub(self.free) {
            0 => 0,
            doublings => (1_u64 << doublings.min(20)).min(self.seconds_max),
        }
    }
}

impl Counters {
    fn wait(&self, key: &str, pace: Pace, now: u64) -> u64 {
        let until = |failures: &Failures| failures.last + pace.wait(failures.count);
        self.0.get(key).map_or(0, |failures| until(failures).saturating_sub(now))
    }

    fn failed(&mut self, key: String, now: u64) {
        self.0.retain(|_, failures| failures.last + FAILURES_FORGOTTEN_SECONDS > now);
        if self.0.len() >= FAILURES_MAX && !self.0.contains_key(&key) {
            self.forget_one();
        }
        let failures = self.0.entry(key).or_insert(Failures { count: 0, last: now });
        failures.count = failures.count.saturating_add(1);
        failures.last = now;
    }

    /// Forgets who has the fewest: an attacker cannot push out earlier counts with a few wrong
    /// passwords under each of many names.
    fn forget_one(&mut self) {
        let fewest = self.0.iter().min_by_key(|(_, failures)| (failures.count, failures.last));
        if let Some(key) = fewest.map(|(key, _)| key.clone()) {
            self.0.remove(&key);
        }
    }
}

impl Attempt {
    /// Key of the counter for a user from one place; a known browser is a place of its own.
    fn pair(&self) -> String {
        match &self.browser {
            Some(browser) => format!("{} with {browser}", self.user),
            None => format!("{} from {}", self.user, self.address),
        }
    }
}

impl Limiter {
    /// Whether this user logged in with this browser or from this address before.
    pub fn knows(&self, attempt: &Attempt) -> bool {
        let addresses = self.known.get(&attempt.user);
        attempt.browser.is_some() || addresses.is_some_and(|all| all.contains(&attempt.address))
    }

    /// Seconds until the attempt may be made; 0 if it may now. Times are seconds since 1970.
    pub fn wait(&self, attempt: &Attempt, now: u64) -> u64 {
        let own = self.pairs.wait(&attempt.pair(), PAIR, now);
        if self.knows(attempt) {
            return own;
        }
        let address = self.addresses.wait(&attempt.address, ADDRESS, now);
        own.max(address).max(self.users.wait(&attempt.user, USER, now))
    }

    /// Notes a wrong password.
    pub fn failed(&mut self, attempt: &Attempt, now: u64) {
        self.pairs.failed(attempt.pair(), now);
        self.addresses.failed(attempt.address.clone(), now);
        self.users.failed(attempt.user.clone(), now);
    }

    /// Notes a right one. What others did wrong stays counted: the owner of one account must not be
    /// able to guess others' passwords between two right ones.
    pub fn succeeded(&mut self, attempt: &Attempt) {
        self.pairs.0.remove(&attempt.pair());
        if !self.known.contains_key(&attempt.user) && self.known.len() >= USERS_MAX {
            // Some of them are users who are gone.
            self.known.pop_first();
        }
        let addresses = self.known.entry(attempt.user.clone()).or_default();
        addresses.retain(|address| *address != attempt.address);
        addresses.push_back(attempt.address.clone());
        if addresses.len() > KNOWN_ADDRESSES_MAX {
            addresses.pop_front();
        }
    }

    /// Forgets where a user logged in from, who is gone or whose password somebody else set.
    pub fn forget(&mut self, user: &str) {
        self.known.remove(user);
    }
}
