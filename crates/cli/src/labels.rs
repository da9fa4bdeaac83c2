//! Subcommands for renaming volumes and snapshots, and for tags.

use std::collections::BTreeMap;

use anyhow::{Result, bail};
use api::{Group, Host, Pool, Rename, SetTags, Snapshot, Volume};
use clap::Args;
use reqwest::Method;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::commands::{Invocation, check_segment, split, volume_route};
use crate::snapshots::snapshot_route;

/// An object and its new name.
#[derive(Debug, Args)]
pub(crate) struct RenameArguments {
    #[arg(value_name = "POOL/NAME")]
    path: String,
    /// The new name, without the pool.
    #[arg(value_name = "NAME")]
    name: String,
}

/// An object and its tags.
#[derive(Debug, Args)]
pub(crate) struct TagArguments {
    /// The object: POOL/NAME of a volume or snapshot, the name of a host, group or pool.
    #[arg(value_name = "OBJECT")]
    object: String,
    /// All tags that it is to have; those that are not named are taken away.
    #[arg(value_name = "KEY=VALUE", required_unless_present = "none")]
    tags: Vec<String>,
    /// Take all tags away.
    #[arg(long, conflicts_with = "tags")]
    none: bool,
}

/// Tags of what is made.
#[derive(Debug, Args)]
pub(crate) struct NewTags {
    /// A tag (label) that it has from its first moment; may be repeated.
    #[arg(long = "tag", value_name = "KEY=VALUE")]
    tags: Vec<String>,
}

impl NewTags {
    pub(crate) fn parse(&self) -> Result<BTreeMap<String, String>> {
        parse_tags(&self.tags)
    }
}

impl Invocation {
    pub(crate) fn rename_volume(&self, arguments: &RenameArguments) -> Result<()> {
        let route = format!("{}/rename", volume_route(&arguments.path)?);
        self.rename::<Volume>(&route, arguments)
    }

    pub(crate) fn rename_snapshot(&self, arguments: &RenameArguments) -> Result<()> {
        let route = format!("{}/rename", snapshot_route(&arguments.path)?);
        self.rename::<Snapshot>(&route, arguments)
    }

    fn rename<T: Serialize + DeserializeOwned>(
        &self,
        route: &str,
        arguments: &RenameArguments,
    ) -> Result<()> {
        let (pool, _) = split(&arguments.path)?;
        let prefix = format!("{pool}/");
        let name = arguments.name.strip_prefix(&prefix).unwrap_or(&arguments.name).to_owned();
        let body = Rename { name: name.clone() };
        self.changed::<T>(Method::POST, route, &body, |_| {
            format!("{} is now {pool}/{name}.", arguments.path)
        })
    }

    pub(crate) fn tag_volume(&self, arguments: &TagArguments) -> Result<()> {
        self.tag::<Volume>(&volume_route(&arguments.object)?, arguments)
    }

    pub(crate) fn tag_snapshot(&self, arguments: &TagArguments) -> Result<()> {
        self.tag::<Snapshot>(&snapshot_route(&arguments.object)?, arguments)
    }

    pub(crate) fn tag_host(&self, arguments: &TagArguments) -> Result<()> {
        check_segment("host", &arguments.object)?;
        self.tag::<Host>(&format!("/v1/hosts/{}", arguments.object), arguments)
    }

    pub(crate) fn tag_group(&self, arguments: &TagArguments) -> Result<()> {
        check_segment("group", &arguments.object)?;
        self.tag::<Group>(&format!("/v1/groups/{}", arguments.object), arguments)
    }

    pub(crate) fn tag_pool(&self, arguments: &TagArguments) -> Result<()> {
        check_segment("pool", &arguments.object)?;
        self.tag::<Pool>(&format!("/v1/pools/{}", arguments.object), arguments)
    }

    fn tag<T: Serialize + DeserializeOwned>(
        &self,
        route: &str,
        arguments: &TagArguments,
    ) -> Result<()> {
        let body = SetTags { tags: parse_tags(&arguments.tags)? };
        let count = body.tags.len();
        self.changed::<T>(Method::PUT, &format!("{route}/tags"), &body, |_| {
            format!("{} has {count} tag(s).", arguments.object)
        })
    }
}

fn parse_tags(words: &[String]) -> Result<BTreeMap<String, String>> {
    let mut tags = BTreeMap::new();
    for word in words {
        let Some((key, value)) = word.split_once('=') else {
            bail!("'{word}' is no tag: write KEY=VALUE");
        };
        if tags.insert(key.to_owned(), value.to_owned()).is_some() {
            bail!("the tag '{key}' is there twice: name it once");
        }
    }
    Ok(tags)
}

/// Tags in one line, as a table shows them.
pub(crate) fn format_tags(tags: &BTreeMap<String, String>) -> String {
    tags.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_read_as_they_are_shown() {
        let parse =
            |words: &[&str]| parse_tags(&words.iter().map(|&w| w.into()).collect::<Vec<_>>());
        let tags = parse(&["owner=ann", "env=a=b", "empty="]).unwrap();
        assert_eq!(format_tags(&tags), "empty=, env=a=b, owner=ann");
        assert!(parse(&["owner"]).is_err());
        assert!(parse(&["a=1", "a=2"]).is_err());
    }
}
