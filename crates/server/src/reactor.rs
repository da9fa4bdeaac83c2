//! Event loop (reactor): handles every event from sockets, devices, the clock and other threads.

mod admission;
mod authentication;
mod commands;
mod listeners;
mod logins;
mod ready;
mod recovery;
mod stopping;
mod waiting;

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::Result;
use hashbrown::HashMap;
use iscsi::Account;
use mio::event::Event;
use mio::net::TcpStream;
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token, Waker};
use scsi::{DeviceServer, NexusId};
use slab::Slab;

use crate::accounts::Accounts;
use crate::admission::Admission;
use crate::alerts::Alerts;
use crate::connection::{Connection, Ending, Pause, bound_sending};
use crate::core::Core;
use crate::data_directory::{DataDirectory, random_bytes};
use crate::events;
use crate::heartbeat::Heartbeat;
use crate::http::{self, Audit, Call, Inbox, Mailbox, Message};
use crate::limits::{
    CALLS_PER_TURN, CALLS_TIME_PER_TURN, FILL_INTERVAL, LANE_COMMANDS_MAX, STARTS_PER_TURN, TICK,
    TURN_TIME,
};
use crate::management::{Management, Scene, scsi_identification};
use crate::open_files::OpenFiles;
use crate::options::{Options, SessionOptions};
use crate::pools::PoolId;
use crate::refusals::Chatter;
use crate::scheduler::{Bounds, HostNumber, Scheduler};
use crate::sessions::Sessions;
use crate::unit_states::UnitStates;
use listeners::Listener;
use ready::Ready;
use stopping::Stopping;
use waiting::Waiting;

const WAKER: Token = Token(0);
const FIRST_LISTENER: usize = 1;
const FIRST_DEVICE: usize = 1 << 16;
const FIRST_CONNECTION: usize = 1 << 32;

/// Commands that the device server has at once in a lane; the bytes that they move are bounded where
/// they become requests.
const COMMAND_BOUNDS: Bounds = Bounds { commands: LANE_COMMANDS_MAX, bytes: i64::MAX };

/// The one thread that owns connections, device server and pools.
pub(crate) struct Reactor {
    poll: Poll,
    waiting: Waiting,
    inbox: Inbox,
    listeners: Slab<Listener>,
    connections: Slab<Connection>,
    /// The slot of each connection's serial number.
    slots: HashMap<u32, usize>,
    last_serial: u32,
    /// Connections with something to say or to send.
    ready: Ready,
    /// Connections with something to read.
    readable: Ready,
    sessions: Sessions,
    /// Memory account of connections whose initiator has not logged in.
    newcomers: Account,
    scheduler: Scheduler<commands::ReadyCommand>,
    /// Commands that may still be started in this turn.
    starts_left: usize,
    options: SessionOptions,
    admission: Admission,
    /// Log lines about sessions.
    chatter: Chatter,
    core: Core,
    management: Management,
    /// Sessions whose LUN maps may have changed since they were told.
    untold: BTreeSet<NexusId>,
    /// Whether administrators ask for something that was not looked at yet.
    calls_wait: bool,
    /// Pools, the devices of them that the poll knows, and which opening of them it was.
    registered_devices: Vec<(PoolId, usize, u64)>,
    started: Instant,
    next_tick: Duration,
    next_fill_check: Duration,
    /// The time, sampled at the start of a turn and before completions are processed.
    now: Duration,
    heartbeat: Arc<Heartbeat>,
    /// How far a clean stop has come.
    stopping: Stopping,
}

