//! A small server with pools on files, which performs what procedures of pools and devices ask for
//! and fails any of it; each is tried with every outcome of every step, and with a restart before, in
//! and after each.

mod requests;

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};

use api::{AddDevice, ResizePool};

use super::*;
use crate::claims::Claims;
use crate::devices;
use crate::mirror_joining::JoiningMirror;
use crate::problems::{gone, internal};
use crate::procedures::tests::{NOW, Outcome};
use crate::procedures::{FoundPool, FoundVolume, JoinedDevice};

const GIB: u64 = 1 << 30;

/// A volume of another pool, which is open.
const HELD: VolumeId = VolumeId(77);

/// An open pool.
#[derive(Clone, Debug)]
struct OpenPool {
    name: String,
    devices: Vec<String>,
    serves: bool,
    is_joining: bool,
    is_extending: bool,
    volumes: usize,
}

/// The daemon, in small. A pool's label is on its first device.
#[derive(Clone, Debug)]
pub(crate) struct Server {
    array: Configuration,
    next: Configuration,
    /// Files that exist.
    files: BTreeSet<String>,
    /// What the pools have recorded, by their first file: the devices that have joined, with sizes.
    recorded: BTreeMap<String, Vec<(String, u64)>>,
    /// Members of the mirror that has joined pool 'p'.
    members: Vec<KnownMember>,
    pools: BTreeMap<PoolId, OpenPool>,
    last_pool: usize,
    open: BTreeMap<OpenDevices, Vec<String>>,
    claims: Claims,
    unavailable: BTreeSet<String>,
    /// Pools of which the engine still reads the devices.
    opening: BTreeSet<String>,
    waits: Vec<(usize, Wait)>,
    pub(crate) answers: Vec<Result<Answer, Problem>>,
    /// The pool that each request has claimed.
    claimed: Vec<Option<String>>,
    uuids_left: Cell<u8>,
    /// The device that leaves pool 'p', as that has recorded it.
    leaving: Option<usize>,
    /// Files of devices that have left it: they are the administrator's.
    given_back: BTreeSet<String>,
    /// What the members are.
    pub(crate) state: store::MemberState,
    is_stopping: bool,
    notes: Vec<String>,
}

impl View for Server {
    fn versions(&self) -> [&Configuration; 2] {
        [&self.array, &self.next]
    }

    fn ready(&self, pool: &str) -> Result<PoolId, Problem> {
        self.claims.check_volumes(pool)?;
        let open = self.pools.iter().find(|(_, open)| open.name == pool && open.serves);
        open.map(|(id, _)| *id).ok_or_else(|| conflict(&"it takes no changes"))
    }

    fn find(&self, _: &'static str, _: &str, _: &str) -> Result<(PoolId, VolumeId), Problem> {
        Err(gone())
    }

    fn serves(&self, pool: PoolId) -> bool {
        self.pools.get(&pool).is_some_and(|pool| pool.serves)
    }

    fn volume(&self, _: PoolId, _: VolumeId) -> Option<FoundVolume> {
        None
    }

    fn is_going(&self, _: VolumeId) -> bool {
        false
    }

    fn size_to_be(&self, _: VolumeId) -> Option<u64> {
        None
    }

    fn new_id(&self) -> Result<VolumeId, Problem> {
        Err(internal(&"no random numbers"))
    }

    fn pool(&self, name: &str) -> Option<FoundPool> {
        let (id, pool) = self.pools.iter().find(|(_, pool)| pool.name == name)?;
        let joined = self.recorded.get(&pool.devices[0]).into_iter().flatten().enumerate();
        let joined = joined
            .map(|(number, (_, size_bytes))| JoinedDevice { number, size_bytes: *size_bytes });
        Some(FoundPool {
            id: *id,
            volumes: pool.volumes,
            joined: joined.collect(),
            leaving: self.leaving.filter(|_| name == "p"),
            open_devices: pool.devices.len(),
            is_joining: pool.is_joining,
            is_changing: self.waits.iter().any(|(_, wait)| works_on(wait) == Some(*id)),
            has_mirrors: false,
            is_opening: self.opening.contains(name),
        })
    }

