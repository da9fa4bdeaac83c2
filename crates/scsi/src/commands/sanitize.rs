//! SANITIZE (SBC-4 4.11, 5.30): overwrite, block erase, exit failure mode. There is no
//! cryptographic erase.
//!
//! The engine writes nothing in place, so that what is promised is that no command can read the old
//! content any more; the space itself returns to the pool. An overwrite works at a pace.

use std::collections::VecDeque;
use std::time::Duration;

use block::{BlockError, ByteRange, LogicalBlockLength, Pattern, Request, Rope, VolumeId};
use bytes::Bytes;

use crate::command::{Action, Execution};
use crate::completion::Completion;
use crate::limits::{
    REQUESTS_PER_COMMAND_MAX, SANITIZE_BYTES_PER_SECOND, SLICE_BYTES, ZERO_SLICE_BYTES,
};
use crate::procedure::{Answer, Procedure, ProcedureStep, RequestIndex, slices};
use crate::sense::{self, Sense};
use crate::unit::Sanitize;

const IMMED: u8 = 7;
const AUSE: u8 = 5;

/// Time that counts between two ticks.
const PACE_PERIOD_MAX: Duration = Duration::from_secs(1);

/// Bytes before the pattern of an OVERWRITE.
const HEADER_BYTES: usize = 4;

/// SANITIZE, BLOCK ERASE: every block reads as zeros, and occupies nothing.
pub(super) fn block_erase(execution: &mut Execution<'_>) -> Result<Action, Completion> {
    require_no_parameter_list(execution)?;
    begin(execution, vec![Pass::Erase])
}

/// SANITIZE, OVERWRITE: every block holds the pattern.
pub(super) fn overwrite(execution: &mut Execution<'_>) -> Result<Action, Completion> {
    let block_bytes = execution.unit()?.block_bytes() as usize;
    let length = usize::from(execution.cdb.u16(7));
    // SBC-4 5.30.2.2: a header and a pattern of one byte to one logical block.
    if length <= HEADER_BYTES || length > HEADER_BYTES + block_bytes {
        return Err(Sense::invalid_cdb_field(7).into());
    }
    let Some(list) = execution.data_out.get(..length) else {
        return Err(Sense::from(sense::PARAMETER_LIST_LENGTH_ERROR).into());
    };
    let passes = parse_passes(list, block_bytes)?;
    begin(execution, passes)
}

/// SANITIZE, EXIT FAILURE MODE.
pub(super) fn exit_failure_mode(execution: &mut Execution<'_>) -> Result<Action, Completion> {
    require_no_parameter_list(execution)?;
    let unit = execution.unit_mut()?;
    if unit.sanitize == (Sanitize::Failed { exit_allowed: false }) {
        return Err(Sense::invalid_cdb_bit(1, 4).into());
    }
    unit.sanitize = Sanitize::None;
    Ok(Action::good())
}

fn require_no_parameter_list(execution: &Execution<'_>) -> Result<(), Completion> {
    if execution.cdb.u16(7) != 0 {
        return Err(Sense::invalid_cdb_field(7).into());
    }
    Ok(())
}

/// Once over the whole volume.
#[derive(Clone, Debug)]
enum Pass {
    Erase,
    Write(Pattern),
}

fn parse_passes(list: &[u8], block_bytes: usize) -> Result<Vec<Pass>, Completion> {
    const INVERT: u8 = 0x80;
    const TEST: u8 = 0x60;
    const OVERWRITE_COUNT: u8 = 0x1f;
    let invalid =
        |byte| Sense::in_parameter_list(sense::INVALID_FIELD_IN_PARAMETER_LIST, byte).into();
    let count = list[0] & OVERWRITE_COUNT;
    // TEST asks for something vendor specific, of which there is nothing.
    if list[0] & TEST != 0 || count == 0 {
        return Err(invalid(0));
    }
    let length = usize::from(u16::from_be_bytes([list[2], list[3]]));
    let pattern = &list[HEADER_BYTES..];
    if length == 0 || length != pattern.len() {
        return Err(invalid(2));
    }
    let block: Vec<u8> = pattern.iter().copied().cycle().take(block_bytes).collect();
    let inverted: Vec<u8> = block.iter().map(|byte| !byte).collect();
    let invert = list[0] & INVERT != 0;
    let passes = (0..count).map(|pass| {
        let block = if invert && pass % 2 == 1 { &inverted } else { &block };
        Pass::Write(if block.iter().all(|&byte| byte == 0) {
            Pattern::Zero
        } else {
            Pattern::Block(Bytes::copy_from_slice(block))
        })
    });
    Ok(passes.collect())
}

