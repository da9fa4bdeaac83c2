//! Directories: entries of 140 bytes, one after the other.

use crate::bytes::{get_text, get_u32, put_text, put_u32};
use crate::fd::{FileDescriptor, FileKind, Level};
use crate::limits::{DIRECTORY_LOOKS_MAX, FILE_BLOCK, NAME_MAX};
use crate::resource::Resource;
use crate::space::Reach;
use crate::transaction::Transaction;
use crate::volume::Volume;
use crate::{Disk, Error, Result};

pub(crate) const ENTRY: usize = 140;

/// The root directory's descriptor.
pub(crate) const ROOT: u32 = 4;

/// An entry of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// What it is.
    pub kind: FileKind,
    /// Its name, without the directory's.
    pub name: String,
    pub(crate) address: u32,
    pub(crate) generation: u32,
}

impl Entry {
    pub(crate) fn emit(&self) -> [u8; ENTRY] {
        let mut out = [0; ENTRY];
        put_u32(&mut out, 0, self.kind.code());
        put_u32(&mut out, 4, self.address);
        put_u32(&mut out, 8, self.generation);
        put_text(&mut out, 12, NAME_MAX, &self.name);
        out
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        Some(Self {
            kind: FileKind::parse(get_u32(bytes, 0)).ok()?,
            address: get_u32(bytes, 4),
            generation: get_u32(bytes, 8),
            name: get_text(bytes, 12, 128),
        })
    }
}

/// Splits a path into the directories on the way and the last name.
pub(crate) fn split(path: &str) -> Result<(Vec<&str>, &str)> {
    let mut names: Vec<&str> = path.split('/').filter(|name| !name.is_empty()).collect();
    let last = names.pop().unwrap_or(".");
    for name in names.iter().chain([&last]) {
        if name.len() > NAME_MAX || name.contains('\0') {
            return Err(Error::Name((*name).to_owned()));
        }
    }
    Ok((names, last))
}

impl<D: Disk> Volume<D> {
    /// The entries of a directory as one moment had them, without locking it.
    pub(crate) fn entries(&mut self, directory: u32) -> Result<(FileDescriptor, Vec<Entry>)> {
        for attempt in 0..DIRECTORY_LOOKS_MAX {
            let (before, file) = self.read_descriptor(directory)?;
            if before.holders.is_empty() {
                let entries = self.read_entries(&Transaction::default(), &file);
                let (after, _) = self.read_descriptor(directory)?;
                if after.token == before.token {
                    return Ok((file, entries?));
                }
            }
            self.back_off(attempt);
        }
        // It is locked as for a change: so a dead host's lock goes, too.
        self.transact(|volume, transaction| volume.locked_entries(transaction, directory))
    }

    fn locked_entries(
        &mut self,
        transaction: &mut Transaction,
        directory: u32,
    ) -> Result<(FileDescriptor, Vec<Entry>)> {
        let file = self.lock_descriptor_for(transaction, directory)?;
        if file.kind != FileKind::Directory || file.links == 0 {
            return Err(Error::Kind("a directory on the way".into()));
        }
        let entries = self.read_entries(transaction, &file)?;
        Ok((file, entries))
    }

    fn read_entries(&mut self, staged: &Transaction, file: &FileDescriptor) -> Result<Vec<Entry>> {
        if file.kind != FileKind::Directory {
            return Err(Error::Kind("a directory on the way".into()));
        }
        let size = file.level.block_size();
        let blocks = file.length.div_ceil(size);
        let mut bytes = Vec::new();
        for address in self.addresses(staged, file, 0, blocks)? {
            let left = (file.length - bytes.len() as u64).min(size).next_multiple_of(512);
            let at = self.block_at(address)?;
            let start = bytes.len();
            bytes.resize(start + left as usize, 0);
            staged.read(self, at, &mut bytes[start..])?;
        }
        bytes.truncate(file.length as usize);
        let damaged = || Error::Format(format!("directory {:08x} is damaged", file.address));
        bytes.chunks_exact(ENTRY).map(|entry| Entry::parse(entry).ok_or_else(damaged)).collect()
    }

    /// The descriptor of a directory on a path.
    pub(crate) fn directory(&mut self, names: &[&str]) -> Result<u32> {
        let mut directory = ROOT;
        for name in names {
            let entry = self.lookup(directory, name)?;
            if entry.kind != FileKind::Directory {
                return Err(Error::Kind((*name).to_owned()));
            }
            directory = entry.address;
        }
        Ok(directory)
    }

