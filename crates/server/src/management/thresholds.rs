//! Space thresholds: watches pools and volumes, and notifies hosts and administrators.

use std::sync::Arc;

use api::{Event, Problem, Severity};
use array::{Configuration, Fill, Thresholds};
use block::VolumeId;
use hashbrown::{HashMap, HashSet};
use store::{Health, Space};

use super::{Management, Parameters, Progress, find_volume};
use crate::backing::BackingState;
use crate::core::Core;
use crate::exports::ExportEvent;
use crate::pool::Pool;
use crate::pools::PoolId;
use crate::token_spaces::is_hidden;

/// What was told last.
#[derive(Debug, Default)]
pub(crate) struct Told {
    pools: HashMap<String, Fill>,
    volumes: HashMap<VolumeId, Fill>,
    /// Pools of whose metadata reserve less than a half is left.
    metadata: HashSet<String>,
    /// Pools that were found read-only.
    read_only: Vec<String>,
    /// Pools whose free space is not all backed.
    backing: HashMap<String, BackingState>,
    /// Pools whose scrub has not ended yet.
    pub(super) scrubbing: HashSet<String>,
}

impl Management {
    /// Compares every pool and volume with its thresholds, and tells hosts and administrators
    /// where one was reached since the last call.
    pub(super) fn check_fill(&mut self, core: &mut Core) {
        for slot in core.pools.ids() {
            self.check_health(core, slot);
            self.check_backing(core, slot);
            self.check_pool_fill(core, slot);
            self.check_metadata_reserve(core, slot);
            self.check_scrub(core, slot);
        }
        let exists = |id: &VolumeId| core.pools.iter().any(|(_, p)| p.store.volume(*id).is_some());
        self.told.volumes.retain(|id, _| exists(id));
        self.told.pools.retain(|name, _| self.configuration.pools.contains_key(name));
        self.told.backing.retain(|name, _| self.configuration.pools.contains_key(name));
        self.told.metadata.retain(|name| self.configuration.pools.contains_key(name));
    }

    pub(super) fn check_health(&mut self, core: &Core, slot: PoolId) {
        let Some(pool) = core.pools.get(slot) else { return };
        if let Health::ReadOnly { reason } = pool.store.health()
            && !self.told.read_only.contains(&pool.name)
        {
            self.told.read_only.push(pool.name.clone());
            self.alarm(&pool.name, format!("is read-only: {reason}"));
        }
    }

    /// Tells when the file system under a pool has less than the pool counts on, when new data is
    /// refused for that, and when it is over.
    fn check_backing(&mut self, core: &mut Core, slot: PoolId) {
        let Some(mut pool) = core.pools.get_mut(slot) else { return };
        pool.look_at_backing();
        let (name, state) = (pool.name.clone(), pool.backing.state);
        let before = self.told.backing.insert(name.clone(), state).unwrap_or_default();
        let message = pool.backing.message(&pool.space()).unwrap_or_default();
        match (before, state) {
            (BackingState::Enough, BackingState::Enough)
            | (BackingState::Short, BackingState::Short)
            | (BackingState::Full, BackingState::Full) => {}
            (_, BackingState::Full) => self.alarm(&name, message),
            (BackingState::Enough, BackingState::Short) => self.warn(&name, message),
            (BackingState::Full, BackingState::Short) => {
                self.inform(&name, format!("new data is taken again: {message}"));
            }
            (BackingState::Full, BackingState::Enough) => {
                let end = "new data is taken again: the file systems under it have space for all";
                self.inform(&name, end.to_owned());
            }
            (BackingState::Short, BackingState::Enough) => {
                self.inform(&name, "the file systems under it have space for all again".to_owned());
            }
        }
    }

