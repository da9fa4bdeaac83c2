//! The bitmap's codec with damaged and torn sectors, and what a member may lack.

use super::*;

const TIB: u64 = (1 << 40) / BLOCK;

fn extent(first: u64, blocks: u64) -> Extent {
    Extent { first: DeviceBlock::new(first), blocks }
}

fn read_back(regions: &mut Regions, device_blocks: u64) -> Regions {
    let mut disk = Buffer::zeroed(regions.extent().bytes() as usize);
    regions.rewrite();
    while let Some((block, bytes)) = regions.next_urgent() {
        let at = (block - REGIONS_START) as usize * BLOCK as usize;
        disk[at..at + BLOCK as usize].copy_from_slice(&bytes);
        regions.written(block);
    }
    Regions::parse(device_blocks, &[None, Some(disk)])
}

#[test]
fn every_size_of_a_device_is_covered() {
    for bytes in [64 << 20, (64 << 20) + BLOCK, 1 << 30, 1 << 40, 7 << 40, 512_u64 << 40] {
        let blocks = bytes / BLOCK;
        let division = Division::new(blocks);
        assert!(division.bitmap_blocks() <= REGIONS_BLOCKS, "{bytes}");
        let all = division.extent(0..division.regions());
        assert_eq!((all.first.number(), all.blocks), (0, blocks));
        let last = division.touched(extent(blocks - 1, 1));
        assert_eq!(last, division.regions() - 1..division.regions());
        assert!(bytes > 6 << 40 || division.shift == 8, "{bytes}");
    }
}

#[test]
fn what_is_marked_is_read_back_and_nothing_else() {
    let mut regions = Regions::clean(TIB);
    for at in [0, 255, 256, 4064 * 256 - 1, 32_512 * 256, TIB - 1] {
        regions.mark(extent(at, 1));
    }
    assert!(!regions.mark(extent(0, 256)), "it is marked already");
    assert!(regions.mark(extent(1000, 600)), "it is new");
    let back = read_back(&mut regions, TIB);
    assert_eq!(back.dirty, regions.dirty);
}

#[test]
fn a_sector_that_is_damaged_torn_or_was_never_written_is_all_dirty() {
    let mut regions = Regions::clean(TIB);
    regions.mark(extent(0, 1));
    regions.rewrite();
    let (_, block) = regions.next_urgent().unwrap();
    let parse = |copies: &[&[u8]]| {
        let copies: Vec<_> = copies.iter().map(|bytes| Some(Buffer::copy_of(bytes))).collect();
        Regions::parse(BLOCK_REGIONS as u64 * 256, &copies).dirty.len()
    };
    let dirty_with = |bytes: &[u8]| parse(&[bytes]);
    assert_eq!(dirty_with(&block), 1);
    for sector in 0..SECTORS_PER_BLOCK {
        for byte in [0, 100, SECTOR_BITS_BYTES, SECTOR - 1] {
            let mut bad = block.to_vec();
            bad[sector * SECTOR + byte] ^= 16;
            let expected = SECTOR_REGIONS + usize::from(sector > 0);
            assert_eq!(dirty_with(&bad), expected, "sector {sector} byte {byte}");
            assert_eq!(parse(&[&bad, &block]), 1, "another copy has it");
        }
    }
    assert_eq!(dirty_with(&[0; 4096]), BLOCK_REGIONS);
    // A sector that lies where another one belongs.
    let mut moved = block.to_vec();
    moved.copy_within(SECTOR..2 * SECTOR, 2 * SECTOR);
    assert_eq!(dirty_with(&moved), SECTOR_REGIONS + 1);
    assert_eq!(Regions::parse(TIB, &[]).dirty.len(), 1 << 20);
}

#[test]
fn bits_in_regions_of_another_size_are_not_believed() {
    let large = 8 * TIB;
    let mut regions = Regions::clean(TIB);
    regions.rewrite();
    let (_, block) = regions.next_urgent().unwrap();
    let parsed = Regions::parse(large, &[Some(block)]);
    assert_eq!(parsed.dirty.len(), parsed.division.regions());
}

