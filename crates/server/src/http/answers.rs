//! Conversion of answers and refusals into HTTP responses, and the check that request bodies are
//! JSON.

use std::sync::Arc;

use api::{Problem, ProblemKind};
use axum::Extension;
use axum::body::to_bytes;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::Value;

use super::Answer;

/// Why a request is refused; `detail` says what to do about it.
pub(super) fn problem(kind: ProblemKind, detail: &str) -> Problem {
    Problem::new(kind, detail)
}

/// A refusal.
pub(super) fn refuse(kind: ProblemKind, detail: &str) -> Response {
    respond(Err(problem(kind, detail)))
}

/// An object as JSON, a text as it is, or a problem (RFC 9457).
pub(super) fn respond(answer: Answer) -> Response {
    match answer {
        Ok(Value::String(text)) => (StatusCode::OK, text).into_response(),
        Ok(Value::Null) => axum::Json(serde_json::json!({})).into_response(),
        Ok(value) => axum::Json(value).into_response(),
        Err(problem) => {
            let status =
                StatusCode::from_u16(problem.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
            let kind = [(header::CONTENT_TYPE, "application/problem+json")];
            let body = serde_json::to_string(&problem).unwrap_or_default();
            (status, kind, body).into_response()
        }
    }
}

/// An object that is not written yet, on its way to what chooses a part of it (`conventions`).
#[derive(Clone)]
struct Unwritten(Arc<Value>);

/// The same as [`respond`], for what is going to be presented: it is written once, as it is shown.
pub(super) fn hand_on(answer: Answer) -> Response {
    match answer {
        Ok(value) => Extension(Unwritten(Arc::new(value))).into_response(),
        Err(problem) => respond(Err(problem)),
    }
}

/// JSON of a response: the value that was handed on, or else its parsed body.
pub(super) async fn read(mut response: Response) -> anyhow::Result<Value> {
    match response.extensions_mut().remove::<Unwritten>() {
        Some(Unwritten(value)) => Ok(Arc::unwrap_or_clone(value)),
        None => Ok(serde_json::from_slice(&to_bytes(response.into_body(), usize::MAX).await?)?),
    }
}

/// Refuses a body that is not a JSON object, or not declared as JSON. An array of the values alone
/// would be read as the object that has them.
pub(super) fn check_body(headers: &HeaderMap, body: &[u8]) -> Result<(), Problem> {
    if !is_json(headers) {
        let detail = "send a body as application/json";
        return Err(problem(ProblemKind::UnsupportedMediaType, detail));
    }
    let first = body.iter().find(|byte| !byte.is_ascii_whitespace());
    match first {
        None | Some(b'{') => Ok(()),
        Some(_) => Err(problem(ProblemKind::InvalidRequest, "send a JSON object: { … }")),
    }
}

fn is_json(headers: &HeaderMap) -> bool {
    let content_type = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let essence = content_type.and_then(|value| value.split(';').next());
    essence.is_some_and(|essence| essence.trim().eq_ignore_ascii_case("application/json"))
}
