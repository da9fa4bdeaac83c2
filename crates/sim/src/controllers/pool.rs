//! One controller's open pool: the real engine, its heartbeat and lease, and the commands in it.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use block::{
    BLOCK, BlockError, Buffer, ByteRange, DeviceError, DeviceOperation, Request, Response, Rope,
};
use control::take_over::{OwnerBeat, Pulse, is_in_doubt};
use store::{
    Change, ChangeError, Failure, Health, IoId, MemberSpec, MemberState, OpenContext, Options,
    Outcome, SlotSpec, Store, Tag,
};

use super::device::{Client, OWNER_BEAT_OFFSET, Reply};
use super::history::Value;
use super::mistake::Mistake;
use super::scene::{Answer, Ask, Command, Event, OnWire, Scene};
use super::{POOL_UUID, VOLUME};
use crate::content::{NOBODY, block_tags, bytes_of, tags_of};
use crate::oracle::{Violation, violation};

/// The engine's I/O counts from 0.
const BEAT_IO: u64 = u64::MAX;

/// Opening.
const OPEN: u64 = 0;

/// The reading of everything, after the opening.
const READ_ALL: u64 = 1;

/// The closing.
const CLOSE: u64 = 2;

/// Time between two tries to bring back members that were lost.
const RETURN_PAUSE: Duration = Duration::from_secs(1);

/// How far it is.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Stage {
    /// A former owner may answer hosts from its memory until then.
    Resting { until: Duration },
    /// The engine reads its devices.
    Recovering,
    /// The pool is open, and this is in it: hosts are served as soon as a heartbeat is written.
    Open { found: Option<Vec<Value>> },
    /// Hosts were served.
    Serving,
    /// It is given up for another controller: the engine answers what is under way, and closes.
    Closing,
    /// The engine is closed.
    Closed,
}

/// What a controller keeps of the pool.
#[derive(Clone, Debug, Default)]
pub(super) struct Kept {
    /// In memory: what the last block holds.
    pub(super) reservation: Value,
    /// In its data directory: the newest list of members of each mirror that it was told of.
    pub(super) lists: BTreeMap<[u8; 16], u64>,
}

struct Flight {
    command: Command,
    number: u64,
}

/// The pool.
pub(super) struct OpenPool {
    client: Client,
    controller: usize,
    store: Store,
    stage: Stage,
    pulses: Vec<Pulse>,
    /// A number of this opening among all.
    opening: u64,
    flights: BTreeMap<u64, Flight>,
    kept: Kept,
    is_in_doubt: bool,
    is_fenced: bool,
    /// Members that come back, by the request that brings them.
    returning: BTreeMap<u64, u8>,
    next_return: Duration,
    next_tag: u64,
    replies: VecDeque<(usize, Reply)>,
}

/// How the pool is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Condition {
    /// It serves hosts, or is about to.
    Here,
    /// Its engine could not open it.
    Failed,
    /// Another controller has taken it, and nothing of it is under way.
    Lost,
    /// It is closed, for another controller.
    GivenUp,
}

/// What the engine is told of the pool's devices that were opened.
fn slots(scene: &Scene, opened: &[usize]) -> Vec<SlotSpec> {
    let slot =
        |&device: &usize| SlotSpec { slot: device as u8, size_bytes: scene.devices[device].size() };
    opened.iter().map(slot).collect()
}

/// The member, or witness, that lies in a slot.
pub(super) fn member_in(scene: &Scene, slot: u8) -> MemberSpec {
    MemberSpec { uuid: [100 + slot; 16], slot, size_bytes: scene.profile.device_bytes }
}

/// How the engine is run.
pub(super) fn options(scene: &Scene) -> Options {
    Options {
        journal_bytes: 4 << 20,
        memory_bytes: 1 << 20,
        checkpoint_interval: scene.profile.checkpoint_interval,
        hang_limit: scene.profile.hang_limit,
        ..Options::default()
    }
}

