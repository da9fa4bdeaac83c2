//! C1: one of an array's controllers is lost while a machine works, and comes back.

use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use vmfs::LockMode;
use vmfs::file::File;
use vmfs::vmdk::DiskFormat;

use super::{Spec, Way, always, on};
use crate::esxi::datastore::Datastore;
use crate::esxi::lun::PathState;
use crate::initiator::ranges::pattern;
use crate::validate::Context;
use crate::validate::bench::{Bench, Vaai, seconds_since};
use crate::validate::content::{self, Layout};
use crate::validate::judge::{figure, target};
use crate::validate::meter::Meter;
use crate::validate::model::{Run, Target, Variant};

/// The machine's disk.
const DISK: &str = "machine.vmdk";
/// A file for which locks are taken.
const TOUCHED: &str = "touched";

const SIZE: u64 = 32 << 20;
const LAYOUT: Layout = Layout { size: SIZE, data: SIZE, seed: 61 };

/// Bytes of one write.
const PIECE: u64 = 64 << 10;
const PIECES: u64 = SIZE / PIECE;

/// A machine whose writes fail so often is not worth waiting for.
const ERRORS_MAX: usize = 20;

/// Seconds that a machine waits at most: well within what guests and clusters bear.
const WAIT_MAX: f64 = 8.0;

const NAME: &str = "controller lost";

pub(super) fn cases() -> Vec<Spec> {
    vec![Spec {
        id: "C1",
        title: "A controller is lost: machines go on through the other one",
        source: "ours; what arrays with two controllers promise",
        scenario: "A datastore is reached through two controllers. A machine writes and reads what it wrote, its host keeps the heartbeat and takes locks (ATS). The controller that serves it is ended, and started again.",
        published: "nothing; ESXi itself gives up after 140 s (APD)",
        sizes: |_| "a disk of 32 MiB, 64 KiB at a time".to_owned(),
        ways: const { &[on(NAME, "")] },
        pairs: &[],
        needs: |_| 256 << 20,
        obstacle,
        prepare: |context| context.bench.format(0),
        run,
        judge,
        notes: &[
            ("The machine has one command outstanding, so that its longest wait is seen.", always),
            ("The controller was not started again: that needs --return-controller.", |context| {
                context.return_controller.is_none()
            }),
        ],
    }]
}

fn obstacle(context: &Context) -> Option<String> {
    if context.lose_controller.is_none() {
        return Some(
            "it needs a command that ends the controller whose portal the variable PORTAL has: \
             --lose-controller COMMAND"
                .to_owned(),
        );
    }
    let is_single = context.bench.paths(0).len() < 2;
    is_single.then(|| "it needs a path through each of two controllers: --url2".to_owned())
}

/// A machine that writes pieces of its disk over and over, each time something else.
struct Machine {
    file: File,
    /// Writes so far.
    number: u64,
    /// The last write of each piece that was answered; `None` if one failed since, so that nobody
    /// knows what is there.
    answered: Vec<Option<u64>>,
    longest: f64,
    wrong: u64,
    errors: Vec<String>,
}

fn contents(write: u64, piece: u64) -> Vec<u8> {
    pattern(LAYOUT.seed.wrapping_add(write), piece * PIECE, PIECE)
}

impl Machine {
    fn start(store: &mut Datastore) -> Result<Self> {
        let file = store.volume.open_disk(DISK, LockMode::Exclusive)?;
        let answered = vec![Some(0); PIECES as usize];
        Ok(Self { file, number: 0, answered, longest: 0.0, wrong: 0, errors: Vec::new() })
    }

    /// Works for so long, and longer while that is not over.
    fn work(
        &mut self,
        store: &mut Datastore,
        least: Duration,
        is_over: impl Fn() -> bool,
    ) -> Result<()> {
        let mut over_since = None;
        while over_since.is_none_or(|since: Instant| since.elapsed() < least) {
            if over_since.is_none() && is_over() {
                over_since = Some(Instant::now());
            }
            self.step(store);
            ensure!(self.errors.len() < ERRORS_MAX, "{}", self.errors.join("; "));
        }
        Ok(())
    }

    /// One write, and what comes with it now and then.
    fn step(&mut self, store: &mut Datastore) {
        self.number += 1;
        let (number, piece) = (self.number, self.number * 7919 % PIECES);
        let began = Instant::now();
        let written =
            store.volume.write_at(&mut self.file, piece * PIECE, &contents(number, piece));
        self.answered[piece as usize] = written.is_ok().then_some(number);
        self.note("write", began, written.map_err(Into::into));
        let began = Instant::now();
        if number.is_multiple_of(4) {
            let read = self.read_back(store, number * 31 % PIECES);
            self.note("read", began, read);
        } else if number.is_multiple_of(7) {
            let touched = store.volume.touch(TOUCHED);
            self.note("lock (ATS)", began, touched.map_err(Into::into));
        }
        let began = Instant::now();
        let beaten = store.volume.pulse_if_due();
        self.note("heartbeat (ATS)", began, beaten.map(drop).map_err(Into::into));
    }

