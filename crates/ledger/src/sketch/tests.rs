use proptest::prelude::*;

use super::*;

const A: VolumeId = VolumeId(1);
const B: VolumeId = VolumeId(2);
const HOST: HostId = HostId(1);
const OTHER: HostId = HostId(2);
const NOW: Duration = Duration::from_secs(1000);

/// The checksum of the number-th sampled block.
fn crc(number: u64) -> u32 {
    let mixed = (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    mixed as u32 / Sample::INTERVAL as u32 * Sample::INTERVAL as u32
}

/// Sampled blocks from `offset`, as far apart as they are on average.
fn samples(numbers: std::ops::Range<u64>, offset: u64) -> Vec<Sample> {
    let apart = Sample::INTERVAL * BLOCK;
    let first = numbers.start;
    numbers.map(|n| Sample { offset: offset + (n - first) * apart, crc: crc(n) }).collect()
}

fn found(sketch: &Sketch) -> Vec<(HostId, VolumeId, VolumeId, u64)> {
    let copies = sketch.copies();
    copies.map(|copy| (copy.host, copy.source, copy.destination, copy.matches)).collect()
}

#[test]
fn what_a_host_reads_and_writes_elsewhere_is_a_copy() {
    let mut sketch = Sketch::default();
    sketch.read(HOST, A, &samples(0..100, 0), NOW);
    let bytes = sketch.written(HOST, B, &samples(0..100, 1 << 30), NOW);
    assert_eq!(found(&sketch), [(HOST, A, B, 100)]);
    assert_eq!(bytes, 100 * 64 * 4096);
    let copy = sketch.copies().next().expect("one copy");
    assert_eq!((copy.distance, copy.misaligned), (1 << 30, false));
    assert_eq!(copy.estimated_bytes(), bytes);
}

#[test]
fn a_copy_inside_of_a_volume_is_one_and_writing_back_is_none() {
    let mut sketch = Sketch::default();
    sketch.read(HOST, A, &samples(0..100, 0), NOW);
    assert_eq!(sketch.written(HOST, A, &samples(0..100, 0), NOW), 0);
    assert_eq!(found(&sketch), []);
    sketch.written(HOST, A, &samples(0..100, 1 << 30), NOW);
    assert_eq!(found(&sketch), [(HOST, A, A, 100)]);
}

#[test]
fn what_another_host_writes_or_what_is_written_late_is_no_copy() {
    let mut sketch = Sketch::default();
    sketch.read(HOST, A, &samples(0..100, 0), NOW);
    sketch.written(OTHER, B, &samples(0..100, 0), NOW);
    let late = NOW + COPY_WINDOW + Duration::from_millis(1);
    sketch.written(HOST, B, &samples(0..100, 0), late);
    assert_eq!(found(&sketch), []);
}

#[test]
fn a_distance_that_is_no_multiple_of_a_block_is_noticed() {
    let mut sketch = Sketch::default();
    sketch.read(HOST, A, &samples(0..10, 0), NOW);
    sketch.written(HOST, B, &samples(0..10, 63 * 512), NOW);
    assert!(sketch.copies().all(|copy| copy.misaligned));
    assert_eq!(found(&sketch), [(HOST, A, B, 10)]);
}

#[test]
fn one_pattern_in_many_places_is_no_copy() {
    let mut sketch = Sketch::default();
    for number in 0..1000 {
        let at = |offset| [Sample { offset, crc: crc(1) }];
        sketch.read(HOST, A, &at(number * 4096), NOW);
        sketch.written(HOST, B, &at(number * 4096), NOW);
    }
    assert_eq!(found(&sketch), []);
}

/// Of many writes some have by chance the checksum of something that was read; the distances then
/// differ.
#[test]
fn equal_checksums_by_chance_are_no_copy() {
    let mut sketch = Sketch::default();
    sketch.read(HOST, A, &samples(0..5000, 0), NOW);
    for number in 0..5000_u64 {
        let elsewhere = (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) % (1 << 40) / 4096 * 4096;
        sketch.written(HOST, B, &[Sample { offset: elsewhere, crc: crc(number) }], NOW);
    }
    assert_eq!(found(&sketch), []);
}

/// A datastore's blocks of 1 MiB are scattered: about four samples move alike, then the next ones.
#[test]
fn a_copy_in_scattered_pieces_is_found() {
    let mut sketch = Sketch::default();
    for piece in 0..50_u64 {
        let numbers = piece * 4..piece * 4 + 4;
        sketch.read(HOST, A, &samples(numbers.clone(), piece << 20), NOW);
        sketch.written(HOST, B, &samples(numbers, ((997 * piece) % 1000) << 20), NOW);
    }
    assert_eq!(found(&sketch), [(HOST, A, B, 200)]);
}

#[test]
fn hosts_and_copies_are_bounded() {
    let mut sketch = Sketch::default();
    for host in 0..2 * WATCHED_HOSTS_MAX as u32 {
        sketch.read(HostId(host), A, &samples(0..10, 0), NOW);
    }
    assert_eq!(sketch.reads.len(), WATCHED_HOSTS_MAX);
    for volume in 0..2 * COPIES_MAX as u64 {
        sketch.written(HostId(0), VolumeId(10 + volume), &samples(0..10, 0), NOW);
    }
    assert_eq!(sketch.copies.len(), COPIES_MAX);
}

proptest! {
    #[test]
    fn a_copy_of_any_length_is_estimated_exactly_if_nothing_was_forgotten(
        length in 4_u64..400, distance in -1000_i64..1000, chunk in 1_u64..50,
    ) {
        prop_assume!(distance != 0);
        let mut sketch = Sketch::default();
        let from = 1 << 40;
        let to = (from as i64 + distance * 4096) as u64;
        let mut sum = 0;
        let places: std::collections::BTreeSet<_> = (0..length).map(|n| place(crc(n))).collect();
        for start in (0..length).step_by(chunk as usize) {
            let (numbers, skip) = (start..length.min(start + chunk), start * 64 * 4096);
            sketch.read(HOST, A, &samples(numbers.clone(), from + skip), NOW);
            sum += sketch.written(HOST, A, &samples(numbers, to + skip), NOW);
        }
        let lost = length - places.len() as u64;
        prop_assert!(sum <= length * 64 * 4096);
        prop_assert!(sum >= (length - lost) * 64 * 4096);
    }
}
