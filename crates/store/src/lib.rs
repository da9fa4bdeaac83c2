//! The pool engine, without disks: a thin, copy-on-write map of volumes onto one device.
//!
//! A plain state machine: requests and completions in, answers and pending I/O out; time is told.
//! Blocks of 4 KiB are never overwritten in place. The map's pages are shared by reference, so a
//! clone (XCOPY), zeros (WRITE SAME) and UNMAP are changes of the map alone. Every change is a
//! record in a journal, committed in groups with one flush; a checkpoint writes the changed pages
//! of the map beside the old ones and then switches over.
#![forbid(unsafe_code)]

mod address;
mod applier;
mod apply;
mod budget;
mod change;
mod checkpoint;
mod checksum;
mod commit;
mod comparing;
mod comparison;
mod difference;
mod directory;
mod engine;
mod entry;
mod error;
mod evacuation;
mod farewell;
mod identify;
mod incident;
mod io;
mod journal;
mod journal_loss;
mod layout;
pub mod limits;
mod loading;
mod locks;
mod log;
mod map;
mod metadata;
mod metadata_cache;
mod mirror;
mod opening;
mod operation;
mod operation_key;
mod options;
mod pool;
mod preallocation;
mod rate_limiter;
mod reaper;
mod reclaim;
mod record;
mod released;
mod requests;
mod resilvering;
mod scrub;
mod sequential;
mod serving;
mod space;
mod status;
mod store;
mod superblock;
mod table;
mod verify;
mod volume;
mod volumes;

pub use change::{Change, Done, EvacuationChange, Outcome, RECORDS, ResilverChange, Tag};
pub use checksum::crc32c;
pub use difference::{Comparison, Difference};
pub use error::{ChangeError, CompareError, Failure, OpenError};
pub use evacuation::EvacuationStatus;
pub use identify::{
    DeviceIdentity, IDENTITY_BYTES, ListedMember, ListedMembers, identify, listed_members,
};
pub use incident::{Cause, Incident, Place};
pub use io::{Io, IoId};
pub use journal_loss::JournalLoss;
pub use mirror::{MemberState, MemberStatus, Membership, MirrorStatus, ResilverStatus};
pub use options::{DeviceSpec, MemberSpec, OpenContext, OpenMode, Options, PoolSpec, SlotSpec};
pub use reclaim::{Held, Reclaim};
pub use scrub::{BadRange, ScrubStatus};
pub use status::{Health, Releasing, Space, Statistics};
pub use store::Store;
pub use verify::{Depth, Report, verify};
pub use volume::{Volume, VolumeSpec};

#[cfg(test)]
mod tests;
