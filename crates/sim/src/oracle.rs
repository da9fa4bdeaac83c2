//! Reference model (oracle): what every sector of every volume must hold.
//!
//! Commands take effect in the order in which they come to their end. That is a serial order that
//! the engine promises for everything that touches the same sectors, because whoever waits for
//! another's range begins after the other's end. A power failure leaves every command that had not
//! come to its end done as a whole or not at all, a copy mebibyte by mebibyte.

mod changes;
mod comparisons;

use std::collections::BTreeMap;
use std::fmt;

use block::{BLOCK, BlockError, MapState, Response, SECTOR, VolumeId};
use store::{Change, Failure, Outcome, VolumeSpec};

use crate::action::{Action, Fill, Span, fill_tag, new_tags};
use crate::content::{ANY, NOBODY, Tag, describe, emit, tags_of};

const SECTORS_PER_MEBIBYTE: u64 = (1 << 20) / SECTOR;

/// A promise that was broken, in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation(pub String);

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Ends with a violation.
pub(crate) fn violation<T>(words: impl Into<String>) -> Result<T, Violation> {
    Err(Violation(words.into()))
}

/// A volume as it must be.
#[derive(Clone, Debug)]
pub(crate) struct Model {
    pub(crate) spec: VolumeSpec,
    pub(crate) tags: Vec<Tag>,
    /// Sectors that may have changed since the volume was last compared.
    pub(crate) touched: Vec<Span>,
}

impl Model {
    fn new(spec: VolumeSpec) -> Self {
        let sectors = (spec.size_bytes / SECTOR) as usize;
        Self { spec, tags: vec![0; sectors], touched: Vec::new() }
    }

    pub(crate) fn sectors(&self) -> u64 {
        self.tags.len() as u64
    }

    /// Takes the spans that were touched last, until there are `left` sectors.
    pub(crate) fn take_touched(&mut self, left: &mut u64) -> Vec<Span> {
        let mut taken = Vec::new();
        while *left > 0
            && let Some(span) = self.touched.pop()
        {
            *left = left.saturating_sub(span.count);
            taken.push(span);
        }
        taken
    }

    fn touch(&mut self, span: Span) {
        match self.touched.last_mut() {
            Some(last) if last.end() == span.first => last.count += span.count,
            _ => self.touched.push(span),
        }
    }
}

/// What a command leaves in adjacent sectors.
#[derive(Clone, Debug)]
pub(crate) struct Effect {
    pub(crate) volume: VolumeId,
    pub(crate) first: u64,
    pub(crate) tags: Vec<Tag>,
}

impl Effect {
    pub(crate) fn span(&self) -> Span {
        Span { first: self.first, count: self.tags.len() as u64 }
    }
}

/// What may go wrong without anyone being to blame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Excuses {
    /// The medium has faults: medium errors and a read-only pool are allowed.
    pub faults: bool,
    /// It had some before: what was found damaged then is left alone until the pool is opened again.
    pub had_faults: bool,
    /// The pool is being closed.
    pub closing: bool,
    /// The volume is being resized or deleted.
    pub changing: bool,
    /// The pool is being extended.
    pub extending: bool,
    /// The file system under the pool may refuse space to devices that join or grow.
    pub refusing: bool,
}

/// All volumes as they must be.
#[derive(Clone, Debug, Default)]
pub struct Oracle {
    pub(crate) volumes: BTreeMap<VolumeId, Model>,
}

impl Oracle {
    /// What a command leaves, a copy in parts of up to a mebibyte, each of them atomic.
    pub(crate) fn effects(&self, action: &Action) -> Vec<Effect> {
        let effect = |volume: VolumeId, span: Span, tags: Vec<Tag>| {
            vec![Effect { volume, first: span.first, tags }]
        };
        match action {
            Action::Write { volume, span, number }
            | Action::CompareAndWrite { volume, span, number, .. } => {
                effect(*volume, *span, new_tags(*number, span.count))
            }
            Action::WriteSame { volume, span, fill, number } => {
                let tags = (0..span.count).map(|place| fill_tag(*fill, *number, place));
                effect(*volume, *span, tags.collect())
            }
            Action::Unmap { volume, spans } => {
                let zeros = |span: &Span| vec![0; span.count as usize];
                let one =
                    |span: &Span| Effect { volume: *volume, first: span.first, tags: zeros(span) };
                spans.iter().filter(|span| span.count > 0).map(one).collect()
            }
            Action::Copy { source, from, volume, span } => {
                self.copy_effects(*source, *from, *volume, *span)
            }
            // Where the sizes differ, the table tells whether it happened.
            Action::Change(Change::RevertVolume { volume, source }) => {
                let models = self.volumes.get(volume).zip(self.volumes.get(source));
                let alike = models.filter(|(to, from)| to.sectors() == from.sectors());
                let taken = |(_, from): (&Model, &Model)| Effect {
                    volume: *volume,
                    first: 0,
                    tags: from.tags.clone(),
                };
                alike.map(taken).into_iter().collect()
            }
            _ => Vec::new(),
        }
    }

