//! Requests of administrators that one controller hands on to another, which has the pools: each on a
//! connection of its own, with pinned certificates on both sides as all of the link.
//!
//! Who may ask is decided where they ask; what may be asked like this is decided by the one that answers. Both note
//! it in their audit logs. Users and tokens are taken over from the controller that has the pools, by the same way.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use api::{AuditEntry, Problem, ProblemKind, ROUTES, Route, Row};
use control::limits::LINK_BEAT;
use control::link::{Call, Message, emit};
use control::precondition::Preconditions;
use control::problems::{bad_request, conflict, internal, problem, unavailable};
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};
use tokio_rustls::client::TlsStream;

use super::connections::{Lines, connect};
use super::{Link, Shared};
use crate::described::{Described, Written};
use crate::events::now;
use crate::http::{self, Gate, Mailbox, Reply};
use crate::limits::{LINK_ANSWER_BYTES_MAX, LINK_CALL_BYTES_MAX, LINK_PATIENCE, LINK_RETRY};

/// Where requests go that other controllers hand on.
#[derive(Clone)]
pub(crate) struct Desk {
    pub(crate) mailbox: Mailbox,
    pub(crate) gate: Arc<Gate>,
}

/// Users and tokens that were taken over, or could not be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TakenUsers {
    from: u16,
    /// As that controller tells them.
    told: String,
    /// As they are known here: a program of another version may write them otherwise.
    own: String,
}

impl Link {
    /// Hands a request on to another controller, and answers with its answer.
    pub(crate) fn hand_on(&self, number: u16, call: http::Call) {
        let shared = Arc::clone(&self.shared);
        self.runtime.spawn(async move {
            let (reply, asked) = shared.outgoing(call);
            let answer = match asked {
                Ok(asked) => shared.ask(number, &asked).await,
                Err(problem) => Err(problem),
            };
            // Whoever asked may have gone away.
            let _ = reply.send(answer);
        });
    }

    /// Has other controllers answer with their lists, too, and answers with all of them as one.
    pub(crate) fn gather(&self, numbers: Vec<u16>, call: http::Call) {
        let shared = Arc::clone(&self.shared);
        self.runtime.spawn(async move {
            let (route, parameters) = (call.route, call.parameters.clone());
            let (reply, asked) = shared.outgoing(call);
            let own = http::ask(&shared.desk.mailbox, |reply| http::Call {
                route,
                parameters,
                body: axum::body::Bytes::new(),
                preconditions: Preconditions::default(),
                is_handed_on: true,
                reply,
            });
            let answer = match asked {
                Ok(asked) => shared.gathered((route, own.await), &numbers, &asked).await,
                Err(problem) => Err(problem),
            };
            // Whoever asked may have gone away.
            let _ = reply.send(answer);
        });
    }
}

impl Shared {
    /// Lists of several controllers as one: whoever is not told of a volume may take it for deleted, so it is all
    /// or nothing.
    async fn gathered(
        self: &Arc<Self>,
        (route, own): (Route, Result<Written, Problem>),
        numbers: &[u16],
        asked: &Message,
    ) -> Reply {
        let mut lists = vec![own?.into_text()];
        for &number in numbers {
            lists.extend(self.ask(number, asked).await?.written().map(Written::into_text));
        }
        if lists.len() <= numbers.len() {
            return Err(internal(&"a list was not written"));
        }
        let all = joined(&lists);
        Ok(Described::of_another(if route == Route::ListTasks { newest_first(&all)? } else { all }))
    }

    fn outgoing(
        &self,
        call: http::Call,
    ) -> (tokio::sync::oneshot::Sender<Reply>, Result<Message, Problem>) {
        let http::Call { route, parameters, body, preconditions, reply, .. } = call;
        let Row { method, path, .. } = route.row();
        let Ok(body) = String::from_utf8(body.into()) else {
            return (reply, Err(bad_request(&"the body is no JSON")));
        };
        let Preconditions { if_match, if_none_match } = preconditions;
        let asked = Call {
            array: self.array.clone(),
            method: method.name().to_owned(),
            path: (*path).to_owned(),
            parameters: parameters.into_iter().collect(),
            body,
            if_match,
            if_none_match,
        };
        (reply, Ok(Message::Call(Box::new(asked))))
    }

