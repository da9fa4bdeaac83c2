//! Gives pools back to the controllers that should have them, by planned switches; and says on the link
//! which pools this controller would take.

use std::collections::BTreeSet;
use std::time::Duration;

use api::{PathState, Problem};
use control::controllers::Standing;
use control::fail_back::{FailBacks, Policy, Preferred, Verdict};
use control::link::Readiness;
use control::reopening::Trouble;

use super::interchange::flag;
use super::problems::conflict;
use super::{Management, Parameters, Progress, hexadecimal};
use crate::data_plane::DataPlane;
use crate::link::View;

const NOT_HEARD: &str = "is not heard on the link";
const IN_MAINTENANCE: &str = "is in maintenance";
const LACKS_DEVICES: &str = "does not say that it reaches all devices";

/// Pools that are given back, and those that an administrator gave away.
#[derive(Debug, Default)]
pub(super) struct FailingBack {
    waiting: FailBacks,
    /// Pools that an administrator gave away here and that were not open here since: they are not given
    /// back to this controller.
    pub(super) given_away: BTreeSet<String>,
    /// Pools that were given back since the start.
    pub(super) given_back: u64,
}

impl Management {
    /// An administrator gives a pool to another controller.
    pub(super) fn switch_by_hand(
        &mut self,
        plane: &mut DataPlane,
        parameters: &Parameters,
    ) -> Result<Progress, Problem> {
        let name = parameters.get("pool");
        if !flag(parameters, "force")? {
            self.check_others_would_take(name)?;
            self.check_hosts_reach_others(plane, name)?;
        }
        let begun = self.switch_pool(plane, name)?;
        self.peers.fail_back.given_away.insert(name.to_owned());
        Ok(begun)
    }

    /// That another controller would take a pool which is let go, as far as they say so.
    ///
    /// # Errors
    /// When others are paired, and none of them would: why.
    fn check_others_would_take(&self, name: &str) -> Result<(), Problem> {
        let Some(pool) = self.configuration.pools.get(name) else { return Ok(()) };
        let uuid = hexadecimal(&pool.uuid);
        let refusals: Option<Vec<String>> = self
            .peers
            .paired()
            .map(|(number, view)| Some(format!("controller {number} {}", refusal(view, &uuid)?)))
            .collect();
        let Some(refusals) = refusals.filter(|refusals| !refusals.is_empty()) else {
            return Ok(());
        };
        Err(conflict(&format!(
            "nobody would take pool '{name}': {}. Its hosts would wait until it is opened here again; force it if you \
             know better ('gantry controller switch {name} --force', force=true). Nothing was changed",
            refusals.join("; ")
        )))
    }

    /// Which pools this controller would take, as it says on the link.
    pub(super) fn own_readiness(&self) -> Readiness {
        let uuid =
            |name: &String| self.configuration.pools.get(name).map(|pool| hexadecimal(&pool.uuid));
        let is_reached = |name: &&String| {
            let is_held =
                matches!(self.reopening.trouble(name), Some(Trouble::Held | Trouble::Changing));
            is_held && self.unavailable.get(*name).is_some_and(|pool| pool.reaches_all)
        };
        Readiness {
            maintenance: self.peers.maintenance.is_on(),
            reaches: self.configuration.pools.keys().filter(is_reached).filter_map(uuid).collect(),
            given_away: self.peers.fail_back.given_away.iter().filter_map(uuid).collect(),
            hosts: self.told_hosts(),
        }
    }

    /// Gives pools back whose preferred controller has been ready for long enough.
    pub(super) fn fail_back(&mut self, plane: &mut DataPlane) {
        if self.closing || self.peers.link.is_none() {
            return;
        }
        let pools = &self.configuration.pools;
        self.peers.fail_back.given_away.retain(|name| pools.contains_key(name));
        let is_wanted =
            |name: &str| pools.get(name).is_some_and(|pool| !pool.fail_back.is_default());
        self.peers.fail_back.waiting.retain(is_wanted);
        for name in pools.keys().cloned().collect::<Vec<_>>() {
            if self.told_standing(plane, &name) == Standing::Served {
                self.peers.fail_back.given_away.remove(&name);
                self.look_at_preferred(plane, &name);
            }
        }
    }

    /// What is said of a pool that another controller should have.
    fn fail_back_policy(&self, name: &str) -> Option<Policy> {
        let said = self.configuration.pools.get(name)?.fail_back;
        let controller = said.preferred_controller?;
        let after = Duration::from_secs(said.after_seconds?.into());
        (controller != self.controller().number()).then_some(Policy { controller, after })
    }

