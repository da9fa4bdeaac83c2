//! A file system that a test can stall: what is asked of it then is answered when the stall ends.

use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use fuser::{
    BackgroundSession, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags,
    Generation, INodeNo, LockOwner, OpenFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyEmpty,
    ReplyEntry, ReplyOpen, ReplyWrite, Request, TimeOrNow, WriteFlags,
};
use tempfile::TempDir;

/// The one file that it may hold.
const NAME: &str = "device";
const FILE: INodeNo = INodeNo(2);

/// The kernel is to ask again each time.
const TIME_TO_LIVE: Duration = Duration::ZERO;

/// A mounted file system with room for one file, which is kept in an ordinary file.
///
/// Needs /dev/fuse, and root or fusermount.
#[derive(Debug)]
pub struct StallingFolder {
    gate: Arc<Gate>,
    // Unmounted before its folder is removed.
    _mount: BackgroundSession,
    folder: TempDir,
}

/// Open, or shut while the file system stalls.
#[derive(Debug, Default)]
struct Gate {
    is_shut: Mutex<bool>,
    opened: Condvar,
}

struct OneFile {
    gate: Arc<Gate>,
    backing: PathBuf,
    file: Mutex<Option<Arc<File>>>,
}

impl StallingFolder {
    /// Mounts an empty one.
    ///
    /// # Errors
    /// When this machine does not mount FUSE file systems.
    pub fn mount() -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("gantry-test-").tempdir()?;
        let (mounted, backing) = (folder.path().join("mounted"), folder.path().join("backing"));
        std::fs::create_dir(&mounted)?;
        let gate = Arc::<Gate>::default();
        let files = OneFile { gate: Arc::clone(&gate), backing, file: Mutex::default() };
        let mount = fuser::spawn_mount(files, &mounted, &Config::default())
            .context("cannot mount a FUSE file system: this needs /dev/fuse, and root or fuse3")?;
        Ok(Self { gate, _mount: mount, folder })
    }

    /// The path that the one file must have.
    pub fn file(&self) -> PathBuf {
        self.folder.path().join("mounted").join(NAME)
    }

    /// Answers nothing any more until the value that this returns goes; then what was asked
    /// meanwhile is answered first.
    #[must_use]
    pub fn stall(&self) -> Stall {
        *lock(&self.gate.is_shut) = true;
        Stall { gate: Arc::clone(&self.gate) }
    }
}

/// A file system answers nothing.
#[derive(Debug)]
pub struct Stall {
    gate: Arc<Gate>,
}

impl Drop for Stall {
    fn drop(&mut self) {
        *lock(&self.gate.is_shut) = false;
        self.gate.opened.notify_all();
    }
}

impl Gate {
    fn pass(&self) {
        let shut = lock(&self.is_shut);
        drop(self.opened.wait_while(shut, |shut| *shut).unwrap_or_else(PoisonError::into_inner));
    }
}

/// A thread that panicked left whole what it had locked.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl OneFile {
    /// The file, once the gate lets through.
    fn file(&self) -> io::Result<Arc<File>> {
        self.gate.pass();
        lock(&self.file).clone().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn make(&self, path: &Path) -> io::Result<FileAttr> {
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(path)?;
        *lock(&self.file) = Some(Arc::new(file));
        self.attributes(FILE)
    }

    fn attributes(&self, inode: INodeNo) -> io::Result<FileAttr> {
        let is_root = inode == INodeNo::ROOT;
        let size = if is_root { 0 } else { self.file()?.metadata()?.len() };
        Ok(FileAttr {
            ino: inode,
            size,
            blocks: size / 512,
            atime: UNIX_EPOCH,
            mtime: UNIX_EPOCH,
            ctime: UNIX_EPOCH,
            crtime: UNIX_EPOCH,
            kind: if is_root { FileType::Directory } else { FileType::RegularFile },
            perm: 0o700,
            nlink: 1,
            uid: rustix::process::getuid().as_raw(),
            gid: rustix::process::getgid().as_raw(),
            rdev: 0,
            blksize: 4096,
            flags: 0,
        })
    }

    fn read_at(&self, offset: u64, size: u32) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; size as usize];
        let length = self.file()?.read_at(&mut bytes, offset)?;
        bytes.truncate(length);
        Ok(bytes)
    }
}

fn answer(result: io::Result<()>, reply: ReplyEmpty) {
    match result {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(error.into()),
    }
}

impl Filesystem for OneFile {
    fn lookup(&self, _: &Request, _: INodeNo, name: &OsStr, reply: ReplyEntry) {
        match self.attributes(FILE) {
            Ok(attributes) if name == NAME => {
                reply.entry(&TIME_TO_LIVE, &attributes, Generation(0));
            }
            _ => reply.error(Errno::ENOENT),
        }
    }

    fn getattr(&self, _: &Request, inode: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.attributes(inode) {
            Ok(attributes) => reply.attr(&TIME_TO_LIVE, &attributes),
            Err(error) => reply.error(error.into()),
        }
    }

    fn setattr(
        &self,
        _: &Request,
        inode: INodeNo,
        _: Option<u32>,
        _: Option<u32>,
        _: Option<u32>,
        size: Option<u64>,
        _: Option<TimeOrNow>,
        _: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<fuser::BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let sized = size.map_or(Ok(()), |size| self.file()?.set_len(size));
        match sized.and_then(|()| self.attributes(inode)) {
            Ok(attributes) => reply.attr(&TIME_TO_LIVE, &attributes),
            Err(error) => reply.error(error.into()),
        }
    }

    fn create(
        &self,
        _: &Request,
        _: INodeNo,
        name: &OsStr,
        _: u32,
        _: u32,
        _: i32,
        reply: ReplyCreate,
    ) {
        if name != NAME {
            return reply.error(Errno::ENOSPC);
        }
        match self.make(&self.backing) {
            Ok(attributes) => {
                let (generation, flags) = (Generation(0), FopenFlags::FOPEN_DIRECT_IO);
                reply.created(&TIME_TO_LIVE, &attributes, generation, FileHandle(0), flags);
            }
            Err(error) => reply.error(error.into()),
        }
    }

    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        reply.opened(FileHandle(0), FopenFlags::FOPEN_DIRECT_IO);
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        match self.read_at(offset, size) {
            Ok(bytes) => reply.data(&bytes),
            Err(error) => reply.error(error.into()),
        }
    }

    fn write(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        match self.file().and_then(|file| file.write_all_at(data, offset)) {
            Ok(()) => reply.written(data.len() as u32),
            Err(error) => reply.error(error.into()),
        }
    }

    fn fsync(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        answer(self.file().and_then(|file| file.sync_data()), reply);
    }

    fn fsyncdir(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        reply.ok();
    }

    fn fallocate(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let mode = rustix::fs::FallocateFlags::from_bits_retain(mode as u32);
        let allocate = |file: Arc<File>| Ok(rustix::fs::fallocate(&file, mode, offset, length)?);
        answer(self.file().and_then(allocate), reply);
    }
}
