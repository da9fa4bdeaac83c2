//! The kinds of commands that are told apart.

/// What a command does for its host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Primitive {
    /// READ.
    Read,
    /// WRITE, also with VERIFY and ATOMIC.
    Write,
    /// COMPARE AND WRITE (ATS).
    CompareAndWrite,
    /// EXTENDED COPY (XCOPY).
    ExtendedCopy,
    /// WRITE SAME (Zero).
    WriteSame,
    /// UNMAP (Delete).
    Unmap,
    /// POPULATE TOKEN and WRITE USING TOKEN.
    Token,
    /// Anything else.
    Other,
}

impl Primitive {
    /// How many there are.
    pub const COUNT: usize = 8;

    /// All of them, in the order of [`Self::index`].
    pub const ALL: [Self; Self::COUNT] = [
        Self::Read,
        Self::Write,
        Self::CompareAndWrite,
        Self::ExtendedCopy,
        Self::WriteSame,
        Self::Unmap,
        Self::Token,
        Self::Other,
    ];

    /// Its place in [`Self::ALL`].
    pub const fn index(self) -> usize {
        self as usize
    }

    /// Its name in the interface and in metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::CompareAndWrite => "compare_and_write",
            Self::ExtendedCopy => "extended_copy",
            Self::WriteSame => "write_same",
            Self::Unmap => "unmap",
            Self::Token => "token",
            Self::Other => "other",
        }
    }

    /// The kind of a SCSI command (SPC-4, SBC-4), by operation code and service action.
    pub const fn of(opcode: u8, service_action: Option<u8>) -> Self {
        match (opcode, service_action) {
            (0x08 | 0x28 | 0x88 | 0xa8, _) => Self::Read,
            (0x0a | 0x2a | 0x2e | 0x8a | 0x8e | 0x9c | 0xaa | 0xae, _) => Self::Write,
            (0x89, _) => Self::CompareAndWrite,
            (0x83, Some(0x00 | 0x01)) => Self::ExtendedCopy,
            (0x83, Some(0x10 | 0x11)) => Self::Token,
            (0x41 | 0x93, _) => Self::WriteSame,
            (0x42, _) => Self::Unmap,
            _ => Self::Other,
        }
    }

    /// Whether it makes the array do what the host would do by READ and WRITE.
    pub const fn is_offload(self) -> bool {
        matches!(
            self,
            Self::CompareAndWrite
                | Self::ExtendedCopy
                | Self::WriteSame
                | Self::Unmap
                | Self::Token
        )
    }

    /// Whether its parameter list says where it works, so that only its requests tell how much.
    pub const fn has_list(self) -> bool {
        matches!(self, Self::ExtendedCopy | Self::Unmap | Self::Token)
    }
}
