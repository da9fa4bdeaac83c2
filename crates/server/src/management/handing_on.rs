//! Requests of administrators that another controller answers, since it has the pools.
//!
//! What the configuration says of volumes, snapshots and hosts is changed where the pools are, and volumes are known
//! only there: whoever asks another controller of the array is answered from there, and with the volumes of all
//! controllers where several have pools. So are tasks.

use std::collections::BTreeSet;

use api::Route;
use control::controllers::Standing;
use control::tasks;
use serde_json::Value;

use super::problems::conflict;
use super::{Management, routing};
use crate::data_plane::DataPlane;
use crate::http::Call;

impl Management {
    /// Hands a request on to the controller that has what it is about; gives it back if it is for this one.
    pub(super) fn hand_on(&mut self, plane: &DataPlane, call: Call) -> Option<Call> {
        let is_for_owner = routing::is_for_owner(call.route);
        if call.is_handed_on {
            if is_for_owner {
                return Some(call);
            }
            let only_here = "that is asked of each controller itself, not through another one";
            // The other controller may have gone away.
            let _ = call.reply.send(Err(conflict(&only_here)));
            return None;
        }
        let Some(link) = self.peers.link.as_ref().filter(|_| is_for_owner) else {
            return Some(call);
        };
        let owner = match task_of(&call).filter(|_| self.controller().is_one_of_several()) {
            Some(number) if number == self.controller().number() => None,
            Some(number) => Some(number).filter(|&number| self.takes_calls(number)),
            None => self.owner_elsewhere(plane, self.pool_of(&call)),
        };
        if routing::is_list_of_all(call.route) {
            let others = self.other_owners(plane);
            let is_of_one = owner.is_some_and(|owner| others == [owner]);
            if !others.is_empty() && !is_of_one {
                link.gather(others, call);
                return None;
            }
        }
        let Some(number) = owner else { return Some(call) };
        link.hand_on(number, call);
        None
    }

    /// The controller that serves a pool, or the first of those that serve any, if none is served here and it takes
    /// requests.
    pub(super) fn owner_elsewhere(&self, plane: &DataPlane, pool: Option<String>) -> Option<u16> {
        let known = &self.configuration.pools;
        let names: Vec<&String> = match &pool {
            Some(name) if known.contains_key(name) => vec![name],
            Some(_) | None => known.keys().collect(),
        };
        let is_closed =
            |name: &&String| matches!(self.told_standing(plane, name), Standing::Closed(_));
        if !names.iter().all(is_closed) {
            return None;
        }
        let uuids = names.iter().filter_map(|name| known.get(*name)).map(|pool| pool.uuid);
        let owners: BTreeSet<u16> = uuids.filter_map(|uuid| self.owner_by_link(&uuid)).collect();
        owners.first().copied().filter(|&owner| self.takes_calls(owner))
    }

    /// The pool that a request is about, if it is about one.
    fn pool_of(&self, call: &Call) -> Option<String> {
        if call.route.row().path.contains("{pool}") {
            return call.parameters.get("pool").cloned();
        }
        match call.route {
            Route::CreateVolume | Route::CreateSnapshots | Route::SetSchedule => pool_in_body(call),
            Route::ShowSchedule | Route::DeleteSchedule => {
                let schedule = call.parameters.get("schedule")?;
                self.configuration.schedule_pool(schedule).map(str::to_owned)
            }
            _ => None,
        }
    }

    /// The controller whose users and tokens count, if that is another one: the first of those that serve pools.
    pub(super) fn authority_elsewhere(&self, plane: &DataPlane) -> Option<u16> {
        let first = self.owners(plane).into_iter().next()?;
        Some(first).filter(|&first| first != self.controller().number() && self.takes_calls(first))
    }
}

/// The controller that has the task that a request is about, if its number says so.
fn task_of(call: &Call) -> Option<u16> {
    let task = call.parameters.get("task").filter(|_| call.route.row().path.contains("{task}"))?;
    Some(tasks::controller_of(task)).filter(|&number| number > 0)
}

/// The pool that the body of a request names.
fn pool_in_body(call: &Call) -> Option<String> {
    let body: Value = serde_json::from_slice(&call.body).ok()?;
    match call.route {
        // Of one pool, each named POOL/NAME.
        Route::SetSchedule => Some(body["volumes"][0].as_str()?.split_once('/')?.0.to_owned()),
        _ => body["pool"].as_str().map(str::to_owned),
    }
}
