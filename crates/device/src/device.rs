//! Device interface of the pools: opens a device by its name, submits operations
//! to its back end and reaps completions.

use std::io;
use std::os::fd::BorrowedFd;

use block::{DeviceName, DeviceOperation, DeviceResult};

use crate::backend::{Backend, Grow};
use crate::backing::Backing;
use crate::error::OpenError;
use crate::fence::{Breaking, Fence};
use crate::kinds;
use crate::presence::Presence;

/// The identifier that an operation was submitted under, and its result.
pub type Completion = (u64, DeviceResult);

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

/// An open device of any kind.
pub struct Device {
    backend: Box<dyn Backend>,
    counters: Counters,
}

impl Device {
    /// Opens a device that is there. A kind that keeps nothing is made anew with `size_bytes`; the
    /// others have the size that they were made with.
    ///
    /// # Errors
    /// When there is none, another process has it, or the system refuses.
    pub fn open(name: &DeviceName, size_bytes: u64, method: Method) -> Result<Self, OpenError> {
        Self::open_breaking(name, size_bytes, method, &Breaking::NONE)
    }

    /// The same, and takes the device from those who are named: they can write to it no more, whether or
    /// not they are still there.
    ///
    /// # Errors
    /// As of [`Device::open`]; [`OpenError::Held`] if somebody holds it who is not named.
    pub fn open_breaking(
        name: &DeviceName,
        size_bytes: u64,
        method: Method,
        breaking: &Breaking,
    ) -> Result<Self, OpenError> {
        let open = kinds::of(name.kind()).open;
        Ok(Self::with(open(name.path(), size_bytes, method, breaking)?))
    }

    /// Makes a new device of `size_bytes`: a sparse file, memory, or a block device that is large
    /// enough. Never overwrites a file.
    ///
    /// # Errors
    /// When there is one already, it is too small, another process has it, or the system refuses.
    pub fn create(name: &DeviceName, size_bytes: u64, method: Method) -> Result<Self, OpenError> {
        let create = kinds::of(name.kind()).create;
        Ok(Self::with(create(name.path(), size_bytes, method)?))
    }

    /// Takes back what [`Device::create`] has made and nobody needs: a file. May take long.
    ///
    /// # Errors
    /// When the file system refuses.
    pub fn remove(name: &DeviceName) -> io::Result<()> {
        (kinds::of(name.kind()).remove)(name.path())
    }

    /// Bytes that a device has before it is created, where it is there already (a block device);
    /// `None` where whoever creates it must say. May take long.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub fn size_before_creation(name: &DeviceName) -> Result<Option<u64>, OpenError> {
        (kinds::of(name.kind()).size_bytes)(name.path())
    }

    pub(crate) fn with(backend: Box<dyn Backend>) -> Self {
        Self { backend, counters: Counters::default() }
    }

    /// Its size.
    pub fn size_bytes(&self) -> u64 {
        self.backend.size_bytes()
    }

    /// Begins to make it larger, without I/O: [`Growth::to`], which may take long, does it, and
    /// [`Self::take_growth`] makes what is new usable.
    ///
    /// # Errors
    /// When no more files can be open.
    pub fn growth(&self) -> Result<Growth, OpenError> {
        self.backend.growth().map(Growth).map_err(os("open again"))
    }

    /// Uses what [`Growth::to`] added.
    pub fn take_growth(&mut self, grown: Grown) {
        self.backend.take_growth(grown.0);
    }

    /// Queues an operation; its result comes from [`Device::reap`] under the same identifier.
    pub fn submit(&mut self, id: u64, operation: DeviceOperation) {
        self.counters.count(&operation);
        self.backend.submit(id, operation);
    }

    /// Hands what was queued to the kernel.
    pub fn kick(&mut self) {
        self.backend.kick();
    }

    /// Appends the results that are there; never blocks.
    pub fn reap(&mut self, completions: &mut Vec<Completion>) {
        self.backend.reap(completions);
    }

    /// To be polled edge-triggered: raises an event whenever there may be something new to reap.
    pub fn readiness(&self) -> BorrowedFd<'_> {
        self.backend.readiness()
    }

    /// Has a file and the file system under it looked at, without waiting for it;
    /// [`Device::backing`] and [`Device::presence`] say later what was found.
    pub fn look_at_backing(&self) {
        self.backend.look_at_backing();
    }

    /// The file system under a file, as it was last looked at; first when the device was opened.
    /// `None` for block devices and memory, and where the system does not tell.
    pub fn backing(&self) -> Option<Backing> {
        self.backend.backing()
    }

    /// What became of its file while it is open, as it was last looked at.
    pub fn presence(&self) -> Presence {
        self.backend.presence()
    }

    /// What keeps others from it.
    pub fn fence(&self) -> Fence {
        self.backend.fence()
    }

    /// How others see who holds it ([`crate::Holder::identity`]); `None` where they see no name.
    pub fn identity(&self) -> Option<String> {
        self.backend.identity()
    }

    /// Operation counters since it was opened.
    pub fn counters(&self) -> Counters {
        self.counters
    }
}

impl Counters {
    fn count(&mut self, operation: &DeviceOperation) {
        match operation {
            DeviceOperation::Read { buffer, .. } => {
                self.reads += 1;
                self.bytes_read += buffer.len() as u64;
            }
            DeviceOperation::Write { data, .. } => {
                self.writes += 1;
                self.bytes_written += data.len() as u64;
            }
            DeviceOperation::Flush => self.flushes += 1,
            DeviceOperation::Reserve { .. } => {}
        }
    }
}

/// A device that is to become larger. Can be handed to another thread.
pub struct Growth(Grow);

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
        (self.0)(size_bytes).map(Grown).map_err(os("make it larger"))
    }
}

fn os(what: &'static str) -> impl FnOnce(io::Error) -> OpenError {
    move |source| OpenError::Os { path: "the device".into(), what, source }
}
