//! Taking and giving resources.

use std::collections::BTreeMap;

use crate::limits::TRANSACTION_CLUSTERS_MAX;
use crate::resource::{CLUSTER_HEADER, CLUSTERS_PER_GROUP, Cluster, Resource};
use crate::transaction::{Patience, Transaction};
use crate::volume::Volume;
use crate::{Disk, Error, Result};

/// What is taken and what is free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// Bytes in file blocks.
    pub total_bytes: u64,
    /// Of these, free.
    pub free_bytes: u64,
    /// File descriptors that are free.
    pub free_descriptors: u64,
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
        kind: Resource,
        count: u64,
    ) -> Result<Vec<u32>> {
        let file = self.resource(kind).clone();
        let (clusters, start) = (file.clusters(), self.hints[kind as usize - 1]);
        let mut taken = Vec::new();
        let (mut contended, mut used) = (false, 0);
        let mut group: (u64, Vec<u8>) = (u64::MAX, Vec::new());
        for step in 0..clusters {
            let number = (start + step) % clusters;
            if number / CLUSTERS_PER_GROUP != group.0 {
                group = (number / CLUSTERS_PER_GROUP, self.read_group(&file, number)?);
            }
            let at = (number % CLUSTERS_PER_GROUP * CLUSTER_HEADER) as usize + 512;
            if Cluster::parse(&group.1[at..at + 512], number)?.free == 0 {
                continue;
            }
            match self.take_from(transaction, kind, number, count - taken.len() as u64, &mut taken)
            {
                Ok(()) => used += 1,
                Err(Error::Contended) => contended = true,
                Err(error) => return Err(error),
            }
            if taken.len() as u64 >= count
                || used >= TRANSACTION_CLUSTERS_MAX
                || !transaction.has_room_for(24)
            {
                self.hints[kind as usize - 1] = number;
                break;
            }
        }
        match (taken.is_empty(), contended) {
            (false, _) => Ok(taken),
            (true, true) => Err(Error::Contended),
            (true, false) => Err(Error::NoSpace),
        }
    }

    /// The headers of all clusters of the group in which a cluster lies.
    fn read_group(
        &mut self,
        file: &crate::resource::ResourceFile,
        cluster: u64,
    ) -> Result<Vec<u8>> {
        let mut headers = vec![0; (CLUSTERS_PER_GROUP * CLUSTER_HEADER) as usize];
        let first = cluster / CLUSTERS_PER_GROUP * CLUSTERS_PER_GROUP;
        self.read_sectors(file.cluster(first), &mut headers)?;
        Ok(headers)
    }

    fn take_from(
        &mut self,
        transaction: &mut Transaction,
        kind: Resource,
        number: u64,
        wanted: u64,
        taken: &mut Vec<u32>,
    ) -> Result<()> {
        let at = self.resource(kind).cluster(number);
        self.lock_for(transaction, at, Patience::None)?;
        let mut cluster = self.read_cluster(transaction, kind, number)?;
        for _ in 0..wanted {
            let Some(item) = cluster.take_any() else { break };
            taken.push(kind.address(number * kind.per_cluster() + u64::from(item)));
        }
        transaction.put_sector(at + 512, cluster.emit());
        Ok(())
    }

    fn read_cluster(
        &mut self,
        transaction: &Transaction,
        kind: Resource,
        number: u64,
    ) -> Result<Cluster> {
        let at = self.resource(kind).cluster(number) + 512;
        let mut bytes = [0; 512];
        transaction.read(self, at, &mut bytes)?;
        Cluster::parse(&bytes, number)
    }

    /// Gives resources back. At most [`TRANSACTION_CLUSTERS_MAX`] clusters at once: the caller
    /// splits longer work with [`Volume::prefix_in_few_clusters`].
    pub(crate) fn give(&mut self, transaction: &mut Transaction, addresses: &[u32]) -> Result<()> {
        let mut clusters: BTreeMap<(u8, u64), Vec<u32>> = BTreeMap::new();
        for address in addresses {
            let kind = Resource::of(*address)?;
            let number = kind.number(*address);
            if number >= self.resource(kind).total {
                return Err(Error::Format(format!("an address {address:08x} beyond its file")));
            }
            let item = (number % kind.per_cluster()) as u32;
            clusters.entry((kind as u8, number / kind.per_cluster())).or_default().push(item);
        }
        for ((kind, number), items) in clusters {
            let kind = Resource::of(u32::from(kind))?;
            let at = self.resource(kind).cluster(number);
            self.lock_for(transaction, at, Patience::Short)?;
            let mut cluster = self.read_cluster(transaction, kind, number)?;
            items.into_iter().for_each(|item| cluster.give(item));
            transaction.put_sector(at + 512, cluster.emit());
        }
        Ok(())
    }

    /// How many of the addresses, from the first, lie in few enough clusters for one transaction.
    pub(crate) fn prefix_in_few_clusters(addresses: &[u32]) -> usize {
        let mut seen = std::collections::BTreeSet::new();
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
        let free_blocks = self.count_free(Resource::FileBlock)?;
        Ok(Space {
            total_bytes: self.size_bytes(),
            free_bytes: free_blocks * crate::limits::FILE_BLOCK,
            free_descriptors: self.count_free(Resource::Descriptor)?,
        })
    }

    fn count_free(&mut self, kind: Resource) -> Result<u64> {
        let file = self.resource(kind).clone();
        let mut free = 0;
        for first in (0..file.clusters()).step_by(CLUSTERS_PER_GROUP as usize) {
            let headers = self.read_group(&file, first)?;
            for number in first..(first + CLUSTERS_PER_GROUP).min(file.clusters()) {
                let at = ((number - first) * CLUSTER_HEADER) as usize + 512;
                free += u64::from(Cluster::parse(&headers[at..at + 512], number)?.free);
            }
        }
        Ok(free)
    }
}
