//! Routes and life cycle of pools: create, open at start, delete, close.

use api::{CreatePool, DeviceCounters, Problem, ProblemKind};
use array::{Presentation, naa_identifier};
use block::{DeviceKind, VolumeId};
use control::exports::{Export, ExportEvent};
use control::pools::Unopened;
use control::procedures::AfterChange;
use control::reopening::Trouble;
use control::{devices, pools};
use store::{ChangeError, Failure, Health, OpenMode, Outcome};

use super::facts::Facts;
use super::interchange::flag;
use super::opening::{trouble_of, unavailable};
use super::problems::{conflict, failed, gone, is_opening, problem, refused};
use super::resume::Resuming;
use super::{Management, Parameters, Progress, Touched};
use crate::data_plane::{DataPlane, Ticket};
use crate::events::now;
use crate::pool::{Pool, PoolOptions};
use crate::pools::PoolId;
use crate::rod_token_spaces::is_hidden;

/// A pool that is configured but cannot be served.
#[derive(Clone, Debug)]
pub(crate) struct UnavailablePool {
    pub(crate) reason: String,
    /// What of its journal is lost, if that is why.
    pub(crate) loss: Option<store::JournalLoss>,
    /// Who holds its devices, if that is why.
    pub(crate) lock_holders: Vec<api::LockHolder>,
    /// Whether every device was there when they were last opened, though another one may hold it.
    pub(crate) reaches_all: bool,
}

impl UnavailablePool {
    pub(super) fn because(reason: String) -> Self {
        Self { reason, loss: None, lock_holders: Vec::new(), reaches_all: false }
    }
}

impl Management {
    /// Tells front ends of all mapped volumes, before it is known which pool has them.
    pub(super) fn announce_absent_volumes(&self, plane: &mut DataPlane) {
        for volume in self.configuration.mapped_volumes() {
            self.tell_absent(plane, volume);
        }
    }

    /// Front ends hear of a mapped volume whose pool is not open yet.
    pub(super) fn tell_absent(&self, plane: &mut DataPlane, volume: VolumeId) {
        let export = absent_export(volume, self.configuration.presentation(volume));
        plane.exports.tell(&ExportEvent::Absent(volume, export));
    }

    pub(super) fn pool_opened(
        &mut self,
        plane: &mut DataPlane,
        pool: PoolId,
        how: Resuming,
        result: Result<Outcome, Failure>,
    ) -> Result<Progress, Problem> {
        if let Err(failure) = result {
            let closed = self.stop_serving(plane, pool).ok_or_else(gone)?;
            let configuration = self.configuration.pools.get(&closed.name);
            let reason = configuration.map(|configuration| closed.explain(&failure, configuration));
            let reason = reason.unwrap_or_default();
            let trouble = trouble_of(&failure, &closed.absent);
            self.set_unavailable(&closed.name, unavailable(reason, &failure), trouble);
            self.close_in_background(closed);
            return Err(failed(&failure));
        }
        plane.delete_old_rod_token_spaces(pool);
        self.settle_devices(plane, pool);
        let served = plane.pools.get(pool).ok_or_else(gone)?;
        let volumes = served.store.volumes().filter(|volume| !is_hidden(volume));
        let volumes: Vec<_> = volumes.map(|volume| volume.spec.id).collect();
        tracing::info!(pool = served.name, volumes = volumes.len(), "pool is open");
        for id in volumes {
            self.serve_volume(plane, pool, id);
        }
        self.luns_changed = Touched::All;
        let mut served = plane.pools.get_mut(pool).ok_or_else(gone)?;
        served.look_at_backing();
        let name = served.name.clone();
        drop(served);
        let was_told = self.forget_unavailable(plane, &name);
        self.tell_access_anew(plane, &name);
        self.leftovers.begin();
        self.note_journal_loss(&name, self.journal_loss(plane, &name).is_some());
        if was_told {
            self.tell_resumed(&name, how);
        }
        self.keep_mode(plane, &name, how)
    }

