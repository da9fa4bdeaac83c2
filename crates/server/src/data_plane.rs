//! Shared state of the data path: the front ends above, the pools below, and the requests that
//! pass between them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use block::{BlockError, Primitive, Request, VolumeId};
use hashbrown::HashMap;
use store::{Change, Comparison, Done, Health, Outcome, Tag};

use crate::dispatch::{self, Asked, Dispatch};
use crate::exports::{Export, ExportEvent, Exports, VolumeSpace};
use crate::http::Doors;
use crate::iscsi::{HeldCommand, Places, Refusals};
use crate::ledger_feed::LedgerFeed;
use crate::limits::{BLOCKS_PER_TURN, TICK, VOLUMES_PER_TICK};
use crate::pool::Pool;
use crate::pools::{PoolId, Pools, Round};
use crate::rod_token_spaces::is_hidden;
use crate::scheduler::HostNumber;
use crate::throttle::{Claim, Throttle};
use crate::unit_states::UnitStates;
use crate::witness::Witness;
use crate::work::{RequestId, SessionId};

/// Set in the tags of management work; clear in those of front ends' requests.
const MANAGEMENT: u64 = 1 << 63;

/// The front ends, the pools, and who is where.
pub(crate) struct DataPlane {
    /// The front ends, which hear of every change of what is exported.
    pub(crate) exports: Exports,
    pub(crate) unit_states: UnitStates,
    /// Keeps which members of mirrors are current.
    pub(crate) witness: Witness,
    pub(crate) pools: Pools,
    /// The pool of each volume that is being served.
    pool_of: HashMap<VolumeId, PoolId>,
    next_ticket: u64,
    /// When time was told last.
    last_tick: Duration,
    /// Which volumes' space is told next.
    round: Round,
    pub(crate) traffic: Traffic,
    pub(crate) feed: LedgerFeed,
    pub(crate) dispatch: Dispatch,
    /// Holds back commands, and requests of copies, for the limits of volumes and hosts.
    pub(crate) throttle: Throttle<HeldWork>,
    /// The host of each session.
    hosts: HashMap<SessionId, HostNumber>,
    finished: Vec<(Ticket, Result<Outcome, store::Failure>)>,
    /// Logins and connections that were refused.
    pub(crate) refusals: Refusals,
    /// Connections: logging in, of discovery sessions, of normal sessions.
    pub(crate) connections: [usize; 3],
    /// For whom there is room among them.
    pub(crate) places: Places,
    /// Connections of the management interface.
    pub(crate) http_doors: Arc<Doors>,
}

/// What limits hold back.
pub(crate) enum HeldWork {
    Command(HeldCommand),
    Request(Asked),
}

/// Traffic counters of all connections since the daemon started.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Traffic {
    /// Bytes received on connections that are closed.
    pub(crate) received: u64,
    /// Bytes sent on connections that are closed.
    pub(crate) sent: u64,
    /// Commands answered.
    pub(crate) commands: u64,
}

/// The name of a piece of management work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Ticket(u64);

impl Ticket {
    /// Its number, which no other has.
    pub(crate) const fn number(self) -> u64 {
        self.0
    }

    pub(crate) fn tag(self) -> Tag {
        Tag(self.0 | MANAGEMENT)
    }
}

impl DataPlane {
    pub(crate) fn new(
        exports: Exports,
        (unit_states, witness): (UnitStates, Witness),
        feed: LedgerFeed,
        http_doors: Arc<Doors>,
    ) -> Self {
        Self {
            exports,
            unit_states,
            witness,
            pools: Pools::default(),
            pool_of: HashMap::new(),
            next_ticket: 0,
            last_tick: Duration::ZERO,
            round: Round::default(),
            traffic: Traffic::default(),
            feed,
            dispatch: Dispatch::new(),
            throttle: Throttle::default(),
            hosts: HashMap::new(),
            finished: Vec::new(),
            refusals: Refusals::default(),
            connections: [0; 3],
            places: Places::default(),
            http_doors,
        }
    }

    /// Begins a change of a pool, unless the pool is served no more; its outcome comes from
    /// [`DataPlane::take_finished`] under the ticket.
    pub(crate) fn begin(&mut self, pool: PoolId, change: Change) -> Option<Ticket> {
        let ticket = self.new_ticket();
        self.pools.get_mut(pool)?.store.change(ticket.tag(), change);
        Some(ticket)
    }

