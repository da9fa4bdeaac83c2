//! Persistent reservations of one volume as a state machine without a protocol: who is registered
//! with which key, who holds the reservation, whom it keeps out.
//!
//! SPC-4 5.12 and NVMe Base 2.0 8.19 describe the same machine with other words on the wire. A front
//! end names registrants by a type of its own, turns its commands into calls, and a [`Refusal`] or
//! a [`Notice`] into its status codes: `scsi` does it in `persistent.rs`; the unit tests here do it
//! for NVMe's four commands, and for a volume that both protocols reach.
//!
//! An action makes a new state beside the old one, so that it takes effect only when it is durable,
//! and then as a whole.

#![forbid(unsafe_code)]

mod actions;
mod kind;
pub mod limits;
mod refusal;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use actions::{Move, Registration};
pub use kind::ReservationType;
pub use refusal::Refusal;

/// What a command wants of the medium.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// To read from it.
    Read,
    /// To change it.
    Write,
}

/// A persistent reservation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reservation<R> {
    /// What it keeps whom from.
    pub kind: ReservationType,
    /// Who holds it; absent where every registrant does.
    pub holder: Option<R>,
}

/// Registrations and the reservation of a volume. `R` names a registrant, the same from one session
/// to the next: an I_T nexus with SCSI, a host with NVMe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reservations<R> {
    /// Counts changes of registrations from zero at every power on (SPC-4 6.15.2: PRGENERATION;
    /// NVMe: GEN).
    generation: u32,
    /// Whether all of this outlasts a loss of power (SPC-4 5.12.5: APTPL; NVMe: PTPLS).
    persists: bool,
    keys: BTreeMap<R, u64>,
    /// Its holder is always registered.
    reservation: Option<Reservation<R>>,
}

impl<R> Default for Reservations<R> {
    fn default() -> Self {
        Self { generation: 0, persists: false, keys: BTreeMap::new(), reservation: None }
    }
}

/// What outlasts a loss of power.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DurableReservations<R> {
    /// Registrants with their keys, which are not zero.
    pub keys: Vec<(R, u64)>,
    /// The reservation.
    pub reservation: Option<Reservation<R>>,
}

/// What a registrant is told of an action of another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    /// All registrations and the reservation were cleared.
    ReservationPreempted,
    /// The reservation was released, or its type changed.
    ReservationReleased,
    /// The registration of who is told was removed.
    RegistrationPreempted,
}

/// An action that was found right: the state after it, and what it does to others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transition<R> {
    /// The state that takes the place of the one before.
    pub state: Reservations<R>,
    /// Who is told what.
    pub told: Vec<(R, Notice)>,
    /// Registrants that lost their registration to a preemption, whose commands are to be aborted if
    /// that was asked for.
    pub preempted: Vec<R>,
}

impl<R: Clone + Ord> Reservations<R> {
    /// What was kept over a loss of power; a reservation whose holder is not registered is none.
    pub fn restore(saved: DurableReservations<R>) -> Self {
        let keys: BTreeMap<_, _> = saved.keys.into_iter().filter(|(_, key)| *key != 0).collect();
        let is_held = |held: &Reservation<R>| match &held.holder {
            Some(holder) => keys.contains_key(holder),
            None => held.kind.is_held_by_all() && !keys.is_empty(),
        };
        let reservation = saved.reservation.filter(is_held);
        Self { generation: 0, persists: true, keys, reservation }
    }

    /// What is to be kept; `None` if nothing is, since nobody asked for it or is registered.
    pub fn durable(&self) -> Option<DurableReservations<R>> {
        let kept = self.persists && !self.keys.is_empty();
        kept.then(|| DurableReservations {
            keys: self.keys.iter().map(|(who, key)| (who.clone(), *key)).collect(),
            reservation: self.reservation.clone(),
        })
    }

    /// Number of changes of registrations since power on, which wraps.
    pub const fn generation(&self) -> u32 {
        self.generation
    }

    /// Whether the state outlasts a loss of power.
    pub const fn persists(&self) -> bool {
        self.persists
    }

    /// Registrants with their keys, in the order of their names.
    pub const fn keys(&self) -> &BTreeMap<R, u64> {
        &self.keys
    }

    /// The reservation, if there is one.
    pub const fn reservation(&self) -> Option<&Reservation<R>> {
        self.reservation.as_ref()
    }

    /// The key of a registrant.
    pub fn key_of(&self, who: &R) -> Option<u64> {
        self.keys.get(who).copied()
    }

    /// SPC-4 5.12.10: the holder, or any registrant where all hold it.
    pub fn is_holder(&self, who: &R) -> bool {
        self.reservation.as_ref().is_some_and(|held| match &held.holder {
            Some(holder) => holder == who,
            None => self.keys.contains_key(who),
        })
    }

    /// SPC-4 5.12.3: the holder, or any registrant where the type admits registrants.
    pub fn admits_all_of(&self, who: &R) -> bool {
        let admits = |held: &Reservation<R>| held.kind.admits_registrants();
        self.is_holder(who)
            || self.reservation.as_ref().is_some_and(admits) && self.keys.contains_key(who)
    }

    /// Whether the reservation keeps `who` from the medium.
    pub fn conflicts(&self, who: &R, access: Access) -> bool {
        match &self.reservation {
            None => false,
            Some(held) if access == Access::Read && !held.kind.excludes_readers() => false,
            Some(_) => !self.admits_all_of(who),
        }
    }
}

#[cfg(test)]
mod tests;
