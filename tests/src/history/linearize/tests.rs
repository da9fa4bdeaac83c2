use super::*;
use crate::random::Random;

/// Both ways of looking come to the same end.
fn linearize(initial: Value, operations: Vec<Operation>) -> Verdict {
    let found = search(initial, operations.clone());
    assert_eq!(follow(initial, &operations), found);
    found
}

fn certain(invoked: u64, returned: u64, effect: Effect) -> Operation {
    Operation { invoked, returned, certain: true, effect }
}

fn perhaps(invoked: u64, returned: u64, effect: Effect) -> Operation {
    Operation { invoked, returned, certain: false, effect }
}

fn write(value: Value) -> Effect {
    Effect::Write(vec![value])
}

#[test]
fn operations_one_after_the_other_must_answer_in_their_order() {
    let history = |second: Value| {
        vec![
            certain(0, 1, write(1)),
            certain(2, 3, Effect::Read(1)),
            certain(4, 5, write(2)),
            certain(6, 7, Effect::Read(second)),
        ]
    };
    assert_eq!(linearize(0, history(2)), Verdict::Linearizable);
    for stale in [0, 1, 3] {
        assert_eq!(linearize(0, history(stale)), Verdict::Violation);
    }
}

#[test]
fn operations_at_the_same_time_may_have_either_order() {
    for read in [0, 1, 2] {
        let history = vec![
            certain(0, 10, write(1)),
            certain(0, 10, write(2)),
            certain(5, 9, Effect::Read(read)),
        ];
        assert_eq!(linearize(0, history), Verdict::Linearizable, "{read}");
    }
}

#[test]
fn a_value_that_was_seen_does_not_go_back() {
    let history = vec![
        certain(0, 100, write(1)),
        certain(10, 20, Effect::Read(1)),
        certain(30, 40, Effect::Read(0)),
    ];
    assert_eq!(linearize(0, history), Verdict::Violation);
}

#[test]
fn two_swaps_from_the_same_value_cannot_both_succeed() {
    let both = vec![certain(0, 10, Effect::Swap(0, 1)), certain(0, 10, Effect::Swap(0, 2))];
    assert_eq!(linearize(0, both), Verdict::Violation);
    let one = vec![certain(0, 10, Effect::Swap(0, 1)), certain(0, 10, Effect::Differs(0))];
    assert_eq!(linearize(0, one), Verdict::Linearizable);
    let none = vec![certain(0, 10, Effect::Differs(0)), certain(0, 10, Effect::Differs(0))];
    assert_eq!(linearize(0, none), Verdict::Violation);
}

#[test]
fn what_was_aborted_may_have_happened_or_not_but_not_later() {
    let history = |read| {
        vec![
            perhaps(0, 10, write(1)),
            certain(20, 30, Effect::Read(read)),
            certain(40, 50, Effect::Read(0)),
        ]
    };
    assert_eq!(linearize(0, history(0)), Verdict::Linearizable);
    assert_eq!(linearize(0, history(1)), Verdict::Violation);
    let late = |returned| {
        vec![
            perhaps(0, returned, write(1)),
            certain(20, 30, Effect::Read(0)),
            certain(40, 50, Effect::Read(1)),
        ]
    };
    assert_eq!(linearize(0, late(35)), Verdict::Linearizable);
    assert_eq!(linearize(0, late(u64::MAX)), Verdict::Linearizable);
    assert_eq!(linearize(0, late(10)), Verdict::Violation);
}

#[test]
fn a_copy_writes_one_of_the_values_that_its_source_may_have_had() {
    let history =
        |read| vec![certain(0, 10, Effect::Write(vec![3, 4])), certain(20, 30, Effect::Read(read))];
    assert_eq!(linearize(0, history(3)), Verdict::Linearizable);
    assert_eq!(linearize(0, history(4)), Verdict::Linearizable);
    assert_eq!(linearize(0, history(5)), Verdict::Violation);
    assert_eq!(linearize(0, history(0)), Verdict::Violation);
}

/// A register that many use at the same time, each operation taking effect at a random moment.
fn simulated(random: &mut Random, operations: usize) -> Vec<Operation> {
    let mut moments: Vec<(u64, u64, u64)> = (0..operations)
        .map(|_| {
            let invoked = random.below(operations as u64 * 10);
            let effect = invoked + random.below(60);
            (invoked, effect, effect + random.below(60))
        })
        .collect();
    moments.sort_by_key(|(_, effect, _)| *effect);
    let mut value = 0;
    let mut history = Vec::new();
    for (number, (invoked, _, returned)) in moments.into_iter().enumerate() {
        let new = number as u64 + 1;
        let effect = match random.below(5) {
            0 | 1 => Effect::Read(value),
            2 => Effect::Write(vec![new]),
            3 => Effect::Swap(value, new),
            _ => Effect::Differs(new),
        };
        if let Effect::Write(_) | Effect::Swap(..) = effect {
            value = new;
        }
        history.push(certain(invoked, returned, effect));
    }
    history
}

#[test]
fn what_a_register_can_do_is_accepted_and_a_changed_answer_is_found() {
    let mut found = 0;
    for seed in 0..40 {
        let mut random = Random::new(seed);
        let history = simulated(&mut random, 400);
        assert_eq!(linearize(0, history.clone()), Verdict::Linearizable, "{seed}");
        let mut wrong = history;
        let reads = wrong.iter_mut().filter_map(|operation| match &mut operation.effect {
            Effect::Read(value) => Some(value),
            _ => None,
        });
        let mut reads: Vec<_> = reads.collect();
        // A value that was there long before.
        let (stale, late) = (*reads[10], reads.len() - 10);
        *reads[late] = stale;
        found += usize::from(linearize(0, wrong) == Verdict::Violation);
    }
    assert_eq!(found, 40);
}
