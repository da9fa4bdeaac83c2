//! A host in software, against any iSCSI array. It speaks through libiscsi and knows nothing of
//! our array's insides, so that it is an independent witness.
//!
//! VMware's names for the offloads: Clone = EXTENDED COPY, Zero = WRITE SAME, Delete = UNMAP, ATS
//! = COMPARE AND WRITE.
#![deny(unsafe_code)]

pub mod cdb;
#[allow(unsafe_code, reason = "the binding to libiscsi")]
mod ffi;
pub mod histogram;
pub mod load;
pub mod ranges;
#[allow(unsafe_code, reason = "the kernel reads and writes memory that we lend it")]
pub mod raw;
#[allow(unsafe_code, reason = "libiscsi calls back, and reads and writes memory that we lend it")]
pub mod session;
pub mod wire;
