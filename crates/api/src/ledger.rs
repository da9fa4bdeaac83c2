//! Types for the offload ledger, statistics, locks, reclaim and forecasts.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What hosts asked of volumes since the daemon started, and what became of it.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct OffloadLedger {
    /// When counting began, seconds since 1970.
    pub since: u64,
    /// One row per pair of host and volume that met, in the order of their names.
    pub rows: Vec<OffloadRow>,
}

/// One host and one volume.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct OffloadRow {
    /// The host's name; of an initiator that belongs to none its iSCSI name.
    pub host: String,
    /// POOL/NAME; of a volume that is gone 'POOL/NAME (deleted ID)'.
    pub volume: String,
    /// The LUN number, if it is mapped.
    pub lun: Option<u16>,
    /// EXTENDED COPY (XCOPY) to this volume.
    pub clone: Asked,
    /// Bytes that took a reference to the source's data.
    pub cloned_by_reference_bytes: u64,
    /// Bytes that the array read and wrote.
    pub copied_bytes: u64,
    /// Bytes that were copied from this volume.
    pub clone_source_bytes: u64,
    /// WRITE SAME (Zero).
    pub zero: Asked,
    /// UNMAP (Delete).
    pub unmap: Asked,
    /// POPULATE TOKEN and WRITE USING TOKEN.
    pub token: Asked,
    /// COMPARE AND WRITE (ATS); one that miscompared counts as refused.
    pub compare_and_write: Asked,
    /// COMPARE AND WRITE that found another content than it expected.
    pub miscompares: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Estimate of bytes that the host wrote here and had read elsewhere shortly before.
    pub host_copied_bytes: u64,
    /// Zeros that came in WRITE commands: whole blocks of 4 KiB.
    pub host_zeroed_bytes: u64,
    /// Why commands were refused; the eight reasons that were given last.
    pub refusals: Vec<Refusal>,
}

/// What was asked by commands of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Asked {
    /// Commands that ended.
    pub commands: u64,
    /// Those of them that were not done.
    pub refused: u64,
    /// Bytes that they named.
    pub asked_bytes: u64,
    /// Bytes for which it was done.
    pub done_bytes: u64,
}

/// A reason for refusals.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Refusal {
    /// The command in T10's words.
    pub command: String,
    /// The status in T10's words.
    pub status: String,
    /// Sense key, additional sense code and qualifier, as in '05h/26h/00h'.
    pub sense: Option<String>,
    /// What it means; of a primitive that is turned off, at which place.
    pub reason: String,
    /// How often it was given.
    pub count: u64,
    /// When last, seconds since 1970.
    pub last: u64,
}

/// Something that the array could have done and did not, and why.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Finding {
    /// What it is.
    pub kind: FindingKind,
    /// The host.
    pub host: String,
    /// The volume that was written.
    pub volume: String,
    /// The volume that was read, of a copy.
    pub source: Option<String>,
    /// How much; of refusals 0.
    pub bytes: u64,
    /// Whether `bytes` is an estimate.
    pub estimated: bool,
    /// When it was first seen, seconds since 1970.
    pub first: u64,
    /// When last.
    pub last: u64,
    /// The reason's name; see docs/offload-ledger.md.
    pub code: String,
    /// The reason in a sentence.
    pub reason: String,
    /// What to do about it.
    pub advice: String,
}

/// What a [`Finding`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum FindingKind {
    /// A host read from one place and wrote the same to another.
    HostSideCopy,
    /// A host wrote zeros.
    HostSideZero,
    /// The array refused.
    Refused,
}

/// Rates of the last second.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Live {
    /// Seconds since 1970.
    pub time: u64,
    /// Seconds that the rates are of.
    pub interval_seconds: u64,
    /// All together.
    #[schema(value_type = BTreeMap<String, PrimitiveRate>)]
    pub total: PrimitiveRates,
    /// By volume; those that did nothing are left out.
    pub volumes: Vec<NamedRates>,
    /// By host.
    pub hosts: Vec<NamedRates>,
    /// By host and volume.
    pub rows: Vec<RowRates>,
}

/// Rates by primitive: `read`, `write`, `compare_and_write`, `extended_copy`, `write_same`,
/// `unmap`, `token`, `other`. Those without any are left out.
pub type PrimitiveRates = BTreeMap<String, PrimitiveRate>;

/// How fast something goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PrimitiveRate {
    /// Commands per second.
    pub commands: f32,
    /// Bytes per second.
    pub bytes: f32,
    /// Microseconds that a command took on average.
    pub latency_us: f32,
}

