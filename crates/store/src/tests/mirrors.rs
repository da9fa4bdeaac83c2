//! Pools on mirrors: any member may be lost at any moment, rot, come back stale, or lose what was not
//! flushed in a power failure.

use std::collections::HashMap;

use super::random::Random;
use super::*;
use std::time::Duration;

use crate::{Incident, Io, MemberSpec, MemberState, Place};

mod growth;
mod opening;
mod rot;
mod witness;

const DEVICE: [u8; 16] = [50; 16];
const SMALL: u64 = 96 << 20;

/// A member's medium.
#[derive(Clone, Default)]
pub(super) struct Disk {
    now: HashMap<u64, Bytes>,
    /// What a power failure leaves for sure.
    stable: HashMap<u64, Bytes>,
    /// Everything fails.
    fails: bool,
    /// It is only read.
    refuses_writes: bool,
    /// Nothing comes to its end.
    hangs: bool,
    /// A block that cannot be read: it fails, or does not come to its end.
    bad: Option<(u64, bool)>,
    written: u64,
}

/// A pool, the media in its slots, and the generations that its caller keeps.
pub(super) struct Array {
    pub(super) store: Store,
    pub(super) disks: Vec<Disk>,
    /// Which disks the store is given, by slot.
    there: Vec<u8>,
    witnessed: Vec<([u8; 16], u64)>,
    /// I/O carried out since the pool was made or opened, and what happens at which of them.
    carried_out: u64,
    fails_at: Option<(u64, u8)>,
    /// I/O of disks that hang.
    held: Vec<Io>,
    next_tag: u64,
}

fn member(slot: u8) -> MemberSpec {
    MemberSpec { uuid: [100 + slot; 16], slot, size_bytes: SMALL }
}

impl Disk {
    fn read(&self, offset: u64, buffer: &mut [u8]) {
        for (number, place) in (offset / BLOCK..).zip(buffer.chunks_mut(BLOCK as usize)) {
            match self.now.get(&number) {
                Some(bytes) => place.copy_from_slice(bytes),
                None => place.fill(0),
            }
        }
    }

    fn is_bad(&self, offset: u64) -> bool {
        self.bad.is_some_and(|(block, _)| block == offset / BLOCK)
    }

    fn holds(&self, operation: &DeviceOperation) -> bool {
        let hangs = self.bad.is_some_and(|(_, hangs)| hangs);
        hangs && matches!(operation, DeviceOperation::Read { offset, .. } if self.is_bad(*offset))
    }

    fn serve(&mut self, operation: DeviceOperation) -> DeviceResult {
        if self.fails {
            return Err(DeviceError::Os(5));
        }
        match operation {
            DeviceOperation::Write { .. } if self.refuses_writes => {
                return Err(DeviceError::Os(5));
            }
            DeviceOperation::Read { offset, .. } if self.is_bad(offset) => {
                return Err(DeviceError::Os(5));
            }
            DeviceOperation::Read { offset, mut buffer } => {
                self.read(offset, &mut buffer);
                return Ok(Some(buffer));
            }
            DeviceOperation::Write { offset, data } => {
                let bytes = Bytes::from(data.to_vec());
                for (at, number) in (0..bytes.len()).step_by(BLOCK as usize).zip(offset / BLOCK..) {
                    self.written += 1;
                    self.now.insert(number, bytes.slice(at..at + BLOCK as usize));
                }
            }
            DeviceOperation::Flush => self.stable = self.now.clone(),
            DeviceOperation::Reserve { .. } => {}
        }
        Ok(None)
    }

    /// Loses some of what was not flushed.
    fn lose_power(&mut self, random: &mut Random) {
        let mut left = self.stable.clone();
        let mut unflushed: Vec<u64> = self.now.keys().copied().collect();
        unflushed.sort_unstable();
        unflushed.retain(|number| self.now.get(number) != self.stable.get(number));
        let chance = random.below(3);
        for number in unflushed {
            if random.below(2) < chance {
                left.insert(number, self.now[&number].clone());
            }
        }
        (self.now, self.stable) = (left.clone(), left);
    }
}

