use super::*;

const fn block(lba: u64) -> Block {
    Block { lun: 0, lba }
}

fn event(invoked: u64, returned: u64, action: Action) -> Event {
    Event { invoked, returned, certain: true, action }
}

fn write(at: u64, value: Value) -> Action {
    Action::Write { at: block(at), count: 1, value }
}

fn read(at: u64, value: Value) -> Action {
    Action::Read { at: block(at), values: vec![value] }
}

fn copy(from: u64, to: u64) -> Action {
    Action::Copy { from: block(from), to: block(to), count: 1 }
}

fn is_right(actions: &[(u64, u64, Action)]) -> bool {
    let events: Vec<_> =
        actions.iter().map(|(from, to, action)| event(*from, *to, action.clone())).collect();
    check(&Values::new(), &events).is_empty()
}

#[test]
fn a_copy_brings_what_its_source_held_while_it_ran_and_nothing_older() {
    let history = |value| {
        [
            (0, 1, write(1, 5)),
            (2, 3, write(1, 6)),
            (4, 5, copy(1, 2)),
            (6, 7, write(1, 7)),
            (8, 9, read(2, value)),
        ]
    };
    assert!(is_right(&history(6)));
    for wrong in [0, 5, 7, 8] {
        assert!(!is_right(&history(wrong)), "{wrong}");
    }
}

#[test]
fn a_copy_of_a_copy_brings_the_same() {
    let history = |value| {
        [
            (0, 1, write(1, 5)),
            (2, 3, copy(1, 2)),
            (4, 5, copy(2, 3)),
            (6, 7, copy(3, 1)),
            (8, 9, read(1, value)),
        ]
    };
    assert!(is_right(&history(5)));
    assert!(!is_right(&history(0)));
}

#[test]
fn a_miscompare_says_something_of_the_blocks_before_and_nothing_of_those_behind() {
    let history = |first, values: &[(u64, Value)]| {
        let mut actions: Vec<_> = values
            .iter()
            .enumerate()
            .map(|(n, (at, value))| (2 * n as u64, 2 * n as u64 + 1, write(*at, *value)))
            .collect();
        let expected = vec![10, 11, 12];
        actions.push((90, 91, Action::Differs { at: block(0), expected, first }));
        actions
    };
    assert!(is_right(&history(1, &[(0, 10), (1, 99), (2, 12)])));
    assert!(is_right(&history(1, &[(0, 10), (1, 99), (2, 98)])));
    assert!(!is_right(&history(1, &[(0, 97), (1, 99), (2, 12)])));
    assert!(!is_right(&history(1, &[(0, 10), (1, 11), (2, 98)])));
}

#[test]
fn a_lost_write_a_torn_swap_and_a_late_effect_are_found() {
    // Lost: an answered write that nobody ever sees.
    assert!(!is_right(&[(0, 1, write(1, 5)), (2, 3, read(1, 0))]));
    // Torn: of two blocks only one was swapped.
    let swap = Action::Swap { at: block(1), expected: vec![0, 0], value: 5 };
    assert!(!is_right(&[(0, 1, swap.clone()), (2, 3, read(1, 5)), (4, 5, read(2, 0))]));
    assert!(is_right(&[(0, 1, swap), (2, 3, read(1, 5)), (4, 5, read(2, 5))]));
    // Late: an aborted write lands after the abort was answered.
    let aborted = |returned| Event { invoked: 0, returned, certain: false, action: write(1, 5) };
    let seen = [event(20, 21, read(1, 0)), event(30, 31, read(1, 5))];
    let history = |returned| [&[aborted(returned)][..], &seen].concat();
    assert!(check(&Values::new(), &history(25)).is_empty());
    assert_eq!(check(&Values::new(), &history(10))[0].block, block(1));
}
