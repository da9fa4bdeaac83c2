//! When a pool is taken by itself: never while anything of its owner moves, is heard, is not known, or is
//! not fenced; and never by two.

use block::BLOCK;

use super::*;

const SECOND: Duration = Duration::from_secs(1);
const LIMIT: Duration = Duration::from_secs(5);
const KEY: &str = "key 1";

/// The owner is not heard, and nobody else speaks of the pool.
const GONE: Signs = Signs {
    silence: Some(LIMIT),
    is_new_start: false,
    has_ended: false,
    is_claimed: false,
    before: 0,
};

/// Its process has ended a moment ago.
const ENDED: Signs = Signs { silence: Some(Duration::ZERO), has_ended: true, ..GONE };

fn beat(count: u64) -> OwnerBeat {
    let lease = LIMIT - LEASE_MARGIN;
    OwnerBeat { pool_uuid: [7; 16], controller: 1, lease, life: 3, count, holder: KEY.to_owned() }
}

fn held(beat: OwnerBeat) -> HeldDevice {
    HeldDevice { holder: Some(KEY.to_owned()), beat }
}

fn sighting(count: u64) -> Option<Sighting> {
    Some(Sighting { devices: vec![held(beat(count))] })
}

/// A look that takes no time.
fn look(watch: &mut Watch, seen: Option<Sighting>, at: Duration) {
    watch.look("p", seen, (at, at));
}

/// Looks once a second from 10 s on, at what `seen` says of each look.
fn watched_after(
    after: Option<Duration>,
    looks: u32,
    seen: impl Fn(u32) -> Option<Sighting>,
) -> Watch {
    let mut watch = Watch::new(after);
    for number in 0..looks {
        look(&mut watch, seen(number), 10 * SECOND + number * SECOND);
    }
    watch
}

fn watched(looks: u32, seen: impl Fn(u32) -> Option<Sighting>) -> Watch {
    watched_after(Some(LIMIT), looks, seen)
}

fn obstacle(verdict: Verdict) -> Option<Obstacle> {
    match verdict {
        Verdict::Leave { obstacle, .. } => Some(obstacle),
        Verdict::Wait | Verdict::Take(_) => None,
    }
}

fn takes(verdict: &Verdict) -> bool {
    matches!(verdict, Verdict::Take(_))
}

#[test]
fn a_pool_is_taken_when_heartbeat_and_link_stood_still_for_the_limit_and_not_before() {
    let watch = watched(6, |_| sighting(4));
    let holders = vec![KEY.to_owned()];
    let (still, silence, beats) = (LIMIT, LIMIT, vec![beat(4)]);
    let expected = Taking { holders, controller: 1, still, silence, has_ended: false, beats };
    assert_eq!(watch.judge("p", GONE), Verdict::Take(expected));
    assert_eq!(watch.owner("p").map(|owner| owner.controller), Some(1));
    assert_eq!(watched(5, |_| sighting(4)).judge("p", GONE), Verdict::Wait);
    assert_eq!(watch.judge("q", GONE), Verdict::Wait);
}

#[test]
fn an_owner_that_is_heard_or_not_paired_keeps_its_pool_and_that_is_said() {
    let watch = watched(60, |_| sighting(4));
    let heard = Signs { silence: Some(SECOND), ..GONE };
    assert_eq!(obstacle(watch.judge("p", heard)), Some(Obstacle::Heard));
    let lately = Signs { silence: Some(LIMIT - SECOND), ..GONE };
    assert_eq!(watch.judge("p", lately), Verdict::Wait, "it is not known yet whether it lives");
    let again = Signs { is_new_start: true, ..heard };
    assert_eq!(watch.judge("p", again), Verdict::Wait, "it was started again, and takes its own");
    let gone_again = Signs { is_new_start: true, ..GONE };
    assert!(takes(&watch.judge("p", gone_again)), "it did not come so far");
    let unknown = Signs { silence: None, ..GONE };
    assert_eq!(obstacle(watch.judge("p", unknown)), Some(Obstacle::NotPaired));
}

