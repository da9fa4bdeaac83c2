//! I1, I2: what one host's locking costs another host.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use vmfs::LockMode;
use vmfs::file::File;
use vmfs::vmdk::{DiskDescriptor, DiskFormat};

use super::{By, Pair, Scale, Spec, Way, always, nothing_in_the_way, off, on};
use crate::esxi::counters::Counters;
use crate::esxi::datastore::Datastore;
use crate::esxi::settings::Settings;
use crate::validate::Context;
use crate::validate::bench::Vaai;
use crate::validate::content::{self, Layout};
use crate::validate::judge::{figure, share, target};
use crate::validate::meter::Meter;
use crate::validate::model::{Run, Target, Variant};

const DISK: &str = "vm.vmdk";
const DATA: u64 = 32 << 20;
const MACHINES: u32 = 10;

/// Between two touches: a shell that forks `touch` is not faster.
const TOUCH: Duration = Duration::from_millis(10);

/// Slices of the time in which the second host locks, and as many in which it rests.
const SLICES: u64 = 8;

/// Between two snapshot operations.
const SNAPSHOT: Duration = Duration::from_millis(50);

const WAYS: &[Way] = &[
    Way { name: "no locking load", vaai: Some(Vaai::On), scenario: "alone" },
    off("ATS off", "load"),
    on("ATS on", "load"),
];

