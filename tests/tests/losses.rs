//! Loss rounds: one device of a mirror is lost at a random moment, in eight ways, under a load of all
//! offloads whose answers are checked, with snapshots, also in a pool that is full. The device comes
//! back, or another one in its place, before the next round.
//!
//! `cargo xtask soak --mirrors --rounds N` runs it for long, and shows a line for each round.

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use harness::faulty_folder::{EIO, FaultyFolder};
use harness::history::Values;
use harness::history::client::{Arena, Counts};
use harness::history::load::Load;
use harness::members::{healed, scrub_until_clean, state_of};
use harness::pdu::{RawSession, cdb16_of_bytes};
use harness::random::Random;
use harness::waiting::wait_until;
use harness::{Array, number, setting, text};

const MIB: u64 = 1 << 20;

/// The limit after which a device that does not answer is left out.
const HANG_LIMIT: Duration = Duration::from_secs(3);

/// How long a command may take in any round: what hangs, hangs longer in the long run.
const STALL_MAX: Duration = Duration::from_secs(25);

/// Blocks of 512 bytes of each of the two LUNs of the load.
const BLOCKS: u64 = 1024;

const OUT_OF_SPACE: Option<(u8, u8, u8)> = Some((7, 0x27, 7));

/// In what way a device is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Loss {
    /// It answers EIO, and then answers again.
    Error,
    /// It answers EIO and its file is not there; then it is there again.
    Pulled,
    /// It answers EIO and its file is gone; a new one takes its place.
    Replaced,
    /// Its file is cut to nothing; a new one takes its place.
    Cut,
    /// It does not answer, and then answers late.
    Hang,
    /// It says that it wrote and did not; then a scrub.
    Lie,
    /// It says that it wrote and did not, the daemon is killed and started again; then a scrub.
    LieAndKill,
    /// The daemon is killed, and its file is not there when it starts; then it is there again.
    Kill,
}

/// All of them; in a hundred rounds, so many are of each kind.
const LOSSES: [(Loss, u64); 8] = [
    (Loss::Error, 22),
    (Loss::Pulled, 16),
    (Loss::Replaced, 12),
    (Loss::Cut, 6),
    (Loss::Hang, 12),
    (Loss::Lie, 16),
    (Loss::LieAndKill, 8),
    (Loss::Kill, 8),
];

/// The kinds of so many rounds, in a random order: each kind, then by its share.
fn plan(rounds: u64, random: &mut Random) -> Vec<Loss> {
    let mut shares: Vec<Loss> =
        LOSSES.iter().flat_map(|&(loss, share)| vec![loss; share as usize]).collect();
    random.shuffle(&mut shares);
    let mut kinds: Vec<Loss> = LOSSES.map(|(loss, _)| loss).to_vec();
    random.shuffle(&mut kinds);
    kinds.into_iter().chain(shares.into_iter().cycle()).take(rounds as usize).collect()
}

/// A device of the mirror, on a file system that can fail.
struct Side {
    folder: FaultyFolder,
    file: String,
}

impl Side {
    fn device(&self) -> String {
        format!("file:{}", self.folder.file(&self.file).display())
    }

    fn fail(&self, error: i32) {
        self.folder.fail_writes(error);
        self.folder.fail_reads(error);
        self.folder.fail_fsync(error);
    }
}

/// A snapshot that a host read when it was new.
struct Kept {
    path: String,
    lun: u8,
    content: Vec<u8>,
}

/// What came of a round.
struct Outcome {
    loss: Loss,
    stall: Duration,
    healed: u64,
    back: Duration,
}

struct Bench {
    array: Array,
    sides: [Side; 2],
    arena: Arena,
    load: Option<Load>,
    /// What is there while no load runs.
    values: Values,
    counts: Vec<Counts>,
    operations: u64,
    runs: u64,
    random: Random,
    /// The volume that fills the pool, and where a host finds it.
    filler: Option<u8>,
    files: u64,
    kept: Vec<Kept>,
    /// Snapshots for which a full pool had no room.
    without_room: u64,
}

