//! One open pool: the engine and its devices, wired together.

pub(crate) mod files;
mod members;
mod pulse;
mod slots;

pub(crate) use members::{Absent, MemberNews, SeenMember};
pub(crate) use slots::{OpenDevice, Slots};

use std::time::{Duration, Instant};

use array::{Pool as PoolConfiguration, PoolDevice};
use block::{BLOCK, DeviceError};
use device::{Breaking, Counters, Device, Method, OpenError, Presence};
use store::{
    DeviceSpec, Failure, Health, IoId, MemberSpec, OpenContext, OpenMode, PoolSpec, Space, Store,
    Tag,
};

use crate::backing::PoolBacking;
use crate::data_plane::Ticket;
use crate::device_times::DeviceTimes;
use crate::exports::RodTokenSpace;
use crate::options::IoMethod;

/// errno: no such device.
const ENODEV: i32 = 19;

/// A device and its identifier.
pub(crate) type NamedDevice = (Device, [u8; 16]);

/// How a pool is run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PoolOptions {
    pub(crate) io: IoMethod,
    /// Memory for its maps, in bytes.
    pub(crate) memory_bytes: u64,
    /// Whether some of the data is watched for copies that hosts make themselves.
    pub(crate) sampling: bool,
    pub(crate) mode: OpenMode,
    /// How long a member of a mirror may take for one I/O.
    pub(crate) hang_limit: Duration,
    /// Bytes per second that are moved at most from a device that leaves.
    pub(crate) evacuation_rate: u64,
}

/// What the daemon knows of a pool that it opens.
#[derive(Clone, Debug, Default)]
pub(crate) struct Knowledge {
    /// The newest membership list of each mirror.
    pub(crate) witnessed: Vec<([u8; 16], u64)>,
    /// Another controller may have had the pool since, and may know of a newer one.
    pub(crate) shared: bool,
    /// Mirrors of which that is not known are opened without missing members, too.
    pub(crate) allow_degraded: bool,
    /// Whose locks of its devices are broken.
    pub(crate) breaking: Breaking,
}

