//! Records of pools, told on the link by the controller that serves them: a controller that stands by shows
//! hosts the same logical units, of the same size, before it takes a pool over.
//!
//! Records are told in the order in which they changed, a page at a time, from the place that the one who
//! hears says it has come to. What is heard again changes nothing.

use std::collections::BTreeMap;

use array::{Configuration, RecordKey};
use block::VolumeId;

use crate::limits::LINK_RECORDS_MAX;
use crate::link::{Mark, RecordPage};
use crate::pool_records::{Feed, Found, Seal, Slots, is_told, parse, text, tombstone};

/// An open pool, whose records are told.
pub struct Telling<'a> {
    /// Drawn when it was opened.
    pub opening: u64,
    /// Its records, and in which order they changed.
    pub slots: &'a Slots,
    /// What they say.
    pub array: &'a Configuration,
    /// Seals their accounts.
    pub seal: Seal<'a>,
}

impl Telling<'_> {
    /// The place behind which something is to be told: the one that all of these have come to. `None` if
    /// all have heard everything, or nobody hears.
    pub fn after(&self, heard: impl Iterator<Item = Option<Mark>>) -> Option<u64> {
        let places = heard.map(|mark| place_of(mark, self.opening));
        places.min().filter(|place| *place < self.slots.feed().last())
    }

    /// What changed behind a place: as much as fits into what is left of a message, of which records may have
    /// so many bytes. `size_of` knows the volumes of the pool. `None` if nothing fits in.
    pub fn page(
        &self,
        after: u64,
        (left, bytes_max): (usize, usize),
        size_of: impl Fn(VolumeId) -> Option<u64>,
    ) -> Option<RecordPage> {
        let mut page = RecordPage {
            opening: self.opening,
            after,
            to: after,
            is_last: true,
            version: self.array.generation,
            records: Vec::new(),
            versions: Vec::new(),
            sizes: Vec::new(),
        };
        let mut left = left.saturating_sub(PAGE_BYTES);
        for (place, key) in self.slots.feed().after(after) {
            let text = told_text(self.array, key, self.seal);
            let bytes = message_bytes(&text);
            if PAGE_BYTES + bytes > bytes_max && page.records.is_empty() {
                page.to = place;
                continue;
            }
            if bytes > left || page.records.len() == LINK_RECORDS_MAX {
                page.is_last = false;
                break;
            }
            (page.to, left) = (place, left - bytes);
            page.records.push(text);
            page.versions.push(self.slots.version_of(key));
            if let RecordKey::Volume(id) = key {
                page.sizes.extend(size_of(VolumeId(*id)).map(|size| (*id, size)));
            }
        }
        (page.to > after).then_some(page)
    }
}

/// Bytes of a page in a message besides its records.
const PAGE_BYTES: usize = 256;

/// The place in the order of an opening that a mark says; 0 where it is of another one.
fn place_of(mark: Option<Mark>, opening: u64) -> u64 {
    mark.filter(|mark| mark.opening == opening).map_or(0, |mark| mark.to)
}

/// Whether somebody has heard all that an open pool has to tell.
pub fn has_heard(mark: Option<Mark>, (opening, feed): (u64, &Feed)) -> bool {
    place_of(mark, opening) >= feed.last()
}

/// What is told of an object, or of its end.
fn told_text(array: &Configuration, key: &RecordKey, seal: Seal<'_>) -> String {
    text(array, key, seal).unwrap_or_else(|| tombstone(key))
}

/// Bytes of a record in a message, with its version and the size of its volume.
fn message_bytes(text: &str) -> usize {
    const SIZE_BYTES: usize = 72;
    let escaped = text.bytes().filter(|byte| matches!(byte, b'"' | b'\\')).count();
    text.len() + escaped + SIZE_BYTES
}

impl RecordPage {
    /// Whether it goes on where a controller is that has heard so much.
    pub fn continues(&self, mark: Option<Mark>) -> bool {
        (self.after..self.to).contains(&place_of(mark, self.opening))
    }

    /// Bytes of it in a message, about, and not less.
    pub fn bytes(&self) -> usize {
        PAGE_BYTES + self.records.iter().map(|text| message_bytes(text)).sum::<usize>()
    }

    /// Records of what all pools record, each with its version and its text.
    pub fn shared(&self) -> impl Iterator<Item = (RecordKey, u64, &String)> {
        let told = self.records.iter().zip(&self.versions);
        let keys = told.filter_map(|(text, &version)| Some((parse(text)?.0, version, text)));
        keys.filter(|(key, ..)| key.is_of_all_pools())
    }

    /// The volumes that it says something of, or whose end.
    pub fn volumes(&self) -> impl Iterator<Item = VolumeId> {
        let keys = self.records.iter().filter_map(|told| Some(parse(told)?.0));
        keys.filter_map(|key| match key {
            RecordKey::Volume(id) => Some(VolumeId(id)),
            RecordKey::Owner
            | RecordKey::Array
            | RecordKey::Pool(_)
            | RecordKey::Host(_)
            | RecordKey::Group(_)
            | RecordKey::Unit(_)
            | RecordKey::Schedule(_)
            | RecordKey::Run(..) => None,
        })
    }

    /// The place where whoever has heard it is.
    pub const fn end(&self) -> Mark {
        Mark { opening: self.opening, to: self.to }
    }

    /// The records that say something else than a configuration, and count here by their version, if it is
    /// told. Those that only a later program knows, or tells, are left: they are in the pool.
    pub fn news(
        &self,
        (array, seal): (&Configuration, Seal<'_>),
        counts: impl Fn(&RecordKey, Option<u64>) -> bool,
    ) -> BTreeMap<RecordKey, Found> {
        let mut news = BTreeMap::new();
        for (number, told) in self.records.iter().enumerate() {
            let Some((key, record)) = parse(told).filter(|(key, _)| is_told(key)) else { continue };
            let is_other = told_text(array, &key, seal) != *told;
            if is_other && counts(&key, self.versions.get(number).copied()) {
                news.insert(key, Found { version: self.version, record });
            }
        }
        news
    }
}

#[cfg(test)]
mod tests;
