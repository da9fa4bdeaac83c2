//! Compatibility test: every route, parameter, field and enum value of the OpenAPI documents of
//! earlier releases is in today's, and bodies that were made from them are still read.

use std::collections::BTreeSet;

use super::*;

/// The documents of releases, as their daemons answered them, without sentences and refusals; the
/// description of an operation is the role that it needs.
const RELEASES: &[&str] = &[include_str!("released/0.1.0.json")];

/// What was taken away all the same; docs/upgrades.md says why.
const TAKEN: [&str; 1] = ["POST /v1/configuration body/groups[]: unknown fields are refused now"];

/// Limits of values. A request's may become wider; an answer's are for people.
const LEAST: [&str; 3] = ["minimum", "minLength", "minItems"];
const MOST: [&str; 3] = ["maximum", "maxLength", "maxItems"];

/// Whose values a schema describes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Side {
    /// A client's: today's array must take all that the release took.
    Request,
    /// The array's: a client of the release must understand today's.
    Answer,
}

/// Compares the documents of a release and of today.
struct Comparison {
    released: Value,
    today: Value,
    /// Pairs of schemas that were compared, so that schemas that hold each other end.
    seen: BTreeSet<(String, String, Side)>,
    breaks: Vec<String>,
}

impl Comparison {
    fn new(released: &str, today: Value) -> Self {
        let released = serde_json::from_str(released).unwrap();
        Self { released, today, seen: BTreeSet::new(), breaks: Vec::new() }
    }

    fn say(&mut self, place: &str, what: &str) {
        self.breaks.push(format!("{place}: {what}"));
    }

    fn documents(mut self) -> Vec<String> {
        for (path, methods) in self.released["paths"].clone().as_object().unwrap() {
            for (method, operation) in methods.as_object().unwrap() {
                let place = format!("{} {path}", method.to_uppercase());
                match self.today["paths"][path][method].clone() {
                    Value::Null => self.say(&place, "there is no such route any more"),
                    today => self.operation(&place, operation, &today),
                }
            }
        }
        self.breaks
    }

    fn operation(&mut self, place: &str, released: &Value, today: &Value) {
        if released["description"] != today["description"] {
            let roles = format!("{} instead of {}", today["description"], released["description"]);
            self.say(place, &roles);
        }
        self.parameters(place, &released["parameters"], &today["parameters"]);
        let body = |operation: &Value| operation["requestBody"].clone();
        let schema = |body: &Value| body["content"]["application/json"]["schema"].clone();
        let (then, now) = (body(released), body(today));
        if now["required"] == true && then["required"] != true {
            self.say(place, "a body is required now");
        }
        if !then.is_null() {
            self.schemas(&format!("{place} body"), &schema(&then), &schema(&now), Side::Request);
        }
        let contents = |operation: &Value| operation["responses"]["200"]["content"].clone();
        for (kind, content) in contents(released).as_object().unwrap() {
            let now = &contents(today)[kind]["schema"];
            self.schemas(&format!("{place} answer"), &content["schema"], now, Side::Answer);
        }
    }

    fn parameters(&mut self, place: &str, released: &Value, today: &Value) {
        let key = |parameter: &Value| format!("{} {}", parameter["in"], parameter["name"]);
        let (released, today) = (released.as_array().unwrap(), today.as_array().unwrap());
        for then in released {
            match today.iter().find(|now| key(now) == key(then)) {
                Some(now) => {
                    let place = format!("{place} {}", key(then));
                    self.schemas(&place, &then["schema"], &now["schema"], Side::Request);
                }
                None => self.say(place, &format!("there is no {} any more", key(then))),
            }
        }
        for now in today.iter().filter(|now| now["required"] == true) {
            let then = released.iter().find(|then| key(then) == key(now));
            if then.is_none_or(|then| then["required"] != true) {
                self.say(place, &format!("{} is required now", key(now)));
            }
        }
    }

