//! Opens pools: all at the start, and those that are not open again when their devices come.
//!
//! A thread looks at the devices of a pool and opens them, however long that takes; then the engine
//! reads them. `control` says when a pool is tried again, and what a try may open. Pools that are not
//! open keep their logical units, which are not ready.

use std::os::unix::fs::MetadataExt;
use std::thread;
use std::time::{Duration, Instant};

use api::Problem;
use array::{KnownMember, PoolDevice};
use block::DeviceError;
use control::reopening::{Asked, Caution, Sight, Told, Trouble};
use control::take_over::{OwnerBeat, Sighting, Taking, rest_of_lease};
use device::{Breaking, OpenError};
use store::{Failure, OpenMode};

use super::departures::evacuation_rate;
use super::fencing::{is_held, lock_holders};
use super::pools::{UnavailablePool, pool_unavailable};
use super::problems::{conflict, gone, refused};
use super::resume::{Resuming, loss_of};
use super::take_over::sighting_of;
use super::{Caller, Job, Management, PoolStep, Progress, deliver};
use crate::data_plane::{DataPlane, Ticket};
use crate::limits::DEVICE_STALL_MIN;
use crate::pool::{Absent, Knowledge, Pool, PoolOptions, Slots};
use crate::pools::PoolId;

/// Which pool is opened anew, and how.
#[derive(Clone)]
struct Place {
    name: String,
    uuid: [u8; 16],
    mode: OpenMode,
    asked: Asked,
    /// Where its logical units are, if they are there already.
    slot: Option<PoolId>,
    ticket: Ticket,
    /// When the try began.
    began: Duration,
    /// From which controller it takes the pool, though nobody asked for that.
    taking: Option<Taking>,
}

/// A pool of which another thread opens the devices.
pub(super) struct Opening {
    place: Place,
    configuration: array::Pool,
    options: PoolOptions,
    caution: Caution,
    /// What it had open: whoever has a device open keeps others out.
    old: Slots,
    knowledge: Knowledge,
    /// What is written into the devices at once, where others look for it.
    first_beat: Option<OwnerBeat>,
}

/// What came of that.
pub(super) struct Opened {
    place: Place,
    sights: Option<Vec<Sight>>,
    pool: Result<Box<Pool>, NotOpened>,
}

/// Why a pool is not open.
struct NotOpened {
    trouble: Trouble,
    problem: Box<Problem>,
    lock_holders: Vec<api::LockHolder>,
    /// Whose heart beats in them.
    sighting: Option<Sighting>,
    /// Whether every device is there.
    reaches_all: bool,
}

impl NotOpened {
    fn because(trouble: Trouble, problem: Problem) -> Self {
        let (lock_holders, sighting) = (Vec::new(), None);
        Self { trouble, problem: Box::new(problem), lock_holders, sighting, reaches_all: false }
    }

    /// The first device that could not be opened is told, and who holds any of them. Those that are not there are no
    /// matter for whether the pool is to be taken from its owner, if a witness is: then it may be opened without them.
    fn by(absent: &Absent, configuration: &array::Pool) -> Self {
        let errors = || absent.iter().map(|(_, error)| error);
        let held = errors().find(|error| is_held(error)).or(errors().next());
        let (trouble, problem) = match held {
            Some(error) => (trouble_of_device(error), conflict(error)),
            None => (Trouble::Absent, gone()),
        };
        let lock_holders = errors().flat_map(lock_holders).collect();
        let reaches_all = errors().all(is_held);
        let missing = absent.iter().filter(|(_, error)| is_missing(error)).map(|(place, _)| *place);
        let missing: Vec<usize> = missing.collect();
        let may_lack = reaches_witness(configuration, &missing);
        let sighting = sighting_of(errors().filter(|error| !may_lack || !is_missing(error)));
        Self { trouble, problem: Box::new(problem), lock_holders, sighting, reaches_all }
    }
}

