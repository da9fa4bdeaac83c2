//! io_uring back end for files and block devices.
//!
//! Reads into, and writes from, the process's buffer arena use its registration with the kernel;
//! other memory is passed by address. A flush is an fdatasync in a thread of its own: on the ring
//! it would go to a kernel worker, which is slower.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use block::{Buffer, DeviceError, DeviceOperation, Rope};
use io_uring::{IoUring, opcode, squeue, types};
use slab::Slab;

use crate::backend::{Backend, Grow};
use crate::backing::Backing;
use crate::device::Completion;
use crate::fence::Fence;
use crate::file::{self, OpenFile};
use crate::limits::{PIECES_MAX, QUEUE_DEPTH_MAX};
use crate::notify::Notify;
use crate::presence::Presence;
use crate::threads::{Threads, write_error};

/// The registered file and buffer are the first of their kind.
const FILE: types::Fixed = types::Fixed(0);
const ARENA: u16 = 0;

/// An operation that the kernel has, and the memory it was lent.
struct InFlight {
    id: u64,
    offset: u64,
    memory: Memory,
    /// Bytes that are done, when the kernel stopped short.
    done: usize,
}

enum Memory {
    Read(Buffer),
    /// The vector must stay where it is while the kernel reads it.
    Write(Rope, Vec<libc::iovec>),
}

// SAFETY: the pointers lead into the buffers of the rope beside them, which may be handed to
// another thread (block::Buffer is Send), and nobody but the kernel uses them.
unsafe impl Send for Memory {}

/// A ring and its file.
pub(crate) struct Ring {
    /// Dropped first, so that the kernel is done with the memory in `in_flight`.
    ring: IoUring,
    file: File,
    size_bytes: u64,
    in_flight: Slab<InFlight>,
    waiting: VecDeque<(u64, DeviceOperation)>,
    failed: Vec<Completion>,
    flusher: Threads,
    /// Address and length of the registered arena.
    arena: (usize, usize),
}

impl Ring {
    pub(crate) fn new(open: &OpenFile, notify: &Notify) -> io::Result<Self> {
        let file = open.file.try_clone()?;
        let ring = IoUring::builder().setup_clamp().build(QUEUE_DEPTH_MAX)?;
        ring.submitter().register_files(&[file.as_raw_fd()])?;
        ring.submitter().register_eventfd(std::os::fd::AsFd::as_fd(notify).as_raw_fd())?;
        let arena = register_arena(&ring);
        let flusher = Threads::with_threads(file.try_clone()?, open, notify, 1)?;
        let size_bytes = open.size_bytes;
        let (in_flight, waiting, failed) = (Slab::new(), VecDeque::new(), Vec::new());
        Ok(Self { ring, file, size_bytes, in_flight, waiting, failed, flusher, arena })
    }

    /// Queues what is left of an operation.
    fn push(&mut self, key: usize) {
        let arena = self.arena;
        let entry = self.in_flight[key].entry(arena).user_data(key as u64);
        loop {
            // SAFETY: the memory belongs to `in_flight[key]`, which stays until the kernel has
            // completed the entry; a buffer is not touched meanwhile, as nobody else owns it.
            if unsafe { self.ring.submission().push(&entry) }.is_ok() {
                return;
            }
            self.kick();
        }
    }

    fn complete(&mut self, key: usize, result: i32, completions: &mut Vec<Completion>) {
        let length = self.in_flight[key].length();
        let operation = &mut self.in_flight[key];
        let again = result == -libc::EAGAIN || result == -libc::EINTR;
        if result > 0 {
            operation.done += result as usize;
        }
        if again || (result > 0 && operation.done < length) {
            return self.push(key);
        }
        let InFlight { id, offset, memory, done } = self.in_flight.remove(key);
        let result = match (result, memory) {
            (..0, Memory::Write(..)) => Err(write_error(-result)),
            (..0, _) => Err(DeviceError::Os(-result)),
            (_, Memory::Read(buffer)) if done == length => Ok(Some(buffer)),
            (_, Memory::Write(..)) if done == length => Ok(None),
            _ => Err(DeviceError::BeyondEnd { end: offset + length as u64 }),
        };
        completions.push((id, result));
    }
}

impl Backend for Ring {
    fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    fn submit(&mut self, id: u64, operation: DeviceOperation) {
        if matches!(operation, DeviceOperation::Flush | DeviceOperation::Reserve { .. }) {
            return self.flusher.submit(id, operation);
        }
        if self.in_flight.len() >= QUEUE_DEPTH_MAX as usize {
            return self.waiting.push_back((id, operation));
        }
        let (offset, memory, end) = match operation {
            DeviceOperation::Read { offset, buffer } => {
                let end = offset + buffer.len() as u64;
                (offset, Memory::Read(buffer), end)
            }
            DeviceOperation::Write { offset, data } => {
                let end = offset + data.len() as u64;
                (offset, Memory::Write(data, Vec::new()), end)
            }
            DeviceOperation::Flush | DeviceOperation::Reserve { .. } => return,
        };
        if end > self.size_bytes {
            return self.failed.push((id, Err(DeviceError::BeyondEnd { end })));
        }
        let key = self.in_flight.insert(InFlight { id, offset, memory, done: 0 });
        self.push(key);
    }

