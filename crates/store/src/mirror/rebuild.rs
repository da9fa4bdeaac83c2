//! I/O of the resilver of one mirror: reads from the current member with the fewest errors, writes to the member
//! that is resilvered, and what becomes of it when one of them fails.

use block::{DeviceError, DeviceOperation, DeviceResult};

use super::Mirror;
use super::buffer_for;
use super::extent::Extent;
use super::member::{Member, MemberNumber, MemberSet};
use super::port::{Port, Purpose};
use super::resilver::{CopyId, Resilver, ResilverStatus, Step};
use super::status::MemberState;
use crate::limits::RESILVER_STEPS_MAX;

/// errno: no space left on the device, or beyond a quota.
const NO_ROOM: [i32; 2] = [28, 122];

/// A member on its way to being current.
pub(super) struct Rebuild {
    pub(super) target: MemberNumber,
    pub(super) resilver: Resilver,
    /// Reads of current members under way, and which were tried.
    reads: Vec<SourceRead>,
}

struct SourceRead {
    copy: CopyId,
    extent: Extent,
    tried: MemberSet,
}

impl Mirror {
    /// Takes the resilver as far as it may go.
    pub(super) fn advance_rebuild(&mut self, port: &mut Port) {
        self.begin_rebuild(port);
        if self.readable().is_empty() {
            return;
        }
        for _ in 0..RESILVER_STEPS_MAX {
            let Some(rebuild) = &mut self.rebuild else { return };
            let Some(step) = rebuild.resilver.next_step() else { break };
            self.take_step(port, step);
        }
        self.clear_copied(port);
    }

    fn begin_rebuild(&mut self, port: &Port) {
        if self.rebuild.is_some() || !self.dirty.is_known() || self.broken.is_some() {
            return;
        }
        let is_due = |member: &Member| {
            member.is_listed && member.state == MemberState::Resilvering && member.slot.is_some()
        };
        let Some(target) = self.member_where(is_due) else { return };
        if self.is_draining || !self.is_settled() {
            return;
        }
        let regions = &self.dirty.regions;
        let mut resilver =
            Resilver::new(regions.division(), regions.dirty().clone(), port.resilver_rate);
        self.fans.iter().filter_map(|(_, fan)| fan.written()).for_each(|extent| {
            resilver.write_began(extent);
        });
        self.heals.iter().for_each(|(_, heal)| resilver.write_began(heal.extent()));
        resilver.set_paused(self.is_paused);
        self.rebuild = Some(Box::new(Rebuild { target, resilver, reads: Vec::new() }));
    }

    fn take_step(&mut self, port: &mut Port, step: Step) {
        let Some(rebuild) = &mut self.rebuild else { return };
        let target = rebuild.target;
        match step {
            Step::ReadSource { copy, extent } => {
                rebuild.reads.push(SourceRead { copy, extent, tried: MemberSet::default() });
                self.read_source(port, copy);
            }
            Step::ReadTarget { copy, extent } => {
                let (offset, buffer) = (extent.first.offset(), buffer_for(extent));
                let operation = DeviceOperation::Read { offset, buffer };
                self.submit(port, target, Purpose::CopyBlank(copy), operation);
            }
            Step::Write { copy, extent, data } => {
                let operation = DeviceOperation::Write { offset: extent.first.offset(), data };
                self.submit(port, target, Purpose::CopyWrite(copy), operation);
            }
            Step::Reserve { copy, extent } => {
                let (offset, length) = (extent.first.offset(), extent.bytes());
                let operation = DeviceOperation::Reserve { offset, length };
                self.submit(port, target, Purpose::CopyReserve(copy), operation);
            }
            Step::Flush => {
                self.submit(port, target, Purpose::CopyFlush, DeviceOperation::Flush);
            }
            Step::Complete => self.rebuilt(port, target),
        }
    }

    /// Reads what is to be copied from the next member that was not tried.
    fn read_source(&mut self, port: &mut Port, copy: CopyId) {
        let Some(rebuild) = &mut self.rebuild else { return };
        let Some(at) = rebuild.reads.iter().position(|read| read.copy == copy) else { return };
        let (extent, tried) = (rebuild.reads[at].extent, rebuild.reads[at].tried);
        let Some(member) = self.next_source(tried) else {
            return self.source_read(copy, None);
        };
        if let Some(rebuild) = &mut self.rebuild {
            rebuild.reads[at].tried.insert(member);
        }
        let (offset, buffer) = (extent.first.offset(), buffer_for(extent));
        let operation = DeviceOperation::Read { offset, buffer };
        self.submit(port, member, Purpose::CopyRead(copy), operation);
    }

    fn source_read(&mut self, copy: CopyId, bytes: Option<block::Buffer>) {
        let Some(rebuild) = &mut self.rebuild else { return };
        rebuild.reads.retain(|read| read.copy != copy);
        rebuild.resilver.read(copy, bytes);
    }

