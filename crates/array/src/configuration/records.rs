//! The configuration as single records, which pools keep beside their volumes: which of them a change
//! touches, what each says, and how one is taken over.
//!
//! A record is a whole object. Hosts and groups go with every pool, volumes and schedules with their
//! own. What is the daemon's alone (users, portals, receivers of alerts) is in no record.

use std::collections::{BTreeMap, BTreeSet};

use block::{SwitchesOff, VolumeId};
use imbl::ordmap::DiffItem;
use sam::AccessState;
use serde::{Deserialize, Serialize};

use super::hosts::Host;
use super::lun_maps::Rest;
use super::pools::{FailBack, KnownMember, PoolDevice, Thresholds};
use super::presentation::Presentation;
use super::schedules::{Run, Schedule, ScheduleRecord};
use super::tags::{Tagged, Tags};
use super::{Access, Configuration};
use crate::{ArrayError, Identification, Table};

#[cfg(test)]
mod tests;

/// Which record.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RecordKey {
    /// Whose pool it is.
    Owner,
    /// The array as a whole.
    Array,
    /// The pool of that name, in which the record lies.
    Pool(String),
    /// A host.
    Host(String),
    /// A group of hosts.
    Group(String),
    /// What is said of a volume or snapshot, by identifier.
    Volume(u64),
    /// What a volume's logical unit keeps: reservations, mode parameters.
    Unit(u64),
    /// A schedule.
    Schedule(String),
    /// One run of a schedule: its name, and when the run was, seconds since 1970.
    Run(String, u64),
}

impl RecordKey {
    /// Whether every pool of an array has such a record.
    pub const fn is_of_all_pools(&self) -> bool {
        match self {
            Self::Array | Self::Host(_) | Self::Group(_) => true,
            Self::Owner
            | Self::Pool(_)
            | Self::Volume(_)
            | Self::Unit(_)
            | Self::Schedule(_)
            | Self::Run(..) => false,
        }
    }
}

/// What a record says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Record {
    /// Whose pool it is.
    Owner(OwnerRecord),
    /// The array as a whole.
    Array(ArrayRecord),
    /// The pool.
    Pool(PoolRecord),
    /// A host.
    Host(HostRecord),
    /// A group of hosts.
    Group(GroupRecord),
    /// What is said of a volume or snapshot.
    Volume(VolumeRecord),
    /// State of a logical unit, as JSON.
    Unit(String),
    /// A schedule.
    Schedule(PlanRecord),
    /// One of its runs.
    Run(Run),
}

/// Which array uses a pool, or used it last.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwnerRecord {
    /// Names the array in the world: 32 hexadecimal digits.
    pub array: String,
    /// Its target name.
    pub target_name: String,
    /// Names the machine, if it has a name that lasts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<String>,
    /// Whether it gave the pool away.
    #[serde(default)]
    pub exported: bool,
    /// The number of the controller that opened it last; 0 for an array of one.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub controller: u16,
}

const fn is_zero(number: &u16) -> bool {
    *number == 0
}

/// The array as a whole.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArrayRecord {
    /// The iSCSI name of the target.
    pub target_name: String,
    /// Vendor and product that volumes tell.
    #[serde(default, skip_serializing_if = "Identification::is_default")]
    pub identification: Identification,
    /// CHAP name of discovery sessions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub discovery_chap_name: Option<String>,
    /// Their account, sealed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub discovery_chap: Option<String>,
    /// States of target portal groups.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub path_states: BTreeMap<u16, AccessState>,
    /// Primitives that are off for everybody.
    #[serde(
        default,
        with = "super::switches::names",
        skip_serializing_if = "SwitchesOff::is_empty"
    )]
    pub switches_off: SwitchesOff,
}

