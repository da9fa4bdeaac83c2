//! Commands that need several requests, one after the other.

use std::collections::VecDeque;

use block::{BlockError, ByteRange, LogicalBlockLength, Request, Response, Rope, VolumeId};

use crate::commands::CopyResult;
use crate::completion::Completion;

/// A command under way. Requests are made one at a time.
pub(crate) trait Procedure: Send {
    /// The next step; `answer` is that to the request of the step before, `None` at the start.
    fn advance(&mut self, answer: Option<Result<Response, BlockError>>) -> Step;

    /// The volumes that an EXTENDED COPY changes; `None` for other commands, which keep to the unit
    /// that they are addressed to.
    fn destinations(&self) -> Option<Vec<VolumeId>> {
        None
    }

    /// What is to be held for RECEIVE COPY RESULTS when the command has ended.
    fn copy_result(&self) -> Option<CopyResult> {
        None
    }
}

/// What a procedure wants.
pub(crate) enum Step {
    /// A request, to be answered.
    Request(VolumeId, Request),
    /// Nothing more.
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

/// Requests on one volume in order; the first failure ends the command. Read data is collected.
pub(crate) struct Sequence {
    volume: VolumeId,
    block_length: LogicalBlockLength,
    requests: VecDeque<Request>,
    data_in: Rope,
}

impl Sequence {
    pub(crate) fn new(
        volume: VolumeId,
        block_length: LogicalBlockLength,
        requests: impl IntoIterator<Item = Request>,
    ) -> Box<Self> {
        let requests = requests.into_iter().collect();
        Box::new(Self { volume, block_length, requests, data_in: Rope::new() })
    }
}

impl Procedure for Sequence {
    fn advance(&mut self, answer: Option<Result<Response, BlockError>>) -> Step {
        match answer {
            Some(Err(error)) => {
                return Step::Done(Completion::from_block_error(error, self.block_length));
            }
            Some(Ok(Response::Data(data))) => self.data_in.append(data),
            Some(Ok(_)) | None => {}
        }
        match self.requests.pop_front() {
            Some(request) => Step::Request(self.volume, request),
            None => Step::Done(Completion::good(std::mem::take(&mut self.data_in))),
        }
    }
}
