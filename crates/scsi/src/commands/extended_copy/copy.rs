//! Copy engine of EXTENDED COPY: works in slices, by reference where the pool can, else by reading
//! and writing.

use std::collections::VecDeque;

use block::{
    BlockError, ByteRange, LogicalBlockLength, Pattern, Request, Response, Rope, VolumeId,
};
use bytes::Bytes;

use super::span::{Span, Work};
use crate::completion::{Completion, Status};
use crate::copy_operations::CopyProgress;
use crate::limits::{
    BYTE_COPY_ATTEMPTS_MAX, COPY_SLICE_BYTES, FAR_COPY_SLICES_MAX, REQUESTS_PER_COMMAND_MAX,
    SLICE_BYTES,
};
use crate::procedure::{Answer, Procedure, ProcedureStep, RequestIndex};
use crate::rod_tokens::RodTokenUse;

/// What a third-party copy is to do.
pub(in crate::commands) struct Plan {
    /// Its parts in order, each with the number of its segment.
    pub(in crate::commands) work: Vec<(u16, Work)>,
    /// Number of segments, those without work too.
    pub(in crate::commands) segments: u16,
    /// SERVICE ACTION of the command.
    pub(in crate::commands) service_action: u8,
    /// LIST IDENTIFIER, if the copy has a name.
    pub(in crate::commands) list_id: Option<u32>,
    /// IMMED.
    pub(in crate::commands) in_background: bool,
    /// Of the unit that the command was sent to.
    pub(in crate::commands) block_length: LogicalBlockLength,
    /// What it does with a token.
    pub(in crate::commands) token: Option<RodTokenUse>,
}

/// Work of one segment.
#[derive(Clone, Copy)]
struct Slice {
    segment: u16,
    work: Work,
}

/// How a slice is being copied.
enum Phase {
    /// The engine does it.
    Reference,
    /// The source is being read, to be written as it is.
    Read,
    /// The destination is being written.
    Write,
    /// The source of bytes is being read.
    ReadBytes,
    /// The sectors around the bytes' destination are being read.
    ReadAround { bytes: Bytes, attempts: u32 },
    /// They are being replaced, if they are still what was read.
    Replace { bytes: Bytes, attempts: u32 },
}

/// A third-party copy under way.
pub(in crate::commands) struct Copy {
    queue: VecDeque<Slice>,
    running: [Option<(Slice, Phase)>; REQUESTS_PER_COMMAND_MAX],
    /// Source and destination that are in different pools.
    far: Vec<(VolumeId, VolumeId)>,
    destinations: Vec<VolumeId>,
    segments: u16,
    progress: CopyProgress,
    block_length: LogicalBlockLength,
    /// The first failure.
    failure: Option<Completion>,
}

impl Copy {
    pub(in crate::commands) fn new(plan: Plan) -> Self {
        let mut destinations: Vec<_> =
            plan.work.iter().map(|(_, work)| work.destination()).collect();
        destinations.sort();
        destinations.dedup();
        let sliced = |(segment, work): (u16, Work)| {
            let slices = work.slices(COPY_SLICE_BYTES);
            slices.into_iter().map(move |work| Slice { segment, work })
        };
        Self {
            queue: plan.work.into_iter().flat_map(sliced).collect(),
            running: [const { None }; REQUESTS_PER_COMMAND_MAX],
            far: Vec::new(),
            destinations,
            segments: plan.segments,
            progress: CopyProgress {
                service_action: plan.service_action,
                list_id: plan.list_id,
                in_background: plan.in_background,
                segments: 0,
                bytes: 0,
                operations: 0,
                token: plan.token,
            },
            block_length: plan.block_length,
            failure: None,
        }
    }

    fn running(&self) -> impl Iterator<Item = &(Slice, Phase)> {
        self.running.iter().flatten()
    }

    /// Whether the slice at the head of the queue may run beside those that run.
    fn may_start(&self, slice: &Slice) -> bool {
        self.running().all(|(earlier, _)| !slice.work.must_follow(&earlier.work))
            && (!self.is_far(&slice.work) || self.running().count() < FAR_COPY_SLICES_MAX)
    }

    fn is_far(&self, work: &Work) -> bool {
        let Work::Copy(span) = work else { return false };
        self.far.contains(&(span.source, span.destination))
    }

    /// Begins slices, in order, as long as one may run beside the others.
    fn start(&mut self) -> Vec<(RequestIndex, VolumeId, Request)> {
        let mut requests = Vec::new();
        while let Some(index) = self.running.iter().position(Option::is_none)
            && self.failure.is_none()
            && let Some(slice) = self.queue.front().copied()
            && self.may_start(&slice)
        {
            self.queue.pop_front();
            if self.is_far(&slice.work) && slice.work.length() > SLICE_BYTES {
                self.requeue(slice);
                continue;
            }
            self.progress.segments = self.progress.segments.max(slice.segment + 1);
            let (phase, volume, request) = self.begin(&slice.work);
            self.running[index] = Some((slice, phase));
            requests.push((index as RequestIndex, volume, request));
        }
        requests
    }

    /// Puts a slice back at the head of the queue, in parts short enough to be read.
    fn requeue(&mut self, slice: Slice) {
        for work in slice.work.slices(SLICE_BYTES).into_iter().rev() {
            self.queue.push_front(Slice { work, ..slice });
        }
    }

