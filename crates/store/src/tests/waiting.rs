//! Tests of slow devices: a request waits for its I/O as long as that takes.

use super::*;
use crate::layout::Layout;

const JOURNAL: u64 = 4 << 20;

/// Where a write goes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Superblocks,
    Journal,
    Groups,
}

fn part(io: &crate::Io) -> Option<Part> {
    let DeviceOperation::Write { offset, .. } = &io.operation else { return None };
    let groups = Layout::new(SIZE, JOURNAL).groups_start().offset();
    Some(match *offset {
        offset if offset < 256 * BLOCK => Part::Superblocks,
        offset if offset < groups => Part::Journal,
        _ => Part::Groups,
    })
}

/// A pool on a device that holds back the writes to a part of it.
struct Stalling {
    pool: Pool,
    holds: Part,
    held: Vec<crate::Io>,
}

impl Stalling {
    fn new(pool: Pool, holds: Part) -> Self {
        Self { pool, holds, held: Vec::new() }
    }

    /// Goes on until nothing goes on; returns what ended.
    fn pump(&mut self) -> Vec<crate::Done> {
        while let Some(io) = self.pool.store.next_io() {
            if part(&io) == Some(self.holds) {
                self.held.push(io);
                continue;
            }
            let result = self.pool.serve(usize::from(io.device), io.operation);
            self.pool.store.completed(io.id, result);
        }
        std::iter::from_fn(|| self.pool.store.next_done()).collect()
    }

    /// The device does what it held back, and whatever comes; returns what ended.
    fn release(mut self) -> (Pool, Vec<crate::Done>) {
        for io in std::mem::take(&mut self.held) {
            let result = self.pool.serve(usize::from(io.device), io.operation);
            self.pool.store.completed(io.id, result);
        }
        self.pool.pump();
        let done = std::iter::from_fn(|| self.pool.store.next_done()).collect();
        (self.pool, done)
    }
}

fn write(at: u64, data: Vec<u8>) -> Request {
    Request::Write { range: ByteRange::new(at, data.len() as u64), data: data.into() }
}

fn options() -> Options {
    Options { journal_bytes: JOURNAL, ..Options::default() }
}

#[test]
fn a_device_that_grows_by_nothing_while_the_journal_is_full_waits_for_room() {
    let mut device = Stalling::new(Pool::with(&[SIZE], options()), Part::Superblocks);
    let mut submitted = 1000;
    loop {
        submitted += 1;
        let at = submitted % 1000 * BLOCK;
        device.pool.store.submit(Tag(submitted), A, write(at, pattern(submitted, 4096)));
        if device.pump().is_empty() {
            break;
        }
        assert!(submitted < 10_000, "the journal is never full");
    }
    let change = Change::ExtendDevice { device: 0, size_bytes: SIZE };
    device.pool.store.change(Tag(1), change);
    assert!(device.pump().is_empty());
    let (_, done) = device.release();
    let ended: Vec<Tag> = done.iter().map(|done| done.tag).collect();
    assert!(ended.contains(&Tag(1)) && ended.contains(&Tag(submitted)), "{ended:?}");
    assert!(done.iter().all(|done| done.result.is_ok()));
}

/// What a commit under way replaces is free when it is done, however long that takes and however
/// many checkpoints come and go meanwhile.
#[test]
fn a_reserved_volume_waits_for_a_commit_that_is_held_up_and_is_not_refused() {
    let mut pool = Pool::with(&[SIZE], options());
    let (id, size_bytes) = (VolumeId(9), 24 << 20);
    let spec = VolumeSpec { thick: true, ..volume(id, "thick", size_bytes) };
    pool.change(Change::CreateVolume(spec)).unwrap();
    pool.write(id, 0, &pattern(1, size_bytes as usize));
    pool.change(Change::ResizeVolume { id: B, size_bytes: 1 << 30 }).unwrap();
    let fill = |at: u64| write(at << 20, pattern(at, 1 << 20));
    assert!((0..1024).any(|at| pool.ask(B, fill(at)).is_err()), "the pool is never full");
    pool.settle();
    let mut device = Stalling::new(pool, Part::Journal);
    let tags = 1000..1024;
    for tag in tags.clone() {
        let at = (tag - tags.start) << 20;
        device.pool.store.submit(Tag(tag), id, write(at, pattern(tag, 1 << 20)));
    }
    for _ in 0..3 {
        let done = device.pump();
        assert!(done.is_empty(), "nothing is done, and nothing refused: {done:?}");
    }
    let (mut pool, done) = device.release();
    assert_eq!(done.len(), tags.clone().count());
    assert!(done.iter().all(|done| done.result.is_ok()));
    for tag in tags.clone() {
        assert!(pool.read(id, (tag - tags.start) << 20, 1 << 20) == pattern(tag, 1 << 20));
    }
}
