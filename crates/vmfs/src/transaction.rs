//! Changes of metadata, all or none: locks, a journal record, the changes, unlock.

use std::collections::btree_map::Entry;

use crate::bytes::Sector;
use crate::disk::Swap;
use crate::fd::{self, FileDescriptor};
use crate::journal::{self, Changes};
use crate::limits::{LOCK_ATTEMPTS_MAX, TRANSACTION_LOCKS_MAX, TRANSACTION_SECTORS_MAX};
use crate::lock::{LockMode, LockRecord};
use crate::resource::Resource;
use crate::volume::Volume;
use crate::{Disk, DiskError, Error, Result};

/// A lock that this host holds.
#[derive(Clone, Debug)]
pub(crate) struct Held {
    pub(crate) record: LockRecord,
}

/// What is staged, and the locks that are held until it is done.
#[derive(Debug, Default)]
pub(crate) struct Transaction {
    held: Vec<Held>,
    changes: Changes,
}

impl Transaction {
    pub(crate) fn holds(&self, address: u64) -> bool {
        self.held.iter().any(|held| held.record.address == address)
    }

    /// Addresses and tokens of the locks; none if they are too many to be named.
    fn locks(&self) -> Vec<(u64, u64)> {
        if self.held.len() > TRANSACTION_LOCKS_MAX {
            return Vec::new();
        }
        self.held.iter().map(|held| (held.record.address, held.record.token)).collect()
    }

    pub(crate) fn has_room_for(&self, sectors: usize) -> bool {
        self.changes.len() + sectors <= TRANSACTION_SECTORS_MAX
    }

    /// Changes some bytes inside sectors that are read first, unless they are staged already.
    pub(crate) fn patch<D: Disk>(
        &mut self,
        volume: &mut Volume<D>,
        address: u64,
        bytes: &[u8],
    ) -> Result<()> {
        let mut done = 0;
        while done < bytes.len() {
            let at = address + done as u64;
            let (sector, inside) = (at / 512 * 512, (at % 512) as usize);
            let taken = (512 - inside).min(bytes.len() - done);
            let image = match self.changes.entry(sector) {
                Entry::Occupied(staged) => staged.into_mut(),
                Entry::Vacant(place) => {
                    let mut image = Box::new([0; 512]);
                    if taken < 512 {
                        volume.read_sectors(sector, &mut image[..])?;
                    }
                    place.insert(image)
                }
            };
            image[inside..inside + taken].copy_from_slice(&bytes[done..done + taken]);
            done += taken;
        }
        Ok(())
    }

    /// Reads what the disk will hold once this is done.
    pub(crate) fn read<D: Disk>(
        &self,
        volume: &mut Volume<D>,
        address: u64,
        buffer: &mut [u8],
    ) -> Result<()> {
        volume.read_sectors(address, buffer)?;
        for (at, image) in self.changes.range(address..address + buffer.len() as u64) {
            let start = (at - address) as usize;
            buffer[start..start + 512].copy_from_slice(&image[..]);
        }
        Ok(())
    }

    /// Stages a descriptor, all but its lock.
    pub(crate) fn put_descriptor<D: Disk>(
        &mut self,
        volume: &mut Volume<D>,
        file: &FileDescriptor,
    ) -> Result<()> {
        let at = volume.descriptor_at(file.address)?;
        self.patch(volume, at + 512, &file.emit())
    }

    /// Stages a descriptor's metadata without its addresses, in one sector.
    pub(crate) fn put_descriptor_head<D: Disk>(
        &mut self,
        volume: &mut Volume<D>,
        file: &FileDescriptor,
    ) -> Result<()> {
        let at = volume.descriptor_at(file.address)?;
        self.patch(volume, at + 512, &file.emit()[..512])
    }

    /// What is staged for a sector.
    pub(crate) fn staged(&self, address: u64) -> Option<&Sector> {
        self.changes.get(&address).map(|image| &**image)
    }

    /// Stages a sector as it is.
    pub(crate) fn put_sector(&mut self, address: u64, image: Sector) {
        self.changes.insert(address, Box::new(image));
    }
}

/// How long to wait for a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Patience {
    /// Not at all: something else will do as well.
    None,
    /// The holder gives it back soon, or is dead.
    Short,
    /// The holder may keep it as long as it lives.
    Lease,
}

