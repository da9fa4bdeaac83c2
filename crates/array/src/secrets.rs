//! CHAP secrets of hosts and of discovery, kept apart from the configuration, so that a reader of
//! the configuration or of a copy learns none of them.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::limits::{SECRET_BYTES_MAX, SECRET_BYTES_MIN};
use crate::{ArrayError, Table};

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
    /// Keys of signatures, by name of the webhook.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub webhooks: BTreeMap<String, Secret>,
    /// The password at the relay of e-mail.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mail: Option<Secret>,
}

#[cfg(test)]
mod tests;
