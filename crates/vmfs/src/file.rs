//! Files: create, open, read, write, grow, delete, rename.

use crate::blocks::{
    Content, Extent, block_count, is_to_be_zeroed, with_to_be_zeroed, within_leaf,
    without_to_be_zeroed,
};
use crate::directory::{Entry, split};
use crate::fd::{FileDescriptor, FileKind, Level};
use crate::limits::{FILE_BLOCK, SUB_BLOCK, TRANSACTION_BLOCKS_MAX};
use crate::lock::{self, LockMode, LockRecord};
use crate::lvm::Place;
use crate::resource::Resource;
use crate::space::Reach;
use crate::transaction::{Held, Transaction};
use crate::volume::Volume;
use crate::{Disk, Error, Result};

pub use crate::blocks::{Content as FileContent, Extent as FileExtent};

/// Blocks that one write changes in one transaction.
const WRITE_BLOCKS_MAX: u64 = 16;

/// An open file. It stays locked until it is closed with [`Volume::close`]: a handle that is only
/// dropped leaves the lock on the disk, as a host that dies does.
#[derive(Debug)]
pub struct File {
    descriptor: FileDescriptor,
    held: Held,
    mode: LockMode,
}

impl File {
    /// Bytes.
    pub fn length(&self) -> u64 {
        self.descriptor.length
    }

    /// Bytes in blocks that are allocated.
    pub fn allocated(&self) -> u64 {
        self.descriptor.blocks * self.descriptor.level.block_size()
    }

    /// Blocks that must be zeroed before they may be read.
    pub fn to_be_zeroed(&self) -> u32 {
        self.descriptor.to_be_zeroed
    }
}

/// What is known of a file without opening it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// What it is.
    pub kind: FileKind,
    /// Bytes.
    pub length: u64,
    /// Bytes in blocks that are allocated.
    pub allocated: u64,
    /// Blocks that must be zeroed before they may be read.
    pub to_be_zeroed: u32,
    /// When it was changed, in seconds since 1970.
    pub modified: u32,
    /// Address of its descriptor.
    pub address: u32,
    /// Its lock, in the words of `vmkfstools -D`.
    pub lock: String,
}

/// What newly allocated blocks are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fill {
    /// To be zeroed before they may be read.
    ToBeZeroed,
    /// As they are: the caller has written them, or will before anyone reads.
    AsIs,
}

impl<D: Disk> Volume<D> {
    /// Creates an empty file and opens it for writing.
    ///
    /// # Errors
    /// [`Error::Exists`], [`Error::NotFound`] for a directory on the way, [`Error::NoSpace`].
    pub fn create(&mut self, path: &str) -> Result<File> {
        let (descriptor, held) = self.create_entry(path, FileKind::File)?;
        let held = held.expect("a file is created locked");
        Ok(File { descriptor, held, mode: LockMode::Exclusive })
    }

    /// Creates an empty directory.
    ///
    /// # Errors
    /// As [`Volume::create`].
    pub fn create_directory(&mut self, path: &str) -> Result<()> {
        self.create_entry(path, FileKind::Directory).map(|_| ())
    }

    fn create_entry(
        &mut self,
        path: &str,
        kind: FileKind,
    ) -> Result<(FileDescriptor, Option<Held>)> {
        let (names, name) = split(path)?;
        if name == "." || name == ".." {
            return Err(Error::Name(name.to_owned()));
        }
        let directory = self.directory(&names)?;
        let name = name.to_owned();
        self.transact(|volume, transaction| {
            let address = volume.take(transaction, Reach::Head, Resource::Descriptor, 1);
            let generation = volume.below(u64::from(u32::MAX)) as u32 | 1;
            let now = volume.disk.wall_clock();
            // The name is looked at before anything else, so that 'exists' wins over 'full'.
            let entry = |address| Entry { kind, name: name.clone(), address, generation };
            let address = match address {
                Ok(addresses) => addresses[0],
                Err(error) => return Err(error),
            };
            volume.insert(transaction, directory, &entry(address))?;
            let mut file = FileDescriptor::new(address, generation, kind, now);
            file.parent = directory;
            if kind == FileKind::Directory {
                volume.fill_directory(transaction, &mut file)?;
            }
            let held = volume.stage_lock(transaction, &file)?;
            transaction.put_descriptor(volume, &file)?;
            Ok((file, held))
        })
    }

