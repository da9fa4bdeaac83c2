//! When a pool is taken by itself: never while anything of its owner moves, is heard, or is not known.

use block::BLOCK;

use super::*;

const SECOND: Duration = Duration::from_secs(1);
const LIMIT: Duration = Duration::from_secs(5);

fn beat(count: u64) -> OwnerBeat {
    OwnerBeat { pool_uuid: [7; 16], controller: 1, life: 3, count }
}

fn sighting(count: u64) -> Option<Sighting> {
    Some(Sighting { holders: vec!["key 1".to_owned()], beats: vec![beat(count)] })
}

fn long(_: u16) -> Option<Duration> {
    Some(LIMIT)
}

/// Looks once a second from 10 s on, at what `seen` says of each look.
fn watched(looks: u32, seen: impl Fn(u32) -> Option<Sighting>) -> Watch {
    let mut watch = Watch::default();
    for look in 0..looks {
        watch.look("p", seen(look), 10 * SECOND + look * SECOND);
    }
    watch
}

#[test]
fn a_pool_is_taken_when_heartbeat_and_link_stood_still_for_the_limit_and_not_before() {
    let watch = watched(6, |_| sighting(4));
    let expected = Taking { holders: vec!["key 1".to_owned()], controller: 1, still: LIMIT };
    assert_eq!(watch.is_due("p", long, LIMIT), Some(expected));
    assert_eq!(watch.owner("p"), Some(1));
    assert_eq!(watched(5, |_| sighting(4)).is_due("p", long, LIMIT), None);
    assert_eq!(watch.is_due("q", long, LIMIT), None);
}

#[test]
fn an_owner_that_is_heard_or_not_known_keeps_its_pool() {
    let watch = watched(60, |_| sighting(4));
    assert_eq!(watch.is_due("p", |_| Some(LIMIT - SECOND), LIMIT), None);
    assert_eq!(watch.is_due("p", |_| None, LIMIT), None);
    let of_another = |number| (number != 1).then_some(60 * SECOND);
    assert_eq!(watch.is_due("p", of_another, LIMIT), None, "another one's silence says nothing");
}

#[test]
fn an_owner_whose_heart_beats_keeps_its_pool_though_the_link_is_silent() {
    let watch = watched(60, |look| sighting(u64::from(look / 3)));
    assert_eq!(watch.is_due("p", long, LIMIT), None);
    let mut watch = watched(60, |_| sighting(4));
    watch.look("p", sighting(5), 71 * SECOND);
    assert_eq!(watch.is_due("p", long, LIMIT), None, "it went on");
}

#[test]
fn who_is_not_named_or_has_no_heartbeat_is_not_fenced() {
    let nobody = Sighting { holders: Vec::new(), beats: vec![beat(1)] };
    let without = Sighting { holders: vec!["key 1".to_owned()], beats: Vec::new() };
    let two = OwnerBeat { controller: 2, ..beat(1) };
    let disagree = Sighting { holders: vec!["key 1".to_owned()], beats: vec![beat(1), two] };
    for wrong in [nobody, without, disagree] {
        let watch = watched(60, |_| Some(wrong.clone()));
        assert_eq!((watch.is_due("p", long, LIMIT), watch.owner("p")), (None, None), "{wrong:?}");
    }
    let mut watch = watched(60, |_| sighting(4));
    watch.look("p", None, 71 * SECOND);
    assert_eq!(watch.is_due("p", long, LIMIT), None, "it let go, or cannot be seen");
}

#[test]
fn a_new_holder_is_watched_from_the_beginning() {
    let mut watch = watched(60, |_| sighting(4));
    let other = Sighting { holders: vec!["key 2".to_owned()], beats: vec![beat(4)] };
    watch.look("p", Some(other), 71 * SECOND);
    assert_eq!(watch.is_due("p", long, LIMIT), None);
}

#[test]
fn one_that_stood_still_itself_does_not_take_that_for_the_owners() {
    // Two looks, and a standstill of a minute within the second one: it began a second after the first.
    let watch = watched(2, |_| sighting(4));
    assert_eq!(watch.is_due("p", |_| Some(60 * SECOND), LIMIT), None);
    // And between two looks: the heart has beaten meanwhile, or it is looked at once more.
    let mut watch = watched(1, |_| sighting(4));
    watch.look("p", sighting(4), 80 * SECOND);
    assert_eq!(watch.is_due("p", |_| Some(60 * SECOND), LIMIT), None);
}

#[test]
fn a_heartbeat_is_read_as_it_was_written_and_a_damaged_one_is_none() {
    let mut block = vec![0; BLOCK as usize];
    beat(9).emit(&mut block);
    assert_eq!(OwnerBeat::parse(&block), Some(beat(9)));
    for at in [0, 16, 48, 4000] {
        block[at] ^= 1;
        assert_eq!(OwnerBeat::parse(&block), None, "{at}");
        block[at] ^= 1;
    }
    assert_eq!(OwnerBeat::parse(&[0; BLOCK as usize]), None);
    assert_eq!(OwnerBeat::parse(&[]), None);
}
