//! Reads: from the least busy current member, checked against what is expected; if a copy is bad the
//! next one is asked, block for block, and what was bad is mended.

use block::{BLOCK, Buffer, DeviceError, DeviceOperation, DeviceResult};
use smallvec::SmallVec;

use super::extent::Extent;
use super::member::{Member, MemberNumber, MemberSet};
use super::port::{Port, Purpose, Token};
use super::{EIO, Mirror, buffer_for};
use crate::checksum::crc32c;
use crate::incident::Cause;

/// What a read must bring. A plain device brings what it has.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Expected<'a> {
    /// Nothing is known of it.
    Nothing,
    /// The CRC32C of each block.
    Blocks(&'a [u32]),
}

/// How many copies are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Breadth {
    /// One that is right.
    One,
    /// The copy of the member in this place among those that can be read, going round, before others.
    Copy(usize),
    /// Each, so that all of them are right then.
    All,
}

/// Blocks of a member that were not as they should be.
pub(super) struct Fault {
    pub(super) member: MemberNumber,
    /// Their places in what was read, in order.
    pub(super) blocks: Vec<u32>,
    pub(super) cause: Cause,
}

/// A read of the logical device.
pub(super) struct Read {
    token: Token,
    extent: Extent,
    /// None if nothing is known of the content.
    crcs: SmallVec<[u32; 4]>,
    waiting: MemberSet,
    tried: MemberSet,
    /// The best of all copies so far.
    best: Option<Buffer>,
    /// Blocks of it that are not right.
    wrong: Vec<u32>,
    faults: Vec<Fault>,
    error: Option<DeviceError>,
    /// Whether writes of these blocks count as below.
    is_watched: bool,
    /// Somebody writes these blocks: which copy is right cannot be told.
    is_overlapped: bool,
}

impl Mirror {
    pub(super) fn read(
        &mut self,
        port: &mut Port,
        token: Token,
        extent: Extent,
        expected: Expected<'_>,
        breadth: Breadth,
    ) {
        if let Some(rebuild) = &mut self.rebuild {
            rebuild.resilver.host_io(extent.bytes());
        }
        let members = match breadth {
            Breadth::All => self.readable(),
            Breadth::One => self.next_to_read(MemberSet::default()).into_iter().collect(),
            Breadth::Copy(number) => self.copy(number).into_iter().collect(),
        };
        if members.is_empty() {
            return port.end(token, Err(DeviceError::Os(EIO)));
        }
        let crcs = match expected {
            Expected::Nothing => SmallVec::new(),
            Expected::Blocks(crcs) => SmallVec::from_slice(&crcs[..extent.blocks as usize]),
        };
        let mut read = Read::new(token, extent, crcs);
        if breadth == Breadth::All {
            read.watch(self.is_writing(extent));
        }
        let read = self.reads.insert(read);
        for member in members.iter() {
            self.read_copy(port, read, member);
        }
    }

    fn read_copy(&mut self, port: &mut Port, read: usize, member: MemberNumber) {
        let part = &mut self.reads[read];
        part.waiting.insert(member);
        part.tried.insert(member);
        let (offset, buffer) = (part.extent.first.offset(), buffer_for(part.extent));
        self.submit(port, member, Purpose::Read(read), DeviceOperation::Read { offset, buffer });
    }

    /// The least busy member that can be read; by turns among equals.
    pub(super) fn next_to_read(&mut self, tried: MemberSet) -> Option<MemberNumber> {
        let count = self.members.len();
        let by_turns = (0..count).map(|number| MemberNumber::new((self.turn + number) % count));
        let members = self.readable().without(tried);
        let free = by_turns.filter(|&member| members.contains(member));
        let next = free.min_by_key(|&member| self.members[member].pending)?;
        self.turn = (next.index() + 1) % count;
        Some(next)
    }

    /// Others are filled from this member only if there is no other.
    pub(super) fn read_last(&mut self, member: [u8; 16]) {
        self.leaving = Some(member);
    }

    /// The member that others are filled from. Of the content nothing is known then: one that is going
    /// to leave comes last, and one that has made fewer errors first.
    pub(super) fn next_source(&self, tried: MemberSet) -> Option<MemberNumber> {
        let members = self.readable().without(tried);
        members.iter().min_by_key(|&member| {
            let Member { uuid, errors, pending, .. } = self.members[member];
            (self.leaving == Some(uuid), errors, pending)
        })
    }

    fn copy(&self, number: usize) -> Option<MemberNumber> {
        let members: SmallVec<[MemberNumber; 4]> = self.readable().iter().collect();
        let count = members.len().max(1);
        members.get(number % count).copied()
    }

    /// A copy was read, or not.
    pub(super) fn copy_read(
        &mut self,
        port: &mut Port,
        read: usize,
        member: MemberNumber,
        result: DeviceResult,
    ) {
        let is_cut = matches!(result, Err(DeviceError::BeyondEnd { .. }));
        let part = &mut self.reads[read];
        part.waiting.remove(member);
        part.take(member, result);
        // Shorter than it was, it may answer other reads with what was never written there.
        if is_cut {
            self.give_up(port, member);
        }
        self.settle_read(port, read);
    }

