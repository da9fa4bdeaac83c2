//! Subcommands `validate` and `compare`.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand};
use host::validate::cases::Scale;
use host::validate::model::{Report, State, Verdict};
use host::validate::watch::Source;
use host::validate::{self, Order, compare};

/// What can be asked.
#[derive(Debug, Subcommand)]
pub(crate) enum Validation {
    /// The published VAAI cases, an honesty card and lock health, against any array.
    Validate(Box<ValidateArguments>),
    /// Results of 'validate' side by side: score cards, cases, honesty, locks.
    Compare {
        /// Files result.json, up to 16; with NAME= before the file the array is called so.
        #[arg(required = true, num_args = 2..=16, value_name = "[NAME=]RESULT.JSON")]
        results: Vec<String>,
        /// Write a page, too: compare.html in this folder.
        #[arg(long)]
        out: Option<PathBuf>,
    },
}

/// What 'validate' can be told.
#[derive(Debug, Args)]
pub(crate) struct ValidateArguments {
    /// A LUN: iscsi://[USER%PASSWORD@]HOST:PORT/TARGET/LUN. All that is on it is lost.
    url: String,
    /// Another LUN of the array, or another path to the first one; can be repeated.
    #[arg(long)]
    url2: Vec<String>,
    /// A thin LUN that is larger than the free space of its pool, for Q4.
    #[arg(long)]
    small: Option<String>,
    /// A command that adds space to that pool; without it, a disk is deleted.
    #[arg(long, requires = "small")]
    grow: Option<String>,
    /// A command that cuts the array's power and starts it again: shows whether FUA is kept.
    #[arg(long)]
    power_cut: Option<String>,
    /// A command that turns EXTENDED COPY and WRITE SAME off or on in the array, as the variable
    /// SWITCH says, for M3.
    #[arg(long, value_name = "COMMAND")]
    array_switch: Option<String>,
    /// A command that ends the controller whose portal (HOST:PORT) the variable PORTAL has, for C1;
    /// the LUN's paths through the others are given by --url2.
    #[arg(long, value_name = "COMMAND")]
    lose_controller: Option<String>,
    /// A command that starts that controller again.
    #[arg(long, value_name = "COMMAND", requires = "lose_controller")]
    return_controller: Option<String>,
    /// End with an error also if a target was missed, or a promise broken or not answered.
    #[arg(long)]
    strict: bool,
    /// Only these: Q1 to M3, C1, honesty, locks.
    #[arg(long, value_delimiter = ',')]
    case: Vec<String>,
    /// The documents' sizes.
    #[arg(long, conflicts_with = "scale")]
    full: bool,
    /// Sizes.
    #[arg(long, value_enum, default_value = "scaled")]
    scale: Scale,
    /// How often each variant is run.
    #[arg(long, default_value_t = 3)]
    rounds: u32,
    /// Leave out what is measured with the offloads off.
    #[arg(long)]
    only_on: bool,
    /// Overwrite the LUNs though something is on them.
    #[arg(long)]
    erase: bool,
    /// What a reader of the report should know of this run, for example its wire.
    #[arg(long)]
    remark: Option<String>,
    /// The array's process, when it runs on this machine: tells its processor time.
    #[arg(long)]
    array_pid: Option<u32>,
    /// The array's own counters in Prometheus' text format: http://HOST:PORT/metrics.
    #[arg(long)]
    array_metrics: Option<String>,
    /// A token for that page.
    #[arg(long, requires = "array_metrics", env = "GANTRY_ARRAY_TOKEN", hide_env_values = true)]
    array_token: Option<String>,
    /// A counter of that page to be drawn, besides those that are known; can be repeated.
    #[arg(long, requires = "array_metrics")]
    array_counter: Vec<String>,
    /// Folder of the results; an interrupted validation goes on in it.
    #[arg(long, default_value = "gantry-validate")]
    out: PathBuf,
}

/// Carries out what was asked.
///
/// # Errors
/// Whatever goes wrong; a case that failed, too.
pub(crate) fn run(words: &Validation, as_json: bool) -> Result<()> {
    match words {
        Validation::Validate(arguments) => validate_it(arguments, as_json),
        Validation::Compare { results, out } => {
            let reports: Vec<Report> =
                results.iter().map(|word| compare::read_named(word)).collect::<Result<_>>()?;
            let tables = compare::tables(&reports);
            terminal::say_part!("{}", compare::text(&tables));
            let Some(out) = out else { return Ok(()) };
            let path = out.join("compare.html");
            fs::create_dir_all(out)?;
            fs::write(&path, compare::page(&reports, &tables))
                .with_context(|| path.display().to_string())
        }
    }
}

