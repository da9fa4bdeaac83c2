//! Devices of pools, told on the link by the controller that serves them: a controller that is to take a pool
//! over opens those that it has now, not those that it had when the configuration was copied.
//!
//! A name of a device means the same device on all controllers. Whether it does is seen by its label when the
//! pool is opened; a device that is another one is refused then.

use std::collections::BTreeMap;

use array::{Configuration, Pool};
use block::DeviceName;
use serde_json::Value;

use crate::limits::LINK_POOLS_BYTES_MAX;

/// What others are told of the pools that a controller serves, by their names: of those whose devices others
/// can reach, and as many as fit into a message.
pub fn describe<'a>(
    pools: impl Iterator<Item = (&'a String, &'a Pool)>,
) -> BTreeMap<String, Value> {
    let mut left = LINK_POOLS_BYTES_MAX;
    let mut described = BTreeMap::new();
    for (name, pool) in pools.filter(|(_, pool)| can_be_reached(pool)) {
        let Ok(value) = serde_json::to_value(pool) else { continue };
        let bytes = bytes((name, &value));
        if bytes <= left {
            left -= bytes;
            described.insert(name.clone(), value);
        }
    }
    described
}

/// Bytes of a description in a message.
pub fn bytes((name, described): (&String, &Value)) -> usize {
    name.len() + described.to_string().len()
}

/// The identifier of a pool that is described so.
pub fn uuid_of(described: &Value) -> Option<[u8; 16]> {
    serde_json::from_value(described.get("uuid")?.clone()).ok()
}

fn can_be_reached(pool: &Pool) -> bool {
    pool.devices.iter().all(|device| device.device.kind().is_one_place())
}

/// What this controller is to know of a pool that another one serves and describes so: under which name, and
/// what; `None` if it knows that.
///
/// # Errors
/// Why it cannot know the pool, in a sentence.
pub fn learn(
    array: &Configuration,
    name: &str,
    described: &Value,
) -> Result<Option<(String, Pool)>, String> {
    let told: Pool = serde_json::from_value(described.clone())
        .map_err(|error| format!("its description is of another version: {error}"))?;
    told.thresholds.check().map_err(|error| error.to_string())?;
    let devices: Vec<DeviceName> = told.devices.iter().map(|one| one.device.clone()).collect();
    let known = array.pools.iter().find(|(_, pool)| pool.uuid == told.uuid);
    let Some((name, known)) = known else {
        array.check_new_pool(name, &devices).map_err(|error| error.to_string())?;
        return Ok(Some((name.to_owned(), told)));
    };
    if *known == told {
        return Ok(None);
    }
    let mut others = array.clone();
    others.pools.remove(name);
    others.check_new_pool(name, &devices).map_err(|error| error.to_string())?;
    Ok(Some((name.clone(), told)))
}

#[cfg(test)]
mod tests;
