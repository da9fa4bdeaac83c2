//! Searches on the command line: how far they go, and how they tell what they find.

pub(crate) mod controllers;
pub(crate) mod engine;

use std::fmt::Debug;
use std::ops::AddAssign;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use clap::Args;
use sim::RunReport;
use sim::campaign::{Found, Search};

/// Runs when neither time nor number is given.
const SEEDS: u64 = 200;

/// Time between two lines that say how far a search is.
const PROGRESS: Duration = Duration::from_secs(5);

/// How far a search goes.
#[derive(Args)]
pub(crate) struct SearchOptions {
    /// Stop after so many seconds.
    #[arg(long)]
    seconds: Option<u64>,
    /// Stop after so many runs.
    #[arg(long)]
    seeds: Option<u64>,
    /// The first run's seed.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Runs at once.
    #[arg(long, default_value_t = 1)]
    jobs: u64,
    /// Go on until so many runs went wrong.
    #[arg(long, default_value_t = 1)]
    failures: usize,
}

impl SearchOptions {
    fn search(&self) -> Search {
        let Self { seconds, seeds, seed, jobs, .. } = *self;
        let seeds = seeds.unwrap_or(if seconds.is_some() { u64::MAX } else { SEEDS });
        let time = seconds.map_or(Duration::MAX, Duration::from_secs);
        Search { seed, seeds, time, jobs }
    }

    /// Plays a search, tells each run that goes wrong as soon as it has, with what plays it again, and how far it
    /// is now and then.
    fn play<F: Copy + Default + AddAssign + Send>(
        &self,
        play: impl Fn(u64) -> RunReport<F> + Sync,
        again: impl Fn(u64) -> String + Sync,
        progress: impl Fn(&Found<F>) -> String + Sync,
    ) -> Found<F> {
        let said = Mutex::new((Instant::now(), 0));
        self.search().run(self.failures, play, |found| {
            let mut said = said.lock().expect("nobody panics with it");
            let (last, told) = &mut *said;
            for outcome in &found.failures[*told..] {
                tell(outcome.seed, &outcome.story, outcome.violation.as_deref());
                terminal::say!("again: gantry-sim {}\n", again(outcome.seed));
            }
            *told = found.failures.len();
            if last.elapsed() >= PROGRESS {
                *last = Instant::now();
                terminal::say!("{}, {} failed", progress(found), found.failures.len());
            }
        })
    }
}

/// How far hunts for deliberate mistakes go.
#[derive(Args)]
pub(crate) struct HuntOptions {
    /// Runs for each mistake.
    #[arg(long, default_value_t = 200)]
    budget: u64,
    /// The first run's seed.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Mistakes that are looked for at once.
    #[arg(long, default_value_t = 1)]
    jobs: u64,
}

impl HuntOptions {
    /// Looks for each mistake, in a thread that takes the next one when it is done, and tells each as soon as it
    /// was found: after how many runs, and as what. Fails if one was not.
    fn hunt<M: Copy + Debug + Sync>(
        &self,
        mistakes: &[M],
        find: impl Fn(M) -> Option<(u64, String)> + Sync,
    ) -> ExitCode {
        terminal::say!("{:<26}{:>8}{:>10}  found as", "planted mistake", "seeds", "seconds");
        let (left, missed) = (Mutex::new(mistakes.iter()), AtomicU64::new(0));
        let next = || left.lock().expect("nobody panics with it").next().copied();
        let work = || {
            while let Some(mistake) = next() {
                let begun = Instant::now();
                let found = find(mistake);
                missed.fetch_add(u64::from(found.is_none()), Ordering::Relaxed);
                let (seeds, words) = found.unwrap_or((self.budget, "NOT FOUND".to_owned()));
                let (name, seconds) = (format!("{mistake:?}"), begun.elapsed().as_secs_f64());
                terminal::say!("{name:<26}{seeds:>8}{seconds:>10.1}  {words}");
            }
        };
        std::thread::scope(|scope| {
            for _ in 0..self.jobs {
                scope.spawn(work);
            }
        });
        exit_code(missed.into_inner() == 0)
    }
}

fn tell(seed: u64, story: &str, violation: Option<&str>) {
    terminal::say!("{story}");
    terminal::say!("seed {seed}: {}", violation.unwrap_or("nothing"));
}

/// Counts, each in a line.
fn say_rows(elapsed: Duration, rows: &[(&str, u64)]) {
    terminal::say!("{:<34}{:>14}", "seconds", format!("{:.1}", elapsed.as_secs_f64()));
    for (name, number) in rows {
        terminal::say!("{name:<34}{number:>14}");
    }
}

fn per_second(count: u64, elapsed: Duration) -> u64 {
    (count as f64 / elapsed.as_secs_f64().max(0.001)) as u64
}

fn exit_code(is_well: bool) -> ExitCode {
    if is_well { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