/// The pool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PoolRecord {
    /// When someone is told how full it is.
    pub thresholds: Thresholds,
    /// Whether it deletes scheduled snapshots when it is full.
    #[serde(default)]
    pub delete_scheduled_snapshots: bool,
    /// Its labels.
    #[serde(default, skip_serializing_if = "Tags::is_empty")]
    pub tags: Tags,
    /// Where the members of its mirrors were last, also of those that are away.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub members: Vec<KnownMember>,
    /// Devices that step in for a member that is lost; `None` in a record of a version that did not keep
    /// them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spares: Option<Vec<PoolDevice>>,
    /// Which controller should have it.
    #[serde(default, skip_serializing_if = "FailBack::is_default")]
    pub fail_back: FailBack,
}

/// A host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostRecord {
    /// Its initiators and CHAP name.
    pub host: Host,
    /// Its CHAP account, sealed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chap: Option<String>,
    /// Its labels.
    #[serde(default, skip_serializing_if = "Tags::is_empty")]
    pub tags: Tags,
}

/// A group of hosts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupRecord {
    /// Its members.
    pub hosts: BTreeSet<String>,
    /// Its labels.
    #[serde(default, skip_serializing_if = "Tags::is_empty")]
    pub tags: Tags,
}

/// Who sees a volume by which number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MapRecord {
    /// A host, a group, or everybody.
    pub host: String,
    /// The number.
    pub lun: u16,
    /// Whether it may only read.
    #[serde(default)]
    pub read_only: bool,
}

/// What is said of a volume or snapshot.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct VolumeRecord {
    /// Who sees it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub maps: Vec<MapRecord>,
    /// How it looks.
    #[serde(default)]
    pub presentation: Presentation,
    /// When someone is told how full it is.
    #[serde(default)]
    pub thresholds: Thresholds,
    /// When its lock ends, seconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub locked_until: Option<u64>,
    /// Its labels.
    #[serde(default, skip_serializing_if = "Tags::is_empty")]
    pub tags: Tags,
}

/// A schedule, without its runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanRecord {
    /// When, of what, and how many are kept.
    pub schedule: Schedule,
    /// Up to when it was carried out, seconds since 1970.
    pub reached: u64,
}

impl Configuration {
    /// The records that a change touches. Its cost grows with the change, not with what there is.
    pub fn changed_since(&self, before: &Self) -> BTreeSet<RecordKey> {
        let mut changed = BTreeSet::new();
        if self.array_record() != before.array_record() {
            changed.insert(RecordKey::Array);
        }
        for name in self.pools.keys().chain(before.pools.keys()) {
            if self.pool_record(name) != before.pool_record(name) {
                changed.insert(RecordKey::Pool(name.clone()));
            }
        }
        keys_of_difference(&before.hosts, &self.hosts, &mut changed, |name| host_key(name));
        keys_of_difference(before.tags.hosts(), self.tags.hosts(), &mut changed, |name| {
            host_key(name)
        });
        keys_of_difference(&before.host_groups, &self.host_groups, &mut changed, |name| {
            group_key(name)
        });
        keys_of_difference(before.tags.groups(), self.tags.groups(), &mut changed, |name| {
            group_key(name)
        });
        let volume = |id: &u64| RecordKey::Volume(*id);
        keys_of_difference(&before.presentations, &self.presentations, &mut changed, volume);
        let thresholds = (&before.volume_thresholds, &self.volume_thresholds);
        keys_of_difference(thresholds.0, thresholds.1, &mut changed, volume);
        keys_of_difference(&before.snapshot_locks, &self.snapshot_locks, &mut changed, volume);
        keys_of_difference(before.tags.volumes(), self.tags.volumes(), &mut changed, volume);
        let remapped = self.lun_maps.volumes_changed_since(&before.lun_maps);
        changed.extend(remapped.into_iter().map(RecordKey::Volume));
        for item in before.schedules.diff(&self.schedules) {
            let (name, old, new) = match item {
                DiffItem::Add(name, new) => (name, None, Some(new)),
                DiffItem::Remove(name, old) => (name, Some(old), None),
                DiffItem::Update { old: (name, old), new: (_, new) } => {
                    (name, Some(old), Some(new))
                }
            };
            changed.extend(changed_schedule(name, old, new));
        }
        changed
    }

