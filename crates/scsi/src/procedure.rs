//! Multi-step commands: those that need several requests, some of them at the same time.

use std::collections::VecDeque;
use std::time::Duration;

use block::{BlockError, ByteRange, LogicalBlockLength, Request, Response, Rope, VolumeId};

use crate::completion::Completion;
use crate::copy_operations::CopyProgress;
use crate::device_server::Written;
use crate::limits::REQUESTS_PER_COMMAND_MAX;
use crate::unit::Sanitize;

/// Names one of the requests of a procedure that are under way together.
pub(crate) type RequestIndex = u16;

/// What the engine says of one request of a procedure.
pub(crate) struct Answer {
    pub(crate) index: RequestIndex,
    pub(crate) result: Result<Response, BlockError>,
}

/// A command under way.
pub(crate) trait Procedure: Send {
    /// The next step; `answer` is that to one of the requests made before, `None` at the start.
    fn advance(&mut self, answer: Option<Answer>) -> ProcedureStep;

    /// Takes the answer to a request when the command was aborted meanwhile.
    fn answered_after_abort(&mut self, _answer: Answer) {}

    /// The volumes that an EXTENDED COPY changes; `None` for other commands, which keep to the unit
    /// that they are addressed to.
    fn destinations(&self) -> Option<Vec<VolumeId>> {
        None
    }

    /// How far a third-party copy is, for RECEIVE COPY STATUS.
    fn copy_progress(&self) -> Option<CopyProgress> {
        None
    }

    /// What a SANITIZE makes of its unit; `None` for other commands.
    fn sanitize(&self) -> Option<Sanitize> {
        None
    }

    /// Told when time passes, if it works at a pace: what more is to be done now.
    fn tick(&mut self, _now: Duration) -> Vec<(RequestIndex, VolumeId, Request)> {
        Vec::new()
    }

    /// Whether it works at a pace, so that it may wait for nothing but time.
    fn is_paced(&self) -> bool {
        false
    }

    /// Something that the operator should know, told once.
    fn remark(&mut self) -> Option<Remark> {
        None
    }

    /// Whether the command ends with GOOD at once while its work goes on (IMMED).
    fn runs_in_background(&self) -> bool {
        false
    }
}

/// What a command finds that the operator should know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Remark {
    /// A COMPARE AND WRITE was done.
    Applied(Written),
    /// A COMPARE AND WRITE found another content than it expected.
    Miscompared,
    /// The same, but it found what it would have written: perhaps a retry of a command whose answer
    /// was lost.
    SameFound(Written),
}

/// What a procedure wants.
pub(crate) enum ProcedureStep {
    /// A request under index 0, to be answered.
    Request(VolumeId, Request),
    /// Requests, each under an index that is free; none if it waits for the answers to earlier ones, or
    /// for time to pass.
    Requests(Vec<(RequestIndex, VolumeId, Request)>),
    /// Nothing more. No request is under way.
    Done(Completion),
}

/// Cuts a range at multiples of `slice`.
pub(crate) fn slices(range: ByteRange, slice: u64) -> impl Iterator<Item = ByteRange> {
    let mut offset = range.offset;
    std::iter::from_fn(move || {
        if offset >= range.end() {
            return None;
        }
        let end = ((offset / slice + 1) * slice).min(range.end());
        let part = ByteRange::new(offset, end - offset);
        offset = end;
        Some(part)
    })
}

/// Requests on one volume that may run beside each other. The first failure ends the command.
/// Read data is put together in the order of the requests.
pub(crate) struct Sequence {
    volume: VolumeId,
    block_length: LogicalBlockLength,
    requests: VecDeque<Request>,
    /// The next request's place; indices are places.
    next: RequestIndex,
    in_flight: usize,
    /// Data read, by place.
    data_in: Vec<Rope>,
    /// The failure with the lowest place.
    failure: Option<(RequestIndex, BlockError)>,
}

impl Sequence {
    pub(crate) fn new(
        volume: VolumeId,
        block_length: LogicalBlockLength,
        requests: impl IntoIterator<Item = Request>,
    ) -> Box<Self> {
        let requests: VecDeque<_> = requests.into_iter().collect();
        let data_in = vec![Rope::new(); requests.len()];
        let (next, in_flight, failure) = (0, 0, None);
        Box::new(Self { volume, block_length, requests, next, in_flight, data_in, failure })
    }

    fn take(&mut self, Answer { index, result }: Answer) {
        self.in_flight -= 1;
        match result {
            Ok(Response::Data(data)) => self.data_in[usize::from(index)] = data,
            Ok(_) => {}
            Err(error) if self.failure.is_none_or(|(earlier, _)| index < earlier) => {
                self.failure = Some((index, error));
            }
            Err(_) => {}
        }
    }

    fn more(&mut self) -> Vec<(RequestIndex, VolumeId, Request)> {
        let mut more = Vec::new();
        while self.failure.is_none() && self.in_flight < REQUESTS_PER_COMMAND_MAX {
            let Some(request) = self.requests.pop_front() else { break };
            more.push((self.next, self.volume, request));
            self.next += 1;
            self.in_flight += 1;
        }
        more
    }

    fn completion(&mut self) -> Completion {
        if let Some((_, error)) = self.failure {
            return Completion::from_block_error(error, self.block_length);
        }
        let mut whole = Rope::new();
        self.data_in.drain(..).for_each(|part| whole.append(part));
        Completion::good(whole)
    }
}

impl Procedure for Sequence {
    fn advance(&mut self, answer: Option<Answer>) -> ProcedureStep {
        if let Some(answer) = answer {
            self.take(answer);
        }
        let more = self.more();
        if self.in_flight == 0 {
            ProcedureStep::Done(self.completion())
        } else {
            ProcedureStep::Requests(more)
        }
    }
}
