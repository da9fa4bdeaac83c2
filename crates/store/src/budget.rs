//! Space budget of a pool: which blocks may be taken, by whom, and which are kept back.
//!
//! All are blocks of 4 KiB, computed from what is free now and from what the operations under way
//! will do.
//!
//! | word | blocks |
//! |---|---|
//! | *reserve* | that only the way out of a full pool may take (checkpoints, UNMAP, deleting): one in a hundred, at least 16 MiB, at most an eighth |
//! | *metadata reserve* | that locks and file system metadata of hosts may take besides: as many |
//! | *owed* | that thick volumes have not taken yet, and what is on a device that leaves and was not moved yet |
//! | *promised* | that operations under way will add to those owed |
//! | *guaranteed* | that must be backed by the devices: reserve, metadata reserve, owed and promised |
//! | *kept* | that data without a promise may not take: guaranteed, and what changed pages will take |
//! | *allowed* | that such data may take: free, less kept |
//! | *kept for checkpoints* | that data may not even borrow: half of the reserve, and room for changed pages |
//! | *lent* | that an overwrite may take until the next checkpoint frees what it replaces, or a thick volume: free, less kept for checkpoints and what is left for metadata |
//! | *settled* | that will be free when everything under way has ended, less reserve, owed and promised |
//! | *metadata left* | of settled, up to the metadata reserve |
//! | *handed out* | that operations have taken and no map refers to yet |

use block::{BLOCK, BlockError, VolumeId};

use crate::address::DeviceNumber;
use crate::change::{RECORDS, device_of_moved};
use crate::error::ChangeError;
use crate::metadata::{Metadata, metadata_reserve_of};
use crate::pool::Pool;
use crate::space::Space;
use crate::status::Space as SpaceStatus;

/// Blocks that are moved for each page of the map that says where they are, at least, with its copy.
const MOVED_BLOCKS_PER_PAGE: u64 = 64;

/// Pages that say so in any case.
const MOVED_PAGES_MIN: u64 = 16;

/// Estimated effect of the operations under way on the space of the pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Estimate {
    /// Blocks that they will free, and that the next checkpoint releases.
    pub(crate) returning: u64,
    /// Blocks that pages of the map may newly take, at most.
    pub(crate) growing: u64,
}

/// What operations under way have taken, and will take and free.
#[derive(Default)]
pub(crate) struct Budget {
    handed_out: u64,
    promised: u64,
    estimated: Estimate,
    /// Where hosts keep the metadata of their file systems, which may draw on a reserve.
    pub(crate) metadata: Metadata,
    /// Whether the pool is being extended: writes that find no space are then refused as 'try
    /// again'.
    pub(crate) extending: bool,
}

impl Budget {
    /// An operation takes blocks.
    pub(crate) fn hand_out(&mut self, blocks: u64) {
        self.handed_out += blocks;
    }

    /// An operation ends without its blocks.
    pub(crate) fn give_back(&mut self, blocks: u64) {
        self.handed_out -= blocks;
    }

    /// The map refers to blocks now. Those that a replayed journal names were not handed out.
    pub(crate) fn refer(&mut self, blocks: u64) {
        self.handed_out = self.handed_out.saturating_sub(blocks);
    }

    /// An operation will add blocks to those owed.
    pub(crate) fn promise(&mut self, blocks: u64) {
        self.promised += blocks;
    }

    /// It has done so, or will not.
    pub(crate) fn end_promise(&mut self, blocks: u64) {
        self.promised -= blocks;
    }

    /// An operation goes on that will have this effect.
    pub(crate) fn expect(&mut self, estimate: Estimate) {
        self.estimated.returning += estimate.returning;
        self.estimated.growing += estimate.growing;
    }

    /// Part of an effect is done, or will not come.
    pub(crate) fn forget(&mut self, estimate: Estimate) {
        self.estimated.returning -= estimate.returning;
        self.estimated.growing -= estimate.growing;
    }

    /// Blocks handed out and promised, and what is estimated: nothing while no operation is under way.
    pub(crate) fn under_way(&self) -> (u64, u64, Estimate) {
        (self.handed_out, self.promised, self.estimated)
    }

    /// The effect of all operations under way.
    pub(crate) fn estimated(&self) -> Estimate {
        self.estimated
    }

    /// Why a request that finds no space fails.
    pub(crate) fn refusal(&self) -> BlockError {
        if self.extending { BlockError::SpaceComing } else { BlockError::OutOfSpace }
    }
}

