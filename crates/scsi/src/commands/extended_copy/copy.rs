//! The copying itself: slices, by reference where the pool can, else by reading and writing.

use std::collections::VecDeque;

use block::{
    BlockError, ByteRange, LogicalBlockLength, Pattern, Request, Response, Rope, VolumeId,
};
use bytes::Bytes;

use crate::commands::CopyResult;
use crate::completion::Completion;
use crate::limits::{COPY_SLICE_BYTES, SLICE_BYTES};
use crate::procedure::{Procedure, Step};

/// Bytes to copy from one volume to another, or within one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) source: VolumeId,
    pub(super) source_offset: u64,
    pub(super) destination: VolumeId,
    pub(super) destination_offset: u64,
    pub(super) length: u64,
}

impl Span {
    /// Cuts the span into slices, in the order in which they can be copied one after the other as
    /// if the source had been read completely first.
    fn slices(self, slice_bytes: u64) -> Vec<Self> {
        let mut slices = Vec::new();
        let mut done = 0;
        while done < self.length {
            let start = self.destination_offset + done;
            let end = start / SLICE_BYTES * SLICE_BYTES + slice_bytes;
            let length = (end - start).min(self.length - done);
            slices.push(Self {
                source_offset: self.source_offset + done,
                destination_offset: start,
                length,
                ..self
            });
            done += length;
        }
        if self.source == self.destination && self.destination_offset > self.source_offset {
            slices.reverse();
        }
        slices
    }
}

/// How the slice at the head of the queue is being copied.
enum Phase {
    /// The pool does it.
    Reference,
    /// The source is being read.
    Read,
    /// The destination is being written.
    Write,
}

/// An EXTENDED COPY under way.
pub(super) struct Copy {
    slices: VecDeque<Span>,
    phase: Phase,
    /// LIST IDENTIFIER under which the outcome is held.
    held_as: Option<u8>,
    block_length: LogicalBlockLength,
    segments: u16,
    copied_bytes: u64,
    failed: bool,
}

impl Copy {
    pub(super) fn new(
        spans: Vec<Span>,
        held_as: Option<u8>,
        block_length: LogicalBlockLength,
    ) -> Self {
        Self {
            segments: spans.len() as u16,
            slices: spans.into_iter().flat_map(|span| span.slices(COPY_SLICE_BYTES)).collect(),
            phase: Phase::Reference,
            held_as,
            block_length,
            copied_bytes: 0,
            failed: false,
        }
    }

    /// Begins to copy the slice at the head of the queue.
    fn begin(&mut self) -> Step {
        let Some(slice) = self.slices.front() else {
            return Step::Done(Completion::good(Rope::new()));
        };
        if let Phase::Reference = self.phase {
            let request = Request::Copy {
                source: slice.source,
                source_offset: slice.source_offset,
                destination: slice.destination_offset,
                length: slice.length,
            };
            return Step::Request(slice.destination, request);
        }
        self.phase = Phase::Read;
        let range = ByteRange::new(slice.source_offset, slice.length);
        Step::Request(slice.source, Request::Read { range })
    }

    /// The pools differ: this slice and those between the same two volumes are read and written.
    fn fall_back(&mut self) -> Step {
        let slice = self.slices.pop_front().expect("a slice was being copied");
        for part in slice.slices(SLICE_BYTES).into_iter().rev() {
            self.slices.push_front(part);
        }
        self.phase = Phase::Read;
        self.begin()
    }

    fn write(&mut self, data: &Rope) -> Step {
        self.phase = Phase::Write;
        let slice = self.slices[0];
        let range = ByteRange::new(slice.destination_offset, slice.length);
        let is_zero = |piece: &Bytes| piece.iter().all(|&byte| byte == 0);
        // A hole stays one.
        let request = if data.pieces().iter().all(is_zero) {
            Request::WriteSame { range, pattern: Pattern::Zero }
        } else {
            Request::Write { range, data: contiguous(data) }
        };
        Step::Request(slice.destination, request)
    }

    fn slice_done(&mut self) -> Step {
        let slice = self.slices.pop_front().expect("a slice was being copied");
        self.copied_bytes += slice.length;
        let next = self.slices.front();
        let same_volumes = next.is_some_and(|next| {
            next.source == slice.source && next.destination == slice.destination
        });
        if !same_volumes {
            self.phase = Phase::Reference;
        }
        self.begin()
    }

    fn fail(&mut self, error: BlockError) -> Step {
        self.failed = true;
        Step::Done(Completion::from_copy_error(error, self.block_length))
    }
}

impl Procedure for Copy {
    fn advance(&mut self, answer: Option<Result<Response, BlockError>>) -> Step {
        match answer {
            None => self.begin(),
            Some(Ok(Response::Data(data))) => self.write(&data),
            Some(Ok(_)) => self.slice_done(),
            Some(Err(BlockError::DifferentPool)) => self.fall_back(),
            Some(Err(error)) => self.fail(error),
        }
    }

    fn destinations(&self) -> Option<Vec<VolumeId>> {
        let mut destinations: Vec<_> = self.slices.iter().map(|slice| slice.destination).collect();
        destinations.dedup();
        Some(destinations)
    }

    fn copy_result(&self) -> Option<CopyResult> {
        Some(CopyResult {
            list_id: self.held_as?,
            failed: self.failed,
            segments: if self.failed { 0 } else { self.segments },
            copied_bytes: self.copied_bytes,
        })
    }
}

fn contiguous(data: &Rope) -> Bytes {
    match data.pieces() {
        [piece] => piece.clone(),
        _ => Bytes::from(data.to_vec()),
    }
}
