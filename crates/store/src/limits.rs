//! Limits of a pool: each maximum of the engine, and what happens beyond it.

use std::ops::RangeInclusive;
use std::time::Duration;

/// Requests in progress or queued. One more is answered [`block::BlockError::Busy`].
pub const REQUESTS_MAX: usize = 16_384;

/// Bytes of one write, compare-and-write or copy request. A larger one is answered
/// [`block::BlockError::OutOfRange`].
pub const REQUEST_BYTES_MAX: u64 = 64 << 20;

/// Ranges of one unmap request. More are answered [`block::BlockError::OutOfRange`].
pub const UNMAP_RANGES_MAX: usize = 4096;

/// Volumes, snapshots and clones in a pool. One more is refused.
pub const VOLUMES_MAX: usize = 16_384;

/// Devices of a pool. One more is refused.
pub const DEVICES_MAX: usize = 32;

/// Open devices of the caller that a pool uses or looks at. More are not looked at.
pub const SLOTS_MAX: usize = 96;

/// Members of a mirror. More are refused when it is made.
pub const MIRROR_MEMBERS_MAX: usize = 3;

/// The same while one of them is replaced: its successor is a member, too, until it holds everything.
/// More are refused.
pub const MIRROR_MEMBERS_WHILE_REPLACING_MAX: usize = MIRROR_MEMBERS_MAX + 1;

/// Entries of a membership list: members, and a witness.
pub(crate) const MIRROR_ENTRIES_MAX: usize = MIRROR_MEMBERS_WHILE_REPLACING_MAX + 1;

/// Reads that a member of a mirror answers with errors within [`READ_ERRORS_PERIOD`] until it is left out: at so many
/// the mirror goes on without it, if another current member has answered fewer than half as many so.
pub const READ_ERRORS_MAX: u32 = 16;

/// The time after which errors of reads are forgotten.
pub const READ_ERRORS_PERIOD: Duration = Duration::from_secs(3600);

/// How long a member of a mirror may take for one I/O by default.
pub const HANG_LIMIT: Duration = Duration::from_secs(10);

/// Times that the caller must have looked for answers before a member counts as hanging: a longer pause
/// between two looks counts as so little of the limit.
pub(crate) const HANG_TICKS: u32 = 8;

/// The range of [`crate::Options::hang_limit`]; what is outside counts as the nearer end.
pub const HANG_LIMITS: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(60);

/// Volumes of one consistency group. More are refused.
pub const CONSISTENCY_GROUP_MEMBERS_MAX: usize = 256;

/// The least memory for a pool's maps that makes sense, in bytes.
pub const MEMORY_BYTES_MIN: u64 = 256 << 20;

/// The largest volume, in bytes: 64 TiB.
pub const VOLUME_BYTES_MAX: u64 = 64 << 40;

/// Bytes in a volume's name.
pub const NAME_BYTES_MAX: usize = 63;

/// The smallest device, in bytes.
pub const DEVICE_BYTES_MIN: u64 = 64 << 20;

/// The largest device, in bytes: what 256 first-level space pages cover.
pub const DEVICE_BYTES_MAX: u64 = 512 << 40;

/// Leaf pages and blocks are shared at most this often; beyond it the data is copied.
pub const REFERENCES_MAX: u16 = 65_534;

/// Bytes of records in one commit unit. A group closes when it has so many.
pub(crate) const COMMIT_BYTES_MAX: usize = 256 << 10;

/// Bytes of data in one commit group. A group closes when it has so many.
pub(crate) const GROUP_DATA_BYTES_MAX: u64 = 16 << 20;

/// Bytes that a physical copy moves at once.
pub(crate) const COPY_SLICE_BYTES: u64 = 1 << 20;

/// Blocks that are kept because hosts changed or read a part of them; the oldest one makes room.
/// They take 8 MiB of memory, besides what the pool's maps may.
pub(crate) const RECENT_BLOCKS_MAX: usize = 2048;

/// Bytes of the longest request whose blocks are kept.
pub(crate) const RECENT_BYTES_MAX: u64 = 16 << 10;

/// Bytes of the longest write that may draw on the metadata reserve. A longer one is new data.
pub(crate) const METADATA_BYTES_MAX: u64 = 64 << 10;

/// Mebibytes of a volume of which it is known that hosts lock there, and as many of which it is known
/// that they write parts of blocks; the oldest makes room.
pub(crate) const METADATA_AREAS_OF_VOLUME_MAX: usize = 1024;

/// Such mebibytes of all volumes of a pool: with more volumes each has fewer, but one at least.
pub(crate) const METADATA_AREAS_MAX: usize = 65_536;

/// How many mebibytes before and behind one in which hosts lock still count as near.
pub(crate) const LOCK_NEIGHBOURS: u64 = 16;

/// SequentialDetector of a pool that are read ahead of; the one that rested longest makes room.
pub(crate) const STREAMS_MAX: usize = 32;

/// Blocks that are read ahead of a stream at first. It doubles up to [`AHEAD_BLOCKS_MAX`].
pub(crate) const AHEAD_BLOCKS_MIN: u64 = 16;

/// Blocks that are read ahead of a stream at most: 512 KiB.
pub(crate) const AHEAD_BLOCKS_MAX: u64 = 128;

/// Blocks that are read ahead by one I/O of a device.
pub(crate) const AHEAD_READ_BLOCKS_MAX: u64 = 64;

/// Blocks of the longest request that is read ahead of: larger ones are quick enough.
pub(crate) const AHEAD_REQUEST_BLOCKS_MAX: u64 = 32;

/// Blocks that were read ahead and are kept; the oldest one makes room. They take 16 MiB of memory,
/// besides what the pool's maps may.
pub(crate) const AHEAD_KEPT_BLOCKS_MAX: usize = STREAMS_MAX * AHEAD_BLOCKS_MAX as usize;

