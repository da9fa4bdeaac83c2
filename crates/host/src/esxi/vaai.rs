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
    /// It was refused; not tried again before a rescan.
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
            Err(SessionError::Command { key: 5, ascq: 0x2000 | 0x2400 | 0x2600, .. }) => {
                *status = Status::Unsupported;
            }
            Err(_) => {}
        }
    }

    /// The device as a whole, as `esxcli storage core device list` says it: unknown unless all
    /// primitives say the same.
    pub fn overall(&self) -> Status {
        let all = [self.ats, self.clone, self.zero, self.delete];
        if all.iter().all(|status| *status == self.ats) { self.ats } else { Status::Unknown }
    }
}
