//! Device kind `memory:`, a RAM disk for benchmarks and tests: its content is gone when it is
//! dropped.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use block::{BLOCK, Buffer, DeviceError, DeviceOperation, DeviceResult, Rope};

use super::{Kind, nothing_to_remove, unknown_size};
use crate::backend::{Backend, Grow};
use crate::device::Completion;
use crate::error::OpenError;
use crate::notify::Notify;

pub(super) const KIND: Kind = Kind {
    open: |_, size_bytes, _, _| make(size_bytes),
    create: |_, size_bytes, _| make(size_bytes),
    size_bytes: unknown_size,
    remove: nothing_to_remove,
};

fn make(size_bytes: u64) -> Result<Box<dyn Backend>, OpenError> {
    let os = |source| OpenError::Os { path: "memory:".into(), what: "wait for it", source };
    Ok(Box::new(Memory::new(size_bytes).map_err(os)?))
}

/// Bytes of address space that are mapped together, when the first of them is written; memory comes
/// with each huge page that is touched.
const CHUNK: u64 = 32 << 20;

/// Memory, in chunks.
#[derive(Debug)]
struct Memory {
    chunks: Vec<Option<Buffer>>,
    size_bytes: u64,
    done: VecDeque<Completion>,
    /// Nobody rings it: a result is there as soon as the operation was submitted.
    notify: Notify,
}

impl Backend for Memory {
    fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    fn submit(&mut self, id: u64, operation: DeviceOperation) {
        let result = match operation {
            DeviceOperation::Read { offset, buffer } => self.read(offset, buffer),
            DeviceOperation::Write { offset, data } => self.write(offset, &data),
            DeviceOperation::Flush | DeviceOperation::Reserve { .. } => Ok(None),
        };
        self.done.push_back((id, result));
    }

    fn reap(&mut self, completions: &mut Vec<Completion>) {
        completions.extend(self.done.drain(..));
    }

    fn readiness(&self) -> BorrowedFd<'_> {
        self.notify.as_fd()
    }

    fn growth(&self) -> io::Result<Grow> {
        Ok(Box::new(Ok))
    }

    fn take_growth(&mut self, size_bytes: u64) {
        self.size_bytes = size_bytes;
        self.chunks.resize_with(size_bytes.div_ceil(CHUNK) as usize, || None);
    }
}

impl Memory {
    fn new(size_bytes: u64) -> io::Result<Self> {
        let notify = Notify::new()?;
        let mut memory = Self { chunks: Vec::new(), size_bytes: 0, done: VecDeque::new(), notify };
        memory.take_growth(size_bytes);
        Ok(memory)
    }

    fn check(&self, offset: u64, length: usize) -> Result<(), DeviceError> {
        let end = offset.saturating_add(length as u64);
        if end <= self.size_bytes { Ok(()) } else { Err(DeviceError::BeyondEnd { end }) }
    }

    fn read(&self, mut offset: u64, mut buffer: Buffer) -> DeviceResult {
        self.check(offset, buffer.len())?;
        let mut rest = &mut buffer[..];
        while !rest.is_empty() {
            let at = (offset % CHUNK) as usize;
            let (part, after) = rest.split_at_mut(rest.len().min(CHUNK as usize - at));
            match &self.chunks[(offset / CHUNK) as usize] {
                Some(chunk) => part.copy_from_slice(&chunk[at..at + part.len()]),
                None => part.fill(0),
            }
            offset += part.len() as u64;
            rest = after;
        }
        Ok(Some(buffer))
    }

    fn write(&mut self, mut offset: u64, data: &Rope) -> DeviceResult {
        self.check(offset, data.len())?;
        for piece in data.pieces() {
            let mut rest = &piece[..];
            while !rest.is_empty() {
                let at = (offset % CHUNK) as usize;
                let (part, after) = rest.split_at(rest.len().min(CHUNK as usize - at));
                let chunk = self.chunks[(offset / CHUNK) as usize]
                    .get_or_insert_with(|| Buffer::fresh(CHUNK as usize));
                chunk[at..at + part.len()].copy_from_slice(part);
                offset += part.len() as u64;
                rest = after;
            }
        }
        Ok(None)
    }
}

const _: () = assert!(CHUNK.is_multiple_of(BLOCK));
