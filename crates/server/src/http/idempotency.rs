//! Idempotent requests: a repeated `Idempotency-Key` gets the first answer.

use std::collections::{BTreeMap, VecDeque};
use std::hash::{DefaultHasher, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use access::Identity;
use api::{ProblemKind, Route};
use axum::Extension;
use axum::body::{Bytes, to_bytes};
use axum::extract::{Request, State};
use axum::http::{StatusCode, header, request};
use axum::middleware::Next;
use axum::response::Response;

use super::answers::refuse;
use crate::events::now;
use crate::limits::{
    ANSWERS_KEPT_BYTES_MAX, ANSWERS_KEPT_MAX, ANSWERS_KEPT_SECONDS, BODY_BYTES_MAX,
    IMPORT_BYTES_MAX,
};

#[cfg(test)]
mod tests;

const HEADER: &str = "idempotency-key";

/// Characters of a key at most.
const KEY_LENGTH_MAX: usize = 64;

/// User and key of a request.
type Key = (String, String);

/// The first answers to requests with a key.
#[derive(Debug, Default)]
pub(super) struct FirstAnswers(Mutex<Kept>);

/// The middleware of one route.
#[derive(Clone)]
pub(super) struct Once {
    pub(super) first: Arc<FirstAnswers>,
    pub(super) route: Route,
}

#[derive(Debug, Default)]
struct Kept {
    answers: BTreeMap<Key, First>,
    /// When each key was first used, oldest first.
    order: VecDeque<(u64, Key)>,
    /// Bytes of all answers that are kept.
    bytes: usize,
}

/// A request with a key, and its answer.
#[derive(Clone, Debug)]
struct First {
    /// Hash of the request.
    request: u64,
    /// The answer, once it is there.
    answer: Option<(StatusCode, Bytes)>,
}

/// Decision about a request with a key.
#[derive(Debug)]
enum Verdict {
    Run,
    Repeat(StatusCode, Bytes),
    UnderWay,
    AnotherRequest,
    /// The table of requests with keys is full.
    Full,
}

impl FirstAnswers {
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    fn begin(&mut self, key: &Key, request: u64, now: u64) -> Verdict {
        self.forget_old(now);
        match self.answers.get(key) {
            Some(kept) if kept.request != request => Verdict::AnotherRequest,
            Some(First { answer: Some((status, body)), .. }) => {
                Verdict::Repeat(*status, body.clone())
            }
            Some(_) => Verdict::UnderWay,
            None => self.remember(key, request, now),
        }
    }

    fn remember(&mut self, key: &Key, request: u64, now: u64) -> Verdict {
        if self.answers.len() >= ANSWERS_KEPT_MAX && !self.make_room() {
            return Verdict::Full;
        }
        self.answers.insert(key.clone(), First { request, answer: None });
        self.order.push_back((now, key.clone()));
        Verdict::Run
    }

    /// Keeps the answer of a request, or forgets the request so that it may be tried again.
    fn end(&mut self, key: &Key, answer: Option<(StatusCode, Bytes)>) {
        let Some((status, body)) = answer else { return self.forget(key) };
        if let Some(kept) = self.answers.get_mut(key) {
            self.bytes += body.len();
            kept.answer = Some((status, body));
        }
        while self.bytes > ANSWERS_KEPT_BYTES_MAX && self.make_room() {}
    }

    fn forget(&mut self, key: &Key) {
        if let Some(First { answer: Some((_, body)), .. }) = self.answers.remove(key) {
            self.bytes -= body.len();
        }
        self.order.retain(|(_, other)| other != key);
    }

    fn forget_old(&mut self, now: u64) {
        while let Some((since, key)) = self.order.front().cloned()
            && since + ANSWERS_KEPT_SECONDS <= now
        {
            self.forget(&key);
        }
    }

    /// Forgets the oldest answer of the user who has most, so that nobody can push out the answers
    /// that others may still need. What is under way stays: sent again, it would be carried out
    /// twice. False if everything is under way.
    fn make_room(&mut self) -> bool {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        let done = self.answers.iter().filter(|(_, first)| first.answer.is_some());
        done.for_each(|((user, _), _)| *counts.entry(user).or_default() += 1);
        let Some((&user, _)) = counts.iter().max_by_key(|(_, count)| **count) else { return false };
        let is_done = |key: &Key| self.answers.get(key).is_some_and(|kept| kept.answer.is_some());
        let oldest = self.order.iter().find(|(_, key)| key.0 == user && is_done(key));
        let Some((_, key)) = oldest.cloned() else { return false };
        self.forget(&key);
        true
    }
}

/// Answers a request with a key that was seen before as it was answered then.
pub(super) async fn once(
    State(Once { first, route }): State<Once>,
    Extension(identity): Extension<Identity>,
    request: Request,
    next: Next,
) -> Response {
    let Some(key) = request.headers().get(HEADER) else { return next.run(request).await };
    let text = key.to_str().unwrap_or_default();
    let is_printable = text.bytes().all(|byte| byte.is_ascii_graphic());
    if !(1..=KEY_LENGTH_MAX).contains(&text.len()) || !is_printable {
        let detail = "an Idempotency-Key has 1 to 64 printable characters, no spaces";
        return refuse(ProblemKind::InvalidRequest, detail);
    }
    let key = (identity.user.clone(), text.to_owned());
    let (parts, body) = request.into_parts();
    let bytes_max = body_bytes_max(route);
    let Ok(body) = to_bytes(body, bytes_max).await else {
        let detail = format!("a body has at most {} KiB here", bytes_max >> 10);
        return refuse(ProblemKind::TooLarge, &detail);
    };
    let asked = fingerprint(&parts, &body, &identity, route);
    let what = first.kept().begin(&key, asked, now());
    match what {
        Verdict::Run => {
            let under_way = UnderWay { first: &first, key };
            let response = next.run(Request::from_parts(parts, body.into())).await;
            under_way.end(response).await
        }
        Verdict::Repeat(status, body) => answer(status, body),
        Verdict::UnderWay => refuse(
            ProblemKind::KeyUnderWay,
            "the first request with this key is under way: wait for it",
        ),
        Verdict::AnotherRequest => {
            let detail = "this Idempotency-Key was used for another request: choose a new one";
            refuse(ProblemKind::KeyUsedBefore, detail)
        }
        Verdict::Full => {
            let detail = "too many requests with an Idempotency-Key are under way: try again";
            refuse(ProblemKind::Busy, detail)
        }
    }
}

fn body_bytes_max(route: Route) -> usize {
    match route {
        Route::ImportConfiguration => IMPORT_BYTES_MAX,
        _ => BODY_BYTES_MAX,
    }
}

/// What tells requests of one user apart: method, path, query, the precondition, the body, and what
/// the caller may do. The answer to a new token holds its secret, so only the caller that made the
/// token may see it.
fn fingerprint(parts: &request::Parts, body: &[u8], identity: &Identity, route: Route) -> u64 {
    let mut hasher = DefaultHasher::new();
    let mut add = |part: &[u8]| {
        hasher.write_usize(part.len());
        hasher.write(part);
    };
    add(parts.method.as_str().as_bytes());
    parts.uri.path().split('/').for_each(|step| add(&decoded(step)));
    let query = parts.uri.query().unwrap_or_default().replace('+', " ");
    let mut pairs: Vec<_> = query.split('&').filter(|pair| !pair.is_empty()).collect();
    // In any order, but those of one name in theirs, of which the last one counts.
    pairs.sort_by_key(|pair| decoded(pair.split('=').next().unwrap_or_default()));
    pairs.iter().for_each(|pair| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        add(&decoded(name));
        add(&decoded(value));
    });
    add(b"?");
    for name in [header::IF_MATCH, header::IF_NONE_MATCH] {
        parts.headers.get_all(name).iter().for_each(|value| add(value.as_bytes()));
        add(b"?");
    }
    add(identity.role.name().as_bytes());
    if route == Route::CreateToken {
        add(identity.via.name().as_bytes());
        add(identity.token.as_deref().unwrap_or_default().as_bytes());
    }
    add(body);
    hasher.finish()
}

