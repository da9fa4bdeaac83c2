//! Subcommands for snapshot schedules.

use anyhow::Result;
use api::{Schedule, SetSchedule};
use clap::{Args, Subcommand};
use reqwest::Method;

use crate::commands::{Invocation, check_segment};
use crate::tables::{Table, optional, table};
use notation::{format_duration, format_time, parse_duration};

#[derive(Debug, Subcommand)]
pub(crate) enum ScheduleCommand {
    /// List all schedules.
    List,
    /// Show one schedule.
    Show { name: String },
    /// Make a schedule. Its snapshots are named NAME-YYYYMMDDThhmmssZ; of several volumes
    /// VOLUME.NAME-YYYYMMDDThhmmssZ.
    Create {
        name: String,
        /// A volume; may be repeated. Snapshots of all of them are of one moment.
        #[arg(long = "volume", required = true, value_name = "POOL/NAME")]
        volumes: Vec<String>,
        /// Time between two runs, for example 15m, 6h or 1d.
        #[arg(long, value_parser = parse_duration)]
        every: u64,
        /// Runs whose snapshots are kept.
        #[arg(long)]
        keep: u32,
        #[command(flatten)]
        options: ScheduleOptions,
    },
    /// Change a schedule; what is left out stays as it is.
    Change {
        name: String,
        /// A volume; may be repeated. Takes the place of all there were.
        #[arg(long = "volume", value_name = "POOL/NAME")]
        volumes: Vec<String>,
        /// Time between two runs, for example 15m, 6h or 1d.
        #[arg(long, value_parser = parse_duration)]
        every: Option<u64>,
        /// Runs whose snapshots are kept.
        #[arg(long)]
        keep: Option<u32>,
        #[command(flatten)]
        options: ScheduleOptions,
        /// Do not lock new snapshots.
        #[arg(long, conflicts_with = "lock_for")]
        no_lock: bool,
        /// Run again.
        #[arg(long, conflicts_with = "off")]
        on: bool,
    },
    /// Delete a schedule. Its snapshots stay.
    Delete { name: String },
}

/// What a schedule need not say.
#[derive(Debug, Args)]
pub(crate) struct ScheduleOptions {
    /// Run so much later than at full multiples of the time in UTC, for example 2h with --every 1d
    /// for two o'clock.
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    offset: Option<u64>,
    /// Lock new snapshots for so long: nobody can delete them before.
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    lock_for: Option<u64>,
    /// Do not run.
    #[arg(long)]
    off: bool,
}

impl Invocation {
    pub(crate) fn schedule(&self, command: &ScheduleCommand) -> Result<()> {
        match command {
            ScheduleCommand::List => {
                let schedules = self.client.get::<Vec<Schedule>>("/v1/schedules")?;
                self.show(&schedules, |list| schedules_table(list))
            }
            ScheduleCommand::Show { name } => {
                let schedule = self.client.get::<Schedule>(&route(name)?)?;
                self.show(&schedule, |schedule| schedules_table(std::slice::from_ref(schedule)))
            }
            ScheduleCommand::Create { name, volumes, every, keep, options } => {
                let body = SetSchedule {
                    volumes: volumes.clone(),
                    every_seconds: *every,
                    offset_seconds: options.offset.unwrap_or_default(),
                    keep: *keep,
                    lock_seconds: options.lock_for,
                    enabled: !options.off,
                };
                self.set_schedule(name, &body)
            }
            ScheduleCommand::Change { name, volumes, every, keep, options, no_lock, on } => {
                let current = self.client.get::<Schedule>(&route(name)?)?;
                let lock = options.lock_for.or(current.lock_seconds);
                let body = SetSchedule {
                    volumes: if volumes.is_empty() { current.volumes } else { volumes.clone() },
                    every_seconds: every.unwrap_or(current.every_seconds),
                    offset_seconds: options.offset.unwrap_or(current.offset_seconds),
                    keep: keep.unwrap_or(current.keep),
                    lock_seconds: lock.filter(|_| !no_lock),
                    enabled: !options.off && (*on || current.enabled),
                };
                self.set_schedule(name, &body)
            }
            ScheduleCommand::Delete { name } => {
                let sentence = format!("Deleted schedule {name}. Its snapshots stay.");
                self.delete(&route(name)?, &sentence)
            }
        }
    }

    fn set_schedule(&self, name: &str, body: &SetSchedule) -> Result<()> {
        self.changed::<Schedule>(Method::PUT, &route(name)?, body, |schedule| match schedule.next {
            Some(next) => format!("Schedule {name} runs next at {}.", format_time(next)),
            None => format!("Schedule {name} is off."),
        })
    }
}

fn route(name: &str) -> Result<String> {
    check_segment("schedule", name)?;
    Ok(format!("/v1/schedules/{name}"))
}

fn schedules_table(schedules: &[Schedule]) -> Table {
    let header =
        ["SCHEDULE", "VOLUMES", "EVERY", "KEEP", "LOCK", "SNAPSHOTS", "LAST", "NEXT", "PROBLEM"];
    let mut rows = table(&header);
    for schedule in schedules {
        rows.add_row([
            schedule.name.clone(),
            schedule.volumes.join("\n"),
            format_duration(schedule.every_seconds),
            schedule.keep.to_string(),
            optional(schedule.lock_seconds.map(format_duration)),
            schedule.snapshots.to_string(),
            optional(schedule.last.map(format_time)),
            schedule.next.map_or_else(|| "off".to_owned(), format_time),
            optional(schedule.problem.clone()),
        ]);
    }
    rows
}
