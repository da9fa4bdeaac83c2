//! Fault injection below files: a pass-through file system (FUSE) that has a size, stalls, delays
//! fsync, fails reads, writes and flushes, and loses writes, as a test says. What is kept lies in
//! ordinary files without a name.

use std::collections::{BTreeMap, HashMap};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use fuser::{
    BackgroundSession, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags,
    Generation, INodeNo, LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData,
    ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyStatfs, ReplyWrite, Request, TimeOrNow,
    WriteFlags,
};
use tempfile::TempDir;

/// The kernel is to ask again each time.
const TIME_TO_LIVE: Duration = Duration::ZERO;

const BLOCK: u64 = 4096;

/// Input/output error, as errno(3) has it.
pub const EIO: i32 = 5;
/// No space left on device.
pub const ENOSPC: i32 = 28;

/// A mounted file system of files, folders and sockets.
///
/// Needs /dev/fuse, and root or fusermount.
#[derive(Debug)]
pub struct FaultyFolder {
    faults: Arc<Faults>,
    tree: Arc<Mutex<Tree>>,
    // Unmounted before its folder is removed.
    _mount: BackgroundSession,
    folder: TempDir,
}

/// What goes wrong.
#[derive(Debug, Default)]
struct Faults {
    gate: Gate,
    size_bytes: AtomicU64,
    /// What others have on it.
    eaten_bytes: AtomicU64,
    /// Writes and flushes that are still to fail with EIO.
    failures_left: AtomicU64,
    fsync_delay_ms: AtomicU64,
    /// The error numbers with which they fail; 0 for none.
    fsync_error: AtomicI32,
    write_error: AtomicI32,
    read_error: AtomicI32,
    /// Writes are answered and not kept.
    loses_writes: AtomicBool,
    /// Writes that are still kept before that begins.
    writes_left: AtomicU64,
    fsyncs: AtomicU64,
    writes: AtomicU64,
    written_bytes: AtomicU64,
}

impl FaultyFolder {
    /// Mounts an empty one on which nothing goes wrong.
    ///
    /// # Errors
    /// When this machine does not mount FUSE file systems.
    pub fn mount() -> Result<Self> {
        Self::mount_with_size(u64::MAX)
    }

