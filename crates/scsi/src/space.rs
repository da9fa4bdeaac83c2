//! Thin provisioning status of a logical unit (SBC-4 4.7): counts, and thresholds that are
//! announced once each time they are reached.

use block::LogicalBlockLength;

use crate::modes::{Modes, Threshold};

/// Where a volume's space stands, as the owner says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnitSpace {
    /// Bytes that the volume can still take from its pool.
    pub available_bytes: u64,
    /// Bytes of the volume that are mapped.
    pub used_bytes: u64,
}

/// Bytes of a threshold set, where logical blocks are not larger.
const SET_BYTES: u64 = 4096;

/// THRESHOLD EXPONENT of VPD page B2h: log2 of the logical blocks in a threshold set; zero would say
/// that there are no thresholds.
pub(crate) fn threshold_exponent(block_length: LogicalBlockLength) -> u8 {
    let blocks = SET_BYTES / block_length.bytes();
    (blocks.max(2)).ilog2() as u8
}

/// Bytes as a number of threshold sets, or as many as 32 bits can say.
pub(crate) fn threshold_sets(bytes: u64, block_length: LogicalBlockLength) -> u32 {
    let set_bytes = block_length.bytes() << threshold_exponent(block_length);
    u32::try_from(bytes / set_bytes).unwrap_or(u32::MAX)
}

/// Which thresholds were reached when last looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reached {
    available: bool,
    used: bool,
}

impl Reached {
    /// Looks again; returns whether a threshold is newly reached. One that is not reached any more
    /// is armed again.
    pub(crate) fn update(
        &mut self,
        modes: &Modes,
        space: UnitSpace,
        block_length: LogicalBlockLength,
    ) -> bool {
        let available = threshold_sets(space.available_bytes, block_length);
        let used = threshold_sets(space.used_bytes, block_length);
        let is_reached = |threshold: Threshold, reached: bool| threshold.enabled && reached;
        let now = Self {
            available: is_reached(
                modes.available_threshold,
                available <= modes.available_threshold.count,
            ),
            used: is_reached(modes.used_threshold, used >= modes.used_threshold.count),
        };
        let is_new = (now.available && !self.available) || (now.used && !self.used);
        *self = now;
        is_new
    }

    pub(crate) const fn any(self) -> bool {
        self.available || self.used
    }
}
