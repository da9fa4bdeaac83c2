//! A logical unit whose pool is not open: it is there, says which one it is, and is not ready.

use super::*;

const BECOMING_READY: Code = (2, 4, 1);
const BECAME_READY: Code = (6, 0x28, 0);
const ABSENT: VolumeId = VolumeId(77);
const LUN: u16 = 5;

fn inquiry(page: Option<u8>) -> [u8; 6] {
    [0x12, u8::from(page.is_some()), page.unwrap_or(0), 0, 252, 0]
}

/// A world in which ALICE sees an absent unit, of which she has heard the power on.
fn world() -> World {
    let mut world = World::new();
    world.target.add_absent_unit(ABSENT, LogicalUnitSpec { size_bytes: 0, ..spec(ABSENT) });
    let luns = BTreeMap::from([(0, ONE), (LUN, ABSENT)]);
    world.target.set_luns(ALICE, luns);
    while world.sense_of_test_unit_ready() != BECOMING_READY {}
    world.good(0, &[0xa0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0], &[]);
    world
}

impl World {
    fn sense_of_test_unit_ready(&mut self) -> Code {
        self.sense(ALICE, LUN, &[0; 6], &[])
    }
}

#[test]
fn it_says_which_unit_it_is() {
    let mut world = world();
    let luns = world.good(0, &[0xa0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0], &[]);
    assert_eq!((luns.len(), luns[17]), (24, LUN as u8));
    assert_eq!(world.good(LUN, &inquiry(None), &[])[0], 0, "a block device is connected");
    let page = world.good(LUN, &inquiry(Some(0x83)), &[]);
    assert!(page.windows(16).any(|part| part == naa(ABSENT)));
    for page in [0x00, 0x80, 0x86, 0x87, 0x88] {
        world.good(LUN, &inquiry(Some(page)), &[]);
    }
    let sense = world.good(LUN, &[3, 0, 0, 0, 252, 0], &[]);
    assert_eq!((sense[2] & 0xf, sense[12], sense[13]), BECOMING_READY);
}

#[test]
fn what_needs_the_medium_waits_for_it_and_is_never_told_that_there_is_no_unit() {
    let mut world = world();
    for opcode in 0..=u8::MAX {
        let mut cdb = [0; 16];
        cdb[0] = opcode;
        let completion = world.run(ALICE, LUN, &cdb, &[0; 4096]);
        let Some(sense) = completion.sense else { continue };
        let code = sense.code;
        let code = (code.key as u8, code.asc, code.ascq);
        assert_ne!(code, NO_LUN, "{opcode:02x}h");
        assert!(world.requests.is_empty(), "{opcode:02x}h reaches the engine");
    }
    for cdb in [
        &cdb10(0x28, 0, 0, 1)[..],
        &cdb10(0x2a, 0, 0, 1),
        &[0x25, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        &[0x9e, 0x10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 32, 0, 0],
        &[0x4d, 0, 0x40, 0, 0, 0, 0, 0, 64, 0],
        &inquiry(Some(0xb0)),
        &inquiry(Some(0xb2)),
    ] {
        assert_eq!(world.fails(LUN, cdb, &[0; BLOCK]), BECOMING_READY, "{cdb:02x?}");
    }
}

#[test]
fn when_the_pool_opens_every_nexus_is_told_and_reads() {
    let mut world = world();
    world.volumes.insert(ABSENT, vec![7; BLOCKS as usize * BLOCK]);
    world.target.add_unit(ABSENT, spec(ABSENT));
    assert_eq!(world.sense_of_test_unit_ready(), BECAME_READY);
    assert_eq!(world.good(LUN, &cdb10(0x28, 0, 0, 1), &[]), vec![7; BLOCK]);
    world.target.add_absent_unit(ABSENT, spec(ABSENT));
    world.good(LUN, &[0; 6], &[]);
}

#[test]
fn what_no_pool_brings_is_no_unit_any_more() {
    let mut world = world();
    world.target.remove_absent_units();
    assert_eq!(world.sense_of_test_unit_ready(), NO_LUN);
    world.good(0, &[0; 6], &[]);
}
