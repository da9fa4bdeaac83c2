//! Read-only device with synchronous reads, for offline tools that are its only user.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, FileTypeExt, OpenOptionsExt};
use std::path::Path;

use block::{DeviceError, DeviceKind, DeviceName};
use rustix::fs::{OFlags, flock};

use crate::error::OpenError;
use crate::fence::Breaking;
use crate::file::{holder_of_lock, in_use, lock_of};
use crate::kinds::rbd::Image;

/// A device that keeps its content, open for reading. While it is there no daemon can open it, and it
/// cannot be opened while a daemon has it.
pub struct Reader {
    source: Source,
    size_bytes: u64,
}

enum Source {
    File(File),
    Image(Image),
}

impl Reader {
    /// Opens a device by its name. Nothing is written, ever.
    ///
    /// # Errors
    /// When there is nothing, another process has it, or the system refuses; for a kind that keeps
    /// nothing, always.
    pub fn of(name: &DeviceName) -> Result<Self, OpenError> {
        match name.kind() {
            DeviceKind::File | DeviceKind::Block => Self::open(name.path()),
            DeviceKind::Rbd => {
                let image = Image::open(name.path(), &Breaking::NONE)?;
                let (path, what) = (name.path().to_owned(), "find out its size");
                let size_bytes = image.size_bytes();
                let size_bytes =
                    size_bytes.map_err(|source| OpenError::Os { path, what, source })?;
                Ok(Self { source: Source::Image(image), size_bytes })
            }
            DeviceKind::Memory => Err(OpenError::Missing(name.to_string().into())),
        }
    }

    /// Opens what is there, file or block device. Nothing is written, ever.
    ///
    /// # Errors
    /// When there is nothing, another process has it, or the system refuses.
    pub fn open(path: &Path) -> Result<Self, OpenError> {
        let os = |what| {
            let path = path.to_owned();
            move |source| OpenError::Os { path, what, source }
        };
        if !path.exists() {
            return Err(OpenError::Missing(path.to_owned()));
        }
        let kind = std::fs::metadata(path).map_err(os("look at it"))?.file_type();
        if !kind.is_file() && !kind.is_block_device() {
            let (path, hint) =
                (path.to_owned(), "the path of a pool's file or block device".to_owned());
            return Err(OpenError::WrongKind { path, expected: "file or block device", hint });
        }
        // On a block device O_EXCL refuses one that is mounted or otherwise claimed.
        let flags = if kind.is_block_device() { OFlags::EXCL } else { OFlags::empty() };
        let file = OpenOptions::new().read(true).custom_flags(flags.bits() as i32).open(path);
        let file = file.map_err(|source| match source.raw_os_error() {
            Some(code) if code == rustix::io::Errno::BUSY.raw_os_error() => in_use(path, None),
            _ => os("open it for reading")(source),
        })?;
        if flock(&file, lock_of(kind.is_block_device())).is_err() {
            return Err(in_use(path, holder_of_lock(&file)));
        }
        let size_bytes = rustix::fs::seek(&file, rustix::fs::SeekFrom::End(0))
            .map_err(|error| os("find out its size")(error.into()))?;
        Ok(Self { source: Source::File(file), size_bytes })
    }

    /// Its size.
    pub fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// Fills `buffer` with the bytes from `offset` on.
    ///
    /// # Errors
    /// When the device cannot read them, or ends before.
    pub fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<(), DeviceError> {
        let end = offset.saturating_add(buffer.len() as u64);
        if end > self.size_bytes {
            return Err(DeviceError::BeyondEnd { end });
        }
        let result = match &self.source {
            Source::File(file) => file.read_exact_at(buffer, offset),
            Source::Image(image) => image.read(offset, buffer),
        };
        result.map_err(|error| match error.raw_os_error() {
            Some(code) => DeviceError::Os(code),
            // The file has become shorter since it was opened.
            None => DeviceError::BeyondEnd { end },
        })
    }
}

#[cfg(test)]
mod tests;
