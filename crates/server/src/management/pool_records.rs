//! Keeps the records of the array in every open pool: makes the hidden volume, reads it, writes what
//! changed with each version of the configuration that is saved, and takes what is newer in it.
//!
//! Each turn does a bounded part: so many records are written at once, reading goes a mebibyte at a
//! time, and a thread compares what was read with the configuration.

mod comparing;
mod ownership;
mod restoring;
mod taking;
mod telling;

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use api::{Problem, Severity};
use array::RecordKey;
use block::{BLOCK, ByteRange, DeviceKind, Request, Response, VolumeId};
use bytes::Bytes;
use control::pool_records::{
    self, Authority, Blocks, Known, Slots, Unplaced, belongs, owner_text, tombstone,
};
use store::{Change, Failure, Health, Outcome, RECORDS};

use super::hearing::Elsewhere;
use super::jobs::Job;
use super::{Management, Progress};
use crate::data_plane::{DataPlane, Ticket};
use crate::limits::{
    RECORDS_PATIENCE, RECORDS_READ_BYTES, RECORDS_ROUTED_AT_ONCE, RECORDS_WRITTEN_AT_ONCE,
};
use crate::pools::PoolId;
use crate::recovery_key::KeptKey;
use crate::rod_token_spaces::is_hidden;
use crate::unit_states::SaveId;
use comparing::{FoundRecords, Sealer, unit_record};

pub(super) use comparing::{Compared, Comparing, open_account};

/// Bytes of the volume of records; only what is written takes space.
const VOLUME_BYTES: u64 = control::limits::RECORDS_BLOCKS * BLOCK;

/// The records of all open pools.
pub(super) struct PoolRecords {
    pools: BTreeMap<PoolId, Kept>,
    under_way: HashMap<Ticket, (PoolId, Doing)>,
    /// Records that changed; it was not looked yet which pools have them.
    unrouted: VecDeque<RecordKey>,
    /// States of logical units that are in the data directory, and whose hosts wait for their records.
    units: VecDeque<(SaveId, VolumeId, String)>,
    /// Those whose pool is gone: they wait for nothing any more.
    released: Vec<SaveId>,
    /// The last version of the configuration whose changes are answered when pools have their records,
    /// and since when they wait.
    held_back: Option<(u64, Instant)>,
    /// Openings of pools that go on when it is known whose pool it is.
    owner_awaited: BTreeMap<PoolId, Ticket>,
    /// Accounts that were lost and taken back from pools, and the versions of their records.
    restored: BTreeMap<RecordKey, u64>,
    /// Pools that were opened since the start.
    openings: u64,
    pub(super) key: KeptKey,
    /// Names this machine.
    pub(super) machine: Option<String>,
    /// Whether pools of earlier programs get records.
    upgrade: PoolUpgrade,
}

/// Whether pools that an earlier program made are upgraded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PoolUpgrade {
    Allowed,
    Declined,
}

/// The records of one pool.
struct Kept {
    phase: Phase,
    slots: Slots,
    pending: BTreeMap<RecordKey, Wanted>,
    /// Hosts that wait until the state of their logical unit is written.
    waiting: BTreeMap<RecordKey, Vec<SaveId>>,
    /// Requests under way.
    writing: usize,
    /// Why the last write failed, if it did.
    failing: Option<String>,
    /// Blocks to be unmapped.
    garbage: Vec<Blocks>,
    /// Whether writing took too long, so that nobody waits for it until it has ended.
    is_late: bool,
    /// Whether the pool says that this controller had it last.
    is_claimed: bool,
    /// Whether they were made by this daemon since it opened the pool, so that they say nothing new.
    is_new: bool,
    /// The version of the configuration that has what was taken from it.
    taken: u64,
    /// A number of this opening among those since the start.
    opening: u64,
}

/// How far a pool is.
enum Phase {
    Creating,
    Reading {
        next: u64,
        left: u64,
        blocks: Vec<(u64, Vec<u8>)>,
    },
    Comparing,
    Ready,
    /// It has none, and gets none.
    Without,
}

