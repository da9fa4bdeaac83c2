//! One open pool: the engine and its devices, wired together.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use array::{Pool as PoolConfiguration, PoolDevice};
use block::BLOCK;
use device::{Counters, Device, Method, OpenError};
use store::{Failure, IoId, OpenMode, PoolSpec, Space, Store, Tag};

use crate::backing::PoolBacking;
use crate::data_plane::Ticket;
use crate::device_times::DeviceTimes;
use crate::exports::RodTokenSpace;
use crate::options::IoMethod;

/// Counts openings of devices.
static SERIALS: AtomicU64 = AtomicU64::new(0);

/// How a pool is run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PoolOptions {
    pub(crate) io: IoMethod,
    /// Memory for its maps, in bytes.
    pub(crate) memory_bytes: u64,
    /// Whether some of the data is watched for copies that hosts make themselves.
    pub(crate) sampling: bool,
    pub(crate) mode: OpenMode,
}

/// The engine and the devices of one pool.
pub(crate) struct Pool {
    pub(crate) name: String,
    pub(crate) store: Store,
    pub(crate) devices: Vec<Device>,
    pub(crate) device_times: DeviceTimes,
    pub(crate) memory_bytes: u64,
    /// Percentage of its space at which hosts are warned.
    pub(crate) soft_percent: u8,
    /// Whether a device is joining.
    pub(crate) joining: bool,
    /// The first configured device that could not be opened, and why.
    pub(crate) absent: Option<OpenError>,
    /// Why it could not be resumed, and serves reads instead.
    pub(crate) resume_problem: Option<String>,
    /// Which opening of its devices this is, in the life of the daemon.
    pub(crate) serial: u64,
    /// Free space of the file systems under its files.
    pub(crate) backing: PoolBacking,
    pub(crate) completions: Vec<(u64, block::DeviceResult)>,
    /// Where the data of ROD tokens rests.
    pub(crate) rod_token_space: Option<RodTokenSpace>,
    /// The same, while it is being made.
    pub(crate) coming_rod_token_space: Option<(Ticket, RodTokenSpace)>,
}

impl Pool {
    /// A pool on new devices, each with an identifier of its own. `tag` is done when it is ready.
    pub(crate) fn create(
        name: &str,
        configuration: &PoolConfiguration,
        options: PoolOptions,
        devices: Vec<(Device, [u8; 16])>,
        tag: Tag,
    ) -> Self {
        let (devices, device_uuids): (Vec<_>, Vec<_>) = devices.into_iter().unzip();
        let specs = configuration.devices.iter().zip(&device_uuids);
        let spec = |(device, &uuid): (&PoolDevice, &[u8; 16])| store::DeviceSpec {
            uuid,
            size_bytes: device.size_bytes,
        };
        let spec = PoolSpec { pool_uuid: configuration.uuid, devices: specs.map(spec).collect() };
        let store = Store::format(&spec, store_options(options), tag);
        Self::new(name, store, devices, options, configuration)
    }

    /// A pool whose devices are there. `tag` is done when it is ready or found unusable. Where a
    /// device cannot be opened the engine says whether the pool needs it: one that had not joined
    /// yet it does not need.
    pub(crate) fn open(
        name: &str,
        configuration: &PoolConfiguration,
        options: PoolOptions,
        tag: Tag,
    ) -> Result<Self, OpenError> {
        let mut devices = Vec::new();
        let mut absent = None;
        for device in &configuration.devices {
            match Device::open(&device.device, device.size_bytes, method(options.io)) {
                Ok(device) => devices.push(device),
                Err(error) if devices.is_empty() => return Err(error),
                Err(error) => {
                    absent = Some(error);
                    break;
                }
            }
        }
        let sizes: Vec<u64> = devices.iter().map(Device::size_bytes).collect();
        let store = Store::open(&sizes, Some(configuration.uuid), store_options(options), tag);
        Ok(Self { absent, ..Self::new(name, store, devices, options, configuration) })
    }

    fn new(
        name: &str,
        store: Store,
        devices: Vec<Device>,
        options: PoolOptions,
        configuration: &PoolConfiguration,
    ) -> Self {
        Self {
            name: name.to_owned(),
            store,
            devices,
            device_times: DeviceTimes::default(),
            memory_bytes: options.memory_bytes,
            soft_percent: configuration.thresholds.soft_percent,
            joining: false,
            absent: None,
            resume_problem: None,
            serial: SERIALS.fetch_add(1, Ordering::Relaxed),
            backing: PoolBacking::default(),
            completions: Vec::new(),
            rod_token_space: None,
            coming_rod_token_space: None,
        }
    }

    /// Opens the engine anew on the devices, which have come to rest. `tag` is done when it is
    /// ready or found unusable.
    pub(crate) fn reopen(&mut self, uuid: Option<[u8; 16]>, options: PoolOptions, tag: Tag) {
        let sizes: Vec<u64> = self.devices.iter().map(Device::size_bytes).collect();
        self.store = Store::open(&sizes, uuid, store_options(options), tag);
        self.device_times = DeviceTimes::default();
        self.joining = false;
        self.absent = None;
        if options.mode != OpenMode::ReadOnly {
            self.resume_problem = None;
        }
    }

