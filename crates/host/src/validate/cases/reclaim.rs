//! Q1: does space come back to the array?

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use vmfs::vmdk::DiskFormat;

use super::{OFF_ON, Scale, Spec, Way, size};
use crate::esxi::mover::{self, Clone};
use crate::validate::Context;
use crate::validate::bench::{Vaai, seconds_since};
use crate::validate::content::{self, Layout};
use crate::validate::judge::{figure, target};
use crate::validate::meter::Meter;
use crate::validate::model::{Run, Target, Variant};

/// How long the array may take to give space back.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long to look when nothing was given back and so nothing can come.
const GLANCE: Duration = Duration::from_millis(500);

/// What the file system may need more of for itself: a block.
const SLACK: u64 = 1 << 20;

pub(super) fn cases() -> Vec<Spec> {
    vec![Spec {
        id: "Q1",
        title: "Space comes back after Storage vMotion, delete and snapshot delete",
        source: "QSAN XS5216D, 2021",
        scenario: "A thin disk, half full, moves to another datastore; another one is deleted; a snapshot's delta is deleted. Off: the host sends no UNMAP. On: it unmaps at once, as VMFS-6 does.",
        published: "the source datastore falls to 0, the array still shows the 50 GB: 0 % come back without handwork",
        sizes: |scale| {
            let layout = layout(scale);
            format!(
                "published: 100 GB thin, 50 GB used; here: {} thin, {} used",
                size(layout.size),
                size(layout.data)
            )
        },
        ways: OFF_ON,
        pairs: &[],
        needs: |scale| layout(scale).size * 2 + (256 << 20),
        obstacle: |context| {
            let silent = context.bench.space(0).is_none();
            silent.then(|| "the array does not report space by SCSI (neither log page 0Ch nor GET LBA STATUS)".to_owned())
        },
        prepare: |_| Ok(()),
        run,
        judge,
        notes: &[],
    }]
}

fn layout(scale: Scale) -> Layout {
    Layout { size: scale.bytes(1000, 400), data: scale.bytes(500, 400), seed: 11 }
}

fn run(context: &Context, way: Way) -> Result<Run> {
    let bench = &context.bench;
    (0..bench.count().min(2)).try_for_each(|unit| bench.format(unit))?;
    let mut run = Run::default();
    let mut sum = (0.0, 0.0);
    for step in ["moved", "deleted", "snapshot deleted"] {
        let outcome = one(context, way, step)?;
        let percent = outcome.returned_percent();
        run.figures.insert(format!("{step}: came back, %"), percent);
        run.figures.insert(format!("{step}: after, s"), outcome.seconds);
        sum = (sum.0 + percent / 3.0, outcome.seconds.max(sum.1));
        run.space = [Some(outcome.before), Some(outcome.after)];
        run.counters.add(&outcome.run.counters);
        run.commands += outcome.run.commands;
        run.seconds += outcome.run.seconds;
    }
    run.figures.insert("came back, %".to_owned(), sum.0);
    run.figures.insert("slowest return, s".to_owned(), sum.1);
    run.verified = Some(true);
    Ok(run)
}

/// Space of the source LUN around a virtual machine's life.
struct MeasuredSpace {
    before: u64,
    with: u64,
    after: u64,
    seconds: f64,
    run: Run,
}

impl MeasuredSpace {
    fn returned_percent(&self) -> f64 {
        let taken = self.with.saturating_sub(self.before + SLACK);
        let left = self.after.saturating_sub(self.before + SLACK);
        if taken == 0 { 0.0 } else { (100.0 * (1.0 - left as f64 / taken as f64)).max(0.0) }
    }
}

fn one(context: &Context, way: Way, step: &str) -> Result<MeasuredSpace> {
    let bench = &context.bench;
    let layout = layout(context.scale);
    let settings = way.vaai.unwrap_or(Vaai::On).settings();
    // A datastore is mounted no longer than it is in use: an idle one does not beat.
    let mut stores = vec![bench.mount(0, "esx1", &settings)?];
    // Metadata that the first disk of its kind takes is not the disk's.
    let small = Layout { size: 1 << 20, data: 1 << 20, seed: 1 };
    content::create(&mut stores[0], "first.vmdk", &small, DiskFormat::Thin)?;
    content::remove_and_unmap(&mut stores[0], "first.vmdk")?;
    let space = || bench.space(0).context("the array stopped to report space");
    let before = space()?;
    content::create(&mut stores[0], "vm.vmdk", &layout, DiskFormat::Thin)?;
    let with = space()?;
    let places = content::places(&mut stores[0], "vm.vmdk")?;
    let to = bench.other();
    if to != 0 {
        stores.push(bench.mount(to, "esx1", &settings)?);
    }
    let ((), run) = Meter::measure(&mut stores, |stores| {
        if step == "moved" && to != 0 {
            let order = Clone {
                source: (0, "vm.vmdk"),
                destination: (to, "vm.vmdk"),
                format: DiskFormat::Thin,
                machine: mover::MachineState::Still,
            };
            let go_on = &mut |_, _| std::ops::ControlFlow::Continue(());
            mover::storage_vmotion(stores, order, go_on, &mut |_| None)?;
        } else {
            stores[0].volume.remove_disk("vm.vmdk")?;
        }
        match way.vaai {
            Some(Vaai::On) => content::unmap(&mut stores[0], &places),
            _ => Ok(()),
        }
    })?;
    let patience = if way.vaai == Some(Vaai::On) { PATIENCE } else { GLANCE };
    let (after, seconds) = wait_for(before, patience, space)?;
    let mut others = stores.split_off(1);
    context.unmount(stores)?;
    if let [other] = &mut others[..]
        && step == "moved"
    {
        content::check(other, "vm.vmdk", &layout)?;
        other.volume.remove_disk("vm.vmdk")?;
    }
    context.unmount(others)?;
    Ok(MeasuredSpace { before, with, after, seconds, run })
}

/// Looks until the space is back or patience ends; returns the last figure and the seconds.
fn wait_for(
    before: u64,
    patience: Duration,
    space: impl Fn() -> Result<u64>,
) -> Result<(u64, f64)> {
    let started = Instant::now();
    loop {
        let now = space()?;
        if now <= before + SLACK || started.elapsed() > patience {
            return Ok((now, seconds_since(started)));
        }
        thread::sleep(Duration::from_millis(100));
    }
}

fn judge(_: &Context, variants: &[Variant]) -> Vec<Target> {
    let percent = figure(variants, "on", "came back, %");
    let seconds = figure(variants, "on", "slowest return, s");
    let found = percent.zip(seconds);
    vec![target(
        "space comes back without handwork",
        "100 % within 5 s",
        found.map(|(percent, seconds)| format!("{percent:.1} % within {seconds:.2} s")),
        found.map(|(percent, seconds)| percent >= 99.95 && seconds <= 5.0),
    )]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_returned_is_no_percent_and_all_is_a_hundred() {
        let outcome = |before, with, after| MeasuredSpace {
            before,
            with,
            after,
            seconds: 0.0,
            run: Run::default(),
        };
        let mib = 1 << 20;
        assert!(outcome(0, 101 * mib, 101 * mib).returned_percent() < 0.01);
        assert!((outcome(0, 101 * mib, mib).returned_percent() - 100.0).abs() < 0.01);
        assert!((outcome(0, 101 * mib, 51 * mib).returned_percent() - 50.0).abs() < 0.01);
        assert!(outcome(5, 5, 5).returned_percent() < 0.01, "nothing was taken");
    }
}
