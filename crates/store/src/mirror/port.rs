//! Queues between mirrors and the engine's I/O queue: I/O of members that is wanted, I/O of logical
//! devices that has ended, lists and mended blocks to be told.

use std::collections::VecDeque;
use std::time::Duration;

use block::{DeviceOperation, DeviceResult};
use slab::Slab;

use super::extent::Extent;
use super::member::{MemberNumber, MirrorNumber};
use super::resilver::CopyId;
use super::status::Membership;
use crate::address::DeviceBlock;
use crate::incident::Cause;

/// The engine's name for an I/O of a logical device.
pub(crate) type Token = usize;

/// Names an I/O of a member while it is under way.
pub(crate) type MemberKey = usize;

/// A copy that is being written again.
pub(super) struct Heal {
    pub(super) member: MemberNumber,
    pub(super) extent: Extent,
    pub(super) cause: Cause,
}

impl Heal {
    /// The blocks.
    pub(super) fn extent(&self) -> Extent {
        self.extent
    }
}

/// What an I/O of a member is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Part of a write, flush or reservation of the logical device.
    Fan(usize),
    /// Part of a read.
    Read(usize),
    /// A bad copy is written again.
    Heal(usize),
    /// The membership list.
    List,
    /// The member's label, once more.
    Label,
    /// Of this member alone.
    Direct(Token),
    /// One of the first own blocks of a member of this mirror that is being made.
    FirstBlock(Token),
    /// The bitmap of dirty regions is read.
    BitmapRead,
    /// A block of the bitmap.
    BitmapWrite(DeviceBlock),
    /// A copy of the resilver reads a current member.
    CopyRead(CopyId),
    /// The resilver looks whether the member holds zeros.
    CopyBlank(CopyId),
    /// A copy is written to the member.
    CopyWrite(CopyId),
    /// Space is set aside on the member.
    CopyReserve(CopyId),
    /// The member is flushed for the resilver.
    CopyFlush,
    /// Nobody waits for it: the member was given up meanwhile.
    Orphan,
}

impl Purpose {
    /// Whether it is of a resilver.
    pub(crate) fn is_of_a_copy(self) -> bool {
        match self {
            Self::CopyRead(_)
            | Self::CopyBlank(_)
            | Self::CopyWrite(_)
            | Self::CopyReserve(_)
            | Self::CopyFlush => true,
            Self::Fan(_)
            | Self::Read(_)
            | Self::Heal(_)
            | Self::List
            | Self::Label
            | Self::Direct(_)
            | Self::FirstBlock(_)
            | Self::BitmapRead
            | Self::BitmapWrite(_)
            | Self::Orphan => false,
        }
    }
}

/// An I/O of a member that is under way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MemberIo {
    pub(crate) mirror: MirrorNumber,
    pub(crate) member: MemberNumber,
    pub(crate) slot: u8,
    pub(crate) purpose: Purpose,
    /// When it began, by the time that devices were given.
    pub(crate) since: Duration,
}

/// An I/O of a member that is to be handed out.
pub(crate) struct Wish {
    pub(crate) key: MemberKey,
    pub(crate) slot: u8,
    pub(crate) operation: DeviceOperation,
}

/// Blocks of a copy that were bad and were written again.
#[derive(Clone, Debug)]
pub(crate) struct Healed {
    /// The logical device.
    pub(crate) device: u8,
    pub(crate) member: [u8; 16],
    /// The first byte on the device.
    pub(crate) offset: u64,
    pub(crate) blocks: u64,
    pub(crate) cause: Cause,
}

/// What all mirrors of a pool share.
pub(crate) struct Port {
    pub(crate) ios: Slab<MemberIo>,
    pub(crate) wanted: VecDeque<Wish>,
    pub(crate) ended: VecDeque<(Token, DeviceResult)>,
    pub(crate) memberships: VecDeque<Membership>,
    pub(crate) healed: Vec<Healed>,
    pub(crate) now: Duration,
    /// How much time the caller gave to devices to answer, as far as can be told.
    pub(crate) attended: Duration,
    /// Since when errors of reads are counted.
    pub(crate) period_since: Duration,
    pub(crate) hang_limit: Duration,
    /// Bytes per second that a resilver copies at most.
    pub(crate) resilver_rate: u64,
    /// Whether anything may be written: while a pool is opened it is only read at first.
    pub(crate) writable: bool,
}

impl Port {
    pub(crate) fn new(hang_limit: Duration) -> Self {
        Self {
            ios: Slab::new(),
            wanted: VecDeque::new(),
            ended: VecDeque::new(),
            memberships: VecDeque::new(),
            healed: Vec::new(),
            now: Duration::ZERO,
            attended: Duration::ZERO,
            period_since: Duration::ZERO,
            hang_limit,
            resilver_rate: u64::MAX,
            writable: false,
        }
    }

    /// The I/O of a logical device has ended.
    pub(crate) fn end(&mut self, token: Token, result: DeviceResult) {
        self.ended.push_back((token, result));
    }

    /// A mirror is forgotten: nobody waits for what its members are doing.
    pub(crate) fn disown(&mut self, mirror: MirrorNumber) {
        for (_, io) in self.ios.iter_mut().filter(|(_, io)| io.mirror == mirror) {
            (io.mirror, io.purpose) = (MirrorNumber::NONE, Purpose::Orphan);
        }
    }

    /// I/O under way that nobody waits for.
    pub(crate) fn orphans(&self) -> usize {
        self.ios.iter().filter(|(_, io)| io.purpose == Purpose::Orphan).count()
    }

    /// Tells that blocks of a copy were written again; what was not taken yet is told as one.
    pub(crate) fn tell_healed(&mut self, healed: Healed) {
        match self.healed.iter_mut().find(|earlier| earlier.member == healed.member) {
            Some(earlier) => earlier.blocks += healed.blocks,
            None => self.healed.push(healed),
        }
    }
}
