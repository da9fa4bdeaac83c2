//! Labels, membership lists and superblocks: finds out what lies in each slot, where the pool's
//! devices are, and which members of a mirror hold current copies.
//!
//! The slots are in any order. A plain device is named by its label. A mirror's members have labels
//! and lists of their own, and the newest list of all members says whose copies are current; one that
//! it calls absent is never read, whatever its own list says.

use std::time::Duration;

use block::{BLOCK, DeviceError};

use super::witness::{APART, Assurance, Holder, Ruling};
use super::{Opening, OpeningState, Step, Taken, load};
use crate::address::{DeviceBlock, DeviceNumber, Run};
use crate::error::OpenError;
use crate::layout::{LABELS, SUPERBLOCK_COPIES, SUPERBLOCKS};
use crate::limits::{DEVICE_BYTES_MIN, HANG_LIMITS, HANG_TICKS};
use crate::mirror::{At, Found, LISTS, List, ListEntry, MEMBER_LABELS, MemberLabel, MemberState};
use crate::options::SlotSpec;
use crate::superblock::{
    Device, FEATURES_KNOWN, FORMAT_VERSION, Features, Label, LabelError, Superblock,
};

/// Bytes of a device that labels and superblocks need.
const HEADS_BYTES: u64 = SUPERBLOCK_COPIES[1].offset() + BLOCK;

/// A read of a label, list or superblock: which slot, and which of its blocks.
const BLOCKS_PER_SLOT: u64 = 64;

/// errno: the time for an answer is over.
const ETIMEDOUT: i32 = 110;

/// What lies in a slot, as far as it was read.
pub(super) struct Slot {
    spec: SlotSpec,
    labels: [Option<Result<Label, LabelError>>; 2],
    member_labels: [Option<MemberLabel>; 2],
    lists: [Option<List>; 2],
    /// Which of the lists' blocks the device brought, whatever was in them.
    lists_read: [bool; 2],
    superblocks: Vec<Superblock>,
    /// A block that could not be read.
    error: Option<DeviceError>,
}

/// How far it was read.
#[derive(Default)]
pub(super) struct Heads {
    stage: Stage,
    /// How long it took, as far as the caller looked for answers.
    waited: Duration,
}

#[derive(Default)]
enum Stage {
    #[default]
    Labels,
    /// Member labels and lists, of those that are members of mirrors.
    Members,
    /// Superblocks of the first device, where it was found.
    Superblocks { positions: Vec<usize> },
}

impl Slot {
    pub(super) fn new(spec: SlotSpec) -> Self {
        Self {
            spec,
            labels: [None, None],
            member_labels: [None, None],
            lists: [None, None],
            lists_read: [false; 2],
            superblocks: Vec::new(),
            error: None,
        }
    }

    /// The intact label; two that are both intact but differ are damage.
    fn label(&self) -> Result<Label, OpenError> {
        match &self.labels {
            [Some(Ok(first)), Some(Ok(second))] => {
                first.union(*second).ok_or(OpenError::Damaged("the two labels differ"))
            }
            [Some(Ok(label)), _] | [_, Some(Ok(label))] => Ok(*label),
            [Some(Err(LabelError::Foreign)), Some(Err(LabelError::Foreign))] => {
                Err(OpenError::Foreign)
            }
            _ => Err(OpenError::Damaged("neither label is intact")),
        }
    }

    /// The label, if this program knows all of it.
    fn known_label(&self) -> Result<Label, OpenError> {
        let label = self.label()?;
        let features = label.features.incompatible & !FEATURES_KNOWN.incompatible;
        if label.version != FORMAT_VERSION || features != 0 {
            return Err(OpenError::Unknown { version: label.version, features });
        }
        Ok(label)
    }

    /// The member label, if it is of this mirror.
    fn member_of(&self, label: &Label) -> Option<[u8; 16]> {
        let of_mirror = |member: &&MemberLabel| {
            member.pool_uuid == label.pool_uuid && member.mirror_uuid == label.device_uuid
        };
        self.member_labels.iter().flatten().find(of_mirror).map(|member| member.member_uuid)
    }

    /// The newest intact list, if it is of this mirror.
    fn list(&self, label: &Label) -> Option<&List> {
        self.lists_of(label).max_by_key(|list| list.generation)
    }

