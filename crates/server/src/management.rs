//! What the administrator asks for: checked against the configuration, carried out by the pools,
//! saved, and only then answered.

mod alerts;
mod describe;
mod devices;
mod hosts;
mod identification;
mod interchange;
mod metrics;
mod offload;
mod operations;
mod pools;
mod portals;
mod problems;
mod schedules;
mod scrubs;
mod snapshots;
mod statistics;
mod tasks;
mod thresholds;
mod volumes;

use std::collections::HashMap;
use std::sync::Arc;

use api::{Problem, Route};
use array::{ArrayError, Configuration, Secrets};
use axum::body::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;
use store::{Failure, Outcome};
use tokio::sync::oneshot;

use crate::core::{Core, Ticket};
use crate::data_directory::DataDirectory;
use crate::events::Events;
use crate::http::{Answer, Call, etag};
use crate::options::{IoMethod, Options};
use crate::token_spaces::is_hidden;
use identification::describe_identification;
use problems::{bad_request, internal, refused};
use tasks::Tasks;
use thresholds::Told;

pub(crate) use describe::hexadecimal;
pub(crate) use identification::to_scsi as scsi_identification;
pub(crate) use pools::UnavailablePool;
pub(crate) use portals::{PortalChange, Portals};

/// The reactor's memory of what the administrator made.
pub(crate) struct Management {
    pub(crate) configuration: Configuration,
    pub(crate) secrets: Secrets,
    directory: Arc<DataDirectory>,
    pub(crate) portals: Portals,
    pub(crate) io: IoMethod,
    /// Memory for the maps of all pools, in bytes.
    memory_bytes: u64,
    /// Whether some of the data is watched for copies that hosts make themselves.
    sampling: bool,
    pub(crate) events: Events,
    told: Told,
    tasks: Tasks,
    /// What went wrong with the last run of each schedule, where something did.
    schedule_problems: HashMap<String, String>,
    /// Work that a pool has not finished yet.
    under_way: HashMap<Ticket, Work>,
    /// Pools that could not be opened, and why.
    unavailable: HashMap<String, UnavailablePool>,
    /// Whether the daemon is stopping, so that a closed pool stays configured.
    closing: bool,
    /// Whether sessions must be told that their LUNs changed.
    luns_changed: bool,
}

/// What is to happen when a pool has finished something, and who waits for it.
struct Work {
    step: Step,
    reply: Option<oneshot::Sender<Answer>>,
}

/// The last thing that a pool was asked to do.
enum Step {
    OpenPool { pool: usize },
    CreatePool { pool: usize, configuration: array::Pool },
    ExtendPool { pool: usize, device: usize, size_bytes: u64 },
    AddDevice { pool: usize },
    ClosePool { pool: usize },
    CreateVolume { pool: usize, id: block::VolumeId },
    ResizeVolume { pool: usize, id: block::VolumeId },
    DeleteVolume { pool: usize, id: block::VolumeId },
    CreateSnapshots { pool: usize, ids: Vec<block::VolumeId> },
    RevertVolume { pool: usize, id: block::VolumeId },
    RunSchedule { pool: usize, name: String, ids: Vec<block::VolumeId> },
}

/// The beginning of an answer: there it is, or a pool must finish something first.
enum Progress {
    Answer(Answer),
    Wait(Ticket, Step),
}

impl Progress {
    fn answer(value: &impl Serialize) -> Self {
        Self::Answer(serde_json::to_value(value).map_err(|error| internal(&error)))
    }
}

impl Management {
    pub(crate) fn new(
        configuration: Configuration,
        secrets: Secrets,
        directory: Arc<DataDirectory>,
        events: Events,
        options: &Options,
    ) -> Self {
        let mut management = Self {
            configuration,
            secrets,
            directory,
            portals: Portals::default(),
            io: options.io,
            memory_bytes: options.memory,
            sampling: !options.no_statistics,
            events,
            told: Told::default(),
            tasks: Tasks::default(),
            schedule_problems: HashMap::new(),
            under_way: HashMap::new(),
            unavailable: HashMap::new(),
            closing: false,
            luns_changed: false,
        };
        management.tell_receivers();
        management
    }

