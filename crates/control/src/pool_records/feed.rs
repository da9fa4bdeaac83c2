//! Order in which the records of a pool changed, so that another controller is told what it has not heard.

use std::collections::BTreeMap;

use array::RecordKey;

/// Keys of records that are told on the link, each once, by its last change.
#[derive(Debug, Default)]
pub struct Feed {
    keys: BTreeMap<u64, RecordKey>,
    places: BTreeMap<RecordKey, u64>,
    last: u64,
}

impl Feed {
    /// A record has changed, or ended.
    pub fn note(&mut self, key: &RecordKey) {
        if is_told(key) {
            self.forget(key);
            self.last += 1;
            self.keys.insert(self.last, key.clone());
            self.places.insert(key.clone(), self.last);
        }
    }

    /// There is no such record any more, nor one of its end.
    pub fn forget(&mut self, key: &RecordKey) {
        if let Some(place) = self.places.remove(key) {
            self.keys.remove(&place);
        }
    }

    /// What changed after a place in the order, from 0 on.
    pub fn after(&self, place: u64) -> impl Iterator<Item = (u64, &RecordKey)> {
        self.keys.range(place + 1..).map(|(&place, key)| (place, key))
    }

    /// The place of the last change; 0 before the first one.
    pub const fn last(&self) -> u64 {
        self.last
    }
}

/// Whether another controller needs it before it opens the pool: to show hosts the logical units that they
/// may see, and to give no name of a schedule twice. The rest it finds in the pool.
pub(crate) const fn is_told(key: &RecordKey) -> bool {
    match key {
        RecordKey::Array
        | RecordKey::Host(_)
        | RecordKey::Group(_)
        | RecordKey::Volume(_)
        | RecordKey::Schedule(_) => true,
        RecordKey::Owner | RecordKey::Pool(_) | RecordKey::Unit(_) | RecordKey::Run(..) => false,
    }
}
