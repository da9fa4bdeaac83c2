//! The commands, one file per family, and the table of them.

mod access;
mod cache;
mod capacity;
mod compare_and_write;
mod copy_results;
mod extended_copy;
mod inquiry;
mod lba_status;
mod mode;
mod or_write;
mod reserve;
mod sanitize;
mod supported_opcodes;
pub(crate) mod table;
mod target_port_groups;
mod transfer;
mod unmap;
mod verify;
mod vpd;
mod write_atomic;
mod write_same;
