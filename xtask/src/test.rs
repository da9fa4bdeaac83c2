//! Test pipeline: everything that must be fine before a change goes in.

mod programs;

use std::ffi::OsStr;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use comfy_table::Table;
use comfy_table::presets::NOTHING;

use self::programs::Kind;
use crate::ceph_cluster::Cluster;
use crate::integrations::Platform;
use crate::package::{self, image};
use crate::process;
use crate::workspace;
use crate::{check, disk_space, foreign, release, setup, sim, web};

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// How long the simulator searches, in seconds.
    #[arg(long, default_value_t = 40)]
    sim_seconds: u32,
    /// Run the tests of the Linux kernel's own initiator, in an emulated machine, and nothing
    /// else.
    #[arg(long)]
    kernel: bool,
    /// With --kernel: only this scenario; may be repeated.
    #[arg(long, requires = "kernel", value_name = "NAME")]
    scenario: Vec<String>,
    /// Run this scenario of the Linux kernel's initiator, too, beside the other tests; may be repeated.
    #[arg(long, value_name = "NAME")]
    with_scenario: Vec<String>,
    /// Run the tests against a Ceph cluster, too, after the other tests.
    #[arg(long)]
    with_ceph: bool,
    /// Run the black-box tests, and nothing else.
    #[arg(long, conflicts_with = "kernel")]
    black_box: bool,
    /// Run the tests of the web page in a browser, and nothing else.
    #[arg(long, conflicts_with_all = ["kernel", "black_box"])]
    browser: bool,
    /// Run the tests of devices rbd: against a Ceph cluster that is started for them, and nothing else.
    #[arg(long, conflicts_with_all = ["kernel", "black_box", "browser"])]
    ceph: bool,
    /// Run the tests with programs that others wrote (initiators in Java and Rust, a reader of VMFS in Python), and
    /// nothing else.
    #[arg(long, conflicts_with_all = ["kernel", "black_box", "browser", "ceph"])]
    foreign: bool,
    /// Run the suites of integrations with platforms (Kubernetes, Proxmox VE, Ansible, Cinder, Terraform, Forklift), and nothing else.
    #[arg(long, conflicts_with_all = ["kernel", "black_box", "browser", "ceph", "foreign"])]
    integrations: bool,
    /// With --integrations: only the suite of this platform; may be repeated.
    #[arg(long, requires = "integrations", value_name = "NAME")]
    platform: Vec<Platform>,
    /// Build the release before from git's history, replace it by today's programs under load, and
    /// nothing else.
    #[arg(long, conflicts_with_all = ["kernel", "black_box", "browser", "ceph", "foreign", "integrations"])]
    upgrade: bool,
    /// Build OCI images of the programs and of the CSI driver, start them by runc, and nothing else. As root, on Debian.
    #[arg(long, conflicts_with_all = ["kernel", "black_box", "browser", "ceph", "foreign", "integrations", "upgrade"])]
    container: bool,
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
            measure("setup for the driver", || setup_for_scenarios(&options.scenario)),
            measure("build", build_for_tests),
            measure("linux kernel", || linux_kernel(&options.scenario)),
        ]);
    }
    if options.black_box {
        return summarize(&[
            measure("setup", setup::run),
            measure("build", build_for_tests),
            measure("black-box tests", || programs::run(&[Kind::BlackBox], processors(), || {})),
        ]);
    }
    if options.browser {
        return summarize(&[
            measure("setup", setup::run),
            measure("build", build_for_tests),
            measure("browser tests", browser_tests),
        ]);
    }
    if options.ceph {
        return summarize(&[
            measure("setup", setup::run),
            measure("setup for Ceph", setup::for_ceph),
            measure("build", build_for_tests),
            measure("ceph", ceph),
        ]);
    }
    if options.foreign {
        return summarize(&[
            measure("setup", setup::run),
            measure("build", build_for_tests),
            measure("foreign initiators", foreign_initiators),
        ]);
    }
    if options.integrations {
        return integration_suites(&options.platform);
    }
    if options.upgrade {
        return summarize(&[
            measure("setup", setup::run),
            measure("build", build_for_tests),
            measure("upgrade", upgrade),
        ]);
    }
    if options.container {
        return summarize(&[
            measure("setup", setup::for_containers),
            measure("build", build_for_tests),
            measure("container", container),
        ]);
    }
    everything(options)
}

/// The suites of these platforms, or of all.
fn integration_suites(wanted: &[Platform]) -> Result<()> {
    let platforms = if wanted.is_empty() { Platform::value_variants() } else { wanted };
    let mut outcomes = vec![
        measure("setup", || setup::for_integrations(platforms)),
        measure("build", build_for_tests),
    ];
    for platform in platforms {
        outcomes.push(measure(platform.name(), || platform.test(&tested_folder())));
    }
    summarize(&outcomes)
}