#[test]
fn an_owner_whose_heart_beats_keeps_its_pool_though_the_link_is_silent() {
    let silent = Signs { silence: Some(3600 * SECOND), ..GONE };
    let watch = watched(60, |look| sighting(u64::from(look / 3)));
    assert_eq!(watch.judge("p", silent), Verdict::Wait);
    let mut watch = watched(60, |_| sighting(4));
    look(&mut watch, sighting(5), 70 * SECOND);
    assert_eq!(watch.judge("p", silent), Verdict::Wait, "it went on");
}

/// A mirror's member that is slow for the owner, or whose beat is old, is not the whole pool.
#[test]
fn a_beat_in_any_device_keeps_all_of_them() {
    let two =
        |look: u32| Some(Sighting { devices: vec![held(beat(4)), held(beat(u64::from(look)))] });
    assert_eq!(watched(60, two).judge("p", GONE), Verdict::Wait);
    let still = |_| Some(Sighting { devices: vec![held(beat(4)), held(beat(9))] });
    assert!(takes(&watched(60, still).judge("p", GONE)), "both stand still, at different counts");
}

#[test]
fn a_heartbeat_of_somebody_else_than_the_holder_says_nothing_of_the_holder() {
    let stale = |holder: &str| {
        let device = HeldDevice { holder: Some(holder.to_owned()), beat: beat(4) };
        watched(60, |_| Some(Sighting { devices: vec![device.clone()] })).judge("p", GONE)
    };
    assert_eq!(stale("key 2"), Verdict::Wait, "a successor that has not written its own yet");
    assert_eq!(stale(""), Verdict::Wait);
    let nameless = OwnerBeat { holder: String::new(), ..beat(4) };
    let device = HeldDevice { holder: Some(String::new()), beat: nameless };
    let watch = watched(60, |_| Some(Sighting { devices: vec![device.clone()] }));
    assert_eq!(watch.judge("p", GONE), Verdict::Wait);
}

#[test]
fn two_owners_or_none_are_not_judged() {
    let others = [
        OwnerBeat { controller: 2, ..beat(1) },
        OwnerBeat { life: 4, ..beat(1) },
        OwnerBeat { lease: SECOND, ..beat(1) },
    ];
    for other in others {
        let devices = vec![held(beat(1)), held(other)];
        let watch = watched(60, |_| Some(Sighting { devices: devices.clone() }));
        assert_eq!((watch.judge("p", GONE), watch.owner("p")), (Verdict::Wait, None));
    }
    let watch = watched(60, |_| Some(Sighting { devices: Vec::new() }));
    assert_eq!(watch.judge("p", GONE), Verdict::Wait);
    let mut watch = watched(60, |_| sighting(4));
    look(&mut watch, None, 70 * SECOND);
    assert_eq!(watch.judge("p", GONE), Verdict::Wait, "it let go, or cannot be seen");
}

#[test]
fn what_no_fence_keeps_out_is_left_and_that_is_said_once() {
    let file = HeldDevice { holder: None, beat: OwnerBeat { holder: String::new(), ..beat(4) } };
    let mixed = vec![held(beat(4)), file];
    let mut watch = watched(60, |_| Some(Sighting { devices: mixed.clone() }));
    assert_eq!(obstacle(watch.judge("p", GONE)), Some(Obstacle::NoFence));
    assert!(watch.is_news("p", Obstacle::NoFence));
    assert!(!watch.is_news("p", Obstacle::NoFence));
    assert!(watch.is_news("p", Obstacle::Heard), "it is another thing");
    let mut moved = mixed.clone();
    moved[0].beat.count += 1;
    look(&mut watch, Some(Sighting { devices: moved }), 70 * SECOND);
    assert!(watch.is_news("p", Obstacle::Heard), "it went on meanwhile");
    assert!(!watch.is_news("q", Obstacle::Heard), "of a pool that nobody has nothing is told");
}

