use block::VolumeId;

use super::*;
use crate::{Configuration, Presentation};

const V: VolumeId = VolumeId(7);

fn acme() -> Identification {
    Identification::new("ACME", "Array 1").unwrap()
}

#[test]
fn texts_are_padded_with_spaces_and_come_back_without() {
    let acme = acme();
    assert_eq!(acme.vendor_field(), *b"ACME    ");
    assert_eq!(acme.product_field(), *b"Array 1         ");
    assert_eq!((acme.vendor(), acme.product()), ("ACME", "Array 1"));
    let full = Identification::new("ABCDEFGH", "!0123456789abc~z").unwrap();
    assert_eq!((full.vendor(), full.product()), ("ABCDEFGH", "!0123456789abc~z"));
}

#[test]
fn what_the_fields_cannot_hold_is_refused() {
    for vendor in ["", " ", " ACME", "ACME ", "ACMEACMEA", "AC\tME", "AC\u{7f}", "Zürich", "\u{0}"]
    {
        let refused = Identification::new(vendor, "P").unwrap_err().to_string();
        assert!(refused.contains("a vendor has 1 to 8 "), "{refused}");
    }
    for product in ["", " P", "P ", "ABCDEFGHIJKLMNOPQ", "P\n", "P\u{80}"] {
        let refused = Identification::new("V", product).unwrap_err().to_string();
        assert!(refused.contains("a product has 1 to 16 "), "{refused}");
    }
}

#[test]
fn it_is_saved_as_text_and_a_wrong_one_is_not_read() {
    let saved = serde_json::to_string(&acme()).unwrap();
    assert_eq!(saved, r#"{"vendor":"ACME","product":"Array 1"}"#);
    assert_eq!(serde_json::from_str::<Identification>(&saved).unwrap(), acme());
    for wrong in [
        r#"{"vendor":"ACME"}"#,
        r#"{"vendor":"ACMEACMEACME","product":"P"}"#,
        r#"{"vendor":"ACME","product":"P","revision":"1"}"#,
    ] {
        assert!(serde_json::from_str::<Identification>(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn volumes_tell_what_the_array_tells_unless_they_have_their_own() {
    let mut array = Configuration::new("iqn.2026-01.example:a".into());
    let unchanged = serde_json::to_string(&array).unwrap();
    assert!(!unchanged.contains("identification"));
    assert!(array.deviating_identifications().is_empty());
    let own = |identification| Presentation { identification, ..Presentation::default() };
    array.set_presentation(V, own(Some(acme())));
    assert_eq!(array.deviating_identifications().into_iter().collect::<Vec<_>>(), [(V, acme())]);
    let saved = serde_json::to_string(&array).unwrap();
    assert_eq!(serde_json::from_str::<Configuration>(&saved).unwrap(), array);
    array.identification = acme();
    assert!(array.deviating_identifications().is_empty(), "its own is what all tell");
    array.identification = Identification::default();
    array.set_presentation(V, own(None));
    assert_eq!(serde_json::to_string(&array).unwrap(), unchanged);
}
