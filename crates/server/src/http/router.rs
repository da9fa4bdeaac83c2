//! HTTP router, built from the table of routes.

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, LazyLock};

use access::Identity;
use api::{Format, Method, PATH_NAME_CHARACTERS_MAX, Problem, ProblemKind, ROUTES, Route, Row};
use axum::Extension;
use axum::Router;
use axum::body::{Bytes, HttpBody, to_bytes};
use axum::extract::{ConnectInfo, DefaultBodyLimit, Path, Query, Request, State};
use axum::http::{self, HeaderMap, HeaderValue, Uri, header};
use axum::middleware::{self, Next};
use axum::response::Response;
use axum::routing::{MethodRouter, delete, get, patch, post, put};
use control::precondition::Preconditions;
use futures_util::FutureExt;
use tokio::sync::oneshot;

use super::answers::{check_body, hand_on, problem, refuse, respond};
use super::compression::{compress, is_compressible};
use super::conventions::{View, one_form_of_refusal, present};
use super::gate::{Gate, Guard, guard};
use super::idempotency::{FirstAnswers, Once, once};
use super::peer::Peer;
use super::probe::Probe;
use super::stream::{self, Streams};
use super::{Answer, Call, Mailbox, Message, Reply, page, user_routes};
use crate::described::{Described, Written};
use crate::heartbeat::Heartbeat;
use crate::limits::{BODY_BYTES_MAX, BODY_PATIENCE, IMPORT_BYTES_MAX, READINESS_MAX};
use crate::management::Readiness;
use crate::yielding::pause;

#[cfg(test)]
mod tests;

/// State shared by all routes.
struct Shared {
    mailbox: Mailbox,
    heartbeat: Arc<Heartbeat>,
    gate: Arc<Gate>,
    streams: Arc<Streams>,
    first: Arc<FirstAnswers>,
}

/// Everything that is answered.
pub(super) fn router(mailbox: &Mailbox, heartbeat: &Arc<Heartbeat>, gate: &Arc<Gate>) -> Router {
    let shared = Shared {
        mailbox: mailbox.clone(),
        heartbeat: Arc::clone(heartbeat),
        gate: Arc::clone(gate),
        streams: Arc::new(Streams::new(mailbox.clone())),
        first: Arc::default(),
    };
    let mut router = Router::new();
    for row in ROUTES {
        let handlers = presented(handlers(row, &shared), row, &shared);
        let handlers = if is_compressible(row.method, row.route) {
            handlers.route_layer(middleware::from_fn(compress))
        } else {
            handlers
        };
        let handlers = match row.route {
            Route::ImportConfiguration => handlers.layer(DefaultBodyLimit::max(IMPORT_BYTES_MAX)),
            _ => handlers,
        };
        let handlers = handlers.route_layer(middleware::from_fn(check_names));
        router = router.route(row.path, guarded(handlers, row, &shared));
    }
    router
        .fallback(no_such_route)
        .method_not_allowed_fallback(no_such_method)
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .layer(middleware::from_fn(to_the_end))
        .layer(middleware::from_fn_with_state(Arc::clone(gate), refuse_strangers))
        .layer(middleware::from_fn(after_its_body))
        .layer(middleware::from_fn(one_form_of_refusal))
        .layer(middleware::from_fn(answered_all_the_same))
        .layer(middleware::from_fn(one_after_the_other))
}

/// Handlers of a route.
fn handlers(row: &'static Row, shared: &Shared) -> MethodRouter {
    let gate = || Arc::clone(&shared.gate);
    match row.route {
        Route::ShowHealth => health(Arc::clone(&shared.heartbeat)),
        Route::ShowReadiness => readiness(shared.mailbox.clone(), Arc::clone(&shared.heartbeat)),
        Route::Stream => stream::handlers(Arc::clone(&shared.streams), gate()),
        Route::ShowOpenApi => get(|| async { axum::Json(DOCUMENT.clone()) }),
        route => match user_routes::handlers(route) {
            Some(handlers) => handlers.with_state(gate()),
            None => method_router(row, shared.mailbox.clone()),
        },
    }
}

/// The OpenAPI document, made when the first one asks.
static DOCUMENT: LazyLock<serde_json::Value> = LazyLock::new(api::document);

/// The handlers with what all of their kind have in common.
fn presented(handlers: MethodRouter, row: &Row, shared: &Shared) -> MethodRouter {
    let route = row.route;
    match row.method {
        Method::Get if !is_presented(row) => handlers,
        Method::Get => {
            let view = Arc::new(View::new(route));
            handlers.route_layer(middleware::from_fn_with_state(view, present))
        }
        Method::Post if !row.is_about_oneself => {
            let once_of_route = Once { first: Arc::clone(&shared.first), route };
            handlers.route_layer(middleware::from_fn_with_state(once_of_route, once))
        }
        _ => handlers,
    }
}

/// Whether parts of an answer may be asked for, and its version is told.
fn is_presented(row: &Row) -> bool {
    row.method == Method::Get && row.format == Format::Json
}