#[test]
fn a_new_holder_is_watched_from_the_beginning() {
    let mut watch = watched(60, |_| sighting(4));
    let holder = "key 2".to_owned();
    let other =
        HeldDevice { beat: OwnerBeat { holder: holder.clone(), ..beat(4) }, holder: Some(holder) };
    look(&mut watch, Some(Sighting { devices: vec![other] }), 70 * SECOND);
    assert_eq!(watch.judge("p", GONE), Verdict::Wait);
}

#[test]
fn one_that_stood_still_itself_does_not_take_that_for_the_owners() {
    let silent = Signs { silence: Some(60 * SECOND), ..GONE };
    // Two looks, and a standstill of a minute within the second one: it began a second after the first.
    assert_eq!(watched(2, |_| sighting(4)).judge("p", silent), Verdict::Wait);
    // Between two looks: the heart has beaten meanwhile, or all begins anew.
    let mut watch = watched(5, |_| sighting(4));
    look(&mut watch, sighting(4), 80 * SECOND);
    assert_eq!(watch.judge("p", silent), Verdict::Wait);
    look(&mut watch, sighting(4), 82 * SECOND);
    look(&mut watch, sighting(4), 84 * SECOND);
    assert_eq!(watch.judge("p", silent), Verdict::Wait);
    look(&mut watch, sighting(4), 85 * SECOND);
    assert!(takes(&watch.judge("p", silent)));
}

/// The owner may have written it just before it was read, at the end of a look that took long.
#[test]
fn a_heartbeat_is_as_old_as_the_end_of_the_look_that_saw_it_first() {
    let mut watch = Watch::new(Some(LIMIT));
    watch.look("p", sighting(4), (10 * SECOND, 13 * SECOND));
    for at in 14..18 {
        look(&mut watch, sighting(4), at * SECOND);
    }
    assert_eq!(watch.judge("p", GONE), Verdict::Wait);
    look(&mut watch, sighting(4), 18 * SECOND);
    assert!(takes(&watch.judge("p", GONE)));
    // Nor is a slow look at the end more than its beginning.
    let mut watch = watched(3, |_| sighting(4));
    watch.look("p", sighting(4), (14 * SECOND, 19 * SECOND));
    assert_eq!(watch.judge("p", GONE), Verdict::Wait);
}

#[test]
fn an_owner_that_serves_longer_without_a_heartbeat_is_waited_for_longer() {
    let patient = |count| OwnerBeat { lease: 9 * SECOND, ..beat(count) };
    let seen = |_| Some(Sighting { devices: vec![held(patient(4))] });
    let silent = Signs { silence: Some(60 * SECOND), ..GONE };
    assert_eq!(watched(10, seen).judge("p", silent), Verdict::Wait);
    assert!(takes(&watched(11, seen).judge("p", silent)));
    // Its own silence has to last as long.
    let lately = Signs { silence: Some(9 * SECOND), ..GONE };
    assert_eq!(watched(60, seen).judge("p", lately), Verdict::Wait);
}

#[test]
fn nothing_is_taken_where_either_side_does_not_want_it() {
    let watch = watched_after(None, 60, |_| sighting(4));
    assert_eq!(obstacle(watch.judge("p", GONE)), Some(Obstacle::Off));
    let unleased = OwnerBeat { lease: Duration::ZERO, ..beat(4) };
    let watch = watched(60, |_| Some(Sighting { devices: vec![held(unleased.clone())] }));
    assert_eq!(obstacle(watch.judge("p", GONE)), Some(Obstacle::Off));
    assert_eq!(Watch::new(None).lease(true), Duration::ZERO);
    assert_eq!(Watch::new(Some(LIMIT)).lease(false), Duration::ZERO);
    assert_eq!(Watch::new(Some(LIMIT)).lease(true), LIMIT - LEASE_MARGIN);
}