/// What a record is to say.
enum Wanted {
    /// What the configuration does.
    Configuration,
    /// This, or that there is nothing.
    Text(Option<String>),
    /// That the pool is ours.
    Owner,
}

/// Work of a pool.
enum Doing {
    Create,
    Read {
        first: u64,
    },
    Write {
        key: RecordKey,
        left: Option<Blocks>,
        hosts: Vec<SaveId>,
    },
    /// It says that it is given away.
    GiveAway,
    Free(Blocks),
}

/// Whether a pool outlives the daemon.
fn lasts(pool: &array::Pool) -> bool {
    pool.devices.iter().any(|one| one.device.kind() != DeviceKind::Memory)
}

/// Whether a volume is in a pool, or in none: what is said of a volume is saved before it is made. Those are
/// known (`elsewhere`) that are in pools of other controllers.
fn may_hold((plane, elsewhere): (&DataPlane, &Elsewhere), pool: PoolId, id: VolumeId) -> bool {
    let holds = |pool: &crate::pool::Pool| pool.store.volume(id).is_some();
    let is_nowhere =
        || !elsewhere.contains_key(&id) && !plane.pools.iter().any(|(_, pool)| holds(pool));
    plane.pools.get(pool).is_some_and(holds) || is_nowhere()
}

impl PoolRecords {
    pub(super) fn new(key: KeptKey, machine: Option<String>, upgrade: PoolUpgrade) -> Self {
        Self {
            pools: BTreeMap::new(),
            under_way: HashMap::new(),
            unrouted: VecDeque::new(),
            units: VecDeque::new(),
            released: Vec::new(),
            held_back: None,
            owner_awaited: BTreeMap::new(),
            restored: BTreeMap::new(),
            openings: 0,
            key,
            machine,
            upgrade,
        }
    }

    /// Whether records are about to be read or written.
    pub(super) fn is_busy(&self) -> bool {
        !self.unrouted.is_empty()
            || !self.units.is_empty()
            || self.pools.values().any(Kept::is_busy)
    }

    /// Whether hosts are not admitted yet: it may turn out that a pool is another array's, or knows
    /// what the data directory does not.
    pub(super) fn is_starting(&self, is_stalled: impl Fn(PoolId) -> bool) -> bool {
        let starting = self.pools.iter().filter(|(_, kept)| kept.is_starting());
        starting.map(|(&pool, _)| pool).any(|pool| !is_stalled(pool))
    }

    /// A pool is opened anew: nothing is known of its records.
    pub(super) fn forget(&mut self, pool: PoolId) {
        let kept = self.pools.remove(&pool);
        let mut hosts: Vec<SaveId> =
            kept.into_iter().flat_map(|kept| kept.waiting.into_values().flatten()).collect();
        self.under_way.retain(|_, (other, doing)| {
            if let (true, Doing::Write { hosts: waiting, .. }) = (*other == pool, doing) {
                hosts.append(waiting);
            }
            *other != pool
        });
        self.released.extend(hosts);
    }
}

impl Kept {
    fn new(phase: Phase) -> Self {
        Self {
            phase,
            slots: Slots::default(),
            pending: BTreeMap::new(),
            waiting: BTreeMap::new(),
            writing: 0,
            failing: None,
            garbage: Vec::new(),
            is_late: false,
            is_claimed: false,
            is_new: false,
            taken: 0,
            opening: 0,
        }
    }

    const fn is_starting(&self) -> bool {
        match self.phase {
            Phase::Creating | Phase::Reading { .. } | Phase::Comparing => true,
            Phase::Ready | Phase::Without => false,
        }
    }

    fn is_busy(&self) -> bool {
        let is_ready = matches!(self.phase, Phase::Ready);
        let writes = self.writing > 0 || (self.failing.is_none() && !self.pending.is_empty());
        self.is_starting() || (is_ready && writes)
    }

    /// Whether administrators wait for what it writes.
    fn holds_back(&self) -> bool {
        !self.is_late && !self.is_starting() && self.is_busy()
    }

