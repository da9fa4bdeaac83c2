//! Third-party copies (SPC-4 5.17): those under way, and what became of those that have ended.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::completion::{Completion, Status};
use crate::device_server::NexusId;
use crate::limits::{
    CONCURRENT_COPIES_MAX, COPY_RESULT_HELD_FOR, COPY_RESULTS_HELD_MAX, IDENTIFIED_COPIES_MAX,
};
use crate::rod_tokens::RodTokenUse;
use crate::sense::{self, Sense};

/// The name of a copy: the nexus that began it, and its LIST IDENTIFIER.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct CopyKey {
    pub(crate) nexus: NexusId,
    pub(crate) list_id: u32,
}

/// How far a copy is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CopyProgress {
    /// SERVICE ACTION of the command that began it.
    pub(crate) service_action: u8,
    /// LIST IDENTIFIER; `None` if the copy has no name.
    pub(crate) list_id: Option<u32>,
    /// Whether the command has ended while the copy goes on.
    pub(crate) in_background: bool,
    /// Segments that were begun.
    pub(crate) segments: u16,
    /// Bytes that were written.
    pub(crate) bytes: u64,
    /// Requests that were answered.
    pub(crate) operations: u16,
    /// What it does with a token.
    pub(crate) token: Option<RodTokenUse>,
}

/// What became of a copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CopyState {
    /// It is under way.
    InProgress,
    /// It ended with GOOD.
    Completed,
    /// It ended with this status, and sense data if there was any.
    Failed(Status, Option<Sense>),
    /// It was ended by task management or COPY OPERATION ABORT.
    Aborted,
}

/// What is known of a copy.
#[derive(Clone, Debug)]
pub(crate) struct CopyRecord {
    pub(crate) progress: CopyProgress,
    pub(crate) state: CopyState,
    /// When it ended.
    ended: Duration,
}

/// Every copy that has a name, and the number of those under way.
#[derive(Debug, Default)]
pub(crate) struct CopyOperations {
    under_way: u16,
    records: BTreeMap<CopyKey, CopyRecord>,
}

impl CopyOperations {
    /// Whether one more copy may begin.
    ///
    /// # Errors
    /// 0Bh/55h/03h if as many are under way as may be, 05h/00h/16h if one of the same nexus has the
    /// same name.
    pub(crate) fn admit(&self, nexus: NexusId, list_id: Option<u32>) -> Result<(), Completion> {
        let identified = self.records.values().filter(|record| record.is_under_way()).count();
        if self.under_way >= CONCURRENT_COPIES_MAX
            || (list_id.is_some() && identified >= IDENTIFIED_COPIES_MAX)
        {
            return Err(Sense::from(sense::INSUFFICIENT_RESOURCES).into());
        }
        let same = list_id.and_then(|list_id| self.records.get(&CopyKey { nexus, list_id }));
        if same.is_some_and(CopyRecord::is_under_way) {
            return Err(Sense::from(sense::OPERATION_IN_PROGRESS).into());
        }
        Ok(())
    }

    /// Counts a copy that begins.
    pub(crate) fn begin(&mut self) {
        self.under_way += 1;
    }

    /// Counts a copy that has ended.
    pub(crate) fn end(&mut self) {
        self.under_way -= 1;
    }

    /// Keeps how far a copy under way is, in place of an older one with the same name.
    pub(crate) fn note(&mut self, key: CopyKey, progress: CopyProgress) {
        let record = CopyRecord { progress, state: CopyState::InProgress, ended: Duration::ZERO };
        self.records.insert(key, record);
    }

    /// A copy came to its end by itself.
    pub(crate) fn ended(&mut self, key: CopyKey, now: Duration, completion: &Completion) {
        let state = match completion.status {
            Status::Good => CopyState::Completed,
            status => CopyState::Failed(status, completion.sense),
        };
        self.close(key, now, state);
    }

    /// A copy was ended.
    pub(crate) fn aborted(&mut self, key: CopyKey, now: Duration) {
        self.close(key, now, CopyState::Aborted);
    }

    fn close(&mut self, key: CopyKey, now: Duration, state: CopyState) {
        let Some(record) = self.records.get_mut(&key) else { return };
        record.state = state;
        record.ended = now;
        let of_nexus = self
            .records
            .iter()
            .filter(|(other, record)| other.nexus == key.nexus && !record.is_under_way());
        if of_nexus.clone().count() > COPY_RESULTS_HELD_MAX {
            let oldest = of_nexus.min_by_key(|(_, record)| record.ended).map(|(key, _)| *key);
            self.records.retain(|key, _| Some(*key) != oldest);
        }
    }

    /// What is known of a copy of a nexus.
    pub(crate) fn find(&self, nexus: NexusId, list_id: u32) -> Option<&CopyRecord> {
        self.records.get(&CopyKey { nexus, list_id })
    }

    /// Forgets outcomes that were held long enough.
    pub(crate) fn forget_old(&mut self, now: Duration) {
        self.records.retain(|_, record| {
            record.is_under_way() || now.saturating_sub(record.ended) <= COPY_RESULT_HELD_FOR
        });
    }

    /// Forgets all of a nexus, whose tasks are being ended.
    pub(crate) fn forget_nexus(&mut self, nexus: NexusId) {
        self.records.retain(|key, _| key.nexus != nexus);
    }
}

impl CopyRecord {
    /// Whether the copy has not ended.
    pub(crate) fn is_under_way(&self) -> bool {
        self.state == CopyState::InProgress
    }
}
