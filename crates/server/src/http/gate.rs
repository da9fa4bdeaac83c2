//! Who is asking, and whether that is allowed.

use std::sync::{Arc, Mutex, MutexGuard};

use access::{AccessError, Identity, Limiter, PasswordHash, SECRET_BYTES, Sessions, Users, Via};
use anyhow::Result;
use api::{AuditEntry, Method, Problem, Role};
use axum::extract::{ConnectInfo, MatchedPath, Request, State};
use axum::http::{HeaderMap, header};
use axum::middleware::Next;
use axum::response::Response;

use super::audit::Audit;
use super::peer::Peer;
use super::{problem, respond};
use crate::data_directory::{DataDirectory, random_bytes};
use crate::events::now;

/// The name of the cookie of a browser's session.
pub(super) const COOKIE: &str = "gantry_session";

/// The header that goes with a change that a browser asks for.
const CSRF_HEADER: &str = "x-gantry-csrf";

/// The first user.
const FIRST_USER: &str = "admin";

/// Knows everybody.
pub(crate) struct Gate {
    state: Mutex<GateState>,
    directory: Arc<DataDirectory>,
}

/// What the gate remembers.
pub(super) struct GateState {
    pub(super) users: Users,
    pub(super) sessions: Sessions,
    pub(super) limiter: Limiter,
    pub(super) audit: Audit,
}

impl Gate {
    /// Reads who there is. At the first start makes an administrator, and prints the password once.
    pub(crate) fn open(directory: Arc<DataDirectory>) -> Result<Self> {
        let mut users = directory.load_users()?;
        if users.is_empty() {
            let password = hexadecimal(&random_bytes::<12>()?);
            let hash = PasswordHash::new(&password, &random_bytes()?)?;
            users.add(FIRST_USER, Role::Admin, hash, true, now())?;
            directory.save_users(&users)?;
            eprintln!(
                "first start: log in as '{FIRST_USER}' with the password {password} and change it; it is not shown again"
            );
        }
        let audit = Audit::open(directory.path())?;
        let (sessions, limiter) = (Sessions::default(), Limiter::default());
        let state = Mutex::new(GateState { users, sessions, limiter, audit });
        Ok(Self { state, directory })
    }

    pub(super) fn state(&self) -> MutexGuard<'_, GateState> {
        self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Changes users or tokens, and saves them; if that fails, nothing was changed.
    pub(super) fn change<T>(
        &self,
        change: impl FnOnce(&mut Users) -> Result<T, AccessError>,
    ) -> Result<T, Problem> {
        let mut state = self.state();
        let mut users = state.users.clone();
        let changed = change(&mut users).map_err(|error| refused(&error))?;
        self.directory.save_users(&users).map_err(|error| {
            tracing::error!(%error, "users cannot be saved");
            problem(500, "Not saved", "the data directory cannot be written: see the log")
        })?;
        state.users = users;
        Ok(changed)
    }

    /// Who sent a request, if that can be told.
    fn identify(&self, peer: Peer, headers: &HeaderMap) -> Option<Identity> {
        if peer == Peer::Socket {
            return Some(Identity {
                user: "local".to_owned(),
                role: Role::Admin,
                via: Via::Socket,
                must_change_password: false,
            });
        }
        let mut state = self.state();
        if let Some(secret) = bearer(headers) {
            return state.users.identify_token(&secret, now());
        }
        let user = state.sessions.find(&cookie(headers)?, now())?.user.clone();
        state.users.identify_session(&user)
    }

    /// Whether a change that a browser asks for comes from our own page.
    fn csrf_fits(&self, headers: &HeaderMap) -> bool {
        let sent = headers.get(CSRF_HEADER).and_then(|value| value.to_str().ok());
        let mut state = self.state();
        let session = cookie(headers).and_then(|secret| state.sessions.find(&secret, now()));
        session.is_some_and(|session| sent == Some(session.csrf.as_str()))
    }

