//! Volumes and snapshots as requests find them, and the settings of them that only the configuration
//! holds: tags, thresholds, reservations, vendor and product, locks.

use api::{LockSnapshot, Problem, ProblemKind, SetReservations, SetTags};
use array::{Identification, Presentation, Tagged, Tags, Thresholds};
use block::VolumeId;

use crate::change::{Answer, Applied, ConfigurationChange, Draft, Place, Touched, View};
use crate::exports::ExportEvent;
use crate::problems::{conflict, problem, refused};
use crate::{Effect, Forgotten, identification, thresholds};

/// A volume or snapshot that a request names, as it was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The name of its pool.
    pub pool: String,
    /// Its name.
    pub name: String,
    /// Its identifier.
    pub id: VolumeId,
    /// Whether it is a snapshot.
    pub is_snapshot: bool,
    /// Whether it is just being deleted.
    pub is_going: bool,
}

impl Found {
    /// Refuses a snapshot.
    ///
    /// # Errors
    /// When it is one.
    pub fn volume(self) -> Result<Self, Problem> {
        if self.is_snapshot { Err(is_snapshot_problem()) } else { Ok(self) }
    }

    /// Refuses a volume.
    ///
    /// # Errors
    /// When it is no snapshot.
    pub fn snapshot(self) -> Result<Self, Problem> {
        if self.is_snapshot { Ok(self) } else { Err(is_volume_problem()) }
    }

    /// Refuses what is just being deleted.
    ///
    /// # Errors
    /// When it is.
    pub fn stays(self) -> Result<Self, Problem> {
        if self.is_going { Err(is_going_problem()) } else { Ok(self) }
    }

    /// Where it is.
    pub fn place(&self) -> Place {
        Place { pool: self.pool.clone(), id: self.id }
    }

    /// POOL/NAME.
    pub fn path(&self) -> String {
        format!("{}/{}", self.pool, self.name)
    }
}

/// A request names a snapshot where a volume is wanted.
pub fn is_snapshot_problem() -> Problem {
    problem(ProblemKind::IsSnapshot, &"this is a snapshot: ask for it as one")
}

/// A request names a volume where a snapshot is wanted.
pub fn is_volume_problem() -> Problem {
    problem(ProblemKind::IsVolume, &"this is a volume: ask for it as one")
}

/// A request names what is just being deleted.
pub fn is_going_problem() -> Problem {
    conflict(&"it is just being deleted")
}

/// A change of what the configuration says of one volume or snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    of: Place,
    setting: Setting,
}

/// A setting, as it is to be.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Setting {
    /// These tags and no others, of a volume.
    VolumeTags(Tags),
    /// The same of a snapshot.
    SnapshotTags(Tags),
    /// When somebody is told how full it is.
    Thresholds(Thresholds),
    /// Whether hosts find no reservations.
    ReservationsHidden(bool),
    /// Its own vendor and product; `None` for what all tell.
    Identification(Option<Identification>),
    /// A snapshot must not be deleted before this, seconds since 1970.
    LockedUntil(u64),
}

/// A volume gets these tags and no others.
///
/// # Errors
/// When it is a snapshot, or is being deleted.
pub fn tag_volume(request: SetTags, found: Found) -> Result<Change, Problem> {
    Ok(set(&found.volume()?.stays()?, Setting::VolumeTags(request.tags)))
}

/// A snapshot gets these tags and no others.
///
/// # Errors
/// When it is a volume, or is being deleted.
pub fn tag_snapshot(request: SetTags, found: Found) -> Result<Change, Problem> {
    Ok(set(&found.snapshot()?.stays()?, Setting::SnapshotTags(request.tags)))
}

/// Somebody is told how full a volume is by these thresholds from now on.
pub fn set_thresholds(request: api::Thresholds, found: &Found) -> Change {
    set(found, Setting::Thresholds(thresholds::parse(request)))
}

/// Hosts may use reservations of a volume, or find none.
pub fn set_reservations(request: SetReservations, found: &Found) -> Change {
    set(found, Setting::ReservationsHidden(request.hidden))
}

/// A volume tells a vendor and product of its own.
///
/// # Errors
/// When one of the two cannot be told.
pub fn set_identification(request: &api::Identification, found: &Found) -> Result<Change, Problem> {
    let own = identification::parse(request).map_err(|error| refused(&error))?;
    Ok(set(found, Setting::Identification(Some(own))))
}

/// A volume tells the vendor and product that all tell.
pub fn delete_identification(found: &Found) -> Change {
    set(found, Setting::Identification(None))
}

/// A snapshot is locked, or locked for longer.
///
/// # Errors
/// When it is a volume, or is being deleted.
pub fn lock(request: LockSnapshot, found: Found) -> Result<Change, Problem> {
    if !found.is_snapshot {
        return Err(conflict(&"this is a volume: only snapshots can be locked"));
    }
    Ok(set(&found.stays()?, Setting::LockedUntil(request.until)))
}

fn set(found: &Found, setting: Setting) -> Change {
    Change { of: found.place(), setting }
}

impl ConfigurationChange for Change {
    fn apply(&self, draft: &mut Draft, now: u64, view: &dyn View) -> Result<Applied, Problem> {
        let (array, id) = (&mut draft.array, self.of.id);
        let done = |answer| Applied::new(Touched::Nobody, answer);
        let (volume, snapshot) =
            (Answer::Volume(self.of.clone()), Answer::Snapshot(self.of.clone()));
        let applied = match &self.setting {
            Setting::VolumeTags(tags) => {
                array.set_tags(Tagged::Volume(id), tags.clone()).map(|()| done(volume))
            }
            Setting::SnapshotTags(tags) => {
                array.set_tags(Tagged::Volume(id), tags.clone()).map(|()| done(snapshot))
            }
            Setting::Thresholds(thresholds) => {
                let forget = Effect::Forget(Forgotten::VolumeFill(id));
                array
                    .set_volume_thresholds(id, *thresholds)
                    .map(|()| done(volume).with(vec![forget]))
            }
            Setting::ReservationsHidden(hidden) => {
                let presentation =
                    Presentation { reservations_hidden: *hidden, ..array.presentation(id) };
                array.set_presentation(id, presentation);
                let told = Effect::Tell(ExportEvent::ReservationsHidden(id, *hidden));
                Ok(done(volume).with(vec![told]))
            }
            Setting::Identification(own) => {
                let effects = identification::set_own(array, id, *own, view);
                Ok(done(own.map_or(Answer::DONE, |_| volume)).with(effects))
            }
            Setting::LockedUntil(until) => {
                array.lock_snapshot(&self.of.pool, id, *until, now).map(|()| done(snapshot))
            }
        };
        applied.map_err(|error| refused(&error))
    }
}

#[cfg(test)]
mod tests;