    /// Mounts an empty one of a size, in bytes.
    ///
    /// # Errors
    /// When this machine does not mount FUSE file systems.
    pub fn mount_with_size(size_bytes: u64) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("gantry-test-").tempdir()?;
        let mounted = folder.path().join("mounted");
        std::fs::create_dir(&mounted)?;
        let faults = Arc::<Faults>::default();
        faults.size_bytes.store(size_bytes, Ordering::Relaxed);
        let tree = Arc::new(Mutex::new(Tree::new(folder.path())));
        let files = Files { faults: Arc::clone(&faults), tree: Arc::clone(&tree) };
        let mount = fuser::spawn_mount(files, &mounted, &Config::default())
            .context("cannot mount a FUSE file system: this needs /dev/fuse, and root or fuse3")?;
        Ok(Self { faults, tree, _mount: mount, folder })
    }

    /// Where it is.
    pub fn path(&self) -> PathBuf {
        self.folder.path().join("mounted")
    }

    /// The path of a file on it.
    pub fn file(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }

    /// Answers nothing about files any more until the value that this returns goes; then what was
    /// asked meanwhile is answered first.
    #[must_use]
    pub fn stall(&self) -> Stall {
        *lock(&self.faults.gate.is_shut) = true;
        Stall(Arc::clone(&self.faults))
    }

    /// Another process takes so many bytes, in all.
    pub fn eat(&self, bytes: u64) {
        self.faults.eaten_bytes.store(bytes, Ordering::Relaxed);
    }

    /// What is left, in bytes.
    pub fn free_bytes(&self) -> u64 {
        self.faults.free_bytes(lock(&self.tree).taken_bytes())
    }

    /// So many of the next writes and flushes fail with EIO.
    pub fn fail(&self, count: u64) {
        self.faults.failures_left.store(count, Ordering::Relaxed);
    }

    /// Lets every write fail with an error number; 0 ends that.
    pub fn fail_writes(&self, error: i32) {
        self.faults.write_error.store(error, Ordering::Relaxed);
    }

    /// Lets every read of a file fail with an error number; 0 ends that.
    pub fn fail_reads(&self, error: i32) {
        self.faults.read_error.store(error, Ordering::Relaxed);
    }

    /// Answers writes without keeping what they bring, or no longer.
    pub fn lose_writes(&self, loses: bool) {
        self.faults.writes_left.store(0, Ordering::Relaxed);
        self.faults.loses_writes.store(loses, Ordering::Relaxed);
    }

    /// Keeps so many of the next writes and loses those after them, as when the power fails then.
    /// [`Self::lose_writes`] ends it.
    pub fn lose_writes_after(&self, count: u64) {
        self.faults.writes_left.store(count, Ordering::Relaxed);
        self.faults.loses_writes.store(true, Ordering::Relaxed);
    }

    /// Lets every fsync fail with an error number; 0 ends that.
    pub fn fail_fsync(&self, error: i32) {
        self.faults.fsync_error.store(error, Ordering::Relaxed);
    }

    /// Lets every fsync take so long.
    pub fn delay_fsync(&self, delay: Duration) {
        self.faults.fsync_delay_ms.store(delay.as_millis() as u64, Ordering::Relaxed);
    }

    /// How many writes came, also those that failed or were lost, and how many bytes they brought.
    pub fn writes(&self) -> (u64, u64) {
        let (writes, bytes) = (&self.faults.writes, &self.faults.written_bytes);
        (writes.load(Ordering::Relaxed), bytes.load(Ordering::Relaxed))
    }

    /// How many times somebody asked for fsync.
    pub fn fsyncs(&self) -> u64 {
        self.faults.fsyncs.load(Ordering::Relaxed)
    }
}

/// Open, or shut while the file system stalls.
#[derive(Debug, Default)]
struct Gate {
    is_shut: Mutex<bool>,
    opened: Condvar,
}

impl Gate {
    fn pass(&self) {
        let shut = lock(&self.is_shut);
        drop(self.opened.wait_while(shut, |shut| *shut).unwrap_or_else(PoisonError::into_inner));
    }
}

/// A file system answers nothing.
#[derive(Debug)]
pub struct Stall(Arc<Faults>);

impl Drop for Stall {
    fn drop(&mut self) {
        *lock(&self.0.gate.is_shut) = false;
        self.0.gate.opened.notify_all();
    }
}

impl Faults {
    fn free_bytes(&self, taken: u64) -> u64 {
        let taken = taken + self.eaten_bytes.load(Ordering::Relaxed);
        self.size_bytes.load(Ordering::Relaxed).saturating_sub(taken)
    }

    fn loses_this_write(&self) -> bool {
        let is_kept = || {
            let (order, left) = (Ordering::Relaxed, &self.writes_left);
            left.fetch_update(order, order, |left| left.checked_sub(1)).is_ok()
        };
        self.loses_writes.load(Ordering::Relaxed) && !is_kept()
    }

    /// Whether this write or flush is to fail.
    fn check(&self, error: &AtomicI32) -> Result<(), Errno> {
        let left = &self.failures_left;
        let failed = left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1));
        match (failed, error.load(Ordering::Relaxed)) {
            (Ok(_), _) => Err(Errno::EIO),
            (Err(_), 0) => Ok(()),
            (Err(_), error) => Err(Errno::from_i32(error)),
        }
    }
}

/// A thread that panicked left whole what it had locked.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One file, and which of its blocks have space.
#[derive(Debug)]
struct Kept {
    file: File,
    space: Mutex<Space>,
}

