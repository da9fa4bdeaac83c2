//! Members that join, come back, are resilvered and leave, on disks that lose what was not flushed:
//! crashes at every moment, and each member left alone afterwards.

mod growth;
mod returns;
mod stories;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;
use std::time::Duration;

use block::{
    BLOCK, BlockError, ByteRange, DeviceError, DeviceOperation, DeviceResult, Request, Response,
    VolumeId,
};
use bytes::Bytes;

use super::random::Random;
use super::volume;
use crate::io::Io;
use crate::{
    Change, ChangeError, DeviceSpec, Done, Failure, Health, MemberSpec, MemberState, OpenContext,
    OpenError, Options, Outcome, PoolSpec, ResilverChange, SlotSpec, Store, Tag,
};

const SIZE: u64 = 160 << 20;
const A: VolumeId = VolumeId(1);

/// Blocks of the volume that is compared.
const VOLUME_BLOCKS: u64 = 2048;

/// A disk without what was never written: that is zero.
#[derive(Clone, Default)]
struct Disk {
    size: u64,
    stable: HashMap<u64, Bytes>,
    /// Writes since the last flush, in order.
    cached: Vec<(u64, Bytes)>,
    written: u64,
    /// Blocks for which space was set aside, as it was asked for.
    reserved: Vec<Range<u64>>,
    fails: bool,
}

impl Disk {
    fn new(size: u64) -> Self {
        Self { size, ..Self::default() }
    }

    fn block(&self, block: u64) -> Option<&Bytes> {
        let cached = self.cached.iter().rev().find(|(at, _)| *at == block);
        cached.map(|(_, data)| data).or_else(|| self.stable.get(&block))
    }

    fn reserved_blocks(&self) -> BTreeSet<u64> {
        self.reserved.iter().cloned().flatten().collect()
    }

    fn keep(&mut self, block: u64, data: Bytes) {
        if data.iter().all(|&byte| byte == 0) {
            self.stable.remove(&block);
        } else {
            self.stable.insert(block, data);
        }
    }

    fn flush(&mut self) {
        for (block, data) in std::mem::take(&mut self.cached) {
            self.keep(block, data);
        }
    }

    /// The power fails: of what was not flushed anything may be there or not.
    fn crash(&mut self, random: &mut Random) {
        for (block, data) in std::mem::take(&mut self.cached) {
            if random.below(2) == 0 {
                self.keep(block, data);
            }
        }
    }

    fn serve(&mut self, operation: DeviceOperation) -> DeviceResult {
        if self.fails {
            return Err(DeviceError::Os(5));
        }
        match operation {
            DeviceOperation::Read { offset, mut buffer } => {
                for (number, bytes) in buffer.chunks_mut(BLOCK as usize).enumerate() {
                    match self.block(offset / BLOCK + number as u64) {
                        Some(data) => bytes.copy_from_slice(data),
                        None => bytes.fill(0),
                    }
                }
                return Ok(Some(buffer));
            }
            DeviceOperation::Write { offset, data } => {
                self.written += data.len() as u64;
                let bytes = Bytes::from(data.to_vec());
                for number in 0..bytes.len() as u64 / BLOCK {
                    let at = (number * BLOCK) as usize;
                    let data = bytes.slice(at..at + BLOCK as usize);
                    self.cached.push((offset / BLOCK + number, data));
                }
                // A long list makes every read slow; nothing is claimed of what was written long ago.
                if self.cached.len() > 4096 {
                    self.flush();
                }
            }
            DeviceOperation::Flush => self.flush(),
            DeviceOperation::Reserve { offset, length } => {
                self.reserved.push(offset / BLOCK..(offset + length) / BLOCK);
            }
        }
        Ok(None)
    }
}

/// A store, its disks by slot, and what hosts know.
struct World {
    store: Store,
    disks: BTreeMap<u8, Disk>,
    pending: Vec<Io>,
    witnessed: BTreeMap<[u8; 16], u64>,
    /// What a block of the volume may hold: the last write that was answered, and those after it.
    model: HashMap<u64, Vec<u64>>,
    done: HashMap<u64, Done>,
    random: Random,
    now: Duration,
    next_tag: u64,
    /// Device operations that are served before the power fails.
    left: u64,
}

