//! Resilvering: copies what a member lacks from a current one, region by region, while hosts go on.
//!
//! A state machine without I/O. It asks which blocks of a dirty extent are in use
//! ([`Resilver::wanted`], [`Resilver::used`]), and says what is to be read, written and flushed
//! ([`Resilver::next_step`]). The member takes every new write from the moment that it joined, so a
//! region is done when each block that was in use then was copied, and the copies were flushed. A copy
//! counts only if no write to its blocks was under way at any moment between its beginning and its
//! end; it begins when none is, and what a write overtook is copied again. So neither a copy nor a
//! write can leave an older content behind the newer one.

use std::collections::VecDeque;
use std::time::Duration;

use block::{BLOCK, Buffer, Rope};
use slab::Slab;

use super::extent::Extent;
use super::regions::{Division, RegionNumber, RegionSet};
use crate::limits::{
    RESILVER_BUSY_PAUSE, RESILVER_BUSY_SHARE, RESILVER_COPIES_MAX, RESILVER_COPY_BLOCKS,
    RESILVER_FLUSH_BYTES, RESILVER_QUIET, RESILVER_SPAN_BLOCKS, RESILVER_SPANS_MAX,
    RESILVER_UNREADABLE_MAX,
};
use crate::rate_limiter::RateLimiter;

/// Names a copy under way. Numbers are used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CopyId(usize);

/// What is done with blocks of the member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    /// They get the content that a current member has.
    Copy(Extent),
    /// They get zeros, unless they hold zeros: the part of the journal's ring that is not in use, where
    /// an earlier use of the device may have left what looks like a unit.
    Blank(Extent),
    /// Space is set aside for them, as it was on the other members.
    Reserve(Extent),
}

impl Piece {
    /// The blocks.
    pub(crate) fn extent(self) -> Extent {
        let (Self::Copy(extent) | Self::Blank(extent) | Self::Reserve(extent)) = self;
        extent
    }

    /// The same with other blocks.
    fn of(self, extent: Extent) -> Self {
        match self {
            Self::Copy(_) => Self::Copy(extent),
            Self::Blank(_) => Self::Blank(extent),
            Self::Reserve(_) => Self::Reserve(extent),
        }
    }

    /// The part of it in an extent.
    pub(crate) fn within(self, extent: Extent) -> Self {
        self.of(self.extent().common(extent))
    }

    /// Pieces of bounded length.
    fn parts(self) -> impl Iterator<Item = Self> {
        let most = match self {
            Self::Copy(_) | Self::Blank(_) => RESILVER_COPY_BLOCKS,
            Self::Reserve(_) => u64::MAX,
        };
        let mut rest = self.extent();
        std::iter::from_fn(move || {
            let (part, others) = rest.split(most);
            rest = others;
            (!part.is_empty()).then_some(self.of(part))
        })
    }
}

/// What is to be done next; the result is told to the method that is named.
#[derive(Debug)]
pub(crate) enum Step {
    /// A current member is read; [`Resilver::read`].
    ReadSource { copy: CopyId, extent: Extent },
    /// The member itself is read; [`Resilver::read`].
    ReadTarget { copy: CopyId, extent: Extent },
    /// The member is written; [`Resilver::wrote`].
    Write { copy: CopyId, extent: Extent, data: Rope },
    /// Space is set aside on the member; [`Resilver::wrote`].
    Reserve { copy: CopyId, extent: Extent },
    /// The member is flushed; [`Resilver::flushed`].
    Flush,
    /// Everything is copied and flushed. Said once.
    Complete,
}

/// How a resilver is doing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResilverStatus {
    /// The member that is resilvered.
    pub member: [u8; 16],
    /// Whether it rests because the administrator said so.
    pub paused: bool,
    /// Bytes that were copied since it began, or since the pool was opened.
    pub copied_bytes: u64,
    /// Bytes that are to be copied, about: those in use when it began, or when the pool was opened.
    pub total_bytes: u64,
    /// Blocks that no current member could read. They are lost on all members alike.
    pub unreadable_blocks: u64,
    /// How long it will take yet if it goes on as so far; `None` as long as nothing is known.
    pub remaining: Option<Duration>,
}

