//! Oracle of the shared volume: what each block held when, so that an answer of any controller can be judged,
//! however late it comes.
//!
//! A write takes effect when an engine says that it has ended, or, if that engine was taken the pool from, at
//! the opening that finds it done. A read may bring whatever its block held between the host's question and
//! the answer, and nothing else.

use std::collections::{BTreeMap, VecDeque};

use crate::oracle::{Violation, violation};

/// What a block holds: the number of the write that left it, 0 for none.
pub(super) type Value = u64;

/// Virtual nanoseconds for which the past is kept; no command is under way for so long.
const KEPT: u64 = 900_000_000_000;

/// A write in an engine whose end is not known.
#[derive(Clone, Copy, Debug)]
struct Pending {
    command: u64,
    opening: u64,
    value: Value,
}

#[derive(Clone, Debug)]
struct Block {
    /// From when on it held what, in order; the first from ever.
    values: VecDeque<(u64, Value)>,
    /// One of each opening at most.
    pending: Vec<Pending>,
}

/// The past of all blocks.
#[derive(Clone, Debug)]
pub(super) struct History {
    blocks: Vec<Block>,
    /// The opening that serves, or served last.
    opening: u64,
    /// Writes of earlier openings, and whether the next opening found each done.
    settled: BTreeMap<u64, (u64, bool)>,
}

impl History {
    /// Blocks of zeros, and no opening.
    pub(super) fn new(blocks: usize) -> Self {
        let block = Block { values: VecDeque::from([(0, 0)]), pending: Vec::new() };
        Self { blocks: vec![block; blocks], opening: 0, settled: BTreeMap::new() }
    }

    /// Whether a write of a block is in the engine of this opening, and its end not known.
    pub(super) fn is_busy(&self, block: usize, opening: u64) -> bool {
        self.blocks[block].pending.iter().any(|pending| pending.opening == opening)
    }

    /// An engine takes a write.
    pub(super) fn begin(&mut self, block: usize, command: u64, opening: u64, value: Value) {
        self.blocks[block].pending.push(Pending { command, opening, value });
    }

    /// An engine says that a COMPARE AND WRITE is done, which expected this.
    pub(super) fn replaced(
        &mut self,
        block: usize,
        (command, expected): (u64, Value),
        now: u64,
    ) -> Result<(), Violation> {
        let Block { values, pending } = &self.blocks[block];
        let held = values.back().map_or(0, |(_, value)| *value);
        let is_under_way = pending.iter().any(|pending| pending.command == command);
        if is_under_way && held != expected {
            return violation(format!(
                "command {command} replaced {expected} in block {block}, which held {held}"
            ));
        }
        self.done(block, command, now)
    }

    /// An engine says that a write is done.
    pub(super) fn done(&mut self, block: usize, command: u64, now: u64) -> Result<(), Violation> {
        let current = self.opening;
        let block = &mut self.blocks[block];
        if let Some(pending) = block.take(command) {
            if pending.opening < current {
                return violation(format!(
                    "two owners: command {command} of opening {} is done while opening {current} serves",
                    pending.opening
                ));
            }
            block.push(now, pending.value);
            return Ok(());
        }
        match self.settled.get(&command) {
            Some((_, true)) => Ok(()),
            Some((_, false)) => violation(format!(
                "lost: command {command} is answered well, and opening {current} did not find it"
            )),
            None => violation(format!("command {command} was never begun")),
        }
    }

    /// An engine says that a write had no effect, and why: its block held something else.
    pub(super) fn without_effect(&mut self, block: usize, command: u64) {
        self.blocks[block].take(command);
    }

    /// A command that asked at that time was told this content.
    pub(super) fn check_read(
        &self,
        block: usize,
        (asked, now): (u64, u64),
        value: Value,
    ) -> Result<(), Violation> {
        if self.held(block, (asked, now)).any(|held| held == value) {
            return Ok(());
        }
        let held: Vec<Value> = self.held(block, (asked, now)).collect();
        violation(format!(
            "stale: block {block} is read as {value}; from question to answer it held {held:?}"
        ))
    }

    /// A command that asked at that time was told that the block holds something else than this.
    pub(super) fn check_difference(
        &self,
        block: usize,
        (asked, now): (u64, u64),
        expected: Value,
    ) -> Result<(), Violation> {
        if self.held(block, (asked, now)).any(|held| held != expected) {
            return Ok(());
        }
        violation(format!(
            "block {block} is said not to hold {expected}, which it held all the time"
        ))
    }

