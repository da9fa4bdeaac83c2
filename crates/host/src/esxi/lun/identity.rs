//! Identity of a LUN: INQUIRY and its pages, capacity, copy limits.

use crate::initiator::cdb::{self, Cdb};
use crate::initiator::session::{Data, Session, SessionError};

/// A LUN's own words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// NAA identifier.
    pub naa: Option<[u8; 16]>,
    /// VENDOR IDENTIFICATION.
    pub vendor: String,
    /// PRODUCT IDENTIFICATION. ESXi copies only between LUNs with the same.
    pub product: String,
    /// PRODUCT REVISION LEVEL.
    pub revision: String,
    /// VERSION of INQUIRY.
    pub scsi_level: u8,
    /// The 3PC bit: it says that it can copy.
    pub third_party_copy: bool,
    /// TPGS: 1 is implicit ALUA.
    pub tpgs: u8,
    /// Unit serial number.
    pub serial: String,
    /// Bytes.
    pub size_bytes: u64,
    /// Logical blocks per physical block, as an exponent.
    pub physical_exponent: u8,
    /// LBPME: thin provisioned.
    pub thin: bool,
    /// LBPRZ: unmapped blocks read as zeros.
    pub reads_zeros: bool,
    /// Blocks of a COMPARE AND WRITE; 0 when it does not say.
    pub ats_blocks_max: u8,
    /// Blocks of a WRITE SAME; 0 when it does not say.
    pub write_same_blocks_max: u64,
    /// Blocks of an UNMAP.
    pub unmap_blocks_max: u32,
    /// Ranges of an UNMAP.
    pub unmap_descriptors_max: u32,
    /// Blocks that UNMAP frees at best.
    pub unmap_granularity: u32,
    /// VPD pages it has.
    pub pages: Vec<u8>,
    /// Limits of EXTENDED COPY: segments, bytes of a segment.
    pub copy: Option<(u16, u32)>,
    /// Bytes of which addresses and lengths of EXTENDED COPY are multiples, as an exponent.
    pub copy_granularity_exponent: u8,
}

fn vpd(page: u8) -> Cdb {
    let mut cdb = [0; 16];
    cdb[..6].copy_from_slice(&[0x12, 1, page, 0, 252, 0]);
    cdb
}

fn standard_inquiry() -> Cdb {
    let mut cdb = [0; 16];
    cdb[..6].copy_from_slice(&[0x12, 0, 0, 0, 96, 0]);
    cdb
}

/// RECEIVE COPY RESULTS with service action 03h, OPERATING PARAMETERS.
fn copy_limits() -> Cdb {
    let mut cdb = [0; 16];
    (cdb[0], cdb[1], cdb[13]) = (0x84, 3, 128);
    cdb
}

/// Segments, and bytes of a segment, in OPERATING PARAMETERS.
pub fn decode_copy_limits(answer: &[u8]) -> Option<(u16, u32)> {
    let segments = u16::from_be_bytes(answer.get(10..12)?.try_into().ok()?);
    let length = u32::from_be_bytes(answer.get(16..20)?.try_into().ok()?);
    (segments > 0).then_some((segments, length))
}

fn text(bytes: &[u8]) -> String {
    terminal::printable(String::from_utf8_lossy(bytes).trim_matches([' ', '\0']))
}

fn be(page: &[u8], range: std::ops::Range<usize>) -> u64 {
    let field = page.get(range).unwrap_or_default();
    field.iter().fold(0, |value, byte| value << 8 | u64::from(*byte))
}

impl Identity {
    /// Asks; what is not answered stays empty.
    ///
    /// # Errors
    /// When the connection is lost or the LUN does not answer INQUIRY.
    pub fn ask(session: &mut Session) -> Result<Self, SessionError> {
        let mut ask = |cdb: Cdb, length: usize| -> Result<Vec<u8>, SessionError> {
            session.command(cdb, Data::In(vec![0; length]))
        };
        let optional = |answer: Result<Vec<u8>, SessionError>| match answer {
            Err(SessionError::Lost) => Err(SessionError::Lost),
            other => Ok(other.unwrap_or_default()),
        };
        let inquiry = ask(standard_inquiry(), 96)?;
        let pages = optional(ask(vpd(0), 252))?;
        let count = be(&pages, 2..4) as usize;
        let pages = pages.get(4..4 + count).unwrap_or_default().to_vec();
        let page =
            |number: u8, ask: &mut dyn FnMut(Cdb, usize) -> Result<Vec<u8>, SessionError>| {
                if pages.contains(&number) {
                    optional(ask(vpd(number), 252))
                } else {
                    Ok(Vec::new())
                }
            };
        let serial = page(0x80, &mut ask)?;
        let limits = page(0xb0, &mut ask)?;
        let capacity = optional(ask(cdb::read_capacity(), 32))?;
        let copy = optional(ask(copy_limits(), 128))?;
        let mut identity = Self {
            vendor: text(&inquiry[8..16]),
            product: text(&inquiry[16..32]),
            revision: text(&inquiry[32..36]),
            scsi_level: inquiry[2],
            third_party_copy: inquiry[5] & 8 != 0,
            tpgs: inquiry[5] >> 4 & 3,
            serial: text(serial.get(4..4 + be(&serial, 2..4) as usize).unwrap_or_default()),
            physical_exponent: capacity.get(13).copied().unwrap_or(0) & 0xf,
            thin: capacity.get(14).is_some_and(|byte| byte & 0x80 != 0),
            reads_zeros: capacity.get(14).is_some_and(|byte| byte & 0x40 != 0),
            ats_blocks_max: limits.get(5).copied().unwrap_or(0),
            unmap_blocks_max: be(&limits, 20..24) as u32,
            unmap_descriptors_max: be(&limits, 24..28) as u32,
            unmap_granularity: be(&limits, 28..32) as u32,
            write_same_blocks_max: be(&limits, 36..44),
            pages,
            copy: decode_copy_limits(&copy),
            // SPC-4 6.18.4: DATA SEGMENT GRANULARITY.
            copy_granularity_exponent: copy.get(37).copied().unwrap_or(0),
            ..Self::default()
        };
        (identity.naa, identity.size_bytes) = (session.naa, session.size_bytes);
        Ok(identity)
    }

    /// The device's name: `naa.…`; an invented one for a LUN without NAA identifier.
    pub fn name(&self) -> String {
        match self.naa {
            Some(naa) => {
                format!("naa.{}", naa.iter().map(|b| format!("{b:02x}")).collect::<String>())
            }
            None => format!("t10.{}{}", self.vendor, self.serial.replace(' ', "_")),
        }
    }

    /// Bytes of which addresses and lengths of a copy must be multiples: of the physical block,
    /// and of what the copy manager says.
    pub fn copy_alignment(&self) -> u64 {
        let physical = 512 << self.physical_exponent;
        let granularity = 1_u64.checked_shl(u32::from(self.copy_granularity_exponent));
        granularity.unwrap_or(512).max(physical)
    }

    /// Whether ESXi takes two LUNs to be of one array.
    pub fn same_array(&self, other: &Self) -> bool {
        self.vendor == other.vendor && self.product == other.product
    }
}
