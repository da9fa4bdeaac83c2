//! Medians, ratios, and whether a target was met.

use super::cases::{By, Pair};
use super::model::{Processor, Ratio, Run, Target, Variant};

/// The middle one; of an even number, the mean of the two in the middle.
pub(super) fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let half = values.len() / 2;
    match values.len() {
        0 => None,
        odd if odd % 2 == 1 => Some(values[half]),
        _ => Some((values[half - 1] + values[half]) / 2.0),
    }
}

fn values(variants: &[Variant], name: &str, of: impl Fn(&Run) -> Option<f64>) -> Vec<f64> {
    let runs = variants.iter().filter(|variant| variant.name == name);
    runs.flat_map(|variant| &variant.runs).filter_map(of).collect()
}

/// The median of something over a variant's runs.
pub(super) fn median_of(variants: &[Variant], name: &str, of: impl Fn(&Run) -> f64) -> Option<f64> {
    median(values(variants, name, |run| Some(of(run))))
}

/// The median of a figure over a variant's runs.
pub(super) fn figure(variants: &[Variant], name: &str, figure: &str) -> Option<f64> {
    median(values(variants, name, |run| run.figures.get(figure).copied()))
}

/// How a figure of a run relates to another one of the same run: the median over a variant's runs.
pub(super) fn share(variants: &[Variant], name: &str, part: &str, whole: &str) -> Option<f64> {
    median(values(variants, name, |run| Some(run.figures.get(part)? / run.figures.get(whole)?)))
}

/// How many times longer a variant takes than another.
pub(super) fn ratio_of(variants: &[Variant], off: &str, on: &str) -> Option<f64> {
    let seconds = |name| median_of(variants, name, |run| run.seconds);
    Some(seconds(off)? / seconds(on)?)
}

/// Bytes on the wire of a variant as a fraction of another's.
pub(super) fn wire_of(variants: &[Variant], off: &str, on: &str) -> Option<f64> {
    let bytes = |name| median_of(variants, name, |run| run.counters.wire_bytes as f64);
    let all = bytes(off)?;
    (all > 0.0).then_some(bytes(on)? / all)
}

/// Processor time per GB of both variants of a pair.
fn processor_of(
    variants: &[Variant],
    pair: &Pair,
    of: fn(&Processor) -> Option<f64>,
) -> Option<[f64; 2]> {
    let seconds = |name| median(values(variants, name, |run| of(&run.processor)));
    Some([seconds(pair.off)?, seconds(pair.on)?])
}

/// Compares the variants of a pair.
pub(super) fn compare(variants: &[Variant], pair: &Pair) -> Option<Ratio> {
    let of = |run: &Run| match pair.by {
        By::Seconds => Some(run.seconds),
        By::More(name) => run.figures.get(name).copied(),
    };
    let (off, on) = (values(variants, pair.off, of), values(variants, pair.on, of));
    let better = |off: f64, on: f64| match pair.by {
        By::Seconds => off / on,
        By::More(_) => on / off,
    };
    let all = off.iter().flat_map(|off| on.iter().map(|on| better(*off, *on)));
    let (low, high) = all
        .fold((f64::INFINITY, 0.0_f64), |(low, high), factor| (low.min(factor), high.max(factor)));
    let (off, on) = (median(off)?, median(on)?);
    Some(Ratio {
        name: pair.name.to_owned(),
        off,
        on,
        unit: match pair.by {
            By::Seconds => "s".to_owned(),
            By::More(name) => name.to_owned(),
        },
        factor: better(off, on),
        range: [low, high],
        published: pair.published,
        host_processor: processor_of(variants, pair, Processor::host_per_gb),
        array_processor: processor_of(variants, pair, Processor::array_per_gb),
        // Rates are measured over a time: more work means more bytes.
        wire: wire_of(variants, pair.off, pair.on).filter(|_| pair.by == By::Seconds),
    })
}

/// A target as it stands in the report.
pub(super) fn target(what: &str, wanted: &str, found: Option<String>, met: Option<bool>) -> Target {
    Target {
        what: what.to_owned(),
        wanted: wanted.to_owned(),
        found: found.unwrap_or_else(|| "not measured".to_owned()),
        met,
    }
}