impl Array {
    /// A pool with one mirror of so many members, with a volume in it.
    pub(super) fn new(members: u8) -> Self {
        Self::of(vec![DeviceSpec::mirror(DEVICE, (0..members).map(member).collect())])
    }

    pub(super) fn of(devices: Vec<DeviceSpec>) -> Self {
        let slots: usize = devices.iter().map(|device| device.members.len().max(1)).sum();
        let spec = PoolSpec { pool_uuid: [1; 16], devices };
        let store = Store::format(&spec, options(), Tag(0));
        let mut array = Self {
            store,
            disks: vec![Disk::default(); slots],
            there: (0..slots as u8).collect(),
            witnessed: Vec::new(),
            carried_out: 0,
            fails_at: None,
            held: Vec::new(),
            next_tag: 0,
        };
        array.wait(0).unwrap();
        array.change(Change::CreateVolume(volume(A, "a", 64 << 20))).unwrap();
        array
    }

    pub(super) fn pump(&mut self) {
        loop {
            while let Some(told) = self.store.next_membership() {
                self.witnessed.retain(|(uuid, _)| *uuid != told.mirror);
                self.witnessed.push((told.mirror, told.generation));
                self.store.membership_witnessed(told);
            }
            let Some(io) = self.store.next_io() else { return };
            self.carried_out += 1;
            if let Some((at, slot)) = self.fails_at
                && self.carried_out >= at
            {
                self.disks[usize::from(slot)].fails = true;
            }
            let disk = &mut self.disks[usize::from(io.device)];
            if disk.hangs || disk.holds(&io.operation) {
                self.held.push(io);
            } else {
                let result = disk.serve(io.operation);
                self.store.completed(io.id, result);
            }
        }
    }

    fn wait(&mut self, tag: u64) -> Result<Outcome, Failure> {
        let mut now = Duration::ZERO;
        loop {
            self.pump();
            match self.store.next_done() {
                Some(done) if done.tag == Tag(tag) => return done.result,
                Some(_) => {}
                None => {
                    now += Duration::from_secs(1);
                    assert!(now < Duration::from_secs(30), "every request comes to its end");
                    self.store.tick(now);
                }
            }
        }
    }

    pub(super) fn change(&mut self, change: Change) -> Result<(), Failure> {
        self.next_tag += 1;
        self.store.change(Tag(self.next_tag), change);
        self.wait(self.next_tag).map(drop)
    }

    pub(super) fn ask(&mut self, request: Request) -> Result<Response, Failure> {
        self.next_tag += 1;
        self.store.submit(Tag(self.next_tag), A, request);
        match self.wait(self.next_tag)? {
            Outcome::Response(response) => Ok(response),
            Outcome::Changed | Outcome::Difference(_) => {
                unreachable!("requests are answered with responses")
            }
        }
    }

    pub(super) fn write(&mut self, offset: u64, data: &[u8]) {
        let range = ByteRange::new(offset, data.len() as u64);
        self.ask(Request::Write { range, data: Bytes::copy_from_slice(data) }).unwrap();
    }

    pub(super) fn read(&mut self, offset: u64, length: u64) -> Vec<u8> {
        match self.ask(Request::Read { range: ByteRange::new(offset, length) }).unwrap() {
            Response::Data(rope) => rope.to_vec(),
            other => unreachable!("{other:?}"),
        }
    }

    pub(super) fn settle(&mut self) {
        (0..3).for_each(|_| self.change(Change::Checkpoint).unwrap());
    }

    /// Opens the pool anew on the disks in these slots, in this order.
    pub(super) fn open(self, slots: &[u8]) -> Result<Self, Failure> {
        let witnessed = self.witnessed.clone();
        self.open_with(slots, OpenContext { witnessed, ..OpenContext::default() })
    }

