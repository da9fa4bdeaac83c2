//! PERSISTENT RESERVE IN and OUT, as commands.

use super::*;
use crate::transport_id;

const REGISTER: u8 = 0;
const RESERVE: u8 = 1;
const RELEASE: u8 = 2;
const CLEAR: u8 = 3;
const PREEMPT: u8 = 4;
const PREEMPT_AND_ABORT: u8 = 5;
const REGISTER_AND_IGNORE: u8 = 6;
const REGISTER_AND_MOVE: u8 = 7;

const WRITE_EXCLUSIVE: u8 = 1;
const EXCLUSIVE_ACCESS: u8 = 3;
const EXCLUSIVE_ACCESS_ALL_REGISTRANTS: u8 = 8;

const APTPL: u8 = 1;
const ALL_TG_PT: u8 = 4;
const SPEC_I_PT: u8 = 8;

const CAROL: NexusId = NexusId(3);

fn out_cdb(action: u8, kind: u8, length: u32) -> [u8; 10] {
    let mut cdb = [0x5f, action, kind, 0, 0, 0, 0, 0, 0, 0];
    cdb[5..9].copy_from_slice(&length.to_be_bytes());
    cdb
}

fn list(key: u64, action_key: u64, flags: u8) -> Vec<u8> {
    let mut list = key.to_be_bytes().to_vec();
    list.extend(action_key.to_be_bytes());
    list.extend([0, 0, 0, 0, flags, 0, 0, 0]);
    list
}

fn out(world: &mut World, nexus: NexusId, action: u8, kind: u8, list: &[u8]) -> Completion {
    world.run(nexus, 0, &out_cdb(action, kind, list.len() as u32), list)
}

fn done(world: &mut World, nexus: NexusId, action: u8, kind: u8, list: &[u8]) {
    let completion = out(world, nexus, action, kind, list);
    assert_eq!(completion.status, Status::Good, "{:?}", completion.sense);
}

fn conflict(world: &mut World, nexus: NexusId, action: u8, kind: u8, list: &[u8]) {
    assert_eq!(out(world, nexus, action, kind, list).status, Status::ReservationConflict);
}

fn refused(world: &mut World, nexus: NexusId, action: u8, kind: u8, list: &[u8]) -> Code {
    world.sense(nexus, 0, &out_cdb(action, kind, list.len() as u32), list)
}

fn ask(world: &mut World, action: u8) -> Vec<u8> {
    world.good(0, &[0x5e, action, 0, 0, 0, 0, 0, 0xff, 0xff, 0], &[])
}

fn keys(world: &mut World) -> Vec<u64> {
    let data = ask(world, 0);
    assert_eq!(data[4..8], (data.len() as u32 - 8).to_be_bytes());
    data[8..].as_chunks().0.iter().map(|key| u64::from_be_bytes(*key)).collect()
}

fn who(name: &str, port: u16) -> Registrant {
    Registrant {
        initiator_name: format!("iqn.2026-01.example:{name}"),
        isid: [0; 6],
        relative_target_port: port,
    }
}

/// ALICE has key 1, BOB key 2, CAROL is not registered.
fn registered(flags: u8) -> World {
    let mut world = World::new();
    world.target.open_nexus(CAROL, nexus_spec("carol"));
    assert_eq!(world.sense(CAROL, 0, &[0; 6], &[]), (6, 0x29, 0));
    done(&mut world, ALICE, REGISTER, 0, &list(0, 1, flags));
    done(&mut world, BOB, REGISTER, 0, &list(0, 2, flags));
    world
}

#[test]
fn keys_are_registered_changed_and_removed() {
    let mut world = registered(0);
    assert_eq!(keys(&mut world), [1, 2]);
    conflict(&mut world, CAROL, REGISTER, 0, &list(9, 3, 0));
    conflict(&mut world, ALICE, REGISTER, 0, &list(9, 3, 0));
    done(&mut world, ALICE, REGISTER, 0, &list(1, 5, 0));
    done(&mut world, ALICE, REGISTER_AND_IGNORE, 0, &list(77, 6, 0));
    assert_eq!(keys(&mut world), [6, 2]);
    assert_eq!(ask(&mut world, 0)[..4], 4u32.to_be_bytes());
    done(&mut world, CAROL, REGISTER, 0, &list(0, 0, 0));
    done(&mut world, CAROL, REGISTER_AND_IGNORE, 0, &list(0, 0, 0));
    done(&mut world, BOB, REGISTER, 0, &list(2, 0, 0));
    assert_eq!(keys(&mut world), [6]);
}

