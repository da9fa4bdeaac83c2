//! One controller: its process, its clock, what it knows of the others, and how it comes to the pool.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use control::limits::{
    LINK_BEAT, REOPEN_PAUSE, STANDBY_PAUSE, SWITCH_PATIENCE, TAKE_OVER_PAUSE, TAKE_OVER_SUSPICION,
};
use control::take_over::{
    HeldDevice, OwnerBeat, Sighting, Signs, Taking, Verdict, Watch, rest_of_lease,
};

use super::POOL_UUID;
use super::device::{Client, Reply};
use super::mistake::Mistake;
use super::pool::{Condition, Kept, OpenPool, answer_host};
use super::scene::{Answer, Command, Event, Message, OnWire, Opening, Said, Scene, Standing, Told};
use crate::oracle::Violation;

/// The pool, as the state machine knows it.
const POOL: &str = "pool";

/// Time between two ticks of a controller's loop, on its own clock.
const TICK: Duration = Duration::from_millis(100);

/// Its process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Process {
    Running,
    /// It stands still, with all that it has open.
    Paused,
    Dead,
}

/// What was last heard of another controller.
#[derive(Clone, Copy, Debug)]
struct Peer {
    heard: Duration,
    said: Said,
}

/// A try to open the devices, one after the other.
struct Attempt {
    client: Client,
    began: Duration,
    how: Opening,
    taking: Option<Taking>,
    opened: Vec<usize>,
    /// Of those that somebody else holds; `None` if no heartbeat is in it.
    held: Vec<Option<HeldDevice>>,
    /// Those that are not reached.
    absent: Vec<usize>,
    next: usize,
}

/// The controller.
pub(super) struct Controller {
    index: usize,
    life: u64,
    pub(super) process: Process,
    /// When its process began.
    born: u64,
    /// How fast its clock goes beside the true one, in millionths.
    rate: i64,
    watch: Watch,
    pub(super) pool: Option<OpenPool>,
    attempt: Option<Attempt>,
    next_try: Duration,
    /// Until then the pool is expected, since whoever had it let it go or is missed, and tried often.
    expected_until: Duration,
    next_said: Duration,
    ticked: Duration,
    peers: BTreeMap<u16, Peer>,
    /// Lives of other controllers' processes that have ended, as their machines said.
    ended: BTreeMap<u16, u64>,
    sessions: BTreeMap<usize, u64>,
    inbox: VecDeque<Message>,
    replies: VecDeque<(usize, Reply)>,
    beats: u64,
    /// What it kept when it had the pool last.
    kept: Kept,
}

impl Controller {
    /// One that is started now.
    pub(super) fn new(index: usize, scene: &mut Scene) -> Self {
        let error = scene.profile.clock_error;
        let rate = scene.random.below(2 * error + 1) as i64 - error as i64;
        Self {
            index,
            life: scene.number(),
            process: Process::Running,
            born: scene.now,
            rate,
            watch: Watch::new(Some(scene.profile.take_over_after)),
            pool: None,
            attempt: None,
            next_try: Duration::ZERO,
            expected_until: Duration::ZERO,
            next_said: Duration::ZERO,
            ticked: Duration::ZERO,
            peers: BTreeMap::new(),
            ended: BTreeMap::new(),
            sessions: BTreeMap::new(),
            inbox: VecDeque::new(),
            replies: VecDeque::new(),
            beats: 0,
            kept: Kept::default(),
        }
    }

    /// The process is started again, with its data directory and an empty memory.
    pub(super) fn restart(&mut self, scene: &mut Scene) {
        let lists = std::mem::take(&mut self.kept.lists);
        *self = Self { kept: Kept { reservation: 0, lists }, ..Self::new(self.index, scene) };
    }

    /// Its number in the array.
    const fn number(&self) -> u16 {
        self.index as u16 + 1
    }

    /// Which start of its process this is.
    pub(super) const fn life(&self) -> u64 {
        self.life
    }

    /// Time since its process began, as it measures that.
    fn clock(&self, scene: &Scene) -> Duration {
        let true_time = i128::from(scene.now - self.born);
        let own = true_time * i128::from(1_000_000 + self.rate) / 1_000_000;
        Duration::from_nanos(own as u64)
    }

    /// How it is, in words.
    pub(super) fn state(&self) -> String {
        let Self { process, pool, attempt, .. } = self;
        let pool = pool.as_ref().map(OpenPool::state);
        let attempt = attempt.as_ref().map(|attempt| (attempt.client, &attempt.how, attempt.next));
        format!("{process:?}, pool {pool:?}, attempt {attempt:?}")
    }

    fn standing(&self) -> Standing {
        match &self.pool {
            Some(pool) if pool.is_serving() => Standing::Active,
            Some(_) => Standing::Transitioning,
            None if self.attempt.as_ref().is_some_and(Attempt::breaks) => Standing::Transitioning,
            None => Standing::Standby,
        }
    }

