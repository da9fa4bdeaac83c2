//! Device interface of the pools: submits operations to the chosen back end and reaps completions.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;

use block::{DeviceOperation, DeviceResult};

use crate::backing::Backing;
use crate::error::OpenError;
use crate::file::{self, OpenFile};
use crate::memory::Memory;
use crate::notify::Notify;
use crate::ring::Ring;
use crate::threads::Threads;

/// The token that an operation was submitted under, and its result.
pub type Completion = (u64, DeviceResult);

/// Kind and place of a device that is to be opened or made.
#[derive(Clone, Debug)]
pub enum DeviceSpec {
    /// A file on a file system.
    File {
        /// Where it is.
        path: PathBuf,
    },
    /// A block device.
    Block {
        /// Its device file.
        path: PathBuf,
    },
    /// Memory that is gone with the device.
    Memory {
        /// Its size.
        bytes: u64,
    },
}

/// How files and block devices are read and written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// io_uring where the kernel allows it and the file system never makes its caller wait, else
    /// threads.
    Auto,
    /// io_uring, or an error.
    IoUring,
    /// A pool of threads.
    Threads,
}

/// Operation counters of a device since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Reads submitted.
    pub reads: u64,
    /// Writes submitted.
    pub writes: u64,
    /// Flushes submitted.
    pub flushes: u64,
    /// Bytes of those reads.
    pub bytes_read: u64,
    /// Bytes of those writes.
    pub bytes_written: u64,
}

enum Backend {
    Ring(Box<Ring>),
    Threads(Threads),
    Memory(Memory),
}

/// An open device.
pub struct Device {
    backend: Backend,
    notify: Notify,
    counters: Counters,
    /// Held for its lock.
    _lock: Option<File>,
}

impl Device {
    /// Opens a device that is there.
    pub fn open(spec: &DeviceSpec, method: Method) -> Result<Self, OpenError> {
        match spec {
            DeviceSpec::File { path } => Self::on_file(path, file::open(path, false)?, method),
            DeviceSpec::Block { path } => Self::on_file(path, file::open(path, true)?, method),
            DeviceSpec::Memory { bytes } => Self::in_memory(*bytes),
        }
    }

    /// Makes a new device of `size_bytes`: a sparse file, memory, or a block device that is large
    /// enough. Never overwrites a file.
    pub fn create(spec: &DeviceSpec, size_bytes: u64, method: Method) -> Result<Self, OpenError> {
        match spec {
            DeviceSpec::File { path } => {
                Self::on_file(path, file::create(path, size_bytes)?, method)
            }
            DeviceSpec::Block { path } => {
                let open = file::open(path, true)?;
                if open.size_bytes < size_bytes {
                    let (path, actual) = (path.clone(), open.size_bytes);
                    return Err(OpenError::TooSmall { path, actual, wanted: size_bytes });
                }
                Self::on_file(path, open, method)
            }
            DeviceSpec::Memory { .. } => Self::in_memory(size_bytes),
        }
    }

    fn on_file(path: &std::path::Path, open: OpenFile, method: Method) -> Result<Self, OpenError> {
        let os = |what| {
            let path = path.to_owned();
            move |source| OpenError::Os { path, what, source }
        };
        let notify = Notify::new().map_err(os("wait for it"))?;
        let lock = Some(open.lock.try_clone().map_err(os("lock it"))?);
        let ring = || Ring::new(&open, &notify).map(|ring| Backend::Ring(Box::new(ring)));
        let threads = || {
            let threads = Threads::new(&open, &notify).map(Backend::Threads);
            threads.map_err(os("serve it with threads"))
        };
        let backend = match method {
            Method::Threads => threads()?,
            Method::IoUring => ring().map_err(os("use io_uring on it"))?,
            Method::Auto if open.is_prompt => ring().or_else(|_| threads())?,
            Method::Auto => threads()?,
        };
        Ok(Self { backend, notify, counters: Counters::default(), _lock: lock })
    }

    fn in_memory(bytes: u64) -> Result<Self, OpenError> {
        let os = |source| OpenError::Os { path: "memory:".into(), what: "wait for it", source };
        let notify = Notify::new().map_err(os)?;
        let backend = Backend::Memory(Memory::new(bytes));
        Ok(Self { backend, notify, counters: Counters::default(), _lock: None })
    }

