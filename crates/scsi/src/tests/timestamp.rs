//! Tests of the device clock: SET TIMESTAMP and REPORT TIMESTAMP.

use std::time::Duration;

use super::*;

const REPORT: [u8; 12] = [0xa3, 0x0f, 0, 0, 0, 0, 0, 0, 0, 255, 0, 0];

fn set(length: u8) -> [u8; 12] {
    [0xa4, 0x0f, 0, 0, 0, 0, 0, 0, 0, length, 0, 0]
}

/// TIMESTAMP ORIGIN and TIMESTAMP.
fn told(world: &mut World, lun: u16) -> (u8, u64) {
    let data = world.good(lun, &REPORT, &[]);
    assert_eq!((data.len(), &data[..2]), (12, &[0, 10][..]));
    let mut timestamp = [0; 8];
    timestamp[2..].copy_from_slice(&data[4..10]);
    (data[2], u64::from_be_bytes(timestamp))
}

#[test]
fn it_counts_from_power_on_until_someone_knows_better() {
    let mut world = World::new();
    assert_eq!(told(&mut world, 0), (0, 0));
    world.target.tick(Duration::from_millis(1500));
    assert_eq!(told(&mut world, 0), (0, 1500));
    world.target.set_time_of_day(Duration::from_secs(1_000_000));
    world.target.tick(Duration::from_millis(1600));
    assert_eq!(told(&mut world, 0), (3, 1_000_000_100));
}

#[test]
fn what_is_set_goes_on_from_there_and_is_told_to_the_others() {
    let mut world = World::new();
    world.target.tick(Duration::from_secs(9));
    let list = [0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0];
    world.good(0, &set(12), &list);
    world.target.tick(Duration::from_secs(10));
    assert_eq!(told(&mut world, 0), (2, 1024 + 1000));
    assert_eq!(told(&mut world, 1), (0, 10_000));
    assert_eq!(world.sense(BOB, 0, &[0; 6], &[]), (6, 0x2a, 0x10));
    world.good(0, &set(0), &[]);
    for length in 1..12 {
        assert_eq!(world.fails(0, &set(length), &list[..usize::from(length)]), LIST_LENGTH);
    }
    assert_eq!(told(&mut world, 0).0, 2);
}
