//! Tests of the send queue: a bounded part of Data-In is cut and digested ahead of the socket.
//!
//! The story: the 32 MiB of a READ were cut into PDUs and digested when they came from the pool, in
//! one turn of the daemon's loop, while all other connections waited.

use bytes::Bytes;

use super::*;
use crate::pdu::response;

const MIB: usize = 1 << 20;

fn data_in(data: Rope, segment_max: usize, burst_max: usize, status: bool) -> DataIn {
    let mut first = Bhs::response(response::DATA_IN, 7);
    first.set_u32(28, 1234);
    let mut last = first;
    last.0[1] = FINAL | 1;
    last.set_u32(24, 99);
    DataIn {
        first,
        data,
        segment_max,
        burst_max,
        last: status.then_some(last),
        start: (0, 0),
        kept: false,
        stat_sn: None,
    }
}

/// Bytes that differ from place to place, in pieces of uneven lengths.
fn rope(length: usize) -> Rope {
    let bytes: Bytes = (0..length).map(|at| (at * 31 + at / 251) as u8).collect();
    let mut rope = Rope::new();
    let (mut at, mut step) = (0, 1);
    while at < length {
        let end = length.min(at + step);
        rope.push(bytes.slice(at..end));
        (at, step) = (end, step * 3 % 70_001 + 1);
    }
    rope
}

/// Sends everything, so many bytes at a time; the most that was ready at once, and what was sent.
fn drain(queue: &mut SendQueue, step: usize) -> (usize, Vec<u8>) {
    let (mut most, mut sent) = (0, Vec::new());
    while queue.bytes() > 0 {
        most = most.max(queue.ready_bytes);
        let mut pieces: Vec<IoSlice<'_>> = Vec::new();
        queue.next(&mut pieces, 64);
        let offered: Vec<u8> = pieces.iter().flat_map(|piece| piece.iter().copied()).collect();
        assert!(!offered.is_empty(), "{} bytes wait and none is ready", queue.bytes());
        let taken = step.min(offered.len());
        sent.extend_from_slice(&offered[..taken]);
        queue.sent(taken);
    }
    assert_eq!((queue.again_bytes(), queue.memory()), (0, 0));
    (most, sent)
}

/// The PDUs in what was sent, with digests checked.
fn parse(mut sent: &[u8]) -> Vec<(Bhs, Vec<u8>)> {
    let mut pdus = Vec::new();
    while !sent.is_empty() {
        let bhs = Bhs(sent[..BHS_LENGTH].try_into().unwrap());
        assert_eq!(sent[BHS_LENGTH..BHS_LENGTH + 4], crc32c(&bhs.0));
        let length = bhs.data_segment_length();
        let padded = length.next_multiple_of(4);
        let segment = &sent[BHS_LENGTH + 4..][..padded];
        sent = &sent[BHS_LENGTH + 4 + padded..];
        if length > 0 {
            assert_eq!(sent[..4], crc32c(segment));
            sent = &sent[4..];
        }
        pdus.push((bhs, segment[..length].to_vec()));
    }
    pdus
}