    /// Begins to carry out a request.
    pub(crate) fn call(&mut self, core: &mut Core, sessions: Vec<api::Session>, call: Call) {
        let Call { route, parameters, body, if_match, reply } = call;
        if route == Route::TestAlerts {
            return self.events.alerts.test(reply);
        }
        let parameters = Parameters(parameters);
        if let Some(if_match) = if_match {
            // RFC 9110 13.2.1: what is wrong about the request itself goes first.
            let checked = check_body(route, &body)
                .and_then(|()| self.check_version(core, route, &parameters, &if_match));
            if let Err(problem) = checked {
                return deliver(reply, Err(problem));
            }
        }
        match self.route(core, sessions, route, &parameters, &body) {
            Ok(Progress::Wait(ticket, step)) => {
                self.tasks.waits(core, ticket, &step);
                self.under_way.insert(ticket, Work { step, reply: Some(reply) });
            }
            Ok(Progress::Answer(answer)) => deliver(reply, answer),
            Err(problem) => deliver(reply, Err(problem)),
        }
    }

    /// Refuses a change of an object that is not what the caller thinks any more.
    fn check_version(
        &mut self,
        core: &mut Core,
        route: Route,
        parameters: &Parameters,
        if_match: &str,
    ) -> Result<(), Problem> {
        let object = route.object().ok_or_else(etag::no_version)?;
        let not_there = |problem: Problem| match problem.status {
            404 => etag::not_there(),
            _ => problem,
        };
        let shown = self.route(core, Vec::new(), object, parameters, &Bytes::new());
        match shown.map_err(not_there)? {
            Progress::Answer(answer) => etag::check(if_match, &answer.map_err(not_there)?),
            Progress::Wait(..) => Err(etag::no_version()),
        }
    }

    /// Goes on with what waited for a pool.
    pub(crate) fn finished(
        &mut self,
        core: &mut Core,
        ticket: Ticket,
        result: Result<Outcome, Failure>,
    ) {
        let Some(Work { step, reply }) = self.under_way.remove(&ticket) else { return };
        let answer = self.finish(core, step, result);
        self.tasks.answered(ticket, &answer);
        if let Some(reply) = reply {
            deliver(reply, answer);
        }
    }

    /// Whether LUN maps or volumes changed since the last call.
    pub(crate) fn take_luns_changed(&mut self) -> bool {
        std::mem::take(&mut self.luns_changed)
    }

    /// Looks after what happens by itself: thresholds, schedules, tasks.
    pub(crate) fn look_around(&mut self, core: &mut Core) {
        self.check_fill(core);
        self.check_schedules(core);
        self.check_tasks(core);
    }

    /// Whether a pool still works on something that someone waits for.
    pub(crate) fn is_busy(&self) -> bool {
        !self.under_way.is_empty()
    }

    fn route(
        &mut self,
        core: &mut Core,
        sessions: Vec<api::Session>,
        route: Route,
        parameters: &Parameters,
        body: &Bytes,
    ) -> Result<Progress, Problem> {
        match route {
            Route::ShowTarget => Ok(Progress::answer(&self.describe_target(core, sessions))),
            Route::ListPools => Ok(Progress::answer(&self.describe_pools(core))),
            Route::CreatePool => self.create_pool(core, &read(body)?),
            Route::ShowPool => {
                Ok(Progress::answer(&self.describe_pool(core, parameters.get("pool"))?))
            }
            Route::DeletePool => self.delete_pool(core, parameters.get("pool")),
            Route::ListVolumes => Ok(Progress::answer(&self.describe_volumes(core))),
            Route::CreateVolume => self.create_volume(core, &read(body)?),
            Route::ShowVolume => {
                let (pool, id) = find_volume(core, parameters)?;
                Ok(Progress::answer(&self.describe_volume(core, pool, id)?))
            }
            Route::ResizeVolume => self.resize_volume(core, parameters, &read(body)?),
            Route::DeleteVolume => self.delete_volume(core, parameters),
            Route::MapVolume => self.map_volume(core, parameters, &read_or_default(body)?),
            Route::UnmapVolume => self.unmap_volume(core, parameters),
            Route::SetReservations => self.set_reservations(core, parameters, read(body)?),
            Route::SetPathState => self.set_path_state(core, parameters.get("group"), read(body)?),
            Route::ListHosts => Ok(Progress::answer(&self.describe_hosts())),
            Route::ShowHost => Ok(Progress::answer(&self.show_host(parameters.get("host"))?)),
            Route::ListSessions => Ok(Progress::answer(&sessions)),
            Route::ListEvents => Ok(Progress::answer(&self.describe_events())),
            Route::ExtendPool
            | Route::AddDevice
            | Route::SetPoolThresholds
            | Route::SetVolumeThresholds
            | Route::ShowIdentification
            | Route::SetIdentification
            | Route::SetVolumeIdentification
            | Route::DeleteVolumeIdentification
            | Route::ShowScrub
            | Route::StartScrub
            | Route::StopScrub => self.route_space(core, route, parameters, body),
            Route::CloneVolume
            | Route::RevertVolume
            | Route::ListSnapshots
            | Route::CreateSnapshots
            | Route::ShowSnapshot
            | Route::DeleteSnapshot => self.route_snapshots(core, route, parameters, body),
            Route::ShowOffload
            | Route::ExplainOffload
            | Route::ShowLive
            | Route::ListSeries
            | Route::ShowHistory
            | Route::ListLocks
            | Route::ListReclaim
            | Route::ListForecasts
            | Route::ShowMetrics
            | Route::ShowHealth
            | Route::ShowReadiness => self.route_statistics(core, &sessions, route, parameters),
            _ if operations::has(route) => self.route_operations(core, route, parameters, body),
            _ => self.route_access(route, parameters, body),
        }
    }

