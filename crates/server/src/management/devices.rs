//! Routes of the devices of a pool: sizes at its creation, adding a device, growing one.

use api::{AddDevice, Problem, ProblemKind, ResizePool};
use array::limits::POOL_BYTES_MIN;
use array::{ArrayError, Configuration, PoolDevice, Secrets};
use block::{BLOCK, DeviceName, InvalidDeviceName};
use device::{Device, Grown, OpenError};
use notation::format_size;
use store::{Change, Failure, Health, Outcome};

use super::claims::Purpose;
use super::jobs::job;
use super::problems::{bad_request, conflict, failed, gone, internal, problem, refused};
use super::{Management, PoolStep, Progress};
use crate::data_directory::random_uuid;
use crate::data_plane::{DataPlane, Ticket};
use crate::pool::{create_device, remove_device};
use crate::pools::PoolId;

impl Management {
    /// Makes a device and lets it join. It is configured before it joins: after a crash in between
    /// the pool does not need it yet, and it joins at the next start.
    pub(super) fn add_device(
        &mut self,
        plane: &DataPlane,
        name: &str,
        request: &AddDevice,
    ) -> Result<Progress, Problem> {
        let pool = self.ready_pool(plane, name)?;
        let served = plane.pools.get(pool).ok_or_else(gone)?;
        if served.joining || served.devices.len() != served.store.devices().count() {
            return Err(conflict(&"another device is just joining this pool: wait until it has"));
        }
        let device = parse_device(&request.device)?;
        let accepted = self.saving.accepted();
        accepted.check_new_device(name, &device).map_err(|error| refused(&error))?;
        self.claims.claim(name, Purpose::AddDevice)?;
        let (io, size_bytes, name) = (self.io, request.size_bytes, name.to_owned());
        let make = move || {
            let size_bytes = new_device_size(&device, size_bytes)?;
            let device = PoolDevice { device, size_bytes };
            let opened = create_device(&device, io).map_err(|error| conflict(&error))?;
            Ok((device, opened))
        };
        Ok(job(make, move |management, _, made: Result<_, Problem>| {
            let (device, opened) = made?;
            management.configure_device(pool, &name, device, opened)
        }))
    }

    fn configure_device(
        &mut self,
        pool: PoolId,
        name: &str,
        device: PoolDevice,
        opened: Device,
    ) -> Result<Progress, Problem> {
        let change = |array: &mut Configuration, _: &mut Secrets| {
            let pool = array.pools.get_mut(name);
            pool.into_iter().for_each(|pool| pool.devices.push(device.clone()));
            Ok(())
        };
        let left_over = device.clone();
        self.change_or_not(change, move |management, plane, saved| match saved {
            Ok(()) => {
                plane.pools.get_mut(pool).ok_or_else(gone)?.devices.push(opened);
                let (ticket, step) = join_device(plane, pool)?;
                Ok(Progress::Wait(ticket, step))
            }
            Err(problem) => {
                management.in_background(move || {
                    drop(opened);
                    remove_device(&left_over);
                });
                Err(problem)
            }
        })
    }

    /// Lets a device join that was configured, but had not joined when the daemon stopped; forgets
    /// it if it cannot be opened.
    pub(super) fn join_configured_device(&mut self, plane: &mut DataPlane, pool: PoolId) {
        let Some(mut served) = plane.pools.get_mut(pool) else { return };
        let joined = served.store.devices().count();
        let joins = served.devices.len() > joined && served.store.health() == Health::Ready;
        let kept = joined + usize::from(joins);
        served.devices.truncate(kept);
        let name = served.name.clone();
        drop(served);
        let forgotten = self.retain_devices(&name, kept, |_, _| Ok(Progress::done()));
        self.begin(plane, forgotten);
        if joins {
            let joining = join_device(plane, pool);
            self.begin(plane, joining.map(|(ticket, step)| Progress::Wait(ticket, step)));
        }
    }

    pub(super) fn device_added(
        &mut self,
        plane: &mut DataPlane,
        pool: PoolId,
        result: Result<Outcome, Failure>,
    ) -> Result<Progress, Problem> {
        let mut served = plane.pools.get_mut(pool).ok_or_else(gone)?;
        served.joining = false;
        served.store.set_extending(false);
        let name = served.name.clone();
        let joined = served.store.devices().count();
        let Err(failure) = result else {
            drop(served);
            self.inform(&name, format!("device {} has joined", joined - 1));
            return self.show_pool(plane, &name);
        };
        // A pool that failed meanwhile may have recorded the device or not: it stays.
        if served.store.health() != Health::Ready {
            return Err(failed(&failure));
        }
        let closed = served.devices.split_off(joined);
        drop(served);
        self.retain_devices(&name, joined, move |management, left_over| {
            management.in_background(move || {
                drop(closed);
                left_over.iter().for_each(remove_device);
            });
            Err(failed(&failure))
        })
    }

    /// Forgets all configured devices of a pool but the first ones; `then` is told which.
    fn retain_devices(
        &mut self,
        name: &str,
        count: usize,
        then: impl FnOnce(&mut Self, Vec<PoolDevice>) -> Result<Progress, Problem> + 'static,
    ) -> Result<Progress, Problem> {
        let change = |array: &mut Configuration| {
            let pool = array.pools.get_mut(name);
            let forgotten = pool.map_or_else(Vec::new, |pool| {
                pool.devices.split_off(count.min(pool.devices.len()))
            });
            Ok((name.to_owned(), forgotten))
        };
        self.change(change, |management, _, (name, forgotten)| {
            for device in &forgotten {
                let message = format!("{} has not joined and is forgotten", device.device);
                management.warn(&name, message);
            }
            then(management, forgotten)
        })
    }

