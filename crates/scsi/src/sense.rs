//! Sense data (SPC-4 4.5): one table in T10's words, and the bytes of it.

mod from_block;

use crate::limits;

/// SPC-4 4.5.6.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum SenseKey {
    /// 0h.
    NoSense = 0x0,
    /// 2h.
    NotReady = 0x2,
    /// 3h.
    MediumError = 0x3,
    /// 4h.
    HardwareError = 0x4,
    /// 5h.
    IllegalRequest = 0x5,
    /// 6h.
    UnitAttention = 0x6,
    /// 7h.
    DataProtect = 0x7,
    /// Ah.
    CopyAborted = 0xa,
    /// Bh.
    AbortedCommand = 0xb,
    /// Eh.
    Miscompare = 0xe,
}

/// A sense key with an additional sense code and its qualifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SenseCode {
    /// Sense key.
    pub key: SenseKey,
    /// ADDITIONAL SENSE CODE.
    pub asc: u8,
    /// ADDITIONAL SENSE CODE QUALIFIER.
    pub ascq: u8,
}

macro_rules! sense_table {
    ($($name:ident = $key:ident $asc:literal $ascq:literal;)*) => {
        $(pub(crate) const $name: SenseCode =
            SenseCode { key: SenseKey::$key, asc: $asc, ascq: $ascq };)*

        impl SenseCode {
            /// Its name in T10's words, capitals with underscores.
            pub fn name(self) -> &'static str {
                match (self.key, self.asc, self.ascq) {
                    $((SenseKey::$key, $asc, $ascq) => stringify!($name),)*
                    _ => "UNKNOWN",
                }
            }
        }
    };
}

