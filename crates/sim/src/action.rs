//! Actions of the workload, in sectors and tags instead of bytes.

use std::fmt;

use block::{ByteRange, Pattern, Request, SECTOR, VolumeId};
use store::{Change, Comparison, VolumeSpec};

use crate::content::{Tag, bytes_of, tag};

/// Adjacent sectors of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The first sector.
    pub first: u64,
    /// Number of sectors.
    pub count: u64,
}

impl Span {
    /// The sector after the last one.
    pub fn end(self) -> u64 {
        self.first + self.count
    }

    /// In bytes.
    pub fn range(self) -> ByteRange {
        ByteRange::new(self.first * SECTOR, self.count * SECTOR)
    }

    /// Whether it covers whole blocks.
    pub fn is_aligned(self) -> bool {
        self.range().is_aligned(block::BLOCK)
    }
}

/// What WRITE SAME repeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fill {
    /// Zeros.
    Zero,
    /// One logical block of 512 bytes.
    Sector,
    /// One logical block of 4,096 bytes.
    Block,
}

/// One command of the workload. `number` makes the content of what it writes.
#[derive(Clone, Debug)]
pub enum Action {
    /// READ.
    Read {
        /// Where.
        volume: VolumeId,
        /// Which sectors.
        span: Span,
    },
    /// WRITE.
    Write {
        /// Where.
        volume: VolumeId,
        /// Which sectors.
        span: Span,
        /// Makes the content.
        number: u64,
    },
    /// COMPARE AND WRITE.
    CompareAndWrite {
        /// Where.
        volume: VolumeId,
        /// Which sectors.
        span: Span,
        /// Tags of what is expected there.
        expected: Vec<u64>,
        /// Makes the content.
        number: u64,
    },
    /// WRITE SAME.
    WriteSame {
        /// Where.
        volume: VolumeId,
        /// Which sectors.
        span: Span,
        /// What is repeated.
        fill: Fill,
        /// Makes the content.
        number: u64,
    },
    /// UNMAP.
    Unmap {
        /// Where.
        volume: VolumeId,
        /// Which sectors.
        spans: Vec<Span>,
    },
    /// EXTENDED COPY.
    Copy {
        /// Copied from.
        source: VolumeId,
        /// First sector there.
        from: u64,
        /// Copied to.
        volume: VolumeId,
        /// Which sectors.
        span: Span,
    },
    /// SYNCHRONIZE CACHE.
    Flush {
        /// Where.
        volume: VolumeId,
    },
    /// GET LBA STATUS.
    MapStatus {
        /// Where.
        volume: VolumeId,
        /// Which sectors.
        span: Span,
    },
    /// What differs between two snapshots.
    Compare(Comparison),
    /// A change of the pool.
    Change(Change),
}

impl Action {
    /// The volume that it is sent to, for a request of a host.
    pub fn volume(&self) -> Option<VolumeId> {
        match self {
            Self::Read { volume, .. }
            | Self::Write { volume, .. }
            | Self::CompareAndWrite { volume, .. }
            | Self::WriteSame { volume, .. }
            | Self::Unmap { volume, .. }
            | Self::Copy { volume, .. }
            | Self::Flush { volume }
            | Self::MapStatus { volume, .. } => Some(*volume),
            Self::Compare(_) | Self::Change(_) => None,
        }
    }

    /// Bytes that it newly writes at most.
    pub fn new_bytes(&self) -> u64 {
        match self {
            Self::Write { span, .. }
            | Self::CompareAndWrite { span, .. }
            | Self::WriteSame { span, .. }
            | Self::Copy { span, .. } => span.range().length + 2 * block::BLOCK,
            // Blocks that are cleared in part are written again.
            Self::Unmap { spans, .. } => 2 * spans.len() as u64 * block::BLOCK,
            _ => 0,
        }
    }

    /// The request to the engine; `None` for a change or comparison.
    pub fn request(&self) -> Option<Request> {
        Some(match self {
            Self::Read { span, .. } => Request::Read { range: span.range() },
            Self::Write { span, number, .. } => Request::Write {
                range: span.range(),
                data: bytes_of(&new_tags(*number, span.count)),
            },
            Self::CompareAndWrite { span, expected, number, .. } => Request::CompareAndWrite {
                range: span.range(),
                compare: bytes_of(expected),
                write: bytes_of(&new_tags(*number, span.count)),
            },
            Self::WriteSame { span, fill, number, .. } => {
                Request::WriteSame { range: span.range(), pattern: pattern(*fill, *number) }
            }
            Self::Unmap { spans, .. } => {
                Request::Unmap { ranges: spans.iter().map(|span| span.range()).collect() }
            }
            Self::Copy { source, from, span, .. } => Request::Copy {
                source: *source,
                source_offset: from * SECTOR,
                destination: span.first * SECTOR,
                length: span.count * SECTOR,
            },
            Self::Flush { .. } => Request::Flush,
            Self::MapStatus { span, .. } => {
                Request::MapStatus { range: span.range(), extents_max: 64 }
            }
            Self::Compare(_) | Self::Change(_) => return None,
        })
    }
}

