//! Conversion of answers into HTTP responses.

use api::{Problem, ProblemKind};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};

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
        Ok(serde_json::Value::String(text)) => (StatusCode::OK, text).into_response(),
        Ok(serde_json::Value::Null) => axum::Json(serde_json::json!({})).into_response(),
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