#[test]
fn an_owner_that_went_on_before_it_was_fenced_has_its_lease_to_the_end() {
    let taking = |has_ended| {
        let (holders, beats) = (vec![KEY.to_owned()], vec![beat(4), beat(9)]);
        Taking { holders, controller: 1, still: LIMIT, silence: LIMIT, has_ended, beats }
    };
    let rest = |found: &[OwnerBeat]| rest_of_lease(found, Some(&taking(false)));
    assert_eq!(rest(&[beat(9), beat(4)]), Duration::ZERO);
    assert_eq!(rest(&[]), Duration::ZERO);
    assert_eq!(rest(&[beat(9), beat(5)]), LIMIT);
    let longer = OwnerBeat { lease: 60 * SECOND, ..beat(4) };
    assert_eq!(rest(&[beat(5), longer]), 61 * SECOND);
    let unleased = OwnerBeat { lease: Duration::ZERO, ..beat(5) };
    assert_eq!(rest(&[unleased]), Duration::ZERO);
    assert_eq!(rest_of_lease(&[beat(5)], None), LIMIT, "an administrator broke the locks");
    // Of a process that has ended it was on its way; of another start it is not.
    assert_eq!(rest_of_lease(&[beat(5)], Some(&taking(true))), Duration::ZERO);
    let next_life = OwnerBeat { life: 4, ..beat(5) };
    assert_eq!(rest_of_lease(&[next_life], Some(&taking(true))), LIMIT);
}

#[test]
fn a_pool_of_a_process_that_has_ended_is_taken_at_the_first_look() {
    let first = watched(1, |_| sighting(4));
    assert!(takes(&first.judge("p", ENDED)));
    assert_eq!(first.judge("p", Signs { has_ended: false, ..ENDED }), Verdict::Wait);
    // It may have been started again, and heard, meanwhile.
    assert!(takes(&first.judge("p", Signs { is_new_start: true, ..ENDED })));
    assert_eq!(first.judge("p", Signs { is_claimed: true, ..ENDED }), Verdict::Wait);
    let third = Signs { before: 1, ..ENDED };
    assert_eq!(first.judge("p", third), Verdict::Wait);
    assert!(takes(&watched(2, |_| sighting(4)).judge("p", third)), "a second after the first");
    // It is fenced all the same, or nothing is taken.
    let other = HeldDevice { holder: Some("key 2".to_owned()), beat: beat(4) };
    let stale = watched(1, |_| Some(Sighting { devices: vec![other.clone()] }));
    assert_eq!(stale.judge("p", ENDED), Verdict::Wait);
    let file = HeldDevice { holder: None, beat: beat(4) };
    let file = watched(1, |_| Some(Sighting { devices: vec![file.clone()] }));
    assert_eq!(file.judge("p", ENDED), Verdict::Wait, "its lock ends by itself");
    assert_eq!(
        obstacle(watched_after(None, 1, |_| sighting(4)).judge("p", ENDED)),
        Some(Obstacle::Off)
    );
    let unpaired = Signs { silence: None, ..ENDED };
    assert_eq!(obstacle(first.judge("p", unpaired)), Some(Obstacle::NotPaired));
    // It was heard, so that two that do not hear each other are not to be feared.
    let mut fenced = watched(1, |_| sighting(4));
    fenced.lost("p", 9 * SECOND);
    assert!(takes(&fenced.judge("p", ENDED)));
}

#[test]
fn of_several_that_may_take_it_each_waits_for_those_with_smaller_numbers() {
    let third = Signs { before: 1, silence: Some(60 * SECOND), ..GONE };
    assert_eq!(watched(6, |_| sighting(4)).judge("p", third), Verdict::Wait);
    assert!(takes(&watched(7, |_| sighting(4)).judge("p", third)));
    let claimed = Signs { is_claimed: true, ..GONE };
    assert_eq!(watched(60, |_| sighting(4)).judge("p", claimed), Verdict::Wait, "one opens it");
}

