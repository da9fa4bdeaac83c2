//! Every byte that a host gives back comes back to the pool, in whatever pieces and order.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use harness::pdu::RawSession;
use harness::random::Random;
use harness::{Array, initiator, number};

/// Logical blocks of the volume.
const BLOCKS: u64 = (64 << 20) / 512;

/// Descriptors of one UNMAP command at most.
const DESCRIPTORS_MAX: usize = 256;

const PATIENCE: Duration = Duration::from_secs(60);

struct Bench {
    array: Array,
    session: RawSession,
    lun: u8,
    /// What the pool used when the volume was empty.
    used_at_first: u64,
}

impl Bench {
    fn start() -> Result<Self> {
        let array = Array::start()?;
        array.create_pool("p", "1G")?;
        let lun = u8::try_from(array.create_lun("p/v", "64M")?)?;
        let name = "iqn.2026-01.org.example:reclaim";
        let session = RawSession::log_in(array.portal(), name, &array.target_name()?)?;
        let used_at_first = used_after_a_checkpoint(&array, lun)?;
        Ok(Self { array, session, lun, used_at_first })
    }

    fn fill(&self, pattern: u8) -> Result<()> {
        let url = self.array.lun_url(self.lun.into())?;
        initiator::qemu_io(&["-f", "raw", &url], &[&format!("write -P {pattern} 0 64M")])?;
        let mapped = number(&self.array.gantry_json(&["volume", "show", "p/v"])?, "/mapped_bytes")?;
        assert_eq!(mapped, 64 << 20);
        Ok(())
    }

    /// UNMAP (SBC-4 5.35) of pieces that begin at a logical block and have so many, with so many descriptors in a command.
    fn unmap(&mut self, pieces: &[(u64, u64)], descriptors: usize) -> Result<()> {
        for pieces in pieces.chunks(descriptors) {
            let length = u16::try_from(pieces.len() * 16)?;
            let mut list = vec![0; 8];
            list[..2].copy_from_slice(&(length + 6).to_be_bytes());
            list[2..4].copy_from_slice(&length.to_be_bytes());
            for &(first, count) in pieces {
                list.extend(first.to_be_bytes());
                list.extend(u32::try_from(count)?.to_be_bytes());
                list.extend([0; 4]);
            }
            let mut cdb = [0x42, 0, 0, 0, 0, 0, 0, 0, 0, 0];
            cdb[7..9].copy_from_slice(&(length + 8).to_be_bytes());
            self.session.write(self.lun, &cdb, &list)?.good()?;
        }
        Ok(())
    }

    /// Waits until the pool uses what it used at first, to the byte, and reads zeroes everywhere.
    fn assert_all_is_back(&self) -> Result<()> {
        let begun = Instant::now();
        while used(&self.array)? != self.used_at_first {
            let (used, first) = (used(&self.array)?, self.used_at_first);
            ensure!(begun.elapsed() < PATIENCE, "{used} bytes in use, {first} at first");
            thread::sleep(Duration::from_millis(50));
        }
        let volume = self.array.gantry_json(&["volume", "show", "p/v"])?;
        assert_eq!(number(&volume, "/mapped_bytes")?, 0);
        let url = self.array.lun_url(self.lun.into())?;
        initiator::qemu_io(&["-f", "raw", &url], &["read -P 0 0 64M"])?;
        Ok(())
    }
}

/// The first checkpoint writes the pool's volume table, which is in use from then on; it comes when
/// something was given back.
fn used_after_a_checkpoint(array: &Array, lun: u8) -> Result<u64> {
    let url = array.lun_url(lun.into())?;
    initiator::qemu_io(&["-f", "raw", &url], &["write -P 1 0 1M", "discard 0 1M"])?;
    let begun = Instant::now();
    loop {
        let pool = array.gantry_json(&["pool", "show", "p"])?;
        let (used, pending) =
            (number(&pool, "/space/used_bytes")?, number(&pool, "/space/pending_bytes")?);
        if (1..512 << 10).contains(&used) && pending == 0 {
            return Ok(used);
        }
        ensure!(begun.elapsed() < PATIENCE, "no checkpoint: {used} in use, {pending} pending");
        thread::sleep(Duration::from_millis(50));
    }
}

fn used(array: &Array) -> Result<u64> {
    number(&array.gantry_json(&["pool", "show", "p"])?, "/space/used_bytes")
}

#[test]
fn pieces_of_any_size_unmapped_in_any_order_give_all_space_back() -> Result<()> {
    let mut bench = Bench::start()?;
    let mut random = Random::new(11);
    for (pattern, blocks_max, descriptors) in [(0x51, 127, DESCRIPTORS_MAX), (0x52, 2048, 16)] {
        bench.fill(pattern)?;
        let mut pieces = Vec::new();
        let mut first = 0;
        while first < BLOCKS {
            let count = (1 + random.below(blocks_max)).min(BLOCKS - first);
            pieces.push((first, count));
            first += count;
        }
        random.shuffle(&mut pieces);
        bench.unmap(&pieces, descriptors)?;
        bench.assert_all_is_back()?;
    }
    Ok(())
}

#[test]
fn both_halves_of_every_block_give_the_whole_block_back() -> Result<()> {
    let mut bench = Bench::start()?;
    let mut random = Random::new(12);
    bench.fill(0x61)?;
    let mut halves: Vec<(u64, u64)> = (0..BLOCKS).step_by(8).map(|first| (first, 4)).collect();
    random.shuffle(&mut halves);
    bench.unmap(&halves, DESCRIPTORS_MAX)?;
    for _ in 0..64 {
        let lba = u32::try_from(random.below(BLOCKS / 8) * 8)?;
        let mut cdb = [0x28, 0, 0, 0, 0, 0, 0, 0, 8, 0];
        cdb[2..6].copy_from_slice(&lba.to_be_bytes());
        let data = bench.session.read(bench.lun, &cdb, 4096)?.good()?;
        assert!(data == [[0; 2048], [0x61; 2048]].concat(), "LBA {lba}");
    }
    halves.iter_mut().for_each(|half| half.0 += 4);
    random.shuffle(&mut halves);
    bench.unmap(&halves, DESCRIPTORS_MAX)?;
    bench.assert_all_is_back()
}
