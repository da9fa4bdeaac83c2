//! Routes of volumes: create, resize, delete.

use api::{BlockSize, CreateVolume, Problem, ProblemKind, ResizeVolume};
use array::{
    ArrayError, BlockForm, Configuration, Presentation, Secrets, Tagged, check_name, naa_identifier,
};
use block::{BLOCK, VolumeId};
pub(super) use control::volumes::{is_going_problem, is_snapshot_problem, is_volume_problem};
use store::{Change, Failure, Outcome, Volume, VolumeSpec};

use super::problems::{failed, gone, internal, problem, refused};
use super::{Management, Parameters, PoolStep, Progress, Touched, Work, find, find_volume};
use crate::data_directory::random_u64;
use crate::data_plane::DataPlane;
use crate::events::now;
use crate::exports::{Export, ExportEvent};
use crate::pools::PoolId;

impl Management {
    pub(super) fn create_volume(
        &mut self,
        plane: &mut DataPlane,
        request: &CreateVolume,
    ) -> Result<Progress, Problem> {
        check_name(&request.name).map_err(|error| refused(&error))?;
        check_size(request.size_bytes)?;
        let pool = self.ready_pool(plane, &request.pool)?;
        let id = VolumeId(random_u64().map_err(|error| internal(&error))?);
        let spec = VolumeSpec {
            id,
            name: request.name.clone(),
            size_bytes: request.size_bytes,
            thick: request.thick,
            naa: naa_identifier(id),
            snapshot: false,
            created: now(),
        };
        let presentation =
            Presentation { blocks: parse_blocks(request.block_size), ..Presentation::default() };
        self.present(id, presentation, move |_, plane| {
            let change = Change::CreateVolume(spec);
            Self::wait_for(plane, pool, change, PoolStep::CreateVolume { pool, id })
        })
    }

    pub(super) fn volume_created(
        &mut self,
        plane: &mut DataPlane,
        pool: PoolId,
        id: VolumeId,
        result: Result<Outcome, Failure>,
    ) -> Result<Progress, Problem> {
        if let Err(failure) = result {
            return self.forget_presentations(vec![id], failed(&failure));
        }
        self.serve_volume(plane, pool, id);
        self.show_volume(plane, pool, id)
    }

    pub(super) fn resize_volume(
        &mut self,
        plane: &mut DataPlane,
        parameters: &Parameters,
        request: &ResizeVolume,
    ) -> Result<Progress, Problem> {
        let (pool, id) = find_volume(plane, parameters)?;
        check_size(request.size_bytes)?;
        self.check_stays(id)?;
        let current = size_of(plane, pool, id);
        if request.size_bytes < current && !request.shrink {
            return Err(problem(
                ProblemKind::ShrinkNotConfirmed,
                &"a smaller size destroys what lies beyond it: say 'shrink' if that is wanted",
            )
            .with("size_bytes", current));
        }
        if request.size_bytes < current {
            // Hosts must not see a size that the volume has no more.
            plane.exports.tell(&ExportEvent::Resized(id, request.size_bytes));
        }
        let change = Change::ResizeVolume { id, size_bytes: request.size_bytes };
        Self::wait_for(plane, pool, change, PoolStep::ResizeVolume { pool, id })
    }

    pub(super) fn volume_resized(
        &mut self,
        plane: &mut DataPlane,
        pool: PoolId,
        id: VolumeId,
        result: Result<Outcome, Failure>,
    ) -> Result<Progress, Problem> {
        if let Some(volume) = plane.pools.get(pool).and_then(|pool| pool.store.volume(id)) {
            let size_bytes = volume.spec.size_bytes;
            plane.exports.tell(&ExportEvent::Resized(id, size_bytes));
        }
        result.map_err(|failure| failed(&failure))?;
        self.show_volume(plane, pool, id)
    }

    pub(super) fn delete_volume(
        &mut self,
        plane: &mut DataPlane,
        parameters: &Parameters,
    ) -> Result<Progress, Problem> {
        let (pool, id) = find_volume(plane, parameters)?;
        if is_snapshot(plane, pool, id) {
            return Err(is_snapshot_problem());
        }
        self.delete(plane, pool, id)
    }

    pub(super) fn delete_snapshot(
        &mut self,
        plane: &mut DataPlane,
        parameters: &Parameters,
    ) -> Result<Progress, Problem> {
        let (pool, name) = (parameters.get("pool"), parameters.get("snapshot"));
        let (pool, id) = find(plane, "snapshot", pool, name)?;
        if !is_snapshot(plane, pool, id) {
            return Err(is_volume_problem());
        }
        self.delete(plane, pool, id)
    }

    fn delete(
        &mut self,
        plane: &mut DataPlane,
        pool: PoolId,
        id: VolumeId,
    ) -> Result<Progress, Problem> {
        self.check_stays(id)?;
        self.check_deletable(id).map_err(|error| refused(&error))?;
        self.begin_deletion(plane, pool, id)
    }

    /// Refuses what is asked of a volume or snapshot that is just being deleted.
    pub(super) fn check_stays(&self, id: VolumeId) -> Result<(), Problem> {
        let goes = |work: &Work| matches!(work.step, PoolStep::DeleteVolume { id: going, .. } if going == id);
        if self.under_way.values().any(goes) { Err(is_going_problem()) } else { Ok(()) }
    }

    /// Whether a volume or snapshot may be deleted, now and with what is about to be saved.
    pub(super) fn check_deletable(&self, id: VolumeId) -> Result<(), ArrayError> {
        for configuration in [&*self.configuration, self.saving.accepted()] {
            configuration.check_unlocked(id, now())?;
            configuration.check_unmapped(id)?;
        }
        Ok(())
    }

