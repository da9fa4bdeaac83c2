//! Takes the records of pools that other controllers serve, as they tell them on the link: hosts see the same
//! logical units here, of the same size, before a pool is taken over.
//!
//! Nobody listens while a pool is being opened or given up here: what it says is compared with the configuration.
//! A page is taken at a time, and the next one is asked for when it is saved. Where pools are open, too, of what all
//! pools record the later version counts ([`super::turns`]).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

use api::{PathState, Severity};
use array::RecordKey;
use block::VolumeId;
use control::controllers::{Standing, state_of_unknown};
use control::link::{Mark, RecordPage};
use control::pool_records::{Found, tombstone};
use hashbrown::HashMap;

use super::pools::absent_export;
use super::{Management, hexadecimal};
use crate::data_plane::DataPlane;
use crate::exports::ExportEvent;
use crate::limits::{RECORD_PROBLEMS_MAX, RECORDS_HEARD_AGAIN};

/// Volumes in pools of other controllers, and identifiers of those pools.
pub(super) type Elsewhere = HashMap<VolumeId, Arc<str>>;

/// How far the records of others' pools were heard.
#[derive(Default)]
pub(super) struct Hearing {
    /// By the pools' identifiers.
    marks: BTreeMap<String, Mark>,
    /// A page that is being saved.
    taking: Option<Taking>,
    /// Records that need others which were not told yet, and the sizes of their volumes.
    waiting: BTreeMap<RecordKey, Found>,
    waiting_sizes: Vec<(u64, u64)>,
    /// What could not be taken, as administrators were told.
    problems: BTreeSet<String>,
    /// When a page was taken last.
    taken_at: Option<Instant>,
    /// Versions and texts of what all pools record, as others told them: what is taken keeps its version.
    versions: BTreeMap<RecordKey, (u64, String)>,
    /// Volumes in pools that others serve.
    pub(super) elsewhere: Elsewhere,
}

/// A page that was taken.
struct Taking {
    pool: String,
    end: Mark,
    /// The version of the configuration that has it.
    version: u64,
}

impl Hearing {
    /// Versions of what all pools record, as others told them.
    pub(super) fn heard_versions(&self) -> impl Iterator<Item = (&RecordKey, u64)> {
        self.versions.iter().map(|(key, (version, _))| (key, *version))
    }

    /// A pool is known here no more: returns the volumes in it, as far as they were heard.
    pub(super) fn forget_pool(&mut self, uuid: &str) -> Vec<VolumeId> {
        self.marks.remove(uuid);
        let in_pool = self.elsewhere.extract_if(|_, pool| **pool == *uuid);
        in_pool.map(|(volume, _)| volume).collect()
    }

    /// What was taken could not be saved: all is heard anew.
    pub(super) fn begin_anew(&mut self) {
        self.marks.clear();
        self.waiting.clear();
        self.waiting_sizes.clear();
        self.taking = None;
    }
}

impl Management {
    /// How far others were heard; `None` while nobody listens here.
    pub(super) fn heard_records(&self, plane: &DataPlane) -> Option<BTreeMap<String, Mark>> {
        self.listens(plane).then(|| self.peers.hearing.marks.clone())
    }

    /// Whether no pool is about to be open here, or closed.
    fn listens(&self, plane: &DataPlane) -> bool {
        self.configuration.pools.keys().all(|name| match self.told_standing(plane, name) {
            Standing::Closed(Some(_)) => self.claims.check_free(name).is_ok(),
            Standing::Served => true,
            // What it says of its array may be later than what another controller heard of it.
            Standing::Closed(None) | Standing::Changing => false,
        })
    }

    /// Whether a record that another controller tells counts here. What all pools record may have been changed here
    /// since; of its volumes and schedules whoever serves a pool knows best.
    fn counts(&self, plane: &DataPlane, key: &RecordKey, version: Option<u64>) -> bool {
        match key {
            RecordKey::Volume(id) => plane.pool_of(VolumeId(*id)).is_none(),
            RecordKey::Schedule(name) => {
                let pool = self.saving.accepted().schedule_pool(name);
                pool.is_none_or(|pool| plane.pool_named(pool).is_none())
            }
            RecordKey::Array | RecordKey::Host(_) | RecordKey::Group(_) => {
                let is_later = || version.is_some_and(|told| told > self.recorded_version(key));
                !has_pools(plane) || is_later()
            }
            RecordKey::Owner | RecordKey::Pool(_) | RecordKey::Unit(_) | RecordKey::Run(..) => {
                false
            }
        }
    }

    /// The version of a record of what all pools record that says this, if another controller told it.
    pub(super) fn told_version(&self, key: &RecordKey, text: Option<&str>) -> Option<u64> {
        let (version, told) = self.peers.hearing.versions.get(key)?;
        let ended = || tombstone(key);
        let says = text.map_or_else(|| *told == ended(), |text| text == told);
        says.then_some(*version)
    }

