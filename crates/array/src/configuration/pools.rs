//! Pools, their devices, and the thresholds of pools and volumes at which hosts and administrators
//! are notified.

use std::collections::BTreeSet;

use block::{DeviceName, VolumeId};
use serde::{Deserialize, Serialize};

use super::{Configuration, device_text};
use crate::limits::{
    CONTROLLER_NUMBER_MAX, DEVICES_PER_POOL_MAX, FAIL_BACK_SECONDS, FILL_HYSTERESIS_PERCENT,
    POOLS_MAX,
};
use crate::{ArrayError, check_name};

/// A pool that the array opens at start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "SavedPool")]
pub struct Pool {
    /// Identity, also in the label on each device.
    pub uuid: [u8; 16],
    /// Where its bytes rest, in the order in which they joined; at least one. The last ones may
    /// not have joined yet, if the array stopped while they were added.
    pub devices: Vec<PoolDevice>,
    /// When someone is told how full it is.
    #[serde(skip_serializing_if = "Thresholds::is_default")]
    pub thresholds: Thresholds,
    /// Whether the oldest unlocked snapshots of schedules are deleted while it is at or above its
    /// hard threshold.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub delete_scheduled_snapshots: bool,
    /// Whether it is opened read-only at start, because an administrator resumed it so.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub read_only: bool,
    /// What is known of its mirrors besides what they say themselves.
    #[serde(skip_serializing_if = "Mirroring::is_default")]
    pub mirroring: Mirroring,
    /// Devices that leave it, or have just left.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub departure: Option<Departure>,
    /// Which controller should have it.
    #[serde(skip_serializing_if = "FailBack::is_default")]
    pub fail_back: FailBack,
}

/// Which controller of several should have a pool, and whether the others give it back to that one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailBack {
    /// The number of the controller that should have it; `None` if it does not matter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preferred_controller: Option<u16>,
    /// Seconds for which that one must have been ready for the pool before another one gives it back;
    /// `None` if that is left to administrators.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after_seconds: Option<u32>,
}

impl FailBack {
    /// Whether nothing is said.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// Refuses a controller that cannot be one, a time that is too short or too long, and a time without
    /// a controller.
    ///
    /// # Errors
    /// [`ArrayError::InvalidFailBack`].
    pub fn check(&self) -> Result<(), ArrayError> {
        let is_controller = |number: u16| (1..=CONTROLLER_NUMBER_MAX).contains(&number);
        let is_time = |seconds: u32| FAIL_BACK_SECONDS.contains(&seconds);
        let fits = self.preferred_controller.is_none_or(is_controller)
            && self.after_seconds.is_none_or(is_time)
            && (self.preferred_controller.is_some() || self.after_seconds.is_none());
        if fits { Ok(()) } else { Err(ArrayError::InvalidFailBack) }
    }
}

/// A device that leaves a pool, or a mirror with all of its members: it is known from before the pool
/// is told until the pool has forgotten it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Departure {
    /// Those of the pool's devices that leave together.
    pub devices: Vec<PoolDevice>,
    /// Bytes per second that are moved at most, if an administrator said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_bytes: Option<u64>,
}

/// Where the members of a pool's mirrors are, also of those that are away; and its spares.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mirroring {
    /// Members, each of which is one of the pool's devices.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub members: Vec<KnownMember>,
    /// Devices that step in for a member that is lost.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub spares: Vec<PoolDevice>,
    /// Members of a mirror that is to join the pool, of which it is not known yet whether it has. They
    /// are among the pool's devices.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub joining: Vec<KnownMember>,
}

/// A member of a mirror, and where it was last.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KnownMember {
    /// Its name in the world, also in its label.
    pub uuid: [u8; 16],
    /// Where it is.
    #[serde(with = "device_text")]
    pub device: DeviceName,
    /// The member that leaves when this one is current.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaces: Option<[u8; 16]>,
    /// Whether it is a witness: it holds no copy.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_witness: bool,
}

