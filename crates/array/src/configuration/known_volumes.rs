//! Lookup of volumes that the configuration knows something of, besides LUN maps and schedules.

use std::collections::BTreeSet;
use std::ops::Bound;

use block::VolumeId;

use super::Configuration;
use crate::Table;

impl Configuration {
    /// The next volumes and snapshots after one, or the first ones, that have a presentation,
    /// thresholds, a lock or tags: `count` at most, in the order of their identifiers.
    pub fn known_volumes_after(&self, last: Option<VolumeId>, count: usize) -> BTreeSet<VolumeId> {
        let mut known: BTreeSet<VolumeId> = after(&self.presentations, last, count).collect();
        known.extend(after(&self.volume_thresholds, last, count));
        known.extend(after(&self.snapshot_locks, last, count));
        known.extend(after(self.tags.volumes(), last, count));
        known.into_iter().take(count).collect()
    }
}

fn after<T: Clone>(
    table: &Table<u64, T>,
    last: Option<VolumeId>,
    count: usize,
) -> impl Iterator<Item = VolumeId> {
    let from = last.map_or(Bound::Unbounded, |last| Bound::Excluded(last.0));
    let entries = table.range((from, Bound::Unbounded));
    entries.take(count).map(|(&id, _)| VolumeId(id))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BlockForm, Presentation, Tagged, Tags, Thresholds};

    #[test]
    fn a_volume_is_known_until_all_that_is_known_of_it_is_forgotten() {
        let mut array = Configuration::new("iqn.2026-11.io.gantry:test".to_owned());
        let presentation = Presentation { blocks: BlockForm::B4096, ..Presentation::default() };
        array.set_presentation(VolumeId(1), presentation);
        let thresholds = Thresholds { soft_percent: 1, hard_percent: 2 };
        array.set_volume_thresholds(VolumeId(2), thresholds).unwrap();
        array.lock_snapshot("p", VolumeId(3), 20, 10).unwrap();
        let tags = Tags::from([("a".to_owned(), "b".to_owned())]);
        array.set_tags(Tagged::Volume(VolumeId(4)), tags.clone()).unwrap();
        array.set_tags(Tagged::Volume(VolumeId(1)), tags).unwrap();
        assert_eq!(array.known_volumes_after(None, 10), [1, 2, 3, 4].map(VolumeId).into());
        array.set_presentation(VolumeId(1), Presentation::default());
        array.forget_volume_thresholds(VolumeId(2));
        array.forget_lock(VolumeId(3));
        array.forget_tags(Tagged::Volume(VolumeId(4)));
        assert_eq!(array.known_volumes_after(None, 10), [VolumeId(1)].into());
    }

    #[test]
    fn all_are_found_however_few_at_a_time() {
        let mut array = Configuration::new("iqn.2026-11.io.gantry:test".to_owned());
        for id in 0..20 {
            array.lock_snapshot("p", VolumeId(id * 2), 20, 10).unwrap();
            array
                .set_volume_thresholds(
                    VolumeId(id * 3),
                    Thresholds { soft_percent: 1, hard_percent: 2 },
                )
                .unwrap();
        }
        let expected = array.known_volumes_after(None, 100);
        for count in 1..50 {
            let (mut found, mut last) = (BTreeSet::new(), None);
            loop {
                let part = array.known_volumes_after(last, count);
                assert!(part.len() <= count);
                let Some(&end) = part.last() else { break };
                last = Some(end);
                found.extend(part);
            }
            assert_eq!(found, expected, "{count} at a time");
        }
    }
}
