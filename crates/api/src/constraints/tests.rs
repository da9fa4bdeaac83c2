use serde_json::json;

use super::*;
use crate::{Route, body_fits, document};

fn fits(route: Route, body: &Value) -> Result<(), String> {
    body_fits(route, body.to_string().as_bytes())
}

#[test]
fn values_beyond_what_the_document_says_are_found_and_named() {
    let volume = json!({ "pool": "p", "name": "v", "size_bytes": 4096 });
    let changed = |field: &str, value: Value| {
        let mut changed = volume.clone();
        changed[field] = value;
        changed
    };
    let identification = |vendor: &str| json!({ "vendor": vendor, "product": "Array" });
    let snapshots =
        |name: &str| json!({ "pool": "p", "snapshots": [{ "volume": "v", "name": name }] });
    let thresholds = |soft: u8| json!({ "soft_percent": soft, "hard_percent": 90 });
    for (route, body, misfit) in [
        (Route::CreateVolume, volume.clone(), None),
        (Route::CreateVolume, changed("name", json!("-v")), Some("name")),
        (Route::CreateVolume, changed("name", json!("x".repeat(64))), Some("name")),
        (Route::CreateVolume, changed("size_bytes", json!(0)), Some("size_bytes")),
        (Route::CreateVolume, changed("size_bytes", json!(4097)), Some("size_bytes")),
        (
            Route::CreateVolume,
            changed("size_bytes", json!((64_u64 << 40) + 4096)),
            Some("size_bytes"),
        ),
        (Route::LockSnapshot, json!({ "until": i64::MAX }), None),
        (Route::LockSnapshot, json!({ "until": i64::MAX as u64 + 1 }), Some("until")),
        (Route::SetIdentification, identification("ACME 1"), None),
        (Route::SetIdentification, identification(" ACME"), Some("vendor")),
        (Route::SetIdentification, identification("ÄCME"), Some("vendor")),
        (Route::SetIdentification, identification(""), Some("vendor")),
        (Route::SetIdentification, identification("ACME 1234"), Some("vendor")),
        (Route::SetVolumeIdentification, identification("ACME "), Some("vendor")),
        (Route::CreateSnapshots, snapshots("s"), None),
        (Route::CreateSnapshots, snapshots("s/1"), Some("snapshots/0/name")),
        (Route::CreateSnapshots, json!({ "pool": "p", "snapshots": [] }), Some("snapshots")),
        (Route::SetVolumeThresholds, thresholds(1), None),
        (Route::SetVolumeThresholds, thresholds(0), Some("soft_percent")),
        (Route::SetPoolThresholds, thresholds(101), Some("soft_percent")),
        (Route::MapVolume, json!({ "lun": 16_383 }), None),
        (Route::MapVolume, json!({ "lun": null }), None),
        (Route::MapVolume, json!({ "lun": 16_384 }), Some("lun")),
    ] {
        let expected = misfit.map_or(Ok(()), |misfit| Err(misfit.to_owned()));
        assert_eq!(fits(route, &body), expected, "{route:?} {body}");
    }
}

#[test]
fn what_is_not_of_the_type_is_told_by_the_type() {
    for (route, body) in [
        (Route::CreateVolume, json!({})),
        (Route::CreateVolume, json!({ "pool": "p", "name": 1, "size_bytes": 4096 })),
        (Route::SetReservations, json!({ "hidden": true, "colour": 1 })),
        (Route::DeleteVolume, json!({})),
    ] {
        assert_eq!(fits(route, &body).is_ok(), route == Route::DeleteVolume, "{route:?}");
    }
    assert_eq!(body_fits(Route::MapVolume, b""), Ok(()));
    assert!(body_fits(Route::CreateVolume, b"").is_err());
}

/// Every pattern in a part of the document.
fn patterns<'a>(value: &'a Value, found: &mut Vec<&'a str>) {
    match value {
        Value::Object(map) => {
            found.extend(map.get("pattern").and_then(Value::as_str));
            map.values().for_each(|value| patterns(value, found));
        }
        Value::Array(list) => list.iter().for_each(|value| patterns(value, found)),
        _ => {}
    }
}

#[test]
fn every_pattern_of_a_body_is_known() {
    let document = document();
    let mut found = Vec::new();
    patterns(&document["components"]["schemas"], &mut found);
    assert!(found.len() >= 9, "{found:?}");
    for pattern in found {
        assert!(PATTERNS.iter().any(|(known, _)| *known == pattern), "{pattern}");
    }
}
