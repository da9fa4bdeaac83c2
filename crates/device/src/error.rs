//! Device errors: why a device could not be opened or made.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

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
    /// Another process has it.
    #[error("{0} is in use by another process: stop that first")]
    InUse(PathBuf),
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
