//! A volume as one host has it mounted: its heartbeat, and the locks it takes.

#[cfg(test)]
mod growing;
#[cfg(test)]
mod refusals;
#[cfg(test)]
mod second_reader;
#[cfg(test)]
mod spanning;
#[cfg(test)]
mod takeovers;
#[cfg(test)]
mod tests;

use std::collections::HashMap;

use crate::bytes::{Sector, Uuid};
use crate::descriptor::{self, Descriptor};
use crate::disk::{DiskError, Guard, Swap};
use crate::extents::Other;
use crate::fd::{self, FileDescriptor};
use crate::heartbeat::{self, Slot};
use crate::journal;
use crate::limits::{FILE_BLOCK, HOSTS_MAX, RESERVE_ATTEMPTS_MAX};
use crate::lock::{Contention, Holder, Locking, read_patiently};
use crate::lvm::{self, Header, Place};
use crate::partition;
use crate::resource::{Resource, ResourceFile};
use crate::settle::Unsettled;
use crate::{Disk, Error, Result};

/// How a host mounts a volume.
#[derive(Clone, Debug)]
pub struct Mount {
    /// The host.
    pub host: Uuid,
    /// Its name, for people who look at the heartbeat.
    pub name: String,
    /// How it takes on-disk locks.
    pub locking: Locking,
    /// Whether the periodic heartbeat is a COMPARE AND WRITE (UseATSForHBOnVMFS5) or a plain
    /// write after a look.
    pub ats_heartbeat: bool,
}

/// What a host did on a volume since it mounted it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// On-disk locks acquired.
    pub locks: u64,
    /// Meetings with other hosts.
    pub contention: Contention,
    /// Transactions of more than one sector.
    pub transactions: u64,
    /// Dead hosts whose journal was replayed.
    pub takeovers: u64,
}

/// A holder that is watched: its stamp, and when it was first seen.
#[derive(Clone, Copy, Debug)]
struct Watched {
    stamp_us: u64,
    since_us: u64,
    /// Whether it changed since it was first seen.
    changed: bool,
}

/// A mounted volume.
#[derive(Debug)]
pub struct Volume<D> {
    pub(crate) disk: D,
    /// Disks beside that one, which is the head.
    pub(crate) others: Vec<Other<D>>,
    /// What the head says of the volume.
    pub(crate) head: Header,
    /// What the disks look at after a time without paths.
    pub(crate) guard: Option<Guard>,
    descriptor: Descriptor,
    pub(crate) mount: Mount,
    resources: [ResourceFile; 4],
    journal: Vec<u32>,
    slot: Slot,
    pulsed_us: u64,
    watched: HashMap<(u64, u64), Watched>,
    pub(crate) hints: [u64; 4],
    random: u64,
    pub(crate) stats: Stats,
    /// What a transaction left to be done.
    pub(crate) unsettled: Unsettled,
}

/// What a volume says about itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The file system.
    pub uuid: Uuid,
    /// Its name.
    pub label: String,
    /// Bytes.
    pub size_bytes: u64,
    /// Whether locks never use reservations.
    pub ats_only: bool,
    /// A heartbeat that does not change for so long is a dead host's.
    pub lease_ms: u32,
    /// The names of its disks, the head first.
    pub disks: Vec<String>,
}

/// Looks at the volume on a disk without mounting it.
///
/// # Errors
/// When there is none, or the disk cannot be read.
pub fn probe(disk: &mut impl Disk) -> Result<Identity> {
    let partition = partition::find(disk)?;
    let head = open_head(disk, partition)?;
    let mut sector = [0; 512];
    read_patiently(disk, head.part.base() + descriptor::OFFSET, &mut sector)?;
    let found = Descriptor::parse(&sector)?;
    let disks = lvm::names(disk, &head)?;
    Ok(Identity {
        uuid: found.uuid,
        label: found.label,
        size_bytes: head.size,
        ats_only: found.ats_only,
        lease_ms: found.lease_ms,
        disks,
    })
}

