//! What commands were and what requests are for, told to whoever keeps accounts.

use std::time::Duration;

use block::{Lba, LogicalBlockLength, VolumeId};

use super::{NexusId, Order, RequestId, Target};
use crate::cdb::Cdb;
use crate::commands::table;

/// A command that ended with a status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommandRecord {
    /// Where it came from.
    pub nexus: NexusId,
    /// The volume that it was addressed to, if there is one.
    pub volume: Option<VolumeId>,
    /// Name in T10's words; of a command that is not supported, `UNKNOWN`.
    pub name: &'static str,
    /// OPERATION CODE.
    pub opcode: u8,
    /// SERVICE ACTION, of commands that share their operation code.
    pub service_action: Option<u8>,
    /// The first logical block that the CDB names, if it names an extent.
    pub lba: Lba,
    /// Bytes of the extent that the CDB of a READ, WRITE, COMPARE AND WRITE, WRITE SAME or VERIFY
    /// names; 0 for others.
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
    /// OPERATION CODE.
    pub opcode: u8,
    /// SERVICE ACTION, of commands that share their operation code.
    pub service_action: Option<u8>,
}

impl Target {
    /// The command that a request under way belongs to; `None` for one that is the target's own.
    pub fn issuer(&self, id: RequestId) -> Option<Issuer> {
        if id.token().is_some() {
            return None;
        }
        let order = &self.tasks.get(id.slot())?.order;
        let (opcode, service_action) = (order.row.opcode, order.row.service_action);
        Some(Issuer { nexus: order.nexus, volume: order.volume, opcode, service_action })
    }

    /// Tells the time between [`Self::tick`]s, so that commands are timed more exactly.
    pub fn set_now(&mut self, now: Duration) {
        self.now = self.now.max(now);
    }

    /// The length of a logical unit's blocks.
    pub fn block_length(&self, volume: VolumeId) -> Option<LogicalBlockLength> {
        self.units.get(&volume).map(|unit| unit.spec.block_length)
    }

    /// The record of a command that ran or waited.
    pub(super) fn record(&self, order: &Order) -> CommandRecord {
        let unit = order.volume.and_then(|volume| self.units.get(&volume));
        let (lba, blocks) = extent(&order.cdb);
        CommandRecord {
            nexus: order.nexus,
            volume: order.volume,
            name: order.row.name,
            opcode: order.row.opcode,
            service_action: order.row.service_action,
            lba,
            bytes: unit.map_or(0, |unit| blocks * unit.block_bytes()),
            took: self.now.saturating_sub(order.since),
        }
    }

    /// The record of a command that did not come so far.
    pub(super) fn record_of_refused(&self, nexus: NexusId, lun: u64, cdb: &[u8]) -> CommandRecord {
        let cdb = Cdb::new(cdb);
        let volume = self.volume_at(nexus, lun);
        let row = table::find(&cdb, &self.identity).ok();
        let (lba, blocks) = extent(&cdb);
        let unit = volume.and_then(|volume| self.units.get(&volume));
        CommandRecord {
            nexus,
            volume,
            name: row.map_or("UNKNOWN", |row| row.name),
            opcode: cdb.opcode(),
            service_action: row.and_then(|row| row.service_action),
            lba,
            bytes: unit.map_or(0, |unit| blocks * unit.block_bytes()),
            took: Duration::ZERO,
        }
    }
}

/// First block and number of blocks, of commands that name an extent of data.
fn extent(cdb: &Cdb) -> (Lba, u64) {
    match cdb.opcode() {
        0x89 => (Lba(cdb.u64(2)), u64::from(cdb.u8(13))),
        0x9c => (Lba(cdb.u64(2)), u64::from(cdb.u16(12))),
        0x08 | 0x0a | 0x28 | 0x2a | 0x2e | 0x2f | 0x41 | 0x88 | 0x8a | 0x8b | 0x8e | 0x8f
        | 0x93 | 0xa8 | 0xaa | 0xae | 0xaf => {
            let (lba, blocks) = cdb.extent();
            (lba, blocks.0)
        }
        _ => (Lba(0), 0),
    }
}
