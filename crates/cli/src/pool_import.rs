//! Subcommands that move pools between arrays, and the recovery key.

use std::path::PathBuf;

use anyhow::Result;
use api::{ExportPool, FoundMirror, ImportPool, PoolImport, RecoveryKey};
use clap::{Args, Subcommand};
use reqwest::Method;

use crate::chap::read_secret;
use crate::commands::Invocation;
use crate::confirmation::Confirmation;
use crate::pools::{absolute_device, pool_route};
use block::{DeviceKind, device_forms};
use notation::format_size;

/// Where a pool is, and what is to be done about what collides.
#[derive(Debug, Args)]
pub(crate) struct ImportArguments {
    #[arg(value_name = "DEVICE", required_unless_present = "scan", help = format!("{} ; in any order", device_forms()))]
    devices: Vec<String>,
    /// Look through the files and block devices of this directory.
    #[arg(long, value_name = "DIR")]
    scan: Option<PathBuf>,
    /// Which pool, if several are found: its name or UUID.
    #[arg(long, value_name = "POOL")]
    pool: Option<String>,
    /// Change nothing; say what would come, and what collides.
    #[arg(long)]
    dry_run: bool,
    /// Another name for the pool.
    #[arg(long, value_name = "NAME")]
    rename: Option<String>,
    /// Give this array the target name that hosts of the pool know. An array without pools and hosts
    /// takes it by itself.
    #[arg(long, conflicts_with = "keep_target_name")]
    adopt_target_name: bool,
    /// Keep the target name of this array; hosts of the pool must log in to that.
    #[arg(long)]
    keep_target_name: bool,
    /// Leave hosts and groups as they are that this array has already, and map the volumes to them.
    #[arg(long)]
    existing_hosts: bool,
    /// Take no hosts, groups and LUN maps.
    #[arg(long)]
    skip_hosts: bool,
    /// Where another volume has the LUN number of one of the pool's, give that another one.
    #[arg(long)]
    new_luns: bool,
    /// Take no schedules.
    #[arg(long)]
    skip_schedules: bool,
    /// Although another array used the pool last and did not export it. If that array still uses it,
    /// the pool is destroyed.
    #[arg(long)]
    force: bool,
    /// Although members of mirrors are missing that may have newer data than those that were found:
    /// what only they have is given up.
    #[arg(long)]
    degraded: bool,
    /// File with the recovery key of the array that used the pool last, on its first line; - for
    /// the standard input. CHAP secrets come with it.
    #[arg(long, value_name = "FILE")]
    recovery_key_file: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum RecoveryKeyCommand {
    /// Print the key with which CHAP secrets in pools can be read after the data directory is lost.
    /// Keep it where neither the array nor its disks are.
    Show,
}

impl Invocation {
    pub(crate) fn import_pool(&self, arguments: &ImportArguments) -> Result<()> {
        let devices = arguments.devices.iter().map(|device| named(device));
        let scan = arguments.scan.as_ref().map(std::path::absolute).transpose()?;
        let key = arguments.recovery_key_file.as_deref().map(read_secret).transpose()?;
        let body = ImportPool {
            devices: devices.collect::<Result<_>>()?,
            scan: scan.map(|path| path.display().to_string()),
            pool: arguments.pool.clone(),
            rename: arguments.rename.clone(),
            adopt_target_name: arguments.adopt_target_name,
            keep_target_name: arguments.keep_target_name,
            existing_hosts: arguments.existing_hosts,
            skip_hosts: arguments.skip_hosts,
            new_luns: arguments.new_luns,
            skip_schedules: arguments.skip_schedules,
            force: arguments.force,
            degraded: arguments.degraded,
            dry_run: arguments.dry_run,
            recovery_key: key,
        };
        self.changed::<PoolImport>(Method::POST, "/v1/pool-imports", &body, import_text)
    }

    pub(crate) fn export_pool(
        &self,
        name: &str,
        force: bool,
        confirmation: Confirmation,
    ) -> Result<()> {
        let route = format!("{}/export", pool_route(name)?);
        if force {
            confirmation.ask(&format!("Take the volumes of pool {name} from all its hosts?"))?;
        }
        let body = ExportPool { force };
        self.changed::<serde_json::Value>(Method::POST, &route, &body, |_| {
            format!("Exported pool {name}: 'gantry pool import' takes it over, here or elsewhere.")
        })
    }

    pub(crate) fn recovery_key(&self, command: &RecoveryKeyCommand) -> Result<()> {
        match command {
            RecoveryKeyCommand::Show => {
                let body = serde_json::json!({});
                self.changed::<RecoveryKey>(Method::POST, "/v1/recovery-key", &body, |key| {
                    key.key.clone()
                })
            }
        }
    }
}

/// A path alone is that of a block device if it is in /dev, else that of a file.
fn named(device: &str) -> Result<String> {
    match (DeviceKind::of(device).is_some(), device.starts_with("/dev/")) {
        (true, _) => absolute_device(device),
        (false, true) => absolute_device(&format!("block:{device}")),
        (false, false) => absolute_device(&format!("file:{device}")),
    }
}

/// A mirror with its members, where they were found and what they are worth.
fn mirror_lines(mirror: &FoundMirror) -> Vec<String> {
    let state = if mirror.degraded { "degraded" } else { "whole" };
    let mut lines = vec![format!("  mirror {}: {state}", mirror.index)];
    for member in &mirror.members {
        let (uuid, size) = (&member.uuid, format_size(member.size_bytes));
        let place = match (&member.device, &member.last_device) {
            (Some(device), _) => device.clone(),
            (None, Some(last)) => format!("missing: member {uuid} ({size}), last at {last}"),
            (None, None) => format!("missing: member {uuid} ({size})"),
        };
        lines.push(format!("    {}: {place}", member.state.name()));
    }
    lines
}

fn import_text(import: &PoolImport) -> String {
    let (name, uuid) = (&import.pool, &import.uuid);
    let mut lines = vec![if import.dry_run {
        format!("Nothing was changed. Pool {name} ({uuid}):")
    } else {
        format!("Imported pool {name} ({uuid}).")
    }];
    if !import.last_target_name.is_empty() {
        let given = if import.exported { ", which exported it" } else { "" };
        lines.push(format!("  last used by {}{given}", import.last_target_name));
    }
    lines.push(format!("  target name: {}", import.target_name));
    lines.extend(import.devices.iter().map(|device| format!("  device: {device}")));
    lines.extend(import.mirrors.iter().flat_map(mirror_lines));
    lines.extend(import.changes.iter().map(|change| format!("  {change}")));
    lines.extend(import.missing.iter().map(|missing| format!("  missing: {missing}")));
    for collision in &import.collisions {
        lines.push(format!("  collision: {}; solved by {}", collision.what, collision.solution));
    }
    lines.join("\n")
}