#[test]
fn only_registrants_may_do_anything_else() {
    let mut world = registered(0);
    for action in [RESERVE, RELEASE, CLEAR, PREEMPT, PREEMPT_AND_ABORT] {
        conflict(&mut world, CAROL, action, WRITE_EXCLUSIVE, &list(0, 1, 0));
        conflict(&mut world, ALICE, action, WRITE_EXCLUSIVE, &list(2, 1, 0));
    }
    let transport_id = transport_id::emit(&who("bob", 1));
    conflict(&mut world, CAROL, REGISTER_AND_MOVE, 0, &move_list(0, 4, 0, 1, &transport_id));
}

#[test]
fn the_reservation_is_told_and_kept_against_others() {
    let mut world = registered(0);
    assert_eq!(ask(&mut world, 1).len(), 8);
    done(&mut world, ALICE, RESERVE, WRITE_EXCLUSIVE, &list(1, 0, 0));
    done(&mut world, ALICE, RESERVE, WRITE_EXCLUSIVE, &list(1, 0, 0));
    conflict(&mut world, ALICE, RESERVE, EXCLUSIVE_ACCESS, &list(1, 0, 0));
    conflict(&mut world, BOB, RESERVE, WRITE_EXCLUSIVE, &list(2, 0, 0));
    let told = ask(&mut world, 1);
    assert_eq!(told[4..8], 16u32.to_be_bytes());
    assert_eq!(told[8..], [0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1, 0, 0]);
    let invalid = refused(&mut world, ALICE, RELEASE, EXCLUSIVE_ACCESS, &list(1, 0, 0));
    assert_eq!(invalid, (5, 0x26, 4));
    done(&mut world, ALICE, RELEASE, WRITE_EXCLUSIVE, &list(1, 0, 0));
    assert_eq!(ask(&mut world, 1).len(), 8);
    assert_eq!(world.run(BOB, 0, &[0; 6], &[]).status, Status::Good);
}

#[test]
fn each_command_conflicts_as_the_standard_says() {
    // Command, whether it conflicts under write exclusive, and under exclusive access.
    let table: [(&[u8], bool, bool); 20] = [
        (&[0; 6], false, false),
        (&[0x12, 0, 0, 0, 96, 0], false, false),
        (&[0x03, 0, 0, 0, 18, 0], false, false),
        (&[0xa0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0], false, false),
        (&cdb10(0x25, 0, 0, 0), false, false),
        (&cdb16(0x9e, 0x10, 0, 32), false, false),
        (&[0xa3, 0x0a, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0], false, false),
        (&[0xa3, 0x0c, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0], false, false),
        (&[0x5e, 0, 0, 0, 0, 0, 0, 0, 255, 0], false, false),
        (&cdb10(0x28, 0, 0, 1), false, true),
        (&cdb10(0x2f, 0, 0, 1), false, true),
        (&cdb10(0x34, 0, 0, 1), false, true),
        (&cdb16(0x9e, 0x12, 0, 64), false, true),
        (&cdb10(0x2a, 0, 0, 1), true, true),
        (&cdb10(0x41, 0, 0, 1), true, true),
        (&cdb10(0x35, 0, 0, 1), true, true),
        (&[0x42, 0, 0, 0, 0, 0, 0, 0, 0, 0], true, true),
        (&compare_and_write_cdb(0, 1), true, true),
        (&[0x1a, 0, 0x3f, 0, 255, 0], true, true),
        (&[0x16, 0, 0, 0, 0, 0], true, true),
    ];
    let mut world = registered(0);
    for (kind, exclusive) in [(WRITE_EXCLUSIVE, false), (EXCLUSIVE_ACCESS, true)] {
        done(&mut world, ALICE, RESERVE, kind, &list(1, 0, 0));
        for (cdb, writers, readers) in table {
            let conflicts = if exclusive { readers } else { writers };
            let data = vec![0; if cdb[0] == 0x89 { 2 * BLOCK } else { BLOCK }];
            for nexus in [BOB, CAROL] {
                let status = world.run(nexus, 0, cdb, &data).status;
                assert_eq!(status == Status::ReservationConflict, conflicts, "{cdb:x?}");
            }
            let status = world.run(ALICE, 0, cdb, &data).status;
            assert_eq!(status, Status::Good, "{cdb:x?}");
        }
        done(&mut world, ALICE, RELEASE, kind, &list(1, 0, 0));
    }
}