    /// Takes a message, if its process is there.
    pub(super) fn take(&mut self, message: Message) {
        if self.process != Process::Dead {
            self.inbox.push_back(message);
        }
    }

    /// Takes the answer of a device.
    pub(super) fn hear(&mut self, device: usize, reply: Reply) {
        if self.process != Process::Dead {
            self.replies.push_back((device, reply));
        }
    }

    /// The process is killed; what it has under way at the devices goes its way, and its connections end.
    pub(super) fn kill(&mut self, scene: &mut Scene) {
        self.process = Process::Dead;
        self.tell_others(scene, &Message::Missed { from: self.number() });
        self.kept = self.pool.take().map_or_else(|| self.kept.clone(), |pool| pool.kept().clone());
        self.attempt = None;
        self.inbox.clear();
        self.replies.clear();
    }

    /// A process beside it on its machine tells the others that it has ended.
    pub(super) fn tell_end(&self, scene: &mut Scene, life: u64) {
        self.tell_others(scene, &Message::Ended { from: self.number(), life });
    }

    /// Its pool is to be given up for another controller, if it serves.
    pub(super) fn give_pool_up(&mut self, scene: &mut Scene) -> bool {
        let is_here = self.process == Process::Running;
        let Some(pool) = self.pool.as_mut().filter(|pool| is_here && pool.is_serving()) else {
            return false;
        };
        let client = pool.client();
        if scene.has(Mistake::LetsGoServing) {
            self.release_devices(scene, client);
        } else {
            pool.close(scene);
        }
        true
    }

    fn release_devices(&self, scene: &mut Scene, client: Client) {
        for device in 0..scene.devices.len() {
            scene.send_to_device(self.index, device, OnWire::Release { client });
        }
    }

    /// The process ends by itself, and lets go of what it has.
    pub(super) fn end(&mut self, scene: &mut Scene) {
        let client = self.pool.as_ref().map(OpenPool::client);
        if let Some(client) = client {
            scene.devices.iter_mut().for_each(|device| device.release(client));
        }
        self.let_go_of_attempt(scene);
        self.kill(scene);
    }

    fn let_go_of_attempt(&mut self, scene: &mut Scene) {
        let Some(attempt) = self.attempt.take() else { return };
        for device in attempt.opened {
            let release = OnWire::Release { client: attempt.client };
            scene.send_to_device(self.index, device, release);
        }
    }

    /// One turn of its loop: everything that has come, after a look if it is time for one.
    pub(super) fn turn(&mut self, scene: &mut Scene) -> Result<(), Violation> {
        if self.process != Process::Running {
            return Ok(());
        }
        let looks_first = !scene.has(Mistake::CommandsBeforeLook);
        if looks_first {
            self.tick(scene);
        }
        loop {
            self.carry_replies();
            self.read_messages(scene)?;
            if !self.run_pool(scene)? {
                break;
            }
        }
        if !looks_first {
            self.tick(scene);
        }
        Ok(())
    }

    /// Answers of devices go to the pool, if they are of its opening.
    fn carry_replies(&mut self) {
        for (device, reply) in std::mem::take(&mut self.replies) {
            let pool = self.pool.as_mut().filter(|pool| pool.client() == reply.client);
            if let Some(pool) = pool {
                pool.hear(device, reply);
            }
        }
    }

    /// Lets the pool go on; `true` if it is over and something else may go on.
    fn run_pool(&mut self, scene: &mut Scene) -> Result<bool, Violation> {
        let now = self.clock(scene);
        let Some(pool) = &mut self.pool else { return Ok(false) };
        let condition = pool.turn(scene)?;
        let pause = match condition {
            Condition::Here => return Ok(false),
            Condition::Failed => REOPEN_PAUSE,
            Condition::Lost => {
                self.watch.lost(POOL, now);
                scene.figures.lost += 1;
                REOPEN_PAUSE
            }
            Condition::GivenUp => {
                scene.figures.given_up += 1;
                SWITCH_PATIENCE
            }
        };
        self.kept = pool.kept().clone();
        let client = pool.client();
        self.pool = None;
        self.next_try = now + pause;
        self.release_devices(scene, client);
        self.say(scene);
        Ok(true)
    }

    fn read_messages(&mut self, scene: &mut Scene) -> Result<(), Violation> {
        while let Some(message) = self.inbox.pop_front() {
            match message {
                Message::Login { host, session } => {
                    self.sessions.insert(host, session);
                }
                Message::Command(command) => self.command(scene, command)?,
                Message::Said(said) => self.hear_peer(scene, said),
                Message::Missed { from } => self.miss(scene, from),
                Message::Ended { from, life } => {
                    self.ended.insert(from, life);
                    self.expect_pool(self.clock(scene));
                }
                Message::Told { client, device, told } => self.told(scene, client, (device, told)),
            }
        }
        Ok(())
    }

