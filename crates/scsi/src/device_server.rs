//! Device server (SAM-5): logical units, nexuses, and the tasks under way.

mod announce;
mod applied;
mod change;
mod decode;
mod execute;
mod inventory;
mod management;
mod notice;
mod record;
mod switching;

pub use applied::LostAnswer;
pub(crate) use applied::{Written, hash_of};
pub use decode::Decoded;
pub use notice::{Counters, Notice};
pub use record::{CommandRecord, Issuer};

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use block::{BlockError, ByteRange, Request, Response, SwitchesOff, VolumeId};
use bytes::Bytes;
use sam::TaskAttribute;
use slab::Slab;
use smallvec::SmallVec;

use crate::access_state::PortGroups;
use crate::clock::Clock;
use crate::command::Row;
use crate::completion::Completion;
use crate::copy_operations::{CopyKey, CopyOperations};
use crate::durable::{DurableState, SaveId};
use crate::identity::Identity;
use crate::limits::TASKS_MAX;
use crate::mistaken::Mistaken;
use crate::nexus::Nexus;
use crate::procedure::{Answer, Procedure, RequestIndex};
use crate::rod_tokens::{RodTokenNumber, RodTokenSpace, RodTokenUse, RodTokens};
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

/// Set in the names of requests that belong to a token.
const TOKEN_REQUEST: u64 = 1 << 62;

impl RequestId {
    /// The slot of the task in the low 32 bits, the index of its request above.
    fn new(slot: Slot, index: RequestIndex) -> Self {
        debug_assert!(slot <= TASKS_MAX);
        Self(u64::from(index) << 32 | slot as u64)
    }

    /// A request that unmaps data of a token: it belongs to no task.
    fn of_token(token: RodTokenNumber) -> Self {
        Self(TOKEN_REQUEST | token)
    }

    fn token(self) -> Option<RodTokenNumber> {
        (self.0 & TOKEN_REQUEST != 0).then_some(self.0 & !TOKEN_REQUEST)
    }

    fn slot(self) -> Slot {
        self.0 as u32 as Slot
    }

    fn index(self) -> RequestIndex {
        (self.0 >> 32) as RequestIndex
    }
}

/// A command from an initiator.
#[derive(Clone, Debug)]
pub struct Command {
    /// What it is and where it goes, by [`DeviceServer::decode`].
    pub decoded: Decoded,
    /// Task attribute.
    pub attribute: TaskAttribute,
    /// What its initiator expects to be transferred.
    pub expected: Expected,
    /// The initiator's data: the lesser of [`Decoded::data_out_length`] and what it was ready to
    /// send.
    pub data_out: Bytes,
    /// When it came with all of its data; it may have waited for its turn since.
    pub since: Duration,
}

/// What the initiator said that a command would transfer (iSCSI's expected data transfer length).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expected {
    /// Bytes that it was ready to send, of which only those that the command takes were fetched.
    /// COMPARE AND WRITE and WRITE SAME refuse another length than theirs.
    pub data_out: u64,
    /// Bytes that it is ready to take. READ reads no more than these, in whole blocks.
    pub data_in: u64,
}

/// A task management function, with the name of the task that is meant.
pub type TaskManagement = sam::TaskManagementFunction<TaskId>;

/// SAM-5 7.1: the service response of a task management function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskManagementResponse {
    /// Done; nothing of an ended task changes the medium any more.
    FunctionComplete,
    /// What a query asked about is there.
    FunctionSucceeded,
    /// There is no such logical unit.
    IncorrectLogicalUnitNumber,
    /// The function is not supported.
    FunctionRejected,
}

/// What becomes of a command that still collects data when its logical unit is reset.
#[derive(Clone, Debug)]
pub enum Collecting {
    /// Nothing.
    GoesOn,
    /// It ends with this completion.
    Ends(Completion),
    /// It is never answered: a unit attention condition tells its nexus.
    IsForgotten,
}