    /// Once every pool is open, a mapped volume that none of them holds does not come any more.
    pub(super) fn settle_absent_volumes(&self, plane: &mut DataPlane) {
        let is_opening = |pool: &Pool| pool.health() == Health::Opening;
        let all_tried = self.unavailable.is_empty() && self.reopening.is_empty();
        if all_tried && !plane.pools.iter().any(|(_, pool)| is_opening(pool)) {
            plane.exports.tell(&ExportEvent::AllPoolsOpen);
        }
    }

    /// Goes on with devices that were configured, but had not joined when the daemon stopped.
    pub(super) fn settle_devices(&mut self, plane: &mut DataPlane, pool: PoolId) {
        let Some(name) = plane.pools.get(pool).map(|pool| pool.name.clone()) else { return };
        self.close_refused_members(plane, pool);
        match devices::settle(&name, &Facts::new(self, plane)) {
            Ok(stages) => {
                for stage in stages {
                    let begun = self.take(plane, stage);
                    self.begin(plane, begun);
                }
            }
            Err(problem) => self.begin(plane, Err(problem)),
        }
    }

    pub(super) fn create_pool(
        &mut self,
        plane: &mut DataPlane,
        request: &CreatePool,
    ) -> Result<Progress, Problem> {
        self.check_known_to_others(plane, request)?;
        self.begin_procedure(plane, |view| pools::create(request, view))
    }

    /// That other controllers would hear of what is changed in a new pool.
    fn check_known_to_others(
        &self,
        plane: &DataPlane,
        request: &CreatePool,
    ) -> Result<(), Problem> {
        let is_memory = |device: &String| {
            pools::parse_device(device).is_ok_and(|name| name.kind() == DeviceKind::Memory)
        };
        if !request.devices.iter().any(is_memory) || self.has_all_pools(plane) {
            return Ok(());
        }
        Err(conflict(
            &"another controller has a pool of this array, and hears nothing of what is changed in a pool on memory: \
              name devices that last",
        ))
    }

    /// How one of so many pools is run.
    pub(super) fn pool_options(&self, pools: usize) -> PoolOptions {
        let memory_bytes = self.memory_bytes / pools.max(1) as u64;
        let mode = OpenMode::ReadWrite;
        let (io, sampling, hang_limit) = (self.io, self.sampling, self.hang_limit);
        let evacuation_rate = u64::MAX;
        PoolOptions { io, memory_bytes, sampling, mode, hang_limit, evacuation_rate }
    }

    pub(super) fn delete_pool(
        &mut self,
        plane: &mut DataPlane,
        parameters: &Parameters,
    ) -> Result<Progress, Problem> {
        let unopened =
            if flag(parameters, "force")? { Unopened::Forgotten } else { Unopened::Refused };
        let name = parameters.get("pool");
        self.begin_procedure(plane, |view| pools::delete(name, unopened, now(), view))
    }

    /// Begins to close every pool, so that the next start has nothing to replay.
    pub(crate) fn close_pools(&mut self, plane: &mut DataPlane) {
        self.closing = true;
        let open: Vec<(PoolId, String)> =
            plane.pools.iter().map(|(id, pool)| (id, pool.name.clone())).collect();
        for (pool, name) in open {
            let mut of_pool = self.under_way.values().filter(|work| work.step.pool() == pool);
            let is_closing =
                of_pool.any(|work| work.step.procedure().is_some_and(AfterChange::closes));
            if !is_closing {
                let closed = self.take(plane, pools::close(pool, name));
                self.begin(plane, closed);
            }
        }
    }

