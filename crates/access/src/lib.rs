//! Authentication and authorisation of administrators: users with passwords, tokens, browser
//! sessions, and throttling of password guesses. All are values that check their own changes; time
//! and random bytes are handed in.
#![forbid(unsafe_code)]

mod error;
mod limiter;
mod limits;
mod password;
mod sessions;
mod users;

pub use error::AccessError;
pub use limiter::{Attempt, Limiter};
pub use limits::{PASSWORD_BYTES_MAX, PASSWORD_BYTES_MIN, SECRET_BYTES};
pub use password::PasswordHash;
pub use sessions::{BrowserSession, BrowserSessions};
pub use users::{Identity, NewTokenSpec, Users, Via};