    /// Opens the pool anew on all disks, whatever comes of it.
    fn open_again(mut self) -> (Self, Result<Outcome, Failure>) {
        let witnessed = self.witnessed.clone();
        let context = OpenContext { witnessed, ..OpenContext::default() };
        let specs: Vec<_> =
            (0..self.disks.len() as u8).map(|slot| SlotSpec { slot, size_bytes: SMALL }).collect();
        self.store = Store::open(&specs, context, options(), Tag(0));
        self.carried_out = 0;
        let opened = self.wait(0);
        (self, opened)
    }

    pub(super) fn open_with(mut self, slots: &[u8], context: OpenContext) -> Result<Self, Failure> {
        let specs: Vec<_> =
            slots.iter().map(|&slot| SlotSpec { slot, size_bytes: SMALL }).collect();
        self.store = Store::open(&specs, context, options(), Tag(0));
        self.there = slots.to_vec();
        self.carried_out = 0;
        self.wait(0).map(|_| self)
    }

    pub(super) fn state(&self, slot: u8) -> MemberState {
        let mut members = self.store.mirrors().flat_map(|mirror| mirror.members);
        members.find(|member| member.uuid == [100 + slot; 16]).unwrap().state
    }

    /// Checks the pool offline on the disks in these slots.
    pub(super) fn verify(&self, slots: &[u8]) -> crate::Report {
        let specs: Vec<_> =
            slots.iter().map(|&slot| SlotSpec { slot, size_bytes: SMALL }).collect();
        let read = |slot: u8, offset: u64, buffer: &mut [u8]| {
            self.disks[usize::from(slot)].read(offset, buffer);
            Ok(())
        };
        crate::verify(&specs, crate::Depth::Data, read).unwrap()
    }

    fn fork(&self) -> Self {
        Self {
            store: Store::open(&[], OpenContext::default(), options(), Tag(0)),
            disks: self.disks.clone(),
            there: self.there.clone(),
            witnessed: self.witnessed.clone(),
            carried_out: 0,
            fails_at: None,
            held: Vec::new(),
            next_tag: self.next_tag,
        }
    }
}

fn options() -> Options {
    Options { journal_bytes: 4 << 20, ..Options::default() }
}

#[test]
fn each_member_alone_has_everything_and_slots_come_in_any_order() {
    for members in [2, 3] {
        let mut array = Array::new(members);
        array.write(0, &pattern(1, 4 << 20));
        array.settle();
        array.write(1 << 20, &pattern(2, 8192));
        let all: Vec<u8> = (0..members).rev().collect();
        assert_eq!(array.verify(&all).faults, Vec::<String>::new());
        assert_eq!(array.verify(&all).damaged_copies, 0);
        let again = array.fork().open(&all).unwrap();
        assert!((0..members).all(|slot| again.state(slot) == MemberState::Current));
        for slot in 0..members {
            let mut alone = array.fork().open(&[slot]).unwrap();
            assert_eq!(alone.state(slot), MemberState::Current);
            assert_eq!(alone.state((slot + 1) % members), MemberState::Absent);
            assert!(alone.read(0, 1 << 20) == pattern(1, 4 << 20)[..1 << 20]);
            assert!(alone.read(1 << 20, 8192) == pattern(2, 8192));
            alone.write(0, &pattern(3, 4096));
            assert!(alone.read(0, 4096) == pattern(3, 4096));
        }
    }
}

