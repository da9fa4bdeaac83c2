//! Pool import, pool export and the recovery key.
//!
//! A thread finds the devices, reads what the pool says of itself without writing to it, and makes a
//! draft of the configuration with it; `control` says what collides. Then the draft is saved, and the
//! pool is opened like any other. An export says in the pool that it is given away, closes it, and
//! forgets it with all that is said of its volumes, in one save.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use api::{ExportPool, ImportPool, PoolImport, Problem, Severity};
use array::{Configuration, Record, RecordKey, Secrets};
use block::{DeviceName, VolumeId};
use control::change::Draft;
use control::claims::Purpose;
use control::pool_import::{
    Choices, FoundPool, Hosts, Luns, Members, Owner, Schedules, TargetName, take,
};
use control::pools::parse_device;
use control::reopening::Asked;
use device::Breaking;
use store::{Failure, OpenMode, Outcome};

use super::export::SOCKET;
use super::giving_away::Left;
use super::jobs::Job;
use super::opening::Lacking;
use super::pool_records::open_account;
use super::problems::{bad_request, conflict, failed, forbidden, gone, internal};
use super::{Management, Next, Parameters, PoolStep, Progress, Touched};
use crate::data_directory::DataDirectory;
use crate::data_plane::DataPlane;
use crate::events::now;
use crate::exports::ExportEvent;
use crate::iscsi::Sessions;
use crate::pool_scan::{FoundDevice, by_pool, open_named, read_pool, scan};
use crate::pools::PoolId;
use crate::recovery_key::{KeptKey, RecoveryKey};
use crate::unit_states::{DurableState, UnitReader};

/// Answers of imports whose pools are just being opened, by name of the pool.
pub(super) type Importing = HashMap<String, PoolImport>;

/// A pool that another thread looks for.
pub(super) struct Looking {
    devices: Vec<DeviceName>,
    directory_to_scan: Option<PathBuf>,
    /// Which pool, by name or UUID.
    pool: Option<String>,
    choices: Choices,
    dry_run: bool,
    /// Keys that accounts may be sealed with: the one that was given, and the array's own.
    keys: Vec<RecoveryKey>,
    given: Option<RecoveryKey>,
    array: Arc<Configuration>,
    secrets: Arc<Secrets>,
    units: UnitReader,
    directory: Arc<DataDirectory>,
    /// Generations of membership lists that are known here.
    witnessed: Vec<([u8; 16], u64)>,
}

/// What came of that.
pub(super) struct Looked(Result<Box<Planned>, Problem>);

/// An import that is ready to be saved.
struct Planned {
    report: PoolImport,
    draft: Draft,
    /// What it was made of.
    base: Arc<Configuration>,
    /// Volumes whose logical units keep something.
    units: Vec<VolumeId>,
    volumes: Vec<VolumeId>,
    key: Option<KeptKey>,
    dry_run: bool,
    lacking: Lacking,
    identity: Identity,
}

/// An import that is saved.
pub(super) struct Saved {
    report: PoolImport,
    units: Vec<VolumeId>,
    volumes: Vec<VolumeId>,
    key: Option<KeptKey>,
    lacking: Lacking,
    identity: Identity,
}

/// Whether the array became another one by an import.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Identity {
    /// It is the one that it was.
    Kept,
    /// It is the one that the pool's hosts know.
    Adopted,
}

/// How far an export is.
pub(super) enum Exporting {
    /// The pool says that it is given away, and other controllers forget it.
    Owner,
    /// It is being closed.
    Close,
}

impl Looking {
    pub(super) fn run(self) -> Looked {
        Looked(self.plan().map(Box::new))
    }

    /// What is told if it cannot be done.
    pub(super) fn failed(&self) -> impl FnOnce(Problem) -> Looked + Send + use<> {
        |problem| Looked(Err(problem))
    }

