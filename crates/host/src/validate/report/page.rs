//! The page of one validation.

use anyhow::Result;
use maud::{Markup, html};

use super::html::{badge, document, figure, table, targets};
use super::numbers::{bytes, count, seconds, significant};
use super::{charts::Chart, figures};
use crate::validate::judge::median;
use crate::validate::model::{
    Case, LockHealth, Probe, Report, Run, State, Target, Variant, Verdict,
};

/// The page.
///
/// # Errors
/// When a chart cannot be drawn.
pub(super) fn validation(report: &Report) -> Result<String> {
    let mut cases = Vec::new();
    for case in &report.cases {
        cases.push(one_case(case, &figures::of(case)?));
    }
    let locks = report.locks.as_ref().map(lock_health).transpose()?;
    let body = html! {
        (head(report))
        @if !report.cases.is_empty() {
            h2 { "Published cases at a glance" }
            p { "Off and on on the same machine in the same run: only their ratio, and bytes and commands, compare with other hardware." }
            (glance(&report.cases))
        }
        @if !report.honesty.is_empty() { (card(&report.honesty)) }
        @if let Some(locks) = locks { (locks) }
        @if !cases.is_empty() {
            h2 { "Case by case" }
            @for case in cases { (case) }
        }
        (array(report))
        footer {
            (report.program) ". Bytes on the wire are those of the sockets, both ways, as the kernel counts them (TCP_INFO). "
            "Space is what the array says by SCSI: log page 0Ch, else GET LBA STATUS; of the LUN that is written. "
            "Processor time is user and system time of all threads: of this program, which is all simulated hosts, and of the array's process; per GB that volumes took or gave. "
            "Medians of all rounds; lowest and highest in brackets. Charts drawn by charts-rs 2.3 (Apache-2.0)."
        }
    };
    Ok(document(&format!("Validation of {}", report.array.product), &body))
}

fn all_targets(report: &Report) -> impl Iterator<Item = &Target> {
    let locks = report.locks.iter().flat_map(|locks| &locks.targets);
    report.cases.iter().flat_map(|case| &case.targets).chain(locks)
}

fn head(report: &Report) -> Markup {
    let done = report.cases.iter().filter(|case| case.state == State::Done).count();
    let failed = report.cases.iter().filter(|case| matches!(case.state, State::Failed(_))).count();
    let met = all_targets(report).filter(|target| target.met == Some(true)).count();
    let judged = all_targets(report).filter(|target| target.met.is_some()).count();
    let verdicts = |verdict| report.honesty.iter().filter(|probe| probe.verdict == verdict).count();
    let sound = report.locks.as_ref().and_then(|locks| locks.history.as_ref()).map(|history| {
        if history.impossible.is_empty() && history.undecided.is_empty() {
            "sound"
        } else {
            "NOT sound"
        }
    });
    html! {
        header {
            h1 { "Validation of " (report.array.product) }
            p {
                (report.started.replace('T', " ").replace('Z', " UTC")) " · sizes: " (report.scale) " · "
                (report.rounds) " rounds, off and on in turns · " (report.machine) " · " (seconds(report.seconds)) " of work"
            }
        }
        ul.cards {
            @if !report.cases.is_empty() { li { b { (done) " of " (report.cases.len()) } span { "published cases measured, all contents read back" @if failed > 0 { "; " (failed) " FAILED" } } } }
            @if judged > 0 { li { b { (met) " of " (judged) } span { "targets met" } } }
            @if !report.honesty.is_empty() { li { b { (verdicts(Verdict::Honest)) " honest, " (verdicts(Verdict::Lie)) @if verdicts(Verdict::Lie) == 1 { " lie" } @else { " lies" } } span { "of " (report.honesty.len()) " promises tried" @if verdicts(Verdict::NoAnswer) > 0 { "; " (verdicts(Verdict::NoAnswer)) " not answered" } } } }
            @if let Some(sound) = sound { li { b { (sound) } span { "answers of several hosts to lock commands" } } }
        }
    }
}

fn state(case: &Case) -> Markup {
    match &case.state {
        State::Done => badge("good", "right"),
        State::NotMeasured(_) => badge("open", "not measured"),
        State::Failed(_) => badge("bad", "FAILED"),
    }
}

fn value(number: f64, unit: &str) -> String {
    if unit == "s" {
        seconds(number)
    } else {
        format!("{} {}", significant(number), unit.replace("workload, ", ""))
    }
}

fn times(factor: f64) -> String {
    format!("{} ×", significant(factor))
}

