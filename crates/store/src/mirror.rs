//! Mirrors: a logical device whose blocks two or three members hold alike.
//!
//! A state machine between the engine's I/O queue and the devices. Writes, flushes and reservations
//! go to every member that counts; reads go to the least busy current one and, if its copy is bad, to
//! the next. A member that fails is left out of the membership list, on the other members, before
//! anything that it lacks is answered: so a stale copy is never taken for a current one.
//!
//! This room knows blocks, addresses and checksums, and nothing of map, space or journal.

mod dirty;
mod extent;
mod fan_out;
mod heal;
mod joining;
mod label;
mod list;
mod member;
mod membership;
mod port;
mod read_errors;
mod reads;
mod rebuild;
mod regions;
mod reliance;
mod resilver;
mod sealed;
mod status;
mod witness;

use std::ops::{Index, IndexMut};
use std::time::Duration;

use block::{BLOCK, Buffer, DeviceError, DeviceOperation, DeviceResult, Rope};
use slab::Slab;

use dirty::Dirty;
pub(crate) use extent::Extent;
use fan_out::Fan;
pub(crate) use label::{MEMBER_LABELS, MemberLabel};
use list::ListChange;
pub(crate) use list::{LISTS, List, ListEntry};
pub(crate) use member::{Member, MemberNumber, MemberRefusal, MemberSet, MirrorNumber};
use port::{Heal, MemberIo, Port};
pub(crate) use port::{Healed, MemberKey, Purpose, Token, Wish};
use reads::Read;
pub(crate) use reads::{Breadth, Expected};
use rebuild::Rebuild;
pub(crate) use reliance::FoundWitness;
use reliance::Reliance;
pub use resilver::ResilverStatus;
pub(crate) use resilver::{Piece, Resilver};
pub use status::{MemberState, MemberStatus, Membership, MirrorStatus};

use crate::address::{DeviceBlock, DeviceNumber};
use crate::limits::HANG_TICKS;
use crate::options::DeviceSpec;

/// Where the bitmap of regions lies on each member, and how long it is.
const REGIONS_START: DeviceBlock = DeviceBlock::new(48);
const REGIONS_BLOCKS: u64 = 208;

/// errno: input/output error.
const EIO: i32 = 5;

/// errno: no such device.
const ENODEV: i32 = 19;

/// All mirrors of a pool.
pub(crate) struct Mirrors {
    mirrors: Vec<Mirror>,
    port: Port,
}

/// A logical device with members.
pub(crate) struct Mirror {
    /// Its place among the mirrors.
    number: MirrorNumber,
    device: DeviceNumber,
    /// The members, by the places that [`MemberSet`] counts.
    members: Vec<Member>,
    /// The list that is durable, and that the caller has witnessed.
    list: List,
    /// The members that count by that list.
    listed: MemberSet,
    /// Every member that is there holds that list, or none else may be written before.
    is_spread: bool,
    /// A newer list on its way.
    change: Option<ListChange>,
    /// First own blocks of its members that are being written. No list or bitmap is written to their places
    /// meanwhile: two writes at once may come to rest in either order (83000309).
    first_blocks: usize,
    /// What it owes to its witness.
    reliance: Reliance,
    /// By how much the next list's generation is higher.
    step: u64,
    fans: Slab<Fan>,
    reads: Slab<Read>,
    heals: Slab<Heal>,
    /// Which member comes first when several are equally busy.
    turn: usize,
    /// What members may lack.
    dirty: Dirty,
    /// The member that is resilvered.
    rebuild: Option<Box<Rebuild>>,
    is_paused: bool,
    /// Writes of the time before it was a mirror are under way: what they write is not copied yet.
    is_draining: bool,
    /// A member that is going to leave: others are filled from it only if there is no other.
    leaving: Option<[u8; 16]>,
    /// No list can be made durable any more: nothing that a member lacks is ever answered.
    broken: Option<DeviceError>,
}

