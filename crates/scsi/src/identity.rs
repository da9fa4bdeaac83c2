//! What all logical units say of themselves alike.

/// Standard INQUIRY identification, equal on every logical unit: ESXi offloads copies only between
/// logical units with the same vendor and product identification.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// T10 VENDOR IDENTIFICATION, ASCII, padded with spaces.
    pub vendor: [u8; 8],
    /// PRODUCT IDENTIFICATION, ASCII, padded with spaces.
    pub product: [u8; 16],
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
            vendor: *b"GANTRY  ",
            product: *b"VIRTUAL DISK    ",
            revision: *b"0001",
            target_name: target_name.to_owned(),
            long_cdbs: false,
        }
    }
}
