use std::time::Duration;

use super::*;

const TEST_UNIT_READY: [u8; 6] = [0; 6];

#[test]
fn power_on_is_told_once_to_each_nexus_on_each_unit() {
    let mut world = World::fresh();
    for nexus in [ALICE, BOB] {
        for lun in [0, 1] {
            assert_eq!(world.sense(nexus, lun, &TEST_UNIT_READY, &[]), (6, 0x29, 0));
            assert_eq!(world.run(nexus, lun, &TEST_UNIT_READY, &[]).status, Status::Good);
        }
    }
}

#[test]
fn inquiry_and_report_luns_leave_it_and_request_sense_takes_it() {
    let mut world = World::fresh();
    world.good(0, &[0x12, 0, 0, 0, 96, 0], &[]);
    world.good(0, &[0xa0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0], &[]);
    let sense = world.good(0, &[3, 0, 0, 0, 252, 0], &[]);
    assert_eq!((sense[0], sense[2], sense[12], sense[13]), (0x70, 6, 0x29, 0));
    world.good(0, &TEST_UNIT_READY, &[]);
    let sense = world.good(0, &[3, 1, 0, 0, 252, 0], &[]);
    assert_eq!(sense, [0x72, 0, 0, 0, 0, 0, 0, 0]);
}

#[test]
fn it_is_told_before_any_fault_of_the_command() {
    let mut world = World::fresh();
    for cdb in [&[0xff; 6][..], &cdb10(0x28, 0xe1, u32::MAX, 9), &[0x9e, 0x1f, 0, 0, 0, 0]] {
        world.target.open_nexus(ALICE, nexus_spec("alice"));
        assert_eq!(world.fails(0, cdb, &[]), (6, 0x29, 0));
        assert_ne!(world.fails(0, cdb, &[]), (6, 0x29, 0));
    }
}

#[test]
fn a_change_of_capacity_is_told_to_all() {
    let mut world = World::new();
    world.target.resize_unit(ONE, 1 << 30);
    world.target.resize_unit(ONE, 1 << 30);
    assert_eq!(world.sense(ALICE, 0, &TEST_UNIT_READY, &[]), (6, 0x2a, 9));
    assert_eq!(world.sense(BOB, 0, &TEST_UNIT_READY, &[]), (6, 0x2a, 9));
    world.good(0, &TEST_UNIT_READY, &[]);
    world.good(1, &TEST_UNIT_READY, &[]);
}

#[test]
fn a_change_of_the_inventory_is_told_until_report_luns() {
    let mut world = World::new();
    world.target.set_luns(ALICE, BTreeMap::from([(0, ONE), (1, TWO), (300, FAR)]));
    world.good(0, &TEST_UNIT_READY, &[]);
    world.target.set_luns(ALICE, BTreeMap::from([(0, ONE), (1, TWO), (5, HIDDEN)]));
    assert_eq!(world.fails(0, &TEST_UNIT_READY, &[]), (6, 0x3f, 0x0e));
    world.good(0, &[0xa0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0], &[]);
    world.good(1, &TEST_UNIT_READY, &[]);
    assert_eq!(world.fails(5, &TEST_UNIT_READY, &[]), (6, 0x29, 0));
    world.good(5, &TEST_UNIT_READY, &[]);
    assert_eq!(world.run(BOB, 0, &TEST_UNIT_READY, &[]).status, Status::Good);
}

/// SPC-4 7.8.7: LUICLR, which shall be set.
#[test]
fn a_change_of_the_inventory_is_told_on_one_unit_to_each_nexus_by_whatever_means() {
    let means: [&[u8]; 3] = [&TEST_UNIT_READY, &[0xff; 6], &[3, 0, 0, 0, 252, 0]];
    for cdb in means {
        let mut world = World::new();
        for nexus in [ALICE, BOB] {
            world.target.set_luns(nexus, BTreeMap::from([(0, ONE), (1, TWO)]));
        }
        let told = world.run(ALICE, 1, cdb, &[]);
        let code = told.sense.map(|sense| (sense.code.asc, sense.code.ascq));
        let data = told.data_in.to_vec();
        assert_eq!(code.unwrap_or_else(|| (data[12], data[13])), (0x3f, 0x0e));
        world.good(0, &TEST_UNIT_READY, &[]);
        world.good(1, &TEST_UNIT_READY, &[]);
        assert_eq!(world.sense(BOB, 0, &TEST_UNIT_READY, &[]), (6, 0x3f, 0x0e));
        assert_eq!(world.run(BOB, 1, &TEST_UNIT_READY, &[]).status, Status::Good);
    }
}

/// A host that takes the new volume for the old one would destroy it.
#[test]
fn another_volume_under_a_known_number_is_told_also_after_a_while_without_one() {
    let mut world = World::new();
    let without = BTreeMap::from([(0, ONE)]);
    for (volume, told) in [(TWO, false), (HIDDEN, true), (HIDDEN, false), (TWO, true)] {
        world.target.set_luns(ALICE, without.clone());
        world.target.set_luns(ALICE, BTreeMap::from([(0, ONE), (1, volume)]));
        assert_eq!(world.fails(1, &TEST_UNIT_READY, &[]), (6, 0x29, 0));
        if told {
            assert_eq!(world.fails(1, &TEST_UNIT_READY, &[]), (6, 0x3f, 3));
        }
        assert_eq!(world.fails(1, &TEST_UNIT_READY, &[]), (6, 0x3f, 0x0e));
        if told {
            // Who still means the old volume is not let through, however often it tries.
            for cdb in [&TEST_UNIT_READY[..], &cdb10(0x28, 0, 0, 1), &cdb10(0x2a, 0, 0, 1)] {
                assert_eq!(world.fails(1, cdb, &[0; 512]), (5, 0x25, 0));
                assert_eq!(world.fails(1, cdb, &[0; 512]), (5, 0x25, 0));
            }
            world.good(1, &[0x12, 0, 0, 0, 96, 0], &[]);
            assert_eq!(world.fails(1, &TEST_UNIT_READY, &[]), (5, 0x25, 0));
            world.good(1, &[0x12, 1, 0x83, 1, 0, 0], &[]);
        }
        world.good(1, &TEST_UNIT_READY, &[]);
    }
}

