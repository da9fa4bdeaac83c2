//! Configuration errors: why a change was refused; each text says what to do.

use notation::format_time;
use thiserror::Error;

/// A change that the configuration does not allow. Nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ArrayError {
    /// A name with characters or a length that names may not have.
    #[error(
        "'{0}' is not a valid name: use 1 to 63 letters, digits, '-', '_' or '.', and start with a letter or digit"
    )]
    InvalidName(String),
    /// Not of the form POOL/NAME.
    #[error("'{0}' does not name a volume: write POOL/NAME")]
    InvalidVolumePath(String),
    /// Not a device as [`block::device_forms`] lists them.
    #[error(transparent)]
    InvalidDevice(#[from] block::InvalidDeviceName),
    /// Not an iSCSI name.
    #[error(
        "'{0}' is not an iSCSI name: it starts with 'iqn.', 'eui.' or 'naa.' and has at most 223 bytes"
    )]
    InvalidInitiatorName(String),
    /// The name is taken.
    #[error("there is already a {kind} named '{name}': choose another name")]
    NameTaken {
        /// 'pool', 'host'.
        kind: &'static str,
        /// The name.
        name: String,
    },
    /// No object has the name.
    #[error("there is no {kind} named '{name}'")]
    NotFound {
        /// 'pool', 'host', 'volume'.
        kind: &'static str,
        /// The name.
        name: String,
    },
    /// A pool file or device that another pool uses.
    #[error("{device} already belongs to pool '{pool}': choose another path")]
    DeviceTaken {
        /// The device as written.
        device: String,
        /// The pool that has it.
        pool: String,
    },
    /// A pool file or device that one request names more than once.
    #[error("{0} is named twice: name each device once")]
    DeviceTwice(String),
    /// An initiator name that another host has.
    #[error("initiator {initiator} already belongs to host '{host}': remove it there first")]
    InitiatorTaken {
        /// The iSCSI name.
        initiator: String,
        /// The host that has it.
        host: String,
    },
    /// The object cannot go while others refer to it.
    #[error("host '{0}' still has volumes mapped: unmap them first")]
    HostInUse(String),
    /// A host that a group still names.
    #[error("host '{host}' is in group '{group}': take it out of the group first")]
    HostInGroup {
        /// The host.
        host: String,
        /// The group that names it.
        group: String,
    },
    /// A portal that cannot be.
    #[error(
        "a portal has a port and a target portal group from 1 to 65535, and sends initiators to an address other than its own"
    )]
    InvalidPortal,
    /// A CHAP secret of the wrong length; the error does not contain it.
    #[error("a CHAP secret has 12 to 255 bytes, and this one has {0}: choose another")]
    SecretLength(usize),
    /// Both directions of mutual CHAP with one secret.
    #[error("mutual CHAP needs two different secrets: choose another for one of the directions")]
    SecretShared,
    /// A CHAP name that is empty or too long.
    #[error("a CHAP name has 1 to 255 bytes: choose another")]
    InvalidChapName,
    /// The LUN number stands for another volume.
    #[error(
        "LUN {lun} is another volume for {host}: choose another number, or let the array choose"
    )]
    LunTaken {
        /// The number that was wanted.
        lun: u16,
        /// The host, group or 'any' that addresses another volume by it.
        host: String,
    },
    /// The LUN number stood for another volume until a short while ago.
    #[error(
        "LUN {lun} was another volume for {host} and rests for {seconds} s more, so that no host takes one for the other: wait, choose another number, or let the array choose"
    )]
    LunResting {
        /// The number that was wanted.
        lun: u16,
        /// The host, group or 'any' that addressed another volume by it.
        host: String,
        /// How much longer it rests at least.
        seconds: u64,
    },
    /// The newest configuration was lost, and with it what free LUN numbers stood for.
    #[error(
        "an earlier generation of gantry.json is in use, so it is not known what volumes hosts had under other LUN numbers: all of them rest for {seconds} s more (gantryd --lun-rest), so that no host takes one volume for another"
    )]
    LunsUnknown {
        /// How much longer they rest.
        seconds: u64,
    },
    /// A session may still mean another volume by the LUN number.
    #[error(
        "LUN {lun} was another volume for {initiator}, whose session asks for it still, has not asked for its LUNs since, or ended only now: rescan there, wait, choose another number, or let the array choose"
    )]
    LunHeld {
        /// The number that was wanted.
        lun: u16,
        /// iSCSI name of the session's initiator.
        initiator: String,
    },
    /// The volume has another LUN number in the same view.
    #[error(
        "{host} sees the volume as LUN {current}, and a host sees it by one number only: name that one or none, or unmap it from {host} first"
    )]
    LunFixed {
        /// The number that the volume has there.
        current: u16,
        /// The host, group or 'any' that sees it so.
        host: String,
    },
    /// A LUN number beyond the flat space.
    #[error("LUN {0} is too large: numbers go from 0 to 16383")]
    LunTooLarge(u16),
    /// No LUN number is free in a view.
    #[error("all 16384 LUN numbers are other volumes there, or rest: unmap volumes first")]
    LunsExhausted,
    /// The volume is not mapped so.
    #[error("the volume is not mapped to '{0}'")]
    NotMapped(String),
    /// The volume is still mapped.
    #[error(
        "the volume is still mapped to {0}: unmap it first, so that no host loses it by accident"
    )]
    StillMapped(String),
    /// The pool still holds volumes.
    #[error("pool '{pool}' still holds {volumes} volume(s): delete them first")]
    PoolNotEmpty {
        /// The pool.
        pool: String,
        /// How many volumes it holds.
        volumes: usize,
    },
    /// A size outside what is possible.
    #[error("{0}")]
    InvalidSize(String),
    /// A snapshot that must not be deleted yet.
    #[error("the snapshot is locked until {} and cannot be deleted before", format_time(*until))]
    Locked {
        /// Seconds since 1970.
        until: u64,
    },
    /// A lock that would end before it begins.
    #[error("a lock ends in the future: choose a later moment")]
    LockInThePast,
    /// A lock for more than a century.
    #[error("a lock lasts 100 years at most: choose an earlier moment")]
    LockTooLong,
    /// A lock that would end earlier than it does.
    #[error(
        "the snapshot is locked until {} already: a lock can only be made longer",
        format_time(*until)
    )]
    LockShortened {
        /// Seconds since 1970.
        until: u64,
    },
    /// A schedule with something out of range.
    #[error("the schedule is not possible: {0}")]
    InvalidSchedule(&'static str),
    /// An alert receiver is not valid.
    #[error("{0}")]
    InvalidAlert(&'static str),
    /// A vendor or product that standard INQUIRY data cannot hold.
    #[error(
        "{text:?} is not possible: a {field} has 1 to {max} printable ASCII characters, with no space at either end"
    )]
    InvalidIdentification {
        /// 'vendor' or 'product'.
        field: &'static str,
        /// Most characters.
        max: usize,
        /// The text that was given.
        text: String,
    },
    /// A rate limit or share out of its range.
    #[error("{what} is from {min} to {max} {unit}: choose another, or none")]
    InvalidLimit {
        /// What was to be set.
        what: &'static str,
        /// What the range counts.
        unit: &'static str,
        /// The least.
        min: u64,
        /// The most.
        max: u64,
    },
    /// Percentages that could never be met.
    #[error("thresholds are percentages from 1 to 100, and the soft one is not above the hard one")]
    InvalidThresholds,
    /// A controller that should have a pool, or a time, that cannot be.
    #[error(
        "the preferred controller is a number from 1 to 256, and a pool is given back to it after 10 to 86400 s: \
         say a controller before a time"
    )]
    InvalidFailBack,
    /// A tag with a key or value that cannot be.
    #[error("{0}")]
    InvalidTag(&'static str),
    /// Too many objects of a kind.
    #[error("the array already has {max} {kind}, which is the most it can hold")]
    TooMany {
        /// 'pools', 'hosts', 'initiators'.
        kind: &'static str,
        /// The limit.
        max: usize,
    },
}
