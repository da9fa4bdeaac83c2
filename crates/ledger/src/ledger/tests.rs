use block::Sample;
use proptest::prelude::*;

use super::*;
use crate::explain::zero_reason;
use crate::limits::ZEROED_BYTES_MIN;
use crate::reason::Reason;

const A: VolumeId = VolumeId(1);
const B: VolumeId = VolumeId(2);

const POSSIBLE: Facts = Facts {
    turned_off: None,
    same_product: true,
    same_block_length: true,
    same_pool: true,
    seen_together: true,
    misaligned: false,
    refusal: None,
    skips_zeros: false,
    copies_here: false,
    copies_elsewhere: false,
    offloads_else: false,
};

const UNSUPPORTED: Refusal = Refusal {
    status: "CHECK CONDITION",
    sense: Some((5, 0x20, 0)),
    reason: "INVALID_COMMAND_OPERATION_CODE",
    turned_off: None,
};

fn ended(host: HostId, primitive: Primitive, bytes: u64, outcome: Outcome) -> CommandEnded {
    let (volume, took) = (Some(A), Duration::from_micros(100));
    CommandEnded { host, volume, name: primitive.name(), primitive, lba: 8, bytes, took, outcome }
}

fn none() -> BTreeMap<String, SpaceSample> {
    BTreeMap::new()
}

/// One EXTENDED COPY of the host from A to B.
fn copy(ledger: &mut Ledger, host: HostId, bytes: u64, done: bool) {
    let statistics = RequestStatistics { referenced_bytes: bytes, ..RequestStatistics::default() };
    let statistics = if done { statistics } else { RequestStatistics::default() };
    let (primitive, source) = (Primitive::ExtendedCopy, Some(A));
    let request = RequestEnded {
        host,
        primitive,
        volume: B,
        source,
        asked_bytes: bytes,
        done,
        statistics: &statistics,
    };
    ledger.request(&request);
}

/// A READ or WRITE that did that.
fn did(
    ledger: &mut Ledger,
    host: HostId,
    primitive: Primitive,
    volume: VolumeId,
    what: &RequestStatistics,
) {
    let (source, asked_bytes, done) = (None, 0, true);
    ledger.request(&RequestEnded {
        host,
        primitive,
        volume,
        source,
        asked_bytes,
        done,
        statistics: what,
    });
}

/// The host reads sampled blocks of A and writes them to B.
fn copy_by_hand(ledger: &mut Ledger, host: HostId) {
    copy_with_zeros(ledger, host, 0, 0);
}

/// The same, with zeros among what is read and what is written, bytes per quarter of a MiB.
fn copy_with_zeros(ledger: &mut Ledger, host: HostId, read: u64, written: u64) {
    let piece = |n: u32| Sample { offset: u64::from(n) << 18, crc: n * 64 * 7 };
    for sample in (1..50).map(piece) {
        let samples = [sample].into_iter().collect();
        let statistics =
            RequestStatistics { samples, hole_bytes: read, ..RequestStatistics::default() };
        did(ledger, host, Primitive::Read, A, &statistics);
        let statistics = RequestStatistics { zeroed_bytes: written, hole_bytes: 0, ..statistics };
        did(ledger, host, Primitive::Write, B, &statistics);
    }
}

#[test]
fn commands_and_requests_meet_in_the_row_of_host_and_volume() {
    let mut ledger = Ledger::default();
    let host = ledger.host("esx1");
    ledger.command(&ended(host, Primitive::Write, 4096, Outcome::Good));
    ledger.command(&ended(host, Primitive::Write, 512, Outcome::Refused(UNSUPPORTED)));
    ledger.command(&ended(host, Primitive::CompareAndWrite, 512, Outcome::Miscompare));
    copy(&mut ledger, host, 1 << 20, true);
    copy(&mut ledger, host, 1 << 20, false);
    let rows: Vec<&Row> = ledger.rows().collect();
    let (a, b) = (rows[0], rows[1]);
    let write = a.of(Primitive::Write);
    assert_eq!((write.commands, write.refused), (2, 1));
    assert_eq!((write.asked_bytes, write.done_bytes, write.micros), (4608, 4096, 200));
    assert_eq!((a.effects.miscompares, a.effects.source_bytes), (1, 1 << 20));
    assert_eq!(a.refusals[0].refusal, UNSUPPORTED);
    let copied = b.of(Primitive::ExtendedCopy);
    assert_eq!((copied.asked_bytes, copied.done_bytes), (2 << 20, 1 << 20));
    assert_eq!(b.effects.referenced_bytes, 1 << 20);
}

