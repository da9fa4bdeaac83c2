//! A member that fails is left out durably, and the caller knows it, before an answer relies on it.

use super::super::regions::Regions;
use super::*;

/// How a member fails.
#[derive(Clone, Copy, Debug)]
enum How {
    Error,
    Hangs,
    Vanishes,
}

fn break_member(room: &mut Room, slot: u8, how: How) {
    match how {
        How::Error => room.fail(room.of(slot), EIO_ERROR),
        How::Hangs => {
            room.pass(LIMIT - Duration::from_millis(1));
            assert_eq!(room.state(usize::from(slot)), MemberState::Current);
            room.pass(Duration::from_millis(1));
        }
        How::Vanishes => {
            room.mirrors.lose(slot);
            room.pull();
        }
    }
}

#[test]
fn nothing_is_answered_before_a_failed_member_is_left_out_durably_and_with_a_witness() {
    for how in [How::Error, How::Hangs, How::Vanishes] {
        for flushes in [false, true] {
            for failing in [0, 1] {
                let mut room = Room::new(2);
                let other = 1 - failing;
                if flushes {
                    room.flush(1)
                } else {
                    room.write(1, 1000, &[5])
                }
                room.serve(room.of(other));
                break_member(&mut room, failing, how);
                assert_eq!(room.state(usize::from(failing)), MemberState::Absent, "{how:?}");
                // The list without it is written, what it may lack, and then both are flushed.
                while room.stable_list(usize::from(other)).is_none() {
                    assert_eq!((room.takes(1), room.mirrors.next_membership()), (None, None));
                    room.serve(room.of(other));
                }
                let list = room.stable_list(usize::from(other)).unwrap();
                assert_eq!((list.generation, list.entries[usize::from(failing)].since), (2, 2));
                assert_eq!(room.takes(1), None);
                assert_eq!(room.witness(), [2]);
                assert_eq!(room.takes(1), Some(Ok(None)), "{how:?}");
                // A result that comes late changes nothing, and nothing more goes there.
                while room.has(failing) {
                    room.serve(room.of(failing));
                }
                room.write(2, 1000, &[6]);
                assert!(!room.has(failing));
                room.serve_all();
                assert_eq!(room.takes(2), Some(Ok(None)));
                for token in 3..8 {
                    room.read(token, 1000, &[6]);
                    room.serve_all();
                    assert_eq!(room.takes(token), Some(Ok(Some(content(&[6])))));
                }
            }
        }
    }
}

/// A file that was cut under the daemon was filled up with zeroes by later writes; a member that was
/// filled from it took them for content, and the sound copy went before a scrub had come by.
#[test]
fn a_member_that_has_become_shorter_is_left_out_by_the_first_read_that_finds_it() {
    let mut room = Room::new(2);
    room.write(1, 1000, &[5]);
    room.serve_all();
    let mut cuts = 0;
    for token in 2..6 {
        room.read(token, 1000, &[5]);
        if room.has(1) {
            let end = 1001 * BLOCK;
            room.fail(room.of(1), DeviceError::BeyondEnd { end });
            cuts += 1;
        }
        room.serve_all();
        room.witness();
        assert_eq!(room.takes(token), Some(Ok(Some(content(&[5])))));
    }
    assert_eq!((cuts, room.state(1)), (1, MemberState::Absent));
}

#[test]
fn a_write_that_comes_while_a_member_is_left_out_waits_too() {
    let mut room = Room::new(2);
    room.write(1, 1000, &[5]);
    room.fail(room.of(1), EIO_ERROR);
    room.write(2, 2000, &[6]);
    room.flush(3);
    room.serve_all();
    assert_eq!(room.ended.len(), 0);
    room.witness();
    assert_eq!(room.ended.len(), 3);
}

#[test]
fn a_caller_that_was_held_up_takes_no_member_for_hanging() {
    let mut room = Room::new(2);
    room.write(1, 1000, &[5]);
    for hours in 1..8 {
        room.now = Duration::from_secs(3600 * hours);
        room.mirrors.tick(room.now);
        room.pull();
    }
    assert_eq!([room.state(0), room.state(1)], [MemberState::Current; 2]);
    room.serve_all();
    assert_eq!(room.takes(1), Some(Ok(None)));
}

