//! Link between controllers: a thread of its own that tells the others how this one is, and hears how
//! they are, over TLS with pinned certificates on both sides.
//!
//! The reactor hands over what is to be told and looks at what was heard, under a lock that is held for
//! no I/O; whatever a peer or an attacker sends is read, bounded and judged in the link's thread.

mod calls;
mod connections;
mod end_notice;
mod files;
mod identity;

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use api::{PairController, PathState, Problem};
use control::limits::{PAIRING_LIFE, TAKE_OVER_SUSPICION};
use control::link::{
    Attempt, Fingerprint, Join, Mark, Message, PROTOCOL, Pairing, PairingCode, Peers, Readiness,
    RecordPage, Report, Secret, check_address,
};
use control::problems::{self, bad_request, conflict};
use control::turns::TurnReport;
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, oneshot, watch};

use crate::data_directory::{DataDirectory, random_bytes, random_u64};
use crate::described::Described;
use crate::events::now;
use crate::heartbeat::Heartbeat;
use crate::http::{self, Reply};
use crate::limits::{LINK_CALLS_MAX, LINK_CALLS_TAKEN_MAX};
use files::Peer;
use identity::Identity;

use calls::TakenUsers;

pub(crate) use calls::Desk;
pub(crate) use end_notice::tell_end_of;
pub(crate) use files::Known;

/// The link of one controller.
pub(crate) struct Link {
    shared: Arc<Shared>,
    runtime: Handle,
    told: watch::Sender<Arc<Report>>,
}

/// How another controller is, as far as it is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct View {
    /// Where its link listens.
    pub(crate) address: Option<String>,
    /// Whether both know each other's certificate.
    pub(crate) is_paired: bool,
    /// Whether it was heard lately.
    pub(crate) is_reachable: bool,
    /// When it was heard last, seconds since 1970; `None` if never since the start.
    pub(crate) heard_at: Option<u64>,
    /// What it drew when it was started last.
    pub(crate) life: Option<u64>,
    /// Which of its processes has ended last, as its machine said.
    pub(crate) ended: Option<u64>,
    /// The version of its program, as it said last.
    pub(crate) version: Option<String>,
    /// Why it could not be connected to, the last time it was tried.
    pub(crate) problem: Option<String>,
    /// Whether a connection on which it spoke has ended since it was heard last, or that was more than a moment ago.
    pub(crate) is_missed: bool,
    /// Its portals, as it said last, also before the start.
    pub(crate) portals: BTreeMap<SocketAddr, u16>,
    /// How it serves pools, by their identifiers; `None` while it is silent.
    pub(crate) pools: Option<BTreeMap<String, PathState>>,
    /// The pools that it serves, as it describes them, while it is heard.
    pub(crate) configured: BTreeMap<String, serde_json::Value>,
    /// Pools that it deletes or gives away, or has, while it is heard.
    pub(crate) gone: BTreeSet<String>,
    /// Which pools it would take; `None` while it is silent, or if its program does not say it.
    pub(crate) readiness: Option<Readiness>,
    /// Records of pools that it serves, while it is heard.
    pub(crate) records: BTreeMap<String, RecordPage>,
    /// How far it has heard of the records of others' pools; `None` if it does not listen.
    pub(crate) heard: Option<BTreeMap<String, Mark>>,
    /// Whose turn it is to change the configuration, as it says while it is heard.
    pub(crate) turns: Option<TurnReport>,
    /// Whether requests of administrators can be handed on to it now.
    pub(crate) takes_calls: bool,
}

impl View {
    /// How it serves a pool, by its identifier; `None` while it is silent, or if it does not know it.
    pub(crate) fn state_of(&self, pool: &str) -> Option<PathState> {
        self.pools.as_ref()?.get(pool).copied()
    }

    /// Whether its process has ended, and none that was started since was heard.
    pub(crate) fn has_ended(&self) -> bool {
        self.life.is_some() && self.life == self.ended
    }
}

/// How this controller is.
pub(crate) struct Own<'a> {
    /// Portals, each with its target portal group.
    pub(crate) portals: BTreeMap<SocketAddr, u16>,
    /// How it serves pools, by their identifiers.
    pub(crate) pools: BTreeMap<String, PathState>,
    /// The pools that it serves, described.
    pub(crate) configured: &'a BTreeMap<String, serde_json::Value>,
    /// Pools that it deletes or gives away, or has since the start.
    pub(crate) gone: BTreeSet<String>,
    pub(crate) readiness: Readiness,
    /// Records that others have not heard, of pools that it serves.
    pub(crate) records: BTreeMap<String, RecordPage>,
    /// How far it has heard of the records of others' pools; `None` if it does not listen.
    pub(crate) heard: Option<BTreeMap<String, Mark>>,
    pub(crate) turns: TurnReport,
}

