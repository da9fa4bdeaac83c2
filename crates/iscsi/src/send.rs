//! Send queue: headers made here, and data that is shared with its producer instead of copied.

use std::collections::VecDeque;
use std::io::IoSlice;

use block::Rope;

use crate::digest::{Running, crc32c};
use crate::limits::{PDU_BYTES, READY_BYTES};
use crate::pdu::{BHS_LENGTH, Bhs, FINAL};

/// Places for PDUs that an empty queue keeps.
const KEPT_PDUS_MAX: usize = 1024;

/// One PDU, ready to be sent.
struct Outgoing {
    /// Basic header segment and header digest.
    header: [u8; BHS_LENGTH + 4],
    header_length: usize,
    data: Rope,
    /// Padding (up to 3 bytes) and data digest.
    trailer: [u8; 8],
    trailer_length: usize,
    origin: Origin,
}

impl Outgoing {
    fn len(&self) -> usize {
        self.header_length + self.data.len() + self.trailer_length
    }
}

/// Why a PDU is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Origin {
    First,
    /// A retransmission that the initiator asked for.
    Again,
}

/// Queue behind the PDUs that are ready.
enum Waiting {
    Pdu(Bhs, Rope, Origin),
    DataIn(DataIn),
}

/// The Data-In of one command, which is cut into PDUs as they are sent.
pub(crate) struct DataIn {
    /// DataSN 0: what all its PDUs have in common.
    pub(crate) first: Bhs,
    pub(crate) data: Rope,
    /// Most bytes of one PDU, and of one sequence (RFC 7143 13.12, 13.13).
    pub(crate) segment_max: usize,
    pub(crate) burst_max: usize,
    /// Replaces `first` in the last PDU, but for DataSN and buffer offset, if that carries the status.
    pub(crate) last: Option<Bhs>,
}

impl DataIn {
    /// How many PDUs it makes.
    pub(crate) fn pdus(&self) -> u32 {
        let whole = self.data.len() / self.burst_max;
        let rest = self.data.len() % self.burst_max;
        let pdus =
            whole * self.burst_max.div_ceil(self.segment_max) + rest.div_ceil(self.segment_max);
        pdus as u32
    }
}

/// How far the first of the waiting ones is cut, if that is Data-In.
#[derive(Default)]
struct Cut {
    data_sn: u32,
    offset: usize,
    /// Piece of the data that comes next, and byte of it.
    piece: usize,
    byte: usize,
}

impl Cut {
    /// The next PDU; `None` after the last.
    fn next(&mut self, whole: &DataIn) -> Option<(Bhs, Rope)> {
        let length = whole.data.len();
        if self.offset == length {
            return None;
        }
        let burst_end = length.min((self.offset / whole.burst_max + 1) * whole.burst_max);
        let end = burst_end.min(self.offset + whole.segment_max);
        let mut bhs = whole.first;
        bhs.0[1] = if end == burst_end { FINAL } else { 0 };
        if let Some(last) = whole.last.filter(|_| end == length) {
            bhs = last;
        }
        bhs.set_u32(36, self.data_sn);
        bhs.set_u32(40, self.offset as u32);
        let data = self.take(&whole.data, end - self.offset);
        (self.data_sn, self.offset) = (self.data_sn + 1, end);
        Some((bhs, data))
    }

    /// The next bytes, found without a walk from the start.
    fn take(&mut self, data: &Rope, mut length: usize) -> Rope {
        let mut part = Rope::new();
        while length > 0 {
            let piece = &data.pieces()[self.piece];
            let take = length.min(piece.len() - self.byte);
            part.push(piece.slice(self.byte..self.byte + take));
            length -= take;
            self.byte += take;
            if self.byte == piece.len() {
                (self.piece, self.byte) = (self.piece + 1, 0);
            }
        }
        part
    }
}

/// The sending half of a connection. PDUs are cut, and their digests made, a bounded part ahead of
/// what the socket takes, however much a command yields; their order and numbers are settled when
/// they are pushed.
pub(crate) struct SendQueue {
    ready: VecDeque<Outgoing>,
    waiting: VecDeque<Waiting>,
    cut: Cut,
    /// Bytes of the first PDU that were sent already.
    sent_of_first: usize,
    ready_bytes: usize,
    /// Bytes that wait, without the headers of what is not cut yet.
    waiting_bytes: usize,
    /// Those that are sent again, each until its PDU is sent.
    again_bytes: usize,
    header_digest: bool,
    data_digest: bool,
}