/// A volume that comes back in place of another one, of which the nexus never learnt.
#[test]
fn who_did_not_ask_for_the_second_volume_does_not_reach_it_when_it_comes_back() {
    let mut world = World::new();
    for volume in [Some(HIDDEN), None, Some(HIDDEN)] {
        let luns = volume.map(|volume| (1, volume)).into_iter().chain([(0, ONE)]).collect();
        world.target.set_luns(ALICE, luns);
    }
    let told: Vec<_> = (0..5).map(|_| world.sense(ALICE, 1, &TEST_UNIT_READY, &[])).collect();
    assert_eq!(told.last(), Some(&(5, 0x25, 0)), "{told:?}");
    world.good(1, &[0x12, 1, 0x80, 1, 0, 0], &[]);
    world.good(1, &TEST_UNIT_READY, &[]);
}

#[test]
fn a_number_is_held_until_report_luns_was_answered_without_it_and_nobody_addressed_it() {
    let mut world = World::new();
    let rest = Duration::from_secs(600);
    let at = |world: &mut World, seconds| world.target.tick(Duration::from_secs(seconds));
    let held = |world: &World| world.target.held_luns(rest).map(|held| held.1).collect::<Vec<_>>();
    assert!(held(&world).is_empty());
    world.target.set_luns(ALICE, BTreeMap::from([(0, ONE)]));
    at(&mut world, 10_000);
    assert_eq!(held(&world), [1, 300], "nobody was told");
    world.good(0, &[0xa0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0], &[]);
    assert!(held(&world).is_empty());
    assert_eq!(world.fails(300, &TEST_UNIT_READY, &[]), (5, 0x25, 0));
    assert_eq!(held(&world), [300], "somebody still asks for it");
    at(&mut world, 10_600);
    assert!(held(&world).is_empty());
    world.target.set_luns(ALICE, BTreeMap::from([(0, ONE), (300, FAR)]));
    world.target.set_luns(ALICE, BTreeMap::from([(0, ONE)]));
    assert_eq!(world.target.held_luns_of(ALICE, rest), [(300, FAR)]);
    world.target.close_nexus(ALICE);
    assert!(held(&world).is_empty());
}

/// A network fault between the change and the next write must not open the way.
#[test]
fn who_logs_in_again_is_kept_from_what_it_takes_for_another_volume() {
    let mut world = World::new();
    let spec = || NexusSpec { luns: BTreeMap::from([(1, HIDDEN)]), ..nexus_spec("alice") };
    world.target.set_luns(ALICE, BTreeMap::from([(1, HIDDEN)]));
    for _ in 0..2 {
        world.target.close_nexus(ALICE);
        world.target.open_nexus(ALICE, spec());
        assert_eq!(world.fails(1, &TEST_UNIT_READY, &[]), (6, 0x29, 0));
        assert_eq!(world.fails(1, &TEST_UNIT_READY, &[]), (6, 0x3f, 3));
        assert_eq!(world.fails(1, &TEST_UNIT_READY, &[]), (5, 0x25, 0));
    }
    world.good(1, &[0x12, 1, 0x83, 1, 0, 0], &[]);
    world.good(1, &TEST_UNIT_READY, &[]);
    world.target.close_nexus(ALICE);
    world.target.open_nexus(ALICE, spec());
    assert_eq!(world.fails(1, &TEST_UNIT_READY, &[]), (6, 0x29, 0));
    world.good(1, &TEST_UNIT_READY, &[]);
}

#[test]
fn what_an_initiator_may_know_from_before_is_not_held_but_another_volume_there_is_fenced() {
    let mut world = World::new();
    let rest = Duration::from_secs(600);
    world.target.set_former_luns(ALICE, BTreeMap::from([(0, TWO), (7, TWO), (8, TWO)]));
    assert_eq!(world.target.held_luns(rest).count(), 0);
    world.target.set_luns(ALICE, BTreeMap::from([(0, ONE), (7, HIDDEN), (8, TWO)]));
    world.good(0, &[0xa0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0], &[]);
    world.good(0, &TEST_UNIT_READY, &[]);
    assert_eq!(world.fails(7, &TEST_UNIT_READY, &[]), (6, 0x29, 0));
    assert_eq!(world.fails(7, &TEST_UNIT_READY, &[]), (6, 0x3f, 3));
    assert_eq!(world.fails(7, &TEST_UNIT_READY, &[]), (5, 0x25, 0));
    assert_eq!(world.fails(8, &TEST_UNIT_READY, &[]), (6, 0x29, 0));
    world.good(8, &TEST_UNIT_READY, &[]);
}

#[test]
fn conditions_that_pile_up_stay_bounded() {
    let mut world = World::new();
    for size in 1..1000 {
        world.target.resize_unit(ONE, size * 512);
        world.target.manage(TaskId(size), BOB, 0, TaskManagement::LogicalUnitReset);
    }
    assert_eq!(world.fails(0, &TEST_UNIT_READY, &[]), (6, 0x29, 3));
    assert_eq!(world.fails(0, &TEST_UNIT_READY, &[]), (6, 0x2a, 9));
    world.good(0, &TEST_UNIT_READY, &[]);
}
