//! Fields of structs that the files of others touch.

use std::collections::{BTreeMap, BTreeSet};

use syn::visit::{self, Visit};

use super::{Source, is_for_tests};

/// Fields of one struct that a file touches in which it is not defined.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Touch {
    pub(super) path: String,
    pub(super) owner: String,
    pub(super) fields: BTreeSet<String>,
}

/// A struct of the crate.
struct Owner {
    path: String,
    /// Its fields, each with the name of its type.
    fields: BTreeMap<String, String>,
}

/// The structs of the crate by name, and for each field name the structs that have it.
struct Owners {
    structs: BTreeMap<String, Owner>,
    by_field: BTreeMap<String, Vec<String>>,
}

pub(super) fn touched(sources: &[Source]) -> Vec<Touch> {
    let owners = Owners::of(sources);
    let mut found = Vec::new();
    for source in sources {
        let mut visitor = Accesses {
            owners: &owners,
            own: None,
            known: BTreeMap::new(),
            touched: BTreeMap::new(),
        };
        visitor.visit_file(&source.syntax);
        let others = visitor.touched.into_iter();
        let others = others.filter(|(owner, _)| owners.structs[owner].path != source.path);
        found.extend(others.map(|(owner, fields)| Touch {
            path: source.path.clone(),
            owner,
            fields,
        }));
    }
    found
}

impl Owners {
    fn of(sources: &[Source]) -> Self {
        let mut owners = Self { structs: BTreeMap::new(), by_field: BTreeMap::new() };
        for source in sources {
            for item in &source.syntax.items {
                if let syn::Item::Struct(item) = item {
                    owners.add(&source.path, item);
                }
            }
        }
        owners
    }

    fn add(&mut self, path: &str, item: &syn::ItemStruct) {
        let name = item.ident.to_string();
        let fields: BTreeMap<_, _> = item
            .fields
            .iter()
            .filter_map(|field| Some((field.ident.as_ref()?.to_string(), type_name(&field.ty))))
            .collect();
        for field in fields.keys() {
            self.by_field.entry(field.clone()).or_default().push(name.clone());
        }
        self.structs.insert(name, Owner { path: path.to_owned(), fields });
    }
}

/// The name of a type, without references and what wraps one value.
fn type_name(ty: &syn::Type) -> String {
    match ty {
        syn::Type::Reference(reference) => type_name(&reference.elem),
        syn::Type::Path(path) => {
            let Some(last) = path.path.segments.last() else { return String::new() };
            if let syn::PathArguments::AngleBracketed(inner) = &last.arguments
                && ["Box", "Option"].iter().any(|wrapper| last.ident == wrapper)
                && let Some(syn::GenericArgument::Type(inner)) = inner.args.first()
            {
                return type_name(inner);
            }
            last.ident.to_string()
        }
        _ => String::new(),
    }
}

struct Accesses<'a> {
    owners: &'a Owners,
    /// The type whose methods are being looked at.
    own: Option<String>,
    /// Types of the function's parameters.
    known: BTreeMap<String, String>,
    touched: BTreeMap<String, BTreeSet<String>>,
}

impl Accesses<'_> {
    /// The name of an expression's type, as far as declarations tell.
    fn type_of(&self, expression: &syn::Expr) -> Option<String> {
        match expression {
            syn::Expr::Path(path) => {
                let name = path.path.get_ident()?.to_string();
                if name == "self" { self.own.clone() } else { self.known.get(&name).cloned() }
            }
            syn::Expr::Field(field) => {
                let syn::Member::Named(name) = &field.member else { return None };
                let owner = self.type_of(&field.base)?;
                self.owners.structs.get(&owner)?.fields.get(&name.to_string()).cloned()
            }
            syn::Expr::Reference(reference) => self.type_of(&reference.expr),
            syn::Expr::Paren(inner) => self.type_of(&inner.expr),
            _ => None,
        }
    }

    fn touch(&mut self, base: &syn::Expr, field: String) {
        let by_type = self.type_of(base);
        let owner = match by_type {
            Some(owner) => Some(owner),
            None => match self.owners.by_field.get(&field).map(Vec::as_slice) {
                Some([only]) => Some(only.clone()),
                _ => None,
            },
        };
        let has = |owner: &String| {
            self.owners.structs.get(owner).is_some_and(|owner| owner.fields.contains_key(&field))
        };
        if let Some(owner) = owner.filter(has) {
            self.touched.entry(owner).or_default().insert(field);
        }
    }
}

impl<'ast> Visit<'ast> for Accesses<'_> {
    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        let before = self.own.replace(type_name(&item.self_ty));
        visit::visit_item_impl(self, item);
        self.own = before;
    }

    fn visit_signature(&mut self, signature: &'ast syn::Signature) {
        self.known.clear();
        for input in &signature.inputs {
            if let syn::FnArg::Typed(typed) = input
                && let syn::Pat::Ident(name) = &*typed.pat
            {
                self.known.insert(name.ident.to_string(), type_name(&typed.ty));
            }
        }
    }

    fn visit_expr_field(&mut self, expression: &'ast syn::ExprField) {
        if let syn::Member::Named(name) = &expression.member {
            self.touch(&expression.base, name.to_string());
        }
        visit::visit_expr_field(self, expression);
    }

    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if !is_for_tests(&item.attrs) {
            visit::visit_item_mod(self, item);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::parsed;
    use super::*;

    fn touch(path: &str, owner: &str, fields: &[&str]) -> Touch {
        let fields = fields.iter().map(|field| (*field).to_owned()).collect();
        Touch { path: path.to_owned(), owner: owner.to_owned(), fields }
    }

    #[test]
    fn fields_are_found_along_self_and_parameters_and_by_names_that_are_unique() {
        let sources = parsed(&[
            ("a.rs", "struct A { b: Option<Box<B>>, n: u64 } impl A { fn f(&self) { self.n; } }"),
            ("b.rs", "struct B { n: u64, only: u8, method: u8 }"),
            (
                "c.rs",
                "impl A { fn g(&self) { self.b.n; self.method(); } }
                 fn h(b: &mut B) { b.n; let c = x(); c.only; c.n; c.unknown; }",
            ),
        ]);
        assert_eq!(
            touched(&sources),
            [touch("c.rs", "A", &["b"]), touch("c.rs", "B", &["n", "only"])]
        );
    }

    #[test]
    fn tests_do_not_count() {
        let sources = parsed(&[
            ("a.rs", "struct A { n: u64 }"),
            ("b.rs", "#[cfg(test)] mod tests { fn f(a: A) { a.n; } }"),
        ]);
        assert!(touched(&sources).is_empty());
    }
}
