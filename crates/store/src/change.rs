//! Interface types of the engine: changes of volumes and devices, and how requests end.

use block::{RequestStatistics, Response, VolumeId};

use crate::address::DeviceNumber;
use crate::difference::Difference;
use crate::error::Failure;
use crate::limits::DEVICES_MAX;
use crate::options::{DeviceSpec, MemberSpec};
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
    /// The pool gets a hidden volume for the records of the array, [`RECORDS`], unless it has it. The
    /// labels of a pool that an earlier program made are written again with the feature first.
    CreateRecords {
        /// Bytes, a multiple of 4,096, at most 64 TiB.
        size_bytes: u64,
    },
    /// A device has grown.
    ExtendDevice {
        /// Which one, counted from 0.
        device: u8,
        /// Its new size, bytes.
        size_bytes: u64,
    },
    /// A device joins the pool, with the first number that none has. I/O goes to it before the change is done.
    AddDevice(DeviceSpec),
    /// A device joins a mirror, or makes one of a plain device. The change is done when the mirror knows
    /// it for good; what it lacks is copied then. It takes a slot that nothing else uses.
    AttachMember {
        /// Number of the logical device, counted from 0.
        device: u8,
        /// The new member, at least as large as the logical device.
        member: MemberSpec,
    },
    /// A device becomes the witness of a mirror: it holds the membership list and no copy. The change is done when the
    /// mirror relies on it. It takes a slot that nothing else uses.
    AttachWitness {
        /// Number of the logical device, counted from 0. It is a mirror.
        device: u8,
        /// The witness.
        member: MemberSpec,
    },
    /// A member that was absent is there again. What it lacks is copied, when the change is done.
    ReturnMember {
        /// The member, in a slot that nothing else uses.
        member: MemberSpec,
    },
    /// A witness that was absent is there again. It waits for no other change: those may wait for it.
    ReturnWitness {
        /// The witness, in a slot that nothing else uses.
        member: MemberSpec,
    },
    /// A member leaves its mirror; it is refused to the last current one.
    DetachMember {
        /// Name of the member.
        member: [u8; 16],
    },
    /// Resilvers rest, go on, or are given up.
    Resilver(ResilverChange),
    /// A device begins to leave the pool: nothing new is put on it, and what is on it moves to the others.
    /// The change is done when the pool knows it for good; [`crate::Store::evacuation`] says how far it
    /// is. The pool's first device cannot leave, since the journal is on it.
    EvacuateDevice {
        /// Its number, counted from 0.
        device: u8,
    },
    /// The moving of a leaving device's blocks rests, goes on, or is given up.
    Evacuation(EvacuationChange),
    /// A device from which everything was moved is no part of the pool any more, and its labels are
    /// cleared. When the change is done its slot is free.
    RemoveDevice {
        /// Its number, counted from 0.
        device: u8,
    },
    /// Everything so far reaches a checkpoint, and freed space becomes free.
    Checkpoint,
    /// A checkpoint, and nothing after it.
    Close,
}

impl Change {
    /// Whether it is about members of a mirror.
    pub(crate) fn is_of_members(&self) -> bool {
        match self {
            Self::AttachMember { .. }
            | Self::AttachWitness { .. }
            | Self::ReturnMember { .. }
            | Self::ReturnWitness { .. }
            | Self::DetachMember { .. }
            | Self::Resilver(_) => true,
            Self::CreateVolume(_)
            | Self::CloneVolumes(_)
            | Self::RevertVolume { .. }
            | Self::DeleteVolume(_)
            | Self::ResizeVolume { .. }
            | Self::RenameVolume { .. }
            | Self::CreateRecords { .. }
            | Self::ExtendDevice { .. }
            | Self::AddDevice(_)
            | Self::EvacuateDevice { .. }
            | Self::Evacuation(_)
            | Self::RemoveDevice { .. }
            | Self::Checkpoint
            | Self::Close => false,
        }
    }
}

/// What becomes of the copying to members that are not current.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResilverChange {
    /// It rests, also after a restart.
    Pause,
    /// It goes on.
    Resume,
    /// It is given up: the member leaves its mirror.
    Cancel {
        /// Name of the member.
        member: [u8; 16],
    },
}

/// What becomes of the moving of blocks of a device that leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EvacuationChange {
    /// It rests, also after a restart.
    Pause,
    /// It goes on.
    Resume,
    /// It is given up: the device stays, and is used as before. What was moved stays where it is.
    Cancel,
}

/// Result of a request that succeeded.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// The answer to a [`Request`].
    Response(Response),
    /// The answer to a [`crate::Comparison`].
    Difference(Difference),
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

/// The hidden volume of a pool for the records of the array: what hosts rely on besides data. Requests
/// read and write it like any volume; no list or count has it, and no change but its creation
/// concerns it.
pub const RECORDS: VolumeId = VolumeId(u64::MAX - 1);

/// The hidden volume of what was moved from a device that leaves: the block with number n of it has the
/// content of the block n of the device.
pub(crate) fn moved_from(device: DeviceNumber) -> VolumeId {
    VolumeId(MOVED_LAST - u64::from(device.number()))
}

/// The device from which the blocks of a hidden volume were moved.
pub(crate) fn device_of_moved(volume: VolumeId) -> Option<DeviceNumber> {
    let number = MOVED_LAST.checked_sub(volume.0).filter(|&number| number < DEVICES_MAX as u64)?;
    Some(DeviceNumber::at(number as usize))
}

/// The hidden volume of what was moved from the first device; those of the others come before it.
const MOVED_LAST: u64 = u64::MAX - 2;

/// All changes of volumes and devices claim this, so that one follows the other.
pub(crate) const CHANGES: VolumeId = VolumeId(u64::MAX);
