//! Comparisons of snapshots: what differs is told, what is equal is not, and it costs what changed.

use std::collections::BTreeMap;

use block::MapState;

use super::random::Random;
use super::*;
use crate::limits::{COMPARISON_EXTENTS_MAX, COMPARISON_PAGES_READ_MAX, COMPARISONS_MAX};
use crate::{CompareError, Comparison, Difference};

const MIB: u64 = 1 << 20;
const BASE: VolumeId = VolumeId(100);
const TARGET: VolumeId = VolumeId(101);

fn all(base: impl Into<Option<VolumeId>>, target: VolumeId) -> Comparison {
    Comparison { base: base.into(), target, from: 0, extents_max: COMPARISON_EXTENTS_MAX }
}

/// Blocks by number, each with what is told of it.
type Told = BTreeMap<u64, MapState>;

impl Pool {
    fn snapshot(&mut self, of: VolumeId, id: VolumeId) {
        let name = format!("snapshot-{}", id.0);
        let spec = VolumeSpec { snapshot: true, ..volume(id, &name, 0) };
        self.change(Change::CloneVolumes(vec![(of, spec)])).unwrap();
    }

    fn try_compare(&mut self, comparison: Comparison) -> Result<Difference, Failure> {
        self.next_tag += 1;
        self.store.compare(Tag(self.next_tag), comparison);
        match self.wait(self.next_tag)? {
            Outcome::Difference(difference) => Ok(difference),
            other => unreachable!("a comparison was answered {other:?}"),
        }
    }

    /// All answers in a row; checks their order.
    fn compare(&mut self, first: Comparison) -> (Told, u64) {
        let (mut told, mut pages, mut question) = (Told::new(), 0, first);
        loop {
            let answer = self.try_compare(question).unwrap();
            assert!(answer.extents.len() <= question.extents_max);
            pages += answer.pages;
            let mut behind = question.from;
            for extent in &answer.extents {
                let range = extent.range;
                assert!(range.offset >= behind && range.is_aligned(BLOCK) && !range.is_empty());
                behind = range.end();
                let blocks = range.offset / BLOCK..range.end() / BLOCK;
                told.extend(blocks.map(|block| (block, extent.state)));
            }
            let Some(next) = answer.next else { return (told, pages) };
            assert!(next > question.from && next >= behind, "the next answer goes on behind");
            question.from = next;
        }
    }
}

fn blocks(told: &Told) -> Vec<u64> {
    told.keys().copied().collect()
}

#[test]
fn what_was_written_unmapped_or_copied_is_told_and_nothing_else() {
    let mut pool = Pool::new();
    pool.write(A, 0, &pattern(1, 8 << 20));
    pool.write(B, 0, &pattern(2, 4096));
    pool.snapshot(A, BASE);
    pool.write(A, 4096, &pattern(3, 4096));
    pool.write(A, 40 * MIB, &pattern(4, 8192));
    pool.unmap(A, 2 * MIB, MIB);
    pool.copy(B, 0, A, 5 * MIB, 4096);
    pool.copy(A, 7 * MIB, A, 7 * MIB, MIB);
    pool.snapshot(A, TARGET);
    for _ in 0..2 {
        let (told, _) = pool.compare(all(BASE, TARGET));
        let mut expected = vec![1];
        expected.extend(512..768);
        expected.extend([1280, 10_240, 10_241]);
        assert_eq!(blocks(&told), expected);
        let holes: Vec<u64> = told
            .iter()
            .filter(|(_, state)| **state == MapState::Deallocated)
            .map(|(block, _)| *block)
            .collect();
        assert_eq!(holes, (512..768).collect::<Vec<_>>());
        assert_eq!(blocks(&pool.compare(all(TARGET, TARGET)).0), Vec::<u64>::new());
        let (back, _) = pool.compare(all(TARGET, BASE));
        assert_eq!(blocks(&back), blocks(&told));
        assert_eq!(back[&600], MapState::Mapped);
        assert_eq!(back[&10_240], MapState::Deallocated);
        pool.settle();
        pool = pool.reopen();
    }
}

