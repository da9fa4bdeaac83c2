//! Arrays that do right and wrong in each way, a few lines each, judged by the probes.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::*;
use crate::esxi::lun::fake::{Fake, Reply};
use crate::validate::bench::Bench;
use crate::validate::honesty::SCRATCH;

/// Blocks of the whole LUN, and the first one that the probes may write.
const BLOCKS: u64 = 1 << 21;
const FIRST: u64 = BLOCKS - SCRATCH / 512;

/// How an array treats WRITE SAME with the UNMAP bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// Zeros are unmapped, all else is written.
    Right,
    /// Whatever is sent, the blocks are unmapped.
    UnmapsPatterns,
    /// The first block is written, the others are unmapped.
    WritesOnce,
    /// The bit is not there.
    Refuses,
    /// WRITE SAME takes zeros alone.
    ZerosAlone,
    /// Everything is written, nothing is ever unmapped.
    NeverFrees,
    /// Unmapped after a moment.
    FreesLater,
    /// Only pairs of granules that lie together are unmapped, the rest is written.
    FreesSome,
    /// Unmapped, and unmapped blocks read as something else.
    Garbage,
}

/// How it tells what is mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tells {
    Status,
    /// GET LBA STATUS says 0h of everything.
    AlwaysMapped,
    Nothing,
}

struct Array {
    way: Way,
    tells: Tells,
    claims: bool,
    granule: u32,
    /// Each block of the scratch area, if it is mapped.
    blocks: Vec<Option<[u8; 512]>>,
    /// When what was unmapped later is told as unmapped.
    freed_at: Option<(Instant, Vec<usize>)>,
}

fn be(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |value, byte| value << 8 | u64::from(*byte))
}

impl Array {
    fn place(cdb: &[u8]) -> usize {
        (be(&cdb[2..10]) - FIRST) as usize
    }

    fn read(&self, cdb: &[u8]) -> Reply {
        let (at, count) = (Self::place(cdb), be(&cdb[10..14]) as usize);
        let unmapped = if self.way == Way::Garbage { [0xa5; 512] } else { [0; 512] };
        Reply::Good(
            self.blocks[at..at + count].iter().flat_map(|b| b.unwrap_or(unmapped)).collect(),
        )
    }

    fn write(&mut self, cdb: &[u8], data: &[u8]) -> Reply {
        let at = Self::place(cdb);
        for (block, data) in self.blocks[at..].iter_mut().zip(data.as_chunks::<512>().0) {
            *block = Some(*data);
        }
        Reply::Good(Vec::new())
    }

    fn write_same(&mut self, cdb: &[u8], data: &[u8]) -> Reply {
        let (at, count, unmap) = (Self::place(cdb), be(&cdb[10..14]) as usize, cdb[1] & 8 != 0);
        let block: [u8; 512] = data.try_into().expect("a block");
        let is_zero = block == [0; 512];
        let refused = Reply::Status(2, [5, 0x24, 0]);
        let unmapped = match (self.way, unmap) {
            (Way::Refuses, true) => return refused,
            (Way::ZerosAlone, _) if !is_zero => return refused,
            (Way::NeverFrees, _) | (_, false) => 0..0,
            (Way::UnmapsPatterns, true) => at..at + count,
            (Way::WritesOnce, true) => at + 1..at + count,
            (Way::FreesSome, true) if is_zero => at..at + count / 2,
            (_, true) if is_zero => at..at + count,
            (_, true) => 0..0,
        };
        for (number, kept) in self.blocks[at..at + count].iter_mut().enumerate() {
            let is_unmapped = unmapped.contains(&(at + number)) && self.way != Way::FreesLater;
            *kept = (!is_unmapped).then_some(block);
        }
        if self.way == Way::FreesLater {
            let moment = Instant::now() + Duration::from_millis(150);
            let all = self.freed_at.take().map(|(_, all)| all).unwrap_or_default();
            self.freed_at = Some((moment, all.into_iter().chain(unmapped).collect()));
        }
        Reply::Good(Vec::new())
    }

    fn lba_status(&mut self, cdb: &[u8]) -> Reply {
        if let Some((_, freed)) = self.freed_at.take_if(|(moment, _)| *moment <= Instant::now()) {
            freed.into_iter().for_each(|number| self.blocks[number] = None);
        }
        let lba = be(&cdb[2..10]);
        let status = |lba: u64| match lba.checked_sub(FIRST) {
            _ if self.tells == Tells::AlwaysMapped => 0,
            Some(at) if self.blocks[at as usize].is_some() => 0,
            _ => 1,
        };
        let (mut answer, mut at) = (vec![0; 8], lba);
        while at < BLOCKS && answer.len() < 8 + 500 * 16 {
            let kind = status(at);
            let end = (at..BLOCKS).find(|lba| status(*lba) != kind).unwrap_or(BLOCKS);
            answer.extend(at.to_be_bytes());
            answer.extend(((end - at) as u32).to_be_bytes());
            answer.extend([kind, 0, 0, 0]);
            at = end;
        }
        let length = answer.len() as u32 - 4;
        answer[..4].copy_from_slice(&length.to_be_bytes());
        Reply::Good(answer)
    }

