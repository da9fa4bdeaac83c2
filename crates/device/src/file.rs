//! Opens files and block devices with an exclusive lock, and with O_DIRECT where the file system
//! allows it, and serves them with io_uring or threads.

use std::fs::{File, OpenOptions};
use std::io::{self, Seek, SeekFrom};
use std::os::unix::fs::{FileExt, FileTypeExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;

use block::DeviceKind;
use rustix::fs::{FlockOperation, OFlags, flock};

use crate::backend::{Backend, Grow};
use crate::device::Method;
use crate::error::OpenError;
use crate::fence::{self, Breaking, Holder, OWNER_BEAT_OFFSET, Reservation, ReservationKey};
use crate::limits::{BUSY_PAUSE, BUSY_TRIES};
use crate::notify::Notify;
use crate::ring::Ring;
use crate::threads::Threads;

/// File systems that never make the thread wait that submits to io_uring, by the magic numbers of
/// statfs(2): ext4, XFS, Btrfs, F2FS, tmpfs and overlayfs. Others may wait for a network or for
/// another process; Linux 6.18 does so with FUSE.
const PROMPT_FILE_SYSTEMS: [u64; 6] =
    [0xef53, 0x5846_5342, 0x9123_683e, 0xf2f5_2010, 0x0102_1994, 0x794c_7630];

/// An open file or block device.
#[derive(Debug)]
pub(crate) struct OpenFile {
    pub(crate) file: File,
    pub(crate) size_bytes: u64,
    /// Whether io_uring takes requests for it without waiting.
    pub(crate) is_prompt: bool,
    /// Whether a completed write is already stable.
    pub(crate) write_through: bool,
    /// Keeps other processes out. Another descriptor than `file`: what io_uring was given stays open
    /// for a moment after the process has ended, and would keep its successor out.
    pub(crate) lock: Arc<Lock>,
}

/// What keeps others from a file or block device.
#[derive(Debug)]
pub(crate) struct Lock {
    /// Given back before the lock of the machine's own processes is.
    pub(crate) reservation: Option<Reservation>,
    _file: File,
}

fn os(path: &Path, what: &'static str) -> impl FnOnce(io::Error) -> OpenError {
    let path = path.to_owned();
    move |source| OpenError::Os { path, what, source }
}

/// A process of this machine has it.
pub(crate) fn in_use(path: &Path, holder: Option<Holder>) -> OpenError {
    OpenError::InUse { path: path.to_owned(), holder, owner_beat: None }
}

/// Opens what is there, without the page cache where the file system allows it.
pub(crate) fn open(
    path: &Path,
    is_block: bool,
    breaking: &Breaking,
) -> Result<OpenFile, OpenError> {
    let Some(key) = fence::key().filter(|_| is_block) else {
        return open_unreserved(path, is_block);
    };
    look_first(path, key, breaking)?;
    reserved(path, open_unreserved(path, is_block)?, key, breaking)
}

/// Refuses a block device that is reserved by somebody else, opened for reading alone: udev examines a disk whenever a
/// process closes it that could write, and a standby tries several times a second. What cannot be opened or asked so
/// is left to those who open it for writing.
fn look_first(path: &Path, key: ReservationKey, breaking: &Breaking) -> Result<(), OpenError> {
    let mut options = OpenOptions::new();
    let options = options.read(true).custom_flags(OFlags::DIRECT.bits() as i32);
    let Ok(file) = options.open(path) else { return Ok(()) };
    let read = |buffer: &mut [u8]| file.read_exact_at(buffer, OWNER_BEAT_OFFSET);
    match Reservation::look_for_others(path, &file, key, breaking) {
        Err(error @ OpenError::Held { .. }) => Err(error.with_owner_beat(read)),
        Err(_) | Ok(_) => Ok(()),
    }
}

/// The size of a block device that nobody else of this machine has.
pub(crate) fn size_of_block_device(path: &Path) -> Result<u64, OpenError> {
    Ok(open_unreserved(path, true)?.size_bytes)
}

/// Reserves a block device, if it knows reservations.
fn reserved(
    path: &Path,
    mut open: OpenFile,
    key: ReservationKey,
    breaking: &Breaking,
) -> Result<OpenFile, OpenError> {
    let read = |buffer: &mut [u8]| open.file.read_exact_at(buffer, OWNER_BEAT_OFFSET);
    let reservation = Reservation::take(path, &open.file, key, breaking)
        .map_err(|error| error.with_owner_beat(read))?;
    let lock = Arc::get_mut(&mut open.lock).expect("nobody else has a lock that was just taken");
    lock.reservation = reservation;
    Ok(open)
}

/// The process that has a file locked, by /proc/locks; `None` if the system does not tell, as of
/// processes outside of our container.
pub(crate) fn holder_of_lock(file: &File) -> Option<Holder> {
    let stat = rustix::fs::fstat(file).ok()?;
    let (major, minor) = (rustix::fs::major(stat.st_dev), rustix::fs::minor(stat.st_dev));
    let place = format!("{major:02x}:{minor:02x}:{}", stat.st_ino);
    let locks = std::fs::read_to_string("/proc/locks").ok()?;
    let process = process_in(&locks, &place)?;
    let name = std::fs::read_to_string(format!("/proc/{process}/comm")).ok();
    let name = name.map_or_else(String::new, |name| format!(" ({})", name.trim()));
    Some(Holder { identity: String::new(), place: Some(format!("process {process}{name}")) })
}

/// The process that has a lock of flock(2) on a file (proc_locks(5)).
fn process_in(locks: &str, place: &str) -> Option<u32> {
    let mut lines = locks.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    lines.find_map(|words| match words[..] {
        [_, "FLOCK", _, _, process, file, ..] if file == place => {
            process.parse().ok().filter(|&process| process > 0)
        }
        _ => None,
    })
}

fn open_unreserved(path: &Path, is_block: bool) -> Result<OpenFile, OpenError> {
    if !path.exists() {
        return Err(OpenError::Missing(path.to_owned()));
    }
    let kind = std::fs::metadata(path).map_err(os(path, "look at it"))?.file_type();
    if is_block && !kind.is_block_device() {
        let hint = DeviceKind::File.advice();
        return Err(OpenError::WrongKind { path: path.to_owned(), expected: "block device", hint });
    }
    if !is_block && !kind.is_file() {
        let hint = DeviceKind::Block.advice();
        return Err(OpenError::WrongKind { path: path.to_owned(), expected: "file", hint });
    }
    let file = match open_when_free(path, is_block) {
        Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {
            return Err(in_use(path, None));
        }
        result => result.map_err(os(path, "open it for reading and writing"))?,
    };
    finish(path, file, is_block)
}

/// What io_uring was given stays open for a moment after the ring has gone, so a block device that was
/// just closed is busy.
fn open_when_free(path: &Path, is_block: bool) -> io::Result<File> {
    for _ in 0..BUSY_TRIES {
        match open_direct(OpenOptions::new().read(true).write(true), path, is_block) {
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {}
            result => return result,
        }
        std::thread::sleep(BUSY_PAUSE);
    }
    open_direct(OpenOptions::new().read(true).write(true), path, is_block)
}

/// Makes a sparse file of `size_bytes`; never overwrites one.
pub(crate) fn create(path: &Path, size_bytes: u64) -> Result<OpenFile, OpenError> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create_new(true).mode(0o600);
    let file = match open_direct(&mut options, path, false) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            return Err(OpenError::Exists(path.to_owned()));
        }
        result => result.map_err(os(path, "create it"))?,
    };
    let sized = file
        .set_len(size_bytes)
        .and_then(|()| file.sync_all())
        .and_then(|()| sync_parent(path))
        .map_err(os(path, "give it its size"))
        .and_then(|()| finish(path, file, false));
    if sized.is_err() {
        let _ = std::fs::remove_file(path);
    }
    sized
}

