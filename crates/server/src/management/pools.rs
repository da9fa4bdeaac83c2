//! Routes and life cycle of pools: create, open at start, delete, close.

use api::{CreatePool, DeviceCounters, Problem, ProblemKind};
use array::{ArrayError, Configuration, PoolDevice, Secrets, Tagged, Thresholds};
use device::Device;
use store::{Change, ChangeError, Failure, Health, OpenMode, Outcome};

use super::claims::Purpose;
use super::devices::{new_device_size, parse_device};
use super::jobs::job;
use super::problems::{conflict, failed, gone, internal, is_opening, problem, refused};
use super::resume::loss_of;
use super::{Caller, Management, PoolStep, Progress, Touched, Work};
use crate::data_directory::random_uuid;
use crate::data_plane::{DataPlane, Ticket};
use crate::events::now;
use crate::pool::{Pool, PoolOptions, create_devices, remove_device};
use crate::pools::PoolId;
use crate::rod_token_spaces::{hidden, is_hidden};

/// A pool that is configured but cannot be served.
#[derive(Clone, Debug)]
pub(crate) struct UnavailablePool {
    pub(crate) reason: String,
    /// What of its journal is lost, if that is why.
    pub(crate) loss: Option<store::JournalLoss>,
}

impl UnavailablePool {
    pub(super) fn because(reason: String) -> Self {
        Self { reason, loss: None }
    }
}

impl Management {
    /// Begins to open every configured pool.
    pub(crate) fn open_pools(&mut self, plane: &mut DataPlane) {
        let options = self.pool_options(self.configuration.pools.len());
        for (name, configuration) in self.configuration.pools.clone() {
            let ticket = plane.new_ticket();
            let mode =
                if configuration.read_only { OpenMode::ReadOnly } else { OpenMode::ReadWrite };
            let options = PoolOptions { mode, ..options };
            match Pool::open(&name, &configuration, options, ticket.tag()) {
                Ok(pool) => {
                    let pool = plane.pools.insert(pool);
                    let (step, caller) =
                        (PoolStep::OpenPool { pool, resumed: None }, Caller::default());
                    self.under_way.insert(ticket, Work { step, caller });
                }
                Err(error) => {
                    self.set_unavailable(&name, UnavailablePool::because(error.to_string()));
                }
            }
        }
    }

    pub(super) fn pool_opened(
        &mut self,
        plane: &mut DataPlane,
        pool: PoolId,
        result: Result<Outcome, Failure>,
    ) -> Result<Progress, Problem> {
        if let Err(failure) = result {
            let closed = self.stop_serving(plane, pool).ok_or_else(gone)?;
            let configuration = self.configuration.pools.get(&closed.name);
            let reason = configuration.map(|configuration| closed.explain(&failure, configuration));
            let (reason, loss) = (reason.unwrap_or_default(), loss_of(&failure));
            self.set_unavailable(&closed.name, UnavailablePool { reason, loss });
            self.close_in_background(closed);
            return Err(failed(&failure));
        }
        plane.delete_old_rod_token_spaces(pool);
        self.join_configured_device(plane, pool);
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
        self.unavailable.remove(&name);
        self.note_journal_loss(&name, self.journal_loss(plane, &name).is_some());
        self.show_pool(plane, &name)
    }

    /// Makes the devices in another thread, then the pool on them; it is configured when it is
    /// ready.
    pub(super) fn create_pool(
        &mut self,
        plane: &DataPlane,
        request: CreatePool,
    ) -> Result<Progress, Problem> {
        let names = request.devices.iter().map(|device| parse_device(device));
        let names = names.collect::<Result<Vec<_>, _>>()?;
        if names.is_empty() {
            let detail = &"a pool has at least one device: name it";
            return Err(problem(ProblemKind::DeviceMissing, detail));
        }
        let accepted = self.saving.accepted();
        accepted.check_new_pool(&request.name, &names).map_err(|error| refused(&error))?;
        self.claims.claim(&request.name, Purpose::Create)?;
        if plane.pool_named(&request.name).is_some() {
            return Err(conflict(&"a pool of this name is just being closed: try again"));
        }
        let io = self.io;
        let make = move || {
            let devices = names.into_iter().map(|device| {
                let size_bytes = new_device_size(&device, request.size_bytes)?;
                Ok(PoolDevice { device, size_bytes })
            });
            let devices = devices.collect::<Result<Vec<_>, Problem>>()?;
            let made = create_devices(&devices, io).map_err(|error| conflict(&error))?;
            Ok((request.name, devices, made))
        };
        Ok(job(make, |management, plane, made: Result<_, Problem>| {
            let (name, devices, made) = made?;
            management.format_pool(plane, &name, devices, made)
        }))
    }

    fn format_pool(
        &mut self,
        plane: &mut DataPlane,
        name: &str,
        devices: Vec<PoolDevice>,
        made: Vec<Device>,
    ) -> Result<Progress, Problem> {
        let with_uuid = |device| Ok((device, random_uuid()?));
        let made = made.into_iter().map(with_uuid).collect::<anyhow::Result<Vec<_>>>();
        let made = made.map_err(|error| internal(&error))?;
        let uuid = random_uuid().map_err(|error| internal(&error))?;
        let configuration = array::Pool {
            uuid,
            devices,
            thresholds: Thresholds::default(),
            delete_scheduled_snapshots: false,
            read_only: false,
        };
        let ticket = plane.new_ticket();
        let options = self.pool_options(self.configuration.pools.len() + 1);
        let pool = Pool::create(name, &configuration, options, made, ticket.tag());
        let pool = plane.pools.insert(pool);
        Ok(Progress::Wait(ticket, PoolStep::CreatePool { pool, configuration }))
    }