    fn answer(&mut self, cdb: &[u8], data: &[u8]) -> Option<Reply> {
        Some(match (cdb[0], cdb[1], cdb[2]) {
            (0x12, 1, 0) => Reply::Good(vec![0, 0, 0, 3, 0, 0x83, 0xb0]),
            (0x12, 1, 0xb0) => {
                let mut page = vec![0; 64];
                (page[1], page[3]) = (0xb0, 60);
                page[28..32].copy_from_slice(&self.granule.to_be_bytes());
                Reply::Good(page)
            }
            (0x12, 1, 0xb2) => {
                Reply::Good(vec![0, 0xb2, 0, 4, 0, u8::from(self.claims) * 0x44, 2, 0])
            }
            (0x88, ..) if be(&cdb[2..10]) >= FIRST => self.read(cdb),
            (0x8a, ..) => self.write(cdb, data),
            (0x93, ..) => self.write_same(cdb, data),
            (0x9e, 0x12, _) if self.tells != Tells::Nothing => self.lba_status(cdb),
            (0x9e, 0x12, _) | (0x4d, ..) => Reply::Status(2, [5, 0x20, 0]),
            _ => return None,
        })
    }
}

/// The verdict of a probe, and its words.
fn judged(
    probe: fn(&mut Scratch<'_>) -> Probe,
    (way, tells, claims, granule): (Way, Tells, bool, u32),
) -> (Verdict, String) {
    let blocks = vec![None; (BLOCKS - FIRST) as usize];
    let array = Array { way, tells, claims, granule, blocks, freed_at: None };
    let array = Arc::new(Mutex::new(array));
    let fake = Fake::with_data(move |cdb, data| array.lock().expect("no panic").answer(cdb, data));
    let bench = Bench::connect(std::slice::from_ref(&fake.url)).expect("it answers");
    let lun = bench.lun_by_one_path(0, "probe").expect("it answers");
    let (at, missing, unknown) = (FIRST * 512, BTreeSet::new(), BTreeSet::new());
    let (bench, missing) = (&bench, &missing);
    let mut scratch = Scratch { bench, lun, at, power_cut: None, missing, unknown, silence: None };
    let found = probe(&mut scratch).expect("it answers");
    (found.verdict, found.found)
}

#[test]
fn a_block_that_is_not_zeros_is_written_whatever_the_bit_says() {
    use Verdict::{Honest, Lie, NotClaimed};
    for (way, claims, verdict, words) in [
        (Way::Right, true, Honest, "2048 of 2048 blocks hold the block"),
        (Way::NeverFrees, true, Honest, "2048 of 2048 blocks hold the block"),
        // Who does not support the bit writes, too, or refuses.
        (Way::NeverFrees, false, Honest, "2048 of 2048 blocks hold the block"),
        (Way::Refuses, false, NotClaimed, "blocks hold what they held before"),
        (Way::Refuses, true, NotClaimed, "blocks hold what they held before"),
        (Way::ZerosAlone, true, NotClaimed, "not asked with it"),
        (
            Way::UnmapsPatterns,
            true,
            Lie,
            "2048 of 2048 blocks read as zeros; GET LBA STATUS: unmapped",
        ),
        (
            Way::UnmapsPatterns,
            false,
            Lie,
            "2048 of 2048 blocks read as zeros; GET LBA STATUS: unmapped",
        ),
        (
            Way::WritesOnce,
            true,
            Lie,
            "1 of 2048 blocks hold the block, 2047 of 2048 blocks read as zeros",
        ),
    ] {
        let (found, told) = judged(pattern, (way, Tells::Status, claims, 8));
        assert_eq!(found, verdict, "{way:?} {claims}: {told}");
        assert!(told.contains(words), "{way:?}: {told}");
    }
}

#[test]
fn zeros_with_the_bit_read_as_zeros_and_some_of_them_are_freed() {
    use Verdict::{Honest, Lie, NotClaimed, Unclear};
    for (way, tells, claims, granule, verdict) in [
        (Way::Right, Tells::Status, true, 8, Honest),
        // A granule of 1.5 MiB, which is no part of a mebibyte.
        (Way::Right, Tells::Status, true, 3072, Honest),
        (Way::Right, Tells::Nothing, true, 8, Unclear),
        (Way::Right, Tells::Status, false, 8, NotClaimed),
        (Way::Right, Tells::Status, true, 1 << 20, Unclear),
        (Way::FreesLater, Tells::Status, true, 8, Honest),
        (Way::FreesSome, Tells::Status, true, 8, Honest),
        (Way::NeverFrees, Tells::Status, true, 8, Lie),
        (Way::NeverFrees, Tells::Status, false, 8, NotClaimed),
        // 'Mapped, or not known' of every block is no proof.
        (Way::NeverFrees, Tells::AlwaysMapped, true, 8, Unclear),
        (Way::Refuses, Tells::Status, false, 8, NotClaimed),
        (Way::Refuses, Tells::Status, true, 8, Lie),
        (Way::Garbage, Tells::Status, true, 8, Lie),
    ] {
        let (found, told) = judged(zeros, (way, tells, claims, granule));
        assert_eq!(found, verdict, "{way:?} {tells:?} {claims} {granule}: {told}");
    }
}