/// EXTENDED COPY of the first block.
fn one_block_copy(from: VolumeId, to: VolumeId) -> ([u8; 16], Vec<u8>) {
    let mut list = vec![0; 108];
    (list[1], list[3], list[11]) = (0x18, 64, 28);
    for (at, volume) in [(16, from), (48, to)] {
        (list[at], list[at + 4], list[at + 5], list[at + 7]) = (0xe4, 1, 3, 16);
        list[at + 8..at + 24].copy_from_slice(&naa(volume));
        list[at + 30] = 2;
    }
    (list[80], list[83], list[87], list[91]) = (2, 0x18, 1, 1);
    let mut cdb = [0; 16];
    (cdb[0], cdb[13]) = (0x83, 108);
    (cdb, list)
}

#[test]
fn a_copy_asks_the_reservations_of_both_ends() {
    let mut world = registered(0);
    done(&mut world, ALICE, RESERVE, EXCLUSIVE_ACCESS, &list(1, 0, 0));
    for (from, to) in [(ONE, TWO), (TWO, ONE)] {
        let (cdb, list) = one_block_copy(from, to);
        let status = world.run(BOB, 1, &cdb, &list).status;
        assert_eq!(status, Status::ReservationConflict);
        assert_eq!(world.run(ALICE, 1, &cdb, &list).status, Status::Good);
    }
}

#[test]
fn scsi_2_reservations_and_registrations_exclude_each_other() {
    const RESERVE_6: [u8; 6] = [0x16, 0, 0, 0, 0, 0];
    const RELEASE_6: [u8; 6] = [0x17, 0, 0, 0, 0, 0];
    let mut world = World::new();
    world.good(0, &RESERVE_6, &[]);
    for nexus in [ALICE, BOB] {
        conflict(&mut world, nexus, REGISTER, 0, &list(0, 1, 0));
        let status = world.run(nexus, 0, &[0x5e, 0, 0, 0, 0, 0, 0, 0, 8, 0], &[]).status;
        assert_eq!(status, Status::ReservationConflict);
    }
    world.good(0, &RELEASE_6, &[]);
    let mut world = registered(0);
    for cdb in [&RESERVE_6, &RELEASE_6] {
        for nexus in [ALICE, BOB, CAROL] {
            assert_eq!(world.run(nexus, 0, cdb, &[]).status, Status::ReservationConflict);
        }
    }
    done(&mut world, ALICE, RESERVE, EXCLUSIVE_ACCESS_ALL_REGISTRANTS, &list(1, 0, 0));
    for cdb in [&RESERVE_6, &RELEASE_6] {
        for nexus in [ALICE, BOB] {
            assert_eq!(world.run(nexus, 0, cdb, &[]).status, Status::Good);
        }
        assert_eq!(world.run(CAROL, 0, cdb, &[]).status, Status::ReservationConflict);
    }
    assert_eq!(world.run(BOB, 0, &cdb10(0x2a, 0, 0, 1), &[0; BLOCK]).status, Status::Good);
}

#[test]
fn clear_and_preempt_tell_those_who_lost() {
    let mut world = registered(0);
    done(&mut world, ALICE, RESERVE, WRITE_EXCLUSIVE, &list(1, 0, 0));
    done(&mut world, BOB, PREEMPT, EXCLUSIVE_ACCESS, &list(2, 1, 0));
    assert_eq!(world.fails(0, &[0; 6], &[]), (6, 0x2a, 5));
    assert_eq!(keys(&mut world), [2]);
    done(&mut world, ALICE, REGISTER, 0, &list(0, 1, 0));
    done(&mut world, ALICE, CLEAR, 0, &list(1, 0, 0));
    assert_eq!(world.sense(BOB, 0, &[0; 6], &[]), (6, 0x2a, 3));
    assert_eq!(keys(&mut world), []);
    world.good(0, &[0; 6], &[]);
}

