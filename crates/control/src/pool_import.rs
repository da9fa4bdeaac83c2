//! Pool import: what the records of a pool bring into the configuration, and what collides.
//!
//! It works on a draft like every change. Collisions are collected, each with what solves it; if there
//! is one the draft is thrown away. The same code takes what a pool's records know that is newer than
//! the data directory.

use std::collections::{BTreeMap, BTreeSet};

use api::{Collision, PoolImport};
use array::{
    ANY_HOST, ArrayError, Chap, FreeLuns, HostRecord, KnownMember, Mirroring, OwnerRecord, Pool,
    PoolDevice, PoolRecord, Record, RecordKey, Rest, Run, Tagged, VolumeRecord,
};
use block::VolumeId;

use crate::change::Draft;
use crate::limits::MERGE_PASSES_MAX;
use crate::pool_records::{self, Found};

mod mirrors;
#[cfg(test)]
mod tests;

pub use mirrors::{FoundDevice, FoundMember, FoundMirror, mirrors_of, name_last_devices};

/// No number rests: what hosts saw is what they will see.
const REST: Rest<'static> = Rest { now: 0, seconds: 0, held: &[], free: FreeLuns::Known };

/// A pool that was found on its devices.
#[derive(Clone, Debug)]
pub struct FoundPool {
    /// Its UUID.
    pub uuid: [u8; 16],
    /// Its devices, in their order.
    pub devices: Vec<PoolDevice>,
    /// Those of them that are members of mirrors.
    pub members: Vec<KnownMember>,
    /// Its mirrors, with members that were not found.
    pub mirrors: Vec<FoundMirror>,
    /// Its volumes and snapshots with their names.
    pub volumes: BTreeMap<VolumeId, String>,
    /// Its records; none if it was made before there were any.
    pub records: BTreeMap<RecordKey, Found>,
}

/// What is to be done about what collides.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Choices {
    /// Another name for the pool.
    pub rename: Option<String>,
    /// About the target name.
    pub target_name: TargetName,
    /// About hosts.
    pub hosts: Hosts,
    /// About LUN numbers that are taken.
    pub luns: Luns,
    /// About schedules.
    pub schedules: Schedules,
    /// About another array that used the pool last.
    pub owner: Owner,
    /// About members of mirrors that are missing and may have newer data.
    pub members: Members,
    /// This machine, if it has a name that lasts.
    pub machine: Option<String>,
}

/// Whose target name counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TargetName {
    /// The pool's if the array has neither pools nor hosts; else a difference is a collision.
    #[default]
    Ask,
    /// The pool's.
    Adopt,
    /// The array's.
    Keep,
}

/// Which hosts and groups come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Hosts {
    /// All; one that the array has otherwise is a collision.
    #[default]
    Bring,
    /// Those that the array does not have.
    KeepExisting,
    /// None, and no LUN maps.
    Skip,
}

/// What becomes of LUN numbers that are taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Luns {
    /// They are collisions.
    #[default]
    Same,
    /// The pool's volumes get others.
    New,
}

/// Whether schedules come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Schedules {
    /// All; one whose name is taken is a collision.
    #[default]
    Bring,
    /// None.
    Skip,
}

/// Whether the array that used the pool last must have exported it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Owner {
    /// It must, unless it was this one or was on this machine.
    #[default]
    Asked,
    /// Whoever it was.
    Overruled,
}

/// Whether members of mirrors must be there that may have newer data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Members {
    /// They must.
    #[default]
    Needed,
    /// What only they have is given up.
    GivenUp,
}

/// An account that a record holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Account {
    /// It can be read.
    Known(Chap),
    /// It cannot: why.
    Unknown(&'static str),
}

/// Reads the account that a record holds.
pub type OpenAccount<'a> = &'a dyn Fn(&RecordKey, &str) -> Account;

