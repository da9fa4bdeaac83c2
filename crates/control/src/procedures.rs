//! Procedures of several steps as state machines: a request that changes pools saves the
//! configuration, has a pool change, saves again, and is answered.
//!
//! A [`Stage`] is what a procedure has come to: effects, and then one thing for which it waits. What
//! it waits for holds the value that goes on: [`AfterSave`] when a version of the configuration is
//! saved or could not be, [`AfterChange`] when a pool has changed or could not. So a procedure that
//! waits for a pool can be told of nothing but a pool.
//!
//! What is to be known of a volume is saved before the volume is made, and forgotten after it is
//! gone. A restart between two steps therefore leaves no volume of which something is not known; it
//! may leave entries without a volume, which [`crate::leftovers`] finds.

use api::{Problem, TaskKind};
use array::{ArrayError, Configuration, PoolDevice};
use block::{DeviceName, VolumeId};

use crate::Effect;
use crate::departures::{self, Leaving, Told};
use crate::devices::{self, AfterMaking, Growing, Joining, Making};
use crate::members::{self, Admitting, LostMember};
use crate::mirror_joining::{self, JoiningMirror};
use crate::pools::{self, Formatting, NewPool, PoolEffect, do_to_pool};
use crate::snapshots::{self, Copied, Copying};
use crate::volume_lifecycle::{self, Creation, Deleting, Sizing};
use crate::volumes::is_going_problem;

/// The number of a pool in this life of the daemon; a stale one finds nothing, never another pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PoolId(pub usize);

impl PoolId {
    /// The lane in which commands for the pool queue.
    pub const fn lane(self) -> usize {
        self.0
    }
}

/// The server's name for devices that were just made and are in no pool yet; each is used once: they
/// are formatted, join a pool, or are discarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OpenDevices(pub u64);

/// What procedures have to know of the configuration and the pools.
pub trait View {
    /// The configuration that is in effect, and the one with every change that was accepted, saved
    /// or not.
    fn versions(&self) -> [&Configuration; 2];

    /// The pool of that name, if it takes changes of volumes.
    ///
    /// # Errors
    /// Why it does not.
    fn ready(&self, pool: &str) -> Result<PoolId, Problem>;

    /// A volume or snapshot of that name, of whichever kind it is.
    ///
    /// # Errors
    /// Why there is none to be had; `kind` is what was asked for.
    fn find(
        &self,
        kind: &'static str,
        pool: &str,
        name: &str,
    ) -> Result<(PoolId, VolumeId), Problem>;

    /// Whether a pool is open and takes writes. What became of a change of one that is not is not
    /// known before it is opened again.
    fn serves(&self, pool: PoolId) -> bool;

    /// A volume or snapshot as its pool has it now.
    fn volume(&self, pool: PoolId, id: VolumeId) -> Option<FoundVolume>;

    /// Whether a volume or snapshot is just being deleted.
    fn is_going(&self, id: VolumeId) -> bool;

    /// The smallest size, in bytes, that a volume is just being given.
    fn size_to_be(&self, id: VolumeId) -> Option<u64>;

    /// An identifier that no volume has, drawn at random.
    ///
    /// # Errors
    /// When the system gives no random numbers.
    fn new_id(&self) -> Result<VolumeId, Problem>;

    /// The pool of that name, while it is open.
    fn pool(&self, name: &str) -> Option<FoundPool>;

    /// Whether a pool is configured and cannot be served.
    fn is_unavailable(&self, pool: &str) -> bool;

    /// Whether an open pool holds a volume or snapshot.
    fn is_held(&self, id: VolumeId) -> bool;

    /// The logical devices of a pool and their members; none while it is not open.
    fn mirrors(&self, pool: PoolId) -> Vec<store::MirrorStatus>;

    /// The names of a pool's open devices.
    fn open_devices(&self, pool: PoolId) -> Vec<DeviceName>;

    /// The names of the devices that belong to a pool as it knows itself, also of members of mirrors that
    /// are away.
    fn devices_in_use(&self, pool: PoolId) -> Vec<DeviceName>;