#[test]
fn preempt_and_abort_is_answered_after_the_last_aborted_task() {
    let mut world = registered(0);
    let write = world.begin(BOB, 0, &cdb10(0x2a, 0, 0, 1), &pattern(1, 1));
    let (request, ..) = world.target.next_request().unwrap();
    let waiting = world.begin(BOB, 0, &cdb10(0x2a, 0, 1, 1), &pattern(1, 1));
    let other = world.begin(CAROL, 0, &cdb10(0x28, 0, 1, 1), &[]);
    let cdb = out_cdb(PREEMPT_AND_ABORT, WRITE_EXCLUSIVE, 24);
    let preempt = world.begin(ALICE, 0, &cdb, &list(1, 2, 0));
    let (ended, completion) = world.target.next_done().unwrap();
    assert_eq!((ended, completion.status), (waiting, Status::TaskAborted));
    assert!(world.target.next_done().is_none());
    world.target.completed(request, Ok(Response::Done));
    let ended: Vec<_> = std::iter::from_fn(|| world.target.next_done())
        .map(|(id, completion)| (id, completion.status))
        .collect();
    assert_eq!(ended, [(write, Status::TaskAborted), (preempt, Status::Good)]);
    while world.step() {}
    assert_eq!(world.target.next_done().unwrap().0, other);
    assert_eq!(world.sense(BOB, 0, &[0; 6], &[]), (6, 0x2a, 5));
    assert_eq!(world.target.tasks_under_way(), 0);
}

#[test]
fn a_preempt_and_abort_that_is_aborted_leaves_nothing_behind() {
    let mut world = registered(0);
    world.begin(BOB, 0, &cdb10(0x2a, 0, 0, 1), &pattern(1, 1));
    let (request, ..) = world.target.next_request().unwrap();
    let cdb = out_cdb(PREEMPT_AND_ABORT, WRITE_EXCLUSIVE, 24);
    let preempt = world.begin(ALICE, 0, &cdb, &list(1, 2, 0));
    world.target.manage(TaskId(999), ALICE, emit_lun(0), TaskManagement::AbortTask(preempt));
    assert_eq!(world.target.next_aborted(), Some(preempt));
    world.target.completed(request, Ok(Response::Done));
    assert_eq!(world.target.next_done().unwrap().1.status, Status::TaskAborted);
    assert!(world.target.next_done().is_none());
    assert_eq!(world.target.tasks_under_way(), 0);
    assert_eq!(keys(&mut world), [1]);
}

#[test]
fn with_aptpl_nothing_happens_before_it_is_durable() {
    let mut world = World::new();
    let register = world.begin(ALICE, 0, &out_cdb(REGISTER, 0, 24), &list(0, 1, APTPL));
    let (save, volume, state) = world.target.next_save().unwrap();
    assert_eq!(volume, ONE);
    assert_eq!(state.reservations.unwrap().keys, [(who("alice", 1), 1)]);
    assert!(world.target.next_done().is_none());
    assert_eq!(keys_of_other(&mut world), []);
    world.target.saved(save, true);
    assert_eq!(world.target.next_done().unwrap().0, register);
    assert_eq!(keys(&mut world), [1]);
}

fn keys_of_other(world: &mut World) -> Vec<u8> {
    let completion = world.run(BOB, 0, &[0x5e, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0], &[]);
    completion.data_in.to_vec()[8..].to_vec()
}

#[test]
fn what_cannot_be_stored_does_not_happen() {
    let mut world = World::new();
    let cdb = out_cdb(REGISTER, 0, 24);
    for _ in 0..2 {
        world.begin(ALICE, 0, &cdb, &list(0, 1, APTPL));
        let (save, ..) = world.target.next_save().unwrap();
        world.target.saved(save, false);
        let (_, completion) = world.target.next_done().unwrap();
        assert_eq!(completion.sense.unwrap().code.asc, 0x44);
        assert_eq!(keys(&mut world), []);
    }
    // What is on disk is not known, so that even a state without anything to keep is stored.
    world.begin(ALICE, 0, &cdb, &list(0, 1, 0));
    let (save, _, state) = world.target.next_save().unwrap();
    assert!(state.is_empty());
    world.target.saved(save, true);
    assert_eq!(world.target.next_done().unwrap().1.status, Status::Good);
    done(&mut world, ALICE, REGISTER, 0, &list(1, 2, 0));
}

