//! Recovery key: seals CHAP accounts in the records of pools (ChaCha20-Poly1305), so that a pool that is
//! found gives nobody a secret.
//!
//! The key is 256 random bits, made once and kept in the data directory. What seals and what makes nonces
//! are keys of their own, derived from it by HMAC-SHA-256. A nonce is a MAC of what is sealed (a
//! synthetic one): an account that stays the same stays the same record, and no nonce is used for two.

use std::fmt;

use array::{Chap, RecordKey};
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::hmac;
use serde::{Deserialize, Serialize};

#[cfg(test)]
mod tests;

const KEY_BYTES: usize = 32;

/// Begins the text of a key.
const PREFIX: &str = "gantry-recovery-1";

/// Begins what is sealed, in this form.
const SEALED: &str = "1";

/// The key. It is never shown by `{:?}`.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct RecoveryKey([u8; KEY_BYTES]);

/// The key, and whether an administrator has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct KeptKey {
    pub(crate) key: RecoveryKey,
    /// Whether it was ever shown.
    pub(crate) shown: bool,
}

/// Why an account cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unopened {
    /// Another key sealed it.
    OtherKey,
    /// It was changed, or belongs to another host.
    Damaged,
}

impl RecoveryKey {
    pub(crate) const fn new(bytes: [u8; KEY_BYTES]) -> Self {
        Self(bytes)
    }

    /// Reads the text of a key, as people may have copied it: white space does not matter.
    pub(crate) fn parse(text: &str) -> Result<Self, &'static str> {
        let text: String = text.split_whitespace().collect();
        let parts = text.strip_prefix(PREFIX).ok_or(
            "this is no recovery key: 'gantry recovery-key show' prints one, which begins with \
             'gantry-recovery-1'",
        )?;
        let bytes = from_hexadecimal(&parts.replace('-', ""));
        let bytes = bytes.filter(|bytes| bytes.len() == KEY_BYTES + 4);
        let bytes = bytes.ok_or("the recovery key is not complete: it has nine groups")?;
        let (key, check) = bytes.split_at(KEY_BYTES);
        if check != store::crc32c(key).to_be_bytes() {
            return Err("the recovery key has a mistake in it: a checksum does not fit");
        }
        Ok(Self(key.try_into().expect("the first 32 bytes")))
    }

    /// The key as text: the prefix, eight groups of the key, and one of a checksum.
    pub(crate) fn text(&self) -> String {
        let bytes = [&self.0[..], &store::crc32c(&self.0).to_be_bytes()].concat();
        let groups = bytes.chunks(4).map(|group| format!("-{}", hexadecimal(group)));
        groups.fold(PREFIX.to_owned(), |text, group| text + &group)
    }

    /// Tells keys apart without giving anything of them away.
    pub(crate) fn id(&self) -> String {
        hexadecimal(&self.derive("id").as_ref()[..8])
    }

    /// Seals the account that a record holds.
    pub(crate) fn seal(&self, record: &RecordKey, account: &Chap) -> Option<String> {
        let plain = serde_json::to_vec(account).ok()?;
        let about = about(record)?;
        let nonce_key = hmac::Key::new(hmac::HMAC_SHA256, self.derive("nonce").as_ref());
        let mut context = hmac::Context::with_key(&nonce_key);
        context.update(&(about.len() as u64).to_be_bytes());
        context.update(&about);
        context.update(&plain);
        let nonce: [u8; NONCE_LEN] = context.sign().as_ref()[..NONCE_LEN].try_into().ok()?;
        let mut sealed = plain;
        let nonce_value = Nonce::assume_unique_for_key(nonce);
        self.sealing()
            .seal_in_place_append_tag(nonce_value, Aad::from(&about), &mut sealed)
            .ok()?;
        let bytes = [&nonce[..], &sealed].concat();
        Some(format!("{SEALED}:{}:{}", self.id(), hexadecimal(&bytes)))
    }

    /// Reads an account that [`Self::seal`] sealed for that record.
    pub(crate) fn open(&self, record: &RecordKey, sealed: &str) -> Result<Chap, Unopened> {
        let mut parts = sealed.split(':');
        let (Some(SEALED), Some(id), Some(bytes)) = (parts.next(), parts.next(), parts.next())
        else {
            return Err(Unopened::Damaged);
        };
        if id != self.id() {
            return Err(Unopened::OtherKey);
        }
        let bytes = from_hexadecimal(bytes).ok_or(Unopened::Damaged)?;
        let (nonce, sealed) = bytes.split_at_checked(NONCE_LEN).ok_or(Unopened::Damaged)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).map_err(|_| Unopened::Damaged)?;
        let about = about(record).ok_or(Unopened::Damaged)?;
        let mut plain = sealed.to_vec();
        let plain = self.sealing().open_in_place(nonce, Aad::from(&about), &mut plain);
        let account: Chap = serde_json::from_slice(plain.map_err(|_| Unopened::Damaged)?)
            .map_err(|_| Unopened::Damaged)?;
        account.check().map_err(|_| Unopened::Damaged)?;
        Ok(account)
    }

    fn derive(&self, purpose: &str) -> hmac::Tag {
        let key = hmac::Key::new(hmac::HMAC_SHA256, &self.0);
        hmac::sign(&key, format!("gantry recovery 1 {purpose}").as_bytes())
    }

    fn sealing(&self) -> LessSafeKey {
        let key = UnboundKey::new(&CHACHA20_POLY1305, self.derive("seal").as_ref());
        LessSafeKey::new(key.expect("a MAC of SHA-256 has the 32 bytes of a key"))
    }
}

impl fmt::Debug for RecoveryKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl From<RecoveryKey> for String {
    fn from(key: RecoveryKey) -> Self {
        key.text()
    }
}

impl TryFrom<String> for RecoveryKey {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        Self::parse(&text)
    }
}

/// What is sealed belongs to this record, and is refused in another one.
fn about(record: &RecordKey) -> Option<Vec<u8>> {
    serde_json::to_vec(&("gantry account", record)).ok()
}

/// Names this machine, if it has a name that lasts, without telling it.
pub(crate) fn machine() -> Option<String> {
    let id = std::fs::read_to_string("/etc/machine-id").ok()?;
    let id = id.trim();
    let is_name = id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    let key = hmac::Key::new(hmac::HMAC_SHA256, b"gantry machine");
    is_name.then(|| hexadecimal(&hmac::sign(&key, id.as_bytes()).as_ref()[..16]))
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn from_hexadecimal(text: &str) -> Option<Vec<u8>> {
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    // A sign is a part of a number, too.
    text.bytes().all(|byte| byte.is_ascii_hexdigit()).then_some(())?;
    let byte = |pair: &[u8; 2]| u8::from_str_radix(str::from_utf8(pair).ok()?, 16).ok();
    let bytes = pairs.iter().map(byte).collect::<Option<Vec<u8>>>()?;
    rest.is_empty().then_some(bytes)
}
