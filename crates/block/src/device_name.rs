//! Device names as administrators write them (`file:PATH`), and the table of device kinds that they
//! are read by. Names are data: how a kind is opened and served is in the room `device`.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use thiserror::Error;

/// One row of the table: what is known of a kind of device without opening one.
struct Row {
    /// What stands before the colon.
    prefix: &'static str,
    /// Whether a path follows the colon, or nothing.
    has_path: bool,
    /// Whether two names that are the same are the same device, which then belongs to one pool.
    is_one_place: bool,
    /// What it is for, after 'for'.
    purpose: &'static str,
}

/// Makes the enumeration of the kinds and the table of their rows, in one order.
macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident: $row:expr,)+) => {
        /// A kind of device. The order is that of the table, and of advice to administrators.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum DeviceKind {
            $($(#[$doc])* $kind,)+
        }

        impl DeviceKind {
            /// All kinds.
            pub const ALL: &'static [Self] = &[$(Self::$kind,)+];
        }

        const ROWS: &[Row] = &[$($row,)+];
    };
}

kinds! {
    /// A file on a file system of the machine.
    File: Row { prefix: "file", has_path: true, is_one_place: true, purpose: "a file" },
    /// A block device of the machine.
    Block: Row { prefix: "block", has_path: true, is_one_place: true, purpose: "a block device" },
    /// Memory: gone when the daemon stops. For benchmarks and tests.
    Memory: Row {
        prefix: "memory",
        has_path: false,
        is_one_place: false,
        purpose: "a pool that is lost when the daemon stops",
    },
}

impl DeviceKind {
    fn row(self) -> &'static Row {
        &ROWS[self as usize]
    }

    /// How a device of this kind is written: `file:PATH`.
    pub fn form(self) -> String {
        let Row { prefix, has_path, .. } = self.row();
        format!("{prefix}:{}", if *has_path { "PATH" } else { "" })
    }

    /// The form and what it is for: `file:PATH for a file`.
    pub fn advice(self) -> String {
        format!("{} for {}", self.form(), self.row().purpose)
    }

    /// Whether two names that are the same are the same device, which then belongs to one pool.
    pub fn is_one_place(self) -> bool {
        self.row().is_one_place
    }
}

/// All forms, as a sentence lists them: `file:PATH, block:PATH or memory:`.
pub fn device_forms() -> String {
    listed(DeviceKind::ALL.iter().map(|kind| kind.form()).collect(), " or ")
}

fn listed(mut items: Vec<String>, before_last: &str) -> String {
    let last = items.pop().unwrap_or_default();
    if items.is_empty() { last } else { format!("{}{before_last}{last}", items.join(", ")) }
}

/// A device as administrators write it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DeviceName {
    kind: DeviceKind,
    /// Empty for a kind without a path.
    path: PathBuf,
}

impl DeviceName {
    /// The device of that kind at `path`, which is left out of the name of a kind without paths.
    pub fn new(kind: DeviceKind, path: impl Into<PathBuf>) -> Self {
        Self { kind, path: if kind.row().has_path { path.into() } else { PathBuf::new() } }
    }

    /// What kind of device it is.
    pub fn kind(&self) -> DeviceKind {
        self.kind
    }

    /// Where it is; empty for a kind without paths.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The path in `text`, which may be a name or a path alone; nothing is asked of either.
    pub fn path_in(text: &str) -> &Path {
        let named = ROWS.iter().filter(|row| row.has_path).find_map(|row| rest(text, row));
        Path::new(named.unwrap_or(text))
    }
}

/// What follows the prefix and its colon.
fn rest<'a>(text: &'a str, row: &Row) -> Option<&'a str> {
    text.strip_prefix(row.prefix)?.strip_prefix(':')
}

impl FromStr for DeviceName {
    type Err = InvalidDeviceName;

    fn from_str(text: &str) -> Result<Self, InvalidDeviceName> {
        let named = DeviceKind::ALL.iter().find_map(|&kind| Some((kind, rest(text, kind.row())?)));
        let fits = |&(kind, path): &(DeviceKind, &str)| {
            if kind.row().has_path { path.starts_with('/') } else { path.is_empty() }
        };
        let (kind, path) = named.filter(fits).ok_or_else(|| InvalidDeviceName(text.to_owned()))?;
        Ok(Self::new(kind, path))
    }
}

impl fmt::Display for DeviceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.kind.row().prefix, self.path.display())
    }
}

/// A text that names no device.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("'{0}' does not name a device: write {advice}", advice = advice())]
pub struct InvalidDeviceName(pub String);

fn advice() -> String {
    listed(DeviceKind::ALL.iter().map(|kind| kind.advice()).collect(), ", or ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_name_reads_back_as_written() {
        for text in ["file:/tmp/a b.img", "block:/dev/sdb", "memory:"] {
            let name = text.parse::<DeviceName>().map(|name| name.to_string());
            assert_eq!(name, Ok(text.to_owned()));
        }
        for text in ["", "file:", "file:relative", "file", "memory:1G", "/dev/sdb", "rbd:a"] {
            assert!(text.parse::<DeviceName>().is_err(), "{text}");
        }
    }

    #[test]
    fn every_kind_reads_back_and_no_prefix_stands_twice() {
        for &kind in DeviceKind::ALL {
            let name = DeviceName::new(kind, "/a:b");
            assert_eq!(name.to_string().parse(), Ok(name.clone()));
            let same = ROWS.iter().filter(|row| row.prefix == kind.row().prefix).count();
            assert_eq!((name.kind(), same), (kind, 1));
        }
    }

    #[test]
    fn whoever_writes_no_device_is_told_all_forms() {
        assert_eq!(device_forms(), "file:PATH, block:PATH or memory:");
        assert_eq!(
            InvalidDeviceName("x".to_owned()).to_string(),
            "'x' does not name a device: write file:PATH for a file, block:PATH for a block \
             device, or memory: for a pool that is lost when the daemon stops"
        );
    }

    #[test]
    fn a_path_may_be_written_with_or_without_its_kind() {
        let cases = [("file:/a", "/a"), ("block:b", "b"), ("/a:b", "/a:b"), ("memory:", "memory:")];
        for (text, path) in cases {
            assert_eq!(DeviceName::path_in(text), Path::new(path));
        }
    }
}
