//! CHAP secrets of hosts and of discovery, kept apart from the configuration, so that a reader of
//! the configuration or of a copy learns none of them.

use std::collections::BTreeMap;
use std::fmt;

use imbl::ordmap::DiffItem;
use serde::{Deserialize, Serialize};

use crate::limits::{SECRET_BYTES_MAX, SECRET_BYTES_MIN};
use crate::{ArrayError, RecordKey, Table};

/// A secret. It is never shown: not in a log, not in an error, not by `{:?}`.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Secret(String);

impl Secret {
    /// Checks the length: RFC 7143 9.2.1 wants 96 bits, which is 12 bytes.
    ///
    /// # Errors
    /// When it has fewer than 12 or more than 255 bytes; the error does not contain it.
    pub fn new(secret: String) -> Result<Self, ArrayError> {
        match secret.len() {
            SECRET_BYTES_MIN..=SECRET_BYTES_MAX => Ok(Self(secret)),
            length => Err(ArrayError::SecretLength(length)),
        }
    }

    /// A password for another service, which decides itself how long it is: 1 to 255 bytes.
    ///
    /// # Errors
    /// When it is empty or too long; the error does not contain it.
    pub fn password(password: String) -> Result<Self, ArrayError> {
        match password.len() {
            1..=SECRET_BYTES_MAX => Ok(Self(password)),
            _ => Err(ArrayError::InvalidAlert("a password has 1 to 255 bytes")),
        }
    }

    /// The secret itself, for the one place that computes with it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// A CHAP name and its secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Credential {
    /// CHAP_N, 1 to 255 bytes.
    pub name: String,
    /// Secret from which CHAP_R is computed.
    pub secret: Secret,
}

/// CHAP account: the initiator's credential, and the target's for mutual CHAP.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Chap {
    /// The initiator's credential.
    pub initiator: Credential,
    /// The target's, for mutual CHAP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<Credential>,
}

impl Chap {
    /// Checks what no single secret shows.
    ///
    /// # Errors
    /// When both directions have the same secret (RFC 7143 9.2.1), or a name is empty or too long.
    pub fn check(&self) -> Result<(), ArrayError> {
        let names = std::iter::once(&self.initiator).chain(&self.target);
        if names.map(|credential| credential.name.len()).any(|length| !(1..=255).contains(&length))
        {
            return Err(ArrayError::InvalidChapName);
        }
        match &self.target {
            Some(target) if target.secret == self.initiator.secret => Err(ArrayError::SecretShared),
            _ => Ok(()),
        }
    }
}

/// All secrets of the array.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Secrets {
    /// By name of the host.
    pub hosts: Table<String, Chap>,
    /// For discovery sessions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub discovery: Option<Chap>,
    /// Accounts that came with a pool whose recovery key was not at hand, by name of the host: sealed as
    /// they were found, so that pools keep them.
    #[serde(default, skip_serializing_if = "Table::is_empty")]
    pub sealed: Table<String, String>,
    /// The account of discovery sessions, if it came so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sealed_discovery: Option<String>,
    /// Keys of signatures, by name of the webhook.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub webhooks: BTreeMap<String, Secret>,
    /// The password at the relay of e-mail.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mail: Option<Secret>,
}

/// An account of CHAP as the array has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeldAccount<'a> {
    /// Its secret is known.
    Known(&'a Chap),
    /// It came sealed with another key, and stays as it came.
    Sealed(&'a str),
}

impl Secrets {
    /// The account that a record of that key holds, if the array has it.
    pub fn account(&self, key: &RecordKey) -> Option<HeldAccount<'_>> {
        let (known, sealed) = match key {
            RecordKey::Host(name) => (self.hosts.get(name), self.sealed.get(name)),
            RecordKey::Array => (self.discovery.as_ref(), self.sealed_discovery.as_ref()),
            RecordKey::Owner
            | RecordKey::Pool(_)
            | RecordKey::Group(_)
            | RecordKey::Volume(_)
            | RecordKey::Unit(_)
            | RecordKey::Schedule(_)
            | RecordKey::Run(..) => return None,
        };
        let sealed = sealed.map(|sealed| HeldAccount::Sealed(sealed));
        known.map(HeldAccount::Known).or(sealed)
    }

    /// Hosts whose account is another one than before.
    pub fn hosts_changed_since(&self, before: &Self) -> impl Iterator<Item = String> {
        let accounts = before.hosts.diff(&self.hosts).map(|item| name_in(&item));
        accounts.chain(before.sealed.diff(&self.sealed).map(|item| name_in(&item)))
    }
}

/// The name of an entry that two tables do not have in common.
fn name_in<T>(item: &DiffItem<'_, '_, String, T>) -> String {
    match item {
        DiffItem::Add(name, _)
        | DiffItem::Remove(name, _)
        | DiffItem::Update { new: (name, _), .. } => (*name).clone(),
    }
}

#[cfg(test)]
mod tests;
