use block::VolumeId;

use super::*;

const MINUTE: Duration = Duration::from_secs(60);

fn held(lun: u16) -> HeldLun {
    HeldLun { initiator: "iqn.x:1".to_owned(), lun, volume: VolumeId(1) }
}

fn luns(rest: &LunRest, now: Duration) -> Vec<u16> {
    rest.held_by_ended(now).map(|held| held.lun).collect()
}

#[test]
fn what_a_session_held_rests_for_the_whole_time_after_its_end() {
    let mut rest = LunRest::new(MINUTE, FreeLuns::Known);
    rest.session_ends(MINUTE, [held(1), held(2)].into_iter());
    rest.session_ends(MINUTE + MINUTE / 2, [held(3)].into_iter());
    assert_eq!(luns(&rest, 2 * MINUTE - Duration::from_millis(1)), [1, 2, 3]);
    assert_eq!(luns(&rest, 2 * MINUTE), [3]);
    assert_eq!(luns(&rest, 3 * MINUTE), [0; 0]);
    rest.session_ends(3 * MINUTE, std::iter::empty());
    assert_eq!(rest.ended.len(), 0, "what is over is forgotten with the next end");
}

#[test]
fn without_a_time_to_rest_nothing_rests() {
    let mut rest = LunRest::new(Duration::ZERO, FreeLuns::Unknown { since: 0 });
    rest.session_ends(MINUTE, [held(1)].into_iter());
    assert_eq!(luns(&rest, MINUTE), [0; 0]);
    let Rest { now, seconds, held, free } = rest.rest(MINUTE);
    assert_eq!((now, seconds, held.len(), free), (60, 0, 0, FreeLuns::Unknown { since: 0 }));
}

#[test]
fn of_more_than_are_kept_the_oldest_are_forgotten_when_a_session_ends() {
    let mut rest = LunRest::new(MINUTE, FreeLuns::Known);
    let many = |count: usize| (0..count).map(|number| held(u16::try_from(number % 255).unwrap()));
    rest.session_ends(MINUTE, many(HELD_BY_ENDED_MAX + 7));
    assert_eq!(rest.ended.len(), HELD_BY_ENDED_MAX);
    rest.session_ends(MINUTE, [held(300)].into_iter());
    assert_eq!(rest.ended.len(), HELD_BY_ENDED_MAX);
    assert_eq!(rest.ended.back().map(|(_, held)| held.lun), Some(300));
}
