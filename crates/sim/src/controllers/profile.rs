//! Parameters of a run of several controllers, drawn from its seed.

use std::time::Duration;

use super::mistake::Mistake;
use crate::random::Random;

const MILLISECOND: u64 = 1_000_000;
const SECOND: u64 = 1000 * MILLISECOND;

/// The conditions of one run.
#[derive(Clone, Debug)]
pub struct Profile {
    /// Controllers.
    pub controllers: u16,
    /// Logical devices, each with so many members; 1 for a plain device. Three devices in all at most.
    pub devices: Vec<u8>,
    /// Whether the only logical device, a mirror, has a witness.
    pub witness: bool,
    /// Bytes of each device.
    pub device_bytes: u64,
    /// Whether devices refuse also reads of those whom they have fenced.
    pub refuses_reads: bool,
    /// One device operation in so many takes seconds; 0 for none.
    pub stall_one_in: u64,
    /// Hosts, each with a path to every controller.
    pub hosts: usize,
    /// How many of them only read.
    pub readers: usize,
    /// Commands of one host under way at most.
    pub depth: usize,
    /// Nanoseconds between an answer and the next command of a host, on average.
    pub think: u64,
    /// Blocks that hosts share.
    pub blocks: usize,
    /// How long a host waits for an answer, in nanoseconds.
    pub host_patience: u64,
    /// Commands of a hundred that read.
    pub read_percent: u64,
    /// Time without signs of the owner after which pools are taken.
    pub take_over_after: Duration,
    /// Of how many processes in a hundred that end others are told so by a process beside them.
    pub end_told_percent: u64,
    /// Nanoseconds after which they are told at most.
    pub end_told_within: u64,
    /// How fast clocks go at most beside the true one, in millionths.
    pub clock_error: u64,
    /// Nanoseconds between two troubles, on average, while hosts are served.
    pub trouble_interval: u64,
    /// How often each kind of trouble comes among the others.
    pub troubles: Troubles,
    /// How long they last: from one of these times to twice that, in nanoseconds.
    pub trouble_lengths: Vec<u64>,
    /// Nanoseconds that a request to open or fence a device takes to it at most.
    pub fence_latency: u64,
    /// How long a member of a mirror may take for one I/O.
    pub hang_limit: Duration,
    /// Time between checkpoints.
    pub checkpoint_interval: Duration,
    /// A deliberate mistake.
    pub mistake: Option<Mistake>,
}

/// How often each kind of trouble comes among the others.
#[derive(Clone, Copy, Debug, Default)]
pub struct Troubles {
    /// A process stands still.
    pub pause: u64,
    /// A process is killed.
    pub kill: u64,
    /// A process ends by itself.
    pub end: u64,
    /// The wire between a controller and a device is cut.
    pub wire: u64,
    /// The link between two controllers is cut.
    pub link: u64,
    /// The path between a host and a controller is cut.
    pub path: u64,
    /// A controller loses its links; each device is on its side, on that of the others, or on both.
    pub isolate: u64,
    /// A controller is killed, and with it its machine: the others lose a device.
    pub machine: u64,
    /// The pool is to be with another controller.
    pub switch: u64,
    /// An administrator has another controller open the pool by force, whoever has it and whether that one lives.
    pub force: u64,
}

impl Troubles {
    /// All of them, in the order of their names.
    pub(super) const fn all(self) -> [u64; 10] {
        let Self { pause, kill, end, wire, link, path, isolate, machine, switch, force } = self;
        [pause, kill, end, wire, link, path, isolate, machine, switch, force]
    }
}

