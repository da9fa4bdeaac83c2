//! One connection of the target side.

use std::io::IoSlice;
use std::time::Duration;

use crate::event::{
    Completion, Event, LoginStatus, TargetRecord, TaskManagementResponse,
};
use crate::limits::Limits;
use crate::parameters::SessionParameters;

/// What the owner decides about a connection beforehand.
#[derive(Clone, Debug)]
pub struct ConnectionConfig {
    /// Bounds on memory and on negotiated values.
    pub limits: Limits,
    /// Time from the first `tick` until login must be complete.
    pub login_timeout: Duration,
    /// Silence after which the initiator is asked for a sign of life.
    pub ping_interval: Duration,
    /// How long it has to answer before it is taken for dead.
    pub ping_timeout: Duration,
}

impl Default for ConnectionConfig {
    fn default() -> Self {
        Self {
            limits: Limits::default(),
            login_timeout: Duration::from_secs(15),
            ping_interval: Duration::from_secs(15),
            ping_timeout: Duration::from_secs(10),
        }
    }
}

/// The target side of one iSCSI connection.
#[derive(Debug)]
pub struct Connection {}

#[allow(unused_variables)]
impl Connection {
    /// A connection that was just accepted and awaits its first login request.
    pub fn new(config: ConnectionConfig) -> Self {
        Self {}
    }
    /// The place for the next bytes from the socket. Never empty once `next_event` has returned
    /// `None` with no question (login, write command) open.
    pub fn receive_target(&mut self) -> &mut [u8] {
        unimplemented!()
    }
    /// `count` bytes were put at the beginning of what `receive_target` returned.
    pub fn received(&mut self, count: usize) {
        unimplemented!()
    }
    /// The next thing that happened; `None` when more bytes, an answer or time are needed.
    pub fn next_event(&mut self) -> Option<Event> {
        unimplemented!()
    }
    /// Lets the initiator of `Event::Login` in. `tsih` is not 0, except in a discovery session,
    /// where any value does.
    pub fn login_accept(&mut self, tsih: u16, target_portal_group_tag: u16) {
        unimplemented!()
    }
    /// Refuses the initiator of `Event::Login`.
    pub fn login_reject(&mut self, status: LoginStatus) {
        unimplemented!()
    }
    /// Takes the Data-Out of a command: `transfer_length` is what the CDB asks for and may differ
    /// from the expected data transfer length; the difference becomes the residual. Followed by
    /// exactly one `Event::DataOut` (whose data is the lesser of the two, perhaps empty) or
    /// `Event::Aborted`.
    pub fn accept_data(&mut self, task: u32, transfer_length: u32) {
        unimplemented!()
    }
    /// Ends a command. Does nothing if the task is not (or no longer) known.
    pub fn respond(&mut self, task: u32, completion: Completion) {
        unimplemented!()
    }
    /// Answers `Event::TaskManagement`. With `FunctionComplete` the commands that the function
    /// covers are forgotten: no `respond` is needed for them, and one would do nothing.
    pub fn respond_task_management(
        &mut self,
        initiator_task_tag: u32,
        response: TaskManagementResponse,
    ) {
        unimplemented!()
    }
    /// Ends the commands that still collect data, on one logical unit or on all, because another
    /// nexus reset it: each yields `Event::Aborted`.
    pub fn abort_collecting(&mut self, lun: Option<u64>) {
        unimplemented!()
    }
    /// Forgets a command that another nexus's task management aborted: it gets no answer.
    pub fn forget(&mut self, task: u32) {
        unimplemented!()
    }
    /// Answers `Event::SendTargets`.
    pub fn send_targets_response(&mut self, targets: &[TargetRecord]) {
        unimplemented!()
    }
    /// Appends up to `pieces_max` pieces of what is to be sent next.
    pub fn next_send<'a>(&'a self, into: &mut impl Extend<IoSlice<'a>>, pieces_max: usize) {
        unimplemented!()
    }
    /// The first `count` bytes of what `next_send` gave were sent.
    pub fn sent(&mut self, count: usize) {
        unimplemented!()
    }
    /// Whether `next_send` has something to give.
    pub fn wants_to_send(&self) -> bool {
        unimplemented!()
    }
    /// Bytes waiting to be sent.
    pub fn send_queue_bytes(&self) -> usize {
        unimplemented!()
    }
    /// Whether the connection is to be closed once everything is sent.
    pub fn is_closed(&self) -> bool {
        unimplemented!()
    }
    /// Tells the time since an arbitrary start: login deadline, pings, dead peers.
    pub fn tick(&mut self, now: Duration) {
        unimplemented!()
    }
    /// What login settled so far.
    pub fn parameters(&self) -> &SessionParameters {
        unimplemented!()
    }
    /// Commands that were not answered yet.
    pub fn tasks(&self) -> usize {
        unimplemented!()
    }
}