#[test]
fn rates_are_of_the_last_second_whole_or_several() {
    let mut ledger = Ledger::default();
    let host = ledger.host("esx1");
    (0..10).for_each(|_| ledger.command(&ended(host, Primitive::Read, 4096, Outcome::Good)));
    ledger.tick(Duration::from_millis(900), none);
    assert!(ledger.history().flow(Subject::Total).and_then(|series| series.last()).is_none());
    ledger.tick(Duration::from_secs(2), none);
    for subject in [Subject::Total, Subject::Volume(A), Subject::Host(host)] {
        let series = ledger.history().flow(subject).expect("a series");
        let columns = series.last_seconds(300);
        assert_eq!((columns.start, columns.values.len()), (0, 2), "{subject:?}");
        let read = columns.values[1][Primitive::Read.index()];
        assert_eq!((read.commands, read.bytes, read.latency_us()), (5.0, 20_480.0, 100.0));
    }
    ledger.tick(Duration::from_secs(3), none);
    let rates = ledger.rows().next().map(|row| *row.rates());
    assert_eq!(rates, Some(FlowSample::default()));
}

#[test]
fn time_that_jumps_or_goes_back_does_no_harm() {
    let mut ledger = Ledger::default();
    ledger.tick(Duration::from_secs(1_000_000), none);
    ledger.tick(Duration::from_secs(5), none);
    let total = ledger.history().flow(Subject::Total).expect("always there");
    assert_eq!(total.last_seconds(10).values.len(), 10);
}

#[test]
fn a_copy_by_hand_is_found_and_explained_by_the_setting() {
    let mut ledger = Ledger::default();
    let host = ledger.host("esx1");
    copy_by_hand(&mut ledger, host);
    let found: Vec<_> = ledger.host_copies().collect();
    assert_eq!((found.len(), found[0].source, found[0].destination), (1, A, B));
    let reason = |ledger: &Ledger| ledger.facts(found[0], POSSIBLE).reason();
    assert_eq!(reason(&ledger), Reason::SettingOff { attached: false });
    let row = ledger.rows().find(|row| row.volume == B).expect("a row");
    assert_eq!(row.effects.host_copied_bytes, 49 * 64 * 4096);
}

#[test]
fn a_refusal_explains_a_copy_until_a_later_one_succeeds() {
    let mut ledger = Ledger::default();
    let host = ledger.host("esx1");
    ledger.command(&ended(host, Primitive::ExtendedCopy, 0, Outcome::Refused(UNSUPPORTED)));
    ledger.tick(Duration::from_secs(5), none);
    copy_by_hand(&mut ledger, host);
    let reason = |ledger: &Ledger| {
        let copy = ledger.host_copies().next().expect("a copy").clone();
        ledger.facts(&copy, POSSIBLE).reason()
    };
    assert_eq!(reason(&ledger), Reason::Refused(UNSUPPORTED));
    copy(&mut ledger, host, 4096, true);
    assert_eq!(reason(&ledger), Reason::HostChose { datastores_fit: true });
}

#[test]
fn a_copy_that_leaves_zeros_out_makes_a_thick_disk_thin() {
    let reason = |ledger: &Ledger| {
        let copy = ledger.host_copies().next().expect("a copy").clone();
        ledger.facts(&copy, POSSIBLE).reason()
    };
    for (read, written, is_thin) in [
        (1 << 18, 0, true),
        (1 << 18, 1 << 16, true),
        (1 << 18, 3 << 16, false),
        (1 << 18, 1 << 18, false),
        (4096, 0, false),
        (0, 0, false),
    ] {
        let mut ledger = Ledger::default();
        let host = ledger.host("esx1");
        copy_with_zeros(&mut ledger, host, read, written);
        assert_eq!(reason(&ledger) == Reason::ThickToThin, is_thin, "{read}, {written}");
    }
}

#[test]
fn zeros_that_are_read_between_two_copies_speak_of_neither() {
    let mut ledger = Ledger::default();
    let host = ledger.host("esx1");
    copy_by_hand(&mut ledger, host);
    let backup = RequestStatistics { hole_bytes: 1 << 30, ..RequestStatistics::default() };
    did(&mut ledger, host, Primitive::Read, A, &backup);
    ledger.tick(Duration::from_secs(600), none);
    copy_by_hand(&mut ledger, host);
    let copy = ledger.host_copies().next().expect("a copy");
    assert!(!copy.skips_zeros());
    // Nor does a look that comes after the copy's end, unless it is a part of it.
    ledger.tick(Duration::from_secs(620), none);
    did(&mut ledger, host, Primitive::Read, A, &backup);
    assert!(!ledger.host_copies().any(HostCopy::skips_zeros));
    // After a long pause only what the second one did counts.
    ledger.tick(Duration::from_secs(1200), none);
    copy_with_zeros(&mut ledger, host, 1 << 18, 0);
    assert!(ledger.host_copies().all(HostCopy::skips_zeros));
}

