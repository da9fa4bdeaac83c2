//! Maintenance of one controller of several: it gives its pools to others, as planned switches, and takes
//! none until that is over. A pool that nobody took comes back, and is given again later.

use std::collections::BTreeMap;
use std::time::Duration;

use api::{Maintenance, PathState, Problem, Severity};
use control::controllers::Standing;

use super::problems::conflict;
use super::{Management, Progress};
use crate::data_plane::DataPlane;
use crate::limits::HAND_OVER_PAUSE;

/// Whether a controller is in maintenance, and the pools that it gave to others since that began.
#[derive(Debug)]
pub(super) struct InMaintenance {
    is_on: bool,
    given: BTreeMap<String, Given>,
}

#[derive(Clone, Copy, Debug)]
struct Given {
    at: Duration,
    /// It was looked whether another controller took it.
    is_looked_after: bool,
}

impl InMaintenance {
    pub(super) const fn new() -> Self {
        Self { is_on: false, given: BTreeMap::new() }
    }

    pub(super) const fn is_on(&self) -> bool {
        self.is_on
    }

    /// Whether a pool may be given: not if nobody took it a short time ago.
    fn may_give(&self, pool: &str, now: Duration) -> bool {
        let is_over = |given: &Given| now.saturating_sub(given.at) >= HAND_OVER_PAUSE;
        self.is_on && self.given.get(pool).is_none_or(is_over)
    }

    fn gives(&mut self, pool: &str, at: Duration) {
        self.given.insert(pool.to_owned(), Given { at, is_looked_after: false });
    }

    /// Whether a pool that is not open may be tried: one that was given is tried once, which opens it
    /// again if nobody took it.
    fn may_take(&mut self, pool: &str) -> bool {
        let given = self.given.get_mut(pool);
        let is_back =
            given.is_some_and(|given| !std::mem::replace(&mut given.is_looked_after, true));
        !self.is_on || is_back
    }
}

impl Management {
    /// Begins or ends maintenance of this controller.
    pub(super) fn set_maintenance(
        &mut self,
        plane: &mut DataPlane,
        request: Maintenance,
    ) -> Result<Progress, Problem> {
        if self.peers.link.is_none() {
            return Err(conflict(
                &"this array has one controller, whose pools nobody else could take. Nothing was changed",
            ));
        }
        if request.on {
            self.check_takers(plane)?;
        }
        if request.on != self.peers.maintenance.is_on {
            self.peers.maintenance = InMaintenance { is_on: request.on, ..InMaintenance::new() };
            let message = if request.on {
                "is in maintenance: it gives its pools to other controllers, and takes none"
            } else {
                "is not in maintenance any more"
            };
            let number = self.controller().number();
            self.events.note(
                Severity::Information,
                format!("controller {number}"),
                message.to_owned(),
            );
        }
        if !request.on {
            self.peers.fail_back.given_away.clear();
        }
        self.hand_over(plane);
        Ok(Progress::answer(&request))
    }

    /// Whether there is somebody to take each pool that is here, also if hosts may not use it yet.
    fn check_takers(&self, plane: &DataPlane) -> Result<(), Problem> {
        let names = self.configuration.pools.keys();
        let is_left = |name: &&String| {
            !matches!(self.told_standing(plane, name), Standing::Closed(_))
                && !self.is_told(name, PathState::Standby)
        };
        let left: Vec<&str> = names.filter(is_left).map(String::as_str).collect();
        if left.is_empty() {
            return Ok(());
        }
        Err(conflict(&format!(
            "no other controller is heard that is standby for pool {}: 'gantry controller list' shows \
             them. Nothing was changed",
            left.join(", ")
        )))
    }

    /// Gives pools to other controllers that are standby for them, if this one is in maintenance.
    pub(super) fn hand_over(&mut self, plane: &mut DataPlane) {
        if !self.peers.maintenance.is_on || self.closing {
            return;
        }
        let now = self.clock();
        for name in self.configuration.pools.keys().cloned().collect::<Vec<_>>() {
            let is_served = self.told_standing(plane, &name) == Standing::Served;
            let may_give = self.peers.maintenance.may_give(&name, now);
            if is_served && may_give && self.is_told(&name, PathState::Standby) {
                self.peers.maintenance.gives(&name, now);
                let begun = self.switch_pool(plane, &name);
                self.begin(plane, begun);
            }
        }
    }

    /// Whether a pool that is not open may be tried without being asked for.
    pub(super) fn may_take(&mut self, pool: &str) -> bool {
        self.peers.maintenance.may_take(pool)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pool_is_given_and_comes_back_once_if_nobody_took_it() {
        let start = Duration::from_secs(100);
        let mut maintenance = InMaintenance::new();
        assert!(!maintenance.may_give("p", start), "it is not in maintenance");
        assert!(maintenance.may_take("p"));
        maintenance.is_on = true;
        assert!(!maintenance.may_take("p"), "it takes none");
        assert!(maintenance.may_give("p", start));
        maintenance.gives("p", start);
        assert!(!maintenance.may_give("p", start + HAND_OVER_PAUSE / 2));
        assert!(maintenance.may_take("p"), "it may be that nobody took it");
        assert!(!maintenance.may_take("p"), "once");
        assert!(maintenance.may_give("p", start + HAND_OVER_PAUSE));
        maintenance.gives("p", start + HAND_OVER_PAUSE);
        assert!(maintenance.may_take("p") && !maintenance.may_take("q"));
    }
}
