//! Devices that leave the open pools: at which rate, what administrators are told, and their end when
//! nothing is on them any more.

use api::{ControlDeparture, DepartureAction, EventKind, Problem, Severity};
use control::claims::Purpose;
use control::departures;
use control::tasks::{Departing, Whereabouts};
use store::{EvacuationStatus, Health};

use super::facts::Facts;
use super::{Caller, Management, Progress};
use crate::data_plane::DataPlane;
use crate::events::now;
use crate::pool::Pool;
use crate::pools::PoolId;

/// At which rate a pool is opened in which a device leaves.
pub(super) fn evacuation_rate(configuration: &array::Pool) -> u64 {
    let departure = configuration.departure.as_ref();
    departure.and_then(|departure| departure.rate_bytes).unwrap_or(u64::MAX)
}

/// Changes how much is moved from a device that leaves.
pub(super) fn set_evacuation_rate(plane: &mut DataPlane, pool: PoolId, rate_bytes: Option<u64>) {
    if let Some(mut pool) = plane.pools.get_mut(pool) {
        pool.store.set_evacuation_rate(rate_bytes.unwrap_or(u64::MAX));
    }
}

impl Management {
    /// Looks at the devices that leave pools.
    pub(super) fn look_at_departures(&mut self, plane: &mut DataPlane) {
        for id in plane.pools.ids() {
            let Some(pool) = plane.pools.get(id) else { continue };
            if pool.health() != Health::Ready || self.closing {
                continue;
            }
            match pool.store.evacuation() {
                Some(status) => self.tend_departure(plane, id, status),
                None => self.settle_departure(plane, id),
            }
        }
    }

    fn tend_departure(&mut self, plane: &mut DataPlane, id: PoolId, status: EvacuationStatus) {
        let Some(mut pool) = plane.pools.get_mut(id) else { return };
        let name = pool.name.clone();
        let configured = self.saving.accepted().pools.get(&name);
        let known = configured.and_then(|pool| pool.departure.as_ref());
        let rate = known.and_then(|departure| departure.rate_bytes);
        if let Some(rate) = rate.filter(|&rate| rate != status.rate) {
            pool.store.set_evacuation_rate(rate);
        }
        let (before, trouble) = (pool.departure_trouble.clone(), trouble_of(&status));
        pool.departure_trouble.clone_from(&trouble);
        drop(pool);
        if let Some(message) = trouble.filter(|trouble| before.as_ref() != Some(trouble)) {
            let object = format!("pool {name}");
            self.events.note_kind(EventKind::General, Severity::Warning, object, message);
        }
        if !status.is_empty || self.claims.check_free(&name).is_err() {
            return;
        }
        let device = status.device;
        let begun = self.begin_procedure(plane, |view| departures::end(&name, device, view));
        let claim = self.claims.take_new();
        self.proceed(plane, begun, Caller { claim, ..Caller::default() });
    }

    /// What is configured of a device that was to leave, where none leaves, is forgotten.
    fn settle_departure(&mut self, plane: &mut DataPlane, id: PoolId) {
        let Some(mut pool) = plane.pools.get_mut(id) else { return };
        pool.departure_trouble = None;
        let name = pool.name.clone();
        drop(pool);
        if let Some(stage) = departures::settle(&name, &Facts::new(self, plane)) {
            let begun = self.take(plane, stage);
            self.begin(plane, begun);
        }
    }

    /// Looks how far the device of a pool is that leaves.
    pub(super) fn look_at_departure(&mut self, pool: &Pool) {
        if pool.health() != Health::Ready {
            return;
        }
        let status = pool.store.evacuation();
        let leaving = status.and_then(|status| {
            let device = pool.store.mirrors().find(|one| one.device == status.device)?;
            Some((Departing { pool: pool.name.clone(), device: device.uuid }, status))
        });
        let leaves = leaving.as_ref().map(|(departing, _)| departing.device);
        // The engine has forgotten the device, and the configuration not yet.
        if leaves.is_none() && self.claims.is_claimed(&pool.name, Purpose::RemoveDevice) {
            return;
        }
        if let Some((departing, status)) = leaving {
            self.tasks.look_at_departure(now(), departing, &status);
        }
        self.tasks.end_departures(now(), &pool.name, |device| {
            let is_there = || pool.store.mirrors().any(|one| one.uuid == device);
            match leaves {
                Some(leaving) if leaving == device => Whereabouts::Leaving,
                _ if is_there() => Whereabouts::Stays,
                _ => Whereabouts::Gone,
            }
        });
    }

    /// A pool's departure, as administrators see it.
    pub(super) fn describe_departure(&self, pool: &Pool) -> Option<api::Departure> {
        let status = pool.store.evacuation()?;
        let device = pool.store.mirrors().find(|one| one.device == status.device);
        let members = device.into_iter().flat_map(|device| device.members);
        let names = members.map(|member| match member.slot.map(usize::from) {
            Some(slot) => pool.devices.get(slot).map(|open| open.name.to_string()),
            None => Some(self.member_name(pool, member.uuid)),
        });
        Some(api::Departure {
            device: status.device.into(),
            devices: names.flatten().collect(),
            paused: status.paused,
            left_bytes: status.left_bytes,
            copied_bytes: status.copied_bytes,
            unreadable_blocks: status.unreadable_blocks,
            waits_for_space: status.waits_for_space,
            rate_bytes: Some(status.rate).filter(|&rate| rate < u64::MAX),
            remaining_seconds: status.remaining.map(|remaining| remaining.as_secs()),
        })
    }

    /// Begins to change what becomes of the device of a pool that leaves, from a task.
    pub(super) fn control_departure(
        &mut self,
        plane: &mut DataPlane,
        name: &str,
        action: DepartureAction,
    ) -> Result<Progress, Problem> {
        let request = ControlDeparture { action, rate_bytes: None };
        self.begin_procedure(plane, |view| departures::control(name, &request, view))
    }
}

/// What keeps a device from leaving, in words; the same as long as it is the same.
fn trouble_of(status: &EvacuationStatus) -> Option<String> {
    let device = status.device;
    if status.waits_for_space {
        return Some(format!(
            "device {device} cannot leave yet: the others have no room for the rest of it; delete something, \
             unmap, add a device, or cancel it"
        ));
    }
    (status.unreadable_blocks > 0).then(|| {
        format!(
            "device {device} cannot leave: {} block(s) of it cannot be read. Overwrite or delete what uses \
             them; a scrub names it",
            status.unreadable_blocks
        )
    })
}
