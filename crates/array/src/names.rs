//! Syntax of object names as people write them, such as POOL/VOLUME.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

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

/// A device as people write it: file:PATH, block:PATH or memory:.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum DeviceName {
    /// A file on a file system of the machine.
    File(PathBuf),
    /// A block device.
    Block(PathBuf),
    /// Memory: gone when the daemon stops. For benchmarks.
    Memory,
}

impl FromStr for DeviceName {
    type Err = ArrayError;

    fn from_str(text: &str) -> Result<Self, ArrayError> {
        match text.split_once(':') {
            Some(("file", path)) if path.starts_with('/') => Ok(Self::File(path.into())),
            Some(("block", path)) if path.starts_with('/') => Ok(Self::Block(path.into())),
            Some(("memory", "")) => Ok(Self::Memory),
            _ => Err(ArrayError::InvalidDevice(text.to_owned())),
        }
    }
}

impl fmt::Display for DeviceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "file:{}", path.display()),
            Self::Block(path) => write!(f, "block:{}", path.display()),
            Self::Memory => f.write_str("memory:"),
        }
    }
}

impl TryFrom<String> for DeviceName {
    type Error = ArrayError;

    fn try_from(text: String) -> Result<Self, ArrayError> {
        text.parse()
    }
}

impl From<DeviceName> for String {
    fn from(name: DeviceName) -> Self {
        name.to_string()
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

    #[test]
    fn a_device_name_reads_back_as_written() {
        for text in ["file:/tmp/a b.img", "block:/dev/sdb", "memory:"] {
            assert_eq!(
                text.parse::<DeviceName>().map(|name| name.to_string()),
                Ok(text.to_owned())
            );
        }
        for text in ["", "file:", "file:relative", "memory:1G", "/dev/sdb", "rbd:a"] {
            assert!(text.parse::<DeviceName>().is_err(), "{text}");
        }
    }
}
