//! Benchmark of the engine on a file, beside the same file without it.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Result;
use block::{
    BLOCK, Buffer, ByteRange, DeviceKind, DeviceName, DeviceOperation, DeviceResult, Request, Rope,
    VolumeId,
};
use device::{Device, Method};
use rustix::event::{PollFd, PollFlags, poll};
use store::{Change, Options};

use crate::Options as Arguments;
use crate::pool::{Devices, Pool, data, scattered, write};
use crate::report::{Goal, Report, median};

const FOREVER: Duration = Duration::from_secs(3600);
const DEPTHS: [usize; 4] = [1, 8, 32, 128];

struct OneFile(Device);

impl Devices for OneFile {
    fn submit(&mut self, _: u8, id: u64, operation: DeviceOperation) {
        self.0.submit(id, operation);
    }

    fn reap(&mut self, wait: bool, done: &mut Vec<(u64, DeviceResult)>) {
        self.0.kick();
        self.0.reap(done);
        if wait && done.is_empty() {
            wait_for(&self.0);
            self.0.reap(done);
        }
    }
}

fn wait_for(device: &Device) {
    let readiness = device.readiness();
    let mut polled = [PollFd::new(&readiness, PollFlags::IN)];
    let millisecond = rustix::event::Timespec { tv_sec: 0, tv_nsec: 1_000_000 };
    let _ = poll(&mut polled, Some(&millisecond));
}

pub(crate) fn file(path: &Path) -> DeviceName {
    DeviceName::new(DeviceKind::File, path)
}

fn make(path: &Path, size: u64) -> Result<OneFile> {
    Ok(OneFile(Device::create(&file(path), size, Method::Auto)?))
}

/// A file that was written from end to end: the file system has nothing to do any more but to pass
/// on what is written.
fn make_written(path: &Path, size: u64) -> Result<OneFile> {
    let mut file = make(path, size)?;
    fill(&mut file.0, size);
    Ok(file)
}

/// Writes a device from end to end.
pub(crate) fn fill(device: &mut Device, size: u64) {
    let (mebibyte, mut done) = (data(1 << 20), Vec::new());
    for number in 0..size >> 20 {
        let data = Rope::from(mebibyte.clone());
        device.submit(0, DeviceOperation::Write { offset: number << 20, data });
        while done.is_empty() {
            device.kick();
            device.reap(&mut done);
            if done.is_empty() {
                wait_for(device);
            }
        }
        done.clear();
    }
}

pub(crate) fn measure(report: &mut Report, folder: &Path, options: &Arguments) -> Result<()> {
    measure_writes(report, folder, options, false)?;
    measure_writes(report, folder, options, true)?;
    measure_reads(report, folder)?;
    measure_recovery(report, folder)
}

/// A pool on a file whose one volume is filled, and a plain file of the same size, filled.
struct Pair {
    pool: Pool<OneFile>,
    volume: VolumeId,
    raw: OneFile,
    bytes: u64,
}

impl Pair {
    fn new(folder: &Path, bytes: u64, options: Options) -> Result<Self> {
        let paths: [PathBuf; 2] = ["pool", "raw"].map(|name| folder.join(name));
        let size = 2 * bytes + (1 << 30);
        let device = make_written(&paths[0], size)?;
        let raw = make_written(&paths[1], bytes)?;
        let mut pool = Pool::format(device, &[size], options);
        let volume = pool.create(1, bytes);
        let mebibyte = data(1 << 20);
        pool.run(16, bytes >> 20, FOREVER, |number| (volume, write(number << 20, &mebibyte)));
        pool.change(Change::Checkpoint);
        // Nobody needs the names any more.
        paths.iter().try_for_each(std::fs::remove_file)?;
        Ok(Self { pool, volume, raw, bytes })
    }

    /// Durable writes per second through the engine.
    fn engine(&mut self, depth: usize, time: Duration, seed: u64) -> f64 {
        let (volume, blocks, block) = (self.volume, self.bytes / BLOCK, data(BLOCK as usize));
        let started = Instant::now();
        let count = self.pool.run(depth, u64::MAX, time, |number| {
            (volume, write(scattered(seed << 32 | number, blocks) * BLOCK, &block))
        });
        count as f64 / started.elapsed().as_secs_f64()
    }

    /// The same without it: in place, in groups, each flushed before it counts; the next group
    /// gathers meanwhile, and is written while the one before is flushed.
    fn in_place(&mut self, depth: usize, time: Duration, seed: u64) -> f64 {
        let mut groups = Groups { waiting: depth, ..Groups::default() };
        let block = data(BLOCK as usize);
        let started = Instant::now();
        let (mut number, mut done) = (0, Vec::new());
        while groups.waiting < depth || started.elapsed() < time {
            if groups.writing == 0 && groups.waiting > 0 && started.elapsed() < time {
                groups.writing = std::mem::take(&mut groups.waiting);
                groups.written = groups.writing;
                for _ in 0..groups.writing {
                    number += 1;
                    let offset = scattered(seed << 32 | number, self.bytes / BLOCK) * BLOCK;
                    let data = Rope::from(block.clone());
                    self.raw.submit(0, 0, DeviceOperation::Write { offset, data });
                }
            }
            self.raw.reap(true, &mut done);
            for (id, _) in done.drain(..) {
                match id {
                    0 => groups.write_done(&mut self.raw),
                    size => groups.flush_done(size as usize),
                }
            }
        }
        groups.finished as f64 / started.elapsed().as_secs_f64()
    }
}

