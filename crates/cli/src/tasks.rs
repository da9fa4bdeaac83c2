//! Subcommands for tasks.

use std::io::IsTerminal;
use std::thread;
use std::time::Duration;

use anyhow::{Result, bail};
use api::{Task, TaskKind, TaskState, TaskUnit};
use clap::Subcommand;
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

use crate::commands::Invocation;
use crate::tables::{Table, optional, table};
use notation::{format_duration, format_size, format_time};

/// How often the daemon is asked how far a task is.
const LOOK_INTERVAL: Duration = Duration::from_millis(250);

#[derive(Debug, Subcommand)]
pub(crate) enum TaskCommand {
    /// List long work that goes on or has ended lately.
    List,
    /// Show one task.
    Show { id: u64 },
    /// End a task before its time.
    Cancel { id: u64 },
    /// Let a resilver or a device that leaves rest, also over a restart; other resilvers of the same pool rest,
    /// too.
    Pause { id: u64 },
    /// Let one that rests go on.
    Resume { id: u64 },
    /// Wait until tasks have ended, with progress bars on a terminal. Fails if one of them does.
    Wait {
        /// All that go on when left out.
        ids: Vec<u64>,
    },
}

impl Invocation {
    pub(crate) fn task(&self, command: &TaskCommand) -> Result<()> {
        match command {
            TaskCommand::List => self.show(&self.tasks()?, |list| tasks_table(list)),
            TaskCommand::Show { id } => {
                self.show(&self.one_task(*id)?, |task| tasks_table(std::slice::from_ref(task)))
            }
            TaskCommand::Cancel { id } => {
                let cancelled: Task = self.client.post(&format!("/v1/tasks/{id}/cancel"))?;
                self.tell(&cancelled, |task| {
                    format!("Task {} ({} of {}) is cancelled.", id, kind(task.kind), task.object)
                })
            }
            TaskCommand::Pause { id } => self.hold(*id, "pause", "rests"),
            TaskCommand::Resume { id } => self.hold(*id, "resume", "goes on"),
            TaskCommand::Wait { ids } => self.wait(ids),
        }
    }

    fn hold(&self, id: u64, action: &str, done: &str) -> Result<()> {
        let task: Task = self.client.post(&format!("/v1/tasks/{id}/{action}"))?;
        self.tell(&task, |task| {
            format!("Task {id} ({} of {}) {done}.", kind(task.kind), task.object)
        })
    }

    fn tasks(&self) -> Result<Vec<Task>> {
        self.client.get("/v1/tasks")
    }

    fn one_task(&self, id: u64) -> Result<Task> {
        self.client.get(&format!("/v1/tasks/{id}"))
    }

    fn wait(&self, ids: &[u64]) -> Result<()> {
        let running = |task: &Task| task.state == TaskState::Running;
        let ids: Vec<u64> = match ids {
            [] => self.tasks()?.iter().filter(|task| running(task)).map(|task| task.id).collect(),
            ids => ids.to_vec(),
        };
        let bars = MultiProgress::new();
        let shown: Vec<ProgressBar> = ids.iter().map(|_| bars.add(self.bar())).collect();
        let mut ended: Vec<Task> = Vec::new();
        while ended.len() < ids.len() {
            ended.clear();
            for (&id, bar) in ids.iter().zip(&shown) {
                let task = self.one_task(id)?;
                show_progress(bar, &task);
                ended.extend(Some(task).filter(|task| !running(task)));
            }
            if ended.len() < ids.len() {
                thread::sleep(LOOK_INTERVAL);
            }
        }
        shown.iter().for_each(ProgressBar::abandon);
        self.show(&ended, |list| tasks_table(list))?;
        match ended.iter().find(|task| task.state != TaskState::Done) {
            Some(task) => bail!("task {} has {}", task.id, state(task.state)),
            None => Ok(()),
        }
    }

    /// Waits until the newest task of a kind of an object has ended. Fails if it does.
    pub(crate) fn wait_for_newest(&self, kind: TaskKind, object: &str) -> Result<()> {
        let tasks = self.tasks()?;
        let newest = tasks.iter().find(|task| task.kind == kind && task.object == object);
        match newest {
            Some(task) => self.wait(&[task.id]),
            None => bail!("there is no such task any more: see 'gantry task list'"),
        }
    }

    /// A bar on the standard error, if that is a terminal.
    fn bar(&self) -> ProgressBar {
        if self.is_json() || !std::io::stderr().is_terminal() {
            return ProgressBar::hidden();
        }
        let style = ProgressStyle::with_template("{msg:32} {wide_bar} {percent:>3} % {eta:>8}");
        let bar = ProgressBar::new(0);
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        bar
    }
}

fn show_progress(bar: &ProgressBar, task: &Task) {
    bar.set_length(task.total);
    bar.set_position(task.done);
    bar.set_message(format!("{} of {}", kind(task.kind), task.object));
}

fn tasks_table(tasks: &[Task]) -> Table {
    let mut rows =
        table(&["TASK", "KIND", "OBJECT", "STATE", "DONE", "LEFT", "STARTED", "ENDED", "PROBLEM"]);
    for task in tasks {
        rows.add_row([
            task.id.to_string(),
            kind(task.kind).to_owned(),
            task.object.clone(),
            if task.paused { "paused" } else { state(task.state) }.to_owned(),
            progress(task),
            optional(estimate(task)),
            format_time(task.started),
            optional(task.ended.map(format_time)),
            optional(task.problem.clone()),
        ]);
    }
    rows
}

fn progress(task: &Task) -> String {
    let percent = match task.total {
        0 => return "-".to_owned(),
        total => u128::from(task.done) * 100 / u128::from(total),
    };
    match task.unit {
        TaskUnit::Parts => format!("{percent} %"),
        TaskUnit::Bytes => {
            format!("{percent} % ({} of {})", format_size(task.done), format_size(task.total))
        }
    }
}

/// How long it will take yet, and how fast it is.
fn estimate(task: &Task) -> Option<String> {
    let left = format_duration(task.remaining_seconds?);
    let rate = task.rate_bytes.map(|rate| format!(" ({}/s)", format_size(rate)));
    Some(left + &rate.unwrap_or_default())
}

fn kind(kind: TaskKind) -> &'static str {
    match kind {
        TaskKind::Scrub => "scrub",
        TaskKind::Delete => "delete",
        TaskKind::Sanitize => "sanitize",
        TaskKind::Resilver => "resilver",
        TaskKind::CreatePool => "create-pool",
        TaskKind::ExtendPool => "extend-pool",
        TaskKind::AddDevice => "add-device",
        TaskKind::RemoveDevice => "remove-device",
        TaskKind::DeletePool => "delete-pool",
    }
}

fn state(state: TaskState) -> &'static str {
    match state {
        TaskState::Running => "running",
        TaskState::Done => "done",
        TaskState::Cancelled => "cancelled",
        TaskState::Failed => "failed",
    }
}
