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
use crate::pool_records::{Feed, Found, Seal, is_told, parse, text, tombstone};

/// An open pool, whose records are told.
pub struct Telling<'a> {
    /// Drawn when it was opened.
    pub opening: u64,
    /// In which order its records changed.
    pub feed: &'a Feed,
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
        places.min().filter(|place| *place < self.feed.last())
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
            sizes: Vec::new(),
        };
        let mut left = left.saturating_sub(PAGE_BYTES);
        for (place, key) in self.feed.after(after) {
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

/// What is told of an object, or of its end.
fn told_text(array: &Configuration, key: &RecordKey, seal: Seal<'_>) -> String {
    text(array, key, seal).unwrap_or_else(|| tombstone(key))
}

/// Bytes of a record in a message, with the size of its volume.
fn message_bytes(text: &str) -> usize {
    const SIZE_BYTES: usize = 48;
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

    /// The place where whoever has heard it is.
    pub const fn end(&self) -> Mark {
        Mark { opening: self.opening, to: self.to }
    }

    /// The records that say something else than a configuration. Those that only a later program knows, or
    /// tells, are left: they are in the pool.
    pub fn news(&self, array: &Configuration, seal: Seal<'_>) -> BTreeMap<RecordKey, Found> {
        let mut news = BTreeMap::new();
        for told in &self.records {
            let Some((key, record)) = parse(told).filter(|(key, _)| is_told(key)) else { continue };
            if told_text(array, &key, seal) != *told {
                news.insert(key, Found { version: self.version, record });
            }
        }
        news
    }
}

#[cfg(test)]
mod tests;
