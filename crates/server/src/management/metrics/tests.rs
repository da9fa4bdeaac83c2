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
        // One name is that of Prometheus' clients for the process itself.
        assert!(name.starts_with("gantry_") || *name == PROCESSOR.name, "{name}");
    }
}

#[test]
fn the_dashboard_asks_for_metrics_that_there_are() {
    assert_asks_for_own_metrics("docs/grafana-dashboard.json");
}

#[test]
fn the_alert_rules_ask_for_metrics_that_there_are() {
    assert_asks_for_own_metrics("packaging/gantry-alerts.yml");
}

/// What every rule needs, and brackets that fit: no YAML is read here.
#[test]
fn every_alert_rule_is_whole() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/gantry-alerts.yml");
    let text = std::fs::read_to_string(path).expect("the alert rules are there");
    let rules: Vec<&str> = text.split("      - alert: ").skip(1).collect();
    assert!(rules.len() > 10);
    for rule in rules {
        let name = rule.lines().next().expect("a name");
        assert!(name.starts_with("Gantry"), "{name}");
        for key in
            ["expr: ", "labels: { severity: ", "annotations:", "summary: \"", "description: \""]
        {
            assert_eq!(
                rule.lines().filter(|l| l.trim().starts_with(key)).count(),
                1,
                "{name} {key}"
            );
        }
        for (open, close) in [('(', ')'), ('{', '}'), ('[', ']')] {
            assert_eq!(rule.matches(open).count(), rule.matches(close).count(), "{name}");
        }
    }
}

fn assert_asks_for_own_metrics(file: &str) {
    let path = format!("{}/../../{file}", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).expect("it is there");
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
    let is_row = |line: &&str| line.starts_with("| `gantry_") || line.starts_with("| `process_");
    let rows = text.lines().filter(is_row);
    let listed: Vec<(&str, &str)> = rows
        .map(|row| {
            let mut cells = row.split('|').map(str::trim).skip(1);
            (cells.next().expect("a name").trim_matches('`'), cells.next().expect("a kind"))
        })
        .collect();
    let there: Vec<(&str, &str)> = METRICS.iter().map(|m| (m.name, m.kind)).collect();
    assert_eq!(listed, there);
}
