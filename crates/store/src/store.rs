//! Public interface of the pool engine, and the states of a pool: opening, serving, closed.

use std::time::Duration;

use block::{BlockError, DeviceResult, Request, VolumeId};

use crate::change::{Change, Done, Outcome, RECORDS, Tag};
use crate::difference::Comparison;
use crate::engine::Engine;
use crate::error::{ChangeError, CompareError, Failure};
use crate::evacuation::EvacuationStatus;
use crate::incident::Incident;
use crate::io::{Io, IoId, Waiter};
use crate::journal_loss::JournalLoss;
use crate::mirror::{Membership, MirrorStatus};
use crate::opening::{Opened, Opening};
use crate::options::{DeviceSpec, OpenContext, Options, PoolSpec, SlotSpec};
use crate::pool::Pool;
use crate::reclaim::Reclaim;
use crate::scrub::ScrubStatus;
use crate::serving::Serving;
use crate::status::{Health, Releasing, Space as SpaceStatus, Statistics};
use crate::volume::Volume;

/// One pool.
pub struct Store {
    state: State,
    /// Commits that damage to the journal had lost when the pool was opened all the same.
    journal_loss: Option<JournalLoss>,
}

/// What a pool is doing; each state owns the parts of the engine.
enum State {
    /// It is being made or recovered.
    Opening(Box<Opening>),
    /// It answers requests, or comes to its end.
    Serving(Box<Serving>),
    /// It could not be opened, or was closed, and nothing is under way.
    Closed(Box<Engine>),
}

impl Store {
    /// Makes an empty pool; `tag` is done when it is durable and open.
    pub fn format(spec: &PoolSpec, options: Options, tag: Tag) -> Self {
        Self::begin(Opening::format(spec, options, tag))
    }

    /// Opens the pool that lies in these slots, and replays its journal; `tag` is done when it
    /// serves or is found unusable, in which case nothing was written. The slots are in any order:
    /// labels tell what each is. Of devices that the pool does not need nothing but these is read.
    pub fn open(slots: &[SlotSpec], context: OpenContext, options: Options, tag: Tag) -> Self {
        Self::begin(Opening::open(slots, context, options, tag))
    }

    /// Begins with what may have failed already.
    fn begin((opening, opened): (Opening, Opened)) -> Self {
        let mut store = Self { state: State::Opening(Box::new(opening)), journal_loss: None };
        store.conclude(opened);
        store
    }

    fn engine(&self) -> &Engine {
        match &self.state {
            State::Opening(opening) => &opening.engine,
            State::Serving(serving) => &serving.engine,
            State::Closed(engine) => engine,
        }
    }

    fn engine_mut(&mut self) -> &mut Engine {
        match &mut self.state {
            State::Opening(opening) => &mut opening.engine,
            State::Serving(serving) => &mut serving.engine,
            State::Closed(engine) => engine,
        }
    }

    pub(crate) fn pool(&self) -> &Pool {
        &self.engine().pool
    }

    /// Goes on to the next state if opening the pool has come to an end.
    fn conclude(&mut self, opened: Opened) {
        if matches!(opened, Opened::NotYet) {
            return;
        }
        let State::Opening(opening) = self.take_state() else { return };
        let (tag, mut engine, loss) = opening.into_parts();
        self.journal_loss = loss;
        self.state = match opened {
            Opened::Failed(error) => {
                engine.checkpointer.abort();
                engine.pool.io.clear();
                closed(engine, tag, Err(Failure::Open(error)))
            }
            Opened::Checked => closed(engine, tag, Ok(Outcome::Changed)),
            Opened::Serves { read_only } => {
                let mut serving = Box::new(Serving::new(engine));
                serving.engine.answer(tag, Ok(Outcome::Changed));
                match read_only {
                    Some(reason) => serving.fail(reason),
                    None => serving.heal_labels(),
                }
                State::Serving(serving)
            }
            Opened::NotYet => return,
        };
    }