impl Own<'_> {
    fn is_said_by(&self, report: &Report) -> bool {
        report.readiness.as_ref() == Some(&self.readiness)
            && (&report.portals, &report.pools) == (&self.portals, &self.pools)
            && (&report.records, &report.heard) == (&self.records, &self.heard)
            && (&report.configured, &report.gone) == (self.configured, &self.gone)
            && report.turns.as_ref() == Some(&self.turns)
    }
}

/// What the threads share.
struct Shared {
    directory: Arc<DataDirectory>,
    identity: Identity,
    /// The array that is served.
    array: String,
    /// This controller.
    number: u16,
    /// Where it listens, if it does.
    listens_at: Option<SocketAddr>,
    started: Instant,
    pulse: Arc<Heartbeat>,
    state: Mutex<State>,
    /// Held while what is known is written, so that the newest is written last.
    saving: Mutex<()>,
    /// Where requests go that others hand on.
    desk: Desk,
    /// Whether the reactor was told that something was heard, and has not looked yet.
    is_heard: AtomicBool,
    /// Requests that are handed on, and those that others have handed on, at once.
    handing_on: Semaphore,
    handed_on: Semaphore,
}

#[derive(Default)]
struct State {
    known: Known,
    peers: Peers,
    pairing: Pairing,
    /// Why peers could not be connected to, by number.
    problems: BTreeMap<u16, String>,
    /// Peers of which a connection has ended on which they spoke, and that were not heard since.
    broken_off: BTreeSet<u16>,
    /// Lives of their processes that have ended, as their machines said.
    ended: BTreeMap<u16, u64>,
    /// Users and tokens that were taken over last.
    taken_users: Option<TakenUsers>,
    /// The newest connection that each peer made.
    newest: BTreeMap<u16, u64>,
    /// The newest work that connects to each peer.
    dialling: BTreeMap<u16, u64>,
    last_number: u64,
}

/// Which controller this is, and where it and the others are to be found.
pub(crate) struct Place {
    /// The array's identifier.
    pub(crate) array: String,
    /// The controller's number, from 1.
    pub(crate) number: u16,
    /// Where it listens for the others.
    pub(crate) listen: Option<SocketAddr>,
    /// Where others listen, by number, besides those that are kept.
    pub(crate) peers: BTreeMap<u16, String>,
    /// Whether the daemon goes on: the link is silent for one whose loop stands still.
    pub(crate) pulse: Arc<Heartbeat>,
    /// Where requests go that others hand on.
    pub(crate) desk: Desk,
}

impl Link {
    /// Starts the thread.
    ///
    /// # Errors
    /// When the address cannot be listened at, or the files of the link cannot be read or made.
    pub(crate) fn start(directory: &Arc<DataDirectory>, place: Place) -> Result<Self> {
        let listener = place.listen.map(connections::listen).transpose()?;
        let listens_at = listener.as_ref().map(std::net::TcpListener::local_addr).transpose()?;
        let mut known = directory.load_peers()?;
        let kept = known.clone();
        known.set_addresses(place.number, place.peers);
        if known != kept {
            directory.save_peers(&known)?;
        }
        let shared = Arc::new(Shared {
            directory: Arc::clone(directory),
            identity: Identity::load(directory)?,
            array: place.array,
            number: place.number,
            listens_at,
            started: Instant::now(),
            pulse: place.pulse,
            state: Mutex::new(State { known, ..State::default() }),
            saving: Mutex::default(),
            desk: place.desk,
            is_heard: AtomicBool::new(false),
            handing_on: Semaphore::new(LINK_CALLS_MAX),
            handed_on: Semaphore::new(LINK_CALLS_TAKEN_MAX),
        });
        let (told, tell) = watch::channel(Arc::new(shared.first_report()?));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let link = Self { shared: Arc::clone(&shared), runtime: handle, told };
        std::thread::Builder::new()
            .name("link".to_owned())
            .spawn(move || runtime.block_on(connections::serve(shared, listener, tell)))
            .context("cannot start a thread")?;
        Ok(link)
    }

