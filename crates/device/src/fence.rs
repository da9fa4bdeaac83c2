//! Fences of devices: who holds a device's lock, which process-wide key reservations are made with, and
//! which locks an opening may break.
//!
//! A file has an open-file-description lock (`file.rs`), which cannot be broken. A block device has a
//! persistent reservation ([`reservation`]), if the process was given a key and the device knows
//! reservations. An image of a Ceph cluster has its exclusive lock and the cluster's blocklist
//! (`kinds/rbd/lock.rs`).

use std::fmt;
use std::sync::OnceLock;

pub(crate) mod holders;
pub(crate) mod reservation;
mod status;

pub(crate) use reservation::Reservation;

/// Where the heartbeat of a pool's owner lies on each device, a block (docs/format.md): whoever finds a
/// device held reads it, without having the device.
pub const OWNER_BEAT_OFFSET: u64 = 12 * block::BLOCK;

/// Whoever holds the lock of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// What names it when its lock is to be broken: the key of a reservation, the address of a client
    /// of a Ceph cluster. Empty if the device does not tell.
    pub identity: String,
    /// Where it reaches the device from, as far as the device tells: names of initiator ports; or the
    /// process of this machine.
    pub place: Option<String>,
}

impl fmt::Display for Holder {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.identity.as_str(), &self.place) {
            ("", None) => formatter.write_str("somebody whom the device does not name"),
            ("", Some(place)) => formatter.write_str(place),
            (identity, None) => formatter.write_str(identity),
            (identity, Some(place)) => write!(formatter, "{identity} ({place})"),
        }
    }
}

/// What keeps others from an open device, and how far that reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fence {
    /// A lock among the processes of this machine: another machine that reaches the device can write.
    ThisMachine,
    /// A persistent reservation: the device refuses the writes of all others.
    Reservation,
    /// The exclusive lock of an image: a client whose lock is broken is on the cluster's blocklist.
    Cluster,
}

/// Whose locks an opening breaks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Breaking {
    /// Identities of holders; locks of others are respected.
    pub holders: Vec<String>,
}

impl Breaking {
    /// Respects every lock.
    pub const NONE: Self = Self { holders: Vec::new() };

    pub(crate) fn includes(&self, holder: &Holder) -> bool {
        !holder.identity.is_empty() && self.holders.contains(&holder.identity)
    }
}

/// The key that this process reserves block devices with; not 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReservationKey(u64);

impl ReservationKey {
    /// A key; `None` for 0, which stands for no registration (SPC-4, 5.13.7).
    pub fn new(key: u64) -> Option<Self> {
        (key != 0).then_some(Self(key))
    }

    /// As holders are named by it.
    pub(crate) fn identity(key: u64) -> String {
        format!("key {key:#018x}")
    }
}

static KEY: OnceLock<ReservationKey> = OnceLock::new();

/// From now on every block device that this process opens or makes is reserved with a key, if the device
/// knows persistent reservations. Returns whether it is the first key; a second one is not taken.
pub fn reserve_block_devices(key: ReservationKey) -> bool {
    KEY.set(key).is_ok()
}

/// Whether this process reserves block devices.
pub fn reserves_block_devices() -> bool {
    KEY.get().is_some()
}

pub(crate) fn key() -> Option<ReservationKey> {
    KEY.get().copied()
}

#[cfg(test)]
mod tests;
