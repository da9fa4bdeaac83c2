//! Rot: one block in a hundred of one copy of a mirror is damaged, data and metadata, from single bits
//! to whole blocks. Nothing is read wrong, nothing fails, and one scrub heals all of it.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use harness::members::{healed, scrub_until_clean, state_of};
use harness::pdu::{RawSession, cdb16_of_bytes};
use harness::random::Random;
use harness::waiting::wait_until;
use harness::{Array, Value, number, text};

const BLOCK: usize = 4096;
const MIB: u64 = 1 << 20;

/// How an event says of blocks that they were healed; before it stands how many.
const HEALED: &str = " block(s) of one member of a mirror could not be read and were written again";

/// Bytes of one command.
const CHUNK: u64 = 64 << 10;

/// Bytes of the volume.
const SPAN: u64 = 96 * MIB;

/// A volume, and what each of its chunks was written with last.
struct Bench {
    array: Array,
    files: [PathBuf; 2],
    lun: u8,
    /// Of which snapshots are there, with what they hold.
    snapshots: Vec<(u8, Vec<u64>)>,
    versions: Vec<u64>,
    random: Random,
}

/// What a version of a chunk holds.
fn content(chunk: u64, version: u64) -> Vec<u8> {
    if version == 0 {
        return vec![0; CHUNK as usize];
    }
    Random::new(version << 32 | chunk).bytes(CHUNK as usize)
}

impl Bench {
    fn start() -> Result<Self> {
        let array = Array::start()?;
        let files = ["a.img", "b.img"].map(|name| array.beside(name));
        let [a, b] = files.each_ref().map(|path| format!("file:{}", path.display()));
        array.gantry(&["pool", "create", "p", "--mirror", "2", &a, &b, "--size", "1G"])?;
        let lun = u8::try_from(array.create_lun("p/v", "1G")?)?;
        let versions = vec![0; (SPAN / CHUNK) as usize];
        let random = Random::new(7);
        Ok(Self { array, files, lun, snapshots: Vec::new(), versions, random })
    }

    fn log_in(&self) -> Result<RawSession> {
        let name = "iqn.2026-01.org.example:rot";
        RawSession::log_in(self.array.portal(), name, &self.array.target_name()?)
    }

    /// Writes so many chunks anywhere.
    fn write(&mut self, chunks: u64) -> Result<()> {
        let mut session = self.log_in()?;
        for _ in 0..chunks {
            let chunk = self.random.below(self.versions.len() as u64);
            let version = self.versions[chunk as usize] + 1;
            let cdb = cdb16_of_bytes(0x8a, 0, chunk * CHUNK, CHUNK);
            session.write(self.lun, &cdb, &content(chunk, version))?.good()?;
            self.versions[chunk as usize] = version;
        }
        Ok(())
    }

    fn snapshot(&mut self, name: &str) -> Result<()> {
        self.array.gantry(&["snapshot", "create", "p/v", name])?;
        let path = format!("p/{name}");
        let map = self.array.gantry_json(&["volume", "map", &path, "--host", "any"])?;
        self.snapshots.push((u8::try_from(number(&map, "/lun")?)?, self.versions.clone()));
        Ok(())
    }

    /// Reads everything; nothing fails and nothing is wrong.
    fn verify(&self) -> Result<()> {
        let mut session = self.log_in()?;
        let own = [(self.lun, self.versions.clone())];
        for (lun, versions) in own.iter().chain(&self.snapshots) {
            for (chunk, &version) in (0..).zip(versions) {
                let cdb = cdb16_of_bytes(0x88, 0, chunk * CHUNK, CHUNK);
                let read = session.read(*lun, &cdb, CHUNK as u32)?.good();
                let read = read.with_context(|| format!("chunk {chunk} of LUN {lun}"))?;
                ensure!(read == content(chunk, version), "chunk {chunk} of LUN {lun} is wrong");
            }
        }
        Ok(())
    }

    /// The offline check finds nothing, on either copy.
    fn is_sound(&self) -> Result<()> {
        let [a, b] = self.files.each_ref().map(|path| path.to_str().context("a printable path"));
        let report = self.array.gantry(&["pool", "verify", a?, b?, "--json"])?;
        let report: Value = serde_json::from_str(&report)?;
        ensure!(number(&report, "/fault_count")? == 0, "{report:#}");
        ensure!(number(&report, "/damaged_copies")? == 0, "{report:#}");
        Ok(())
    }

    /// Starts with one copy alone, reads everything, and lets the other come back.
    fn serves_alone(&mut self, side: usize) -> Result<()> {
        let other = self.files[1 - side].clone();
        let away = other.with_extension("away");
        std::fs::rename(&other, &away)?;
        self.array.restart()?;
        self.verify()?;
        std::fs::rename(&away, &other)?;
        let name = other.to_str().context("a printable path")?.to_owned();
        wait_until("the other copy comes back", || {
            Ok(state_of(&self.array, "p", &name)?.as_deref() == Some("current"))
        })?;
        Ok(())
    }
}

