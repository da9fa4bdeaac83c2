//! Serialises device names as text (serde `with` module).

use block::DeviceName;
use serde::{Deserialize, Deserializer, Serializer, de};

pub(super) fn serialize<S: Serializer>(name: &DeviceName, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(name)
}

pub(super) fn deserialize<'a, D: Deserializer<'a>>(from: D) -> Result<DeviceName, D::Error> {
    String::deserialize(from)?.parse().map_err(de::Error::custom)
}

/// A field that may be left out, or null.
pub(super) fn deserialize_some<'a, D: Deserializer<'a>>(
    from: D,
) -> Result<Option<DeviceName>, D::Error> {
    let text = Option::<String>::deserialize(from)?;
    text.map(|text| text.parse().map_err(de::Error::custom)).transpose()
}