    /// Every record that a pool is to have; `holds` says whether it holds a volume or snapshot.
    pub fn record_keys(&self, pool: &str, holds: impl Fn(VolumeId) -> bool) -> BTreeSet<RecordKey> {
        let mut keys = BTreeSet::from([RecordKey::Array, RecordKey::Pool(pool.to_owned())]);
        keys.extend(self.hosts.keys().map(|name| host_key(name)));
        keys.extend(self.host_groups.keys().map(|name| group_key(name)));
        let known = self.known_volumes_after(None, usize::MAX).into_iter();
        let volumes = known.chain(self.mapped_volumes()).filter(|&id| holds(id));
        keys.extend(volumes.map(|id| RecordKey::Volume(id.0)));
        for (name, record) in self.schedules.iter().filter(|(_, r)| r.schedule.pool == pool) {
            keys.insert(RecordKey::Schedule(name.clone()));
            keys.extend(record.runs().iter().map(|run| RecordKey::Run(name.clone(), run.time)));
        }
        keys
    }

    /// What a record says now, without what is sealed; `None` if there is no such object, and of
    /// what the configuration does not know.
    pub fn record(&self, key: &RecordKey) -> Option<Record> {
        match key {
            RecordKey::Owner | RecordKey::Unit(_) => None,
            RecordKey::Array => Some(Record::Array(self.array_record())),
            RecordKey::Pool(name) => self.pool_record(name).map(Record::Pool),
            RecordKey::Host(name) => self.hosts.get(name).map(|host| {
                let tags = self.tags(Tagged::Host(name));
                Record::Host(HostRecord { host: host.clone(), chap: None, tags })
            }),
            RecordKey::Group(name) => self.host_groups.get(name).map(|hosts| {
                let tags = self.tags(Tagged::Group(name));
                Record::Group(GroupRecord { hosts: hosts.clone(), tags })
            }),
            RecordKey::Volume(id) => {
                let record = self.volume_record(VolumeId(*id));
                (record != VolumeRecord::default()).then_some(Record::Volume(record))
            }
            RecordKey::Schedule(name) => self.schedules.get(name).map(|record| {
                let schedule = record.schedule.clone();
                Record::Schedule(PlanRecord { schedule, reached: record.reached() })
            }),
            RecordKey::Run(name, time) => {
                let runs = self.schedules.get(name)?.runs();
                runs.iter().find(|run| run.time == *time).cloned().map(Record::Run)
            }
        }
    }

    /// The schedule that a record is about, if it is about one.
    pub fn schedule_pool(&self, name: &str) -> Option<&str> {
        self.schedules.get(name).map(|record| record.schedule.pool.as_str())
    }

    /// Says of a volume of a pool what a record says, and nothing else.
    ///
    /// # Errors
    /// When a number in it is taken, or a host is not there.
    pub fn take_volume_record(
        &mut self,
        (pool, volume): (&str, VolumeId),
        record: &VolumeRecord,
        rest: &Rest<'_>,
    ) -> Result<(), ArrayError> {
        let wanted: BTreeMap<&str, u16> =
            record.maps.iter().map(|map| (map.host.as_str(), map.lun)).collect();
        let gone = self.maps_of(volume).filter(|map| wanted.get(map.host) != Some(&map.lun));
        let gone: Vec<String> = gone.map(|map| map.host.to_owned()).collect();
        gone.iter().try_for_each(|host| self.unmap_volume(volume, Some(host), rest.now))?;
        for map in &record.maps {
            let access = if map.read_only { Access::ReadOnly } else { Access::ReadWrite };
            self.map_volume(volume, &map.host, (Some(map.lun), access), rest)?;
        }
        record.presentation.limits.check()?;
        self.set_presentation(volume, record.presentation);
        self.set_volume_thresholds(volume, record.thresholds)?;
        self.set_tags(Tagged::Volume(volume), record.tags.clone())?;
        match record.locked_until {
            Some(until) => self.restore_lock(pool, volume, until),
            None => self.forget_lock(volume),
        }
        Ok(())
    }

