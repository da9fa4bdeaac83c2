//! The bench on which black-box tests run: starts and stops a real daemon, runs real initiators.
//!
//! Nothing here knows the daemon's insides: it is steered by its command lines and its sockets.
#![forbid(unsafe_code)]

pub mod array;
pub mod binaries;
pub mod ceph;
pub mod container;
pub mod controllers;
pub mod cunit;
pub mod faulty_folder;
pub mod generations;
pub mod history;
pub mod hostkit;
pub mod http;
pub mod initiator;
pub mod istgt;
pub mod load;
pub mod machines;
pub mod members;
pub mod path;
pub mod pdu;
pub mod program;
pub mod proxy;
pub mod random;
pub mod recoverer;
pub mod release;
pub mod survivor;
pub mod tgt;
pub mod upgraded;
pub mod waiting;
pub mod wire;

pub use array::{Array, Traffic};
pub use serde_json::Value;

/// Reads a number at a JSON pointer (RFC 6901), for example `/space/used_bytes`.
///
/// # Errors
/// When there is no unsigned number at that place.
pub fn number(value: &Value, pointer: &str) -> anyhow::Result<u64> {
    let found = value.pointer(pointer).and_then(Value::as_u64);
    found.ok_or_else(|| anyhow::anyhow!("no number at {pointer} in {value}"))
}

/// Reads a text at a JSON pointer (RFC 6901).
///
/// # Errors
/// When there is no text at that place.
pub fn text<'a>(value: &'a Value, pointer: &str) -> anyhow::Result<&'a str> {
    let found = value.pointer(pointer).and_then(Value::as_str);
    found.ok_or_else(|| anyhow::anyhow!("no text at {pointer} in {value}"))
}

/// A number from the environment, as those who run a test for longer set it.
///
/// # Errors
/// When it is there and no number.
pub fn setting(name: &str, otherwise: u64) -> anyhow::Result<u64> {
    match std::env::var(name) {
        Ok(text) => text.parse().map_err(|error| anyhow::anyhow!("{name}: {error}")),
        Err(_) => Ok(otherwise),
    }
}

/// The parts of a pool's space, as `pool show` tells them, are its size: also where the file system
/// below has less room than the pool's files may still need.
///
/// # Errors
/// When a part is missing, or they are more or less than the total.
pub fn space_adds_up(pool: &Value) -> anyhow::Result<()> {
    let parts = ["used", "pending", "reserve", "free", "unbacked"];
    let parts = parts.map(|part| number(pool, &format!("/space/{part}_bytes")));
    let sum: u64 = parts.into_iter().collect::<anyhow::Result<Vec<_>>>()?.iter().sum();
    anyhow::ensure!(sum == number(pool, "/space/total_bytes")?, "{pool:#}");
    Ok(())
}