    /// A pool that serves nothing any more gives up all but what it knows of its content.
    fn close_if_over(&mut self) {
        if let State::Serving(serving) = &self.state
            && serving.is_over()
        {
            self.close();
        }
    }

    #[cold]
    fn close(&mut self) {
        if let State::Serving(serving) = self.take_state() {
            self.state = State::Closed(Box::new(serving.engine));
        }
    }

    fn take_state(&mut self) -> State {
        let empty = Engine::new(Options::default(), 0, [0; 16]);
        std::mem::replace(&mut self.state, State::Closed(Box::new(empty)))
    }

    /// Begins a request on a volume.
    pub fn submit(&mut self, tag: Tag, volume: VolumeId, request: Request) {
        match &mut self.state {
            State::Serving(serving) => serving.submit(tag, volume, request),
            State::Opening(_) | State::Closed(_) => {
                self.engine_mut().answer(tag, Err(BlockError::Closed.into()));
            }
        }
    }

    /// Begins a change of volumes or devices.
    pub fn change(&mut self, tag: Tag, change: Change) {
        match &mut self.state {
            State::Serving(serving) => serving.change(tag, change),
            State::Opening(_) | State::Closed(_) => {
                self.engine_mut().answer(tag, Err(ChangeError::Closed.into()));
            }
        }
        self.close_if_over();
    }

    /// How the moving of what is on a device that leaves is doing; `None` if none leaves.
    pub fn evacuation(&self) -> Option<EvacuationStatus> {
        match &self.state {
            State::Serving(serving) => serving.evacuator.status(&serving.engine.pool),
            State::Opening(_) | State::Closed(_) => None,
        }
    }

    /// Asks what differs between two snapshots; answered with [`Outcome::Difference`].
    pub fn compare(&mut self, tag: Tag, comparison: Comparison) {
        match &mut self.state {
            State::Serving(serving) => serving.compare(tag, comparison),
            State::Opening(_) | State::Closed(_) => {
                self.engine_mut().answer(tag, Err(CompareError::Closed.into()));
            }
        }
    }

    /// Takes the result of an I/O.
    pub fn completed(&mut self, id: IoId, result: DeviceResult) {
        if let Some((waiter, result)) = self.engine_mut().pool.io.completed(id, result) {
            self.consume(waiter, result);
        }
        self.consume_ended();
    }

    /// Consumes the results of I/O of mirrors.
    fn consume_ended(&mut self) {
        while let Some((waiter, result)) = self.engine_mut().pool.io.next_ended() {
            self.consume(waiter, result);
        }
    }

    fn consume(&mut self, waiter: Waiter, result: DeviceResult) {
        match &mut self.state {
            State::Opening(opening) => {
                let opened = opening.completed(waiter, result);
                self.conclude(opened);
            }
            State::Serving(serving) => {
                serving.completed(waiter, result);
                self.close_if_over();
            }
            State::Closed(_) => {}
        }
    }

    /// The next I/O for a device.
    pub fn next_io(&mut self) -> Option<Io> {
        if self.pool().io.is_empty() {
            self.advance();
        }
        self.engine_mut().pool.io.next()
    }

    /// The next request that came to its end.
    pub fn next_done(&mut self) -> Option<Done> {
        if self.engine().done.is_empty() {
            self.advance();
        }
        self.engine_mut().done.pop_front()
    }

    /// Lets everything go on that can, without waiting.
    fn advance(&mut self) {
        loop {
            match &mut self.state {
                State::Opening(opening) => {
                    let opened = opening.advance();
                    self.conclude(opened);
                }
                State::Serving(serving) => {
                    serving.advance();
                    self.close_if_over();
                }
                State::Closed(_) => {}
            }
            // I/O of a mirror that no member can do ends at once.
            if !self.pool().io.has_ended() {
                return;
            }
            self.consume_ended();
        }
    }