    fn is_written(&self) -> bool {
        matches!(self.phase, Phase::Ready) && self.writing == 0 && self.pending.is_empty()
    }
}

impl Management {
    pub(super) fn sealer(&self) -> Sealer {
        Sealer { secrets: Arc::clone(&self.secrets), key: self.records.key.key.clone() }
    }

    /// Records of the configuration have changed, and are saved.
    pub(super) fn note_changed_records(&mut self, changed: BTreeSet<RecordKey>) {
        self.records.unrouted.extend(changed);
    }

    /// A state of a logical unit is on stable storage in the data directory, or may not be.
    pub(crate) fn unit_stored(&mut self, plane: &mut DataPlane, id: SaveId, stored: bool) {
        let unit = plane.unit_states.take_stored(id);
        if !stored {
            self.tell_unsaved_unit();
        }
        match unit.filter(|_| stored) {
            Some((volume, state)) => {
                let text = unit_record(volume, &state).unwrap_or_default();
                self.records.units.push_back((id, volume, text));
                self.look_after_records(plane);
            }
            None => plane.exports.saved(id, stored),
        }
    }

    /// A volume was made: it is known now which pool has what is said of it.
    pub(super) fn note_made_volume(&mut self, volume: VolumeId) {
        self.records.unrouted.push_back(RecordKey::Volume(volume.0));
    }

    /// A volume is gone, and what its logical unit kept.
    pub(super) fn forget_unit_record(&mut self, volume: VolumeId) {
        self.records.unrouted.push_back(RecordKey::Unit(volume.0));
    }

    /// Takes the end of work on records; gives the end of any other back.
    pub(super) fn take_record_work(
        &mut self,
        plane: &mut DataPlane,
        ticket: Ticket,
        result: Result<Outcome, Failure>,
    ) -> Option<Result<Outcome, Failure>> {
        let Some((pool, doing)) = self.records.under_way.remove(&ticket) else {
            return Some(result);
        };
        let kept = self.records.pools.get_mut(&pool)?;
        match (doing, result) {
            (Doing::Create, Ok(_)) => self.begin_reading(plane, pool),
            (Doing::Create, Err(failure)) => {
                kept.phase = Phase::Without;
                let message = format!("its records cannot be made: {failure}");
                self.tell_records(plane, pool, Severity::Error, &message);
                self.refuse_unread(plane, pool, &message);
            }
            (Doing::Read { first }, Ok(Outcome::Response(Response::Data(data)))) => {
                kept.take_read(first, &data.to_vec());
                self.go_on_reading(plane, pool);
            }
            (Doing::Read { .. }, Ok(_)) => {}
            (Doing::Read { .. }, Err(failure)) => {
                kept.phase = Phase::Without;
                let message = format!("its records cannot be read: {failure}");
                self.tell_records(plane, pool, Severity::Error, &message);
                self.refuse_unread(plane, pool, &message);
                self.let_hosts_in(plane, pool);
            }
            (Doing::Write { key, left, hosts }, result) => {
                self.record_written(plane, pool, (key, left, hosts), result.err());
            }
            (Doing::GiveAway, Ok(outcome)) => {
                let is_waited_for = self.is_waited_for(plane, pool, ticket);
                return Some(Ok(outcome)).filter(|_| !is_waited_for);
            }
            (Doing::GiveAway, Err(failure)) => {
                self.records.forget(pool);
                return Some(Err(failure));
            }
            (Doing::Free(blocks), result) => {
                kept.writing -= 1;
                match result {
                    Ok(_) => kept.slots.release(blocks),
                    Err(_) => kept.garbage.push(blocks),
                }
            }
        }
        self.look_after_records(plane);
        None
    }

