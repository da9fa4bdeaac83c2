//! Control plane: decides what the array does by itself and what administrators' requests come to,
//! without I/O, clock or random numbers.
//!
//! Each part is asked with the time and a view of the pools, and answers with [`Effect`]s, which the
//! server performs in order: it saves, changes pools, tells front ends and keeps events. What came of
//! an effect is told to the part that wanted it.
//!
//! A request that changes the configuration becomes a [`change::ConfigurationChange`], a value: it is
//! applied to a draft, and gives the effects and the answer that follow when the draft is saved.

#![forbid(unsafe_code)]

pub mod alerts;
pub mod change;
pub mod chap;
pub mod claims;
pub mod controllers;
pub mod departures;
pub mod devices;
pub mod exports;
pub mod fail_back;
pub mod following;
pub mod hosts;
pub mod identification;
pub mod import;
pub mod leftovers;
pub mod limits;
pub mod link;
pub mod lost_accounts;
pub mod lun_maps;
pub mod lun_rest;
pub mod members;
pub mod mirror_joining;
pub mod missing_paths;
pub mod owed_scrubs;
pub mod pool_import;
pub mod pool_learning;
pub mod pool_records;
pub mod pools;
pub mod portals;
pub mod precondition;
pub mod primitives;
pub mod problems;
pub mod procedures;
pub mod rate_limits;
pub mod record_telling;
pub mod reopening;
pub mod schedules;
pub mod session_ends;
pub mod settings;
pub mod snapshot_deletion;
pub mod snapshots;
pub mod take_over;
pub mod tasks;
pub mod thresholds;
pub mod turns;
pub mod volume_lifecycle;
pub mod volumes;

use core::net::SocketAddr;

use api::Severity;
use block::VolumeId;
use exports::ExportEvent;
use pools::PoolEffect;
use volume_lifecycle::VolumeEffect;

/// Something that the server is to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// An event is kept, and administrators are told.
    Note(Note),
    /// Front ends are told, and tell hosts what these have to know.
    Tell(ExportEvent),
    /// The array accepts initiators at an address, which was opened when the change was made.
    OpenPortal(SocketAddr),
    /// It accepts none there any more; whoever came that way is asked to log out.
    ClosePortal(SocketAddr),
    /// An address that was opened for a change which could not be saved is closed.
    CloseUnsaved(SocketAddr),
    /// Alerts go to the receivers of the configuration that is in effect.
    ConfigureReceivers,
    /// What was told is forgotten, so that it is told again.
    Forget(Forgotten),
    /// A volume is served, withdrawn or forgotten.
    Volume(VolumeEffect),
    /// A pool is claimed, closed or forgotten, or its devices are.
    Pool(PoolEffect),
    /// The configuration is changed and saved; [`schedules::Schedules::saved`] is told how that
    /// went.
    Save(schedules::Change),
    /// A pool takes snapshots of one moment; [`schedules::Schedules::made`] is told how that went.
    Snapshot(schedules::Run),
    /// A snapshot is deleted, as if an administrator had asked for it.
    Delete(Deletion),
    /// The audit log is told that the array deleted a snapshot.
    Audit {
        /// Its path in the interface.
        path: String,
        /// The status that an administrator would have had.
        status: u16,
    },
}

/// What was told before and may be told again, because it is measured otherwise now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Forgotten {
    /// How full a pool is.
    PoolFill(String),
    /// How full a volume is.
    VolumeFill(VolumeId),
    /// How full every pool and volume is.
    Fills,
    /// What went wrong with a schedule.
    ScheduleProblem(String),
}

/// An event, but for its time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// How bad it is.
    pub severity: Severity,
    /// What it is about: 'pool NAME', 'schedule NAME'.
    pub object: String,
    /// A sentence without subject.
    pub message: String,
}

/// A snapshot that is to go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deletion {
    /// The name of its pool.
    pub pool: String,
    /// Its identifier.
    pub id: VolumeId,
}

impl Effect {
    /// An event.
    pub fn note(severity: Severity, object: String, message: impl Into<String>) -> Self {
        Self::Note(Note { severity, object, message: message.into() })
    }
}
