//! RFC 7143 (iSCSI), target side, without sockets: bytes in, events out; answers in, bytes out.

#![forbid(unsafe_code)]

mod connection;
mod event;
mod limits;
mod parameters;

pub use connection::{Connection, ConnectionConfig};
pub use event::{
    Cdb, ClosedReason, Command, Completion, Event, LoginRequest, LoginStatus, TargetRecord,
    TargetSelection, TaskAttribute, TaskManagement, TaskManagementFunction, TaskManagementResponse,
};
pub use limits::Limits;
pub use parameters::SessionParameters;
