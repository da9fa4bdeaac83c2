//! The LUN as the disk of a datastore.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use vmfs::disk::Guard;
use vmfs::{Disk, DiskError, Swap};

use super::{Job, Lun, RESERVATION_CONFLICT};
use crate::esxi::counters::Kind;
use crate::esxi::vaai::{Status, is_refusal};
use crate::initiator::cdb::{self, Cdb};
use crate::initiator::session::{Data, SessionError};

/// Bytes of a READ or WRITE.
const TRANSFER: u64 = 1 << 20;

/// Bytes of a WRITE SAME, as ESXi sends it.
const WRITE_SAME: u64 = 1 << 20;

/// Bytes of an UNMAP to a LUN that tells no limit: a block of a file.
const UNMAP: u64 = 1 << 20;

/// How a command's failure looks to the file system.
pub(crate) fn disk_error(error: SessionError) -> DiskError {
    match error {
        SessionError::Command { status: RESERVATION_CONFLICT, .. } => DiskError::Reserved,
        SessionError::Command { key: 7, ascq: 0x2707, .. } => DiskError::OutOfSpace,
        SessionError::Command { key: 5, ascq: 0x2000 | 0x2400, .. } => DiskError::Unsupported,
        SessionError::AllPathsDown => DiskError::Unreachable,
        other => DiskError::Failed(other.to_string()),
    }
}

fn six(opcode: u8) -> Cdb {
    let mut cdb = [0; 16];
    cdb[0] = opcode;
    cdb
}

impl Lun {
    /// Runs the same kind of command over a range, several at once.
    ///
    /// # Errors
    /// The first failure; the others have ended by then.
    pub fn over(
        &mut self,
        range: [u64; 2],
        step: u64,
        job: impl FnMut(u64, u64) -> Job,
    ) -> Result<(), SessionError> {
        self.at_once(self.settings.outstanding, range, step, job)
    }

    /// As [`Lun::over`], with so many outstanding; with fewer that carry data, where the wire is slow.
    fn at_once(
        &mut self,
        outstanding: u64,
        [offset, length]: [u64; 2],
        step: u64,
        mut job: impl FnMut(u64, u64) -> Job,
    ) -> Result<(), SessionError> {
        let mut next = 0;
        let mut waiting = None;
        let mut failure = None;
        while next < length || waiting.is_some() || self.in_flight() > 0 {
            while failure.is_none() && (waiting.is_some() || next < length) {
                let job = waiting.take().unwrap_or_else(|| {
                    let (at, taken) = (offset + next, step.min(length - next));
                    next += taken;
                    job(at, taken)
                });
                if self.in_flight() as u64 >= self.outstanding_beside(&job).min(outstanding) {
                    waiting = Some(job);
                    break;
                }
                self.submit(job)?;
            }
            for done in self.wait()? {
                failure = failure.or(done.result.err());
            }
            if failure.is_some() && self.in_flight() == 0 {
                break;
            }
        }
        failure.map_or(Ok(()), Err)
    }

    fn outstanding_beside(&self, job: &Job) -> u64 {
        match job.kind {
            Kind::Read | Kind::Write => self.pace.outstanding(),
            _ => u64::MAX,
        }
    }

    /// Carries out several commands at once, each with its data and the bytes of the LUN that it is
    /// about; returns how each ended, in their order.
    fn each(
        &mut self,
        jobs: impl IntoIterator<Item = (Kind, Cdb, Vec<u8>, u64)>,
    ) -> Result<Vec<Result<(), SessionError>>, SessionError> {
        /// Tags of others are smaller: places on the LUN, or counted from 0.
        const OURS: u64 = 1 << 63;
        let mut ended = Vec::new();
        for (number, (kind, cdb, data, bytes)) in jobs.into_iter().enumerate() {
            let tag = OURS + number as u64;
            self.submit(Job { tag, kind, cdb, data: Data::Out(data), bytes })?;
            ended.push(None);
        }
        let mut others = Vec::new();
        while ended.iter().any(Option::is_none) {
            for done in self.wait()? {
                match done.tag.checked_sub(OURS) {
                    Some(number) => ended[number as usize] = Some(done.result),
                    None => others.push(done),
                }
            }
        }
        self.early.append(&mut others);
        Ok(ended.into_iter().flatten().collect())
    }

