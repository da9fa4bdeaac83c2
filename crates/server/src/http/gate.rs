//! Authenticates and authorises requests: session, token or Unix socket; role; origin.

use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use access::{
    AccessError, BrowserSessions, Identity, Limiter, PasswordHash, SECRET_BYTES, Users, Via,
};
use anyhow::Result;
use api::{AuditEntry, Problem, ProblemKind, Role, Route};
use axum::extract::{ConnectInfo, Request, State};
use axum::http::{HeaderMap, header};
use axum::middleware::Next;
use axum::response::Response;
use sha2::{Digest, Sha256};

use super::answers::{problem, respond};
use super::audit::{Audit, shown_path};
use super::peer::Peer;
use super::stream::Streams;
use crate::data_directory::{DataDirectory, random_bytes};
use crate::events::now;
use crate::logs;
use crate::management::hexadecimal;

/// The name of the cookie of a browser's session.
pub(super) const COOKIE: &str = "gantry_session";

/// The header that goes with a change that a browser asks for.
const CSRF_HEADER: &str = "x-gantry-csrf";

/// The first user.
const FIRST_USER: &str = "admin";

/// Bytes by which the users of two controllers are compared.
const DIGEST_BYTES: usize = 16;

/// Knows everybody.
pub(crate) struct Gate {
    state: Mutex<GateState>,
    /// Lock held during a change of users and tokens, until they are saved.
    changing: tokio::sync::Mutex<()>,
    directory: Arc<DataDirectory>,
    pub(crate) audit: Arc<Audit>,
    /// The controller that has the pools, if that is another one: its users and tokens are the array's. Else 0.
    authority: AtomicU16,
}

/// State of the gate.
pub(super) struct GateState {
    pub(super) users: Users,
    /// By which others see whether they know the same users.
    digest: String,
    pub(super) sessions: BrowserSessions,
    pub(super) limiter: Limiter,
}

impl GateState {
    /// Ends all sessions of a user who is gone or whose password somebody else set, and forgets
    /// where the user logged in from.
    pub(super) fn forget(&mut self, user: &str) {
        self.sessions.end_all_of(user);
        self.limiter.forget(user);
    }
}

impl Gate {
    /// Reads who there is. At the first start makes an administrator, and prints the password once.
    pub(crate) fn open(directory: Arc<DataDirectory>, audit: Arc<Audit>) -> Result<Self> {
        let mut users = directory.load_users()?;
        if users.is_empty() {
            let password = hexadecimal(&random_bytes::<12>()?);
            let hash = PasswordHash::new(&password, &random_bytes()?)?;
            users.add(FIRST_USER, Role::Admin, hash, true, now())?;
            directory.save_users(&users)?;
            show_first_password(&password);
        }
        let (sessions, limiter) = (BrowserSessions::default(), Limiter::default());
        let digest = digest_of(&users);
        let state = Mutex::new(GateState { users, digest, sessions, limiter });
        let (changing, authority) = (tokio::sync::Mutex::default(), AtomicU16::new(0));
        Ok(Self { state, changing, directory, audit, authority })
    }

    /// Which other controller has the pools, if one has all of them and is heard: users and tokens are changed there.
    pub(crate) fn set_authority(&self, controller: Option<u16>) {
        self.authority.store(controller.unwrap_or(0), Ordering::Relaxed);
    }

    /// The controller whose users and tokens are taken over, if that is another one.
    pub(crate) fn authority(&self) -> Option<u16> {
        Some(self.authority.load(Ordering::Relaxed)).filter(|&number| number > 0)
    }

    /// By which others see whether they know the same users and tokens.
    pub(crate) fn digest(&self) -> String {
        self.state().digest.clone()
    }

    /// Users and tokens as another controller takes them over: hashes of passwords and secrets among them.
    pub(crate) fn users_text(&self) -> Vec<u8> {
        text_of(&self.state().users)
    }

    /// Takes the users and tokens of the controller that has the pools. Sessions of those who are gone, or have
    /// another password, end.
    ///
    /// # Errors
    /// When it is none that this program can read, has nobody, or cannot be saved: nothing was changed.
    pub(crate) async fn adopt(&self, text: &[u8]) -> Result<(), String> {
        let users: Users = serde_json::from_slice(text).map_err(|error| error.to_string())?;
        if users.is_empty() {
            return Err("it has no users".to_owned());
        }
        let _others_wait = self.changing.lock().await;
        self.save(&users).await?;
        let mut state = self.state();
        let before = std::mem::replace(&mut state.users, users);
        state.digest = digest_of(&state.users);
        let is_another = |name: &String| before.password(name) != state.users.password(name);
        let changed: Vec<String> =
            before.users().map(|user| user.name).filter(is_another).collect();
        changed.iter().for_each(|name| state.forget(name));
        Ok(())
    }