/// Dirty regions whose blocks are being copied.
struct Span {
    number: u64,
    /// Without those that became dirty again meanwhile.
    regions: Vec<usize>,
    /// Pieces of it that are queued or under way.
    pieces: usize,
}

/// A piece that waits for its turn.
struct Queued {
    span: u64,
    piece: Piece,
}

/// A piece under way.
struct Copy {
    span: u64,
    piece: Piece,
    /// Parts that were written to meanwhile.
    overtaken: Vec<Extent>,
}

/// A member's way to being current.
pub(crate) struct Resilver {
    division: Division,
    /// Regions that are still to be copied, without those in `spans` and behind them.
    todo: RegionSet,
    /// Regions whose blocks in use are being told.
    wanted: Option<std::ops::Range<usize>>,
    spans: VecDeque<Span>,
    span_count: u64,
    queue: VecDeque<Queued>,
    /// How many of them are [`Piece::Blank`].
    blanks: usize,
    copies: Slab<Copy>,
    /// Steps of copies under way.
    steps: VecDeque<Step>,
    /// Writes of others under way on this device.
    writes: Vec<Extent>,
    /// Regions that are copied; those for which a flush is under way.
    copied: Vec<usize>,
    flushing: Option<Vec<usize>>,
    unflushed_bytes: u64,
    /// Regions that are copied and flushed, for the mirror to take.
    clean: Vec<usize>,
    is_paused: bool,
    is_over: bool,
    rate: RateLimiter,
    share: HostShare,
    worked: Duration,
    is_estimated: bool,
    status: ResilverStatus,
}

impl Resilver {
    /// Copies these regions of a device at a rate of so many bytes per second at most. Writes that
    /// were under way to the other members when the member joined are told with
    /// [`Self::write_began`] before anything else.
    pub(crate) fn new(division: Division, todo: RegionSet, rate: u64) -> Self {
        Self {
            division,
            todo,
            wanted: None,
            spans: VecDeque::new(),
            span_count: 0,
            queue: VecDeque::new(),
            blanks: 0,
            copies: Slab::new(),
            steps: VecDeque::new(),
            writes: Vec::new(),
            copied: Vec::new(),
            flushing: None,
            unflushed_bytes: 0,
            clean: Vec::new(),
            is_paused: false,
            is_over: false,
            rate: RateLimiter::new(rate),
            share: HostShare::default(),
            worked: Duration::ZERO,
            is_estimated: false,
            status: ResilverStatus::default(),
        }
    }

    /// How the device was divided when it began: its regions are counted so.
    pub(crate) fn division(&self) -> Division {
        self.division
    }

    /// How it is doing.
    pub(crate) fn status(&self) -> ResilverStatus {
        let ResilverStatus { copied_bytes, total_bytes, .. } = self.status;
        let left = total_bytes.saturating_sub(copied_bytes);
        let per_byte = self.worked.as_secs_f64() / copied_bytes.max(1) as f64;
        let remaining = (copied_bytes > 0 && !self.worked.is_zero())
            .then(|| Duration::from_secs_f64(per_byte * left as f64));
        ResilverStatus { paused: self.is_paused, remaining, ..self.status }
    }

    /// Changes how many bytes per second it copies at most.
    pub(crate) fn set_rate(&mut self, rate: u64) {
        self.rate = RateLimiter::new(rate);
    }

    /// Begins no copy until it goes on; those under way come to their end.
    pub(crate) fn set_paused(&mut self, is_paused: bool) {
        self.is_paused = is_paused;
    }

    /// Time passes.
    pub(crate) fn pass(&mut self, time: Duration) {
        self.rate.pass(time);
        self.share.pass(time);
        if !self.is_paused && !self.is_over {
            self.worked += time;
        }
    }

