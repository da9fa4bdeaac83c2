//! Text keys (`key=value`, RFC 7143 6.1): parses them, and sends a long answer in parts.

use crate::limits::{KEY_NAME_MAX, TEXT_BYTES_MAX, TEXT_KEYS_MAX};

/// The text is not what RFC 7143 6.1 allows, or exceeds a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Malformed;

/// Splits text into pairs. The last pair need not end in a null byte: initiators forget it.
pub(crate) fn parse(text: &[u8]) -> Result<Vec<(&str, &str)>, Malformed> {
    let mut pairs = Vec::new();
    for pair in text.split(|&byte| byte == 0).filter(|pair| !pair.is_empty()) {
        let pair = std::str::from_utf8(pair).map_err(|_| Malformed)?;
        let (key, value) = pair.split_once('=').ok_or(Malformed)?;
        if key.is_empty() || key.len() > KEY_NAME_MAX || pairs.len() == TEXT_KEYS_MAX {
            return Err(Malformed);
        }
        pairs.push((key, value));
    }
    Ok(pairs)
}

/// Appends one pair to a text.
pub(crate) fn emit(text: &mut Vec<u8>, key: &str, value: &str) {
    text.extend_from_slice(key.as_bytes());
    text.push(b'=');
    text.extend_from_slice(value.as_bytes());
    text.push(0);
}

/// A number as RFC 7143 6.1 writes it: decimal or, after `0x`, hexadecimal.
pub(crate) fn parse_number(value: &str) -> Option<u32> {
    let hexadecimal = value.strip_prefix("0x").or_else(|| value.strip_prefix("0X"));
    let (digits, radix) = hexadecimal.map_or((value, 10), |digits| (digits, 16));
    if digits.starts_with('+') {
        return None;
    }
    u32::from_str_radix(digits, radix).ok()
}

/// Text that comes in parts, each but the last with the C bit.
#[derive(Debug, Default)]
pub(crate) struct Incoming(Vec<u8>);

impl Incoming {
    /// Adds a part.
    pub(crate) fn extend(&mut self, part: &[u8]) -> Result<(), Malformed> {
        if self.0.len() + part.len() > TEXT_BYTES_MAX {
            self.0.clear();
            return Err(Malformed);
        }
        self.0.extend_from_slice(part);
        Ok(())
    }

    /// The whole text; the next part begins a new one.
    pub(crate) fn finish(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.0)
    }
}

/// An answer that may not fit into one PDU.
#[derive(Debug, Default)]
pub(crate) struct Outgoing {
    text: Vec<u8>,
    sent: usize,
}

impl Outgoing {
    pub(crate) fn new(text: Vec<u8>) -> Self {
        Self { text, sent: 0 }
    }

    pub(crate) fn is_finished(&self) -> bool {
        self.sent == self.text.len()
    }

    /// The next part, at most `length_max` bytes.
    pub(crate) fn next_part(&mut self, length_max: usize) -> Vec<u8> {
        let end = self.text.len().min(self.sent + length_max);
        let part = self.text[self.sent..end].to_vec();
        self.sent = end;
        part
    }
}
