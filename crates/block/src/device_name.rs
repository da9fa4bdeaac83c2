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
    /// What follows the colon.
    place: Place,
    /// What it is for, after 'for'.
    purpose: &'static str,
}

/// How the place of a device is written, behind the colon of its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// An absolute path.
    Path,
    /// An image of a Ceph cluster: [`RbdImage`].
    Image,
    /// Not at all.
    Nowhere,
}

impl Place {
    fn form(self) -> &'static str {
        match self {
            Self::Path => "PATH",
            Self::Image => "POOL/IMAGE",
            Self::Nowhere => "",
        }
    }

    fn fits(self, text: &str) -> bool {
        match self {
            Self::Path => text.starts_with('/'),
            Self::Image => RbdImage::parse(text).is_some(),
            Self::Nowhere => text.is_empty(),
        }
    }
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
    File: Row { prefix: "file", place: Place::Path, purpose: "a file" },
    /// A block device of the machine.
    Block: Row { prefix: "block", place: Place::Path, purpose: "a block device" },
    /// An image of a Ceph cluster (RBD).
    Rbd: Row { prefix: "rbd", place: Place::Image, purpose: "an image of a Ceph cluster" },
    /// Memory: gone when the daemon stops. For benchmarks and tests.
    Memory: Row {
        prefix: "memory",
        place: Place::Nowhere,
        purpose: "a pool that is lost when the daemon stops",
    },
}

impl DeviceKind {
    fn row(self) -> &'static Row {
        &ROWS[self as usize]
    }

    /// How a device of this kind is written: `file:PATH`.
    pub fn form(self) -> String {
        let Row { prefix, place, .. } = self.row();
        format!("{prefix}:{}", place.form())
    }

    /// The kind that a text begins with, whatever follows.
    pub fn of(text: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|kind| rest(text, kind.row()).is_some())
    }

    /// Whether devices of this kind are at a path of the machine's file systems.
    pub fn has_path(self) -> bool {
        self.row().place == Place::Path
    }

    /// The form and what it is for: `file:PATH for a file`.
    pub fn advice(self) -> String {
        format!("{} for {}", self.form(), self.row().purpose)
    }

    /// Whether two names that are the same are the same device, which then belongs to one pool.
    pub fn is_one_place(self) -> bool {
        self.row().place != Place::Nowhere
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
    /// Empty for a kind without a path; for an image what follows the colon.
    path: PathBuf,
}

impl DeviceName {
    /// The device of that kind at `path`, which is left out of the name of a kind without paths.
    pub fn new(kind: DeviceKind, path: impl Into<PathBuf>) -> Self {
        let has_place = kind.row().place != Place::Nowhere;
        Self { kind, path: if has_place { path.into() } else { PathBuf::new() } }
    }

    /// What kind of device it is.
    pub fn kind(&self) -> DeviceKind {
        self.kind
    }

    /// Where it is, as it stands behind the colon; empty for a kind that is nowhere.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its path on a file system of the machine; `None` for what has none.
    pub fn file_path(&self) -> Option<&Path> {
        self.kind.has_path().then_some(self.path())
    }

    /// The path in `text`, which may be a name or a path alone; nothing is asked of either.
    pub fn path_in(text: &str) -> &Path {
        let mut of_path = ROWS.iter().filter(|row| row.place == Place::Path);
        let named = of_path.find_map(|row| rest(text, row));
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
        let fits = |&(kind, path): &(DeviceKind, &str)| kind.row().place.fits(path);
        let (kind, path) = named.filter(fits).ok_or_else(|| InvalidDeviceName(text.to_owned()))?;
        Ok(Self::new(kind, path))
    }
}

impl fmt::Display for DeviceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.kind.row().prefix, self.path.display())
    }
}

/// An image of a Ceph cluster, as it is written behind `rbd:`:
/// `POOL/IMAGE` or `POOL/NAMESPACE/IMAGE`, then `?conf=PATH&id=USER`, each of the two optional.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RbdImage<'a> {
    /// The pool of the cluster.
    pub pool: &'a str,
    /// The namespace in the pool; empty for the default one.
    pub namespace: &'a str,
    /// The image's name.
    pub image: &'a str,
    /// The cluster's configuration file, an absolute path; without it Ceph looks where it always does
    /// (`CEPH_CONF`, `/etc/ceph/ceph.conf`).
    pub conf: Option<&'a str>,
    /// Who uses it, without `client.`; without it `admin`.
    pub id: Option<&'a str>,
}