    /// The places among a pool's configured devices of a device, or of the members of a mirror that are
    /// there, by its number among the logical devices.
    fn places_of(&self, pool: PoolId, device: usize) -> Vec<usize>;

    /// Whether nobody changes the pool of that name in a way that excludes other changes.
    ///
    /// # Errors
    /// What is just being done with it.
    fn check_free(&self, pool: &str) -> Result<(), Problem>;

    /// Whether the daemon is stopping.
    fn is_stopping(&self) -> bool;

    /// An identifier of a pool or a device, drawn at random.
    ///
    /// # Errors
    /// When the system gives no random numbers.
    fn new_uuid(&self) -> Result<[u8; 16], Problem>;
}

/// A pool as it is found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundPool {
    /// Its number.
    pub id: PoolId,
    /// How many volumes and snapshots administrators see in it.
    pub volumes: usize,
    /// The devices that have joined it, by their numbers.
    pub joined: Vec<JoinedDevice>,
    /// The number of the device that leaves it, if one does.
    pub leaving: Option<usize>,
    /// How many devices it has open.
    pub open_devices: usize,
    /// Whether a device is just joining.
    pub is_joining: bool,
    /// Whether it works on something that somebody asked for.
    pub is_changing: bool,
    /// Whether some of its devices hold the same blocks.
    pub has_mirrors: bool,
    /// Whether it is still being opened: what it holds is not known yet.
    pub is_opening: bool,
}

/// A device that has joined a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JoinedDevice {
    /// Its number, which it keeps when others leave.
    pub number: usize,
    /// Its size in bytes.
    pub size_bytes: u64,
}

/// A volume or snapshot as its pool has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FoundVolume {
    /// Its size in bytes.
    pub size_bytes: u64,
    /// Whether it is a snapshot.
    pub is_snapshot: bool,
    /// The volume it was copied from, which may be gone.
    pub origin: Option<VolumeId>,
}

/// What a procedure has come to.
#[derive(Clone, Debug)]
#[must_use]
pub struct Stage {
    /// To be performed first, in order.
    pub effects: Vec<Effect>,
    /// What comes then.
    pub wait: Wait,
}

/// What a procedure waits for.
#[derive(Clone, Debug)]
pub enum Wait {
    /// This change of the configuration is to be made and saved.
    Save(Change, AfterSave),
    /// A pool is to change.
    Change(PoolId, store::Change, AfterChange),
    /// Other controllers are to forget a pool, which is to say itself that it is given away.
    GiveAway(PoolId, AfterChange),
    /// Another thread is to make devices.
    Make(Making, AfterMaking),
    /// Devices are to be formatted as a new pool.
    Format(Formatting, AfterChange),
    /// A device is to join a pool.
    Join(Joining, AfterChange),
    /// Devices are to join a pool as a mirror.
    JoinMirror(JoiningMirror),
    /// A device is to be a member of a mirror.
    Admit(Admitting),
    /// Another thread is to make a device larger.
    Grow(Growing),
    /// Nothing: whoever asked is answered.
    End(Result<Answer, Problem>),
}

/// A change of the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Of what is known of volumes. Nobody sees other LUNs by it.
    Volume(volume_lifecycle::Change),
    /// Of what is known of pools.
    Pool(pools::Change),
}

impl Change {
    /// Makes the change.
    ///
    /// # Errors
    /// When a lock is out of range.
    pub fn apply(&self, array: &mut Configuration) -> Result<(), ArrayError> {
        match self {
            Self::Volume(change) => change.apply(array),
            Self::Pool(change) => {
                change.apply(array);
                Ok(())
            }
        }
    }
}

/// What is answered at the end. The server describes it as it is then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It is done, and there is nothing to say.
    Done,
    /// A volume.
    Volume(PoolId, VolumeId),
    /// A volume or a snapshot, whichever it is.
    Either(PoolId, VolumeId),
    /// Snapshots that were made together.
    Snapshots(PoolId, Vec<VolumeId>),
    /// The pool of that name.
    Pool(String),
}

