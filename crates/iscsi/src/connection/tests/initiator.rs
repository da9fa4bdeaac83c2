//! A little initiator: builds request PDUs, feeds them, and takes the answers apart.

use std::collections::VecDeque;
use std::io::IoSlice;

use crate::event::{Completion, Event, LoginTerms};
use crate::pdu::{Bhs, NO_TAG};
use crate::{Connection, ConnectionConfig};

/// A PDU, sent or received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pdu {
    pub(super) bhs: Bhs,
    pub(super) ahs: Vec<u8>,
    pub(super) data: Vec<u8>,
}

impl Pdu {
    pub(super) fn new(opcode: u8, flags: u8, initiator_task_tag: u32) -> Self {
        let mut bhs = Bhs([0; 48]);
        bhs.0[0] = opcode;
        bhs.0[1] = flags;
        bhs.set_u32(16, initiator_task_tag);
        Self { bhs, ahs: Vec::new(), data: Vec::new() }
    }

    pub(super) fn word(mut self, offset: usize, value: u32) -> Self {
        self.bhs.set_u32(offset, value);
        self
    }

    pub(super) fn lun(mut self, lun: u64) -> Self {
        self.bhs.set_lun(lun);
        self
    }

    pub(super) fn data(mut self, data: impl Into<Vec<u8>>) -> Self {
        self.data = data.into();
        self
    }

    /// A SCSI command; flags: F 80h, R 40h, W 20h.
    pub(super) fn command(flags: u8, tag: u32, cmd_sn: u32, length: u32) -> Self {
        let mut pdu = Self::new(0x01, flags | 1, tag).word(20, length).word(24, cmd_sn);
        pdu.bhs.0[32] = 0x2a;
        pdu
    }

    pub(super) fn data_out(
        flags: u8,
        tag: u32,
        transfer_tag: u32,
        data_sn: u32,
        offset: u32,
    ) -> Self {
        Self::new(0x05, flags, tag).word(20, transfer_tag).word(36, data_sn).word(40, offset)
    }

    pub(super) fn login(flags: u8, text: &str) -> Self {
        Self::new(0x43, flags, 9).word(24, 100).word(28, 500).data(text)
    }

    pub(super) fn bytes(&self, header_digest: bool, data_digest: bool) -> Vec<u8> {
        let mut bhs = self.bhs;
        bhs.set_data_segment_length(self.data.len());
        bhs.0[4] = (self.ahs.len() / 4) as u8;
        let mut bytes = [&bhs.0[..], &self.ahs].concat();
        if header_digest {
            bytes.extend(crc32c::crc32c(&bytes).to_le_bytes());
        }
        let mut segment = self.data.clone();
        segment.resize(segment.len().next_multiple_of(4), 0);
        let digest = crc32c::crc32c(&segment).to_le_bytes();
        bytes.extend(segment);
        if data_digest && !self.data.is_empty() {
            bytes.extend(digest);
        }
        bytes
    }
}

/// What a test reads of an answer.
impl Pdu {
    pub(super) fn opcode(&self) -> u8 {
        self.bhs.0[0]
    }

    pub(super) fn text(&self) -> String {
        String::from_utf8(self.data.clone()).unwrap().replace('\0', " ")
    }
}

/// A connection and the initiator at its other end.
pub(super) struct Initiator {
    pub(super) target: Connection,
    pub(super) header_digest: bool,
    pub(super) data_digest: bool,
    output: Vec<u8>,
    /// Events that had to be taken to make room.
    early: VecDeque<Event>,
}

pub(super) const NORMAL: &str =
    "InitiatorName=iqn.2026-01.test:host\0TargetName=iqn.2026-01.test:array\0SessionType=Normal\0";

impl Initiator {
    pub(super) fn new(config: ConnectionConfig) -> Self {
        Self {
            target: Connection::new(config),
            header_digest: false,
            data_digest: false,
            output: Vec::new(),
            early: VecDeque::new(),
        }
    }

    /// In full-feature phase of a normal session, with these operational keys. The first command
    /// has number 100.
    pub(super) fn logged_in(keys: &str) -> Self {
        Self::logged_in_with(ConnectionConfig::default(), keys)
    }