/// By block whether it has space, and how many have.
#[derive(Debug, Default)]
struct Space {
    has_space: Vec<bool>,
    blocks: u64,
}

impl Space {
    fn truncate(&mut self, blocks: usize) {
        let cut = self.has_space.get(blocks..).unwrap_or_default();
        self.blocks -= cut.iter().filter(|has_space| **has_space).count() as u64;
        self.has_space.truncate(blocks);
    }
}

impl Kept {
    fn allocated(&self) -> u64 {
        lock(&self.space).blocks * BLOCK
    }

    /// Gives a part of it its space, if there is enough for what has none yet.
    fn take_space(&self, free: u64, offset: u64, length: u64) -> Result<(), Errno> {
        let mut space = lock(&self.space);
        let range = (offset / BLOCK) as usize..(offset + length).div_ceil(BLOCK) as usize;
        if space.has_space.len() < range.end {
            space.has_space.resize(range.end, false);
        }
        let part = &mut space.has_space[range];
        let missing = part.iter().filter(|has_space| !**has_space).count() as u64;
        if missing * BLOCK > free {
            return Err(Errno::ENOSPC);
        }
        part.fill(true);
        space.blocks += missing;
        Ok(())
    }
}

/// What has a name.
#[derive(Debug)]
enum Node {
    Folder(BTreeMap<OsString, u64>),
    File(Arc<Kept>),
    Socket,
}

#[derive(Debug)]
struct Tree {
    backing: PathBuf,
    nodes: HashMap<u64, Node>,
    last: u64,
}

impl Tree {
    fn new(backing: &Path) -> Self {
        let root = (INodeNo::ROOT.0, Node::Folder(BTreeMap::new()));
        Self { backing: backing.to_owned(), nodes: HashMap::from([root]), last: INodeNo::ROOT.0 }
    }

    fn taken_bytes(&self) -> u64 {
        let kept = self.nodes.values().filter_map(|node| match node {
            Node::File(kept) => Some(kept.allocated()),
            Node::Folder(_) | Node::Socket => None,
        });
        kept.sum()
    }

    fn folder(&mut self, number: INodeNo) -> Result<&mut BTreeMap<OsString, u64>, Errno> {
        match self.nodes.get_mut(&number.0) {
            Some(Node::Folder(entries)) => Ok(entries),
            Some(_) => Err(Errno::ENOTDIR),
            None => Err(Errno::ENOENT),
        }
    }

    fn file(&self, number: INodeNo) -> Result<Arc<Kept>, Errno> {
        match self.nodes.get(&number.0) {
            Some(Node::File(kept)) => Ok(Arc::clone(kept)),
            Some(_) => Err(Errno::EISDIR),
            None => Err(Errno::ENOENT),
        }
    }

    fn look_up(&mut self, parent: INodeNo, name: &OsStr) -> Result<INodeNo, Errno> {
        self.folder(parent)?.get(name).map(|&number| INodeNo(number)).ok_or(Errno::ENOENT)
    }

    fn make(&mut self, parent: INodeNo, name: &OsStr, node: Node) -> Result<FileAttr, Errno> {
        self.last += 1;
        let number = self.last;
        self.put(parent, name, number)?;
        self.nodes.insert(number, node);
        self.attributes(INodeNo(number))
    }

    fn make_file(&mut self, parent: INodeNo, name: &OsStr) -> Result<FileAttr, Errno> {
        let file = tempfile::tempfile_in(&self.backing)?;
        let kept = Kept { file, space: Mutex::default() };
        self.make(parent, name, Node::File(Arc::new(kept)))
    }

    /// Gives a node a name; what had it before is gone.
    fn put(&mut self, parent: INodeNo, name: &OsStr, number: u64) -> Result<(), Errno> {
        let before = self.folder(parent)?.insert(name.to_owned(), number);
        before.into_iter().for_each(|before| self.drop_space(before));
        Ok(())
    }

