//! One command under way, and the collection of its Data-Out. Immediate, unsolicited and solicited
//! data are one case, because the buffer belongs to the task.

use std::hash::{BuildHasherDefault, Hasher};

use block::Buffer;
use smallvec::SmallVec;

use crate::event::Completion;
use crate::limits::RECOVERIES_MAX;
use crate::parameters::SessionParameters;
use crate::pdu::{Bhs, NO_TAG};
use crate::receive::Destination;

/// The commands of a connection, by initiator task tag.
pub(crate) type Tasks = hashbrown::HashMap<u32, Task, BuildHasherDefault<TagHasher>>;

/// Spreads task tags. Initiators count them up; the number of tasks is bounded, so chosen tags gain
/// nothing.
#[derive(Default)]
pub(crate) struct TagHasher(u64);

impl Hasher for TagHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u32(byte.into());
        }
    }

    fn write_u32(&mut self, tag: u32) {
        // The golden ratio: high and low bits of the product both depend on all of the tag.
        let product = (self.0 ^ u64::from(tag)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = product ^ product >> 32;
    }
}

/// One command.
pub(crate) struct Task {
    pub(crate) lun: u64,
    /// Place in the order of arrival on this connection.
    pub(crate) arrival: u64,
    /// Expected data transfer length of a command with the W bit, else 0.
    pub(crate) expected_write: u32,
    /// Expected data transfer length of a command with the R bit, else 0.
    pub(crate) expected_read: u32,
    /// Data-Out that the CDB asks for.
    pub(crate) transfer_length: u32,
    /// Bytes of memory counted for this task.
    pub(crate) memory: usize,
    /// There for a command with the W bit.
    pub(crate) data_out: Option<DataOut>,
}

impl Task {
    /// Whether data is still being collected, or the owner has not said whether it is wanted.
    pub(crate) fn is_collecting(&self) -> bool {
        self.data_out.as_ref().is_some_and(|data_out| data_out.phase != Phase::Over)
    }
}

/// A violation while data is collected, and its sense data (RFC 7143 11.4.7.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DataError {
    /// Data that nobody asked for.
    UnexpectedUnsolicitedData,
    /// Too much, too little, or at the wrong offset.
    IncorrectAmountOfData,
    /// A data digest was wrong, or DataSN shows that a PDU is missing.
    ProtocolServiceCrc,
}

impl DataError {
    /// Additional sense code and qualifier, with sense key ABORTED COMMAND.
    pub(crate) const fn additional_sense(self) -> [u8; 2] {
        match self {
            Self::UnexpectedUnsolicitedData => [0x0c, 0x0c],
            Self::IncorrectAmountOfData => [0x0c, 0x0d],
            Self::ProtocolServiceCrc => [0x47, 0x05],
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The owner has not said how much it wants.
    Undecided,
    Collecting,
    /// The data was handed over or is wanted no more; what still comes is dropped.
    Over,
}

/// An R2T that was not fulfilled yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReadyToTransfer {
    pub(crate) target_transfer_tag: u32,
    pub(crate) r2t_sn: u32,
    /// Next byte expected.
    pub(crate) offset: u32,
    pub(crate) end: u32,
    next_data_sn: u32,
}

/// The Data-Out of one command.
pub(crate) struct DataOut {
    phase: Phase,
    /// Absent while a segment of it is under way.
    buffer: Option<Buffer>,
    /// Bytes wanted.
    length: u32,
    /// Bytes that arrived in order, wanted or not.
    received: u32,
    /// The initiator has not yet set the final bit on unsolicited data.
    unsolicited_open: bool,
    next_data_sn: u32,
    outstanding: SmallVec<[ReadyToTransfer; 2]>,
    next_r2t_sn: u32,
    /// Up to here data was asked for or came unasked.
    requested: u32,
    /// Data was lost: what comes until the sequences that are open end is dropped, then the data is
    /// asked for from `received` on.
    recovering: bool,
    /// Times that data was asked for again.
    recoveries: u32,
    /// The answer, which waits for the last sequence (RFC 7143 11.4.2).
    held: Option<Box<Completion>>,
}

impl DataOut {
    pub(crate) fn new(unsolicited_open: bool) -> Self {
        Self {
            phase: Phase::Undecided,
            buffer: None,
            length: 0,
            received: 0,
            unsolicited_open,
            next_data_sn: 0,
            outstanding: SmallVec::new(),
            next_r2t_sn: 0,
            requested: 0,
            recovering: false,
            recoveries: 0,
            held: None,
        }
    }

