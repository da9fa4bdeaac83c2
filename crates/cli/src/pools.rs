//! Subcommands for pools, their devices and thresholds.

mod break_lock;

use std::str::FromStr;

use anyhow::Result;
use api::{
    AddDevice, Backing, BackingState, CreatePool, Departure, JournalLoss, Member, Mirror, Pool,
    PoolMode, ResizePool, ResumePool, SetFailBack, SetSnapshotDeletion, Space, Thresholds, Volume,
};
use clap::{Args, Subcommand};
use reqwest::Method;

use crate::commands::{Invocation, check_segment, volume_route};
use crate::confirmation::Confirmation;
use crate::labels::{TagArguments, format_tags};
use crate::pool_import::ImportArguments;
use crate::tables::{Table, optional, or_dash, table, thresholds_text};
use block::{DeviceKind, device_forms};
use notation::{format_size, format_time, parse_size};

#[derive(Debug, Subcommand)]
pub(crate) enum PoolCommand {
    /// Create a pool on new files, block devices, or memory.
    Create {
        name: String,
        #[arg(long = "device", required_unless_present = "places", help = format!("{} ; may be repeated", device_forms()))]
        devices: Vec<String>,
        /// The same without --device.
        #[arg(value_name = "DEVICE", conflicts_with = "devices")]
        places: Vec<String>,
        /// Mirrors: so many devices that follow each other hold the same blocks, so that each but one
        /// of them may fail.
        #[arg(long, value_name = "2|3", value_parser = clap::value_parser!(u8).range(1..=3))]
        mirror: Option<u8>,
        /// Size of each device, for example 20G (powers of 1024).
        #[arg(long, value_parser = parse_size)]
        size: Option<u64>,
    },
    /// List all pools.
    List,
    /// Show one pool.
    Show { name: String },
    /// Say which tags (labels) a pool has.
    Tag(TagArguments),
    /// Let a new device join a mirror, or make a mirror of a plain device, while the pool is in use.
    Attach {
        name: String,
        #[arg(value_name = "DEVICE", help = device_forms())]
        device: String,
        /// Which mirror or device, by its number; may be left out if there is only one.
        #[arg(long)]
        mirror: Option<usize>,
        /// Its size; that of the mirror when left out.
        #[arg(long, value_parser = parse_size)]
        size: Option<u64>,
        /// It becomes the mirror's witness: a small device that several controllers reach and that
        /// holds no copy (64M or more). With it one of them takes the pool also where another one
        /// is gone together with a member of the mirror.
        #[arg(long)]
        witness: bool,
    },
    /// Let a device leave its mirror. Its content stays as it is.
    Detach { name: String, device: String },
    /// Let a new device take the place of another one, which leaves when the new one holds everything.
    Replace {
        name: String,
        /// The one that leaves.
        old: String,
        #[arg(value_name = "DEVICE", help = device_forms())]
        new: String,
        /// Size of the new one; that of the mirror when left out.
        #[arg(long, value_parser = parse_size)]
        size: Option<u64>,
    },
    /// Look at once whether a lost device is there again; the array looks every few seconds.
    Return { name: String, device: String },
    /// Pause, resume or cancel the filling of devices that are not current.
    Resilver {
        name: String,
        #[arg(value_name = "pause|resume|cancel")]
        action: ResilverArgument,
        /// The device that is given up, for cancel.
        #[arg(required_if_eq("action", "cancel"))]
        device: Option<String>,
    },
    /// Add or remove devices that step in when a device of a mirror is lost.
    #[command(subcommand)]
    Spare(SpareCommand),
    /// Let one more device join a pool, while it is in use. Two or three are members of one mirror:
    /// they hold the same blocks. A pool that has mirrors takes nothing else.
    AddDevice {
        name: String,
        #[arg(long = "device", value_name = "DEVICE", required_unless_present = "places", help = format!("{} ; may be repeated", device_forms()))]
        devices: Vec<String>,
        /// The same without --device.
        #[arg(value_name = "DEVICE", conflicts_with = "devices")]
        places: Vec<String>,
        /// Size of each, for example 20G.
        #[arg(long, value_parser = parse_size)]
        size: Option<u64>,
    },
    /// Let a device leave a pool, or a mirror with all of its devices, while the pool is in use: what is on it
    /// moves to the others. It may be used for anything else when it has left.
    RemoveDevice {
        name: String,
        /// Which device or mirror, by its number in 'gantry pool show'. The first one, 0, cannot leave.
        #[arg(long, visible_alias = "mirror")]
        device: usize,
        /// Bytes per second that are moved at most, for example 100M; as many as hosts leave it when left out.
        #[arg(long, value_parser = parse_size)]
        rate: Option<u64>,
        /// Wait until it has left. Fails if it stays.
        #[arg(long)]
        until_gone: bool,
    },
    /// Pause, resume or cancel the leaving of a device.
    Departure {
        name: String,
        #[arg(value_name = "pause|resume|cancel")]
        action: DepartureArgument,
        /// Bytes per second that are moved at most from now on, for example 100M.
        #[arg(long, value_parser = parse_size)]
        rate: Option<u64>,
    },
    /// Make a device of a pool larger, or each member of a mirror, while it is in use.
    Extend {
        name: String,
        /// Which device or mirror, by its number; may be left out if there is only one.
        #[arg(long, visible_alias = "mirror")]
        device: Option<usize>,
        /// The new size of the device, or of each member, for example 40G.
        #[arg(long, value_parser = parse_size)]
        size: u64,
    },
    /// Go on with a pool that takes no writes, or is unavailable: checks its devices and opens it
    /// anew, without a restart. Hosts keep their LUNs. A pool that is unavailable also opens by
    /// itself a few seconds after its devices have come.
    #[command(visible_alias = "open")]
    Resume {
        name: String,
        /// Serve reads alone. Where the journal is damaged: what there was before the damage.
        #[arg(long, conflicts_with = "rewind")]
        read_only: bool,
        /// Where the journal is damaged: go on from the last commit before the damage. Without
        /// --yes only says what that gives up.
        #[arg(long, group = "confirmed")]
        rewind: bool,
        /// Do what --rewind or --break-lock has said.
        #[arg(long, requires = "confirmed")]
        yes: bool,
        /// Open mirrors without members that may be newer than those that are there: what only the
        /// missing ones hold is lost then.
        #[arg(long)]
        degraded: bool,
        /// Take the pool from those who hold its devices: the reservation of a block device, the lock of
        /// a Ceph image. Without --yes only says who that is and what becomes of them. The lock of a file
        /// cannot be broken.
        #[arg(long, group = "confirmed", conflicts_with = "read_only")]
        break_lock: bool,
    },
    /// Set how full the pool may become before someone is told, and what it does then; and which
    /// controller of several should have it.
    Set {
        name: String,
        #[command(flatten)]
        thresholds: PoolThresholds,
        /// Whether the oldest unlocked snapshots of schedules are deleted, one after the other,
        /// while the pool is at or above the percentage for an alarm. Without --soft and --hard,
        /// thresholds stay as they are.
        #[arg(long, value_name = "on|off")]
        delete_scheduled_snapshots: Option<Switch>,
        #[command(flatten)]
        fail_back: FailBackArguments,
    },
    /// Check a pool that no daemon uses, without changing it. Ends with 0 if it is sound, 1 if
    /// faults were found, 2 if it could not be checked.
    Verify {
        /// Its files or block devices, in the order of the pool.
        #[arg(required = true, value_name = "FILE|BLOCK")]
        devices: Vec<String>,
        /// Check the maps only, and do not read the data.
        #[arg(long)]
        quick: bool,
    },
    /// Take over a pool that this array does not know, with its volumes, LUN numbers, hosts,
    /// reservations and schedules: after the data directory was lost, or from another array.
    Import(ImportArguments),
    /// Close a pool and give it away, with all that is said of its volumes: another array may import
    /// it.
    Export {
        name: String,
        /// Although hosts are logged in that see its volumes: they lose them.
        #[arg(long)]
        force: bool,
        #[command(flatten)]
        confirmation: Confirmation,
    },
    /// Forget an empty pool. Its devices are not touched.
    Delete {
        name: String,
        /// Forget a pool that is not open, whatever it holds.
        #[arg(long)]
        force: bool,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum SpareCommand {
    /// Make a device that steps in.
    Add {
        name: String,
        #[arg(value_name = "DEVICE", help = device_forms())]
        device: String,
        /// Its size, for example 20G.
        #[arg(long, value_parser = parse_size)]
        size: Option<u64>,
    },
    /// Forget one. Its file stays.
    Remove { name: String, device: String },
}

/// What becomes of the filling of devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum ResilverArgument {
    /// It rests.
    Pause,
    /// It goes on.
    Resume,
    /// It is given up: the device leaves its mirror.
    Cancel,
}

/// What becomes of a device that leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum DepartureArgument {
    /// Nothing is moved, also over a restart.
    Pause,
    /// It goes on.
    Resume,
    /// It is given up: the device stays.
    Cancel,
}

