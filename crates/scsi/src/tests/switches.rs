//! Primitives that are turned off: what is refused, what is told, and to whom.

use ::block::{Switch, SwitchLevel, TurnedOff};

use super::extended_copy::{cdb as copy_cdb, list, segment};
use super::third_party::{abort_cdb, lid4, lid4_cdb, status_cdb};
use super::*;

const TEST_UNIT_READY: [u8; 6] = [0; 6];
const INQUIRY_CHANGED: Code = (6, 0x3f, 3);
const CAPACITY_CHANGED: Code = (6, 0x2a, 9);
const NO_COMMAND: Code = (5, 0x20, 0);

const WRITE_SAME_16: u8 = 0x93;
const UNMAP_CDB: [u8; 10] = [0x42, 0, 0, 0, 0, 0, 0, 0, 24, 0];

fn off(switch: Switch) -> SwitchesOff {
    SwitchesOff::NONE.with(switch)
}

/// Turns one primitive off for a volume, and has the nexuses told.
fn world_without(switch: Switch, volume: VolumeId) -> World {
    let mut world = World::new();
    world.target.set_switches_off_of_unit(volume, off(switch));
    drain(&mut world);
    world
}

/// Takes every unit attention condition that waits; returns those of ALICE and BOB on LUN 0, 1, 300.
fn drain(world: &mut World) -> Vec<Vec<Code>> {
    let mut told = Vec::new();
    for nexus in [ALICE, BOB] {
        for lun in [0, 1, 300] {
            let mut codes = Vec::new();
            while let Some(sense) = world.run(nexus, lun, &TEST_UNIT_READY, &[]).sense {
                codes.push((sense.code.key as u8, sense.code.asc, sense.code.ascq));
            }
            told.push(codes);
        }
    }
    told
}

fn page(world: &mut World, lun: u16, code: u8) -> Vec<u8> {
    world.good(lun, &[0x12, 1, code, 1, 0, 0], &[])
}

/// SUPPORT of REPORT SUPPORTED OPERATION CODES for one command.
fn support(world: &mut World, lun: u16, opcode: u8, action: u16) -> u8 {
    let mut cdb = [0xa3, 0x0c, 3, opcode, 0, 0, 0, 0, 0, 255, 0, 0];
    cdb[4..6].copy_from_slice(&action.to_be_bytes());
    world.good(lun, &cdb, &[])[1]
}

/// The command ends as one that is not known, and says why.
fn refused(world: &mut World, lun: u16, cdb: &[u8], data: &[u8], why: TurnedOff) {
    let completion = world.run(ALICE, lun, cdb, data);
    let code = completion.sense.expect("it is refused").code;
    assert_eq!((code.key as u8, code.asc, code.ascq), NO_COMMAND);
    assert_eq!(completion.turned_off, Some(why));
    assert_eq!(world.requests, []);
}

fn unmap_list() -> [u8; 24] {
    let mut list = [0; 24];
    (list[1], list[3], list[19]) = (22, 16, 8);
    list
}

fn at_volume(switch: Switch) -> TurnedOff {
    TurnedOff { switch, level: SwitchLevel::Volume }
}

#[test]
fn compare_and_write_off_is_refused_and_told_everywhere() {
    let mut world = world_without(Switch::CompareAndWrite, ONE);
    let cdb = compare_and_write_cdb(0, 1);
    let data = [[0; BLOCK], [1; BLOCK]].concat();
    refused(&mut world, 0, &cdb, &data, at_volume(Switch::CompareAndWrite));
    assert_eq!(page(&mut world, 0, 0xb0)[5], 0);
    assert_eq!(support(&mut world, 0, 0x89, 0), 1);
    assert_ne!(page(&mut world, 1, 0xb0)[5], 0);
    assert_eq!(support(&mut world, 1, 0x89, 0), 3);
    world.good(1, &cdb, &data);
}

#[test]
fn extended_copy_off_is_refused_and_told_everywhere() {
    let mut world = world_without(Switch::ExtendedCopy, ONE);
    let why = at_volume(Switch::ExtendedCopy);
    let list = list(&[ONE, ONE], &[segment(0, 8, 8)]);
    refused(&mut world, 0, &copy_cdb(list.len()), &list, why);
    let lid4 = lid4(7, false, &list);
    refused(&mut world, 0, &lid4_cdb(lid4.len()), &lid4, why);
    let token = |action: u8| {
        let mut cdb = copy_cdb(32);
        cdb[1] = action;
        cdb
    };
    refused(&mut world, 0, &token(0x10), &[0; 32], why);
    refused(&mut world, 0, &token(0x11), &[0; 32], why);
    refused(&mut world, 0, &abort_cdb(7), &[], why);
    for action in [0, 3, 4, 5, 7, 8] {
        refused(&mut world, 0, &status_cdb(action, 7), &[], why);
        assert_eq!(support(&mut world, 0, 0x84, action.into()), 1);
        assert_eq!(support(&mut world, 1, 0x84, action.into()), 3);
    }
    for action in [0x00, 0x01, 0x10, 0x11, 0x1c] {
        assert_eq!(support(&mut world, 0, 0x83, action), 1);
        assert_eq!(support(&mut world, 1, 0x83, action), 3);
    }
    assert!(!page(&mut world, 0, 0)[4..].contains(&0x8f));
    assert_eq!(world.fails(0, &[0x12, 1, 0x8f, 1, 0, 0], &[]), INVALID_CDB);
    assert!(page(&mut world, 1, 0)[4..].contains(&0x8f));
    let third_party = |world: &mut World, lun| world.good(lun, &[0x12, 0, 0, 0, 96, 0], &[])[5];
    assert_eq!((third_party(&mut world, 0), third_party(&mut world, 1)), (0x10, 0x18));
}

