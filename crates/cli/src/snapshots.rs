//! Subcommands for snapshots and clones.

use std::collections::BTreeMap;

use anyhow::{Result, bail};
use api::{
    CloneVolume, CreateSnapshots, LockSnapshot, NewSnapshot, RevertVolume, Snapshot, Volume,
};
use clap::{Args, Subcommand};
use reqwest::Method;

use crate::changed_blocks::DiffArguments;
use crate::clock::now;
use crate::commands::{Invocation, split, volume_route};
use crate::confirmation::Confirmation;
use crate::labels::{NewTags, RenameArguments, TagArguments, format_tags};
use crate::tables::{Table, optional, or_dash, table};
use notation::format_size;
use notation::{format_time, parse_duration, parse_time};

#[derive(Debug, Subcommand)]
pub(crate) enum SnapshotCommand {
    /// Take a snapshot of a volume, or of several volumes at one moment.
    #[command(override_usage = "gantry snapshot create POOL/VOLUME NAME\n       \
                                gantry snapshot create --group NAME POOL/VOLUME...")]
    Create {
        /// Take snapshots of all named volumes at one moment; each is named VOLUME.NAME.
        #[arg(long, value_name = "NAME")]
        group: Option<String>,
        /// A volume and the snapshot's name; with --group, volumes of one pool.
        #[arg(required = true, value_name = "POOL/VOLUME NAME")]
        words: Vec<String>,
        #[command(flatten)]
        lock: LockArguments,
        #[command(flatten)]
        tags: NewTags,
    },
    /// Lock a snapshot: nobody can delete it before a moment. A lock can only be made longer.
    Lock {
        #[arg(value_name = "POOL/NAME")]
        path: String,
        #[command(flatten)]
        lock: LockArguments,
    },
    /// List all snapshots.
    List,
    /// Show one snapshot.
    Show {
        #[arg(value_name = "POOL/NAME")]
        path: String,
    },
    /// Show what differs between two snapshots, or all that one holds.
    Diff(DiffArguments),
    /// Give a snapshot another name.
    Rename(RenameArguments),
    /// Say which tags (labels) a snapshot has.
    Tag(TagArguments),
    /// Delete an unmapped snapshot.
    Delete {
        #[arg(value_name = "POOL/NAME")]
        path: String,
        #[command(flatten)]
        confirmation: Confirmation,
    },
}

/// How long a snapshot is locked.
#[derive(Debug, Args)]
pub(crate) struct LockArguments {
    /// Lock until a moment in UTC, for example '2027-01-31 18:00:00'.
    #[arg(long, value_name = "MOMENT", value_parser = parse_time, conflicts_with = "lock_for")]
    lock_until: Option<u64>,
    /// Lock for a time from now on, for example 30d.
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    lock_for: Option<u64>,
}

impl LockArguments {
    fn until(&self) -> Option<u64> {
        self.lock_until.or_else(|| Some(now().saturating_add(self.lock_for?)))
    }
}

impl Invocation {
    pub(crate) fn snapshot(&self, command: &SnapshotCommand) -> Result<()> {
        match command {
            SnapshotCommand::Create { group, words, lock, tags } => {
                let new = new_snapshots(group.as_deref(), words, &tags.parse()?)?;
                let body = CreateSnapshots { locked_until: lock.until(), ..new };
                self.changed::<Vec<Snapshot>>(Method::POST, "/v1/snapshots", &body, |made| {
                    let names = made.iter().map(|made| format!("{}/{}", made.pool, made.name));
                    format!("Created {}.", names.collect::<Vec<_>>().join(", "))
                })
            }
            SnapshotCommand::Lock { path, lock } => {
                let Some(until) = lock.until() else {
                    bail!("say how long: --lock-until MOMENT or --lock-for TIME");
                };
                let (pool, name) = split(path)?;
                let route = format!("/v1/pools/{pool}/snapshots/{name}/lock");
                self.changed::<Snapshot>(Method::PUT, &route, &LockSnapshot { until }, |_| {
                    format!("Nobody can delete {path} before {}.", format_time(until))
                })
            }
            SnapshotCommand::List => {
                let snapshots = self.client.get::<Vec<Snapshot>>("/v1/snapshots")?;
                self.show(&snapshots, |list| snapshots_table(list))
            }
            SnapshotCommand::Show { path } => {
                let snapshot = self.client.get::<Snapshot>(&snapshot_route(path)?)?;
                self.show(&snapshot, |snapshot| snapshots_table(std::slice::from_ref(snapshot)))
            }
            SnapshotCommand::Diff(arguments) => self.snapshot_changes(arguments),
            SnapshotCommand::Rename(arguments) => self.rename_snapshot(arguments),
            SnapshotCommand::Tag(arguments) => self.tag_snapshot(arguments),
            SnapshotCommand::Delete { path, confirmation } => {
                confirmation.ask(&format!("Delete snapshot {path} for good?"))?;
                self.delete(&snapshot_route(path)?, &format!("Deleted snapshot {path}."))
            }
        }
    }

