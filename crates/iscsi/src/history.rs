//! Retransmission buffer (RFC 7143 7.1, error recovery level 1): keeps responses until the
//! initiator acknowledges their StatSN, and with each the data and R2Ts of its task.

use std::collections::{BTreeMap, VecDeque};

use block::Rope;

use crate::limits::HISTORY_PDUS_MAX;
use crate::pdu::{Bhs, response};
use crate::sequence::is_after;

/// A PDU that was sent, or is about to be.
#[derive(Clone, Debug)]
pub(crate) struct Sent {
    pub(crate) bhs: Bhs,
    pub(crate) data: Rope,
    /// Set if it carries status.
    pub(crate) stat_sn: Option<u32>,
}

impl Sent {
    fn is_of_task(&self, tag: u32) -> bool {
        self.bhs.initiator_task_tag() == tag && self.is_numbered_by_task()
    }

    fn is_of_command(&self) -> bool {
        matches!(self.bhs.opcode(), response::DATA_IN | response::SCSI_RESPONSE)
    }

    /// Data-In and R2T are numbered per task, by DataSN and R2TSN.
    fn is_numbered_by_task(&self) -> bool {
        matches!(self.bhs.0[0] & 0x3f, response::DATA_IN | response::R2T)
    }
}

/// A run of numbers that a SNACK asks for (RFC 7143 11.16).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) begin: u32,
    /// 0 for all from `begin` on.
    pub(crate) length: u32,
}

impl Run {
    fn contains(self, number: u32) -> bool {
        let distance = number.wrapping_sub(self.begin);
        !is_after(self.begin, number) && (self.length == 0 || distance < self.length)
    }
}

/// The PDUs of one connection that may be asked for again, oldest first.
#[derive(Default)]
pub(crate) struct History {
    sent: VecDeque<Sent>,
    bytes: usize,
    /// DataSN from which on a command was answered again; others were from 0 on.
    resumed: BTreeMap<u32, u32>,
}

impl History {
    /// Forgets the data and R2Ts of a task that is about to be answered or has ended without an
    /// answer: they belong to the past, and the tag may be in use again.
    pub(crate) fn forget_task(&mut self, tag: u32) {
        self.resumed.remove(&tag);
        self.sent.retain(|sent| sent.stat_sn.is_some() || !sent.is_of_task(tag));
        self.bytes = self.sent.iter().map(|sent| sent.data.len()).sum();
    }

    /// Remembers a PDU. Beyond `bytes_max` the oldest are forgotten: a SNACK for them is rejected.
    pub(crate) fn remember(&mut self, sent: Sent, bytes_max: usize) {
        self.bytes += sent.data.len();
        self.sent.push_back(sent);
        while self.bytes > bytes_max || self.sent.len() > HISTORY_PDUS_MAX {
            let Some(oldest) = self.sent.pop_front() else { return };
            self.bytes -= oldest.data.len();
        }
    }

    /// Forgets what the initiator has received: responses before `exp_stat_sn`, and what was sent
    /// for their tasks.
    pub(crate) fn acknowledge(&mut self, exp_stat_sn: u32) {
        let is_received = |sent: &Sent| sent.stat_sn.is_some_and(|sn| is_after(exp_stat_sn, sn));
        let Some(last) = self.sent.iter().rposition(is_received) else { return };
        let done: Vec<u32> = self
            .sent
            .iter()
            .take(last + 1)
            .filter(|sent| is_received(sent))
            .map(|sent| sent.bhs.initiator_task_tag())
            .collect();
        self.resumed.retain(|tag, _| !done.contains(tag));
        let mut index = 0;
        self.sent.retain(|sent| {
            let is_old = index <= last;
            index += 1;
            let of_done_task =
                sent.stat_sn.is_none() && done.contains(&sent.bhs.initiator_task_tag());
            !(is_old && (is_received(sent) || of_done_task))
        });
        self.bytes = self.sent.iter().map(|sent| sent.data.len()).sum();
    }

    /// Data-In or R2T PDUs of a task, by DataSN or R2TSN.
    pub(crate) fn of_task(&self, tag: u32, run: Run) -> Vec<(Bhs, Rope)> {
        let wanted = |sent: &&Sent| sent.is_of_task(tag) && run.contains(sent.bhs.u32(36));
        self.sent.iter().filter(wanted).map(|sent| (sent.bhs, sent.data.clone())).collect()
    }

    /// Responses by StatSN.
    pub(crate) fn with_status(&self, run: Run) -> Vec<(Bhs, Rope)> {
        let wanted = |sent: &&Sent| sent.stat_sn.is_some_and(|number| run.contains(number));
        self.sent.iter().filter(wanted).map(|sent| (sent.bhs, sent.data.clone())).collect()
    }

    /// A command is about to be answered again, from a DataSN on.
    pub(crate) fn resume(&mut self, tag: u32, data_sn: u32) {
        self.resumed.insert(tag, data_sn);
    }

    /// The DataSN from which on a command was answered.
    pub(crate) fn first_data_sn(&self, tag: u32) -> u32 {
        self.resumed.get(&tag).copied().unwrap_or(0)
    }

    /// The PDUs of each command that was answered, by its tag, oldest first. None of them is kept.
    pub(crate) fn take_answers(&mut self) -> BTreeMap<u32, Vec<Sent>> {
        self.bytes = 0;
        let mut answers: BTreeMap<u32, Vec<Sent>> = BTreeMap::new();
        for sent in self.sent.drain(..).filter(Sent::is_of_command) {
            answers.entry(sent.bhs.initiator_task_tag()).or_default().push(sent);
        }
        answers.retain(|_, sent| sent.last().is_some_and(|last| last.stat_sn.is_some()));
        answers
    }

    /// Memory that is held, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}
