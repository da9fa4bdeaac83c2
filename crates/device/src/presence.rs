//! Presence of an open file (fstat, the link below /proc/self/fd): one that was removed lives for only
//! as long as it is open, and one that was cut short has lost content.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

/// What became of a device's file while it is in use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Presence {
    /// It is where it was, and as long as it must be. So is what is no regular file.
    #[default]
    There,
    /// It has another path now.
    Moved,
    /// Its path was removed: its content is gone with whoever has it open, unless another link to it
    /// is left.
    Removed,
    /// It is shorter than the device: its end was cut off.
    CutShort,
    /// Another owner has taken the device: this one writes to it no more.
    Fenced,
}

impl Presence {
    /// Looks at a file that was opened at `path` (as [`link_of`] says) and holds a device of
    /// `size_bytes`. What cannot be looked at is taken to be there.
    pub(crate) fn of(file: &File, path: &Path, size_bytes: u64) -> Self {
        let Ok(stat) = rustix::fs::fstat(file) else { return Self::There };
        let kind = rustix::fs::FileType::from_raw_mode(stat.st_mode);
        if kind != rustix::fs::FileType::RegularFile {
            return Self::There;
        }
        if u64::try_from(stat.st_size).is_ok_and(|now| now < size_bytes) {
            return Self::CutShort;
        }
        // Some file systems (FUSE) count links to a file without a name.
        match link_of(file) {
            _ if stat.st_nlink == 0 => Self::Removed,
            Some(now) if now == removed(path) => Self::Removed,
            Some(now) if now != path => Self::Moved,
            Some(_) | None => Self::There,
        }
    }
}

/// What the kernel calls a file whose path was removed (d_path).
fn removed(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(" (deleted)");
    name.into()
}

/// The path of an open file, as the kernel knows it; asks no file system.
pub(crate) fn link_of(file: &File) -> Option<PathBuf> {
    std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).ok()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_file_that_is_moved_cut_short_or_removed_is_seen() {
        let folder = tempfile::tempdir().unwrap();
        let (here, there) = (folder.path().join("a"), folder.path().join("b"));
        let file = File::create(&here).unwrap();
        file.set_len(8192).unwrap();
        let path = link_of(&file).unwrap();
        let look = || Presence::of(&file, &path, 8192);
        assert_eq!(look(), Presence::There);
        fs::rename(&here, &there).unwrap();
        assert_eq!(look(), Presence::Moved);
        fs::rename(&there, &here).unwrap();
        assert_eq!(look(), Presence::There);
        fs::hard_link(&here, &there).unwrap();
        fs::remove_file(&here).unwrap();
        assert_eq!(look(), Presence::Removed);
        fs::remove_file(&there).unwrap();
        assert_eq!(look(), Presence::Removed);
        file.set_len(4096).unwrap();
        assert_eq!(look(), Presence::CutShort);
    }
}
