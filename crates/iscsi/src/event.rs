//! Events that a connection gives to its owner, and the types of the answers.

use std::ops::Deref;

use block::{Buffer, Rope};
use sam::TaskAttribute;
use smallvec::SmallVec;
use thiserror::Error;

use crate::authentication::Requirement;
use crate::parameters::SessionParameters;
use crate::sequence::SessionNumbers;

/// Something that happened on the connection.
#[derive(Debug)]
pub enum Event {
    /// An initiator wants in. Nothing more is parsed until `login_admit`, `login_redirect` or
    /// `login_reject`.
    Login(Box<LoginRequest>),
    /// The initiator has proved who it is, as far as that was demanded, and login is about to end.
    /// Nothing more is parsed until `login_accept` or `login_reject`.
    Authenticated(Box<LoginRequest>),
    /// Login is complete; full-feature phase begins.
    LoggedIn(Box<SessionParameters>),
    /// A SCSI command arrived. If `write` is set nothing more is parsed until `accept_data` or
    /// `respond`.
    Command(Command),
    /// The data that `accept_data` asked for is complete.
    DataOut {
        /// Initiator task tag of the command.
        task: u32,
        /// The lesser of the length asked for and the expected data transfer length.
        data: Buffer,
    },
    /// A command whose data was being collected came to its end: aborted, or answered here with
    /// an error. Its tag may be in use again; no answer is wanted.
    Aborted {
        /// Initiator task tag of the command.
        task: u32,
    },
    /// A task management function; answered by `respond_task_management`. Commands of this
    /// connection that it covers and that still collected data were ended before this event.
    TaskManagement(TaskManagement),
    /// Text request SendTargets; answered by `send_targets_response`.
    SendTargets(TargetSelection),
    /// The initiator logged out; the connection, or every connection of the session, is to be
    /// closed when everything is sent.
    LoggedOut(LogoutScope),
    /// The initiator wants another connection of its session closed; answered by
    /// `logout_response`.
    LogoutConnection {
        /// Names the request.
        initiator_task_tag: u32,
        /// Connection identifier.
        cid: u16,
        /// [`LogoutScope::Connection`] or [`LogoutScope::Recovery`].
        scope: LogoutScope,
    },
    /// A command without a connection is to go on here; answered by `reassign`.
    TaskReassign(TaskReassign),
    /// The connection is of no more use; it is to be closed when everything is sent.
    Closed(ClosedReason),
}

/// Scope of a logout (RFC 7143 11.14.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogoutScope {
    /// All connections of the session.
    Session,
    /// A connection, with its commands.
    Connection,
    /// A connection, whose commands wait for another one (error recovery level 2).
    Recovery,
}

/// TASK REASSIGN (RFC 7143 11.5.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskReassign {
    /// Initiator task tag of the request itself.
    pub initiator_task_tag: u32,
    /// Initiator task tag of the command.
    pub referenced_task: u32,
    /// DataSN of the first Data-In PDU that the initiator has not received; 0 for all.
    pub exp_data_sn: u32,
}

/// The first login request, as far as it concerns admission (RFC 7143 11.12).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoginRequest {
    /// iSCSI name of the initiator.
    pub initiator_name: String,
    /// iSCSI name of the target wanted; always there for a normal session.
    pub target_name: Option<String>,
    /// Whether this is a discovery session.
    pub discovery: bool,
    /// Initiator part of the session identifier.
    pub isid: [u8; 6],
    /// 0 for a new session; otherwise the session that this connection is to join.
    pub tsih: u16,
    /// Connection identifier chosen by the initiator.
    pub cid: u16,
}

/// On what terms an initiator may log in.
#[derive(Clone, Debug)]
pub struct LoginTerms {
    /// Target portal group of the portal that it came to.
    pub target_portal_group_tag: u16,
    /// Proof that is demanded.
    pub authentication: Requirement,
    /// The session that the connection is to join.
    pub session: Option<SessionHandle>,
}

/// A session, as far as its connections share it.
#[derive(Clone, Debug)]
pub struct SessionHandle {
    pub(crate) numbers: SessionNumbers,
    pub(crate) parameters: SessionParameters,
}

impl SessionHandle {
    /// Negotiated parameters of the session.
    pub fn parameters(&self) -> &SessionParameters {
        &self.parameters
    }
}

impl LoginTerms {
    /// Without proof of who it is.
    pub fn open(target_portal_group_tag: u16) -> Self {
        Self { target_portal_group_tag, authentication: Requirement::none(), session: None }
    }
}

/// Why a login is refused: status class and detail (RFC 7143 11.13.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoginStatus {
    /// 0101h: the target is at another address for now.
    TargetMovedTemporarily,
    /// 0200h: the initiator made a mistake.
    InitiatorError,
    /// 0201h: it is not who it claims to be.
    AuthenticationFailure,
    /// 0202h: it may not use this target.
    AuthorizationFailure,
    /// 0203h: there is no such target.
    NotFound,
    /// 0204h: the target is gone for good.
    TargetRemoved,
    /// 0205h: version not supported.
    UnsupportedVersion,
    /// 0206h: too many connections in the session.
    TooManyConnections,
    /// 0207h: a key that must be there is missing.
    MissingParameter,
    /// 0208h: the session cannot include this connection.
    CannotIncludeInSession,
    /// 0209h: session type not supported.
    SessionTypeNotSupported,
    /// 020Ah: there is no such session.
    SessionDoesNotExist,
    /// 020Bh: request type invalid during login.
    InvalidDuringLogin,
    /// 0300h: the target failed.
    TargetError,
    /// 0301h: the service is not available now.
    ServiceUnavailable,
    /// 0302h: out of resources.
    OutOfResources,
}