    fn copy_effects(&self, source: VolumeId, from: u64, to: VolumeId, span: Span) -> Vec<Effect> {
        let Some(model) = self.volumes.get(&source) else { return Vec::new() };
        let Some(tags) = model.tags.get(from as usize..(from + span.count) as usize) else {
            return Vec::new();
        };
        if from % 8 == span.first % 8 {
            return vec![Effect { volume: to, first: span.first, tags: tags.to_vec() }];
        }
        // The engine copies mebibytes from the start, or towards the start if that is where the
        // destination lies behind.
        let parts: Vec<(u64, &[Tag])> = if span.first > from {
            let chunks = tags.rchunks(SECTORS_PER_MEBIBYTE as usize);
            let mut end = span.count;
            let place = |part| {
                end -= <[Tag]>::len(part) as u64;
                (end, part)
            };
            chunks.map(place).collect()
        } else {
            let chunks = tags.chunks(SECTORS_PER_MEBIBYTE as usize);
            chunks.enumerate().map(|(at, part)| (at as u64 * SECTORS_PER_MEBIBYTE, part)).collect()
        };
        parts
            .into_iter()
            .map(|(at, part)| Effect { volume: to, first: span.first + at, tags: part.to_vec() })
            .collect()
    }

    /// Gives sectors new content.
    pub(crate) fn apply(&mut self, effect: &Effect) {
        let Some(model) = self.volumes.get_mut(&effect.volume) else { return };
        let first = effect.first as usize;
        let end = (first + effect.tags.len()).min(model.tags.len());
        if first < end {
            model.tags[first..end].copy_from_slice(&effect.tags[..end - first]);
            model.touch(Span { first: effect.first, count: (end - first) as u64 });
        }
    }

    /// Takes the end of a command: checks the answer and gives it effect.
    pub fn finished(
        &mut self,
        action: &Action,
        result: &Result<Outcome, Failure>,
        excuses: Excuses,
    ) -> Result<(), Violation> {
        match (action, result) {
            (Action::Compare(question), result) => self.compared(question, result, excuses),
            (Action::Change(change), Ok(Outcome::Changed)) => self.changed(change),
            (Action::Change(change), Err(Failure::Change(error))) => {
                self.change_refused(change, error, excuses)
            }
            (Action::Change(_), Err(Failure::Block(BlockError::ReadOnly))) if excuses.faults => {
                // It may or may not be found after a restart; the run ends with one.
                Ok(())
            }
            (_, Ok(Outcome::Response(response))) => self.succeeded(action, response, excuses),
            (_, Err(Failure::Block(error))) => self.failed(action, *error, excuses),
            (_, other) => violation(format!("{action} was answered {other:?}")),
        }
    }

    fn succeeded(
        &mut self,
        action: &Action,
        response: &Response,
        excuses: Excuses,
    ) -> Result<(), Violation> {
        if let Some(problem) = self.obstacle(action) {
            return violation(format!("{action} succeeded although {problem:?}"));
        }
        match (action, response) {
            // What failed on a failing device may be read as not done, and yet be found done after
            // a restart: then a read decides nothing.
            (Action::Read { volume, span }, Response::Data(rope)) if excuses.faults => {
                self.compare_content(*volume, *span, &tags_of(rope))
            }
            (Action::Read { volume, span }, Response::Data(rope)) => {
                self.check_content(*volume, *span, &tags_of(rope))
            }
            (Action::MapStatus { volume, span }, Response::Map(extents)) => {
                self.check_map(*volume, *span, extents)
            }
            (Action::CompareAndWrite { volume, span, expected, .. }, Response::Done) => {
                let holds = self.tags(*volume, *span);
                let differs = holds.iter().zip(expected).any(|(is, was)| *is != ANY && is != was);
                if differs {
                    return violation(format!("{action} succeeded, but the medium differed"));
                }
                self.apply_all(action);
                Ok(())
            }
            (Action::Flush { .. }, Response::Done) => Ok(()),
            (Action::Read { .. } | Action::MapStatus { .. }, _) => {
                violation(format!("{action} was answered {response:?}"))
            }
            (_, Response::Done) => {
                self.apply_all(action);
                Ok(())
            }
            (_, other) => violation(format!("{action} was answered {other:?}")),
        }
    }