fn open_head(disk: &mut impl Disk, partition: u64) -> Result<Header> {
    let head = lvm::read_head(disk, partition)?;
    if head.part.base() + head.part.length > disk.size_bytes() {
        return Err(Error::Format("the volume ends beyond the LUN".into()));
    }
    Ok(head)
}

impl<D: Disk> Volume<D> {
    /// Mounts: reads the metadata and takes a heartbeat slot.
    ///
    /// # Errors
    /// When there is no volume, every slot is taken, or an ATS-only volume is to be mounted
    /// without ATS.
    pub fn mount(mut disk: D, mount: Mount) -> Result<Self> {
        let partition = partition::find(&mut disk)?;
        let head = open_head(&mut disk, partition)?;
        let mut sector = [0; 512];
        read_patiently(&mut disk, head.part.base() + descriptor::OFFSET, &mut sector)?;
        let descriptor = Descriptor::parse(&sector)?;
        if descriptor.lvm != head.uuid {
            return Err(Error::Format("the file system belongs to another volume".into()));
        }
        if descriptor.ats_only && mount.locking == Locking::Scsi {
            return Err(Error::Argument(
                "the volume is ATS-only: enable hardware accelerated locking",
            ));
        }
        let resources = Resource::ALL.map(|kind| ResourceFile {
            kind,
            total: HOSTS_MAX,
            groups: 1,
            blocks: vec![Resource::FileBlock.address(4)],
        });
        let random = disk.now_us() ^ crate::bytes::get_u64(&mount.host.0, 2);
        let mut volume = Self {
            others: Vec::new(),
            head,
            guard: None,
            descriptor,
            mount,
            resources,
            journal: Vec::new(),
            slot: Slot::clear(0, 0),
            pulsed_us: 0,
            watched: HashMap::new(),
            hints: [0; 4],
            random: random | 1,
            stats: Stats::default(),
            unsettled: Unsettled::default(),
            disk,
        };
        volume.open_disks()?;
        volume.open_system_files()?;
        volume.acquire_slot()?;
        let hints = volume.resources.each_ref().map(ResourceFile::clusters);
        volume.hints = hints.map(|clusters| volume.below(clusters));
        Ok(volume)
    }

    /// The first descriptors lie at a known place; they tell where the rest is.
    fn open_system_files(&mut self) -> Result<()> {
        for kind in
            [Resource::Descriptor, Resource::FileBlock, Resource::SubBlock, Resource::PointerBlock]
        {
            let (_, blocks) = self.system_file(u64::from(kind.file()))?;
            let first =
                *blocks.first().ok_or_else(|| Error::Format("an empty resource file".into()))?;
            let mut header = [0; 512];
            self.read_sectors(u64::from(first >> 6) * FILE_BLOCK, &mut header)?;
            // A host that grows it enters the blocks before it changes the header: these are read
            // after that.
            let (file, blocks) = self.system_file(u64::from(kind.file()))?;
            let resource = ResourceFile::parse(kind, &header, blocks)?;
            if resource.length() > file.length {
                return Err(Error::Format(format!("the resource file of {kind:?} is short")));
            }
            self.resources[kind as usize - 1] = resource;
        }
        // A host that grows the volume writes the head before these files: what was read of the
        // head before them may be older than they are.
        if self.size_bytes() > self.head.size {
            self.open_disks_anew()?;
        }
        if self.size_bytes() > self.head.size {
            return Err(Error::Format("there are more file blocks than the volume has".into()));
        }
        self.journal = self.system_file(crate::format::JOURNAL_FILE)?.1;
        if (self.journal.len() as u64) * FILE_BLOCK < HOSTS_MAX * journal::SLOT {
            return Err(Error::Format(
                "there is no journal of ours: only volumes that this program made can be mounted"
                    .into(),
            ));
        }
        Ok(())
    }

