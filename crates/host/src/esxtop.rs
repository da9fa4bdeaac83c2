//! Counters as `esxtop` shows them.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::counters::Counters;
use crate::state::Host;

/// The columns: sums, and rates over the last interval.
const COLUMNS: [&str; 23] = [
    "CLONE_RD", "CLONE_WR", "CLONE_F", "MBC_RD/s", "MBC_WR/s", "ATS", "ATSF", "ZERO", "ZERO_F",
    "MBZERO/s", "DELETE", "DELETE_F", "MBDEL/s", "RESV/s", "CONS/s", "READS/s", "WRITES/s",
    "MBREAD/s", "MBWRTN/s", "MBWIRE/s", "CAVG/suc", "AAVG/suc", "ZAVG/suc",
];

fn row(sum: &Counters, change: &Counters, seconds: f64) -> [f64; 23] {
    let rate = |count: u64| count as f64 / seconds;
    let mega = |bytes: u64| bytes as f64 / seconds / f64::from(1 << 20);
    let average = |microseconds: u64, count: u64| match count {
        0 => 0.0,
        count => microseconds as f64 / 1000.0 / count as f64,
    };
    [
        sum.clone_rd as f64,
        sum.clone_wr as f64,
        sum.clone_f as f64,
        mega(change.clone_rd_bytes),
        mega(change.clone_wr_bytes),
        sum.ats as f64,
        sum.atsf as f64,
        sum.zero as f64,
        sum.zero_f as f64,
        mega(change.zero_bytes),
        sum.delete as f64,
        sum.delete_f as f64,
        mega(change.delete_bytes),
        rate(change.resv),
        rate(change.cons),
        rate(change.reads),
        rate(change.writes),
        mega(change.read_bytes),
        mega(change.write_bytes),
        mega(change.wire_bytes),
        average(sum.clone_us, sum.clone_wr),
        average(sum.ats_us, sum.ats),
        average(sum.zero_us, sum.zero),
    ]
}

fn number(value: f64) -> String {
    if value.fract() == 0.0 { format!("{value:.0}") } else { format!("{value:.2}") }
}

/// Prints the counters of all devices `count` times; each with the rates since the time before.
/// As a table, or in batch mode as comma-separated values with the seconds first.
///
/// # Errors
/// When the host's folder cannot be read.
pub fn run(host: &Host, delay: Duration, count: u32, batch: bool) -> Result<()> {
    let started = Instant::now();
    let mut before = (host.counters()?, started);
    if batch {
        println!("seconds,device,{}", COLUMNS.join(","));
    }
    for number in 0..count {
        if number > 0 || delay.is_zero() {
            std::thread::sleep(delay);
        }
        let now = (host.counters()?, Instant::now());
        let seconds = (now.1 - before.1).as_secs_f64().max(0.001);
        print!("{}", screen(&now.0, &before.0, seconds, batch.then(|| started.elapsed())));
        before = now;
    }
    Ok(())
}

fn screen(
    now: &BTreeMap<String, Counters>,
    before: &BTreeMap<String, Counters>,
    seconds: f64,
    batch: Option<Duration>,
) -> String {
    let mut text = String::new();
    if batch.is_none() {
        let heads: Vec<String> = COLUMNS.iter().map(|head| format!("{head:>9}")).collect();
        let _ = writeln!(text, "{:36} {}", "DEVICE", heads.join(" "));
    }
    for (device, sum) in now {
        let change = sum.since(&before.get(device).copied().unwrap_or_default());
        let cells = row(sum, &change, seconds).map(number);
        let _ = match batch {
            Some(at) => writeln!(text, "{:.3},{device},{}", at.as_secs_f64(), cells.join(",")),
            None => {
                let cells: Vec<String> = cells.iter().map(|cell| format!("{cell:>9}")).collect();
                writeln!(text, "{device:36} {}", cells.join(" "))
            }
        };
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_sums_and_rates_are_of_the_interval() {
        let before = Counters { ats: 5, cons: 10, zero_bytes: 1 << 20, ..Counters::default() };
        let now = Counters { ats: 7, cons: 30, zero_bytes: 5 << 20, ..before };
        let one = |counters| BTreeMap::from([("naa.1".to_owned(), counters)]);
        let text = screen(&one(now), &one(before), 2.0, Some(Duration::ZERO));
        let cells: Vec<&str> = text.trim().split(',').collect();
        let cell = |name: &str| {
            cells[2 + COLUMNS.iter().position(|column| *column == name).expect("a column")]
        };
        assert_eq!(
            (cells[1], cell("ATS"), cell("CONS/s"), cell("MBZERO/s")),
            ("naa.1", "7", "10", "2")
        );
    }
}
