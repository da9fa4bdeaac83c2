//! Q4: a thin pool fills up. Only machines that need new blocks pause, and they go on when there is
//! space.

use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use vmfs::file::File;
use vmfs::vmdk::DiskFormat;
use vmfs::{DiskError, Error, LockMode};

use super::{Spec, Way, on};
use crate::esxi::counters::Kind;
use crate::esxi::datastore::Datastore;
use crate::initiator::cdb;
use crate::initiator::ranges::pattern;
use crate::initiator::session::{Data, SessionError};
use crate::validate::Context;
use crate::validate::NotHere;
use crate::validate::bench::{Bench, Vaai, seconds_since};
use crate::validate::content::{self, Layout};
use crate::validate::judge::{figure, target};
use crate::validate::meter::Meter;
use crate::validate::model::{Run, Target, Variant};

/// The disk of the machine that does not grow.
const STEADY: &str = "steady.vmdk";
/// The disk of the machine that needs new blocks.
const GROWING: &str = "growing.vmdk";
/// The disk that fills the pool, many megabytes at a time.
const FILLER: &str = "filler.vmdk";
/// A disk that is deleted to make space, when the pool cannot be grown.
const BALLAST: &str = "ballast.vmdk";

/// A disk that is deleted while the pool is full.
const DOOMED: &str = "doomed.vmdk";
/// A file that is made while the pool is full.
const NEW: &str = "new";

const STEADY_LAYOUT: Layout = Layout { size: 16 << 20, data: 16 << 20, seed: 31 };
const BALLAST_LAYOUT: Layout = Layout { size: 64 << 20, data: 64 << 20, seed: 32 };
const DOOMED_LAYOUT: Layout = Layout { size: 32 << 20, data: 4 << 20, seed: 35 };
const SEED: u64 = 33;

/// What is written in search of the pool's end.
const SEARCH_MAX: u64 = 16 << 30;

/// Bytes that fill the pool at once.
const STEP: u64 = 64 << 20;

/// Bytes of the disk of the machine that needs new blocks.
const GROWING_SIZE: u64 = 512 << 20;

/// How long a paused machine waits for space.
const PATIENCE: Duration = Duration::from_secs(60);

/// Writes after it goes on.
const AFTER: u64 = 16;

const MIB: u64 = 1 << 20;

pub(super) fn cases() -> Vec<Spec> {
    vec![Spec {
        id: "Q4",
        title: "Out of space: only who needs new blocks pauses",
        source: "QSAN XS5216D, 2021",
        scenario: "A thin pool fills. The machine that needs new blocks pauses; others go on reading and overwriting, ATS and UNMAP work, files are made and deleted by two hosts. Space is added, and the paused machine goes on.",
        published: "only machines that need new blocks pause; after another RAID set is added they resume",
        sizes: |_| "until the pool of the LUN given by --small is full".to_owned(),
        ways: const { &[on("the pool fills", "")] },
        pairs: &[],
        needs: |_| 0,
        obstacle: |context| {
            context.small.is_none().then(|| {
                "it needs a thin LUN that is larger than the free space of its pool: --small URL".to_owned()
            })
        },
        prepare: |context| small(context)?.format(0),
        run,
        judge,
        notes: &[
            (
                "Without --grow COMMAND, space was made by deleting another disk and unmapping its blocks, which also shows that UNMAP works while the pool is full.",
                |context| context.grow.is_none(),
            ),
            ("Space was added by the command of --grow.", |context| context.grow.is_some()),
        ],
    }]
}

fn small(context: &Context) -> Result<&Bench> {
    context.small.as_ref().context("no small LUN was given")
}

