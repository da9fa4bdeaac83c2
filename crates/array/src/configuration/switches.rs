//! Switches of primitives in the configuration: those of the array, of hosts and of volumes.

use block::{Switch, SwitchPlaces, SwitchesOff, TurnedOff, VolumeId};

use super::{Configuration, Presentation};
use crate::ArrayError;

impl Configuration {
    /// What is off for an initiator's host; nothing of an initiator that belongs to none.
    pub fn switches_off_of_initiator(&self, initiator: &str) -> SwitchesOff {
        self.host_of(initiator).map_or(SwitchesOff::NONE, |name| self.switches_off_of_host(name))
    }

    /// What is off for a host; nothing of one that is not there.
    pub fn switches_off_of_host(&self, name: &str) -> SwitchesOff {
        self.hosts.get(name).map_or(SwitchesOff::NONE, |host| host.switches_off)
    }

    /// Where a primitive is turned off for a host on a volume; `None` if it is on.
    pub fn turned_off(&self, host: &str, volume: VolumeId, switch: Switch) -> Option<TurnedOff> {
        let places = SwitchPlaces {
            volume: self.presentation(volume).switches_off,
            host: self.switches_off_of_host(host),
            array: self.switches_off,
        };
        places.turned_off(switch)
    }

    /// Says what is off for a host.
    ///
    /// # Errors
    /// When there is no such host.
    pub fn set_switches_off_of_host(
        &mut self,
        name: &str,
        off: SwitchesOff,
    ) -> Result<(), ArrayError> {
        self.check_host(name)?;
        if let Some(host) = self.hosts.get_mut(name) {
            host.switches_off = off;
        }
        Ok(())
    }

    /// Says what is off for a volume.
    pub fn set_switches_off_of_volume(&mut self, volume: VolumeId, off: SwitchesOff) {
        let before = self.presentation(volume);
        self.set_presentation(volume, Presentation { switches_off: off, ..before });
    }
}

/// The switches in a file: the names of those that are off.
pub(crate) mod names {
    use block::{Switch, SwitchesOff};
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    #[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
    pub(crate) fn serialize<S: Serializer>(
        off: &SwitchesOff,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(off.iter().map(Switch::name))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<SwitchesOff, D::Error> {
        let names = Vec::<String>::deserialize(deserializer)?;
        let switch = |name: &String| {
            let unknown = || D::Error::custom(format!("'{name}' is no primitive with a switch"));
            Switch::named(name).ok_or_else(unknown)
        };
        names.iter().map(switch).collect()
    }
}

#[cfg(test)]
mod tests;
