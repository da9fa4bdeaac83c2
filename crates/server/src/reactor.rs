//! Event loop (reactor): handles every event from sockets, devices, the clock and other threads.

mod ready;
mod stopping;
mod waiting;

use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::Result;
use mio::event::Event;
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token, Waker};
use scsi::DeviceServer;

use crate::alerts::Alerts;
use crate::controller::Controller;
use crate::data_directory::{DataDirectory, random_bytes};
use crate::data_plane::DataPlane;
use crate::events;
use crate::exports::{self, Exports};
use crate::heartbeat::Heartbeat;
use crate::http::{self, Audit, Call, Gate, Inbox, Mailbox, Message};
use crate::iscsi::{FrontEnd, ReadyCommand};
use crate::ledger_feed::LedgerFeed;
use crate::limits::{
    CALLS_PER_TURN, CALLS_TIME_PER_TURN, FILL_INTERVAL, LANE_COMMANDS_MAX, STARTS_PER_TURN, TICK,
};
use crate::link::{self, Link};
use crate::management::{Management, Scene};
use crate::open_files::OpenFiles;
use crate::options::{Options, ReserveDevices};
use crate::scheduler::{Bounds, Scheduler};
use crate::unit_states::UnitStates;
use crate::witness::Witness;
use stopping::Stopping;
use waiting::Waiting;

pub(crate) use ready::Ready;

const WAKER: Token = Token(0);
pub(crate) const FIRST_LISTENER: usize = 1;
const FIRST_DEVICE: usize = 1 << 16;
pub(crate) const FIRST_CONNECTION: usize = 1 << 32;

/// Commands that the device server has at once in a lane; the bytes that they move are bounded where
/// they become requests.
const COMMAND_BOUNDS: Bounds = Bounds { commands: LANE_COMMANDS_MAX, bytes: i64::MAX };

/// The one thread that owns connections, device server and pools.
pub(crate) struct Reactor {
    pub(crate) poll: Poll,
    waiting: Waiting,
    inbox: Inbox,
    /// The front end through which iSCSI initiators come.
    pub(crate) iscsi: FrontEnd,
    pub(crate) scheduler: Scheduler<ReadyCommand>,
    /// Commands that may still be started in this turn.
    pub(crate) starts_left: usize,
    pub(crate) plane: DataPlane,
    pub(crate) management: Management,
    /// Whether administrators ask for something that was not looked at yet.
    calls_wait: bool,
    /// The openings of devices that the poll knows.
    registered_devices: Vec<u64>,
    pub(crate) started: Instant,
    next_tick: Duration,
    next_fill_check: Duration,
    /// The time, sampled at the start of a turn and before completions are processed.
    pub(crate) now: Duration,
    pub(crate) heartbeat: Arc<Heartbeat>,
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
        let controller = Controller::load(&directory, options)?;
        if options.reserve_devices == ReserveDevices::On {
            device::reserve_block_devices(directory.load_reservation_key(controller.number())?);
        }
        let poll = Poll::new()?;
        let (mailbox, inbox) = Mailbox::new(Waker::new(poll.registry(), WAKER)?);
        let heartbeat = Arc::new(Heartbeat::new());
        let audit = Arc::new(Audit::open(directory.path())?);
        let gate = Arc::new(Gate::open(Arc::clone(&directory), Arc::clone(&audit))?);
        let shared = (mailbox.clone(), Arc::clone(&heartbeat), Arc::clone(&gate));
        let doors = http::start(&options.http, open_files.http, &directory, shared)?;
        let unit_states = UnitStates::open(directory.path(), mailbox.clone())?;
        let witness = Witness::open(Arc::clone(&directory), mailbox.clone())?;
        stop_on_signals(mailbox.clone())?;
        let target = device_server(options, &configuration)?;
        let alerts = Alerts::start(&configuration.target_name)?;
        let events = events::Events::open(directory.path(), alerts)?;
        let place = (configuration.uuid.clone(), Arc::clone(&heartbeat));
        let desk = link::Desk { mailbox: mailbox.clone(), gate };
        let link = start_link(options, &directory, &controller, (place, desk))?;
        let identity = (directory, controller, link);
        let management =
            Management::new(configuration, secrets, identity, (events, audit), options, mailbox)?;
        let mut reactor = Self {
            poll,
            waiting: Waiting::new(),
            inbox,
            iscsi: FrontEnd::new(options.sessions.clone(), open_files.iscsi),
            scheduler: Scheduler::new(COMMAND_BOUNDS),
            starts_left: STARTS_PER_TURN,
            plane: DataPlane::new(
                Exports::new(target),
                (unit_states, witness),
                LedgerFeed::new(!options.no_statistics),
                doors,
            ),
            management,
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
        reactor.management.open_pools(&mut reactor.plane);
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
        self.accept_all();
        while !self.has_stopped() {
            self.turn(&mut events)?;
        }
        tracing::info!("stopped");
        self.heartbeat.ends();
        Ok(())
    }

