//! Turns: which of several controllers may change the configuration while more than one of them has pools.
//!
//! Each change is made where the pool is that it is about, and all controllers must know of it before another one
//! changes something: two that gave the same LUN number away at once would each be right. So they take turns. The
//! controller with the lowest number gives them, one at a time, when every other one is heard, takes turns from it,
//! and has nothing under way that somebody does not know yet. Who is not heard is waited for: nothing is decided
//! without it, and nobody is elected.
//!
//! A controller that has all pools needs no turn, until one that has none wants to make or import a pool: that one asks
//! for a turn, and gets it when whoever has the pools has heard of it and begins nothing of its own any more.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A start of a controller: its number, and what it drew then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Start {
    /// The number of the controller.
    pub number: u16,
    /// What it drew.
    pub life: u64,
}

/// A turn that the one who gives turns has given away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Given {
    /// To whom.
    pub to: Start,
    /// Its number, higher than of all before.
    pub turn: u64,
}

/// What a controller says of turns.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TurnReport {
    /// From whom it takes turns: the lowest number that it knows; `None` while it does not hear that one.
    pub follows: Option<Start>,
    /// The turn that it has, or that it gave away and that has not come back.
    pub has: Option<u64>,
    /// The last turn that it gave back.
    pub returned: u64,
    /// Whether it changes nothing, and everybody has heard all that it changed.
    pub is_at_rest: bool,
    /// Whether requests wait there.
    pub wants: bool,
    /// The turn that it gives.
    pub gives: Option<Given>,
    /// Whether somebody waits for the turn that it gave, or has: that is given back when nothing is under way.
    pub is_wanted: bool,
}

/// What another controller said last.
#[derive(Clone, Copy, Debug)]
pub struct Said<'a> {
    /// What it drew when it was started.
    pub life: u64,
    /// What it said of turns.
    pub turns: &'a TurnReport,
}

/// How it is here.
#[derive(Clone, Copy, Debug, Default)]
pub struct Here {
    /// As in [`TurnReport`], whether it needs turns or not.
    pub is_at_rest: bool,
    /// As in [`TurnReport`].
    pub wants: bool,
    /// Whether it has all pools, so that it needs no turn unless another one wants or has one.
    pub has_all_pools: bool,
}

/// The turns of one controller.
#[derive(Clone, Debug)]
pub struct Turns {
    own: Start,
    has: Option<u64>,
    returned: u64,
    given: Option<Given>,
    /// Who was given the last turn, so that the next one is another's.
    last: u16,
    is_wanted: bool,
    /// Whether it came with the last look: what waits is begun, though others wait, too.
    is_fresh: bool,
    /// Whether every other controller was heard when it was last looked.
    hears_all: bool,
    /// Whether this controller has all pools.
    has_all_pools: bool,
    /// Whether it begins nothing without a turn though it has all pools: somebody asked for one, or may have before it
    /// was started. That stays so, since who gives turns may know it.
    is_bound: bool,
    /// Whether somebody who is heard wants a turn or has one.
    is_asked: bool,
    /// Whether somebody was silent since this controller got its turn, and all have not been heard at rest since.
    is_doubtful: bool,
}

impl Turns {
    /// A controller that was just started.
    pub const fn new(own: Start) -> Self {
        Self {
            own,
            has: None,
            returned: 0,
            given: None,
            last: 0,
            is_wanted: false,
            is_fresh: false,
            hears_all: false,
            has_all_pools: false,
            is_bound: true,
            is_asked: false,
            is_doubtful: false,
        }
    }

    /// Whether a change waits for a turn here: not while this controller has all pools, and nobody else asked for one.
    pub const fn needs_turn(&self) -> bool {
        !self.has_all_pools || (self.is_bound && (self.has.is_none() || self.is_wanted))
    }

    /// Whether what was begun in a turn may be saved: it is still that turn, and nobody else went on without it.
    pub const fn may_save(&self) -> bool {
        self.has.is_some() && self.hears_all && !self.is_doubtful
    }

    /// This controller has all pools and has waited long enough for those that are silent. What one of them has begun
    /// it does not save ([`Turns::may_save`]).
    pub const fn give_up_silent(&mut self) {
        self.is_bound &= self.hears_all || self.is_asked;
    }

    /// Whether something may be begun that changes the configuration: those who wait come first.
    pub const fn may_begin(&self) -> bool {
        self.may_save() && (self.is_fresh || !self.is_wanted)
    }

    /// Whether every other controller is heard, and takes part.
    pub const fn hears_all(&self) -> bool {
        self.hears_all
    }

