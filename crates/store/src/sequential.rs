//! Sequential-read detector: finds readers with queue depth 1 and prefetches for them. A reader
//! counts if each request begins where the last one ended and came after that was answered. A host
//! with several requests outstanding prefetches by itself and gets no help.

use block::VolumeId;

use crate::address::{BlockRange, VolumeBlock};
use crate::limits::{AHEAD_BLOCKS_MAX, AHEAD_BLOCKS_MIN, STREAMS_MAX};
use crate::operation_key::OperationKey;

/// Requests one after the other that make a stream.
const REQUESTS_MIN: u32 = 3;

/// The streams of a pool, the one that rested longest first.
#[derive(Default)]
pub(crate) struct SequentialDetector {
    streams: Vec<Stream>,
}

struct Stream {
    volume: VolumeId,
    /// The block after the last request.
    next: VolumeBlock,
    requests: u32,
    /// End of the prefetched range.
    ahead: VolumeBlock,
    /// Blocks that are read ahead next.
    window: u64,
    /// The last request.
    operation: OperationKey,
}

impl SequentialDetector {
    /// Takes notice of a request for blocks of a volume; returns those that are to be read ahead.
    pub(crate) fn follow(
        &mut self,
        volume: VolumeId,
        range: BlockRange,
        operation: OperationKey,
        is_under_way: impl Fn(OperationKey) -> bool,
    ) -> BlockRange {
        let (start, end) = (range.first, range.end());
        let nothing = BlockRange { first: end, count: 0 };
        let is_next = |stream: &Stream| stream.volume == volume && stream.next == start;
        let Some(at) = self.streams.iter().rposition(is_next) else {
            if self.streams.len() == STREAMS_MAX {
                self.streams.remove(0);
            }
            let (requests, window) = (1, AHEAD_BLOCKS_MIN);
            self.streams.push(Stream {
                volume,
                next: end,
                requests,
                ahead: end,
                window,
                operation,
            });
            return nothing;
        };
        self.streams[at..].rotate_left(1);
        let stream = self.streams.last_mut().expect("it is there");
        let waits = !is_under_way(stream.operation);
        (stream.next, stream.operation) = (end, operation);
        stream.requests = if waits { stream.requests.saturating_add(1) } else { 1 };
        stream.ahead = stream.ahead.max(end);
        if stream.requests < REQUESTS_MIN || stream.ahead - end >= stream.window / 2 {
            return nothing;
        }
        let from = std::mem::replace(&mut stream.ahead, end + stream.window);
        stream.window = (stream.window * 2).min(AHEAD_BLOCKS_MAX);
        BlockRange::between(from, stream.ahead)
    }
}

#[cfg(test)]
mod tests;
