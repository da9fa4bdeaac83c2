//! `validate`: the published cases, an honesty card and lock health, against any array. Offloads
//! off and on in turns, so that drift cancels; contents always read back.
//!
//! Nothing here knows an array's management interface: what is asked, is asked by SCSI.

pub mod bench;
pub mod cases;
pub mod compare;
mod content;
mod health;
mod honesty;
mod judge;
mod meter;
pub mod model;
mod progress;
mod report;
mod space;
mod store;
pub mod watch;

use std::path::PathBuf;
use std::time::{Instant, SystemTime};

use anyhow::{Result, bail, ensure};

use bench::Bench;
use cases::{Scale, Spec, Way};
use model::{Case, FORMAT, LockHealth, Probe, Report, Run, State, Variant};
use progress::Progress;
use store::Store;

pub use report::junit_xml;

/// What is to be validated.
#[derive(Clone, Debug)]
pub struct Order {
    /// Addresses of LUNs; those that lead to the same one are paths to it.
    pub urls: Vec<String>,
    /// A thin LUN that is larger than its pool, for Q4.
    pub small: Option<String>,
    /// A command that adds space to that pool.
    pub grow: Option<String>,
    /// A command that cuts the array's power and starts it again.
    pub power_cut: Option<String>,
    /// A command that turns EXTENDED COPY and WRITE SAME off or on in the array, as SWITCH says.
    pub array_switch: Option<String>,
    /// A command that ends the controller with the portal that PORTAL names.
    pub lose_controller: Option<String>,
    /// A command that starts it again.
    pub return_controller: Option<String>,
    /// Ids of cases, 'honesty', 'locks'; all when empty.
    pub only: Vec<String>,
    /// Sizes.
    pub scale: Scale,
    /// Rounds.
    pub rounds: u32,
    /// Leave out all variants with the offloads off.
    pub only_on: bool,
    /// Overwrite what is on the LUNs.
    pub erase: bool,
    /// What a reader should know of this run.
    pub remark: Option<String>,
    /// Where the array's own figures come from.
    pub watch: watch::Source,
    /// Folder of the results.
    pub out: PathBuf,
}

/// What all cases share.
pub struct Context {
    /// The LUNs.
    pub bench: Bench,
    /// The LUN of Q4.
    pub small: Option<Bench>,
    /// The command of Q4.
    pub grow: Option<String>,
    /// The command that cuts the power.
    pub power_cut: Option<String>,
    /// The command of M3.
    pub array_switch: Option<String>,
    /// The commands of C1.
    pub lose_controller: Option<String>,
    /// The second one.
    pub return_controller: Option<String>,
    /// Sizes.
    pub scale: Scale,
}

impl Context {
    /// Unmounts all.
    fn unmount(&self, stores: Vec<crate::esxi::datastore::Datastore>) -> Result<()> {
        for store in stores {
            store.volume.unmount()?;
        }
        Ok(())
    }
}

/// A case cannot be measured on this array; not a failure.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NotHere(pub String);

/// One measurement to make.
#[derive(Clone, Copy)]
struct Step<'a> {
    spec: &'a Spec,
    way: Way,
    round: u32,
}

/// The parts that are no published case.
const PARTS: [&str; 2] = ["honesty", "locks"];

