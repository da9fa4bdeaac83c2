//! Queue of pending device I/O, with the operations that wait for each completion.

mod members;

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use block::{BLOCK, Buffer, DeviceOperation, DeviceResult, Rope};
use slab::Slab;

pub(crate) use members::MemberPlace;

use crate::address::{Address, DeviceNumber, Run};
use crate::limits::HANG_LIMITS;
use crate::map::Missing;
use crate::mirror::{
    At, Breadth, Expected, Extent, Found, MemberKey, MemberNumber, Mirror, MirrorNumber, Mirrors,
    Token, Wish,
};
use crate::operation_key::OperationKey;
use crate::space::{AllocationGroupId, GroupPage};

/// The engine's name for an I/O. Numbers are used again when their I/O has ended, so that they stay
/// small.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct IoId(pub u64);

/// A pending I/O.
#[derive(Debug)]
pub struct Io {
    /// To be given back with the result.
    pub id: IoId,
    /// The caller's slot of the device.
    pub device: u8,
    /// The device operation.
    pub operation: DeviceOperation,
}

/// Blocks that opening a pool has to read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    /// Which of the reads of a step of recovery.
    pub(crate) index: u64,
    pub(crate) run: Run,
    /// How often they were read already.
    pub(crate) attempt: u8,
    /// Which copy of a mirror is read, by its number, going round.
    pub(crate) copy: u8,
}

/// Which extent of an operation is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ExtentKey {
    /// Which read of the operation, from 0 on.
    pub(crate) read: usize,
    /// Which extent of that read, from 0 on.
    pub(crate) extent: usize,
}

/// Consumer of a completed I/O.
#[derive(Clone, Debug)]
pub(crate) enum Waiter {
    /// A read of an operation.
    Operation { operation: OperationKey, extent: ExtentKey },
    /// Prefetch: no operation waits yet.
    Ahead { number: u64, run: Run },
    /// A page of the map, or its copy.
    Page { missing: Missing, attempt: u8 },
    /// A page of a group's space maps.
    GroupPage { group: AllocationGroupId, page: GroupPage, attempt: u8 },
    /// Space for a group on its device, from which blocks will be allocated.
    GroupSpace { group: AllocationGroupId },
    /// Space for a group on its device, so that it is there.
    Preallocation { group: AllocationGroupId },
    /// A write of a commit group.
    Commit { sequence: u64 },
    /// The flush of a commit group, on one device.
    CommitFlush { sequence: u64 },
    /// Anything of a checkpoint.
    Checkpoint,
    /// The label of a device that joins the pool, or space on one that joins or grows.
    Label { operation: OperationKey },
    /// A label that is written again with more features, or its flush.
    Features { operation: OperationKey },
    /// Blocks of a device that joins a mirror, comes back to it or has left, or a flush before.
    Member { operation: OperationKey },
    /// Anything that the scrub compares.
    Scrub { read: u64 },
    /// Data of a device that leaves, on its way to another one.
    Evacuation { read: u64 },
    /// The labels of a device that has left, which are cleared.
    Farewell { operation: OperationKey },
    /// A copy of a label that is written again since it was damaged; nobody relies on it yet.
    HealedLabel,
    /// A page that is written again where a copy of it was bad; nobody relies on it yet.
    Repair,
    /// A read of opening the pool.
    Opening { wanted: Wanted },
    /// Data of a unit of the journal that only some copies may have, while the pool is opened.
    Tail { piece: usize },
    /// A write of making the pool, or space for what lies before the groups.
    Format,
}

/// Why an I/O has no device.
const NOTHING: &str = "nothing refers to a device that has left";

/// Where a logical device lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// It is one device, in this slot.
    Plain(u8),
    /// It is a mirror: which one.
    Mirror(MirrorNumber),
    /// No device has this number.
    Nothing,
}

/// Consumer of the result of an I/O that was handed out.
enum Consumer {
    /// The engine: it was an I/O of a plain device, in this slot.
    Engine(Waiter, u8),
    /// A mirror: it was an I/O of one of its members.
    Member(MemberKey),
    /// Nobody any more.
    Nobody,
}

/// I/O that is not yet handed out, and who consumes each result.
pub(crate) struct IoQueue {
    consumers: Slab<Consumer>,
    pending: VecDeque<Io>,
    /// Where the pool's devices lie; one that is not known yet lies in the slot of its own number.
    places: Vec<Place>,
    mirrors: Mirrors,
    /// Who waits for I/O of mirrors.
    mirrored: Slab<Waiter>,
    /// I/O of mirrors that has ended.
    ended: VecDeque<(Waiter, DeviceResult)>,
    /// I/O of the time before a plain device became a mirror.
    draining: BTreeSet<u64>,
}

