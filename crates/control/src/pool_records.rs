//! Records that pools keep of the array: what each says, which are out of date, and which are newer
//! than the configuration.
//!
//! The data directory is what the daemon starts from. A pool's records follow each version of it that
//! is saved; they count where the data directory is lost, is older, or is another array's.

use std::collections::{BTreeMap, BTreeSet};

use array::{Configuration, OwnerRecord, Record, RecordKey};
use block::VolumeId;

mod encoding;
mod feed;
mod slots;
#[cfg(test)]
mod tests;

pub use feed::Feed;
pub(crate) use feed::is_told;
pub use slots::{Blocks, Found, Loaded, Placed, Slots, Unplaced};

/// Makes an account of CHAP unreadable for whoever finds a pool; `None` if there is none, or its
/// secret is not known.
pub type Seal<'a> = &'a dyn Fn(&RecordKey) -> Option<String>;

/// The text of a record as it should be; `None` if there is no such object.
pub fn text(array: &Configuration, key: &RecordKey, seal: Seal<'_>) -> Option<String> {
    let mut record = array.record(key)?;
    match &mut record {
        Record::Array(record) => record.discovery_chap = seal(key),
        Record::Host(record) if record.host.chap_name.is_some() => record.chap = seal(key),
        Record::Host(_)
        | Record::Owner(_)
        | Record::Pool(_)
        | Record::Group(_)
        | Record::Volume(_)
        | Record::Unit(_)
        | Record::Schedule(_)
        | Record::Run(_) => {}
    }
    Some(encoding::text_of(key, Some(record)))
}

/// The text of the record of whose pool it is.
pub fn owner_text(owner: OwnerRecord) -> String {
    encoding::text_of(&RecordKey::Owner, Some(Record::Owner(owner)))
}

/// The text of the record of what a logical unit keeps.
pub fn unit_text(volume: VolumeId, state: String) -> String {
    encoding::text_of(&RecordKey::Unit(volume.0), Some(Record::Unit(state)))
}

/// The text of a record that says that there is no such object.
pub fn tombstone(key: &RecordKey) -> String {
    encoding::text_of(key, None)
}

/// Reads the text of a record: what it is of, and what it says; `None` if it is none that this program knows.
pub fn parse(text: &str) -> Option<(RecordKey, Option<Record>)> {
    encoding::parse_text(text.as_bytes())
}

/// Whose pool records say it is.
pub fn owner(records: &BTreeMap<RecordKey, Found>) -> Option<&OwnerRecord> {
    match records.get(&RecordKey::Owner)?.record.as_ref()? {
        Record::Owner(owner) => Some(owner),
        Record::Array(_)
        | Record::Pool(_)
        | Record::Host(_)
        | Record::Group(_)
        | Record::Volume(_)
        | Record::Unit(_)
        | Record::Schedule(_)
        | Record::Run(_) => None,
    }
}

/// What of the records of one's own pool differs from the configuration.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Differences {
    /// Records that are to be written.
    pub stale: BTreeSet<RecordKey>,
    /// Records of a later version than the configuration is of: the data directory is an earlier one.
    pub newer: BTreeMap<RecordKey, Found>,
    /// The highest version of all.
    pub version: u64,
}

/// Whether the configuration or a pool says how the array is where they differ and neither is later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Authority {
    /// The configuration.
    Configuration,
    /// The pool: another controller of the array was the last that had it open, with another data
    /// directory.
    Pool,
}

impl Authority {
    /// As the pool's record of its owner says to the controller of that number. The only controller of
    /// an array (0) becomes its first (1) with the data directory that it has.
    pub fn over(records: &BTreeMap<RecordKey, Found>, controller: u16) -> Self {
        match owner(records) {
            Some(last) if last.controller.max(1) != controller.max(1) => Self::Pool,
            Some(_) | None => Self::Configuration,
        }
    }
}

/// What is known of the version of a record that all pools have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Known {
    /// The highest one, in other pools that are open here, or as another controller told it.
    pub version: u64,
    /// Whether another controller told it, so that the configuration may say that in place of what was found.
    pub is_heard: bool,
}

/// Compares what was found in a pool with the configuration. `holds` says whether the pool holds a
/// volume or snapshot; `known` has versions of what all pools record: the later one counts. Records of
/// logical units and of the owner are not looked at.
pub fn compare(
    loaded: &Loaded,
    (array, pool, authority): (&Configuration, &str, Authority),
    (holds, known): (impl Fn(VolumeId) -> bool, &BTreeMap<RecordKey, Known>),
    seal: Seal<'_>,
) -> Differences {
    let mut differences = Differences::default();
    let wanted = array.record_keys(pool, holds);
    let is_current = |key: &RecordKey| {
        let text = text(array, key, seal).filter(|_| wanted.contains(key));
        loaded.slots.is_current(key, text.as_deref())
    };
    for (key, found) in &loaded.records {
        differences.version = differences.version.max(found.version);
        let is_configuration = !matches!(key, RecordKey::Owner | RecordKey::Unit(_));
        let known = known.get(key).copied().unwrap_or_default();
        let may_say_it = authority == Authority::Pool || known.is_heard;
        let says_it = may_say_it && found.version > known.version;
        let counts = found.version > array.generation || (says_it && !is_current(key));
        if is_configuration && counts {
            differences.newer.insert(key.clone(), found.clone());
        }
    }
    let kept =
        loaded.slots.keys().filter(|key| !matches!(key, RecordKey::Owner | RecordKey::Unit(_)));
    for key in kept.chain(&wanted) {
        if differences.newer.contains_key(key) {
            continue;
        }
        // Its text may be known for an object of another pool, too.
        if !is_current(key) {
            differences.stale.insert(key.clone());
        }
    }
    differences
}

/// Whether a pool is to have a record, as far as the configuration knows; `holds` says whether it holds
/// a volume or snapshot.
pub fn belongs(
    array: &Configuration,
    key: &RecordKey,
    pool: &str,
    holds: impl Fn(VolumeId) -> bool,
) -> bool {
    match key {
        RecordKey::Owner | RecordKey::Array | RecordKey::Host(_) | RecordKey::Group(_) => true,
        RecordKey::Pool(name) => name == pool,
        RecordKey::Schedule(name) | RecordKey::Run(name, _) => {
            array.schedule_pool(name) == Some(pool)
        }
        RecordKey::Volume(id) | RecordKey::Unit(id) => holds(VolumeId(*id)),
    }
}
