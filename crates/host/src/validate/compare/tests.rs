use super::*;
use crate::validate::model::{Array, Ratio};

fn report(product: &str, factor: Option<f64>) -> Report {
    let ratio = |factor| Ratio {
        host_processor: None,
        array_processor: None,
        name: "clone".to_owned(),
        off: factor,
        on: 1.0,
        unit: "s".to_owned(),
        factor,
        range: [factor; 2],
        published: Some(4.3),
        wire: Some(0.005),
    };
    let state = match factor {
        Some(_) => State::Done,
        None => State::NotMeasured("no XCOPY".to_owned()),
    };
    let case = Case {
        id: "Q2".to_owned(),
        title: "Full Copy: clone".to_owned(),
        source: String::new(),
        scenario: String::new(),
        published: String::new(),
        sizes: String::new(),
        state,
        variants: Vec::new(),
        ratios: factor.map(ratio).into_iter().collect(),
        targets: Vec::new(),
        notes: Vec::new(),
    };
    let probe = Probe {
        question: "FUA?".to_owned(),
        claim: "yes".to_owned(),
        found: "GOOD".to_owned(),
        verdict: if factor.is_some() { Verdict::Honest } else { Verdict::Lie },
    };
    Report {
        format: FORMAT,
        program: String::new(),
        started: String::new(),
        seconds: 0.0,
        scale: "tiny".to_owned(),
        rounds: 1,
        machine: String::new(),
        array: Array { product: product.to_owned(), luns: Vec::new() },
        cases: vec![case],
        honesty: vec![probe],
        locks: None,
    }
}

#[test]
fn a_case_that_only_one_array_can_do_is_named_for_all() {
    let tables = tables(&[report("A", Some(30.0)), report("B", None), report("C", Some(2.0))]);
    let row = &tables[1].rows[0];
    assert_eq!(row[2], "4.30 ×");
    assert_eq!(row[3], "30.0 → 1.00 s, 30.0 × (96.7 % saved); wire 0.500 %");
    assert_eq!(row[4], "not measured: no XCOPY");
    assert_eq!(row[5], "2.00 → 1.00 s, 2.00 × (50.0 % saved); wire 0.500 %");
    assert_eq!(tables[2].rows, [["FUA?", "honest: GOOD", "LIE: GOOD", "honest: GOOD"]]);
}

#[test]
fn score_cards_count_what_was_found_and_name_what_was_not_asked() {
    let mut silent = report("C", None);
    silent.honesty[0].verdict = Verdict::NoAnswer;
    silent.locks = Some(LockHealth { reason: Some("not supported".into()), ..Default::default() });
    let mut locks_alone = report("D", None);
    (locks_alone.cases, locks_alone.honesty) = (Vec::new(), Vec::new());
    let target = |met| Target { what: "w".into(), wanted: "1".into(), found: "2".into(), met };
    let targets = [Some(true), Some(false), None].map(target).to_vec();
    locks_alone.locks = Some(LockHealth { targets, ..Default::default() });
    let reports = [report("A", Some(30.0)), report("B", None), silent, locks_alone];
    let scores = &tables(&reports)[0];
    let cells = |number: usize| scores.rows[number][1..].to_vec();
    assert_eq!(cells(0), ["1 of 1", "0 of 1", "0 of 1", "not asked"]);
    assert_eq!(cells(1), ["none", "1: FUA?", "none", "not asked"]);
    assert_eq!(cells(2), ["none", "none", "1: FUA?", "not asked"]);
    assert_eq!(cells(4), ["1, 0, 0", "0, 1, 0", "0, 1, 0", "not run"]);
    assert_eq!(cells(6), ["not measured", "not measured", "not supported", "1 of 2"]);
    assert_eq!(
        tables(&reports)[3].rows,
        [["w", "not measured", "not measured", "not supported", "2"]]
    );
}

#[test]
fn cases_stand_in_the_order_of_the_documents_whoever_ran_them() {
    let with = |id: &str| {
        let mut report = report(id, Some(2.0));
        report.cases[0].id = id.to_owned();
        report
    };
    let rows = tables(&[with("I6"), with("Q1"), with("E1")])[1].rows.clone();
    let found: Vec<&str> = rows.iter().map(|row| row[0].as_str()).collect();
    assert_eq!(found, ["Q1", "E1", "I6"]);
    assert_eq!(rows[0][3], "not run");
}

#[test]
fn arrays_of_one_kind_are_told_apart_and_the_page_escapes_what_they_say() {
    let reports = [report("<X>", Some(2.0)), report("<X>", Some(3.0))];
    let tables = tables(&reports);
    assert_eq!(tables[1].head[3..], ["<X> (A)", "<X> (B)"]);
    let page = page(&reports, &tables);
    assert!(page.contains("&lt;X&gt;") && !page.contains("<X>"));
    assert!(text(&tables).contains("FUA?"));
}

#[test]
fn only_results_of_this_format_are_read() {
    let path = std::env::temp_dir().join(format!("compare-{}.json", std::process::id()));
    let mut value = serde_json::to_value(report("A", Some(2.0))).expect("it can be written");
    fs::write(&path, value.to_string()).expect("a file");
    assert_eq!(read(&path).expect("it is one").cases[0].id, "Q2");
    let word = format!("one of them={}", path.display());
    assert_eq!(read_named(&word).expect("it is one").array.product, "one of them (A)");
    assert_eq!(read_named(&path.display().to_string()).expect("it is one").array.product, "A");
    for (key, other) in [("format", serde_json::json!(9)), ("cases", serde_json::json!(1))] {
        let before = value[key].clone();
        value[key] = other;
        fs::write(&path, value.to_string()).expect("a file");
        assert!(read(&path).is_err(), "{key}");
        value[key] = before;
    }
    fs::write(&path, "{").expect("a file");
    assert!(read(&path).is_err());
    fs::remove_file(path).expect("it is ours");
}
