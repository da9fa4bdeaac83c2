//! Linearizability check of the history of one block: is there an order of all operations, each
//! between its beginning and its end, in which each answer is right. The search is Wing and Gong's,
//! with Lowe's memory of states that were tried (Testing for Linearizability, 2016).

use std::collections::HashSet;

/// States that are tried before a history counts as undecided.
const STATES_MAX: usize = 2_000_000;

/// What an operation did to a block, whose content is a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// It read the number.
    Read(u64),
    /// It wrote the number.
    Write(u64),
    /// COMPARE AND WRITE: expected, new, and whether it ended with GOOD.
    Swap(u64, u64, bool),
}

/// An operation with its beginning and end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Operation {
    pub(super) begin: u64,
    pub(super) end: u64,
    pub(super) action: Action,
}

/// What is known of a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Finding {
    Possible,
    Impossible,
    Undecided,
}

/// What was ordered already: all operations before `first`, those behind it whose bit is set, and
/// the block's content then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct State {
    first: usize,
    more: u64,
    content: u64,
}

impl Action {
    /// The content after it, if its answer is right for the content before it.
    fn apply(self, content: u64) -> Option<u64> {
        match self {
            Self::Read(read) => (read == content).then_some(content),
            Self::Write(written) => Some(written),
            Self::Swap(expected, new, true) => (expected == content).then_some(new),
            Self::Swap(expected, _, false) => (expected != content).then_some(content),
        }
    }
}

impl State {
    fn has(&self, number: usize) -> bool {
        number < self.first
            || (number - self.first < 64 && self.more >> (number - self.first) & 1 == 1)
    }

    /// With one more operation ordered; none when it is too far ahead of the first that is not.
    fn with(mut self, number: usize, content: u64) -> Option<Self> {
        if number - self.first >= 64 {
            return None;
        }
        self.more |= 1 << (number - self.first);
        let whole = self.more.trailing_ones();
        self.first += whole as usize;
        self.more = self.more.checked_shr(whole).unwrap_or(0);
        self.content = content;
        Some(self)
    }

    /// The operations that may come next: those that begin before any other one that is not ordered
    /// has ended.
    fn next(&self, history: &[Operation]) -> Vec<usize> {
        let mut open = Vec::new();
        let mut limit = u64::MAX;
        for (number, operation) in history.iter().enumerate().skip(self.first) {
            if operation.begin > limit {
                break;
            }
            if !self.has(number) {
                open.push(number);
                limit = limit.min(operation.end);
            }
        }
        open.retain(|number| history[*number].begin <= limit);
        open
    }
}

/// Decides on the history of a block that held `content` at first.
pub(super) fn decide(mut history: Vec<Operation>, content: u64) -> Finding {
    history.sort_by_key(|operation| operation.begin);
    let mut tried = HashSet::new();
    let mut stack = vec![State { first: 0, more: 0, content }];
    let mut cut = false;
    while let Some(state) = stack.pop() {
        if state.first == history.len() {
            return Finding::Possible;
        }
        if tried.len() > STATES_MAX {
            return Finding::Undecided;
        }
        if !tried.insert(state) {
            continue;
        }
        for number in state.next(&history) {
            if let Some(content) = history[number].action.apply(state.content) {
                let next = state.with(number, content);
                cut |= next.is_none();
                stack.extend(next);
            }
        }
    }
    if cut { Finding::Undecided } else { Finding::Impossible }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Action::{Read, Swap, Write};

    fn decide_on(operations: &[(u64, u64, Action)]) -> Finding {
        let operation =
            |&(begin, end, action): &(u64, u64, Action)| Operation { begin, end, action };
        decide(operations.iter().map(operation).collect(), 0)
    }

    #[test]
    fn one_after_the_other_must_be_in_order() {
        assert_eq!(decide_on(&[(0, 1, Write(1)), (2, 3, Read(1))]), Finding::Possible);
        assert_eq!(decide_on(&[(0, 1, Write(1)), (2, 3, Read(0))]), Finding::Impossible);
        assert_eq!(decide_on(&[]), Finding::Possible);
    }

    #[test]
    fn at_the_same_time_either_order_will_do_but_only_one() {
        let both = [(0, 10, Write(1)), (0, 10, Write(2))];
        for last in [1, 2] {
            assert_eq!(
                decide_on(&[&both[..], &[(11, 12, Read(last))]].concat()),
                Finding::Possible
            );
        }
        let contradiction = [&both[..], &[(11, 12, Read(1)), (13, 14, Read(2))]].concat();
        assert_eq!(decide_on(&contradiction), Finding::Impossible);
    }

    #[test]
    fn two_winners_of_one_race_are_impossible() {
        let race =
            |won: [bool; 2]| decide_on(&[(0, 10, Swap(0, 1, won[0])), (0, 10, Swap(0, 2, won[1]))]);
        assert_eq!(race([true, true]), Finding::Impossible);
        assert_eq!(race([true, false]), Finding::Possible);
        assert_eq!(race([false, false]), Finding::Impossible);
    }

    #[test]
    fn a_lost_write_and_a_late_write_are_found() {
        let lost = [(0, 1, Write(1)), (2, 3, Write(2)), (4, 5, Read(1))];
        assert_eq!(decide_on(&lost), Finding::Impossible);
        let late = [(0, 1, Swap(0, 1, true)), (2, 3, Read(0)), (4, 5, Read(1))];
        assert_eq!(decide_on(&late), Finding::Impossible);
    }

    #[test]
    fn a_long_history_of_four_clients_is_decided() {
        let mut history = Vec::new();
        for number in 0..2000_u64 {
            history.push((number * 10, number * 10 + 35, Write(number + 1)));
        }
        history.push((30_000, 30_001, Read(2000)));
        assert_eq!(decide_on(&history), Finding::Possible);
        history.pop();
        history.push((30_000, 30_001, Read(1)));
        assert_eq!(decide_on(&history), Finding::Impossible);
    }
}