    /// Begins what can be done for records, a bounded part of it.
    pub(super) fn look_after_records(&mut self, plane: &mut DataPlane) {
        let serves = |pool: &crate::pool::Pool| pool.store.health() == Health::Ready;
        let gone = self.records.pools.keys().copied();
        let gone: Vec<PoolId> =
            gone.filter(|&id| !plane.pools.get(id).is_some_and(serves)).collect();
        for pool in gone {
            self.records.forget(pool);
            self.let_hosts_in(plane, pool);
        }
        for pool in plane.pools.ids() {
            let is_new = !self.records.pools.contains_key(&pool);
            if is_new && plane.pools.get(pool).is_some_and(serves) && !self.closing {
                self.begin_records(plane, pool);
            }
        }
        self.route_records(plane);
        for pool in plane.pools.ids() {
            self.write_records(plane, pool);
        }
        self.answer_held_back(plane);
    }

    /// Changes up to a version of the configuration are saved: they are answered when the pools have
    /// them, too, or have taken too long.
    pub(super) fn hold_back(&mut self, number: u64) {
        let since = self.records.held_back.map_or_else(Instant::now, |(_, since)| since);
        self.records.held_back = Some((number, since));
    }

    fn answer_held_back(&mut self, plane: &mut DataPlane) {
        let Some((_, since)) = self.records.held_back else { return };
        let is_waiting =
            !self.records.unrouted.is_empty() || self.records.pools.values().any(Kept::holds_back);
        let is_late = since.elapsed() >= RECORDS_PATIENCE;
        if is_waiting && !is_late {
            return;
        }
        for kept in self.records.pools.values_mut() {
            kept.is_late = kept.is_busy() && (is_late || kept.is_late);
        }
        self.release_held_back(plane);
    }

    /// Answers what is saved, wherever its records are.
    pub(super) fn release_held_back(&mut self, plane: &mut DataPlane) {
        if let Some((number, _)) = self.records.held_back.take() {
            self.go_on(plane, number, None);
        }
    }

    /// A pool that serves has its records read, or gets some.
    fn begin_records(&mut self, plane: &mut DataPlane, pool: PoolId) {
        let Some(served) = plane.pools.get(pool) else { return };
        let Some(configured) = self.configuration.pools.get(&served.name) else { return };
        let lasts = lasts(configured);
        let has_volumes = served.store.volumes().any(|volume| !is_hidden(volume));
        let has_records = served.store.records().is_some();
        self.records.openings += 1;
        let opening = self.records.openings;
        if !lasts {
            self.records.pools.insert(pool, Kept::new(Phase::Without));
        } else if has_records {
            let kept = Kept { opening, ..Kept::new(Phase::Creating) };
            self.records.pools.insert(pool, kept);
            self.begin_reading(plane, pool);
        } else if self.records.upgrade == PoolUpgrade::Declined {
            self.records.pools.insert(pool, Kept::new(Phase::Without));
            let message = "does not describe itself, and its upgrade is declined (--no-pool-upgrade): \
                           without the data directory hosts lose what they know of it";
            self.tell_records(plane, pool, Severity::Warning, message);
            self.refuse_unread(plane, pool, message);
        } else {
            let kept = Kept { is_new: true, opening, ..Kept::new(Phase::Creating) };
            self.records.pools.insert(pool, kept);
            let create = Change::CreateRecords { size_bytes: VOLUME_BYTES };
            if let Some(ticket) = plane.begin(pool, create) {
                self.records.under_way.insert(ticket, (pool, Doing::Create));
            }
            if has_volumes {
                let message = "an earlier gantryd made it: it is upgraded, and keeps from now on what \
                               hosts rely on beside their data; earlier versions refuse it";
                self.tell_records(plane, pool, Severity::Information, message);
            }
        }
    }

    /// Whether hosts of a pool that was opened wait until its records are read: another array may have
    /// used it since.
    pub(super) fn is_owner_unknown(&self, plane: &DataPlane, pool: PoolId) -> bool {
        plane.pools.get(pool).is_some_and(|served| {
            let configured = self.configuration.pools.get(&served.name);
            served.is_withheld
                && served.store.health() == Health::Ready
                && served.store.records().is_some()
                && configured.is_some_and(lasts)
        })
    }

