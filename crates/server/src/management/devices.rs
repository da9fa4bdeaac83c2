//! The devices of a pool: their sizes when it is made, joining, growing.

use api::{AddDevice, Problem, ResizePool};
use array::limits::POOL_BYTES_MIN;
use array::{ArrayError, DeviceName, PoolDevice};
use block::BLOCK;
use notation::format_size;
use store::{Change, Failure, Health, Outcome};

use super::problems::{bad_request, conflict, failed, internal, refused};
use super::{Management, Progress, Step, Work};
use crate::core::Core;
use crate::data_directory::random_uuid;
use crate::http::Answer;
use crate::pool::{create_device, remove_device};

impl Management {
    /// Makes a device and lets it join. It is configured before it joins: after a crash in between
    /// the pool does not need it yet, and it joins at the next start.
    pub(super) fn add_device(
        &mut self,
        core: &mut Core,
        name: &str,
        request: &AddDevice,
    ) -> Result<Progress, Problem> {
        let pool = self.ready_pool(core, name)?;
        let served = &core.pools[pool];
        if served.joining || served.devices.len() != served.store.devices().count() {
            return Err(conflict(&"another device is just joining this pool: wait until it has"));
        }
        let device = parse_device(&request.device)?;
        self.configuration.check_new_device(name, &device).map_err(|error| refused(&error))?;
        let size_bytes = new_device_size(&device, request.size_bytes)?;
        let device = PoolDevice { device, size_bytes };
        let opened = create_device(&device, self.io).map_err(|error| conflict(&error))?;
        let saved = self.change(|array| {
            let pool = array.pools.get_mut(name);
            pool.into_iter().for_each(|pool| pool.devices.push(device.clone()));
            Ok(())
        });
        if let Err(problem) = saved {
            remove_device(&device);
            return Err(problem);
        }
        core.pools[pool].devices.push(opened);
        let (ticket, step) = join_device(core, pool)?;
        Ok(Progress::Wait(ticket, step))
    }

    /// Lets a device join that was configured, but had not joined when the daemon stopped; forgets
    /// it if it cannot be opened.
    pub(super) fn join_configured_device(&mut self, core: &mut Core, pool: usize) {
        let served = &mut core.pools[pool];
        let joined = served.store.devices().count();
        if served.devices.len() > joined && served.store.health() == Health::Ready {
            served.devices.truncate(joined + 1);
            self.retain_devices(&core.pools[pool].name, joined + 1);
            match join_device(core, pool) {
                Ok((ticket, step)) => {
                    self.under_way.insert(ticket, Work { step, reply: None });
                }
                Err(problem) => tracing::error!(problem = problem.detail, "no device can join"),
            }
            return;
        }
        served.devices.truncate(joined);
        self.retain_devices(&core.pools[pool].name, joined);
    }

    pub(super) fn device_added(
        &mut self,
        core: &mut Core,
        pool: usize,
        result: Result<Outcome, Failure>,
    ) -> Answer {
        let served = &mut core.pools[pool];
        served.joining = false;
        served.store.set_extending(false);
        let name = served.name.clone();
        let joined = served.store.devices().count();
        match result {
            Ok(_) => {
                self.inform(&name, format!("device {} has joined", joined - 1));
                self.show_pool(core, &name)
            }
            Err(failure) => {
                // A pool that failed meanwhile may have recorded the device or not: it stays.
                if served.store.health() == Health::Ready {
                    served.devices.truncate(joined);
                    let left_over = self.retain_devices(&name, joined);
                    left_over.iter().for_each(remove_device);
                }
                Err(failed(&failure))
            }
        }
    }

    /// Forgets all configured devices of a pool but the first ones; returns the others.
    fn retain_devices(&mut self, name: &str, count: usize) -> Vec<PoolDevice> {
        let forgotten = self.change(|array| {
            let pool = array.pools.get_mut(name);
            Ok(pool.map_or_else(Vec::new, |pool| {
                pool.devices.split_off(count.min(pool.devices.len()))
            }))
        });
        let forgotten = forgotten.unwrap_or_else(|problem| {
            tracing::error!(pool = name, problem = problem.detail, "configuration is not saved");
            Vec::new()
        });
        for device in &forgotten {
            self.warn(name, format!("{} has not joined and is forgotten", device.device));
        }
        forgotten
    }

