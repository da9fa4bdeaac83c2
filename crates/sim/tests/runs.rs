//! The engine keeps its promises for a while, and broken engines do not.

use std::time::Duration;

use hunt::PlantedBug;
use sim::campaign::Search;
use sim::{MirrorShare, Run, World};

const OPERATIONS: u64 = 1500;

#[test]
fn a_few_seconds_of_power_failures_break_no_promise() {
    let search = Search {
        seed: 1_000_000,
        seeds: u64::MAX,
        time: Duration::from_secs(6),
        operations: OPERATIONS,
        jobs: 1,
        mirrors: MirrorShare::Some,
    };
    let found = search.run(1, |_| {});
    let failure = found.failures.first();
    let words = failure.map(|run| format!("seed {}: {:?}\n{}", run.seed, run.violation, run.story));
    assert!(words.is_none(), "{}", words.unwrap_or_default());
    assert!(found.seeds > 0 && found.figures.crashes > 0);
}

/// Runs that failed once: scrubs that meet in a bad block, a copy that is audited before it has the
/// newest superblock, copies made from one that is spoilt, a copy that hangs at the end, one that a fault of
/// all copies left out; one that had lied and was to leave when the power failed, and checkpoints of a time
/// in which no copy that was known to be sound was current.
#[test]
fn runs_with_mirrors_that_failed_once_break_no_promise() {
    for seed in [100_065, 100_261, 100_296, 200_203, 200_205, 300_397, 300_634] {
        let run = Run { mirrors: MirrorShare::All, ..Run::new(seed, 3000) };
        let made = World::run(&run);
        assert!(made.violation.is_none(), "seed {seed}: {:?}", made.violation);
    }
    // The last two were mistakes of the engine: a member that was attached by a list that could not be made
    // durable, and one that came back before the list that left it out was.
    for seed in [7_000_045, 8_000_581, 9_000_391, 9_100_290, 9_100_715, 9_101_085] {
        let run = Run { mirrors: MirrorShare::Some, ..Run::new(seed, 10_000) };
        let made = World::run(&run);
        assert!(made.violation.is_none(), "seed {seed}: {:?}", made.violation);
    }
}

/// Runs in which COMPARE AND WRITE or metadata found no space although the reserve was hardly drawn upon: what
/// was promised to thick volumes was too much, after copies onto what they shared, also when it was read from the
/// table of a pool that was opened (20022); or was taken by others before the volume was made (50315).
#[test]
fn runs_of_full_pools_that_failed_once_break_no_promise() {
    let (none, some, all) = (MirrorShare::None, MirrorShare::Some, MirrorShare::All);
    // The last two were the simulator's mistakes: time passed between turns of the engine that waited for nothing,
    // and a device that had joined when the power failed was taken away by a probe of the state before.
    let runs = [
        (9_100_606, none),
        (9_100_906, none),
        (20_022, none),
        (50_315, none),
        (190, some),
        (700_086, all),
        (30_000_053, all),
        (62_000_271, none),
    ];
    for (seed, mirrors) in runs {
        let made = World::run(&Run { mirrors, ..Run::new(seed, 10_000) });
        assert!(made.violation.is_none(), "seed {seed}: {:?}", made.violation);
    }
}

#[test]
fn the_same_seed_makes_the_same_run_and_another_seed_another() {
    let sum = |seed| World::run(&Run::new(seed, OPERATIONS)).sum;
    assert_eq!(sum(7), sum(7));
    assert_ne!(sum(7), sum(8));
}

/// These take the optimised simulator some seconds: the step "planted bugs are found" of
/// `cargo xtask test` hunts them, with all others.
const SUBTLE: [PlantedBug; 11] = [
    PlantedBug::NoEpochBump,
    PlantedBug::CutForgetsUnapplied,
    PlantedBug::CutInsideCommit,
    PlantedBug::LendEverything,
    PlantedBug::ReaperForgets,
    PlantedBug::DroppedAfterAnswer,
    PlantedBug::RegionNotMarked,
    PlantedBug::RegionClearedEarly,
    PlantedBug::RebuildMissesQuarantined,
    PlantedBug::HealOverwritesNewer,
    PlantedBug::BitmapNotEnlarged,
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
