//! Other controllers of the array, as they say on the link how they are: hosts are told what each says of
//! its own ports, administrators who is heard; and this controller says how it is itself.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::Duration;

use api::{PathState, PoolStanding, Problem, Severity};
use array::AccessState;
use axum::body::Bytes;
use control::controllers::Standing;
use control::pool_learning;
use control::pools;
use control::portals::{describe_state, parse_state};
use control::procedures::{self, AfterSave};
use control::reopening::Trouble;
use tokio::sync::oneshot;

use super::fail_back::FailingBack;
use super::following::FollowingHosts;
use super::giving_away::GivingAway;
use super::hearing::Hearing;
use super::maintenance::InMaintenance;
use super::pools::UnavailablePool;
use super::problems::{bad_request, conflict};
use super::take_over::TakingOver;
use super::turns::TakingTurns;
use super::{Management, Parameters, Progress, deliver, hexadecimal, read_or_default, read_secret};
use crate::data_plane::DataPlane;
use crate::exports::ExportEvent;
use crate::http::Reply;
use crate::link::{Link, Own, View};

/// The other controllers of the array.
pub(super) struct Peers {
    /// To them, if there may be any.
    pub(super) link: Option<Link>,
    /// How they are, as hosts and administrators were told last.
    pub(super) views: BTreeMap<u16, View>,
    /// Until when pools are tried often that others served until now.
    pub(super) given: BTreeMap<String, Duration>,
    /// When pools are taken from them.
    pub(super) take_over: TakingOver,
    /// Whether pools are given to them and not taken.
    pub(super) maintenance: InMaintenance,
    /// What they are told of the pools that are served here, and of which version of the configuration and
    /// of how pools are served that is.
    described: (Option<Version>, BTreeMap<String, serde_json::Value>),
    /// Bytes of that in a message.
    described_bytes: usize,
    /// Why pools that they serve cannot be known here, by controller and name.
    obstacles: BTreeMap<(u16, String), String>,
    /// When pools are given back to them.
    pub(super) fail_back: FailingBack,
    pub(super) following: FollowingHosts,
    /// Pools that are given away, so that they forget them.
    pub(super) giving_away: GivingAway,
    /// How far the records were heard of pools that they serve.
    pub(super) hearing: Hearing,
    /// Whose turn it is to change the configuration, while several have pools.
    pub(super) taking_turns: TakingTurns,
}

/// The generation of the configuration, and how pools are served.
type Version = (u64, BTreeMap<String, PathState>);

impl Peers {
    /// Those that are paired with this one.
    pub(super) fn paired(&self) -> impl Iterator<Item = (u16, &View)> {
        let paired = self.views.iter().filter(|(_, view)| view.is_paired);
        paired.map(|(&number, view)| (number, view))
    }

    /// Nothing is known of them yet.
    pub(super) fn of(link: Option<Link>, after: Option<Duration>) -> Self {
        Self {
            link,
            views: BTreeMap::new(),
            given: BTreeMap::new(),
            take_over: TakingOver::new(after),
            maintenance: InMaintenance::new(),
            described: (None, BTreeMap::new()),
            described_bytes: 0,
            obstacles: BTreeMap::new(),
            fail_back: FailingBack::default(),
            following: FollowingHosts::default(),
            giving_away: GivingAway::default(),
            hearing: Hearing::default(),
            taking_turns: TakingTurns::default(),
        }
    }
}

