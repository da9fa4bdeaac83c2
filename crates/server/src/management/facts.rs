//! View of volumes, sessions and addresses for changes of the configuration, which `control` is given,
//! and what requests find.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::SocketAddr;

use api::Problem;
use array::{HeldLun, Rest};
use block::VolumeId;
use control::change::View;
use control::portals::Portals;
use control::volumes::Found;
use mio::net::TcpListener;

use super::volumes::is_snapshot;
use super::{Management, Parameters};
use crate::data_plane::DataPlane;

/// The view of the array that a change is made with.
pub(super) struct Facts<'a> {
    pub(super) management: &'a Management,
    pub(super) plane: &'a DataPlane,
    /// Addresses that were opened for the change.
    opened: RefCell<BTreeMap<SocketAddr, TcpListener>>,
}

impl<'a> Facts<'a> {
    pub(super) const fn new(management: &'a Management, plane: &'a DataPlane) -> Self {
        Self { management, plane, opened: RefCell::new(BTreeMap::new()) }
    }

    /// What was opened for the change; it is closed when this is dropped.
    pub(super) fn into_opened(self) -> BTreeMap<SocketAddr, TcpListener> {
        self.opened.into_inner()
    }
}

impl View for Facts<'_> {
    fn rest(&self) -> Rest<'static> {
        self.management.lun_rest.rest()
    }

    fn held(&self) -> Vec<HeldLun> {
        self.management.lun_rest.held(self.plane)
    }

    fn volume(&self, pool: &str, name: &str) -> Result<VolumeId, Problem> {
        self.management.find(self.plane, "volume", (pool, name)).map(|(_, id)| id)
    }

    fn name_of(&self, volume: VolumeId) -> String {
        self.plane.name_of(volume)
    }

    fn fixed_portals(&self) -> Portals {
        self.management.portals.fixed()
    }

    fn listen(&self, address: SocketAddr) -> Result<(), String> {
        let listener = TcpListener::bind(address).map_err(|error| error.to_string())?;
        self.opened.borrow_mut().insert(address, listener);
        Ok(())
    }
}

impl Management {
    /// The volume that a request's path names; it may be a snapshot.
    pub(super) fn found_volume(
        &self,
        plane: &DataPlane,
        parameters: &Parameters,
    ) -> Result<Found, Problem> {
        self.found(plane, "volume", (parameters.get("pool"), parameters.get("volume")))
    }

    /// The snapshot that a request's path names; it may be a volume.
    pub(super) fn found_snapshot(
        &self,
        plane: &DataPlane,
        parameters: &Parameters,
    ) -> Result<Found, Problem> {
        self.found(plane, "snapshot", (parameters.get("pool"), parameters.get("snapshot")))
    }

    fn found(
        &self,
        plane: &DataPlane,
        kind: &'static str,
        (pool, name): (&str, &str),
    ) -> Result<Found, Problem> {
        let (slot, id) = self.find(plane, kind, (pool, name))?;
        Ok(Found {
            pool: pool.to_owned(),
            name: name.to_owned(),
            id,
            is_snapshot: is_snapshot(plane, slot, id),
            is_going: self.check_stays(id).is_err(),
        })
    }
}
