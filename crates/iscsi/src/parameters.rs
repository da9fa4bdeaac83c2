//! Negotiated parameters of a session.

use crate::authentication::AuthenticationMethod;

/// Keys and their values after login (RFC 7143 13). Sizes in bytes, times in seconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionParameters {
    /// iSCSI name of the initiator.
    pub initiator_name: String,
    /// The name the initiator gives itself for people to read.
    pub initiator_alias: Option<String>,
    /// iSCSI name of the target; `None` in a discovery session.
    pub target_name: Option<String>,
    /// How the initiator proved who it is.
    pub authentication: AuthenticationMethod,
    /// Whether this is a discovery session.
    pub discovery: bool,
    /// Initiator part of the session identifier.
    pub isid: [u8; 6],
    /// Target session identifying handle.
    pub tsih: u16,
    /// Connection identifier.
    pub cid: u16,
    /// Whether the connection joined a session that others had begun.
    pub joined: bool,
    /// HeaderDigest=CRC32C.
    pub header_digest: bool,
    /// DataDigest=CRC32C.
    pub data_digest: bool,
    /// MaxConnections.
    pub max_connections: u32,
    /// InitialR2T: no unsolicited Data-Out.
    pub initial_r2t: bool,
    /// ImmediateData.
    pub immediate_data: bool,
    /// MaxRecvDataSegmentLength of the initiator: what we may send.
    pub initiator_max_recv_data_segment_length: u32,
    /// MaxRecvDataSegmentLength of the target: what we accept.
    pub target_max_recv_data_segment_length: u32,
    /// MaxBurstLength.
    pub max_burst_length: u32,
    /// FirstBurstLength; never more than MaxBurstLength.
    pub first_burst_length: u32,
    /// DefaultTime2Wait.
    pub default_time2wait: u32,
    /// DefaultTime2Retain.
    pub default_time2retain: u32,
    /// MaxOutstandingR2T.
    pub max_outstanding_r2t: u32,
    /// DataPDUInOrder.
    pub data_pdu_in_order: bool,
    /// DataSequenceInOrder.
    pub data_sequence_in_order: bool,
    /// ErrorRecoveryLevel.
    pub error_recovery_level: u32,
    /// iSCSIProtocolLevel.
    pub protocol_level: u32,
}

impl SessionParameters {
    /// Takes over what holds for the whole session that a connection joins.
    pub(crate) fn join(&mut self, session: Self) {
        *self = Self {
            joined: true,
            isid: self.isid,
            tsih: self.tsih,
            cid: self.cid,
            authentication: self.authentication,
            header_digest: self.header_digest,
            data_digest: self.data_digest,
            initiator_max_recv_data_segment_length: self.initiator_max_recv_data_segment_length,
            target_max_recv_data_segment_length: self.target_max_recv_data_segment_length,
            ..session
        };
    }
}

impl Default for SessionParameters {
    /// The values that hold when a key is not negotiated.
    fn default() -> Self {
        Self {
            initiator_name: String::new(),
            initiator_alias: None,
            target_name: None,
            authentication: AuthenticationMethod::None,
            discovery: false,
            isid: [0; 6],
            tsih: 0,
            cid: 0,
            joined: false,
            header_digest: false,
            data_digest: false,
            max_connections: 1,
            initial_r2t: true,
            immediate_data: true,
            initiator_max_recv_data_segment_length: 8192,
            target_max_recv_data_segment_length: 8192,
            max_burst_length: 262_144,
            first_burst_length: 65_536,
            default_time2wait: 2,
            default_time2retain: 20,
            max_outstanding_r2t: 1,
            data_pdu_in_order: true,
            data_sequence_in_order: true,
            error_recovery_level: 0,
            protocol_level: 1,
        }
    }
}
