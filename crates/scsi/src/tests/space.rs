//! Tests of the thresholds of logical block provisioning.

use super::*;

const REACHED: Code = (6, 0x38, 7);

fn space(available_sets: u64, used_sets: u64) -> UnitSpace {
    UnitSpace { available_bytes: available_sets << 12, used_bytes: used_sets << 12 }
}

/// What the next TEST UNIT READY of each nexus tells.
fn told(world: &mut World) -> [Option<Code>; 2] {
    [ALICE, BOB].map(|nexus| {
        let sense = world.run(nexus, 0, &[0; 6], &[]).sense?;
        Some((sense.code.key as u8, sense.code.asc, sense.code.ascq))
    })
}

fn page(world: &mut World) -> Vec<u8> {
    world.good(0, &[0x1a, 8, 0x1c, 2, 255, 0], &[])[4..].to_vec()
}

fn select(world: &mut World, page: &[u8]) {
    let list = [&[0; 4], page].concat();
    world.good(0, &[0x15, 0x10, 0, 0, list.len() as u8, 0], &list);
    assert_eq!(world.sense(BOB, 0, &[0; 6], &[]), (6, 0x2a, 1));
}

#[test]
fn a_threshold_is_told_once_to_each_nexus_at_the_exact_block_and_armed_again() {
    let mut world = World::new();
    world.target.set_default_threshold(ONE, Some(100 << 12));
    world.target.set_space(ONE, space(101, 0));
    assert_eq!(told(&mut world), [None; 2]);
    for _ in 0..2 {
        for available in [100, 99, 0, 100] {
            world.target.set_space(ONE, space(available, 0));
        }
        assert_eq!(told(&mut world), [Some(REACHED); 2]);
        world.target.set_space(ONE, space(50, 0));
        assert_eq!(told(&mut world), [None; 2]);
        world.target.set_space(ONE, space(101, 0));
        assert_eq!(told(&mut world), [None; 2]);
    }
    assert_eq!(world.run(ALICE, 1, &[0; 6], &[]).status, Status::Good);
}

#[test]
fn who_comes_later_is_told_too() {
    let mut world = World::new();
    world.target.set_default_threshold(ONE, Some(100 << 12));
    world.target.set_space(ONE, space(10, 0));
    world.target.open_nexus(NexusId(3), nexus_spec("carol"));
    assert_eq!(world.sense(NexusId(3), 0, &[0; 6], &[]), (6, 0x29, 0));
    assert_eq!(world.sense(NexusId(3), 0, &[0; 6], &[]), REACHED);
    assert_eq!(world.run(NexusId(3), 0, &[0; 6], &[]).status, Status::Good);
}

#[test]
fn an_initiator_sets_its_own_thresholds() {
    let mut world = World::new();
    world.target.set_default_threshold(ONE, Some(100 << 12));
    let mut page_bytes = page(&mut world);
    assert_eq!(page_bytes[16..24], [0x80, 1, 0, 0, 0, 0, 0, 100]);
    assert_eq!(page_bytes[24..32], [0x01, 2, 0, 0, 0, 0, 0, 0]);
    page_bytes[16] = 0;
    (page_bytes[24], page_bytes[31]) = (0x81, 7);
    select(&mut world, &page_bytes);
    world.target.set_space(ONE, space(0, 6));
    assert_eq!(told(&mut world), [None; 2]);
    world.target.set_space(ONE, space(0, 7));
    assert_eq!(told(&mut world), [Some(REACHED); 2]);
    world.target.set_default_threshold(ONE, Some(200 << 12));
    assert_eq!(page(&mut world), page_bytes);
    let default = world.good(0, &[0x1a, 8, 0x80 | 0x1c, 2, 255, 0], &[])[4..].to_vec();
    assert_eq!(default[16..24], [0x80, 1, 0, 0, 0, 0, 0, 200]);
}

/// Also one that is what the administrator wanted at that moment.
#[test]
fn a_threshold_that_an_initiator_set_stays() {
    let mut world = World::new();
    world.target.set_default_threshold(ONE, Some(100 << 12));
    let page_bytes = page(&mut world);
    select(&mut world, &page_bytes);
    world.target.set_default_threshold(ONE, Some(200 << 12));
    assert_eq!(page(&mut world), page_bytes);
}