    fn plan(&self) -> Result<Planned, Problem> {
        let found = self.find()?;
        let array = Configuration::clone(&self.array);
        let was_empty = self.secrets.hosts.is_empty() && self.secrets.discovery.is_none();
        let mut draft = Draft { array, secrets: Secrets::clone(&self.secrets) };
        let open = |record: &RecordKey, sealed: &str| open_account(&self.keys, record, sealed);
        let uuid = draft.array.uuid.clone();
        let report = take(&found, &mut draft, (&self.choices, now()), &open);
        let report = PoolImport { dry_run: self.dry_run, ..report };
        let is_done = !self.dry_run && report.collisions.is_empty();
        let units = if is_done { self.put_units(&found)? } else { Vec::new() };
        let becomes_other = draft.array.uuid != uuid;
        let key = self.given.clone().filter(|_| is_done && was_empty && becomes_other);
        let key = key.map(|key| KeptKey { key, shown: true });
        if let Some(key) = &key {
            self.directory.save_recovery_key(key).map_err(|error| internal(&error))?;
        }
        Ok(Planned {
            report,
            draft,
            base: Arc::clone(&self.array),
            units,
            volumes: found.volumes.keys().copied().collect(),
            key,
            dry_run: self.dry_run,
            lacking: match self.choices.members {
                Members::Needed => Lacking::Nothing,
                Members::GivenUp => Lacking::Members,
            },
            identity: if becomes_other { Identity::Adopted } else { Identity::Kept },
        })
    }

    /// The one pool that is meant.
    fn find(&self) -> Result<FoundPool, Problem> {
        let mut devices = open_named(&self.devices).map_err(|error| conflict(&error))?;
        if let Some(directory) = &self.directory_to_scan {
            let is_known = |device: &FoundDevice| self.devices.contains(&device.name);
            let scanned = scan(directory).map_err(|error| bad_request(&error))?;
            devices.extend(scanned.into_iter().filter(|device| !is_known(device)));
        }
        let mut found: Vec<Result<FoundPool, String>> = by_pool(devices)
            .into_values()
            .map(|devices| read_pool(&devices, &self.witnessed))
            .collect();
        if let Some(wanted) = &self.pool {
            let is_wanted = |pool: &FoundPool| {
                names_of(pool).iter().any(|name| name.eq_ignore_ascii_case(wanted))
            };
            found.retain(|pool| pool.as_ref().is_ok_and(is_wanted));
        }
        let count = found.len();
        match (count, found.pop()) {
            (1, Some(Ok(pool))) => Ok(pool),
            (1, Some(Err(why))) => Err(conflict(&why)),
            (_, Some(last)) => {
                found.push(last);
                let names = found.iter().map(|pool| match pool {
                    Ok(pool) => names_of(pool).join(" = "),
                    Err(why) => format!("one that cannot be read: {why}"),
                });
                let names: Vec<String> = names.collect();
                Err(conflict(&format!(
                    "{count} pools were found: {}. Say which one with --pool",
                    names.join("; ")
                )))
            }
            (_, None) => Err(conflict(
                &"no device of a pool was found there that no daemon uses: check the path",
            )),
        }
    }

    /// Puts what logical units keep where volumes find it when they are served.
    fn put_units(&self, found: &FoundPool) -> Result<Vec<VolumeId>, Problem> {
        let mut put = Vec::new();
        for (key, record) in &found.records {
            let (RecordKey::Unit(id), Some(Record::Unit(text))) = (key, &record.record) else {
                continue;
            };
            let id = VolumeId(*id);
            if !found.volumes.contains_key(&id) {
                continue;
            }
            let state: DurableState =
                serde_json::from_str(text).map_err(|error| internal(&error))?;
            self.units.put(id, &state).map_err(|error| internal(&error))?;
            put.push(id);
        }
        Ok(put)
    }
}

/// The name of a pool, as it knows it, and its UUID.
fn names_of(pool: &FoundPool) -> Vec<String> {
    let name = pool.records.iter().find_map(|(key, found)| match key {
        RecordKey::Pool(name) if found.record.is_some() => Some(name.clone()),
        _ => None,
    });
    let uuid = pool.uuid.iter().map(|byte| format!("{byte:02x}")).collect();
    name.into_iter().chain([uuid]).collect()
}

impl Management {
    /// Begins to look for a pool that is to be imported.
    pub(super) fn import_pool(
        &mut self,
        plane: &DataPlane,
        request: ImportPool,
    ) -> Result<Progress, Problem> {
        let devices = request.devices.iter().map(|device| parse_device(device));
        let devices = devices.collect::<Result<Vec<_>, _>>()?;
        if devices.is_empty() && request.scan.is_none() {
            return Err(bad_request(&"name the devices of the pool, or a directory to look in"));
        }
        let given = request.recovery_key.as_ref().map(|key| RecoveryKey::parse(&key.0)).transpose();
        let given = given.map_err(|error| bad_request(&error))?;
        let own = self.records.key.key.clone();
        let (array, secrets) = self.saving.next_with_secrets();
        let looking = Looking {
            devices,
            directory_to_scan: request.scan.as_ref().map(PathBuf::from),
            pool: request.pool.clone(),
            choices: choices(&request, self.records.machine.clone())?,
            dry_run: request.dry_run,
            keys: given.iter().cloned().chain([own]).collect(),
            given,
            array,
            secrets,
            units: plane.unit_states.reader(),
            witnessed: plane.witness.known(),
            directory: Arc::clone(&self.directory),
        };
        Ok(Progress::Job(Job::Look(looking)))
    }

