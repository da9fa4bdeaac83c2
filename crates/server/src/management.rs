//! Management requests: checked against the configuration, carried out by the pools, saved, and
//! only then answered.

mod alerts;
mod comparisons;
mod controllers;
mod departures;
mod describe;
mod device_files;
mod devices;
mod effects;
mod export;
mod facts;
mod fail_back;
mod fencing;
mod following;
mod gathering;
mod giving_away;
mod handing_on;
mod hearing;
mod hosts;
mod incidents;
mod interchange;
mod jobs;
mod labels;
mod lun_rest;
mod maintenance;
mod metrics;
mod mirrors;
mod offload;
mod opening;
mod peers;
mod pool_import;
mod pool_records;
mod pools;
mod portals;
mod procedures;
mod resume;
mod routing;
mod saving;
mod schedules;
mod scrubs;
mod session_ends;
mod sessions;
mod snapshot_deletion;
mod snapshots;
mod spares;
mod statistics;
mod take_over;
mod tasks;
mod thresholds;
mod turns;
mod volumes;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use api::{Problem, Route};
use array::{ArrayError, Configuration, FreeLuns, Limited, Secrets};
use axum::body::Bytes;
use control::change::{Applied, Touched};
use control::claims::Claims;
use control::controllers::Standing;
use control::leftovers::Leftovers;
use control::members::Lost;
use control::owed_scrubs::OwedScrubs;
use control::precondition::Preconditions;
use control::procedures::{AfterChange, AfterSave, OpenDevices};
use control::reopening::Reopening;
use control::schedules::Schedules;
use control::snapshot_deletion::Relief;
use control::tasks::Tasks;
use control::{precondition, problems};
use serde::Serialize;
use serde::de::DeserializeOwned;
use store::{Failure, Health, Outcome};
use tokio::sync::oneshot;

use crate::controller::Controller;
use crate::data_directory::DataDirectory;
use crate::data_plane::{DataPlane, Ticket};
use crate::described::{Described, Written};
use crate::events::{Events, now};
use crate::guard::guarded;
use crate::http::{Audit, Call, Mailbox, Reply};
use crate::iscsi::Sessions;
use crate::limits::VOLUMES_PER_TICK;
use crate::link::Link;
use crate::options::{IoMethod, Options};
use crate::pool::OpenDevice;
use crate::pools::{PoolId, Round};
use crate::recovery_key::machine;
use crate::rod_token_spaces::is_hidden;
use comparisons::{Asked, compared};
use gathering::{Gather, Gatherings, Subject};
use giving_away::Left;
use incidents::Outputs;
use jobs::{Job, Jobs};
use lun_rest::LunRest;
use peers::Peers;
use pool_import::{Exporting, Importing};
use pool_records::{PoolRecords, PoolUpgrade};
use problems::{bad_request, failed, gone, internal, is_opening, refused};
use resume::{Quiescing, Resuming};
use saving::Saving;
use spares::Spares;
use tasks::work_number;
use thresholds::LastNotified;
use turns::Changing;

pub(crate) use describe::hexadecimal;
pub(crate) use gathering::Scene;
pub(crate) use jobs::Finished;
pub(crate) use pools::UnavailablePool;
pub(crate) use portals::{PortalChange, Portals};
pub(crate) use saving::SaveFailed;
pub(crate) use session_ends::SessionEnd;
pub(crate) use statistics::Readiness;