impl OpenPool {
    /// Devices that are all this client's. Hosts of a former owner may be answered until then.
    pub(super) fn new(
        scene: &mut Scene,
        (controller, client): (usize, Client),
        opened: &[usize],
        until: Duration,
        Kept { reservation, lists }: Kept,
    ) -> Self {
        let context = OpenContext {
            expected_pool_uuid: Some(POOL_UUID),
            witnessed: lists.iter().map(|(mirror, generation)| (*mirror, *generation)).collect(),
            shared: true,
            allow_degraded: scene.has(Mistake::OpensWithoutWitness),
        };
        let store = Store::open(&slots(scene, opened), context, options(scene), Tag(OPEN));
        Self {
            client,
            controller,
            store,
            stage: Stage::Resting { until },
            pulses: vec![Pulse::default(); scene.devices.len()],
            opening: scene.number(),
            flights: BTreeMap::new(),
            kept: Kept { reservation, lists },
            is_in_doubt: true,
            is_fenced: false,
            returning: BTreeMap::new(),
            next_return: Duration::ZERO,
            next_tag: CLOSE + 1,
            replies: VecDeque::new(),
        }
    }

    /// How the devices name its owner.
    pub(super) const fn client(&self) -> Client {
        self.client
    }

    /// How it is, in words.
    pub(super) fn state(&self) -> String {
        let Self { client, stage, is_in_doubt, is_fenced, store, .. } = self;
        let health = store.health();
        let mirrors: Vec<_> = store.mirrors().collect();
        format!(
            "of client {client}: {stage:?}, {health:?}, in doubt {is_in_doubt}, fenced {is_fenced}, \
             {mirrors:?}"
        )
    }

    /// What outlives the opening.
    pub(super) fn kept(&self) -> &Kept {
        &self.kept
    }

    /// Whether hosts are served.
    pub(super) fn is_serving(&self) -> bool {
        self.stage == Stage::Serving && !self.is_in_doubt && !self.is_fenced
    }

    /// It is given up for another controller.
    pub(super) fn close(&mut self, scene: &mut Scene) {
        self.stage = Stage::Closing;
        self.store.change(Tag(CLOSE), Change::Close);
        scene.tell(13, || format!("client {} closes the pool", self.client));
    }

    /// Takes the answer of a device.
    pub(super) fn hear(&mut self, device: usize, reply: Reply) {
        self.replies.push_back((device, reply));
    }

    /// The look of every tick: time passes, a heartbeat is due, the lease may be over.
    pub(super) fn look(&mut self, scene: &mut Scene, beat: &OwnerBeat, now: Duration) {
        if let Stage::Resting { until } = self.stage {
            if now < until {
                return;
            }
            self.stage = Stage::Recovering;
        }
        self.store.tick(now);
        self.beat(scene, beat, now);
        let is_in_doubt = is_in_doubt(&self.proofs(scene), beat.lease, now);
        self.is_in_doubt = is_in_doubt && !scene.has(Mistake::ServesWithoutLease);
        if now >= self.next_return {
            self.next_return = now + RETURN_PAUSE;
            self.bring_back(scene);
        }
    }

    /// Heartbeats that prove together that nobody else has opened the pool.
    fn proofs(&self, scene: &Scene) -> Vec<Vec<Pulse>> {
        if scene.has(Mistake::AnyBeatIsEnough) {
            return self.pulses.iter().map(|pulse| vec![*pulse]).collect();
        }
        let pulse = |slot: &u8| self.pulses[usize::from(*slot)];
        let slots = self.store.mirrors().flat_map(|mirror| mirror.proofs());
        slots.map(|slots| slots.iter().map(pulse).collect()).collect()
    }

