//! Changes of volumes and devices: when they are possible, and what they do.

use block::{SECTOR, VolumeId};
use store::{Change, ChangeError, Volume, VolumeSpec};

use super::{Excuses, Model, Oracle, Violation, violation};
use crate::action::{Action, Span};

impl Oracle {
    /// Makes a change of the volume table.
    pub(crate) fn apply_change(&mut self, change: &Change) {
        match change {
            Change::CreateVolume(spec) => {
                self.volumes.insert(spec.id, Model::new(spec.clone()));
            }
            Change::CloneVolumes(members) => {
                for (source, spec) in members {
                    self.take_over(*source, spec);
                }
            }
            Change::RevertVolume { volume, source } => {
                if let Some(spec) = self.volumes.get(volume).map(|model| model.spec.clone()) {
                    self.take_over(*source, &spec);
                }
            }
            Change::DeleteVolume(id) => {
                self.volumes.remove(id);
            }
            Change::ResizeVolume { id, size_bytes } => {
                if let Some(model) = self.volumes.get_mut(id) {
                    model.spec.size_bytes = *size_bytes;
                    let old = model.sectors();
                    model.tags.resize((size_bytes / SECTOR) as usize, 0);
                    let new = model.sectors();
                    model.touched.retain(|span| span.end() <= new);
                    if new > old {
                        model.touch(Span { first: old, count: new - old });
                    }
                }
            }
            Change::RenameVolume { id, name } => {
                if let Some(model) = self.volumes.get_mut(id) {
                    model.spec.name.clone_from(name);
                }
            }
            Change::ExtendDevice { .. }
            | Change::AddDevice(_)
            | Change::AttachMember { .. }
            | Change::AttachWitness { .. }
            | Change::ReturnWitness { .. }
            | Change::DetachMember { .. }
            | Change::ReturnMember { .. }
            | Change::Resilver(_)
            | Change::EvacuateDevice { .. }
            | Change::Evacuation(_)
            | Change::RemoveDevice { .. }
            | Change::Checkpoint
            | Change::CreateRecords { .. }
            | Change::Close => {}
        }
    }

    /// A volume gets the content and size of another one.
    fn take_over(&mut self, source: VolumeId, spec: &VolumeSpec) {
        let Some(original) = self.volumes.get(&source) else { return };
        let mut model = original.clone();
        model.spec = VolumeSpec { size_bytes: original.spec.size_bytes, ..spec.clone() };
        model.touched = vec![Span { first: 0, count: model.sectors() }];
        self.volumes.insert(spec.id, model);
    }

    /// Whether the engine's table is the model's.
    pub(crate) fn table_matches<'a>(&self, volumes: impl Iterator<Item = &'a Volume>) -> bool {
        let mut models = self.volumes.values();
        let mut volumes = volumes;
        loop {
            match (models.next(), volumes.next()) {
                (None, None) => return true,
                (Some(model), Some(volume)) if is_same(&model.spec, volume) => {}
                _ => return false,
            }
        }
    }

    pub(super) fn is_snapshot(&self, id: &VolumeId) -> bool {
        self.volumes.get(id).is_some_and(|model| model.spec.snapshot)
    }

    pub(super) fn changed(&mut self, change: &Change) -> Result<(), Violation> {
        let exists = |id: &VolumeId| self.volumes.contains_key(id);
        let possible = match change {
            Change::CreateVolume(spec) => !self.is_taken(spec),
            Change::CloneVolumes(members) => {
                let possible = |(source, spec): &(VolumeId, VolumeSpec)| {
                    exists(source) && !self.is_taken(spec)
                };
                !members.is_empty() && members.iter().all(possible) && !has_twice(members)
            }
            Change::RevertVolume { volume, source } => {
                exists(volume) && exists(source) && !self.is_snapshot(volume)
            }
            Change::DeleteVolume(id) => exists(id),
            Change::ResizeVolume { id, .. } => exists(id) && !self.is_snapshot(id),
            Change::RenameVolume { id, name } => exists(id) && !self.has_another(*id, name),
            _ => true,
        };
        if !possible {
            return violation(format!("{} succeeded", Action::Change(change.clone())));
        }
        self.apply_change(change);
        Ok(())
    }

    fn is_taken(&self, spec: &VolumeSpec) -> bool {
        let same = |model: &Model| model.spec.name == spec.name || model.spec.id == spec.id;
        self.volumes.values().any(same)
    }

    /// Whether another volume has this name.
    fn has_another(&self, id: VolumeId, name: &str) -> bool {
        self.volumes.iter().any(|(other, model)| *other != id && model.spec.name == name)
    }

    pub(super) fn change_refused(
        &self,
        change: &Change,
        error: &ChangeError,
        excuses: Excuses,
    ) -> Result<(), Violation> {
        let exists = |id: &VolumeId| self.volumes.contains_key(id);
        let thick = |id: &VolumeId| self.volumes.get(id).is_some_and(|model| model.spec.thick);
        let justified = match (error, change) {
            (ChangeError::NameTaken(_), Change::CreateVolume(spec)) => self.is_taken(spec),
            (ChangeError::NameTaken(_), Change::CloneVolumes(members)) => {
                has_twice(members) || members.iter().any(|(_, spec)| self.is_taken(spec))
            }
            (ChangeError::NoSuchVolume, Change::CloneVolumes(members)) => {
                members.iter().any(|(source, _)| !exists(source))
            }
            (ChangeError::NoSuchVolume, Change::RevertVolume { volume, source }) => {
                !exists(volume) || !exists(source)
            }
            (ChangeError::NoSpace, Change::RevertVolume { volume, source }) => {
                [volume, source].into_iter().any(thick)
            }
            (ChangeError::NameTaken(_), Change::RenameVolume { id, name }) => {
                self.has_another(*id, name)
            }
            (ChangeError::NoSuchVolume, Change::RenameVolume { id, .. })
            | (ChangeError::NoSuchVolume, Change::DeleteVolume(id))
            | (ChangeError::NoSuchVolume, Change::ResizeVolume { id, .. }) => !exists(id),
            (ChangeError::NoSpace, Change::CreateVolume(spec)) => spec.thick,
            (ChangeError::NoSpace, Change::CloneVolumes(members)) => {
                members.iter().any(|(source, spec)| spec.thick || thick(source))
            }
            (
                ChangeError::NoSpaceToShare { .. },
                Change::CloneVolumes(_) | Change::RevertVolume { .. },
            ) => true,
            (ChangeError::NoSpace, Change::ResizeVolume { id, .. }) => thick(id),
            (ChangeError::GroupSize, Change::CloneVolumes(members)) => members.is_empty(),
            (
                ChangeError::Snapshot,
                Change::RevertVolume { volume: id, .. } | Change::ResizeVolume { id, .. },
            ) => self.is_snapshot(id),
            (ChangeError::DeviceSize, Change::ExtendDevice { .. }) => true,
            (ChangeError::NoSuchDevice, Change::ExtendDevice { device: 99, .. }) => true,
            (
                ChangeError::Device(_),
                Change::AddDevice(_)
                | Change::ExtendDevice { .. }
                | Change::AttachMember { .. }
                | Change::ReturnMember { .. }
                | Change::DetachMember { .. }
                | Change::Resilver(_),
            ) => excuses.faults,
            // A write may fail for want of space, too.
            (
                ChangeError::NoRoom,
                Change::AddDevice(_) | Change::ExtendDevice { .. } | Change::AttachMember { .. },
            ) => excuses.refusing || excuses.faults,
            // A copy of a new mirror may be left out before its labels are stable (72018329).
            (ChangeError::NotThatMember, Change::ReturnMember { .. }) => excuses.faults,
            _ if was_overtaken(error, change) || may_stay(error, change, excuses) => true,
            (ChangeError::ReadOnly, _) => excuses.faults,
            (ChangeError::Closed, _) => excuses.closing,
            _ => false,
        };
        if justified {
            return Ok(());
        }
        violation(format!("{} was refused: {error}", Action::Change(change.clone())))
    }
}

