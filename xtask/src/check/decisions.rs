//! Index of the decisions: each has a line in docs/decisions/README.md with its title.

use std::fs;

use anyhow::{Context, Result};

use super::Finding;
use crate::workspace;

const FOLDER: &str = "docs/decisions";
const INDEX: &str = "README.md";
/// Longer titles do not fit into a line of the index.
const TITLE_CHARACTERS_MAX: usize = 90;

pub(super) fn findings() -> Result<Vec<Finding>> {
    let folder = workspace::root().join(FOLDER);
    let read = |name: &str| {
        fs::read_to_string(folder.join(name)).with_context(|| format!("reading {FOLDER}/{name}"))
    };
    let mut decisions = Vec::new();
    for entry in fs::read_dir(&folder).with_context(|| format!("reading {FOLDER}"))? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if name != INDEX {
            let first = read(&name)?.lines().next().unwrap_or_default().to_owned();
            decisions.push((name, first));
        }
    }
    decisions.sort();
    Ok(compare(&decisions, &read(INDEX)?))
}

/// Compares the files, each with its first line, with the links of the index.
fn compare(decisions: &[(String, String)], index: &str) -> Vec<Finding> {
    let wrong_title = |(name, first): &(String, String)| {
        let problem = title_problem(name, first)?;
        Some(format!("{FOLDER}/{name}: the title '{first}' {problem}"))
    };
    let titles = decisions.iter().filter_map(wrong_title);
    let expected: Vec<_> = decisions.iter().map(|(name, first)| link(name, first)).collect();
    let listed: Vec<_> = index.lines().filter_map(linked).collect();
    let absent = expected.iter().filter(|link| !listed.contains(&link.as_str()));
    let stale = listed.iter().filter(|link| !expected.iter().any(|known| known == *link));
    let absent = absent.map(|link| format!("{FOLDER}/{INDEX}: a line is missing: - {link}. ..."));
    let stale = stale.map(|link| format!("{FOLDER}/{INDEX}: no decision has this title: {link}"));
    titles.chain(absent).chain(stale).collect()
}

/// What is wrong with a first line; it should be `# NNNN: Title in sentence case`.
fn title_problem(name: &str, first: &str) -> Option<&'static str> {
    let number = name.get(..4).unwrap_or_default();
    let title = first.strip_prefix("# ").and_then(|rest| rest.strip_prefix(number));
    let Some(title) = title.and_then(|rest| rest.strip_prefix(": ")) else {
        return Some("does not begin with '# ', the number of the file and ': '");
    };
    if !title.starts_with(|c: char| c.is_uppercase()) {
        return Some("does not begin with a capital letter");
    }
    if title.ends_with('.') {
        return Some("ends with a full stop");
    }
    (title.chars().count() > TITLE_CHARACTERS_MAX).then_some("has more than 90 characters")
}

/// How the index links to a decision.
fn link(name: &str, first: &str) -> String {
    format!("[{}]({name})", first.trim_start_matches("# "))
}

/// The link at the beginning of a line of the index.
fn linked(line: &str) -> Option<&str> {
    let rest = line.strip_prefix("- ")?;
    let end = rest.find(".md)")?;
    rest.get(..end + ".md)".len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decision(name: &str, first: &str) -> (String, String) {
        (name.to_owned(), first.to_owned())
    }

    #[test]
    fn an_index_that_names_every_decision_is_fine() {
        let decisions = [decision("0001-loop.md", "# 0001: Event loop")];
        assert!(
            compare(&decisions, "# Decisions\n\n- [0001: Event loop](0001-loop.md). One.\n")
                .is_empty()
        );
    }

    #[test]
    fn a_decision_without_a_line_and_a_line_without_a_decision_are_found() {
        let decisions = [decision("0002-log.md", "# 0002: Log rotation")];
        let index = "- [0002: Rotation of logs](0002-log.md). Two.\n";
        let findings = compare(&decisions, index);
        assert_eq!(findings.len(), 2, "{findings:?}");
        assert!(findings[0].contains("- [0002: Log rotation](0002-log.md)"));
        assert!(findings[1].contains("[0002: Rotation of logs]"));
    }

    #[test]
    fn titles_have_one_form() {
        assert_eq!(title_problem("0003-x.md", "# 0003: Token bucket"), None);
        let long = format!("# 0003: {}", "A".repeat(91));
        for wrong in ["", "# 3. Token", "# 0004: Token", "# 0003: token", "# 0003: Token.", &long] {
            assert!(title_problem("0003-x.md", wrong).is_some(), "{wrong}");
        }
    }
}
