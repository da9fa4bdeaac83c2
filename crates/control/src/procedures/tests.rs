//! A small server that performs what procedures ask for, and fails any of it; every procedure is
//! tried with every outcome of every step, and with a restart before and after each.

use std::cell::Cell;
use std::collections::BTreeMap;

use api::{CloneVolume, CreateSnapshots, CreateVolume, NewSnapshot, ProblemKind, RevertVolume};
use array::{BlockForm, Presentation};
use store::VolumeSpec;

use super::*;
use crate::exports::ExportEvent;
use crate::leftovers::Leftovers;
use crate::problems::{conflict, gone, internal, refused};
use crate::volume_lifecycle::{Named, VolumeEffect};

pub(crate) const NOW: u64 = 1_800_000_000;
pub(crate) const POOL: PoolId = PoolId(1);
pub(crate) const MIB: u64 = 1 << 20;
/// Volumes 'a' and 'b'.
const A: VolumeId = VolumeId(101);
const B: VolumeId = VolumeId(102);

/// A volume of a pool.
#[derive(Clone, Debug)]
pub(crate) struct Volume {
    pub(crate) spec: VolumeSpec,
    pub(crate) origin: Option<VolumeId>,
}

/// What comes of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// What was asked for.
    Works,
    /// Nothing: it is refused, or cannot be saved.
    Fails,
    /// The pool fails when it has recorded the change.
    FailsAfter,
    /// The pool fails before it has.
    FailsBefore,
    /// The pool is served no more when it is to be asked.
    Vanishes,
}

const OUTCOMES: [Outcome; 5] =
    [Outcome::Works, Outcome::Fails, Outcome::FailsAfter, Outcome::FailsBefore, Outcome::Vanishes];

/// The daemon, in small, with one pool 'p'.
#[derive(Clone, Debug)]
pub(crate) struct Server {
    /// What is saved and in effect.
    pub(crate) array: Configuration,
    /// With what was accepted since.
    pub(crate) next: Configuration,
    pub(crate) volumes: BTreeMap<VolumeId, Volume>,
    serves: bool,
    is_there: bool,
    /// What hosts reach: the size that they see.
    exported: BTreeMap<VolumeId, u64>,
    pub(crate) waits: Vec<Wait>,
    pub(crate) answers: Vec<Result<Answer, Problem>>,
    contents_replaced: Vec<VolumeId>,
    last_id: Cell<u64>,
    has_lost_a_save: bool,
}

impl View for Server {
    fn versions(&self) -> [&Configuration; 2] {
        [&self.array, &self.next]
    }

    fn ready(&self, pool: &str) -> Result<PoolId, Problem> {
        if self.serves && pool == "p" { Ok(POOL) } else { Err(conflict(&"the pool is read-only")) }
    }

    fn find(
        &self,
        kind: &'static str,
        pool: &str,
        name: &str,
    ) -> Result<(PoolId, VolumeId), Problem> {
        let mut named = self.volumes.values().filter(|volume| volume.spec.name == name);
        let found = named.next().filter(|_| pool == "p" && self.is_there);
        let missing = || ArrayError::NotFound { kind, name: name.to_owned() };
        found.map(|volume| (POOL, volume.spec.id)).ok_or_else(|| refused(&missing()))
    }

    fn serves(&self, _: PoolId) -> bool {
        self.serves
    }

    fn volume(&self, _: PoolId, id: VolumeId) -> Option<FoundVolume> {
        let Volume { spec, origin } = self.volumes.get(&id).filter(|_| self.is_there)?;
        let (size_bytes, is_snapshot) = (spec.size_bytes, spec.snapshot);
        Some(FoundVolume { size_bytes, is_snapshot, origin: *origin })
    }

    fn is_going(&self, id: VolumeId) -> bool {
        self.changing().any(|after| after.deletes() == Some(id))
    }

    fn size_to_be(&self, id: VolumeId) -> Option<u64> {
        let sizes = self.changing().filter_map(AfterChange::sizes);
        sizes.filter(|sizing| sizing.id == id).map(|sizing| sizing.size_bytes).min()
    }