#[test]
fn a_command_that_is_aborted_while_it_is_stored_still_has_its_effect() {
    let mut world = World::new();
    let register = world.begin(ALICE, 0, &out_cdb(REGISTER, 0, 24), &list(0, 1, APTPL));
    let (save, ..) = world.target.next_save().unwrap();
    world.target.manage(TaskId(99), ALICE, emit_lun(0), TaskManagement::LogicalUnitReset);
    assert_eq!(world.target.next_management_done(), None);
    world.target.close_nexus(BOB);
    world.target.saved(save, true);
    assert!(world.target.next_management_done().is_some());
    assert_eq!(world.target.next_aborted(), Some(register));
    assert_eq!(world.fails(0, &[0; 6], &[]), (6, 0x29, 3));
    assert_eq!(keys(&mut world), [1]);
}

#[test]
fn a_unit_that_is_removed_while_its_state_is_stored_is_forgotten() {
    let mut world = World::new();
    world.begin(ALICE, 0, &out_cdb(REGISTER, 0, 24), &list(0, 1, APTPL));
    let (save, ..) = world.target.next_save().unwrap();
    world.target.remove_unit(ONE);
    world.target.add_unit(ONE, spec(ONE));
    world.target.saved(save, true);
    assert!(world.target.next_done().is_some());
    assert_eq!(keys(&mut world), []);
}

#[test]
fn aptpl_outlasts_a_loss_of_power_and_its_absence_does_not() {
    let mut world = registered(APTPL);
    done(&mut world, ALICE, RESERVE, EXCLUSIVE_ACCESS, &list(1, 0, 0));
    assert_eq!(ask(&mut world, 2), [0, 8, 0x1d, 0x81, 0xea, 0x01, 0, 0]);
    let stored = world.stored.remove(&ONE).unwrap();
    let mut world = World::new();
    world.target.restore_unit(ONE, stored);
    assert_eq!(keys(&mut world), [1, 2]);
    assert_eq!(ask(&mut world, 1)[..4], [0; 4]);
    let status = world.run(BOB, 0, &cdb10(0x28, 0, 0, 1), &[]).status;
    assert_eq!(status, Status::ReservationConflict);
    done(&mut world, ALICE, REGISTER, 0, &list(1, 4, 0));
    assert!(world.stored[&ONE].is_empty());
    assert_eq!(ask(&mut world, 2)[3], 0x80);
}

#[test]
fn registrations_outlast_sessions_and_resets() {
    let mut world = registered(0);
    done(&mut world, ALICE, RESERVE, WRITE_EXCLUSIVE, &list(1, 0, 0));
    world.target.close_nexus(ALICE);
    world.target.manage(TaskId(99), BOB, emit_lun(0), TaskManagement::LogicalUnitReset);
    world.target.next_management_done().unwrap();
    assert_eq!(world.sense(BOB, 0, &[0; 6], &[]), (6, 0x29, 3));
    let write = cdb10(0x2a, 0, 0, 1);
    assert_eq!(world.run(BOB, 0, &write, &[0; BLOCK]).status, Status::ReservationConflict);
    world.target.open_nexus(NexusId(9), nexus_spec("alice"));
    assert_eq!(world.sense(NexusId(9), 0, &[0; 6], &[]), (6, 0x29, 0));
    assert_eq!(world.run(NexusId(9), 0, &write, &[0; BLOCK]).status, Status::Good);
}

fn specify(flags: u8, ids: &[Vec<u8>]) -> Vec<u8> {
    let ids = ids.concat();
    [list(0, 5, SPEC_I_PT | flags), (ids.len() as u32).to_be_bytes().to_vec(), ids].concat()
}

#[test]
fn spec_i_pt_registers_others_and_all_tg_pt_all_ports() {
    let mut world = World::new();
    let other_port = NexusSpec { relative_target_port: 2, ..nexus_spec("dave") };
    world.target.open_nexus(NexusId(4), other_port);
    let ids = [transport_id::emit(&who("bob", 1)), transport_id::emit(&who("absent", 1))];
    done(&mut world, ALICE, REGISTER, 0, &specify(ALL_TG_PT, &ids));
    assert_eq!(keys(&mut world), [5; 6]);
    done(&mut world, BOB, RESERVE, WRITE_EXCLUSIVE, &list(5, 0, 0));
    let full = ask(&mut world, 3);
    let mut at = 8;
    let mut seen = Vec::new();
    while at < full.len() {
        let length = u32::from_be_bytes(full[at + 20..at + 24].try_into().unwrap()) as usize;
        let (port, _) = transport_id::parse(&full[at + 24..]).unwrap();
        let name = port.name.rsplit_once(':').unwrap().1.to_owned();
        seen.push((name, full[at + 19], full[at + 12], full[at + 13]));
        at += 24 + length;
    }
    let expected =
        [("absent", 1), ("absent", 2), ("alice", 1), ("alice", 2), ("bob", 1), ("bob", 2)];
    for ((name, port), found) in expected.into_iter().zip(&seen) {
        let held = u8::from((name, port) == ("bob", 1));
        assert_eq!(*found, (name.to_owned(), port, held, held * WRITE_EXCLUSIVE));
    }
    done(&mut world, ALICE, REGISTER, 0, &list(5, 0, ALL_TG_PT));
    assert_eq!(keys(&mut world), [5; 4]);
}

