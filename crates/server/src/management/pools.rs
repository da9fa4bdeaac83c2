//! Pools: create, open at start, delete, close.

use api::{CreatePool, DeviceCounters, Problem};
use array::{ArrayError, PoolDevice, Thresholds};
use store::{Change, Failure, Health, Outcome};

use super::devices::{new_device_size, parse_device};
use super::problems::{bad_request, conflict, failed, internal, refused};
use super::{Management, Progress, Step, Work};
use crate::core::Core;
use crate::data_directory::random_uuid;
use crate::events::now;
use crate::http::Answer;
use crate::pool::{Pool, PoolOptions, remove_device};
use crate::token_spaces::is_hidden;

/// A pool that is configured but cannot be served.
#[derive(Clone, Debug)]
pub(crate) struct UnavailablePool {
    pub(crate) reason: String,
}

impl Management {
    /// Begins to open every configured pool.
    pub(crate) fn open_pools(&mut self, core: &mut Core) {
        let options = self.pool_options(self.configuration.pools.len());
        for (name, configuration) in self.configuration.pools.clone() {
            let ticket = core.new_ticket();
            match Pool::open(&name, &configuration, options, ticket.tag()) {
                Ok(pool) => {
                    let pool = core.pools.insert(pool);
                    let work = Work { step: Step::OpenPool { pool }, reply: None };
                    self.under_way.insert(ticket, work);
                }
                Err(error) => self.set_unavailable(&name, error.to_string()),
            }
        }
    }

    pub(super) fn pool_opened(
        &mut self,
        core: &mut Core,
        pool: usize,
        result: Result<Outcome, Failure>,
    ) -> Answer {
        if let Err(failure) = result {
            let pool = core.pools.remove(pool);
            let configuration = self.configuration.pools.get(&pool.name);
            let reason = configuration.map(|configuration| pool.explain(&failure, configuration));
            self.set_unavailable(&pool.name, reason.unwrap_or_default());
            return Err(failed(&failure));
        }
        core.delete_old_token_spaces(pool);
        self.join_configured_device(core, pool);
        let volumes = core.pools[pool].store.volumes().filter(|volume| !is_hidden(volume));
        let volumes: Vec<_> = volumes.map(|volume| volume.id).collect();
        tracing::info!(pool = core.pools[pool].name, volumes = volumes.len(), "pool is open");
        for id in volumes {
            self.serve_volume(core, pool, id);
        }
        self.luns_changed = true;
        Ok(serde_json::Value::Null)
    }

    pub(super) fn create_pool(
        &mut self,
        core: &mut Core,
        request: &CreatePool,
    ) -> Result<Progress, Problem> {
        let names = request.devices.iter().map(|device| parse_device(device));
        let names = names.collect::<Result<Vec<_>, _>>()?;
        if names.is_empty() {
            return Err(bad_request(&"a pool has at least one device: name it with --device"));
        }
        self.configuration.check_new_pool(&request.name, &names).map_err(|e| refused(&e))?;
        if core.pool_named(&request.name).is_some() {
            return Err(conflict(&"the pool is just being created: wait until it is ready"));
        }
        let devices = names.into_iter().map(|device| {
            let size_bytes = new_device_size(&device, request.size_bytes)?;
            Ok(PoolDevice { device, size_bytes })
        });
        let devices = devices.collect::<Result<Vec<_>, Problem>>()?;
        let uuids = devices.iter().map(|_| random_uuid()).collect::<Result<Vec<_>, _>>();
        let uuids = uuids.map_err(|error| internal(&error))?;
        let uuid = random_uuid().map_err(|error| internal(&error))?;
        let configuration = array::Pool { uuid, devices, thresholds: Thresholds::default() };
        let ticket = core.new_ticket();
        let options = self.pool_options(self.configuration.pools.len() + 1);
        let pool = Pool::create(&request.name, &configuration, options, &uuids, ticket.tag())
            .map_err(|error| conflict(&error))?;
        let pool = core.pools.insert(pool);
        Ok(Progress::Wait(ticket, Step::CreatePool { pool, configuration }))
    }