    fn check_pool_fill(&mut self, core: &mut Core, slot: PoolId) {
        let Some(mut pool) = core.pools.get_mut(slot) else { return };
        let Some(configuration) = self.configuration.pools.get(&pool.name) else { return };
        let percent = used_percent(&pool.space());
        let before = self.told.pools.get(&pool.name).copied().unwrap_or_default();
        let thresholds = configuration.thresholds;
        pool.soft_percent = thresholds.soft_percent;
        let fill = thresholds.fill(percent, before);
        let name = pool.name.clone();
        self.told.pools.insert(name.clone(), fill);
        drop(pool);
        self.tell_fill(format!("pool {name}"), percent, thresholds, before, fill);
        // Of the soft threshold the device server tells by itself: it is in the mode page.
        if fill > before && fill == Fill::Hard {
            let volumes = core.pools.get(slot).into_iter().flat_map(thin);
            let thin: Vec<VolumeId> = volumes.map(|volume| volume.id).collect();
            thin.into_iter().for_each(|id| core.exports.tell(&ExportEvent::ThresholdReached(id)));
        }
    }

    /// Tells when less than a half is left for locks and metadata of hosts, and when all is again.
    fn check_metadata_reserve(&mut self, core: &Core, slot: PoolId) {
        let Some(pool) = core.pools.get(slot) else { return };
        let Space { metadata_left, metadata_reserve, .. } = pool.store.space();
        let (is_low, is_whole) =
            (metadata_left < metadata_reserve / 2, metadata_left == metadata_reserve);
        let was_low = self.told.metadata.contains(&pool.name);
        let (severity, message) = match was_low {
            false if is_low => {
                self.told.metadata.insert(pool.name.clone());
                let message = "is full, and less than half of its metadata reserve is left: \
                               delete something, unmap, or extend the pool before hosts lose \
                               their locks";
                (Severity::Error, message)
            }
            true if is_whole => {
                self.told.metadata.remove(&pool.name);
                (Severity::Information, "has its whole metadata reserve again")
            }
            _ => return,
        };
        self.events.note(severity, format!("pool {}", pool.name), message.to_owned());
    }

    pub(super) fn check_volume_fill(&mut self, core: &mut Core, pool: PoolId, id: VolumeId) {
        let Some(pool) = core.pools.get(pool) else { return };
        let Some(volume) = pool.store.volume(id).filter(can_run_out) else { return };
        let percent = percent_of(volume.mapped_bytes, volume.size_bytes);
        let before = self.told.volumes.get(&id).copied().unwrap_or_default();
        let thresholds = self.configuration.volume_thresholds(id);
        let fill = thresholds.fill(percent, before);
        if fill == before {
            return;
        }
        let object = format!("volume {}/{}", pool.name, volume.name);
        self.told.volumes.insert(id, fill);
        self.tell_fill(object, percent, thresholds, before, fill);
        if fill > before {
            core.exports.tell(&ExportEvent::ThresholdReached(id));
        }
    }

    fn tell_fill(
        &mut self,
        object: String,
        percent: u8,
        thresholds: Thresholds,
        before: Fill,
        fill: Fill,
    ) {
        let Thresholds { soft_percent, hard_percent } = thresholds;
        let (severity, message) = match fill {
            _ if fill == before => return,
            Fill::Hard => (
                Severity::Error,
                format!("is {percent} % full, the hard threshold is {hard_percent} %"),
            ),
            Fill::Soft if before == Fill::Normal => (
                Severity::Warning,
                format!("is {percent} % full, the soft threshold is {soft_percent} %"),
            ),
            Fill::Soft => (
                Severity::Information,
                format!("is {percent} % full, below the hard threshold of {hard_percent} % again"),
            ),
            Fill::Normal => (
                Severity::Information,
                format!("is {percent} % full, below the soft threshold of {soft_percent} % again"),
            ),
        };
        self.events.note(severity, object, message);
    }

