//! Configuration of the array: pools, hosts, LUN maps, and which host may see which volume.
//!
//! No I/O: [`Configuration`] is a value that checks each change before making it. The daemon saves
//! it after every change and acts on it. Volumes themselves are recorded in their pool; here a
//! volume is known by its [`block::VolumeId`] alone.
#![forbid(unsafe_code)]

mod configuration;
mod error;
mod identification;
mod identity;
pub mod limits;
mod names;
mod secrets;

pub use configuration::alerts::{AlertLevel, Alerts, Mail, MailTls, Webhook};
pub use configuration::hosts::Host;
pub use configuration::lun_maps::{FreeLuns, HeldLun, Rest, VolumeMap};
pub use configuration::oldest::{OldestSearch, Searched, Standing};
pub use configuration::pools::{
    Departure, FailBack, Fill, KnownMember, Mirroring, Pool, PoolDevice, Thresholds,
};
pub use configuration::portals::Portal;
pub use configuration::presentation::{BlockForm, Presentation};
pub use configuration::rate_limits::{Limited, RateLimits, Share};
pub use configuration::records::{
    ArrayRecord, GroupRecord, HostRecord, MapRecord, OwnerRecord, PlanRecord, PoolRecord, Record,
    RecordKey, VolumeRecord,
};
pub use configuration::schedules::{Due, Run, Schedule, ScheduleRecord};
pub use configuration::tags::{Tagged, Tags};
pub use configuration::{Access, Configuration, VisibleLun};
pub use error::ArrayError;
pub use identification::Identification;
pub use identity::{naa_identifier, volume_id};
pub use names::{ANY_HOST, VolumePath, check_name};
pub use sam::AccessState;
/// A map whose copies share what they have in common: a copy of a large one, and a change of the copy,
/// cost the same as of a small one.
pub type Table<K, V> = imbl::OrdMap<K, V>;

pub use secrets::{Chap, Credential, HeldAccount, Secret, Secrets};
