//! Simulated array of several controllers: real engines over devices that they share and that fence, the real
//! state machine of take-over, hosts with several paths, and processes, wires and links that fail.
//!
//! It is a model of the protocol: which of the devices' locks are broken when, what a former owner may still
//! answer, what a new one must wait for. The engine and `control::take_over` are those of the daemon; the code
//! between them is of the simulator.

mod controller;
mod device;
mod figures;
mod history;
mod host;
mod mistake;
mod pool;
mod profile;
mod scene;
mod trouble;

use std::panic::{AssertUnwindSafe, catch_unwind};

use block::VolumeId;
use store::{Change, DeviceSpec, IoId, MemberSpec, PoolSpec, Store, Tag, VolumeSpec};

use crate::oracle::{Violation, violation};
use crate::random::Random;
use crate::world::{RunReport, words_of};
use controller::{Controller, Process};
use device::Client;
pub use figures::Figures;
use host::Host;
pub use mistake::Mistake;
pub use profile::Profile;
use scene::{Event, Message, OnWire, Scene};

const POOL_UUID: [u8; 16] = *b"simulated pool 2";

/// The volume that hosts share.
const VOLUME: VolumeId = VolumeId(1);

/// The client that makes the pool.
const MAKER: Client = 0;

/// Virtual time within which hosts are served when everything is well: the longest rest of a controller that
/// was fenced again and again is shorter, and so is the patience of administrators.
const PATIENCE: u64 = 2 * 3600 * 1_000_000_000;

/// Which run to play.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    /// Everything follows from it.
    pub seed: u64,
    /// Commands of hosts.
    pub operations: u64,
    /// A deliberate mistake.
    pub mistake: Option<Mistake>,
}

impl Run {
    /// The conditions that it makes.
    pub fn profile(&self) -> Profile {
        Profile::new(&mut Random::new(self.seed), self.mistake)
    }

    /// Plays it, and keeps so many of the last events in words.
    pub fn play(&self, story_events: usize) -> RunReport<Figures> {
        let mut world = World::new(self, story_events);
        let played = catch_unwind(AssertUnwindSafe(|| world.play(self.operations)));
        let violation = match played {
            Ok(Ok(())) => None,
            Ok(Err(violation)) => Some(violation.0),
            Err(panic) => Some(format!("the engine stopped: {}", words_of(&*panic))),
        };
        let Scene { figures, sum, .. } = world.scene;
        RunReport { seed: self.seed, figures, sum, violation, story: world.scene.story() }
    }
}

struct World {
    scene: Scene,
    controllers: Vec<Controller>,
    hosts: Vec<Host>,
    /// Nothing fails any more.
    is_quiet: bool,
}

impl World {
    fn new(run: &Run, story_events: usize) -> Self {
        let mut random = Random::new(run.seed);
        let profile = Profile::new(&mut random, run.mistake);
        let mut scene = Scene::new(profile, random, story_events);
        let controllers =
            (0..scene.profile.controllers.into()).map(|index| Controller::new(index, &mut scene));
        let controllers = controllers.collect();
        let hosts = (0..scene.profile.hosts).map(|index| Host::new(index, &mut scene)).collect();
        Self { scene, controllers, hosts, is_quiet: false }
    }

    fn play(&mut self, operations: u64) -> Result<(), Violation> {
        self.make_pool()?;
        self.begin();
        // With so much going wrong that nobody is served for hours, it ends early.
        while self.scene.figures.operations < operations && !self.is_unserved() {
            self.step()?;
        }
        self.calm_down()
    }

    /// Makes the pool and its volume, and lets go of the devices.
    fn make_pool(&mut self) -> Result<(), Violation> {
        self.scene.devices.iter_mut().for_each(|device| device.admit(MAKER));
        let mut store = Store::format(&self.pool_spec(), pool::options(&self.scene), Tag(0));
        self.drive(&mut store)?;
        let blocks = self.scene.profile.blocks as u64;
        let volume = VolumeSpec {
            id: VOLUME,
            name: "shared".to_owned(),
            size_bytes: blocks * block::BLOCK,
            thick: false,
            naa: [1; 16],
            snapshot: false,
            created: 0,
        };
        let witness = self.scene.profile.witness_slot().map(|slot| Change::AttachWitness {
            device: 0,
            member: pool::member_in(&self.scene, slot as u8),
        });
        let changes = witness.into_iter().chain([Change::CreateVolume(volume), Change::Close]);
        for change in changes {
            store.change(Tag(0), change);
            self.drive(&mut store)?;
        }
        self.scene.devices.iter_mut().for_each(|device| device.release(MAKER));
        let stall_one_in = self.scene.profile.stall_one_in;
        self.scene.devices.iter_mut().for_each(|device| device.set_stalls(stall_one_in));
        Ok(())
    }

    fn pool_spec(&self) -> PoolSpec {
        let mut slots = 0..;
        let mut device = |(number, members): (u8, &u8)| {
            let members: Vec<MemberSpec> = slots
                .by_ref()
                .take(usize::from(*members))
                .map(|slot: u8| pool::member_in(&self.scene, slot))
                .collect();
            match members[..] {
                [only] => DeviceSpec::plain(only),
                _ => DeviceSpec::mirror([200 + number; 16], members),
            }
        };
        let devices = (0..).zip(&self.scene.profile.devices).map(&mut device).collect();
        PoolSpec { pool_uuid: POOL_UUID, devices }
    }