/// Takes a pool into a draft, and says what came and what collides. The draft is to be thrown away if
/// anything does.
pub fn take(
    found: &FoundPool,
    draft: &mut Draft,
    (choices, now): (&Choices, u64),
    open: OpenAccount<'_>,
) -> PoolImport {
    let mut taking = Taking::new(draft, open, choices);
    taking.report.uuid = found.uuid.iter().map(|byte| format!("{byte:02x}")).collect();
    taking.report.devices = found.devices.iter().map(|one| one.device.to_string()).collect();
    taking.check_owner(found);
    taking.take_mirrors(found);
    taking.take_name(found);
    taking.take_identity(found);
    taking.take_hosts(&found.records);
    taking.take_groups(&found.records);
    taking.take_pool(found);
    let pool = taking.report.pool.clone();
    for (id, name) in &found.volumes {
        taking.take_volume((&pool, *id, name), found.records.get(&RecordKey::Volume(id.0)), now);
    }
    taking.take_schedules(&pool, &found.records);
    if found.records.is_empty() {
        taking.report.missing.push(
            "the pool was made before pools kept records: it brings its volumes with their NAA \
             identifiers, and nothing of hosts, LUN numbers, reservations and schedules"
                .to_owned(),
        );
        taking.change(
            "when the pool is opened it is upgraded, and keeps what hosts rely on beside their data: \
             earlier versions refuse it then; 'gantryd --no-pool-upgrade' leaves it as it is"
                .to_owned(),
        );
    }
    let mut report = taking.report;
    let version = found.records.values().map(|found| found.version).max().unwrap_or(0);
    draft.array.generation = draft.array.generation.max(version);
    report.target_name.clone_from(&draft.array.target_name);
    report
}

/// Takes what is newer in the records of one of the array's own pools; returns what could not be taken.
pub fn merge(
    pool: &str,
    newer: &BTreeMap<RecordKey, Found>,
    draft: &mut Draft,
    open: OpenAccount<'_>,
) -> Vec<String> {
    let mut problems = Vec::new();
    // What is in the way of one object may be removed with another one.
    for _ in 0..MERGE_PASSES_MAX {
        problems = merge_once(pool, newer, draft, open);
        if problems.is_empty() {
            break;
        }
    }
    problems
}

fn merge_once(
    pool: &str,
    newer: &BTreeMap<RecordKey, Found>,
    draft: &mut Draft,
    open: OpenAccount<'_>,
) -> Vec<String> {
    let choices = Choices { hosts: Hosts::Bring, ..Choices::default() };
    let mut taking = Taking::new(draft, open, &choices);
    let mut problems = Vec::new();
    // Numbers of volumes that nobody sees any more are free before others take them.
    for (key, _) in newer.iter().filter(|(_, found)| found.record.is_none()) {
        if let RecordKey::Volume(id) = key {
            let none = VolumeRecord::default();
            let taken = taking.draft.array.take_volume_record((pool, VolumeId(*id)), &none, &REST);
            problems.extend(taken.err().map(|error| error.to_string()));
        }
    }
    for (key, found) in newer {
        let Some(record) = &found.record else { continue };
        problems.extend(taking.replace(pool, key, record).err().map(|error| error.to_string()));
    }
    let names = newer.iter().filter(|(_, found)| found.record.is_some());
    let names = names.filter_map(|(key, _)| match key {
        RecordKey::Schedule(name) | RecordKey::Run(name, _) => Some(name.clone()),
        RecordKey::Owner
        | RecordKey::Array
        | RecordKey::Pool(_)
        | RecordKey::Host(_)
        | RecordKey::Group(_)
        | RecordKey::Volume(_)
        | RecordKey::Unit(_) => None,
    });
    for name in names.collect::<BTreeSet<String>>() {
        problems.extend(taking.replace_schedule(&name, newer).err().map(|e| e.to_string()));
    }
    problems.extend(taking.remove_all(newer));
    problems.extend(taking.report.missing);
    problems
}

/// Records that are being taken.
struct Taking<'a> {
    draft: &'a mut Draft,
    open: OpenAccount<'a>,
    choices: &'a Choices,
    report: PoolImport,
    /// Hosts and groups that do not come, so that nothing is mapped to them.
    left_out: BTreeSet<String>,
}

