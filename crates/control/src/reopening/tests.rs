//! Tries of pools that are not open, with a clock of their own and devices that come, change and go.

use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn file(size_bytes: u64, modified_ns: i128) -> Sight {
    Sight::File { identity: (1, 2), size_bytes, modified_ns }
}

/// A try that sees this, and what it may do.
fn attempt(reopening: &mut Reopening, now: Duration, sights: &[Sight]) -> Result<(), Trouble> {
    let caution = reopening.begin("p", Asked::ByNobody, now);
    reopening.looked("p", sights.to_vec());
    caution.admits(sights)
}

#[test]
fn a_pool_is_tried_every_few_seconds_and_trouble_is_told_once_of_each_kind() {
    let (mut reopening, mut now) = (Reopening::default(), Duration::ZERO);
    assert_eq!(reopening.begin("p", Asked::ByNobody, now), Caution::None);
    assert!(reopening.due(now + 9 * SECOND).is_empty(), "one try at a time");
    reopening.looked("p", vec![Sight::Absent]);
    assert!(reopening.failed("p", Trouble::Absent, now));
    let mut tries = 0;
    for _ in 0..600 {
        now += SECOND;
        for pool in reopening.due(now) {
            tries += 1;
            assert_eq!(attempt(&mut reopening, now, &[Sight::Absent]), Ok(()));
            assert!(!reopening.failed(&pool, Trouble::Absent, now), "told once");
        }
    }
    assert_eq!(tries, 600 / REOPEN_PAUSE.as_secs());
    assert!(reopening.failed("p", Trouble::Held, now), "another kind is told, too");
    assert!(
        !reopening.failed("p", Trouble::Absent, now) && !reopening.failed("p", Trouble::Held, now)
    );
    assert!(reopening.forget("p"), "the end of what was told is told");
    assert!(!reopening.forget("p") && reopening.is_empty());
    assert!(reopening.failed("p", Trouble::Absent, now), "and the next time again");
}

#[test]
fn a_file_that_is_still_being_copied_is_opened_when_it_rests() {
    let (mut reopening, now) = (Reopening::default(), Duration::ZERO);
    assert_eq!(
        attempt(&mut reopening, now, &[Sight::Absent]),
        Ok(()),
        "the start opens what is there"
    );
    reopening.failed("p", Trouble::Absent, now);
    assert_eq!(attempt(&mut reopening, now, &[file(1, 1)]), Err(Trouble::Changing));
    assert_eq!(attempt(&mut reopening, now, &[file(2, 2)]), Err(Trouble::Changing));
    assert_eq!(attempt(&mut reopening, now, &[file(2, 3)]), Err(Trouble::Changing));
    assert_eq!(attempt(&mut reopening, now, &[file(2, 3)]), Ok(()));
    // Who asks knows what he does.
    let asked = reopening.begin("p", Asked::ByAdministrator, now);
    assert_eq!(asked.admits(&[file(7, 7)]), Ok(()));
}

#[test]
fn one_of_two_files_that_changes_is_enough_to_wait() {
    let last = vec![file(1, 1), Sight::Other, Sight::Absent];
    let caution = Caution::Settled(last.clone());
    assert_eq!(caution.admits(&last), Ok(()));
    assert_eq!(caution.admits(&[file(1, 1), Sight::Other, file(1, 1)]), Err(Trouble::Changing));
    assert_eq!(caution.admits(&[file(1, 2), Sight::Other, Sight::Absent]), Err(Trouble::Changing));
    assert_eq!(caution.admits(&[Sight::Absent, Sight::Other, Sight::Absent]), Ok(()));
    // A device more than there was.
    let more = [last.as_slice(), &[file(3, 3)]].concat();
    assert_eq!(caution.admits(&more), Err(Trouble::Changing));
}

#[test]
fn what_was_refused_for_its_content_is_opened_when_it_looks_otherwise_or_after_a_while() {
    let (mut reopening, mut now) = (Reopening::default(), Duration::ZERO);
    assert_eq!(attempt(&mut reopening, now, &[file(1, 1)]), Ok(()));
    assert!(reopening.failed("p", Trouble::Unfit, now));
    let mut opened = 0;
    while now < 10 * REOPEN_PAUSE_UNCHANGED {
        now += REOPEN_PAUSE;
        match attempt(&mut reopening, now, &[file(1, 1)]) {
            Ok(()) => {
                opened += 1;
                assert!(!reopening.failed("p", Trouble::Unfit, now));
            }
            Err(trouble) => {
                assert_eq!(trouble, Trouble::Unchanged);
                assert!(!reopening.failed("p", trouble, now), "nothing is new");
            }
        }
    }
    assert!((9..=10).contains(&opened), "{opened}");
    assert_eq!(attempt(&mut reopening, now, &[file(2, 2)]), Err(Trouble::Changing));
    assert!(!reopening.failed("p", Trouble::Changing, now), "that will pass");
    assert_eq!(attempt(&mut reopening, now, &[file(2, 2)]), Ok(()));
}

