//! Paging and filtering of lists.

use std::cmp::Ordering;
use std::fmt;

use api::{Listing, Problem, ProblemKind};
use axum::extract::Query;
use axum::http::Uri;
use serde::Deserializer;
use serde::de::{SeqAccess, Visitor};
use serde_json::Value;

use super::answers::problem;
use crate::described::Written;
use crate::yielding::{pause, pause_seldom};

#[cfg(test)]
mod tests;

/// Elements of a page at most.
const LIMIT_MAX: usize = 1000;

/// The field with the labels of an object, and the name by which a list is filtered by one of them:
/// `tag=KEY:VALUE`, or `tag=KEY` for any value.
const TAGS: &str = "tags";
const TAG: &str = "tag";

/// Elements, and the key after which the next page begins.
type Part = (Vec<Value>, Option<String>);

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

    /// The part of a list that is asked for, and the key after which the next page begins, if there
    /// is one; the answer as it was if it is no list.
    pub(super) fn choose(&self, written: Written, listing: Listing) -> Result<Part, Written> {
        let mut list = match written {
            Written::Value(Value::Array(list)) => list,
            Written::Json(json) => {
                self.read(&json.text, listing).map_err(|_| Written::Json(json))?
            }
            other @ (Written::Value(_) | Written::Plain(_)) => return Err(other),
        };
        let next = self.apply(&mut list, listing);
        Ok((list, next))
    }

    /// The elements of a long list that may belong to the part.
    fn read(&self, text: &[u8], listing: Listing) -> serde_json::Result<Vec<Value>> {
        let elements = Elements(|element: &Value| self.is_wanted(element, listing));
        serde_json::Deserializer::from_slice(text).deserialize_seq(elements)
    }

    /// Takes the part of the list that is asked for, and returns the key after which the next page
    /// begins, if there is one.
    fn apply(&self, list: &mut Vec<Value>, listing: Listing) -> Option<String> {
        list.retain(|element| self.is_wanted(element, listing));
        if self.limit.is_none() && self.after.is_none() {
            return None;
        }
        let keyed = list.drain(..).map(|element| (key(&element, listing), element));
        let mut keyed: Vec<(String, Value)> = keyed.inspect(|_| pause()).collect();
        let order = |one: &(String, _), other: &(String, _)| {
            pause_seldom();
            order(&one.0, &other.0, listing)
        };
        let limit = self.limit.unwrap_or(LIMIT_MAX);
        let has_more = keyed.len() > limit;
        if has_more {
            keyed.select_nth_unstable_by(limit, order);
        }
        while keyed.len() > limit {
            keyed.pop();
            pause();
        }
        keyed.sort_by(order);
        let last = keyed.last().map(|(key, _)| key.clone());
        list.extend(keyed.into_iter().map(|(_, element)| element));
        last.filter(|_| has_more)
    }

    /// Whether an element may be on the page: it passes the filters, and comes after the page before.
    fn is_wanted(&self, element: &Value, listing: Listing) -> bool {
        let comes_after =
            |after: &String| order(&key(element, listing), after, listing) == Ordering::Greater;
        self.filters.iter().all(|(name, wanted)| fits(element, name, wanted))
            && self.after.as_ref().is_none_or(comes_after)
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

/// Reads a list element by element, and keeps those that are wanted.
struct Elements<F>(F);

impl<'de, F: Fn(&Value) -> bool> Visitor<'de> for Elements<F> {
    type Value = Vec<Value>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<Value>, A::Error> {
        let mut wanted = Vec::new();
        while let Some(element) = list.next_element()? {
            if self.0(&element) {
                wanted.push(element);
            }
            pause();
        }
        Ok(wanted)
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

/// The order of the keys of a list.
fn order(one: &str, other: &str, listing: Listing) -> Ordering {
    if listing.newest_first { compare(other, one) } else { compare(one, other) }
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
