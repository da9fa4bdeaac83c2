mod released;

use std::collections::BTreeSet;

use super::*;

/// Every reference in a part of the document.
fn references(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(map) => {
            if let Some(Value::String(reference)) = map.get("$ref") {
                found.insert(reference.clone());
            }
            map.values().for_each(|value| references(value, found));
        }
        Value::Array(list) => list.iter().for_each(|value| references(value, found)),
        _ => {}
    }
}

#[test]
fn every_route_is_described_with_what_it_takes_and_gives() {
    let document = document();
    for &Row { method, path, route, .. } in ROUTES {
        let operation = &document["paths"][path][method.name().to_lowercase()];
        assert!(operation.is_object(), "{route:?}");
        let content = operation["responses"]["200"]["content"].as_object().unwrap();
        let schema = &content.values().next().unwrap()["schema"];
        assert!(schema.is_object(), "{route:?} answers nothing");
        let takes = operation["requestBody"]["content"]["application/json"]["schema"].is_object();
        let cannot = matches!(method, Method::Get | Method::Delete);
        let without = [
            Route::Logout,
            Route::CancelTask,
            Route::PauseTask,
            Route::ResumeTask,
            Route::TestAlerts,
            Route::ReturnMember,
            Route::SwitchPool,
            Route::ShowRecoveryKey,
        ];
        assert!(takes != (cannot || without.contains(&route)), "{route:?}");
        let names = operation["parameters"].as_array().unwrap().iter();
        let in_path = names.filter(|parameter| parameter["in"] == "path").count();
        assert_eq!(in_path, path.matches('{').count(), "{route:?}");
        assert!(operation["responses"]["403"].is_object(), "{route:?}");
    }
}

#[test]
fn every_reference_leads_somewhere() {
    let document = document();
    let mut found = BTreeSet::new();
    references(&document, &mut found);
    assert!(found.len() > 50, "{found:?}");
    for reference in found {
        let pointer = reference.strip_prefix('#').unwrap();
        assert!(document.pointer(pointer).is_some(), "{reference}");
    }
}

#[test]
fn names_of_operations_are_unique() {
    let mut names = BTreeSet::new();
    for &Row { route, .. } in ROUTES {
        assert!(names.insert(format!("{route:?}")), "{route:?} is there twice");
    }
}

#[test]
fn lists_are_told_apart_by_fields_that_they_have() {
    for &Row { method, route, listing, .. } in ROUTES {
        let Some(listing) = listing else { continue };
        assert_eq!(method, Method::Get);
        let fields = fields(route);
        for key in listing.key {
            assert!(fields.iter().any(|field| field == key), "{route:?}: {key} of {fields:?}");
        }
    }
}

#[test]
fn what_is_changed_can_be_shown() {
    for &Row { path, route, object, .. } in ROUTES {
        let Some(object) = object else { continue };
        assert_eq!(object.row().method, Method::Get);
        for name in path_parameters(object.row().path) {
            assert!(path.contains(name), "{route:?}");
        }
    }
}

#[test]
fn operations_are_named_in_words() {
    assert_eq!(words("ListPools"), "List pools");
    assert_eq!(words("ShowOpenApi"), "Show open api");
}

/// Why a value is not as its schema says.
fn misfit(value: &Value, schema: &Value, document: &Value) -> Option<String> {
    misfit_of_part(value, schema, document, false)
}

