//! I1, I2: what one host's locking costs another host.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use vmfs::LockMode;
use vmfs::vmdk::{DiskDescriptor, DiskFormat};

use super::{By, Pair, Scale, Spec, Way, nothing_in_the_way, off, on};
use crate::counters::Counters;
use crate::datastore::Datastore;
use crate::validate::Context;
use crate::validate::bench::{Vaai, seconds_since};
use crate::validate::content::{self, Layout};
use crate::validate::judge::{figure, target};
use crate::validate::meter::Meter;
use crate::validate::model::{Run, Target, Variant};

const DISK: &str = "vm.vmdk";
const DATA: u64 = 32 << 20;
const MACHINES: u32 = 10;

/// Between two touches: a shell that forks `touch` is not faster.
const TOUCH: Duration = Duration::from_millis(10);

/// Between two snapshot operations.
const SNAPSHOT: Duration = Duration::from_millis(50);

const WAYS: &[Way] = &[
    Way { name: "no locking load", vaai: Some(Vaai::On), scenario: "alone" },
    off("ATS off", "load"),
    on("ATS on", "load"),
];

const fn reads(published: f64) -> Pair {
    let published = Some(published);
    Pair { name: "4 KiB reads", off: "ATS off", on: "ATS on", by: By::More("IOPS"), published }
}

pub(super) fn cases() -> Vec<Spec> {
    let spec = |id, title, scenario, published, pairs| Spec {
        id,
        title,
        source: "IBM Storwize V7000",
        scenario,
        published,
        sizes: |scale| format!("{} s of each mode; one datastore", scale.window_ms() as f64 / 1e3),
        ways: WAYS,
        pairs,
        needs: |_| 512 << 20,
        obstacle: nothing_in_the_way,
        prepare,
        run: |_, _| Ok(Run::default()),
        judge,
        notes: &[
            "ATS off: locks by RESERVE and RELEASE, so that all other hosts wait. The second host works at the same pace in both modes.",
        ],
    };
    vec![
        Spec {
            run: |context, way| run(context, way, Load { operation: touch, pace: TOUCH }),
            ..spec(
                "I1",
                "Atomic Test and Set: a lock storm",
                "Host A reads 4 KB after 4 KB from a disk on the shared datastore; host B touches a file there, 100 times a second.",
                "off 1345 IOPS, 5.51 MB/s, 32 conflicts/s; on 6759 IOPS, 27.68 MB/s, none",
                const { &[reads(6759.0 / 1345.0)] },
            )
        },
        Spec {
            run: |context, way| run(context, way, Load { operation: snapshots, pace: SNAPSHOT }),
            ..spec(
                "I2",
                "Atomic Test and Set: a snapshot storm",
                "As I1, but host B creates and removes snapshots of ten virtual machines, 20 operations a second.",
                "off 4380 IOPS, 17 MB/s; on 56 % more IOPS, 64 % more MB/s",
                const { &[reads(1.56)] },
            )
        },
    ]
}

fn prepare(context: &Context) -> Result<()> {
    context.bench.format(0)?;
    let mut stores = vec![context.bench.mount(0, "esx1", &Vaai::On.settings())?];
    let layout = Layout { size: DATA, data: DATA, seed: 21 };
    content::create(&mut stores[0], DISK, &layout, DiskFormat::EagerZeroedThick)?;
    let file = stores[0].volume.create("touched")?;
    stores[0].volume.close(file)?;
    context.unmount(stores)
}

/// What the second host did.
struct Locking {
    operations: u64,
    counters: Counters,
}

/// What the second host keeps doing.
#[derive(Clone, Copy)]
struct Load {
    operation: fn(&mut Datastore, u64) -> Result<()>,
    pace: Duration,
}