    /// Begins to let the last of its devices join it. `tag` is done when it has.
    pub(crate) fn join_last_device(&mut self, uuid: [u8; 16], tag: Tag) {
        let size_bytes = self.devices.last().map_or(0, Device::size_bytes);
        let size_bytes = size_bytes - size_bytes % BLOCK;
        self.joining = true;
        self.store.set_extending(true);
        let device = store::DeviceSpec { uuid, size_bytes };
        self.store.change(tag, store::Change::AddDevice(device));
    }

    /// A device has grown, or could not: hosts are told to wait for space only while another one
    /// still joins.
    pub(crate) fn extension_ended(&mut self) {
        self.store.set_extending(self.joining);
    }

    /// Carries wishes to the devices and completions back, until neither side has any. Returns
    /// whether anything moved.
    pub(crate) fn pump(&mut self) -> bool {
        let mut moved = false;
        let now = Instant::now();
        while let Some(io) = self.store.next_io() {
            self.device_times.submitted(&io, now);
            self.devices[usize::from(io.device)].submit(io.id.0, io.operation);
            moved = true;
        }
        for device in &mut self.devices {
            device.kick();
            device.reap(&mut self.completions);
        }
        if self.completions.is_empty() {
            return moved;
        }
        let now = Instant::now();
        for (id, result) in self.completions.drain(..) {
            self.device_times.completed(IoId(id), now, result.as_ref().err());
            self.store.completed(IoId(id), result);
        }
        true
    }

    /// Where the space went. What has no space on the file system under the pool is not free.
    pub(crate) fn space(&self) -> Space {
        self.backing.cap(self.store.space())
    }

    /// Looks after the file systems under its files, without waiting for them.
    pub(crate) fn look_at_backing(&mut self) {
        self.backing.look(&self.devices, &self.store.space());
    }

    /// Sum of the operation counters of its devices.
    pub(crate) fn device_counters(&self) -> Counters {
        let mut sum = Counters::default();
        for counters in self.devices.iter().map(Device::counters) {
            sum.reads += counters.reads;
            sum.writes += counters.writes;
            sum.flushes += counters.flushes;
            sum.bytes_read += counters.bytes_read;
            sum.bytes_written += counters.bytes_written;
        }
        sum
    }

    /// Why it could not be opened, with the name of the device that is to blame.
    pub(crate) fn explain(&self, failure: &Failure, configuration: &PoolConfiguration) -> String {
        let name = |index: usize| configuration.devices.get(index).map(|device| &device.device);
        match (failure, &self.absent) {
            (Failure::Open(store::OpenError::Missing { index }), Some(absent))
                if *index == self.devices.len() =>
            {
                format!("device {index} of the pool is missing: {absent}. Nothing was changed")
            }
            (Failure::Open(store::OpenError::WrongDevice { index }), _) => {
                let name = name(*index).map_or_else(String::new, ToString::to_string);
                format!("{name}: {failure}")
            }
            (Failure::Open(store::OpenError::Short { actual, .. }), _) => {
                let short = self.devices.iter().position(|device| device.size_bytes() == *actual);
                let name = short.and_then(name).map_or_else(String::new, ToString::to_string);
                format!("{name}: {failure}")
            }
            _ => failure.to_string(),
        }
    }
}

fn store_options(options: PoolOptions) -> store::Options {
    let PoolOptions { memory_bytes, sampling, mode, io: _ } = options;
    store::Options { memory_bytes, sampling, mode, ..store::Options::default() }
}

/// Makes the devices of a new pool, all or none. May take long.
pub(crate) fn create_devices(
    devices: &[PoolDevice],
    io: IoMethod,
) -> Result<Vec<Device>, OpenError> {
    let mut made = Vec::new();
    for (number, device) in devices.iter().enumerate() {
        match create_device(device, io) {
            Ok(device) => made.push(device),
            Err(error) => {
                devices[..number].iter().for_each(remove_device);
                return Err(error);
            }
        }
    }
    Ok(made)
}

/// Makes a new device. May take long. Never overwrites a file.
fn create_device(device: &PoolDevice, io: IoMethod) -> Result<Device, OpenError> {
    Device::create(&device.device, device.size_bytes, method(io))
}

/// Removes the file of a device in which nothing was ever stored. May take long.
pub(crate) fn remove_device(device: &PoolDevice) {
    if let Err(error) = Device::remove(&device.device) {
        tracing::warn!(path = %device.device.path().display(), %error, "an empty file could not be removed");
    }
}

fn method(io: IoMethod) -> Method {
    match io {
        IoMethod::Auto => Method::Auto,
        IoMethod::IoUring => Method::IoUring,
        IoMethod::Threads => Method::Threads,
    }
}