#[test]
fn without_a_base_all_that_holds_data_is_told() {
    let mut pool = Pool::new();
    pool.write(A, 3 * MIB, &pattern(1, MIB as usize));
    pool.write(A, 20 * MIB + 8192, &pattern(2, 4096));
    pool.ask(A, Request::WriteSame { range: ByteRange::new(0, MIB), pattern: Pattern::Zero })
        .unwrap();
    pool.snapshot(A, TARGET);
    pool.snapshot(B, BASE);
    let (told, _) = pool.compare(all(None, TARGET));
    let mut expected: Vec<u64> = (768..1024).collect();
    expected.push(5122);
    assert_eq!(blocks(&told), expected);
    assert!(told.values().all(|state| *state == MapState::Mapped));
    assert!(pool.compare(all(None, BASE)).0.is_empty(), "nothing was written");
}

/// Changes of every kind, at random, at volumes of several sizes, against a model of contents.
#[test]
fn it_agrees_with_the_contents_whatever_happened_and_however_it_is_asked() {
    for seed in 0..3 {
        let options = Options { memory_bytes: 64 << 10, ..Options::default() };
        let mut pool = Pool::with(&[SIZE], options);
        let mut random = Random(seed);
        let mut snapshots = Vec::new();
        for number in 0..5 {
            for _ in 0..40 {
                change_something(&mut pool, &mut random);
            }
            if random.below(2) == 0 {
                let size_bytes = [8, 64, 512][random.index(3)] * MIB;
                pool.change(Change::ResizeVolume { id: A, size_bytes }).unwrap();
            }
            let id = VolumeId(200 + number);
            pool.snapshot(A, id);
            let size = pool.store.volume(id).unwrap().spec.size_bytes;
            snapshots.push((id, pool.read(id, 0, size.min(64 * MIB))));
        }
        if seed % 2 == 0 {
            pool.settle();
            pool = pool.reopen();
        }
        for (target, content) in &snapshots {
            for (base, before) in &snapshots {
                let extents_max = [1, 3, COMPARISON_EXTENTS_MAX][random.index(3)];
                let question = Comparison { extents_max, ..all(*base, *target) };
                let (told, _) = pool.compare(question);
                check(&told, before, content);
                let from = random.below(content.len() as u64 / BLOCK) * BLOCK;
                let (rest, _) = pool.compare(Comparison { from, ..question });
                assert_eq!(rest, told.clone().split_off(&(from / BLOCK)), "from {from}");
            }
            let (told, _) = pool.compare(all(None, *target));
            check(&told, &[], content);
        }
    }
}

fn change_something(pool: &mut Pool, random: &mut Random) {
    let length = [BLOCK, 8 * BLOCK, MIB, 2 * MIB][random.index(4)];
    let mut place = || random.below((8 * MIB - length) / BLOCK) * BLOCK;
    let (at, from) = (place(), place());
    match random.below(5) {
        0 | 1 => pool.write(A, at, &pattern(random.below(1 << 20), length as usize)),
        2 => pool.unmap(A, at, length),
        3 => pool.copy(A, from, A, at, length),
        _ => pool.copy(A, from - from % MIB, A, at - at % MIB, MIB),
    }
}

/// Every block whose content differs is told, and what is told as a hole is one.
fn check(told: &Told, before: &[u8], content: &[u8]) {
    let zeros = vec![0; BLOCK as usize];
    for (number, block) in content.chunks(BLOCK as usize).enumerate() {
        let at = number * BLOCK as usize;
        let old = before.get(at..at + BLOCK as usize).unwrap_or(&zeros);
        match told.get(&(number as u64)) {
            None => assert!(old == block, "block {number} differs and is not told"),
            Some(MapState::Deallocated) => assert!(block == zeros, "block {number} is no hole"),
            Some(_) => assert!(block != zeros, "block {number} holds no data"),
        }
    }
}