impl Bench {
    /// A mirror of two with two LUNs for the load, thick ones if the pool is to be full.
    fn start(thick: bool, seed: u64) -> Result<Self> {
        let mut array =
            Array::prepare()?.with_words(&[], &["--hang-limit", &HANG_LIMIT.as_secs().to_string()]);
        array.restart()?;
        let side = |name: &str| -> Result<Side> {
            let folder = FaultyFolder::mount_with_size(3 << 30)?;
            Ok(Side { folder, file: name.to_owned() })
        };
        let sides = [side("a0.img")?, side("b0.img")?];
        let [a, b] = [sides[0].device(), sides[1].device()];
        array.gantry(&["pool", "create", "p", "--mirror", "2", &a, &b, "--size", "1G"])?;
        let mut luns = Vec::new();
        for path in ["p/a", "p/b"] {
            let create = ["volume", "create", path, "--size", "16M"];
            let thickness: &[&str] = if thick { &["--thick"] } else { &[] };
            array.gantry(&[&create[..], thickness].concat())?;
            luns.push(map(&array, path)?);
        }
        let arena = Arena::of(vec![array.portal()], array.target_name()?, &luns, BLOCKS)?;
        Ok(Self {
            array,
            sides,
            arena,
            load: None,
            values: Values::new(),
            counts: Vec::new(),
            operations: 0,
            runs: seed << 8,
            random: Random::new(seed),
            filler: None,
            files: 0,
            kept: Vec::new(),
            without_room: 0,
        })
    }

    /// Fills the pool through a thin volume, of which there are snapshots from before, until not even
    /// one block is taken any more; the volumes of the load have theirs, too.
    fn fill(&mut self) -> Result<()> {
        let lun = u8::try_from(self.array.create_lun("p/thin", "2G")?)?;
        let mut session = log_in(&self.array)?;
        let data = self.random.bytes(MIB as usize);
        for megabyte in 0..8 {
            write(&mut session, lun, megabyte * MIB, &data)?;
        }
        self.array.gantry(&["snapshot", "create", "--group", "before", "p/a", "p/b", "p/thin"])?;
        let mut at = 8 * MIB;
        for bytes in [MIB, 64 << 10, 4 << 10] {
            while write(&mut session, lun, at, &data[..bytes as usize])? {
                at += bytes;
            }
        }
        self.filler = Some(lun);
        self.arena.full = true;
        Ok(())
    }

    fn start_load(&mut self) {
        self.runs += 1;
        self.load = Some(Load::start(&self.arena, self.runs, std::mem::take(&mut self.values)));
    }

    fn stop_load(&mut self) -> Result<()> {
        let report = self.load.take().context("a load")?.stop()?;
        self.values = report.after;
        self.counts.push(report.counts);
        self.operations += report.operations;
        Ok(())
    }

    fn is_sound(&self) -> Result<()> {
        self.load.as_ref().context("a load")?.is_sound(&self.arena)
    }

    /// Waits until all that was read in a whole round of the load is checked.
    fn wait_until_checked(&self) -> Result<()> {
        self.load.as_ref().context("a load")?.wait_until_checked(&self.arena)
    }

    fn pause(&mut self, least_ms: u64, most_ms: u64) {
        thread::sleep(Duration::from_millis(least_ms + self.random.below(most_ms - least_ms)));
    }

    fn wait_for(&self, side: usize, state: &str) -> Result<()> {
        let file = &self.sides[side].file;
        let reached = wait_until(&format!("{file} is {state}"), || {
            if let Some(load) = &self.load {
                ensure!(!load.has_ended(), "the load ended");
            }
            Ok(state_of(&self.array, "p", file)?.as_deref() == Some(state))
        });
        reached.with_context(|| self.what_is_known())
    }

    /// What the array says of the pool, and its log.
    fn what_is_known(&self) -> String {
        let pool = self.array.gantry_json(&["pool", "show", "p"]);
        let tasks = self.array.gantry_json(&["task", "list"]);
        format!("{pool:#?}\n{tasks:#?}\n{}", self.array.log())
    }

