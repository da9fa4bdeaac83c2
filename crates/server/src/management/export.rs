//! Configuration export as one file.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::{
    ConfiguredChap, ConfiguredDevice, ConfiguredGroup, ConfiguredHost, ConfiguredMap,
    ConfiguredPathState, ConfiguredPool, ConfiguredSchedule, ConfiguredShape, ConfiguredVolume,
    CreatePortal, Device, Problem, Route,
};
use array::{Access, Chap, Configuration, Presentation, Secret, Secrets, Tagged, Thresholds};
use block::VolumeId;
use control::import::VERSION;
use control::{identification, portals, primitives, rate_limits};

use super::gathering::{EachVolume, Scene, Subject};
use super::interchange::flag;
use super::problems::forbidden;
use super::volumes::describe_blocks;
use super::{Management, Parameters, Progress, describe};
use crate::data_plane::DataPlane;
use crate::described::Described;
use crate::pools::PoolId;
use crate::yielding::{free, pause, sort_by};

/// What a request that came over the daemon's own socket is marked with.
pub(super) const SOCKET: &str = "socket";

/// The configuration. Secrets leave the daemon over its own socket only.
pub(super) fn export(parameters: &Parameters) -> Result<Progress, Problem> {
    let with_secrets = flag(parameters, "with_secrets")?;
    if with_secrets && parameters.get("peer") != SOCKET {
        return Err(forbidden(
            &"secrets are shown over the daemon's socket only: ask on the array's own machine",
        ));
    }
    let look = |_: &Management, scene: Scene<'_>, key: (PoolId, VolumeId)| {
        let (pool, volume) = scene.plane.volume(key)?;
        Some((format!("{}/{}", pool.name, volume.spec.name), volume.clone()))
    };
    let describe = move |management: &Management, scene: Scene<'_>, volumes| {
        let export = Export {
            array: Arc::clone(&management.configuration),
            secrets: Arc::clone(&management.secrets),
            with_secrets,
            devices: devices(management, scene.plane),
            volumes,
        };
        let free = |configuration: api::Configuration| free(configuration.volumes);
        Described::later_and(move || export.describe(), free)
    };
    let subject = Subject { route: Route::ShowConfiguration, with_secrets, session: None };
    Ok(Progress::gather_for(subject, EachVolume::default(), look, describe))
}

/// The devices of each pool.
fn devices(management: &Management, plane: &DataPlane) -> BTreeMap<String, Vec<ConfiguredDevice>> {
    let pools = management.configuration.pools.iter().map(|(name, pool)| {
        let served = plane.pool_named(name).map(|(_, served)| served);
        let devices = describe::devices(served, pool).into_iter();
        let described = devices
            .map(|Device { device, size_bytes, .. }| ConfiguredDevice { device, size_bytes });
        (name.clone(), described.collect())
    });
    pools.collect()
}

/// What the file is made of.
struct Export {
    array: Arc<Configuration>,
    secrets: Arc<Secrets>,
    with_secrets: bool,
    devices: BTreeMap<String, Vec<ConfiguredDevice>>,
    /// POOL/NAME, and what the engine knows.
    volumes: Vec<(String, store::Volume)>,
}

impl Export {
    fn describe(mut self) -> api::Configuration {
        let volumes = self.configured_volumes();
        free(std::mem::take(&mut self.volumes));
        let array = &self.array;
        let group = |name: &String, hosts: &BTreeSet<String>| ConfiguredGroup {
            name: name.clone(),
            hosts: hosts.iter().cloned().collect(),
            tags: Some(array.tags(Tagged::Group(name))),
        };
        api::Configuration {
            version: VERSION,
            array: array.target_name.clone(),
            identification: Some(identification::describe(array.identification)),
            primitives: Some(primitives::describe(array.switches_off)),
            hosts: array.hosts.iter().map(|(name, host)| self.host(name, host)).collect(),
            groups: array.host_groups.iter().map(|(name, hosts)| group(name, hosts)).collect(),
            discovery: array
                .discovery_chap_name
                .as_ref()
                .map(|user| self.chap(user, self.secrets.discovery.as_ref())),
            portals: array
                .portals
                .iter()
                .map(|(address, portal)| CreatePortal {
                    address: address.to_string(),
                    target_portal_group_tag: portal.group,
                    redirect: portal.redirect.map(|address| address.to_string()),
                })
                .collect(),
            path_states: array
                .path_states()
                .map(|(group, state)| ConfiguredPathState {
                    group,
                    state: portals::describe_state(state),
                })
                .collect(),
            pools: self.pools(),
            volumes,
            schedules: array
                .schedules
                .iter()
                .map(|(name, record)| ConfiguredSchedule {
                    name: name.clone(),
                    schedule: control::schedules::settings(&record.schedule),
                })
                .collect(),
            alerts: self.alerts(),
        }
    }

