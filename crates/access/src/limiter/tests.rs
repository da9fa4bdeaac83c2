use super::*;

fn attempt(user: &str, address: &str) -> Attempt {
    Attempt { user: user.into(), address: address.into(), browser: None }
}

fn fail(limiter: &mut Limiter, attempt: &Attempt, times: u32, now: u64) {
    (0..times).for_each(|_| limiter.failed(attempt, now));
}

#[test]
fn the_first_five_wrong_passwords_are_free_and_then_time_doubles() {
    let mut limiter = Limiter::default();
    let ann = attempt("ann", "10.0.0.1");
    let waits: Vec<u64> = (0..8)
        .map(|_| {
            limiter.failed(&ann, 100);
            limiter.wait(&ann, 100)
        })
        .collect();
    assert_eq!(waits, [0, 0, 0, 0, 0, 2, 4, 8]);
    assert_eq!(limiter.wait(&ann, 103), 5);
    assert_eq!(limiter.wait(&attempt("ann", "10.0.0.2"), 100), 0);
    assert_eq!(limiter.wait(&attempt("bob", "10.0.0.1"), 100), 0);
}

/// Six wrong passwords by anybody kept the right user out for minutes.
#[test]
fn wrong_passwords_from_elsewhere_do_not_lock_a_user_out() {
    let mut limiter = Limiter::default();
    fail(&mut limiter, &attempt("ann", "6.6.6.6"), 49, 100);
    assert_eq!(limiter.wait(&attempt("ann", "6.6.6.6"), 100), WAIT_SECONDS_MAX);
    assert_eq!(limiter.wait(&attempt("ann", "10.0.0.1"), 100), 0);
}

#[test]
fn many_addresses_slow_down_strangers_but_nobody_who_is_known() {
    let mut limiter = Limiter::default();
    limiter.succeeded(&attempt("ann", "10.0.0.1"));
    (0..200).for_each(|number| limiter.failed(&attempt("ann", &format!("6.6.6.{number}")), 100));
    assert_eq!(limiter.wait(&attempt("ann", "7.7.7.7"), 100), USER_WAIT_SECONDS_MAX);
    assert_eq!(limiter.wait(&attempt("ann", "10.0.0.1"), 100), 0);
    let browser = Attempt { browser: Some("b".into()), ..attempt("ann", "7.7.7.7") };
    assert_eq!(limiter.wait(&browser, 100), 0);
    limiter.forget("ann");
    assert_eq!(limiter.wait(&attempt("ann", "10.0.0.1"), 100), USER_WAIT_SECONDS_MAX);
}

#[test]
fn a_browser_that_is_known_pays_for_itself_alone() {
    let mut limiter = Limiter::default();
    let here = attempt("ann", "10.0.0.1");
    let browser = Attempt { browser: Some("b".into()), ..here.clone() };
    fail(&mut limiter, &here, 30, 100);
    assert_eq!(limiter.wait(&here, 100), WAIT_SECONDS_MAX);
    assert_eq!(limiter.wait(&browser, 100), 0);
    fail(&mut limiter, &browser, 6, 100);
    assert_eq!(limiter.wait(&browser, 100), 2);
}

#[test]
fn whoever_tries_many_names_from_one_address_must_wait_even_with_an_account_of_their_own() {
    let mut limiter = Limiter::default();
    for number in 0..30 {
        limiter.failed(&attempt(&format!("user{number}"), "6.6.6.6"), 100);
        limiter.succeeded(&attempt("mallory", "6.6.6.6"));
    }
    assert_eq!(limiter.wait(&attempt("another", "6.6.6.6"), 100), WAIT_SECONDS_MAX);
    assert_eq!(limiter.wait(&attempt("mallory", "6.6.6.6"), 100), 0);
    assert_eq!(limiter.wait(&attempt("another", "10.0.0.1"), 100), 0);
}

#[test]
fn nobody_waits_longer_than_five_minutes_and_all_is_forgotten_after_an_hour() {
    let mut limiter = Limiter::default();
    let ann = attempt("ann", "10.0.0.1");
    fail(&mut limiter, &ann, 100, 100);
    assert_eq!(limiter.wait(&ann, 100), WAIT_SECONDS_MAX);
    limiter.failed(&attempt("bob", "10.0.0.2"), 100 + FAILURES_FORGOTTEN_SECONDS);
    assert!(!limiter.pairs.0.contains_key(&ann.pair()));
}

#[test]
fn memory_is_bounded_and_many_names_do_not_make_it_forget_a_guesser() {
    let mut limiter = Limiter::default();
    let guesser = attempt("ann", "6.6.6.6");
    fail(&mut limiter, &guesser, 20, 100);
    for number in 0..2 * FAILURES_MAX {
        let other = attempt(&number.to_string(), &format!("7.{number}"));
        limiter.failed(&other, 100 + number as u64 / 100);
        limiter.succeeded(&other);
        let more = attempt("bob", &format!("8.{number}"));
        limiter.succeeded(&more);
        limiter.failed(&more, 100 + number as u64 / 100);
    }
    let sizes = [&limiter.pairs, &limiter.addresses, &limiter.users].map(|kind| kind.0.len());
    assert!(sizes.iter().all(|size| *size <= FAILURES_MAX), "{sizes:?}");
    assert!(limiter.known.len() <= USERS_MAX);
    assert!(limiter.known.values().all(|all| all.len() <= KNOWN_ADDRESSES_MAX));
    assert!(limiter.wait(&guesser, 180) > 0);
}
