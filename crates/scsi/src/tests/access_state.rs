//! Target port groups and their states.

use super::*;
use crate::command::{Ordering, Scope};
use crate::commands::table;

const CAROL: NexusId = NexusId(3);

const REPORT: [u8; 12] = [0xa3, 0x0a, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0];

/// CAROL comes through port 2 in group 7.
fn two_paths() -> World {
    let mut world = World::new();
    let other_port =
        NexusSpec { relative_target_port: 2, target_portal_group: 7, ..nexus_spec("carol") };
    world.target.open_nexus(CAROL, other_port);
    for lun in [0, 1, 300] {
        assert_eq!(world.sense(CAROL, lun, &[0; 6], &[]), (6, 0x29, 0));
    }
    world
}

fn group(state: u8, id: u8, status: u8, ports: &[u8]) -> Vec<u8> {
    let mut descriptor = vec![state, 0x8f, 0, id, 0, status, 0, ports.len() as u8];
    descriptor.extend(ports.iter().flat_map(|port| [0, 0, 0, *port]));
    descriptor
}

#[test]
fn every_group_is_reported_on_every_path_in_both_forms() {
    let mut world = two_paths();
    world.target.add_port(3, 7);
    let expected = [vec![0, 0, 0, 28], group(0, 1, 0, &[1]), group(0, 7, 0, &[2, 3])].concat();
    for nexus in [ALICE, CAROL] {
        let told = world.run(nexus, 0, &REPORT, &[]).data_in.to_vec();
        assert_eq!(told, expected);
        let mut extended = REPORT;
        extended[1] |= 0x20;
        let told = world.run(nexus, 0, &extended, &[]).data_in.to_vec();
        assert_eq!(told[..8], [0, 0, 0, 32, 0x10, 0, 0, 0]);
        assert_eq!(told[8..], expected[4..]);
        extended[1] |= 0x40;
        assert_eq!(world.sense(nexus, 0, &extended, &[]), INVALID_CDB);
    }
}

#[test]
fn a_change_of_state_is_told_once_to_every_nexus_on_every_unit() {
    let mut world = two_paths();
    world.target.set_access_state(7, AccessState::ActiveOptimized);
    world.good(0, &[0; 6], &[]);
    world.target.set_access_state(7, AccessState::ActiveNonOptimized);
    world.target.set_access_state(7, AccessState::ActiveNonOptimized);
    for nexus in [ALICE, BOB, CAROL] {
        for lun in [0, 1, 300] {
            assert_eq!(world.sense(nexus, lun, &[0; 6], &[]), (6, 0x2a, 6));
            assert_eq!(world.run(nexus, lun, &[0; 6], &[]).status, Status::Good);
        }
    }
    let expected = [vec![0, 0, 0, 24], group(0, 1, 0, &[1]), group(1, 7, 2, &[2])].concat();
    assert_eq!(world.good(0, &REPORT, &[]), expected);
    let read = world.run(CAROL, 0, &cdb10(0x28, 0, 0, 1), &[]);
    assert_eq!(read.status, Status::Good);
}

#[test]
fn a_path_without_the_medium_answers_what_needs_none() {
    for (state, ascq) in [(AccessState::Standby, 0x0b), (AccessState::Unavailable, 0x0c)] {
        let mut world = two_paths();
        world.target.set_access_state(7, state);
        assert_eq!(world.sense(CAROL, 0, &[0; 6], &[]), (6, 0x2a, 6));
        let answered: [&[u8]; 9] = [
            &[0; 6],
            &[0x12, 0, 0, 0, 96, 0],
            &[0x03, 0, 0, 0, 18, 0],
            &[0xa0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0],
            &cdb10(0x25, 0, 0, 0),
            &cdb16(0x9e, 0x10, 0, 32),
            &REPORT,
            &[0x16, 0, 0, 0, 0, 0],
            &[0x17, 0, 0, 0, 0, 0],
        ];
        for cdb in answered {
            assert_eq!(world.run(CAROL, 0, cdb, &[]).status, Status::Good, "{cdb:x?}");
        }
        for cdb in [cdb10(0x28, 0, 0, 1), cdb10(0x2a, 0, 0, 1), cdb10(0x35, 0, 0, 1)] {
            assert_eq!(world.sense(CAROL, 0, &cdb, &[0; BLOCK]), (2, 4, ascq), "{cdb:x?}");
        }
        assert_eq!(world.fails(0, &[0; 6], &[]), (6, 0x2a, 6));
        world.good(0, &cdb10(0x28, 0, 0, 1), &[]);
    }
}

