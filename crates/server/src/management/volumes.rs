//! Routes of volumes: create, resize, delete.

use api::{BlockSize, CreateVolume, Problem, ResizeVolume};
use array::{BlockForm, Presentation};
use block::VolumeId;
use control::volume_lifecycle::{self, Named};
use store::Volume;

use super::{Management, Parameters, Progress};
use crate::data_plane::DataPlane;
use crate::events::now;
use crate::exports::Export;
use crate::pools::PoolId;

impl Management {
    pub(super) fn create_volume(
        &mut self,
        plane: &mut DataPlane,
        request: &CreateVolume,
    ) -> Result<Progress, Problem> {
        self.begin_procedure(plane, |view| volume_lifecycle::create(request, now(), view))
    }

    pub(super) fn resize_volume(
        &mut self,
        plane: &mut DataPlane,
        parameters: &Parameters,
        request: &ResizeVolume,
    ) -> Result<Progress, Problem> {
        self.begin_procedure(plane, |view| {
            volume_lifecycle::resize(parameters.volume(), request, view)
        })
    }

    pub(super) fn delete_volume(
        &mut self,
        plane: &mut DataPlane,
        parameters: &Parameters,
    ) -> Result<Progress, Problem> {
        let (pool, name) = parameters.volume();
        self.begin_procedure(plane, |view| {
            volume_lifecycle::delete(Named::Volume(pool, name), now(), view)
        })
    }

    pub(super) fn delete_snapshot(
        &mut self,
        plane: &mut DataPlane,
        parameters: &Parameters,
    ) -> Result<Progress, Problem> {
        let (pool, name) = parameters.snapshot();
        let named = Named::Snapshot(pool, name);
        self.begin_procedure(plane, |view| volume_lifecycle::delete(named, now(), view))
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

fn export_of(volume: &Volume, presentation: Presentation) -> Export {
    Export {
        naa: volume.spec.naa,
        size_bytes: volume.spec.size_bytes,
        blocks: presentation.blocks,
        thin: !volume.spec.thick,
        write_protected: volume.spec.snapshot,
        reservations_hidden: presentation.reservations_hidden,
        identification: presentation.identification,
        switches_off: presentation.switches_off,
    }
}

pub(super) fn describe_blocks(form: BlockForm) -> BlockSize {
    match form {
        BlockForm::B512n => BlockSize::B512,
        BlockForm::B512e => BlockSize::B512e,
        BlockForm::B4096 => BlockSize::B4096,
    }
}
