//! Parameters of a run, drawn from its seed.

mod mirrors;

use std::time::Duration;

use store::{OpenMode, Options};

pub use mirrors::{Mirrors, Weights};

use crate::disk::Faults;
use crate::planted::PlantedBug;
use crate::random::Random;

const MEBIBYTE: u64 = 1 << 20;

/// Device operations between power failures, on average.
const CRASH_INTERVALS: [u64; 12] =
    [0, 150, 500, 2000, 2000, 5000, 5000, 5000, 20_000, 20_000, 20_000, 60_000];

/// The conditions of one run.
#[derive(Clone, Debug)]
pub struct Profile {
    /// Commands in the run.
    pub operations: u64,
    /// Bytes of the devices at first.
    pub devices: Vec<u64>,
    /// Devices at most.
    pub devices_max: usize,
    /// Bytes of the journal.
    pub journal_bytes: u64,
    /// Bytes for pages of the map.
    pub memory_bytes: u64,
    /// Virtual time between checkpoints.
    pub checkpoint_interval: Duration,
    /// Commands at once, at most.
    pub concurrency_max: u64,
    /// Device operations between power failures, on average; 0 for none.
    pub crash_interval: u64,
    /// Volumes at most.
    pub volumes_max: u64,
    /// Those of them that hosts use, the oldest ones; 0 for all.
    pub volumes_in_use: u64,
    /// Bytes of a volume at most.
    pub volume_bytes_max: u64,
    /// Commands in a hundred that go to the same few blocks.
    pub hot_percent: u64,
    /// Whether the volumes are larger than the pool and are filled.
    pub fills: bool,
    /// Whether the pool is kept full, while machines and hosts write and snapshots are asked for.
    pub siege: bool,
    /// If they are: phases in a hundred that fill them.
    pub filling_percent: u64,
    /// Phases in a hundred with commands that change the map alone.
    pub mapping_percent: u64,
    /// One command in so many changes volumes or devices.
    pub change_one_in: u64,
    /// In one run in so many, by seed, volumes get other names too.
    pub renames_one_in: u64,
    /// After one power failure in so many a damaged copy of the pool is opened.
    pub probe_one_in: u64,
    /// Subtrees per second that the reaper takes apart.
    pub reap_rate: u64,
    /// Bytes per second that a scrub reads.
    pub scrub_rate: u64,
    /// One device operation in so many takes seconds; 0 for none.
    pub stall_one_in: u64,
    /// Whoever keeps the devices refuses one wish in so many for new space; 0 for none.
    pub refuse_one_in: u64,
    /// What goes wrong besides power failures.
    pub faults: Option<Faults>,
    /// Whether a host reads on, block after block.
    pub scans: bool,
    /// Whether a backup program compares snapshots.
    pub backups: bool,
    /// Blocks of the map that one turn changes, about; `None` for no turns.
    pub turn_blocks: Option<u64>,
    /// Steps of the world between two changes of a device that leaves, on average; `None` if none does.
    pub departures: Option<u64>,
    /// Bytes per second that are moved from it; `None` for the engine's own.
    pub departure_rate: Option<u64>,
    /// Mirrors, and what happens to their copies; `None` for plain devices only.
    pub mirrors: Option<Mirrors>,
    /// A deliberate mistake in the engine.
    pub planted: Option<PlantedBug>,
}

