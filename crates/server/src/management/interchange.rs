//! Configuration import: one file, applied as a whole or not at all.
//!
//! An import works on a copy of configuration and secrets. Everything that is wrong is collected;
//! only if nothing is, the copy takes the place of the original, as one change.

use std::net::SocketAddr;

use api::{
    ConfiguredChap, ConfiguredGroup, ConfiguredHost, ConfiguredMap, ConfiguredPathState,
    ConfiguredPool, ConfiguredSchedule, ConfiguredVolume, CreatePortal, Imported, Problem,
};
use array::{Access, Alerts, Chap, Configuration, HeldLun, Presentation, Secrets, Tagged, Tags};
use block::VolumeId;
use mio::net::TcpListener;

use super::hosts::fold_initiator;
use super::identification::parse_identification;
use super::portals::{PortalChange, parse, parse_state};
use super::problems::{bad_request, conflict};
use super::{Management, Parameters, Progress, find};
use crate::data_plane::DataPlane;
use crate::events::now;
use crate::exports::ExportEvent;
use crate::limits::IMPORT_PROBLEMS_MAX;

/// The form that is written and read.
pub(super) const VERSION: u32 = 1;

impl Management {
    pub(super) fn import(
        &mut self,
        plane: &DataPlane,
        parameters: &Parameters,
        file: api::Configuration,
    ) -> Result<Progress, Problem> {
        let dry_run = flag(parameters, "dry_run")?;
        if file.version != VERSION {
            return Err(bad_request(&format!(
                "the file is of version {}, and this daemon reads version {VERSION}",
                file.version
            )));
        }
        let mut import = Import::new(self, plane);
        import.take(file);
        let Import { array, secrets, changes, problems, listeners, .. } = import;
        if !problems.is_empty() {
            return Err(conflict(&refusal(&problems)));
        }
        if dry_run {
            return Ok(Progress::answer(&Imported { dry_run, changes }));
        }
        let deviating = self.saving.accepted().deviating_identifications();
        let change = |current: &mut Configuration, current_secrets: &mut Secrets| {
            (*current, *current_secrets) = (array, secrets);
            Ok(())
        };
        self.change_with_secrets(change, move |management, plane, ()| {
            management.take_effect(plane, listeners);
            management.tell_identifications(plane, &deviating);
            management.tell_of_import(changes.len());
            Ok(Progress::answer(&Imported { dry_run, changes }))
        })
    }

    fn tell_of_import(&mut self, changes: usize) {
        if changes > 0 {
            let message = format!("{changes} change(s) were imported");
            self.events.note(api::Severity::Information, "configuration".to_owned(), message);
        }
    }

    /// Tells everybody who acts on the configuration.
    fn take_effect(&mut self, plane: &mut DataPlane, listeners: Vec<(SocketAddr, TcpListener)>) {
        let opened = listeners.into_iter();
        let opened = opened.map(|(address, listener)| PortalChange::Open(address, listener));
        opened.for_each(|change| self.portals.change(change));
        self.tell_path_states(plane);
        let volumes = plane.pools.iter().flat_map(|(_, pool)| pool.store.volumes());
        let volumes: Vec<VolumeId> = volumes.map(|volume| volume.id).collect();
        for id in volumes {
            let hidden = self.configuration.presentation(id).reservations_hidden;
            plane.exports.tell(&ExportEvent::ReservationsHidden(id, hidden));
        }
        self.forget_what_was_told();
        self.tell_receivers();
    }
}

/// An import under way.
struct Import<'a> {
    management: &'a Management,
    plane: &'a DataPlane,
    array: Configuration,
    secrets: Secrets,
    changes: Vec<String>,
    problems: Vec<String>,
    listeners: Vec<(SocketAddr, TcpListener)>,
    /// LUN numbers that sessions hold.
    held: Vec<HeldLun>,
}

impl<'a> Import<'a> {
    fn new(management: &'a Management, plane: &'a DataPlane) -> Self {
        Self {
            management,
            plane,
            array: Configuration::clone(management.saving.accepted()),
            secrets: Secrets::clone(management.saving.accepted_secrets()),
            changes: Vec::new(),
            problems: Vec::new(),
            listeners: Vec::new(),
            held: management.lun_rest.held(plane),
        }
    }

