//! Mirrors that join pools, with all their members at once.
//!
//! The members are configured, as those that are joining, before the pool knows the mirror. A restart in
//! between finds devices that the pool does not need: if all of them could be opened they join then, as
//! a mirror with a name of its own, so that nothing that is known of the first attempt is held against
//! it; if not they are forgotten, and their files stay ([`settle`]).

use api::{AddDevice, Problem, Severity};
use array::{KnownMember, PoolDevice};
use block::DeviceName;
use store::limits::MIRROR_MEMBERS_MAX;

use crate::Effect;
use crate::claims::Purpose;
use crate::devices::{AfterMaking, Made, Making, Origin};
use crate::pools::{Change, PoolEffect, do_to_pool, parse_device, save};
use crate::problems::{bad_request, conflict, gone, refused};
use crate::procedures::{AfterSave, Answer, OpenDevices, PoolId, Stage, View, Wait};

/// Devices that are to join a pool as a mirror.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JoiningMirror {
    /// The pool.
    pub pool: PoolId,
    /// Its name.
    pub name: String,
    /// The devices; `None` if the pool has them open already.
    pub open: Option<OpenDevices>,
    /// Identifier of the mirror, which none before had.
    pub uuid: [u8; 16],
    /// The members to be.
    pub members: Vec<KnownMember>,
}

/// Begins to make the devices of a mirror and to let it join a pool.
///
/// # Errors
/// When something else goes on in the pool, or a device is none or taken.
pub(crate) fn add(
    (pool, name): (PoolId, &str),
    request: &AddDevice,
    view: &impl View,
) -> Result<Stage, Problem> {
    let devices = std::iter::once(&request.device).chain(&request.mirrored_by);
    let devices = devices.map(|device| parse_device(device)).collect::<Result<Vec<_>, _>>()?;
    if devices.len() > MIRROR_MEMBERS_MAX {
        return Err(bad_request(&"a mirror has 2 or 3 devices"));
    }
    let [_, accepted] = view.versions();
    accepted.check_new_devices(name, &devices).map_err(|error| refused(&error))?;
    view.check_free(name)?;
    if view.pool(name).is_some_and(|found| found.is_joining) || !joining(name, view).is_empty() {
        return Err(conflict(&"another device is just joining this pool: wait until it has"));
    }
    let claimed = do_to_pool(PoolEffect::Claim(name.to_owned(), Purpose::AddDevice));
    let making = Making { devices, size_bytes: request.size_bytes, origin: Origin::New };
    let then = AfterMaking::Mirror { pool, name: name.to_owned() };
    Ok(Stage::wait(Wait::Make(making, then)).after([claimed]))
}

/// The members that are configured to join a pool.
fn joining(name: &str, view: &impl View) -> Vec<KnownMember> {
    let [_, accepted] = view.versions();
    accepted.pools.get(name).map(|pool| pool.mirroring.joining.clone()).unwrap_or_default()
}

/// The devices are made.
pub(crate) fn made(pool: PoolId, name: String, made: Made, view: &impl View) -> Stage {
    let Made { open, devices } = made;
    let known = |device: &PoolDevice| {
        let (uuid, device) = (view.new_uuid()?, device.device.clone());
        Ok(KnownMember { uuid, device, replaces: None, is_witness: false })
    };
    let members = devices.iter().map(known).collect::<Result<Vec<_>, Problem>>();
    match members.and_then(|members| Ok((members, view.new_uuid()?))) {
        Ok((members, uuid)) => {
            let change = Change::AddMirror {
                pool: name.clone(),
                devices: devices.clone(),
                members: members.clone(),
            };
            let joining = JoiningMirror { pool, name, open: Some(open), uuid, members };
            save(change, AfterSave::AddMirror { joining, devices })
        }
        Err(problem) => {
            Stage::refuse(problem).after([do_to_pool(PoolEffect::Discard(open, devices))])
        }
    }
}

/// The devices are configured, or could not be.
pub(crate) fn configured(
    joining: JoiningMirror,
    devices: Vec<PoolDevice>,
    result: Result<(), Problem>,
) -> Stage {
    match result {
        Ok(()) => Stage::wait(Wait::JoinMirror(joining)),
        Err(problem) => {
            let left = joining.open.map(|open| do_to_pool(PoolEffect::Discard(open, devices)));
            Stage::refuse(problem).after(left)
        }
    }
}