impl Opening {
    /// The name of the pool.
    pub(super) fn name(&self) -> &str {
        &self.place.name
    }

    pub(super) fn run(self) -> Opened {
        let Self { place, configuration, options, caution, old, knowledge, first_beat } = self;
        drop(old);
        let sights: Vec<Sight> = configuration.devices.iter().map(sight).collect();
        let pool =
            caution.admits(&sights).map_err(|trouble| left_alone(&place.name, trouble, &sights));
        let is_broken = knowledge.breaking != Breaking::NONE;
        let pool = pool.and_then(|()| {
            let tag = place.ticket.tag();
            let opened = Pool::open(&place.name, &configuration, options, knowledge, tag);
            let mut opened = opened.map_err(|absent| NotOpened::by(&absent, &configuration))?;
            let beats = if is_broken { opened.read_beats() } else { Vec::new() };
            first_beat.iter().for_each(|beat| opened.announce(beat));
            thread::sleep(rest_of_lease(&beats, place.taking.as_ref()));
            Ok(Box::new(opened))
        });
        Opened { place, sights: Some(sights), pool }
    }

    /// What is told if it cannot be tried.
    pub(super) fn failed(&self) -> impl FnOnce(Problem) -> Opened + Send + use<> {
        let place = self.place.clone();
        move |problem| {
            let pool = Err(NotOpened::because(Trouble::Absent, problem));
            Opened { place, sights: None, pool }
        }
    }
}

/// Whether a device is not there, or does not answer: as of a machine that is gone.
fn is_missing(error: &OpenError) -> bool {
    match error {
        OpenError::Missing(_) | OpenError::Os { .. } => true,
        OpenError::Held { .. }
        | OpenError::InUse { .. }
        | OpenError::Exists(_)
        | OpenError::WrongKind { .. }
        | OpenError::TooSmall { .. } => false,
    }
}

/// Whether a pool has witnesses, and none of them is among the devices in these places.
fn reaches_witness(configuration: &array::Pool, missing: &[usize]) -> bool {
    let witnesses = || configuration.mirroring.members.iter().filter(|known| known.is_witness);
    let place = |known: &KnownMember| {
        configuration.devices.iter().position(|device| device.device == known.device)
    };
    let is_there = |known| place(known).is_some_and(|place| !missing.contains(&place));
    witnesses().next().is_some() && witnesses().all(is_there)
}

/// Looks at a device without opening it. May take long.
fn sight(device: &PoolDevice) -> Sight {
    let Some(path) = device.device.file_path() else { return Sight::Other };
    match std::fs::metadata(path) {
        Ok(found) if found.is_file() => Sight::File {
            identity: (found.dev(), found.ino()),
            size_bytes: found.len(),
            modified_ns: i128::from(found.mtime()) * 1_000_000_000 + i128::from(found.mtime_nsec()),
        },
        Ok(_) => Sight::Other,
        Err(_) => Sight::Absent,
    }
}

fn silence(pool: &str) -> String {
    format!(
        "a device of pool '{pool}' does not answer while it is opened: the pool opens by itself when \
         the device does"
    )
}

fn left_alone(pool: &str, trouble: Trouble, sights: &[Sight]) -> NotOpened {
    let detail = format!(
        "files of pool '{pool}' are still being written, by a copy that is under way or by another \
         process that uses them: it is opened when they rest"
    );
    let reaches_all = !sights.contains(&Sight::Absent);
    NotOpened { reaches_all, ..NotOpened::because(trouble, conflict(&detail)) }
}

fn trouble_of_device(error: &OpenError) -> Trouble {
    match error {
        OpenError::InUse { .. } | OpenError::Held { .. } => Trouble::Held,
        OpenError::Missing(_) | OpenError::Os { .. } => Trouble::Absent,
        OpenError::Exists(_) | OpenError::WrongKind { .. } | OpenError::TooSmall { .. } => {
            Trouble::Unfit
        }
    }
}