/// The same of a schema that may be a part of an 'allOf', which need not know what another part
/// describes.
fn misfit_of_part(
    value: &Value,
    schema: &Value,
    document: &Value,
    is_part: bool,
) -> Option<String> {
    if let Some(reference) = schema["$ref"].as_str() {
        let referred = document.pointer(reference.strip_prefix('#').unwrap()).unwrap();
        return misfit_of_part(value, referred, document, is_part);
    }
    for (several, all) in [("allOf", true), ("oneOf", false), ("anyOf", false)] {
        let Some(kinds) = schema[several].as_array() else { continue };
        let mut misfits = kinds.iter().map(|kind| misfit_of_part(value, kind, document, all));
        return if all {
            misfits.find_map(|misfit| misfit)
        } else {
            misfits.all(|misfit| misfit.is_some()).then(|| format!("{value}: {schema}"))
        };
    }
    let types = match &schema["type"] {
        Value::Array(types) => types.clone(),
        Value::Null => Vec::new(),
        one => vec![one.clone()],
    };
    let own = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    if !types.is_empty() && !types.iter().any(|kind| kind == own) {
        return Some(format!("{value} is not of {types:?}"));
    }
    if schema["enum"].as_array().is_some_and(|words| !words.contains(value)) {
        return Some(format!("{value} is none of {}", schema["enum"]));
    }
    let missing = |name: &&Value| value.get(name.as_str().unwrap()).is_none();
    let required = schema["required"].as_array();
    if let Some(name) = required.and_then(|names| names.iter().find(missing)) {
        return Some(format!("{name} is missing in {value}"));
    }
    match value {
        Value::Array(list) => {
            list.iter().find_map(|value| misfit(value, &schema["items"], document))
        }
        Value::Object(fields) => fields.iter().find_map(|(name, value)| {
            let described = &schema["properties"][name];
            match (described, &schema["additionalProperties"]) {
                (Value::Null, Value::Object(_)) => {
                    misfit(value, &schema["additionalProperties"], document)
                }
                (Value::Null, Value::Bool(true)) => None,
                (Value::Null, _) if is_part || schema["properties"].is_null() => None,
                (Value::Null, _) => Some(format!("{name} is not described")),
                (described, _) => misfit(value, described, document),
            }
        }),
        _ => None,
    }
}

#[test]
fn every_example_is_as_its_schema_says() {
    let document = document();
    let mut count = 0;
    let mut check = |content: &Value, place: &str| {
        let Some(example) = content.get("example") else { return };
        let misfit = misfit(example, &content["schema"], &document);
        assert_eq!(misfit, None, "{place}");
        count += 1;
    };
    for &Row { method, path, route, .. } in ROUTES {
        let operation = &document["paths"][path][method.name().to_lowercase()];
        let place = format!("{route:?}");
        let body = &operation["requestBody"]["content"]["application/json"];
        check(body, &place);
        check(&operation["responses"]["200"]["content"]["application/json"], &place);
        if let Some(example) = body.get("example") {
            let text = example.to_string();
            assert_eq!(body_fits(route, text.as_bytes()), Ok(()), "{place}");
        }
        assert_eq!(body.is_object(), body.get("example").is_some(), "{place} has no example");
    }
    for (name, response) in document["components"]["responses"].as_object().unwrap() {
        check(&response["content"]["application/problem+json"], name);
    }
    assert!(count > 50, "{count}");
}

#[test]
fn what_is_no_example_of_its_schema_is_found() {
    let document = document();
    let volume = json!({ "$ref": "#/components/schemas/CreateVolume" });
    for wrong in [
        json!([]),
        json!({ "pool": "p", "name": "v" }),
        json!({ "pool": "p", "name": "v", "size_bytes": "1" }),
        json!({ "pool": "p", "name": "v", "size_bytes": 4096, "colour": 1 }),
        json!({ "pool": "p", "name": "v", "size_bytes": 4096, "block_size": "7" }),
    ] {
        assert!(misfit(&wrong, &volume, &document).is_some(), "{wrong}");
    }
}

#[test]
fn the_document_says_where_the_interface_is() {
    let servers = document()["servers"].clone();
    assert_eq!(servers[0]["url"], "/");
    assert!(servers[1]["url"].as_str().unwrap().starts_with("https://"));
}

/// 0.1.0 called a thick volume reserved: what was written for it goes on.
#[test]
fn a_thick_volume_may_be_asked_for_by_its_old_name() {
    let create = json!({ "pool": "p", "name": "v", "size_bytes": 4096, "reserved": true });
    let clone = json!({ "name": "v", "reserved": true });
    let shape = json!({ "size_bytes": 4096, "reserved": true });
    for (route, body) in [(Route::CreateVolume, &create), (Route::CloneVolume, &clone)] {
        assert_eq!(body_fits(route, body.to_string().as_bytes()), Ok(()), "{route:?}");
        let mut both = body.clone();
        both["thick"] = json!(false);
        assert!(body_fits(route, both.to_string().as_bytes()).is_err(), "{route:?}");
    }
    assert!(serde_json::from_value::<crate::CreateVolume>(create).unwrap().thick);
    assert!(serde_json::from_value::<crate::CloneVolume>(clone).unwrap().thick);
    assert!(serde_json::from_value::<crate::ConfiguredShape>(shape).unwrap().thick);
    for (schema, earlier, _) in RENAMED {
        let described = &document()["components"]["schemas"][schema]["properties"][earlier];
        assert_eq!(described["deprecated"], true, "{schema}/{earlier}");
    }
}
