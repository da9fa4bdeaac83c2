//! Converts the history of clients into one history for each block.

use std::collections::{BTreeMap, BTreeSet};

use super::linearize::{Effect, Operation, Verdict, linearize};
use super::{Action, Block, Event, Value, Values};

/// A block whose operations do not fit together.
#[derive(Clone, Debug)]
pub struct Finding {
    /// The block.
    pub block: Block,
    /// [`Verdict::Violation`] or [`Verdict::Undecided`].
    pub verdict: Verdict,
    /// What was done to it.
    pub operations: Vec<Operation>,
}

/// Looks at every block.
pub fn check(initial: &Values, events: &[Event]) -> Vec<Finding> {
    let mut histories = BTreeMap::<Block, Vec<Operation>>::new();
    let copied = Copied::trace(initial, events);
    for (number, event) in events.iter().enumerate() {
        for (block, effect) in effects(number, event, &copied) {
            let Event { invoked, returned, certain, .. } = *event;
            let operation = Operation { invoked, returned, certain, effect };
            histories.entry(block).or_default().push(operation);
        }
    }
    let mut findings = Vec::new();
    for (block, mut operations) in histories {
        keep_one_of_the_unseen(&mut operations);
        let before = initial.get(&block).copied().unwrap_or(0);
        let verdict = linearize(before, operations.clone());
        if verdict != Verdict::Linearizable {
            findings.push(Finding { block, verdict, operations });
        }
    }
    findings
}

/// What an event did to each block that it touched.
fn effects(number: usize, event: &Event, copied: &Copied) -> Vec<(Block, Effect)> {
    match &event.action {
        Action::Read { at, values } => {
            let read = |(offset, value): (usize, &Value)| (at.plus(offset), Effect::Read(*value));
            values.iter().enumerate().map(read).collect()
        }
        Action::Write { at, count, value } => {
            (0..*count).map(|offset| (at.plus(offset), Effect::Write(vec![*value]))).collect()
        }
        Action::Swap { at, expected, value } => {
            let swap =
                |(offset, old): (usize, &Value)| (at.plus(offset), Effect::Swap(*old, *value));
            expected.iter().enumerate().map(swap).collect()
        }
        Action::Differs { at, expected, first } => {
            let look = |(offset, old): (usize, &Value)| match offset {
                offset if offset < *first => (at.plus(offset), Effect::Read(*old)),
                offset => (at.plus(offset), Effect::Differs(*old)),
            };
            expected.iter().enumerate().take(first + 1).map(look).collect()
        }
        Action::Copy { to, count, .. } => {
            let write = |offset| (to.plus(offset), Effect::Write(copied.values(number, offset)));
            (0..*count).map(write).collect()
        }
    }
}

/// Of the values that a copy may have written and that nobody saw or expected, one is as good as
/// another.
fn keep_one_of_the_unseen(operations: &mut [Operation]) {
    let named = |operation: &Operation| match operation.effect {
        Effect::Read(value) | Effect::Differs(value) | Effect::Swap(value, _) => Some(value),
        Effect::Write(_) => None,
    };
    let named: BTreeSet<Value> = operations.iter().filter_map(named).collect();
    for operation in operations {
        if let Effect::Write(values) = &mut operation.effect {
            let unseen = values.iter().copied().find(|value| !named.contains(value));
            values.retain(|value| named.contains(value));
            values.extend(unseen);
        }
    }
}

/// A change of a block: by an event, to a value that is known or that a copy brought.
struct Change {
    invoked: u64,
    returned: u64,
    certain: bool,
    brings: Brings,
}

#[derive(Clone, Copy)]
enum Brings {
    Value(Value),
    /// What the copy with that number brought to the block at that offset.
    Copied(usize, usize),
}

/// For each copy, the values that each block of its source may have had while it ran.
struct Copied {
    places: BTreeMap<(usize, usize), usize>,
    /// By place: a bit for each value.
    sets: Vec<Vec<u64>>,
    /// The value of each bit.
    values: Vec<Value>,
}

