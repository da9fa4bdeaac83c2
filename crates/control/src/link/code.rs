//! One-time pairing code: names a controller, where its link listens, the fingerprint of its certificate
//! and a secret; and the bounded attempts to show that secret.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use subtle::ConstantTimeEq;

use crate::limits::{LINK_ADDRESS_BYTES_MAX, LINK_NUMBER_MAX, PAIRING_ATTEMPTS_MAX, PAIRING_LIFE};

/// SHA-256 of a certificate, DER.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Fingerprint(pub [u8; 32]);

/// What only the holder of a code knows.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Secret(pub [u8; 16]);

macro_rules! hexadecimal {
    ($type:ident) => {
        impl fmt::Display for $type {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.iter().try_for_each(|byte| write!(formatter, "{byte:02x}"))
            }
        }

        impl FromStr for $type {
            type Err = String;

            fn from_str(text: &str) -> Result<Self, String> {
                parse_bytes(text).map(Self)
            }
        }

        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = String::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}

hexadecimal!(Fingerprint);
hexadecimal!(Secret);

impl fmt::Debug for Fingerprint {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Secret")
    }
}

fn parse_bytes<const N: usize>(text: &str) -> Result<[u8; N], String> {
    let wrong = || format!("it is not {} hexadecimal digits", 2 * N);
    if text.len() != 2 * N || !text.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return Err(wrong());
    }
    let mut bytes = [0; N];
    for (byte, at) in bytes.iter_mut().zip((0..).step_by(2)) {
        *byte = u8::from_str_radix(&text[at..at + 2], 16).map_err(|_| wrong())?;
    }
    Ok(bytes)
}

/// What one controller prints and another is given, as NUMBER=HOST:PORT/FINGERPRINT/SECRET.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PairingCode {
    /// The controller that printed it.
    pub number: u16,
    /// Where its link listens: HOST:PORT.
    pub address: String,
    /// Its certificate.
    pub fingerprint: Fingerprint,
    /// What proves that the other side was given the code.
    pub secret: Secret,
}

impl fmt::Display for PairingCode {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { number, address, fingerprint, secret } = self;
        write!(formatter, "{number}={address}/{fingerprint}/{secret}")
    }
}

impl FromStr for PairingCode {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            "it is not a code of 'gantry controller pair': copy the whole line, which is \
             NUMBER=HOST:PORT/FINGERPRINT/SECRET"
                .to_owned()
        };
        let (number, rest) = text.trim().split_once('=').ok_or_else(wrong)?;
        let mut parts = rest.split('/');
        let mut part = || parts.next().ok_or_else(wrong);
        let (address, fingerprint, secret) = (part()?, part()?, part()?);
        if parts.next().is_some() {
            return Err(wrong());
        }
        let number = number.parse().ok().filter(|number| (1..=LINK_NUMBER_MAX).contains(number));
        check_address(address)?;
        Ok(Self {
            number: number.ok_or_else(wrong)?,
            address: address.to_owned(),
            fingerprint: fingerprint.parse().map_err(|_| wrong())?,
            secret: secret.parse().map_err(|_| wrong())?,
        })
    }
}

/// Whether a text is HOST:PORT: a name or an address (IPv6 in brackets), and a port that is not 0.
///
/// # Errors
/// A sentence, when it is not.
pub fn check_address(text: &str) -> Result<(), String> {
    let is_host = |host: &str| {
        let allowed = |c: char| c.is_ascii_alphanumeric() || "-._:[]%".contains(c);
        !host.is_empty() && host.chars().all(allowed)
    };
    let port = |port: &str| port.parse().is_ok_and(|port: u16| port > 0);
    match text.rsplit_once(':') {
        Some((host, number))
            if text.len() <= LINK_ADDRESS_BYTES_MAX && is_host(host) && port(number) =>
        {
            Ok(())
        }
        Some(_) | None => {
            Err("it is not HOST:PORT: write for example 192.0.2.2:3262, or a name and a port"
                .to_owned())
        }
    }
}

/// The code that may be used now, of which there is one at most.
#[derive(Debug, Default)]
pub struct Pairing {
    open: Option<Open>,
}

#[derive(Debug)]
struct Open {
    secret: Secret,
    until: Duration,
    attempts_left: u32,
}

/// What became of an attempt to pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attempt {
    /// The secret is that of the code, which nobody can use again.
    Accepted,
    /// It is another one.
    Wrong,
    /// It is another one, and was the last attempt that the code allowed.
    Exhausted,
    /// There is no code, or it has had its time.
    Closed,
}

impl Pairing {
    /// A new code may be used from now on, for [`PAIRING_LIFE`]; one before it may not any more.
    pub fn begin(&mut self, secret: Secret, now: Duration) {
        let until = now + PAIRING_LIFE;
        self.open = Some(Open { secret, until, attempts_left: PAIRING_ATTEMPTS_MAX });
    }

    /// Whether there is a code that may be used.
    pub fn is_open(&self, now: Duration) -> bool {
        self.open.as_ref().is_some_and(|open| now < open.until)
    }

    /// Somebody shows a secret. How long the comparison takes does not depend on where it differs.
    pub fn attempt(&mut self, shown: Secret, now: Duration) -> Attempt {
        if !self.is_open(now) {
            self.open = None;
        }
        let Some(open) = &mut self.open else { return Attempt::Closed };
        if bool::from(open.secret.0.ct_eq(&shown.0)) {
            self.open = None;
            return Attempt::Accepted;
        }
        open.attempts_left -= 1;
        if open.attempts_left == 0 {
            self.open = None;
            return Attempt::Exhausted;
        }
        Attempt::Wrong
    }
}
