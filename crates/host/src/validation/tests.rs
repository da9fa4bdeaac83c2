use clap::Parser as _;
use host::validate::model::{Array, Case, FORMAT, LockHealth, Probe, Target};

use super::*;

#[derive(Debug, clap::Parser)]
struct Words {
    #[command(subcommand)]
    words: Validation,
}

fn ending(words: &[&str]) -> Ending {
    let url = "iscsi://127.0.0.1/iqn.2026-01.example:a/0";
    let words = [&["gantry-host", "validate", url], words].concat();
    match Words::try_parse_from(words).expect("they are known").words {
        Validation::Validate(arguments) => Ending::of(&arguments),
        Validation::Compare { .. } => panic!("another subcommand"),
    }
}

fn target(met: Option<bool>) -> Target {
    let [what, wanted, found] = ["clone", "> 2 ×", "1 ×"].map(str::to_owned);
    Target { what, wanted, found, met }
}

fn report(state: State, met: Option<bool>, locks: Option<bool>, verdict: Verdict) -> Report {
    let case = Case {
        id: "Q2".to_owned(),
        title: String::new(),
        source: String::new(),
        scenario: String::new(),
        published: String::new(),
        sizes: String::new(),
        state,
        variants: Vec::new(),
        ratios: Vec::new(),
        targets: vec![target(met)],
        notes: Vec::new(),
    };
    let probe =
        Probe { question: "FUA?".to_owned(), claim: String::new(), found: String::new(), verdict };
    Report {
        format: FORMAT,
        program: String::new(),
        started: String::new(),
        seconds: 0.0,
        scale: "tiny".to_owned(),
        rounds: 1,
        machine: String::new(),
        array: Array::default(),
        cases: vec![case],
        honesty: vec![probe],
        locks: Some(LockHealth { targets: vec![target(locks)], ..LockHealth::default() }),
    }
}

#[test]
fn only_strict_ends_with_an_error_for_a_missed_target() {
    let (lenient, strict) = (ending(&[]), ending(&["--strict"]));
    assert_eq!((lenient, strict), (Ending::Lenient, Ending::Strict));
    let (good, met) = (Verdict::Honest, Some(true));
    let failed = || State::Failed("lost".to_owned());
    let not_here = || State::NotMeasured("no pool".to_owned());
    let rows = [
        (report(State::Done, met, met, good), true, true),
        (report(State::Done, None, None, good), true, true),
        (report(not_here(), None, met, Verdict::NotClaimed), true, true),
        (report(State::Done, met, met, Verdict::Unclear), true, true),
        (report(State::Done, Some(false), met, good), true, false),
        (report(State::Done, met, Some(false), good), true, false),
        (report(State::Done, met, met, Verdict::Lie), true, false),
        (report(State::Done, met, met, Verdict::NoAnswer), true, false),
        (report(failed(), met, met, good), false, false),
    ];
    for (number, (report, leniently, strictly)) in rows.iter().enumerate() {
        assert_eq!(lenient.judge(report).is_ok(), *leniently, "row {number}");
        assert_eq!(strict.judge(report).is_ok(), *strictly, "row {number}");
    }
    let error = strict.judge(&rows[4].0).expect_err("it was missed").to_string();
    assert_eq!(error, "--strict: clone: 1 × (wanted > 2 ×)");
}