    /// Asks a pool what differs between two snapshots, unless it is served no more; as
    /// [`DataPlane::begin`].
    pub(crate) fn compare(&mut self, pool: PoolId, comparison: Comparison) -> Option<Ticket> {
        let ticket = self.new_ticket();
        self.pools.get_mut(pool)?.store.compare(ticket.tag(), comparison);
        Some(ticket)
    }

    /// A name for a new piece of management work; its outcome comes from [`DataPlane::take_finished`].
    pub(crate) fn new_ticket(&mut self) -> Ticket {
        self.next_ticket += 1;
        Ticket(self.next_ticket)
    }

    pub(crate) fn take_finished(&mut self) -> Vec<(Ticket, Result<Outcome, store::Failure>)> {
        let finished = std::mem::take(&mut self.finished);
        finished.into_iter().filter_map(|work| self.take_rod_token_space(work)).collect()
    }

    /// The pool of that name, while it is open.
    pub(crate) fn pool_named(&self, name: &str) -> Option<(PoolId, &Pool)> {
        self.pools.iter().find(|(_, pool)| pool.name == name)
    }

    /// Where a command queues that works on this volume, if it works on one: the volume's pool.
    pub(crate) fn lane(&self, volume: Option<VolumeId>) -> Option<usize> {
        Some(self.pool_of.get(&volume?)?.lane())
    }

    /// Lets hosts reach a volume of a pool.
    ///
    /// # Errors
    /// When what was kept of its reservations cannot be read: then no host reaches it.
    pub(crate) fn export(
        &mut self,
        volume: VolumeId,
        pool: PoolId,
        export: Export,
    ) -> anyhow::Result<()> {
        let state = self.unit_states.load(volume)?;
        self.exports.tell(&ExportEvent::Added(volume, export));
        self.exports.restore(volume, state.unwrap_or_default());
        self.attach(volume, pool);
        Ok(())
    }

    /// Sends the requests for a volume to a pool from now on.
    fn attach(&mut self, volume: VolumeId, pool: PoolId) {
        self.route(volume, pool);
        self.give_rod_token_space(volume, pool);
    }

    /// Says in which pool a volume is that no host needs to see.
    pub(crate) fn route(&mut self, volume: VolumeId, pool: PoolId) {
        self.pool_of.insert(volume, pool);
    }

    /// 'volume POOL/NAME', as events name it.
    pub(crate) fn name_of(&self, volume: VolumeId) -> String {
        let pool = self.pool_of.get(&volume).and_then(|&pool| self.pools.get(pool));
        let found = pool.and_then(|pool| Some((&pool.name, &pool.store.volume(volume)?.spec.name)));
        found.map_or_else(
            || format!("volume {:016x}", volume.0),
            |(pool, name)| format!("volume {pool}/{name}"),
        )
    }

    /// A volume or snapshot that the administrator made, and its pool.
    pub(crate) fn volume(&self, (pool, id): (PoolId, VolumeId)) -> Option<(&Pool, &store::Volume)> {
        let pool = self.pools.get(pool)?;
        let volume = pool.store.volume(id).filter(|volume| !is_hidden(volume))?;
        Some((pool, volume))
    }

    /// The pool of a volume that is served.
    pub(crate) fn pool_of(&self, volume: VolumeId) -> Option<PoolId> {
        self.pool_of.get(&volume).copied()
    }

    /// Volumes that are served from a pool.
    pub(crate) fn volumes_of(&self, pool: PoolId) -> impl Iterator<Item = VolumeId> {
        let of_pool = self.pool_of.iter().filter(move |(_, other)| **other == pool);
        of_pool.map(|(volume, _)| *volume)
    }

    /// Forgets a volume; requests for it fail from now on.
    pub(crate) fn detach(&mut self, volume: VolumeId) {
        self.pool_of.remove(&volume);
    }

    /// Forgets every volume of a pool that is served no more.
    pub(crate) fn detach_all(&mut self, pool: PoolId) {
        self.pool_of.retain(|_, other| *other != pool);
    }

    /// Says whose share the requests of a session are taken from, and whose limits it has.
    pub(crate) fn open_session(&mut self, session: SessionId, host: HostNumber, name: &str) {
        self.hosts.insert(session, host);
        self.throttle.open_session(session, name);
    }

    /// The session is gone, and with it the commands that limits hold back; what it has under way still
    /// ends.
    pub(crate) fn close_session(&mut self, session: SessionId) {
        self.hosts.remove(&session);
        self.throttle.withdraw(Some(session), |held| matches!(held, HeldWork::Command(_)));
        self.throttle.close_session(session);
    }