    pub(crate) fn is_undecided(&self) -> bool {
        self.phase == Phase::Undecided
    }

    pub(crate) fn accept(&mut self, length: u32) {
        self.phase = Phase::Collecting;
        self.length = length;
        self.buffer = Some(Buffer::for_overwrite(length as usize));
    }

    /// Drops all further data.
    pub(crate) fn give_up(&mut self) {
        self.phase = Phase::Over;
        self.buffer = None;
    }

    /// Whether the initiator still owes the end of a sequence.
    pub(crate) fn is_open(&self) -> bool {
        self.unsolicited_open || !self.outstanding.is_empty()
    }

    pub(crate) fn hold(&mut self, completion: Completion) {
        self.held.get_or_insert_with(|| Box::new(completion));
    }

    /// Whether the owner's answer is there and only waits.
    pub(crate) fn is_answered(&self) -> bool {
        self.held.is_some()
    }

    /// The held answer, once nothing more is owed.
    pub(crate) fn release(&mut self) -> Option<Completion> {
        if self.is_open() { None } else { self.held.take().map(|completion| *completion) }
    }

    /// Whether lost data may be asked for again: it is still wanted, and not for ever.
    pub(crate) fn may_recover(&self) -> bool {
        self.phase == Phase::Collecting && self.recoveries < RECOVERIES_MAX
    }

    /// Data was lost or damaged.
    pub(crate) fn begin_recovery(&mut self) {
        self.recoveries += u32::from(!self.recovering);
        self.recovering = true;
    }

    /// Asks again once nothing of what was lost can come any more.
    fn end_recovery(&mut self) {
        if self.recovering && !self.is_open() {
            self.recovering = false;
            self.requested = self.received;
        }
    }

    /// The connection has ended: nothing more comes that was sent or asked for there. A segment
    /// that was under way is lost with all before it.
    pub(crate) fn lose_connection(&mut self) {
        self.unsolicited_open = false;
        self.outstanding.clear();
        self.recovering = false;
        if self.phase == Phase::Collecting && self.buffer.is_none() {
            self.buffer = Some(Buffer::for_overwrite(self.length as usize));
            self.received = 0;
        }
        self.requested = self.received;
    }

    /// Where the immediate data of the command goes.
    pub(crate) fn place_immediate(&mut self, length: u32) -> Destination {
        self.place_at(0, length)
    }

    /// Where the data of a Data-Out PDU goes.
    pub(crate) fn place(
        &mut self,
        bhs: &Bhs,
        expected: u32,
        parameters: &SessionParameters,
    ) -> Result<Destination, DataError> {
        if self.phase != Phase::Collecting || self.recovering {
            return Ok(Destination::Discard);
        }
        let (offset, length) = (bhs.u32(40), bhs.data_segment_length() as u32);
        let end = offset.checked_add(length).ok_or(DataError::IncorrectAmountOfData)?;
        if bhs.target_transfer_tag() == NO_TAG {
            self.check_unsolicited(bhs, end, expected.min(parameters.first_burst_length))?;
        } else {
            self.check_solicited(bhs, end)?;
        }
        Ok(self.place_at(offset, length))
    }

    fn check_unsolicited(&self, bhs: &Bhs, end: u32, end_max: u32) -> Result<(), DataError> {
        if !self.unsolicited_open {
            return Err(DataError::UnexpectedUnsolicitedData);
        }
        check_data_sn(bhs, self.next_data_sn)?;
        check_amount(bhs.u32(40) == self.received && end <= end_max)
    }

