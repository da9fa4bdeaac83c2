//! Linearizability check of one register: is there an order in which every answer is right? The
//! search of Wing and Gong, with Lowe's memory of what was tried.

use std::collections::HashSet;

use super::Value;
use super::configurations::follow;

/// States that are looked at before the search gives up.
const STATES_MAX: usize = 2_000_000;

/// What an operation did to a register.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// It found this value.
    Read(Value),
    /// It found another value than this.
    Differs(Value),
    /// It wrote one of these values.
    Write(Vec<Value>),
    /// It found the first value and wrote the second.
    Swap(Value, Value),
}

/// An operation on a register.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operation {
    /// When it began.
    pub invoked: u64,
    /// When it ended.
    pub returned: u64,
    /// Whether it took place for certain.
    pub certain: bool,
    /// What it did.
    pub effect: Effect,
}

/// What was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// There is such an order.
    Linearizable,
    /// There is none.
    Violation,
    /// The search was given up.
    Undecided,
}

/// Looks for an order of operations on a register that held `initial`. Where the search takes too
/// long, every state is followed instead.
pub fn linearize(initial: Value, operations: Vec<Operation>) -> Verdict {
    match search(initial, operations.clone()) {
        Verdict::Undecided => follow(initial, &operations),
        decided => decided,
    }
}

/// The search alone.
pub(super) fn search(initial: Value, mut operations: Vec<Operation>) -> Verdict {
    operations.sort_by_key(|operation| operation.invoked);
    let left = operations.iter().filter(|operation| operation.certain).count();
    let done = vec![0; operations.len().div_ceil(64)];
    let mut search = Search { operations, done, left, first: 0, tried: HashSet::new() };
    search.run(initial)
}

struct Search {
    /// By the time of their beginning.
    operations: Vec<Operation>,
    /// A bit for each operation that has its place.
    done: Vec<u64>,
    /// Certain operations that have none yet.
    left: usize,
    /// No operation before this one is without a place.
    first: usize,
    tried: HashSet<(Vec<u64>, Value)>,
}

/// A place in the search: what was put in order to get here, and what may come next.
struct Step {
    placed: Vec<usize>,
    choices: Vec<(usize, Value)>,
}

impl Search {
    fn run(&mut self, initial: Value) -> Verdict {
        let mut steps = vec![self.step(Vec::new(), initial)];
        while let Some(step) = steps.last_mut() {
            if self.left == 0 {
                return Verdict::Linearizable;
            }
            if self.tried.len() > STATES_MAX {
                return Verdict::Undecided;
            }
            match step.choices.pop() {
                Some((operation, value)) => {
                    self.place(operation);
                    if self.tried.insert((self.done.clone(), value)) {
                        let next = self.step(vec![operation], value);
                        steps.push(next);
                    } else {
                        self.displace(operation);
                    }
                }
                None => {
                    let step = steps.pop().expect("there is a last step");
                    step.placed.into_iter().for_each(|operation| self.displace(operation));
                }
            }
        }
        Verdict::Violation
    }

    /// Puts in order all that only looks and finds what it should, which cannot be wrong. Then come those that change the value, the ones that must end first last,
    /// where they are taken from.
    fn step(&mut self, mut placed: Vec<usize>, value: Value) -> Step {
        let mut choices = self.possible(value);
        loop {
            let (looks, changes): (Vec<_>, Vec<_>) =
                choices.into_iter().partition(|(operation, _)| self.cannot_be_wrong(*operation));
            if looks.is_empty() {
                choices = changes;
                break;
            }
            for (operation, _) in looks {
                self.place(operation);
                placed.push(operation);
            }
            choices = self.possible(value);
        }
        let end = |operation: usize| {
            let operation = &self.operations[operation];
            (if operation.certain { 0 } else { 1 }, operation.returned)
        };
        choices.sort_by_key(|(operation, _)| std::cmp::Reverse(end(*operation)));
        Step { placed, choices }
    }

    /// Operations that may come next, each with the value that it leaves.
    fn possible(&mut self, value: Value) -> Vec<(usize, Value)> {
        while self.first < self.operations.len() && self.is_done(self.first) {
            self.first += 1;
        }
        let mut deadline = u64::MAX;
        let mut possible = Vec::new();
        for (number, operation) in self.operations.iter().enumerate().skip(self.first) {
            if operation.invoked > deadline {
                break;
            }
            if self.is_done(number) {
                continue;
            }
            if operation.certain {
                deadline = deadline.min(operation.returned);
            }
            possible.extend(operation.effect.after(value).into_iter().map(|next| (number, next)));
        }
        // An operation that is not certain has to take place before its end, or not at all.
        let in_time = |(number, _): &(usize, Value)| {
            let returned = self.operations[*number].returned;
            self.latest_done_invocation() <= returned
        };
        possible.retain(in_time);
        possible
    }

    /// When the youngest operation that has its place began.
    fn latest_done_invocation(&self) -> u64 {
        let youngest = self.done.iter().rposition(|word| *word != 0);
        youngest.map_or(0, |word| {
            let bit = 63 - self.done[word].leading_zeros() as usize;
            self.operations[word * 64 + bit].invoked
        })
    }

    /// Whether an operation that is possible may as well come at once: it changes nothing, and
    /// nothing that is left could have to come before it.
    fn cannot_be_wrong(&self, operation: usize) -> bool {
        let Operation { invoked, effect, .. } = &self.operations[operation];
        let looks = matches!(effect, Effect::Read(_) | Effect::Differs(_));
        let left = self.operations.iter().enumerate().skip(self.first);
        looks
            && !left.take_while(|(_, other)| other.invoked < *invoked).any(|(number, other)| {
                !other.certain && other.returned < *invoked && !self.is_done(number)
            })
    }

    fn is_done(&self, operation: usize) -> bool {
        self.done[operation / 64] >> (operation % 64) & 1 == 1
    }

    fn place(&mut self, operation: usize) {
        self.done[operation / 64] |= 1 << (operation % 64);
        self.left -= usize::from(self.operations[operation].certain);
    }

    fn displace(&mut self, operation: usize) {
        self.done[operation / 64] &= !(1 << (operation % 64));
        self.left += usize::from(self.operations[operation].certain);
        self.first = self.first.min(operation);
    }
}

impl Effect {
    /// The values that may be there afterwards; none if it could not be like that.
    pub(super) fn after(&self, value: Value) -> Vec<Value> {
        match self {
            Self::Read(found) if *found == value => vec![value],
            Self::Differs(expected) if *expected != value => vec![value],
            Self::Swap(expected, written) if *expected == value => vec![*written],
            Self::Write(values) => values.clone(),
            _ => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests;
