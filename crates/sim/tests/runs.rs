//! The engine keeps its promises for a while, and broken engines do not.

use std::time::Duration;

use hunt::PlantedBug;
use sim::campaign::Search;
use sim::{Run, World};

const OPERATIONS: u64 = 1500;

#[test]
fn a_few_seconds_of_power_failures_break_no_promise() {
    let search = Search {
        seed: 1_000_000,
        seeds: u64::MAX,
        time: Duration::from_secs(6),
        operations: OPERATIONS,
        jobs: 1,
    };
    let found = search.run(1, |_| {});
    let failure = found.failures.first();
    let words = failure.map(|run| format!("seed {}: {:?}\n{}", run.seed, run.violation, run.story));
    assert!(words.is_none(), "{}", words.unwrap_or_default());
    assert!(found.seeds > 0 && found.figures.crashes > 0);
}

#[test]
fn the_same_seed_makes_the_same_run_and_another_seed_another() {
    let sum = |seed| World::run(&Run::new(seed, OPERATIONS)).sum;
    assert_eq!(sum(7), sum(7));
    assert_ne!(sum(7), sum(8));
}

/// These take the optimised simulator some seconds: the step "planted bugs are found" of
/// `cargo xtask test` hunts them, with all others.
const SUBTLE: [PlantedBug; 5] = [
    PlantedBug::NoEpochBump,
    PlantedBug::CutForgetsUnapplied,
    PlantedBug::CutInsideCommit,
    PlantedBug::LendEverything,
    PlantedBug::ReaperForgets,
];

#[test]
fn every_planted_bug_that_is_not_subtle_is_found_at_once() {
    let missed: Vec<_> = PlantedBug::ALL
        .into_iter()
        .filter(|bug| !SUBTLE.contains(bug))
        .filter(|bug| !is_found(*bug))
        .collect();
    assert!(missed.is_empty(), "not found: {missed:?}");
}

fn is_found(bug: PlantedBug) -> bool {
    mutants::plant(Some(&bug.name())) && hunt::campaign::hunt(bug, 1, 20, 3000).outcome.is_some()
}

#[test]
fn the_engine_with_mistakes_has_those_that_are_hunted_and_no_others() {
    let mut names = PlantedBug::ALL.map(PlantedBug::name);
    names.sort();
    assert_eq!(names, mutants::NAMES);
    assert!(!mutants::plant(Some("NoSuchMistake")));
}

/// The simulator plays the engine that ships. With no mistake switched on, the one that has them is
/// the same.
#[test]
fn the_engine_with_mistakes_makes_the_same_run_while_none_is_on() {
    assert!(mutants::plant(None));
    for seed in 1..=4 {
        let sum = World::run(&Run::new(seed, OPERATIONS)).sum;
        assert_eq!(hunt::World::run(&hunt::Run::new(seed, OPERATIONS)).sum, sum);
    }
}