/// A mirror as it was found, or is made.
pub(crate) struct Found {
    pub(crate) device: DeviceNumber,
    /// The newest list.
    pub(crate) list: List,
    /// The slot of each member of the list, if it is there.
    pub(crate) slots: Vec<Option<u8>>,
    /// Whether every member that is there and counts holds that list, and the witness that it names.
    pub(crate) is_spread: bool,
    /// What lists say of its witness.
    pub(crate) witness: FoundWitness,
}

/// Where a device of the pool was found.
pub(crate) enum At {
    /// In this slot.
    Plain(u8),
    /// In the slots of a mirror's members.
    Mirror(Box<Found>),
}

impl Index<MirrorNumber> for Vec<Mirror> {
    type Output = Mirror;

    fn index(&self, number: MirrorNumber) -> &Mirror {
        &self[number.index()]
    }
}

impl IndexMut<MirrorNumber> for Vec<Mirror> {
    fn index_mut(&mut self, number: MirrorNumber) -> &mut Mirror {
        &mut self[number.index()]
    }
}

impl Mirrors {
    pub(crate) fn new(hang_limit: Duration) -> Self {
        Self { mirrors: Vec::new(), port: Port::new(hang_limit) }
    }

    /// Takes up a mirror; returns its place.
    pub(crate) fn add(&mut self, found: Found) -> MirrorNumber {
        let number = MirrorNumber::new(self.mirrors.len());
        let mut mirror = Mirror::new(number, found);
        mirror.load_regions(&mut self.port);
        self.mirrors.push(mirror);
        number
    }

    /// Forgets a mirror; those behind it move up. What its members are still doing is of nobody: a
    /// mirror that is taken up in its place has nothing to do with it.
    pub(crate) fn remove(&mut self, number: MirrorNumber) {
        let gone = self.mirrors.remove(number.index());
        self.port.disown(number);
        for mirror in &mut self.mirrors {
            mirror.number = mirror.number.after_removal_of(number);
        }
        for (_, io) in self.port.ios.iter_mut() {
            io.mirror = io.mirror.after_removal_of(number);
        }
        self.port.memberships.retain(|membership| membership.mirror != gone.uuid());
    }

    /// Whether nobody waits for anything of a mirror.
    pub(crate) fn is_idle(&self, mirror: MirrorNumber) -> bool {
        let Mirror { fans, reads, heals, .. } = &self.mirrors[mirror];
        let is_of_it = |io: &MemberIo| io.mirror == mirror && io.purpose != Purpose::Orphan;
        let mut ios = self.port.ios.iter();
        fans.is_empty() && reads.is_empty() && heals.is_empty() && !ios.any(|(_, io)| is_of_it(io))
    }

    /// Whether an I/O of a member is of a mirror that was forgotten.
    pub(crate) fn is_disowned(&self, key: MemberKey) -> bool {
        self.port.ios.get(key).is_some_and(|io| io.mirror == MirrorNumber::NONE)
    }

    pub(crate) fn get(&self, mirror: MirrorNumber) -> &Mirror {
        &self.mirrors[mirror]
    }

    /// From now on it may be written. Lists that are not as the members are come first:
    /// [`Self::is_settled`] says when they are durable.
    pub(crate) fn begin_writing(&mut self) {
        self.port.writable = true;
        for mirror in &mut self.mirrors {
            mirror.propose(&mut self.port);
        }
    }

    /// Whether every list is durable and witnessed.
    pub(crate) fn is_settled(&self) -> bool {
        self.mirrors.iter().all(|mirror| mirror.is_settled() && mirror.dirty.is_known())
    }

    /// Whether no copy is being mended.
    pub(crate) fn is_healing(&self) -> bool {
        self.mirrors.iter().any(|mirror| !mirror.heals.is_empty())
    }

    pub(crate) fn read(
        &mut self,
        mirror: MirrorNumber,
        token: Token,
        extent: Extent,
        expected: Expected<'_>,
        breadth: Breadth,
    ) {
        self.mirrors[mirror].read(&mut self.port, token, extent, expected, breadth);
    }

    pub(crate) fn write(&mut self, mirror: MirrorNumber, token: Token, extent: Extent, data: Rope) {
        self.mirrors[mirror].write(&mut self.port, token, extent, data);
    }