impl LoginStatus {
    /// Status class and status detail.
    pub const fn class_and_detail(self) -> [u8; 2] {
        match self {
            Self::TargetMovedTemporarily => [1, 1],
            Self::InitiatorError => [2, 0],
            Self::AuthenticationFailure => [2, 1],
            Self::AuthorizationFailure => [2, 2],
            Self::NotFound => [2, 3],
            Self::TargetRemoved => [2, 4],
            Self::UnsupportedVersion => [2, 5],
            Self::TooManyConnections => [2, 6],
            Self::MissingParameter => [2, 7],
            Self::CannotIncludeInSession => [2, 8],
            Self::SessionTypeNotSupported => [2, 9],
            Self::SessionDoesNotExist => [2, 10],
            Self::InvalidDuringLogin => [2, 11],
            Self::TargetError => [3, 0],
            Self::ServiceUnavailable => [3, 1],
            Self::OutOfResources => [3, 2],
        }
    }
}

/// A SCSI Command PDU (RFC 7143 11.3).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// Initiator task tag: names the command until it is answered.
    pub task: u32,
    /// The 8 bytes of the logical unit number, big-endian (SAM-5 4.7).
    pub lun: u64,
    /// Task attribute.
    pub attribute: TaskAttribute,
    /// Command descriptor block, 16 to 260 bytes.
    pub cdb: Cdb,
    /// Bytes the initiator is ready to send if `write`, else to receive.
    pub expected_data_transfer_length: u32,
    /// Bytes the initiator is ready to receive; 0 without `read`.
    pub expected_read_length: u32,
    /// The initiator expects Data-In.
    pub read: bool,
    /// The initiator has Data-Out.
    pub write: bool,
    /// Delivered at once, outside the command order.
    pub immediate: bool,
}

/// A command descriptor block: the 16 bytes of the header and those of an extended CDB.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cdb(pub(crate) SmallVec<[u8; 16]>);

impl Deref for Cdb {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

/// How a command ended. The residual is computed by the connection.
#[derive(Clone, Debug, Default)]
pub struct Completion {
    /// SAM-5 5.3 status code.
    pub status: u8,
    /// Sense data, empty if none, up to 252 bytes; more is cut off.
    pub sense: Vec<u8>,
    /// The data that the command yields; what exceeds the initiator's expectation is not sent but
    /// counted as residual overflow.
    pub data_in: Rope,
    /// Bytes that the command would yield besides, if the initiator expected more. They count as
    /// residual overflow too.
    pub withheld: u64,
}

/// A Task Management Function Request PDU (RFC 7143 11.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskManagement {
    /// Initiator task tag of the request itself.
    pub initiator_task_tag: u32,
    /// The task management function.
    pub function: TaskManagementFunction,
    /// The logical unit, as in [`Command::lun`]; without meaning for the target resets.
    pub lun: u64,
}

/// A function, with the initiator task tag of the command that is meant.
pub type TaskManagementFunction = sam::TaskManagementFunction<u32>;

/// RFC 7143 11.6.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskManagementResponse {
    /// 0: done; nothing of an aborted command happens any more.
    FunctionComplete,
    /// 1: the task does not exist.
    TaskDoesNotExist,
    /// 2: the logical unit does not exist.
    LunDoesNotExist,
    /// 3: the task is still allegiant.
    TaskStillAllegiant,
    /// 4: reassignment is not supported.
    TaskAllegianceReassignmentNotSupported,
    /// 5: the function is not supported.
    FunctionNotSupported,
    /// 6: authorisation failed.
    FunctionAuthorizationFailed,
    /// 7: what a query asked about is there (RFC 7144 6.2).
    FunctionSucceeded,
    /// 255: rejected.
    FunctionRejected,
}

impl TaskManagementResponse {
    pub(crate) const fn code(self) -> u8 {
        match self {
            Self::FunctionComplete => 0,
            Self::TaskDoesNotExist => 1,
            Self::LunDoesNotExist => 2,
            Self::TaskStillAllegiant => 3,
            Self::TaskAllegianceReassignmentNotSupported => 4,
            Self::FunctionNotSupported => 5,
            Self::FunctionAuthorizationFailed => 6,
            Self::FunctionSucceeded => 7,
            Self::FunctionRejected => 255,
        }
    }
}

/// Targets that SendTargets asks for (RFC 7143 appendix C).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TargetSelection {
    /// All targets the initiator may see; in a discovery session.
    All,
    /// One target, by its iSCSI name.
    Named(String),
    /// The target of this normal session.
    Current,
}

/// One target in the answer to SendTargets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetRecord {
    /// iSCSI name.
    pub name: String,
    /// Address as `ip:port` (an IPv6 address in brackets) and target portal group tag.
    pub addresses: Vec<(String, u16)>,
}

/// Why a connection ended other than by logout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ClosedReason {
    /// A header digest was wrong.
    #[error("header digest error")]
    HeaderDigest,
    /// A PDU that RFC 7143 does not allow here.
    #[error("protocol error: {0}")]
    Protocol(&'static str),
    /// The login was refused; status class and detail.
    #[error("login refused with status {:02x}{:02x}", .0[0], .0[1])]
    LoginRefused([u8; 2]),
    /// Login took too long.
    #[error("login was not completed in time")]
    LoginTimeout,
    /// No answer to a NOP-In.
    #[error("the initiator does not answer")]
    PeerDead,
    /// The initiator takes nothing, or next to nothing, of what was sent to it.
    #[error("the initiator does not take what is sent to it")]
    PeerSlow,
    /// All connections end by a target cold reset or because the owner asked for it.
    #[error("closed by the target")]
    ByTarget,
}
