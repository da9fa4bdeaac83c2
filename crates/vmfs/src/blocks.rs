//! Address translation of a file: direct blocks, pointer blocks, and pointer blocks of pointer
//! blocks.

use crate::bytes::get_u32;
use crate::fd::{FileDescriptor, Level};
use crate::limits::FILE_BLOCK;
use crate::lvm::Place;
use crate::resource::Resource;
use crate::space::Reach;
use crate::transaction::Transaction;
use crate::volume::Volume;
use crate::{Disk, Error, Result};

/// Addresses in a pointer block.
const POINTERS: u64 = 1024;

/// Bit of a file block's address: its content must be zeroed before it may be read.
const TO_BE_ZEROED: u32 = 0x20;

pub(crate) fn is_to_be_zeroed(address: u32) -> bool {
    address & 7 == 1 && address & TO_BE_ZEROED != 0
}

pub(crate) fn with_to_be_zeroed(address: u32) -> u32 {
    address | TO_BE_ZEROED
}

pub(crate) fn without_to_be_zeroed(address: u32) -> u32 {
    if address & 7 == 1 { address & !TO_BE_ZEROED } else { address }
}

/// What lies at a place of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// Nothing: reads as zeros.
    Hole,
    /// A block whose content must not be seen: reads as zeros.
    ToBeZeroed(Place),
    /// Data, from this place on.
    Data(Place),
}

/// A run of a file's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// First byte in the file.
    pub offset: u64,
    /// Bytes.
    pub length: u64,
    /// What lies there.
    pub content: Content,
}

impl Extent {
    /// Joins the next extent, if it continues this one.
    fn join(&mut self, next: &Self) -> bool {
        let continues = match (self.content, next.content) {
            (Content::Hole, Content::Hole) => true,
            (Content::ToBeZeroed(a), Content::ToBeZeroed(b))
            | (Content::Data(a), Content::Data(b)) => a.plus(self.length) == b,
            _ => false,
        };
        if continues {
            self.length += next.length;
        }
        continues
    }
}

impl<D: Disk> Volume<D> {
    fn pointer_at(&mut self, block: u32, index: u64) -> Result<u64> {
        let number = Resource::PointerBlock.number(block);
        Ok(self.place(Resource::PointerBlock, number)? + index * 4)
    }

    fn pointer(&mut self, staged: &Transaction, block: u32, index: u64) -> Result<u32> {
        if block == 0 {
            return Ok(0);
        }
        let at = self.pointer_at(block, index)?;
        let mut sector = [0; 512];
        staged.read(self, at / 512 * 512, &mut sector)?;
        Ok(get_u32(&sector, (at % 512) as usize))
    }

    fn pointers(&mut self, staged: &Transaction, block: u32) -> Result<Vec<u32>> {
        if block == 0 {
            return Ok(vec![0; POINTERS as usize]);
        }
        let at = self.pointer_at(block, 0)?;
        let mut bytes = [0; POINTERS as usize * 4];
        staged.read(self, at, &mut bytes)?;
        Ok(bytes.as_chunks::<4>().0.iter().map(|word| u32::from_le_bytes(*word)).collect())
    }

    /// The pointer block in which the address of a block stands; 0 if there is none.
    fn leaf(&mut self, staged: &Transaction, file: &FileDescriptor, index: u64) -> Result<u32> {
        match file.level {
            Level::DoublePointers => {
                let top = file.addresses[(index / POINTERS / POINTERS) as usize];
                self.pointer(staged, top, index / POINTERS % POINTERS)
            }
            _ => Ok(file.addresses[(index / POINTERS) as usize]),
        }
    }

    /// The addresses of `count` blocks from one on; 0 where there is none.
    pub(crate) fn addresses(
        &mut self,
        staged: &Transaction,
        file: &FileDescriptor,
        first: u64,
        count: u64,
    ) -> Result<Vec<u32>> {
        let mut found = Vec::new();
        while (found.len() as u64) < count {
            let index = first + found.len() as u64;
            let left = count - found.len() as u64;
            if index >= file.level.reach() {
                found.resize(count as usize, 0);
                break;
            }
            if matches!(file.level, Level::FileBlocks | Level::SubBlocks) {
                let end = (index + left).min(file.level.reach());
                found.extend_from_slice(&file.addresses[index as usize..end as usize]);
                continue;
            }
            let leaf = self.leaf(staged, file, index)?;
            let inside = (index % POINTERS) as usize;
            let taken = left.min(POINTERS - index % POINTERS) as usize;
            found.extend_from_slice(&self.pointers(staged, leaf)?[inside..inside + taken]);
        }
        Ok(found)
    }

