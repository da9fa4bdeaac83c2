//! Reads are spread over the members, checked, and bad copies mended, but never over a newer write.

use super::*;
use crate::limits::{READ_ERRORS_MAX, READ_ERRORS_PERIOD};

/// Two members that hold blocks 5, 6, 7 from 1000 on.
fn written() -> Room {
    let mut room = Room::new(2);
    room.put(0, 1000, &[5, 6, 7]);
    room.put(1, 1000, &[5, 6, 7]);
    room
}

#[test]
fn reads_go_to_the_least_busy_member_and_by_turns() {
    let mut room = written();
    for token in 0..8 {
        room.read(token, 1000, &[5]);
    }
    let of = |slot| room.under_way.iter().filter(|wish| wish.slot == slot).count();
    assert_eq!([of(0), of(1)], [4, 4]);
    // One of them is slow.
    for _ in 0..4 {
        room.serve(room.of(0));
    }
    for token in 8..12 {
        room.read(token, 1000, &[5]);
    }
    assert_eq!(room.under_way.iter().filter(|wish| wish.slot == 1).count(), 4);
}

#[test]
fn a_bad_copy_is_read_from_the_other_member_and_mended() {
    for bad in [0, 1] {
        let mut room = written();
        room.put(bad, 1001, &[99]);
        for token in 0..4 {
            room.read(token, 1000, &[5, 6, 7]);
            room.serve_all();
            assert_eq!(room.takes(token), Some(Ok(Some(content(&[5, 6, 7])))));
        }
        assert_eq!([room.block(0, 1001), room.block(1, 1001)], [6, 6]);
        assert_eq!((room.errors(bad), room.healed(bad)), (1, 1));
        assert_eq!((room.errors(1 - bad), room.healed(1 - bad)), (0, 0));
        let told = room.mirrors.take_healed();
        assert_eq!(told.len(), 1);
        assert_eq!((told[0].offset, told[0].blocks), (1001 * BLOCK, 1));
        assert!(room.mirrors.take_healed().is_empty());
    }
}

#[test]
fn a_copy_that_cannot_be_read_is_read_from_the_other_member_and_mended() {
    let mut room = written();
    room.read(1, 1000, &[5, 6, 7]);
    let first = room.under_way[0].slot;
    room.fail(0, EIO_ERROR);
    assert_eq!(room.under_way[0].slot, 1 - first);
    room.serve_all();
    assert_eq!(room.takes(1), Some(Ok(Some(content(&[5, 6, 7])))));
    assert_eq!(room.healed(usize::from(first)), 3);
    assert_eq!(room.state(usize::from(first)), MemberState::Current);
}

#[test]
fn what_is_bad_on_different_members_is_put_together_and_mended_on_each() {
    for breadth in [Breadth::One, Breadth::Copy(1), Breadth::All] {
        let mut room = written();
        room.put(0, 1000, &[98]);
        room.put(1, 1002, &[99]);
        room.read_as(1, 1000, &[5, 6, 7], breadth);
        room.serve_all();
        assert_eq!(room.takes(1), Some(Ok(Some(content(&[5, 6, 7])))));
        for slot in [0, 1] {
            let blocks = [1000, 1001, 1002].map(|number| room.block(slot, number));
            assert_eq!(blocks, [5, 6, 7], "{breadth:?}");
            assert_eq!(room.healed(slot), 1);
        }
    }
}

#[test]
fn if_no_copy_is_right_the_reader_gets_what_there_is_and_nothing_is_mended() {
    let mut room = written();
    room.put(0, 1001, &[98]);
    room.put(1, 1001, &[99]);
    room.read(1, 1000, &[5, 6, 7]);
    room.serve_all();
    let bytes = room.takes(1).unwrap().unwrap().unwrap();
    assert!(bytes[4096] == 98 || bytes[4096] == 99);
    assert_eq!([room.healed(0), room.healed(1)], [0, 0]);
    // Neither can be read: the error is told.
    room.read(2, 1000, &[5, 6, 7]);
    room.fail(0, EIO_ERROR);
    room.fail(0, EIO_ERROR);
    assert_eq!(room.takes(2), Some(Err(EIO_ERROR)));
}

#[test]
fn a_read_that_expects_nothing_mends_nothing() {
    let mut room = written();
    room.mirrors.read(MIRROR, 1, at(1000, 1), Expected::Nothing, Breadth::One);
    room.pull();
    room.fail(0, EIO_ERROR);
    room.serve_all();
    assert_eq!(room.takes(1), Some(Ok(Some(content(&[5])))));
    assert_eq!([room.healed(0), room.healed(1)], [0, 0]);
}

