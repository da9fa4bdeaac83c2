//! Serializes changes of volumes and devices (create, delete, snapshot, resize, add a device): one
//! at a time.

use block::{BLOCK, DeviceError, VolumeId};
use smallvec::{SmallVec, smallvec};

use super::{OperationKey, Stage, Work};
use crate::address::{BlockRange, DeviceNumber};
use crate::change::{CHANGES, Change, Outcome, RECORDS};
use crate::commit::CommitClass;
use crate::error::{ChangeError, Failure};
use crate::io::Waiter;
use crate::layout::{LABELS, Layout};
use crate::limits::{
    CONSISTENCY_GROUP_MEMBERS_MAX, DEVICE_BYTES_MAX, DEVICES_MAX, NAME_BYTES_MAX, VOLUMES_MAX,
};
use crate::locks::Claim;
use crate::mirror::member_blocks;
use crate::options::DeviceSpec;
use crate::preallocation::ENOSPC;
use crate::record::Record;
use crate::serving::Serving;
use crate::superblock::{
    FEATURE_MIRROR, FEATURE_WITNESS, FORMAT_VERSION, Features, INCOMPATIBLE_RECORDS, Label,
};
use crate::volume::{Volume, VolumeSpec, is_size};

/// A change waits for those before it, and for everything on the volumes that it concerns.
pub(super) fn claims(change: &Change) -> SmallVec<[Claim; 2]> {
    let whole = |volume| Claim { volume, range: BlockRange::WHOLE, exclusive: true };
    let mut claims = smallvec![whole(CHANGES)];
    match change {
        Change::CloneVolumes(members) => {
            let sources: std::collections::BTreeSet<_> =
                members.iter().map(|(source, _)| *source).collect();
            claims.extend(sources.into_iter().map(whole));
        }
        Change::DeleteVolume(id) | Change::ResizeVolume { id, .. } => claims.push(whole(*id)),
        // Hosts go on: what they see of a volume has no name.
        Change::RenameVolume { .. } => {}
        // Whatever goes on may be waiting for a list that only the witness lets take effect.
        Change::ReturnWitness { .. } => claims.clear(),
        Change::RevertVolume { volume, source } => {
            claims.push(whole(*volume));
            if source != volume {
                claims.push(whole(*source));
            }
        }
        _ => {}
    }
    claims
}

impl Serving {
    /// Carries out a change that has its claims.
    pub(super) fn run_change(&mut self, key: OperationKey, change: &Change) -> Result<(), Failure> {
        match change {
            Change::Checkpoint => {
                self.wait_for_checkpoint(key);
                return Ok(());
            }
            Change::Close => {
                // While others are under way it waits; the last to finish lets it go on.
                if self.requests.table.len() == 1 {
                    self.wait_for_checkpoint(key);
                }
                return Ok(());
            }
            Change::AddDevice(spec) => return self.label_device(key, spec),
            Change::ExtendDevice { device, size_bytes } => {
                return self.prepare_extension(
                    key,
                    DeviceNumber::new((*device).into()),
                    *size_bytes,
                );
            }
            Change::RenameVolume { id, name } => return self.rename(key, *id, name),
            Change::RemoveDevice { device } => {
                return self.remove_device(key, DeviceNumber::new((*device).into()));
            }
            _ => {}
        }
        if self.begin_upgrade(key, needed_features(change)) {
            return Ok(());
        }
        if change.is_of_members() {
            return self.run_member_change(key, change);
        }
        match change {
            Change::EvacuateDevice { device } => {
                return self.begin_evacuation(key, DeviceNumber::new((*device).into()));
            }
            Change::Evacuation(control) => return self.control_evacuation(key, *control),
            _ => {}
        }
        let Plan { records, promised } = self.plan(change)?;
        if records.is_empty() {
            self.finish(key, Ok(Outcome::Changed));
            return Ok(());
        }
        if promised > 0
            && let Some(group) =
                self.engine.pool.space.group_to_back(self.engine.pool.kept_blocks() + promised)
        {
            self.preallocate(group, key);
            return Ok(());
        }
        if self.engine.log.must_wait_for_checkpoint(&self.engine.pool, CommitClass::Ordinary)
            && !self.engine.checkpointer.is_starved()
        {
            self.stall(key);
            return Ok(());
        }
        // Until the records are applied, others must not take what they will promise.
        self.requests.table[key].promised = promised;
        self.engine.pool.budget.promise(promised);
        self.commit_change(key, records);
        Ok(())
    }

