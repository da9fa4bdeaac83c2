//! Devices of pools: one more joins, or one grows, or a mirror with all its members.
//!
//! A device is configured before it joins: a restart in between finds one that the pool does not need
//! yet, and lets it join, or forgets it if it cannot be opened ([`settle`]). A device that has grown is
//! configured so after the pool has taken what is new.

use api::{AddDevice, Problem, ProblemKind, ResizePool, Severity};
use array::PoolDevice;
use block::{BLOCK, DeviceName};
use notation::format_size;
use store::MemberState;

use crate::Effect;
use crate::claims::Purpose;
use crate::departures;
use crate::members::{self, LostMember, NewMember};
use crate::mirror_joining;
use crate::pools::{Change, PoolEffect, devices_made, do_to_pool, parse_device, save};
use crate::problems::{bad_request, conflict, gone, problem, refused};
use crate::procedures::{
    AfterChange, AfterSave, Answer, JoinedDevice, OpenDevices, PoolId, Stage, View, Wait,
};

/// Devices to be made by another thread, all or none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Making {
    /// Their names.
    pub devices: Vec<DeviceName>,
    /// The size of each, in bytes; `None` for the size that a block device has.
    pub size_bytes: Option<u64>,
    /// Whether they are there already.
    pub origin: Origin,
}

/// Where devices come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// They are made.
    New,
    /// A small one is made, for a witness.
    NewWitness,
    /// They are there, and opened.
    There,
}

/// Devices that were made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Made {
    /// The server's name for the open devices.
    pub open: OpenDevices,
    /// What will be configured.
    pub devices: Vec<PoolDevice>,
}

/// Goes on when devices were made, or could not be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AfterMaking {
    /// A pool is made of them.
    Pool {
        /// Its name.
        name: String,
        /// How many of them hold the same blocks, 1 to 3.
        copies: u8,
    },
    /// It joins a pool.
    Device {
        /// The pool.
        pool: PoolId,
        /// Its name.
        name: String,
    },
    /// They join a pool as a mirror.
    Mirror {
        /// The pool.
        pool: PoolId,
        /// Its name.
        name: String,
    },
    /// It joins a mirror.
    Member(NewMember),
    /// It may be a member that was lost.
    Return(LostMember),
    /// They are spares of the pool of that name, with those that it has.
    Spares {
        /// The pool.
        name: String,
        /// Spares that stay.
        kept: Vec<PoolDevice>,
    },
}

impl AfterMaking {
    /// Devices were made, or none was.
    pub fn made(self, result: Result<Made, Problem>, view: &impl View) -> Stage {
        match (self, result) {
            (Self::Return(lost), made) => members::reopened(lost, made),
            (
                Self::Pool { .. }
                | Self::Device { .. }
                | Self::Mirror { .. }
                | Self::Member(_)
                | Self::Spares { .. },
                Err(problem),
            ) => Stage::refuse(problem),
            (Self::Mirror { pool, name }, Ok(made)) => mirror_joining::made(pool, name, made, view),
            (Self::Member(new), Ok(made)) => members::made(new, made, view),
            (Self::Spares { name, kept }, Ok(made)) => members::spares_made(name, kept, made),
            (Self::Pool { name, copies }, Ok(made)) => devices_made(name, copies, made, view),
            (Self::Device { pool, name }, Ok(made)) => device_made(pool, name, made, view),
        }
    }
}

/// A device that is to join a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Joining {
    /// The pool.
    pub pool: PoolId,
    /// The device; `None` if the pool has it open already, as its last one.
    pub open: Option<OpenDevices>,
    /// Its identifier.
    pub uuid: [u8; 16],
}

/// A device that is to grow, by another thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Growing {
    /// Its pool.
    pub pool: PoolId,
    /// The name of that.
    pub name: String,
    /// Counted from 0, a mirror as one.
    pub device: usize,
    /// Its size to be, in bytes, and that of each member of a mirror at least.
    pub size_bytes: u64,
}

/// Begins to make a device, or those of a mirror, and to let it join a pool.
///
/// # Errors
/// When the pool takes no changes or something else goes on in it, or the device is none or taken.
pub fn add(name: &str, request: &AddDevice, view: &impl View) -> Result<Stage, Problem> {
    let pool = view.ready(name)?;
    let found = view.pool(name).ok_or_else(gone)?;
    if !request.mirrored_by.is_empty() {
        return mirror_joining::add((pool, name), request, view);
    }
    if found.has_mirrors {
        return Err(alone(&request.device));
    }
    if found.is_joining || found.open_devices != found.joined.len() {
        return Err(conflict(&"another device is just joining this pool: wait until it has"));
    }
    let device = parse_device(&request.device)?;
    let [_, accepted] = view.versions();
    accepted.check_new_device(name, &device).map_err(|error| refused(&error))?;
    view.check_free(name)?;
    let claimed = do_to_pool(PoolEffect::Claim(name.to_owned(), Purpose::AddDevice));
    let (size_bytes, origin) = (request.size_bytes, Origin::New);
    let making = Making { devices: vec![device], size_bytes, origin };
    let then = AfterMaking::Device { pool, name: name.to_owned() };
    Ok(Stage::wait(Wait::Make(making, then)).after([claimed]))
}

