//! Escaping of control characters in the daemon's answers, so that no name or message can move the
//! cursor, change the colours or set the title of the terminal.

use serde_json::Value;
use terminal::printable;

/// Escapes the control characters of every text in an answer.
pub(crate) fn printable_value(value: Value) -> Value {
    match value {
        Value::String(text) => Value::String(printable(&text)),
        Value::Array(list) => list.into_iter().map(printable_value).collect(),
        Value::Object(fields) => {
            let fields = fields.into_iter();
            fields.map(|(name, value)| (printable(&name), printable_value(value))).collect()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => value,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn control_characters_of_answers_are_shown_and_not_obeyed() {
        let value =
            json!({"na\u{1b}me": ["\u{1b}", {"a": "\u{1b}"}], "n": 1, "b": true, "x": null});
        let shown =
            json!({"na\\u{1b}me": ["\\u{1b}", {"a": "\\u{1b}"}], "n": 1, "b": true, "x": null});
        assert_eq!(printable_value(value), shown);
    }
}
