//! Redo logs: what a virtual machine writes after a snapshot, in a sparse file beside the disk.
//!
//! The layout is that of `vmfsSparse` extents (magic `COWD`): a header of four sectors, a directory
//! of tables, and behind them tables of 4,096 sectors each and sectors of data, in the order in
//! which they were first written. Numbers of sectors are words of 32 bits; 0 is 'not here'.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use crate::bytes::{get_u32, put_text, put_u32};
use crate::file::{File, Fill};
use crate::limits::{FILE_BLOCK, REDO_TABLES_MAX};
use crate::volume::Volume;
use crate::{Disk, DiskError, Error, LockMode, Result};

const SECTOR: u64 = 512;
const HEADER: usize = 2048;
const DIRECTORY: u64 = 4;
/// Sectors that one table is of.
const ENTRIES: usize = 4096;
/// Bytes of the disk that one table is of.
const COVERED: u64 = ENTRIES as u64 * SECTOR;
/// Sectors that a table takes.
const TABLE_SECTORS: u32 = 32;
/// Bytes by which the file grows.
const GROWTH: u64 = 16 << 20;
/// Sectors that the header says are taken before they are: so it is written only now and then.
const AHEAD: u32 = 8192;

/// An open redo log.
#[derive(Debug)]
pub(crate) struct RedoLog {
    file: File,
    /// Bytes of the virtual disk.
    size: u64,
    /// First sectors of the tables.
    directory: Vec<u32>,
    /// Tables that were looked at, as they are in the file.
    tables: BTreeMap<usize, Vec<u32>>,
    /// The first sector of the file that is free.
    next: u32,
    /// What the header says of it: never less.
    promised: u32,
}

/// A run of a virtual disk's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    /// First byte in the virtual disk.
    pub(crate) offset: u64,
    pub(crate) length: u64,
    /// First byte in the log; `None` if it is not there.
    pub(crate) at: Option<u64>,
}

fn header(size: u64, tables: u32, next: u32, parent: &str) -> [u8; HEADER] {
    let mut out = [0; HEADER];
    put_text(&mut out, 0, 4, "COWD");
    let words = [(4, 1), (8, 3), (12, (size / SECTOR) as u32), (16, 1), (20, DIRECTORY as u32)];
    for (at, word) in words {
        put_u32(&mut out, at, word);
    }
    put_u32(&mut out, 24, tables);
    put_u32(&mut out, 28, next);
    put_text(&mut out, 32, 1023, parent);
    out
}

/// Neighbours in the disk that are neighbours in the log, or missing together.
fn runs_of(offset: u64, entries: &[u32]) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for (number, entry) in entries.iter().enumerate() {
        let at = (*entry != 0).then_some(u64::from(*entry) * SECTOR);
        match runs.last_mut() {
            Some(run) if run.at.map(|start| start + run.length) == at => run.length += SECTOR,
            _ => {
                let offset = offset + number as u64 * SECTOR;
                runs.push(Run { offset, length: SECTOR, at });
            }
        }
    }
    runs
}

fn words(bytes: &[u8]) -> Vec<u32> {
    bytes.as_chunks::<4>().0.iter().map(|word| u32::from_le_bytes(*word)).collect()
}