fn glance(cases: &[Case]) -> Markup {
    html! {
        div.scroll { table {
            caption { "Measured, against published" }
            thead { tr {
                @for cell in ["Case", "What", "Off", "On", "Better by", "Saved", "Published", "Wire, on/off", "Host CPU per GB, on/off", "Contents"] { th scope="col" { (cell) } }
            } }
            tbody {
                @for case in cases {
                    @for (number, ratio) in case.ratios.iter().enumerate() {
                        tr {
                            th scope="row" { @if number == 0 { a href={ "#" (case.id) } { (case.id) } } }
                            td { (short_title(case)) @if case.ratios.len() > 1 || ratio.name != short_title(case) { ": " (ratio.name) } }
                            td.number { (value(ratio.off, &ratio.unit)) }
                            td.number { (value(ratio.on, &ratio.unit)) }
                            td.number { strong { (times(ratio.factor)) } }
                            td.number { (ratio.saved()) }
                            td.number { (ratio.published.map_or("–".to_owned(), times)) }
                            td.number { (ratio.wire.map_or("–".to_owned(), |wire| format!("{} %", significant(wire * 100.0)))) }
                            td.number { (part(ratio.host_processor)) }
                            td { @if number == 0 { (state(case)) } }
                        }
                    }
                    @if case.ratios.is_empty() {
                        tr {
                            th scope="row" { a href={ "#" (case.id) } { (case.id) } }
                            td colspan="8" { (short_title(case)) @if let Some(found) = brief(case) { ": " (found) } }
                            td { (state(case)) }
                        }
                    }
                }
            }
        } }
    }
}

/// On as a part of off, in per cent.
fn part(pair: Option<[f64; 2]>) -> String {
    match pair {
        Some([off, on]) if off > 0.0 => format!("{} %", significant(on / off * 100.0)),
        _ => "–".to_owned(),
    }
}

fn short_title(case: &Case) -> &str {
    case.title.split([':', ';']).next().unwrap_or(&case.title)
}

fn brief(case: &Case) -> Option<String> {
    match &case.state {
        State::Done => {
            case.targets.first().map(|target| format!("{}: {}", target.what, target.found))
        }
        State::NotMeasured(reason) | State::Failed(reason) => Some(reason.clone()),
    }
}

fn one_case(case: &Case, charts: &[Chart]) -> Markup {
    html! {
        article id=(case.id) {
            h3 { (case.id) " · " (case.title) " " (state(case)) }
            p.source { (case.source) }
            p { (case.scenario) }
            dl.facts {
                dt { "Published" } dd { (case.published) }
                dt { "Sizes" } dd { (case.sizes) }
                @match &case.state {
                    State::NotMeasured(reason) | State::Failed(reason) => { dt { "Reason" } dd { (reason) } }
                    State::Done => {}
                }
                @for ratio in &case.ratios {
                    dt { "Measured" }
                    dd {
                        (ratio.name) ": " (value(ratio.off, &ratio.unit)) " off, " (value(ratio.on, &ratio.unit)) " on: "
                        strong { (times(ratio.factor)) } ", " (ratio.saved()) " (pairs of runs: " (times(ratio.range[0])) " to " (times(ratio.range[1])) ")"
                        @if let Some(published) = ratio.published { "; published: " (times(published)) }
                    }
                }
            }
            (targets(&case.targets))
            @if case.variants.iter().any(|variant| !variant.runs.is_empty()) {
                (costs(case))
                (processors(case))
                (figures_table(case))
            }
            @for chart in charts { (figure(chart)) }
            @for note in &case.notes { p.note { (note) } }
        }
    }
}

/// Median and spread of something over runs.
fn spread(variant: &Variant, of: impl Fn(&Run) -> f64, text: impl Fn(f64) -> String) -> String {
    let values: Vec<f64> = variant.runs.iter().map(of).collect();
    let low = values.iter().copied().fold(f64::INFINITY, f64::min);
    let high = values.iter().copied().fold(0.0, f64::max);
    match median(values) {
        None => "–".to_owned(),
        Some(middle) if low == high => text(middle),
        Some(middle) => format!("{} ({}–{})", text(middle), text(low), text(high)),
    }
}

fn space(variant: &Variant) -> String {
    let Some(run) = variant.runs.last() else { return "–".to_owned() };
    match run.space {
        [Some(before), Some(after)] => format!("{} → {}", bytes(before), bytes(after)),
        _ => "not reported".to_owned(),
    }
}

