//! Banned paths: what an I/O-free room may not name, in a `use` or in the code.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

use super::Finding;
use super::io_free::{ROOMS, SET_APART};
use crate::workspace;

const BANNED: [&str; 11] = [
    "getrandom",
    "rand",
    "std::env",
    "std::fs",
    "std::net",
    "std::os",
    "std::process",
    "std::thread",
    "std::time::Instant",
    "std::time::SystemTime",
    "libc",
];

pub(super) fn findings() -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for path in workspace::sources("rs")?.iter().filter(|path| is_io_free(path)) {
        findings.extend(of_file(path)?);
    }
    Ok(findings)
}

/// Tests may read files and use threads: only `src`, and of it only what is not a test.
fn is_io_free(path: &Path) -> bool {
    let text = path.to_string_lossy();
    let is_test = text.ends_with("tests.rs") || text.contains("/tests/");
    let in_room = ROOMS.iter().any(|room| text.starts_with(&format!("crates/{room}/")));
    in_room && !is_test && !text.starts_with(SET_APART)
}

fn of_file(path: &PathBuf) -> Result<Vec<Finding>> {
    let text = fs::read_to_string(workspace::root().join(path))?;
    let file = syn::parse_file(&text).with_context(|| format!("parsing {}", path.display()))?;
    let finding = |(line, name)| format!("{}:{line}: may not name {name}", path.display());
    Ok(banned_paths(&file).into_iter().map(finding).collect())
}

fn banned_paths(file: &syn::File) -> Vec<(usize, String)> {
    let mut visitor = Paths::default();
    visitor.visit_file(file);
    visitor.found.retain(|(_, path)| is_banned(path));
    visitor.found
}

fn is_banned(path: &str) -> bool {
    BANNED.iter().any(|banned| {
        path.strip_prefix(banned).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
    })
}

/// Every path in a file, with its line.
#[derive(Default)]
struct Paths {
    found: Vec<(usize, String)>,
}

impl Paths {
    fn flatten(&mut self, prefix: &str, tree: &syn::UseTree) {
        let joined = |name: &syn::Ident| {
            if prefix.is_empty() { name.to_string() } else { format!("{prefix}::{name}") }
        };
        match tree {
            syn::UseTree::Path(path) => self.flatten(&joined(&path.ident), &path.tree),
            syn::UseTree::Name(name) => {
                self.found.push((name.span().start().line, joined(&name.ident)));
            }
            syn::UseTree::Rename(name) => {
                self.found.push((name.span().start().line, joined(&name.ident)));
            }
            syn::UseTree::Group(group) => {
                group.items.iter().for_each(|item| self.flatten(prefix, item));
            }
            // A glob of a whole banned module is caught by its prefix.
            _ => self.found.push((tree.span().start().line, prefix.to_owned())),
        }
    }
}

impl<'ast> Visit<'ast> for Paths {
    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        self.flatten("", &item.tree);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let names: Vec<_> = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        self.found.push((path.span().start().line, names.join("::")));
        visit::visit_path(self, path);
    }

    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if !is_test_module(item) {
            visit::visit_item_mod(self, item);
        }
    }
}

fn is_test_module(item: &syn::ItemMod) -> bool {
    item.attrs.iter().any(|attribute| {
        attribute.path().is_ident("cfg")
            && attribute.parse_args::<syn::Ident>().is_ok_and(|condition| condition == "test")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<String> {
        let file = syn::parse_file(text).expect("the example parses");
        banned_paths(&file).into_iter().map(|(_, path)| path).collect()
    }

    #[test]
    fn a_clock_is_found_however_it_is_named() {
        for text in [
            "use std::time::Instant;",
            "use std::time::{Duration, Instant as Clock};",
            "fn f() { let a = std::time::Instant::now(); }",
            "struct S { at: std::time::SystemTime }",
            "use std::{fs, collections::BTreeMap};",
            "use std::thread::*;",
        ] {
            assert_eq!(found(text).len(), 1, "{text}");
        }
    }

    #[test]
    fn durations_maps_and_tests_are_allowed() {
        for text in [
            "use std::time::Duration;",
            "use std::collections::BTreeMap;",
            "use standing::fs;",
            "#[cfg(test)] mod tests { use std::fs; }",
        ] {
            assert_eq!(found(text), Vec::<String>::new(), "{text}");
        }
    }
}
