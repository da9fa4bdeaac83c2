//! Adding a disk to a mounted volume (`vmkfstools -Z`): the disk is claimed by COMPARE AND WRITE,
//! gets a partition table and a volume manager's header for the bytes behind the volume's end, and
//! then the head's one sector that tells size and number of disks makes it the volume's.
//!
//! Before that sector the disk is nobody's, and is taken again by whoever repeats it; after it the
//! resource files grow as they do in a disk that was enlarged. All that they need lies on the head.

use crate::bytes::Uuid;
use crate::growth::Grown;
use crate::limits::{FILE_BLOCK, FILE_BLOCKS_MAX, VOLUME_DISKS_MAX};
use crate::lvm::{self, Part};
use crate::partition::{self, Table};
use crate::resource::{Resource, ResourceFile};
use crate::space::Reach;
use crate::volume::{Volume, probe};
use crate::{Disk, Error, Result};

impl<D: Disk> Volume<D> {
    /// Adds a disk to the volume. What is on it is lost. Other hosts that have the volume mounted
    /// find out when they meet what is new.
    ///
    /// # Errors
    /// When the disk holds a volume or a part of one, is too small, or another host is adding it;
    /// when there are too many disks, one of them is missing, the head has no room for the bitmaps,
    /// or a disk fails or refuses. What was done stays, and adding the disk again goes on from there.
    pub fn span(&mut self, mut disk: D) -> Result<Grown> {
        self.refresh()?;
        let before_bytes = self.size_bytes();
        let device = self.new_uuid();
        let part = self.transact(|volume, transaction| {
            volume.lock_descriptor_for(transaction, Resource::FileBlock.descriptor())?;
            volume.refresh()?;
            volume.tell_others()?;
            volume.refuse_disk(&mut disk)?;
            volume.pulse()?;
            volume.join(&mut disk, device)
        })?;
        self.add_disk(disk, part);
        self.tell_others()?;
        self.grow_all_resources()?;
        Ok(Grown { before_bytes, after_bytes: self.size_bytes() })
    }

    /// An identifier that no other disk has.
    fn new_uuid(&mut self) -> Uuid {
        let mut bytes = [0; 16];
        bytes[..4].copy_from_slice(&self.disk.wall_clock().to_le_bytes());
        let random = [self.below(u64::MAX), self.below(u64::MAX)].map(u64::to_le_bytes).concat();
        bytes[4..].copy_from_slice(&random[..12]);
        Uuid(bytes)
    }

    /// Refuses a disk that cannot be added.
    ///
    /// # Errors
    /// As [`Volume::span`], as far as it can be known before.
    pub fn refuse_disk(&mut self, disk: &mut D) -> Result<()> {
        if !self.missing().is_empty() {
            return Err(Error::Degraded(self.missing().join(", ")));
        }
        if self.layout().iter().any(|known| known.name == disk.name()) {
            return Err(Error::Taken(disk.name(), "an extent of this datastore already".into()));
        }
        if let Ok(found) = probe(disk) {
            return Err(Error::Taken(
                disk.name(),
                format!("the datastore {} already", found.label),
            ));
        }
        let partition = partition::find(disk)?;
        if let Ok(found) = lvm::read(disk, partition)
            && (found.uuid != self.head.uuid || found.part.first < self.head.size)
        {
            return Err(Error::Taken(disk.name(), "an extent of another datastore already".into()));
        }
        if self.head.disks >= VOLUME_DISKS_MAX {
            return Err(Error::Argument(
                "the datastore has 32 extents, the most that there can be",
            ));
        }
        self.refuse_size(disk, [partition::first_byte(self.table()), self.head.size])
    }

    /// The partition table of further disks.
    fn table(&self) -> Table {
        if self.head.part.partition == 0 { Table::None } else { Table::Gpt }
    }

    /// Makes a disk part of the volume.
    fn join(&mut self, disk: &mut D, device: Uuid) -> Result<Part> {
        let table = self.table();
        let place = [partition::first_byte(table), self.head.size];
        let (identity, locking) = ([device, self.head.uuid], self.mount.locking);
        let claim = lvm::claim(disk, place, identity, locking)?;
        partition::write(disk, table, device.0)?;
        let part = claim.part;
        let head = self.head.changed(part.end(), self.head.disks + 1);
        claim.complete(disk, &head.of_part(part), locking)?;
        self.pulse()?;
        let (number, name) = (u64::from(self.head.disks), lvm::name_of(disk));
        let (part_of_head, own) = (self.head.part, lvm::name_of(&self.disk));
        lvm::put_name(&mut self.disk, &part_of_head, 0, &own)?;
        lvm::put_name(&mut self.disk, &part_of_head, number, &name)?;
        lvm::write_volume(&mut self.disk, &head)?;
        self.head = head;
        Ok(part)
    }

    /// Refuses a disk that makes the volume too large, or larger than the bitmaps can become that
    /// the head has room for.
    fn refuse_size(&mut self, disk: &D, [partition, first]: [u64; 2]) -> Result<()> {
        let blocks = (first + lvm::length_on(disk, partition)?) / FILE_BLOCK;
        if blocks > FILE_BLOCKS_MAX {
            return Err(Error::Argument("the datastore would be larger than 49.9 TiB"));
        }
        let (groups, _) = ResourceFile::wanted(Resource::FileBlock, blocks);
        let have = self.resource(Resource::FileBlock).blocks.len() as u64;
        let wanted = ResourceFile::blocks_needed(Resource::FileBlock, groups).saturating_sub(have);
        if self.count_free(Resource::FileBlock, Reach::Head)? < wanted {
            return Err(Error::HeadIsFull(wanted));
        }
        Ok(())
    }
}
