use std::ops::Range;

use super::*;

const VOLUME: VolumeId = VolumeId(1);

/// One request of a host that waits for its answers.
fn read(detector: &mut SequentialDetector, start: u64) -> Range<u64> {
    let ahead = detector.follow(VOLUME, one(start), OperationKey::of(start as usize), |_| false);
    ahead.first.number()..ahead.end().number()
}

fn one(start: u64) -> BlockRange {
    BlockRange::of(VolumeBlock::new(start))
}

#[test]
fn a_host_that_reads_on_finds_ahead_of_it_what_it_will_ask_for() {
    let mut detector = SequentialDetector::default();
    assert!(read(&mut detector, 100).is_empty());
    assert!(read(&mut detector, 101).is_empty());
    let mut ahead = read(&mut detector, 102);
    assert_eq!(ahead, 103..103 + AHEAD_BLOCKS_MIN);
    let mut longest = 0;
    for start in 103..5000 {
        assert!(ahead.end > start, "block {start} was not read ahead");
        let more = read(&mut detector, start);
        if !more.is_empty() {
            assert_eq!(more.start, ahead.end, "nothing is left out, and nothing read twice");
            ahead = more;
        }
        longest = longest.max(ahead.end - start - 1);
    }
    assert_eq!(longest, AHEAD_BLOCKS_MAX);
}

#[test]
fn a_host_with_several_requests_on_the_way_reads_ahead_itself() {
    let mut detector = SequentialDetector::default();
    for start in 0..100 {
        let ahead = detector.follow(VOLUME, one(start), OperationKey::of(start as usize), |_| true);
        assert!(ahead.is_empty());
    }
}

#[test]
fn streams_do_not_meet_and_the_one_that_rested_longest_makes_room() {
    let mut detector = SequentialDetector::default();
    let starts: Vec<u64> = (0..STREAMS_MAX as u64).map(|number| number << 20).collect();
    for step in 0..3 {
        for start in &starts {
            let ahead = read(&mut detector, start + step);
            assert_eq!(ahead.is_empty(), step < 2);
        }
    }
    let other = VolumeId(2);
    assert!(
        detector.follow(other, one(3), OperationKey::of(0), |_| false).is_empty(),
        "another volume"
    );
    assert!(read(&mut detector, starts[0] + 3).is_empty(), "it made room, and begins anew");
    assert_eq!(detector.streams.len(), STREAMS_MAX);
}