    /// What lies in a range of a file.
    pub(crate) fn extents_of(
        &mut self,
        file: &FileDescriptor,
        offset: u64,
        length: u64,
    ) -> Result<Vec<Extent>> {
        let size = file.level.block_size();
        let (first, last) = (offset / size, (offset + length).div_ceil(size));
        let addresses = self.addresses(&Transaction::default(), file, first, last - first)?;
        let mut extents: Vec<Extent> = Vec::new();
        for (index, address) in (first..last).zip(addresses) {
            let start = (index * size).max(offset);
            let end = ((index + 1) * size).min(offset + length);
            let content = self.content(address, start % size)?;
            let next = Extent { offset: start, length: end - start, content };
            if !extents.last_mut().is_some_and(|extent| extent.join(&next)) {
                extents.push(next);
            }
        }
        Ok(extents)
    }

    fn content(&mut self, address: u32, inside: u64) -> Result<Content> {
        if address == 0 {
            return Ok(Content::Hole);
        }
        let at = self.block_at(address)? + inside;
        let at = self.on_disk(at)?;
        Ok(if is_to_be_zeroed(address) { Content::ToBeZeroed(at) } else { Content::Data(at) })
    }

    /// The volume address of a file block or sub-block.
    pub(crate) fn block_at(&mut self, address: u32) -> Result<u64> {
        let kind = Resource::of(address)?;
        if !matches!(kind, Resource::FileBlock | Resource::SubBlock) {
            return Err(Error::Format(format!("an address {address:08x} in a file")));
        }
        self.place(kind, kind.number(without_to_be_zeroed(address)))
    }

    /// Makes a file able to address a block, by more levels of pointer blocks.
    pub(crate) fn reach(
        &mut self,
        transaction: &mut Transaction,
        file: &mut FileDescriptor,
        index: u64,
    ) -> Result<()> {
        while index >= file.level.reach() {
            let next = match file.level {
                Level::FileBlocks => Level::Pointers,
                Level::Pointers => Level::DoublePointers,
                Level::SubBlocks | Level::DoublePointers => return Err(Error::TooLarge),
            };
            if file.addresses.iter().any(|address| *address != 0) {
                let top = self.new_pointer_block(transaction, file)?;
                let bytes: Vec<u8> =
                    file.addresses.iter().flat_map(|address| address.to_le_bytes()).collect();
                let at = self.pointer_at(top, 0)?;
                transaction.patch(self, at, &bytes)?;
                file.addresses.fill(0);
                file.addresses[0] = top;
            }
            file.level = next;
        }
        Ok(())
    }

    fn new_pointer_block(
        &mut self,
        transaction: &mut Transaction,
        file: &mut FileDescriptor,
    ) -> Result<u32> {
        let block = self.take(transaction, Reach::Head, Resource::PointerBlock, 1)?[0];
        let at = self.pointer_at(block, 0)?;
        transaction.patch(self, at, &[0; POINTERS as usize * 4])?;
        file.pointer_blocks += 1;
        Ok(block)
    }

    /// Puts addresses of consecutive blocks in place, at most as many as one transaction changes.
    pub(crate) fn set_addresses(
        &mut self,
        transaction: &mut Transaction,
        file: &mut FileDescriptor,
        first: u64,
        addresses: &[u32],
    ) -> Result<()> {
        self.reach(transaction, file, first + addresses.len() as u64 - 1)?;
        if matches!(file.level, Level::FileBlocks | Level::SubBlocks) {
            let first = first as usize;
            file.addresses[first..first + addresses.len()].copy_from_slice(addresses);
            return Ok(());
        }
        let (mut first, mut left) = (first, addresses);
        while !left.is_empty() {
            let (inside, rest) = left.split_at(within_leaf(first, left.len() as u64) as usize);
            let leaf = self.leaf_for_writing(transaction, file, first)?;
            let bytes: Vec<u8> = inside.iter().flat_map(|address| address.to_le_bytes()).collect();
            let at = self.pointer_at(leaf, first % POINTERS)?;
            transaction.patch(self, at, &bytes)?;
            (first, left) = (first + inside.len() as u64, rest);
        }
        Ok(())
    }

