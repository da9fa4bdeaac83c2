//! Switches of primitives: administrators turn offloads off and on for the array, for hosts and for
//! volumes, and an event says who did.

use api::{Primitives, Problem, SetPrimitives, Severity};
use block::{Switch, SwitchesOff};

use crate::Effect;
use crate::change::{Answer, Applied, ConfigurationChange, Draft, Place, Touched, View};
use crate::exports::ExportEvent;
use crate::hosts::describe_host;
use crate::problems::refused;
use crate::volumes::Found;

/// Who turned something off or on that came with an import.
pub(crate) const BY_IMPORT: &str = "by an import";

/// Turns primitives off and on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    place: Object,
    wanted: SetPrimitives,
    /// 'by NAME'.
    by: String,
}

/// What it is set for.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Object {
    Array,
    Host(String),
    Volume(Place),
}

/// For everybody, as that user wants it.
pub fn set(wanted: SetPrimitives, user: &str) -> Change {
    Change { place: Object::Array, wanted, by: format!("by {user}") }
}

/// For one host.
pub fn set_of_host(name: &str, wanted: SetPrimitives, user: &str) -> Change {
    Change { place: Object::Host(name.to_owned()), ..set(wanted, user) }
}

/// For one volume or snapshot.
pub fn set_of_volume(found: &Found, wanted: SetPrimitives, user: &str) -> Change {
    Change { place: Object::Volume(found.place()), ..set(wanted, user) }
}

impl ConfigurationChange for Change {
    fn apply(&self, draft: &mut Draft, _: u64, view: &dyn View) -> Result<Applied, Problem> {
        match &self.place {
            Object::Array => {
                let after = self.applied_to(draft.array.switches_off);
                let before = std::mem::replace(&mut draft.array.switches_off, after);
                let told = Effect::Tell(ExportEvent::SwitchesOff(after));
                let applied = Applied::new(Touched::Nobody, Answer::of(&describe(after))?);
                Ok(applied.with(self.effects(Some(told), "array", before, after)))
            }
            Object::Host(name) => {
                let before = draft.array.switches_off_of_host(name);
                let after = self.applied_to(before);
                let set = draft.array.set_switches_off_of_host(name, after);
                set.map_err(|error| refused(&error))?;
                let host = describe_host(&draft.array, &draft.secrets, name);
                let applied = Applied::new(Touched::one(name), Answer::of(&host)?);
                Ok(applied.with(self.effects(None, &format!("host {name}"), before, after)))
            }
            Object::Volume(place) => {
                let before = draft.array.presentation(place.id).switches_off;
                let after = self.applied_to(before);
                draft.array.set_switches_off_of_volume(place.id, after);
                let told = Effect::Tell(ExportEvent::VolumeSwitchesOff(place.id, after));
                let applied = Applied::new(Touched::Nobody, Answer::Volume(place.clone()));
                let name = view.name_of(place.id);
                Ok(applied.with(self.effects(Some(told), &name, before, after)))
            }
        }
    }
}

impl Change {
    /// What is off after the change; what it does not name stays.
    fn applied_to(&self, before: SwitchesOff) -> SwitchesOff {
        let wanted = |switch| match switch {
            Switch::CompareAndWrite => self.wanted.compare_and_write,
            Switch::ExtendedCopy => self.wanted.extended_copy,
            Switch::WriteSame => self.wanted.write_same,
            Switch::Unmap => self.wanted.unmap,
        };
        Switch::ALL.into_iter().fold(before, |off, switch| match wanted(switch) {
            Some(true) => off.without(switch),
            Some(false) => off.with(switch),
            None => off,
        })
    }

    fn effects(
        &self,
        told: Option<Effect>,
        object: &str,
        before: SwitchesOff,
        after: SwitchesOff,
    ) -> Vec<Effect> {
        told.into_iter().chain(notes(object, before, after, &self.by)).collect()
    }
}

/// Events about what was turned off and on, and by whom.
pub(crate) fn notes(
    object: &str,
    before: SwitchesOff,
    after: SwitchesOff,
    by: &str,
) -> impl Iterator<Item = Effect> + use<> {
    let note = |severity, how: &str, which: Vec<&str>| {
        let verb = if which.len() > 1 { "were" } else { "was" };
        let message = format!("{} {verb} turned {how} {by}", which.join(", "));
        (!which.is_empty()).then(|| Effect::note(severity, object.to_owned(), message))
    };
    let only_in = |one: SwitchesOff, other: SwitchesOff| -> Vec<&str> {
        one.iter().filter(|switch| !other.contains(*switch)).map(Switch::name).collect()
    };
    let off = note(Severity::Warning, "off", only_in(after, before));
    let on = note(Severity::Information, "on", only_in(before, after));
    off.into_iter().chain(on)
}

/// What is on at one place, as administrators see it.
pub fn describe(off: SwitchesOff) -> Primitives {
    Primitives {
        compare_and_write: !off.contains(Switch::CompareAndWrite),
        extended_copy: !off.contains(Switch::ExtendedCopy),
        write_same: !off.contains(Switch::WriteSame),
        unmap: !off.contains(Switch::Unmap),
    }
}

/// What is off where that is on.
pub fn parse(on: Primitives) -> SwitchesOff {
    let is_on = |switch: &Switch| match switch {
        Switch::CompareAndWrite => on.compare_and_write,
        Switch::ExtendedCopy => on.extended_copy,
        Switch::WriteSame => on.write_same,
        Switch::Unmap => on.unmap,
    };
    Switch::ALL.into_iter().filter(|switch| !is_on(switch)).collect()
}

#[cfg(test)]
mod tests;