/// Whether a device cannot leave.
fn may_stay(error: &ChangeError, change: &Change, excuses: Excuses) -> bool {
    let Change::EvacuateDevice { device } = change else { return false };
    match error {
        ChangeError::FirstDevice => *device == 0,
        ChangeError::SpaceMapsDamaged => excuses.had_faults,
        ChangeError::Device(_) => excuses.faults,
        _ => false,
    }
}

/// Whether another change of the copies may have been quicker, or what was begun before has not ended.
fn was_overtaken(error: &ChangeError, change: &Change) -> bool {
    matches!(
        (error, change),
        (
            ChangeError::TooManyMembers | ChangeError::MemberSize | ChangeError::NoSuchDevice,
            Change::AttachMember { .. }
        ) | (ChangeError::DeviceLeaves | ChangeError::NoSuchDevice, Change::ExtendDevice { .. })
            | (
                ChangeError::NoSuchDevice
                    | ChangeError::LeavingAlready
                    | ChangeError::Degraded { .. }
                    | ChangeError::NoSpaceToLeave { .. },
                Change::EvacuateDevice { .. }
            )
            | (ChangeError::NothingLeaves, Change::Evacuation(_))
            | (ChangeError::NothingLeaves | ChangeError::NotEmpty, Change::RemoveDevice { .. })
            | (
                ChangeError::NoSuchMember | ChangeError::MemberPresent | ChangeError::MemberBusy,
                Change::ReturnMember { .. }
            )
            | (ChangeError::NoSuchMember | ChangeError::LastMember, Change::DetachMember { .. })
            | (
                ChangeError::LastMember | ChangeError::NoSuchMember | ChangeError::NotResilvering,
                Change::Resilver(_)
            )
    )
}

/// Whether two members of a group would have one name.
fn has_twice(members: &[(VolumeId, VolumeSpec)]) -> bool {
    let same =
        |(one, other): (&VolumeSpec, &VolumeSpec)| one.id == other.id || one.name == other.name;
    let pairs = members.iter().enumerate().flat_map(|(number, (_, one))| {
        members[..number].iter().map(move |(_, other)| (one, other))
    });
    pairs.into_iter().any(same)
}

fn is_same(spec: &VolumeSpec, volume: &Volume) -> bool {
    spec.id == volume.spec.id
        && spec.name == volume.spec.name
        && spec.size_bytes == volume.spec.size_bytes
        && spec.thick == volume.spec.thick
        && spec.naa == volume.spec.naa
        && spec.snapshot == volume.spec.snapshot
        && spec.created == volume.spec.created
}