/// Blocks that a device which is to leave takes from others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Departure {
    /// What is owed to it from then on.
    pub(crate) owed: u64,
    /// What others must leave until then: that, and what is free on it and counts until then, less the
    /// part of the reserve that is needed no more.
    pub(crate) promised: u64,
}

impl Pool {
    /// Blocks that only the way out of a full pool may use, besides those for metadata.
    pub(crate) fn reserve_blocks(&self) -> u64 {
        reserve_of(self.space.total())
    }

    /// Blocks that are kept back for metadata while they are not needed.
    pub(crate) fn metadata_blocks(&self) -> u64 {
        metadata_reserve_of(self.space.total())
    }

    /// Blocks that are owed to thick volumes and to a device that leaves: what is on it and was not
    /// moved yet takes them on the others.
    pub(crate) fn owed_blocks(&self) -> u64 {
        self.volumes.owed_blocks() + self.owed_to_leaving()
    }

    fn owed_to_leaving(&self) -> u64 {
        let Some((device, moved)) = self.volumes.moved() else { return 0 };
        // Some of what was moved is needed no more, and stands for nothing on the device.
        let moved = (moved.mapped_bytes / BLOCK).saturating_sub(self.space.vanished());
        owed_for(self.space.used_on(device).saturating_sub(moved))
    }

    /// Whether the other devices have room for what is on one that is to leave, and for all that is
    /// promised. Until its leaving is applied the larger metadata reserve of before is kept.
    pub(crate) fn plan_departure(&self, device: DeviceNumber) -> Result<Departure, ChangeError> {
        let owed = owed_for(self.space.used_on(device));
        let (free, _) = self.space.free_on(device);
        let reserve = reserve_of(self.space.total() - self.space.unused_on(device));
        let kept = self.kept_blocks() - self.reserve_blocks() + reserve + owed;
        let left = self.space.free() - free;
        if left < kept {
            return Err(ChangeError::NoSpaceToLeave { needed_bytes: (kept - left) * BLOCK });
        }
        let released = self.reserve_blocks() - reserve;
        Ok(Departure { owed, promised: (owed + free).saturating_sub(released) })
    }

    /// Blocks that must have space on the devices, whatever happens there.
    pub(crate) fn guaranteed_blocks(&self) -> u64 {
        self.reserve_blocks() + self.metadata_blocks() + self.owed_blocks() + self.budget.promised
    }

    /// Blocks that what has no promise may not take.
    pub(crate) fn kept_blocks(&self) -> u64 {
        let going = 2 * self.map.dirty.len() as u64 + self.budget.estimated.growing;
        self.guaranteed_blocks() + going
    }

    /// Blocks that a volume's data may newly occupy.
    pub(crate) fn allowed_blocks(&self, volume: VolumeId) -> u64 {
        if self.volumes.is_thick(volume) || device_of_moved(volume).is_some() {
            return 0;
        }
        self.unkept_blocks()
    }

    /// Blocks that what has no promise may take.
    pub(crate) fn unkept_blocks(&self) -> u64 {
        self.space.free().saturating_sub(self.kept_blocks())
    }

    /// Blocks that nothing but checkpoints may take.
    pub(crate) fn kept_for_checkpoints(&self) -> u64 {
        self.reserve_blocks() / 2 + 2 * self.map.dirty.len() as u64
    }

    /// Blocks that are free but for the part of the reserve that checkpoints need, and but for what
    /// is left for metadata.
    pub(crate) fn lent_blocks(&self) -> u64 {
        self.space.free().saturating_sub(self.kept_for_checkpoints() + self.metadata_left())
    }

    /// Blocks that a thick volume may take, which are promised to it.
    pub(crate) fn promised_blocks(&self, volume: VolumeId) -> u64 {
        let is_promised = self.volumes.is_thick(volume) || device_of_moved(volume).is_some();
        if is_promised { self.lent_blocks() } else { 0 }
    }

    /// Blocks that will be free when all that is under way has come to its end, above those that
    /// only checkpoints, overwrites and thick volumes may take.
    fn settled_blocks(&self) -> u64 {
        let coming = self.space.free() + self.space.quarantined() + self.budget.estimated.returning;
        let going = 2 * self.map.dirty.len() as u64 + self.budget.estimated.growing;
        let kept = self.reserve_blocks() + self.owed_blocks() + self.budget.promised;
        coming.saturating_sub(going + kept)
    }

