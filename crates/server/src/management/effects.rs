//! Performs what the control plane decides: keeps events, tells front ends, saves, and has pools change.

use control::{Deletion, Effect};

use super::Management;
use super::problems::gone;
use crate::data_plane::DataPlane;
use crate::exports::ExportEvent;

impl Management {
    /// Performs effects in their order.
    pub(super) fn perform(
        &mut self,
        plane: &mut DataPlane,
        effects: impl IntoIterator<Item = Effect>,
    ) {
        for effect in effects {
            match effect {
                Effect::Note(note) => self.events.note(note.severity, note.object, note.message),
                Effect::WarnHosts(volume) => {
                    plane.exports.tell(&ExportEvent::ThresholdReached(volume));
                }
                Effect::Save(change) => self.save_for_schedule(plane, change),
                Effect::Snapshot(run) => self.begin_run(plane, run),
                Effect::Delete(deletion) => self.delete_by_itself(plane, &deletion),
                Effect::Audit { path, status } => self.audit.note_own("DELETE", path, status),
            }
        }
    }

    fn delete_by_itself(&mut self, plane: &mut DataPlane, deletion: &Deletion) {
        let pool = plane.pool_named(&deletion.pool).map(|(pool, _)| pool);
        let begun = match pool {
            Some(pool) => self.begin_deletion(plane, pool, deletion.id),
            None => Err(gone()),
        };
        self.begin(plane, begun);
    }
}