/// The mirror has joined, or could not. That its members have is configured when they are looked at.
pub(crate) fn joined(
    joining: JoiningMirror,
    result: Result<(), Problem>,
    view: &impl View,
) -> Stage {
    let JoiningMirror { pool, name, uuid, members, .. } = joining;
    let ended = do_to_pool(PoolEffect::Joined(pool));
    let next = match result {
        Ok(()) => {
            let mirrors = view.mirrors(pool);
            let number = mirrors.iter().find(|mirror| mirror.uuid == uuid);
            let number = number.map_or(mirrors.len().saturating_sub(1), |one| one.device.into());
            let message = format!("mirror {number} of {} devices has joined", members.len());
            let told = Effect::note(Severity::Information, format!("pool {name}"), message);
            Stage::answer(Answer::Pool(name)).after([told])
        }
        // A pool that failed meanwhile may have recorded the mirror or not: its members stay.
        Err(problem) if view.serves(pool) => forget((pool, name), Some(problem), view),
        Err(problem) => Stage::refuse(problem),
    };
    next.after([ended])
}

/// Members that have not joined are configured no more.
fn forget((pool, name): (PoolId, String), why: Option<Problem>, view: &impl View) -> Stage {
    let [_, accepted] = view.versions();
    let joining = joining(&name, view);
    let is_one = |device: &&PoolDevice| joining.iter().any(|one| one.device == device.device);
    let devices = accepted.pools.get(&name).map(|pool| pool.devices.as_slice()).unwrap_or_default();
    // They are the last ones of their names.
    let mut forgotten: Vec<_> =
        devices.iter().rev().filter(is_one).take(joining.len()).cloned().collect();
    forgotten.reverse();
    let change = Change::ForgetMirror(name.clone());
    save(change, AfterSave::ForgetMirror { pool, name, forgotten, why })
}

/// Members that have not joined are configured no more, or could not be forgotten. `why` is the reason
/// why they could not join, if they were to.
pub(crate) fn forgotten(
    (pool, name): (PoolId, String),
    forgotten: Vec<PoolDevice>,
    why: Option<Problem>,
    result: Result<(), Problem>,
) -> Stage {
    let names: Vec<DeviceName> = forgotten.iter().map(|device| device.device.clone()).collect();
    let closed = do_to_pool(PoolEffect::CloseUnused(pool, names));
    if let Err(problem) = result {
        return Stage::refuse(problem).after([closed]);
    }
    let told = forgotten.iter().map(|device| {
        let message = format!("{} has not joined and is forgotten", device.device);
        Effect::note(Severity::Warning, format!("pool {name}"), message)
    });
    let effects = told.chain([closed]).collect::<Vec<_>>();
    match why {
        // Not all could be opened: the files are left as they are.
        None => Stage::answer(Answer::Done).after(effects),
        Some(why) => {
            let removed = do_to_pool(PoolEffect::RemoveFiles(forgotten));
            Stage::refuse(why).after(effects.into_iter().chain([removed]))
        }
    }
}

/// What is to be done about a mirror whose members were configured, but not known to have joined when the
/// daemon stopped or the pool failed: it joins if all of them could be opened, and is forgotten if not;
/// `None` if there is none such.
///
/// # Errors
/// When the system gives no random numbers.
pub(crate) fn settle(name: &str, view: &impl View) -> Result<Option<Vec<Stage>>, Problem> {
    let members = joining(name, view);
    let Some(found) = view.pool(name).filter(|_| !members.is_empty()) else { return Ok(None) };
    let pool = found.id;
    let known = view.mirrors(pool);
    let is_member = |one: &KnownMember| {
        known.iter().flat_map(|mirror| &mirror.members).any(|member| member.uuid == one.uuid)
    };
    // What the pool knows has joined, and is configured so when it is looked at.
    if members.iter().any(is_member) || !view.serves(pool) {
        return Ok(Some(Vec::new()));
    }
    let open = view.open_devices(pool);
    let count = |name: &DeviceName| members.iter().filter(|one| one.device == *name).count();
    let is_open = |one: &KnownMember| {
        open.iter().filter(|name| **name == one.device).count() >= count(&one.device)
    };
    if !members.iter().all(is_open) {
        return Ok(Some(vec![forget((pool, name.to_owned()), None, view)]));
    }
    let uuid = view.new_uuid()?;
    let joining = JoiningMirror { pool, name: name.to_owned(), open: None, uuid, members };
    Ok(Some(vec![Stage::wait(Wait::JoinMirror(joining))]))
}

/// What the pool is asked for when the devices are open: the server says where they are.
///
/// # Errors
/// When there are not as many slots as members.
pub fn change_of(joining: &JoiningMirror, places: &[(u8, u64)]) -> Result<store::Change, Problem> {
    if places.len() != joining.members.len() {
        return Err(gone());
    }
    let member = |(known, &(slot, size_bytes)): (&KnownMember, &(u8, u64))| {
        let size_bytes = size_bytes - size_bytes % block::BLOCK;
        store::MemberSpec { uuid: known.uuid, slot, size_bytes }
    };
    let members = joining.members.iter().zip(places).map(member).collect();
    Ok(store::Change::AddDevice(store::DeviceSpec::mirror(joining.uuid, members)))
}

#[cfg(test)]
mod tests;
