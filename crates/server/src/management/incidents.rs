//! Events about failures below the array: places that cannot be read, devices that fail or do not
//! answer, records and logs that cannot be written.

use std::collections::BTreeSet;
use std::time::Instant;

use api::{EventKind, Severity};
use store::{Cause, Incident, Place};

use super::Management;
use crate::data_plane::DataPlane;
use crate::device_times::{DeviceFailure, Stall};
use crate::log_writer::{self, Condition};
use crate::logs;

/// What was told last.
#[derive(Debug, Default)]
pub(super) struct Outputs {
    /// Records that cannot be written.
    failing: BTreeSet<&'static str>,
    /// Lines of the log that were lost.
    lost_lines: u64,
}

impl Management {
    /// Tells what went wrong since the last call.
    pub(super) fn tell_incidents(&mut self, plane: &mut DataPlane) {
        for id in plane.pools.ids() {
            let Some(mut pool) = plane.pools.get_mut(id) else { continue };
            let name = pool.name.clone();
            let incidents: Vec<_> = std::iter::from_fn(|| pool.store.next_incident()).collect();
            let times = &mut pool.device_times;
            let failures: Vec<_> = std::iter::from_fn(|| times.next_failure()).collect();
            let stalls = times.look_for_stalls(Instant::now());
            drop(pool);
            for incident in incidents {
                self.tell_incident(plane, &name, &incident);
            }
            failures.iter().for_each(|failure| self.tell_failure(plane, &name, failure));
            stalls.into_iter().for_each(|stall| self.tell_stall(plane, &name, stall));
        }
        for condition in [&log_writer::EVENTS, &log_writer::AUDIT] {
            self.tell_record(condition);
        }
        self.tell_lost_lines();
        self.events.tick();
    }

    fn tell_incident(&mut self, plane: &DataPlane, pool: &str, incident: &Incident) {
        let (object, place) = match incident.place {
            Place::Data { volume: store::RECORDS, .. }
            | Place::MapPage { volume: Some(store::RECORDS) } => {
                (format!("pool {pool}"), "one of the array's records in it".to_owned())
            }
            Place::Data { volume, range } => {
                let length = self.configuration.presentation(volume).blocks;
                let block_bytes = length.logical_block_length().bytes();
                let (lba, blocks) = (range.offset / block_bytes, range.length / block_bytes);
                (plane.name_of(volume), format!("{blocks} block(s) from LBA {lba} on"))
            }
            Place::MapPage { volume: Some(volume) } => {
                (plane.name_of(volume), "a page of its map".to_owned())
            }
            Place::MapPage { volume: None } => {
                (format!("pool {pool}"), "a page of the map".to_owned())
            }
            Place::SpaceMap => (format!("pool {pool}"), "a page of the space maps".to_owned()),
            Place::Copy { blocks, .. } => {
                (format!("pool {pool}"), format!("{blocks} block(s) of one member of a mirror"))
            }
        };
        let why = match &incident.cause {
            Cause::Device(error) => error.to_string(),
            Cause::Checksum => "the checksum does not fit".to_owned(),
        };
        let at = incident.device.map_or_else(String::new, |device| {
            let device = self.place_name(plane, pool, device, incident.place);
            format!(" (byte {} of {device})", incident.offset)
        });
        let (severity, outcome) = if incident.is_lost {
            (Severity::Error, "cannot be read")
        } else if matches!(incident.place, Place::Copy { .. }) {
            (Severity::Warning, "could not be read and were written again from another member")
        } else {
            (Severity::Warning, "could only be read again")
        };
        let message = format!("{place} {outcome}: {why}{at}");
        self.events.note_kind(EventKind::MediumError, severity, object, message);
    }

    fn tell_failure(&mut self, plane: &DataPlane, pool: &str, failure: &DeviceFailure) {
        let DeviceFailure { device, operation, error } = failure;
        let device = self.device_name(plane, pool, *device);
        let message = format!("{device}: a {operation} failed: {error}");
        let object = format!("pool {pool}");
        self.events.note_kind(EventKind::DeviceError, Severity::Warning, object, message);
    }

    fn tell_stall(&mut self, plane: &DataPlane, pool: &str, stall: Stall) {
        let device = self.device_name(plane, pool, stall.device);
        let (severity, message) = match stall.operation {
            Some(operation) => (
                Severity::Error,
                format!(
                    "does not answer: a {operation} takes more than {} s",
                    stall.time.as_secs()
                ),
            ),
            None => {
                (Severity::Information, format!("answers again, after {} s", stall.time.as_secs()))
            }
        };
        let object = format!("device {device} of pool {pool}");
        self.events.note_kind(EventKind::DeviceStall, severity, object, message);
    }

    fn tell_record(&mut self, condition: &Condition) {
        let (trouble, name) = (condition.trouble(), condition.name);
        let (severity, message) = match (trouble, self.outputs.failing.contains(name)) {
            (Some(trouble), false) => {
                self.outputs.failing.insert(name);
                (Severity::Error, format!("cannot be written: {trouble}"))
            }
            (None, true) => {
                self.outputs.failing.remove(name);
                let lost = condition.lost();
                let message = format!("is written again; {lost} entries were lost since the start");
                (Severity::Information, message)
            }
            (Some(_), true) | (None, false) => return,
        };
        self.events.note_kind(EventKind::Record, severity, format!("record {name}"), message);
    }

    /// Reservations or mode parameters of a logical unit could not be saved; its host was told.
    pub(crate) fn tell_unsaved_unit(&mut self) {
        let message = "reservations or mode parameters cannot be saved in the data directory: the \
                       command was refused, and the log names the file";
        let (object, message) = ("record units".to_owned(), message.to_owned());
        self.events.note_kind(EventKind::Record, Severity::Error, object, message);
    }

    fn tell_lost_lines(&mut self) {
        let lost = logs::lost();
        if std::mem::replace(&mut self.outputs.lost_lines, lost) == lost {
            return;
        }
        let message = "lines were lost: whoever takes standard error does not, or has no space";
        let (object, message) = ("log".to_owned(), message.to_owned());
        self.events.note_kind(EventKind::Record, Severity::Warning, object, message);
    }

    /// How the administrator calls the device in a slot of a pool.
    fn device_name(&self, plane: &DataPlane, pool: &str, slot: usize) -> String {
        let served = plane.pool_named(pool).and_then(|(_, pool)| pool.devices.get(slot));
        let configured = self.configuration.pools.get(pool);
        let configured = configured.and_then(|pool| pool.devices.get(slot));
        let name = served.map(|open| &open.name);
        let name = name.or(configured.map(|configured| &configured.device));
        name.map_or_else(|| "a device".to_owned(), ToString::to_string)
    }

    /// How the administrator calls a logical device, or the member of it that is meant.
    fn place_name(&self, plane: &DataPlane, name: &str, device: u8, place: Place) -> String {
        let Some((_, pool)) = plane.pool_named(name) else { return format!("device {device}") };
        let status = pool.store.mirrors().find(|status| status.device == device);
        match (place, status) {
            (Place::Copy { member, .. }, _) => self.member_name(pool, member),
            (_, Some(status)) if status.is_mirror => format!("mirror {device}"),
            (_, status) => {
                let slot = status.and_then(|status| status.members.first()?.slot);
                self.device_name(plane, name, slot.unwrap_or(device).into())
            }
        }
    }
}