    fn is_unavailable(&self, pool: &str) -> bool {
        self.unavailable.contains(pool)
    }

    fn mirrors(&self, _: PoolId) -> Vec<store::MirrorStatus> {
        let member = |known: &KnownMember| store::MemberStatus {
            uuid: known.uuid,
            slot: None,
            is_returning: false,
            size_bytes: GIB,
            state: self.state,
            errors: 0,
            is_unreliable: false,
            healed_blocks: 0,
            since: 1,
        };
        let members: Vec<_> = self.members.iter().map(member).collect();
        let mirror = store::MirrorStatus {
            device: 1,
            uuid: [99; 16],
            size_bytes: GIB,
            is_mirror: true,
            generation: 1,
            members,
            resilver: None,
            rivals: Some(Vec::new()),
        };
        let plain = store::MirrorStatus {
            device: 0,
            members: Vec::new(),
            is_mirror: false,
            ..mirror.clone()
        };
        vec![plain, mirror]
    }

    fn open_devices(&self, pool: PoolId) -> Vec<DeviceName> {
        let devices = self.pools.get(&pool).into_iter().flat_map(|pool| &pool.devices);
        devices.map(|device| parse_device(device).unwrap()).collect()
    }

    fn devices_in_use(&self, pool: PoolId) -> Vec<DeviceName> {
        let first = self.pools.get(&pool).map(|pool| &pool.devices[0]);
        let joined = first.and_then(|first| self.recorded.get(first)).into_iter().flatten();
        joined.map(|(device, _)| parse_device(device).unwrap()).collect()
    }

    fn places_of(&self, _: PoolId, device: usize) -> Vec<usize> {
        vec![device]
    }

    fn is_held(&self, id: VolumeId) -> bool {
        id == HELD
    }

    fn check_free(&self, pool: &str) -> Result<(), Problem> {
        self.claims.check_free(pool)
    }

    fn is_stopping(&self) -> bool {
        self.is_stopping
    }

    fn new_uuid(&self) -> Result<[u8; 16], Problem> {
        let left = self.uuids_left.get().checked_sub(1);
        let left = left.ok_or_else(|| internal(&"no random numbers"))?;
        self.uuids_left.set(left);
        Ok([left; 16])
    }
}

fn works_on(wait: &Wait) -> Option<PoolId> {
    match wait {
        Wait::Change(pool, ..) | Wait::GiveAway(pool, _) => Some(*pool),
        Wait::Join(joining, _) => Some(joining.pool),
        Wait::JoinMirror(joining) => Some(joining.pool),
        _ => None,
    }
}

/// The file of pool 'p'.
fn p0() -> String {
    parse_device("file:/p0").unwrap().to_string()
}

fn path(device: &PoolDevice) -> String {
    device.device.to_string()
}

impl Server {
    /// Pool 'p' on the file /p0.
    pub(crate) fn new() -> Self {
        let array = Configuration::new("iqn.2026-11.io.gantry:test".to_owned());
        let mut server = Self {
            next: array.clone(),
            array,
            files: BTreeSet::new(),
            recorded: BTreeMap::new(),
            members: Vec::new(),
            pools: BTreeMap::new(),
            last_pool: 0,
            open: BTreeMap::new(),
            claims: Claims::default(),
            unavailable: BTreeSet::new(),
            opening: BTreeSet::new(),
            waits: Vec::new(),
            answers: Vec::new(),
            claimed: Vec::new(),
            uuids_left: Cell::new(100),
            leaving: None,
            given_back: BTreeSet::new(),
            state: store::MemberState::Current,
            is_stopping: false,
            notes: Vec::new(),
        };
        server.begin(create(&wanted("p", &["/p0"]), &server));
        server.finish();
        server.answers.clear();
        server.claimed.clear();
        server
    }

    pub(crate) fn begin(&mut self, request: Result<Stage, Problem>) {
        let number = self.claimed.len();
        self.claimed.push(None);
        match request {
            Ok(stage) => self.take(number, stage),
            Err(problem) => self.answers.push(Err(problem)),
        }
    }

