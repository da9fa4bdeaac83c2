//! Devices that come back while something happens to them, or to the space of their mirror.

use super::*;

#[test]
fn a_device_that_is_lost_while_it_comes_back_does_not_come_back_and_hinders_no_later_try() {
    let back = || Change::ReturnMember { member: member(12, 1) };
    let mut refused = 0;
    for steps in 0.. {
        let mut world = World::mirrored(6);
        world.store.lose(1);
        world.write_something();
        let tag = world.tag();
        world.store.change(tag, back());
        for _ in 0..steps {
            world.step();
        }
        if world.done.contains_key(&tag.0) {
            break;
        }
        let was_returning = world.is_returning(12);
        world.store.lose(1);
        let result = world.wait(tag.0);
        assert!(result.is_err(), "after {steps} steps");
        assert_eq!(world.members()[1], (12, MemberState::Absent), "after {steps} steps");
        refused += u64::from(was_returning);
        world.change(back()).unwrap();
        world.finish_resilver();
        each_alone(&world.crash(), &[0, 1], &format!("after {steps} steps"));
    }
    assert!(refused > 1, "{refused}");
}

/// Lists told of the size of the device that was refused, and were on their way for good (86000742).
#[test]
fn a_larger_device_that_is_refused_holds_up_no_later_change() {
    let mut world = World::mirrored(7);
    world.store.lose(1);
    world.disks.get_mut(&1).unwrap().fails = true;
    let larger = MemberSpec { size_bytes: 2 * SIZE, ..member(12, 1) };
    assert!(world.change(Change::ReturnMember { member: larger }).is_err());
    let disk = world.disks.get_mut(&1).unwrap();
    (disk.fails, disk.size) = (false, larger.size_bytes);
    world.change(Change::ReturnMember { member: larger }).unwrap();
    world.finish_resilver();
    each_alone(&world.crash(), &[0, 1], "after the return");
}

/// Of a group one part of its space was set aside, another one not yet, when a member came back (81004388).
#[test]
fn a_member_that_returns_while_space_is_being_set_aside_sets_all_of_it_aside() {
    let is_head = |operation: &DeviceOperation| {
        let head = crate::layout::GROUP_HEAD * BLOCK;
        matches!(operation, DeviceOperation::Reserve { length, .. } if *length == head)
    };
    let mut world = World::mirrored(8);
    world.disks.values_mut().for_each(|disk| disk.size = 3 * SIZE);
    world.change(Change::ExtendDevice { device: 0, size_bytes: 3 * SIZE }).unwrap();
    let large = VolumeId(9);
    world.change(Change::CreateVolume(volume(large, "large", 1 << 30))).unwrap();
    world.store.lose(1);
    for at in 0.. {
        let tag = world.tag();
        let range = ByteRange::new(at << 20, 1 << 20);
        let data = Bytes::from(content(at + 1).repeat(256));
        world.store.submit(tag, large, Request::Write { range, data });
        let is_held = |world: &World| world.pending.iter().any(|io| is_head(&io.operation));
        while !world.done.contains_key(&tag.0) && !is_held(&world) {
            world.step_without(is_head);
        }
        if is_held(&world) {
            break;
        }
        world.wait(tag.0).unwrap();
    }
    let back = world.tag();
    let spec = MemberSpec { size_bytes: 3 * SIZE, ..member(12, 1) };
    world.store.change(back, Change::ReturnMember { member: spec });
    (0..3_000).for_each(|_| world.step_without(is_head));
    world.wait(back.0).unwrap();
    world.finish_resilver();
    let wanted = world.disks[&0].reserved_blocks();
    assert!(wanted.is_subset(&world.disks[&1].reserved_blocks()));
}
