//! Errors of a volume and its files.

use thiserror::Error;

use crate::disk::DiskError;

/// Result of an operation on a volume.
pub type Result<T> = std::result::Result<T, Error>;

/// Why an operation on a volume failed.
#[derive(Debug, Error)]
pub enum Error {
    /// The disk failed or refused.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// There is no VMFS-5 volume, or it is damaged.
    #[error("not a VMFS-5 volume: {0}")]
    Format(String),
    /// No file or directory of that name.
    #[error("{}: No such file or directory", named(.0))]
    NotFound(String),
    /// There is one already.
    #[error("{}: File exists", named(.0))]
    Exists(String),
    /// The name is empty, too long, or holds a byte that names may not.
    #[error("{0:?} cannot be a name")]
    Name(String),
    /// A file where a directory is needed, or the other way round.
    #[error("{}: wrong kind of file", named(.0))]
    Kind(String),
    /// The directory is not empty.
    #[error("{}: Directory not empty", named(.0))]
    NotEmpty(String),
    /// Another host holds the file's lock, and lives.
    #[error("Failed to lock the file: held by host {owner}")]
    Locked {
        /// The holder's identifier.
        owner: String,
    },
    /// Others kept an object locked for too long.
    #[error("an on-disk lock stayed busy")]
    Contended,
    /// The volume is full.
    #[error("No space left on device")]
    NoSpace,
    /// Every heartbeat slot is taken.
    #[error("the volume is mounted by 64 hosts: unmount one first")]
    TooManyHosts,
    /// Another host took our heartbeat, believing us dead. Nothing may be written any more.
    #[error("Lost access to volume: the heartbeat was taken over")]
    LostHeartbeat,
    /// The file would be larger than the format allows.
    #[error("the file would be too large")]
    TooLarge,
    /// The handle does not allow it.
    #[error("the file is open for reading only")]
    ReadOnly,
    /// A disk is used already.
    #[error("{0} is {1}")]
    Taken(String, String),
    /// The head extent has too few free blocks for the bitmaps of a larger volume.
    #[error(
        "the head extent needs {0} free blocks of 1 MB for the bitmaps of so much space: delete or move files on it"
    )]
    HeadIsFull(u64),
    /// An extent is missing, and the work needs all of them.
    #[error("the datastore is degraded, extents are missing: {0}")]
    Degraded(String),
    /// An offset, length or size that is not allowed.
    #[error("{0}")]
    Argument(&'static str),
}

/// The root has no name.
fn named(path: &str) -> &str {
    if path.is_empty() { "/" } else { path }
}
