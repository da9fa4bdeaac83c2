//! One iSCSI connection, target side: its public interface, and the loop that turns bytes into
//! events.

mod commands;
mod full_feature;
mod login_phase;
mod reassign;
mod recovery;
mod text_exchange;

use std::collections::{BTreeMap, VecDeque};
use std::io::IoSlice;
use std::time::Duration;

use crate::event::{
    ClosedReason, Completion, Event, LoginStatus, LoginTerms, SessionHandle, TargetRecord,
    TaskManagement, TaskManagementResponse,
};
use crate::history::History;
use crate::limits::{LOGIN_SEGMENT_MAX, Limits, TASK_BYTES};
use crate::login::Login;
use crate::memory::{Charge, Seat, Share};
use crate::orphan::Orphan;
use crate::parameters::SessionParameters;
use crate::pdu::Bhs;
use crate::receive::{Destination, Found, Header, Receiver};
use crate::send::SendQueue;
use crate::sequence::Numbers;
use crate::task::Tasks;
use recovery::{Early, EarlyData, Resend};
use text_exchange::TextExchange;

/// Options of a connection, which its owner sets beforehand.
#[derive(Clone, Debug)]
pub struct ConnectionConfig {
    /// Bounds on memory and on negotiated values.
    pub limits: Limits,
    /// Where the memory that it holds is charged.
    pub share: Share,
    /// Time from the first `tick` until login must be complete.
    pub login_timeout: Duration,
    /// Silence after which the initiator is asked for a sign of life.
    pub ping_interval: Duration,
    /// How long it has to answer before it is taken for dead.
    pub ping_timeout: Duration,
    /// How long it may leave what was sent to it unread, or take next to nothing of it.
    pub send_timeout: Duration,
}

impl Default for ConnectionConfig {
    fn default() -> Self {
        Self {
            limits: Limits::default(),
            share: Share::default(),
            login_timeout: Duration::from_secs(15),
            ping_interval: Duration::from_secs(15),
            ping_timeout: Duration::from_secs(10),
            send_timeout: Duration::from_secs(30),
        }
    }
}

/// Where the connection stands (RFC 7143 8).
enum State {
    Login(Box<Login>),
    FullFeature,
    Closed,
}

/// Question that the owner must answer before anything more is parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Question {
    None,
    /// Whether the initiator may log in.
    Login,
    /// Whether this write command is accepted.
    Command(u32),
}

/// A task management function that the owner carries out.
struct PendingManagement {
    request: TaskManagement,
    /// Commands that arrived before it are covered.
    arrival: u64,
}

/// When the initiator was last heard, and whether it was asked for a sign of life.
#[derive(Default)]
struct Liveness {
    started: Option<Duration>,
    heard: bool,
    last_heard: Duration,
    pinged: Option<Duration>,
    /// How long the initiator has to log out, and since when.
    logout: Option<(Duration, Option<Duration>)>,
    /// Bytes that the initiator ever took of what was sent.
    taken: u64,
    /// Current duty of the initiator to take data.
    duty: Option<Duty>,
}

/// Least progress of an initiator that has data to take: how much since when.
#[derive(Clone, Copy)]
struct Duty {
    since: Duration,
    /// [`Liveness::taken`] is this much within the time to send.
    taken: u64,
}

/// The target side of one iSCSI connection.
pub struct Connection {
    config: ConnectionConfig,
    state: State,
    question: Question,
    events: VecDeque<Event>,
    receiver: Receiver,
    send: SendQueue,
    parameters: SessionParameters,
    numbers: Numbers,
    tasks: Tasks,
    /// Requests that wait for those before them, by CmdSN.
    early: BTreeMap<u32, Early>,
    /// Data that they hold, or that is on its way to them, in bytes.
    early_bytes: usize,
    /// Immediate data of the early command that is being decided.
    early_immediate: Option<EarlyData>,
    history: History,
    orphans: Vec<(u32, Orphan)>,
    /// Memory held by all tasks, in bytes.
    task_bytes: usize,
    arrivals: u64,
    last_transfer_tag: u32,
    management: Vec<PendingManagement>,
    text: TextExchange,
    liveness: Liveness,
    charge: Charge,
    /// Its place in the memory budget.
    _seat: Seat,
    /// Answers to SNACKs that are being sent.
    resends: Vec<Resend>,
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connection")
            .field("parameters", self.parameters())
            .field("tasks", &self.tasks.len())
            .finish_non_exhaustive()
    }
}