fn member(number: u8, slot: u8) -> MemberSpec {
    MemberSpec { uuid: [number; 16], slot, size_bytes: SIZE }
}

fn content(value: u64) -> Bytes {
    let bytes: Vec<u8> = value.to_le_bytes().repeat(BLOCK as usize / 8);
    Bytes::from(bytes)
}

fn options() -> Options {
    Options { journal_bytes: 4 << 20, ..Options::default() }
}

impl World {
    fn begin(store: Store, disks: BTreeMap<u8, Disk>, seed: u64) -> Self {
        Self {
            store,
            disks,
            pending: Vec::new(),
            witnessed: BTreeMap::new(),
            model: HashMap::new(),
            done: HashMap::new(),
            random: Random(seed),
            now: Duration::ZERO,
            next_tag: 1,
            left: u64::MAX,
        }
    }

    /// A plain pool with some data, part of it in the journal alone.
    fn plain(seed: u64) -> Self {
        let devices =
            vec![DeviceSpec::plain(MemberSpec { uuid: [1; 16], size_bytes: SIZE, slot: 0 })];
        Self::made(devices, seed)
    }

    fn mirrored(seed: u64) -> Self {
        let members = vec![member(11, 0), member(12, 1)];
        Self::made(vec![DeviceSpec::mirror([1; 16], members)], seed)
    }

    fn made(devices: Vec<DeviceSpec>, seed: u64) -> Self {
        let spec = PoolSpec { pool_uuid: [9; 16], devices };
        let store = Store::format(&spec, options(), Tag(0));
        let disks = (0..4).map(|slot| (slot, Disk::new(SIZE))).collect();
        let mut world = Self::begin(store, disks, seed);
        world.wait(0).unwrap();
        world.change(Change::CreateVolume(volume(A, "a", VOLUME_BLOCKS * BLOCK))).unwrap();
        for _ in 0..40 {
            world.write_something();
        }
        world.change(Change::Checkpoint).unwrap();
        for _ in 0..20 {
            world.write_something();
        }
        world
    }

    /// Takes up what the store wants and tells, until it waits.
    fn take_up(&mut self) {
        while let Some(io) = self.store.next_io() {
            self.pending.push(io);
        }
        while let Some(membership) = self.store.next_membership() {
            self.witnessed.insert(membership.mirror, membership.generation);
            self.store.membership_witnessed(membership);
        }
        while let Some(done) = self.store.next_done() {
            self.done.insert(done.tag.0, done);
        }
        while let Some(io) = self.store.next_io() {
            self.pending.push(io);
        }
    }

    /// Serves an operation; false if nothing is left to do, or the power failed.
    fn step(&mut self) -> bool {
        self.take_up();
        if self.pending.is_empty() || self.left == 0 {
            return false;
        }
        self.left -= 1;
        let at = self.random.below(self.pending.len() as u64) as usize;
        self.serve(at);
        true
    }

    fn serve(&mut self, at: usize) {
        let io = self.pending.swap_remove(at);
        let result = self.disks.get_mut(&io.device).unwrap().serve(io.operation);
        self.store.completed(io.id, result);
    }

    /// Serves an operation that is not held back, or lets time pass.
    fn step_without(&mut self, is_held: impl Fn(&DeviceOperation) -> bool) {
        self.take_up();
        match self.pending.iter().position(|io| !is_held(&io.operation)) {
            Some(at) => self.serve(at),
            None => {
                self.now += Duration::from_millis(5);
                self.store.tick(self.now);
            }
        }
    }

    /// Goes on until a condition holds, or the power has failed.
    fn until(&mut self, condition: impl Fn(&Self) -> bool) -> bool {
        for _ in 0..400_000 {
            if condition(self) {
                return true;
            }
            if !self.step() {
                if self.left == 0 {
                    return false;
                }
                if condition(self) {
                    return true;
                }
                self.now += Duration::from_millis(5);
                self.store.tick(self.now);
            }
        }
        panic!("it does not end: {:?}", self.members());
    }

