//! Thread-pool back end (pread, pwritev), the fallback where io_uring is not allowed.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use block::{Buffer, DeviceError, DeviceOperation, DeviceResult, Rope};

use crate::backend::{Backend, Grow};
use crate::backing::Backing;
use crate::device::Completion;
use crate::fence::{Fence, Reservation};
use crate::file::{self, Lock, OpenFile};
use crate::limits::{PIECES_MAX, THREADS};
use crate::notify::Notify;
use crate::presence::{self, Presence};

/// State shared by the threads and their owner.
struct Shared {
    file: File,
    /// Its path when it was opened.
    path: PathBuf,
    write_through: bool,
    /// Held longer than the threads work.
    lock: Arc<Lock>,
    queues: Mutex<Queues>,
    work: Condvar,
    notify: Notify,
}

#[derive(Default)]
struct Queues {
    waiting: VecDeque<(u64, DeviceOperation)>,
    done: Vec<Completion>,
    /// The file, and the file system under it, are to be looked at.
    look: bool,
    backing: Option<Backing>,
    presence: Presence,
    size_bytes: u64,
    stop: bool,
}

/// Unit of work for a thread.
enum Task {
    Execute(u64, DeviceOperation),
    Look,
    Stop,
}

/// A pool of threads.
pub(crate) struct Threads {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

impl Threads {
    pub(crate) fn new(open: &OpenFile, notify: &Notify) -> io::Result<Self> {
        Self::with_threads(open.file.try_clone()?, open, notify, THREADS)
    }

    pub(crate) fn with_threads(
        file: File,
        open: &OpenFile,
        notify: &Notify,
        count: usize,
    ) -> io::Result<Self> {
        let (size_bytes, backing) = (open.size_bytes, look(&open.file, None));
        let queues = Queues { backing, size_bytes, ..Queues::default() };
        let shared = Arc::new(Shared {
            path: presence::link_of(&file).unwrap_or_default(),
            file,
            write_through: open.write_through,
            lock: Arc::clone(&open.lock),
            queues: Mutex::new(queues),
            work: Condvar::new(),
            notify: notify.clone(),
        });
        let mut pool = Self { shared, threads: Vec::new() };
        for _ in 0..count {
            let shared = Arc::clone(&pool.shared);
            let thread = std::thread::Builder::new().name("device".to_owned());
            pool.threads.push(thread.spawn(move || shared.serve())?);
        }
        Ok(pool)
    }
}

impl Backend for Threads {
    fn size_bytes(&self) -> u64 {
        self.shared.lock().size_bytes
    }

    fn submit(&mut self, id: u64, operation: DeviceOperation) {
        self.shared.lock().waiting.push_back((id, operation));
        self.shared.work.notify_one();
    }

    fn reap(&mut self, completions: &mut Vec<Completion>) {
        completions.append(&mut self.shared.lock().done);
    }

    fn readiness(&self) -> BorrowedFd<'_> {
        self.shared.notify.as_fd()
    }

    fn growth(&self) -> io::Result<Grow> {
        self.shared.file.try_clone().map(file::growth_of)
    }

    fn take_growth(&mut self, size_bytes: u64) {
        self.shared.lock().size_bytes = size_bytes;
    }

    /// A thread looks; [`Backend::backing`] says later what it found.
    fn look_at_backing(&self) {
        self.shared.lock().look = true;
        self.shared.work.notify_one();
    }

    fn backing(&self) -> Option<Backing> {
        self.shared.lock().backing.clone()
    }

    fn presence(&self) -> Presence {
        self.shared.lock().presence
    }

    fn fence(&self) -> Fence {
        match self.shared.lock.reservation {
            Some(_) => Fence::Reservation,
            None => Fence::ThisMachine,
        }
    }

