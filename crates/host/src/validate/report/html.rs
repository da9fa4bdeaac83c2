//! The frame of a page, and the parts that all pages have.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::charts::Chart;
use crate::validate::model::Target;

const STYLE: &str = include_str!("style.css");

/// A whole page.
pub(in crate::validate) fn document(title: &str, body: &Markup) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light";
                title { (title) }
                style { (PreEscaped(STYLE)) }
            }
            body { (body) }
        }
    };
    page.into_string()
}

/// A table; all cells but each row's first are aligned as numbers if they look like some.
pub(in crate::validate) fn table(caption: &str, head: &[String], rows: &[Vec<String>]) -> Markup {
    let class = |cell: &str| {
        let number =
            cell.chars().next().is_some_and(|first| first.is_ascii_digit() || first == '–');
        if number && cell.len() < 20 { "number" } else { "" }
    };
    html! {
        div.scroll { table {
            caption { (caption) }
            thead { tr { @for cell in head { th scope="col" { (cell) } } } }
            tbody {
                @for row in rows {
                    tr {
                        @for (number, cell) in row.iter().enumerate() {
                            @if number == 0 { th scope="row" { (cell) } }
                            @else { td class=(class(cell)) { (cell) } }
                        }
                    }
                }
            }
        } }
    }
}

/// A chart with its numbers below it, open: a closed element is not printed.
pub(super) fn figure(chart: &Chart) -> Markup {
    html! {
        figure {
            (PreEscaped(&chart.svg))
            (table(&chart.title, &chart.head, &chart.rows))
        }
    }
}

/// What was to be shown, and whether it was.
pub(super) fn targets(targets: &[Target]) -> Markup {
    html! {
        @if !targets.is_empty() {
            ul.targets {
                @for target in targets {
                    li {
                        (mark(target.met))
                        " " (target.what) ": " strong { (target.found) }
                        span.wanted { " wanted: " (target.wanted) }
                    }
                }
            }
        }
    }
}

/// A word with a colour; the word alone says it.
pub(super) fn badge(kind: &str, word: &str) -> Markup {
    html! { span class={ "badge " (kind) } { (word) } }
}

fn mark(met: Option<bool>) -> Markup {
    match met {
        Some(true) => badge("good", "met"),
        Some(false) => badge("bad", "not met"),
        None => badge("open", "not measured"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_legend_of_a_picture_is_seen_and_printed_below_it() {
        let chart = Chart {
            title: "Rate".to_owned(),
            svg: "<svg></svg>".to_owned(),
            head: ["", "latest", "maximum"].map(str::to_owned).to_vec(),
            rows: vec![["on", "2.50", "4.00"].map(str::to_owned).to_vec()],
        };
        let page = figure(&chart).into_string();
        let (picture, legend) = page.split_once("</svg>").expect("a picture");
        assert!(!picture.contains("4.00") && legend.contains("maximum") && legend.contains("4.00"));
        assert!(!page.contains("<details"), "closed, and not printed");
    }
}
