use proptest::prelude::*;

use super::*;

impl Sample for f64 {
    fn mean<'a>(values: impl ExactSizeIterator<Item = &'a Self>) -> Self {
        let count = values.len() as f64;
        values.sum::<f64>() / count
    }
}

fn filled(start: u64, count: u64) -> Series<f64> {
    let mut series = Series::starting_at(start);
    (0..count).for_each(|second| series.push((start + second) as f64));
    series
}

#[test]
fn an_empty_series_has_no_values() {
    let series = Series::<f64>::starting_at(7);
    assert_eq!(series.last_seconds(300), Columns { start: 7, step: 1, values: vec![] });
    assert_eq!(series.last(), None);
}

#[test]
fn each_value_of_a_coarse_resolution_is_the_mean_of_finer_ones() {
    let series = filled(0, 1_300);
    let minutes = series.at(2);
    assert_eq!((minutes.start, minutes.step, minutes.values.len()), (0, 60, 21));
    assert_eq!(minutes.values[3], (180.0 + 239.0) / 2.0);
    assert_eq!(series.at(3).values, [299.5, 899.5]);
}

#[test]
fn the_finest_resolution_that_covers_what_is_asked_answers() {
    let series = filled(0, 100_000);
    let steps = [1, 300, 301, 3_600, 3_601, 43_200, 43_201, 604_800, u64::MAX]
        .map(|seconds| series.last_seconds(seconds).step);
    assert_eq!(steps, [1, 1, 10, 10, 60, 60, 600, 600, 600]);
    let last = series.last_seconds(3);
    assert_eq!((last.start, last.values), (99_997, vec![99_997.0, 99_998.0, 99_999.0]));
}

#[test]
fn a_week_and_a_day_keep_a_week_in_bounded_memory() {
    let series = filled(0, 8 * 86_400);
    for (level, (step, length)) in RESOLUTIONS.into_iter().enumerate() {
        let columns = series.at(level);
        assert_eq!((columns.step, columns.values.len()), (step, length));
        assert_eq!(columns.start + step * length as u64, 8 * 86_400);
    }
    assert_eq!(series.at(3).values.len() * 600, 7 * 86_400);
}

proptest! {
    #[test]
    fn a_value_stands_where_its_time_is(start in 0_u64..5_000, count in 1_u64..5_000) {
        let series = filled(start, count);
        for level in 0..RESOLUTIONS.len() {
            let Columns { start: first, step, values } = series.at(level);
            for (place, value) in values.iter().enumerate() {
                let from = first + place as u64 * step;
                // A series that began inside of a step knows only the rest of it.
                prop_assert!(*value >= from as f64 && *value < (from + step) as f64);
            }
        }
    }
}