    fn swap_sector(
        &mut self,
        kind: Kind,
        offset: u64,
        [expected, replacement]: [&[u8; 512]; 2],
    ) -> Result<bool, DiskError> {
        let data = Data::Out([expected.as_slice(), replacement].concat());
        let before = self.repeats;
        let result = self.command(kind, cdb::compare_and_write(offset / 512, 1), data, 512);
        let repeated = self.repeats != before;
        self.swapped(offset, replacement, result.map(drop), repeated)
    }

    /// Whether a sector was replaced. Repeated on another path, a COMPARE AND WRITE may have met
    /// its own first attempt.
    fn swapped(
        &mut self,
        offset: u64,
        replacement: &[u8; 512],
        result: Result<(), SessionError>,
        repeated: bool,
    ) -> Result<bool, DiskError> {
        match result {
            Ok(()) => Ok(true),
            Err(SessionError::Command { key: 0xe, .. }) => {
                let found = if repeated { self.read_bytes(offset, 512) } else { Ok(Vec::new()) };
                Ok(found.map_err(disk_error)? == replacement)
            }
            Err(error) => Err(disk_error(error)),
        }
    }

    /// Makes a range read as zeros: by WRITE SAME where the settings and the LUN allow it, else by
    /// sending zeros.
    ///
    /// # Errors
    /// As a command.
    pub fn zero_range(&mut self, range: [u64; 2]) -> Result<(), SessionError> {
        let outstanding = self.settings.outstanding_zeroes;
        if self.settings.hardware_accelerated_init && self.vaai.zero != Status::Unsupported {
            let same = self.at_once(outstanding, range, WRITE_SAME, |at, length| Job {
                tag: 0,
                kind: Kind::Zero,
                cdb: cdb::write_same(at / 512, (length / 512) as u32),
                data: Data::Out(vec![0; 512]),
                bytes: length,
            });
            // Not by what is believed now: news may have come behind the refusal.
            if !same.as_ref().is_err_and(is_refusal) {
                return same;
            }
        }
        self.at_once(outstanding, range, TRANSFER, |at, length| Job {
            tag: 0,
            kind: Kind::Write,
            cdb: cdb::write(at / 512, (length / 512) as u32),
            data: Data::Out(vec![0; length as usize]),
            bytes: length,
        })
    }

    /// UNMAPs a range, within the LUN's limits.
    ///
    /// # Errors
    /// As a command.
    pub fn unmap_range(&mut self, range: [u64; 2]) -> Result<(), SessionError> {
        let limit = match self.identity.unmap_blocks_max {
            0 => UNMAP,
            blocks => u64::from(blocks).min(1 << 21) * 512,
        };
        self.over(range, limit, |at, length| {
            let list = cdb::unmap_list(at / 512, (length / 512) as u32);
            Job {
                tag: 0,
                kind: Kind::Delete,
                cdb: cdb::unmap(list.len() as u16),
                data: Data::Out(list),
                bytes: length,
            }
        })
    }
}

impl Disk for Lun {
    fn size_bytes(&self) -> u64 {
        self.identity.size_bytes
    }

    fn name(&self) -> String {
        self.identity.name()
    }

    fn another(&mut self, name: &str) -> Result<Self, DiskError> {
        let missing = || DiskError::Missing(name.to_owned());
        let host = self.host.as_ref().ok_or_else(missing)?;
        // The host may have found it in a rescan since this process began.
        let host = host.reopened().unwrap_or_else(|_| (**host).clone());
        host.lun(name).map_err(|_| missing())
    }

