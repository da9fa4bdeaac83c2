//! Identification of logical units: vendor, product, serial number, designators.

/// Standard INQUIRY identification (SPC-4 6.6.2). ESXi offloads copies only between logical units
/// that say the same, so that all of them do unless the owner says otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identification {
    /// T10 VENDOR IDENTIFICATION, ASCII, padded with spaces.
    pub vendor: [u8; 8],
    /// PRODUCT IDENTIFICATION, ASCII, padded with spaces.
    pub product: [u8; 16],
}

impl Identification {
    /// Gantry's own.
    pub const GANTRY: Self = Self { vendor: *b"GANTRY  ", product: *b"VIRTUAL DISK    " };
}

/// What all logical units say alike.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Vendor and product, where a logical unit has none of its own.
    pub identification: Identification,
    /// PRODUCT REVISION LEVEL, ASCII, padded with spaces.
    pub revision: [u8; 4],
    /// The iSCSI name of the target device, up to 223 bytes.
    pub target_name: String,
    /// Whether CDBs of more than 16 bytes are taken and reported: no host needs them, and libiscsi
    /// cannot read what is reported of them.
    pub long_cdbs: bool,
}

impl Identity {
    /// Gantry's own identification, for the target with this iSCSI name.
    pub fn gantry(target_name: &str) -> Self {
        Self {
            identification: Identification::GANTRY,
            revision: *b"0001",
            target_name: target_name.to_owned(),
            long_cdbs: false,
        }
    }
}
