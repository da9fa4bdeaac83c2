//! M3: primitives off in the array, then on, under hosts that stay logged in: the two sides of an
//! upgrade that brings them.

use std::ops::ControlFlow;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use vmfs::vmdk::DiskFormat;

use super::{Note, Scale, Spec, Way, always, seconds, size};
use crate::esxi::datastore::Datastore;
use crate::esxi::mover::{self, Clone, MachineState};
use crate::validate::Context;
use crate::validate::bench::{Bench, Vaai};
use crate::validate::content::{self, Layout};
use crate::validate::judge::{figure, target, wire_below};
use crate::validate::meter::Meter;
use crate::validate::model::{Run, Target, Variant};

const OFF: &str = "off in the array";
const ON: &str = "on in the array";

/// Figures of a run.
const COPIES: &str = "EXTENDED COPYs carried out";
const ZEROES: &str = "WRITE SAMEs carried out";

/// A disk to clone, its clone, and one to zero.
struct Disks {
    source: &'static str,
    copy: &'static str,
    zeroed: &'static str,
}

/// By which hosts learn what the array does before the change.
const FIRST: Disks = Disks { source: "first.vmdk", copy: "first-c.vmdk", zeroed: "first-z.vmdk" };

const MEASURED: Disks = Disks { source: "disk.vmdk", copy: "disk-c.vmdk", zeroed: "disk-z.vmdk" };

const FIRST_LAYOUT: Layout = Layout { size: 16 << 20, data: 8 << 20, seed: 8 };

fn layout(scale: Scale) -> Layout {
    let size = scale.bytes(700, 100);
    Layout { size, data: (size / 9 * 5) >> 20 << 20, seed: 9 }
}

const SWITCHED: Note = (
    "The hosts log in and work while it is the other way round: they live through the change, and hear of it by unit attentions or not at all. Every byte is read back by another host.",
    always,
);

pub(super) fn cases() -> Vec<Spec> {
    vec![Spec {
        id: "M3",
        title: "Primitives off in the array, then on: hosts fall back, and offload again",
        source: "Nimble CS300, NimbleOS 2 → 3",
        scenario: "EXTENDED COPY and WRITE SAME are turned off, or on, in the array by the command of --array-switch while hosts are logged in; a disk is then cloned, and another one created eager zeroed.",
        published: "before the upgrade hosts copy, after it the array does: 4 min 22 s faster",
        sizes: |scale| format!("published: 70 GB + 110 GB; here: {}", size(layout(scale).size)),
        ways: const {
            &[
                Way { name: OFF, vaai: Some(Vaai::On), scenario: "off" },
                Way { name: ON, vaai: Some(Vaai::On), scenario: "on" },
            ]
        },
        pairs: const { &[seconds("clone and zero", OFF, ON, None)] },
        needs: |scale| layout(scale).size * 3 + (256 << 20),
        obstacle: |context| {
            context.array_switch.is_none().then(|| {
                "it needs a command that turns EXTENDED COPY and WRITE SAME off and on in the array: --array-switch COMMAND".to_owned()
            })
        },
        prepare,
        run,
        judge,
        notes: &[SWITCHED],
    }]
}

/// Runs the command, which finds 'off' or 'on' in the variable SWITCH.
fn switch(context: &Context, state: &str) -> Result<()> {
    let command = context.array_switch.as_ref().context("no --array-switch was given")?;
    let mut shell = Command::new("sh");
    let status = shell.args(["-c", command]).env("SWITCH", state).status()?;
    ensure!(
        status.success(),
        "--array-switch: with SWITCH={state} the command ended with {status}"
    );
    Ok(())
}

fn prepare(context: &Context) -> Result<()> {
    switch(context, "on")?;
    let bench = &context.bench;
    (0..=bench.other()).try_for_each(|unit| bench.format(unit))?;
    let mut stores = vec![bench.mount(0, "esx1", &Vaai::On.settings())?];
    for (disks, layout) in [(FIRST, FIRST_LAYOUT), (MEASURED, layout(context.scale))] {
        content::create(&mut stores[0], disks.source, &layout, DiskFormat::ZeroedThick)?;
    }
    context.unmount(stores)
}

