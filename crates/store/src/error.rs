//! Errors of the pool engine: why a pool, volume or device was not opened, made or changed.

use block::{BlockError, DeviceError};
use notation::format_size;
use thiserror::Error;

use crate::journal_loss::JournalLoss;

/// Why work ended without success.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Failure {
    /// A request failed.
    #[error(transparent)]
    Block(#[from] BlockError),
    /// A change of volumes or devices was refused.
    #[error(transparent)]
    Change(#[from] ChangeError),
    /// Snapshots could not be compared.
    #[error(transparent)]
    Compare(#[from] CompareError),
    /// The pool could not be opened or made.
    #[error(transparent)]
    Open(#[from] OpenError),
}

/// Why a pool could not be opened. Nothing was written.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum OpenError {
    /// There is something else, or nothing, on the device.
    #[error("the device holds no Gantry pool: is it the right one? It was not changed")]
    Foreign,
    /// The device belongs to another pool.
    #[error("the device belongs to another pool: is it the right one? It was not changed")]
    OtherPool,
    /// Another version of the program made it.
    #[error(
        "the pool has format version {version}, features {features:#x}, which this program does not know: use the one that made it, or a newer one. It was not changed"
    )]
    Unknown {
        /// Its format version.
        version: u32,
        /// Its incompatible features.
        features: u64,
    },
    /// The device is too small.
    #[error(
        "the device has {actual} bytes ({}), but the pool needs {expected} ({}): it was cut short, restore it. It was not changed",
        format_size(*actual),
        format_size(*expected)
    )]
    Short {
        /// Bytes there are.
        actual: u64,
        /// Bytes there should be.
        expected: u64,
    },
    /// A device of the pool is not there.
    #[error(
        "device {index} of the pool is missing: attach it and start again. Nothing was changed"
    )]
    Missing {
        /// Which one, counted from 0.
        index: usize,
    },
    /// Members of a mirror are not there without which it is not known that those that are there hold
    /// all that was acknowledged.
    #[error(
        "members of device {index} of the pool, a mirror, are missing, and may hold newer data than those that are there: attach them and start again. Nothing was changed"
    )]
    MembersMissing {
        /// Which device, counted from 0.
        index: usize,
        /// Names of current members that are missing, as far as those that are there know them.
        missing: Vec<[u8; 16]>,
    },
    /// A device is not of this pool, or another one of it.
    #[error(
        "device {index} is not the pool's: its label names another device. Check the order of the devices. Nothing was changed"
    )]
    WrongDevice {
        /// Which one, counted from 0.
        index: usize,
    },
    /// Metadata without which the pool cannot be opened is damaged.
    #[error("the pool is damaged: {0}. It was not changed; restore it from a copy")]
    Damaged(&'static str),
    /// Acknowledged commits of the journal are lost. [`crate::OpenMode`] says what can be done.
    #[error(
        "{0}. The pool was not changed. 'gantry pool verify' checks what is left; 'gantry pool resume NAME --read-only' serves it without the lost commits, and '--rewind' gives them up"
    )]
    JournalLost(Box<JournalLoss>),
    /// The device failed.
    #[error("the pool could not be read: {0}")]
    Device(#[from] DeviceError),
    /// The file system under a device has no space for what a new pool must always have.
    #[error(
        "the file system under the pool has not even the space that a pool keeps for the way out when it is full, 2 % of it: make room, or choose another place"
    )]
    NoSpace,
    /// No pool can have that size.
    #[error("a pool has at least 64 MiB and at most 512 TiB: choose another size")]
    Size,
}

/// Why snapshots were not compared.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CompareError {
    /// The pool has no such volume or snapshot.
    #[error("the pool has no such snapshot")]
    NoSuchSnapshot,
    /// A volume changes while it is looked at.
    #[error(
        "only snapshots can be compared, since volumes change meanwhile: take a snapshot of it"
    )]
    NotASnapshot,
    /// One of them was deleted meanwhile.
    #[error("a snapshot was deleted while it was being compared")]
    Deleted,
    /// The comparison begins within a block, or behind the end.
    #[error(
        "a comparison begins at a multiple of 4096 bytes, and at most at the snapshot's end: choose an offset from 0 to {size_bytes}"
    )]
    Offset {
        /// Bytes of the snapshot.
        size_bytes: u64,
    },
    /// No extents are asked for, or too many at once.
    #[error(
        "an answer has 1 to {} extents: choose another number",
        crate::limits::COMPARISON_EXTENTS_MAX
    )]
    ExtentCount,
    /// Too many comparisons are under way.
    #[error(
        "{} comparisons of the pool wait to be answered, which is the most there can be: try again",
        crate::limits::COMPARISONS_MAX
    )]
    Busy,
    /// A page of the map could not be read.
    #[error(
        "the map of one of the snapshots could not be read at byte {offset} of the volume: scrub the pool, which says what is damaged"
    )]
    Unreadable {
        /// The first byte that was not compared.
        offset: u64,
    },
    /// The pool is closed or closing.
    #[error("the pool is closed")]
    Closed,
}

