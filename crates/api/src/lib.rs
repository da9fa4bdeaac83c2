//! The management interface's words: REST types and one table of routes; no logic.
//!
//! Sizes are bytes. Identifiers of 64 bits and more are hexadecimal strings, because JSON readers
//! lose precision beyond 2^53. Errors are [`Problem`]s (RFC 9457).
#![forbid(unsafe_code)]

mod routes;
mod types;

pub use routes::{Method, ROUTES, Route};
pub use types::{
    ChangeHost, Chap, CreateHost, CreatePool, CreatePortal, CreateVolume, DeviceCounters,
    Discovery, Group, Host, LunMap, MapVolume, Pool, Portal, Problem, Rates, ResizePool,
    ResizeVolume, Secret, Session, SetGroup, Space, Target, Volume,
};