    fn read(&mut self, offset: u64, buffer: &mut [u8]) -> Result<(), DiskError> {
        let read = self.read_bytes(offset, buffer.len() as u64).map_err(disk_error)?;
        buffer.copy_from_slice(&read);
        Ok(())
    }

    fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<(), DiskError> {
        for (number, piece) in bytes.chunks(TRANSFER as usize).enumerate() {
            let lba = (offset + number as u64 * TRANSFER) / 512;
            let cdb = cdb::write(lba, (piece.len() / 512) as u32);
            let length = piece.len() as u64;
            self.command(Kind::Write, cdb, Data::Out(piece.to_vec()), length)
                .map_err(disk_error)?;
        }
        Ok(())
    }

    fn write_each(&mut self, pieces: &[(u64, Vec<u8>)]) -> Result<(), DiskError> {
        let transfers = pieces.iter().flat_map(|(offset, bytes)| {
            let places = (*offset..).step_by(TRANSFER as usize);
            bytes.chunks(TRANSFER as usize).zip(places).map(|(piece, at)| {
                let length = piece.len() as u64;
                let cdb = cdb::write(at / 512, (length / 512) as u32);
                (Kind::Write, cdb, piece.to_vec(), length)
            })
        });
        let results = self.each(transfers).map_err(disk_error)?;
        results.into_iter().collect::<Result<(), _>>().map_err(disk_error)
    }

    fn compare_and_write(
        &mut self,
        offset: u64,
        expected: &[u8; 512],
        replacement: &[u8; 512],
    ) -> Result<bool, DiskError> {
        self.swap_sector(Kind::Ats, offset, [expected, replacement])
    }

    /// As any other, but aborted after 8 s (`times().heartbeat`), then tried again.
    fn heartbeat(
        &mut self,
        offset: u64,
        expected: &[u8; 512],
        replacement: &[u8; 512],
    ) -> Result<bool, DiskError> {
        self.swap_sector(Kind::Heartbeat, offset, [expected, replacement])
    }

    fn guard(&mut self, guard: Option<Guard>) {
        self.outage.guard = guard;
    }

    fn compare_and_write_each(&mut self, swaps: &[Swap]) -> Vec<Result<bool, DiskError>> {
        let before = self.repeats;
        let job = |swap: &Swap| {
            let data = [swap.expected, swap.replacement].concat();
            (Kind::Ats, cdb::compare_and_write(swap.offset / 512, 1), data, 512)
        };
        let results = match self.each(swaps.iter().map(job)) {
            Ok(results) => results,
            Err(error) => return vec![Err(disk_error(error)); swaps.len()],
        };
        let repeated = self.repeats != before;
        let ended = swaps.iter().zip(results);
        ended
            .map(|(swap, result)| self.swapped(swap.offset, &swap.replacement, result, repeated))
            .collect()
    }

    fn reserve(&mut self) -> Result<(), DiskError> {
        // A reservation belongs to one path: until the release all goes there.
        self.pinned = true;
        let reserved = self.command(Kind::Reserve, six(0x16), Data::None, 0);
        self.pinned = reserved.is_ok();
        if self.pinned {
            self.stale_reservation = None;
        }
        reserved.map(|_| ()).map_err(disk_error)
    }

    fn release(&mut self) -> Result<(), DiskError> {
        let released = self.command(Kind::Other, six(0x17), Data::None, 0);
        self.pinned = false;
        released.map(|_| ()).map_err(disk_error)
    }

    fn zero(&mut self, offset: u64, length: u64) -> Result<(), DiskError> {
        self.zero_range([offset, length]).map_err(disk_error)
    }

    /// Stands still while there is no path: of what others do meanwhile nothing is seen, so they
    /// must not be taken for dead.
    fn now_us(&mut self) -> u64 {
        self.started.elapsed().saturating_sub(self.outage.total()).as_micros() as u64
    }

    fn wall_clock(&mut self) -> u32 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        since.as_secs() as u32
    }

    fn pause_us(&mut self, duration: u64) {
        std::thread::sleep(Duration::from_micros(duration));
    }
}