    fn remove(&mut self, parent: INodeNo, name: &OsStr) -> Result<(), Errno> {
        let removed = self.folder(parent)?.remove(name).ok_or(Errno::ENOENT)?;
        self.drop_space(removed);
        Ok(())
    }

    /// What is open stays until the end, and takes nothing of the size.
    fn drop_space(&self, number: u64) {
        if let Some(Node::File(kept)) = self.nodes.get(&number) {
            lock(&kept.space).truncate(0);
        }
    }

    fn attributes(&self, number: INodeNo) -> Result<FileAttr, Errno> {
        let (kind, size, blocks) = match self.nodes.get(&number.0).ok_or(Errno::ENOENT)? {
            Node::Folder(_) => (FileType::Directory, 0, 0),
            Node::File(kept) => {
                (FileType::RegularFile, kept.file.metadata()?.len(), kept.allocated() / 512)
            }
            Node::Socket => (FileType::Socket, 0, 0),
        };
        Ok(FileAttr {
            ino: number,
            size,
            blocks,
            atime: UNIX_EPOCH,
            mtime: UNIX_EPOCH,
            ctime: UNIX_EPOCH,
            crtime: UNIX_EPOCH,
            kind,
            perm: 0o700,
            nlink: 1,
            uid: rustix::process::getuid().as_raw(),
            gid: rustix::process::getgid().as_raw(),
            rdev: 0,
            blksize: BLOCK as u32,
            flags: 0,
        })
    }
}

struct Files {
    faults: Arc<Faults>,
    tree: Arc<Mutex<Tree>>,
}

impl Files {
    fn tree(&self) -> MutexGuard<'_, Tree> {
        lock(&self.tree)
    }

    /// A file, once the gate lets through.
    fn file(&self, inode: INodeNo) -> Result<Arc<Kept>, Errno> {
        self.faults.gate.pass();
        self.tree().file(inode)
    }

    /// What is asked about files waits at the gate; folders answer.
    fn attributes(&self, inode: INodeNo) -> Result<FileAttr, Errno> {
        let is_file = self.tree().file(inode).is_ok();
        if is_file {
            self.faults.gate.pass();
        }
        self.tree().attributes(inode)
    }

    fn resize(&self, inode: INodeNo, size: u64) -> Result<(), Errno> {
        let kept = self.file(inode)?;
        kept.file.set_len(size)?;
        lock(&kept.space).truncate(size.div_ceil(BLOCK) as usize);
        Ok(())
    }

    fn read_at(&self, inode: INodeNo, offset: u64, size: u32) -> Result<Vec<u8>, Errno> {
        let kept = self.file(inode)?;
        match self.faults.read_error.load(Ordering::Relaxed) {
            0 => {}
            error => return Err(Errno::from_i32(error)),
        }
        let mut bytes = vec![0; size as usize];
        let length = kept.file.read_at(&mut bytes, offset)?;
        bytes.truncate(length);
        Ok(bytes)
    }

    fn write_at(&self, inode: INodeNo, offset: u64, data: &[u8]) -> Result<(), Errno> {
        let kept = self.file(inode)?;
        self.faults.writes.fetch_add(1, Ordering::Relaxed);
        self.faults.written_bytes.fetch_add(data.len() as u64, Ordering::Relaxed);
        self.faults.check(&self.faults.write_error)?;
        self.take_space(&kept, offset, data.len() as u64)?;
        if self.faults.loses_this_write() {
            return Ok(());
        }
        Ok(kept.file.write_all_at(data, offset)?)
    }

    fn take_space(&self, kept: &Kept, offset: u64, length: u64) -> Result<(), Errno> {
        let free = self.faults.free_bytes(self.tree().taken_bytes());
        kept.take_space(free, offset, length)
    }

    fn sync(&self, reply: ReplyEmpty) {
        self.faults.gate.pass();
        self.faults.fsyncs.fetch_add(1, Ordering::Relaxed);
        let delay = self.faults.fsync_delay_ms.load(Ordering::Relaxed);
        std::thread::sleep(Duration::from_millis(delay));
        empty(self.faults.check(&self.faults.fsync_error), reply);
    }
}

