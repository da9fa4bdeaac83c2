//! JSON Schema constraints in the OpenAPI document: lengths, patterns and ranges of values.
//!
//! The types check a body's form; who carries a request out checks the values, and says what is
//! wrong about them. This is for the one who must know before whether a body is as described.

use serde_json::Value;
use utoipa::openapi::{RefOr, Schema};

/// References that are followed one into another; types have no more.
const DEPTH_MAX: usize = 16;

/// Schemas by name.
type Components = [(String, RefOr<Schema>)];

/// A pattern, and whether a text fits it.
type Pattern = (&'static str, fn(&str) -> bool);

/// Every pattern of the document, and what it means.
pub(crate) const PATTERNS: [Pattern; 3] = [
    ("^[A-Za-z0-9][A-Za-z0-9._-]*$", is_name),
    ("^[A-Za-z0-9._-]+$", is_user_name),
    ("^[!-~]([ -~]*[!-~])?$", is_bare_ascii),
];

fn is_name(text: &str) -> bool {
    text.starts_with(|letter: char| letter.is_ascii_alphanumeric()) && is_user_name(text)
}

fn is_user_name(text: &str) -> bool {
    !text.is_empty()
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
}

fn is_bare_ascii(text: &str) -> bool {
    let is_printable = text.bytes().all(|byte| (b' '..=b'~').contains(&byte));
    is_printable && !text.is_empty() && text.trim_matches(' ') == text
}

/// The first value that is not as its schema says, as a path: `snapshots/0/name`. Empty for the
/// whole.
pub(crate) fn first_misfit(
    value: &Value,
    schema: &Value,
    components: &Components,
) -> Option<String> {
    misfit(value, schema, components, DEPTH_MAX)
}

fn misfit(value: &Value, schema: &Value, components: &Components, depth: usize) -> Option<String> {
    if let Some(reference) = schema["$ref"].as_str() {
        let referred = referred(reference, components)?;
        return misfit(value, &referred, components, depth.checked_sub(1)?);
    }
    if let Some(kinds) = schema["oneOf"].as_array() {
        // Which of them it is, its type has found out; what may be left out is one or null.
        let kinds = kinds.iter().filter(|kind| value.is_null() || kind["type"] != "null");
        let found = kinds.map(|kind| misfit(value, kind, components, depth));
        return found.collect::<Option<Vec<_>>>().and_then(|misfits| misfits.into_iter().next());
    }
    match value {
        Value::String(text) => (!text_fits(text, schema)).then(String::new),
        Value::Number(number) => (!number_fits(number, schema)).then(String::new),
        Value::Array(list) => {
            if length_fits(list.len(), schema, ["minItems", "maxItems"]) {
                list.iter().enumerate().find_map(|(index, element)| {
                    at(index, misfit(element, &schema["items"], components, depth))
                })
            } else {
                Some(String::new())
            }
        }
        Value::Object(fields) => fields.iter().find_map(|(name, field)| {
            at(name, misfit(field, &schema["properties"][name], components, depth))
        }),
        Value::Null | Value::Bool(_) => None,
    }
}

/// Puts a step before the path of a misfit.
fn at(step: impl std::fmt::Display, misfit: Option<String>) -> Option<String> {
    misfit.map(|rest| if rest.is_empty() { step.to_string() } else { format!("{step}/{rest}") })
}

fn referred(reference: &str, components: &Components) -> Option<Value> {
    let name = reference.rsplit('/').next()?;
    let (_, schema) = components.iter().find(|(known, _)| known == name)?;
    serde_json::to_value(schema).ok()
}

fn text_fits(text: &str, schema: &Value) -> bool {
    let pattern = schema["pattern"].as_str();
    let known = pattern.and_then(|wanted| PATTERNS.iter().find(|(pattern, _)| *pattern == wanted));
    length_fits(text.chars().count(), schema, ["minLength", "maxLength"])
        && known.is_none_or(|(_, fits)| fits(text))
}

fn length_fits(length: usize, schema: &Value, bounds: [&str; 2]) -> bool {
    let [least, most] = bounds.map(|bound| schema[bound].as_u64());
    let length = length as u64;
    least.is_none_or(|least| length >= least) && most.is_none_or(|most| length <= most)
}

/// All numbers of bodies are whole and none is negative, as their types say.
fn number_fits(number: &serde_json::Number, schema: &Value) -> bool {
    let Some(number) = number.as_u64() else { return true };
    let [least, most, step] =
        ["minimum", "maximum", "multipleOf"].map(|bound| bound_of(&schema[bound]));
    number <= largest_of_format(&schema["format"])
        && least.is_none_or(|least| number >= least)
        && most.is_none_or(|most| number <= most)
        && step.is_none_or(|step| number.is_multiple_of(step))
}

/// The largest number of a format; the document knows signed ones (OpenAPI 3.1, 4.4).
fn largest_of_format(format: &Value) -> u64 {
    match format.as_str() {
        Some("int32") => i32::MAX as u64,
        Some("int64") => i64::MAX as u64,
        _ => u64::MAX,
    }
}

/// Bounds may be written with a decimal point.
fn bound_of(bound: &Value) -> Option<u64> {
    bound.as_u64().or_else(|| bound.as_f64().map(|bound| bound as u64))
}

#[cfg(test)]
mod tests;
