//! Q2, N1, I3, I4, M1, M2: Full Copy. Virtual machines are cloned and moved, by EXTENDED COPY or by
//! reading and writing.

mod deploying;

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use anyhow::{Context as _, Result};
use vmfs::Place;
use vmfs::vmdk::DiskFormat;

use super::{
    Note, OFF_ON, Scale, Spec, Way, always, no_targets, nothing_in_the_way, off, on, seconds, size,
};
use crate::esxi::datastore::Datastore;
use crate::esxi::mover::{self, Clone, MachineState, Report};
use crate::validate::Context;
use crate::validate::bench::{Bench, Vaai};
use crate::validate::content::{self, Layout};
use crate::validate::judge::{at_least, median_of, ratio_of, target, wire_below};
use crate::validate::meter::Meter;
use crate::validate::model::{Run, Target, Variant};

/// A virtual machine: its disks, and how it is copied.
struct Machine {
    disks: Vec<Layout>,
    format: DiskFormat,
}

/// The document's machine of each case.
fn machine(id: &str, scale: Scale) -> Machine {
    let bytes = |tenths, divisor| scale.bytes(tenths, divisor);
    let disk = |size, data, seed| Layout { size, data, seed };
    let (disks, format) = match id {
        "Q2" => (vec![disk(bytes(2000, 25), bytes(770, 25), 2)], DiskFormat::ZeroedThick),
        "N1" => (vec![disk(bytes(400, 10), bytes(104, 10), 3)], DiskFormat::Thin),
        "I3" => {
            let size = bytes(1000, 100);
            (vec![disk(size, size, 4)], DiskFormat::EagerZeroedThick)
        }
        "I4" => {
            let size = bytes(1000, 400);
            (vec![disk(size, size, 5)], DiskFormat::EagerZeroedThick)
        }
        _ => {
            let (first, second) = (bytes(700, 100), bytes(1100, 100));
            let data = |size: u64| (size / 9 * 5) >> 20 << 20;
            let disks = vec![disk(first, data(first), 6), disk(second, data(second), 7)];
            (disks, DiskFormat::EagerZeroedThick)
        }
    };
    Machine { disks, format }
}

impl Machine {
    fn size(&self) -> u64 {
        self.disks.iter().map(|disk| disk.size).sum()
    }

    fn data(&self) -> u64 {
        self.disks.iter().map(|disk| disk.data).sum()
    }

    fn sizes(&self, published: &str) -> String {
        format!(
            "published: {published}; here: {} with {} of data",
            size(self.size()),
            size(self.data())
        )
    }
}

fn room(id: &str, scale: Scale) -> u64 {
    machine(id, scale).size() * 5 / 2 + (256 << 20)
}

pub(super) fn cases() -> Vec<Spec> {
    vec![q2(), deploying::n1(), i3(), i4(), m1(), m2()]
}

const READ_BACK: Note = (
    "Every byte of a copy is read back by another host over another session and compared.",
    always,
);

macro_rules! machine_of {
    ($id:literal, $published:literal, $spec:expr) => {
        Spec {
            id: $id,
            sizes: |scale| machine($id, scale).sizes($published),
            needs: |scale| room($id, scale),
            obstacle: nothing_in_the_way,
            prepare: |context| prepare(context, $id),
            run: |context, way| copy(context, $id, way),
            ..$spec
        }
    };
}

fn blank() -> Spec {
    Spec {
        id: "",
        title: "",
        source: "",
        scenario: "",
        published: "",
        sizes: |_| String::new(),
        ways: OFF_ON,
        pairs: &[],
        needs: |_| 0,
        obstacle: nothing_in_the_way,
        prepare: |_| Ok(()),
        run: |_, _| Ok(Run::default()),
        judge: no_targets,
        notes: &[READ_BACK],
    }
}

fn q2() -> Spec {
    machine_of!(
        "Q2",
        "200 GB lazy zeroed, 77 GB used",
        Spec {
            title: "Full Copy: Storage vMotion, then clone",
            source: "QSAN XS5216D, 2021",
            scenario: "A virtual machine moves to another LUN of the same array, and is then cloned.",
            published: "Storage vMotion 1616 s off, 365 s on; clone 1550 s off, 359 s on",
            ways: const {
                &[
                    off("Storage vMotion, off", "move"),
                    on("Storage vMotion, on", "move"),
                    off("clone, off", "clone"),
                    on("clone, on", "clone"),
                ]
            },
            pairs: const {
                &[
                    seconds(
                        "Storage vMotion",
                        "Storage vMotion, off",
                        "Storage vMotion, on",
                        Some(1616.0 / 365.0),
                    ),
                    seconds("clone", "clone, off", "clone, on", Some(1550.0 / 359.0)),
                ]
            },
            judge: judge_q2,
            ..blank()
        }
    )
}

