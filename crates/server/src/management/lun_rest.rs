//! The clock of the LUN number quarantine, and what sessions hold; `control` decides.

use std::time::{Duration, Instant};

use array::{FreeLuns, HeldLun, Rest};
use control::lun_rest;

use super::Management;
use crate::data_plane::DataPlane;
use crate::iscsi::Session;

/// The quarantine, by the time since the daemon began.
pub(super) struct LunRest {
    begun: Instant,
    numbers: lun_rest::LunRest,
}

impl LunRest {
    pub(super) fn new(seconds: u64, free: FreeLuns) -> Self {
        let numbers = lun_rest::LunRest::new(Duration::from_secs(seconds), free);
        Self { begun: Instant::now(), numbers }
    }

    /// The history of the unused numbers is not known any more.
    pub(super) fn forget_numbers(&mut self) {
        self.numbers.forget_numbers(self.begun.elapsed());
    }

    /// The numbers that sessions hold, or held until they ended a short while ago.
    pub(super) fn held(&self, plane: &DataPlane) -> Vec<HeldLun> {
        let held = plane.exports.held_luns(self.numbers.length());
        held.chain(self.numbers.held_by_ended(self.begun.elapsed()).cloned()).collect()
    }

    /// What decides now whether a number may go to another volume.
    pub(super) fn rest(&self) -> Rest<'static> {
        self.numbers.rest(self.begun.elapsed())
    }
}

impl Management {
    /// Lets the numbers rest that a session holds which ends now. To be called while the device
    /// server still knows it.
    pub(crate) fn session_ends(&mut self, plane: &DataPlane, session: &Session) {
        let LunRest { begun, numbers } = &mut self.lun_rest;
        let length = numbers.length();
        let held = plane.exports.held_luns_of(session.nexus, &session.port.name, length);
        numbers.session_ends(begun.elapsed(), held.into_iter());
    }
}