impl Connection {
    /// A connection that was just accepted and awaits its first login request.
    pub fn new(config: ConnectionConfig) -> Self {
        let login = Login::new(config.limits.clone());
        let share = config.share.clone();
        Self {
            _seat: Seat::new(&share),
            charge: Charge::new(share),
            resends: Vec::new(),
            config,
            state: State::Login(Box::new(login)),
            question: Question::None,
            events: VecDeque::new(),
            receiver: Receiver::new(),
            send: SendQueue::new(),
            parameters: SessionParameters::default(),
            numbers: Numbers::default(),
            tasks: Tasks::default(),
            early: BTreeMap::new(),
            early_bytes: 0,
            early_immediate: None,
            history: History::default(),
            orphans: Vec::new(),
            task_bytes: 0,
            arrivals: 0,
            last_transfer_tag: 0,
            management: Vec::new(),
            text: TextExchange::default(),
            liveness: Liveness::default(),
        }
    }

    /// The place for the next bytes from the socket. Never empty once `next_event` has returned
    /// `None` with no question (login, write command) open.
    pub fn receive_target(&mut self) -> &mut [u8] {
        self.receiver.target()
    }

    /// `count` bytes were put at the beginning of what `receive_target` returned.
    ///
    /// # Panics
    /// If `count` exceeds the length of the target.
    pub fn received(&mut self, count: usize) {
        self.receiver.received(count);
    }

    /// The next thing that happened; `None` when more bytes, an answer or time are needed.
    pub fn next_event(&mut self) -> Option<Event> {
        loop {
            let event = self.events.pop_front();
            if event.is_some() || self.question != Question::None || !self.step() {
                self.settle();
                return event;
            }
        }
    }

    /// Lets the initiator of `Event::Login` try on these terms. Does nothing if no login is open.
    pub fn login_admit(&mut self, terms: LoginTerms) {
        if self.question != Question::Login {
            return;
        }
        if let Some(session) = &terms.session {
            self.numbers.join(session.numbers.clone());
        }
        self.decide_login(|login| login.admit(terms));
    }

    /// Sends the initiator of `Event::Login` to another address, `ip:port` or `ip:port,tag`. Does
    /// nothing if no login is open.
    pub fn login_redirect(&mut self, address: &str) {
        self.decide_login(|login| login.redirect(address));
    }

    /// Ends the login of `Event::Authenticated` well. `tsih` is not 0, except in a discovery
    /// session, where any value does. Does nothing if no login is open.
    pub fn login_accept(&mut self, tsih: u16) {
        self.decide_login(|login| login.accept(tsih));
    }

    /// Refuses the initiator of `Event::Login` or `Event::Authenticated`. Does nothing if no login
    /// is open.
    pub fn login_reject(&mut self, status: LoginStatus) {
        self.decide_login(|login| login.refuse(status));
    }

    /// Takes the Data-Out of a command: `transfer_length` is what the CDB asks for and may differ
    /// from the expected data transfer length; the difference becomes the residual. Followed by
    /// exactly one `Event::DataOut` (whose data is the lesser of the two, perhaps empty) or
    /// `Event::Aborted`. Does nothing if the task is not known or has been decided.
    pub fn accept_data(&mut self, task: u32, transfer_length: u32) {
        self.decide_data(task, transfer_length);
    }

