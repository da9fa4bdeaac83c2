//! Reads what `iscsi-test-cu` prints: CUnit's report with libiscsi's remarks in it.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::program::run;

const LIST_TIMEOUT: Duration = Duration::from_secs(30);

/// What became of one test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    /// SUITE.TEST.
    pub name: String,
    /// Why it was skipped, wholly or in part; empty if it was not.
    pub skips: Vec<String>,
    /// What failed; empty if nothing did.
    pub failures: Vec<String>,
}

/// The names of all families, as the program lists them.
///
/// # Errors
/// When the program does not run or lists none.
pub fn families() -> Result<Vec<String>> {
    let list = run(Path::new("iscsi-test-cu"), &["--list"], LIST_TIMEOUT)?.stdout;
    let families = list.lines().filter_map(|line| line.trim().strip_prefix("ALL."));
    let families: Vec<_> =
        families.filter(|family| !family.contains('.')).map(str::to_owned).collect();
    anyhow::ensure!(!families.is_empty(), "no families in:\n{list}");
    Ok(families)
}

/// Runs a family of tests against a LUN, which may lose all its data.
///
/// # Errors
/// When the program does not end in time, or its report breaks off.
pub fn run_family(family: &str, urls: &[&str], timeout: Duration) -> Result<Vec<Case>> {
    let family = format!("ALL.{family}");
    let arguments =
        [&["--dataloss", "--allow-sanitize", "--ignore", "--test", &family][..], urls].concat();
    let finished = run(Path::new("iscsi-test-cu"), &arguments, timeout)?;
    let report = finished.stdout;
    parse(&report).with_context(|| format!("family {family} reported:\n{report}"))
}

/// Reads a report.
///
/// # Errors
/// When it has no summary, or its summary does not agree with its tests.
pub fn parse(report: &str) -> Result<Vec<Case>> {
    let mut cases: Vec<Case> = Vec::new();
    let mut suite = "";
    let mut summary = None;
    let mut is_open = false;
    for line in report.lines() {
        if let Some(name) = line.trim().strip_prefix("Suite: ") {
            suite = name;
        } else if let Some((name, rest)) = test_line(line) {
            let mut case =
                Case { name: format!("{suite}.{name}"), skips: Vec::new(), failures: Vec::new() };
            is_open = true;
            remark(&mut case, &mut is_open, rest);
            cases.push(case);
        } else if line.trim_start().starts_with("tests ") {
            summary = Some(numbers(line));
        } else if let Some(case) = cases.last_mut() {
            remark(case, &mut is_open, line);
        }
    }
    // Total, run, passed, failed, inactive.
    let summary = summary.context("the report has no summary")?;
    let ran = *summary.get(1).context("the summary says how many tests ran")?;
    anyhow::ensure!(ran == cases.len() as u64 && ran > 0, "{ran} tests ran, not {}", cases.len());
    let failed = cases.iter().filter(|case| !case.failures.is_empty()).count() as u64;
    let counted = *summary.get(3).context("the summary says how many tests failed")?;
    anyhow::ensure!(counted == failed, "{counted} tests failed, and {failed} are named");
    Ok(cases)
}

fn test_line(line: &str) -> Option<(&str, &str)> {
    line.trim_start().strip_prefix("Test: ")?.split_once(" ...")
}

/// CUnit ends a test with 'passed' or 'FAILED' and numbers the assertions that failed below it.
/// What libiscsi remarks after that belongs to no test. Its own '[FAILED]' is no verdict: some
/// tests pass because a command fails.
fn remark(case: &mut Case, is_open: &mut bool, text: &str) {
    let text = text.trim();
    if is_assertion(text) {
        case.failures.push(text.to_owned());
    }
    if !*is_open {
        return;
    }
    if text.starts_with("passed") {
        *is_open = false;
    } else if text.starts_with("FAILED") {
        case.failures.push("failed".to_owned());
        *is_open = false;
    } else if let Some((_, reason)) = text.split_once("[SKIPPED]") {
        let reason = reason.trim().to_owned();
        if !case.skips.contains(&reason) {
            case.skips.push(reason);
        }
    }
}

fn is_assertion(text: &str) -> bool {
    let number = text.split_once(". ").map(|(number, rest)| (number.parse::<u32>(), rest));
    matches!(number, Some((Ok(_), rest)) if rest.contains(".c:"))
}

fn numbers(line: &str) -> Vec<u64> {
    line.split_whitespace().filter_map(|word| word.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPORT: &str = "
    [SKIPPED] PERSISTENT RESERVE IN is not implemented.
Suite: WriteSame10
  Test: Simple ...passed
  Test: Unmap ...    [SKIPPED] Logical unit is fully provisioned. Skipping test
    [SKIPPED] Logical unit is fully provisioned. Skipping test
passed
  Test: UnmapVPD ...    [FAILED] WRITESAME10 command failed with status 2
passed
  Test: Check ...FAILED
    1. test_writesame10_check.c:45  - CU_ASSERT_EQUAL(ret,0)    [SKIPPED] PERSISTENT RESERVE IN is not implemented.

Run Summary:    Type  Total    Ran Passed Failed Inactive
              suites      1      1    n/a      0        0
               tests      4      4      3      1        0
             asserts   3086   3086   3085      1      n/a
";

    #[test]
    fn passes_skips_and_failures_are_told_apart() {
        let cases = parse(REPORT).expect("a whole report");
        let names: Vec<_> = cases.iter().map(|case| case.name.as_str()).collect();
        let expected = ["Simple", "Unmap", "UnmapVPD", "Check"].map(|n| format!("WriteSame10.{n}"));
        assert_eq!(names, expected);
        assert_eq!(cases[1].skips, ["Logical unit is fully provisioned. Skipping test"]);
        assert!(cases[2].failures.is_empty(), "a command failed, as the test wants it");
        assert_eq!(cases[3].failures.len(), 2);
        assert!(cases[3].skips.is_empty(), "a remark after the verdict is about clearing up");
        assert!(cases[0].skips.is_empty() && cases[0].failures.is_empty());
    }

    #[test]
    fn a_report_that_breaks_off_is_refused() {
        let (cut, _) = REPORT.split_once("Run Summary").expect("the report has a summary");
        assert!(parse(cut).is_err());
        assert!(parse("").is_err());
    }
}
