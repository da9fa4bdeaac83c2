//! Pools that this controller deletes or exports: the other ones forget them before their devices are let go, for whoever
//! knows a pool takes it over as soon as nobody holds it.
//!
//! A pool says itself, too, that it was given away: a controller that was not there when others were told sees it when it
//! opens the pool.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::time::Instant;

use api::{Problem, Severity};
use array::{Configuration, Tagged};
use block::VolumeId;
use control::claims::Purpose;
use control::controllers::Standing;
use control::limits::{LINK_GONE_MAX, LINK_SILENCE};
use store::Outcome;

use super::pools::{UnavailablePool, pool_unavailable};
use super::problems::gone;
use super::{Management, Next, PoolStep, Progress, Touched, hexadecimal};
use crate::data_plane::{DataPlane, Ticket};
use crate::exports::ExportEvent;
use crate::link::View;
use crate::pools::PoolId;

/// Pools that are given away, or were.
#[derive(Default)]
pub(super) struct GivingAway {
    /// Identifiers of those that are just being given away, by name.
    leaving: BTreeMap<String, String>,
    /// Those that others are to forget before work on them goes on.
    waiting: HashMap<Ticket, Waiting>,
    /// Identifiers of those that have left since the start, the newest last.
    left: VecDeque<String>,
}

struct Waiting {
    uuid: String,
    since: Instant,
}

/// How a pool left the array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Left {
    /// It was exported here.
    Exported,
    /// The controller of that number deleted or exported it.
    GivenAwayBy(u16),
}

impl GivingAway {
    /// The pool of that name is configured no more.
    pub(super) fn note_left(&mut self, name: &str) {
        let Some(uuid) = self.leaving.remove(name) else { return };
        if self.left.len() >= LINK_GONE_MAX / 2 {
            self.left.pop_front();
        }
        self.left.push_back(uuid);
    }
}

impl Management {
    /// Has a pool say that it is given away, and the other controllers forget it; then that step goes on.
    pub(super) fn give_away(
        &mut self,
        plane: &mut DataPlane,
        pool: PoolId,
        step: PoolStep,
    ) -> Result<Progress, Problem> {
        let served = plane.pools.get(pool).ok_or_else(gone)?;
        let (name, uuid) = (served.name.clone(), hexadecimal(&served.uuid));
        self.peers.giving_away.leaving.insert(name, uuid);
        self.look_at_link(plane);
        let ticket = plane.new_ticket();
        if self.mark_given_away(plane, pool, ticket)? || self.is_waited_for(plane, pool, ticket) {
            return Ok(Progress::Wait(ticket, step));
        }
        self.finish(plane, step, Ok(Outcome::Changed))
    }

    /// Whether work on a pool waits until others have forgotten it: it goes on by itself then.
    pub(super) fn is_waited_for(
        &mut self,
        plane: &DataPlane,
        pool: PoolId,
        ticket: Ticket,
    ) -> bool {
        let uuid = plane.pools.get(pool).map(|pool| hexadecimal(&pool.uuid));
        let Some(uuid) = uuid.filter(|uuid| self.knowing(uuid).next().is_some()) else {
            return false;
        };
        self.peers.giving_away.waiting.insert(ticket, Waiting { uuid, since: Instant::now() });
        true
    }

    /// The other controllers that know a pool, as far as they are heard.
    fn knowing<'a>(&'a self, uuid: &'a str) -> impl Iterator<Item = u16> + 'a {
        let knows = move |view: &View| view.is_reachable && view.state_of(uuid).is_some();
        self.peers.paired().filter(move |(_, view)| knows(view)).map(|(number, _)| number)
    }

    /// Goes on with pools that others have forgotten, or do not forget.
    pub(super) fn look_at_given_away(&mut self, plane: &mut DataPlane) {
        let claims = &self.claims;
        let is_leaving = |name: &String| {
            claims.is_claimed(name, Purpose::Delete) || claims.is_claimed(name, Purpose::Export)
        };
        self.peers.giving_away.leaving.retain(|name, _| is_leaving(name));
        let is_over = |waiting: &Waiting| {
            waiting.since.elapsed() >= LINK_SILENCE || self.knowing(&waiting.uuid).next().is_none()
        };
        let waiting = self.peers.giving_away.waiting.iter();
        let over: Vec<Ticket> =
            waiting.filter(|(_, waiting)| is_over(waiting)).map(|(&ticket, _)| ticket).collect();
        for ticket in over {
            self.peers.giving_away.waiting.remove(&ticket);
            self.finished(plane, ticket, Ok(Outcome::Changed));
        }
    }