#[test]
fn all_copies_are_read_for_a_scrub_and_the_bad_one_is_mended() {
    let mut room = written();
    room.put(1, 1000, &[98, 98]);
    room.read_as(1, 1000, &[5, 6, 7], Breadth::All);
    assert_eq!(room.under_way.len(), 2);
    room.serve_all();
    assert_eq!(room.takes(1), Some(Ok(Some(content(&[5, 6, 7])))));
    assert_eq!((room.block(1, 1000), room.block(1, 1001), room.healed(1)), (5, 6, 2));
}

#[test]
fn nothing_is_mended_that_somebody_writes_or_wrote_meanwhile() {
    // A write that was under way when the second copy was asked for.
    let mut room = written();
    room.write(1, 1000, &[50]);
    room.serve(room.of(0));
    room.read_as(2, 1000, &[5], Breadth::Copy(0));
    room.serve(room.of(0));
    let last = room.under_way.len() - 1;
    room.serve(last);
    assert_eq!(room.takes(2), Some(Ok(Some(content(&[5])))));
    room.serve_all();
    assert_eq!([room.block(0, 1000), room.block(1, 1000)], [50, 50]);
    assert_eq!([room.healed(0), room.healed(1)], [0, 0]);

    // One that came after that.
    let mut room = written();
    room.put(0, 1000, &[99]);
    room.read_as(2, 1000, &[5], Breadth::Copy(0));
    room.serve(room.of(0));
    room.write(3, 1000, &[50]);
    room.serve(room.of(0));
    room.serve_all();
    assert_eq!(room.takes(2), Some(Ok(Some(content(&[5])))));
    assert_eq!([room.block(0, 1000), room.block(1, 1000)], [50, 50]);
    assert_eq!([room.healed(0), room.healed(1)], [0, 0]);

    // One that was under way, or came, while all copies were read.
    for comes_first in [true, false] {
        let mut room = written();
        if comes_first {
            room.write(3, 1000, &[50]);
            room.serve(room.of(0));
        }
        room.read_as(2, 1000, &[5], Breadth::All);
        let count = room.under_way.len();
        room.serve(count - 1);
        if !comes_first {
            room.write(3, 1000, &[50]);
        }
        while room.has(0) {
            let last = room.under_way.iter().rposition(|wish| wish.slot == 0).unwrap();
            room.serve(last);
        }
        room.serve_all();
        assert_eq!([room.block(0, 1000), room.block(1, 1000)], [50, 50]);
        assert_eq!([room.healed(0), room.healed(1)], [0, 0]);
    }
}

#[test]
fn a_write_waits_for_a_copy_that_is_being_mended() {
    let mut room = written();
    room.put(0, 1000, &[99]);
    room.read_as(1, 1000, &[5], Breadth::Copy(0));
    room.serve(0);
    room.serve(0);
    // Mending is under way.
    assert_eq!(room.under_way.len(), 1);
    room.write(2, 1000, &[50]);
    room.write(3, 2000, &[51]);
    assert_eq!(room.under_way.len(), 3, "only the other write goes on");
    // A second reader finds the same, and does not mend it once more.
    room.read_as(4, 1000, &[5], Breadth::Copy(0));
    room.serve(3);
    room.serve(3);
    assert_eq!(room.takes(4), Some(Ok(Some(content(&[5])))));
    room.serve_all();
    assert_eq!([room.takes(2), room.takes(3)], [Some(Ok(None)), Some(Ok(None))]);
    assert_eq!([room.block(0, 1000), room.block(1, 1000)], [50, 50]);
    assert_eq!(room.healed(0), 1);
}

#[test]
fn a_member_that_cannot_be_mended_is_given_up_and_writes_go_on() {
    for vanishes in [false, true] {
        let mut room = written();
        room.put(0, 1000, &[99]);
        room.read_as(1, 1000, &[5], Breadth::Copy(0));
        room.serve(0);
        room.serve(0);
        room.write(2, 1000, &[50]);
        if vanishes {
            room.mirrors.lose(0);
            room.pull();
        } else {
            room.fail(0, EIO_ERROR);
        }
        room.serve_all_but(Some(0));
        assert_eq!(room.takes(2), None);
        room.witness();
        assert_eq!(room.takes(2), Some(Ok(None)));
        assert_eq!(room.state(0), MemberState::Absent);
    }
}

