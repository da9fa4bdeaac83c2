//! Conversion of objects into the types of the REST interface.

use std::sync::Arc;

use api::{Device, Pool, Problem, Route, Space, Target, Volume};
use array::{ArrayError, Configuration, Tagged};
use block::{DeviceName, VolumeId};
use control::members::describe_state;
use control::{identification, primitives, rate_limits};
use store::limits::READ_ERRORS_MAX;
use store::{Health, MemberStatus, MirrorStatus, ResilverStatus};

use super::gathering::{EachVolume, Scene};
use super::problems::{gone, refused};
use super::volumes::describe_blocks;
use super::{Management, Progress};
use crate::backing::{BackingState, FileSystem};
use crate::data_plane::DataPlane;
use crate::described::Described;
use crate::events::now;
use crate::pool::Pool as ServedPool;
use crate::pools::PoolId;
use crate::rod_token_spaces::hidden;
use crate::yielding::sort_by;

impl Management {
    /// The target, with the traffic of all sessions but without the sessions themselves.
    pub(super) fn describe_target(&self, scene: Scene<'_>) -> Target {
        let plane = scene.plane;
        let (bytes_received, bytes_sent) = scene.traffic();
        let counters = plane.exports.compare_counters();
        Target {
            name: self.configuration.target_name.clone(),
            portals: self.describe_portals(),
            sessions: Vec::new(),
            bytes_received,
            bytes_sent,
            configuration_unsaved_since: self.saving.failing_since(),
            commands: plane.traffic.commands,
            compare_and_write_miscompares: counters.miscompares,
            compare_and_write_retries: counters.retries,
        }
    }

    /// Every configured pool.
    pub(super) fn list_pools(&self) -> Progress {
        let names: Vec<String> = self.configuration.pools.keys().cloned().collect();
        let look = |management: &Self, scene: Scene<'_>, name: String| {
            management.describe_pool(scene.plane, &name).ok()
        };
        Progress::gather(Route::ListPools, names.into_iter(), look, |_, _, pools| {
            Described::later(move || pools)
        })
    }

    pub(super) fn describe_pool(&self, plane: &DataPlane, name: &str) -> Result<Pool, Problem> {
        let pool = self.configuration.pool(name).map_err(|error| refused(&error))?;
        Ok(self.pool(plane, name, pool))
    }

    fn pool(&self, plane: &DataPlane, name: &str, configuration: &array::Pool) -> Pool {
        let served = plane.pool_named(name).map(|(_, pool)| pool);
        let devices = devices(served, configuration);
        let unavailable = self.unavailable.get(name).map(|pool| pool.reason.clone());
        let (state, reason) = match (served.map(|pool| pool.health()), unavailable) {
            (Some(Health::Opening), _) => ("opening", None),
            (_, Some(reason)) => ("unavailable", Some(reason)),
            (Some(Health::Ready), None) => ("ready", None),
            (Some(Health::ReadOnly { reason }), None) => {
                let problem = served.and_then(|pool| pool.resume_problem.as_ref());
                let failed = problem.map(|why| format!("; it could not be resumed: {why}"));
                ("read-only", Some(reason + &failed.unwrap_or_default()))
            }
            (Some(Health::Closed), None) if self.is_resuming(plane, name) => ("opening", None),
            (None, None) if self.reopening.is_trying(name) => ("opening", None),
            (Some(Health::Closed) | None, None) => ("closing", None),
        };
        Pool {
            name: name.to_owned(),
            uuid: hexadecimal(&configuration.uuid),
            size_bytes: pool_bytes(served, &devices),
            mirrors: served.map(|pool| self.mirrors(pool)).unwrap_or_default(),
            departure: served.and_then(|pool| self.describe_departure(pool)),
            spares: configuration
                .mirroring
                .spares
                .iter()
                .map(|spare| spare.device.to_string())
                .collect(),
            hang_limit_seconds: self.hang_limit.as_secs(),
            read_errors_max: READ_ERRORS_MAX,
            state: state.to_owned(),
            reason,
            lock_holders: self
                .unavailable
                .get(name)
                .map(|pool| pool.lock_holders.clone())
                .unwrap_or_default(),
            journal_loss: self.journal_loss(plane, name).map(|loss| {
                let since = self.journal_losses.get(name).copied();
                describe_loss(loss, since.unwrap_or_else(now))
            }),
            backing: served.map(|pool| backing(plane, pool, &devices)).unwrap_or_default(),
            backing_free_bytes: served.and_then(|pool| pool.backing.free_bytes()),
            backing_state: served.map(|pool| backing_state(pool.backing.state)).unwrap_or_default(),
            backing_message: served.and_then(|pool| pool.backing.message(&pool.space())),
            space: served.map(space),
            thresholds: control::thresholds::describe(configuration.thresholds),
            delete_scheduled_snapshots: configuration.delete_scheduled_snapshots,
            preferred_controller: configuration.fail_back.preferred_controller,
            fail_back_seconds: configuration.fail_back.after_seconds,
            fail_back_waits_for: self.describe_fail_back(plane, name),
            fill: self.pool_fill(name),
            volumes: served.map_or(0, volume_count),
            snapshots: served.map_or(0, |pool| pool.store.snapshot_count()),
            memory_bytes: served.map_or(0, |pool| pool.memory_bytes),
            counters: served.map(Self::counters).unwrap_or_default(),
            tags: self.configuration.tags(Tagged::Pool(name)),
            devices,
        }
    }

    fn mirrors(&self, pool: &ServedPool) -> Vec<api::Mirror> {
        let mirrors = pool.mirrors().map(|status| api::Mirror {
            index: status.device.into(),
            uuid: hexadecimal(&status.uuid),
            size_bytes: status.size_bytes,
            degraded: status.is_degraded(),
            members: status.members.iter().map(|member| self.member(pool, member)).collect(),
            resilver: status.resilver.map(resilver),
        });
        mirrors.collect()
    }

    fn member(&self, pool: &ServedPool, member: &MemberStatus) -> api::Member {
        let device = self.member_name(pool, member.uuid);
        api::Member {
            uuid: hexadecimal(&member.uuid),
            device: Some(device).filter(|name| !name.starts_with("member ")),
            size_bytes: member.size_bytes,
            state: describe_state(member.state),
            errors: member.errors,
            healed_blocks: member.healed_blocks,
        }
    }

    pub(super) fn describe_volume(
        &self,
        plane: &DataPlane,
        pool: PoolId,
        id: VolumeId,
    ) -> Result<Volume, Problem> {
        let pool = plane.pools.get(pool).ok_or_else(gone)?;
        let not_found =
            || refused(&ArrayError::NotFound { kind: "volume", name: pool.name.clone() });
        let volume = pool.store.volume(id).ok_or_else(not_found)?;
        Ok(VolumeFacts::new(self, pool, volume).describe(&self.configuration))
    }
}

