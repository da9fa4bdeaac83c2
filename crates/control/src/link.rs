//! Protocol of the link between controllers, without I/O: messages as lines of JSON, the one-time code
//! that pairs two controllers, and what is known of a peer by what it said last.
//!
//! The link decides nothing: what a peer says is told to hosts and administrators. Who has a pool is
//! decided by the pool's devices.

mod code;

use core::net::SocketAddr;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use api::{PathState, Problem};
use serde::{Deserialize, Serialize};

pub use code::{Attempt, Fingerprint, Pairing, PairingCode, Secret, check_address};

use crate::limits::{
    LINK_ADDRESS_BYTES_MAX, LINK_GONE_MAX, LINK_HOSTS_MAX, LINK_NUMBER_MAX, LINK_PORTALS_MAX,
    LINK_SILENCE, LINK_VERSION_BYTES_MAX,
};
use crate::turns::TurnReport;

/// The version of the protocol that this program speaks. A peer with another one is told apart by its
/// reports; what both know works.
pub const PROTOCOL: u32 = 1;

/// What one controller says to another: one line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "message", rename_all = "snake_case")]
pub enum Message {
    /// How it is: sent by whoever connected, and answered with the same of the other.
    Report(Box<Report>),
    /// A controller that is not known yet wants to be, by a code.
    Join(Join),
    /// It is known from now on, to the controller of that number.
    Joined {
        /// The number of the one that answers.
        number: u16,
    },
    /// It is not, or is not heard.
    Refused {
        /// Why, in a sentence.
        reason: String,
    },
    /// A request of an administrator's that the other one is to answer, alone on its connection.
    Call(Box<Call>),
    /// The other one is to tell its users and tokens, as [`Message::Answered`]; alone on its connection, too.
    Users,
    /// The process of the controller has ended that had this life: a process beside it says so, alone on its
    /// connection.
    Ended {
        /// As in its reports.
        life: u64,
    },
    /// The answer to a call or to that: JSON of so many bytes, which follows the line.
    Answered {
        /// How many.
        bytes: u64,
    },
    /// The other answer to a call: why it was not done.
    Declined {
        /// As the administrator is told.
        problem: Box<Problem>,
    },
}

/// A request of an administrator's, by the row of the table of routes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Call {
    /// The array that it is about: the same for all of its controllers.
    pub array: String,
    /// The HTTP method.
    pub method: String,
    /// The path, with the names of its parameters in braces.
    pub path: String,
    /// Parameters of path and query, and who asks.
    pub parameters: BTreeMap<String, String>,
    /// The body: JSON, or nothing.
    pub body: String,
    /// Which version of the object is meant (`If-Match`).
    #[serde(default)]
    pub if_match: Option<String>,
    /// That there must be none (`If-None-Match`).
    #[serde(default)]
    pub if_none_match: Option<String>,
}

/// How a controller is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// [`PROTOCOL`] of its program.
    pub protocol: u32,
    /// The array that it serves: the same for all of its controllers.
    pub array: String,
    /// Its number.
    pub number: u16,
    /// The version of its program.
    pub version: String,
    /// Drawn when it started.
    pub life: u64,
    /// Rises with each report of one life that says something else.
    pub sequence: u64,
    /// Its iSCSI portals, each with its target portal group.
    pub portals: BTreeMap<SocketAddr, u16>,
    /// What it tells hosts of the volumes of each pool (ALUA), by the pool's identifier.
    pub pools: BTreeMap<String, PathState>,
    /// Pools that it serves, by name, as its configuration has them ([`crate::pool_learning`]). Earlier
    /// programs say nothing of it, and later ones may say of a pool what this one does not know.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub configured: BTreeMap<String, serde_json::Value>,
    /// What it would take; absent in reports of programs that do not say it.
    #[serde(default)]
    pub readiness: Option<Readiness>,
    /// Pools that it deletes or gives away, or has since it was started, by identifier: others forget them.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub gone: BTreeSet<String>,
    /// Of pools that it serves, by identifier: records that somebody has not heard yet
    /// ([`crate::record_telling`]).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub records: BTreeMap<String, RecordPage>,
    /// Of pools that others serve, by identifier: how far it has heard of their records; `None` if it does
    /// not listen: it is opening a pool or giving one up, or its program knows nothing of it.
    #[serde(default)]
    pub heard: Option<BTreeMap<String, Mark>>,
    /// Whether it answers a [`Call`]; earlier programs know of none.
    #[serde(default)]
    pub takes_calls: bool,
    /// By which another one sees whether it knows the same users and tokens; absent in reports of programs
    /// that do not tell them.
    #[serde(default)]
    pub users: Option<String>,
    /// Whose turn it is to change the configuration ([`crate::turns`]); absent in reports of programs that know
    /// no turns.
    #[serde(default)]
    pub turns: Option<TurnReport>,
}

