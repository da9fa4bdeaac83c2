//! Devices that leave pools as state machines: one begins to leave, what is on it moves to the others, and
//! when it is empty the pool forgets it. A mirror leaves with all of its members.
//!
//! That a device leaves is configured before the pool knows it, and forgotten when the pool knows the device
//! no more. So a restart in between finds a device that the pool does not need, and which is not taken for
//! one that is to join ([`settle`]).

use api::{ControlDeparture, DepartureAction, Problem, ProblemKind, RemoveDevice, Severity};
use array::{Configuration, Departure, PoolDevice};
use block::DeviceName;
use store::{ChangeError, EvacuationChange, Failure};

use crate::Effect;
use crate::claims::Purpose;
use crate::limits::DEPARTURE_RATE_MIN;
use crate::pools::{Change, PoolEffect, do_to_pool, save};
use crate::problems::{bad_request, conflict, failed, gone, problem, refused};
use crate::procedures::{AfterChange, AfterSave, Answer, PoolId, Stage, View};

/// A device, or a mirror, that leaves a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leaving {
    /// The pool.
    pub pool: PoolId,
    /// Its name.
    pub name: String,
    /// The number of the device.
    pub device: u8,
    /// Its identifier.
    pub uuid: [u8; 16],
    /// Where it is.
    pub departure: Departure,
}

/// What the pool of a leaving device was told about that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// The pool.
    pub pool: PoolId,
    /// Its name.
    pub name: String,
    /// The number of the device.
    pub device: usize,
    /// What is done.
    pub action: DepartureAction,
    /// Another limit, bytes per second.
    pub rate_bytes: Option<u64>,
}

/// Begins to take a device out of a pool.
///
/// # Errors
/// When there is no such device, one leaves already, something else goes on in the pool, or the rate is
/// none.
pub fn remove(
    name: &str,
    device: &str,
    request: &RemoveDevice,
    view: &impl View,
) -> Result<Stage, Problem> {
    let pool = view.ready(name)?;
    check_rate(request.rate_bytes)?;
    let number = device.parse().map_err(|_| no_device(device))?;
    if number == 0 {
        return Err(failed(&Failure::Change(ChangeError::FirstDevice)));
    }
    let leaving = find((pool, name), number, request.rate_bytes, view)?;
    let found = view.pool(name).ok_or_else(gone)?;
    let [_, accepted] = view.versions();
    let is_known = accepted.pools.get(name).is_some_and(|pool| pool.departure.is_some());
    if is_known || found.leaving.is_some() {
        return Err(conflict(
            &"a device of the pool is leaving already: wait for it, or cancel that",
        ));
    }
    view.check_free(name)?;
    let claimed = do_to_pool(PoolEffect::Claim(name.to_owned(), Purpose::RemoveDevice));
    let change = Change::BeginDeparture(name.to_owned(), leaving.departure.clone());
    Ok(save(change, AfterSave::BeginToLeave(leaving)).after([claimed]))
}

fn no_device(device: &str) -> Problem {
    let detail =
        format!("the pool has no device {device}: see 'gantry pool show' for their numbers");
    problem(ProblemKind::NotFound, &detail).with("object", "device").with("name", device)
}

fn check_rate(rate_bytes: Option<u64>) -> Result<(), Problem> {
    if rate_bytes.is_some_and(|rate| rate < DEPARTURE_RATE_MIN) {
        return Err(bad_request(&"at least 1 MiB per second is moved: choose more"));
    }
    Ok(())
}

/// A device of a pool by its number, and where it and the other members of its mirror are.
fn find(
    (pool, name): (PoolId, &str),
    number: usize,
    rate_bytes: Option<u64>,
    view: &impl View,
) -> Result<Leaving, Problem> {
    let mirrors = view.mirrors(pool);
    let status = mirrors.iter().find(|status| usize::from(status.device) == number);
    let status = status.ok_or_else(|| no_device(&number.to_string()))?;
    let [_, accepted] = view.versions();
    let configured = accepted.pool(name).map_err(|error| refused(&error))?;
    let mut places = view.places_of(pool, number);
    let known = status.members.iter().filter_map(|one| configured.mirroring.place_of(one.uuid));
    for device in known {
        let place = configured.devices.iter().position(|other| other.device == *device);
        places.extend(place.filter(|place| !places.contains(place)));
    }
    let devices = places.iter().filter_map(|&place| configured.devices.get(place)).cloned();
    let departure = Departure { devices: devices.collect(), rate_bytes };
    let (device, uuid) = (status.device, status.uuid);
    Ok(Leaving { pool, name: name.to_owned(), device, uuid, departure })
}

