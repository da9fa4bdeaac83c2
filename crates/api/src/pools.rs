//! Types for pools, their devices and their space.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A new pool.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreatePool {
    /// 1 to 63 letters, digits, '-', '_', '.'.
    #[schema(min_length = 1, max_length = 63, pattern = "^[A-Za-z0-9][A-Za-z0-9._-]*$")]
    pub name: String,
    /// Each file:PATH, block:PATH, rbd:POOL/IMAGE or memory:; 1 to 32, in the order in which the pool counts them.
    #[schema(min_items = 1, max_items = 32)]
    pub devices: Vec<String>,
    /// Size of each device, bytes; may be left out for block devices, which are then used whole.
    pub size_bytes: Option<u64>,
    /// How many devices hold the same blocks: 2 or 3 make mirrors of as many devices that follow each
    /// other; 1 when left out.
    #[serde(default)]
    #[schema(minimum = 1, maximum = 3)]
    pub mirror: Option<u8>,
}

/// A device, or a mirror of several, that is to join a pool. A pool that has mirrors takes no plain
/// device: all that lies on it would be lost with it.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AddDevice {
    /// file:PATH, block:PATH, rbd:POOL/IMAGE or memory:.
    pub device: String,
    /// Devices that hold the same blocks: with them it is one mirror, as large as the smallest.
    #[serde(default)]
    #[schema(max_items = 2)]
    pub mirrored_by: Vec<String>,
    /// The size of each, bytes; may be left out for block devices, which are then used whole.
    pub size_bytes: Option<u64>,
}

/// A device that is to join a mirror, or to make one of a plain device.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AttachMember {
    /// The mirror, or plain device, by its number.
    pub mirror: usize,
    /// file:PATH, block:PATH, rbd:POOL/IMAGE or memory:.
    pub device: String,
    /// Its size, bytes; that of the mirror when left out.
    pub size_bytes: Option<u64>,
    /// The member that leaves when the new one holds everything, by its identity.
    pub replaces: Option<String>,
    /// Whether it becomes the mirror's witness: a small device that several controllers reach, and that holds no copy.
    /// With it one of them takes the pool also where another one is gone with a member.
    #[serde(default)]
    pub witness: bool,
}

/// The devices that step in when a member of a mirror is lost.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SetSpares {
    /// All of them, files or block devices. Those that are new are made.
    #[schema(max_items = 32)]
    pub devices: Vec<String>,
    /// Size of those that are made, bytes; may be left out for block devices.
    pub size_bytes: Option<u64>,
}

/// What becomes of the filling of members.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ControlResilver {
    /// What is to be done.
    pub action: ResilverAction,
    /// The member that is given up, by its identity, for `cancel`.
    pub member: Option<String>,
}

/// What is to be done with the filling of members.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum ResilverAction {
    /// It rests, also over a restart.
    Pause,
    /// It goes on.
    Resume,
    /// It is given up: the member leaves its mirror.
    Cancel,
}

/// A device, or a mirror with all of its members, that is to leave a pool.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RemoveDevice {
    /// Bytes per second that are moved from it at most; as many as hosts leave it when left out.
    #[schema(minimum = 1048576)]
    pub rate_bytes: Option<u64>,
}

/// What becomes of a device that leaves.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ControlDeparture {
    /// What is to be done.
    pub action: DepartureAction,
    /// Bytes per second that are moved from now on at most, for `pause` and `resume`; as before when left
    /// out.
    #[serde(default)]
    #[schema(minimum = 1048576)]
    pub rate_bytes: Option<u64>,
}

/// What is to be done with a device that leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum DepartureAction {
    /// Nothing is moved, also over a restart; new data goes to other devices all the same.
    Pause,
    /// It goes on.
    Resume,
    /// It is given up: the device stays, and is used as before. What was moved stays where it is.
    Cancel,
}

/// A larger device, or larger members of a mirror.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ResizePool {
    /// Which device or mirror, by its number; may be left out if there is only one.
    pub device: Option<usize>,
    /// The new size of the device, or of each member of the mirror that is smaller, bytes.
    pub size_bytes: u64,
}