    fn schemas(&mut self, place: &str, then: &Value, now: &Value, side: Side) {
        if !self.seen.insert((then.to_string(), now.to_string(), side)) {
            return;
        }
        let then = followed(then, &self.released);
        let now = followed(now, &self.today);
        if let Some(kinds) = then["oneOf"].as_array() {
            return self.choices(place, kinds, &now["oneOf"], side);
        }
        let (types, today) = (words(&then["type"]), words(&now["type"]));
        let understood = match side {
            Side::Request => today.is_superset(&types),
            Side::Answer => types.is_superset(&today) && types.is_empty() == today.is_empty(),
        };
        if !understood {
            self.say(place, &format!("{today:?} instead of {types:?}"));
        }
        if !now["enum"].is_null() && !words(&now["enum"]).is_superset(&words(&then["enum"])) {
            self.say(place, &format!("{} instead of {}", now["enum"], then["enum"]));
        }
        self.limits(place, &then, &now, side);
        self.fields(place, &then, &now, side);
        for part in ["items", "additionalProperties"] {
            match (&then[part], &now[part]) {
                (Value::Object(_), _) => {
                    self.schemas(&format!("{place}[]"), &then[part], &now[part], side);
                }
                (Value::Null, Value::Bool(false)) if side == Side::Request => {
                    self.say(place, "unknown fields are refused now");
                }
                _ => {}
            }
        }
    }

    /// The choices of a schema, in the order in which they are described.
    fn choices(&mut self, place: &str, then: &[Value], now: &Value, side: Side) {
        let now = now.as_array().cloned().unwrap_or_default();
        if now.len() < then.len() || (side == Side::Answer && now.len() > then.len()) {
            return self.say(place, "there are other choices");
        }
        for (then, now) in then.iter().zip(&now) {
            self.schemas(place, then, now, side);
        }
    }

    fn fields(&mut self, place: &str, then: &Value, now: &Value, side: Side) {
        for (name, field) in then["properties"].as_object().into_iter().flatten() {
            match &now["properties"][name] {
                Value::Null => {
                    self.say(&format!("{place}/{name}"), "there is no such field any more")
                }
                today => self.schemas(&format!("{place}/{name}"), field, today, side),
            }
        }
        let (before, today) = (words(&then["required"]), words(&now["required"]));
        let (lacking, what) = match side {
            Side::Request => (today.difference(&before), "is required now"),
            Side::Answer => (before.difference(&today), "may be missing now"),
        };
        // A field that is gone was told of already.
        let lacking = lacking.filter(|name| !now["properties"][name.trim_matches('"')].is_null());
        let lacking: Vec<String> = lacking.cloned().collect();
        lacking
            .iter()
            .for_each(|name| self.say(&format!("{place}/{}", name.trim_matches('"')), what));
    }

    fn limits(&mut self, place: &str, then: &Value, now: &Value, side: Side) {
        let narrower = |name: &&str, is_narrower: fn(u64, u64) -> bool| {
            let limit = now[*name].as_u64();
            limit.is_some_and(|now| then[*name].as_u64().is_none_or(|then| is_narrower(now, then)))
        };
        let least = LEAST.iter().find(|name| narrower(name, |now, then| now > then));
        let most = MOST.iter().find(|name| narrower(name, |now, then| now < then));
        let other = ["pattern", "multipleOf", "format"]
            .into_iter()
            .find(|name| !now[*name].is_null() && now[*name] != then[*name]);
        let format = (now["format"] != then["format"]).then_some("format");
        let narrowed = match side {
            Side::Request => least.or(most).copied().or(other),
            Side::Answer => format,
        };
        if let Some(name) = narrowed {
            self.say(place, &format!("{name} {} instead of {}", now[name], then[name]));
        }
    }
}

/// The schema that a reference leads to, if it is one.
fn followed(schema: &Value, document: &Value) -> Value {
    match schema["$ref"].as_str().and_then(|reference| reference.strip_prefix('#')) {
        Some(pointer) => followed(document.pointer(pointer).unwrap(), document),
        None => schema.clone(),
    }
}

/// The words of a list, or of one that stands for itself.
fn words(value: &Value) -> BTreeSet<String> {
    match value {
        Value::Array(list) => list.iter().map(Value::to_string).collect(),
        Value::Null => BTreeSet::new(),
        one => BTreeSet::from([one.to_string()]),
    }
}

/// Values that a schema of the release allows: each alternative and each word at least once, and an
/// object with all of its fields and one with those that it must have.
fn instances(schema: &Value, document: &Value) -> Vec<Value> {
    let schema = followed(schema, document);
    if let Some(kinds) = schema["oneOf"].as_array() {
        return kinds.iter().flat_map(|kind| instances(kind, document)).collect();
    }
    if let Some(words) = schema["enum"].as_array() {
        return words.clone();
    }
    let kinds = words(&schema["type"]);
    kinds.iter().flat_map(|kind| instances_of(kind.trim_matches('"'), &schema, document)).collect()
}