    /// Goes on when a pool was looked for.
    pub(super) fn pool_looked_for(
        &mut self,
        plane: &DataPlane,
        Looked(planned): Looked,
    ) -> Result<Progress, Problem> {
        let Planned { report, draft, base, units, volumes, key, dry_run, lacking, identity } =
            *planned?;
        if dry_run {
            return Ok(Progress::answer(&report));
        }
        if !report.collisions.is_empty() {
            let collisions = report.collisions.iter();
            let collisions: Vec<String> =
                collisions.map(|one| format!("{} ({})", one.what, one.solution)).collect();
            return Err(conflict(&format!("nothing was changed: {}", collisions.join("; "))));
        }
        self.claims.check_free(&report.pool)?;
        self.check_turn_lasts(plane)?;
        if !Arc::ptr_eq(&base, &self.saving.next()) {
            let detail = "the configuration was changed while the pool was looked at: try again";
            return Err(conflict(&detail));
        }
        let version = self.accept(draft, Touched::All);
        let saved = Saved { report, units, volumes, key, lacking, identity };
        let next = Next::Imported(Box::new(saved));
        Ok(Progress::Saved { version, next })
    }

    /// The configuration knows the pool now: it is opened.
    pub(super) fn pool_imported(
        &mut self,
        plane: &mut DataPlane,
        Saved { report, units, volumes, key, lacking, identity }: Saved,
    ) -> Result<Progress, Problem> {
        plane.unit_states.note(units);
        if let Some(key) = key {
            self.records.key = key;
        }
        if identity == Identity::Adopted {
            self.lun_rest.forget_numbers();
        }
        let array = Arc::clone(&self.configuration);
        plane.exports.set_target_name(&array.target_name);
        plane.exports.tell(&ExportEvent::Identification(array.identification));
        plane.exports.tell(&ExportEvent::SwitchesOff(array.switches_off));
        for (group, state) in array.path_states() {
            plane.exports.tell(&ExportEvent::PathState { group, state });
        }
        for volume in volumes.into_iter().filter(|&id| array.hosts_of(id).next().is_some()) {
            self.tell_absent(plane, volume);
        }
        let message = format!("was imported: {} change(s)", report.changes.len());
        self.events.note(Severity::Information, format!("pool {}", report.pool), message);
        for missing in &report.missing {
            let object = format!("pool {}", report.pool);
            let message = format!("was imported without {missing}");
            self.events.note(Severity::Warning, object, message);
        }
        let name = report.pool.clone();
        self.importing.insert(name.clone(), report);
        let how = (OpenMode::ReadWrite, Asked::ByAdministrator);
        self.try_to_open(plane, &name, how, (lacking, Breaking::NONE))
    }

    /// The answer to an import whose pool is open, if there is one.
    pub(super) fn take_import_answer(
        &mut self,
        plane: &DataPlane,
        pool: PoolId,
    ) -> Option<Progress> {
        let name = &plane.pools.get(pool)?.name;
        self.importing.remove(name).map(|report| Progress::answer(&report))
    }

    /// Begins to give a pool away.
    pub(super) fn export_pool(
        &mut self,
        plane: &mut DataPlane,
        sessions: &Sessions,
        (name, request): (&str, &ExportPool),
    ) -> Result<Progress, Problem> {
        let pool = self.ready_pool(plane, name)?;
        if !self.keeps_records(pool) {
            return Err(conflict(&format!(
                "pool '{name}' does not keep what hosts rely on (it is on memory, or its upgrade is \
                 declined), so nothing could be imported elsewhere"
            )));
        }
        let seen = self.sessions_that_see(plane, sessions, pool);
        if seen > 0 && !request.force {
            return Err(conflict(&format!(
                "{seen} session(s) see volumes of pool '{name}': log them out, or take the volumes \
                 from them with --force"
            )));
        }
        if let Some(controller) = self.hosts_elsewhere_see(plane, name).filter(|_| !request.force) {
            return Err(conflict(&format!(
                "hosts that see volumes of pool '{name}' are logged in at controller {controller}: log them \
                 out, or take the volumes from them with --force"
            )));
        }
        if self.works_on(pool) || !self.has_all_records(pool) {
            return Err(conflict(&format!("pool '{name}' is just changing: try again")));
        }
        self.claims.claim(name, Purpose::Export)?;
        self.give_away(plane, pool, PoolStep::ExportPool { pool, stage: Exporting::Owner })
    }

