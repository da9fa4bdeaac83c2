//! Persistent reservations of one logical unit (SPC-4 5.12): who is registered with which key, who
//! holds the reservation, and whom it keeps out.
//!
//! A service action makes a new state beside the old one, so that it takes effect only when it is
//! durable, and then as a whole.

mod actions;
mod kind;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::sense::SenseCode;

pub(crate) use actions::{Move, Registration};
pub use kind::ReservationType;

/// An I_T nexus as registrations name it: it stays the same from one session to the next.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Registrant {
    /// iSCSI name of the initiator.
    pub initiator_name: String,
    /// Initiator part of the session identifier.
    pub isid: [u8; 6],
    /// RELATIVE TARGET PORT IDENTIFIER, from 1.
    pub relative_target_port: u16,
}

/// What a command wants of the medium.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    Write,
}

/// A persistent reservation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reservation {
    /// What it keeps whom from.
    pub kind: ReservationType,
    /// Who holds it; absent where every registrant does.
    pub holder: Option<Registrant>,
}

/// Registrations and the reservation of a logical unit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PersistentReservations {
    /// PRGENERATION; SPC-4 6.15.2: it starts at zero with every power on.
    generation: u32,
    /// SPC-4 5.12.5: whether all of this outlasts a loss of power.
    aptpl: bool,
    keys: BTreeMap<Registrant, u64>,
    /// Its holder is always registered.
    reservation: Option<Reservation>,
}

/// What outlasts a loss of power.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DurableReservations {
    /// Registrants with their keys, which are not zero.
    pub keys: Vec<(Registrant, u64)>,
    /// The reservation.
    pub reservation: Option<Reservation>,
}

/// A service action that was found right: the state after it, and what it does to others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Transition {
    pub(crate) state: PersistentReservations,
    /// Unit attention conditions, by registrant.
    pub(crate) told: Vec<(Registrant, SenseCode)>,
    /// Registrants whose tasks are to be aborted.
    pub(crate) aborted: Vec<Registrant>,
}

impl PersistentReservations {
    /// What was kept over a loss of power; a reservation whose holder is not registered is none.
    pub(crate) fn restore(saved: DurableReservations) -> Self {
        let keys: BTreeMap<_, _> = saved.keys.into_iter().filter(|(_, key)| *key != 0).collect();
        let is_held = |held: &Reservation| match &held.holder {
            Some(holder) => keys.contains_key(holder),
            None => held.kind.is_held_by_all() && !keys.is_empty(),
        };
        let reservation = saved.reservation.filter(is_held);
        Self { generation: 0, aptpl: true, keys, reservation }
    }

    /// What is to be kept; `None` if nothing is, since APTPL is clear or nobody is registered.
    pub(crate) fn durable(&self) -> Option<DurableReservations> {
        let kept = self.aptpl && !self.keys.is_empty();
        kept.then(|| DurableReservations {
            keys: self.keys.iter().map(|(who, key)| (who.clone(), *key)).collect(),
            reservation: self.reservation.clone(),
        })
    }

    pub(crate) const fn generation(&self) -> u32 {
        self.generation
    }

    pub(crate) const fn aptpl(&self) -> bool {
        self.aptpl
    }

    pub(crate) const fn keys(&self) -> &BTreeMap<Registrant, u64> {
        &self.keys
    }

    pub(crate) const fn reservation(&self) -> Option<&Reservation> {
        self.reservation.as_ref()
    }

    pub(crate) fn key_of(&self, nexus: &Registrant) -> Option<u64> {
        self.keys.get(nexus).copied()
    }

    /// SPC-4 5.12.10: the holder, or any registrant where all hold it.
    pub(crate) fn is_holder(&self, nexus: &Registrant) -> bool {
        self.reservation.as_ref().is_some_and(|held| match &held.holder {
            Some(holder) => holder == nexus,
            None => self.keys.contains_key(nexus),
        })
    }

    /// SPC-4 5.12.3: the holder, or any registrant where registrants are let in.
    pub(crate) fn admits_all_of(&self, nexus: &Registrant) -> bool {
        let lets_in = |held: &Reservation| held.kind.admits_registrants();
        self.is_holder(nexus)
            || self.reservation.as_ref().is_some_and(lets_in) && self.keys.contains_key(nexus)
    }

    /// Whether the reservation keeps `nexus` from the medium.
    pub(crate) fn conflicts(&self, nexus: &Registrant, access: Access) -> bool {
        match &self.reservation {
            None => false,
            Some(held) if access == Access::Read && !held.kind.excludes_readers() => false,
            Some(_) => !self.admits_all_of(nexus),
        }
    }
}

#[cfg(test)]
mod tests;
