//! The target: logical units, nexuses, and the tasks under way.

mod announce;
mod execute;
mod inventory;
mod management;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use block::{BlockError, Request, Response, VolumeId};
use bytes::Bytes;
use slab::Slab;
use smallvec::SmallVec;

use crate::cdb::Cdb;
use crate::command::Row;
use crate::completion::Completion;
use crate::identity::Identity;
use crate::nexus::Nexus;
use crate::procedure::Procedure;
use crate::task_set::{Class, Slot};
use crate::unit::LogicalUnit;

/// The owner's name for a command or a task management function; unique among those under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskId(pub u64);

/// The owner's name for an I_T nexus; never used again for another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NexusId(pub u64);

/// The name of a request to a volume; the highest bit is never set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

/// SAM-5 8.9.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskAttribute {
    /// SIMPLE, also for untagged tasks.
    Simple,
    /// ORDERED.
    Ordered,
    /// HEAD OF QUEUE.
    HeadOfQueue,
    /// ACA: refused, since no such condition ever exists here.
    Aca,
}

/// A command from an initiator.
#[derive(Clone, Debug)]
pub struct Command<'a> {
    /// Where it came from.
    pub nexus: NexusId,
    /// The 8-byte LUN field, big-endian.
    pub lun: u64,
    /// Task attribute.
    pub attribute: TaskAttribute,
    /// Command descriptor block; missing bytes count as zeros.
    pub cdb: &'a [u8],
    /// The initiator's data: the lesser of [`Target::data_out_length`] and what it was ready to
    /// send.
    pub data_out: Bytes,
}

/// SAM-5 7.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskManagement {
    /// Ends one task of this nexus. A task that is not known has ended: that is success.
    AbortTask(TaskId),
    /// Ends all tasks of this nexus on the logical unit.
    AbortTaskSet,
    /// Not supported: no auto contingent allegiance condition ever exists here.
    ClearAca,
    /// Ends all tasks of all nexuses on the logical unit.
    ClearTaskSet,
    /// Ends all tasks and the reservation of the logical unit, and tells every nexus.
    LogicalUnitReset,
    /// LOGICAL UNIT RESET on every logical unit.
    TargetWarmReset,
    /// The same here; the owner ends the sessions.
    TargetColdReset,
    /// Whether a task is under way.
    QueryTask(TaskId),
}

/// SAM-5 7.1: the service response of a task management function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskManagementResponse {
    /// Done; nothing of an ended task changes the medium any more.
    FunctionComplete,
    /// The task that QUERY TASK asked about is under way.
    FunctionSucceeded,
    /// There is no such logical unit.
    IncorrectLogicalUnitNumber,
    /// The function is not supported.
    FunctionRejected,
}

/// The SCSI target device. See the crate's head for how it is driven.
pub struct Target {
    identity: Identity,
    units: BTreeMap<VolumeId, LogicalUnit>,
    nexuses: BTreeMap<NexusId, Nexus>,
    /// Target port group of each relative target port that was ever used.
    ports: BTreeMap<u16, u16>,
    tasks: Slab<Task>,
    /// EXTENDED COPY commands under way.
    copies: u16,
    requests: VecDeque<(RequestId, VolumeId, Request)>,
    done: VecDeque<(TaskId, Completion)>,
    aborted: VecDeque<TaskId>,
    functions: Slab<management::Function>,
    functions_done: VecDeque<(TaskId, TaskManagementResponse)>,
    last_epoch: u64,
    now: Duration,
}

/// What a command asks for, where.
#[derive(Clone, Copy)]
struct Order {
    nexus: NexusId,
    lun: u16,
    /// The volume that was at that number when the command came.
    volume: Option<VolumeId>,
    row: &'static Row,
    cdb: Cdb,
    data_out_offered: u64,
}

/// A command that is in a task set.
struct Task {
    id: TaskId,
    volume: VolumeId,
    /// [`LogicalUnit::epoch`] of the unit in whose task set this is.
    epoch: u64,
    class: Class,
    order: Order,
    data_out: Bytes,
    state: TaskState,
    /// Set for an EXTENDED COPY that has started: the volumes that it changes.
    destinations: Option<Vec<VolumeId>>,
    /// Functions that are answered only after this task has ended.
    awaited_by: SmallVec<[Slot; 1]>,
}

enum TaskState {
    /// Waits in the task set.
    Dormant,
    /// Waits for the answer to its only request.
    Request,
    /// Waits for the answer to one of several requests.
    Procedure(Box<dyn Procedure>),
    /// Was aborted while the engine has a request of it, whose answer is awaited.
    Aborted(Delivery),
}

/// What the initiator hears of an aborted task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Delivery {
    /// Nothing, but the owner is told.
    Silent,
    /// SAM-5 5.3.1: TASK ABORTED, since another nexus did it and TAS is set.
    TaskAborted,
    /// Nothing, and the owner is not told: the nexus is gone.
    Nobody,
}

impl Target {
    /// A target without logical units.
    pub fn new(identity: Identity) -> Self {
        Self {
            identity,
            units: BTreeMap::new(),
            nexuses: BTreeMap::new(),
            ports: BTreeMap::new(),
            tasks: Slab::new(),
            copies: 0,
            requests: VecDeque::new(),
            done: VecDeque::new(),
            aborted: VecDeque::new(),
            functions: Slab::new(),
            functions_done: VecDeque::new(),
            last_epoch: 0,
            now: Duration::ZERO,
        }
    }

    /// The next request for a volume, to be answered by [`Self::completed`].
    pub fn next_request(&mut self) -> Option<(RequestId, VolumeId, Request)> {
        self.requests.pop_front()
    }

    /// Takes the answer to a request.
    ///
    /// # Panics
    /// If the request is not under way.
    pub fn completed(&mut self, id: RequestId, result: Result<Response, BlockError>) {
        self.answered(id.0 as Slot, result);
    }

    /// The next command that ended, with its completion.
    pub fn next_done(&mut self) -> Option<(TaskId, Completion)> {
        self.done.pop_front()
    }

    /// The next command that ended without a completion: a task management function of its own
    /// nexus ended it, and the initiator expects no answer.
    pub fn next_aborted(&mut self) -> Option<TaskId> {
        self.aborted.pop_front()
    }

    /// The next task management function that took effect, with its response.
    pub fn next_management_done(&mut self) -> Option<(TaskId, TaskManagementResponse)> {
        self.functions_done.pop_front()
    }

    /// Tells the time, monotonic, since an arbitrary start.
    pub fn tick(&mut self, now: Duration) {
        self.now = self.now.max(now);
        for nexus in self.nexuses.values_mut() {
            nexus.forget_copy_results(self.now);
        }
    }

    /// Commands in task sets: running, waiting, or aborted with a request still in the engine.
    pub fn tasks_under_way(&self) -> usize {
        self.tasks.len()
    }
}
