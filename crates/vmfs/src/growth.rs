//! Growing a mounted volume into a LUN that has grown (`vmkfstools -G`): partition table, volume
//! manager, then the resource files.
//!
//! Each step leaves a volume that every host can mount, and is found done by whoever grows it again:
//! extents are entered before the sector that tells the size, and a resource file has its blocks
//! and its length before the sector that tells how many resources it has. That last one and the
//! cluster at the old end, which was in part only, change in one transaction. Whoever grows holds the
//! lock of the descriptor of the file that grows, of the file blocks' file for what lies below the
//! file system.

use crate::fd::FileDescriptor;
use crate::limits::FILE_BLOCK;
use crate::lock::LockRecord;
use crate::lvm;
use crate::partition;
use crate::resource::{CLUSTER_HEADER, CLUSTERS_PER_GROUP, Cluster, Resource, ResourceFile};
use crate::space::Reach;
use crate::transaction::{Patience, Transaction};
use crate::volume::Volume;
use crate::{Disk, Error, Result};

/// Groups by which a resource file grows at once, so that one transaction takes their blocks.
const GROUPS_AT_ONCE: u64 = 4;

/// How large a volume was and is, in bytes of file blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grown {
    /// Before.
    pub before_bytes: u64,
    /// Now; the same if the disk has no room for another 256 MiB.
    pub after_bytes: u64,
}

/// What one transaction did for a resource file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Taken,
    /// It is as large as the volume wants it.
    NotNeeded,
}

impl<D: Disk> Volume<D> {
    /// Takes what the volume's last disk has more than the volume, up to 2 TiB of it. Other hosts that have it mounted
    /// find out when they meet what is new.
    ///
    /// # Errors
    /// When the disk fails or refuses, another partition lies behind the volume's, or not one block
    /// of the head is free for bitmaps that need one; when a disk is missing. What was done stays, and growing again goes on from there.
    pub fn grow(&mut self) -> Result<Grown> {
        self.refresh()?;
        let before_bytes = self.size_bytes();
        self.transact(|volume, transaction| {
            volume.lock_descriptor_for(transaction, Resource::FileBlock.descriptor())?;
            volume.refresh()?;
            volume.pulse()?;
            volume.grow_last_part()
        })?;
        self.grow_all_resources()?;
        Ok(Grown { before_bytes, after_bytes: self.size_bytes() })
    }

    /// Lets the part at the volume's end take what its disk has more.
    fn grow_last_part(&mut self) -> Result<()> {
        let missing = self.missing();
        if !missing.is_empty() {
            return Err(Error::Degraded(missing.join(", ")));
        }
        let (number, old) = self.last_part()?;
        let head = self.head;
        let disk = self.numbered(number)?;
        partition::grow(disk)?;
        let part = lvm::grow(disk, &head.of_part(old))?;
        if part == old {
            return self.tell_others();
        }
        let mut next = head.changed(part.end(), head.disks);
        if number == 0 {
            next = next.of_part(part);
        } else {
            lvm::write_volume(disk, &next.of_part(part))?;
        }
        lvm::write_volume(&mut self.disk, &next)?;
        self.refresh()?;
        self.tell_others()
    }

    /// Gives the resource files what the volume's size wants. All but the bitmap of the blocks do
    /// with less when the head has no free block: growing again goes on.
    pub(crate) fn grow_all_resources(&mut self) -> Result<()> {
        for kind in Resource::ALL {
            loop {
                match self.grow_resources(kind) {
                    Ok(Step::Taken) => {}
                    Ok(Step::NotNeeded) => break,
                    Err(Error::NoSpace) if kind != Resource::FileBlock => break,
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(())
    }

    /// One step towards as many resources of a kind as the volume wants.
    fn grow_resources(&mut self, kind: Resource) -> Result<Step> {
        let step = self.transact(|volume, transaction| {
            let file = volume.lock_descriptor_for(transaction, kind.descriptor())?;
            volume.refresh()?;
            let now = volume.resource(kind).clone();
            let (wanted, total) = ResourceFile::wanted(kind, volume.head.size / FILE_BLOCK);
            if now.total >= total {
                return Ok(Step::NotNeeded);
            }
            let groups = wanted.min(ResourceFile::groups_in(kind, now.blocks.len() as u64));
            let total = total.min(groups * CLUSTERS_PER_GROUP * kind.per_cluster());
            let next = ResourceFile { groups, total, ..now.clone() };
            if total <= now.total {
                let groups = wanted.min(now.groups + GROUPS_AT_ONCE);
                volume.take_blocks_for(transaction, &now, file, groups)?;
            } else if file.length < next.length() {
                let file = FileDescriptor { length: next.length(), ..file };
                transaction.put_descriptor_head(volume, &file)?;
            } else {
                volume.enter_resources(transaction, &now, &next)?;
            }
            Ok(Step::Taken)
        })?;
        self.refresh()?;
        Ok(step)
    }

    /// Gives a resource file the blocks for so many groups, zeroed.
    fn take_blocks_for(
        &mut self,
        transaction: &mut Transaction,
        now: &ResourceFile,
        mut file: FileDescriptor,
        groups: u64,
    ) -> Result<()> {
        let have = now.blocks.len();
        let count = ResourceFile::blocks_needed(now.kind, groups) as usize - have;
        let mut taken = Vec::new();
        while taken.len() < count {
            let left = (count - taken.len()) as u64;
            taken.extend(self.take(transaction, Reach::Head, Resource::FileBlock, left)?);
        }
        for (place, address) in file.addresses[have..].iter_mut().zip(&taken) {
            let at = self.block_at(*address)?;
            self.zero_sectors(at, FILE_BLOCK)?;
            *place = *address;
        }
        file.blocks += count as u64;
        // Blocks behind the end of a file are nobody's, for other readers.
        file.length = ResourceFile { groups, ..now.clone() }.length();
        transaction.put_descriptor(self, &file)
    }

    /// Makes the clusters of new resources, which nobody looks at yet, then enters them.
    fn enter_resources(
        &mut self,
        transaction: &mut Transaction,
        now: &ResourceFile,
        next: &ResourceFile,
    ) -> Result<()> {
        let mut first = now.clusters();
        while first < next.clusters() {
            let end = (first / CLUSTERS_PER_GROUP + 1) * CLUSTERS_PER_GROUP;
            let headers = (first..end.min(next.clusters())).flat_map(|number| {
                let lock = LockRecord::free(next.kind.lock_type(), next.cluster(number));
                [lock.emit(), Cluster::new(number as u32, next.in_cluster(number)).emit()].concat()
            });
            let headers: Vec<u8> = headers.collect();
            self.write_sectors(next.cluster(first), &headers)?;
            first = end;
        }
        if !now.total.is_multiple_of(now.kind.per_cluster()) {
            let number = now.clusters() - 1;
            let at = now.cluster(number);
            let mut bytes = [0; CLUSTER_HEADER as usize];
            self.lock_for(transaction, at, Patience::Short, &mut bytes)?;
            let mut cluster = Cluster::parse(&bytes[512..], number)?;
            cluster.grow(next.in_cluster(number));
            transaction.put_sector(at + 512, cluster.emit());
        }
        let header = self.block_at(next.blocks[0])?;
        transaction.put_sector(header, next.emit());
        Ok(())
    }
}
