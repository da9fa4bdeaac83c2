//! File descriptors: lock, metadata, 256 addresses.

use crate::bytes::{get_u32, get_u64, put_u32, put_u64};
use crate::limits::{FILE_BLOCK, SUB_BLOCK};
use crate::{Error, Result};

/// Bytes of a descriptor.
pub(crate) const SIZE: u64 = 0x800;

/// Addresses in a descriptor.
pub(crate) const ADDRESSES: usize = 256;

const META: usize = 0x200;
const SIGNATURE: u32 = u32::from_le_bytes(*b"fdmd");

/// What a descriptor describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// A directory.
    Directory,
    /// A file.
    File,
    /// A file of the file system itself.
    System,
}

impl FileKind {
    pub(crate) fn code(self) -> u32 {
        match self {
            Self::Directory => 2,
            Self::File => 3,
            Self::System => 5,
        }
    }

    /// What a new one of its kind may be used for, with the type as POSIX has it.
    fn mode(self) -> u32 {
        match self {
            Self::Directory => 0o40755,
            Self::File => 0o100_600,
            Self::System => 0o100_400,
        }
    }

    pub(crate) fn parse(code: u32) -> Result<Self> {
        match code {
            2 => Ok(Self::Directory),
            3 => Ok(Self::File),
            5 => Ok(Self::System),
            _ => Err(Error::Format(format!("a file of type {code}"))),
        }
    }
}

/// How a descriptor's addresses lead to data (`zla`, the zero level address type).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    FileBlocks,
    SubBlocks,
    /// Through pointer blocks of 1,024 addresses.
    Pointers,
    /// Through pointer blocks to pointer blocks.
    DoublePointers,
}

impl Level {
    fn code(self) -> u32 {
        match self {
            Self::FileBlocks => 1,
            Self::SubBlocks => 2,
            Self::Pointers => 3,
            Self::DoublePointers => 0x10d0,
        }
    }

    fn parse(code: u32) -> Result<Self> {
        match code {
            1 => Ok(Self::FileBlocks),
            2 => Ok(Self::SubBlocks),
            3 => Ok(Self::Pointers),
            0x10d0 => Ok(Self::DoublePointers),
            _ => Err(Error::Format(format!("a file with address type {code}"))),
        }
    }

    pub(crate) fn block_size(self) -> u64 {
        if self == Self::SubBlocks { SUB_BLOCK } else { FILE_BLOCK }
    }

    /// Blocks that a descriptor of this level can reach.
    pub(crate) fn reach(self) -> u64 {
        match self {
            Self::FileBlocks | Self::SubBlocks => ADDRESSES as u64,
            Self::Pointers => ADDRESSES as u64 * 1024,
            Self::DoublePointers => ADDRESSES as u64 * 1024 * 1024,
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct FileDescriptor {
    /// Its own address, type 4.
    pub(crate) address: u32,
    pub(crate) generation: u32,
    pub(crate) links: u32,
    pub(crate) kind: FileKind,
    pub(crate) length: u64,
    /// Blocks that are allocated.
    pub(crate) blocks: u64,
    pub(crate) modified: u32,
    pub(crate) created: u32,
    pub(crate) mode: u32,
    pub(crate) level: Level,
    /// Blocks whose content must be zeroed before it may be read.
    pub(crate) to_be_zeroed: u32,
    pub(crate) pointer_blocks: u32,
    pub(crate) parent: u32,
    pub(crate) addresses: Box<[u32; ADDRESSES]>,
}

impl FileDescriptor {
    pub(crate) fn new(address: u32, generation: u32, kind: FileKind, now: u32) -> Self {
        Self {
            address,
            generation,
            links: 1,
            kind,
            length: 0,
            blocks: 0,
            modified: now,
            created: now,
            mode: kind.mode(),
            level: Level::SubBlocks,
            to_be_zeroed: 0,
            pointer_blocks: 0,
            parent: 0,
            addresses: Box::new([0; ADDRESSES]),
        }
    }

    /// All but the lock: the descriptor's second to fourth sector.
    pub(crate) fn emit(&self) -> [u8; SIZE as usize - META] {
        let mut out = [0; SIZE as usize - META];
        for (at, value) in [
            (0x00, self.address),
            (0x04, self.generation),
            (0x08, self.links),
            (0x0c, self.kind.code()),
            (0x2c, self.modified),
            (0x30, self.created),
            (0x34, self.modified),
            (0x40, self.mode),
            (0x44, self.level.code()),
            (0x48, self.to_be_zeroed),
            (0x5c, self.pointer_blocks),
            (0x64, SIGNATURE),
            (0x70, self.parent),
        ] {
            put_u32(&mut out, at, value);
        }
        put_u64(&mut out, 0x14, self.length);
        put_u64(&mut out, 0x1c, self.level.block_size());
        put_u64(&mut out, 0x24, self.blocks);
        out[0x89] = self.level.block_size().trailing_zeros() as u8;
        for (number, address) in self.addresses.iter().enumerate() {
            put_u32(&mut out, 0x200 + number * 4, *address);
        }
        out
    }

    /// Reads the sectors after the lock.
    pub(crate) fn parse(bytes: &[u8], address: u32) -> Result<Self> {
        if get_u32(bytes, 0) != address || get_u32(bytes, 0x64) != SIGNATURE {
            return Err(Error::Format(format!("no file descriptor at address {address:08x}")));
        }
        let addresses = std::array::from_fn(|number| get_u32(bytes, 0x200 + number * 4));
        Ok(Self {
            address,
            generation: get_u32(bytes, 0x04),
            links: get_u32(bytes, 0x08),
            kind: FileKind::parse(get_u32(bytes, 0x0c))?,
            length: get_u64(bytes, 0x14),
            blocks: get_u64(bytes, 0x24),
            modified: get_u32(bytes, 0x2c),
            created: get_u32(bytes, 0x30),
            mode: get_u32(bytes, 0x40),
            level: Level::parse(get_u32(bytes, 0x44))?,
            to_be_zeroed: get_u32(bytes, 0x48),
            pointer_blocks: get_u32(bytes, 0x5c),
            parent: get_u32(bytes, 0x70),
            addresses: Box::new(addresses),
        })
    }
}
