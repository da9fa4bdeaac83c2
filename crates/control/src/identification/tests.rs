use serde_json::json;

use super::*;
use crate::Note;
use crate::change::tests::{World, empty, make, volume, written};
use crate::volumes::{delete_identification, set_identification};

fn texts(vendor: &str, product: &str) -> api::Identification {
    api::Identification { vendor: vendor.to_owned(), product: product.to_owned() }
}

fn own(vendor: &str, product: &str) -> crate::volumes::Change {
    set_identification(&texts(vendor, product), &volume()).unwrap()
}

fn notes(applied: &Applied) -> Vec<(Severity, &str)> {
    let note = |effect: &'_ Effect| match effect {
        Effect::Note(Note { severity, .. }) => Some(*severity),
        _ => None,
    };
    let severities = applied.effects.iter().filter_map(note);
    let objects = applied.effects.iter().filter_map(|effect| match effect {
        Effect::Note(note) => Some(note.object.as_str()),
        _ => None,
    });
    severities.zip(objects).collect()
}

#[test]
fn a_volume_that_tells_something_else_is_warned_of_once() {
    let (mut draft, world) = (empty(), World::new());
    let applied = make(&mut draft, &world, &own("ACME", "DISK")).unwrap();
    let expected = Identification::new("ACME", "DISK").unwrap();
    let told = ExportEvent::OwnIdentification(volume().id, Some(expected));
    assert_eq!(applied.effects[0], Effect::Tell(told));
    assert_eq!(notes(&applied), [(Severity::Warning, "volume p/1")]);
    let again = make(&mut draft, &world, &own("ACME", "DISK")).unwrap();
    assert_eq!(notes(&again), [], "nothing is new");
    let other = make(&mut draft, &world, &own("ACME", "DISK 2")).unwrap();
    assert_eq!(notes(&other), [(Severity::Warning, "volume p/1")]);
    let back = make(&mut draft, &world, &delete_identification(&volume())).unwrap();
    assert_eq!(back.answer, Answer::DONE);
    assert_eq!(back.effects[0], Effect::Tell(ExportEvent::OwnIdentification(volume().id, None)));
    assert_eq!(notes(&back), [(Severity::Information, "volume p/1")]);
    assert_eq!(draft, empty());
}

#[test]
fn the_arrays_own_changes_which_volumes_deviate() {
    let (mut draft, world) = (empty(), World::new());
    make(&mut draft, &world, &own("ACME", "DISK")).unwrap();
    let alike = make(&mut draft, &world, &set(&texts("ACME", "DISK")).unwrap()).unwrap();
    assert_eq!(*written(&alike), json!({ "vendor": "ACME", "product": "DISK" }));
    let expected = Identification::new("ACME", "DISK").unwrap();
    assert_eq!(alike.effects[0], Effect::Tell(ExportEvent::Identification(expected)));
    assert_eq!(notes(&alike), [(Severity::Information, "volume p/1")]);
    assert_eq!(alike.effects.len(), 2, "front ends know which volumes have one of their own");
    let other = make(&mut draft, &world, &set(&texts("ACME", "OTHER")).unwrap()).unwrap();
    assert_eq!(notes(&other), [(Severity::Warning, "volume p/1")]);
    let quoted = match &other.effects[1] {
        Effect::Note(note) => note.message.clone(),
        effect => panic!("{effect:?}"),
    };
    assert!(
        quoted.contains("('ACME', 'DISK')") && quoted.contains("('ACME', 'OTHER')"),
        "{quoted}"
    );
}

/// Own words that are the array's words deviate from nothing.
#[test]
fn a_volume_that_repeats_what_the_array_tells_is_not_warned_of() {
    let (mut draft, world) = (empty(), World::new());
    let applied = make(&mut draft, &world, &own("GANTRY", "VIRTUAL DISK")).unwrap();
    assert_eq!(notes(&applied), []);
    assert!(draft.array.presentation(volume().id).identification.is_some());
}

#[test]
fn texts_that_inquiry_data_cannot_hold_are_refused() {
    let too_long = "x".repeat(17);
    for (vendor, product) in [("", "DISK"), ("123456789", "DISK"), ("ACME", too_long.as_str())] {
        assert_eq!(set(&texts(vendor, product)).unwrap_err().status, 400);
        assert_eq!(set_identification(&texts(vendor, product), &volume()).unwrap_err().status, 400);
    }
}
