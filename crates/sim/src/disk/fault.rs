//! Fault injection for disks, besides power failures.

use crate::random::Random;

/// errno EIO.
pub(super) const EIO: i32 = 5;

/// errno ENOSPC.
pub(super) const ENOSPC: i32 = 28;

/// How often what goes wrong: one operation in so many, 0 for never.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    /// Reads that fail.
    pub read_error_one_in: u64,
    /// Writes that fail, and take effect all the same unless the power fails.
    pub write_error_one_in: u64,
    /// Flushes that fail, with the unflushed writes lost or kept.
    pub flush_error_one_in: u64,
    /// Whether whatever failed once fails from then on.
    pub sticky: bool,
    /// Writes of which only the first part is done, and which then fail.
    pub short_one_in: u64,
    /// Writes that fail because whoever keeps the device has no space.
    pub no_space_one_in: u64,
    /// Operations with which the whole device goes away.
    pub vanish_one_in: u64,
    /// Reads that bring what lies somewhere else.
    pub misdirected_read_one_in: u64,
    /// Reads that find a bit flipped on the medium.
    pub bit_flip_one_in: u64,
    /// Writes that go somewhere else.
    pub misdirected_write_one_in: u64,
    /// Writes that leave zeros.
    pub zero_fill_one_in: u64,
    /// Writes that leave garbage.
    pub garbage_fill_one_in: u64,
    /// Flushes that are answered without having done anything.
    pub lying_flush_one_in: u64,
}

/// What a disk does wrong with a write that it answers well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WriteFault {
    Misdirected,
    Zeros,
    Garbage,
}

impl Faults {
    /// Whether the medium itself may change or lose what was flushed.
    pub fn spoil_the_medium(&self) -> bool {
        self.bit_flip_one_in > 0
            || self.misdirected_write_one_in > 0
            || self.zero_fill_one_in > 0
            || self.garbage_fill_one_in > 0
            || self.lying_flush_one_in > 0
    }

    /// Whether reads may fail, or bring what is not there.
    pub fn disturb_reads(&self) -> bool {
        self.read_error_one_in > 0
            || self.misdirected_read_one_in > 0
            || self.vanish_one_in > 0
            || self.spoil_the_medium()
    }

    pub(super) fn pick_write_fault(&self, random: &mut Random) -> Option<WriteFault> {
        let kinds = [
            (self.misdirected_write_one_in, WriteFault::Misdirected),
            (self.zero_fill_one_in, WriteFault::Zeros),
            (self.garbage_fill_one_in, WriteFault::Garbage),
        ];
        let mut possible = kinds.into_iter().filter(|(one_in, _)| *one_in > 0);
        possible.find(|(one_in, _)| random.one_in(*one_in)).map(|(_, fault)| fault)
    }
}