/// Goes on when the configuration is saved, or could not be.
#[derive(Clone, Debug)]
pub enum AfterSave {
    /// A volume is made: how it looks is known.
    Create(Creation),
    /// Snapshots or a clone are made: how they look and until when they are locked is known.
    Copy(Copying),
    /// What was known of a volume that is gone is forgotten.
    Forgotten,
    /// What was said of volumes that could not be made is forgotten; or it is not, and the next start
    /// of the daemon finds it. Why they could not be made is answered.
    Undone(Problem),
    /// A member that did not join is configured no more: what was made for it is removed. If that could
    /// not be saved the next start looks for its file. Why it did not join is answered.
    NotJoined(Vec<PoolDevice>, Problem),
    /// A pool is configured.
    AddPool {
        /// The pool.
        pool: PoolId,
        /// Its name.
        name: String,
        /// Its devices.
        devices: Vec<PoolDevice>,
    },
    /// The pool of that name is configured no more.
    RemovePool(String),
    /// A device that is to join a pool is configured.
    AddDevice {
        /// The name of the pool.
        name: String,
        /// The device, open.
        joining: Joining,
        /// The device, as it is configured.
        devices: Vec<PoolDevice>,
    },
    /// A device that is to join a mirror is configured.
    AddMember(Admitting),
    /// Devices that are to join a pool as a mirror are configured.
    AddMirror {
        /// The devices, open.
        joining: JoiningMirror,
        /// The devices, as they are configured.
        devices: Vec<PoolDevice>,
    },
    /// Devices that were to join a pool as a mirror are configured no more.
    ForgetMirror {
        /// The pool.
        pool: PoolId,
        /// Its name.
        name: String,
        /// The devices.
        forgotten: Vec<PoolDevice>,
        /// Why they could not join, if they were to.
        why: Option<Problem>,
    },
    /// A member of the pool of that name is configured no more, or its spares are others.
    MemberGone(String),
    /// Devices that have not joined a pool are configured no more.
    ForgetDevices {
        /// The pool.
        pool: PoolId,
        /// Its name.
        name: String,
        /// The devices.
        forgotten: Vec<PoolDevice>,
        /// Why one could not join that was to.
        why: Option<Problem>,
    },
    /// A device is configured with another size.
    ResizeDevice(Growing),
    /// A device is configured as one that leaves: it begins to.
    BeginToLeave(Leaving),
    /// The same of one from which everything was moved: it leaves.
    Leave(Leaving),
    /// Whether devices have left a pool is configured as it is: its other devices are looked at.
    Settled(PoolId),
}

/// Goes on when a pool has changed, or could not.
#[derive(Clone, Debug)]
pub enum AfterChange {
    /// A volume was made.
    Create(VolumeId),
    /// Snapshots, or a clone, were made.
    Copy(Copied),
    /// A volume has another size.
    Resize(Sizing),
    /// A volume has the content of one of its snapshots.
    Revert(Sizing),
    /// A volume or snapshot is gone.
    Delete(Deleting),
    /// A volume or snapshot has another name.
    Rename(VolumeId),
    /// A pool was formatted.
    CreatePool(NewPool),
    /// The pool of that name is known here alone.
    GiveAwayPool(String),
    /// The pool of that name has closed.
    ClosePool(String),
    /// A device has joined the pool of that name.
    Join(String),
    /// Devices have joined a pool as a mirror.
    JoinMirror(JoiningMirror),
    /// A pool has taken the new space of a device.
    Extend(Growing),
    /// A device is a member of a mirror.
    Admit(Admitting),
    /// A member has left its mirror.
    Detach(LostMember),
    /// Resilvers of the pool of that name rest, go on or were given up.
    Resilver(String),
    /// A device has begun to leave.
    BeginToLeave(Leaving),
    /// The leaving of a device rests, goes on or was given up.
    ControlDeparture(Told),
    /// A device has left.
    Leave(Leaving),
}

impl Stage {
    /// Waits for a save.
    pub(crate) const fn save(change: Change, then: AfterSave) -> Self {
        Self::wait(Wait::Save(change, then))
    }

    /// Waits for something.
    pub(crate) const fn wait(wait: Wait) -> Self {
        Self { effects: Vec::new(), wait }
    }

