//! Controller rounds: one of two controllers, its paths or the link between both is lost at a random moment, under
//! a load of all offloads whose answers are checked, from hosts with a path to each, beside a persistent
//! reservation. On files, and on an image of a Ceph cluster, where a controller that stands still is fenced.
//!
//! `cargo xtask soak --controllers --rounds N` runs it for long, and shows a line for each round.

use std::collections::BTreeMap;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use harness::controllers::{Pair, pair_up, signal, standing, switch};
use harness::history::Values;
use harness::history::client::Arena;
use harness::history::load::Load;
use harness::machines::Machines;
use harness::path::Path;
use harness::pdu::cdb10;
use harness::random::Random;
use harness::waiting::wait_until;
use harness::{Array, setting};
use rustix::process::Signal;

/// Blocks of 512 bytes of each of the two LUNs of the load.
const BLOCKS: u64 = 1024;

/// How long a command may take in any round, tries on both paths included.
const STALL_MAX: Duration = Duration::from_secs(30);

const RESERVATION_CONFLICT: u8 = 0x18;
const WRITE_EXCLUSIVE_REGISTRANTS_ONLY: u8 = 5;
const KEY: u64 = 0x6761_6e74_7279;

/// What is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Loss {
    /// The controller that has the pool is killed, and started again later.
    Kill,
    /// The other one is.
    KillStandby,
    /// Both are, at once.
    KillBoth,
    /// An administrator switches the pool.
    Switch,
    /// The paths to the controller that has the pool end, and are there again some seconds later.
    Paths,
    /// They end until the other one has the pool, which goes after its hosts.
    PathsStayAway,
    /// Nothing comes through on these paths for some seconds.
    SilentPaths,
    /// The link between both ends, for longer than after which a pool may be taken.
    Link,
    /// The controller that has the pool stands still, for less than after which it may be taken.
    Pause,
    /// It stands still until the other one has the pool, and wakes some seconds later.
    Standstill,
    /// The cable of its machine is pulled, so that it lives and reaches nobody, until the other one has the pool, and
    /// for some seconds more.
    Cable,
}

/// What can be lost over files, of which nobody can take the lock.
const OVER_FILES: [Loss; 9] = [
    Loss::Kill,
    Loss::KillStandby,
    Loss::KillBoth,
    Loss::Switch,
    Loss::Paths,
    Loss::PathsStayAway,
    Loss::SilentPaths,
    Loss::Link,
    Loss::Pause,
];

/// What can be lost over images; an owner that is gone more often than the others.
const OVER_IMAGES: [Loss; 12] = [
    Loss::Kill,
    Loss::Kill,
    Loss::Kill,
    Loss::Standstill,
    Loss::Standstill,
    Loss::Standstill,
    Loss::Switch,
    Loss::Switch,
    Loss::PathsStayAway,
    Loss::Link,
    Loss::KillStandby,
    Loss::Pause,
];

/// The same, and what can be lost of machines.
const OVER_IMAGES_ON_MACHINES: [Loss; 14] = [
    Loss::Kill,
    Loss::Kill,
    Loss::Kill,
    Loss::Standstill,
    Loss::Standstill,
    Loss::Standstill,
    Loss::Cable,
    Loss::Cable,
    Loss::Cable,
    Loss::Switch,
    Loss::PathsStayAway,
    Loss::Link,
    Loss::KillStandby,
    Loss::Pause,
];

struct Bench {
    pair: Pair,
    /// Between hosts and each controller.
    paths: [Path; 2],
    /// Between the controllers, where both are on this machine.
    links: Option<[Path; 2]>,
    arena: Arena,
    /// The LUN with the reservation.
    reserved: u8,
    load: Option<Load>,
    random: Random,
}