/// The reactor's memory of what the administrator made.
pub(crate) struct Management {
    /// What is in effect; it is on stable storage.
    pub(crate) configuration: Arc<Configuration>,
    /// The secrets that belong to it.
    pub(crate) secrets: Arc<Secrets>,
    saving: Saving,
    jobs: Jobs,
    /// Long lists that are being described.
    gatherings: Gatherings,
    pub(crate) portals: Portals,
    /// What hosts were told of pools, where the array has several controllers.
    standings: BTreeMap<String, Standing>,
    /// The other controllers.
    peers: Peers,
    pub(crate) io: IoMethod,
    /// How long a member of a mirror may take for one I/O.
    hang_limit: Duration,
    /// Memory for the maps of all pools, in bytes.
    memory_bytes: u64,
    /// Whether some of the data is watched for copies that hosts make themselves.
    sampling: bool,
    pub(crate) events: Events,
    audit: Arc<Audit>,
    told: LastNotified,
    /// Pools that delete scheduled snapshots by themselves, and how far that is.
    relief: Relief,
    /// Records of the array in its pools.
    records: PoolRecords,
    /// Answers of imports whose pools are being opened.
    importing: Importing,
    /// Whether it was told that nobody has the recovery key.
    told_recovery_key: bool,
    directory: Arc<DataDirectory>,
    /// Devices that were just made and are in no pool yet.
    open_devices: HashMap<OpenDevices, Vec<OpenDevice>>,
    /// What is known of volumes that no pool holds.
    leftovers: Leftovers,
    /// Which volumes are looked at next.
    round: Round,
    outputs: Outputs,
    tasks: Tasks,
    /// When all tasks were looked at for a list.
    tasks_looked_at: Option<Instant>,
    schedules: Schedules,
    /// Work that a pool has not finished yet.
    under_way: HashMap<Ticket, Work>,
    /// Pools of which something is being changed that excludes other changes.
    claims: Claims,
    /// Pools that are not open, and when they are tried again.
    reopening: Reopening,
    /// When the daemon started.
    started: Instant,
    /// Pools that could not be opened, and why.
    unavailable: HashMap<String, UnavailablePool>,
    /// When a part of a pool's journal was found lost, seconds since 1970, by the pool's name.
    journal_losses: HashMap<String, u64>,
    /// Pools that are opened anew as soon as their devices have come to rest.
    quiescing: Vec<Quiescing>,
    /// What was wrong with the files that were read at start, in sentences.
    findings: Vec<String>,
    /// Whether the daemon is stopping, so that a closed pool stays configured.
    closing: bool,
    /// Who must be told that their LUNs changed.
    luns_changed: Touched,
    /// Limits of volumes and hosts that are in effect and not told yet.
    limits_changed: Vec<Limited>,
    /// Members of mirrors that are lost, and when they are looked for.
    lost_members: Lost,
    owed_scrubs: OwedScrubs,
    /// Which spares are not there.
    spares: Spares,
    /// Whether membership lists of mirrors could not be kept the last time.
    is_witness_failing: bool,
    /// How long LUN numbers rest.
    lun_rest: LunRest,
    /// Sessions that the reactor has to end.
    session_ends: Vec<SessionEnd>,
}

/// What is to happen when a pool has finished something, and who waits for it.
struct Work {
    step: PoolStep,
    caller: Caller,
}

/// Who waits for the end of a piece of work that may take several steps.
#[derive(Default)]
struct Caller {
    /// Where the answer goes; to nobody, if the daemon began the work by itself.
    reply: Option<oneshot::Sender<Reply>>,
    /// The task that is shown of the work.
    task: Option<Ticket>,
    /// The pool that only this work may change, by name.
    claim: Option<String>,
    /// Whether a failure was told already, or is none of its own.
    is_quiet: bool,
    /// The task that is shown as the answer, whatever the work's own answer is.
    shows_task: Option<String>,
    /// While it is there no other controller changes the configuration.
    changing: Option<Changing>,
}

/// The last thing that a pool was asked to do.
enum PoolStep {
    /// A pool is opened that has no logical units yet.
    OpenPool {
        pool: PoolId,
        resumed: Resuming,
    },
    ResumePool {
        pool: PoolId,
        how: Resuming,
    },
    /// Part of a procedure of several steps.
    Procedure {
        pool: PoolId,
        then: AfterChange,
    },
    RunSchedule {
        pool: PoolId,
        run: control::schedules::Run,
    },
    ExportPool {
        pool: PoolId,
        stage: Exporting,
    },
    /// A pool is closed for another controller.
    SwitchPool {
        pool: PoolId,
    },
    /// Snapshots are compared.
    Compare {
        pool: PoolId,
        asked: Box<Asked>,
    },
}