    /// Lets the array look for a lost device now, and waits until it holds everything.
    fn wait_for_return(&self, side: usize) -> Result<Duration> {
        let (begun, device) = (Instant::now(), self.sides[side].device());
        let returned = wait_until(&format!("{device} comes back"), || {
            if state_of(&self.array, "p", &device)?.as_deref() == Some("absent") {
                // It may be on its way by itself: then this is refused.
                self.array.try_gantry(&["pool", "return", "p", &device])?;
            }
            Ok(state_of(&self.array, "p", &device)?.as_deref() == Some("current"))
        });
        returned.with_context(|| self.what_is_known())?;
        Ok(begun.elapsed())
    }

    /// A new file takes the place of a member's.
    fn replace(&mut self, side: usize) -> Result<Duration> {
        let begun = Instant::now();
        let old = self.sides[side].device();
        self.files += 1;
        let (letter, files) = (["a", "b"][side], self.files);
        self.sides[side].file = format!("{letter}{files}.img");
        self.array.gantry(&["pool", "replace", "p", &old, &self.sides[side].device()])?;
        self.wait_for(side, "current")?;
        let gone = || Ok(state_of(&self.array, "p", &old)?.is_none());
        wait_until(&format!("{old} leaves"), gone)?;
        Ok(begun.elapsed())
    }

    fn round(&mut self, loss: Loss, side: usize, hang: Duration) -> Result<Outcome> {
        self.arena.watch.take_longest();
        let before = healed(&self.array, "p")?;
        self.snapshot()?;
        self.pause(100, 1_500);
        let back = match loss {
            Loss::Error => self.error(side)?,
            Loss::Pulled => self.pulled(side)?,
            Loss::Replaced => self.replaced(side)?,
            Loss::Cut => self.cut(side)?,
            Loss::Hang => self.hang(side, hang)?,
            Loss::Lie => self.lie(side)?,
            Loss::LieAndKill => self.lie_and_kill(side)?,
            Loss::Kill => self.kill(side)?,
        };
        self.wait_until_checked()?;
        self.verify_snapshots()?;
        self.try_to_write_more()?;
        let healed = healed(&self.array, "p")?.saturating_sub(before);
        let stall = self.arena.watch.take_longest();
        ensure!(stall < STALL_MAX, "a command took {stall:?}");
        let state = text(&self.array.gantry_json(&["pool", "show", "p"])?, "/state")?.to_owned();
        ensure!(state == "ready", "the pool is {state}");
        Ok(Outcome { loss, stall, healed, back })
    }

    /// What goes on while a device is not there.
    fn while_away(&mut self) -> Result<()> {
        self.snapshot()?;
        self.try_to_write_more()?;
        self.pause(100, 1_000);
        Ok(())
    }

    fn error(&mut self, side: usize) -> Result<Duration> {
        self.sides[side].fail(EIO);
        self.wait_for(side, "absent")?;
        self.while_away()?;
        self.sides[side].fail(0);
        self.wait_for_return(side)
    }

    fn pulled(&mut self, side: usize) -> Result<Duration> {
        let file = self.sides[side].folder.file(&self.sides[side].file);
        let away = file.with_extension("away");
        self.sides[side].fail(EIO);
        std::fs::rename(&file, &away)?;
        self.wait_for(side, "absent")?;
        self.sides[side].fail(0);
        self.while_away()?;
        std::fs::rename(&away, &file)?;
        self.wait_for_return(side)
    }

    fn replaced(&mut self, side: usize) -> Result<Duration> {
        let file = self.sides[side].folder.file(&self.sides[side].file);
        self.sides[side].fail(EIO);
        std::fs::remove_file(&file)?;
        self.wait_for(side, "absent")?;
        self.while_away()?;
        self.sides[side].fail(0);
        self.replace(side)
    }

    fn cut(&mut self, side: usize) -> Result<Duration> {
        let path = self.sides[side].folder.file(&self.sides[side].file);
        std::fs::OpenOptions::new().write(true).open(&path)?.set_len(0)?;
        self.pause(1_000, 2_000);
        let took = self.replace(side)?;
        std::fs::remove_file(&path)?;
        Ok(took)
    }