/// Off against on: at least so many times faster.
pub(super) fn at_least(what: &str, factor: f64, found: Option<f64>) -> Target {
    target(
        &format!("{what}: off against on"),
        &format!("≥ {factor:.0} ×"),
        found.map(|found| format!("{found:.1} ×")),
        found.map(|found| found >= factor),
    )
}

/// Bytes on the wire with the offloads on, as a fraction of those with them off.
pub(super) fn wire_below(
    what: &str,
    limit: f64,
    variants: &[Variant],
    off: &str,
    on: &str,
) -> Target {
    let found = wire_of(variants, off, on);
    target(
        &format!("{what}: bytes on the wire, on against off"),
        &format!("< {:.0} %", limit * 100.0),
        found.map(|found| format!("{:.2} %", found * 100.0)),
        found.map(|found| found < limit),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variant(name: &str, seconds: &[f64]) -> Variant {
        let run = |seconds: &f64| Run {
            seconds: *seconds,
            figures: [("IOPS".to_owned(), 1.0 / seconds)].into(),
            ..Run::default()
        };
        Variant { name: name.to_owned(), runs: seconds.iter().map(run).collect() }
    }

    #[test]
    fn medians_do_not_follow_an_outlier() {
        assert_eq!(median(vec![]), None);
        assert_eq!(median(vec![3.0]), Some(3.0));
        assert_eq!(median(vec![100.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), Some(2.5));
    }

    #[test]
    fn a_share_compares_figures_of_one_run_and_not_of_two() {
        let run = |part: f64, whole: f64| Run {
            figures: [("part".to_owned(), part), ("whole".to_owned(), whole)].into(),
            ..Run::default()
        };
        let runs = vec![run(90.0, 100.0), run(19.0, 20.0), run(49.0, 50.0)];
        let variants = [Variant { name: "on".to_owned(), runs }];
        assert_eq!(share(&variants, "on", "part", "whole"), Some(0.95));
        assert_eq!(share(&variants, "on", "part", "absent"), None);
        assert_eq!(share(&variants, "off", "part", "whole"), None);
    }

    #[test]
    fn more_than_one_is_better_whether_by_seconds_or_by_rates() {
        let variants = [variant("off", &[4.0, 8.0, 6.0]), variant("on", &[1.0, 2.0, 3.0])];
        let by = |by| Pair { name: "p", off: "off", on: "on", by, published: None };
        let seconds = compare(&variants, &by(By::Seconds)).expect("both ran");
        assert_eq!((seconds.factor, seconds.range), (3.0, [4.0 / 3.0, 8.0]));
        let rates = compare(&variants, &by(By::More("IOPS"))).expect("both ran");
        assert!((rates.factor - 3.0).abs() < 1e-9);
        assert_eq!((seconds.saved(), rates.saved()), ("66.7 % saved".into(), "+200 %".into()));
        let slower = Ratio { factor: 0.5, ..seconds.clone() };
        assert_eq!(slower.saved(), "100.0 % more time");
        let alike = Ratio { factor: 0.997, ..rates.clone() };
        assert_eq!(alike.saved(), "+0 %");
        assert_eq!(compare(&variants[..1], &by(By::Seconds)), None);
        assert_eq!(seconds.wire, None, "nothing went over the wire");
    }

    #[test]
    fn processor_time_is_compared_per_gigabyte_and_only_where_it_is_known() {
        let processor = |host, array| Processor { host: Some(host), array, bytes: 500_000_000 };
        let mut variants = [variant("off", &[4.0]), variant("on", &[1.0])];
        variants[0].runs[0].processor = processor(1.0, Some(2.0));
        variants[1].runs[0].processor = processor(0.25, None);
        let pair = Pair { name: "p", off: "off", on: "on", by: By::Seconds, published: None };
        let ratio = compare(&variants, &pair).expect("both ran");
        assert_eq!(ratio.host_processor, Some([2.0, 0.5]));
        assert_eq!(ratio.array_processor, None);
        assert_eq!(Processor::default().host_per_gb(), None);
    }

    #[test]
    fn what_was_not_measured_is_neither_met_nor_missed() {
        assert_eq!(at_least("x", 20.0, None).met, None);
        assert_eq!(at_least("x", 20.0, Some(19.9)).met, Some(false));
        assert_eq!(at_least("x", 20.0, Some(20.0)).met, Some(true));
    }
}