impl PoolStep {
    /// The pool that was asked.
    const fn pool(&self) -> PoolId {
        match self {
            Self::OpenPool { pool, .. }
            | Self::ResumePool { pool, .. }
            | Self::Procedure { pool, .. }
            | Self::RunSchedule { pool, .. }
            | Self::ExportPool { pool, .. }
            | Self::SwitchPool { pool }
            | Self::Compare { pool, .. } => *pool,
        }
    }

    /// Whether a pool is being opened.
    const fn opens(&self) -> bool {
        matches!(self, Self::OpenPool { .. } | Self::ResumePool { .. })
    }

    /// What a procedure asked for.
    const fn procedure(&self) -> Option<&AfterChange> {
        match self {
            Self::Procedure { then, .. } => Some(then),
            Self::OpenPool { .. }
            | Self::ResumePool { .. }
            | Self::RunSchedule { .. }
            | Self::ExportPool { .. }
            | Self::SwitchPool { .. }
            | Self::Compare { .. } => None,
        }
    }
}

/// How far a piece of work is: it has its answer, or something must be done first.
enum Progress {
    Answer(Reply),
    /// A pool must finish something.
    Wait(Ticket, PoolStep),
    /// This version of the configuration must be on stable storage.
    Saved {
        version: u64,
        next: Next,
    },
    /// Something must be done that may take long, by another thread.
    Job(Job),
    /// The pool of that name must be opened, which somebody tries already.
    Join(String),
    /// Objects must be looked at, of which there may be many.
    Gather(Subject, Box<dyn Gather>),
}

/// What follows when the configuration is saved, or could not be.
enum Next {
    /// What `control` said when the change was made.
    Applied(Applied),
    /// Schedules are told, for which the change was made.
    Schedule(control::schedules::Change),
    /// A procedure of several steps goes on.
    Procedure(AfterSave),
    /// A pool was taken over, and is to be opened.
    Imported(Box<pool_import::Saved>),
    /// A pool was given away, with these volumes.
    Left { name: String, volumes: Vec<block::VolumeId>, left: Left },
}

impl Progress {
    /// A small answer.
    fn answer(value: &impl Serialize) -> Self {
        let written = serde_json::to_value(value).map(Described::Written);
        Self::Answer(written.map_err(|error| internal(&error)))
    }

    /// An answer that another thread makes.
    fn later<T: Serialize + 'static>(describe: impl FnOnce() -> T + Send + 'static) -> Self {
        Self::Answer(Ok(Described::later(describe)))
    }

    /// Work that nobody is told anything of but that it is done.
    const fn done() -> Self {
        Self::Answer(Ok(Described::Written(serde_json::Value::Null)))
    }
}

/// Whether the LUNs that nothing is mapped to are known to be free.
fn free_luns(directory: &DataDirectory) -> FreeLuns {
    if directory.lost_configuration() { FreeLuns::Unknown { since: 0 } } else { FreeLuns::Known }
}