impl Management {
    /// Says how this controller is, and takes what others said since.
    pub(crate) fn look_at_link(&mut self, plane: &mut DataPlane) {
        let turns = self.look_at_turns(plane);
        let Some(link) = &self.peers.link else { return };
        let pools = self.configuration.pools.iter();
        let pools = pools.map(|(name, pool)| {
            let state = self.told_standing(plane, name).access_state();
            (hexadecimal(&pool.uuid), describe_state(state))
        });
        let pools: BTreeMap<String, PathState> = pools.collect();
        let version = (self.configuration.generation, pools.clone());
        if self.peers.described.0.as_ref() != Some(&version) {
            let served = self.configuration.pools.iter().filter(|(_, pool)| {
                pools.get(&hexadecimal(&pool.uuid)) == Some(&PathState::ActiveOptimized)
            });
            let described = pool_learning::describe(served);
            self.peers.described_bytes = described.iter().map(pool_learning::bytes).sum();
            self.peers.described = (Some(version), described);
        }
        link.tell(&Own {
            portals: self.own_portals(),
            pools,
            configured: &self.peers.described.1,
            gone: self.told_gone(),
            readiness: self.own_readiness(),
            records: self.told_records(plane, self.peers.described_bytes),
            heard: self.heard_records(plane),
            turns,
        });
        link.follow(self.authority_elsewhere(plane));
        let views = link.views();
        if views == self.peers.views {
            return self.hear_records(plane);
        }
        let before = std::mem::replace(&mut self.peers.views, views);
        self.tell_who_is_heard(&before);
        self.forget_given_away(plane);
        self.expect_given(&before);
        if self.portals.learn(self.peers.views.iter().map(told_portals).collect()) {
            self.tell_ports(plane);
        }
        let pools = |views: &BTreeMap<u16, View>| -> Vec<_> {
            views.values().map(|view| view.pools.clone()).collect()
        };
        if pools(&before) != pools(&self.peers.views) {
            self.tell_peer_access(plane);
        }
        self.learn_pools(plane);
        self.hear_records(plane);
    }

    /// Takes over what other controllers say of where the devices are of pools that they serve.
    fn learn_pools(&mut self, plane: &mut DataPlane) {
        let told: Vec<_> = self
            .peers
            .paired()
            .flat_map(|(number, view)| view.configured.iter().map(move |told| (number, view, told)))
            .filter(|(_, view, (_, described))| {
                let uuid = pool_learning::uuid_of(described);
                uuid.is_none_or(|uuid| !view.gone.contains(&hexadecimal(&uuid)))
            })
            .map(|(number, _, (name, described))| (number, name.clone(), described.clone()))
            .collect();
        let mut obstacles = BTreeMap::new();
        for (number, name, described) in told {
            match pool_learning::learn(self.saving.accepted(), &name, &described) {
                Ok(Some((name, pool))) => self.learn_pool(plane, number, name, pool),
                Ok(None) => {}
                Err(obstacle) => drop(obstacles.insert((number, name), obstacle)),
            }
        }
        for ((number, name), obstacle) in &obstacles {
            if self.peers.obstacles.get(&(*number, name.clone())) != Some(obstacle) {
                let message = format!(
                    "controller {number} serves it and has other devices than are known here, and they \
                     cannot be: {obstacle}. It cannot be taken over like this"
                );
                self.events.note(Severity::Warning, format!("pool {name}"), message);
            }
        }
        self.peers.obstacles = obstacles;
    }

    fn learn_pool(&mut self, plane: &mut DataPlane, number: u16, name: String, pool: array::Pool) {
        let is_elsewhere = match self.told_standing(plane, &name) {
            Standing::Closed(_) => self.claims.check_free(&name).is_ok(),
            Standing::Served | Standing::Changing => false,
        };
        if !is_elsewhere {
            return;
        }
        let devices: Vec<String> =
            pool.devices.iter().map(|device| device.device.to_string()).collect();
        let message =
            format!("controller {number} serves it on {}: known here now", devices.join(", "));
        self.events.note(Severity::Information, format!("pool {name}"), message);
        if !self.saving.accepted().pools.contains_key(&name) {
            let reason = format!("controller {number} has it");
            self.set_unavailable(&name, UnavailablePool::because(reason), Trouble::Held);
        }
        let change = procedures::Change::Pool(pools::Change::Add(name, pool));
        let saved = self.save_for(&change, AfterSave::Forgotten);
        self.begin(plane, saved);
    }

