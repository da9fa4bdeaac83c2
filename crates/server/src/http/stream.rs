//! Server-sent events: what happens, as it happens, for everybody who looks at a page.
//!
//! One task asks the reactor once a second, however many clients listen; it rests while there are
//! none. A client that is too slow misses messages.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use access::Identity;
use api::{Event as Happened, ProblemKind, Route};
use axum::Extension;
use axum::extract::{ConnectInfo, State};
use axum::http::{HeaderMap, header};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get};
use futures_util::stream;
use serde_json::{Value, json};
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;

use super::answers::refuse;
use super::gate::Gate;
use super::peer::Peer;
use super::router::ask;
use super::{Call, Mailbox};
use crate::limits::{STREAM_BACKLOG, STREAMS_MAX, STREAMS_PER_USER_MAX};

/// How often rates and events are told.
const INTERVAL: Duration = Duration::from_secs(1);

/// Something to tell: the kind, and JSON.
type SentEvent = (&'static str, Arc<str>);

/// Everybody who looks.
pub(super) struct Streams {
    mailbox: Mailbox,
    told: broadcast::Sender<SentEvent>,
    state: Mutex<Looking>,
}

#[derive(Default)]
struct Looking {
    /// How many streams each user has.
    users: BTreeMap<String, usize>,
    /// Whether the task runs.
    is_fed: bool,
}

impl Streams {
    pub(super) fn new(mailbox: Mailbox) -> Self {
        let (told, _) = broadcast::channel(STREAM_BACKLOG);
        Self { mailbox, told, state: Mutex::default() }
    }

    fn looking(&self) -> std::sync::MutexGuard<'_, Looking> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells that a path was changed.
    pub(super) fn changed(&self, path: &str) {
        self.tell("changed", &json!(collections(path)));
    }

    fn tell(&self, kind: &'static str, value: &Value) {
        self.tell_text(kind, value.to_string().as_bytes());
    }

    fn tell_text(&self, kind: &'static str, json: &[u8]) {
        // Sending fails only if there are no clients.
        let _ = self.told.send((kind, String::from_utf8_lossy(json).into()));
    }

    /// One more stream, unless there are too many.
    fn join(self: &Arc<Self>, user: &str) -> Option<Place> {
        let mut looking = self.looking();
        let of_user = looking.users.get(user).copied().unwrap_or_default();
        if of_user >= STREAMS_PER_USER_MAX || looking.users.values().sum::<usize>() >= STREAMS_MAX {
            return None;
        }
        looking.users.insert(user.to_owned(), of_user + 1);
        if !std::mem::replace(&mut looking.is_fed, true) {
            tokio::spawn(feed(Arc::clone(self)));
        }
        Some(Place { streams: Arc::clone(self), user: user.to_owned() })
    }

    /// Whether the task may rest; then another one is started for the next who looks.
    fn may_rest(&self) -> bool {
        let mut looking = self.looking();
        looking.is_fed = !looking.users.is_empty();
        !looking.is_fed
    }
}

/// A stream's place among those that there may be.
struct Place {
    streams: Arc<Streams>,
    user: String,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut looking = self.streams.looking();
        if let Some(count) = looking.users.get_mut(&self.user) {
            *count -= 1;
            if *count == 0 {
                looking.users.remove(&self.user);
            }
        }
    }
}

/// Handlers of the route.
pub(super) fn handlers(streams: Arc<Streams>, gate: Arc<Gate>) -> MethodRouter {
    get(look).with_state((streams, gate))
}

type Shared = (Arc<Streams>, Arc<Gate>);

async fn look(
    State((streams, gate)): State<Shared>,
    ConnectInfo(peer): ConnectInfo<Peer>,
    Extension(identity): Extension<Identity>,
    headers: HeaderMap,
) -> Response {
    let receiver = streams.told.subscribe();
    let Some(place) = streams.join(&identity.user) else {
        let refused = refuse(ProblemKind::TooManyStreams, "close another page or program first");
        return ([(header::RETRY_AFTER, "10")], refused).into_response();
    };
    let look = Look { gate, peer, headers, receiver, _place: place };
    let events = stream::unfold(look, |mut look| async move {
        let (kind, text) = look.next().await?;
        let event = Event::default().event(kind).data(&*text);
        Some((Ok::<_, Infallible>(event), look))
    });
    let no_store = [(header::CACHE_CONTROL, "no-store")];
    (no_store, Sse::new(events).keep_alive(KeepAlive::default())).into_response()
}

/// One client of the stream.
struct Look {
    gate: Arc<Gate>,
    peer: Peer,
    headers: HeaderMap,
    receiver: broadcast::Receiver<SentEvent>,
    _place: Place,
}

impl Look {
    /// The next thing to tell; nothing more once it is somebody who may not look any more.
    async fn next(&mut self) -> Option<SentEvent> {
        loop {
            match self.receiver.recv().await {
                Ok(told) => {
                    return self.gate.may_still_look(self.peer, &self.headers).then_some(told);
                }
                Err(RecvError::Lagged(_)) => {}
                Err(RecvError::Closed) => return None,
            }
        }
    }
}

/// Tells rates and events until nobody looks.
async fn feed(streams: Arc<Streams>) {
    let mut timer = tokio::time::interval(INTERVAL);
    let mut last = None;
    loop {
        timer.tick().await;
        if streams.may_rest() {
            return;
        }
        if let Ok(live) = question(&streams, Route::ShowLive).await {
            streams.tell_text("live", &live.into_text());
        }
        if let Ok(events) = question(&streams, Route::ListEvents).await {
            tell_new(&streams, &events.into_text(), &mut last);
        }
    }
}

async fn question(streams: &Streams, route: Route) -> super::Answer {
    ask(&streams.mailbox, |reply| Call::plain(route, reply)).await
}

/// Tells events that were not there at the last look, and those that came again since; at the first
/// one there is nothing new.
fn tell_new(streams: &Streams, events: &[u8], last: &mut Option<BTreeMap<u64, u64>>) {
    let events: Vec<Happened> = serde_json::from_slice(events).unwrap_or_default();
    let counts = events.iter().map(|event| (event.number, event.count)).collect();
    let Some(before) = last.replace(counts) else { return };
    let is_new = |event: &&Happened| before.get(&event.number) != Some(&event.count);
    let new: Vec<&Happened> = events.iter().filter(is_new).collect();
    if !new.is_empty() {
        streams.tell("events", &json!(new));
        streams.tell("changed", &json!(["events", "pools", "volumes"]));
    }
}

/// The collections that look different after a change of a path.
fn collections(path: &str) -> Vec<&str> {
    match path.trim_start_matches("/v1/").split('/').next().unwrap_or_default() {
        "volumes" => vec!["volumes", "pools"],
        "snapshots" => vec!["snapshots", "volumes", "pools"],
        "portal-groups" => vec!["portals"],
        collection => vec![collection],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_told_by_the_collections_that_it_touches() {
        for (path, expected) in [
            ("/v1/hosts/esx1", &["hosts"][..]),
            ("/v1/volumes/p/v/maps/any", &["volumes", "pools"]),
            ("/v1/snapshots", &["snapshots", "volumes", "pools"]),
            ("/v1/portal-groups/1/state", &["portals"]),
        ] {
            assert_eq!(collections(path), expected);
        }
    }
}
