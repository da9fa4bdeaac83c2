//! Tests of reclaimed space, and of the statistics of requests.

use block::{RequestStatistics, Sample};

use super::*;
use crate::Held;

const MIB: u64 = 1 << 20;

fn snapshot(id: u64, name: &str, created: u64) -> VolumeSpec {
    VolumeSpec { snapshot: true, created, ..volume(VolumeId(id), name, 0) }
}

impl Pool {
    pub(super) fn unmap(&mut self, id: VolumeId, offset: u64, length: u64) {
        let ranges = vec![ByteRange::new(offset, length)];
        self.ask(id, Request::Unmap { ranges }).unwrap();
    }

    /// Asks, and returns what the request tells of itself.
    fn statistics(&mut self, id: VolumeId, request: Request) -> RequestStatistics {
        self.store.submit(Tag(1 << 40), id, request);
        loop {
            self.pump();
            let done = self.store.next_done().unwrap();
            if done.tag == Tag(1 << 40) {
                done.result.unwrap();
                return done.statistics;
            }
        }
    }
}

#[test]
fn what_nobody_shares_is_freed() {
    let mut pool = Pool::new();
    pool.write(A, 0, &pattern(1, 3 << 20));
    pool.unmap(A, 512, 4 * MIB - 512);
    let reclaim = pool.store.reclaimed(A);
    assert_eq!(reclaim.asked_bytes, 4 * MIB - 4096);
    assert_eq!(reclaim.unmapped_bytes, 3 * MIB - 4096);
    assert_eq!((reclaim.held_bytes(), reclaim.freed_bytes()), (0, 3 * MIB - 4096));
    assert_eq!(pool.store.reclaimed(B), Default::default());
}

#[test]
fn what_a_snapshot_shares_is_held_by_the_youngest_one() {
    let mut pool = Pool::new();
    pool.write(A, 0, &pattern(1, 4 << 20));
    pool.change(Change::CloneVolumes(vec![(A, snapshot(3, "old", 10))])).unwrap();
    pool.change(Change::CloneVolumes(vec![(A, snapshot(4, "young", 20))])).unwrap();
    // A mebibyte of its own, and a part of a leaf.
    pool.write(A, 0, &pattern(2, 1 << 20));
    pool.unmap(A, 0, 2 * MIB + 8192);
    pool.settle();
    let reclaim = pool.store.reclaimed(A);
    assert_eq!(reclaim.unmapped_bytes, 2 * MIB + 8192);
    let held = Held { holder: Some(VolumeId(4)), bytes: MIB + 8192 };
    assert_eq!(reclaim.held, [held]);
    assert_eq!(reclaim.freed_bytes(), MIB);
    pool.change(Change::DeleteVolume(VolumeId(4))).unwrap();
    let held = Held { holder: Some(VolumeId(3)), bytes: MIB + 8192 };
    assert_eq!(pool.store.reclaimed(A).held, [held]);
    pool.change(Change::DeleteVolume(VolumeId(3))).unwrap();
    assert_eq!(pool.store.reclaimed(A).freed_bytes(), 2 * MIB + 8192);
}

/// The subtree is the volume's own, but leaves below it are shared: only the reaper finds out.
#[test]
fn what_the_reaper_finds_to_be_shared_is_held() {
    let mut pool = Pool::with(&[SIZE], Options::default());
    pool.create(VolumeId(5), "large", 1 << 30);
    let large = VolumeId(5);
    pool.write(large, 0, &pattern(1, 4 << 20));
    pool.change(Change::CloneVolumes(vec![(large, snapshot(3, "s", 10))])).unwrap();
    pool.write(large, 8 * MIB, &pattern(2, 1 << 20));
    pool.unmap(large, 0, 256 * MIB);
    pool.settle();
    let reclaim = pool.store.reclaimed(large);
    assert_eq!((reclaim.asked_bytes, reclaim.unmapped_bytes), (256 * MIB, 5 * MIB));
    assert_eq!(reclaim.held, [Held { holder: Some(VolumeId(3)), bytes: 4 * MIB }]);
    assert_eq!(pool.used() / MIB, 4);
}

#[test]
fn a_clone_gives_up_what_its_origin_holds_and_a_copy_what_others_hold() {
    let mut pool = Pool::new();
    pool.write(A, 0, &pattern(1, 2 << 20));
    pool.clone_volume(A, VolumeId(3), "clone");
    pool.unmap(VolumeId(3), 0, MIB);
    let held = pool.store.reclaimed(VolumeId(3)).held;
    assert_eq!(held, [Held { holder: Some(A), bytes: MIB }]);
    pool.copy(A, 0, B, 0, 2 * MIB);
    pool.unmap(B, 0, MIB);
    assert_eq!(pool.store.reclaimed(B).held, [Held { holder: None, bytes: MIB }]);
}

