//! Takes objects of the configuration from the records of a pool, and tells front ends of them.

use std::collections::BTreeMap;

use api::Severity;
use array::{Configuration, Record, RecordKey};
use block::VolumeId;
use control::change::Touched;
use control::pool_import::merge;
use control::pool_records::{Authority, Found};

use super::{Management, open_account};
use crate::data_plane::DataPlane;
use crate::exports::ExportEvent;
use crate::pools::PoolId;

impl Management {
    /// Takes what a pool knows better than the configuration: the data directory is an earlier one, or
    /// another controller had the pool last.
    pub(super) fn take_newer(
        &mut self,
        plane: &mut DataPlane,
        pool: PoolId,
        (newer, version): (&BTreeMap<RecordKey, Found>, u64),
        authority: Authority,
    ) {
        let Some(name) = plane.pools.get(pool).map(|pool| pool.name.clone()) else { return };
        let (taken, problems) = self.take_records(plane, &name, (newer, version));
        if let Some(kept) = self.records.pools.get_mut(&pool) {
            kept.taken = taken;
        }
        let count = newer.len();
        let (severity, message) = match authority {
            Authority::Configuration => {
                let message = format!(
                    "the data directory was an earlier one: {count} object(s) were taken from the \
                     pool, as they were later"
                );
                (Severity::Warning, message)
            }
            Authority::Pool => {
                let message = format!(
                    "another controller had it: {count} object(s) of the configuration were taken \
                     from the pool"
                );
                (Severity::Information, message)
            }
        };
        self.tell_records(plane, pool, severity, &message);
        for problem in problems {
            let message = format!("not taken from the pool: {problem}");
            self.tell_records(plane, pool, Severity::Error, &message);
        }
    }

    /// Has the configuration say what these records of a pool say; returns which version of it does, and
    /// what could not be taken.
    pub(in crate::management) fn take_records(
        &mut self,
        plane: &mut DataPlane,
        pool: &str,
        (newer, version): (&BTreeMap<RecordKey, Found>, u64),
    ) -> (u64, Vec<String>) {
        let mut draft = self.saving.draft();
        let before = self.saving.next();
        let keys = [self.records.key.key.clone()];
        let problems =
            merge(pool, newer, &mut draft, &|key, sealed| open_account(&keys, key, sealed));
        draft.array.generation = draft.array.generation.max(version);
        tell_taken(plane, newer.keys(), &draft.array);
        let touched = touched(newer.keys(), [&before, &draft.array]);
        (self.accept(draft, touched), problems)
    }
}

/// Who may see other LUNs when these records are as in the second configuration.
fn touched<'a>(keys: impl Iterator<Item = &'a RecordKey>, arrays: [&Configuration; 2]) -> Touched {
    let of_key = |key: &RecordKey| match key {
        RecordKey::Host(name) | RecordKey::Group(name) => Touched::one(name),
        RecordKey::Volume(_) => {
            let maps = arrays.iter().filter_map(|array| match array.record(key) {
                Some(Record::Volume(record)) => Some(record.maps),
                Some(_) | None => None,
            });
            Touched::Names(maps.flatten().map(|map| map.host).collect())
        }
        RecordKey::Array
        | RecordKey::Owner
        | RecordKey::Pool(_)
        | RecordKey::Unit(_)
        | RecordKey::Schedule(_)
        | RecordKey::Run(..) => Touched::Nobody,
    };
    keys.map(of_key).fold(Touched::Nobody, Touched::and)
}

/// Tells front ends what records that were taken say of what hosts see; hosts hear of what changed.
/// LUN maps and what is off for hosts go to the sessions by themselves.
fn tell_taken<'a>(
    plane: &mut DataPlane,
    taken: impl Iterator<Item = &'a RecordKey>,
    array: &Configuration,
) {
    for key in taken {
        match key {
            RecordKey::Array => {
                plane.exports.tell(&ExportEvent::Identification(array.identification));
                plane.exports.tell(&ExportEvent::SwitchesOff(array.switches_off));
                for (group, state) in array.path_states() {
                    plane.exports.tell(&ExportEvent::PathState { group, state });
                }
            }
            RecordKey::Volume(id) => {
                let (id, shown) = (VolumeId(*id), array.presentation(VolumeId(*id)));
                for event in [
                    ExportEvent::ReservationsHidden(id, shown.reservations_hidden),
                    ExportEvent::OwnIdentification(id, shown.identification),
                    ExportEvent::VolumeSwitchesOff(id, shown.switches_off),
                ] {
                    plane.exports.tell(&event);
                }
            }
            RecordKey::Owner
            | RecordKey::Pool(_)
            | RecordKey::Host(_)
            | RecordKey::Group(_)
            | RecordKey::Unit(_)
            | RecordKey::Schedule(_)
            | RecordKey::Run(..) => {}
        }
    }
}
