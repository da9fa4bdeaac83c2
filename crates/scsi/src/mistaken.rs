//! Stale LUN guard: which initiator ports still took a LUN for another volume when their last
//! session ended.
//!
//! A host that logs in again, after a fault of the network, keeps what it thinks of its LUNs. Its
//! new session must not reach a volume that the old one was kept from.

use std::collections::BTreeMap;

use block::VolumeId;

use crate::limits::MISTAKEN_PORTS_MAX;
use crate::nexus::Nexus;

/// By iSCSI name and ISID of the initiator port: the numbers, and what they stand for now.
#[derive(Default)]
pub(crate) struct Mistaken {
    ports: BTreeMap<(String, [u8; 6]), BTreeMap<u16, VolumeId>>,
}

impl Mistaken {
    /// Keeps what a session did not ask for until it ended.
    pub(crate) fn remember(&mut self, nexus: &Nexus) {
        let mistaken: BTreeMap<_, _> = nexus.mistaken().collect();
        if !mistaken.is_empty() && self.ports.len() < MISTAKEN_PORTS_MAX {
            self.ports.insert((nexus.spec.initiator_name.clone(), nexus.spec.isid), mistaken);
        }
    }

    /// Keeps a new session of the same port from what the last one did not ask for.
    pub(crate) fn recall(&mut self, nexus: &mut Nexus) {
        let port = (nexus.spec.initiator_name.clone(), nexus.spec.isid);
        for (lun, volume) in self.ports.remove(&port).into_iter().flatten() {
            nexus.mistake(lun, volume);
        }
    }
}
