//! Command records for statistics and the ledger: what each command was, and for which command a
//! request works.

use std::time::Duration;

use block::{Lba, LogicalBlockLength, Primitive, VolumeId};

use super::{Decoded, DeviceServer, NexusId, RequestId};

/// A command that ended with a status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommandRecord {
    /// Where it came from.
    pub nexus: NexusId,
    /// The volume that it was addressed to, if there is one.
    pub volume: Option<VolumeId>,
    /// Name in T10's words; of a command that is not supported, `UNKNOWN`.
    pub name: &'static str,
    /// Its kind.
    pub primitive: Primitive,
    /// The first logical block that its CDB names, if it reads or writes it.
    pub lba: Lba,
    /// Bytes of the blocks that its CDB names, if it reads or writes them; 0 of other commands.
    pub bytes: u64,
    /// From when it came with all of its data, as exact as time is told.
    pub took: Duration,
}

/// The command that a request belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Issuer {
    /// Where it came from.
    pub nexus: NexusId,
    /// The volume that it was addressed to.
    pub volume: Option<VolumeId>,
    /// The command's kind.
    pub primitive: Primitive,
}

impl DeviceServer {
    /// The command that a request under way belongs to; `None` for one that is the target's own.
    pub fn issuer(&self, id: RequestId) -> Option<Issuer> {
        if id.token().is_some() {
            return None;
        }
        let order = &self.tasks.get(id.slot())?.order;
        let Decoded { nexus, volume, .. } = order.decoded;
        Some(Issuer { nexus, volume, primitive: order.row.primitive })
    }

    /// The time that was told last.
    pub const fn now(&self) -> Duration {
        self.now
    }

    /// Tells the time between [`Self::tick`]s, so that commands are timed more exactly.
    pub fn set_now(&mut self, now: Duration) {
        self.now = self.now.max(now);
    }

    /// The length of a logical unit's blocks.
    pub fn block_length(&self, volume: VolumeId) -> Option<LogicalBlockLength> {
        self.units.get(&volume).map(|unit| unit.spec.block_length)
    }

    /// The record of a command that came at `since` and ends now.
    pub(super) fn record(&self, decoded: &Decoded, since: Duration) -> CommandRecord {
        let Decoded { nexus, volume, block_bytes, row, .. } = *decoded;
        let touched = decoded.touched();
        CommandRecord {
            nexus,
            volume,
            name: row.map_or("UNKNOWN", |row| row.name),
            primitive: decoded.primitive(),
            lba: touched.lba,
            bytes: touched.blocks.0 * block_bytes,
            took: self.now.saturating_sub(since),
        }
    }
}
