//! Allocation and release of resources.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use crate::bytes::Sector;
use crate::limits::{TRANSACTION_CLUSTERS_MAX, TRANSACTION_SECTORS_KEPT};
use crate::resource::{CLUSTER_HEADER, CLUSTERS_PER_GROUP, Cluster, Resource, ResourceFile};
use crate::transaction::{Patience, Transaction};
use crate::volume::Volume;
use crate::{Disk, Error, Result};

/// Where a resource may lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// On the head, as metadata does.
    Head,
    /// On any disk that is there.
    Any,
}

/// What is taken and what is free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// Bytes in file blocks.
    pub total_bytes: u64,
    /// Of these, free, and on disks that are there.
    pub free_bytes: u64,
    /// File descriptors that are free.
    pub free_descriptors: u64,
}

/// The headers of a group of clusters, as they were read.
struct Group {
    kind: Resource,
    numbers: Range<u64>,
    headers: Vec<u8>,
    /// Clusters that were locked after they were read, and that nobody changed in between.
    locked: BTreeSet<u64>,
}

impl Group {
    /// No cluster of a kind.
    fn unread(kind: Resource) -> Self {
        Self { kind, numbers: 0..0, headers: Vec::new(), locked: BTreeSet::new() }
    }

    fn has(&self, number: u64) -> bool {
        self.numbers.contains(&number)
    }

    fn header(&self, number: u64) -> &[u8] {
        let at = (number - self.numbers.start) * CLUSTER_HEADER;
        &self.headers[at as usize..(at + CLUSTER_HEADER) as usize]
    }

    fn lock(&self, number: u64) -> &Sector {
        self.header(number)[..512].try_into().expect("512 bytes")
    }

    fn bitmap(&self, number: u64) -> &[u8] {
        &self.header(number)[512..]
    }

    /// The first clusters from a number on that have so many resources free together, at most so
    /// many clusters.
    fn with_free(
        &self,
        from: u64,
        mut wanted: u64,
        clusters_max: usize,
        free_in: impl Fn(&Cluster) -> u32,
    ) -> Vec<u64> {
        let mut found = Vec::new();
        for number in from..self.numbers.end {
            let free =
                Cluster::parse(self.bitmap(number), number).map_or(0, |found| free_in(&found));
            if free > 0 && wanted > 0 && found.len() < clusters_max {
                found.push(number);
                wanted = wanted.saturating_sub(u64::from(free));
            }
        }
        found
    }
}

impl<D: Disk> Volume<D> {
    /// Takes up to `count` resources, at least one.
    ///
    /// # Errors
    /// [`Error::NoSpace`] when there is none; [`Error::Contended`] when others hold the clusters
    /// that have some.
    pub(crate) fn take(
        &mut self,
        transaction: &mut Transaction,
        reach: Reach,
        kind: Resource,
        count: u64,
    ) -> Result<Vec<u32>> {
        let file = self.resource(kind).clone();
        let (clusters, start) = (file.clusters(), self.hints[kind as usize - 1]);
        let mut taken = Vec::new();
        let (mut contended, mut used) = (false, 0);
        let mut group = Group::unread(kind);
        for step in 0..clusters {
            let number = (start + step) % clusters;
            let left = count - taken.len() as u64;
            if !group.has(number) {
                group = self.read_group(&file, number)?;
                let most = TRANSACTION_CLUSTERS_MAX - used;
                let free_in = |cluster: &Cluster| self.free_in(kind, cluster, reach);
                let wanted = group.with_free(number, left, most, free_in);
                self.lock_clusters(transaction, &mut group, &wanted)?;
            }
            let bitmap = transaction.staged(file.cluster(number) + 512);
            let bitmap = bitmap.map_or_else(|| group.bitmap(number), |staged| &staged[..]);
            if self.free_in(kind, &Cluster::parse(bitmap, number)?, reach) == 0 {
                continue;
            }
            match self.take_from(transaction, (&group, reach), number, left, &mut taken) {
                Ok(()) => used += 1,
                Err(Error::Contended) => contended = true,
                Err(error) => return Err(error),
            }
            let is_full = !transaction.has_room_for(TRANSACTION_SECTORS_KEPT);
            if taken.len() as u64 >= count
                || used >= TRANSACTION_CLUSTERS_MAX
                || (is_full && !taken.is_empty())
            {
                self.hints[kind as usize - 1] = number;
                break;
            }
        }
        match (taken.is_empty(), contended) {
            (false, _) => Ok(taken),
            (true, true) => Err(Error::Contended),
            (true, false) if self.has_grown(kind)? => self.take(transaction, reach, kind, count),
            (true, false) => Err(Error::NoSpace),
        }
    }