/// 4 GiB of which every mebibyte has a page, and 100 changes.
#[test]
fn it_costs_what_changed_and_not_what_there_is() {
    let mut pool = Pool::new();
    pool.change(Change::ResizeVolume { id: A, size_bytes: 4 << 30 }).unwrap();
    pool.write(B, 0, &pattern(1, 64 << 20));
    for at in 0..64 {
        pool.copy(B, 0, A, at * 64 * MIB, 64 * MIB);
    }
    pool.snapshot(A, BASE);
    let mut random = Random(7);
    let changed: std::collections::BTreeSet<u64> =
        (0..100).map(|_| random.below(1 << 20)).collect();
    for block in &changed {
        pool.write(A, block * BLOCK, &pattern(*block, 4096));
    }
    pool.snapshot(A, TARGET);
    pool.settle();
    let mut pool = pool.reopen();
    let before = pool.store.statistics().pages_read;
    let (told, pages) = pool.compare(all(BASE, TARGET));
    assert!(told.keys().eq(changed.iter()));
    // A root, 16 pages below it and a leaf for each change, twice.
    assert!(pages <= 2 * (1 + 16 + 100), "{pages} pages");
    assert!(pool.store.statistics().pages_read - before <= pages);
    // What is mapped as a whole is told without its leaves.
    let (told, pages) = pool.compare(all(None, BASE));
    assert_eq!(told.len(), 1 << 20);
    assert!(pages < 20, "{pages} pages");
}

/// A slow disk would take minutes for what memory holds.
#[test]
fn an_answer_ends_when_it_has_read_much_and_the_next_goes_on() {
    let mut pool = Pool::new();
    let leaves = COMPARISON_PAGES_READ_MAX / 2 + 100;
    for id in [A, B] {
        pool.change(Change::ResizeVolume { id, size_bytes: 4 << 30 }).unwrap();
        (0..leaves).for_each(|leaf| pool.write(id, leaf * MIB, &pattern(leaf, 4096)));
    }
    pool.snapshot(A, BASE);
    pool.snapshot(B, TARGET);
    pool.settle();
    let mut pool = pool.reopen();
    let before = pool.store.statistics().pages_read;
    let first = pool.try_compare(all(BASE, TARGET)).unwrap();
    let read = pool.store.statistics().pages_read - before;
    assert!((COMPARISON_PAGES_READ_MAX..COMPARISON_PAGES_READ_MAX + 64).contains(&read), "{read}");
    assert!(first.next.is_some());
    let (told, _) = pool.compare(all(BASE, TARGET));
    assert!(told.keys().copied().eq((0..leaves).map(|leaf| leaf * 256)));
}

#[test]
fn snapshots_of_different_volumes_may_be_compared() {
    let mut pool = Pool::new();
    pool.write(A, 0, &pattern(1, 2 << 20));
    pool.snapshot(A, BASE);
    pool.clone_volume(BASE, VolumeId(5), "clone");
    pool.write(VolumeId(5), 4096, &pattern(2, 4096));
    pool.snapshot(VolumeId(5), TARGET);
    assert_eq!(blocks(&pool.compare(all(BASE, TARGET)).0), [1]);
    pool.write(B, MIB, &pattern(1, 8192));
    pool.snapshot(B, VolumeId(102));
    let (told, _) = pool.compare(all(BASE, VolumeId(102)));
    assert_eq!(blocks(&told), (0..512).collect::<Vec<_>>(), "they share nothing");
}

#[test]
fn what_cannot_be_compared_is_refused() {
    let mut pool = Pool::new();
    pool.snapshot(A, BASE);
    let size_bytes = 64 * MIB;
    let whole = all(None, BASE);
    for (question, error) in [
        (all(None, VolumeId(77)), CompareError::NoSuchSnapshot),
        (all(VolumeId(77), BASE), CompareError::NoSuchSnapshot),
        (all(None, crate::RECORDS), CompareError::NoSuchSnapshot),
        (all(None, A), CompareError::NotASnapshot),
        (all(A, BASE), CompareError::NotASnapshot),
        (Comparison { from: 1, ..whole }, CompareError::Offset { size_bytes }),
        (Comparison { from: size_bytes + BLOCK, ..whole }, CompareError::Offset { size_bytes }),
        (Comparison { from: u64::MAX, ..whole }, CompareError::Offset { size_bytes }),
        (Comparison { extents_max: 0, ..whole }, CompareError::ExtentCount),
        (Comparison { extents_max: 16_385, ..whole }, CompareError::ExtentCount),
    ] {
        assert_eq!(pool.try_compare(question).unwrap_err(), error.into(), "{question:?}");
    }
    let end = pool.try_compare(Comparison { from: size_bytes, ..whole }).unwrap();
    assert_eq!((end.extents.len(), end.next), (0, None));
    for tag in 0..=COMPARISONS_MAX as u64 {
        pool.store.compare(Tag(5000 + tag), whole);
    }
    let refused = pool.wait(5000 + COMPARISONS_MAX as u64).unwrap_err();
    assert_eq!(refused, CompareError::Busy.into());
    for tag in 0..COMPARISONS_MAX as u64 - 1 {
        pool.wait(5000 + tag).map(drop).unwrap_or_default();
    }
    pool.change(Change::Close).unwrap();
    assert_eq!(pool.try_compare(whole).unwrap_err(), CompareError::Closed.into());
}

