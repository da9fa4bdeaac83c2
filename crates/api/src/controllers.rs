//! Controllers of an array: which there are, and how pools are served.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::PathState;

/// A controller of the array.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Controller {
    /// Its number, which is the tag of its target portal group: 1 for the only one.
    pub number: u16,
    /// Whether it is the one that answers.
    pub is_this: bool,
    /// Addresses and TCP ports of its iSCSI portals; of another controller as this one was told at its
    /// start.
    pub portals: Vec<String>,
    /// Every pool.
    pub pools: Vec<PoolStanding>,
}

/// How a controller serves a pool.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct PoolStanding {
    /// The pool.
    pub pool: String,
    /// What hosts are told of its volumes there (ALUA); `null` for another controller, which knows it
    /// better: ask that one.
    pub state: Option<PathState>,
}
