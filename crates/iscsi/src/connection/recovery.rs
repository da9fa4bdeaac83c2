//! Error recovery within a connection (RFC 7143 7.1.3, level 1): holds requests that came too
//! early, and sends again what the initiator did not receive (SNACK).

use block::Rope;
use smallvec::SmallVec;

use super::{Connection, State};
use crate::event::ClosedReason;
use crate::history::{Run, Sent};
use crate::limits::{HISTORY_PDUS_MAX, RESEND_BYTES_MAX, RESENDS_MAX};
use crate::pdu::{BHS_LENGTH, Bhs, RejectReason, response};
use crate::receive::{Destination, Header};

/// A numbered request, with its data, that waits for those before it.
pub(super) struct Early {
    header: Header,
    data: Vec<u8>,
    intact: bool,
}

/// The immediate data of a command that was put aside.
pub(super) struct EarlyData {
    pub(super) bhs: Bhs,
    pub(super) data: Vec<u8>,
    pub(super) intact: bool,
}

/// An answer to a SNACK that is being sent.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Resend {
    kind: u8,
    task: u32,
    run: Run,
}

/// Types of a SNACK (RFC 7143 11.16.1).
mod snack {
    pub(super) const DATA_OR_R2T: u8 = 0;
    pub(super) const STATUS: u8 = 1;
    pub(super) const DATA_ACK: u8 = 2;
}

impl Connection {
    /// Whether a request may come before another with a lower number: on another connection, or
    /// because that one was damaged.
    fn may_wait(&self) -> bool {
        self.parameters.max_connections > 1 || self.parameters.error_recovery_level > 0
    }

    /// Puts a request that came too early aside, once its data is there.
    pub(super) fn set_aside(&mut self, header: Header) {
        let length = header.bhs.data_segment_length();
        let in_session = self.early_bytes + length <= self.config.limits.memory_max;
        let has_room = length == 0 || self.charge.share().has_room(length);
        if !self.may_wait() || !in_session || !has_room {
            self.end(ClosedReason::Protocol("a command number is missing"));
        } else if length == 0 {
            self.keep(header, Vec::new(), true);
        } else {
            let bhs = header.bhs;
            self.early_bytes += length;
            let early = Box::new((header.ahs, Vec::with_capacity(length)));
            self.receiver.begin_segment(bhs, Destination::Early(early));
        }
    }

    /// The data of an early request is there.
    pub(super) fn finish_early(
        &mut self,
        bhs: Bhs,
        early: (SmallVec<[u8; 4]>, Vec<u8>),
        intact: bool,
    ) {
        let (ahs, data) = early;
        self.early_bytes -= data.len();
        self.keep(Header { bhs, ahs }, data, intact);
    }

    fn keep(&mut self, header: Header, data: Vec<u8>, intact: bool) {
        let cmd_sn = header.bhs.cmd_sn();
        self.early_bytes += data.len();
        let before = self.early.insert(cmd_sn, Early { header, data, intact });
        self.early_bytes -= before.map_or(0, |early| early.data.len());
    }

    /// Carries out an early request whose turn has come; false if there is none.
    pub(super) fn take_early(&mut self) -> bool {
        if self.early.is_empty() {
            return false;
        }
        let Some(early) = self.early.remove(&self.numbers.exp_cmd_sn()) else { return false };
        self.early_bytes -= early.data.len();
        self.take_whole(early.header, early.data, early.intact);
        true
    }

    /// Sends a PDU that the initiator may ask for again, where it can ask at all.
    pub(super) fn send_kept(&mut self, bhs: Bhs, data: Rope, stat_sn: Option<u32>) {
        if self.parameters.error_recovery_level > 0 {
            self.send.push_kept(bhs, data, stat_sn);
        } else {
            self.send.push(bhs, data);
        }
    }

    /// Remembers the PDUs that were cut meanwhile. Until it is cut a PDU has not been sent, and its
    /// command's data is in the send queue.
    pub(super) fn remember_sent(&mut self) {
        let sent = self.send.take_kept();
        self.remember(sent);
    }

    /// The same for those that are not cut and never may be, since the connection ends.
    pub(super) fn remember_unsent(&mut self) {
        self.remember_sent();
        let unsent = self.send.uncut(HISTORY_PDUS_MAX);
        self.remember(unsent);
    }

    fn remember(&mut self, pdus: Vec<Sent>) {
        if matches!(self.state, State::FullFeature) {
            for pdu in pdus {
                let bytes_max = self.config.limits.memory_max.min(self.charge.share().free());
                self.history.remember(pdu, bytes_max);
            }
        }
    }

    /// Every request acknowledges responses (RFC 7143 4.2.2.2).
    pub(super) fn take_acknowledgement(&mut self, bhs: &Bhs) {
        self.remember_sent();
        if self.parameters.error_recovery_level > 0 {
            self.history.acknowledge(bhs.u32(28));
        }
    }

    pub(super) fn take_snack(&mut self, bhs: &Bhs) {
        let run = Run { begin: bhs.u32(40), length: bhs.u32(44) };
        let kind = bhs.flags() & 0x0f;
        // Acknowledgements of data are never asked for.
        if kind == snack::DATA_ACK {
            return;
        }
        self.remember_sent();
        if self.send.again_bytes() == 0 {
            self.resends.clear();
        }
        let resend = Resend { kind, task: bhs.initiator_task_tag(), run };
        // Data that is being sent again already need not be sent twice.
        if self.resends.contains(&resend) {
            return;
        }
        let wanted = self.wanted_again(resend);
        let bytes: usize = wanted.iter().map(|(_, data)| BHS_LENGTH + data.len()).sum();
        // What was not sent yet is on its way.
        if wanted.is_empty() && self.send.has_uncut() {
            return;
        }
        let waits = self.send.again_bytes();
        let is_too_much = waits > 0 && waits + bytes > RESEND_BYTES_MAX;
        if wanted.is_empty() || is_too_much || self.resends.len() >= RESENDS_MAX {
            // RFC 7143 11.16: there is nothing of that kind, or none any more.
            self.reject(bhs, RejectReason::SnackReject);
            return;
        }
        self.resends.push(resend);
        for (mut bhs, data) in wanted {
            if bhs.0[0] & 0x3f == response::R2T {
                self.numbers.stamp(&mut bhs);
            } else {
                self.numbers.stamp_window(&mut bhs);
            }
            self.send.push_again(bhs, data);
        }
    }

    /// The PDUs that a SNACK asks for; none while as much as may is on its way again.
    fn wanted_again(&self, resend: Resend) -> Vec<(Bhs, Rope)> {
        let is_full = self.send.again_bytes() >= RESEND_BYTES_MAX;
        match resend.kind {
            _ if is_full || self.parameters.error_recovery_level == 0 => Vec::new(),
            snack::DATA_OR_R2T => self.history.of_task(resend.task, resend.run),
            snack::STATUS => self.history.with_status(resend.run),
            _ => Vec::new(),
        }
    }
}
