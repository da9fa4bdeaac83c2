//! What commands tell of themselves.

use std::time::Duration;

use super::*;

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
    let issuer = Issuer { nexus: ALICE, volume: Some(TWO), opcode: 0x2a, service_action: None };
    assert_eq!(world.target.issuer(request), Some(issuer));
    world.target.set_now(Duration::from_millis(12));
    world.target.completed(request, Ok(Response::Done));
    let expected = CommandRecord {
        nexus: ALICE,
        volume: Some(TWO),
        name: "WRITE (10)",
        opcode: 0x2a,
        service_action: None,
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
    assert_eq!((unknown.name, unknown.opcode, unknown.nexus), ("UNKNOWN", 0xc1, BOB));
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
