use super::*;
use crate::validate::model::{Array, Probe, Ratio, Verdict};

fn report(product: &str, factor: Option<f64>) -> Report {
    let ratio = |factor| Ratio {
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
fn a_case_that_only_one_array_can_do_is_named_for_both() {
    let tables = tables(&report("A", Some(30.0)), &report("B", None));
    let row = &tables[0].rows[0];
    assert_eq!(row[2], "4.30 ×");
    assert_eq!(row[3], "30.0 → 1.00 s, 30.0 ×; wire 0.500 %");
    assert_eq!(row[4], "not measured: no XCOPY");
    assert_eq!(tables[1].rows, [["FUA?", "honest: GOOD", "LIE: GOOD"]]);
}

#[test]
fn arrays_of_one_kind_are_told_apart_and_the_page_escapes_what_they_say() {
    let (left, right) = (report("<X>", Some(2.0)), report("<X>", Some(3.0)));
    let tables = tables(&left, &right);
    assert_eq!(tables[0].head[3..], ["<X> (A)", "<X> (B)"]);
    let page = page(&left, &right, &tables);
    assert!(page.contains("&lt;X&gt;") && !page.contains("<X>"));
    assert!(text(&tables).contains("FUA?"));
}

#[test]
fn only_results_of_this_format_are_read() {
    let path = std::env::temp_dir().join(format!("compare-{}.json", std::process::id()));
    let mut value = serde_json::to_value(report("A", Some(2.0))).expect("it can be written");
    fs::write(&path, value.to_string()).expect("a file");
    assert_eq!(read(&path).expect("it is one").cases[0].id, "Q2");
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