fn instances_of(kind: &str, schema: &Value, document: &Value) -> Vec<Value> {
    match kind {
        "null" => vec![Value::Null],
        "boolean" => vec![json!(true), json!(false)],
        "integer" => vec![json!(schema["minimum"].as_u64().unwrap_or(1))],
        "string" => vec![json!("word")],
        "array" => {
            let elements = instances(&schema["items"], document);
            vec![json!([]), json!(elements)]
        }
        "object" if schema["properties"].is_object() => objects(schema, document),
        "object" => {
            let values = instances(&schema["additionalProperties"], document);
            vec![json!({}), json!({ "word": values[0] })]
        }
        other => panic!("no values of the type {other}"),
    }
}

fn objects(schema: &Value, document: &Value) -> Vec<Value> {
    let fields = schema["properties"].as_object().unwrap();
    let of_field = |(name, field): (&String, &Value)| (name.clone(), instances(field, document));
    let of_fields: Vec<(String, Vec<Value>)> = fields.iter().map(of_field).collect();
    let first = |(name, values): &(String, Vec<Value>)| (name.clone(), values[0].clone());
    let whole: Map<String, Value> = of_fields.iter().map(first).collect();
    let required = words(&schema["required"]);
    let mut least = whole.clone();
    least.retain(|name, _| required.contains(&json!(name).to_string()));
    let mut all = vec![Value::Object(least)];
    for (name, values) in &of_fields {
        for value in values {
            let mut object = whole.clone();
            object.insert(name.clone(), value.clone());
            all.push(Value::Object(object));
        }
    }
    all
}

#[test]
fn nothing_of_a_release_is_gone() {
    for release in RELEASES {
        let comparison = Comparison::new(release, document());
        assert_eq!(comparison.documents(), TAKEN);
    }
}

#[test]
fn bodies_of_a_release_are_still_read() {
    let mut read = 0;
    for release in RELEASES {
        let released: Value = serde_json::from_str(release).unwrap();
        for Row { method, path, shape, .. } in ROUTES {
            let operation = &released["paths"][path][method.name().to_lowercase()];
            let schema = &operation["requestBody"]["content"]["application/json"]["schema"];
            if schema.is_null() {
                continue;
            }
            for body in instances(schema, &released) {
                let fits = (shape().fits)(&serde_json::to_vec(&body).unwrap());
                assert!(fits.is_ok(), "{} {path}: {fits:?} of {body}", method.name());
                read += 1;
            }
        }
    }
    assert!(read > 200, "{read} bodies");
}

/// A change of a document.
type Change = fn(&mut Value);

#[test]
fn every_kind_of_break_is_found() {
    let volume = "/components/schemas/Volume";
    let creation = "/components/schemas/CreateVolume";
    let at = |place: &str, part: &str| format!("{place}/{part}");
    let changes: [(String, Change, &str); 11] = [
        ("/paths".to_owned(), |paths| without(paths, "/v1/volumes"), "no such route"),
        (at(volume, "properties"), |fields| without(fields, "naa"), "/naa: there is no such field"),
        (at(volume, "required"), |names| *names = json!(["pool"]), "may be missing now"),
        (at(volume, "properties/naa/type"), |kind| *kind = json!(["string", "null"]), "instead of"),
        (at(creation, "properties"), |fields| without(fields, "reserved"), "/reserved: there is"),
        (at(creation, "required"), |names| *names = json!(["tags"]), "/tags: is required now"),
        (at(creation, "properties/name/maxLength"), |limit| *limit = json!(3), "maxLength 3"),
        (at(creation, "properties/size_bytes/multipleOf"), |of| *of = json!(8192), "multipleOf"),
        ("/components/schemas/BlockSize/enum".to_owned(), |words| *words = json!(["512"]), "512e"),
        ("/paths/~1v1~1volumes/get/parameters".to_owned(), |all| *all = json!([]), "query"),
        ("/paths/~1v1~1volumes/get/description".to_owned(), |role| *role = json!("root"), "root"),
    ];
    for (place, change, told) in changes {
        let mut today = document();
        change(today.pointer_mut(&place).unwrap());
        let breaks = Comparison::new(RELEASES[0], today).documents();
        assert!(breaks.iter().any(|found| found.contains(told)), "{place}: {breaks:?}");
    }
}

fn without(object: &mut Value, name: &str) {
    assert!(object.as_object_mut().unwrap().remove(name).is_some(), "{name}");
}
