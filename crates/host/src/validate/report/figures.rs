//! Choice of charts for each case: those of its document.

use anyhow::Result;

use super::charts::{Axis, Bars, Chart, FOURTH, Line, NEUTRAL, OFF, ON, bars, lines};
use super::numbers::significant;
use crate::validate::judge::median;
use crate::validate::model::{Case, LockHealth, Run, Variant};

/// Between two runs on a line of time, in seconds.
const GAP: f64 = 0.02;

/// The charts of a case.
///
/// # Errors
/// When one cannot be drawn.
pub(super) fn of(case: &Case) -> Result<Vec<Chart>> {
    if case.variants.iter().all(|variant| variant.runs.is_empty()) {
        return Ok(Vec::new());
    }
    let mut charts = of_document(case)?;
    charts.extend(beside_array(case)?);
    Ok(charts)
}

/// Pictures of host and array: title, unit, and which rates are drawn. The last three are what the
/// array says by SCSI (log page 19h), beside what the host saw of the same commands.
const BESIDE: [(&str, &str, [&str; 2]); 5] = [
    ("Host beside array: interfaces", "MB/s", ["interface, MB/s", "array interface, MB/s"]),
    (
        "Host beside array: volumes and devices",
        "MB/s",
        ["volume, MB/s", "array devices written, MB/s"],
    ),
    (
        "Host beside array: written to LUNs",
        "MB/s",
        ["adapter write, MB/s", "array LUNs received, MB/s"],
    ),
    (
        "Host beside array: read from LUNs",
        "MB/s",
        ["adapter read, MB/s", "array LUNs transmitted, MB/s"],
    ),
    (
        "Host beside array: write commands of LUNs",
        "per second",
        ["write requests/s", "array LUNs, writes/s"],
    ),
];

/// Rates of host and array in one picture, where the array's own counters were read.
fn beside_array(case: &Case) -> Result<Vec<Chart>> {
    let runs = case.variants.iter().flat_map(|variant| &variant.runs);
    let all: Vec<&str> =
        runs.flat_map(|run| &run.series).map(|series| series.name.as_str()).collect();
    let mut charts = Vec::new();
    for (title, unit, rates) in BESIDE {
        if all.contains(&rates[1]) {
            charts.push(over_time(case, title, unit, &rates)?);
        }
    }
    let mut others: Vec<&str> = all
        .into_iter()
        .filter(|name| name.starts_with("array ") && name.ends_with(", per s"))
        .collect();
    others.sort_unstable();
    others.dedup();
    for name in others {
        charts.push(over_time(case, name.trim_end_matches(", per s"), "per second", &[name])?);
    }
    Ok(charts)
}

fn of_document(case: &Case) -> Result<Vec<Chart>> {
    match case.id.as_str() {
        "Q1" => Ok(vec![reclaimed(case)?]),
        "Q4" => Ok(Vec::new()),
        "E1" => Ok(vec![
            over_time(case, "Host write rate", "KB/s", &["write rate, KB/s"])?,
            over_time(case, "Host write requests", "per second", &["write requests/s"])?,
        ]),
        "I1" | "I2" => Ok(vec![
            modes(case, "4 KiB reads of host A", "IOPS", "IOPS")?,
            modes(case, "Reservation conflicts", "per second", "conflicts/s")?,
        ]),
        "I3" => Ok(vec![
            over_time(
                case,
                "Adapter bandwidth",
                "MB/s",
                &["adapter read, MB/s", "adapter write, MB/s"],
            )?,
            durations(case, "Deploy from template")?,
        ]),
        "I5" => Ok(vec![over_time(
            case,
            "Interface against volume",
            "MB/s",
            &["interface, MB/s", "volume, MB/s"],
        )?]),
        "I6" => Ok(vec![workload(case)?]),
        "Q2" | "N1" | "M1" | "M2" => Ok(vec![durations(case, "Clone durations")?]),
        "I4" => Ok(vec![durations(case, "Storage vMotion")?]),
        _ => Ok(vec![durations(case, "Duration")?]),
    }
}

fn summary(variant: &Variant, of: impl Fn(&Run) -> Option<f64>) -> Option<(f64, [f64; 2])> {
    let values: Vec<f64> = variant.runs.iter().filter_map(of).collect();
    let low = values.iter().copied().fold(f64::INFINITY, f64::min);
    let high = values.iter().copied().fold(0.0, f64::max);
    median(values).map(|value| (value, [low, high]))
}

fn color(name: &str) -> &'static str {
    match name {
        name if name.ends_with("off") => OFF,
        name if name.contains("on") && !name.contains("no ") => ON,
        _ => NEUTRAL,
    }
}

/// One bar per variant: seconds.
fn durations(case: &Case, title: &str) -> Result<Chart> {
    each(case, title, "seconds", |run| Some(run.seconds))
}

fn modes(case: &Case, title: &str, unit: &str, figure: &str) -> Result<Chart> {
    each(case, title, unit, |run| run.figures.get(figure).copied())
}