fn run(context: &Context, way: Way, load: Load) -> Result<Run> {
    let settings = way.vaai.unwrap_or(Vaai::On).settings();
    let mut stores = vec![context.bench.mount(0, "esx1", &settings)?];
    let stop = AtomicBool::new(way.scenario == "alone");
    let (mut run, locking) = thread::scope(|scope| {
        let other = scope.spawn(|| second_host(context, way, load, &stop));
        let read = Meter::measure(&mut stores, |stores| read(&mut stores[0], context.scale));
        stop.store(true, Ordering::Relaxed);
        let locking = other.join().ok().context("the second host panicked")??;
        let (operations, mut run) = read?;
        run.figures.insert("IOPS".to_owned(), operations as f64 / run.seconds);
        run.figures.insert("MB/s".to_owned(), operations as f64 * 4096.0 / run.seconds / 1e6);
        anyhow::Ok((run, locking))
    })?;
    let conflicts = (run.counters.cons + locking.counters.cons) as f64 / run.seconds;
    run.figures.insert("conflicts/s".to_owned(), conflicts);
    let rate = locking.operations as f64 / run.seconds;
    run.figures.insert("locking operations/s".to_owned(), rate);
    run.counters.add(&locking.counters);
    let layout = Layout { size: DATA, data: DATA, seed: 21 };
    content::check(&mut stores[0], DISK, &layout)?;
    run.verified = Some(true);
    context.unmount(stores)?;
    Ok(run)
}

/// Host A: 4 KiB after 4 KiB, one at a time.
fn read(store: &mut Datastore, scale: Scale) -> Result<u64> {
    let duration = Duration::from_millis(scale.window_ms());
    let file = store.volume.open_disk(DISK, LockMode::ReadOnly)?;
    let (started, mut operations) = (Instant::now(), 0);
    let mut buffer = [0; 4096];
    while started.elapsed() < duration {
        let at = operations * 4096 % DATA;
        let read = store.volume.read_at(&file, at, &mut buffer)?;
        ensure!(read == buffer.len(), "a short read");
        operations += 1;
    }
    store.volume.close(file)?;
    Ok(operations)
}

/// Host B: locks at a pace, until it is told to stop.
fn second_host(context: &Context, way: Way, load: Load, stop: &AtomicBool) -> Result<Locking> {
    if way.scenario == "alone" {
        return Ok(Locking { operations: 0, counters: Counters::default() });
    }
    let settings = way.vaai.unwrap_or(Vaai::On).settings();
    let mut stores = vec![context.bench.mount(0, "esx2", &settings)?];
    let started = Instant::now();
    let mut operations = 0;
    while !stop.load(Ordering::Relaxed) {
        (load.operation)(&mut stores[0], operations)?;
        operations += 1;
        let due = load.pace.as_secs_f64() * operations as f64;
        let early = due - seconds_since(started);
        if early > 0.0 {
            thread::sleep(Duration::from_secs_f64(early));
        }
    }
    let counters = stores[0].volume.disk().counters;
    context.unmount(stores)?;
    Ok(Locking { operations, counters })
}

fn touch(store: &mut Datastore, _: u64) -> Result<()> {
    Ok(store.volume.touch("touched")?)
}

/// Creates a snapshot of one of ten virtual machines, or removes it the next time round.
fn snapshots(store: &mut Datastore, number: u64) -> Result<()> {
    let machine = number % u64::from(MACHINES);
    let (text, delta) = (format!("vm{machine}-000001.vmdk"), format!("vm{machine}-delta.vmdk"));
    if number / u64::from(MACHINES) % 2 == 1 {
        store.volume.remove_path(&delta)?;
        store.volume.remove_path(&text)?;
        return Ok(());
    }
    let descriptor = DiskDescriptor {
        size: 1 << 30,
        extent: delta.clone(),
        thin: true,
        cid: 0xffff_fffe,
        parent: Some((format!("vm{machine}.vmdk"), 0xffff_fffe)),
    };
    for (path, content) in [(&text, descriptor.emit()), (&delta, "COWD".to_owned())] {
        if store.volume.status(path).is_ok() {
            store.volume.remove_path(path)?;
        }
        let mut file = store.volume.create(path)?;
        let written = store.volume.write_at(&mut file, 0, content.as_bytes());
        store.volume.close(file)?;
        written?;
    }
    Ok(())
}

fn judge(_: &Context, variants: &[Variant]) -> Vec<Target> {
    let alone = figure(variants, "no locking load", "IOPS");
    let share = figure(variants, "ATS on", "IOPS").zip(alone).map(|(on, alone)| on / alone);
    let conflicts = figure(variants, "ATS on", "conflicts/s");
    vec![
        target(
            "reads beside locking with ATS",
            "≥ 95 % of those without locking load",
            share.map(|share| format!("{:.1} %", share * 100.0)),
            share.map(|share| share >= 0.95),
        ),
        target(
            "conflicts with ATS",
            "0/s",
            conflicts.map(|conflicts| format!("{conflicts:.1}/s")),
            conflicts.map(|conflicts| conflicts == 0.0),
        ),
    ]
}