    /// Says how much Data-In a command will hold until it is sent, in bytes. `false` if there is no
    /// room for it: the command was answered TASK SET FULL, and is known no longer.
    pub fn expect_data_in(&mut self, task: u32, bytes: u64) -> bool {
        self.admit_data_in(task, bytes)
    }

    /// Ends a command. Does nothing if the task is not (or no longer) known.
    pub fn respond(&mut self, task: u32, completion: Completion) {
        self.answer(task, completion);
        self.settle();
    }

    /// Answers `Event::TaskManagement`. With `FunctionComplete` the commands that the function
    /// covers are forgotten: no `respond` is needed for them, and one would do nothing.
    pub fn respond_task_management(
        &mut self,
        initiator_task_tag: u32,
        response: TaskManagementResponse,
    ) {
        self.answer_management(initiator_task_tag, response);
    }

    /// Ends the commands that still collect data, on one logical unit or on all, because another
    /// nexus reset it: each yields `Event::Aborted`.
    pub fn abort_collecting(&mut self, lun: Option<u64>) {
        self.abort_collecting_where(|task| lun.is_none_or(|lun| task.lun == lun));
    }

    /// Forgets a command that another nexus's task management aborted: it gets no answer.
    pub fn forget(&mut self, task: u32) {
        self.remove_task(task);
    }

    /// Answers `Event::SendTargets`. Does nothing if none is open.
    pub fn send_targets_response(&mut self, targets: &[TargetRecord]) {
        self.answer_send_targets(targets);
    }

    /// Answers `Event::LogoutConnection`: whether there was such a connection, which is closed now.
    pub fn logout_response(&mut self, initiator_task_tag: u32, was_there: bool) {
        if matches!(self.state, State::FullFeature) {
            self.send_logout_response(initiator_task_tag, u8::from(!was_there));
        }
    }