    /// Pools that others are to forget, by their identifiers.
    pub(super) fn told_gone(&self) -> BTreeSet<String> {
        let GivingAway { leaving, left, .. } = &self.peers.giving_away;
        if leaving.is_empty() && left.is_empty() {
            return BTreeSet::new();
        }
        let configured: BTreeSet<String> =
            self.configuration.pools.values().map(|pool| hexadecimal(&pool.uuid)).collect();
        // One that was imported again is here.
        let left = left.iter().filter(|uuid| !configured.contains(*uuid));
        leaving.values().chain(left).cloned().collect()
    }

    /// Forgets pools that other controllers give away.
    pub(super) fn forget_given_away(&mut self, plane: &mut DataPlane) {
        let told = self
            .peers
            .paired()
            .flat_map(|(number, view)| view.gone.iter().map(move |uuid| (number, uuid.clone())));
        for (number, uuid) in told.collect::<Vec<_>>() {
            let pools = self.saving.accepted().pools.iter();
            let known = pools.map(|(name, pool)| (name, pool.uuid));
            let known = known.into_iter().find(|(_, known)| hexadecimal(known) == uuid);
            let Some((name, known)) = known.map(|(name, known)| (name.clone(), known)) else {
                continue;
            };
            let is_closed = matches!(self.told_standing(plane, &name), Standing::Closed(_))
                && self.claims.check_free(&name).is_ok();
            let is_elsewhere = self.owner_by_link(&known).is_some_and(|owner| owner != number);
            if is_closed && !is_elsewhere {
                let volumes = self.peers.hearing.forget_pool(&uuid);
                let forgotten = self.forget_left(plane, name, volumes, Left::GivenAwayBy(number));
                self.begin(plane, Ok(forgotten));
            }
        }
    }

    /// A pool that was opened says that another controller gave it away: nobody is served by it here.
    pub(super) fn close_given_away(&mut self, plane: &mut DataPlane, pool: PoolId, number: u16) {
        let Some((closed, waiting)) = self.close_withheld(plane, pool) else { return };
        let volumes = closed.store.volumes().map(|volume| volume.spec.id).collect();
        let name = closed.name.clone();
        self.in_background(move || drop(closed));
        let why = format!(
            "controller {number} of this array deleted or exported it: 'gantry pool import' takes it back"
        );
        if let Some(work) = waiting {
            self.answer(work.caller, Err(pool_unavailable(&name, &why)));
        }
        let forgotten = self.forget_left(plane, name, volumes, Left::GivenAwayBy(number));
        self.begin(plane, Ok(forgotten));
    }

    /// Forgets a pool that is closed, and all that is said of its volumes.
    pub(super) fn forget_left(
        &mut self,
        plane: &mut DataPlane,
        name: String,
        volumes: Vec<VolumeId>,
        left: Left,
    ) -> Progress {
        for &volume in &volumes {
            plane.exports.tell(&ExportEvent::Removed(volume));
        }
        let mut draft = self.saving.draft();
        forget_pool(&mut draft.array, &name, &volumes);
        let reason = "it was given away, but the configuration cannot be saved".to_owned();
        self.unavailable.insert(name.clone(), UnavailablePool::because(reason));
        let version = self.accept(draft, Touched::All);
        Progress::Saved { version, next: Next::Left { name, volumes, left } }
    }

    /// The configuration knows the pool no more.
    pub(super) fn pool_left(
        &mut self,
        plane: &mut DataPlane,
        name: &str,
        (volumes, left): (Vec<VolumeId>, Left),
    ) -> Progress {
        self.forget_unavailable(plane, name);
        self.note_journal_loss(name, false);
        volumes.into_iter().for_each(|volume| plane.unit_states.forget(volume));
        self.peers.giving_away.note_left(name);
        let message = match left {
            Left::Exported => "was exported: another array may import it".to_owned(),
            Left::GivenAwayBy(number) => {
                format!("controller {number} deleted or exported it: it is not known here any more")
            }
        };
        self.events.note(Severity::Information, format!("pool {name}"), message);
        Progress::done()
    }
}

fn forget_pool(array: &mut Configuration, name: &str, volumes: &[VolumeId]) {
    for &volume in volumes {
        // A volume that nobody sees is not mapped.
        let _ = array.unmap_volume(volume, None, 0);
        array.set_presentation(volume, array::Presentation::default());
        array.forget_volume_thresholds(volume);
        array.forget_lock(volume);
        array.forget_tags(Tagged::Volume(volume));
    }
    let of_pool = array.schedules.iter().filter(|(_, record)| record.schedule.pool == name);
    let schedules: Vec<String> = of_pool.map(|(schedule, _)| schedule.clone()).collect();
    for schedule in schedules {
        array.schedules.remove(&schedule);
    }
    array.pools.remove(name);
    array.imported_from.remove(name);
    array.forget_tags(Tagged::Pool(name));
}