/// A new file is there after a crash only when its directory is stable, too.
fn sync_parent(path: &Path) -> io::Result<()> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    File::open(parent.unwrap_or(Path::new(".")))?.sync_all()
}

fn open_direct(options: &mut OpenOptions, path: &Path, is_block: bool) -> io::Result<File> {
    // On a block device O_EXCL refuses one that is mounted or otherwise claimed.
    let exclusive = if is_block { OFlags::EXCL } else { OFlags::empty() };
    let direct = (OFlags::DIRECT | exclusive).bits() as i32;
    match options.clone().custom_flags(direct).open(path) {
        // Some file systems (tmpfs before Linux 6.6) know no direct I/O.
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
            if !is_block {
                let _ = options.clone().create_new(false);
            }
            options.clone().custom_flags(exclusive.bits() as i32).open(path)
        }
        result => result,
    }
}

fn finish(path: &Path, file: File, is_block: bool) -> Result<OpenFile, OpenError> {
    let lock = File::open(path).map_err(os(path, "lock it"))?;
    if flock(&lock, lock_of(is_block)).is_err() {
        let read = |buffer: &mut [u8]| file.read_exact_at(buffer, OWNER_BEAT_OFFSET);
        return Err(in_use(path, holder_of_lock(&lock)).with_owner_beat(read));
    }
    let lock = Arc::new(Lock { reservation: None, _file: lock });
    let size_bytes = (&file).seek(SeekFrom::End(0)).map_err(os(path, "find out its size"))?;
    let is_prompt = is_block || is_on_prompt_file_system(&file);
    let write_through = is_block && is_write_through(&file);
    Ok(OpenFile { file, size_bytes, is_prompt, write_through, lock })
}

