//! VMFS-5 as it lies on disk, for several hosts at once: volumes, files, directories, virtual
//! disks, on-disk locks, heartbeats.
//!
//! All I/O, and the clock, come from a [`disk::Disk`] that is lent to it. So the same code runs on
//! a file ([`image::FileDisk`]) and over iSCSI. docs/host-kit.md says what of the
//! format is confirmed by which witness, and what is ours.
#![forbid(unsafe_code)]

mod blocks;
mod bytes;
pub mod chain;
mod descriptor;
mod directory;
pub mod disk;
mod error;
mod extents;
mod fd;
pub mod file;
pub mod format;
mod growth;
mod heartbeat;
pub mod image;
mod journal;
pub mod limits;
mod lock;
mod lvm;
pub mod partition;
mod redo;
mod resource;
mod settle;
mod space;
mod span;
mod transaction;
pub mod vmdk;
pub mod volume;

pub use bytes::Uuid;
pub use disk::{Disk, DiskError, Swap};
pub use error::{Error, Result};
pub use extents::{DiskOfVolume, is_extent};
pub use fd::FileKind;
pub use growth::Grown;
pub use lock::{LockMode, Locking};
pub use lvm::Place;
pub use volume::{Mount, Stats, Volume};