    /// A new file is locked from its first moment, a new directory free.
    fn stage_lock(
        &mut self,
        transaction: &mut Transaction,
        file: &FileDescriptor,
    ) -> Result<Option<Held>> {
        let at = self.descriptor_at(file.address)?;
        let free = LockRecord::free(lock::DESCRIPTOR, at);
        let now = self.disk.now_us();
        let record = match file.kind {
            FileKind::Directory => None,
            _ => free.with(self.holder(), LockMode::Exclusive, now),
        };
        transaction.put_sector(at, record.as_ref().unwrap_or(&free).emit());
        Ok(record.map(|record| Held { record }))
    }

    fn fill_directory(
        &mut self,
        transaction: &mut Transaction,
        file: &mut FileDescriptor,
    ) -> Result<()> {
        let block = self.take(transaction, Reach::Head, Resource::SubBlock, 1)?[0];
        let at = self.block_at(block)?;
        let own = (".", file.address, file.generation);
        let mut bytes = Vec::new();
        for (name, address, generation) in [own, ("..", file.parent, 0)] {
            let kind = FileKind::Directory;
            bytes.extend(Entry { kind, name: name.to_owned(), address, generation }.emit());
        }
        (file.length, file.blocks) = (bytes.len() as u64, 1);
        file.addresses[0] = block;
        bytes.resize(512, 0);
        transaction.patch(self, at, &bytes)
    }

    /// Opens a file and locks it.
    ///
    /// # Errors
    /// [`Error::Locked`] when another host holds it and lives; a dead host's lock is taken over
    /// after its lease.
    pub fn open(&mut self, path: &str, mode: LockMode) -> Result<File> {
        let entry = self.find(path)?;
        if entry.kind != FileKind::File {
            return Err(Error::Kind(path.to_owned()));
        }
        let (held, descriptor) = self.lock_descriptor(entry.address, mode)?;
        if descriptor.generation != entry.generation || descriptor.links == 0 {
            self.give_back(held)?;
            return Err(Error::NotFound(path.to_owned()));
        }
        Ok(File { descriptor, held, mode })
    }

    /// Unlocks a file.
    ///
    /// # Errors
    /// [`Error::LostHeartbeat`] when the lock was taken over. A lock that the disk does not let go
    /// now is given back before the next change, or when the volume is unmounted.
    pub fn close(&mut self, file: File) -> Result<()> {
        self.give_back(file.held)
    }

    fn find(&mut self, path: &str) -> Result<Entry> {
        let (names, name) = split(path)?;
        let directory = self.directory(&names)?;
        let found = self.lookup(directory, name);
        found.map_err(|error| match error {
            Error::NotFound(_) => Error::NotFound(path.to_owned()),
            other => other,
        })
    }

    /// Looks at a file or directory.
    ///
    /// # Errors
    /// [`Error::NotFound`].
    pub fn status(&mut self, path: &str) -> Result<Status> {
        let entry = self.find(path)?;
        let (lock, file) = self.read_descriptor(entry.address)?;
        Ok(Status {
            kind: file.kind,
            length: file.length,
            allocated: file.blocks * file.level.block_size(),
            to_be_zeroed: file.to_be_zeroed,
            modified: file.modified,
            address: file.address,
            lock: lock.describe(),
        })
    }