    fn new_id(&self) -> Result<VolumeId, Problem> {
        self.last_id.set(self.last_id.get() + 1);
        Ok(VolumeId(self.last_id.get()))
    }

    fn pool(&self, _: &str) -> Option<FoundPool> {
        None
    }

    fn open_devices(&self, _: PoolId) -> Vec<DeviceName> {
        Vec::new()
    }

    fn devices_in_use(&self, _: PoolId) -> Vec<DeviceName> {
        Vec::new()
    }

    fn places_of(&self, _: PoolId, _: usize) -> Vec<usize> {
        Vec::new()
    }

    fn mirrors(&self, _: PoolId) -> Vec<store::MirrorStatus> {
        Vec::new()
    }

    fn is_held(&self, _: VolumeId) -> bool {
        true
    }

    fn is_unavailable(&self, _: &str) -> bool {
        false
    }

    fn check_free(&self, _: &str) -> Result<(), Problem> {
        Ok(())
    }

    fn is_stopping(&self) -> bool {
        false
    }

    fn new_uuid(&self) -> Result<[u8; 16], Problem> {
        Ok([0; 16])
    }
}

impl Server {
    /// A pool with volumes 'a' of 8 MiB, 'b' of 4 MiB with 4 KiB blocks, and 'a.old', a snapshot of
    /// 'a' of 2 MiB.
    pub(crate) fn new() -> Self {
        let array = Configuration::new("iqn.2026-11.io.gantry:test".to_owned());
        let mut server = Self {
            next: array.clone(),
            array,
            volumes: BTreeMap::new(),
            serves: true,
            is_there: true,
            exported: BTreeMap::new(),
            waits: Vec::new(),
            answers: Vec::new(),
            contents_replaced: Vec::new(),
            last_id: Cell::new(100),
            has_lost_a_save: false,
        };
        server.add("a", 8 * MIB, None);
        server.add("b", 4 * MIB, None);
        server.add("a.old", 2 * MIB, Some(A));
        let blocks = Presentation { blocks: BlockForm::B4096, ..Presentation::default() };
        server.array.set_presentation(B, blocks);
        server.next = server.array.clone();
        server
    }

    fn add(&mut self, name: &str, size_bytes: u64, origin: Option<VolumeId>) {
        let id = self.new_id().unwrap();
        let spec = VolumeSpec {
            id,
            name: name.to_owned(),
            size_bytes,
            thick: false,
            naa: array::naa_identifier(id),
            snapshot: origin.is_some(),
            created: NOW,
        };
        self.volumes.insert(id, Volume { spec, origin });
        self.exported.insert(id, size_bytes);
    }

    pub(crate) fn id(&self, name: &str) -> VolumeId {
        self.find("volume", "p", name).unwrap().1
    }

    fn changing(&self) -> impl Iterator<Item = &AfterChange> {
        self.waits.iter().filter_map(|wait| match wait {
            Wait::Change(_, _, after) => Some(after),
            _ => None,
        })
    }

    /// Begins what a request asks for.
    pub(crate) fn begin(&mut self, request: Result<Stage, Problem>) {
        match request {
            Ok(stage) => self.take(stage),
            Err(problem) => self.answers.push(Err(problem)),
        }
    }

    fn take(&mut self, Stage { effects, wait }: Stage) {
        effects.into_iter().for_each(|effect| self.perform(effect));
        match wait {
            Wait::End(answer) => self.answers.push(answer),
            Wait::Save(change, after) => match change.apply(&mut self.next) {
                Ok(()) => self.waits.push(Wait::Save(change, after)),
                Err(error) => self.answers.push(Err(refused(&error))),
            },
            wait => self.waits.push(wait),
        }
    }

