//! Alert receivers: webhooks and e-mail addresses to which events are sent.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::limits::{MAIL_RECEIVERS_MAX, URL_BYTES_MAX, WEBHOOKS_MAX};
use crate::{ArrayError, check_name};

/// All receivers of alerts. Secrets lie elsewhere.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Alerts {
    /// By name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub webhooks: BTreeMap<String, Webhook>,
    /// E-mail.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mail: Option<Mail>,
}

/// How bad an event must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AlertLevel {
    /// Everything is told.
    Information,
    /// Warnings and errors.
    Warning,
    /// Errors only.
    Error,
}

/// A program that is told by HTTP.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Webhook {
    /// Where it is.
    pub url: String,
    /// Which events are sent to it.
    pub level: AlertLevel,
    /// Whether its messages are signed; while this is set none goes out without the secret.
    #[serde(default)]
    pub signed: bool,
}

/// E-mail through a relay.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mail {
    /// Name or address, and port.
    pub relay: String,
    /// How the connection is encrypted.
    pub tls: MailTls,
    /// User name at the relay; while this is set no mail goes out without the password.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// The sender.
    pub from: String,
    /// The receivers.
    pub to: Vec<String>,
    /// Which events are sent to them.
    pub level: AlertLevel,
}

/// How the connection to a relay is encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MailTls {
    /// From the first byte.
    Tls,
    /// By STARTTLS.
    Starttls,
    /// Not at all.
    None,
}

impl Alerts {
    pub(super) fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// Checks everything that can be checked without asking anybody.
    ///
    /// # Errors
    /// Which receiver is not valid, and why.
    pub fn check(&self) -> Result<(), ArrayError> {
        if self.webhooks.len() > WEBHOOKS_MAX {
            return Err(ArrayError::TooMany { kind: "webhooks", max: WEBHOOKS_MAX });
        }
        for (name, webhook) in &self.webhooks {
            check_name(name)?;
            check_url(&webhook.url)?;
        }
        self.mail.as_ref().map_or(Ok(()), Mail::check)
    }
}

impl Mail {
    fn check(&self) -> Result<(), ArrayError> {
        self.relay_parts()?;
        if self.user.is_some() && self.tls == MailTls::None {
            return invalid("a password is never sent unencrypted: choose tls or starttls");
        }
        if self.user.as_ref().is_some_and(|user| user.is_empty() || user.len() > 255) {
            return invalid("the name of a user has 1 to 255 bytes");
        }
        if !(1..=MAIL_RECEIVERS_MAX).contains(&self.to.len()) {
            return invalid("e-mail has 1 to 32 receivers");
        }
        std::iter::once(&self.from).chain(&self.to).try_for_each(|address| check_address(address))
    }

    /// The relay's name and port.
    ///
    /// # Errors
    /// When it is not of the form NAME:PORT.
    pub fn relay_parts(&self) -> Result<(&str, u16), ArrayError> {
        let parts = self.relay.rsplit_once(':');
        let parts = parts.and_then(|(name, port)| Some((name, port.parse().ok()?)));
        let fits = |name: &str| {
            !name.is_empty()
                && name.chars().all(|c| c.is_ascii_alphanumeric() || "-.:[]".contains(c))
        };
        match parts {
            Some((name, port)) if port > 0 && fits(name) => Ok((name, port)),
            _ => invalid("a relay is written NAME:PORT, for example mail.example.org:587"),
        }
    }
}

fn check_url(url: &str) -> Result<(), ArrayError> {
    let rest = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"));
    let Some(rest) = rest else {
        return invalid("the URL of a webhook begins with http:// or https://");
    };
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if host.contains('@') {
        return invalid("the URL of a webhook has no user and password: use a secret");
    }
    if host.is_empty() || url.len() > URL_BYTES_MAX || !url.bytes().all(|b| b.is_ascii_graphic()) {
        return invalid("the URL of a webhook has a host, no blanks and 2048 bytes at most");
    }
    Ok(())
}

fn check_address(address: &str) -> Result<(), ArrayError> {
    let fits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_graphic());
    match address.rsplit_once('@') {
        Some((user, host)) if fits(user) && fits(host) && address.len() <= 254 => Ok(()),
        _ => invalid("an address of e-mail is written NAME@HOST"),
    }
}

fn invalid<T>(reason: &'static str) -> Result<T, ArrayError> {
    Err(ArrayError::InvalidAlert(reason))
}

#[cfg(test)]
mod tests;
