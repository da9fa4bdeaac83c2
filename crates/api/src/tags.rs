//! Types for renaming objects and for tags.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Another name for an object.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Rename {
    /// 1 to 63 letters, digits, '-', '_', '.'.
    #[schema(min_length = 1, max_length = 63, pattern = "^[A-Za-z0-9][A-Za-z0-9._-]*$")]
    pub name: String,
}

/// All labels that an object is to have.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SetTags {
    /// Keys of 1 to 63 letters, digits, '-', '_', '.', and values of at most 128 characters, none of
    /// them a control character. At most 16; those that are not named are taken away.
    pub tags: BTreeMap<String, String>,
}