    /// Members that were lost come back, if their devices are reached and nobody else has them. An owner whose
    /// witness somebody else has is one no more.
    fn bring_back(&mut self, scene: &mut Scene) {
        if self.store.health() != Health::Ready || self.is_fenced {
            return;
        }
        let members: Vec<_> = self.store.mirrors().flat_map(|mirror| mirror.members).collect();
        for member in members {
            let slot = member.uuid[0] - 100;
            let device = usize::from(slot);
            let is_away = matches!(member.state, MemberState::Absent | MemberState::WitnessAbsent);
            let is_cut = scene.cut_wires.contains(&(self.controller, device));
            if !is_away || is_cut || self.returning.values().any(|other| *other == slot) {
                continue;
            }
            if !scene.devices[device].is_free() && !scene.devices[device].admits(self.client) {
                if member.state.is_witness() {
                    self.lose(scene);
                    return;
                }
                continue;
            }
            scene.devices[device].admit(self.client);
            let tag = self.next_tag;
            self.next_tag += 1;
            self.returning.insert(tag, slot);
            let returned = member_in(scene, slot);
            let change = if member.state.is_witness() {
                Change::ReturnWitness { member: returned }
            } else {
                Change::ReturnMember { member: returned }
            };
            self.store.change(Tag(tag), change);
        }
    }

    /// Another owner has the pool.
    fn lose(&mut self, scene: &mut Scene) {
        self.is_fenced = true;
        self.store.withdraw();
        scene.tell(4, || format!("client {} is fenced", self.client));
    }

    /// A member has come back, or not; `false` if the request was none to bring one.
    fn has_returned(
        &mut self,
        scene: &mut Scene,
        tag: u64,
        result: &Result<Outcome, Failure>,
    ) -> bool {
        let Some(slot) = self.returning.remove(&tag) else { return false };
        let is_witness = scene.profile.witness_slot() == Some(usize::from(slot));
        scene.tell(12, || format!("client {}: return of {slot}: {result:?}", self.client));
        match result {
            Ok(_) => scene.figures.returns += 1,
            Err(Failure::Change(ChangeError::NotThatMember)) if is_witness => self.lose(scene),
            Err(_) => {}
        }
        true
    }

    fn beat(&mut self, scene: &mut Scene, beat: &OwnerBeat, now: Duration) {
        let members = self.store.mirrors().flat_map(|mirror| mirror.members);
        let known: Vec<usize> = members.filter_map(|member| member.slot).map(usize::from).collect();
        if self.is_fenced || self.store.health() == Health::Closed {
            return;
        }
        for device in known {
            if self.pulses[device].is_due(beat.lease, now) {
                self.pulses[device].begin(beat.lease, now);
                self.write_beat(scene, beat, device);
            }
        }
    }

    fn write_beat(&self, scene: &mut Scene, beat: &OwnerBeat, device: usize) {
        let mut block = Buffer::zeroed(BLOCK as usize);
        OwnerBeat { holder: self.client.to_string(), ..beat.clone() }.emit(&mut block);
        let data = Rope::from(block.freeze());
        let operation = DeviceOperation::Write { offset: OWNER_BEAT_OFFSET, data };
        let io = OnWire::Io { client: self.client, io: BEAT_IO, operation };
        scene.send_to_device(self.controller, device, io);
    }

    /// Writes the first heartbeat before anything else, where one of the pool is already.
    pub(super) fn announce(&mut self, scene: &mut Scene, beat: &OwnerBeat, now: Duration) {
        for device in 0..scene.devices.len() {
            let found = OwnerBeat::parse(&scene.devices[device].beat_block());
            if found.is_some_and(|found| found.pool_uuid == POOL_UUID) {
                self.pulses[device].begin(beat.lease, now);
                self.write_beat(scene, beat, device);
            }
        }
    }

    /// Goes on as far as it can now; says how the pool is then.
    pub(super) fn turn(&mut self, scene: &mut Scene) -> Result<Condition, Violation> {
        if matches!(self.stage, Stage::Resting { .. }) {
            return Ok(Condition::Here);
        }
        loop {
            self.take_replies(scene);
            if !self.hear_engine(scene)? {
                return Ok(Condition::Failed);
            }
            self.begin_to_serve(scene)?;
            let Some(io) = self.store.next_io() else { break };
            let device = usize::from(io.device);
            let what = OnWire::Io { client: self.client, io: io.id.0, operation: io.operation };
            scene.send_to_device(self.controller, device, what);
        }
        Ok(if self.store.has_io() {
            Condition::Here
        } else if self.is_fenced {
            Condition::Lost
        } else if self.stage == Stage::Closed {
            Condition::GivenUp
        } else {
            Condition::Here
        })
    }

