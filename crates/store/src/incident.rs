//! Bounded queue of device errors, checksum failures and what they cost, for the administrator.
//!
//! [`Store::next_incident`] empties the queue. An incident that finds it full is only counted.

use block::{ByteRange, DeviceError, VolumeId};

use crate::address::Address;
use crate::limits::{INCIDENTS_MAX, SCRUB_INCIDENTS_MAX};
use crate::scrub::ScrubStatus;
use crate::store::Store;

/// Something that could not be read as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Incident {
    /// Which device of the pool, in the order in which they joined; `None` where several may be
    /// meant.
    pub device: Option<u8>,
    /// The first byte on that device.
    pub offset: u64,
    /// Kind of failure.
    pub cause: Cause,
    /// Content of the place that failed.
    pub place: Place,
    /// Whether it stays unreadable; if not, another attempt or another copy brought it.
    pub is_lost: bool,
}

/// Why something was not read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The device refused.
    Device(DeviceError),
    /// The device brought something else than what was written: its checksum does not fit.
    Checksum,
}

/// Content of a place of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Data of a volume.
    Data {
        /// The volume.
        volume: VolumeId,
        /// Its bytes.
        range: ByteRange,
    },
    /// A page of the map, of this volume as far as is known.
    MapPage {
        /// The volume.
        volume: Option<VolumeId>,
    },
    /// A page of the space maps.
    SpaceMap,
}

impl Store {
    /// The next incident, oldest first.
    pub fn next_incident(&mut self) -> Option<Incident> {
        self.incidents.pop_front()
    }

    /// Queues an incident at a block, and counts it.
    pub(crate) fn report_incident(
        &mut self,
        address: Address,
        cause: Cause,
        place: Place,
        is_lost: bool,
    ) {
        match cause {
            Cause::Device(_) => self.statistics.read_errors += 1,
            Cause::Checksum => self.statistics.checksum_errors += 1,
        }
        let (device, offset) = (Some(address.device() as u8), address.block().offset());
        self.keep_incident(Incident { device, offset, cause, place, is_lost });
    }

    fn keep_incident(&mut self, incident: Incident) {
        if self.incidents.len() < INCIDENTS_MAX {
            self.incidents.push_back(incident);
        }
    }

    /// The places that a scrub found bad, the first of them.
    pub(crate) fn report_scrub(&mut self, status: &ScrubStatus) {
        // Pages of the map were counted when they were read.
        self.statistics.checksum_errors += status.bad_blocks;
        for bad in status.bad.iter().take(SCRUB_INCIDENTS_MAX) {
            self.keep_incident(Incident {
                device: None,
                offset: 0,
                cause: Cause::Checksum,
                place: Place::Data { volume: bad.volume, range: bad.range },
                is_lost: true,
            });
        }
    }
}
