//! Report of the measurements as a table.

use std::fmt;

/// A goal that a figure is held against.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Goal {
    /// No more than this.
    AtMost(f64),
    /// No less than this.
    AtLeast(f64),
    /// Only told.
    None,
}

struct Row {
    what: String,
    figure: f64,
    unit: &'static str,
    goal: Goal,
}

/// All rows, in order.
#[derive(Default)]
pub(crate) struct Report(Vec<Row>);

impl Report {
    pub(crate) fn add(
        &mut self,
        what: impl Into<String>,
        figure: f64,
        unit: &'static str,
        goal: Goal,
    ) {
        let row = Row { what: what.into(), figure, unit, goal };
        eprintln!("{}: {} {unit}", row.what, number(row.figure));
        self.0.push(row);
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "| what | measured | goal | |\n|---|---|---|---|")?;
        for row in &self.0 {
            let (goal, met) = match row.goal {
                Goal::AtMost(goal) => (format!("≤ {goal}"), row.figure <= goal),
                Goal::AtLeast(goal) => (format!("≥ {goal}"), row.figure >= goal),
                Goal::None => (String::new(), true),
            };
            let mark = if met { "" } else { "**missed**" };
            let figure = number(row.figure);
            writeln!(f, "| {} | {figure} {} | {goal} | {mark} |", row.what, row.unit)?;
        }
        Ok(())
    }
}

/// Three digits that say something.
fn number(figure: f64) -> String {
    match figure {
        100.0.. => format!("{figure:.0}"),
        10.0.. => format!("{figure:.1}"),
        _ => format!("{figure:.2}"),
    }
}

/// The median of some measurements.
pub(crate) fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}
