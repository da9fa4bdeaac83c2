//! A host in software, against any iSCSI array. It speaks through libiscsi and knows nothing of
//! our array's insides, so that it is an independent witness.
//!
//! VMware's names for the offloads: Clone = EXTENDED COPY, Zero = WRITE SAME, Delete = UNMAP, ATS
//! = COMPARE AND WRITE.
#![deny(unsafe_code)]

pub mod esxi;
pub mod initiator;
pub mod validate;
