//! Routes of browser sessions: login, logout, the current user, a change of the own password.

use std::sync::Arc;

use access::{AccessError, Attempt, Identity, SECRET_BYTES, Via};
use api::{ChangePassword, Login, Me, Problem, ProblemKind};
use axum::Extension;
use axum::body::Bytes;
use axum::extract::{ConnectInfo, State};
use axum::http::{HeaderMap, HeaderName, header};
use axum::response::{AppendHeaders, IntoResponse, Response};

use super::{Answered, Gated, answer, browsers, no_random, no_version, parse, passwords, refused};
use crate::data_directory::random_bytes;
use crate::events::now;
use crate::http::answers::{problem, respond};
use crate::http::gate::{Asked, COOKIE, Gate, cookie};
use crate::http::peer::Peer;
use crate::management::hexadecimal;

/// Who wants a password looked at, and whether that is limited. The socket is the way in that is
/// always open: whoever may open it needs no password to do anything.
struct Asking {
    attempt: Attempt,
    is_limited: bool,
}

impl Asking {
    fn new(gate: &Gate, user: &str, peer: Peer, headers: &HeaderMap) -> Self {
        let browser = browsers::known(headers, user, gate.state().users.password(user));
        let user = user.chars().take(64).collect();
        let attempt = Attempt { user, address: peer.network(), browser };
        Self { attempt, is_limited: peer != Peer::Socket }
    }

    fn wait(&self, gate: &Gate) -> u64 {
        if self.is_limited { gate.state().limiter.wait(&self.attempt, now()) } else { 0 }
    }

    /// Where a password waits for its turn, and under which name.
    fn queue(&self, gate: &Gate) -> (&'static passwords::Queue, &str) {
        if !self.is_limited || gate.state().limiter.knows(&self.attempt) {
            (&passwords::KNOWN, &self.attempt.user)
        } else {
            (&passwords::STRANGERS, &self.attempt.address)
        }
    }

    /// Compares a password, unless there were too many wrong ones of late.
    async fn check_password(&self, gate: &Gate, user: &str, password: String) -> Answered<()> {
        let may_try = || match self.wait(gate) {
            0 => Ok(()),
            wait => Err(too_many(wait)),
        };
        may_try()?;
        let stored = gate.state().users.password(user).cloned();
        let (queue, who) = self.queue(gate);
        let right = passwords::is_right(queue, who, stored, password, may_try).await?;
        let mut state = gate.state();
        match right {
            _ if !self.is_limited => {}
            true => state.limiter.succeeded(&self.attempt),
            false => state.limiter.failed(&self.attempt, now()),
        }
        right.then_some(()).ok_or_else(|| refused(&AccessError::WrongPassword))
    }

    /// A refusal, with how long to wait if that helps.
    fn respond(&self, gate: &Gate, problem: Problem) -> Response {
        if problem.status != 429 {
            return respond(Err(problem));
        }
        let wait = self.wait(gate).max(1);
        ([(header::RETRY_AFTER, wait.to_string())], respond(Err(problem))).into_response()
    }
}

fn too_many(wait: u64) -> Problem {
    let detail = format!(
        "too many wrong passwords: try again in {wait} s, or from where this user logged in before"
    );
    problem(ProblemKind::TooManyAttempts, &detail)
}

pub(super) async fn login(
    State(gate): Gated,
    ConnectInfo(peer): ConnectInfo<Peer>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let Login { user, password } = match parse(&headers, &body) {
        Ok(login) => login,
        Err(problem) => return respond(Err(problem)),
    };
    let asking = Asking::new(&gate, &user, peer, &headers);
    let begun = match asking.check_password(&gate, &user, password).await {
        Ok(()) => begin_session(&gate, &user),
        Err(problem) if problem.status == 403 => Err(not_them()),
        Err(problem) => Err(problem),
    };
    let response = match begun {
        Ok((secret, me)) => {
            let secure = secure(peer);
            let cookie = format!("{COOKIE}={secret}; HttpOnly; SameSite=Strict; Path=/{secure}");
            let remembered = remember(&gate, &user, peer);
            ([(header::SET_COOKIE, cookie)], remembered, answer(Ok(me))).into_response()
        }
        Err(problem) => asking.respond(&gate, problem),
    };
    note(&gate, peer, &user, response.status().as_u16());
    response
}