    fn hang(&mut self, side: usize, hang: Duration) -> Result<Duration> {
        let begun = Instant::now();
        let stall = self.sides[side].folder.stall();
        self.wait_for(side, "absent")?;
        self.while_away()?;
        while begun.elapsed() < hang {
            self.is_sound()?;
            thread::sleep(Duration::from_millis(100));
        }
        drop(stall);
        self.wait_for_return(side)
    }

    fn lie(&mut self, side: usize) -> Result<Duration> {
        self.sides[side].folder.lose_writes(true);
        self.pause(500, 2_500);
        self.sides[side].folder.lose_writes(false);
        self.mend_after_a_lie(side)
    }

    fn mend_after_a_lie(&mut self, side: usize) -> Result<Duration> {
        self.wait_for_return(side)?;
        let begun = Instant::now();
        scrub_until_clean(&self.array, "p", 4)?;
        Ok(begun.elapsed())
    }

    fn lie_and_kill(&mut self, side: usize) -> Result<Duration> {
        self.sides[side].folder.lose_writes(true);
        self.pause(500, 2_500);
        self.stop_load()?;
        self.array.kill()?;
        self.sides[side].folder.lose_writes(false);
        self.array.restart()?;
        self.start_load();
        self.mend_after_a_lie(side)
    }

    fn kill(&mut self, side: usize) -> Result<Duration> {
        let file = self.sides[side].folder.file(&self.sides[side].file);
        let away = file.with_extension("away");
        self.stop_load()?;
        self.array.kill()?;
        std::fs::rename(&file, &away)?;
        self.array.restart()?;
        self.wait_for(side, "absent")?;
        self.start_load();
        self.wait_until_checked()?;
        std::fs::rename(&away, &file)?;
        self.wait_for_return(side)
    }

    /// Takes a snapshot and reads it. A full pool may have no room for one.
    fn snapshot(&mut self) -> Result<()> {
        let volume = if self.filler.is_some() { "p/thin" } else { "p/a" };
        self.files += 1;
        let name = format!("s{}", self.files);
        let created = self.array.try_gantry(&["snapshot", "create", volume, &name])?;
        if self.filler.is_some() && created.stderr.contains("space") {
            self.without_room += 1;
            return Ok(());
        }
        created.success()?;
        let path = format!("p/{name}");
        let lun = map(&self.array, &path)?;
        let content = read(&self.array, lun)?;
        self.kept.push(Kept { path, lun, content });
        Ok(())
    }

    /// What hosts read of the snapshots of this round is what they read when these were new.
    fn verify_snapshots(&mut self) -> Result<()> {
        for kept in std::mem::take(&mut self.kept) {
            let Kept { path, lun, content } = kept;
            ensure!(read(&self.array, lun)? == content, "{path} has changed");
            self.array.gantry(&["volume", "unmap", &path, "--host", "any"])?;
            self.array.gantry(&["snapshot", "delete", &path])?;
        }
        Ok(())
    }

    /// A host that wants more of a full pool is told so, whatever else is going on.
    fn try_to_write_more(&mut self) -> Result<()> {
        let Some(lun) = self.filler else { return Ok(()) };
        let data = self.random.bytes(64 << 10);
        let at = (1 << 30) + self.random.below(1 << 14) * (64 << 10);
        write(&mut log_in(&self.array)?, lun, at, &data).map(drop)
    }

    fn rounds(&mut self, rounds: u64, hang: Duration) -> Result<Vec<Outcome>> {
        let mut outcomes = Vec::new();
        let plan = plan(rounds, &mut self.random);
        self.start_load();
        for (number, loss) in plan.into_iter().enumerate() {
            let side = self.random.below(2) as usize;
            let outcome = self.round(loss, side, hang);
            let outcome = outcome.with_context(|| {
                format!("round {number}, {loss:?} of {}\n{}", ["a", "b"][side], self.array.log())
            });
            let outcome = match (outcome, &self.load) {
                (Err(error), Some(load)) if load.has_ended() => {
                    let host = self.stop_load().err();
                    bail!("{error:#}\n{host:?}")
                }
                (outcome, _) => outcome?,
            };
            println!(
                "round {number}: {loss:?} of {}: longest answer {:.2?}, {} blocks healed, whole after {:.1?}",
                ["a", "b"][side],
                outcome.stall,
                outcome.healed,
                outcome.back
            );
            outcomes.push(outcome);
        }
        self.stop_load()?;
        Ok(outcomes)
    }