    /// Tells the time since an arbitrary start.
    pub fn tick(&mut self, now: Duration) {
        let engine = self.engine_mut();
        let passed = now.saturating_sub(engine.pool.now);
        let is_checkpoint_time = engine.tick(now);
        engine.pool.io.with_mirrors(|mirrors| mirrors.tick(now));
        match &mut self.state {
            State::Opening(opening) => opening.pass(passed),
            State::Serving(serving) => serving.tick(passed, is_checkpoint_time),
            State::Closed(_) => {}
        }
        self.consume_ended();
    }

    /// Begins a turn, in which durable commits change so many blocks of the map at most, and what one
    /// record changes besides; and in which comparisons look at a bounded part of the map. Without
    /// turns there is no such bound.
    pub fn begin_turn(&mut self, blocks_max: u64) {
        self.engine_mut().log.applier.begin_turn(blocks_max);
        if let State::Serving(serving) = &mut self.state {
            serving.comparer.begin_turn(blocks_max);
        }
    }

    /// Whether the next turn has something to do that waits for nothing else.
    pub fn has_more(&self) -> bool {
        let engine = self.engine();
        let applies = engine.log.applier.is_cut_short() && !engine.loader.applier_waits();
        let in_background = match &self.state {
            State::Serving(serving) => {
                serving.resilver_has_more
                    || serving.count_has_more()
                    || serving.comparer.has_more()
                    || serving.evacuator.has_more
            }
            State::Opening(_) | State::Closed(_) => false,
        };
        applies || in_background
    }

    /// The next incident, oldest first.
    pub fn next_incident(&mut self) -> Option<Incident> {
        let pool = &mut self.engine_mut().pool;
        pool.report_healed();
        pool.incidents.next()
    }

    /// The next membership list of a mirror that is durable on its members. Requests that rely on it
    /// wait until the caller has kept its generation and says so by [`Store::membership_witnessed`].
    pub fn next_membership(&mut self) -> Option<Membership> {
        self.engine_mut().pool.io.with_mirrors(|mirrors| mirrors.next_membership())
    }

    /// The caller has kept the generation of a list, or cannot keep it.
    pub fn membership_witnessed(&mut self, Membership { mirror, generation }: Membership) {
        let io = &mut self.engine_mut().pool.io;
        io.with_mirrors(|mirrors| mirrors.witnessed(mirror, generation));
        self.consume_ended();
    }

    /// The caller knows that the device of a slot is gone: if it is a member of a mirror, all its I/O
    /// fails from now on, also what is under way.
    pub fn lose(&mut self, slot: u8) {
        self.engine_mut().pool.io.with_mirrors(|mirrors| mirrors.lose(slot));
        self.consume_ended();
    }

    /// The caller is going to let a member leave its mirror, since another one takes its place: that one
    /// is filled from it only if there is no other current member. Not kept over an opening.
    pub fn going_to_leave(&mut self, member: [u8; 16]) {
        self.engine_mut().pool.io.with_mirrors(|mirrors| mirrors.going_to_leave(member));
    }

    /// Whether no I/O of a mirror's member is under way in a slot; then another device may take it.
    pub fn slot_is_idle(&self, slot: u8) -> bool {
        self.pool().io.mirrors().slot_is_idle(slot)
    }

    /// The logical devices and their members by the devices' numbers; those of devices that have left
    /// are not among them.
    pub fn mirrors(&self) -> impl Iterator<Item = MirrorStatus> {
        self.pool().mirrors()
    }

    /// Reclaim counters of a volume.
    pub fn reclaimed(&self, volume: VolumeId) -> Reclaim {
        self.pool().volumes.reclaimed(volume)
    }

    /// All volumes, by identifier.
    pub fn volumes(&self) -> impl Iterator<Item = &Volume> {
        self.pool().volumes.shown_after(None)
    }

    /// Volumes whose identifiers are above one, or all, by identifier: so that a caller can go
    /// through many in parts.
    pub fn volumes_after(&self, last: Option<VolumeId>) -> impl Iterator<Item = &Volume> {
        self.pool().volumes.shown_after(last)
    }

    /// The volume or snapshot of a name.
    pub fn volume_named(&self, name: &str) -> Option<&Volume> {
        self.pool().volumes.get(self.pool().volumes.directory().named(name)?)
    }

