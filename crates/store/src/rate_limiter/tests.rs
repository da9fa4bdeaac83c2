//! Work at a rate, whatever the steps of time.

use super::*;

/// Pieces of work that are done in ten seconds, with time in steps.
fn done_in_steps(rate: u64, step: Duration, pieces: u64) -> u64 {
    let mut limiter = RateLimiter::new(rate);
    let mut done = 0;
    for _ in 0..Duration::from_secs(10).as_nanos() / step.as_nanos() {
        limiter.pass(step);
        while !limiter.is_used_up() {
            limiter.spend(pieces);
            done += pieces;
        }
    }
    done
}

/// Whole milliseconds alone were counted: whoever told the time more often got no work done.
#[test]
fn small_steps_of_time_count_for_as_much_as_large_ones() {
    for step in [Duration::from_micros(70), Duration::from_millis(1), Duration::from_millis(100)] {
        for pieces in [1, 300] {
            let done = done_in_steps(100, step, pieces);
            assert!((1000..=1100 + 2 * pieces).contains(&done), "{step:?}, {pieces}: {done}");
        }
    }
}

#[test]
fn a_rate_of_nothing_allows_nothing() {
    assert_eq!(done_in_steps(0, Duration::from_secs(1), 1), 0);
}

#[test]
fn no_more_than_a_second_is_saved_up() {
    let mut limiter = RateLimiter::new(10);
    limiter.pass(Duration::MAX);
    limiter.spend(10);
    assert!(limiter.is_used_up());
}