    /// The records of a pool are read anew; what is returned ends when hosts may be let in.
    pub(super) fn wait_for_owner(&mut self, plane: &mut DataPlane, pool: PoolId) -> Ticket {
        self.records.forget(pool);
        let ticket = plane.new_ticket();
        self.records.owner_awaited.insert(pool, ticket);
        ticket
    }

    /// Goes on with the opening of a pool that is this array's, or cannot say whose it is.
    fn let_hosts_in(&mut self, plane: &mut DataPlane, pool: PoolId) {
        let Some(ticket) = self.records.owner_awaited.remove(&pool) else { return };
        plane.admit(pool);
        self.finished(plane, ticket, Ok(Outcome::Changed));
    }

    fn begin_reading(&mut self, plane: &mut DataPlane, pool: PoolId) {
        let left = plane.pools.get(pool).and_then(|pool| pool.store.records());
        let left = left.map_or(0, |volume| volume.mapped_bytes / BLOCK);
        if let Some(kept) = self.records.pools.get_mut(&pool) {
            kept.phase = Phase::Reading { next: 0, left, blocks: Vec::new() };
        }
        self.go_on_reading(plane, pool);
    }

    /// Asks for the next part, or has what was read compared.
    fn go_on_reading(&mut self, plane: &mut DataPlane, pool: PoolId) {
        let Some(kept) = self.records.pools.get_mut(&pool) else { return };
        let Phase::Reading { next, left, blocks } = &mut kept.phase else { return };
        if *left > 0 && *next < VOLUME_BYTES / BLOCK {
            let first = *next;
            *next += RECORDS_READ_BYTES / BLOCK;
            let range = ByteRange::new(first * BLOCK, RECORDS_READ_BYTES);
            return self.ask(plane, pool, Request::Read { range }, Doing::Read { first });
        }
        let blocks = std::mem::take(blocks);
        kept.phase = Phase::Comparing;
        let Some(served) = plane.pools.get(pool) else { return };
        let comparing = Comparing {
            pool,
            name: served.name.clone(),
            blocks,
            array: Arc::clone(&self.configuration),
            sealer: self.sealer(),
            volumes: served.store.volumes().map(|volume| volume.spec.id).collect(),
            units: plane.unit_states.reader(),
            restored: self.records.restored.clone(),
            known: self.known_versions(),
            controller: self.controller().number(),
        };
        self.begin(plane, Ok(Progress::Job(Job::Compare(comparing))));
    }

    fn ask(&mut self, plane: &mut DataPlane, pool: PoolId, request: Request, doing: Doing) {
        let ticket = plane.new_ticket();
        if let Some(mut served) = plane.pools.get_mut(pool) {
            served.store.submit(ticket.tag(), RECORDS, request);
            self.records.under_way.insert(ticket, (pool, doing));
        }
    }

    /// Goes on when a pool's records are compared with the configuration.
    pub(super) fn records_compared(
        &mut self,
        plane: &mut DataPlane,
        Compared { pool, found }: Compared,
    ) -> Result<Progress, Problem> {
        let found = match found {
            Ok(found) => *found,
            Err(problem) => {
                if let Some(kept) = self.records.pools.get_mut(&pool) {
                    kept.phase = Phase::Without;
                }
                self.refuse_unread(plane, pool, &problem.detail);
                self.let_hosts_in(plane, pool);
                return Err(problem);
            }
        };
        let FoundRecords { loaded, differences, units, accounts, taken_units } = found;
        let owner = pool_records::owner(&loaded.records).cloned();
        let authority = Authority::over(&loaded.records, self.controller().number());
        if let Some(owner) = owner.filter(|owner| !self.is_ours(plane, pool, owner)) {
            self.refuse_foreign(plane, pool, &owner);
            return Ok(Progress::done());
        }
        if let Some(number) = self.given_away_by(plane, pool, &loaded.records) {
            self.close_given_away(plane, pool, number);
            return Ok(Progress::done());
        }
        self.let_hosts_in(plane, pool);
        let Some(kept) = self.records.pools.get_mut(&pool) else { return Ok(Progress::done()) };
        kept.phase = Phase::Ready;
        kept.slots = loaded.slots;
        kept.garbage = loaded.garbage;
        plane.unit_states.note(taken_units.iter().map(|(id, _)| *id));
        for (id, state) in taken_units {
            plane.exports.replace(id, state);
        }
        let texts = units.into_iter().map(|(key, text)| (key, Wanted::Text(text)));
        let stale = differences.stale.into_iter().map(|key| (key, Wanted::Configuration));
        for (key, wanted) in texts.chain(stale) {
            // What changed meanwhile is newer.
            kept.pending.entry(key).or_insert(wanted);
        }
        kept.pending.insert(RecordKey::Owner, Wanted::Owner);
        if loaded.damaged > 0 {
            let message = format!(
                "{} block(s) of its records were damaged; they are written again",
                loaded.damaged
            );
            self.tell_records(plane, pool, Severity::Warning, &message);
        }
        self.restore_accounts(plane, pool, accounts);
        if !differences.newer.is_empty() {
            let newer = (&differences.newer, differences.version);
            self.take_newer(plane, pool, newer, authority);
        }
        self.look_after_records(plane);
        self.tell_access(plane);
        Ok(Progress::done())
    }

