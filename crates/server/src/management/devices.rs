//! Routes of the devices of a pool: adding one, growing one; and devices made by another thread.

use api::{AddDevice, Problem, ProblemKind, ResizePool};
use array::limits::POOL_BYTES_MIN;
use array::{ArrayError, PoolDevice};
use block::{BLOCK, DeviceName};
use control::devices::{self, Growing, Making, Origin};
use device::{Device, Grown, Growth};
use notation::format_size;
use store::limits::DEVICE_BYTES_MIN;

use super::problems::{conflict, gone, problem, refused};
use super::{Management, Progress};
use crate::data_plane::DataPlane;
use crate::options::IoMethod;
use crate::pool::{OpenDevice, create_devices, method};

impl Management {
    pub(super) fn add_device(
        &mut self,
        plane: &mut DataPlane,
        name: &str,
        request: &AddDevice,
    ) -> Result<Progress, Problem> {
        self.begin_procedure(plane, |view| devices::add(name, request, view))
    }

    pub(super) fn extend_pool(
        &mut self,
        plane: &mut DataPlane,
        name: &str,
        request: &ResizePool,
    ) -> Result<Progress, Problem> {
        self.begin_procedure(plane, |view| devices::extend(name, request, view))
    }
}

/// Makes devices, all or none. May take long.
pub(super) fn make_devices(
    making: Making,
    io: IoMethod,
) -> Result<(Vec<PoolDevice>, Vec<Device>), Problem> {
    let Making { devices, size_bytes, origin } = making;
    if origin == Origin::There {
        return open_there(devices, size_bytes, io);
    }
    let least = if origin == Origin::NewWitness { DEVICE_BYTES_MIN } else { POOL_BYTES_MIN };
    let devices = devices.into_iter().map(|device| {
        let size_bytes = new_device_size(&device, size_bytes, least)?;
        Ok(PoolDevice { device, size_bytes })
    });
    let devices = devices.collect::<Result<Vec<_>, Problem>>()?;
    let made = create_devices(&devices, io).map_err(|error| conflict(&error))?;
    Ok((devices, made))
}

/// Opens devices that are there. May take long.
fn open_there(
    devices: Vec<DeviceName>,
    size_bytes: Option<u64>,
    io: IoMethod,
) -> Result<(Vec<PoolDevice>, Vec<Device>), Problem> {
    let mut opened = Vec::new();
    for device in devices {
        let open = Device::open(&device, size_bytes.unwrap_or(0), method(io));
        let open = open.map_err(|error| conflict(&error))?;
        opened.push((PoolDevice { device, size_bytes: open.size_bytes() }, open));
    }
    Ok(opened.into_iter().unzip())
}

/// The size that a new device is to have. Asks block devices for theirs, which may take long.
fn new_device_size(device: &DeviceName, wanted: Option<u64>, least: u64) -> Result<u64, Problem> {
    let there = || Device::size_before_creation(device).map_err(|error| conflict(&error));
    let size_bytes = match wanted {
        Some(size_bytes) => size_bytes,
        None => there()?.map(|size| size - size % BLOCK).ok_or_else(|| {
            let detail = &"say how large each device is to be";
            problem(ProblemKind::DeviceSizeMissing, detail)
        })?,
    };
    if size_bytes < least || !size_bytes.is_multiple_of(BLOCK) {
        let sentence = format!(
            "a device has at least {} and a multiple of 4096 bytes: choose another size",
            format_size(least)
        );
        return Err(refused(&ArrayError::InvalidSize(sentence)));
    }
    Ok(size_bytes)
}

/// A device of a pool that is to grow: its slot, which opening of it is meant, its name, and how.
pub(super) struct DeviceGrowth {
    slot: u8,
    serial: u64,
    name: DeviceName,
    growth: Growth,
}

/// The same, when it has grown.
pub(super) struct GrownDevice {
    slot: u8,
    serial: u64,
    grown: Grown,
}

/// What is to grow of a device of a pool: itself, or the members of a mirror that are smaller.
pub(super) fn growths_of(
    plane: &DataPlane,
    growing: &Growing,
) -> Result<Vec<DeviceGrowth>, Problem> {
    let pool = plane.pools.get(growing.pool).ok_or_else(gone)?;
    let smaller = |(_, open): &(u8, &OpenDevice)| open.device.size_bytes() < growing.size_bytes;
    let devices = pool.open_devices_of(growing.device).filter(smaller);
    let growth = |(slot, open): (u8, &OpenDevice)| {
        let growth = open.device.growth();
        let growth = growth.map_err(|error| conflict(&format!("{}: {error}", open.name)))?;
        Ok(DeviceGrowth { slot, serial: open.serial, name: open.name.clone(), growth })
    };
    devices.map(growth).collect()
}

/// Makes devices larger. May take long. Those before one that cannot grow have grown: the pool takes
/// nothing of it, and they are as large as is wanted when it is tried again.
pub(super) fn grow_devices(
    growths: Vec<DeviceGrowth>,
    size_bytes: u64,
) -> Result<Vec<GrownDevice>, Problem> {
    let grow = |DeviceGrowth { slot, serial, name, growth }| {
        let grown = growth.to(size_bytes);
        let grown = grown.map_err(|error| conflict(&format!("{name}: {error}")))?;
        Ok(GrownDevice { slot, serial, grown })
    };
    growths.into_iter().map(grow).collect()
}

/// The pool may use what devices have grown by. One that was lost meanwhile has grown, too: its mirror
/// goes on without it.
pub(super) fn take_growth(
    plane: &mut DataPlane,
    growing: &Growing,
    grown: Vec<GrownDevice>,
) -> Result<(), Problem> {
    let mut pool = plane.pools.get_mut(growing.pool).ok_or_else(gone)?;
    for GrownDevice { slot, serial, grown } in grown {
        let open = pool.devices.get_mut(usize::from(slot));
        if let Some(open) = open.filter(|open| open.serial == serial) {
            open.device.take_growth(grown);
        }
    }
    Ok(())
}