impl<D: Disk> Volume<D> {
    /// Runs an operation whose changes happen together or not at all. Where it meets another
    /// host's lock it gives up its own, waits and begins anew.
    pub(crate) fn transact<T>(
        &mut self,
        mut operation: impl FnMut(&mut Self, &mut Transaction) -> Result<T>,
    ) -> Result<T> {
        for attempt in 0..LOCK_ATTEMPTS_MAX {
            let mut transaction = Transaction::default();
            let outcome = match operation(self, &mut transaction) {
                Ok(value) => self.commit(&transaction).map(|()| value),
                Err(error) => Err(error),
            };
            // Giving the locks back makes the record void.
            let released = self.unlock_each(&transaction.held);
            if released.is_err() && outcome.is_ok() {
                self.clear_journal()?;
            }
            match outcome {
                Err(Error::Contended) => {
                    released?;
                    self.back_off(attempt);
                }
                other => {
                    let value = other?;
                    released?;
                    return Ok(value);
                }
            }
        }
        Err(Error::Contended)
    }

    pub(crate) fn back_off(&mut self, attempt: u32) {
        let spread = self.below(u64::from(attempt.min(40) + 1) * 1000);
        self.disk.pause_us(500 + spread);
    }

    fn commit(&mut self, transaction: &Transaction) -> Result<()> {
        self.pulse_if_due()?;
        let changes = &transaction.changes;
        if changes.len() < 2 {
            return self.apply(changes);
        }
        let at = self.own_journal()?;
        let locks = transaction.locks();
        let record = journal::emit(changes, &locks, self.slot_generation());
        self.stats.transactions += 1;
        self.write_sectors(at, &record)?;
        if let Err(error) = self.apply(changes) {
            // Some of them may be made. The record is to hold also when the locks are given back.
            let record = journal::emit(changes, &[], self.slot_generation());
            return self.write_sectors(at, &record).and(Err(error));
        }
        if locks.is_empty() { self.clear_journal() } else { Ok(()) }
    }

    fn clear_journal(&mut self) -> Result<()> {
        let at = self.own_journal()?;
        self.write_sectors(at, &[0; 512])
    }

    /// Writes the changes, neighbours together.
    pub(crate) fn apply(&mut self, changes: &Changes) -> Result<()> {
        let mut runs: Vec<(u64, Vec<u8>)> = Vec::new();
        for (address, image) in changes {
            match runs.last_mut() {
                Some((start, run)) if *start + run.len() as u64 == *address => {
                    run.extend_from_slice(&image[..]);
                }
                _ => runs.push((*address, image.to_vec())),
            }
        }
        if runs.is_empty() { Ok(()) } else { self.write_each(runs) }
    }

    /// Takes an object's lock for the rest of a transaction, and reads the object from its lock on.
    pub(crate) fn lock_for(
        &mut self,
        transaction: &mut Transaction,
        address: u64,
        patience: Patience,
        object: &mut [u8],
    ) -> Result<()> {
        if transaction.holds(address) {
            return self.read_sectors(address, object);
        }
        let held = self.lock(address, LockMode::Exclusive, patience, object)?;
        transaction.held.push(held);
        Ok(())
    }

    /// Takes a lock and reads its object, which begins with it. With [`Patience::Short`] it fails
    /// with [`Error::Contended`] after one look, so that the caller gives up what it holds before it
    /// waits.
    ///
    /// The object is read with its lock: if nobody held that, and it is unchanged when it is taken,
    /// then nobody changed the object in between.
    fn lock(
        &mut self,
        address: u64,
        mode: LockMode,
        patience: Patience,
        object: &mut [u8],
    ) -> Result<Held> {
        let (mut started, mut token, mut attempt) = (self.disk.now_us(), u64::MAX, 0);
        loop {
            let (image, found) = self.read_lock(address, object)?;
            if found.token != token {
                // Another acquisition: its holder is given as long as the one before.
                (started, token) = (self.disk.now_us(), found.token);
            }
            let record = self.without_dead(&found)?;
            let now = self.disk.now_us();
            if let Some(next) = record.with(self.holder(), mode, now) {
                if self.swap(address, [&image, &next.emit()])? {
                    self.stats.locks += 1;
                    if !found.holders.is_empty() {
                        // They may have changed it, or a dead one's journal did.
                        self.read_sectors(address, object)?;
                    }
                    return Ok(Held { record: next });
                }
                continue;
            }
            if patience != Patience::Lease {
                return Err(Error::Contended);
            }
            let holder = record.holders[0];
            if holder == self.holder()
                || self.showed_life(&holder, started)
                || now - started > self.lease_us() * 2
            {
                return Err(Error::Locked { owner: holder.host.to_string() });
            }
            self.pulse_if_due()?;
            self.back_off(attempt);
            attempt += 1;
        }
    }

    /// Reads an object, of which the first sector is its lock.
    pub(crate) fn read_lock(
        &mut self,
        address: u64,
        object: &mut [u8],
    ) -> Result<(Sector, LockRecord)> {
        self.read_sectors(address, object)?;
        let image: Sector = object[..512].try_into().expect("512 bytes");
        let record = LockRecord::parse(&image);
        if !record.is_of(address) {
            return Err(Error::Format(format!("no lock at {address:x}")));
        }
        Ok((image, record))
    }

