//! Commands about the engine: searches, planted mistakes, one run again.

use std::process::ExitCode;

use clap::{Args, ValueEnum};
use hunt::PlantedBug;
use sim::campaign::{self, EngineRuns, Found};
use sim::{MirrorShare, Run, World};

use super::{HuntOptions, SearchOptions, exit_code, per_second, say_rows, tell};

/// Commands of a run, unless asked otherwise.
const OPERATIONS: u64 = 3000;

/// Commands of a run in a search: the longer, the less making and checking the pool costs.
const LONG_OPERATIONS: u64 = 10_000;

/// A search.
#[derive(Args)]
pub(crate) struct RunOptions {
    #[command(flatten)]
    search: SearchOptions,
    /// Commands of each run.
    #[arg(long, default_value_t = LONG_OPERATIONS)]
    ops: u64,
    /// Which runs have mirrors.
    #[arg(long, value_enum, default_value_t = Mirrors::None)]
    mirrors: Mirrors,
    /// Runs in a hundred in which devices leave.
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u64).range(..=100))]
    departures: u64,
}

/// A hunt for mistakes that were planted.
#[derive(Args)]
pub(crate) struct PlantedOptions {
    #[command(flatten)]
    hunt: HuntOptions,
    /// Commands of each run.
    #[arg(long, default_value_t = OPERATIONS)]
    ops: u64,
    /// Look for these only, by their names.
    names: Vec<String>,
}

/// One run again.
#[derive(Args)]
pub(crate) struct ReplayOptions {
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

/// Plays a search.
pub(crate) fn run(options: &RunOptions) -> ExitCode {
    let RunOptions { search, ops, mirrors, departures } = options;
    let runs = EngineRuns { operations: *ops, mirrors: mirrors.share(), departures: *departures };
    let progress = |found: &Found| {
        let (operations, crashes) = (found.figures.operations, found.figures.crashes);
        format!("{} runs, {operations} commands, {crashes} power failures", found.seeds)
    };
    let found = search.play(|seed| runs.play(seed), |seed| repetition(&runs, seed), progress);
    summary(&found);
    exit_code(found.failures.is_empty())
}

/// What plays a run of a search once more.
fn repetition(runs: &EngineRuns, seed: u64) -> String {
    let mirrors = match runs.mirrors {
        MirrorShare::Some => " --mirrors some",
        MirrorShare::All => " --mirrors all",
        MirrorShare::None => "",
    };
    let departures = match runs.departures {
        0 => String::new(),
        share => format!(" --departures {share}"),
    };
    format!("replay {seed} --ops {}{mirrors}{departures}", runs.operations)
}

fn summary(found: &Found) {
    let figures = &found.figures;
    let rows = [
        ("runs", found.seeds),
        ("commands", figures.operations),
        ("commands per second", per_second(figures.operations, found.elapsed)),
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
    say_rows(found.elapsed, &rows);
}

/// Hunts mistakes: in the engine that has them, where each thread switches on its own, and with the simulator
/// that is linked with it.
pub(crate) fn planted(options: &PlantedOptions) -> ExitCode {
    let PlantedOptions { hunt: HuntOptions { budget, seed, .. }, ops, names } = options;
    let is_wanted = |bug: &PlantedBug| names.is_empty() || names.contains(&bug.name());
    let wanted: Vec<_> = PlantedBug::ALL.into_iter().filter(is_wanted).collect();
    options.hunt.hunt(&wanted, |bug| {
        let is_planted = mutants::plant(Some(&bug.name()));
        hunt::campaign::hunt(bug, *seed, *budget, *ops).filter(|_| is_planted)
    })
}

/// Plays one run again.
pub(crate) fn replay(options: &ReplayOptions) -> ExitCode {
    let ReplayOptions { seed, ops, planted, events, mirrors, departures } = options;
    let (seed, operations, events) = (*seed, *ops, *events);
    let Some(name) = planted else {
        let (mirrors, departures) = (mirrors.share(), *departures);
        return replay_engine(&Run { events, mirrors, departures, ..Run::new(seed, operations) });
    };
    replay_planted(hunt::Run { events, ..hunt::Run::new(seed, operations) }, name)
}

fn replay_engine(run: &Run) -> ExitCode {
    campaign::prepare();
    terminal::say!("{:#?}", run.profile());
    let outcome = World::run(run);
    tell(run.seed, &outcome.story, outcome.violation.as_deref());
    terminal::say!("sum {:016x}", outcome.sum);
    exit_code(outcome.violation.is_none())
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
    exit_code(outcome.violation.is_none())
}
