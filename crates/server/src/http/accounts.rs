//! Logging in, users, tokens and the audit log: what the HTTP thread answers by itself.

use std::sync::Arc;

use access::{AccessError, Identity, NewTokenSpec, PasswordHash, SECRET_BYTES};
use api::{
    AuditEntry, ChangePassword, ChangeUser, CreateToken, CreateUser, Login, Me, NewToken, Problem,
    Role, Token, User,
};
use axum::body::Bytes;
use axum::extract::{ConnectInfo, Path, Query, State};
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post, put};
use axum::{Extension, Router};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::gate::{COOKIE, Gate, cookie, hexadecimal, refused};
use super::peer::Peer;
use super::{problem, respond};
use crate::data_directory::random_bytes;
use crate::events::now;
use crate::limits::AUDIT_SHOWN_MAX;

type Gated = State<Arc<Gate>>;
type Answered<T> = Result<T, Problem>;

/// The routes for which one must be recognised.
pub(super) fn routes() -> Router<Arc<Gate>> {
    Router::new()
        .route("/v1/logout", post(logout))
        .route("/v1/me", get(me))
        .route("/v1/me/password", put(change_own_password))
        .route("/v1/users", get(list_users).post(create_user))
        .route("/v1/users/{user}", axum::routing::patch(change_user).delete(delete_user))
        .route("/v1/tokens", get(list_tokens).post(create_token))
        .route("/v1/tokens/{token}", axum::routing::delete(delete_token))
        .route("/v1/audit", get(list_audit))
}

/// The route by which one becomes recognised.
pub(super) fn login_route() -> Router<Arc<Gate>> {
    Router::new().route("/v1/login", post(login))
}

fn answer<T: Serialize>(answered: Answered<T>) -> Response {
    respond(answered.and_then(|value| {
        serde_json::to_value(value).map_err(|_| problem(500, "Internal", "an answer has no JSON"))
    }))
}

fn parse<T: DeserializeOwned>(headers: &HeaderMap, body: &Bytes) -> Answered<T> {
    if !super::is_json(headers) {
        return Err(problem(415, "Unsupported media type", "send a body as application/json"));
    }
    // What serde says of a body could quote a password.
    serde_json::from_slice(body).map_err(|_| {
        problem(400, "Bad request", "the body is not the JSON object that /v1/openapi.json describes")
    })
}

/// Hashing takes tens of milliseconds, so not on the thread that serves everybody.
async fn hash(password: String) -> Answered<PasswordHash> {
    let work = move || {
        let salt = random_bytes().map_err(|_| no_random())?;
        PasswordHash::new(&password, &salt).map_err(|error| refused(&error))
    };
    tokio::task::spawn_blocking(work).await.map_err(|_| stopping())?
}

async fn is_of(hash: Option<PasswordHash>, password: String) -> Answered<bool> {
    let work = move || match hash {
        Some(hash) => hash.is_of(&password),
        // As slow as a user that exists, so that names cannot be guessed by time.
        None => PasswordHash::new(&format!("{password:10}"), &[0; 16]).is_err(),
    };
    tokio::task::spawn_blocking(work).await.map_err(|_| stopping())
}

fn no_random() -> Problem {
    problem(500, "Internal", "the system has no random numbers")
}

fn stopping() -> Problem {
    problem(503, "Stopping", "the daemon is stopping: try again when it is back")
}

async fn login(
    State(gate): Gated,
    ConnectInfo(peer): ConnectInfo<Peer>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let Login { user, password } = match parse(&headers, &body) {
        Ok(login) => login,
        Err(problem) => return respond(Err(problem)),
    };
    let keys = [format!("user {}", user.chars().take(64).collect::<String>()), peer.source()];
    let keys = keys.each_ref().map(String::as_str);
    let wait = gate.state().limiter.wait(&keys, now());
    if wait > 0 {
        let detail = format!("too many wrong passwords: try again in {wait} s");
        let answer = respond(Err(problem(429, "Too many attempts", &detail)));
        return ([(header::RETRY_AFTER, wait.to_string())], answer).into_response();
    }
    let stored = gate.state().users.password(&user).cloned();
    let right = is_of(stored.clone(), password).await;
    let begun = right.and_then(|right| match right && stored.is_some() {
        true => begin_session(&gate, &user),
        false => Err(problem(401, "Wrong", "user or password is wrong")),
    });
    match &begun {
        Ok(_) => gate.state().limiter.succeeded(&keys),
        Err(_) => gate.state().limiter.failed(&keys, now()),
    }
    match begun {
        Ok((secret, me)) => {
            let secure = if matches!(peer, Peer::Tls(_)) { "; Secure" } else { "" };
            let cookie = format!("{COOKIE}={secret}; HttpOnly; SameSite=Strict; Path=/{secure}");
            ([(header::SET_COOKIE, cookie)], answer(Ok(me))).into_response()
        }
        Err(problem) => respond(Err(problem)),
    }
}