/// Refuses a path with a name that no object can have: what is wrong about the request itself goes
/// before the state of things (RFC 9110 13.2.1).
async fn check_names(
    Path(names): Path<HashMap<String, String>>,
    request: Request,
    next: Next,
) -> Response {
    let is_long = |name: &String| name.chars().count() > PATH_NAME_CHARACTERS_MAX;
    if !names.values().any(is_long) {
        return next.run(request).await;
    }
    let detail = format!("a name in the path has at most {PATH_NAME_CHARACTERS_MAX} characters");
    refuse(ProblemKind::InvalidRequest, &detail)
}

/// The handlers behind a check of who is asking, unless everybody may.
fn guarded(handlers: MethodRouter, row: &Row, shared: &Shared) -> MethodRouter {
    if row.is_open {
        return handlers;
    }
    let guard_of_route = Guard {
        gate: Arc::clone(&shared.gate),
        streams: Arc::clone(&shared.streams),
        route: row.route,
        role: row.role,
    };
    handlers.route_layer(middleware::from_fn_with_state(guard_of_route, guard))
}

fn method_router(row: &'static Row, mailbox: Mailbox) -> MethodRouter {
    let handler = move |ConnectInfo(peer): ConnectInfo<Peer>,
                        identity: Option<Extension<Identity>>,
                        Path(mut parameters): Path<HashMap<String, String>>,
                        Query(query): Query<HashMap<String, String>>,
                        headers: HeaderMap,
                        body: Bytes| async move {
        if !body.is_empty()
            && let Err(problem) = check_body(&headers, &body)
        {
            return respond(Err(problem));
        }
        query.into_iter().for_each(|(name, value)| {
            parameters.entry(name).or_insert(value);
        });
        // Some answers and events depend on these; a query cannot say them.
        parameters.insert("peer".to_owned(), peer.kind().to_owned());
        let asker = identity.map(|Extension(identity)| identity.user).unwrap_or_default();
        parameters.insert("asker".to_owned(), asker);
        let preconditions = preconditions(row.method, &headers);
        let answer = ask(&mailbox, |reply| {
            let route = row.route;
            Call { route, parameters, body, preconditions, is_handed_on: false, reply }
        });
        let answer = answer.await;
        if is_presented(row) { hand_on(answer) } else { respond(answer) }
    };
    match row.method {
        Method::Get => get(handler),
        Method::Post => post(handler),
        Method::Put => put(handler),
        Method::Patch => patch(handler),
        Method::Delete => delete(handler),
    }
}

/// What a request that changes something says about versions. Those of one that shows something are
/// looked at when the answer is known ([`super::etag`]).
pub(super) fn preconditions(method: Method, headers: &HeaderMap) -> Preconditions {
    let named = |name| {
        let value: Option<&HeaderValue> = headers.get(name);
        value.map(|value| value.to_str().unwrap_or_default().to_owned())
    };
    let if_none_match = match method {
        Method::Get => None,
        Method::Post | Method::Put | Method::Patch | Method::Delete => named(header::IF_NONE_MATCH),
    };
    Preconditions { if_match: named(header::IF_MATCH), if_none_match }
}

/// Asks the reactor.
pub(crate) async fn ask(
    mailbox: &Mailbox,
    call: impl FnOnce(oneshot::Sender<Reply>) -> Call,
) -> Result<Written, Problem> {
    let (reply, answer) = oneshot::channel();
    mailbox.post(Message::Call(call(reply)));
    write(answer.await.unwrap_or_else(|_| Err(stopping()))?).await
}

/// Writes an answer, in a thread of its own if there may be much to write.
async fn write(described: Described) -> Answer {
    let written = match described {
        written @ Described::Written(_) => written.written(),
        unwritten @ Described::Unwritten(_) => {
            tokio::task::spawn_blocking(|| unwritten.written()).await.ok().flatten()
        }
    };
    written.ok_or_else(|| problem(ProblemKind::Failed, "a mistake in gantryd: see its log"))
}

/// Problem for a daemon that is stopping.
pub(super) fn stopping() -> Problem {
    problem(ProblemKind::Stopping, "the daemon is stopping: try again when it is back")
}

/// Whether the reactor goes on, whatever it is busy with.
fn health(heartbeat: Arc<Heartbeat>) -> MethodRouter {
    get(move || async move {
        respond(match heartbeat.silence() {
            None => Ok(Written::Plain("ok".into())),
            Some(silence) => {
                let detail = format!("the reactor is silent since {} s", silence.as_secs());
                Err(problem(ProblemKind::NotHealthy, &detail))
            }
        })
    })
}

/// Whether every pool serves and a login is answered.
fn readiness(mailbox: Mailbox, heartbeat: Arc<Heartbeat>) -> MethodRouter {
    let probe = Arc::new(Probe::new(Arc::clone(&heartbeat)));
    get(move || async move {
        if !heartbeat.is_serving() {
            return respond(Err(not_ready("the daemon is starting or stopping")));
        }
        let late = |_| Err(not_ready("the reactor does not answer"));
        let asked = tokio::time::timeout(READINESS_MAX, is_ready(&mailbox, &probe)).await;
        respond(asked.unwrap_or_else(late))
    })
}

