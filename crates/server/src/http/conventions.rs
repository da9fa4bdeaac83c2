//! Conventions of all answers: ETags, paging and filters of lists, and the form of a refusal (RFC
//! 9457).

use std::sync::Arc;

use api::{Listing, Problem, ProblemKind, Route};
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderValue, StatusCode, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use serde_json::Value;

use super::answers::{json, read, refuse, respond};
use super::etag::{etag, etag_of_hash, is_known};
use super::lists::Selection;
use crate::described::{JsonText, Written};
use crate::limits::SHOWN_AT_ONCE_BYTES_MAX;
use crate::yielding::yielding;

/// How a route's answers are shown.
pub(super) struct View {
    listing: Option<Listing>,
    /// The fields of the elements of a list.
    fields: Vec<String>,
}

impl View {
    pub(super) fn new(route: Route) -> Self {
        let listing = route.row().listing;
        Self { listing, fields: listing.map(|_| api::fields(route)).unwrap_or_default() }
    }
}

/// Takes the part of a list that is asked for, and says which version an answer is.
pub(super) async fn present(
    State(view): State<Arc<View>>,
    request: Request,
    next: Next,
) -> Response {
    let uri = request.uri().clone();
    let known = request.headers().get(header::IF_NONE_MATCH).cloned();
    let selection = match view.listing {
        Some(_) => match Selection::parse(&uri, &view.fields) {
            Ok(selection) => selection,
            Err(problem) => return respond(Err(problem)),
        },
        None => Selection::default(),
    };
    let response = next.run(request).await;
    if response.status() != StatusCode::OK {
        return response;
    }
    let Ok(written) = read(response).await else { return unreadable() };
    let is_short = match &written {
        Written::Value(_) | Written::Plain(_) => true,
        Written::Json(json) => json.text.len() <= SHOWN_AT_ONCE_BYTES_MAX,
    };
    let is_short = is_short || selection.is_everything();
    let shown = move || show(written, view.listing.zip(Some(&selection)), &uri, known.as_ref());
    if is_short {
        return shown();
    }
    // There is much to choose from: others are answered meanwhile.
    tokio::task::spawn_blocking(|| yielding(shown)).await.unwrap_or_else(|_| unreadable())
}

fn unreadable() -> Response {
    refuse(ProblemKind::Failed, "an answer could not be written: see the log")
}

/// An answer, or the part of a list that is asked for.
fn show(
    written: Written,
    part: Option<(Listing, &Selection)>,
    uri: &Uri,
    known: Option<&HeaderValue>,
) -> Response {
    let Some((listing, selection)) = part.filter(|(_, selection)| !selection.is_everything())
    else {
        return show_whole(written, known, None);
    };
    let (list, next) = match selection.choose(written, listing) {
        Ok(chosen) => chosen,
        Err(whole) => return show_whole(whole, known, None),
    };
    let link = next.map(|after| format!("{}?{}", uri.path(), selection.next_query(&after)));
    show_whole(Written::Value(Value::Array(list)), known, link)
}

/// An answer with its version, or that it is the one already known.
fn show_whole(written: Written, known: Option<&HeaderValue>, link: Option<String>) -> Response {
    let (tag, text) = match written {
        Written::Value(value) => {
            let text = value.to_string();
            (etag(&value, text.as_bytes()), text.into())
        }
        Written::Json(JsonText { text, hash }) => (etag_of_hash(hash), text),
        plain @ Written::Plain(_) => return respond(Ok(plain)),
    };
    let is_known =
        known.and_then(|known| known.to_str().ok()).is_some_and(|known| is_known(known, &tag));
    let mut response = if is_known { StatusCode::NOT_MODIFIED.into_response() } else { json(text) };
    let headers = response.headers_mut();
    let mut add = |name, text: String| {
        if let Ok(value) = HeaderValue::from_str(&text) {
            headers.insert(name, value);
        }
    };
    add(header::ETAG, tag);
    add(header::CACHE_CONTROL, "private, no-cache".to_owned());
    if let Some(link) = link {
        add(header::LINK, format!("<{link}>; rel=\"next\""));
    }
    response
}

/// Gives refusals of the libraries beneath us the form of all others.
pub(super) async fn one_form_of_refusal(request: Request, next: Next) -> Response {
    let (mut parts, body) = next.run(request).await.into_parts();
    let refused = parts.status.is_client_error() || parts.status.is_server_error();
    let kind = parts.headers.get(header::CONTENT_TYPE);
    if !refused || kind.is_some_and(|kind| kind == "application/problem+json") {
        return Response::from_parts(parts, body);
    }
    let text = to_bytes(body, 4096).await.unwrap_or_default();
    let title = parts.status.canonical_reason().unwrap_or("Refused");
    let detail = match String::from_utf8_lossy(&text).trim() {
        "" => format!("{title}: /v1/openapi.json describes every request"),
        text => text.to_owned(),
    };
    let kind = ProblemKind::of_status(parts.status.as_u16());
    let mut problem = Problem::new(kind, detail);
    (problem.status, problem.title) = (parts.status.as_u16(), title.to_owned());
    let (own, body): (_, Body) = respond(Err(problem)).into_parts();
    parts.headers.remove(header::CONTENT_LENGTH);
    parts.headers.extend(own.headers);
    Response::from_parts(parts, body)
}
