//! Paging and filtering of lists.

use std::cmp::Ordering;

use api::{Listing, Problem, ProblemKind};
use axum::extract::Query;
use axum::http::Uri;
use serde_json::Value;

use super::answers::problem;

#[cfg(test)]
mod tests;

/// Elements of a page at most.
const LIMIT_MAX: usize = 1000;

/// The field with the labels of an object, and the name by which a list is filtered by one of them:
/// `tag=KEY:VALUE`, or `tag=KEY` for any value.
const TAGS: &str = "tags";
const TAG: &str = "tag";

/// Page and filters that are requested of a list.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Selection {
    limit: Option<usize>,
    after: Option<String>,
    /// Fields and what they must be; '*' stands for any run of characters.
    filters: Vec<(String, String)>,
}

impl Selection {
    /// Reads what a query asks of a list whose elements have these fields.
    pub(super) fn parse(uri: &Uri, fields: &[String]) -> Result<Self, Problem> {
        let malformed = |_| invalid("the query is malformed: write name=value, percent-encoded");
        let Query(pairs) = Query::<Vec<(String, String)>>::try_from_uri(uri).map_err(malformed)?;
        let mut selection = Self::default();
        for (name, value) in pairs {
            match name.as_str() {
                "limit" => selection.limit = Some(parse_limit(&value)?),
                "after" => selection.after = Some(value),
                TAG if fields.iter().any(|field| field == TAGS) => {
                    selection.filters.push((name, value));
                }
                _ if name != TAGS && fields.contains(&name) => {
                    selection.filters.push((name, value))
                }
                _ => {
                    let known = fields.join("', '");
                    let detail = format!("'{name}' is none of 'limit', 'after', '{known}'");
                    return Err(invalid(&detail));
                }
            }
        }
        Ok(selection)
    }

    /// Whether the whole list is asked for.
    pub(super) fn is_everything(&self) -> bool {
        *self == Self::default()
    }

    /// Takes the part of the list that is asked for, and returns the key after which the next page
    /// begins, if there is one.
    pub(super) fn apply(&self, list: &mut Vec<Value>, listing: Listing) -> Option<String> {
        list.retain(|element| {
            self.filters.iter().all(|(name, wanted)| fits(element, name, wanted))
        });
        if self.limit.is_none() && self.after.is_none() {
            return None;
        }
        let key = |element: &Value| key(element, listing);
        let order = |one: &str, other: &str| match listing.newest_first {
            true => compare(other, one),
            false => compare(one, other),
        };
        list.sort_by(|one, other| order(&key(one), &key(other)));
        if let Some(after) = &self.after {
            list.retain(|element| order(&key(element), after) == Ordering::Greater);
        }
        let limit = self.limit.unwrap_or(LIMIT_MAX);
        let has_more = list.len() > limit;
        list.truncate(limit);
        list.last().filter(|_| has_more).map(key)
    }

    /// The query that asks for the next page.
    pub(super) fn next_query(&self, after: &str) -> String {
        let mut query = format!("limit={}", self.limit.unwrap_or(LIMIT_MAX));
        for (name, value) in &self.filters {
            query += &format!("&{name}={}", encode(value));
        }
        query + &format!("&after={}", encode(after))
    }
}

fn invalid(detail: &str) -> Problem {
    problem(ProblemKind::InvalidRequest, detail)
}

fn parse_limit(text: &str) -> Result<usize, Problem> {
    let limit = text.parse().ok().filter(|limit| (1..=LIMIT_MAX).contains(limit));
    limit.ok_or_else(|| invalid("'limit' is not a number from 1 to 1000"))
}

/// Key by which an element is unique in its list.
fn key(element: &Value, listing: Listing) -> String {
    listing.key.iter().map(|name| text(&element[name])).collect::<Vec<_>>().join("/")
}

/// Numbers by their size, everything else by its characters.
fn compare(one: &str, other: &str) -> Ordering {
    match (one.parse::<u64>(), other.parse::<u64>()) {
        (Ok(one), Ok(other)) => one.cmp(&other),
        _ => one.cmp(other),
    }
}

/// A field as people would write it.
fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

/// Whether a field, or a label, is as wanted; of a list one element is enough.
fn fits(element: &Value, name: &str, wanted: &str) -> bool {
    if name == TAG {
        let (key, wanted) = wanted.split_once(':').unwrap_or((wanted, "*"));
        return element[TAGS][key].as_str().is_some_and(|value| matches(value, wanted));
    }
    match &element[name] {
        Value::Array(list) => list.iter().any(|value| matches(&text(value), wanted)),
        value => matches(&text(value), wanted),
    }
}

/// Whether a text fits a pattern in which '*' stands for any run of characters.
fn matches(text: &str, pattern: &str) -> bool {
    let Some((start, rest)) = pattern.split_once('*') else { return text == pattern };
    let Some(mut text) = text.strip_prefix(start) else { return false };
    let mut parts = rest.split('*').collect::<Vec<_>>();
    let end = parts.pop().unwrap_or_default();
    for part in parts {
        match text.find(part) {
            Some(index) => text = &text[index + part.len()..],
            None => return false,
        }
    }
    text.ends_with(end)
}

fn encode(text: &str) -> String {
    let encode = |byte: u8| match byte {
        b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
            char::from(byte).to_string()
        }
        _ => format!("%{byte:02X}"),
    };
    text.bytes().map(encode).collect()
}