impl Profile {
    /// The conditions that follow from chance.
    pub(super) fn new(random: &mut Random, mistake: Option<Mistake>) -> Self {
        let layouts: [&[u8]; 6] = [&[1], &[1, 1], &[2], &[3], &[1, 2], &[1, 1, 1]];
        let mut profile = Self {
            controllers: random.pick(&[2, 2, 2, 3]),
            devices: layouts[random.below(layouts.len() as u64) as usize].to_vec(),
            witness: false,
            device_bytes: 64 << 20,
            refuses_reads: random.percent(30),
            stall_one_in: random.pick(&[0, 0, 200, 2000, 20_000]),
            hosts: random.between(1, 4) as usize,
            readers: 0,
            depth: random.pick(&[1, 4, 16]),
            think: random.pick(&[0, 0, MILLISECOND]),
            blocks: random.pick(&[2, 16, 64, 256]),
            host_patience: random.pick(&[500 * MILLISECOND, 2 * SECOND, 8 * SECOND]),
            read_percent: random.pick(&[20, 50, 80]),
            take_over_after: Duration::from_secs(random.pick(&[2, 3, 5, 10])),
            end_told_percent: 0,
            end_told_within: MILLISECOND,
            clock_error: random.pick(&[0, 100, 10_000, 30_000]),
            trouble_interval: random.pick(&[200, 500, 1000, 5000]) * MILLISECOND,
            troubles: Troubles {
                pause: 5,
                kill: 2,
                end: 1,
                wire: 2,
                link: 2,
                path: 1,
                isolate: 2,
                machine: 2,
                switch: 2,
                force: 0,
            },
            trouble_lengths: [50, 1000, 3000, 4000, 6000, 12_000, 40_000]
                .map(|length| length * MILLISECOND)
                .to_vec(),
            fence_latency: random.pick(&[1, 50, 2000]) * MILLISECOND,
            hang_limit: Duration::from_secs(random.pick(&[1, 3, 10])),
            checkpoint_interval: Duration::from_millis(random.pick(&[50, 500, 30_000])),
            mistake,
        };
        profile.witness =
            profile.devices.len() == 1 && profile.devices[0] > 1 && random.percent(70);
        profile.readers = random.below(profile.hosts as u64) as usize;
        if mistake.is_some() {
            profile.provoke();
        } else {
            profile.end_told_percent = random.pick(&[0, 50, 100]);
            profile.end_told_within = random.pick(&[1, 50, 2000]) * MILLISECOND;
            profile.troubles.force = random.pick(&[0, 1, 5]);
        }
        profile
    }

    /// Conditions under which mistakes show: owners stand still often, and devices let them read.
    fn provoke(&mut self) {
        (self.refuses_reads, self.hosts) = (false, 3);
        (self.blocks, self.trouble_interval) = (16, 500 * MILLISECOND);
        (self.host_patience, self.clock_error, self.think) = (8 * SECOND, 0, MILLISECOND);
        match self.mistake {
            // What a killed owner had on its way reaches the other devices when another one has the pool.
            Some(Mistake::FencesOneDevice) => {
                (self.devices, self.witness) = (vec![1, 1], false);
                self.troubles = Troubles { wire: 10, kill: 5, pause: 5, ..Troubles::default() };
                self.trouble_lengths = vec![12 * SECOND];
            }
            Some(Mistake::FenceExpires) => self.trouble_lengths = vec![4 * SECOND, 70 * SECOND],
            // The owner goes on between the last look at it and the fence, and then is only read from.
            Some(Mistake::IgnoresFreshBeats) => {
                (self.controllers, self.devices, self.witness) = (2, vec![1], false);
                (self.hosts, self.readers) = (3, 2);
                (self.depth, self.think) = (1, 4 * MILLISECOND);
                self.take_over_after = Duration::from_secs(5);
                self.fence_latency = 2 * SECOND;
                self.troubles = Troubles { pause: 5, path: 5, ..Troubles::default() };
                self.trouble_lengths = vec![4500 * MILLISECOND];
            }
            // Owners are cut off from a member and the witness, and others open without them.
            Some(
                Mistake::OpensWithoutWitness
                | Mistake::SparesWitness
                | Mistake::AnyBeatIsEnough
                | Mistake::WitnessForgets,
            ) => {
                (self.devices, self.witness) = (vec![2], true);
                (self.hang_limit, self.controllers) = (Duration::from_secs(1), 2);
                self.troubles =
                    Troubles { pause: 3, isolate: 6, machine: 3, ..Troubles::default() };
                self.trouble_lengths = vec![20 * SECOND, 60 * SECOND];
                // Few commands a second: a run ends after so many, and others take the pool after seconds.
                (self.readers, self.depth, self.think) = (1, 1, 4 * MILLISECOND);
                // The owner lives, and is read from while others write elsewhere.
                if self.mistake == Some(Mistake::AnyBeatIsEnough) {
                    self.readers = 2;
                    self.troubles = Troubles { isolate: 1, ..Troubles::default() };
                    self.take_over_after = Duration::from_secs(2);
                }
            }
            Some(Mistake::LetsGoServing) => {
                self.troubles = Troubles { switch: 5, ..Troubles::default() };
                self.take_over_after = Duration::from_secs(10);
            }
            Some(Mistake::TellsEndOfLiving) => {
                self.take_over_after = Duration::from_secs(10);
                self.end_told_percent = 100;
                self.troubles = Troubles { pause: 5, ..Troubles::default() };
                self.trouble_lengths = vec![2 * SECOND];
            }
            Some(_) | None => {}
        }
    }

    /// The slot of the witness: the last one.
    pub(super) fn witness_slot(&self) -> Option<usize> {
        self.witness.then(|| self.slots() - 1)
    }

    /// Devices in all, each a slot.
    pub(super) fn slots(&self) -> usize {
        let members: usize = self.devices.iter().map(|members| usize::from(*members)).sum();
        members + usize::from(self.witness)
    }
}
