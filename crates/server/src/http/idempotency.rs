//! Requests that may be sent again: the same `Idempotency-Key` gives the first answer.

use std::collections::{BTreeMap, VecDeque};
use std::hash::{DefaultHasher, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use access::Identity;
use axum::Extension;
use axum::body::{Bytes, to_bytes};
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::middleware::Next;
use axum::response::Response;

use super::answers::refuse;
use crate::events::now;
use crate::limits::{ANSWERS_KEPT_MAX, ANSWERS_KEPT_SECONDS, BODY_BYTES_MAX};

#[cfg(test)]
mod tests;

const HEADER: &str = "idempotency-key";

/// Characters of a key at most.
const KEY_LENGTH_MAX: usize = 64;

/// Who sent a request, and by which key.
type Key = (String, String);

/// The first answers to requests with a key.
#[derive(Debug, Default)]
pub(super) struct FirstAnswers(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    answers: BTreeMap<Key, First>,
    /// When each key was first used, oldest first.
    order: VecDeque<(u64, Key)>,
}

/// What became of a request.
#[derive(Clone, Debug)]
struct First {
    /// What was asked for.
    request: u64,
    /// The answer, once it is there.
    answer: Option<(StatusCode, Bytes)>,
}

/// What is to happen with a request.
#[derive(Debug)]
enum Step {
    Run,
    Repeat(StatusCode, Bytes),
    UnderWay,
    AnotherRequest,
}

impl FirstAnswers {
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    fn begin(&mut self, key: &Key, request: u64, now: u64) -> Step {
        self.forget_old(now);
        match self.answers.get(key) {
            Some(kept) if kept.request != request => Step::AnotherRequest,
            Some(First { answer: Some((status, body)), .. }) => Step::Repeat(*status, body.clone()),
            Some(_) => Step::UnderWay,
            None => {
                self.answers.insert(key.clone(), First { request, answer: None });
                self.order.push_back((now, key.clone()));
                Step::Run
            }
        }
    }

    fn end(&mut self, key: &Key, answer: Option<(StatusCode, Bytes)>) {
        match answer {
            Some(_) => {
                if let Some(kept) = self.answers.get_mut(key) {
                    kept.answer = answer;
                }
            }
            None => {
                self.answers.remove(key);
                self.order.retain(|(_, other)| other != key);
            }
        }
    }

    fn forget_old(&mut self, now: u64) {
        let is_old = |(since, _): &(u64, Key)| since + ANSWERS_KEPT_SECONDS <= now;
        while self.order.len() >= ANSWERS_KEPT_MAX || self.order.front().is_some_and(is_old) {
            if let Some((_, key)) = self.order.pop_front() {
                self.answers.remove(&key);
            }
        }
    }
}

/// Answers a request with a key that was seen before as it was answered then.
pub(super) async fn once(
    State(first): State<Arc<FirstAnswers>>,
    Extension(identity): Extension<Identity>,
    request: Request,
    next: Next,
) -> Response {
    let Some(key) = request.headers().get(HEADER) else { return next.run(request).await };
    let text = key.to_str().unwrap_or_default();
    if !(1..=KEY_LENGTH_MAX).contains(&text.len()) {
        let detail = "an Idempotency-Key has 1 to 64 printable characters";
        return refuse(400, "Invalid request", detail);
    }
    let key = (identity.user, text.to_owned());
    let (parts, body) = request.into_parts();
    let Ok(body) = to_bytes(body, BODY_BYTES_MAX).await else {
        return refuse(413, "Too large", "a body has at most 64 KiB");
    };
    let asked = hash(&[parts.method.as_str().as_bytes(), parts.uri.path().as_bytes(), &body]);
    let what = first.kept().begin(&key, asked, now());
    match what {
        Step::Run => {
            let under_way = UnderWay { first: &first, key };
            let response = next.run(Request::from_parts(parts, body.into())).await;
            under_way.end(response).await
        }
        Step::Repeat(status, body) => answer(status, body),
        Step::UnderWay => {
            refuse(409, "Conflict", "the first request with this key is under way: wait for it")
        }
        Step::AnotherRequest => {
            let detail = "this Idempotency-Key was used for another request: choose a new one";
            refuse(422, "Key used before", detail)
        }
    }
}

/// A request whose answer will be kept. One that nobody waits for any more is forgotten.
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
            return refuse(500, "Failed", "an answer could not be read again");
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
    let kind = match status.is_success() {
        true => "application/json",
        false => "application/problem+json",
    };
    (status, [(CONTENT_TYPE, kind)], body).into_response()
}

fn hash(parts: &[&[u8]]) -> u64 {
    let mut hasher = DefaultHasher::new();
    for part in parts {
        hasher.write_usize(part.len());
        hasher.write(part);
    }
    hasher.finish()
}