#[test]
fn the_account_begins_anew_when_the_pool_is_opened() {
    let mut pool = Pool::new();
    pool.write(A, 0, &pattern(1, 1 << 20));
    pool.unmap(A, 0, MIB);
    let pool = pool.reopen();
    assert_eq!(pool.store.reclaimed(A), Default::default());
}

#[test]
fn a_copy_tells_what_it_referred_to_and_what_it_moved() {
    let mut pool = Pool::new();
    pool.write(A, 0, &pattern(1, 2 << 20));
    let copy = |to| Request::Copy { source: A, source_offset: 0, destination: to, length: MIB };
    let statistics = pool.statistics(B, copy(0));
    assert_eq!((statistics.referenced_bytes, statistics.copied_bytes), (MIB, 0));
    let statistics = pool.statistics(B, copy(512));
    assert_eq!((statistics.referenced_bytes, statistics.copied_bytes), (0, MIB));
    let edges =
        Request::Copy { source: A, source_offset: 512, destination: 8192 + 512, length: 8192 };
    let statistics = pool.statistics(B, edges);
    assert_eq!((statistics.referenced_bytes, statistics.copied_bytes), (4096, 4096));
    let zeros = Request::WriteSame { range: ByteRange::new(0, MIB), pattern: Pattern::Zero };
    assert_eq!(pool.statistics(B, zeros).zeroed_bytes, MIB);
}

fn samples(statistics: &RequestStatistics) -> Vec<(u64, u32)> {
    statistics.samples.iter().map(|sample| (sample.offset, sample.crc)).collect()
}

#[test]
fn the_same_data_has_the_same_samples_wherever_it_is_written_and_read() {
    let mut pool = Pool::with(&[SIZE], Options { sampling: true, ..Options::default() });
    let data = Bytes::from(pattern(7, 4 << 20));
    let expected: Vec<(u64, u32)> = (0..)
        .step_by(4096)
        .zip(data.chunks(4096).map(crc32c::crc32c))
        .filter(|(_, crc)| Sample::includes(*crc))
        .collect();
    assert!(expected.len() > 4, "{}", expected.len());
    for offset in [0, 8 * MIB, 16 * MIB + 512] {
        let range = ByteRange::new(offset, 4 * MIB);
        let write = pool.statistics(A, Request::Write { range, data: data.clone() });
        let read = pool.statistics(A, Request::Read { range });
        let moved: Vec<_> = expected.iter().map(|(at, crc)| (at + offset, *crc)).collect();
        assert_eq!(samples(&read), moved);
        assert!(moved.iter().all(|sample| samples(&write).contains(sample)), "{offset}");
    }
}

#[test]
fn nothing_is_sampled_unless_it_is_wanted_and_holes_never_are() {
    let data = Bytes::from(pattern(7, 4 << 20));
    let range = ByteRange::new(0, data.len() as u64);
    let mut pool = Pool::new();
    assert_eq!(samples(&pool.statistics(A, Request::Write { range, data })), []);
    assert_eq!(samples(&pool.statistics(A, Request::Read { range })), []);
    let mut pool = Pool::with(&[SIZE], Options { sampling: true, ..Options::default() });
    assert_eq!(samples(&pool.statistics(A, Request::Read { range })), []);
}

#[test]
fn a_read_tells_how_much_of_it_were_holes() {
    let mut pool = Pool::with(&[SIZE], Options { sampling: true, ..Options::default() });
    pool.write(A, MIB, &pattern(1, 1 << 20));
    pool.write(A, 3 * MIB, &[0; 1 << 20]);
    for (range, holes) in [
        (ByteRange::new(0, 4 * MIB), 3 * MIB),
        (ByteRange::new(MIB, MIB), 0),
        (ByteRange::new(2 * MIB - 4096, 8192), 4096),
        (ByteRange::new(8 * MIB, 512), 0),
    ] {
        assert_eq!(pool.statistics(A, Request::Read { range }).hole_bytes, holes, "{range:?}");
    }
    let mut pool = Pool::new();
    let range = ByteRange::new(0, MIB);
    assert_eq!(pool.statistics(A, Request::Read { range }).hole_bytes, 0);
}
