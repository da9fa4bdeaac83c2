//! Lock health: how COMPARE AND WRITE (ATS) fares while the array is busy, what an aborted one
//! leaves behind, and whether the answers of several hosts fit together.

mod abort;
mod history;
mod linearize;

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};

use super::Context;
use super::bench::{Bench, seconds_since};
use super::cases::Scale;
use super::judge::target;
use super::model::{Aborts, LockHealth, Storm, Target};
use super::store::Store;
use crate::esxi::counters::Kind;
use crate::esxi::datastore::try_ats;
use crate::esxi::lun::Lun;
use crate::esxi::vaai::Status;
use crate::initiator::cdb;
use crate::initiator::histogram::Histogram;
use crate::initiator::load::{self, Load};
use crate::initiator::session::Data;

/// Bytes at the end of the LUN that storms leave alone.
const QUIET: u64 = 64 << 20;

/// Bytes of the LUN that a storm is spread over at most: a thin pool must not run full.
const SPREAD_MAX: u64 = 4 << 30;

/// IBM's limit: a heartbeat that takes so long loses the datastore.
const HEARTBEAT_LIMIT: Duration = Duration::from_secs(8);

/// What goes on besides: name, command, bytes of each, outstanding.
const STORMS: [(&str, Option<load::Kind>, u64, usize); 5] = [
    ("nothing else", None, 0, 0),
    ("writes", Some(load::Kind::RandomWrite), 256 << 10, 16),
    ("EXTENDED COPY", Some(load::Kind::ExtendedCopy), 4 << 20, 8),
    ("WRITE SAME", Some(load::Kind::WriteSame), 1 << 20, 8),
    ("UNMAP", Some(load::Kind::Unmap), 1 << 20, 8),
];

/// Examines. Each part is written when it is done; an array that dies loses nothing of what was
/// found before.
///
/// # Errors
/// When the folder cannot be written.
pub(super) fn examine(context: &Context, store: &Store) -> Result<LockHealth> {
    let mut health = LockHealth::default();
    if let Err(error) = examine_parts(context, store, &mut health) {
        health.reason = Some(format!("{error:#}"));
    }
    if !health.storms.is_empty() {
        health.targets = targets(&health);
    }
    // Storms leave noise where a datastore was. An array that is gone keeps it.
    let _ = context.bench.empty(context.bench.other());
    Ok(health)
}

fn examine_parts(context: &Context, store: &Store, health: &mut LockHealth) -> Result<()> {
    let bench = &context.bench;
    let mut lun = bench.lun_by_one_path(bench.other(), "locks")?;
    try_ats(&mut lun)?;
    if lun.vaai.ats != Status::Supported {
        health.reason = Some("COMPARE AND WRITE is not supported".to_owned());
        return Ok(());
    }
    for (number, storm) in STORMS.into_iter().enumerate() {
        let name = format!("locks-storm-{number}");
        health.storms.push(store.kept(&name, || under(bench, context.scale, storm))?);
    }
    let rounds = if context.scale == Scale::Tiny { 200 } else { 400 };
    health.aborts = Some(store.kept("locks-aborts", || {
        during_writes(bench, context.scale, || abort::run(bench, rounds))
    })?);
    health.history = Some(store.kept("locks-history", || history::run(bench, context.scale))?);
    Ok(())
}

/// How long each storm lasts: 9,999 of 10,000 want some 10,000 at least.
fn window(scale: Scale) -> Duration {
    Duration::from_millis(match scale {
        Scale::Tiny => 300,
        Scale::Scaled => 20_000,
        Scale::Full => 60_000,
    })
}

fn order(bench: &Bench, storm: (load::Kind, u64, usize), duration: Duration) -> Load {
    let (kind, bytes, queue_depth) = storm;
    let address = |unit: usize| bench.paths(unit)[0].clone();
    let other = bench.other();
    let copies = kind == load::Kind::ExtendedCopy;
    Load {
        url: address(if copies { 0 } else { other }),
        url2: copies.then(|| address(other)),
        kind,
        bytes,
        sessions: 1,
        queue_depth,
        duration,
        span: Some((bench.size_bytes(other) - QUIET).min(SPREAD_MAX)),
        rate: None,
    }
}

fn under(
    bench: &Bench,
    scale: Scale,
    (name, kind, bytes, depth): (&str, Option<load::Kind>, u64, usize),
) -> Result<Storm> {
    let duration = window(scale);
    thread::scope(|scope| {
        let load = kind.map(|kind| order(bench, (kind, bytes, depth), duration));
        let storm = load.map(|load| scope.spawn(move || load::run(&load)));
        let locked = lock_for(bench, duration);
        let mut found = locked?;
        name.clone_into(&mut found.name);
        match storm.map(|storm| storm.join().ok().context("the storm panicked")).transpose()? {
            Some(Ok(outcome)) => found.storm_per_second = outcome.per_second,
            Some(Err(_)) => found.name += " (refused by the array)",
            None => {}
        }
        Ok(found)
    })
}