/// What kind of trouble an engine has that could not open its pool; `absent` is the device that it
/// may lack.
pub(super) fn trouble_of(failure: &Failure, absent: &[(usize, OpenError)]) -> Trouble {
    match failure {
        Failure::Open(store::OpenError::JournalLost(_)) => Trouble::Undecided,
        Failure::Open(
            store::OpenError::Missing { .. } | store::OpenError::MembersMissing { .. },
        ) => absent.first().map_or(Trouble::Unfit, |(_, error)| trouble_of_device(error)),
        Failure::Open(store::OpenError::Device(DeviceError::Fenced)) => Trouble::Fenced,
        Failure::Open(store::OpenError::Device(_))
        | Failure::Block(_)
        | Failure::Change(_)
        | Failure::Compare(_) => Trouble::Absent,
        Failure::Open(_) => Trouble::Unfit,
    }
}

impl Management {
    /// Begins to open every configured pool.
    pub(crate) fn open_pools(&mut self, plane: &mut DataPlane) {
        self.announce_absent_volumes(plane);
        self.tell_access(plane);
        for name in self.configuration.pools.keys().cloned().collect::<Vec<_>>() {
            self.try_by_itself(plane, &name);
        }
    }

    /// Whether hosts are not admitted yet: pools are being opened, and their devices answer.
    pub(crate) fn is_starting(&self, plane: &DataPlane) -> bool {
        let now = self.clock();
        let is_stalled = |pool: PoolId| plane.pools.get(pool).is_some_and(Pool::is_stalled);
        self.reopening.names().any(|name| self.reopening.is_fresh(name, now))
            || self.under_way.values().any(|work| !is_stalled(work.step.pool()))
            || self.records.is_starting(is_stalled)
            || self.saving.is_busy()
            || self.jobs.is_busy()
    }

    /// Time since the daemon started.
    pub(super) fn clock(&self) -> Duration {
        self.started.elapsed()
    }

    /// Tries pools again that are not open, and tells of tries that do not end.
    pub(super) fn go_on_opening(&mut self, plane: &mut DataPlane) {
        if self.closing {
            return;
        }
        let now = self.clock();
        for name in self.reopening.due(now) {
            if self.claims.check_free(&name).is_ok() && self.may_take(&name) {
                self.try_by_itself(plane, &name);
            }
        }
        for (name, told) in self.reopening.late(now) {
            self.tell_silent(plane, &name, told);
        }
    }

    fn try_by_itself(&mut self, plane: &mut DataPlane, name: &str) {
        let is_read_only = self.configuration.pools.get(name).is_some_and(|pool| pool.read_only);
        let mode = if is_read_only { OpenMode::ReadOnly } else { OpenMode::ReadWrite };
        let begun = self.try_to_open(plane, name, (mode, Asked::ByNobody), RESPECTFUL);
        self.proceed(plane, begun, Caller { is_quiet: true, ..Caller::default() });
    }

    /// Opens a pool with its devices, in another thread, after closing those that it had.
    pub(super) fn try_to_open(
        &mut self,
        plane: &mut DataPlane,
        name: &str,
        (mode, asked): (OpenMode, Asked),
        (lacking, breaking): (Lacking, Breaking),
    ) -> Result<Progress, Problem> {
        let knowledge = self.knowledge(plane, lacking, breaking);
        let opening = self.begin_opening(plane, name, (mode, asked), knowledge)?;
        Ok(Progress::Job(Job::Open(Box::new(opening))))
    }

    /// Takes a pool from another controller, which is fenced before anything is read.
    fn take_pool(
        &mut self,
        plane: &mut DataPlane,
        name: &str,
        mode: OpenMode,
        taking: Taking,
    ) -> Result<Progress, Problem> {
        let breaking = Breaking { holders: taking.holders.clone() };
        let knowledge = self.knowledge(plane, Lacking::Nothing, breaking);
        let mut opening = self.begin_opening(plane, name, (mode, Asked::ByNobody), knowledge)?;
        opening.place.taking = Some(taking);
        Ok(Progress::Job(Job::Open(Box::new(opening))))
    }

