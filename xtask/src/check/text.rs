//! Text check: words that may not be committed.

use std::fs;

use anyhow::Result;

use super::Finding;
use crate::workspace;

/// Notes to oneself; split so that this file does not find itself.
const NOTES: [&str; 3] = [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X")];

pub(super) fn findings() -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for path in workspace::sources("rs")?.into_iter().chain(workspace::sources("toml")?) {
        let text = fs::read_to_string(workspace::root().join(&path))?;
        let place =
            |(line, note)| format!("{}:{line}: {note} is not for committing", path.display());
        findings.extend(notes(&text).into_iter().map(place));
    }
    Ok(findings)
}

fn notes(text: &str) -> Vec<(usize, &'static str)> {
    let of_line = |(index, line): (usize, &str)| {
        let words: Vec<_> = line.split(|c: char| !c.is_ascii_alphanumeric()).collect();
        let note = NOTES.into_iter().find(|note| words.contains(note));
        note.map(|note| (index + 1, note))
    };
    text.lines().enumerate().filter_map(of_line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_to_oneself_is_found_with_its_line() {
        let text = format!("fine\n// {}: later\n", NOTES[0]);
        assert_eq!(notes(&text), [(2, NOTES[0])]);
        assert!(notes("a mastodon").is_empty());
    }
}
