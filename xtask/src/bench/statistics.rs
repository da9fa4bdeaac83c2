//! Benchmark of the cost of statistics: two daemons on memory devices, one with them and one
//! without, measured in turn on the same cores. The processor time per operation counts, which
//! other work on the machine disturbs least.

use anyhow::{Context, Result, ensure};

use super::Options;
use super::client::{Client, Load, Measured};
use super::subjects::Daemon;
use crate::{setup, test, workspace};

const LOADS: [Load; 4] =
    [Load::RandomRead, Load::DurableRandomWrite, Load::ExtendedCopy, Load::WriteSame];

/// Measures and prints.
pub(crate) fn run(options: &Options) -> Result<()> {
    ensure!(options.rounds > 0 && options.seconds > 0, "nothing to measure");
    setup::run()?;
    test::build()?;
    let folder = tempfile::Builder::new().prefix("gantry-bench-").tempdir()?;
    let client = Client::new(&workspace::release_folder(), options.seconds);
    let start = |name: &str, words: &[&str]| -> Result<Daemon> {
        let daemon = Daemon::start(&folder.path().join(name), "memory:", words)?;
        daemon.fill(&client)?;
        Ok(daemon)
    };
    let (with, without) = (start("with", &[])?, start("without", &["--no-statistics"])?);
    terminal::say!("| load | with, us of the server per operation | without | cost |");
    terminal::say!("|---|---|---|---|");
    for load in LOADS {
        let mut rounds = Vec::new();
        for round in 0..options.rounds {
            // Who goes first changes, so that what goes up or down meanwhile hits both.
            let pair = match round % 2 {
                0 => (cost(&with, &client, load)?, cost(&without, &client, load)?),
                _ => {
                    let without = cost(&without, &client, load)?;
                    (cost(&with, &client, load)?, without)
                }
            };
            terminal::complain!("{load:?}: {:.3} with, {:.3} without", pair.0, pair.1);
            rounds.push(pair);
        }
        let with = median(rounds.iter().map(|pair| pair.0));
        let without = median(rounds.iter().map(|pair| pair.1));
        let ratio = median(rounds.iter().map(|pair| pair.0 / pair.1));
        terminal::say!(
            "| {} | {with:.2} | {without:.2} | {:+.1} % |",
            load.words(),
            (ratio - 1.0) * 100.0
        );
    }
    Ok(())
}

fn cost(daemon: &Daemon, client: &Client, load: Load) -> Result<f64> {
    let Measured { server_cpu_us, .. } = daemon.measure(client, load)?;
    server_cpu_us.context("a daemon's processor time is known")
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