    pub(super) fn commit_change(&mut self, key: OperationKey, records: Vec<Record>) {
        self.requests.table[key].stage = Stage::Committing;
        self.engine.log.commit_group(CommitClass::Ordinary).member(key);
        for record in records {
            self.engine.log.commit_group(CommitClass::Ordinary).record(record);
        }
    }

    /// Checks a change of volumes and plans its records.
    fn plan(&self, change: &Change) -> Result<Plan, ChangeError> {
        match change {
            Change::CreateVolume(spec) => self.plan_create(spec),
            Change::CloneVolumes(members) => self.plan_clones(members),
            Change::RevertVolume { volume, source } => self.plan_revert(*volume, *source),
            Change::CreateRecords { size_bytes } => self.plan_records(*size_bytes),
            Change::DeleteVolume(id) => {
                self.engine.pool.volumes.shown(*id).ok_or(ChangeError::NoSuchVolume)?;
                Ok(Plan::new(Record::DeleteVolume { volume: *id }, 0))
            }
            Change::ResizeVolume { id, size_bytes } => self.plan_resize(*id, *size_bytes),
            _ => Ok(Plan::default()),
        }
    }

    /// Gives a volume another name, which is on stable storage with the next checkpoint. The journal
    /// knows no names but those of new volumes; until the checkpoint is there this change keeps its
    /// claim on all changes, so that none can take the old name, or the new one, before.
    fn rename(&mut self, key: OperationKey, id: VolumeId, name: &str) -> Result<(), Failure> {
        let volume = self.engine.pool.volumes.shown(id).ok_or(ChangeError::NoSuchVolume)?;
        if volume.spec.name == name {
            self.finish(key, Ok(Outcome::Changed));
            return Ok(());
        }
        self.check_name(name)?;
        self.engine.pool.volumes.rename(id, name);
        self.wait_for_checkpoint(key);
        Ok(())
    }

    /// Whether a volume can have this name.
    fn check_name(&self, name: &str) -> Result<(), ChangeError> {
        if name.is_empty() || name.len() > NAME_BYTES_MAX {
            return Err(ChangeError::VolumeName);
        }
        if self.engine.pool.volumes.directory().named(name).is_some() {
            Err(ChangeError::NameTaken(name.to_owned()))
        } else {
            Ok(())
        }
    }

    /// A device that grows gets the space that must always be there before the pool relies on it.
    fn prepare_extension(
        &mut self,
        key: OperationKey,
        device: DeviceNumber,
        size_bytes: u64,
    ) -> Result<(), Failure> {
        let layout = self.extended_layout(device, size_bytes)?;
        if !self.has_grown_list(key, device, size_bytes) {
            return Ok(());
        }
        self.set_aside_for(key, device, layout);
        if self.requests.table[key].label_writes == 0 {
            self.requests.table[key].stage = Stage::Labelled;
            return self.commit_device(key);
        }
        Ok(())
    }

    /// Asks for the space that must always be there on a device that joins or grows.
    fn set_aside_for(&mut self, key: OperationKey, device: DeviceNumber, layout: Layout) {
        let set_aside = self.engine.pool.to_set_aside(device, layout);
        self.engine.pool.members.set_aside = set_aside.groups;
        self.requests.table[key].stage = Stage::Labelling;
        self.requests.table[key].label_writes += set_aside.runs.len();
        for run in set_aside.runs {
            self.engine.pool.io.reserve(Waiter::Label { operation: key }, run);
        }
    }

    fn extended_layout(
        &self,
        device: DeviceNumber,
        size_bytes: u64,
    ) -> Result<Layout, ChangeError> {
        if !self.engine.pool.space.is_there(device) {
            return Err(ChangeError::NoSuchDevice);
        }
        if self.engine.pool.space.leaves(device) {
            return Err(ChangeError::DeviceLeaves);
        }
        let device_blocks = size_bytes / BLOCK;
        let now = self.engine.pool.space.layout(device);
        if device_blocks < now.device_blocks || size_bytes > DEVICE_BYTES_MAX {
            return Err(ChangeError::DeviceSize);
        }
        let others = self.first_level_pages() - now.first_level_pages();
        let grown = Layout { device_blocks, ..now };
        check_first_level(others + grown.first_level_pages())?;
        Ok(grown)
    }