    /// Sets a file's time to now, under its lock; creates the file if there is none.
    ///
    /// # Errors
    /// [`Error::Locked`] when another host has it open.
    pub fn touch(&mut self, path: &str) -> Result<()> {
        let mut file = match self.open(path, LockMode::Exclusive) {
            Err(Error::NotFound(_)) => match self.create(path) {
                // Another host was faster.
                Err(Error::Exists(_)) => self.open(path, LockMode::Exclusive)?,
                other => other?,
            },
            other => other?,
        };
        let touched = self.put_time(&mut file);
        self.close(file)?;
        touched
    }

    fn put_time(&mut self, file: &mut File) -> Result<()> {
        file.descriptor.modified = self.disk.wall_clock();
        let descriptor = file.descriptor.clone();
        self.transact(|volume, transaction| transaction.put_descriptor_head(volume, &descriptor))
    }

    /// Deletes a file, or a directory that is empty.
    ///
    /// # Errors
    /// [`Error::Locked`] when another host has it open; [`Error::NotEmpty`].
    pub fn remove_path(&mut self, path: &str) -> Result<()> {
        let entry = self.find(path)?;
        match entry.kind {
            FileKind::File => {
                let mut file = self.open(path, LockMode::Exclusive)?;
                match self.truncate(&mut file, 0).and_then(|()| self.unlink(path, &file)) {
                    // The descriptor is free, and with it the lock.
                    Ok(()) => Ok(()),
                    Err(error) => self.close(file).and(Err(error)),
                }
            }
            FileKind::Directory => self.remove_directory(path),
            FileKind::System => Err(Error::Kind(path.to_owned())),
        }
    }

    fn unlink(&mut self, path: &str, file: &File) -> Result<()> {
        let (names, name) = split(path)?;
        let directory = self.directory(&names)?;
        self.transact(|volume, transaction| {
            volume.remove(transaction, directory, name)?;
            volume.free_descriptor(transaction, &file.descriptor)
        })
    }

    fn free_descriptor(
        &mut self,
        transaction: &mut Transaction,
        file: &FileDescriptor,
    ) -> Result<()> {
        let mut gone = file.clone();
        (gone.links, gone.length, gone.blocks) = (0, 0, 0);
        gone.addresses.fill(0);
        self.give(transaction, &[file.address])?;
        transaction.put_descriptor(self, &gone)?;
        let at = self.descriptor_at(file.address)?;
        transaction.put_sector(at, LockRecord::free(lock::DESCRIPTOR, at).emit());
        Ok(())
    }

    fn remove_directory(&mut self, path: &str) -> Result<()> {
        let (names, name) = split(path)?;
        let parent = self.directory(&names)?;
        self.transact(|volume, transaction| {
            let entry = volume.remove(transaction, parent, name)?;
            let file = volume.lock_descriptor_for(transaction, entry.address)?;
            if file.kind != FileKind::Directory || file.length > 2 * 140 {
                return Err(Error::NotEmpty(path.to_owned()));
            }
            let blocks: Vec<u32> =
                file.addresses.iter().copied().filter(|address| *address != 0).collect();
            volume.give(transaction, &blocks)?;
            volume.give(transaction, &[file.address])?;
            let gone = FileDescriptor { links: 0, length: 0, blocks: 0, ..file };
            transaction.put_descriptor(volume, &gone)
        })
    }

    /// Gives a file another name, in the same directory or another one.
    ///
    /// # Errors
    /// [`Error::Exists`] when the new name is taken.
    pub fn rename(&mut self, from: &str, to: &str) -> Result<()> {
        let ((from_names, from_name), (to_names, to_name)) = (split(from)?, split(to)?);
        let (source, destination) = (self.directory(&from_names)?, self.directory(&to_names)?);
        if self.find(from)?.kind != FileKind::File {
            return Err(Error::Kind(from.to_owned()));
        }
        self.transact(|volume, transaction| {
            if source == destination {
                return volume.rename_within(transaction, source, [from_name, to_name]);
            }
            let entry = volume.remove(transaction, source, from_name)?;
            let renamed = Entry { name: to_name.to_owned(), ..entry };
            volume.insert(transaction, destination, &renamed)
        })
    }