impl Reactor {
    /// Opens the portals and the management interface, and begins to open the pools.
    pub(crate) fn start(
        options: &Options,
        directory: DataDirectory,
        open_files: OpenFiles,
    ) -> Result<Self> {
        let directory = Arc::new(directory);
        let configuration = directory.load()?;
        let secrets = directory.load_secrets()?;
        let poll = Poll::new()?;
        let (mailbox, inbox) = Mailbox::new(Waker::new(poll.registry(), WAKER)?);
        let heartbeat = Arc::new(Heartbeat::new());
        let audit = Arc::new(Audit::open(directory.path())?);
        let shared = (mailbox.clone(), Arc::clone(&heartbeat), Arc::clone(&audit));
        let doors = http::start(&options.http, open_files.http, &directory, shared)?;
        let unit_states = UnitStates::open(directory.path(), mailbox.clone())?;
        stop_on_signals(mailbox.clone())?;
        let mut target = DeviceServer::new(scsi::Identity {
            identification: scsi_identification(configuration.identification),
            long_cdbs: options.long_cdbs,
            ..scsi::Identity::gantry(&configuration.target_name)
        });
        target.set_token_key(random_bytes()?);
        let alerts = Alerts::start(&configuration.target_name)?;
        let events = events::Events::open(directory.path(), alerts)?;
        let management =
            Management::new(configuration, secrets, directory, (events, audit), options, mailbox)?;
        let budget = options.sessions.memory_budget();
        let mut reactor = Self {
            poll,
            waiting: Waiting::new(),
            inbox,
            listeners: Slab::new(),
            connections: Slab::new(),
            slots: HashMap::new(),
            last_serial: 0,
            ready: Ready::default(),
            readable: Ready::default(),
            sessions: Sessions::new(budget.clone()),
            newcomers: budget.account(),
            scheduler: Scheduler::new(COMMAND_BOUNDS),
            starts_left: STARTS_PER_TURN,
            options: options.sessions.clone(),
            admission: Admission::new(options.sessions.quotas(open_files.iscsi)),
            chatter: Chatter::default(),
            core: Core::new(target, unit_states, Accounts::new(!options.no_statistics), doors),
            management,
            untold: BTreeSet::new(),
            calls_wait: false,
            registered_devices: Vec::new(),
            started: Instant::now(),
            next_tick: Duration::ZERO,
            next_fill_check: Duration::ZERO,
            now: Duration::ZERO,
            heartbeat,
            stopping: Stopping::No,
        };
        reactor.listen_at_start(&options.iscsi)?;
        reactor.management.open_pools(&mut reactor.core);
        reactor.wait_for_pools()?;
        tracing::info!(
            target = reactor.management.configuration.target_name,
            portals = ?reactor.management.portals().keys().collect::<Vec<_>>(),
            "ready"
        );
        reactor.heartbeat.serves();
        Ok(reactor)
    }

    /// Serves until told to stop.
    pub(crate) fn run(mut self) -> Result<()> {
        let mut events = Events::with_capacity(1024);
        // Messages and connections that came while the pools were opened were announced once,
        // before the loop looked.
        self.take_messages();
        let listeners: Vec<usize> = self.listeners.iter().map(|(key, _)| key).collect();
        listeners.into_iter().for_each(|listener| self.accept(listener));
        while !self.has_stopped() {
            self.turn(&mut events)?;
        }
        tracing::info!("stopped");
        Ok(())
    }

    /// One turn of the loop: take what happened, let it act, send what came of it.
    fn turn(&mut self, events: &mut Events) -> Result<()> {
        match self.has_more() {
            true => waiting::look(&mut self.poll, events, Duration::ZERO)?,
            false => {
                let expects_a_command = self.scheduler.expects_a_command();
                self.waiting.wait(&mut self.poll, events, expects_a_command)?;
            }
        }
        self.tell_time();
        for event in events.iter() {
            self.apply(event);
        }
        self.accept_more();
        self.serve_ready_connections();
        self.tell_some_luns();
        if self.calls_wait {
            self.take_calls();
        }
        if self.management.is_gathering() {
            self.look_at_some();
        }
        self.tick();
        self.starts_left = STARTS_PER_TURN;
        self.tell_time();
        self.core.begin_turn(Instant::now());
        self.pump();
        self.send_ready_connections();
        Ok(())
    }

    /// Whether the next turn need not wait for an event.
    fn has_more(&self) -> bool {
        !self.ready.is_empty()
            || !self.readable.is_empty()
            || self.scheduler.can_start()
            || self.core.has_more()
            || self.calls_wait
            || self.management.is_gathering()
            || !self.untold.is_empty()
            || self.has_more_to_accept()
    }

    /// Tells the time to the device server, which measures how long commands take.
    fn tell_time(&mut self) {
        self.now = self.started.elapsed();
        self.core.target.set_now(self.now);
    }

    fn apply(&mut self, event: &Event) {
        match event.token() {
            WAKER => self.take_messages(),
            Token(token) if token >= FIRST_CONNECTION => {
                let slot = token - FIRST_CONNECTION;
                if let Some(connection) = self.connections.get_mut(slot) {
                    if event.is_writable() {
                        connection.became_writable();
                        self.ready.push(slot);
                    }
                    if event.is_readable() {
                        connection.readable = true;
                        self.readable.push(slot);
                    }
                }
            }
            // A device's completions are reaped in every turn.
            Token(token) if token >= FIRST_DEVICE => {}
            Token(token) => self.accept(token - FIRST_LISTENER),
        }
    }

