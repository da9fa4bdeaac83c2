//! Linearizability check by breadth-first search, a second opinion on `linearize`: every state in
//! which the register may be is followed through time. It visits each state once, and so comes to
//! an end where many operations overlap and a search goes back and forth; it is slower where few
//! do.

use std::collections::HashSet;

use super::Value;
use super::linearize::{Operation, Verdict};

/// States at one moment before it is given up.
const STATES_MAX: usize = 4_000_000;

/// Operations at one moment: a bit for each.
const OVERLAPPING_MAX: usize = 128;

/// Which of the operations under way have taken place, and the value then.
type State = (u128, Value);

/// Operations under way, each in the place of its bit.
type UnderWay<'a> = [Option<&'a Operation>; OVERLAPPING_MAX];

/// Looks for an order of operations on a register that held `initial`.
pub(super) fn follow(initial: Value, operations: &[Operation]) -> Verdict {
    let mut moments: Vec<(u64, bool, usize)> = Vec::new();
    for (number, operation) in operations.iter().enumerate() {
        moments.push((operation.invoked, false, number));
        if operation.returned < u64::MAX {
            moments.push((operation.returned, true, number));
        }
    }
    moments.sort_unstable();
    let mut under_way: UnderWay = [None; OVERLAPPING_MAX];
    let mut places = vec![0; operations.len()];
    let mut states = HashSet::from([(0, initial)]);
    for (_, ends, number) in moments {
        if !ends {
            let Some(free) = under_way.iter().position(Option::is_none) else {
                return Verdict::Undecided;
            };
            under_way[free] = Some(&operations[number]);
            places[number] = free;
            continue;
        }
        if !reach_all(&mut states, &under_way) {
            return Verdict::Undecided;
        }
        under_way[places[number]] = None;
        states = without(&states, 1 << places[number], operations[number].certain);
        if states.is_empty() {
            return Verdict::Violation;
        }
    }
    // What is certain has ended.
    Verdict::Linearizable
}

/// Adds every state that operations under way can lead to; false if there are too many.
fn reach_all(states: &mut HashSet<State>, under_way: &UnderWay) -> bool {
    let mut new: Vec<State> = states.iter().copied().collect();
    while let Some((done, value)) = new.pop() {
        for (place, operation) in under_way.iter().enumerate() {
            let Some(operation) = operation.filter(|_| done >> place & 1 == 0) else { continue };
            for next in operation.effect.after(value) {
                let state = (done | 1 << place, next);
                if states.insert(state) {
                    new.push(state);
                }
            }
        }
        if states.len() > STATES_MAX {
            return false;
        }
    }
    true
}

/// Once an operation has ended: it has taken place, if that is certain.
fn without(states: &HashSet<State>, bit: u128, certain: bool) -> HashSet<State> {
    let possible = states.iter().filter(|(done, _)| !certain || done & bit != 0);
    possible.map(|(done, value)| (done & !bit, *value)).collect()
}
