//! Life of a volume: creation, another size, another name, deletion; what only the configuration
//! knows of it is in [`crate::volumes`].

use api::{BlockSize, CreateVolume, Problem, ProblemKind, Rename, ResizeVolume};
use array::{
    ArrayError, BlockForm, Configuration, Presentation, Tagged, Tags, check_name, naa_identifier,
};
use block::{BLOCK, VolumeId};
use store::VolumeSpec;
use store::limits::VOLUME_BYTES_MAX;

use crate::Effect;
use crate::exports::ExportEvent;
use crate::problems::{problem, refused};
use crate::procedures::{
    self, AfterChange, AfterSave, Answer, PoolId, Stage, View, check_deletable, check_stays,
};
use crate::snapshots::presentation_of_copy;
use crate::volumes::{is_snapshot_problem, is_volume_problem};

/// Something to be done about a volume, besides what front ends are told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VolumeEffect {
    /// Hosts may reach a volume or snapshot that its pool holds.
    Serve(PoolId, VolumeId),
    /// Hosts reach it no more; what the ledger knows of it is kept.
    Withdraw(PoolId, VolumeId),
    /// It is gone: what is kept of its reservations goes, too.
    Forget(PoolId, VolumeId),
    /// Every host looks at its LUNs again.
    ShowAll,
    /// A deletion came to its end: automatic snapshot deletion may wait for it.
    Deleted(PoolId, VolumeId, Result<(), Problem>),
}

/// A change of what the configuration knows of volumes. Nobody sees other LUNs by it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// How a volume looks that is about to be made, and its tags.
    Present(VolumeId, Presentation, Tags),
    /// How copies look that are about to be made, their tags, and until when they are locked.
    Copies {
        /// The name of their pool.
        pool: String,
        /// Each source, its copy, and the tags of that.
        members: Vec<(VolumeId, VolumeSpec, Tags)>,
        /// Seconds since 1970.
        locked_until: Option<u64>,
        /// The time at which that was asked for.
        now: u64,
    },
    /// Everything that is known of volumes that are gone, or were never made.
    Forget(Vec<VolumeId>),
}

impl Change {
    /// Makes the change.
    ///
    /// # Errors
    /// When a lock is out of range, or a tag is none.
    pub fn apply(&self, array: &mut Configuration) -> Result<(), ArrayError> {
        match self {
            Self::Present(id, presentation, tags) => {
                array.set_presentation(*id, *presentation);
                array.set_tags(Tagged::Volume(*id), tags.clone())?;
            }
            Self::Copies { pool, members, locked_until, now } => {
                for (source, spec, tags) in members {
                    array.set_presentation(spec.id, presentation_of_copy(array, *source));
                    array.set_tags(Tagged::Volume(spec.id), tags.clone())?;
                    if let Some(until) = locked_until {
                        array.lock_snapshot(pool, spec.id, *until, *now)?;
                    }
                }
            }
            Self::Forget(ids) => ids.iter().for_each(|&id| forget(array, id)),
        }
        Ok(())
    }
}

fn forget(array: &mut Configuration, id: VolumeId) {
    array.forget_volume_thresholds(id);
    array.forget_lock(id);
    array.forget_scheduled(id);
    array.forget_tags(Tagged::Volume(id));
    array.set_presentation(id, Presentation::default());
}

pub(crate) fn save(change: Change, then: AfterSave) -> Stage {
    Stage::save(procedures::Change::Volume(change), then)
}

/// A volume that is to be made when how it looks is saved, so that hosts never see it in another
/// form.
#[derive(Clone, Debug)]
pub struct Creation {
    pool: PoolId,
    spec: VolumeSpec,
}

/// A volume that is just being given another size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizing {
    /// The volume.
    pub id: VolumeId,
    /// Its size to be, in bytes.
    pub size_bytes: u64,
}

/// A volume or snapshot that is just being deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deleting {
    /// Its identifier.
    pub id: VolumeId,
}

/// What a request's path names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Named<'a> {
    /// A volume, by the names of its pool and itself.
    Volume(&'a str, &'a str),
    /// A snapshot.
    Snapshot(&'a str, &'a str),
}