/// The tags of what a command writes.
pub(crate) fn new_tags(number: u64, count: u64) -> Vec<Tag> {
    (0..count).map(|place| tag(number, place)).collect()
}

/// The tag that WRITE SAME leaves at a place of its range.
pub(crate) fn fill_tag(fill: Fill, number: u64, place: u64) -> Tag {
    match fill {
        Fill::Zero => 0,
        Fill::Sector => tag(number, 0),
        Fill::Block => tag(number, place % (block::BLOCK / SECTOR)),
    }
}

fn pattern(fill: Fill, number: u64) -> Pattern {
    match fill {
        Fill::Zero => Pattern::Zero,
        Fill::Sector => Pattern::Block(bytes_of(&new_tags(number, 1))),
        Fill::Block => Pattern::Block(bytes_of(&new_tags(number, block::BLOCK / SECTOR))),
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sectors {}+{}", self.first, self.count)
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read { volume, span } => write!(f, "read {span} of {}", volume.0),
            Self::Write { volume, span, number } => {
                write!(f, "write {span} of {} with #{number}", volume.0)
            }
            Self::CompareAndWrite { volume, span, number, .. } => {
                write!(f, "compare and write {span} of {} with #{number}", volume.0)
            }
            Self::WriteSame { volume, span, fill, number } => {
                write!(f, "write same {fill:?} {span} of {} with #{number}", volume.0)
            }
            Self::Unmap { volume, spans } => {
                let spans: Vec<String> = spans.iter().map(Span::to_string).collect();
                write!(f, "unmap {} of {}", spans.join(", "), volume.0)
            }
            Self::Copy { source, from, volume, span } => {
                write!(f, "copy from sector {from} of {} to {span} of {}", source.0, volume.0)
            }
            Self::Flush { volume } => write!(f, "flush {}", volume.0),
            Self::MapStatus { volume, span } => write!(f, "map status of {span} of {}", volume.0),
            Self::Compare(Comparison { base, target, from, .. }) => {
                write!(
                    f,
                    "compare {} with {:?} from byte {from}",
                    target.0,
                    base.map(|base| base.0)
                )
            }
            Self::Change(change) => describe_change(change, f),
        }
    }
}

fn describe_change(change: &Change, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let spec = |spec: &VolumeSpec| {
        let thick = if spec.thick { ", thick" } else { "" };
        format!("{} '{}' of {} bytes{thick}", spec.id.0, spec.name, spec.size_bytes)
    };
    match change {
        Change::CreateVolume(new) => write!(f, "create volume {}", spec(new)),
        Change::CloneVolumes(members) => {
            let clone = |(source, new): &(VolumeId, VolumeSpec)| {
                format!("volume {} as {}", source.0, spec(new))
            };
            let members: Vec<String> = members.iter().map(clone).collect();
            write!(f, "clone at one moment {}", members.join(", "))
        }
        Change::RevertVolume { volume, source } => {
            write!(f, "revert volume {} to {}", volume.0, source.0)
        }
        Change::AddDevice(spec) => write!(f, "add a device of {} bytes", spec.size_bytes),
        Change::DeleteVolume(id) => write!(f, "delete volume {}", id.0),
        Change::ResizeVolume { id, size_bytes } => {
            write!(f, "resize volume {} to {size_bytes} bytes", id.0)
        }
        Change::RenameVolume { id, name } => write!(f, "rename volume {} to '{name}'", id.0),
        Change::CreateRecords { size_bytes } => {
            write!(f, "create the volume of records of {size_bytes} bytes")
        }
        Change::ExtendDevice { size_bytes, .. } => {
            write!(f, "extend the pool to {size_bytes} bytes")
        }
        Change::AttachWitness { device, member } => {
            write!(f, "attach slot {} to device {device} as its witness", member.slot)
        }
        Change::AttachMember { device, member } => {
            write!(f, "attach slot {} to device {device}", member.slot)
        }
        Change::DetachMember { member } => write!(f, "detach copy {:02x?}", &member[8..]),
        Change::ReturnWitness { member } => {
            write!(f, "return the witness in slot {}", member.slot)
        }
        Change::ReturnMember { member } => write!(f, "return slot {}", member.slot),
        Change::Resilver(control) => write!(f, "resilvering: {control:?}"),
        Change::EvacuateDevice { device } => write!(f, "have device {device} leave"),
        Change::Evacuation(control) => write!(f, "leaving: {control:?}"),
        Change::RemoveDevice { device } => write!(f, "remove device {device}"),
        Change::Checkpoint => f.write_str("checkpoint"),
        Change::Close => f.write_str("close"),
    }
}