impl Profile {
    /// The conditions that follow from a seed.
    pub fn new(random: &mut Random, operations: u64) -> Self {
        let fills = random.percent(20);
        let count = random.pick(&[1, 1, 1, 1, 2, 2, 3]);
        let devices: Vec<u64> = (0..count).map(|_| device_bytes(random)).collect();
        Self {
            operations,
            devices_max: devices.len() + random.below(3) as usize,
            devices,
            journal_bytes: random.pick(&[4, 4, 8]) * MEBIBYTE,
            memory_bytes: random.pick(&[64 << 10, 256 << 10, 16 << 20]),
            checkpoint_interval: Duration::from_millis(
                random.pick(&[5, 50, 500, 500, 30_000, 30_000]),
            ),
            concurrency_max: random.pick(&[1, 4, 16, 32, 32]),
            crash_interval: random.pick(&CRASH_INTERVALS),
            volumes_max: random.between(1, 6),
            volumes_in_use: 0,
            volume_bytes_max: if fills {
                32 * MEBIBYTE
            } else {
                // The last has a map of one level more.
                random.pick(&[1, 2, 2, 4, 4, 8, 8, 320]) * MEBIBYTE
            },
            hot_percent: random.pick(&[0, 50, 80]),
            fills,
            siege: false,
            filling_percent: 12,
            mapping_percent: 10,
            change_one_in: 100,
            renames_one_in: 5,
            probe_one_in: 18,
            reap_rate: random.pick(&[100, 5000, 50_000]),
            scrub_rate: random.pick(&[8, 200]) * MEBIBYTE,
            stall_one_in: random.pick(&[0, 0, 0, 0, 0, 0, 0, 2000]),
            refuse_one_in: random.pick(&[0, 0, 0, 0, 1, 2, 5, 20]),
            faults: random.percent(12).then(|| faults(random)),
            scans: false,
            backups: false,
            turn_blocks: None,
            departures: None,
            departure_rate: None,
            mirrors: None,
            planted: None,
        }
    }

    /// A pool that is full for most of the run.
    pub fn besiege(&mut self) {
        self.siege = true;
        self.fills = true;
        self.devices = vec![64 * MEBIBYTE];
        self.devices_max = 1;
        self.volumes_max = 8;
        self.volume_bytes_max = 32 * MEBIBYTE;
        self.change_one_in = 100;
    }

    /// Devices leave, and others join.
    pub fn depart(&mut self, random: &mut Random) {
        self.siege = false;
        while self.devices.len() < 2 || random.percent(30) && self.devices.len() < 4 {
            self.devices.push(device_bytes(random));
        }
        self.devices_max = self.devices.len() + 2;
        self.departures = Some(random.pick(&[20, 50, 100, 300, 1000]));
        self.change_one_in = self.change_one_in.min(random.pick(&[30, 100]));
        self.departure_rate = random.pick(&[None, None, Some(32 * MEBIBYTE), Some(256 * MEBIBYTE)]);
        if random.percent(35) {
            self.crowd_first_device();
        }
        if random.percent(15) {
            self.keep_idle_volumes();
        }
        match self.planted {
            Some(PlantedBug::SharedMovedAgain) => self.share_much(),
            Some(PlantedBug::NoteOutlivesChange) => self.depart_slowly(),
            _ => {}
        }
    }

    /// The first device has hardly any room beside the journal, so that pages of the map and of the volume
    /// table lie on others.
    fn crowd_first_device(&mut self) {
        self.devices[0] = 64 * MEBIBYTE;
        self.journal_bytes = 60 * MEBIBYTE;
        while self.devices.len() < 3 {
            self.devices.push(64 * MEBIBYTE);
        }
        self.devices_max = self.devices_max.max(4);
        self.fills = false;
        self.crash_interval = self.crash_interval.max(2000);
    }

    /// Volumes of which a leaf of the volume table is full and that nobody uses.
    fn keep_idle_volumes(&mut self) {
        (self.volumes_max, self.volumes_in_use) = (48, 3);
        self.volume_bytes_max = 4 * MEBIBYTE;
        self.change_one_in = 10;
        self.fills = false;
    }

    /// Blocks that several leaves of the map refer to.
    fn share_much(&mut self) {
        self.mapping_percent = 60;
        self.volumes_max = 6;
        self.volume_bytes_max = 8 * MEBIBYTE;
        self.crash_interval = 20_000;
        self.departure_rate = Some(256 * MEBIBYTE);
    }

