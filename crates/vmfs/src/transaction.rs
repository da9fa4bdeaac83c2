//! Changes of metadata, all or none: locks, a journal record, the changes, unlock.

use std::collections::btree_map::Entry;

use crate::bytes::Sector;
use crate::disk::Swap;
use crate::fd::{self, FileDescriptor};
use crate::journal::{self, Changes};
use crate::limits::{LOCK_ATTEMPTS_MAX, TRANSACTION_LOCKS_MAX, TRANSACTION_SECTORS_MAX};
use crate::lock::{LockMode, LockRecord};
use crate::resource::Resource;
use crate::settle::runs;
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
    /// Sectors as they were when they were read under this transaction's locks.
    before: Changes,
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
                        self.before.entry(sector).or_insert_with(|| image.clone());
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

    /// Keeps sectors from an address on as they were read under a lock: what is taken back is
    /// written as it was.
    pub(crate) fn remember(&mut self, address: u64, bytes: &[u8]) {
        for (at, image) in (address..).step_by(512).zip(bytes.as_chunks::<512>().0) {
            self.before.entry(at).or_insert_with(|| Box::new(*image));
        }
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
            self.settle()?;
            let mut transaction = Transaction::default();
            let outcome = match operation(self, &mut transaction) {
                Ok(value) => self.commit(&mut transaction).map(|()| value),
                Err(error) => Err(error),
            };
            // Giving the locks back makes the record void; what was half made is taken back first.
            self.unsettled.held.append(&mut transaction.held);
            let settled = self.settle();
            match (outcome, settled) {
                (Err(Error::Contended), Ok(())) => self.back_off(attempt),
                (Err(Error::Contended) | Ok(_), Err(Error::LostHeartbeat)) => {
                    return Err(Error::LostHeartbeat);
                }
                (Err(Error::Contended), Err(error)) => return Err(error),
                // What is left to be done here is done before anything else is.
                (outcome, _) => return outcome,
            }
        }
        Err(Error::Contended)
    }

    pub(crate) fn back_off(&mut self, attempt: u32) {
        let spread = self.below(u64::from(attempt.min(40) + 1) * 1000);
        self.disk.pause_us(500 + spread);
    }

    /// Makes the changes. If the disk refuses one of them, those that are made are to be taken
    /// back: see [`Volume::settle`].
    fn commit(&mut self, transaction: &mut Transaction) -> Result<()> {
        self.pulse_if_due()?;
        let changes = &transaction.changes;
        if changes.len() < 2 {
            return self.apply(changes);
        }
        let before =
            self.as_before(&transaction.changes, std::mem::take(&mut transaction.before))?;
        let at = self.own_journal()?;
        let locks = transaction.locks();
        let record = journal::emit(changes, &locks, self.slot_generation());
        self.stats.transactions += 1;
        // A record without locks holds until it is cleared, also if it is not known to be written.
        self.unsettled.record = locks.is_empty();
        self.write_sectors(at, &record)?;
        let applied = self.apply(changes);
        if applied.is_err() {
            self.unsettled.undo = before;
        }
        applied
    }

    /// The sectors of some changes as they are on the disk before.
    fn as_before(&mut self, changes: &Changes, mut known: Changes) -> Result<Changes> {
        known.retain(|address, _| changes.contains_key(address));
        let missing = changes.iter().filter(|(address, _)| !known.contains_key(address));
        for (start, mut run) in runs(missing) {
            self.read_sectors(start, &mut run)?;
            for (at, image) in (start..).step_by(512).zip(run.as_chunks::<512>().0) {
                known.insert(at, Box::new(*image));
            }
        }
        Ok(known)
    }

    pub(crate) fn clear_journal(&mut self) -> Result<()> {
        let at = self.own_journal()?;
        self.write_sectors(at, &[0; 512])
    }

    /// Writes the changes, neighbours together.
    pub(crate) fn apply(&mut self, changes: &Changes) -> Result<()> {
        let runs = runs(changes.iter());
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
        transaction.remember(address + 512, &object[512..]);
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
        for (record, swapped) in records.into_iter().zip(self.swap_each(swaps)?) {
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
    /// Returns those that could not be given back, and why.
    pub(crate) fn unlock_each(&mut self, mut held: Vec<Held>) -> (Vec<Held>, Result<()>) {
        if held.len() >= 2 && self.locks_at_once() {
            let holder = self.holder();
            let swap = |held: &Held| Swap {
                offset: held.record.address,
                expected: held.record.emit(),
                replacement: held.record.without(&holder).emit(),
            };
            let swapped = match self.swap_each(held.iter().map(swap).collect()) {
                Ok(swapped) => swapped,
                Err(error) => return (held, Err(error)),
            };
            let left = held.into_iter().zip(swapped).filter(|(_, swapped)| *swapped != Ok(true));
            held = left.map(|(held, _)| held).collect();
        }
        let mut failure = Ok(());
        held.retain(|held| {
            let unlocked = self.unlock(held);
            let failed = unlocked.is_err();
            failure = std::mem::replace(&mut failure, Ok(())).and(unlocked);
            failed
        });
        (held, failure)
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
    pub(crate) fn descriptor_at(&mut self, address: u32) -> Result<u64> {
        let number = Resource::Descriptor.number(address);
        self.place(Resource::Descriptor, number)
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
        self.settle()?;
        let at = self.descriptor_at(address)?;
        let mut bytes = [0; fd::SIZE as usize];
        let held = self.lock(at, mode, Patience::Lease, &mut bytes)?;
        match FileDescriptor::parse(&bytes[512..], address) {
            Ok(file) => Ok((held, file)),
            Err(error) => self.give_back(held).and(Err(error)),
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
