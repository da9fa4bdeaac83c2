//! Charts, drawn as SVG by charts-rs: they print well, need no script, and carry a title and a
//! description for those who do not see them.

use anyhow::{Result, anyhow};
use charts_rs::{BarChart, LineChart, svg_with_accessibility};
use serde_json::{Value, json};

use super::numbers::significant;

/// Offloads off.
pub(super) const OFF: &str = "#c2621b";
/// Offloads on.
pub(super) const ON: &str = "#17708a";
/// Neither.
pub(super) const NEUTRAL: &str = "#7b8794";
/// A fourth one.
pub(super) const FOURTH: &str = "#5b4b8a";

/// A chart, and the same numbers as a table.
pub(super) struct Chart {
    pub(super) title: String,
    pub(super) svg: String,
    pub(super) head: Vec<String>,
    pub(super) rows: Vec<Vec<String>>,
}

/// Bars of one colour.
pub(super) struct Bars {
    pub(super) name: String,
    pub(super) color: &'static str,
    /// A colour for each bar, where they differ.
    pub(super) colors: Option<Vec<&'static str>>,
    /// Height, and the lowest and highest of the runs, per category.
    pub(super) values: Vec<Option<(f64, [f64; 2])>>,
}

/// A line.
pub(super) struct Line {
    pub(super) name: String,
    pub(super) color: &'static str,
    pub(super) points: Vec<(f64, f64)>,
}

/// How the vertical axis is divided.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Axis {
    Linear,
    Logarithmic,
}

fn common(title: &str, unit: &str) -> Value {
    json!({
        "width": 720, "height": 300, "margin": {"left": 8, "top": 6, "right": 20, "bottom": 6},
        "title_text": title, "title_align": "left", "title_font_size": 14, "title_font_weight": "600",
        "legend_align": "right", "legend_category": "round_rect", "legend_font_size": 12,
        "x_axis_font_size": 12, "series_label_font_size": 11, "grid_stroke_color": "#e5e9ee",
        "x_axis_stroke_color": "#9aa5b1", "series_stroke_width": 1.8,
        "y_axis_configs": [{"axis_font_size": 11, "axis_title": unit, "axis_split_number": 5}],
    })
}

fn round(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return 0.0;
    }
    let scale = 10_f64.powi(2 - value.abs().log10().floor() as i32);
    (value * scale).round() / scale
}

fn with(mut base: Value, more: Value) -> String {
    if let (Some(base), Value::Object(more)) = (base.as_object_mut(), more) {
        base.extend(more);
    }
    base.to_string()
}

/// Groups of bars.
///
/// # Errors
/// When the library does not draw it.
pub(super) fn bars(
    title: &str,
    unit: &str,
    categories: &[String],
    series: &[Bars],
    axis: Axis,
) -> Result<Chart> {
    let list: Vec<Value> = series.iter().map(|bars| one_series(bars, axis)).collect();
    let mut y = json!({"axis_font_size": 11, "axis_title": unit, "axis_split_number": 5});
    if axis == Axis::Logarithmic {
        y["axis_scale"] = json!("log");
    } else {
        y["axis_min"] = json!(0);
    }
    let colors: Vec<&str> = series.iter().map(|bars| bars.color).collect();
    let more = json!({
        "x_axis_data": categories, "series_list": list, "series_colors": colors,
        "y_axis_configs": [y], "legend_show": series.len() > 1,
    });
    let chart = BarChart::from_json(&with(common(title, unit), more)).map_err(drawing)?;
    let head = std::iter::once(String::new())
        .chain(series.iter().map(|bars| format!("{}, {unit}", bars.name)));
    let row = |number: usize| {
        let cell = |bars: &Bars| match bars.values.get(number).copied().flatten() {
            Some((value, [low, high])) if low < high => {
                format!("{} ({}–{})", significant(value), significant(low), significant(high))
            }
            Some((value, _)) => significant(value),
            None => "–".to_owned(),
        };
        std::iter::once(categories[number].clone()).chain(series.iter().map(cell)).collect()
    };
    let rows = (0..categories.len()).map(row).collect();
    finish(title, &chart.svg().map_err(drawing)?, head.collect(), rows)
}

fn one_series(bars: &Bars, axis: Axis) -> Value {
    let height = |value: f64| match axis {
        Axis::Linear => round(value),
        // A logarithm has no zero.
        Axis::Logarithmic => round(value.max(1e-6)),
    };
    let of = |pick: fn(&(f64, [f64; 2])) -> f64| -> Vec<Option<f64>> {
        bars.values.iter().map(|value| value.as_ref().map(|value| height(pick(value)))).collect()
    };
    let spread = bars.values.iter().flatten().any(|(_, [low, high])| low < high);
    let mut series = json!({
        "name": bars.name, "data": of(|value| value.0), "label_show": !spread,
    });
    if let Some(colors) = &bars.colors {
        series["colors"] = json!(colors);
    }
    if spread {
        series["error_bar"] = json!({
            "lower": of(|value| value.1[0]), "upper": of(|value| value.1[1]), "stroke_width": 1.2,
        });
    }
    series
}