/// A pool that takes no writes, or is unavailable, is opened anew.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ResumePool {
    /// How; for reads and writes when left out.
    pub mode: PoolMode,
    /// Changes nothing, and answers the pool with what would be given up (`journal_loss`).
    pub dry_run: bool,
    /// Opens mirrors without members that may hold newer data than those that are there, where the
    /// array does not know it: what only the missing ones hold is lost then.
    pub degraded: bool,
    /// Takes the pool from these holders of its devices' locks, each as `lock_holders` names it, and from
    /// nobody else. Those of them that are still alive can write to the devices no more. Locks of files
    /// cannot be broken.
    #[schema(max_items = 96)]
    pub break_locks: Vec<String>,
}

/// Somebody else who holds the lock of a device of a pool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LockHolder {
    /// The file, block device or image.
    pub device: String,
    /// The key of its reservation, or its address as a client of a Ceph cluster, as `break_locks` names
    /// it; absent if its lock cannot be broken.
    pub holder: Option<String>,
    /// Where it is, as far as that is known: names of its initiator ports, or a process of this machine.
    pub place: Option<String>,
}

/// How a pool is opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum PoolMode {
    /// For reads and writes.
    #[default]
    ReadWrite,
    /// For reads alone, as it was before anything of its journal was lost. Nothing is written to
    /// its devices.
    ReadOnly,
    /// For reads and writes; what a damaged journal lost is given up for good.
    Rewind,
}

/// Commits at the end of a damaged journal that cannot be applied.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct JournalLoss {
    /// When the array found that, seconds since 1970. A daemon that was restarted found it when it
    /// opened the pool.
    pub since: u64,
    /// How many.
    pub commits: u64,
    /// Number of the first one, which is damaged.
    pub first_commit: u64,
    /// Number of the last one.
    pub last_commit: u64,
    /// Number of the newest one that hosts were surely told is on stable storage.
    pub acknowledged_commit: u64,
    /// How many of them are intact, but build on the damaged one.
    pub intact_commits: u64,
    /// Changes that those are made of.
    pub intact_changes: u64,
    /// Identifiers of volumes that those changed, hexadecimal, at most 64: the last 16 digits of
    /// a volume's NAA identifier hold it.
    pub volumes: Vec<String>,
}

/// A thin pool.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Pool {
    /// Its name.
    pub name: String,
    /// Its identity, hexadecimal.
    pub uuid: String,
    /// Where its bytes rest, in the order in which they joined.
    pub devices: Vec<Device>,
    /// Those of them that hold the same blocks, while the pool is open.
    #[serde(default)]
    pub mirrors: Vec<Mirror>,
    /// The device that leaves it, if one does.
    #[serde(default)]
    pub departure: Option<Departure>,
    /// Devices that step in when a member of a mirror is lost.
    #[serde(default)]
    pub spares: Vec<String>,
    /// Seconds that a member of a mirror may take for one I/O before the mirror goes on without it.
    #[serde(default)]
    pub hang_limit_seconds: u64,
    /// Reads that a member of a mirror answers with errors within an hour until the mirror goes on without it,
    /// if another current member is well.
    #[serde(default)]
    pub read_errors_max: u32,
    /// ready, read-only, opening, unavailable.
    pub state: String,
    /// Why, when it is not ready.
    pub reason: Option<String>,
    /// Who holds the locks of its devices, when it is unavailable for that.
    #[serde(default)]
    pub lock_holders: Vec<LockHolder>,
    /// What of its journal is lost, when it is unavailable or read-only for that.
    pub journal_loss: Option<JournalLoss>,
    /// The file systems under its files; none for block devices and memory.
    pub backing: Vec<Backing>,
    /// Bytes that those file systems have left, each counted once; absent if no device is a file.
    pub backing_free_bytes: Option<u64>,
    /// Whether they have the space that the pool's files may still take.
    pub backing_state: BackingState,
    /// What that means, when it is not `enough`.
    pub backing_message: Option<String>,
    /// Sum of the sizes of the devices, bytes.
    pub size_bytes: u64,
    /// Where the space went; absent when the pool is unavailable.
    pub space: Option<Space>,
    /// When someone is told how full it is.
    pub thresholds: Thresholds,
    /// Whether the oldest unlocked snapshots of schedules are deleted, one after the other, while it
    /// is at or above its hard threshold.
    pub delete_scheduled_snapshots: bool,
    /// The number of the controller that should have it, if one should.
    #[serde(default)]
    pub preferred_controller: Option<u16>,
    /// Seconds for which that one must have been ready before another one gives the pool back to it;
    /// absent if that is left to administrators.
    #[serde(default)]
    pub fail_back_seconds: Option<u32>,
    /// What giving it back waits for; absent where the pool is not open, or is not given back.
    #[serde(default)]
    pub fail_back_waits_for: Option<String>,
    /// How full it is.
    pub fill: Fill,
    /// Number of volumes, clones among them.
    pub volumes: usize,
    /// Number of snapshots.
    pub snapshots: usize,
    /// Memory that its maps may take, bytes.
    pub memory_bytes: u64,
    /// What the devices did since the daemon started.
    pub counters: DeviceCounters,
    /// Its labels.
    #[serde(default)]
    pub tags: BTreeMap<String, String>,
}