/// A pool on which two snapshots have no page in common, of 64 mebibytes each.
fn unlike() -> Pool {
    let mut pool = Pool::new();
    pool.write(A, 0, &pattern(1, 60 << 20));
    pool.write(B, 0, &pattern(2, 60 << 20));
    pool.snapshot(A, BASE);
    pool.snapshot(B, TARGET);
    pool
}

const ASKED: Tag = Tag(9001);

/// Plays one turn of the caller's loop.
fn turn(pool: &mut Pool) {
    pool.store.begin_turn(8);
    pool.pump();
}

#[test]
fn a_long_comparison_takes_many_turns_in_which_others_are_served() {
    let mut pool = unlike();
    pool.store.begin_turn(8);
    pool.store.compare(ASKED, all(BASE, TARGET));
    let mut turns = 0;
    loop {
        turn(&mut pool);
        turns += 1;
        match pool.store.next_done() {
            Some(done) => {
                assert_eq!(done.tag, ASKED);
                break;
            }
            None => assert!(pool.store.has_more(), "nobody would come back"),
        }
        assert_eq!(pool.read(A, 0, 4096), pattern(1, 4096));
    }
    assert!(turns > 5, "{turns} turns");
    assert!(!pool.store.has_more());
}

#[test]
fn a_snapshot_that_is_deleted_and_a_pool_that_closes_end_a_comparison() {
    for gone in [BASE, TARGET] {
        let mut pool = unlike();
        pool.store.begin_turn(8);
        pool.store.compare(ASKED, all(BASE, TARGET));
        turn(&mut pool);
        pool.change(Change::DeleteVolume(gone)).unwrap();
        turn(&mut pool);
        assert_eq!(pool.wait(ASKED.0).unwrap_err(), CompareError::Deleted.into());
    }
    let mut pool = unlike();
    pool.store.begin_turn(8);
    pool.store.compare(ASKED, all(BASE, TARGET));
    turn(&mut pool);
    pool.store.change(Tag(9002), Change::Close);
    assert_eq!(pool.wait(ASKED.0).unwrap_err(), CompareError::Closed.into());
    pool.wait(9002).unwrap();
}

#[test]
fn a_page_that_cannot_be_read_is_an_error_and_the_next_comparison_goes_on() {
    let mut pool = Pool::new();
    pool.write(A, 0, &pattern(1, 4096));
    pool.write(A, 4 * MIB, &pattern(2, 4096));
    pool.snapshot(A, BASE);
    pool.write(A, 4096, &pattern(3, 4096));
    pool.write(A, 4 * MIB + 4096, &pattern(4, 4096));
    pool.snapshot(A, TARGET);
    pool.settle();
    // The leaf of the target for the fifth mebibyte: nothing else has that block's checksum.
    let crc = crc32c::crc32c(&pattern(4, 4096)).to_le_bytes();
    let leaf = pool.devices[0].chunks(4096).position(|page| page[24..28] == crc).unwrap();
    pool.devices[0][leaf * 4096 + 77] ^= 4;
    let mut pool = pool.reopen_damaged().unwrap();
    let first = pool.try_compare(all(BASE, TARGET)).unwrap();
    assert_eq!(first.extents.len(), 1, "what lies before the damage can be had");
    let offset = first.next.unwrap();
    assert_eq!(offset, 4 * MIB);
    let rest = Comparison { from: offset, ..all(BASE, TARGET) };
    let failed = pool.try_compare(rest).unwrap_err();
    assert_eq!(failed, CompareError::Unreadable { offset }.into());
    let behind = Comparison { from: 5 * MIB, ..rest };
    let rest = pool.try_compare(behind).unwrap();
    assert_eq!((rest.extents.len(), rest.next), (0, None));
    assert!(pool.compare(all(None, BASE)).0.keys().eq(&[0, 1024]));
    assert!(std::iter::from_fn(|| pool.store.next_incident()).any(|incident| incident.is_lost));
}
