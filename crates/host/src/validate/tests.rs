use super::*;

fn order(only: &[&str], rounds: u32) -> Order {
    Order {
        urls: Vec::new(),
        small: None,
        grow: None,
        power_cut: None,
        array_switch: None,
        lose_controller: None,
        return_controller: None,
        only: only.iter().map(|id| (*id).to_owned()).collect(),
        scale: Scale::Tiny,
        rounds,
        only_on: false,
        erase: false,
        remark: None,
        watch: watch::Source::default(),
        out: PathBuf::new(),
    }
}

#[test]
fn rounds_are_interleaved_and_every_second_one_runs_backwards() {
    let specs = cases::all();
    let spec = specs.iter().find(|spec| spec.id == "Q3").expect("it is published");
    let names: Vec<&str> = steps(&order(&[], 3), &[spec]).map(|step| step.way.name).collect();
    assert_eq!(names, ["off", "on", "on", "off", "off", "on"]);
    let only_on = Order { only_on: true, ..order(&[], 2) };
    let names: Vec<&str> = steps(&only_on, &[spec]).map(|step| step.way.name).collect();
    assert_eq!(names, ["on", "on"]);
}

#[test]
fn unknown_cases_are_refused_by_name_and_known_ones_found_in_any_case() {
    let specs = cases::all();
    assert!(refuse_unknown(&order(&["q1", "LOCKS"], 1), &specs).is_ok());
    for (only, rounds) in [(&["Q9"][..], 1), (&["Q1", ""], 1), (&[], 0), (&[], 100)] {
        assert!(refuse_unknown(&order(only, rounds), &specs).is_err(), "{only:?} {rounds}");
    }
    assert!(is_wanted(&order(&["q1"], 1), "Q1") && !is_wanted(&order(&["q1"], 1), "Q2"));
}

#[test]
fn what_cannot_be_measured_here_is_no_failure() {
    let here = anyhow::Error::from(NotHere("no pool".to_owned()));
    assert_eq!(failure(&here), State::NotMeasured("no pool".to_owned()));
    let wrapped = here.context("while filling");
    assert!(matches!(failure(&wrapped), State::NotMeasured(_)));
    let lost = anyhow::anyhow!("lost");
    assert_eq!(failure(&lost), State::Failed("lost".to_owned()));
}