/// The SCSI target device. See the crate's head for how it is driven.
pub struct DeviceServer {
    identity: Identity,
    /// Primitives that are off for everybody.
    switches_off: SwitchesOff,
    units: BTreeMap<VolumeId, LogicalUnit>,
    nexuses: BTreeMap<NexusId, Nexus>,
    mistaken: Mistaken,
    port_groups: PortGroups,
    /// The device clock of units that have none of their own.
    clock: Clock,
    tasks: Slab<Task>,
    /// Third-party copies under way, and the outcomes of those that have ended.
    copies: CopyOperations,
    tokens: RodTokens,
    requests: VecDeque<(RequestId, VolumeId, Request)>,
    done: VecDeque<(TaskId, Completion, Option<CommandRecord>)>,
    aborted: VecDeque<TaskId>,
    /// Whether requests that were fetched belong to commands that were aborted since.
    some_unwanted: bool,
    functions: Slab<management::Function>,
    functions_done: VecDeque<(TaskId, TaskManagementResponse)>,
    saves: VecDeque<(SaveId, VolumeId, DurableState)>,
    /// The tasks whose changes are being stored.
    saving: BTreeMap<SaveId, Slot>,
    last_save: u64,
    /// Tasks that work at a pace.
    paced: Vec<Slot>,
    notices: VecDeque<Notice>,
    applied: applied::Applied,
    counters: Counters,
    last_epoch: u64,
    now: Duration,
}

/// A command that is one of ours, without its data.
#[derive(Clone, Copy)]
struct Order {
    decoded: Decoded,
    row: &'static Row,
    expected: Expected,
    /// When it came.
    since: Duration,
}

/// A command that is in a task set.
struct Task {
    id: TaskId,
    volume: VolumeId,
    /// [`LogicalUnit::epoch`] of the unit in whose task set this is.
    epoch: u64,
    class: Class,
    /// When it came.
    since: Duration,
    order: Order,
    data_out: Bytes,
    state: TaskState,
    /// [`Completion::withheld`], if it ends with GOOD.
    withheld: u64,
    /// Requests that the engine has, or that wait to be fetched for it.
    in_flight: usize,
    /// Whether the command has ended while its work goes on: it is in no task set any more.
    detached: bool,
    /// Set for a third-party copy that has started.
    copy: Option<Copying>,
    /// Functions that are answered only after this task has ended.
    awaited_by: SmallVec<[Slot; 1]>,
}

/// A third-party copy under way.
struct Copying {
    /// The volumes that it changes.
    destinations: Vec<VolumeId>,
    /// Its name, if it has one.
    key: Option<CopyKey>,
    /// What it does with a token.
    token: Option<RodTokenUse>,
}

enum TaskState {
    /// Waits in the task set.
    Dormant,
    /// Waits for the answer to its only request.
    Request,
    /// Waits for answers to requests of its own.
    Procedure(Box<dyn Procedure>),
    /// Waits until a change of the unit's state is stored.
    Saving(change::Saving),
    /// Waits for the tasks that it aborted; the function answers it.
    Awaiting(Slot),
    /// Was aborted while the engine has requests of it, whose answers are awaited.
    Aborted(Delivery, Option<Box<dyn Procedure>>),
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

impl DeviceServer {
    /// A target without logical units.
    pub fn new(identity: Identity) -> Self {
        Self {
            identity,
            switches_off: SwitchesOff::NONE,
            units: BTreeMap::new(),
            nexuses: BTreeMap::new(),
            port_groups: PortGroups::default(),
            clock: Clock::default(),
            tasks: Slab::new(),
            copies: CopyOperations::default(),
            tokens: RodTokens::default(),
            requests: VecDeque::new(),
            done: VecDeque::new(),
            aborted: VecDeque::new(),
            some_unwanted: false,
            functions: Slab::new(),
            functions_done: VecDeque::new(),
            saves: VecDeque::new(),
            saving: BTreeMap::new(),
            last_save: 0,
            paced: Vec::new(),
            notices: VecDeque::new(),
            applied: applied::Applied::default(),
            counters: Counters::default(),
            last_epoch: 0,
            now: Duration::ZERO,
            mistaken: Mistaken::default(),
        }
    }

