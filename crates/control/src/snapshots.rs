//! Snapshots, consistency groups and clones, and reverting a volume to one of its snapshots.

use api::{CloneVolume, CreateSnapshots, Problem, ProblemKind, RevertVolume};
use array::{Configuration, Presentation, check_name, naa_identifier};
use block::VolumeId;
use store::VolumeSpec;

use crate::Effect;
use crate::exports::ExportEvent;
use crate::problems::{gone, problem, refused};
use crate::procedures::{AfterChange, AfterSave, Answer, PoolId, Stage, View, check_stays};
use crate::volume_lifecycle::{Change, Sizing, resized, save, serve, shrinks, undo};

/// What becomes of a copy of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Copy {
    /// A snapshot.
    Snapshot,
    /// A clone that takes space as it is written.
    Thin,
    /// A clone with all its space promised.
    Thick,
}

/// What is said of a new snapshot or clone, made at a time; its size is its source's.
///
/// # Errors
/// When its name is none.
pub fn copy_spec(name: &str, copy: Copy, id: VolumeId, now: u64) -> Result<VolumeSpec, Problem> {
    check_name(name).map_err(|error| refused(&error))?;
    Ok(VolumeSpec {
        id,
        name: name.to_owned(),
        size_bytes: 0,
        thick: copy == Copy::Thick,
        naa: naa_identifier(id),
        snapshot: copy == Copy::Snapshot,
        created: now,
    })
}

/// A copy shows the same blocks as its source, and the same vendor and product, so that hosts have
/// the array copy between the two.
pub fn presentation_of_copy(array: &Configuration, source: VolumeId) -> Presentation {
    Presentation { reservations_hidden: false, ..array.presentation(source) }
}

/// Copies that are to be made when how they look and until when they are locked is saved: the locks
/// are there before the snapshots are.
#[derive(Clone, Debug)]
pub struct Copying {
    pool: PoolId,
    members: Vec<(VolumeId, VolumeSpec)>,
    copied: Copied,
}

/// Copies that are just being made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Copied {
    /// Snapshots, all of one moment.
    Snapshots(Vec<VolumeId>),
    /// A clone.
    Clone(VolumeId),
}

/// Begins to make snapshots: all of the request are of one moment, or none is made.
///
/// # Errors
/// When the pool takes no changes, it has no volume of one of the names, or the name of a snapshot is
/// none.
pub fn create(request: &CreateSnapshots, now: u64, view: &impl View) -> Result<Stage, Problem> {
    let pool = view.ready(&request.pool)?;
    let members = request.snapshots.iter().map(|new| {
        let (_, source) = view.find("volume", &request.pool, &new.volume)?;
        let spec = copy_spec(&new.name, Copy::Snapshot, view.new_id()?, now)?;
        Ok((source, spec, new.tags.clone()))
    });
    let members = members.collect::<Result<Vec<_>, Problem>>()?;
    let ids = members.iter().map(|(_, spec, _)| spec.id).collect();
    let specs = members.iter().map(|(source, spec, _)| (*source, spec.clone())).collect();
    let copying = Copying { pool, members: specs, copied: Copied::Snapshots(ids) };
    let locked_until = request.locked_until;
    let change = Change::Copies { pool: request.pool.clone(), members, locked_until, now };
    Ok(save(change, AfterSave::Copy(copying)))
}

/// Begins to make a clone.
///
/// # Errors
/// When there is no such volume or snapshot, its pool takes no changes, or the clone's name is none.
pub fn clone_volume(
    (pool, name): (&str, &str),
    request: &CloneVolume,
    now: u64,
    view: &impl View,
) -> Result<Stage, Problem> {
    let (_, source) = view.find("volume", pool, name)?;
    let id = view.ready(pool)?;
    let copy = if request.thick { Copy::Thick } else { Copy::Thin };
    let spec = copy_spec(&request.name, copy, view.new_id()?, now)?;
    let copied = Copied::Clone(spec.id);
    let copying = Copying { pool: id, members: vec![(source, spec.clone())], copied };
    let members = vec![(source, spec, request.tags.clone())];
    let change = Change::Copies { pool: pool.to_owned(), members, locked_until: None, now };
    Ok(save(change, AfterSave::Copy(copying)))
}

impl Copying {
    pub(crate) fn known(self) -> Stage {
        let change = store::Change::CloneVolumes(self.members);
        Stage::change(self.pool, change, AfterChange::Copy(self.copied))
    }
}

pub(crate) fn copied(
    pool: PoolId,
    copied: Copied,
    result: Result<(), Problem>,
    view: &impl View,
) -> Stage {
    match (copied, result) {
        (Copied::Snapshots(ids), Ok(())) => {
            let served: Vec<Effect> = ids.iter().map(|&id| serve(pool, id)).collect();
            Stage::answer(Answer::Snapshots(pool, ids)).after(served)
        }
        (Copied::Clone(id), Ok(())) => {
            Stage::answer(Answer::Volume(pool, id)).after([serve(pool, id)])
        }
        (Copied::Snapshots(ids), Err(problem)) => undo(pool, ids, problem, view),
        (Copied::Clone(id), Err(problem)) => undo(pool, vec![id], problem, view),
    }
}

/// Begins to revert a volume to one of its snapshots. Hosts keep in memory what they read and what
/// they are going to write, so a volume changes under them only if the administrator says so.
///
/// # Errors
/// When one of the two is not there, the snapshot is of another volume, hosts may be using the
/// volume, it is just being deleted, or the pool takes no changes.
pub fn revert(
    (pool, name): (&str, &str),
    request: &RevertVolume,
    view: &impl View,
) -> Result<Stage, Problem> {
    let (_, id) = view.find("volume", pool, name)?;
    let slot = view.ready(pool)?;
    let (_, source) = view.find("snapshot", pool, &request.snapshot)?;
    check_stays(id, view)?;
    let snapshot = view.volume(slot, source);
    let Some(snapshot) = snapshot.filter(|found| found.is_snapshot && found.origin == Some(id))
    else {
        let detail = format!(
            "'{}' is not a snapshot of this volume: name one of those, or make a volume of it, a \
             clone",
            request.snapshot
        );
        let other = problem(ProblemKind::NotItsSnapshot, &detail);
        return Err(other.with("snapshot", request.snapshot.as_str()));
    };
    let is_mapped = view.versions().iter().any(|array| array.check_unmapped(id).is_err());
    if !request.force && is_mapped {
        return Err(problem(
            ProblemKind::StillMapped,
            &"hosts may be using the volume, and it would change under them: unmap it first, or \
              say 'force' if none of them has it open",
        ));
    }
    let current = view.volume(slot, id).ok_or_else(gone)?.size_bytes;
    let size_bytes = snapshot.size_bytes;
    let then = AfterChange::Revert(Sizing { id, size_bytes });
    let stage = Stage::change(slot, store::Change::RevertVolume { volume: id, source }, then);
    Ok(stage.after(shrinks(id, size_bytes, current)))
}

pub(crate) fn reverted(
    pool: PoolId,
    sizing: Sizing,
    result: Result<(), Problem>,
    view: &impl View,
) -> Stage {
    let replaced = Effect::Tell(ExportEvent::ContentReplaced(sizing.id));
    let replaced = result.is_ok().then_some(replaced);
    resized(pool, sizing, result, view).after(replaced)
}

#[cfg(test)]
mod tests;
