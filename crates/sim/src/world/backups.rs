//! The backup program of a run: it asks when its last question was answered.

use store::Tag;

use super::{Answer, World};
use crate::action::Action;

impl World {
    /// The backup program asks on, if its last question was answered.
    pub(super) fn back_up(&mut self) {
        let Some(backup) = &mut self.backup else { return };
        if self.repeating || self.read_only || self.in_flight.contains_key(&backup.tag) {
            return;
        }
        if let Some(action) = backup.next(&self.oracle) {
            backup.tag = self.next_tag;
            self.submit(action);
        }
    }

    /// The backup program hears what changed.
    pub(super) fn hear_of_backup(&mut self, Tag(tag): Tag, action: &Action, result: &Answer) {
        if let (Action::Compare(question), Some(backup)) = (action, &mut self.backup)
            && backup.tag == tag
        {
            backup.hear(*question, result);
        }
    }
}