fn contents(variant: &Variant) -> &'static str {
    match variant.runs.iter().map(|run| run.verified).collect::<Option<Vec<bool>>>() {
        _ if variant.runs.is_empty() => "–",
        Some(all) if all.iter().all(|right| *right) => "read back, right",
        Some(_) => "WRONG",
        None => "nothing to compare",
    }
}

fn costs(case: &Case) -> Markup {
    let head = [
        "",
        "Time",
        "Host read",
        "Host wrote",
        "On the wire",
        "Commands",
        "Array space",
        "Contents",
    ];
    let row = |variant: &Variant| {
        let last = variant.runs.last();
        let of = |pick: fn(&Run) -> u64| last.map_or("–".to_owned(), |run| bytes(pick(run)));
        vec![
            variant.name.clone(),
            spread(variant, |run| run.seconds, seconds),
            of(|run| run.counters.read_bytes),
            of(|run| run.counters.write_bytes),
            of(|run| run.counters.wire_bytes),
            commands(last),
            space(variant),
            contents(variant).to_owned(),
        ]
    };
    let rows: Vec<Vec<String>> = case.variants.iter().map(row).collect();
    table("What each variant cost", &head.map(str::to_owned), &rows)
}

/// Processor time of host and array: documents say that offloads save the host's.
fn processors(case: &Case) -> Markup {
    let known =
        case.variants.iter().flat_map(|one| &one.runs).any(|run| run.processor.host.is_some());
    if !known {
        return html! {};
    }
    let cell = |variant: &Variant, of: &dyn Fn(&Run) -> Option<f64>, unit: &str| {
        let values: Vec<f64> = variant.runs.iter().filter_map(of).collect();
        match median(values) {
            Some(middle) if unit.is_empty() => seconds(middle),
            Some(middle) => format!("{} {unit}", significant(middle)),
            None if variant.runs.is_empty() => "–".to_owned(),
            None => "not known".to_owned(),
        }
    };
    let row = |variant: &Variant| {
        vec![
            variant.name.clone(),
            cell(variant, &|run| run.processor.host, ""),
            cell(variant, &|run| run.processor.host_per_gb(), "s/GB"),
            cell(variant, &|run| run.processor.array, ""),
            cell(variant, &|run| run.processor.array_per_gb(), "s/GB"),
        ]
    };
    let head = ["", "Host", "Host, per GB", "Array", "Array, per GB"];
    let rows: Vec<Vec<String>> = case.variants.iter().map(row).collect();
    table("Processor time", &head.map(str::to_owned), &rows)
}

fn commands(run: Option<&Run>) -> String {
    let Some(run) = run else { return "–".to_owned() };
    let counters = &run.counters;
    let kinds = [
        (counters.reads, "READ"),
        (counters.writes, "WRITE"),
        (counters.clone_wr + counters.clone_f, "XCOPY"),
        (counters.zero + counters.zero_f, "WRITE SAME"),
        (counters.delete + counters.delete_f, "UNMAP"),
        (counters.ats + counters.atsf, "CAW"),
        (counters.resv, "RESERVE"),
    ];
    let kinds: Vec<String> = kinds
        .iter()
        .filter(|(number, _)| *number > 0)
        .map(|(number, name)| format!("{} {name}", count(*number)))
        .collect();
    format!("{}: {}", count(run.commands), kinds.join(", "))
}

/// Figures beside time and bytes, and reasons for which the host copied.
fn figures_table(case: &Case) -> Markup {
    let mut names: Vec<&String> =
        case.variants.iter().flat_map(|one| &one.runs).flat_map(|run| run.figures.keys()).collect();
    names.sort();
    names.dedup();
    let head: Vec<String> = std::iter::once(String::new())
        .chain(case.variants.iter().map(|variant| variant.name.clone()))
        .collect();
    let row = |name: &&String| {
        let cell = |variant: &Variant| {
            let values = variant.runs.iter().filter_map(|run| run.figures.get(*name).copied());
            median(values.collect()).map_or("–".to_owned(), significant)
        };
        std::iter::once((*name).clone()).chain(case.variants.iter().map(cell)).collect()
    };
    let rows: Vec<Vec<String>> = names.iter().map(row).collect();
    let named: Vec<(&str, &String, u64)> = case
        .variants
        .iter()
        .filter_map(|variant| variant.runs.last().map(|run| (variant.name.as_str(), run)))
        .flat_map(|(name, run)| run.fallbacks.iter().map(move |(why, size)| (name, why, *size)))
        .collect();
    html! {
        @if !rows.is_empty() { (table("Figures", &head, &rows)) }
        @for (name, reason, size) in named {
            p { (name) ": not offloaded" @if size > 0 { " (" (bytes(size)) ")" } ", because " strong { (reason) } "." }
        }
    }
}

