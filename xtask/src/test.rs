//! Test pipeline: everything that must be fine before a change goes in.

use std::ffi::OsStr;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use clap::Args;
use comfy_table::Table;
use comfy_table::presets::NOTHING;

use crate::ceph_cluster::Cluster;
use crate::process;
use crate::workspace;
use crate::{check, disk_space, setup, sim, web};

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// How long the simulator searches, in seconds.
    #[arg(long, default_value_t = 60)]
    sim_seconds: u32,
    /// Run the tests of the Linux kernel's own initiator, in an emulated machine, and nothing
    /// else.
    #[arg(long)]
    kernel: bool,
    /// With --kernel: only this scenario; may be repeated.
    #[arg(long, requires = "kernel", value_name = "NAME")]
    scenario: Vec<String>,
    /// Run the tests of the web page in a browser, and nothing else.
    #[arg(long, conflicts_with = "kernel")]
    browser: bool,
    /// Run the tests of devices rbd: against a Ceph cluster that is started for them, and nothing else.
    #[arg(long, conflicts_with_all = ["kernel", "browser"])]
    ceph: bool,
}

/// What became of a step.
struct StepResult {
    step: &'static str,
    result: Result<()>,
    elapsed: Duration,
}

/// Runs every step, also after one that failed, and sums up.
pub(crate) fn run(options: &Options) -> Result<()> {
    if options.kernel {
        return summarize(&[
            measure("setup", setup::run),
            measure("build", build),
            measure("linux kernel", || linux_kernel(&options.scenario)),
        ]);
    }
    if options.browser {
        return summarize(&[
            measure("setup", setup::run),
            measure("build", build),
            measure("browser tests", web::browser_tests),
        ]);
    }
    if options.ceph {
        return summarize(&[
            measure("setup", setup::run),
            measure("setup for Ceph", setup::for_ceph),
            measure("build", build),
            measure("ceph", ceph),
        ]);
    }
    disk_space::check()?;
    let seconds = options.sim_seconds.to_string();
    let simulate =
        || sim::run(&["run", "--seconds", &seconds, "--mirrors", "some"].map(str::to_owned));
    let planted = || sim::run(&["planted".to_owned()]);
    let outcomes = [
        measure("setup", setup::run),
        measure("check", check::run),
        measure("unit tests", unit_tests),
        measure("build", build),
        measure("simulator", simulate),
        measure("planted bugs are found", planted),
        measure("black-box tests", black_box),
        measure("browser tests", web::browser_tests),
    ];
    summarize(&outcomes)
}

fn measure(step: &'static str, run: impl FnOnce() -> Result<()>) -> StepResult {
    terminal::complain!("== {step}");
    let started = Instant::now();
    let result = run();
    if let Err(error) = &result {
        terminal::complain!("== {step} failed: {error:#}");
    }
    StepResult { step, result, elapsed: started.elapsed() }
}

fn unit_tests() -> Result<()> {
    let mut arguments = vec!["test", "--quiet", "--no-fail-fast", "--workspace"];
    // Black-box tests are a step of their own, and the guest's a command of its own.
    arguments.extend(["--exclude", "harness", "--exclude", "guest"]);
    process::run(&process::cargo(), &arguments)
}

/// Builds the binaries that the black-box tests and the measurements run, optimised.
pub(crate) fn build() -> Result<()> {
    build_in("release")
}

/// Builds them in a profile.
pub(crate) fn build_in(profile: &str) -> Result<()> {
    let mut arguments = vec!["build", "--quiet", "--profile", profile];
    for package in ["server", "cli", "host"] {
        arguments.extend(["--package", package]);
    }
    process::run(&process::cargo(), &arguments)
}

/// One test at a time: they measure, and each has a daemon of its own. The daemons are optimised;
/// what asks them need not be, and is built in a fifth of the time.
fn black_box() -> Result<()> {
    black_box_of("harness", &[], &["--test-threads=1"])
}

/// The tables of checks are part of what these tests say, so they are shown.
fn linux_kernel(scenarios: &[String]) -> Result<()> {
    let folder = workspace::root().join("tests/guest/tests/kernel");
    if let Some(name) = scenarios.iter().find(|name| !folder.join(format!("{name}.rs")).exists()) {
        bail!("there is no scenario {name} in {}", folder.display());
    }
    let names: Vec<_> = scenarios.iter().map(|name| format!("{name}::")).collect();
    let names = names.iter().map(String::as_str);
    let options: Vec<_> = ["--test-threads=1", "--nocapture"].into_iter().chain(names).collect();
    black_box_of("guest", &["--release"], &options)
}

/// Tests that need a cluster are ignored elsewhere.
fn ceph() -> Result<()> {
    let cluster = Cluster::start()?;
    let folder = workspace::release_folder();
    let variables: [(&str, &OsStr); 2] = [
        ("GANTRY_BIN_DIR", folder.as_os_str()),
        ("GANTRY_TEST_CEPH_CONF", cluster.conf().as_os_str()),
    ];
    let device = ["test", "--package", "device", "--lib", "--", "--ignored"];
    let unit = process::run_with(&process::cargo(), &device, &variables);
    let black_box =
        ["test", "--package", "harness", "--test", "ceph", "--", "--ignored", "--test-threads=1"];
    let black_box = process::run_with(&process::cargo(), &black_box, &variables);
    cluster.stop()?;
    unit.and(black_box)
}

fn black_box_of(package: &str, profile: &[&str], options: &[&str]) -> Result<()> {
    let folder = workspace::release_folder();
    let variables: [(&str, &OsStr); 1] = [("GANTRY_BIN_DIR", folder.as_os_str())];
    let arguments = ["test", "--no-fail-fast", "--package", package];
    let arguments = [&arguments, profile, &["--"], options].concat();
    process::run_with(&process::cargo(), &arguments, &variables)
}

fn summarize(outcomes: &[StepResult]) -> Result<()> {
    let mut table = Table::new();
    table.load_style(NOTHING).set_header(["STEP", "RESULT", "SECONDS"]);
    for outcome in outcomes {
        let result = if outcome.result.is_ok() { "passed" } else { "FAILED" };
        let seconds = format!("{:.1}", outcome.elapsed.as_secs_f64());
        table.add_row([outcome.step, result, &seconds]);
    }
    terminal::progress!("\n{table}\n");
    let failed = outcomes.iter().filter(|outcome| outcome.result.is_err()).count();
    if failed > 0 {
        bail!("{failed} of {} steps failed", outcomes.len());
    }
    terminal::progress!("\nAll {} steps passed.\n", outcomes.len());
    Ok(())
}