    async fn ask(self: &Arc<Self>, number: u16, asked: &Message) -> Reply {
        let not_asked = |why: &str| {
            unavailable(&format!(
                "controller {number}, which has the pool, could not be asked: {why}. Nothing was changed; ask it itself"
            ))
        };
        let Ok(_place) = timeout(LINK_PATIENCE, self.handing_on.acquire()).await else {
            return Err(busy());
        };
        let line = emit(asked);
        if line.len() as u64 > LINK_CALL_BYTES_MAX {
            return Err(not_asked("the request is too long for the link"));
        }
        let mut lines = self.connected(number).await.map_err(|why| not_asked(&why))?;
        let answered = async {
            lines.send_bytes(&line).await?;
            lines.answer().await
        };
        let answered = tokio::select! {
            answered = answered => answered,
            () = self.is_silent(number) => Err("it is not heard any more".to_owned()),
        };
        let unknown = |why: String| {
            let detail = format!(
                "controller {number}, which has the pool, was asked, and how that ended is not known: {why}. \
                 See whether it was done"
            );
            problem(ProblemKind::Failed, &detail)
        };
        answered.map_err(unknown)?
    }

    async fn connected(
        self: &Arc<Self>,
        number: u16,
    ) -> Result<Lines<TlsStream<TcpStream>>, String> {
        let found = self.state().known.peers.get(&number).cloned();
        let found = found.and_then(|peer| peer.address.zip(peer.fingerprint));
        let (address, pinned) = found.ok_or("it is not known any more, or its address is not")?;
        connect(&self.identity, &address, pinned).await
    }

    /// Takes over the users and tokens of the controller that has the pools, if it tells others than are known here.
    pub(super) fn follow_users(self: &Arc<Self>, number: u16, told: Option<String>) {
        let Some(told) = told.filter(|_| self.desk.gate.authority() == Some(number)) else {
            return;
        };
        let taken = TakenUsers { from: number, own: self.desk.gate.digest(), told };
        let mut state = self.state();
        if taken.told == taken.own || state.taken_users.as_ref() == Some(&taken) {
            return;
        }
        state.taken_users = Some(taken.clone());
        drop(state);
        let shared = Arc::clone(self);
        tokio::spawn(async move {
            match shared.take_users(number).await {
                Ok(()) => {
                    let own = shared.desk.gate.digest();
                    shared.state().taken_users = Some(TakenUsers { own, ..taken });
                    tracing::info!(number, "users and tokens were taken over from a controller");
                }
                Err(error) => {
                    tracing::warn!(
                        number,
                        error,
                        "users and tokens of a controller are not taken over"
                    );
                    sleep(LINK_RETRY).await;
                    shared.state().taken_users = None;
                }
            }
        });
    }

    async fn take_users(self: &Arc<Self>, number: u16) -> Result<(), String> {
        let mut lines = self.connected(number).await?;
        lines.send(&Message::Users).await?;
        let answered = timeout(LINK_PATIENCE, lines.answered_text()).await;
        match answered.unwrap_or_else(|_| Err("it does not answer".to_owned()))? {
            Ok(text) => self.desk.gate.adopt(&text).await,
            Err(problem) => Err(problem.detail),
        }
    }

    /// Waits until a controller is not heard.
    async fn is_silent(&self, number: u16) {
        while self.state().current(number, self.clock()).is_some() {
            sleep(LINK_BEAT).await;
        }
    }

