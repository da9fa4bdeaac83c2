//! Dirty regions of one mirror: marked while a member lacks writes, written to the members before the
//! next flush, read when the mirror is opened.

use block::{Buffer, DeviceError, DeviceOperation, DeviceResult};

use super::extent::Extent;
use super::member::{MemberNumber, MemberSet};
use super::port::{Port, Purpose};
use super::regions::{Regions, Unflushed};
use super::status::MemberState;
use super::{Mirror, buffer_for};
use crate::address::DeviceBlock;

/// What members of a mirror may lack.
pub(super) struct Dirty {
    pub(super) regions: Regions,
    pub(super) unflushed: Unflushed,
    /// The bitmap of an earlier life is being read.
    loading: Option<Loading>,
    writes: Vec<BitmapWrite>,
    /// A device is about to join: its bits stay set although every member is current.
    pub(super) is_reserved: bool,
}

struct Loading {
    waiting: MemberSet,
    copies: Vec<Option<Buffer>>,
}

/// A block of the bitmap on its way to the members.
struct BitmapWrite {
    block: DeviceBlock,
    waiting: MemberSet,
    done: MemberSet,
}

impl Dirty {
    /// Nothing is known to be lacking on a device of so many blocks.
    pub(super) fn new(device_blocks: u64) -> Self {
        Self {
            regions: Regions::clean(device_blocks),
            unflushed: Unflushed::default(),
            loading: None,
            writes: Vec::new(),
            is_reserved: false,
        }
    }

    /// The mirror has another size. What was written and not flushed is known by regions: where those
    /// are others now, only that it was much.
    pub(super) fn fit(&mut self, device_blocks: u64) {
        let before = self.regions.division();
        self.regions.fit(device_blocks);
        if !before.counts_like(self.regions.division()) {
            self.unflushed.forget_places();
        }
    }

    /// Nobody waits for anything any more.
    pub(super) fn abandon(&mut self) {
        self.loading = None;
        self.writes.clear();
    }

    /// Whether it is known what members lack.
    pub(super) fn is_known(&self) -> bool {
        self.loading.is_none()
    }

    /// Whether every bit that was set is written to the members.
    pub(super) fn is_written(&self) -> bool {
        self.is_known() && self.regions.is_settled()
    }
}

impl Mirror {
    /// Reads the bitmap of the current members if the list knows of a member that is not. If it does
    /// not, what lies there is of an earlier time, and is written again before it is relied on.
    pub(super) fn load_regions(&mut self, port: &mut Port) {
        let was_whole = self.list.copies().all(|entry| entry.state == MemberState::Current);
        if was_whole {
            if self.lacks_members() {
                self.dirty.regions.rewrite();
            }
            return;
        }
        let members = self.readable();
        self.dirty.loading = Some(Loading { waiting: members, copies: Vec::new() });
        let extent = self.dirty.regions.extent();
        for member in members.iter() {
            let (offset, buffer) = (extent.first.offset(), buffer_for(extent));
            let operation = DeviceOperation::Read { offset, buffer };
            self.submit(port, member, Purpose::BitmapRead, operation);
        }
        self.settle_loading(port);
    }

    /// A copy of the bitmap was read, or not.
    pub(super) fn bitmap_read(
        &mut self,
        port: &mut Port,
        member: MemberNumber,
        result: DeviceResult,
    ) {
        if let Some(loading) = &mut self.dirty.loading {
            loading.waiting.remove(member);
            loading.copies.push(result.ok().flatten());
        }
        self.settle_loading(port);
    }

    fn settle_loading(&mut self, port: &mut Port) {
        let Some(loading) = self.dirty.loading.take_if(|loading| loading.waiting.is_empty()) else {
            return;
        };
        let regions = Regions::parse(self.device_blocks(), &loading.copies);
        self.dirty.regions.unite_known(&regions);
        self.flush_list(port);
        self.release_flushes(port);
    }

    /// Whether a member lacks what is written now.
    pub(super) fn lacks_members(&self) -> bool {
        self.members.iter().any(|member| member.is_listed && member.state == MemberState::Absent)
    }

    /// Whether every member is current.
    pub(super) fn is_whole(&self) -> bool {
        let mut copies = self.members.iter().filter(|member| member.holds_copy());
        copies.all(|member| member.state == MemberState::Current)
    }

    /// Blocks on the way to the members that are there.
    pub(super) fn write_begins(&mut self, extent: Extent) {
        if self.lacks_members() {
            self.dirty.regions.mark(extent);
        }
        if let Some(rebuild) = &mut self.rebuild {
            rebuild.resilver.write_began(extent);
            rebuild.resilver.host_io(extent.bytes());
        }
    }

    /// Space is being set aside. A member that is not there has to do the same when it is back: whoever
    /// tells what is in use of the region of the first block tells that, too.
    pub(super) fn reservation_begins(&mut self, extent: Extent) {
        if self.lacks_members() {
            self.dirty.regions.mark(extent.split(1).0);
        }
    }