/// Sent to a volume that has it on, a copy still does not touch one that has it off.
#[test]
fn a_copy_to_or_from_a_volume_that_has_it_off_is_refused_on_any_other() {
    let mut world = world_without(Switch::ExtendedCopy, ONE);
    for ends in [[ONE, TWO], [TWO, ONE]] {
        let list = list(&ends, &[segment(0, 8, 8)]);
        let completion = world.run(ALICE, 1, &copy_cdb(list.len()), &list);
        let code = completion.sense.expect("it is refused").code;
        assert_eq!((code.key as u8, code.asc), (0xa, 0x0d));
        assert_eq!(completion.turned_off, Some(at_volume(Switch::ExtendedCopy)));
    }
    assert_eq!(world.requests, []);
    let list = list(&[TWO, TWO], &[segment(0, 8, 8)]);
    world.good(1, &copy_cdb(list.len()), &list);
}

#[test]
fn write_same_off_is_refused_and_told_everywhere() {
    let mut world = world_without(Switch::WriteSame, ONE);
    let why = at_volume(Switch::WriteSame);
    let zeros = [0; BLOCK];
    refused(&mut world, 0, &cdb10(0x41, 0, 0, 8), &zeros, why);
    refused(&mut world, 0, &cdb16(WRITE_SAME_16, 0, 0, 8), &zeros, why);
    let mut long = [0; 32];
    (long[0], long[7], long[9], long[31]) = (0x7f, 24, 0x0d, 8);
    refused(&mut world, 0, &long, &zeros, why);
    let limits = page(&mut world, 0, 0xb0);
    assert_eq!((limits[4], &limits[36..44]), (0, &[0; 8][..]));
    assert_eq!(page(&mut world, 0, 0xb2)[5], 0x84);
    for (opcode, action) in [(0x41, 0), (0x93, 0), (0x7f, 0x0d)] {
        assert_eq!(support(&mut world, 0, opcode, action), 1);
        assert_eq!(support(&mut world, 1, opcode, action), 3);
    }
    world.good(0, &cdb10(0x2a, 0, 0, 1), &[0; BLOCK]);
    world.good(0, &UNMAP_CDB, &unmap_list());
}

#[test]
fn unmap_off_is_refused_and_told_everywhere() {
    let mut world = world_without(Switch::Unmap, ONE);
    refused(&mut world, 0, &UNMAP_CDB, &unmap_list(), at_volume(Switch::Unmap));
    for (opcode, flags) in [(0x93, 0x08), (0x93, 0x18)] {
        let completion = world.run(ALICE, 0, &cdb16(opcode, flags, 0, 8), &[0; BLOCK]);
        let sense = completion.sense.expect("it is refused");
        assert_eq!((sense.code.asc, sense.field.unwrap().bit), (0x24, Some(3)));
        assert_eq!(completion.turned_off, Some(at_volume(Switch::Unmap)));
    }
    let limits = page(&mut world, 0, 0xb0);
    assert_eq!(limits[20..36], [0; 16]);
    assert_eq!(page(&mut world, 0, 0xb2)[5..7], [0, 0]);
    assert_eq!(page(&mut world, 1, 0xb2)[5..7], [0xe4, 2]);
    let mut capacity = [0; 16];
    (capacity[0], capacity[1], capacity[13]) = (0x9e, 0x10, 32);
    assert_eq!(world.good(0, &capacity, &[])[14], 0);
    assert_eq!(world.good(1, &capacity, &[])[14], 0xc0);
    assert_eq!(support(&mut world, 0, 0x42, 0), 1);
    let usage = |world: &mut World, lun, opcode: u8| {
        world.good(lun, &[0xa3, 0x0c, 3, opcode, 0, 0, 0, 0, 0, 255, 0, 0], &[])[5]
    };
    assert_eq!((usage(&mut world, 0, 0x93), usage(&mut world, 1, 0x93)), (0x01, 0x19));
    world.good(0, &cdb16(WRITE_SAME_16, 0, 0, 8), &[0; BLOCK]);
}