/// Every volume that the administrator made and hosts write to, without snapshots.
pub(super) fn list_volumes() -> Progress {
    let look = |management: &Management, scene: Scene<'_>, key: (PoolId, VolumeId)| {
        let (pool, volume) = scene.plane.volume(key)?;
        (!volume.spec.snapshot).then(|| VolumeFacts::new(management, pool, volume))
    };
    let describe = |management: &Management, _: Scene<'_>, found: Vec<VolumeFacts>| {
        let configuration = Arc::clone(&management.configuration);
        Described::list(move |list| {
            let mut found = found;
            sort_by(&mut found, |a, b| {
                (&a.pool, &a.volume.spec.name).cmp(&(&b.pool, &b.volume.spec.name))
            });
            found.into_iter().for_each(|facts| list.push(&facts.describe(&configuration)));
        })
    };
    Progress::gather(Route::ListVolumes, EachVolume::default(), look, describe)
}

/// What the engine and the reactor know of a volume; the configuration knows the rest.
struct VolumeFacts {
    pool: String,
    volume: store::Volume,
    origin: Option<String>,
    snapshots: usize,
    fill: api::Fill,
}

impl VolumeFacts {
    fn new(management: &Management, pool: &ServedPool, volume: &store::Volume) -> Self {
        let origin = volume.origin.and_then(|origin| pool.store.volume(origin));
        Self {
            pool: pool.name.clone(),
            volume: volume.clone(),
            origin: origin.map(|origin| format!("{}/{}", pool.name, origin.spec.name)),
            snapshots: pool.store.snapshots_of(volume.spec.id),
            fill: management.volume_fill(volume.spec.id),
        }
    }

    fn describe(self, configuration: &Configuration) -> Volume {
        let Self { pool, volume, origin, snapshots, fill } = self;
        let presentation = configuration.presentation(volume.spec.id);
        Volume {
            pool,
            naa: format!("naa.{}", hexadecimal(&volume.spec.naa)),
            size_bytes: volume.spec.size_bytes,
            thick: volume.spec.thick,
            reserved: volume.spec.thick,
            block_size: describe_blocks(presentation.blocks),
            reservations_hidden: presentation.reservations_hidden,
            identification: presentation.identification.map(identification::describe),
            primitives: primitives::describe(presentation.switches_off),
            limits: rate_limits::describe(presentation.limits),
            mapped_bytes: volume.mapped_bytes,
            shared_bytes: volume.shared_bytes(),
            created: volume.spec.created,
            snapshot: volume.spec.snapshot,
            origin,
            snapshots,
            thresholds: control::thresholds::describe(
                configuration.volume_thresholds(volume.spec.id),
            ),
            fill,
            lun: configuration.lun_of(volume.spec.id),
            maps: configuration.maps_of(volume.spec.id).map(describe_map).collect(),
            hosts: configuration.hosts_of(volume.spec.id).map(str::to_owned).collect(),
            read_only_hosts: configuration
                .read_only_hosts_of(volume.spec.id)
                .map(str::to_owned)
                .collect(),
            tags: configuration.tags(Tagged::Volume(volume.spec.id)),
            name: volume.spec.name,
        }
    }
}

fn volume_count(pool: &ServedPool) -> usize {
    pool.store.volume_count() - pool.store.snapshot_count() - hidden(&pool.store).count()
}

