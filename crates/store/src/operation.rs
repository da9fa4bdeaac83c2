//! Requests and changes under way: what each has to do, and how far it has come.

mod admission;
mod allotment;
mod block_read;
mod changes;
mod commit;
mod compose;
mod departure;
mod label_upgrade;
mod membership;
mod moving;
mod reading;
mod run;
mod sampling;

use std::time::Duration;

use block::{BLOCK, DeviceError, Request, RequestStatistics, VolumeId};
use bytes::Bytes;
use smallvec::SmallVec;

use crate::address::{BlockRange, DeviceNumber, Run, VolumeBlock};
use crate::budget::Estimate;
use crate::change::{Change, Tag};
use crate::commit::CommitClass;
use crate::locks::Claim;
use crate::metadata_cache::is_for_parts;
use crate::operation_key::OperationKey;

use block_read::BlockRead;
use label_upgrade::LabelUpgrade;

/// Work of an operation.
pub(crate) enum Work {
    Request(Request),
    Change(Change),
}

impl Work {
    /// Bytes of a WRITE; 0 of anything else.
    fn written_bytes(&self) -> u64 {
        match self {
            Self::Request(Request::Write { range, .. }) => range.length,
            Self::Request(_) | Self::Change(_) => 0,
        }
    }
}

/// How far an operation has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Waits for its claims, or for pages of the map.
    Begun,
    /// Waits for data it has to read.
    Reading,
    /// Knows what to write; waits for space, pages, or room in the journal.
    Composed,
    /// The label of a new device is written, and space on it or on one that grows is set aside;
    /// then it is flushed.
    Labelling,
    /// The labels of all devices are written again with more features.
    Upgrading,
    /// Its device has a label, and space.
    Labelled,
    /// Its records are in a commit.
    Committing,
    /// Waits for a checkpoint.
    Waiting,
}

/// A part of what an operation changes, in whole blocks.
pub(crate) enum Piece {
    Data { first: VolumeBlock, data: Bytes },
    Zero { range: BlockRange },
    Fill { range: BlockRange, content: Bytes },
    Clone { source: VolumeId, source_first: VolumeBlock, range: BlockRange },
}

/// A request or change under way.
pub(crate) struct Operation {
    pub(crate) tag: Tag,
    pub(crate) volume: VolumeId,
    work: Work,
    /// Whether its blocks are kept in memory.
    is_for_parts: bool,
    stage: Stage,
    claims: SmallVec<[Claim; 2]>,
    reads: SmallVec<[BlockRead; 1]>,
    reads_pending: usize,
    pieces: Vec<Piece>,
    /// Blocks handed out for the data of `pieces`.
    runs: SmallVec<[Run; 1]>,
    /// Bytes of a physical copy that are done.
    progress: u64,
    space_waits: u8,
    /// How long it waits for counts of what is promised to thick volumes, once it does.
    counts_until: Option<Duration>,
    /// Blocks that it will share of thick volumes, which are owed new ones then.
    promised: u64,
    /// What it will do to the space of the pool besides taking `runs`.
    estimate: Estimate,
    /// Writes of a new device's label, and reservations of space, under way.
    label_writes: usize,
    /// Why one of them failed.
    label_failure: Option<DeviceError>,
    /// How far the labels are with the features that it needs.
    /// A change of a mirror's members under way.
    member_change: Option<Box<membership::MemberChange>>,
    upgrade: Option<Box<LabelUpgrade>>,
    statistics: RequestStatistics,
}

impl Operation {
    /// One that begins.
    fn new(tag: Tag, volume: VolumeId, work: Work, claims: SmallVec<[Claim; 2]>) -> Self {
        Self {
            tag,
            volume,
            is_for_parts: matches!(&work, Work::Request(request) if is_for_parts(request)),
            work,
            stage: Stage::Begun,
            claims,
            reads: SmallVec::new(),
            reads_pending: 0,
            pieces: Vec::new(),
            runs: SmallVec::new(),
            progress: 0,
            space_waits: 0,
            counts_until: None,
            promised: 0,
            estimate: Estimate::default(),
            label_writes: 0,
            label_failure: None,
            upgrade: None,
            member_change: None,
            statistics: RequestStatistics::default(),
        }
    }

    /// Whether this is that kind of change.
    pub(crate) fn is_change(&self, kind: &Change) -> bool {
        let same = |change| std::mem::discriminant(change) == std::mem::discriminant(kind);
        matches!(&self.work, Work::Change(change) if same(change))
    }

    /// The device that is no part of the pool any more when the operation has ended.
    pub(crate) fn leaving_device(&self) -> Option<DeviceNumber> {
        match self.work {
            Work::Change(Change::RemoveDevice { device }) => Some(DeviceNumber::new(device.into())),
            _ => None,
        }
    }

    /// Which commit it goes with.
    fn class(&self) -> CommitClass {
        match self.work {
            Work::Request(Request::CompareAndWrite { .. }) => CommitClass::Fast,
            _ => CommitClass::Ordinary,
        }
    }

    /// Whether the operation changes the pool.
    pub(crate) fn changes(&self) -> bool {
        !matches!(self.work, Work::Request(Request::Read { .. } | Request::MapStatus { .. }))
    }
}

/// The blocks that data fills, from the first on.
fn data_range(first: VolumeBlock, data: &Bytes) -> BlockRange {
    BlockRange { first, count: data.len() as u64 / BLOCK }
}
