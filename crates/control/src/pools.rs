//! Pools: creation, deletion, closing at the end of the daemon.
//!
//! A pool is configured when its devices are formatted: a restart before that finds files in which
//! nothing was ever stored, and a pool that is not configured. It is forgotten when it is closed: a
//! restart before that opens it again, empty.

use std::collections::BTreeSet;

use api::{CreatePool, Problem, ProblemKind};
use array::{
    ArrayError, Configuration, Departure, KnownMember, Mirroring, Pool, PoolDevice, Run, Tagged,
    Thresholds,
};
use block::{DeviceName, InvalidDeviceName, VolumeId};

use crate::Effect;
use crate::claims::Purpose;
use crate::departures;
use crate::devices::{AfterMaking, Made, Making, Origin};
use crate::members;
use crate::problems::{bad_request, conflict, problem, refused};
use crate::procedures::{
    self, AfterChange, AfterSave, Answer, OpenDevices, PoolId, Stage, View, Wait,
};

/// Something to be done about a pool or its devices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PoolEffect {
    /// Nobody else changes the pool of that name until whoever asked is answered.
    Claim(String, Purpose),
    /// The file systems under a pool are looked at.
    LookBelow(PoolId),
    /// A pool is served no more and closed.
    Close(PoolId),
    /// A pool that was not configured is closed, and the files of its devices are removed.
    GiveUp(PoolId, Vec<PoolDevice>),
    /// New devices are closed, and their files are removed.
    Discard(OpenDevices, Vec<PoolDevice>),
    /// Those of the open devices of a pool that have one of these names and are in no use are closed, as
    /// soon as nothing of them is under way.
    CloseUnused(PoolId, Vec<DeviceName>),
    /// These files, in which nothing was ever stored, are removed.
    RemoveFiles(Vec<PoolDevice>),
    /// Hosts that find no space in a pool are told to try again from now on.
    Extending(PoolId),
    /// A device of a pool has grown, or could not.
    Extended(PoolId),
    /// A device has joined a pool, or could not.
    Joined(PoolId),
    /// The device of that name is closed as soon as nothing of it is under way.
    Dismiss(PoolId, DeviceName),
    /// A try to take a member back has ended; whether it is a member again.
    ReturnEnded([u8; 16], bool),
    /// What is on a device that leaves a pool moves at so many bytes per second at most; `None` for the
    /// rate of resilvers.
    DepartureRate(PoolId, Option<u64>),
    /// A mirror has left its pool: nothing of it is to be known any more.
    MirrorGone([u8; 16]),
    /// It is looked again which of a pool's configured devices have joined it.
    Settle(PoolId),
    /// A pool is configured, but closed; and why.
    Unavailable(String, String),
    /// A pool is configured no more.
    Forgotten(String),
}

/// A change of what the configuration knows of pools.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// A new pool, by name.
    Add(String, Pool),
    /// A pool goes, with its tags.
    Remove(String),
    /// A device is about to join the pool of that name.
    AddDevice(String, PoolDevice),
    /// So many devices of the pool of that name stay; further ones have not joined.
    KeepDevices(String, usize),
    /// A device is about to join a mirror of a pool.
    AddMember {
        /// The name of the pool.
        pool: String,
        /// Where it is.
        device: PoolDevice,
        /// The member that it will be.
        uuid: [u8; 16],
        /// The member that leaves when it is current.
        replaces: Option<[u8; 16]>,
        /// Whether it is a witness.
        is_witness: bool,
    },
    /// A member has left the mirrors of the pool of that name, or never joined.
    RemoveMember(String, [u8; 16]),
    /// The spares of the pool of that name.
    SetSpares(String, Vec<PoolDevice>),
    /// The members of the pool's mirrors are there.
    KnowMembers(String, Vec<KnownMember>),
    /// Devices are about to join a pool as a mirror.
    AddMirror {
        /// The name of the pool.
        pool: String,
        /// Where they are.
        devices: Vec<PoolDevice>,
        /// The members that they will be, in the same order.
        members: Vec<KnownMember>,
    },
    /// The devices that were to join the pool of that name as a mirror have not.
    ForgetMirror(String),
    /// Devices of the pool of that name are about to leave it.
    BeginDeparture(String, Departure),
    /// What leaves the pool of that name moves at so many bytes per second at most.
    SetDepartureRate(String, u64),
    /// No device of the pool of that name leaves.
    EndDeparture(String),
    /// The devices of the pool of that name that were to leave it have left.
    ForgetDeparted(String),
    /// Devices have another size: one, or the members of a mirror.
    ResizeDevices {
        /// The name of their pool.
        pool: String,
        /// Their places among the pool's devices.
        places: Vec<usize>,
        /// The size of each in bytes, if it is not larger already.
        size_bytes: u64,
    },
}

