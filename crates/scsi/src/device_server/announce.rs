//! Unit attentions that the owner of a volume sends to every host that sees it.

use block::VolumeId;

use super::DeviceServer;
use crate::sense;

impl DeviceServer {
    /// Tells that the volume holds something else than before (28h/00h, SPC-4 5.14).
    pub fn announce_medium_change(&mut self, id: VolumeId) {
        self.establish(id, sense::NOT_READY_TO_READY_CHANGE_MEDIUM_MAY_HAVE_CHANGED);
    }

    /// Tells that space becomes short (38h/07h, SBC-4 4.7.3.7).
    pub fn announce_threshold(&mut self, id: VolumeId) {
        self.establish(id, sense::THIN_PROVISIONING_SOFT_THRESHOLD_REACHED);
    }
}