/// Bytes of a part of a path or query, without percent-encoding.
fn decoded(text: &str) -> Vec<u8> {
    let (mut rest, mut bytes) = (text.as_bytes(), Vec::with_capacity(text.len()));
    while let Some((&first, others)) = rest.split_first() {
        let is_code = |digits: &&[u8]| first == b'%' && digits.iter().all(u8::is_ascii_hexdigit);
        let digits = others.get(..2).filter(is_code).and_then(|digits| str::from_utf8(digits).ok());
        let byte = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        bytes.push(byte.unwrap_or(first));
        rest = if byte.is_some() { &others[2..] } else { others };
    }
    bytes
}

/// A request whose answer will be kept. One that ends without an answer is forgotten.
struct UnderWay<'a> {
    first: &'a FirstAnswers,
    key: Key,
}

impl UnderWay<'_> {
    async fn end(self, response: Response) -> Response {
        let status = response.status();
        if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS {
            // Worth another try.
            return response;
        }
        let Ok(body) = to_bytes(response.into_body(), usize::MAX).await else {
            return refuse(ProblemKind::Failed, "an answer could not be read again");
        };
        self.first.kept().end(&self.key, Some((status, body.clone())));
        answer(status, body)
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        let mut kept = self.first.kept();
        if kept.answers.get(&self.key).is_some_and(|kept| kept.answer.is_none()) {
            kept.end(&self.key, None);
        }
    }
}

fn answer(status: StatusCode, body: Bytes) -> Response {
    use axum::http::header::CONTENT_TYPE;
    use axum::response::IntoResponse;
    let kind = if status.is_success() { "application/json" } else { "application/problem+json" };
    (status, [(CONTENT_TYPE, kind)], body).into_response()
}