    fn identity(&self) -> Option<String> {
        self.shared.lock.reservation.as_ref().map(Reservation::identity)
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.shared.lock().stop = true;
        self.shared.work.notify_all();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queues> {
        // The queues are whole between any two statements that hold the lock.
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn serve(&self) {
        loop {
            match self.next_task() {
                Task::Execute(id, operation) => {
                    let result = self.execute(operation);
                    self.lock().done.push((id, result));
                    self.notify.ring();
                }
                Task::Look => {
                    let queues = self.lock();
                    let (before, size_bytes) = (queues.backing.clone(), queues.size_bytes);
                    drop(queues);
                    let backing = look(&self.file, before);
                    let presence = self.presence(size_bytes);
                    let mut queues = self.lock();
                    (queues.backing, queues.presence) = (backing, presence);
                }
                Task::Stop => return,
            }
        }
    }

    fn presence(&self, size_bytes: u64) -> Presence {
        match &self.lock.reservation {
            Some(reservation) if reservation.is_lost() => Presence::Fenced,
            Some(_) | None => Presence::of(&self.file, &self.path, size_bytes),
        }
    }

    fn next_task(&self) -> Task {
        let mut queues = self.lock();
        loop {
            if std::mem::take(&mut queues.look) {
                return Task::Look;
            }
            if let Some((id, operation)) = queues.waiting.pop_front() {
                return Task::Execute(id, operation);
            }
            if queues.stop {
                return Task::Stop;
            }
            queues = self.work.wait(queues).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn execute(&self, operation: DeviceOperation) -> DeviceResult {
        match operation {
            DeviceOperation::Read { offset, buffer } => read(&self.file, offset, buffer),
            DeviceOperation::Write { offset, data } => write(&self.file, offset, &data),
            DeviceOperation::Flush if self.write_through => Ok(None),
            DeviceOperation::Flush => self.file.sync_data().map(|()| None).map_err(os),
            DeviceOperation::Reserve { offset, length } => reserve(&self.file, offset, length),
        }
    }
}

pub(crate) fn os(error: io::Error) -> DeviceError {
    DeviceError::Os(error.raw_os_error().unwrap_or(rustix::io::Errno::IO.raw_os_error()))
}

/// Why a write failed. EBADE: the device answered RESERVATION CONFLICT.
pub(crate) fn write_error(errno: i32) -> DeviceError {
    if errno == libc::EBADE { DeviceError::Fenced } else { DeviceError::Os(errno) }
}

fn read(file: &File, offset: u64, mut buffer: Buffer) -> DeviceResult {
    match file.read_exact_at(&mut buffer, offset) {
        Ok(()) => Ok(Some(buffer)),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
            Err(DeviceError::BeyondEnd { end: offset + buffer.len() as u64 })
        }
        Err(error) => Err(os(error)),
    }
}

/// Asks the file system of a file; `None` if it cannot be asked.
fn look(file: &File, before: Option<Backing>) -> Option<Backing> {
    Backing::of(file, before).ok().flatten()
}

/// Bytes that are asked for even where there seems to be no space: they may be there already. More
/// are asked for only for what is new.
const ASKED_AT_ONCE: u64 = 256 << 20;

/// Free bytes of a file system for a process without privileges.
fn free_bytes(file: &File) -> Option<u64> {
    let space = rustix::fs::fstatvfs(file).ok()?;
    Some(space.f_bavail.saturating_mul(space.f_frsize))
}

/// Sets space of a sparse file aside. A file system may take what it has before it finds that it is
/// not enough, so that much is asked for only if it is there. Where nothing can be set aside, nothing needs to be.
fn reserve(file: &File, offset: u64, length: u64) -> DeviceResult {
    use rustix::io::Errno;
    if length > ASKED_AT_ONCE && free_bytes(file).is_some_and(|free| free < length) {
        return Err(os(Errno::NOSPC.into()));
    }
    match rustix::fs::fallocate(file, rustix::fs::FallocateFlags::KEEP_SIZE, offset, length) {
        Ok(()) | Err(Errno::OPNOTSUPP | Errno::NODEV | Errno::SPIPE | Errno::NOSYS) => Ok(None),
        Err(error) => Err(write_error(error.raw_os_error())),
    }
}

fn write(file: &File, mut offset: u64, data: &Rope) -> DeviceResult {
    let mut written = 0;
    while written < data.len() {
        let rest = data.slice(written, data.len() - written);
        let pieces: Vec<_> =
            rest.pieces().iter().take(PIECES_MAX).map(|piece| IoSlice::new(piece)).collect();
        let count = rustix::io::pwritev(file, &pieces, offset)
            .map_err(|error| write_error(error.raw_os_error()))?;
        written += count;
        offset += count as u64;
    }
    Ok(None)
}
