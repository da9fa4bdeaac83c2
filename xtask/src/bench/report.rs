//! Benchmark report: medians and ratios, as a page and as JSON.

use std::fmt::Write;

use anyhow::Result;
use serde_json::{Value, json};

use super::client::{Load, Measured};
use super::{MEASUREMENTS, Options, Results, Subject};
use crate::workspace;

/// What a load is compared with, and what the ratio or rate must reach.
struct Goal {
    load: Load,
    subject: Subject,
    /// Compared with this subject, or absolute.
    reference: Option<Subject>,
    least: f64,
}

const GOALS: [Goal; 4] = [
    Goal {
        load: Load::RandomRead,
        subject: Subject::Memory,
        reference: Some(Subject::Wire),
        least: 0.5,
    },
    Goal {
        load: Load::DurableRandomWrite,
        subject: Subject::File,
        reference: Some(Subject::Raw),
        least: 0.6,
    },
    Goal { load: Load::ExtendedCopy, subject: Subject::File, reference: None, least: 6000.0 },
    Goal { load: Load::WriteSame, subject: Subject::File, reference: None, least: 20_000.0 },
];

pub(super) fn page(results: &Results, options: &Options) -> String {
    let mut page = String::from("# Benchmarks\n\n");
    let _ = writeln!(
        page,
        "Written by `cargo xtask bench`: {} interleaved rounds of {} s each, medians (lowest to highest round in brackets). The server runs on core 0, the client on core 1, over loopback TCP. {}.\n",
        options.rounds,
        options.seconds,
        machine()
    );
    page += "| load | subject | per second | server CPU per operation |\n|---|---|---|---|\n";
    for (load, subjects) in MEASUREMENTS {
        for &subject in subjects {
            if let Some(measured) = results.get(&(load, subject)) {
                page += &row(load, subject, measured);
            }
        }
    }
    page += "\n| goal | reached | least |\n|---|---|---|\n";
    for goal in &GOALS {
        if let Some(line) = goal_line(goal, results) {
            page += &line;
        }
    }
    page
}

fn row(load: Load, subject: Subject, measured: &[Measured]) -> String {
    let rates = sorted(measured.iter().map(|measured| measured.per_second));
    let cpu = median(&sorted(measured.iter().filter_map(|measured| measured.server_cpu_us)));
    let cpu = cpu.map_or("-".to_owned(), |cpu| format!("{cpu:.2} µs"));
    let (lowest, highest) = (rates.first().unwrap_or(&0.0), rates.last().unwrap_or(&0.0));
    format!(
        "| {} | {} | {:.0} ({lowest:.0} to {highest:.0}) | {cpu} |\n",
        load.words(),
        subject_words(subject),
        median(&rates).unwrap_or(0.0),
    )
}

fn goal_line(goal: &Goal, results: &Results) -> Option<String> {
    let rate = rate(results, goal.load, goal.subject)?;
    let (load, subject) = (goal.load.words(), subject_words(goal.subject));
    Some(match goal.reference {
        Some(reference) => {
            let ratio = rate / self::rate(results, goal.load, reference)?;
            let reference = subject_words(reference);
            format!("| {load}: {subject} against {reference} | {ratio:.2} | {} |\n", goal.least)
        }
        None => format!("| {load}: {subject} | {rate:.0} per second | {} |\n", goal.least),
    })
}

fn rate(results: &Results, load: Load, subject: Subject) -> Option<f64> {
    let measured = results.get(&(load, subject))?;
    median(&sorted(measured.iter().map(|measured| measured.per_second)))
}

pub(super) fn sorted(numbers: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut numbers: Vec<_> = numbers.collect();
    numbers.sort_by(f64::total_cmp);
    numbers
}

pub(super) fn median(sorted: &[f64]) -> Option<f64> {
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        length if length % 2 == 1 => Some(sorted[middle]),
        _ => Some((sorted[middle - 1] + sorted[middle]) / 2.0),
    }
}

fn subject_words(subject: Subject) -> &'static str {
    match subject {
        Subject::Memory => "gantryd, memory device",
        Subject::File => "gantryd, file device",
        Subject::Tgt => "tgt, file (O_SYNC)",
        Subject::Wire => "bare wire",
        Subject::Raw => "raw file, io_uring",
    }
}

/// Prints a page, and writes it to its place in the work tree if it is to be kept.
pub(super) fn publish(page: &str, place: &str, is_dry_run: bool) -> Result<()> {
    terminal::say!("{page}");
    if !is_dry_run {
        std::fs::write(workspace::root().join(place), page)?;
    }
    Ok(())
}

pub(super) fn machine() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = text.lines().find_map(|line| line.strip_prefix("model name"));
    let model = model.and_then(|line| line.split_once(": ")).map_or("unknown", |(_, name)| name);
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    format!("Processor: {model}; Linux {}", kernel.trim())
}

pub(super) fn json(results: &Results) -> Value {
    let entry = |((load, subject), measured): (&(Load, Subject), &Vec<Measured>)| {
        let rounds: Vec<_> = measured
            .iter()
            .map(|round| json!({"per_second": round.per_second, "server_cpu_us": round.server_cpu_us}))
            .collect();
        json!({"load": load.words(), "subject": subject_words(*subject), "rounds": rounds})
    };
    results.iter().map(entry).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle() {
        assert_eq!(median(&sorted([3.0, 1.0, 2.0].into_iter())), Some(2.0));
        assert_eq!(median(&sorted([4.0, 1.0, 2.0, 3.0].into_iter())), Some(2.5));
        assert_eq!(median(&[]), None);
    }
}