    /// A device leaves so slowly that hosts change what was rewritten before others who share it are
    /// looked at.
    fn depart_slowly(&mut self) {
        self.departures = Some(1000);
        self.departure_rate = Some(2 * MEBIBYTE);
        self.volumes_max = 6;
        self.volume_bytes_max = 8 * MEBIBYTE;
        self.change_one_in = 30;
        self.hot_percent = 0;
        self.fills = false;
        self.checkpoint_interval = Duration::from_secs(30);
        self.memory_bytes = 16 * MEBIBYTE;
        self.crash_interval = 60_000;
    }

    /// Filling, and nothing that waits.
    fn fill_all_the_time(&mut self) {
        self.devices = vec![64 * MEBIBYTE];
        self.devices_max = 1;
        self.fills = true;
        self.volumes_max = 6;
        self.volume_bytes_max = 32 * MEBIBYTE;
        self.checkpoint_interval = Duration::from_secs(30);
        self.crash_interval = 20_000;
        self.filling_percent = 60;
    }

    /// The same, without anything that makes space or ends it.
    fn besiege_for_long(&mut self) {
        self.besiege();
        self.hot_percent = 0;
        self.refuse_one_in = 0;
        self.crash_interval = 20_000;
        self.operations = self.operations.max(10_000);
    }

    /// Commands that change the map alone, and power failures.
    fn map_and_crash_often(&mut self) {
        self.mapping_percent = 50;
        self.concurrency_max = 32;
        self.crash_interval = 150;
    }

    /// Snapshots, and a program that compares them.
    fn back_up_often(&mut self) {
        self.backups = true;
        self.fills = false;
        self.siege = false;
        self.change_one_in = 10;
        self.volumes_max = 6;
    }

    /// Plants a mistake, and makes sure that what it needs to be noticed happens often.
    pub fn plant(&mut self, bug: PlantedBug) {
        self.planted = Some(bug);
        self.faults = None;
        match bug {
            PlantedBug::TrustData | PlantedBug::MovedUnchecked => {
                self.faults = Some(Faults { bit_flip_one_in: 200, ..Faults::default() });
            }
            PlantedBug::NoEpochBump => self.map_and_crash_often(),
            PlantedBug::CutInsideCommit => {
                // Somewhat more leaves than the page cache holds, and many checkpoints.
                self.volumes_max = 6;
                self.volume_bytes_max = 32 * MEBIBYTE;
                self.memory_bytes = 64 << 10;
                self.hot_percent = 0;
                self.concurrency_max = 32;
                self.checkpoint_interval = Duration::from_millis(2);
                self.crash_interval = 1000;
            }
            PlantedBug::ForgetDeltas => {
                // More groups than may stay in memory.
                self.devices = vec![64 * MEBIBYTE; 4];
                self.memory_bytes = 64 << 10;
                self.volume_bytes_max = 32 * MEBIBYTE;
            }
            PlantedBug::CopyNeverRead
            | PlantedBug::RewindForgetsIntact
            | PlantedBug::RewindKeepsEpoch => {
                self.crash_interval = 500;
                self.probe_one_in = 2;
            }
            PlantedBug::GroupTornApart | PlantedBug::SnapshotUncounted => {
                self.change_one_in = 10;
                self.crash_interval = 500;
            }
            PlantedBug::ComparedByCount | PlantedBug::ComparedWithoutHoles => self.back_up_often(),
            PlantedBug::LendEverything => self.fill_all_the_time(),
            PlantedBug::MetadataNotRefilled
            | PlantedBug::SnapshotUnchecked
            | PlantedBug::MetadataForAnyone
            | PlantedBug::ReturnsCountedTwice => self.besiege_for_long(),
            PlantedBug::RefusalIgnored => {
                self.devices = vec![64 * MEBIBYTE; 3];
                self.refuse_one_in = 2;
            }
            PlantedBug::RenameAnsweredEarly => {
                self.renames_one_in = 1;
                self.change_one_in = 10;
                self.crash_interval = 500;
            }
            PlantedBug::BitmapNotEnlarged => self.crash_interval = 5000,
            PlantedBug::DroppedAfterAnswer => self.crash_interval = 150,
            PlantedBug::FilledFromLeaving => self.crash_interval = 1000,
            PlantedBug::ReaperForgets => self.reap_rate = 100,
            PlantedBug::FlushFirstDeviceOnly => {
                self.devices = vec![64 * MEBIBYTE; 3];
                self.crash_interval = 500;
            }
            PlantedBug::LabelNotFlushed => {
                self.devices_max = self.devices.len() + 3;
                self.change_one_in = 10;
                self.crash_interval = 150;
            }
            PlantedBug::MisreadEndsJournal => {
                self.faults = Some(Faults { misdirected_read_one_in: 50, ..Faults::default() });
                self.crash_interval = 150;
            }
            _ => self.crash_interval = self.crash_interval.clamp(150, 5000),
        }
    }