/// Rates of a volume or host.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct NamedRates {
    /// POOL/NAME of the volume, or the host's name.
    pub name: String,
    /// Its rates.
    #[schema(value_type = BTreeMap<String, PrimitiveRate>)]
    pub rates: PrimitiveRates,
}

/// Rates of a host on a volume.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct RowRates {
    /// The host.
    pub host: String,
    /// The volume.
    pub volume: String,
    /// Its LUN number.
    pub lun: Option<u16>,
    /// The rates.
    #[schema(value_type = BTreeMap<String, PrimitiveRate>)]
    pub rates: PrimitiveRates,
}

/// The name of a series, for the history.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct SeriesName {
    /// `total`, `volume:POOL/NAME`, `host:NAME` or `pool:NAME`.
    pub series: String,
}

/// A part of a series, as columns of equal length.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct SeriesHistory {
    /// The series.
    pub series: String,
    /// Start of the first value, seconds since 1970.
    pub start: u64,
    /// Seconds that each value covers.
    pub step: u64,
    /// Means over that time, by name: PRIMITIVE_commands, _bytes (per second) and _latency_us; of a
    /// pool used_bytes, pending_bytes, reserve_bytes, free_bytes, shared_bytes and total_bytes.
    pub columns: BTreeMap<String, Vec<f64>>,
}

/// Who contends for the blocks of a volume by COMPARE AND WRITE (ATS).
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct LockMap {
    /// The volume.
    pub volume: String,
    /// All attempts.
    pub attempts: u64,
    /// Those of them that found another content.
    pub miscompares: u64,
    /// The 32 ranges with most miscompares, then attempts.
    pub contended: Vec<LockRange>,
    /// The 64 latest attempts, newest first.
    pub recent: Vec<LockAttempt>,
}

/// A range of blocks that is locked by COMPARE AND WRITE.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct LockRange {
    /// First logical block.
    pub lba: u64,
    /// Number of logical blocks.
    pub blocks: u64,
    /// Attempts; where many ranges are in use, perhaps too high.
    pub attempts: u64,
    /// Those of them that found another content.
    pub miscompares: u64,
    /// Hosts that attempted; the first eight.
    pub hosts: Vec<String>,
    /// When last, seconds since 1970.
    pub last: u64,
}

/// One COMPARE AND WRITE.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct LockAttempt {
    /// When it ended, seconds since 1970, to the millisecond.
    pub time: f64,
    /// The host.
    pub host: String,
    /// First logical block.
    pub lba: u64,
    /// Number of logical blocks.
    pub blocks: u64,
    /// How it ended.
    pub outcome: LockOutcome,
}

/// How a COMPARE AND WRITE ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum LockOutcome {
    /// The blocks were replaced.
    Done,
    /// They held something else.
    Miscompare,
    /// Nothing was compared.
    Refused,
}

/// What became of the space that a volume gave up, by UNMAP or by zeros, since the pool was opened.
/// Whole blocks of 4 KiB.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Reclaim {
    /// The volume.
    pub volume: String,
    /// Bytes that were to become free: `already_free_bytes` and `unmapped_bytes`.
    pub asked_bytes: u64,
    /// Those that held nothing.
    pub already_free_bytes: u64,
    /// Those that held data: `freed_bytes` and `held_bytes`.
    pub unmapped_bytes: u64,
    /// Those that returned to the pool.
    pub freed_bytes: u64,
    /// Those that stay in use elsewhere: the sum of `held_by`.
    pub held_bytes: u64,
    /// Where.
    pub held_by: Vec<Holder>,
}

/// Who still uses what a volume gave up.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Holder {
    /// POOL/NAME, if it is known.
    pub name: Option<String>,
    /// What it is.
    pub kind: HolderKind,
    /// How much, at most.
    pub bytes: u64,
}

/// What a [`Holder`] is to the volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum HolderKind {
    /// Its youngest snapshot.
    Snapshot,
    /// Its youngest clone.
    Clone,
    /// What it was cloned from.
    Origin,
    /// Copies by EXTENDED COPY, somewhere.
    Copies,
}

/// When a pool will be full.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Forecast {
    /// The pool.
    pub pool: String,
    /// All of its space, bytes.
    pub total_bytes: u64,
    /// Bytes that volumes and the map hold.
    pub used_bytes: u64,
    /// Bytes by which the free space shrinks per second; below 0 if it grows. `None` if too little
    /// is known.
    pub bytes_per_second: Option<f64>,
    /// Seconds of the past that this was learnt from.
    pub window_seconds: Option<u64>,
    /// Seconds until nothing is free, if the free space shrinks.
    pub seconds_until_full: Option<u64>,
    /// When that is, seconds since 1970.
    pub full_at: Option<u64>,
}
