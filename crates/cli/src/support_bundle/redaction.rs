//! Removal of secrets from what goes into a support bundle: fields by their names, and the very
//! texts of the array's secrets wherever they stand.

use std::fs;
use std::path::Path;

use aho_corasick::AhoCorasick;
use serde_json::Value;

/// Stands for what was removed.
pub(super) const REMOVED: &str = "(removed)";

/// Files of the data directory whose texts are looked for everywhere. None of them is in a bundle.
const SECRET_FILES: [&str; 5] =
    ["secrets.json", "users.json", "recovery-key.json", "reservation-key.json", "tls.key"];

/// Ends of the names of a file's copy, and of the generations before.
const GENERATIONS: [&str; 4] = ["", ".copy", ".1", ".2"];

/// Fields of those files that are no secrets.
const HARMLESS: [&str; 5] = ["id", "name", "parent", "role", "user"];

/// Shorter texts than the shortest secret (RFC 7143 9.2.1) would be found in innocent words.
const SECRET_BYTES_MIN: usize = 12;

/// Parts of the names of fields that hold secrets.
const SECRET_FIELDS: [&str; 8] =
    ["secret", "password", "passphrase", "credential", "private", "recovery_key", "csrf", "hash"];

/// Removes secrets.
pub(super) struct Redaction {
    texts: Option<AhoCorasick>,
    count: usize,
}

impl Redaction {
    /// Knows the secrets of a data directory, as far as this user may read them, and the token that
    /// this command was given.
    pub(super) fn with_secrets_of(data: Option<&Path>, token: Option<&str>) -> Self {
        let mut texts: Vec<String> = token.map(str::to_owned).into_iter().collect();
        let names =
            SECRET_FILES.iter().flat_map(|name| GENERATIONS.map(|end| format!("{name}{end}")));
        for name in names {
            let content = data.and_then(|data| fs::read_to_string(data.join(name)).ok());
            let Some(content) = content else { continue };
            match kept_value(&content) {
                Ok(value) => gather(&value, "", &mut texts),
                // A PEM file: each line of it.
                Err(_) => texts.extend(
                    content.lines().filter(|line| !line.starts_with('-')).map(str::to_owned),
                ),
            }
        }
        texts.retain(|text| text.len() >= SECRET_BYTES_MIN);
        let quoted = |text: &String| {
            let quoted = serde_json::to_string(text).unwrap_or_default();
            quoted.trim_matches('"').to_owned()
        };
        let quoted: Vec<String> = texts.iter().map(quoted).collect();
        texts.extend(quoted);
        texts.sort();
        texts.dedup();
        Self { texts: AhoCorasick::new(&texts).ok().filter(|_| !texts.is_empty()), count: 0 }
    }

    /// How many texts were removed.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// Removes the texts of secrets.
    pub(super) fn bytes(&mut self, content: Vec<u8>) -> Vec<u8> {
        let Some(texts) = &self.texts else { return content };
        let found = texts.find_iter(&content).count();
        if found == 0 {
            return content;
        }
        self.count += found;
        texts.replace_all_bytes(&content, &vec![REMOVED; texts.patterns_len()])
    }

    /// Removes the values of fields that hold secrets, and of addresses all but the host.
    pub(super) fn value(&mut self, value: Value) -> Value {
        match value {
            Value::Object(fields) => {
                let fields = fields.into_iter();
                fields.map(|(name, value)| (name.clone(), self.field(&name, value))).collect()
            }
            Value::Array(list) => list.into_iter().map(|value| self.value(value)).collect(),
            other => other,
        }
    }

    fn field(&mut self, name: &str, value: Value) -> Value {
        let lower = name.to_lowercase();
        let is_secret = SECRET_FIELDS.iter().any(|part| lower.contains(part));
        match value {
            // Whether there is one is no secret.
            Value::Bool(_) | Value::Null => value,
            Value::String(_) | Value::Number(_) | Value::Array(_) if is_secret => {
                self.count += 1;
                REMOVED.into()
            }
            Value::String(address) if lower.contains("url") => self.address(&address).into(),
            other => self.value(other),
        }
    }

