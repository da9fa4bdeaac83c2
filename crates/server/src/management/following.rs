//! Gives pools to the controller that their hosts reach, if none of them reaches this one; and says on the link
//! which hosts are here. Administrators are told of hosts that reach this controller and not another one.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use api::{Problem, Severity};
use control::change::Touched;
use control::controllers::Standing;
use control::following::{Following, digest_of_host};
use control::limits::LINK_HOSTS_MAX;
use control::missing_paths::{MissingPaths, News};

use super::peers::Peers;
use super::problems::conflict;
use super::{Management, fail_back, hexadecimal};
use crate::data_plane::DataPlane;
use crate::iscsi::Sessions;
use crate::limits::{HOSTS_NAMED_MAX, SESSIONS_LOOKED_AT_MAX};
use crate::link::View;
use crate::pools::PoolId;

/// Where hosts are.
#[derive(Default)]
pub(super) struct FollowingHosts {
    following: Following,
    pub(super) missing: MissingPaths,
    /// Those that have sessions here; `None` if they are too many to be told and compared.
    here: Option<BTreeSet<u32>>,
    /// Of pools that are open here, who sees their volumes, by that version of the configuration.
    of_pools: (u64, BTreeMap<String, PoolHosts>),
    /// Pools that were given to other controllers since the start.
    pub(super) given: u64,
}

/// Who sees volumes of a pool.
#[derive(Clone, Debug)]
enum PoolHosts {
    Everybody,
    These(HashSet<u32>),
}

impl PoolHosts {
    fn has(&self, host: u32) -> bool {
        match self {
            Self::Everybody => true,
            Self::These(own) => own.contains(&host),
        }
    }

    fn are_among(&self, hosts: &BTreeSet<u32>) -> bool {
        hosts.iter().any(|host| self.has(*host))
    }
}

impl Management {
    /// Once a second: who is here, and which pools have all their hosts elsewhere.
    pub(crate) fn look_where_hosts_are(&mut self, plane: &mut DataPlane, sessions: &Sessions) {
        if self.closing || self.peers.link.is_none() {
            return;
        }
        self.peers.following.here = hosts_of(sessions);
        self.look_for_missing_paths(sessions);
        let pools: Vec<String> = self.configuration.pools.keys().cloned().collect();
        let (open, others): (Vec<_>, Vec<_>) =
            pools.into_iter().partition(|name| self.told_standing(plane, name) == Standing::Served);
        self.peers.following.following.retain(|name| !others.iter().any(|other| other == name));
        for name in open {
            let hosts_at = self.hosts_elsewhere(plane, &name);
            let now = self.clock();
            if self.peers.following.following.look(&name, hosts_at, now)
                && let Some(controller) = hosts_at
            {
                self.follow_hosts(plane, &name, controller);
            }
        }
    }

    /// Which hosts that are here other controllers do not have, and say so.
    fn look_for_missing_paths(&mut self, sessions: &Sessions) {
        let now = self.clock();
        let Peers { views, following, .. } = &mut self.peers;
        let is_few = following.here.is_some();
        let paired = views.iter().filter(|(_, view)| is_few && view.is_paired);
        let heard: BTreeMap<u16, &BTreeSet<u32>> =
            paired.filter_map(|(number, view)| Some((*number, told_hosts(view)?))).collect();
        following.missing.retain(|number| heard.contains_key(&number));
        if heard.is_empty() {
            return;
        }
        let here = connected(sessions).collect();
        let look = |(number, there): (u16, &BTreeSet<u32>)| {
            (number, following.missing.look(number, &here, there, now))
        };
        let news: Vec<(u16, News)> = heard.into_iter().map(look).collect();
        for (number, news) in news {
            self.tell_of_paths(number, &news);
        }
    }

    fn tell_of_paths(&mut self, controller: u16, News { lacking, complete }: &News) {
        let own = self.controller().number();
        let object = format!("controller {controller}");
        if !lacking.is_empty() {
            let message = format!(
                "{} logged in at controller {own} and not there, so there is no way to a pool that is there: add that one's portals, and \
                 look at the network in front of it",
                words_of(lacking)
            );
            self.events.note(Severity::Warning, object.clone(), message);
        }
        if !complete.is_empty() {
            let message =
                format!("{} logged in there, too, as at controller {own}", words_of(complete));
            self.events.note(Severity::Information, object, message);
        }
    }

    /// The hosts that have sessions here, as other controllers are told.
    pub(super) fn told_hosts(&self) -> Option<BTreeSet<u32>> {
        self.peers.following.here.clone()
    }

    /// Another controller at which the hosts of a pool are and which would take the pool, if none of them is here.
    fn hosts_elsewhere(&mut self, plane: &DataPlane, name: &str) -> Option<u16> {
        // As a take-over by itself, which an administrator may not want.
        self.take_over_after()?;
        let (pool, _) = plane.pool_named(name)?;
        self.learn_hosts_of(plane, name, pool);
        let hosts = self.peers.following.of_pools.1.get(name)?;
        if hosts.are_among(self.peers.following.here.as_ref()?) {
            return None;
        }
        // Also one at which an administrator gave it away: they did not mean that nobody has it.
        let mut takers = self.takers_of(name);
        takers.find(|(_, view)| has_hosts(view, hosts)).map(|(number, _)| number)
    }

