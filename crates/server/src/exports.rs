//! Seam between management and the front ends: what changes about the volumes that the array exports
//! is said once, as an [`ExportEvent`], and every front end listens. What management asks back, of
//! whoever serves the volumes, is asked here too.
//!
//! Commands do not come this way: each front end hands requests to the pools by itself.

mod scsi_listener;

use std::collections::BTreeMap;
use std::time::Duration;

use array::{AccessState, BlockForm, HeldLun, Identification};
use block::VolumeId;
use control::tasks::Erasure;
use scsi::{DeviceServer, DurableState, NexusId, RodTokenSpace};

use crate::guard::Critical;

pub(crate) use scsi_listener::to_scsi;

/// What hosts see of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Export {
    /// NAA type 6 identifier, unique in the world.
    pub(crate) naa: [u8; 16],
    pub(crate) size_bytes: u64,
    pub(crate) blocks: BlockForm,
    /// Takes space as it is written; false if all its space is promised.
    pub(crate) thin: bool,
    /// Refuses every change: a snapshot.
    pub(crate) write_protected: bool,
    pub(crate) reservations_hidden: bool,
    /// Vendor and product, if others than the array's.
    pub(crate) identification: Option<Identification>,
}

/// Where a volume's space stands, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct VolumeSpace {
    /// What it can still take from its pool.
    pub(crate) available: u64,
    /// What of it is mapped.
    pub(crate) used: u64,
    /// Hosts are warned when no more than this is available; `None` for a volume that cannot run
    /// out of space.
    pub(crate) warn_at: Option<u64>,
}

/// A change of what the array exports. It is told when it is in effect and, for a volume that shrinks
/// or goes, before the pool begins: hosts never see more than there is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ExportEvent {
    /// Hosts reach a volume from now on, or see it in another form.
    Added(VolumeId, Export),
    /// A volume has another size, in bytes.
    Resized(VolumeId, u64),
    /// Hosts reach a volume no more; commands that wait for it end.
    Removed(VolumeId),
    /// A volume has other content than before, and no host wrote it.
    ContentReplaced(VolumeId),
    /// Where the space of a volume stands. It is told again and again.
    Space(VolumeId, VolumeSpace),
    /// A volume, or the pool under it, is as full as an administrator wants hosts to know.
    ThresholdReached(VolumeId),
    /// Whether hosts may use reservations of a volume.
    ReservationsHidden(VolumeId, bool),
    /// The vendor and product that every volume tells which has none of its own.
    Identification(Identification),
    /// Those of one volume; `None` for what all tell.
    OwnIdentification(VolumeId, Option<Identification>),
    /// How well a target port group serves.
    PathState { group: u16, state: AccessState },
    /// All target ports, each with its group.
    Ports(BTreeMap<u16, u16>),
    /// The hidden volume that holds what ROD tokens of a volume stand for.
    RodTokenSpace(VolumeId, RodTokenSpace),
}

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
