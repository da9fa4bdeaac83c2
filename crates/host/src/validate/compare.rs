//! Score cards of several arrays: validations side by side.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use maud::html;

use super::cases::ORDER;
use super::model::{Case, FORMAT, LockHealth, Probe, Report, State, Target, Verdict};
use super::report::{bytes, document, significant};

/// A table of a comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// What it is about.
    pub caption: &'static str,
    /// Its columns.
    pub head: Vec<String>,
    /// Its rows.
    pub rows: Vec<Vec<String>>,
}

/// Reads a result.json.
///
/// # Errors
/// When it is none, or of another format.
pub fn read(path: &Path) -> Result<Report> {
    let text = fs::read(path).with_context(|| path.display().to_string())?;
    let value: serde_json::Value =
        serde_json::from_slice(&text).with_context(|| path.display().to_string())?;
    ensure!(
        value["format"] == FORMAT,
        "{}: format {} is not {FORMAT}: made by another version of gantry-host",
        path.display(),
        value["format"]
    );
    serde_json::from_value(value).with_context(|| path.display().to_string())
}

/// Reads a result.json; with `NAME=` before it, the array is called so, beside what it says itself.
///
/// # Errors
/// As [`read`].
pub fn read_named(word: &str) -> Result<Report> {
    match word.split_once('=') {
        Some((name, path)) if !name.is_empty() && !name.contains('/') => {
            let mut report = read(Path::new(path))?;
            report.array.product = format!("{name} ({})", report.array.product);
            Ok(report)
        }
        _ => read(Path::new(word)),
    }
}

/// Compares: score cards first, then what they count.
pub fn tables(reports: &[Report]) -> Vec<Table> {
    vec![scores(reports), cases(reports), honesty(reports), locks(reports)]
}

/// The arrays' names; those of one kind are told apart by letters.
fn names(reports: &[Report]) -> Vec<String> {
    let products: Vec<&str> = reports.iter().map(|report| report.array.product.as_str()).collect();
    let distinct: BTreeSet<&str> = products.iter().copied().collect();
    let letter = |number: usize| char::from_u32('A' as u32 + number as u32).unwrap_or('?');
    let named = products.iter().enumerate().map(|(number, product)| {
        if distinct.len() == products.len() {
            (*product).to_owned()
        } else {
            format!("{product} ({})", letter(number))
        }
    });
    named.collect()
}

fn head(reports: &[Report], first: &[&str]) -> Vec<String> {
    let first = first.iter().map(|cell| (*cell).to_owned());
    first.chain(names(reports)).collect()
}

/// A line of the score cards: what it tells, and of an array.
type Line = (&'static str, fn(&Report) -> String);

/// What of each kind an array has, in one line each.
fn scores(reports: &[Report]) -> Table {
    let lines: [Line; 7] = [
        ("Promises kept, of those it makes", kept),
        ("Lies", |report| named(report, Verdict::Lie)),
        ("Did not answer", |report| named(report, Verdict::NoAnswer)),
        ("Not claimed; cannot be told from outside", |report| {
            let [not_claimed, unclear] = [Verdict::NotClaimed, Verdict::Unclear]
                .map(|verdict| with(report, verdict).count().to_string());
            asked(report, &format!("{not_claimed}; {unclear}"))
        }),
        ("Cases measured, not measured, failed", case_counts),
        ("Targets of cases met", |report| met(report.cases.iter().flat_map(|case| &case.targets))),
        ("Targets of lock health met", |report| match &report.locks {
            Some(LockHealth { reason: Some(reason), .. }) => reason.clone(),
            Some(health) => met(health.targets.iter()),
            None => "not measured".to_owned(),
        }),
    ];
    let row = |(what, of): &Line| {
        std::iter::once((*what).to_owned()).chain(reports.iter().map(of)).collect()
    };
    Table {
        caption: "Score cards",
        head: head(reports, &["What"]),
        rows: lines.iter().map(row).collect(),
    }
}

fn with(report: &Report, verdict: Verdict) -> impl Iterator<Item = &Probe> {
    report.honesty.iter().filter(move |probe| probe.verdict == verdict)
}

fn asked(report: &Report, found: &str) -> String {
    if report.honesty.is_empty() { "not asked".to_owned() } else { found.to_owned() }
}

fn kept(report: &Report) -> String {
    let [honest, lies, silent] = [Verdict::Honest, Verdict::Lie, Verdict::NoAnswer]
        .map(|verdict| with(report, verdict).count());
    asked(report, &format!("{honest} of {}", honest + lies + silent))
}

fn named(report: &Report, verdict: Verdict) -> String {
    let found: Vec<&str> = with(report, verdict).map(|probe| probe.question.as_str()).collect();
    match found.len() {
        0 => asked(report, "none"),
        count => format!("{count}: {}", found.join("; ")),
    }
}

fn case_counts(report: &Report) -> String {
    if report.cases.is_empty() {
        return "not run".to_owned();
    }
    let count =
        |wanted: fn(&State) -> bool| report.cases.iter().filter(|case| wanted(&case.state)).count();
    let done = count(|state| matches!(state, State::Done));
    let not_measured = count(|state| matches!(state, State::NotMeasured(_)));
    format!("{done}, {not_measured}, {}", count(|state| matches!(state, State::Failed(_))))
}

/// Of those that could be judged.
fn met<'a>(targets: impl Iterator<Item = &'a Target>) -> String {
    let judged: Vec<bool> = targets.filter_map(|target| target.met).collect();
    match judged.len() {
        0 => "none judged".to_owned(),
        all => format!("{} of {all}", judged.iter().filter(|met| **met).count()),
    }
}