    /// Another controller says how it is.
    fn hear_peer(&mut self, scene: &Scene, said: Said) {
        let heard = self.clock(scene);
        let before = self.peers.insert(said.from, Peer { heard, said });
        let had = before.is_some_and(|peer| peer.said.standing == Standing::Active);
        if had && said.standing != Standing::Active {
            self.expect_pool(heard);
        }
    }

    /// The connection to another controller has ended.
    fn miss(&mut self, scene: &Scene, from: u16) {
        let peer = self.peers.get(&from);
        if peer.is_some_and(|peer| peer.said.standing == Standing::Active) {
            self.expect_pool(self.clock(scene));
        }
    }

    /// The pool was let go, or is about to be, or nothing moves in it any more: it is tried at once and often.
    fn expect_pool(&mut self, now: Duration) {
        self.next_try = now;
        self.expected_until = now + SWITCH_PATIENCE;
    }

    fn command(&mut self, scene: &mut Scene, command: Command) -> Result<(), Violation> {
        // A session that its host has left is gone with all that came over it.
        if self.sessions.get(&command.host).is_some_and(|session| *session > command.session) {
            return Ok(());
        }
        let answer = match &mut self.pool {
            Some(pool) => pool.command(scene, command)?,
            None => Some(Answer::NotReady),
        };
        if let Some(answer) = answer {
            answer_host(scene, self.index, &command, answer);
        }
        Ok(())
    }

    fn tick(&mut self, scene: &mut Scene) {
        let now = self.clock(scene);
        if now.saturating_sub(self.ticked) < TICK && now > TICK {
            return;
        }
        self.ticked = now;
        self.look_after_pool(scene);
        if now >= self.next_said {
            self.next_said = now + LINK_BEAT;
            self.say(scene);
        }
        if self.pool.is_none() && self.attempt.is_none() && now >= self.next_try {
            self.begin_attempt(scene, Opening::Respectful, None);
        }
        if self.pool.as_ref().is_some_and(OpenPool::is_serving) {
            scene.served = scene.now;
        }
    }

    fn look_after_pool(&mut self, scene: &mut Scene) {
        let (now, beat) = (self.clock(scene), self.next_beat());
        if let Some(pool) = &mut self.pool {
            pool.look(scene, &beat, now);
        }
    }

    fn next_beat(&mut self) -> OwnerBeat {
        self.beats += 1;
        OwnerBeat {
            pool_uuid: POOL_UUID,
            controller: self.number(),
            lease: self.watch.lease(true),
            life: self.life,
            count: self.beats,
            holder: String::new(),
        }
    }

    /// Tells the others how it is.
    fn say(&self, scene: &mut Scene) {
        let said = Said { from: self.number(), life: self.life, standing: self.standing() };
        self.tell_others(scene, &Message::Said(said));
    }

    fn tell_others(&self, scene: &mut Scene, message: &Message) {
        for to in 0..usize::from(scene.profile.controllers) {
            let link = (self.index.min(to), self.index.max(to));
            if to != self.index && !scene.cut_links.contains(&link) {
                scene.send(to, message.clone());
            }
        }
    }

    /// An administrator takes the pool from whoever has it, after a double fault.
    pub(super) fn open_by_force(&mut self, scene: &mut Scene) -> bool {
        let is_free = self.process == Process::Running && self.pool.is_none();
        if !is_free || self.attempt.is_some() {
            return false;
        }
        self.begin_attempt(scene, Opening::BreakingAny, None);
        true
    }

    fn begin_attempt(&mut self, scene: &mut Scene, how: Opening, taking: Option<Taking>) {
        let client = scene.new_client(self.index);
        let began = self.clock(scene);
        let (opened, held, absent, next) = (Vec::new(), Vec::new(), Vec::new(), 0);
        self.attempt = Some(Attempt { client, began, how, taking, opened, held, absent, next });
        self.open_next(scene);
    }

    fn open_next(&mut self, scene: &mut Scene) {
        let Some(attempt) = &self.attempt else { return };
        let open = OnWire::Open { client: attempt.client, how: attempt.how.clone() };
        scene.send_to_device(self.index, attempt.next, open);
    }

    /// A device has answered the try to open it.
    fn told(&mut self, scene: &mut Scene, client: Client, (device, told): (usize, Told)) {
        let Some(attempt) = self.attempt.as_mut().filter(|attempt| attempt.client == client) else {
            return;
        };
        match told {
            Told::Open => attempt.opened.push(device),
            Told::Held { holder, beat } => {
                let holder = holder.map(|holder| holder.to_string());
                attempt.held.push(beat.map(|beat| HeldDevice { holder, beat }));
            }
            Told::Absent => attempt.absent.push(device),
        }
        attempt.next += 1;
        if attempt.next < scene.devices.len() {
            return self.open_next(scene);
        }
        let is_free = attempt.held.is_empty() && !attempt.opened.is_empty();
        if is_free && attempt.may_lack(scene) { self.open_pool(scene) } else { self.give_up(scene) }
    }