/// When someone is told how full something is.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct ThresholdArguments {
    /// Percentage for a warning.
    #[arg(long, default_value_t = 75)]
    soft: u8,
    /// Percentage for an alarm.
    #[arg(long, default_value_t = 90)]
    hard: u8,
}

/// When someone is told how full a pool is; as it was if only something else is set.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct PoolThresholds {
    /// Percentage for a warning; 75 if it is not said.
    #[arg(long)]
    soft: Option<u8>,
    /// Percentage for an alarm; 90 if it is not said.
    #[arg(long)]
    hard: Option<u8>,
}

impl PoolThresholds {
    fn body(self) -> Thresholds {
        Thresholds { soft_percent: self.soft.unwrap_or(75), hard_percent: self.hard.unwrap_or(90) }
    }

    const fn is_said(self) -> bool {
        self.soft.is_some() || self.hard.is_some()
    }
}

/// Which controller should have a pool; as it was if only something else is set.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct FailBackArguments {
    /// The number of the controller that should have the pool.
    #[arg(long, value_name = "NUMBER|none", value_parser = parse_controller)]
    preferred_controller: Option<Said<u16>>,
    /// Seconds for which that controller must have been heard, not in maintenance and able to reach all
    /// devices of the pool before another one gives the pool back to it: 10 to 86400.
    #[arg(long, value_name = "SECONDS|off", value_parser = parse_fail_back)]
    fail_back: Option<Said<u32>>,
}