impl<'a> Taking<'a> {
    fn new(draft: &'a mut Draft, open: OpenAccount<'a>, choices: &'a Choices) -> Self {
        let (report, left_out) = (PoolImport::default(), BTreeSet::new());
        Self { draft, open, choices, report, left_out }
    }

    fn collide(&mut self, what: String, solution: &str) {
        self.report.collisions.push(Collision { what, solution: solution.to_owned() });
    }

    fn change(&mut self, sentence: String) {
        self.report.changes.push(sentence);
    }

    fn check_owner(&mut self, found: &FoundPool) {
        let owner = pool_records::owner(&found.records).cloned();
        let Some(owner) = owner else { return };
        self.report.exported = owner.exported;
        self.report.last_target_name.clone_from(&owner.target_name);
        if self.choices.owner == Owner::Asked && !self.may_take_from(&owner) {
            let what = format!(
                "array {} used the pool last and did not export it: if that array still runs, both \
                 would destroy the pool",
                owner.target_name
            );
            self.collide(what, "'gantry pool export' there, or --force if that array is gone");
        }
    }

    fn may_take_from(&self, owner: &OwnerRecord) -> bool {
        owner.exported || self.was_here(owner)
    }

    /// Whether this array used the pool last, or another one on this machine.
    fn was_here(&self, owner: &OwnerRecord) -> bool {
        let is_this_machine = owner.machine.is_some() && owner.machine == self.choices.machine;
        owner.array == self.draft.array.uuid || is_this_machine
    }

    fn take_name(&mut self, found: &FoundPool) {
        let recorded = recorded_name(&found.records).map_or("imported", |(name, _)| name);
        let name = self.choices.rename.as_deref().unwrap_or(recorded).to_owned();
        let pools = self.draft.array.pools.iter();
        if let Some((here, _)) = pools.clone().find(|(_, pool)| pool.uuid == found.uuid) {
            let what = format!("the array has this pool already, as '{here}'");
            self.collide(what, "there is nothing to import: 'gantry pool open' opens it");
        } else {
            let devices: Vec<_> = found.devices.iter().map(|one| one.device.clone()).collect();
            match self.draft.array.check_new_pool(&name, &devices) {
                Ok(()) => {}
                Err(error @ ArrayError::NameTaken { .. }) => {
                    self.collide(error.to_string(), "--rename NAME");
                }
                Err(error) => self.collide(error.to_string(), "change that first"),
            }
        }
        self.report.pool = name;
    }

    /// The array becomes the one that hosts know, if it is empty or was told to.
    fn take_identity(&mut self, found: &FoundPool) {
        let record = match found.records.get(&RecordKey::Array).map(|found| &found.record) {
            Some(Some(Record::Array(record))) => record.clone(),
            _ => return,
        };
        let array = &mut self.draft.array;
        let is_other = array.target_name != record.target_name;
        let is_empty = array.pools.is_empty() && array.hosts.is_empty();
        let adopts = match self.choices.target_name {
            TargetName::Ask => is_empty,
            TargetName::Adopt => true,
            TargetName::Keep => false,
        };
        if !adopts {
            if is_other && self.choices.target_name == TargetName::Ask {
                let what = format!(
                    "hosts of the pool know the target {}, and this array is {}",
                    record.target_name, array.target_name
                );
                self.collide(
                    what,
                    "--adopt-target-name (hosts of this array must log in anew, to the other name), \
                     or --keep-target-name (hosts of the pool must)",
                );
            }
            return;
        }
        if let Some(owner) = pool_records::owner(&found.records) {
            array.uuid.clone_from(&owner.array);
        }
        array.identification = record.identification;
        array.switches_off = record.switches_off;
        record.path_states.iter().for_each(|(&group, &state)| array.set_path_state(group, state));
        if is_other {
            let before = std::mem::replace(&mut array.target_name, record.target_name.clone());
            self.change(format!("target {before} becomes {}", record.target_name));
        }
        if let (Some(name), None) = (record.discovery_chap_name, &self.draft.secrets.discovery) {
            self.draft.array.discovery_chap_name = Some(name);
            let opened = self.account(&RecordKey::Array, record.discovery_chap.as_deref());
            self.draft.secrets.sealed_discovery =
                record.discovery_chap.filter(|_| opened.is_none());
            self.draft.secrets.discovery = opened;
            self.change("discovery wants a proof".to_owned());
        }
    }

