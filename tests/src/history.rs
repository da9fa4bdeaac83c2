//! Records what many clients do to the same blocks at the same time, and decides whether the
//! answers fit together: per block there must be an order of all operations, each between its
//! beginning and its end, in which every answer is right (linearizability).
//!
//! Every write has a content of its own, so that what is read names the write that it comes from.

pub mod client;
mod configurations;
pub mod linearize;
pub mod load;
mod paths;
pub mod registers;
pub mod run;

use std::collections::BTreeMap;

/// Content of a block: the number of the write that it comes from, 64 times. 0 is a block of zeros.
pub type Value = u64;

/// A logical block of a LUN.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Block {
    /// The LUN number.
    pub lun: u8,
    /// The address.
    pub lba: u64,
}

impl Block {
    /// The block so many further.
    #[must_use]
    pub fn plus(self, blocks: usize) -> Self {
        Self { lba: self.lba + blocks as u64, ..self }
    }
}

/// What a command did, as far as its client knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// It read these values.
    Read {
        /// First block.
        at: Block,
        /// Value of each.
        values: Vec<Value>,
    },
    /// It gave blocks one value: WRITE, WRITE SAME, UNMAP.
    Write {
        /// First block.
        at: Block,
        /// Number of blocks.
        count: usize,
        /// Their new value.
        value: Value,
    },
    /// COMPARE AND WRITE that found what it expected.
    Swap {
        /// First block.
        at: Block,
        /// What it expected of each.
        expected: Vec<Value>,
        /// Their new value.
        value: Value,
    },
    /// COMPARE AND WRITE that did not: blocks before one are as expected, that one is not.
    Differs {
        /// First block.
        at: Block,
        /// What it expected of each.
        expected: Vec<Value>,
        /// Number of the block that differs.
        first: usize,
    },
    /// EXTENDED COPY.
    Copy {
        /// First block of the source.
        from: Block,
        /// First block of the destination.
        to: Block,
        /// Number of blocks.
        count: usize,
    },
}

/// A command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// When it was sent, in nanoseconds.
    pub invoked: u64,
    /// When it could no longer change anything; [`u64::MAX`] if that is not known.
    pub returned: u64,
    /// Whether it took place for certain: not if it was aborted, or its answer did not come.
    pub certain: bool,
    /// What it did, or would have done.
    pub action: Action,
}

/// The value of every block at the beginning.
pub type Values = BTreeMap<Block, Value>;
