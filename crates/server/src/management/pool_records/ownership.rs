//! Whose a pool is, as its records say: this array's, or another one's, which is not served.

use std::collections::BTreeMap;

use api::Problem;
use array::{OwnerRecord, RecordKey};
use block::{Request, VolumeId};
use bytes::Bytes;
use control::change::Touched;
use control::pool_records::{self, Authority, Found, owner_text};
use control::reopening::Trouble;
use store::RECORDS;

use super::{Doing, Management, Phase};
use crate::data_plane::{DataPlane, Ticket};
use crate::exports::ExportEvent;
use crate::management::Work;
use crate::management::pools::{UnavailablePool, pool_unavailable};
use crate::management::problems::{conflict, gone};
use crate::pool::Pool;
use crate::pools::PoolId;

impl Management {
    /// Whether the array that used a pool last was this one, or the one that it was imported from.
    pub(super) fn is_ours(&self, plane: &DataPlane, pool: PoolId, owner: &OwnerRecord) -> bool {
        let name = plane.pools.get(pool).map_or("", |pool| &pool.name);
        let before = self.configuration.imported_from.get(name);
        owner.array == self.configuration.uuid || before == Some(&owner.array)
    }

    /// A pool says that it is this array's: whose it was does not count any more.
    pub(super) fn owner_written(&mut self, plane: &DataPlane, pool: PoolId) {
        let Some(name) = plane.pools.get(pool).map(|pool| &pool.name) else { return };
        if self.configuration.imported_from.contains_key(name) {
            let mut draft = self.saving.draft();
            draft.array.imported_from.remove(name);
            self.accept(draft, Touched::Nobody);
        }
    }

    /// Another array has used the pool since: its volumes may be others, and hosts may see them there.
    pub(super) fn refuse_foreign(
        &mut self,
        plane: &mut DataPlane,
        pool: PoolId,
        owner: &OwnerRecord,
    ) {
        let Some((closed, waiting)) = self.close_withheld(plane, pool) else { return };
        self.announce_absent_volumes(plane);
        self.luns_changed = Touched::All;
        let reason = format!(
            "array {} has used it since: forget it here ('gantry pool delete --force') and take it \
             back by 'gantry pool import'",
            owner.target_name
        );
        let problem = pool_unavailable(&closed.name, &reason);
        let unavailable = UnavailablePool::because(reason);
        self.set_unavailable(&closed.name, unavailable, Trouble::Undecided);
        if let Some(work) = waiting {
            self.answer(work.caller, Err(problem));
        }
        self.in_background(move || drop(closed));
    }

    /// Serves a pool no more of which it turned out that it is not this controller's; returns whoever waits for it, too.
    pub(in crate::management) fn close_withheld(
        &mut self,
        plane: &mut DataPlane,
        pool: PoolId,
    ) -> Option<(Pool, Option<Work>)> {
        let waiting = self.records.owner_awaited.remove(&pool);
        let waiting = waiting.and_then(|ticket| self.under_way.remove(&ticket));
        let volumes: Vec<VolumeId> = plane.volumes_of(pool).collect();
        let closed = self.stop_serving(plane, pool)?;
        for volume in volumes {
            plane.exports.tell(&ExportEvent::Removed(volume));
        }
        Some((closed, waiting))
    }

    /// The controller of this array that gave the pool away, if another one did and it was not imported since.
    pub(super) fn given_away_by(
        &self,
        plane: &DataPlane,
        pool: PoolId,
        records: &BTreeMap<RecordKey, Found>,
    ) -> Option<u16> {
        let name = &plane.pools.get(pool)?.name;
        let owner = pool_records::owner(records).filter(|owner| owner.exported)?;
        let is_other = Authority::over(records, self.controller().number()) == Authority::Pool;
        let is_imported = self.configuration.imported_from.contains_key(name);
        (is_other && !is_imported).then_some(owner.controller)
    }

    /// Begins to say in a pool that it is given away; nothing else is written to its records any more. Whether it keeps
    /// any.
    pub(in crate::management) fn mark_given_away(
        &mut self,
        plane: &mut DataPlane,
        pool: PoolId,
        ticket: Ticket,
    ) -> Result<bool, Problem> {
        let text = owner_text(self.owner_record(true));
        let version = self.configuration.generation;
        let kept = self.records.pools.get_mut(&pool);
        let Some(kept) = kept.filter(|kept| matches!(kept.phase, Phase::Ready)) else {
            return Ok(false);
        };
        let placed = kept.slots.place(&RecordKey::Owner, (&text, version), false);
        let placed = placed.map_err(|_| conflict(&"the pool's records have no room to say it"))?;
        let mut served = plane.pools.get_mut(pool).ok_or_else(gone)?;
        kept.phase = Phase::Without;
        let data = Bytes::from(placed.bytes);
        let request = Request::Write { range: placed.blocks.range(), data };
        served.store.submit(ticket.tag(), RECORDS, request);
        self.records.under_way.insert(ticket, (pool, Doing::GiveAway));
        Ok(true)
    }

    /// What a pool says of whose it is.
    pub(super) fn owner_record(&self, exported: bool) -> OwnerRecord {
        OwnerRecord {
            array: self.configuration.uuid.clone(),
            target_name: self.configuration.target_name.clone(),
            machine: self.records.machine.clone(),
            exported,
            controller: self.controller().number(),
        }
    }
}