    fn perform(&mut self, effect: Effect) {
        match effect {
            Effect::Tell(ExportEvent::Resized(id, size_bytes)) => {
                if let Some(seen) = self.exported.get_mut(&id) {
                    *seen = size_bytes;
                }
            }
            Effect::Tell(ExportEvent::ContentReplaced(id)) => self.contents_replaced.push(id),
            Effect::Tell(ExportEvent::ReservationsHidden(..)) => {}
            Effect::Volume(VolumeEffect::Serve(_, id)) => {
                if let Some(found) = self.volume(POOL, id) {
                    self.exported.insert(id, found.size_bytes);
                }
            }
            Effect::Volume(VolumeEffect::Withdraw(_, id)) => drop(self.exported.remove(&id)),
            Effect::Volume(VolumeEffect::Forget(_, id)) => {
                assert!(!self.volumes.contains_key(&id), "it is gone");
            }
            Effect::Volume(VolumeEffect::ShowAll | VolumeEffect::Deleted(..)) => {}
            effect => panic!("{effect:?}"),
        }
    }

    /// Lets one of those that wait go on. Returns whether that outcome is possible.
    pub(crate) fn step(&mut self, position: usize, outcome: Outcome) -> bool {
        if !self.is_next(position) {
            return false;
        }
        match self.waits.remove(position) {
            Wait::Save(change, after) => match outcome {
                Outcome::Works => {
                    change.apply(&mut self.array).unwrap();
                    self.take(after.saved(Ok(())));
                }
                Outcome::Fails => self.lose_saves(after),
                Outcome::FailsAfter | Outcome::FailsBefore | Outcome::Vanishes => return false,
            },
            Wait::Change(pool, change, after) => {
                let result = self.change(&change, outcome);
                let stage = after.changed(pool, result, &*self);
                self.take(stage);
            }
            other => unreachable!("no volume waits for {other:?}"),
        }
        true
    }

    /// Changes of the configuration are saved in the order in which they were made.
    fn is_next(&self, position: usize) -> bool {
        let is_save = |wait: &Wait| matches!(wait, Wait::Save(..));
        !is_save(&self.waits[position]) || !self.waits[..position].iter().any(is_save)
    }

    /// Nothing that was not saved has ever been.
    fn lose_saves(&mut self, after: AfterSave) {
        self.has_lost_a_save = true;
        self.next = self.array.clone();
        let waits = std::mem::take(&mut self.waits);
        let (saves, others): (Vec<_>, Vec<_>) =
            waits.into_iter().partition(|wait| matches!(wait, Wait::Save(..)));
        self.waits = others;
        let afters = saves.into_iter().map(|wait| match wait {
            Wait::Save(_, after) => after,
            other => unreachable!("it is a save: {other:?}"),
        });
        for after in std::iter::once(after).chain(afters) {
            self.take(after.saved(Err(internal(&"the disk is full"))));
        }
    }

    fn change(&mut self, change: &store::Change, outcome: Outcome) -> Result<(), Problem> {
        if !self.is_there {
            return Err(gone());
        }
        match outcome {
            Outcome::Works if self.serves => self.make(change),
            Outcome::Works | Outcome::Fails => Err(conflict(&"the pool is full")),
            Outcome::FailsAfter => {
                let made = if self.serves { self.make(change) } else { Ok(()) };
                self.serves = false;
                made.and(Err(conflict(&"the device failed")))
            }
            Outcome::FailsBefore => {
                self.serves = false;
                Err(conflict(&"the device failed"))
            }
            Outcome::Vanishes => {
                (self.serves, self.is_there) = (false, false);
                self.exported.clear();
                Err(gone())
            }
        }
    }

