//! The management interface's words: REST types and one table of routes; no logic.
//!
//! Sizes are bytes. Identifiers of 64 bits and more are hexadecimal strings, because JSON readers
//! lose precision beyond 2^53. Errors are [`Problem`]s (RFC 9457).
#![forbid(unsafe_code)]

mod routes;
mod types;

pub use routes::{Method, ROUTES, Route};
pub use types::{
    CreateHost, CreatePool, CreateVolume, DeviceCounters, Host, LunMap, MapVolume, Pool, Portal,
    Problem, ResizePool, ResizeVolume, Session, Space, Target, Volume,
};