impl Leaving {
    fn names(&self) -> Vec<DeviceName> {
        self.departure.devices.iter().map(|one| one.device.clone()).collect()
    }

    fn text(&self) -> String {
        let names: Vec<String> = self.names().iter().map(ToString::to_string).collect();
        format!("device {} ({})", self.device, names.join(", "))
    }

    fn note(&self, message: String) -> Effect {
        Effect::note(Severity::Information, format!("pool {}", self.name), message)
    }

    /// It is configured as one that leaves: the pool is told.
    pub(crate) fn begin(self) -> Stage {
        let change = store::Change::EvacuateDevice { device: self.device };
        Stage::change(self.pool, change, AfterChange::BeginToLeave(self))
    }

    /// It is empty, and configured as one that leaves: the pool forgets it.
    pub(crate) fn leave(self) -> Stage {
        let change = store::Change::RemoveDevice { device: self.device };
        Stage::change(self.pool, change, AfterChange::Leave(self))
    }
}

/// A device has begun to leave, or cannot.
pub(crate) fn begun(leaving: Leaving, result: Result<(), Problem>, view: &impl View) -> Stage {
    match result {
        Ok(()) => {
            let rate = PoolEffect::DepartureRate(leaving.pool, leaving.departure.rate_bytes);
            let message =
                format!("{} begins to leave: what is on it moves to the others", leaving.text());
            let told = leaving.note(message);
            Stage::answer(Answer::Pool(leaving.name)).after([do_to_pool(rate), told])
        }
        // A pool that failed meanwhile may have recorded it or not: that is seen when it is opened.
        Err(problem) if view.serves(leaving.pool) => {
            save(Change::EndDeparture(leaving.name), AfterSave::Undone(problem))
        }
        Err(problem) => Stage::refuse(problem),
    }
}

/// Lets the leaving of a device rest or go on, or gives it up.
///
/// # Errors
/// When no device of the pool leaves, or the rate is none.
pub fn control(name: &str, request: &ControlDeparture, view: &impl View) -> Result<Stage, Problem> {
    let pool = view.ready(name)?;
    check_rate(request.rate_bytes)?;
    let found = view.pool(name).ok_or_else(gone)?;
    let nothing = || conflict(&"no device of the pool is leaving");
    let device = found.leaving.ok_or_else(nothing)?;
    view.check_free(name)?;
    let (action, rate_bytes) = (request.action, request.rate_bytes);
    let change = store::Change::Evacuation(match action {
        DepartureAction::Pause => EvacuationChange::Pause,
        DepartureAction::Resume => EvacuationChange::Resume,
        DepartureAction::Cancel => EvacuationChange::Cancel,
    });
    let claimed = do_to_pool(PoolEffect::Claim(name.to_owned(), Purpose::RemoveDevice));
    let told = Told { pool, name: name.to_owned(), device, action, rate_bytes };
    Ok(Stage::change(pool, change, AfterChange::ControlDeparture(told)).after([claimed]))
}

/// The leaving of a device rests, goes on or was given up; or not.
pub(crate) fn controlled(told: Told, result: Result<(), Problem>) -> Stage {
    if let Err(problem) = result {
        return Stage::refuse(problem);
    }
    let Told { pool, name, device, action, rate_bytes } = told;
    match (action, rate_bytes) {
        (DepartureAction::Cancel, _) => {
            let message = format!("device {device} stays");
            let told = Effect::note(Severity::Information, format!("pool {name}"), message);
            let change = Change::EndDeparture(name.clone());
            save(change, AfterSave::MemberGone(name)).after([told])
        }
        (DepartureAction::Pause | DepartureAction::Resume, None) => {
            Stage::answer(Answer::Pool(name))
        }
        (DepartureAction::Pause | DepartureAction::Resume, Some(rate)) => {
            let changed = do_to_pool(PoolEffect::DepartureRate(pool, Some(rate)));
            let change = Change::SetDepartureRate(name.clone(), rate);
            save(change, AfterSave::MemberGone(name)).after([changed])
        }
    }
}