#[test]
fn if_no_member_answers_none_is_given_up_until_one_does() {
    let mut room = Room::new(2);
    room.write(1, 1000, &[5]);
    room.pass(LIMIT * 2);
    assert_eq!([room.state(0), room.state(1)], [MemberState::Current; 2]);
    room.serve(room.of(1));
    room.pass(Duration::from_secs(1));
    assert_eq!([room.state(0), room.state(1)], [MemberState::Absent, MemberState::Current]);
}

#[test]
fn the_last_current_member_is_never_left_out_and_its_failures_are_told() {
    let mut room = Room::new(2);
    room.write(1, 1000, &[5]);
    room.fail(room.of(0), EIO_ERROR);
    room.fail(room.of(1), DeviceError::Os(28));
    assert!(room.takes(1).unwrap().is_err());
    room.serve_all();
    room.witness();
    assert_eq!([room.state(0), room.state(1)], [MemberState::Absent, MemberState::Current]);
    room.write(2, 1000, &[6]);
    room.pass(LIMIT * 100);
    assert_eq!(room.takes(2), None);
    room.serve_all();
    assert_eq!(room.takes(2), Some(Ok(None)));
    // Its device is gone altogether.
    room.write(3, 1000, &[7]);
    room.read(4, 1000, &[6]);
    room.mirrors.lose(1);
    room.pull();
    room.write(5, 1000, &[7]);
    room.read(6, 1000, &[6]);
    for token in 3..7 {
        assert!(room.takes(token).unwrap().is_err(), "{token}");
    }
}

#[test]
fn if_the_others_cannot_keep_the_list_what_a_member_lacks_is_never_answered_as_done() {
    for fails_at_flush in [false, true] {
        let mut room = Room::new(2);
        room.write(1, 1000, &[5]);
        room.fail(room.of(1), EIO_ERROR);
        room.serve(room.of(0));
        if fails_at_flush {
            room.serve(room.of(0));
        }
        room.fail(room.of(0), EIO_ERROR);
        assert!(room.takes(1).unwrap().is_err());
        room.write(2, 1000, &[5]);
        room.serve_all();
        assert!(room.takes(2).unwrap().is_err());
        room.read(3, 1000, &[5]);
        room.serve_all();
        assert_eq!(room.takes(3), Some(Ok(Some(content(&[5])))));
    }
}

#[test]
fn the_list_that_leaves_a_member_out_is_durable_no_earlier_than_what_that_member_may_lack() {
    for flushes in [false, true] {
        let mut room = Room::new(2);
        // An earlier time left a bitmap that says that nothing is lacking.
        let mut clean = Regions::clean((1 << 30) / BLOCK);
        clean.rewrite();
        while let Some((block, bytes)) = clean.next_urgent() {
            for disk in &mut room.disks {
                disk.now.insert(block.number(), bytes.to_vec());
                disk.stable.insert(block.number(), bytes.to_vec());
            }
        }
        room.write(1, 1000, &[5]);
        room.serve_all();
        room.write(2, 2000, &[6]);
        if flushes {
            room.flush(3);
            room.serve(room.of(0));
            room.serve(room.of(0));
        }
        room.fail(room.of(1), EIO_ERROR);
        room.serve_all();
        assert_eq!(room.witness(), [2]);
        assert_eq!(room.takes(2), Some(Ok(None)));
        let stable = &room.disks[0].stable;
        let blocks = (REGIONS_START.number()..).map_while(|block| stable.get(&block));
        let copies = [Some(Buffer::copy_of(&blocks.flatten().copied().collect::<Vec<u8>>()))];
        let found = Regions::parse((1 << 30) / BLOCK, &copies);
        let dirty: Vec<usize> =
            (0..1024).filter(|region| found.dirty().contains(*region)).collect();
        assert_eq!(dirty, [1000 / 256, 2000 / 256]);
    }
}

