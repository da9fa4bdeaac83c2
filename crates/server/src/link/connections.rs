//! Connections of the link: those that peers make, and one to each peer whose address is known. Every
//! handshake, message and answer has a deadline, every message a size, and every connection a pace.

use std::net::{SocketAddr, TcpListener as StdTcpListener};
use std::sync::Arc;

use anyhow::{Context, Result};
use control::limits::LINK_BEAT;
use control::link::{Fingerprint, Join, Message, PairingCode, Report, emit, parse};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::{TlsAcceptor, TlsConnector, client, server};

use super::identity::{Identity, NAME, fingerprint};
use super::{Shared, files};
use crate::http::{Doors, Place};
use crate::limits::{
    ACCEPT_PAUSE, LINK_CALL_BYTES_MAX, LINK_CONNECTIONS_MAX, LINK_CONNECTIONS_PER_ADDRESS,
    LINK_GAP, LINK_LINE_BYTES_MAX, LINK_PATIENCE, LINK_RETRY,
};

const NO_REPORT: &str = "it said something that is no report";

/// What is to be told, as it changes.
pub(super) type Told = watch::Receiver<Arc<Report>>;

pub(super) fn listen(address: SocketAddr) -> Result<StdTcpListener> {
    let listener = StdTcpListener::bind(address)
        .with_context(|| format!("cannot listen on --link {address}: choose another one"))?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Connects to the peers that are known and takes those that come; never ends.
pub(super) async fn serve(shared: Arc<Shared>, listener: Option<StdTcpListener>, told: Told) {
    let known: Vec<u16> = shared.state().known.peers.keys().copied().collect();
    for number in known {
        dial(Arc::clone(&shared), number, told.clone());
    }
    if let Some(listener) = listener
        && let Err(error) = accept(&shared, listener, &told).await
    {
        tracing::error!("the link of controllers stopped listening: {error:#}");
    }
    std::future::pending().await
}

async fn accept(shared: &Arc<Shared>, listener: StdTcpListener, told: &Told) -> Result<()> {
    let listener = TcpListener::from_std(listener)?;
    let acceptor = TlsAcceptor::from(Arc::new(shared.identity.server(shared)?));
    let doors = Arc::new(Doors::new(LINK_CONNECTIONS_MAX, LINK_CONNECTIONS_PER_ADDRESS));
    loop {
        let Ok((stream, address)) = listener.accept().await else {
            sleep(ACCEPT_PAUSE).await;
            continue;
        };
        let Some(place) = doors.enter(address.ip()) else { continue };
        let (shared, acceptor, told) = (Arc::clone(shared), acceptor.clone(), told.clone());
        tokio::spawn(async move {
            let coming = Coming { shared, place, told };
            tokio::select! {
                ended = coming.serve(acceptor, stream) => {
                    if let Err(why) = ended {
                        tracing::debug!(%address, why, "a connection of the link ended");
                    }
                }
                () = coming.place.lost() => {}
            }
        });
    }
}

/// A connection that somebody made.
struct Coming {
    shared: Arc<Shared>,
    place: Place,
    told: Told,
}

impl Coming {
    async fn serve(&self, acceptor: TlsAcceptor, stream: TcpStream) -> Result<(), String> {
        let stream = within(acceptor.accept(stream)).await?;
        let shown = shown(stream.get_ref().1.peer_certificates())?;
        let mut lines = Lines::new(stream);
        let owner = self.shared.owner_of(shown);
        let bytes_max = if owner.is_some() { LINK_CALL_BYTES_MAX } else { LINK_LINE_BYTES_MAX };
        match (lines.receive_up_to(bytes_max).await?, owner) {
            // Also one that is known: it may have another address now.
            (Message::Join(join), _) => {
                let said = self.admitted(&join, shown).await;
                lines.send(&said).await
            }
            (Message::Report(report), Some(number)) => {
                let ended = self.converse(lines, number, *report).await;
                ended.inspect_err(|_| self.shared.note_end(number))
            }
            (Message::Call(call), Some(number)) => {
                let _busy = self.place.work();
                self.shared.answer_call(lines, number, *call).await
            }
            (Message::Users, Some(_)) => {
                let _busy = self.place.work();
                lines.send_answer(&self.shared.desk.gate.users_text()).await
            }
            (Message::Ended { life }, Some(number)) => {
                self.shared.hear_end(number, life);
                Ok(())
            }
            (
                Message::Report(_) | Message::Call(_) | Message::Users | Message::Ended { .. },
                None,
            ) => Err("it is not paired, and shows no code".to_owned()),
            (
                Message::Joined { .. }
                | Message::Refused { .. }
                | Message::Answered { .. }
                | Message::Declined { .. },
                _,
            ) => Err(NO_REPORT.to_owned()),
        }
    }

    /// Lets a controller be known that shows a right code.
    async fn admitted(&self, join: &Join, shown: Fingerprint) -> Message {
        let shared = &self.shared;
        let pinned = match shared.admit(join, shown) {
            Ok(peer) => shared.pin(join.number, peer).await,
            Err(reason) => Err(reason),
        };
        match pinned {
            Ok(()) => {
                tracing::info!(number = join.number, "another controller was paired");
                dial(Arc::clone(shared), join.number, self.told.clone());
                Message::Joined { number: shared.number }
            }
            Err(reason) => Message::Refused { reason },
        }
    }

    /// Hears a peer, and answers each message with how this controller is.
    async fn converse(
        &self,
        mut lines: Lines<server::TlsStream<TcpStream>>,
        number: u16,
        first: Report,
    ) -> Result<(), String> {
        let _busy = self.place.work();
        let connection = self.shared.begin_connection(number);
        let mut report = first;
        while self.shared.is_newest(number, connection) {
            if let Err(reason) = self.shared.hear(number, report) {
                return lines.send(&Message::Refused { reason }).await;
            }
            self.shared.check_pulse()?;
            let own = Arc::clone(&self.told.borrow());
            lines.send(&self.shared.message(&own)).await?;
            sleep(LINK_GAP).await;
            report = match lines.receive().await? {
                Message::Report(report) => *report,
                Message::Join(_)
                | Message::Joined { .. }
                | Message::Refused { .. }
                | Message::Call(_)
                | Message::Users
                | Message::Ended { .. }
                | Message::Answered { .. }
                | Message::Declined { .. } => return Err(NO_REPORT.to_owned()),
            };
        }
        Ok(())
    }
}

/// Keeps a connection to a peer until it is known no more, by another certificate, or is dialled anew.
pub(super) fn dial(shared: Arc<Shared>, number: u16, mut told: Told) {
    let found = shared.state().known.peers.get(&number).cloned();
    let Some(files::Peer { address: Some(address), fingerprint: Some(pinned), .. }) = found else {
        return;
    };
    let turn = shared.begin_dialling(number);
    tokio::spawn(async move {
        let is_meant =
            || shared.is_dialling(number, turn) && shared.owner_of(pinned) == Some(number);
        while is_meant() {
            let ended = match connect(&shared.identity, &address, pinned).await {
                Ok(lines) => {
                    let ended = tell(&shared, number, lines, &mut told, is_meant).await;
                    ended.inspect_err(|_| shared.note_end(number))
                }
                Err(why) => Err(why),
            };
            if let Err(why) = ended {
                shared.note_problem(number, format!("{address}: {why}"));
            }
            sleep(LINK_RETRY).await;
        }
    });
}

/// Tells a peer how this controller is, whenever that changes and else in a regular beat.
async fn tell(
    shared: &Arc<Shared>,
    number: u16,
    mut lines: Lines<client::TlsStream<TcpStream>>,
    told: &mut Told,
    is_meant: impl Fn() -> bool,
) -> Result<(), String> {
    while is_meant() {
        shared.check_pulse()?;
        let began = Instant::now();
        let own = Arc::clone(&told.borrow_and_update());
        lines.send(&shared.message(&own)).await?;
        match lines.receive().await? {
            Message::Report(report) => shared.hear(number, *report)?,
            Message::Refused { reason } => return Err(reason),
            Message::Join(_)
            | Message::Joined { .. }
            | Message::Call(_)
            | Message::Users
            | Message::Ended { .. }
            | Message::Answered { .. }
            | Message::Declined { .. } => return Err(NO_REPORT.to_owned()),
        }
        sleep(LINK_GAP).await;
        tokio::select! {
            () = sleep_until(began + LINK_BEAT) => {}
            why = lines.ended() => return Err(why),
            changed = told.changed() => changed.map_err(|_| "the daemon stops".to_owned())?,
        }
    }
    Ok(())
}

/// Shows a code to the controller that gave it.
pub(super) async fn join(shared: &Arc<Shared>, code: &PairingCode) -> Result<(), String> {
    let mut lines = connect(&shared.identity, &code.address, code.fingerprint)
        .await
        .map_err(|why| format!("controller {} at {}: {why}", code.number, code.address))?;
    let join = Join {
        secret: code.secret,
        array: shared.array.clone(),
        number: shared.number,
        address: shared.announced_address(),
    };
    lines.send(&Message::Join(join)).await?;
    match lines.receive().await.map_err(|why| format!("the code is not taken: {why}"))? {
        Message::Joined { number } if number == code.number => Ok(()),
        Message::Refused { reason } => Err(format!("controller {} refuses: {reason}", code.number)),
        Message::Joined { .. }
        | Message::Report(_)
        | Message::Join(_)
        | Message::Call(_)
        | Message::Users
        | Message::Ended { .. }
        | Message::Answered { .. }
        | Message::Declined { .. } => {
            Err("it answers as no controller that gave this code".to_owned())
        }
    }
}

pub(super) async fn connect(
    identity: &Identity,
    address: &str,
    pinned: Fingerprint,
) -> Result<Lines<client::TlsStream<TcpStream>>, String> {
    let config = identity.client(pinned).map_err(|error| format!("{error:#}"))?;
    let name = ServerName::try_from(NAME).map_err(|error| error.to_string())?;
    let stream = within(TcpStream::connect(address)).await?;
    // Messages are small, and each waits for an answer.
    stream.set_nodelay(true).map_err(|error| error.to_string())?;
    let stream = within(TlsConnector::from(Arc::new(config)).connect(name, stream)).await?;
    Ok(Lines::new(stream))
}

fn shown(certificates: Option<&[CertificateDer<'_>]>) -> Result<Fingerprint, String> {
    let first = certificates.and_then(<[_]>::first);
    first.map(fingerprint).ok_or_else(|| "it shows no certificate".to_owned())
}

/// Waits for something that must not take longer than [`LINK_PATIENCE`].
async fn within<T>(work: impl Future<Output = std::io::Result<T>>) -> Result<T, String> {
    match timeout(LINK_PATIENCE, work).await {
        Ok(done) => done.map_err(|error| error.to_string()),
        Err(_) => Err("it does not answer".to_owned()),
    }
}

/// Messages over a stream.
pub(super) struct Lines<S> {
    stream: BufReader<S>,
    line: Vec<u8>,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Lines<S> {
    fn new(stream: S) -> Self {
        Self { stream: BufReader::new(stream), line: Vec::new() }
    }

    /// The next message, which must be whole in time, and no longer than [`LINK_LINE_BYTES_MAX`].
    async fn receive(&mut self) -> Result<Message, String> {
        self.receive_up_to(LINK_LINE_BYTES_MAX).await
    }

    /// The same, of another length.
    async fn receive_up_to(&mut self, bytes_max: u64) -> Result<Message, String> {
        within(self.read_line(bytes_max)).await?;
        self.parsed(bytes_max)
    }

    /// The same, for as long as it takes.
    pub(super) async fn receive_later(&mut self) -> Result<Message, String> {
        let read = self.read_line(LINK_LINE_BYTES_MAX).await;
        read.map_err(|error| error.to_string())?;
        self.parsed(LINK_LINE_BYTES_MAX)
    }

    async fn read_line(&mut self, bytes_max: u64) -> std::io::Result<usize> {
        self.line.clear();
        (&mut self.stream).take(bytes_max).read_until(b'\n', &mut self.line).await
    }

    fn parsed(&self, bytes_max: u64) -> Result<Message, String> {
        match self.line.last() {
            Some(b'\n') => parse(&self.line),
            Some(_) if self.line.len() as u64 == bytes_max => {
                Err("its message is too long".to_owned())
            }
            Some(_) | None => Err("it closed the connection".to_owned()),
        }
    }

    /// Waits until the peer closes the connection, or says something without being asked.
    pub(super) async fn ended(&mut self) -> String {
        match self.stream.fill_buf().await {
            Ok([]) => "it closed the connection".to_owned(),
            Ok(_) => NO_REPORT.to_owned(),
            Err(error) => error.to_string(),
        }
    }

    pub(super) async fn send(&mut self, message: &Message) -> Result<(), String> {
        self.send_bytes(&emit(message)).await
    }

    /// Sends an answer of JSON.
    pub(super) async fn send_answer(&mut self, text: &[u8]) -> Result<(), String> {
        self.send(&Message::Answered { bytes: text.len() as u64 }).await?;
        self.send_bytes(text).await
    }

    /// Sends bytes: each part must be taken in time.
    pub(super) async fn send_bytes(&mut self, bytes: &[u8]) -> Result<(), String> {
        for part in bytes.chunks(LINK_LINE_BYTES_MAX as usize) {
            within(self.stream.write_all(part)).await?;
        }
        within(self.stream.flush()).await
    }

    /// The bytes that follow a message: each part must come in time.
    pub(super) async fn receive_bytes(&mut self, count: u64) -> Result<Vec<u8>, String> {
        let mut bytes = Vec::new();
        while (bytes.len() as u64) < count {
            let part = (count - bytes.len() as u64).min(LINK_LINE_BYTES_MAX);
            let mut part = (&mut self.stream).take(part);
            if within(part.read_to_end(&mut bytes)).await? == 0 {
                return Err("it closed the connection".to_owned());
            }
        }
        Ok(bytes)
    }
}
