//! HTTP server of the management interface: a Unix socket, HTTP on loopback, HTTPS anywhere, in a
//! thread of its own. It authorises requests and sends each one about the array to the reactor as a
//! [`Call`].

mod answers;
mod audit;
mod compression;
mod connections;
mod conventions;
mod doors;
mod etag;
mod gate;
mod idempotency;
mod lists;
mod page;
mod peer;
mod probe;
mod router;
mod stream;
mod tls;
mod user_routes;

use std::collections::BTreeSet;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, SyncSender, TrySendError, channel, sync_channel};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use api::{Problem, Route};
use axum::body::Bytes;
use control::precondition::Preconditions;
use mio::Waker;
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::oneshot;

use crate::data_directory::DataDirectory;
use crate::described::{Described, Written};
use crate::heartbeat::Heartbeat;
use crate::limits::{CALLS_WAITING_MAX, SOCKET_CONNECTIONS_MAX};
use crate::management::{Finished, SaveFailed};
use crate::options::HttpOptions;
use crate::yielding::{lower_priority, yielding};
use answers::problem;
use connections::{Serving, serve_tcp, serve_unix};
use tls::Certificate;

pub(crate) use audit::{Audit, shown_path};
pub(crate) use doors::{Closed, Doors, Place};
pub(crate) use gate::Gate;
pub(crate) use router::ask;
pub(crate) use tls::expires as certificate_expires;

/// A request on its way to the reactor.
pub(crate) struct Call {
    pub(crate) route: Route,
    /// Names from the path, and from the query if the path does not have them.
    pub(crate) parameters: HashMap<String, String>,
    pub(crate) body: Bytes,
    /// Which version of the object the change is meant for; empty for what changes nothing.
    pub(crate) preconditions: Preconditions,
    /// Whether another controller has handed it on: it is answered here or by nobody.
    pub(crate) is_handed_on: bool,
    pub(crate) reply: oneshot::Sender<Reply>,
}

impl Call {
    /// A question without parameters.
    fn plain(route: Route, reply: oneshot::Sender<Reply>) -> Self {
        let (parameters, body, preconditions) = Default::default();
        Self { route, parameters, body, preconditions, is_handed_on: false, reply }
    }
}

/// The reactor's answer: an object or a problem.
pub(crate) type Reply = Result<Described, Problem>;

/// The same, written.
type Answer = Result<Written, Problem>;

/// Something that other threads tell the reactor.
pub(crate) enum Message {
    Call(Call),
    /// A version of the configuration is on stable storage, or cannot be.
    Saved {
        number: u64,
        result: Result<BTreeSet<array::RecordKey>, SaveFailed>,
    },
    /// Work of the administrator's that took a thread of its own.
    Finished(Finished),
    /// A state of a logical unit is on stable storage, or may not be.
    Stored {
        id: scsi::SaveId,
        stored: bool,
    },
    /// Membership lists of mirrors up to a number are on stable storage, or why not.
    Witnessed {
        number: u64,
        problem: Option<String>,
    },
    /// Another controller said something new on the link.
    Heard,
    /// SIGTERM or SIGINT.
    Stop,
}

/// Hands messages to the reactor and wakes it.
#[derive(Clone)]
pub(crate) struct Mailbox {
    calls: SyncSender<Call>,
    others: Sender<Message>,
    waker: Arc<Waker>,
}

/// Where the reactor finds its messages. Calls, of which somebody may send as many as they like,
/// wait apart from what others have to tell.
pub(crate) struct Inbox {
    pub(crate) calls: Receiver<Call>,
    pub(crate) others: Receiver<Message>,
}

impl Mailbox {
    /// A mailbox and where its messages arrive.
    pub(crate) fn new(waker: Waker) -> (Self, Inbox) {
        let (calls, calls_inbox) = sync_channel(CALLS_WAITING_MAX);
        let (others, others_inbox) = channel();
        let inbox = Inbox { calls: calls_inbox, others: others_inbox };
        (Self { calls, others, waker: Arc::new(waker) }, inbox)
    }

    /// Posts a message. A call for which there is no room is answered 503.
    pub(crate) fn post(&self, message: Message) {
        // When the reactor is gone the daemon is stopping, and nobody waits for an answer.
        let posted = match message {
            Message::Call(call) => self.post_call(call),
            other => self.others.send(other).is_ok(),
        };
        if posted {
            let _ = self.waker.wake();
        }
    }