sense_table! {
    NO_ADDITIONAL_SENSE_INFORMATION = NoSense 0x00 0x00;
    LOGICAL_UNIT_IS_IN_PROCESS_OF_BECOMING_READY = NotReady 0x04 0x01;
    ASYMMETRIC_ACCESS_STATE_TRANSITION = NotReady 0x04 0x0a;
    TARGET_PORT_IN_STANDBY_STATE = NotReady 0x04 0x0b;
    TARGET_PORT_IN_UNAVAILABLE_STATE = NotReady 0x04 0x0c;
    SPACE_ALLOCATION_IN_PROGRESS = NotReady 0x04 0x14;
    LOGICAL_UNIT_NOT_READY_SANITIZE_IN_PROGRESS = NotReady 0x04 0x1b;
    SANITIZE_COMMAND_FAILED = MediumError 0x31 0x03;
    UNRECOVERED_READ_ERROR = MediumError 0x11 0x00;
    INTERNAL_TARGET_FAILURE = HardwareError 0x44 0x00;
    INVALID_FIELD_IN_COMMAND_INFORMATION_UNIT = IllegalRequest 0x0e 0x03;
    OPERATION_IN_PROGRESS = IllegalRequest 0x00 0x16;
    PARAMETER_LIST_LENGTH_ERROR = IllegalRequest 0x1a 0x00;
    INVALID_TOKEN_OPERATION_UNSUPPORTED_TOKEN_TYPE = IllegalRequest 0x23 0x01;
    INVALID_TOKEN_OPERATION_TOKEN_UNKNOWN = IllegalRequest 0x23 0x04;
    INVALID_TOKEN_OPERATION_TOKEN_CORRUPT = IllegalRequest 0x23 0x05;
    INVALID_TOKEN_OPERATION_INVALID_TOKEN_LENGTH = IllegalRequest 0x23 0x0a;
    INVALID_COMMAND_OPERATION_CODE = IllegalRequest 0x20 0x00;
    LOGICAL_BLOCK_ADDRESS_OUT_OF_RANGE = IllegalRequest 0x21 0x00;
    INVALID_FIELD_IN_CDB = IllegalRequest 0x24 0x00;
    LOGICAL_UNIT_NOT_SUPPORTED = IllegalRequest 0x25 0x00;
    INVALID_FIELD_IN_PARAMETER_LIST = IllegalRequest 0x26 0x00;
    INVALID_RELEASE_OF_PERSISTENT_RESERVATION = IllegalRequest 0x26 0x04;
    TOO_MANY_TARGET_DESCRIPTORS = IllegalRequest 0x26 0x06;
    UNSUPPORTED_TARGET_DESCRIPTOR_TYPE_CODE = IllegalRequest 0x26 0x07;
    TOO_MANY_SEGMENT_DESCRIPTORS = IllegalRequest 0x26 0x08;
    UNSUPPORTED_SEGMENT_DESCRIPTOR_TYPE_CODE = IllegalRequest 0x26 0x09;
    INLINE_DATA_LENGTH_EXCEEDED = IllegalRequest 0x26 0x0b;
    INVALID_MESSAGE_ERROR = IllegalRequest 0x49 0x00;
    NOT_READY_TO_READY_CHANGE_MEDIUM_MAY_HAVE_CHANGED = UnitAttention 0x28 0x00;
    INSUFFICIENT_REGISTRATION_RESOURCES = IllegalRequest 0x55 0x04;
    POWER_ON_RESET_OR_BUS_DEVICE_RESET_OCCURRED = UnitAttention 0x29 0x00;
    BUS_DEVICE_RESET_FUNCTION_OCCURRED = UnitAttention 0x29 0x03;
    I_T_NEXUS_LOSS_OCCURRED = UnitAttention 0x29 0x07;
    MODE_PARAMETERS_CHANGED = UnitAttention 0x2a 0x01;
    LOG_PARAMETERS_CHANGED = UnitAttention 0x2a 0x02;
    RESERVATIONS_PREEMPTED = UnitAttention 0x2a 0x03;
    RESERVATIONS_RELEASED = UnitAttention 0x2a 0x04;
    REGISTRATIONS_PREEMPTED = UnitAttention 0x2a 0x05;
    ASYMMETRIC_ACCESS_STATE_CHANGED = UnitAttention 0x2a 0x06;
    TIMESTAMP_CHANGED = UnitAttention 0x2a 0x10;
    COMMANDS_CLEARED_BY_ANOTHER_INITIATOR = UnitAttention 0x2f 0x00;
    CAPACITY_DATA_HAS_CHANGED = UnitAttention 0x2a 0x09;
    THIN_PROVISIONING_SOFT_THRESHOLD_REACHED = UnitAttention 0x38 0x07;
    INQUIRY_DATA_HAS_CHANGED = UnitAttention 0x3f 0x03;
    REPORTED_LUNS_DATA_HAS_CHANGED = UnitAttention 0x3f 0x0e;
    WRITE_PROTECTED = DataProtect 0x27 0x00;
    LOGICAL_UNIT_SOFTWARE_WRITE_PROTECTED = DataProtect 0x27 0x02;
    SPACE_ALLOCATION_FAILED_WRITE_PROTECT = DataProtect 0x27 0x07;
    COPY_ABORTED_WITHOUT_ADDITIONAL_SENSE = CopyAborted 0x00 0x00;
    UNEXPECTED_INEXACT_SEGMENT = CopyAborted 0x26 0x0a;
    UNREACHABLE_COPY_TARGET = CopyAborted 0x08 0x04;
    THIRD_PARTY_DEVICE_FAILURE = CopyAborted 0x0d 0x01;
    COPY_TARGET_DEVICE_NOT_REACHABLE = CopyAborted 0x0d 0x02;
    INSUFFICIENT_RESOURCES = AbortedCommand 0x55 0x03;
    INSUFFICIENT_RESOURCES_TO_CREATE_ROD_TOKEN = AbortedCommand 0x55 0x0c;
    MISCOMPARE_DURING_VERIFY_OPERATION = Miscompare 0x1d 0x00;
}

/// SPC-4 4.5.2.4.2: which field of the CDB or parameter list is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FieldPointer {
    /// Whether the field is in the CDB, else in the parameter list.
    pub in_cdb: bool,
    /// Number of its first byte.
    pub byte: u16,
    /// Number of its most significant bit; `None` if it is whole bytes.
    pub bit: Option<u8>,
}

/// Sense data of one command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sense {
    /// What happened.
    pub code: SenseCode,
    /// INFORMATION, in the words of the command.
    pub information: Option<u64>,
    /// COMMAND-SPECIFIC INFORMATION.
    pub command_specific: u32,
    /// The field at fault.
    pub field: Option<FieldPointer>,
    /// D_SENSE of the logical unit: whether the initiator gets descriptor format.
    pub descriptor_format: bool,
    /// SPC-4 4.5.2.4.4: how much of what the sense key says is done, in 65,536ths.
    pub progress: Option<u16>,
}

impl From<SenseCode> for Sense {
    fn from(code: SenseCode) -> Self {
        Self {
            code,
            information: None,
            command_specific: 0,
            field: None,
            descriptor_format: false,
            progress: None,
        }
    }
}