impl IoQueue {
    pub(crate) fn new(hang_limit: Duration, resilver_rate: u64) -> Self {
        let hang_limit = hang_limit.clamp(*HANG_LIMITS.start(), *HANG_LIMITS.end());
        let mut mirrors = Mirrors::new(hang_limit);
        mirrors.set_resilver_rate(resilver_rate);
        Self {
            consumers: Slab::new(),
            pending: VecDeque::new(),
            places: Vec::new(),
            mirrors,
            mirrored: Slab::new(),
            ended: VecDeque::new(),
            draining: BTreeSet::new(),
        }
    }

    /// The next device is a plain one.
    pub(crate) fn add_plain(&mut self, slot: u8) {
        self.put(self.next_device(), Place::Plain(slot));
    }

    /// The device of a number, that none has, was found there.
    pub(crate) fn add_found(&mut self, device: DeviceNumber, at: At) {
        match at {
            At::Plain(slot) => self.put(device, Place::Plain(slot)),
            At::Mirror(found) => {
                let mirror = self.mirrors.add(*found);
                self.put(device, Place::Mirror(mirror));
                self.collect();
            }
        }
    }

    fn put(&mut self, device: DeviceNumber, place: Place) {
        let places = self.places.len().max(device.index() + 1);
        self.places.resize(places, Place::Nothing);
        self.places[device.index()] = place;
    }

    /// The number that the next device gets: the first one that none has.
    pub(crate) fn next_device(&self) -> DeviceNumber {
        let free = self.places.iter().position(|&place| place == Place::Nothing);
        DeviceNumber::at(free.unwrap_or(self.places.len()))
    }

    /// The devices, those that join included.
    pub(crate) fn devices(&self) -> Vec<DeviceNumber> {
        let places = self.places.iter().enumerate();
        let there = places.filter(|(_, place)| **place != Place::Nothing);
        there.map(|(index, _)| DeviceNumber::at(index)).collect()
    }

    /// The next device is a mirror.
    pub(crate) fn add_mirror(&mut self, found: Found) {
        self.add_found(self.next_device(), At::Mirror(Box::new(found)));
    }

    /// A device did not join, or has left.
    pub(crate) fn remove(&mut self, device: DeviceNumber) {
        let Some(place) = self.places.get_mut(device.index()) else { return };
        if let Place::Mirror(gone) = std::mem::replace(place, Place::Nothing) {
            self.mirrors.remove(gone);
            for place in &mut self.places {
                if let Place::Mirror(number) = place {
                    *number = number.after_removal_of(gone);
                }
            }
            self.withdraw_disowned();
        }
        while self.places.pop_if(|place| *place == Place::Nothing).is_some() {}
    }

    /// Whether nothing is under way on a device.
    pub(crate) fn is_device_idle(&self, device: DeviceNumber) -> bool {
        match self.place(device) {
            Place::Plain(slot) => !self.consumers.iter().any(
                |(_, consumer)| matches!(consumer, Consumer::Engine(_, used) if *used == slot),
            ),
            Place::Mirror(mirror) => self.mirrors.is_idle(mirror),
            Place::Nothing => true,
        }
    }

    /// I/O of a mirror that was forgotten is not handed out any more: its devices may be used for
    /// something else by then.
    fn withdraw_disowned(&mut self) {
        self.collect();
        let Self { pending, consumers, mirrors, .. } = self;
        pending.retain(|io| match consumers.get(io.id.0 as usize) {
            Some(&Consumer::Member(key)) if mirrors.is_disowned(key) => {
                consumers.remove(io.id.0 as usize);
                mirrors.cancelled(key);
                false
            }
            Some(_) | None => true,
        });
    }

    /// The devices are not known any more.
    pub(crate) fn forget_devices(&mut self) {
        self.places.clear();
    }

    fn place(&self, device: DeviceNumber) -> Place {
        let place = self.places.get(device.index()).copied();
        place.unwrap_or(Place::Plain(device.number()))
    }

    /// The slot of a plain device.
    pub(crate) fn plain_slot(&self, device: DeviceNumber) -> Option<u8> {
        match self.place(device) {
            Place::Plain(slot) => Some(slot),
            Place::Mirror(_) | Place::Nothing => None,
        }
    }

