//! iSCSI target protocol (RFC 7143) without sockets: bytes in, events out; answers in, bytes out.
//!
//! A [`Connection`] is a pull parser. Its owner reads from the socket into
//! [`Connection::receive_target`], takes every [`Event`] there is, answers them in any order (a
//! login and a write command at once), and writes what [`Connection::next_send`] offers.

#![forbid(unsafe_code)]

mod authentication;
mod chap;
mod connection;
mod digest;
mod event;
mod history;
mod limits;
mod login;
mod memory;
mod name;
mod negotiation;
mod orphan;
mod parameters;
mod pdu;
mod receive;
mod send;
mod sequence;
mod task;
mod text;

pub use authentication::{AuthenticationMethod, Requirement};
pub use chap::{ChapAccount, ChapAlgorithm, ChapCredential, ChapSecret, ChapTerms};
pub use connection::{Connection, ConnectionConfig};
pub use event::{
    Cdb, ClosedReason, Command, Completion, Event, LoginRequest, LoginStatus, LoginTerms,
    LogoutScope, SessionHandle, TargetRecord, TargetSelection, TaskManagement,
    TaskManagementFunction, TaskManagementResponse, TaskReassign,
};
pub use limits::Limits;
pub use memory::{Budget, Share};
pub use name::{NAME_BYTES_MAX, NameError, fold_name};
pub use orphan::Orphan;
pub use parameters::SessionParameters;