/// Damages one in a hundred of the blocks of a file that hold something, and the first label;
/// returns how many there are, and which are damaged.
fn rot(path: &Path, random: &mut Random) -> Result<(u64, Vec<u64>)> {
    let file = OpenOptions::new().read(true).write(true).open(path)?;
    let blocks = file.metadata()?.len() / BLOCK as u64;
    let (mut used, mut damaged) = (0, Vec::new());
    let mut many = vec![0; BLOCK * 256];
    for first in (0..blocks).step_by(256) {
        let length = (blocks - first).min(256) as usize * BLOCK;
        file.read_exact_at(&mut many[..length], first * BLOCK as u64)?;
        for (number, block) in (first..).zip(many[..length].chunks_mut(BLOCK)) {
            if block.iter().all(|&byte| byte == 0) {
                continue;
            }
            used += 1;
            if random.below(100) == 0 || damaged.is_empty() {
                damage(block, random);
                file.write_all_at(block, number * BLOCK as u64)?;
                damaged.push(number);
            }
        }
    }
    file.sync_all()?;
    Ok((used, damaged))
}

/// A bit, some bytes, a sector, the second half as it may be after a torn write, all of it.
fn damage(block: &mut [u8], random: &mut Random) {
    let at = random.below(BLOCK as u64) as usize;
    let before = block.to_vec();
    match random.below(6) {
        0 => block[at] ^= 1 << random.below(8),
        1 => random.fill(&mut block[at..(at + 16).min(BLOCK)]),
        2 => random.fill(&mut block[at / 512 * 512..][..512]),
        3 => block[BLOCK / 2..].fill(0),
        4 => block.fill(0),
        _ => random.fill(block),
    }
    if block == before {
        block[at] ^= 1;
    }
}

/// How many of these blocks are the same in both files.
fn alike(files: &[PathBuf; 2], blocks: &[u64]) -> Result<usize> {
    let [a, b] = [File::open(&files[0])?, File::open(&files[1])?];
    let mut count = 0;
    for block in blocks {
        let mut read = [[0; BLOCK]; 2];
        a.read_exact_at(&mut read[0], block * BLOCK as u64)?;
        b.read_exact_at(&mut read[1], block * BLOCK as u64)?;
        count += usize::from(read[0] == read[1]);
    }
    Ok(count)
}

/// The number of the newest event, and how many blocks those after an earlier one say were healed.
fn told_after(array: &Array, earlier: u64) -> Result<(u64, u64)> {
    let events = array.gantry_json(&["events"])?;
    let (mut newest, mut blocks) = (earlier, 0);
    for event in events.as_array().context("events")? {
        let this = number(event, "/number")?;
        newest = newest.max(this);
        if this > earlier
            && let Some((count, _)) = text(event, "/message")?.split_once(HEALED)
        {
            blocks += count.parse::<u64>()? * number(event, "/count")?;
        }
    }
    Ok((newest, blocks))
}

#[test]
fn one_block_in_a_hundred_of_one_copy_rots_and_one_scrub_heals_all() -> Result<()> {
    let mut bench = Bench::start()?;
    bench.write(1200)?;
    bench.snapshot("s")?;
    bench.write(600)?;
    for (side, stopped) in [(0, true), (1, false), (0, false), (1, true)] {
        bench.write(100)?;
        let (event, _) = told_after(&bench.array, 0)?;
        // An opening counts anew.
        let before = if stopped { 0 } else { healed(&bench.array, "p")? };
        let mut random = bench.random.clone();
        if stopped {
            assert!(bench.array.stop()?.success());
        }
        let (used, damaged) = rot(&bench.files[side], &mut random)?;
        bench.random = random;
        if stopped {
            bench.array.restart()?;
        }
        bench.verify()?;
        let by_reads = healed(&bench.array, "p")?;
        let by_scrub = scrub_until_clean(&bench.array, "p", 2)?;
        bench.verify()?;
        let healed = healed(&bench.array, "p")? - before;
        wait_until("each block is told once", || {
            let (_, told) = told_after(&bench.array, event)?;
            ensure!(told <= healed, "{told} blocks are told, {healed} were healed");
            Ok(told == healed)
        })?;
        bench.array.kill()?;
        bench.is_sound()?;
        println!(
            "copy {side}, {}: {} of {used} blocks damaged, {by_reads} healed until all was read, {by_scrub} by the scrub; {} are alike now, the others are in use by nobody",
            if stopped { "daemon stopped" } else { "daemon serving" },
            damaged.len(),
            alike(&bench.files, &damaged)?
        );
        bench.serves_alone(side)?;
    }
    Ok(())
}