    /// Has a schedule and its runs as records say.
    ///
    /// # Errors
    /// When it is none.
    pub fn take_schedule_record(
        &mut self,
        name: &str,
        PlanRecord { schedule, reached }: PlanRecord,
        runs: Vec<Run>,
    ) -> Result<(), ArrayError> {
        self.set_schedule(name, schedule, reached)?;
        if let Some(record) = self.schedules.get_mut(name) {
            record.restore(reached, runs);
        }
        Ok(())
    }

    fn array_record(&self) -> ArrayRecord {
        ArrayRecord {
            target_name: self.target_name.clone(),
            identification: self.identification,
            discovery_chap_name: self.discovery_chap_name.clone(),
            discovery_chap: None,
            path_states: self.path_states.clone(),
            switches_off: self.switches_off,
        }
    }

    fn pool_record(&self, name: &str) -> Option<PoolRecord> {
        self.pools.get(name).map(|pool| PoolRecord {
            thresholds: pool.thresholds,
            delete_scheduled_snapshots: pool.delete_scheduled_snapshots,
            tags: self.tags(Tagged::Pool(name)),
            members: pool.mirroring.members.clone(),
            spares: Some(pool.mirroring.spares.clone()),
            fail_back: pool.fail_back,
        })
    }

    fn volume_record(&self, volume: VolumeId) -> VolumeRecord {
        let maps = self.maps_of(volume).map(|map| MapRecord {
            host: map.host.to_owned(),
            lun: map.lun,
            read_only: map.access == Access::ReadOnly,
        });
        VolumeRecord {
            maps: maps.collect(),
            presentation: self.presentation(volume),
            thresholds: self.volume_thresholds(volume),
            locked_until: self.locked_until(volume),
            tags: self.tags(Tagged::Volume(volume)),
        }
    }
}

fn host_key(name: &str) -> RecordKey {
    RecordKey::Host(name.to_owned())
}

fn group_key(name: &str) -> RecordKey {
    RecordKey::Group(name.to_owned())
}

/// Adds the record of each entry that two versions of a table do not have in common.
fn keys_of_difference<K: Ord + Clone, V: PartialEq + Clone>(
    before: &Table<K, V>,
    after: &Table<K, V>,
    changed: &mut BTreeSet<RecordKey>,
    record: impl Fn(&K) -> RecordKey,
) {
    changed.extend(before.diff(after).map(|item| match item {
        DiffItem::Add(key, _)
        | DiffItem::Remove(key, _)
        | DiffItem::Update { new: (key, _), .. } => record(key),
    }));
}

/// Records of a schedule that is another one than before.
fn changed_schedule(
    name: &str,
    old: Option<&ScheduleRecord>,
    new: Option<&ScheduleRecord>,
) -> Vec<RecordKey> {
    let runs = |record: Option<&ScheduleRecord>| -> BTreeMap<u64, Run> {
        let runs = record.map(ScheduleRecord::runs).unwrap_or_default();
        runs.iter().map(|run| (run.time, run.clone())).collect()
    };
    let (before, after) = (runs(old), runs(new));
    let times: BTreeSet<u64> = before.keys().chain(after.keys()).copied().collect();
    let times = times.into_iter().filter(|time| before.get(time) != after.get(time));
    let mut changed: Vec<_> = times.map(|time| RecordKey::Run(name.to_owned(), time)).collect();
    let plan = |record: Option<&ScheduleRecord>| {
        record.map(|record| (record.schedule.clone(), record.reached()))
    };
    if plan(old) != plan(new) {
        changed.push(RecordKey::Schedule(name.to_owned()));
    }
    changed
}