/// A value, or that there is to be none.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Said<T>(Option<T>);

fn parse_controller(text: &str) -> Result<Said<u16>, String> {
    parse_said(text, "none").ok_or_else(|| "say the number of a controller, or none".to_owned())
}

fn parse_fail_back(text: &str) -> Result<Said<u32>, String> {
    parse_said(text, "off").ok_or_else(|| "say seconds, or off".to_owned())
}

fn parse_said<T: FromStr>(text: &str, nothing: &str) -> Option<Said<T>> {
    if text == nothing {
        Some(Said(None))
    } else {
        text.parse().ok().map(|value| Said(Some(value)))
    }
}

impl FailBackArguments {
    const fn is_said(self) -> bool {
        self.preferred_controller.is_some() || self.fail_back.is_some()
    }

    /// What is said, and else what the pool has. Without a controller it is given back to nobody.
    fn over(self, pool: &Pool) -> SetFailBack {
        let preferred_controller =
            self.preferred_controller.map_or(pool.preferred_controller, |Said(number)| number);
        let is_given = preferred_controller.is_some();
        let kept = pool.fail_back_seconds.filter(|_| is_given);
        let fail_back_seconds = self.fail_back.map_or(kept, |Said(seconds)| seconds);
        SetFailBack { preferred_controller, fail_back_seconds }
    }
}

/// Whether something is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Switch {
    /// It is.
    On,
    /// It is not.
    Off,
}

impl ThresholdArguments {
    fn body(self) -> Thresholds {
        Thresholds { soft_percent: self.soft, hard_percent: self.hard }
    }
}