    fn post_call(&self, call: Call) -> bool {
        match self.calls.try_send(call) {
            Ok(()) => true,
            Err(TrySendError::Full(call)) => {
                let detail = "too many requests wait already: try again in a moment";
                let _ = call.reply.send(Err(problem(api::ProblemKind::Busy, detail)));
                false
            }
            Err(TrySendError::Disconnected(_)) => false,
        }
    }
}

/// Starts listening and answering. Returns when all listeners are open, with what is known of the
/// connections over TCP, of which there may be so many.
pub(crate) fn start(
    options: &HttpOptions,
    connections_max: usize,
    directory: &Arc<DataDirectory>,
    (mailbox, heartbeat, gate): (Mailbox, Arc<Heartbeat>, Arc<Gate>),
) -> Result<Arc<Doors>> {
    if !options.http.ip().is_loopback() {
        bail!(
            "--http {} is not a loopback address: use 127.0.0.1 or [::1], or --https",
            options.http
        );
    }
    let plain = listen(options.http, "--http")?;
    let encrypted = match options.https {
        Some(address) => {
            Some((listen(address, "--https")?, certificate(options, directory, address)?))
        }
        None => None,
    };
    let unix = listen_unix(&directory.socket_path())?;
    let router = router::router(&mailbox, &heartbeat, &gate);
    let per_address = (options.http_connections_per_address as usize).min(connections_max);
    let doors = Arc::new(Doors::new(connections_max, per_address));
    let of_socket = Arc::new(Doors::new(SOCKET_CONNECTIONS_MAX, SOCKET_CONNECTIONS_MAX));
    let patience = Duration::from_secs(options.http_timeout);
    let serving = Serving { router, doors: Arc::clone(&doors), patience };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    std::thread::Builder::new().name("http".to_owned()).spawn(move || {
        lower_priority();
        let listeners = Listeners { plain, encrypted, unix };
        let served = yielding(|| runtime.block_on(serve(listeners, serving, of_socket)));
        if let Err(error) = served {
            tracing::error!(%error, "the management interface stopped");
        }
    })?;
    Ok(doors)
}

/// Where the daemon listens for administrators.
struct Listeners {
    plain: std::net::TcpListener,
    encrypted: Option<(std::net::TcpListener, Certificate)>,
    unix: std::os::unix::net::UnixListener,
}

async fn serve(listeners: Listeners, serving: Serving, of_socket: Arc<Doors>) -> Result<()> {
    let plain = TcpListener::from_std(listeners.plain)?;
    let unix = UnixListener::from_std(listeners.unix)?;
    let tls = listeners.encrypted.map(|(listener, certificate)| {
        Ok::<_, anyhow::Error>((TcpListener::from_std(listener)?, certificate.acceptor()?))
    });
    let of_socket = Serving { doors: of_socket, ..serving.clone() };
    tokio::spawn(serve_unix(unix, of_socket));
    if let Some((listener, acceptor)) = tls.transpose()? {
        tokio::spawn(serve_tcp(listener, Some(acceptor), serving.clone()));
    }
    serve_tcp(plain, None, serving).await;
    Ok(())
}

fn listen(address: SocketAddr, option: &str) -> Result<std::net::TcpListener> {
    let listener = std::net::TcpListener::bind(address)
        .with_context(|| format!("cannot listen on {option} {address}: choose another one"))?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// The administrator's certificate, or one of the daemon's own.
fn certificate(
    options: &HttpOptions,
    directory: &DataDirectory,
    address: SocketAddr,
) -> Result<Certificate> {
    let certificate = match (&options.tls_certificate, &options.tls_key) {
        (Some(certificate), Some(key)) => {
            Certificate { certificate: certificate.clone(), key: key.clone() }
        }
        _ => Certificate::own(directory, address)?,
    };
    certificate.check()?;
    Ok(certificate)
}

fn listen_unix(path: &Path) -> Result<std::os::unix::net::UnixListener> {
    // The data directory is locked, so a socket that is there belongs to a daemon that is gone.
    if path.exists() {
        std::fs::remove_file(path)?;
    }
    let listener = std::os::unix::net::UnixListener::bind(path)
        .with_context(|| format!("cannot listen on {}", path.display()))?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}