    /// Scheme and host: path and query of a webhook often are its secret.
    fn address(&mut self, address: &str) -> String {
        let Some((scheme, rest)) = address.split_once("://") else { return address.to_owned() };
        let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
        let host = host.rsplit('@').next().unwrap_or_default();
        let shown = format!("{scheme}://{host}");
        if shown == address {
            return shown;
        }
        self.count += 1;
        format!("{shown}/{REMOVED}")
    }
}

/// The value of a file of the data directory, whose last line may be its generation.
///
/// # Errors
/// When it is not JSON.
pub(super) fn kept_value(content: &str) -> serde_json::Result<Value> {
    let text = content.trim_end();
    let (before, last) = text.rsplit_once('\n').unwrap_or(("", text));
    serde_json::from_str(if last.starts_with("generation ") { before } else { text })
}

/// The texts of a file of secrets.
fn gather(value: &Value, name: &str, texts: &mut Vec<String>) {
    match value {
        Value::String(text) if !HARMLESS.contains(&name) => texts.push(text.clone()),
        Value::Array(list) => list.iter().for_each(|value| gather(value, name, texts)),
        Value::Object(fields) => {
            fields.iter().for_each(|(name, value)| gather(value, name, texts));
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fields_of_secrets_and_paths_of_addresses_are_removed() {
        let mut redaction = Redaction::with_secrets_of(None, None);
        let value = json!({
            "name": "esx", "chap_user": "esx", "mutual_chap": true, "secret": null, "signed": false,
            "chap": { "secret": "x", "mutual_secret": "y", "user": "u" },
            "password": ["a"], "key_hash": 5,
            "url": "https://user:pw@hooks.example.org/services/T0/B0?x=1", "plain_url": "http://a.example",
        });
        assert_eq!(
            redaction.value(value),
            json!({
                "name": "esx", "chap_user": "esx", "mutual_chap": true, "secret": null, "signed": false,
                "chap": { "secret": REMOVED, "mutual_secret": REMOVED, "user": "u" },
                "password": REMOVED, "key_hash": REMOVED,
                "url": "https://hooks.example.org/(removed)", "plain_url": "http://a.example",
            })
        );
        assert_eq!(redaction.count(), 5);
    }

    #[test]
    fn texts_of_secrets_are_removed_wherever_they_stand() {
        let data = tempfile::tempdir().unwrap();
        let secret = "a \"secret\" of 22 byte";
        let files = [
            (
                "secrets.json",
                json!({ "hosts": { "esx": { "initiator": { "name": "a-name-of-a-host", "secret": secret } } } }),
            ),
            (
                "users.json",
                json!({ "users": { "admin": { "role": "admin", "password": "$argon2id$v=19$x" } } }),
            ),
        ];
        for (name, content) in files {
            let kept = format!("{content:#}\ngeneration 4 sha256 00\n");
            fs::write(data.path().join(name), kept).unwrap();
        }
        fs::write(data.path().join("tls.key"), "-----BEGIN KEY-----\nMC4CAQAwBQYDK2VwBCIEIA\n")
            .unwrap();
        let mut redaction =
            Redaction::with_secrets_of(Some(data.path()), Some("a-token-of-this-command"));
        let quoted = serde_json::to_string(secret).unwrap();
        let text = format!(
            "{secret} a-name-of-a-host {quoted} $argon2id$v=19$x MC4CAQAwBQYDK2VwBCIEIA admin a-token-of-this-command"
        );
        let shown = String::from_utf8(redaction.bytes(text.into_bytes())).unwrap();
        assert_eq!(
            shown,
            format!("{REMOVED} a-name-of-a-host \"{REMOVED}\" {REMOVED} {REMOVED} admin {REMOVED}")
        );
        assert_eq!(redaction.count(), 5);
    }

    #[test]
    fn without_secrets_nothing_is_changed() {
        let mut redaction = Redaction::with_secrets_of(Some(Path::new("/nowhere")), None);
        assert_eq!(redaction.bytes(b"as it was".to_vec()), b"as it was");
    }
}
