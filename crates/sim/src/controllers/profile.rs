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
    /// Bytes of each device.
    pub device_bytes: u64,
    /// Whether devices refuse also reads of those whom they have fenced.
    pub refuses_reads: bool,
    /// One device operation in so many takes seconds; 0 for none.
    pub stall_one_in: u64,
    /// Hosts, each with a path to every controller.
    pub hosts: usize,
    /// Commands of one host under way at most.
    pub depth: usize,
    /// Blocks that hosts share.
    pub blocks: usize,
    /// How long a host waits for an answer, in nanoseconds.
    pub host_patience: u64,
    /// Commands of a hundred that read.
    pub read_percent: u64,
    /// Time without signs of the owner after which pools are taken.
    pub take_over_after: Duration,
    /// How fast clocks go at most beside the true one, in millionths.
    pub clock_error: u64,
    /// Nanoseconds between two troubles, on average.
    pub trouble_interval: u64,
    /// Nanoseconds that a request to open or fence a device takes to it at most.
    pub fence_latency: u64,
    /// Time between checkpoints.
    pub checkpoint_interval: Duration,
    /// A deliberate mistake.
    pub mistake: Option<Mistake>,
}

impl Profile {
    /// The conditions that follow from chance.
    pub(super) fn new(random: &mut Random, mistake: Option<Mistake>) -> Self {
        let layouts: [&[u8]; 6] = [&[1], &[1, 1], &[2], &[3], &[1, 2], &[1, 1, 1]];
        let mut profile = Self {
            controllers: random.pick(&[2, 2, 2, 3]),
            devices: layouts[random.below(layouts.len() as u64) as usize].to_vec(),
            device_bytes: 64 << 20,
            refuses_reads: random.percent(30),
            stall_one_in: random.pick(&[0, 0, 2000, 20_000]),
            hosts: random.between(1, 4) as usize,
            depth: random.pick(&[1, 4, 16]),
            blocks: random.pick(&[2, 16, 64, 256]),
            host_patience: random.pick(&[500 * MILLISECOND, 2 * SECOND, 8 * SECOND]),
            read_percent: random.pick(&[20, 50, 80]),
            take_over_after: Duration::from_secs(random.pick(&[3, 5, 5, 10])),
            clock_error: random.pick(&[0, 100, 10_000, 30_000]),
            trouble_interval: random.pick(&[2, 5, 15, 60]) * SECOND,
            fence_latency: random.pick(&[1, 50, 2000]) * MILLISECOND,
            checkpoint_interval: Duration::from_millis(random.pick(&[50, 500, 30_000])),
            mistake,
        };
        if mistake.is_some() {
            profile.provoke();
        }
        profile
    }

    /// Conditions under which mistakes show: owners stand still often, and devices let them read.
    fn provoke(&mut self) {
        (self.refuses_reads, self.hosts) = (false, 3);
        (self.blocks, self.trouble_interval) = (16, 5 * SECOND);
        self.host_patience = 500 * MILLISECOND;
        match self.mistake {
            Some(Mistake::FencesOneDevice) => self.devices = vec![1, 1],
            Some(Mistake::LeaseFromAnswer) => self.stall_one_in = 200,
            Some(Mistake::IgnoresFreshBeats) => self.fence_latency = 2 * SECOND,
            Some(_) | None => {}
        }
    }

    /// Devices in all, each a slot.
    pub(super) fn slots(&self) -> usize {
        self.devices.iter().map(|members| usize::from(*members)).sum()
    }
}