    async fn save(&self, users: &Users) -> Result<(), String> {
        let (directory, wanted) = (Arc::clone(&self.directory), users.clone());
        let save = tokio::task::spawn_blocking(move || directory.save_users(&wanted));
        let saved = save.await.unwrap_or_else(|error| Err(error.into()));
        saved.map_err(|error| format!("{error:#}"))
    }

    pub(super) fn state(&self) -> MutexGuard<'_, GateState> {
        self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Whether the password of the first start was replaced.
    pub(super) fn has_own_password(&self) -> bool {
        self.state().users.has_own_password()
    }

    /// Changes users or tokens, and saves them; if that fails, nothing was changed. Others are
    /// answered while the disk is waited for.
    pub(crate) async fn change<T>(
        &self,
        change: impl FnOnce(&mut Users) -> Result<T, AccessError>,
    ) -> Result<T, Problem> {
        let _others_wait = self.changing.lock().await;
        if let Some(number) = self.authority() {
            let detail = format!(
                "users, passwords and tokens are changed at controller {number}, which has the pools, and are copied \
                 from there. Nothing was changed"
            );
            return Err(problem(ProblemKind::Conflict, &detail));
        }
        let mut users = self.state().users.clone();
        let changed = change(&mut users).map_err(|error| refused(&error))?;
        if let Err(error) = self.save(&users).await {
            tracing::error!(error, "users cannot be saved");
            let detail = "the data directory cannot be written: see the log";
            return Err(problem(ProblemKind::Failed, detail));
        }
        let mut state = self.state();
        state.digest = digest_of(&users);
        state.users = users;
        Ok(changed)
    }

    /// Identity of the sender of a request, if it can be authenticated.
    fn identify(&self, peer: Peer, headers: &HeaderMap) -> Option<Identity> {
        if peer == Peer::Socket {
            return Some(Identity {
                user: "local".to_owned(),
                role: Role::Admin,
                via: Via::Socket,
                token: None,
                must_change_password: false,
            });
        }
        let mut state = self.state();
        if headers.contains_key(header::AUTHORIZATION) {
            return state.users.identify_token(&bearer(headers)?, now());
        }
        let user = state.sessions.find(&cookie(headers)?, now())?.user.clone();
        state.users.identify_session(&user)
    }

    /// Whether a client of the stream may go on.
    pub(super) fn may_still_look(&self, peer: Peer, headers: &HeaderMap) -> bool {
        self.identify(peer, headers).is_some_and(|identity| !identity.must_change_password)
    }

    /// Whether a change that a browser asks for comes from our own page.
    fn csrf_fits(&self, headers: &HeaderMap) -> bool {
        let sent = headers.get(CSRF_HEADER).and_then(|value| value.to_str().ok());
        let mut state = self.state();
        let session = cookie(headers).and_then(|secret| state.sessions.find(&secret, now()));
        session.is_some_and(|session| sent == Some(session.csrf.as_str()))
    }

    fn check(&self, guard: &Guard, peer: Peer, request: &Request) -> Result<Identity, Problem> {
        let headers = request.headers();
        let identity = self.identify(peer, headers).ok_or_else(|| {
            if headers.contains_key(header::AUTHORIZATION) {
                problem(
                    ProblemKind::TokenNotValid,
                    "the token is not known, or its time is over: POST /v1/tokens makes one",
                )
            } else {
                problem(
                    ProblemKind::NotLoggedIn,
                    "log in at /v1/login, or send 'Authorization: Bearer TOKEN'",
                )
            }
        })?;
        let changes = !request.method().is_safe();
        if identity.via == Via::Session && changes && !self.csrf_fits(headers) {
            let detail = "send what /v1/login answered as 'csrf' in the header X-Gantry-Csrf";
            return Err(problem(ProblemKind::ForeignPage, detail));
        }
        let about_oneself = [Route::ShowMe, Route::ChangePassword, Route::Logout];
        if identity.must_change_password && !about_oneself.contains(&guard.route) {
            let detail = "change the password first: PUT /v1/me/password";
            return Err(problem(ProblemKind::PasswordMustBeChanged, detail));
        }
        if identity.role < guard.role {
            let detail = format!("this needs the role '{}'", guard.role.name());
            let role = guard.role.name();
            return Err(problem(ProblemKind::NotAllowed, &detail).with("role", role));
        }
        Ok(identity)
    }

    /// Writes down who asked for which change, and what came of it.
    pub(super) fn note(&self, user: String, via: &str, peer: Peer, asked: Asked, status: u16) {
        self.audit.note(AuditEntry {
            number: 0,
            time: now(),
            user,
            via: via.to_owned(),
            source: peer.source(),
            method: asked.method,
            path: asked.path,
            status,
        });
    }
}

fn text_of(users: &Users) -> Vec<u8> {
    serde_json::to_vec(users).expect("names are texts")
}

fn digest_of(users: &Users) -> String {
    hexadecimal(&Sha256::digest(text_of(users))[..DIGEST_BYTES])
}

