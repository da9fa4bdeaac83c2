//! Presence check of spares: a thread of its own looks from time to time whether each is there and large
//! enough. What health checks, metrics and events say of mirrors and spares.

use std::collections::BTreeMap;
use std::os::unix::fs::FileTypeExt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use api::{EventKind, Severity};
use array::PoolDevice;
use block::{DeviceKind, DeviceName};
use store::MemberState;

use super::Management;
use crate::limits::SPARES_INTERVAL;
use crate::pool::Pool;

/// Spares that are not as they should be, and what is wrong with each.
type Missing = BTreeMap<DeviceName, String>;

/// What is known of the spares of all pools.
#[derive(Default)]
pub(super) struct Spares {
    /// What the last look found.
    missing: Missing,
    /// What the look under way will find; a device that hangs holds up no further one.
    looking: Option<Arc<Mutex<Option<Missing>>>>,
    /// When the last look began.
    last: Option<Instant>,
}

impl Spares {
    /// What a look has found that came to its end since this was last asked.
    fn take_found(&mut self) -> Option<Missing> {
        let looking = self.looking.as_ref()?;
        let has_ended = Arc::strong_count(looking) == 1;
        let found = looking.lock().unwrap_or_else(PoisonError::into_inner).take();
        if has_ended || found.is_some() {
            self.looking = None;
        }
        found
    }

    /// Where the next look is to leave what it finds, if it is time for one.
    fn begin(&mut self) -> Option<Arc<Mutex<Option<Missing>>>> {
        let is_due = self.last.is_none_or(|last| last.elapsed() >= SPARES_INTERVAL);
        if !is_due || self.looking.is_some() {
            return None;
        }
        self.last = Some(Instant::now());
        self.looking = Some(Arc::default());
        self.looking.clone()
    }
}

impl Management {
    /// Looks whether spares are there, and tells of those that are not, and of those that are again.
    pub(super) fn look_at_spares(&mut self) {
        if let Some(found) = self.spares.take_found() {
            let before = std::mem::replace(&mut self.spares.missing, found);
            self.tell_spares(&before);
        }
        let pools = self.configuration.pools.values();
        let spares: Vec<PoolDevice> =
            pools.flat_map(|pool| pool.mirroring.spares.iter().cloned()).collect();
        if spares.is_empty() {
            self.spares.missing.clear();
            return;
        }
        if let Some(found) = self.spares.begin() {
            let thread = std::thread::Builder::new().name("spares".to_owned());
            let begun = thread.spawn(move || {
                let missing =
                    spares.iter().filter_map(|one| Some((one.device.clone(), lacks(one)?)));
                let missing = missing.collect();
                *found.lock().unwrap_or_else(PoisonError::into_inner) = Some(missing);
            });
            if let Err(error) = begun {
                tracing::error!(%error, "no thread can be started");
            }
        }
    }

    fn tell_spares(&mut self, before: &Missing) {
        let mut told = Vec::new();
        for (name, pool) in &self.configuration.pools {
            for PoolDevice { device, .. } in &pool.mirroring.spares {
                let message = match (before.get(device), self.spares.missing.get(device)) {
                    (None, Some(why)) => {
                        format!("spare {device} {why}: it cannot step in for a device that fails")
                    }
                    (Some(_), None) => format!("spare {device} is there again"),
                    (None, None) | (Some(_), Some(_)) => continue,
                };
                let is_missing = self.spares.missing.contains_key(device);
                let severity = if is_missing { Severity::Warning } else { Severity::Information };
                told.push((severity, format!("pool {name}"), message));
            }
        }
        for (severity, object, message) in told {
            self.events.note_kind(EventKind::Mirror, severity, object, message);
        }
    }

    /// The spares of a pool, and whether each is missing.
    pub(super) fn spares_of(&self, pool: &str) -> Vec<(String, bool)> {
        let Some(pool) = self.configuration.pools.get(pool) else { return Vec::new() };
        let is_missing = |device| self.spares.missing.contains_key(device);
        let spares = pool.mirroring.spares.iter();
        spares.map(|one| (one.device.to_string(), is_missing(&one.device))).collect()
    }

    /// What an administrator should know of a pool's mirrors and spares, although it serves.
    pub(super) fn mirror_messages(&self, pool: &Pool) -> Vec<String> {
        let mut messages = Vec::new();
        for mirror in pool.mirrors().filter(store::MirrorStatus::is_degraded) {
            let of_them = mirror.members.iter().filter_map(|member| match member.state {
                MemberState::Current => None,
                MemberState::Resilvering => {
                    Some(format!("{} is being filled", self.member_name(pool, member.uuid)))
                }
                MemberState::Absent => {
                    Some(format!("{} is absent", self.member_name(pool, member.uuid)))
                }
                MemberState::Witness | MemberState::WitnessAbsent => None,
            });
            let of_them = of_them.collect::<Vec<_>>().join(", ");
            let (name, number) = (&pool.name, mirror.device);
            messages.push(format!("pool '{name}': mirror {number} is degraded: {of_them}"));
        }
        for mirror in pool.mirrors() {
            let is_away =
                |member: &&store::MemberStatus| member.state == MemberState::WitnessAbsent;
            for witness in mirror.members.iter().filter(is_away) {
                let (name, number) = (&pool.name, mirror.device);
                let device = self.member_name(pool, witness.uuid);
                messages.push(format!(
                    "pool '{name}': {device}, the witness of mirror {number}, is absent"
                ));
            }
        }
        let spares = self.spares_of(&pool.name).into_iter().filter(|(_, is_missing)| *is_missing);
        let spare = |(device, _)| format!("pool '{}': spare {device} is missing", pool.name);
        messages.extend(spares.map(spare));
        messages
    }
}

/// What is wrong with a spare, if something is; may wait for the device.
fn lacks(spare: &PoolDevice) -> Option<String> {
    let metadata = match std::fs::metadata(spare.device.file_path()?) {
        Ok(metadata) => metadata,
        Err(error) => return Some(format!("is not there ({error})")),
    };
    let kind = metadata.file_type();
    match spare.device.kind() {
        DeviceKind::File if !kind.is_file() => Some("is no file".to_owned()),
        DeviceKind::File if metadata.len() < spare.size_bytes => {
            Some(format!("has {} bytes instead of {}", metadata.len(), spare.size_bytes))
        }
        DeviceKind::Block if !kind.is_block_device() => Some("is no block device".to_owned()),
        DeviceKind::File | DeviceKind::Block | DeviceKind::Rbd | DeviceKind::Memory => None,
    }
}

#[cfg(test)]
mod tests;
