//! The model must notice wrong answers; that right ones pass is what every run shows.

use block::Rope;

use super::*;
use crate::content::{bytes_of, tag};

const A: VolumeId = VolumeId(1);
const B: VolumeId = VolumeId(2);

fn spec(id: VolumeId) -> VolumeSpec {
    let name = format!("v{}", id.0);
    VolumeSpec {
        id,
        name,
        size_bytes: 4 << 20,
        thick: false,
        naa: [0; 16],
        snapshot: false,
        created: 0,
    }
}

fn oracle() -> Oracle {
    let mut oracle = Oracle::default();
    for id in [A, B] {
        oracle.apply_change(&Change::CreateVolume(spec(id)));
    }
    oracle
}

fn span(first: u64, count: u64) -> Span {
    Span { first, count }
}

fn write(first: u64, count: u64, number: u64) -> Action {
    Action::Write { volume: A, span: span(first, count), number }
}

fn copy(from: u64, first: u64, count: u64) -> Action {
    Action::Copy { source: A, from, volume: B, span: span(first, count) }
}

fn done() -> Result<Outcome, Failure> {
    Ok(Outcome::Response(Response::Done))
}

fn data(tags: &[Tag]) -> Result<Outcome, Failure> {
    Ok(Outcome::Response(Response::Data(Rope::from(bytes_of(tags)))))
}

fn error(error: BlockError) -> Result<Outcome, Failure> {
    Err(Failure::Block(error))
}

fn tell(oracle: &mut Oracle, action: &Action, result: &Result<Outcome, Failure>) -> bool {
    oracle.finished(action, result, Excuses::default()).is_ok()
}

#[test]
fn a_read_must_bring_the_last_write() {
    let mut oracle = oracle();
    let read = Action::Read { volume: A, span: span(7, 2) };
    assert!(tell(&mut oracle, &read, &data(&[0, 0])));
    assert!(tell(&mut oracle, &write(8, 8, 5), &done()));
    assert!(tell(&mut oracle, &read, &data(&[0, tag(5, 0)])));
    assert!(!tell(&mut oracle, &read, &data(&[0, tag(5, 1)])), "another sector's content");
    assert!(!tell(&mut oracle, &read, &data(&[0, 0])), "older content");
    assert!(!tell(&mut oracle, &read, &data(&[0])), "too short");
    assert!(!tell(&mut oracle, &read, &done()), "no data");
}

#[test]
fn a_compare_and_write_must_compare_right() {
    let mut oracle = oracle();
    tell(&mut oracle, &write(0, 8, 5), &done());
    let compare = |expected: Vec<Tag>| Action::CompareAndWrite {
        volume: A,
        span: span(0, 1),
        expected,
        number: 6,
    };
    let miscompare = |offset| error(BlockError::Miscompare { offset });
    assert!(!tell(&mut oracle, &compare(vec![0]), &done()));
    assert!(!tell(&mut oracle, &compare(vec![tag(5, 0)]), &miscompare(0)));
    assert!(!tell(&mut oracle, &compare(vec![0]), &miscompare(500)));
    assert!(tell(&mut oracle, &compare(vec![0]), &miscompare(0)));
    assert!(tell(&mut oracle, &compare(vec![tag(5, 0)]), &done()));
}

#[test]
fn an_error_must_have_a_reason() {
    let mut oracle = oracle();
    let far = write(8191, 2, 1);
    assert!(tell(&mut oracle, &far, &error(BlockError::OutOfRange)));
    assert!(!tell(&mut oracle, &far, &done()));
    let near = write(8190, 2, 1);
    for wrong in [
        BlockError::OutOfRange,
        BlockError::NoSuchVolume,
        BlockError::Medium { offset: 0 },
        BlockError::ReadOnly,
        BlockError::Busy,
        BlockError::Closed,
    ] {
        assert!(!tell(&mut oracle, &near, &error(wrong)), "{wrong}");
    }
    assert!(tell(&mut oracle, &near, &error(BlockError::OutOfSpace)));
    let unmap = Action::Unmap { volume: A, spans: vec![span(0, 8)] };
    assert!(!tell(&mut oracle, &unmap, &error(BlockError::OutOfSpace)));
}

#[test]
fn what_was_under_way_is_found_as_a_whole_or_not_at_all() {
    let effect = oracle().effects(&write(0, 8, 5)).remove(0);
    let after = |found: Vec<Tag>| {
        let mut oracle = oracle();
        let effects = [effect.clone()];
        let happened = oracle.explain(&effects, |_, _| Ok(found.clone())).unwrap();
        let clean = oracle.check_content(A, span(0, 8), &found).is_ok();
        (happened, clean)
    };
    assert_eq!(after(vec![0; 8]), (0, true));
    assert_eq!(after(new_tags(5, 8)), (1, true));
    let mut torn = new_tags(5, 8);
    torn[3] = 0;
    assert_eq!(after(torn), (0, false));
}

#[test]
fn a_copy_takes_the_source_as_it_was_and_a_clone_is_a_point_in_time() {
    let mut oracle = oracle();
    tell(&mut oracle, &write(0, 16, 5), &done());
    tell(&mut oracle, &copy(3, 100, 4), &done());
    assert_eq!(oracle.tags(B, span(100, 4)), &new_tags(5, 16)[3..7]);
    let clone = Action::Change(Change::CloneVolumes(vec![(A, spec(VolumeId(3)))]));
    assert!(tell(&mut oracle, &clone, &Ok(Outcome::Changed)));
    tell(&mut oracle, &write(0, 16, 6), &done());
    assert_eq!(oracle.tags(VolumeId(3), span(0, 16)), new_tags(5, 16));
    assert!(!tell(&mut oracle, &clone, &Ok(Outcome::Changed)), "the name is taken");
}

#[test]
fn a_misaligned_copy_comes_in_mebibytes_that_cover_its_destination() {
    let oracle = oracle();
    for (from, first) in [(0, 1), (1, 0)] {
        let mut effects = oracle.effects(&copy(from, first, 5000));
        assert_eq!(effects.len(), 3);
        effects.sort_by_key(|effect| effect.first);
        let mut at = first;
        for effect in &effects {
            assert_eq!(effect.first, at);
            at = effect.span().end();
        }
        assert_eq!(at, first + 5000);
    }
    assert_eq!(oracle.effects(&copy(8, 0, 5000)).len(), 1);
}

#[test]
fn a_map_status_must_not_call_data_a_hole() {
    let mut oracle = oracle();
    tell(&mut oracle, &write(8, 8, 5), &done());
    let action = Action::MapStatus { volume: A, span: span(0, 24) };
    let extent = |offset, length, state| block::MapExtent {
        range: block::ByteRange::new(offset, length),
        state,
    };
    let answer = |extents| Ok(Outcome::Response(Response::Map(extents)));
    let right = vec![extent(0, 4096, MapState::Deallocated), extent(4096, 4096, MapState::Mapped)];
    assert!(tell(&mut oracle, &action, &answer(right)));
    assert!(!tell(&mut oracle, &action, &answer(vec![extent(0, 8192, MapState::Deallocated)])));
    assert!(!tell(&mut oracle, &action, &answer(vec![extent(4096, 4096, MapState::Mapped)])));
    assert!(!tell(&mut oracle, &action, &answer(vec![])));
}
