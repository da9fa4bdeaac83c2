//! Routes for login, users, tokens and the audit log, which the HTTP thread answers by itself.

mod browsers;
mod passwords;
mod sessions;

use std::sync::Arc;

use access::{AccessError, Identity, NewTokenSpec, SECRET_BYTES, Users, Via};
use api::{
    ChangeUser, CreateToken, CreateUser, NewToken, Problem, ProblemKind, Role, Route, Token, User,
};
use axum::Extension;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, header};
use axum::response::Response;
use axum::routing::{MethodRouter, delete, get, patch, post, put};
use control::precondition::{self, Preconditions};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::answers::{check_body, problem, respond};
use super::gate::{Gate, refused};
use crate::data_directory::random_bytes;
use crate::described::Written;
use crate::events::now;
use crate::management::hexadecimal;

type Gated = State<Arc<Gate>>;
type Answered<T> = Result<T, Problem>;

/// Handlers of a route, if it is one of this module's.
pub(super) fn handlers(route: Route) -> Option<MethodRouter<Arc<Gate>>> {
    Some(match route {
        Route::Login => post(sessions::login),
        Route::Logout => post(sessions::logout),
        Route::ShowMe => get(sessions::me),
        Route::ChangePassword => put(sessions::change_own_password),
        Route::ListUsers => get(list_users),
        Route::CreateUser => post(create_user),
        Route::ShowUser => get(show_user),
        Route::ChangeUser => patch(change_user),
        Route::DeleteUser => delete(delete_user),
        Route::ListTokens => get(list_tokens),
        Route::CreateToken => post(create_token),
        Route::DeleteToken => delete(delete_token),
        Route::ListAudit => get(list_audit),
        _ => return None,
    })
}

fn answer<T: Serialize>(answered: Answered<T>) -> Response {
    respond(answered.and_then(|value| {
        serde_json::to_value(value)
            .map(Written::Value)
            .map_err(|_| problem(ProblemKind::Failed, "an answer has no JSON"))
    }))
}

fn parse<T: DeserializeOwned>(headers: &HeaderMap, body: &Bytes) -> Answered<T> {
    check_body(headers, body)?;
    // An error of serde about a body could quote a password.
    serde_json::from_slice(body).map_err(|error| {
        let (line, column) = (error.line(), error.column());
        let detail = format!(
            "the body is not what /v1/openapi.json describes, at line {line} column {column}"
        );
        problem(ProblemKind::InvalidRequest, &detail)
    })
}

fn no_random() -> Problem {
    problem(ProblemKind::Failed, "the system has no random numbers")
}

async fn list_users(State(gate): Gated) -> Response {
    let users: Vec<User> = gate.state().users.users().collect();
    answer(Ok(users))
}

async fn show_user(State(gate): Gated, Path(user): Path<String>) -> Response {
    let found = gate.state().users.user(&user);
    answer(found.ok_or_else(|| refused(&AccessError::NoUser(user))))
}

async fn create_user(State(gate): Gated, headers: HeaderMap, body: Bytes) -> Response {
    let created = async {
        let CreateUser { name, role, password, must_change_password } = parse(&headers, &body)?;
        no_version(&headers)?;
        let hash = passwords::hash(password).await?;
        let add = |users: &mut Users| users.add(&name, role, hash, must_change_password, now());
        gate.change(add).await
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
        let ChangeUser { role, password, must_change_password } = parse(&headers, &body)?;
        no_if_none_match(&headers)?;
        let hash = match password {
            Some(password) => Some(passwords::hash(password).await?),
            None => None,
        };
        let ends_sessions = hash.is_some();
        let described = gate.change(|users: &mut Users| {
            check_version(&headers, users, &user)?;
            if let Some(role) = role {
                users.set_role(&user, role)?;
            }
            if let Some(hash) = hash {
                users.reset_password(&user, hash)?;
            }
            if let Some(must) = must_change_password {
                users.set_must_change_password(&user, must)?;
            }
            users.user(&user).ok_or_else(|| AccessError::NoUser(user.clone()))
        });
        let described = described.await?;
        if ends_sessions {
            gate.state().forget(&user);
        }
        Ok(described)
    };
    answer(changed.await)
}