    /// The account of a record, or a sentence about what is missing.
    fn account(&mut self, key: &RecordKey, sealed: Option<&str>) -> Option<Chap> {
        let object = match key {
            RecordKey::Host(name) => format!("host {name}"),
            _ => "discovery".to_owned(),
        };
        let why = match sealed.map(|sealed| (self.open)(key, sealed)) {
            Some(Account::Known(chap)) => return Some(chap),
            Some(Account::Unknown(why)) => why,
            None => "the pool does not have it",
        };
        self.report.missing.push(format!(
            "the CHAP secret of {object}: {why}; its logins are refused until a secret is set"
        ));
        None
    }

    fn take_hosts(&mut self, records: &BTreeMap<RecordKey, Found>) {
        for (key, found) in records {
            let (RecordKey::Host(name), Some(Record::Host(record))) = (key, &found.record) else {
                continue;
            };
            if self.choices.hosts == Hosts::Skip {
                self.left_out.insert(name.clone());
                continue;
            }
            self.take_host(name, key, record);
        }
        if !self.left_out.is_empty() && self.choices.hosts == Hosts::Skip {
            let count = self.left_out.len();
            self.report.missing.push(format!("{count} host(s) and their LUN maps: --skip-hosts"));
        }
    }

    fn take_host(&mut self, name: &str, key: &RecordKey, record: &HostRecord) {
        let here = self.draft.array.hosts.get(name);
        let is_same = here.is_some_and(|here| here.initiators == record.host.initiators);
        if is_same || (here.is_some() && self.choices.hosts == Hosts::KeepExisting) {
            return;
        }
        if here.is_some() {
            let what = format!("the array has another host '{name}'");
            return self.collide(what, "--existing-hosts or --skip-hosts");
        }
        match self.draft.array.create_host(name, record.host.clone()) {
            Ok(()) => {}
            Err(error) if self.choices.hosts == Hosts::KeepExisting => {
                self.left_out.insert(name.to_owned());
                self.report.missing.push(format!("host {name}: {error}"));
                return;
            }
            Err(error) => {
                self.left_out.insert(name.to_owned());
                let what = format!("host {name}: {error}");
                return self.collide(what, "--existing-hosts or --skip-hosts");
            }
        }
        self.take_account(name, key, record);
        self.change(format!("host {name} is created"));
    }

    fn take_account(&mut self, name: &str, key: &RecordKey, record: &HostRecord) {
        let _ = self.draft.array.set_tags(Tagged::Host(name), record.tags.clone());
        let secrets = &mut self.draft.secrets;
        secrets.hosts.remove(name);
        secrets.sealed.remove(name);
        if record.host.chap_name.is_none() {
            return;
        }
        match self.account(key, record.chap.as_deref()) {
            Some(chap) => drop(self.draft.secrets.hosts.insert(name.to_owned(), chap)),
            None => {
                let kept = record.chap.iter().map(|sealed| (name.to_owned(), sealed.clone()));
                self.draft.secrets.sealed.extend(kept);
            }
        }
    }

    fn take_groups(&mut self, records: &BTreeMap<RecordKey, Found>) {
        for (key, found) in records {
            let (RecordKey::Group(name), Some(Record::Group(record))) = (key, &found.record) else {
                continue;
            };
            let here = self.draft.array.host_groups.get(name);
            if self.choices.hosts == Hosts::Skip {
                self.left_out.insert(name.clone());
            } else if here.is_none() {
                let hosts = record.hosts.iter().filter(|host| !self.left_out.contains(*host));
                let hosts = hosts.cloned().collect();
                let made = self.draft.array.set_host_group(name, hosts, &REST);
                let made = made.and_then(|()| {
                    self.draft.array.set_tags(Tagged::Group(name), record.tags.clone())
                });
                match made {
                    Ok(()) => self.change(format!("group {name} is created")),
                    Err(error) => {
                        self.left_out.insert(name.clone());
                        self.collide(format!("group {name}: {error}"), "--skip-hosts");
                    }
                }
            } else if here != Some(&record.hosts) && self.choices.hosts == Hosts::Bring {
                let what = format!("the array has a group '{name}' of other hosts");
                self.collide(what, "--existing-hosts or --skip-hosts");
            }
        }
    }

