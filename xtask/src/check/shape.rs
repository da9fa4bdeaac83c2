//! Size check of functions and files; where `unsafe` may stand.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use proc_macro2::Span;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

use super::Finding;
use crate::workspace;

const FUNCTION_LINES_MAX: usize = 70;
const FILE_LINES_MAX: usize = 800;

/// Where `unsafe` may stand: path prefixes.
const UNSAFE_ALLOWED: [&str; 3] =
    ["crates/device/", "crates/block/src/buffer", "crates/host/src/initiator/ffi"];

/// Rooms with one such place, whose roots cannot forbid it.
const FORBID_EXCEPT: [&str; 3] = ["crates/device/", "crates/block/", "crates/host/"];

/// File names that say nothing about what is inside.
const NAMELESS: [&str; 8] =
    ["util", "utils", "common", "helper", "helpers", "manager", "misc", "shared"];

pub(super) fn findings() -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for path in workspace::sources("rs")? {
        let text = fs::read_to_string(workspace::root().join(&path))?;
        findings.extend(of_file(&path, &text)?);
    }
    Ok(findings)
}

fn of_file(path: &Path, text: &str) -> Result<Vec<Finding>> {
    let file = syn::parse_file(text).with_context(|| format!("parsing {}", path.display()))?;
    let mut visitor = Shape::new(path);
    visitor.visit_file(&file);
    let mut findings = visitor.findings;
    let lines = text.lines().count();
    if lines > FILE_LINES_MAX {
        findings.push(format!("{}: {lines} lines wants to be two files", path.display()));
    }
    if is_root(path) && !is_prefixed(path, &FORBID_EXCEPT) && !forbids_unsafe(&file) {
        findings.push(format!("{}: needs #![forbid(unsafe_code)]", path.display()));
    }
    let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    if NAMELESS.contains(&stem) {
        findings.push(format!("{}: name the file after what it does", path.display()));
    }
    Ok(findings)
}

fn is_root(path: &Path) -> bool {
    path.ends_with("src/lib.rs") || path.ends_with("src/main.rs")
}

fn is_prefixed(path: &Path, prefixes: &[&str]) -> bool {
    prefixes.iter().any(|prefix| path.to_string_lossy().starts_with(prefix))
}

fn forbids_unsafe(file: &syn::File) -> bool {
    file.attrs.iter().any(|attribute| {
        attribute.path().is_ident("forbid")
            && attribute.parse_args::<syn::Ident>().is_ok_and(|lint| lint == "unsafe_code")
    })
}

struct Shape<'a> {
    path: &'a Path,
    unsafe_allowed: bool,
    findings: Vec<Finding>,
}

impl<'a> Shape<'a> {
    fn new(path: &'a Path) -> Self {
        let unsafe_allowed = is_prefixed(path, &UNSAFE_ALLOWED);
        Self { path, unsafe_allowed, findings: Vec::new() }
    }

    fn function(&mut self, signature: &syn::Signature, whole: Span) {
        let first = signature.span().start().line;
        let lines = whole.end().line + 1 - first;
        if lines > FUNCTION_LINES_MAX {
            let (path, name) = (self.path.display(), &signature.ident);
            self.findings.push(format!("{path}:{first}: {name} has {lines} lines, of at most 70"));
        }
        if let syn::Safety::Unsafe(token) = &signature.safety {
            self.unsafe_at(token.span());
        }
    }

    fn unsafe_at(&mut self, span: Span) {
        if !self.unsafe_allowed {
            let line = span.start().line;
            self.findings.push(format!("{}:{line}: unsafe has no place here", self.path.display()));
        }
    }
}

impl<'ast> Visit<'ast> for Shape<'_> {
    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.function(&item.sig, item.span());
        visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.function(&item.sig, item.span());
        visit::visit_impl_item_fn(self, item);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        self.function(&item.sig, item.span());
        visit::visit_trait_item_fn(self, item);
    }

    fn visit_expr_unsafe(&mut self, item: &'ast syn::ExprUnsafe) {
        self.unsafe_at(item.span());
        visit::visit_expr_unsafe(self, item);
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        if let Some(token) = &item.unsafety {
            self.unsafe_at(token.span());
        }
        visit::visit_item_impl(self, item);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<String> {
        of_file(Path::new(path), text).expect("the example parses")
    }

    #[test]
    fn a_function_of_71_lines_is_found_and_one_of_70_is_not() {
        let of_lines = |lines: usize| format!("fn f() {{{}}}", "\n".repeat(lines - 1));
        assert!(found("crates/scsi/src/a.rs", &of_lines(70)).is_empty());
        assert_eq!(found("crates/scsi/src/a.rs", &of_lines(71)).len(), 1);
        let method = format!("struct S; impl S {{ {} }}", of_lines(71));
        assert_eq!(found("crates/scsi/src/a.rs", &method).len(), 1);
    }

    #[test]
    fn unsafe_is_found_outside_its_places() {
        let text = "fn f() { unsafe { g() } }";
        assert_eq!(found("crates/scsi/src/a.rs", text).len(), 1);
        assert!(found("crates/device/src/a.rs", text).is_empty());
        assert!(found("crates/block/src/buffer.rs", text).is_empty());
        assert_eq!(found("crates/block/src/rope.rs", text).len(), 1);
    }

    #[test]
    fn a_root_that_does_not_forbid_unsafe_is_found() {
        assert_eq!(found("crates/scsi/src/lib.rs", "//! Room.\n").len(), 1);
        assert!(found("crates/scsi/src/lib.rs", "#![forbid(unsafe_code)]\n").is_empty());
        assert!(found("crates/device/src/lib.rs", "//! Room.\n").is_empty());
    }

    #[test]
    fn long_files_and_names_that_say_nothing_are_found() {
        assert_eq!(found("crates/scsi/src/a.rs", &"\n".repeat(801)).len(), 1);
        assert_eq!(found("crates/scsi/src/util.rs", "").len(), 1);
    }
}
