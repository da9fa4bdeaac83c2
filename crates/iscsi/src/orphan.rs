//! Commands whose connection failed (RFC 7143 7.2.2, error recovery level 2): they wait here for a
//! task reassignment to another connection.

use block::Rope;

use crate::event::Completion;
use crate::history::Sent;
use crate::limits::TASK_BYTES;
use crate::memory::{Charge, Share};
use crate::pdu::{Bhs, response};
use crate::task::Task;

/// A command without a connection.
pub struct Orphan {
    pub(crate) lun: u64,
    pub(crate) content: Content,
    /// Its charge to its host's memory share.
    charge: Charge,
}

/// How far the command had come.
pub(crate) enum Content {
    /// The command has not been answered.
    Task(Task),
    /// The command was answered when there was no connection to send the answer on.
    Answered(Task, Completion),
    /// Its answer was sent, and the initiator has not said that it came.
    Sent(SentAnswer),
}

impl std::fmt::Debug for Orphan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Orphan").field("lun", &self.lun).finish_non_exhaustive()
    }
}

impl Orphan {
    pub(crate) fn new(lun: u64, content: Content, share: Share) -> Self {
        let mut orphan = Self { lun, content, charge: Charge::new(share) };
        orphan.settle();
        orphan
    }

    fn settle(&mut self) {
        self.charge.set(self.bytes() + TASK_BYTES);
    }

    pub(crate) fn of_task(mut task: Task, share: Share) -> Self {
        if let Some(data_out) = &mut task.data_out {
            data_out.lose_connection();
        }
        Self::new(task.lun, Content::Task(task), share)
    }

    /// The logical unit, as in `Command::lun`.
    pub fn lun(&self) -> u64 {
        self.lun
    }

    /// Whether the owner still carries it out, or has yet to get its data.
    pub fn is_under_way(&self) -> bool {
        matches!(self.content, Content::Task(_))
    }

    /// Memory that it holds, in bytes.
    pub fn bytes(&self) -> usize {
        match &self.content {
            Content::Task(task) => task.memory,
            Content::Answered(task, completion) => task.memory.max(completion.data_in.len()),
            Content::Sent(answer) => answer.data.len(),
        }
    }

    /// The owner's answer. It is sent when the command has a connection again.
    #[must_use]
    pub fn answered(self, completion: Completion) -> Self {
        let content = match self.content {
            Content::Task(mut task) => {
                if let Some(data_out) = &mut task.data_out {
                    data_out.give_up();
                }
                Content::Answered(task, completion)
            }
            other => other,
        };
        let mut answered = Self { content, ..self };
        answered.settle();
        answered
    }
}

/// An answer that may have to be sent once more, cut anew.
pub(crate) struct SentAnswer {
    /// The response; without data of its own if the status came with the last Data-In.
    pub(crate) response: Bhs,
    /// Sense data.
    pub(crate) segment: Rope,
    /// Data-In from `starts[0]` on.
    pub(crate) data: Rope,
    /// Buffer offset of each Data-In PDU, and the end of the last.
    starts: Vec<u32>,
    /// DataSN of the first of them.
    first_data_sn: u32,
}

impl SentAnswer {
    /// Puts the PDUs of one command together, which was answered from a DataSN on; `None` if they
    /// are not all there any more.
    pub(crate) fn new(sent: Vec<Sent>, first_data_sn: u32) -> Option<Self> {
        let last = sent.last().filter(|last| last.stat_sn.is_some())?;
        let (mut response, mut segment) = (last.bhs, last.data.clone());
        if is_data_in(&response) {
            response = response_of(&response);
            segment = Rope::new();
        }
        let mut answer =
            Self { response, segment, data: Rope::new(), starts: Vec::new(), first_data_sn };
        for pdu in sent.into_iter().filter(|pdu| is_data_in(&pdu.bhs)) {
            if pdu.bhs.u32(36) != answer.data_in_pdus() {
                return None;
            }
            answer.add(&pdu);
        }
        Some(answer)
    }

    fn add(&mut self, pdu: &Sent) {
        let start = pdu.bhs.u32(40);
        if self.starts.is_empty() {
            self.starts.push(start);
        }
        self.data.append(pdu.data.clone());
        self.starts.push(start + pdu.data.len() as u32);
    }

    /// Data-In PDUs that were sent.
    pub(crate) fn data_in_pdus(&self) -> u32 {
        self.first_data_sn + self.starts.len().saturating_sub(1) as u32
    }

    /// DataSN and buffer offset of the first Data-In that the initiator has not received, if it has
    /// received all before `exp_data_sn`. RFC 7143 11.5.6: 0 says nothing new, and what cannot be is
    /// ignored.
    pub(crate) fn resume(&self, exp_data_sn: u32) -> (u32, u32) {
        let sent = self.first_data_sn..=self.data_in_pdus();
        let data_sn = if sent.contains(&exp_data_sn) { exp_data_sn } else { self.first_data_sn };
        let index = (data_sn - self.first_data_sn) as usize;
        (data_sn, self.starts.get(index).copied().unwrap_or(0))
    }

    /// The data from an offset in the buffer on.
    pub(crate) fn data_from(&self, offset: u32) -> Rope {
        let skipped = offset - self.starts.first().copied().unwrap_or(offset);
        self.data.slice(skipped as usize, self.data.len() - skipped as usize)
    }
}

fn is_data_in(bhs: &Bhs) -> bool {
    bhs.opcode() == response::DATA_IN
}

/// The response that says what a Data-In with status says (RFC 7143 11.7.3).
fn response_of(data_in: &Bhs) -> Bhs {
    let mut bhs = Bhs::response(response::SCSI_RESPONSE, data_in.initiator_task_tag());
    bhs.0[1] |= data_in.0[1] & 0x06;
    bhs.0[3] = data_in.0[3];
    bhs.set_u32(36, data_in.u32(36) + 1);
    bhs.set_u32(44, data_in.u32(44));
    bhs
}
