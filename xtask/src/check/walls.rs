//! Walls in the pool engine: import cycles between its files, and how many fields of one owner the
//! file of another one touches.
//!
//! An import is any path that begins with `crate::`, `super::` or the name of a submodule. Fields
//! are found by the types that the crate declares: along `self.a.b` and parameters, and where that
//! does not tell, by a field's name if only one struct has it. So a count may be too low, but not
//! too high.

mod fields;
mod imports;

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use super::{Finding, spaces};
use crate::workspace;

const ROOM: &str = "crates/store/src/";

/// Files that import each other in a circle, at most.
const CYCLE_MAX: usize = 5;

/// Fields of one struct that a file may touch in which that struct is not defined.
const FIELDS_MAX: usize = 10;

/// Files that the report names.
const TOLD_MAX: usize = 10;

/// A file of the room, without its tests.
struct Source {
    /// From the room's folder on: `operation/key.rs`.
    path: String,
    syntax: syn::File,
}

/// Prints what the checks count: the largest circle, functions with two bare integers, and the files that touch most of another owner.
pub(crate) fn report() -> Result<()> {
    let sources = sources()?;
    let cycle = imports::largest_cycle(&sources);
    terminal::say!("{} files", sources.len());
    terminal::say!("largest import cycle: {} files: {}", cycle.len(), cycle.join(", "));
    let pairs = spaces::pairs()?;
    terminal::say!("functions with two bare integers: {}: {}", pairs.len(), pairs.join(", "));
    let mut touched = fields::touched(&sources);
    touched.sort_by_key(|touch| std::cmp::Reverse(touch.fields.len()));
    for touch in touched.iter().take(TOLD_MAX) {
        terminal::say!("{}: {} fields of {}", touch.path, touch.fields.len(), touch.owner);
    }
    Ok(())
}

pub(super) fn findings() -> Result<Vec<Finding>> {
    let sources = sources()?;
    let cycle = imports::largest_cycle(&sources);
    let mut findings = Vec::new();
    if cycle.len() > CYCLE_MAX {
        findings.push(format!(
            "{ROOM}: {} files import each other in a circle: {}",
            cycle.len(),
            cycle.join(", ")
        ));
    }
    let touched = fields::touched(&sources);
    findings.extend(touched.iter().filter(|touch| touch.fields.len() > FIELDS_MAX).map(|touch| {
        let fields: Vec<_> = touch.fields.iter().map(String::as_str).collect();
        format!(
            "{ROOM}{}: touches {} fields of {}: {}",
            touch.path,
            fields.len(),
            touch.owner,
            fields.join(", ")
        )
    }));
    Ok(findings)
}

fn sources() -> Result<Vec<Source>> {
    let mut sources = Vec::new();
    for path in workspace::sources("rs")?.iter().filter(|path| is_checked(path)) {
        let text = fs::read_to_string(workspace::root().join(path))?;
        let syntax =
            syn::parse_file(&text).with_context(|| format!("parsing {}", path.display()))?;
        let path = path.to_string_lossy().trim_start_matches(ROOM).to_owned();
        sources.push(Source { path, syntax });
    }
    Ok(sources)
}

fn is_checked(path: &Path) -> bool {
    let text = path.to_string_lossy();
    text.starts_with(ROOM) && !text.ends_with("tests.rs") && !text.contains("/tests/")
}

/// Whether an item is compiled for tests only.
fn is_for_tests(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let syn::Meta::List(list) = &attribute.meta else { return false };
        list.path.is_ident("cfg") && list.tokens.to_string() == "test"
    })
}

#[cfg(test)]
fn parsed(files: &[(&str, &str)]) -> Vec<Source> {
    let parse = |&(path, text): &(&str, &str)| Source {
        path: path.to_owned(),
        syntax: syn::parse_file(text).unwrap(),
    };
    files.iter().map(parse).collect()
}
