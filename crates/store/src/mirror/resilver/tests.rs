//! Resilvers beside writes, in every order that a device allows, and their bounds.

use super::*;
use crate::address::DeviceBlock;
use crate::tests::random::Random;

const BLOCKS: u64 = 4096;

fn extent(first: u64, blocks: u64) -> Extent {
    Extent { first: DeviceBlock::new(first), blocks }
}

fn resilver(todo: RegionSet) -> Resilver {
    Resilver::new(Division::new(BLOCKS), todo, u64::MAX)
}

fn all() -> RegionSet {
    RegionSet::full(Division::new(BLOCKS).regions())
}

/// A write of a host under way: it has reached the source, and the target, or not.
struct Write {
    extent: Extent,
    value: u8,
    reached: [bool; 2],
}

/// What the resilver asked of a device, under way.
enum Io {
    Read { copy: CopyId, extent: Extent, from_target: bool },
    Write { copy: CopyId, extent: Extent, data: Vec<u8>, reached: bool },
    Flush,
}

/// Two members, of which each block is a byte.
struct World {
    members: [Vec<u8>; 2],
    used: Vec<bool>,
    resilver: Resilver,
    writes: Vec<Write>,
    ios: Vec<Io>,
    random: Random,
    complete: bool,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut random = Random(seed);
        let mut source = vec![0; BLOCKS as usize];
        source.iter_mut().for_each(|byte| *byte = random.below(250) as u8);
        let used = (0..BLOCKS / 16).flat_map(|_| [random.below(3) == 0; 16]).collect();
        let members = [source, vec![255; BLOCKS as usize]];
        let (writes, ios, resilver) = (Vec::new(), Vec::new(), resilver(all()));
        Self { members, used, resilver, writes, ios, random, complete: false }
    }

    fn begin_write(&mut self) {
        let blocks = 1 + self.random.below(64);
        let extent = extent(self.random.below(BLOCKS - blocks), blocks);
        if self.writes.iter().any(|write| write.extent.overlaps(extent)) {
            return;
        }
        self.resilver.write_began(extent);
        let value = self.random.below(250) as u8;
        range(extent).for_each(|block| self.used[block] = true);
        self.writes.push(Write { extent, value, reached: [false; 2] });
    }

    fn go_on_with_a_write(&mut self) {
        if self.writes.is_empty() {
            return;
        }
        let at = self.random.below(self.writes.len() as u64) as usize;
        let member = self.random.below(2) as usize;
        let write = &mut self.writes[at];
        if !write.reached[member] {
            self.members[member][range(write.extent)].fill(write.value);
            write.reached[member] = true;
        }
        if write.reached == [true; 2] {
            let write = self.writes.swap_remove(at);
            self.resilver.write_ended(write.extent);
        }
    }

    fn answer_wanted(&mut self) {
        let Some(wanted) = self.resilver.wanted() else { return };
        let blocks = range(wanted).filter(|&block| self.used[block]);
        let pieces: Vec<_> = blocks.map(|block| Piece::Copy(extent(block as u64, 1))).collect();
        self.resilver.used(pieces);
    }

    fn take_step(&mut self) {
        match self.resilver.next_step() {
            None => {}
            Some(Step::ReadSource { copy, extent }) => {
                self.ios.push(Io::Read { copy, extent, from_target: false });
            }
            Some(Step::ReadTarget { copy, extent }) => {
                self.ios.push(Io::Read { copy, extent, from_target: true });
            }
            Some(Step::Write { copy, extent, data }) => {
                let data = data.to_vec().chunks(BLOCK as usize).map(|block| block[0]).collect();
                self.ios.push(Io::Write { copy, extent, data, reached: false });
            }
            Some(Step::Reserve { .. }) => unreachable!("nothing is set aside"),
            Some(Step::Flush) => self.ios.push(Io::Flush),
            Some(Step::Complete) => self.complete = true,
        }
    }

    fn go_on_with_an_io(&mut self) {
        if self.ios.is_empty() {
            return;
        }
        let at = self.random.below(self.ios.len() as u64) as usize;
        match self.ios.swap_remove(at) {
            Io::Read { copy, extent, from_target } => {
                let mut bytes = Buffer::zeroed((extent.blocks * BLOCK) as usize);
                let from = &self.members[usize::from(from_target)][range(extent)];
                for (block, byte) in bytes.chunks_mut(BLOCK as usize).zip(from) {
                    block.fill(*byte);
                }
                self.resilver.read(copy, Some(bytes));
            }
            Io::Write { copy, extent, data, reached: false } => {
                self.members[1][range(extent)].copy_from_slice(&data);
                self.ios.push(Io::Write { copy, extent, data, reached: true });
            }
            Io::Write { copy, reached: true, .. } => self.resilver.wrote(copy),
            Io::Flush => self.resilver.flushed(),
        }
    }

    fn run(&mut self, writes: u64) {
        let mut left = writes;
        for _ in 0..1_000_000 {
            match self.random.below(5) {
                0 if left > 0 => {
                    left -= 1;
                    self.begin_write();
                }
                1 => self.go_on_with_a_write(),
                2 => self.answer_wanted(),
                3 => self.take_step(),
                _ => self.go_on_with_an_io(),
            }
            if self.complete && self.writes.is_empty() {
                return;
            }
        }
        panic!("it does not end");
    }
}

