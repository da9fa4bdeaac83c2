//! Code generation: the web page's TypeScript types, from the schemas of the OpenAPI document.
//!
//! A schema becomes an interface, or an alias where it is no object. A field that the document does
//! not require may be left out or null, as the daemon's own reader takes it. A form of schema that
//! is not known here is an error: the page gets no type that says less than the document.

use std::fmt::Write;
use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::workspace;

/// Where the types are, from the root.
const PATH: &str = "web/src/generated/api.ts";

const HEAD: &str = "// What the daemon takes and answers, from crates/api: written by 'cargo \
                    xtask web', compared by\n// 'cargo xtask check'.\n";

/// The longest line that a union of words stands in.
const LINE_MAX: usize = 100;

/// Writes the types.
pub(super) fn write() -> Result<()> {
    let path = path();
    fs::create_dir_all(path.parent().context("types lie in a folder")?)?;
    fs::write(&path, types(&api::document())?).with_context(|| format!("writing {PATH}"))
}

/// Fails when the committed types are not what the document gives.
pub(crate) fn compare() -> Result<()> {
    let committed = fs::read_to_string(path()).unwrap_or_default();
    if committed != types(&api::document())? {
        bail!("{PATH} is not what crates/api says: run 'cargo xtask web' and commit it");
    }
    Ok(())
}

fn path() -> PathBuf {
    workspace::root().join(PATH)
}

/// The whole file.
fn types(document: &Value) -> Result<String> {
    let schemas = document["components"]["schemas"].as_object().context("schemas")?;
    let mut text = HEAD.to_owned();
    for (name, schema) in schemas {
        text.push('\n');
        text.push_str(&comment(schema, ""));
        let one = if schema["properties"].is_object() {
            format!("export interface {name} {}\n", kind(schema, "")?)
        } else {
            format!("export type {name} ={};\n", spaced(&kind(schema, "")?))
        };
        text.push_str(&one);
    }
    Ok(text)
}

/// What a schema or field means, as a comment before it.
fn comment(schema: &Value, indent: &str) -> String {
    // The description of a nullable reference stands beside the reference.
    let own = schema["description"].as_str().or_else(|| schema["oneOf"][0]["description"].as_str());
    let Some(own) = own else { return String::new() };
    let own = own.replace("*/", "*\u{2060}/");
    let lines: Vec<&str> = own.lines().map(str::trim_end).collect();
    match lines[..] {
        [line] => format!("{indent}/** {line} */\n"),
        _ => {
            let body = lines.iter().map(|line| format!("{indent} * {line}").trim_end().to_owned());
            format!("{indent}/**\n{}\n{indent} */\n", body.collect::<Vec<_>>().join("\n"))
        }
    }
}

/// The type of a schema, written where lines begin with `indent`.
fn kind(schema: &Value, indent: &str) -> Result<String> {
    if let Some(reference) = schema["$ref"].as_str() {
        return Ok(reference.rsplit('/').next().unwrap_or(reference).to_owned());
    }
    for (combined, sign) in [("oneOf", " | "), ("anyOf", " | "), ("allOf", " & ")] {
        if let Some(parts) = schema[combined].as_array() {
            let parts = parts.iter().map(|part| kind(part, indent));
            return Ok(parts.collect::<Result<Vec<_>>>()?.join(sign));
        }
    }
    if let Some(words) = schema["enum"].as_array() {
        return Ok(union(words, indent));
    }
    match &schema["type"] {
        Value::String(one) => plain(one, schema, indent),
        Value::Array(several) => {
            let several = several.iter().filter_map(Value::as_str);
            let several = several.map(|one| plain(one, schema, indent));
            Ok(several.collect::<Result<Vec<_>>>()?.join(" | "))
        }
        _ => bail!("no TypeScript is known for the schema {schema}"),
    }
}

fn union(words: &[Value], indent: &str) -> String {
    let words: Vec<String> = words.iter().map(|word| word.to_string().replace('"', "'")).collect();
    let line = words.join(" | ");
    if line.len() < LINE_MAX / 2 {
        return line;
    }
    words.iter().map(|word| format!("\n{indent}  | {word}")).collect()
}

/// A type after a sign: a space, unless it begins on a line of its own.
fn spaced(kind: &str) -> String {
    if kind.starts_with('\n') { kind.to_owned() } else { format!(" {kind}") }
}

fn plain(name: &str, schema: &Value, indent: &str) -> Result<String> {
    Ok(match name {
        "string" | "boolean" | "null" => name.to_owned(),
        "integer" | "number" => "number".to_owned(),
        "array" => match kind(&schema["items"], indent)? {
            element if element.contains([' ', '\n']) => format!("({element})[]"),
            element => format!("{element}[]"),
        },
        "object" if schema["properties"].is_object() => object(schema, indent)?,
        "object" if schema["additionalProperties"].is_object() => {
            format!("Record<string, {}>", kind(&schema["additionalProperties"], indent)?)
        }
        _ => bail!("no TypeScript is known for the schema {schema}"),
    })
}

fn object(schema: &Value, indent: &str) -> Result<String> {
    let within = format!("{indent}  ");
    let required = schema["required"].as_array().map(Vec::as_slice).unwrap_or_default();
    let mut text = "{\n".to_owned();
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        let optional = if required.iter().any(|one| one == name) { "" } else { "?" };
        text.push_str(&comment(field, &within));
        writeln!(text, "{within}{name}{optional}:{};", spaced(&kind(field, &within)?))?;
    }
    text.push_str(indent);
    text.push('}');
    Ok(text)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of(schema: &Value) -> String {
        types(&json!({ "components": { "schemas": { "X": schema } } })).unwrap()[HEAD.len()..]
            .to_owned()
    }

    #[test]
    fn fields_that_may_be_left_out_say_so_and_keep_their_words() {
        let schema = json!({
            "description": "A thing.",
            "type": "object",
            "required": ["name"],
            "properties": {
                "name": { "type": "string", "description": "Its name,\nas it is." },
                "host": { "type": ["string", "null"] },
                "of": { "oneOf": [{ "$ref": "#/c/Y", "description": "One." }, { "type": "null" }] },
                "many": { "type": "array", "items": { "type": ["integer", "null"] } },
            },
        });
        let expected = "\n/** A thing. */\nexport interface X {\n  host?: string | null;\n  many?: \
                        (number | null)[];\n  /**\n   * Its name,\n   * as it is.\n   */\n  name: \
                        string;\n  /** One. */\n  of?: Y | null;\n}\n";
        assert_eq!(of(&schema), expected);
    }

    #[test]
    fn what_is_no_object_is_an_alias() {
        let words = json!({ "type": "string", "enum": ["a", "b"] });
        assert_eq!(of(&words), "\nexport type X = 'a' | 'b';\n");
        let map = json!({ "type": "object", "additionalProperties": { "type": "number" } });
        assert_eq!(of(&map), "\nexport type X = Record<string, number>;\n");
    }

    #[test]
    fn a_form_that_is_not_known_is_refused() {
        for schema in [json!({}), json!({ "type": "object" }), json!({ "not": { "type": "null" } })]
        {
            let document = json!({ "components": { "schemas": { "X": schema } } });
            assert!(types(&document).is_err(), "{document}");
        }
    }
}
