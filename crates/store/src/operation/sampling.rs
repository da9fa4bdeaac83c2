//! Samples checksums of data that hosts read and write, for the detection of copies that a host
//! makes itself. The checksums of whole blocks are known anyway; only a request that does not begin
//! at a block boundary has its own computed.

use block::{BLOCK, ByteRange, Request, RequestStatistics, Sample};

use super::{OperationKey, Work};
use crate::checksum::crc32c;
use crate::serving::Serving;

impl Serving {
    /// Tells of data that is to be written where no block starts.
    pub(super) fn sample_write(&mut self, key: OperationKey) {
        let operation = &mut self.requests.table[key];
        if let Work::Request(Request::Write { range, data }) = &operation.work
            && self.engine.pool.options.sampling
            && !range.offset.is_multiple_of(BLOCK)
        {
            sample(&mut operation.statistics, range.offset, windows(data));
        }
    }

    /// Tells of data that was read, and how much of it was none.
    pub(super) fn sample_read(&mut self, key: OperationKey, range: ByteRange) {
        if !self.engine.pool.options.sampling {
            return;
        }
        let operation = &mut self.requests.table[key];
        let Some(read) = operation.reads.first() else { return };
        if range.is_aligned(BLOCK) {
            let mut holes = range.length;
            for (block, crcs) in read.checksums() {
                sample(&mut operation.statistics, block.offset(), crcs.iter().copied());
                holes -= crcs.len() as u64 * BLOCK;
            }
            operation.statistics.hole_bytes = holes;
        } else {
            let skip = (range.offset % BLOCK) as usize;
            let data = read.rope().slice(skip, range.length as usize).to_vec();
            sample(&mut operation.statistics, range.offset, windows(&data));
        }
    }
}

/// Checksums of the data by 4 KiB from its start.
fn windows(data: &[u8]) -> impl Iterator<Item = u32> {
    data.as_chunks::<{ BLOCK as usize }>().0.iter().map(|window| crc32c(window))
}

/// Tells of 4 KiB each from `start`, as far as they are sampled.
pub(super) fn sample(
    statistics: &mut RequestStatistics,
    offset: u64,
    crcs: impl Iterator<Item = u32>,
) {
    let sampled = crcs.enumerate().filter(|&(_, crc)| Sample::includes(crc));
    let samples = sampled.map(|(at, crc)| Sample { offset: offset + at as u64 * BLOCK, crc });
    statistics.samples.extend(samples);
}