    /// All devices are its own. A former owner that went on until the last moment may answer hosts from
    /// its memory for a while.
    fn open_pool(&mut self, scene: &mut Scene) {
        let now = self.clock(scene);
        let Some(attempt) = self.attempt.take() else { return };
        let blocks = attempt.opened.iter().map(|&device| scene.devices[device].beat_block());
        let found: Vec<OwnerBeat> = blocks.filter_map(|block| OwnerBeat::parse(&block)).collect();
        let rest = if attempt.breaks() {
            rest_of_lease(&found, attempt.taking.as_ref())
        } else {
            Duration::ZERO
        };
        scene.tell(7, || format!("client {} opens the pool in {rest:?}", attempt.client));
        let rest = if scene.has(Mistake::IgnoresFreshBeats) { Duration::ZERO } else { rest };
        let place = (self.index, attempt.client);
        let kept = self.kept.clone();
        let mut pool = OpenPool::new(scene, place, &attempt.opened, now + rest, kept);
        pool.announce(scene, &self.next_beat(), now);
        self.pool = Some(pool);
        self.watch.forget(POOL);
    }

    /// Somebody else has it; perhaps it is to be taken from them.
    fn give_up(&mut self, scene: &mut Scene) {
        let now = self.clock(scene);
        let Some(attempt) = &self.attempt else { return };
        let (began, was_breaking) = (attempt.began, attempt.breaks());
        let devices: Option<Vec<HeldDevice>> = attempt.held.iter().cloned().collect();
        let devices = devices.filter(|devices| !devices.is_empty() && attempt.may_lack(scene));
        let sighting = devices.map(|devices| Sighting { devices });
        self.let_go_of_attempt(scene);
        let is_expected = now < self.expected_until;
        self.next_try = now + if is_expected { STANDBY_PAUSE } else { REOPEN_PAUSE };
        if was_breaking {
            return;
        }
        self.watch.look(POOL, sighting, (began, now));
        let Some(signs) = self.signs(began) else { return };
        if signs.silence.is_some_and(|silence| silence >= TAKE_OVER_SUSPICION) {
            self.next_try = began + TAKE_OVER_PAUSE;
        }
        if let Verdict::Take(taking) = self.watch.judge(POOL, signs) {
            self.watch.forget(POOL);
            scene.figures.take_overs += 1;
            scene.tell(8, || format!("controller {} takes the pool: {taking:?}", self.number()));
            let holders = taking.holders.iter().filter_map(|name| name.parse().ok()).collect();
            self.begin_attempt(scene, Opening::Breaking(holders), Some(taking));
        }
    }

    fn signs(&self, began: Duration) -> Option<Signs> {
        let OwnerBeat { controller: owner, life, .. } = *self.watch.owner(POOL)?;
        let peer = self.peers.get(&owner);
        let silence = if owner == self.number() {
            Duration::MAX
        } else {
            began.saturating_sub(peer.map_or(Duration::ZERO, |peer| peer.heard))
        };
        let others = || self.peers.iter().filter(|(number, _)| **number != owner);
        let stands = |peer: &Peer, standing| peer.said.standing == standing;
        let is_claimed = others().any(|(_, peer)| !stands(peer, Standing::Standby));
        let is_before = |(number, peer): &(&u16, &Peer)| {
            **number < self.number() && stands(peer, Standing::Standby)
        };
        Some(Signs {
            silence: Some(silence),
            is_new_start: peer.is_some_and(|peer| peer.said.life != life),
            has_ended: self.ended.get(&owner) == Some(&life),
            is_claimed,
            before: others().filter(is_before).count() as u32,
        })
    }

    /// The next tick, as long as its process is this one.
    pub(super) fn plan_tick(&self, scene: &mut Scene) {
        let (controller, life) = (self.index, self.life);
        scene.after(TICK.as_nanos() as u64, Event::Tick { controller, life });
    }
}

impl Attempt {
    /// Whether the pool may be opened without the devices that are not reached: the engine says so if its witness is.
    fn may_lack(&self, scene: &Scene) -> bool {
        let witness = scene.profile.witness_slot();
        let is_careless = scene.has(Mistake::OpensWithoutWitness);
        self.absent.is_empty()
            || is_careless
            || witness.is_some_and(|witness| !self.absent.contains(&witness))
    }

    fn breaks(&self) -> bool {
        match self.how {
            Opening::Respectful => false,
            Opening::Breaking(_) | Opening::BreakingAny => true,
        }
    }
}