    /// Waits for a pool.
    pub(crate) fn change(pool: PoolId, change: store::Change, then: AfterChange) -> Self {
        Self { effects: Vec::new(), wait: Wait::Change(pool, change, then) }
    }

    /// The end.
    pub(crate) fn answer(answer: Answer) -> Self {
        Self { effects: Vec::new(), wait: Wait::End(Ok(answer)) }
    }

    /// The end, with the reason why it is not the one that was asked for.
    pub(crate) fn refuse(problem: Problem) -> Self {
        Self { effects: Vec::new(), wait: Wait::End(Err(problem)) }
    }

    /// The same after effects.
    pub(crate) fn after(self, effects: impl IntoIterator<Item = Effect>) -> Self {
        Self { effects: effects.into_iter().chain(self.effects).collect(), wait: self.wait }
    }
}

impl AfterSave {
    /// The configuration is saved and in effect, or could not be saved.
    pub fn saved(self, result: Result<(), Problem>) -> Stage {
        match (self, result) {
            (Self::Undone(why), Ok(()) | Err(_)) | (Self::NotJoined(_, why), Err(_)) => {
                Stage::refuse(why)
            }
            (Self::NotJoined(made, why), Ok(())) => {
                Stage::refuse(why).after([do_to_pool(PoolEffect::RemoveFiles(made))])
            }
            (Self::Create(creation), Ok(())) => creation.known(),
            (Self::Copy(copying), Ok(())) => copying.known(),
            (Self::Forgotten, Ok(())) => Stage::answer(Answer::Done),
            (Self::AddPool { pool, name, devices }, result) => {
                pools::added(pool, name, devices, result)
            }
            (Self::RemovePool(name), result) => pools::forgotten(name, result),
            (Self::AddDevice { name, joining, devices }, result) => {
                devices::configured(name, joining, devices, result)
            }
            (Self::AddMember(admitting), result) => members::configured(admitting, result),
            (Self::AddMirror { joining, devices }, result) => {
                mirror_joining::configured(joining, devices, result)
            }
            (Self::ForgetMirror { pool, name, forgotten, why }, result) => {
                mirror_joining::forgotten((pool, name), forgotten, why, result)
            }
            (Self::MemberGone(name), Ok(())) => Stage::answer(Answer::Pool(name)),
            (Self::ForgetDevices { pool, name, forgotten, why }, result) => {
                devices::forgotten((pool, name), forgotten, why, result)
            }
            (Self::ResizeDevice(growing), Ok(())) => devices::resized(growing),
            (Self::BeginToLeave(leaving), Ok(())) => leaving.begin(),
            (Self::Leave(leaving), Ok(())) => leaving.leave(),
            (Self::Settled(pool), Ok(())) => {
                Stage::answer(Answer::Done).after([do_to_pool(PoolEffect::Settle(pool))])
            }
            (
                Self::Create(_)
                | Self::Copy(_)
                | Self::Forgotten
                | Self::MemberGone(_)
                | Self::ResizeDevice(_)
                | Self::BeginToLeave(_)
                | Self::Leave(_)
                | Self::Settled(_),
                Err(problem),
            ) => Stage::refuse(problem),
        }
    }
}

impl AfterChange {
    /// A pool has changed, or could not.
    pub fn changed(self, pool: PoolId, result: Result<(), Problem>, view: &impl View) -> Stage {
        match self {
            Self::Create(id) => volume_lifecycle::created(pool, id, result, view),
            Self::Copy(copied) => snapshots::copied(pool, copied, result, view),
            Self::Resize(sizing) => volume_lifecycle::resized(pool, sizing, result, view),
            Self::Revert(sizing) => snapshots::reverted(pool, sizing, result, view),
            Self::Delete(deleting) => volume_lifecycle::deleted(pool, deleting, result),
            Self::Rename(id) => match result {
                Ok(()) => Stage::answer(Answer::Either(pool, id)),
                Err(problem) => Stage::refuse(problem),
            },
            Self::CreatePool(new) => pools::formatted(pool, new, result),
            Self::GiveAwayPool(name) => pools::given_away(pool, name, result),
            Self::ClosePool(name) => pools::closed(pool, name, view),
            Self::Join(name) => devices::joined(pool, name, result, view),
            Self::JoinMirror(joining) => mirror_joining::joined(joining, result, view),
            Self::Extend(growing) => devices::extended(growing, result, view),
            Self::Admit(admitting) => members::admitted(pool, admitting, result, view),
            Self::Detach(lost) => members::detached(lost, result, view),
            Self::Resilver(name) => match result {
                Ok(()) => Stage::answer(Answer::Pool(name)),
                Err(problem) => Stage::refuse(problem),
            },
            Self::BeginToLeave(leaving) => departures::begun(leaving, result, view),
            Self::ControlDeparture(told) => departures::controlled(told, result),
            Self::Leave(leaving) => departures::left(leaving, result),
        }
    }

