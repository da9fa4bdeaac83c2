//! The command line of the simulator.
#![forbid(unsafe_code)]

use std::process::ExitCode;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use clap::{Parser, Subcommand, ValueEnum};
use hunt::PlantedBug;
use sim::campaign::{self, Found, Search};
use sim::{MirrorShare, Run, World};

/// Simulates the pool engine on a disk that loses power, and looks for broken promises.
#[derive(Parser)]
#[command(name = "gantry-sim", version)]
struct Options {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Play many runs.
    Run {
        /// Stop after so many seconds.
        #[arg(long)]
        seconds: Option<u64>,
        /// Stop after so many runs.
        #[arg(long)]
        seeds: Option<u64>,
        /// The first run's seed.
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// Commands of each run.
        #[arg(long, default_value_t = LONG_OPERATIONS)]
        ops: u64,
        /// Runs at once.
        #[arg(long, default_value_t = 1)]
        jobs: u64,
        /// Go on until so many runs went wrong.
        #[arg(long, default_value_t = 1)]
        failures: usize,
        /// Which runs have mirrors.
        #[arg(long, value_enum, default_value_t = Mirrors::None)]
        mirrors: Mirrors,
        /// Runs in a hundred in which devices leave.
        #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u64).range(..=100))]
        departures: u64,
    },
    /// Look for each of the deliberate mistakes in the engine; every one must be found.
    Planted {
        /// Runs for each mistake.
        #[arg(long, default_value_t = 200)]
        budget: u64,
        /// The first run's seed.
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// Commands of each run.
        #[arg(long, default_value_t = OPERATIONS)]
        ops: u64,
        /// Look for these only, by their names.
        names: Vec<String>,
    },
    /// Play one run again and tell its story.
    Replay {
        /// Its seed.
        seed: u64,
        /// Commands, as in the run that found it.
        #[arg(long, default_value_t = OPERATIONS)]
        ops: u64,
        /// A mistake to plant, by its name.
        #[arg(long)]
        planted: Option<String>,
        /// How many of the last events to tell.
        #[arg(long, default_value_t = sim::limits::TRACE_EVENTS)]
        events: usize,
        /// Which runs have mirrors, as in the search that found it.
        #[arg(long, value_enum, default_value_t = Mirrors::None)]
        mirrors: Mirrors,
        /// Runs in a hundred in which devices leave, as in the search that found it.
        #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u64).range(..=100))]
        departures: u64,
    },
}

/// Which runs have mirrors.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Mirrors {
    /// About a third of them, by their seeds.
    Some,
    /// Every one.
    All,
    /// None.
    None,
}

impl Mirrors {
    fn share(self) -> MirrorShare {
        match self {
            Self::Some => MirrorShare::Some,
            Self::All => MirrorShare::All,
            Self::None => MirrorShare::None,
        }
    }
}

/// Commands of a run, unless asked otherwise.
const OPERATIONS: u64 = 3000;

/// Commands of a run in a search: the longer, the less making and checking the pool costs.
const LONG_OPERATIONS: u64 = 10_000;

/// Runs when neither time nor number is given.
const SEEDS: u64 = 200;

fn main() -> ExitCode {
    match Options::parse().command {
        Command::Run { seconds, seeds, seed, ops, jobs, failures, mirrors, departures } => {
            let seeds = seeds.unwrap_or(if seconds.is_some() { u64::MAX } else { SEEDS });
            let time = seconds.map_or(Duration::MAX, Duration::from_secs);
            let mirrors = mirrors.share();
            let operations = ops;
            run(&Search { seed, seeds, time, operations, jobs, mirrors, departures }, failures)
        }
        Command::Planted { budget, seed, ops, names } => planted(budget, seed, ops, &names),
        Command::Replay { seed, ops, planted: None, events, mirrors, departures } => {
            replay(Run { events, mirrors: mirrors.share(), departures, ..Run::new(seed, ops) })
        }
        Command::Replay { seed, ops, planted: Some(name), events, .. } => {
            replay_planted(hunt::Run { events, ..hunt::Run::new(seed, ops) }, &name)
        }
    }
}

