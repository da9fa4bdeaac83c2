//! Host with a path to each controller: one that gets no answer leaves its session and tries another path.

use std::collections::BTreeMap;

use super::history::Value;
use super::scene::{Answer, Ask, Command, Event, Message, Scene};
use crate::random::Random;

const MILLISECOND: u64 = 1_000_000;

/// Time between two tries while no path serves.
const PAUSE: u64 = 50 * MILLISECOND;

#[derive(Clone, Copy, Debug)]
struct Sent {
    command: Command,
    to: usize,
}

/// The host.
pub(super) struct Host {
    index: usize,
    /// By controller.
    sessions: Vec<u64>,
    active: usize,
    under_way: BTreeMap<u64, Sent>,
    /// What it last knew of each block.
    known: Vec<Value>,
    /// What it asks again, since it does not know whether that was done.
    again: Vec<(usize, Ask)>,
    /// It does not ask before that.
    rests_until: u64,
    random: Random,
}

impl Host {
    /// One that knows nothing.
    pub(super) fn new(index: usize, scene: &mut Scene) -> Self {
        Self {
            index,
            sessions: vec![0; scene.profile.controllers.into()],
            active: 0,
            under_way: BTreeMap::new(),
            known: vec![0; scene.profile.blocks],
            again: Vec::new(),
            rests_until: 0,
            random: scene.random.fork(),
        }
    }

    /// Looks what is late, and asks for more.
    pub(super) fn wake(&mut self, scene: &mut Scene) {
        self.leave_late_sessions(scene);
        self.fill(scene);
        scene.after(PAUSE, Event::Wake { host: self.index });
    }

    fn leave_late_sessions(&mut self, scene: &mut Scene) {
        let deadline = scene.now.saturating_sub(scene.profile.host_patience);
        let late = self.under_way.values().find(|sent| sent.command.asked < deadline);
        let Some(&Sent { to, .. }) = late else { return };
        self.sessions[to] += 1;
        let (host, session) = (self.index, self.sessions[to]);
        self.to_controller(scene, to, Message::Login { host, session });
        let lost: Vec<u64> =
            self.under_way.iter().filter(|(_, sent)| sent.to == to).map(|(id, _)| *id).collect();
        for id in lost {
            self.ask_again(id);
        }
        self.active = (to + 1) % self.sessions.len();
    }

    /// A write whose end is not known is asked for once more, the same.
    fn ask_again(&mut self, id: u64) {
        let Some(Sent { command, .. }) = self.under_way.remove(&id) else { return };
        match command.ask {
            Ask::Write(_) | Ask::Reserve(_) => self.again.push((command.block, command.ask)),
            Ask::Read | Ask::Replace { .. } | Ask::Reservation => {}
        }
    }

    fn to_controller(&self, scene: &mut Scene, to: usize, message: Message) {
        if !scene.cut_paths.contains(&(self.index, to)) {
            scene.send(to, message);
        }
    }

    /// Asks for as much as it may have under way.
    pub(super) fn fill(&mut self, scene: &mut Scene) {
        while self.under_way.len() < scene.profile.depth && scene.now >= self.rests_until {
            let (block, ask) = self.again.pop().unwrap_or_else(|| self.draw(scene));
            let (id, to) = (scene.number(), self.active);
            let (host, session, asked) = (self.index, self.sessions[to], scene.now);
            let command = Command { host, session, id, block, ask, asked };
            self.under_way.insert(id, Sent { command, to });
            self.to_controller(scene, to, Message::Command(command));
        }
    }

    fn draw(&mut self, scene: &mut Scene) -> (usize, Ask) {
        let blocks = self.known.len();
        let only_reads = self.index < scene.profile.readers;
        let reads = only_reads || self.random.percent(scene.profile.read_percent);
        // The last block is the reservation's.
        if self.random.one_in(16) {
            let ask = if reads { Ask::Reservation } else { Ask::Reserve(scene.number()) };
            return (blocks - 1, ask);
        }
        let block = self.random.below(blocks as u64 - 1) as usize;
        let ask = match (reads, self.random.percent(50)) {
            (true, _) => Ask::Read,
            (false, true) => Ask::Write(scene.number()),
            (false, false) => Ask::Replace { expected: self.known[block], value: scene.number() },
        };
        (block, ask)
    }

    /// Hears an answer, if its session is still the one that it asked in.
    pub(super) fn hear(
        &mut self,
        scene: &mut Scene,
        (controller, session): (usize, u64),
        (id, answer): (u64, Answer),
    ) {
        if self.sessions[controller] != session || !self.under_way.contains_key(&id) {
            return;
        }
        match answer {
            Answer::Good(_) | Answer::Differs => {
                self.learn(scene, id, answer);
                self.think(scene);
            }
            Answer::NotReady | Answer::Busy => {
                self.ask_again(id);
                self.rests_until = scene.now + self.random.below(PAUSE);
                if answer == Answer::NotReady {
                    self.active = (controller + 1) % self.sessions.len();
                }
            }
        }
        self.fill(scene);
    }

    fn think(&mut self, scene: &mut Scene) {
        let pause = self.random.below(2 * scene.profile.think + 1);
        if pause > 0 {
            self.rests_until = scene.now + pause;
            scene.after(pause, Event::AskOn { host: self.index });
        }
    }

    fn learn(&mut self, scene: &mut Scene, id: u64, answer: Answer) {
        let Some(Sent { command, .. }) = self.under_way.remove(&id) else { return };
        scene.figures.operations += 1;
        scene.answered = scene.now;
        let known = &mut self.known[command.block];
        match (answer, command.ask.value()) {
            (Answer::Good(Some(value)), _) | (Answer::Good(None), Some(value)) => *known = value,
            (Answer::Good(None) | Answer::Differs | Answer::NotReady | Answer::Busy, _) => {}
        }
    }
}