/// Every nexus that sees a change is told once on each unit, and no other is.
#[test]
fn a_change_is_told_once_to_those_for_whom_it_is_one() {
    let (inquiry, none) = (vec![INQUIRY_CHANGED], Vec::<Code>::new());
    let both = vec![INQUIRY_CHANGED, CAPACITY_CHANGED];
    let mut world = World::new();
    world.target.set_switches_off_of_unit(TWO, off(Switch::WriteSame));
    let told = [&none, &inquiry, &none].map(Clone::clone);
    assert_eq!(drain(&mut world), [told.clone(), told].concat());
    world.target.set_switches_off_of_nexus(BOB, off(Switch::WriteSame));
    let bob = [&inquiry, &none, &inquiry].map(Clone::clone);
    assert_eq!(drain(&mut world), [vec![none.clone(); 3], bob.to_vec()].concat());
    world.target.set_switches_off(off(Switch::WriteSame));
    let alice = [&inquiry, &none, &inquiry].map(Clone::clone);
    assert_eq!(drain(&mut world), [alice.to_vec(), vec![none.clone(); 3]].concat());
    world.target.set_switches_off(off(Switch::WriteSame));
    assert_eq!(drain(&mut world), vec![none; 6]);
    world.target.set_switches_off(off(Switch::WriteSame).with(Switch::Unmap));
    assert_eq!(drain(&mut world), vec![both; 6]);
}

#[test]
fn the_narrowest_place_is_named_and_a_host_is_off_on_every_volume() {
    let mut world = World::new();
    world.target.set_switches_off(off(Switch::Unmap));
    world.target.set_switches_off_of_nexus(ALICE, off(Switch::Unmap));
    world.target.set_switches_off_of_unit(ONE, off(Switch::Unmap));
    drain(&mut world);
    for (lun, level) in [(0, SwitchLevel::Volume), (1, SwitchLevel::Host)] {
        let why = TurnedOff { switch: Switch::Unmap, level };
        refused(&mut world, lun, &UNMAP_CDB, &unmap_list(), why);
    }
    let of_bob = world.run(BOB, 1, &UNMAP_CDB, &unmap_list()).turned_off;
    assert_eq!(of_bob.map(|off| off.level), Some(SwitchLevel::Array));
    world.target.set_switches_off(SwitchesOff::NONE);
    drain(&mut world);
    assert_eq!(world.run(BOB, 1, &UNMAP_CDB, &unmap_list()).status, Status::Good);
    let why = TurnedOff { switch: Switch::Unmap, level: SwitchLevel::Host };
    refused_again(&mut world, why);
}

fn refused_again(world: &mut World, why: TurnedOff) {
    world.requests.clear();
    refused(world, 1, &UNMAP_CDB, &unmap_list(), why);
}

/// What began before is finished, can be asked about, and leaves its outcome; nothing begins anew.
#[test]
fn copies_under_way_are_finished_and_their_outcome_is_told() {
    let mut world = World::new();
    world.number(ONE, 0, 8);
    let copied = lid4(7, true, &list(&[ONE, TWO], &[segment(0, 8, 8)]));
    let id = world.begin(ALICE, 0, &lid4_cdb(copied.len()), &copied);
    assert_eq!(world.target.next_done().map(|(done, _)| done), Some(id));
    world.target.set_switches_off(off(Switch::ExtendedCopy));
    for lun in [0, 1, 300] {
        assert_eq!(world.fails_without_steps(lun), INQUIRY_CHANGED);
    }
    while world.step() {}
    assert_eq!(world.bytes(TWO, 8, 8), world.bytes(ONE, 0, 8));
    world.requests.clear();
    assert_eq!(world.good(0, &status_cdb(5, 7), &[])[5], 1);
    let why = TurnedOff { switch: Switch::ExtendedCopy, level: SwitchLevel::Array };
    refused(&mut world, 0, &status_cdb(5, 8), &[], why);
    refused(&mut world, 0, &lid4_cdb(copied.len()), &copied, why);
    assert_eq!(world.fails(0, &abort_cdb(7), &[]), INVALID_CDB);
}

#[test]
fn a_nexus_that_comes_later_finds_it_off_and_is_told_of_the_power_on_only() {
    let carol = NexusId(3);
    let mut world = World::new();
    world.target.set_switches_off(off(Switch::Unmap));
    let spec = NexusSpec { switches_off: off(Switch::WriteSame), ..nexus_spec("carol") };
    world.target.open_nexus(carol, spec);
    assert_eq!(world.sense(carol, 0, &TEST_UNIT_READY, &[]), (6, 0x29, 0));
    let told = world.run(carol, 0, &UNMAP_CDB, &unmap_list()).turned_off;
    assert_eq!(told.map(|off| off.level), Some(SwitchLevel::Array));
    let told = world.run(carol, 0, &cdb10(0x41, 0, 0, 8), &[0; BLOCK]).turned_off;
    assert_eq!(told.map(|off| off.level), Some(SwitchLevel::Host));
    world.target.set_switches_off_of_unit(VolumeId(99), off(Switch::Unmap));
    world.target.set_switches_off_of_nexus(NexusId(99), off(Switch::Unmap));
}