    fn take_pool(&mut self, found: &FoundPool) {
        let name = self.report.pool.clone();
        let record: PoolRecord =
            recorded_name(&found.records).map(|(_, record)| record.clone()).unwrap_or_default();
        if !self.draft.array.pools.contains_key(&name) {
            let spares = self.take_spares(found, &record);
            let pool = Pool {
                uuid: found.uuid,
                devices: found.devices.clone(),
                thresholds: record.thresholds,
                delete_scheduled_snapshots: record.delete_scheduled_snapshots,
                read_only: false,
                mirroring: Mirroring {
                    members: members_of(found, &record),
                    spares,
                    joining: Vec::new(),
                },
                departure: None,
                fail_back: record.fail_back,
            };
            self.draft.array.pools.insert(name.clone(), pool);
            let owner = pool_records::owner(&found.records);
            let counts =
                |owner: &&OwnerRecord| owner.exported || owner.array != self.draft.array.uuid;
            let owner = owner.filter(counts).map(|owner| owner.array.clone());
            self.draft.array.imported_from.extend(owner.map(|owner| (name.clone(), owner)));
            let _ = self.draft.array.set_tags(Tagged::Pool(&name), record.tags);
        }
        let volumes = found.volumes.len();
        self.change(format!("pool {name} comes with {volumes} volume(s) and snapshot(s)"));
    }

    /// Spares of a pool that was used here. Elsewhere a device of the same name may be somebody else's.
    fn take_spares(&mut self, found: &FoundPool, record: &PoolRecord) -> Vec<PoolDevice> {
        let was_here = pool_records::owner(&found.records).is_some_and(|last| self.was_here(last));
        let mut taken = Vec::new();
        for spare in record.spares.iter().flatten() {
            let device = &spare.device;
            if has_stepped_in(spare, &found.devices) {
                continue;
            }
            if was_here && !self.is_of_another(spare, &self.report.pool) {
                self.change(format!("spare {device} stays one"));
                taken.push(spare.clone());
            } else {
                let why =
                    if was_here { "another pool has it" } else { "it was on another machine" };
                self.change(format!("spare {device} does not come: {why}"));
            }
        }
        taken
    }

    fn take_volume(
        &mut self,
        (pool, id, name): (&str, VolumeId, &str),
        found: Option<&Found>,
        now: u64,
    ) {
        let Some(Some(Record::Volume(record))) = found.map(|found| &found.record) else { return };
        let mut record = record.clone();
        record.maps.retain(|map| match self.choices.hosts {
            Hosts::Skip => false,
            Hosts::Bring | Hosts::KeepExisting => !self.left_out.contains(&map.host),
        });
        // A lock that is over is nothing to keep.
        record.locked_until = record.locked_until.filter(|&until| until > now);
        let maps = std::mem::take(&mut record.maps);
        let array = &mut self.draft.array;
        if let Err(error) = array.take_volume_record((pool, id), &record, &REST) {
            self.collide(format!("volume {pool}/{name}: {error}"), "change that first");
        }
        for map in maps {
            let access =
                if map.read_only { array::Access::ReadOnly } else { array::Access::ReadWrite };
            let array = &mut self.draft.array;
            let mapped = array.map_volume(id, &map.host, (Some(map.lun), access), &REST);
            let mapped = match (mapped, self.choices.luns) {
                (Err(_), Luns::New) => array.map_volume(id, &map.host, (None, access), &REST),
                (mapped, _) => mapped,
            };
            match mapped {
                Ok(lun) => {
                    self.change(format!("{}: LUN {lun} is {pool}/{name}", to_whom(&map.host)))
                }
                Err(error) => {
                    let what = format!("{}: {error}", to_whom(&map.host));
                    self.collide(
                        what,
                        "--new-luns (hosts must look for the volume) or --skip-hosts",
                    );
                }
            }
        }
    }