impl Change {
    /// Makes the change. A pool that is not there any more stays so.
    pub fn apply(&self, array: &mut Configuration) {
        match self {
            Self::Add(name, pool) => drop(array.pools.insert(name.clone(), pool.clone())),
            Self::Remove(name) => {
                array.pools.remove(name);
                array.imported_from.remove(name);
                array.forget_tags(Tagged::Pool(name));
            }
            Self::AddDevice(name, device) => {
                let pool = array.pools.get_mut(name);
                pool.into_iter().for_each(|pool| pool.devices.push(device.clone()));
            }
            Self::KeepDevices(name, count) => {
                let pool = array.pools.get_mut(name);
                pool.into_iter().for_each(|pool| pool.devices.truncate(*count));
            }
            Self::AddMember { .. }
            | Self::RemoveMember(..)
            | Self::SetSpares(..)
            | Self::AddMirror { .. }
            | Self::ForgetMirror(_)
            | Self::KnowMembers(..) => members::apply(self, array),
            Self::BeginDeparture(..)
            | Self::SetDepartureRate(..)
            | Self::EndDeparture(_)
            | Self::ForgetDeparted(_) => departures::apply(self, array),
            Self::ResizeDevices { pool, places, size_bytes } => {
                let Some(pool) = array.pools.get_mut(pool) else { return };
                for &place in places {
                    let device = pool.devices.get_mut(place);
                    device.into_iter().for_each(|device| {
                        device.size_bytes = device.size_bytes.max(*size_bytes);
                    });
                }
            }
        }
    }
}

/// A pool that is being made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewPool {
    /// Its name.
    pub name: String,
    /// What will be configured.
    pub configuration: Pool,
}

/// New devices that are to be formatted as a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Formatting {
    /// The pool to be.
    pub pool: NewPool,
    /// Its devices.
    pub open: OpenDevices,
    /// An identifier for each.
    pub uuids: Vec<[u8; 16]>,
    /// An identifier for each mirror that is made of them, in order; none for plain devices.
    pub mirrors: Vec<[u8; 16]>,
}

pub(crate) fn do_to_pool(effect: PoolEffect) -> Effect {
    Effect::Pool(effect)
}

pub(crate) fn save(change: Change, then: AfterSave) -> Stage {
    Stage::save(procedures::Change::Pool(change), then)
}

/// Begins to create a pool: devices first.
///
/// # Errors
/// When its name or a device is none or taken, or somebody else makes a pool of that name.
pub fn create(request: &CreatePool, view: &impl View) -> Result<Stage, Problem> {
    let devices = request.devices.iter().map(|device| parse_device(device));
    let devices = devices.collect::<Result<Vec<_>, _>>()?;
    let copies = copies(request.mirror, devices.len())?;
    if devices.is_empty() {
        let detail = &"a pool has at least one device: name it";
        return Err(problem(ProblemKind::DeviceMissing, detail));
    }
    let name = request.name.clone();
    let [_, accepted] = view.versions();
    accepted.check_new_pool(&name, &devices).map_err(|error| refused(&error))?;
    view.check_free(&name)?;
    if view.pool(&name).is_some() {
        return Err(conflict(&"a pool of this name is just being closed: try again"));
    }
    let claimed = do_to_pool(PoolEffect::Claim(name.clone(), Purpose::Create));
    let making = Making { devices, size_bytes: request.size_bytes, origin: Origin::New };
    let then = AfterMaking::Pool { name, copies };
    Ok(Stage::wait(Wait::Make(making, then)).after([claimed]))
}

/// How many devices hold the same blocks.
fn copies(wanted: Option<u8>, devices: usize) -> Result<u8, Problem> {
    match wanted {
        None | Some(1) => Ok(1),
        Some(copies @ 2..=3) if devices.is_multiple_of(copies.into()) => Ok(copies),
        Some(copies @ 2..=3) => Err(bad_request(&format!(
            "{devices} device(s) cannot be divided into mirrors of {copies}: name {copies}, or a multiple"
        ))),
        Some(_) => Err(bad_request(&"a mirror has 2 or 3 devices")),
    }
}