impl<'a> RbdImage<'a> {
    /// Reads one; `None` where a part is missing, empty or unknown.
    pub fn parse(text: &'a str) -> Option<Self> {
        let (place, options) = text.split_once('?').unwrap_or((text, ""));
        let parts: Vec<&str> = place.split('/').collect();
        let (pool, namespace, image) = match parts[..] {
            [pool, image] => (pool, "", image),
            [pool, namespace, image] if !namespace.is_empty() => (pool, namespace, image),
            _ => return None,
        };
        let mut found = Self { pool, namespace, image, conf: None, id: None };
        for option in options.split('&').filter(|_| text.contains('?')) {
            let (key, value) = option.split_once('=')?;
            let slot = match key {
                "conf" if value.starts_with('/') => &mut found.conf,
                "id" if !value.is_empty() => &mut found.id,
                _ => return None,
            };
            if slot.replace(value).is_some() {
                return None;
            }
        }
        let is_named = !pool.is_empty() && !image.is_empty() && !text.contains('\0');
        is_named.then_some(found)
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
        let image = "rbd:ssd/tenant/a?conf=/etc/ceph/b.conf&id=gantry";
        for text in ["file:/tmp/a b.img", "block:/dev/sdb", "rbd:ssd/a", image, "memory:"] {
            let name = text.parse::<DeviceName>().map(|name| name.to_string());
            assert_eq!(name, Ok(text.to_owned()));
        }
        for text in
            ["", "file:", "file:relative", "file", "memory:1G", "/dev/sdb", "rbd:a", "rbd:/a"]
        {
            assert!(text.parse::<DeviceName>().is_err(), "{text}");
        }
    }

    #[test]
    fn every_kind_reads_back_and_no_prefix_stands_twice() {
        for &kind in DeviceKind::ALL {
            let path = if kind.row().place == Place::Image { "a/b:c" } else { "/a:b" };
            let name = DeviceName::new(kind, path);
            assert_eq!(name.to_string().parse(), Ok(name.clone()));
            let same = ROWS.iter().filter(|row| row.prefix == kind.row().prefix).count();
            assert_eq!((name.kind(), same), (kind, 1));
        }
    }

    #[test]
    fn whoever_writes_no_device_is_told_all_forms() {
        assert_eq!(device_forms(), "file:PATH, block:PATH, rbd:POOL/IMAGE or memory:");
        assert_eq!(
            InvalidDeviceName("x".to_owned()).to_string(),
            "'x' does not name a device: write file:PATH for a file, block:PATH for a block \
             device, rbd:POOL/IMAGE for an image of a Ceph cluster, or memory: for a pool that is lost when the daemon stops"
        );
    }

    #[test]
    fn an_image_has_a_pool_and_perhaps_a_namespace_a_file_and_a_user() {
        let plain = RbdImage { pool: "p", namespace: "", image: "i", conf: None, id: None };
        assert_eq!(RbdImage::parse("p/i"), Some(plain));
        let named = RbdImage { namespace: "n", conf: Some("/c"), id: Some("u"), ..plain };
        assert_eq!(RbdImage::parse("p/n/i?id=u&conf=/c"), Some(named));
        let wrong =
            ["p", "p/", "/i", "p//i", "p/n/i/x", "p/i?", "p/i?conf=c", "p/i?id=", "p/i?x=1"];
        for text in wrong.into_iter().chain(["p/i?id=a&id=b", "p/i?conf=/c&", "", "p/i\0"]) {
            assert_eq!(RbdImage::parse(text), None, "{text}");
        }
    }

    #[test]
    fn a_path_may_be_written_with_or_without_its_kind() {
        let cases = [("file:/a", "/a"), ("block:b", "b"), ("/a:b", "/a:b"), ("memory:", "memory:")];
        for (text, path) in cases {
            assert_eq!(DeviceName::path_in(text), Path::new(path));
        }
    }
}