    pub(super) fn pool_created(
        &mut self,
        plane: &mut DataPlane,
        pool: PoolId,
        configuration: array::Pool,
        result: Result<Outcome, Failure>,
    ) -> Result<Progress, Problem> {
        let mut made = plane.pools.get_mut(pool).ok_or_else(gone)?;
        made.look_at_backing();
        let name = made.name.clone();
        drop(made);
        let devices = configuration.devices.clone();
        let give_up = move |management: &mut Self, plane: &mut DataPlane, problem| {
            let closed = management.stop_serving(plane, pool);
            management.in_background(move || {
                drop(closed);
                devices.iter().for_each(remove_device);
            });
            Err(problem)
        };
        if let Err(failure) = result {
            return give_up(self, plane, failed(&failure));
        }
        let change = |array: &mut Configuration, _: &mut Secrets| {
            array.pools.insert(name.clone(), configuration);
            Ok(name)
        };
        self.change_or_not(change, move |management, plane, saved| match saved {
            Ok(name) => management.show_pool(plane, &name),
            Err(problem) => give_up(management, plane, problem),
        })
    }

    /// How one of so many pools is run.
    pub(super) fn pool_options(&self, pools: usize) -> PoolOptions {
        let memory_bytes = self.memory_bytes / pools.max(1) as u64;
        let mode = OpenMode::ReadWrite;
        PoolOptions { io: self.io, memory_bytes, sampling: self.sampling, mode }
    }

    pub(super) fn delete_pool(
        &mut self,
        plane: &mut DataPlane,
        name: &str,
    ) -> Result<Progress, Problem> {
        self.saving.accepted().pool(name).map_err(|error| refused(&error))?;
        self.claims.claim(name, Purpose::Delete)?;
        let Some((pool, served)) = plane.pool_named(name) else {
            // It cannot be opened, so whether it holds volumes is unknown; its device is not touched.
            let unlocked = self.saving.accepted().check_pool_unlocked(name, now());
            unlocked.map_err(|error| refused(&error))?;
            return self.forget_pool(name);
        };
        if self.unavailable.contains_key(name) {
            return Err(conflict(&format!(
                "pool '{name}' has become unavailable while hosts used it: resume it first, or \
                 restart the daemon"
            )));
        }
        if self.works_on(pool) {
            return Err(conflict(&format!(
                "pool '{name}' is just changing volumes or devices: wait until that has ended"
            )));
        }
        let volumes = served.store.volume_count() - hidden(&served.store).count();
        if volumes > 0 {
            return Err(refused(&ArrayError::PoolNotEmpty { pool: name.to_owned(), volumes }));
        }
        Self::wait_for(plane, pool, Change::Close, PoolStep::ClosePool { pool })
    }

    /// Begins to close every pool, so that the next start has nothing to replay.
    pub(crate) fn close_pools(&mut self, plane: &mut DataPlane) {
        self.closing = true;
        let closes = |work: &Work| matches!(work.step, PoolStep::ClosePool { .. });
        for pool in plane.pools.ids() {
            let mut of_pool = self.under_way.values().filter(|work| work.step.pool() == pool);
            if !of_pool.any(closes) {
                let closed =
                    Self::wait_for(plane, pool, Change::Close, PoolStep::ClosePool { pool });
                self.begin(plane, closed);
            }
        }
    }

    pub(super) fn pool_closed(
        &mut self,
        plane: &mut DataPlane,
        pool: PoolId,
        result: Result<Outcome, Failure>,
    ) -> Result<Progress, Problem> {
        let closed = self.stop_serving(plane, pool).ok_or_else(gone)?;
        if let Err(failure) = &result {
            tracing::warn!(pool = closed.name, %failure, "pool did not close cleanly");
        }
        let name = closed.name.clone();
        if self.closing {
            return Ok(Progress::done());
        }
        self.close_in_background(closed);
        self.forget_pool(&name)
    }

    /// Serves a pool no more. Whoever still waits for it is told that it is closed.
    fn stop_serving(&mut self, plane: &mut DataPlane, pool: PoolId) -> Option<Pool> {
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
        match pool.store.health() {
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

    /// A pool that was closed and stays configured, as the configuration cannot be saved, can be
    /// deleted again, and is opened by the next start.
    fn forget_pool(&mut self, name: &str) -> Result<Progress, Problem> {
        let name = name.to_owned();
        let change = |array: &mut Configuration, _: &mut Secrets| {
            array.pools.remove(&name);
            array.forget_tags(Tagged::Pool(&name));
            Ok(())
        };
        let forgotten = name.clone();
        self.change_or_not(change, move |management, _, saved| match saved {
            Ok(()) => {
                management.unavailable.remove(&forgotten);
                management.note_journal_loss(&forgotten, false);
                Ok(Progress::done())
            }
            Err(problem) => {
                let reason = format!("it was closed to be deleted, but {}", problem.detail);
                management.set_unavailable(&forgotten, UnavailablePool::because(reason));
                Err(problem)
            }
        })
    }

    pub(super) fn set_unavailable(&mut self, name: &str, pool: UnavailablePool) {
        self.alarm(name, format!("is not available: {}", pool.reason));
        self.note_journal_loss(name, pool.loss.is_some());
        self.unavailable.insert(name.to_owned(), pool);
    }

    pub(super) fn show_pool(&self, plane: &DataPlane, name: &str) -> Result<Progress, Problem> {
        Ok(Progress::answer(&self.describe_pool(plane, name)?))
    }
}

fn pool_unavailable(name: &str, detail: &str) -> Problem {
    problem(ProblemKind::PoolUnavailable, &detail).with("pool", name)
}