/// Reads the name of a device.
///
/// # Errors
/// When it is none.
pub fn parse_device(text: &str) -> Result<DeviceName, Problem> {
    text.parse().map_err(|error: InvalidDeviceName| refused(&error.into()))
}

/// The devices of a new pool are there.
pub(crate) fn devices_made(name: String, copies: u8, made: Made, view: &impl View) -> Stage {
    let Made { open, devices } = made;
    let uuids = devices.iter().map(|_| view.new_uuid()).collect::<Result<Vec<_>, _>>();
    let mirrors = devices.chunks(copies.into()).filter(|_| copies > 1).map(|_| view.new_uuid());
    let mirrors = mirrors.collect::<Result<Vec<_>, _>>();
    match view.new_uuid().and_then(|uuid| Ok((uuid, uuids?, mirrors?))) {
        Ok((uuid, uuids, mirrors)) => {
            let known = uuids.iter().zip(&devices).filter(|_| copies > 1);
            let known = known.map(|(&uuid, device)| KnownMember {
                uuid,
                device: device.device.clone(),
                replaces: None,
                is_witness: false,
            });
            let mirroring = Mirroring { members: known.collect(), ..Mirroring::default() };
            let configuration = Pool {
                uuid,
                devices,
                thresholds: Thresholds::default(),
                delete_scheduled_snapshots: false,
                read_only: false,
                mirroring,
                departure: None,
                fail_back: array::FailBack::default(),
            };
            let pool = NewPool { name, configuration };
            let then = AfterChange::CreatePool(pool.clone());
            Stage::wait(Wait::Format(Formatting { pool, open, uuids, mirrors }, then))
        }
        Err(problem) => {
            Stage::refuse(problem).after([do_to_pool(PoolEffect::Discard(open, devices))])
        }
    }
}

/// A pool is formatted, or could not be.
pub(crate) fn formatted(pool: PoolId, new: NewPool, result: Result<(), Problem>) -> Stage {
    let NewPool { name, configuration } = new;
    let devices = configuration.devices.clone();
    match result {
        Ok(()) => {
            let then = AfterSave::AddPool { pool, name: name.clone(), devices };
            let looked = do_to_pool(PoolEffect::LookBelow(pool));
            save(Change::Add(name, configuration), then).after([looked])
        }
        Err(problem) => give_up(pool, devices, problem),
    }
}

/// A pool is configured, or could not be.
pub(crate) fn added(
    pool: PoolId,
    name: String,
    devices: Vec<PoolDevice>,
    result: Result<(), Problem>,
) -> Stage {
    match result {
        Ok(()) => Stage::answer(Answer::Pool(name)),
        Err(problem) => give_up(pool, devices, problem),
    }
}

fn give_up(pool: PoolId, devices: Vec<PoolDevice>, why: Problem) -> Stage {
    Stage::refuse(why).after([do_to_pool(PoolEffect::GiveUp(pool, devices))])
}

/// Whether a pool that is not open may be deleted, although what it holds cannot be looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unopened {
    /// It is said what would be forgotten.
    Refused,
    /// It is forgotten.
    Forgotten,
}

/// Begins to delete a pool that holds nothing. One that is not open is forgotten if that is wanted:
/// whether it holds volumes is unknown, and its devices are not touched.
///
/// # Errors
/// When there is none, it holds volumes or a locked snapshot, it is not open and that is not said, or
/// something else goes on in it.
pub fn delete(
    name: &str,
    unopened: Unopened,
    now: u64,
    view: &impl View,
) -> Result<Stage, Problem> {
    let [_, accepted] = view.versions();
    accepted.pool(name).map_err(|error| refused(&error))?;
    view.check_free(name)?;
    let claimed = do_to_pool(PoolEffect::Claim(name.to_owned(), Purpose::Delete));
    let found = view.pool(name);
    let Some(found) = found.as_ref().filter(|found| !found.is_opening) else {
        accepted.check_pool_unlocked(name, now).map_err(|error| refused(&error))?;
        if unopened == Unopened::Refused {
            return Err(Forgetting::new(name, view).problem(name));
        }
        let closed = found.map(|opening| do_to_pool(PoolEffect::Close(opening.id)));
        return Ok(forget(name.to_owned()).after([claimed].into_iter().chain(closed)));
    };
    if view.is_unavailable(name) {
        return Err(conflict(&format!(
            "pool '{name}' has become unavailable while hosts used it: resume it first, or restart \
             the daemon"
        )));
    }
    if found.is_changing {
        return Err(conflict(&format!(
            "pool '{name}' is just changing volumes or devices: wait until that has ended"
        )));
    }
    if found.volumes > 0 {
        let (pool, volumes) = (name.to_owned(), found.volumes);
        return Err(refused(&ArrayError::PoolNotEmpty { pool, volumes }));
    }
    let wait = Wait::GiveAway(found.id, AfterChange::GiveAwayPool(name.to_owned()));
    Ok(Stage::wait(wait).after([claimed]))
}