/// A device that leaves a pool.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Departure {
    /// Its number, or that of the mirror that leaves.
    pub device: usize,
    /// Where it is, or its members are.
    pub devices: Vec<String>,
    /// Whether it rests until it is resumed.
    pub paused: bool,
    /// Bytes on it that something refers to yet, of data and of the map.
    pub left_bytes: u64,
    /// Bytes of data that were copied from it since it began to leave, or since the pool was opened.
    pub copied_bytes: u64,
    /// Blocks that could not be read. They stay on it, and so does it, until what refers to them is
    /// overwritten or deleted.
    pub unreadable_blocks: u64,
    /// Whether it waits for space on the other devices.
    pub waits_for_space: bool,
    /// Bytes per second that are moved at most; absent if there is no limit but what hosts need.
    pub rate_bytes: Option<u64>,
    /// Seconds that it will take, if that can be told.
    pub remaining_seconds: Option<u64>,
}

/// A device of a pool.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Device {
    /// Its number, counted from 0; in a pool with mirrors its place among the devices. Without mirrors it
    /// keeps the number when another one leaves.
    pub index: usize,
    /// Where it is.
    pub device: String,
    /// Its size, bytes.
    pub size_bytes: u64,
}

/// Devices that hold the same blocks.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Mirror {
    /// Which one, counted from 0, among the logical devices of the pool.
    pub index: usize,
    /// Its identity, hexadecimal.
    pub uuid: String,
    /// Bytes that the pool uses of each member.
    pub size_bytes: u64,
    /// Whether a member lacks something.
    pub degraded: bool,
    /// The members.
    pub members: Vec<Member>,
    /// How far a member that is being filled is, if one is.
    pub resilver: Option<Resilver>,
}

/// A device of a mirror.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Member {
    /// Its identity, hexadecimal.
    pub uuid: String,
    /// Where it is, or was last; absent if that is not known.
    pub device: Option<String>,
    /// Its size, bytes.
    pub size_bytes: u64,
    /// What its copy is worth.
    pub state: MemberState,
    /// I/O that failed, and blocks that were not what was written, since the pool was opened.
    pub errors: u64,
    /// Blocks that were written again from another member, since the pool was opened.
    pub healed_blocks: u64,
}

/// What a member's copy is worth, or that it is a witness.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum MemberState {
    /// It holds all that was acknowledged.
    Current,
    /// It gets every write, and what is older is being copied to it.
    Resilvering,
    /// It is not there, or failed: its copy is stale, and never read.
    Absent,
    /// It holds no copy: it decides which controller may open the mirror without some of its members.
    Witness,
    /// A witness that is not there, or failed: without it the mirror is opened only with all of its members.
    WitnessAbsent,
}

impl MemberState {
    /// The word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Current => "current",
            Self::Resilvering => "resilvering",
            Self::Absent => "absent",
            Self::Witness => "witness",
            Self::WitnessAbsent => "witness-absent",
        }
    }
}

/// A copy that is being made of a mirror's blocks.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Resilver {
    /// Whether it rests until it is resumed.
    pub paused: bool,
    /// Bytes that were copied.
    pub copied_bytes: u64,
    /// Bytes that are to be copied, as far as it is known.
    pub total_bytes: u64,
    /// Blocks that no member could tell.
    pub unreadable_blocks: u64,
    /// Seconds that it will take, if that can be told.
    pub remaining_seconds: Option<u64>,
}

