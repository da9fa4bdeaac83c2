//! The OpenAPI document, from the table of routes and the types that they take and give.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use crate::constraints::first_misfit;
use crate::examples::{answer_example, body_example};
use crate::shapes::{Shape, Typed};
use crate::{CHANGES_MAX, Format, Method, ROUTES, Role, Route, Row, problems};

#[cfg(test)]
mod tests;

/// The longest name in a path, in characters.
pub const PATH_NAME_CHARACTERS_MAX: usize = 255;

/// Fields of requests that have another name since an earlier release, which is still taken: the
/// schema, the earlier name and today's, which `serde` knows as an alias.
const RENAMED: [(&str, &str, &str); 3] = [
    ("CloneVolume", "reserved", "thick"),
    ("ConfiguredShape", "reserved", "thick"),
    ("CreateVolume", "reserved", "thick"),
];

/// The whole interface as an OpenAPI 3.1 document.
pub fn document() -> Value {
    let mut paths: Map<String, Value> = Map::new();
    let mut schemas = Map::new();
    let mut taken = BTreeSet::new();
    for row in ROUTES {
        let shape = (row.shape)();
        let operation = operation(row, &shape);
        let bodies = shape.body.iter().flat_map(|body| &body.components);
        taken.extend(bodies.map(|(name, _)| name.clone()));
        let typed = [Some(shape.answer), shape.body].into_iter().flatten();
        for (name, schema) in typed.flat_map(|typed| typed.components) {
            schemas.insert(name, to_json(&schema));
        }
        let item = paths.entry(row.path).or_insert_with(|| json!({}));
        item[row.method.name().to_lowercase()] = operation;
    }
    let only_answered = schemas.iter_mut().filter(|(name, _)| !taken.contains(*name));
    only_answered.for_each(|(_, schema)| require_all(schema));
    describe_earlier_names(&mut schemas);
    schemas.insert("Problem".to_owned(), problems::schema());
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Gantry",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "The management interface. Conventions, roles and errors: docs/rest.md.",
            "license": { "name": "Apache-2.0" },
        },
        "servers": [
            {
                "url": "/",
                "description": "The daemon that this document comes from.",
            },
            {
                "url": "https://{host}:{port}",
                "description": "Another one, over HTTPS (--https).",
                "variables": {
                    "host": { "default": "localhost", "description": "Its name or address." },
                    "port": { "default": "8443", "description": "Its port." },
                },
            },
        ],
        "security": [{ "token": [] }, { "session": [] }],
        "paths": paths,
        "components": {
            "schemas": schemas,
            "responses": problem_responses(),
            "headers": { "ETag": header("What If-None-Match and If-Match compare.") },
            "securitySchemes": {
                "token": { "type": "http", "scheme": "bearer" },
                "session": { "type": "apiKey", "in": "cookie", "name": "gantry_session" },
            },
        },
    })
}

/// Says that every field of an object is there. The daemon sends all fields of what it answers; one
/// without a value is null.
fn require_all(schema: &mut Value) {
    let Some(properties) = schema["properties"].as_object() else { return };
    let names: Vec<&String> = properties.keys().collect();
    schema["required"] = json!(names);
}

/// Describes earlier names of fields beside today's.
fn describe_earlier_names(schemas: &mut Map<String, Value>) {
    for (schema, earlier, today) in RENAMED {
        let properties = &mut schemas[schema]["properties"];
        let mut field = properties[today].clone();
        field["description"] =
            json!(format!("Deprecated: `{today}` under its name of 0.1.0, in requests."));
        field["deprecated"] = json!(true);
        properties[earlier] = field;
    }
}

/// The top-level fields of the elements of a list, by which it can be filtered.
pub fn fields(route: Route) -> Vec<String> {
    let Shape { answer: Typed { components, .. }, .. } = (route.row().shape)();
    let element = components.first().map(|(_, schema)| to_json(schema)).unwrap_or_default();
    let properties = element["properties"].as_object();
    properties.into_iter().flat_map(|fields| fields.keys().cloned()).collect()
}

