//! Limits of users, tokens, sessions and password guesses, and what happens beyond each.

/// Bytes of a password at least.
pub const PASSWORD_BYTES_MIN: usize = 10;

/// Bytes of a password at most; hashing more would let a guesser waste our time.
pub const PASSWORD_BYTES_MAX: usize = 128;

/// Random bytes in a token or in the cookie of a session.
pub const SECRET_BYTES: usize = 32;

/// Users at most.
pub(crate) const USERS_MAX: usize = 256;

/// Tokens at most; one more is refused. All users but administrators together have at most 8,160 of
/// them, so they leave administrators theirs.
pub(crate) const TOKENS_MAX: usize = 16_384;

/// Tokens of a user who is no administrator at most; one more is refused.
pub(crate) const TOKENS_PER_USER_MAX: usize = 32;

/// Tokens of an administrator at most, those made over the socket included; one more is refused.
pub(crate) const TOKENS_PER_ADMIN_MAX: usize = 1024;

/// Tokens by which a token can have been made, one by another; a further one is refused.
pub(crate) const PARENTS_MAX: usize = 8;

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

/// Wrong passwords for one user from one address, or of one browser, that cost no time.
pub(crate) const PAIR_FAILURES_FREE: u32 = 5;

/// Wrong passwords from one address, for whatever users, that cost no time.
pub(crate) const ADDRESS_FAILURES_FREE: u32 = 20;

/// Wrong passwords for one user, from whatever addresses, that cost no time. One address alone does
/// not get so far: it waits long before.
pub(crate) const USER_FAILURES_FREE: u32 = 50;

/// Seconds to wait at most after a wrong password, for one user from one address and for an address.
pub(crate) const WAIT_SECONDS_MAX: u64 = 300;

/// Seconds to wait at most for a user whose password is guessed from many addresses: short, so that
/// the right one has a chance from a new address, too.
pub(crate) const USER_WAIT_SECONDS_MAX: u64 = 30;

/// Seconds after the last wrong password when all is forgotten.
pub(crate) const FAILURES_FORGOTTEN_SECONDS: u64 = 3600;

/// Counters of each kind that are remembered: pairs of a user and an address, addresses, users. The
/// one with the fewest wrong passwords, the oldest of these, makes room.
pub(crate) const FAILURES_MAX: usize = 4096;

/// Addresses that are remembered of each user who logged in from them; the one unused longest makes
/// room.
pub(crate) const KNOWN_ADDRESSES_MAX: usize = 16;