/// A file system under a pool's files.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Backing {
    /// Where it is mounted.
    pub file_system: String,
    /// Its size, bytes.
    pub size_bytes: u64,
    /// Bytes that it has left for everybody.
    pub free_bytes: u64,
    /// Bytes of the pool's files on it that have no space there yet.
    pub unallocated_bytes: u64,
    /// Devices of the pool on it, counted from 0.
    pub devices: Vec<usize>,
    /// Other pools with files on it.
    pub shared_with: Vec<String>,
}

/// Whether the file systems under a pool have the space that its files may still take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum BackingState {
    /// All of it.
    #[default]
    Enough,
    /// Not all of it; what is missing is `unbacked`.
    Short,
    /// None is left: new data is refused.
    Full,
}

/// Where a pool's space went, bytes. `used + pending + reserve + free + unbacked = total`, and
/// `data + metadata = used`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Space {
    /// Everything that can hold data or its map.
    pub total_bytes: u64,
    /// Held by volumes and their maps.
    pub used_bytes: u64,
    /// Part of `used` that is data.
    pub data_bytes: u64,
    /// Part of `used` that is the map, and what the array keeps in the pool for an import.
    pub metadata_bytes: u64,
    /// Freed, and usable after the next checkpoint; or handed out to writes under way.
    pub pending_bytes: u64,
    /// Kept back so that unmap, delete and checkpoints always work, and hosts can lock and change
    /// the metadata of their file systems when nothing is free.
    pub reserve_bytes: u64,
    /// Part of a whole reserve that is for locks and metadata.
    pub metadata_reserve_bytes: u64,
    /// What is left of that. It is less than the whole only in a full pool, and is filled first.
    pub metadata_left_bytes: u64,
    /// Free for new data.
    pub free_bytes: u64,
    /// Not in use, and not free either: the file system under the pool has no space for it.
    pub unbacked_bytes: u64,
    /// Part of `free` that is promised to thick volumes.
    pub promised_bytes: u64,
    /// Saved by sharing: what volumes and snapshots map, less the data that there is.
    pub shared_bytes: u64,
    /// Sum of the sizes of all volumes, without snapshots.
    pub provisioned_bytes: u64,
    /// What is used or promised, in hundredths of what is backed and not reserve.
    pub used_percent: u8,
}

/// Percentages at which hosts and administrators are told how full something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Thresholds {
    /// A warning, 1 to 100.
    #[schema(minimum = 1, maximum = 100)]
    pub soft_percent: u8,
    /// An alarm, not below the warning, at most 100.
    #[schema(minimum = 1, maximum = 100)]
    pub hard_percent: u8,
}

/// Whether a pool makes space by itself at its hard threshold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SetSnapshotDeletion {
    /// Deletes the oldest unlocked snapshots of schedules, one after the other, until the pool is
    /// below its hard threshold; off unless it is said. What somebody made by hand, locked or
    /// mapped, and the snapshots of each schedule's newest run, stay.
    pub delete_scheduled_snapshots: bool,
}

/// Which controller of several should have a pool, and whether others give it back to that one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SetFailBack {
    /// Its number; null if it does not matter.
    #[serde(default)]
    #[schema(minimum = 1, maximum = 256)]
    pub preferred_controller: Option<u16>,
    /// Seconds for which it must have been heard, not in maintenance and able to reach all devices of the
    /// pool before another one gives the pool back to it; null if that is left to administrators.
    #[serde(default)]
    #[schema(minimum = 10, maximum = 86400)]
    pub fail_back_seconds: Option<u32>,
}

/// How full something is.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Fill {
    /// Below both thresholds.
    #[default]
    Normal,
    /// At or above the soft threshold.
    Soft,
    /// At or above the hard threshold.
    Hard,
}

/// What devices did since the daemon started.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct DeviceCounters {
    /// Read operations.
    pub device_reads: u64,
    /// Write operations.
    pub device_writes: u64,
    /// Flushes.
    pub device_flushes: u64,
    /// Bytes read, of data and maps.
    pub device_bytes_read: u64,
    /// Bytes written, of data, journal and maps.
    pub device_bytes_written: u64,
    /// Bytes of volume data written.
    pub data_bytes_written: u64,
    /// Bytes of volume data read.
    pub data_bytes_read: u64,
    /// Bytes copied by reference alone.
    pub bytes_cloned: u64,
}