impl Bench {
    fn start(
        seed: u64,
        machines: Option<Machines>,
        create_pool: impl FnOnce(&Array) -> Result<()>,
    ) -> Result<Self> {
        let mut pair = Pair::start_on(machines, create_pool)?;
        pair_up(&pair)?;
        let after = setting("GANTRY_TAKE_OVER_AFTER", 5)?.to_string();
        for array in [&mut pair.first, &mut pair.second] {
            array.add_arguments(&["--take-over-after", &after]);
        }
        let links = match pair.machines {
            None => Some(pair.relay_link()?),
            Some(_) => None,
        };
        let mut luns = Vec::new();
        for path in ["p/a", "p/b", "p/reserved"] {
            luns.push(u8::try_from(pair.first.create_lun(path, "16M")?)?);
        }
        let reserved = luns.pop().context("three LUNs")?;
        let paths = [Path::start(pair.first.portal())?, Path::start(pair.second.portal())?];
        let portals = paths.iter().map(Path::address).collect();
        let arena = Arena::of(portals, pair.target.clone(), &luns, BLOCKS)?;
        let load = Some(Load::start(&arena, seed, Values::new()));
        let random = Random::new(seed);
        let bench = Self { pair, paths, links, arena, reserved, load, random };
        bench.reserve()?;
        Ok(bench)
    }

    /// A host registers its key with all ports, for all times, and reserves the LUN.
    fn reserve(&self) -> Result<()> {
        const ALL_TG_PT_AND_APTPL: u8 = 0x05;
        let mut session = self.pair.host(&self.pair.first, "holder")?;
        let register = [0, 0, ALL_TG_PT_AND_APTPL];
        session.reserve_out(self.reserved, register, (0, KEY))?.good()?;
        let reserve = [1, WRITE_EXCLUSIVE_REGISTRANTS_ONLY, 0];
        session.reserve_out(self.reserved, reserve, (KEY, 0))?.good()?;
        Ok(())
    }

    fn controller(&self, side: usize) -> &Array {
        [&self.pair.first, &self.pair.second][side]
    }

    fn controller_mut(&mut self, side: usize) -> &mut Array {
        [&mut self.pair.first, &mut self.pair.second][side]
    }

    /// The one that has the pool, and no other has it.
    fn owner(&self) -> Result<usize> {
        let mut owner = None;
        wait_until("one controller has the pool, the other one is standby", || {
            let states = [standing(self.controller(0))?, standing(self.controller(1))?];
            let states = states.each_ref().map(|state| state.as_deref().unwrap_or_default());
            ensure!(states != ["active-optimized"; 2], "both have it");
            owner = match states {
                ["active-optimized", "standby"] => Some(0),
                ["standby", "active-optimized"] => Some(1),
                _ => None,
            };
            Ok(owner.is_some())
        })?;
        owner.context("it was found")
    }

    fn pause(&mut self, least_ms: u64, most_ms: u64) {
        thread::sleep(Duration::from_millis(least_ms + self.random.below(most_ms - least_ms)));
    }

    fn wait_for(&self, side: usize, state: &str) -> Result<()> {
        self.pair.wait_for(self.controller(side), state)
    }

    /// Waits until all that was answered so far, and a whole round of the load after it, is checked.
    fn wait_until_checked(&self) -> Result<()> {
        self.load.as_ref().context("a load")?.wait_until_checked(&self.arena)
    }