/// Validates; returns what was found. The results are in the folder, too.
///
/// # Errors
/// When the array cannot be reached, the LUNs are in use, or the folder cannot be written. What
/// goes wrong in a case is in the report.
pub fn run(order: &Order) -> Result<Report> {
    let specs = cases::all();
    refuse_unknown(order, &specs)?;
    watch::choose(order.watch.clone())?;
    let bench = Bench::connect(&order.urls)?;
    let small = order.small.as_ref().map(|url| Bench::connect(std::slice::from_ref(url)));
    let small = small.transpose()?;
    bench.choose_statistics();
    let store = Store::open(order, &bench)?;
    if !order.erase && store.is_new() {
        [Some(&bench), small.as_ref()].into_iter().flatten().try_for_each(Bench::refuse_used)?;
    }
    store.begin()?;
    let context = Context {
        bench,
        small,
        grow: order.grow.clone(),
        power_cut: order.power_cut.clone(),
        array_switch: order.array_switch.clone(),
        lose_controller: order.lose_controller.clone(),
        return_controller: order.return_controller.clone(),
        scale: order.scale,
    };
    let wanted: Vec<&Spec> = specs.iter().filter(|spec| is_wanted(order, spec.id)).collect();
    let promises = if is_wanted(order, "honesty") { honesty::count() } else { 0 };
    let parts = promises + usize::from(is_wanted(order, "locks"));
    let mut progress = Progress::new(steps(order, &wanted).count() + parts);
    let mut report = head(order, &context);
    for spec in wanted {
        let case = one_case(order, &context, &store, spec, &mut progress)?;
        report.cases.push(case);
        write(order, &store, &mut report)?;
    }
    if is_wanted(order, "honesty") {
        report.honesty = honesty::examine(&context, &store, &mut progress)?;
        write(order, &store, &mut report)?;
    }
    if is_wanted(order, "locks") {
        progress.begin("lock health", "parts");
        report.locks = Some(health::examine(&context, &store)?);
        progress.done("parts");
    }
    write(order, &store, &mut report)?;
    Ok(report)
}

/// Writes the report as far as it goes: after each part, so that it is there whatever comes.
fn write(order: &Order, store: &Store, report: &mut Report) -> Result<()> {
    report.seconds = store.seconds();
    report::write(&order.out, report)
}

fn refuse_unknown(order: &Order, specs: &[Spec]) -> Result<()> {
    ensure!((1..=99).contains(&order.rounds), "--rounds: 1 to 99");
    for wanted in &order.only {
        let known = |id: &str| id.eq_ignore_ascii_case(wanted);
        if !specs.iter().any(|spec| known(spec.id)) && !PARTS.iter().any(|part| known(part)) {
            let ids: Vec<&str> = specs.iter().map(|spec| spec.id).chain(PARTS).collect();
            bail!("--case: there is no '{wanted}', only {}", ids.join(", "));
        }
    }
    Ok(())
}

fn is_wanted(order: &Order, id: &str) -> bool {
    order.only.is_empty() || order.only.iter().any(|wanted| wanted.eq_ignore_ascii_case(id))
}

fn head(order: &Order, context: &Context) -> Report {
    let cores = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let machine = [Some(format!("{cores} cores, Linux {}", kernel.trim())), order.remark.clone()];
    Report {
        format: FORMAT,
        program: format!("gantry-host {}", env!("CARGO_PKG_VERSION")),
        started: humantime::format_rfc3339_seconds(SystemTime::now()).to_string(),
        seconds: 0.0,
        scale: order.scale.name().to_owned(),
        rounds: order.rounds,
        machine: machine.into_iter().flatten().collect::<Vec<_>>().join(" · "),
        array: context.bench.words(),
        cases: Vec::new(),
        honesty: Vec::<Probe>::new(),
        locks: None::<LockHealth>,
    }
}

/// The variants of a case in the order in which a round runs them: every second round backwards,
/// so that a drift meets off and on alike.
fn ways(order: &Order, spec: &Spec, round: u32) -> Vec<Way> {
    let allowed = |way: &&Way| !order.only_on || way.vaai != Some(bench::Vaai::Off);
    let mut ways: Vec<Way> = spec.ways.iter().filter(allowed).copied().collect();
    if round % 2 == 1 {
        ways.reverse();
    }
    ways
}

fn steps<'a>(order: &Order, specs: &[&'a Spec]) -> impl Iterator<Item = Step<'a>> {
    let mut steps = Vec::new();
    for spec in specs {
        for round in 0..order.rounds {
            let ways = ways(order, spec, round).into_iter();
            steps.extend(ways.map(|way| Step { spec, way, round }));
        }
    }
    steps.into_iter()
}