/// Why a change was refused. Nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ChangeError {
    /// The pool has a volume of that name or identifier.
    #[error("the pool already has a volume or snapshot named '{0}': choose another name")]
    NameTaken(String),
    /// The pool has no such volume.
    #[error("the pool has no such volume")]
    NoSuchVolume,
    /// The size is 0, not a multiple of 4,096, or too large.
    #[error(
        "a volume has a multiple of 4096 bytes, at least 4096 and at most 64 TiB: choose another size"
    )]
    VolumeSize,
    /// A name is empty or too long.
    #[error("a volume's name has 1 to 63 bytes: choose another name")]
    VolumeName,
    /// As many volumes as a pool can hold.
    #[error(
        "the pool already has {} volumes, snapshots and clones, which is the most it can hold: delete some",
        crate::limits::VOLUMES_MAX
    )]
    TooManyVolumes,
    /// A consistency group is empty or too large.
    #[error(
        "a consistency group has 1 to {} volumes",
        crate::limits::CONSISTENCY_GROUP_MEMBERS_MAX
    )]
    GroupSize,
    /// A snapshot's content never changes.
    #[error("a snapshot never changes: clone it, and change the clone")]
    Snapshot,
    /// As many devices as a pool can have, or more bytes than it can have.
    #[error(
        "the pool can take no more devices: it has at most {} and 512 TiB",
        crate::limits::DEVICES_MAX
    )]
    TooManyDevices,
    /// A thick volume needs more than there is.
    #[error(
        "the pool has not enough free space to set that much aside: extend it, or create the volume without setting its space aside"
    )]
    NoSpace,
    /// A snapshot, clone or revert would make hosts need more new blocks for their locks and metadata
    /// than the pool keeps for them.
    #[error(
        "the pool is too full for a snapshot, clone or revert: all that is shared then needs new space when it is written, also the locks and the metadata of the hosts' file systems. At least {} MiB must be free besides the reserve: delete something, unmap, or extend the pool",
        needed_bytes.div_ceil(1 << 20)
    )]
    NoSpaceToShare {
        /// Bytes that must be free besides the reserve.
        needed_bytes: u64,
    },
    /// The other devices have no room for what is on one that is to leave.
    #[error(
        "the other devices have no room for what is on that one and for what is promised: {} more must be free on them. Delete something, unmap, or add a device",
        format_size(*needed_bytes)
    )]
    NoSpaceToLeave {
        /// Bytes that are missing.
        needed_bytes: u64,
    },
    /// The journal and the superblocks are on the first device.
    #[error(
        "the pool's first device cannot leave, since its journal is on it: attach another device to it and detach this one when that is current"
    )]
    FirstDevice,
    /// A device leaves already.
    #[error("a device of the pool is leaving already: wait for it, or cancel that")]
    LeavingAlready,
    /// A device that leaves does not grow.
    #[error("the device is leaving the pool: cancel that first")]
    DeviceLeaves,
    /// A mirror has fewer copies than it should.
    #[error(
        "device {device} of the pool lacks a current copy: let its members come back first, or what is moved would have fewer copies than before"
    )]
    Degraded {
        /// Its number, counted from 0.
        device: u8,
    },
    /// Space maps of the device are damaged.
    #[error(
        "space maps of the device are damaged, so it is not known what is on it: it cannot leave"
    )]
    SpaceMapsDamaged,
    /// No device leaves.
    #[error("no device of the pool is leaving")]
    NothingLeaves,
    /// Something is on the device yet.
    #[error("the device is not empty: wait until everything on it has been moved")]
    NotEmpty,
    /// Devices only grow.
    #[error("a device only grows: choose a larger size")]
    DeviceSize,
    /// The file system under a device has no space for what must always be there.
    #[error(
        "the file system under the device has not even the space that a pool keeps for the way out when it is full, 2 % of it: make room, or choose another place"
    )]
    NoRoom,
    /// There is no such device.
    #[error("the pool has no such device")]
    NoSuchDevice,
    /// A mirror has as many members as it can have.
    #[error("a mirror has at most {} members", crate::limits::MIRROR_MEMBERS_WHILE_REPLACING_MAX)]
    TooManyMembers,
    /// A mirror has one witness at most, and a device without copies none.
    #[error(
        "only a mirror has a witness, and one at most: attach a copy first, or detach the witness that it has"
    )]
    WitnessRefused,
    /// A member is at least as large as its mirror.
    #[error("the device is smaller than the mirror")]
    MemberSize,
    /// A member or device of the pool has that name, or lies in that slot.
    #[error("the device is a member or device of the pool already")]
    MemberTaken,
    /// No mirror has a member of that name.
    #[error("no mirror of the pool has such a member")]
    NoSuchMember,
    /// A member that is there cannot come back.
    #[error("the member is there already")]
    MemberPresent,
    /// What was begun before the member was lost has not ended.
    #[error("I/O of the time before the member was lost is still under way: try again")]
    MemberBusy,
    /// Without that member the mirror would have no current copy.
    #[error("the member holds the only current copy of its mirror")]
    LastMember,
    /// The device that came back is another one than the member, or was used apart from the pool.
    #[error("the device is not that member of the pool, or was used apart from it")]
    NotThatMember,
    /// The device failed when it was to join.
    #[error("the device failed as it joined the mirror")]
    MemberFailed,
    /// The member is not being resilvered.
    #[error("the member is not being resilvered")]
    NotResilvering,
    /// A device failed before the change was durable: one that was to join, or one of the pool. In the
    /// latter case the next opening says whether the change was made.
    #[error("a device failed before the change was done: {0}")]
    Device(DeviceError),
    /// The pool takes no more changes.
    #[error("the pool is read-only after a device failure")]
    ReadOnly,
    /// The pool is closed or closing.
    #[error("the pool is closed")]
    Closed,
}
