//! Routes of the vendor and product identification that hosts are told.

use std::collections::BTreeMap;

use api::{Problem, Severity};
use array::{ArrayError, Configuration, Identification, Presentation};
use block::VolumeId;

use super::problems::refused;
use super::{Management, Parameters, Progress, find_volume};
use crate::data_plane::DataPlane;
use crate::exports::ExportEvent;

impl Management {
    pub(super) fn set_identification(
        &mut self,
        request: api::Identification,
    ) -> Result<Progress, Problem> {
        let identification = parse_identification(&request).map_err(|error| refused(&error))?;
        self.change_identifications(
            |array| array.identification = identification,
            move |_, _| Ok(Progress::answer(&request)),
        )
    }

    pub(super) fn set_volume_identification(
        &mut self,
        plane: &mut DataPlane,
        parameters: &Parameters,
        request: &api::Identification,
    ) -> Result<Progress, Problem> {
        let (pool, id) = find_volume(plane, parameters)?;
        let own = parse_identification(request).map_err(|error| refused(&error))?;
        self.change_identifications(
            |array| set_own(array, id, Some(own)),
            move |management, plane| management.show_volume(plane, pool, id),
        )
    }

    pub(super) fn delete_volume_identification(
        &mut self,
        plane: &mut DataPlane,
        parameters: &Parameters,
    ) -> Result<Progress, Problem> {
        let (_, id) = find_volume(plane, parameters)?;
        self.change_identifications(|array| set_own(array, id, None), |_, _| Ok(Progress::done()))
    }

    fn change_identifications(
        &mut self,
        change: impl FnOnce(&mut Configuration),
        then: impl FnOnce(&mut Self, &mut DataPlane) -> Result<Progress, Problem> + 'static,
    ) -> Result<Progress, Problem> {
        let before = self.saving.accepted().deviating_identifications();
        let changed = |array: &mut Configuration| {
            change(array);
            Ok(())
        };
        self.change(changed, move |management, plane, ()| {
            management.tell_identifications(plane, &before);
            then(management, plane)
        })
    }

    /// Tells hosts, and the administrator of volumes that deviate from the array or do so no more.
    pub(super) fn tell_identifications(
        &mut self,
        plane: &mut DataPlane,
        before: &BTreeMap<VolumeId, Identification>,
    ) {
        plane.exports.tell(&ExportEvent::Identification(self.configuration.identification));
        let volumes: Vec<VolumeId> =
            plane.pools.iter().flat_map(|(_, pool)| pool.store.volumes()).map(|v| v.id).collect();
        for id in volumes {
            let own = self.configuration.presentation(id).identification;
            plane.exports.tell(&ExportEvent::OwnIdentification(id, own));
        }
        let after = self.configuration.deviating_identifications();
        for (&id, own) in after.iter().filter(|(id, own)| before.get(id) != Some(own)) {
            self.warn_of_deviation(plane, id, own);
        }
        for &id in before.keys().filter(|id| !after.contains_key(id)) {
            let message = "tells the array's vendor and product identification again".to_owned();
            self.events.note(Severity::Information, plane.name_of(id), message);
        }
    }

    fn warn_of_deviation(&mut self, plane: &DataPlane, id: VolumeId, own: &Identification) {
        let message = format!(
            "tells hosts another vendor and product identification ({}) than the array's other \
             volumes ({}): ESXi does not have the array copy between them",
            quoted(own),
            quoted(&self.configuration.identification)
        );
        self.events.note(Severity::Warning, plane.name_of(id), message);
    }
}

fn set_own(array: &mut Configuration, id: VolumeId, identification: Option<Identification>) {
    let presentation = Presentation { identification, ..array.presentation(id) };
    array.set_presentation(id, presentation);
}

fn quoted(identification: &Identification) -> String {
    format!("'{}', '{}'", identification.vendor(), identification.product())
}

pub(super) fn parse_identification(
    identification: &api::Identification,
) -> Result<Identification, ArrayError> {
    Identification::new(&identification.vendor, &identification.product)
}

pub(super) fn describe_identification(identification: Identification) -> api::Identification {
    api::Identification {
        vendor: identification.vendor().to_owned(),
        product: identification.product().to_owned(),
    }
}
