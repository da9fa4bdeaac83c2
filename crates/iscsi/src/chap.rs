//! CHAP authentication (RFC 1994 as used by RFC 7143 12.1.3): the initiator proves who it is, and
//! so does the target if asked. Challenges come from the owner, because this room draws no random
//! numbers.

mod encoding;

use std::fmt;

use sha2::Digest;
use subtle::ConstantTimeEq;

use crate::authentication::NotAuthentic;
use crate::text::{emit, parse_number};
use encoding::{decode, encode};

/// The longest challenge of the initiator (RFC 7143 12.1.3).
const CHALLENGE_BYTES_MAX: usize = 1024;

/// A hash function of CHAP, numbered as the key CHAP_A does (RFC 7143 12.1.3 and IANA's registry
/// of PPP authentication algorithms).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChapAlgorithm {
    /// 5: MD5.
    Md5,
    /// 6: SHA-1.
    Sha1,
    /// 7: SHA-256.
    Sha256,
    /// 8: SHA3-256.
    Sha3,
}

impl ChapAlgorithm {
    /// All, the strongest first.
    pub const ALL: [Self; 4] = [Self::Sha3, Self::Sha256, Self::Sha1, Self::Md5];

    const fn number(self) -> u32 {
        match self {
            Self::Md5 => 5,
            Self::Sha1 => 6,
            Self::Sha256 => 7,
            Self::Sha3 => 8,
        }
    }

    /// RFC 1994 4.1: the hash of identifier, secret and challenge.
    fn response(self, identifier: u8, secret: &ChapSecret, challenge: &[u8]) -> Vec<u8> {
        let parts: [&[u8]; 3] = [&[identifier], &secret.0, challenge];
        match self {
            Self::Md5 => hash::<md5::Md5>(parts),
            Self::Sha1 => hash::<sha1::Sha1>(parts),
            Self::Sha256 => hash::<sha2::Sha256>(parts),
            Self::Sha3 => hash::<sha3::Sha3_256>(parts),
        }
    }
}

fn hash<D: Digest>(parts: [&[u8]; 3]) -> Vec<u8> {
    let mut digest = D::new();
    parts.iter().for_each(|part| digest.update(part));
    digest.finalize().to_vec()
}

/// A secret. It is never shown: not in a log, not in an error, not by `{:?}`.
#[derive(Clone, PartialEq, Eq)]
pub struct ChapSecret(Vec<u8>);

impl ChapSecret {
    /// Any bytes; how many there should be is for the owner to say.
    pub fn new(bytes: impl Into<Vec<u8>>) -> Self {
        Self(bytes.into())
    }
}

impl fmt::Debug for ChapSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// A name and what only its bearer knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChapCredential {
    /// CHAP_N.
    pub name: String,
    /// Secret from which CHAP_R is computed.
    pub secret: ChapSecret,
}

/// Accounts that may log in by CHAP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChapAccount {
    /// Credential that the initiator must prove.
    pub initiator: ChapCredential,
    /// What the target answers when the initiator asks it for a proof; without it such an initiator
    /// is refused.
    pub target: Option<ChapCredential>,
}

/// Input of one exchange. The challenge must never have been used before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChapTerms {
    /// Algorithms allowed.
    pub algorithms: Vec<ChapAlgorithm>,
    /// CHAP_I, random.
    pub identifier: u8,
    /// CHAP_C, random, 16 to 1,024 bytes.
    pub challenge: Vec<u8>,
    /// Accounts; CHAP_N chooses one.
    pub accounts: Vec<ChapAccount>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    /// CHAP_A is awaited.
    Algorithm,
    /// CHAP_N and CHAP_R are awaited.
    Response(ChapAlgorithm),
    Done,
}

/// One exchange, from CHAP_A to the proof.
#[derive(Debug)]
pub(crate) struct Exchange {
    terms: ChapTerms,
    progress: Progress,
}

impl Exchange {
    pub(crate) fn new(terms: ChapTerms) -> Self {
        Self { terms, progress: Progress::Algorithm }
    }

    pub(crate) fn is_done(&self) -> bool {
        self.progress == Progress::Done
    }