    /// Begins to delete a volume or snapshot that [`Self::check_deletable`] lets go: every deletion
    /// goes this way.
    pub(super) fn begin_deletion(
        &mut self,
        plane: &mut DataPlane,
        pool: PoolId,
        id: VolumeId,
    ) -> Result<Progress, Problem> {
        let served = plane.pools.get(pool).ok_or_else(gone)?;
        let name = served.store.volume(id).map_or("", |volume| &volume.spec.name);
        let name = format!("{}/{name}", served.name);
        self.settle_copies(plane, id);
        plane.feed.keep_name(id, name);
        plane.exports.tell(&ExportEvent::Removed(id));
        Self::wait_for(plane, pool, Change::DeleteVolume(id), PoolStep::DeleteVolume { pool, id })
    }

    pub(super) fn volume_deleted(
        &mut self,
        plane: &mut DataPlane,
        pool: PoolId,
        id: VolumeId,
        result: Result<Outcome, Failure>,
    ) -> Result<Progress, Problem> {
        self.relief_came(plane, pool, id, &result);
        match result {
            Ok(_) => {
                plane.detach(id);
                plane.unit_states.forget(id);
                if let Some(pool) = plane.pools.get(pool) {
                    self.look_at_reaper(pool);
                }
                let forget = |array: &mut Configuration| {
                    array.forget_volume_thresholds(id);
                    array.forget_lock(id);
                    array.forget_scheduled(id);
                    array.forget_tags(Tagged::Volume(id));
                    array.set_presentation(id, Presentation::default());
                    Ok(())
                };
                self.change_unseen(forget, |_, _, ()| Ok(Progress::done()))
            }
            Err(failure) => {
                self.serve_volume(plane, pool, id);
                self.luns_changed = Touched::All;
                Err(failed(&failure))
            }
        }
    }

    /// Saved before a volume is made, so that hosts never see it in another form.
    fn present(
        &mut self,
        id: VolumeId,
        presentation: Presentation,
        then: impl FnOnce(&mut Self, &mut DataPlane) -> Result<Progress, Problem> + 'static,
    ) -> Result<Progress, Problem> {
        let change = |array: &mut Configuration| {
            array.set_presentation(id, presentation);
            Ok(())
        };
        self.change_unseen(change, |management, plane, ()| then(management, plane))
    }

    /// Forgets what was said of volumes that could not be made, and answers why.
    pub(super) fn forget_presentations(
        &mut self,
        ids: Vec<VolumeId>,
        why: Problem,
    ) -> Result<Progress, Problem> {
        let forget = |array: &mut Configuration, _: &mut Secrets| {
            for id in ids {
                array.forget_lock(id);
                array.set_presentation(id, Presentation::default());
            }
            Ok(())
        };
        self.change_or_not(forget, |_, _, _| Err(why))
    }

    /// Lets hosts reach a volume that its pool holds.
    pub(super) fn serve_volume(&self, plane: &mut DataPlane, pool: PoolId, id: VolumeId) {
        let served = plane.pools.get(pool);
        let Some(volume) = served.and_then(|pool| pool.store.volume(id)) else { return };
        let export = export_of(volume, self.configuration.presentation(id));
        let name = volume.spec.name.clone();
        if let Err(error) = plane.export(id, pool, export) {
            tracing::error!(volume = name, error = format!("{error:#}"), "a volume is not served");
        }
    }

    pub(super) fn show_volume(
        &self,
        plane: &DataPlane,
        pool: PoolId,
        id: VolumeId,
    ) -> Result<Progress, Problem> {
        Ok(Progress::answer(&self.describe_volume(plane, pool, id)?))
    }
}

pub(super) fn is_snapshot(plane: &DataPlane, pool: PoolId, id: VolumeId) -> bool {
    let pool = plane.pools.get(pool);
    pool.and_then(|pool| pool.store.volume(id)).is_some_and(|volume| volume.spec.snapshot)
}

/// The size of a volume in bytes; 0 if it is gone.
pub(super) fn size_of(plane: &DataPlane, pool: PoolId, id: VolumeId) -> u64 {
    let pool = plane.pools.get(pool);
    pool.and_then(|pool| pool.store.volume(id)).map_or(0, |volume| volume.spec.size_bytes)
}

fn export_of(volume: &Volume, presentation: Presentation) -> Export {
    Export {
        naa: volume.spec.naa,
        size_bytes: volume.spec.size_bytes,
        blocks: presentation.blocks,
        thin: !volume.spec.thick,
        write_protected: volume.spec.snapshot,
        reservations_hidden: presentation.reservations_hidden,
        identification: presentation.identification,
    }
}

fn parse_blocks(size: BlockSize) -> BlockForm {
    match size {
        BlockSize::B512 => BlockForm::B512n,
        BlockSize::B512e => BlockForm::B512e,
        BlockSize::B4096 => BlockForm::B4096,
    }
}

pub(super) fn describe_blocks(form: BlockForm) -> BlockSize {
    match form {
        BlockForm::B512n => BlockSize::B512,
        BlockForm::B512e => BlockSize::B512e,
        BlockForm::B4096 => BlockSize::B4096,
    }
}

fn check_size(size_bytes: u64) -> Result<(), Problem> {
    let sentence = if size_bytes == 0 || !size_bytes.is_multiple_of(BLOCK) {
        "the size of a volume is a multiple of 4096 bytes and not 0: choose another"
    } else if size_bytes > store::limits::VOLUME_BYTES_MAX {
        "a volume has at most 64 TiB: choose a smaller size"
    } else {
        return Ok(());
    };
    Err(refused(&ArrayError::InvalidSize(sentence.to_owned())))
}