    pub(crate) fn flush(&mut self, mirror: MirrorNumber, token: Token) {
        self.mirrors[mirror].flush(&mut self.port, token);
    }

    pub(crate) fn reserve(&mut self, mirror: MirrorNumber, token: Token, extent: Extent) {
        self.mirrors[mirror].reserve(&mut self.port, token, extent);
    }

    /// Writes one of the first own blocks of a member of a mirror that is being made; fails at once if that
    /// is not there.
    pub(crate) fn write_first_block(
        &mut self,
        mirror: MirrorNumber,
        token: Token,
        member: MemberNumber,
        block: DeviceBlock,
        data: Rope,
    ) {
        let Self { mirrors, port } = self;
        if mirrors[mirror].members[member].slot.is_none() {
            return port.end(token, Err(DeviceError::Os(ENODEV)));
        }
        mirrors[mirror].first_blocks += 1;
        let operation = DeviceOperation::Write { offset: block.offset(), data };
        mirrors[mirror].submit(port, member, Purpose::FirstBlock(token), operation);
    }

    /// Reads, writes or flushes one member alone.
    pub(crate) fn direct(
        &mut self,
        mirror: MirrorNumber,
        token: Token,
        member: MemberNumber,
        operation: DeviceOperation,
    ) {
        let Self { mirrors, port } = self;
        if mirrors[mirror].members[member].slot.is_none() {
            return port.end(token, Err(DeviceError::Os(ENODEV)));
        }
        mirrors[mirror].submit(port, member, Purpose::Direct(token), operation);
    }

    /// Writes the blocks again that are each member's own, of which there is no other copy: labels, and
    /// the membership list as a newer one.
    pub(crate) fn renew_own_blocks(&mut self) {
        let Self { mirrors, port } = self;
        mirrors.iter_mut().for_each(|mirror| mirror.renew_own_blocks(port));
    }

    /// The next I/O of a member.
    pub(crate) fn next_wish(&mut self) -> Option<Wish> {
        self.port.wanted.pop_front()
    }

    /// The next I/O of a logical device that has ended.
    pub(crate) fn next_ended(&mut self) -> Option<(Token, DeviceResult)> {
        self.port.ended.pop_front()
    }

    /// The next list that is durable on the members, and waits for the caller to keep its generation.
    pub(crate) fn next_membership(&mut self) -> Option<Membership> {
        self.port.memberships.pop_front()
    }

    /// The caller has kept the generation of a list, or cannot.
    pub(crate) fn witnessed(&mut self, uuid: [u8; 16], generation: u64) {
        let Self { mirrors, port } = self;
        if let Some(mirror) = mirrors.iter_mut().find(|mirror| mirror.list.mirror_uuid == uuid) {
            mirror.witnessed(port, generation);
        }
    }

    /// Tells the caller the generation of a list that was found.
    pub(crate) fn tell(&mut self, uuid: [u8; 16]) {
        if let Some(found) = self.mirrors.iter().find(|mirror| mirror.uuid() == uuid) {
            let (mirror, generation) = (uuid, found.generation());
            self.port.memberships.push_back(Membership { mirror, generation });
        }
    }

    /// Takes what was mended since this was last asked.
    pub(crate) fn take_healed(&mut self) -> Vec<Healed> {
        std::mem::take(&mut self.port.healed)
    }

    /// Takes the result of an I/O of a member.
    pub(crate) fn completed(&mut self, key: MemberKey, result: DeviceResult) {
        let Self { mirrors, port } = self;
        let Some(MemberIo { mirror, member, purpose, .. }) = port.ios.try_remove(key) else {
            return;
        };
        let Some(mirror) = mirrors.get_mut(mirror.index()) else { return };
        mirror.members[member].pending -= 1;
        mirror.ended(port, member, purpose, result);
    }

