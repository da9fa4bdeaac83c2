//! Values of the metrics, gathered object by object and formatted by another thread.

use std::time::{Duration, Instant};

use block::VolumeId;
use ledger::{Histogram, HostId, Row};
use store::Health;

use super::super::Management;
use super::super::gathering::{EachVolume, Keys, Scene};
use super::super::statistics::VolumeNames;
use crate::backing::{BackingState, FileSystem};
use crate::data_plane::DataPlane;
use crate::device_times::OPERATIONS;
use crate::pool::{OpenDevice, Pool};
use crate::pools::PoolId;
use crate::throttle::HeldBack;
use crate::yielding::pause_seldom;

/// The name of something that metrics are about.
pub(super) enum Key {
    Row((HostId, VolumeId)),
    Pool(PoolId),
    Volume((PoolId, VolumeId)),
}

/// Objects of which there are few, and then all volumes.
pub(super) struct Keyed {
    pub(super) few: std::vec::IntoIter<Key>,
    pub(super) volumes: EachVolume,
}

impl Keys for Keyed {
    type Key = Key;

    fn next(&mut self, plane: &DataPlane) -> Option<Key> {
        Iterator::next(&mut self.few).or_else(|| self.volumes.next(plane).map(Key::Volume))
    }

    fn count(&self, plane: &DataPlane) -> usize {
        self.few.len() + self.volumes.count(plane)
    }
}

/// What is known of one object.
pub(super) enum Fact {
    Row(Box<RowFacts>),
    Pool(Box<PoolFacts>),
    Volume(VolumeFacts),
}

/// What is known of all of them.
#[derive(Default)]
pub(super) struct Facts {
    pub(super) rows: Vec<RowFacts>,
    pub(super) pools: Vec<PoolFacts>,
    pub(super) volumes: Vec<VolumeFacts>,
}

pub(super) struct RowFacts {
    pub(super) host: String,
    pub(super) volume: String,
    pub(super) row: Row,
}

pub(super) struct PoolFacts {
    pub(super) name: String,
    pub(super) is_up: bool,
    pub(super) space: store::Space,
    pub(super) statistics: store::Statistics,
    pub(super) scrub: store::ScrubStatus,
    pub(super) file_systems: Vec<FileSystem>,
    pub(super) is_backing_full: bool,
    pub(super) seconds_until_full: Option<f64>,
    pub(super) snapshots_deleted: u64,
    pub(super) devices: Vec<DeviceFacts>,
    pub(super) members: Vec<MemberFacts>,
    pub(super) mirrors: Vec<MirrorFacts>,
    /// The device that leaves, if one does.
    pub(super) departure: Option<store::EvacuationStatus>,
    /// Spares by name, and whether each is missing.
    pub(super) spares: Vec<(String, bool)>,
}

/// A mirror.
pub(super) struct MirrorFacts {
    /// Its number.
    pub(super) number: u8,
    pub(super) is_degraded: bool,
    pub(super) resilver: Option<ResilverFacts>,
}

/// A member that is being filled.
pub(super) struct ResilverFacts {
    pub(super) device: String,
    pub(super) copied_bytes: u64,
    pub(super) left_bytes: u64,
    pub(super) is_paused: bool,
}

/// A member of a mirror.
pub(super) struct MemberFacts {
    /// The mirror, by its number.
    pub(super) mirror: u8,
    pub(super) name: String,
    pub(super) state: store::MemberState,
    pub(super) errors: u64,
    pub(super) healed_blocks: u64,
}

pub(super) struct DeviceFacts {
    pub(super) name: String,
    /// In the order of [`OPERATIONS`]; none if nothing was asked of it.
    pub(super) durations: Option<[Histogram; OPERATIONS.len()]>,
    pub(super) failures: [u64; OPERATIONS.len()],
    /// How long the oldest operation under way has taken.
    pub(super) oldest: Duration,
}

pub(super) struct VolumeFacts {
    pub(super) name: String,
    pub(super) size_bytes: u64,
    pub(super) mapped_bytes: u64,
    pub(super) reclaim_asked_bytes: u64,
    pub(super) reclaim_unmapped_bytes: u64,
    pub(super) reclaim_held_bytes: u64,
    /// What its limits held back; `None` if it has none.
    pub(super) held: Option<HeldBack>,
}