/// The engine and the devices of one pool.
pub(crate) struct Pool {
    pub(crate) name: String,
    pub(crate) uuid: [u8; 16],
    pub(crate) store: Store,
    pub(crate) devices: Slots,
    pub(crate) device_times: DeviceTimes,
    pub(crate) memory_bytes: u64,
    /// Percentage of its space at which hosts are warned.
    pub(crate) soft_percent: u8,
    /// Whether a device is joining.
    pub(crate) joining: bool,
    /// Configured devices that could not be opened, by their place, and why.
    pub(crate) absent: Vec<(usize, OpenError)>,
    /// The members of its mirrors as they were last looked at.
    pub(crate) seen_members: Vec<SeenMember>,
    /// What keeps the device from leaving that leaves it, as administrators were told.
    pub(crate) departure_trouble: Option<String>,
    /// The device that another owner took, if one has: nothing is written any more.
    pub(crate) fenced: Option<String>,
    /// Whether it was opened, and nobody has read yet whose array used it last: hosts wait.
    pub(crate) is_withheld: bool,
    /// Whether another controller may have taken it since its last heartbeat: hosts wait.
    pub(crate) is_in_doubt: bool,
    /// Why it could not be resumed, and serves reads instead.
    pub(crate) resume_problem: Option<String>,
    /// Free space of the file systems under its files.
    pub(crate) backing: PoolBacking,
    pub(crate) completions: Vec<(u64, block::DeviceResult)>,
    /// Time since its engine began, as that was told.
    pub(crate) clock: Duration,
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
        (devices, mirrors): (Vec<NamedDevice>, Vec<[u8; 16]>),
        tag: Tag,
    ) -> Self {
        let mut slots = Slots::default();
        let mut members = Vec::new();
        for (configured, (device, uuid)) in configuration.devices.iter().zip(devices) {
            let slot = slots.len() as u8;
            members.push(MemberSpec { uuid, slot, size_bytes: configured.size_bytes });
            slots.push(OpenDevice::new(configured.device.clone(), device));
        }
        let copies = members.len() / mirrors.len().max(1);
        let plain = |member: &MemberSpec| DeviceSpec::plain(*member);
        let mirror = |(uuid, members): (&[u8; 16], &[MemberSpec])| {
            DeviceSpec::mirror(*uuid, members.to_vec())
        };
        let devices = if mirrors.is_empty() {
            members.iter().map(plain).collect()
        } else {
            mirrors.iter().zip(members.chunks(copies)).map(mirror).collect()
        };
        let spec = PoolSpec { pool_uuid: configuration.uuid, devices };
        let store = Store::format(&spec, store_options(options), tag);
        Self::new(name, store, slots, options, configuration)
    }

    /// A pool whose devices are there. `tag` is done when it is ready or found unusable. Where a
    /// device cannot be opened the engine says whether the pool needs it: one that had not joined
    /// yet it does not need, nor a member of a mirror that has another current one. A pool of which
    /// another owner has a device is not opened, whatever else is there.
    pub(crate) fn open(
        name: &str,
        configuration: &PoolConfiguration,
        options: PoolOptions,
        knowledge: Knowledge,
        tag: Tag,
    ) -> Result<Self, Absent> {
        let (slots, absent) = members::open_devices(configuration, options.io, &knowledge.breaking);
        let is_taken = absent.iter().any(|(_, error)| matches!(error, OpenError::Held { .. }));
        if !absent.is_empty() && (is_taken || slots.iter().next().is_none()) {
            return Err(absent);
        }
        let context = knowledge.context(configuration.uuid);
        let store = Store::open(&slots.specs(), context, store_options(options), tag);
        let pool = Self::new(name, store, slots, options, configuration);
        Ok(Self { absent, is_withheld: true, ..pool })
    }

    fn new(
        name: &str,
        store: Store,
        devices: Slots,
        options: PoolOptions,
        configuration: &PoolConfiguration,
    ) -> Self {
        Self {
            name: name.to_owned(),
            uuid: configuration.uuid,
            store,
            devices,
            device_times: DeviceTimes::default(),
            memory_bytes: options.memory_bytes,
            soft_percent: configuration.thresholds.soft_percent,
            joining: false,
            absent: Vec::new(),
            seen_members: Vec::new(),
            departure_trouble: None,
            fenced: None,
            is_withheld: false,
            is_in_doubt: false,
            resume_problem: None,
            backing: PoolBacking::default(),
            completions: Vec::new(),
            clock: Duration::ZERO,
            rod_token_space: None,
            coming_rod_token_space: None,
        }
    }

    /// Opens the engine anew on the devices, which have come to rest. `tag` is done when it is
    /// ready or found unusable.
    pub(crate) fn reopen(
        &mut self,
        uuid: [u8; 16],
        options: PoolOptions,
        knowledge: Knowledge,
        tag: Tag,
    ) {
        let context = knowledge.context(uuid);
        self.store = Store::open(&self.devices.specs(), context, store_options(options), tag);
        self.clock = Duration::ZERO;
        self.device_times = DeviceTimes::default();
        self.joining = false;
        self.absent.clear();
        self.is_withheld = true;
        if options.mode != OpenMode::ReadOnly {
            self.resume_problem = None;
        }
    }

    /// The state of its engine; a pool is being opened until hosts may be let in.
    pub(crate) fn health(&self) -> Health {
        match self.store.health() {
            Health::Ready if self.is_withheld => Health::Opening,
            health => health,
        }
    }

    /// Begins to let the last of its devices join it. `tag` is done when it has.
    pub(crate) fn join_last_device(&mut self, uuid: [u8; 16], tag: Tag) {
        let slot = self.devices.len().saturating_sub(1);
        let size_bytes = self.devices.get(slot).map_or(0, |open| open.device.size_bytes());
        let size_bytes = size_bytes - size_bytes % BLOCK;
        self.joining = true;
        self.store.set_extending(true);
        let device = DeviceSpec::plain(MemberSpec { uuid, slot: slot as u8, size_bytes });
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
        let (mut moved, mut refused) = (false, None);
        let now = Instant::now();
        while let Some(io) = self.store.next_io() {
            self.device_times.submitted(&io, now);
            match self.devices.get_mut(usize::from(io.device)) {
                Some(open) => open.device.submit(io.id.0, io.operation),
                None => self.completions.push((io.id.0, Err(DeviceError::Os(ENODEV)))),
            }
            moved = true;
        }
        for (_, open) in self.devices.iter_mut() {
            open.device.kick();
            let first = self.completions.len();
            open.device.reap(&mut self.completions);
            if pulse::take_result(&mut open.pulse, &mut self.completions, first) {
                refused = Some(open.name.to_string());
            }
        }
        if let Some(device) = refused {
            self.fence(device);
        }
        if self.completions.is_empty() {
            return moved;
        }
        let now = Instant::now();
        let is_fenced =
            |(_, result): &(u64, block::DeviceResult)| matches!(result, Err(DeviceError::Fenced));
        if self.completions.iter().any(is_fenced) {
            self.fence("one of its devices".to_owned());
        }
        for (id, result) in self.completions.drain(..) {
            self.device_times.completed(IoId(id), now, result.as_ref().err());
            self.store.completed(IoId(id), result);
        }
        true
    }

    /// Another owner took a device: nothing more is asked of any. Hosts are told so before they are told
    /// of a write that was refused: the medium is well.
    pub(crate) fn fence(&mut self, device: String) {
        self.fenced.get_or_insert(device);
        self.store.withdraw();
    }

    /// Whether somebody who holds a witness could open one of its mirrors without some of its members.
    pub(crate) fn relies_on_witness(&self) -> bool {
        self.mirrors().any(|mirror| mirror.relies_on_witness())
    }

    /// Looks whether another owner took a device, as far as is known without asking one.
    pub(crate) fn look_at_fence(&mut self) {
        let is_taken =
            |open: &OpenDevice| !open.is_lost && open.device.presence() == Presence::Fenced;
        let taken = self.devices.iter().find(|(_, open)| is_taken(open));
        let taken = taken.map(|(_, open)| open.name.to_string());
        if let Some(device) = self.fenced.clone().or(taken) {
            self.fence(device);
        }
    }

    /// Tells the engine how much time has passed.
    pub(crate) fn pass(&mut self, time: Duration) {
        self.clock += time;
        self.store.tick(self.clock);
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
        for counters in self.devices.iter().map(|(_, open)| open.device.counters()) {
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
        let absent: Vec<String> = self.absent.iter().map(|(_, error)| error.to_string()).collect();
        match failure {
            Failure::Open(store::OpenError::Missing { index }) if !absent.is_empty() => {
                format!(
                    "device {index} of the pool is missing: {}. Nothing was changed",
                    absent.join("; ")
                )
            }
            Failure::Open(store::OpenError::MembersMissing { .. }) if !absent.is_empty() => {
                format!("{failure}: {}", absent.join("; "))
            }
            Failure::Open(store::OpenError::WrongDevice { index }) => {
                let name = name(*index).map_or_else(String::new, ToString::to_string);
                format!("{name}: {failure}")
            }
            Failure::Open(store::OpenError::Short { actual, .. }) => {
                let mut open = self.devices.iter();
                let short = open.find(|(_, open)| open.device.size_bytes() == *actual);
                let name = short.map_or_else(String::new, |(_, open)| open.name.to_string());
                format!("{name}: {failure}")
            }
            _ => failure.to_string(),
        }
    }
}

impl Knowledge {
    fn context(self, pool_uuid: [u8; 16]) -> OpenContext {
        let Self { witnessed, shared, allow_degraded, breaking: _ } = self;
        OpenContext { expected_pool_uuid: Some(pool_uuid), witnessed, shared, allow_degraded }
    }
}

fn store_options(options: PoolOptions) -> store::Options {
    let PoolOptions { memory_bytes, sampling, mode, hang_limit, evacuation_rate, io: _ } = options;
    store::Options {
        memory_bytes,
        sampling,
        mode,
        hang_limit,
        evacuation_rate,
        ..store::Options::default()
    }
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

pub(crate) fn method(io: IoMethod) -> Method {
    match io {
        IoMethod::Auto => Method::Auto,
        IoMethod::IoUring => Method::IoUring,
        IoMethod::Threads => Method::Threads,
    }
}