#[test]
fn other_offloads_and_copies_elsewhere_speak_for_a_setting() {
    let mut ledger = Ledger::default();
    let host = ledger.host("esx1");
    copy_by_hand(&mut ledger, host);
    let reason = |ledger: &Ledger| {
        let copy = ledger.host_copies().next().expect("a copy").clone();
        ledger.facts(&copy, POSSIBLE).reason()
    };
    ledger.command(&ended(host, Primitive::CompareAndWrite, 512, Outcome::Good));
    assert_eq!(reason(&ledger), Reason::SettingOff { attached: true });
    let other = ledger.host("esx2");
    copy(&mut ledger, other, 4096, true);
    assert_eq!(reason(&ledger), Reason::SettingOff { attached: true });
    let statistics = RequestStatistics::default();
    ledger.request(&RequestEnded {
        host,
        primitive: Primitive::ExtendedCopy,
        volume: A,
        source: Some(A),
        asked_bytes: 4096,
        done: true,
        statistics: &statistics,
    });
    assert_eq!(reason(&ledger), Reason::HostChose { datastores_fit: false });
}

#[test]
fn a_pool_that_fills_evenly_is_forecast_from_what_ticks_told() {
    let (mut ledger, capacity, rate) = (Ledger::default(), 1e12, 1e7);
    for second in 1..=3_600_u64 {
        let free = capacity - rate * second as f64;
        let space = SpaceSample { free, ..SpaceSample::default() };
        // Every tenth second the tick comes late.
        if !second.is_multiple_of(10) {
            let pools = || BTreeMap::from([("p".to_owned(), space)]);
            ledger.tick(Duration::from_millis(second * 1000 + 7), pools);
        }
        let Some(series) = ledger.history().pool("p").filter(|_| second % 100 == 99) else {
            continue;
        };
        let until_full = crate::forecast(series).and_then(|known| known.seconds_until_full);
        let (told, truth) = (until_full.expect("a forecast"), free / rate);
        assert!((told - truth).abs() < 0.2 * truth, "second {second}: {told} for {truth}");
    }
}

#[test]
fn zeros_by_hand_are_explained_once_there_are_enough() {
    let mut ledger = Ledger::default();
    let host = ledger.host("esx1");
    let zeros = |ledger: &mut Ledger, bytes| {
        let statistics = RequestStatistics { zeroed_bytes: bytes, ..RequestStatistics::default() };
        let (primitive, source) = (Primitive::Write, None);
        let request = RequestEnded {
            host,
            primitive,
            volume: A,
            source,
            asked_bytes: 0,
            done: true,
            statistics: &statistics,
        };
        ledger.request(&request);
    };
    let reason = |ledger: &Ledger| ledger.rows().next().and_then(|row| zero_reason(row, None));
    zeros(&mut ledger, ZEROED_BYTES_MIN - 4096);
    assert_eq!(reason(&ledger), None);
    zeros(&mut ledger, 4096);
    assert_eq!(reason(&ledger), Some(Reason::ZeroingOff));
    ledger.command(&ended(host, Primitive::WriteSame, 512, Outcome::Refused(UNSUPPORTED)));
    assert_eq!(reason(&ledger), Some(Reason::Refused(UNSUPPORTED)));
    ledger.command(&ended(host, Primitive::WriteSame, 512, Outcome::Good));
    assert_eq!(reason(&ledger), Some(Reason::GuestZeros));
}

#[test]
fn unit_attentions_and_commands_to_nowhere_are_no_refusals() {
    let mut ledger = Ledger::default();
    let host = ledger.host("esx1");
    ledger.command(&ended(host, Primitive::CompareAndWrite, 512, Outcome::Interrupted));
    let nowhere = CommandEnded { volume: None, ..ended(host, Primitive::Read, 0, Outcome::Good) };
    ledger.command(&nowhere);
    assert_eq!((ledger.locks().count(), ledger.rows().count()), (0, 0));
    assert_eq!(ledger.latencies().count(), 2);
}

proptest! {
    /// Whatever happens, rows add up to what was put in.
    #[test]
    fn rows_add_up(
        events in proptest::collection::vec((0_u32..6, 0_u64..6, 0_usize..8, 0_u64..1 << 20, any::<bool>()), 0..300),
    ) {
        let mut ledger = Ledger::default();
        let (mut commands, mut asked, mut done) = (0, 0, 0);
        for (at, (host, volume, primitive, bytes, good)) in events.into_iter().enumerate() {
            let host = ledger.host(&format!("h{host}"));
            let outcome = if good { Outcome::Good } else { Outcome::Refused(UNSUPPORTED) };
            let volume = Some(VolumeId(volume));
            let command = ended(host, Primitive::ALL[primitive], bytes, outcome);
            ledger.command(&CommandEnded { volume, ..command });
            ledger.tick(Duration::from_millis(100 * at as u64), none);
            commands += 1;
            asked += bytes;
            done += if good { bytes } else { 0 };
        }
        let sums = || ledger.rows().flat_map(|row| row.sums);
        prop_assert_eq!(sums().map(|sums| sums.commands).sum::<u64>(), commands);
        prop_assert_eq!(sums().map(|sums| sums.asked_bytes).sum::<u64>(), asked);
        prop_assert_eq!(sums().map(|sums| sums.done_bytes).sum::<u64>(), done);
        let counted: u64 = ledger.latencies().map(|latency| latency.histogram.count()).sum();
        prop_assert_eq!(counted, commands);
    }
}
