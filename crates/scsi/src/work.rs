//! Cost model of commands, read from the command itself, whatever its initiator says that it
//! expects: the scheduler shares the pools by it, and memory is admitted by it.

use block::MAPPED_BYTES_PER_BYTE;

use crate::extent::Extent;
use crate::limits::{PARAMETER_DATA_BYTES_MAX, SEGMENT_DESCRIPTORS_MAX};
use crate::limits::{TOKEN_RANGES_MAX, TRANSFER_BYTES_MAX, UNMAP_BYTES_MAX, UNMAP_DESCRIPTORS_MAX};

/// The work of one command. A command that is refused does less.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Memory that its Data-In takes until the initiator has it, in bytes.
    pub data_in: u64,
    /// Bytes that are read from the medium.
    pub read: u64,
    /// Bytes that are written to the medium.
    pub written: u64,
    /// Bytes whose place in the map changes or is looked up, while their data stays where it is.
    pub mapped: u64,
    /// Descriptors, each of which is carried out by itself.
    pub operations: u64,
}

impl Work {
    /// All of it, in bytes read or written.
    pub const fn cost(self) -> u64 {
        let map = self.mapped / MAPPED_BYTES_PER_BYTE;
        self.read + self.written + map + self.operations * OPERATION_COST
    }
}

/// What one descriptor counts for, in bytes.
const OPERATION_COST: u64 = 4096;

/// What the work of a command is read from.
pub(crate) struct Asked<'a> {
    /// The blocks that its CDB names.
    pub(crate) extent: Extent,
    /// Length of a logical block of the unit, in bytes.
    pub(crate) block_bytes: u64,
    /// What came from the initiator.
    pub(crate) data_out: &'a [u8],
    /// Bytes that the initiator is ready to take.
    pub(crate) data_in_max: u64,
}

impl Asked<'_> {
    /// Bytes of the extent that the CDB names; none if that is more than any command may transfer.
    fn extent_bytes(&self) -> u64 {
        self.transfer(self.extent.blocks.0)
    }

    fn transfer(&self, blocks: u64) -> u64 {
        let bytes = blocks.saturating_mul(self.block_bytes);
        if bytes <= TRANSFER_BYTES_MAX { bytes } else { 0 }
    }

    fn sent(&self) -> u64 {
        self.data_out.len() as u64
    }

    /// Bytes that descriptors of 16 bytes name, each with an LBA and a number of blocks, from an
    /// offset of the parameter list on; and how many there are.
    fn ranges(&self, from: usize, most: usize) -> (u64, u64) {
        let descriptors = self.data_out.get(from..).unwrap_or_default().as_chunks::<16>().0;
        let blocks = descriptors.iter().take(most).map(|descriptor| {
            let [_, _, _, _, _, _, _, _, c0, c1, c2, c3, ..] = *descriptor;
            u64::from(u32::from_be_bytes([c0, c1, c2, c3]))
        });
        let bytes = blocks.sum::<u64>().saturating_mul(self.block_bytes);
        (bytes, descriptors.len().min(most) as u64)
    }
}

/// What the initiator takes of `length` bytes, in whole blocks: what does not fill the last one is
/// read and then cut off.
pub(crate) const fn clipped(length: u64, data_in_max: u64, block_bytes: u64) -> u64 {
    if data_in_max >= length {
        return length;
    }
    let whole = data_in_max.next_multiple_of(block_bytes);
    if whole < length { whole } else { length }
}

/// A command that answers with parameter data, or with none.
pub(crate) fn answers(asked: &Asked<'_>) -> Work {
    Work { data_in: asked.data_in_max.min(PARAMETER_DATA_BYTES_MAX), ..Work::default() }
}

/// Reads for the initiator, as much as it takes.
pub(crate) fn reads(asked: &Asked<'_>) -> Work {
    let read = clipped(asked.extent_bytes(), asked.data_in_max, asked.block_bytes);
    Work { data_in: read, read, ..Work::default() }
}

/// Writes what the initiator sent.
pub(crate) fn writes(asked: &Asked<'_>) -> Work {
    Work { written: asked.sent(), ..Work::default() }
}

/// Reads for itself.
pub(crate) fn verifies(asked: &Asked<'_>) -> Work {
    Work { read: asked.extent_bytes(), ..Work::default() }
}

/// Writes what the initiator sent, and reads as much.
pub(crate) fn writes_and_reads(asked: &Asked<'_>) -> Work {
    Work { read: asked.sent(), written: asked.sent(), ..Work::default() }
}

/// COMPARE AND WRITE: half of what came is compared, the other half written.
pub(crate) fn compares_and_writes(asked: &Asked<'_>) -> Work {
    let half = asked.sent() / 2;
    Work { read: half, written: half, ..Work::default() }
}

/// WRITE SAME: of zeros it changes the map only.
pub(crate) fn repeats(asked: &Asked<'_>) -> Work {
    let bytes = asked.extent_bytes();
    if asked.data_out.iter().all(|&byte| byte == 0) {
        Work { mapped: bytes, ..Work::default() }
    } else {
        Work { written: bytes, ..Work::default() }
    }
}

/// UNMAP.
pub(crate) fn unmaps(asked: &Asked<'_>) -> Work {
    let (mapped, operations) = asked.ranges(8, UNMAP_DESCRIPTORS_MAX);
    // More is refused.
    Work { mapped: mapped.min(UNMAP_BYTES_MAX), operations, ..Work::default() }
}

/// POPULATE TOKEN.
pub(crate) fn populates(asked: &Asked<'_>) -> Work {
    let (mapped, operations) = asked.ranges(16, TOKEN_RANGES_MAX);
    Work { mapped, operations, ..Work::default() }
}

/// WRITE USING TOKEN.
pub(crate) fn uses_token(asked: &Asked<'_>) -> Work {
    let (mapped, operations) = asked.ranges(536, TOKEN_RANGES_MAX);
    Work { mapped, operations, ..Work::default() }
}

/// EXTENDED COPY: what its descriptors come to, when it is carried out by reference. Bytes that it
/// has to move are only known when it runs, request by request.
pub(crate) fn copies(asked: &Asked<'_>) -> Work {
    const SEGMENT_BYTES: usize = 28;
    let most = (asked.data_out.len() / SEGMENT_BYTES).min(SEGMENT_DESCRIPTORS_MAX);
    Work { operations: most as u64, ..Work::default() }
}

/// GET LBA STATUS: what it looks through is known when it runs.
pub(crate) fn looks_up(asked: &Asked<'_>) -> Work {
    Work { operations: 1, ..answers(asked) }
}

#[cfg(test)]
mod tests;