    /// The intact lists of this mirror.
    fn lists_of<'a>(&'a self, label: &Label) -> impl Iterator<Item = &'a List> + use<'a> {
        let (pool_uuid, mirror_uuid) = (label.pool_uuid, label.device_uuid);
        let of_mirror =
            move |list: &&List| list.pool_uuid == pool_uuid && list.mirror_uuid == mirror_uuid;
        self.lists.iter().flatten().filter(of_mirror)
    }

    fn holder<'a>(&'a self, label: &Label) -> Holder<'a> {
        Holder { member: self.member_of(label), lists: self.lists_of(label).collect() }
    }

    /// Whether it is the witness of this mirror by its own list: it holds no copy.
    fn is_witness(&self, label: &Label) -> bool {
        let own = self.member_of(label);
        let entry = self.list(label).zip(own).and_then(|(list, own)| list.entry(own));
        entry.is_some_and(|entry| entry.state.is_witness())
    }

    /// Takes a block that was read.
    fn take(&mut self, block: DeviceBlock, bytes: &[u8]) -> Taken {
        let place = |places: [DeviceBlock; 2]| places.iter().position(|&place| place == block);
        let is_whole = if let Some(copy) = place(LABELS) {
            let label = Label::parse(bytes);
            let is_whole = label.is_ok();
            self.labels[copy] = Some(label);
            is_whole
        } else if let Some(copy) = place(MEMBER_LABELS) {
            self.member_labels[copy] = MemberLabel::parse(bytes);
            self.member_labels[copy].is_some()
        } else if let Some(copy) = place(LISTS) {
            self.lists_read[copy] = true;
            self.lists[copy] = List::parse(bytes);
            self.lists[copy].is_some()
        } else {
            let superblock = Superblock::parse(bytes);
            let is_whole = superblock.is_some();
            self.superblocks.extend(superblock);
            is_whole
        };
        if is_whole { Taken::Whole } else { Taken::Again }
    }

    /// Whether its list is the newest that it has: where a block could not be read, a newer one may be in it,
    /// and the member is as good as absent.
    fn is_list_known(&self) -> bool {
        self.lists_read == [true; 2]
    }

    fn is_large_enough(&self) -> bool {
        self.spec.size_bytes >= HEADS_BYTES
    }
}

impl OpeningState {
    /// Wants a block of a slot.
    fn want_head(&mut self, position: usize, block: DeviceBlock) {
        if self.slots[position].is_large_enough() {
            let index = position as u64 * BLOCKS_PER_SLOT + block.number();
            self.want(index, Run::of(block.on(DeviceNumber::at(position))));
        }
    }

    fn want_superblocks(&mut self, position: usize) {
        for block in SUPERBLOCKS.into_iter().chain(SUPERBLOCK_COPIES) {
            self.want_head(position, block);
        }
    }

    /// Takes a label, list or superblock.
    pub(super) fn take_head(&mut self, index: u64, bytes: &[u8]) -> Taken {
        let block = DeviceBlock::new(index % BLOCKS_PER_SLOT);
        self.slots[(index / BLOCKS_PER_SLOT) as usize].take(block, bytes)
    }

    /// A label, list or superblock cannot be read.
    pub(super) fn head_failed(&mut self, index: u64, error: DeviceError) {
        self.slots[(index / BLOCKS_PER_SLOT) as usize].error.get_or_insert(error);
    }

    /// The pool that is opened.
    fn pool_uuid(&self) -> Option<[u8; 16]> {
        let mut labels = self.slots.iter().filter_map(|slot| slot.known_label().ok());
        self.context.expected_pool_uuid.or_else(|| labels.next().map(|label| label.pool_uuid))
    }

    /// The slots that hold a device of the pool, with their labels.
    fn slots_of(&self, device: DeviceNumber, uuid: Option<[u8; 16]>) -> Vec<(usize, Label)> {
        let pool = self.pool_uuid();
        let labels = self.slots.iter().map(|slot| slot.known_label().ok()).enumerate();
        let ours = |label: &Label| {
            Some(label.pool_uuid) == pool
                && label.index as usize == device.index()
                && uuid.is_none_or(|uuid| uuid == label.device_uuid)
        };
        let labels = labels.filter_map(|(position, label)| Some((position, label.filter(ours)?)));
        labels.collect()
    }

    /// Whether a member of a mirror is among the slots.
    fn has_mirror(&self) -> bool {
        let mut labels = self.slots.iter().filter_map(|slot| slot.known_label().ok());
        labels.any(|label| label.is_mirror)
    }

