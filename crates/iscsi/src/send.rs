//! Send queue: headers made here, and data that is shared with its producer instead of copied.

use std::collections::VecDeque;
use std::io::IoSlice;

use block::Rope;

use crate::digest::{Running, crc32c};
use crate::history::Sent;
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
    /// The initiator may ask for it again. Set if it carries status.
    Kept {
        stat_sn: Option<u32>,
    },
    /// A retransmission that the initiator asked for.
    Again,
}

impl Origin {
    /// What is remembered of a PDU of this origin.
    fn kept(self, bhs: Bhs, data: &Rope) -> Option<Sent> {
        match self {
            Self::Kept { stat_sn } => Some(Sent { bhs, data: data.clone(), stat_sn }),
            Self::First | Self::Again => None,
        }
    }
}

/// Queue behind the PDUs that are ready.
enum Waiting {
    Pdu(Bhs, Rope, Origin),
    DataIn(DataIn),
}

impl Waiting {
    fn tag(&self) -> u32 {
        match self {
            Self::Pdu(bhs, ..) => bhs.initiator_task_tag(),
            Self::DataIn(data_in) => data_in.first.initiator_task_tag(),
        }
    }

    /// How many PDUs it makes, with those that are cut already.
    fn pdus(&self) -> usize {
        match self {
            Self::Pdu(..) => 1,
            Self::DataIn(data_in) => data_in.pdus() as usize,
        }
    }
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
    /// DataSN and buffer offset of the first PDU.
    pub(crate) start: (u32, usize),
    /// Whether the initiator may ask for the PDUs again.
    pub(crate) kept: bool,
    /// StatSN of `last`.
    pub(crate) stat_sn: Option<u32>,
}

impl DataIn {
    /// How many PDUs it makes.
    pub(crate) fn pdus(&self) -> u32 {
        let length = self.data.len();
        let first = length.min(self.burst_max - self.start.1 % self.burst_max);
        let (whole, rest) = ((length - first) / self.burst_max, (length - first) % self.burst_max);
        let of = |bytes: usize| bytes.div_ceil(self.segment_max);
        (of(first) + whole * of(self.burst_max) + of(rest)) as u32
    }
}

/// How far the first of the waiting ones is cut, if that is Data-In.
#[derive(Clone, Default)]
struct Cut {
    pdus: u32,
    /// Bytes of the data.
    taken: usize,
    /// Piece of the data that comes next, and byte of it.
    piece: usize,
    byte: usize,
}

impl Cut {
    /// The next PDU; `None` after the last.
    fn next(&mut self, whole: &DataIn) -> Option<(Bhs, Rope, Origin)> {
        if self.taken == whole.data.len() {
            return None;
        }
        let (first_data_sn, start) = whole.start;
        let (length, offset) = (start + whole.data.len(), start + self.taken);
        let burst_end = length.min((offset / whole.burst_max + 1) * whole.burst_max);
        let end = burst_end.min(offset + whole.segment_max);
        let mut bhs = whole.first;
        bhs.0[1] = if end == burst_end { FINAL } else { 0 };
        if let Some(last) = whole.last.filter(|_| end == length) {
            bhs = last;
        }
        bhs.set_u32(36, first_data_sn + self.pdus);
        bhs.set_u32(40, offset as u32);
        let data = self.take(&whole.data, end - offset);
        self.pdus += 1;
        self.taken += end - offset;
        let stat_sn = whole.stat_sn.filter(|_| end == length);
        let origin = if whole.kept { Origin::Kept { stat_sn } } else { Origin::First };
        Some((bhs, data, origin))
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
    /// PDUs that were cut and that the initiator may ask for again, until they are taken.
    kept: Vec<Sent>,
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
            kept: Vec::new(),
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

    /// Appends a PDU that the initiator may ask for again, perhaps with status.
    pub(crate) fn push_kept(&mut self, bhs: Bhs, data: Rope, stat_sn: Option<u32>) {
        self.push_as(bhs, data, Origin::Kept { stat_sn });
    }

    /// PDUs that the initiator may ask for again, and that were cut since the last call.
    pub(crate) fn take_kept(&mut self) -> Vec<Sent> {
        std::mem::take(&mut self.kept)
    }

    /// Whether there are PDUs that are not cut yet.
    pub(crate) fn has_uncut(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Those of them that the initiator may ask for again, of the latest commands: so many of them at
    /// most, and none of a command of which some are left out.
    pub(crate) fn uncut(&self, pdus_max: usize) -> Vec<Sent> {
        let mut left = pdus_max;
        let fits = |waiting: &&Waiting| {
            let pdus = waiting.pdus();
            let fits = pdus <= left;
            left = left.saturating_sub(pdus);
            fits
        };
        let begin = self.waiting.len() - self.waiting.iter().rev().take_while(fits).count();
        let left_out = begin.checked_sub(1).map(|last| self.waiting[last].tag());
        let mut uncut = Vec::new();
        for (index, waiting) in self.waiting.iter().enumerate().skip(begin) {
            match waiting {
                _ if Some(waiting.tag()) == left_out => {}
                Waiting::Pdu(bhs, data, origin) => uncut.extend(origin.kept(*bhs, data)),
                Waiting::DataIn(data_in) => {
                    let mut cut = if index == 0 { self.cut.clone() } else { Cut::default() };
                    while let Some((bhs, data, origin)) = cut.next(data_in) {
                        uncut.extend(origin.kept(bhs, &data));
                    }
                }
            }
        }
        uncut
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
                    Some((bhs, data, origin)) => {
                        self.waiting_bytes -= data.len();
                        (bhs, data, origin)
                    }
                    None => {
                        self.cut = Cut::default();
                        self.waiting.pop_front();
                        continue;
                    }
                },
            };
            self.kept.extend(origin.kept(bhs, &data));
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
