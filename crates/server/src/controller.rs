//! Identity of one controller of an array of several: its number, which is the tag of its target portal
//! group, where it listens for the others, and their portals. It is kept in the data directory.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::str::FromStr;

use anyhow::{Result, bail};
use array::Portal;
use control::link::check_address;
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
    /// Where it listens for other controllers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    link: Option<SocketAddr>,
    /// Portals that other controllers told, by number, each with its target portal group: they count
    /// in place of those above. The link keeps them.
    #[serde(skip)]
    told: BTreeMap<u16, BTreeMap<SocketAddr, u16>>,
}

/// Where the link of another controller listens, as it is written on the command line: NUMBER=HOST:PORT.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PeerLink {
    pub(crate) number: u16,
    pub(crate) address: String,
}

impl FromStr for PeerLink {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "'{text}' is not NUMBER=HOST:PORT: write for example 2=192.0.2.2:3262, the number of the \
                 other controller and where its --link listens"
            )
        };
        let (number, address) = text.split_once('=').ok_or_else(wrong)?;
        let number = parse_number(number).map_err(|_| wrong())?;
        check_address(address).map_err(|_| wrong())?;
        Ok(Self { number, address: address.to_owned() })
    }
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
        let mut controller = kept.clone().changed(options.controller, &options.peer_portal)?;
        // What a copied data directory says of another controller is not meant.
        let is_same = kept.number == controller.number;
        controller.link = options.link.or(controller.link.filter(|_| is_same));
        if controller.number == 0 && (controller.link.is_some() || !options.peer.is_empty()) {
            bail!(
                "--link and --peer are for several controllers: say which one this is by --controller"
            );
        }
        if options.peer.iter().any(|peer| peer.number == controller.number) {
            bail!("--peer {}=... names this controller: name another one", controller.number);
        }
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

    /// Where it listens for other controllers.
    pub(crate) const fn link(&self) -> Option<SocketAddr> {
        self.link
    }

    /// Takes what others told of their portals, by number; returns whether it is something else than
    /// before. What would be this controller's group is not taken.
    pub(crate) fn learn(&mut self, told: BTreeMap<u16, BTreeMap<SocketAddr, u16>>) -> bool {
        let own = self.group();
        let mut told = told;
        told.remove(&self.number);
        for portals in told.values_mut() {
            portals.retain(|_, group| *group != own);
        }
        told.retain(|_, portals| !portals.is_empty());
        let is_new = self.told != told;
        self.told = told;
        is_new
    }

    /// Portals of the others, each with its target portal group.
    fn portals_of_others(&self) -> impl Iterator<Item = (SocketAddr, u16)> {
        let said = self.others.iter().filter(|(_, number)| !self.told.contains_key(number));
        let all = self.told.values().flatten().chain(said);
        all.map(|(&address, &group)| (address, group))
    }

    /// Whether a target portal group is another controller's.
    pub(crate) fn is_of_another(&self, group: u16) -> bool {
        self.portals_of_others().any(|(_, other)| other == group)
    }

    /// Where the others listen.
    pub(crate) fn others(&self) -> Portals {
        let portal = |(address, group)| (address, Portal { group, redirect: None });
        self.portals_of_others().map(portal).collect()
    }

    /// Their target ports, each with its group.
    pub(crate) fn other_ports(&self) -> BTreeMap<u16, u16> {
        self.portals_of_others().map(|(_, group)| (group, group)).collect()
    }

    /// The others that the command line named or that told their portals, and these portals.
    pub(crate) fn known_others(&self) -> BTreeMap<u16, Vec<SocketAddr>> {
        let mut known = BTreeMap::<u16, Vec<SocketAddr>>::new();
        for (number, portals) in &self.told {
            known.insert(*number, portals.keys().copied().collect());
        }
        for (address, number) in &self.others {
            if !self.told.contains_key(number) {
                known.entry(*number).or_default().push(*address);
            }
        }
        known
    }
}

/// Reads the number of a controller.
pub(crate) fn parse_number(text: &str) -> Result<u16, String> {
    let number = text.parse().ok().filter(|number| (1..=CONTROLLERS_MAX).contains(number));
    number.ok_or_else(|| format!("a controller has a number from 1 to {CONTROLLERS_MAX}"))
}