    /// Lets everything go well to its end.
    pub(crate) fn finish(&mut self) {
        while !self.waits.is_empty() {
            assert!(self.step(0, Outcome::Works));
        }
    }

    fn take(&mut self, number: usize, Stage { effects, wait }: Stage) {
        effects.into_iter().for_each(|effect| self.perform(number, effect));
        match wait {
            Wait::End(answer) => {
                if let Some(pool) = self.claimed[number].take() {
                    self.claims.release(&pool);
                }
                self.answers.push(answer);
            }
            Wait::Save(change, then) => {
                change.apply(&mut self.next).unwrap();
                self.waits.push((number, Wait::Save(change, then)));
            }
            wait => self.waits.push((number, wait)),
        }
    }

    fn perform(&mut self, number: usize, effect: Effect) {
        let effect = match effect {
            Effect::Pool(effect) => effect,
            Effect::Note(note) => return self.notes.push(note.message),
            other => panic!("{other:?}"),
        };
        match effect {
            PoolEffect::Claim(name, purpose) => {
                self.claims.claim(&name, purpose).expect("it was looked whether it is free");
                self.claims.take_new();
                self.claimed[number] = Some(name);
            }
            PoolEffect::LookBelow(_) => {}
            PoolEffect::Close(pool) => drop(self.pools.remove(&pool)),
            PoolEffect::GiveUp(pool, devices) => {
                self.pools.remove(&pool);
                self.remove(&devices);
            }
            PoolEffect::Discard(open, devices) => {
                assert!(self.open.remove(&open).is_some(), "they are open");
                self.remove(&devices);
            }
            PoolEffect::CloseUnused(pool, names) => {
                let Some(pool) = self.pools.get_mut(&pool) else { return };
                let joined = self.recorded.get(&pool.devices[0]).cloned().unwrap_or_default();
                let is_used = |device: &String| joined.iter().any(|(other, _)| other == device);
                let is_named = |device: &String| names.iter().any(|one| one.to_string() == *device);
                pool.devices.retain(|device| is_used(device) || !is_named(device));
            }
            PoolEffect::RemoveFiles(devices) => self.remove(&devices),
            PoolEffect::Extending(pool) => self.set_extending(pool, true),
            PoolEffect::Extended(pool) => self.set_extending(pool, false),
            PoolEffect::Joined(pool) => {
                if let Some(pool) = self.pools.get_mut(&pool) {
                    pool.is_joining = false;
                }
            }
            PoolEffect::Dismiss(..)
            | PoolEffect::ReturnEnded(..)
            | PoolEffect::DepartureRate(..)
            | PoolEffect::MirrorGone(_) => {}
            PoolEffect::Settle(pool) => {
                let name = self.pools.get(&pool).map(|pool| pool.name.clone());
                let settle = |name: String| devices::settle(&name, self).unwrap();
                for stage in name.map(settle).unwrap_or_default() {
                    self.take(number, stage);
                }
            }
            PoolEffect::Unavailable(name, _) => drop(self.unavailable.insert(name)),
            PoolEffect::Forgotten(name) => drop(self.unavailable.remove(&name)),
        }
    }

    fn set_extending(&mut self, pool: PoolId, is_extending: bool) {
        if let Some(pool) = self.pools.get_mut(&pool) {
            pool.is_extending = is_extending;
        }
    }

    /// Removes files, in which nothing was ever stored that somebody was told is there.
    fn remove(&mut self, devices: &[PoolDevice]) {
        for device in devices {
            let of_pool =
                |pool: &Pool| pool.devices.iter().any(|other| path(other) == path(device));
            assert!(!self.array.pools.values().any(of_pool), "{} is configured", device.device);
            let is_open = self.pools.values().any(|pool| pool.devices.contains(&path(device)));
            assert!(!is_open, "{} is open", device.device);
            self.files.remove(&path(device));
            self.recorded.remove(&path(device));
        }
    }