    /// A member that was given up brings nothing.
    pub(super) fn copy_lost(&mut self, port: &mut Port, read: usize, member: MemberNumber) {
        let part = &mut self.reads[read];
        part.waiting.remove(member);
        part.error.get_or_insert(DeviceError::Os(EIO));
        self.settle_read(port, read);
    }

    fn settle_read(&mut self, port: &mut Port, read: usize) {
        if !self.reads[read].waiting.is_empty() {
            return;
        }
        let (tried, extent) = (self.reads[read].tried, self.reads[read].extent);
        if !self.reads[read].is_whole()
            && let Some(next) = self.next_to_read(tried)
        {
            let is_writing = self.is_writing(extent);
            self.reads[read].watch(is_writing);
            return self.read_copy(port, read, next);
        }
        let Read { token, crcs, best, wrong, faults, error, is_overlapped, .. } =
            self.reads.remove(read);
        self.count_errors(&faults, &wrong);
        let failed = failed_members(&faults, &wrong);
        let Some(best) = best else {
            return port.end(token, Err(error.unwrap_or(DeviceError::Os(EIO))));
        };
        // Of what nothing is known it cannot be told which copy is right.
        if !is_overlapped && !crcs.is_empty() {
            for mut fault in faults {
                fault.blocks.retain(|block| !wrong.contains(block));
                self.heal(port, extent, &fault, &best);
            }
        }
        port.end(token, Ok(Some(best)));
        failed.iter().for_each(|member| self.read_failed(port, member));
    }

    /// Counts what a member could not read, and blocks that others have and it has not. What none has may
    /// have been written meanwhile.
    fn count_errors(&mut self, faults: &[Fault], wrong: &[u32]) {
        for Fault { member, blocks, cause } in faults {
            self.members[*member].errors += match cause {
                Cause::Device(_) => 1,
                Cause::Checksum => {
                    blocks.iter().filter(|block| !wrong.contains(block)).count() as u64
                }
            };
        }
    }

    /// Blocks are going to be written.
    pub(super) fn note_overlap(&mut self, extent: Extent) {
        for (_, read) in &mut self.reads {
            read.is_overlapped |= read.is_watched && read.extent.overlaps(extent);
        }
    }
}

/// Members that answered with an error where others brought something.
fn failed_members(faults: &[Fault], wrong: &[u32]) -> MemberSet {
    let has_failed = |fault: &&Fault| {
        matches!(fault.cause, Cause::Device(_))
            && fault.blocks.iter().any(|block| !wrong.contains(block))
    };
    faults.iter().filter(has_failed).map(|fault| fault.member).collect()
}

impl Read {
    fn new(token: Token, extent: Extent, crcs: SmallVec<[u32; 4]>) -> Self {
        let none = MemberSet::default();
        Self {
            token,
            extent,
            crcs,
            waiting: none,
            tried: none,
            best: None,
            wrong: Vec::new(),
            faults: Vec::new(),
            error: None,
            is_watched: false,
            is_overlapped: false,
        }
    }

    /// From now on writes of these blocks forbid to mend them, and so do those under way.
    fn watch(&mut self, is_writing: bool) {
        self.is_watched = true;
        self.is_overlapped |= is_writing;
    }

    fn is_whole(&self) -> bool {
        self.best.is_some() && self.wrong.is_empty()
    }

    /// Takes a copy.
    fn take(&mut self, member: MemberNumber, result: DeviceResult) {
        let (bytes, bad, cause) = match result {
            Ok(bytes) => {
                let bytes = bytes.filter(|bytes| bytes.len() as u64 == self.extent.bytes());
                let bad = bytes.as_ref().map(|bytes| self.bad_blocks(bytes));
                (bytes, bad, Cause::Checksum)
            }
            Err(error) => {
                self.error.get_or_insert(error.clone());
                (None, None, Cause::Device(error))
            }
        };
        let bad = bad.unwrap_or_else(|| (0..self.extent.blocks as u32).collect());
        if let Some(bytes) = bytes {
            self.merge(bytes, &bad);
        }
        if !bad.is_empty() {
            self.faults.push(Fault { member, blocks: bad, cause });
        }
    }

    fn bad_blocks(&self, bytes: &[u8]) -> Vec<u32> {
        let blocks = (0..).zip(bytes.chunks(BLOCK as usize).zip(&self.crcs));
        blocks.filter(|(_, (block, crc))| crc32c(block) != **crc).map(|(at, _)| at).collect()
    }

    /// Takes from a copy what is right in it and was not in those before.
    fn merge(&mut self, bytes: Buffer, bad: &[u32]) {
        let Some(best) = &mut self.best else {
            self.best = Some(bytes);
            self.wrong = bad.to_vec();
            return;
        };
        self.wrong.retain(|block| {
            if bad.contains(block) {
                return true;
            }
            let place =
                (u64::from(*block) * BLOCK) as usize..((u64::from(*block) + 1) * BLOCK) as usize;
            best[place.clone()].copy_from_slice(&bytes[place]);
            false
        });
    }
}