    /// Finds the pools of records that changed.
    fn route_records(&mut self, plane: &mut DataPlane) {
        for _ in 0..RECORDS_ROUTED_AT_ONCE {
            let Some(key) = self.records.unrouted.pop_front() else { break };
            for (&pool, kept) in &mut self.records.pools {
                let Some(served) = plane.pools.get(pool) else { continue };
                let holds = |id| may_hold((plane, &self.peers.hearing.elsewhere), pool, id);
                let concerns = belongs(&self.configuration, &key, &served.name, holds)
                    || kept.slots.knows(&key);
                if concerns && !matches!(kept.phase, Phase::Without) {
                    let wanted = match key {
                        RecordKey::Unit(_) => Wanted::Text(None),
                        _ => Wanted::Configuration,
                    };
                    kept.pending.insert(key.clone(), wanted);
                }
            }
        }
        let is_enough = !self.controller().is_one_of_several();
        for id in std::mem::take(&mut self.records.released) {
            plane.exports.saved(id, is_enough);
        }
        while let Some((id, volume, text)) = self.records.units.pop_front() {
            let pool = plane.pool_of(volume);
            let kept = pool.and_then(|pool| self.records.pools.get_mut(&pool));
            let is_unknown = pool.is_none() && !is_enough;
            let Some(kept) = kept.filter(|kept| !matches!(kept.phase, Phase::Without)) else {
                plane.exports.saved(id, !is_unknown);
                continue;
            };
            let key = RecordKey::Unit(volume.0);
            let text = Some(text).filter(|text| !text.is_empty());
            kept.pending.insert(key.clone(), Wanted::Text(text));
            kept.waiting.entry(key).or_default().push(id);
        }
    }

    /// Begins to write what is pending, as much as may be under way.
    fn write_records(&mut self, plane: &mut DataPlane, pool: PoolId) {
        while let Some(kept) = self.records.pools.get_mut(&pool)
            && matches!(kept.phase, Phase::Ready)
            && kept.failing.is_none()
            && kept.writing < RECORDS_WRITTEN_AT_ONCE
        {
            if let Some(blocks) = kept.garbage.pop() {
                kept.writing += 1;
                let request = Request::Unmap { ranges: vec![blocks.range()] };
                self.ask(plane, pool, request, Doing::Free(blocks));
                continue;
            }
            let Some((key, wanted)) = kept.pending.pop_first() else { return };
            let hosts = kept.waiting.remove(&key).unwrap_or_default();
            self.write_record(plane, pool, key, (wanted, hosts));
        }
    }

