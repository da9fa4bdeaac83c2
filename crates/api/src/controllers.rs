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
    /// Addresses and TCP ports of its iSCSI portals; of another controller as it said last on the link,
    /// or as this one was told at its start.
    pub portals: Vec<String>,
    /// Every pool.
    pub pools: Vec<PoolStanding>,
    /// Whether it was heard on the link within the last seconds; `true` for the one that answers.
    #[serde(default)]
    pub reachable: bool,
    /// Whether its machine said that its process has ended, and none that was started since was heard.
    #[serde(default)]
    pub ended: bool,
    /// When it was heard last, seconds since 1970; `null` if never since the one that answers was started.
    pub heard_at: Option<u64>,
    /// The version of its program, as it said last.
    pub version: Option<String>,
    /// Where its link listens: HOST:PORT.
    pub link: Option<String>,
    /// Whether it is the one that answers, or was paired with that one.
    #[serde(default)]
    pub paired: bool,
    /// After how many seconds without a sign of it the one that answers takes pools from another
    /// controller; `null` if it does not, and of others.
    pub take_over_after: Option<u64>,
    /// Whether it is in maintenance: it gives its pools to others and takes none. `null` of others that
    /// are silent, or do not say it.
    pub maintenance: Option<bool>,
    /// Why the one that answers could not connect to its link, the last time it tried; `null` while it
    /// is heard.
    pub problem: Option<String>,
}

/// Whether a controller is in maintenance.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Maintenance {
    /// `true`: it gives its pools to other controllers and takes none, until it is told otherwise or its
    /// daemon is started again.
    pub on: bool,
}

/// A code is wanted by which another controller joins.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PairController {
    /// Where the other one finds the link of this one: HOST:PORT; by default the address of `--link`.
    pub address: Option<String>,
}

/// A code by which one controller joins another, once.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct PairingCode {
    /// The code. Whoever has it can become a controller of the array, as long as it lasts.
    pub code: String,
    /// Until when it may be used, seconds since 1970.
    pub expires: u64,
}

/// A controller is to join the one that gave a code.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct JoinController {
    /// The code, whole.
    pub code: String,
}

/// Two controllers know each other.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Paired {
    /// The number of the other one.
    pub number: u16,
}

/// How a controller serves a pool.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct PoolStanding {
    /// The pool.
    pub pool: String,
    /// What hosts are told of its volumes there (ALUA), of another controller as it says on the link;
    /// `null` while that is silent: ask that one.
    pub state: Option<PathState>,
    /// Whether it is the one that should have the pool, as the controller that answers knows it.
    #[serde(default)]
    pub preferred: bool,
}