    /// Makes a device larger. From the first step on, hosts that find no space are told to try
    /// again.
    pub(super) fn extend_pool(
        &mut self,
        plane: &mut DataPlane,
        name: &str,
        request: &ResizePool,
    ) -> Result<Progress, Problem> {
        let pool = self.ready_pool(plane, name)?;
        let mut served = plane.pools.get_mut(pool).ok_or_else(gone)?;
        let device = chosen_device(request.device, served.store.devices().count())?;
        let size_bytes = request.size_bytes;
        let current = served.store.devices().nth(device).map_or(0, |device| device.size_bytes);
        if size_bytes <= current || !size_bytes.is_multiple_of(BLOCK) {
            return Err(bad_request(&format!(
                "the device has {} and only grows: choose a multiple of 4096 bytes above {current}",
                format_size(current)
            )));
        }
        self.claims.claim(name, Purpose::Extend)?;
        let growth = served.devices.get(device).ok_or_else(gone)?.growth();
        let growth = growth.map_err(|error| conflict(&error))?;
        served.store.set_extending(true);
        Ok(job(
            move || growth.to(size_bytes),
            move |_, plane, grown| Self::extend_device(plane, pool, device, size_bytes, grown),
        ))
    }

    /// The file has grown, or could not: the pool takes what is new.
    fn extend_device(
        plane: &mut DataPlane,
        pool: PoolId,
        device: usize,
        size_bytes: u64,
        grown: Result<Grown, OpenError>,
    ) -> Result<Progress, Problem> {
        let mut served = plane.pools.get_mut(pool).ok_or_else(gone)?;
        match grown {
            Ok(grown) => {
                if let Some(device) = served.devices.get_mut(device) {
                    device.take_growth(grown);
                }
            }
            Err(error) => {
                served.extension_ended();
                return Err(conflict(&error));
            }
        }
        drop(served);
        let index = u8::try_from(device).expect("a pool has at most 32 devices");
        let change = Change::ExtendDevice { device: index, size_bytes };
        Self::wait_for(plane, pool, change, PoolStep::ExtendPool { pool, device, size_bytes })
    }

    pub(super) fn pool_extended(
        &mut self,
        plane: &mut DataPlane,
        pool: PoolId,
        device: usize,
        size_bytes: u64,
        result: Result<Outcome, Failure>,
    ) -> Result<Progress, Problem> {
        let mut served = plane.pools.get_mut(pool).ok_or_else(gone)?;
        served.extension_ended();
        let name = served.name.clone();
        drop(served);
        result.map_err(|failure| failed(&failure))?;
        let change = |array: &mut Configuration| {
            let pool = array.pools.get_mut(&name);
            if let Some(device) = pool.and_then(|pool| pool.devices.get_mut(device)) {
                device.size_bytes = size_bytes;
            }
            Ok(name)
        };
        self.change(change, move |management, plane, name| {
            let size = format_size(size_bytes);
            management.inform(&name, format!("device {device} has {size} now"));
            management.show_pool(plane, &name)
        })
    }
}

/// Begins to let the last open device of a pool join it.
fn join_device(plane: &mut DataPlane, pool: PoolId) -> Result<(Ticket, PoolStep), Problem> {
    let uuid = random_uuid().map_err(|error| internal(&error))?;
    let ticket = plane.new_ticket();
    let mut served = plane.pools.get_mut(pool).ok_or_else(gone)?;
    let size_bytes = served.devices.last().map_or(0, Device::size_bytes);
    served.joining = true;
    served.store.set_extending(true);
    let size_bytes = size_bytes - size_bytes % BLOCK;
    let change = Change::AddDevice(store::DeviceSpec { uuid, size_bytes });
    served.store.change(ticket.tag(), change);
    Ok((ticket, PoolStep::AddDevice { pool }))
}

fn chosen_device(wanted: Option<usize>, count: usize) -> Result<usize, Problem> {
    match wanted {
        Some(device) if device < count => Ok(device),
        None if count == 1 => Ok(0),
        _ => {
            let detail =
                format!("the pool has {count} device(s): say which one is to grow, counted from 0");
            Err(problem(ProblemKind::DeviceAmbiguous, &detail).with("devices", count))
        }
    }
}

pub(super) fn parse_device(text: &str) -> Result<DeviceName, Problem> {
    text.parse().map_err(|error: InvalidDeviceName| refused(&error.into()))
}

/// The size that a new device is to have. Asks block devices for theirs, which may take long.
pub(super) fn new_device_size(device: &DeviceName, wanted: Option<u64>) -> Result<u64, Problem> {
    let there = || Device::size_before_creation(device).map_err(|error| conflict(&error));
    let size_bytes = match wanted {
        Some(size_bytes) => size_bytes,
        None => there()?.map(|size| size - size % BLOCK).ok_or_else(|| {
            let detail = &"say how large each device is to be";
            problem(ProblemKind::DeviceSizeMissing, detail)
        })?,
    };
    if size_bytes < POOL_BYTES_MIN || !size_bytes.is_multiple_of(BLOCK) {
        let sentence =
            "a device has at least 1 GiB and a multiple of 4096 bytes: choose another size";
        return Err(refused(&ArrayError::InvalidSize(sentence.to_owned())));
    }
    Ok(size_bytes)
}
