//! Capacity forecast: linear trend (least squares) of the free space, and when a pool will be full.

use crate::limits::{FORECAST_VALUES_MIN, RESOLUTIONS};
use crate::series::{Series, SpaceSample};

/// A coefficient of determination from which a straight line is believed.
const STEADY: f64 = 0.9;

/// How a pool fills.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Forecast {
    /// Bytes by which the free space shrinks per second; below 0 if it grows.
    pub bytes_per_second: f64,
    /// Seconds of the past that this was learnt from.
    pub window_seconds: u64,
    /// Seconds until nothing is free; `None` if the free space does not shrink.
    pub seconds_until_full: Option<f64>,
}

/// Draws a straight line through the free space: through the shortest part of the past in which it
/// is one, else through the longest. `None` if too little is known.
pub fn forecast(series: &Series<SpaceSample>) -> Option<Forecast> {
    let lines = (0..RESOLUTIONS.len()).filter_map(|level| {
        let columns = series.at(level);
        let free = columns.values.iter().map(|space| space.free);
        (columns.values.len() >= FORECAST_VALUES_MIN).then(|| Line::through(free, columns.step))
    });
    let lines: Vec<Line> = lines.collect();
    let line = lines.iter().find(|line| line.fit >= STEADY).or(lines.last())?;
    let free = series.last()?.free;
    let shrinks = line.slope < 0.0;
    Some(Forecast {
        bytes_per_second: -line.slope,
        window_seconds: line.seconds,
        seconds_until_full: shrinks.then(|| free / -line.slope),
    })
}

/// A straight line by least squares.
#[derive(Clone, Copy, Debug)]
struct Line {
    /// Bytes per second.
    slope: f64,
    /// Coefficient of determination, 0 to 1.
    fit: f64,
    /// Seconds that it covers.
    seconds: u64,
}

impl Line {
    fn through(values: impl Iterator<Item = f64> + Clone, step: u64) -> Self {
        let count = values.clone().count() as f64;
        let mean_x = (count - 1.0) / 2.0;
        let mean_y = values.clone().sum::<f64>() / count;
        let (mut xx, mut xy, mut yy) = (0.0, 0.0, 0.0);
        for (x, y) in values.enumerate() {
            let (x, y) = (x as f64 - mean_x, y - mean_y);
            xx += x * x;
            xy += x * y;
            yy += y * y;
        }
        let fit = if xx * yy > 0.0 { xy * xy / (xx * yy) } else { 0.0 };
        Self { slope: xy / xx / step as f64, fit, seconds: count as u64 * step }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: f64 = (1_u64 << 30) as f64;

    fn series(free: impl Iterator<Item = f64>) -> Series<SpaceSample> {
        let mut series = Series::starting_at(0);
        free.for_each(|free| series.push(SpaceSample { free, ..SpaceSample::default() }));
        series
    }

    fn until_full(series: &Series<SpaceSample>) -> f64 {
        let forecast = forecast(series).expect("enough is known");
        forecast.seconds_until_full.expect("the pool fills")
    }

    /// Numbers between -1 and 1 that look random.
    fn noise(second: u64) -> f64 {
        let mixed = (second + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        ((mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 40) as f64 / 8_388_608.0 - 1.0
    }

    #[test]
    fn too_short_a_past_gives_no_forecast() {
        assert_eq!(forecast(&series((0..29).map(|second| 1e9 - second as f64))), None);
    }

    #[test]
    fn a_ramp_is_forecast_within_a_fifth_whether_short_or_long_and_with_noise() {
        for seconds in [60_u64, 400, 5_000, 50_000] {
            for spread in [0.0, 0.01] {
                let free = |second: u64| {
                    let ramp = 100.0 * GIB - 1e6 * second as f64;
                    ramp + spread * GIB * noise(second)
                };
                let series = series((0..seconds).map(free));
                let truth = (100.0 * GIB - 1e6 * seconds as f64) / 1e6;
                let error = (until_full(&series) - truth).abs() / truth;
                assert!(error < 0.2, "{seconds} s, {spread}: {error}");
            }
        }
    }

    #[test]
    fn a_ramp_after_a_quiet_day_is_seen_in_minutes() {
        let quiet = std::iter::repeat_n(100.0 * GIB, 86_400);
        let ramp = (0..300).map(|second| 100.0 * GIB - 5e6 * second as f64);
        let truth = (100.0 * GIB - 1.5e9) / 5e6;
        let error = (until_full(&series(quiet.chain(ramp))) - truth).abs() / truth;
        assert!(error < 0.2, "{error}");
    }

    #[test]
    fn steps_of_a_nightly_job_are_forecast_by_the_whole_week() {
        let free = (0..6 * 86_400_u64).map(|second| 100.0 * GIB - (second / 86_400) as f64 * GIB);
        let days = until_full(&series(free)) / 86_400.0;
        assert!((76.0..114.0).contains(&days), "{days}");
    }

    #[test]
    fn a_pool_that_stays_or_empties_is_never_full() {
        let quiet = series(std::iter::repeat_n(GIB, 1_000));
        assert_eq!(
            forecast(&quiet).map(|f| (f.bytes_per_second, f.seconds_until_full)),
            Some((0.0, None))
        );
        let emptying = series((0..100).map(|second| GIB + second as f64));
        assert_eq!(forecast(&emptying).and_then(|f| f.seconds_until_full), None);
    }

    #[test]
    fn a_full_pool_is_full_now() {
        let filled = series((0..100).map(|second| (99 - second) as f64));
        assert_eq!(until_full(&filled), 0.0);
    }
}