    /// Tells the time. Members that have not answered within the limit are given up, as long as another
    /// current one answers.
    pub(crate) fn tick(&mut self, now: Duration) {
        let Self { mirrors, port } = self;
        let passed = now.saturating_sub(port.now);
        port.now = now;
        // A caller that was held up has not looked at what has ended meanwhile.
        port.attended += passed.min(port.hang_limit / HANG_TICKS);
        let attended = port.attended;
        if port.is_new_period() {
            mirrors.iter_mut().for_each(Mirror::forget_failed_reads);
        }
        for rebuild in mirrors.iter_mut().filter_map(|mirror| mirror.rebuild.as_mut()) {
            rebuild.resilver.pass(passed);
        }
        let is_late = |io: &MemberIo| {
            io.purpose != Purpose::Orphan && attended.saturating_sub(io.since) >= port.hang_limit
        };
        let late = port.ios.iter().filter(|(_, io)| is_late(io));
        let late: Vec<(MirrorNumber, MemberNumber)> =
            late.map(|(_, io)| (io.mirror, io.member)).collect();
        for mirror in mirrors {
            let of_mirror = late.iter().filter(|(of, _)| *of == mirror.number);
            let members: MemberSet = of_mirror.map(|(_, member)| *member).collect();
            // If none answers, nothing is gained by giving one up.
            if mirror.readable().without(members).is_empty() {
                continue;
            }
            members.iter().for_each(|member| mirror.give_up(port, member));
        }
    }

    /// The caller knows that the device of a slot is gone: all its I/O fails.
    pub(crate) fn lose(&mut self, slot: u8) {
        let Self { mirrors, port } = self;
        for mirror in mirrors {
            let of_slot = |member: &Member| member.slot == Some(slot);
            if let Some(member) = mirror.member_where(of_slot) {
                mirror.lose(port, member);
            }
        }
    }

    /// Whether no I/O of a member is under way in a slot.
    pub(crate) fn slot_is_idle(&self, slot: u8) -> bool {
        self.port.ios.iter().all(|(_, io)| io.slot != slot)
    }

    /// I/O under way that nobody waits for, because its member was given up.
    pub(crate) fn orphans(&self) -> usize {
        self.port.orphans()
    }

    /// Nobody waits for anything any more.
    pub(crate) fn abandon(&mut self) {
        self.port.ios.iter_mut().for_each(|(_, io)| io.purpose = Purpose::Orphan);
        self.port.wanted.clear();
        self.port.ended.clear();
        for mirror in &mut self.mirrors {
            mirror.fans.clear();
            mirror.reads.clear();
            mirror.heals.clear();
            mirror.change = None;
            mirror.rebuild = None;
            mirror.dirty.abandon();
        }
    }

    /// Nothing is under way any more.
    pub(crate) fn clear(&mut self) {
        self.abandon();
        self.port.ios.clear();
    }

    /// An I/O of a member was never handed out.
    pub(crate) fn cancelled(&mut self, key: MemberKey) {
        let Some(io) = self.port.ios.try_remove(key) else { return };
        if let Some(mirror) = self.mirrors.get_mut(io.mirror.index()) {
            mirror.members[io.member].pending -= 1;
        }
    }
}

impl Mirror {
    fn new(number: MirrorNumber, found: Found) -> Self {
        let Found { device, list, slots, is_spread, witness } = found;
        let mut slots = slots.into_iter();
        let members: Vec<Member> = list
            .entries
            .iter()
            .map(|entry| {
                let slot = slots.next().flatten();
                let state = match entry.state {
                    MemberState::Witness if slot.is_none() => MemberState::WitnessAbsent,
                    state if slot.is_none() && state.counts() => MemberState::Absent,
                    state => state,
                };
                let since = entry.since;
                let size_bytes = entry.size_bytes;
                Member { slot, size_bytes, state, since, ..Member::named(entry.uuid) }
            })
            .collect();
        let mut mirror = Self {
            number,
            device,
            // A list that was begun without the members that are absent now is older by one, or was
            // never witnessed: it must not have this one's generation.
            step: if members.iter().all(|member| member.slot.is_some()) { 1 } else { 3 },
            members,
            listed: MemberSet::default(),
            list,
            is_spread,
            change: None,
            first_blocks: 0,
            reliance: Reliance::default(),
            fans: Slab::new(),
            reads: Slab::new(),
            heals: Slab::new(),
            turn: 0,
            dirty: Dirty::new(0),
            rebuild: None,
            is_paused: false,
            is_draining: false,
            leaving: None,
            broken: None,
        };
        mirror.is_paused = mirror.list.paused;
        let counting = mirror.list.entries.iter().filter(|entry| entry.state.counts());
        let sizes = counting.map(|entry| entry.size_bytes / BLOCK);
        mirror.dirty = Dirty::new(sizes.min().unwrap_or(0));
        mirror.listed = mirror.listed_by(&mirror.list);
        mirror.adopt_witness(witness);
        mirror
    }

