//! The management interface: HTTP on a Unix socket and on loopback, in a thread of its own. Every
//! request becomes a [`Call`] to the reactor, which alone knows the array.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::Sender;

use anyhow::{Context, Result, bail};
use api::{Method, Problem, ROUTES, Route};
use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, Path as Parameters, Query, Request};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, delete, get, patch, post, put};
use mio::Waker;
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::oneshot;

use crate::heartbeat::Heartbeat;
use crate::limits::READINESS_MAX;

/// The largest request body, in bytes; a larger one is answered 413.
const BODY_BYTES_MAX: usize = 64 << 10;

/// A request on its way to the reactor.
pub(crate) struct Call {
    pub(crate) route: Route,
    /// Names from the path, and from the query if the path does not have them.
    pub(crate) parameters: HashMap<String, String>,
    pub(crate) body: Bytes,
    pub(crate) reply: oneshot::Sender<Answer>,
}

/// What the reactor answers: an object, or why not.
pub(crate) type Answer = Result<serde_json::Value, Problem>;

/// Something that other threads tell the reactor.
pub(crate) enum Message {
    Call(Call),
    /// A state of a logical unit is on stable storage, or may not be.
    Stored {
        id: scsi::SaveId,
        stored: bool,
    },
    /// SIGTERM or SIGINT.
    Stop,
}

/// Hands messages to the reactor and wakes it.
#[derive(Clone)]
pub(crate) struct Mailbox {
    pub(crate) sender: Sender<Message>,
    pub(crate) waker: Arc<Waker>,
}

impl Mailbox {
    pub(crate) fn post(&self, message: Message) {
        // When the reactor is gone the daemon is stopping, and nobody waits for an answer.
        if self.sender.send(message).is_ok() {
            let _ = self.waker.wake();
        }
    }
}

/// Starts listening and answering. Returns when both listeners are open.
pub(crate) fn start(
    address: SocketAddr,
    socket: &Path,
    mailbox: Mailbox,
    heartbeat: Arc<Heartbeat>,
) -> Result<()> {
    if !address.ip().is_loopback() {
        bail!("--http {address} is not a loopback address: use 127.0.0.1 or [::1]");
    }
    let tcp = std::net::TcpListener::bind(address)
        .with_context(|| format!("cannot listen on --http {address}"))?;
    tcp.set_nonblocking(true)?;
    let unix = listen_unix(socket)?;
    let router = router(&mailbox, &heartbeat);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    std::thread::Builder::new().name("http".to_owned()).spawn(move || {
        runtime.block_on(async move {
            let serve = async {
                let tcp = TcpListener::from_std(tcp)?;
                let unix = UnixListener::from_std(unix)?;
                let guarded = router.clone().layer(middleware::from_fn(refuse_foreign_pages));
                tokio::try_join!(
                    axum::serve(tcp, guarded).into_future(),
                    axum::serve(unix, router).into_future()
                )
            };
            if let Err(error) = serve.await {
                tracing::error!(%error, "the management interface stopped");
            }
        });
    })?;
    Ok(())
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

fn router(mailbox: &Mailbox, heartbeat: &Arc<Heartbeat>) -> Router {
    let mut router = Router::new();
    for (method, path, route) in ROUTES {
        let handlers = match route {
            Route::ShowHealth => health(Arc::clone(heartbeat)),
            Route::ShowReadiness => readiness(mailbox.clone(), Arc::clone(heartbeat)),
            _ => method_router(method, route, mailbox.clone()),
        };
        router = router.route(path, handlers);
    }
    router.fallback(no_such_route).layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
}

fn method_router(method: Method, route: Route, mailbox: Mailbox) -> MethodRouter {
    let handler = move |Parameters(mut parameters): Parameters<HashMap<String, String>>,
                        Query(query): Query<HashMap<String, String>>,
                        headers: HeaderMap,
                        body: Bytes| async move {
        if !body.is_empty() && !is_json(&headers) {
            return refuse(415, "Unsupported media type", "send a body as application/json");
        }
        query.into_iter().for_each(|(name, value)| {
            parameters.entry(name).or_insert(value);
        });
        respond(ask(&mailbox, route, parameters, body).await)
    };
    match method {
        Method::Get => get(handler),
        Method::Post => post(handler),
        Method::Put => put(handler),
        Method::Patch => patch(handler),
        Method::Delete => delete(handler),
    }
}

/// Asks the reactor.
async fn ask(
    mailbox: &Mailbox,
    route: Route,
    parameters: HashMap<String, String>,
    body: Bytes,
) -> Answer {
    let (reply, answer) = oneshot::channel();
    mailbox.post(Message::Call(Call { route, parameters, body, reply }));
    let stopping = || unavailable("Stopping", "the daemon is stopping: try again when it is back");
    answer.await.unwrap_or_else(|_| Err(stopping()))
}

/// Whether the reactor goes on, whatever it is busy with.
fn health(heartbeat: Arc<Heartbeat>) -> MethodRouter {
    get(move || async move {
        respond(match heartbeat.silence() {
            None => Ok("ok".into()),
            Some(silence) => {
                let detail = format!("the reactor is silent since {} s", silence.as_secs());
                Err(unavailable("Not healthy", &detail))
            }
        })
    })
}

/// Whether hosts are let in and every pool serves.
fn readiness(mailbox: Mailbox, heartbeat: Arc<Heartbeat>) -> MethodRouter {
    get(move || async move {
        if !heartbeat.is_serving() {
            return respond(Err(unavailable("Not ready", "the daemon is starting or stopping")));
        }
        let asked = ask(&mailbox, Route::ShowReadiness, HashMap::new(), Bytes::new());
        let late = || Err(unavailable("Not ready", "the reactor does not answer"));
        respond(tokio::time::timeout(READINESS_MAX, asked).await.unwrap_or_else(|_| late()))
    })
}

fn unavailable(title: &str, detail: &str) -> Problem {
    Problem { status: 503, title: title.to_owned(), detail: detail.to_owned() }
}

fn is_json(headers: &HeaderMap) -> bool {
    let content_type = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    content_type.is_some_and(|value| value.split(';').next() == Some("application/json"))
}

async fn refuse_foreign_pages(request: Request, next: Next) -> Response {
    if is_foreign(request.headers()) {
        return refuse(403, "Forbidden", "only programs on this machine may use this address");
    }
    next.run(request).await
}

/// A web page from elsewhere, open in the administrator's browser, could reach a loopback port. Its
/// requests carry an Origin, or a Host that is not the loopback address.
fn is_foreign(headers: &HeaderMap) -> bool {
    let host = headers.get(header::HOST).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let host = host.rsplit_once(':').map_or(host, |(name, _)| name);
    headers.contains_key(header::ORIGIN) || !["localhost", "127.0.0.1", "[::1]"].contains(&host)
}

async fn no_such_route() -> Response {
    refuse(404, "Not found", "there is no such route: see the paths under /v1")
}

fn refuse(status: u16, title: &str, detail: &str) -> Response {
    respond(Err(Problem { status, title: title.to_owned(), detail: detail.to_owned() }))
}

fn respond(answer: Answer) -> Response {
    match answer {
        Ok(serde_json::Value::String(text)) => (StatusCode::OK, text).into_response(),
        Ok(value) => (StatusCode::OK, axum::Json(value)).into_response(),
        Err(problem) => {
            let status =
                StatusCode::from_u16(problem.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
            let kind = [(header::CONTENT_TYPE, "application/problem+json")];
            let body = serde_json::to_string(&problem).unwrap_or_default();
            (status, kind, body).into_response()
        }
    }
}