impl Management {
    pub(crate) fn new(
        mut configuration: Configuration,
        secrets: Secrets,
        (directory, controller, link): (Arc<DataDirectory>, Controller, Option<Link>),
        (events, audit): (Events, Arc<Audit>),
        options: &Options,
        mailbox: Mailbox,
    ) -> anyhow::Result<Self> {
        hosts::fold_saved_initiators(&mut configuration);
        let (configuration, secrets) = (Arc::new(configuration), Arc::new(secrets));
        let limits = configuration.all_limits();
        let findings = directory.findings().clone();
        let free_luns = free_luns(&directory);
        let upgrade =
            if options.no_pool_upgrade { PoolUpgrade::Declined } else { PoolUpgrade::Allowed };
        let records = PoolRecords::new(directory.load_recovery_key()?, machine(), upgrade);
        let saving =
            Saving::start(Arc::clone(&directory), mailbox.clone(), &configuration, &secrets)?;
        let mut management = Self {
            configuration,
            secrets,
            saving,
            jobs: Jobs::new(mailbox),
            gatherings: Gatherings::default(),
            tasks: Tasks::of_controller(controller.number()),
            portals: Portals::of(controller),
            standings: BTreeMap::new(),
            peers: Peers::of(link, options.take_over_after.limit()),
            io: options.io,
            hang_limit: Duration::from_secs(options.hang_limit),
            memory_bytes: options.memory,
            sampling: !options.no_statistics,
            events,
            audit,
            told: LastNotified::default(),
            relief: Relief::default(),
            records,
            importing: Importing::default(),
            told_recovery_key: false,
            directory,
            open_devices: HashMap::new(),
            leftovers: Leftovers::default(),
            round: Round::default(),
            outputs: Outputs::default(),
            tasks_looked_at: None,
            schedules: Schedules::default(),
            under_way: HashMap::new(),
            claims: Claims::default(),
            reopening: Reopening::default(),
            started: Instant::now(),
            unavailable: HashMap::new(),
            journal_losses: HashMap::new(),
            quiescing: Vec::new(),
            findings,
            closing: false,
            luns_changed: Touched::Nobody,
            limits_changed: limits,
            lost_members: Lost::default(),
            owed_scrubs: OwedScrubs::default(),
            spares: Spares::default(),
            is_witness_failing: false,
            lun_rest: LunRest::new(options.lun_rest, free_luns),
            session_ends: Vec::new(),
        };
        management.tell_receivers();
        for finding in management.findings.clone() {
            management.events.note(api::Severity::Error, "configuration".to_owned(), finding);
        }
        Ok(management)
    }

    /// Begins to carry out a request. Whatever happens it is answered, once.
    pub(crate) fn call(&mut self, plane: &mut DataPlane, sessions: &Sessions, call: Call) {
        let Some(call) = self.hand_on(plane, call) else { return };
        let Some(call) = self.await_turn(plane, call) else { return };
        self.carry_out(plane, sessions, call);
    }

    /// Begins to carry out a request here, now.
    fn carry_out(&mut self, plane: &mut DataPlane, sessions: &Sessions, call: Call) {
        let Call { route, parameters, body, preconditions, reply, .. } = call;
        let parameters = Parameters(parameters);
        match route {
            Route::TestAlerts => return self.events.alerts.test(reply),
            Route::JoinController => return self.join_controller(&body, reply),
            Route::ForgetController => return self.forget_controller(&parameters, reply),
            _ => {}
        }
        let outcome = self.guarded(|management| {
            if !preconditions.is_empty() {
                // RFC 9110 13.2.1: what is wrong about the request itself goes first.
                check_body(route, &body)?;
                management.check_version((plane, sessions), route, &parameters, &preconditions)?;
            }
            management.check_controller(plane, route, &parameters)?;
            management.route(plane, sessions, route, &parameters, &body)
        });
        let claim = self.claims.take_new();
        let shows_task = tasks::is_shown_by(route).then(|| parameters.get("task").to_owned());
        let changing = self.begin_changing(route);
        let caller =
            Caller { reply: Some(reply), claim, shows_task, changing, ..Caller::default() };
        self.proceed(plane, outcome, caller);
    }