    /// Lets one of those that wait go on. Returns whether that outcome is possible.
    pub(crate) fn step(&mut self, position: usize, outcome: Outcome) -> bool {
        let is_save = |(_, wait): &(usize, Wait)| matches!(wait, Wait::Save(..));
        if is_save(&self.waits[position]) && self.waits[..position].iter().any(is_save) {
            return false;
        }
        let fails_alone = matches!(outcome, Outcome::Works | Outcome::Fails);
        let has_pool = works_on(&self.waits[position].1).is_some();
        if !fails_alone && !has_pool {
            return false;
        }
        let (number, wait) = self.waits.remove(position);
        let works = outcome == Outcome::Works;
        let stage = match wait {
            Wait::Save(change, then) => {
                if works {
                    change.apply(&mut self.array).unwrap();
                    then.saved(Ok(()))
                } else {
                    return self.lose_saves(number, then);
                }
            }
            Wait::Make(making, then) => {
                let made = self.make(&making.devices, works);
                then.made(made, &*self)
            }
            Wait::Format(formatting, then) => {
                let (pool, result) = self.format(&formatting, works);
                then.changed(pool, result, &*self)
            }
            Wait::Join(joining, then) => {
                let pool = joining.pool;
                let result = self.join(&joining, outcome);
                then.changed(pool, result, &*self)
            }
            Wait::JoinMirror(joining) => {
                let pool = joining.pool;
                let result = self.join_mirror(&joining, outcome);
                AfterChange::JoinMirror(joining).changed(pool, result, &*self)
            }
            Wait::Grow(growing) => {
                growing.grown(if works { Ok(()) } else { Err(conflict(&"the disk is full")) })
            }
            Wait::Change(pool, change, then) => {
                let result = self.change(pool, &change, outcome);
                then.changed(pool, result, &*self)
            }
            Wait::GiveAway(pool, then) => {
                let result = if works { Ok(()) } else { Err(conflict(&"nobody was told")) };
                then.changed(pool, result, &*self)
            }
            Wait::Admit(_) => unreachable!("no pool here has mirrors"),
            Wait::End(_) => unreachable!("nobody waits for an end"),
        };
        self.take(number, stage);
        true
    }

    fn lose_saves(&mut self, number: usize, then: AfterSave) -> bool {
        self.next = self.array.clone();
        let is_save = |(_, wait): &(usize, Wait)| matches!(wait, Wait::Save(..));
        let (saves, others) = std::mem::take(&mut self.waits).into_iter().partition(is_save);
        self.waits = others;
        let saves: Vec<(usize, Wait)> = saves;
        let afters = saves.into_iter().map(|(number, wait)| match wait {
            Wait::Save(_, then) => (number, then),
            other => unreachable!("it is a save: {other:?}"),
        });
        for (number, then) in std::iter::once((number, then)).chain(afters) {
            self.take(number, then.saved(Err(internal(&"the disk is full"))));
        }
        true
    }

    fn make(&mut self, devices: &[DeviceName], works: bool) -> Result<Made, Problem> {
        let is_there = devices.iter().any(|device| self.files.contains(&device.to_string()));
        if is_there || !works {
            return Err(conflict(&"a file cannot be made"));
        }
        let open = OpenDevices(self.open.len() as u64 + 1000 * self.claimed.len() as u64);
        let paths: Vec<String> = devices.iter().map(ToString::to_string).collect();
        self.files.extend(paths.clone());
        self.open.insert(open, paths);
        let configured =
            |device: &DeviceName| PoolDevice { device: device.clone(), size_bytes: GIB };
        Ok(Made { open, devices: devices.iter().map(configured).collect() })
    }

    fn format(&mut self, formatting: &Formatting, works: bool) -> (PoolId, Result<(), Problem>) {
        let devices = self.open.remove(&formatting.open).expect("they are open");
        assert_eq!(formatting.uuids.len(), devices.len());
        self.last_pool += 1;
        let id = PoolId(self.last_pool);
        if works {
            let joined = devices.iter().map(|device| (device.clone(), GIB)).collect();
            self.recorded.insert(devices[0].clone(), joined);
        }
        let name = formatting.pool.name.clone();
        self.pools.insert(
            id,
            OpenPool {
                name,
                devices,
                serves: works,
                is_joining: false,
                is_extending: false,
                volumes: 0,
            },
        );
        (id, if works { Ok(()) } else { Err(conflict(&"a device failed")) })
    }