    /// Runs an engine of the maker's until it has answered.
    fn drive(&mut self, store: &mut Store) -> Result<(), Violation> {
        loop {
            while let Some(membership) = store.next_membership() {
                store.membership_witnessed(membership);
            }
            if let Some(done) = store.next_done() {
                return done.result.map(drop).or_else(|error| violation(error.to_string()));
            }
            while let Some(io) = store.next_io() {
                let name = (MAKER, io.id.0);
                self.scene.devices[usize::from(io.device)].submit(
                    self.scene.now,
                    name,
                    io.operation,
                );
            }
            let Some((time, device)) = self.scene.next_completion() else { continue };
            self.scene.now = self.scene.now.max(time);
            if let Some(reply) = self.scene.devices[device].complete_next() {
                store.completed(IoId(reply.io), reply.result);
            }
        }
    }

    fn begin(&mut self) {
        (self.scene.served, self.scene.answered) = (self.scene.now, self.scene.now);
        for controller in 0..self.controllers.len() {
            self.controllers[controller].plan_tick(&mut self.scene);
        }
        for host in 0..self.hosts.len() {
            let begins = self.scene.random.below(50_000_000);
            self.scene.after(begins, Event::Wake { host });
        }
        self.plan_trouble();
        self.scene.after(ADMINISTRATOR_LOOKS, Event::Administrator);
    }

    /// The next thing that happens: an I/O ends, or something else.
    fn step(&mut self) -> Result<(), Violation> {
        if self.is_quiet && self.is_unserved() {
            let states = self.controllers.iter().map(Controller::state).collect::<Vec<_>>();
            return violation(format!(
                "no host is served although everything is well: {}",
                states.join("; ")
            ));
        }
        let event = self.scene.queue.first_key_value().map(|((time, _), _)| *time);
        let completion = self.scene.next_completion();
        match (completion, event) {
            (Some((time, device)), next) if next.is_none_or(|next| time <= next) => {
                self.scene.now = self.scene.now.max(time);
                if let Some(reply) = self.scene.devices[device].complete_next() {
                    self.scene.device_answers(device, reply);
                }
            }
            (_, Some(time)) => {
                self.scene.now = self.scene.now.max(time);
                if let Some((_, event)) = self.scene.queue.pop_first() {
                    self.happen(event)?;
                }
            }
            (_, None) => return violation("nothing happens any more"),
        }
        self.carry_arrivals()
    }

    /// Answers of devices wake their controllers.
    fn carry_arrivals(&mut self) -> Result<(), Violation> {
        while let Some((to, what, device)) = self.scene.arrived.pop_front() {
            let controller = &mut self.controllers[to];
            match what {
                OnWire::Reply(reply) => controller.hear(device, reply),
                OnWire::Told { client, told } => {
                    controller.take(Message::Told { client, device, told });
                }
                OnWire::Io { .. } | OnWire::Open { .. } | OnWire::Release { .. } => {}
            }
            controller.turn(&mut self.scene)?;
        }
        Ok(())
    }

    fn happen(&mut self, event: Event) -> Result<(), Violation> {
        let Self { scene, controllers, hosts, .. } = self;
        match event {
            Event::ToController { to, message } => {
                controllers[to].take(message);
                controllers[to].turn(scene)?;
            }
            Event::ToHost { host, session, id, answer } => {
                hosts[host].hear(scene, session, (id, answer));
            }
            Event::AtDevice { from, device, what } => scene.at_device(from, device, what),
            Event::Tick { controller, life } => {
                if controllers[controller].life() == life {
                    controllers[controller].turn(scene)?;
                    controllers[controller].plan_tick(scene);
                }
            }
            Event::Wake { host } => hosts[host].wake(scene),
            Event::AskOn { host } => hosts[host].fill(scene),
            Event::Resume { controller } => self.resume(controller)?,
            Event::EndNoticed { controller, life } => controllers[controller].tell_end(scene, life),
            Event::Restart { controller } => self.restart(controller),
            Event::HealWire { controller, device } => scene.heal_wire(controller, device),
            Event::HealLink { between } => {
                scene.cut_links.remove(&between);
            }
            Event::HealPath { host, controller } => {
                scene.cut_paths.remove(&(host, controller));
            }
            Event::ForgetFences { device } => scene.devices[device].forget_fences(),
            Event::Trouble => self.trouble(),
            Event::Administrator => self.administrate(),
        }
        Ok(())
    }

    fn is_unserved(&self) -> bool {
        self.scene.now > self.scene.answered + PATIENCE
    }

    /// Everything is well from now on: hosts are served again, and go on to be.
    fn calm_down(&mut self) -> Result<(), Violation> {
        self.is_quiet = true;
        self.scene.answered = self.scene.now;
        self.heal_all()?;
        let operations = self.scene.figures.operations;
        while self.scene.figures.operations < operations + 100 {
            self.step()?;
        }
        let serving = self.controllers.iter().filter(|controller| {
            controller.process == Process::Running
                && controller.pool.as_ref().is_some_and(pool::OpenPool::is_serving)
        });
        match serving.count() {
            0 | 1 => Ok(()),
            count => violation(format!("{count} controllers serve the pool")),
        }
    }
}

/// How often an administrator looks whether hosts are served.
const ADMINISTRATOR_LOOKS: u64 = 30 * 1_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_run() {
        let run = |seed| Run { seed, operations: 500, mistake: None }.play(0);
        let (first, again, other) = (run(7), run(7), run(8));
        assert_eq!(first.violation, None);
        assert_eq!((first.sum, first.figures), (again.sum, again.figures));
        assert_ne!(first.sum, other.sum);
    }
}