    /// Refuses a change of an object that is not what the caller thinks any more. What is about to
    /// be saved counts: of two who change the same version the second is refused.
    fn check_version(
        &mut self,
        (plane, sessions): (&mut DataPlane, &Sessions),
        route: Route,
        parameters: &Parameters,
        preconditions: &Preconditions,
    ) -> Result<(), Problem> {
        let object = route.row().object.ok_or_else(precondition::no_version)?;
        if preconditions.if_none_match.is_some() && !route.row().makes_its_object() {
            return Err(precondition::no_version());
        }
        let (configuration, secrets) = self.saving.next_with_secrets();
        let in_effect = std::mem::replace(&mut self.configuration, configuration);
        let secrets_in_effect = std::mem::replace(&mut self.secrets, secrets);
        let shown = self.route(plane, sessions, object, parameters, &Bytes::new());
        (self.configuration, self.secrets) = (in_effect, secrets_in_effect);
        let shown = shown.and_then(|progress| match progress {
            Progress::Answer(answer) => Ok(answer?.written().and_then(Written::into_value)),
            Progress::Wait(..)
            | Progress::Saved { .. }
            | Progress::Job(_)
            | Progress::Join(_)
            | Progress::Gather(..) => Ok(None),
        });
        preconditions.check_shown(shown)
    }

    /// A volume or snapshot of that name, of whichever kind it is; `kind` is what was asked for.
    fn find(
        &self,
        plane: &DataPlane,
        kind: &'static str,
        (pool_name, name): (&str, &str),
    ) -> Result<(PoolId, block::VolumeId), Problem> {
        let not_found = || {
            let name = format!("{pool_name}/{name}");
            refused(&ArrayError::NotFound { kind, name })
        };
        let Some((slot, pool)) = plane.pool_named(pool_name) else {
            // Who is told that a volume is not there may make another one.
            return Err(match self.unavailable.get(pool_name) {
                Some(pool) => pools::unknown_content(pool_name, &pool.reason),
                None => not_found(),
            });
        };
        if pool.health() == Health::Opening {
            return Err(is_opening(&pool.name));
        }
        let volume = pool.store.volume_named(name).filter(|volume| !is_hidden(volume));
        Ok((slot, volume.ok_or_else(not_found)?.spec.id))
    }

    /// Goes on with what waited for a pool.
    pub(crate) fn finished(
        &mut self,
        plane: &mut DataPlane,
        ticket: Ticket,
        result: Result<Outcome, Failure>,
    ) {
        let Some(result) = self.take_record_work(plane, ticket, result) else { return };
        let Some(Work { step, caller }) = self.under_way.remove(&ticket) else { return };
        let outcome = self.guarded(|management| management.finish(plane, step, result));
        self.proceed(plane, outcome, caller);
        self.look_after_records(plane);
    }

    /// Takes a piece of work as far as it goes now.
    fn proceed(
        &mut self,
        plane: &mut DataPlane,
        mut outcome: Result<Progress, Problem>,
        mut caller: Caller,
    ) {
        loop {
            match outcome {
                Err(problem) => return self.answer(caller, Err(problem)),
                Ok(Progress::Answer(answer)) => {
                    let answer = match (&answer, &caller.shows_task) {
                        (Ok(_), Some(task)) => self.describe_task(plane, task),
                        (Ok(_), None) | (Err(_), _) => answer,
                    };
                    return self.answer(caller, answer);
                }
                Ok(Progress::Wait(ticket, step)) => {
                    if caller.reply.is_some() && self.becomes_task(plane, ticket, &step) {
                        caller.task = Some(ticket);
                    }
                    self.under_way.insert(ticket, Work { step, caller });
                    return;
                }
                Ok(Progress::Saved { version, next }) if !self.saving.is_saved(version) => {
                    return self.saving.wait(version, next, caller);
                }
                Ok(Progress::Saved { next, .. }) => {
                    outcome =
                        self.guarded(|management| management.go_on_after(plane, next, Ok(())));
                }
                Ok(Progress::Gather(subject, objects)) => {
                    return self.gatherings.add(subject, objects, caller);
                }
                Ok(Progress::Join(pool)) => return self.join_try(plane, &pool, caller),
                Ok(Progress::Job(job)) if self.jobs.has_room() || job.has_own_thread() => {
                    return self.jobs.begin(job, caller);
                }
                Ok(Progress::Job(job)) => {
                    outcome = self.guarded(|management| management.refuse_job(plane, &job));
                }
            }
        }
    }

