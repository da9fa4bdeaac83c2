//! Routes of the devices of a pool: adding one, growing one; and devices made by another thread.

use api::{AddDevice, Problem, ProblemKind, ResizePool};
use array::limits::POOL_BYTES_MIN;
use array::{ArrayError, PoolDevice};
use block::{BLOCK, DeviceName};
use control::devices::{self, Making};
use device::Device;

use super::problems::{conflict, problem, refused};
use super::{Management, Progress};
use crate::data_plane::DataPlane;
use crate::options::IoMethod;
use crate::pool::create_devices;

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
    let Making { devices, size_bytes } = making;
    let devices = devices.into_iter().map(|device| {
        let size_bytes = new_device_size(&device, size_bytes)?;
        Ok(PoolDevice { device, size_bytes })
    });
    let devices = devices.collect::<Result<Vec<_>, Problem>>()?;
    let made = create_devices(&devices, io).map_err(|error| conflict(&error))?;
    Ok((devices, made))
}

/// The size that a new device is to have. Asks block devices for theirs, which may take long.
fn new_device_size(device: &DeviceName, wanted: Option<u64>) -> Result<u64, Problem> {
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
