//! Cost of comparing two snapshots of 1 TiB, between which 1,000 blocks in no order were written. Each
//! mebibyte has an entry in one of 4,096 different pages of the map.

use std::time::Duration;

use anyhow::{Result, ensure};
use block::{BLOCK, VolumeId};
use store::{Change, Comparison, Difference, Options, VolumeSpec};

use crate::engine::processor;
use crate::pool::{Pool, copy, data, scattered, spec, write};
use crate::report::{Goal, Report, median};
use crate::terabytes::Spool;

const POOL: u64 = 4 << 40;
const SIZE: u64 = 1 << 40;
const CHANGES: u64 = 1000;
const FOREVER: Duration = Duration::from_secs(3600);

/// How often each comparison is measured.
const ROUNDS: usize = 9;

const VOLUME: VolumeId = VolumeId(2);
const BEFORE: VolumeId = VolumeId(3);
const AFTER: VolumeId = VolumeId(4);

pub(crate) fn measure(report: &mut Report) -> Result<()> {
    let options = Options { memory_bytes: 256 << 20, ..Options::default() };
    let mut pool = Pool::format(Spool::new()?, &[POOL], options.clone());
    fill(&mut pool);
    snapshot(&mut pool, BEFORE);
    let block = data(BLOCK as usize);
    pool.run(8, CHANGES, FOREVER, |number| {
        (VOLUME, write(scattered(number, SIZE / BLOCK) * BLOCK, &block))
    });
    snapshot(&mut pool, AFTER);
    let (mut cold, mut warm, mut pages) = (Vec::new(), Vec::new(), 0);
    for _ in 0..ROUNDS {
        pool = pool.reopened(&[POOL], options.clone());
        let (difference, time) = compare(&mut pool, Some(BEFORE))?;
        cold.push(time);
        warm.push(compare(&mut pool, Some(BEFORE))?.1);
        pages = difference.pages;
    }
    let what = "processor per comparison of snapshots of 1 TiB with 1,000 blocks changed";
    report.add(format!("{what}, map in memory"), median(warm), "ms", Goal::AtMost(10.0));
    report.add(format!("{what}, map read from a file"), median(cold), "ms", Goal::None);
    report.add("… pages of the map looked at", pages as f64, "pages", Goal::AtMost(5000.0));
    let (all, time) = compare(&mut pool, None)?;
    report.add(
        "processor per question for what a snapshot of 1 TiB holds, all of it",
        time,
        "ms",
        Goal::None,
    );
    report.add("… pages of the map looked at", all.pages as f64, "pages", Goal::None);
    Ok(())
}

/// A volume that is mapped from end to end.
fn fill(pool: &mut Pool<Spool>) {
    let source = pool.create(1, 1 << 30);
    pool.create(VOLUME.0, SIZE);
    let (mebibyte, slice) = (data(1 << 20), 32 << 20);
    pool.run(8, 1 << 10, FOREVER, |number| (source, write(number << 20, &mebibyte)));
    pool.run(8, SIZE / slice, FOREVER, |number| {
        let at = number * slice;
        (VOLUME, copy(source, at % (1 << 30), at, slice))
    });
}

fn snapshot(pool: &mut Pool<Spool>, id: VolumeId) {
    let spec = VolumeSpec { snapshot: true, ..spec(id.0, SIZE) };
    pool.change(Change::CloneVolumes(vec![(VOLUME, spec)]));
    pool.change(Change::Checkpoint);
}

/// One comparison, which must fit in one answer, and its milliseconds of processor time.
fn compare(pool: &mut Pool<Spool>, base: Option<VolumeId>) -> Result<(Difference, f64)> {
    let question = Comparison { base, target: AFTER, from: 0, extents_max: 10_000 };
    let before = processor();
    let difference = pool.compare(question);
    let time = (processor() - before).as_secs_f64() * 1e3;
    let bytes: u64 = difference.extents.iter().map(|extent| extent.range.length).sum();
    let expected = if base.is_some() { CHANGES * BLOCK } else { SIZE };
    // Two of the blocks in no order may be the same one.
    let is_right = difference.next.is_none() && bytes <= expected && bytes > expected * 99 / 100;
    ensure!(is_right, "{bytes} bytes in {} extents", difference.extents.len());
    Ok((difference, time))
}