    fn leaf_for_writing(
        &mut self,
        transaction: &mut Transaction,
        file: &mut FileDescriptor,
        index: u64,
    ) -> Result<u32> {
        let found = self.leaf(transaction, file, index)?;
        if found != 0 {
            return Ok(found);
        }
        let leaf = self.new_pointer_block(transaction, file)?;
        if file.level == Level::Pointers {
            file.addresses[(index / POINTERS) as usize] = leaf;
            return Ok(leaf);
        }
        let slot = (index / POINTERS / POINTERS) as usize;
        if file.addresses[slot] == 0 {
            file.addresses[slot] = self.new_pointer_block(transaction, file)?;
        }
        let at = self.pointer_at(file.addresses[slot], index / POINTERS % POINTERS)?;
        transaction.patch(self, at, &leaf.to_le_bytes())?;
        Ok(leaf)
    }

    /// Takes the last blocks of a file away, down to `keep` blocks: as many as one transaction
    /// can. Returns how many are left.
    pub(crate) fn cut(
        &mut self,
        transaction: &mut Transaction,
        file: &mut FileDescriptor,
        [keep, count]: [u64; 2],
    ) -> Result<u64> {
        let from = match file.level {
            Level::FileBlocks | Level::SubBlocks => keep,
            _ => keep.max((count - 1) / POINTERS * POINTERS),
        };
        let found = self.addresses(transaction, file, from, count - from)?;
        let mut given: Vec<u32> = found.iter().copied().filter(|address| *address != 0).collect();
        let fits = given.len() - Self::prefix_from_end(&given);
        let first = if fits == 0 { from } else { from + nth_block(&found, fits) };
        given.drain(..fits);
        let zeroed = given.iter().filter(|address| is_to_be_zeroed(**address)).count() as u32;
        file.blocks -= given.len() as u64;
        file.to_be_zeroed -= zeroed.min(file.to_be_zeroed);
        let plain: Vec<u32> = given.into_iter().map(without_to_be_zeroed).collect();
        self.give(transaction, &plain)?;
        self.forget(transaction, file, first, count)?;
        Ok(first)
    }

    fn prefix_from_end(addresses: &[u32]) -> usize {
        let mut reversed: Vec<u32> =
            addresses.iter().map(|address| without_to_be_zeroed(*address)).collect();
        reversed.reverse();
        Self::prefix_in_few_clusters(&reversed)
    }

    /// Clears the addresses of blocks `first..count`, and gives pointer blocks back that hold
    /// nothing any more.
    fn forget(
        &mut self,
        transaction: &mut Transaction,
        file: &mut FileDescriptor,
        first: u64,
        count: u64,
    ) -> Result<()> {
        if matches!(file.level, Level::FileBlocks | Level::SubBlocks) {
            file.addresses[first as usize..count as usize].fill(0);
            return Ok(());
        }
        let leaf = self.leaf(transaction, file, first)?;
        if leaf != 0 && !first.is_multiple_of(POINTERS) {
            let zeros = vec![0; (count - first) as usize * 4];
            let at = self.pointer_at(leaf, first % POINTERS)?;
            return transaction.patch(self, at, &zeros);
        }
        if leaf != 0 {
            self.give(transaction, &[leaf])?;
            file.pointer_blocks -= 1;
        }
        if file.level == Level::Pointers {
            file.addresses[(first / POINTERS) as usize] = 0;
            return Ok(());
        }
        let slot = (first / POINTERS / POINTERS) as usize;
        let top = file.addresses[slot];
        if top != 0 && first.is_multiple_of(POINTERS * POINTERS) {
            self.give(transaction, &[top])?;
            file.pointer_blocks -= 1;
            file.addresses[slot] = 0;
        } else if top != 0 {
            let at = self.pointer_at(top, first / POINTERS % POINTERS)?;
            transaction.patch(self, at, &[0; 4])?;
        }
        Ok(())
    }
}

/// The place after the block that holds the `skipped`-th address that is not 0.
fn nth_block(addresses: &[u32], skipped: usize) -> u64 {
    let mut used = addresses.iter().enumerate().filter(|(_, address)| **address != 0);
    used.nth(skipped - 1).map_or(0, |(at, _)| at as u64 + 1)
}

/// Blocks from one on that one pointer block names.
pub(crate) fn within_leaf(first: u64, count: u64) -> u64 {
    count.min(POINTERS - first % POINTERS)
}

/// Blocks that a file of so many bytes has.
pub(crate) fn block_count(length: u64, level: Level) -> u64 {
    length.div_ceil(level.block_size())
}

const _: () = assert!(FILE_BLOCK.is_power_of_two());