fn run(context: &Context, _: Way) -> Result<Run> {
    let bench = small(context)?;
    let before = bench.space(0);
    let mut stores = Vec::new();
    for host in ["esx1", "esx2"] {
        stores.push(bench.mount(0, host, &Vaai::On.settings())?);
    }
    content::create(&mut stores[0], DOOMED, &DOOMED_LAYOUT, DiskFormat::Thin)?;
    content::create(&mut stores[0], STEADY, &STEADY_LAYOUT, DiskFormat::EagerZeroedThick)?;
    content::create(&mut stores[0], BALLAST, &BALLAST_LAYOUT, DiskFormat::Thin)?;
    let file = stores[0].volume.create("touched")?;
    stores[0].volume.close(file)?;
    let mut file = stores[0].volume.create_disk(GROWING, GROWING_SIZE, DiskFormat::Thin)?;
    let ((filled, written, waited, troubles), mut run) = Meter::measure(&mut stores, |stores| {
        let [store, other] = stores else { unreachable!("two hosts have mounted it") };
        let filled = fill(store)?;
        let written = write_until_full(store, &mut file)?;
        let mut troubles = others_go_on(store, &mut file, written)?;
        troubles.extend(files_come_and_go(store, other));
        make_space(context, store)?;
        let waited = resume(store, &mut file, written)?;
        Ok((filled, written, waited, troubles))
    })?;
    stores[0].volume.close(file)?;
    context.unmount(stores)?;
    run.space = [before, bench.space(0)];
    let lost = lost_writes(bench, &filled, written + AFTER)?;
    let until_full = (filled.size >> 20) + written;
    run.figures.insert("MiB until it was full".to_owned(), until_full as f64);
    run.figures.insert("errors of others while full".to_owned(), troubles.len() as f64);
    run.figures.insert("resumed after, s".to_owned(), waited);
    run.figures.insert("lost writes".to_owned(), lost as f64);
    run.fallbacks = troubles.into_iter().map(|trouble| (trouble, 0)).collect();
    run.verified = Some(lost == 0);
    ensure!(lost == 0, "WRONG CONTENTS: {lost} writes that were acknowledged are lost");
    bench.format(0)?;
    Ok(run)
}

fn write(store: &mut Datastore, file: &mut File, number: u64) -> vmfs::Result<()> {
    store.volume.write_at(file, number * MIB, &pattern(SEED, number * MIB, MIB))
}

/// Whether the array has no space for a write.
fn is_full(error: &anyhow::Error) -> bool {
    let by_disk = error.downcast_ref::<Error>();
    let by_lun = error.downcast_ref::<SessionError>();
    matches!(by_disk, Some(Error::Disk(DiskError::OutOfSpace)))
        || matches!(by_lun, Some(SessionError::Command { key: 7, ascq: 0x2707, .. }))
}

/// Fills the pool; returns the disk as far as it was acknowledged.
fn fill(store: &mut Datastore) -> Result<Layout> {
    let free = store.volume.space()?.free_bytes;
    let size = (free - GROWING_SIZE.min(free)).min(SEARCH_MAX) / STEP * STEP;
    let whole = Layout { size, data: size, seed: 34 };
    let mut file = store.volume.create_disk(FILLER, size, DiskFormat::Thin)?;
    let mut end = Err(NotHere(format!(
        "{} MiB were written and the pool is not full: give a LUN of a smaller pool by --small",
        size >> 20
    ))
    .into());
    for at in (0..size).step_by(STEP as usize) {
        match content::write(store, &mut file, &whole, [at, STEP]) {
            Err(error) if is_full(&error) => {
                end = Ok(Layout { size: at, data: at, ..whole });
                break;
            }
            other => other?,
        }
        store.volume.pulse_if_due()?;
    }
    store.volume.close(file)?;
    end
}

/// The machine that needs new blocks writes until it has to pause; returns how many megabytes were
/// acknowledged.
fn write_until_full(store: &mut Datastore, file: &mut File) -> Result<u64> {
    for number in 0..GROWING_SIZE / MIB - AFTER {
        match write(store, file, number) {
            Err(Error::Disk(DiskError::OutOfSpace)) => return Ok(number),
            other => other?,
        }
    }
    Err(NotHere("the pool was full, and has space again".to_owned()).into())
}

/// What the other machines do while the pool is full; returns what failed.
fn others_go_on(store: &mut Datastore, growing: &mut File, written: u64) -> Result<Vec<String>> {
    let mut troubles = Vec::new();
    let mut note = |what: &str, result: Result<()>| {
        if let Err(error) = result {
            troubles.push(format!("{what}: {error:#}"));
        }
    };
    note("read and overwrite", overwrite(store));
    note("ATS (touch)", store.volume.touch("touched").map_err(Into::into));
    note("ATS (heartbeat)", store.volume.pulse().map_err(Into::into));
    let none = Data::Out(vec![0, 6, 0, 0, 0, 0, 0, 0]);
    let unmapped = store.volume.disk().command(Kind::Delete, cdb::unmap(8), none, 0);
    note("UNMAP", unmapped.map(|_| ()).map_err(Into::into));
    match write(store, growing, written) {
        Err(Error::Disk(DiskError::OutOfSpace)) => {}
        Ok(()) => note("pause", Err(anyhow::anyhow!("a write in need of space passed while full"))),
        Err(error) => note("pause", Err(error.into())),
    }
    Ok(troubles)
}

