//! How objects look to the administrator.

use api::{Host, Pool, Problem, Session, Space, Target, Volume};
use array::ArrayError;
use block::VolumeId;
use store::Health;

use super::Management;
use super::problems::refused;
use crate::core::Core;
use crate::pool::Pool as ServedPool;
use crate::token_spaces::is_hidden;

impl Management {
    pub(super) fn describe_target(&self, core: &Core, sessions: Vec<Session>) -> Target {
        let received: u64 = sessions.iter().map(|session| session.bytes_received).sum();
        let sent: u64 = sessions.iter().map(|session| session.bytes_sent).sum();
        Target {
            name: self.configuration.target_name.clone(),
            portals: self.describe_portals(),
            sessions,
            bytes_received: core.traffic.received + received,
            bytes_sent: core.traffic.sent + sent,
            commands: core.traffic.commands,
        }
    }

    pub(super) fn describe_pools(&self, core: &Core) -> Vec<Pool> {
        let pools = self.configuration.pools.iter();
        pools.map(|(name, pool)| self.pool(core, name, pool)).collect()
    }

    pub(super) fn describe_pool(&self, core: &Core, name: &str) -> Result<Pool, Problem> {
        let pool = self.configuration.pool(name).map_err(|error| refused(&error))?;
        Ok(self.pool(core, name, pool))
    }

    fn pool(&self, core: &Core, name: &str, configuration: &array::Pool) -> Pool {
        let served = core.pool_named(name).map(|(_, pool)| pool);
        let unavailable = self.unavailable.get(name).map(|pool| pool.reason.clone());
        let (state, reason) = match (served.map(|pool| pool.store.health()), unavailable) {
            (_, Some(reason)) => ("unavailable", Some(reason)),
            (Some(Health::Ready), None) => ("ready", None),
            (Some(Health::ReadOnly { reason }), None) => ("read-only", Some(reason)),
            (Some(Health::Opening), None) => ("opening", None),
            (Some(Health::Closed) | None, None) => ("closing", None),
        };
        Pool {
            name: name.to_owned(),
            uuid: hexadecimal(&configuration.uuid),
            device: configuration.device.to_string(),
            state: state.to_owned(),
            reason,
            size_bytes: configuration.size_bytes,
            space: served.map(space),
            volumes: served.map_or(0, |pool| shown(pool).count()),
            counters: served.map(Self::counters).unwrap_or_default(),
        }
    }

    pub(super) fn describe_volumes(&self, core: &Core) -> Vec<Volume> {
        let mut volumes: Vec<Volume> = Vec::new();
        for (_, pool) in &core.pools {
            volumes.extend(shown(pool).map(|volume| self.volume(&pool.name, volume)));
        }
        volumes.sort_by(|a, b| (&a.pool, &a.name).cmp(&(&b.pool, &b.name)));
        volumes
    }

    pub(super) fn describe_volume(
        &self,
        core: &Core,
        pool: usize,
        id: VolumeId,
    ) -> Result<Volume, Problem> {
        let pool = &core.pools[pool];
        let not_found =
            || refused(&ArrayError::NotFound { kind: "volume", name: pool.name.clone() });
        let volume = pool.store.volume(id).ok_or_else(not_found)?;
        Ok(self.volume(&pool.name, volume))
    }

    fn volume(&self, pool: &str, volume: &store::Volume) -> Volume {
        Volume {
            pool: pool.to_owned(),
            name: volume.name.clone(),
            naa: format!("naa.{}", hexadecimal(&volume.naa)),
            size_bytes: volume.size_bytes,
            reserved: volume.reserved,
            mapped_bytes: volume.mapped_bytes,
            lun: self.configuration.lun_of(volume.id),
            hosts: self.configuration.hosts_of(volume.id).map(str::to_owned).collect(),
            read_only_hosts: self
                .configuration
                .read_only_hosts_of(volume.id)
                .map(str::to_owned)
                .collect(),
        }
    }

    pub(super) fn describe_hosts(&self) -> Vec<Host> {
        self.configuration.hosts.keys().map(|name| self.describe_host(name)).collect()
    }

    pub(super) fn describe_host(&self, name: &str) -> Host {
        let host = self.configuration.hosts.get(name);
        let initiators = host.into_iter().flat_map(|host| host.initiators.iter().cloned());
        let chap = self.secrets.hosts.get(name);
        Host {
            name: name.to_owned(),
            initiators: initiators.collect(),
            chap_user: host.and_then(|host| host.chap_name.clone()),
            mutual_chap: chap.is_some_and(|chap| chap.target.is_some()),
        }
    }
}

fn space(pool: &ServedPool) -> Space {
    let space = pool.store.space();
    Space {
        total_bytes: space.total,
        used_bytes: space.used,
        pending_bytes: space.pending,
        reserve_bytes: space.reserve,
        free_bytes: space.free,
        provisioned_bytes: shown(pool).map(|volume| volume.size_bytes).sum(),
    }
}

/// The volumes that the administrator made.
fn shown(pool: &ServedPool) -> impl Iterator<Item = &store::Volume> {
    pool.store.volumes().filter(|volume| !is_hidden(volume))
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