async fn is_ready(mailbox: &Mailbox, probe: &Probe) -> Answer {
    let answer = ask(mailbox, |reply| Call::plain(Route::ShowReadiness, reply)).await?;
    let readiness = answer.into_value().map(serde_json::from_value);
    let Some(Ok(Readiness { portals, message })) = readiness else {
        return Err(not_ready("the reactor's answer is not known"));
    };
    probe.check(&portals).await.map_err(|why| not_ready(&why))?;
    Ok(Written::Plain(message.into()))
}

fn not_ready(detail: &str) -> Problem {
    problem(ProblemKind::NotReady, detail)
}

/// A file of the web page, or nothing.
async fn no_such_route(method: http::Method, uri: Uri, headers: HeaderMap) -> Response {
    page::serve(&method, uri.path(), &headers).unwrap_or_else(|| {
        let detail =
            format!("there is nothing at '{}': /v1/openapi.json lists every path", uri.path());
        refuse(ProblemKind::NoSuchPath, &detail)
    })
}

async fn no_such_method(uri: Uri) -> Response {
    let detail = format!("'{}' takes other methods: see the header Allow", uri.path());
    refuse(ProblemKind::MethodNotAllowed, &detail)
}

/// Carries out a change in a task of its own, so that a caller who hangs up does not stop it half
/// way: the array changes whether anybody waits for the answer or not, so the audit log must say
/// so, a key (`Idempotency-Key`) must know the answer, and a wrong password must count.
async fn to_the_end(request: Request, next: Next) -> Response {
    if request.method().is_safe() {
        return next.run(request).await;
    }
    let lost = |_| refuse(ProblemKind::Failed, "the request was not carried out: see the log");
    tokio::spawn(next.run(request)).await.unwrap_or_else(lost)
}

/// Gives the processor away between two requests, if this thread had it for long.
async fn one_after_the_other(request: Request, next: Next) -> Response {
    pause();
    let response = next.run(request).await;
    pause();
    response
}

/// Answers 500 where a handler panics: the request has failed, everything else goes on.
async fn answered_all_the_same(request: Request, next: Next) -> Response {
    let answer = AssertUnwindSafe(next.run(request)).catch_unwind().await;
    answer.unwrap_or_else(|_| refuse(ProblemKind::Failed, "a mistake in gantryd: see its log"))
}

/// Answers a request when it has arrived whole, unless it says that it is large or does not say how
/// large it is. A client that is refused while it still sends may meet a closed connection instead
/// of the answer (RFC 9112 9.6).
async fn after_its_body(request: Request, next: Next) -> Response {
    let size = request.body().size_hint().exact();
    if !size.is_some_and(|size| (1..=BODY_BYTES_MAX as u64).contains(&size)) {
        return next.run(request).await;
    }
    let (parts, body) = request.into_parts();
    match tokio::time::timeout(BODY_PATIENCE, to_bytes(body, BODY_BYTES_MAX)).await {
        Ok(Ok(body)) => next.run(Request::from_parts(parts, body.into())).await,
        Ok(Err(_)) => refuse(ProblemKind::InvalidRequest, "the body ended early: send it again"),
        Err(_) => {
            let detail = format!("no whole body in {} s: send it again", BODY_PATIENCE.as_secs());
            refuse(ProblemKind::TooSlow, &detail)
        }
    }
}

/// Keeps out web pages from elsewhere, and everybody from afar before the first password was
/// replaced.
async fn refuse_strangers(
    State(gate): State<Arc<Gate>>,
    ConnectInfo(peer): ConnectInfo<Peer>,
    request: Request,
    next: Next,
) -> Response {
    if is_foreign(peer, request.headers()) {
        return refuse(
            ProblemKind::ForeignPage,
            "web pages from elsewhere may not use this address",
        );
    }
    if peer.is_far() && !gate.has_own_password() {
        let detail = "the first password was not changed yet: log in on the array's own machine \
                      first";
        return refuse(ProblemKind::NotSetUp, detail);
    }
    next.run(request).await
}

/// A web page from elsewhere, open in the administrator's browser, could reach us. Its requests
/// carry an Origin other than our own; one that gave its own name our address is told by the Host,
/// which on loopback has to be the loopback address.
fn is_foreign(peer: Peer, headers: &HeaderMap) -> bool {
    let text = |name| headers.get(name).map(|value| value.to_str().unwrap_or_default());
    let host = text(header::HOST).unwrap_or_default();
    let (scheme, host_fits) = match peer {
        Peer::Socket => return false,
        Peer::Plain(_) => {
            let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
            ("http", ["localhost", "127.0.0.1", "[::1]"].contains(&name))
        }
        Peer::Tls(_) => ("https", true),
    };
    let is_own = |origin: &str| {
        origin.strip_prefix(scheme).and_then(|rest| rest.strip_prefix("://")) == Some(host)
    };
    !host_fits || text(header::ORIGIN).is_some_and(|origin| !is_own(origin))
}
