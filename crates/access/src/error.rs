//! Errors of user and token management: why a change is refused.

use thiserror::Error;

use crate::limits::{
    NAME_MAX, PARENTS_MAX, PASSWORD_BYTES_MAX, PASSWORD_BYTES_MIN, TOKEN_DAYS_MAX, TOKENS_MAX,
    USERS_MAX,
};

/// Why a change is refused; what to do about it is part of the text.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum AccessError {
    /// The name has a wrong length or character.
    #[error("'{0}' is no name: use 1 to {NAME_MAX} letters, digits, '.', '-' or '_'")]
    Name(String),
    /// The password is too short or too long.
    #[error(
        "the password has {0} bytes: use {PASSWORD_BYTES_MIN} to {PASSWORD_BYTES_MAX}, a sentence for example"
    )]
    PasswordLength(usize),
    /// The name is taken by another user.
    #[error("there is a user '{0}' already: choose another name")]
    Exists(String),
    /// It is not there.
    #[error("there is no user '{0}'")]
    NoUser(String),
    /// It is not there.
    #[error("there is no token '{0}'")]
    NoToken(String),
    /// The user was changed since the caller read it (`If-Match`).
    #[error("somebody else changed user '{0}' meanwhile: look again, then repeat")]
    Changed(String),
    /// The change would leave no administrator.
    #[error("'{0}' is the last administrator: give another user the role 'admin' first")]
    LastAdmin(String),
    /// `If-Match` for a user that does not exist.
    #[error("there is no user '{0}', so it is not the one that If-Match names: look again")]
    Gone(String),
    /// A token with more rights than its user.
    #[error(
        "a token allows no more than its user's role, and than the token by which it is made: choose that role or a lower one"
    )]
    TokenRole,
    /// A token that would last longer than the one by which it is made.
    #[error(
        "a token ends with the one by which it is made, here at {end} (seconds since 1970): choose fewer days, or none for just that"
    )]
    TokenTooLong {
        /// When the parent ends, seconds since 1970.
        end: u64,
    },
    /// A token made by a token made by a token, too often.
    #[error(
        "a token has at most {PARENTS_MAX} others before it, each made by the one before: make it with one of the first"
    )]
    TokenDepth,
    /// A token that another one may not delete.
    #[error(
        "a token deletes itself and those that were made by it: delete others with a password, or over the socket"
    )]
    TokenOfAnother,
    /// The days are out of range.
    #[error("a token expires in 1 to {TOKEN_DAYS_MAX} days, or never")]
    TokenDays,
    /// The old password is wrong.
    #[error("the old password is wrong: nothing was changed")]
    WrongPassword,
    /// The new password is the old one.
    #[error("the new password is the old one: choose another")]
    SamePassword,
    /// There are too many.
    #[error("there are {USERS_MAX} users, the most possible: delete one first")]
    TooManyUsers,
    /// There are too many.
    #[error("there are {TOKENS_MAX} tokens, the most possible: delete one first")]
    TooManyTokens,
    /// One user has too many.
    #[error("user '{user}' has {max} tokens, the most possible: delete one first")]
    TooManyTokensOfUser {
        /// The user.
        user: String,
        /// The limit.
        max: usize,
    },
}
