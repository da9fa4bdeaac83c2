//! Pools: creation, deletion, closing at the end of the daemon.
//!
//! A pool is configured when its devices are formatted: a restart before that finds files in which
//! nothing was ever stored, and a pool that is not configured. It is forgotten when it is closed: a
//! restart before that opens it again, empty.

use api::{CreatePool, Problem, ProblemKind};
use array::{ArrayError, Configuration, Pool, PoolDevice, Tagged, Thresholds};
use block::{DeviceName, InvalidDeviceName};

use crate::Effect;
use crate::claims::Purpose;
use crate::devices::{AfterMaking, Made, Making};
use crate::problems::{conflict, problem, refused};
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
    /// The devices of a pool from one on, counted from 0, are closed; then these files are removed.
    CloseFrom(PoolId, usize, Vec<PoolDevice>),
    /// Hosts that find no space in a pool are told to try again from now on.
    Extending(PoolId),
    /// A device of a pool has grown, or could not.
    Extended(PoolId),
    /// A device has joined a pool, or could not.
    Joined(PoolId),
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
    /// A device has another size.
    ResizeDevice {
        /// The name of its pool.
        pool: String,
        /// Counted from 0.
        device: usize,
        /// Its size in bytes.
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
            Self::ResizeDevice { pool, device, size_bytes } => {
                let pool = array.pools.get_mut(pool);
                if let Some(device) = pool.and_then(|pool| pool.devices.get_mut(*device)) {
                    device.size_bytes = *size_bytes;
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
    let making = Making { devices, size_bytes: request.size_bytes };
    Ok(Stage::wait(Wait::Make(making, AfterMaking::Pool(name))).after([claimed]))
}

/// Reads the name of a device.
///
/// # Errors
/// When it is none.
pub fn parse_device(text: &str) -> Result<DeviceName, Problem> {
    text.parse().map_err(|error: InvalidDeviceName| refused(&error.into()))
}

/// The devices of a new pool are there.
pub(crate) fn devices_made(name: String, made: Made, view: &impl View) -> Stage {
    let Made { open, devices } = made;
    let uuids = devices.iter().map(|_| view.new_uuid()).collect::<Result<Vec<_>, _>>();
    match view.new_uuid().and_then(|uuid| Ok((uuid, uuids?))) {
        Ok((uuid, uuids)) => {
            let configuration = Pool {
                uuid,
                devices,
                thresholds: Thresholds::default(),
                delete_scheduled_snapshots: false,
                read_only: false,
            };
            let pool = NewPool { name, configuration };
            let then = AfterChange::CreatePool(pool.clone());
            Stage::wait(Wait::Format(Formatting { pool, open, uuids }, then))
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

/// Begins to delete a pool that holds nothing. One that cannot be opened is forgotten; whether it
/// holds volumes is unknown, and its devices are not touched.
///
/// # Errors
/// When there is none, it holds volumes or a locked snapshot, or something else goes on in it.
pub fn delete(name: &str, now: u64, view: &impl View) -> Result<Stage, Problem> {
    let [_, accepted] = view.versions();
    accepted.pool(name).map_err(|error| refused(&error))?;
    view.check_free(name)?;
    let claimed = do_to_pool(PoolEffect::Claim(name.to_owned(), Purpose::Delete));
    let Some(found) = view.pool(name) else {
        accepted.check_pool_unlocked(name, now).map_err(|error| refused(&error))?;
        return Ok(forget(name.to_owned()).after([claimed]));
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
    Ok(close(found.id, name.to_owned()).after([claimed]))
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
/// again, and is opened by the next start.
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
