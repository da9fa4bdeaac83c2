//! Rot of one copy: data, maps, space maps, labels, superblocks, journal; read from the other member,
//! and mended by reads and scrubs.

use super::*;

/// Spoils one block in so many of a member, those that were ever written.
fn spoil(array: &mut Array, slot: usize, one_in: u64, random: &mut Random) -> u64 {
    let mut numbers: Vec<u64> = array.disks[slot].now.keys().copied().collect();
    numbers.sort_unstable();
    let mut spoilt = 0;
    for number in numbers {
        if random.below(one_in) == 0 {
            let mut bytes = array.disks[slot].now[&number].to_vec();
            let at = random.below(BLOCK) as usize;
            bytes[at] ^= 1 << random.below(8);
            array.disks[slot].now.insert(number, bytes.into());
            spoilt += 1;
        }
    }
    spoilt
}

fn scrub(array: &mut Array) -> crate::ScrubStatus {
    array.store.start_scrub();
    for second in 100..200 {
        array.store.tick(Duration::from_secs(second));
        array.pump();
        let status = array.store.scrub_status();
        if !status.running {
            return status;
        }
    }
    panic!("a scrub comes to its end")
}

#[test]
fn a_member_may_rot_at_random_and_one_scrub_mends_it() {
    for seed in 0..6 {
        let mut random = Random(seed);
        let mut array = Array::new(2);
        array.write(0, &pattern(1, 8 << 20));
        array.settle();
        array.write(4 << 20, &pattern(2, 1 << 20));
        let slot = random.below(2) as usize;
        assert!(spoil(&mut array, slot, 30, &mut random) > 50);
        let mut array = array.open(&[0, 1]).unwrap();
        assert!(array.read(0, 4 << 20) == pattern(1, 8 << 20)[..4 << 20]);
        assert!(array.read(4 << 20, 1 << 20) == pattern(2, 1 << 20));
        // Its own blocks, labels and superblocks rot once more while it serves.
        for block in [1, 2, 4, 5, 8, 9, 16, 17, 32, 33] {
            array.disks[slot].now.insert(block, vec![3; 4096].into());
        }
        let first = scrub(&mut array);
        assert!(first.complete && first.bad.is_empty() && first.bad_blocks == 0, "{first:?}");
        let healed: u64 =
            array.store.mirrors().flat_map(|mirror| mirror.members).map(|m| m.healed_blocks).sum();
        assert!(healed > 10, "{healed}");
        let incidents: Vec<Incident> = std::iter::from_fn(|| array.store.next_incident()).collect();
        assert!(!incidents.is_empty() && incidents.iter().all(|incident| !incident.is_lost));
        assert!(incidents.iter().any(|incident| matches!(incident.place, Place::Copy { .. })));
        let report = array.verify(&[0, 1]);
        assert_eq!((report.faults, report.damaged_copies), (Vec::new(), 0), "seed {seed}");
        scrub(&mut array);
        assert!(array.store.next_incident().is_none(), "seed {seed}");
        array.disks[slot].fails = false;
        let mut alone = array.open(&[slot as u8]).unwrap();
        assert!(alone.read(0, 4 << 20) == pattern(1, 8 << 20)[..4 << 20], "seed {seed}");
    }
}

#[test]
fn a_journal_of_which_each_member_has_lost_other_units_is_replayed() {
    for seed in 0..20 {
        let mut random = Random(seed);
        let mut array = Array::new(2);
        for number in 0..40 {
            array.write(number * 8192, &pattern(number, 8192));
        }
        // Blocks of the ring lie from 256 on.
        for block in 256..340 {
            if random.below(4) == 0 {
                let slot = random.below(2) as usize;
                if let Some(bytes) = array.disks[slot].now.get_mut(&block) {
                    *bytes = vec![7; 4096].into();
                }
            }
        }
        let mut array = array.open(&[1, 0]).unwrap();
        for number in 0..40 {
            assert!(array.read(number * 8192, 8192) == pattern(number, 8192), "seed {seed}");
        }
    }
}

#[test]
fn labels_lists_and_superblocks_may_be_bad_on_a_member() {
    for blocks in [&[1, 2][..], &[4, 5], &[8, 9], &[16, 17, 32, 33], &[1, 4, 8, 16, 32]] {
        for slot in [0, 1] {
            let mut array = Array::new(2);
            array.write(0, &pattern(1, 1 << 20));
            array.settle();
            for block in blocks {
                array.disks[slot].now.insert(*block, vec![3; 4096].into());
            }
            let mut array = array.open(&[0, 1]).unwrap();
            assert!(array.read(0, 1 << 20) == pattern(1, 1 << 20), "{blocks:?}");
        }
    }
}

/// A label that was damaged before the pool was opened is mended as one that is damaged later.
#[test]
fn a_label_that_was_damaged_before_the_opening_is_mended_by_a_scrub() {
    for copy in [1, 2] {
        let mut array = Array::new(2);
        array.write(0, &pattern(1, 1 << 20));
        array.settle();
        let intact = array.disks[0].now[&copy].clone();
        array.disks[0].now.insert(copy, vec![3; 4096].into());
        let mut array = array.open(&[0, 1]).unwrap();
        let done = scrub(&mut array);
        assert!(done.complete && done.bad.is_empty(), "{done:?}");
        assert!(array.disks[0].now[&copy] == intact, "copy {copy}");
    }
}