/// Some of a pool's records, in the order in which they changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordPage {
    /// Drawn when the pool was opened: places in the order are those of one opening.
    pub opening: u64,
    /// The place behind which they begin.
    pub after: u64,
    /// The place of the last one.
    pub to: u64,
    /// Whether nothing else has changed since.
    pub is_last: bool,
    /// The version of the configuration.
    pub version: u64,
    /// Their texts, as in the pool.
    pub records: Vec<String>,
    /// The version of the configuration that each was written with; none in reports of earlier programs.
    #[serde(default)]
    pub versions: Vec<u64>,
    /// Numbers of the volumes that they are about, and how many bytes these have.
    pub sizes: Vec<(u64, u64)>,
}

/// A place in the order of a pool's records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mark {
    /// The opening whose order it is.
    pub opening: u64,
    /// The place.
    pub to: u64,
}

/// Which pools a controller would take that another one lets go. Pools are named by their identifiers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Readiness {
    /// Whether it is in maintenance, so that it takes none.
    #[serde(default)]
    pub maintenance: bool,
    /// Those that another one has, and of which it reached every device at its last try.
    #[serde(default)]
    pub reaches: BTreeSet<String>,
    /// Those that an administrator gave away there, since it was started.
    #[serde(default)]
    pub given_away: BTreeSet<String>,
    /// Initiators that have sessions there ([`crate::following::digest_of_host`]); `None` if they are too many, or
    /// its program does not say it.
    #[serde(default)]
    pub hosts: Option<BTreeSet<u32>>,
}

/// What a controller shows to be known.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Join {
    /// Of the code.
    pub secret: Secret,
    /// The array that it serves.
    pub array: String,
    /// Its number.
    pub number: u16,
    /// Where it listens for links: HOST:PORT; `None` if it does not.
    pub address: Option<String>,
}

/// Reads a line.
///
/// # Errors
/// A sentence, when it is no message, or has more or longer parts than a message may have.
pub fn parse(line: &[u8]) -> Result<Message, String> {
    let message: Message = serde_json::from_slice(line)
        .map_err(|error| format!("it is no message of a controller: {error}"))?;
    match &message {
        Message::Report(report) => report.check()?,
        Message::Join(join) => {
            check_number(join.number)?;
            check_text(&join.array)?;
            join.address.as_deref().map_or(Ok(()), check_address)?;
        }
        Message::Joined { number } => check_number(*number)?,
        Message::Refused { reason } => check_text(reason)?,
        Message::Call(call) => check_text(&call.array)?,
        Message::Users
        | Message::Ended { .. }
        | Message::Answered { .. }
        | Message::Declined { .. } => {}
    }
    Ok(message)
}

/// Writes a line, with its end.
pub fn emit(message: &Message) -> Vec<u8> {
    let mut line = serde_json::to_vec(message).expect("its keys are texts");
    line.push(b'\n');
    line
}