impl SendQueue {
    pub(crate) fn new() -> Self {
        Self {
            ready: VecDeque::new(),
            waiting: VecDeque::new(),
            cut: Cut::default(),
            sent_of_first: 0,
            ready_bytes: 0,
            waiting_bytes: 0,
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
        self.push_as(bhs, data, Origin::First);
    }

    /// Appends a PDU that was sent before.
    pub(crate) fn push_again(&mut self, bhs: Bhs, data: Rope) {
        self.again_bytes += self.length(&data);
        self.push_as(bhs, data, Origin::Again);
    }

    /// Appends all Data-In of a command.
    pub(crate) fn push_data_in(&mut self, data_in: DataIn) {
        self.waiting_bytes += data_in.data.len();
        self.waiting.push_back(Waiting::DataIn(data_in));
        self.advance();
    }

    fn push_as(&mut self, bhs: Bhs, data: Rope, origin: Origin) {
        self.waiting_bytes += self.length(&data);
        self.waiting.push_back(Waiting::Pdu(bhs, data, origin));
        self.advance();
    }

    /// Makes what waits ready, up to [`READY_BYTES`] and one PDU.
    fn advance(&mut self) {
        while self.ready_bytes < READY_BYTES
            && let Some(first) = self.waiting.front_mut()
        {
            let (bhs, data, origin) = match first {
                Waiting::Pdu(bhs, data, origin) => {
                    let whole = (*bhs, std::mem::take(data), *origin);
                    self.waiting.pop_front();
                    self.waiting_bytes -= self.length(&whole.1);
                    whole
                }
                Waiting::DataIn(data_in) => match self.cut.next(data_in) {
                    Some((bhs, data)) => {
                        self.waiting_bytes -= data.len();
                        (bhs, data, Origin::First)
                    }
                    None => {
                        self.cut = Cut::default();
                        self.waiting.pop_front();
                        continue;
                    }
                },
            };
            let pdu = Outgoing { origin, ..self.pdu(bhs, data) };
            self.ready_bytes += pdu.len();
            self.ready.push_back(pdu);
        }
    }

    /// Bytes of a PDU with so much data.
    fn length(&self, data: &Rope) -> usize {
        let header = BHS_LENGTH + if self.header_digest { 4 } else { 0 };
        let digest = if self.data_digest && !data.is_empty() { 4 } else { 0 };
        header + data.len().next_multiple_of(4) + digest
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
        Outgoing { header, header_length, data, trailer, trailer_length, origin: Origin::First }
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
        let (header_digest, data_digest) = (self.header_digest, self.data_digest);
        *self = Self { header_digest, data_digest, ..Self::new() };
    }

    /// Bytes that are to be sent, without the headers of what is not cut yet.
    pub(crate) fn bytes(&self) -> usize {
        self.ready_bytes + self.waiting_bytes
    }

    /// Bytes of PDUs that are being sent again.
    pub(crate) fn again_bytes(&self) -> usize {
        self.again_bytes
    }

    /// Memory that it holds, in bytes.
    pub(crate) fn memory(&self) -> usize {
        self.bytes() + (self.ready.len() + self.waiting.len()) * PDU_BYTES
    }

    pub(crate) fn next<'a>(&'a self, into: &mut impl Extend<IoSlice<'a>>, pieces_max: usize) {
        let pieces = self.ready.iter().flat_map(|pdu| {
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
    /// If `count` exceeds what [`Self::next`] had to give.
    pub(crate) fn sent(&mut self, count: usize) {
        assert!(count <= self.ready_bytes, "more sent than there was");
        self.ready_bytes -= count;
        self.sent_of_first += count;
        while let Some(first) = self.ready.front()
            && self.sent_of_first >= first.len()
        {
            self.sent_of_first -= first.len();
            self.again_bytes -= if first.origin == Origin::Again { first.len() } else { 0 };
            self.ready.pop_front();
        }
        self.advance();
        // A queue that was long for once does not stay so large.
        if self.waiting.is_empty() && self.waiting.capacity() > KEPT_PDUS_MAX {
            self.waiting = VecDeque::new();
        }
        if self.ready.is_empty() && self.ready.capacity() > KEPT_PDUS_MAX {
            self.ready = VecDeque::new();
        }
    }
}

#[cfg(test)]
mod tests;
