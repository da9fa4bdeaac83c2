//! Changes of volumes and devices, one after the other.

use block::{BLOCK, DeviceError, VolumeId};
use smallvec::{SmallVec, smallvec};

use super::{Stage, Work};
use crate::bugs::planted;
use crate::commit::Lane;
use crate::error::{ChangeError, Failure};
use crate::io::Waiter;
use crate::layout::{LABELS, Layout, address};
use crate::limits::{
    DEVICE_BYTES_MAX, DEVICES_MAX, GROUP_MEMBERS_MAX, NAME_BYTES_MAX, VOLUME_BYTES_MAX, VOLUMES_MAX,
};
use crate::locks::Claim;
use crate::options::DeviceSpec;
use crate::record::Record;
use crate::store::{CHANGES, Change, Outcome, Store};
use crate::superblock::{FORMAT_VERSION, Features, Label};
use crate::volume::{Volume, VolumeSpec};

/// A change waits for those before it, and for everything on the volumes that it concerns.
pub(super) fn claims(change: &Change) -> SmallVec<[Claim; 2]> {
    let whole = |volume| Claim { volume, first: 0, end: u64::MAX, exclusive: true };
    let mut claims = smallvec![whole(CHANGES)];
    match change {
        Change::CloneVolumes(members) => {
            let sources: std::collections::BTreeSet<_> =
                members.iter().map(|(source, _)| *source).collect();
            claims.extend(sources.into_iter().map(whole));
        }
        Change::DeleteVolume(id) | Change::ResizeVolume { id, .. } => claims.push(whole(*id)),
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

impl Store {
    /// Carries out a change that has its claims.
    pub(super) fn run_change(&mut self, key: usize, change: &Change) -> Result<(), Failure> {
        match change {
            Change::Checkpoint => {
                self.wait_for_checkpoint(key);
                return Ok(());
            }
            Change::Close => {
                // While others are under way it waits; the last to finish lets it go on.
                if self.operations.len() == 1 {
                    self.wait_for_checkpoint(key);
                }
                return Ok(());
            }
            Change::AddDevice(spec) => return self.label_device(key, *spec),
            _ => {}
        }
        let records = self.records_of(change)?;
        if records.is_empty() {
            self.finish(key, Ok(Outcome::Changed));
            return Ok(());
        }
        if self.must_wait_for_checkpoint(Lane::Ordinary) && !self.starved {
            self.stall(key);
            return Ok(());
        }
        self.commit_change(key, records);
        Ok(())
    }

    fn commit_change(&mut self, key: usize, records: Vec<Record>) {
        self.operations[key].stage = Stage::Committing;
        self.groups.of(Lane::Ordinary).member(key);
        for record in records {
            self.groups.of(Lane::Ordinary).record(record);
            if planted!(self.bugs, GroupTornApart) {
                self.close_group();
            }
        }
    }

    /// The records of a change that is allowed; none if nothing is to be done.
    fn records_of(&self, change: &Change) -> Result<Vec<Record>, ChangeError> {
        match change {
            Change::CreateVolume(spec) => self.record_of_create(spec).map(|record| vec![record]),
            Change::CloneVolumes(members) => self.records_of_clones(members),
            Change::RevertVolume { volume, source } => self.record_of_revert(*volume, *source),
            Change::DeleteVolume(id) => {
                self.volumes.get(id).ok_or(ChangeError::NoSuchVolume)?;
                Ok(vec![Record::DeleteVolume { volume: *id }])
            }
            Change::ResizeVolume { id, size_bytes } => self.record_of_resize(*id, *size_bytes),
            Change::ExtendDevice { device, size_bytes } => {
                self.record_of_extend(usize::from(*device), *size_bytes)
            }
            Change::AddDevice(_) | Change::Checkpoint | Change::Close => Ok(Vec::new()),
        }
    }

    fn record_of_extend(&self, device: usize, size_bytes: u64) -> Result<Vec<Record>, ChangeError> {
        if device >= self.space.devices() {
            return Err(ChangeError::NoSuchDevice);
        }
        let device_blocks = size_bytes / BLOCK;
        let now = self.space.layout(device);
        if device_blocks < now.device_blocks || size_bytes > DEVICE_BYTES_MAX {
            return Err(ChangeError::DeviceSize);
        }
        let others = self.first_level_pages() - now.first_level_pages();
        let grown = Layout { device_blocks, ..now };
        check_first_level(others + grown.first_level_pages())?;
        Ok(vec![Record::ExtendDevice { device: device as u32, device_blocks }])
    }

    fn first_level_pages(&self) -> usize {
        self.space.layouts().map(|layout| layout.first_level_pages()).sum()
    }

    /// A new device gets its label before the pool relies on it.
    fn label_device(&mut self, key: usize, spec: DeviceSpec) -> Result<(), Failure> {
        let layout = Layout::without_journal(spec.size_bytes);
        if !layout.is_sound(false) {
            return Err(ChangeError::DeviceSize.into());
        }
        if self.space.devices() >= DEVICES_MAX || self.device_uuids.contains(&spec.uuid) {
            return Err(ChangeError::TooManyDevices.into());
        }
        check_first_level(self.first_level_pages() + layout.first_level_pages())?;
        let device = self.space.devices();
        let label = Label {
            pool_uuid: self.pool_uuid,
            device_uuid: spec.uuid,
            features: Features::default(),
            version: FORMAT_VERSION,
            index: device as u32,
        };
        self.operations[key].stage = Stage::Labelling;
        self.operations[key].label_writes = LABELS.len() as u8;
        for block in LABELS {
            let bytes = label.emit().freeze();
            self.submit_write(
                Waiter::Label { operation: key },
                address(device, block),
                bytes.into(),
            );
        }
        Ok(())
    }

    pub(crate) fn label_written(&mut self, key: usize, result: Result<(), DeviceError>) {
        let device = self.space.devices();
        let Some(operation) = self.operations.get_mut(key) else { return };
        if let Err(error) = result {
            return self.finish(key, Err(ChangeError::Device(error).into()));
        }
        let flushing = operation.label_writes == 0;
        if flushing {
            operation.stage = Stage::Labelled;
            return self.ready.push_back(key);
        }
        operation.label_writes -= 1;
        if operation.label_writes == 0 && planted!(self.bugs, LabelNotFlushed) {
            operation.stage = Stage::Labelled;
            self.ready.push_back(key);
        } else if operation.label_writes == 0 {
            self.submit_flush(Waiter::Label { operation: key }, device);
        }
    }

    /// A device that has its label joins the pool.
    pub(super) fn join_device(&mut self, key: usize) -> Result<(), Failure> {
        let Work::Change(Change::AddDevice(spec)) = &self.operations[key].work else {
            return Ok(());
        };
        let device_blocks = spec.size_bytes / BLOCK;
        let record = Record::AddDevice { uuid: spec.uuid, device_blocks };
        if !self.journal_has_room(Lane::Ordinary) {
            self.stall(key);
            return Ok(());
        }
        self.commit_change(key, vec![record]);
        Ok(())
    }

    fn record_of_create(&self, spec: &VolumeSpec) -> Result<Record, ChangeError> {
        let volume = Volume::new(spec.clone());
        self.check_new(&volume, 1)?;
        self.check_promise(volume.owed_blocks())?;
        Ok(Record::CreateVolume { volume: Box::new(volume), source: None })
    }

    /// What must be true of every new volume, of which there will be `count`.
    fn check_new(&self, volume: &Volume, count: usize) -> Result<(), ChangeError> {
        check_size(volume.size_bytes)?;
        if volume.name.is_empty() || volume.name.len() > NAME_BYTES_MAX {
            return Err(ChangeError::VolumeName);
        }
        let taken = |other: &Volume| other.id == volume.id || other.name == volume.name;
        if volume.id == CHANGES || self.volumes.values().any(taken) {
            return Err(ChangeError::NameTaken(volume.name.clone()));
        }
        match self.volumes.len() + count > VOLUMES_MAX {
            true => Err(ChangeError::TooManyVolumes),
            false => Ok(()),
        }
    }

    fn records_of_clones(
        &self,
        members: &[(VolumeId, VolumeSpec)],
    ) -> Result<Vec<Record>, ChangeError> {
        if members.is_empty() || members.len() > GROUP_MEMBERS_MAX {
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
        Ok(records)
    }

    /// A volume like another one, and the blocks that are promised more once there are both.
    fn clone_of(&self, source: VolumeId, spec: &VolumeSpec) -> Result<(Volume, u64), ChangeError> {
        let source = self.volumes.get(&source).ok_or(ChangeError::NoSuchVolume)?;
        let mut volume = Volume::new(VolumeSpec { size_bytes: source.size_bytes, ..spec.clone() });
        volume.mapped_bytes = source.mapped_bytes;
        volume.shared_blocks = source.mapped_bytes / BLOCK;
        volume.root.levels = source.root.levels;
        let unshared = source.mapped_bytes / BLOCK - source.shared_blocks;
        let source_owes = if source.owed_blocks() > 0 || source.reserved { unshared } else { 0 };
        let more = volume.owed_blocks() + if source.snapshot { 0 } else { source_owes };
        volume.mapped_bytes = 0;
        Ok((volume, more))
    }

    fn record_of_revert(&self, id: VolumeId, source: VolumeId) -> Result<Vec<Record>, ChangeError> {
        let volume = self.volumes.get(&id).ok_or(ChangeError::NoSuchVolume)?;
        let from = self.volumes.get(&source).ok_or(ChangeError::NoSuchVolume)?;
        if volume.snapshot {
            return Err(ChangeError::Snapshot);
        }
        if id == source {
            return Ok(Vec::new());
        }
        if volume.reserved {
            let all = from.size_bytes / BLOCK;
            self.check_promise(all.saturating_sub(volume.owed_blocks()))?;
        }
        if from.reserved && !from.snapshot {
            self.check_promise(from.mapped_bytes / BLOCK - from.shared_blocks)?;
        }
        Ok(vec![Record::RevertVolume { volume: id, source }])
    }

    fn record_of_resize(&self, id: VolumeId, size_bytes: u64) -> Result<Vec<Record>, ChangeError> {
        let volume = self.volumes.get(&id).ok_or(ChangeError::NoSuchVolume)?;
        check_size(size_bytes)?;
        if volume.snapshot {
            return Err(ChangeError::Snapshot);
        }
        if volume.reserved && size_bytes > volume.size_bytes {
            self.check_promise((size_bytes - volume.size_bytes) / BLOCK)?;
        }
        let same = size_bytes == volume.size_bytes;
        let record = Record::ResizeVolume { volume: id, size_bytes };
        Ok(if same { Vec::new() } else { vec![record] })
    }

    /// Whether `blocks` more can be promised to reserved volumes.
    fn check_promise(&self, blocks: u64) -> Result<(), ChangeError> {
        let kept = self.reserve_blocks() + self.owed_blocks() + 2 * self.map.dirty.len() as u64;
        let possible = blocks == 0 || self.space.free() >= kept + blocks;
        if possible { Ok(()) } else { Err(ChangeError::NoSpace) }
    }

    fn wait_for_checkpoint(&mut self, key: usize) {
        // One that is under way may have made its cut before this change was asked for.
        let under_way = u64::from(self.checkpoint.is_some());
        self.operations[key].stage = Stage::Waiting;
        self.checkpoint_waiters.push((self.generation + under_way + 1, key));
        self.checkpoint_wanted = true;
    }
}

fn check_size(size_bytes: u64) -> Result<(), ChangeError> {
    let fits = size_bytes > 0 && size_bytes.is_multiple_of(BLOCK) && size_bytes <= VOLUME_BYTES_MAX;
    if fits { Ok(()) } else { Err(ChangeError::VolumeSize) }
}

/// Whether the superblock can refer to so many first-level pages.
fn check_first_level(pages: usize) -> Result<(), ChangeError> {
    match pages > crate::layout::FIRST_LEVEL_MAX {
        true => Err(ChangeError::TooManyDevices),
        false => Ok(()),
    }
}
