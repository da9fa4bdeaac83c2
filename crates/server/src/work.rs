//! Names of sessions, commands and requests that all front ends share, so that the fair queues and the
//! ledger's feed know no protocol. Each front end says what its own names are here: SCSI's part is
//! `exports/scsi_requests.rs`.

use std::time::Duration;

use block::{Primitive, VolumeId};
use ledger::Outcome;

/// A host's session: an I_T nexus with SCSI. Never used again for another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct SessionId(pub(crate) u64);

/// A command of a host; unique among those under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct CommandId(pub(crate) u64);

/// A request to a volume under way, by the front end that asked; the highest bit is never set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct RequestId(pub(crate) u64);

/// The command for which a request is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Issuer {
    /// Where it came from.
    pub(crate) session: SessionId,
    /// The volume that it was addressed to.
    pub(crate) volume: Option<VolumeId>,
    /// Its kind.
    pub(crate) primitive: Primitive,
}

/// A command that ended with a status.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EndedCommand {
    /// Where it came from.
    pub(crate) session: SessionId,
    /// The volume that it was addressed to, if there is one.
    pub(crate) volume: Option<VolumeId>,
    /// Its name in its standard's words.
    pub(crate) name: &'static str,
    /// Its kind.
    pub(crate) primitive: Primitive,
    /// The first logical block that it names.
    pub(crate) lba: u64,
    /// Bytes that it names; 0 if a list says it.
    pub(crate) bytes: u64,
    /// How long it took since it was there with all of its data.
    pub(crate) took: Duration,
    /// How it ended.
    pub(crate) outcome: Outcome,
}