    fn write_record(
        &mut self,
        plane: &mut DataPlane,
        pool: PoolId,
        key: RecordKey,
        (wanted, hosts): (Wanted, Vec<SaveId>),
    ) {
        let Some(served) = plane.pools.get(pool) else { return };
        let name = &served.name;
        let text = match wanted {
            Wanted::Text(text) => text,
            Wanted::Owner => Some(owner_text(self.owner_record(false))),
            Wanted::Configuration => {
                let array = &self.configuration;
                let known = (plane as &DataPlane, &self.peers.hearing.elsewhere);
                let is_here = belongs(array, &key, name, |id| may_hold(known, pool, id));
                let sealer = self.sealer();
                let text = pool_records::text(array, &key, &|key| sealer.seal(key));
                text.filter(|_| is_here)
            }
        };
        let version = self.version_to_write(pool, &key, text.as_deref());
        let is_enough = !self.controller().is_one_of_several();
        let Some(kept) = self.records.pools.get_mut(&pool) else { return };
        if kept.slots.is_current(&key, text.as_deref()) {
            kept.is_claimed |= key == RecordKey::Owner;
            return hosts.into_iter().for_each(|id| plane.exports.saved(id, true));
        }
        let is_deleted = text.is_none();
        let text = text.unwrap_or_else(|| tombstone(&key));
        let placed = match kept.slots.place(&key, (&text, version), is_deleted) {
            Ok(placed) => placed,
            Err(unplaced) => {
                hosts.into_iter().for_each(|id| plane.exports.saved(id, is_enough));
                let why = match unplaced {
                    Unplaced::TooLarge => "it is too large",
                    Unplaced::Full => "there are too many records",
                };
                let message = format!("a record of it ({key:?}) is not kept in the pool: {why}");
                return self.tell_records(plane, pool, Severity::Error, &message);
            }
        };
        kept.writing += 1;
        kept.garbage.extend(kept.slots.take_old_tombstones());
        let request =
            Request::Write { range: placed.blocks.range(), data: Bytes::from(placed.bytes) };
        self.ask(plane, pool, request, Doing::Write { key, left: placed.left, hosts });
    }

    fn record_written(
        &mut self,
        plane: &mut DataPlane,
        pool: PoolId,
        (key, left, hosts): (RecordKey, Option<Blocks>, Vec<SaveId>),
        failure: Option<Failure>,
    ) {
        // The state is in the data directory, whatever became of its record; of several controllers only
        // one has that.
        let is_enough = failure.is_none() || !self.controller().is_one_of_several();
        hosts.into_iter().for_each(|id| plane.exports.saved(id, is_enough));
        let Some(kept) = self.records.pools.get_mut(&pool) else { return };
        kept.writing -= 1;
        let Some(failure) = failure else {
            kept.garbage.extend(left);
            if key == RecordKey::Owner {
                kept.is_claimed = true;
                self.owner_written(plane, pool);
            }
            return;
        };
        kept.slots.failed(&key);
        kept.garbage.extend(left);
        let wanted = match &key {
            RecordKey::Owner => Wanted::Owner,
            RecordKey::Unit(id) => {
                let state = plane.unit_states.reader().read(VolumeId(*id)).ok();
                let text = state.flatten().and_then(|state| unit_record(VolumeId(*id), &state));
                Wanted::Text(text)
            }
            _ => Wanted::Configuration,
        };
        kept.pending.entry(key).or_insert(wanted);
        let is_first = kept.failing.replace(failure.to_string()).is_none();
        let is_closed = matches!(
            failure,
            Failure::Block(block::BlockError::Closed | block::BlockError::ReadOnly)
        );
        if is_first && !is_closed {
            let message = format!(
                "what hosts rely on cannot be kept in the pool: {failure}; it is in the data \
                 directory, and is written to the pool as soon as that is possible"
            );
            self.tell_records(plane, pool, Severity::Error, &message);
        }
    }

    /// Tries again what could not be written.
    pub(super) fn retry_records(&mut self, plane: &mut DataPlane) {
        for kept in self.records.pools.values_mut().filter(|kept| kept.writing == 0) {
            kept.failing = None;
        }
        self.look_after_records(plane);
    }

