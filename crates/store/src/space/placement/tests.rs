use std::collections::BTreeSet;

use super::super::tests::{allocate, space_of};
use super::*;
use crate::address::Run;
use crate::layout::Layout;

/// Uses a run, or gives it back with the next checkpoint.
fn refer(space: &mut Space, run: Run) {
    run.addresses().for_each(|block| space.first_reference(block));
}

fn free(space: &mut Space, blocks: impl IntoIterator<Item = crate::address::Address>) {
    blocks.into_iter().for_each(|block| space.drop_reference(block));
    space.cut();
    space.checkpoint_durable();
}

fn used(space: &mut Space, blocks: u64) -> Vec<Run> {
    let mut runs = Vec::new();
    let mut left = blocks;
    while left > 0 {
        let run = allocate(space, left.min(256)).unwrap();
        refer(space, run);
        left -= run.blocks;
        runs.push(run);
    }
    runs
}

fn groups_of(space: &Space, runs: &[Run]) -> BTreeSet<u32> {
    runs.iter().map(|run| space.group_of(run.start).group).collect()
}

/// A pool that only overwrites the same data went once round all of its space.
#[test]
fn overwrites_of_little_data_stay_in_groups_that_were_written_before() {
    let mut space = space_of(4 << 30);
    let mut old = used(&mut space, 40_000);
    let mut touched = groups_of(&space, &old);
    for _ in 0..40 {
        let new = used(&mut space, 40_000);
        touched.extend(groups_of(&space, &new));
        let gone = old.iter().flat_map(|run| run.addresses()).collect::<Vec<_>>();
        free(&mut space, gone);
        old = new;
    }
    assert!(touched.len() <= 5, "{touched:?}");
}

#[test]
fn long_requests_leave_short_holes_to_short_ones() {
    let mut space = space_of(2 << 30);
    let runs = used(&mut space, 33_000);
    let first = space.group_of(runs[0].start);
    let blocks = runs.iter().flat_map(|run| run.addresses()).enumerate();
    let holes = blocks.filter(|&(at, block)| at % 5 != 0 && space.group_of(block) == first);
    let holes: Vec<_> = holes.map(|(_, block)| block).collect();
    free(&mut space, holes);
    for _ in 0..200 {
        let Allocation::Run(run) = space.allocate(256, Length::Long) else {
            panic!("there is room")
        };
        assert!(run.blocks >= LONG_BLOCKS);
        assert_ne!(space.group_of(run.start), first);
        let Allocation::Run(run) = space.allocate(2, Length::Short) else {
            panic!("there is room")
        };
        assert_eq!((run.blocks, space.group_of(run.start)), (2, first));
    }
}

#[test]
fn data_written_in_order_lies_in_order() {
    let mut space = space_of(2 << 30);
    let mut last: Option<Run> = None;
    let mut cuts = 0;
    for _ in 0..3000 {
        let Allocation::Run(run) = space.allocate(32, Length::Long) else {
            panic!("there is room")
        };
        cuts += u32::from(last.is_some_and(|last| last.end() != run.start));
        last = Some(run);
    }
    assert!(cuts <= 6, "{cuts}");
}

#[test]
fn the_last_holes_are_found_whatever_the_length() {
    let mut space = space_of(300 << 20);
    let total = space.total();
    let runs = used(&mut space, total);
    assert_eq!(allocate(&mut space, 1), None);
    let every_third = runs.iter().flat_map(|run| run.addresses()).step_by(3).collect::<Vec<_>>();
    let holes = every_third.len() as u64;
    free(&mut space, every_third);
    let mut found = 0;
    while let Some(run) = allocate(&mut space, 64) {
        found += run.blocks;
    }
    assert_eq!((found, space.free()), (holes, 0));
}

#[test]
fn a_refused_group_is_handed_out_of_when_its_device_has_space_again() {
    let mut space = Space::new(&[Layout::new(1 << 30, 0)], 100);
    space.end_probing();
    let Allocation::Load(group) = space.allocate(8, Length::Short) else {
        panic!("none is loaded")
    };
    space.insert_group(group, &[]);
    space.refused(group);
    assert_eq!(space.allocate(8, Length::Short), Allocation::Full);
    space.retry_unavailable();
    assert_eq!(space.allocate(8, Length::Short), Allocation::Load(group));
    space.group_backed(group);
    assert!(matches!(space.allocate(8, Length::Short), Allocation::Run(_)));
}