#[test]
fn nothing_that_needs_the_medium_runs_in_any_state_but_active() {
    let states = [AccessState::Standby, AccessState::Unavailable, AccessState::Transitioning];
    for state in states {
        let mut world = two_paths();
        world.target.set_access_state(7, state);
        world.sense(CAROL, 0, &[0; 6], &[]);
        for row in table::ROWS.iter().filter(|row| row.scope != Scope::AnyLun) {
            let mut cdb = vec![0; row.usage.len()];
            cdb[0] = row.opcode;
            let needs_medium = !matches!(row.ordering, Ordering::Immediate | Ordering::Reserve);
            if needs_medium && row.service_action.is_none() {
                let sense = world.run(CAROL, 0, &cdb, &[]).sense.expect(row.name);
                assert_eq!(sense.code.asc, 0x04, "{} in {state:?}", row.name);
            }
        }
        assert_eq!(world.requests, []);
    }
}

#[test]
fn while_the_state_changes_a_path_only_tells() {
    let mut world = two_paths();
    world.target.set_access_state(7, AccessState::Transitioning);
    assert_eq!(world.sense(CAROL, 0, &[0; 6], &[]), (6, 0x2a, 6));
    for cdb in [&[0; 6][..], &[0x1a, 0, 0x3f, 0, 255, 0], &[0x16, 0, 0, 0, 0, 0]] {
        assert_eq!(world.sense(CAROL, 0, cdb, &[]), (2, 4, 0x0a));
    }
    assert_eq!(world.run(CAROL, 0, &REPORT, &[]).data_in.to_vec()[16], 0x0f);
    world.target.set_access_state(7, AccessState::ActiveOptimized);
    assert_eq!(world.sense(CAROL, 0, &[0; 6], &[]), (6, 0x2a, 6));
    assert_eq!(world.run(CAROL, 0, &[0; 6], &[]).status, Status::Good);
}

#[test]
fn the_unit_names_the_port_and_the_group_that_it_is_asked_through() {
    let mut world = two_paths();
    let page = [0x12, 1, 0x83, 1, 0, 0];
    for (nexus, port, group) in [(ALICE, 1, 1), (CAROL, 2, 7)] {
        let data = world.run(nexus, 0, &page, &[]).data_in.to_vec();
        for descriptor in [[0x51, 0x94, 0, 4, 0, 0, 0, port], [0x51, 0x95, 0, 4, 0, 0, 0, group]] {
            assert!(data.windows(8).any(|window| window == descriptor), "{descriptor:x?}");
        }
    }
    assert_eq!(world.good(0, &[0x12, 0, 0, 0, 96, 0], &[])[5] >> 4 & 3, 1);
}

/// Ports 1 and 2 are this controller's, in groups 1 and 7; port 9 is another's, in group 9.
fn two_controllers() -> World {
    let mut world = two_paths();
    let own = BTreeMap::from([(1, 1), (2, 7)]);
    world.target.set_ports(own, &BTreeMap::from([(9, 9)]));
    for nexus in [ALICE, BOB, CAROL] {
        for lun in [0, 1, 300] {
            world.run(nexus, lun, &[0; 6], &[]);
        }
    }
    world
}

#[test]
fn of_a_unit_that_is_served_here_other_controllers_are_standby() {
    let mut world = two_controllers();
    let expected = [group(0, 1, 0, &[1]), group(0, 7, 0, &[2]), group(2, 9, 0, &[9])].concat();
    assert_eq!(world.good(0, &REPORT, &[])[4..], expected);
    assert_eq!(world.good(0, &[0x12, 0, 0, 0, 96, 0], &[])[6] & 0x10, 0x10, "MULTIP");
}