    /// Reads anew what tells the volume's size and where its resources lie: another host may have
    /// grown it.
    pub(crate) fn refresh(&mut self) -> Result<()> {
        self.open_disks_anew()?;
        self.open_system_files()
    }

    fn open_disks_anew(&mut self) -> Result<()> {
        self.head = lvm::read_head(&mut self.disk, self.head.part.partition)?;
        self.open_disks()
    }

    /// Whether there are more resources of a kind than this host knew.
    pub(crate) fn has_grown(&mut self, kind: Resource) -> Result<bool> {
        let known = self.resource(kind).total;
        self.refresh()?;
        Ok(self.resource(kind).total > known)
    }

    /// The volume address of a resource.
    pub(crate) fn place(&mut self, kind: Resource, number: u64) -> Result<u64> {
        if number >= self.resource(kind).total {
            self.refresh()?;
        }
        self.resource(kind).resource(number)
    }

    pub(crate) fn system_file(&mut self, number: u64) -> Result<(FileDescriptor, Vec<u32>)> {
        let address = Resource::Descriptor.address(number);
        let at = self.resource(Resource::Descriptor).resource(number)?;
        let mut bytes = [0; fd::SIZE as usize];
        self.read_sectors(at, &mut bytes)?;
        let file = FileDescriptor::parse(&bytes[512..], address)?;
        let blocks = file.addresses.iter().copied().take_while(|address| *address != 0).collect();
        Ok((file, blocks))
    }

    pub(crate) fn resource(&self, kind: Resource) -> &ResourceFile {
        &self.resources[kind as usize - 1]
    }

    pub(crate) fn read_sectors(&mut self, address: u64, buffer: &mut [u8]) -> Result<()> {
        let place = self.on_disk(address)?;
        self.read_place(place, buffer)
    }

    pub(crate) fn read_place(&mut self, place: Place, buffer: &mut [u8]) -> Result<()> {
        self.despite_reservations(place.disk, |disk| disk.read(place.at, buffer))
    }

    pub(crate) fn write_sectors(&mut self, address: u64, bytes: &[u8]) -> Result<()> {
        let place = self.on_disk(address)?;
        self.write_place(place, bytes)
    }

    pub(crate) fn write_place(&mut self, place: Place, bytes: &[u8]) -> Result<()> {
        self.despite_reservations(place.disk, |disk| disk.write(place.at, bytes))
    }

    /// Writes several pieces of metadata, in no order.
    pub(crate) fn write_each(&mut self, mut pieces: Vec<(u64, Vec<u8>)>) -> Result<()> {
        for (address, _) in &mut pieces {
            *address = self.on_head(*address)?;
        }
        self.despite_reservations(0, |disk| disk.write_each(&pieces))
    }

    pub(crate) fn zero_sectors(&mut self, address: u64, length: u64) -> Result<()> {
        let place = self.on_disk(address)?;
        self.despite_reservations(place.disk, |disk| disk.zero(place.at, length))
    }

    /// Repeats a command while another host has the disk reserved, which is never for long.
    fn despite_reservations(
        &mut self,
        number: usize,
        mut command: impl FnMut(&mut D) -> std::result::Result<(), DiskError>,
    ) -> Result<()> {
        for _ in 0..RESERVE_ATTEMPTS_MAX {
            match command(self.numbered(number)?) {
                Err(DiskError::Reserved) => {
                    self.stats.contention.reservation_conflicts += 1;
                    let pause = 200 + self.below(2000);
                    self.disk.pause_us(pause);
                }
                other => return Ok(other?),
            }
        }
        Err(DiskError::Reserved.into())
    }

    pub(crate) fn swap(&mut self, address: u64, images: [&Sector; 2]) -> Result<bool> {
        let (locking, at) = (self.mount.locking, self.on_head(address)?);
        locking.swap(&mut self.disk, at, images, &mut self.stats.contention)
    }

