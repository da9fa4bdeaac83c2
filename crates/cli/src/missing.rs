//! Configuration import: makes the pools and volumes that the file describes and the array lacks.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result};
use api::{
    AddDevice, Configuration, ConfiguredPool, ConfiguredShape, CreatePool, CreateVolume, Pool,
    Snapshot, Volume,
};
use reqwest::Method;

use crate::commands::{Invocation, check_segment, split};
use notation::format_size;

/// What is to be made before a configuration can be imported.
#[derive(Debug, Default)]
pub(crate) struct Missing {
    pools: Vec<ConfiguredPool>,
    volumes: Vec<(String, ConfiguredShape)>,
    /// Snapshots, whose content no file has: what is said of them is left out.
    snapshots: Vec<String>,
}

impl Missing {
    /// Finds what is missing, and takes what is said of missing snapshots out of the file.
    fn find(
        file: &mut Configuration,
        pools: &BTreeSet<String>,
        volumes: &BTreeSet<String>,
    ) -> Self {
        let mut missing = Self::default();
        let described = file.pools.iter().filter(|pool| !pools.contains(&pool.name));
        missing.pools = described.filter(|pool| !pool.devices.is_empty()).cloned().collect();
        file.volumes.retain(|wanted| match (volumes.contains(&wanted.volume), wanted.shape) {
            (true, _) => true,
            (false, Some(shape)) => {
                missing.volumes.push((wanted.volume.clone(), shape));
                true
            }
            (false, None) => {
                missing.snapshots.push(wanted.volume.clone());
                false
            }
        });
        missing
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.pools.is_empty() && self.volumes.is_empty() && self.snapshots.is_empty()
    }

    /// A sentence for each.
    pub(crate) fn in_words(&self) -> Vec<String> {
        let pools = self.pools.iter().map(|pool| {
            let devices = pool.devices.iter().map(|device| device.device.as_str());
            format!("pool {} is created on {}", pool.name, devices.collect::<Vec<_>>().join(", "))
        });
        let volumes = self.volumes.iter().map(|(path, shape)| {
            format!("volume {path} of {} is created, empty", format_size(shape.size_bytes))
        });
        let snapshots = self
            .snapshots
            .iter()
            .map(|path| format!("snapshot {path} is not here, and what is said of it is left out"));
        pools.chain(volumes).chain(snapshots).collect()
    }
}

impl Invocation {
    /// What a file describes and the array does not have.
    pub(crate) fn take_missing(&self, file: &mut Configuration) -> Result<Missing> {
        let pools: Vec<Pool> = self.client.get("/v1/pools")?;
        let volumes: Vec<Volume> = self.client.get("/v1/volumes")?;
        let snapshots: Vec<Snapshot> = self.client.get("/v1/snapshots")?;
        let pools = pools.into_iter().map(|pool| pool.name).collect();
        let volumes = volumes.into_iter().map(|volume| format!("{}/{}", volume.pool, volume.name));
        let snapshots = snapshots.into_iter().map(|one| format!("{}/{}", one.pool, one.name));
        Ok(Missing::find(file, &pools, &volumes.chain(snapshots).collect()))
    }

    /// Makes pools and volumes, empty. What was made before one that cannot be made stays.
    pub(crate) fn make(&self, missing: &Missing) -> Result<()> {
        for pool in &missing.pools {
            self.make_pool(pool).with_context(|| format!("cannot make pool {}", pool.name))?;
        }
        for (path, shape) in &missing.volumes {
            let (pool, name) = split(path)?;
            let ConfiguredShape { size_bytes, thick, block_size } = *shape;
            let body =
                CreateVolume { pool, name, size_bytes, thick, block_size, tags: BTreeMap::new() };
            let made = self.client.send::<Volume>(Method::POST, "/v1/volumes", &body);
            made.with_context(|| format!("cannot make volume {path}"))?;
        }
        Ok(())
    }

    /// A pool begins with devices of one size; others join.
    fn make_pool(&self, pool: &ConfiguredPool) -> Result<()> {
        check_segment("pool", &pool.name)?;
        let size = pool.devices.first().map(|device| device.size_bytes);
        let alike = pool.devices.iter().take_while(|device| Some(device.size_bytes) == size);
        let devices: Vec<String> = alike.map(|device| device.device.clone()).collect();
        let others = &pool.devices[devices.len()..];
        let body = CreatePool { name: pool.name.clone(), devices, size_bytes: size, mirror: None };
        self.client.send::<Pool>(Method::POST, "/v1/pools", &body)?;
        let route = format!("/v1/pools/{}/devices", pool.name);
        for device in others {
            let (name, size_bytes) = (device.device.clone(), Some(device.size_bytes));
            let body = AddDevice { device: name, mirrored_by: Vec::new(), size_bytes };
            self.client.send::<Pool>(Method::POST, &route, &body)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