    fn take_replies(&mut self, scene: &mut Scene) {
        let is_refused =
            |(_, reply): &(usize, Reply)| matches!(reply.result, Err(DeviceError::Fenced));
        if self.replies.iter().any(is_refused) {
            self.lose(scene);
        }
        for (device, reply) in std::mem::take(&mut self.replies) {
            if reply.io == BEAT_IO {
                self.pulses[device].end(reply.result.is_ok());
            } else {
                self.store.completed(IoId(reply.io), reply.result);
            }
        }
    }

    /// Takes what the engine has to say; `false` if it could not open the pool.
    fn hear_engine(&mut self, scene: &mut Scene) -> Result<bool, Violation> {
        while let Some(membership) = self.store.next_membership() {
            self.kept.lists.insert(membership.mirror, membership.generation);
            self.store.membership_witnessed(membership);
        }
        self.hear_of_damage(scene)?;
        while let Some(done) = self.store.next_done() {
            match (done.tag.0, done.result) {
                (OPEN, Ok(_)) => self.read_all(scene),
                (OPEN, Err(error)) => {
                    scene.tell(5, || format!("client {} cannot open: {error}", self.client));
                    return Ok(false);
                }
                (READ_ALL, Ok(outcome)) => {
                    self.stage = Stage::Open { found: Some(values_of(&outcome)) };
                }
                (READ_ALL, Err(_)) => {}
                (CLOSE, _) => self.stage = Stage::Closed,
                (tag, result) if self.has_returned(scene, tag, &result) => {}
                (tag, result) => self.ended(scene, tag, result)?,
            }
        }
        Ok(true)
    }

    /// Whether all devices that its engine uses take what it writes: then they hold what it wrote.
    fn is_rightful(&self, scene: &Scene) -> bool {
        let members = self.store.mirrors().flat_map(|mirror| mirror.members);
        let used = members.filter(|member| {
            !matches!(member.state, MemberState::Absent | MemberState::WitnessAbsent)
        });
        let mut slots = used.filter_map(|member| member.slot);
        slots.all(|slot| scene.devices[usize::from(slot)].admits(self.client))
    }

    /// A copy of a mirror may lack what a former owner had on its way to the others; it is written again.
    fn hear_of_damage(&mut self, scene: &Scene) -> Result<(), Violation> {
        while let Some(incident) = self.store.next_incident() {
            if incident.is_lost && self.is_rightful(scene) {
                return violation(format!("somebody else wrote: {incident:?}"));
            }
        }
        Ok(())
    }

    fn read_all(&mut self, scene: &Scene) {
        self.stage = Stage::Open { found: None };
        let range = ByteRange::new(0, scene.profile.blocks as u64 * BLOCK);
        self.store.submit(Tag(READ_ALL), VOLUME, Request::Read { range });
    }

    /// Hosts are served from the first heartbeat on.
    fn begin_to_serve(&mut self, scene: &mut Scene) -> Result<(), Violation> {
        let Stage::Open { found } = &mut self.stage else { return Ok(()) };
        let Some(found) = found.take_if(|_| !self.is_in_doubt && !self.is_fenced) else {
            return Ok(());
        };
        let (opening, client, now) = (self.opening, self.client, scene.now);
        scene.tell(6, || format!("client {client} serves as opening {opening}"));
        scene.figures.settled += scene.history.opened(opening, &found, now)?;
        scene.figures.openings += 1;
        scene.figures.degraded +=
            u64::from(self.store.mirrors().any(|mirror| mirror.is_degraded()));
        if !scene.has(Mistake::ReservationForgotten) {
            self.kept.reservation = found.last().copied().unwrap_or_default();
        }
        self.stage = Stage::Serving;
        Ok(())
    }

