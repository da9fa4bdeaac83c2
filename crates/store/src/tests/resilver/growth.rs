//! Mirrors that grow while members are away, are filled, or fail.

use super::*;

const TIB: u64 = 1 << 40;

#[test]
fn a_mirror_grows_while_a_member_is_away() {
    let mut world = World::mirrored(10);
    world.store.lose(1);
    let larger = SIZE + (256 << 20);
    world.disks.values_mut().for_each(|disk| disk.size = larger);
    world.change(Change::ExtendDevice { device: 0, size_bytes: larger }).unwrap();
    let spec = MemberSpec { size_bytes: larger, ..member(12, 1) };
    let small = world.change(Change::ReturnMember { member: member(12, 1) }).unwrap_err();
    assert_eq!(small, ChangeError::MemberSize.into());
    world.write_something();
    let mut world = world.crash().open(&[0]).unwrap();
    world.write_something();
    world.change(Change::ReturnMember { member: spec }).unwrap();
    world.finish_resilver();
    assert!(world.store.mirrors().all(|mirror| mirror.size_bytes == larger));
    each_alone(&world.crash(), &[0, 1], "after growing");
}

#[test]
fn a_mirror_grows_while_a_member_is_filled_and_the_power_fails() {
    let larger = SIZE + (256 << 20);
    for seed in 0..24 {
        let mut world = World::mirrored(30 + seed);
        world.store.lose(1);
        (0..20).for_each(|_| world.write_something());
        world.disks.values_mut().for_each(|disk| disk.size = larger);
        let spec = MemberSpec { size_bytes: larger, ..member(12, 1) };
        world.change(Change::ReturnMember { member: spec }).unwrap();
        for _ in 0..seed * 3 {
            world.step();
        }
        let grow = world.tag();
        world.store.change(grow, Change::ExtendDevice { device: 0, size_bytes: larger });
        world.left = world.random.below(400);
        let done = world.wait(grow.0);
        (0..20).for_each(|_| world.write_something());
        let is_larger = |world: &World| world.store.mirrors().all(|m| m.size_bytes == larger);
        assert!(done.is_err() || is_larger(&world));
        let mut world = world.crash().open(&[1, 0]).unwrap();
        assert!(done.is_err() || is_larger(&world), "seed {seed}");
        world.finish_resilver();
        world.change(Change::ExtendDevice { device: 0, size_bytes: larger }).unwrap();
        (0..20).for_each(|_| world.write_something());
        assert!(is_larger(&world));
        each_alone(&world.crash(), &[0, 1], &format!("seed {seed}"));
    }
}

/// A mirror of 6 TiB counts regions of 1 MiB, one of 14 TiB larger ones: a region of the old kind that
/// was copied is only a part of the one of that number.
#[test]
fn a_mirror_that_outgrows_the_room_of_its_bitmap_copies_everything_all_the_same() {
    let (small, large, mapped) = (6 * TIB, 14 * TIB, 168_u64 << 20);
    let sized = |number, slot| MemberSpec { size_bytes: small, ..member(number, slot) };
    let devices = vec![DeviceSpec::mirror([1; 16], vec![sized(11, 0), sized(12, 1)])];
    let store = Store::format(&PoolSpec { pool_uuid: [9; 16], devices }, options(), Tag(0));
    let disks = (0..2).map(|slot| (slot, Disk::new(small))).collect();
    let mut world = World::begin(store, disks, 40);
    world.wait(0).unwrap();
    world.change(Change::CreateVolume(volume(A, "a", 1 << 30))).unwrap();
    world.store.lose(1);
    world.write_mebibytes(mapped >> 20);
    world.change(Change::ReturnMember { member: sized(12, 1) }).unwrap();
    let copied = |world: &World| {
        let resilver = world.store.mirrors().find_map(|mirror| mirror.resilver);
        resilver.map_or(u64::MAX, |resilver| resilver.copied_bytes)
    };
    world.until(|world| copied(world) > 1 << 20);
    world.disks.values_mut().for_each(|disk| disk.size = large);
    world.change(Change::ExtendDevice { device: 0, size_bytes: large }).unwrap();
    world.until(|world| copied(world) > mapped - (32 << 20));
    world.change(Change::Resilver(ResilverChange::Pause)).unwrap();
    assert!(!world.is_whole(), "the power fails before everything is copied");
    while world.step() {}
    world.change(Change::Checkpoint).unwrap();
    let mut world = world.crash().open(&[0, 1]).unwrap();
    // All of it is to be copied once more; the rest of the device is empty.
    world.change(Change::Resilver(ResilverChange::Resume)).unwrap();
    world.until(|world| copied(world) > mapped);
    world.change(Change::Resilver(ResilverChange::Pause)).unwrap();
    while world.step() {}
    // Data begins behind a journal of 128 MiB. Its last 32 MiB had not been copied when the power
    // failed; as much as was copied before it is not copied yet.
    let first = (128 << 20) / BLOCK;
    let data = first..first + (mapped - (8 << 20)) / BLOCK;
    let differs = |block: &u64| world.disks[&0].block(*block) != world.disks[&1].block(*block);
    assert_eq!(data.clone().find(differs), None);
    assert!(data.filter(|&block| world.disks[&0].block(block).is_some()).count() > 38_000);
}