impl Named<'_> {
    /// The volume or snapshot, if it is of the kind that was asked for.
    fn find(self, view: &impl View) -> Result<(PoolId, VolumeId), Problem> {
        let (found, wants_snapshot) = match self {
            Self::Volume(pool, name) => (view.find("volume", pool, name)?, false),
            Self::Snapshot(pool, name) => (view.find("snapshot", pool, name)?, true),
        };
        let (pool, id) = found;
        let is_snapshot = view.volume(pool, id).is_some_and(|found| found.is_snapshot);
        match (wants_snapshot, is_snapshot) {
            (false, true) => Err(is_snapshot_problem()),
            (true, false) => Err(is_volume_problem()),
            (false, false) | (true, true) => Ok((pool, id)),
        }
    }

    const fn pool(&self) -> &str {
        match self {
            Self::Volume(pool, _) | Self::Snapshot(pool, _) => pool,
        }
    }
}

/// Begins to create a volume.
///
/// # Errors
/// When its name or size is none, or its pool takes no changes.
pub fn create(request: &CreateVolume, now: u64, view: &impl View) -> Result<Stage, Problem> {
    check_name(&request.name).map_err(|error| refused(&error))?;
    check_size(request.size_bytes)?;
    let pool = view.ready(&request.pool)?;
    let id = view.new_id()?;
    let spec = VolumeSpec {
        id,
        name: request.name.clone(),
        size_bytes: request.size_bytes,
        thick: request.thick,
        naa: naa_identifier(id),
        snapshot: false,
        created: now,
    };
    let presentation =
        Presentation { blocks: parse_blocks(request.block_size), ..Presentation::default() };
    let creation = Creation { pool, spec };
    let change = Change::Present(id, presentation, request.tags.clone());
    Ok(save(change, AfterSave::Create(creation)))
}

impl Creation {
    pub(crate) fn known(self) -> Stage {
        let then = AfterChange::Create(self.spec.id);
        Stage::change(self.pool, store::Change::CreateVolume(self.spec), then)
    }
}

pub(crate) fn created(
    pool: PoolId,
    id: VolumeId,
    result: Result<(), Problem>,
    view: &impl View,
) -> Stage {
    match result {
        Ok(()) => Stage::answer(Answer::Volume(pool, id)).after([serve(pool, id)]),
        Err(problem) => undo(pool, vec![id], problem, view),
    }
}

/// Forgets what was said of volumes that could not be made, and answers why. A pool that failed may
/// hold them nevertheless when it is opened again: then they must look as they should, and be locked.
pub(crate) fn undo(pool: PoolId, ids: Vec<VolumeId>, why: Problem, view: &impl View) -> Stage {
    if view.serves(pool) {
        save(Change::Forget(ids), AfterSave::Undone(why))
    } else {
        Stage::refuse(why)
    }
}

pub(crate) fn serve(pool: PoolId, id: VolumeId) -> Effect {
    Effect::Volume(VolumeEffect::Serve(pool, id))
}

/// Begins to give a volume another size.
///
/// # Errors
/// When there is no such volume, or it is just being deleted; when the size is none, or smaller
/// without 'shrink'.
pub fn resize(
    (pool, name): (&str, &str),
    request: &ResizeVolume,
    view: &impl View,
) -> Result<Stage, Problem> {
    let (pool, id) = view.find("volume", pool, name)?;
    check_size(request.size_bytes)?;
    check_stays(id, view)?;
    let current = view.volume(pool, id).map_or(0, |found| found.size_bytes);
    let size_bytes = request.size_bytes;
    if size_bytes < current && !request.shrink {
        return Err(problem(
            ProblemKind::ShrinkNotConfirmed,
            &"a smaller size destroys what lies beyond it: say 'shrink' if that is wanted",
        )
        .with("size_bytes", current));
    }
    let then = AfterChange::Resize(Sizing { id, size_bytes });
    let stage = Stage::change(pool, store::Change::ResizeVolume { id, size_bytes }, then);
    Ok(stage.after(shrinks(id, size_bytes, current)))
}

/// Hosts must not see a size that a volume has no more: they are told a smaller one first.
pub(crate) fn shrinks(id: VolumeId, size_bytes: u64, current: u64) -> Option<Effect> {
    (size_bytes < current).then_some(Effect::Tell(ExportEvent::Resized(id, size_bytes)))
}