    fn take_schedules(&mut self, pool: &str, records: &BTreeMap<RecordKey, Found>) {
        for (key, found) in records {
            let (RecordKey::Schedule(name), Some(Record::Schedule(record))) = (key, &found.record)
            else {
                continue;
            };
            if self.choices.schedules == Schedules::Skip {
                self.report.missing.push(format!("schedule {name}: --skip-schedules"));
                continue;
            }
            if self.draft.array.schedules.contains_key(name) {
                let what = format!("the array has a schedule '{name}'");
                self.collide(what, "--skip-schedules");
                continue;
            }
            let mut record = record.clone();
            record.schedule.pool = pool.to_owned();
            let runs = runs_of(name, records);
            match self.draft.array.take_schedule_record(name, record, runs) {
                Ok(()) => self.change(format!("schedule {name} is created")),
                Err(error) => self.collide(format!("schedule {name}: {error}"), "--skip-schedules"),
            }
        }
    }

    /// The spares of a pool that is here, as its record says; `None` if that says nothing of them.
    fn newer_spares(&self, pool: &str, record: &PoolRecord) -> Option<Vec<PoolDevice>> {
        let devices = &self.draft.array.pools.get(pool)?.devices;
        let is_free = |spare: &&PoolDevice| {
            !self.is_of_another(spare, pool) && !has_stepped_in(spare, devices)
        };
        Some(record.spares.as_ref()?.iter().filter(is_free).cloned().collect())
    }

    /// Whether another pool than this has the device of a spare.
    fn is_of_another(&self, spare: &PoolDevice, pool: &str) -> bool {
        self.draft.array.owner_of(&spare.device).is_some_and(|owner| owner != pool)
    }

    /// Has one object as its record says.
    fn replace(&mut self, pool: &str, key: &RecordKey, record: &Record) -> Result<(), ArrayError> {
        match (key, record) {
            (RecordKey::Array, Record::Array(record)) => {
                self.draft.array.identification = record.identification;
                self.draft.array.switches_off = record.switches_off;
                self.draft.array.discovery_chap_name.clone_from(&record.discovery_chap_name);
                let opened = match &record.discovery_chap_name {
                    Some(_) => self.account(key, record.discovery_chap.as_deref()),
                    None => None,
                };
                self.draft.secrets.sealed_discovery =
                    record.discovery_chap.clone().filter(|_| opened.is_none());
                self.draft.secrets.discovery = opened;
                let states = record.path_states.iter();
                states.for_each(|(&group, &state)| self.draft.array.set_path_state(group, state));
            }
            (RecordKey::Pool(_), Record::Pool(record)) => {
                let spares = self.newer_spares(pool, record);
                if let Some(pool) = self.draft.array.pools.get_mut(pool) {
                    take_replacements(&mut pool.mirroring.members, &record.members);
                    if let Some(spares) = spares {
                        pool.mirroring.spares = spares;
                    }
                    pool.thresholds = record.thresholds;
                    pool.delete_scheduled_snapshots = record.delete_scheduled_snapshots;
                    pool.fail_back = record.fail_back;
                }
                self.draft.array.set_tags(Tagged::Pool(pool), record.tags.clone())?;
            }
            (RecordKey::Host(name), Record::Host(record)) => {
                if self.draft.array.hosts.contains_key(name) {
                    self.draft.array.change_host(name, record.host.clone())?;
                } else {
                    self.draft.array.create_host(name, record.host.clone())?;
                }
                self.take_account(name, key, record);
            }
            (RecordKey::Group(name), Record::Group(record)) => {
                self.draft.array.set_host_group(name, record.hosts.clone(), &REST)?;
                self.draft.array.set_tags(Tagged::Group(name), record.tags.clone())?;
            }
            (RecordKey::Volume(id), Record::Volume(record)) => {
                let volume = (pool, VolumeId(*id));
                self.draft.array.take_volume_record(volume, record, &REST)?;
            }
            // Runs go with their schedule; logical units and the owner are not of the configuration.
            _ => {}
        }
        Ok(())
    }