    /// Begins a piece of work that nobody waits for.
    fn begin(&mut self, plane: &mut DataPlane, outcome: Result<Progress, Problem>) {
        self.proceed(plane, outcome, Caller::default());
    }

    /// Tells whoever waits how a piece of work ended.
    fn answer(&mut self, caller: Caller, answer: Reply) {
        if let Some(ticket) = caller.task {
            self.tasks.answered(now(), work_number(ticket), answer.as_ref().err());
        }
        if let Some(pool) = caller.claim {
            self.claims.release(&pool);
        }
        drop(caller.changing);
        match (caller.reply, &answer) {
            (Some(reply), _) => deliver(reply, answer),
            (None, Err(problem)) if !caller.is_quiet => {
                tracing::warn!(problem = problem.detail, "work failed");
            }
            (None, Err(_)) => {}
            (None, Ok(_)) => {}
        }
    }

    /// Does work of the administrator's. If it panics it has failed, and the array goes on; but a
    /// panic while a pool or the device server is changed ends the process (see [`crate::guard`]).
    fn guarded(
        &mut self,
        work: impl FnOnce(&mut Self) -> Result<Progress, Problem>,
    ) -> Result<Progress, Problem> {
        guarded(|| work(self)).unwrap_or_else(|said| {
            // What hosts see is told to them again from the configuration, which is never half
            // changed.
            self.luns_changed = Touched::All;
            let message = format!(
                "a request of an administrator failed by a mistake in gantryd ({said}); the array \
                 goes on: please report it"
            );
            self.events.note(api::Severity::Error, "daemon".to_owned(), message);
            Err(internal(&"a mistake in gantryd: see 'gantry events'; hosts are served on"))
        })
    }

    /// Limits of volumes and hosts that changed since the last call.
    pub(crate) fn take_limits_changed(&mut self) -> Vec<Limited> {
        std::mem::take(&mut self.limits_changed)
    }

    /// Whose LUN maps or volumes changed since the last call.
    pub(crate) fn take_luns_changed(&mut self) -> Touched {
        std::mem::take(&mut self.luns_changed)
    }

    /// Housekeeping, from time to time: incidents, thresholds, schedules, tasks.
    pub(crate) fn keep_house(&mut self, plane: &mut DataPlane) {
        self.go_on_resuming(plane);
        self.go_on_opening(plane);
        self.give_up_late_jobs(plane);
        self.look_at_mirrors(plane);
        self.look_at_departures(plane);
        self.look_at_spares();
        self.tell_incidents(plane);
        self.check_fill(plane);
        self.check_schedules(plane);
        self.relieve_pools(plane);
        self.check_tasks(plane);
        self.collect_leftovers(plane);
        self.retry_records(plane);
        self.tell_recovery_key();
        self.save_again();
    }

    /// Looks at some volumes, others with each call: how full they are, whether they are sanitized.
    pub(crate) fn look_at_volumes(&mut self, plane: &mut DataPlane) {
        for (pool, id) in self.round.next(&plane.pools, VOLUMES_PER_TICK) {
            self.check_volume_fill(plane, pool, id);
            self.check_sanitize(plane, pool, id);
        }
    }

    /// Whether something is still under way that someone waits for.
    pub(crate) fn is_busy(&self) -> bool {
        !self.under_way.is_empty()
            || self.saving.is_busy()
            || self.jobs.is_busy()
            || self.records.is_busy()
    }

    /// Whether a pool still works on something that is changed.
    fn works_on(&self, pool: PoolId) -> bool {
        let mut of_pool = self.under_way.values().filter(|work| work.step.pool() == pool);
        of_pool.any(|work| !matches!(work.step, PoolStep::Compare { .. }))
    }