    /// Whether a resource may be taken: file blocks lie on one disk or another, all else on the head.
    fn may_take(&self, kind: Resource, cluster: u64, item: u32, reach: Reach) -> bool {
        let number = cluster * kind.per_cluster() + u64::from(item);
        match (kind, reach) {
            (Resource::FileBlock, Reach::Head) => self.is_on_head(number),
            (Resource::FileBlock, Reach::Any) => self.has_block(number),
            (Resource::SubBlock | Resource::PointerBlock | Resource::Descriptor, _) => true,
        }
    }

    /// How many resources of a cluster are free and may be taken.
    fn free_in(&self, kind: Resource, cluster: &Cluster, reach: Reach) -> u32 {
        let is_alone = self.head.disks == 1;
        if is_alone || kind != Resource::FileBlock {
            return cluster.free;
        }
        let number = u64::from(cluster.number);
        cluster.free_among(|item| self.may_take(kind, number, item, reach))
    }

    /// The headers of all clusters of the group in which a cluster lies.
    fn read_group(&mut self, file: &ResourceFile, cluster: u64) -> Result<Group> {
        let first = cluster / CLUSTERS_PER_GROUP * CLUSTERS_PER_GROUP;
        let mut headers = vec![0; (CLUSTERS_PER_GROUP * CLUSTER_HEADER) as usize];
        self.read_sectors(file.cluster(first), &mut headers)?;
        let numbers = first..(first + CLUSTERS_PER_GROUP).min(file.clusters());
        Ok(Group { kind: file.kind, numbers, headers, locked: BTreeSet::new() })
    }

    /// Locks clusters of a group that nobody holds, at once. The others are left to be locked one
    /// by one, which also finds out whose holder is dead.
    fn lock_clusters(
        &mut self,
        transaction: &mut Transaction,
        group: &mut Group,
        numbers: &[u64],
    ) -> Result<()> {
        if !self.locks_at_once() {
            return Ok(());
        }
        let file = self.resource(group.kind).clone();
        let image = |number: &u64| (file.cluster(*number), *group.lock(*number));
        let images: Vec<_> = numbers.iter().map(image).collect();
        let free = images.iter().filter(|(at, _)| !transaction.holds(*at)).copied();
        let taken = self.lock_each(transaction, &free.collect::<Vec<_>>())?;
        let locked = numbers.iter().filter(|number| taken.contains(&file.cluster(**number)));
        group.locked = locked.copied().collect();
        Ok(())
    }

    fn take_from(
        &mut self,
        transaction: &mut Transaction,
        (group, reach): (&Group, Reach),
        number: u64,
        wanted: u64,
        taken: &mut Vec<u32>,
    ) -> Result<()> {
        let kind = group.kind;
        let at = self.resource(kind).cluster(number);
        let mut cluster = self.lock_cluster(transaction, group, number, Patience::None)?;
        for _ in 0..wanted {
            let may = |item: u32| self.may_take(kind, number, item, reach);
            let Some(item) = cluster.take_any(may) else { break };
            taken.push(kind.address(number * kind.per_cluster() + u64::from(item)));
        }
        transaction.put_sector(at + 512, cluster.emit());
        Ok(())
    }