    /// Takes what the other controllers said last (`None` of one that is not heard, or knows no turns); returns what
    /// they are to be told.
    pub fn look(&mut self, others: &BTreeMap<u16, Option<Said<'_>>>, here: Here) -> TurnReport {
        self.hears_all = others.values().all(Option::is_some);
        let all_rest = others.values().flatten().all(|said| said.turns.is_at_rest);
        self.is_doubtful = !self.hears_all || (self.is_doubtful && !all_rest);
        self.take_back(others);
        let asks = |said: &Said<'_>| said.turns.wants || said.turns.has.is_some();
        self.has_all_pools = here.has_all_pools;
        self.is_bound &= !others.is_empty();
        self.is_asked = others.values().flatten().any(asks);
        self.is_bound |= self.is_asked;
        let begins_nothing = !self.has_all_pools || self.is_bound;
        let here = Here { is_at_rest: here.is_at_rest && begins_nothing, ..here };
        let first = others.keys().copied().next().unwrap_or(u16::MAX);
        let follows = if self.own.number < first {
            Some(self.own)
        } else {
            let said = others.get(&first).copied().flatten();
            said.map(|said| Start { number: first, life: said.life })
        };
        let leads = follows == Some(self.own);
        let said = others.get(&first).copied().flatten().filter(|_| !leads);
        self.is_wanted = match said {
            Some(said) => said.turns.is_wanted,
            None => leads && others.values().flatten().any(|said| said.turns.wants),
        };
        if self.is_wanted && here.is_at_rest {
            self.returned = self.has.take().unwrap_or(self.returned);
        }
        let had = self.has;
        if let Some(said) = said {
            self.take(said);
        }
        if leads {
            self.give(others, here);
        }
        self.is_fresh = self.has.is_some() && had.is_none();
        // Somebody may have had it since before this controller was started.
        let said = || others.iter().filter_map(|(&number, said)| Some((number, (*said)?)));
        let holder = said().find(|(_, said)| said.turns.has.is_some()).map(|(number, _)| number);
        let holder = self.given.map(|given| given.to.number).or(holder);
        let of_others = |holder: u16| {
            here.wants || said().any(|(number, said)| number != holder && said.turns.wants)
        };
        TurnReport {
            follows,
            has: self.has.or(self.given.map(|given| given.turn)),
            returned: self.returned,
            is_at_rest: here.is_at_rest,
            wants: here.wants && self.has.is_none(),
            gives: self.given,
            is_wanted: leads && holder.is_some_and(of_others),
        }
    }

    /// A turn that was given away has come back; or whoever had it was started anew.
    fn take_back(&mut self, others: &BTreeMap<u16, Option<Said<'_>>>) {
        self.given.take_if(|given| match others.get(&given.to.number) {
            Some(Some(said)) => said.life != given.to.life || said.turns.returned >= given.turn,
            Some(None) => false,
            // It is no controller of this array any more.
            None => true,
        });
    }

    /// Takes the turn that is given to this controller.
    fn take(&mut self, leader: Said<'_>) {
        let given = leader.turns.gives.filter(|given| given.to == self.own);
        let given = given.filter(|given| given.turn > self.returned && self.has.is_none());
        self.has = given.map(|given| given.turn).or(self.has);
    }

    /// Gives the next turn, to itself or another one, if nobody has one and everybody knows everything.
    fn give(&mut self, others: &BTreeMap<u16, Option<Said<'_>>>, here: Here) {
        let is_ready = |said: &Option<Said<'_>>| {
            said.is_some_and(|Said { turns, .. }| {
                turns.follows == Some(self.own) && turns.has.is_none() && turns.is_at_rest
            })
        };
        let is_free = self.has.is_none() && self.given.is_none() && here.is_at_rest;
        if !is_free || !others.values().all(is_ready) {
            return;
        }
        let said = || others.iter().filter_map(|(&number, said)| Some((number, (*said)?)));
        let own = here.wants.then_some(self.own);
        let wanting = said().filter(|(_, said)| said.turns.wants);
        let wanting = wanting.map(|(number, said)| Start { number, life: said.life });
        let distance = |start: &Start| start.number.wrapping_sub(self.last).wrapping_sub(1);
        let Some(next) = wanting.chain(own).min_by_key(distance) else { return };
        let known = said().map(|(_, said)| said.turns.returned).max().unwrap_or(0);
        let turn = known.max(self.returned) + 1;
        self.last = next.number;
        if next == self.own {
            self.has = Some(turn);
        } else {
            self.given = Some(Given { to: next, turn });
        }
    }
}

#[cfg(test)]
mod tests;
