//! What a logical unit has done (SPC-4 7.3.10).

use std::time::Duration;

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
}

/// What a command counts as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transfer {
    Read,
    Write,
}

impl Transfer {
    /// READ, and WRITE with or without VERIFY or ATOMIC; `None` for all other commands.
    pub(crate) const fn of(opcode: u8) -> Option<Self> {
        match opcode {
            0x08 | 0x28 | 0x88 | 0xa8 => Some(Self::Read),
            0x0a | 0x2a | 0x2e | 0x8a | 0x8e | 0x9c | 0xaa | 0xae => Some(Self::Write),
            _ => None,
        }
    }
}

impl Statistics {
    /// Counts a command that was GOOD.
    pub(crate) fn count(&mut self, transfer: Transfer, blocks: u64, took: Duration) {
        match transfer {
            Transfer::Read => {
                self.read_commands += 1;
                self.blocks_transmitted += blocks;
                self.reading += took;
            }
            Transfer::Write => {
                self.write_commands += 1;
                self.blocks_received += blocks;
                self.writing += took;
            }
        }
    }
}