    /// The paired controllers that would take a pool.
    fn takers_of(&self, name: &str) -> impl Iterator<Item = (u16, &View)> {
        let uuid = self.configuration.pools.get(name).map(|pool| hexadecimal(&pool.uuid));
        self.peers.paired().filter(move |(_, view)| {
            uuid.as_ref().is_some_and(|uuid| fail_back::would_take(view, uuid))
        })
    }

    /// Whether hosts of a pool are here, and the other controller says that none is there.
    pub(super) fn is_unreached(&self, name: &str, controller: u16) -> bool {
        let known = &self.peers.following;
        let (Some(hosts), Some(here)) = (known.of_pools.1.get(name), &known.here) else {
            return false;
        };
        let view = self.peers.views.get(&controller);
        let is_reached = |view| told_hosts(view).is_none_or(|there| hosts.are_among(there));
        hosts.are_among(here) && !view.is_some_and(is_reached)
    }

    /// That hosts would go on at a controller that takes a pool, as far as it is known where they are.
    ///
    /// # Errors
    /// When all of its hosts that are here have lacked a path to each such controller for a while.
    pub(super) fn check_hosts_reach_others(
        &mut self,
        plane: &DataPlane,
        name: &str,
    ) -> Result<(), Problem> {
        let Some((pool, _)) = plane.pool_named(name) else { return Ok(()) };
        self.learn_hosts_of(plane, name, pool);
        let FollowingHosts { here, of_pools, missing, .. } = &self.peers.following;
        let (Some(here), Some(hosts)) = (here, of_pools.1.get(name)) else { return Ok(()) };
        let own: BTreeSet<u32> = here.iter().copied().filter(|host| hosts.has(*host)).collect();
        let takers: Vec<u16> = self.takers_of(name).map(|(number, _)| number).collect();
        let is_cut_off = |number: &u16| own.is_subset(&missing.lacking(*number).collect());
        if own.is_empty() || takers.is_empty() || !takers.iter().all(is_cut_off) {
            return Ok(());
        }
        Err(conflict(&format!(
            "none of the {} hosts of pool '{name}' that are logged in here is logged in at a controller that \
             would take it, so they would lose their disks: log them in at its portals, or force it \
             ('gantry controller switch {name} --force', force=true). Nothing was changed",
            own.len()
        )))
    }

    /// A controller at which hosts are logged in that see volumes of a pool that is open here, as far as it says.
    pub(super) fn hosts_elsewhere_see(&mut self, plane: &DataPlane, name: &str) -> Option<u16> {
        let (pool, _) = plane.pool_named(name)?;
        self.learn_hosts_of(plane, name, pool);
        let hosts = self.peers.following.of_pools.1.get(name)?;
        let mut paired = self.peers.paired();
        paired.find(|(_, view)| has_hosts(view, hosts)).map(|(number, _)| number)
    }

    fn learn_hosts_of(&mut self, plane: &DataPlane, name: &str, pool: PoolId) {
        let array = &self.configuration;
        let (version, known) = &mut self.peers.following.of_pools;
        if *version != array.generation {
            *version = array.generation;
            known.clear();
        }
        known.entry(name.to_owned()).or_insert_with(|| {
            let volumes = plane.volumes_of(pool);
            let names = volumes.flat_map(|volume| array.hosts_of(volume)).map(str::to_owned);
            match Touched::Names(names.collect()).initiators(array) {
                None => PoolHosts::Everybody,
                Some(names) => PoolHosts::These(names.into_iter().map(digest_of_host).collect()),
            }
        });
    }

    fn follow_hosts(&mut self, plane: &mut DataPlane, name: &str, controller: u16) {
        if self.check_switch(plane, name).is_err() || self.claims.check_free(name).is_err() {
            return;
        }
        let begun = self.switch_pool(plane, name);
        if begun.is_ok() {
            self.peers.following.given += 1;
            let message = format!(
                "is given to controller {controller}: none of its hosts is logged in here any more, and there \
                 they are. Look at the network in front of this controller"
            );
            self.warn(name, message);
        }
        self.begin(plane, begun);
    }
}

/// Which hosts another controller says are there; `None` if it does not.
fn told_hosts(view: &View) -> Option<&BTreeSet<u32>> {
    view.readiness.as_ref()?.hosts.as_ref()
}

fn has_hosts(view: &View, hosts: &PoolHosts) -> bool {
    told_hosts(view).is_some_and(|there| hosts.are_among(there))
}

/// The hosts that have a connection; `None` if they are too many, or have too many sessions.
fn hosts_of(sessions: &Sessions) -> Option<BTreeSet<u32>> {
    if sessions.len() > SESSIONS_LOOKED_AT_MAX {
        return None;
    }
    let hosts: BTreeSet<u32> = connected(sessions).map(digest_of_host).collect();
    Some(hosts).filter(|hosts| hosts.len() <= LINK_HOSTS_MAX)
}

/// Names of the initiators that have a connection.
fn connected(sessions: &Sessions) -> impl Iterator<Item = &str> {
    let connected = sessions.iter().filter(|(_, session)| !session.connections.is_empty());
    connected.map(|(_, session)| session.port.name.as_str())
}

/// Some hosts by name, how many others, and the verb.
fn words_of(hosts: &[String]) -> String {
    let named = &hosts[..hosts.len().min(HOSTS_NAMED_MAX)];
    let others = hosts.len() - named.len();
    let others = if others > 0 { format!(" and {others} others") } else { String::new() };
    let verb = if hosts.len() == 1 { "is" } else { "are" };
    format!("{}{others} {verb}", named.join(", "))
}