    fn welcome(&mut self, mut socket: TcpStream, address: SocketAddr, portal: SocketAddr) {
        if self.is_stopping() || !self.make_room(address) {
            return;
        }
        let entry = self.connections.vacant_entry();
        let slot = entry.key();
        let token = Token(FIRST_CONNECTION + slot);
        let interest = Interest::READABLE | Interest::WRITABLE;
        let registered = socket
            .set_nodelay(true)
            .and_then(|()| bound_sending(&socket, Duration::from_secs(self.options.send_timeout)))
            .and_then(|()| self.poll.registry().register(&mut socket, token, interest));
        if let Err(error) = registered {
            tracing::warn!(%address, %error, "a connection could not be set up");
            return;
        }
        self.last_serial = self.last_serial.wrapping_add(1);
        let iscsi = iscsi::Connection::new(self.options.connection_config(self.newcomers.clone()));
        entry.insert(Connection::new(socket, address, portal, self.last_serial, iscsi));
        self.slots.insert(self.last_serial, slot);
        self.admission.came(slot, address.ip());
        self.belongs(slot, HostNumber(0));
        self.readable.push(slot);
    }

    /// Says in whose turns a connection is read and sent.
    fn belongs(&mut self, slot: usize, host: HostNumber) {
        self.ready.belongs(slot, host);
        self.readable.belongs(slot, host);
    }

    /// Takes what other threads tell, then some of what administrators ask for.
    fn take_messages(&mut self) {
        self.take_news();
        self.calls_wait = true;
    }

    /// Takes what other threads tell.
    fn take_news(&mut self) {
        while let Ok(message) = self.inbox.others.try_recv() {
            match message {
                Message::Call(call) => self.call(call),
                Message::Saved { number, result } => {
                    self.management.saved(&mut self.core, number, result);
                }
                Message::Finished(finished) => {
                    self.management.job_ended(&mut self.core, finished);
                }
                Message::Stored { id, stored } => {
                    self.core.target.saved(id, stored);
                    if !stored {
                        self.management.tell_unsaved_unit();
                    }
                }
                Message::Stop => self.begin_stop(),
            }
        }
    }

    /// Takes what administrators ask for, as much as one turn has room for: hosts have theirs in
    /// between.
    fn take_calls(&mut self) {
        let began = Instant::now();
        for _ in 0..CALLS_PER_TURN {
            let Ok(call) = self.inbox.calls.try_recv() else {
                self.calls_wait = false;
                return;
            };
            self.call(call);
            if began.elapsed() >= CALLS_TIME_PER_TURN {
                return;
            }
        }
    }

    fn call(&mut self, call: Call) {
        self.core.connections = self.admission.counts();
        self.core.places = self.admission.places();
        self.management.call(&mut self.core, &self.sessions, call);
    }

    /// Goes on with what administrators want to know of many objects.
    fn look_at_some(&mut self) {
        let Self { core, sessions, connections, .. } = self;
        self.management.look_at_some(Scene { core, sessions, connections });
    }

    /// Reads from connections that may hold something, and acts on what they say, as long as the turn
    /// lasts.
    fn serve_ready_connections(&mut self) {
        let began = Instant::now();
        while let Some(slot) = self.readable.pop() {
            self.serve(slot);
            if began.elapsed() >= TURN_TIME {
                return;
            }
        }
    }

    fn serve(&mut self, slot: usize) {
        let mut read_this_turn = 0;
        while let Some(connection) = self.connections.get_mut(slot) {
            if !connection.may_receive(read_this_turn) {
                if connection.may_receive(0) {
                    self.readable.push(slot);
                }
                break;
            }
            match connection.receive() {
                Ok(received) => read_this_turn += received,
                Err(Pause::WouldBlock) => break,
                Err(Pause::Closed(error)) => {
                    self.fail(slot, &error.to_string());
                    return;
                }
            }
            self.handle_events(slot);
        }
        self.ready.push(slot);
        self.wake_siblings(slot);
    }

    /// Wakes other connections of a session: data on one may be what a request on another waits
    /// for.
    fn wake_siblings(&mut self, slot: usize) {
        if !self.connections.get(slot).is_some_and(|connection| connection.shares_session) {
            return;
        }
        if let Some(session) = self.sessions.of_connection(slot) {
            let siblings = session.connections.iter().copied();
            self.ready.extend(siblings.filter(|&other| other != slot));
        }
    }

    fn tick(&mut self) {
        let now = self.started.elapsed();
        if now < self.next_tick {
            return;
        }
        self.next_tick = now + TICK;
        self.heartbeat.beat();
        self.go_on_stopping();
        self.end_old_orphans(now);
        self.accept_again(now);
        self.look_after_admission(now);
        self.core.tick(now);
        self.management.look_at_volumes(&mut self.core);
        if now >= self.next_fill_check {
            self.next_fill_check = now + FILL_INTERVAL;
            self.management.look_around(&mut self.core);
        }
        if let Ok(since_1970) = SystemTime::now().duration_since(UNIX_EPOCH) {
            self.core.target.set_time_of_day(since_1970);
        }
        for (slot, connection) in &mut self.connections {
            connection.iscsi.tick(now);
            connection.measure(now);
            self.ready.push(slot);
        }
    }