    fn without_dead(&mut self, record: &LockRecord) -> Result<LockRecord> {
        let mut left = record.clone();
        for holder in &record.holders {
            if self.is_dead(holder)? {
                left = left.without(holder);
            }
        }
        Ok(left)
    }

    /// Takes the locks of objects that nobody held when these images of them were read: as many
    /// as still nobody holds, all at once. Returns which ones.
    pub(crate) fn lock_each(
        &mut self,
        transaction: &mut Transaction,
        images: &[(u64, Sector)],
    ) -> Result<Vec<u64>> {
        let (holder, now) = (self.holder(), self.disk.now_us());
        let next = |(address, image): &(u64, Sector)| {
            let found = LockRecord::parse(image);
            let record = found.with(holder, LockMode::Exclusive, now)?;
            let swap = Swap { offset: *address, expected: *image, replacement: record.emit() };
            found.is_of(*address).then_some((record, swap))
        };
        let (records, swaps): (Vec<_>, Vec<_>) = images.iter().filter_map(next).unzip();
        let mut taken = Vec::new();
        let mut failure = None;
        for (record, swapped) in records.into_iter().zip(self.swap_each(swaps)) {
            match swapped {
                Ok(true) => {
                    taken.push(record.address);
                    transaction.held.push(Held { record });
                }
                Ok(false) | Err(DiskError::Reserved) => {}
                Err(error) => failure = Some(error),
            }
        }
        self.stats.locks += taken.len() as u64;
        failure.map_or(Ok(taken), |error| Err(error.into()))
    }

    /// Gives locks back, all at once; those that others share, or that met an error, one by one.
    fn unlock_each(&mut self, held: &[Held]) -> Result<()> {
        if held.len() < 2 || !self.locks_at_once() {
            return held.iter().try_for_each(|held| self.unlock(held));
        }
        let holder = self.holder();
        let swap = |held: &Held| Swap {
            offset: held.record.address,
            expected: held.record.emit(),
            replacement: held.record.without(&holder).emit(),
        };
        let swapped = self.swap_each(held.iter().map(swap).collect());
        let left = held.iter().zip(swapped).filter(|(_, swapped)| *swapped != Ok(true));
        left.map(|(held, _)| held).try_for_each(|held| self.unlock(held))
    }

    /// Gives a lock back.
    pub(crate) fn unlock(&mut self, held: &Held) -> Result<()> {
        let mut record = held.record.clone();
        loop {
            let next = record.without(&self.holder());
            if self.swap(record.address, [&record.emit(), &next.emit()])? {
                return Ok(());
            }
            // Another holder of a shared lock came or went.
            let (_, found) = self.read_lock(record.address, &mut [0; 512])?;
            if !found.holders.contains(&self.holder()) {
                return Err(Error::LostHeartbeat);
            }
            record = found;
        }
    }

    /// The volume address of a descriptor.
    pub(crate) fn descriptor_at(&self, address: u32) -> Result<u64> {
        let number = Resource::Descriptor.number(address);
        self.resource(Resource::Descriptor).resource(number)
    }

    /// Reads a descriptor and its lock.
    pub(crate) fn read_descriptor(&mut self, address: u32) -> Result<(LockRecord, FileDescriptor)> {
        let at = self.descriptor_at(address)?;
        let mut bytes = [0; fd::SIZE as usize];
        self.read_sectors(at, &mut bytes)?;
        let lock = LockRecord::parse(bytes[..512].try_into().expect("512 bytes"));
        Ok((lock, FileDescriptor::parse(&bytes[512..], address)?))
    }

    /// Locks a descriptor and reads it.
    pub(crate) fn lock_descriptor(
        &mut self,
        address: u32,
        mode: LockMode,
    ) -> Result<(Held, FileDescriptor)> {
        let at = self.descriptor_at(address)?;
        let mut bytes = [0; fd::SIZE as usize];
        let held = self.lock(at, mode, Patience::Lease, &mut bytes)?;
        match FileDescriptor::parse(&bytes[512..], address) {
            Ok(file) => Ok((held, file)),
            Err(error) => self.unlock(&held).and(Err(error)),
        }
    }

    /// Locks a descriptor for the rest of a transaction and reads it.
    pub(crate) fn lock_descriptor_for(
        &mut self,
        transaction: &mut Transaction,
        address: u32,
    ) -> Result<FileDescriptor> {
        let at = self.descriptor_at(address)?;
        let mut bytes = [0; fd::SIZE as usize];
        self.lock_for(transaction, at, Patience::Short, &mut bytes)?;
        FileDescriptor::parse(&bytes[512..], address)
    }
}