/// Lines over seconds.
///
/// # Errors
/// When the library does not draw it.
pub(super) fn lines(title: &str, unit: &str, lines: &[Line]) -> Result<Chart> {
    let series = |line: &Line| {
        let (x, y): (Vec<f64>, Vec<f64>) =
            line.points.iter().map(|(x, y)| ((x * 1e4).round() / 1e4, round(*y))).unzip();
        json!({"name": line.name, "data": y, "x_values": x, "fill": true, "symbol": null})
    };
    let list: Vec<Value> = lines.iter().map(series).collect();
    let colors: Vec<&str> = lines.iter().map(|line| line.color).collect();
    let moments = lines.iter().flat_map(|line| line.points.iter().map(|point| point.0));
    let (first, last) =
        moments.fold((f64::INFINITY, 0.0_f64), |(low, high), x| (low.min(x), high.max(x)));
    let more = json!({
        "series_list": list, "series_colors": colors, "x_axis_type": "value",
        "x_axis_min": first.min(last), "x_axis_max": last * 1.04, "x_axis_title": "seconds",
        "series_fill_opacity": 0.12, "x_axis_height": 30,
        "y_axis_configs": [{"axis_font_size": 11, "axis_title": unit, "axis_split_number": 5, "axis_min": 0}],
    });
    let chart = LineChart::from_json(&with(common(title, unit), more)).map_err(drawing)?;
    let head = ["", "latest", "maximum", "minimum", "average", "seconds"];
    let head = head.map(str::to_owned).to_vec();
    let rows = lines.iter().map(|line| {
        // The first and the last point only close the line.
        let inner = match line.points.len() {
            0..3 => &line.points[..],
            all => &line.points[1..all - 1],
        };
        let values: Vec<f64> = inner.iter().map(|point| point.1).collect();
        let average = values.iter().sum::<f64>() / values.len().max(1) as f64;
        let maximum = values.iter().copied().fold(0.0, f64::max);
        let minimum = values.iter().copied().fold(maximum, f64::min);
        let latest = values.last().copied().unwrap_or(0.0);
        let ends = line.points.first().zip(line.points.last());
        let span = ends.map_or(0.0, |(first, last)| last.0 - first.0);
        let figures = [latest, maximum, minimum, average, span];
        std::iter::once(line.name.clone()).chain(figures.map(significant)).collect()
    });
    finish(&format!("{title} ({unit})"), &chart.svg().map_err(drawing)?, head, rows.collect())
}

fn drawing(error: impl std::fmt::Display) -> anyhow::Error {
    anyhow!("drawing a chart: {error}")
}

fn finish(title: &str, svg: &str, head: Vec<String>, rows: Vec<Vec<String>>) -> Result<Chart> {
    let lines: Vec<String> = rows.iter().map(|row| row.join(", ")).collect();
    let svg = svg_with_accessibility(svg, title, &lines.join("; "));
    Ok(Chart { title: title.to_owned(), svg, head, rows })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_have_a_title_a_description_and_the_same_numbers_as_their_table() {
        let series = [Bars {
            name: "off".to_owned(),
            color: OFF,
            colors: None,
            values: vec![Some((2.0, [1.0, 3.0])), None],
        }];
        let categories = ["a".to_owned(), "b".to_owned()];
        for axis in [Axis::Linear, Axis::Logarithmic] {
            let chart = bars("Clone", "s", &categories, &series, axis).expect("it is drawn");
            assert!(chart.svg.contains("role=\"img\"") && chart.svg.contains("<desc>"));
            assert_eq!(chart.rows, [["a", "2.00 (1.00–3.00)"], ["b", "–"]]);
        }
    }

    #[test]
    fn lines_are_drawn_even_when_there_is_next_to_nothing() {
        for points in [vec![], vec![(0.0, 0.0)], vec![(0.0, 1.0), (0.5, 2.0)]] {
            let line = Line { name: "on".to_owned(), color: ON, points };
            assert!(lines("Rate", "MB/s", &[line]).is_ok());
        }
    }

    #[test]
    fn the_legend_of_a_line_is_vcenters() {
        let points = vec![(0.0, 0.0), (0.5, 4.0), (1.5, 1.0), (2.5, 2.5), (3.0, 0.0)];
        let line = Line { name: "on".to_owned(), color: ON, points };
        let chart = lines("Rate", "MB/s", &[line]).expect("it is drawn");
        assert_eq!(chart.head, ["", "latest", "maximum", "minimum", "average", "seconds"]);
        assert_eq!(chart.rows, [["on", "2.50", "4.00", "1.00", "2.50", "3.00"]]);
    }
}
