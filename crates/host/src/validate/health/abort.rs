//! The abort-and-retry scenario. A host whose heartbeat is not answered in time aborts it, reads
//! the block, and tries again with what it has read. If the aborted command lands after the abort
//! was answered, the retry misses, and the host loses the datastore (IBM, VPLEX, Broadcom 326437).
//!
//! An array cannot be made to stall for 8 s from outside; so the abort follows at once, while the
//! command is most likely under way.

use std::thread;
use std::time::Duration;

use anyhow::Result;

use crate::initiator::cdb;
use crate::initiator::session::{Data, HeaderDigest, Session, SessionError};
use crate::validate::bench::Bench;
use crate::validate::model::Aborts;

/// How long to wait for a late change, in one round of ten.
const LATE: Duration = Duration::from_millis(20);

type Image = Vec<u8>;

struct Client {
    session: Session,
    lba: u64,
}

fn image(number: u64) -> Image {
    let mut image = vec![0; 512];
    image[..8].copy_from_slice(&number.to_le_bytes());
    image
}

impl Client {
    fn connect(bench: &Bench) -> Result<Self> {
        let unit = bench.other();
        let initiator = "iqn.1998-01.com.vmware:validate-retry";
        let session = Session::connect(&bench.paths(unit)[0], initiator, HeaderDigest::None)?;
        let lba = (bench.size_bytes(unit) - super::QUIET) / 512 + 8;
        Ok(Self { session, lba })
    }

    fn read(&mut self) -> Result<Image, SessionError> {
        self.session.command(cdb::read(self.lba, 1), Data::In(vec![0; 512]))
    }

    fn write(&mut self, image: &Image) -> Result<(), SessionError> {
        self.session.command(cdb::write(self.lba, 1), Data::Out(image.clone())).map(|_| ())
    }

    fn swap(&mut self, from: &Image, to: &Image) -> Result<(), SessionError> {
        let data = [from.as_slice(), to].concat();
        self.session.command(cdb::compare_and_write(self.lba, 1), Data::Out(data)).map(|_| ())
    }

    /// Begins to swap, aborts; returns the answer, and whether the command had ended with GOOD.
    fn swap_and_abort(
        &mut self,
        from: &Image,
        to: &Image,
        wait: Duration,
    ) -> Result<(u32, Option<bool>), SessionError> {
        let data = Data::Out([from.as_slice(), to].concat());
        self.session.submit(0, cdb::compare_and_write(self.lba, 1), data)?;
        let name = self.session.last_task().ok_or(SessionError::Lost)?;
        thread::sleep(wait);
        let (response, mut ended) = self.session.abort_task(name)?;
        let known = ended.pop().map(|finished| finished.result.is_ok());
        if known.is_none() {
            self.session.forget_last();
        }
        Ok((response, known))
    }
}

/// Runs so many rounds.
///
/// # Errors
/// When the array is not reachable any more.
pub(super) fn run(bench: &Bench, rounds: u64) -> Result<Aborts> {
    let mut client = Client::connect(bench)?;
    let mut aborts = Aborts { rounds, ..Aborts::default() };
    client.write(&image(0))?;
    let mut number = 0;
    for round in 0..rounds {
        let (old, new) = (image(number), image(number + 1));
        let wait = Duration::from_micros(round % 4 * 40);
        let Ok((response, known)) = client.swap_and_abort(&old, &new, wait) else {
            aborts.refused += 1;
            client = Client::connect(bench)?;
            client.write(&new)?;
            number += 1;
            continue;
        };
        match response {
            0 => aborts.complete += 1,
            1 => aborts.ended_before += 1,
            _ => aborts.refused += 1,
        }
        let found = client.read()?;
        note(&mut aborts, &found, [&old, &new], known);
        if round % 10 == 0 {
            thread::sleep(LATE);
            aborts.wrong += u64::from(client.read()? != found);
        }
        let retried = client.swap(&found, &new);
        aborts.retries_failed += u64::from(retried.is_err());
        if retried.is_err() {
            client.write(&new)?;
        }
        number += 1;
    }
    Ok(aborts)
}

fn note(aborts: &mut Aborts, found: &Image, [old, new]: [&Image; 2], known: Option<bool>) {
    let fits = match known {
        Some(true) => found == new,
        Some(false) => found == old,
        None => found == old || found == new,
    };
    aborts.wrong += u64::from(!fits);
    aborts.old += u64::from(found == old);
    aborts.new += u64::from(found == new);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_good_that_did_not_write_and_a_strange_block_are_wrong() {
        let (old, new, other) = (image(1), image(2), image(9));
        let wrong = |found: &Image, known| {
            let mut aborts = Aborts::default();
            note(&mut aborts, found, [&old, &new], known);
            aborts.wrong
        };
        for (found, known, count) in [
            (&old, None, 0),
            (&new, None, 0),
            (&new, Some(true), 0),
            (&old, Some(false), 0),
            (&old, Some(true), 1),
            (&new, Some(false), 1),
            (&other, None, 1),
        ] {
            assert_eq!(wrong(found, known), count, "{known:?}");
        }
    }
}