impl Invocation {
    pub(crate) fn pool(&self, command: &PoolCommand) -> Result<()> {
        match command {
            PoolCommand::Create { name, devices, places, mirror, size } => {
                self.create_pool(name, &[devices.as_slice(), places].concat(), *size, *mirror)
            }
            PoolCommand::Tag(arguments) => self.tag_pool(arguments),
            PoolCommand::List => {
                self.show(&self.client.get::<Vec<Pool>>("/v1/pools")?, |pools| pools_table(pools))
            }
            PoolCommand::Show { name } => {
                self.show(&self.client.get::<Pool>(&pool_route(name)?)?, pool_details)
            }
            PoolCommand::AddDevice { name, devices, places, size } => {
                self.add_device(name, &[devices.as_slice(), places].concat(), *size)
            }
            PoolCommand::Attach { .. }
            | PoolCommand::Detach { .. }
            | PoolCommand::Replace { .. }
            | PoolCommand::Return { .. }
            | PoolCommand::Resilver { .. }
            | PoolCommand::RemoveDevice { .. }
            | PoolCommand::Departure { .. }
            | PoolCommand::Spare(_) => self.mirrors(command),
            PoolCommand::Extend { name, device, size } => {
                let body = ResizePool { device: *device, size_bytes: *size };
                self.changed::<Pool>(Method::PATCH, &pool_route(name)?, &body, |pool| {
                    format!("Extended pool {}.", pool.name)
                })
            }
            PoolCommand::Resume { name, degraded, yes, break_lock: true, .. } => {
                self.break_locks(name, *degraded, *yes)
            }
            PoolCommand::Resume { name, read_only, rewind, yes, degraded, break_lock: false } => {
                let mode = match (read_only, rewind) {
                    (_, true) => PoolMode::Rewind,
                    (true, false) => PoolMode::ReadOnly,
                    (false, false) => PoolMode::ReadWrite,
                };
                let (dry_run, degraded) = (*rewind && !yes, *degraded);
                self.resume_pool(
                    name,
                    &ResumePool { mode, dry_run, degraded, ..ResumePool::default() },
                )
            }
            PoolCommand::Set { name, thresholds, delete_scheduled_snapshots, fail_back } => {
                self.set_pool(name, *thresholds, *delete_scheduled_snapshots, *fail_back)
            }
            PoolCommand::Verify { .. } => unreachable!("it needs no daemon and has run already"),
            PoolCommand::Import(arguments) => self.import_pool(arguments),
            PoolCommand::Export { name, force, confirmation } => {
                self.export_pool(name, *force, *confirmation)
            }
            PoolCommand::Delete { name, force } => self.delete(
                &format!("{}{}", pool_route(name)?, if *force { "?force=true" } else { "" }),
                &format!("Deleted pool {name}. Its devices were not touched."),
            ),
        }
    }

    fn create_pool(
        &self,
        name: &str,
        devices: &[String],
        size_bytes: Option<u64>,
        mirror: Option<u8>,
    ) -> Result<()> {
        let devices = devices.iter().map(|device| absolute_device(device));
        let devices = devices.collect::<Result<Vec<_>>>()?;
        let body = CreatePool { name: name.to_owned(), devices, size_bytes, mirror };
        self.changed::<Pool>(Method::POST, "/v1/pools", &body, |pool| {
            let mut text = format!("Created pool {}.", pool.name);
            if let Some(message) = &pool.backing_message {
                text += &format!(" Note: {message}.");
            }
            text
        })
    }

    /// The first one is a plain device, or with others a mirror.
    fn add_device(&self, name: &str, devices: &[String], size_bytes: Option<u64>) -> Result<()> {
        let devices = devices.iter().map(|device| absolute_device(device));
        let mut devices = devices.collect::<Result<Vec<_>>>()?.into_iter();
        let device = devices.next().unwrap_or_default();
        let body = AddDevice { device, mirrored_by: devices.collect(), size_bytes };
        let route = format!("{}/devices", pool_route(name)?);
        self.changed::<Pool>(Method::POST, &route, &body, |pool| {
            format!("Pool {} has {} devices.", pool.name, pool.devices.len())
        })
    }

    /// A request for each part that is said: what fits is kept if a later one is refused.
    fn set_pool(
        &self,
        name: &str,
        thresholds: PoolThresholds,
        deletes: Option<Switch>,
        fail_back: FailBackArguments,
    ) -> Result<()> {
        let route = pool_route(name)?;
        let mut requests = Vec::new();
        if thresholds.is_said() || (deletes.is_none() && !fail_back.is_said()) {
            requests.push(("thresholds", serde_json::to_value(thresholds.body())?));
        }
        if let Some(deletes) = deletes {
            let delete_scheduled_snapshots = deletes == Switch::On;
            let body = SetSnapshotDeletion { delete_scheduled_snapshots };
            requests.push(("snapshot-deletion", serde_json::to_value(body)?));
        }
        if fail_back.is_said() {
            let body = fail_back.over(&self.client.get::<Pool>(&route)?);
            requests.push(("fail-back", serde_json::to_value(body)?));
        }
        let Some(((part, body), before)) = requests.split_last() else { return Ok(()) };
        for (part, body) in before {
            let _: Pool = self.client.send(Method::PUT, &format!("{route}/{part}"), body)?;
        }
        self.changed::<Pool>(Method::PUT, &format!("{route}/{part}"), body, |pool| {
            format!("Changed pool {}.", pool.name)
        })
    }