/// Writes of a checkpoint that are under way at once.
pub(crate) const CHECKPOINT_WRITES_MAX: usize = 64;

/// Subtrees that the reaper takes apart per turn.
pub(crate) const REAP_BATCH: usize = 64;

/// Subtrees that wait for the reaper before requests that drop more must wait too.
pub(crate) const REAP_QUEUE_MAX: usize = 100_000;

/// Reads of a request or of recovery that are under way at once.
pub(crate) const VERIFY_READS_MAX: usize = 64;

/// Bad ranges that a scrub reports; more are only counted.
pub const SCRUB_FAULTS_MAX: usize = 1000;

/// Volumes that are named of what a damaged journal lost; further ones are not.
pub(crate) const LOST_VOLUMES_MAX: usize = 64;

/// How often a change reaches a checkpoint at the latest.
pub(crate) const CHECKPOINT_INTERVAL: Duration = Duration::from_secs(30);

/// How long space that was freed stays unusable at most while nobody changes anything, or when it is
/// more than [`FREED_SHARE`] of the pool.
pub(crate) const FREED_DELAY: Duration = Duration::from_secs(1);

/// A 64th of the pool is much.
pub(crate) const FREED_SHARE: u64 = 64;

/// How often a group is tried again for which the file system under the pool had no space, and the
/// reaper what it could not read.
pub(crate) const UNAVAILABLE_RETRY: Duration = Duration::from_secs(5);

/// Incidents in the queue for the administrator; further ones are only counted.
pub(crate) const INCIDENTS_MAX: usize = 256;

/// Bad ranges that a scrub reports as incidents; its status names more.
pub(crate) const SCRUB_INCIDENTS_MAX: usize = 16;

/// Blocks that a resilver copies at once: 512 KiB.
pub(crate) const RESILVER_COPY_BLOCKS: u64 = 128;

/// Copies of a resilver under way at once while hosts ask for nothing. Beside hosts it is one.
pub(crate) const RESILVER_COPIES_MAX: usize = 8;

/// Blocks whose use a resilver asks for at once, as far as their regions are dirty: 128 MiB.
pub(crate) const RESILVER_SPAN_BLOCKS: u64 = 32_768;

/// Such stretches that a resilver has under way: the next one is asked for while the last copies end.
pub(crate) const RESILVER_SPANS_MAX: usize = 4;

/// Bytes that a resilver copies before it flushes the member, so that its progress outlives a restart.
pub(crate) const RESILVER_FLUSH_BYTES: u64 = 64 << 20;

/// While hosts are busy a resilver copies a byte for so many of theirs.
pub(crate) const RESILVER_BUSY_SHARE: u64 = 4;

/// While hosts are busy a resilver copies something at least so often.
pub(crate) const RESILVER_BUSY_PAUSE: Duration = Duration::from_millis(20);

/// Hosts that asked for nothing for so long are not busy.
pub(crate) const RESILVER_QUIET: Duration = Duration::from_millis(50);

/// Stretches whose use is told to resilvers per turn.
pub(crate) const RESILVER_ANSWERS_MAX: usize = 64;

/// Steps that a resilver takes per turn.
pub(crate) const RESILVER_STEPS_MAX: usize = 64;

/// Blocks that no current member could read with which a member is taken for current all the same:
/// they are lost on all alike. With more it stays as it is, since the others may come to life again.
pub(crate) const RESILVER_UNREADABLE_MAX: u64 = 1024;

/// Places for members of a mirror, with those that have left and still have I/O under way.
pub(crate) const MIRROR_PLACES_MAX: usize = 32;

/// Rewritten pages of a device that leaves of which it is remembered what became of them, for their other
/// parents; the oldest makes room. A page that was forgotten is rewritten for each parent.
pub(crate) const MOVED_PAGES_MAX: usize = 65_536;

/// Pages of the map that are looked at in one step of moving what is on a device that leaves.
pub(crate) const EVACUATION_PAGES_PER_STEP: usize = 64;

/// Such steps per turn.
pub(crate) const EVACUATION_STEPS: usize = 16;

/// Blocks of a device that leaves which lost their last reference, at least, before it is looked where they
/// were moved; so many more as an eighth of what was moved and others need yet.
pub(crate) const EVACUATION_VANISHED_MIN: u64 = 256;

/// Blocks that could not be read and are remembered in a pass over the map; with more the pass ends.
pub(crate) const EVACUATION_BAD_MAX: usize = 4096;

/// How long moving rests after a pass that moved nothing.
pub(crate) const EVACUATION_REST: Duration = Duration::from_secs(1);

/// Comparisons of snapshots under way or queued. One more is refused.
pub const COMPARISONS_MAX: usize = 64;

/// Extents in one answer to a comparison. More are refused.
pub const COMPARISON_EXTENTS_MAX: usize = 16_384;

/// Pages of the map that are looked at for one answer to a comparison, 64 MiB.
/// The answer ends there, and says where the next one begins.
pub(crate) const COMPARISON_PAGES_MAX: u64 = 16_384;

/// Pages of the map that are read from devices for one answer to a comparison, about: a slow disk reads
/// so many in some seconds. The answer ends there, too.
pub(crate) const COMPARISON_PAGES_READ_MAX: u64 = 4096;

/// Places of two maps, of up to two pages each, that are compared per turn of the caller's loop.
pub(crate) const COMPARISON_PLACES_PER_TURN: usize = 32;

/// The same in the shortest turn: more than a map has levels, so that each turn gets on.
pub(crate) const COMPARISON_PLACES_MIN: usize = 8;

/// Pages of the map that a comparison reads at once; fewer if memory keeps few.
pub(crate) const COMPARISON_READS: usize = 32;