fn begin_session(gate: &Gate, user: &str) -> Answered<(String, Me)> {
    let secret = random_bytes::<SECRET_BYTES>().map_err(|_| no_random())?;
    let csrf = hexadecimal(&random_bytes::<16>().map_err(|_| no_random())?);
    let mut state = gate.state();
    let identity = state.users.identify_session(user);
    let identity = identity.ok_or_else(|| problem(401, "Wrong", "user or password is wrong"))?;
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

async fn logout(State(gate): Gated, headers: HeaderMap) -> Response {
    if let Some(secret) = cookie(&headers) {
        gate.state().sessions.end(&secret);
    }
    answer(Ok(serde_json::json!({})))
}

async fn me(State(gate): Gated, Extension(identity): Extension<Identity>, headers: HeaderMap) -> Response {
    let mut state = gate.state();
    let secret = cookie(&headers).filter(|_| identity.via == access::Via::Session);
    let session = secret.and_then(|secret| state.sessions.find(&secret, now()));
    answer(Ok(describe(identity, session.map(|session| session.csrf.clone()))))
}

async fn change_own_password(
    State(gate): Gated,
    Extension(identity): Extension<Identity>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let changed = async {
        let ChangePassword { old, new } = parse(&headers, &body)?;
        let stored = gate.state().users.password(&identity.user).cloned();
        if !is_of(stored, old.clone()).await? {
            return Err(refused(&AccessError::WrongPassword));
        }
        if old == new {
            return Err(refused(&AccessError::SamePassword));
        }
        let hash = hash(new).await?;
        gate.change(|users| users.set_password(&identity.user, hash, false))?;
        Ok(serde_json::json!({}))
    };
    answer(changed.await)
}

async fn list_users(State(gate): Gated) -> Response {
    let users: Vec<User> = gate.state().users.users().collect();
    answer(Ok(users))
}

async fn create_user(State(gate): Gated, headers: HeaderMap, body: Bytes) -> Response {
    let created = async {
        let CreateUser { name, role, password } = parse(&headers, &body)?;
        let hash = hash(password).await?;
        gate.change(|users| users.add(&name, role, hash, true, now()))
    };
    answer(created.await)
}

async fn change_user(
    State(gate): Gated,
    Path(user): Path<String>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let changed = async {
        let ChangeUser { role, password } = parse(&headers, &body)?;
        let hash = match password {
            Some(password) => Some(hash(password).await?),
            None => None,
        };
        let ends_sessions = hash.is_some();
        let described = gate.change(|users| {
            if let Some(role) = role {
                users.set_role(&user, role)?;
            }
            if let Some(hash) = hash {
                users.set_password(&user, hash, true)?;
            }
            users.user(&user).ok_or_else(|| AccessError::NoUser(user.clone()))
        })?;
        if ends_sessions {
            gate.state().sessions.end_all_of(&user);
        }
        Ok(described)
    };
    answer(changed.await)
}

async fn delete_user(State(gate): Gated, Path(user): Path<String>) -> Response {
    let deleted = gate.change(|users| users.remove(&user));
    if deleted.is_ok() {
        gate.state().sessions.end_all_of(&user);
    }
    answer(deleted.map(|()| serde_json::json!({})))
}

/// An administrator sees all tokens, others their own.
async fn list_tokens(State(gate): Gated, Extension(identity): Extension<Identity>) -> Response {
    let mine = |token: &Token| identity.role == Role::Admin || token.user == identity.user;
    let tokens: Vec<Token> = gate.state().users.tokens().filter(mine).collect();
    answer(Ok(tokens))
}

async fn create_token(
    State(gate): Gated,
    Extension(identity): Extension<Identity>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let created = || {
        let CreateToken { name, role, expires_in_days: days } = parse(&headers, &body)?;
        let owner = token_owner(&gate, &identity);
        let secret = random_bytes::<SECRET_BYTES>().map_err(|_| no_random())?;
        let spec = NewTokenSpec { name: &name, user: &owner, role, days };
        let token = gate.change(|users| users.add_token(&spec, &secret, now()))?;
        Ok(NewToken { token, secret: hexadecimal(&secret) })
    };
    answer(created())
}

/// Whoever may open the socket makes tokens for the first administrator.
fn token_owner(gate: &Gate, identity: &Identity) -> String {
    match identity.via {
        access::Via::Socket => {
            let state = gate.state();
            let mut admins = state.users.users().filter(|user| user.role == Role::Admin);
            admins.next().map(|user| user.name).unwrap_or_default()
        }
        _ => identity.user.clone(),
    }
}

async fn delete_token(
    State(gate): Gated,
    Extension(identity): Extension<Identity>,
    Path(id): Path<String>,
) -> Response {
    let deleted = gate.change(|users| {
        let mine = |token: &Token| identity.role == Role::Admin || token.user == identity.user;
        let found = users.tokens().find(|token| token.id == id).filter(mine).is_some();
        match found {
            true => users.remove_token(&id),
            false => Err(AccessError::NoToken(id.clone())),
        }
    });
    answer(deleted.map(|()| serde_json::json!({})))
}

#[derive(serde::Deserialize)]
struct Last {
    limit: Option<usize>,
}

async fn list_audit(State(gate): Gated, Query(last): Query<Last>) -> Response {
    let entries: Vec<AuditEntry> = gate.state().audit.latest(last.limit.unwrap_or(AUDIT_SHOWN_MAX));
    answer(Ok(entries))
}