/// Keeps others out. Of a block device the kernel gives one to O_EXCL, and the lock is one that udev shares: it locks a
/// disk that it examines, and as long as it gets none its queue is not empty, so that `udevadm settle` and
/// who waits for that would wait in vain.
pub(crate) fn lock_of(is_block: bool) -> FlockOperation {
    if is_block {
        FlockOperation::NonBlockingLockShared
    } else {
        FlockOperation::NonBlockingLockExclusive
    }
}

/// Serves an open file or block device with what `method` says.
pub(crate) fn serve(
    path: &Path,
    open: OpenFile,
    method: Method,
) -> Result<Box<dyn Backend>, OpenError> {
    let notify = Notify::new().map_err(os(path, "wait for it"))?;
    let ring = || Ring::new(&open, &notify).map(|ring| Box::new(ring) as Box<dyn Backend>);
    let threads = || match Threads::new(&open, &notify) {
        Ok(threads) => Ok(Box::new(threads) as Box<dyn Backend>),
        Err(error) => Err(os(path, "serve it with threads")(error)),
    };
    match method {
        Method::Threads => threads(),
        Method::IoUring => ring().map_err(os(path, "use io_uring on it")),
        Method::Auto if open.is_prompt => ring().or_else(|_| threads()),
        Method::Auto => threads(),
    }
}

/// Makes a file larger, and its size durable; a block device must have grown already.
pub(crate) fn growth_of(file: File) -> Grow {
    Box::new(move |size_bytes| {
        let mut file = &file;
        if file.seek(SeekFrom::End(0))? < size_bytes {
            file.set_len(size_bytes)?;
            file.sync_all()?;
        }
        file.seek(SeekFrom::End(0))
    })
}

fn is_on_prompt_file_system(file: &File) -> bool {
    rustix::fs::fstatfs(file)
        .is_ok_and(|found| PROMPT_FILE_SYSTEMS.contains(&(found.f_type as u64)))
}

/// Whether the kernel says that the device has no volatile cache.
fn is_write_through(file: &File) -> bool {
    let Ok(stat) = rustix::fs::fstat(file) else { return false };
    let (major, minor) = (rustix::fs::major(stat.st_rdev), rustix::fs::minor(stat.st_rdev));
    let queue = format!("/sys/dev/block/{major}:{minor}/queue/write_cache");
    std::fs::read_to_string(queue).is_ok_and(|text| text.trim() == "write through")
}