    fn check(&self, peer: Peer, request: &Request) -> Result<Identity, Problem> {
        let headers = request.headers();
        let identity = self.identify(peer, headers).ok_or_else(|| {
            problem(401, "Not logged in", "log in at /v1/login, or send 'Authorization: Bearer TOKEN'")
        })?;
        let path = request.extensions().get::<MatchedPath>().map_or("", MatchedPath::as_str);
        let changes = !request.method().is_safe();
        if identity.via == Via::Session && changes && !self.csrf_fits(headers) {
            let detail = "send what /v1/login answered as 'csrf' in the header X-Gantry-Csrf";
            return Err(problem(403, "Not from our page", detail));
        }
        if identity.must_change_password && !["/v1/me", "/v1/me/password", "/v1/logout"].contains(&path) {
            let detail = "change the password first: PUT /v1/me/password";
            return Err(problem(403, "Password must be changed", detail));
        }
        let needed = needed_role(request.method().as_str(), path);
        if identity.role < needed {
            let detail = format!("this needs the role '{}'", role_name(needed));
            return Err(problem(403, "Not allowed", &detail));
        }
        Ok(identity)
    }

    fn note(&self, identity: Option<&Identity>, peer: Peer, method: String, path: String, status: u16) {
        let via = identity.map_or("none", |identity| match identity.via {
            Via::Socket => "socket",
            Via::Session => "session",
            Via::Token => "token",
        });
        self.state().audit.note(AuditEntry {
            time: now(),
            user: identity.map(|identity| identity.user.clone()).unwrap_or_default(),
            via: via.to_owned(),
            source: peer.source(),
            method,
            path,
            status,
        });
    }
}

/// Lets a request through to its route, or answers why not; notes every change.
pub(super) async fn guard(
    State(gate): State<Arc<Gate>>,
    ConnectInfo(peer): ConnectInfo<Peer>,
    mut request: Request,
    next: Next,
) -> Response {
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let checked = gate.check(peer, &request);
    let (identity, response) = match checked {
        Ok(identity) => {
            request.extensions_mut().insert(identity.clone());
            (Some(identity), next.run(request).await)
        }
        Err(problem) => (gate.identify(peer, request.headers()), respond(Err(problem))),
    };
    if !method.is_safe() {
        let status = response.status().as_u16();
        gate.note(identity.as_ref(), peer, method.to_string(), path, status);
    }
    response
}

/// The role that a route needs.
fn needed_role(method: &str, path: &str) -> Role {
    let method_is = |of: Method| of.name() == method;
    if let Some((.., route)) = api::ROUTES.iter().find(|(of, at, _)| method_is(*of) && *at == path) {
        return route.role();
    }
    match path {
        "/v1/users" | "/v1/users/{user}" | "/v1/audit" => Role::Admin,
        _ => Role::Viewer,
    }
}

pub(super) fn role_name(role: Role) -> &'static str {
    match role {
        Role::Viewer => "viewer",
        Role::Operator => "operator",
        Role::Admin => "admin",
    }
}

fn bearer(headers: &HeaderMap) -> Option<Vec<u8>> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    from_hexadecimal(value.strip_prefix("Bearer ")?)
}

/// What names a browser's session.
pub(super) fn cookie(headers: &HeaderMap) -> Option<Vec<u8>> {
    let cookies = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut pairs = cookies.flat_map(|value| value.split(';')).filter_map(|pair| pair.trim().split_once('='));
    from_hexadecimal(pairs.find(|(name, _)| *name == COOKIE)?.1)
}

/// What an error of this room means in HTTP.
pub(super) fn refused(error: &AccessError) -> Problem {
    let (status, title) = match error {
        AccessError::NoUser(_) | AccessError::NoToken(_) => (404, "Not found"),
        AccessError::Exists(_) | AccessError::LastAdmin(_) => (409, "Conflict"),
        AccessError::WrongPassword | AccessError::TokenRole => (403, "Not allowed"),
        AccessError::TooManyUsers | AccessError::TooManyTokens => (507, "Too many"),
        _ => (400, "Bad request"),
    };
    problem(status, title, &error.to_string())
}

pub(super) fn hexadecimal(bytes: &[u8]) -> String {
    crate::management::hexadecimal(bytes)
}

fn from_hexadecimal(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes();
    let sound = digits.len() == 2 * SECRET_BYTES && digits.iter().all(u8::is_ascii_hexdigit);
    let byte = |pair: &[u8; 2]| u8::from_str_radix(str::from_utf8(pair).ok()?, 16).ok();
    sound.then(|| digits.as_chunks::<2>().0.iter().map(byte).collect()).flatten()
}
