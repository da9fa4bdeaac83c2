//! Processor time of the engine alone: its devices keep nothing and answer at once.

use std::time::Duration;

use block::{BLOCK, ByteRange};
use block::{Buffer, DeviceOperation, DeviceResult, Pattern, Request, VolumeId};
use rustix::time::{ClockId, clock_gettime};
use store::{Change, Options};

use crate::pool::{Devices, Pool, copy, data, scattered, spec, write};
use crate::report::{Goal, Report};

const POOL: u64 = 1 << 40;
const VOLUME: u64 = 1 << 30;
const FOREVER: Duration = Duration::from_secs(3600);

/// Takes writes and forgets them. What the engine has written stays in its memory here, so it
/// reads nothing back.
#[derive(Default)]
struct Nowhere {
    done: Vec<(u64, DeviceResult)>,
}

impl Devices for Nowhere {
    fn submit(&mut self, _: u8, id: u64, operation: DeviceOperation) {
        let result: Option<Buffer> = match operation {
            DeviceOperation::Read { .. } => panic!("the engine reads what was forgotten"),
            _ => None,
        };
        self.done.push((id, Ok(result)));
    }

    fn reap(&mut self, _: bool, done: &mut Vec<(u64, DeviceResult)>) {
        done.append(&mut self.done);
    }
}

/// Processor time of this thread.
pub(crate) fn processor() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Microseconds of processor time per request.
fn cost(
    pool: &mut Pool<Nowhere>,
    depth: usize,
    count: u64,
    request: impl FnMut(u64) -> (VolumeId, Request),
) -> f64 {
    let before = processor();
    pool.run(depth, count, FOREVER, request);
    (processor() - before).as_secs_f64() * 1e6 / count as f64
}

/// Two volumes, the first of which holds data everywhere, written in no order if `scatter`.
fn filled(scatter: bool) -> (Pool<Nowhere>, VolumeId, VolumeId) {
    let options = Options { memory_bytes: 8 << 30, ..Options::default() };
    let mut pool = Pool::format(Nowhere::default(), &[POOL], options);
    let (a, b) = (pool.create(1, VOLUME), pool.create(2, VOLUME));
    let block = data(BLOCK as usize);
    let blocks = VOLUME / BLOCK;
    let place = |number: u64| {
        if scatter {
            // Each block once: an odd factor permutes a power of two.
            number.wrapping_mul(0x9e37_79b9) % blocks
        } else {
            number
        }
    };
    pool.run(32, blocks, FOREVER, |number| (a, write(place(number) * BLOCK, &block)));
    pool.change(Change::Checkpoint);
    (pool, a, b)
}

pub(crate) fn measure(report: &mut Report) {
    measure_writes(report);
    for (scatter, words) in [(false, "written in order"), (true, "written in no order")] {
        measure_clones(report, scatter, words);
    }
    measure_rest(report);
    measure_snapshot(report);
}

fn measure_writes(report: &mut Report) {
    let (mut pool, a, _) = filled(false);
    let block = data(BLOCK as usize);
    let blocks = VOLUME / BLOCK;
    for depth in [1, 32, 128] {
        let overwrite = |number| (a, write(scattered(number, blocks) * BLOCK, &block));
        let figure = cost(&mut pool, depth, 1_000_000, overwrite);
        let goal = if depth == 1 { Goal::None } else { Goal::AtMost(1.5) };
        let what = format!("processor per 4 KiB overwrite, {depth} outstanding, checksum included");
        report.add(what, figure, "µs", goal);
    }
    pool.change(Change::Checkpoint);
    let space = pool.store.space();
    let heads = 100.0 * 42.0 / 32_768.0;
    let map = 100.0 * space.metadata as f64 / (space.used - space.metadata) as f64;
    report.add("map and space maps, of the data", map + heads, "%", Goal::AtMost(0.6));
}

fn measure_clones(report: &mut Report, scatter: bool, words: &str) {
    let (mut pool, a, b) = filled(scatter);
    let pieces = VOLUME >> 22;
    let aligned = |number| (b, copy(a, (number % pieces) << 22, (number % pieces) << 22, 4 << 20));
    let figure = cost(&mut pool, 8, 20_000, aligned);
    report.add(
        format!("processor per aligned 4 MiB clone, source {words}"),
        figure,
        "µs",
        Goal::AtMost(5.0),
    );
    let block = data(BLOCK as usize);
    let first = |number| (b, write((number << 20) + BLOCK, &block));
    // A round lasts some milliseconds, so that one interruption would be most of it.
    let mut rounds: Vec<f64> = (0..9)
        .map(|_| {
            pool.run(8, pieces, FOREVER, aligned);
            pool.change(Change::Checkpoint);
            cost(&mut pool, 32, VOLUME >> 20, first)
        })
        .collect();
    rounds.sort_by(f64::total_cmp);
    report.add(
        format!("processor per first overwrite of a mebibyte after a clone, source {words}"),
        rounds[rounds.len() / 2],
        "µs",
        Goal::AtMost(8.0),
    );
    let misaligned = |number: u64| {
        let at = (number % (pieces - 1)) << 22;
        (b, copy(a, at, at + BLOCK, 4 << 20))
    };
    let figure = cost(&mut pool, 8, 2_000, misaligned);
    report.add(
        format!("processor per 4 MiB clone moved by 4 KiB, source {words}"),
        figure,
        "µs",
        Goal::AtMost(100.0),
    );
}

fn measure_rest(report: &mut Report) {
    let (mut pool, a, _) = filled(false);
    let mebibytes = VOLUME >> 20;
    let range = |number: u64| ByteRange::new((number % mebibytes) << 20, 1 << 20);
    let zero = |number| (a, Request::WriteSame { range: range(number), pattern: Pattern::Zero });
    let figure = cost(&mut pool, 32, mebibytes, zero);
    report.add(
        "processor per WRITE SAME of 1 MiB of zeroes over data, reclaim included",
        figure,
        "µs",
        Goal::None,
    );
    let unmap = |number| (a, Request::Unmap { ranges: vec![range(number)] });
    let figure = cost(&mut pool, 32, 100_000, unmap);
    report.add("processor per UNMAP of 1 MiB of nothing", figure, "µs", Goal::None);
}

fn measure_snapshot(report: &mut Report) {
    let (mut pool, a, b) = filled(false);
    pool.change(Change::ResizeVolume { id: b, size_bytes: 64 << 40 });
    // A gibibyte of the first volume, at each of 65,536 gibibytes of the second: 64 TiB mapped.
    let slices = 16_u64;
    for gibibyte in 0..slices {
        let at = gibibyte * (64 << 40) / slices;
        pool.run(8, VOLUME >> 22, FOREVER, |number| {
            (b, copy(a, number << 22, at + (number << 22), 4 << 20))
        });
    }
    pool.change(Change::Checkpoint);
    let before = processor();
    let count = 1000;
    for number in 0..count {
        let mut new = spec(100 + number, 0);
        new.snapshot = true;
        pool.change(Change::CloneVolumes(vec![(b, new)]));
    }
    let figure = (processor() - before).as_secs_f64() * 1e3 / count as f64;
    report.add("processor per snapshot of a 64 TiB volume", figure, "ms", Goal::AtMost(1.0));
}