    /// Takes the next page that another controller tells, if there is one.
    pub(super) fn hear_records(&mut self, plane: &mut DataPlane) {
        if !self.listens(plane) {
            self.peers.hearing.begin_anew();
            return;
        }
        let saving = &self.saving;
        let hearing = &mut self.peers.hearing;
        if let Some(Taking { pool, end, .. }) =
            hearing.taking.take_if(|taking| saving.is_saved(taking.version))
        {
            hearing.marks.insert(pool, end);
            self.tell_peer_access(plane);
        }
        let taken_at =
            self.peers.hearing.taken_at.filter(|_| self.saving.failing_since().is_some());
        // What changed here is in no record yet whose version could be compared.
        let rests = taken_at.is_some_and(|at| at.elapsed() < RECORDS_HEARD_AGAIN)
            || self.saving.is_busy()
            || self.records.is_busy();
        if self.peers.hearing.taking.is_none()
            && !rests
            && let Some((pool, name, page)) = self.next_page()
        {
            self.take_page(plane, (pool, &name), &page);
        }
    }

    fn next_page(&self) -> Option<(String, String, RecordPage)> {
        let known = &self.saving.accepted().pools;
        let marks = &self.peers.hearing.marks;
        for (_, view) in self.peers.paired() {
            let serves = |pool: &str| view.state_of(pool) == Some(PathState::ActiveOptimized);
            for (pool, page) in &view.records {
                let name = known.iter().find(|(_, known)| hexadecimal(&known.uuid) == *pool);
                let is_next = serves(pool) && page.continues(marks.get(pool).copied());
                if let Some((name, _)) = name.filter(|_| is_next) {
                    return Some((pool.clone(), name.clone(), page.clone()));
                }
            }
        }
        None
    }

    fn take_page(
        &mut self,
        plane: &mut DataPlane,
        (pool, name): (String, &str),
        page: &RecordPage,
    ) {
        let sealer = self.sealer();
        let seal = |key: &RecordKey| sealer.seal(key);
        let counts = |key: &RecordKey, version| self.counts(plane, key, version);
        let news = page.news((self.saving.accepted(), &seal), counts);
        let in_pool = page.volumes().filter(|&id| plane.pool_of(id).is_none());
        let uuid: Arc<str> = pool.as_str().into();
        let in_pool = in_pool.map(|volume| (volume, Arc::clone(&uuid)));
        self.peers.hearing.elsewhere.extend(in_pool);
        let mut found = std::mem::take(&mut self.peers.hearing.waiting);
        found.extend(news);
        let mut sizes = std::mem::take(&mut self.peers.hearing.waiting_sizes);
        sizes.extend(&page.sizes);
        let before: BTreeSet<VolumeId> = self.saving.accepted().mapped_volumes().collect();
        let mut newest = 0;
        for (key, version, text) in page.shared() {
            newest = newest.max(version);
            self.peers.hearing.versions.insert(key, (version, text.clone()));
        }
        // What is changed here next is later than what was heard, also where that says nothing new.
        if found.is_empty() && newest <= self.saving.accepted().generation {
            self.show_sizes(plane, &before, &sizes);
            self.peers.hearing.marks.insert(pool, page.end());
            return;
        }
        self.peers.hearing.taken_at = Some(Instant::now());
        let (version, problems) = self.take_records(plane, name, (&found, page.version));
        self.show_volumes(plane, &before, &sizes);
        self.peers.hearing.taking = Some(Taking { pool, end: page.end(), version });
        if !problems.is_empty() && !page.is_last {
            self.peers.hearing.waiting = found;
            self.peers.hearing.waiting_sizes = sizes;
            return;
        }
        for problem in problems {
            let told = &mut self.peers.hearing.problems;
            if told.len() >= RECORD_PROBLEMS_MAX {
                told.clear();
            }
            if told.insert(problem.clone()) {
                let message = format!("not taken from the controller that serves it: {problem}");
                self.events.note(Severity::Warning, format!("pool {name}"), message);
            }
        }
    }

    /// Front ends hear of volumes that are mapped now and were not before, and the other way round.
    fn show_volumes(
        &self,
        plane: &mut DataPlane,
        before: &BTreeSet<VolumeId>,
        sizes: &[(u64, u64)],
    ) {
        let array = self.saving.accepted();
        let after: BTreeSet<VolumeId> = array.mapped_volumes().collect();
        let access = state_of_unknown(self.standings.values().copied());
        for &volume in after.difference(before) {
            let export = absent_export(volume, array.presentation(volume));
            plane.exports.tell(&ExportEvent::Absent(volume, export));
            plane.exports.tell(&ExportEvent::UnitAccess(volume, access));
        }
        for &volume in before.difference(&after) {
            plane.exports.tell(&ExportEvent::Removed(volume));
        }
        self.show_sizes(plane, &after, sizes);
    }

    /// Front ends hear how large volumes are.
    fn show_sizes(&self, plane: &mut DataPlane, mapped: &BTreeSet<VolumeId>, sizes: &[(u64, u64)]) {
        for &(number, size_bytes) in sizes {
            if mapped.contains(&VolumeId(number)) {
                plane.exports.tell(&ExportEvent::Resized(VolumeId(number), size_bytes));
            }
        }
    }
}

/// Whether pools are open here.
fn has_pools(plane: &DataPlane) -> bool {
    plane.pools.iter().next().is_some()
}