    /// Says how this controller is; the others are told if that is new.
    pub(crate) fn tell(&self, own: &Own<'_>) {
        self.told.send_if_modified(|report| {
            if own.is_said_by(report) {
                return false;
            }
            *report = Arc::new(Report {
                sequence: report.sequence + 1,
                portals: own.portals.clone(),
                pools: own.pools.clone(),
                configured: own.configured.clone(),
                gone: own.gone.clone(),
                readiness: Some(own.readiness.clone()),
                records: own.records.clone(),
                heard: own.heard.clone(),
                turns: Some(own.turns.clone()),
                ..Report::clone(report)
            });
            true
        });
    }

    /// Says which other controller has all pools, if one has: its users and tokens are taken over.
    pub(crate) fn follow(&self, controller: Option<u16>) {
        self.shared.desk.gate.set_authority(controller);
    }

    /// Every other controller that is known. What is heard from now on is told to the reactor.
    pub(crate) fn views(&self) -> BTreeMap<u16, View> {
        self.shared.is_heard.store(false, Ordering::Release);
        let now = self.shared.clock();
        let state = self.shared.state();
        let numbers = state.known.peers.keys();
        numbers.map(|&number| (number, state.view(number, now))).collect()
    }

    /// For how long another controller was not heard at some time, since the start at most; `None` if it
    /// is not paired.
    pub(crate) fn silence(&self, number: u16, at: Instant) -> Option<Duration> {
        let at = at.saturating_duration_since(self.shared.started);
        let state = self.shared.state();
        state.known.peers.get(&number)?.fingerprint?;
        let heard = state.peers.last(number).map_or(Duration::ZERO, |(heard, _)| heard);
        Some(at.saturating_sub(heard))
    }

    /// Drawn when this controller was started.
    pub(crate) fn life(&self) -> u64 {
        self.told.borrow().life
    }

    /// Has the others told when the process of this daemon ends.
    ///
    /// # Errors
    /// When there is no thread.
    pub(crate) fn have_end_told(&self) -> Result<()> {
        end_notice::keep(Arc::clone(&self.shared), self.life())
    }

    /// A code by which another controller may join, once.
    ///
    /// # Errors
    /// When this controller does not listen, or nobody says at which address it is found.
    pub(crate) fn pair(&self, request: &PairController) -> Result<api::PairingCode, Problem> {
        let address = self.shared.own_address(request.address.as_deref())?;
        let secret = Secret(random_bytes().map_err(|error| problems::internal(&error))?);
        let mut state = self.shared.state();
        state.pairing.begin(secret, self.shared.clock());
        let (number, fingerprint) = (self.shared.number, self.shared.identity.fingerprint);
        let code = PairingCode { number, address, fingerprint, secret }.to_string();
        Ok(api::PairingCode { code, expires: now() + PAIRING_LIFE.as_secs() })
    }

    /// Joins the controller that gave a code, and answers when it has answered.
    pub(crate) fn join(&self, code: &str, reply: oneshot::Sender<Reply>) {
        let code = match code.parse::<PairingCode>() {
            Ok(code) => code,
            Err(why) => return answer::<()>(reply, Err(bad_request(&why))),
        };
        if code.number == self.shared.number {
            let why = format!("the code is one of controller {}, this one", code.number);
            return answer::<()>(reply, Err(bad_request(&why)));
        }
        let (shared, told) = (Arc::clone(&self.shared), self.told.subscribe());
        self.runtime.spawn(async move {
            let peer = Peer::new(Some(code.address.clone()), code.fingerprint);
            let joined = match connections::join(&shared, &code).await {
                Ok(()) => shared.pin(code.number, peer).await,
                Err(why) => Err(why),
            };
            if joined.is_ok() {
                connections::dial(shared, code.number, told);
            }
            let joined = joined.map(|()| api::Paired { number: code.number });
            answer(reply, joined.map_err(|why| conflict(&why)));
        });
    }

    /// Forgets another controller: it is not heard any more, nor told anything. Answers when that is
    /// saved.
    pub(crate) fn forget(&self, number: u16, reply: oneshot::Sender<Reply>) {
        let mut state = self.shared.state();
        let known = state.known.peers.remove(&number);
        state.peers.forget(number);
        state.newest.remove(&number);
        state.dialling.remove(&number);
        state.problems.remove(&number);
        state.broken_off.remove(&number);
        state.ended.remove(&number);
        drop(state);
        if known.is_none() {
            let why = format!("no controller {number} is paired with this one");
            return answer::<()>(reply, Err(problems::not_found(&why)));
        }
        let shared = Arc::clone(&self.shared);
        self.runtime.spawn(async move {
            let saved = shared.save().await;
            answer(reply, saved.map_err(|why| problems::internal(&why)));
        });
    }
}