    /// Devices, thresholds, scrubs, and what volumes say of vendor and product.
    fn route_space(
        &mut self,
        core: &mut Core,
        route: Route,
        parameters: &Parameters,
        body: &Bytes,
    ) -> Result<Progress, Problem> {
        let pool = parameters.get("pool");
        match route {
            Route::ExtendPool => self.extend_pool(core, pool, &read(body)?),
            Route::AddDevice => self.add_device(core, pool, &read(body)?),
            Route::SetPoolThresholds => self.set_pool_thresholds(core, pool, read(body)?),
            Route::ShowScrub => self.show_scrub(core, pool),
            Route::StartScrub => self.start_scrub(core, pool, &read_or_default(body)?),
            Route::StopScrub => self.stop_scrub(core, pool),
            Route::ShowIdentification => {
                Ok(Progress::answer(&describe_identification(self.configuration.identification)))
            }
            Route::SetIdentification => self.set_identification(core, &read(body)?),
            Route::SetVolumeIdentification => {
                self.set_volume_identification(core, parameters, &read(body)?)
            }
            Route::DeleteVolumeIdentification => {
                self.delete_volume_identification(core, parameters)
            }
            _ => self.set_volume_thresholds(core, parameters, read(body)?),
        }
    }

    /// Snapshots, and what is made of them.
    fn route_snapshots(
        &mut self,
        core: &mut Core,
        route: Route,
        parameters: &Parameters,
        body: &Bytes,
    ) -> Result<Progress, Problem> {
        match route {
            Route::CloneVolume => self.clone_volume(core, parameters, &read(body)?),
            Route::RevertVolume => self.revert_volume(core, parameters, &read(body)?),
            Route::ListSnapshots => Ok(Progress::answer(&self.describe_snapshots(core))),
            Route::CreateSnapshots => self.create_snapshots(core, &read(body)?),
            Route::ShowSnapshot => Ok(Progress::answer(&self.describe_snapshot(core, parameters)?)),
            _ => self.delete_snapshot(core, parameters),
        }
    }

    /// Who may come in, and where.
    fn route_access(
        &mut self,
        route: Route,
        parameters: &Parameters,
        body: &Bytes,
    ) -> Result<Progress, Problem> {
        match route {
            Route::CreateHost => self.create_host(read_secret(body)?),
            Route::ChangeHost => self.change_host(parameters.get("host"), read_secret(body)?),
            Route::DeleteHost => self.delete_host(parameters.get("host")),
            Route::ListGroups => Ok(Progress::answer(&self.describe_groups())),
            Route::ShowGroup => Ok(Progress::answer(&self.show_group(parameters.get("group"))?)),
            Route::SetGroup => self.set_group(parameters.get("group"), &read(body)?),
            Route::DeleteGroup => self.delete_group(parameters.get("group")),
            Route::ListPortals => Ok(Progress::answer(&self.describe_portals())),
            Route::ShowPortal => Ok(Progress::answer(&self.show_portal(parameters.get("portal"))?)),
            Route::CreatePortal => self.create_portal(&read(body)?),
            Route::DeletePortal => self.delete_portal(parameters.get("portal")),
            Route::ShowDiscovery => Ok(Progress::answer(&self.describe_discovery())),
            Route::SetDiscoveryChap => self.set_discovery_chap(read_secret(body)?),
            Route::DeleteDiscoveryChap => self.delete_discovery_chap(),
            _ => unreachable!("every other route is in the table above"),
        }
    }