fn everything(options: &Options) -> Result<()> {
    disk_space::check()?;
    let mut outcomes = vec![
        measure("setup", setup::run),
        measure("build", build_for_tests),
        measure("check", check::run),
        measure("simulator", || search_by_simulators(options.sim_seconds)),
        measure("planted bugs are found", hunt_by_simulators),
    ];
    outcomes.extend(all_tests(&options.with_scenario));
    if options.with_ceph {
        // Alone: how long hosts wait for another controller is part of what they say.
        outcomes.push(measure("setup for Ceph", setup::for_ceph));
        outcomes.push(measure("ceph", ceph));
    }
    summarize(&outcomes)
}

/// The tests. Those of our programs leave the processors idle for two fifths of the time; that is for those with what
/// others wrote, and then for one program more at once.
fn all_tests(scenarios: &[String]) -> Vec<StepResult> {
    let named = scenarios.iter().flat_map(|name| ["--scenario", name]);
    let kernel: Vec<&str> = ["--kernel"].into_iter().chain(named).collect();
    let mut others =
        vec![("foreign initiators", vec!["--foreign"]), ("browser tests", vec!["--browser"])];
    if !scenarios.is_empty() {
        others.push(("linux kernel", kernel));
    }
    let mut of_others = Vec::new();
    let own = measure("unit and black-box tests", || {
        let of_its_own =
            |(step, options): (_, Vec<&str>)| measure(step, || in_the_background(step, &options));
        let before = || of_others.extend(others.into_iter().map(of_its_own));
        programs::run(&[Kind::Unit, Kind::BlackBox], processors(), before)
    });
    std::iter::once(own).chain(of_others).collect()
}

/// Runs this program with these options of its tests at a lower priority, and shows what it printed when it has
/// ended.
fn in_the_background(step: &str, options: &[&str]) -> Result<()> {
    let program = std::env::current_exe()?;
    let head = ["-n", BACKGROUND_NICENESS, &program.to_string_lossy(), "test"].map(str::to_owned);
    let options = options.iter().map(|&option| option.to_owned());
    let arguments: Vec<String> = head.into_iter().chain(options).collect();
    let (printed, result) = process::run_unseen("nice", &arguments, &[], &workspace::root())?;
    terminal::progress!("{step}:\n{printed}");
    result
}

/// Tests in the background take what the others leave.
const BACKGROUND_NICENESS: &str = "5";

fn measure(step: &'static str, run: impl FnOnce() -> Result<()>) -> StepResult {
    terminal::complain!("== {step}");
    let started = Instant::now();
    let result = run();
    if let Err(error) = &result {
        terminal::complain!("== {step} failed: {error:#}");
    }
    StepResult { step, result, elapsed: started.elapsed() }
}

/// Searches for mistakes of the engine and of take-overs, on all processors.
fn search_by_simulators(seconds: u32) -> Result<()> {
    let (seconds, jobs) = (seconds.to_string(), processors().to_string());
    let limits = ["run", "--jobs", &jobs, "--seconds"];
    let engine = [&limits[..], &[&seconds, "--mirrors", "some", "--departures", "30"]].concat();
    sim::run_built(&engine)?;
    sim::run_built(&[&["controllers"], &limits[..], &["20"]].concat())
}

/// Looks for each of the deliberate mistakes, on all processors.
fn hunt_by_simulators() -> Result<()> {
    let jobs = processors().to_string();
    sim::run_built(&["planted", "--jobs", &jobs])?;
    sim::run_built(&["controllers", "planted", "--jobs", &jobs])
}

fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, NonZero::get)
}

/// Tests of what is built already.
fn cargo_test(targets: &[String], options: &[&str], variables: &[(&str, &OsStr)]) -> Result<()> {
    process::run_with(&process::cargo(), &cargo_arguments(targets, options), variables)
}

/// All packages are named, always: with others Cargo unites other features, and would build most of
/// it once more.
fn cargo_arguments(targets: &[String], options: &[&str]) -> Vec<String> {
    let head = ["test", "--no-fail-fast", "--workspace"].into_iter();
    let targets = targets.iter().map(String::as_str);
    let all = head.chain(targets).chain(["--"]).chain(options.iter().copied());
    all.map(str::to_owned).collect()
}

/// Builds the binaries that measurements run, optimised.
pub(crate) fn build() -> Result<()> {
    build_in("release")
}

/// Builds all tests, and the binaries that they run.
pub(crate) fn build_for_tests() -> Result<()> {
    let arguments = ["build", "--quiet", "--profile", "test", "--workspace", "--bins", "--tests"];
    process::run(&process::cargo(), &arguments)
}