    fn wait(&mut self, tag: u64) -> Result<Outcome, Failure> {
        self.until(|world| world.done.contains_key(&tag));
        match self.done.remove(&tag) {
            Some(done) => done.result,
            None => Err(BlockError::Closed.into()),
        }
    }

    fn tag(&mut self) -> Tag {
        self.next_tag += 1;
        Tag(self.next_tag)
    }

    fn change(&mut self, change: Change) -> Result<(), Failure> {
        let tag = self.tag();
        self.store.change(tag, change);
        self.wait(tag.0).map(drop)
    }

    /// Begins a write, of which it is open whether it happens.
    fn begin_write(&mut self) -> (Tag, u64, u64, u64) {
        let tag = self.tag();
        let blocks = 1 + self.random.below(24);
        let first = self.random.below(VOLUME_BLOCKS - blocks);
        let value = tag.0;
        let mut data = Vec::new();
        (0..blocks).for_each(|_| data.extend_from_slice(&content(value)));
        for block in first..first + blocks {
            self.model.entry(block).or_insert_with(|| vec![0]).push(value);
        }
        let range = ByteRange::new(first * BLOCK, blocks * BLOCK);
        self.store.submit(tag, A, Request::Write { range, data: data.into() });
        (tag, first, blocks, value)
    }

    /// A write was answered: nothing older is right any more.
    fn answered(&mut self, (_, first, blocks, value): (Tag, u64, u64, u64)) {
        for block in first..first + blocks {
            let values = self.model.get_mut(&block).unwrap();
            let at = values.iter().position(|other| *other == value).unwrap();
            values.drain(..at);
        }
    }

    fn write_something(&mut self) {
        let write = self.begin_write();
        if self.wait(write.0.0).is_ok() {
            self.answered(write);
        }
    }

    /// Writes the first so many MiB of the volume, each differently.
    fn write_mebibytes(&mut self, count: u64) {
        for part in 0..count {
            let tag = self.tag();
            let data: Vec<u8> = content(part + 1).repeat(256);
            let range = ByteRange::new(part << 20, 1 << 20);
            self.store.submit(tag, A, Request::Write { range, data: data.into() });
            self.wait(tag.0).unwrap();
        }
    }

    /// Compares the volume with what hosts know.
    fn check(&mut self, what: &str) {
        let tag = self.tag();
        let range = ByteRange::new(0, VOLUME_BLOCKS * BLOCK);
        self.store.submit(tag, A, Request::Read { range });
        let Ok(Outcome::Response(Response::Data(rope))) = self.wait(tag.0) else {
            panic!("{what}: the volume cannot be read");
        };
        let bytes = rope.to_vec();
        for (block, bytes) in bytes.chunks(BLOCK as usize).enumerate() {
            let found = u64::from_le_bytes(bytes[..8].try_into().unwrap());
            let known = self.model.get(&(block as u64));
            let is_right = known.map_or(found == 0, |values| values.contains(&found));
            assert!(is_right, "{what}: block {block} holds {found}, not {known:?}");
        }
    }

    fn members(&self) -> Vec<(u8, MemberState)> {
        let members = self.store.mirrors().flat_map(|mirror| mirror.members);
        members.map(|member| (member.uuid[0], member.state)).collect()
    }

    fn is_returning(&self, number: u8) -> bool {
        let mut members = self.store.mirrors().flat_map(|mirror| mirror.members);
        members.any(|member| member.uuid == [number; 16] && member.is_returning)
    }

    fn is_whole(&self) -> bool {
        self.members().iter().all(|(_, state)| *state == MemberState::Current)
    }

    fn finish_resilver(&mut self) {
        self.until(Self::is_whole);
        while self.step() {}
    }

    /// The power fails now. What was under way may have happened.
    fn crash(mut self) -> Crashed {
        for disk in self.disks.values_mut() {
            disk.crash(&mut self.random);
        }
        Crashed {
            disks: self.disks,
            witnessed: self.witnessed,
            model: self.model,
            seed: self.random.0,
            next_tag: self.next_tag,
        }
    }
}