/// Each variant is a bar with its colour; its value stands below it.
fn each(case: &Case, title: &str, unit: &str, of: impl Fn(&Run) -> Option<f64>) -> Result<Chart> {
    let ran: Vec<&Variant> = case.variants.iter().filter(|one| !one.runs.is_empty()).collect();
    let values: Vec<_> = ran.iter().map(|variant| summary(variant, &of)).collect();
    let label = |(variant, value): (&&Variant, &Option<(f64, [f64; 2])>)| match value {
        Some((value, _)) => format!("{}: {}", variant.name, significant(*value)),
        None => variant.name.clone(),
    };
    let categories: Vec<String> = ran.iter().zip(&values).map(label).collect();
    let series = Bars {
        name: unit.to_owned(),
        color: NEUTRAL,
        colors: Some(ran.iter().map(|variant| color(&variant.name)).collect()),
        values,
    };
    bars(title, unit, &categories, &[series], Axis::Linear)
}

fn reclaimed(case: &Case) -> Result<Chart> {
    let steps = ["moved", "deleted", "snapshot deleted"];
    let series: Vec<Bars> = case
        .variants
        .iter()
        .filter(|variant| !variant.runs.is_empty())
        .map(|variant| Bars {
            name: variant.name.clone(),
            color: color(&variant.name),
            colors: None,
            values: steps
                .iter()
                .map(|step| {
                    summary(variant, |run| {
                        run.figures.get(&format!("{step}: came back, %")).copied()
                    })
                })
                .collect(),
        })
        .collect();
    let categories = steps.map(str::to_owned);
    bars("Space that came back to the array within 5 s", "%", &categories, &series, Axis::Linear)
}

fn workload(case: &Case) -> Result<Chart> {
    let categories: Vec<String> =
        case.variants.iter().map(|variant| variant.name.clone()).collect();
    let of = |figure: &'static str, color| Bars {
        name: figure.trim_end_matches(", MB/s").to_owned(),
        color,
        colors: None,
        values: case
            .variants
            .iter()
            .map(|variant| summary(variant, |run| run.figures.get(figure).copied()))
            .collect(),
    };
    let series = [of("workload, MB/s", ON), of("wire, MB/s", FOURTH)];
    bars("Workload against wire", "MB/s", &categories, &series, Axis::Linear)
}

/// Runs one after the other on one line of time, as the documents show them: twice off, once on.
fn over_time(case: &Case, title: &str, unit: &str, rates: &[&str]) -> Result<Chart> {
    let mut drawn = Vec::new();
    let mut from = 0.0;
    for (name, count) in [("off", 2), ("on", 1)] {
        let variant = case.variants.iter().find(|one| one.name == name);
        let variant = variant.or(case.variants.iter().find(|one| one.name.ends_with(name)));
        for run in variant.iter().flat_map(|variant| &variant.runs).take(count) {
            for (number, rate) in rates.iter().enumerate() {
                let points = points(run, rate, from);
                let what = rate.split(',').next().unwrap_or(rate);
                let name =
                    if rates.len() > 1 { format!("{name}: {what}") } else { name.to_owned() };
                let color = match (color(&name[..name.find(':').unwrap_or(name.len())]), number) {
                    (color, 0) => color,
                    (OFF, _) => NEUTRAL,
                    _ => FOURTH,
                };
                drawn.push(Line { name, color, points });
            }
            from += run.seconds + GAP;
        }
    }
    lines(title, unit, &drawn)
}

fn points(run: &Run, rate: &str, from: f64) -> Vec<(f64, f64)> {
    let Some(series) = run.series.iter().find(|series| series.name == rate) else {
        return Vec::new();
    };
    let inner = series.values.iter().enumerate();
    let inner = inner.map(|(number, value)| (from + (number as f64 + 0.5) * series.step, *value));
    std::iter::once((from, 0.0))
        .chain(inner)
        .chain(std::iter::once((from + run.seconds, 0.0)))
        .collect()
}

/// Latencies of COMPARE AND WRITE under storms.
///
/// # Errors
/// When it cannot be drawn.
pub(super) fn storms(health: &LockHealth) -> Result<Chart> {
    let categories: Vec<String> = health.storms.iter().map(|storm| storm.name.clone()).collect();
    let series = [
        ("half", NEUTRAL, (|storm| storm.p50_us) as fn(&crate::validate::model::Storm) -> u64),
        ("99 %", ON, |storm| storm.p99_us),
        ("99.99 %", FOURTH, |storm| storm.p9999_us),
        ("slowest", OFF, |storm| storm.max_us),
    ];
    let series = series.map(|(name, color, of)| Bars {
        name: name.to_owned(),
        color,
        colors: None,
        values: health
            .storms
            .iter()
            .map(|storm| {
                let value = of(storm) as f64 / 1e3;
                Some((value, [value; 2]))
            })
            .collect(),
    });
    bars(
        "COMPARE AND WRITE while the array is busy",
        "milliseconds",
        &categories,
        &series,
        Axis::Logarithmic,
    )
}