    /// As [`Volume::swap`], several at once. Only for [`Locking::Ats`].
    pub(crate) fn swap_each(
        &mut self,
        mut swaps: Vec<Swap>,
    ) -> std::result::Result<Vec<std::result::Result<bool, DiskError>>, Error> {
        for swap in &mut swaps {
            swap.offset = self.on_head(swap.offset)?;
        }
        let swapped = self.disk.compare_and_write_each(&swaps);
        let missed = swapped.iter().filter(|one| **one == Ok(false)).count();
        self.stats.contention.miscompares += missed as u64;
        Ok(swapped)
    }

    /// Whether locks are changed by commands of their own, so that several can be at once.
    pub(crate) fn locks_at_once(&self) -> bool {
        self.mount.locking == Locking::Ats
    }

    /// A number below a limit, different from host to host.
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random % limit.max(1)
    }

    /// The head: the disk on which all metadata lies.
    pub fn disk(&mut self) -> &mut D {
        &mut self.disk
    }

    /// What the host did so far.
    pub fn stats(&self) -> Stats {
        self.stats
    }

    /// The volume's identifier.
    pub fn uuid(&self) -> Uuid {
        self.descriptor.uuid
    }

    /// The volume's name.
    pub fn label(&self) -> &str {
        &self.descriptor.label
    }

    /// When it was made, in seconds since 1970.
    pub fn created(&self) -> u32 {
        self.descriptor.created
    }

    /// Bytes of the volume.
    pub fn size_bytes(&self) -> u64 {
        self.resource(Resource::FileBlock).total * FILE_BLOCK
    }

    pub(crate) fn lease_us(&self) -> u64 {
        u64::from(self.descriptor.lease_ms) * 1000
    }

    pub(crate) fn holder(&self) -> Holder {
        Holder { slot: self.slot.address, generation: self.slot.generation, host: self.slot.host }
    }

    pub(crate) fn slot_generation(&self) -> u64 {
        self.slot.generation
    }

    /// The volume address of a slot's journal.
    pub(crate) fn journal_of(&self, slot: u64) -> Result<u64> {
        let number = heartbeat::number(slot);
        let number = number.ok_or_else(|| Error::Format(format!("a heartbeat at {slot:x}")))?;
        let offset = number * journal::SLOT;
        let block = self.journal[(offset / FILE_BLOCK) as usize];
        Ok(u64::from(block >> 6) * FILE_BLOCK + offset % FILE_BLOCK)
    }

    pub(crate) fn own_journal(&self) -> Result<u64> {
        self.journal_of(self.slot.address)
    }

    fn read_slot(&mut self, address: u64) -> Result<(Sector, Slot)> {
        let mut image = [0; 512];
        self.read_sectors(address, &mut image)?;
        let slot = Slot::parse(&image);
        Ok((image, slot.ok_or_else(|| Error::Format(format!("no heartbeat at {address:x}")))?))
    }

    /// Takes a clear slot; when there is none, one of a dead host.
    fn acquire_slot(&mut self) -> Result<()> {
        let started = self.disk.now_us();
        loop {
            let start = self.below(HOSTS_MAX);
            for number in (start..HOSTS_MAX).chain(0..start) {
                if self.try_slot(heartbeat::address(number))? {
                    return Ok(());
                }
            }
            for number in 0..HOSTS_MAX {
                let (_, slot) = self.read_slot(heartbeat::address(number))?;
                self.is_dead(&Holder {
                    slot: slot.address,
                    generation: slot.generation,
                    host: slot.host,
                })?;
            }
            if self.disk.now_us() - started > self.lease_us() * 2 {
                return Err(Error::TooManyHosts);
            }
            self.disk.pause_us(self.lease_us() / 8);
        }
    }

    fn try_slot(&mut self, address: u64) -> Result<bool> {
        let (image, found) = self.read_slot(address)?;
        if found.in_use {
            return Ok(false);
        }
        let now = self.disk.now_us();
        let slot = Slot {
            in_use: true,
            generation: found.generation + 1,
            stamp_us: now,
            host: self.mount.host,
            name: self.mount.name.clone(),
            ..Slot::clear(address, 0)
        };
        let taken = self.swap(address, [&image, &slot.emit()])?;
        if taken {
            let (offset, image) = (self.on_head(address)?, slot.emit());
            self.guard_all(Some(Guard { disk: None, offset, image, ignored: heartbeat::STAMP }));
            (self.slot, self.pulsed_us) = (slot, now);
        }
        Ok(taken)
    }

    /// Shows that the host lives, if it is time to. Long work calls this between its steps.
    ///
    /// # Errors
    /// [`Error::LostHeartbeat`] when another host took the slot over.
    pub fn pulse_if_due(&mut self) -> Result<()> {
        let due = (self.lease_us() / 5).min(3_000_000);
        if self.disk.now_us() - self.pulsed_us >= due { self.pulse() } else { Ok(()) }
    }

    /// Shows that the host lives.
    ///
    /// # Errors
    /// [`Error::LostHeartbeat`] when another host took the slot over.
    pub fn pulse(&mut self) -> Result<()> {
        let now = self.disk.now_us().max(self.slot.stamp_us + 1);
        let next = Slot { stamp_us: now, ..self.slot.clone() };
        let (old, new) = (self.slot.emit(), next.emit());
        let alive = if self.mount.locking == Locking::Ats && self.mount.ats_heartbeat {
            self.pulse_by_ats(&old, &new)?
        } else {
            let (found, _) = self.read_slot(self.slot.address)?;
            let alive = found == old;
            if alive {
                self.write_sectors(next.address, &new)?;
            }
            alive
        };
        if !alive {
            return Err(Error::LostHeartbeat);
        }
        (self.slot, self.pulsed_us) = (next, now);
        Ok(())
    }

    /// A miscompare may be our own write whose answer was lost: then the slot shows our image.
    fn pulse_by_ats(&mut self, old: &Sector, new: &Sector) -> Result<bool> {
        let at = self.on_head(self.slot.address)?;
        let mut swapped = false;
        self.despite_reservations(0, |disk| {
            swapped = disk.heartbeat(at, old, new)?;
            Ok(())
        })?;
        self.stats.contention.miscompares += u64::from(!swapped);
        Ok(swapped || self.read_slot(self.slot.address)?.0 == *new)
    }

    /// Whether a holder is dead. One whose heartbeat does not change for a lease is taken over:
    /// its journal is replayed, its slot cleared.
    pub(crate) fn is_dead(&mut self, holder: &Holder) -> Result<bool> {
        if heartbeat::number(holder.slot).is_none() {
            return Ok(true);
        }
        let (image, slot) = self.read_slot(holder.slot)?;
        if !slot.in_use || slot.generation != holder.generation {
            return Ok(true);
        }
        if *holder == self.holder() {
            return Ok(false);
        }
        let now = self.disk.now_us();
        let key = (slot.address, slot.generation);
        let fresh = Watched { stamp_us: slot.stamp_us, since_us: now, changed: false };
        let watched = self.watched.entry(key).or_insert(fresh);
        if watched.stamp_us != slot.stamp_us {
            // The mark of a host that takes it over is no sign of life of the holder.
            let is_own = slot.replayed_by == Uuid::default();
            *watched = Watched { changed: is_own, ..fresh };
        }
        if now - watched.since_us < self.lease_us() {
            return Ok(false);
        }
        self.take_over(&image, &slot)
    }

    /// Waits for a lease at most, and takes over every host that shows no life in it. Returns how
    /// many.
    ///
    /// # Errors
    /// When the disk fails.
    pub fn take_over_dead(&mut self) -> Result<u64> {
        let before = self.stats.takeovers;
        let mut silent: Vec<u64> = (0..HOSTS_MAX).map(heartbeat::address).collect();
        while !silent.is_empty() {
            let mut left = Vec::new();
            for slot in silent {
                if self.is_silent(slot)? {
                    left.push(slot);
                }
            }
            silent = left;
            self.pulse_if_due()?;
            if !silent.is_empty() {
                self.disk.pause_us(self.lease_us() / 16);
            }
        }
        Ok(self.stats.takeovers - before)
    }

    /// Whether a slot's host is neither known to live nor known to be dead.
    fn is_silent(&mut self, address: u64) -> Result<bool> {
        let (_, slot) = self.read_slot(address)?;
        let holder = Holder { slot: address, generation: slot.generation, host: slot.host };
        if !slot.in_use || holder == self.holder() || self.is_dead(&holder)? {
            return Ok(false);
        }
        let watched = self.watched.get(&(address, slot.generation));
        Ok(watched.is_none_or(|watched| !watched.changed))
    }

    /// Whether a watched holder showed life since it was first seen.
    pub(crate) fn showed_life(&mut self, holder: &Holder, since_us: u64) -> bool {
        let watched = self.watched.get(&(holder.slot, holder.generation));
        watched.is_some_and(|watched| watched.changed && watched.since_us > since_us)
    }

    fn take_over(&mut self, image: &Sector, dead: &Slot) -> Result<bool> {
        let now = self.disk.now_us();
        let replaying = Slot {
            stamp_us: now.max(dead.stamp_us + 1),
            replayed_by: self.mount.host,
            ..dead.clone()
        };
        let replaying_image = replaying.emit();
        if !self.swap(dead.address, [image, &replaying_image])? {
            return Ok(false);
        }
        // If the disk refuses what follows, the next look goes on without another lease.
        if let Some(watched) = self.watched.get_mut(&(dead.address, dead.generation)) {
            watched.stamp_us = replaying.stamp_us;
        }
        self.replay(dead)?;
        let clear = Slot::clear(dead.address, dead.generation).emit();
        let cleared = self.swap(dead.address, [&replaying_image, &clear])?;
        self.stats.takeovers += u64::from(cleared);
        Ok(cleared)
    }

    fn replay(&mut self, dead: &Slot) -> Result<()> {
        let at = self.journal_of(dead.address)?;
        let mut record = vec![0; journal::SLOT as usize];
        self.read_sectors(at, &mut record)?;
        let Some(record) = journal::parse(&record, dead.generation) else { return Ok(()) };
        if self.are_held(dead, &record.locks)? {
            self.apply(&record.changes)?;
        }
        self.write_sectors(at, &[0; 512])
    }

    /// Whether a dead host holds all these locks, by address and token.
    fn are_held(&mut self, dead: &Slot, locks: &[(u64, u64)]) -> Result<bool> {
        let holder = Holder { slot: dead.address, generation: dead.generation, host: dead.host };
        for (address, token) in locks {
            let (_, found) = self.read_lock(*address, &mut [0; 512])?;
            if found.token != *token || found.holders != [holder] {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Gives the heartbeat slot back, and the disks, the head first. Files that are still open stay locked until then; close them
    /// first.
    ///
    /// # Errors
    /// When the disk fails. The next host to look takes the slot over.
    pub fn unmount(mut self) -> Result<Vec<D>> {
        self.settle()?;
        let old = self.slot.emit();
        let clear = Slot::clear(self.slot.address, self.slot.generation).emit();
        self.guard_all(None);
        if !self.swap(self.slot.address, [&old, &clear])? {
            return Err(Error::LostHeartbeat);
        }
        Ok(self.into_disks())
    }

    /// Hosts that have the volume mounted, dead ones among them: identifier and name.
    ///
    /// # Errors
    /// When the disk fails.
    pub fn hosts(&mut self) -> Result<Vec<(Uuid, String)>> {
        let mut hosts = Vec::new();
        for number in 0..HOSTS_MAX {
            let (_, slot) = self.read_slot(heartbeat::address(number))?;
            if slot.in_use {
                hosts.push((slot.host, slot.name));
            }
        }
        Ok(hosts)
    }
}
