//! Regions that a member may lack when it fails, and those of which it has everything.

use super::*;

/// Whether the region of a block is dirty.
fn is_dirty(room: &Room, block: u64) -> bool {
    let regions = &room.mirrors.get(MIRROR).dirty.regions;
    regions.dirty().contains(regions.division().touched(at(block, 1)).start)
}

#[test]
fn a_member_that_fails_may_lack_what_was_not_flushed_and_what_is_under_way_and_nothing_else() {
    let mut room = Room::new(2);
    // Written and flushed.
    room.write(1, 10_000, &[1]);
    room.serve_all();
    room.flush(2);
    room.serve_all();
    // Written before a flush that one member has not ended.
    room.write(3, 20_000, &[2]);
    room.serve_all();
    room.flush(4);
    room.serve(room.of(0));
    // Written on both members, and not flushed.
    room.write(5, 30_000, &[3]);
    room.serve_all_but(Some(1));
    // Under way on both.
    room.write(6, 40_000, &[4]);
    room.mirrors.lose(1);
    room.pull();
    let blocks = [10_000, 20_000, 30_000, 40_000];
    assert_eq!(blocks.map(|block| is_dirty(&room, block)), [false, true, true, true]);
    // While it is away everything that is written is marked, before a flush is answered.
    room.serve_all();
    room.witness();
    room.serve_all();
    room.write(7, 50_000, &[5]);
    assert!(is_dirty(&room, 50_000));
    room.serve_all();
    room.flush(8);
    assert!(room.under_way.iter().all(|wish| !matches!(wish.operation, DeviceOperation::Flush)));
    room.serve_all();
    assert_eq!(room.takes(8), Some(Ok(None)));
}

#[test]
fn completed_writes_that_no_flush_covers_are_lacking() {
    let mut room = Room::new(2);
    room.write(1, 10_000, &[1]);
    room.serve_all();
    assert_eq!(room.takes(1), Some(Ok(None)));
    room.mirrors.lose(0);
    room.pull();
    assert!(is_dirty(&room, 10_000) && !is_dirty(&room, 20_000));
}

#[test]
fn a_member_lacks_space_that_was_set_aside_while_it_was_away_or_that_no_flush_has_covered() {
    let mut room = Room::new(2);
    room.mirrors.reserve(MIRROR, 1, at(10_000, 2000));
    room.pull();
    room.serve_all();
    room.flush(2);
    room.serve_all();
    room.mirrors.reserve(MIRROR, 3, at(20_000, 2000));
    room.pull();
    room.serve_all();
    room.mirrors.reserve(MIRROR, 4, at(30_000, 2000));
    room.mirrors.lose(1);
    room.mirrors.reserve(MIRROR, 5, at(40_000, 2000));
    room.pull();
    let blocks = [10_000, 20_000, 30_000, 40_000, 41_000];
    let dirty = blocks.map(|block| is_dirty(&room, block));
    assert_eq!(dirty, [false, true, true, true, false]);
}

/// Found by the simulator: the list waited for ever for the flush of a member that was gone.
#[test]
fn a_member_that_is_lost_between_its_list_and_the_bitmap_holds_up_no_list() {
    for lists in 0..4 {
        let mut room = Room::new(2);
        room.mirrors.lose(1);
        room.pull();
        room.serve_all();
        room.witness();
        room.rejoin_one();
        for _ in 0..lists {
            if room.has(1) {
                room.serve(room.of(1));
            }
        }
        room.mirrors.lose(1);
        room.pull();
        for _ in 0..8 {
            room.serve_all();
            room.witness();
        }
        assert!(room.mirrors.is_settled(), "after {lists}");
        room.write(1, 1000, &[5]);
        room.serve_all();
        assert_eq!(room.takes(1), Some(Ok(None)), "after {lists}");
    }
}

/// After a power failure the list that names it is found, and only the bitmap says what it lacks.
#[test]
fn a_member_that_fails_while_its_list_is_on_its_way_is_left_out_before_an_answer() {
    let mut room = Room::new(2);
    room.mirrors.lose(1);
    room.pull();
    room.serve_all();
    room.witness();
    room.rejoin_one();
    room.serve_all();
    // The list that calls it resilvering is durable; the caller has not kept its generation yet.
    assert_eq!(room.stable_list(0).unwrap().entries[1].state, MemberState::Resilvering);
    room.write(1, 10_000, &[1]);
    room.serve_all();
    assert_eq!(room.takes(1), Some(Ok(None)));
    room.flush(2);
    room.fail(room.of(1), EIO_ERROR);
    room.serve_all();
    assert!(is_dirty(&room, 10_000));
    assert_eq!(room.takes(2), None, "nothing durable says that it lacks the write");
    for _ in 0..4 {
        room.witness();
        room.serve_all();
    }
    assert_eq!(room.takes(2), Some(Ok(None)));
    assert_eq!(room.stable_list(0).unwrap().entries[1].state, MemberState::Absent);
}

#[test]
fn a_member_that_fails_before_it_was_mended_after_a_power_failure_may_lack_what_was_left_open() {
    let mut room = Room::new(2);
    room.mirrors.may_lack(MIRROR, at(10_000, 1));
    room.mirrors.may_lack(MIRROR, at(20_000, 1));
    assert!(!is_dirty(&room, 10_000));
    room.mirrors.lose(1);
    room.pull();
    assert!(is_dirty(&room, 10_000) && is_dirty(&room, 20_000) && !is_dirty(&room, 30_000));
    // Once they were mended and flushed, nobody lacks them.
    let mut room = Room::new(2);
    room.mirrors.may_lack(MIRROR, at(10_000, 1));
    room.flush(1);
    room.serve_all();
    room.mirrors.lose(1);
    room.pull();
    assert!(!is_dirty(&room, 10_000));
}
