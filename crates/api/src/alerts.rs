//! Types for alert receivers and deliveries.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::events::Severity;
use crate::types::Secret;

/// Everybody who is told of events.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Alerts {
    /// At most 16.
    #[serde(default)]
    pub webhooks: Vec<Webhook>,
    /// E-mail.
    #[serde(default)]
    pub mail: Option<Mail>,
}

/// A program that is told by an HTTP POST of [`AlertMessage`].
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Webhook {
    /// 1 to 63 letters, digits, '-', '_', '.'.
    #[schema(min_length = 1, max_length = 63, pattern = "^[A-Za-z0-9][A-Za-z0-9._-]*$")]
    pub name: String,
    /// http:// or https://, without a user and a password. Redirections are not followed.
    pub url: String,
    /// Events as bad as this or worse are told.
    pub severity: Severity,
    /// The key of the signature: 12 to 255 bytes. Never shown; when left out, one that was set
    /// before stays.
    #[serde(default)]
    pub secret: Option<Secret>,
    /// Whether messages are signed. If false is sent, a secret that was set before is forgotten.
    #[serde(default)]
    pub signed: Option<bool>,
}

/// E-mail through a relay.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Mail {
    /// The relay's name or address, and port: 'mail.example.org:587'.
    pub relay: String,
    /// How the connection is encrypted.
    pub tls: MailTls,
    /// Who logs in at the relay; nobody when left out.
    #[serde(default)]
    pub user: Option<String>,
    /// Never shown; when left out, one that was set before stays, unless relay, encryption or user
    /// are different.
    #[serde(default)]
    pub password: Option<Secret>,
    /// The sender's address.
    pub from: String,
    /// The receivers' addresses, 1 to 32.
    pub to: Vec<String>,
    /// Events as bad as this or worse are told.
    pub severity: Severity,
}

/// How the connection to a relay is encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum MailTls {
    /// From the first byte, usually on port 465.
    Tls,
    /// By STARTTLS, usually on port 587; without it nothing is sent.
    Starttls,
    /// Not at all; then nobody can log in.
    None,
}

/// What is posted to a webhook.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AlertMessage {
    /// The target's iSCSI name, which tells arrays apart.
    pub array: String,
    /// The event's number; 0 in a test.
    pub number: u64,
    /// Seconds since 1970.
    pub time: u64,
    /// How bad it is.
    pub severity: Severity,
    /// What it is about.
    pub object: String,
    /// A sentence.
    pub message: String,
    /// Whether it is only a test.
    pub test: bool,
}

/// An attempt to tell somebody.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Delivery {
    /// Seconds since 1970.
    pub time: u64,
    /// 'webhook NAME' or 'mail'.
    pub receiver: String,
    /// The event's number; 0 in a test.
    pub event: u64,
    /// Whether the receiver took it.
    pub ok: bool,
    /// Why not, and whether it is tried again.
    pub detail: String,
}