fn i3() -> Spec {
    machine_of!(
        "I3",
        "100 GB eager zeroed",
        Spec {
            title: "Full Copy: deploy from a template; adapter bandwidth",
            source: "IBM Storwize V7000, 8 Gb FC",
            scenario: "A template with an eager zeroed disk is deployed to a disk of the same format; the adapter's read and write rates are drawn over time.",
            published: "14 % faster; adapter from about 245 MB/s each way to nothing",
            ways: const { &[off("off", "clone"), on("on", "clone")] },
            pairs: const { &[seconds("deploy", "off", "on", Some(1.0 / 0.86))] },
            judge: |_, variants| vec![wire_below("deploy", 0.01, variants, "off", "on")],
            ..blank()
        }
    )
}

fn i4() -> Spec {
    machine_of!(
        "I4",
        "not told",
        Spec {
            title: "Full Copy: Storage vMotion beside a load on the adapter",
            source: "IBM Storwize V7000",
            scenario: "Storage vMotion, alone and while other virtual machines read 1 MiB at a time, four at once, through the same adapter.",
            published: "13 % faster without load, 44 % faster with load",
            ways: const {
                &[
                    off("alone, off", "move"),
                    on("alone, on", "move"),
                    off("under load, off", "loaded"),
                    on("under load, on", "loaded"),
                ]
            },
            pairs: const {
                &[
                    seconds("alone", "alone, off", "alone, on", Some(1.0 / 0.87)),
                    seconds("under load", "under load, off", "under load, on", Some(1.0 / 0.56)),
                ]
            },
            ..blank()
        }
    )
}

fn m1() -> Spec {
    machine_of!(
        "M1",
        "70 GB + 110 GB eager zeroed, 100 GB of data",
        Spec {
            title: "Full Copy: Storage vMotion by transfer size",
            source: "Nimble CS300, 2 × 10 GbE",
            scenario: "A virtual machine with two disks moves; /DataMover/MaxHWTransferSize is 4 MB, then 16 MB.",
            published: "4 min 22 s faster; no traffic of the host",
            ways: const { &[off("off", "move"), on("on, 4 MB", "move"), on("on, 16 MB", "move 16 MB")] },
            pairs: const {
                &[
                    seconds("4 MB", "off", "on, 4 MB", None),
                    seconds("16 MB", "off", "on, 16 MB", None),
                ]
            },
            judge: |_, variants| {
                vec![wire_below("Storage vMotion", 0.01, variants, "off", "on, 4 MB")]
            },
            ..blank()
        }
    )
}

fn m2() -> Spec {
    machine_of!(
        "M2",
        "70 GB + 110 GB eager zeroed, 100 GB of data",
        Spec {
            title: "Full Copy: clone, and the clone that silently is not offloaded",
            source: "Nimble CS300",
            scenario: "The same virtual machine is cloned powered off; then a Windows guest powered on, with quiescing (disk.EnableUUID), which forbids the offload.",
            published: "5 min 7 s faster; powered on it silently falls back to the host",
            ways: const {
                &[
                    off("powered off, off", "clone"),
                    on("powered off, on", "clone"),
                    on("powered on and quiesced, on", "quiesced"),
                ]
            },
            pairs: const { &[seconds("clone", "powered off, off", "powered off, on", None)] },
            judge: judge_m2,
            ..blank()
        }
    )
}

fn judge_q2(context: &Context, variants: &[Variant]) -> Vec<Target> {
    let (off, on) = ("Storage vMotion, off", "Storage vMotion, on");
    let data = machine("Q2", context.scale).data();
    let clone = median_of(variants, "clone, on", |run| run.seconds);
    let full = clone.map(|seconds| seconds * (77_u64 << 30) as f64 / data as f64);
    let how = if context.scale == Scale::Full { "measured" } else { "projected from this size" };
    vec![
        at_least("Storage vMotion", 20.0, ratio_of(variants, off, on)),
        at_least("clone", 20.0, ratio_of(variants, "clone, off", "clone, on")),
        wire_below("clone", 0.01, variants, "clone, off", "clone, on"),
        target(
            "the published clone of 77 GB, on",
            "< 5 s",
            full.map(|seconds| format!("{seconds:.2} s, {how}")),
            full.map(|seconds| seconds < 5.0),
        ),
    ]
}