    /// The range that is in the blocks, in extents on the disk.
    ///
    /// # Errors
    /// When the disk fails.
    pub fn extents(&mut self, file: &File, offset: u64, length: u64) -> Result<Vec<Extent>> {
        self.extents_of(&file.descriptor, offset, length)
    }

    /// Reads what is there; returns how many bytes.
    ///
    /// # Errors
    /// When the disk fails.
    pub fn read_at(&mut self, file: &File, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        let left = file.descriptor.length.saturating_sub(offset);
        let length = left.min(buffer.len() as u64) as usize;
        if length == 0 {
            return Ok(0);
        }
        for extent in self.extents_of(&file.descriptor, offset, length as u64)? {
            let start = (extent.offset - offset) as usize;
            let part = &mut buffer[start..start + extent.length as usize];
            match extent.content {
                Content::Data(at) => self.read_bytes(at, part)?,
                Content::Hole | Content::ToBeZeroed(_) => part.fill(0),
            }
        }
        Ok(length)
    }

    /// Reads any bytes of a disk.
    fn read_bytes(&mut self, place: Place, part: &mut [u8]) -> Result<()> {
        if place.at.is_multiple_of(512) && part.len().is_multiple_of(512) {
            return self.read_place(place, part);
        }
        let (start, inside) = place.sector();
        let mut sectors = vec![0; (inside + part.len()).next_multiple_of(512)];
        self.read_place(start, &mut sectors)?;
        part.copy_from_slice(&sectors[inside..inside + part.len()]);
        Ok(())
    }

    fn write_bytes(&mut self, place: Place, part: &[u8]) -> Result<()> {
        if place.at.is_multiple_of(512) && part.len().is_multiple_of(512) {
            return self.write_place(place, part);
        }
        let (start, inside) = place.sector();
        let mut sectors = vec![0; (inside + part.len()).next_multiple_of(512)];
        self.read_place(start, &mut sectors)?;
        sectors[inside..inside + part.len()].copy_from_slice(part);
        self.write_place(start, &sectors)
    }

    /// Writes, and takes and zeroes blocks where that needs to be.
    ///
    /// # Errors
    /// [`Error::NoSpace`] when the volume is full, an [`crate::DiskError::OutOfSpace`] when the
    /// array is. What was written before stays.
    pub fn write_at(&mut self, file: &mut File, offset: u64, bytes: &[u8]) -> Result<()> {
        if file.mode == LockMode::ReadOnly {
            return Err(Error::ReadOnly);
        }
        self.choose_level(file, offset + bytes.len() as u64)?;
        let size = file.descriptor.level.block_size();
        let mut done = 0;
        while done < bytes.len() {
            self.pulse_if_due()?;
            let at = offset + done as u64;
            let blocks = (at % size + (bytes.len() - done) as u64).div_ceil(size);
            let blocks = within_leaf(at / size, blocks.min(WRITE_BLOCKS_MAX));
            let end = (at / size + blocks) * size;
            let taken = ((end - at) as usize).min(bytes.len() - done);
            self.write_blocks(file, at, &bytes[done..done + taken])?;
            done += taken;
        }
        Ok(())
    }

    fn write_blocks(&mut self, file: &mut File, offset: u64, bytes: &[u8]) -> Result<()> {
        let length = bytes.len() as u64;
        let extents = self.extents_of(&file.descriptor, offset, length)?;
        let end = offset + length;
        let in_place = extents.iter().all(|extent| matches!(extent.content, Content::Data(_)));
        if in_place && end <= file.descriptor.length {
            return self.write_extents(&extents, offset, bytes);
        }
        let mut next = file.descriptor.clone();
        next = self.transact(|volume, transaction| {
            let mut next = next.clone();
            next.length = next.length.max(end);
            if in_place {
                transaction.put_descriptor_head(volume, &next)?;
            } else {
                volume.fill_blocks(transaction, &mut next, offset, length)?;
                transaction.put_descriptor(volume, &next)?;
            }
            let extents = volume.staged_extents(transaction, &next, offset, length)?;
            volume.write_extents(&extents, offset, bytes)?;
            Ok(next)
        })?;
        file.descriptor = next;
        Ok(())
    }