/// Plays a search, tells each run that goes wrong as soon as it has, and how far it is now and then.
fn run(search: &Search, failures: usize) -> ExitCode {
    let said = Mutex::new((Instant::now(), 0));
    let found = search.run(failures, |found| {
        let mut said = said.lock().expect("nobody panics with it");
        let (last, told) = &mut *said;
        for outcome in &found.failures[*told..] {
            tell(outcome.seed, &outcome.story, outcome.violation.as_deref());
            terminal::say!("again: gantry-sim replay {}\n", repetition(search, outcome.seed));
        }
        *told = found.failures.len();
        if last.elapsed() >= Duration::from_secs(5) {
            *last = Instant::now();
            let Found { seeds, figures, failures, .. } = found;
            let (operations, crashes) = (figures.operations, figures.crashes);
            let failures = failures.len();
            terminal::say!(
                "{seeds} runs, {operations} commands, {crashes} power failures, {failures} failed"
            );
        }
    });
    summary(&found);
    if found.failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Options of `gantry-sim replay` that play a run of a search once more.
fn repetition(search: &Search, seed: u64) -> String {
    let mirrors = match search.mirrors {
        MirrorShare::Some => " --mirrors some",
        MirrorShare::All => " --mirrors all",
        MirrorShare::None => "",
    };
    let departures = match search.departures {
        0 => String::new(),
        share => format!(" --departures {share}"),
    };
    format!("{seed} --ops {}{mirrors}{departures}", search.operations)
}

fn summary(found: &Found) {
    let figures = &found.figures;
    let seconds = found.elapsed.as_secs_f64();
    let rows = [
        ("runs", found.seeds),
        ("commands", figures.operations),
        ("commands per second", (figures.operations as f64 / seconds.max(0.001)) as u64),
        ("device operations", figures.device_operations),
        ("checkpoints", figures.checkpoints),
        ("power failures", figures.crashes),
        ("  during recovery", figures.recovery_crashes),
        ("  during a checkpoint's switch", figures.checkpoint_crashes),
        ("  while the pool was made", figures.format_crashes),
        ("unannounced commands found done", figures.unannounced),
        ("out of space", figures.out_of_space),
        ("faults injected", figures.faults),
        ("  pool refused or read-only", figures.refusals),
        ("audits of the whole disk", figures.audits),
        ("damaged copies opened", figures.probes),
        ("commands with mirrors", figures.mirrored),
        ("  troubles of copies", figures.troubles),
        ("  openings without all copies", figures.degraded_openings),
        ("  blocks of copies mended", figures.healed),
        ("commands where devices leave", figures.departing),
        ("  devices that began to leave", figures.departures),
        ("  devices that have left", figures.departed),
        ("failed runs", found.failures.len() as u64),
    ];
    terminal::say!("{:<34}{:>14}", "seconds", format!("{seconds:.1}"));
    for (name, number) in rows {
        terminal::say!("{name:<34}{number:>14}");
    }
}

fn tell(seed: u64, story: &str, violation: Option<&str>) {
    terminal::say!("{story}");
    terminal::say!("seed {seed}: {}", violation.unwrap_or("nothing"));
}

/// Hunts mistakes: in the engine that has them, and with the simulator that is linked with it.
fn planted(budget: u64, seed: u64, operations: u64, names: &[String]) -> ExitCode {
    let mut missed = 0;
    terminal::say!("{:<26}{:>8}{:>10}  found as", "planted bug", "seeds", "seconds");
    let is_wanted = |bug: &PlantedBug| names.is_empty() || names.contains(&bug.name());
    for bug in PlantedBug::ALL.into_iter().filter(is_wanted) {
        missed += u64::from(!mutants::plant(Some(&bug.name())));
        let hunt = hunt::campaign::hunt(bug, seed, budget, operations);
        let words = match &hunt.outcome {
            Some(outcome) => outcome.violation.clone().unwrap_or_default(),
            None => "NOT FOUND".to_owned(),
        };
        missed += u64::from(hunt.outcome.is_none());
        let (name, seconds) = (bug.name(), hunt.elapsed.as_secs_f64());
        terminal::say!("{name:<26}{:>8}{seconds:>10.1}  {words}", hunt.seeds);
    }
    if missed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn replay(run: Run) -> ExitCode {
    campaign::prepare();
    terminal::say!("{:#?}", run.profile());
    let outcome = World::run(&run);
    tell(run.seed, &outcome.story, outcome.violation.as_deref());
    terminal::say!("sum {:016x}", outcome.sum);
    if outcome.violation.is_none() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn replay_planted(run: hunt::Run, name: &str) -> ExitCode {
    hunt::campaign::prepare();
    let bug = PlantedBug::named(name).filter(|_| mutants::plant(Some(name)));
    let Some(bug) = bug else {
        terminal::say!("there is no such mistake: {:?}", PlantedBug::ALL);
        return ExitCode::FAILURE;
    };
    let run = hunt::Run { planted: Some(bug), ..run };
    terminal::say!("{:#?}", run.profile());
    let outcome = hunt::World::run(&run);
    tell(run.seed, &outcome.story, outcome.violation.as_deref());
    terminal::say!("sum {:016x}", outcome.sum);
    if outcome.violation.is_none() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