    /// The next request for a volume, to be answered by [`Self::completed`].
    pub fn next_request(&mut self) -> Option<(RequestId, VolumeId, Request)> {
        self.requests.pop_front()
    }

    /// Whether somebody waits for the answer to a request that is under way: its command was not
    /// aborted, and its nexus is there.
    pub fn is_wanted(&self, id: RequestId) -> bool {
        let task = id.token().map_or_else(|| self.tasks.get(id.slot()), |_| None);
        !task.is_some_and(|task| matches!(task.state, TaskState::Aborted(..)))
    }

    /// Whether commands with requests under way were aborted since this was last asked: whoever has
    /// not carried such requests out yet asks [`Self::is_wanted`] of each, and calls
    /// [`Self::withdrawn`].
    pub fn take_unwanted(&mut self) -> bool {
        std::mem::take(&mut self.some_unwanted)
    }

    /// A request that nobody wants was not carried out, and will not be.
    ///
    /// # Panics
    /// If the request is not under way, or is wanted.
    pub fn withdrawn(&mut self, id: RequestId) {
        assert!(!self.is_wanted(id), "a request that somebody waits for was dropped");
        let slot = id.slot();
        let task = &mut self.tasks[slot];
        task.in_flight -= 1;
        let volume = task.volume;
        if let TaskState::Aborted(delivery, _) = task.state
            && task.in_flight == 0
        {
            self.end_aborted(slot, delivery);
        }
        self.start_waiting(volume);
    }

    /// Takes the answer to a request.
    ///
    /// # Panics
    /// If the request is not under way.
    pub fn completed(&mut self, id: RequestId, result: Result<Response, BlockError>) {
        if let Some(token) = id.token() {
            return self.token_part_unmapped(token, result.is_ok());
        }
        let (slot, index) = (id.slot(), id.index());
        self.answered(slot, Answer { index, result });
    }

    /// The next command that ended, with its completion.
    pub fn next_done(&mut self) -> Option<(TaskId, Completion)> {
        self.next_recorded().map(|(id, completion, _)| (id, completion))
    }

    /// As [`Self::next_done`], with what the command was; `None` for one that a task management
    /// function ended.
    pub fn next_recorded(&mut self) -> Option<(TaskId, Completion, Option<CommandRecord>)> {
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
        self.copies.forget_old(self.now);
        self.tick_paced();
        for part in self.tokens.tick(self.now) {
            self.unmap_token_part(part);
        }
    }

    /// Tells the time of day, for REPORT TIMESTAMP; SET TIMESTAMP goes before it.
    pub fn set_time_of_day(&mut self, since_1970: Duration) {
        self.clock = Clock::outside(since_1970, self.now);
    }

    /// Gives the key that tokens are made and known by: 32 random bytes, others in each life of the
    /// target, kept from everyone else.
    pub fn set_token_key(&mut self, key: [u8; 32]) {
        self.tokens.set_key(key);
    }

    /// Says where the data of tokens of a volume rests. Without it no token is made of that volume.
    pub fn set_rod_token_space(&mut self, volume: VolumeId, space: RodTokenSpace) {
        self.tokens.set_space(volume, space);
    }

    fn unmap_token_part(&mut self, (token, volume, range): (RodTokenNumber, VolumeId, ByteRange)) {
        let request = Request::Unmap { ranges: vec![range] };
        self.requests.push_back((RequestId::of_token(token), volume, request));
    }

    fn token_part_unmapped(&mut self, token: RodTokenNumber, succeeded: bool) {
        if !succeeded {
            return self.tokens.abandon(token);
        }
        if let Some(part) = self.tokens.next_part(token) {
            self.unmap_token_part(part);
        }
    }

    /// Commands in task sets: running, waiting, or aborted with a request still in the engine.
    pub fn tasks_under_way(&self) -> usize {
        self.tasks.len()
    }
}