    /// Each copy serves alone, and has everything.
    fn each_copy_serves_alone(&mut self) -> Result<()> {
        for side in 0..2 {
            self.start_load();
            self.kill(side)?;
            self.wait_until_checked()?;
            self.stop_load()?;
        }
        Ok(())
    }

    fn report(&self, outcomes: &[Outcome]) {
        let mut by_loss = BTreeMap::<Loss, Vec<&Outcome>>::new();
        for outcome in outcomes {
            by_loss.entry(outcome.loss).or_default().push(outcome);
        }
        for (loss, outcomes) in by_loss {
            let stall = outcomes.iter().map(|outcome| outcome.stall).max().unwrap_or_default();
            let back = outcomes.iter().map(|outcome| outcome.back).max().unwrap_or_default();
            let healed: u64 = outcomes.iter().map(|outcome| outcome.healed).sum();
            println!(
                "{loss:?}: {} rounds, longest answer {stall:.2?}, {healed} blocks healed, whole after {back:.1?} at most",
                outcomes.len()
            );
        }
        let sum = |count: fn(&Counts) -> u64| self.counts.iter().map(count).sum::<u64>();
        println!(
            "{} operations checked; {} commands answered, {} of them BUSY or TASK SET FULL, {} aborted, {} copies and {} snapshots without room",
            self.operations,
            sum(|counts| counts.answered),
            sum(|counts| counts.refused),
            sum(|counts| counts.aborted),
            sum(|counts| counts.without_space),
            self.without_room
        );
    }
}

fn map(array: &Array, path: &str) -> Result<u8> {
    let map = array.gantry_json(&["volume", "map", path, "--host", "any"])?;
    Ok(u8::try_from(number(&map, "/lun")?)?)
}

fn log_in(array: &Array) -> Result<RawSession> {
    RawSession::log_in(array.portal(), "iqn.2026-01.org.example:looks", &array.target_name()?)
}

/// The blocks of the load, or as many of another volume.
fn read(array: &Array, lun: u8) -> Result<Vec<u8>> {
    let mut session = log_in(array)?;
    let mut content = Vec::new();
    for at in (0..BLOCKS * 512).step_by(1 << 16) {
        content.extend(session.read(lun, &cdb16_of_bytes(0x88, 0, at, 1 << 16), 1 << 16)?.good()?);
    }
    Ok(content)
}

/// False if the pool has no space for it.
fn write(session: &mut RawSession, lun: u8, at: u64, data: &[u8]) -> Result<bool> {
    let answer = session.write(lun, &cdb16_of_bytes(0x8a, 0, at, data.len() as u64), data)?;
    if answer.code() == OUT_OF_SPACE {
        return Ok(false);
    }
    answer.good()?;
    Ok(true)
}

/// So many rounds of each test, and how long a device hangs.
fn scale(otherwise: u64) -> Result<(u64, u64, Duration)> {
    let rounds = setting("GANTRY_LOSS_ROUNDS", 2 * otherwise)? / 2;
    let hang = Duration::from_secs(setting("GANTRY_LOSS_HANG_SECONDS", 5)?);
    Ok((rounds, setting("GANTRY_LOSS_SEED", 1)?, hang))
}

#[test]
fn a_device_that_is_lost_at_any_moment_costs_hosts_no_error() -> Result<()> {
    let (rounds, seed, hang) = scale(8)?;
    let mut bench = Bench::start(false, seed)?;
    let outcomes = bench.rounds(rounds, hang)?;
    bench.each_copy_serves_alone()?;
    bench.report(&outcomes);
    Ok(())
}

#[test]
fn so_it_is_in_a_pool_that_is_full_to_the_last_block_with_snapshots() -> Result<()> {
    let (rounds, seed, hang) = scale(4)?;
    let mut bench = Bench::start(true, seed + 1)?;
    bench.fill()?;
    let outcomes = bench.rounds(rounds, hang)?;
    bench.each_copy_serves_alone()?;
    bench.report(&outcomes);
    Ok(())
}
