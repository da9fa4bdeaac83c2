//! Source mutation: reads mistakes, which look like patches, and splices them into the source, each
//! behind a switch.
//!
//! A mistake says in its first paragraph what it is, and then, for each place:
//!
//! ```text
//! @ checkpoint.rs
//! - self.superblock.generation as usize % 2
//! + 0
//! ```
//!
//! The lines with `-` are an expression or statements that the file has exactly once, white space
//! aside. They become a block with both, of which the switch takes one at run time.

use std::ops::Range;

/// A deliberate mistake.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Mistake {
    /// Its name: its file's, without the extension.
    pub(crate) name: String,
    /// Where it is.
    pub(crate) hunks: Vec<Hunk>,
}

/// A place of a mistake.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Hunk {
    /// The file, from the engine's folder on.
    pub(crate) file: String,
    /// What it has.
    pub(crate) right: String,
    /// What the mistake has instead; may be nothing.
    pub(crate) wrong: String,
}

impl Mistake {
    /// Reads a mistake.
    pub(crate) fn parse(name: &str, text: &str) -> Result<Self, String> {
        let mut hunks: Vec<Hunk> = Vec::new();
        for line in text.lines() {
            let (sign, rest) = line.split_at_checked(2).unwrap_or((line, ""));
            match (sign, hunks.last_mut()) {
                ("@ ", _) => hunks.push(Hunk { file: rest.to_owned(), ..Hunk::default() }),
                ("- ", Some(hunk)) if hunk.wrong.is_empty() => push_line(&mut hunk.right, rest),
                ("+ ", Some(hunk)) => push_line(&mut hunk.wrong, rest),
                (_, Some(_)) if !line.is_empty() => return Err(format!("what is '{line}'?")),
                _ => {}
            }
        }
        if text.starts_with('@')
            || hunks.is_empty()
            || hunks.iter().any(|hunk| hunk.right.is_empty())
        {
            return Err("says what it is, and where it stands in the place of what".to_owned());
        }
        Ok(Self { name: name.to_owned(), hunks })
    }
}

fn push_line(text: &mut String, line: &str) {
    text.push_str(line);
    text.push('\n');
}

/// A place of a mistake, in one file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Edit<'a> {
    /// The mistake's number, by which it is switched on.
    pub(crate) number: usize,
    /// Its name.
    pub(crate) mistake: &'a str,
    /// What is to be spliced in.
    pub(crate) hunk: &'a Hunk,
}

/// The source with mistakes. Several may be in the same place, but none within another.
pub(crate) fn splice(source: &str, edits: &[Edit<'_>]) -> Result<String, String> {
    let mut places = Vec::new();
    for edit in edits {
        let place = find(source, &edit.hunk.right).map_err(|n| {
            format!("{}: is there {n} times instead of once:\n{}", edit.mistake, edit.hunk.right)
        })?;
        places.push((place, edit));
    }
    places.sort_by_key(|(place, edit)| (place.start, place.end, edit.number));
    let mut spliced = String::new();
    let mut done = 0;
    for same in places.chunk_by(|(one, _), (other, _)| one == other) {
        let (place, first) = &same[0];
        if place.start < done {
            return Err(format!("{}: overlaps another mistake", first.mistake));
        }
        spliced.push_str(&source[done..place.start]);
        spliced.push_str("{ ");
        for (_, edit) in same {
            let Edit { number, mistake, hunk } = edit;
            let wrong = &hunk.wrong;
            spliced.push_str(&format!(
                "if crate::switch::is_on({number}) {{ /* {mistake} */ {wrong} }} else "
            ));
        }
        spliced.push_str(&format!("{{ {} }} }}", &source[place.clone()]));
        done = place.end;
    }
    spliced.push_str(&source[done..]);
    Ok(spliced)
}

/// Where the source has this text, white space aside; or how often, if that is not once.
fn find(source: &str, text: &str) -> Result<Range<usize>, usize> {
    let letters: Vec<(usize, char)> =
        source.char_indices().filter(|(_, letter)| !letter.is_whitespace()).collect();
    let wanted: Vec<char> = text.chars().filter(|letter| !letter.is_whitespace()).collect();
    let is_here = |at: &[(usize, char)]| at.iter().map(|(_, letter)| letter).eq(&wanted);
    let mut found = letters.windows(wanted.len()).filter(|at| is_here(at));
    match (found.next(), found.count()) {
        (Some([(first, _), .., (last, letter)]), 0) => Ok(*first..last + letter.len_utf8()),
        (Some([(only, letter)]), 0) => Ok(*only..only + letter.len_utf8()),
        (None, _) => Err(0),
        (Some(_), more) => Err(more + 1),
    }
}