    /// The pool changes, or refuses to.
    fn make(&mut self, change: &store::Change) -> Result<(), Problem> {
        let missing = || conflict(&"the pool has no such volume");
        let is_taken = |name: &str| self.volumes.values().any(|other| other.spec.name == name);
        match change {
            store::Change::CreateVolume(spec) => {
                if is_taken(&spec.name) {
                    return Err(conflict(&"the name is taken"));
                }
                let volume = Volume { spec: spec.clone(), origin: None };
                self.volumes.insert(spec.id, volume);
            }
            store::Change::CloneVolumes(members) => {
                for (source, spec) in members {
                    if is_taken(&spec.name) || !self.volumes.contains_key(source) {
                        return Err(missing());
                    }
                }
                for (source, spec) in members {
                    let size_bytes = self.volumes[source].spec.size_bytes;
                    let spec = VolumeSpec { size_bytes, ..spec.clone() };
                    self.volumes.insert(spec.id, Volume { spec, origin: Some(*source) });
                }
            }
            store::Change::RevertVolume { volume, source } => {
                let size = self.volumes.get(source).ok_or_else(missing)?.spec.size_bytes;
                self.volumes.get_mut(volume).ok_or_else(missing)?.spec.size_bytes = size;
            }
            store::Change::DeleteVolume(id) => drop(self.volumes.remove(id).ok_or_else(missing)?),
            store::Change::ResizeVolume { id, size_bytes } => {
                self.volumes.get_mut(id).ok_or_else(missing)?.spec.size_bytes = *size_bytes;
            }
            store::Change::RenameVolume { id, name } => {
                if is_taken(name) {
                    return Err(conflict(&"the name is taken"));
                }
                self.volumes.get_mut(id).ok_or_else(missing)?.spec.name.clone_from(name);
            }
            other => panic!("{other:?}"),
        }
        Ok(())
    }

    /// The daemon stops and starts: it finds what is saved, and what the pool has recorded.
    fn restarted(&self) -> Self {
        let exported = self.volumes.iter().map(|(&id, volume)| (id, volume.spec.size_bytes));
        let mut server = Self {
            exported: exported.collect(),
            next: self.array.clone(),
            serves: true,
            is_there: true,
            waits: Vec::new(),
            ..self.clone()
        };
        server.collect();
        server
    }

    /// Forgets what is left of volumes that are not there.
    fn collect(&mut self) {
        let mut leftovers = Leftovers::default();
        leftovers.begin();
        while leftovers.is_looking() {
            let change = leftovers.look(&self.array, |id| self.volumes.contains_key(&id));
            change.into_iter().for_each(|change| change.apply(&mut self.array).unwrap());
        }
        self.next = self.array.clone();
    }

    /// What holds at every moment.
    fn check(&self) {
        for (id, seen) in &self.exported {
            let volume = self.volumes.get(id).filter(|_| self.serves);
            if let Some(volume) = volume {
                assert!(*seen <= volume.spec.size_bytes, "hosts see what is not there: {self:#?}");
            }
        }
        for (id, Volume { spec, origin }) in &self.volumes {
            let wants_4096 = spec.name == "new" || [Some(*id), *origin].contains(&Some(B));
            let is_as_asked =
                !wants_4096 || self.array.presentation(*id).blocks == BlockForm::B4096;
            assert!(is_as_asked, "a volume looks otherwise than was asked: {self:#?}");
            let is_locked = self.array.locked_until(*id).is_some();
            assert!(is_locked || !spec.name.ends_with(".locked"), "not locked: {self:#?}");
        }
    }

    /// What holds when nobody waits any more.
    fn check_rest(&self, requests: usize) {
        assert_eq!(self.answers.len(), requests, "each is answered once: {self:#?}");
        if !self.serves {
            return;
        }
        let there: Vec<VolumeId> = self.volumes.keys().copied().collect();
        let shown: Vec<VolumeId> = self.exported.keys().copied().collect();
        assert_eq!(shown, there, "hosts reach what is there: {self:#?}");
        if !self.has_lost_a_save {
            self.check_nothing_left();
        }
    }

    fn check_nothing_left(&self) {
        let known = self.array.known_volumes_after(None, usize::MAX);
        let left = known.into_iter().find(|id| !self.volumes.contains_key(id));
        assert_eq!(left, None, "something is known of a volume that is not there: {self:#?}");
    }
}

