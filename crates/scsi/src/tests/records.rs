//! Tests of command records, from which statistics and the ledger are fed.

use std::time::Duration;

use block::Primitive;

use super::*;
use crate::commands::table;
use crate::statistics::Statistics;

impl World {
    /// Runs a command to its end; returns what it tells of itself.
    fn record(&mut self, nexus: NexusId, lun: u16, cdb: &[u8]) -> CommandRecord {
        self.begin(nexus, lun, cdb, &[]);
        while self.step() {}
        self.last_record()
    }

    fn last_record(&mut self) -> CommandRecord {
        let (.., record) = self.target.next_recorded().expect("the command ends");
        record.expect("a command that ended with a status has a record")
    }
}

#[test]
fn a_command_tells_what_it_was_and_how_long_it_took() {
    let mut world = World::new();
    let write = [&[0x2a, 0, 0, 0, 0, 9, 0, 0, 2, 0][..]].concat();
    world.target.set_now(Duration::from_millis(7));
    world.begin(ALICE, 1, &write, &[5; 1024]);
    let (request, ..) = world.target.next_request().unwrap();
    let issuer = Issuer { nexus: ALICE, volume: Some(TWO), primitive: Primitive::Write };
    assert_eq!(world.target.issuer(request), Some(issuer));
    world.target.set_now(Duration::from_millis(12));
    world.target.completed(request, Ok(Response::Done));
    let expected = CommandRecord {
        nexus: ALICE,
        volume: Some(TWO),
        name: "WRITE (10)",
        primitive: Primitive::Write,
        lba: block::Lba(9),
        bytes: 1024,
        took: Duration::from_millis(5),
    };
    assert_eq!(world.last_record(), expected);
}

#[test]
fn a_refused_command_tells_what_it_was_too() {
    let mut world = World::new();
    let beyond = world.record(ALICE, 0, &[0x28, 0, 0xff, 0, 0, 0, 0, 0, 1, 0]);
    assert_eq!((beyond.name, beyond.volume, beyond.bytes), ("READ (10)", Some(ONE), 512));
    let unknown = world.record(BOB, 0, &[0xc1; 10]);
    assert_eq!((unknown.name, unknown.primitive), ("UNKNOWN", Primitive::Other));
    assert_eq!(unknown.nexus, BOB);
    let nowhere = world.record(ALICE, 77, &[0x28; 10]);
    assert_eq!((nowhere.volume, nowhere.bytes), (None, 0));
}

#[test]
fn time_does_not_go_back() {
    let mut world = World::new();
    world.target.set_now(Duration::from_secs(5));
    world.target.set_now(Duration::from_secs(3));
    let record = world.record(ALICE, 0, &[0x28, 0, 0, 0, 0, 0, 0, 0, 1, 0]);
    assert_eq!(record.took, Duration::ZERO);
}

#[test]
fn sense_codes_have_their_names() {
    let mut world = World::new();
    let completion = world.run(ALICE, 0, &[0xc1; 10], &[]);
    let name = completion.sense.expect("sense").code.name();
    assert_eq!(name, "INVALID_COMMAND_OPERATION_CODE");
}

// Statistics and the ledger knew commands by operation code, each by a list of its own: WRITE SAME
// (32), which shares its code with others, was in none of them.
#[test]
fn every_form_of_a_command_counts_alike() {
    let long = |action: u8| {
        let mut cdb = [0; 32];
        (cdb[0], cdb[7], cdb[9], cdb[19], cdb[31]) = (0x7f, 24, action, 5, 2);
        cdb
    };
    let six = |opcode| [opcode, 0, 0, 5, 2, 0];
    let ten = |opcode| cdb10(opcode, 0, 5, 2);
    let twelve = |opcode| [opcode, 0, 0, 0, 0, 5, 0, 0, 0, 2, 0, 0];
    let sixteen = |opcode| cdb16(opcode, 0, 5, 2);
    let forms: [(Primitive, &[&[u8]]); 8] = [
        (Primitive::Read, &[&six(0x08), &ten(0x28), &twelve(0xa8), &sixteen(0x88)]),
        (Primitive::Write, &[&six(0x0a), &ten(0x2a), &twelve(0xaa), &sixteen(0x8a)]),
        (Primitive::Write, &[&ten(0x2e), &twelve(0xae), &sixteen(0x8e), &sixteen(0x9c)]),
        (Primitive::WriteSame, &[&ten(0x41), &sixteen(0x93), &long(0x0d)]),
        (Primitive::CompareAndWrite, &[&sixteen(0x89)]),
        (Primitive::Other, &[&ten(0x2f), &twelve(0xaf), &sixteen(0x8f), &sixteen(0x8b)]),
        (Primitive::Unmap, &[&[0x42, 0, 0, 0, 0, 0, 0, 0, 0, 0]]),
        // They name blocks, but read and write none of them.
        (Primitive::Other, &[&ten(0x34), &sixteen(0x90), &ten(0x35), &sixteen(0x91)]),
    ];
    let mut world = World::new();
    for (at, (primitive, cdbs)) in forms.into_iter().enumerate() {
        let (lba, bytes) = if at < 6 { (5, 1024) } else { (0, 0) };
        for cdb in cdbs {
            let record = world.record(ALICE, 0, cdb);
            assert_eq!(record.primitive, primitive, "{}", record.name);
            assert_eq!((record.lba.0, record.bytes), (lba, bytes), "{}", record.name);
        }
    }
}

#[test]
fn only_reads_and_writes_are_counted_by_the_unit() {
    for row in table::ROWS {
        let is_counted = matches!(row.primitive, Primitive::Read | Primitive::Write);
        let mut statistics = Statistics::starting(Duration::ZERO);
        statistics.count(row.primitive, 8, Duration::from_millis(3));
        assert_eq!(statistics != Statistics::starting(Duration::ZERO), is_counted, "{}", row.name);
    }
}