/// Whatever becomes of it, the primitives are on afterwards.
fn run(context: &Context, way: Way) -> Result<Run> {
    let run = through_the_change(context, way);
    let on = switch(context, "on");
    let run = run?;
    on.map(|()| run)
}

fn through_the_change(context: &Context, way: Way) -> Result<Run> {
    let bench = &context.bench;
    let layout = layout(context.scale);
    switch(context, if way.scenario == "on" { "off" } else { "on" })?;
    let mut stores = bench.mount_all(&Vaai::On.settings())?;
    clone_and_zero(bench, &mut stores, &FIRST, FIRST_LAYOUT.size)?;
    switch(context, way.scenario)?;
    // Heartbeats go on every few seconds while a datastore is mounted: what there is to be told is
    // told to them.
    for store in &mut stores {
        store.volume.pulse()?;
    }
    let (report, mut run) = Meter::measure(&mut stores, |stores| {
        clone_and_zero(bench, stores, &MEASURED, layout.size)
    })?;
    context.unmount(stores)?;
    run.fallbacks = report.fallbacks;
    run.figures.insert(COPIES.to_owned(), run.counters.clone_wr as f64);
    run.figures.insert(ZEROES.to_owned(), run.counters.zero as f64);
    run.verified = Some(verify(bench, layout)?);
    Ok(run)
}

fn clone_and_zero(
    bench: &Bench,
    stores: &mut [Datastore],
    disks: &Disks,
    size: u64,
) -> Result<mover::Report> {
    let go_on = &mut |_, _| ControlFlow::Continue(());
    let order = Clone {
        source: (0, disks.source),
        destination: (bench.other(), disks.copy),
        format: DiskFormat::ZeroedThick,
        machine: MachineState::Still,
    };
    let report = mover::clone(stores, order, go_on)?;
    let store = &mut stores[bench.other()];
    let file = store.volume.create_disk(disks.zeroed, size, DiskFormat::EagerZeroedThick)?;
    mover::eager_zero(store, file, go_on)?;
    Ok(report)
}

/// Another host reads all, and removes it.
fn verify(bench: &Bench, layout: Layout) -> Result<bool> {
    let unit = bench.other();
    let mut store = bench.mount(unit, "esx2", &Vaai::On.settings())?;
    for (disks, layout) in [(FIRST, FIRST_LAYOUT), (MEASURED, layout)] {
        content::check(&mut store, disks.copy, &layout)?;
        content::check(&mut store, disks.zeroed, &Layout { data: 0, seed: 0, ..layout })?;
        for disk in [disks.copy, disks.zeroed] {
            if bench.is_thin(unit) {
                content::remove_and_unmap(&mut store, disk)?;
            } else {
                store.volume.remove_disk(disk)?;
            }
        }
    }
    store.volume.unmount()?;
    Ok(true)
}

fn judge(_: &Context, variants: &[Variant]) -> Vec<Target> {
    let done = |name| {
        let counts = [COPIES, ZEROES].map(|what| figure(variants, name, what));
        let [Some(copies), Some(zeroes)] = counts else { return None };
        Some([copies, zeroes])
    };
    let words = |done: Option<[f64; 2]>| done.map(|[copies, zeroes]| format!("{copies}, {zeroes}"));
    let (off, on) = (done(OFF), done(ON));
    vec![
        target(
            "EXTENDED COPYs, WRITE SAMEs after they were turned off",
            "0, 0",
            words(off),
            off.map(|counts| counts == [0.0; 2]),
        ),
        target(
            "EXTENDED COPYs, WRITE SAMEs after they were turned on, without a rescan",
            "> 0 of each",
            words(on),
            on.map(|counts| counts.iter().all(|count| *count > 0.0)),
        ),
        wire_below("clone and zero", 0.2, variants, OFF, ON),
    ]
}
