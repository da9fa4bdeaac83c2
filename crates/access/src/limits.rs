//! Every limit of this room.

/// Bytes of a password at least.
pub const PASSWORD_BYTES_MIN: usize = 10;

/// Bytes of a password at most; hashing more would let a guesser waste our time.
pub const PASSWORD_BYTES_MAX: usize = 128;

/// Random bytes in a token or in the cookie of a session.
pub const SECRET_BYTES: usize = 32;

/// Users at most.
pub(crate) const USERS_MAX: usize = 256;

/// Tokens at most.
pub(crate) const TOKENS_MAX: usize = 1024;

/// Characters of a name at most.
pub(crate) const NAME_MAX: usize = 63;

/// Days that a token may be good for.
pub(crate) const TOKEN_DAYS_MAX: u32 = 3650;

/// Sessions of browsers at most; the one unused longest makes room.
pub(crate) const SESSIONS_MAX: usize = 1024;

/// Seconds after which a session that is not used ends.
pub(crate) const SESSION_IDLE_SECONDS: u64 = 3600;

/// Seconds after which every session ends.
pub(crate) const SESSION_SECONDS: u64 = 12 * 3600;

/// Wrong passwords in a row that cost no time.
pub(crate) const FAILURES_FREE: u32 = 5;

/// Seconds to wait at most after a wrong password.
pub(crate) const WAIT_SECONDS_MAX: u64 = 300;

/// Seconds after the last wrong password when all is forgotten.
pub(crate) const FAILURES_FORGOTTEN_SECONDS: u64 = 3600;

/// Sources and users that are remembered for wrong passwords; the oldest makes room.
pub(crate) const FAILURES_MAX: usize = 4096;