/// Where the binaries are that black-box tests run.
pub(crate) fn tested_folder() -> PathBuf {
    workspace::folder_of("debug")
}

/// Builds the binaries in a profile.
pub(crate) fn build_in(profile: &str) -> Result<()> {
    let mut arguments = vec!["build", "--quiet", "--profile", profile];
    for package in ["server", "cli", "host"] {
        arguments.extend(["--package", package]);
    }
    process::run(&process::cargo(), &arguments)
}

/// One scenario builds the driver for Kubernetes.
fn setup_for_scenarios(scenarios: &[String]) -> Result<()> {
    if scenarios.is_empty() || scenarios.iter().any(|name| name == "csi") {
        return setup::for_go();
    }
    Ok(())
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
    black_box_of(&["kernel".to_owned()], &options)
}

/// Tests that need a cluster are ignored elsewhere.
fn ceph() -> Result<()> {
    let cluster = Cluster::start()?;
    let folder = tested_folder();
    let variables: [(&str, &OsStr); 2] = [
        ("GANTRY_BIN_DIR", folder.as_os_str()),
        ("GANTRY_TEST_CEPH_CONF", cluster.conf().as_os_str()),
    ];
    let device = ["--lib", "kinds::rbd"].map(str::to_owned);
    let unit = cargo_test(&device, &["--ignored"], &variables);
    let targets = ["--test", "ceph", "--test", "controller_rounds"].map(str::to_owned);
    // Machines want another cluster ('cargo xtask soak --controllers --machines').
    let arguments = ["--ignored", "--test-threads=1", "--skip", "becomes_of_a_machine"];
    let black_box = cargo_test(&targets, &arguments, &variables);
    cluster.stop()?;
    unit.and(black_box)
}

fn browser_tests() -> Result<()> {
    web::browser_tests(&tested_folder())
}

/// Tests that need programs which others wrote are ignored elsewhere.
fn foreign_initiators() -> Result<()> {
    let (folder, programs) = (tested_folder(), foreign::build()?);
    let variables: [(&str, &OsStr); 2] =
        [("GANTRY_BIN_DIR", folder.as_os_str()), ("GANTRY_TEST_FOREIGN_DIR", programs.as_os_str())];
    let targets = ["--test", "foreign_initiators"].map(str::to_owned);
    let initiators = cargo_test(&targets, &["--ignored", "--test-threads=1"], &variables);
    let reader = ["--lib", "second_reader"].map(str::to_owned);
    initiators.and(cargo_test(&reader, &["--ignored"], &variables))
}

/// Tests that need an image are ignored elsewhere.
fn container() -> Result<()> {
    let (folder, layout) =
        (tested_folder(), image::daemon::build(&package::folder("image")?, &tested_folder())?);
    let of_driver = package::folder("csi-image")?;
    let (driver, caller) = (image::csi::build(&of_driver)?, of_driver.join("csicall"));
    image::csi::program("./test/csicall", &caller)?;
    let variables: [(&str, &OsStr); 4] = [
        ("GANTRY_BIN_DIR", folder.as_os_str()),
        ("GANTRY_TEST_IMAGE", layout.as_os_str()),
        ("GANTRY_TEST_CSI_IMAGE", driver.as_os_str()),
        ("GANTRY_TEST_CSICALL", caller.as_os_str()),
    ];
    let targets = ["--test", "container", "--test", "csi_image"].map(str::to_owned);
    cargo_test(&targets, &["--ignored", "--test-threads=1", "--nocapture"], &variables)
}

/// Tests that need the programs of a release are ignored elsewhere.
fn upgrade() -> Result<()> {
    let (folder, programs) = (tested_folder(), release::build()?);
    let variables: [(&str, &OsStr); 2] =
        [("GANTRY_BIN_DIR", folder.as_os_str()), ("GANTRY_RELEASE_DIR", programs.as_os_str())];
    let targets = ["--test", "release_upgrade"].map(str::to_owned);
    cargo_test(&targets, &["--ignored", "--test-threads=1", "--nocapture"], &variables)
}

fn black_box_of(tests: &[String], options: &[&str]) -> Result<()> {
    let folder = tested_folder();
    cargo_test(&named(tests), options, &binaries_in(&folder))
}

/// Tells the tests where the binaries are.
fn binaries_in(folder: &Path) -> [(&'static str, &OsStr); 1] {
    [("GANTRY_BIN_DIR", folder.as_os_str())]
}

/// Arguments that choose integration tests.
fn named(tests: &[String]) -> Vec<String> {
    tests.iter().flat_map(|name| ["--test".to_owned(), name.clone()]).collect()
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