    fn begin(&self, work: &Work) -> (Phase, VolumeId, Request) {
        let span = match work {
            Work::Zeros { destination, range } => {
                let request = Request::WriteSame { range: *range, pattern: Pattern::Zero };
                return (Phase::Write, *destination, request);
            }
            Work::Copy(span) => span,
        };
        let range = span.source_sectors();
        if !span.is_whole() {
            return (Phase::ReadBytes, span.source, Request::Read { range });
        }
        if self.is_far(work) {
            return (Phase::Read, span.source, Request::Read { range });
        }
        let request = Request::Copy {
            source: span.source,
            source_offset: span.source_offset,
            destination: span.destination_offset,
            length: span.length,
        };
        (Phase::Reference, span.destination, request)
    }

    /// Takes an answer; returns the next request of the same slice, if there is one.
    fn take(
        &mut self,
        Answer { index, result }: Answer,
    ) -> Option<(RequestIndex, VolumeId, Request)> {
        let running = self.running[usize::from(index)].take();
        let (slice, phase) = running.expect("a slice runs under the index of an answer");
        self.progress.operations = self.progress.operations.saturating_add(1);
        let (phase, volume, request) = match (result, slice.work) {
            (Err(BlockError::DifferentPool), Work::Copy(span)) => {
                if !self.is_far(&slice.work) {
                    self.far.push((span.source, span.destination));
                }
                self.requeue(slice);
                return None;
            }
            (Err(error), work) => self.retry(error, phase, work, slice.segment)?,
            (Ok(Response::Data(data)), Work::Copy(span)) => continue_with(&span, phase, &data),
            (Ok(_), work) => {
                self.progress.bytes += work.length();
                return None;
            }
        };
        // After a failure nothing more is written.
        if self.failure.is_some() {
            return None;
        }
        self.running[usize::from(index)] = Some((slice, phase));
        Some((index, volume, request))
    }

    /// Bytes beside those that are copied have changed meanwhile: once more. Any other error ends
    /// the copy.
    fn retry(
        &mut self,
        error: BlockError,
        phase: Phase,
        work: Work,
        segment: u16,
    ) -> Option<(Phase, VolumeId, Request)> {
        if let (BlockError::Miscompare { .. }, Phase::Replace { bytes, attempts }) = (error, phase)
            && let Work::Copy(span) = work
        {
            if attempts < BYTE_COPY_ATTEMPTS_MAX {
                return Some(read_around(&span, bytes, attempts + 1));
            }
            self.failure.get_or_insert(Status::Busy.into());
            return None;
        }
        let mut completion = Completion::from_copy_error(error, self.block_length);
        if let Some(sense) = &mut completion.sense {
            sense.command_specific = u32::from(segment) << 16;
        }
        self.failure.get_or_insert(completion);
        None
    }
}

/// The next request of a slice, when data was read for it.
fn continue_with(span: &Span, phase: Phase, data: &Rope) -> (Phase, VolumeId, Request) {
    match phase {
        Phase::ReadBytes => {
            let skip = (span.source_offset - span.source_sectors().offset) as usize;
            let bytes = contiguous(&data.slice(skip, span.length as usize));
            read_around(span, bytes, 0)
        }
        Phase::ReadAround { bytes, attempts } => {
            let range = span.destination_sectors();
            let skip = (span.destination_offset - range.offset) as usize;
            let mut whole = data.to_vec();
            whole[skip..skip + bytes.len()].copy_from_slice(&bytes);
            let (compare, write) = (contiguous(data), Bytes::from(whole));
            let request = Request::CompareAndWrite { range, compare, write };
            (Phase::Replace { bytes, attempts }, span.destination, request)
        }
        _ => {
            let range = ByteRange::new(span.destination_offset, span.length);
            let is_zero = |piece: &Bytes| piece.iter().all(|&byte| byte == 0);
            // A hole stays one.
            let request = if data.pieces().iter().all(is_zero) {
                Request::WriteSame { range, pattern: Pattern::Zero }
            } else {
                Request::Write { range, data: contiguous(data) }
            };
            (Phase::Write, span.destination, request)
        }
    }
}

fn read_around(span: &Span, bytes: Bytes, attempts: u32) -> (Phase, VolumeId, Request) {
    let range = span.destination_sectors();
    (Phase::ReadAround { bytes, attempts }, span.destination, Request::Read { range })
}

fn contiguous(data: &Rope) -> Bytes {
    match data.pieces() {
        [piece] => piece.clone(),
        _ => Bytes::from(data.to_vec()),
    }
}

impl Procedure for Copy {
    fn advance(&mut self, answer: Option<Answer>) -> ProcedureStep {
        let next = answer.and_then(|answer| self.take(answer));
        let mut requests = self.start();
        requests.extend(next);
        if self.running().next().is_some() {
            return ProcedureStep::Requests(requests);
        }
        match self.failure.take() {
            Some(completion) => ProcedureStep::Done(completion),
            None => {
                self.progress.segments = self.segments;
                ProcedureStep::Done(Completion::good(Rope::new()))
            }
        }
    }

    fn answered_after_abort(&mut self, answer: Answer) {
        self.failure.get_or_insert(Status::TaskAborted.into());
        let more = self.take(answer);
        debug_assert!(more.is_none(), "nothing more is written");
    }

    fn destinations(&self) -> Option<Vec<VolumeId>> {
        Some(self.destinations.clone())
    }

    fn copy_progress(&self) -> Option<CopyProgress> {
        Some(self.progress)
    }

    fn runs_in_background(&self) -> bool {
        self.progress.in_background
    }
}