    /// Answers a request that another controller has handed on.
    pub(super) async fn answer_call<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        mut lines: Lines<S>,
        number: u16,
        call: Call,
    ) -> Result<(), String> {
        let Ok(_place) = timeout(LINK_PATIENCE, self.handed_on.acquire()).await else {
            return lines.send(&declined(busy())).await;
        };
        match self.carried_out(number, call).await.map(Written::into_text) {
            Ok(text) if text.len() as u64 <= LINK_ANSWER_BYTES_MAX => {
                lines.send_answer(&text).await
            }
            Ok(_) => lines.send(&declined(too_long())).await,
            Err(problem) => lines.send(&declined(problem)).await,
        }
    }

    async fn carried_out(&self, number: u16, call: Call) -> Result<Written, Problem> {
        if call.array != self.array {
            return Err(conflict(&"it is a controller of another array"));
        }
        let row =
            ROUTES.iter().find(|row| row.path == call.path && row.method.name() == call.method);
        let row = row.ok_or_else(|| {
            let what = format!(
                "the program of the other controller knows no {} {}",
                call.method, call.path
            );
            conflict(&what)
        })?;
        let Call { parameters, body, if_match, if_none_match, .. } = call;
        let (user, path) =
            (parameters.get("asker").cloned().unwrap_or_default(), filled(row.path, &parameters));
        let preconditions = Preconditions { if_match, if_none_match };
        let answer = http::ask(&self.desk.mailbox, |reply| http::Call {
            route: row.route,
            parameters: parameters.into_iter().collect(),
            body: body.into(),
            preconditions,
            is_handed_on: true,
            reply,
        });
        let answer = answer.await;
        if !row.route.only_reads() {
            self.desk.gate.audit.note(AuditEntry {
                number: 0,
                time: now(),
                user,
                via: "controller".to_owned(),
                source: number.to_string(),
                method: row.method.name().to_owned(),
                path,
                status: answer.as_ref().map_or_else(|problem| problem.status, |_| 200),
            });
        }
        answer
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Lines<S> {
    /// What the other controller answers.
    async fn answer(&mut self) -> Result<Reply, String> {
        Ok(self.answered_text().await?.map(Described::of_another))
    }

    async fn answered_text(&mut self) -> Result<Result<Vec<u8>, Problem>, String> {
        match self.receive_later().await? {
            Message::Answered { bytes } if bytes <= LINK_ANSWER_BYTES_MAX => {
                Ok(Ok(self.receive_bytes(bytes).await?))
            }
            Message::Declined { problem } => Ok(Err(*problem)),
            Message::Refused { reason } => Err(reason),
            Message::Answered { .. }
            | Message::Report(_)
            | Message::Join(_)
            | Message::Joined { .. }
            | Message::Call(_)
            | Message::Users
            | Message::Ended { .. } => Err("it said something that is no answer".to_owned()),
        }
    }
}

/// Arrays of JSON as one.
fn joined(lists: &[impl AsRef<[u8]>]) -> Vec<u8> {
    let inner = |list: &'_ [u8]| {
        let list = list.trim_ascii();
        let list = list.strip_prefix(b"[").and_then(|list| list.strip_suffix(b"]"));
        list.unwrap_or_default().trim_ascii().to_vec()
    };
    let lists = lists.iter().map(|list| inner(list.as_ref())).filter(|list| !list.is_empty());
    let lists: Vec<Vec<u8>> = lists.collect();
    [b"[".to_vec(), lists.join(&b','), b"]".to_vec()].concat()
}

/// Tasks of several controllers, the newest first; of those of one second, the higher number.
fn newest_first(list: &[u8]) -> Result<Vec<u8>, Problem> {
    let mut tasks: Vec<Value> = serde_json::from_slice(list).map_err(|error| internal(&error))?;
    tasks.sort_by_key(|task| Reverse((task["started"].as_u64(), task["id"].as_u64())));
    serde_json::to_vec(&tasks).map_err(|error| internal(&error))
}

fn declined(problem: Problem) -> Message {
    Message::Declined { problem: Box::new(problem) }
}

fn busy() -> Problem {
    problem(ProblemKind::Busy, &"too many requests are handed on already: try again in a moment")
}

fn too_long() -> Problem {
    conflict(&"the answer is too long for the link of controllers: ask the one that has the pool")
}

/// The path with its parameters in their places.
fn filled(path: &str, parameters: &BTreeMap<String, String>) -> String {
    let parts = path.split('/').map(|part| {
        let name = part.strip_prefix('{').and_then(|part| part.strip_suffix('}'));
        name.and_then(|name| parameters.get(name)).map_or(part, String::as_str)
    });
    http::shown_path(&parts.collect::<Vec<_>>().join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_several_controllers_are_one() {
        let lists: [&[u8]; 4] = [b"[1,2]", b" [ ]\n", b"[]", b"[{\"a\":[3]}]"];
        assert_eq!(joined(&lists), b"[1,2,{\"a\":[3]}]");
        assert_eq!(joined(&[b"[]"]), b"[]");
        let tasks = br#"[{"started":3,"id":2},{"started":1,"id":1},{"started":3,"id":9}]"#;
        let ids = |list: &[u8]| -> Vec<u64> {
            let list: Vec<Value> = serde_json::from_slice(list).unwrap();
            list.iter().filter_map(|task| task["id"].as_u64()).collect()
        };
        assert_eq!(ids(&newest_first(tasks).unwrap()), [9, 2, 1]);
    }

    #[test]
    fn a_path_has_its_parameters_in_their_places() {
        let parameters = [("pool", "p"), ("volume", "a\nb")];
        let parameters = parameters.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        let path = filled("/v1/volumes/{pool}/{volume}/size", &parameters);
        assert_eq!(path, "/v1/volumes/p/a\\nb/size");
        assert_eq!(filled("/v1/hosts", &parameters), "/v1/hosts");
    }
}
