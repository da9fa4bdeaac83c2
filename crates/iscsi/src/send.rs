//! What waits to be sent: headers made here, data shared with whoever produced it.

use std::collections::VecDeque;
use std::io::IoSlice;

use block::Rope;

use crate::digest::{Running, crc32c};
use crate::limits::PDU_BYTES;
use crate::pdu::{BHS_LENGTH, Bhs};

/// Places for PDUs that an empty queue keeps.
const KEPT_PDUS_MAX: usize = 1024;

/// One PDU.
struct Outgoing {
    /// Basic header segment and header digest.
    header: [u8; BHS_LENGTH + 4],
    header_length: usize,
    data: Rope,
    /// Padding (up to 3 bytes) and data digest.
    trailer: [u8; 8],
    trailer_length: usize,
    /// It was sent before, and the initiator asked for it again.
    again: bool,
}

impl Outgoing {
    fn len(&self) -> usize {
        self.header_length + self.data.len() + self.trailer_length
    }
}

/// The sending half of a connection.
pub(crate) struct SendQueue {
    queue: VecDeque<Outgoing>,
    /// Bytes of the first PDU that were sent already.
    sent_of_first: usize,
    bytes: usize,
    /// Those among them that are sent again, each until its PDU is sent.
    again_bytes: usize,
    header_digest: bool,
    data_digest: bool,
}

impl SendQueue {
    pub(crate) fn new() -> Self {
        Self {
            queue: VecDeque::new(),
            sent_of_first: 0,
            bytes: 0,
            again_bytes: 0,
            header_digest: false,
            data_digest: false,
        }
    }

    pub(crate) fn set_digests(&mut self, header: bool, data: bool) {
        self.header_digest = header;
        self.data_digest = data;
    }

    /// Appends a PDU, completing its header with the length of `data`.
    pub(crate) fn push(&mut self, bhs: Bhs, data: Rope) {
        let pdu = self.pdu(bhs, data);
        self.bytes += pdu.len();
        self.queue.push_back(pdu);
    }

    /// Appends a PDU that was sent before.
    pub(crate) fn push_again(&mut self, bhs: Bhs, data: Rope) {
        let pdu = Outgoing { again: true, ..self.pdu(bhs, data) };
        self.bytes += pdu.len();
        self.again_bytes += pdu.len();
        self.queue.push_back(pdu);
    }

    fn pdu(&self, mut bhs: Bhs, data: Rope) -> Outgoing {
        bhs.set_data_segment_length(data.len());
        let mut header = [0; BHS_LENGTH + 4];
        header[..BHS_LENGTH].copy_from_slice(&bhs.0);
        let mut header_length = BHS_LENGTH;
        if self.header_digest {
            header[BHS_LENGTH..].copy_from_slice(&crc32c(&bhs.0));
            header_length += 4;
        }
        let (trailer, trailer_length) = self.trailer(&data);
        Outgoing { header, header_length, data, trailer, trailer_length, again: false }
    }

    fn trailer(&self, data: &Rope) -> ([u8; 8], usize) {
        let mut trailer = [0; 8];
        let pad = data.len().next_multiple_of(4) - data.len();
        if !self.data_digest || data.is_empty() {
            return (trailer, pad);
        }
        let mut digest = Running::new();
        for piece in data.pieces() {
            digest.update(piece);
        }
        digest.update(&trailer[..pad]);
        trailer[pad..pad + 4].copy_from_slice(&digest.finish());
        (trailer, pad + 4)
    }

    /// Forgets what was not sent.
    pub(crate) fn clear(&mut self) {
        self.queue = VecDeque::new();
        (self.sent_of_first, self.bytes, self.again_bytes) = (0, 0, 0);
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Bytes of PDUs that are being sent again.
    pub(crate) fn again_bytes(&self) -> usize {
        self.again_bytes
    }

    /// Memory that it holds, in bytes.
    pub(crate) fn memory(&self) -> usize {
        self.bytes + self.queue.len() * PDU_BYTES
    }

    pub(crate) fn next<'a>(&'a self, into: &mut impl Extend<IoSlice<'a>>, pieces_max: usize) {
        let pieces = self.queue.iter().flat_map(|pdu| {
            let header = &pdu.header[..pdu.header_length];
            let trailer = &pdu.trailer[..pdu.trailer_length];
            let data = pdu.data.pieces().iter().map(|piece| &piece[..]);
            std::iter::once(header).chain(data).chain(std::iter::once(trailer))
        });
        let mut skip = self.sent_of_first;
        let unsent = pieces.filter_map(move |piece| {
            let skipped = skip.min(piece.len());
            skip -= skipped;
            (skipped < piece.len()).then(|| IoSlice::new(&piece[skipped..]))
        });
        into.extend(unsent.take(pieces_max));
    }

    /// # Panics
    /// If `count` exceeds what there was to send.
    pub(crate) fn sent(&mut self, count: usize) {
        assert!(count <= self.bytes, "more sent than there was");
        self.bytes -= count;
        self.sent_of_first += count;
        while let Some(first) = self.queue.front()
            && self.sent_of_first >= first.len()
        {
            self.sent_of_first -= first.len();
            self.again_bytes -= if first.again { first.len() } else { 0 };
            self.queue.pop_front();
        }
        // A queue that was long for once does not stay so large.
        if self.queue.is_empty() && self.queue.capacity() > KEPT_PDUS_MAX {
            self.queue = VecDeque::new();
        }
    }
}