    /// Does it to the controller that has the pool; tells which one has it afterwards, if that must be so.
    fn lose(&mut self, loss: Loss, owner: usize) -> Result<Option<usize>> {
        let other = 1 - owner;
        match loss {
            Loss::Kill => {
                self.controller_mut(owner).kill()?;
                self.wait_for(other, "active-optimized")?;
                self.pause(0, 2_000);
                self.controller_mut(owner).restart()?;
                Ok(Some(other))
            }
            Loss::KillStandby => {
                self.controller_mut(other).kill()?;
                self.pause(500, 3_000);
                self.controller_mut(other).restart()?;
                Ok(Some(owner))
            }
            Loss::KillBoth => {
                self.controller_mut(owner).kill()?;
                self.controller_mut(other).kill()?;
                self.pause(0, 1_000);
                self.controller_mut(other).restart()?;
                self.controller_mut(owner).restart()?;
                Ok(None)
            }
            Loss::Switch => {
                switch(self.controller(owner))?;
                self.wait_for(other, "active-optimized")?;
                Ok(Some(other))
            }
            Loss::Paths => {
                self.paths[owner].sever();
                self.pause(500, 2_500);
                self.paths[owner].mend();
                Ok(Some(owner))
            }
            Loss::PathsStayAway => {
                self.paths[owner].sever();
                // Hosts stay logged in on their other path, as this one; those of the load come and go there.
                let host = self.pair.host(self.controller(other), "other-path")?;
                self.wait_for(other, "active-optimized")?;
                drop(host);
                self.paths[owner].mend();
                Ok(Some(other))
            }
            Loss::SilentPaths => {
                self.paths[owner].silence_after(0);
                self.pause(500, 2_500);
                self.paths[owner].speak();
                Ok(Some(owner))
            }
            Loss::Link => {
                self.cut_link(true)?;
                self.pause(6_000, 9_000);
                self.cut_link(false)?;
                Ok(Some(owner))
            }
            Loss::Pause => {
                signal(self.controller(owner), Signal::STOP)?;
                self.pause(300, 2_500);
                signal(self.controller(owner), Signal::CONT)?;
                Ok(Some(owner))
            }
            Loss::Standstill => self.stand_still(owner).map(|()| Some(other)),
            Loss::Cable => self.pull_cable(owner).map(|()| Some(other)),
        }
    }

    /// Ends the link between both, or lets it be there again. Between machines nobody is told.
    fn cut_link(&self, is_cut: bool) -> Result<()> {
        if let Some(machines) = &self.pair.machines {
            return machines.keep_apart(is_cut);
        }
        let links = self.links.iter().flatten();
        links.for_each(if is_cut { Path::sever } else { Path::mend });
        Ok(())
    }

    /// Cuts a controller off from hosts, cluster and the other one until that has the pool, and for some seconds more.
    fn pull_cable(&mut self, owner: usize) -> Result<()> {
        self.pair.machines.as_ref().context("machines")?.pull(owner)?;
        let taken = self.wait_for(1 - owner, "active-optimized");
        self.pause(0, 8_000);
        self.pair.machines.as_ref().context("machines")?.plug(owner)?;
        taken
    }

    /// Stops a controller until the other one has the pool, and for some seconds more.
    fn stand_still(&mut self, owner: usize) -> Result<()> {
        signal(self.controller(owner), Signal::STOP)?;
        let taken = self.wait_for(1 - owner, "active-optimized");
        self.pause(0, 4_000);
        signal(self.controller(owner), Signal::CONT)?;
        taken
    }

    /// A stranger may not write, the holder may; the reservation is as it was.
    fn verify_reservation(&self, owner: usize) -> Result<()> {
        let (owner, lun) = (self.controller(owner), self.reserved);
        let write = cdb10(0x2a, 0, 0, 1);
        let refused = self.pair.host(owner, "stranger")?.write(lun, &write, &[0xee; 512])?;
        ensure!(refused.status == RESERVATION_CONFLICT, "a stranger was answered {refused:02x?}");
        let mut holder = self.pair.host(owner, "holder")?;
        holder.write(lun, &write, &[0x11; 512])?.good().context("the holder writes")?;
        let read = [0x5e, 1, 0, 0, 0, 0, 0, 0, 24, 0];
        let reservation = holder.read(lun, &read, 24)?.good()?;
        ensure!(reservation.get(8..16) == Some(&KEY.to_be_bytes()[..]), "{reservation:02x?}");
        ensure!(
            reservation.get(21) == Some(&WRITE_EXCLUSIVE_REGISTRANTS_ONLY),
            "{reservation:02x?}"
        );
        Ok(())
    }

    fn round(&mut self, loss: Loss) -> Result<Duration> {
        let owner = self.owner()?;
        self.pause(100, 1_500);
        self.arena.watch.take_longest();
        let expected = self.lose(loss, owner)?;
        let after = self.owner()?;
        ensure!(expected.is_none_or(|expected| expected == after), "the other one has the pool");
        self.wait_until_checked()?;
        let stall = self.arena.watch.take_longest();
        ensure!(stall < STALL_MAX, "a command took {stall:?}");
        self.verify_reservation(after)?;
        Ok(stall)
    }