    /// Hosts come before the groups, and both before the maps that name them.
    fn take(&mut self, file: api::Configuration) {
        if let Some(identification) = file.identification {
            let outcome = self.take_identification(&identification);
            self.note("identification", outcome);
        }
        for host in file.hosts {
            let outcome = self.take_host(&host);
            self.note(&format!("host {}", host.name), outcome);
        }
        for group in file.groups {
            let outcome = self.take_group(&group);
            self.note(&format!("group {}", group.name), outcome);
        }
        if let Some(chap) = file.discovery {
            let outcome = self.take_discovery(&chap);
            self.note("discovery", outcome);
        }
        for portal in file.portals {
            let outcome = self.take_portal(&portal);
            self.note(&format!("portal {}", portal.address), outcome);
        }
        for state in file.path_states {
            let outcome = self.take_path_state(&state);
            self.note(&format!("portal group {}", state.group), outcome);
        }
        for pool in file.pools {
            let outcome = self.take_pool(&pool);
            self.note(&format!("pool {}", pool.name), outcome);
        }
        for volume in file.volumes {
            let outcome = self.take_volume(&volume);
            self.note(&format!("volume {}", volume.volume), outcome);
        }
        for schedule in file.schedules {
            let outcome = self.take_schedule(&schedule);
            self.note(&format!("schedule {}", schedule.name), outcome);
        }
        let outcome = self.take_alerts(file.alerts);
        self.note("alerts", outcome);
    }

    /// Keeps what an object of the file changed, or why it cannot.
    fn note(&mut self, object: &str, outcome: Result<Option<&'static str>, String>) {
        match outcome {
            Ok(Some(change)) => self.changes.push(format!("{object} {change}")),
            Ok(None) => {}
            Err(reason) => self.problems.push(format!("{object}: {reason}")),
        }
    }

    fn take_identification(&mut self, wanted: &api::Identification) -> Taken {
        let after = parse_identification(wanted).map_err(text)?;
        let before = std::mem::replace(&mut self.array.identification, after);
        Ok((before != after).then_some("is changed"))
    }

    /// Gives an object the tags of the file; says whether they are others.
    fn take_tags(&mut self, object: Tagged<'_>, wanted: Option<&Tags>) -> Result<bool, String> {
        let Some(wanted) = wanted.filter(|wanted| self.array.tags(object) != **wanted) else {
            return Ok(false);
        };
        self.array.set_tags(object, wanted.clone()).map_err(text)?;
        Ok(true)
    }

    fn take_host(&mut self, host: &ConfiguredHost) -> Taken {
        let retagged = self.take_tags(Tagged::Host(&host.name), host.tags.as_ref())?;
        let before = self.array.hosts.get(&host.name).cloned();
        let known = self.secrets.hosts.get(&host.name);
        let chap = host.chap.as_ref().map(|chap| read_chap(chap, known)).transpose()?;
        let folded = host.initiators.iter().map(|name| fold_initiator(name));
        let after = array::Host {
            initiators: folded.collect::<Result<_, _>>()?,
            chap_name: chap.as_ref().map(|chap| chap.initiator.name.clone()),
        };
        if before.as_ref() == Some(&after) && known == chap.as_ref() {
            return Ok(retagged.then_some("is changed"));
        }
        let (change, changed) = match before {
            None => ("is created", self.array.create_host(&host.name, after)),
            Some(_) => ("is changed", self.array.change_host(&host.name, after)),
        };
        changed.map_err(text)?;
        self.secrets.hosts.remove(&host.name);
        self.secrets.hosts.extend(chap.map(|chap| (host.name.clone(), chap)));
        Ok(Some(change))
    }

    fn take_group(&mut self, group: &ConfiguredGroup) -> Taken {
        let retagged = self.take_tags(Tagged::Group(&group.name), group.tags.as_ref())?;
        let hosts = group.hosts.iter().cloned().collect();
        let before = self.array.host_groups.get(&group.name);
        if before == Some(&hosts) {
            return Ok(retagged.then_some("is changed"));
        }
        let change = if before.is_none() { "is created" } else { "is changed" };
        let rest = self.management.lun_rest.rest(&self.held);
        self.array.set_host_group(&group.name, hosts, &rest).map_err(text)?;
        Ok(Some(change))
    }