    fn first_level_pages(&self) -> usize {
        self.engine.pool.space.layouts().map(|layout| layout.first_level_pages()).sum()
    }

    /// A new device gets its label before the pool relies on it.
    fn label_device(&mut self, key: OperationKey, spec: &DeviceSpec) -> Result<(), Failure> {
        let layout = Layout::without_journal(spec.size_bytes);
        if !layout.is_sound(false) || !spec.is_sound() {
            return Err(ChangeError::DeviceSize.into());
        }
        if self.engine.pool.space.devices().len() >= DEVICES_MAX
            || self.engine.pool.members.device_uuids.contains(&spec.uuid)
        {
            return Err(ChangeError::TooManyDevices.into());
        }
        check_first_level(self.first_level_pages() + layout.first_level_pages())?;
        self.check_new_places(spec)?;
        let is_mirror = !spec.members.is_empty();
        if is_mirror && self.begin_upgrade(key, Features::incompatible(FEATURE_MIRROR)) {
            return Ok(());
        }
        let device = self.engine.pool.space.next_device();
        let label = Label {
            pool_uuid: self.engine.pool.members.pool_uuid,
            device_uuid: spec.uuid,
            features: self.engine.pool.members.features,
            version: FORMAT_VERSION,
            index: device.number().into(),
            is_mirror,
        };
        self.engine.pool.add_new_device(spec);
        self.set_aside_for(key, device, layout);
        let blocks = member_blocks(self.engine.pool.members.pool_uuid, spec);
        self.requests.table[key].label_writes += LABELS.len() + blocks.len();
        for (member, block, data) in blocks {
            let waiter = Waiter::Label { operation: key };
            self.engine.pool.io.write_first_block(waiter, block.on(device), member, data);
        }
        for block in LABELS {
            let bytes = label.emit().freeze();
            self.engine.pool.io.write(
                Waiter::Label { operation: key },
                block.on(device),
                bytes.into(),
            );
        }
        Ok(())
    }

    /// Slots and names of a device that joins are nobody else's, and nothing of an earlier attempt is
    /// under way there.
    fn check_new_places(&self, spec: &DeviceSpec) -> Result<(), ChangeError> {
        let io = &self.engine.pool.io;
        let (mut slots, mut names) = (Vec::new(), vec![spec.uuid]);
        slots.extend(spec.members.is_empty().then_some(spec.slot));
        slots.extend(spec.members.iter().map(|member| member.slot));
        names.extend(spec.members.iter().map(|member| member.uuid));
        let is_twice = (1..slots.len()).any(|at| slots[..at].contains(&slots[at]))
            || (1..names.len()).any(|at| names[..at].contains(&names[at]));
        let is_used = slots.iter().any(|&slot| io.uses_slot(slot))
            || names.iter().any(|&name| io.mirror_of(name).is_some());
        if is_twice || is_used {
            Err(ChangeError::MemberTaken)
        } else if slots.iter().any(|&slot| !io.mirrors().slot_is_idle(slot)) {
            Err(ChangeError::MemberBusy)
        } else {
            Ok(())
        }
    }

    /// An error is told only when nothing is under way to the device any more: who tries again must
    /// not meet writes of this attempt.
    pub(crate) fn label_written(&mut self, key: OperationKey, result: Result<(), DeviceError>) {
        let joining = self.engine.pool.space.next_device();
        let Some(operation) = self.requests.table.get_mut(key) else { return };
        operation.label_failure = operation.label_failure.take().or(result.err());
        let flushing = operation.label_writes == 0;
        operation.label_writes = operation.label_writes.saturating_sub(1);
        if operation.label_writes > 0 {
            return;
        }
        if let Some(error) = operation.label_failure.take() {
            let joins = matches!(operation.work, Work::Change(Change::AddDevice(_)));
            self.engine.pool.members.set_aside.clear();
            if joins {
                self.engine.pool.io.remove(joining);
            }
            return self.finish(key, Err(refusal(error).into()));
        }
        let device = match operation.work {
            Work::Change(Change::ExtendDevice { device, .. }) => DeviceNumber::new(device.into()),
            _ => joining,
        };
        if flushing {
            operation.stage = Stage::Labelled;
            return self.requests.ready.push_back(key);
        }
        self.engine.pool.io.flush(Waiter::Label { operation: key }, device);
    }