    fn staged_extents(
        &mut self,
        transaction: &Transaction,
        file: &FileDescriptor,
        offset: u64,
        length: u64,
    ) -> Result<Vec<Extent>> {
        let size = file.level.block_size();
        let (first, last) = (offset / size, (offset + length).div_ceil(size));
        let addresses = self.addresses(transaction, file, first, last - first)?;
        let mut extents = Vec::new();
        for (index, address) in (first..last).zip(addresses) {
            let start = (index * size).max(offset);
            let end = ((index + 1) * size).min(offset + length);
            let at = self.block_at(address)? + start % size;
            let content = Content::Data(self.on_disk(at)?);
            extents.push(Extent { offset: start, length: end - start, content });
        }
        Ok(extents)
    }

    fn write_extents(&mut self, extents: &[Extent], offset: u64, bytes: &[u8]) -> Result<()> {
        for extent in extents {
            if let Content::Data(at) = extent.content {
                let start = (extent.offset - offset) as usize;
                self.write_bytes(at, &bytes[start..start + extent.length as usize])?;
            }
        }
        Ok(())
    }

    /// Makes the blocks of a range data: takes those that are missing, and zeroes them and those
    /// to be zeroed where the range does not cover them.
    fn fill_blocks(
        &mut self,
        transaction: &mut Transaction,
        file: &mut FileDescriptor,
        offset: u64,
        length: u64,
    ) -> Result<()> {
        let size = file.level.block_size();
        let (first, last) = (offset / size, (offset + length).div_ceil(size));
        self.reach(transaction, file, last - 1)?;
        let mut addresses = self.addresses(transaction, file, first, last - first)?;
        for (index, address) in (first..last).zip(&mut addresses) {
            let was_zeroed = is_to_be_zeroed(*address);
            if *address != 0 && !was_zeroed {
                continue;
            }
            if was_zeroed {
                file.to_be_zeroed -= 1;
                *address = without_to_be_zeroed(*address);
            } else {
                *address = self.take(transaction, Reach::Any, block_kind(file.level), 1)?[0];
                file.blocks += 1;
            }
            let covered = offset <= index * size && offset + length >= (index + 1) * size;
            if !covered {
                let at = self.block_at(*address)?;
                self.zero_sectors(at, size)?;
            }
        }
        self.set_addresses(transaction, file, first, &addresses)
    }

    /// Files of up to 8 KiB lie in a sub-block; larger ones in file blocks.
    fn choose_level(&mut self, file: &mut File, length: u64) -> Result<()> {
        if file.descriptor.level != Level::SubBlocks || length <= SUB_BLOCK {
            return Ok(());
        }
        let old = file.descriptor.clone();
        if old.addresses[0] == 0 {
            file.descriptor.level = Level::FileBlocks;
            return Ok(());
        }
        file.descriptor = self.transact(|volume, transaction| {
            let mut next = old.clone();
            let mut data = vec![0; SUB_BLOCK as usize];
            let from = volume.block_at(old.addresses[0])?;
            volume.read_sectors(from, &mut data)?;
            let block = volume.take(transaction, Reach::Any, Resource::FileBlock, 1)?[0];
            let to = volume.block_at(block)?;
            volume.zero_sectors(to, FILE_BLOCK)?;
            volume.write_sectors(to, &data)?;
            volume.give(transaction, &[old.addresses[0]])?;
            next.level = Level::FileBlocks;
            next.addresses[0] = block;
            transaction.put_descriptor(volume, &next)?;
            Ok(next)
        })?;
        Ok(())
    }

