//! Members of mirrors as state machines: a device joins a mirror, comes back, replaces another one or
//! leaves; spares that step in.
//!
//! A device that joins is configured before the mirror knows it, and one that left is forgotten after:
//! so a restart in between finds a device that the pool does not need, never one that it misses.

use std::collections::BTreeMap;
use std::time::Duration;

use api::{AttachMember, Problem, ProblemKind, SetSpares, Severity};
use array::{ArrayError, Configuration, KnownMember, PoolDevice};
use block::DeviceName;
use store::limits::{DEVICE_BYTES_MIN, MIRROR_MEMBERS_MAX, MIRROR_MEMBERS_WHILE_REPLACING_MAX};
use store::{MemberState, MemberStatus, MirrorStatus};

use crate::Effect;
use crate::claims::Purpose;
use crate::devices::{AfterMaking, Made, Making, Origin};
use crate::limits::{
    RETURN_PAUSE, RETURN_PAUSE_MAX, SPARE_PATIENCE, SPARE_PAUSE, STEADY_AFTER, UNRELIABLE_PAUSE,
};
use crate::pools::{Change, PoolEffect, do_to_pool, parse_device, save};
use crate::problems::{bad_request, conflict, gone, problem, refused};
use crate::procedures::{AfterChange, AfterSave, Answer, OpenDevices, PoolId, Stage, View, Wait};

/// A device that is to be a member of a mirror.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewMember {
    /// The pool.
    pub pool: PoolId,
    /// Its name.
    pub name: String,
    /// The mirror, by its number among the logical devices.
    pub mirror: u8,
    /// The member that leaves when this one is current.
    pub replaces: Option<[u8; 16]>,
    /// Whether it is to be a witness.
    pub is_witness: bool,
    /// Whether its file was there before.
    pub origin: Origin,
}

/// A member that may be there again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostMember {
    /// The pool.
    pub pool: PoolId,
    /// Its name.
    pub name: String,
    /// The member.
    pub uuid: [u8; 16],
}

/// An open device that the engine is to take as a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Admitting {
    /// The pool.
    pub pool: PoolId,
    /// Its name.
    pub name: String,
    /// The open device.
    pub open: OpenDevices,
    /// Where it is.
    pub device: PoolDevice,
    /// The member.
    pub uuid: [u8; 16],
    /// The mirror that it joins; `None` if it is a member already.
    pub joins: Option<u8>,
    /// Whether it joins as a witness.
    pub is_witness: bool,
    /// Whether its file was there before: a new one is removed if it does not join.
    pub origin: Origin,
}

/// Something that the array does about mirrors by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Deed {
    /// It looks whether a member is there again.
    Return([u8; 16]),
    /// A spare joins a mirror in the place of a member.
    Spare(u8, PoolDevice, [u8; 16]),
    /// A member was replaced, and leaves.
    Leave([u8; 16]),
}

/// What the copy of a member is worth, as administrators are told.
pub const fn describe_state(state: MemberState) -> api::MemberState {
    match state {
        MemberState::Current => api::MemberState::Current,
        MemberState::Resilvering => api::MemberState::Resilvering,
        MemberState::Absent => api::MemberState::Absent,
        MemberState::Witness => api::MemberState::Witness,
        MemberState::WitnessAbsent => api::MemberState::WitnessAbsent,
    }
}

