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
    for &(method, path, route) in ROUTES {
        let operation = &document["paths"][path][method.name().to_lowercase()];
        assert!(operation.is_object(), "{route:?} has no row in shapes.rs");
        let content = operation["responses"]["200"]["content"].as_object().unwrap();
        let schema = &content.values().next().unwrap()["schema"];
        assert!(schema.is_object(), "{route:?} answers nothing");
        let takes = operation["requestBody"]["content"]["application/json"]["schema"].is_object();
        let cannot = matches!(method, Method::Get | Method::Delete);
        let without = [Route::Logout, Route::CancelTask, Route::TestAlerts];
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
    for &(_, _, route) in ROUTES {
        assert!(names.insert(format!("{route:?}")), "{route:?} is there twice");
    }
}

#[test]
fn lists_are_told_apart_by_fields_that_they_have() {
    for &(method, _, route) in ROUTES {
        let Some(listing) = route.listing() else { continue };
        assert_eq!(method, Method::Get);
        let fields = fields(route);
        for key in listing.key {
            assert!(fields.iter().any(|field| field == key), "{route:?}: {key} of {fields:?}");
        }
    }
}

#[test]
fn what_is_changed_can_be_shown() {
    for &(_, path, route) in ROUTES {
        let Some(object) = route.object() else { continue };
        let shown =
            ROUTES.iter().find(|(method, _, route)| *method == Method::Get && *route == object);
        let (_, shown, _) = shown.unwrap();
        for name in path_parameters(shown) {
            assert!(path.contains(name), "{route:?}");
        }
    }
}

#[test]
fn operations_are_named_in_words() {
    assert_eq!(words("ListPools"), "List pools");
    assert_eq!(words("ShowOpenApi"), "Show open api");
}
