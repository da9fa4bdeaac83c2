//! Tests of decoding: what may change between the decoding of a command and its execution is looked
//! at again.

use std::collections::BTreeMap;

use super::*;

const TASK: TaskId = TaskId(77);

impl World {
    /// Executes a command that was decoded before; returns its sense code.
    fn late(&mut self, command: Command) -> Code {
        self.target.execute(TASK, command);
        while self.step() {}
        let (task, completion) = self.target.next_done().expect("the command ends");
        assert_eq!(task, TASK);
        let code = completion.sense.unwrap_or_else(|| panic!("{:?}", completion.status)).code;
        (code.key as u8, code.asc, code.ascq)
    }

    /// WRITE (16) of two blocks from an LBA on, of which all data has come.
    fn write(&self, lba: u64) -> Command {
        self.command(ALICE, emit_lun(0), &cdb16(0x8a, 0, lba, 2), &pattern(1, 2))
    }
}

#[test]
fn a_command_never_reaches_another_volume_than_it_was_sent_to() {
    let mut world = World::new();
    let write = world.write(8);
    world.target.set_luns(ALICE, BTreeMap::from([(0, TWO), (1, ONE)]));
    assert_eq!(world.late(write.clone()).0, 6, "the change is told first");
    assert_eq!(world.requests, []);
    world.target.set_luns(ALICE, BTreeMap::new());
    assert_eq!(world.late(write), NO_LUN);
    assert_eq!(world.requests, []);
}

#[test]
fn a_command_of_a_session_that_ended_ends_too() {
    let mut world = World::new();
    let write = world.write(8);
    world.target.close_nexus(ALICE);
    assert_eq!(world.late(write), NO_LUN);
    assert_eq!(world.requests, []);
}

#[test]
fn the_size_counts_that_the_volume_has_when_the_command_runs() {
    let mut world = World::new();
    let write = world.write(BLOCKS);
    assert_eq!(world.late(write.clone()), OUT_OF_RANGE);
    world.target.resize_unit(ONE, (BLOCKS + 2) * BLOCK as u64);
    world.volumes.get_mut(&ONE).unwrap().resize((BLOCKS as usize + 2) * BLOCK, 0);
    assert_eq!(world.late(write.clone()).0, 6, "the new capacity is told");
    world.target.execute(TASK, write);
    while world.step() {}
    assert_eq!(world.target.next_done().unwrap().1.status, Status::Good);
    assert_eq!(world.bytes(ONE, BLOCKS, 2), pattern(1, 2));
}

#[test]
fn reservations_and_protection_count_that_there_are_when_the_command_runs() {
    let mut world = World::new();
    let write = world.write(0);
    world.target.set_write_protected(ONE, true);
    assert_eq!(world.late(write.clone()), (7, 0x27, 0));
    world.target.set_write_protected(ONE, false);
    world.run(BOB, 0, &[0x16, 0, 0, 0, 0, 0], &[]);
    world.target.execute(TASK, write);
    while world.step() {}
    let completion = world.target.next_done().unwrap().1;
    assert_eq!(completion.status, Status::ReservationConflict);
    assert_eq!(world.requests, []);
}

#[test]
fn a_volume_with_other_blocks_is_decoded_anew() {
    let mut world = World::new();
    let read = world.command(ALICE, emit_lun(0), &cdb16(0x88, 0, 0, 2), &[]);
    world.target.remove_unit(ONE);
    let block_length = LogicalBlockLength::B4096;
    world.target.add_unit(ONE, LogicalUnitSpec { block_length, ..spec(ONE) });
    let mut ended = Vec::new();
    for _ in 0..8 {
        world.target.execute(TASK, read.clone());
        while world.step() {}
        let (_, completion, record) = world.target.next_recorded().expect("the command ends");
        ended.push((completion.status, record.expect("a record").bytes));
        if completion.status == Status::Good {
            break;
        }
    }
    assert_eq!(ended.last(), Some(&(Status::Good, 8192)), "{ended:?}");
}