    /// Where the first device is: a plain one in one slot, a mirror in those of its current members.
    fn first_device(&self) -> Result<Vec<usize>, OpenError> {
        let slots = self.slots_of(DeviceNumber::FIRST, None);
        let Some(&(first, label)) = slots.first() else { return Err(self.refusal()) };
        if !slots.iter().any(|(_, label)| label.is_mirror) {
            return Ok(vec![first]);
        }
        let mirror = self.find_mirror(DeviceNumber::FIRST, label, &slots, 0)?;
        let current = mirror.list.entries.iter().zip(&mirror.slots);
        let current = current.filter(|(entry, _)| entry.state == MemberState::Current);
        let position = |slot: u8| self.slots.iter().position(|found| found.spec.slot == slot);
        Ok(current.filter_map(|(_, slot)| position((*slot)?)).collect())
    }

    /// Features that every intact copy of the labels of these devices has.
    pub(super) fn labelled(&self, devices: &[Device]) -> Features {
        let slots = self.slots_of_all(devices).into_iter();
        let copies = slots.flat_map(|(_, position, _)| &self.slots[position].labels);
        let intact = copies.filter_map(|copy| copy.as_ref()?.as_ref().ok());
        intact.map(|label| label.features).reduce(Features::common).unwrap_or_default()
    }

    /// Copies of labels of these devices that are damaged, or do not say that the device is a mirror.
    pub(super) fn unsound_labels(&self, devices: &[Device]) -> Vec<(DeviceNumber, usize)> {
        let slots = self.slots_of_all(devices).into_iter();
        let unsound = slots.flat_map(|(device, position, label)| {
            let copies = self.slots[position].labels.iter().enumerate();
            let unsound = copies.filter(move |(_, copy)| match copy {
                Some(Ok(copy)) => copy.is_mirror != label.is_mirror,
                Some(Err(_)) | None => true,
            });
            unsound.map(move |(copy, _)| (device, copy))
        });
        unsound.collect()
    }

    /// The slots that hold these devices, by the numbers of the devices, with what their labels say.
    fn slots_of_all(&self, devices: &[Device]) -> Vec<(DeviceNumber, usize, Label)> {
        let devices = devices.iter().enumerate();
        let found = devices.flat_map(|(number, device)| {
            let number = DeviceNumber::at(number);
            let slots = self.slots_of(number, Some(device.uuid)).into_iter();
            let is_copy =
                |(position, label): &(usize, Label)| !self.slots[*position].is_witness(label);
            let copies = slots.filter(is_copy);
            copies.map(move |(position, label)| (number, position, label))
        });
        found.collect()
    }

    /// Why there is no first device.
    fn refusal(&self) -> OpenError {
        let pool = self.pool_uuid();
        for slot in &self.slots {
            match slot.known_label() {
                Err(_) if slot.error.is_some() => {
                    return slot.error.clone().map_or(OpenError::Foreign, OpenError::Device);
                }
                Err(error) => return error,
                Ok(label) if Some(label.pool_uuid) != pool => return OpenError::OtherPool,
                Ok(_) => {}
            }
        }
        if self.has_mirror() {
            return OpenError::Missing { index: 0 };
        }
        OpenError::WrongDevice { index: 0 }
    }

    /// Finds a device of the pool, and checks that it is large enough.
    pub(super) fn check_device(
        &self,
        device: DeviceNumber,
        uuid: [u8; 16],
        blocks: u64,
    ) -> Result<At, OpenError> {
        let expected = blocks * BLOCK;
        let slots = self.slots_of(device, Some(uuid));
        if let Some(&(_, label)) = slots.iter().find(|(_, label)| label.is_mirror) {
            let found = self.find_mirror(device, label, &slots, expected)?;
            return Ok(At::Mirror(Box::new(found)));
        }
        let index = device.index();
        let at_its_place = slots.iter().find(|(position, _)| *position == index);
        let found = at_its_place.or(slots.first()).map(|(position, _)| &self.slots[*position]);
        let named = self.slots.get(index).filter(|_| !self.has_mirror());
        let slot = found.or(named).ok_or(OpenError::Missing { index })?;
        let actual = slot.spec.size_bytes;
        if actual < expected {
            return Err(OpenError::Short { actual, expected });
        }
        if let Some(error) = &slot.error {
            return Err(OpenError::Device(error.clone()));
        }
        if found.is_some() {
            return Ok(At::Plain(slot.spec.slot));
        }
        match slot.label() {
            Err(OpenError::Damaged(what)) => Err(OpenError::Damaged(what)),
            _ => Err(OpenError::WrongDevice { index }),
        }
    }