impl Report {
    fn check(&self) -> Result<(), String> {
        check_number(self.number)?;
        check_text(&self.array)?;
        if self.version.len() > LINK_VERSION_BYTES_MAX || self.version.chars().any(char::is_control)
        {
            return Err("it has a version that is none".to_owned());
        }
        let is_portal = |(address, group): (&SocketAddr, &u16)| {
            *group > 0 && address.port() > 0 && !address.ip().is_unspecified()
        };
        if self.portals.len() > LINK_PORTALS_MAX || !self.portals.iter().all(is_portal) {
            return Err("it has portals that are none, or too many".to_owned());
        }
        if self.pools.len() > array::limits::POOLS_MAX {
            return Err("it has too many pools".to_owned());
        }
        if self.configured.len() > array::limits::POOLS_MAX {
            return Err("it describes too many pools".to_owned());
        }
        let heard = self.heard.iter().flatten().map(|(pool, _)| pool);
        if self.records.len().max(heard.clone().count()) > array::limits::POOLS_MAX {
            return Err("it has records of too many pools".to_owned());
        }
        if self.gone.len() > LINK_GONE_MAX {
            return Err("it has given away too many pools".to_owned());
        }
        let records = self.records.keys().chain(heard).chain(&self.gone);
        let mut names = self.pools.keys().chain(self.configured.keys()).chain(records);
        names.try_for_each(|name| check_text(name))?;
        self.users.as_deref().map_or(Ok(()), check_text)?;
        self.readiness.as_ref().map_or(Ok(()), Readiness::check)
    }
}

impl Readiness {
    fn check(&self) -> Result<(), String> {
        if self.reaches.len().max(self.given_away.len()) > array::limits::POOLS_MAX {
            return Err("it has too many pools".to_owned());
        }
        if self.hosts.as_ref().is_some_and(|hosts| hosts.len() > LINK_HOSTS_MAX) {
            return Err("it has too many hosts".to_owned());
        }
        self.reaches.iter().chain(&self.given_away).try_for_each(|pool| check_text(pool))
    }
}

fn check_number(number: u16) -> Result<(), String> {
    match number {
        1..=LINK_NUMBER_MAX => Ok(()),
        _ => Err(format!("a controller has a number from 1 to {LINK_NUMBER_MAX}")),
    }
}

fn check_text(text: &str) -> Result<(), String> {
    if text.len() <= LINK_ADDRESS_BYTES_MAX && !text.chars().any(char::is_control) {
        return Ok(());
    }
    Err("it has a text that is too long, or has control characters".to_owned())
}

/// What is known of other controllers.
#[derive(Clone, Debug, Default)]
pub struct Peers {
    heard: BTreeMap<u16, Heard>,
}

#[derive(Clone, Debug)]
struct Heard {
    at: Duration,
    report: Report,
}

impl Peers {
    /// A controller said how it is, now. What is older than what it said before is not taken, and shows
    /// that it lives. Returns whether it says something else than before.
    pub fn hear(&mut self, report: Report, now: Duration) -> bool {
        let Some(heard) = self.heard.get_mut(&report.number) else {
            self.heard.insert(report.number, Heard { at: now, report });
            return true;
        };
        heard.at = now;
        let known = &heard.report;
        let is_new = report.life != known.life || report.sequence > known.sequence;
        if is_new {
            heard.report = report;
        }
        is_new
    }

    /// What a controller said last, if that is not long ago.
    pub fn report(&self, number: u16, now: Duration) -> Option<&Report> {
        let heard = self.heard.get(&number)?;
        (now.saturating_sub(heard.at) < LINK_SILENCE).then_some(&heard.report)
    }

    /// When it was last heard, and what it said then, however long ago.
    pub fn last(&self, number: u16) -> Option<(Duration, &Report)> {
        self.heard.get(&number).map(|heard| (heard.at, &heard.report))
    }

    /// Nothing is known of it any more.
    pub fn forget(&mut self, number: u16) {
        self.heard.remove(&number);
    }
}

#[cfg(test)]
mod tests;
