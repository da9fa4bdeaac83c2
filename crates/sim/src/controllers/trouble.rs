//! Failures: processes that stand still, are killed or end; wires, links and paths that are cut; and the
//! administrator who helps after a double fault.

use super::controller::{Controller, Process};
use super::mistake::Mistake;
use super::scene::{Event, Scene};
use super::{ADMINISTRATOR_LOOKS, World};
use crate::oracle::Violation;

const MILLISECOND: u64 = 1_000_000;
const SECOND: u64 = 1000 * MILLISECOND;

/// How long hosts are not served until an administrator opens the pool by force.
const ADMINISTRATOR_WAITS: u64 = 180 * SECOND;

/// Hosts are not served for so long: something is wrong already.
const UNSERVED: u64 = SECOND;

/// While they are not served no more is wrong at once.
const BROKEN_MAX: usize = 2;

/// And so many troubles in a hundred do not happen.
const UNSERVED_CALM_PERCENT: u64 = 95;

impl World {
    pub(super) fn plan_trouble(&mut self) {
        let pause = self.scene.random.below(2 * self.scene.profile.trouble_interval) + MILLISECOND;
        self.scene.after(pause, Event::Trouble);
    }

    /// Something goes wrong, for a time.
    pub(super) fn trouble(&mut self) {
        if self.is_quiet {
            return;
        }
        self.plan_trouble();
        let is_served = self.scene.now < self.scene.served + UNSERVED;
        if !is_served
            && (self.broken() >= BROKEN_MAX || self.scene.random.percent(UNSERVED_CALM_PERCENT))
        {
            return;
        }
        let Scene { random, profile, .. } = &mut self.scene;
        let length = random.pick(&profile.trouble_lengths);
        let length = length + random.below(length);
        let kind = random.weighted(&profile.troubles.all());
        let controller = self.troubled();
        match kind {
            0 => self.pause(controller, length),
            1 => self.kill(controller, length),
            2 => self.end(controller, length),
            3 => self.cut_wire(controller, length),
            4 => self.cut_link(controller, length),
            5 => self.cut_path(controller, length),
            6 => self.isolate(controller, length),
            7 => self.lose_machine(controller, length),
            8 => self.switch(),
            _ => self.force(),
        }
    }

    /// What is wrong just now.
    fn broken(&self) -> usize {
        let is_running = |one: &&Controller| one.process == Process::Running;
        let gone = self.controllers.len() - self.controllers.iter().filter(is_running).count();
        gone + self.scene.cut_wires.len() + self.scene.cut_links.len()
    }

    /// Most often whoever has the pool.
    fn troubled(&mut self) -> usize {
        let owner = self.controllers.iter().position(|controller| controller.pool.is_some());
        let any = self.scene.random.below(self.controllers.len() as u64) as usize;
        owner.filter(|_| self.scene.random.percent(60)).unwrap_or(any)
    }

    fn pause(&mut self, controller: usize, length: u64) {
        if self.controllers[controller].process != Process::Running {
            return;
        }
        self.controllers[controller].process = Process::Paused;
        self.scene.figures.pauses += 1;
        self.note(controller, "stands still");
        if self.scene.has(Mistake::TellsEndOfLiving) {
            self.notice_end(controller);
        }
        self.scene.after(length, Event::Resume { controller });
    }

    fn kill(&mut self, controller: usize, length: u64) {
        self.lose_process(controller, length);
        self.notice_end(controller);
    }

    fn lose_process(&mut self, controller: usize, length: u64) {
        if self.controllers[controller].process == Process::Dead {
            return;
        }
        self.controllers[controller].kill(&mut self.scene);
        self.scene.figures.kills += 1;
        self.note(controller, "is killed");
        self.scene.after(length, Event::Restart { controller });
    }

    /// A process beside that of a controller notices after a moment that it has ended, if it lives itself.
    fn notice_end(&mut self, controller: usize) {
        let Scene { random, profile, .. } = &mut self.scene;
        if random.percent(profile.end_told_percent) {
            let pause = random.below(profile.end_told_within) + MILLISECOND;
            let life = self.controllers[controller].life();
            self.scene.after(pause, Event::EndNoticed { controller, life });
        }
    }

    fn end(&mut self, controller: usize, length: u64) {
        if self.controllers[controller].process != Process::Running {
            return;
        }
        self.controllers[controller].end(&mut self.scene);
        self.scene.figures.ends += 1;
        self.note(controller, "ends by itself");
        self.notice_end(controller);
        self.scene.after(length, Event::Restart { controller });
    }

