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
        world.good(1, &TEST_UNIT_READY, &[]);
    }
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
