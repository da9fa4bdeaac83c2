//! JSON Schemas of the requests and answers of each route.

use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use utoipa::ToSchema;
use utoipa::openapi::{RefOr, Schema};

/// What a route takes and gives.
pub(crate) struct Shape {
    /// The body, if one is taken.
    pub(crate) body: Option<Typed>,
    /// Whether the body may be left out.
    pub(crate) body_optional: bool,
    /// Whether a body can be read as what is taken.
    pub(crate) fits: fn(&[u8]) -> serde_json::Result<()>,
    /// The answer when all is well.
    pub(crate) answer: Typed,
}

/// A schema, and those that it refers to.
pub(crate) struct Typed {
    pub(crate) schema: Value,
    pub(crate) components: Vec<(String, RefOr<Schema>)>,
}

impl Shape {
    /// It takes that, too.
    pub(crate) fn takes<T: ToSchema + DeserializeOwned>(self) -> Self {
        Self { body: Some(one::<T>()), fits: fits::<T>, ..self }
    }

    /// It takes that, or nothing.
    pub(crate) fn may_take<T: ToSchema + DeserializeOwned>(self) -> Self {
        Self { body_optional: true, ..self.takes::<T>() }
    }
}

/// What gives that, and takes nothing.
pub(crate) fn gives(answer: Typed) -> Shape {
    Shape { body: None, body_optional: false, fits: |_| Ok(()), answer }
}

fn fits<T: DeserializeOwned>(body: &[u8]) -> serde_json::Result<()> {
    serde_json::from_slice::<T>(body).map(drop)
}

pub(crate) fn one<T: ToSchema>() -> Typed {
    let mut components = vec![(T::name().into_owned(), T::schema())];
    T::schemas(&mut components);
    let schema = json!({ "$ref": format!("#/components/schemas/{}", T::name()) });
    Typed { schema, components }
}

pub(crate) fn list<T: ToSchema>() -> Typed {
    let Typed { schema, components } = one::<T>();
    Typed { schema: json!({ "type": "array", "items": schema }), components }
}

pub(crate) fn nothing() -> Typed {
    let schema = json!({ "type": "object", "additionalProperties": false });
    Typed { schema, components: Vec::new() }
}

pub(crate) fn text() -> Typed {
    Typed { schema: json!({ "type": "string" }), components: Vec::new() }
}

pub(crate) fn object() -> Typed {
    Typed { schema: json!({ "type": "object" }), components: Vec::new() }
}
