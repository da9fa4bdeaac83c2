//! Cost of the engine on an image of a Ceph cluster: durable writes and reads through it, and fio's on another image of
//! the same pool with as many writes per flush.

use std::os::fd::OwnedFd;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use block::{BLOCK, ByteRange, DeviceName, DeviceOperation, DeviceResult, Request, VolumeId};
use device::{Device, Method};
use rustix::event::{Timespec, epoll};
use store::{Change, Options};

use crate::Options as Arguments;
use crate::files::fill;
use crate::pool::{Devices, Pool, data, scattered, write};
use crate::report::{Goal, Report, median};

const FOREVER: Duration = Duration::from_secs(3600);
const DEPTHS: [usize; 2] = [1, 32];

/// Where the goal counts.
const GOAL_DEPTH: usize = 32;

/// The images: the engine's, and fio's.
const IMAGES: [&str; 2] = ["engine", "fio"];

/// Bytes of the volume, and of fio's image.
const BYTES: u64 = 256 << 20;

/// The engine's image, of which flushes are counted.
struct Image {
    device: Device,
    /// Tells of each completion once, as the daemon's loop is told.
    poll: OwnedFd,
    flushes: u64,
}

impl Image {
    fn new(device: Device) -> Result<Self> {
        let poll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let edges = epoll::EventFlags::IN | epoll::EventFlags::ET;
        epoll::add(&poll, device.readiness(), epoll::EventData::new_u64(0), edges)?;
        Ok(Self { device, poll, flushes: 0 })
    }
}

impl Devices for Image {
    fn submit(&mut self, _: u8, id: u64, operation: DeviceOperation) {
        self.flushes += u64::from(matches!(operation, DeviceOperation::Flush));
        self.device.submit(id, operation);
    }

    fn reap(&mut self, wait: bool, done: &mut Vec<(u64, DeviceResult)>) {
        self.device.kick();
        self.device.reap(done);
        if wait && done.is_empty() {
            let millisecond = Timespec { tv_sec: 0, tv_nsec: 1_000_000 };
            let mut event = [epoll::Event {
                flags: epoll::EventFlags::empty(),
                data: epoll::EventData::new_u64(0),
            }];
            let _ = epoll::wait(&self.poll, &mut event, Some(&millisecond));
            self.device.reap(done);
        }
    }
}

/// What is measured.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Load {
    Writes,
    Reads,
}

impl Load {
    const ALL: [Self; 2] = [Self::Writes, Self::Reads];

    const fn name(self) -> &'static str {
        match self {
            Self::Writes => "durable 4 KiB random writes",
            Self::Reads => "4 KiB random reads",
        }
    }

    /// For fio, and where its answer has the figure.
    const fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Writes => ("--rw=randwrite", "/jobs/0/write/iops"),
            Self::Reads => ("--rw=randread", "/jobs/0/read/iops"),
        }
    }
}

/// A pool whose one volume is filled.
struct Subject {
    pool: Pool<Image>,
    volume: VolumeId,
}

/// Operations per second, and how many there were for each flush.
struct Speed {
    per_second: f64,
    per_flush: f64,
}

impl Subject {
    fn new(device: Device) -> Result<Self> {
        let size = device.size_bytes();
        let mut pool = Pool::format(Image::new(device)?, &[size], Options::default());
        let volume = pool.create(1, BYTES);
        let mebibyte = data(1 << 20);
        pool.run(16, BYTES >> 20, FOREVER, |number| (volume, write(number << 20, &mebibyte)));
        pool.change(Change::Checkpoint);
        Ok(Self { pool, volume })
    }

    fn measure(&mut self, load: Load, depth: usize, time: Duration, seed: u64) -> Speed {
        let (volume, block) = (self.volume, data(BLOCK as usize));
        let (started, flushes) = (Instant::now(), self.pool.devices.flushes);
        let count = self.pool.run(depth, u64::MAX, time, |number| {
            let at = scattered(seed << 32 | number, BYTES / BLOCK) * BLOCK;
            let request = match load {
                Load::Writes => write(at, &block),
                Load::Reads => Request::Read { range: ByteRange::new(at, BLOCK) },
            };
            (volume, request)
        });
        let per_second = count as f64 / started.elapsed().as_secs_f64();
        let flushes = self.pool.devices.flushes - flushes;
        Speed { per_second, per_flush: count as f64 / flushes.max(1) as f64 }
    }
}

/// What fio makes of it, operations per second.
fn fio(pool: &str, load: Load, depth: usize, time: Duration, per_flush: f64) -> Result<f64> {
    let (word, figure) = load.words();
    let mut command = Command::new("fio");
    command
        .args(["--name=rbd", "--ioengine=rbd", "--clientname=admin", "--bs=4k"])
        .args(["--direct=1", "--time_based", "--output-format=json", word])
        .arg(format!("--pool={pool}"))
        .arg(format!("--rbdname={}", IMAGES[1]))
        .arg(format!("--size={BYTES}"))
        .arg(format!("--iodepth={depth}"))
        .arg(format!("--runtime={}", time.as_secs()));
    if load == Load::Writes {
        command.arg(format!("--fsync={}", per_flush.round().max(1.0)));
    }
    let output = command.output().context("cannot start fio")?;
    ensure!(output.status.success(), "fio: {}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout)?;
    // It tells of what it does before its answer.
    let answer = text.find('{').map_or("", |begin| &text[begin..]);
    let answer: serde_json::Value = serde_json::from_str(answer).context("fio's answer")?;
    answer.pointer(figure).and_then(serde_json::Value::as_f64).context("a figure of fio's")
}

pub(crate) fn measure(report: &mut Report, pool: &str, options: &Arguments) -> Result<()> {
    let open = |image: &str| -> Result<Device> {
        let name: DeviceName = format!("rbd:{pool}/{image}").parse().map_err(anyhow::Error::msg)?;
        Ok(Device::open(&name, 0, Method::Auto)?)
    };
    let mut plain = open(IMAGES[1])?;
    fill(&mut plain, BYTES);
    drop(plain);
    let mut subject = Subject::new(open(IMAGES[0])?)?;
    let time = Duration::from_secs(options.seconds);
    for (load, depth) in Load::ALL.into_iter().flat_map(|load| DEPTHS.map(|depth| (load, depth))) {
        let (mut speeds, mut ratios, mut groups) = (Vec::new(), Vec::new(), Vec::new());
        for round in 0..options.rounds as u64 {
            let speed = subject.measure(load, depth, time, round);
            let plain = fio(pool, load, depth, time, speed.per_flush)?;
            speeds.push(speed.per_second);
            ratios.push(speed.per_second / plain);
            groups.push(speed.per_flush);
        }
        report.add(
            format!("{}, {depth} outstanding", load.name()),
            median(speeds),
            "per second",
            Goal::None,
        );
        let goal = if depth == GOAL_DEPTH { Goal::AtLeast(0.8) } else { Goal::None };
        let (what, groups) = match load {
            Load::Writes => ("… of fio's, with a flush after as many writes", Some(groups)),
            Load::Reads => ("… of fio's", None),
        };
        report.add(what, median(ratios), "×", goal);
        if let Some(groups) = groups {
            report.add("… writes for each flush", median(groups), "", Goal::None);
        }
    }
    Ok(())
}