    fn join(&mut self, joining: &devices::Joining, outcome: Outcome) -> Result<(), Problem> {
        let opened = joining.open.and_then(|open| self.open.remove(&open)).unwrap_or_default();
        let pool = self.pools.get_mut(&joining.pool).ok_or_else(gone)?;
        pool.devices.extend(opened);
        pool.is_joining = true;
        let device = pool.devices.last().expect("it has devices").clone();
        self.record(joining.pool, outcome, |joined| joined.push((device, GIB)))
    }

    fn join_mirror(&mut self, joining: &JoiningMirror, outcome: Outcome) -> Result<(), Problem> {
        let opened = joining.open.and_then(|open| self.open.remove(&open)).unwrap_or_default();
        let pool = self.pools.get_mut(&joining.pool).ok_or_else(gone)?;
        pool.devices.extend(opened);
        pool.is_joining = true;
        let names: Vec<String> =
            joining.members.iter().map(|member| member.device.to_string()).collect();
        assert!(names.iter().all(|name| pool.devices.contains(name)), "they are open");
        let result = self.record(joining.pool, outcome, |joined| {
            joined.extend(names.iter().map(|name| (name.clone(), GIB)));
        });
        let recorded = self.recorded.get(&p0()).cloned().unwrap_or_default();
        if recorded.iter().any(|(device, _)| *device == names[0]) {
            self.members = joining.members.clone();
        }
        result
    }

    fn change(
        &mut self,
        pool: PoolId,
        change: &store::Change,
        outcome: Outcome,
    ) -> Result<(), Problem> {
        match change {
            store::Change::Close => self.record(pool, outcome, |_| {}),
            store::Change::ExtendDevice { device, size_bytes } => {
                self.record(pool, outcome, |joined| joined[usize::from(*device)].1 = *size_bytes)
            }
            store::Change::EvacuateDevice { device } => {
                self.record_leaving(pool, outcome, Some(usize::from(*device)))
            }
            store::Change::Evacuation(store::EvacuationChange::Cancel) => {
                self.record_leaving(pool, outcome, None)
            }
            store::Change::Evacuation(_) => self.record(pool, outcome, |_| {}),
            store::Change::RemoveDevice { device } => {
                let mut gone = None;
                let result = self.record(pool, outcome, |joined| {
                    gone = Some(joined.remove(usize::from(*device)).0);
                });
                self.leaving = self.leaving.filter(|_| gone.is_none());
                self.given_back.extend(gone);
                result
            }
            other => panic!("{other:?}"),
        }
    }

    fn record_leaving(
        &mut self,
        pool: PoolId,
        outcome: Outcome,
        leaving: Option<usize>,
    ) -> Result<(), Problem> {
        let mut is_recorded = false;
        let result = self.record(pool, outcome, |_| is_recorded = true);
        self.leaving = if is_recorded { leaving } else { self.leaving };
        result
    }

    /// What was answered so far is not looked at.
    pub(crate) fn forget_answers(&mut self) {
        self.answers.clear();
        self.claimed.clear();
        self.notes.clear();
    }

    /// A pool records something, or fails.
    fn record(
        &mut self,
        pool: PoolId,
        outcome: Outcome,
        change: impl FnOnce(&mut Vec<(String, u64)>),
    ) -> Result<(), Problem> {
        if outcome == Outcome::Vanishes {
            self.pools.remove(&pool);
        }
        let open = self.pools.get_mut(&pool).ok_or_else(gone)?;
        let serves = open.serves;
        open.serves &= !matches!(outcome, Outcome::FailsAfter | Outcome::FailsBefore);
        if serves && matches!(outcome, Outcome::Works | Outcome::FailsAfter) {
            change(self.recorded.get_mut(&open.devices[0]).expect("it is formatted"));
        }
        if serves && outcome == Outcome::Works { Ok(()) } else { Err(conflict(&"it failed")) }
    }