    /// Sets the length. What is added reads as zeros and takes no space; what is taken away is
    /// freed.
    ///
    /// # Errors
    /// [`Error::TooLarge`] beyond what the format can address.
    pub fn set_length(&mut self, file: &mut File, length: u64) -> Result<()> {
        if length < file.descriptor.length {
            return self.truncate(file, length);
        }
        if length.div_ceil(FILE_BLOCK) > Level::DoublePointers.reach() {
            return Err(Error::TooLarge);
        }
        self.choose_level(file, length)?;
        let old = file.descriptor.clone();
        file.descriptor = self.transact(|volume, transaction| {
            let mut next = old.clone();
            if length > 0 && next.level != Level::SubBlocks {
                volume.reach(transaction, &mut next, (length - 1) / FILE_BLOCK)?;
            }
            next.length = length;
            transaction.put_descriptor(volume, &next)?;
            Ok(next)
        })?;
        Ok(())
    }

    fn truncate(&mut self, file: &mut File, length: u64) -> Result<()> {
        let level = file.descriptor.level;
        let keep = block_count(length, level);
        let mut count = block_count(file.descriptor.length, level);
        loop {
            self.pulse_if_due()?;
            let old = file.descriptor.clone();
            let from = count;
            (file.descriptor, count) = self.transact(|volume, transaction| {
                let mut next = old.clone();
                let left = if from > keep {
                    volume.cut(transaction, &mut next, [keep, from])?
                } else {
                    from
                };
                next.length = if left == keep { length } else { left * level.block_size() };
                next.modified = volume.disk.wall_clock();
                transaction.put_descriptor(volume, &next)?;
                Ok((next, left))
            })?;
            if count <= keep {
                return self.clear_tail(file);
            }
        }
    }

    /// What is behind the end of the last block must read as zeros when the file grows again.
    fn clear_tail(&mut self, file: &File) -> Result<()> {
        let (length, size) = (file.descriptor.length, file.descriptor.level.block_size());
        let rest = length.next_multiple_of(size) - length;
        let extents = self.extents_of(&file.descriptor, length, rest)?;
        self.write_extents(&extents, length, &vec![0; rest as usize])
    }

    /// Takes blocks for a range where there are none. A file that ends before the range's end
    /// becomes longer with each of them: what is behind a file's end would be nobody's.
    ///
    /// # Errors
    /// [`Error::NoSpace`]: what was taken before stays.
    pub fn allocate(
        &mut self,
        file: &mut File,
        [offset, length]: [u64; 2],
        fill: Fill,
    ) -> Result<()> {
        self.choose_level(file, (offset + length).max(SUB_BLOCK + 1))?;
        let (mut index, last) = (offset / FILE_BLOCK, (offset + length).div_ceil(FILE_BLOCK));
        while index < last {
            self.pulse_if_due()?;
            let count = (last - index).min(TRANSACTION_BLOCKS_MAX);
            let old = file.descriptor.clone();
            let done;
            (file.descriptor, done) = self.transact(|volume, transaction| {
                let mut next = old.clone();
                let done = volume.allocate_some(transaction, &mut next, [index, count], fill)?;
                let reached = ((index + done) * FILE_BLOCK).min(offset + length);
                next.length = next.length.max(reached);
                transaction.put_descriptor(volume, &next)?;
                Ok((next, done))
            })?;
            index += done;
        }
        Ok(())
    }