    /// Its size.
    pub fn size_bytes(&self) -> u64 {
        match &self.backend {
            Backend::Ring(ring) => ring.size_bytes,
            Backend::Threads(threads) => threads.size_bytes(),
            Backend::Memory(memory) => memory.size_bytes(),
        }
    }

    /// Begins to make it larger, without I/O: [`Growth::to`], which may take long, does it, and
    /// [`Self::take_growth`] makes what is new usable.
    ///
    /// # Errors
    /// When no more files can be open.
    pub fn growth(&self) -> Result<Growth, OpenError> {
        let os = |source| OpenError::Os { path: "the device".into(), what: "open again", source };
        Ok(Growth(match &self.backend {
            Backend::Ring(ring) => Some(ring.file().map_err(os)?),
            Backend::Threads(threads) => Some(threads.file().map_err(os)?),
            Backend::Memory(_) => None,
        }))
    }

    /// Uses what [`Growth::to`] added.
    pub fn take_growth(&mut self, grown: Grown) {
        match &mut self.backend {
            Backend::Ring(ring) => ring.size_bytes = grown.0,
            Backend::Threads(threads) => threads.set_size_bytes(grown.0),
            Backend::Memory(memory) => memory.resize(grown.0),
        }
    }

    /// Queues an operation; its result comes from [`Device::reap`] under the same token.
    pub fn submit(&mut self, token: u64, operation: DeviceOperation) {
        self.count(&operation);
        match &mut self.backend {
            Backend::Ring(ring) => ring.submit(token, operation),
            Backend::Threads(threads) => threads.submit(token, operation),
            Backend::Memory(memory) => memory.submit(token, operation),
        }
    }

    fn count(&mut self, operation: &DeviceOperation) {
        match operation {
            DeviceOperation::Read { buffer, .. } => {
                self.counters.reads += 1;
                self.counters.bytes_read += buffer.len() as u64;
            }
            DeviceOperation::Write { data, .. } => {
                self.counters.writes += 1;
                self.counters.bytes_written += data.len() as u64;
            }
            DeviceOperation::Flush => self.counters.flushes += 1,
            DeviceOperation::Reserve { .. } => {}
        }
    }

    /// Hands what was queued to the kernel.
    pub fn kick(&mut self) {
        if let Backend::Ring(ring) = &mut self.backend {
            ring.kick();
        }
    }

    /// Appends the results that are there; never blocks.
    pub fn reap(&mut self, completions: &mut Vec<Completion>) {
        match &mut self.backend {
            Backend::Ring(ring) => ring.reap(completions),
            Backend::Threads(threads) => threads.reap(completions),
            Backend::Memory(memory) => memory.reap(completions),
        }
    }

    /// To be polled edge-triggered: raises an event whenever there may be something new to reap.
    pub fn readiness(&self) -> BorrowedFd<'_> {
        self.notify.as_fd()
    }

    /// Has the file system under a file looked at, without waiting for it; [`Device::backing`] says
    /// later what was found.
    pub fn look_at_backing(&self) {
        if let Some(threads) = self.threads() {
            threads.look();
        }
    }

    /// The file system under a file, as it was last looked at; first when the device was opened.
    /// `None` for block devices and memory, and where the system does not tell.
    pub fn backing(&self) -> Option<Backing> {
        self.threads().and_then(Threads::backing)
    }

    fn threads(&self) -> Option<&Threads> {
        match &self.backend {
            Backend::Ring(ring) => Some(&ring.flusher),
            Backend::Threads(threads) => Some(threads),
            Backend::Memory(_) => None,
        }
    }

    /// Operation counters since it was opened.
    pub fn counters(&self) -> Counters {
        self.counters
    }
}

/// A device that is to become larger. Can be handed to another thread.
#[derive(Debug)]
pub struct Growth(Option<File>);

/// The size that a device has been given, in bytes.
#[derive(Debug)]
pub struct Grown(u64);

impl Growth {
    /// Makes a file or memory larger, and a file's size durable; a block device must have grown
    /// already. May take as long as the file system does.
    ///
    /// # Errors
    /// When the file system refuses.
    pub fn to(self, size_bytes: u64) -> Result<Grown, OpenError> {
        let os =
            |source| OpenError::Os { path: "the device".into(), what: "make it larger", source };
        match self.0 {
            Some(file) => crate::ring::grow(&file, size_bytes).map(Grown).map_err(os),
            None => Ok(Grown(size_bytes)),
        }
    }
}
