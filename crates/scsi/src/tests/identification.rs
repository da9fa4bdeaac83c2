//! Vendor and product identification: the same everywhere unless the owner says otherwise, and the
//! same in every place that tells it.

use super::extended_copy::{copy, list, segment};
use super::third_party::named_cscd;
use super::*;

const TEST_UNIT_READY: [u8; 6] = [0; 6];
const CHANGED: Code = (6, 0x3f, 3);

const OTHER: Identification =
    Identification { vendor: *b"ACME    ", product: *b"Array 1         " };

/// Bytes 8 to 31 of standard INQUIRY data.
fn told(world: &mut World, lun: u16) -> Vec<u8> {
    world.good(lun, &[0x12, 0, 0, 0, 96, 0], &[])[8..32].to_vec()
}

/// The T10 vendor designator of VPD page 83h.
fn designator(world: &mut World, lun: u16) -> Vec<u8> {
    let page = world.good(lun, &[0x12, 1, 0x83, 1, 0, 0], &[]);
    assert_eq!(page[24..26], [2, 1]);
    page[28..28 + usize::from(page[27])].to_vec()
}

#[test]
fn a_change_for_all_is_told_to_all_but_where_a_unit_has_its_own() {
    let mut world = World::new();
    world.target.set_own_identification(TWO, Some(Identification::GANTRY));
    world.target.set_identification(OTHER);
    for nexus in [ALICE, BOB] {
        for lun in [0, 300] {
            assert_eq!(world.sense(nexus, lun, &TEST_UNIT_READY, &[]), CHANGED);
            assert_eq!(world.run(nexus, lun, &TEST_UNIT_READY, &[]).status, Status::Good);
        }
        assert_eq!(world.run(nexus, 1, &TEST_UNIT_READY, &[]).status, Status::Good);
    }
    assert_eq!(told(&mut world, 0), b"ACME    Array 1         ");
    assert_eq!(told(&mut world, 1), b"GANTRY  VIRTUAL DISK    ");
    assert_eq!(world.target.identification(FAR), Some(OTHER));
    assert_eq!(world.target.identification(RESTING), None);
}

#[test]
fn a_change_of_one_unit_is_told_to_those_who_see_it_on_that_unit_only() {
    let mut world = World::new();
    world.target.set_luns(BOB, BTreeMap::from([(1, TWO)]));
    assert_eq!(world.sense(BOB, 1, &TEST_UNIT_READY, &[]), (6, 0x3f, 0x0e));
    world.target.set_own_identification(ONE, Some(OTHER));
    assert_eq!(world.fails(0, &TEST_UNIT_READY, &[]), CHANGED);
    world.good(0, &TEST_UNIT_READY, &[]);
    world.good(1, &TEST_UNIT_READY, &[]);
    assert_eq!(world.run(BOB, 1, &TEST_UNIT_READY, &[]).status, Status::Good);
    world.target.set_own_identification(ONE, None);
    assert_eq!(world.fails(0, &TEST_UNIT_READY, &[]), CHANGED);
    assert_eq!(told(&mut world, 0), told(&mut world, 1));
}

#[test]
fn who_reads_inquiry_data_first_is_told_all_the_same() {
    let mut world = World::new();
    world.target.set_identification(OTHER);
    assert_eq!(told(&mut world, 0)[..8], OTHER.vendor);
    assert_eq!(world.fails(0, &TEST_UNIT_READY, &[]), CHANGED);
}

#[test]
fn nobody_is_told_of_what_stays_as_it_was() {
    let mut world = World::new();
    world.target.set_identification(Identification::GANTRY);
    world.target.set_own_identification(ONE, None);
    world.target.set_own_identification(ONE, Some(Identification::GANTRY));
    world.target.set_own_identification(ONE, None);
    world.target.set_own_identification(RESTING, Some(OTHER));
    for lun in [0, 1, 300] {
        world.good(lun, &TEST_UNIT_READY, &[]);
    }
}

#[test]
fn a_unit_that_is_described_anew_keeps_its_own() {
    let mut world = World::new();
    world.target.set_own_identification(ONE, Some(OTHER));
    assert_eq!(world.fails(0, &TEST_UNIT_READY, &[]), CHANGED);
    world.reserve(ONE);
    assert_eq!(told(&mut world, 0)[..8], OTHER.vendor);
    world.good(0, &TEST_UNIT_READY, &[]);
}

#[test]
fn a_lun_without_a_unit_tells_what_all_tell() {
    let mut world = World::new();
    world.target.set_identification(OTHER);
    world.target.set_luns(ALICE, BTreeMap::from([(1, TWO)]));
    let data = world.good(0, &[0x12, 0, 0, 0, 96, 0], &[]);
    assert_eq!((data[0], &data[8..16]), (0x3f, &OTHER.vendor[..]));
}

#[test]
fn the_vendor_in_a_units_name_is_the_one_that_it_tells_and_the_copy_manager_knows_no_other() {
    let mut world = World::new();
    let before = designator(&mut world, 0);
    world.number(ONE, 0, 8);
    world.target.set_own_identification(ONE, Some(OTHER));
    assert_eq!(world.fails(0, &TEST_UNIT_READY, &[]), CHANGED);
    let after = designator(&mut world, 0);
    assert_eq!((&after[..8], &after[8..]), (&OTHER.vendor[..], &before[8..]));
    assert_eq!(designator(&mut world, 1)[..8], Identification::GANTRY.vendor);
    let mut named = list(&[ONE, TWO], &[segment(0, 0, 8)]);
    named[16..48].copy_from_slice(&named_cscd(2, 1, &before));
    assert_eq!(copy(&mut world, &named), Some((10, 0x0d, 2)));
    named[16..48].copy_from_slice(&named_cscd(2, 1, &after));
    assert_eq!(copy(&mut world, &named), None);
    assert_eq!(world.bytes(TWO, 0, 8), world.bytes(ONE, 0, 8));
}