    /// Locks a cluster, if it is not locked already: as this transaction leaves it.
    fn lock_cluster(
        &mut self,
        transaction: &mut Transaction,
        group: &Group,
        number: u64,
        patience: Patience,
    ) -> Result<Cluster> {
        let at = self.resource(group.kind).cluster(number);
        if let Some(staged) = transaction.staged(at + 512) {
            return Cluster::parse(staged, number);
        }
        if group.locked.contains(&number) {
            transaction.remember(at + 512, group.bitmap(number));
            return Cluster::parse(group.bitmap(number), number);
        }
        let mut bytes = [0; CLUSTER_HEADER as usize];
        self.lock_for(transaction, at, patience, &mut bytes)?;
        Cluster::parse(&bytes[512..], number)
    }

    /// Gives resources back. At most [`TRANSACTION_CLUSTERS_MAX`] clusters at once: the caller
    /// splits longer work with [`Volume::prefix_in_few_clusters`].
    pub(crate) fn give(&mut self, transaction: &mut Transaction, addresses: &[u32]) -> Result<()> {
        let mut clusters: BTreeMap<(u8, u64), Vec<u32>> = BTreeMap::new();
        for address in addresses {
            let kind = Resource::of(*address)?;
            let number = kind.number(*address);
            if number >= self.resource(kind).total && !self.has_grown(kind)? {
                return Err(Error::Format(format!("an address {address:08x} beyond its file")));
            }
            let item = (number % kind.per_cluster()) as u32;
            clusters.entry((kind as u8, number / kind.per_cluster())).or_default().push(item);
        }
        let mut group = Group::unread(Resource::FileBlock);
        let numbers: Vec<(u8, u64)> = clusters.keys().copied().collect();
        for ((kind, number), items) in clusters {
            let kind = Resource::of(u32::from(kind))?;
            if group.kind != kind || !group.has(number) {
                group = self.read_group(&self.resource(kind).clone(), number)?;
                let same = numbers.iter().filter(|(other, _)| *other == kind as u8);
                let same = same.map(|(_, number)| *number).filter(|number| group.has(*number));
                let same: Vec<u64> = same.collect();
                self.lock_clusters(transaction, &mut group, &same)?;
            }
            let at = self.resource(kind).cluster(number);
            let mut cluster = self.lock_cluster(transaction, &group, number, Patience::Short)?;
            items.into_iter().for_each(|item| cluster.give(item));
            transaction.put_sector(at + 512, cluster.emit());
        }
        Ok(())
    }

    /// How many of the addresses, from the first, lie in few enough clusters for one transaction.
    pub(crate) fn prefix_in_few_clusters(addresses: &[u32]) -> usize {
        let mut seen = BTreeSet::new();
        let fits = |address: &&u32| {
            if let Ok(kind) = Resource::of(**address) {
                seen.insert((kind as u8, kind.number(**address) / kind.per_cluster()));
            }
            seen.len() <= TRANSACTION_CLUSTERS_MAX
        };
        addresses.iter().take_while(fits).count()
    }

    /// Counts what is free.
    ///
    /// # Errors
    /// When the disk fails or a cluster is damaged.
    pub fn space(&mut self) -> Result<Space> {
        self.refresh()?;
        let free_blocks = self.count_free(Resource::FileBlock, Reach::Any)?;
        Ok(Space {
            total_bytes: self.size_bytes(),
            free_bytes: free_blocks * crate::limits::FILE_BLOCK,
            free_descriptors: self.count_free(Resource::Descriptor, Reach::Head)?,
        })
    }

    /// Counts what is free and may be taken.
    pub(crate) fn count_free(&mut self, kind: Resource, reach: Reach) -> Result<u64> {
        let file = self.resource(kind).clone();
        let mut free = 0;
        for first in (0..file.clusters()).step_by(CLUSTERS_PER_GROUP as usize) {
            let group = self.read_group(&file, first)?;
            for number in group.numbers.clone() {
                let cluster = Cluster::parse(group.bitmap(number), number)?;
                free += u64::from(self.free_in(kind, &cluster, reach));
            }
        }
        Ok(free)
    }
}