impl Sense {
    /// INVALID FIELD IN CDB, pointing at a bit of a byte.
    pub(crate) fn invalid_cdb_bit(byte: usize, bit: u8) -> Self {
        let field = FieldPointer { in_cdb: true, byte: clamp(byte), bit: Some(bit) };
        Self { field: Some(field), ..INVALID_FIELD_IN_CDB.into() }
    }

    /// INVALID FIELD IN CDB, pointing at a field that starts with a byte.
    pub(crate) fn invalid_cdb_field(byte: usize) -> Self {
        let field = FieldPointer { in_cdb: true, byte: clamp(byte), bit: None };
        Self { field: Some(field), ..INVALID_FIELD_IN_CDB.into() }
    }

    /// A fault in the parameter list, pointing at a field that starts with a byte.
    pub(crate) fn in_parameter_list(code: SenseCode, byte: usize) -> Self {
        Self::in_parameter_list_bit(code, byte, None)
    }

    /// A fault in the parameter list, pointing at a bit of a byte or at the byte.
    pub(crate) fn in_parameter_list_bit(code: SenseCode, byte: usize, bit: Option<u8>) -> Self {
        let field = FieldPointer { in_cdb: false, byte: clamp(byte), bit };
        Self { field: Some(field), ..code.into() }
    }

    /// 02h/04h/1Bh with PROGRESS INDICATION.
    pub(crate) fn sanitize_in_progress(done: u16) -> Self {
        Self { progress: Some(done), ..LOGICAL_UNIT_NOT_READY_SANITIZE_IN_PROGRESS.into() }
    }

    /// The same with INFORMATION.
    pub(crate) fn with_information(self, information: u64) -> Self {
        Self { information: Some(information), ..self }
    }

    /// In the format that the logical unit is set to.
    pub fn emit(&self) -> Vec<u8> {
        if self.descriptor_format { self.emit_descriptors() } else { self.emit_fixed() }
    }

    /// Fixed format (SPC-4 4.5.3), 18 bytes. INFORMATION beyond 32 bits is not valid in it.
    pub fn emit_fixed(&self) -> Vec<u8> {
        let mut bytes = vec![0; 18];
        bytes[0] = 0x70;
        bytes[2] = self.code.key as u8;
        if let Some(information) = self.information.and_then(|value| u32::try_from(value).ok()) {
            bytes[0] |= 0x80;
            bytes[3..7].copy_from_slice(&information.to_be_bytes());
        }
        bytes[7] = 10;
        bytes[8..12].copy_from_slice(&self.command_specific.to_be_bytes());
        bytes[12] = self.code.asc;
        bytes[13] = self.code.ascq;
        if let Some(specific) = self.sense_key_specific() {
            bytes[15..18].copy_from_slice(&specific);
        }
        bytes
    }

    /// Descriptor format (SPC-4 4.5.2).
    pub fn emit_descriptors(&self) -> Vec<u8> {
        let mut bytes = vec![0x72, self.code.key as u8, self.code.asc, self.code.ascq, 0, 0, 0, 0];
        if let Some(information) = self.information {
            bytes.extend([0x00, 0x0a, 0x80, 0]);
            bytes.extend(information.to_be_bytes());
        }
        if self.command_specific != 0 {
            bytes.extend([0x01, 0x0a, 0, 0]);
            bytes.extend(u64::from(self.command_specific).to_be_bytes());
        }
        if let Some(specific) = self.sense_key_specific() {
            bytes.extend([0x02, 0x06, 0, 0]);
            bytes.extend(specific);
            bytes.push(0);
        }
        bytes[7] = (bytes.len() - 8) as u8;
        bytes
    }

    /// SENSE KEY SPECIFIC with SKSV set.
    fn sense_key_specific(&self) -> Option<[u8; 3]> {
        let progress = |done: u16| [0x80, done.to_be_bytes()[0], done.to_be_bytes()[1]];
        self.field.map(|field| field.emit()).or_else(|| self.progress.map(progress))
    }
}

impl FieldPointer {
    /// SENSE KEY SPECIFIC with SKSV set.
    fn emit(self) -> [u8; 3] {
        let in_cdb = if self.in_cdb { 0x40 } else { 0 };
        let bit = self.bit.map_or(0, |bit| 0x08 | bit);
        let [high, low] = self.byte.to_be_bytes();
        [0x80 | in_cdb | bit, high, low]
    }
}

fn clamp(byte: usize) -> u16 {
    debug_assert!(byte as u64 <= limits::PARAMETER_LIST_BYTES_MAX);
    byte.min(usize::from(u16::MAX)) as u16
}

#[cfg(test)]
mod tests;