    pub(crate) fn clone_volume(
        &self,
        path: &str,
        name: &str,
        thick: bool,
        tags: &NewTags,
    ) -> Result<()> {
        let (pool, _) = split(path)?;
        let name = name.strip_prefix(&format!("{pool}/")).unwrap_or(name).to_owned();
        let route = format!("{}/clones", volume_route(path)?);
        let body = CloneVolume { name, thick, tags: tags.parse()? };
        self.changed::<Volume>(Method::POST, &route, &body, |volume| {
            format!("Created volume {}/{} ({}).", volume.pool, volume.name, volume.naa)
        })
    }

    pub(crate) fn revert_volume(&self, path: &str, to: &str, force: bool) -> Result<()> {
        let (pool, _) = split(path)?;
        let snapshot = to.strip_prefix(&format!("{pool}/")).unwrap_or(to).to_owned();
        let route = format!("{}/revert", volume_route(path)?);
        let body = RevertVolume { snapshot, force };
        self.changed::<Volume>(Method::POST, &route, &body, |_| {
            format!("Volume {path} is as it was when {to} was taken.")
        })
    }
}

/// What the words after 'snapshot create' ask for.
fn new_snapshots(
    group: Option<&str>,
    words: &[String],
    tags: &BTreeMap<String, String>,
) -> Result<CreateSnapshots> {
    let (volumes, name) = match (group, words) {
        (Some(_), volumes) => (volumes, None),
        (None, [volume, name]) => (std::slice::from_ref(volume), Some(name)),
        (None, _) => bail!(
            "name one volume and its snapshot: 'gantry snapshot create POOL/VOLUME NAME'; \
             for several volumes at one moment add --group NAME"
        ),
    };
    let name_of = |volume: &str| match (name, group) {
        (Some(name), _) => name.clone(),
        (None, group) => format!("{volume}.{}", group.unwrap_or_default()),
    };
    let paths = volumes.iter().map(|path| split(path)).collect::<Result<Vec<_>>>()?;
    let pool = paths[0].0.clone();
    if paths.iter().any(|(other, _)| *other != pool) {
        bail!("the volumes of a group are in one pool: take a group in each pool");
    }
    let snapshot = |(_, volume): (String, String)| NewSnapshot {
        name: name_of(&volume),
        volume,
        tags: tags.clone(),
    };
    let snapshots = paths.into_iter().map(snapshot).collect();
    Ok(CreateSnapshots { pool, snapshots, locked_until: None })
}

pub(crate) fn snapshot_route(path: &str) -> Result<String> {
    let (pool, name) = split(path)?;
    Ok(format!("/v1/snapshots/{pool}/{name}"))
}

fn snapshots_table(snapshots: &[Snapshot]) -> Table {
    let mut rows = table(&[
        "SNAPSHOT",
        "VOLUME",
        "CREATED",
        "SIZE",
        "MAPPED",
        "SHARED",
        "LUN",
        "HOSTS",
        "LOCKED UNTIL",
        "TAGS",
    ]);
    for snapshot in snapshots {
        rows.add_row([
            format!("{}/{}", snapshot.pool, snapshot.name),
            optional(snapshot.volume.clone()),
            format_time(snapshot.created),
            format_size(snapshot.size_bytes),
            format_size(snapshot.mapped_bytes),
            format_size(snapshot.shared_bytes),
            optional(snapshot.lun),
            or_dash(snapshot.hosts.join(", ")),
            optional(snapshot.locked_until.map(format_time)),
            or_dash(format_tags(&snapshot.tags)),
        ]);
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[&str]) -> Vec<String> {
        words.iter().map(|&word| word.to_owned()).collect()
    }

    #[test]
    fn one_snapshot_has_the_name_it_is_given_and_a_group_adds_it_to_each_volume() {
        let none = BTreeMap::new();
        let one = new_snapshots(None, &words(&["p/a", "monday"]), &none).unwrap();
        assert_eq!((&*one.snapshots[0].volume, &*one.snapshots[0].name), ("a", "monday"));
        let group = new_snapshots(Some("monday"), &words(&["p/a", "p/b"]), &none).unwrap();
        let names: Vec<&str> = group.snapshots.iter().map(|new| &*new.name).collect();
        assert_eq!((&*group.pool, names), ("p", vec!["a.monday", "b.monday"]));
    }

    #[test]
    fn what_cannot_be_meant_is_refused() {
        let none = BTreeMap::new();
        for (group, list) in [
            (None, &["p/a"][..]),
            (None, &["p/a", "b", "c"]),
            (None, &["a", "b"]),
            (Some("g"), &["p/a", "q/b"]),
            (Some("g"), &["p/a", "b"]),
        ] {
            assert!(new_snapshots(group, &words(list), &none).is_err(), "{group:?} {list:?}");
        }
    }
}
