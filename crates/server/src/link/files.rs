//! Kept state of other controllers (`link-peers.json`): where their links listen, the fingerprints of
//! their certificates, and their portals.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use control::link::Fingerprint;
use serde::{Deserialize, Serialize};

/// Every other controller that is known, by number.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Known {
    pub(crate) peers: BTreeMap<u16, Peer>,
}

/// Another controller.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Peer {
    /// Where its link listens: HOST:PORT; `None` if only it connects.
    pub(crate) address: Option<String>,
    /// Its certificate; `None` before they are paired.
    pub(crate) fingerprint: Option<Fingerprint>,
    /// Its iSCSI portals, each with its target portal group, as it said last.
    #[serde(default)]
    pub(crate) portals: BTreeMap<SocketAddr, u16>,
}

impl Peer {
    /// One that was paired just now.
    pub(super) const fn new(address: Option<String>, fingerprint: Fingerprint) -> Self {
        Self { address, fingerprint: Some(fingerprint), portals: BTreeMap::new() }
    }
}

impl Known {
    /// Takes what the command line says; forgets what a copied data directory says of the controller
    /// itself.
    pub(super) fn set_addresses(&mut self, own: u16, addresses: BTreeMap<u16, String>) {
        for (number, address) in addresses {
            self.peers.entry(number).or_default().address = Some(address);
        }
        self.peers.remove(&own);
    }

    /// The controller that has a certificate.
    pub(super) fn owner_of(&self, fingerprint: Fingerprint) -> Option<u16> {
        let mut peers = self.peers.iter();
        let found = peers.find(|(_, peer)| peer.fingerprint == Some(fingerprint));
        found.map(|(number, _)| *number)
    }
}