    /// Carries requests down, as many as this turn of the loop may take, and completions up until
    /// nothing moves.
    pub(crate) fn pump(&mut self) {
        loop {
            let mut moved = self.submit_requests();
            for (id, pool) in self.pools.iter_mut() {
                moved |= pool.pump();
                while let Some(membership) = pool.store.next_membership() {
                    self.witness.keep(id, pool.uuid, membership);
                }
            }
            moved |= self.take_done();
            if !moved {
                return;
            }
        }
    }

    /// A turn of the loop begins.
    pub(crate) fn begin_turn(&mut self, now: Instant) {
        self.dispatch.begin_turn(now);
        for (_, pool) in self.pools.iter_mut() {
            pool.store.begin_turn(BLOCKS_PER_TURN);
        }
    }

    /// Whether the next turn of the loop has something to do here.
    pub(crate) fn has_more(&self) -> bool {
        self.dispatch.can_start() || self.pools.iter().any(|(_, pool)| pool.store.has_more())
    }

    pub(crate) fn tick(&mut self, now: Duration) {
        self.exports.tick(now);
        // What a turn of the loop took too long is not the devices' fault.
        let step = now.saturating_sub(self.last_tick).min(2 * TICK);
        self.last_tick = now;
        for (_, pool) in self.pools.iter_mut() {
            pool.pump();
            pool.pass(step);
        }
        self.feed.tick(now, self.pools.iter().map(|(_, pool)| pool));
        for (pool, volume) in self.round.next(&self.pools, VOLUMES_PER_TICK) {
            self.tell_space_of(pool, volume);
        }
    }

    /// Tells front ends where a volume's space stands, before a command asks for it.
    pub(crate) fn tell_space_before(&mut self, volume: VolumeId) {
        if let Some(pool) = self.pool_of(volume) {
            self.tell_space_of(pool, volume);
        }
    }

    /// Tells front ends where a volume's space stands. What is freed counts as available
    /// before the next checkpoint, so that hosts are not told again with each of them.
    fn tell_space_of(&mut self, pool: PoolId, volume: VolumeId) {
        let Some(pool) = self.pools.get(pool) else { return };
        // Nothing is known of the space of a pool that is being opened, and hosts are told nothing of it.
        if pool.health() == Health::Opening {
            return;
        }
        let Some(volume) = pool.store.volume(volume) else { return };
        let space = pool.space();
        let backed = space.total - space.reserve - space.unbacked;
        let threshold = left_at(pool.soft_percent, backed);
        let promised = if volume.spec.thick { 0 } else { space.promised };
        let can_run_out = !volume.spec.thick && !volume.spec.snapshot;
        let volume_space = VolumeSpace {
            available: (space.free + space.pending).saturating_sub(promised),
            used: volume.mapped_bytes,
            warn_at: can_run_out.then_some(threshold),
        };
        self.exports.tell(&ExportEvent::Space(volume.spec.id, volume_space));
    }

    fn submit_requests(&mut self) -> bool {
        let mut moved = false;
        while let Some((id, volume, state)) = self.exports.next_save() {
            moved = true;
            self.unit_states.store(id, volume, state);
        }
        while let Some((id, volume, request)) = self.exports.next_request() {
            moved = true;
            if let Some(passed) = self.throttled((id, volume, request)) {
                self.send_down(passed);
            }
        }
        moved |= self.withdraw_unwanted();
        while let Some((id, volume, request)) = self.dispatch.next() {
            moved = true;
            self.submit(id, volume, request);
        }
        moved
    }

    /// Holds a request of a copy back if the limits of its volumes or its host say so. Other commands
    /// were held back before they began.
    fn throttled(&mut self, asked: Asked) -> Option<Asked> {
        if self.throttle.is_idle() {
            return Some(asked);
        }
        let Some(issuer) = self.exports.issuer(asked.0) else { return Some(asked) };
        if !matches!(issuer.primitive, Primitive::ExtendedCopy | Primitive::Token) {
            return Some(asked);
        }
        let session = issuer.session;
        let host = self.hosts.get(&session).copied().unwrap_or(HostNumber(0));
        let claim = Claim::of_request((host, session), &asked, dispatch::cost(&asked.2));
        match self.throttle.admit(claim, HeldWork::Request(asked))? {
            HeldWork::Request(asked) => Some(asked),
            HeldWork::Command(_) => None,
        }
    }

