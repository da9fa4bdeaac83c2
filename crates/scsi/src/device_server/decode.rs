//! CDB decoding: each command is decoded once, when it arrives, and the value travels with it.
//!
//! A command may wait between decoding and execution: for its data, for its turn, in the task set.
//! What may change meanwhile is looked at again, by key, when it is executed:
//!
//! - when it enters the task set ([`DeviceServer::execute`]): whether its LUN still stands for the
//!   same volume with blocks of the same length; if not, the CDB is decoded anew, and the initiator
//!   learns of the change by the unit attention condition that the new mapping has;
//! - when its turn in the task set comes (`check`): nexus and LUN map, unit attention conditions,
//!   reservations, access state, SANITIZE, write protection;
//! - when its handler runs: the size of the unit, against which the blocks are checked, and all else
//!   that the unit has.
//!
//! The row, the blocks that the CDB names, and what it counts as come from the CDB alone and never
//! change.

use block::{Primitive, VolumeId};
use bytes::Bytes;

use super::{Command, DeviceServer, NexusId};
use crate::cdb::Cdb;
use crate::command::{Medium, Ordering, Row, Scope};
use crate::commands::table;
use crate::extent::Extent;
use crate::lun::parse_lun;
use crate::unit::LogicalUnit;
use crate::work::{Asked, Work};

/// A command whose CDB was looked up in the command table, and whose LUN in the inventory of its
/// nexus.
#[derive(Clone, Copy, Debug)]
pub struct Decoded {
    pub(crate) nexus: NexusId,
    /// The 8-byte LUN field.
    lun_field: u64,
    /// The number in it; one that no unit has if there is none.
    pub(crate) lun: u16,
    /// The logical unit at that number when the command came.
    pub(crate) volume: Option<VolumeId>,
    /// Length of its logical blocks, in bytes; 0 without a unit.
    pub(crate) block_bytes: u64,
    pub(crate) cdb: Cdb,
    /// `None` if the command is not one of ours.
    pub(crate) row: Option<&'static Row>,
    /// The blocks that the CDB names.
    pub(crate) extent: Extent,
    data_out_length: u32,
}

impl Decoded {
    /// Where it came from.
    pub const fn nexus(&self) -> NexusId {
        self.nexus
    }

    /// The 8-byte LUN field, big-endian.
    pub const fn lun(&self) -> u64 {
        self.lun_field
    }

    /// Bytes of Data-Out that the command takes, 0 if none; also 0 if it takes more than any command
    /// may, or is not one of ours: [`DeviceServer::execute`] then says what is wrong.
    pub const fn data_out_length(&self) -> u32 {
        self.data_out_length
    }

    /// The volume whose task set the command enters; `None` for one that runs at once, wherever it
    /// comes, or is answered without a logical unit.
    pub fn works_on(&self) -> Option<VolumeId> {
        self.volume.filter(|_| self.row.is_some_and(|row| row.ordering != Ordering::Immediate))
    }

    /// Whether it is a lock, or gives one back: COMPARE AND WRITE, and what changes reservations or
    /// modes. Other hosts may wait for it.
    pub fn is_lock(&self) -> bool {
        let locks =
            |row: &Row| matches!(row.ordering, Ordering::CompareAndWrite | Ordering::Reserve);
        self.row.is_some_and(locks)
    }

    /// The volume of which the command tells where the space stands: the owner brings
    /// [`crate::UnitSpace`] up to date before it executes such a command.
    pub fn tells_space_of(&self) -> Option<VolumeId> {
        self.volume.filter(|_| self.row.is_some_and(|row| row.tells_space))
    }

    /// What it counts as.
    pub(crate) fn primitive(&self) -> Primitive {
        self.row.map_or(Primitive::Other, |row| row.primitive)
    }

    /// The blocks that it reads or writes, as far as its CDB names them.
    pub(crate) fn touched(&self) -> Extent {
        match self.row.map(|row| row.medium) {
            Some(Medium::Reads | Medium::Writes) => self.extent,
            Some(Medium::Keeps) | None => Extent::NONE,
        }
    }

    fn work(&self, data_out: &Bytes, data_in_max: u64) -> Work {
        let Self { extent, block_bytes, .. } = *self;
        match self.row {
            Some(row) if block_bytes > 0 || row.scope == Scope::AnyLun => {
                (row.work)(&Asked { extent, block_bytes, data_out, data_in_max })
            }
            Some(_) | None => Work::default(),
        }
    }
}

impl Command {
    /// What the command costs with the data that it has, and with what its initiator is ready to
    /// take; nothing if it is not one of ours.
    pub fn work(&self) -> Work {
        self.decoded.work(&self.data_out, self.expected.data_in)
    }
}

impl DeviceServer {
    /// Looks up what a command is and where it goes. A CDB counts missing bytes as zeros.
    pub fn decode(&self, nexus: NexusId, lun: u64, cdb: &[u8]) -> Decoded {
        self.decode_cdb(nexus, lun, Cdb::new(cdb))
    }

    /// What the command is now, if its LUN does not stand for what it did when it came.
    pub(super) fn renewed(&self, decoded: Decoded) -> Decoded {
        let unit = self.unit_at(decoded.nexus, decoded.lun);
        let (volume, block_bytes) = (unit.map(|(volume, _)| volume), block_bytes(unit));
        if (volume, block_bytes) == (decoded.volume, decoded.block_bytes) {
            return decoded;
        }
        self.decode_cdb(decoded.nexus, decoded.lun_field, decoded.cdb)
    }

    fn decode_cdb(&self, nexus: NexusId, lun_field: u64, cdb: Cdb) -> Decoded {
        // No LUN map has this number: it is beyond those that a LUN field can carry.
        let lun = parse_lun(lun_field).unwrap_or(u16::MAX);
        let unit = self.unit_at(nexus, lun);
        let block_bytes = block_bytes(unit);
        let row = table::find(&cdb, &self.identity).ok();
        let extent = row.map_or(Extent::NONE, |row| (row.extent)(&cdb));
        let length = match row {
            Some(row) if unit.is_some() => (row.data_out)(&cdb, extent, block_bytes),
            Some(_) | None => 0,
        };
        let allowed = u32::try_from(length).ok().filter(|_| length <= table::DATA_OUT_MAX);
        Decoded {
            nexus,
            lun_field,
            lun,
            volume: unit.map(|(volume, _)| volume),
            block_bytes,
            cdb,
            row,
            extent,
            data_out_length: allowed.unwrap_or(0),
        }
    }

    fn unit_at(&self, nexus: NexusId, lun: u16) -> Option<(VolumeId, &LogicalUnit)> {
        let volume = self.nexuses.get(&nexus)?.mappings.get(&lun)?.volume;
        Some((volume, self.units.get(&volume)?))
    }
}

fn block_bytes(unit: Option<(VolumeId, &LogicalUnit)>) -> u64 {
    unit.map_or(0, |(_, unit)| unit.block_bytes())
}
