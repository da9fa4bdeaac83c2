//! Slows down whoever guesses passwords: after some wrong ones, each costs twice the time of the
//! one before, per address and per user.

use std::collections::BTreeMap;

use crate::limits::{FAILURES_FORGOTTEN_SECONDS, FAILURES_FREE, FAILURES_MAX, WAIT_SECONDS_MAX};

/// Wrong passwords of late.
#[derive(Debug, Default)]
pub struct Limiter {
    failures: BTreeMap<String, Failures>,
}

#[derive(Clone, Copy, Debug)]
struct Failures {
    count: u32,
    last: u64,
}

impl Failures {
    /// Seconds from the last one on in which no other attempt is looked at.
    fn wait(self) -> u64 {
        let doublings = self.count.saturating_sub(FAILURES_FREE);
        match doublings {
            0 => 0,
            _ => (1_u64 << doublings.min(20)).min(WAIT_SECONDS_MAX),
        }
    }
}

impl Limiter {
    /// Seconds until one of these may try again; 0 if all may now. Times are seconds since 1970.
    pub fn wait(&self, keys: &[&str], now: u64) -> u64 {
        let waits = keys.iter().filter_map(|&key| self.failures.get(key));
        waits
            .map(|failures| (failures.last + failures.wait()).saturating_sub(now))
            .max()
            .unwrap_or(0)
    }

    /// Notes a wrong password.
    pub fn failed(&mut self, keys: &[&str], now: u64) {
        self.failures.retain(|_, failures| failures.last + FAILURES_FORGOTTEN_SECONDS > now);
        for &key in keys {
            if self.failures.len() >= FAILURES_MAX && !self.failures.contains_key(key) {
                self.forget_oldest();
            }
            let failures =
                self.failures.entry(key.to_owned()).or_insert(Failures { count: 0, last: now });
            failures.count = failures.count.saturating_add(1);
            failures.last = now;
        }
    }

    /// Notes a right one.
    pub fn succeeded(&mut self, keys: &[&str]) {
        for &key in keys {
            self.failures.remove(key);
        }
    }

    fn forget_oldest(&mut self) {
        let oldest = self.failures.iter().min_by_key(|(_, failures)| failures.last);
        if let Some(key) = oldest.map(|(key, _)| key.clone()) {
            self.failures.remove(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_five_wrong_passwords_are_free_and_then_time_doubles() {
        let mut limiter = Limiter::default();
        let waits: Vec<u64> = (0..8)
            .map(|_| {
                limiter.failed(&["10.0.0.1"], 100);
                limiter.wait(&["10.0.0.1"], 100)
            })
            .collect();
        assert_eq!(waits, [0, 0, 0, 0, 0, 2, 4, 8]);
        assert_eq!(limiter.wait(&["10.0.0.1"], 103), 5);
        assert_eq!(limiter.wait(&["10.0.0.2"], 100), 0);
    }

    #[test]
    fn nobody_waits_longer_than_five_minutes_and_success_forgets() {
        let mut limiter = Limiter::default();
        (0..100).for_each(|_| limiter.failed(&["a"], 100));
        assert_eq!(limiter.wait(&["a"], 100), WAIT_SECONDS_MAX);
        limiter.succeeded(&["a"]);
        assert_eq!(limiter.wait(&["a"], 100), 0);
    }

    #[test]
    fn memory_is_bounded() {
        let mut limiter = Limiter::default();
        for number in 0..2 * FAILURES_MAX {
            limiter.failed(&[&number.to_string()], 100 + number as u64 / 100);
        }
        assert_eq!(limiter.failures.len(), FAILURES_MAX);
    }
}