fn device_made(pool: PoolId, name: String, made: Made, view: &impl View) -> Stage {
    let Made { open, devices } = made;
    match (view.new_uuid(), devices.first().cloned()) {
        (Ok(uuid), Some(device)) => {
            let joining = Joining { pool, open: Some(open), uuid };
            let then = AfterSave::AddDevice { name: name.clone(), joining, devices };
            save(Change::AddDevice(name, device), then)
        }
        (Ok(_), None) => Stage::refuse(gone()),
        (Err(problem), _) => {
            Stage::refuse(problem).after([do_to_pool(PoolEffect::Discard(open, devices))])
        }
    }
}

/// A device is configured, or could not be.
pub(crate) fn configured(
    name: String,
    joining: Joining,
    devices: Vec<PoolDevice>,
    result: Result<(), Problem>,
) -> Stage {
    match result {
        Ok(()) => Stage::wait(Wait::Join(joining, AfterChange::Join(name))),
        Err(problem) => {
            let left = joining.open.map(|open| do_to_pool(PoolEffect::Discard(open, devices)));
            Stage::refuse(problem).after(left)
        }
    }
}

/// A device has joined, or could not.
pub(crate) fn joined(
    pool: PoolId,
    name: String,
    result: Result<(), Problem>,
    view: &impl View,
) -> Stage {
    let ended = do_to_pool(PoolEffect::Joined(pool));
    let count = view.pool(&name).filter(|found| found.id == pool).map(|found| found.joined.len());
    let next = match (result, count) {
        (Ok(()), Some(count)) => {
            let last = configured_from(&name, count.saturating_sub(1), view).pop();
            let device = last.map_or_else(|| "a device".to_owned(), |one| one.device.to_string());
            let message = format!("{device} has joined");
            let told = Effect::note(Severity::Information, format!("pool {name}"), message);
            Stage::answer(Answer::Pool(name)).after([told])
        }
        (Ok(()), None) => Stage::refuse(gone()),
        // A pool that failed meanwhile may have recorded the device or not: it stays.
        (Err(problem), Some(count)) if view.serves(pool) => {
            let forgotten = configured_from(&name, count, view);
            let then = AfterSave::ForgetDevices {
                pool,
                name: name.clone(),
                forgotten,
                why: Some(problem),
            };
            save(Change::KeepDevices(name, count), then)
        }
        (Err(problem), _) => Stage::refuse(problem),
    };
    next.after([ended])
}

/// The devices of a pool from one on, as they are configured.
fn configured_from(name: &str, count: usize, view: &impl View) -> Vec<PoolDevice> {
    let [_, accepted] = view.versions();
    let pool = accepted.pools.get(name);
    pool.map_or_else(Vec::new, |pool| pool.devices.iter().skip(count).cloned().collect())
}

/// Devices that have not joined are configured no more, or could not be forgotten. `why` is the
/// reason why they could not join, if they were to.
pub(crate) fn forgotten(
    (pool, name): (PoolId, String),
    forgotten: Vec<PoolDevice>,
    why: Option<Problem>,
    result: Result<(), Problem>,
) -> Stage {
    let names: Vec<DeviceName> = forgotten.iter().map(|device| device.device.clone()).collect();
    let closed = do_to_pool(PoolEffect::CloseUnused(pool, names));
    if let Err(problem) = result {
        return Stage::refuse(problem).after(why.map(|_| closed));
    }
    let told: Vec<Effect> = forgotten
        .iter()
        .map(|device| {
            let message = format!("{} has not joined and is forgotten", device.device);
            Effect::note(Severity::Warning, format!("pool {name}"), message)
        })
        .collect();
    match why {
        // A file that could not be opened is left as it is.
        None => Stage::answer(Answer::Done).after(told),
        Some(why) => {
            let removed = do_to_pool(PoolEffect::RemoveFiles(forgotten));
            Stage::refuse(why).after(told.into_iter().chain([closed, removed]))
        }
    }
}

/// What is to be done about devices that were configured, but had not joined when the daemon
/// stopped: the first one joins if it could be opened, others are forgotten.
///
/// # Errors
/// When the system gives no random numbers.
pub fn settle(name: &str, view: &impl View) -> Result<Vec<Stage>, Problem> {
    if let Some(stage) = departures::settle(name, view) {
        return Ok(vec![stage]);
    }
    if let Some(stages) = mirror_joining::settle(name, view)? {
        return Ok(stages);
    }
    let found = view.pool(name).filter(|found| !found.has_mirrors);
    let Some(found) = found else { return Ok(Vec::new()) };
    let (pool, joined) = (found.id, found.joined.len());
    let joins = found.open_devices > joined && view.serves(pool);
    let count = joined + usize::from(joins);
    let forgotten = configured_from(name, count, view);
    let mut stages = Vec::new();
    if !forgotten.is_empty() {
        let names = forgotten.iter().map(|device| device.device.clone()).collect();
        let closed = do_to_pool(PoolEffect::CloseUnused(pool, names));
        let (change, name) = (Change::KeepDevices(name.to_owned(), count), name.to_owned());
        let then = AfterSave::ForgetDevices { pool, name, forgotten, why: None };
        stages.push(save(change, then).after([closed]));
    }
    if joins {
        let joining = Joining { pool, open: None, uuid: view.new_uuid()? };
        stages.push(Stage::wait(Wait::Join(joining, AfterChange::Join(name.to_owned()))));
    }
    Ok(stages)
}

