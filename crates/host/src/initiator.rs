//! iSCSI initiator: sessions on libiscsi, CDBs, load on a LUN or a file, and what it measures.

pub mod cdb;
#[allow(unsafe_code, reason = "libiscsi and the kernel read and write memory that we lend them")]
mod ffi;
pub mod histogram;
pub mod lean;
pub mod load;
pub mod ranges;
pub mod times;
pub mod wire;

pub use ffi::{raw, session};