    /// A current member was read for a copy, or could not be.
    pub(super) fn copy_source_read(
        &mut self,
        port: &mut Port,
        (copy, member): (CopyId, MemberNumber),
        result: DeviceResult,
    ) {
        match result {
            Ok(bytes) => self.source_read(copy, bytes),
            Err(error) => {
                self.members[member].errors += 1;
                if matches!(error, DeviceError::BeyondEnd { .. }) {
                    self.give_up(port, member);
                }
                self.read_source(port, copy);
                self.read_failed(port, member);
            }
        }
    }

    /// A current member that was being read for a copy was given up.
    pub(super) fn copy_source_lost(&mut self, port: &mut Port, copy: CopyId) {
        self.read_source(port, copy);
    }

    /// The unused part of the journal was read on the member.
    pub(super) fn copy_blank_read(&mut self, copy: CopyId, result: DeviceResult) {
        if let Some(rebuild) = &mut self.rebuild {
            rebuild.resilver.read(copy, result.ok().flatten());
        }
    }

    /// Blocks were written to the member, or space was set aside, or it failed. A member without room
    /// is as one that failed; one that sets no space aside is not.
    pub(super) fn copy_written(
        &mut self,
        port: &mut Port,
        (copy, member): (CopyId, MemberNumber),
        result: Result<(), DeviceError>,
    ) {
        match (result, &mut self.rebuild) {
            (Ok(()), Some(rebuild)) => rebuild.resilver.wrote(copy),
            (Err(_), _) => self.target_failed(port, member),
            (Ok(()), None) => {}
        }
    }

    /// Space was set aside on the member, or not.
    pub(super) fn copy_reserved(
        &mut self,
        port: &mut Port,
        copy: (CopyId, MemberNumber),
        result: Result<(), DeviceError>,
    ) {
        let has_room = match &result {
            Ok(()) => true,
            Err(DeviceError::Os(errno)) => !NO_ROOM.contains(errno),
            Err(_) => false,
        };
        self.copy_written(port, copy, if has_room { Ok(()) } else { result });
    }

    /// The member was flushed, or failed.
    pub(super) fn copy_flushed(
        &mut self,
        port: &mut Port,
        member: MemberNumber,
        result: Result<(), DeviceError>,
    ) {
        match (result, &mut self.rebuild) {
            (Ok(()), Some(rebuild)) => rebuild.resilver.flushed(),
            (Err(_), _) => self.target_failed(port, member),
            (Ok(()), None) => {}
        }
    }

    fn target_failed(&mut self, port: &mut Port, member: MemberNumber) {
        self.members[member].errors += 1;
        self.give_up(port, member);
    }

    /// The bits of what was copied and flushed are cleared, unless another member lacks something.
    fn clear_copied(&mut self, port: &mut Port) {
        let Some(rebuild) = &mut self.rebuild else { return };
        let (clean, target) = (rebuild.resilver.take_clean(), rebuild.target);
        // A mirror that has grown meanwhile may count larger regions, of which less was copied.
        let are_the_same = rebuild.resilver.division().counts_like(self.dirty.regions.division());
        if clean.is_empty() || !are_the_same || !self.is_only_one_behind(target) {
            return;
        }
        clean.into_iter().for_each(|region| self.dirty.regions.clear(region));
        self.write_changed_regions(port);
    }

    /// Whether every other member is current, and none is about to join.
    fn is_only_one_behind(&self, member: MemberNumber) -> bool {
        if self.dirty.is_reserved {
            return false;
        }
        let mut others =
            self.numbered().filter(|(number, other)| *number != member && other.holds_copy());
        others.all(|(_, other)| other.state == MemberState::Current)
    }

    /// The member holds all that the others do.
    fn rebuilt(&mut self, port: &mut Port, target: MemberNumber) {
        self.clear_copied(port);
        self.rebuild = None;
        self.members[target].state = MemberState::Current;
        self.clear_if_whole();
        self.write_changed_regions(port);
        self.propose(port);
    }

    /// Gives up the resilver of a member; its I/O comes to nothing.
    pub(super) fn end_rebuild(&mut self, port: &mut Port, member: MemberNumber) {
        if self.rebuild.take_if(|rebuild| rebuild.target == member).is_none() {
            return;
        }
        for (_, io) in &mut port.ios {
            if io.mirror == self.number && io.purpose.is_of_a_copy() {
                io.purpose = Purpose::Orphan;
            }
        }
    }

    /// How the resilver of this mirror is doing, if a member has to be resilvered.
    pub(super) fn rebuild_status(&self) -> Option<ResilverStatus> {
        let rebuild = self.rebuild.as_ref()?;
        let member = self.members[rebuild.target].uuid;
        Some(ResilverStatus { member, ..rebuild.resilver.status() })
    }
}
