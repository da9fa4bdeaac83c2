//! Passwords, kept as Argon2id hashes (RFC 9106).

use std::fmt;

use argon2::password_hash::phc;
use argon2::{Argon2, PasswordHasher, PasswordVerifier};
use hmac::{Hmac, KeyInit, Mac};
use serde::{Deserialize, Serialize};
use sha2::Sha256;

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

    /// A seal (HMAC-SHA-256) on some bytes that only who has this hash can make: it says that
    /// somebody gave the right password before, and is good for nothing once there is another one.
    pub fn seal(&self, bytes: &[u8]) -> [u8; 32] {
        let mac = Hmac::<Sha256>::new_from_slice(self.0.as_bytes());
        let mut mac = mac.expect("a key of HMAC has any length");
        mac.update(bytes);
        mac.finalize().into_bytes().into()
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
    fn a_seal_is_of_one_password_and_of_what_was_sealed() {
        let [one, same, other] = [[7; 16], [7; 16], [8; 16]]
            .map(|salt| PasswordHash::new("correct horse battery", &salt).unwrap());
        assert_eq!(one.seal(b"ann"), same.seal(b"ann"));
        assert_ne!(one.seal(b"ann"), one.seal(b"bob"));
        assert_ne!(one.seal(b"ann"), other.seal(b"ann"));
    }

    #[test]
    fn a_damaged_hash_fits_no_password() {
        assert!(!PasswordHash("$argon2id$".into()).is_of("correct horse battery"));
    }
}