    /// Finds the members of a mirror, and whether those that are there may be relied on.
    fn find_mirror(
        &self,
        device: DeviceNumber,
        label: Label,
        slots: &[(usize, Label)],
        expected_bytes: u64,
    ) -> Result<Found, OpenError> {
        let (slots, unread): (Vec<&Slot>, Vec<&Slot>) = slots
            .iter()
            .map(|(position, _)| &self.slots[*position])
            .partition(|slot| slot.is_list_known());
        let error = unread.iter().find_map(|slot| slot.error.clone());
        if let Some(error) = error.filter(|_| slots.is_empty()) {
            return Err(OpenError::Device(error));
        }
        let holders: Vec<Holder<'_>> = slots.iter().map(|slot| slot.holder(&label)).collect();
        let Ruling { list, assurance, found: witness } =
            Ruling::of(&holders, device.index(), self.context.allow_degraded)?;
        let known = self.context.witnessed.iter().filter(|(uuid, _)| *uuid == label.device_uuid);
        let known = known.map(|(_, generation)| *generation).max();
        let mut places = Vec::with_capacity(list.entries.len());
        for entry in &list.entries {
            places.push(find_member(&slots, &label, entry, expected_bytes)?);
        }
        let members = || list.entries.iter().zip(&places);
        let is_newest = known.is_none_or(|known| known <= list.generation);
        let lacks = |entry: &ListEntry| match assurance {
            Assurance::Caller | Assurance::Witness => entry.state == MemberState::Current,
            Assurance::EveryCopy => !entry.state.is_witness(),
        };
        let missing: Vec<[u8; 16]> = members()
            .filter(|(entry, place)| place.is_none() && lacks(entry))
            .map(|(entry, _)| entry.uuid)
            .collect();
        let is_current = |entry: &ListEntry| entry.state == MemberState::Current;
        let has_current = members().any(|(entry, place)| place.is_some() && is_current(entry));
        let is_told = match assurance {
            Assurance::Caller => known.is_some() && !self.context.shared,
            Assurance::Witness => true,
            Assurance::EveryCopy => false,
        };
        let is_known = is_told || self.context.allow_degraded;
        if !is_newest || !has_current || !missing.is_empty() && !is_known {
            return Err(OpenError::MembersMissing { index: device.index(), missing });
        }
        // A stale copy that was used by itself is not caught up: what it alone has would be lost.
        let is_overruled = assurance != Assurance::Caller;
        let is_ours = is_overruled || is_told && known == Some(list.generation);
        let went_on = |(entry, place): (&ListEntry, &Option<&Slot>)| {
            let own = place.and_then(|slot| slot.list(&label));
            entry.state == MemberState::Absent
                && own.is_some_and(|own| own.generation >= entry.since)
        };
        if !is_ours && members().any(went_on) {
            return Err(OpenError::Damaged(APART));
        }
        let is_spread = members()
            .filter(|(entry, _)| !entry.state.is_away())
            .filter_map(|(_, place)| *place)
            .all(|slot| slot.list(&label) == Some(&list));
        let slots = places.iter().map(|place| place.map(|slot| slot.spec.slot)).collect();
        Ok(Found { device, list, slots, is_spread, witness })
    }
}

/// The slot of a member; one that is too short is as good as none.
fn find_member<'a>(
    slots: &[&'a Slot],
    label: &Label,
    entry: &ListEntry,
    expected_bytes: u64,
) -> Result<Option<&'a Slot>, OpenError> {
    let is_large = |slot: &Slot| {
        let size_bytes = slot.spec.size_bytes;
        let needed = if entry.state.is_witness() { 0 } else { expected_bytes };
        size_bytes >= needed && size_bytes / BLOCK >= entry.size_bytes / BLOCK
    };
    let is_member = |slot: &&&Slot| slot.member_of(label) == Some(entry.uuid) && is_large(slot);
    let mut found = slots.iter().filter(is_member);
    let slot = found.next().copied();
    if found.next().is_some() {
        return Err(OpenError::Damaged("two devices are the same member of a mirror"));
    }
    Ok(slot)
}

