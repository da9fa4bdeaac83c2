//! However the bytes are cut, the events and the answers are the same; and no bytes cause a panic.

use block::Rope;
use bytes::Bytes;
use proptest::prelude::*;

use super::initiator::{Initiator, NORMAL, Pdu, UNSOLICITED};
use crate::ConnectionConfig;
use crate::event::{Completion, Event, LoginTerms, TaskManagementResponse};

/// Feeds `bytes` in pieces of the given lengths, over and over, with an owner that answers at once.
/// Returns what happened and what was sent.
fn run(bytes: &[u8], pieces: &[usize]) -> (Vec<String>, Vec<u8>) {
    let mut initiator = Initiator::new(ConnectionConfig::default());
    let mut log = Vec::new();
    let mut output = Vec::new();
    let mut rest = bytes;
    for &piece in pieces.iter().cycle() {
        let place = initiator.target.receive_target();
        let count = piece.min(rest.len()).min(place.len());
        if count == 0 {
            break;
        }
        place[..count].copy_from_slice(&rest[..count]);
        initiator.target.received(count);
        rest = &rest[count..];
        while let Some(event) = initiator.target.next_event() {
            log.push(describe(&event));
            answer(&mut initiator, event);
        }
        output.extend(initiator.take_output());
    }
    (log, output)
}

fn describe(event: &Event) -> String {
    match event {
        Event::DataOut { task, data } => format!("data {task} {}", crc32c::crc32c(data)),
        event => format!("{event:?}"),
    }
}

fn answer(initiator: &mut Initiator, event: Event) {
    let target = &mut initiator.target;
    match event {
        Event::Login(_) => target.login_admit(LoginTerms::open(1)),
        Event::Authenticated(_) => target.login_accept(1),
        Event::SendTargets(_) => target.send_targets_response(&[]),
        Event::TaskManagement(request) => target.respond_task_management(
            request.initiator_task_tag,
            TaskManagementResponse::FunctionComplete,
        ),
        Event::Command(command) if command.write && command.cdb[1] == 0 => {
            target.accept_data(command.task, u32::from(command.cdb[2]) << 8);
        }
        Event::Command(command) => {
            let data_in = Rope::from(Bytes::from(vec![command.cdb[3]; 700]));
            target.respond(command.task, Completion { data_in, ..Completion::default() });
        }
        Event::DataOut { task, .. } => target.respond(task, Completion::default()),
        Event::LoggedIn(_)
        | Event::Aborted { .. }
        | Event::LoggedOut(_)
        | Event::LogoutConnection { .. }
        | Event::TaskReassign(_)
        | Event::Closed(_) => {}
    }
}

/// A request in full-feature phase; mostly sensible.
fn request() -> impl Strategy<Value = Pdu> {
    let opcode = prop::sample::select(vec![0x40u8, 0x41, 0x41, 0x41, 0x42, 0x44, 0x05, 0x05, 0x10]);
    (opcode, any::<u8>(), 0u32..4, 0u32..40_000, any::<[u8; 4]>(), 0usize..40_000).prop_map(
        |(opcode, flags, tag, length, cdb, data_length)| {
            let mut pdu = Pdu::new(opcode, flags | 0x80, tag).word(20, length).word(24, 100);
            pdu.bhs.0[32..36].copy_from_slice(&cdb);
            match opcode {
                0x41 if flags & 0x20 != 0 => {
                    pdu.bhs.0[1] = flags & 0xa0;
                    pdu.bhs.0[33] &= 1;
                    pdu.data(vec![flags; data_length.min(length as usize)])
                }
                0x05 => {
                    pdu.word(20, UNSOLICITED).word(36, 0).word(40, 0).data(vec![7; data_length])
                }
                0x44 => pdu.word(20, UNSOLICITED).data("SendTargets=iqn.x"),
                0x40 => pdu.data(vec![3; data_length % 100]),
                _ => pdu,
            }
        },
    )
}

fn script() -> impl Strategy<Value = Vec<u8>> {
    (any::<bool>(), prop::collection::vec(request(), 0..12)).prop_map(|(digests, requests)| {
        let keys = if digests { "HeaderDigest=CRC32C\0DataDigest=CRC32C\0" } else { "" };
        let login = Pdu::login(0x87, &format!("{NORMAL}InitialR2T=No\0{keys}"));
        let mut bytes = login.bytes(false, false);
        for pdu in requests {
            bytes.extend(pdu.bytes(digests, digests));
        }
        bytes
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn cutting_the_stream_anywhere_changes_nothing(
        bytes in script(),
        pieces in prop::collection::vec(1usize..3000, 1..20),
    ) {
        let whole = run(&bytes, &[usize::MAX]);
        prop_assert_eq!(&run(&bytes, &pieces), &whole);
        prop_assert_eq!(&run(&bytes, &[20_000]), &whole);
    }

    #[test]
    fn damaged_bytes_never_panic(
        bytes in script(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..20),
    ) {
        let mut bytes = bytes;
        for (index, byte) in damage {
            let index = index.index(bytes.len());
            bytes[index] = byte;
        }
        run(&bytes, &[1500]);
    }

    #[test]
    fn random_keys_never_panic(text in prop::collection::vec(any::<u8>(), 0..500)) {
        let login = Pdu::login(0x87, NORMAL);
        let data = [&login.data[..], &text].concat();
        run(&login.data(data).bytes(false, false), &[usize::MAX]);
    }
}

#[test]
fn byte_by_byte_is_no_different() {
    let mut bytes = Pdu::login(0x87, &format!("{NORMAL}InitialR2T=No\0")).bytes(false, false);
    let mut write = Pdu::command(0x20, 1, 100, 1024).data(vec![1; 5]);
    write.bhs.0[34] = 4;
    bytes.extend(write.bytes(false, false));
    bytes.extend(Pdu::data_out(0x80, 1, UNSOLICITED, 0, 5).data(vec![2; 1019]).bytes(false, false));
    let (log, output) = run(&bytes, &[1]);
    assert_eq!((&log, &output), (&run(&bytes, &[usize::MAX]).0, &run(&bytes, &[usize::MAX]).1));
    assert_eq!(log.len(), 5, "{log:?}");
}
