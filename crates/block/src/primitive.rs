//! Command classes (read, write, compare and write, copy, …) that statistics and the offload ledger
//! count separately. A front end names the class of each command in its command table.

/// Class of a command.
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
