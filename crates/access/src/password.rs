//! Passwords, kept as Argon2id hashes (RFC 9106).

use std::fmt;

use argon2::password_hash::phc;
use argon2::{Argon2, PasswordHasher, PasswordVerifier};
use serde::{Deserialize, Serialize};

use crate::AccessError;
use crate::limits::{PASSWORD_BYTES_MAX, PASSWORD_BYTES_MIN};

/// A password that can be compared, but not read back. Making or comparing one takes tens of
/// milliseconds and 19 MiB by design.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PasswordHash(String);

impl PasswordHash {
    /// The hash of a password with 16 random bytes of salt.
    ///
    /// # Errors
    /// When the password is shorter than 10 or longer than 128 bytes.
    pub fn new(password: &str, salt: &[u8; 16]) -> Result<Self, AccessError> {
        if !(PASSWORD_BYTES_MIN..=PASSWORD_BYTES_MAX).contains(&password.len()) {
            return Err(AccessError::PasswordLength(password.len()));
        }
        let hash = Argon2::default().hash_password_with_salt(password.as_bytes(), salt);
        let hash: phc::PasswordHash = hash.expect("the salt and the default parameters are valid");
        Ok(Self(hash.to_string()))
    }

    /// Whether it is of this password.
    pub fn is_of(&self, password: &str) -> bool {
        let hash = phc::PasswordHash::new(&self.0);
        password.len() <= PASSWORD_BYTES_MAX
            && hash.is_ok_and(|hash| {
                Argon2::default().verify_password(password.as_bytes(), &hash).is_ok()
            })
    }
}

impl fmt::Debug for PasswordHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_recognised_and_never_shown() {
        let hash = PasswordHash::new("correct horse battery", &[7; 16]).unwrap();
        assert!(hash.is_of("correct horse battery"));
        assert!(!hash.is_of("correct horse batterz"));
        assert!(!hash.is_of(""));
        assert!(!hash.is_of(&"x".repeat(1 << 20)));
        assert!(hash.0.starts_with("$argon2id$v=19$"));
        assert_eq!(format!("{hash:?}"), "***");
    }

    #[test]
    fn passwords_that_are_too_short_or_too_long_are_refused() {
        for length in [0, 9, 129] {
            let password = "x".repeat(length);
            let refused = PasswordHash::new(&password, &[7; 16]);
            assert_eq!(refused, Err(AccessError::PasswordLength(length)));
        }
    }

    #[test]
    fn a_damaged_hash_fits_no_password() {
        assert!(!PasswordHash("$argon2id$".into()).is_of("correct horse battery"));
    }
}