/// As published: the other host touches without a pause, and never rests.
const WAYS_WITH_STORM: &[Way] = &[
    WAYS[0],
    WAYS[1],
    WAYS[2],
    off("continuous, ATS off", "continuous"),
    on("continuous, ATS on", "continuous"),
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
        notes: &[(
            "ATS off: locks by RESERVE and RELEASE, so that all other hosts wait. The second host works at the same pace in both modes, and rests every other slice of time: rates of both kinds of slices of one run are compared, so that a drift of the machine meets both alike.",
            always,
        )],
    };
    vec![
        Spec {
            ways: WAYS_WITH_STORM,
            run: |context, way| run(context, way, Load { operation: touch, pace: TOUCH }),
            judge: |context, variants| {
                let mut targets = judge(context, variants);
                targets.push(no_conflicts(
                    variants,
                    "continuous, ATS on",
                    "conflicts with ATS and continuous touches",
                ));
                targets
            },
            ..spec(
                "I1",
                "Atomic Test and Set: a lock storm",
                "Host A reads 4 KB after 4 KB from a disk on the shared datastore; host B touches a file there, 100 times a second; then, as published, without a pause.",
                "off 1345 IOPS, 5.51 MB/s, 32 conflicts/s; on 6759 IOPS, 27.68 MB/s, none",
                const {
                    let paced = Pair {
                        name: "4 KiB reads, touches at a pace",
                        published: None,
                        ..reads(1.0)
                    };
                    let storm = Pair {
                        name: "4 KiB reads, continuous touches",
                        off: "continuous, ATS off",
                        on: "continuous, ATS on",
                        ..reads(6759.0 / 1345.0)
                    };
                    &[paced, storm]
                },
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
#[derive(Default)]
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

/// What the second host is told to do.
struct Orders {
    rest: AtomicBool,
    stop: AtomicBool,
}

fn run(context: &Context, way: Way, load: Load) -> Result<Run> {
    let settings = way.vaai.unwrap_or(Vaai::On).settings();
    let mut stores = vec![context.bench.mount(0, "esx1", &settings)?];
    let (read, locking) = if way.scenario == "alone" {
        (Meter::measure(&mut stores, |stores| alone(&mut stores[0], context.scale))?, None)
    } else {
        let reads: Reads = match way.scenario {
            "continuous" => steadily,
            _ => in_turns,
        };
        let pace = if way.scenario == "continuous" { Duration::ZERO } else { load.pace };
        let load = Load { pace, ..load };
        let (read, locking) = beside(context, &mut stores, (&settings, load, reads))?;
        (read, Some(locking))
    };
    let (rates, mut run) = read;
    run.figures.insert("IOPS".to_owned(), rates.beside);
    run.figures.insert("MB/s".to_owned(), rates.beside * 4096.0 / 1e6);
    if let Some(resting) = rates.resting {
        run.figures.insert("IOPS while the other host rests".to_owned(), resting);
    }
    let locking = locking.unwrap_or_default();
    let conflicts = (run.counters.cons + locking.counters.cons) as f64 / rates.seconds;
    run.figures.insert("conflicts/s".to_owned(), conflicts);
    let rate = locking.operations as f64 / rates.seconds;
    run.figures.insert("locking operations/s".to_owned(), rate);
    run.counters.add(&locking.counters);
    let layout = Layout { size: DATA, data: DATA, seed: 21 };
    content::check(&mut stores[0], DISK, &layout)?;
    run.verified = Some(true);
    context.unmount(stores)?;
    Ok(run)
}

/// Reads per second.
struct Rates {
    /// Beside the other host's locking, and seconds of that.
    beside: f64,
    seconds: f64,
    /// While it rests, if it does.
    resting: Option<f64>,
}

/// How host A reads beside the other one.
type Reads = fn(&mut Datastore, Scale, &Orders) -> Result<Rates>;

/// Host A, with nobody beside it.
fn alone(store: &mut Datastore, scale: Scale) -> Result<Rates> {
    let seconds = scale.window_ms() as f64 / 1e3;
    let file = store.volume.open_disk(DISK, LockMode::ReadOnly)?;
    let operations = read(store, &file, Duration::from_secs_f64(seconds))?;
    store.volume.close(file)?;
    let rate = operations as f64 / seconds;
    Ok(Rates { beside: rate, seconds, resting: Some(rate) })
}

/// Host A, beside host B, which rests every other slice of time.
fn beside(
    context: &Context,
    stores: &mut [Datastore],
    (settings, load, reads): (&Settings, Load, Reads),
) -> Result<((Rates, Run), Locking)> {
    let orders = &Orders { rest: AtomicBool::new(true), stop: AtomicBool::new(false) };
    let (mounted, is_mounted) = mpsc::channel();
    thread::scope(|scope| {
        let second = scope.spawn(move || {
            let mut stores = vec![context.bench.mount(0, "esx2", settings)?];
            // Nobody listens any more when the first host has failed, which it tells itself.
            let _ = mounted.send(());
            let locking = second_host(&mut stores[0], load, orders)?;
            context.unmount(stores)?;
            anyhow::Ok(locking)
        });
        // A mount that failed ends the thread and with it the wait; joining tells why.
        let _ = is_mounted.recv();
        let read = Meter::measure(stores, |stores| reads(&mut stores[0], context.scale, orders));
        orders.stop.store(true, Ordering::Relaxed);
        let locking = second.join().ok().context("the second host panicked")??;
        Ok((read?, locking))
    })
}

/// Reads while the other host locks and while it rests, in turns, so that a drift of the machine
/// meets both alike.
fn in_turns(store: &mut Datastore, scale: Scale, orders: &Orders) -> Result<Rates> {
    let slice = Duration::from_millis(scale.window_ms() / SLICES);
    let file = store.volume.open_disk(DISK, LockMode::ReadOnly)?;
    let mut operations = [0, 0];
    for number in 0..2 * SLICES {
        // Resting, locking, locking, resting.
        let rest = matches!(number % 4, 0 | 3);
        orders.rest.store(rest, Ordering::Relaxed);
        operations[usize::from(rest)] += read(store, &file, slice)?;
    }
    store.volume.close(file)?;
    let seconds = (slice * SLICES as u32).as_secs_f64();
    let rate = |operations: u64| operations as f64 / seconds;
    Ok(Rates { beside: rate(operations[0]), seconds, resting: Some(rate(operations[1])) })
}

/// Reads while the other host locks all the time.
fn steadily(store: &mut Datastore, scale: Scale, orders: &Orders) -> Result<Rates> {
    let seconds = scale.window_ms() as f64 / 1e3;
    let file = store.volume.open_disk(DISK, LockMode::ReadOnly)?;
    orders.rest.store(false, Ordering::Relaxed);
    let operations = read(store, &file, Duration::from_secs_f64(seconds))?;
    store.volume.close(file)?;
    Ok(Rates { beside: operations as f64 / seconds, seconds, resting: None })
}

/// 4 KiB after 4 KiB, one at a time.
fn read(store: &mut Datastore, file: &File, duration: Duration) -> Result<u64> {
    let (started, mut operations) = (Instant::now(), 0);
    let mut buffer = [0; 4096];
    while started.elapsed() < duration {
        let at = operations * 4096 % DATA;
        let read = store.volume.read_at(file, at, &mut buffer)?;
        ensure!(read == buffer.len(), "a short read");
        operations += 1;
    }
    Ok(operations)
}

/// Host B: locks at a pace, rests when told so, until it is told to stop.
fn second_host(store: &mut Datastore, load: Load, orders: &Orders) -> Result<Locking> {
    let before = store.counters();
    let mut operations = 0;
    let mut due = Instant::now();
    while !orders.stop.load(Ordering::Relaxed) {
        if orders.rest.load(Ordering::Relaxed) {
            thread::sleep(Duration::from_millis(1));
            due = Instant::now();
            continue;
        }
        (load.operation)(store, operations)?;
        operations += 1;
        due += load.pace;
        thread::sleep(due.saturating_duration_since(Instant::now()));
    }
    Ok(Locking { operations, counters: store.counters().since(&before) })
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
        raw: false,
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
    let share = share(variants, "ATS on", "IOPS", "IOPS while the other host rests");
    vec![
        target(
            "reads beside locking with ATS",
            "≥ 95 % of those without locking load",
            share.map(|share| format!("{:.1} %", share * 100.0)),
            share.map(|share| share >= 0.95),
        ),
        no_conflicts(variants, "ATS on", "conflicts with ATS"),
    ]
}

fn no_conflicts(variants: &[Variant], name: &str, what: &str) -> Target {
    let conflicts = figure(variants, name, "conflicts/s");
    target(
        what,
        "0/s",
        conflicts.map(|conflicts| format!("{conflicts:.1}/s")),
        conflicts.map(|conflicts| conflicts == 0.0),
    )
}
