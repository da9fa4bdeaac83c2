//! Comparisons of snapshots: what must be told, and when they may fail.

use std::collections::BTreeMap;

use block::{BLOCK, MapState, SECTOR};
use store::{CompareError, Comparison, Difference, Failure, Outcome};

use super::{Excuses, Model, Oracle, Violation, violation};
use crate::content::{ANY, Tag};

/// Sectors of a block.
const SECTORS: usize = (BLOCK / SECTOR) as usize;

impl Oracle {
    /// Takes the answer to a comparison.
    pub(crate) fn compared(
        &self,
        question: &Comparison,
        result: &Result<Outcome, Failure>,
        excuses: Excuses,
    ) -> Result<(), Violation> {
        match result {
            Ok(Outcome::Difference(difference)) => {
                self.check_difference(question, difference, excuses)
            }
            Err(Failure::Compare(error)) if self.may_fail(question, error, excuses) => Ok(()),
            other => violation(format!("{question:?} was answered {other:?}")),
        }
    }

    fn may_fail(&self, question: &Comparison, error: &CompareError, excuses: Excuses) -> bool {
        let mut asked = [Some(question.target), question.base].into_iter().flatten();
        match error {
            CompareError::NoSuchSnapshot | CompareError::Deleted => {
                excuses.changing || asked.any(|id| !self.volumes.contains_key(&id))
            }
            CompareError::NotASnapshot => asked.any(|id| !self.is_snapshot(&id)),
            CompareError::Unreadable { .. } => excuses.faults,
            CompareError::Closed => excuses.closing,
            CompareError::Offset { .. } | CompareError::ExtentCount | CompareError::Busy => false,
        }
    }

    /// I32: what differs is told, a hole only where there is nothing, in order, and the answer gets on.
    fn check_difference(
        &self,
        question: &Comparison,
        difference: &Difference,
        excuses: Excuses,
    ) -> Result<(), Violation> {
        let Some(target) = self.volumes.get(&question.target) else {
            return violation(format!("{question:?} was answered although the snapshot is gone"));
        };
        let size = target.spec.size_bytes;
        let end = difference.next.unwrap_or(size);
        let is_further = end > question.from || difference.next.is_none();
        if !is_further || end > size || difference.extents.len() > question.extents_max {
            return violation(format!("{question:?} was answered {difference:?}"));
        }
        let told = told_blocks(question, difference, end)?;
        if excuses.faults {
            return Ok(());
        }
        let base = question.base.and_then(|base| self.volumes.get(&base));
        for block in question.from / BLOCK..end / BLOCK {
            let (before, after) =
                (base.map_or([0; SECTORS], |base| tags(base, block)), tags(target, block));
            check_block(before, after, told.get(&block).copied())
                .map_err(|wrong| Violation(format!("{question:?}: block {block} {wrong}")))?;
        }
        Ok(())
    }
}

/// Blocks by number, each with what is told of it.
fn told_blocks(
    question: &Comparison,
    difference: &Difference,
    end: u64,
) -> Result<BTreeMap<u64, MapState>, Violation> {
    let mut told = BTreeMap::new();
    let mut behind = question.from;
    for extent in &difference.extents {
        let range = extent.range;
        let is_sound = range.is_aligned(BLOCK) && !range.is_empty();
        if !is_sound || range.offset < behind || range.end() > end {
            return violation(format!("{question:?}: {extent:?} comes behind byte {behind}"));
        }
        behind = range.end();
        let blocks = range.offset / BLOCK..range.end() / BLOCK;
        told.extend(blocks.map(|block| (block, extent.state)));
    }
    Ok(told)
}

fn check_block(
    before: [Tag; SECTORS],
    after: [Tag; SECTORS],
    told: Option<MapState>,
) -> Result<(), String> {
    let in_doubt = before.contains(&ANY) || after.contains(&ANY);
    match told {
        _ if in_doubt => Ok(()),
        None if before != after => Err("differs, and is not told".to_owned()),
        Some(MapState::Deallocated) if after != [0; SECTORS] => {
            Err("holds data, and is told as a hole".to_owned())
        }
        _ => Ok(()),
    }
}

/// The tags of a block; zeros behind the end.
fn tags(model: &Model, block: u64) -> [Tag; SECTORS] {
    let first = block as usize * SECTORS;
    let tags = model.tags.get(first..first + SECTORS);
    tags.and_then(|tags| tags.try_into().ok()).unwrap_or([0; SECTORS])
}
