//! LUN maps: which host, group of hosts, or everybody, sees a volume by which number.

use api::{LunMap, MapVolume, Problem};
use array::{Access, Rest};
use block::VolumeId;

use crate::change::{Answer, Applied, ConfigurationChange, Draft, Touched, View};
use crate::problems::refused;
use crate::volumes::Found;

/// A change of who sees a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Somebody sees it, or sees it with another access.
    Map {
        /// The volume.
        volume: Found,
        /// A host, a group, or [`array::ANY_HOST`].
        host: String,
        /// The number that is wanted; any if `None`.
        lun: Option<u16>,
        /// Access to the volume.
        access: Access,
    },
    /// Somebody does not see it any more.
    Unmap {
        /// The volume.
        volume: VolumeId,
        /// As above.
        host: String,
    },
}

/// Reads the request for a map.
///
/// # Errors
/// When the volume is just being deleted.
pub fn map(request: &MapVolume, volume: Found, host: &str) -> Result<Change, Problem> {
    let access = if request.read_only { Access::ReadOnly } else { Access::ReadWrite };
    let (volume, host) = (volume.stays()?, host.to_owned());
    Ok(Change::Map { volume, host, lun: request.lun, access })
}

/// Reads the request for the end of a map.
pub fn unmap(volume: &Found, host: &str) -> Change {
    Change::Unmap { volume: volume.id, host: host.to_owned() }
}

impl ConfigurationChange for Change {
    fn apply(&self, draft: &mut Draft, _: u64, view: &dyn View) -> Result<Applied, Problem> {
        let array = &mut draft.array;
        match self {
            Self::Map { volume, host, lun, access } => {
                let held = view.held();
                let rest = Rest { held: &held, ..view.rest() };
                let lun = array.map_volume(volume.id, host, (*lun, *access), &rest);
                let lun = lun.map_err(|error| refused(&error))?;
                let read_only = *access == Access::ReadOnly;
                let map = LunMap { volume: volume.path(), host: host.clone(), lun, read_only };
                Ok(Applied::new(Touched::one(host), Answer::of(&map)?))
            }
            Self::Unmap { volume, host } => {
                let now = view.rest().now;
                array.unmap_volume(*volume, Some(host), now).map_err(|error| refused(&error))?;
                Ok(Applied::new(Touched::one(host), Answer::DONE))
            }
        }
    }
}

#[cfg(test)]
mod tests;
