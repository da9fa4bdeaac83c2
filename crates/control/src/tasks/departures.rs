//! Devices that leave pools as tasks: from when one begins to leave until the pool has forgotten it, or it
//! stays.

use std::time::Duration;

use api::{Problem, TaskKind, TaskState, TaskUnit};
use notation::format_size;
use store::EvacuationStatus;

use super::{Amount, Known, Tasks};
use crate::problems::conflict;

/// A device that leaves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Departing {
    /// The name of its pool.
    pub pool: String,
    /// Its UUID.
    pub device: [u8; 16],
}

/// What has become of a device that was leaving.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whereabouts {
    /// It leaves.
    Leaving,
    /// The pool has it, and it does not leave.
    Stays,
    /// The pool does not have it.
    Gone,
}

impl Tasks {
    /// Looks at the device of a pool that leaves.
    pub fn look_at_departure(&mut self, now: u64, departing: Departing, status: &EvacuationStatus) {
        let index = match self.departing(&departing.pool, departing.device) {
            Some(index) => index,
            None => {
                let object = format!("device {}/{}", departing.pool, status.device);
                self.begin(now, TaskKind::RemoveDevice, object).departing = Some(departing);
                self.known.len() - 1
            }
        };
        self.known[index].leaves(now, status);
    }

    /// Ends the tasks of devices of a pool that have left, or stay.
    pub fn end_departures(
        &mut self,
        now: u64,
        pool: &str,
        whereabouts: impl Fn([u8; 16]) -> Whereabouts,
    ) {
        for known in &mut self.known {
            let of_pool = known.departing.as_ref().filter(|departing| departing.pool == pool);
            let device = of_pool.filter(|_| known.task.state == TaskState::Running);
            match device.map(|departing| whereabouts(departing.device)) {
                Some(Whereabouts::Leaving) | None => {}
                Some(Whereabouts::Stays) => known.end(now, TaskState::Cancelled, None),
                Some(Whereabouts::Gone) => {
                    known.task.done = known.task.total;
                    known.end(now, TaskState::Done, None);
                }
            }
        }
    }

    /// The pool whose device leaves by the task of that number, if it runs; `None` if it is another kind
    /// of task.
    ///
    /// # Errors
    /// When there is no such task, or it has ended.
    pub fn departure(&self, id: &str) -> Result<Option<String>, Problem> {
        let known = self.find_known(id)?;
        match &known.departing {
            Some(_) if known.task.state != TaskState::Running => {
                Err(conflict(&"the task has ended"))
            }
            departing => Ok(departing.as_ref().map(|departing| departing.pool.clone())),
        }
    }

    fn departing(&self, pool: &str, device: [u8; 16]) -> Option<usize> {
        self.known.iter().position(|known| {
            let departing = known.departing.as_ref();
            known.task.state == TaskState::Running
                && departing.is_some_and(|one| one.pool == pool && one.device == device)
        })
    }
}

impl Known {
    /// How far the leaving of its device is. What hosts overwrite or delete there need not be moved.
    fn leaves(&mut self, now: u64, status: &EvacuationStatus) {
        let total = self.task.total.max(self.task.done + status.left_bytes);
        let done = total - status.left_bytes;
        self.reaches(Amount { done, total, unit: TaskUnit::Bytes });
        self.estimate(now);
        let task = &mut self.task;
        task.paused = status.paused;
        let moves = status.remaining.filter(|_| !status.paused);
        task.remaining_seconds = moves.map(|remaining: Duration| remaining.as_secs());
        task.rate_bytes = task.rate_bytes.filter(|_| !status.paused);
        let unreadable = status.unreadable_blocks;
        task.problem = match () {
            () if status.waits_for_space => Some(format!(
                "the other devices have no room for the {} that are left on it",
                format_size(status.left_bytes)
            )),
            () if unreadable > 0 => Some(format!(
                "{unreadable} block(s) of it cannot be read: it leaves when what refers to them is \
                 overwritten or deleted"
            )),
            () => None,
        };
    }
}