    /// What is known of mirrors when a pool is opened, and whose locks are broken.
    pub(super) fn knowledge(
        &self,
        plane: &DataPlane,
        lacking: Lacking,
        breaking: Breaking,
    ) -> Knowledge {
        let (witnessed, allow_degraded) = (plane.witness.known(), lacking == Lacking::Members);
        let shared = self.controller().is_one_of_several();
        Knowledge { witnessed, shared, allow_degraded, breaking }
    }

    fn begin_opening(
        &mut self,
        plane: &mut DataPlane,
        name: &str,
        (mode, asked): (OpenMode, Asked),
        knowledge: Knowledge,
    ) -> Result<Opening, Problem> {
        let configuration = self.configuration.pool(name).map_err(|error| refused(&error))?.clone();
        let slot = plane.pool_named(name).map(|(slot, _)| slot);
        let old = slot.and_then(|slot| plane.pools.get_mut(slot));
        let old = old.map(|mut pool| std::mem::take(&mut pool.devices)).unwrap_or_default();
        let evacuation_rate = evacuation_rate(&configuration);
        let usual = self.pool_options(self.configuration.pools.len());
        let options = PoolOptions { mode, evacuation_rate, ..usual };
        let caution = self.reopening.begin(name, asked, self.clock());
        let (name, uuid, ticket) = (name.to_owned(), configuration.uuid, plane.new_ticket());
        let (began, taking) = (self.clock(), None);
        let place = Place { name, uuid, mode, asked, slot, ticket, began, taking };
        let first_beat = self.next_beat(uuid).filter(|_| mode != OpenMode::ReadOnly);
        Ok(Opening { place, configuration, options, caution, old, knowledge, first_beat })
    }

    /// Goes on when the devices of a pool were opened, or could not be.
    pub(super) fn devices_opened(
        &mut self,
        plane: &mut DataPlane,
        Opened { place, sights, pool: opened }: Opened,
    ) -> Result<Progress, Problem> {
        let Place { name, uuid, mode, asked, slot, ticket, began, taking } = place;
        let configured = self.configuration.pools.get(&name);
        if self.closing || configured.is_none_or(|pool| pool.uuid != uuid) {
            self.in_background(move || drop(opened));
            return Err(gone());
        }
        if let Some(sights) = sights {
            self.reopening.looked(&name, sights);
        }
        if let Err(problem) = self.claims.check_free(&name) {
            self.in_background(move || drop(opened));
            self.reopening.failed(&name, Trouble::Unchanged, self.clock());
            return Err(problem);
        }
        let mut opened = match opened {
            Ok(opened) => *opened,
            Err(NotOpened { trouble, problem, lock_holders, sighting, reaches_all }) => {
                if self.reopening.take_asked(&name, trouble) {
                    let asked = (mode, Asked::ByAdministrator);
                    return self.try_to_open(plane, &name, asked, RESPECTFUL);
                }
                let reason = problem.detail.clone();
                let unavailable = UnavailablePool {
                    lock_holders,
                    reaches_all,
                    ..UnavailablePool::because(reason)
                };
                self.set_unavailable(&name, unavailable, trouble);
                let is_asked = asked == Asked::ByAdministrator;
                let taking =
                    if is_asked { None } else { self.consider_taking(&name, sighting, began) };
                return match taking {
                    Some(taking) => self.take_pool(plane, &name, mode, taking),
                    None => Err(*problem),
                };
            }
        };
        self.reopening.recovers(&name);
        if taking.is_some() {
            self.peers.take_over.taken += 1;
        }
        if self.controller().is_one_of_several() {
            opened.doubt(self.lease(), self.clock());
        }
        let how = match asked {
            Asked::ByNobody => Resuming::ByItself,
            Asked::ByAdministrator => Resuming::Asked(mode),
        };
        let Some(pool) = slot else {
            let pool = plane.pools.insert(opened);
            return Ok(Progress::Wait(ticket, PoolStep::OpenPool { pool, resumed: how }));
        };
        let mut served = plane.pools.get_mut(pool).ok_or_else(gone)?;
        let rod_token_space = served.rod_token_space;
        *served = Pool { rod_token_space, ..opened };
        Ok(Progress::Wait(ticket, PoolStep::ResumePool { pool, how }))
    }

