//! A small file system of the test's own: it has a size, other processes may take of it, and it
//! fails writes and flushes when it is told to.

use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use fuser::{
    BackgroundSession, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags,
    Generation, INodeNo, LockOwner, OpenFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyEmpty,
    ReplyEntry, ReplyOpen, ReplyStatfs, ReplyWrite, Request, TimeOrNow, WriteFlags,
};
use tempfile::TempDir;

/// The kernel is to ask again each time.
const TIME_TO_LIVE: Duration = Duration::ZERO;

const BLOCK: u64 = 4096;

/// errno(3).
const EIO: i32 = 5;
const ENOSPC: i32 = 28;

/// A mounted file system. Its files are kept in ordinary ones.
///
/// Needs /dev/fuse, and root or fusermount.
#[derive(Debug)]
pub struct SmallDisk {
    state: Arc<State>,
    // Unmounted before its folder is removed.
    _mount: BackgroundSession,
    folder: TempDir,
}

#[derive(Debug, Default)]
struct State {
    size_bytes: AtomicU64,
    /// What others have on it.
    eaten_bytes: AtomicU64,
    /// Writes and flushes that are still to fail with EIO.
    failures_left: AtomicU64,
    files: Mutex<Vec<Option<Arc<Kept>>>>,
}

struct Files {
    state: Arc<State>,
    backing: PathBuf,
}

impl SmallDisk {
    /// Mounts an empty one of a size.
    ///
    /// # Errors
    /// When this machine does not mount FUSE file systems.
    pub fn mount(size_bytes: u64) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("gantry-test-").tempdir()?;
        let (mounted, backing) = (folder.path().join("mounted"), folder.path().join("backing"));
        std::fs::create_dir(&mounted)?;
        std::fs::create_dir(&backing)?;
        let state = Arc::<State>::default();
        state.size_bytes.store(size_bytes, Ordering::Relaxed);
        let files = Files { state: Arc::clone(&state), backing };
        let mount = fuser::spawn_mount(files, &mounted, &Config::default())
            .context("cannot mount a FUSE file system: this needs /dev/fuse, and root or fuse3")?;
        Ok(Self { state, _mount: mount, folder })
    }

    /// The path of a file on it.
    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join("mounted").join(name)
    }

    /// Another process takes so many bytes, in all.
    pub fn eat(&self, bytes: u64) {
        self.state.eaten_bytes.store(bytes, Ordering::Relaxed);
    }

    /// What is left.
    pub fn free_bytes(&self) -> u64 {
        self.state.free_bytes()
    }

    /// So many of the next writes and flushes fail with EIO.
    pub fn fail(&self, count: u64) {
        self.state.failures_left.store(count, Ordering::Relaxed);
    }
}

/// One file, and which of its blocks have space.
#[derive(Debug)]
struct Kept {
    name: String,
    file: File,
    has_space: Mutex<Vec<bool>>,
}

impl State {
    fn files(&self) -> MutexGuard<'_, Vec<Option<Arc<Kept>>>> {
        // A thread that panicked left the table whole.
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn free_bytes(&self) -> u64 {
        let files: Vec<Arc<Kept>> = self.files().iter().flatten().cloned().collect();
        let taken: u64 = files.iter().map(|kept| kept.allocated()).sum();
        let taken = taken + self.eaten_bytes.load(Ordering::Relaxed);
        self.size_bytes.load(Ordering::Relaxed).saturating_sub(taken)
    }

    /// The file with that number: its place in the table, from 2 on.
    fn kept(&self, inode: INodeNo) -> io::Result<Arc<Kept>> {
        let place = usize::try_from(inode.0).unwrap_or(0).wrapping_sub(2);
        let found = self.files().get(place).cloned().flatten();
        found.ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn number(&self, name: &str) -> Option<INodeNo> {
        let is_it = |kept: &Option<Arc<Kept>>| kept.as_ref().is_some_and(|kept| kept.name == name);
        self.files().iter().position(is_it).map(|place| INodeNo(place as u64 + 2))
    }

    /// Whether this operation is one that is to fail.
    fn check(&self) -> io::Result<()> {
        let left = &self.failures_left;
        let failed = left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1));
        match failed {
            Ok(_) => Err(io::Error::from_raw_os_error(EIO)),
            Err(_) => Ok(()),
        }
    }

    /// Gives a part of a file its space, if there is enough for what has none yet.
    fn take_space(&self, kept: &Kept, offset: u64, length: u64) -> io::Result<()> {
        let free = self.free_bytes();
        let mut has_space = kept.has_space.lock().unwrap_or_else(PoisonError::into_inner);
        let range = (offset / BLOCK) as usize..(offset + length).div_ceil(BLOCK) as usize;
        if has_space.len() < range.end {
            has_space.resize(range.end, false);
        }
        let missing = has_space[range.clone()].iter().filter(|has_space| !**has_space).count();
        if missing as u64 * BLOCK > free {
            return Err(io::Error::from_raw_os_error(ENOSPC));
        }
        has_space[range].fill(true);
        Ok(())
    }
}