/// What a power failure leaves.
#[derive(Clone)]
struct Crashed {
    disks: BTreeMap<u8, Disk>,
    witnessed: BTreeMap<[u8; 16], u64>,
    model: HashMap<u64, Vec<u64>>,
    seed: u64,
    next_tag: u64,
}

impl Crashed {
    fn open(self, slots: &[u8]) -> Result<World, Failure> {
        let specs: Vec<SlotSpec> = slots
            .iter()
            .map(|&slot| SlotSpec { slot, size_bytes: self.disks[&slot].size })
            .collect();
        let context = OpenContext {
            expected_pool_uuid: Some([9; 16]),
            witnessed: self
                .witnessed
                .iter()
                .map(|(&uuid, &generation)| (uuid, generation))
                .collect(),
            shared: false,
            allow_degraded: false,
        };
        let store = Store::open(&specs, context, options(), Tag(0));
        let mut world = World::begin(store, self.disks, self.seed);
        world.next_tag = self.next_tag;
        world.model = self.model;
        world.witnessed = self.witnessed;
        world.wait(0)?;
        Ok(world)
    }
}

/// Each member alone holds everything: the others are taken away, one after the other.
fn each_alone(crashed: &Crashed, slots: &[u8], what: &str) {
    for &slot in slots {
        let what = format!("{what}, slot {slot} alone");
        let mut world = match crashed.clone().open(&[slot]) {
            Ok(world) => world,
            Err(failure) => panic!("{what}: {failure:?}"),
        };
        world.check(&what);
        assert_eq!(world.store.health(), Health::Ready, "{what}");
        world.write_something();
        world.check(&what);
    }
}

#[test]
fn a_plain_device_becomes_a_mirror_while_hosts_write() {
    let mut world = World::plain(1);
    let attach = world.tag();
    world.store.change(attach, Change::AttachMember { device: 0, member: member(12, 1) });
    for _ in 0..30 {
        world.write_something();
    }
    world.wait(attach.0).unwrap();
    for _ in 0..30 {
        world.write_something();
    }
    world.finish_resilver();
    world.check("after the resilver");
    assert_eq!(world.members(), [(1, MemberState::Current), (12, MemberState::Current)]);
    for _ in 0..10 {
        world.write_something();
    }
    let crashed = world.crash();
    each_alone(&crashed, &[0, 1], "after the resilver");
    let mut both = crashed.open(&[0, 1]).unwrap();
    both.check("both");
    assert!(both.is_whole());
}

/// Plays a story until the power fails after so many device operations; then the pool is opened, the
/// story is told to its end, and each member alone must hold everything.
fn crash_everywhere(
    made: &Crashed,
    slots: &[u8],
    begin: impl Fn(&mut World) -> Option<Tag>,
    go_on: impl Fn(&mut World),
) -> u64 {
    let mut crashes = 0;
    let mut operations = 0;
    loop {
        let mut world = made.clone().open(slots).unwrap();
        world.random = Random(operations * 7 + 1);
        world.left = operations;
        let what = format!("crash after {operations}");
        let tag = begin(&mut world);
        for number in 0..6 {
            world.write_something();
            if number == 2 {
                let _ = world.change(Change::Checkpoint);
            }
        }
        if let Some(tag) = tag {
            let _ = world.wait(tag.0);
        }
        let is_over = world.until(|world| tag.is_some() && world.is_whole() && world.left > 0)
            && world.left > 0;
        let crashed = world.crash();
        let mut world = match crashed.open(slots) {
            Ok(world) => world,
            Err(failure) => panic!("{what}: {failure:?}"),
        };
        world.check(&what);
        go_on(&mut world);
        world.finish_resilver();
        world.check(&what);
        for _ in 0..3 {
            world.write_something();
        }
        each_alone(&world.crash(), &[0, 1], &what);
        crashes += 1;
        if is_over {
            return crashes;
        }
        operations += 1 + operations / 40;
    }
}