fn begin(execution: &mut Execution<'_>, passes: Vec<Pass>) -> Result<Action, Completion> {
    let exit_allowed = execution.cdb.bit(1, AUSE);
    let in_background = execution.cdb.bit(1, IMMED);
    let volume = execution.volume.expect("a command with a unit has a volume");
    let unit = execution.unit_mut()?;
    // SBC-4 4.11.3: a failure that must not be exited is mended only by one that says the same.
    if unit.sanitize == (Sanitize::Failed { exit_allowed: false }) && exit_allowed {
        return Err(Sense::invalid_cdb_bit(1, AUSE).into());
    }
    unit.sanitize = Sanitize::InProgress(0);
    let range = ByteRange::new(0, unit.blocks() * unit.block_bytes());
    let block_length = unit.spec.block_length;
    // ROD tokens hold what the unit held.
    execution.tokens.end_all_of(volume);
    let total = passes.iter().map(|pass| range.length.div_ceil(pass.slice_bytes())).sum();
    Ok(Action::Procedure(Box::new(Sanitizing {
        volume,
        block_length,
        range,
        passes: passes.into(),
        reached: 0,
        credit: 0,
        last_tick: None,
        free: (0..REQUESTS_PER_COMMAND_MAX as RequestIndex).collect(),
        done: 0,
        total,
        failure: None,
        in_background,
        exit_allowed,
    })))
}

impl Pass {
    fn slice_bytes(&self) -> u64 {
        match self {
            Self::Erase | Self::Write(Pattern::Zero) => ZERO_SLICE_BYTES,
            Self::Write(Pattern::Block(_)) => SLICE_BYTES,
        }
    }

    fn request(&self, range: ByteRange) -> Request {
        match self {
            Self::Erase => Request::Unmap { ranges: vec![range] },
            Self::Write(pattern) => Request::WriteSame { range, pattern: pattern.clone() },
        }
    }
}

/// A SANITIZE under way.
struct Sanitizing {
    volume: VolumeId,
    block_length: LogicalBlockLength,
    range: ByteRange,
    /// Passes that have not ended.
    passes: VecDeque<Pass>,
    /// First byte that the first of them has not reached.
    reached: u64,
    free: Vec<RequestIndex>,
    /// Bytes that may be overwritten before more time passes.
    credit: u64,
    last_tick: Option<Duration>,
    /// Requests that were answered, of all.
    done: u64,
    total: u64,
    failure: Option<BlockError>,
    in_background: bool,
    exit_allowed: bool,
}

impl Sanitizing {
    fn is_idle(&self) -> bool {
        self.free.len() == REQUESTS_PER_COMMAND_MAX
    }

    /// Whether nothing is left to do, or nothing can be done any more.
    fn is_over(&self) -> bool {
        let all_done = self.reached == self.range.end() && self.passes.len() <= 1;
        self.is_idle() && (all_done || self.failure.is_some())
    }

    /// Goes on to the next pass, when all of the one before is done.
    fn turn(&mut self) {
        if self.reached == self.range.end() && self.is_idle() && self.passes.len() > 1 {
            self.passes.pop_front();
            self.reached = 0;
        }
    }

    /// The next request of this pass.
    fn next(&mut self) -> Option<Request> {
        let pass = self.passes.front()?;
        let rest = ByteRange::new(self.reached, self.range.end() - self.reached);
        let part = slices(rest, pass.slice_bytes()).next()?;
        if matches!(pass, Pass::Write(_)) {
            self.credit = self.credit.checked_sub(part.length)?;
        }
        self.reached = part.end();
        Some(pass.request(part))
    }

    fn more(&mut self) -> Vec<(RequestIndex, VolumeId, Request)> {
        let mut more = Vec::new();
        while self.failure.is_none()
            && let Some(index) = self.free.last().copied()
            && let Some(request) = self.next()
        {
            self.free.pop();
            more.push((index, self.volume, request));
        }
        more
    }
}

impl Procedure for Sanitizing {
    fn advance(&mut self, answer: Option<Answer>) -> ProcedureStep {
        if let Some(Answer { index, result }) = answer {
            self.free.push(index);
            self.done += 1;
            if let Err(error) = result {
                self.failure.get_or_insert(error);
            }
        }
        self.turn();
        let more = self.more();
        match self.failure {
            _ if !self.is_over() => ProcedureStep::Requests(more),
            None => ProcedureStep::Done(Completion::good(Rope::new())),
            Some(BlockError::OutOfSpace) => {
                let error = BlockError::OutOfSpace;
                ProcedureStep::Done(Completion::from_block_error(error, self.block_length))
            }
            Some(_) => ProcedureStep::Done(Sense::from(sense::SANITIZE_COMMAND_FAILED).into()),
        }
    }

    fn sanitize(&self) -> Option<Sanitize> {
        Some(match self.failure {
            _ if !self.is_over() => {
                Sanitize::InProgress((self.done * 65_535 / self.total.max(1)) as u16)
            }
            None => Sanitize::None,
            Some(_) => Sanitize::Failed { exit_allowed: self.exit_allowed },
        })
    }

    fn tick(&mut self, now: Duration) -> Vec<(RequestIndex, VolumeId, Request)> {
        let elapsed = now.saturating_sub(self.last_tick.unwrap_or(now)).min(PACE_PERIOD_MAX);
        self.last_tick = Some(now);
        let more = u128::from(SANITIZE_BYTES_PER_SECOND) * elapsed.as_millis() / 1000;
        self.credit = (self.credit + more as u64).min(SANITIZE_BYTES_PER_SECOND);
        self.more()
    }

    fn is_paced(&self) -> bool {
        true
    }

    fn runs_in_background(&self) -> bool {
        self.in_background
    }
}