    /// DataSequenceInOrder=Yes: only the oldest R2T may be under way.
    fn check_solicited(&self, bhs: &Bhs, end: u32) -> Result<(), DataError> {
        let oldest = self.outstanding.first();
        let Some(r2t) = oldest.filter(|r2t| r2t.target_transfer_tag == bhs.target_transfer_tag())
        else {
            return Err(DataError::UnexpectedUnsolicitedData);
        };
        check_data_sn(bhs, r2t.next_data_sn)?;
        let ends_right = end == r2t.end || (end < r2t.end && !bhs.is_final());
        check_amount(bhs.u32(40) == r2t.offset && ends_right)
    }

    fn place_at(&mut self, offset: u32, length: u32) -> Destination {
        let take = self.length.saturating_sub(offset).min(length) as usize;
        match self.buffer.take_if(|_| take > 0) {
            Some(buffer) => Destination::Buffer { buffer, offset: offset as usize, take },
            None => Destination::Discard,
        }
    }

    /// The immediate data arrived.
    pub(crate) fn finish_immediate(&mut self, destination: Destination, length: u32) {
        self.restore(destination);
        self.received = length;
    }

    /// A Data-Out PDU arrived: counts it, and closes its sequence if it is the last.
    pub(crate) fn finish(&mut self, bhs: &Bhs, destination: Destination) {
        self.restore(destination);
        let end = bhs.u32(40).saturating_add(bhs.data_segment_length() as u32);
        let tag = bhs.target_transfer_tag();
        if tag == NO_TAG {
            self.next_data_sn = self.next_data_sn.wrapping_add(1);
            self.unsolicited_open &= !bhs.is_final();
        } else if let Some(index) =
            self.outstanding.iter().position(|r2t| r2t.target_transfer_tag == tag)
        {
            let r2t = &mut self.outstanding[index];
            r2t.next_data_sn = r2t.next_data_sn.wrapping_add(1);
            r2t.offset = end;
            if bhs.is_final() {
                self.outstanding.remove(index);
            }
        }
        if self.phase == Phase::Collecting && !self.recovering {
            self.received = end;
        }
        self.end_recovery();
    }

    /// Takes the buffer back.
    pub(crate) fn restore(&mut self, destination: Destination) {
        if let Destination::Buffer { buffer, .. } = destination
            && self.phase == Phase::Collecting
        {
            self.buffer = Some(buffer);
        }
    }

    /// All the data, once, when it is complete.
    pub(crate) fn take_complete(&mut self) -> Option<Buffer> {
        let is_complete = self.phase == Phase::Collecting
            && self.received >= self.length
            && !self.recovering
            && self.outstanding.is_empty();
        if !is_complete {
            return None;
        }
        self.phase = Phase::Over;
        self.buffer.take()
    }

    /// Number of R2Ts sent so far.
    pub(crate) fn ready_to_transfers(&self) -> u32 {
        self.next_r2t_sn
    }

    /// The next R2T to send, if one is due.
    pub(crate) fn next_ready_to_transfer(
        &mut self,
        target_transfer_tag: u32,
        parameters: &SessionParameters,
    ) -> Option<ReadyToTransfer> {
        self.end_recovery();
        let offset = self.requested.max(self.received);
        let is_due = self.phase == Phase::Collecting
            && !self.unsolicited_open
            && !self.recovering
            && offset < self.length
            && self.outstanding.len() < parameters.max_outstanding_r2t as usize;
        if !is_due {
            return None;
        }
        let end = self.length.min(offset.saturating_add(parameters.max_burst_length));
        let r2t_sn = self.next_r2t_sn;
        let r2t = ReadyToTransfer { target_transfer_tag, r2t_sn, offset, end, next_data_sn: 0 };
        self.next_r2t_sn += 1;
        self.requested = end;
        self.outstanding.push(r2t);
        Some(r2t)
    }
}

fn check_data_sn(bhs: &Bhs, expected: u32) -> Result<(), DataError> {
    if bhs.u32(36) == expected { Ok(()) } else { Err(DataError::ProtocolServiceCrc) }
}

fn check_amount(is_right: bool) -> Result<(), DataError> {
    if is_right { Ok(()) } else { Err(DataError::IncorrectAmountOfData) }
}