fn bytes_of(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// The entries of a table that a range inside of it is about.
fn entries_of(offset: u64, length: usize) -> std::ops::Range<usize> {
    let first = (offset % COVERED / SECTOR) as usize;
    first..first + length / SECTOR as usize
}

impl RedoLog {
    /// Makes an empty one for a disk.
    pub(crate) fn create<D: Disk>(
        volume: &mut Volume<D>,
        path: &str,
        size: u64,
        parent: &str,
    ) -> Result<Self> {
        let tables = size.div_ceil(COVERED);
        let Ok(sectors) = u32::try_from(size / SECTOR + tables * u64::from(TABLE_SECTORS)) else {
            return Err(Error::TooLarge);
        };
        let next = DIRECTORY as u32 + (tables * 4).div_ceil(SECTOR) as u32;
        // Everything and the tables of it must have a number.
        if sectors.checked_add(next + 2 * AHEAD).is_none() {
            return Err(Error::TooLarge);
        }
        let file = volume.create(path)?;
        let directory = vec![0; tables as usize];
        let mut log = Self { file, size, directory, tables: BTreeMap::new(), next, promised: next };
        let made = log.lay_out(volume, parent);
        if made.is_ok() {
            return Ok(log);
        }
        volume.close(log.file)?;
        volume.remove_path(path)?;
        made.map(|()| unreachable!("it failed"))
    }

    fn lay_out<D: Disk>(&mut self, volume: &mut Volume<D>, parent: &str) -> Result<()> {
        let mut bytes = header(self.size, self.directory.len() as u32, self.next, parent).to_vec();
        bytes.resize(self.next as usize * SECTOR as usize, 0);
        self.grow(volume, bytes.len() as u64)?;
        volume.write_at(&mut self.file, 0, &bytes)
    }

    /// Opens one.
    pub(crate) fn open<D: Disk>(
        volume: &mut Volume<D>,
        path: &str,
        mode: LockMode,
    ) -> Result<Self> {
        let file = volume.open(path, mode)?;
        let parsed = Self::parse(volume, &file);
        match parsed {
            Ok((size, next, directory)) => {
                Ok(Self { file, size, directory, tables: BTreeMap::new(), next, promised: next })
            }
            Err(error) => volume.close(file).and(Err(error)),
        }
    }

    fn parse<D: Disk>(volume: &mut Volume<D>, file: &File) -> Result<(u64, u32, Vec<u32>)> {
        let damaged = || Error::Format("not a redo log".into());
        let mut head = [0; HEADER];
        volume.read_at(file, 0, &mut head)?;
        let word = |at| get_u32(&head, at);
        let size = u64::from(word(12)) * SECTOR;
        let known = [word(4), word(16), word(20)] == [1, 1, DIRECTORY as u32];
        if &head[..4] != b"COWD" || !known || u64::from(word(24)) != size.div_ceil(COVERED) {
            return Err(damaged());
        }
        let mut directory = vec![0; word(24) as usize * 4];
        volume.read_at(file, DIRECTORY * SECTOR, &mut directory)?;
        Ok((size, word(28), words(&directory)))
    }

    /// Closes it; the header says then exactly what is taken.
    pub(crate) fn close<D: Disk>(mut self, volume: &mut Volume<D>) -> Result<()> {
        let mut done = Ok(());
        if self.promised != self.next {
            done = self.put_next(volume, self.next);
        }
        volume.close(self.file).and(done)
    }

    fn put_next<D: Disk>(&mut self, volume: &mut Volume<D>, next: u32) -> Result<()> {
        let mut sector = [0; SECTOR as usize];
        volume.read_at(&self.file, 0, &mut sector)?;
        put_u32(&mut sector, 28, next);
        volume.write_at(&mut self.file, 0, &sector)?;
        self.promised = next;
        Ok(())
    }

    /// Bytes of the virtual disk.
    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    fn grow<D: Disk>(&mut self, volume: &mut Volume<D>, end: u64) -> Result<()> {
        let old = self.file.length();
        if end <= old {
            return Ok(());
        }
        let from = old.next_multiple_of(FILE_BLOCK);
        let mut take = |step: u64| -> Result<()> {
            let length = end.next_multiple_of(step);
            volume.allocate(&mut self.file, [from, length - from], Fill::AsIs)
        };
        match take(GROWTH) {
            Err(Error::NoSpace) => take(FILE_BLOCK),
            other => other,
        }
    }

    /// Makes sure that so many sectors can be taken; returns the first.
    fn prepare<D: Disk>(&mut self, volume: &mut Volume<D>, sectors: u32) -> Result<u32> {
        if sectors > 0 {
            let end = self.next + sectors;
            self.grow(volume, u64::from(end) * SECTOR)?;
            if end > self.promised {
                self.put_next(volume, end + AHEAD)?;
            }
        }
        Ok(self.next)
    }

    /// A table, read if it was not yet; zeros if there is none.
    fn table<D: Disk>(&mut self, volume: &mut Volume<D>, number: usize) -> Result<&mut Vec<u32>> {
        if !self.tables.contains_key(&number) {
            let mut bytes = vec![0; ENTRIES * 4];
            let at = self.directory[number];
            if at != 0 {
                volume.read_at(&self.file, u64::from(at) * SECTOR, &mut bytes)?;
            }
            if self.tables.len() >= REDO_TABLES_MAX {
                self.tables.pop_first();
            }
            self.tables.insert(number, words(&bytes));
        }
        Ok(self.tables.get_mut(&number).expect("it was inserted"))
    }

    /// Where the bytes of a range are.
    pub(crate) fn runs<D: Disk>(
        &mut self,
        volume: &mut Volume<D>,
        offset: u64,
        length: u64,
    ) -> Result<Vec<Run>> {
        let (mut at, end) = (offset, offset + length);
        let mut runs = Vec::new();
        while at < end {
            let taken = (COVERED - at % COVERED).min(end - at);
            let number = (at / COVERED) as usize;
            if self.directory[number] == 0 {
                runs.push(Run { offset: at, length: taken, at: None });
            } else {
                let range = entries_of(at, taken as usize);
                runs.extend(runs_of(at, &self.table(volume, number)?[range]));
            }
            at += taken;
        }
        Ok(runs)
    }

    /// Reads bytes of a run of this log.
    pub(crate) fn read<D: Disk>(
        &self,
        volume: &mut Volume<D>,
        at: u64,
        buffer: &mut [u8],
    ) -> Result<()> {
        volume.read_at(&self.file, at, buffer).map(|_| ())
    }

    /// Writes whole sectors.
    pub(crate) fn write<D: Disk>(
        &mut self,
        volume: &mut Volume<D>,
        offset: u64,
        bytes: &[u8],
    ) -> Result<()> {
        let mut done = 0;
        while done < bytes.len() {
            let at = offset + done as u64;
            let taken = (COVERED - at % COVERED).min((bytes.len() - done) as u64) as usize;
            self.write_in_table(volume, at, &bytes[done..done + taken])?;
            done += taken;
        }
        Ok(())
    }

    /// Data first, then the table that makes it count. What fails leaves the log as it was.
    fn write_in_table<D: Disk>(
        &mut self,
        volume: &mut Volume<D>,
        offset: u64,
        bytes: &[u8],
    ) -> Result<()> {
        let number = (offset / COVERED) as usize;
        let range = entries_of(offset, bytes.len());
        let mut table = self.table(volume, number)?.clone();
        let missing = table[range.clone()].iter().filter(|entry| **entry == 0).count() as u32;
        let first = self.directory[number] == 0;
        let mut next = self.prepare(volume, missing + if first { TABLE_SECTORS } else { 0 })?;
        let table_at = if first { next } else { self.directory[number] };
        next += if first { TABLE_SECTORS } else { 0 };
        for entry in table[range.clone()].iter_mut().filter(|entry| **entry == 0) {
            *entry = next;
            next += 1;
        }
        let mut written = self.put_data(volume, offset, bytes, &table[range.clone()]);
        if written.is_ok() && missing > 0 {
            written = self.put_table(volume, number, table_at, &table, range);
        }
        match written {
            // The array refused: what was to be taken is still free.
            Err(Error::Disk(DiskError::OutOfSpace)) => return written,
            // It is not known what was written: what was to be taken is not used again.
            Err(_) => drop(self.tables.remove(&number)),
            Ok(()) => drop(self.tables.insert(number, table)),
        }
        self.next = next;
        written
    }

    fn put_data<D: Disk>(
        &mut self,
        volume: &mut Volume<D>,
        offset: u64,
        bytes: &[u8],
        entries: &[u32],
    ) -> Result<()> {
        for run in runs_of(offset, entries) {
            let at = run.at.expect("every sector has a place");
            let start = (run.offset - offset) as usize;
            volume.write_at(&mut self.file, at, &bytes[start..start + run.length as usize])?;
        }
        Ok(())
    }

    /// Writes the sectors of a table that changed; all of it, and the directory, if it is new.
    fn put_table<D: Disk>(
        &mut self,
        volume: &mut Volume<D>,
        number: usize,
        at: u32,
        table: &[u32],
        range: std::ops::Range<usize>,
    ) -> Result<()> {
        const WORDS: usize = SECTOR as usize / 4;
        let at_bytes = u64::from(at) * SECTOR;
        if self.directory[number] != 0 {
            let (first, last) = (range.start / WORDS, range.end.div_ceil(WORDS));
            let part = bytes_of(&table[first * WORDS..last * WORDS]);
            return volume.write_at(&mut self.file, at_bytes + first as u64 * SECTOR, &part);
        }
        volume.write_at(&mut self.file, at_bytes, &bytes_of(table))?;
        let sector = number / WORDS * WORDS;
        let mut words: Vec<u32> = self.directory.iter().skip(sector).take(WORDS).copied().collect();
        words.resize(WORDS, 0);
        words[number - sector] = at;
        let place = DIRECTORY * SECTOR + sector as u64 * 4;
        volume.write_at(&mut self.file, place, &bytes_of(&words))?;
        self.directory[number] = at;
        Ok(())
    }

    /// Numbers of the tables that there are.
    pub(crate) fn tables(&self) -> Vec<usize> {
        (0..self.directory.len()).filter(|number| self.directory[*number] != 0).collect()
    }

    /// The range of the disk that a table is of.
    pub(crate) fn covered(&self, table: usize) -> [u64; 2] {
        let offset = table as u64 * COVERED;
        [offset, COVERED.min(self.size - offset)]
    }
}
