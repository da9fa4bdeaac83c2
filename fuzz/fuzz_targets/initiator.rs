//! Shared by the fuzz targets of iSCSI: request PDUs, and moving bytes in and out.

use std::io::IoSlice;

use iscsi::{Connection, Event};

/// Who logs in where.
pub const NAMES: &str = "InitiatorName=iqn.2026-01.example:a\0TargetName=iqn.2026-01.example:b\0";

/// A request PDU without digests.
pub fn pdu(header: [u8; 48], data: &[u8]) -> Vec<u8> {
    let mut bytes = header.to_vec();
    bytes[4] = 0;
    bytes[5..8].copy_from_slice(&(data.len() as u32).to_be_bytes()[1..]);
    bytes.extend_from_slice(data);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// A login request with CmdSN 0; flags are those of byte 1.
pub fn login(flags: u8, text: &[u8]) -> Vec<u8> {
    let mut header = [0; 48];
    header[0] = 0x43;
    header[1] = flags;
    pdu(header, text)
}

/// Feeds all bytes, `piece` at a time, and passes every event to `answer`.
pub fn feed(
    connection: &mut Connection,
    mut bytes: &[u8],
    piece: usize,
    answer: &mut impl FnMut(&mut Connection, Event),
) {
    while !bytes.is_empty() && !connection.is_closed() {
        let place = connection.receive_target();
        let count = place.len().min(bytes.len()).min(piece.max(1));
        assert!(count > 0, "no room though every event was taken");
        place[..count].copy_from_slice(&bytes[..count]);
        connection.received(count);
        bytes = &bytes[count..];
        take_events(connection, answer);
    }
}

/// Takes every event there is.
pub fn take_events(connection: &mut Connection, answer: &mut impl FnMut(&mut Connection, Event)) {
    while let Some(event) = connection.next_event() {
        answer(connection, event);
    }
}

/// Sends everything, `count_max` bytes at a time; the pieces and the count of bytes must agree.
pub fn send_all(connection: &mut Connection, count_max: usize) {
    while connection.wants_to_send() {
        let before = connection.send_queue_bytes();
        let mut pieces: Vec<IoSlice<'_>> = Vec::new();
        connection.next_send(&mut pieces, 16);
        let offered: usize = pieces.iter().map(|piece| piece.len()).sum();
        assert!(offered > 0 && offered <= before);
        let count = offered.min(count_max.max(1));
        connection.sent(count);
        assert_eq!(connection.send_queue_bytes(), before - count);
    }
}