impl Opening {
    /// Time passes. A device that does not answer within the hang limit is as good as none if there are
    /// mirrors: its mirror can do without it.
    pub(crate) fn pass(&mut self, time: Duration) {
        let limit =
            self.engine.pool.options.hang_limit.clamp(*HANG_LIMITS.start(), *HANG_LIMITS.end());
        let has_mirror = self.state.has_mirror();
        let Step::Heads(heads) = &mut self.state.step else { return };
        heads.waited += time.min(limit / HANG_TICKS);
        if heads.waited < limit || !has_mirror {
            return;
        }
        heads.waited = Duration::ZERO;
        let Self { engine, state, .. } = self;
        for (position, slot) in state.slots.iter_mut().enumerate() {
            let device = DeviceNumber::at(position);
            let silent = engine.pool.io.forget_opening_reads(device);
            if silent > 0 {
                slot.error.get_or_insert(DeviceError::Os(ETIMEDOUT));
                state.outstanding -= silent;
                state.wanted.retain(|wanted| wanted.run.start.device() != device);
            }
        }
    }

    /// Wants the labels, and superblocks where they will be as a rule.
    pub(super) fn begin_heads(&mut self) -> Result<(), OpenError> {
        let state = &mut self.state;
        if !state.slots.iter().any(Slot::is_large_enough) {
            let actual = state.slots.first().map_or(0, |slot| slot.spec.size_bytes);
            return Err(OpenError::Short { actual, expected: DEVICE_BYTES_MIN });
        }
        for position in 0..state.slots.len() {
            self.engine.pool.io.add_plain(state.slots[position].spec.slot);
            LABELS.into_iter().for_each(|block| state.want_head(position, block));
        }
        state.want_superblocks(0);
        Ok(())
    }

    /// Goes on when all that was wanted is there.
    pub(super) fn heads_next(&mut self) -> Result<(), OpenError> {
        let state = &mut self.state;
        let Step::Heads(heads) = &mut state.step else { return Ok(()) };
        match std::mem::take(&mut heads.stage) {
            Stage::Labels => {
                heads.stage = Stage::Members;
                for position in 0..state.slots.len() {
                    if state.slots[position].known_label().is_ok_and(|label| label.is_mirror) {
                        let blocks = MEMBER_LABELS.into_iter().chain(LISTS);
                        blocks.for_each(|block| state.want_head(position, block));
                    }
                }
                Ok(())
            }
            Stage::Members => {
                let positions = state.first_device()?;
                if positions != [0] {
                    state.slots.iter_mut().for_each(|slot| slot.superblocks.clear());
                    positions.iter().for_each(|&position| state.want_superblocks(position));
                }
                let Step::Heads(heads) = &mut state.step else { return Ok(()) };
                heads.stage = Stage::Superblocks { positions };
                Ok(())
            }
            Stage::Superblocks { positions } => self.choose_superblock(&positions),
        }
    }

    fn choose_superblock(&mut self, positions: &[usize]) -> Result<(), OpenError> {
        let state = &mut self.state;
        let slots = || positions.iter().map(|&position| &state.slots[position]);
        // One member that can be read is enough; what a plain device does not bring is not known.
        if let Some(error) = slots().map(|slot| slot.error.clone()).reduce(Option::and).flatten() {
            return Err(OpenError::Device(error));
        }
        let label = slots().next().ok_or(OpenError::Missing { index: 0 })?.known_label()?;
        let superblock = slots()
            .flat_map(|slot| &slot.superblocks)
            .filter(|superblock| superblock.pool_uuid == label.pool_uuid)
            .max_by_key(|superblock| superblock.generation)
            .cloned()
            .ok_or(OpenError::Damaged("no superblock is intact"))?;
        state.superblock = Some(superblock.clone());
        let mut places = Vec::with_capacity(superblock.devices.len());
        for (index, device) in superblock.devices.iter().enumerate() {
            let number = DeviceNumber::at(index);
            let is_there = *device != Device::NOTHING;
            let blocks = device.layout.device_blocks;
            let place = is_there.then(|| state.check_device(number, device.uuid, blocks));
            places.push(place.transpose()?);
        }
        self.engine.pool.io.forget_devices();
        for (index, at) in places.into_iter().enumerate() {
            let number = DeviceNumber::at(index);
            at.into_iter().for_each(|at| self.engine.pool.add_found_device(number, at));
        }
        self.adopt(&superblock);
        self.state.step = Step::Loading(load::Loading::new());
        self.engine.pool.members.features = label.features;
        let unknown = label.features.read_only_compatible & !FEATURES_KNOWN.read_only_compatible;
        self.read_only_features = unknown;
        Ok(())
    }
}
