//! A host in software, against any iSCSI array. It speaks through libiscsi and knows nothing of
//! our array's insides, so that it is an independent witness.
//!
//! VMware's names for the offloads: Clone = EXTENDED COPY, Zero = WRITE SAME, Delete = UNMAP, ATS
//! = COMPARE AND WRITE.
#![deny(unsafe_code)]

pub mod cdb;
pub mod counters;
pub mod datastore;
pub mod doctor;
pub mod esxcli;
pub mod esxtop;
#[allow(unsafe_code, reason = "libiscsi and the kernel read and write memory that we lend them")]
mod ffi;
pub mod histogram;
pub mod lean;
pub mod load;
pub mod lun;
pub mod mover;
pub mod ranges;
pub mod settings;
pub mod state;
pub mod touch;
pub mod vaai;
pub mod validate;
pub mod vm;
pub mod vmkfstools;
pub mod wire;

pub use ffi::{raw, session};
