//! JUnit XML: each case, promise and lock target is a test, so that any CI shows them.

use anyhow::Result;
use quick_junit::{NonSuccessKind, Report as Junit, TestCase, TestCaseStatus, TestSuite};

use crate::validate::model::{Case, Probe, Report, State, Target, Verdict};

/// A report as JUnit XML. What could not be measured is skipped; contents that are wrong, lies and
/// missed targets fail.
///
/// # Errors
/// When it cannot be written.
pub fn xml(report: &Report) -> Result<String> {
    let mut all = Junit::new(format!("gantry-host validate: {}", report.array.product));
    let mut cases = TestSuite::new("cases");
    report.cases.iter().for_each(|case| add_case(&mut cases, case));
    all.add_test_suite(cases);
    let mut honesty = TestSuite::new("honesty");
    honesty.add_test_cases(report.honesty.iter().map(probe));
    all.add_test_suite(honesty);
    let mut locks = TestSuite::new("locks");
    if let Some(health) = &report.locks {
        if let Some(reason) = &health.reason {
            locks.add_test_case(skipped("lock health", reason));
        }
        locks.add_test_cases(health.targets.iter().map(|found| target("", found)));
    }
    all.add_test_suite(locks);
    Ok(all.to_string()?)
}

fn failed(name: &str, message: &str) -> TestCase {
    let mut status = TestCaseStatus::non_success(NonSuccessKind::Failure);
    status.set_message(message);
    TestCase::new(name, status)
}

fn skipped(name: &str, message: &str) -> TestCase {
    let mut status = TestCaseStatus::skipped();
    status.set_message(message);
    TestCase::new(name, status)
}

fn add_case(suite: &mut TestSuite, case: &Case) {
    let name = format!("{} {}", case.id, case.title);
    match &case.state {
        State::Done => {
            suite.add_test_case(TestCase::new(name, TestCaseStatus::success()));
            let prefix = format!("{}: ", case.id);
            suite.add_test_cases(case.targets.iter().map(|found| target(&prefix, found)));
        }
        State::NotMeasured(reason) => {
            suite.add_test_case(skipped(&name, reason));
        }
        State::Failed(reason) => {
            suite.add_test_case(failed(&name, reason));
        }
    }
}

fn target(prefix: &str, target: &Target) -> TestCase {
    let name = format!("{prefix}{} {}", target.what, target.wanted);
    match target.met {
        Some(true) => TestCase::new(name, TestCaseStatus::success()),
        Some(false) => failed(&name, &format!("found: {}", target.found)),
        None => skipped(&name, &target.found),
    }
}

fn probe(probe: &Probe) -> TestCase {
    let detail = format!("{}: {}", probe.claim, probe.found);
    match probe.verdict {
        Verdict::Honest => TestCase::new(&probe.question, TestCaseStatus::success()),
        Verdict::Lie | Verdict::NoAnswer => failed(&probe.question, &detail),
        Verdict::NotClaimed | Verdict::Unclear => skipped(&probe.question, &detail),
    }
}
