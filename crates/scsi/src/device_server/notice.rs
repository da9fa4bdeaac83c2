//! Notices to the operator about commands.

use block::VolumeId;

use super::{DeviceServer, LostAnswer, NexusId, Written};
use crate::limits::NOTICES_MAX;
use crate::procedure::Remark;
use crate::task_set::Slot;

/// Something that the operator should know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// ATS: a COMPARE AND WRITE failed, and the medium held what it would have written, since the
    /// same initiator had written it by a command whose answer it may not know. ESXi takes this for
    /// the loss of a lock that it holds.
    OwnCompareAndWriteFound {
        /// iSCSI name of the initiator.
        initiator_name: String,
        /// The volume.
        volume: VolumeId,
        /// First logical block.
        lba: u64,
        /// Number of logical blocks.
        blocks: u8,
        /// Why the initiator may not know that answer.
        lost: LostAnswer,
    },
}

/// Counted since the target was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// COMPARE AND WRITE commands that found another content than they expected.
    pub compare_and_write_miscompares: u64,
    /// Those of them that were retries of commands whose answer was lost.
    pub compare_and_write_own_found: u64,
}

impl DeviceServer {
    /// The next notice, oldest first.
    pub fn next_notice(&mut self) -> Option<Notice> {
        self.notices.pop_front()
    }

    /// What was counted.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Takes what a command remarked.
    pub(super) fn remark(&mut self, slot: Slot, remark: Remark) {
        let (nexus, task) = (self.tasks[slot].order.decoded.nexus, self.tasks[slot].id);
        match remark {
            Remark::Applied(written) => self.note_applied(written, nexus, task),
            Remark::Miscompared => self.counters.compare_and_write_miscompares += 1,
            Remark::SameFound(written) => {
                self.counters.compare_and_write_miscompares += 1;
                if let Some(lost) = self.lost_answer(nexus, written) {
                    self.notice_retry(nexus, written, lost);
                }
            }
        }
    }

    fn notice_retry(&mut self, nexus: NexusId, written: Written, lost: LostAnswer) {
        self.counters.compare_and_write_own_found += 1;
        let nexus = self.nexuses.get(&nexus);
        let initiator_name =
            nexus.map_or_else(String::new, |nexus| nexus.spec.initiator_name.clone());
        if self.notices.len() == NOTICES_MAX {
            self.notices.pop_front();
        }
        let Written { volume, lba, blocks, .. } = written;
        self.notices.push_back(Notice::OwnCompareAndWriteFound {
            initiator_name,
            volume,
            lba,
            blocks,
            lost,
        });
    }
}