impl State {
    /// What a peer said last, if it was heard lately and its process has not ended since.
    fn current(&self, number: u16, clock: Duration) -> Option<&Report> {
        let ended = self.ended.get(&number);
        self.peers.report(number, clock).filter(|said| ended != Some(&said.life))
    }

    fn view(&self, number: u16, clock: Duration) -> View {
        let Some(peer) = self.known.peers.get(&number) else { return View::default() };
        let last = self.peers.last(number);
        let current = self.current(number, clock);
        let ago = |at: Duration| now().saturating_sub(clock.saturating_sub(at).as_secs());
        let is_silent = last.is_some_and(|(at, _)| clock.saturating_sub(at) >= TAKE_OVER_SUSPICION);
        View {
            address: peer.address.clone(),
            is_paired: peer.fingerprint.is_some(),
            is_reachable: current.is_some(),
            heard_at: last.map(|(at, _)| ago(at)),
            life: last.map(|(_, report)| report.life),
            ended: self.ended.get(&number).copied(),
            version: last.map(|(_, report)| report.version.clone()),
            problem: self.problems.get(&number).filter(|_| current.is_none()).cloned(),
            is_missed: self.broken_off.contains(&number) || is_silent,
            portals: peer.portals.clone(),
            pools: current.map(|report| report.pools.clone()),
            configured: current.map(|report| report.configured.clone()).unwrap_or_default(),
            gone: current.map(|report| report.gone.clone()).unwrap_or_default(),
            readiness: current.and_then(|report| report.readiness.clone()),
            records: current.map(|report| report.records.clone()).unwrap_or_default(),
            heard: current.and_then(|report| report.heard.clone()),
            turns: current.and_then(|report| report.turns.clone()),
            takes_calls: current.is_some_and(|report| report.takes_calls)
                && peer.address.is_some()
                && peer.fingerprint.is_some(),
        }
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        // Every change is whole between two statements that hold the lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn clock(&self) -> Duration {
        self.started.elapsed()
    }

    /// What is told now: how this controller is, and of its users. The reactor does not wait for those: their lock is
    /// held by a thread of low priority.
    fn message(&self, own: &Report) -> Message {
        let users = Some(self.desk.gate.digest());
        Message::Report(Box::new(Report { users, ..own.clone() }))
    }

    /// A daemon whose loop stands still serves no host, whatever this thread could still say.
    fn check_pulse(&self) -> Result<(), String> {
        match self.pulse.silence() {
            None => Ok(()),
            Some(silence) => Err(format!("this daemon stands still for {} s", silence.as_secs())),
        }
    }

    fn first_report(&self) -> Result<Report> {
        Ok(Report {
            protocol: PROTOCOL,
            array: self.array.clone(),
            number: self.number,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            life: random_u64()?,
            sequence: 0,
            portals: BTreeMap::new(),
            pools: BTreeMap::new(),
            configured: BTreeMap::new(),
            gone: BTreeSet::new(),
            readiness: None,
            records: BTreeMap::new(),
            heard: None,
            turns: None,
            takes_calls: true,
            users: None,
        })
    }

    /// Where this controller's link is found by others.
    fn own_address(&self, said: Option<&str>) -> Result<String, Problem> {
        let Some(listens_at) = self.listens_at else {
            return Err(conflict(
                &"this controller does not listen for others: start gantryd with --link IP:PORT, or run \
                 'gantry controller pair' at one that does",
            ));
        };
        match said {
            Some(said) => check_address(said).map(|()| said.to_owned()).map_err(|why| {
                bad_request(&format!("'{said}' is no address for the others: {why}"))
            }),
            None if listens_at.ip().is_unspecified() => Err(bad_request(
                &"this controller listens at every address: say by --address HOST:PORT where the other \
                 one finds it",
            )),
            None => Ok(listens_at.to_string()),
        }
    }

    /// Where it is found, if it listens at one address.
    fn announced_address(&self) -> Option<String> {
        self.own_address(None).ok()
    }

    /// The controller that has a certificate.
    fn owner_of(&self, fingerprint: Fingerprint) -> Option<u16> {
        self.state().known.owner_of(fingerprint)
    }

    /// Whether somebody who is not known may come, to show a secret.
    fn is_pairing(&self) -> bool {
        self.state().pairing.is_open(self.clock())
    }

    /// Keeps what is known of a peer.
    async fn pin(self: &Arc<Self>, number: u16, peer: Peer) -> Result<(), String> {
        {
            let mut state = self.state();
            state.known.peers.insert(number, peer);
            state.peers.forget(number);
            state.newest.remove(&number);
        }
        self.save().await
    }