#[test]
fn a_transport_id_without_isid_names_the_only_session_of_its_initiator() {
    let mut world = World::new();
    let mut id = transport_id::emit(&who("bob", 1));
    id[0] = 0x05;
    let cut = id[4..].iter().position(|&byte| byte == b',').unwrap();
    id[4 + cut..].fill(0);
    done(&mut world, ALICE, REGISTER, 0, &specify(0, std::slice::from_ref(&id)));
    assert_eq!(keys(&mut world), [5, 5]);
    done(&mut world, BOB, CLEAR, 0, &list(5, 0, 0));
    assert_eq!(world.fails(0, &[0; 6], &[]), (6, 0x2a, 3));
    let second = NexusSpec { isid: [7; 6], ..nexus_spec("bob") };
    world.target.open_nexus(CAROL, second);
    let list = specify(0, std::slice::from_ref(&id));
    assert_eq!(refused(&mut world, ALICE, REGISTER, 0, &list), INVALID_LIST);
}

#[test]
fn specified_registrations_are_all_made_or_none() {
    let mut world = World::new();
    let good = transport_id::emit(&who("bob", 1));
    let whole = specify(0, std::slice::from_ref(&good));
    for cut in 0..whole.len() {
        let code = refused(&mut world, ALICE, REGISTER, 0, &whole[..cut]);
        assert!(code == LIST_LENGTH || code == INVALID_LIST, "{cut}");
    }
    let mut bad = good.clone();
    bad[0] = 0x46;
    let list_with_bad = specify(0, &[good.clone(), bad]);
    assert_eq!(refused(&mut world, ALICE, REGISTER, 0, &list_with_bad), INVALID_LIST);
    assert_eq!(refused(&mut world, ALICE, REGISTER_AND_IGNORE, 0, &whole), INVALID_LIST);
    assert_eq!(keys(&mut world), []);
    done(&mut world, ALICE, REGISTER, 0, &whole);
    let again = [list(5, 6, SPEC_I_PT), whole[24..].to_vec()].concat();
    assert_eq!(refused(&mut world, ALICE, REGISTER, 0, &again), INVALID_LIST);
    assert_eq!(keys(&mut world), [5, 5]);
}

fn move_list(key: u64, new_key: u64, flags: u8, port: u16, id: &[u8]) -> Vec<u8> {
    let mut list = list(key, new_key, 0);
    list[17] = flags;
    list[18..20].copy_from_slice(&port.to_be_bytes());
    list[20..24].copy_from_slice(&(id.len() as u32).to_be_bytes());
    list.extend(id);
    list
}

#[test]
fn register_and_move_hands_the_reservation_over() {
    let mut world = registered(0);
    let bob = transport_id::emit(&who("bob", 1));
    conflict(&mut world, ALICE, REGISTER_AND_MOVE, 0, &move_list(1, 7, 0, 1, &bob));
    done(&mut world, ALICE, RESERVE, WRITE_EXCLUSIVE, &list(1, 0, 0));
    for (list, code) in [
        (move_list(1, 0, 0, 1, &bob), INVALID_LIST),
        (move_list(1, 7, 0, 9, &bob), INVALID_LIST),
        (move_list(1, 7, 0, 1, &transport_id::emit(&who("alice", 1))), INVALID_LIST),
        (move_list(1, 7, 0, 1, &[]), INVALID_LIST),
        (move_list(1, 7, 0, 1, &[0; 24]), INVALID_LIST),
        (move_list(1, 7, 0, 1, &bob)[..40].to_vec(), LIST_LENGTH),
    ] {
        assert_eq!(refused(&mut world, ALICE, REGISTER_AND_MOVE, 0, &list), code);
    }
    done(&mut world, ALICE, REGISTER_AND_MOVE, 0, &move_list(1, 7, 2, 1, &bob));
    assert_eq!(keys(&mut world), [7]);
    let write = cdb10(0x2a, 0, 0, 1);
    assert_eq!(world.run(ALICE, 0, &write, &[0; BLOCK]).status, Status::ReservationConflict);
    assert_eq!(world.run(BOB, 0, &write, &[0; BLOCK]).status, Status::Good);
}