    /// Takes the CHAP keys of one login request.
    pub(crate) fn take(
        &mut self,
        keys: &[(&str, &str)],
        reply: &mut Vec<u8>,
    ) -> Result<(), NotAuthentic> {
        match self.progress {
            Progress::Algorithm => {
                let [("CHAP_A", offered)] = keys else { return Err(NotAuthentic) };
                self.challenge(offered, reply)
            }
            Progress::Response(algorithm) => {
                self.check_response(algorithm, &Response::read(keys)?, reply)?;
                self.progress = Progress::Done;
                Ok(())
            }
            Progress::Done => Err(NotAuthentic),
        }
    }

    /// Takes the first algorithm of the initiator's list that is allowed.
    fn challenge(&mut self, offered: &str, reply: &mut Vec<u8>) -> Result<(), NotAuthentic> {
        let named = |number: &str| {
            let number = parse_number(number)?;
            self.terms.algorithms.iter().find(|algorithm| algorithm.number() == number)
        };
        let algorithm = *offered.split(',').find_map(named).ok_or(NotAuthentic)?;
        emit(reply, "CHAP_A", &algorithm.number().to_string());
        emit(reply, "CHAP_I", &self.terms.identifier.to_string());
        emit(reply, "CHAP_C", &encode(&self.terms.challenge));
        self.progress = Progress::Response(algorithm);
        Ok(())
    }

    fn check_response(
        &self,
        algorithm: ChapAlgorithm,
        response: &Response<'_>,
        reply: &mut Vec<u8>,
    ) -> Result<(), NotAuthentic> {
        let terms = &self.terms;
        let is_right = |account: &&ChapAccount| {
            let ChapCredential { name, secret } = &account.initiator;
            let expected = algorithm.response(terms.identifier, secret, &terms.challenge);
            let name = name.as_bytes().ct_eq(response.name.as_bytes());
            bool::from(name & expected.ct_eq(&response.response))
        };
        let account = terms.accounts.iter().find(is_right).ok_or(NotAuthentic)?;
        let Some((identifier, challenge)) = &response.challenge else { return Ok(()) };
        // RFC 7143 9.2.1: an initiator that sends our own challenge back wants us to answer it
        // ourselves.
        if *challenge == terms.challenge {
            return Err(NotAuthentic);
        }
        let target = account.target.as_ref().ok_or(NotAuthentic)?;
        let proof = algorithm.response(*identifier, &target.secret, challenge);
        emit(reply, "CHAP_N", &target.name);
        emit(reply, "CHAP_R", &encode(&proof));
        Ok(())
    }
}

/// The initiator's answer to the challenge.
struct Response<'a> {
    name: &'a str,
    response: Vec<u8>,
    /// CHAP_I and CHAP_C, if the target is to prove who it is, too.
    challenge: Option<(u8, Vec<u8>)>,
}

impl<'a> Response<'a> {
    fn read(keys: &[(&'a str, &'a str)]) -> Result<Self, NotAuthentic> {
        let known = ["CHAP_N", "CHAP_R", "CHAP_I", "CHAP_C"];
        let values = known.map(|name| only(keys, name));
        let count = values.iter().flatten().count();
        match values {
            [Some(name), Some(response), None, None] if keys.len() == count => {
                Ok(Self { name, response: decode(response).ok_or(NotAuthentic)?, challenge: None })
            }
            [Some(name), Some(response), Some(identifier), Some(challenge)]
                if keys.len() == count =>
            {
                let identifier = parse_number(identifier).and_then(|number| number.try_into().ok());
                let challenge = decode(challenge)
                    .filter(|bytes| (1..=CHALLENGE_BYTES_MAX).contains(&bytes.len()));
                let both = identifier.zip(challenge).ok_or(NotAuthentic)?;
                let response = decode(response).ok_or(NotAuthentic)?;
                Ok(Self { name, response, challenge: Some(both) })
            }
            _ => Err(NotAuthentic),
        }
    }
}

fn only<'a>(keys: &[(&'a str, &'a str)], name: &str) -> Option<&'a str> {
    keys.iter().find(|(key, _)| *key == name).map(|(_, value)| *value)
}

#[cfg(test)]
mod tests;
