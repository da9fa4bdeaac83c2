//! A host in software, against any iSCSI array. It speaks through libiscsi and knows nothing of
//! our array's insides, so that it is an independent witness.
//!
//! VMware's names for the offloads: Clone = EXTENDED COPY, Zero = WRITE SAME, Delete = UNMAP, ATS
//! = COMPARE AND WRITE.
#![deny(unsafe_code)]

pub mod cdb;
#[allow(unsafe_code, reason = "libiscsi and the kernel read and write memory that we lend them")]
mod ffi;
pub mod histogram;
pub mod lean;
pub mod load;
pub mod ranges;
pub mod wire;

pub use ffi::{raw, session};