fn entry(made: Result<FileAttr, Errno>, reply: ReplyEntry) {
    match made {
        Ok(attributes) => reply.entry(&TIME_TO_LIVE, &attributes, Generation(0)),
        Err(error) => reply.error(error),
    }
}

fn empty(done: Result<(), Errno>, reply: ReplyEmpty) {
    match done {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(error),
    }
}

impl Filesystem for Files {
    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let number = self.tree().look_up(parent, name);
        entry(number.and_then(|number| self.attributes(number)), reply);
    }

    fn getattr(&self, _: &Request, inode: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.attributes(inode) {
            Ok(attributes) => reply.attr(&TIME_TO_LIVE, &attributes),
            Err(error) => reply.error(error),
        }
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        let (size, taken) = (&self.faults.size_bytes, self.tree().taken_bytes());
        let blocks = size.load(Ordering::Relaxed) / BLOCK;
        let free = self.faults.free_bytes(taken) / BLOCK;
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
        let sized = size.map_or(Ok(()), |size| self.resize(inode, size));
        match sized.and_then(|()| self.attributes(inode)) {
            Ok(attributes) => reply.attr(&TIME_TO_LIVE, &attributes),
            Err(error) => reply.error(error),
        }
    }

    fn mknod(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        _: u32,
        _: u32,
        _: u32,
        reply: ReplyEntry,
    ) {
        entry(self.tree().make(parent, name, Node::Socket), reply);
    }

    fn mkdir(&self, _: &Request, parent: INodeNo, name: &OsStr, _: u32, _: u32, reply: ReplyEntry) {
        entry(self.tree().make(parent, name, Node::Folder(BTreeMap::new())), reply);
    }

    fn create(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        _: u32,
        _: u32,
        _: i32,
        reply: ReplyCreate,
    ) {
        match self.tree().make_file(parent, name) {
            Ok(attributes) => {
                let (generation, flags) = (Generation(0), FopenFlags::FOPEN_DIRECT_IO);
                reply.created(&TIME_TO_LIVE, &attributes, generation, FileHandle(0), flags);
            }
            Err(error) => reply.error(error),
        }
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        empty(self.tree().remove(parent, name), reply);
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        _: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let mut tree = self.tree();
        let renamed = tree.look_up(parent, name).and_then(|number| {
            tree.folder(parent)?.remove(name);
            tree.put(new_parent, new_name, number.0)
        });
        empty(renamed, reply);
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
        match self.read_at(inode, offset, size) {
            Ok(bytes) => reply.data(&bytes),
            Err(error) => reply.error(error),
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
        match self.write_at(inode, offset, data) {
            Ok(()) => reply.written(data.len() as u32),
            Err(error) => reply.error(error),
        }
    }

    fn readdir(
        &self,
        _: &Request,
        inode: INodeNo,
        _: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let mut tree = self.tree();
        let entries = match tree.folder(inode) {
            Ok(entries) => entries.clone(),
            Err(error) => return reply.error(error),
        };
        for (index, (name, number)) in entries.into_iter().enumerate().skip(offset as usize) {
            let number = INodeNo(number);
            let kind = tree.attributes(number).map_or(FileType::RegularFile, |found| found.kind);
            if reply.add(number, index as u64 + 1, kind, &name) {
                break;
            }
        }
        reply.ok();
    }

    fn fsync(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        self.sync(reply);
    }

    fn fsyncdir(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        self.sync(reply);
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
        let taken = self.file(inode).and_then(|kept| self.take_space(&kept, offset, length));
        empty(taken, reply);
    }
}