    /// Serves a pool no more. Whoever still waits for it is told that it is closed.
    pub(super) fn stop_serving(&mut self, plane: &mut DataPlane, pool: PoolId) -> Option<Pool> {
        let closed = plane.pools.remove(pool)?;
        plane.detach_all(pool);
        let left = self.under_way.iter().filter(|(_, work)| work.step.pool() == pool);
        let left: Vec<Ticket> = left.map(|(&ticket, _)| ticket).collect();
        for ticket in left {
            self.finished(plane, ticket, Err(Failure::Change(ChangeError::Closed)));
        }
        Some(closed)
    }

    /// Closes files and ends threads, which may take as long as a device that stalls.
    fn close_in_background(&mut self, pool: Pool) {
        self.in_background(move || drop(pool));
    }

    /// The pool of that name, if it can take changes.
    pub(super) fn ready_pool(&self, plane: &DataPlane, name: &str) -> Result<PoolId, Problem> {
        self.configuration.pool(name).map_err(|error| refused(&error))?;
        self.claims.check_volumes(name)?;
        if let Some(unavailable) = self.unavailable.get(name) {
            let detail = format!("pool '{name}' is unavailable: {}", unavailable.reason);
            return Err(pool_unavailable(name, &detail));
        }
        let (slot, pool) = plane.pool_named(name).ok_or_else(|| {
            pool_unavailable(name, &format!("pool '{name}' is closing: try again"))
        })?;
        match pool.health() {
            Health::Ready => Ok(slot),
            Health::Opening => Err(is_opening(name)),
            health => {
                let detail = format!("pool '{name}' takes no changes: it is {health}");
                Err(pool_unavailable(name, &detail))
            }
        }
    }

    pub(super) fn counters(pool: &Pool) -> DeviceCounters {
        let device = pool.device_counters();
        let engine = pool.store.statistics();
        DeviceCounters {
            device_reads: device.reads,
            device_writes: device.writes,
            device_flushes: device.flushes,
            device_bytes_read: device.bytes_read,
            device_bytes_written: device.bytes_written,
            data_bytes_written: engine.data_bytes_written,
            data_bytes_read: engine.data_bytes_read,
            bytes_cloned: engine.cloned_bytes,
        }
    }

    /// A pool is not open. Administrators are told once of each kind of trouble; the reason that is
    /// shown is always the last one.
    pub(super) fn set_unavailable(&mut self, name: &str, pool: UnavailablePool, trouble: Trouble) {
        let trouble = self.fenced_or_standby(name, trouble);
        let is_told = self.reopening.failed(name, trouble, self.clock());
        let stands_by = self.stands_by(name, trouble);
        if is_told && stands_by {
            self.inform(name, "is standby here: another controller has it".to_owned());
        } else if is_told {
            self.alarm(name, format!("is not available: {}", pool.reason));
        }
        if trouble == Trouble::Unchanged && self.unavailable.contains_key(name) {
            return;
        }
        self.note_journal_loss(name, pool.loss.is_some());
        self.unavailable.insert(name.to_owned(), pool);
    }

    pub(super) fn show_pool(&self, plane: &DataPlane, name: &str) -> Result<Progress, Problem> {
        Ok(Progress::answer(&self.describe_pool(plane, name)?))
    }
}

/// A volume of which only the configuration knows.
pub(super) fn absent_export(volume: VolumeId, presentation: Presentation) -> Export {
    Export {
        naa: naa_identifier(volume),
        size_bytes: 0,
        blocks: presentation.blocks,
        thin: true,
        write_protected: false,
        reservations_hidden: presentation.reservations_hidden,
        identification: presentation.identification,
        switches_off: presentation.switches_off,
    }
}

pub(super) fn pool_unavailable(name: &str, detail: &str) -> Problem {
    problem(ProblemKind::PoolUnavailable, &detail).with("pool", name)
}

/// What a pool holds that is not open here is not known.
pub(super) fn unknown_content(name: &str, reason: &str) -> Problem {
    let detail =
        format!("pool '{name}' is not open here, so it is not known what it holds: {reason}");
    pool_unavailable(name, &detail)
}