/// Begins to make a device larger. From the first step on, hosts that find no space are told to try
/// again.
///
/// # Errors
/// When the pool takes no changes or something else goes on in it, or the size is none.
pub fn extend(name: &str, request: &ResizePool, view: &impl View) -> Result<Stage, Problem> {
    let pool = view.ready(name)?;
    let found = view.pool(name).ok_or_else(gone)?;
    let JoinedDevice { number: device, size_bytes: current } =
        chosen_device(request.device, &found.joined)?;
    let size_bytes = request.size_bytes;
    if size_bytes <= current || !size_bytes.is_multiple_of(BLOCK) {
        return Err(bad_request(&format!(
            "the device has {} and only grows: choose a multiple of 4096 bytes above {current}",
            format_size(current)
        )));
    }
    check_members(pool, name, device, view)?;
    view.check_free(name)?;
    let growing = Growing { pool, name: name.to_owned(), device, size_bytes };
    let begun = [PoolEffect::Claim(name.to_owned(), Purpose::Extend), PoolEffect::Extending(pool)];
    Ok(Stage::wait(Wait::Grow(growing)).after(begun.map(do_to_pool)))
}

fn alone(device: &str) -> Problem {
    conflict(&format!(
        "the pool has mirrors, and {device} alone would hold blocks that are lost with it: name 2 or 3 \
         devices at once, which join as one mirror"
    ))
}

/// A member that is away would be too small when it comes back.
fn check_members(pool: PoolId, name: &str, device: usize, view: &impl View) -> Result<(), Problem> {
    let mirrors = view.mirrors(pool);
    let mirror = mirrors.iter().find(|mirror| usize::from(mirror.device) == device);
    let members = mirror.map(|mirror| mirror.members.as_slice()).unwrap_or_default();
    let Some(away) = members.iter().find(|member| member.state == MemberState::Absent) else {
        return Ok(());
    };
    let [_, accepted] = view.versions();
    let place = accepted.pools.get(name).and_then(|pool| pool.mirroring.place_of(away.uuid));
    let member = place.map_or_else(|| members::hex(away.uuid), ToString::to_string);
    Err(conflict(&format!(
        "{member} of mirror {device} is absent, and would be too small when it is there again: bring \
         it back, replace it or detach it first"
    )))
}

fn chosen_device(wanted: Option<usize>, joined: &[JoinedDevice]) -> Result<JoinedDevice, Problem> {
    let chosen = match (wanted, joined) {
        (None, [only]) => Some(*only),
        (None, _) => None,
        (Some(number), _) => joined.iter().copied().find(|device| device.number == number),
    };
    let count = joined.len();
    chosen.ok_or_else(|| {
        let detail =
            format!("the pool has {count} device(s): say which one is to grow, by its number");
        problem(ProblemKind::DeviceAmbiguous, &detail).with("devices", count)
    })
}

impl Growing {
    /// The device has grown, or could not: the pool takes what is new.
    pub fn grown(self, result: Result<(), Problem>) -> Stage {
        let device = u8::try_from(self.device).map_err(|error| bad_request(&error));
        match result.and(device) {
            Ok(device) => {
                let change = store::Change::ExtendDevice { device, size_bytes: self.size_bytes };
                Stage::change(self.pool, change, AfterChange::Extend(self))
            }
            Err(problem) => {
                Stage::refuse(problem).after([do_to_pool(PoolEffect::Extended(self.pool))])
            }
        }
    }
}

/// The pool has taken what is new, or could not.
pub(crate) fn extended(growing: Growing, result: Result<(), Problem>, view: &impl View) -> Stage {
    let ended = do_to_pool(PoolEffect::Extended(growing.pool));
    let next = match result {
        Ok(()) => {
            let Growing { pool, name, device, size_bytes } = growing.clone();
            let places = view.places_of(pool, device);
            let change = Change::ResizeDevices { pool: name, places, size_bytes };
            save(change, AfterSave::ResizeDevice(growing))
        }
        Err(problem) => Stage::refuse(problem),
    };
    next.after([ended])
}

/// A device's size is configured.
pub(crate) fn resized(Growing { name, device, size_bytes, .. }: Growing) -> Stage {
    let message = format!("device {device} has {} now", format_size(size_bytes));
    let told = Effect::note(Severity::Information, format!("pool {name}"), message);
    Stage::answer(Answer::Pool(name)).after([told])
}

#[cfg(test)]
mod tests;
