//! A write load that knows what was acknowledged, and checks that it is there.
//!
//! Each worker has a session and a region of its own, and one write in flight. A block's content
//! follows from worker, block and version, so what is read tells which version it is.

use std::net::SocketAddr;
use std::thread::{self, JoinHandle};

use anyhow::{Context, Result, bail, ensure};

use crate::pdu::{RawSession, cdb10};
use crate::random::Random;

/// Bytes of a block of the load; eight logical blocks.
pub const BLOCK_BYTES: usize = 4096;

/// Blocks of one worker's region.
pub const REGION_BLOCKS: u32 = 1024;

const LOGICAL_BLOCKS: u32 = 8;

/// Blocks in one verifying READ.
const READ_BLOCKS: u32 = 8;

/// Where a worker writes.
#[derive(Clone, Debug)]
pub struct Place {
    /// The portal.
    pub portal: SocketAddr,
    /// The target's iSCSI name.
    pub target: String,
    /// The LUN number.
    pub lun: u8,
}

/// What a worker knows about its region.
#[derive(Debug)]
pub struct Worker {
    number: u32,
    random: Random,
    /// By block: the version that was acknowledged last; 0 is a block never written.
    acknowledged: Vec<u64>,
    /// The write that was sent and not acknowledged.
    in_flight: Option<(u32, u64)>,
    writes: u64,
}

impl Worker {
    /// A worker that has written nothing.
    pub fn new(number: u32) -> Self {
        let acknowledged = vec![0; REGION_BLOCKS as usize];
        let random = Random::new(u64::from(number));
        Self { number, random, acknowledged, in_flight: None, writes: 0 }
    }

    /// Writes that were acknowledged, over all runs.
    pub fn writes(&self) -> u64 {
        self.writes
    }

    /// Logs in, and then writes in a thread of its own until the daemon goes; then gives the worker back.
    ///
    /// # Errors
    /// When the daemon refuses the login; inside the thread: when it refuses a write.
    pub fn start(mut self, place: &Place) -> Result<JoinHandle<Result<Self>>> {
        let (mut session, lun) = (self.log_in(place)?, place.lun);
        Ok(thread::spawn(move || {
            while self.write_one(&mut session, lun)? {}
            Ok(self)
        }))
    }

    fn log_in(&self, place: &Place) -> Result<RawSession> {
        let name = format!("iqn.2026-01.org.example:worker-{}", self.number);
        RawSession::log_in(place.portal, &name, &place.target)
    }

    /// False when the daemon went away.
    fn write_one(&mut self, session: &mut RawSession, lun: u8) -> Result<bool> {
        let block = u32::try_from(self.random.below(REGION_BLOCKS.into()))?;
        let version = self.acknowledged[block as usize] + 1;
        self.in_flight = Some((block, version));
        let cdb = self.cdb(0x2a, block, LOGICAL_BLOCKS);
        let Ok(answer) = session.write(lun, &cdb, &self.content(block, version)) else {
            return Ok(false);
        };
        answer.good().with_context(|| format!("writing block {block}"))?;
        self.acknowledged[block as usize] = version;
        self.in_flight = None;
        self.writes += 1;
        Ok(true)
    }

    /// Reads the whole region. Every acknowledged write must be there; the one in flight may be,
    /// whole. What is found counts as acknowledged from now on.
    ///
    /// # Errors
    /// When a block holds anything else.
    pub fn verify(&mut self, place: &Place) -> Result<()> {
        let mut session = self.log_in(place)?;
        for first in (0..REGION_BLOCKS).step_by(READ_BLOCKS as usize) {
            let cdb = self.cdb(0x28, first, READ_BLOCKS * LOGICAL_BLOCKS);
            let length = READ_BLOCKS * u32::try_from(BLOCK_BYTES)?;
            let data = session.read(place.lun, &cdb, length)?.good()?;
            ensure!(data.len() == length as usize, "READ returned {} bytes", data.len());
            for (block, found) in (first..).zip(data.chunks(BLOCK_BYTES)) {
                self.verify_block(block, found)?;
            }
        }
        self.in_flight = None;
        Ok(())
    }

    fn verify_block(&mut self, block: u32, found: &[u8]) -> Result<()> {
        let version = self.acknowledged[block as usize];
        if found == self.content(block, version) {
            return Ok(());
        }
        if self.in_flight == Some((block, version + 1)) && found == self.content(block, version + 1)
        {
            self.acknowledged[block as usize] = version + 1;
            return Ok(());
        }
        let older = (0..version).rev().find(|&older| found == self.content(block, older));
        let (number, start) = (self.number, &found[..16]);
        match older {
            Some(older) => bail!(
                "worker {number}, block {block}: acknowledged version {version}, found {older}"
            ),
            None => bail!("worker {number}, block {block}: no version of it, but {start:02x?}"),
        }
    }

    fn content(&self, block: u32, version: u64) -> Vec<u8> {
        if version == 0 {
            return vec![0; BLOCK_BYTES];
        }
        let name = u64::from(self.number) << 56 | u64::from(block) << 40 | version;
        Random::new(name).bytes(BLOCK_BYTES)
    }

    /// READ(10) or WRITE(10) (SBC-4 5.11, 5.38).
    fn cdb(&self, operation: u8, block: u32, blocks: u32) -> [u8; 10] {
        let lba = (self.number * REGION_BLOCKS + block) * LOGICAL_BLOCKS;
        cdb10(operation, 0, lba, blocks as u16)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_or_torn_write_is_found() {
        let mut worker = Worker::new(1);
        worker.acknowledged[5] = 2;
        let content = |version| Worker::new(1).content(5, version);
        assert!(worker.verify_block(5, &content(2)).is_ok());
        assert!(worker.verify_block(5, &content(1)).is_err(), "an older version");
        assert!(worker.verify_block(5, &content(3)).is_err(), "a version never sent");
        let torn = [&content(2)[..2048], &content(1)[2048..]].concat();
        assert!(worker.verify_block(5, &torn).is_err(), "half of each");
        assert!(worker.verify_block(4, &content(2)).is_err(), "a block never written");
    }

    #[test]
    fn a_write_in_flight_may_be_there_or_not() {
        let mut worker = Worker::new(1);
        worker.acknowledged[5] = 2;
        worker.in_flight = Some((5, 3));
        let content = |version| Worker::new(1).content(5, version);
        assert!(worker.verify_block(5, &content(2)).is_ok());
        assert!(worker.verify_block(5, &content(3)).is_ok());
        assert_eq!(worker.acknowledged[5], 3);
        assert!(worker.verify_block(5, &content(2)).is_err(), "gone after it was seen");
    }
}
