//! The SCSI device server (SAM-5, SPC-4, SBC-4), without iSCSI and without I/O.
//!
//! [`DeviceServer::decode`] says what a command is, [`DeviceServer::execute`] takes it, [`DeviceServer::next_request`] gives what it asks of a volume,
//! [`DeviceServer::completed`] takes the answer, and [`DeviceServer::next_done`] gives the command's
//! completion. A command is a row of one table (`commands/table.rs`).
//!
//! VMware's names for the offloads: ATS = COMPARE AND WRITE, XCOPY = EXTENDED COPY, Zero = WRITE
//! SAME, Delete = UNMAP.

#![forbid(unsafe_code)]

mod access_state;
mod attention;
mod cdb;
mod change;
mod clock;
mod command;
mod commands;
mod completion;
mod copy_operations;
mod designator;
mod device_server;
mod durable;
mod extent;
mod identity;
pub mod limits;
mod lun;
mod mistaken;
mod modes;
mod nexus;
mod persistent;
mod procedure;
mod reference;
mod rod_tokens;
mod sense;
mod space;
mod statistics;
mod switches;
mod task_set;
mod transport_id;
mod unit;
mod work;

pub use completion::{Completion, Status};
pub use device_server::{
    Collecting, Command, CommandRecord, Counters, Decoded, DeviceServer, Expected, Issuer,
    LostAnswer, NexusId, Notice, RequestId, TaskId, TaskManagement, TaskManagementResponse,
};
pub use durable::{DurableState, SaveId};
pub use identity::{Identification, Identity};
pub use lun::{emit_lun, parse_lun};
pub use modes::Modes;
pub use nexus::NexusSpec;
pub use persistent::{DurableReservations, Registrant};
pub use reference::reference;
pub use rod_tokens::RodTokenSpace;
pub use sam::{AccessState, TaskAttribute};
pub use sense::{FieldPointer, Sense, SenseCode, SenseKey};
pub use space::UnitSpace;
pub use unit::LogicalUnitSpec;
pub use work::Work;

#[cfg(test)]
mod tests;