    fn allocate_some(
        &mut self,
        transaction: &mut Transaction,
        file: &mut FileDescriptor,
        [index, count]: [u64; 2],
        fill: Fill,
    ) -> Result<u64> {
        self.reach(transaction, file, index + count - 1)?;
        let count = match file.level {
            Level::FileBlocks => count.min(Level::FileBlocks.reach() - index),
            _ => count,
        };
        let mut addresses = self.addresses(transaction, file, index, count)?;
        let missing = addresses.iter().filter(|address| **address == 0).count() as u64;
        let mut fresh = if missing == 0 {
            Vec::new().into_iter()
        } else {
            self.take(transaction, Reach::Any, Resource::FileBlock, missing)?.into_iter()
        };
        let mut done = 0;
        for address in &mut addresses {
            if *address == 0 {
                let Some(block) = fresh.next() else { break };
                *address = match fill {
                    Fill::ToBeZeroed => with_to_be_zeroed(block),
                    Fill::AsIs => block,
                };
                file.to_be_zeroed += u32::from(fill == Fill::ToBeZeroed);
                file.blocks += 1;
            }
            done += 1;
        }
        addresses.truncate(done);
        self.set_addresses(transaction, file, index, &addresses)?;
        Ok(done as u64)
    }

    /// Says of whole blocks that they hold data now: the caller has zeroed or written them.
    ///
    /// # Errors
    /// When the disk fails.
    pub fn mark_written(&mut self, file: &mut File, [offset, length]: [u64; 2]) -> Result<()> {
        self.change_blocks(file, [offset, length], |address| {
            if is_to_be_zeroed(address) { Some(without_to_be_zeroed(address)) } else { None }
        })
    }

    fn change_blocks(
        &mut self,
        file: &mut File,
        [offset, length]: [u64; 2],
        change: impl Fn(u32) -> Option<u32>,
    ) -> Result<()> {
        let (mut index, last) = (offset / FILE_BLOCK, (offset + length).div_ceil(FILE_BLOCK));
        while index < last {
            self.pulse_if_due()?;
            let count = (last - index).min(TRANSACTION_BLOCKS_MAX);
            let old = file.descriptor.clone();
            file.descriptor = self.transact(|volume, transaction| {
                let mut next = old.clone();
                let mut addresses = volume.addresses(transaction, &next, index, count)?;
                for address in &mut addresses {
                    if let Some(changed) = change(*address) {
                        next.to_be_zeroed -= u32::from(is_to_be_zeroed(*address));
                        *address = changed;
                    }
                }
                volume.set_addresses(transaction, &mut next, index, &addresses)?;
                transaction.put_descriptor(volume, &next)?;
                Ok(next)
            })?;
            index += count;
        }
        Ok(())
    }

    /// Gives whole blocks inside a file back; they read as zeros from then on.
    ///
    /// # Errors
    /// When the disk fails.
    pub fn punch(&mut self, file: &mut File, [offset, length]: [u64; 2]) -> Result<()> {
        let (mut index, last) = (offset.div_ceil(FILE_BLOCK), (offset + length) / FILE_BLOCK);
        while index < last {
            self.pulse_if_due()?;
            let count = within_leaf(index, last - index);
            let old = file.descriptor.clone();
            let done;
            (file.descriptor, done) = self.transact(|volume, transaction| {
                let mut next = old.clone();
                let found = volume.addresses(transaction, &next, index, count)?;
                let plain: Vec<u32> = found.iter().map(|a| without_to_be_zeroed(*a)).collect();
                let done = Self::prefix_in_few_clusters(&plain);
                let used: Vec<u32> =
                    plain[..done].iter().copied().filter(|address| *address != 0).collect();
                volume.give(transaction, &used)?;
                next.blocks -= used.len() as u64;
                let zeroed = found[..done].iter().filter(|a| is_to_be_zeroed(**a)).count();
                next.to_be_zeroed -= zeroed as u32;
                volume.set_addresses(transaction, &mut next, index, &vec![0; done])?;
                transaction.put_descriptor(volume, &next)?;
                Ok((next, done as u64))
            })?;
            index += done;
        }
        Ok(())
    }
}

fn block_kind(level: Level) -> Resource {
    if level == Level::SubBlocks { Resource::SubBlock } else { Resource::FileBlock }
}
