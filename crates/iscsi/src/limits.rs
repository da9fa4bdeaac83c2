//! Limits of one connection: how much it may hold, and what happens beyond it.

/// Bounds on what an initiator can make the target hold for one connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Commands at once, 1 to 4,096. The CmdSN window closes when so many are under way, so a
    /// conforming initiator never exceeds it.
    pub tasks_max: u32,
    /// Bytes that all commands together may hold: Data-Out that was accepted, Data-In that is to
    /// come or waits to be sent. A command that would exceed it is answered with status TASK SET
    /// FULL, unless it is the only one. The share of its host must have room besides.
    pub memory_max: usize,
    /// Bytes of Data-Out that one command may take. A command that wants more is answered with
    /// CHECK CONDITION, ILLEGAL REQUEST, INVALID FIELD IN CDB.
    pub data_out_length_max: u32,
    /// MaxRecvDataSegmentLength declared to the initiator, 512 to 2^24 - 1. A longer data segment
    /// closes the connection.
    pub max_recv_data_segment_length: u32,
    /// MaxBurstLength offered, 512 to 2^24 - 1.
    pub max_burst_length: u32,
    /// FirstBurstLength offered, 512 to 2^24 - 1.
    pub first_burst_length: u32,
    /// MaxOutstandingR2T offered, 1 to 65,535.
    pub max_outstanding_r2t: u32,
    /// MaxConnections offered, 1 to 65,535.
    pub max_connections: u32,
    /// ErrorRecoveryLevel offered, 0 to 2.
    pub error_recovery_level: u32,
    /// DefaultTime2Retain offered if `error_recovery_level` is 2, else 0, in seconds, at most 3,600.
    pub default_time2retain: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            tasks_max: 256,
            memory_max: 128 << 20,
            data_out_length_max: 32 << 20,
            max_recv_data_segment_length: 256 << 10,
            max_burst_length: 1 << 20,
            first_burst_length: 256 << 10,
            max_outstanding_r2t: 4,
            max_connections: 1,
            error_recovery_level: 0,
            default_time2retain: 20,
        }
    }
}

/// Immediate commands at once beyond [`Limits::tasks_max`]. One more is answered with Reject,
/// reason "too many immediate commands".
pub(crate) const IMMEDIATE_TASKS_MAX: usize = 16;

/// What a connection takes besides its commands, about, in bytes: its state, and of the staging area
/// what was ever used.
pub(crate) const CONNECTION_BYTES: usize = 16 << 10;

/// What a command takes besides its data, at most, in bytes: its state, and what is left of the last
/// block of a buffer.
pub(crate) const TASK_BYTES: usize = 4 << 10;

/// Bytes of memory for a PDU that waits to be sent, besides its data.
pub(crate) const PDU_BYTES: usize = 256;

/// Bytes of PDUs that are cut, and their digests made, before the socket takes them; one PDU may go
/// beyond. What a command yields besides waits in one piece.
pub(crate) const READY_BYTES: usize = 512 << 10;

/// Commands that move no more bytes are admitted while anything is free in the memory budget.
pub(crate) const SMALL_BYTES: usize = 256 << 10;

/// Bytes that a host may always hold in such commands, however little is free.
pub(crate) const HOST_BYTES_MIN: usize = 4 << 20;

/// Bytes per second that an initiator takes at least of what waits for it, over the time to send
/// ([`crate::ConnectionConfig::send_timeout`]); one that takes less is dropped.
pub(crate) const SEND_BYTES_PER_SECOND_MIN: u64 = 16 << 10;

/// Bytes that wait to be sent again on request (SNACK) at once. A request for more is rejected,
/// unless nothing waits.
pub(crate) const RESEND_BYTES_MAX: usize = 8 << 20;

/// Requests to send again that are being answered at once; one more is rejected.
pub(crate) const RESENDS_MAX: usize = 64;

/// PDUs of one connection that are held for sending again. The oldest are forgotten beyond it.
pub(crate) const HISTORY_PDUS_MAX: usize = 16 << 10;

/// Times that lost data of one command is asked for again; then the command ends with ABORTED
/// COMMAND.
pub(crate) const RECOVERIES_MAX: u32 = 16;

/// Login requests in one login. One more is answered with a login reject, "initiator error".
pub(crate) const LOGIN_REQUESTS_MAX: u32 = 64;

/// Bytes of key text in one login or text request, continuations included. More is answered with a
/// login reject or a Reject.
pub(crate) const TEXT_BYTES_MAX: usize = 16 << 10;

/// Keys in one login or text request. More is answered as if they were malformed.
pub(crate) const TEXT_KEYS_MAX: usize = 128;

/// Bytes of a key's name (RFC 7143 6.1). A longer one is malformed.
pub(crate) const KEY_NAME_MAX: usize = 63;

/// Bytes of a data segment during login, both ways (RFC 7143 13.12: the default).
pub(crate) const LOGIN_SEGMENT_MAX: usize = 8192;

/// Task management functions under way. One more is answered with "task management function not
/// supported at this time" (function rejected).
pub(crate) const TASK_MANAGEMENT_MAX: usize = 64;

/// Bytes of the staging area, where headers and small data segments arrive.
pub(crate) const STAGING_BYTES: usize = 64 << 10;

/// Missing bytes of a data segment from which on they are read directly into their buffer; a copy
/// of fewer is cheaper than another system call.
pub(crate) const DIRECT_BYTES_MIN: usize = 16 << 10;