    fn apply_all(&mut self, action: &Action) {
        for effect in self.effects(action) {
            self.apply(&effect);
        }
    }

    fn tags(&self, volume: VolumeId, span: Span) -> &[Tag] {
        let tags = self.volumes.get(&volume).map(|model| &model.tags[..]).unwrap_or_default();
        tags.get(span.first as usize..span.end() as usize).unwrap_or_default()
    }

    fn is_refused_by_snapshot(&self, action: &Action) -> bool {
        let changes = !matches!(
            action,
            Action::Read { .. }
                | Action::Flush { .. }
                | Action::MapStatus { .. }
                | Action::Compare(_)
                | Action::Change(_)
        );
        changes && action.volume().is_some_and(|id| self.is_snapshot(&id))
    }

    /// Why a request cannot succeed.
    fn obstacle(&self, action: &Action) -> Option<BlockError> {
        if self.is_refused_by_snapshot(action) {
            return Some(BlockError::Snapshot);
        }
        let mut touched: Vec<(VolumeId, Span)> = Vec::new();
        match action {
            Action::Read { volume, span }
            | Action::Write { volume, span, .. }
            | Action::CompareAndWrite { volume, span, .. }
            | Action::WriteSame { volume, span, .. }
            | Action::MapStatus { volume, span } => touched.push((*volume, *span)),
            Action::Unmap { volume, spans } => {
                touched.extend(spans.iter().map(|span| (*volume, *span)));
            }
            Action::Copy { source, from, volume, span } => {
                touched.push((*source, Span { first: *from, count: span.count }));
                touched.push((*volume, *span));
            }
            Action::Flush { volume } => touched.push((*volume, Span { first: 0, count: 0 })),
            Action::Compare(_) | Action::Change(_) => {}
        }
        touched.into_iter().find_map(|(volume, span)| match self.volumes.get(&volume) {
            None => Some(BlockError::NoSuchVolume),
            Some(model) => {
                (span.end() > model.sectors() && span.count > 0).then_some(BlockError::OutOfRange)
            }
        })
    }

    fn failed(
        &mut self,
        action: &Action,
        error: BlockError,
        excuses: Excuses,
    ) -> Result<(), Violation> {
        let justified = match error {
            BlockError::OutOfRange | BlockError::NoSuchVolume => {
                excuses.changing || self.obstacle(action).is_some()
            }
            BlockError::Miscompare { offset } => return self.check_miscompare(action, offset),
            BlockError::OutOfSpace | BlockError::SpaceComing => {
                self.doubt(action);
                let coming = error == BlockError::SpaceComing;
                coming == excuses.extending && !self.has_promise(action)
            }
            BlockError::Medium { .. } => {
                self.doubt(action);
                excuses.faults
            }
            BlockError::ReadOnly => {
                self.doubt(action);
                excuses.faults
            }
            BlockError::Closed => excuses.closing,
            BlockError::Snapshot => self.is_refused_by_snapshot(action),
            BlockError::DifferentPool | BlockError::Busy => false,
        };
        if justified { Ok(()) } else { violation(format!("{action} failed: {error}")) }
    }

    /// What must succeed in a full pool too: the ways out of it, and what was paid for.
    fn has_promise(&self, action: &Action) -> bool {
        let thick = |id: &VolumeId| self.volumes.get(id).is_some_and(|model| model.spec.thick);
        match action {
            Action::Unmap { spans, .. } => spans.iter().all(|span| span.is_aligned()),
            Action::WriteSame { fill: Fill::Zero, span, .. } if span.is_aligned() => true,
            Action::Write { volume, .. }
            | Action::CompareAndWrite { volume, .. }
            | Action::WriteSame { volume, .. } => thick(volume),
            Action::Copy { .. } => false,
            _ => true,
        }
    }

    /// After an error a copy may be done in part; and what failed on a failing device may be done.
    fn doubt(&mut self, action: &Action) {
        for mut effect in self.effects(action) {
            // The volume may have become smaller while the command waited.
            let sectors = self.volumes.get(&effect.volume).map_or(0, Model::sectors);
            effect.tags.truncate(sectors.saturating_sub(effect.first) as usize);
            let now = self.tags(effect.volume, effect.span()).to_vec();
            for (tag, now) in effect.tags.iter_mut().zip(now) {
                if *tag != now {
                    *tag = ANY;
                }
            }
            self.apply(&effect);
        }
    }

