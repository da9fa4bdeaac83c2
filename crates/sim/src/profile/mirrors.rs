//! Parameters of the mirrors of a run, and how often something happens to their copies.

use std::time::Duration;

use crate::planted::PlantedBug;
use crate::random::Random;

/// Steps of the world between two troubles, on average.
const TROUBLE_INTERVALS: [u64; 6] = [100, 300, 300, 1000, 1000, 4000];

/// Mirrors, and what happens to their copies.
#[derive(Clone, Debug)]
pub struct Mirrors {
    /// Copies of each device that the pool begins with, and of those that join; 1 for a plain
    /// device, which may become a mirror.
    pub copies: Vec<u64>,
    /// Steps of the world between two troubles, on average.
    pub trouble_interval: u64,
    /// How often each kind of trouble comes among the others.
    pub weights: Weights,
    /// How long a copy may take for one operation.
    pub hang_limit: Duration,
    /// In openings of a hundred: a copy is not there although it could be.
    pub absent_percent: u64,
    /// After one power failure in so many a copy of the pool is opened that must be refused, or
    /// mended.
    pub probe_one_in: u64,
    /// Copies that resilvering may have under way, and how fast it is; `None` for the engine's own.
    pub resilver_rate: Option<u64>,
}

/// How often each kind of trouble comes among the others.
#[derive(Clone, Copy, Debug)]
pub struct Weights {
    /// A copy fails, is pulled, or hangs.
    pub lose: u64,
    /// A copy answers well and does nothing.
    pub lie: u64,
    /// Operations of one copy go wrong now and then.
    pub stumble: u64,
    /// Blocks of one copy rot.
    pub rot: u64,
    /// A copy comes back, or another one takes its place.
    pub mend: u64,
    /// A copy joins.
    pub attach: u64,
    /// A copy is taken out.
    pub detach: u64,
    /// Resilvering is told to pause, to go on, or to stop.
    pub control: u64,
    /// A mirror grows; besides what administrators do.
    pub grow: u64,
}

impl Weights {
    /// All of them, in the order of their names.
    pub(crate) fn all(&self) -> [u64; 9] {
        let Self { lose, lie, stumble, rot, mend, attach, detach, control, grow } = *self;
        [lose, lie, stumble, rot, mend, attach, detach, control, grow]
    }
}

impl Mirrors {
    /// The mirrors that follow from chance.
    pub fn new(random: &mut Random) -> Self {
        let copies = (0..3).map(|_| random.pick(&[1, 2, 2, 2, 2, 3])).collect();
        let mut some = |most: u64| if random.percent(60) { random.between(1, most) } else { 0 };
        let mut weights = Weights {
            lose: 1 + some(6),
            lie: some(1),
            stumble: some(1),
            rot: some(2),
            mend: 4 + some(6),
            attach: some(4),
            detach: some(2),
            control: some(2),
            grow: 0,
        };
        let (trouble_interval, hang_limit) =
            (random.pick(&TROUBLE_INTERVALS), Duration::from_secs(random.pick(&[1, 2, 10])));
        let absent_percent = random.pick(&[10, 30, 60]);
        let resilver_rate = random.pick(&[None, None, Some(1 << 20), Some(64 << 20)]);
        // Drawn last, so that runs in which none grows stay what they were.
        weights.grow = if random.percent(30) { random.between(1, 3) } else { 0 };
        Self {
            copies,
            trouble_interval,
            weights,
            hang_limit,
            absent_percent,
            probe_one_in: 8,
            resilver_rate,
        }
    }

    /// Chooses conditions under which a deliberate mistake shows.
    pub(crate) fn plant(&mut self, bug: PlantedBug) {
        self.copies = vec![2];
        self.trouble_interval = 100;
        self.hang_limit = Duration::from_secs(1);
        self.weights.grow = 0;
        match bug {
            PlantedBug::HealedFromBadCopy | PlantedBug::HealOverwritesNewer => {
                self.weights.rot = 20;
            }
            PlantedBug::OpenedWithoutWitness => self.probe_one_in = 2,
            // The power must fail between an answer and the list that follows.
            PlantedBug::DroppedAfterAnswer => {
                (self.weights.lose, self.weights.mend) = (20, 20);
                (self.trouble_interval, self.absent_percent) = (25, 10);
            }
            PlantedBug::FlushOneCopy => self.absent_percent = 80,
            PlantedBug::CurrentTooEarly => {
                self.weights.attach = 20;
                self.weights.detach = 10;
            }
            PlantedBug::RegionClearedEarly | PlantedBug::RebuildMissesQuarantined => {
                self.resilver_rate = Some(1 << 20);
                self.weights.mend = 20;
            }
            PlantedBug::BitmapNotEnlarged => {
                self.weights = Weights { lie: 0, stumble: 0, rot: 0, mend: 20, ..self.weights };
                (self.weights.lose, self.weights.grow) = (10, 10);
                self.resilver_rate = None;
            }
            PlantedBug::FilledFromLeaving => {
                (self.weights.rot, self.weights.attach, self.weights.detach) = (20, 20, 10);
            }
            PlantedBug::ReturnsWithoutDevice => {
                (self.weights.lose, self.weights.mend) = (10, 20);
            }
            PlantedBug::RegionNotMarked | PlantedBug::StaleCopyRead => self.weights.mend = 20,
            _ => {}
        }
    }

    /// Copies of a device by its number.
    pub(crate) fn copies_of(&self, device: usize) -> u64 {
        self.copies.get(device % self.copies.len().max(1)).copied().unwrap_or(1)
    }
}