#[test]
fn a_crash_at_any_moment_of_an_attach_loses_nothing_and_takes_no_half_copy_for_current() {
    let made = World::plain(2).crash();
    let attach = || Change::AttachMember { device: 0, member: member(12, 1) };
    let crashes = crash_everywhere(
        &made,
        &[0, 1],
        |world| {
            let tag = world.tag();
            world.store.change(tag, attach());
            Some(tag)
        },
        |world| {
            if world.members().iter().all(|(uuid, _)| *uuid != 12) {
                world.change(attach()).unwrap();
            }
        },
    );
    assert!(crashes > 60, "{crashes}");
}

#[test]
fn a_crash_at_any_moment_of_a_return_loses_nothing() {
    let mut world = World::mirrored(3);
    world.store.lose(1);
    for _ in 0..10 {
        world.write_something();
    }
    let made = world.crash();
    let back = || Change::ReturnMember { member: member(12, 1) };
    let crashes = crash_everywhere(
        &made,
        &[0],
        |world| {
            let tag = world.tag();
            world.store.change(tag, back());
            Some(tag)
        },
        |world| world.change(back()).unwrap(),
    );
    assert!(crashes > 30, "{crashes}");
}

#[test]
fn a_member_that_returns_gets_only_what_changed() {
    let mut world = World::mirrored(4);
    world.change(Change::Checkpoint).unwrap();
    world.store.lose(1);
    assert_eq!(world.members()[1], (12, MemberState::Absent));
    for _ in 0..3 {
        world.write_something();
    }
    world.change(Change::Checkpoint).unwrap();
    let before = world.disks[&1].written;
    world.change(Change::ReturnMember { member: member(12, 1) }).unwrap();
    world.finish_resilver();
    let copied = world.disks[&1].written - before;
    assert!(copied < 6 << 20, "{copied}");
    each_alone(&world.crash(), &[0, 1], "after the return");
}

#[test]
fn a_member_that_returns_sets_aside_what_the_others_set_aside_meanwhile() {
    let mut world = World::mirrored(4);
    world.store.lose(1);
    let mut crashed = world.crash();
    crashed.disks.values_mut().for_each(|disk| disk.reserved.clear());
    let mut world = crashed.open(&[0]).unwrap();
    world.write_something();
    world.change(Change::Checkpoint).unwrap();
    let wanted = world.disks[&0].reserved_blocks();
    // More than the regions that were written to.
    assert!(wanted.len() > 16_384, "{}", wanted.len());
    world.change(Change::ReturnMember { member: member(12, 1) }).unwrap();
    world.finish_resilver();
    assert!(wanted.is_subset(&world.disks[&1].reserved_blocks()));
}

#[test]
fn a_member_that_fails_again_while_it_is_resilvered_comes_back_once_more() {
    let mut world = World::plain(5);
    world.change(Change::AttachMember { device: 0, member: member(12, 1) }).unwrap();
    for _ in 0..60 {
        world.step();
    }
    world.disks.get_mut(&1).unwrap().fails = true;
    for _ in 0..5 {
        world.write_something();
    }
    world.until(|world| world.members()[1].1 == MemberState::Absent);
    world.check("without it");
    world.disks.get_mut(&1).unwrap().fails = false;
    world.store.lose(1);
    world.until(|world| world.store.slot_is_idle(1));
    world.change(Change::ReturnMember { member: member(12, 1) }).unwrap();
    world.write_something();
    world.finish_resilver();
    each_alone(&world.crash(), &[0, 1], "after the second time");
}

#[test]
fn if_the_only_current_member_fails_the_half_copy_is_not_read() {
    let mut world = World::plain(6);
    world.change(Change::AttachMember { device: 0, member: member(12, 1) }).unwrap();
    for _ in 0..40 {
        world.step();
    }
    assert!(!world.is_whole());
    world.disks.get_mut(&0).unwrap().fails = true;
    let write = world.begin_write();
    assert!(world.wait(write.0.0).is_err());
    assert!(matches!(world.store.health(), Health::ReadOnly { .. }));
    assert_eq!(world.members()[1].1, MemberState::Resilvering);
    let crashed = world.crash();
    let refused = crashed.clone().open(&[1]);
    assert!(matches!(refused, Err(Failure::Open(OpenError::MembersMissing { .. }))));
    let mut crashed = crashed;
    crashed.disks.get_mut(&0).unwrap().fails = false;
    let mut world = crashed.open(&[0, 1]).unwrap();
    world.check("back again");
    world.finish_resilver();
    each_alone(&world.crash(), &[0, 1], "resilvered");
}