    /// The logical device.
    pub(crate) fn uuid(&self) -> [u8; 16] {
        self.list.mirror_uuid
    }

    pub(crate) fn device(&self) -> DeviceNumber {
        self.device
    }

    pub(crate) fn member(&self, number: MemberNumber) -> &Member {
        &self.members[number]
    }

    /// The list that is durable, and that the caller has witnessed.
    pub(crate) fn list(&self) -> &List {
        &self.list
    }

    /// The newest generation of the list that is durable.
    pub(crate) fn generation(&self) -> u64 {
        self.list.generation
    }

    /// Why no list can be made durable any more.
    pub(crate) fn broken(&self) -> Option<&DeviceError> {
        self.broken.as_ref()
    }

    /// Slots of the current members.
    pub(crate) fn current_slots(&self) -> impl Iterator<Item = u8> {
        self.members.iter().filter(|member| member.is_readable()).filter_map(|member| member.slot)
    }

    /// Members that can be read now.
    fn readable(&self) -> MemberSet {
        self.places(Member::is_readable)
    }

    /// Members that get what is written.
    fn written_to(&self) -> MemberSet {
        self.places(Member::is_written)
    }

    /// The same, and the witness: it holds the list and nothing else.
    fn takers_of_lists(&self) -> MemberSet {
        self.written_to().or(self.witness_there().into_iter().collect())
    }

    fn places(&self, condition: impl Fn(&Member) -> bool) -> MemberSet {
        let members = self.numbered().filter(|(_, member)| condition(member));
        members.map(|(number, _)| number).collect()
    }

    /// The members with their numbers.
    fn numbered(&self) -> impl Iterator<Item = (MemberNumber, &Member)> {
        self.members.iter().enumerate().map(|(index, member)| (MemberNumber::new(index), member))
    }

    /// The first member of which something holds.
    fn member_where(&self, condition: impl Fn(&Member) -> bool) -> Option<MemberNumber> {
        self.numbered().find(|(_, member)| condition(member)).map(|(number, _)| number)
    }

    fn renew_own_blocks(&mut self, port: &mut Port) {
        for member in self.takers_of_lists().iter() {
            let List { pool_uuid, mirror_uuid, .. } = self.list;
            let member_uuid = self.members[member].uuid;
            let label = MemberLabel { pool_uuid, mirror_uuid, member_uuid }.emit().freeze();
            for block in MEMBER_LABELS {
                let (offset, data) = (block.offset(), label.clone().into());
                let operation = DeviceOperation::Write { offset, data };
                self.submit(port, member, Purpose::Label, operation);
            }
        }
        self.is_spread = false;
        self.propose(port);
    }

    /// Whether its members have their first own blocks.
    fn is_made(&self) -> bool {
        self.first_blocks == 0
    }

    /// A member that was given up does not write one of its first own blocks.
    fn first_block_lost(&mut self, port: &mut Port, token: Token) {
        self.first_blocks -= 1;
        port.end(token, Err(DeviceError::Os(EIO)));
    }

    /// One of the first own blocks was written, or was not. After the last one, lists and bitmaps are that
    /// waited for it.
    fn first_block_ended(&mut self, port: &mut Port, token: Token, result: DeviceResult) {
        self.first_blocks -= 1;
        port.end(token, result);
        if self.is_made() {
            self.propose(port);
            self.flush_list(port);
            self.release_flushes(port);
        }
    }