fn hidden_bytes(pool: &ServedPool) -> u64 {
    hidden(&pool.store).map(|volume| volume.spec.size_bytes).sum()
}

/// The devices as they are, or as they are configured while the pool is not served. Those of a pool
/// without mirrors have the numbers by which the pool knows them.
pub(super) fn devices(served: Option<&ServedPool>, configuration: &array::Pool) -> Vec<Device> {
    let statuses: Vec<_> = served.into_iter().flat_map(|pool| pool.store.mirrors()).collect();
    let is_plain = statuses.iter().all(|status| !status.is_mirror);
    let of_slot = |slot: u8| {
        let has = |status: &&MirrorStatus| status.members.iter().any(|m| m.slot == Some(slot));
        statuses.iter().find(has)
    };
    let at = |place: usize, name: &DeviceName| {
        let mut open = served?.devices.iter().filter(|(_, open)| !open.is_lost);
        let found =
            if is_plain { open.nth(place) } else { open.find(|(_, open)| open.name == *name) };
        of_slot(found?.0)
    };
    let devices = configuration.devices.iter().enumerate();
    let describe = |(place, device): (usize, &array::PoolDevice)| {
        let status = at(place, &device.device);
        let number = status.filter(|_| is_plain).map(|status| status.device.into());
        Device {
            index: number.unwrap_or(place),
            device: device.device.to_string(),
            size_bytes: status.map_or(device.size_bytes, |status| status.size_bytes),
        }
    };
    devices.map(describe).collect()
}

/// Bytes of a pool's devices; of those that hold the same blocks once.
fn pool_bytes(served: Option<&ServedPool>, devices: &[Device]) -> u64 {
    match served.filter(|pool| pool.mirrors().next().is_some()) {
        Some(pool) => pool.store.devices().map(|device| device.size_bytes).sum(),
        None => devices.iter().map(|device| device.size_bytes).sum(),
    }
}

fn resilver(status: ResilverStatus) -> api::Resilver {
    api::Resilver {
        paused: status.paused,
        copied_bytes: status.copied_bytes,
        total_bytes: status.total_bytes,
        unreadable_blocks: status.unreadable_blocks,
        remaining_seconds: status.remaining.map(|remaining| remaining.as_secs()),
    }
}

/// The file systems under a pool, with the other pools on each.
fn backing(plane: &DataPlane, pool: &ServedPool, devices: &[Device]) -> Vec<api::Backing> {
    let shares = |id: u64| {
        let others = plane.pools.iter().filter(|(_, other)| other.name != pool.name);
        let alike = others.filter(move |(_, other)| {
            other.backing.file_systems.iter().any(|system| system.id == id)
        });
        alike.map(|(_, other)| other.name.clone()).collect()
    };
    let number = |slot: usize| {
        let name = pool.devices.get(slot)?.name.to_string();
        devices.iter().find(|device| device.device == name).map(|device| device.index)
    };
    let describe = |system: &FileSystem| api::Backing {
        file_system: system.mount_point.display().to_string(),
        size_bytes: system.size_bytes,
        free_bytes: system.free_bytes,
        unallocated_bytes: system.unallocated_bytes,
        devices: system.devices.iter().filter_map(|&slot| number(slot)).collect(),
        shared_with: shares(system.id),
    };
    pool.backing.file_systems.iter().map(describe).collect()
}

fn describe_loss(loss: &store::JournalLoss, since: u64) -> api::JournalLoss {
    api::JournalLoss {
        since,
        commits: loss.commits(),
        first_commit: loss.first_commit,
        last_commit: loss.last_commit,
        acknowledged_commit: loss.stable_commit,
        intact_commits: loss.intact_commits,
        intact_changes: loss.intact_changes,
        volumes: loss.volumes.iter().map(|id| hexadecimal(&id.0.to_be_bytes())).collect(),
    }
}

fn backing_state(state: BackingState) -> api::BackingState {
    match state {
        BackingState::Enough => api::BackingState::Enough,
        BackingState::Short => api::BackingState::Short,
        BackingState::Full => api::BackingState::Full,
    }
}

fn space(pool: &ServedPool) -> Space {
    let space = pool.space();
    Space {
        total_bytes: space.total,
        used_bytes: space.used,
        data_bytes: space.used - space.metadata,
        metadata_bytes: space.metadata,
        promised_bytes: space.promised,
        shared_bytes: space.shared,
        used_percent: control::thresholds::used_percent(&space),
        pending_bytes: space.pending,
        unbacked_bytes: space.unbacked,
        reserve_bytes: space.reserve,
        metadata_reserve_bytes: space.metadata_reserve,
        metadata_left_bytes: space.metadata_left,
        free_bytes: space.free,
        provisioned_bytes: pool.store.provisioned_bytes() - hidden_bytes(pool),
    }
}

pub(crate) fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn describe_map(map: array::VolumeMap<'_>) -> api::VolumeMap {
    api::VolumeMap {
        host: map.host.to_owned(),
        lun: map.lun,
        read_only: map.access == array::Access::ReadOnly,
    }
}