#[test]
fn a_unit_that_another_controller_serves_is_standby_alone_and_forgets_what_was_reserved() {
    let mut world = two_controllers();
    world.good(0, &[0x16, 0, 0, 0, 0, 0], &[]);
    for _ in 0..2 {
        world.target.set_unit_access(ONE, AccessState::Standby);
    }
    for nexus in [ALICE, BOB, CAROL] {
        assert_eq!(world.sense(nexus, 0, &[0; 6], &[]), (6, 0x2a, 6));
        assert_eq!(world.run(nexus, 0, &[0; 6], &[]).status, Status::Good);
        assert_eq!(world.run(nexus, 1, &[0; 6], &[]).status, Status::Good, "another unit");
    }
    let expected = [group(2, 1, 2, &[1]), group(2, 7, 2, &[2]), group(0, 9, 2, &[9])].concat();
    assert_eq!(world.good(0, &REPORT, &[])[4..], expected);
    world.good(0, &cdb10(0x25, 0, 0, 0), &[]);
    let refused: [&[u8]; 6] = [
        &cdb10(0x28, 0, 0, 1),
        &cdb10(0x2a, 0, 0, 1),
        &[0x16, 0, 0, 0, 0, 0],
        &[0x17, 0, 0, 0, 0, 0],
        &[0x5e, 0, 0, 0, 0, 0, 0, 0, 8, 0],
        &[0x1a, 0, 0x3f, 0, 255, 0],
    ];
    for cdb in refused {
        assert_eq!(world.fails(0, cdb, &[0; BLOCK]), (2, 4, 0x0b), "{cdb:x?}");
    }
    assert_eq!(world.requests, []);

    world.target.add_unit(ONE, spec(ONE));
    assert_eq!(world.fails(0, &cdb10(0x28, 0, 0, 1), &[]), (2, 4, 0x0b), "not before it is said");
    world.target.set_unit_access(ONE, AccessState::ActiveOptimized);
    assert_eq!(world.sense(BOB, 0, &[0; 6], &[]), (6, 0x2a, 6));
    let read = world.run(BOB, 0, &cdb10(0x28, 0, 0, 1), &[]);
    assert_eq!(read.status, Status::Good, "nobody has it reserved any more");
}

#[test]
fn a_unit_that_no_controller_may_reach_is_unavailable_and_one_that_comes_is_in_transition() {
    let mut world = two_controllers();
    for (state, ascq) in [(AccessState::Unavailable, 0x0c), (AccessState::Transitioning, 0x0a)] {
        world.target.set_unit_access(ONE, state);
        assert_eq!(world.fails(0, &[0; 6], &[]), (6, 0x2a, 6));
        assert_eq!(world.fails(0, &cdb10(0x28, 0, 0, 1), &[]), (2, 4, ascq));
        world.good(0, &REPORT, &[]);
        world.target.add_unit(ONE, spec(ONE));
    }
    world.target.add_absent_unit(VolumeId(99), LogicalUnitSpec { size_bytes: 0, ..spec(ONE) });
    world.target.set_luns(ALICE, BTreeMap::from([(0, ONE), (5, VolumeId(99))]));
    world.target.set_unit_access(VolumeId(99), AccessState::Standby);
    for _ in 0..4 {
        world.run(ALICE, 5, &[0; 6], &[]);
    }
    assert_eq!(world.fails(5, &cdb10(0x25, 0, 0, 0), &[]), (2, 4, 0x0b), "its size is not known");
}

#[test]
fn of_another_controller_hosts_are_told_what_it_says_unless_it_cannot_be_true() {
    let mut world = two_controllers();
    let told = |state| BTreeMap::from([(9, state)]);
    world.target.set_unit_access(ONE, AccessState::Standby);
    world.fails(0, &[0; 6], &[]);
    for (state, code) in [(AccessState::Transitioning, 0x0f), (AccessState::Unavailable, 3)] {
        for _ in 0..2 {
            world.target.set_peer_access(ONE, &told(state));
        }
        assert_eq!(world.fails(0, &[0; 6], &[]), (6, 0x2a, 6));
        assert_eq!(world.run(ALICE, 0, &[0; 6], &[]).status, Status::Good);
        assert_eq!(world.run(ALICE, 1, &[0; 6], &[]).status, Status::Good, "another unit");
        assert_eq!(world.good(0, &REPORT, &[])[4 + 24..], group(code, 9, 2, &[9]));
    }
    // It says that it serves what is served here: it spoke of before.
    world.target.set_peer_access(ONE, &told(AccessState::ActiveOptimized));
    world.target.set_unit_access(ONE, AccessState::ActiveOptimized);
    world.fails(0, &[0; 6], &[]);
    assert_eq!(world.good(0, &REPORT, &[])[4 + 24..], group(2, 9, 2, &[9]));
    world.target.set_unit_access(ONE, AccessState::Transitioning);
    world.fails(0, &[0; 6], &[]);
    assert_eq!(world.good(0, &REPORT, &[])[4 + 24..], group(0, 9, 2, &[9]));
    // It falls silent.
    world.target.set_peer_access(ONE, &BTreeMap::new());
    world.fails(0, &[0; 6], &[]);
    assert_eq!(world.good(0, &REPORT, &[])[4 + 24..], group(2, 9, 2, &[9]));
}