/// Whether a body is what the document says that the route takes.
///
/// # Errors
/// Where it is not of its type, or the path of the first value that is out of range. Neither quotes
/// the body, which may hold a secret.
pub fn body_fits(route: Route, body: &[u8]) -> Result<(), String> {
    let Shape { body: Some(typed), body_optional, fits, .. } = (route.row().shape)() else {
        return Ok(());
    };
    if body_optional && body.is_empty() {
        return Ok(());
    }
    let place =
        |error: serde_json::Error| format!("line {} column {}", error.line(), error.column());
    fits(body).map_err(place)?;
    let value = serde_json::from_slice(body).map_err(place)?;
    first_misfit(&value, &typed.schema, &typed.components).map_or(Ok(()), Err)
}

fn to_json(schema: &impl serde::Serialize) -> Value {
    serde_json::to_value(schema).expect("a schema is JSON")
}

fn operation(row: &Row, shape: &Shape) -> Value {
    let Row { route, path, role, is_open, .. } = *row;
    let name = format!("{route:?}");
    let mut operation = json!({
        "operationId": format!("{}{}", name[..1].to_lowercase(), &name[1..]),
        "summary": words(&name),
        "tags": [path.trim_start_matches("/v1").split('/').nth(1).unwrap_or_default()],
        "parameters": parameters(row),
        "responses": responses(row, shape),
    });
    if is_open {
        operation["security"] = json!([])
    } else {
        operation["description"] = json!(needed(role))
    }
    if let Some(body) = &shape.body {
        operation["requestBody"] = json!({
            "required": !shape.body_optional,
            "content": { "application/json": { "schema": body.schema } },
        });
        if let Some(example) = body_example(route) {
            operation["requestBody"]["content"]["application/json"]["example"] = example;
        }
    }
    operation
}

fn needed(role: Role) -> String {
    format!("Needs the role '{}'.", role.name())
}

/// 'ListPools' as 'List pools'.
fn words(name: &str) -> String {
    let mut text = String::new();
    for (index, letter) in name.char_indices() {
        if index > 0 && letter.is_uppercase() {
            text.push(' ');
        }
        match index {
            0 => text.push(letter),
            _ => text.extend(letter.to_lowercase()),
        }
    }
    text
}

fn parameters(row: &Row) -> Vec<Value> {
    let Row { route, method, path, .. } = *row;
    let mut parameters: Vec<Value> = path_parameters(path).map(path_parameter).collect();
    if route == Route::ShowHistory {
        parameters.push(parameter("query", "series", true, &json!({ "type": "string" })));
        let seconds = json!({ "type": "integer", "minimum": 0, "format": "int64" });
        parameters.push(parameter("query", "seconds", false, &seconds));
    }
    let switch = |name| parameter("query", name, false, &json!({ "type": "boolean" }));
    match route {
        Route::ShowConfiguration => parameters.push(switch("with_secrets")),
        Route::ImportConfiguration => parameters.push(switch("dry_run")),
        Route::DeletePool | Route::SwitchPool => parameters.push(switch("force")),
        Route::ShowChanges => {
            let limit = json!({ "type": "integer", "minimum": 1, "maximum": CHANGES_MAX });
            let offset = json!({ "type": "integer", "minimum": 0, "multipleOf": 4096 });
            parameters.push(parameter("query", "base", false, &json!({ "type": "string" })));
            parameters.push(parameter("query", "offset", false, &offset));
            parameters.push(parameter("query", "limit", false, &limit));
        }
        _ => {}
    }
    if row.listing.is_some() {
        let limit = json!({ "type": "integer", "minimum": 1, "maximum": 1000 });
        parameters.push(parameter("query", "limit", false, &limit));
        parameters.push(parameter("query", "after", false, &json!({ "type": "string" })));
        let filter = |name: &str| parameter("query", name, false, &json!({ "type": "string" }));
        let names = fields(route);
        // A list is filtered by one label, not by all that an object has.
        let name = |name: &String| filter(if name == "tags" { "tag" } else { name.as_str() });
        parameters.extend(names.iter().map(name));
    }
    let tags = json!({ "type": "string" });
    match method {
        Method::Get if row.format == Format::Json => {
            parameters.push(parameter("header", "If-None-Match", false, &tags));
        }
        Method::Post if !row.is_about_oneself => {
            parameters.push(parameter("header", "Idempotency-Key", false, &key_schema()));
        }
        _ => {}
    }
    if row.object.is_some() {
        parameters.push(parameter("header", "If-Match", false, &tags));
    }
    if row.makes_its_object() {
        parameters.push(parameter("header", "If-None-Match", false, &tags));
    }
    parameters
}

