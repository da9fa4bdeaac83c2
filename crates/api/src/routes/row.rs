//! Row of the route table: method, path, role, what the route takes, gives and changes.

use super::{Method, Route};
use crate::Role;
use crate::shapes::Shape;

/// A route, and all that is said about it.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// The route.
    pub route: Route,
    /// Its method.
    pub method: Method,
    /// Its path; names in braces are parameters.
    pub path: &'static str,
    /// The role that one needs at least.
    pub role: Role,
    /// Whether everybody who reaches the daemon may ask.
    pub is_open: bool,
    /// Whether it is about who asks, and so is never repeated for another.
    pub is_about_oneself: bool,
    /// The route that shows the object which this one changes, for `If-Match`.
    pub object: Option<Route>,
    /// How the list that is answered is divided into pages, if it is one.
    pub listing: Option<Listing>,
    /// How the answer is written.
    pub format: Format,
    /// What it takes and gives.
    pub(crate) shape: fn() -> Shape,
}

impl Row {
    /// Whether it makes the object that its path names if there is none, so that `If-None-Match` has
    /// a meaning.
    pub fn makes_its_object(&self) -> bool {
        let object = self.object.map(Route::row);
        self.method == Method::Put && object.is_some_and(|object| object.path == self.path)
    }
}

/// How an answer is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// JSON with a version (`ETag`); parts of lists may be asked for.
    Json,
    /// Plain text.
    Text,
    /// What the handler makes of it: a stream of events, a document.
    AsItIs,
}

/// How a list is divided into pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listing {
    /// The fields that tell its elements apart, and by which they are sorted; joined by '/' they
    /// are what `after` names.
    pub key: &'static [&'static str],
    /// Whether the greatest key comes first.
    pub newest_first: bool,
}

/// A row that does not know its route yet: what has no place in every row is added to it.
#[derive(Clone, Copy)]
pub(super) struct Draft(Row);

const fn draft(method: Method, path: &'static str, role: Role, shape: fn() -> Shape) -> Draft {
    Draft(Row {
        // The macro that makes the table sets it.
        route: Route::ShowOpenApi,
        method,
        path,
        role,
        is_open: false,
        is_about_oneself: false,
        object: None,
        listing: None,
        format: Format::Json,
        shape,
    })
}

pub(super) const fn get(path: &'static str, role: Role, shape: fn() -> Shape) -> Draft {
    draft(Method::Get, path, role, shape)
}

pub(super) const fn post(path: &'static str, role: Role, shape: fn() -> Shape) -> Draft {
    draft(Method::Post, path, role, shape)
}

pub(super) const fn put(path: &'static str, role: Role, shape: fn() -> Shape) -> Draft {
    draft(Method::Put, path, role, shape)
}

pub(super) const fn patch(path: &'static str, role: Role, shape: fn() -> Shape) -> Draft {
    draft(Method::Patch, path, role, shape)
}

pub(super) const fn delete(path: &'static str, role: Role, shape: fn() -> Shape) -> Draft {
    draft(Method::Delete, path, role, shape)
}

impl Draft {
    /// It changes what that route shows.
    pub(super) const fn changes(self, object: Route) -> Self {
        Self(Row { object: Some(object), ..self.0 })
    }

    /// It answers a list, sorted by these fields.
    pub(super) const fn listed_by(self, key: &'static [&'static str]) -> Self {
        Self(Row { listing: Some(Listing { key, newest_first: false }), ..self.0 })
    }

    /// It answers a list, sorted by these fields, the greatest first.
    pub(super) const fn newest_first_by(self, key: &'static [&'static str]) -> Self {
        Self(Row { listing: Some(Listing { key, newest_first: true }), ..self.0 })
    }

    /// It answers plain text.
    pub(super) const fn as_text(self) -> Self {
        Self(Row { format: Format::Text, ..self.0 })
    }

    /// Its handler writes the answer by itself.
    pub(super) const fn as_it_is(self) -> Self {
        Self(Row { format: Format::AsItIs, ..self.0 })
    }

    /// Everybody who reaches the daemon may ask.
    pub(super) const fn to_everybody(self) -> Self {
        Self(Row { is_open: true, ..self.0 })
    }

    /// It is about who asks.
    pub(super) const fn about_oneself(self) -> Self {
        Self(Row { is_about_oneself: true, ..self.0 })
    }

    /// The row of a route.
    pub(super) const fn of(self, route: Route) -> Row {
        Row { route, ..self.0 }
    }
}