/// Request as the gate sees it.
pub(super) struct Asked {
    method: String,
    path: String,
}

impl Asked {
    pub(super) fn new(method: &str, path: &str) -> Self {
        Self { method: method.to_owned(), path: shown_path(path) }
    }
}

/// Middleware in front of a route.
#[derive(Clone)]
pub(super) struct Guard {
    pub(super) gate: Arc<Gate>,
    pub(super) streams: Arc<Streams>,
    pub(super) route: Route,
    /// The role that one needs.
    pub(super) role: Role,
}

/// Lets a request through to its route, or answers why not; notes every change that somebody known
/// asks for.
pub(super) async fn guard(
    State(guard): State<Guard>,
    ConnectInfo(peer): ConnectInfo<Peer>,
    mut request: Request,
    next: Next,
) -> Response {
    let gate = Arc::clone(&guard.gate);
    let path = request.uri().path().to_owned();
    let asked = Asked::new(request.method().as_str(), &path);
    let changes = !request.method().is_safe();
    let (identity, response) = match gate.check(&guard, peer, &request) {
        Ok(identity) => {
            request.extensions_mut().insert(identity.clone());
            (Some(identity), next.run(request).await)
        }
        Err(problem) => (gate.identify(peer, request.headers()), respond(Err(problem))),
    };
    if let Some(identity) = identity.filter(|_| changes) {
        if response.status().is_success() {
            guard.streams.changed(&path);
        }
        let status = response.status().as_u16();
        gate.note(identity.user, identity.via.name(), peer, asked, status);
    }
    response
}

/// Shows the password of the first user, once, on standard output: the log is kept, and others may
/// read it.
fn show_first_password(password: &str) {
    let shown = logs::show(format!(
        "First start: log in as '{FIRST_USER}' with the password {password} and change it; it is not shown again.\n"
    ));
    if let Err(error) = shown {
        tracing::error!(
            %error,
            "the first password could not be shown on standard output: on this machine, \
             'gantry user change {FIRST_USER} --password' sets another one"
        );
    }
}

fn bearer(headers: &HeaderMap) -> Option<Vec<u8>> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, secret) = value.split_once(' ')?;
    from_hexadecimal(secret.trim()).filter(|_| scheme.eq_ignore_ascii_case("bearer"))
}

/// Session cookie of a request.
pub(super) fn cookie(headers: &HeaderMap) -> Option<Vec<u8>> {
    from_hexadecimal(cookie_named(headers, COOKIE)?)
}

/// The value of a cookie.
pub(super) fn cookie_named<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let cookies = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let pairs = cookies.flat_map(|value| value.split(';'));
    let mut pairs = pairs.filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(other, _)| *other == name).map(|(_, value)| value)
}

/// Converts an error of `access` into a problem.
pub(super) fn refused(error: &AccessError) -> Problem {
    let is = |kind| problem(kind, &error.to_string());
    match error {
        AccessError::NoUser(name) => {
            is(ProblemKind::NotFound).with("object", "user").with("name", name.as_str())
        }
        AccessError::NoToken(id) => {
            is(ProblemKind::NotFound).with("object", "token").with("name", id.as_str())
        }
        AccessError::Changed(_) => is(ProblemKind::Changed),
        AccessError::Gone(_) => is(ProblemKind::NotThere),
        AccessError::Exists(name) => {
            is(ProblemKind::NameTaken).with("object", "user").with("name", name.as_str())
        }
        AccessError::LastAdmin(name) => {
            is(ProblemKind::LastAdministrator).with("user", name.as_str())
        }
        AccessError::TooManyUsers => is(ProblemKind::TooMany).with("object", "users"),
        AccessError::TooManyTokens => is(ProblemKind::TooMany).with("object", "tokens"),
        AccessError::TooManyTokensOfUser { max, .. } => {
            is(ProblemKind::TooMany).with("object", "tokens").with("max", *max)
        }
        AccessError::WrongPassword => is(ProblemKind::WrongPassword),
        AccessError::TokenRole => is(ProblemKind::TokenTooWide),
        AccessError::TokenTooLong { end } => is(ProblemKind::TokenTooLong).with("end", *end),
        AccessError::TokenDepth | AccessError::TokenOfAnother => is(ProblemKind::NotAllowed),
        AccessError::Name(_)
        | AccessError::PasswordLength(_)
        | AccessError::TokenDays
        | AccessError::SamePassword => is(ProblemKind::InvalidRequest),
    }
}

fn from_hexadecimal(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes();
    let sound = digits.len() == 2 * SECRET_BYTES && digits.iter().all(u8::is_ascii_hexdigit);
    let byte = |pair: &[u8; 2]| u8::from_str_radix(str::from_utf8(pair).ok()?, 16).ok();
    sound.then(|| digits.as_chunks::<2>().0.iter().map(byte).collect()).flatten()
}
