//! Volumes: create, resize, delete, map.

use api::{BlockSize, CreateVolume, LunMap, MapVolume, Problem, ResizeVolume, SetReservations};
use array::limits::VOLUME_BYTES_MAX;
use array::{
    Access, ArrayError, BlockForm, Configuration, Presentation, check_name, naa_identifier,
};
use block::{BLOCK, VolumeId};
use scsi::LogicalUnitSpec;
use store::{Change, Failure, Outcome, Volume, VolumeSpec};

use super::problems::{conflict, failed, internal, refused};
use super::{Management, Parameters, Progress, Step, find, find_volume, scsi_identification};
use crate::core::{Core, Ticket};
use crate::data_directory::random_u64;
use crate::events::now;
use crate::http::Answer;

impl Management {
    pub(super) fn create_volume(
        &mut self,
        core: &mut Core,
        request: &CreateVolume,
    ) -> Result<Progress, Problem> {
        check_name(&request.name).map_err(|error| refused(&error))?;
        check_size(request.size_bytes)?;
        let pool = self.ready_pool(core, &request.pool)?;
        let id = VolumeId(random_u64().map_err(|error| internal(&error))?);
        let spec = VolumeSpec {
            id,
            name: request.name.clone(),
            size_bytes: request.size_bytes,
            reserved: request.reserved,
            naa: naa_identifier(id),
            snapshot: false,
            created: now(),
        };
        let presentation =
            Presentation { blocks: parse_blocks(request.block_size), ..Presentation::default() };
        self.present(id, presentation)?;
        let ticket = core.new_ticket();
        core.pools[pool].store.change(ticket.tag(), Change::CreateVolume(spec));
        Ok(Progress::Wait(ticket, Step::CreateVolume { pool, id }))
    }

    pub(super) fn volume_created(
        &mut self,
        core: &mut Core,
        pool: usize,
        id: VolumeId,
        result: Result<Outcome, Failure>,
    ) -> Answer {
        if let Err(failure) = result {
            self.present(id, Presentation::default())?;
            return Err(failed(&failure));
        }
        self.serve_volume(core, pool, id);
        self.show_volume(core, pool, id)
    }

    pub(super) fn resize_volume(
        &mut self,
        core: &mut Core,
        parameters: &Parameters,
        request: &ResizeVolume,
    ) -> Result<Progress, Problem> {
        let (pool, id) = find_volume(core, parameters)?;
        check_size(request.size_bytes)?;
        let current = core.pools[pool].store.volume(id).map_or(0, |volume| volume.size_bytes);
        if request.size_bytes < current && !request.shrink {
            return Err(conflict(
                &"a smaller size destroys what lies beyond it: add --shrink if that is wanted",
            ));
        }
        if request.size_bytes < current {
            // Hosts must not see a size that the volume has no more.
            core.target.resize_unit(id, request.size_bytes);
        }
        let change = Change::ResizeVolume { id, size_bytes: request.size_bytes };
        let ticket = core.new_ticket();
        core.pools[pool].store.change(ticket.tag(), change);
        Ok(Progress::Wait(ticket, Step::ResizeVolume { pool, id }))
    }

    pub(super) fn volume_resized(
        &mut self,
        core: &mut Core,
        pool: usize,
        id: VolumeId,
        result: Result<Outcome, Failure>,
    ) -> Answer {
        if let Some(volume) = core.pools[pool].store.volume(id) {
            let size_bytes = volume.size_bytes;
            core.target.resize_unit(id, size_bytes);
        }
        result.map_err(|failure| failed(&failure))?;
        self.show_volume(core, pool, id)
    }

    pub(super) fn delete_volume(
        &mut self,
        core: &mut Core,
        parameters: &Parameters,
    ) -> Result<Progress, Problem> {
        let (pool, id) = find_volume(core, parameters)?;
        if is_snapshot(core, pool, id) {
            return Err(conflict(&"this is a snapshot: 'gantry snapshot delete' deletes it"));
        }
        self.delete(core, pool, id)
    }

    pub(super) fn delete_snapshot(
        &mut self,
        core: &mut Core,
        parameters: &Parameters,
    ) -> Result<Progress, Problem> {
        let (pool, name) = (parameters.get("pool"), parameters.get("snapshot"));
        let (pool, id) = find(core, "snapshot", pool, name)?;
        if !is_snapshot(core, pool, id) {
            return Err(conflict(&"this is a volume: 'gantry volume delete' deletes it"));
        }
        self.delete(core, pool, id)
    }

    fn delete(&mut self, core: &mut Core, pool: usize, id: VolumeId) -> Result<Progress, Problem> {
        let (ticket, step) = self.begin_deletion(core, pool, id).map_err(|e| refused(&e))?;
        Ok(Progress::Wait(ticket, step))
    }

    /// Begins to delete a volume or snapshot: every deletion goes this way.
    pub(super) fn begin_deletion(
        &mut self,
        core: &mut Core,
        pool: usize,
        id: VolumeId,
    ) -> Result<(Ticket, Step), ArrayError> {
        self.configuration.check_unlocked(id, now())?;
        self.configuration.check_unmapped(id)?;
        self.settle_copies(core, id);
        core.target.remove_unit(id);
        let ticket = core.new_ticket();
        core.pools[pool].store.change(ticket.tag(), Change::DeleteVolume(id));
        Ok((ticket, Step::DeleteVolume { pool, id }))
    }