    fn resume_pool(&self, name: &str, body: &ResumePool) -> Result<()> {
        let route = format!("{}/resume", pool_route(name)?);
        self.changed::<Pool>(Method::POST, &route, body, |pool| {
            match (body.dry_run, &pool.journal_loss) {
                (true, Some(loss)) => format!(
                    "Nothing was changed. {}. Say --rewind --yes to give that up for good.",
                    loss_text(loss)
                ),
                (true, None) => "Nothing was changed: nothing would be given up.".to_owned(),
                (false, _) => format!("Pool {} is {}.", pool.name, pool.state),
            }
        })
    }

    pub(crate) fn set_volume_thresholds(
        &self,
        path: &str,
        thresholds: &ThresholdArguments,
    ) -> Result<()> {
        let route = format!("{}/thresholds", volume_route(path)?);
        self.changed::<Volume>(Method::PUT, &route, &thresholds.body(), |_| {
            format!("Changed volume {path}.")
        })
    }
}

/// A path is meant from where the administrator stands, not from where the daemon runs.
pub(crate) fn absolute_device(device: &str) -> Result<String> {
    let has_path = DeviceKind::of(device).is_some_and(DeviceKind::has_path);
    match device.split_once(':') {
        Some((kind, path)) if has_path && !path.is_empty() => {
            Ok(format!("{kind}:{}", std::path::absolute(path)?.display()))
        }
        Some(_) | None => Ok(device.to_owned()),
    }
}

pub(crate) fn pool_route(name: &str) -> Result<String> {
    check_segment("pool", name)?;
    Ok(format!("/v1/pools/{name}"))
}

fn pools_table(pools: &[Pool]) -> Table {
    let mut rows =
        table(&["NAME", "STATE", "SIZE", "USED", "FREE", "VOLUMES", "SNAPSHOTS", "DEVICES"]);
    for pool in pools {
        let space =
            |part: fn(&Space) -> u64| optional(pool.space.as_ref().map(part).map(format_size));
        let devices: Vec<&str> = pool.devices.iter().map(|device| &*device.device).collect();
        rows.add_row([
            pool.name.clone(),
            state_text(pool),
            format_size(pool.size_bytes),
            space(|space| space.used_bytes),
            space(|space| space.free_bytes),
            pool.volumes.to_string(),
            pool.snapshots.to_string(),
            devices.join("\n"),
        ]);
    }
    rows
}

fn state_text(pool: &Pool) -> String {
    match pool.backing_state {
        BackingState::Enough | BackingState::Short => pool.state.clone(),
        BackingState::Full => format!("{} (file system full)", pool.state),
    }
}

fn pool_details(pool: &Pool) -> Table {
    let mut rows = table(&[]);
    let mut row = |name: &str, value: String| {
        rows.add_row([name.to_owned(), value]);
    };
    row("Name", pool.name.clone());
    row("State", state_text(pool));
    if let Some(reason) = &pool.reason {
        row("Reason", reason.clone());
    }
    if let Some(message) = &pool.backing_message {
        row("Note", message.clone());
    }
    if let Some(loss) = &pool.journal_loss {
        row("Lost", format!("{}; found {}", loss_text(loss), format_time(loss.since)));
    }
    for device in &pool.devices {
        let text = format!("{}, {}", device.device, format_size(device.size_bytes));
        row(&format!("Device {}", device.index), text);
    }
    if let Some(departure) = &pool.departure {
        row("Leaving", departure_text(departure));
    }
    for mirror in &pool.mirrors {
        row(&format!("Mirror {}", mirror.index), mirror_text(mirror));
        for member in &mirror.members {
            let name = member.device.as_deref().unwrap_or(&member.uuid);
            row(&format!("  {}", member.state.name()), member_text(name, member));
        }
    }
    if !pool.mirrors.is_empty() {
        row("Hang limit", format!("{} s", pool.hang_limit_seconds));
        row("Read errors", format!("{} in an hour leave a device out", pool.read_errors_max));
        row("Spares", or_dash(pool.spares.join("\n")));
    }
    for backing in &pool.backing {
        row(&format!("File system {}", backing.file_system), backing_text(backing));
    }
    row("UUID", pool.uuid.clone());
    row("Size", format_size(pool.size_bytes));
    for (name, value) in pool.space.iter().flat_map(space_rows) {
        row(name, value);
    }
    row("Thresholds", thresholds_text(pool.thresholds, pool.fill));
    if pool.delete_scheduled_snapshots {
        row("When full", "deletes the oldest unlocked scheduled snapshots".to_owned());
    }
    if let Some(controller) = pool.preferred_controller {
        row("Controller", fail_back_text(pool, controller));
    }
    row("Volumes", pool.volumes.to_string());
    row("Snapshots", pool.snapshots.to_string());
    row("Tags", or_dash(format_tags(&pool.tags)));
    row("Memory for maps", format_size(pool.memory_bytes));
    row("Device written", format_size(pool.counters.device_bytes_written));
    row("Device read", format_size(pool.counters.device_bytes_read));
    row("Cloned by reference", format_size(pool.counters.bytes_cloned));
    rows
}

