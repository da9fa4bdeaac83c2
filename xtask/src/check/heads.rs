//! First lines of files: each names its mechanism, and does not begin as a riddle ('What …', 'Who …').

use std::fs;

use anyhow::Result;

use super::Finding;
use crate::workspace;

/// Words with which a sentence begins that hides its subject.
const RIDDLES: [&str; 13] = [
    "Anything", "How", "It", "Nothing", "Somebody", "That", "What", "Whatever", "Where", "Whether",
    "Which", "Who", "Why",
];

pub(super) fn findings() -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for path in workspace::sources("rs")? {
        let text = fs::read_to_string(workspace::root().join(&path))?;
        if let Some(word) = riddle(&text) {
            let place = path.display();
            findings.push(format!(
                "{place}:1: the first line begins with '{word}': name the mechanism"
            ));
        }
    }
    Ok(findings)
}

fn riddle(text: &str) -> Option<&str> {
    let first = text.lines().next()?.strip_prefix("//! ")?;
    let word = first.split(|c: char| !c.is_alphanumeric()).next()?;
    RIDDLES.contains(&word).then_some(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_first_line_without_a_subject_is_found() {
        assert_eq!(riddle("//! What is kept.\n"), Some("What"));
        assert_eq!(riddle("//! It has a bound.\n"), Some("It"));
        for fine in ["//! Item list.\n", "//! Token bucket. What it earns.\n", "use a;\n", ""] {
            assert_eq!(riddle(fine), None, "{fine}");
        }
    }
}