    /// How many sessions see a volume of a pool.
    fn sessions_that_see(&self, plane: &DataPlane, sessions: &Sessions, pool: PoolId) -> usize {
        let array = &self.configuration;
        let volumes = plane.volumes_of(pool);
        let names = volumes.flat_map(|volume| array.hosts_of(volume)).map(str::to_owned);
        let initiators = Touched::Names(names.collect()).initiators(array);
        let sees = |name: &str| initiators.as_ref().is_none_or(|names| names.contains(name));
        sessions.iter().filter(|(_, session)| sees(&session.port.name)).count()
    }

    /// Goes on with an export when the pool has done something.
    pub(super) fn pool_exports(
        &mut self,
        plane: &mut DataPlane,
        (pool, stage): (PoolId, Exporting),
        result: Result<Outcome, Failure>,
    ) -> Result<Progress, Problem> {
        match (stage, result) {
            (Exporting::Owner, Ok(_)) => {
                let ticket = plane.begin(pool, store::Change::Close).ok_or_else(gone)?;
                Ok(Progress::Wait(ticket, PoolStep::ExportPool { pool, stage: Exporting::Close }))
            }
            (Exporting::Owner, Err(failure)) => Err(failed(&failure)),
            (Exporting::Close, result) => {
                if let Err(failure) = result {
                    tracing::warn!(%failure, "a pool did not close cleanly");
                }
                let closed = self.stop_serving(plane, pool).ok_or_else(gone)?;
                let volumes = closed.store.volumes().map(|volume| volume.spec.id).collect();
                let name = closed.name.clone();
                plane.witness.forget(&closed.mirror_names());
                self.in_background(move || drop(closed));
                Ok(self.forget_left(plane, name, volumes, Left::Exported))
            }
        }
    }

    /// Shows the recovery key, over the daemon's own socket only.
    pub(super) fn show_recovery_key(
        &mut self,
        parameters: &Parameters,
    ) -> Result<Progress, Problem> {
        if parameters.get("peer") != SOCKET {
            return Err(forbidden(
                &"the recovery key is shown over the daemon's socket only: ask on the array's own \
                  machine",
            ));
        }
        let key = &mut self.records.key;
        if !key.shown {
            key.shown = true;
            let (directory, kept) = (Arc::clone(&self.directory), key.clone());
            self.in_background(move || {
                if let Err(error) = directory.save_recovery_key(&kept) {
                    tracing::error!(%error, "it is not kept that the recovery key was shown");
                }
            });
        }
        let key = &self.records.key.key;
        Ok(Progress::answer(&api::RecoveryKey { key: key.text(), id: key.id() }))
    }

    /// Tells once that nobody has the recovery key, when there is something that it is needed for.
    pub(super) fn tell_recovery_key(&mut self) {
        let has_accounts = !self.secrets.hosts.is_empty() || self.secrets.discovery.is_some();
        if self.told_recovery_key || self.records.key.shown || !has_accounts {
            return;
        }
        self.told_recovery_key = true;
        let message = "nobody has the recovery key: without it, CHAP secrets are lost with the data \
                       directory. 'gantry recovery-key show' prints it; keep it in another place";
        self.events.note(Severity::Warning, "recovery key".to_owned(), message.to_owned());
    }
}

/// What the request says is to be done about what collides.
fn choices(request: &ImportPool, machine: Option<String>) -> Result<Choices, Problem> {
    let target_name = match (request.adopt_target_name, request.keep_target_name) {
        (true, true) => {
            return Err(bad_request(
                &"the array cannot both adopt the target name and keep its own",
            ));
        }
        (true, false) => TargetName::Adopt,
        (false, true) => TargetName::Keep,
        (false, false) => TargetName::Ask,
    };
    let hosts = match (request.skip_hosts, request.existing_hosts) {
        (true, _) => Hosts::Skip,
        (false, true) => Hosts::KeepExisting,
        (false, false) => Hosts::Bring,
    };
    Ok(Choices {
        rename: request.rename.clone(),
        target_name,
        hosts,
        luns: if request.new_luns { Luns::New } else { Luns::Same },
        schedules: if request.skip_schedules { Schedules::Skip } else { Schedules::Bring },
        members: if request.degraded { Members::GivenUp } else { Members::Needed },
        owner: if request.force { Owner::Overruled } else { Owner::Asked },
        machine,
    })
}