    fn look_at_preferred(&mut self, plane: &mut DataPlane, name: &str) {
        let Some(policy) = self.fail_back_policy(name) else { return };
        let (preferred, now) = (self.preferred(name, policy.controller), self.clock());
        let Policy { controller, .. } = policy;
        match self.peers.fail_back.waiting.look(name, policy, preferred, now) {
            Verdict::Wait => {}
            Verdict::WaitLonger { kept, wait } => {
                let (kept, wait) = (kept.as_secs(), wait.as_secs());
                let message = format!(
                    "was given back to controller {controller} and came here again after {kept} s: it is \
                     given back when that one has been ready for {wait} s"
                );
                self.warn(name, message);
            }
            Verdict::Give => self.give_back(plane, name, controller),
        }
    }

    /// Gives a pool to its preferred controller; later, if something goes on in it.
    fn give_back(&mut self, plane: &mut DataPlane, name: &str, controller: u16) {
        if self.check_switch(plane, name).is_err() || self.claims.check_free(name).is_err() {
            return;
        }
        let begun = self.switch_pool(plane, name);
        if begun.is_ok() {
            let now = self.clock();
            self.peers.fail_back.waiting.gave(name, now);
            self.peers.fail_back.given_back += 1;
            self.inform(
                name,
                format!("is given back to controller {controller}, which should have it"),
            );
        }
        self.begin(plane, begun);
    }

    /// How the controller that should have a pool is.
    fn preferred(&self, name: &str, controller: u16) -> Preferred {
        let uuid = self.configuration.pools.get(name).map(|pool| hexadecimal(&pool.uuid));
        let view = self.peers.views.get(&controller).filter(|view| view.is_paired);
        let Some((uuid, view)) = uuid.zip(view).filter(|(_, view)| view.is_reachable) else {
            return Preferred::Silent;
        };
        match &view.readiness {
            None => Preferred::Lacking,
            Some(readiness) if readiness.maintenance => Preferred::Maintenance,
            Some(readiness) if readiness.given_away.contains(&uuid) => Preferred::GivenAway,
            Some(_) if !would_take(view, &uuid) => Preferred::Lacking,
            Some(_) if self.is_unreached(name, controller) => Preferred::Unreached,
            Some(_) => Preferred::Ready,
        }
    }

    /// What giving a pool back waits for, if it is open here and is given back.
    pub(super) fn describe_fail_back(&self, plane: &DataPlane, name: &str) -> Option<String> {
        self.peers.link.as_ref()?;
        let Policy { controller, .. } = self.fail_back_policy(name)?;
        if self.told_standing(plane, name) != Standing::Served {
            return None;
        }
        Some(match self.preferred(name, controller) {
            Preferred::Silent => format!("controller {controller} {NOT_HEARD}"),
            Preferred::Maintenance => format!("controller {controller} {IN_MAINTENANCE}"),
            Preferred::GivenAway => format!(
                "an administrator gave it away at controller {controller}: it stays until the daemon \
                 there is started again or its maintenance ends, or 'gantry controller switch {name}' here"
            ),
            Preferred::Lacking => format!("controller {controller} {LACKS_DEVICES}"),
            Preferred::Unreached => format!(
                "none of its hosts is logged in at controller {controller}, where they would lose it: look at \
                 their paths"
            ),
            Preferred::Ready => match self.peers.fail_back.waiting.left(name) {
                Some(Duration::ZERO) => "an operation in the pool is under way".to_owned(),
                Some(left) => {
                    format!("controller {controller} has to be ready for {} s more", left.as_secs())
                }
                None => format!("controller {controller} is ready since now"),
            },
        })
    }
}

/// Why another controller would not take a pool that is let go; `None` if it would, or if its program does not say it.
fn refusal(view: &View, pool: &str) -> Option<&'static str> {
    if !view.is_reachable {
        return Some(NOT_HEARD);
    }
    if view.readiness.as_ref()?.maintenance {
        return Some(IN_MAINTENANCE);
    }
    (!would_take(view, pool)).then_some(LACKS_DEVICES)
}

/// Whether a controller that is heard would take a pool that is let go.
pub(super) fn would_take(view: &View, pool: &str) -> bool {
    let is_ready =
        |readiness: &Readiness| !readiness.maintenance && readiness.reaches.contains(pool);
    view.readiness.as_ref().is_some_and(is_ready) && view.state_of(pool) == Some(PathState::Standby)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_controller_would_take_what_it_reaches_and_else_it_is_said_why_not() {
        let mut view = View::default();
        assert_eq!(refusal(&view, "ab"), Some(NOT_HEARD));
        view.is_reachable = true;
        assert_eq!(refusal(&view, "ab"), None, "an older program does not say it");
        view.pools = Some([("ab".to_owned(), PathState::Standby)].into());
        view.readiness = Some(Readiness::default());
        assert_eq!(refusal(&view, "ab"), Some(LACKS_DEVICES));
        view.readiness =
            Some(Readiness { reaches: ["ab".to_owned()].into(), ..Readiness::default() });
        assert_eq!(refusal(&view, "ab"), None);
        view.readiness =
            view.readiness.map(|readiness| Readiness { maintenance: true, ..readiness });
        assert_eq!(refusal(&view, "ab"), Some(IN_MAINTENANCE));
    }
}
