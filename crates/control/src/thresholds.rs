//! Space thresholds with hysteresis: tells once when a pool or volume reaches one, and once when it
//! is well below again; and the same of a pool's metadata reserve.

use api::Severity;
use array::{Fill, Thresholds};
use block::VolumeId;
use hashbrown::{HashMap, HashSet};
use store::Space;

use crate::Effect;
use crate::exports::ExportEvent;

/// What was told last.
#[derive(Debug, Default)]
pub struct LastNotified {
    pools: HashMap<String, Fill>,
    volumes: HashMap<VolumeId, Fill>,
    /// Pools of whose metadata reserve less than a half is left.
    metadata: HashSet<String>,
}

/// A volume as it is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VolumeFill<'a> {
    /// The name of its pool.
    pub pool: &'a str,
    /// Its name.
    pub name: &'a str,
    /// Bytes of it that are mapped.
    pub mapped_bytes: u64,
    /// Its size in bytes.
    pub size_bytes: u64,
    /// When somebody is told.
    pub thresholds: Thresholds,
}

impl LastNotified {
    /// Compares a pool with its thresholds. Where the hard one was reached since the last look,
    /// hosts that see its `thin` volumes are told; of the soft one front ends tell by themselves.
    pub fn look_at_pool(
        &mut self,
        name: &str,
        space: &Space,
        thresholds: Thresholds,
        thin: impl Iterator<Item = VolumeId>,
    ) -> Vec<Effect> {
        let percent = used_percent(space);
        let before = self.pools.get(name).copied().unwrap_or_default();
        let fill = thresholds.fill(percent, before);
        self.pools.insert(name.to_owned(), fill);
        let note = tell_fill(format!("pool {name}"), percent, thresholds, (before, fill));
        let warned = (fill > before && fill == Fill::Hard).then_some(thin);
        let warned = warned.into_iter().flatten().map(warn_hosts);
        note.into_iter().chain(warned).collect()
    }

    /// Compares a volume that can run out of space with its thresholds.
    pub fn look_at_volume(&mut self, id: VolumeId, volume: VolumeFill<'_>) -> Vec<Effect> {
        let VolumeFill { pool, name, mapped_bytes, size_bytes, thresholds } = volume;
        let percent = percent_of(mapped_bytes, size_bytes);
        let before = self.volume(id);
        let fill = thresholds.fill(percent, before);
        if fill == before {
            return Vec::new();
        }
        self.volumes.insert(id, fill);
        let object = format!("volume {pool}/{name}");
        let note = tell_fill(object, percent, thresholds, (before, fill));
        let warned = (fill > before).then_some(warn_hosts(id));
        note.into_iter().chain(warned).collect()
    }

    /// Tells when less than a half of a pool's metadata reserve is left for locks and metadata of
    /// hosts, and when all of it is there again.
    pub fn look_at_metadata_reserve(&mut self, name: &str, space: &Space) -> Option<Effect> {
        let Space { metadata_left, metadata_reserve, .. } = *space;
        let (is_low, is_whole) =
            (metadata_left < metadata_reserve / 2, metadata_left == metadata_reserve);
        let (severity, message) = match (self.metadata.contains(name), is_low, is_whole) {
            (false, true, _) => {
                self.metadata.insert(name.to_owned());
                let message = "is full, and less than half of its metadata reserve is left: \
                               delete something, unmap, or extend the pool before hosts lose \
                               their locks";
                (Severity::Error, message)
            }
            (true, _, true) => {
                self.metadata.remove(name);
                (Severity::Information, "has its whole metadata reserve again")
            }
            (false, false, _) | (true, _, false) => return None,
        };
        Some(Effect::note(severity, format!("pool {name}"), message))
    }

    /// Forgets pools and volumes that are not there any more.
    pub fn retain(
        &mut self,
        has_pool: impl Fn(&str) -> bool,
        has_volume: impl Fn(VolumeId) -> bool,
    ) {
        self.volumes.retain(|&id, _| has_volume(id));
        self.pools.retain(|name, _| has_pool(name));
        self.metadata.retain(|name| has_pool(name));
    }

    /// How full a pool was when it was last looked at.
    pub fn pool(&self, name: &str) -> Fill {
        self.pools.get(name).copied().unwrap_or_default()
    }

    /// How full a volume was when it was last looked at.
    pub fn volume(&self, id: VolumeId) -> Fill {
        self.volumes.get(&id).copied().unwrap_or_default()
    }

    /// A pool has other thresholds: whoever was told is told again.
    pub fn forget_pool(&mut self, name: &str) {
        self.pools.remove(name);
    }

    /// A volume has other thresholds.
    pub fn forget_volume(&mut self, id: VolumeId) {
        self.volumes.remove(&id);
    }

    /// Everything may have other thresholds.
    pub fn forget_fills(&mut self) {
        self.pools.clear();
        self.volumes.clear();
    }
}

/// Hosts that see a volume are told that a space threshold was reached.
fn warn_hosts(volume: VolumeId) -> Effect {
    Effect::Tell(ExportEvent::ThresholdReached(volume))
}

fn tell_fill(
    object: String,
    percent: u8,
    thresholds: Thresholds,
    (before, fill): (Fill, Fill),
) -> Option<Effect> {
    let Thresholds { soft_percent, hard_percent } = thresholds;
    let (severity, than) = match (before, fill) {
        (Fill::Normal, Fill::Normal) | (Fill::Soft, Fill::Soft) | (Fill::Hard, Fill::Hard) => {
            return None;
        }
        (Fill::Normal | Fill::Soft, Fill::Hard) => {
            (Severity::Error, format!("the hard threshold is {hard_percent} %"))
        }
        (Fill::Normal, Fill::Soft) => {
            (Severity::Warning, format!("the soft threshold is {soft_percent} %"))
        }
        (Fill::Hard, Fill::Soft) => {
            (Severity::Information, format!("below the hard threshold of {hard_percent} % again"))
        }
        (Fill::Soft | Fill::Hard, Fill::Normal) => {
            (Severity::Information, format!("below the soft threshold of {soft_percent} % again"))
        }
    };
    Some(Effect::note(severity, object, format!("is {percent} % full, {than}")))
}

/// What is used or promised, in hundredths of what is backed and not reserve, rounded down.
pub fn used_percent(space: &Space) -> u8 {
    percent_of(space.used + space.promised, space.total - space.reserve - space.unbacked)
}

fn percent_of(part: u64, whole: u64) -> u8 {
    let percent = u128::from(part) * 100 / u128::from(whole.max(1));
    u8::try_from(percent.min(100)).expect("at most 100")
}

/// Reads thresholds as administrators set them.
pub fn parse(thresholds: api::Thresholds) -> Thresholds {
    let api::Thresholds { soft_percent, hard_percent } = thresholds;
    Thresholds { soft_percent, hard_percent }
}

/// Thresholds as administrators see them.
pub fn describe(thresholds: Thresholds) -> api::Thresholds {
    let Thresholds { soft_percent, hard_percent } = thresholds;
    api::Thresholds { soft_percent, hard_percent }
}

/// How full something is, as administrators see it.
pub fn describe_fill(fill: Fill) -> api::Fill {
    match fill {
        Fill::Normal => api::Fill::Normal,
        Fill::Soft => api::Fill::Soft,
        Fill::Hard => api::Fill::Hard,
    }
}

#[cfg(test)]
mod tests;