    /// A host reads or writes so many bytes of the device.
    pub(crate) fn host_io(&mut self, bytes: u64) {
        self.share.host_io(bytes);
    }

    /// A write to all members begins: of a host, of the engine, or one that heals a member.
    pub(crate) fn write_began(&mut self, extent: Extent) {
        self.writes.push(extent);
        self.spare_from_blanking(extent);
        for (_, copy) in &mut self.copies {
            let part = copy.piece.extent().common(extent);
            let moves = !matches!(copy.piece, Piece::Reserve(_));
            if moves && !part.is_empty() && !copy.overtaken.contains(&part) {
                copy.overtaken.push(part);
            }
        }
    }

    /// What is written now of the unused part of the journal is in use, and is copied instead.
    fn spare_from_blanking(&mut self, extent: Extent) {
        while self.blanks > 0
            && let Some(at) = self
                .queue
                .iter()
                .position(|queued| matches!(queued.piece, Piece::Blank(of) if of.overlaps(extent)))
            && let Some(Queued { span, piece }) = self.queue.remove(at)
        {
            let of = piece.extent();
            let unused = of.without(extent).map(Piece::Blank);
            self.blanks -= 1;
            self.queue_pieces(span, [Piece::Copy(of.common(extent))].into_iter().chain(unused));
            self.piece_ended(span);
        }
    }

    /// Such a write has ended, on all members.
    pub(crate) fn write_ended(&mut self, extent: Extent) {
        if let Some(at) = self.writes.iter().position(|write| *write == extent) {
            self.writes.swap_remove(at);
        }
    }

    /// The member may lack something of these blocks after all.
    pub(crate) fn again(&mut self, extent: Extent) {
        let regions = self.division.touched(extent);
        let is_other = |region: &usize| !regions.contains(region);
        self.spans.iter_mut().for_each(|span| span.regions.retain(is_other));
        self.copied.retain(is_other);
        self.flushing.iter_mut().for_each(|flushing| flushing.retain(is_other));
        for region in regions.clone() {
            self.todo.insert(region);
        }
    }

    /// Blocks of which the engine is to say which are in use.
    pub(crate) fn wanted(&self) -> Option<Extent> {
        self.wanted.clone().map(|regions| self.division.extent(regions))
    }

    /// Whether it knows about how much it has to do.
    pub(crate) fn is_estimated(&self) -> bool {
        self.is_estimated
    }

    /// Adds up what is to be copied, unless that was done: `used` tells about how many bytes of an extent
    /// are in use.
    pub(crate) fn estimate(&mut self, used: impl Fn(Extent) -> u64) {
        if self.is_estimated {
            return;
        }
        self.is_estimated = true;
        let (mut from, most) = (0, self.division.regions_in(RESILVER_SPAN_BLOCKS));
        while let Some(run) = self.todo.next_run(RegionNumber(from), most - from % most) {
            from = run.end;
            self.status.total_bytes += used(self.division.extent(run));
        }
    }

    /// What of the extent that is [`Self::wanted`] is to be copied.
    pub(crate) fn used(&mut self, pieces: impl IntoIterator<Item = Piece>) {
        let Some(regions) = self.wanted.take() else { return };
        self.span_count += 1;
        let number = self.span_count;
        self.spans.push_back(Span { number, regions: regions.collect(), pieces: 0 });
        self.queue_pieces(number, pieces.into_iter().flat_map(Piece::parts));
        self.settle_spans();
    }

    /// Regions that are copied and flushed: the bits of the bitmap may be cleared, unless another
    /// member lacks something.
    pub(crate) fn take_clean(&mut self) -> Vec<usize> {
        std::mem::take(&mut self.clean)
    }