    /// The task that is shown of it, if it may take long.
    pub const fn task(&self) -> Option<TaskKind> {
        match self {
            Self::CreatePool(_) => Some(TaskKind::CreatePool),
            Self::GiveAwayPool(_) | Self::ClosePool(_) => Some(TaskKind::DeletePool),
            Self::Join(_) | Self::JoinMirror(_) => Some(TaskKind::AddDevice),
            Self::Extend(_) => Some(TaskKind::ExtendPool),
            Self::Create(_)
            | Self::Copy(_)
            | Self::Resize(_)
            | Self::Revert(_)
            | Self::Delete(_)
            | Self::Rename(_)
            | Self::Admit(_)
            | Self::Detach(_)
            | Self::Resilver(_)
            | Self::BeginToLeave(_)
            | Self::ControlDeparture(_)
            | Self::Leave(_) => None,
        }
    }

    /// Whether a pool is just being closed.
    pub const fn closes(&self) -> bool {
        matches!(self, Self::ClosePool(_))
    }

    /// The volume or snapshot that is just being deleted, if one is.
    pub const fn deletes(&self) -> Option<VolumeId> {
        match self {
            Self::Delete(deleting) => Some(deleting.id),
            Self::Create(_)
            | Self::Copy(_)
            | Self::Resize(_)
            | Self::Revert(_)
            | Self::Rename(_)
            | Self::CreatePool(_)
            | Self::GiveAwayPool(_)
            | Self::ClosePool(_)
            | Self::Join(_)
            | Self::JoinMirror(_)
            | Self::Extend(_)
            | Self::Admit(_)
            | Self::Detach(_)
            | Self::Resilver(_)
            | Self::BeginToLeave(_)
            | Self::ControlDeparture(_)
            | Self::Leave(_) => None,
        }
    }

    /// The volume that is just being given another size, if one is, and the size.
    pub const fn sizes(&self) -> Option<Sizing> {
        match self {
            Self::Resize(sizing) | Self::Revert(sizing) => Some(*sizing),
            Self::Create(_)
            | Self::Copy(_)
            | Self::Delete(_)
            | Self::Rename(_)
            | Self::CreatePool(_)
            | Self::GiveAwayPool(_)
            | Self::ClosePool(_)
            | Self::Join(_)
            | Self::JoinMirror(_)
            | Self::Extend(_)
            | Self::Admit(_)
            | Self::Detach(_)
            | Self::Resilver(_)
            | Self::BeginToLeave(_)
            | Self::ControlDeparture(_)
            | Self::Leave(_) => None,
        }
    }
}

/// Refuses what is asked of a volume or snapshot that is just being deleted.
///
/// # Errors
/// While it is.
pub fn check_stays(id: VolumeId, view: &impl View) -> Result<(), Problem> {
    if view.is_going(id) { Err(is_going_problem()) } else { Ok(()) }
}

/// Whether nobody keeps a volume or snapshot in any of these versions of the configuration: the one
/// in effect, and the one that is about to be saved.
///
/// # Errors
/// Who keeps it: a lock, or a LUN map.
pub fn check_deletable(
    id: VolumeId,
    now: u64,
    versions: [&Configuration; 2],
) -> Result<(), ArrayError> {
    for array in versions {
        array.check_unlocked(id, now)?;
        array.check_unmapped(id)?;
    }
    Ok(())
}

#[cfg(test)]
pub(crate) mod tests;
