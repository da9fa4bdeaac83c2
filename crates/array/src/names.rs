//! Syntax of object names as people write them, such as POOL/VOLUME.

use std::fmt;
use std::str::FromStr;

use crate::ArrayError;
use crate::limits::NAME_BYTES_MAX;

/// Stands for every initiator, in a LUN map.
pub const ANY_HOST: &str = "any";

/// Checks the name of a pool, volume or host.
pub fn check_name(name: &str) -> Result<(), ArrayError> {
    let first_fits = name.starts_with(|c: char| c.is_ascii_alphanumeric());
    let rest_fits = name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c));
    if first_fits && rest_fits && name.len() <= NAME_BYTES_MAX {
        Ok(())
    } else {
        Err(ArrayError::InvalidName(name.to_owned()))
    }
}

/// A volume as people write it: POOL/NAME.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumePath {
    /// The pool's name.
    pub pool: String,
    /// The volume's name in the pool.
    pub volume: String,
}

impl FromStr for VolumePath {
    type Err = ArrayError;

    fn from_str(text: &str) -> Result<Self, ArrayError> {
        let invalid = || ArrayError::InvalidVolumePath(text.to_owned());
        let (pool, volume) = text.split_once('/').ok_or_else(invalid)?;
        check_name(pool)?;
        check_name(volume)?;
        Ok(Self { pool: pool.to_owned(), volume: volume.to_owned() })
    }
}

impl fmt::Display for VolumePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.pool, self.volume)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_keep_out_what_paths_and_shells_would_trip_over() {
        for name in ["a", "vol-1", "9.snap_2"] {
            assert_eq!(check_name(name), Ok(()));
        }
        for name in ["", ".", "-a", "a/b", "a b", "ü", &"x".repeat(64)] {
            assert!(check_name(name).is_err(), "{name}");
        }
    }
}
