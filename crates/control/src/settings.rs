//! Settings of pools, hosts and groups that only the configuration holds: tags, thresholds, whether a
//! full pool deletes scheduled snapshots, whether a pool is opened read-only, which controller should
//! have it.

use api::{Problem, SetFailBack, SetSnapshotDeletion, SetTags};
use array::{ArrayError, Configuration, FailBack, Tagged, Tags, Thresholds};

use crate::change::{Answer, Applied, ConfigurationChange, Draft, Touched, View};
use crate::hosts::{describe_group, describe_host, host};
use crate::problems::refused;
use crate::{Effect, Forgotten, thresholds};

/// A change of what is said of an object, by its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    name: String,
    setting: Setting,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Setting {
    PoolTags(Tags),
    HostTags(Tags),
    GroupTags(Tags),
    PoolThresholds(Thresholds),
    DeleteScheduledSnapshots(bool),
    PoolReadOnly(bool),
    PoolFailBack(FailBack),
}

/// A pool gets these tags and no others.
pub fn tag_pool(name: &str, request: SetTags) -> Change {
    set(name, Setting::PoolTags(request.tags))
}

/// A host gets these tags and no others.
pub fn tag_host(name: &str, request: SetTags) -> Change {
    set(name, Setting::HostTags(request.tags))
}

/// A group of hosts gets these tags and no others.
pub fn tag_group(name: &str, request: SetTags) -> Change {
    set(name, Setting::GroupTags(request.tags))
}

/// Somebody is told how full a pool is by these thresholds from now on.
pub fn set_pool_thresholds(name: &str, request: api::Thresholds) -> Change {
    set(name, Setting::PoolThresholds(thresholds::parse(request)))
}

/// A pool deletes snapshots of schedules when it is full, or does not.
pub fn set_snapshot_deletion(name: &str, request: SetSnapshotDeletion) -> Change {
    let SetSnapshotDeletion { delete_scheduled_snapshots } = request;
    set(name, Setting::DeleteScheduledSnapshots(delete_scheduled_snapshots))
}

/// A pool is opened read-only at start, or takes writes.
pub fn set_read_only(name: &str, read_only: bool) -> Change {
    set(name, Setting::PoolReadOnly(read_only))
}

/// A pool should be with this controller, and is given back to it, or is not.
pub fn set_fail_back(name: &str, request: SetFailBack) -> Change {
    set(name, Setting::PoolFailBack(parse_fail_back(request)))
}

/// What a request says of the controller that should have a pool.
pub const fn parse_fail_back(request: SetFailBack) -> FailBack {
    let SetFailBack { preferred_controller, fail_back_seconds } = request;
    FailBack { preferred_controller, after_seconds: fail_back_seconds }
}

/// The same as it is told.
pub const fn describe_fail_back(fail_back: FailBack) -> SetFailBack {
    let FailBack { preferred_controller, after_seconds } = fail_back;
    SetFailBack { preferred_controller, fail_back_seconds: after_seconds }
}

fn set(name: &str, setting: Setting) -> Change {
    Change { name: name.to_owned(), setting }
}

impl ConfigurationChange for Change {
    fn apply(&self, draft: &mut Draft, _: u64, _: &dyn View) -> Result<Applied, Problem> {
        let effects = self.set(&mut draft.array).map_err(|error| refused(&error))?;
        let name = &self.name;
        let answer = match &self.setting {
            Setting::PoolTags(_)
            | Setting::PoolThresholds(_)
            | Setting::DeleteScheduledSnapshots(_)
            | Setting::PoolReadOnly(_)
            | Setting::PoolFailBack(_) => Answer::Pool(name.clone()),
            Setting::HostTags(_) => Answer::of(&describe_host(&draft.array, &draft.secrets, name))?,
            Setting::GroupTags(_) => Answer::of(&describe_group(&draft.array, name))?,
        };
        Ok(Applied::new(Touched::Nobody, answer).with(effects))
    }
}

impl Change {
    fn set(&self, array: &mut Configuration) -> Result<Vec<Effect>, ArrayError> {
        let name = self.name.as_str();
        match &self.setting {
            Setting::PoolTags(tags) => {
                array.pool(name)?;
                array.set_tags(Tagged::Pool(name), tags.clone())?;
            }
            Setting::HostTags(tags) => {
                host(array, name)?;
                array.set_tags(Tagged::Host(name), tags.clone())?;
            }
            Setting::GroupTags(tags) => {
                let missing = || ArrayError::NotFound { kind: "group", name: name.to_owned() };
                array.host_groups.get(name).ok_or_else(missing)?;
                array.set_tags(Tagged::Group(name), tags.clone())?;
            }
            Setting::PoolThresholds(thresholds) => {
                array.pool(name)?;
                thresholds.check()?;
                array.pools.entry(name.to_owned()).and_modify(|pool| pool.thresholds = *thresholds);
                return Ok(vec![Effect::Forget(Forgotten::PoolFill(name.to_owned()))]);
            }
            Setting::DeleteScheduledSnapshots(deletes) => {
                array.pool(name)?;
                let pool = array.pools.entry(name.to_owned());
                pool.and_modify(|pool| pool.delete_scheduled_snapshots = *deletes);
            }
            Setting::PoolFailBack(fail_back) => {
                array.pool(name)?;
                fail_back.check()?;
                array.pools.entry(name.to_owned()).and_modify(|pool| pool.fail_back = *fail_back);
            }
            Setting::PoolReadOnly(read_only) => array.set_pool_read_only(name, *read_only)?,
        }
        Ok(Vec::new())
    }
}

#[cfg(test)]
mod tests;
