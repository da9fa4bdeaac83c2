//! Tells other controllers the records of the pools that are served here.

use std::collections::BTreeMap;

use array::RecordKey;
use block::VolumeId;
use control::limits::LINK_RECORDS_BYTES_MAX;
use control::link::{Mark, RecordPage};
use control::record_telling::{Telling, has_heard};

use super::{Kept, Management, Phase};
use crate::data_plane::DataPlane;
use crate::management::hexadecimal;
use crate::pools::PoolId;

impl Management {
    /// The next records of each pool for those who listen, in what descriptions of pools leave of a message.
    pub(in crate::management) fn told_records(
        &self,
        plane: &DataPlane,
        described_bytes: usize,
    ) -> BTreeMap<String, RecordPage> {
        let heard: Vec<_> =
            self.peers.paired().filter_map(|(_, view)| view.heard.as_ref()).collect();
        let bytes_max = LINK_RECORDS_BYTES_MAX.saturating_sub(described_bytes);
        let (mut left, mut told) = (bytes_max, BTreeMap::new());
        for &pool in self.records.pools.keys() {
            if let Some((name, page)) = self.told_page(plane, pool, &heard, (left, bytes_max)) {
                left = left.saturating_sub(page.bytes());
                told.insert(name, page);
            }
        }
        told
    }

    /// Whether every other controller has heard all that the pools here have to tell.
    pub(in crate::management) fn is_all_told(&self, plane: &DataPlane) -> bool {
        let marks = |name: &str| {
            let name = name.to_owned();
            self.peers.paired().map(move |(_, view)| view.heard.as_ref()?.get(&name).copied())
        };
        let mut ready =
            self.records.pools.iter().filter(|(_, kept)| matches!(kept.phase, Phase::Ready));
        ready.all(|(&pool, kept)| {
            let told = self.told_name(plane, pool).zip(self.told_opening(kept));
            told.is_none_or(|(name, opening)| {
                marks(&name).all(|mark| has_heard(mark, (opening, kept.slots.feed())))
            })
        })
    }

    /// How a pool that is open is called on the link.
    fn told_name(&self, plane: &DataPlane, pool: PoolId) -> Option<String> {
        let served = plane.pools.get(pool)?;
        Some(hexadecimal(&self.configuration.pools.get(&served.name)?.uuid))
    }

    /// The opening of a pool, as it is told on the link.
    fn told_opening(&self, kept: &Kept) -> Option<u64> {
        Some(self.peers.link.as_ref()?.life().wrapping_add(kept.opening))
    }

    fn told_page(
        &self,
        plane: &DataPlane,
        pool: PoolId,
        heard: &[&BTreeMap<String, Mark>],
        bytes: (usize, usize),
    ) -> Option<(String, RecordPage)> {
        let kept =
            self.records.pools.get(&pool).filter(|kept| matches!(kept.phase, Phase::Ready))?;
        let served = plane.pools.get(pool)?;
        let name = self.told_name(plane, pool)?;
        let sealer = self.sealer();
        let telling = Telling {
            opening: self.told_opening(kept)?,
            slots: &kept.slots,
            array: &self.configuration,
            seal: &|key| sealer.seal(key),
        };
        let after = telling.after(heard.iter().map(|marks| marks.get(&name).copied()))?;
        let size_of = |id| served.store.volume(id).map(|volume| volume.spec.size_bytes);
        Some((name, telling.page(after, bytes, size_of)?))
    }

    /// A volume has another size: it is told with its record.
    pub(in crate::management) fn note_size(&mut self, plane: &DataPlane, volume: VolumeId) {
        let pool = plane.pool_of(volume);
        if let Some(kept) = pool.and_then(|pool| self.records.pools.get_mut(&pool)) {
            kept.slots.touch(&RecordKey::Volume(volume.0));
        }
    }
}