fn card(probes: &[Probe]) -> Markup {
    html! {
        h2 id="honesty" { "Honesty card" }
        p { "What the array promises, and what it does. Each GOOD is read back." }
        div.scroll { table {
            caption { "Promises" }
            thead { tr { @for cell in ["Question", "It says", "It did", "Verdict"] { th scope="col" { (cell) } } } }
            tbody {
                @for probe in probes {
                    tr {
                        th scope="row" { (probe.question) }
                        td { (probe.claim) }
                        td { (probe.found) }
                        td { (verdict(probe.verdict)) }
                    }
                }
            }
        } }
    }
}

fn verdict(verdict: Verdict) -> Markup {
    let kind = match verdict {
        Verdict::Honest => "good",
        Verdict::Lie | Verdict::NoAnswer => "bad",
        Verdict::NotClaimed | Verdict::Unclear => "open",
    };
    badge(kind, verdict.word())
}

fn lock_health(health: &LockHealth) -> Result<Markup> {
    let chart = if health.storms.is_empty() { None } else { Some(figures::storms(health)?) };
    Ok(html! {
        h2 id="locks" { "Lock health" }
        @if let Some(reason) = &health.reason { p { "Not measured: " (reason) "." } }
        (targets(&health.targets))
        @if let Some(chart) = chart {
            (figure(&chart))
            (storm_table(health))
        }
        @if let Some(aborts) = &health.aborts {
            h3 { "Abort and retry" }
            p {
                "A heartbeat is aborted while it is under way, the block read, the swap tried again with what was read, beside a load of writes: "
                (count(aborts.rounds)) " rounds; answers: " (count(aborts.complete)) " complete, " (count(aborts.ended_before))
                " ended before, " (count(aborts.refused)) " refused; the block had its old content " (count(aborts.old))
                " times, its new one " (count(aborts.new)) " times; " strong { (count(aborts.wrong)) " wrong" } ", "
                (count(aborts.retries_failed)) " retries failed otherwise, which is not judged."
            }
            @if !aborts.findings.is_empty() {
                ul { @for finding in &aborts.findings { li { (finding) } } }
            }
            p.note { "A stall of 8 s cannot be forced on an array from outside; so the abort follows at once. Commands that took 8 s or longer are counted in the table." }
        }
        @if let Some(history) = &health.history {
            h3 { "Linearizability" }
            p {
                (count(history.operations)) " operations of " (history.clients) " hosts on " (history.blocks)
                " blocks (READ, WRITE, COMPARE AND WRITE): "
                strong { @if history.impossible.is_empty() && history.undecided.is_empty() { "an order explains all answers" } @else { (history.impossible.len()) " blocks whose answers no order explains, " (history.undecided.len()) " undecided" } }
                ". Search of Wing and Gong with Lowe's memory, per block a register with compare-and-set."
            }
        }
    })
}

fn storm_table(health: &LockHealth) -> Markup {
    let head = [
        "While there is",
        "Its commands/s",
        "COMPARE AND WRITEs",
        "Half",
        "99 %",
        "99.99 %",
        "Slowest",
        "≥ 8 s",
        "Failed",
    ];
    let rows: Vec<Vec<String>> = health
        .storms
        .iter()
        .map(|storm| {
            let time = |us: u64| seconds(us as f64 / 1e6);
            vec![
                storm.name.clone(),
                significant(storm.storm_per_second),
                count(storm.count),
                time(storm.p50_us),
                time(storm.p99_us),
                time(storm.p9999_us),
                time(storm.max_us),
                count(storm.beyond_8s),
                count(storm.failed),
            ]
        })
        .collect();
    table(
        "Latency of COMPARE AND WRITE, one at a time, on a sector of its own",
        &head.map(str::to_owned),
        &rows,
    )
}

fn array(report: &Report) -> Markup {
    html! {
        h2 { "The array in its own words" }
        @for lun in &report.array.luns {
            h3 { (lun.name) }
            p { (bytes(lun.size_bytes)) " · " (lun.paths.join(", ")) }
            (table("Advertised", &["".to_owned(), "".to_owned()], &lun.advertised.iter().map(|(name, value)| vec![name.clone(), value.clone()]).collect::<Vec<_>>()))
        }
    }
}
