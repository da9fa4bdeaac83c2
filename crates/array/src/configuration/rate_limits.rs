//! Rate limits (QoS) of volumes and hosts, and shares of hosts: how much work of hosts is let through
//! in what time.

use block::VolumeId;
use serde::{Deserialize, Serialize};

use super::{Configuration, Presentation};
use crate::ArrayError;
use crate::limits::{
    BURST_MS_DEFAULT, BURST_MS_MAX, BURST_MS_MIN, BYTES_PER_SECOND_MAX, BYTES_PER_SECOND_MIN,
    IOPS_MAX, IOPS_MIN, SHARE_MAX,
};

/// The most work that a volume or a host gets done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RateLimits {
    /// I/Os per second, [`IOPS_MIN`] to [`IOPS_MAX`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iops: Option<u32>,
    /// Bytes of work per second, [`BYTES_PER_SECOND_MIN`] to [`BYTES_PER_SECOND_MAX`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_per_second: Option<u64>,
    /// For how much time, in milliseconds, unused work is saved up to be done at once,
    /// [`BURST_MS_MIN`] to [`BURST_MS_MAX`].
    #[serde(default = "burst_ms_default")]
    pub burst_ms: u32,
}

const fn burst_ms_default() -> u32 {
    BURST_MS_DEFAULT
}

impl Default for RateLimits {
    fn default() -> Self {
        Self { iops: None, bytes_per_second: None, burst_ms: BURST_MS_DEFAULT }
    }
}

impl RateLimits {
    /// Whether nothing is ever held back.
    pub const fn is_unlimited(&self) -> bool {
        self.iops.is_none() && self.bytes_per_second.is_none()
    }

    /// Whether nothing has been said.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// Checks the ranges.
    ///
    /// # Errors
    /// When a number is out of its range.
    pub fn check(&self) -> Result<(), ArrayError> {
        let out_of_range = |what, unit, min, max| ArrayError::InvalidLimit { what, unit, min, max };
        if self.iops.is_some_and(|iops| !(IOPS_MIN..=IOPS_MAX).contains(&iops)) {
            let (min, max) = (IOPS_MIN.into(), IOPS_MAX.into());
            return Err(out_of_range("a limit of IOPS", "I/Os per second", min, max));
        }
        let range = BYTES_PER_SECOND_MIN..=BYTES_PER_SECOND_MAX;
        if self.bytes_per_second.is_some_and(|bytes| !range.contains(&bytes)) {
            let (min, max) = (BYTES_PER_SECOND_MIN, BYTES_PER_SECOND_MAX);
            return Err(out_of_range("a limit of bandwidth", "bytes per second", min, max));
        }
        if !(BURST_MS_MIN..=BURST_MS_MAX).contains(&self.burst_ms) {
            let (min, max) = (BURST_MS_MIN.into(), BURST_MS_MAX.into());
            return Err(out_of_range("a burst", "milliseconds", min, max));
        }
        Ok(())
    }
}

/// Share of a host where hosts wait for a pool: so many times what a host with one has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Share(u8);

impl Default for Share {
    fn default() -> Self {
        Self(1)
    }
}

impl Share {
    /// A share from 1 to [`SHARE_MAX`].
    ///
    /// # Errors
    /// When it is out of that range.
    pub const fn new(share: u8) -> Result<Self, ArrayError> {
        if share == 0 || share > SHARE_MAX {
            let (what, unit) = ("the share of a host", "times what others have");
            return Err(ArrayError::InvalidLimit { what, unit, min: 1, max: SHARE_MAX as u64 });
        }
        Ok(Self(share))
    }

    /// The number.
    pub const fn get(self) -> u8 {
        self.0
    }

    /// Whether it is that of a host of which nothing has been said.
    pub const fn is_default(&self) -> bool {
        self.0 == 1
    }
}

/// Limits of one object, as they are to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Limited {
    /// A volume or snapshot.
    Volume(VolumeId, RateLimits),
    /// A host.
    Host(String, RateLimits, Share),
}

impl Configuration {
    /// Limits that are others than before. The cost grows with what has changed, not with what
    /// there is.
    pub fn limits_changed_since(&self, before: &Self) -> Vec<Limited> {
        let mut changed = Vec::new();
        for item in before.presentations.diff(&self.presentations) {
            let id = VolumeId(*key_of(&item));
            let now = self.presentation(id).limits;
            if now != before.presentation(id).limits {
                changed.push(Limited::Volume(id, now));
            }
        }
        for item in before.hosts.diff(&self.hosts) {
            let name = key_of(&item);
            let now = self.limits_of_host(name);
            if now != before.limits_of_host(name) {
                changed.push(Limited::Host(name.clone(), now.0, now.1));
            }
        }
        changed
    }

    /// All limits that are there.
    pub fn all_limits(&self) -> Vec<Limited> {
        self.limits_changed_since(&Self::new(String::new()))
    }

    /// Limits and share of a host; none of one that is not there.
    pub fn limits_of_host(&self, name: &str) -> (RateLimits, Share) {
        self.hosts.get(name).map(|host| (host.limits, host.share)).unwrap_or_default()
    }

    /// Sets limits and share of a host.
    ///
    /// # Errors
    /// When there is no such host, or a number is out of its range.
    pub fn set_limits_of_host(
        &mut self,
        name: &str,
        (limits, share): (RateLimits, Share),
    ) -> Result<(), ArrayError> {
        self.check_host(name)?;
        limits.check()?;
        if let Some(host) = self.hosts.get_mut(name) {
            (host.limits, host.share) = (limits, share);
        }
        Ok(())
    }

    /// Sets limits of a volume.
    ///
    /// # Errors
    /// When a number is out of its range.
    pub fn set_limits_of_volume(
        &mut self,
        volume: VolumeId,
        limits: RateLimits,
    ) -> Result<(), ArrayError> {
        limits.check()?;
        let before = self.presentation(volume);
        self.set_presentation(volume, Presentation { limits, ..before });
        Ok(())
    }
}

fn key_of<'a, K, V>(item: &imbl::ordmap::DiffItem<'a, 'a, K, V>) -> &'a K {
    match item {
        imbl::ordmap::DiffItem::Add(key, _) | imbl::ordmap::DiffItem::Remove(key, _) => key,
        imbl::ordmap::DiffItem::Update { new: (key, _), .. } => key,
    }
}

#[cfg(test)]
mod tests;