impl Facts {
    /// Facts, by what they are about.
    pub(super) fn sorted(facts: Vec<Fact>) -> Self {
        let mut sorted = Self::default();
        for fact in facts {
            match fact {
                Fact::Row(row) => sorted.rows.push(*row),
                Fact::Pool(pool) => sorted.pools.push(*pool),
                Fact::Volume(volume) => sorted.volumes.push(volume),
            }
            pause_seldom();
        }
        sorted
    }
}

/// What is known of an object that is still there.
pub(super) fn look(management: &Management, scene: Scene<'_>, key: Key) -> Option<Fact> {
    let plane = scene.plane;
    Some(match key {
        Key::Row((host, volume)) => {
            let ledger = &plane.feed.ledger;
            Fact::Row(Box::new(RowFacts {
                host: ledger.host_name(host).to_owned(),
                volume: VolumeNames::new(plane).name(volume),
                row: ledger.row(host, volume)?.clone(),
            }))
        }
        Key::Pool(pool) => {
            Fact::Pool(Box::new(pool_facts(management, plane, plane.pools.get(pool)?)))
        }
        Key::Volume(key) => {
            let (pool, volume) = plane.volume(key)?;
            Fact::Volume(volume_facts(plane, pool, volume))
        }
    })
}

fn pool_facts(management: &Management, plane: &DataPlane, pool: &Pool) -> PoolFacts {
    let series = plane.feed.ledger.history().pool(&pool.name);
    let forecast = series.and_then(ledger::forecast);
    let now = Instant::now();
    let device = |(slot, open): (u8, &OpenDevice)| DeviceFacts {
        name: open.name.to_string(),
        durations: pool.device_times.of(slot.into()).copied(),
        failures: pool.device_times.failures_of(slot.into()),
        oldest: pool.device_times.oldest(slot.into(), now),
    };
    let member = |(mirror, member): (u8, store::MemberStatus)| MemberFacts {
        mirror,
        name: management.member_name(pool, member.uuid),
        state: member.state,
        errors: member.errors,
        healed_blocks: member.healed_blocks,
    };
    let members = pool
        .mirrors()
        .flat_map(|mirror| mirror.members.into_iter().map(move |member| (mirror.device, member)));
    let mirror = |mirror: store::MirrorStatus| MirrorFacts {
        number: mirror.device,
        is_degraded: mirror.is_degraded(),
        resilver: mirror.resilver.map(|status| ResilverFacts {
            device: management.member_name(pool, status.member),
            copied_bytes: status.copied_bytes,
            left_bytes: status.total_bytes.saturating_sub(status.copied_bytes),
            is_paused: status.paused,
        }),
    };
    PoolFacts {
        name: pool.name.clone(),
        is_up: pool.health() == Health::Ready,
        space: pool.space(),
        statistics: pool.store.statistics(),
        scrub: pool.store.scrub_status(),
        file_systems: pool.backing.file_systems.clone(),
        is_backing_full: pool.backing.state == BackingState::Full,
        seconds_until_full: forecast.and_then(|forecast| forecast.seconds_until_full),
        snapshots_deleted: management.snapshots_deleted(&pool.name),
        devices: pool.devices.iter().map(device).collect(),
        members: members.map(member).collect(),
        mirrors: pool.mirrors().map(mirror).collect(),
        departure: pool.store.evacuation(),
        spares: management.spares_of(&pool.name),
    }
}

fn volume_facts(plane: &DataPlane, pool: &Pool, volume: &store::Volume) -> VolumeFacts {
    let reclaim = pool.store.reclaimed(volume.spec.id);
    VolumeFacts {
        name: format!("{}/{}", pool.name, volume.spec.name),
        size_bytes: volume.spec.size_bytes,
        mapped_bytes: volume.mapped_bytes,
        reclaim_asked_bytes: reclaim.asked_bytes,
        reclaim_unmapped_bytes: reclaim.unmapped_bytes,
        reclaim_held_bytes: reclaim.held_bytes(),
        held: plane.throttle.of_volume(volume.spec.id),
    }
}