pub(crate) fn hex(uuid: [u8; 16]) -> String {
    uuid.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn no_member(name: &str) -> Problem {
    let (kind, name) = ("member", name.to_owned());
    refused(&ArrayError::NotFound { kind, name })
}

/// Finds a member by its identifier, hexadecimal.
///
/// # Errors
/// When no mirror of the pool has it.
pub fn find(name: &str, member: &str, view: &impl View) -> Result<LostMember, Problem> {
    let (found, _) = find_with_state(name, member, view)?;
    Ok(found)
}

fn find_with_state(
    name: &str,
    member: &str,
    view: &impl View,
) -> Result<(LostMember, MemberState), Problem> {
    let pool = view.ready(name)?;
    let mirrors = view.mirrors(pool);
    let mut members = mirrors.iter().flat_map(|mirror| &mirror.members);
    let found = members.find(|found| hex(found.uuid) == member);
    let MemberStatus { uuid, state, .. } = *found.ok_or_else(|| no_member(member))?;
    Ok((LostMember { pool, name: name.to_owned(), uuid }, state))
}

/// Begins to look whether a member is there again that an administrator names.
///
/// # Errors
/// When there is no such member, it is not lost, or it is not known where it was.
pub fn ask_back(name: &str, member: &str, view: &impl View) -> Result<Stage, Problem> {
    match find_with_state(name, member, view)? {
        (lost, MemberState::Absent | MemberState::WitnessAbsent) => give_back(lost, view),
        (_, MemberState::Current | MemberState::Witness) => {
            Err(conflict(&"the device is there, and lacks nothing: there is nothing to return"))
        }
        (_, MemberState::Resilvering) => Err(conflict(
            &"the device is there, and is being filled: 'gantry pool show' says how far",
        )),
    }
}

/// Begins to make a device and to let it join a mirror, or to make a mirror of a plain device.
///
/// # Errors
/// When the pool takes no changes or something else goes on in it, there is no such mirror or member, or
/// the device is none or taken.
pub fn attach(name: &str, request: &AttachMember, view: &impl View) -> Result<Stage, Problem> {
    let pool = view.ready(name)?;
    let mirrors = view.mirrors(pool);
    let mut by_number = mirrors.iter().filter(|one| usize::from(one.device) == request.mirror);
    let mirror = by_number.next().ok_or_else(|| no_member("of that number"))?;
    let replaces = request.replaces.as_ref().map(|member| find(name, member, view)).transpose()?;
    let replaces = replaces.map(|lost| lost.uuid);
    if replaces.is_some_and(|uuid| !mirror.members.iter().any(|member| member.uuid == uuid)) {
        return Err(no_member("in that mirror"));
    }
    let is_replaced = |member: &&MemberStatus| Some(member.uuid) == replaces;
    if mirror.members.iter().filter(is_replaced).any(|member| member.state.is_witness()) {
        return Err(bad_request(&REPLACES_NO_WITNESS));
    }
    if request.witness {
        check_witness(mirror, replaces.is_some())?;
    } else {
        check_count(mirror, replaces.is_some())?;
    }
    let device = parse_device(&request.device)?;
    let [_, accepted] = view.versions();
    accepted.check_new_device(name, &device).map_err(|error| refused(&error))?;
    view.check_free(name)?;
    let claimed = do_to_pool(PoolEffect::Claim(name.to_owned(), Purpose::Members));
    let is_witness = request.witness;
    let usual = if is_witness { DEVICE_BYTES_MIN } else { mirror.size_bytes };
    let size_bytes = Some(request.size_bytes.unwrap_or(usual));
    let origin = if is_witness { Origin::NewWitness } else { Origin::New };
    let making = Making { devices: vec![device], size_bytes, origin };
    let mirror = mirror.device;
    let new = NewMember { pool, name: name.to_owned(), mirror, replaces, is_witness, origin };
    Ok(Stage::wait(Wait::Make(making, AfterMaking::Member(new))).after([claimed]))
}

const REPLACES_NO_WITNESS: &str = "a witness is not replaced, nor does it replace a member: detach the old witness, \
                                   then attach the new one";

/// Whether a witness may join a mirror.
fn check_witness(mirror: &MirrorStatus, replaces: bool) -> Result<(), Problem> {
    if replaces {
        return Err(bad_request(&REPLACES_NO_WITNESS));
    }
    if mirror.members.iter().any(|member| member.state.is_witness()) {
        let all = format!("mirror {} has a witness: detach that first", mirror.device);
        return Err(conflict(&all));
    }
    if !mirror.is_mirror {
        let plain = format!("device {} has one copy: attach another one first", mirror.device);
        return Err(conflict(&plain));
    }
    Ok(())
}

/// Whether a device more may join a mirror.
fn check_count(mirror: &MirrorStatus, replaces: bool) -> Result<(), Problem> {
    let count = mirror.copies().count();
    let (most, advice) = if replaces {
        (MIRROR_MEMBERS_WHILE_REPLACING_MAX, "wait until the replaced one has left it")
    } else {
        (MIRROR_MEMBERS_MAX, "detach or replace one")
    };
    if count < most {
        return Ok(());
    }
    let all =
        format!("mirror {} has {count} devices, as many as it can have: {advice}", mirror.device);
    Err(problem(ProblemKind::TooMany, &all).with("object", "members"))
}

/// Begins to let a spare join a mirror.
pub fn step_in(
    (pool, name): (PoolId, &str),
    mirror: u8,
    spare: &PoolDevice,
    replaces: [u8; 16],
) -> Stage {
    let making = Making {
        devices: vec![spare.device.clone()],
        size_bytes: Some(spare.size_bytes),
        origin: Origin::There,
    };
    let (name, replaces, origin) = (name.to_owned(), Some(replaces), Origin::There);
    let is_witness = false;
    let new = NewMember { pool, name: name.clone(), mirror, replaces, is_witness, origin };
    let message = format!("spare {} steps in at mirror {mirror}", spare.device);
    let told = Effect::note(Severity::Warning, format!("pool {name}"), message);
    let claimed = do_to_pool(PoolEffect::Claim(name, Purpose::Members));
    Stage::wait(Wait::Make(making, AfterMaking::Member(new))).after([claimed, told])
}

/// The device of a new member is open.
pub(crate) fn made(new: NewMember, made: Made, view: &impl View) -> Stage {
    let Made { open, devices } = made;
    match (view.new_uuid(), devices.first().cloned()) {
        (Ok(uuid), Some(device)) => {
            let NewMember { pool, name, mirror, replaces, is_witness, origin } = new;
            let change = Change::AddMember {
                pool: name.clone(),
                device: device.clone(),
                uuid,
                replaces,
                is_witness,
            };
            let joins = Some(mirror);
            let admitting = Admitting { pool, name, open, device, uuid, joins, is_witness, origin };
            save(change, AfterSave::AddMember(admitting))
        }
        (Ok(_), None) => Stage::refuse(gone()),
        (Err(problem), _) => {
            let made = made_files(new.origin, devices);
            Stage::refuse(problem).after([do_to_pool(PoolEffect::Discard(open, made))])
        }
    }
}

/// What is removed of a device that does not join: a file that was there before stays.
fn made_files(origin: Origin, devices: Vec<PoolDevice>) -> Vec<PoolDevice> {
    match origin {
        Origin::New | Origin::NewWitness => devices,
        Origin::There => Vec::new(),
    }
}

/// A new member is configured, or could not be. The file of a spare stays.
pub(crate) fn configured(admitting: Admitting, result: Result<(), Problem>) -> Stage {
    match result {
        Ok(()) => Stage::wait(Wait::Admit(admitting)),
        Err(problem) => {
            let made = made_files(admitting.origin, vec![admitting.device]);
            let closed = do_to_pool(PoolEffect::Discard(admitting.open, made));
            Stage::refuse(problem).after([closed])
        }
    }
}

/// Begins to look whether a member is there again. Whoever asks by a request claims nothing: a device
/// that hangs hinders nobody.
///
/// # Errors
/// When it is not known where the member was.
pub fn give_back(lost: LostMember, view: &impl View) -> Result<Stage, Problem> {
    let [_, accepted] = view.versions();
    let configured = accepted.pool(&lost.name).map_err(|error| refused(&error))?;
    let device = configured.mirroring.place_of(lost.uuid).cloned().ok_or_else(|| {
        problem(
            ProblemKind::DeviceMissing,
            &"it is not known where the member was: attach its device as a new one, and detach this",
        )
    })?;
    let size_bytes = configured.devices.iter().find(|other| other.device == device);
    let size_bytes = size_bytes.map(|other| other.size_bytes);
    let making = Making { devices: vec![device], size_bytes, origin: Origin::There };
    Ok(Stage::wait(Wait::Make(making, AfterMaking::Return(lost))))
}

/// The device of a lost member was opened, or could not be.
pub(crate) fn reopened(lost: LostMember, made: Result<Made, Problem>) -> Stage {
    let ended = do_to_pool(PoolEffect::ReturnEnded(lost.uuid, false));
    match made.map(|made| (made.devices.first().cloned(), made.open)) {
        Ok((Some(device), open)) => {
            let LostMember { pool, name, uuid } = lost;
            let (joins, is_witness, origin) = (None, false, Origin::There);
            let admitting = Admitting { pool, name, open, device, uuid, joins, is_witness, origin };
            Stage::wait(Wait::Admit(admitting))
        }
        Ok((None, _)) => Stage::refuse(gone()).after([ended]),
        Err(problem) => Stage::refuse(problem).after([ended]),
    }
}

/// The engine has taken a member, or refused it.
pub(crate) fn admitted(
    pool: PoolId,
    admitting: Admitting,
    result: Result<(), Problem>,
    view: &impl View,
) -> Stage {
    let Admitting { name, device, uuid, joins, origin, .. } = admitting;
    let ended = joins.is_none().then(|| PoolEffect::ReturnEnded(uuid, result.is_ok()));
    let dismissed = PoolEffect::Dismiss(pool, device.device.clone());
    let next = match (result, joins) {
        (Ok(()), _) => return Stage::answer(Answer::Pool(name)).after(ended.map(do_to_pool)),
        // A pool that failed meanwhile may have recorded the member or not: it stays configured.
        (Err(problem), Some(_)) if view.serves(pool) => {
            let made = made_files(origin, vec![device]);
            save(Change::RemoveMember(name, uuid), AfterSave::NotJoined(made, problem))
        }
        (Err(problem), _) => Stage::refuse(problem),
    };
    next.after([dismissed].into_iter().chain(ended).map(do_to_pool))
}

/// Begins to take a member out of its mirror.
///
/// # Errors
/// While something else goes on in the pool.
pub fn detach(lost: LostMember, view: &impl View) -> Result<Stage, Problem> {
    view.check_free(&lost.name)?;
    let claimed = do_to_pool(PoolEffect::Claim(lost.name.clone(), Purpose::Members));
    let change = store::Change::DetachMember { member: lost.uuid };
    Ok(Stage::change(lost.pool, change, AfterChange::Detach(lost)).after([claimed]))
}

/// A member has left its mirror, or could not.
pub(crate) fn detached(lost: LostMember, result: Result<(), Problem>, view: &impl View) -> Stage {
    if let Err(problem) = result {
        return Stage::refuse(problem);
    }
    let LostMember { pool, name, uuid } = lost;
    let [_, accepted] = view.versions();
    let place = accepted.pools.get(&name).and_then(|pool| pool.mirroring.place_of(uuid)).cloned();
    let text = place.as_ref().map_or_else(|| hex(uuid), ToString::to_string);
    let told = Effect::note(
        Severity::Information,
        format!("pool {name}"),
        format!("{text} has left its mirror"),
    );
    let dismissed = place.map(|device| do_to_pool(PoolEffect::Dismiss(pool, device)));
    let saved = save(Change::RemoveMember(name.clone(), uuid), AfterSave::MemberGone(name));
    saved.after(dismissed.into_iter().chain([told]))
}

/// Begins to set the spares of a pool: new ones are made, and files of others stay where they are.
///
/// # Errors
/// When something else goes on in the pool, or a device is none or taken.
pub fn set_spares(name: &str, request: &SetSpares, view: &impl View) -> Result<Stage, Problem> {
    let [_, accepted] = view.versions();
    let pool = accepted.pool(name).map_err(|error| refused(&error))?;
    let wanted = request.devices.iter().map(|device| parse_device(device));
    let wanted = wanted.collect::<Result<Vec<_>, _>>()?;
    let spares = &pool.mirroring.spares;
    let is_known = |device: &DeviceName| spares.iter().any(|one| one.device == *device);
    let kept = spares.iter().filter(|spare| wanted.contains(&spare.device)).cloned().collect();
    let new: Vec<_> = wanted.iter().filter(|device| !is_known(device)).cloned().collect();
    accepted.check_new_devices(name, &new).map_err(|error| refused(&error))?;
    view.check_free(name)?;
    let claimed = do_to_pool(PoolEffect::Claim(name.to_owned(), Purpose::Members));
    if new.is_empty() {
        return Ok(save_spares(name.to_owned(), kept).after([claimed]));
    }
    let making = Making { devices: new, size_bytes: request.size_bytes, origin: Origin::New };
    let then = AfterMaking::Spares { name: name.to_owned(), kept };
    Ok(Stage::wait(Wait::Make(making, then)).after([claimed]))
}

/// New spares were made: they are closed until they are needed.
pub(crate) fn spares_made(name: String, kept: Vec<PoolDevice>, made: Made) -> Stage {
    let closed = do_to_pool(PoolEffect::Discard(made.open, Vec::new()));
    save_spares(name, [kept, made.devices].concat()).after([closed])
}

fn save_spares(name: String, spares: Vec<PoolDevice>) -> Stage {
    save(Change::SetSpares(name.clone(), spares), AfterSave::MemberGone(name))
}

/// A member joins the configuration of a pool, or leaves it.
pub(crate) fn apply(change: &Change, array: &mut Configuration) {
    match change {
        Change::AddMember { pool, device, uuid, replaces, is_witness } => {
            let Some(pool) = array.pools.get_mut(pool) else { return };
            pool.mirroring.spares.retain(|spare| spare.device != device.device);
            pool.devices.push(device.clone());
            let (uuid, device) = (*uuid, device.device.clone());
            let (replaces, is_witness) = (*replaces, *is_witness);
            pool.mirroring.members.push(KnownMember { uuid, device, replaces, is_witness });
        }
        Change::RemoveMember(pool, uuid) => {
            let Some(pool) = array.pools.get_mut(pool) else { return };
            let place = pool.mirroring.place_of(*uuid).cloned();
            if pool.devices.len() > 1 {
                pool.devices.retain(|other| Some(&other.device) != place.as_ref());
            }
            pool.mirroring.members.retain(|known| known.uuid != *uuid);
        }
        Change::KnowMembers(pool, members) => {
            let Some(pool) = array.pools.get_mut(pool) else { return };
            pool.mirroring.members.clone_from(members);
            let is_known = |joining: &KnownMember| members.iter().any(|m| m.uuid == joining.uuid);
            pool.mirroring.joining.retain(|joining| !is_known(joining));
        }
        Change::SetSpares(pool, spares) => {
            let Some(pool) = array.pools.get_mut(pool) else { return };
            pool.mirroring.spares.clone_from(spares);
        }
        Change::AddMirror { pool, devices, members } => {
            let Some(pool) = array.pools.get_mut(pool) else { return };
            pool.devices.extend(devices.iter().cloned());
            pool.mirroring.joining.clone_from(members);
        }
        Change::ForgetMirror(pool) => {
            let Some(pool) = array.pools.get_mut(pool) else { return };
            for joining in std::mem::take(&mut pool.mirroring.joining) {
                // They are the last ones of their names.
                let at = pool.devices.iter().rposition(|other| other.device == joining.device);
                at.into_iter().for_each(|at| drop(pool.devices.remove(at)));
            }
        }
        Change::Add(..)
        | Change::Remove(_)
        | Change::AddDevice(..)
        | Change::KeepDevices(..)
        | Change::BeginDeparture(..)
        | Change::SetDepartureRate(..)
        | Change::EndDeparture(_)
        | Change::ForgetDeparted(_)
        | Change::ResizeDevices { .. } => {}
    }
}

/// What the configuration of a pool is to know of the members of its mirrors, unless it does. `device_of`
/// names the open device of a member. While members are being changed (`is_changing`), those that are
/// configured and in no mirror stay: they are just joining, or leave by what is under way.
pub fn to_know(
    members: impl Iterator<Item = MemberStatus>,
    configured: &array::Pool,
    device_of: impl Fn(&MemberStatus) -> Option<DeviceName>,
    is_changing: bool,
) -> Option<Vec<KnownMember>> {
    let known = |member: MemberStatus| {
        let known = configured.mirroring.known(member.uuid);
        let device = device_of(&member).or(known.map(|known| known.device.clone()))?;
        let replaces = known.and_then(|known| known.replaces);
        let is_witness = member.state.is_witness();
        Some(KnownMember { uuid: member.uuid, device, replaces, is_witness })
    };
    let mut found: Vec<KnownMember> = members.filter_map(known).collect();
    if found.iter().all(|member| configured.mirroring.members.contains(member)) {
        return None;
    }
    if is_changing {
        let is_found = |known: &&KnownMember| found.iter().any(|one| one.uuid == known.uuid);
        let others = configured.mirroring.members.iter().filter(|known| !is_found(known));
        let others: Vec<KnownMember> = others.cloned().collect();
        found.extend(others);
    }
    Some(found)
}

/// Tries of lost members, and since when they are lost; no more than there are members.
#[derive(Clone, Debug, Default)]
pub struct Lost {
    members: BTreeMap<[u8; 16], Try>,
    /// Spares that were to step in, and when: one that could not is tried again after a while.
    spares: BTreeMap<String, Duration>,
}

#[derive(Clone, Copy, Debug)]
struct Try {
    /// Since when it is lost, or current again.
    since: Duration,
    is_lost: bool,
    /// When it is tried next; `None` while a try is under way.
    next: Option<Duration>,
    /// The pause that follows when it is lost once more.
    pause: Duration,
}

impl Lost {
    /// What the array does about the mirrors of a pool now. `is_there` says whether the device of a
    /// member is still in use.
    pub fn deeds(
        &mut self,
        mirrors: &[MirrorStatus],
        configured: &array::Pool,
        is_there: impl Fn(&MemberStatus) -> bool,
        now: Duration,
    ) -> Vec<Deed> {
        let mut deeds = Vec::new();
        for mirror in mirrors.iter().filter(|mirror| mirror.is_mirror) {
            for member in &mirror.members {
                match member.state {
                    MemberState::Absent | MemberState::WitnessAbsent => {
                        self.lost(member, now);
                        if !is_there(member) && self.begin(member.uuid, now) {
                            deeds.push(Deed::Return(member.uuid));
                        }
                    }
                    MemberState::Current | MemberState::Resilvering | MemberState::Witness => {
                        self.is_back(member.uuid, now)
                    }
                }
            }
            deeds.extend(self.replacement(mirror, configured, now));
        }
        deeds
    }

    /// A member that was replaced leaves; a spare steps in for one that is lost.
    fn replacement(
        &self,
        mirror: &MirrorStatus,
        configured: &array::Pool,
        now: Duration,
    ) -> Option<Deed> {
        let known = &configured.mirroring.members;
        let state_of = |uuid: [u8; 16]| {
            let mut members = mirror.members.iter();
            members.find(|member| member.uuid == uuid).map(|member| member.state)
        };
        let replacing = || known.iter().filter(|known| state_of(known.uuid).is_some());
        let is_done = |known: &&KnownMember| state_of(known.uuid) == Some(MemberState::Current);
        let replaced = replacing().filter(is_done).filter_map(|known| known.replaces);
        if let Some(old) = replaced.into_iter().find(|&old| state_of(old).is_some()) {
            return Some(Deed::Leave(old));
        }
        let is_lost = |member: &&MemberStatus| {
            let since = self.members.get(&member.uuid).filter(|lost| lost.is_lost);
            let patience = if member.is_unreliable { Duration::ZERO } else { SPARE_PATIENCE };
            member.state == MemberState::Absent
                && since.is_some_and(|lost| now.saturating_sub(lost.since) >= patience)
                && !replacing().any(|known| known.replaces == Some(member.uuid))
        };
        let member = mirror.members.iter().find(is_lost)?;
        let spares = &configured.mirroring.spares;
        let rests = |spare: &PoolDevice| {
            let tried = self.spares.get(&spare.device.to_string());
            tried.is_some_and(|&at| now.saturating_sub(at) < SPARE_PAUSE)
        };
        let fits = |spare: &&PoolDevice| spare.size_bytes >= mirror.size_bytes && !rests(spare);
        let spare = spares.iter().find(fits)?;
        Some(Deed::Spare(mirror.device, spare.clone(), member.uuid))
    }

    /// A member is lost. One that answered many reads with errors is there, and would do so again.
    fn lost(&mut self, member: &MemberStatus, now: Duration) {
        let least = if member.is_unreliable { UNRELIABLE_PAUSE } else { RETURN_PAUSE };
        let pause = match self.members.get(&member.uuid) {
            Some(lost) if lost.is_lost => return,
            Some(lost) => (lost.pause * 4).min(RETURN_PAUSE_MAX).max(least),
            None => least,
        };
        let lost = Try { since: now, is_lost: true, next: Some(now + pause), pause };
        self.members.insert(member.uuid, lost);
    }

    fn is_back(&mut self, uuid: [u8; 16], now: Duration) {
        let Some(lost) = self.members.get_mut(&uuid) else { return };
        if lost.is_lost {
            (lost.is_lost, lost.since, lost.next) = (false, now, None);
        } else if now.saturating_sub(lost.since) >= STEADY_AFTER {
            self.members.remove(&uuid);
        }
    }

    fn begin(&mut self, uuid: [u8; 16], now: Duration) -> bool {
        let lost = self.members.get_mut(&uuid).filter(|lost| lost.next.is_some_and(|at| at <= now));
        lost.is_some_and(|lost| lost.next.take().is_some())
    }

    /// A spare is to step in.
    pub fn spare_begins(&mut self, spare: &PoolDevice, now: Duration) {
        self.spares.retain(|_, at| now.saturating_sub(*at) < SPARE_PAUSE);
        self.spares.insert(spare.device.to_string(), now);
    }

    /// A try has ended.
    pub fn ended(&mut self, uuid: [u8; 16], now: Duration) {
        if let Some(lost) = self.members.get_mut(&uuid).filter(|lost| lost.is_lost) {
            lost.next = Some(now + RETURN_PAUSE.max(lost.pause / 4));
        }
    }
}

/// Refuses what a pool without mirrors has not.
///
/// # Errors
/// When no device of the pool is a mirror.
pub fn check_mirrored(name: &str, view: &impl View) -> Result<PoolId, Problem> {
    let pool = view.ready(name)?;
    if view.mirrors(pool).iter().any(|mirror| mirror.is_mirror) {
        return Ok(pool);
    }
    Err(conflict(&format!("pool '{name}' has no mirrors")))
}

#[cfg(test)]
mod tests;