    /// Blocks left of the metadata reserve.
    pub(crate) fn metadata_left(&self) -> u64 {
        self.settled_blocks().min(self.metadata_blocks())
    }

    /// Whether a volume may come to share what it has: afterwards all metadata of its hosts needs
    /// new blocks, so the reserve for these must be whole, and as much free besides. A snapshot is
    /// not written, and a thick volume is promised new blocks for what it shares.
    pub(crate) fn check_sharing(
        &self,
        source: VolumeId,
        other_needs_nothing: bool,
    ) -> Result<(), ChangeError> {
        let source = self.volumes.get(source).ok_or(ChangeError::NoSuchVolume)?;
        let is_promised = source.spec.thick || source.spec.snapshot;
        if source.mapped_bytes == 0 || (is_promised && other_needs_nothing) {
            return Ok(());
        }
        let needed = 2 * self.metadata_blocks();
        if self.settled_blocks() >= needed {
            Ok(())
        } else {
            Err(ChangeError::NoSpaceToShare { needed_bytes: needed / 2 * BLOCK })
        }
    }

    /// Dirty pages at which requests wait for a checkpoint.
    pub(crate) fn dirty_max(&self) -> usize {
        (self.reserve_blocks() / 4).min(65_536).min(self.options.dirty_pages() as u64).max(64)
            as usize
    }

    /// Whether less than a sixteenth of the pool is free.
    pub(crate) fn is_short_of_space(&self) -> bool {
        let free = self.space.free().saturating_sub(self.guaranteed_blocks());
        free < self.space.total() / 16
    }

    /// Where the space of a pool that is open went.
    pub(crate) fn space_status(&self) -> SpaceStatus {
        let bytes = Space::bytes;
        let reserve = self.kept_in_reserve();
        let total = self.space.total();
        let free = self.space.free() - reserve;
        let used = self.space.used();
        let (pending, unbacked) = self.pending_and_unbacked(total - used - reserve - free);
        SpaceStatus {
            total: bytes(total),
            used: bytes(used),
            pending: bytes(pending),
            reserve: bytes(reserve),
            free: bytes(free),
            unbacked: bytes(unbacked),
            promised: bytes(self.owed_blocks().min(free)),
            metadata_reserve: bytes(self.metadata_blocks()),
            metadata_left: bytes(self.metadata_left()),
            metadata: bytes(self.space.pages) + self.records_bytes(),
            shared: self.shared_bytes(),
        }
    }

    /// Divides what is neither used nor free: what comes back with the next checkpoint or was handed
    /// out, and the free blocks of groups for which the file system under the pool has no space.
    fn pending_and_unbacked(&self, blocks: u64) -> (u64, u64) {
        let (_, unavailable) = self.space.unusable();
        if unavailable == 0 {
            return (blocks, 0);
        }
        let pending = blocks.min(self.space.quarantined() + self.budget.handed_out);
        (pending, blocks - pending)
    }

    /// Free blocks that count as reserve. What is promised to thick volumes is not among them, also
    /// in a pool that was full before there was a metadata reserve.
    fn kept_in_reserve(&self) -> u64 {
        let (way_out, free) = (self.reserve_blocks(), self.space.free());
        let whole = way_out + self.metadata_blocks();
        whole.min(free.saturating_sub(self.owed_blocks()).max(way_out)).min(free)
    }

    /// Bytes of the array's records.
    fn records_bytes(&self) -> u64 {
        self.volumes.get(RECORDS).map_or(0, |records| records.mapped_bytes)
    }

    /// Bytes saved by sharing: what volumes map, less the data that there is.
    fn shared_bytes(&self) -> u64 {
        let mapped = self.volumes.mapped_bytes();
        mapped.saturating_sub(Space::bytes(self.space.used() - self.space.pages))
    }
}

/// Blocks that moving so many takes on other devices: pages of the map that say where they are come
/// with them.
fn owed_for(blocks: u64) -> u64 {
    if blocks == 0 { 0 } else { blocks + blocks / MOVED_BLOCKS_PER_PAGE + MOVED_PAGES_MIN }
}

/// Blocks of the reserve of a pool that has so many in all.
pub(crate) fn reserve_of(total: u64) -> u64 {
    (total / 100).max(4096).min(total / 8)
}
