//! PDU header format: the 48-byte basic header segment and its fields (RFC 7143 11.2), requests and
//! responses alike.

/// Length of the basic header segment.
pub(crate) const BHS_LENGTH: usize = 48;

/// The tag value that stands for "none".
pub(crate) const NO_TAG: u32 = 0xffff_ffff;

/// Opcodes of requests (RFC 7143 11.2.1.2).
pub(crate) mod request {
    pub(crate) const NOP_OUT: u8 = 0x00;
    pub(crate) const SCSI_COMMAND: u8 = 0x01;
    pub(crate) const TASK_MANAGEMENT: u8 = 0x02;
    pub(crate) const LOGIN: u8 = 0x03;
    pub(crate) const TEXT: u8 = 0x04;
    pub(crate) const DATA_OUT: u8 = 0x05;
    pub(crate) const LOGOUT: u8 = 0x06;
    pub(crate) const SNACK: u8 = 0x10;
}

/// Opcodes of responses.
pub(crate) mod response {
    pub(crate) const NOP_IN: u8 = 0x20;
    pub(crate) const SCSI_RESPONSE: u8 = 0x21;
    pub(crate) const TASK_MANAGEMENT: u8 = 0x22;
    pub(crate) const LOGIN: u8 = 0x23;
    pub(crate) const TEXT: u8 = 0x24;
    pub(crate) const DATA_IN: u8 = 0x25;
    pub(crate) const LOGOUT: u8 = 0x26;
    pub(crate) const R2T: u8 = 0x31;
    pub(crate) const ASYNC_MESSAGE: u8 = 0x32;
    pub(crate) const REJECT: u8 = 0x3f;
}

/// Reasons of a Reject (RFC 7143 11.17.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RejectReason {
    DataDigestError = 0x02,
    SnackReject = 0x03,
    ProtocolError = 0x04,
    CommandNotSupported = 0x05,
    TooManyImmediateCommands = 0x06,
    TaskInProgress = 0x07,
    InvalidPduField = 0x09,
    OutOfResources = 0x0a,
}

/// Bit 7 of byte 1 in most PDUs: the last of its sequence.
pub(crate) const FINAL: u8 = 0x80;
/// Bit 6 of byte 1 in text and login PDUs: the text goes on.
pub(crate) const CONTINUE: u8 = 0x40;

/// A basic header segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bhs(pub(crate) [u8; BHS_LENGTH]);

impl Bhs {
    /// A response with the final bit set and no tags beyond the initiator's.
    pub(crate) fn response(opcode: u8, initiator_task_tag: u32) -> Self {
        let mut bhs = Self([0; BHS_LENGTH]);
        bhs.0[0] = opcode;
        bhs.0[1] = FINAL;
        bhs.set_u32(16, initiator_task_tag);
        bhs
    }

    pub(crate) fn opcode(&self) -> u8 {
        self.0[0] & 0x3f
    }

    pub(crate) fn immediate(&self) -> bool {
        self.0[0] & 0x40 != 0
    }

    pub(crate) fn flags(&self) -> u8 {
        self.0[1]
    }

    pub(crate) fn is_final(&self) -> bool {
        self.0[1] & FINAL != 0
    }

    /// Bytes of additional header segments.
    pub(crate) fn ahs_length(&self) -> usize {
        usize::from(self.0[4]) * 4
    }

    pub(crate) fn data_segment_length(&self) -> usize {
        usize::from(self.0[5]) << 16 | usize::from(self.0[6]) << 8 | usize::from(self.0[7])
    }

    /// # Panics
    /// If `length` needs more than 24 bits.
    pub(crate) fn set_data_segment_length(&mut self, length: usize) {
        let length = u32::try_from(length).expect("segments are cut to the negotiated length");
        assert!(length < 1 << 24, "a data segment has a 24-bit length");
        self.0[5..8].copy_from_slice(&length.to_be_bytes()[1..]);
    }

    pub(crate) fn u16(&self, offset: usize) -> u16 {
        u16::from_be_bytes([self.0[offset], self.0[offset + 1]])
    }

    pub(crate) fn u32(&self, offset: usize) -> u32 {
        let mut field = [0; 4];
        field.copy_from_slice(&self.0[offset..offset + 4]);
        u32::from_be_bytes(field)
    }

    pub(crate) fn set_u32(&mut self, offset: usize, value: u32) {
        self.0[offset..offset + 4].copy_from_slice(&value.to_be_bytes());
    }

    pub(crate) fn lun(&self) -> u64 {
        let mut field = [0; 8];
        field.copy_from_slice(&self.0[8..16]);
        u64::from_be_bytes(field)
    }

    pub(crate) fn set_lun(&mut self, lun: u64) {
        self.0[8..16].copy_from_slice(&lun.to_be_bytes());
    }

    pub(crate) fn initiator_task_tag(&self) -> u32 {
        self.u32(16)
    }

    pub(crate) fn target_transfer_tag(&self) -> u32 {
        self.u32(20)
    }

    pub(crate) fn cmd_sn(&self) -> u32 {
        self.u32(24)
    }
}