    /// A device that has its label joins the pool; one that has its space has grown.
    pub(super) fn commit_device(&mut self, key: OperationKey) -> Result<(), Failure> {
        let record = match self.requests.table[key].work {
            Work::Change(Change::AddDevice(DeviceSpec { uuid, size_bytes, .. })) => {
                Record::AddDevice { uuid, device_blocks: size_bytes / BLOCK }
            }
            Work::Change(Change::ExtendDevice { device, size_bytes }) => {
                Record::ExtendDevice { device: device.into(), device_blocks: size_bytes / BLOCK }
            }
            _ => return Ok(()),
        };
        if !self.engine.log.has_room(CommitClass::Ordinary) {
            self.stall(key);
            return Ok(());
        }
        self.commit_change(key, vec![record]);
        Ok(())
    }

    fn plan_create(&self, spec: &VolumeSpec) -> Result<Plan, ChangeError> {
        let volume = Volume::new(spec.clone());
        self.check_new(&volume, 1)?;
        let promised = volume.owed_blocks();
        self.check_promise(promised)?;
        let record = Record::CreateVolume { volume: Box::new(volume), source: None };
        Ok(Plan::new(record, promised))
    }

    fn plan_records(&self, size_bytes: u64) -> Result<Plan, ChangeError> {
        if self.engine.pool.volumes.contains(RECORDS) {
            return Ok(Plan::default());
        }
        check_size(size_bytes)?;
        let volume = Box::new(Volume::records(size_bytes));
        Ok(Plan::new(Record::CreateVolume { volume, source: None }, 0))
    }

    /// What must be true of every new volume, of which there will be `count`.
    fn check_new(&self, volume: &Volume, count: usize) -> Result<(), ChangeError> {
        check_size(volume.spec.size_bytes)?;
        self.check_name(&volume.spec.name)?;
        if volume.spec.id == CHANGES
            || volume.is_hidden()
            || self.engine.pool.volumes.contains(volume.spec.id)
        {
            return Err(ChangeError::NameTaken(volume.spec.name.clone()));
        }
        if self.engine.pool.volumes.shown_len() + count > VOLUMES_MAX {
            Err(ChangeError::TooManyVolumes)
        } else {
            Ok(())
        }
    }

    fn plan_clones(&self, members: &[(VolumeId, VolumeSpec)]) -> Result<Plan, ChangeError> {
        if members.is_empty() || members.len() > CONSISTENCY_GROUP_MEMBERS_MAX {
            return Err(ChangeError::GroupSize);
        }
        let mut promised = 0;
        let mut records: Vec<Record> = Vec::with_capacity(members.len());
        for (number, (source, spec)) in members.iter().enumerate() {
            let twice =
                |(_, other): &(_, VolumeSpec)| other.id == spec.id || other.name == spec.name;
            if members[..number].iter().any(twice) {
                return Err(ChangeError::NameTaken(spec.name.clone()));
            }
            let (volume, more) = self.clone_of(*source, spec)?;
            self.check_new(&volume, members.len())?;
            promised += more;
            records.push(Record::CreateVolume { volume: Box::new(volume), source: Some(*source) });
        }
        self.check_promise(promised)?;
        for (source, spec) in members {
            self.engine.pool.check_sharing(*source, spec.snapshot || spec.thick)?;
        }
        Ok(Plan { records, promised })
    }

    /// A volume like another one, and the blocks that are promised more once there are both.
    fn clone_of(&self, source: VolumeId, spec: &VolumeSpec) -> Result<(Volume, u64), ChangeError> {
        let source = self.engine.pool.volumes.shown(source).ok_or(ChangeError::NoSuchVolume)?;
        let mut volume =
            Volume::new(VolumeSpec { size_bytes: source.spec.size_bytes, ..spec.clone() });
        volume.mapped_bytes = source.mapped_bytes;
        volume.shared_blocks = source.mapped_bytes / BLOCK;
        volume.root.levels = source.root.levels;
        let unshared = source.mapped_bytes / BLOCK - source.shared_blocks;
        let source_owes = if source.owed_blocks() > 0 || source.spec.thick { unshared } else { 0 };
        let more = volume.owed_blocks() + if source.spec.snapshot { 0 } else { source_owes };
        volume.mapped_bytes = 0;
        Ok((volume, more))
    }