#[test]
fn what_is_cut_ahead_is_bounded_and_all_arrives_in_order() {
    for (length, segment_max, burst_max, step) in [
        (32 * MIB, 256 << 10, MIB, 256 << 10),
        (3 * MIB + 1, 8192, 262_144, 100_003),
        (MIB, 512, 512, 4096),
        (70_000, 16_000, 30_000, 7),
        (5, 8192, 8192, 1),
    ] {
        for status in [true, false] {
            let mut queue = SendQueue::new();
            queue.set_digests(true, true);
            let data = rope(length);
            let expected = data.to_vec();
            let data_in = data_in(data, segment_max, burst_max, status);
            let pdus = data_in.pdus();
            queue.push_data_in(data_in);
            queue.push(Bhs::response(response::SCSI_RESPONSE, 8), Rope::new());
            let (most, sent) = drain(&mut queue, step);
            assert!(most <= READY_BYTES + segment_max + 64, "{most} bytes were ready");
            let mut found = parse(&sent);
            let (response, _) = found.pop().unwrap();
            assert_eq!(response.initiator_task_tag(), 8);
            assert_eq!(found.len() as u32, pdus);
            let mut offset = 0;
            for (data_sn, (bhs, segment)) in found.iter().enumerate() {
                let end = offset + segment.len();
                assert_eq!((bhs.u32(36), bhs.u32(40)), (data_sn as u32, offset as u32));
                assert_eq!(segment[..], expected[offset..end]);
                assert!(
                    segment.len() <= segment_max && offset / burst_max == (end - 1) / burst_max
                );
                let ends_sequence = end % burst_max == 0 || end == length;
                let is_last = end == length && status;
                assert_eq!(bhs.is_final(), ends_sequence);
                assert_eq!(bhs.0[1] & 1 == 1, is_last);
                assert_eq!((bhs.u32(24), bhs.u32(28)), (if is_last { 99 } else { 0 }, 1234));
                offset = end;
            }
            assert_eq!(offset, length);
        }
    }
}

#[test]
fn many_pdus_wait_without_their_digests() {
    let mut queue = SendQueue::new();
    queue.set_digests(true, true);
    for number in 0..64 {
        let data = Rope::from(Bytes::from(vec![number as u8; 256 << 10]));
        queue.push_again(Bhs::response(response::DATA_IN, number), data);
        assert!(queue.ready_bytes < READY_BYTES + (257 << 10));
    }
    assert_eq!(queue.again_bytes(), queue.bytes());
    assert_eq!(queue.bytes(), 64 * ((256 << 10) + BHS_LENGTH + 8));
    let (_, sent) = drain(&mut queue, MIB);
    let tags: Vec<u32> = parse(&sent).iter().map(|(bhs, _)| bhs.initiator_task_tag()).collect();
    assert_eq!(tags, (0..64).collect::<Vec<_>>());
}

#[test]
fn a_queue_that_is_cleared_begins_anew() {
    let mut queue = SendQueue::new();
    queue.set_digests(true, true);
    queue.push_data_in(data_in(rope(4 * MIB), 8192, MIB, true));
    queue.sent(100_000);
    queue.clear();
    assert_eq!((queue.bytes(), queue.memory()), (0, 0));
    queue.push_data_in(data_in(rope(10_000), 8192, MIB, true));
    let (_, sent) = drain(&mut queue, 4096);
    let sizes: Vec<usize> = parse(&sent).iter().map(|(_, segment)| segment.len()).collect();
    assert_eq!(sizes, [8192, 1808]);
}

#[test]
fn what_is_not_cut_yet_is_given_by_whole_commands_the_latest_first() {
    let mut queue = SendQueue::new();
    for tag in 1..=3 {
        let mut data_in = data_in(rope(MIB), 512, MIB, false);
        data_in.first = Bhs::response(response::DATA_IN, tag);
        queue.push_data_in(DataIn { kept: true, ..data_in });
        queue.push_kept(Bhs::response(response::SCSI_RESPONSE, tag), Rope::new(), Some(tag));
    }
    let cut = queue.take_kept().len();
    assert!((1..2048).contains(&cut), "{cut}");
    let all = queue.uncut(usize::MAX);
    assert_eq!(all.len() + cut, 3 * (2048 + 1));
    assert_eq!(all[0].bhs.u32(36), cut as u32, "it goes on where cutting stopped");
    for (pdus_max, tags) in
        [(3 * 2049, &[1, 2, 3][..]), (2 * 2049, &[2, 3]), (4097, &[3]), (1, &[])]
    {
        let mut found: Vec<u32> =
            queue.uncut(pdus_max).iter().map(|sent| sent.bhs.initiator_task_tag()).collect();
        found.dedup();
        assert_eq!(found, tags, "{pdus_max}");
    }
}