#[test]
fn a_member_that_fails_at_any_moment_costs_no_request_and_the_other_has_everything() {
    let mut array = Array::new(2);
    array.write(0, &pattern(9, 1 << 20));
    array.settle();
    let mut at = 1;
    loop {
        for slot in [0, 1] {
            let mut one = array.fork().open(&[0, 1]).unwrap();
            (one.carried_out, one.fails_at) = (0, Some((at, slot)));
            for number in 0..6 {
                one.write(number * 65_536, &pattern(number, 40_960));
                assert!(one.read(number * 65_536, 40_960) == pattern(number, 40_960));
            }
            one.change(Change::Checkpoint).unwrap();
            one.write(0, &pattern(77, 4096));
            one.read(1 << 19, 1 << 19);
            if one.carried_out < at {
                return;
            }
            // The other one alone, after a power failure, whether the failed one is there or not.
            one.disks[usize::from(slot)].fails = false;
            for disk in &mut one.disks {
                disk.now = disk.stable.clone();
            }
            for slots in [&[1 - slot][..], &[0, 1]] {
                let mut left = one.fork().open(slots).unwrap();
                assert!(left.read(0, 4096) == pattern(77, 4096));
                for number in 1..6 {
                    assert!(left.read(number * 65_536, 40_960) == pattern(number, 40_960));
                }
            }
        }
        at += 3;
    }
}

#[test]
fn a_member_that_hangs_holds_requests_for_the_limit_at_most() {
    let mut array = Array::new(2);
    array.write(0, &pattern(1, 1 << 20));
    array.disks[0].hangs = true;
    array.write(0, &pattern(2, 1 << 20));
    assert_eq!(array.state(0), MemberState::Absent);
    assert!(array.read(0, 1 << 20) == pattern(2, 1 << 20));
    assert!(!array.store.slot_is_idle(0) && array.store.slot_is_idle(1));
    assert_eq!(array.store.health(), Health::Ready);
    // What it still has under way keeps nobody from closing the pool.
    array.change(Change::Close).unwrap();
    array.pump();
    assert_eq!(array.store.health(), Health::Closed);
    assert!(!array.store.has_io());
}

#[test]
fn a_power_failure_that_leaves_different_blocks_on_the_members_is_mended_before_anything_relies_on_it()
 {
    for seed in 0..60 {
        let mut random = Random(seed);
        let mut array = Array::new(2);
        array.write(0, &pattern(9, 1 << 20));
        if random.below(2) == 0 {
            array.settle();
        }
        // Several requests at once; the power fails at any moment.
        for number in 0..4_u64 {
            let range = ByteRange::new(number * 65_536, 16_384);
            let data = Bytes::from(pattern(100 + number, 16_384));
            array.store.submit(Tag(1000 + number), A, Request::Write { range, data });
        }
        if random.below(2) == 0 {
            array.store.change(Tag(2000), Change::Checkpoint);
        }
        for _ in 0..random.below(60) {
            let Some(io) = array.store.next_io() else { break };
            let result = array.disks[usize::from(io.device)].serve(io.operation);
            array.store.completed(io.id, result);
        }
        array.disks.iter_mut().for_each(|disk| disk.lose_power(&mut random));
        // Recovery itself may be cut short.
        for _ in 0..random.below(3) {
            let mut cut = array.fork();
            let specs: Vec<_> = (0..2).map(|slot| SlotSpec { slot, size_bytes: SMALL }).collect();
            let context =
                OpenContext { witnessed: cut.witnessed.clone(), ..OpenContext::default() };
            cut.store = Store::open(&specs, context, options(), Tag(0));
            for _ in 0..random.below(2200) {
                let Some(io) = cut.store.next_io() else { break };
                let result = cut.disks[usize::from(io.device)].serve(io.operation);
                cut.store.completed(io.id, result);
            }
            cut.disks.iter_mut().for_each(|disk| disk.lose_power(&mut random));
            array = cut;
        }
        let mut both = array.open(&[0, 1]).unwrap();
        let content = both.read(0, 1 << 20);
        for disk in &mut both.disks {
            disk.now = disk.stable.clone();
        }
        assert_eq!(both.verify(&[1, 0]).damaged_copies, 0, "seed {seed}");
        for slot in [0, 1] {
            let mut alone = both.fork().open(&[slot]).unwrap();
            assert!(alone.read(0, 1 << 20) == content, "seed {seed} member {slot}");
        }
    }
}
