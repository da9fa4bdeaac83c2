//! Performs what the control plane decides: keeps events, tells front ends, saves, and has pools change.

use api::Problem;
use control::change::{Answer, Applied, Place};
use control::volume_lifecycle::begin_deletion;
use control::{Deletion, Effect};

use super::problems::gone;
use super::{Management, Next, Progress};
use crate::data_plane::DataPlane;
use crate::described::Described;
use crate::exports::ExportEvent;
use crate::pools::PoolId;

impl Management {
    /// Goes on when the configuration is saved, or could not be.
    pub(super) fn go_on_after(
        &mut self,
        plane: &mut DataPlane,
        next: Next,
        saved: Result<(), Problem>,
    ) -> Result<Progress, Problem> {
        match (next, saved) {
            (Next::Applied(Applied { effects, answer, .. }), Ok(())) => {
                self.perform(plane, effects);
                self.describe_answer(plane, answer)
            }
            (Next::Applied(Applied { unsaved, .. }), Err(problem)) => {
                self.perform(plane, unsaved);
                Err(problem)
            }
            (Next::Schedule(change), saved) => {
                self.saved_for_schedule(plane, change, saved);
                Ok(Progress::done())
            }
            (Next::Procedure(then), saved) => self.take(plane, then.saved(saved)),
            (Next::Imported(imported), Ok(())) => self.pool_imported(plane, *imported),
            (Next::Left { name, volumes, left }, Ok(())) => {
                Ok(self.pool_left(plane, &name, (volumes, left)))
            }
            (Next::Imported(_) | Next::Left { .. }, Err(problem)) => Err(problem),
        }
    }

    pub(super) fn describe_answer(
        &self,
        plane: &DataPlane,
        answer: Answer,
    ) -> Result<Progress, Problem> {
        match answer {
            Answer::Written(value) => Ok(Progress::Answer(Ok(Described::Written(value)))),
            Answer::Pool(name) => self.show_pool(plane, &name),
            Answer::Volume(place) => self.show_volume(plane, slot_of(plane, &place)?, place.id),
            Answer::Snapshot(place) => {
                let pool = plane.pools.get(slot_of(plane, &place)?).ok_or_else(gone)?;
                let snapshot = pool.store.volume(place.id).ok_or_else(gone)?;
                Ok(Progress::answer(&self.snapshot(pool, snapshot)))
            }
        }
    }

    /// Performs effects in their order.
    pub(super) fn perform(
        &mut self,
        plane: &mut DataPlane,
        effects: impl IntoIterator<Item = Effect>,
    ) {
        for effect in effects {
            match effect {
                Effect::Note(note) => self.events.note(note.severity, note.object, note.message),
                Effect::Tell(event) => {
                    if let ExportEvent::Resized(volume, _) = event {
                        self.note_size(plane, volume);
                    }
                    plane.exports.tell(&event);
                }
                Effect::OpenPortal(address) => self.portals.open(address),
                Effect::ClosePortal(address) => self.portals.close(address),
                Effect::CloseUnsaved(address) => self.portals.close_unsaved(address),
                Effect::ConfigureReceivers => self.tell_receivers(),
                Effect::Forget(forgotten) => self.forget(forgotten),
                Effect::Volume(effect) => self.perform_on_volume(plane, effect),
                Effect::Pool(effect) => self.perform_on_pool(plane, effect),
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
            Some(pool) => self.take(plane, begin_deletion(pool, deletion.id)),
            None => Err(gone()),
        };
        self.begin(plane, begun);
    }
}

fn slot_of(plane: &DataPlane, place: &Place) -> Result<PoolId, Problem> {
    plane.pool_named(&place.pool).map(|(pool, _)| pool).ok_or_else(gone)
}
