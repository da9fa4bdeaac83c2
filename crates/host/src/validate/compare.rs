//! Two validations side by side.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use maud::html;

use super::model::{Case, FORMAT, Report, State};
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

/// Compares.
pub fn tables(left: &Report, right: &Report) -> Vec<Table> {
    vec![cases(left, right), honesty(left, right), locks(left, right)]
}

fn names(left: &Report, right: &Report) -> [String; 2] {
    let (a, b) = (left.array.product.clone(), right.array.product.clone());
    if a == b { [format!("{a} (A)"), format!("{b} (B)")] } else { [a, b] }
}

fn head(left: &Report, right: &Report, first: &[&str]) -> Vec<String> {
    let first = first.iter().map(|cell| (*cell).to_owned());
    first.chain(names(left, right)).collect()
}

fn cases(left: &Report, right: &Report) -> Table {
    let mut rows = Vec::new();
    for case in &left.cases {
        let other = right.cases.iter().find(|other| other.id == case.id);
        let pairs: Vec<&str> = pair_names(case, other);
        for name in &pairs {
            let published = published([Some(case), other], name);
            let what = format!("{name}: {}", short(&case.title));
            let cells = [Some(case), other].map(|case| cell(case, name));
            rows.push([vec![case.id.clone(), what, published.clone()], cells.to_vec()].concat());
        }
        if pairs.is_empty() {
            let cells = [Some(case), other].map(outcome);
            rows.push(
                [vec![case.id.clone(), short(&case.title), "–".to_owned()], cells.to_vec()]
                    .concat(),
            );
        }
    }
    Table {
        caption: "Cases: off → on, how many times better; wire on/off",
        head: head(left, right, &["Case", "What", "Published"]),
        rows,
    }
}

fn published(cases: [Option<&Case>; 2], pair: &str) -> String {
    let ratios = cases.into_iter().flatten().flat_map(|case| &case.ratios);
    let found = ratios.filter(|ratio| ratio.name == pair).find_map(|ratio| ratio.published);
    found.map_or("–".to_owned(), times)
}

fn short(title: &str) -> String {
    title.split([':', ';']).next().unwrap_or(title).to_owned()
}

fn pair_names<'a>(case: &'a Case, other: Option<&'a Case>) -> Vec<&'a str> {
    let mut names: Vec<&str> = Vec::new();
    for ratio in [Some(case), other].into_iter().flatten().flat_map(|case| &case.ratios) {
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
    let wrong = if matches!(case.state, State::Failed(_)) { "; FAILED" } else { "" };
    format!(
        "{} → {} {}, {}{wire}{wrong}",
        significant(ratio.off),
        significant(ratio.on),
        ratio.unit,
        times(ratio.factor)
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

fn honesty(left: &Report, right: &Report) -> Table {
    let questions: Vec<&str> = {
        let mut seen = BTreeSet::new();
        let all = left.honesty.iter().chain(&right.honesty).map(|probe| probe.question.as_str());
        all.filter(|question| seen.insert(*question)).collect()
    };
    let verdict = |report: &Report, question: &str| {
        let found = report.honesty.iter().find(|probe| probe.question == question);
        found.map_or("not asked".to_owned(), |probe| {
            format!("{}: {}", probe.verdict.word(), probe.found)
        })
    };
    let rows = questions.iter().map(|question| {
        vec![(*question).to_owned(), verdict(left, question), verdict(right, question)]
    });
    Table { caption: "Honesty card", head: head(left, right, &["Question"]), rows: rows.collect() }
}

fn locks(left: &Report, right: &Report) -> Table {
    let of = |report: &Report, number: usize| match &report.locks {
        None => "not measured".to_owned(),
        Some(health) => match (&health.reason, health.targets.get(number)) {
            (Some(reason), _) => reason.clone(),
            (None, Some(target)) => target.found.clone(),
            (None, None) => "not measured".to_owned(),
        },
    };
    let whats: Vec<String> = [left, right]
        .into_iter()
        .filter_map(|report| report.locks.as_ref())
        .map(|locks| locks.targets.iter().map(|target| target.what.clone()).collect::<Vec<_>>())
        .max_by_key(Vec::len)
        .unwrap_or_default();
    let rows = whats
        .into_iter()
        .enumerate()
        .map(|(number, what)| vec![what, of(left, number), of(right, number)]);
    Table { caption: "Lock health", head: head(left, right, &["What"]), rows: rows.collect() }
}

/// The tables as one page that needs nothing beside itself.
pub fn page(left: &Report, right: &Report, tables: &[Table]) -> String {
    let [a, b] = names(left, right);
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
    let body = html! {
        header {
            h1 { (a) " and " (b) }
            p { (a) ": " (size(left)) }
            p { (b) ": " (size(right)) }
        }
        @for one in tables {
            h2 { (one.caption) }
            (super::report::table(one.caption, &one.head, &one.rows))
        }
    };
    document(&format!("{a} and {b}"), &body)
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
