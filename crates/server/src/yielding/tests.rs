use std::io::Write;
use std::time::Duration;

use super::*;

/// Whether the clock of this thread began anew between two looks: it yielded.
fn yields(work: impl FnOnce()) -> bool {
    let before = SINCE.get();
    work();
    SINCE.get() != before
}

fn work_too_long() {
    let began = Instant::now();
    while began.elapsed() <= WORK_TIME_MAX {}
}

#[test]
fn work_yields_when_its_time_is_over_and_not_before() {
    yielding(|| {
        SINCE.set(Some(Instant::now() + Duration::from_secs(3600)));
        assert!(!yields(|| (0..1000).for_each(|_| pause())), "its time has hardly begun");
        SINCE.set(Some(Instant::now()));
        assert!(yields(|| {
            work_too_long();
            pause();
        }));
    });
}

#[test]
fn what_the_reactor_does_never_yields() {
    work_too_long();
    assert!(!yields(pause));
    yielding(|| ());
    assert_eq!(SINCE.get(), None);
    let _ = std::panic::catch_unwind(|| yielding(|| panic!("a planted mistake")));
    assert_eq!(SINCE.get(), None, "nor after work that panicked");
}

#[test]
fn sorting_and_writing_offer_pauses() {
    yielding(|| {
        let mut numbers: Vec<u32> = (0..1000).rev().collect();
        work_too_long();
        assert!(yields(|| sort_by(&mut numbers, Ord::cmp)));
        assert!(numbers.is_sorted());
        work_too_long();
        let mut buffer = Buffer::default();
        assert!(yields(|| {
            (0..WORKED_BETWEEN_LOOKS).for_each(|_| buffer.write_all(b"ab").unwrap());
        }));
        assert_eq!(buffer.0, b"ab".repeat(WORKED_BETWEEN_LOOKS as usize));
    });
}