impl Mirroring {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// What is known of a member, also of one that may have joined.
    pub fn known(&self, member: [u8; 16]) -> Option<&KnownMember> {
        self.members.iter().chain(&self.joining).find(|known| known.uuid == member)
    }

    /// Where a member was last.
    pub fn place_of(&self, member: [u8; 16]) -> Option<&DeviceName> {
        self.known(member).map(|known| &known.device)
    }
}

/// A device of a pool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PoolDevice {
    /// Where it is.
    #[serde(with = "device_text")]
    pub device: DeviceName,
    /// Its size, in bytes.
    pub size_bytes: u64,
}

/// Percentages of a pool or a volume at which hosts and administrators are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Thresholds {
    /// A warning, 1 to 100.
    pub soft_percent: u8,
    /// An alarm, above the warning or equal to it, at most 100.
    pub hard_percent: u8,
}

/// How full something is, against its thresholds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fill {
    /// Below both thresholds.
    #[default]
    Normal,
    /// At or above the soft threshold.
    Soft,
    /// At or above the hard threshold.
    Hard,
}

/// A pool as it is saved; the first form knew one device only.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SavedPool {
    uuid: [u8; 16],
    #[serde(default, deserialize_with = "device_text::deserialize_some")]
    device: Option<DeviceName>,
    size_bytes: Option<u64>,
    devices: Option<Vec<PoolDevice>>,
    #[serde(default)]
    thresholds: Thresholds,
    #[serde(default)]
    delete_scheduled_snapshots: bool,
    #[serde(default)]
    read_only: bool,
    #[serde(default)]
    mirroring: Mirroring,
    #[serde(default)]
    departure: Option<Departure>,
    #[serde(default)]
    fail_back: FailBack,
}

impl TryFrom<SavedPool> for Pool {
    type Error = &'static str;

    fn try_from(saved: SavedPool) -> Result<Self, Self::Error> {
        let devices = match (saved.devices, saved.device, saved.size_bytes) {
            (Some(devices), None, None) if !devices.is_empty() => devices,
            (None, Some(device), Some(size_bytes)) => vec![PoolDevice { device, size_bytes }],
            _ => return Err("a pool has a list of devices, or one device and its size"),
        };
        let SavedPool {
            uuid,
            thresholds,
            delete_scheduled_snapshots,
            read_only,
            mirroring,
            departure,
            fail_back,
            ..
        } = saved;
        Ok(Self {
            uuid,
            devices,
            thresholds,
            delete_scheduled_snapshots,
            read_only,
            mirroring,
            departure,
            fail_back,
        })
    }
}

impl Departure {
    /// Whether a device is one of those that leave.
    pub fn concerns(&self, device: &DeviceName) -> bool {
        self.devices.iter().any(|one| one.device == *device)
    }
}

impl Pool {
    /// Sum of the sizes of its devices, in bytes.
    pub fn size_bytes(&self) -> u64 {
        self.devices.iter().map(|device| device.size_bytes).sum()
    }
}

impl Default for Thresholds {
    fn default() -> Self {
        Self { soft_percent: 75, hard_percent: 90 }
    }
}

impl Thresholds {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// Refuses percentages that could never be met or are in the wrong order.
    pub fn check(&self) -> Result<(), ArrayError> {
        let fits = (1..=100).contains(&self.soft_percent)
            && (self.soft_percent..=100).contains(&self.hard_percent);
        if fits { Ok(()) } else { Err(ArrayError::InvalidThresholds) }
    }

    /// How full something is of which `percent` are used. Around a threshold it stays as it was
    /// `before`, so that nobody is told again and again.
    pub fn fill(&self, percent: u8, before: Fill) -> Fill {
        let reaches = |threshold: u8, fill: Fill| {
            let slack = if before >= fill { FILL_HYSTERESIS_PERCENT } else { 0 };
            percent.saturating_add(slack) >= threshold
        };
        if reaches(self.hard_percent, Fill::Hard) {
            Fill::Hard
        } else if reaches(self.soft_percent, Fill::Soft) {
            Fill::Soft
        } else {
            Fill::Normal
        }
    }
}