fn validate_it(arguments: &ValidateArguments, as_json: bool) -> Result<()> {
    let urls = [std::slice::from_ref(&arguments.url), &arguments.url2].concat();
    let order = Order {
        urls,
        small: arguments.small.clone(),
        grow: arguments.grow.clone(),
        power_cut: arguments.power_cut.clone(),
        array_switch: arguments.array_switch.clone(),
        lose_controller: arguments.lose_controller.clone(),
        return_controller: arguments.return_controller.clone(),
        only: arguments.case.clone(),
        scale: if arguments.full { Scale::Full } else { arguments.scale },
        rounds: arguments.rounds,
        only_on: arguments.only_on,
        erase: arguments.erase,
        remark: arguments.remark.clone(),
        watch: Source {
            process: arguments.array_pid,
            metrics: arguments.array_metrics.clone(),
            token: arguments.array_token.clone(),
            counters: arguments.array_counter.clone(),
        },
        out: arguments.out.clone(),
    };
    let report = validate::run(&order)?;
    if as_json {
        terminal::say!("{}", serde_json::to_string(&report)?);
    } else {
        terminal::say_part!("{}", summary(&report));
        terminal::say!("{}", order.out.join("report.html").display());
    }
    Ending::of(arguments).judge(&report)
}

/// When a validation ends with an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    /// When a case failed.
    Lenient,
    /// Also when a target was missed, or a promise broken or not answered.
    Strict,
}

impl Ending {
    fn of(arguments: &ValidateArguments) -> Self {
        if arguments.strict { Self::Strict } else { Self::Lenient }
    }

    fn judge(self, report: &Report) -> Result<()> {
        let failed = report.cases.iter().filter(|case| matches!(case.state, State::Failed(_)));
        let failed: Vec<&str> = failed.map(|case| case.id.as_str()).collect();
        if !failed.is_empty() {
            bail!("failed: {}", failed.join(", "));
        }
        let missed = match self {
            Self::Lenient => Vec::new(),
            Self::Strict => missed(report),
        };
        if missed.is_empty() { Ok(()) } else { bail!("--strict: {}", missed.join("; ")) }
    }
}

/// Targets that were missed, promises that were broken or not answered.
fn missed(report: &Report) -> Vec<String> {
    let locks = report.locks.iter().flat_map(|locks| &locks.targets);
    let targets = report.cases.iter().flat_map(|case| &case.targets).chain(locks);
    let targets = targets.filter(|target| target.met == Some(false));
    let targets = targets
        .map(|target| format!("{}: {} (wanted {})", target.what, target.found, target.wanted));
    let bad = |verdict| matches!(verdict, Verdict::Lie | Verdict::NoAnswer);
    let probes = report.honesty.iter().filter(|probe| bad(probe.verdict));
    let probes = probes.map(|probe| format!("{} {}", probe.question, probe.verdict.word()));
    targets.chain(probes).collect()
}

fn summary(report: &Report) -> String {
    let mut text = String::new();
    for case in &report.cases {
        let state = match &case.state {
            State::Done => String::new(),
            State::NotMeasured(reason) => format!(" not measured: {reason}"),
            State::Failed(reason) => format!(" FAILED: {reason}"),
        };
        text += &format!("{}{state}\n", case.id);
        for ratio in &case.ratios {
            let (off, on) = (ratio.off, ratio.on);
            text += &format!(
                "   {}: {off:.3} → {on:.3} {}, {:.1} × ({})\n",
                ratio.name,
                ratio.unit,
                ratio.factor,
                ratio.saved()
            );
            for (who, seconds) in [("host", ratio.host_processor), ("array", ratio.array_processor)]
            {
                let seconds = seconds
                    .map_or("not known".to_owned(), |[off, on]| format!("{off:.3} → {on:.3} s/GB"));
                text += &format!("      processor time of the {who}: {seconds}\n");
            }
        }
    }
    let locks = report.locks.iter().flat_map(|locks| &locks.targets);
    for target in report.cases.iter().flat_map(|case| &case.targets).chain(locks) {
        let met = match target.met {
            Some(true) => "met",
            Some(false) => "not met",
            None => "open",
        };
        text += &format!("{met:8} {}: {} (wanted {})\n", target.what, target.found, target.wanted);
    }
    for probe in &report.honesty {
        let word = match probe.verdict {
            Verdict::Lie => "LIE",
            Verdict::NoAnswer => "SILENT",
            Verdict::Honest | Verdict::NotClaimed | Verdict::Unclear => continue,
        };
        text += &format!("{word:8} {} {}: {}\n", probe.question, probe.claim, probe.found);
    }
    text
}

#[cfg(test)]
mod tests;