fn mirror_text(mirror: &Mirror) -> String {
    let size = format_size(mirror.size_bytes);
    let mut text = format!("{}, {size}", if mirror.degraded { "degraded" } else { "whole" });
    if let Some(resilver) = &mirror.resilver {
        let (done, all) = (format_size(resilver.copied_bytes), format_size(resilver.total_bytes));
        text += &format!("; {done} of about {all} copied");
        match resilver.remaining_seconds {
            _ if resilver.paused => text += ", paused",
            Some(seconds) => text += &format!(", about {seconds} s left"),
            None => {}
        }
    }
    text
}

/// Which controller should have a pool, and what giving it back waits for.
fn fail_back_text(pool: &Pool, controller: u16) -> String {
    let mut text = format!("{controller} preferred");
    match pool.fail_back_seconds {
        Some(seconds) => text += &format!(", given back after {seconds} s"),
        None => text += ", fail-back off",
    }
    if let Some(waits_for) = &pool.fail_back_waits_for {
        text += &format!("; {waits_for}");
    }
    text
}

fn departure_text(departure: &Departure) -> String {
    let (left, copied) = (format_size(departure.left_bytes), format_size(departure.copied_bytes));
    let mut text = format!("device {}: {left} left, {copied} copied", departure.device);
    match departure.remaining_seconds {
        _ if departure.paused => text += ", paused",
        _ if departure.waits_for_space => text += ", waits for space on the others",
        Some(seconds) => text += &format!(", about {seconds} s left"),
        None => {}
    }
    if let Some(rate) = departure.rate_bytes {
        text += &format!("; at most {}/s", format_size(rate));
    }
    if departure.unreadable_blocks > 0 {
        text += &format!("; {} block(s) cannot be read", departure.unreadable_blocks);
    }
    text
}

fn member_text(name: &str, member: &Member) -> String {
    let mut text = format!("{name}, {}", format_size(member.size_bytes));
    if member.errors > 0 || member.healed_blocks > 0 {
        text += &format!("; {} error(s), {} block(s) healed", member.errors, member.healed_blocks);
    }
    text
}

fn loss_text(loss: &JournalLoss) -> String {
    format!(
        "Commit {} of the journal is damaged: {} commit(s) up to {} are lost, of which those up to \
         {} were acknowledged to hosts. {} of them can be read: {} change(s) of {} volume(s)",
        loss.first_commit,
        loss.commits,
        loss.last_commit,
        loss.acknowledged_commit,
        loss.intact_commits,
        loss.intact_changes,
        loss.volumes.len()
    )
}

fn backing_text(backing: &Backing) -> String {
    let (free, size) = (format_size(backing.free_bytes), format_size(backing.size_bytes));
    let mut text = format!("{free} free of {size}");
    if backing.unallocated_bytes > 0 {
        let growth = format_size(backing.unallocated_bytes);
        text += &format!("; the pool's files may grow by {growth}");
    }
    if !backing.shared_with.is_empty() {
        text += &format!("; pool(s) {} use it, too", backing.shared_with.join(", "));
    }
    text
}

fn space_rows(space: &Space) -> [(&'static str, String); 12] {
    [
        ("Space", format_size(space.total_bytes)),
        ("  Used", format!("{} ({} %)", format_size(space.used_bytes), space.used_percent)),
        ("    Data", format_size(space.data_bytes)),
        ("    Map", format_size(space.metadata_bytes)),
        ("  Pending", format_size(space.pending_bytes)),
        ("  Reserve", format_size(space.reserve_bytes)),
        ("    Metadata", format_size(space.metadata_left_bytes)),
        ("  Without space below", format_size(space.unbacked_bytes)),
        ("  Free", format_size(space.free_bytes)),
        ("    Promised", format_size(space.promised_bytes)),
        ("Saved by sharing", format_size(space.shared_bytes)),
        ("Provisioned", format_size(space.provisioned_bytes)),
    ]
}

#[cfg(test)]
mod tests;