    /// What is to be done next; `None` until something ends or time passes.
    pub(crate) fn next_step(&mut self) -> Option<Step> {
        if let Some(step) = self.steps.pop_front() {
            return Some(step);
        }
        if self.is_over {
            return None;
        }
        if let Some(step) = self.next_flush() {
            return Some(step);
        }
        if self.is_paused || self.is_hopeless() {
            return None;
        }
        self.want_more();
        self.next_copy().or_else(|| self.complete())
    }

    fn want_more(&mut self) {
        if self.wanted.is_none() && self.queue.is_empty() && self.spans.len() < RESILVER_SPANS_MAX {
            let most = self.division.regions_in(RESILVER_SPAN_BLOCKS);
            self.wanted = self.todo.next_run(RegionNumber(0), most);
            for region in self.wanted.clone().into_iter().flatten() {
                self.todo.remove(region);
            }
        }
    }

    fn next_flush(&mut self) -> Option<Step> {
        let is_all = self.queue.is_empty()
            && self.copies.is_empty()
            && self.wanted.is_none()
            && (self.todo.is_empty() || self.is_paused);
        let is_due = self.unflushed_bytes >= RESILVER_FLUSH_BYTES || is_all;
        if !is_due || self.flushing.is_some() || self.copied.is_empty() {
            return None;
        }
        self.unflushed_bytes = 0;
        self.flushing = Some(std::mem::take(&mut self.copied));
        Some(Step::Flush)
    }

    fn next_copy(&mut self) -> Option<Step> {
        let most = if self.share.is_busy() { 1 } else { RESILVER_COPIES_MAX };
        if self.copies.len() >= most || self.rate.is_used_up() || !self.share.may_copy() {
            return None;
        }
        let at = self.queue.iter().take(RESILVER_COPIES_MAX).position(|queued| {
            let of = queued.piece.extent();
            let moves = !matches!(queued.piece, Piece::Reserve(_));
            !moves || !self.writes.iter().any(|write| write.overlaps(of))
        })?;
        let Queued { span, piece } = self.queue.remove(at)?;
        self.blanks -= usize::from(matches!(piece, Piece::Blank(_)));
        let copy = CopyId(self.copies.insert(Copy { span, piece, overtaken: Vec::new() }));
        let step = match piece {
            Piece::Reserve(extent) => return Some(Step::Reserve { copy, extent }),
            Piece::Copy(extent) => Step::ReadSource { copy, extent },
            Piece::Blank(extent) => Step::ReadTarget { copy, extent },
        };
        self.rate.spend(piece.extent().blocks * BLOCK);
        self.share.copies(piece.extent().blocks * BLOCK);
        Some(step)
    }

    fn complete(&mut self) -> Option<Step> {
        let is_complete = self.todo.is_empty()
            && self.wanted.is_none()
            && self.spans.is_empty()
            && self.copied.is_empty()
            && self.flushing.is_none();
        self.is_over = is_complete;
        is_complete.then_some(Step::Complete)
    }

    /// Whether so much cannot be read that the members which have it had better come to life again.
    fn is_hopeless(&self) -> bool {
        self.status.unreadable_blocks > RESILVER_UNREADABLE_MAX
    }

    /// Blocks of a copy were read, or no member could.
    pub(crate) fn read(&mut self, copy: CopyId, bytes: Option<Buffer>) {
        let Some(under_way) = self.copies.get(copy.0) else { return };
        match (under_way.piece, bytes) {
            (Piece::Copy(extent), Some(bytes)) => {
                self.status.copied_bytes += extent.blocks * BLOCK;
                self.unflushed_bytes += extent.blocks * BLOCK;
                let data = bytes.freeze().into();
                self.steps.push_back(Step::Write { copy, extent, data });
            }
            (Piece::Copy(extent), None) => self.unreadable(copy, extent),
            (Piece::Blank(_), Some(bytes)) if bytes.iter().all(|&byte| byte == 0) => {
                self.wrote(copy)
            }
            (Piece::Blank(extent), Some(_) | None) => {
                let data = Buffer::zeroed((extent.blocks * BLOCK) as usize).freeze().into();
                self.steps.push_back(Step::Write { copy, extent, data });
            }
            (Piece::Reserve(_), _) => {}
        }
    }