    fn host(&self, name: &str, host: &array::Host) -> ConfiguredHost {
        let chap = host.chap_name.as_ref();
        ConfiguredHost {
            name: name.to_owned(),
            initiators: host.initiators.iter().cloned().collect(),
            chap: chap.map(|user| self.chap(user, self.secrets.hosts.get(name))),
            primitives: Some(primitives::describe(host.switches_off)),
            limits: Some(rate_limits::describe(host.limits)),
            share: Some(host.share.get()),
            tags: Some(self.array.tags(Tagged::Host(name))),
        }
    }

    fn chap(&self, user: &str, chap: Option<&Chap>) -> ConfiguredChap {
        describe_chap(user, chap, self.with_secrets && chap.is_some())
    }

    fn alerts(&self) -> api::Alerts {
        let mut alerts = control::alerts::describe(&self.array.alerts);
        if self.with_secrets {
            for webhook in &mut alerts.webhooks {
                webhook.secret = self.secrets.webhooks.get(&webhook.name).map(expose);
            }
            if let Some(mail) = &mut alerts.mail {
                mail.password = self.secrets.mail.as_ref().map(expose);
            }
        }
        alerts
    }

    fn pools(&self) -> Vec<ConfiguredPool> {
        let pools = self.array.pools.iter().map(|(name, pool)| ConfiguredPool {
            name: name.clone(),
            devices: self.devices.get(name).cloned().unwrap_or_default(),
            thresholds: control::thresholds::describe(pool.thresholds),
            delete_scheduled_snapshots: Some(pool.delete_scheduled_snapshots),
            fail_back: Some(control::settings::describe_fail_back(pool.fail_back)),
            tags: Some(self.array.tags(Tagged::Pool(name))),
        });
        pools.collect()
    }

    fn configured_volumes(&self) -> Vec<ConfiguredVolume> {
        let volumes = self.volumes.iter().inspect(|_| pause());
        let mut configured: Vec<ConfiguredVolume> =
            volumes.filter_map(|(path, volume)| self.configured_volume(path, volume)).collect();
        sort_by(&mut configured, |a, b| a.volume.cmp(&b.volume));
        configured
    }

    /// What a volume is and what is said of it; of a snapshot, if anything is.
    fn configured_volume(&self, path: &str, volume: &store::Volume) -> Option<ConfiguredVolume> {
        let (array, id) = (&self.array, volume.spec.id);
        let maps = array.maps_of(id).map(|map| ConfiguredMap {
            host: map.host.to_owned(),
            read_only: map.access == Access::ReadOnly,
            lun: Some(map.lun),
        });
        let maps: Vec<ConfiguredMap> = maps.collect();
        let thresholds = array.volume_thresholds(id);
        let Presentation {
            reservations_hidden: hidden,
            identification,
            switches_off,
            limits,
            blocks,
        } = array.presentation(id);
        let is_shown_otherwise =
            hidden || identification.is_some() || !switches_off.is_empty() || !limits.is_default();
        let tags = array.tags(Tagged::Volume(id));
        let said = !maps.is_empty()
            || thresholds != Thresholds::default()
            || is_shown_otherwise
            || !tags.is_empty();
        let shape = (!volume.spec.snapshot).then(|| ConfiguredShape {
            size_bytes: volume.spec.size_bytes,
            thick: volume.spec.thick,
            block_size: describe_blocks(blocks),
        });
        (said || shape.is_some()).then(|| ConfiguredVolume {
            volume: path.to_owned(),
            shape,
            lun: array.lun_of(id),
            maps,
            thresholds: Some(control::thresholds::describe(thresholds)),
            reservations_hidden: Some(hidden),
            identification: identification.map(identification::describe),
            primitives: Some(primitives::describe(switches_off)),
            limits: Some(rate_limits::describe(limits)),
            tags: Some(tags),
        })
    }
}

fn describe_chap(user: &str, chap: Option<&Chap>, with_secrets: bool) -> ConfiguredChap {
    let target = chap.and_then(|chap| chap.target.as_ref());
    let shown = chap.filter(|_| with_secrets);
    ConfiguredChap {
        user: user.to_owned(),
        secret: shown.map(|chap| expose(&chap.initiator.secret)),
        mutual_user: target.map(|target| target.name.clone()),
        mutual_secret: target.filter(|_| with_secrets).map(|target| expose(&target.secret)),
    }
}
fn expose(secret: &Secret) -> api::Secret {
    api::Secret(secret.expose().to_owned())
}