    fn check_miscompare(&self, action: &Action, offset: u64) -> Result<(), Violation> {
        let Action::CompareAndWrite { volume, span, expected, .. } = action else {
            return violation(format!("{action} miscompared"));
        };
        let holds = self.tags(*volume, *span);
        if holds.contains(&ANY) {
            return Ok(());
        }
        let first = holds.iter().zip(expected).position(|(is, was)| is != was);
        let Some(sector) = first else {
            return violation(format!("{action} miscompared, but the medium was as expected"));
        };
        let at = sector as u64 * SECTOR + first_difference(holds[sector], expected[sector]);
        if at != offset {
            return violation(format!("{action} miscompared at byte {offset}, not at {at}"));
        }
        Ok(())
    }

    /// Compares what was read with what it must be, and takes over what was in doubt.
    pub(crate) fn check_content(
        &mut self,
        volume: VolumeId,
        span: Span,
        found: &[Tag],
    ) -> Result<(), Violation> {
        self.compare_content(volume, span, found)?;
        let Some(model) = self.volumes.get_mut(&volume) else { return Ok(()) };
        model.tags[span.first as usize..span.end() as usize].copy_from_slice(found);
        Ok(())
    }

    /// Compares what was read with what it must be.
    fn compare_content(
        &self,
        volume: VolumeId,
        span: Span,
        found: &[Tag],
    ) -> Result<(), Violation> {
        let tags = self.tags(volume, span);
        if tags == found {
            return Ok(());
        }
        if found.len() as u64 != span.count || tags.len() as u64 != span.count {
            let (sectors, volume) = (found.len(), volume.0);
            return violation(format!("a read of {span} of {volume} brought {sectors} sectors"));
        }
        for ((at, tag), found) in (span.first..).zip(tags).zip(found) {
            let right = found == tag || (*tag == ANY && *found != NOBODY);
            if !right {
                let (found, must, volume) = (describe(*found), describe(*tag), volume.0);
                return violation(format!("sector {at} of {volume} holds {found}, not {must}"));
            }
        }
        Ok(())
    }

    fn check_map(
        &self,
        volume: VolumeId,
        span: Span,
        extents: &[block::MapExtent],
    ) -> Result<(), Violation> {
        let mut at = span.first * SECTOR;
        if extents.is_empty() && span.count > 0 {
            return violation("a map status without an extent");
        }
        for extent in extents {
            // The engine knows blocks, so an extent may begin before the range does.
            let start = extent.range.offset.max(at);
            let end = extent.range.end().min(span.end() * SECTOR);
            if start != at || end <= start {
                return violation(format!(
                    "map status of {span}: extent {:?} at {at}",
                    extent.range
                ));
            }
            at = end;
            let part = Span { first: start / SECTOR, count: (end - start) / SECTOR };
            let empty = self.tags(volume, part).iter().all(|tag| *tag == 0 || *tag == ANY);
            if extent.state != MapState::Mapped && !empty {
                return violation(format!("{part} of {} hold data but count as hole", volume.0));
            }
        }
        Ok(())
    }

    /// After a recovery: finds out which of the commands that had not come to their end took
    /// effect, given what is read now, and takes over what they did. `found` answers with the tags
    /// of sectors.
    pub(crate) fn explain(
        &mut self,
        effects: &[Effect],
        mut found: impl FnMut(VolumeId, Span) -> Result<Vec<Tag>, Violation>,
    ) -> Result<u64, Violation> {
        let mut happened = 0;
        for effect in effects {
            let Some(model) = self.volumes.get(&effect.volume) else { continue };
            if effect.span().end() > model.sectors() {
                continue;
            }
            let tags = found(effect.volume, effect.span())?;
            let same = |(is, would): (&Tag, &Tag)| is == would || *would == ANY;
            if tags.iter().zip(&effect.tags).all(same) {
                happened += 1;
                self.apply(&Effect { tags, ..effect.clone() });
            }
        }
        Ok(happened)
    }
}

/// The first byte in which two sectors differ.
fn first_difference(one: Tag, other: Tag) -> u64 {
    let mut sectors = [[0; SECTOR as usize]; 2];
    emit(one, &mut sectors[0]);
    emit(other, &mut sectors[1]);
    let [one, other] = sectors;
    one.iter().zip(&other).position(|(one, other)| one != other).unwrap_or(0) as u64
}

/// The size that holds so many whole blocks, at least one.
pub(crate) fn whole_blocks(bytes: u64) -> u64 {
    bytes.next_multiple_of(BLOCK).max(BLOCK)
}

#[cfg(test)]
mod tests;