#[test]
fn members_that_fail_one_after_the_other_are_left_out_by_two_lists_in_different_places() {
    let mut room = Room::new(3);
    room.write(1, 1000, &[5]);
    room.fail(room.of(1), EIO_ERROR);
    // The second one fails while it writes the list.
    room.serve(room.of(0));
    room.serve(room.of(2));
    room.fail(room.of(2), EIO_ERROR);
    room.serve_all();
    assert_eq!(room.takes(1), None);
    assert_eq!(room.witness(), [2]);
    // That list says of the second one that it is current, which lacks nothing of this write.
    assert_eq!(room.takes(1), Some(Ok(None)));
    room.write(2, 1000, &[6]);
    room.serve_all();
    assert_eq!(room.takes(2), None);
    assert_eq!(room.witness(), [3]);
    assert_eq!(room.takes(2), Some(Ok(None)));
    let list = room.stable_list(0).unwrap();
    let since: Vec<u64> = list.entries.iter().map(|entry| entry.since).collect();
    assert_eq!(since, [1, 2, 3]);
    assert!(List::place(2) != List::place(3));
}

#[test]
fn a_mirror_that_lacks_a_member_says_so_before_it_is_written() {
    let list = List { generation: 4, ..List::first(POOL, &spec(2)) };
    let slots = vec![Some(0), None];
    let found = Found {
        device: DeviceNumber::FIRST,
        list,
        slots,
        is_spread: true,
        witness: FoundWitness::default(),
    };
    let mut room = Room::with(found, 2);
    assert!(!room.mirrors.is_settled());
    room.serve_all();
    // Two generations are left out: the absent one may have begun a list of its own that was never
    // witnessed.
    assert_eq!(room.witness(), [7]);
    assert!(room.mirrors.is_settled());
    let list = room.stable_list(0).unwrap();
    assert_eq!((list.generation, list.entries[1].since), (7, 7));
}

#[test]
fn a_list_that_not_all_members_hold_is_written_to_all_of_them() {
    let list = List { generation: 4, ..List::first(POOL, &spec(2)) };
    let slots = vec![Some(0), Some(1)];
    let found = Found {
        device: DeviceNumber::FIRST,
        list,
        slots,
        is_spread: false,
        witness: FoundWitness::default(),
    };
    let mut room = Room::with(found, 2);
    room.serve_all();
    assert_eq!(room.witness(), [5]);
    assert_eq!([0, 1].map(|slot| room.stable_list(slot).unwrap().generation), [5, 5]);
}

/// A new mirror, with the first own blocks of its members on their way.
fn new_mirror() -> Room {
    let mut room = Room::new(2);
    for (token, (member, block, data)) in member_blocks(POOL, &spec(2)).into_iter().enumerate() {
        room.mirrors.write_first_block(MIRROR, token, member, block, data);
    }
    room.pull();
    room
}

/// The zeros in the place of the second list came to rest after that list (83000309).
#[test]
fn a_new_mirror_gets_no_second_list_before_its_first_own_blocks_are_written() {
    let mut room = new_mirror();
    room.mirrors.renew_own_blocks();
    room.pull();
    room.serve_newest_first();
    assert_eq!(room.witness(), [2]);
    room.flush(91);
    room.serve_all();
    assert_eq!([0, 1].map(|slot| room.stable_list(slot).unwrap().generation), [2, 2]);
    assert!(room.mirrors.is_settled());
}

#[test]
fn a_member_that_fails_while_a_mirror_is_made_is_left_out_when_its_other_members_are() {
    let mut room = new_mirror();
    room.write(90, 300, &[1]);
    let of_second = |wish: &Wish| wish.slot == 1;
    let place = room.under_way.iter().rposition(of_second).unwrap();
    room.fail(place, EIO_ERROR);
    room.serve_newest_first();
    assert_eq!(room.witness(), [2]);
    assert_eq!(room.stable_list(0).unwrap().generation, 2);
    assert_eq!(room.takes(90), Some(Ok(None)));
    assert!(room.mirrors.is_settled());
}
