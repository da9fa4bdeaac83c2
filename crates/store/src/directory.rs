//! Indexes of the volumes by name and by the volume that a snapshot was taken of, and sums over all
//! volumes, so that no look-up scans all of them.

use std::collections::{BTreeMap, HashMap};

use block::VolumeId;

use crate::volume::Volume;

/// Indexes over all volumes.
#[derive(Debug, Default)]
pub(crate) struct Directory {
    by_name: BTreeMap<String, VolumeId>,
    /// Snapshots of each volume that has any.
    snapshots_of: HashMap<VolumeId, usize>,
    snapshots: usize,
    /// Bytes that hosts see of volumes that are no snapshots.
    provisioned_bytes: u64,
    /// Bytes that all volumes and snapshots map.
    mapped_bytes: u64,
}

impl Directory {
    pub(crate) fn insert(&mut self, volume: &Volume) {
        self.mapped_bytes += volume.mapped_bytes;
        if volume.is_hidden() {
            return;
        }
        self.by_name.insert(volume.spec.name.clone(), volume.spec.id);
        if volume.spec.snapshot {
            self.snapshots += 1;
            if let Some(origin) = volume.origin {
                *self.snapshots_of.entry(origin).or_default() += 1;
            }
        } else {
            self.provisioned_bytes += volume.spec.size_bytes;
        }
    }

    pub(crate) fn remove(&mut self, volume: &Volume) {
        self.mapped_bytes -= volume.mapped_bytes;
        if volume.is_hidden() {
            return;
        }
        if self.by_name.get(&volume.spec.name) == Some(&volume.spec.id) {
            self.by_name.remove(&volume.spec.name);
        }
        if !volume.spec.snapshot {
            self.provisioned_bytes -= volume.spec.size_bytes;
        }
        if volume.spec.snapshot {
            self.snapshots -= 1;
            if let Some(origin) = volume.origin
                && let Some(count) = self.snapshots_of.get_mut(&origin)
            {
                *count -= 1;
                if *count == 0 {
                    self.snapshots_of.remove(&origin);
                }
            }
        }
    }

    /// Another size of a volume that is no snapshot.
    pub(crate) fn resized(&mut self, before: u64, after: u64) {
        self.provisioned_bytes = self.provisioned_bytes - before + after;
    }

    /// A volume or snapshot maps more or less than before.
    pub(crate) fn remapped(&mut self, before: u64, after: u64) {
        self.mapped_bytes = self.mapped_bytes - before + after;
    }

    pub(crate) fn mapped_bytes(&self) -> u64 {
        self.mapped_bytes
    }

    pub(crate) fn provisioned_bytes(&self) -> u64 {
        self.provisioned_bytes
    }

    /// Volumes whose names begin with something.
    pub(crate) fn beginning<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = VolumeId> + 'a {
        let from = self.by_name.range(prefix.to_owned()..);
        from.take_while(move |(name, _)| name.starts_with(prefix)).map(|(_, &id)| id)
    }

    pub(crate) fn rename(&mut self, before: &str, after: &str) {
        if let Some(id) = self.by_name.remove(before) {
            self.by_name.insert(after.to_owned(), id);
        }
    }

    pub(crate) fn named(&self, name: &str) -> Option<VolumeId> {
        self.by_name.get(name).copied()
    }

    pub(crate) fn snapshots_of(&self, volume: VolumeId) -> usize {
        self.snapshots_of.get(&volume).copied().unwrap_or_default()
    }

    pub(crate) fn snapshots(&self) -> usize {
        self.snapshots
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::volume::VolumeSpec;

    fn volume(id: u64, name: &str, origin: Option<u64>) -> Volume {
        let spec = VolumeSpec {
            id: VolumeId(id),
            name: name.to_owned(),
            size_bytes: 4096,
            thick: false,
            naa: [0; 16],
            snapshot: origin.is_some(),
            created: 0,
        };
        let mut volume = Volume::new(spec);
        volume.origin = origin.map(VolumeId);
        volume
    }

    #[test]
    fn volumes_are_found_by_name_and_snapshots_counted_by_origin() {
        let mut directory = Directory::default();
        let (origin, one, two) =
            (volume(1, "v", None), volume(2, "a", Some(1)), volume(3, "b", Some(1)));
        [&origin, &one, &two].into_iter().for_each(|volume| directory.insert(volume));
        assert_eq!(directory.named("a"), Some(VolumeId(2)));
        assert_eq!(directory.named("c"), None);
        assert_eq!(directory.beginning("a").collect::<Vec<_>>(), [VolumeId(2)]);
        assert_eq!(directory.provisioned_bytes(), 4096, "snapshots do not count");
        directory.resized(4096, 8192);
        assert_eq!(directory.provisioned_bytes(), 8192);
        directory.remapped(0, 4096);
        assert_eq!(directory.mapped_bytes(), 4096);
        assert_eq!((directory.snapshots_of(VolumeId(1)), directory.snapshots()), (2, 2));
        directory.remove(&one);
        assert_eq!(directory.named("a"), None);
        assert_eq!((directory.snapshots_of(VolumeId(1)), directory.snapshots()), (1, 1));
        directory.remove(&two);
        assert_eq!((directory.snapshots_of(VolumeId(1)), directory.snapshots()), (0, 0));
    }

    /// A clone's name may be given again as soon as the volume that had it is gone.
    #[test]
    fn a_name_belongs_to_the_volume_that_took_it_last() {
        let mut directory = Directory::default();
        let (old, new) = (volume(1, "v", None), volume(2, "v", None));
        directory.insert(&old);
        directory.insert(&new);
        directory.remove(&old);
        assert_eq!(directory.named("v"), Some(VolumeId(2)));
    }
}
