//! Gives pools to the controller that their hosts reach, if none of them reaches this one; and says on the link
//! which hosts are here.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use control::change::Touched;
use control::controllers::Standing;
use control::following::{Following, digest_of_host};
use control::limits::LINK_HOSTS_MAX;

use super::{Management, fail_back, hexadecimal};
use crate::data_plane::DataPlane;
use crate::iscsi::Sessions;
use crate::limits::SESSIONS_LOOKED_AT_MAX;
use crate::link::View;
use crate::pools::PoolId;

/// Where hosts are.
#[derive(Default)]
pub(super) struct FollowingHosts {
    following: Following,
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
    fn are_among(&self, hosts: &BTreeSet<u32>) -> bool {
        match self {
            Self::Everybody => !hosts.is_empty(),
            Self::These(own) => hosts.iter().any(|host| own.contains(host)),
        }
    }
}

impl Management {
    /// Once a second: who is here, and which pools have all their hosts elsewhere.
    pub(crate) fn look_where_hosts_are(&mut self, plane: &mut DataPlane, sessions: &Sessions) {
        if self.closing || self.peers.link.is_none() {
            return;
        }
        self.peers.following.here = hosts_of(sessions);
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
        let uuid = hexadecimal(&self.configuration.pools.get(name)?.uuid);
        // Also one at which an administrator gave it away: they did not mean that nobody has it.
        let would_take = |view: &View| view.is_paired && fail_back::would_take(view, &uuid);
        let mut others = self.peers.views.iter();
        let there = others.find(|(_, view)| would_take(view) && has_hosts(view, hosts))?;
        Some(*there.0)
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
    let connected = sessions.iter().filter(|(_, session)| !session.connections.is_empty());
    let hosts: BTreeSet<u32> =
        connected.map(|(_, session)| digest_of_host(&session.port.name)).collect();
    Some(hosts).filter(|hosts| hosts.len() <= LINK_HOSTS_MAX)
}
