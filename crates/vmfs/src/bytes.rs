//! Little-endian fields in byte buffers, and identifiers.

use std::fmt;

/// A sector: what one COMPARE AND WRITE covers.
pub(crate) type Sector = [u8; 512];

pub(crate) fn get_u32(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("4 bytes"))
}

pub(crate) fn get_u64(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"))
}

pub(crate) fn put_u32(bytes: &mut [u8], at: usize, value: u32) {
    bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
}

pub(crate) fn put_u64(bytes: &mut [u8], at: usize, value: u64) {
    bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
}

pub(crate) fn put_text(bytes: &mut [u8], at: usize, length: usize, text: &str) {
    let text = text.as_bytes();
    let taken = text.len().min(length);
    bytes[at..at + taken].copy_from_slice(&text[..taken]);
}

pub(crate) fn get_text(bytes: &[u8], at: usize, length: usize) -> String {
    let field = &bytes[at..at + length];
    let end = field.iter().position(|&byte| byte == 0).unwrap_or(length);
    String::from_utf8_lossy(&field[..end]).into_owned()
}

/// An identifier as VMware makes them: two words of time, a number, six bytes of a network address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Uuid(pub [u8; 16]);

impl Uuid {
    pub(crate) fn get(bytes: &[u8], at: usize) -> Self {
        Self(bytes[at..at + 16].try_into().expect("16 bytes"))
    }

    pub(crate) fn put(self, bytes: &mut [u8], at: usize) {
        bytes[at..at + 16].copy_from_slice(&self.0);
    }

    /// Reads what [`fmt::Display`] writes.
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('-');
        let number = |part: Option<&str>| u64::from_str_radix(part?, 16).ok();
        let (low, high) = (number(parts.next())?, number(parts.next())?);
        let (random, address) = (number(parts.next())?, number(parts.next())?);
        let mut bytes = [0; 16];
        bytes[..4].copy_from_slice(&u32::try_from(low).ok()?.to_le_bytes());
        bytes[4..8].copy_from_slice(&u32::try_from(high).ok()?.to_le_bytes());
        bytes[8..10].copy_from_slice(&u16::try_from(random).ok()?.to_le_bytes());
        bytes[10..].copy_from_slice(&address.to_be_bytes()[2..]);
        (parts.next().is_none() && address >> 48 == 0).then_some(Self(bytes))
    }
}

impl fmt::Display for Uuid {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let random = u16::from_le_bytes([self.0[8], self.0[9]]);
        write!(out, "{:08x}-{:08x}-{random:04x}-", get_u32(&self.0, 0), get_u32(&self.0, 4))?;
        self.0[10..].iter().try_for_each(|byte| write!(out, "{byte:02x}"))
    }
}
