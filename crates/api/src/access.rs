//! Types for users, roles, tokens and the audit log.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What a user may do; each role may do what those before it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// See everything but users, tokens and the audit log.
    Viewer,
    /// Make, change and delete volumes, snapshots, hosts and maps too.
    Operator,
    /// Everything.
    Admin,
}

impl Role {
    /// As it is written in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Viewer => "viewer",
            Self::Operator => "operator",
            Self::Admin => "admin",
        }
    }
}

/// Name and password, for a session in a browser.
#[derive(Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Login {
    /// The user's name.
    pub user: String,
    /// The password.
    pub password: String,
}

/// Who is asking.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Me {
    /// The user's name; `local` for whoever may open the daemon's socket.
    pub user: String,
    /// What may be done.
    pub role: Role,
    /// Goes with every change in the header `X-Gantry-Csrf`; only for a session in a browser.
    #[serde(default)]
    pub csrf: Option<String>,
    /// Whether nothing else is allowed before the password was changed.
    pub must_change_password: bool,
}

/// A new password for oneself.
#[derive(Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ChangePassword {
    /// The password so far.
    pub old: String,
    /// The new one, 10 to 128 bytes.
    #[schema(min_length = 10, max_length = 128)]
    pub new: String,
}

/// Somebody who may use the management interface.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct User {
    /// 1 to 63 characters.
    pub name: String,
    /// What the user may do.
    pub role: Role,
    /// Whether nothing else is allowed before the password was changed.
    pub must_change_password: bool,
    /// Seconds since 1970.
    pub created: u64,
}

/// A new user.
#[derive(Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateUser {
    /// 1 to 63 letters, digits, dots, hyphens or underscores.
    #[schema(min_length = 1, max_length = 63, pattern = "^[A-Za-z0-9._-]+$")]
    pub name: String,
    /// What the user may do.
    pub role: Role,
    /// 10 to 128 bytes.
    #[schema(min_length = 10, max_length = 128)]
    pub password: String,
    /// Whether the user must choose another password before anything else; true if left out.
    #[serde(default = "yes")]
    pub must_change_password: bool,
}

fn yes() -> bool {
    true
}

/// Another role or password for a user; what is absent stays.
#[derive(Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ChangeUser {
    /// What the user may do.
    #[serde(default)]
    pub role: Option<Role>,
    /// 10 to 128 bytes; the user's sessions and tokens end.
    #[schema(min_length = 10, max_length = 128)]
    #[serde(default)]
    pub password: Option<String>,
    /// Whether the user must choose another password before anything else; true if left out with a
    /// new password.
    #[serde(default)]
    pub must_change_password: Option<bool>,
}

/// What a program shows instead of a password: `Authorization: Bearer SECRET`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Token {
    /// 16 hexadecimal digits.
    pub id: String,
    /// What it is for.
    pub name: String,
    /// Whose it is.
    pub user: String,
    /// What it allows; never more than its user's role.
    pub role: Role,
    /// Seconds since 1970.
    pub created: u64,
    /// Seconds since 1970; absent if it does not expire.
    #[serde(default)]
    pub expires: Option<u64>,
    /// The identifier of the token by which it was made, and with which it ends.
    #[serde(default)]
    pub parent: Option<String>,
}

/// A new token.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateToken {
    /// What it is for, 1 to 63 letters, digits, dots, hyphens or underscores.
    #[schema(min_length = 1, max_length = 63, pattern = "^[A-Za-z0-9._-]+$")]
    pub name: String,
    /// What it allows; no more than its user's role, and than the token by which it is made.
    pub role: Role,
    /// 1 to 3,650; absent if it does not expire, or, of one that is made by another token, ends when
    /// that one does.
    #[schema(minimum = 1, maximum = 3650)]
    #[serde(default)]
    pub expires_in_days: Option<u32>,
}

/// A token that was made.
#[derive(Clone, Serialize, Deserialize, ToSchema)]
pub struct NewToken {
    /// The token.
    #[serde(flatten)]
    pub token: Token,
    /// What to show; it is told this once.
    pub secret: String,
}

/// A change that somebody asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AuditEntry {
    /// Counted from the beginning of the log, from 1.
    #[serde(default)]
    pub number: u64,
    /// Seconds since 1970.
    pub time: u64,
    /// Who; empty if that was not found out.
    pub user: String,
    /// `socket`, `session` or `token`; `password` of a login; `controller` of what another controller
    /// of the array has handed on; `array` of what the array did by itself.
    pub via: String,
    /// The address it came from; empty for the socket; the number of a controller.
    pub source: String,
    /// The HTTP method.
    pub method: String,
    /// The path.
    pub path: String,
    /// The HTTP status of the answer.
    pub status: u16,
}