    /// Blocks that could not be read together are read one by one; one that cannot be read is left as
    /// it is on the member: whoever reads it finds that its checksum is wrong, as on the others.
    fn unreadable(&mut self, copy: CopyId, extent: Extent) {
        let Copy { span, overtaken, .. } = self.copies.remove(copy.0);
        if extent.blocks > 1 {
            let (first, second) = extent.split(extent.blocks / 2);
            self.queue_again(span, [first, second]);
        } else if overtaken.is_empty() {
            self.status.unreadable_blocks += 1;
        } else {
            self.queue_again(span, [extent]);
        }
        self.piece_ended(span);
    }

    /// Blocks of a copy were written.
    pub(crate) fn wrote(&mut self, copy: CopyId) {
        let Some(Copy { span, overtaken, .. }) = self.copies.try_remove(copy.0) else { return };
        self.queue_again(span, overtaken);
        self.piece_ended(span);
    }

    /// Blocks are copied again, once the writes to them have ended: also of the unused part of the
    /// journal, which is in use then.
    fn queue_again(&mut self, span: u64, extents: impl IntoIterator<Item = Extent>) {
        self.queue_pieces(span, extents.into_iter().map(Piece::Copy));
    }

    fn queue_pieces(&mut self, number: u64, pieces: impl Iterator<Item = Piece>) {
        let Some(span) = self.spans.iter_mut().find(|span| span.number == number) else { return };
        for piece in pieces.filter(|piece| !piece.extent().is_empty()) {
            span.pieces += 1;
            self.blanks += usize::from(matches!(piece, Piece::Blank(_)));
            self.queue.push_back(Queued { span: number, piece });
        }
    }

    fn piece_ended(&mut self, number: u64) {
        if let Some(span) = self.spans.iter_mut().find(|span| span.number == number) {
            span.pieces -= 1;
        }
        self.settle_spans();
    }

    /// Regions of which every piece was copied are to be flushed.
    fn settle_spans(&mut self) {
        let copied = &mut self.copied;
        self.spans.retain_mut(|span| {
            if span.pieces == 0 {
                copied.append(&mut span.regions);
            }
            span.pieces > 0
        });
    }

    /// The member was flushed.
    pub(crate) fn flushed(&mut self) {
        self.clean.extend(self.flushing.take().into_iter().flatten());
    }
}

/// What is left for copies beside hosts: while hosts are busy, a share of what they move, and a copy
/// now and then however little that is.
#[derive(Default)]
struct HostShare {
    /// Since a host asked for something.
    quiet: Duration,
    is_asked: bool,
    /// Bytes that may be copied.
    earned: u64,
    /// Since the last copy began.
    rested: Duration,
}

impl HostShare {
    fn pass(&mut self, time: Duration) {
        self.quiet = self.quiet.saturating_add(time);
        self.rested = self.rested.saturating_add(time);
    }

    fn host_io(&mut self, bytes: u64) {
        (self.quiet, self.is_asked) = (Duration::ZERO, true);
        self.earned = (self.earned + bytes / RESILVER_BUSY_SHARE).min(RESILVER_COPY_BLOCKS * BLOCK);
    }

    fn is_busy(&self) -> bool {
        self.is_asked && self.quiet < RESILVER_QUIET
    }

    fn may_copy(&self) -> bool {
        let is_earned = self.earned >= RESILVER_COPY_BLOCKS * BLOCK;
        !self.is_busy() || is_earned || self.rested >= RESILVER_BUSY_PAUSE
    }

    fn copies(&mut self, bytes: u64) {
        self.earned = self.earned.saturating_sub(bytes);
        self.rested = Duration::ZERO;
    }
}

#[cfg(test)]
mod tests;