    /// A request goes to the engine, or waits for its host's turn.
    pub(crate) fn send_down(&mut self, (id, volume, request): Asked) {
        if Dispatch::passes(&request) {
            self.submit(id, volume, request);
        } else {
            self.queue(id, volume, request);
        }
    }

    /// Requests that wait here, of commands that were aborted meanwhile, go nowhere.
    fn withdraw_unwanted(&mut self) -> bool {
        if !self.exports.take_unwanted() {
            return false;
        }
        let mut withdrawn = self.dispatch.withdraw(|id| self.exports.is_wanted(id));
        let is_unwanted = |held: &HeldWork| match held {
            HeldWork::Request(asked) => !self.exports.is_wanted(asked.0),
            HeldWork::Command(_) => false,
        };
        let held = self.throttle.withdraw(None, is_unwanted);
        withdrawn.extend(held.iter().filter_map(|held| match held {
            HeldWork::Request(asked) => Some(asked.0),
            HeldWork::Command(_) => None,
        }));
        withdrawn.iter().for_each(|&id| self.exports.withdrawn(id));
        !withdrawn.is_empty()
    }

    /// A request waits for its host's turn.
    fn queue(&mut self, id: RequestId, volume: VolumeId, request: Request) {
        match self.pool_for(volume, &request) {
            Ok(pool) => {
                let issuer = self.exports.issuer(id);
                let session = issuer.map_or(SessionId(0), |issuer| issuer.session);
                let host = self.hosts.get(&session).copied().unwrap_or(HostNumber(0));
                self.dispatch.push(pool.lane(), (host, session), (id, volume, request));
            }
            Err(error) => self.exports.completed(id, Err(error)),
        }
    }

    /// A request goes to the engine of its pool, which may have gone while it waited.
    fn submit(&mut self, id: RequestId, volume: VolumeId, request: Request) {
        match self.pool_for(volume, &request) {
            Ok(pool) => self.submit_to(pool, id, volume, request),
            Err(error) => self.refuse(id, error),
        }
    }

    fn submit_to(&mut self, pool: PoolId, id: RequestId, volume: VolumeId, request: Request) {
        let Some(mut pool) = self.pools.get_mut(pool).filter(|pool| !pool.is_withheld) else {
            return self.refuse(id, BlockError::Closed);
        };
        self.feed.submitted(id, volume, &request);
        pool.store.submit(Tag(id.0), volume, request);
    }

    /// Lets hosts use a pool that was opened.
    pub(crate) fn admit(&mut self, pool: PoolId) {
        if let Some(mut pool) = self.pools.get_mut(pool) {
            pool.is_withheld = false;
        }
    }

    fn refuse(&mut self, id: RequestId, error: BlockError) {
        self.dispatch.finished(id);
        self.exports.completed(id, Err(error));
    }

    fn pool_for(&self, volume: VolumeId, request: &Request) -> Result<PoolId, BlockError> {
        let pool_of = |volume| self.pool_of.get(&volume).copied().ok_or(BlockError::NoSuchVolume);
        let pool = pool_of(volume)?;
        if let Request::Copy { source, .. } = request
            && pool_of(*source)? != pool
        {
            return Err(BlockError::DifferentPool);
        }
        Ok(pool)
    }

    fn take_done(&mut self) -> bool {
        let mut moved = false;
        for (_, pool) in self.pools.iter_mut() {
            while let Some(Done { tag, result, statistics }) = pool.store.next_done() {
                moved = true;
                if tag.0 & MANAGEMENT != 0 {
                    self.finished.push((Ticket(tag.0 & !MANAGEMENT), result));
                } else {
                    let id = RequestId(tag.0);
                    self.dispatch.finished(id);
                    let issuer = self.exports.issuer(id);
                    self.feed.answered(id, issuer, result.is_ok(), &statistics);
                    self.exports.completed(id, block_result(result));
                }
            }
        }
        moved
    }
}

/// What is left of so many bytes when so many percent of them are used, rounded so that it agrees
/// with what the administrator is told.
fn left_at(used_percent: u8, bytes: u64) -> u64 {
    let used = (u128::from(bytes) * u128::from(used_percent)).div_ceil(100);
    bytes - u64::try_from(used).expect("at most 100 percent")
}

fn block_result(result: Result<Outcome, store::Failure>) -> Result<block::Response, BlockError> {
    match result {
        Ok(Outcome::Response(response)) => Ok(response),
        Err(store::Failure::Block(error)) => Err(error),
        other => unreachable!("a request is answered with a response, not {other:?}"),
    }
}
