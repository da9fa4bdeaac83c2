//! Seam between management and the front ends: what changes about the volumes that the array
//! exports is said once, as an [`ExportEvent`], and every front end listens. What management asks
//! back, of whoever serves the volumes, is asked here too.
//!
//! Requests of commands come here too, in words that all front ends share (`work.rs`); commands do
//! not: each front end has them queued and executed by itself.

mod scsi_listener;
mod scsi_requests;

use std::time::Duration;

use array::HeldLun;
use block::VolumeId;
pub(crate) use control::exports::{Export, ExportEvent, RodTokenSpace, VolumeSpace};
use control::tasks::Erasure;
use scsi::{DeviceServer, DurableState, NexusId};

use crate::guard::Critical;

pub(crate) use scsi_listener::to_scsi;
pub(crate) use scsi_requests::ended;

/// Hosts' compare-and-writes that found something else, since the daemon started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CompareCounters {
    pub(crate) miscompares: u64,
    /// Those that found what the same initiator had written.
    pub(crate) retries: u64,
}

/// Listens to what management says of exports.
trait Listener {
    fn apply(&mut self, event: &ExportEvent);
}

/// The front ends that serve volumes to hosts. A second one is a field here, a line in
/// [`Exports::tell`], and a listener beside `scsi_listener`.
pub(crate) struct Exports {
    /// SCSI logical units, which iSCSI's connections reach. Their commands go to it directly.
    pub(crate) scsi: DeviceServer,
}

impl Exports {
    pub(crate) const fn new(scsi: DeviceServer) -> Self {
        Self { scsi }
    }

    /// Tells every front end. A panic while one is being changed ends the process: see
    /// [`Critical`].
    pub(crate) fn tell(&mut self, event: &ExportEvent) {
        Critical::new(&mut self.scsi, "the device server").apply(event);
    }

    /// Gives a volume that was just added what was kept of its reservations and mode parameters.
    pub(crate) fn restore(&mut self, volume: VolumeId, state: DurableState) {
        Critical::new(&mut self.scsi, "the device server").restore_unit(volume, state);
    }

    /// Gives a volume what another controller stored of its reservations and mode parameters, in place
    /// of what was known here.
    pub(crate) fn replace(&mut self, volume: VolumeId, state: DurableState) {
        Critical::new(&mut self.scsi, "the device server").replace_unit_state(volume, state);
    }

    /// Bytes of a logical block of a volume that is served.
    pub(crate) fn block_bytes(&self, volume: VolumeId) -> Option<u64> {
        Some(self.scsi.block_length(volume)?.bytes())
    }

    /// Whether two volumes tell the same vendor and product; `None` unless both are served.
    pub(crate) fn tell_alike(&self, volumes: [VolumeId; 2]) -> Option<bool> {
        let [one, other] = volumes.map(|volume| self.scsi.identification(volume));
        Some(one? == other?)
    }

    /// How far an erasure of a volume is.
    pub(crate) fn erasure(&self, volume: VolumeId) -> Erasure {
        match self.scsi.sanitizing(volume) {
            Some(parts) => Erasure::Running(parts),
            None if self.scsi.has_failed_sanitize(volume) => Erasure::Failed,
            None => Erasure::None,
        }
    }

    pub(crate) fn compare_counters(&self) -> CompareCounters {
        let counters = self.scsi.counters();
        CompareCounters {
            miscompares: counters.compare_and_write_miscompares,
            retries: counters.compare_and_write_own_found,
        }
    }

    /// The LUN numbers by which some session may still mean a volume: see
    /// [`DeviceServer::held_luns`].
    pub(crate) fn held_luns(&self, rest: Duration) -> impl Iterator<Item = HeldLun> {
        self.scsi.held_luns(rest).map(|(initiator, lun, volume)| HeldLun {
            initiator: initiator.to_owned(),
            lun,
            volume,
        })
    }

    /// Those of one session.
    pub(crate) fn held_luns_of(
        &self,
        nexus: NexusId,
        initiator: &str,
        rest: Duration,
    ) -> Vec<HeldLun> {
        let held = self.scsi.held_luns_of(nexus, rest).into_iter();
        let named = |(lun, volume)| HeldLun { initiator: initiator.to_owned(), lun, volume };
        held.map(named).collect()
    }
}

#[cfg(test)]
mod tests;