    /// The engine's options.
    pub fn options(&self) -> Options {
        Options {
            sampling: true,
            journal_bytes: self.journal_bytes,
            mode: OpenMode::ReadWrite,
            memory_bytes: self.memory_bytes,
            checkpoint_interval: self.checkpoint_interval,
            reap_rate: self.reap_rate,
            scrub_rate: self.scrub_rate,
            hang_limit: self.hang_limit(),
            resilver_rate: self.resilver_rate(),
            evacuation_rate: self.resilver_rate(),
        }
    }

    /// Devices are mirrors, and things happen to their copies.
    pub fn mirror(&mut self, random: &mut Random, planted: Option<PlantedBug>) {
        // What goes wrong goes wrong with one copy; in some runs with all of them.
        if random.percent(80) {
            self.faults = None;
        }
        self.stall_one_in = 0;
        // A copy that is being made and finds no space would take it from the pool.
        self.refuse_one_in = 0;
        let mut mirrors = Mirrors::new(random);
        if let Some(bug) = planted {
            mirrors.plant(bug);
        }
        self.mirrors = Some(mirrors);
    }

    /// Bytes per second that are resilvered, or moved from a device that leaves.
    fn resilver_rate(&self) -> u64 {
        let rate = self.mirrors.as_ref().and_then(|mirrors| mirrors.resilver_rate);
        rate.or(self.departure_rate).unwrap_or(u64::MAX)
    }

    /// How long a copy may take for one operation.
    pub fn hang_limit(&self) -> Duration {
        self.mirrors.as_ref().map_or(store::limits::HANG_LIMIT, |mirrors| mirrors.hang_limit)
    }

    /// Whether the medium itself may change or lose what was flushed, so that after a power
    /// failure only wrong data is a violation, not old data.
    pub fn medium_is_unsound(&self) -> bool {
        self.faults.as_ref().is_some_and(Faults::spoil_the_medium)
    }
}

/// Bytes of a device.
pub(crate) fn device_bytes(random: &mut Random) -> u64 {
    if random.percent(85) {
        64 * MEBIBYTE
    } else {
        random.between(65, 200) * MEBIBYTE + random.below(256) * 4096
    }
}

pub(crate) fn faults(random: &mut Random) -> Faults {
    let one_in = random.pick(&[200, 1000, 5000]);
    let mut faults = Faults { sticky: random.percent(50), ..Faults::default() };
    match random.below(12) {
        0 => faults.read_error_one_in = one_in,
        1 => faults.write_error_one_in = one_in,
        2 => faults.flush_error_one_in = one_in / 8,
        3 => faults.short_one_in = one_in,
        4 => faults.no_space_one_in = one_in,
        5 => faults.vanish_one_in = 4 * one_in,
        6 => faults.misdirected_read_one_in = one_in,
        7 => faults.bit_flip_one_in = one_in,
        8 => faults.misdirected_write_one_in = one_in,
        9 => faults.zero_fill_one_in = one_in,
        10 => faults.garbage_fill_one_in = one_in,
        _ => faults.lying_flush_one_in = one_in / 50,
    }
    faults
}