    pub(super) fn pool_created(
        &mut self,
        core: &mut Core,
        pool: usize,
        configuration: array::Pool,
        result: Result<Outcome, Failure>,
    ) -> Answer {
        let name = core.pools[pool].name.clone();
        let saved = match result {
            Ok(_) => self.change(|array| {
                array.pools.insert(name.clone(), configuration.clone());
                Ok(())
            }),
            Err(failure) => Err(failed(&failure)),
        };
        if let Err(problem) = saved {
            core.pools.remove(pool);
            configuration.devices.iter().for_each(remove_device);
            return Err(problem);
        }
        self.show_pool(core, &name)
    }

    /// How one of so many pools is run.
    fn pool_options(&self, pools: usize) -> PoolOptions {
        let memory_bytes = self.memory_bytes / pools.max(1) as u64;
        PoolOptions { io: self.io, memory_bytes, sampling: self.sampling }
    }

    pub(super) fn delete_pool(&mut self, core: &mut Core, name: &str) -> Result<Progress, Problem> {
        self.configuration.pool(name).map_err(|error| refused(&error))?;
        let Some((pool, served)) = core.pool_named(name) else {
            // It cannot be opened, so whether it holds volumes is unknown; its device is not touched.
            let unlocked = self.configuration.check_pool_unlocked(name, now());
            unlocked.map_err(|error| refused(&error))?;
            self.forget_pool(name)?;
            return Ok(Progress::answer(&()));
        };
        let volumes = served.store.volumes().filter(|volume| !is_hidden(volume)).count();
        if volumes > 0 {
            return Err(refused(&ArrayError::PoolNotEmpty { pool: name.to_owned(), volumes }));
        }
        let ticket = core.new_ticket();
        core.pools[pool].store.change(ticket.tag(), Change::Close);
        Ok(Progress::Wait(ticket, Step::ClosePool { pool }))
    }

    /// Begins to close every pool, so that the next start has nothing to replay.
    pub(crate) fn close_pools(&mut self, core: &mut Core) {
        self.closing = true;
        let pools: Vec<usize> = core.pools.iter().map(|(pool, _)| pool).collect();
        for pool in pools {
            let ticket = core.new_ticket();
            core.pools[pool].store.change(ticket.tag(), Change::Close);
            let work = Work { step: Step::ClosePool { pool }, reply: None };
            self.under_way.insert(ticket, work);
        }
    }

    pub(super) fn pool_closed(
        &mut self,
        core: &mut Core,
        pool: usize,
        result: Result<Outcome, Failure>,
    ) -> Answer {
        let pool = core.pools.remove(pool);
        if let Err(failure) = &result {
            tracing::warn!(pool = pool.name, %failure, "pool did not close cleanly");
        }
        if self.closing {
            return Ok(serde_json::Value::Null);
        }
        self.forget_pool(&pool.name)?;
        Ok(serde_json::Value::Null)
    }

    /// The pool of that name, if it can take changes.
    pub(super) fn ready_pool(&self, core: &Core, name: &str) -> Result<usize, Problem> {
        self.configuration.pool(name).map_err(|error| refused(&error))?;
        if let Some(unavailable) = self.unavailable.get(name) {
            return Err(conflict(&format!("pool '{name}' is unavailable: {}", unavailable.reason)));
        }
        let (slot, pool) = core
            .pool_named(name)
            .ok_or_else(|| conflict(&format!("pool '{name}' is closing: try again")))?;
        match pool.store.health() {
            Health::Ready => Ok(slot),
            health => Err(conflict(&format!("pool '{name}' takes no changes: it is {health}"))),
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

    fn forget_pool(&mut self, name: &str) -> Result<(), Problem> {
        self.change(|array| {
            array.pools.remove(name);
            Ok(())
        })?;
        self.unavailable.remove(name);
        Ok(())
    }

    fn set_unavailable(&mut self, name: &str, reason: String) {
        self.alarm(name, format!("is not available: {reason}"));
        self.unavailable.insert(name.to_owned(), UnavailablePool { reason });
    }

    pub(super) fn show_pool(&self, core: &Core, name: &str) -> Answer {
        serde_json::to_value(self.describe_pool(core, name)?).map_err(|error| internal(&error))
    }
}