/// `Secure` attribute for cookies of encrypted connections.
fn secure(peer: Peer) -> &'static str {
    if matches!(peer, Peer::Tls(_)) { "; Secure" } else { "" }
}

/// A cookie by which the browser is known the next time.
fn remember(gate: &Gate, user: &str, peer: Peer) -> AppendHeaders<Option<(HeaderName, String)>> {
    let state = gate.state();
    let hash = state.users.password(user);
    let cookie = hash.and_then(|hash| browsers::cookie(hash, user, secure(peer)));
    AppendHeaders(cookie.map(|cookie| (header::SET_COOKIE, cookie)))
}

/// Notes a login. Who gave a wrong name may have typed the password there.
fn note(gate: &Arc<Gate>, peer: Peer, user: &str, status: u16) {
    if status == 429 {
        // Guesses must not push everything else out of the log.
        return;
    }
    let known = gate.state().users.user(user).map(|user| user.name);
    gate.note(known.unwrap_or_default(), "password", peer, Asked::new("POST", "/v1/login"), status);
}

fn not_them() -> Problem {
    problem(ProblemKind::WrongLogin, "user or password is wrong")
}

fn begin_session(gate: &Gate, user: &str) -> Answered<(String, Me)> {
    let secret = random_bytes::<SECRET_BYTES>().map_err(|_| no_random())?;
    let csrf = hexadecimal(&random_bytes::<16>().map_err(|_| no_random())?);
    let mut state = gate.state();
    let identity = state.users.identify_session(user).ok_or_else(not_them)?;
    state.sessions.begin(&secret, user, csrf.clone(), now());
    Ok((hexadecimal(&secret), describe(identity, Some(csrf))))
}

fn describe(identity: Identity, csrf: Option<String>) -> Me {
    Me {
        user: identity.user,
        role: identity.role,
        csrf,
        must_change_password: identity.must_change_password,
    }
}

pub(super) async fn logout(State(gate): Gated, headers: HeaderMap) -> Response {
    if let Some(secret) = cookie(&headers) {
        gate.state().sessions.end(&secret);
    }
    let gone = format!("{COOKIE}=; HttpOnly; SameSite=Strict; Path=/; Max-Age=0");
    ([(header::SET_COOKIE, gone)], answer(Ok(serde_json::json!({})))).into_response()
}

pub(super) async fn me(
    State(gate): Gated,
    Extension(identity): Extension<Identity>,
    headers: HeaderMap,
) -> Response {
    let mut state = gate.state();
    let secret = cookie(&headers).filter(|_| identity.via == Via::Session);
    let session = secret.and_then(|secret| state.sessions.find(&secret, now()));
    answer(Ok(describe(identity, session.map(|session| session.csrf.clone()))))
}

pub(super) async fn change_own_password(
    State(gate): Gated,
    ConnectInfo(peer): ConnectInfo<Peer>,
    Extension(identity): Extension<Identity>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let user = &identity.user;
    let asking = Asking::new(&gate, user, peer, &headers);
    let changed = async {
        let ChangePassword { old, new } = parse(&headers, &body)?;
        if identity.via == Via::Socket {
            let detail = "the socket belongs to no user: PATCH /v1/users/{user} sets a password";
            return Err(problem(ProblemKind::Conflict, detail));
        }
        no_version(&headers)?;
        let same = old == new;
        asking.check_password(&gate, user, old).await?;
        if same {
            return Err(refused(&AccessError::SamePassword));
        }
        let hash = passwords::hash(new).await?;
        gate.change(|users: &mut access::Users| users.choose_password(user, hash)).await?;
        gate.state().sessions.end_others_of(user, cookie(&headers).as_deref());
        Ok(serde_json::json!({}))
    };
    match changed.await {
        Ok(done) => (remember(&gate, user, peer), answer(Ok(done))).into_response(),
        Err(problem) => asking.respond(&gate, problem),
    }
}
