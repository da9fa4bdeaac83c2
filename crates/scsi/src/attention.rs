//! Unit attention conditions (SAM-5 5.14) of one nexus on one logical unit.

use smallvec::SmallVec;

use crate::limits::ATTENTIONS_MAX;
use crate::sense::{self, SenseCode};

/// ADDITIONAL SENSE CODE of all kinds of resets, and of tasks that ended with one.
const RESET: u8 = 0x29;
const COMMANDS_CLEARED: u8 = 0x2f;

/// Conditions in the order in which they are told.
#[derive(Debug, Default)]
pub(crate) struct Attentions(SmallVec<[SenseCode; 1]>);

impl Attentions {
    /// What a nexus finds on a logical unit that it meets for the first time.
    pub(crate) fn power_on() -> Self {
        let mut attentions = Self::default();
        attentions.establish(sense::POWER_ON_RESET_OR_BUS_DEVICE_RESET_OCCURRED);
        attentions
    }

    /// Adds a condition, unless it waits already or says no more than one that does.
    pub(crate) fn establish(&mut self, condition: SenseCode) {
        let resets = self.0.iter().take_while(|waiting| waiting.asc == RESET).count();
        let is_told =
            self.0.contains(&condition) || condition.asc == COMMANDS_CLEARED && resets > 0;
        if is_told || self.0.len() >= ATTENTIONS_MAX {
            return;
        }
        // SAM-5 table 57: resets come before all else.
        let at = if condition.asc == RESET { resets } else { self.0.len() };
        self.0.insert(at, condition);
    }

    /// Whether no condition waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Takes the condition that is to be told next.
    pub(crate) fn take(&mut self) -> Option<SenseCode> {
        if self.0.is_empty() { None } else { Some(self.0.remove(0)) }
    }

    /// Clears a condition that the nexus learned by other means.
    pub(crate) fn clear(&mut self, condition: SenseCode) {
        self.0.retain(|waiting| *waiting != condition);
    }
}