    /// Portals of this controller that others may tell hosts of.
    fn own_portals(&self) -> BTreeMap<SocketAddr, u16> {
        let portals = self.portals().into_iter().filter(|(address, portal)| {
            portal.redirect.is_none() && !address.ip().is_unspecified()
        });
        portals.map(|(address, portal)| (address, portal.group)).collect()
    }

    fn tell_who_is_heard(&mut self, before: &BTreeMap<u16, View>) {
        for (number, view) in &self.peers.views {
            let was_reachable = before.get(number).is_some_and(|view| view.is_reachable);
            let (severity, message) = match (was_reachable, view.is_reachable) {
                (false, true) => (Severity::Information, "is heard on the link"),
                (true, false) => (
                    Severity::Warning,
                    "is not heard on the link any more: whether it serves is seen by the pools' devices \
                     alone",
                ),
                (true, true) | (false, false) => continue,
            };
            self.events.note(severity, format!("controller {number}"), message.to_owned());
        }
    }

    /// Tells front ends every target port, whether anybody came through it or not: hosts ask for all of
    /// them on each path (REPORT TARGET PORT GROUPS).
    pub(crate) fn tell_ports(&self, plane: &mut DataPlane) {
        let portals = self.portals().into_values();
        let open = portals.filter(|portal| portal.redirect.is_none());
        let own = open.map(|portal| (portal.group, portal.group)).collect();
        let others = self.controller().other_ports();
        plane.exports.tell(&ExportEvent::Ports { own, others });
    }

    /// Tells front ends what other controllers say of how they serve each volume. Of a volume whose pool
    /// was never open here it is not known which pool it is in: they are told what all pools have in
    /// common that are not open.
    pub(super) fn tell_peer_access(&self, plane: &mut DataPlane) {
        if self.peers.link.is_none() {
            return;
        }
        let mut of_closed = Vec::new();
        for (name, pool) in &self.configuration.pools {
            let told = self.told_by_peers(&hexadecimal(&pool.uuid));
            match plane.pool_named(name).map(|(slot, _)| slot) {
                Some(slot) => {
                    for volume in plane.volumes_of(slot).collect::<Vec<_>>() {
                        plane.exports.tell(&ExportEvent::PeerAccess(volume, told.clone()));
                    }
                }
                None => of_closed.push(told),
            }
        }
        let common = of_closed.first().cloned().unwrap_or_default();
        let common =
            if of_closed.iter().all(|told| *told == common) { common } else { BTreeMap::new() };
        for volume in self.configuration.mapped_volumes() {
            if plane.pool_of(volume).is_none() {
                plane.exports.tell(&ExportEvent::PeerAccess(volume, common.clone()));
            }
        }
    }

    /// How other controllers serve a pool, by target port group.
    fn told_by_peers(&self, pool: &str) -> BTreeMap<u16, AccessState> {
        let mut told = BTreeMap::new();
        for (number, view) in &self.peers.views {
            let Some(state) = view.state_of(pool) else { continue };
            let groups: BTreeSet<u16> = view.portals.values().copied().chain([*number]).collect();
            told.extend(groups.into_iter().map(|group| (group, parse_state(state))));
        }
        told
    }

    /// The controller that says on the link that it serves a pool.
    pub(super) fn owner_by_link(&self, pool: &[u8; 16]) -> Option<u16> {
        let uuid = hexadecimal(pool);
        let serves = |view: &View| view.state_of(&uuid) == Some(PathState::ActiveOptimized);
        self.peers.views.iter().find(|(_, view)| serves(view)).map(|(number, _)| *number)
    }

    /// Whether another controller says on the link that it serves a pool so.
    pub(super) fn is_told(&self, pool: &str, state: PathState) -> bool {
        let Some(uuid) = self.configuration.pools.get(pool).map(|pool| hexadecimal(&pool.uuid))
        else {
            return false;
        };
        self.peers.paired().any(|(_, view)| view.state_of(&uuid) == Some(state))
    }

