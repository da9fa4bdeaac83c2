//! Changes of volumes and devices, one after the other.

use block::{BLOCK, VolumeId};
use smallvec::{SmallVec, smallvec};

use super::Stage;
use crate::error::{ChangeError, Failure};
use crate::limits::{DEVICE_BYTES_MAX, NAME_BYTES_MAX, VOLUME_BYTES_MAX, VOLUMES_MAX};
use crate::locks::Claim;
use crate::record::Record;
use crate::store::{CHANGES, Change, Outcome, Store};
use crate::volume::{Volume, VolumeSpec};

/// A change waits for those before it, and for everything on the volumes that it concerns.
pub(super) fn claims(change: &Change) -> SmallVec<[Claim; 2]> {
    let whole = |volume| Claim { volume, first: 0, end: u64::MAX, exclusive: true };
    let mut claims = smallvec![whole(CHANGES)];
    match change {
        Change::CloneVolume { source: id, .. }
        | Change::DeleteVolume(id)
        | Change::ResizeVolume { id, .. } => claims.push(whole(*id)),
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
            _ => {}
        }
        let record = self.record_of(change)?;
        let Some(record) = record else {
            self.finish(key, Ok(Outcome::Changed));
            return Ok(());
        };
        if self.must_wait_for_checkpoint() {
            self.stall(key);
            return Ok(());
        }
        self.group.record(record);
        self.group.member(key);
        self.operations[key].stage = Stage::Committing;
        Ok(())
    }

    /// The record of a change that is allowed; `None` if nothing is to be done.
    fn record_of(&self, change: &Change) -> Result<Option<Record>, ChangeError> {
        match change {
            Change::CreateVolume(spec) => self.record_of_create(spec, None).map(Some),
            Change::CloneVolume { source, spec } => {
                self.record_of_create(spec, Some(*source)).map(Some)
            }
            Change::DeleteVolume(id) => {
                self.volumes.get(id).ok_or(ChangeError::NoSuchVolume)?;
                Ok(Some(Record::DeleteVolume { volume: *id }))
            }
            Change::ResizeVolume { id, size_bytes } => self.record_of_resize(*id, *size_bytes),
            Change::ExtendDevice { device, size_bytes } => {
                if *device != 0 {
                    return Err(ChangeError::NoSuchDevice);
                }
                let device_blocks = size_bytes / BLOCK;
                if device_blocks < self.space.layout.device_blocks || *size_bytes > DEVICE_BYTES_MAX
                {
                    return Err(ChangeError::DeviceSize);
                }
                Ok(Some(Record::ExtendDevice { device_blocks }))
            }
            Change::Checkpoint | Change::Close => Ok(None),
        }
    }

    fn record_of_create(
        &self,
        spec: &VolumeSpec,
        source: Option<VolumeId>,
    ) -> Result<Record, ChangeError> {
        let mut volume = Volume::new(spec.clone());
        if let Some(source) = source {
            let source = self.volumes.get(&source).ok_or(ChangeError::NoSuchVolume)?;
            volume.size_bytes = source.size_bytes;
            volume.shared_blocks = source.mapped_bytes / BLOCK;
            volume.root.levels = source.root.levels;
        }
        check_size(volume.size_bytes)?;
        if spec.name.is_empty() || spec.name.len() > NAME_BYTES_MAX {
            return Err(ChangeError::VolumeName);
        }
        let taken = |other: &Volume| other.id == spec.id || other.name == spec.name;
        if spec.id == CHANGES || self.volumes.values().any(taken) {
            return Err(ChangeError::NameTaken(spec.name.clone()));
        }
        if self.volumes.len() >= VOLUMES_MAX {
            return Err(ChangeError::TooManyVolumes);
        }
        let source_owes = source
            .and_then(|source| self.volumes.get(&source))
            .filter(|source| source.reserved)
            .map_or(0, |source| source.mapped_bytes / BLOCK);
        self.check_promise(volume.owed_blocks() + source_owes)?;
        Ok(Record::CreateVolume { volume: Box::new(volume), source })
    }

    fn record_of_resize(
        &self,
        id: VolumeId,
        size_bytes: u64,
    ) -> Result<Option<Record>, ChangeError> {
        let volume = self.volumes.get(&id).ok_or(ChangeError::NoSuchVolume)?;
        check_size(size_bytes)?;
        if volume.reserved && size_bytes > volume.size_bytes {
            self.check_promise((size_bytes - volume.size_bytes) / BLOCK)?;
        }
        let same = size_bytes == volume.size_bytes;
        Ok((!same).then_some(Record::ResizeVolume { volume: id, size_bytes }))
    }

    /// Whether `blocks` more can be promised to reserved volumes.
    fn check_promise(&self, blocks: u64) -> Result<(), ChangeError> {
        let kept = self.reserve_blocks() + self.owed_blocks() + self.map.dirty.len() as u64;
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