    /// Asks a pool for a change; 409 if it is served no more.
    fn wait_for(
        plane: &mut DataPlane,
        pool: PoolId,
        change: store::Change,
        step: PoolStep,
    ) -> Result<Progress, Problem> {
        let ticket = plane.begin(pool, change).ok_or_else(gone)?;
        Ok(Progress::Wait(ticket, step))
    }

    fn finish(
        &mut self,
        plane: &mut DataPlane,
        step: PoolStep,
        result: Result<Outcome, Failure>,
    ) -> Result<Progress, Problem> {
        if step.opens() && result.is_ok() {
            let pool = step.pool();
            if self.is_owner_unknown(plane, pool) {
                return Ok(Progress::Wait(self.wait_for_owner(plane, pool), step));
            }
            plane.admit(pool);
        }
        match step {
            PoolStep::OpenPool { pool, resumed } => {
                let opened = self.pool_opened(plane, pool, resumed, result)?;
                Ok(self.take_import_answer(plane, pool).unwrap_or(opened))
            }
            PoolStep::ResumePool { pool, how } => self.pool_resumed(plane, pool, how, result),
            PoolStep::Procedure { pool, then } => {
                if let (true, Err(failure)) = (then.closes(), &result) {
                    tracing::warn!(%failure, "a pool did not close cleanly");
                }
                let result = result.map(drop).map_err(|failure| failed(&failure));
                let admits = matches!(then, AfterChange::Admit(_));
                let departs = matches!(then, AfterChange::BeginToLeave(_) | AfterChange::Leave(_));
                let progress = self.pool_changed(plane, pool, then, result);
                if let Some(pool) = plane.pools.get(pool).filter(|_| admits || departs) {
                    self.look_at_resilvers(pool);
                    self.look_at_departure(pool);
                }
                progress
            }
            PoolStep::RunSchedule { pool, run } => Ok(self.schedule_ran(plane, pool, run, result)),
            PoolStep::Compare { asked, .. } => compared(*asked, result),
            PoolStep::SwitchPool { pool } => self.pool_given_up(plane, pool, result),
            PoolStep::ExportPool { pool, stage } => self.pool_exports(plane, (pool, stage), result),
        }
    }
}

/// The names in a request's path.
struct Parameters(HashMap<String, String>);

impl Parameters {
    /// The value of a name that the route table promises; anything else finds no object.
    fn get(&self, name: &str) -> &str {
        self.0.get(name).map_or("", String::as_str)
    }

    /// The names of a volume's pool and the volume.
    fn volume(&self) -> (&str, &str) {
        (self.get("pool"), self.get("volume"))
    }

    /// The names of a snapshot's pool and the snapshot.
    fn snapshot(&self) -> (&str, &str) {
        (self.get("pool"), self.get("snapshot"))
    }
}

fn read<T: DeserializeOwned>(body: &Bytes) -> Result<T, Problem> {
    serde_json::from_slice(body).map_err(|error| bad_request(&error))
}

/// Reads a body that may hold a secret, which an explanation of what is wrong could quote.
fn read_secret<T: DeserializeOwned>(body: &Bytes) -> Result<T, Problem> {
    serde_json::from_slice(body).map_err(|error| {
        let (line, column) = (error.line(), error.column());
        bad_request(&format!("the body does not fit at line {line} column {column}"))
    })
}

fn check_body(route: Route, body: &Bytes) -> Result<(), Problem> {
    api::body_fits(route, body).map_err(|place| {
        bad_request(&format!("the body is not what /v1/openapi.json describes: see {place}"))
    })
}

fn read_or_default<T: DeserializeOwned + Default>(body: &Bytes) -> Result<T, Problem> {
    if body.is_empty() { Ok(T::default()) } else { read(body) }
}

/// Answers; a caller who has gone away does not mind.
fn deliver(reply: oneshot::Sender<Reply>, answer: Reply) {
    let _ = reply.send(answer);
}
