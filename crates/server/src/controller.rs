//! Identity of one controller of an array of several: its number, which is the tag of its target portal
//! group, and the portals of the others. It is kept in the data directory.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::str::FromStr;

use anyhow::{Result, bail};
use array::Portal;
use control::portals::Portals;
use serde::{Deserialize, Serialize};

use crate::TARGET_PORTAL_GROUP_TAG;
use crate::data_directory::DataDirectory;
use crate::limits::{CONTROLLERS_MAX, PEER_PORTALS_MAX};
use crate::options::Options;

#[cfg(test)]
mod tests;

/// A controller, and where the others listen.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Controller {
    /// From 1; 0 for the only controller of its array.
    number: u16,
    /// Portals of other controllers, each with its target portal group.
    others: BTreeMap<SocketAddr, u16>,
}

/// A portal of another controller, as it is written on the command line: GROUP=IP:PORT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PeerPortal {
    group: u16,
    address: SocketAddr,
}

impl FromStr for PeerPortal {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "'{text}' is not GROUP=IP:PORT: write for example 2=192.0.2.2:3260, the number of \
                     the other controller and an address of its iSCSI portal"
            )
        };
        let (group, address) = text.split_once('=').ok_or_else(wrong)?;
        let group = group.parse().ok().filter(|&group: &u16| group > 0).ok_or_else(wrong)?;
        let address: SocketAddr = address.parse().map_err(|_| wrong())?;
        if address.port() == 0 || address.ip().is_unspecified() {
            return Err(wrong());
        }
        Ok(Self { group, address })
    }
}

impl Controller {
    /// What the command line says; what it does not say is as it was at the last start.
    pub(crate) fn load(directory: &DataDirectory, options: &Options) -> Result<Self> {
        let kept = directory.load_controller()?;
        let controller = kept.clone().changed(options.controller, &options.peer_portal)?;
        if controller != kept {
            directory.save_controller(&controller)?;
        }
        Ok(controller)
    }

    fn changed(mut self, number: Option<u16>, others: &[PeerPortal]) -> Result<Self> {
        self.number = number.unwrap_or(self.number);
        if !others.is_empty() {
            self.others = others.iter().map(|peer| (peer.address, peer.group)).collect();
        }
        if self.number == 0 && !self.others.is_empty() {
            bail!("--peer-portal names another controller: say which one this is by --controller");
        }
        if self.others.values().any(|&group| group == self.number) {
            bail!(
                "--peer-portal {}=... names this controller: a controller's target portal group is its \
                 number, and each has another one",
                self.number
            );
        }
        if self.others.len() > PEER_PORTALS_MAX {
            bail!("--peer-portal may be given {PEER_PORTALS_MAX} times at most");
        }
        Ok(self)
    }

    /// Whether the array has several controllers.
    pub(crate) const fn is_one_of_several(&self) -> bool {
        self.number > 0
    }

    /// Its number, from 1; 0 for the only one.
    pub(crate) const fn number(&self) -> u16 {
        self.number
    }

    /// The target portal group of portals that were given at the start.
    pub(crate) const fn group(&self) -> u16 {
        match self.number {
            0 => TARGET_PORTAL_GROUP_TAG,
            number => number,
        }
    }

    /// Whether a target portal group is another controller's.
    pub(crate) fn is_of_another(&self, group: u16) -> bool {
        self.others.values().any(|&other| other == group)
    }

    /// Where the others listen.
    pub(crate) fn others(&self) -> Portals {
        let portal = |(&address, &group)| (address, Portal { group, redirect: None });
        self.others.iter().map(portal).collect()
    }

    /// Their target ports, each with its group.
    pub(crate) fn other_ports(&self) -> BTreeMap<u16, u16> {
        self.others.values().map(|&group| (group, group)).collect()
    }
}

/// Reads the number of a controller.
pub(crate) fn parse_number(text: &str) -> Result<u16, String> {
    let number = text.parse().ok().filter(|number| (1..=CONTROLLERS_MAX).contains(number));
    number.ok_or_else(|| format!("a controller has a number from 1 to {CONTROLLERS_MAX}"))
}
