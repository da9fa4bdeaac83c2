//! Table of the kinds of device: how each is made, opened, measured and removed.
//!
//! A new kind is a row in `block/src/device_name.rs` (its name and what is known without I/O), a
//! file here with its [`Kind`], and an arm of [`of`].

use std::io;
use std::path::Path;

use block::DeviceKind;

use crate::backend::Backend;
use crate::device::Method;
use crate::error::OpenError;
use crate::fence::Breaking;

mod block_device;
mod file;
mod memory;
pub(crate) mod rbd;

/// An open device, or why not.
type Opened = Result<Box<dyn Backend>, OpenError>;

/// What one kind of device does before one is open.
pub(crate) struct Kind {
    /// Opens what is there, also if those hold it who are named; a kind that keeps nothing makes it anew,
    /// with that many bytes.
    pub(crate) open: fn(&Path, u64, Method, &Breaking) -> Opened,
    /// Makes a new device of that many bytes, or takes one that has them. Overwrites no file.
    pub(crate) create: fn(&Path, u64, Method) -> Opened,
    /// Bytes of what is there before a device is made of it; `None` where whoever makes it must
    /// say how many it is to have.
    pub(crate) size_bytes: fn(&Path) -> Result<Option<u64>, OpenError>,
    /// Takes back what `create` has made.
    pub(crate) remove: fn(&Path) -> io::Result<()>,
}

/// The row of a kind.
pub(crate) fn of(kind: DeviceKind) -> &'static Kind {
    match kind {
        DeviceKind::File => &file::KIND,
        DeviceKind::Block => &block_device::KIND,
        DeviceKind::Rbd => &rbd::KIND,
        DeviceKind::Memory => &memory::KIND,
    }
}

/// Bytes of a new device, as long as only the administrator can say.
fn unknown_size(_: &Path) -> Result<Option<u64>, OpenError> {
    Ok(None)
}

/// Nothing was made that outlives the device.
fn nothing_to_remove(_: &Path) -> io::Result<()> {
    Ok(())
}