fn one_case(
    order: &Order,
    context: &Context,
    store: &Store,
    spec: &Spec,
    progress: &mut Progress,
) -> Result<Case> {
    let mut runs: Vec<(&str, Run)> = Vec::new();
    let mut state = obstacle(context, spec);
    let mut notes = Vec::new();
    let mut prepared = false;
    for step in steps(order, &[spec]) {
        let name = format!("{}-{}-{}", spec.id, step.way.name, step.round);
        if state == State::Done {
            match kept_run(context, store, step, &name, &mut prepared, progress) {
                Ok(run) => runs.push((step.way.name, run)),
                // What was measured before counts, if a later round only cannot be had.
                Err(error) => match failure(&error) {
                    State::NotMeasured(reason) if !runs.is_empty() => {
                        notes.push(format!("Round {}: {reason}.", step.round + 1));
                    }
                    other => state = other,
                },
            }
        }
        progress.done(spec.id);
    }
    let mut case = result(context, spec, state, runs);
    case.notes.append(&mut notes);
    Ok(case)
}

fn kept_run(
    context: &Context,
    store: &Store,
    step: Step<'_>,
    name: &str,
    prepared: &mut bool,
    progress: &mut Progress,
) -> Result<Run> {
    store.kept(name, || {
        let what = format!("{} {}, round {}", step.spec.id, step.way.name, step.round + 1);
        progress.begin(&what, step.spec.id);
        if !*prepared {
            (step.spec.prepare)(context)?;
            *prepared = true;
        }
        let started = Instant::now();
        let mut run = (step.spec.run)(context, step.way)?;
        (run.round, run.at) = (step.round, store.seconds() + started.elapsed().as_secs_f64());
        Ok(run)
    })
}

/// The notes that are true for this run.
fn notes(context: &Context, spec: &Spec) -> Vec<String> {
    let true_here = spec.notes.iter().filter(|(_, applies)| applies(context));
    true_here.map(|(note, _)| (*note).to_owned()).collect()
}

fn obstacle(context: &Context, spec: &Spec) -> State {
    let needs = (spec.needs)(context.scale);
    let units = 0..=context.bench.other();
    let smallest = units.map(|unit| context.bench.size_bytes(unit)).min().unwrap_or(0);
    if smallest < needs {
        let (needs, has) = (cases::size(needs), cases::size(smallest));
        return State::NotMeasured(format!("it needs LUNs of {needs}; these have {has}"));
    }
    (spec.obstacle)(context).map_or(State::Done, State::NotMeasured)
}

fn failure(error: &anyhow::Error) -> State {
    match error.downcast_ref::<NotHere>() {
        Some(reason) => State::NotMeasured(reason.to_string()),
        None => State::Failed(format!("{error:#}")),
    }
}

fn result(context: &Context, spec: &Spec, state: State, runs: Vec<(&str, Run)>) -> Case {
    let variant = |way: &Way| {
        let own = runs.iter().filter(|(name, _)| *name == way.name);
        Variant { name: way.name.to_owned(), runs: own.map(|(_, run)| run.clone()).collect() }
    };
    let variants: Vec<Variant> = spec.ways.iter().map(variant).collect();
    let pairs = spec.pairs.iter().filter_map(|pair| judge::compare(&variants, pair));
    Case {
        id: spec.id.to_owned(),
        title: spec.title.to_owned(),
        source: spec.source.to_owned(),
        scenario: spec.scenario.to_owned(),
        published: spec.published.to_owned(),
        sizes: (spec.sizes)(context.scale),
        ratios: pairs.collect(),
        targets: (spec.judge)(context, &variants),
        notes: notes(context, spec),
        variants,
        state,
    }
}

#[cfg(test)]
mod tests;