    /// Saves what is known of all peers; a thread of its own waits for the disk.
    async fn save(self: &Arc<Self>) -> Result<(), String> {
        let shared = Arc::clone(self);
        let saved = tokio::task::spawn_blocking(move || {
            let _turn = shared.saving.lock().unwrap_or_else(PoisonError::into_inner);
            let known = shared.state().known.clone();
            shared.directory.save_peers(&known)
        });
        let saved = saved.await.map_err(|error| error.to_string())?;
        saved.map_err(|error| format!("{error:#}"))
    }

    /// Somebody wants to be known who has this certificate.
    fn admit(&self, join: &Join, fingerprint: Fingerprint) -> Result<Peer, String> {
        let attempt = self.state().pairing.attempt(join.secret, self.clock());
        let number = join.number;
        match attempt {
            Attempt::Accepted => {}
            Attempt::Wrong | Attempt::Exhausted => {
                tracing::warn!(number, ?attempt, "a controller showed a wrong pairing code");
                return Err("it is not the code, or not any more".to_owned());
            }
            Attempt::Closed => return Err("it is not the code, or not any more".to_owned()),
        }
        if join.array != self.array {
            return Err("it serves another array: begin with a copy of this one's data directory \
                        (docs/controllers.md), then make a new code"
                .to_owned());
        }
        if number == self.number {
            return Err(format!(
                "controller {number} is this one: start the other with another --controller, then \
                 make a new code"
            ));
        }
        Ok(Peer::new(join.address.clone(), fingerprint))
    }

    /// A peer said how it is. Its portals are kept when they change.
    ///
    /// # Errors
    /// When it is not who it should be.
    fn hear(self: &Arc<Self>, number: u16, report: Report) -> Result<(), String> {
        if (report.number, &report.array) != (number, &self.array) {
            return Err("it is another controller, or of another array, than was paired".to_owned());
        }
        let mut state = self.state();
        let Some(peer) = state.known.peers.get_mut(&number) else {
            return Err("it is not known any more".to_owned());
        };
        let has_moved = peer.portals != report.portals && !report.portals.is_empty();
        if has_moved {
            peer.portals = report.portals.clone();
        }
        state.problems.remove(&number);
        state.broken_off.remove(&number);
        let users = report.users.clone();
        let is_new = state.peers.hear(report, self.clock());
        drop(state);
        if is_new {
            self.post_heard();
        }
        self.follow_users(number, users);
        if has_moved {
            let shared = Arc::clone(self);
            tokio::spawn(async move {
                if let Err(error) = shared.save().await {
                    tracing::warn!(error, "portals of another controller are not kept");
                }
            });
        }
        Ok(())
    }

    fn post_heard(&self) {
        if !self.is_heard.swap(true, Ordering::AcqRel) {
            self.desk.mailbox.post(http::Message::Heard);
        }
    }

    /// The process of a peer has ended that had this life.
    fn hear_end(&self, number: u16, life: u64) {
        let mut state = self.state();
        if state.known.peers.contains_key(&number) {
            state.ended.insert(number, life);
            drop(state);
            self.post_heard();
        }
    }

    /// A number for a connection that a peer made; those before it end.
    fn begin_connection(&self, number: u16) -> u64 {
        let mut state = self.state();
        state.last_number += 1;
        let connection = state.last_number;
        state.newest.insert(number, connection);
        connection
    }

    /// A number for work that connects to a peer; that before it ends.
    fn begin_dialling(&self, number: u16) -> u64 {
        let mut state = self.state();
        state.last_number += 1;
        let turn = state.last_number;
        state.dialling.insert(number, turn);
        turn
    }

    fn is_dialling(&self, number: u16, turn: u64) -> bool {
        self.state().dialling.get(&number) == Some(&turn)
    }

    fn is_newest(&self, number: u16, connection: u64) -> bool {
        self.state().newest.get(&number) == Some(&connection)
    }

    fn note_problem(&self, number: u16, why: String) {
        let mut state = self.state();
        if state.known.peers.contains_key(&number) {
            state.problems.insert(number, why);
        }
    }

    /// A connection has ended on which a peer spoke.
    fn note_end(&self, number: u16) {
        let mut state = self.state();
        if state.known.peers.contains_key(&number) {
            state.broken_off.insert(number);
        }
    }
}

fn answer<T: serde::Serialize + Send + 'static>(
    reply: oneshot::Sender<Reply>,
    result: Result<T, Problem>,
) {
    // Whoever asked may have gone away.
    let _ = reply.send(result.map(|value| Described::later(move || value)));
}

#[cfg(test)]
mod tests;