impl Kept {
    fn allocated(&self) -> u64 {
        let has_space = self.has_space.lock().unwrap_or_else(PoisonError::into_inner);
        has_space.iter().filter(|has_space| **has_space).count() as u64 * BLOCK
    }
}

impl Files {
    fn attributes(&self, inode: INodeNo) -> io::Result<FileAttr> {
        let is_root = inode == INodeNo::ROOT;
        let (size, blocks) = match is_root {
            true => (0, 0),
            false => {
                let kept = self.state.kept(inode)?;
                (kept.file.metadata()?.len(), kept.allocated() / 512)
            }
        };
        Ok(FileAttr {
            ino: inode,
            size,
            blocks,
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
            blksize: BLOCK as u32,
            flags: 0,
        })
    }

    fn make(&self, name: &str) -> io::Result<FileAttr> {
        let path = self.backing.join(name);
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(path)?;
        let kept = Kept { name: name.to_owned(), file, has_space: Mutex::default() };
        self.state.files().push(Some(Arc::new(kept)));
        let inode = self.state.number(name).ok_or(io::ErrorKind::NotFound)?;
        self.attributes(inode)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let place = self.state.number(name).ok_or(io::ErrorKind::NotFound)?.0 as usize - 2;
        self.state.files()[place] = None;
        std::fs::remove_file(self.backing.join(name))
    }
}

fn answer(result: io::Result<()>, reply: ReplyEmpty) {
    match result {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(error.into()),
    }
}

impl Filesystem for Files {
    fn lookup(&self, _: &Request, _: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let inode = name.to_str().and_then(|name| self.state.number(name));
        match inode.map(|inode| self.attributes(inode)) {
            Some(Ok(attributes)) => reply.entry(&TIME_TO_LIVE, &attributes, Generation(0)),
            _ => reply.error(Errno::ENOENT),
        }
    }

    fn getattr(&self, _: &Request, inode: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.attributes(inode) {
            Ok(attributes) => reply.attr(&TIME_TO_LIVE, &attributes),
            Err(error) => reply.error(error.into()),
        }
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        let (size, free) = (self.state.size_bytes.load(Ordering::Relaxed), self.state.free_bytes());
        let (blocks, free) = (size / BLOCK, free / BLOCK);
        reply.statfs(blocks, free, free, 100, 100, BLOCK as u32, 255, BLOCK as u32);
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
        let sized = size.map_or(Ok(()), |size| self.state.kept(inode)?.file.set_len(size));
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
        match name.to_str().map(|name| self.make(name)) {
            Some(Ok(attributes)) => {
                let (generation, flags) = (Generation(0), FopenFlags::FOPEN_DIRECT_IO);
                reply.created(&TIME_TO_LIVE, &attributes, generation, FileHandle(0), flags);
            }
            Some(Err(error)) => reply.error(error.into()),
            None => reply.error(Errno::EINVAL),
        }
    }

    fn unlink(&self, _: &Request, _: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        answer(self.remove(name.to_str().unwrap_or_default()), reply);
    }

    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        reply.opened(FileHandle(0), FopenFlags::FOPEN_DIRECT_IO);
    }

    fn read(
        &self,
        _: &Request,
        inode: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let mut bytes = vec![0; size as usize];
        match self.state.kept(inode).and_then(|kept| kept.file.read_at(&mut bytes, offset)) {
            Ok(length) => reply.data(&bytes[..length]),
            Err(error) => reply.error(error.into()),
        }
    }

    fn write(
        &self,
        _: &Request,
        inode: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let write = |kept: Arc<Kept>| {
            self.state.check()?;
            self.state.take_space(&kept, offset, data.len() as u64)?;
            kept.file.write_all_at(data, offset)
        };
        match self.state.kept(inode).and_then(write) {
            Ok(()) => reply.written(data.len() as u32),
            Err(error) => reply.error(error.into()),
        }
    }

    fn fsync(&self, _: &Request, inode: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        let flushed = self.state.check().and_then(|()| self.state.kept(inode)?.file.sync_data());
        answer(flushed, reply);
    }

    fn fsyncdir(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        reply.ok();
    }

    fn fallocate(
        &self,
        _: &Request,
        inode: INodeNo,
        _: FileHandle,
        offset: u64,
        length: u64,
        _: i32,
        reply: ReplyEmpty,
    ) {
        // What it keeps is kept sparse.
        let take = |kept: Arc<Kept>| self.state.take_space(&kept, offset, length);
        answer(self.state.kept(inode).and_then(take), reply);
    }
}