    /// Makes a device larger. From the first step on, hosts that find no space are told to try
    /// again.
    pub(super) fn extend_pool(
        &mut self,
        core: &mut Core,
        name: &str,
        request: &ResizePool,
    ) -> Result<Progress, Problem> {
        let pool = self.ready_pool(core, name)?;
        let served = &mut core.pools[pool];
        let device = chosen_device(request.device, served.store.devices().count())?;
        let size_bytes = request.size_bytes;
        let current = served.store.devices().nth(device).map_or(0, |device| device.size_bytes);
        if size_bytes <= current || !size_bytes.is_multiple_of(BLOCK) {
            return Err(bad_request(&format!(
                "the device has {} and only grows: choose a multiple of 4096 bytes above {current}",
                format_size(current)
            )));
        }
        served.store.set_extending(true);
        if let Err(error) = served.devices[device].resize(size_bytes) {
            served.store.set_extending(false);
            return Err(conflict(&error));
        }
        let ticket = core.new_ticket();
        let index = u8::try_from(device).expect("a pool has at most 32 devices");
        let change = Change::ExtendDevice { device: index, size_bytes };
        core.pools[pool].store.change(ticket.tag(), change);
        Ok(Progress::Wait(ticket, Step::ExtendPool { pool, device, size_bytes }))
    }

    pub(super) fn pool_extended(
        &mut self,
        core: &mut Core,
        pool: usize,
        device: usize,
        size_bytes: u64,
        result: Result<Outcome, Failure>,
    ) -> Answer {
        let served = &mut core.pools[pool];
        served.store.set_extending(served.joining);
        result.map_err(|failure| failed(&failure))?;
        let name = served.name.clone();
        self.change(|array| {
            let pool = array.pools.get_mut(&name);
            if let Some(device) = pool.and_then(|pool| pool.devices.get_mut(device)) {
                device.size_bytes = size_bytes;
            }
            Ok(())
        })?;
        self.inform(&name, format!("device {device} has {} now", format_size(size_bytes)));
        self.show_pool(core, &name)
    }
}

/// Begins to let the last open device of a pool join it.
fn join_device(core: &mut Core, pool: usize) -> Result<(crate::core::Ticket, Step), Problem> {
    let uuid = random_uuid().map_err(|error| internal(&error))?;
    let ticket = core.new_ticket();
    let served = &mut core.pools[pool];
    let size_bytes = served.devices.last().map_or(0, device::Device::size_bytes);
    served.joining = true;
    served.store.set_extending(true);
    let size_bytes = size_bytes - size_bytes % BLOCK;
    let change = Change::AddDevice(store::DeviceSpec { uuid, size_bytes });
    served.store.change(ticket.tag(), change);
    Ok((ticket, Step::AddDevice { pool }))
}

fn chosen_device(wanted: Option<usize>, count: usize) -> Result<usize, Problem> {
    match wanted {
        Some(device) if device < count => Ok(device),
        None if count == 1 => Ok(0),
        _ => Err(bad_request(&format!(
            "the pool has {count} device(s): say which one is to grow with --device, counted from 0"
        ))),
    }
}

pub(super) fn parse_device(text: &str) -> Result<DeviceName, Problem> {
    text.parse().map_err(|error| refused(&error))
}

/// The size that a new device is to have.
pub(super) fn new_device_size(device: &DeviceName, wanted: Option<u64>) -> Result<u64, Problem> {
    let size_bytes = match (device, wanted) {
        (_, Some(size_bytes)) => size_bytes,
        (DeviceName::Block(path), None) => {
            let size = device::block_device_size(path).map_err(|error| conflict(&error))?;
            size - size % BLOCK
        }
        _ => return Err(bad_request(&"say how large each device is to be: --size 20G")),
    };
    if size_bytes < POOL_BYTES_MIN || !size_bytes.is_multiple_of(BLOCK) {
        let sentence =
            "a device has at least 1 GiB and a multiple of 4096 bytes: choose another size";
        return Err(refused(&ArrayError::InvalidSize(sentence.to_owned())));
    }
    Ok(size_bytes)
}