    fn note(&mut self, what: &str, began: Instant, result: Result<()>) {
        self.longest = self.longest.max(seconds_since(began));
        if let Err(error) = result {
            self.errors.push(format!("{what}: {error:#}"));
        }
    }

    fn read_back(&mut self, store: &mut Datastore, piece: u64) -> Result<()> {
        let Some(number) = self.answered[piece as usize].filter(|number| *number > 0) else {
            return Ok(());
        };
        let mut read = vec![0; PIECE as usize];
        store.volume.read_at(&self.file, piece * PIECE, &mut read)?;
        self.wrong += u64::from(read != contents(number, piece));
        Ok(())
    }
}

fn run(context: &Context, _: Way) -> Result<Run> {
    let bench = &context.bench;
    let mut stores = vec![bench.mount(0, "esx1", &Vaai::On.settings())?];
    content::create(&mut stores[0], DISK, &LAYOUT, DiskFormat::EagerZeroedThick)?;
    let touched = stores[0].volume.create(TOUCHED)?;
    stores[0].volume.close(touched)?;
    let mut machine = Machine::start(&mut stores[0])?;
    let ((), mut run) = Meter::measure(&mut stores, |stores| {
        let [store] = stores else { unreachable!("one host has mounted it") };
        lose_and_return(context, store, &mut machine)
    })?;
    let Machine { file, number, answered, longest, wrong, errors } = machine;
    stores[0].volume.close(file)?;
    context.unmount(stores)?;
    let lost = wrong + lost_writes(bench, &answered)?;
    run.figures.insert("writes".to_owned(), number as f64);
    run.figures.insert("longest wait, s".to_owned(), longest);
    run.figures.insert("commands that failed".to_owned(), errors.len() as f64);
    run.figures.insert("lost writes".to_owned(), lost as f64);
    run.fallbacks = errors.into_iter().map(|error| (error, 0)).collect();
    run.verified = Some(lost == 0);
    ensure!(lost == 0, "WRONG CONTENTS: {lost} writes that were acknowledged are lost");
    bench.format(0)?;
    Ok(run)
}

/// The machine works alone, while the controller is ended, and while it is started again.
fn lose_and_return(context: &Context, store: &mut Datastore, machine: &mut Machine) -> Result<()> {
    let window = Duration::from_millis(context.scale.window_ms());
    machine.work(store, window, || true)?;
    let portal = serving_portal(store)?;
    for (option, command) in [
        ("--lose-controller", &context.lose_controller),
        ("--return-controller", &context.return_controller),
    ] {
        let Some(command) = command else { continue };
        let mut shell = Command::new("sh");
        shell.args(["-c", command]).env("PORTAL", &portal);
        let ended = thread::spawn(move || shell.status());
        machine.work(store, window * 2, || ended.is_finished())?;
        let status = ended.join().expect("it does not panic")?;
        ensure!(status.success(), "{option}: the command ended with {status}");
    }
    Ok(())
}

/// HOST:PORT of a path on which the LUN is served.
fn serving_portal(store: &mut Datastore) -> Result<String> {
    let mut paths = store.volume.disk().paths();
    let (url, _) =
        paths.find(|(_, state)| *state == PathState::Active).context("no active path")?;
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let rest = rest.rsplit_once('@').map_or(rest, |(_, rest)| rest);
    Ok(rest.split('/').next().unwrap_or_default().to_owned())
}

/// Acknowledged writes that are not there any more, as another host reads them.
fn lost_writes(bench: &Bench, answered: &[Option<u64>]) -> Result<u64> {
    let mut store = bench.mount(0, "esx2", &Vaai::On.settings())?;
    let file = store.volume.open_disk(DISK, LockMode::ReadOnly)?;
    let mut read = vec![0; PIECE as usize];
    let mut lost = 0;
    for (piece, number) in (0..).zip(answered) {
        let Some(number) = number.filter(|number| *number > 0) else { continue };
        store.volume.read_at(&file, piece * PIECE, &mut read)?;
        lost += u64::from(read != contents(number, piece));
    }
    store.volume.close(file)?;
    store.volume.unmount()?;
    Ok(lost)
}

fn judge(_: &Context, variants: &[Variant]) -> Vec<Target> {
    let none_of = |what: &str, key: &str| {
        let found = figure(variants, NAME, key);
        target(what, "0", found.map(|found| format!("{found}")), found.map(|found| found == 0.0))
    };
    let longest = figure(variants, NAME, "longest wait, s");
    vec![
        none_of("acknowledged writes that are lost", "lost writes"),
        none_of("commands of the machine that failed", "commands that failed"),
        target(
            "the machine's longest wait",
            "less than 8 s",
            longest.map(|longest| format!("{longest:.2} s")),
            longest.map(|longest| longest < WAIT_MAX),
        ),
    ]
}
