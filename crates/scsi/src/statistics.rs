//! Statistics log pages of a logical unit (SPC-4 7.3.10): commands, blocks and times.

use std::time::Duration;

use block::Primitive;

/// Counters of LOG SENSE page 19h since power on, or since LOG SELECT reset them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Statistics {
    /// READ commands that were GOOD.
    pub(crate) read_commands: u64,
    /// WRITE commands that were GOOD.
    pub(crate) write_commands: u64,
    /// Logical blocks that initiators sent with them.
    pub(crate) blocks_received: u64,
    /// Logical blocks that they got.
    pub(crate) blocks_transmitted: u64,
    /// Time that READ commands took.
    pub(crate) reading: Duration,
    /// Time that WRITE commands took.
    pub(crate) writing: Duration,
    /// When the counting began.
    since: Duration,
    /// Time with at least one task in the task set, up to [`Self::busy_since`].
    busy: Duration,
    /// Since when there is one, if there is.
    busy_since: Option<Duration>,
}

impl Statistics {
    /// Nothing counted yet, no task in the task set.
    pub(crate) fn starting(now: Duration) -> Self {
        Self { since: now, ..Self::default() }
    }

    /// Nothing counted yet, while the same tasks go on.
    pub(crate) fn restarted(&self, now: Duration) -> Self {
        Self { busy_since: self.busy_since.map(|_| now), ..Self::starting(now) }
    }

    /// A task came into the task set.
    pub(crate) fn work_goes_on(&mut self, now: Duration) {
        self.busy_since.get_or_insert(now);
    }

    /// The last task left it.
    pub(crate) fn work_ends(&mut self, now: Duration) {
        let since = self.busy_since.take().unwrap_or(now);
        self.busy += now.saturating_sub(since);
    }

    /// Time without a task.
    pub(crate) fn idle(&self, now: Duration) -> Duration {
        let under_way = now.saturating_sub(self.busy_since.unwrap_or(now));
        now.saturating_sub(self.since).saturating_sub(self.busy).saturating_sub(under_way)
    }

    /// Counts a command that was GOOD, if it is a READ or a WRITE: the others have no counters.
    pub(crate) fn count(&mut self, primitive: Primitive, blocks: u64, took: Duration) {
        match primitive {
            Primitive::Read => {
                self.read_commands += 1;
                self.blocks_transmitted += blocks;
                self.reading += took;
            }
            Primitive::Write => {
                self.write_commands += 1;
                self.blocks_received += blocks;
                self.writing += took;
            }
            Primitive::CompareAndWrite
            | Primitive::ExtendedCopy
            | Primitive::WriteSame
            | Primitive::Unmap
            | Primitive::Token
            | Primitive::Other => {}
        }
    }
}
