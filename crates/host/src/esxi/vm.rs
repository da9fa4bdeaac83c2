//! Virtual machines as workloads: their files on a datastore, snapshots, and patterns of access to
//! their disks. One that meets a full array pauses, and goes on when there is space again.

mod config;
mod machine;
mod vmotion;
mod workload;
mod world;

use std::time::Duration;

use anyhow::{Result, ensure};
use serde::{Deserialize, Serialize};
use vmfs::LockMode;

use crate::esxi::datastore::Datastore;
use crate::esxi::state::Host;

pub use config::Config;
pub use machine::{
    Guest, Machine, Spec, Template, create, deploy, destroy, open, relocate, remove_snapshot, set,
    snapshots, take_snapshot, turn,
};
pub use vmotion::{Moved, Vmotion, vmotion};
pub use world::{World, worlds};

/// How a virtual machine uses its disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Pattern {
    /// 4 KiB, one after the other.
    SequentialRead4k,
    /// 1 MiB, one after the other.
    SequentialRead1m,
    /// 1 MiB, one after the other.
    SequentialWrite1m,
    /// 4 KiB at random.
    RandomRead4k,
    /// 4 KiB at random.
    RandomWrite4k,
    /// 4 KiB at random, two reads to a write.
    RandomMix4k,
    /// 64 KiB at random, two reads to a write.
    RandomMix64k,
}

/// What a pattern is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Bytes of a read or write.
    pub bytes: u64,
    /// Each so-many-th access writes; 0: none does.
    pub write_every: u64,
    /// In any order.
    pub random: bool,
}

impl Pattern {
    /// What it is made of.
    pub fn access(self) -> Access {
        let (bytes, write_every, random) = match self {
            Self::SequentialRead4k => (4096, 0, false),
            Self::SequentialRead1m => (1 << 20, 0, false),
            Self::SequentialWrite1m => (1 << 20, 1, false),
            Self::RandomRead4k => (4096, 0, true),
            Self::RandomWrite4k => (4096, 1, true),
            Self::RandomMix4k => (4096, 3, true),
            Self::RandomMix64k => (65_536, 3, true),
        };
        Access { bytes, write_every, random }
    }
}

/// A run.
#[derive(Clone, Debug)]
pub struct Run {
    /// A disk's path on the datastore, or a virtual machine's: then it is its first disk, with all
    /// snapshots, and the machine counts as powered on meanwhile.
    pub path: String,
    /// How it is used.
    pub pattern: Pattern,
    /// How long.
    pub duration: Duration,
    /// Reads and writes after which it ends before its time.
    pub operations_max: u64,
    /// How long to wait for space before giving up.
    pub patience: Duration,
    /// Reads and writes outstanding at once; more than one only where blocks are allocated and
    /// there is no snapshot.
    pub outstanding: u32,
}

impl Run {
    /// One that uses the disk for some time, with one read or write at once, and waits ten minutes
    /// for space.
    pub fn new(path: &str, pattern: Pattern, duration: Duration) -> Self {
        Self {
            path: path.to_owned(),
            pattern,
            duration,
            operations_max: u64::MAX,
            patience: Duration::from_secs(600),
            outstanding: 1,
        }
    }
}

/// What came of it.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct WorkloadFigures {
    /// Reads and writes.
    pub operations: u64,
    /// Bytes of these.
    pub bytes: u64,
    /// Seconds, without those paused or stunned.
    pub seconds: f64,
    /// Per second.
    pub per_second: f64,
    /// 99 of 100 took at most so many microseconds.
    pub p99_us: u64,
    /// How often the array was full.
    pub pauses: u64,
    /// Seconds paused.
    pub paused_seconds: f64,
    /// How often no path was left (APD).
    #[serde(default)]
    pub stuns: u64,
    /// Seconds stunned by that.
    #[serde(default)]
    pub stunned_seconds: f64,
}

/// Runs a virtual machine on a mounted datastore.
///
/// # Errors
/// When the disk is in use, or fails otherwise than by a full array.
pub fn run(host: &Host, store: &mut Datastore, order: &Run) -> Result<WorkloadFigures> {
    run_until(host, store, order, &mut || false)
}

/// As [`run`], but ends also when `stop` says so; it is asked before each access.
///
/// # Errors
/// As [`run`].
pub fn run_until(
    host: &Host,
    store: &mut Datastore,
    order: &Run,
    stop: &mut dyn FnMut() -> bool,
) -> Result<WorkloadFigures> {
    let machine =
        if order.path.ends_with(".vmdk") { None } else { Some(open(store, &order.path)?) };
    if let Some(machine) = &machine {
        ensure!(!machine.is_template(), "{} is a template: it does not run", order.path);
    }
    let disk = match &machine {
        Some(machine) => machine.disk(0)?,
        None => order.path.clone(),
    };
    let power = match &machine {
        Some(machine) => Some(store.volume.open(&machine.config_path(), LockMode::Exclusive)?),
        None => None,
    };
    let shown = machine.as_ref().map(|machine| {
        let volume = vmfs::volume::probe(store.volume.disk()).map(|found| found.uuid.to_string());
        let place = volume.unwrap_or_default();
        let config = format!("/vmfs/volumes/{place}/{}", machine.config_path());
        world::Running::show(host, machine.uuid(), machine.display_name(), &config)
    });
    let done = run_disk(store, &disk, order, stop);
    drop(shown);
    if let Some(power) = power {
        store.volume.close(power)?;
    }
    store.volume.disks().try_for_each(|lun| host.publish(lun))?;
    done
}

fn run_disk(
    store: &mut Datastore,
    disk: &str,
    order: &Run,
    stop: &mut dyn FnMut() -> bool,
) -> Result<WorkloadFigures> {
    let mut chain = store.volume.open_chain(disk, LockMode::Exclusive)?;
    let outcome = workload::work(store, &mut chain, order, stop);
    store.volume.close_chain(chain)?;
    outcome
}