#[test]
fn a_resilver_rests_also_after_a_restart_and_can_be_given_up() {
    let mut world = World::plain(7);
    world.change(Change::Resilver(ResilverChange::Pause)).unwrap();
    world.change(Change::AttachMember { device: 0, member: member(12, 1) }).unwrap();
    world.change(Change::Resilver(ResilverChange::Pause)).unwrap();
    world.until(|world| world.pending.is_empty());
    let status = |world: &World| world.store.mirrors().next().unwrap().resilver.unwrap();
    let copied = status(&world).copied_bytes;
    for _ in 0..40 {
        world.write_something();
    }
    assert!(status(&world).paused && status(&world).copied_bytes <= copied + (4 << 20));
    let mut world = world.crash().open(&[0, 1]).unwrap();
    world.write_something();
    assert_eq!(world.members()[1].1, MemberState::Resilvering);
    assert!(status(&world).paused && status(&world).total_bytes > 0);
    world.change(Change::Resilver(ResilverChange::Resume)).unwrap();
    world.finish_resilver();
    let cancel = Change::Resilver(ResilverChange::Cancel { member: [12; 16] });
    let refused = world.change(cancel.clone()).unwrap_err();
    assert_eq!(refused, ChangeError::NotResilvering.into());
    world.change(Change::AttachMember { device: 0, member: member(13, 2) }).unwrap();
    world.change(Change::Resilver(ResilverChange::Cancel { member: [13; 16] })).unwrap();
    assert_eq!(world.members().len(), 2);
    assert!(world.is_whole());
    each_alone(&world.crash(), &[0, 1], "two are left");
}

#[test]
fn a_device_is_replaced_and_the_old_one_is_no_member_any_more() {
    let mut world = World::mirrored(8);
    world.change(Change::AttachMember { device: 0, member: member(13, 2) }).unwrap();
    world.write_something();
    world.finish_resilver();
    // The first of three is away; its successor is a fourth member for a while.
    let mut world = world.crash().open(&[1, 2]).unwrap();
    world.change(Change::AttachMember { device: 0, member: member(14, 3) }).unwrap();
    let fifth = world.change(Change::AttachMember { device: 0, member: member(15, 4) });
    assert_eq!(fifth.unwrap_err(), ChangeError::TooManyMembers.into());
    world.write_something();
    let is_filled =
        |world: &World| world.members().iter().all(|(_, state)| *state != MemberState::Resilvering);
    world.until(is_filled);
    while world.step() {}
    let mut world = world.crash().open(&[1, 2, 3]).unwrap();
    assert_eq!(world.members().len(), 4);
    world.change(Change::DetachMember { member: [14; 16] }).unwrap();
    world.change(Change::DetachMember { member: [11; 16] }).unwrap();
    let unknown = world.change(Change::DetachMember { member: [11; 16] }).unwrap_err();
    assert_eq!(unknown, ChangeError::NoSuchMember.into());
    for _ in 0..5 {
        world.write_something();
    }
    let crashed = world.crash();
    each_alone(&crashed, &[1, 2], "the others");
    assert!(crashed.clone().open(&[0]).is_err());
    // It may join again.
    let mut world = crashed.open(&[1, 2, 0]).unwrap();
    world.change(Change::DetachMember { member: [12; 16] }).unwrap();
    let last = world.change(Change::DetachMember { member: [13; 16] }).unwrap_err();
    assert_eq!(last, ChangeError::LastMember.into());
    world.change(Change::AttachMember { device: 0, member: member(11, 0) }).unwrap();
    world.finish_resilver();
    each_alone(&world.crash(), &[0, 2], "the first one again");
}