fn range(extent: Extent) -> std::ops::Range<usize> {
    extent.first.number() as usize..extent.end().number() as usize
}

#[test]
fn whatever_is_written_meanwhile_both_members_are_equal_in_the_end() {
    for seed in 0..60 {
        let mut world = World::new(seed);
        world.run(400);
        for block in (0..BLOCKS as usize).filter(|&block| world.used[block]) {
            let [source, target] = world.members.each_ref().map(|member| member[block]);
            assert_eq!(source, target, "seed {seed} block {block}");
        }
        let clean = world.resilver.take_clean();
        assert_eq!(clean.len(), Division::new(BLOCKS).regions());
    }
}

/// Answers everything at once, and returns what was written.
fn finish(
    resilver: &mut Resilver,
    used: &[Piece],
    readable: impl Fn(Extent) -> bool,
) -> Vec<Extent> {
    let mut written = Vec::new();
    for _ in 0..100_000 {
        if let Some(wanted) = resilver.wanted() {
            resilver.used(used.iter().map(|piece| piece.within(wanted)));
        }
        let read = |extent: Extent| {
            readable(extent).then(|| Buffer::zeroed((extent.blocks * BLOCK) as usize))
        };
        match resilver.next_step() {
            Some(Step::ReadSource { copy, extent } | Step::ReadTarget { copy, extent }) => {
                resilver.read(copy, read(extent));
            }
            Some(Step::Write { copy, extent, .. }) => {
                written.push(extent);
                resilver.wrote(copy);
            }
            Some(Step::Reserve { copy, .. }) => resilver.wrote(copy),
            Some(Step::Flush) => resilver.flushed(),
            Some(Step::Complete) => return written,
            None => resilver.pass(Duration::from_millis(1)),
        }
    }
    panic!("it does not end");
}

#[test]
fn only_dirty_regions_are_copied_and_only_what_is_used_of_them() {
    let mut todo = RegionSet::empty(Division::new(BLOCKS).regions());
    [1, 2, 9].into_iter().for_each(|region| assert!(todo.insert(region)));
    let mut resilver = resilver(todo);
    let used = [Piece::Copy(extent(100, 300)), Piece::Copy(extent(1000, 1000))];
    let written = finish(&mut resilver, &used, |_| true);
    assert_eq!(written.iter().map(|extent| extent.blocks).sum::<u64>(), 144);
    assert_eq!(resilver.take_clean(), [1, 2, 9]);
    assert_eq!(resilver.status().copied_bytes, 144 * BLOCK);
}