    /// Submits an I/O to a member that is there.
    fn submit(
        &mut self,
        port: &mut Port,
        member: MemberNumber,
        purpose: Purpose,
        operation: DeviceOperation,
    ) {
        let Some(slot) = self.members[member].slot else { return };
        self.members[member].pending += 1;
        let io = MemberIo { mirror: self.number, member, slot, purpose, since: port.attended };
        let key = port.ios.insert(io);
        port.wanted.push_back(Wish { key, slot, operation });
    }

    /// An I/O of a member has ended.
    fn ended(
        &mut self,
        port: &mut Port,
        member: MemberNumber,
        purpose: Purpose,
        result: DeviceResult,
    ) {
        match purpose {
            Purpose::Fan(fan) => self.fan_part_ended(port, fan, member, result.map(drop)),
            Purpose::Read(read) => self.copy_read(port, read, member, result),
            Purpose::Heal(heal) => self.healed(port, heal, result.map(drop)),
            Purpose::List => self.list_part_ended(port, member, result.map(drop)),
            Purpose::Direct(token) => port.end(token, result),
            Purpose::FirstBlock(token) => self.first_block_ended(port, token, result),
            Purpose::BitmapRead => self.bitmap_read(port, member, result),
            Purpose::BitmapWrite(block) => {
                self.bitmap_written(port, (block, member), result.map(drop));
            }
            Purpose::CopyRead(copy) => self.copy_source_read(port, (copy, member), result),
            Purpose::CopyBlank(copy) => self.copy_blank_read(copy, result),
            Purpose::CopyWrite(copy) => self.copy_written(port, (copy, member), result.map(drop)),
            Purpose::CopyReserve(copy) => {
                self.copy_reserved(port, (copy, member), result.map(drop))
            }
            Purpose::CopyFlush => self.copy_flushed(port, member, result.map(drop)),
            Purpose::Label if result.is_err() => {
                self.members[member].errors += 1;
                self.give_up(port, member);
            }
            Purpose::Label | Purpose::Orphan => {}
        }
    }

    /// What callers are told of it; `size_bytes` is what the pool uses.
    pub(crate) fn status(&self, size_bytes: u64) -> MirrorStatus {
        let member = |member: &Member| MemberStatus {
            uuid: member.uuid,
            slot: member.slot,
            is_returning: member.admitted_bytes.is_some(),
            size_bytes: member.size_bytes,
            state: member.state,
            errors: member.errors,
            is_unreliable: member.is_unreliable,
            healed_blocks: member.healed_blocks,
            since: member.since,
        };
        MirrorStatus {
            device: self.device.number(),
            uuid: self.uuid(),
            size_bytes,
            is_mirror: true,
            generation: self.generation(),
            members: self.members.iter().filter(|member| member.is_listed).map(member).collect(),
            rivals: self.rivals(),
            resilver: self.rebuild_status(),
        }
    }
}

/// Blocks of its own that each member of a new mirror gets: its labels, the membership list, and
/// zeros where another list or a bitmap of regions may have been.
pub(crate) fn member_blocks(
    pool_uuid: [u8; 16],
    device: &DeviceSpec,
) -> Vec<(MemberNumber, DeviceBlock, Rope)> {
    if device.members.is_empty() {
        return Vec::new();
    }
    let list = List::first(pool_uuid, device);
    let mut blocks = Vec::new();
    for (place, member) in device.members.iter().enumerate() {
        let place = MemberNumber::new(place);
        let (mirror_uuid, member_uuid) = (device.uuid, member.uuid);
        let label = MemberLabel { pool_uuid, mirror_uuid, member_uuid }.emit().freeze();
        blocks.extend(MEMBER_LABELS.map(|block| (place, block, label.clone().into())));
        let other = Buffer::zeroed(BLOCK as usize).freeze().into();
        blocks.push((place, List::place(list.generation + 1), other));
        blocks.push((place, List::place(list.generation), list.emit().freeze().into()));
        let regions = Buffer::zeroed((REGIONS_BLOCKS * BLOCK) as usize).freeze().into();
        blocks.push((place, REGIONS_START, regions));
    }
    blocks
}

/// A buffer for blocks of an extent.
fn buffer_for(extent: Extent) -> Buffer {
    Buffer::for_overwrite((extent.blocks * BLOCK) as usize)
}

#[cfg(test)]
mod tests;
