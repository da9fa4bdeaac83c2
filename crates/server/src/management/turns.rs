//! Turns among controllers of which several have pools, or want to: a request that changes what all of them know waits
//! until it is this one's turn. Each change is made where its pool is, and told on the link; the next turn comes when
//! everybody has heard of it ([`control::turns`]).

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use api::{Problem, Route};
use array::AccessState;
use control::controllers::{Standing, may_change};
use control::limits::LINK_SILENCE;
use control::problems::problem;
use control::turns::{Here, Said, Start, TurnReport, Turns};

use super::{Management, Parameters, routing};
use crate::data_plane::DataPlane;
use crate::http::Call;
use crate::iscsi::Sessions;
use crate::limits::{TURN_CALLS_MAX, TURN_PATIENCE};

/// Turns of this controller, and what waits for one.
#[derive(Default)]
pub(super) struct TakingTurns {
    /// `None` until the link was first looked at.
    turns: Option<Turns>,
    waiting: VecDeque<Waiting>,
    /// Shared by all requests that were begun and may change something.
    under_way: Arc<()>,
}

struct Waiting {
    call: Call,
    since: Instant,
}

/// Held by a request while it may change something.
pub(super) type Changing = Arc<()>;

impl TakingTurns {
    fn may_begin(&self) -> bool {
        self.turns.as_ref().is_some_and(Turns::may_begin)
    }

    fn hears_all(&self) -> bool {
        self.turns.as_ref().is_some_and(Turns::hears_all)
    }

    fn is_needed(&self) -> bool {
        self.turns.as_ref().is_some_and(Turns::needs_turn)
    }
}

impl Management {
    /// A request that changes what all controllers know is begun: until it has ended nobody else has a turn.
    /// Work on the devices of one pool, which may take hours, holds up nobody.
    pub(super) fn begin_changing(&self, route: Route) -> Option<Changing> {
        let is_one_of_several = self.controller().is_one_of_several();
        let changes = routing::is_in_turn(route) || routing::is_of_everything(route);
        let changes = is_one_of_several && !route.only_reads() && changes;
        changes.then(|| Arc::clone(&self.peers.taking_turns.under_way))
    }

    /// Puts a request aside that has to wait for a turn; gives back any other.
    pub(super) fn await_turn(&mut self, plane: &mut DataPlane, call: Call) -> Option<Call> {
        if !self.needs_turn(plane, call.route) || self.may_begin(plane) {
            return Some(call);
        }
        let waiting = &mut self.peers.taking_turns.waiting;
        if waiting.len() >= TURN_CALLS_MAX {
            refuse(call, "too many requests wait for their turn to change the configuration");
            return None;
        }
        waiting.push_back(Waiting { call, since: Instant::now() });
        if waiting.len() == 1 {
            self.look_at_link(plane);
        }
        None
    }

    /// Begins what waited for this controller's turn, and refuses what waited too long.
    pub(crate) fn begin_what_waited(&mut self, plane: &mut DataPlane, sessions: &Sessions) {
        if self.peers.taking_turns.waiting.is_empty() {
            return;
        }
        let waiting = std::mem::take(&mut self.peers.taking_turns.waiting);
        if self.may_begin(plane) || !self.takes_turns(plane) {
            return self.carry_out_all(plane, sessions, waiting);
        }
        let hears_all = self.peers.taking_turns.hears_all();
        let hears_owners = self.hears_owners(plane);
        // One that was just started, or just took a pool, is heard soon.
        let patience = if hears_all && hears_owners { TURN_PATIENCE } else { LINK_SILENCE };
        let is_over = |waiting: &Waiting| waiting.since.elapsed() >= patience;
        let (over, waiting): (VecDeque<_>, VecDeque<_>) = waiting.into_iter().partition(is_over);
        self.peers.taking_turns.waiting = waiting;
        // Where nobody says that they have a pool, whoever asked is told so.
        if !over.is_empty() && (!hears_owners || self.goes_on_alone(plane)) {
            return self.carry_out_all(plane, sessions, over);
        }
        let why = if hears_all {
            "another controller is changing the configuration, or does not know yet what was changed here"
        } else {
            "several controllers have pools, and one of them is not heard on the link or its program takes no \
             turns: wait until it is back, or have one controller take all pools ('gantry controller switch')"
        };
        over.into_iter().for_each(|Waiting { call, .. }| refuse(call, why));
    }

    fn carry_out_all(
        &mut self,
        plane: &mut DataPlane,
        sessions: &Sessions,
        waiting: VecDeque<Waiting>,
    ) {
        waiting.into_iter().for_each(|Waiting { call, .. }| self.carry_out(plane, sessions, call));
    }

    /// Whether it is this controller's turn, and whoever has the other pools is known.
    fn may_begin(&self, plane: &DataPlane) -> bool {
        self.peers.taking_turns.may_begin() && self.hears_owners(plane)
    }

    /// Whether this controller has all pools, and needs no turn as soon as it waits no more for those that are silent.
    fn goes_on_alone(&mut self, plane: &DataPlane) -> bool {
        if self.has_all_pools(plane) {
            let turns = self.peers.taking_turns.turns.as_mut();
            turns.into_iter().for_each(Turns::give_up_silent);
        }
        !self.takes_turns(plane)
    }

    /// Whether a request changes what controllers that have pools at once must do in turn, and somebody may be heard
    /// who takes part.
    fn needs_turn(&self, plane: &DataPlane, route: Route) -> bool {
        self.controller().is_one_of_several()
            && !route.only_reads()
            && self.may_have_turn(plane, route)
            && self.takes_turns(plane)
            && (self.hears_owners(plane) || self.peers.paired().next().is_some())
    }