/// Hosts are told the size that the volume has now, or that it is about to have if somebody else
/// just shrinks it further.
pub(crate) fn resized(
    pool: PoolId,
    Sizing { id, .. }: Sizing,
    result: Result<(), Problem>,
    view: &impl View,
) -> Stage {
    let told = view.volume(pool, id).map(|found| {
        let size_bytes = found.size_bytes.min(view.size_to_be(id).unwrap_or(u64::MAX));
        Effect::Tell(ExportEvent::Resized(id, size_bytes))
    });
    let end = match result {
        Ok(()) => Stage::answer(Answer::Volume(pool, id)),
        Err(problem) => Stage::refuse(problem),
    };
    end.after(told)
}

/// Begins to give a volume or snapshot another name. Hosts notice nothing: they know it by its LUN
/// and its NAA identifier. A schedule names its volumes, so one of those keeps its name.
///
/// # Errors
/// When there is none of that name and kind, a schedule names it, it is just being deleted, the new
/// name is none, or its pool takes no changes.
pub fn rename(named: Named<'_>, request: &Rename, view: &impl View) -> Result<Stage, Problem> {
    let (_, id) = named.find(view)?;
    if let Named::Volume(pool, volume) = named {
        check_unscheduled(pool, volume, view)?;
    }
    check_name(&request.name).map_err(|error| refused(&error))?;
    let pool = view.ready(named.pool())?;
    check_stays(id, view)?;
    let change = store::Change::RenameVolume { id, name: request.name.clone() };
    Ok(Stage::change(pool, change, AfterChange::Rename(id)))
}

/// Refuses what would leave a schedule without one of its volumes.
fn check_unscheduled(pool: &str, volume: &str, view: &impl View) -> Result<(), Problem> {
    let schedules = |array: &Configuration| {
        let mut schedules = array.schedules.iter();
        let named = schedules.find(|(_, record)| {
            record.schedule.pool == pool && record.schedule.volumes.contains(volume)
        });
        named.map(|(name, _)| name.clone())
    };
    let Some(name) = view.versions().into_iter().find_map(schedules) else { return Ok(()) };
    let detail = format!("schedule '{name}' names this volume: take it out of the schedule first");
    Err(problem(ProblemKind::InSchedule, &detail).with("schedule", name))
}

/// Begins to delete a volume or snapshot.
///
/// # Errors
/// When there is none of that name and kind, somebody keeps it, or it is just being deleted.
pub fn delete(named: Named<'_>, now: u64, view: &impl View) -> Result<Stage, Problem> {
    let (pool, id) = named.find(view)?;
    check_stays(id, view)?;
    check_deletable(id, now, view.versions()).map_err(|error| refused(&error))?;
    Ok(begin_deletion(pool, id))
}

/// Begins to delete a volume or snapshot that nobody keeps: every deletion goes this way.
pub fn begin_deletion(pool: PoolId, id: VolumeId) -> Stage {
    let withdrawn = Effect::Volume(VolumeEffect::Withdraw(pool, id));
    let then = AfterChange::Delete(Deleting { id });
    Stage::change(pool, store::Change::DeleteVolume(id), then).after([withdrawn])
}

pub(crate) fn deleted(
    pool: PoolId,
    Deleting { id }: Deleting,
    result: Result<(), Problem>,
) -> Stage {
    let told = Effect::Volume(VolumeEffect::Deleted(pool, id, result.clone()));
    match result {
        Ok(()) => {
            let gone = Effect::Volume(VolumeEffect::Forget(pool, id));
            save(Change::Forget(vec![id]), AfterSave::Forgotten).after([told, gone])
        }
        Err(problem) => {
            let shown = Effect::Volume(VolumeEffect::ShowAll);
            Stage::refuse(problem).after([told, serve(pool, id), shown])
        }
    }
}

fn parse_blocks(size: BlockSize) -> BlockForm {
    match size {
        BlockSize::B512 => BlockForm::B512n,
        BlockSize::B512e => BlockForm::B512e,
        BlockSize::B4096 => BlockForm::B4096,
    }
}

fn check_size(size_bytes: u64) -> Result<(), Problem> {
    let sentence = if size_bytes == 0 || !size_bytes.is_multiple_of(BLOCK) {
        "the size of a volume is a multiple of 4096 bytes and not 0: choose another"
    } else if size_bytes > VOLUME_BYTES_MAX {
        "a volume has at most 64 TiB: choose a smaller size"
    } else {
        return Ok(());
    };
    Err(refused(&ArrayError::InvalidSize(sentence.to_owned())))
}

#[cfg(test)]
mod tests;