    /// One turn of the loop: take what happened, let it act, send what came of it.
    fn turn(&mut self, events: &mut Events) -> Result<()> {
        if self.has_more() {
            waiting::look(&mut self.poll, events, Duration::ZERO)?
        } else {
            let expects_a_command = self.scheduler.expects_a_command();
            let time_max = self.time_until_due();
            self.waiting.wait(&mut self.poll, events, (expects_a_command, time_max))?;
        }
        self.tell_time();
        for event in events.iter() {
            self.apply(event);
        }
        self.accept_more();
        self.serve_ready_connections();
        self.tell_some_luns();
        // Before anybody is told what this daemon has: it may have stood still, and lost its pools.
        self.tick();
        if self.calls_wait {
            self.take_calls();
        }
        if self.management.is_gathering() {
            self.look_at_some();
        }
        self.starts_left = STARTS_PER_TURN;
        self.tell_time();
        self.plane.begin_turn(Instant::now());
        self.release_held();
        self.pump();
        self.send_ready_connections();
        Ok(())
    }

    /// Whether the next turn need not wait for an event.
    fn has_more(&self) -> bool {
        self.iscsi.has_more()
            || self.scheduler.can_start()
            || self.plane.has_more()
            || self.time_until_due().is_zero()
            || self.calls_wait
            || self.management.is_gathering()
    }

    /// Tells the time to the device server, which measures how long commands take.
    fn tell_time(&mut self) {
        self.now = self.started.elapsed();
        self.plane.exports.scsi.set_now(self.now);
        self.plane.throttle.set_now(self.now);
    }

    /// How long the loop may sleep: until limits let something go on that they hold back, a tick at most.
    fn time_until_due(&self) -> Duration {
        let due = self.plane.throttle.due();
        due.map_or(TICK, |due| due.saturating_sub(self.started.elapsed()).min(TICK))
    }

    fn apply(&mut self, event: &Event) {
        match event.token() {
            WAKER => self.take_messages(),
            // A device's completions are reaped in every turn.
            Token(FIRST_DEVICE..FIRST_CONNECTION) => {}
            Token(_) => self.apply_to_iscsi(event),
        }
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
                    self.management.saved(&mut self.plane, number, result);
                }
                Message::Finished(finished) => {
                    self.management.job_ended(&mut self.plane, finished);
                }
                Message::Stored { id, stored } => {
                    self.management.unit_stored(&mut self.plane, id, stored);
                }
                Message::Witnessed { number, problem } => {
                    self.management.witnessed(&mut self.plane, number, problem);
                }
                Message::Heard => {
                    self.management.look_at_link(&mut self.plane);
                    self.management.begin_what_waited(&mut self.plane, self.iscsi.sessions());
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
        self.iscsi.count(&mut self.plane);
        self.management.call(&mut self.plane, self.iscsi.sessions(), call);
    }

    /// Goes on with what administrators want to know of many objects.
    fn look_at_some(&mut self) {
        let Self { plane, iscsi, .. } = self;
        let (sessions, connections) = (iscsi.sessions(), iscsi.connections());
        self.management.look_at_some(Scene { plane, sessions, connections });
    }

