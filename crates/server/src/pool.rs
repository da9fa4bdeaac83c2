//! A pool that is being served: the engine and its device, wired together.

use array::{DeviceName, Pool as PoolConfiguration};
use device::{Device, DeviceSpec, Method};
use scsi::TokenSpace;
use store::{IoId, PoolSpec, Store, Tag};

use crate::core::Ticket;
use crate::options::IoMethod;

/// The engine and the device of one pool.
pub(crate) struct Pool {
    pub(crate) name: String,
    pub(crate) store: Store,
    pub(crate) device: Device,
    completions: Vec<(u64, block::DeviceResult)>,
    /// Where the data of ROD tokens rests.
    pub(crate) token_space: Option<TokenSpace>,
    /// The same, while it is being made.
    pub(crate) coming_token_space: Option<(Ticket, TokenSpace)>,
}

impl Pool {
    /// A pool on a new device. `tag` is done when it is ready.
    pub(crate) fn create(
        name: &str,
        configuration: &PoolConfiguration,
        method: IoMethod,
        device_uuid: [u8; 16],
        tag: Tag,
    ) -> Result<Self, device::OpenError> {
        let spec = device_spec(configuration);
        let device = Device::create(&spec, configuration.size_bytes, backend(method))?;
        let pool_spec = PoolSpec {
            pool_uuid: configuration.uuid,
            devices: vec![store::DeviceSpec {
                uuid: device_uuid,
                size_bytes: configuration.size_bytes,
            }],
        };
        let store = Store::format(&pool_spec, store::Options::default(), tag);
        Ok(Self {
            name: name.to_owned(),
            store,
            device,
            completions: Vec::new(),
            token_space: None,
            coming_token_space: None,
        })
    }

    /// A pool whose device is there. `tag` is done when it is ready or found unusable.
    pub(crate) fn open(
        name: &str,
        configuration: &PoolConfiguration,
        method: IoMethod,
        tag: Tag,
    ) -> Result<Self, device::OpenError> {
        let device = Device::open(&device_spec(configuration), backend(method))?;
        let options = store::Options::default();
        let store = Store::open(&[device.size_bytes()], Some(configuration.uuid), options, tag);
        Ok(Self {
            name: name.to_owned(),
            store,
            device,
            completions: Vec::new(),
            token_space: None,
            coming_token_space: None,
        })
    }

    /// Carries wishes to the device and completions back, until neither side has any. Returns
    /// whether anything moved.
    pub(crate) fn pump(&mut self) -> bool {
        let mut moved = false;
        while let Some(io) = self.store.next_io() {
            self.device.submit(io.id.0, io.operation);
            moved = true;
        }
        self.device.kick();
        self.device.reap(&mut self.completions);
        for (token, result) in self.completions.drain(..) {
            self.store.completed(IoId(token), result);
            moved = true;
        }
        moved
    }
}

fn backend(method: IoMethod) -> Method {
    match method {
        IoMethod::Auto => Method::Auto,
        IoMethod::IoUring => Method::IoUring,
        IoMethod::Threads => Method::Threads,
    }
}

fn device_spec(configuration: &PoolConfiguration) -> DeviceSpec {
    match &configuration.device {
        DeviceName::File(path) => DeviceSpec::File { path: path.clone() },
        DeviceName::Block(path) => DeviceSpec::Block { path: path.clone() },
        DeviceName::Memory => DeviceSpec::Memory { bytes: configuration.size_bytes },
    }
}
