//! Counters of a device, as esxtop shows them.

use serde::{Deserialize, Serialize};

/// What a command is, as the counters tell commands apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// READ.
    Read,
    /// WRITE.
    Write,
    /// COMPARE AND WRITE (ATS).
    Ats,
    /// COMPARE AND WRITE of a datastore's heartbeat; counted with the others.
    Heartbeat,
    /// EXTENDED COPY (Clone), on the LUN it was sent to.
    Clone,
    /// WRITE SAME (Zero).
    Zero,
    /// UNMAP (Delete).
    Delete,
    /// RESERVE(6).
    Reserve,
    /// Anything else.
    Other,
}

/// Sums since a host's state was made. Of bytes, each is a multiple of 512.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Counters {
    /// READs that ended with GOOD, and their bytes.
    pub reads: u64,
    /// Bytes of these.
    pub read_bytes: u64,
    /// WRITEs that ended with GOOD.
    pub writes: u64,
    /// Bytes of these.
    pub write_bytes: u64,
    /// CLONE_RD: EXTENDED COPYs for which the device was the source.
    pub clone_rd: u64,
    /// CLONE_WR: EXTENDED COPYs for which it was the destination.
    pub clone_wr: u64,
    /// CLONE_F: EXTENDED COPYs that failed.
    pub clone_f: u64,
    /// Bytes copied from it.
    pub clone_rd_bytes: u64,
    /// Bytes copied to it.
    pub clone_wr_bytes: u64,
    /// ATS: COMPARE AND WRITEs that replaced a sector.
    pub ats: u64,
    /// ATSF: those that did not; a miscompare is among them.
    pub atsf: u64,
    /// ZERO: WRITE SAMEs that succeeded.
    pub zero: u64,
    /// ZERO_F: those that failed.
    pub zero_f: u64,
    /// Bytes zeroed.
    pub zero_bytes: u64,
    /// DELETE: UNMAPs that succeeded.
    pub delete: u64,
    /// DELETE_F: those that failed.
    pub delete_f: u64,
    /// Bytes unmapped.
    pub delete_bytes: u64,
    /// RESV: RESERVEs that succeeded.
    pub resv: u64,
    /// CONS: RESERVATION CONFLICTs.
    pub cons: u64,
    /// Microseconds that successful clones took together.
    pub clone_us: u64,
    /// The same of ATS.
    pub ats_us: u64,
    /// The same of zeros.
    pub zero_us: u64,
    /// Microseconds that failed clones took together.
    pub clone_f_us: u64,
    /// The same of ATS.
    pub atsf_us: u64,
    /// The same of zeros.
    pub zero_f_us: u64,
    /// Bytes on the sockets, both ways, as the kernel counts them.
    pub wire_bytes: u64,
    /// Commands repeated on another path.
    pub failovers: u64,
    /// UNIT ATTENTIONs that say that the array's space runs low: ESXi's alarm of a datastore.
    pub space_warnings: u64,
    /// ABORT TASKs for commands that were not answered in time.
    pub aborts: u64,
    /// LUN RESETs where an abort was refused.
    pub resets: u64,
    /// How often no path was left (APD).
    pub outages: u64,
    /// Microseconds without a path.
    pub outage_us: u64,
}

impl Counters {
    /// Counts a command that ended.
    pub fn count(&mut self, kind: Kind, bytes: u64, good: bool, microseconds: u64) {
        let (done, failed, sum) = match kind {
            Kind::Read => (&mut self.reads, None, Some(&mut self.read_bytes)),
            Kind::Write => (&mut self.writes, None, Some(&mut self.write_bytes)),
            Kind::Ats | Kind::Heartbeat => (&mut self.ats, Some(&mut self.atsf), None),
            Kind::Clone => {
                (&mut self.clone_wr, Some(&mut self.clone_f), Some(&mut self.clone_wr_bytes))
            }
            Kind::Zero => (&mut self.zero, Some(&mut self.zero_f), Some(&mut self.zero_bytes)),
            Kind::Delete => {
                (&mut self.delete, Some(&mut self.delete_f), Some(&mut self.delete_bytes))
            }
            Kind::Reserve => (&mut self.resv, None, None),
            Kind::Other => return,
        };
        if good {
            *done += 1;
            sum.into_iter().for_each(|sum| *sum += bytes);
        } else {
            failed.into_iter().for_each(|failed| *failed += 1);
        }
        match (kind, good) {
            (Kind::Clone, true) => self.clone_us += microseconds,
            (Kind::Ats | Kind::Heartbeat, true) => self.ats_us += microseconds,
            (Kind::Zero, true) => self.zero_us += microseconds,
            (Kind::Clone, false) => self.clone_f_us += microseconds,
            (Kind::Ats | Kind::Heartbeat, false) => self.atsf_us += microseconds,
            (Kind::Zero, false) => self.zero_f_us += microseconds,
            _ => {}
        }
    }

    fn fields(&mut self) -> [&mut u64; 32] {
        [
            &mut self.reads,
            &mut self.read_bytes,
            &mut self.writes,
            &mut self.write_bytes,
            &mut self.clone_rd,
            &mut self.clone_wr,
            &mut self.clone_f,
            &mut self.clone_rd_bytes,
            &mut self.clone_wr_bytes,
            &mut self.ats,
            &mut self.atsf,
            &mut self.zero,
            &mut self.zero_f,
            &mut self.zero_bytes,
            &mut self.delete,
            &mut self.delete_f,
            &mut self.delete_bytes,
            &mut self.resv,
            &mut self.cons,
            &mut self.clone_us,
            &mut self.ats_us,
            &mut self.zero_us,
            &mut self.clone_f_us,
            &mut self.atsf_us,
            &mut self.zero_f_us,
            &mut self.wire_bytes,
            &mut self.failovers,
            &mut self.space_warnings,
            &mut self.aborts,
            &mut self.resets,
            &mut self.outages,
            &mut self.outage_us,
        ]
    }

    /// Adds another process's.
    pub fn add(&mut self, other: &Self) {
        let mut other = *other;
        self.fields().into_iter().zip(other.fields()).for_each(|(sum, more)| *sum += *more);
    }

    /// What came since an earlier look.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let (mut since, mut earlier) = (*self, *earlier);
        let pairs = since.fields().into_iter().zip(earlier.fields());
        pairs.for_each(|(now, before)| *now = now.saturating_sub(*before));
        since
    }
}
