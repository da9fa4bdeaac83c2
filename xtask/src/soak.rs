//! Soak test: a day's work of hosts in little time.

use std::ffi::OsStr;

use anyhow::Result;
use clap::Args;

use crate::ceph_cluster::Cluster;
use crate::process;
use crate::setup;
use crate::test;
use crate::workspace;

/// How long a device hangs in a loss round.
const HANG_SECONDS: &str = "60";

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// How long sessions come, go, fail and recover under verified I/O, in seconds.
    #[arg(long, default_value_t = 600)]
    seconds: u32,
    /// How often a volume is created, mapped, resized, unmapped and deleted beside verified I/O.
    #[arg(long, default_value_t = 1000)]
    cycles: u32,
    /// Loss rounds instead: one device of a mirror fails, is pulled, is replaced, is cut, hangs for 60 s
    /// or drops writes under verified I/O, with room and in a full pool.
    #[arg(long)]
    mirrors: bool,
    /// Import rounds instead: the data directory is deleted under kill -9 while hosts take locks.
    #[arg(long, conflicts_with = "mirrors")]
    imports: bool,
    /// Controller rounds instead: one of two controllers, its paths or the link between both is lost under verified
    /// I/O of hosts with two paths, on an image of a Ceph cluster that is started for it.
    #[arg(long, conflicts_with_all = ["mirrors", "imports"])]
    controllers: bool,
    /// With --controllers: each on a machine of its own, a network namespace whose cable is pulled, too. Needs root.
    #[arg(long, requires = "controllers")]
    machines: bool,
    /// With --controllers: after how many seconds a pool is taken from a controller that is gone.
    #[arg(long, default_value_t = 5)]
    take_over_after: u64,
    /// Rounds of losses, imports or controllers.
    #[arg(long, default_value_t = 100)]
    rounds: u32,
    /// Where the random numbers of the losses begin.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Builds, then runs what is asked for and shows its figures.
pub(crate) fn run(options: &Options) -> Result<()> {
    if options.controllers {
        setup::for_ceph()?;
    }
    test::build()?;
    let (seconds, cycles) = (options.seconds.to_string(), options.cycles.to_string());
    let (rounds, seed) = (options.rounds.to_string(), options.seed.to_string());
    let after = options.take_over_after.to_string();
    let folder = workspace::release_folder();
    let variables: [(&str, &OsStr); 10] = [
        ("GANTRY_BIN_DIR", folder.as_os_str()),
        ("GANTRY_SOAK_SECONDS", seconds.as_ref()),
        ("GANTRY_TEST_CYCLES", cycles.as_ref()),
        ("GANTRY_LOSS_ROUNDS", rounds.as_ref()),
        ("GANTRY_LOSS_SEED", seed.as_ref()),
        ("GANTRY_LOSS_HANG_SECONDS", HANG_SECONDS.as_ref()),
        ("GANTRY_IMPORT_ROUNDS", rounds.as_ref()),
        ("GANTRY_CONTROLLER_ROUNDS", rounds.as_ref()),
        ("GANTRY_CONTROLLER_SEED", seed.as_ref()),
        ("GANTRY_TAKE_OVER_AFTER", after.as_ref()),
    ];
    if options.controllers {
        return on_a_cluster(options.machines, &variables);
    }
    let tests: &[(&str, &str)] = match (options.mirrors, options.imports) {
        (true, _) => &[("losses", "")],
        (false, true) => &[("import_rounds", "")],
        (false, false) => {
            &[("soak", "after_much_work"), ("sessions", "changes_disturb_nobody_else")]
        }
    };
    tests.iter().try_for_each(|(test, case)| run_test(test, &[case], &variables))
}

fn run_test(test: &str, arguments: &[&str], variables: &[(&str, &OsStr)]) -> Result<()> {
    let package = ["test", "--release", "--package", "harness", "--test", test];
    let options = ["--", "--nocapture", "--test-threads=1"];
    let all = [&package[..], &options[..], arguments].concat();
    process::run_with(&process::cargo(), &all, variables)
}

fn on_a_cluster(has_machines: bool, variables: &[(&str, &OsStr)]) -> Result<()> {
    let (cluster, name) = if has_machines {
        (Cluster::start_for_machines()?, "becomes_of_a_machine_over_an_image")
    } else {
        (Cluster::start()?, "becomes_of_a_controller_over_an_image")
    };
    let conf = ("GANTRY_TEST_CEPH_CONF", cluster.conf().as_os_str());
    let rounds =
        run_test("controller_rounds", &["--ignored", name], &[variables, &[conf]].concat());
    cluster.stop()?;
    rounds
}
