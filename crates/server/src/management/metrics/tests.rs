use super::*;

#[test]
fn a_sample_is_written_as_prometheus_reads_it() {
    let mut page = Page::default();
    page.single(&SESSIONS, &[], 3.0);
    page.sample("x_total", &[("a", "b"), ("c", "d\\e\"f\ng")], 0.5);
    let expected = "# HELP gantry_sessions Sessions in full-feature phase.\n\
                    # TYPE gantry_sessions gauge\n\
                    gantry_sessions 3\n\
                    x_total{a=\"b\",c=\"d\\\\e\\\"f\\ng\"} 0.5\n";
    assert_eq!(page.0, expected);
}

#[test]
fn names_say_their_unit_and_kind() {
    for Metric { name, kind, .. } in METRICS {
        assert_eq!(name.ends_with("_total"), *kind == "counter", "{name}");
        assert!(name.starts_with("gantry_"), "{name}");
    }
}

#[test]
fn the_dashboard_asks_for_metrics_that_there_are() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/grafana-dashboard.json");
    let text = std::fs::read_to_string(path).expect("docs/grafana-dashboard.json is there");
    let is_part = |letter: char| letter.is_ascii_lowercase() || letter == '_';
    let asked: Vec<&str> = text
        .match_indices("gantry_")
        .map(|(at, _)| text[at..].split(|letter| !is_part(letter)).next().expect("a name"))
        .collect();
    assert!(asked.len() > 10, "{asked:?}");
    for name in asked {
        let own = name.strip_suffix("_bucket").unwrap_or(name);
        assert!(METRICS.iter().any(|metric| metric.name == own), "{name}");
    }
}

#[test]
fn the_documentation_lists_every_metric_and_no_other() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/metrics.md");
    let text = std::fs::read_to_string(path).expect("docs/metrics.md is there");
    let rows = text.lines().filter(|line| line.starts_with("| `gantry_"));
    let listed: Vec<(&str, &str)> = rows
        .map(|row| {
            let mut cells = row.split('|').map(str::trim).skip(1);
            (cells.next().expect("a name").trim_matches('`'), cells.next().expect("a kind"))
        })
        .collect();
    let there: Vec<(&str, &str)> = METRICS.iter().map(|m| (m.name, m.kind)).collect();
    assert_eq!(listed, there);
}