/// The cases of all reports, in the order of the documents.
fn case_ids(reports: &[Report]) -> Vec<&str> {
    let mut ids: Vec<&str> = Vec::new();
    for case in reports.iter().flat_map(|report| &report.cases) {
        if !ids.contains(&case.id.as_str()) {
            ids.push(&case.id);
        }
    }
    ids.sort_by_key(|id| ORDER.iter().position(|known| known == id));
    ids
}

fn cases(reports: &[Report]) -> Table {
    let mut rows = Vec::new();
    for id in case_ids(reports) {
        let of = |report: &'_ Report| report.cases.iter().position(|case| case.id == id);
        let of = |report| of(report).map(|at: usize| &report.cases[at]);
        let found: Vec<Option<&Case>> = reports.iter().map(of).collect();
        let Some(case) = found.iter().flatten().next() else { continue };
        let pairs = pair_names(&found);
        for name in &pairs {
            let what = format!("{name}: {}", short(&case.title));
            let first = [id.to_owned(), what, published(&found, name)];
            rows.push(
                first.into_iter().chain(found.iter().map(|case| cell(*case, name))).collect(),
            );
        }
        if pairs.is_empty() {
            let first = [id.to_owned(), short(&case.title), "–".to_owned()];
            rows.push(first.into_iter().chain(found.iter().map(|case| outcome(*case))).collect());
        }
    }
    Table {
        caption: "Cases: off → on, how many times better; wire on/off",
        head: head(reports, &["Case", "What", "Published"]),
        rows,
    }
}

fn published(cases: &[Option<&Case>], pair: &str) -> String {
    let ratios = cases.iter().flatten().flat_map(|case| &case.ratios);
    let found = ratios.filter(|ratio| ratio.name == pair).find_map(|ratio| ratio.published);
    found.map_or("–".to_owned(), times)
}

fn short(title: &str) -> String {
    title.split([':', ';']).next().unwrap_or(title).to_owned()
}

fn pair_names<'a>(cases: &[Option<&'a Case>]) -> Vec<&'a str> {
    let mut names: Vec<&str> = Vec::new();
    for ratio in cases.iter().flatten().flat_map(|case| &case.ratios) {
        if !names.contains(&ratio.name.as_str()) {
            names.push(&ratio.name);
        }
    }
    names
}

fn times(factor: f64) -> String {
    format!("{} ×", significant(factor))
}

fn cell(case: Option<&Case>, pair: &str) -> String {
    let Some(case) = case else { return "not run".to_owned() };
    let Some(ratio) = case.ratios.iter().find(|ratio| ratio.name == pair) else {
        return outcome(Some(case));
    };
    let wire =
        ratio.wire.map_or(String::new(), |wire| format!("; wire {} %", significant(wire * 100.0)));
    let processor = ratio.host_processor.map_or(String::new(), |[off, on]| {
        format!("; host CPU {} → {} s/GB", significant(off), significant(on))
    });
    let wrong = if matches!(case.state, State::Failed(_)) { "; FAILED" } else { "" };
    format!(
        "{} → {} {}, {} ({}){wire}{processor}{wrong}",
        significant(ratio.off),
        significant(ratio.on),
        ratio.unit,
        times(ratio.factor),
        ratio.saved()
    )
}