fn judge_m2(_: &Context, variants: &[Variant]) -> Vec<Target> {
    let (off, on) = ("powered off, off", "powered off, on");
    let quiesced = variants.iter().find(|variant| variant.name.starts_with("powered on"));
    let reason = quiesced.and_then(|variant| variant.runs.first()).map(|run| {
        let named: Vec<&str> = run.fallbacks.keys().map(String::as_str).collect();
        named.join("; ")
    });
    vec![
        at_least("clone", 20.0, ratio_of(variants, off, on)),
        target(
            "the reason of the fall-back is named",
            "a reason",
            reason.clone(),
            reason.map(|reason| !reason.is_empty()),
        ),
    ]
}

/// Where the machine can be: each place is a LUN and a suffix, so that it also can move within one
/// LUN.
fn place(bench: &Bench, number: usize) -> usize {
    number.min(bench.other())
}

fn path(disk: usize, number: usize) -> String {
    format!("disk{disk}-{number}.vmdk")
}

fn locate(bench: &Bench, stores: &mut [Datastore]) -> Result<usize> {
    let found = (0..2).find(|number| {
        stores[place(bench, *number)].volume.disk_descriptor(&path(0, *number)).is_ok()
    });
    found.context("the virtual machine to copy is on none of the datastores")
}

fn prepare(context: &Context, id: &str) -> Result<()> {
    let bench = &context.bench;
    (0..=bench.other()).try_for_each(|unit| bench.format(unit))?;
    let machine = machine(id, context.scale);
    let mut stores = vec![bench.mount(0, "esx1", &Vaai::On.settings())?];
    for (number, layout) in machine.disks.iter().enumerate() {
        let name = path(number, 0);
        content::create(&mut stores[0], &name, layout, machine.format)?;
        if machine.format == DiskFormat::EagerZeroedThick {
            let file = stores[0].volume.open_disk(&name, vmfs::LockMode::Exclusive)?;
            mover::eager_zero(&mut stores[0], file, &mut |_, _| ControlFlow::Continue(()))?;
        }
    }
    context.unmount(stores)
}

/// One copy of a machine from where it is to the other place.
fn copy(context: &Context, id: &str, way: Way) -> Result<Run> {
    let machine = machine(id, context.scale);
    let bench = context.bench.clone();
    let mut settings = way.vaai.unwrap_or(Vaai::On).settings();
    if way.scenario == "move 16 MB" {
        settings.max_hw_transfer_size = 16_384;
    }
    let mut stores = bench.mount_all(&settings)?;
    let from = locate(&bench, &mut stores)?;
    let space = bench.space(place(&bench, 1 - from));
    let before = left_behind(&mut stores[place(&bench, from)], &machine, from, way)?;
    let mut run = match way.scenario {
        "loaded" => beside_a_load(&bench, || copy_all(&bench, &mut stores, &machine, from, way))?,
        _ => copy_all(&bench, &mut stores, &machine, from, way)?,
    };
    run.space = [space, bench.space(place(&bench, 1 - from))];
    if bench.is_thin(place(&bench, from)) {
        content::unmap(&mut stores[place(&bench, from)], &before)?;
    }
    context.unmount(stores)?;
    verify(context, &machine, 1 - from, is_move(way))?;
    run.verified = Some(true);
    Ok(run)
}

/// Where the blocks lie that a move leaves behind. They are given back to the array when it has
/// been measured: VMFS-5 does not, and round after round would fill the pool.
fn left_behind(
    store: &mut Datastore,
    machine: &Machine,
    from: usize,
    way: Way,
) -> Result<Vec<(Place, u64)>> {
    let mut all = Vec::new();
    for disk in (0..machine.disks.len()).filter(|_| is_move(way)) {
        all.extend(content::places(store, &path(disk, from))?);
    }
    Ok(all)
}

fn is_move(way: Way) -> bool {
    way.scenario.starts_with("move") || way.scenario == "loaded"
}