    pub(crate) fn lookup(&mut self, directory: u32, name: &str) -> Result<Entry> {
        let (_, entries) = self.entries(directory)?;
        let found = entries.into_iter().find(|entry| entry.name == name);
        found.ok_or_else(|| Error::NotFound(name.to_owned()))
    }

    /// Adds an entry to a directory, which stays locked until the transaction's end.
    pub(crate) fn insert(
        &mut self,
        transaction: &mut Transaction,
        directory: u32,
        entry: &Entry,
    ) -> Result<()> {
        let (mut file, entries) = self.locked_entries(transaction, directory)?;
        if entries.iter().any(|other| other.name == entry.name) {
            return Err(Error::Exists(entry.name.clone()));
        }
        let offset = file.length;
        file.length += ENTRY as u64;
        file.modified = self.disk.wall_clock();
        let (size, count) = (file.level.block_size(), file.blocks);
        if file.length > count * size {
            let kind = match file.level {
                Level::SubBlocks => Resource::SubBlock,
                _ => Resource::FileBlock,
            };
            let block = self.take(transaction, Reach::Head, kind, 1)?;
            self.set_addresses(transaction, &mut file, count, &block)?;
            file.blocks += 1;
        }
        self.patch_directory(transaction, &file, offset, &entry.emit())?;
        transaction.put_descriptor(self, &file)
    }

    /// Writes into a directory. What is beyond its old end needs not be read.
    fn patch_directory(
        &mut self,
        transaction: &mut Transaction,
        file: &FileDescriptor,
        offset: u64,
        bytes: &[u8],
    ) -> Result<()> {
        let size = file.level.block_size();
        let mut done = 0;
        while done < bytes.len() {
            let at = offset + done as u64;
            let taken = ((size - at % size) as usize).min(bytes.len() - done);
            let block = self.addresses(transaction, file, at / size, 1)?[0];
            let place = self.block_at(block)? + at % size;
            transaction.patch(self, place, &bytes[done..done + taken])?;
            done += taken;
        }
        Ok(())
    }

    /// Removes an entry: the last one takes its place.
    pub(crate) fn remove(
        &mut self,
        transaction: &mut Transaction,
        directory: u32,
        name: &str,
    ) -> Result<Entry> {
        let (mut file, entries) = self.locked_entries(transaction, directory)?;
        let found = entries.iter().position(|entry| entry.name == name);
        let index = found.ok_or_else(|| Error::NotFound(name.to_owned()))?;
        let last = entries.len() - 1;
        if index != last {
            let image = entries[last].emit();
            self.patch_directory(transaction, &file, (index * ENTRY) as u64, &image)?;
        }
        self.patch_directory(transaction, &file, (last * ENTRY) as u64, &[0; ENTRY])?;
        file.length = (last * ENTRY) as u64;
        file.modified = self.disk.wall_clock();
        transaction.put_descriptor(self, &file)?;
        Ok(entries[index].clone())
    }

    /// Gives an entry another name in the same directory.
    pub(crate) fn rename_within(
        &mut self,
        transaction: &mut Transaction,
        directory: u32,
        [from, to]: [&str; 2],
    ) -> Result<()> {
        let (file, entries) = self.locked_entries(transaction, directory)?;
        if entries.iter().any(|entry| entry.name == to) {
            return Err(Error::Exists(to.to_owned()));
        }
        let found = entries.iter().position(|entry| entry.name == from);
        let index = found.ok_or_else(|| Error::NotFound(from.to_owned()))?;
        let renamed = Entry { name: to.to_owned(), ..entries[index].clone() };
        self.patch_directory(transaction, &file, (index * ENTRY) as u64, &renamed.emit())
    }

    /// The entries of a directory, without '.' and '..'.
    ///
    /// # Errors
    /// When there is no such directory.
    pub fn list(&mut self, path: &str) -> Result<Vec<Entry>> {
        let names: Vec<&str> = path.split('/').filter(|name| !name.is_empty()).collect();
        let directory = self.directory(&names)?;
        let (_, entries) = self.entries(directory)?;
        Ok(entries.into_iter().filter(|entry| entry.name != "." && entry.name != "..").collect())
    }
}

const _: () = assert!(FILE_BLOCK > ENTRY as u64);