fn outcome(case: Option<&Case>) -> String {
    match case.map(|case| (&case.state, case)) {
        None => "not run".to_owned(),
        Some((State::NotMeasured(reason), _)) => format!("not measured: {reason}"),
        Some((State::Failed(reason), _)) => format!("FAILED: {reason}"),
        Some((State::Done, case)) => match case.targets.first() {
            Some(target) => format!("{}: {}", target.what, target.found),
            None => "done".to_owned(),
        },
    }
}

fn honesty(reports: &[Report]) -> Table {
    let mut seen = BTreeSet::new();
    let all = reports.iter().flat_map(|report| &report.honesty);
    let questions = all.map(|probe| probe.question.as_str());
    let questions: Vec<&str> = questions.filter(|question| seen.insert(*question)).collect();
    let verdict = |report: &Report, question: &str| {
        let found = report.honesty.iter().find(|probe| probe.question == question);
        found.map_or("not asked".to_owned(), |probe| {
            format!("{}: {}", probe.verdict.word(), probe.found)
        })
    };
    let row = |question: &&str| {
        let verdicts = reports.iter().map(|report| verdict(report, question));
        std::iter::once((*question).to_owned()).chain(verdicts).collect()
    };
    let rows = questions.iter().map(row).collect();
    Table { caption: "Honesty card", head: head(reports, &["Question"]), rows }
}

fn locks(reports: &[Report]) -> Table {
    let of = |report: &Report, what: &str| match &report.locks {
        None => "not measured".to_owned(),
        Some(health) => {
            let target = health.targets.iter().find(|target| target.what == what);
            match (&health.reason, target) {
                (Some(reason), _) => reason.clone(),
                (None, Some(target)) => target.found.clone(),
                (None, None) => "not measured".to_owned(),
            }
        }
    };
    let mut seen = BTreeSet::new();
    let all = reports.iter().filter_map(|report| report.locks.as_ref());
    let whats = all.flat_map(|locks| &locks.targets).map(|target| target.what.as_str());
    let whats: Vec<&str> = whats.filter(|what| seen.insert(*what)).collect();
    let row = |what: &&str| {
        let found = reports.iter().map(|report| of(report, what));
        std::iter::once((*what).to_owned()).chain(found).collect()
    };
    let rows = whats.iter().map(row).collect();
    Table { caption: "Lock health", head: head(reports, &["What"]), rows }
}

/// The tables as one page that needs nothing beside itself.
pub fn page(reports: &[Report], tables: &[Table]) -> String {
    let names = names(reports);
    let size = |report: &Report| {
        let all: u64 = report.array.luns.iter().map(|lun| lun.size_bytes).sum();
        format!(
            "{}, sizes: {}, {} rounds, {}, LUNs of {}",
            report.started,
            report.scale,
            report.rounds,
            report.machine,
            bytes(all)
        )
    };
    let title = match names.as_slice() {
        [a, b] => format!("{a} and {b}"),
        all => format!("{} arrays side by side", all.len()),
    };
    let body = html! {
        header {
            h1 { (title) }
            @for (name, report) in names.iter().zip(reports) {
                p { (name) ": " (size(report)) }
            }
        }
        @for one in tables {
            h2 { (one.caption) }
            (super::report::table(one.caption, &one.head, &one.rows))
        }
    };
    document(&title, &body)
}

/// The tables as text.
pub fn text(tables: &[Table]) -> String {
    let mut text = String::new();
    for table in tables {
        text += &format!("{}\n\n", table.caption);
        for row in &table.rows {
            for (head, cell) in table.head.iter().zip(row) {
                text += &if head.is_empty() {
                    format!("{cell}\n")
                } else {
                    format!("   {head}: {cell}\n")
                };
            }
            text.push('\n');
        }
    }
    text
}

#[cfg(test)]
mod tests;