    pub(super) fn logged_in_with(config: ConnectionConfig, keys: &str) -> Self {
        let mut initiator = Self::new(config);
        initiator.send(&Pdu::login(0x87, &format!("{NORMAL}{keys}")));
        assert!(matches!(initiator.event(), Some(Event::Login(_))));
        initiator.target.login_admit(LoginTerms::open(1));
        assert!(matches!(initiator.event(), Some(Event::Authenticated(_))));
        initiator.target.login_accept(7);
        let Some(Event::LoggedIn(parameters)) = initiator.event() else { panic!("no login") };
        initiator.answers();
        initiator.header_digest = parameters.header_digest;
        initiator.data_digest = parameters.data_digest;
        initiator
    }

    pub(super) fn send(&mut self, pdu: &Pdu) {
        let bytes = pdu.bytes(self.header_digest, self.data_digest);
        self.send_bytes(&bytes);
    }

    /// Feeds all bytes; nothing is parsed unless room is needed.
    pub(super) fn send_bytes(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            if self.target.receive_target().is_empty() {
                while let Some(event) = self.target.next_event() {
                    self.early.push_back(event);
                }
            }
            let place = self.target.receive_target();
            let count = place.len().min(bytes.len());
            assert!(count > 0, "no room");
            place[..count].copy_from_slice(&bytes[..count]);
            self.target.received(count);
            bytes = &bytes[count..];
        }
    }

    pub(super) fn event(&mut self) -> Option<Event> {
        self.early.pop_front().or_else(|| self.target.next_event())
    }

    /// The event comes again.
    pub(super) fn put_back(&mut self, event: Event) {
        self.early.push_front(event);
    }

    pub(super) fn good(&mut self, task: u32) {
        self.target.respond(task, Completion::default());
    }

    /// Everything that the target sends now.
    pub(super) fn answers(&mut self) -> Vec<Pdu> {
        self.collect_output(1000);
        let output = std::mem::take(&mut self.output);
        let (mut rest, mut pdus) = (&output[..], Vec::new());
        while !rest.is_empty() {
            pdus.push(self.parse(&mut rest));
        }
        pdus
    }

    /// The only answer there is.
    pub(super) fn answer(&mut self) -> Pdu {
        let mut answers = self.answers();
        assert_eq!(answers.len(), 1, "{answers:?}");
        answers.remove(0)
    }

    /// Sends as a socket that takes `count_max` bytes at a time does.
    pub(super) fn collect_output(&mut self, count_max: usize) {
        while self.target.wants_to_send() {
            let mut pieces: Vec<IoSlice<'_>> = Vec::new();
            self.target.next_send(&mut pieces, 5);
            assert!(!pieces.is_empty() && pieces.len() <= 5);
            let mut sent: Vec<u8> = pieces.iter().flat_map(|piece| piece.to_vec()).collect();
            sent.truncate(count_max);
            let count = sent.len();
            self.output.extend(sent);
            self.target.sent(count);
        }
        assert_eq!(self.target.send_queue_bytes(), 0);
    }

    pub(super) fn take_output(&mut self) -> Vec<u8> {
        self.collect_output(777);
        std::mem::take(&mut self.output)
    }

    fn parse(&self, bytes: &mut &[u8]) -> Pdu {
        let mut take = |length: usize| bytes.split_off(..length).unwrap();
        let bhs = Bhs(take(48).try_into().unwrap());
        if self.header_digest {
            assert_eq!(take(4), crc32c::crc32c(&bhs.0).to_le_bytes());
        }
        let length = bhs.data_segment_length();
        let data = take(length.next_multiple_of(4));
        if self.data_digest && length > 0 {
            assert_eq!(take(4), crc32c::crc32c(data).to_le_bytes());
        }
        Pdu { bhs, ahs: Vec::new(), data: data[..length].to_vec() }
    }
}

/// The fields of a SCSI Response: status, residual flags, residual count.
pub(super) fn status(pdu: &Pdu) -> (u8, u8, u32) {
    assert!(pdu.opcode() == 0x21 || (pdu.opcode() == 0x25 && pdu.bhs.0[1] & 1 == 1), "{pdu:?}");
    (pdu.bhs.0[3], pdu.bhs.0[1] & 0x7e, pdu.bhs.u32(44))
}

/// ASC and ASCQ of a SCSI Response with fixed format sense data.
pub(super) fn additional_sense(pdu: &Pdu) -> [u8; 2] {
    assert_eq!(pdu.data[..2], [0, 18]);
    [pdu.data[14], pdu.data[15]]
}

pub(super) const UNSOLICITED: u32 = NO_TAG;