    /// Every controller, and how each pool is served there.
    pub(super) fn list_controllers(&self, plane: &DataPlane) -> Vec<api::Controller> {
        let own = self.controller().group();
        let portals = self.portals().into_iter();
        let portals = portals.filter(|(_, portal)| !self.controller().is_of_another(portal.group));
        let pools = self.configuration.pools.iter().map(|(name, pool)| PoolStanding {
            pool: name.clone(),
            state: Some(describe_state(self.told_standing(plane, name).access_state())),
            preferred: pool.fail_back.preferred_controller == Some(own),
        });
        let this = api::Controller {
            number: own,
            is_this: true,
            portals: portals.map(|(address, _)| address.to_string()).collect(),
            pools: pools.collect(),
            reachable: true,
            ended: false,
            heard_at: None,
            version: Some(env!("CARGO_PKG_VERSION").to_owned()),
            link: self.controller().link().map(|address| address.to_string()),
            paired: true,
            take_over_after: self.take_over_after(),
            maintenance: Some(self.peers.maintenance.is_on()),
            problem: None,
        };
        let mut known = self.controller().known_others();
        for number in self.peers.views.keys() {
            known.entry(*number).or_default();
        }
        let others =
            known.into_iter().map(|(number, portals)| self.describe_peer(number, &portals));
        let mut controllers: Vec<api::Controller> = others.chain([this]).collect();
        controllers.sort_by_key(|controller| controller.number);
        controllers
    }

    fn describe_peer(&self, number: u16, portals: &[SocketAddr]) -> api::Controller {
        let view = self.peers.views.get(&number).cloned().unwrap_or_default();
        let pools = self.configuration.pools.iter().map(|(name, pool)| PoolStanding {
            pool: name.clone(),
            state: view.state_of(&hexadecimal(&pool.uuid)),
            preferred: pool.fail_back.preferred_controller == Some(number),
        });
        api::Controller {
            number,
            is_this: false,
            portals: portals.iter().map(SocketAddr::to_string).collect(),
            pools: pools.collect(),
            reachable: view.is_reachable,
            ended: view.has_ended(),
            heard_at: view.heard_at,
            version: view.version,
            link: view.address,
            paired: view.is_paired,
            take_over_after: None,
            maintenance: view.readiness.map(|readiness| readiness.maintenance),
            problem: view.problem,
        }
    }

    /// A code by which another controller joins this one.
    pub(super) fn pair_controllers(&self, body: &Bytes) -> Result<Progress, Problem> {
        let link = self.peers.link.as_ref().ok_or_else(only_one)?;
        link.pair(&read_or_default(body)?).map(|code| Progress::answer(&code))
    }

    /// Joins the controller that gave a code.
    pub(super) fn join_controller(&self, body: &Bytes, reply: oneshot::Sender<Reply>) {
        let request = read_secret::<api::JoinController>(body);
        match (&self.peers.link, request) {
            (_, Err(problem)) => deliver(reply, Err(problem)),
            (None, Ok(_)) => deliver(reply, Err(only_one())),
            (Some(link), Ok(request)) => link.join(&request.code, reply),
        }
    }

    /// Forgets another controller's certificate and address.
    pub(super) fn forget_controller(&self, parameters: &Parameters, reply: oneshot::Sender<Reply>) {
        let number = parameters.get("controller").parse::<u16>();
        match (&self.peers.link, number) {
            (None, _) => deliver(reply, Err(only_one())),
            (Some(_), Err(_)) => {
                let why = "a controller is named by its number, from 1 to 256";
                deliver(reply, Err(bad_request(&why)));
            }
            (Some(link), Ok(number)) => link.forget(number, reply),
        }
    }
}

fn told_portals((number, view): (&u16, &View)) -> (u16, BTreeMap<SocketAddr, u16>) {
    (*number, view.portals.clone())
}

fn only_one() -> Problem {
    conflict(
        &"this array has one controller: start gantryd with --controller NUMBER and --link IP:PORT first",
    )
}