#[test]
fn a_try_that_hangs_is_told_once_keeps_its_place_and_hurts_no_other_pool() {
    let (mut reopening, now) = (Reopening::default(), Duration::ZERO);
    reopening.begin("p", Asked::ByNobody, now);
    reopening.begin("q", Asked::ByNobody, now);
    assert!(reopening.is_fresh("p", now) && reopening.late(now).is_empty());
    reopening.failed("q", Trouble::Absent, now);
    let later = now + OPENING_PATIENCE;
    assert_eq!(reopening.late(later), [("p".to_owned(), Told::Now)]);
    assert!(reopening.late(later).is_empty() && !reopening.is_fresh("p", later));
    assert!(reopening.is_late("p") && !reopening.is_late("q"));
    assert!(reopening.is_trying("p"));
    assert_eq!(reopening.due(later + 99 * SECOND), ["q"], "it is not tried a second time");
    reopening.failed("p", Trouble::Absent, later);
    assert!(!reopening.is_trying("p"));
    assert_eq!(reopening.due(later + REOPEN_PAUSE).len(), 2);
    // The next one that hangs is named to whoever waits for it, and is no news.
    reopening.begin("p", Asked::ByAdministrator, later);
    assert!(!reopening.is_late("p"));
    assert_eq!(reopening.late(later + OPENING_PATIENCE), [("p".to_owned(), Told::Before)]);
}

#[test]
fn a_damaged_journal_waits_for_an_administrator() {
    let (mut reopening, now) = (Reopening::default(), Duration::ZERO);
    reopening.begin("p", Asked::ByNobody, now);
    assert!(reopening.failed("p", Trouble::Undecided, now));
    assert!(reopening.due(now + 1000 * SECOND).is_empty());
    assert_eq!(reopening.begin("p", Asked::ByAdministrator, now), Caution::None);
    assert!(!reopening.failed("p", Trouble::Undecided, now));
    assert_eq!(reopening.names().collect::<Vec<_>>(), ["p"]);
}

#[test]
fn who_asks_while_a_look_is_under_way_gets_a_try() {
    let (mut reopening, now) = (Reopening::default(), Duration::ZERO);
    reopening.failed("p", Trouble::Absent, now);
    reopening.begin("p", Asked::ByNobody, now);
    reopening.ask("p");
    assert!(reopening.take_asked("p", Trouble::Changing));
    assert!(!reopening.take_asked("p", Trouble::Changing), "once");
    reopening.ask("p");
    assert!(!reopening.take_asked("p", Trouble::Absent), "that was a try");
    assert!(!reopening.take_asked("q", Trouble::Changing));
}

#[test]
fn recovery_may_take_its_time() {
    let (mut reopening, now) = (Reopening::default(), Duration::ZERO);
    reopening.begin("p", Asked::ByNobody, now);
    reopening.recovers("p");
    assert!(reopening.is_trying("p") && !reopening.is_fresh("p", now));
    assert!(reopening.late(now + 999 * SECOND).is_empty());
    assert!(reopening.due(now + 999 * SECOND).is_empty());
    reopening.failed("p", Trouble::Unfit, now);
    assert!(!reopening.is_trying("p"));
}

#[test]
fn a_pool_that_another_controller_let_go_is_opened_however_its_files_changed() {
    let (mut reopening, now) = (Reopening::default(), Duration::ZERO);
    assert_eq!(attempt(&mut reopening, now, &[file(1, 1)]), Ok(()));
    reopening.failed("p", Trouble::Held, now);
    assert_eq!(reopening.trouble("p"), Some(Trouble::Held));
    assert_eq!(
        attempt(&mut reopening, now, &[file(1, 2)]),
        Err(Trouble::Changing),
        "no controller"
    );
    reopening.failed("p", Trouble::Held, now);
    reopening.leave_to_others("p");
    reopening.postpone("p", now + 9 * SECOND);
    assert!(reopening.due(now + 8 * SECOND).is_empty());
    assert_eq!(reopening.due(now + 9 * SECOND), ["p"]);
    assert_eq!(attempt(&mut reopening, now, &[file(1, 3)]), Ok(()));
    reopening.postpone("p", now);
    assert!(reopening.due(now).is_empty(), "a try that is under way is the only one");
}
