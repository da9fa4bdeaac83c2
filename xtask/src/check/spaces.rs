//! Address spaces of the pool engine: a parameter with the name of a place has that place's type.
//!
//! A volume's block, the pool's address and an operation's key are all numbers of 64 bits; the
//! compiler tells them apart only where they have types (`crates/store/src/address.rs`). So a
//! parameter that is named like one may not be a bare integer.

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
const PLACES: [&str; 11] = [
    "address",
    "base",
    "block",
    "end",
    "first",
    "from",
    "key",
    "operation",
    "source_first",
    "start",
    "to",
];

const INTEGERS: [&str; 4] = ["u32", "u64", "u128", "usize"];

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
    Ok(findings)
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
