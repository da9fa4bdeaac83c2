//! Fault injection for a whole directory: a FUSE file system in memory whose fsync waits, or fails,
//! as a test says. Everything else answers at once.

use std::collections::{BTreeMap, HashMap};
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use fuser::{
    BackgroundSession, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags,
    Generation, INodeNo, LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData,
    ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyWrite, Request, TimeOrNow, WriteFlags,
};
use tempfile::TempDir;

/// The kernel is to ask again each time.
const TIME_TO_LIVE: Duration = Duration::ZERO;

/// A mounted file system of files, folders and sockets.
///
/// Needs /dev/fuse, and root or fusermount.
#[derive(Debug)]
pub struct SlowFolder {
    faults: Arc<Faults>,
    // Unmounted before its folder is removed.
    _mount: BackgroundSession,
    folder: TempDir,
}

/// What fsync does.
#[derive(Debug, Default)]
struct Faults {
    delay_ms: AtomicU64,
    /// The error number that it fails with; 0 for none.
    error: AtomicI32,
    count: AtomicU64,
}

impl SlowFolder {
    /// Mounts an empty one.
    ///
    /// # Errors
    /// When this machine does not mount FUSE file systems.
    pub fn mount() -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("gantry-test-").tempdir()?;
        let mounted = folder.path().join("mounted");
        std::fs::create_dir(&mounted)?;
        let faults = Arc::<Faults>::default();
        let files = Files { faults: Arc::clone(&faults), tree: Mutex::new(Tree::new()) };
        let mount = fuser::spawn_mount(files, &mounted, &Config::default())
            .context("cannot mount a FUSE file system: this needs /dev/fuse, and root or fuse3")?;
        Ok(Self { faults, _mount: mount, folder })
    }

    /// Where it is.
    pub fn path(&self) -> PathBuf {
        self.folder.path().join("mounted")
    }

    /// Lets every fsync take so long.
    pub fn delay_fsync(&self, delay: Duration) {
        self.faults.delay_ms.store(delay.as_millis() as u64, Ordering::Relaxed);
    }

    /// Lets every fsync fail with an error number; 0 ends that.
    pub fn fail_fsync(&self, error: i32) {
        self.faults.error.store(error, Ordering::Relaxed);
    }

    /// How many times somebody asked for fsync.
    pub fn fsyncs(&self) -> u64 {
        self.faults.count.load(Ordering::Relaxed)
    }
}

/// What has a name.
enum Node {
    Folder(BTreeMap<OsString, u64>),
    File(Vec<u8>),
    Socket,
}

struct Tree {
    nodes: HashMap<u64, Node>,
    last: u64,
}

impl Tree {
    fn new() -> Self {
        let root = (INodeNo::ROOT.0, Node::Folder(BTreeMap::new()));
        Self { nodes: HashMap::from([root]), last: INodeNo::ROOT.0 }
    }

    fn folder(&mut self, number: INodeNo) -> Result<&mut BTreeMap<OsString, u64>, Errno> {
        match self.nodes.get_mut(&number.0) {
            Some(Node::Folder(entries)) => Ok(entries),
            Some(_) => Err(Errno::ENOTDIR),
            None => Err(Errno::ENOENT),
        }
    }

    fn file(&mut self, number: INodeNo) -> Result<&mut Vec<u8>, Errno> {
        match self.nodes.get_mut(&number.0) {
            Some(Node::File(bytes)) => Ok(bytes),
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
        self.folder(parent)?.insert(name.to_owned(), number);
        self.nodes.insert(number, node);
        self.attributes(INodeNo(number))
    }

    fn attributes(&self, number: INodeNo) -> Result<FileAttr, Errno> {
        let (kind, size) = match self.nodes.get(&number.0).ok_or(Errno::ENOENT)? {
            Node::Folder(_) => (FileType::Directory, 0),
            Node::File(bytes) => (FileType::RegularFile, bytes.len() as u64),
            Node::Socket => (FileType::Socket, 0),
        };
        Ok(FileAttr {
            ino: number,
            size,
            blocks: size.div_ceil(512),
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
            blksize: 4096,
            flags: 0,
        })
    }
}

struct Files {
    faults: Arc<Faults>,
    tree: Mutex<Tree>,
}

impl Files {
    /// A thread that panicked left whole what it had locked.
    fn tree(&self) -> MutexGuard<'_, Tree> {
        self.tree.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn sync(&self, reply: ReplyEmpty) {
        self.faults.count.fetch_add(1, Ordering::Relaxed);
        std::thread::sleep(Duration::from_millis(self.faults.delay_ms.load(Ordering::Relaxed)));
        match self.faults.error.load(Ordering::Relaxed) {
            0 => reply.ok(),
            error => reply.error(Errno::from_i32(error)),
        }
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
        let mut tree = self.tree();
        let found = tree.look_up(parent, name).and_then(|number| tree.attributes(number));
        entry(found, reply);
    }

    fn getattr(&self, _: &Request, inode: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.tree().attributes(inode) {
            Ok(attributes) => reply.attr(&TIME_TO_LIVE, &attributes),
            Err(error) => reply.error(error),
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
        let mut tree = self.tree();
        let sized = match size {
            Some(size) => tree.file(inode).map(|bytes| bytes.resize(size as usize, 0)),
            None => Ok(()),
        };
        match sized.and_then(|()| tree.attributes(inode)) {
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
        match self.tree().make(parent, name, Node::File(Vec::new())) {
            Ok(attributes) => {
                let (generation, flags) = (Generation(0), FopenFlags::FOPEN_DIRECT_IO);
                reply.created(&TIME_TO_LIVE, &attributes, generation, FileHandle(0), flags);
            }
            Err(error) => reply.error(error),
        }
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        // What is open stays until the end.
        let mut tree = self.tree();
        let removed = tree
            .folder(parent)
            .and_then(|entries| entries.remove(name).map(drop).ok_or(Errno::ENOENT));
        empty(removed, reply);
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
            tree.folder(new_parent)?.insert(new_name.to_owned(), number.0);
            Ok(())
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
        match self.tree().file(inode) {
            Ok(bytes) => {
                let from = bytes.len().min(offset as usize);
                let to = bytes.len().min(from + size as usize);
                reply.data(&bytes[from..to]);
            }
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
        match self.tree().file(inode) {
            Ok(bytes) => {
                let (from, to) = (offset as usize, offset as usize + data.len());
                bytes.resize(bytes.len().max(to), 0);
                bytes[from..to].copy_from_slice(data);
                reply.written(data.len() as u32);
            }
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
}