/// What changes the metadata of the file system, from both hosts; returns what failed.
fn files_come_and_go(store: &mut Datastore, other: &mut Datastore) -> Vec<String> {
    let results: [(&str, Result<()>); 5] = [
        ("another host's ATS (heartbeat)", other.volume.pulse().map_err(Into::into)),
        ("create a file", create_file(other)),
        ("delete a disk", store.volume.remove_disk(DOOMED).map_err(Into::into)),
        ("lock a disk from another host", lock_disk(other)),
        ("delete a file", other.volume.remove_path(NEW).map_err(Into::into)),
    ];
    let troubles = results.into_iter();
    troubles.filter_map(|(what, result)| Some(format!("{what}: {:#}", result.err()?))).collect()
}

fn create_file(store: &mut Datastore) -> Result<()> {
    let file = store.volume.create(NEW)?;
    Ok(store.volume.close(file)?)
}

fn lock_disk(store: &mut Datastore) -> Result<()> {
    let file = store.volume.open_disk(STEADY, LockMode::Exclusive)?;
    Ok(store.volume.close(file)?)
}

fn overwrite(store: &mut Datastore) -> Result<()> {
    content::check(store, STEADY, &STEADY_LAYOUT)?;
    let mut file = store.volume.open_disk(STEADY, LockMode::Exclusive)?;
    let written = content::write(store, &mut file, &STEADY_LAYOUT, [0, STEADY_LAYOUT.size]);
    store.volume.close(file)?;
    written
}

fn make_space(context: &Context, store: &mut Datastore) -> Result<()> {
    match &context.grow {
        None => content::remove_and_unmap(store, BALLAST),
        Some(command) => {
            let status = Command::new("sh").args(["-c", command]).status()?;
            ensure!(status.success(), "--grow: the command ended with {status}");
            Ok(())
        }
    }
}

/// The paused machine tries again until it can go on, and then writes some more.
fn resume(store: &mut Datastore, file: &mut File, written: u64) -> Result<f64> {
    let started = Instant::now();
    let mut waited = None;
    for number in written..written + AFTER {
        while let Err(error) = write(store, file, number) {
            let full = matches!(error, Error::Disk(DiskError::OutOfSpace));
            if !full || started.elapsed() > PATIENCE {
                return Err(error.into());
            }
            thread::sleep(Duration::from_millis(100));
            store.volume.pulse_if_due()?;
        }
        waited = waited.or(Some(seconds_since(started)));
    }
    Ok(waited.unwrap_or(0.0))
}

/// Acknowledged writes that are not there any more.
fn lost_writes(bench: &Bench, filled: &Layout, written: u64) -> Result<u64> {
    let mut stores = vec![bench.mount(0, "esx2", &Vaai::On.settings())?];
    content::check(&mut stores[0], STEADY, &STEADY_LAYOUT)?;
    let file = stores[0].volume.open_disk(GROWING, LockMode::ReadOnly)?;
    let mut read = vec![0xee; MIB as usize];
    let mut lost = 0;
    for number in 0..written {
        stores[0].volume.read_at(&file, number * MIB, &mut read)?;
        lost += u64::from(read != pattern(SEED, number * MIB, MIB));
    }
    stores[0].volume.close(file)?;
    let file = stores[0].volume.open_disk(FILLER, LockMode::ReadOnly)?;
    for at in (0..filled.size).step_by(MIB as usize) {
        stores[0].volume.read_at(&file, at, &mut read)?;
        lost += u64::from(read != pattern(filled.seed, at, MIB));
    }
    stores[0].volume.close(file)?;
    for store in stores {
        store.volume.unmount()?;
    }
    Ok(lost)
}

fn judge(_: &Context, variants: &[Variant]) -> Vec<Target> {
    let name = "the pool fills";
    let lost = figure(variants, name, "lost writes");
    let errors = figure(variants, name, "errors of others while full");
    vec![
        target(
            "acknowledged writes that are lost",
            "0",
            lost.map(|lost| format!("{lost}")),
            lost.map(|lost| lost == 0.0),
        ),
        target(
            "errors on reads, overwrites, ATS, UNMAP while full",
            "0",
            errors.map(|errors| format!("{errors}")),
            errors.map(|errors| errors == 0.0),
        ),
    ]
}
