use api::ProblemKind;
use array::Host;

use super::*;
use crate::change::tests::{World, empty, make, refusal, volume};

const OFF: SetPrimitives = SetPrimitives {
    compare_and_write: None,
    extended_copy: Some(false),
    write_same: None,
    unmap: Some(false),
};

fn off() -> SwitchesOff {
    SwitchesOff::NONE.with(Switch::ExtendedCopy).with(Switch::Unmap)
}

fn note(severity: Severity, object: &str, message: &str) -> Effect {
    Effect::note(severity, object.to_owned(), message)
}

#[test]
fn a_change_for_everybody_is_told_and_noted_with_its_author() {
    let (mut draft, world) = (empty(), World::new());
    let applied = make(&mut draft, &world, &set(OFF, "ann")).unwrap();
    assert_eq!(draft.array.switches_off, off());
    assert_eq!(applied.answer, Answer::of(&describe(off())).unwrap());
    let message = "extended_copy, unmap were turned off by ann";
    let expected =
        [Effect::Tell(ExportEvent::SwitchesOff(off())), note(Severity::Warning, "array", message)];
    assert_eq!(applied.effects, expected);
    let again = make(&mut draft, &world, &set(OFF, "bob")).unwrap();
    assert_eq!(again.effects, expected[..1]);
}

#[test]
fn what_is_not_named_stays_and_what_comes_back_is_noted() {
    let (mut draft, world) = (empty(), World::new());
    make(&mut draft, &world, &set_of_volume(&volume(), OFF, "ann")).unwrap();
    let on = SetPrimitives { unmap: Some(true), ..SetPrimitives::default() };
    let applied = make(&mut draft, &world, &set_of_volume(&volume(), on, "bob")).unwrap();
    let left = SwitchesOff::NONE.with(Switch::ExtendedCopy);
    assert_eq!(draft.array.presentation(volume().id).switches_off, left);
    assert_eq!(applied.answer, Answer::Volume(volume().place()));
    let told = Effect::Tell(ExportEvent::VolumeSwitchesOff(volume().id, left));
    let name = world.name_of(volume().id);
    let noted = note(Severity::Information, &name, "unmap was turned on by bob");
    assert_eq!(applied.effects, [told, noted]);
}

#[test]
fn a_host_keeps_its_switches_and_its_sessions_are_told() {
    let (mut draft, world) = (empty(), World::new());
    let change = set_of_host("esx", OFF, "ann");
    assert_eq!(refusal(&mut draft, &world, &change), ProblemKind::NotFound);
    draft.array.create_host("esx", Host::default()).unwrap();
    let applied = make(&mut draft, &world, &change).unwrap();
    assert_eq!(applied.touched, Touched::one("esx"));
    assert_eq!(describe_host(&draft.array, &draft.secrets, "esx").primitives, describe(off()));
    let message = "extended_copy, unmap were turned off by ann";
    assert_eq!(applied.effects, [note(Severity::Warning, "host esx", message)]);
}

#[test]
fn what_is_described_is_read_back() {
    for bits in 0..16_usize {
        let some = Switch::ALL.into_iter().enumerate().filter(|(at, _)| bits >> at & 1 == 1);
        let off: SwitchesOff = some.map(|(_, switch)| switch).collect();
        assert_eq!(parse(describe(off)), off);
    }
}
