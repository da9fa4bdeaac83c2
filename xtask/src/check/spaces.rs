//! Address spaces of the pool engine: a parameter with the name of a place has that place's type.
//!
//! A volume's block, the pool's address and an operation's key are all numbers of 64 bits; the
//! compiler tells them apart only where they have types (`crates/store/src/address.rs`). So a
//! parameter that is named like one may not be a bare integer.
//!
//! Functions that take two bare integers are counted besides: what is left are counts and sizes, and
//! the number may only fall.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

use super::Finding;
use crate::workspace;

const ROOM: &str = "crates/store/src/";

/// Where the types are made.
const SET_APART: [&str; 2] = ["crates/store/src/address.rs", "crates/store/src/operation_key.rs"];

/// Names of parameters that tell a place, or an operation.
const PLACES: [&str; 13] = [
    "address",
    "base",
    "block",
    "device",
    "end",
    "first",
    "from",
    "key",
    "operation",
    "place",
    "source_first",
    "start",
    "to",
];

const INTEGERS: [&str; 6] = ["u8", "u16", "u32", "u64", "u128", "usize"];

/// Functions with two bare integers, at most.
const PAIRS_MAX: usize = 15;

pub(super) fn findings() -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for path in workspace::sources("rs")?.iter().filter(|path| is_checked(path)) {
        let text = fs::read_to_string(workspace::root().join(path))?;
        let file = syn::parse_file(&text).with_context(|| format!("parsing {}", path.display()))?;
        let finding = |(line, name)| {
            let path = path.display();
            format!(
                "{path}:{line}: `{name}` is a bare integer; crates/store/src/address.rs has types"
            )
        };
        findings.extend(bare_places(&file).into_iter().map(finding));
    }
    let pairs = pairs()?;
    if pairs.len() > PAIRS_MAX {
        findings.push(format!(
            "{ROOM}: {} functions take two bare integers, and {PAIRS_MAX} did: {}",
            pairs.len(),
            pairs.join(", ")
        ));
    }
    Ok(findings)
}

/// Functions of the room with two bare integers among their parameters.
pub(super) fn pairs() -> Result<Vec<String>> {
    let mut found = Vec::new();
    for path in workspace::sources("rs")?.iter().filter(|path| is_checked(path)) {
        let text = fs::read_to_string(workspace::root().join(path))?;
        let file = syn::parse_file(&text).with_context(|| format!("parsing {}", path.display()))?;
        let path = path.to_string_lossy();
        let path = path.trim_start_matches(ROOM);
        found.extend(functions_with_pairs(&file).map(|name| format!("{path}: {name}")));
    }
    Ok(found)
}

fn functions_with_pairs(file: &syn::File) -> impl Iterator<Item = String> {
    let mut visitor = Signatures::default();
    visitor.visit_file(file);
    visitor.found.into_iter()
}

#[derive(Default)]
struct Signatures {
    found: Vec<String>,
}

impl<'ast> Visit<'ast> for Signatures {
    fn visit_signature(&mut self, signature: &'ast syn::Signature) {
        let types = signature.inputs.iter().filter_map(|input| match input {
            syn::FnArg::Typed(parameter) => Some(&*parameter.ty),
            syn::FnArg::Receiver(_) => None,
        });
        if types.map(integers_in).sum::<usize>() > 1 {
            self.found.push(signature.ident.to_string());
        }
    }

    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if item.ident != "tests" {
            visit::visit_item_mod(self, item);
        }
    }
}

/// Integers that a value of a type has, without what it refers to or contains as a list.
fn integers_in(ty: &syn::Type) -> usize {
    match ty {
        syn::Type::Tuple(tuple) => tuple.elems.iter().map(integers_in).sum(),
        _ => is_integer(ty).into(),
    }
}

fn is_checked(path: &Path) -> bool {
    let text = path.to_string_lossy();
    let is_test = text.ends_with("tests.rs") || text.contains("/tests/");
    text.starts_with(ROOM) && !is_test && !SET_APART.contains(&text.as_ref())
}

/// Parameters that are named like a place and are integers, with their lines.
fn bare_places(file: &syn::File) -> Vec<(usize, String)> {
    let mut visitor = Parameters::default();
    visitor.visit_file(file);
    visitor.found
}

#[derive(Default)]
struct Parameters {
    found: Vec<(usize, String)>,
}

impl<'ast> Visit<'ast> for Parameters {
    fn visit_pat_type(&mut self, parameter: &'ast syn::PatType) {
        if let syn::Pat::Ident(name) = &*parameter.pat {
            let text = name.ident.to_string();
            if PLACES.contains(&text.as_str()) && is_integer(&parameter.ty) {
                self.found.push((name.span().start().line, text));
            }
        }
        visit::visit_pat_type(self, parameter);
    }

    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if item.ident != "tests" {
            visit::visit_item_mod(self, item);
        }
    }
}

/// Whether a type is an integer, or an option of one.
fn is_integer(ty: &syn::Type) -> bool {
    let syn::Type::Path(path) = ty else { return false };
    let Some(last) = path.path.segments.last() else { return false };
    match &last.arguments {
        syn::PathArguments::AngleBracketed(inner) if last.ident == "Option" => inner
            .args
            .iter()
            .any(|argument| matches!(argument, syn::GenericArgument::Type(ty) if is_integer(ty))),
        _ => INTEGERS.iter().any(|integer| last.ident == integer),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_bare_integers_are_counted() {
        let source = "
            fn read(first: VolumeBlock, count: u64) {}
            fn write((address, key): (u64, Option<usize>), all: &[u64]) {}
            impl Space { fn take(&mut self, id: GroupId, place: u64, blocks: u64) {} }
            mod tests { fn read(first: u64, count: u64) {} }
        ";
        let file = syn::parse_file(source).unwrap();
        assert_eq!(functions_with_pairs(&file).collect::<Vec<_>>(), ["write", "take"]);
    }

    #[test]
    fn a_place_without_a_type_is_found_and_a_number_of_things_is_not() {
        let source = "
            fn read(first: VolumeBlock, count: u64) {}
            fn write(address: u64, key: Option<usize>) { let end: u64 = 0; }
            mod tests { fn read(first: u64) {} }
        ";
        let file = syn::parse_file(source).unwrap();
        let found: Vec<_> = bare_places(&file).into_iter().map(|(_, name)| name).collect();
        assert_eq!(found, ["address", "key", "end"]);
    }
}
