//! Conversion of answers and refusals into HTTP responses, and the check that request bodies are
//! JSON.

use api::{Problem, ProblemKind};
use axum::Extension;
use axum::body::{Bytes, to_bytes};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::Value;

use super::Answer;
use crate::described::Written;

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
        Ok(Written::Value(Value::String(text))) => text.into_response(),
        Ok(Written::Value(Value::Null)) => axum::Json(serde_json::json!({})).into_response(),
        Ok(Written::Value(value)) => axum::Json(value).into_response(),
        Ok(Written::Json(answer)) => json(answer.text),
        Ok(Written::Plain(text)) => {
            ([(header::CONTENT_TYPE, "text/plain; charset=utf-8")], text).into_response()
        }
        Err(problem) => {
            let status =
                StatusCode::from_u16(problem.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
            let kind = [(header::CONTENT_TYPE, "application/problem+json")];
            let body = serde_json::to_string(&problem).unwrap_or_default();
            (status, kind, body).into_response()
        }
    }
}

/// JSON that is written.
pub(super) fn json(text: Bytes) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], text).into_response()
}

/// An answer on its way to what chooses a part of it (`conventions`).
#[derive(Clone)]
struct Unshown(Written);

/// The same as [`respond`], for what is going to be presented: it becomes a body once, as it is shown.
pub(super) fn hand_on(answer: Answer) -> Response {
    match answer {
        Ok(written) => Extension(Unshown(written)).into_response(),
        Err(problem) => respond(Err(problem)),
    }
}

/// JSON of a response: the answer that was handed on, or else its parsed body.
pub(super) async fn read(mut response: Response) -> anyhow::Result<Written> {
    match response.extensions_mut().remove::<Unshown>() {
        Some(Unshown(written)) => Ok(written),
        None => {
            let body = to_bytes(response.into_body(), usize::MAX).await?;
            Ok(Written::Value(serde_json::from_slice(&body)?))
        }
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
