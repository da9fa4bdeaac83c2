//! Commands about several controllers: searches, planted mistakes, one run again.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use sim::campaign::{self, Found};
use sim::controllers::{Figures, Mistake, Run};

use super::{HuntOptions, SearchOptions, exit_code, per_second, say_rows, tell};

/// Commands of hosts in a run, unless asked otherwise.
const OPERATIONS: u64 = 10_000;

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Play many runs.
    Run {
        #[command(flatten)]
        search: SearchOptions,
        /// Commands of hosts in each run.
        #[arg(long, default_value_t = OPERATIONS)]
        ops: u64,
    },
    /// Look for each of the deliberate mistakes of controllers; every one must be found.
    Planted {
        #[command(flatten)]
        hunt: HuntOptions,
        /// Commands of hosts in each run.
        #[arg(long, default_value_t = OPERATIONS)]
        ops: u64,
        /// Look for these only, by their names.
        #[arg(value_enum)]
        mistakes: Vec<Mistake>,
    },
    /// Play one run again and tell its story.
    Replay(ReplayOptions),
}

#[derive(Args)]
pub(crate) struct ReplayOptions {
    /// Its seed.
    seed: u64,
    /// Commands of hosts, as in the run that found it.
    #[arg(long, default_value_t = OPERATIONS)]
    ops: u64,
    /// A mistake to plant, by its name.
    #[arg(long, value_enum)]
    planted: Option<Mistake>,
    /// How many of the last events to tell.
    #[arg(long, default_value_t = sim::limits::TRACE_EVENTS)]
    events: usize,
}

pub(crate) fn execute(command: &Command) -> ExitCode {
    match command {
        Command::Run { search, ops } => run(search, *ops),
        Command::Planted { hunt, ops, mistakes } => planted(hunt, *ops, mistakes),
        Command::Replay(options) => replay(options),
    }
}

fn run(search: &SearchOptions, operations: u64) -> ExitCode {
    let play = |seed| campaign::play_controllers(&Run { seed, operations, mistake: None });
    let again = |seed| format!("controllers replay {seed} --ops {operations}");
    let progress = |found: &Found<Figures>| {
        let Figures { operations, openings, .. } = found.figures;
        format!("{} runs, {operations} commands, {openings} openings", found.seeds)
    };
    let found = search.play(play, again, progress);
    summary(&found);
    exit_code(found.failures.is_empty())
}

fn summary(found: &Found<Figures>) {
    let figures = &found.figures;
    let rows = [
        ("runs", found.seeds),
        ("commands", figures.operations),
        ("commands per second", per_second(figures.operations, found.elapsed)),
        ("device operations", figures.device_operations),
        ("openings after which hosts were served", figures.openings),
        ("  pools taken by a controller", figures.take_overs),
        ("  asked for by an administrator", figures.asked),
        ("  without some of the members", figures.degraded),
        ("  writes under way at an opening", figures.settled),
        ("members and witnesses that came back", figures.returns),
        ("holders fenced", figures.fences),
        ("owners that learned of it", figures.lost),
        ("pools given up for another one", figures.given_up),
        ("processes that stood still", figures.pauses),
        ("processes killed", figures.kills),
        ("processes that ended", figures.ends),
        ("wires, links and paths cut", figures.cuts),
        ("commands answered not ready", figures.not_ready),
        ("failed runs", found.failures.len() as u64),
    ];
    say_rows(found.elapsed, &rows);
}

fn planted(options: &HuntOptions, operations: u64, wanted: &[Mistake]) -> ExitCode {
    campaign::prepare();
    let wanted = if wanted.is_empty() { &Mistake::ALL } else { wanted };
    let seeds = options.seed..options.seed + options.budget;
    options.hunt(wanted, |mistake| {
        let play = |seed| Run { seed, operations, mistake: Some(mistake) }.play(0).violation;
        seeds.clone().zip(1..).find_map(|(seed, played)| Some((played, play(seed)?)))
    })
}

fn replay(options: &ReplayOptions) -> ExitCode {
    campaign::prepare();
    let ReplayOptions { seed, ops, planted, events } = *options;
    let run = Run { seed, operations: ops, mistake: planted };
    terminal::say!("{:#?}", run.profile());
    let outcome = run.play(events);
    tell(seed, &outcome.story, outcome.violation.as_deref());
    terminal::say!("sum {:016x}", outcome.sum);
    exit_code(outcome.violation.is_none())
}