/// A disk that had rotted was replaced, what took its place got the rot, and then the sound one was pulled.
#[test]
fn what_has_rotted_on_a_device_is_not_copied_to_the_one_that_replaces_it() {
    let mut world = World::mirrored(8);
    while world.step() {}
    let rotten = world.disks.get_mut(&0).unwrap();
    rotten.flush();
    let is_data = |block: &Bytes| block.chunks(8).all(|word| word == &block[..8]);
    let data = rotten.stable.values_mut().filter(|block| is_data(block));
    assert!(data.map(|block| *block = content(u64::MAX)).count() > 20);
    world.store.going_to_leave([11; 16]);
    world.change(Change::AttachMember { device: 0, member: member(13, 2) }).unwrap();
    world.finish_resilver();
    world.change(Change::DetachMember { member: [11; 16] }).unwrap();
    each_alone(&world.crash(), &[1, 2], "what replaces it, and the other");
}

#[test]
fn a_member_that_was_used_apart_or_is_another_one_does_not_come_back() {
    let mut world = World::mirrored(11);
    world.store.lose(1);
    world.write_something();
    let before = world.disks[&1].clone();
    world.disks.insert(1, world.disks[&0].clone());
    let other = world.change(Change::ReturnMember { member: member(12, 1) }).unwrap_err();
    assert_eq!(other, ChangeError::NotThatMember.into());
    world.disks.insert(1, Disk::new(SIZE));
    let blank = world.change(Change::ReturnMember { member: member(12, 1) }).unwrap_err();
    assert_eq!(blank, ChangeError::NotThatMember.into());
    world.disks.insert(1, before);
    world.change(Change::ReturnMember { member: member(12, 1) }).unwrap();
    let again = world.change(Change::ReturnMember { member: member(12, 1) }).unwrap_err();
    assert_eq!(again, ChangeError::MemberPresent.into());
    world.finish_resilver();
    each_alone(&world.crash(), &[0, 1], "the right one");
}

/// All of the second one's bits are set while the first one becomes current, which clears bits.
#[test]
fn two_members_join_at_once() {
    for seed in 0..12 {
        let mut world = World::plain(20 + seed);
        world.change(Change::AttachMember { device: 0, member: member(12, 1) }).unwrap();
        for _ in 0..seed * 8 {
            world.step();
        }
        world.change(Change::AttachMember { device: 0, member: member(13, 2) }).unwrap();
        world.write_something();
        world.finish_resilver();
        each_alone(&world.crash(), &[0, 1, 2], "both have joined");
    }
}

#[test]
fn three_members_of_which_two_fail_one_after_the_other_come_back_in_any_order() {
    for order in [[12, 13], [13, 12]] {
        let members = vec![member(11, 0), member(12, 1), member(13, 2)];
        let mut world = World::made(vec![DeviceSpec::mirror([1; 16], members)], 12);
        world.store.lose(1);
        world.write_something();
        world.store.lose(2);
        world.write_something();
        for number in order {
            let back = Change::ReturnMember { member: member(number, number - 11) };
            world.change(back).unwrap();
            world.write_something();
            world.until(|world| world.members().contains(&(number, MemberState::Current)));
        }
        world.finish_resilver();
        each_alone(&world.crash(), &[0, 1, 2], "all are back");
    }
}

#[test]
fn a_large_device_costs_what_is_mapped_of_it() {
    let size = 1 << 40;
    let devices = vec![DeviceSpec::plain(MemberSpec { uuid: [1; 16], size_bytes: size, slot: 0 })];
    let spec = PoolSpec { pool_uuid: [9; 16], devices };
    let store = Store::format(&spec, Options::default(), Tag(0));
    let disks = (0..2).map(|slot| (slot, Disk::new(size))).collect();
    let mut world = World::begin(store, disks, 9);
    world.wait(0).unwrap();
    world.change(Change::CreateVolume(volume(A, "a", 1 << 30))).unwrap();
    let mapped = 192 << 20;
    world.write_mebibytes(mapped >> 20);
    let spec = MemberSpec { uuid: [12; 16], slot: 1, size_bytes: size };
    world.change(Change::AttachMember { device: 0, member: spec }).unwrap();
    world.finish_resilver();
    let copied = world.disks[&1].written;
    assert!(copied <= mapped + mapped / 10, "{copied} of {mapped}");
}