    /// What a block held between two times.
    fn held(&self, block: usize, (asked, now): (u64, u64)) -> impl Iterator<Item = Value> {
        let values = &self.blocks[block].values;
        let ends = values.iter().skip(1).map(|(time, _)| *time).chain([u64::MAX]);
        let within = move |((begin, _), end): &(&(u64, Value), u64)| *begin <= now && *end >= asked;
        values.iter().zip(ends).filter(within).map(|((_, value), _)| *value)
    }

    /// A new opening found this in each block, and serves from now on. Returns how many writes were under way.
    pub(super) fn opened(
        &mut self,
        opening: u64,
        found: &[Value],
        now: u64,
    ) -> Result<u64, Violation> {
        let mut settled = 0;
        for (index, (block, &found)) in self.blocks.iter_mut().zip(found).enumerate() {
            let last = block.values.back().map_or(0, |(_, value)| *value);
            let pending = std::mem::take(&mut block.pending);
            let is_done = |pending: &Pending| pending.value == found;
            if found != last && !pending.iter().any(is_done) {
                return violation(format!(
                    "opening {opening} finds {found} in block {index}, which held {last}; under way was \
                     {pending:?}"
                ));
            }
            settled += pending.len() as u64;
            let fates = pending.iter().map(|pending| (pending.command, (now, is_done(pending))));
            self.settled.extend(fates);
            if found != last {
                block.push(now, found);
            }
        }
        self.opening = opening;
        self.settled.retain(|_, (time, _)| now.saturating_sub(*time) < KEPT);
        Ok(settled)
    }
}

impl Block {
    fn take(&mut self, command: u64) -> Option<Pending> {
        let place = self.pending.iter().position(|pending| pending.command == command)?;
        Some(self.pending.remove(place))
    }

    fn push(&mut self, now: u64, value: Value) {
        self.values.push_back((now, value));
        let is_past = |next: Option<&(u64, Value)>| {
            next.is_some_and(|(time, _)| now.saturating_sub(*time) > KEPT)
        };
        while is_past(self.values.get(1)) {
            self.values.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_may_bring_what_was_there_between_question_and_answer_and_nothing_else() {
        let mut history = History::new(2);
        history.opened(1, &[0, 0], 5).unwrap();
        history.begin(0, 10, 1, 100);
        history.done(0, 10, 20).unwrap();
        history.check_read(0, (8, 30), 0).unwrap();
        history.check_read(0, (8, 30), 100).unwrap();
        history.check_read(0, (21, 30), 100).unwrap();
        assert!(history.check_read(0, (21, 30), 0).unwrap_err().0.starts_with("stale"));
        assert!(history.check_difference(0, (21, 30), 100).is_err());
        history.check_difference(0, (8, 30), 100).unwrap();
        history.begin(0, 12, 1, 101);
        assert!(history.clone().replaced(0, (12, 0), 40).is_err());
        history.replaced(0, (12, 100), 40).unwrap();
    }

    #[test]
    fn the_next_opening_settles_what_was_under_way() {
        let mut history = History::new(3);
        history.opened(1, &[0, 0, 0], 0).unwrap();
        history.begin(0, 10, 1, 100);
        history.begin(1, 11, 1, 101);
        assert!(history.is_busy(0, 1) && !history.is_busy(0, 2) && !history.is_busy(2, 1));
        assert!(history.clone().opened(2, &[0, 0, 7], 9).is_err(), "nobody wrote that");
        history.opened(2, &[100, 0, 0], 9).unwrap();
        history.done(0, 10, 10).unwrap();
        assert!(history.done(1, 11, 10).unwrap_err().0.starts_with("lost"));
    }

    #[test]
    fn a_write_that_began_in_the_opening_before_and_was_not_looked_for_has_two_owners() {
        let mut history = History::new(1);
        history.opened(2, &[0], 0).unwrap();
        history.begin(0, 10, 1, 100);
        assert!(history.done(0, 10, 1).unwrap_err().0.starts_with("two owners"));
        history.begin(0, 11, 2, 101);
        history.without_effect(0, 11);
        assert!(!history.is_busy(0, 2));
    }
}