#[test]
fn a_block_is_not_written_twice_at_once() {
    let mut regions = Regions::clean(TIB);
    assert!(regions.is_settled());
    regions.mark(extent(0, 1));
    let (place, _) = regions.next_urgent().unwrap();
    assert!(!regions.is_settled(), "it is being written");
    regions.mark(extent(256, 1));
    assert!(regions.next_urgent().is_none(), "the first write has not ended");
    regions.written(place);
    let (again, bytes) = regions.next_urgent().unwrap();
    assert_eq!((again, bytes[0]), (place, 3));
    regions.written(place);
    assert!(regions.is_settled() && regions.next_urgent().is_none());
    regions.clear(0);
    assert!(regions.is_settled(), "what is cleared may wait");
    assert_eq!(regions.next_changed().unwrap().1[0], 2);
}

#[test]
fn a_device_that_grows_keeps_its_dirty_regions() {
    let mut regions = Regions::clean(TIB);
    regions.mark(extent(7 * 256, 1));
    regions.fit(2 * TIB);
    assert_eq!(regions.dirty.next_run(RegionNumber(0), 9), Some(7..8));
    assert_eq!((regions.dirty.len(), regions.homes.len()), (1, 65));
    assert!(!regions.is_settled());
    regions.fit(16 * TIB);
    assert_eq!(regions.dirty.len(), regions.division.regions(), "regions are larger now");
    let mut clean = Regions::clean(TIB);
    clean.fit(16 * TIB);
    assert!(clean.dirty.is_empty() && clean.is_settled());
}

#[test]
fn what_was_not_flushed_may_be_lacking() {
    let division = Division::new(TIB);
    let mut unflushed = Unflushed::default();
    let lacking = |unflushed: &Unflushed| {
        let mut regions = Regions::clean(TIB);
        regions.mark_unflushed(unflushed);
        regions.dirty.len()
    };
    unflushed.written(division, extent(0, 1));
    let first = unflushed.flush_began();
    unflushed.written(division, extent(300, 1));
    assert_eq!(lacking(&unflushed), 2);
    let second = unflushed.flush_began();
    unflushed.written(division, extent(600, 1));
    unflushed.flushed(first);
    assert_eq!(lacking(&unflushed), 2);
    unflushed.flushed(second);
    assert_eq!(lacking(&unflushed), 1);
    for at in 0..=UNFLUSHED_MAX as u64 {
        unflushed.written(division, extent(at * 256, 1));
    }
    assert_eq!(lacking(&unflushed), 1 << 20, "too many to be known");
    let third = unflushed.flush_began();
    unflushed.flushed(second);
    assert_eq!(lacking(&unflushed), 1 << 20);
    unflushed.flushed(third);
    assert_eq!(lacking(&unflushed), 0);
}

#[test]
fn what_was_written_before_regions_became_larger_may_be_lacking_anywhere() {
    let (small, large) = (Division::new(TIB), Division::new(14 * TIB));
    assert!(!small.counts_like(large) && small.counts_like(Division::new(2 * TIB)));
    let mut unflushed = Unflushed::default();
    unflushed.forget_places();
    let mut regions = Regions::clean(14 * TIB);
    regions.mark_unflushed(&unflushed);
    assert!(regions.dirty().is_empty(), "nothing was written");
    let earlier = unflushed.flush_began();
    unflushed.written(small, extent(TIB - 1, 1));
    unflushed.forget_places();
    unflushed.flushed(earlier);
    regions.mark_unflushed(&unflushed);
    assert_eq!(regions.dirty().len(), large.regions(), "that flush began before");
    let mut regions = Regions::clean(14 * TIB);
    let later = unflushed.flush_began();
    unflushed.flushed(later);
    regions.mark_unflushed(&unflushed);
    assert!(regions.dirty().is_empty());
}

#[test]
fn a_block_of_the_bitmap_that_is_being_written_is_not_written_once_more_when_regions_grow() {
    let mut regions = Regions::clean(TIB);
    regions.mark(extent(0, 1));
    let (block, _) = regions.next_urgent().unwrap();
    regions.fit(14 * TIB);
    let others: Vec<_> = std::iter::from_fn(|| regions.next_urgent()).collect();
    assert!(others.iter().all(|(other, _)| *other != block));
    assert!(!regions.is_settled());
    regions.written(block);
    assert_eq!(regions.next_urgent().map(|(again, _)| again), Some(block));
}
