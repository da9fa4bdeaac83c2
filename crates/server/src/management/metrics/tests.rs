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