    pub(super) fn volume_deleted(
        &mut self,
        core: &mut Core,
        pool: usize,
        id: VolumeId,
        result: Result<Outcome, Failure>,
    ) -> Answer {
        match result {
            Ok(_) => {
                core.detach(id);
                core.unit_states.forget(id);
                self.tasks.look_at_reaper(&core.pools[pool]);
                self.change(|array| {
                    array.forget_volume_thresholds(id);
                    array.forget_lock(id);
                    array.set_presentation(id, Presentation::default());
                    Ok(())
                })?;
                Ok(serde_json::Value::Null)
            }
            Err(failure) => {
                self.serve_volume(core, pool, id);
                self.luns_changed = true;
                Err(failed(&failure))
            }
        }
    }

    pub(super) fn map_volume(
        &mut self,
        core: &mut Core,
        parameters: &Parameters,
        request: &MapVolume,
    ) -> Result<Progress, Problem> {
        let (_, id) = find_volume(core, parameters)?;
        let host = parameters.get("host");
        let access = if request.read_only { Access::ReadOnly } else { Access::ReadWrite };
        let lun =
            self.change(|configuration| configuration.map_volume(id, host, request.lun, access))?;
        let volume = format!("{}/{}", parameters.get("pool"), parameters.get("volume"));
        Ok(Progress::answer(&LunMap {
            volume,
            host: host.to_owned(),
            lun,
            read_only: request.read_only,
        }))
    }

    pub(super) fn unmap_volume(
        &mut self,
        core: &mut Core,
        parameters: &Parameters,
    ) -> Result<Progress, Problem> {
        let (_, id) = find_volume(core, parameters)?;
        let host = parameters.get("host");
        self.change(|configuration| configuration.unmap_volume(id, Some(host)))?;
        Ok(Progress::answer(&()))
    }

    pub(super) fn set_reservations(
        &mut self,
        core: &mut Core,
        parameters: &Parameters,
        request: SetReservations,
    ) -> Result<Progress, Problem> {
        let (pool, id) = find_volume(core, parameters)?;
        let presentation = Presentation {
            reservations_hidden: request.hidden,
            ..self.configuration.presentation(id)
        };
        self.present(id, presentation)?;
        core.target.set_reservations_hidden(id, request.hidden);
        Ok(Progress::answer(&self.describe_volume(core, pool, id)?))
    }

    pub(super) fn present_as(&mut self, copy: VolumeId, source: VolumeId) -> Result<(), Problem> {
        self.present(copy, presentation_of_copy(&self.configuration, source))
    }

    /// Saved before a volume is made, so that hosts never see it in another form.
    fn present(&mut self, id: VolumeId, presentation: Presentation) -> Result<(), Problem> {
        self.change(|array| {
            array.set_presentation(id, presentation);
            Ok(())
        })
    }

    /// Lets hosts reach a volume that its pool holds.
    pub(super) fn serve_volume(&self, core: &mut Core, pool: usize, id: VolumeId) {
        let Some(volume) = core.pools[pool].store.volume(id) else { return };
        let presentation = self.configuration.presentation(id);
        let spec = unit_spec(volume, presentation.blocks);
        let snapshot = volume.snapshot;
        match core.unit_states.load(id) {
            Ok(state) => {
                core.target.add_unit(id, spec);
                core.target.restore_unit(id, state.unwrap_or_default());
                core.target.set_write_protected(id, snapshot);
                core.target.set_reservations_hidden(id, presentation.reservations_hidden);
                let own = presentation.identification.map(scsi_identification);
                core.target.set_own_identification(id, own);
                core.attach(id, pool);
            }
            Err(error) => {
                let volume = &volume.name;
                tracing::error!(volume, error = format!("{error:#}"), "a volume is not served");
            }
        }
    }

    fn show_volume(&self, core: &Core, pool: usize, id: VolumeId) -> Answer {
        let volume = self.describe_volume(core, pool, id)?;
        serde_json::to_value(volume).map_err(|error| internal(&error))
    }
}

/// A copy shows the same blocks as its source, and the same vendor and product, so that hosts have
/// the array copy between the two.
pub(super) fn presentation_of_copy(array: &Configuration, source: VolumeId) -> Presentation {
    Presentation { reservations_hidden: false, ..array.presentation(source) }
}

pub(super) fn is_snapshot(core: &Core, pool: usize, id: VolumeId) -> bool {
    core.pools[pool].store.volume(id).is_some_and(|volume| volume.snapshot)
}

fn unit_spec(volume: &Volume, blocks: BlockForm) -> LogicalUnitSpec {
    LogicalUnitSpec {
        naa: volume.naa,
        size_bytes: volume.size_bytes,
        block_length: blocks.logical_block_length(),
        physical_block_exponent: blocks.physical_block_exponent(),
        thin: !volume.reserved,
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
    } else if size_bytes > VOLUME_BYTES_MAX {
        "a volume has at most 64 TiB: choose a smaller size"
    } else {
        return Ok(());
    };
    Err(refused(&ArrayError::InvalidSize(sentence.to_owned())))
}
