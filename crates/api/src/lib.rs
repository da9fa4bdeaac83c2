//! The management interface's words: REST types and one table of routes; no logic.
//!
//! Sizes are bytes. Identifiers of 64 bits and more are hexadecimal strings, because JSON readers
//! lose precision beyond 2^53. Errors are [`Problem`]s (RFC 9457).
#![forbid(unsafe_code)]

mod access;
mod alerts;
mod configuration;
mod constraints;
mod controllers;
mod events;
mod examples;
mod ledger;
mod openapi;
mod pool_import;
mod pools;
mod presentation;
mod problems;
mod rate_limits;
mod routes;
mod schedules;
mod scrub;
mod shapes;
mod snapshots;
mod tags;
mod tasks;
mod types;

pub use access::{
    AuditEntry, ChangePassword, ChangeUser, CreateToken, CreateUser, Login, Me, NewToken, Role,
    Token, User,
};
pub use alerts::{AlertMessage, Alerts, Delivery, Mail, MailTls, Webhook};
pub use configuration::{
    Configuration, ConfiguredChap, ConfiguredDevice, ConfiguredGroup, ConfiguredHost,
    ConfiguredMap, ConfiguredPathState, ConfiguredPool, ConfiguredSchedule, ConfiguredShape,
    ConfiguredVolume, Imported,
};
pub use controllers::{
    Controller, JoinController, Maintenance, PairController, Paired, PairingCode, PoolStanding,
};
pub use events::{Event, EventKind, Severity};
pub use ledger::{
    Asked, Finding, FindingKind, Forecast, Holder, HolderKind, Live, LockAttempt, LockMap,
    LockOutcome, LockRange, NamedRates, OffloadLedger, OffloadRow, PrimitiveRate, PrimitiveRates,
    Reclaim, Refusal, RowRates, SeriesHistory, SeriesName,
};
pub use openapi::{PATH_NAME_CHARACTERS_MAX, body_fits, document, fields};
pub use pool_import::{
    Collision, ExportPool, FoundMember, FoundMirror, ImportPool, PoolImport, RecoveryKey,
};
pub use pools::{
    AddDevice, AttachMember, Backing, BackingState, ControlDeparture, ControlResilver, CreatePool,
    Departure, DepartureAction, Device, DeviceCounters, Fill, JournalLoss, LockHolder, Member,
    MemberState, Mirror, Pool, PoolMode, RemoveDevice, Resilver, ResilverAction, ResizePool,
    ResumePool, SetFailBack, SetSnapshotDeletion, SetSpares, Space, Thresholds,
};
pub use presentation::{
    BlockSize, Identification, PathState, Primitives, SetPathState, SetPrimitives, SetReservations,
};
pub use problems::{Problem, ProblemKind, ProblemRow};
pub use rate_limits::{RateLimits, SetHostLimits, SetRateLimits};
pub use routes::{Format, Listing, Method, ROUTES, Route, Row};
pub use schedules::{LockSnapshot, Schedule, SetSchedule};
pub use scrub::{BadRange, Scrub, StartScrub};
pub use snapshots::{
    CHANGES_MAX, ChangedExtent, CloneVolume, CreateSnapshots, ExtentState, NewSnapshot,
    RevertVolume, Snapshot, SnapshotChanges,
};
pub use tags::{Rename, SetTags};
pub use tasks::{Task, TaskKind, TaskState, TaskUnit};
pub use types::{
    ChangeHost, Chap, CreateHost, CreatePortal, CreateVolume, Discovery, Group, Host, LunMap,
    MapVolume, Portal, Rates, ResizeVolume, Secret, Session, SetGroup, Target, Volume, VolumeMap,
};