fn copy_all(
    bench: &Bench,
    stores: &mut [Datastore],
    machine: &Machine,
    from: usize,
    way: Way,
) -> Result<Run> {
    let (reports, mut run) = Meter::measure(stores, |stores| {
        let numbers = 0..machine.disks.len();
        numbers.map(|disk| copy_one(bench, stores, machine, [disk, from], way)).collect()
    })?;
    let reports: Vec<Report> = reports;
    account(&mut run, &reports);
    Ok(run)
}

/// What the data mover says of a run.
fn account(run: &mut Run, reports: &[Report]) {
    for (reason, bytes) in reports.iter().flat_map(|report| &report.fallbacks) {
        *run.fallbacks.entry(reason.clone()).or_default() += bytes;
    }
    let offloaded: u64 = reports.iter().map(|report| report.offloaded_bytes).sum();
    run.figures.insert("offloaded, MiB".to_owned(), (offloaded >> 20) as f64);
}

fn swap_bytes(machine: &Machine) -> u64 {
    (machine.size() / 10).max(1 << 20) >> 20 << 20
}

/// The swap file that a deployed machine has: a tenth of its disks.
fn swap_file(store: &mut Datastore, machine: &Machine) -> Result<()> {
    let size = swap_bytes(machine);
    let file = store.volume.create_disk("swap.vmdk", size, DiskFormat::ZeroedThick)?;
    Ok(store.volume.close(file)?)
}

fn copy_one(
    bench: &Bench,
    stores: &mut [Datastore],
    machine: &Machine,
    [disk, from]: [usize; 2],
    way: Way,
) -> Result<Report> {
    let (source, destination) = (path(disk, from), path(disk, 1 - from));
    let order = Clone {
        source: (place(bench, from), &source),
        destination: (place(bench, 1 - from), &destination),
        format: machine.format,
        machine: match way.scenario {
            "quiesced" => MachineState::Quiesced,
            _ => MachineState::Still,
        },
    };
    let progress = &mut |_, _| ControlFlow::Continue(());
    if is_move(way) {
        mover::storage_vmotion(stores, order, progress, &mut |_| None)
    } else {
        mover::clone(stores, order, progress)
    }
}

/// Reads the copy; removes it if the source is still there, and gives its blocks back.
fn verify(context: &Context, machine: &Machine, to: usize, moved: bool) -> Result<()> {
    let bench = &context.bench;
    let unit = place(bench, to);
    let mut stores = vec![bench.mount(unit, "esx2", &Vaai::On.settings())?];
    for (number, layout) in machine.disks.iter().enumerate() {
        content::check(&mut stores[0], &path(number, to), layout)?;
        if !moved {
            remove(bench, unit, &mut stores[0], &path(number, to))?;
        }
    }
    context.unmount(stores)
}

fn remove(bench: &Bench, unit: usize, store: &mut Datastore, path: &str) -> Result<()> {
    if bench.is_thin(unit) {
        content::remove_and_unmap(store, path)
    } else {
        Ok(store.volume.remove_disk(path)?)
    }
}

/// Work beside others that read through the same adapter.
fn beside_a_load(bench: &Bench, work: impl FnOnce() -> Result<Run>) -> Result<Run> {
    let (stop, read) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        let load = scope.spawn(|| others_read(bench, &stop, &read));
        let worked = work();
        stop.store(true, Ordering::Relaxed);
        load.join().ok().context("the load panicked")??;
        let mut run = worked?;
        let rate = read.load(Ordering::Relaxed) as f64 / run.seconds / 1e6;
        run.figures.insert("load beside it, MB/s".to_owned(), rate);
        Ok(run)
    })
}

fn others_read(bench: &Bench, stop: &AtomicBool, read: &AtomicU64) -> Result<()> {
    const STEP: u64 = 16 << 20;
    let mut lun = bench.lun(0, "others", &Vaai::On.settings())?;
    lun.settings.outstanding = 4;
    let places = lun.identity.size_bytes / STEP;
    let mut number = 0;
    while !stop.load(Ordering::Relaxed) {
        lun.over([number % places * STEP, STEP], 1 << 20, |at, length| crate::esxi::lun::Job {
            tag: 0,
            kind: crate::esxi::counters::Kind::Read,
            cdb: crate::initiator::cdb::read(at / 512, (length / 512) as u32),
            data: crate::initiator::session::Data::In(vec![0; length as usize]),
            bytes: length,
        })?;
        number += 1;
        read.fetch_add(STEP, Ordering::Relaxed);
    }
    Ok(())
}
