use super::*;

/// Objects that nobody describes.
struct Nothing;

impl Gather for Nothing {
    fn look(&mut self, _: &Management, _: Scene<'_>) -> bool {
        false
    }

    fn describe(self: Box<Self>, _: &Management, _: Scene<'_>) -> Result<Described, Problem> {
        Ok(Described::later(|| ()))
    }
}

fn ask(gatherings: &mut Gatherings, route: Route, with_secrets: bool) {
    let subject = Subject { route, with_secrets, session: None };
    gatherings.add(subject, Box::new(Nothing), Caller::default());
}

fn waiting(gatherings: &Gatherings) -> Vec<usize> {
    gatherings.waiting.iter().map(|gathering| gathering.callers.len()).collect()
}

#[test]
fn a_turn_looks_at_so_many_objects_and_no_more() {
    let mut gatherings = Gatherings::default();
    ask(&mut gatherings, Route::ListVolumes, false);
    let mut left = 10 * GATHERED_PER_TURN;
    let mut turns = 0;
    loop {
        let before = left;
        let ended = gatherings.turn(
            || false,
            |_| {
                left -= 1;
                Ok(left > 0)
            },
        );
        turns += 1;
        assert!(before - left <= GATHERED_PER_TURN);
        if !ended.is_empty() {
            break;
        }
    }
    assert_eq!((left, turns), (0, 10));
    assert!(gatherings.waiting.is_empty());
}

#[test]
fn a_turn_whose_time_is_over_has_looked_at_one_object() {
    let mut gatherings = Gatherings::default();
    ask(&mut gatherings, Route::ListVolumes, false);
    let mut looked = 0;
    gatherings.turn(
        || true,
        |_| {
            looked += 1;
            Ok(true)
        },
    );
    assert_eq!(looked, 1);
}

/// Who asks while a look is under way may have changed what it has seen already.
#[test]
fn who_asks_for_the_same_shares_a_look_that_has_not_begun() {
    let mut gatherings = Gatherings::default();
    for _ in 0..3 {
        ask(&mut gatherings, Route::ListVolumes, false);
    }
    assert_eq!(waiting(&gatherings), [3]);
    gatherings.turn(|| true, |_| Ok(true));
    for _ in 0..2 {
        ask(&mut gatherings, Route::ListVolumes, false);
    }
    assert_eq!(waiting(&gatherings), [3, 2]);
    let ended = gatherings.turn(|| true, |_| Ok(false));
    assert_eq!(ended.len(), 1);
    ask(&mut gatherings, Route::ListVolumes, false);
    assert_eq!(waiting(&gatherings), [3]);
}

#[test]
fn secrets_are_for_those_who_asked_for_them() {
    let mut gatherings = Gatherings::default();
    ask(&mut gatherings, Route::ShowConfiguration, true);
    ask(&mut gatherings, Route::ShowConfiguration, false);
    assert_eq!(waiting(&gatherings), [1, 1]);
}

#[test]
fn a_mistake_ends_the_look_that_made_it() {
    let mut gatherings = Gatherings::default();
    ask(&mut gatherings, Route::ListVolumes, false);
    ask(&mut gatherings, Route::ListPools, false);
    let mut ended = gatherings.turn(|| true, |_| Err("a planted mistake".to_owned()));
    let (gathering, result) = ended.pop().expect("it ended");
    assert_eq!(gathering.subject.route, Route::ListVolumes);
    assert!(result.is_err());
    assert_eq!(waiting(&gatherings), [1]);
}