    fn kick(&mut self) {
        if self.ring.submission().is_empty() {
            return;
        }
        // Entries that could not be submitted stay queued, and the next kick tries again.
        let _ = self.ring.submit();
    }

    fn reap(&mut self, completions: &mut Vec<Completion>) {
        completions.append(&mut self.failed);
        self.flusher.reap(completions);
        let done: smallvec::SmallVec<[(u64, i32); 64]> =
            self.ring.completion().map(|entry| (entry.user_data(), entry.result())).collect();
        for (key, result) in done {
            self.complete(key as usize, result, completions);
        }
        while self.in_flight.len() < QUEUE_DEPTH_MAX as usize
            && let Some((id, operation)) = self.waiting.pop_front()
        {
            self.submit(id, operation);
        }
        self.kick();
    }

    fn readiness(&self) -> BorrowedFd<'_> {
        self.flusher.readiness()
    }

    fn growth(&self) -> io::Result<Grow> {
        self.file.try_clone().map(file::growth_of)
    }

    fn take_growth(&mut self, size_bytes: u64) {
        self.size_bytes = size_bytes;
        self.flusher.take_growth(size_bytes);
    }

    fn look_at_backing(&self) {
        self.flusher.look_at_backing();
    }

    fn backing(&self) -> Option<Backing> {
        self.flusher.backing()
    }

    fn presence(&self) -> Presence {
        self.flusher.presence()
    }

    fn fence(&self) -> Fence {
        self.flusher.fence()
    }

    fn identity(&self) -> Option<String> {
        self.flusher.identity()
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // The kernel may still write to memory that is about to be freed; wait until it is done.
        while !self.in_flight.is_empty() {
            if self.ring.submit_and_wait(1).is_err() {
                // Leaking the memory is safe; freeing it would not be.
                std::mem::forget(std::mem::take(&mut self.in_flight));
                return;
            }
            let done: Vec<u64> = self.ring.completion().map(|entry| entry.user_data()).collect();
            for key in done {
                self.in_flight.try_remove(key as usize);
            }
        }
    }
}

impl InFlight {
    fn length(&self) -> usize {
        match &self.memory {
            Memory::Read(buffer) => buffer.len(),
            Memory::Write(data, _) => data.len(),
        }
    }

    /// The kernel's description of what is left to do.
    fn entry(&mut self, arena: (usize, usize)) -> squeue::Entry {
        let offset = self.offset + self.done as u64;
        let in_arena = |address: usize, length: usize| {
            address >= arena.0 && address + length <= arena.0 + arena.1
        };
        match &mut self.memory {
            Memory::Read(buffer) => {
                let rest = &mut buffer[self.done..];
                let (address, length) = (rest.as_mut_ptr(), rest.len());
                if in_arena(address.addr(), length) {
                    let read = opcode::ReadFixed::new(FILE, address, length as u32, ARENA);
                    return read.offset(offset).build();
                }
                opcode::Read::new(FILE, address, length as u32).offset(offset).build()
            }
            Memory::Write(data, vector) => {
                let rest = data.slice(self.done, data.len() - self.done);
                if let [piece] = rest.pieces() {
                    let (address, length) = (piece.as_ptr(), piece.len());
                    if in_arena(address.addr(), length) {
                        let write = opcode::WriteFixed::new(FILE, address, length as u32, ARENA);
                        return write.offset(offset).build();
                    }
                    return opcode::Write::new(FILE, address, length as u32).offset(offset).build();
                }
                let pieces = rest.pieces().iter().take(PIECES_MAX);
                *vector = pieces
                    .map(|piece| libc::iovec {
                        iov_base: piece.as_ptr().cast_mut().cast(),
                        iov_len: piece.len(),
                    })
                    .collect();
                opcode::Writev::new(FILE, vector.as_ptr(), vector.len() as u32)
                    .offset(offset)
                    .build()
            }
        }
    }
}

/// Makes the buffer arena known to the kernel, so that it need not look up its pages for each
/// operation. Without it everything works, slower.
fn register_arena(ring: &IoUring) -> (usize, usize) {
    let Some((base, length)) = block::installed_arena() else { return (0, 0) };
    let vector = libc::iovec { iov_base: base.cast_mut().cast(), iov_len: length };
    // SAFETY: the arena is never freed.
    match unsafe { ring.submitter().register_buffers(&[vector]) } {
        Ok(()) => (base.addr(), length),
        Err(_) => (0, 0),
    }
}
