//! A simulated ESXi host on an initiator: LUNs and paths, settings, datastores, data mover, virtual
//! machines, and the commands and counters that administrators know.

pub mod cluster;
pub mod counters;
pub mod datastore;
pub mod doctor;
pub mod esxcli;
pub mod esxtop;
pub mod lun;
pub mod mover;
pub mod scsidevs;
pub mod settings;
pub mod state;
mod topology;
pub mod touch;
pub mod vaai;
pub mod vm;
pub mod vmkfstools;
pub mod xcopy_validate;
