//! Cost of a mirror: durable writes through the engine on two files, through the engine on one, and in
//! place on the same number of files with the same flushes.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Result;
use block::{BLOCK, DeviceOperation, DeviceResult, Rope, VolumeId};
use device::{Device, Method};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use store::{Change, Options};

use crate::Options as Arguments;
use crate::files::{file, fill};
use crate::pool::{Devices, Pool, data, scattered, write};
use crate::report::{Goal, Report, median};

const FOREVER: Duration = Duration::from_secs(3600);
const DEPTHS: [usize; 2] = [8, 32];

/// Bytes of the volume.
const BYTES: u64 = 512 << 20;

/// Bytes of each device of a pool.
const SIZE: u64 = 2 << 30;

/// Files by their slots.
struct Files(Vec<Device>);

impl Files {
    /// New files that were written from end to end; nobody needs their names any more.
    fn make(folder: &Path, count: usize, size: u64) -> Result<Self> {
        let make = |number: usize| -> Result<Device> {
            let path = folder.join(format!("mirror-{number}"));
            let mut device = Device::create(&file(&path), size, Method::Auto)?;
            fill(&mut device, size);
            std::fs::remove_file(&path)?;
            Ok(device)
        };
        Ok(Self((0..count).map(make).collect::<Result<_>>()?))
    }
}

impl Devices for Files {
    fn submit(&mut self, device: u8, id: u64, operation: DeviceOperation) {
        self.0[usize::from(device)].submit(id, operation);
    }

    fn reap(&mut self, wait: bool, done: &mut Vec<(u64, DeviceResult)>) {
        for device in &mut self.0 {
            device.kick();
            device.reap(done);
        }
        if !wait || !done.is_empty() {
            return;
        }
        let readiness: Vec<_> = self.0.iter().map(Device::readiness).collect();
        let mut polled: Vec<_> =
            readiness.iter().map(|readiness| PollFd::new(readiness, PollFlags::IN)).collect();
        let millisecond = Timespec { tv_sec: 0, tv_nsec: 1_000_000 };
        let _ = poll(&mut polled, Some(&millisecond));
        self.0.iter_mut().for_each(|device| device.reap(done));
    }
}

/// A pool whose one volume is filled.
struct Subject {
    pool: Pool<Files>,
    volume: VolumeId,
}

impl Subject {
    fn new(folder: &Path, members: usize) -> Result<Self> {
        let devices = Files::make(folder, members, SIZE)?;
        let options = Options { memory_bytes: 2 << 30, ..Options::default() };
        let mut pool = match members {
            1 => Pool::format(devices, &[SIZE], options),
            _ => Pool::format_mirror(devices, members, SIZE, options),
        };
        let volume = pool.create(1, BYTES);
        let mebibyte = data(1 << 20);
        pool.run(16, BYTES >> 20, FOREVER, |number| (volume, write(number << 20, &mebibyte)));
        pool.change(Change::Checkpoint);
        Ok(Self { pool, volume })
    }

    /// Durable writes per second.
    fn measure(&mut self, depth: usize, time: Duration, seed: u64) -> f64 {
        let (volume, block) = (self.volume, data(BLOCK as usize));
        let started = Instant::now();
        let count = self.pool.run(depth, u64::MAX, time, |number| {
            (volume, write(scattered(seed << 32 | number, BYTES / BLOCK) * BLOCK, &block))
        });
        count as f64 / started.elapsed().as_secs_f64()
    }
}

/// Writes in place to all files, in groups, each flushed on all before it counts; the next group gathers
/// meanwhile.
fn in_place(files: &mut Files, depth: usize, time: Duration, seed: u64) -> f64 {
    let (block, started, count) = (data(BLOCK as usize), Instant::now(), files.0.len());
    let (mut number, mut finished, mut done) = (0_u64, 0_usize, Vec::new());
    while started.elapsed() < time {
        for _ in 0..depth {
            number += 1;
            let offset = scattered(seed << 32 | number, BYTES / BLOCK) * BLOCK;
            for device in 0..count {
                let data = Rope::from(block.clone());
                files.submit(device as u8, 0, DeviceOperation::Write { offset, data });
            }
        }
        wait_for(files, depth * count, &mut done);
        (0..count).for_each(|device| files.submit(device as u8, 0, DeviceOperation::Flush));
        wait_for(files, count, &mut done);
        finished += depth;
    }
    finished as f64 / started.elapsed().as_secs_f64()
}

fn wait_for(files: &mut Files, count: usize, done: &mut Vec<(u64, DeviceResult)>) {
    while done.len() < count {
        files.reap(true, done);
    }
    done.clear();
}

/// What is held against what, and what is to be reached.
struct Comparison {
    name: &'static str,
    ratios: Vec<f64>,
    goal: Goal,
}

pub(crate) fn measure(report: &mut Report, folder: &Path, options: &Arguments) -> Result<()> {
    let (mut one, mut two) = (Subject::new(folder, 1)?, Subject::new(folder, 2)?);
    let mut plain = [Files::make(folder, 1, BYTES)?, Files::make(folder, 2, BYTES)?];
    let time = Duration::from_secs(options.seconds);
    for depth in DEPTHS {
        let mut speeds: [Vec<f64>; 4] = Default::default();
        for round in 0..options.rounds as u64 {
            let [first, second] = &mut plain;
            speeds[0].push(two.measure(depth, time, round));
            speeds[1].push(one.measure(depth, time, round));
            speeds[2].push(in_place(second, depth, time, round));
            speeds[3].push(in_place(first, depth, time, round));
        }
        add(report, depth, &speeds);
    }
    Ok(())
}

fn add(report: &mut Report, depth: usize, speeds: &[Vec<f64>; 4]) {
    let [two, one, both, alone] = speeds;
    let against = |others: &Vec<f64>, own: &Vec<f64>| -> Vec<f64> {
        own.iter().zip(others).map(|(own, other)| own / other).collect()
    };
    let what = format!("durable 4 KiB random writes to a mirror of two files, {depth} outstanding");
    report.add(what, median(two.clone()), "per second", Goal::None);
    let comparisons = [
        Comparison {
            name: "… of the same to a pool on one file",
            ratios: against(one, two),
            goal: Goal::AtLeast(0.9),
        },
        Comparison {
            name: "… of writes in place to two files, groups of as many with a flush of both",
            ratios: against(both, two),
            goal: Goal::AtLeast(0.9),
        },
        Comparison {
            name: "writes in place to two files, of those to one: what the disk makes of it",
            ratios: against(alone, both),
            goal: Goal::None,
        },
    ];
    for Comparison { name, ratios, goal } in comparisons {
        report.add(name, median(ratios), "×", goal);
    }
}