    fn plan_revert(&self, id: VolumeId, source: VolumeId) -> Result<Plan, ChangeError> {
        let volume = self.engine.pool.volumes.shown(id).ok_or(ChangeError::NoSuchVolume)?;
        let from = self.engine.pool.volumes.shown(source).ok_or(ChangeError::NoSuchVolume)?;
        if volume.spec.snapshot {
            return Err(ChangeError::Snapshot);
        }
        if id == source {
            return Ok(Plan::default());
        }
        let mut promised = 0;
        if volume.spec.thick {
            let all = from.spec.size_bytes / BLOCK;
            promised += all.saturating_sub(volume.owed_blocks());
        }
        if from.spec.thick && !from.spec.snapshot {
            promised += from.mapped_bytes / BLOCK - from.shared_blocks;
        }
        self.check_promise(promised)?;
        self.engine.pool.check_sharing(source, volume.spec.thick)?;
        Ok(Plan::new(Record::RevertVolume { volume: id, source }, promised))
    }

    fn plan_resize(&self, id: VolumeId, size_bytes: u64) -> Result<Plan, ChangeError> {
        let volume = self.engine.pool.volumes.shown(id).ok_or(ChangeError::NoSuchVolume)?;
        check_size(size_bytes)?;
        if volume.spec.snapshot {
            return Err(ChangeError::Snapshot);
        }
        if size_bytes == volume.spec.size_bytes {
            return Ok(Plan::default());
        }
        let more =
            if volume.spec.thick { size_bytes.saturating_sub(volume.spec.size_bytes) } else { 0 };
        self.check_promise(more / BLOCK)?;
        Ok(Plan::new(Record::ResizeVolume { volume: id, size_bytes }, more / BLOCK))
    }

    /// Whether `blocks` more can be promised to thick volumes.
    fn check_promise(&self, blocks: u64) -> Result<(), ChangeError> {
        let possible =
            blocks == 0 || self.engine.pool.space.free() >= self.engine.pool.kept_blocks() + blocks;
        if possible { Ok(()) } else { Err(ChangeError::NoSpace) }
    }

    pub(super) fn wait_for_checkpoint(&mut self, key: OperationKey) {
        self.requests.table[key].stage = Stage::Waiting;
        self.engine.checkpointer.wait(key);
    }
}

/// Features without which no program may find what a change makes.
fn needed_features(change: &Change) -> Features {
    match change {
        Change::CreateRecords { .. } => Features::incompatible(INCOMPATIBLE_RECORDS),
        Change::AttachMember { .. } => Features::incompatible(FEATURE_MIRROR),
        Change::AttachWitness { .. } => Features::incompatible(FEATURE_MIRROR | FEATURE_WITNESS),
        // A device that cannot leave is refused first.
        Change::EvacuateDevice { .. }
        | Change::CreateVolume(_)
        | Change::CloneVolumes(_)
        | Change::RevertVolume { .. }
        | Change::DeleteVolume(_)
        | Change::ResizeVolume { .. }
        | Change::RenameVolume { .. }
        | Change::ExtendDevice { .. }
        | Change::AddDevice(_)
        | Change::ReturnMember { .. }
        | Change::ReturnWitness { .. }
        | Change::DetachMember { .. }
        | Change::Resilver(_)
        | Change::Evacuation(_)
        | Change::RemoveDevice { .. }
        | Change::Checkpoint
        | Change::Close => Features::default(),
    }
}

/// Records and answer of a change that is allowed.
#[derive(Default)]
struct Plan {
    /// None if nothing is to be done.
    records: Vec<Record>,
    /// Blocks that are promised more to thick volumes.
    promised: u64,
}

impl Plan {
    fn new(record: Record, promised: u64) -> Self {
        Self { records: vec![record], promised }
    }
}

/// Why a device does not join or grow.
fn refusal(error: DeviceError) -> ChangeError {
    match error {
        DeviceError::Os(ENOSPC) => ChangeError::NoRoom,
        error => ChangeError::Device(error),
    }
}

fn check_size(size_bytes: u64) -> Result<(), ChangeError> {
    let fits = is_size(size_bytes);
    if fits { Ok(()) } else { Err(ChangeError::VolumeSize) }
}

/// Whether the superblock can refer to so many first-level pages.
fn check_first_level(pages: usize) -> Result<(), ChangeError> {
    if pages > crate::layout::FIRST_LEVEL_MAX { Err(ChangeError::TooManyDevices) } else { Ok(()) }
}
