//! Command handlers, one file per family, and the command table.

mod access;
mod cache;
mod capacity;
mod compare_and_write;
mod copy_results;
mod extended_copy;
mod inquiry;
mod lba_status;
mod log;
mod mode;
mod mode_pages;
mod mode_select;
mod or_write;
mod persistent_reserve_in;
mod persistent_reserve_out;
mod reserve;
mod sanitize;
mod supported_opcodes;
pub(crate) mod table;
mod target_port_groups;
mod timestamp;
mod token;
mod transfer;
mod unmap;
mod verify;
mod vpd;
mod write_atomic;
mod write_same;

pub(crate) use extended_copy::CSCD_IDENTIFICATION;
pub(crate) use token::ROD_TYPE_POINT_IN_TIME;