async fn delete_user(State(gate): Gated, Path(user): Path<String>, headers: HeaderMap) -> Response {
    if let Err(problem) = no_if_none_match(&headers) {
        return respond(Err(problem));
    }
    let deleted = gate.change(|users: &mut Users| {
        check_version(&headers, users, &user)?;
        users.remove(&user)
    });
    let deleted = deleted.await;
    if deleted.is_ok() {
        gate.state().forget(&user);
    }
    answer(deleted.map(|()| serde_json::json!({})))
}

/// Refuses a change of a user who is not what `If-Match` names any more.
fn check_version(headers: &HeaderMap, users: &Users, name: &str) -> Result<(), AccessError> {
    let Some(if_match) = headers.get(header::IF_MATCH) else { return Ok(()) };
    let user = users.user(name).ok_or_else(|| AccessError::Gone(name.to_owned()))?;
    let object = serde_json::to_value(user).unwrap_or_default();
    let if_match = Some(if_match.to_str().unwrap_or_default().to_owned());
    let checked = Preconditions { if_match, if_none_match: None }.check(Some(&object));
    checked.map_err(|_| AccessError::Changed(name.to_owned()))
}

/// Refuses preconditions where there is no object that they could name.
fn no_version(headers: &HeaderMap) -> Answered<()> {
    no_if_none_match(headers)?;
    if headers.contains_key(header::IF_MATCH) { Err(precondition::no_version()) } else { Ok(()) }
}

/// Refuses an `If-None-Match`: no request here makes the object that its path names.
fn no_if_none_match(headers: &HeaderMap) -> Answered<()> {
    let is_named = headers.contains_key(header::IF_NONE_MATCH);
    if is_named { Err(precondition::no_version()) } else { Ok(()) }
}

/// An administrator sees all tokens, others their own.
fn may_see(identity: &Identity, token: &Token) -> bool {
    identity.role == Role::Admin || token.user == identity.user
}

async fn list_tokens(State(gate): Gated, Extension(identity): Extension<Identity>) -> Response {
    let state = gate.state();
    let tokens = state.users.tokens().filter(|token| may_see(&identity, token));
    answer(Ok(tokens.collect::<Vec<_>>()))
}

async fn create_token(
    State(gate): Gated,
    Extension(identity): Extension<Identity>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let created = async {
        let CreateToken { name, role, expires_in_days: days } = parse(&headers, &body)?;
        no_version(&headers)?;
        if role > identity.role {
            return Err(refused(&AccessError::TokenRole));
        }
        let owner = token_owner(&gate, &identity);
        let secret = random_bytes::<SECRET_BYTES>().map_err(|_| no_random())?;
        let spec = NewTokenSpec {
            name: &name,
            user: &owner,
            role,
            days,
            parent: identity.token.as_deref(),
        };
        let add = |users: &mut Users| users.add_token(&spec, &secret, now());
        let token = gate.change(add).await?;
        Ok(NewToken { token, secret: hexadecimal(&secret) })
    };
    answer(created.await)
}

/// Owner of a new token: over the socket, the first administrator.
fn token_owner(gate: &Gate, identity: &Identity) -> String {
    if identity.via != Via::Socket {
        return identity.user.clone();
    }
    let state = gate.state();
    let mut admins = state.users.users().filter(|user| user.role == Role::Admin);
    admins.next().map(|user| user.name).unwrap_or_default()
}

async fn delete_token(
    State(gate): Gated,
    Extension(identity): Extension<Identity>,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Response {
    let delete = |users: &mut Users| {
        let found = users.tokens().find(|token| token.id == id);
        let Some(token) = found.filter(|token| may_see(&identity, token)) else {
            return Err(AccessError::NoToken(id.clone()));
        };
        if may_delete(&identity, users, &token) {
            users.remove_token(&id)
        } else {
            Err(AccessError::TokenOfAnother)
        }
    };
    let deleted = async {
        no_version(&headers)?;
        gate.change(delete).await
    };
    answer(deleted.await.map(|()| serde_json::json!({})))
}

/// A token must not end others of its user, which may allow more than it does.
fn may_delete(identity: &Identity, users: &Users, token: &Token) -> bool {
    let own = identity.token.as_ref();
    identity.role == Role::Admin || own.is_none_or(|own| users.descends(&token.id, own))
}

async fn list_audit(State(gate): Gated) -> Response {
    let entries = gate.audit.latest();
    answer(Ok(entries))
}