    /// Whoever wants a pool that is just being tried waits for that, one at a time.
    pub(super) fn join_try(&mut self, plane: &DataPlane, name: &str, caller: Caller) {
        if self.reopening.is_late(name) {
            return self.answer(caller, Err(pool_unavailable(name, &silence(name))));
        }
        self.reopening.ask(name);
        match self.caller_of_try(plane, name) {
            Some(place) if place.reply.is_none() => *place = caller,
            Some(_) | None => {
                let detail = format!("pool '{name}' is just being opened: try again in a moment");
                self.answer(caller, Err(conflict(&detail)));
            }
        }
    }

    fn caller_of_try(&mut self, plane: &DataPlane, name: &str) -> Option<&mut Caller> {
        if self.jobs.opens(name) {
            return self.jobs.caller_of_opening(name);
        }
        let slot = plane.pool_named(name).map(|(slot, _)| slot)?;
        let mut works = self.under_way.values_mut();
        let work = works.find(|work| work.step.pool() == slot && work.step.opens());
        work.map(|work| &mut work.caller)
    }

    /// The devices of a pool do not answer while they are opened: whoever waits is told, once, and the
    /// pool is opened when they do.
    fn tell_silent(&mut self, plane: &DataPlane, name: &str, told: Told) {
        let detail = silence(name);
        let reply = self.caller_of_try(plane, name).and_then(|caller| caller.reply.take());
        if let Some(reply) = reply {
            deliver(reply, Err(pool_unavailable(name, &detail)));
        }
        if told == Told::Now {
            self.alarm(name, format!("is not available: {detail}"));
        }
        self.unavailable.insert(name.to_owned(), UnavailablePool::because(detail));
    }

    /// A pool is open, or configured no more.
    pub(super) fn forget_unavailable(&mut self, plane: &mut DataPlane, name: &str) -> bool {
        self.unavailable.remove(name);
        self.peers.take_over.watch.forget(name);
        let was_told = self.reopening.forget(name);
        self.forget_mirrors_of_others(plane);
        self.settle_absent_volumes(plane);
        was_told
    }

    /// What is kept of mirrors of pools that this array has no more is forgotten, also of those that were
    /// not open when they were deleted.
    pub(super) fn forget_mirrors_of_others(&self, plane: &mut DataPlane) {
        let configured = self.configuration.pools.values().map(|pool| pool.uuid);
        let open = plane.pools.iter().map(|(_, pool)| pool.uuid);
        let known: Vec<[u8; 16]> = configured.chain(open).collect();
        plane.witness.retain_pools(|uuid| known.contains(&uuid));
    }
}

impl Pool {
    /// Whether a device does not answer.
    fn is_stalled(&self) -> bool {
        let now = Instant::now();
        let oldest = |device| self.device_times.oldest(device, now);
        (0..self.devices.len()).any(|device| oldest(device) >= DEVICE_STALL_MIN)
    }
}

/// Whether mirrors are opened without members of which it is not known whether they are newer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lacking {
    /// They are not.
    Nothing,
    /// An administrator wants it.
    Members,
}

/// Nothing is opened without members that may be newer, and nobody's lock is broken.
const RESPECTFUL: (Lacking, Breaking) = (Lacking::Nothing, Breaking::NONE);

/// What the engine of a pool that could not be opened says.
pub(super) fn unavailable(reason: String, failure: &Failure) -> UnavailablePool {
    UnavailablePool { loss: loss_of(failure), ..UnavailablePool::because(reason) }
}