    /// Volumes and snapshots whose names begin with something.
    pub fn volumes_named_from<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = &'a Volume> {
        self.pool()
            .volumes
            .directory()
            .beginning(prefix)
            .filter_map(|id| self.pool().volumes.get(id))
    }

    /// Bytes that hosts see of all volumes that are no snapshots.
    pub fn provisioned_bytes(&self) -> u64 {
        self.pool().volumes.directory().provisioned_bytes()
    }

    /// How many volumes and snapshots there are.
    pub fn volume_count(&self) -> usize {
        self.pool().volumes.shown_len()
    }

    /// How many of them are snapshots.
    pub fn snapshot_count(&self) -> usize {
        self.pool().volumes.directory().snapshots()
    }

    /// How many snapshots of a volume there are.
    pub fn snapshots_of(&self, volume: VolumeId) -> usize {
        self.pool().volumes.directory().snapshots_of(volume)
    }

    /// One volume.
    pub fn volume(&self, id: VolumeId) -> Option<&Volume> {
        self.pool().volumes.shown(id)
    }

    /// The hidden volume of the array's records, [`crate::RECORDS`], if the pool has it.
    pub fn records(&self) -> Option<&Volume> {
        self.pool().volumes.get(RECORDS)
    }

    /// The devices by their numbers, which [`Self::mirrors`] tells, without those that have left.
    pub fn devices(&self) -> impl Iterator<Item = DeviceSpec> {
        self.mirrors().map(|status| {
            let (uuid, size_bytes) = (status.uuid, status.size_bytes);
            DeviceSpec { size_bytes, ..status.spec(uuid) }
        })
    }

    /// Counters since the pool was opened.
    pub fn statistics(&self) -> Statistics {
        let (groups_fenced, groups_unavailable) = self.pool().space.unusable();
        Statistics {
            pages_clean: self.pool().map.clean_pages() as u64,
            pages_dirty: self.pool().map.dirty.len() as u64,
            groups_loaded: self.pool().space.groups_loaded() as u64,
            groups_fenced,
            groups_unavailable,
            reap_queue: self.pool().map.dead_count() as u64,
            ..self.pool().statistics
        }
    }

    /// Work left before space that was given up counts as free.
    pub fn releasing(&self) -> Releasing {
        match self.pool().map.reap.is_empty() {
            false => Releasing::Subtrees,
            true if self.pool().space.groups_with_deltas() > 0 => Releasing::References,
            true => Releasing::Nothing,
        }
    }

    /// Bytes of data that wait for the reaper, at most: some of them others share.
    pub fn reap_bytes(&self) -> u64 {
        self.pool().map.reap.iter().map(|dead| u64::from(dead.entry.mapped) * block::BLOCK).sum()
    }

    /// Where the space went; nothing is known of it while the pool is being opened.
    pub fn space(&self) -> SpaceStatus {
        match &self.state {
            State::Opening(_) => SpaceStatus::default(),
            State::Serving(_) | State::Closed(_) => self.pool().space_status(),
        }
    }

    /// Says whether the pool is being extended: a request that finds no space then fails with
    /// [`BlockError::SpaceComing`] instead of [`BlockError::OutOfSpace`].
    pub fn set_extending(&mut self, extending: bool) {
        self.engine_mut().pool.budget.extending = extending;
    }

    /// Whether the pool serves.
    pub fn health(&self) -> Health {
        match &self.state {
            State::Opening(_) => Health::Opening,
            State::Serving(serving) => serving.health(),
            State::Closed(_) => Health::Closed,
        }
    }

    /// Commits that damage to the journal had lost when the pool was opened, read-only or rewound.
    pub fn journal_loss(&self) -> Option<&JournalLoss> {
        self.journal_loss.as_ref()
    }

    /// Begins a scrub; one that is under way begins anew.
    pub fn start_scrub(&mut self) {
        if let State::Serving(serving) = &mut self.state {
            serving.start_scrub();
        }
    }

    /// Bytes per second that scrubs read at most.
    pub fn scrub_rate(&self) -> u64 {
        self.pool().options.scrub_rate
    }

    /// Changes how many bytes per second scrubs read at most, also for one under way.
    pub fn set_scrub_rate(&mut self, rate: u64) {
        self.engine_mut().pool.options.scrub_rate = rate;
        if let State::Serving(serving) = &mut self.state {
            serving.scrubber.set_rate(rate);
        }
    }

    /// Changes how many bytes per second resilvers copy at most, also for those under way; and what is
    /// moved from a device that leaves.
    pub fn set_resilver_rate(&mut self, rate: u64) {
        self.engine_mut().pool.options.resilver_rate = rate;
        self.engine_mut().pool.io.with_mirrors(|mirrors| mirrors.set_resilver_rate(rate));
        if let State::Serving(serving) = &mut self.state {
            serving.evacuator.set_rate(rate);
        }
    }

    /// Changes how many bytes per second are moved at most from a device that leaves.
    pub fn set_evacuation_rate(&mut self, rate: u64) {
        if let State::Serving(serving) = &mut self.state {
            serving.evacuator.set_rate(rate);
        }
    }

    /// Ends a scrub that is under way.
    pub fn stop_scrub(&mut self) {
        if let State::Serving(serving) = &mut self.state {
            serving.scrubber.stop();
        }
    }

    /// How the scrub is doing, or how the last one ended.
    pub fn scrub_status(&self) -> ScrubStatus {
        match &self.state {
            State::Serving(serving) => serving.scrubber.status(),
            State::Opening(_) | State::Closed(_) => ScrubStatus::default(),
        }
    }

    /// Gives up a pool that takes no writes any more: everything under way is answered with
    /// [`BlockError::Closed`], and so is what comes. What was acknowledged is in its journal.
    /// I/O under way comes to its end; [`Store::has_io`] says when.
    pub fn abandon(&mut self) {
        if let State::Serving(serving) = &mut self.state {
            serving.abandon();
        }
        self.close_if_over();
    }

    /// Gives up a pool whose devices another owner took, in whatever state: everything under way is
    /// answered with [`BlockError::Closed`], and so is what comes. Its devices get nothing more, and
    /// I/O under way comes to its end. A pool that is being opened is not given up by this.
    pub fn withdraw(&mut self) {
        if let State::Serving(serving) = &mut self.state {
            serving.withdraw();
        }
        self.close_if_over();
    }

    /// Whether an I/O is under way on the devices, or pending.
    pub fn has_io(&self) -> bool {
        !self.pool().io.is_idle()
    }

    /// Whether anything is under way or waits to be done.
    pub fn is_idle(&self) -> bool {
        let has_requests = match &self.state {
            State::Serving(serving) => {
                !serving.requests.table.is_empty() || !serving.comparer.is_empty()
            }
            State::Opening(_) | State::Closed(_) => false,
        };
        let engine = self.engine();
        !has_requests
            && engine.pool.io.is_idle()
            && !engine.checkpointer.is_writing()
            && engine.pool.map.reap.is_empty()
    }

    /// Ends recovery before anything is written: the pool can be audited, and nothing else.
    pub(crate) fn check_only(&mut self) {
        if let State::Opening(opening) = &mut self.state {
            opening.check_only();
        }
    }

    #[cfg(test)]
    pub(crate) fn serving(&mut self) -> &mut Serving {
        match &mut self.state {
            State::Serving(serving) => serving,
            State::Opening(_) | State::Closed(_) => panic!("the pool serves"),
        }
    }

    /// The parts of the engine, for a check of the whole pool.
    pub(crate) fn parts(&self) -> &Engine {
        self.engine()
    }
}

/// A pool that serves nothing, with what its caller is told.
fn closed(mut engine: Engine, tag: Tag, result: Result<Outcome, Failure>) -> State {
    engine.answer(tag, result);
    State::Closed(Box::new(engine))
}
