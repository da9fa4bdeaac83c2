//! Configuration changes as values: each can be applied to any version of the configuration, and
//! says what follows when that version is saved: effects, and the answer.
//!
//! The server applies a change to a draft, has the draft saved with fsync, performs the effects, and
//! answers. If the draft cannot be saved it never was, and what the change has the server do then is
//! another list of effects, most often an empty one.

use core::net::SocketAddr;
use std::collections::BTreeSet;

use api::Problem;
use array::{Configuration, HeldLun, Rest, Secrets};
use block::VolumeId;
use hashbrown::HashSet;
use serde::Serialize;

use crate::Effect;
use crate::portals::Portals;
use crate::problems::internal;

/// A version of the configuration that is being made, with the secrets that belong to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Draft {
    /// Everything but secrets.
    pub array: Configuration,
    /// Secrets.
    pub secrets: Secrets,
}

/// What a change has to know that the configuration does not.
pub trait View {
    /// The conditions under which a LUN number may go to another volume, without the numbers that
    /// sessions hold: looking for those takes longer.
    fn rest(&self) -> Rest<'static>;

    /// The LUN numbers that sessions hold, or held until a short while ago.
    fn held(&self) -> Vec<HeldLun>;

    /// The volume or snapshot of that name.
    ///
    /// # Errors
    /// Why there is none to be had.
    fn volume(&self, pool: &str, name: &str) -> Result<VolumeId, Problem>;

    /// 'volume POOL/NAME', as messages name it.
    fn name_of(&self, volume: VolumeId) -> String;

    /// Portals that were given to the daemon at its start; no change touches them.
    fn fixed_portals(&self) -> Portals;

    /// Opens an address, so that one where nobody can listen is not saved. It is closed again if the
    /// change is refused.
    ///
    /// # Errors
    /// Why nobody can listen there.
    fn listen(&self, address: SocketAddr) -> Result<(), String>;
}

/// Something to be changed about the configuration.
pub trait ConfigurationChange {
    /// Makes the change on a draft. `now` is in seconds since 1970.
    ///
    /// # Errors
    /// Why it cannot be made; the draft is to be thrown away then.
    fn apply(&self, draft: &mut Draft, now: u64, view: &dyn View) -> Result<Applied, Problem>;
}

/// A change that a draft has taken, and what follows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Applied {
    /// Whose LUNs are others than before.
    pub touched: Touched,
    /// To be performed, in order, when the draft is saved and in effect.
    pub effects: Vec<Effect>,
    /// To be performed if it cannot be saved.
    pub unsaved: Vec<Effect>,
    /// What whoever asked is answered after that.
    pub answer: Answer,
}

impl Applied {
    /// A change without effects.
    pub const fn new(touched: Touched, answer: Answer) -> Self {
        Self { touched, effects: Vec::new(), unsaved: Vec::new(), answer }
    }

    /// The same with effects.
    #[must_use]
    pub fn with(self, effects: Vec<Effect>) -> Self {
        Self { effects, ..self }
    }
}

/// What is answered to a change. Objects of which a pool knows the most are described by the server,
/// as they are when the change is in effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// This, in the form of the interface; null where there is nothing to say.
    Written(serde_json::Value),
    /// The pool of that name.
    Pool(String),
    /// A volume, or a snapshot shown as one.
    Volume(Place),
    /// A snapshot.
    Snapshot(Place),
}

/// Where a volume or snapshot is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The name of its pool.
    pub pool: String,
    /// Its identifier.
    pub id: VolumeId,
}

impl Answer {
    /// It is done, and there is nothing to say.
    pub const DONE: Self = Self::Written(serde_json::Value::Null);

    /// A value of the interface.
    ///
    /// # Errors
    /// When it cannot be written as JSON.
    pub fn of(value: &impl Serialize) -> Result<Self, Problem> {
        serde_json::to_value(value).map(Self::Written).map_err(|error| internal(&error))
    }
}

/// Whose LUNs are others than before.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Touched {
    /// Everybody sees what they saw before.
    #[default]
    Nobody,
    /// Hosts, groups and [`array::ANY_HOST`].
    Names(BTreeSet<String>),
    /// Everybody may see something else.
    All,
}

impl Touched {
    /// One host, group or [`array::ANY_HOST`].
    pub fn one(name: &str) -> Self {
        Self::Names(BTreeSet::from([name.to_owned()]))
    }

    /// Their initiators by `array`, in which the change is in effect; `None` for everybody.
    pub fn initiators<'a>(&self, array: &'a Configuration) -> Option<HashSet<&'a str>> {
        let names = match self {
            Self::Nobody => return Some(HashSet::new()),
            Self::Names(names) => names,
            Self::All => return None,
        };
        let mut initiators = HashSet::new();
        for name in names {
            let hosts = match array.host_groups.get(name) {
                Some(members) => members.iter().collect(),
                None => vec![name],
            };
            for host in hosts {
                // A name that is neither host nor group stands for everybody.
                let host = array.hosts.get(host)?;
                initiators.extend(host.initiators.iter().map(String::as_str));
            }
        }
        Some(initiators)
    }

    /// Everybody whom one of both touches.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::All, _) | (_, Self::All) => Self::All,
            (Self::Nobody, other) => other,
            (own, Self::Nobody) => own,
            (Self::Names(mut own), Self::Names(other)) => {
                own.extend(other);
                Self::Names(own)
            }
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
