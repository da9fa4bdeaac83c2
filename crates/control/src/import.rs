//! Configuration import: one file, applied as a whole or not at all.
//!
//! An import works on the draft like every change. Everything that is wrong is collected; if anything
//! is, the draft is thrown away.

use std::collections::BTreeMap;

use api::{
    ConfiguredChap, ConfiguredGroup, ConfiguredHost, ConfiguredMap, ConfiguredPathState,
    ConfiguredPool, ConfiguredSchedule, ConfiguredVolume, CreatePortal, Imported, Problem,
    Severity,
};
use array::{
    Access, ArrayError, Chap, Identification, Presentation, Rest, Share, Tagged, Tags, VolumePath,
};
use block::{SwitchesOff, VolumeId};

use crate::change::{Answer, Applied, ConfigurationChange, Draft, Touched, View};
use crate::exports::ExportEvent;
use crate::hosts::FoldName;
use crate::limits::IMPORT_PROBLEMS_MAX;
use crate::problems::{bad_request, conflict};
use crate::settings::parse_fail_back;
use crate::{
    Effect, Forgotten, alerts, chap, identification, portals, primitives, rate_limits, schedules,
    thresholds,
};

/// The form that is written and read.
pub const VERSION: u32 = 1;

/// A file that is to be imported.
#[derive(Clone, Debug)]
pub struct Import {
    file: api::Configuration,
    dry_run: bool,
    fold: FoldName,
}

impl Import {
    /// Checks whether the form is known. With `dry_run` the answer says that nothing was done; it is
    /// for the server to throw the draft away then.
    ///
    /// # Errors
    /// When it is not.
    pub fn new(file: api::Configuration, dry_run: bool, fold: FoldName) -> Result<Self, Problem> {
        if file.version != VERSION {
            return Err(bad_request(&format!(
                "the file is of version {}, and this daemon reads version {VERSION}",
                file.version
            )));
        }
        Ok(Self { file, dry_run, fold })
    }
}

impl ConfigurationChange for Import {
    fn apply(&self, draft: &mut Draft, now: u64, view: &dyn View) -> Result<Applied, Problem> {
        let deviating = draft.array.deviating_identifications();
        let mut taking = Taking::new(draft, now, view, self.fold);
        taking.take(&self.file);
        let Taking { changes, problems, effects, unsaved, .. } = taking;
        if !problems.is_empty() {
            return Err(conflict(&refusal(&problems)));
        }
        let effects = finish(effects, &deviating, draft, changes.len(), view);
        let answer = Answer::of(&Imported { dry_run: self.dry_run, changes })?;
        Ok(Applied { touched: Touched::All, effects, unsaved, answer })
    }
}

/// What follows of what was taken as a whole.
fn finish(
    mut effects: Vec<Effect>,
    deviating: &BTreeMap<VolumeId, Identification>,
    draft: &Draft,
    changes: usize,
    view: &dyn View,
) -> Vec<Effect> {
    effects.push(Effect::Forget(Forgotten::Fills));
    effects.push(Effect::ConfigureReceivers);
    effects.extend(identification::tell_deviations(deviating, &draft.array, view));
    if changes > 0 {
        let message = format!("{changes} change(s) were imported");
        effects.push(Effect::note(Severity::Information, "configuration".to_owned(), message));
    }
    effects
}

/// What an object of the file changes, or why it cannot.
type Taken = Result<Option<&'static str>, String>;

/// An import under way.
struct Taking<'a> {
    draft: &'a mut Draft,
    now: u64,
    view: &'a dyn View,
    fold: FoldName,
    /// As it was asked for when the import began: looking for what sessions hold takes long.
    held: Vec<array::HeldLun>,
    changes: Vec<String>,
    problems: Vec<String>,
    effects: Vec<Effect>,
    unsaved: Vec<Effect>,
}

impl<'a> Taking<'a> {
    fn new(draft: &'a mut Draft, now: u64, view: &'a dyn View, fold: FoldName) -> Self {
        let (changes, problems) = (Vec::new(), Vec::new());
        let (effects, unsaved) = (Vec::new(), Vec::new());
        let held = view.held();
        Self { draft, now, view, fold, held, changes, problems, effects, unsaved }
    }

