//! VAAI status of a LUN: what a host believes of its offloads. It starts with nothing and learns by
//! use.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::esxi::counters::Kind;
use crate::initiator::session::SessionError;

/// What is believed of one primitive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// Not tried yet.
    #[default]
    Unknown,
    /// It worked.
    Supported,
    /// It was refused; not tried again before a rescan, or the news that INQUIRY data changed.
    Unsupported,
}

impl fmt::Display for Status {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Unknown => "unknown",
            Self::Supported => "supported",
            Self::Unsupported => "unsupported",
        })
    }
}

/// What is believed of each primitive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Vaai {
    /// COMPARE AND WRITE.
    pub ats: Status,
    /// EXTENDED COPY.
    pub clone: Status,
    /// WRITE SAME.
    pub zero: Status,
    /// UNMAP.
    pub delete: Status,
}

/// Whether a command itself was refused: INVALID COMMAND OPERATION CODE, or a field.
pub fn is_refusal(error: &SessionError) -> bool {
    matches!(error, SessionError::Command { key: 5, ascq: 0x2000 | 0x2400 | 0x2600, .. })
}

impl Vaai {
    /// Learns from a command's end. Only a refusal of the command itself counts against it; any
    /// other failure says nothing of the primitive.
    pub fn learn(&mut self, kind: Kind, result: &Result<(), SessionError>) {
        let status = match kind {
            Kind::Ats | Kind::Heartbeat => &mut self.ats,
            Kind::Clone => &mut self.clone,
            Kind::Zero => &mut self.zero,
            Kind::Delete => &mut self.delete,
            _ => return,
        };
        match result {
            Ok(()) => *status = Status::Supported,
            // A miscompare is an answer.
            Err(SessionError::Command { key: 0xe, .. }) => *status = Status::Supported,
            Err(error) if is_refusal(error) => *status = Status::Unsupported,
            Err(_) => {}
        }
    }

    /// The device says that what it tells of itself changed: what it refused may work now.
    pub fn forget_refusals(&mut self) {
        for status in [&mut self.ats, &mut self.clone, &mut self.zero, &mut self.delete] {
            if *status == Status::Unsupported {
                *status = Status::Unknown;
            }
        }
    }

    /// The device as a whole, as `esxcli storage core device list` and vCenter's column 'Hardware
    /// Acceleration' say it, from locking, copying and zeroing: unknown until one was tried,
    /// supported or unsupported as long as all that were tried say so, and unknown again when only
    /// a part works. UNMAP is none of these three.
    pub fn overall(&self) -> Status {
        let has = |status| [self.ats, self.clone, self.zero].contains(&status);
        match (has(Status::Supported), has(Status::Unsupported)) {
            (true, false) => Status::Supported,
            (false, true) => Status::Unsupported,
            (true, true) | (false, false) => Status::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_supported_by_what_was_tried_and_unknown_when_only_a_part_works() {
        use Status::{Supported, Unknown, Unsupported};
        for (ats, clone, zero, delete, overall) in [
            (Unknown, Unknown, Unknown, Unknown, Unknown),
            (Unknown, Unknown, Unknown, Supported, Unknown),
            (Supported, Unknown, Unknown, Unknown, Supported),
            (Supported, Supported, Supported, Unsupported, Supported),
            (Unsupported, Unknown, Unsupported, Supported, Unsupported),
            (Supported, Unsupported, Supported, Supported, Unknown),
        ] {
            let vaai = Vaai { ats, clone, zero, delete };
            assert_eq!(vaai.overall(), overall, "{vaai:?}");
        }
    }
}
