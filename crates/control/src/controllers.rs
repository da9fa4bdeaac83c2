//! Asymmetric access states (ALUA) of one controller of several: how it serves the logical units of a
//! pool, from what it knows of the pool; and whether it may change the configuration.
//!
//! Controllers decide nothing with each other: the devices say who has a pool. Nothing here lets two
//! serve at once, since a pool is open only where its devices' locks are held.

use array::AccessState;

use crate::reopening::Trouble;

/// What a controller knows of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It is open here, and all that it says of its array was read.
    Served,
    /// Its devices are held here, and hosts may not use it yet, or not any more.
    Changing,
    /// It is not open here, as far as is known for this reason; `None` before the first try has ended.
    Closed(Option<Trouble>),
}

impl Standing {
    /// The state of its logical units at this controller's ports.
    pub const fn access_state(self) -> AccessState {
        match self {
            Self::Served => AccessState::ActiveOptimized,
            Self::Changing => AccessState::Transitioning,
            Self::Closed(Some(Trouble::Held | Trouble::Fenced | Trouble::Changing) | None) => {
                AccessState::Standby
            }
            Self::Closed(Some(
                Trouble::Absent
                | Trouble::Unfit
                | Trouble::Unchanged
                | Trouble::Silent
                | Trouble::Undecided,
            )) => AccessState::Unavailable,
        }
    }
}

/// The state of logical units of which nobody here knows the pool: one of those that are not open.
pub fn state_of_unknown(pools: impl Iterator<Item = Standing>) -> AccessState {
    let closed = pools.filter(|pool| *pool != Standing::Served).map(Standing::access_state);
    let rank = |state: &AccessState| match state {
        AccessState::Standby => 2,
        AccessState::Transitioning => 1,
        AccessState::Unavailable
        | AccessState::ActiveOptimized
        | AccessState::ActiveNonOptimized => 0,
    };
    closed.max_by_key(rank).unwrap_or(AccessState::Unavailable)
}

/// Whether this controller may change the configuration without a turn ([`crate::turns`]): only if no pool is
/// another's. Two that changed the same object would not know of each other.
pub fn may_change(mut pools: impl Iterator<Item = Standing>) -> bool {
    pools.all(|pool| pool.access_state() != AccessState::Standby)
}

#[cfg(test)]
mod tests;
