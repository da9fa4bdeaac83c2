//! Soak test: a day's work of hosts in little time.

use std::ffi::OsStr;

use anyhow::Result;
use clap::Args;

use crate::process;
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
    /// Rounds of losses or imports.
    #[arg(long, default_value_t = 100)]
    rounds: u32,
    /// Where the random numbers of the losses begin.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Builds, then runs what is asked for and shows its figures.
pub(crate) fn run(options: &Options) -> Result<()> {
    test::build()?;
    let (seconds, cycles) = (options.seconds.to_string(), options.cycles.to_string());
    let (rounds, seed) = (options.rounds.to_string(), options.seed.to_string());
    let folder = workspace::release_folder();
    let variables: [(&str, &OsStr); 7] = [
        ("GANTRY_BIN_DIR", folder.as_os_str()),
        ("GANTRY_SOAK_SECONDS", seconds.as_ref()),
        ("GANTRY_TEST_CYCLES", cycles.as_ref()),
        ("GANTRY_LOSS_ROUNDS", rounds.as_ref()),
        ("GANTRY_LOSS_SEED", seed.as_ref()),
        ("GANTRY_LOSS_HANG_SECONDS", HANG_SECONDS.as_ref()),
        ("GANTRY_IMPORT_ROUNDS", rounds.as_ref()),
    ];
    let tests: &[(&str, &str)] = match (options.mirrors, options.imports) {
        (true, _) => &[("losses", "")],
        (false, true) => &[("import_rounds", "")],
        (false, false) => {
            &[("soak", "after_much_work"), ("sessions", "changes_disturb_nobody_else")]
        }
    };
    for (test, case) in tests {
        let package = ["test", "--release", "--package", "harness", "--test", test];
        let options = ["--", "--nocapture", "--test-threads=1", case];
        process::run_with(&process::cargo(), &[&package[..], &options[..]].concat(), &variables)?;
    }
    Ok(())
}