    fn rounds(mut self, plan: &[Loss]) -> Result<()> {
        let mut stalls = BTreeMap::<Loss, Vec<Duration>>::new();
        for (number, &loss) in plan.iter().enumerate() {
            let stall = match self.round(loss) {
                Ok(stall) => stall,
                Err(error) => bail!("{}", self.failure(number, loss, &error)),
            };
            println!("round {number}: {loss:?}: longest answer {stall:.2?}");
            stalls.entry(loss).or_default().push(stall);
        }
        let report = self.load.take().context("a load")?.stop()?;
        for (loss, stalls) in &mut stalls {
            stalls.sort();
            let (median, worst) = (stalls[stalls.len() / 2], stalls[stalls.len() - 1]);
            println!(
                "{loss:?}: {} rounds, longest answers {median:.2?} in the median, {worst:.2?} at most",
                stalls.len()
            );
        }
        let counts = report.counts;
        println!(
            "{} operations checked; {} commands answered, {} lost with their path or connection, {} aborted",
            report.operations, counts.answered, counts.dropped, counts.aborted
        );
        Ok(())
    }

    /// What is to be known of a round that went wrong.
    fn failure(&mut self, number: usize, loss: Loss, error: &anyhow::Error) -> String {
        let ended = self.load.take_if(|load| load.has_ended());
        let of_load = ended.and_then(|load| load.stop().err());
        let logs = [0, 1].map(|side| self.controller(side).log());
        format!("round {number}, {loss:?}: {error:#}\n{of_load:?}\n{}\n{}", logs[0], logs[1])
    }
}

/// The kinds of so many rounds, in an order of chance: each kind, and then again.
fn plan(kinds: &[Loss], rounds: u64, seed: u64) -> Vec<Loss> {
    let (mut random, mut plan) = (Random::new(seed), Vec::new());
    while plan.len() < rounds as usize {
        let mut kinds = kinds.to_vec();
        random.shuffle(&mut kinds);
        plan.extend(kinds);
    }
    plan.truncate(rounds as usize);
    plan
}

/// So many rounds, and where the random numbers begin.
fn scale(otherwise: usize) -> Result<(u64, u64)> {
    let rounds = setting("GANTRY_CONTROLLER_ROUNDS", otherwise as u64)?;
    Ok((rounds, setting("GANTRY_CONTROLLER_SEED", 1)?))
}

#[test]
fn hosts_go_on_whatever_becomes_of_a_controller_over_files() -> Result<()> {
    let (rounds, seed) = scale(OVER_FILES.len())?;
    let bench = Bench::start(seed, None, |first| first.create_pool("p", "1G").map(drop))?;
    bench.rounds(&plan(&OVER_FILES, rounds, seed))
}

#[test]
#[ignore = "needs a Ceph cluster: 'cargo xtask test --ceph'"]
fn hosts_go_on_whatever_becomes_of_a_controller_over_an_image() -> Result<()> {
    let (rounds, seed) = scale(OVER_IMAGES.len())?;
    let device = harness::ceph::image("rounds", "1G")?;
    let create = |first: &Array| first.gantry(&["pool", "create", "p", &device]).map(drop);
    Bench::start(seed, None, create)?.rounds(&plan(&OVER_IMAGES, rounds, seed))
}

/// Each controller in a network namespace of its own, as on two machines.
#[test]
#[ignore = "needs a Ceph cluster that machines reach: 'cargo xtask soak --controllers --machines'"]
fn hosts_go_on_whatever_becomes_of_a_machine_over_an_image() -> Result<()> {
    let (rounds, seed) = scale(OVER_IMAGES_ON_MACHINES.len())?;
    let machines = Some(Machines::start()?);
    let device = harness::ceph::image("machines", "1G")?;
    let create = |first: &Array| first.gantry(&["pool", "create", "p", &device]).map(drop);
    let bench = Bench::start(seed, machines, create)?;
    bench.rounds(&plan(&OVER_IMAGES_ON_MACHINES, rounds, seed))
}