    fn tick(&mut self) {
        let now = self.started.elapsed();
        if now < self.next_tick {
            return;
        }
        self.next_tick = now + TICK;
        self.heartbeat.beat();
        self.go_on_stopping();
        self.plane.tick(now);
        self.management.look_at_volumes(&mut self.plane);
        self.management.look_at_controllers(&mut self.plane);
        self.management.begin_what_waited(&mut self.plane, self.iscsi.sessions());
        if now >= self.next_fill_check {
            self.next_fill_check = now + FILL_INTERVAL;
            self.management.keep_house(&mut self.plane);
            self.management.look_where_hosts_are(&mut self.plane, self.iscsi.sessions());
        }
        if let Ok(since_1970) = SystemTime::now().duration_since(UNIX_EPOCH) {
            self.plane.exports.scsi.set_time_of_day(since_1970);
        }
        self.tick_iscsi(now);
    }

    /// Lets commands, pools and devices act on each other until nothing moves.
    fn pump(&mut self) {
        loop {
            self.start_waiting_commands();
            self.plane.pump();
            let mut moved = self.answer_commands();
            for (ticket, result) in self.plane.take_finished() {
                moved = true;
                self.management.finished(&mut self.plane, ticket, result);
            }
            self.change_portals();
            moved |= self.end_unwanted_sessions();
            let limited = self.management.take_limits_changed();
            self.limits_changed(limited);
            let touched = self.management.take_luns_changed();
            self.luns_changed(&touched);
            if !moved {
                break;
            }
        }
        self.register_devices();
    }

    /// Makes the poll wake up for the devices of new pools.
    fn register_devices(&mut self) {
        let pools = &self.plane.pools;
        let devices = || pools.iter().flat_map(|(_, pool)| pool.devices.iter());
        self.registered_devices.retain(|serial| devices().any(|(_, open)| open.serial == *serial));
        for (_, open) in devices() {
            if self.registered_devices.contains(&open.serial) {
                continue;
            }
            let fd = open.device.readiness().as_raw_fd();
            let token = Token(FIRST_DEVICE);
            match self.poll.registry().register(&mut SourceFd(&fd), token, Interest::READABLE) {
                Ok(()) => self.registered_devices.push(open.serial),
                Err(error) => tracing::error!(%error, "a device cannot be waited for"),
            }
        }
    }

    /// Before the first host is admitted, every pool is open, known to be unavailable, or has a device
    /// that does not answer.
    fn wait_for_pools(&mut self) -> Result<()> {
        let mut events = Events::with_capacity(64);
        self.pump();
        while self.management.is_starting(&self.plane) {
            waiting::look(&mut self.poll, &mut events, TICK)?;
            self.take_news();
            self.tick();
            self.pump();
        }
        Ok(())
    }
}

/// What answers SCSI commands, without logical units yet.
fn device_server(options: &Options, array: &array::Configuration) -> Result<DeviceServer> {
    let mut target = DeviceServer::new(scsi::Identity {
        identification: exports::to_scsi(array.identification),
        long_cdbs: options.long_cdbs,
        ..scsi::Identity::gantry(&array.target_name)
    });
    target.set_token_key(random_bytes()?);
    target.set_switches_off(array.switches_off);
    Ok(target)
}

/// Starts the link of one controller of several.
fn start_link(
    options: &Options,
    directory: &Arc<DataDirectory>,
    controller: &Controller,
    ((array, pulse), desk): ((String, Arc<Heartbeat>), link::Desk),
) -> Result<Option<Link>> {
    if !controller.is_one_of_several() {
        return Ok(None);
    }
    let peers = options.peer.iter().map(|peer| (peer.number, peer.address.clone()));
    let place = link::Place {
        array,
        number: controller.number(),
        listen: controller.link(),
        peers: peers.collect(),
        pulse,
        desk,
    };
    let link = Link::start(directory, place)?;
    link.have_end_told()?;
    Ok(Some(link))
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
