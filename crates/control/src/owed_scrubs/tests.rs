//! Owed scrubs after fills and returns, and after scrubs that end, are stopped or are forgotten.

use super::*;

const MIRROR: [u8; 16] = [9; 16];

fn mirror(generation: u64, members: &[(MemberState, u64)]) -> [MirrorStatus; 1] {
    let member = |&(state, since): &(MemberState, u64)| MemberStatus {
        uuid: [since as u8; 16],
        slot: None,
        is_returning: false,
        size_bytes: 1 << 30,
        state,
        errors: 0,
        is_unreliable: false,
        healed_blocks: 0,
        since,
    };
    let members = members.iter().map(member).collect();
    let (device, size_bytes, is_mirror) = (0, 1 << 30, true);
    [MirrorStatus {
        device,
        uuid: MIRROR,
        size_bytes,
        is_mirror,
        generation,
        members,
        resilver: None,
        rivals: Some(Vec::new()),
    }]
}

use MemberState::{Absent, Current, Resilvering};

#[test]
fn a_mirror_as_it_was_made_owes_nothing_and_one_that_was_filled_does() {
    let scrubs = OwedScrubs::default();
    let is_due = |mirrors: &[MirrorStatus], scrubbed| scrubs.is_due("p", mirrors, |_| scrubbed);
    assert!(!is_due(&mirror(1, &[(Current, 1), (Current, 1)]), 0));
    assert!(!is_due(&mirror(2, &[(Current, 1), (Absent, 2)]), 0));
    assert!(!is_due(&mirror(3, &[(Current, 1), (Resilvering, 3)]), 0));
    let filled = mirror(4, &[(Current, 1), (Current, 4)]);
    assert!(is_due(&filled, 0));
    assert!(is_due(&filled, 3), "a scrub from before the return has not compared it");
    assert!(!is_due(&filled, 4));
    // The list that says so is on its way: a crash may take it back, and give its number to another.
    assert!(!is_due(&mirror(3, &[(Current, 1), (Current, 4)]), 0));
    let mut plain = filled;
    plain[0].is_mirror = false;
    assert!(!is_due(&plain, 0));
}

#[test]
fn a_scrub_pays_what_was_owed_when_it_began_if_it_comes_to_its_end() {
    let mut scrubs = OwedScrubs::default();
    let filled = mirror(4, &[(Current, 1), (Current, 4)]);
    scrubs.begins("p", &filled);
    assert!(!scrubs.is_due("p", &filled, |_| 0), "it is under way");
    let again = mirror(7, &[(Current, 1), (Current, 7)]);
    assert!(scrubs.is_due("p", &again, |_| 0), "that came after it began");
    assert!(scrubs.is_due("q", &filled, |_| 0), "another pool's");
    assert_eq!(scrubs.ended("p", false), []);
    assert!(scrubs.is_due("p", &filled, |_| 0), "it did not come to its end");
    scrubs.begins("p", &filled);
    assert_eq!(scrubs.ended("p", true), [(MIRROR, 4)]);
    assert_eq!(scrubs.ended("p", true), [], "nothing was under way");
}

#[test]
fn what_an_administrator_stops_is_not_begun_again_until_more_is_owed() {
    let mut scrubs = OwedScrubs::default();
    let filled = mirror(4, &[(Current, 1), (Current, 4)]);
    assert!(!scrubs.is_declined("p", &filled[0]));
    scrubs.begins("p", &filled);
    scrubs.stopped("p", &filled);
    assert_eq!(scrubs.ended("p", false), []);
    assert!(!scrubs.is_due("p", &filled, |_| 0));
    assert!(scrubs.is_declined("p", &filled[0]));
    let again = mirror(7, &[(Current, 1), (Current, 7)]);
    assert!(scrubs.is_due("p", &again, |_| 0));
    assert!(!scrubs.is_declined("p", &again[0]));
    scrubs.retain(|pool| pool != "p");
    assert!(scrubs.is_due("p", &filled, |_| 0));
}