    /// Every member has set it aside that counts.
    pub(super) fn reservation_ends(&mut self, extent: Extent) {
        self.dirty.unflushed.written(self.dirty.regions.division(), extent.split(1).0);
    }

    /// Every member has them that counts.
    pub(super) fn write_ends(&mut self, extent: Extent) {
        self.dirty.unflushed.written(self.dirty.regions.division(), extent);
        if let Some(rebuild) = &mut self.rebuild {
            rebuild.resilver.write_ended(extent);
        }
    }

    /// A member does not count any more: it may lack what was not flushed, and what is under way.
    pub(super) fn member_left(&mut self, was_whole: bool) {
        let Dirty { regions, unflushed, .. } = &mut self.dirty;
        if was_whole {
            regions.rewrite();
        }
        regions.mark_unflushed(unflushed);
        let fans = self.fans.iter();
        for extent in fans.filter_map(|(_, fan)| fan.written().or_else(|| fan.reserved())) {
            self.dirty.regions.mark(extent);
        }
    }

    /// Clears all bits if nobody needs them.
    pub(super) fn clear_if_whole(&mut self) {
        if self.is_whole() && !self.dirty.is_reserved {
            self.dirty.regions.clear_all();
        }
    }

    /// Blocks that members may lack: a crash left it open whether they have them. Those that are current
    /// are given them before the next flush, unless they fail before it.
    pub(super) fn may_lack(&mut self, extent: Extent) {
        self.dirty.unflushed.written(self.dirty.regions.division(), extent);
        if !self.is_whole() {
            self.dirty.regions.mark(extent);
        }
    }

    /// Writes the blocks of the bitmap that a flush waits for.
    pub(super) fn write_urgent_regions(&mut self, port: &mut Port) {
        if self.dirty.is_known() && self.is_made() {
            while let Some((block, bytes)) = self.dirty.regions.next_urgent() {
                self.write_bitmap(port, block, bytes);
            }
        }
    }

    /// Writes the blocks of the bitmap that say less than before: nobody waits for them.
    pub(super) fn write_changed_regions(&mut self, port: &mut Port) {
        if self.dirty.is_known() {
            while let Some((block, bytes)) = self.dirty.regions.next_changed() {
                self.write_bitmap(port, block, bytes);
            }
        }
    }

    fn write_bitmap(&mut self, port: &mut Port, block: DeviceBlock, bytes: Buffer) {
        let (members, none) = (self.written_to(), MemberSet::default());
        self.dirty.writes.push(BitmapWrite { block, waiting: members, done: none });
        let data = bytes.freeze();
        for member in members.iter() {
            let operation =
                DeviceOperation::Write { offset: block.offset(), data: data.clone().into() };
            self.submit(port, member, Purpose::BitmapWrite(block), operation);
        }
        self.settle_bitmap(port, block);
    }

    /// A member has written a block of the bitmap, or failed.
    pub(super) fn bitmap_written(
        &mut self,
        port: &mut Port,
        (block, member): (DeviceBlock, MemberNumber),
        result: Result<(), DeviceError>,
    ) {
        self.bitmap_lost(block, member);
        match result {
            Ok(()) => {
                let write = self.dirty.writes.iter_mut().find(|write| write.block == block);
                write.into_iter().for_each(|write| write.done.insert(member));
            }
            Err(_) => {
                self.members[member].errors += 1;
                self.give_up(port, member);
            }
        }
        self.settle_bitmap(port, block);
    }

    /// A member that was given up does not write a block of the bitmap.
    pub(super) fn bitmap_lost(&mut self, block: DeviceBlock, member: MemberNumber) {
        let write = self.dirty.writes.iter_mut().find(|write| write.block == block);
        write.into_iter().for_each(|write| write.waiting.remove(member));
    }

    /// A block of the bitmap that no current member took makes every flush fail: what members lack
    /// could not be told after a restart.
    fn settle_bitmap(&mut self, port: &mut Port, block: DeviceBlock) {
        let is_over = |write: &BitmapWrite| write.block == block && write.waiting.is_empty();
        let Some(at) = self.dirty.writes.iter().position(is_over) else { return };
        let write = self.dirty.writes.swap_remove(at);
        self.dirty.regions.written(block);
        if write.done.and(self.readable()).is_empty() {
            self.give_up_lists(port);
        }
        self.flush_list(port);
        self.release_flushes(port);
    }

    /// Ends the waiting for blocks of the bitmap that members which were given up would have written.
    pub(super) fn settle_bitmaps(&mut self, port: &mut Port) {
        let blocks: Vec<DeviceBlock> = self.dirty.writes.iter().map(|write| write.block).collect();
        blocks.into_iter().for_each(|block| self.settle_bitmap(port, block));
    }
}