/// What the configuration knows of a pool that is not open, as far as it can be told from other
/// pools that are not open either.
struct Forgetting {
    volumes: usize,
    luns: usize,
    snapshots: usize,
    schedules: usize,
}

impl Forgetting {
    fn new(name: &str, view: &impl View) -> Self {
        let [_, accepted] = view.versions();
        let of_pool = accepted.schedules.values().filter(|record| record.schedule.pool == name);
        let of_pool: Vec<_> = of_pool.collect();
        let scheduled = of_pool.iter().flat_map(|record| record.runs()).flat_map(Run::snapshots);
        let locked = accepted.locked_in(name);
        let snapshots: BTreeSet<VolumeId> = scheduled.chain(locked).collect();
        let unheld = accepted.mapped_volumes().filter(|&id| !view.is_held(id));
        let volumes: BTreeSet<VolumeId> = unheld.filter(|id| !snapshots.contains(id)).collect();
        Self {
            luns: volumes.iter().map(|&id| accepted.maps_of(id).count()).sum(),
            volumes: volumes.len(),
            snapshots: snapshots.len(),
            schedules: of_pool.len(),
        }
    }

    fn problem(&self, name: &str) -> Problem {
        let Self { volumes, luns, snapshots, schedules } = *self;
        let detail = format!(
            "pool '{name}' is not open, so that nobody knows all it holds. To delete it means to \
             forget it: hosts lose up to {luns} LUN(s) of {volumes} volume(s) for good, and {snapshots} \
             scheduled or locked snapshot(s) and {schedules} schedule(s) are of no use any more; its \
             devices are not touched. If that is wanted, ask for it with force=true; otherwise it \
             opens by itself when its devices come"
        );
        let told = problem(ProblemKind::PoolNotOpen, &detail).with("pool", name);
        let told = told.with("volumes", volumes).with("luns", luns);
        told.with("snapshots", snapshots).with("schedules", schedules)
    }
}

/// Other controllers have forgotten a pool that is to be deleted, or it could not be told to them.
pub(crate) fn given_away(pool: PoolId, name: String, result: Result<(), Problem>) -> Stage {
    match result {
        Ok(()) => close(pool, name),
        Err(problem) => Stage::refuse(problem),
    }
}

/// Begins to close a pool. It stays configured if the daemon is stopping when it is closed.
pub fn close(pool: PoolId, name: String) -> Stage {
    Stage::change(pool, store::Change::Close, AfterChange::ClosePool(name))
}

/// A pool is closed, cleanly or not.
pub(crate) fn closed(pool: PoolId, name: String, view: &impl View) -> Stage {
    let closed = do_to_pool(PoolEffect::Close(pool));
    let next = if view.is_stopping() { Stage::answer(Answer::Done) } else { forget(name) };
    next.after([closed])
}

fn forget(name: String) -> Stage {
    save(Change::Remove(name.clone()), AfterSave::RemovePool(name))
}

/// A pool that was closed and stays configured, as the configuration cannot be saved, can be deleted
/// again, and is opened again by itself.
pub(crate) fn forgotten(name: String, result: Result<(), Problem>) -> Stage {
    match result {
        Ok(()) => Stage::answer(Answer::Done).after([do_to_pool(PoolEffect::Forgotten(name))]),
        Err(problem) => {
            let reason = format!("it was closed to be deleted, but {}", problem.detail);
            let closed = do_to_pool(PoolEffect::Unavailable(name, reason));
            Stage::refuse(problem).after([closed])
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