    /// Lets commands, pools and devices act on each other until nothing moves.
    fn pump(&mut self) {
        loop {
            self.start_waiting_commands();
            self.core.pump();
            let mut moved = self.answer_commands();
            for (ticket, result) in self.core.take_finished() {
                moved = true;
                self.management.finished(&mut self.core, ticket, result);
            }
            self.change_portals();
            moved |= self.end_unwanted_sessions();
            let touched = self.management.take_luns_changed();
            self.luns_changed(&touched);
            if !moved {
                break;
            }
        }
        self.register_devices();
    }

    /// Sends what waits on connections, as long as the turn lasts.
    fn send_ready_connections(&mut self) {
        let began = Instant::now();
        while let Some(slot) = self.ready.pop() {
            self.send(slot);
            if began.elapsed() >= TURN_TIME {
                return;
            }
        }
    }

    /// Sends a part of what waits.
    fn send(&mut self, slot: usize) {
        self.handle_events(slot);
        let Some(connection) = self.connections.get_mut(slot) else { return };
        if let Err(Pause::Closed(error)) = connection.send() {
            return self.fail(slot, &error.to_string());
        }
        if connection.iscsi.is_closed() && !connection.iscsi.wants_to_send() {
            return match connection.ending {
                Ending::Connection => self.close_connection(slot, "logged out"),
                Ending::Session => self.close(slot, "logged out"),
                Ending::Failure => self.fail(slot, "failed"),
            };
        }
        if connection.may_send() {
            self.ready.push(slot);
        }
        if connection.may_receive(0) {
            self.readable.push(slot);
        }
    }

    /// Closes a connection, and with it all others of its session.
    fn close(&mut self, slot: usize, reason: &str) {
        let session = self.sessions.of_connection(slot);
        let slots = session.map_or_else(|| vec![slot], |session| session.connections.clone());
        for slot in slots {
            self.close_connection(slot, reason);
        }
    }

    /// Closes one connection; its session goes on with the others.
    fn close_connection(&mut self, slot: usize, reason: &str) {
        let Some(mut connection) = self.detach(slot, reason) else { return };
        if let Some(session) = self.sessions.leave(slot) {
            self.end_session(&session, reason);
        } else {
            connection.iscsi.close();
            self.abort_tasks_of(&mut connection);
        }
    }

    /// Takes a connection off the poll.
    fn detach(&mut self, slot: usize, reason: &str) -> Option<Connection> {
        let mut connection = self.connections.try_remove(slot)?;
        self.admission.left(slot);
        tracing::debug!(address = %connection.address, reason, "connection closed");
        let _ = self.poll.registry().deregister(&mut connection.socket);
        self.slots.remove(&connection.serial);
        self.core.traffic.received += connection.received;
        self.core.traffic.sent += connection.sent;
        Some(connection)
    }

    /// Makes the poll wake up for the devices of new pools.
    fn register_devices(&mut self) {
        let pools = &self.core.pools;
        let is_there = |pool, device, serial| {
            pools.get(pool).is_some_and(|p| p.serial == serial && device < p.devices.len())
        };
        self.registered_devices.retain(|&(pool, device, serial)| is_there(pool, device, serial));
        let devices = pools.iter().flat_map(|(id, pool)| {
            let devices = pool.devices.iter().enumerate();
            devices.map(move |(number, device)| ((id, number, pool.serial), device))
        });
        for (key, device) in devices {
            if self.registered_devices.contains(&key) {
                continue;
            }
            let fd = device.readiness().as_raw_fd();
            let token = Token(FIRST_DEVICE);
            match self.poll.registry().register(&mut SourceFd(&fd), token, Interest::READABLE) {
                Ok(()) => self.registered_devices.push(key),
                Err(error) => tracing::error!(%error, "a device cannot be waited for"),
            }
        }
    }

    /// Before the first host is let in, every pool is open or known to be unavailable.
    fn wait_for_pools(&mut self) -> Result<()> {
        let mut events = Events::with_capacity(64);
        self.pump();
        while self.management.is_busy() {
            waiting::look(&mut self.poll, &mut events, TICK)?;
            self.take_news();
            self.tick();
            self.pump();
        }
        Ok(())
    }
}

fn stop_on_signals(mailbox: Mailbox) -> Result<()> {
    use signal_hook::consts::{SIGINT, SIGTERM};
    let mut signals = signal_hook::iterator::Signals::new([SIGTERM, SIGINT])?;
    std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
        for _ in &mut signals {
            mailbox.post(Message::Stop);
        }
    })?;
    Ok(())
}
