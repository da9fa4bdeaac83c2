//! Device errors: why a device could not be opened or made.

use std::io;
use std::path::PathBuf;

use block::{BLOCK, Buffer};
use thiserror::Error;

use crate::fence::Holder;

/// Nothing was changed.
#[derive(Debug, Error)]
pub enum OpenError {
    /// No file there.
    #[error("{0} does not exist: was it moved, or is its file system not mounted?")]
    Missing(PathBuf),
    /// A new file was asked for.
    #[error(
        "{0} already exists and is not overwritten: choose another path, or remove it yourself if nothing in it is needed"
    )]
    Exists(PathBuf),
    /// Another process of this machine has it: the lock of a file, which nobody can break.
    #[error("{path} is in use by another process{}: stop that first", holder.as_ref().map_or_else(String::new, |holder| format!(", {holder}")))]
    InUse {
        /// The file or block device.
        path: PathBuf,
        /// The process, as far as the system tells.
        holder: Option<Holder>,
        /// The block at [`crate::OWNER_BEAT_OFFSET`], if it could be read.
        owner_beat: Option<Buffer>,
    },
    /// Somebody holds its lock who is not a process of this machine, or not only that: a reservation of a
    /// block device, the exclusive lock of an image.
    #[error(
        "{path} is locked by {}: it is opened when that lets go; if that is gone for good, break its lock with 'gantry pool open POOL --break-lock'",
        holders.iter().map(ToString::to_string).collect::<Vec<_>>().join(" and ")
    )]
    Held {
        /// The device.
        path: PathBuf,
        /// All who hold it; at least one.
        holders: Vec<Holder>,
        /// The block at [`crate::OWNER_BEAT_OFFSET`], if it could be read.
        owner_beat: Option<Buffer>,
    },
    /// A file where a block device should be, or the reverse.
    #[error("{path} is not a {expected}: write {hint}")]
    WrongKind {
        /// The path that was given.
        path: PathBuf,
        /// 'file' or 'block device'.
        expected: &'static str,
        /// The form of the right name.
        hint: String,
    },
    /// The device is smaller than asked for.
    #[error("{path} has {actual} bytes, but {wanted} are asked for: choose a smaller size")]
    TooSmall {
        /// The device.
        path: PathBuf,
        /// Bytes it has.
        actual: u64,
        /// Bytes asked for.
        wanted: u64,
    },
    /// The operating system refused.
    #[error("{path}: cannot {what}: {source}")]
    Os {
        /// The device.
        path: PathBuf,
        /// The operation that failed.
        what: &'static str,
        /// The system's error.
        source: io::Error,
    },
}

impl OpenError {
    /// Adds the heartbeat of whoever holds the device, if `read` gets it.
    pub(crate) fn with_owner_beat(
        mut self,
        read: impl FnOnce(&mut [u8]) -> io::Result<()>,
    ) -> Self {
        if let Self::Held { owner_beat, .. } | Self::InUse { owner_beat, .. } = &mut self {
            let mut buffer = Buffer::zeroed(BLOCK as usize);
            *owner_beat = read(&mut buffer).is_ok().then_some(buffer);
        }
        self
    }
}