/// Tries every outcome of every step, in every order, and a restart before, in and after each.
fn explore(server: &Server, outcomes: &[Outcome], requests: usize) -> usize {
    server.check();
    let restarted = server.restarted();
    restarted.check();
    restarted.check_nothing_left();
    if server.waits.is_empty() {
        server.check_rest(requests);
        return 1;
    }
    let mut ends = 0;
    for position in (0..server.waits.len()).filter(|&position| server.is_next(position)) {
        let mut done = server.clone();
        match done.waits.remove(position) {
            Wait::Save(change, _) => change.apply(&mut done.array).unwrap(),
            Wait::Change(_, change, _) if done.serves => drop(done.make(&change)),
            _ => {}
        }
        let restarted = done.restarted();
        restarted.check();
        restarted.check_nothing_left();
        for &outcome in outcomes {
            let mut next = server.clone();
            if next.step(position, outcome) {
                ends += explore(&next, outcomes, requests);
            }
        }
    }
    ends
}

type Request = fn(&Server) -> Result<Stage, Problem>;

fn tags() -> array::Tags {
    array::Tags::from([("env".to_owned(), "test".to_owned())])
}

fn create(server: &Server) -> Result<Stage, Problem> {
    let request = CreateVolume {
        pool: "p".to_owned(),
        name: "new".to_owned(),
        size_bytes: MIB,
        thick: false,
        block_size: api::BlockSize::B4096,
        tags: tags(),
    };
    volume_lifecycle::create(&request, NOW, server)
}

fn shrink_to(server: &Server, size_bytes: u64) -> Result<Stage, Problem> {
    volume_lifecycle::resize(("p", "a"), &api::ResizeVolume { size_bytes, shrink: true }, server)
}

fn take_snapshots(server: &Server) -> Result<Stage, Problem> {
    let new = |volume: &str| NewSnapshot {
        volume: volume.to_owned(),
        name: format!("{volume}.locked"),
        tags: tags(),
    };
    let request = CreateSnapshots {
        pool: "p".to_owned(),
        snapshots: vec![new("a"), new("b")],
        locked_until: Some(NOW + 60),
    };
    snapshots::create(&request, NOW, server)
}

fn clone(server: &Server) -> Result<Stage, Problem> {
    let request = CloneVolume { name: "b.copy".to_owned(), thick: false, tags: tags() };
    snapshots::clone_volume(("p", "b"), &request, NOW, server)
}

fn revert(server: &Server) -> Result<Stage, Problem> {
    let request = RevertVolume { snapshot: "a.old".to_owned(), force: false };
    snapshots::revert(("p", "a"), &request, server)
}

/// Requests that are tried, by name.
const REQUESTS: [(&str, Request); 10] = [
    ("create", create),
    ("grow", |server| shrink_to(server, 16 * MIB)),
    ("shrink", |server| shrink_to(server, 4 * MIB)),
    ("shrink more", |server| shrink_to(server, MIB)),
    ("delete b", |server| volume_lifecycle::delete(Named::Volume("p", "b"), NOW, server)),
    ("delete a", |server| volume_lifecycle::delete(Named::Volume("p", "a"), NOW, server)),
    ("snapshots", take_snapshots),
    ("clone", clone),
    ("revert", revert),
    ("rename", |server| {
        volume_lifecycle::rename(
            Named::Volume("p", "b"),
            &api::Rename { name: "c".to_owned() },
            server,
        )
    }),
];

#[test]
fn whatever_fails_and_whenever_the_daemon_restarts_what_is_left_is_known() {
    for (name, request) in REQUESTS {
        let mut server = Server::new();
        let stage = request(&server);
        assert!(stage.is_ok(), "{name}");
        server.begin(stage);
        let ends = explore(&server, &OUTCOMES, 1);
        assert!(ends >= 5, "{name}: {ends} ways");
    }
}

