//! The vendor and product identification that hosts are told, of the array and of single volumes;
//! administrators are warned of volumes that deviate: ESXi does not have the array copy between
//! those and others.

use std::collections::BTreeMap;

use api::{Problem, Severity};
use array::{ArrayError, Configuration, Identification, Presentation};
use block::VolumeId;

use crate::Effect;
use crate::change::{Answer, Applied, ConfigurationChange, Draft, Touched, View};
use crate::exports::ExportEvent;
use crate::problems::refused;

/// Every volume tells this that has nothing of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change(Identification);

/// Reads the request.
///
/// # Errors
/// When the vendor or the product cannot be told.
pub fn set(request: &api::Identification) -> Result<Change, Problem> {
    parse(request).map(Change).map_err(|error| refused(&error))
}

impl ConfigurationChange for Change {
    fn apply(&self, draft: &mut Draft, _: u64, view: &dyn View) -> Result<Applied, Problem> {
        let array = &mut draft.array;
        let before = array.deviating_identifications();
        array.identification = self.0;
        let told = Effect::Tell(ExportEvent::Identification(self.0));
        let effects = std::iter::once(told).chain(tell_deviations(&before, array, view)).collect();
        Ok(Applied::new(Touched::Nobody, Answer::of(&describe(self.0))?).with(effects))
    }
}

/// Gives a volume a vendor and product of its own, or none.
pub(crate) fn set_own(
    array: &mut Configuration,
    id: VolumeId,
    own: Option<Identification>,
    view: &dyn View,
) -> Vec<Effect> {
    let before = array.presentation(id);
    array.set_presentation(id, Presentation { identification: own, ..before });
    let deviates = |own: Option<Identification>| own.filter(|own| *own != array.identification);
    let told = Effect::Tell(ExportEvent::OwnIdentification(id, own));
    let note = tell_deviation(id, (deviates(before.identification), deviates(own)), array, view);
    std::iter::once(told).chain(note).collect()
}

/// Warns of volumes that deviate from the array otherwise than before, and tells of those that do so
/// no more.
pub(crate) fn tell_deviations(
    before: &BTreeMap<VolumeId, Identification>,
    array: &Configuration,
    view: &dyn View,
) -> Vec<Effect> {
    let after = array.deviating_identifications();
    let gone = before.keys().filter(|id| !after.contains_key(id));
    let tell = |&id: &VolumeId| {
        let was_and_is = (before.get(&id).copied(), after.get(&id).copied());
        tell_deviation(id, was_and_is, array, view)
    };
    after.keys().chain(gone).filter_map(tell).collect()
}

/// Tells what a volume deviated by, and deviates by now, if these are not the same.
fn tell_deviation(
    id: VolumeId,
    (before, after): (Option<Identification>, Option<Identification>),
    array: &Configuration,
    view: &dyn View,
) -> Option<Effect> {
    if before == after {
        return None;
    }
    let (severity, message) = match after {
        Some(own) => {
            let message = format!(
                "tells hosts another vendor and product identification ({}) than the array's \
                 other volumes ({}): ESXi does not have the array copy between them",
                quoted(&own),
                quoted(&array.identification)
            );
            (Severity::Warning, message)
        }
        None => {
            let message = "tells the array's vendor and product identification again".to_owned();
            (Severity::Information, message)
        }
    };
    Some(Effect::note(severity, view.name_of(id), message))
}

fn quoted(identification: &Identification) -> String {
    format!("'{}', '{}'", identification.vendor(), identification.product())
}

/// Reads a vendor and product as administrators set them.
///
/// # Errors
/// When one of the two cannot be told.
pub fn parse(identification: &api::Identification) -> Result<Identification, ArrayError> {
    Identification::new(&identification.vendor, &identification.product)
}

/// A vendor and product as administrators see them.
pub fn describe(identification: Identification) -> api::Identification {
    api::Identification {
        vendor: identification.vendor().to_owned(),
        product: identification.product().to_owned(),
    }
}

#[cfg(test)]
mod tests;