    /// Appends up to `pieces_max` pieces of what is to be sent next.
    pub fn next_send<'a>(&'a self, into: &mut impl Extend<IoSlice<'a>>, pieces_max: usize) {
        self.send.next(into, pieces_max);
    }

    /// The first `count` bytes of what `next_send` gave were sent.
    ///
    /// # Panics
    /// If `count` exceeds what there was to send.
    pub fn sent(&mut self, count: usize) {
        self.liveness.taken += count as u64;
        self.send.sent(count);
        self.settle();
    }

    /// Whether `next_send` has something to give.
    pub fn wants_to_send(&self) -> bool {
        self.send.bytes() > 0
    }

    /// Bytes waiting to be sent.
    pub fn send_queue_bytes(&self) -> usize {
        self.send.bytes()
    }

    /// Whether the connection is to be closed once everything is sent.
    pub fn is_closed(&self) -> bool {
        matches!(self.state, State::Closed)
    }

    /// Asks the initiator to log out within `patience`, at most 65,535 seconds (RFC 7143 11.9); then
    /// the connection is closed. Before full-feature phase it is closed at once.
    pub fn request_logout(&mut self, patience: Duration) {
        match self.state {
            State::Login(_) => self.close(),
            State::FullFeature => self.ask_for_logout(patience),
            State::Closed => {}
        }
    }

    /// Ends the connection from the owner's side; what waits may still be sent.
    pub fn close(&mut self) {
        self.end(ClosedReason::ByTarget);
    }

    /// Tells the time since an arbitrary start: login deadline, pings, dead peers.
    pub fn tick(&mut self, now: Duration) {
        let started = *self.liveness.started.get_or_insert(now);
        match self.state {
            State::Login(_) if now.saturating_sub(started) >= self.config.login_timeout => {
                self.end(ClosedReason::LoginTimeout);
            }
            State::FullFeature => {
                self.watch_sending(now);
                self.watch_peer(now);
            }
            State::Closed => self.watch_sending(now),
            State::Login(_) => {}
        }
        self.settle();
    }

    /// Charges what it holds from now on to another share: that of the host that it turned out to
    /// be.
    pub fn set_share(&mut self, share: Share) {
        self.charge.pass_to(share);
    }

    /// Whether it should be read from no further for now: its host holds all that it may, and answers
    /// wait to be sent here.
    pub fn should_rest(&self) -> bool {
        self.send.bytes() > 0 && self.charge.share().is_full()
    }

    /// Tells the share what it holds now.
    fn settle(&mut self) {
        self.remember_sent();
        let tasks = self.task_bytes + self.tasks.len() * TASK_BYTES;
        let held = tasks + self.early_bytes + self.send.memory() + self.history.bytes();
        self.charge.set(held);
    }

    /// Parameters negotiated so far.
    pub fn parameters(&self) -> &SessionParameters {
        match &self.state {
            State::Login(login) => login.parameters(),
            State::FullFeature | State::Closed => &self.parameters,
        }
    }

    /// Handle by which another connection joins the session.
    pub fn session(&self) -> SessionHandle {
        SessionHandle { numbers: self.numbers.session(), parameters: self.parameters().clone() }
    }

    /// Whether a command was not answered yet.
    pub fn has_task(&self, task: u32) -> bool {
        self.tasks.contains_key(&task)
    }

    /// Memory that is held for sending again, in bytes.
    pub fn history_bytes(&self) -> usize {
        self.history.bytes()
    }

    /// Memory that its commands hold and that waits to be sent, in bytes.
    pub fn memory(&self) -> usize {
        self.task_bytes + self.early_bytes + self.send.bytes()
    }

    /// Commands that were not answered yet.
    pub fn tasks(&self) -> usize {
        self.tasks.len()
    }

    /// Takes one step of parsing; false if there is none to take.
    fn step(&mut self) -> bool {
        if self.is_closed() {
            return false;
        }
        if self.take_early() {
            return true;
        }
        match self.receiver.next() {
            Found::Nothing => return false,
            found => self.take_found(found),
        }
        self.liveness.heard = true;
        true
    }

    fn take_found(&mut self, found: Found) {
        match found {
            Found::Nothing => {}
            Found::Header(header) => self.take_header(header),
            Found::Segment(finished) if self.is_login() => self.take_login_segment(finished),
            Found::Segment(finished) => self.take_segment(finished),
            Found::BadHeaderDigest => self.end(ClosedReason::HeaderDigest),
        }
    }

    fn take_header(&mut self, header: Header) {
        let length_max = match self.state {
            State::Login(_) => LOGIN_SEGMENT_MAX,
            _ => self.config.limits.max_recv_data_segment_length as usize,
        };
        if header.bhs.data_segment_length() > length_max {
            self.end(ClosedReason::Protocol("data segment longer than declared"));
        } else if self.is_login() {
            self.take_login_header(&header.bhs);
        } else {
            self.take_request(header);
        }
    }

    fn is_login(&self) -> bool {
        matches!(self.state, State::Login(_))
    }

    /// Lets the data segment of a PDU that needs nothing more pass by.
    fn skip_segment(&mut self, bhs: &Bhs) {
        if bhs.data_segment_length() > 0 {
            self.receiver.begin_segment(*bhs, Destination::Skip);
        }
    }

    fn end(&mut self, reason: ClosedReason) {
        if !self.is_closed() {
            self.shut();
            self.events.push_back(Event::Closed(reason));
        }
    }

    /// Nothing is parsed or answered any more.
    fn shut(&mut self) {
        match &self.state {
            State::Login(login) => self.parameters = login.parameters().clone(),
            State::FullFeature => self.leave_orphans(),
            State::Closed => {}
        }
        self.state = State::Closed;
        self.question = Question::None;
        self.tasks.clear();
        self.early.clear();
        self.early_bytes = 0;
        self.early_immediate = None;
        self.history = History::default();
        self.numbers.leave();
        self.task_bytes = 0;
        self.management.clear();
    }
}

#[cfg(test)]
mod tests;