#[test]
fn the_unused_part_of_the_journal_is_blank_unless_it_was() {
    let mut todo = RegionSet::empty(Division::new(BLOCKS).regions());
    todo.insert(0);
    let blank = [Piece::Blank(extent(0, 256))];
    assert_eq!(finish(&mut resilver(todo.clone()), &blank, |_| true), []);
    let written = finish(&mut resilver(todo.clone()), &blank, |_| false);
    assert_eq!(written.iter().map(|extent| extent.blocks).sum::<u64>(), 256);
    // A unit was written there before its turn came: it is copied.
    let mut early = resilver(todo.clone());
    assert!(early.next_step().is_none());
    early.used([Piece::Blank(extent(0, 128))]);
    early.write_began(extent(3, 2));
    early.write_ended(extent(3, 2));
    let mut steps = std::iter::from_fn(|| early.next_step());
    assert!(steps.all(|step| match step {
        Step::ReadSource { extent: of, .. } => of == extent(3, 2),
        Step::ReadTarget { extent: of, .. } => !of.overlaps(extent(3, 2)),
        _ => false,
    }));
    // A unit is written there while it is being made blank: it is copied.
    let mut resilver = resilver(todo);
    assert!(resilver.next_step().is_none());
    resilver.used([Piece::Blank(extent(0, 128))]);
    let Some(Step::ReadTarget { copy, .. }) = resilver.next_step() else { panic!("no read") };
    resilver.write_began(extent(3, 2));
    resilver.read(copy, None);
    let Some(Step::Write { copy, .. }) = resilver.next_step() else { panic!("no write") };
    resilver.wrote(copy);
    assert!(resilver.next_step().is_none(), "the write has not ended");
    resilver.write_ended(extent(3, 2));
    let Some(Step::ReadSource { extent: again, .. }) = resilver.next_step() else { panic!("none") };
    assert_eq!(again, extent(3, 2));
}

#[test]
fn a_block_that_nobody_can_read_costs_only_itself() {
    let mut resilver = resilver(all());
    let used = [Piece::Copy(extent(0, 512))];
    let bad = extent(77, 1);
    let written = finish(&mut resilver, &used, |extent| !extent.overlaps(bad));
    assert_eq!(written.iter().map(|extent| extent.blocks).sum::<u64>(), 511);
    assert_eq!(resilver.status().unreadable_blocks, 1);
}

#[test]
fn a_region_that_became_dirty_again_is_copied_again_before_it_is_clean() {
    let mut resilver = resilver(all());
    let used = [Piece::Copy(extent(0, 8))];
    assert!(resilver.next_step().is_none());
    resilver.used(used);
    let Some(Step::ReadSource { copy, .. }) = resilver.next_step() else { panic!("no read") };
    resilver.read(copy, Some(Buffer::zeroed(8 * BLOCK as usize)));
    let Some(Step::Write { copy, .. }) = resilver.next_step() else { panic!("no write") };
    resilver.wrote(copy);
    let Some(Step::Flush) = resilver.next_step() else { panic!("no flush") };
    resilver.again(extent(5, 1));
    resilver.flushed();
    assert!(!resilver.take_clean().contains(&0));
    let written = finish(&mut resilver, &used, |_| true);
    assert_eq!(written, [extent(0, 8)]);
    assert_eq!(resilver.take_clean(), [0]);
}

#[test]
fn nothing_begins_while_it_is_paused() {
    let mut resilver = resilver(all());
    resilver.set_paused(true);
    assert!(resilver.next_step().is_none() && resilver.wanted().is_none());
    assert!(resilver.status().paused);
    resilver.set_paused(false);
    finish(&mut resilver, &[Piece::Copy(extent(0, 8))], |_| true);
    assert!(resilver.next_step().is_none(), "complete is said once");
}

#[test]
fn copies_are_bounded_and_leave_hosts_their_share() {
    let begin = |resilver: &mut Resilver| {
        let mut begun = 0;
        while let Some(Step::ReadSource { .. }) = resilver.next_step() {
            begun += 1;
        }
        begun
    };
    let mut idle = resilver(all());
    assert!(idle.next_step().is_none());
    idle.used([Piece::Copy(extent(0, BLOCKS))]);
    assert_eq!(begin(&mut idle), RESILVER_COPIES_MAX);
    let mut busy = resilver(all());
    assert!(busy.next_step().is_none());
    busy.used([Piece::Copy(extent(0, BLOCKS))]);
    busy.host_io(4096);
    assert_eq!(begin(&mut busy), 0);
    busy.pass(RESILVER_BUSY_PAUSE);
    assert_eq!(begin(&mut busy), 1, "now and then one");
    busy.host_io(1 << 30);
    assert_eq!(begin(&mut busy), 0, "one at a time");
    let mut slow = Resilver::new(Division::new(BLOCKS), all(), 1 << 20);
    assert!(slow.next_step().is_none());
    slow.used([Piece::Copy(extent(0, BLOCKS))]);
    assert_eq!(begin(&mut slow), 2, "a second's worth");
    slow.pass(Duration::from_secs(1));
    assert_eq!(begin(&mut slow), 2);
}
