//! Bounded queue of device errors, checksum failures and what they cost, for the administrator.
//!
//! [`crate::Store::next_incident`] empties the queue. An incident that finds it full is only counted.

use std::collections::VecDeque;

use block::{ByteRange, DeviceError, VolumeId};

use crate::limits::INCIDENTS_MAX;

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
    /// Blocks of one member of a mirror, which were written again from another member: with those
    /// that were mended since the last time.
    Copy {
        /// The member.
        member: [u8; 16],
        /// How many blocks.
        blocks: u64,
    },
}

/// Incidents that nobody has taken yet.
#[derive(Default)]
pub(crate) struct Incidents {
    queue: VecDeque<Incident>,
}

impl Incidents {
    /// Takes the oldest one.
    pub(crate) fn next(&mut self) -> Option<Incident> {
        self.queue.pop_front()
    }

    /// Queues an incident, unless the queue is full.
    pub(crate) fn keep(&mut self, incident: Incident) {
        if self.queue.len() < INCIDENTS_MAX {
            self.queue.push_back(incident);
        }
    }
}