    /// A device that is a mirror.
    pub(crate) fn mirror(&self, device: DeviceNumber) -> Option<&Mirror> {
        match self.place(device) {
            Place::Plain(_) | Place::Nothing => None,
            Place::Mirror(mirror) => Some(self.mirrors.get(mirror)),
        }
    }

    /// The slots that hold a current copy of a device.
    pub(crate) fn current_slots(&self, device: DeviceNumber) -> Vec<u8> {
        match self.place(device) {
            Place::Plain(slot) => vec![slot],
            Place::Mirror(mirror) => self.mirrors.get(mirror).current_slots().collect(),
            Place::Nothing => Vec::new(),
        }
    }

    /// All mirrors.
    pub(crate) fn mirrors(&self) -> &Mirrors {
        &self.mirrors
    }

    /// Changes mirrors; what comes of it is done at once.
    pub(crate) fn with_mirrors<R>(&mut self, change: impl FnOnce(&mut Mirrors) -> R) -> R {
        let result = change(&mut self.mirrors);
        self.collect();
        result
    }

    /// Reads blocks; of a mirror from one of its members, or another one if that has not what is
    /// expected.
    pub(crate) fn read(&mut self, waiter: Waiter, run: Run, expected: Expected<'_>) {
        self.read_as(waiter, run, expected, Breadth::One);
    }

    /// Reads blocks from every current copy and mends what is not as expected; of a plain device as
    /// [`Self::read`].
    pub(crate) fn verify(&mut self, waiter: Waiter, run: Run, expected: Expected<'_>) {
        self.read_as(waiter, run, expected, Breadth::All);
    }

    /// Reads blocks from one of the current copies before others, by its number, going round.
    pub(crate) fn read_copy(&mut self, waiter: Waiter, run: Run, copy: usize) {
        self.read_as(waiter, run, Expected::Nothing, Breadth::Copy(copy));
    }

    fn read_as(&mut self, waiter: Waiter, run: Run, expected: Expected<'_>, breadth: Breadth) {
        match self.place(run.start.device()) {
            Place::Plain(slot) => {
                let buffer = Buffer::for_overwrite((run.blocks * BLOCK) as usize);
                let offset = run.start.block().offset();
                self.submit(waiter, slot, DeviceOperation::Read { offset, buffer });
            }
            Place::Mirror(mirror) => self.mirrored(waiter, |mirrors, token| {
                mirrors.read(mirror, token, extent(run), expected, breadth);
            }),
            Place::Nothing => unreachable!("{NOTHING}"),
        }
    }

    pub(crate) fn write(&mut self, waiter: Waiter, address: Address, data: Rope) {
        match self.place(address.device()) {
            Place::Plain(slot) => {
                let offset = address.block().offset();
                self.submit(waiter, slot, DeviceOperation::Write { offset, data });
            }
            Place::Mirror(mirror) => {
                let blocks = data.len() as u64 / BLOCK;
                let extent = Extent { first: address.block(), blocks };
                self.mirrored(waiter, |mirrors, token| mirrors.write(mirror, token, extent, data));
            }
            Place::Nothing => unreachable!("{NOTHING}"),
        }
    }

    /// Writes one of the first own blocks of a member of a mirror that is being made.
    pub(crate) fn write_first_block(
        &mut self,
        waiter: Waiter,
        address: Address,
        member: MemberNumber,
        data: Rope,
    ) {
        if let Place::Mirror(mirror) = self.place(address.device()) {
            let block = address.block();
            self.mirrored(waiter, |mirrors, token| {
                mirrors.write_first_block(mirror, token, member, block, data);
            });
        }
    }

    pub(crate) fn flush(&mut self, waiter: Waiter, device: DeviceNumber) {
        match self.place(device) {
            Place::Plain(slot) => self.submit(waiter, slot, DeviceOperation::Flush),
            Place::Mirror(mirror) => {
                self.mirrored(waiter, |mirrors, token| mirrors.flush(mirror, token));
            }
            Place::Nothing => unreachable!("{NOTHING}"),
        }
    }

    pub(crate) fn reserve(&mut self, waiter: Waiter, run: Run) {
        match self.place(run.start.device()) {
            Place::Plain(slot) => {
                let (offset, length) = (run.start.block().offset(), run.blocks * BLOCK);
                self.submit(waiter, slot, DeviceOperation::Reserve { offset, length });
            }
            Place::Mirror(mirror) => self.mirrored(waiter, |mirrors, token| {
                mirrors.reserve(mirror, token, extent(run));
            }),
            Place::Nothing => unreachable!("{NOTHING}"),
        }
    }

