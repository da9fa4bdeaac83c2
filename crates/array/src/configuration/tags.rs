//! Tags: labels that administrators attach to objects to find them by. They have no other effect.

use std::collections::BTreeMap;

use block::VolumeId;
use serde::{Deserialize, Serialize};

use super::Configuration;
use crate::limits::{TAG_KEY_BYTES_MAX, TAG_VALUE_CHARACTERS_MAX, TAGS_MAX, TAGS_PER_OBJECT_MAX};
use crate::{ArrayError, Table};

/// The tags of one object, by key.
pub type Tags = BTreeMap<String, String>;

/// Kinds of objects that can have tags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tagged<'a> {
    /// A pool, by its name.
    Pool(&'a str),
    /// A volume or snapshot, by its identifier: its name may change.
    Volume(VolumeId),
    /// A host, by its name.
    Host(&'a str),
    /// A group of hosts, by its name.
    Group(&'a str),
}

/// All tags; what has none is not in here.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TagTable {
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pools: BTreeMap<String, Tags>,
    #[serde(default, skip_serializing_if = "Table::is_empty")]
    volumes: Table<u64, Tags>,
    #[serde(default, skip_serializing_if = "Table::is_empty")]
    hosts: Table<String, Tags>,
    #[serde(default, skip_serializing_if = "Table::is_empty")]
    groups: Table<String, Tags>,
}

impl TagTable {
    pub(crate) fn is_empty(&self) -> bool {
        self.count() == 0
    }

    fn count(&self) -> usize {
        let named = self.pools.values().chain(self.hosts.values()).chain(self.groups.values());
        named.chain(self.volumes.values()).map(Tags::len).sum()
    }

    /// Tags of volumes and snapshots, by identifier.
    pub(super) const fn volumes(&self) -> &Table<u64, Tags> {
        &self.volumes
    }

    pub(super) const fn hosts(&self) -> &Table<String, Tags> {
        &self.hosts
    }

    pub(super) const fn groups(&self) -> &Table<String, Tags> {
        &self.groups
    }

    fn get(&self, object: Tagged<'_>) -> Option<&Tags> {
        match object {
            Tagged::Pool(name) => self.pools.get(name),
            Tagged::Volume(id) => self.volumes.get(&id.0),
            Tagged::Host(name) => self.hosts.get(name),
            Tagged::Group(name) => self.groups.get(name),
        }
    }

    fn remove(&mut self, object: Tagged<'_>) {
        match object {
            Tagged::Pool(name) => drop(self.pools.remove(name)),
            Tagged::Volume(id) => drop(self.volumes.remove(&id.0)),
            Tagged::Host(name) => drop(self.hosts.remove(name)),
            Tagged::Group(name) => drop(self.groups.remove(name)),
        }
    }

    fn insert(&mut self, object: Tagged<'_>, tags: Tags) {
        match object {
            Tagged::Pool(name) => drop(self.pools.insert(name.to_owned(), tags)),
            Tagged::Volume(id) => drop(self.volumes.insert(id.0, tags)),
            Tagged::Host(name) => drop(self.hosts.insert(name.to_owned(), tags)),
            Tagged::Group(name) => drop(self.groups.insert(name.to_owned(), tags)),
        }
    }
}

impl Configuration {
    /// The tags of an object.
    pub fn tags(&self, object: Tagged<'_>) -> Tags {
        self.tags.get(object).cloned().unwrap_or_default()
    }

    /// Gives an object these tags and no others.
    ///
    /// # Errors
    /// When there are more than 16, or with those of all other objects more than 16,384, or a key or
    /// value is not possible.
    pub fn set_tags(&mut self, object: Tagged<'_>, tags: Tags) -> Result<(), ArrayError> {
        if tags.len() > TAGS_PER_OBJECT_MAX {
            return Err(ArrayError::InvalidTag("an object has at most 16 tags"));
        }
        tags.iter().try_for_each(|(key, value)| check(key, value))?;
        let others = self.tags.count() - self.tags.get(object).map_or(0, Tags::len);
        if others + tags.len() > TAGS_MAX {
            return Err(ArrayError::TooMany { kind: "tags", max: TAGS_MAX });
        }
        if tags.is_empty() {
            self.tags.remove(object)
        } else {
            self.tags.insert(object, tags)
        }
        Ok(())
    }

    /// Forgets the tags of an object that is gone.
    pub fn forget_tags(&mut self, object: Tagged<'_>) {
        self.tags.remove(object);
    }
}

fn check(key: &str, value: &str) -> Result<(), ArrayError> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    if !(1..=TAG_KEY_BYTES_MAX).contains(&key.len()) || !key.bytes().all(fits) {
        return Err(ArrayError::InvalidTag(
            "the key of a tag has 1 to 63 letters, digits, '-', '_' or '.'",
        ));
    }
    if value.chars().count() > TAG_VALUE_CHARACTERS_MAX || value.chars().any(char::is_control) {
        Err(ArrayError::InvalidTag(
            "the value of a tag has at most 128 characters, none of them a control character",
        ))
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tags(pairs: &[(&str, &str)]) -> Tags {
        pairs.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect()
    }

    #[test]
    fn tags_are_kept_by_object_and_read_back() {
        let mut array = Configuration::new("iqn.2026-11.io.gantry:a".into());
        let untagged = serde_json::to_string(&array).unwrap();
        assert!(
            !untagged.contains("tags"),
            "a file without tags is as it was before there were any"
        );
        let volume = Tagged::Volume(VolumeId(7));
        for object in [volume, Tagged::Pool("x"), Tagged::Host("x"), Tagged::Group("x")] {
            array.set_tags(object, tags(&[("env", "prod: é"), ("empty", "")])).unwrap();
        }
        array.set_tags(Tagged::Host("x"), tags(&[("rack", "7")])).unwrap();
        let text = serde_json::to_string(&array).unwrap();
        assert_eq!(serde_json::from_str::<Configuration>(&text).unwrap(), array);
        assert_eq!(array.tags(volume)["env"], "prod: é");
        assert_eq!(array.tags(Tagged::Host("x")), tags(&[("rack", "7")]));
        array.set_tags(Tagged::Host("x"), Tags::new()).unwrap();
        assert_eq!(array.tags(Tagged::Group("x"))["env"], "prod: é");
        array.forget_tags(Tagged::Group("x"));
        array.forget_tags(volume);
        array.forget_tags(Tagged::Pool("x"));
        assert_eq!(serde_json::to_string(&array).unwrap(), untagged);
    }

    #[test]
    fn what_is_no_tag_and_too_many_are_refused() {
        let mut array = Configuration::new("iqn.2026-11.io.gantry:a".into());
        let (long_key, long_value) = ("k".repeat(64), "é".repeat(129));
        for (key, value) in [
            ("", "v"),
            ("a b", "v"),
            ("ä", "v"),
            ("a:b", "v"),
            (&long_key, "v"),
            ("k", &long_value),
            ("k", "a\nb"),
            ("k", "\u{1b}[2J"),
        ] {
            let refused = array.set_tags(Tagged::Host("x"), tags(&[(key, value)]));
            assert!(matches!(refused, Err(ArrayError::InvalidTag(_))), "{key} {value}");
        }
        let many = |count: usize| (0..count).map(|key| (key.to_string(), String::new())).collect();
        assert!(array.set_tags(Tagged::Host("x"), many(TAGS_PER_OBJECT_MAX + 1)).is_err());
        for volume in 0..(TAGS_MAX / TAGS_PER_OBJECT_MAX) as u64 {
            array.set_tags(Tagged::Volume(VolumeId(volume)), many(TAGS_PER_OBJECT_MAX)).unwrap();
        }
        let full = array.set_tags(Tagged::Host("x"), many(1));
        assert_eq!(full, Err(ArrayError::TooMany { kind: "tags", max: TAGS_MAX }));
        array.set_tags(Tagged::Volume(VolumeId(0)), many(TAGS_PER_OBJECT_MAX)).unwrap();
    }
}
