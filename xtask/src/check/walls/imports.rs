//! Import graph of a crate's files, and its largest strongly connected component.

use std::collections::{BTreeMap, BTreeSet};

use syn::visit::{self, Visit};

use super::{Source, is_for_tests};

/// The files of the largest circle, in order; one file alone is none.
pub(super) fn largest_cycle(sources: &[Source]) -> Vec<String> {
    let edges = edges(sources);
    let reached: BTreeMap<&str, BTreeSet<&str>> =
        edges.keys().map(|&file| (file, reached(&edges, file))).collect();
    let together = |file: &str| -> Vec<String> {
        let others = reached[file].iter();
        let back =
            others.filter(|other| reached.get(**other).is_some_and(|set| set.contains(file)));
        back.map(|other| (*other).to_owned()).collect()
    };
    edges.keys().map(|file| together(file)).max_by_key(Vec::len).unwrap_or_default()
}

fn reached<'a>(edges: &BTreeMap<&'a str, BTreeSet<&'a str>>, from: &str) -> BTreeSet<&'a str> {
    let mut reached = BTreeSet::new();
    let mut next: Vec<&str> = edges[from].iter().copied().collect();
    while let Some(file) = next.pop() {
        if reached.insert(file) {
            next.extend(edges[file].iter().copied());
        }
    }
    reached
}

/// Which file imports which. The root only declares modules, so a name that it hands on counts as
/// one of the file that it comes from.
fn edges(sources: &[Source]) -> BTreeMap<&str, BTreeSet<&str>> {
    let files: BTreeMap<Vec<String>, &str> =
        sources.iter().map(|source| (module_of(&source.path), source.path.as_str())).collect();
    let handed_on = handed_on(sources);
    let mut edges = BTreeMap::new();
    for source in sources.iter().filter(|source| source.path != "lib.rs") {
        let module = module_of(&source.path);
        let found = paths(&source.syntax).into_iter();
        let targets = found.filter_map(|path| {
            let full = absolute(&module, &path, &files)?;
            let full = match handed_on.get(full.first()?) {
                Some(module) => vec![module.clone()],
                None => full,
            };
            let known = (1..=full.len()).rev().find_map(|length| files.get(&full[..length]));
            known.copied().filter(|file| *file != source.path)
        });
        edges.insert(source.path.as_str(), targets.collect());
    }
    edges
}

/// Names that the root hands on, each with its module.
fn handed_on(sources: &[Source]) -> BTreeMap<String, String> {
    let root = sources.iter().find(|source| source.path == "lib.rs");
    let paths = root.map(|root| paths(&root.syntax)).unwrap_or_default();
    paths
        .into_iter()
        .filter_map(|path| Some((path.last()?.clone(), path.first()?.clone())))
        .collect()
}

fn module_of(path: &str) -> Vec<String> {
    path.trim_end_matches(".rs").split('/').map(str::to_owned).collect()
}

/// A path from the root of the crate on; `None` for what belongs to another crate.
fn absolute(
    module: &[String],
    path: &[String],
    files: &BTreeMap<Vec<String>, &str>,
) -> Option<Vec<String>> {
    match path.first()?.as_str() {
        "crate" => Some(path[1..].to_vec()),
        "super" => {
            let above = path.iter().take_while(|part| *part == "super").count();
            let kept = module.len().checked_sub(above)?;
            Some([&module[..kept], &path[above..]].concat())
        }
        "self" => Some([module, &path[1..]].concat()),
        _ => {
            let inner = [module, path].concat();
            files.contains_key(&inner[..=module.len()]).then_some(inner)
        }
    }
}

/// All paths of a file but those in its tests.
fn paths(file: &syn::File) -> Vec<Vec<String>> {
    let mut visitor = Paths::default();
    visitor.visit_file(file);
    visitor.found
}

#[derive(Default)]
struct Paths {
    found: Vec<Vec<String>>,
}

impl<'ast> Visit<'ast> for Paths {
    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        if !is_for_tests(&item.attrs) {
            flatten(&item.tree, &mut Vec::new(), &mut self.found);
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        if path.segments.len() > 1 {
            self.found.push(path.segments.iter().map(|part| part.ident.to_string()).collect());
        }
        visit::visit_path(self, path);
    }

    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if !is_for_tests(&item.attrs) {
            visit::visit_item_mod(self, item);
        }
    }
}

fn flatten(tree: &syn::UseTree, before: &mut Vec<String>, found: &mut Vec<Vec<String>>) {
    let with = |name: &syn::Ident, before: &[String]| [before, &[name.to_string()]].concat();
    match tree {
        syn::UseTree::Path(path) => {
            before.push(path.ident.to_string());
            flatten(&path.tree, before, found);
            before.pop();
        }
        syn::UseTree::Name(name) => found.push(with(&name.ident, before)),
        syn::UseTree::Rename(name) => found.push(with(&name.ident, before)),
        syn::UseTree::Glob(_) => found.push(before.clone()),
        syn::UseTree::Group(group) => {
            group.items.iter().for_each(|tree| flatten(tree, before, found));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::parsed;
    use super::*;

    #[test]
    fn files_that_import_each_other_over_others_are_a_circle() {
        let sources = parsed(&[
            ("lib.rs", "mod a; mod b; mod c; mod d; pub use c::C;"),
            ("a.rs", "use crate::b::B;"),
            ("b.rs", "mod inner; fn f(c: crate::C) {}"),
            ("b/inner.rs", "use super::super::d::D;"),
            ("c.rs", "use crate::{a::A, d};"),
            ("d.rs", "#[cfg(test)] mod tests { use crate::a; } use std::fmt;"),
        ]);
        assert_eq!(largest_cycle(&sources), ["a.rs", "b.rs", "c.rs"]);
    }

    #[test]
    fn a_file_and_its_submodule_are_a_circle_if_both_use_each_other() {
        let sources = parsed(&[
            ("a.rs", "mod inner; use inner::B;"),
            ("a/inner.rs", "use super::A;"),
            ("b.rs", "use crate::a::A;"),
        ]);
        assert_eq!(largest_cycle(&sources), ["a.rs", "a/inner.rs"]);
        let sources = parsed(&[("a.rs", "mod inner;"), ("a/inner.rs", "use super::A;")]);
        assert!(largest_cycle(&sources).is_empty());
    }
}