    /// Hosts come before the groups, and both before the maps that name them.
    fn take(&mut self, file: &api::Configuration) {
        if let Some(identification) = &file.identification {
            let outcome = self.take_identification(identification);
            self.note("identification", outcome);
        }
        if let Some(wanted) = file.primitives {
            let outcome = self.take_primitives(wanted);
            self.note("primitives", Ok(outcome));
        }
        for host in &file.hosts {
            let outcome = self.take_host(host);
            self.note(&format!("host {}", host.name), outcome);
        }
        for group in &file.groups {
            let outcome = self.take_group(group);
            self.note(&format!("group {}", group.name), outcome);
        }
        if let Some(chap) = &file.discovery {
            let outcome = self.take_discovery(chap);
            self.note("discovery", outcome);
        }
        for portal in &file.portals {
            let outcome = self.take_portal(portal);
            self.note(&format!("portal {}", portal.address), outcome);
        }
        for state in &file.path_states {
            let outcome = self.take_path_state(state);
            self.note(&format!("portal group {}", state.group), outcome);
        }
        for pool in &file.pools {
            let outcome = self.take_pool(pool);
            self.note(&format!("pool {}", pool.name), outcome);
        }
        for volume in &file.volumes {
            let outcome = self.take_volume(volume);
            self.note(&format!("volume {}", volume.volume), outcome);
        }
        for schedule in &file.schedules {
            let outcome = self.take_schedule(schedule);
            self.note(&format!("schedule {}", schedule.name), outcome);
        }
        let outcome = self.take_alerts(&file.alerts);
        self.note("alerts", outcome);
    }

    /// Keeps what an object of the file changed, or why it cannot.
    fn note(&mut self, object: &str, outcome: Taken) {
        match outcome {
            Ok(Some(change)) => self.changes.push(format!("{object} {change}")),
            Ok(None) => {}
            Err(reason) => self.problems.push(format!("{object}: {reason}")),
        }
    }

    fn take_identification(&mut self, wanted: &api::Identification) -> Taken {
        let after = identification::parse(wanted).map_err(text)?;
        let before = std::mem::replace(&mut self.draft.array.identification, after);
        self.effects.push(Effect::Tell(ExportEvent::Identification(after)));
        Ok((before != after).then_some("is changed"))
    }