impl Configuration {
    /// The pool of that name.
    pub fn pool(&self, name: &str) -> Result<&Pool, ArrayError> {
        let not_found = || ArrayError::NotFound { kind: "pool", name: name.to_owned() };
        self.pools.get(name).ok_or_else(not_found)
    }

    /// Says whether a pool is opened read-only at start.
    pub fn set_pool_read_only(&mut self, name: &str, read_only: bool) -> Result<(), ArrayError> {
        self.pool(name)?;
        if let Some(pool) = self.pools.get_mut(name) {
            pool.read_only = read_only;
        }
        Ok(())
    }

    /// Whether a pool of that name on those devices could be added.
    pub fn check_new_pool(&self, name: &str, devices: &[DeviceName]) -> Result<(), ArrayError> {
        check_name(name)?;
        if self.pools.contains_key(name) {
            return Err(ArrayError::NameTaken { kind: "pool", name: name.to_owned() });
        }
        if self.pools.len() >= POOLS_MAX {
            return Err(ArrayError::TooMany { kind: "pools", max: POOLS_MAX });
        }
        self.check_devices(0, devices)
    }

    /// Whether a device could join a pool.
    pub fn check_new_device(&self, name: &str, device: &DeviceName) -> Result<(), ArrayError> {
        self.check_new_devices(name, std::slice::from_ref(device))
    }

    /// Whether devices may join a pool together.
    ///
    /// # Errors
    /// When there is no such pool, it has too many devices, or one of them is taken or named twice.
    pub fn check_new_devices(&self, name: &str, devices: &[DeviceName]) -> Result<(), ArrayError> {
        let pool = self.pool(name)?;
        self.check_devices(pool.devices.len(), devices)
    }

    fn check_devices(&self, present: usize, devices: &[DeviceName]) -> Result<(), ArrayError> {
        if present + devices.len() > DEVICES_PER_POOL_MAX {
            return Err(ArrayError::TooMany {
                kind: "devices in a pool",
                max: DEVICES_PER_POOL_MAX,
            });
        }
        let mut listed = BTreeSet::new();
        for device in devices.iter().filter(|device| device.kind().is_one_place()) {
            if !listed.insert(device) {
                return Err(ArrayError::DeviceTwice(device.to_string()));
            }
            if let Some(owner) = self.owner_of(device) {
                let (device, pool) = (device.to_string(), owner.to_owned());
                return Err(ArrayError::DeviceTaken { device, pool });
            }
        }
        Ok(())
    }

    /// The pool that has a device, or has it as a spare.
    pub fn owner_of(&self, device: &DeviceName) -> Option<&str> {
        let owns = |pool: &Pool| {
            let mut devices = pool.devices.iter().chain(&pool.mirroring.spares);
            devices.any(|other| other.device == *device)
        };
        self.pools.iter().find(|(_, pool)| owns(pool)).map(|(name, _)| name.as_str())
    }

    /// When someone is told how full a volume is.
    pub fn volume_thresholds(&self, volume: VolumeId) -> Thresholds {
        self.volume_thresholds.get(&volume.0).copied().unwrap_or_default()
    }

    /// Changes when someone is told how full a volume is.
    pub fn set_volume_thresholds(
        &mut self,
        volume: VolumeId,
        thresholds: Thresholds,
    ) -> Result<(), ArrayError> {
        thresholds.check()?;
        self.forget_volume_thresholds(volume);
        if !thresholds.is_default() {
            self.volume_thresholds.insert(volume.0, thresholds);
        }
        Ok(())
    }

    /// Forgets what was set for a volume that is gone.
    pub fn forget_volume_thresholds(&mut self, volume: VolumeId) {
        self.volume_thresholds.remove(&volume.0);
    }
}

#[cfg(test)]
mod tests;