/// Writes in place on their way.
#[derive(Default)]
struct Groups {
    waiting: usize,
    writing: usize,
    written: usize,
    finished: usize,
}

impl Groups {
    fn write_done(&mut self, device: &mut OneFile) {
        self.writing -= 1;
        if self.writing == 0 {
            device.submit(0, self.written as u64, DeviceOperation::Flush);
        }
    }

    fn flush_done(&mut self, size: usize) {
        self.finished += size;
        self.waiting += size;
    }
}

fn measure_writes(
    report: &mut Report,
    folder: &Path,
    arguments: &Arguments,
    cold: bool,
) -> Result<()> {
    let bytes = if cold { arguments.cold_gib << 30 } else { 1 << 30 };
    // Cold: room for a sixteenth of the leaves.
    let memory_bytes = if cold { bytes >> 8 << 12 >> 11 } else { 2 << 30 };
    let mut pair = Pair::new(folder, bytes, Options { memory_bytes, ..Options::default() })?;
    let time = Duration::from_secs(arguments.seconds);
    for depth in DEPTHS {
        let (mut ratios, mut speeds) = (Vec::new(), Vec::new());
        for round in 0..arguments.rounds as u64 {
            let raw = pair.in_place(depth, time, round);
            let engine = pair.engine(depth, time, round);
            ratios.push(engine / raw);
            speeds.push(engine);
        }
        let (goal, map) = match (cold, depth) {
            (true, _) => (0.4, "cold"),
            (false, 1) => (0.6, "warm"),
            (false, _) => (1.0, "warm"),
        };
        let what = format!("durable 4 KiB random writes, {depth} outstanding, {map} map");
        report.add(what, median(speeds), "per second", Goal::None);
        report.add(
            "… of writes in place with the same flushes",
            median(ratios),
            "×",
            Goal::AtLeast(goal),
        );
    }
    Ok(())
}

/// Reads a volume in order, before and after it was overwritten in no order.
fn measure_reads(report: &mut Report, folder: &Path) -> Result<()> {
    let bytes = 2 << 30;
    let mut pair = Pair::new(folder, bytes, Options::default())?;
    let raw = read_raw(&mut pair)?;
    for (when, overwrites) in [("written in order", 0), ("overwritten in no order", bytes / BLOCK)]
    {
        let (volume, block) = (pair.volume, data(BLOCK as usize));
        pair.pool.run(128, overwrites, FOREVER, |number| {
            (volume, write(scattered(number, bytes / BLOCK) * BLOCK, &block))
        });
        pair.pool.change(Change::Checkpoint);
        let started = Instant::now();
        pair.pool.run(16, bytes >> 18, FOREVER, |number| {
            (volume, Request::Read { range: ByteRange::new(number << 18, 1 << 18) })
        });
        let speed = bytes as f64 / started.elapsed().as_secs_f64();
        let what = format!("sequential reads of 256 KiB, volume {when}");
        report.add(what, speed / 1e6, "MB/s", Goal::None);
        report.add("… of the plain file", speed / raw, "×", Goal::None);
    }
    Ok(())
}

/// Bytes per second that the plain file is read with.
fn read_raw(pair: &mut Pair) -> Result<f64> {
    let (started, mut done) = (Instant::now(), Vec::new());
    let (mut begun, mut ended, all) = (0, 0, pair.bytes >> 18);
    while ended < all {
        while begun < all && begun - ended < 16 {
            let buffer = Buffer::for_overwrite(1 << 18);
            pair.raw.submit(0, 0, DeviceOperation::Read { offset: begun << 18, buffer });
            begun += 1;
        }
        pair.raw.reap(true, &mut done);
        ended += done.drain(..).len() as u64;
    }
    Ok(pair.bytes as f64 / started.elapsed().as_secs_f64())
}

/// Opens pools of several sizes that were never closed, with journals as full as they get.
fn measure_recovery(report: &mut Report, folder: &Path) -> Result<()> {
    for (size, journal) in
        [(32_u64 << 30, 64_u64 << 20), (32 << 30, 256 << 20), (512 << 30, 256 << 20)]
    {
        let path = folder.join("recovery");
        let options =
            Options { journal_bytes: journal, checkpoint_interval: FOREVER, ..Options::default() };
        let mut pool = Pool::format(make(&path, size)?, &[size], options.clone());
        let volume = pool.create(1, 16 << 30);
        let (blocks, block) = ((16_u64 << 30) / BLOCK, data(BLOCK as usize));
        let mut units = 0;
        while pool.store.statistics().journal_bytes < journal * 45 / 100
            && pool.store.statistics().checkpoints < 3
        {
            pool.run(8, 2000, FOREVER, |number| {
                (volume, write(scattered(units << 32 | number, blocks) * BLOCK, &block))
            });
            units += 1;
        }
        drop(pool);
        let device = OneFile(Device::open(&file(&path), 0, Method::Auto)?);
        let started = Instant::now();
        let pool = Pool::open(device, &[size], options);
        let seconds = started.elapsed().as_secs_f64();
        let (size, journal) = (size >> 30, journal >> 20);
        let replayed = pool.store.statistics().replayed_units;
        let what =
            format!("recovery of {replayed} commits, pool of {size} GiB, journal of {journal} MiB");
        report.add(what, seconds, "s", Goal::AtMost(5.0));
        drop(pool);
        std::fs::remove_file(&path)?;
    }
    Ok(())
}
