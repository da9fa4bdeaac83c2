//! RAM disk for benchmarks and tests: its content is gone when it is dropped.

use std::collections::VecDeque;

use block::{BLOCK, Buffer, DeviceError, DeviceOperation, DeviceResult, Rope};

use crate::device::Completion;

/// Bytes that are given memory together, when the first of them is written.
const CHUNK: u64 = 1 << 20;

/// Memory, in chunks.
#[derive(Debug)]
pub(crate) struct Memory {
    chunks: Vec<Option<Box<[u8]>>>,
    size_bytes: u64,
    done: VecDeque<Completion>,
}

impl Memory {
    pub(crate) fn new(size_bytes: u64) -> Self {
        let mut memory = Self { chunks: Vec::new(), size_bytes: 0, done: VecDeque::new() };
        memory.resize(size_bytes);
        memory
    }

    pub(crate) fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    pub(crate) fn resize(&mut self, size_bytes: u64) {
        self.size_bytes = size_bytes;
        self.chunks.resize_with(size_bytes.div_ceil(CHUNK) as usize, || None);
    }

    pub(crate) fn submit(&mut self, token: u64, operation: DeviceOperation) {
        let result = match operation {
            DeviceOperation::Read { offset, buffer } => self.read(offset, buffer),
            DeviceOperation::Write { offset, data } => self.write(offset, &data),
            DeviceOperation::Flush | DeviceOperation::Reserve { .. } => Ok(None),
        };
        self.done.push_back((token, result));
    }

    pub(crate) fn reap(&mut self, completions: &mut Vec<Completion>) {
        completions.extend(self.done.drain(..));
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
                    .get_or_insert_with(|| vec![0; CHUNK as usize].into_boxed_slice());
                chunk[at..at + part.len()].copy_from_slice(part);
                offset += part.len() as u64;
                rest = after;
            }
        }
        Ok(None)
    }
}

const _: () = assert!(CHUNK.is_multiple_of(BLOCK));