/// Two requests, one after the other or one between the steps of the other, in every order.
#[test]
fn two_requests_at_a_time_do_each_what_they_would_alone_or_are_refused() {
    let outcomes = [Outcome::Works, Outcome::Fails];
    let mut ends = 0;
    for (_, first) in REQUESTS {
        for (_, second) in REQUESTS {
            let mut server = Server::new();
            server.begin(first(&server));
            let mut begun = vec![server.clone()];
            // The second one comes at any step of the first.
            while !server.waits.is_empty() {
                server.step(0, Outcome::Works);
                begun.push(server.clone());
            }
            for mut server in begun {
                let stage = second(&server);
                server.begin(stage);
                ends += explore(&server, &outcomes, 2);
            }
        }
    }
    assert!(ends > 1000, "{ends}");
}

#[test]
fn a_procedure_that_works_answers_with_what_it_made() {
    let work = |request: Request| {
        let mut server = Server::new();
        server.begin(request(&server));
        while !server.waits.is_empty() {
            server.step(0, Outcome::Works);
        }
        (server.answers.pop().unwrap().unwrap(), server)
    };
    let (answer, server) = work(create);
    assert_eq!(answer, Answer::Volume(POOL, server.id("new")));
    let (answer, server) = work(take_snapshots);
    let made = ["a.locked", "b.locked"].map(|name| server.id(name));
    assert_eq!(answer, Answer::Snapshots(POOL, made.to_vec()));
    let (answer, server) = work(revert);
    assert_eq!(answer, Answer::Volume(POOL, A));
    assert_eq!(server.contents_replaced, [A]);
    assert_eq!(server.exported[&A], 2 * MIB);
    let (answer, server) =
        work(|server| volume_lifecycle::delete(Named::Volume("p", "b"), NOW, server));
    assert_eq!(answer, Answer::Done);
    assert_eq!(server.array.known_volumes_after(None, usize::MAX), [].into());
}

/// The change is made before the second is asked, so a shrink that ends shows hosts no size that the
/// next shrink is about to take away.
#[test]
fn of_two_shrinks_at_a_time_hosts_see_the_smaller_from_the_beginning() {
    let mut server = Server::new();
    server.begin(shrink_to(&server, 4 * MIB));
    server.begin(shrink_to(&server, MIB));
    server.step(0, Outcome::Works);
    assert_eq!(server.exported[&A], MIB);
    server.step(0, Outcome::Fails);
    assert_eq!(server.exported[&A], 4 * MIB);
}

#[test]
fn nothing_is_asked_of_a_volume_that_is_just_being_deleted() {
    let mut server = Server::new();
    server.begin(volume_lifecycle::delete(Named::Volume("p", "a"), NOW, &server));
    let rename = |server: &Server| {
        volume_lifecycle::rename(
            Named::Volume("p", "a"),
            &api::Rename { name: "c".to_owned() },
            server,
        )
    };
    let delete = |server: &Server| volume_lifecycle::delete(Named::Volume("p", "a"), NOW, server);
    let refusals = [rename(&server), delete(&server), revert(&server), shrink_to(&server, MIB)];
    for refusal in refusals {
        assert!(refusal.unwrap_err().is(ProblemKind::Conflict));
    }
    server.step(0, Outcome::Fails);
    assert!(rename(&server).is_ok(), "it was not deleted");
}

/// A pool that fails may have made the snapshots: they are locked when it is opened again. They are
/// forgotten only if it did not.
#[test]
fn a_pool_that_fails_leaves_the_locks_of_snapshots_that_it_may_have_made() {
    for (outcome, is_made) in [(Outcome::FailsAfter, true), (Outcome::FailsBefore, false)] {
        let mut server = Server::new();
        server.begin(take_snapshots(&server));
        server.step(0, Outcome::Works);
        server.step(0, outcome);
        assert!(server.answers[0].is_err());
        assert_eq!(server.array.known_volumes_after(None, usize::MAX).len(), 3);
        let server = server.restarted();
        assert_eq!(
            server.array.known_volumes_after(None, usize::MAX).len(),
            if is_made { 3 } else { 1 }
        );
    }
}
