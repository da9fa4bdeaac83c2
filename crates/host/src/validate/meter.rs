//! The meter: what a piece of work costs, and how it went over time.

use std::time::{Duration, Instant};

use anyhow::Result;

use super::model::{Processor, Run, Series};
use super::watch::{Seen, Sums, Watch};
use crate::esxi::counters::Counters;
use crate::esxi::datastore::Datastore;
use crate::esxi::lun::{Lun, Trace};

/// Between two samples.
const EVERY: Duration = Duration::from_millis(10);

/// Values of a rate over time, at most.
const VALUES_MAX: usize = 120;

/// Rates that are kept over time: name with unit, what they count, and the unit's size.
type Rate = (&'static str, fn(&Counters) -> u64, f64);

const RATES: [Rate; 6] = [
    ("write rate, KB/s", |counters| counters.write_bytes, 1e3),
    ("write requests/s", |counters| counters.writes, 1.0),
    ("adapter read, MB/s", |counters| counters.read_bytes, 1e6),
    ("adapter write, MB/s", |counters| counters.write_bytes, 1e6),
    ("interface, MB/s", |counters| counters.wire_bytes, 1e6),
    ("volume, MB/s", written, 1e6),
];

/// Bytes that volumes took, by whatever command.
pub(super) fn written(counters: &Counters) -> u64 {
    counters.write_bytes + counters.zero_bytes + counters.clone_wr_bytes
}

/// SCSI commands that reached their end.
pub(super) fn commands(counters: &Counters) -> u64 {
    let done = counters.reads + counters.writes + counters.clone_wr + counters.ats;
    let failed = counters.clone_f + counters.atsf + counters.zero_f + counters.delete_f;
    done + failed + counters.zero + counters.delete + counters.resv + counters.cons
}

/// The beginning of a measurement.
pub(super) struct Meter {
    before: Vec<Counters>,
    watch: Watch,
    started: Instant,
}

fn luns(stores: &mut [Datastore]) -> impl Iterator<Item = &mut Lun> {
    stores.iter_mut().flat_map(|store| store.volume.disks())
}

impl Meter {
    /// Begins.
    pub(super) fn begin(stores: &mut [Datastore]) -> Self {
        let before = luns(stores).map(|lun| {
            lun.measure_wire();
            lun.counters
        });
        let before = before.collect();
        let watch = Watch::begin();
        let started = Instant::now();
        luns(stores).for_each(|lun| {
            lun.trace = Some(Trace::new(started, EVERY));
            lun.sample();
        });
        Self { before, watch, started }
    }

    /// Ends: what was done, over time too.
    pub(super) fn end(self, stores: &mut [Datastore]) -> Run {
        let seconds = self.started.elapsed().as_secs_f64();
        // Before the last look at the array, which takes its time.
        luns(stores).for_each(Lun::sample);
        let Seen { processor, rates } = self.watch.end();
        let mut counters = Counters::default();
        let mut traces = Vec::new();
        for (lun, before) in luns(stores).zip(&self.before) {
            counters.add(&lun.counters.since(before));
            traces.extend(lun.trace.take());
        }
        let traces: Vec<_> = traces.into_iter().map(|trace| trace.samples).collect();
        let own = RATES.iter().map(|rate| of_host(&traces, seconds, rate));
        let of_array = |(name, unit, sums): &(String, f64, Sums)| {
            series(&[ended_at(seconds, sums)], seconds, (name, *unit))
        };
        let bytes = written(&counters).max(counters.read_bytes);
        Run {
            seconds,
            commands: commands(&counters),
            counters,
            series: own.chain(rates.iter().map(of_array)).collect(),
            processor: Processor { bytes, ..processor },
            ..Run::default()
        }
    }

    /// Measures one piece of work.
    ///
    /// # Errors
    /// The work's.
    pub(super) fn measure<T>(
        stores: &mut [Datastore],
        work: impl FnOnce(&mut [Datastore]) -> Result<T>,
    ) -> Result<(T, Run)> {
        let meter = Self::begin(stores);
        let made = work(stores)?;
        Ok((made, meter.end(stores)))
    }
}

/// A sum at a moment, between two samples in proportion.
fn at(samples: &[(f64, f64)], moment: f64) -> f64 {
    let behind = samples.partition_point(|(when, _)| *when < moment);
    let value = |number: usize| samples[number].1;
    match (behind, samples.len()) {
        (_, 0) => 0.0,
        (0, _) => value(0),
        (behind, all) if behind == all => value(all - 1),
        (behind, _) => {
            let (from, to) = (samples[behind - 1].0, samples[behind].0);
            let share = if to > from { (moment - from) / (to - from) } else { 1.0 };
            value(behind - 1) + (value(behind) - value(behind - 1)) * share
        }
    }
}

/// Sums of the array, whose last look is behind the end by as long as its page takes: what that look
/// says was done by then.
fn ended_at(end: f64, sums: &Sums) -> Sums {
    let mut ended: Sums = sums.iter().copied().filter(|(when, _)| *when < end).collect();
    ended.extend(sums.last().map(|(_, sum)| (end, *sum)));
    ended
}

fn of_host(traces: &[Vec<(f64, Counters)>], seconds: f64, rate: &Rate) -> Series {
    let (name, count, unit) = *rate;
    let sums = |trace: &Vec<(f64, Counters)>| -> Sums {
        trace.iter().map(|(when, counters)| (*when, count(counters) as f64)).collect()
    };
    let sums: Vec<Sums> = traces.iter().map(sums).collect();
    series(&sums, seconds, (name, unit))
}

fn series(traces: &[Sums], seconds: f64, (name, unit): (&str, f64)) -> Series {
    let values = (seconds / EVERY.as_secs_f64() / 2.0) as usize;
    let values = values.clamp(1, VALUES_MAX);
    let step = seconds / values as f64;
    let sum = |moment: f64| traces.iter().map(|one| at(one, moment)).sum::<f64>();
    let change = |number: usize| {
        let (from, to) = (number as f64 * step, (number + 1) as f64 * step);
        ((sum(to) - sum(from)) / step / unit * 100.0).round() / 100.0
    };
    Series { name: name.to_owned(), step, values: (0..values).map(change).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_over_time_adds_up_to_what_was_counted() {
        let counters = |bytes| Counters { write_bytes: bytes, ..Counters::default() };
        let samples =
            vec![(0.0, counters(1000)), (0.5, counters(1_001_000)), (2.0, counters(4_001_000))];
        let rate: Rate = ("r", |counters| counters.write_bytes, 1.0);
        let series = of_host(&[samples], 2.0, &rate);
        let sum: f64 = series.values.iter().map(|value| value * series.step).sum();
        assert!((sum - 4_000_000.0).abs() < 1.0, "{sum}");
        assert!(series.values.len() <= VALUES_MAX);
        assert!((series.values[0] - 2_000_000.0).abs() < 1.0);
    }

    #[test]
    fn a_look_behind_the_end_counts_for_the_end() {
        let late = vec![(0.0, 5.0), (0.05, 20.0), (0.4, 100.0), (0.9, 105.0)];
        for end in [0.01, 0.1, 0.5, 2.0] {
            let series = series(&[ended_at(end, &late)], end, ("r", 1.0));
            let sum: f64 = series.values.iter().map(|value| value * series.step).sum();
            assert!((sum - 100.0).abs() < 0.1, "{sum} at {end}");
        }
        assert_eq!(ended_at(1.0, &Vec::new()), Vec::new());
    }

    #[test]
    fn nothing_done_is_a_rate_of_zero() {
        let series = of_host(&[Vec::new()], 0.0001, &RATES[0]);
        assert_eq!(series.values, [0.0]);
    }
}