    fn take_primitives(&mut self, wanted: api::Primitives) -> Option<&'static str> {
        let after = primitives::parse(wanted);
        let before = std::mem::replace(&mut self.draft.array.switches_off, after);
        self.effects.push(Effect::Tell(ExportEvent::SwitchesOff(after)));
        self.note_switched("array".to_owned(), before, after);
        (before != after).then_some("are changed")
    }

    /// Keeps the events about what an object has on and off.
    fn note_switched(&mut self, object: String, before: SwitchesOff, after: SwitchesOff) {
        self.effects.extend(primitives::notes(&object, before, after, primitives::BY_IMPORT));
    }

    /// Gives an object the tags of the file; says whether they are others.
    fn take_tags(&mut self, object: Tagged<'_>, wanted: Option<&Tags>) -> Result<bool, String> {
        let array = &mut self.draft.array;
        let Some(wanted) = wanted.filter(|wanted| array.tags(object) != **wanted) else {
            return Ok(false);
        };
        array.set_tags(object, wanted.clone()).map_err(text)?;
        Ok(true)
    }

    fn take_host(&mut self, host: &ConfiguredHost) -> Taken {
        let retagged = self.take_tags(Tagged::Host(&host.name), host.tags.as_ref())?;
        let Draft { array, secrets } = &mut *self.draft;
        let before = array.hosts.get(&host.name).cloned();
        let off_before = array.switches_off_of_host(&host.name);
        let limited_before = array.limits_of_host(&host.name);
        let known = secrets.hosts.get(&host.name);
        let chap = host.chap.as_ref().map(|chap| read_chap(chap, known)).transpose()?;
        let folded = host.initiators.iter().map(|name| (self.fold)(name));
        let after = array::Host {
            initiators: folded.collect::<Result<_, _>>()?,
            chap_name: chap.as_ref().map(|chap| chap.initiator.name.clone()),
            switches_off: host.primitives.map_or(off_before, primitives::parse),
            limits: host.limits.map_or(limited_before.0, rate_limits::parse),
            share: host.share.map_or(Ok(limited_before.1), Share::new).map_err(text)?,
        };
        let switched = primitives::notes(
            &format!("host {}", host.name),
            off_before,
            after.switches_off,
            primitives::BY_IMPORT,
        );
        self.effects.extend(switched);
        let (object, limited) = (format!("host {}", host.name), (after.limits, after.share));
        let by = rate_limits::BY_IMPORT;
        self.effects.extend(rate_limits::notes(&object, limited_before, limited, by));
        if before.as_ref() == Some(&after) && known == chap.as_ref() {
            return Ok(retagged.then_some("is changed"));
        }
        let (change, changed) = match before {
            None => ("is created", array.create_host(&host.name, after)),
            Some(_) => ("is changed", array.change_host(&host.name, after)),
        };
        changed.map_err(text)?;
        secrets.hosts.remove(&host.name);
        secrets.hosts.extend(chap.map(|chap| (host.name.clone(), chap)));
        Ok(Some(change))
    }

    fn take_group(&mut self, group: &ConfiguredGroup) -> Taken {
        let retagged = self.take_tags(Tagged::Group(&group.name), group.tags.as_ref())?;
        let hosts = group.hosts.iter().cloned().collect();
        let rest = Rest { held: &self.held, ..self.view.rest() };
        let array = &mut self.draft.array;
        let before = array.host_groups.get(&group.name);
        if before == Some(&hosts) {
            return Ok(retagged.then_some("is changed"));
        }
        let change = if before.is_none() { "is created" } else { "is changed" };
        array.set_host_group(&group.name, hosts, &rest).map_err(text)?;
        Ok(Some(change))
    }

    fn take_discovery(&mut self, chap: &ConfiguredChap) -> Taken {
        let Draft { array, secrets } = &mut *self.draft;
        let known = secrets.discovery.as_ref();
        let chap = read_chap(chap, known)?;
        let name = Some(chap.initiator.name.clone());
        if known == Some(&chap) && array.discovery_chap_name == name {
            return Ok(None);
        }
        array.discovery_chap_name = name;
        secrets.discovery = Some(chap);
        Ok(Some("wants another proof"))
    }

    /// The address is opened at once, so that one that cannot be refuses the whole.
    fn take_portal(&mut self, portal: &CreatePortal) -> Taken {
        let parsed = portals::parse_portal(portal).map_err(|problem| problem.detail)?;
        let (address, wanted) = parsed;
        let array = &mut self.draft.array;
        match portals::all(array, &self.view.fixed_portals()).get(&address) {
            Some(before) if *before == wanted => return Ok(None),
            Some(_) => {
                return Err("the array has this portal with another group or redirection: delete \
                            it first"
                    .to_owned());
            }
            None => {}
        }
        array.create_portal(address, wanted).map_err(text)?;
        self.view.listen(address).map_err(|error| format!("cannot listen: {error}"))?;
        self.effects.push(Effect::OpenPortal(address));
        self.unsaved.push(Effect::CloseUnsaved(address));
        Ok(Some("is created"))
    }

    fn take_path_state(&mut self, wanted: &ConfiguredPathState) -> Taken {
        let (array, state) = (&mut self.draft.array, portals::parse_state(wanted.state));
        if wanted.group == 0 {
            return Err("a target portal group is a number from 1 to 65535".to_owned());
        }
        if array.path_state(wanted.group) == state {
            return Ok(None);
        }
        self.effects.push(portals::set_path_state(array, wanted.group, state));
        Ok(Some("has another state"))
    }

    fn take_pool(&mut self, wanted: &ConfiguredPool) -> Taken {
        let thresholds = thresholds::parse(wanted.thresholds);
        self.draft.array.pool(&wanted.name).map_err(text)?;
        thresholds.check().map_err(text)?;
        let fail_back = wanted.fail_back.map(parse_fail_back);
        fail_back.map_or(Ok(()), |fail_back| fail_back.check()).map_err(text)?;
        let retagged = self.take_tags(Tagged::Pool(&wanted.name), wanted.tags.as_ref())?;
        let Some(pool) = self.draft.array.pools.get_mut(&wanted.name) else { return Ok(None) };
        let deletes = wanted.delete_scheduled_snapshots.unwrap_or(pool.delete_scheduled_snapshots);
        let retold = std::mem::replace(&mut pool.thresholds, thresholds) != thresholds;
        let before = std::mem::replace(&mut pool.delete_scheduled_snapshots, deletes);
        let fail_back = fail_back.unwrap_or(pool.fail_back);
        let is_moved = std::mem::replace(&mut pool.fail_back, fail_back) != fail_back;
        Ok(match () {
            () if retold => Some("has other thresholds"),
            () if before && !deletes => Some("deletes no scheduled snapshots any more"),
            () if deletes && !before => Some("deletes scheduled snapshots when it is full"),
            () if is_moved => Some("should be with another controller, or is given back otherwise"),
            () => retagged.then_some("has other tags"),
        })
    }

    fn take_volume(&mut self, wanted: &ConfiguredVolume) -> Taken {
        let path: VolumePath = wanted.volume.parse().map_err(text)?;
        let found = self.view.volume(&path.pool, &path.volume);
        let id = found.map_err(|problem| problem.detail)?;
        let mut changed = self.take_tags(Tagged::Volume(id), wanted.tags.as_ref())?;
        for map in &wanted.maps {
            changed |= self.take_map(id, map.lun.or(wanted.lun), map)?;
        }
        if let Some(thresholds) = wanted.thresholds.map(thresholds::parse) {
            let array = &mut self.draft.array;
            changed |= array.volume_thresholds(id) != thresholds;
            array.set_volume_thresholds(id, thresholds).map_err(text)?;
        }
        changed |= self.take_presentation(id, wanted)?;
        Ok(changed.then_some("is changed"))
    }

    fn take_presentation(
        &mut self,
        id: VolumeId,
        wanted: &ConfiguredVolume,
    ) -> Result<bool, String> {
        let before = self.draft.array.presentation(id);
        let own = wanted.identification.as_ref().map(identification::parse).transpose();
        let after = Presentation {
            reservations_hidden: wanted.reservations_hidden.unwrap_or(before.reservations_hidden),
            identification: own.map_err(text)?.or(before.identification),
            switches_off: wanted.primitives.map_or(before.switches_off, primitives::parse),
            limits: wanted.limits.map_or(before.limits, rate_limits::parse),
            ..before
        };
        after.limits.check().map_err(text)?;
        self.draft.array.set_presentation(id, after);
        let Presentation { reservations_hidden, identification, switches_off, limits, .. } = after;
        if before.reservations_hidden != reservations_hidden {
            let told = ExportEvent::ReservationsHidden(id, reservations_hidden);
            self.effects.push(Effect::Tell(told));
        }
        if before.identification != identification {
            self.effects.push(Effect::Tell(ExportEvent::OwnIdentification(id, identification)));
        }
        if before.switches_off != switches_off {
            self.effects.push(Effect::Tell(ExportEvent::VolumeSwitchesOff(id, switches_off)));
            self.note_switched(self.view.name_of(id), before.switches_off, switches_off);
        }
        let limited = |limits| (limits, Share::default());
        let (was, is, name) = (limited(before.limits), limited(limits), self.view.name_of(id));
        self.effects.extend(rate_limits::notes(&name, was, is, rate_limits::BY_IMPORT));
        Ok(before != after)
    }

    fn take_map(
        &mut self,
        id: VolumeId,
        lun: Option<u16>,
        map: &ConfiguredMap,
    ) -> Result<bool, String> {
        let rest = Rest { held: &self.held, ..self.view.rest() };
        let array = &mut self.draft.array;
        let is_mapped = array.hosts_of(id).any(|host| host == map.host);
        let read_only = array.read_only_hosts_of(id).any(|host| host == map.host);
        let access = if map.read_only { Access::ReadOnly } else { Access::ReadWrite };
        // It also says where the number is another one than the volume has.
        array.map_volume(id, &map.host, (lun, access), &rest).map_err(text)?;
        Ok(!is_mapped || read_only != map.read_only)
    }

    fn take_schedule(&mut self, wanted: &ConfiguredSchedule) -> Taken {
        let schedule = schedules::parse(&wanted.schedule).map_err(|problem| problem.detail)?;
        let array = &mut self.draft.array;
        let before = array.schedules.get(&wanted.name).map(|record| &record.schedule);
        if before == Some(&schedule) {
            return Ok(None);
        }
        let change = if before.is_none() { "is created" } else { "is changed" };
        for volume in &schedule.volumes {
            let found = self.view.volume(&schedule.pool, volume);
            found.map_err(|problem| problem.detail)?;
        }
        array.set_schedule(&wanted.name, schedule, self.now).map_err(text)?;
        Ok(Some(change))
    }

    /// Webhooks that the file does not name stay, and so does the relay of e-mail if it names none.
    fn take_alerts(&mut self, wanted: &api::Alerts) -> Taken {
        let mut merged = alerts::describe(&self.draft.array.alerts);
        let is_named = |name: &String| wanted.webhooks.iter().any(|webhook| webhook.name == *name);
        merged.webhooks.retain(|webhook| !is_named(&webhook.name));
        merged.webhooks.extend(wanted.webhooks.iter().cloned());
        merged.mail = wanted.mail.clone().or(merged.mail);
        let changed = alerts::put(self.draft, merged).map_err(|problem| problem.detail)?;
        Ok(changed.then_some("go to other receivers"))
    }
}

/// An account with the secrets of the file, or those that are known for the same names.
fn read_chap(wanted: &ConfiguredChap, known: Option<&Chap>) -> Result<Chap, String> {
    if let Some(secret) = &wanted.secret {
        let account = api::Chap {
            user: wanted.user.clone(),
            secret: secret.clone(),
            mutual_user: wanted.mutual_user.clone(),
            mutual_secret: wanted.mutual_secret.clone(),
        };
        return chap::parse(account).map_err(|problem| problem.detail);
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

fn text(error: ArrayError) -> String {
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

#[cfg(test)]
mod tests;