#[test]
fn fields_that_make_no_sense_are_refused() {
    let mut world = registered(0);
    for action in [RESERVE, RELEASE, PREEMPT, PREEMPT_AND_ABORT] {
        assert_eq!(refused(&mut world, ALICE, action, 0x11, &list(1, 2, 0)), INVALID_CDB);
    }
    for kind in [0, 2, 4, 9, 15] {
        assert_eq!(refused(&mut world, ALICE, RESERVE, kind, &list(1, 0, 0)), INVALID_CDB);
    }
    for length in [0, 8, 23, 25, 28] {
        let list = vec![0; length];
        for action in [REGISTER, RESERVE, RELEASE, CLEAR, PREEMPT, REGISTER_AND_IGNORE] {
            assert_eq!(refused(&mut world, ALICE, action, 1, &list), LIST_LENGTH);
        }
    }
    let short = world.run(ALICE, 0, &out_cdb(REGISTER, 0, 24), &[0; 20]);
    assert_eq!(short.sense.unwrap().code.asc, 0x1a);
    for (opcode, action) in [(0x5e, 4), (0x5e, 31), (0x5f, 8), (0x5f, 31)] {
        let mut cdb = [0; 10];
        (cdb[0], cdb[1]) = (opcode, action);
        assert_eq!(world.fails(0, &cdb, &[]), INVALID_CDB);
    }
    assert_eq!(keys(&mut world), [1, 2]);
}

#[test]
fn no_more_is_registered_than_the_limit() {
    let mut world = World::new();
    let names = (0..limits::REGISTRATIONS_PER_UNIT_MAX).map(|at| format!("h{at:04}"));
    let ids: Vec<_> = names.map(|name| transport_id::emit(&who(&name, 1))).collect();
    let few: Vec<_> = ids[..10].to_vec();
    assert_eq!(refused(&mut world, ALICE, REGISTER, 0, &specify(0, &ids)), (5, 0x55, 4));
    assert_eq!(keys(&mut world), []);
    done(&mut world, ALICE, REGISTER, 0, &specify(0, &few));
    assert_eq!(keys(&mut world).len(), 11);
}

#[test]
fn hidden_reservations_are_neither_listed_nor_taken() {
    let mut world = World::new();
    world.target.set_reservations_hidden(ONE, true);
    for cdb in [
        &[0x16, 0, 0, 0, 0, 0][..],
        &[0x17, 0, 0, 0, 0, 0],
        &[0x56, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        &[0x57, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        &[0x5e, 0, 0, 0, 0, 0, 0, 0, 8, 0],
        &out_cdb(REGISTER, 0, 24),
    ] {
        assert_eq!(world.fails(0, cdb, &list(0, 1, 0)), (5, 0x20, 0), "{cdb:x?}");
        let one = world.good(0, &[0xa3, 0x0c, 3, cdb[0], 0, 0, 0, 0, 0, 255, 0, 0], &[]);
        assert_eq!(one[1], 1);
        let one = world.good(1, &[0xa3, 0x0c, 3, cdb[0], 0, 0, 0, 0, 0, 255, 0, 0], &[]);
        assert_eq!(one[1], 3);
    }
    let all = world.good(0, &[0xa3, 0x0c, 0, 0, 0, 0, 0, 0, 0xff, 0, 0, 0], &[]);
    let codes: Vec<u8> = all[4..].chunks(8).map(|entry| entry[0]).collect();
    assert!(!codes.iter().any(|code| [0x16, 0x17, 0x56, 0x57, 0x5e, 0x5f].contains(code)));
    world.target.set_reservations_hidden(ONE, false);
    done(&mut world, ALICE, REGISTER, 0, &list(0, 1, 0));
}