    /// An administrator wants the pool to be with another controller.
    fn switch(&mut self) {
        for controller in 0..self.controllers.len() {
            if self.controllers[controller].give_pool_up(&mut self.scene) {
                self.note(controller, "gives the pool up");
            }
        }
    }

    fn cut_wire(&mut self, controller: usize, length: u64) {
        let device = self.scene.random.below(self.scene.devices.len() as u64) as usize;
        self.cut_wire_to(controller, device, length);
    }

    fn cut_wire_to(&mut self, controller: usize, device: usize, length: u64) {
        if self.scene.cut_wires.insert((controller, device)) {
            self.scene.figures.cuts += 1;
            self.note(controller, "has lost a device");
            self.scene.after(length, Event::HealWire { controller, device });
        }
    }

    /// It is cut off from the other controllers; each device is on one of the two sides, or on both.
    fn isolate(&mut self, controller: usize, length: u64) {
        for device in 0..self.scene.devices.len() {
            match self.scene.random.below(5) {
                0 | 1 => self.cut_wire_to(controller, device, length),
                2 | 3 => self.cut_others(controller, device, length),
                _ => {}
            }
        }
        for other in 0..self.controllers.len() {
            self.cut_link_to(controller, other, length);
        }
    }

    fn cut_others(&mut self, controller: usize, device: usize, length: u64) {
        for other in (0..self.controllers.len()).filter(|&other| other != controller) {
            self.cut_wire_to(other, device, length);
        }
    }

    /// Its machine is gone, with one of the devices.
    fn lose_machine(&mut self, controller: usize, length: u64) {
        let device = self.scene.random.below(self.scene.devices.len() as u64) as usize;
        for other in 0..self.controllers.len() {
            self.cut_wire_to(other, device, length);
        }
        self.lose_process(controller, length);
    }

    fn cut_link(&mut self, controller: usize, length: u64) {
        let other = self.scene.random.below(self.controllers.len() as u64) as usize;
        self.cut_link_to(controller, other, length);
    }

    fn cut_link_to(&mut self, controller: usize, other: usize, length: u64) {
        let between = (controller.min(other), controller.max(other));
        if controller != other && self.scene.cut_links.insert(between) {
            self.scene.figures.cuts += 1;
            self.note(controller, "has lost a link");
            self.scene.after(length, Event::HealLink { between });
        }
    }

    fn cut_path(&mut self, controller: usize, length: u64) {
        let host = self.scene.random.below(self.hosts.len() as u64) as usize;
        if self.scene.cut_paths.insert((host, controller)) {
            self.scene.figures.cuts += 1;
            self.note(controller, "has lost a host's path");
            self.scene.after(length, Event::HealPath { host, controller });
        }
    }

    fn note(&mut self, controller: usize, words: &str) {
        self.scene.tell(9, || format!("controller {} {words}", controller + 1));
    }

    pub(super) fn resume(&mut self, controller: usize) -> Result<(), Violation> {
        if self.controllers[controller].process != Process::Paused {
            return Ok(());
        }
        self.controllers[controller].process = Process::Running;
        self.note(controller, "goes on");
        self.controllers[controller].turn(&mut self.scene)
    }

    pub(super) fn restart(&mut self, controller: usize) {
        if self.controllers[controller].process != Process::Dead {
            return;
        }
        self.note(controller, "is started");
        self.controllers[controller].restart(&mut self.scene);
        self.controllers[controller].plan_tick(&mut self.scene);
    }

    /// Everything works again, and goes on to.
    pub(super) fn heal_all(&mut self) -> Result<(), Violation> {
        for (controller, device) in self.scene.cut_wires.clone() {
            self.scene.heal_wire(controller, device);
        }
        let Scene { cut_links, cut_paths, .. } = &mut self.scene;
        cut_links.clear();
        cut_paths.clear();
        for controller in 0..self.controllers.len() {
            self.resume(controller)?;
            self.restart(controller);
        }
        Ok(())
    }

    /// Where nobody serves for long, somebody decides who does.
    pub(super) fn administrate(&mut self) {
        self.scene.after(ADMINISTRATOR_LOOKS, Event::Administrator);
        if self.scene.now < self.scene.served + ADMINISTRATOR_WAITS {
            return;
        }
        self.force();
    }

    /// An administrator has a controller that has no pool open it, whoever has it.
    fn force(&mut self) {
        let controller = self.scene.random.below(self.controllers.len() as u64) as usize;
        if self.controllers[controller].open_by_force(&mut self.scene) {
            self.scene.figures.asked += 1;
            self.note(controller, "is told to open the pool by force");
        }
    }
}