    pub(super) fn set_pool_thresholds(
        &mut self,
        name: &str,
        request: api::Thresholds,
    ) -> Result<Progress, Problem> {
        let thresholds = parse_thresholds(request);
        let change = |array: &mut Configuration| {
            array.pool(name)?;
            thresholds.check()?;
            let pool = array.pools.get_mut(name);
            pool.into_iter().for_each(|pool| pool.thresholds = thresholds);
            Ok(name.to_owned())
        };
        self.change_unseen(change, |management, core, name| {
            management.told.pools.remove(&name);
            Ok(Progress::answer(&management.describe_pool(core, &name)?))
        })
    }

    pub(super) fn set_volume_thresholds(
        &mut self,
        core: &Core,
        parameters: &Parameters,
        request: api::Thresholds,
    ) -> Result<Progress, Problem> {
        let (pool, id) = find_volume(core, parameters)?;
        self.change_unseen(
            |array| array.set_volume_thresholds(id, parse_thresholds(request)),
            move |management, core, ()| {
                management.told.volumes.remove(&id);
                management.show_volume(core, pool, id)
            },
        )
    }

    /// Thresholds may be others now: whoever was told is told again.
    pub(super) fn forget_what_was_told(&mut self) {
        self.told.pools.clear();
        self.told.volumes.clear();
    }

    pub(super) fn pool_fill(&self, name: &str) -> api::Fill {
        describe_fill(self.told.pools.get(name).copied().unwrap_or_default())
    }

    pub(super) fn volume_fill(&self, id: VolumeId) -> api::Fill {
        describe_fill(self.told.volumes.get(&id).copied().unwrap_or_default())
    }

    /// The latest events, oldest first.
    pub(super) fn list_events(&self) -> Progress {
        let events: Vec<Arc<Event>> = self.events.latest().cloned().collect();
        Progress::later(move || {
            events.into_iter().map(Arc::unwrap_or_clone).collect::<Vec<Event>>()
        })
    }

    /// A pool takes writes again: when it stops doing so, that is told again.
    pub(super) fn forget_read_only(&mut self, pool: &str) {
        self.told.read_only.retain(|name| name != pool);
        self.told.scrubbing.remove(pool);
    }

    /// Notes something about a pool that is good to know.
    pub(super) fn inform(&mut self, pool: &str, message: String) {
        self.events.note(Severity::Information, format!("pool {pool}"), message);
    }

    /// Notes something about a pool that an administrator should look into.
    pub(super) fn warn(&mut self, pool: &str, message: String) {
        self.events.note(Severity::Warning, format!("pool {pool}"), message);
    }

    /// Notes that a pool does not serve as it should.
    pub(super) fn alarm(&mut self, pool: &str, message: String) {
        self.events.note(Severity::Error, format!("pool {pool}"), message);
    }
}

/// Volumes that may run out of space while a host writes to them.
fn thin(pool: &Pool) -> impl Iterator<Item = &store::Volume> {
    pool.store.volumes().filter(can_run_out)
}

fn can_run_out(volume: &&store::Volume) -> bool {
    !volume.reserved && !volume.snapshot && !is_hidden(volume)
}

/// What is used or promised, in hundredths of what is backed and not reserve, rounded down.
pub(super) fn used_percent(space: &Space) -> u8 {
    percent_of(space.used + space.promised, space.total - space.reserve - space.unbacked)
}

fn percent_of(part: u64, whole: u64) -> u8 {
    let percent = u128::from(part) * 100 / u128::from(whole.max(1));
    u8::try_from(percent.min(100)).expect("at most 100")
}

pub(super) fn parse_thresholds(thresholds: api::Thresholds) -> Thresholds {
    let api::Thresholds { soft_percent, hard_percent } = thresholds;
    Thresholds { soft_percent, hard_percent }
}

pub(super) fn describe_thresholds(thresholds: Thresholds) -> api::Thresholds {
    let Thresholds { soft_percent, hard_percent } = thresholds;
    api::Thresholds { soft_percent, hard_percent }
}

fn describe_fill(fill: Fill) -> api::Fill {
    match fill {
        Fill::Normal => api::Fill::Normal,
        Fill::Soft => api::Fill::Soft,
        Fill::Hard => api::Fill::Hard,
    }
}
