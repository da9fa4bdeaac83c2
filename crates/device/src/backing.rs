//! Free space of the file system below a device's file (statvfs), and how much of the sparse file
//! has no space allocated there yet.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

/// The file system under a device, as it was last looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backing {
    /// Which file system, while it is mounted: `st_dev` of stat(2). Two devices with the same
    /// number share its space.
    pub file_system: u64,
    /// Where it is mounted, as far as /proc/self/mountinfo says; else the folder of the file.
    pub mount_point: PathBuf,
    /// Bytes of the file system.
    pub size_bytes: u64,
    /// Bytes that a process without privileges may still allocate.
    pub free_bytes: u64,
    /// Bytes of the device's file that have no space on the file system yet.
    pub unallocated_bytes: u64,
}

impl Backing {
    /// Asks the file system, which may take as long as it likes. `None` for what is no regular
    /// file, and for a file system that does not tell its size. Where it is mounted is taken from
    /// what was found before, if it is the same one.
    ///
    /// # Errors
    /// When the system refuses.
    pub(crate) fn of(file: &File, before: Option<Self>) -> io::Result<Option<Self>> {
        let stat = rustix::fs::fstat(file)?;
        let space = rustix::fs::fstatvfs(file)?;
        let is_file =
            rustix::fs::FileType::from_raw_mode(stat.st_mode) == rustix::fs::FileType::RegularFile;
        let size_bytes = space.f_blocks.saturating_mul(space.f_frsize);
        if !is_file || size_bytes == 0 {
            return Ok(None);
        }
        let allocated = u64::try_from(stat.st_blocks).unwrap_or(0).saturating_mul(512);
        let same = before.filter(|before| before.file_system == stat.st_dev);
        Ok(Some(Self {
            file_system: stat.st_dev,
            mount_point: same.map_or_else(|| mount_point(file), |before| before.mount_point),
            size_bytes,
            free_bytes: space.f_bavail.saturating_mul(space.f_frsize),
            unallocated_bytes: u64::try_from(stat.st_size).unwrap_or(0).saturating_sub(allocated),
        }))
    }
}

/// Where the file system of an open file is mounted. Asks the kernel alone, never a file system.
fn mount_point(file: &File) -> PathBuf {
    let link = format!("/proc/self/fd/{}", file.as_raw_fd());
    let path = std::fs::read_link(link).unwrap_or_default();
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    mount_point_in(&mounts, &path)
        .unwrap_or_else(|| path.parent().unwrap_or(Path::new("/")).to_owned())
}

/// The longest mount point above `path`; the fifth field of a line (proc_pid_mountinfo(5)).
fn mount_point_in(mounts: &str, path: &Path) -> Option<PathBuf> {
    let points = mounts.lines().filter_map(|line| line.split(' ').nth(4)).map(unescape);
    points
        .map(PathBuf::from)
        .filter(|point| path.starts_with(point))
        .max_by_key(|point| point.as_os_str().len())
}

/// Blank, tab, line feed and backslash are written as three octal digits there.
fn unescape(field: &str) -> String {
    let pairs = [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")];
    pairs.iter().fold(field.to_owned(), |text, (escaped, plain)| text.replace(escaped, plain))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_innermost_mount_point_above_a_file_is_found() {
        let mounts = "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n\
                      23 22 0:5 / /srv rw - tmpfs t rw\n\
                      24 22 0:6 / /srv/a\\040b rw - tmpfs t rw\n";
        let of = |path| mount_point_in(mounts, Path::new(path));
        assert_eq!(of("/srv/a b/p.img"), Some("/srv/a b".into()));
        assert_eq!(of("/srv/a c/p.img"), Some("/srv".into()));
        assert_eq!(of("/home/p.img"), Some("/".into()));
        assert_eq!(mount_point_in("", Path::new("/home")), None);
    }

    #[test]
    fn a_sparse_file_has_no_space_until_it_is_written() {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(1 << 20).unwrap();
        let before = Backing::of(file.as_file(), None).unwrap().unwrap();
        assert_eq!(before.unallocated_bytes, 1 << 20);
        std::os::unix::fs::FileExt::write_all_at(file.as_file(), &[1; 1 << 19], 0).unwrap();
        file.as_file().sync_all().unwrap();
        let after = Backing::of(file.as_file(), Some(before.clone())).unwrap().unwrap();
        assert!(after.unallocated_bytes <= 1 << 19, "{after:?}");
        assert_eq!((before.file_system, before.size_bytes), (after.file_system, after.size_bytes));
    }
}
