//! Interface types of the engine: changes of volumes and devices, and how requests end.

use block::{RequestStatistics, Response, VolumeId};

use crate::error::Failure;
use crate::options::DeviceSpec;
use crate::volume::VolumeSpec;

/// The caller's name for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tag(pub u64);

/// A change of volumes or devices; durable when it is done.
#[derive(Clone, Debug)]
pub enum Change {
    /// A new, empty volume.
    CreateVolume(VolumeSpec),
    /// New volumes, each with the content that another one has, all at one moment: a consistency
    /// group of snapshots, or of clones. At most 256.
    CloneVolumes(Vec<(VolumeId, VolumeSpec)>),
    /// A volume takes the content and the size of another one, which stays.
    RevertVolume {
        /// The volume that changes.
        volume: VolumeId,
        /// The one with the content, usually a snapshot of the first.
        source: VolumeId,
    },
    /// The end of a volume. Its space returns in the background.
    DeleteVolume(VolumeId),
    /// Another size; what lies beyond a smaller one is gone.
    ResizeVolume {
        /// The volume.
        id: VolumeId,
        /// Bytes, a multiple of 4,096.
        size_bytes: u64,
    },
    /// Another name for a volume or snapshot. It is in the volume table of the next checkpoint, with
    /// which the change is done.
    RenameVolume {
        /// The volume.
        id: VolumeId,
        /// 1 to 63 bytes.
        name: String,
    },
    /// A device has grown.
    ExtendDevice {
        /// Which one, counted from 0.
        device: u8,
        /// Its new size, bytes.
        size_bytes: u64,
    },
    /// A device joins the pool, as its last one. I/O goes to it before the change is done.
    AddDevice(DeviceSpec),
    /// Everything so far reaches a checkpoint, and freed space becomes free.
    Checkpoint,
    /// A checkpoint, and nothing after it.
    Close,
}

/// Result of a request that succeeded.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// The answer to a [`Request`].
    Response(Response),
    /// A [`Change`] was made, or the pool was opened.
    Changed,
}

/// The end of a request.
#[derive(Clone, Debug)]
pub struct Done {
    /// The name it was given.
    pub tag: Tag,
    /// Result of the request.
    pub result: Result<Outcome, Failure>,
    /// Statistics of the request: bytes copied, zeroed, read.
    pub statistics: RequestStatistics,
}

/// All changes of volumes and devices claim this, so that one follows the other.
pub(crate) const CHANGES: VolumeId = VolumeId(u64::MAX);