    /// Takes a command of a host; answers what needs no engine.
    pub(super) fn command(
        &mut self,
        scene: &mut Scene,
        command: Command,
    ) -> Result<Option<Answer>, Violation> {
        if !self.is_serving() {
            scene.figures.not_ready += 1;
            return Ok(Some(Answer::NotReady));
        }
        if command.ask == Ask::Reservation {
            let value = self.kept.reservation;
            scene.history.check_read(command.block, (command.asked, scene.now), value)?;
            return Ok(Some(Answer::Good(Some(value))));
        }
        if command.ask.value().is_some() && scene.history.is_busy(command.block, self.opening) {
            return Ok(Some(Answer::Busy));
        }
        let number = scene.number();
        if let Some(value) = command.ask.value() {
            scene.history.begin(command.block, number, self.opening, value);
        }
        let tag = self.next_tag;
        self.next_tag += 1;
        self.flights.insert(tag, Flight { command, number });
        self.store.submit(Tag(tag), VOLUME, request(&command));
        Ok(None)
    }

    fn ended(
        &mut self,
        scene: &mut Scene,
        tag: u64,
        result: Result<Outcome, Failure>,
    ) -> Result<(), Violation> {
        let Some(Flight { command, number }) = self.flights.remove(&tag) else {
            return violation(format!("command {tag} came to its end twice"));
        };
        let (block, times) = (command.block, (command.asked, scene.now));
        let answer = match (command.ask, result) {
            (Ask::Read, Ok(outcome)) => {
                let value = values_of(&outcome).first().copied().unwrap_or(NOBODY);
                scene.history.check_read(block, times, value)?;
                Answer::Good(Some(value))
            }
            (Ask::Replace { expected, .. }, Err(Failure::Block(BlockError::Miscompare { .. }))) => {
                scene.history.check_difference(block, times, expected)?;
                scene.history.without_effect(block, number);
                Answer::Differs
            }
            (Ask::Replace { expected, .. }, Ok(_)) => {
                scene.history.replaced(block, (number, expected), scene.now)?;
                Answer::Good(None)
            }
            (Ask::Write(_), Ok(_)) => {
                scene.history.done(block, number, scene.now)?;
                Answer::Good(None)
            }
            (Ask::Reserve(value), Ok(_)) => {
                scene.history.done(block, number, scene.now)?;
                self.kept.reservation = value;
                Answer::Good(None)
            }
            // What became of a write is seen at the next opening.
            (_, Err(Failure::Block(BlockError::Closed))) | (Ask::Reservation, Ok(_)) => {
                Answer::NotReady
            }
            (_, Err(error)) if self.is_rightful(scene) => {
                return violation(format!("command {number} failed though no medium did: {error}"));
            }
            (_, Err(_)) => Answer::NotReady,
        };
        answer_host(scene, self.controller, &command, answer);
        Ok(())
    }
}

/// An answer goes to its host.
pub(super) fn answer_host(scene: &mut Scene, controller: usize, command: &Command, answer: Answer) {
    if scene.cut_paths.contains(&(command.host, controller)) {
        return;
    }
    let Command { host, session, id, .. } = *command;
    let latency = scene.random.between(20_000, 150_000);
    scene.after(latency, Event::ToHost { host, session: (controller, session), id, answer });
}

fn request(command: &Command) -> Request {
    let range = ByteRange::new(command.block as u64 * BLOCK, BLOCK);
    match command.ask {
        Ask::Read | Ask::Reservation => Request::Read { range },
        Ask::Write(value) | Ask::Reserve(value) => {
            Request::Write { range, data: bytes_of(&block_tags(value)) }
        }
        Ask::Replace { expected, value } => Request::CompareAndWrite {
            range,
            compare: bytes_of(&block_tags(expected)),
            write: bytes_of(&block_tags(value)),
        },
    }
}

/// What blocks hold that were read.
fn values_of(outcome: &Outcome) -> Vec<Value> {
    let Outcome::Response(Response::Data(data)) = outcome else { return Vec::new() };
    let tags = tags_of(data);
    let value = |block: &[u64]| {
        let value = block[0] >> 20;
        if block == block_tags(value) { value } else { NOBODY }
    };
    tags.chunks(block_tags(0).len()).map(value).collect()
}
