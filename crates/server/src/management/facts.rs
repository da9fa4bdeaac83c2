//! What changes of the configuration have to know of volumes, sessions and addresses: the view that
//! `control` is given.

use api::Problem;
use array::{HeldLun, Rest};
use block::VolumeId;
use control::change::View;

use super::{Management, find};
use crate::data_plane::DataPlane;

/// The view of the array that a change is made with.
pub(super) struct Facts<'a> {
    management: &'a Management,
    plane: &'a DataPlane,
}

impl<'a> Facts<'a> {
    pub(super) const fn new(management: &'a Management, plane: &'a DataPlane) -> Self {
        Self { management, plane }
    }
}

impl View for Facts<'_> {
    fn rest(&self) -> Rest<'static> {
        self.management.lun_rest.rest(&[])
    }

    fn held(&self) -> Vec<HeldLun> {
        self.management.lun_rest.held(self.plane)
    }

    fn volume(&self, pool: &str, name: &str) -> Result<VolumeId, Problem> {
        find(self.plane, "volume", pool, name).map(|(_, id)| id)
    }

    fn name_of(&self, volume: VolumeId) -> String {
        self.plane.name_of(volume)
    }
}