/// Printable characters, so that every program can keep it.
fn key_schema() -> Value {
    json!({ "type": "string", "minLength": 1, "maxLength": 64, "pattern": "^[!-~]+$" })
}

fn path_parameters(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'))
}

fn path_parameter(name: &str) -> Value {
    let schema = json!({ "type": "string", "minLength": 1, "maxLength": PATH_NAME_CHARACTERS_MAX });
    parameter("path", name, true, &schema)
}

fn parameter(place: &str, name: &str, required: bool, schema: &Value) -> Value {
    json!({ "in": place, "name": name, "required": required, "schema": schema })
}

fn header(description: &str) -> Value {
    json!({ "description": description, "schema": { "type": "string" } })
}

fn responses(row: &Row, shape: &Shape) -> Value {
    let mut responses = Map::new();
    responses.insert("200".to_owned(), success(row, shape));
    if row.method == Method::Get && row.format == Format::Json {
        responses.insert("304".to_owned(), json!({ "description": "It is as it was." }));
    }
    for status in problems(row, shape) {
        let reference = json!({ "$ref": format!("#/components/responses/Problem{status}") });
        responses.insert(status.to_string(), reference);
    }
    Value::Object(responses)
}

fn success(row: &Row, shape: &Shape) -> Value {
    let kind = match (row.route, row.format) {
        (Route::Stream, _) => "text/event-stream",
        (_, Format::Text) => "text/plain; charset=utf-8",
        (_, Format::Json | Format::AsItIs) => "application/json",
    };
    let mut success = json!({
        "description": "It was done.",
        "content": { kind: { "schema": shape.answer.schema } },
    });
    if let Some(example) = answer_example(row.route) {
        success["content"][kind]["example"] = example;
    }
    if row.method == Method::Get && row.format == Format::Json {
        success["headers"] = json!({ "ETag": { "$ref": "#/components/headers/ETag" } });
    }
    success
}

/// The refusals that a route can answer.
fn problems(row: &Row, shape: &Shape) -> Vec<u16> {
    let Row { route, method, path, is_open, object, .. } = *row;
    let changes = !matches!(method, Method::Get);
    let named = path.contains('{') || route == Route::ShowHistory || object.is_some();
    let listed = [
        (400, true),
        (401, !is_open || route == Route::Login),
        (403, true),
        (404, named || changes),
        (408, changes),
        (409, changes || route == Route::ShowChanges),
        (412, object.is_some() || changes),
        (413, changes),
        (415, shape.body.is_some()),
        (422, matches!(method, Method::Post)),
        (429, matches!(route, Route::Login | Route::ChangePassword | Route::Stream)),
        (500, true),
        (503, true),
    ];
    listed.into_iter().filter(|(_, can)| *can).map(|(status, _)| status).collect()
}

/// Every refusal once; all have one form.
fn problem_responses() -> Value {
    let meanings = [
        (400, "The request is malformed, or a value in it is out of range."),
        (401, "Nobody is logged in, or the token is not good."),
        (403, "It is known who asks, and that is not allowed."),
        (404, "There is no such object."),
        (408, "The body did not arrive within 30 s."),
        (409, "It does not fit the state of things."),
        (412, "The object is not what If-Match names any more, or is there against If-None-Match."),
        (413, "The body is larger than 64 KiB; a configuration file than 16 MiB."),
        (415, "The body is not declared as application/json."),
        (422, "The Idempotency-Key was used for something else."),
        (429, "Too many attempts or streams: see Retry-After."),
        (500, "The daemon could not do its part: see its log."),
        (503, "The daemon is not ready, or is stopping."),
    ];
    let response = |(status, meaning): (u16, &str)| {
        let schema = json!({ "$ref": "#/components/schemas/Problem" });
        let mut content = json!({ "application/problem+json": { "schema": schema } });
        if let Some(example) = problems::example(status) {
            content["application/problem+json"]["example"] = to_json(&example);
        }
        (format!("Problem{status}"), json!({ "description": meaning, "content": content }))
    };
    meanings.into_iter().map(response).collect::<Map<_, _>>().into()
}