#[test]
fn one_that_was_fenced_leaves_the_pool_alone_longer_each_time() {
    let minute = 60 * SECOND;
    let mut watch = Watch::new(Some(LIMIT));
    let judged = |watch: &mut Watch, at: Duration| {
        for number in 0..6 {
            look(watch, sighting(4), at + number * SECOND);
        }
        watch.judge("p", Signs { silence: Some(3600 * SECOND), ..GONE })
    };
    watch.lost("p", minute);
    assert_eq!(obstacle(judged(&mut watch, minute)), Some(Obstacle::Resting));
    assert!(takes(&judged(&mut watch, 2 * minute)));
    watch.lost("p", 3 * minute);
    assert_eq!(obstacle(judged(&mut watch, 4 * minute)), Some(Obstacle::Resting));
    assert!(takes(&judged(&mut watch, 5 * minute)));
    for _ in 0..20 {
        watch.lost("p", 6 * minute);
    }
    assert_eq!(obstacle(judged(&mut watch, 60 * minute)), Some(Obstacle::Resting));
    assert!(takes(&judged(&mut watch, 66 * minute)), "an hour at most");
    watch.lost("p", 600 * minute);
    assert!(takes(&judged(&mut watch, 601 * minute)), "long ago is forgotten");
}

#[test]
fn a_controller_that_was_fenced_takes_the_pool_from_an_owner_that_it_has_heard_since() {
    let mut watch = Watch::new(Some(LIMIT));
    let fenced = 60 * SECOND;
    watch.lost("p", fenced);
    for number in 0..8 {
        look(&mut watch, sighting(4), fenced + (10 + number) * SECOND);
    }
    let judged = |silence| watch.judge("p", Signs { silence: Some(silence), ..GONE });
    assert_eq!(obstacle(judged(18 * SECOND)), Some(Obstacle::Resting), "not heard since");
    assert!(takes(&judged(8 * SECOND)), "it was heard nine seconds later");
}

#[test]
fn a_heartbeat_is_read_as_it_was_written_and_a_damaged_one_is_none() {
    let mut block = vec![0; BLOCK as usize];
    beat(9).emit(&mut block);
    assert_eq!(OwnerBeat::parse(&block), Some(beat(9)));
    for at in [0, 8, 16, 36, 48, 64, 4000, 4095] {
        block[at] ^= 1;
        assert_eq!(OwnerBeat::parse(&block), None, "{at}");
        block[at] ^= 1;
    }
    assert_eq!(OwnerBeat::parse(&[0; BLOCK as usize]), None);
    assert_eq!(OwnerBeat::parse(&[]), None);
    let long = OwnerBeat { holder: "k".repeat(129), ..beat(9) };
    let mut block = vec![0; BLOCK as usize];
    long.emit(&mut block);
    let read = OwnerBeat::parse(&block).map(|beat| beat.holder);
    assert_eq!(read.as_deref(), Some(""), "a name that does not fit names nobody");
    let longest = OwnerBeat { holder: "k".repeat(128), ..beat(9) };
    let mut block = vec![0; BLOCK as usize];
    longest.emit(&mut block);
    assert_eq!(OwnerBeat::parse(&block), Some(longest));
}

/// The block as docs/format.md has it, byte by byte.
#[test]
fn the_block_is_laid_out_as_documented() {
    let mut block = vec![0; BLOCK as usize];
    beat(0x0102_0304).emit(&mut block);
    assert_eq!(block[..12], *b"GANTRYHB\x01\0\0\0");
    assert_eq!(block[16..32], [7; 16]);
    assert_eq!(block[32..40], [1, 0, 0, 0, 0xa0, 0x0f, 0, 0], "controller 1, 4,000 ms");
    assert_eq!(block[40..56], [3, 0, 0, 0, 0, 0, 0, 0, 4, 3, 2, 1, 0, 0, 0, 0]);
    assert_eq!(block[64..70], *b"key 1\0");
    assert_eq!(block[4092..], crc32c_by_hand(&block[..4092]).to_le_bytes());
}

/// CRC32C bit by bit.
fn crc32c_by_hand(bytes: &[u8]) -> u32 {
    let step = |crc: u32, _| if crc & 1 == 1 { crc >> 1 ^ 0x82f6_3b78 } else { crc >> 1 };
    !bytes.iter().fold(!0, |crc, &byte| (0..8).fold(crc ^ u32::from(byte), step))
}
