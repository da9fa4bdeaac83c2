//! Context that the parts of the engine are lent: the pool's space, map and volumes in memory, the
//! queue to its devices, counters, options and the time.

use std::time::Duration;

use block::VolumeId;

use crate::address::Address;
use crate::budget::Budget;
use crate::entry::Entry;
use crate::incident::{Cause, Incident, Incidents, Place};
use crate::io::IoQueue;
use crate::map::Map;
use crate::options::Options;
use crate::space::{AllocationGroupId, Space};
use crate::status::Statistics;
use crate::volume::Volume;
use crate::volumes::Volumes;

/// What all parts work on.
pub(crate) struct Pool {
    pub(crate) options: Options,
    /// The time, since an arbitrary start.
    pub(crate) now: Duration,
    pub(crate) members: Members,
    pub(crate) space: Space,
    pub(crate) map: Map,
    pub(crate) volumes: Volumes,
    pub(crate) budget: Budget,
    pub(crate) io: IoQueue,
    pub(crate) incidents: Incidents,
    pub(crate) statistics: Statistics,
}

/// Names of the pool and of its devices.
#[derive(Default)]
pub(crate) struct Members {
    pub(crate) pool_uuid: [u8; 16],
    pub(crate) device_uuids: Vec<[u8; 16]>,
    /// Groups that are backed when the change under way of the devices is made.
    pub(crate) set_aside: Vec<AllocationGroupId>,
}

impl Pool {
    /// A pool without devices.
    pub(crate) fn new(options: Options, pool_uuid: [u8; 16]) -> Self {
        Self {
            now: Duration::ZERO,
            members: Members { pool_uuid, ..Members::default() },
            space: Space::new(&[], options.groups()),
            map: Map::new(options.clean_pages()),
            volumes: Volumes::default(),
            budget: Budget::default(),
            io: IoQueue::default(),
            incidents: Incidents::default(),
            statistics: Statistics::default(),
            options,
        }
    }

    /// Changes a volume, its map and the space of the pool.
    pub(crate) fn update<R>(
        &mut self,
        id: VolumeId,
        change: impl FnOnce(&mut Volume, &mut Map, &mut Space) -> R,
    ) -> R {
        let (map, space) = (&mut self.map, &mut self.space);
        self.volumes.update(id, |volume| change(volume, map, space))
    }

    /// Finds out who holds the blocks that volumes gave up and others keep.
    pub(crate) fn settle_reclaimed(&mut self) {
        self.volumes.settle_reclaimed(&mut self.map.released);
    }

    /// Whether an entry points to a place that can hold data or pages.
    pub(crate) fn is_sound(&self, entry: Entry) -> bool {
        entry.is_hole()
            || (self.space.holds(entry.address())
                && entry.twin().is_none_or(|twin| self.space.holds(twin)))
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
        let (device, offset) = (Some(address.device().number()), address.block().offset());
        self.incidents.keep(Incident { device, offset, cause, place, is_lost });
    }
}
