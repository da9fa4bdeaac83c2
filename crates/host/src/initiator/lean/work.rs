//! Commands of a benchmark, as the lean client sends them: CDB, place, data.

use anyhow::{Context, Result, ensure};

use super::Work;
use crate::initiator::cdb;
use crate::initiator::session::BLOCK_BYTES;

const READ_FLAG: u8 = 0x40;
const WRITE_FLAG: u8 = 0x20;

/// Of ten commands of a mixed load, so many read.
const MIXED_READS: u64 = 7;

/// What is in a block that COMPARE AND WRITE is measured on.
pub(crate) const LOCK_BYTE: u8 = 0x5a;

/// NAA designators of the source and the destination of a copy.
pub(super) type Designators = ([u8; 16], [u8; 16]);

/// A command.
#[derive(Debug)]
pub(super) struct Order {
    pub(super) cdb: [u8; 16],
    pub(super) payload: Payload,
}

/// The data of a command.
#[derive(Debug)]
pub(super) enum Payload {
    /// It has none.
    None,
    /// So many bytes come from the array.
    In { bytes: usize },
    /// So many bytes of filler go to the array.
    Filler { bytes: usize },
    /// These bytes go to the array.
    List(Vec<u8>),
}

impl Order {
    /// TEST UNIT READY.
    pub(super) fn test_unit_ready() -> Self {
        Self { cdb: [0; 16], payload: Payload::None }
    }

    /// Flags R and W of the command PDU (RFC 7143, 11.3.1).
    pub(super) fn flags(&self) -> u8 {
        match self.payload {
            Payload::None => 0,
            Payload::In { .. } => READ_FLAG,
            Payload::Filler { .. } | Payload::List(_) => WRITE_FLAG,
        }
    }

    /// The expected data transfer length.
    pub(super) fn transfer_length(&self) -> usize {
        match &self.payload {
            Payload::In { bytes } => *bytes,
            Payload::None | Payload::Filler { .. } | Payload::List(_) => self.data_out_length(),
        }
    }

    /// Bytes that go to the array.
    pub(super) fn data_out_length(&self) -> usize {
        match &self.payload {
            Payload::None | Payload::In { .. } => 0,
            Payload::Filler { bytes } => *bytes,
            Payload::List(list) => list.len(),
        }
    }
}

/// Makes the commands of a run.
#[derive(Debug)]
pub(super) struct Maker {
    work: Work,
    bytes: u64,
    /// Places of one command each.
    places: u64,
    next: u64,
    state: u64,
    designators: Option<Designators>,
}

impl Maker {
    pub(super) fn new(
        work: Work,
        bytes: u64,
        span: u64,
        designators: Option<Designators>,
    ) -> Result<Self> {
        ensure!(bytes > 0 && bytes.is_multiple_of(BLOCK_BYTES), "a command covers whole blocks");
        ensure!(span >= bytes, "the span is smaller than one command");
        let places = span / bytes;
        Ok(Self { work, bytes, places, next: 0, state: 0x2545_f491_4f6c_dd1d, designators })
    }

    fn random(&mut self, limit: u64) -> u64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        self.state % limit
    }

    fn place(&mut self) -> u64 {
        let count = self.places;
        match self.work {
            Work::RandomRead | Work::RandomWrite | Work::Mixed => self.random(count),
            Work::Read
            | Work::Write
            | Work::CompareAndWrite
            | Work::WriteLocks
            | Work::WriteSame
            | Work::Unmap
            | Work::ExtendedCopy => {
                self.next += 1;
                (self.next - 1) % count
            }
        }
    }

    /// The next command.
    pub(super) fn order(&mut self) -> Result<Order> {
        let lba = self.place() * (self.bytes / BLOCK_BYTES);
        let (blocks, bytes) = ((self.bytes / BLOCK_BYTES) as u32, self.bytes as usize);
        let read = || Order { cdb: cdb::read(lba, blocks), payload: Payload::In { bytes } };
        let write = || Order { cdb: cdb::write(lba, blocks), payload: Payload::Filler { bytes } };
        Ok(match self.work {
            Work::RandomRead | Work::Read => read(),
            Work::RandomWrite | Work::Write => write(),
            Work::Mixed => {
                if self.random(10) < MIXED_READS {
                    read()
                } else {
                    write()
                }
            }
            Work::CompareAndWrite => {
                let count =
                    u8::try_from(blocks).context("COMPARE AND WRITE of 255 blocks at most")?;
                let both = Payload::List(vec![LOCK_BYTE; 2 * bytes]);
                Order { cdb: cdb::compare_and_write(lba, count), payload: both }
            }
            Work::WriteLocks => {
                let payload = Payload::List(vec![LOCK_BYTE; bytes]);
                Order { cdb: cdb::write(lba, blocks), payload }
            }
            Work::WriteSame => {
                let zeros = Payload::List(vec![0; BLOCK_BYTES as usize]);
                Order { cdb: cdb::write_same(lba, blocks), payload: zeros }
            }
            Work::Unmap => {
                let list = cdb::unmap_list(lba, blocks);
                Order { cdb: cdb::unmap(list.len() as u16), payload: Payload::List(list) }
            }
            Work::ExtendedCopy => {
                let (from, to) =
                    self.designators.context("a copy needs two LUNs with NAA designators")?;
                let count =
                    u16::try_from(blocks).context("EXTENDED COPY of 65,535 blocks at most")?;
                let list = cdb::extended_copy_list(&from, lba, &to, lba, count);
                Order { cdb: cdb::extended_copy(list.len() as u32), payload: Payload::List(list) }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seven_of_ten_mixed_commands_read() {
        let mut maker = Maker::new(Work::Mixed, 4096, 1 << 20, None).unwrap();
        let orders: Vec<_> = (0..10_000).map(|_| maker.order().unwrap()).collect();
        let reads = orders.iter().filter(|order| order.flags() == READ_FLAG).count();
        assert!((6800..7200).contains(&reads), "{reads}");
        assert!(orders.iter().all(|order| order.transfer_length() == 4096));
    }

    #[test]
    fn sequential_commands_begin_again_at_the_end_of_the_span() {
        let mut maker = Maker::new(Work::Read, 131_072, 262_144, None).unwrap();
        let cdbs: Vec<_> = (0..3).map(|_| maker.order().unwrap().cdb).collect();
        assert_eq!(cdbs[0], cdb::read(0, 256));
        assert_eq!(cdbs[1], cdb::read(256, 256));
        assert_eq!(cdbs[2], cdbs[0]);
    }

    #[test]
    fn what_cannot_be_sent_is_refused() {
        assert!(Maker::new(Work::Read, 1000, 4096, None).is_err());
        assert!(Maker::new(Work::Read, 8192, 4096, None).is_err());
        assert!(Maker::new(Work::ExtendedCopy, 4096, 8192, None).unwrap().order().is_err());
        let mut locks = Maker::new(Work::CompareAndWrite, 1 << 20, 1 << 20, None).unwrap();
        assert!(locks.order().is_err());
    }
}