    /// Whether what this controller may begin now is in its turn.
    pub(super) fn has_turn(&self, plane: &DataPlane, route: Route) -> bool {
        self.may_begin(plane) && self.may_have_turn(plane, route)
    }

    /// Whether a request may have a turn here. What is changed must be recorded in a pool of this controller, that
    /// others hear it: one that has none makes or imports one, or forgets one that nobody has.
    fn may_have_turn(&self, plane: &DataPlane, route: Route) -> bool {
        if self.has_all_pools(plane) {
            return routing::is_in_turn(route) || routing::is_of_everything(route);
        }
        routing::is_in_turn(route) && (routing::is_of_pools(route) || self.serves_some(plane))
    }

    /// That a pool may be added to the configuration, which was begun a while ago.
    ///
    /// # Errors
    /// When it needs a turn, and that has ended: another controller was not heard meanwhile.
    pub(super) fn check_turn_lasts(&self, plane: &DataPlane) -> Result<(), Problem> {
        let may_save = || self.peers.taking_turns.turns.as_ref().is_some_and(Turns::may_save);
        if !self.controller().is_one_of_several() || self.has_all_pools(plane) || may_save() {
            return Ok(());
        }
        Err(problem(
            api::ProblemKind::Busy,
            &"another controller was not heard meanwhile, and may have changed the configuration. Nothing was \
              changed: try again in a moment",
        ))
    }

    /// Whether a request is about a pool that is served here, and about nothing that others know before they have
    /// that pool.
    pub(super) fn is_of_own_pool(
        &self,
        plane: &DataPlane,
        route: Route,
        parameters: &Parameters,
    ) -> bool {
        routing::is_of_one_pool(route)
            && self.told_standing(plane, parameters.get("pool")) == Standing::Served
    }

    /// Whether other controllers have pools, or this one has all and others want some.
    fn takes_turns(&self, plane: &DataPlane) -> bool {
        !self.has_all_pools(plane) || self.peers.taking_turns.is_needed()
    }

    /// Whether each pool that is another controller's is served by one that is heard.
    fn hears_owners(&self, plane: &DataPlane) -> bool {
        let mut elsewhere = self.configuration.pools.iter().filter(|(name, _)| {
            self.told_standing(plane, name).access_state() == AccessState::Standby
        });
        elsewhere.all(|(_, pool)| self.owner_by_link(&pool.uuid).is_some())
    }

    pub(super) fn has_all_pools(&self, plane: &DataPlane) -> bool {
        may_change(self.configuration.pools.keys().map(|name| self.told_standing(plane, name)))
    }

    fn serves_some(&self, plane: &DataPlane) -> bool {
        let mut standings =
            self.configuration.pools.keys().map(|name| self.told_standing(plane, name));
        standings.any(|standing| matches!(standing, Standing::Served | Standing::Changing))
    }

    /// Looks whose turn it is, and says what others are to be told.
    pub(super) fn look_at_turns(&mut self, plane: &DataPlane) -> TurnReport {
        let Some(link) = &self.peers.link else { return TurnReport::default() };
        let own = Start { number: self.controller().number(), life: link.life() };
        let here = Here {
            is_at_rest: self.is_at_rest(plane),
            wants: !self.peers.taking_turns.waiting.is_empty() && self.takes_turns(plane),
            has_all_pools: self.has_all_pools(plane),
        };
        let said =
            self.peers.views.iter().filter(|(_, view)| view.is_paired).map(|(&number, view)| {
                let turns = view.turns.as_ref().zip(view.life).filter(|_| view.is_reachable);
                (number, turns.map(|(turns, life)| Said { life, turns }))
            });
        let others: BTreeMap<u16, Option<Said<'_>>> = said.collect();
        self.peers.taking_turns.turns.get_or_insert_with(|| Turns::new(own)).look(&others, here)
    }

    /// Whether nothing is being changed, and everybody has heard what the pools here have of it.
    fn is_at_rest(&self, plane: &DataPlane) -> bool {
        Arc::strong_count(&self.peers.taking_turns.under_way) == 1
            && !self.saving.is_busy()
            && !self.records.is_busy()
            && self.is_all_told(plane)
    }

    /// Controllers that serve pools, this one among them.
    pub(super) fn owners(&self, plane: &DataPlane) -> BTreeSet<u16> {
        let mut owners = BTreeSet::new();
        for (name, pool) in &self.configuration.pools {
            let serves = self.told_standing(plane, name) == Standing::Served;
            owners.extend(serves.then(|| self.controller().number()));
            owners.extend(self.owner_by_link(&pool.uuid).filter(|_| !serves));
        }
        owners
    }

    /// Other controllers that serve pools and answer requests.
    pub(super) fn other_owners(&self, plane: &DataPlane) -> Vec<u16> {
        let own = self.controller().number();
        let others = self.owners(plane).into_iter().filter(|&owner| owner != own);
        others.filter(|&owner| self.takes_calls(owner)).collect()
    }

    /// Whether a controller answers requests that are handed on.
    pub(super) fn takes_calls(&self, number: u16) -> bool {
        self.peers.views.get(&number).is_some_and(|view| view.takes_calls)
    }
}

fn refuse(call: Call, why: &str) {
    let detail = format!("{why}. Nothing was changed: try again in a moment");
    // Whoever asked may have gone away.
    let _ = call.reply.send(Err(problem(api::ProblemKind::Busy, &detail)));
}