impl Copied {
    fn values(&self, event: usize, offset: usize) -> Vec<Value> {
        let set = &self.sets[self.places[&(event, offset)]];
        let is_in = |bit: &usize| set[bit / 64] >> (bit % 64) & 1 == 1;
        (0..self.values.len()).filter(is_in).map(|bit| self.values[bit]).collect()
    }

    fn trace(initial: &Values, events: &[Event]) -> Self {
        let changes = changes(events);
        let none = Vec::new();
        let mut places = BTreeMap::new();
        let mut known = Vec::new();
        let mut open = Vec::new();
        for (number, event) in events.iter().enumerate() {
            let Action::Copy { from, count, .. } = event.action else { continue };
            for offset in 0..count {
                let source = from.plus(offset);
                let changes = changes.get(&source).unwrap_or(&none);
                let before = initial.get(&source).copied().unwrap_or(0);
                let (values, copies) = alive(before, changes, event);
                places.insert((number, offset), known.len());
                known.push(values);
                open.push(copies);
            }
        }
        let all: BTreeSet<Value> = known.iter().flatten().copied().collect();
        let values: Vec<Value> = all.into_iter().collect();
        let bits = known.iter().map(|known| bits(&values, known)).collect();
        let open: Vec<Vec<usize>> = open
            .iter()
            .map(|copies: &Vec<_>| copies.iter().map(|copy| places[copy]).collect())
            .collect();
        Self { places, sets: closure(bits, &open), values }
    }
}

fn bits(values: &[Value], known: &BTreeSet<Value>) -> Vec<u64> {
    let mut set = vec![0; values.len().div_ceil(64)];
    for value in known {
        let bit = values.binary_search(value).expect("it is one of them");
        set[bit / 64] |= 1 << (bit % 64);
    }
    set
}

/// Adds the sets of others, and those of theirs, until nothing is added any more.
fn closure(mut sets: Vec<Vec<u64>>, others: &[Vec<usize>]) -> Vec<Vec<u64>> {
    loop {
        let mut grown = false;
        for (place, others) in others.iter().enumerate() {
            let mut set = std::mem::take(&mut sets[place]);
            for &other in others.iter().filter(|&&other| other != place) {
                for (word, more) in set.iter_mut().zip(&sets[other]) {
                    grown |= more & !*word != 0;
                    *word |= more;
                }
            }
            sets[place] = set;
        }
        if !grown {
            return sets;
        }
    }
}

/// Every change of every block.
fn changes(events: &[Event]) -> BTreeMap<Block, Vec<Change>> {
    let mut changes = BTreeMap::<Block, Vec<Change>>::new();
    for (number, event) in events.iter().enumerate() {
        let Event { invoked, returned, certain, .. } = *event;
        let (at, count, value) = match &event.action {
            Action::Write { at, count, value } => (*at, *count, Some(*value)),
            Action::Swap { at, expected, value } => (*at, expected.len(), Some(*value)),
            Action::Copy { to, count, .. } => (*to, *count, None),
            Action::Read { .. } | Action::Differs { .. } => continue,
        };
        for offset in 0..count {
            let brings = value.map_or(Brings::Copied(number, offset), Brings::Value);
            let change = Change { invoked, returned, certain, brings };
            changes.entry(at.plus(offset)).or_default().push(change);
        }
    }
    changes
}

/// The values that a block may have had while an event ran, and the copies that may have brought
/// others.
fn alive(
    before: Value,
    changes: &[Change],
    event: &Event,
) -> (BTreeSet<Value>, Vec<(usize, usize)>) {
    let ended = changes.iter().filter(|c| c.certain && c.returned < event.invoked);
    // What ended before this began was overwritten.
    let overwritten = ended.map(|change| change.invoked).max();
    let lives = |change: &&Change| {
        change.invoked <= event.returned
            && overwritten.is_none_or(|moment| change.returned >= moment)
    };
    let mut values = BTreeSet::new();
    let mut copies = Vec::new();
    if overwritten.is_none() {
        values.insert(before);
    }
    for change in changes.iter().filter(lives) {
        match change.brings {
            Brings::Value(value) => {
                values.insert(value);
            }
            Brings::Copied(event, offset) => copies.push((event, offset)),
        }
    }
    (values, copies)
}

#[cfg(test)]
mod tests;