    fn submit(&mut self, waiter: Waiter, slot: u8, operation: DeviceOperation) {
        let id = IoId(self.consumers.insert(Consumer::Engine(waiter, slot)) as u64);
        self.pending.push_back(Io { id, device: slot, operation });
    }

    fn mirrored(&mut self, waiter: Waiter, begin: impl FnOnce(&mut Mirrors, Token)) {
        let token = self.mirrored.insert(waiter);
        begin(&mut self.mirrors, token);
        self.collect();
    }

    /// Takes from the mirrors what their members are to do, and what has ended.
    fn collect(&mut self) {
        while let Some(Wish { key, slot, operation }) = self.mirrors.next_wish() {
            let id = IoId(self.consumers.insert(Consumer::Member(key)) as u64);
            self.pending.push_back(Io { id, device: slot, operation });
        }
        while let Some((token, result)) = self.mirrors.next_ended() {
            let waiter = self.mirrored.try_remove(token);
            self.ended.extend(waiter.map(|waiter| (waiter, result)));
        }
    }

    /// An I/O that was handed out has ended. Returns who consumes the result, at once if it was of a
    /// plain device; see [`Self::next_ended`] for mirrors.
    pub(crate) fn completed(
        &mut self,
        id: IoId,
        result: DeviceResult,
    ) -> Option<(Waiter, DeviceResult)> {
        self.drained(id);
        match self.consumers.try_remove(id.0 as usize)? {
            Consumer::Engine(waiter, _) => Some((waiter, result)),
            Consumer::Member(key) => {
                self.mirrors.completed(key, result);
                self.collect();
                self.ended.pop_front()
            }
            Consumer::Nobody => None,
        }
    }

    /// The next I/O of a mirror that has ended, and who consumes the result.
    pub(crate) fn next_ended(&mut self) -> Option<(Waiter, DeviceResult)> {
        self.ended.pop_front()
    }

    /// Whether an I/O of a mirror has ended and nobody consumed it yet.
    pub(crate) fn has_ended(&self) -> bool {
        !self.ended.is_empty()
    }

    /// The next one for a device.
    pub(crate) fn next(&mut self) -> Option<Io> {
        self.pending.pop_front()
    }

    /// Whether none waits to be handed out, and none of a mirror to be consumed.
    pub(crate) fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    /// Whether none is under way, or waits. A device that was given up may still have some.
    pub(crate) fn is_idle(&self) -> bool {
        self.mirrored.is_empty()
            && self.ended.is_empty()
            && self.consumers.len() == self.mirrors.orphans() + self.unconsumed()
    }

    fn unconsumed(&self) -> usize {
        self.consumers.iter().filter(|(_, consumer)| matches!(consumer, Consumer::Nobody)).count()
    }

    /// Nobody consumes the reads of opening a pool that are under way on one of the devices that are
    /// looked at; returns how many these are.
    pub(crate) fn forget_opening_reads(&mut self, device: DeviceNumber) -> usize {
        let mut forgotten = 0;
        for (_, consumer) in &mut self.consumers {
            if let Consumer::Engine(Waiter::Opening { wanted }, _) = consumer
                && wanted.run.start.device() == device
            {
                *consumer = Consumer::Nobody;
                forgotten += 1;
            }
        }
        forgotten
    }

    /// Gives up what was not handed out.
    pub(crate) fn cancel_pending(&mut self) {
        self.mirrors.abandon();
        self.mirrored.clear();
        self.ended.clear();
        for io in std::mem::take(&mut self.pending) {
            if let Some(Consumer::Member(key)) = self.consumers.try_remove(io.id.0 as usize) {
                self.mirrors.cancelled(key);
            }
        }
    }

    /// Gives up everything; nobody consumes what is under way.
    pub(crate) fn clear(&mut self) {
        self.cancel_pending();
        self.mirrors.clear();
        self.consumers.clear();
    }

    /// The consumer of an I/O of a plain device that is under way.
    #[cfg(test)]
    pub(crate) fn waiter(&self, id: IoId) -> &Waiter {
        match &self.consumers[id.0 as usize] {
            Consumer::Engine(waiter, _) => waiter,
            Consumer::Member(_) | Consumer::Nobody => panic!("an I/O of a member"),
        }
    }
}

/// The blocks of a run, on their device.
fn extent(run: Run) -> Extent {
    Extent { first: run.start.block(), blocks: run.blocks }
}