    fn take_discovery(&mut self, chap: &ConfiguredChap) -> Taken {
        let known = self.secrets.discovery.as_ref();
        let chap = read_chap(chap, known)?;
        let name = Some(chap.initiator.name.clone());
        if known == Some(&chap) && self.array.discovery_chap_name == name {
            return Ok(None);
        }
        self.array.discovery_chap_name = name;
        self.secrets.discovery = Some(chap);
        Ok(Some("wants another proof"))
    }

    /// The address is opened at once, so that one that cannot be refuses the whole.
    fn take_portal(&mut self, portal: &CreatePortal) -> Taken {
        let address = parse(&portal.address).map_err(|problem| problem.detail)?;
        let redirect = portal.redirect.as_deref().map(parse).transpose();
        let redirect = redirect.map_err(|problem| problem.detail)?;
        let wanted = array::Portal { group: portal.target_portal_group_tag, redirect };
        match self.management.portals().get(&address) {
            Some(before) if *before == wanted => return Ok(None),
            Some(_) => {
                return Err("the array has this portal with another group or redirection: delete \
                            it first"
                    .to_owned());
            }
            None => {}
        }
        self.array.create_portal(address, wanted).map_err(text)?;
        let listener = TcpListener::bind(address).map_err(|e| format!("cannot listen: {e}"))?;
        self.listeners.push((address, listener));
        Ok(Some("is created"))
    }

    fn take_path_state(&mut self, wanted: &ConfiguredPathState) -> Taken {
        let state = parse_state(wanted.state);
        if wanted.group == 0 {
            return Err("a target portal group is a number from 1 to 65535".to_owned());
        }
        if self.array.path_state(wanted.group) == state {
            return Ok(None);
        }
        self.array.set_path_state(wanted.group, state);
        Ok(Some("has another state"))
    }

    fn take_pool(&mut self, wanted: &ConfiguredPool) -> Taken {
        let thresholds = control::thresholds::parse(wanted.thresholds);
        self.array.pool(&wanted.name).map_err(text)?;
        thresholds.check().map_err(text)?;
        let retagged = self.take_tags(Tagged::Pool(&wanted.name), wanted.tags.as_ref())?;
        let Some(pool) = self.array.pools.get_mut(&wanted.name) else { return Ok(None) };
        let deletes = wanted.delete_scheduled_snapshots.unwrap_or(pool.delete_scheduled_snapshots);
        let retold = std::mem::replace(&mut pool.thresholds, thresholds) != thresholds;
        let before = std::mem::replace(&mut pool.delete_scheduled_snapshots, deletes);
        Ok(match () {
            () if retold => Some("has other thresholds"),
            () if before && !deletes => Some("deletes no scheduled snapshots any more"),
            () if deletes && !before => Some("deletes scheduled snapshots when it is full"),
            () => retagged.then_some("has other tags"),
        })
    }

    fn take_volume(&mut self, wanted: &ConfiguredVolume) -> Taken {
        let path: array::VolumePath = wanted.volume.parse().map_err(text)?;
        let found = find(self.plane, "volume", &path.pool, &path.volume);
        let (_, id) = found.map_err(|problem| problem.detail)?;
        let mut changed = self.take_tags(Tagged::Volume(id), wanted.tags.as_ref())?;
        for map in &wanted.maps {
            changed |= self.take_map(id, map.lun.or(wanted.lun), map)?;
        }
        if let Some(thresholds) = wanted.thresholds.map(control::thresholds::parse) {
            changed |= self.array.volume_thresholds(id) != thresholds;
            self.array.set_volume_thresholds(id, thresholds).map_err(text)?;
        }
        let before = self.array.presentation(id);
        let own = wanted.identification.as_ref().map(parse_identification).transpose();
        let after = Presentation {
            reservations_hidden: wanted.reservations_hidden.unwrap_or(before.reservations_hidden),
            identification: own.map_err(text)?.or(before.identification),
            ..before
        };
        self.array.set_presentation(id, after);
        Ok((changed || before != after).then_some("is changed"))
    }