    fn replace_schedule(
        &mut self,
        name: &str,
        newer: &BTreeMap<RecordKey, Found>,
    ) -> Result<(), ArrayError> {
        let here = self.draft.array.record(&RecordKey::Schedule(name.to_owned()));
        let there = newer.get(&RecordKey::Schedule(name.to_owned()));
        let record = there.and_then(|found| found.record.clone()).or(here);
        let Some(Record::Schedule(record)) = record else { return Ok(()) };
        let known = self.draft.array.schedules.get(name);
        let known = known.map(|record| record.runs().to_vec()).unwrap_or_default();
        let is_newer = |run: &Run| newer.contains_key(&RecordKey::Run(name.to_owned(), run.time));
        let mut runs: Vec<Run> = known.into_iter().filter(|run| !is_newer(run)).collect();
        runs.extend(runs_of(name, newer));
        self.draft.array.take_schedule_record(name, record, runs)
    }

    /// Removes what was deleted after the configuration was saved.
    fn remove_all(&mut self, newer: &BTreeMap<RecordKey, Found>) -> Vec<String> {
        let mut problems = Vec::new();
        // The keys of groups come behind those of hosts, whose members they have.
        for key in
            newer.iter().filter(|(_, found)| found.record.is_none()).map(|(key, _)| key).rev()
        {
            let array = &mut self.draft.array;
            let removed = match key {
                RecordKey::Schedule(name) if array.schedules.contains_key(name) => {
                    array.delete_schedule(name)
                }
                RecordKey::Group(name) if array.host_groups.contains_key(name) => {
                    array.delete_host_group(name, 0)
                }
                RecordKey::Host(name) if array.hosts.contains_key(name) => {
                    self.draft.secrets.hosts.remove(name);
                    array.delete_host(name, 0)
                }
                _ => Ok(()),
            };
            problems.extend(removed.err().map(|error| error.to_string()));
        }
        problems
    }
}

fn to_whom(host: &str) -> String {
    if host == ANY_HOST { "any host".to_owned() } else { format!("host {host}") }
}

/// The pool's name and what is said of it, in its newest record.
fn recorded_name(records: &BTreeMap<RecordKey, Found>) -> Option<(&str, &PoolRecord)> {
    let named = records.iter().filter_map(|(key, found)| match (key, &found.record) {
        (RecordKey::Pool(name), Some(Record::Pool(record))) => Some((found.version, name, record)),
        _ => None,
    });
    let newest = named.max_by_key(|(version, ..)| *version);
    newest.map(|(_, name, record)| (name.as_str(), record))
}

/// Whether a spare is one of the pool's devices by now.
fn has_stepped_in(spare: &PoolDevice, devices: &[PoolDevice]) -> bool {
    devices.iter().any(|device| device.device == spare.device)
}

/// The members that were found, with those that they replace by the pool's record.
fn members_of(found: &FoundPool, record: &PoolRecord) -> Vec<KnownMember> {
    let mut members = found.members.clone();
    take_replacements(&mut members, &record.members);
    members
}

/// Which others members replace, which leave when these are current; and which are witnesses.
fn take_replacements(members: &mut [KnownMember], recorded: &[KnownMember]) {
    for member in members {
        if let Some(known) = recorded.iter().find(|known| known.uuid == member.uuid) {
            (member.replaces, member.is_witness) = (known.replaces, known.is_witness);
        }
    }
}

fn runs_of(schedule: &str, records: &BTreeMap<RecordKey, Found>) -> Vec<Run> {
    let runs = records.iter().filter_map(|(key, found)| match (key, &found.record) {
        (RecordKey::Run(name, _), Some(Record::Run(run))) if name == schedule => Some(run.clone()),
        _ => None,
    });
    runs.collect()
}