#[test]
fn a_read_goes_on_elsewhere_when_its_member_hangs_and_a_stale_copy_is_not_asked() {
    let mut room = written();
    room.read_as(1, 1000, &[5], Breadth::Copy(1));
    room.pass(LIMIT);
    room.serve_all_but(Some(1));
    assert_eq!(room.takes(1), Some(Ok(Some(content(&[5])))));
    room.witness();
    assert_eq!(room.mirrors.orphans(), 1);
    assert!(!room.mirrors.slot_is_idle(1));
    for token in 2..6 {
        room.read_as(token, 1000, &[9], Breadth::All);
        room.serve_all_but(Some(1));
        assert_eq!(room.takes(token), Some(Ok(Some(content(&[5])))));
    }
    room.serve(room.of(1));
    assert!(room.mirrors.slot_is_idle(1));
    assert_eq!(room.ended.len(), 0);
}

/// Found by the simulator: of two reads of a scrub that met in a block the later one mended nothing.
#[test]
fn two_reads_that_find_the_same_bad_block_mend_all_that_either_found() {
    let mut room = written();
    room.put(0, 1000, &[97, 98, 99]);
    room.read_as(1, 1000, &[5, 6, 7], Breadth::All);
    room.read_as(2, 1002, &[7], Breadth::All);
    // The one of the single block ends first: its copy is being mended when the other one ends.
    for _ in 0..2 {
        let last = room.under_way.iter().rposition(|wish| {
            matches!(wish.operation, DeviceOperation::Read { offset, .. } if offset == 1002 * BLOCK)
        });
        room.serve(last.expect("it is under way"));
    }
    for slot in [0, 1] {
        let read = room.under_way.iter().position(|wish| {
            wish.slot == slot && matches!(wish.operation, DeviceOperation::Read { .. })
        });
        room.serve(read.expect("it is under way"));
    }
    room.serve_all();
    assert_eq!([1000, 1001, 1002].map(|number| room.block(0, number)), [5, 6, 7]);
    assert_eq!(room.healed(0), 3);
}

/// Reads a block so many times, by turns from the members; those fail that are for a member in `bad`.
fn read_with_errors(room: &mut Room, count: u32, bad: &[u8]) {
    for number in 0..count as usize {
        room.read_as(1, 1000, &[5], Breadth::Copy(number));
        if bad.contains(&room.under_way[0].slot) {
            room.fail(0, EIO_ERROR);
        }
        room.serve_all();
        room.witness();
        room.serve_all();
        assert_eq!(room.takes(1), Some(Ok(Some(content(&[5])))));
    }
}

#[test]
fn a_member_that_answers_many_reads_with_errors_is_left_out_and_forgiven_in_time() {
    let mut room = written();
    let unreliable = |room: &Room| room.mirrors.get(MIRROR).status(0).members[0].is_unreliable;
    // Every other read is for it.
    read_with_errors(&mut room, 2 * (READ_ERRORS_MAX - 1), &[0]);
    assert_eq!((room.state(0), unreliable(&room)), (MemberState::Current, false));
    room.pass(READ_ERRORS_PERIOD);
    read_with_errors(&mut room, 2 * (READ_ERRORS_MAX - 1), &[0]);
    assert_eq!(room.state(0), MemberState::Current);
    read_with_errors(&mut room, 2, &[0]);
    assert_eq!((room.state(0), unreliable(&room)), (MemberState::Absent, true));
    assert_eq!(room.state(1), MemberState::Current);
    read_with_errors(&mut room, 4, &[0]);
}

#[test]
fn members_that_all_answer_reads_with_errors_stay_and_so_does_the_last_one() {
    let mut room = written();
    read_with_errors(&mut room, 8 * READ_ERRORS_MAX, &[0, 1]);
    assert_eq!([room.state(0), room.state(1)], [MemberState::Current; 2]);
    // What none can read counts against none.
    let mut room = written();
    for token in 0..u64::from(4 * READ_ERRORS_MAX) {
        room.read(token as Token, 1000, &[5]);
        room.fail(0, EIO_ERROR);
        room.fail(0, EIO_ERROR);
        assert_eq!(room.takes(token as Token), Some(Err(EIO_ERROR)));
    }
    assert_eq!([room.state(0), room.state(1)], [MemberState::Current; 2]);
}