/// Begins to let a device go from which everything was moved.
///
/// # Errors
/// While something else goes on in the pool, or when it has no such device.
pub fn end(name: &str, device: u8, view: &impl View) -> Result<Stage, Problem> {
    let pool = view.ready(name)?;
    view.check_free(name)?;
    let [_, accepted] = view.versions();
    let known = accepted.pools.get(name).and_then(|pool| pool.departure.clone());
    let rate_bytes = known.as_ref().and_then(|known| known.rate_bytes);
    let leaving = find((pool, name), device.into(), rate_bytes, view)?;
    let claimed = do_to_pool(PoolEffect::Claim(name.to_owned(), Purpose::RemoveDevice));
    let stage = if known.as_ref() == Some(&leaving.departure) {
        leaving.leave()
    } else {
        let change = Change::BeginDeparture(name.to_owned(), leaving.departure.clone());
        save(change, AfterSave::Leave(leaving))
    };
    Ok(stage.after([claimed]))
}

/// A device has left, or has not.
pub(crate) fn left(leaving: Leaving, result: Result<(), Problem>) -> Stage {
    if let Err(problem) = result {
        return Stage::refuse(problem);
    }
    let message = format!("{} has left: it may be used for anything else", leaving.text());
    let told = leaving.note(message);
    let closed = do_to_pool(PoolEffect::CloseUnused(leaving.pool, leaving.names()));
    let forgotten = do_to_pool(PoolEffect::MirrorGone(leaving.uuid));
    let change = Change::ForgetDeparted(leaving.name.clone());
    save(change, AfterSave::MemberGone(leaving.name)).after([told, closed, forgotten])
}

/// What is to be done where devices are configured as leaving and none leaves, because the daemon or the
/// pool stopped in between: those that the pool does not know any more are forgotten, others stay.
pub fn settle(name: &str, view: &impl View) -> Option<Stage> {
    let [_, accepted] = view.versions();
    let configured = accepted.pools.get(name)?;
    let departure = configured.departure.as_ref()?;
    let found = view.pool(name)?;
    if found.leaving.is_some() || !view.serves(found.id) || view.check_free(name).is_err() {
        return None;
    }
    let then = AfterSave::Settled(found.id);
    if !has_left(configured, departure, &view.devices_in_use(found.id)) {
        return Some(save(Change::EndDeparture(name.to_owned()), then));
    }
    let names = departure.devices.iter().map(|one| one.device.clone()).collect();
    let closed = do_to_pool(PoolEffect::CloseUnused(found.id, names));
    Some(save(Change::ForgetDeparted(name.to_owned()), then).after([closed]))
}

/// Whether a pool uses fewer devices of these names than it is configured to have.
fn has_left(configured: &array::Pool, departure: &Departure, in_use: &[DeviceName]) -> bool {
    departure.devices.iter().all(|PoolDevice { device, .. }| {
        let used = in_use.iter().filter(|other| *other == device).count();
        let known = configured.devices.iter().filter(|other| other.device == *device).count();
        used < known
    })
}

/// Devices leave the configuration of a pool, or stay.
pub(crate) fn apply(change: &Change, array: &mut Configuration) {
    match change {
        Change::BeginDeparture(pool, departure) => {
            let Some(pool) = array.pools.get_mut(pool) else { return };
            pool.departure = Some(departure.clone());
        }
        Change::SetDepartureRate(pool, rate_bytes) => {
            let departure = array.pools.get_mut(pool).and_then(|pool| pool.departure.as_mut());
            departure.into_iter().for_each(|known| known.rate_bytes = Some(*rate_bytes));
        }
        Change::EndDeparture(pool) => {
            let Some(pool) = array.pools.get_mut(pool) else { return };
            pool.departure = None;
        }
        Change::ForgetDeparted(pool) => {
            let Some(pool) = array.pools.get_mut(pool) else { return };
            for gone in pool.departure.take().into_iter().flat_map(|known| known.devices) {
                let at = pool.devices.iter().position(|other| other.device == gone.device);
                at.into_iter().for_each(|at| drop(pool.devices.remove(at)));
                pool.mirroring.members.retain(|member| member.device != gone.device);
            }
        }
        Change::Add(..)
        | Change::Remove(_)
        | Change::AddDevice(..)
        | Change::KeepDevices(..)
        | Change::AddMember { .. }
        | Change::RemoveMember(..)
        | Change::SetSpares(..)
        | Change::KnowMembers(..)
        | Change::AddMirror { .. }
        | Change::ForgetMirror(_)
        | Change::ResizeDevices { .. } => {}
    }
}

#[cfg(test)]
mod tests;