/// Work while the LUN is written to.
fn during_writes<T>(bench: &Bench, scale: Scale, work: impl FnOnce() -> Result<T>) -> Result<T> {
    let load = order(bench, (load::Kind::RandomWrite, 64 << 10, 8), window(scale) / 3);
    thread::scope(|scope| {
        let storm = scope.spawn(move || load::run(&load));
        let worked = work();
        // The storm is company; what it is worth is measured by `under`.
        // The array may have been lost in it; what was worked tells.
        let _ = storm.join().ok().context("the storm panicked")?;
        worked
    })
}

/// One sector, swapped again and again by one host, which nobody else writes.
fn lock_for(bench: &Bench, duration: Duration) -> Result<Storm> {
    let unit = bench.other();
    let mut lun = bench.lun_by_one_path(unit, "locks")?;
    let lba = (bench.size_bytes(unit) - QUIET) / 512;
    let mut image = vec![0; 512];
    lun.command(Kind::Write, cdb::write(lba, 1), Data::Out(image.clone()), 512)?;
    let (mut storm, mut histogram) = (Storm::default(), Histogram::default());
    let started = Instant::now();
    while seconds_since(started) < duration.as_secs_f64() {
        let mut next = image.clone();
        next[..8].copy_from_slice(&(storm.count + 1).to_le_bytes());
        let begun = Instant::now();
        let swapped = swap(&mut lun, lba, &image, &next);
        histogram.record(begun.elapsed().as_micros() as u64);
        storm.beyond_8s += u64::from(begun.elapsed() >= HEARTBEAT_LIMIT);
        storm.count += 1;
        if swapped {
            image = next;
        } else {
            storm.failed += 1;
            image = lun.read_bytes(lba * 512, 512)?;
        }
    }
    storm.p50_us = histogram.quantile(0.5);
    storm.p99_us = histogram.quantile(0.99);
    storm.p9999_us = histogram.quantile(0.9999);
    storm.max_us = histogram.max();
    storm.histogram = histogram.classes();
    Ok(storm)
}

fn swap(lun: &mut Lun, lba: u64, from: &[u8], to: &[u8]) -> bool {
    let data = Data::Out([from, to].concat());
    lun.command(Kind::Ats, cdb::compare_and_write(lba, 1), data, 512).is_ok()
}

fn targets(health: &LockHealth) -> Vec<Target> {
    let worst = |of: fn(&Storm) -> u64| health.storms.iter().map(of).max().unwrap_or(0);
    let (tail, max) = (worst(|storm| storm.p9999_us), worst(|storm| storm.max_us));
    let failed: u64 = health.storms.iter().map(|storm| storm.failed).sum();
    // Where every abort was refused, there is no 'after'.
    let answered = |aborts: &&Aborts| aborts.complete + aborts.ended_before > 0;
    let judged = health.aborts.as_ref().filter(answered);
    let wrong = judged.map(|aborts| aborts.wrong);
    let sound =
        health.history.as_ref().map(|history| (history.impossible.len(), history.undecided.len()));
    vec![
        target(
            "COMPARE AND WRITE under storms, 9,999 of 10,000",
            "< 50 ms",
            Some(format!("{:.2} ms", tail as f64 / 1e3)),
            Some(tail < 50_000),
        ),
        target(
            "the slowest of all",
            "< 5 s",
            Some(format!("{:.2} ms", max as f64 / 1e3)),
            Some(max < 5_000_000),
        ),
        target("own locks that failed or missed", "0", Some(failed.to_string()), Some(failed == 0)),
        target(
            "after ABORT TASK: blocks that changed later, or not as was answered",
            "0",
            wrong.map(|wrong| wrong.to_string()),
            wrong.map(|wrong| wrong == 0),
        ),
        target(
            "histories of blocks that no order explains",
            "0",
            sound.map(|(wrong, open)| format!("{wrong}, {open} undecided")),
            sound.map(|(wrong, open)| wrong == 0 && open == 0),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether the target about ABORT TASK was met, and what was found.
    fn after_abort(aborts: Option<Aborts>) -> (Option<bool>, String) {
        let health = LockHealth { aborts, ..LockHealth::default() };
        let mut targets = targets(&health).into_iter();
        let found = targets.find(|target| target.what.starts_with("after ABORT TASK"));
        let found = found.expect("it is always there");
        (found.met, found.found)
    }

    #[test]
    fn nothing_is_judged_after_aborts_that_were_all_refused() {
        let refused = Aborts { rounds: 9, refused: 9, old: 5, wrong: 4, ..Aborts::default() };
        assert_eq!(after_abort(Some(refused.clone())), (None, "not measured".to_owned()));
        assert_eq!(after_abort(None).0, None);
        let one = Aborts { refused: 8, complete: 1, ..refused.clone() };
        assert_eq!(after_abort(Some(one)), (Some(false), "4".to_owned()));
        let ended = Aborts { refused: 8, ended_before: 1, wrong: 0, ..refused };
        assert_eq!(after_abort(Some(ended)), (Some(true), "0".to_owned()));
    }
}