    fn finish(&mut self, core: &mut Core, step: Step, result: Result<Outcome, Failure>) -> Answer {
        match step {
            Step::OpenPool { pool } => self.pool_opened(core, pool, result),
            Step::CreatePool { pool, configuration } => {
                self.pool_created(core, pool, configuration, result)
            }
            Step::ExtendPool { pool, device, size_bytes } => {
                self.pool_extended(core, pool, device, size_bytes, result)
            }
            Step::AddDevice { pool } => self.device_added(core, pool, result),
            Step::ClosePool { pool } => self.pool_closed(core, pool, result),
            Step::CreateVolume { pool, id } => self.volume_created(core, pool, id, result),
            Step::ResizeVolume { pool, id } => self.volume_resized(core, pool, id, result),
            Step::DeleteVolume { pool, id } => self.volume_deleted(core, pool, id, result),
            Step::CreateSnapshots { pool, ids } => self.snapshots_created(core, pool, &ids, result),
            Step::RevertVolume { pool, id } => self.volume_reverted(core, pool, id, result),
            Step::RunSchedule { pool, name, ids } => {
                self.schedule_ran(core, pool, &name, &ids, result)
            }
        }
    }

    /// Makes a change to the configuration and saves it; when either fails nothing has changed.
    fn change<T>(
        &mut self,
        change: impl FnOnce(&mut Configuration) -> Result<T, ArrayError>,
    ) -> Result<T, Problem> {
        self.change_with_secrets(|configuration, _| change(configuration))
    }

    /// The same with secrets. They are saved first: after a crash in between, a host whose secret
    /// is not there yet, or no more, is kept out.
    fn change_with_secrets<T>(
        &mut self,
        change: impl FnOnce(&mut Configuration, &mut Secrets) -> Result<T, ArrayError>,
    ) -> Result<T, Problem> {
        let (mut changed, mut secrets) = (self.configuration.clone(), self.secrets.clone());
        let value = change(&mut changed, &mut secrets).map_err(|error| refused(&error))?;
        if secrets != self.secrets {
            self.directory
                .save_secrets(&secrets)
                .map_err(|error| internal(&format!("{error:#}")))?;
            self.secrets = secrets;
        }
        if changed != self.configuration {
            self.directory.save(&changed).map_err(|error| internal(&format!("{error:#}")))?;
            self.configuration = changed;
            self.luns_changed = true;
        }
        Ok(value)
    }
}

/// The names in a request's path.
struct Parameters(HashMap<String, String>);

impl Parameters {
    /// The value of a name that the route table promises; anything else finds no object.
    fn get(&self, name: &str) -> &str {
        self.0.get(name).map_or("", String::as_str)
    }
}

fn find_volume(core: &Core, parameters: &Parameters) -> Result<(usize, block::VolumeId), Problem> {
    find(core, "volume", parameters.get("pool"), parameters.get("volume"))
}

/// A volume or snapshot of that name, of whichever kind it is; `kind` is what was asked for.
fn find(
    core: &Core,
    kind: &'static str,
    pool: &str,
    name: &str,
) -> Result<(usize, block::VolumeId), Problem> {
    let not_found = || {
        let name = format!("{pool}/{name}");
        refused(&ArrayError::NotFound { kind, name })
    };
    let (slot, pool) = core.pool_named(pool).ok_or_else(not_found)?;
    let is_meant = |volume: &&store::Volume| volume.name == name && !is_hidden(volume);
    let volume = pool.store.volumes().find(is_meant).ok_or_else(not_found)?;
    Ok((slot, volume.id))
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
fn deliver(reply: oneshot::Sender<Answer>, answer: Answer) {
    let _ = reply.send(answer);
}