    fn take_map(
        &mut self,
        id: VolumeId,
        lun: Option<u16>,
        map: &ConfiguredMap,
    ) -> Result<bool, String> {
        let is_mapped = self.array.hosts_of(id).any(|host| host == map.host);
        let read_only = self.array.read_only_hosts_of(id).any(|host| host == map.host);
        let access = if map.read_only { Access::ReadOnly } else { Access::ReadWrite };
        let rest = self.management.lun_rest.rest(&self.held);
        // It also says where the number is another one than the volume has.
        self.array.map_volume(id, &map.host, (lun, access), &rest).map_err(text)?;
        Ok(!is_mapped || read_only != map.read_only)
    }

    fn take_schedule(&mut self, wanted: &ConfiguredSchedule) -> Taken {
        let schedule =
            control::schedules::parse(&wanted.schedule).map_err(|problem| problem.detail)?;
        let before = self.array.schedules.get(&wanted.name).map(|record| &record.schedule);
        if before == Some(&schedule) {
            return Ok(None);
        }
        let change = if before.is_none() { "is created" } else { "is changed" };
        for volume in &schedule.volumes {
            let found = find(self.plane, "volume", &schedule.pool, volume);
            found.map_err(|problem| problem.detail)?;
        }
        self.array.set_schedule(&wanted.name, schedule, now()).map_err(text)?;
        Ok(Some(change))
    }

    fn take_alerts(&mut self, wanted: api::Alerts) -> Taken {
        let mut merged = self.management.describe_alerts();
        let is_named = |name: &String| wanted.webhooks.iter().any(|webhook| webhook.name == *name);
        merged.webhooks.retain(|webhook| !is_named(&webhook.name));
        merged.webhooks.extend(wanted.webhooks);
        merged.mail = wanted.mail.or(merged.mail);
        let parsed = self.management.parse_alerts(merged);
        let (alerts, secrets): (Alerts, Secrets) = parsed.map_err(|problem| problem.detail)?;
        alerts.check().map_err(text)?;
        let same_secrets =
            secrets.webhooks == self.secrets.webhooks && secrets.mail == self.secrets.mail;
        if alerts == self.array.alerts && same_secrets {
            return Ok(None);
        }
        self.array.alerts = alerts;
        (self.secrets.webhooks, self.secrets.mail) = (secrets.webhooks, secrets.mail);
        Ok(Some("go to other receivers"))
    }
}

/// What an object of the file changes, or why it cannot.
type Taken = Result<Option<&'static str>, String>;

/// An account with the secrets of the file, or those that are known for the same names.
fn read_chap(wanted: &ConfiguredChap, known: Option<&Chap>) -> Result<Chap, String> {
    if let Some(secret) = &wanted.secret {
        let chap = api::Chap {
            user: wanted.user.clone(),
            secret: secret.clone(),
            mutual_user: wanted.mutual_user.clone(),
            mutual_secret: wanted.mutual_secret.clone(),
        };
        return control::chap::parse(chap).map_err(|problem| problem.detail);
    }
    let fits = |known: &&Chap| {
        let target = known.target.as_ref().map(|target| &target.name);
        known.initiator.name == wanted.user && target == wanted.mutual_user.as_ref()
    };
    known.filter(fits).cloned().ok_or_else(|| {
        "the CHAP secret is neither in the file nor known here: export it with secrets, or \
         set it first"
            .to_owned()
    })
}

/// A yes or no in a request's query; no when left out.
pub(super) fn flag(parameters: &Parameters, name: &str) -> Result<bool, Problem> {
    match parameters.get(name) {
        "" | "false" => Ok(false),
        "true" => Ok(true),
        _ => Err(bad_request(&format!("{name} is true or false"))),
    }
}

fn text(error: array::ArrayError) -> String {
    error.to_string()
}

fn refusal(problems: &[String]) -> String {
    let shown = &problems[..problems.len().min(IMPORT_PROBLEMS_MAX)];
    let more = match problems.len() - shown.len() {
        0 => String::new(),
        more => format!("; and {more} more"),
    };
    format!("nothing was changed: {}{more}", shown.join("; "))
}