    /// The daemon stops and starts: it opens what is configured, and goes on with what was half done.
    fn restarted(&self) -> Self {
        let mut server = Self {
            next: self.array.clone(),
            pools: BTreeMap::new(),
            open: BTreeMap::new(),
            claims: Claims::default(),
            unavailable: BTreeSet::new(),
            opening: BTreeSet::new(),
            waits: Vec::new(),
            answers: Vec::new(),
            claimed: Vec::new(),
            ..self.clone()
        };
        for (name, configured) in &self.array.pools {
            let paths = configured.devices.iter().map(path);
            let devices = paths.take_while(|path| self.files.contains(path)).collect();
            server.last_pool += 1;
            server.pools.insert(
                PoolId(server.last_pool),
                OpenPool {
                    name: name.clone(),
                    devices,
                    serves: true,
                    is_joining: false,
                    is_extending: false,
                    volumes: 0,
                },
            );
        }
        server
    }

    /// What a start finds: every configured pool with all its devices.
    fn check_restart(&self) {
        let mut server = self.restarted();
        for pool in server.pools.values() {
            let joined = server.recorded.get(&pool.devices[0]);
            let joined = joined.unwrap_or_else(|| panic!("not formatted: {server:#?}"));
            let joined: Vec<&String> = joined.iter().map(|(device, _)| device).collect();
            let open: Vec<&String> = pool.devices.iter().take(joined.len()).collect();
            assert_eq!(open, joined, "a pool lacks a device: {server:#?}");
        }
        for name in self.array.pools.keys() {
            for stage in devices::settle(name, &server).unwrap() {
                server.begin(Ok(stage));
            }
        }
        server.finish();
        for (name, configured) in &server.array.pools {
            let found = server.pool(name).unwrap();
            let counts = (found.joined.len(), found.open_devices);
            assert_eq!(counts, (configured.devices.len(), configured.devices.len()));
        }
    }

    /// What holds when nobody waits any more.
    fn check_rest(&self, requests: usize) {
        assert_eq!(self.answers.len(), requests, "each is answered once: {self:#?}");
        assert!(self.open.is_empty(), "devices are left open: {self:#?}");
        assert_eq!(self.claimed.iter().flatten().count(), 0);
        let configured = self.array.pools.values().flat_map(|pool| pool.devices.iter());
        // Those of a pool that was deleted stay: what it held may be wanted.
        let of_pools = self.recorded.values().flatten().map(|(device, _)| device.clone());
        let known = configured.map(path).chain(of_pools).chain(self.given_back.clone());
        let known: BTreeSet<String> = known.collect();
        let left = self.files.difference(&known).next();
        assert_eq!(left, None, "a file is left: {self:#?}");
        for pool in self.pools.values() {
            assert!(self.array.pools.contains_key(&pool.name), "not configured: {self:#?}");
            assert!(!pool.is_joining && !pool.is_extending, "{self:#?}");
        }
    }
}

/// Tries every outcome of every step, in every order, and a restart before, in and after each.
pub(crate) fn explore(server: &Server, outcomes: &[Outcome], requests: usize) -> usize {
    server.check_restart();
    if server.waits.is_empty() {
        server.check_rest(requests);
        return 1;
    }
    let mut ends = 0;
    for position in 0..server.waits.len() {
        // The step is done, and nobody is told.
        let mut done = server.clone();
        if done.step(position, Outcome::Works) {
            done.waits.clear();
            done.check_restart();
        }
        for &outcome in outcomes {
            let mut next = server.clone();
            if next.step(position, outcome) {
                ends += explore(&next, outcomes, requests);
            }
        }
    }
    ends
}

pub(crate) fn wanted(name: &str, devices: &[&str]) -> CreatePool {
    CreatePool {
        name: name.to_owned(),
        devices: devices.iter().map(|device| format!("file:{device}")).collect(),
        size_bytes: Some(GIB),
        mirror: None,
    }
}

/// The file /p1, with others that hold the same blocks.
pub(crate) fn joining(others: &[&str]) -> AddDevice {
    AddDevice {
        device: "file:/p1".to_owned(),
        mirrored_by: others.iter().map(|other| format!("file:{other}")).collect(),
        size_bytes: Some(GIB),
    }
}