    /// Whether all that a pool should hold of records is written.
    pub(super) fn has_all_records(&self, pool: PoolId) -> bool {
        self.records.unrouted.is_empty()
            && self.records.pools.get(&pool).is_some_and(Kept::is_written)
    }

    /// Whether the records of a pool were read and taken, and it says that this controller has it: what
    /// hosts store from now on counts. A pool in memory has none.
    pub(super) fn knows_records(&self, pool: PoolId) -> bool {
        self.records.pools.get(&pool).is_some_and(|kept| match kept.phase {
            Phase::Creating | Phase::Reading { .. } | Phase::Comparing => false,
            Phase::Ready => kept.is_claimed && self.saving.is_saved(kept.taken),
            Phase::Without => true,
        })
    }

    /// Whether a pool that is open has records that were not taken yet: they may count more than a change
    /// that is made now.
    pub(super) fn may_learn(&self, plane: &DataPlane, pool: PoolId) -> bool {
        let has_records = plane.pools.get(pool).is_some_and(|pool| pool.store.records().is_some());
        let is_taken =
            |kept: &Kept| kept.is_new || (!kept.is_starting() && self.saving.is_saved(kept.taken));
        has_records && !self.records.pools.get(&pool).is_some_and(is_taken)
    }

    /// The version of a record that is to be written. What all pools record has that of the change which it says,
    /// wherever that was made: the later one counts where pools of several controllers differ.
    fn version_to_write(&self, pool: PoolId, key: &RecordKey, text: Option<&str>) -> u64 {
        let same = self.records.pools.values().filter(|kept| kept.slots.is_current(key, text));
        let same = same.map(|kept| kept.slots.version_of(key)).max();
        let here = self.records.pools.get(&pool).map_or(0, |kept| kept.slots.version_of(key));
        // Something that was said before and is said again is said later.
        let known = self.told_version(key, text).max(same).filter(|&version| version > here);
        known.filter(|_| key.is_of_all_pools()).unwrap_or(self.configuration.generation)
    }

    /// The highest version with which a record of all pools is written here.
    pub(super) fn recorded_version(&self, key: &RecordKey) -> u64 {
        let versions = self.records.pools.values().map(|kept| kept.slots.version_of(key));
        versions.max().unwrap_or(0)
    }

    /// Versions of what all pools record, as the pools have them that are open here already, and as others told
    /// them.
    fn known_versions(&self) -> BTreeMap<RecordKey, Known> {
        let mut versions = BTreeMap::<RecordKey, Known>::new();
        let ready = |kept: &&Kept| matches!(kept.phase, Phase::Ready);
        let here = self.records.pools.values().filter(ready).flat_map(|kept| kept.slots.shared());
        let here = here.map(|(key, version)| (key, Known { version, is_heard: false }));
        let heard = self.peers.hearing.heard_versions();
        let heard = heard.map(|(key, version)| (key, Known { version, is_heard: true }));
        for (key, one) in here.chain(heard) {
            let known = versions.entry(key.clone()).or_default();
            known.version = known.version.max(one.version);
            known.is_heard |= one.is_heard;
        }
        versions
    }

    /// Whether a pool has records.
    pub(super) fn keeps_records(&self, pool: PoolId) -> bool {
        let kept = self.records.pools.get(&pool);
        kept.is_some_and(|kept| !matches!(kept.phase, Phase::Without))
    }

    fn tell_records(&mut self, plane: &DataPlane, pool: PoolId, severity: Severity, text: &str) {
        let name = plane.pools.get(pool).map_or("", |pool| &pool.name);
        self.events.note(severity, format!("pool {name}"), text.to_owned());
    }
}

impl Kept {
    /// Keeps the blocks of a part that were ever written.
    fn take_read(&mut self, first: u64, bytes: &[u8]) {
        let Phase::Reading { left, blocks, .. } = &mut self.phase else { return };
        for (number, block) in (first..).zip(bytes.chunks(BLOCK as usize)) {
            if block.iter().any(|&byte| byte != 0) {
                *left = left.saturating_sub(1);
                blocks.push((number, block.to_vec()));
            }
        }
    }
}
