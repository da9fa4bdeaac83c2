//! General Statistics and Performance log page (19h) of the LUNs under test: what the array itself
//! counts of reads and writes, asked of it by SCSI while a case runs.

use std::sync::{Mutex, PoisonError};

use crate::initiator::cdb::Cdb;
use crate::initiator::session::{Data, HeaderDigest, Session};

use super::Page;

/// Blocks of all LUNs that the host kit handles, in bytes.
const BLOCK: u64 = 512;

/// Bytes asked for: the page's parameters 0001h to 0003h have 96 with its header.
const ANSWER: u16 = 1024;

/// Counters that are drawn, as they stand among those of a Prometheus page, whose names have no
/// spaces.
pub(super) const READS: &str = "log page 19h: reads";
pub(super) const WRITES: &str = "log page 19h: writes";
pub(super) const RECEIVED: &str = "log page 19h: bytes received";
pub(super) const TRANSMITTED: &str = "log page 19h: bytes transmitted";

/// LUNs that have the page: an address of each, and the name to log in with.
static UNITS: Mutex<Vec<(String, String)>> = Mutex::new(Vec::new());

/// Parameter 0001h of the page, as far as it is read (SPC-5 7.3.12).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counters {
    reads: u64,
    writes: u64,
    received: u64,
    transmitted: u64,
}

/// LOG SENSE of the page's cumulative values.
fn log_sense() -> Cdb {
    let mut cdb = [0; 16];
    (cdb[0], cdb[2]) = (0x4d, 0x40 | 0x19);
    cdb[7..9].copy_from_slice(&ANSWER.to_be_bytes());
    cdb
}

/// Finds the parameter in a page; none if it is another page, or cut off.
fn decode(page: &[u8]) -> Option<Counters> {
    if page.first()? & 0x3f != 0x19 || *page.get(1)? != 0 {
        return None;
    }
    let length = usize::from(u16::from_be_bytes(page.get(2..4)?.try_into().ok()?));
    let mut rest = page.get(4..4 + length)?;
    while let Some((header, values)) = rest.split_at_checked(4) {
        let value = values.get(..usize::from(header[3]))?;
        if header[..2] == [0, 1] {
            let counter = |number: usize| {
                let bytes = value.get(number * 8..number * 8 + 8)?;
                Some(u64::from_be_bytes(bytes.try_into().ok()?))
            };
            return Some(Counters {
                reads: counter(0)?,
                writes: counter(1)?,
                received: counter(2)?.saturating_mul(BLOCK),
                transmitted: counter(3)?.saturating_mul(BLOCK),
            });
        }
        rest = &values[value.len()..];
    }
    None
}

fn ask(session: &mut Session) -> Option<Counters> {
    let answer = session.command(log_sense(), Data::In(vec![0; usize::from(ANSWER)]));
    decode(&answer.ok()?)
}

/// Chooses the LUNs that are watched from now on: those that have the page, by one path each.
pub(in crate::validate) fn choose<'a>(urls: impl Iterator<Item = &'a str>, iqn: &str) {
    let iqn = format!("{iqn}-statistics");
    let has_it = |url: &str| {
        let session = Session::connect(url, &iqn, HeaderDigest::None);
        session.is_ok_and(|mut session| ask(&mut session).is_some())
    };
    let found = urls.filter(|url| has_it(url)).map(|url| (url.to_owned(), iqn.clone()));
    let found: Vec<(String, String)> = found.collect();
    *UNITS.lock().unwrap_or_else(PoisonError::into_inner) = found;
}

/// Addresses and names of the LUNs that are watched.
pub(super) fn chosen() -> Vec<(String, String)> {
    UNITS.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// A LUN while something is measured.
struct Unit {
    /// None from the first command on that was not answered with the page: a case may end a
    /// controller, or the array die.
    session: Option<Session>,
    last: Counters,
    /// Since the first look.
    sum: Counters,
}

/// The LUNs while something is measured.
pub(super) struct Units(Vec<Unit>);

impl Units {
    /// Logs in to LUNs. What does not answer is not counted.
    pub(super) fn connect(units: &[(String, String)]) -> Self {
        let connect = |(url, iqn): &(String, String)| {
            let mut session = Session::connect(url, iqn, HeaderDigest::None).ok()?;
            let last = ask(&mut session)?;
            Some(Unit { session: Some(session), last, sum: Counters::default() })
        };
        Self(units.iter().filter_map(connect).collect())
    }

    /// Adds what all LUNs counted since the first look; nothing if there are none.
    pub(super) fn look(&mut self, page: &mut Page) {
        self.0.iter_mut().for_each(Unit::look);
        let mut add = |name: &str, of: fn(&Counters) -> u64| {
            let sum: u64 = self.0.iter().map(|unit| of(&unit.sum)).sum();
            page.insert(name.to_owned(), sum as f64);
        };
        if !self.0.is_empty() {
            add(READS, |counters| counters.reads);
            add(WRITES, |counters| counters.writes);
            add(RECEIVED, |counters| counters.received);
            add(TRANSMITTED, |counters| counters.transmitted);
        }
    }
}

impl Unit {
    fn look(&mut self) {
        let Some(found) = self.session.as_mut().and_then(ask) else {
            self.session = None;
            return;
        };
        self.sum = Counters {
            reads: self.sum.reads + since(self.last.reads, found.reads),
            writes: self.sum.writes + since(self.last.writes, found.writes),
            received: self.sum.received + since(self.last.received, found.received),
            transmitted: self.sum.transmitted + since(self.last.transmitted, found.transmitted),
        };
        self.last = found;
    }
}

/// Difference of two values of a counter. A smaller one than before was reset, by LOG SELECT or a
/// restart.
fn since(before: u64, now: u64) -> u64 {
    now.checked_sub(before).unwrap_or(now)
}

#[cfg(test)]
mod tests;
