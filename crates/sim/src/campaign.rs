//! Test campaigns: many runs in search of violations, and the search for planted bugs.

use std::cell::RefCell;
use std::ops::AddAssign;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::controllers;
use crate::limits::TRACE_EVENTS;
use crate::planted::PlantedBug;
use crate::world::{Figures, MirrorShare, Run, RunReport, World};

/// One run in so many is played twice, to see that it follows from its seed alone.
const REPEAT_ONE_IN: u64 = 32;

/// Memory for buffers of all runs at once; beyond it the heap serves.
const ARENA_BYTES: usize = 512 << 20;

thread_local! {
    static PANIC_PLACE: RefCell<String> = const { RefCell::new(String::new()) };
}

/// A search: runs whose seeds follow each other, whatever they play.
#[derive(Clone, Copy, Debug)]
pub struct Search {
    /// The first seed; the others follow.
    pub seed: u64,
    /// Runs at most.
    pub seeds: u64,
    /// Time at most.
    pub time: Duration,
    /// Runs at once.
    pub jobs: u64,
}

/// What the runs of a search for mistakes of the engine are like.
#[derive(Clone, Copy, Debug)]
pub struct EngineRuns {
    /// Commands of each run.
    pub operations: u64,
    /// Which runs have mirrors.
    pub mirrors: MirrorShare,
    /// Runs in a hundred in which devices leave.
    pub departures: u64,
}

/// What a search found.
#[derive(Debug, Default)]
pub struct Found<F = Figures> {
    /// Runs that came to their end.
    pub seeds: u64,
    /// All that they did.
    pub figures: F,
    /// The first runs that went wrong, by seed.
    pub failures: Vec<RunReport<F>>,
    /// How long it took.
    pub elapsed: Duration,
}

impl Search {
    /// Plays runs until time or seeds are used up or `failures_max` went wrong. `progress` is
    /// told after each.
    pub fn run<F: Copy + Default + AddAssign + Send>(
        &self,
        failures_max: usize,
        play: impl Fn(u64) -> RunReport<F> + Sync,
        progress: impl Fn(&Found<F>) + Sync,
    ) -> Found<F> {
        prepare();
        let begun = Instant::now();
        let next = AtomicU64::new(0);
        let stop = AtomicBool::new(false);
        let found = std::sync::Mutex::new(Found::default());
        let work = || {
            while !stop.load(Ordering::Relaxed) && begun.elapsed() < self.time {
                let index = next.fetch_add(1, Ordering::Relaxed);
                if index >= self.seeds {
                    return;
                }
                let outcome = play(self.seed + index);
                let mut found = found.lock().expect("a run that stops is caught");
                found.seeds += 1;
                found.figures += outcome.figures;
                found.elapsed = begun.elapsed();
                if outcome.violation.is_some() {
                    found.failures.push(outcome);
                    stop.fetch_or(found.failures.len() >= failures_max, Ordering::Relaxed);
                }
                progress(&found);
            }
        };
        std::thread::scope(|scope| {
            for _ in 0..self.jobs {
                scope.spawn(work);
            }
        });
        let mut found = found.into_inner().expect("a run that stops is caught");
        found.failures.sort_by_key(|outcome| outcome.seed);
        found.elapsed = begun.elapsed();
        found
    }
}

impl EngineRuns {
    /// Plays one. I20: the same seed gives the same run.
    pub fn play(&self, seed: u64) -> RunReport {
        let Self { mirrors, departures, operations } = *self;
        let run = Run { mirrors, departures, ..Run::new(seed, operations) };
        twice_now_and_then(seed, || World::run(&run))
    }
}

/// Plays a run of several controllers; what goes wrong once more, for its story.
pub fn play_controllers(run: &controllers::Run) -> RunReport<controllers::Figures> {
    let outcome = twice_now_and_then(run.seed, || run.play(0));
    match outcome.violation {
        Some(_) => run.play(TRACE_EVENTS),
        None => outcome,
    }
}

/// Plays one run in so many twice, to see that it follows from its seed alone.
fn twice_now_and_then<F>(seed: u64, play: impl Fn() -> RunReport<F>) -> RunReport<F> {
    let mut outcome = play();
    if seed.is_multiple_of(REPEAT_ONE_IN)
        && outcome.violation.is_none()
        && play().sum != outcome.sum
    {
        outcome.violation = Some("the same seed gave another run".to_owned());
    }
    outcome
}

/// Looks for one planted bug with at most `budget` seeds, under conditions in which it shows: after how many runs
/// it was found, and as what. The engine has it only in the crate `hunt`, and there only if the caller has switched
/// it on.
pub fn hunt(bug: PlantedBug, seed: u64, budget: u64, operations: u64) -> Option<(u64, String)> {
    prepare();
    let play = |seed| World::run(&Run { planted: Some(bug), ..Run::new(seed, operations) });
    let seeds = (seed..seed + budget).zip(1..);
    seeds.into_iter().find_map(|(seed, played)| Some((played, play(seed).violation?)))
}

/// Keeps the place of a panic instead of printing it, because a panic of the engine is a finding;
/// and sets memory aside for buffers, so that they need not come zeroed from the system.
pub fn prepare() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        block::install_arena(ARENA_BYTES);
        std::panic::set_hook(Box::new(|info| {
            let place = info.location().map(ToString::to_string).unwrap_or_default();
            PANIC_PLACE.with(|last| *last.borrow_mut() = place);
        }));
    });
}

/// Where this thread panicked last.
pub(crate) fn take_panic_place() -> String {
    PANIC_PLACE.with(|place| std::mem::take(&mut *place.borrow_mut()))
}
