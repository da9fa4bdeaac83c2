//! How sessions look to the administrator.

use std::collections::BTreeMap;

use array::Access;
use iscsi::{AuthenticationMethod, SessionParameters};

use super::Reactor;
use crate::connection::Connection;
use crate::sessions::Session;

impl Reactor {
    /// Every normal session in full-feature phase.
    pub(super) fn describe_sessions(&self) -> Vec<api::Session> {
        let mut sessions: Vec<api::Session> = self
            .sessions
            .iter()
            .map(|(tsih, session)| self.describe_session(tsih, session))
            .collect();
        sessions.sort_by(|a, b| (&a.initiator, a.tsih).cmp(&(&b.initiator, b.tsih)));
        sessions
    }

    fn describe_session(&self, tsih: u16, session: &Session) -> api::Session {
        let connections: Vec<&Connection> =
            session.connections.iter().map(|&slot| &self.connections[slot]).collect();
        let sum = |part: fn(&Connection) -> u64| connections.iter().map(|&c| part(c)).sum::<u64>();
        let first = connections.first();
        let none = || "none".to_owned();
        let lost = session.lost.as_ref().map(|lost| lost.handle.parameters().clone());
        let parameters = first.map(|first| first.iscsi.parameters().clone()).or(lost);
        let parameters = parameters.unwrap_or_default();
        let configuration = &self.management.configuration;
        let luns = configuration.visible_luns(&session.port.name);
        let read_only = luns.iter().filter(|(_, lun)| lun.access == Access::ReadOnly);
        api::Session {
            initiator: session.port.name.clone(),
            host: configuration.host_of(&session.port.name).map(str::to_owned),
            address: first.map_or_else(none, |first| first.address.to_string()),
            portal: first.map_or_else(none, |first| first.portal.to_string()),
            isid: session.port.isid.iter().map(|byte| format!("{byte:02x}")).collect(),
            tsih,
            authentication: match parameters.authentication {
                AuthenticationMethod::None => "None",
                AuthenticationMethod::Chap => "CHAP",
            }
            .to_owned(),
            connections: connections.len(),
            keys: keys(&parameters),
            read_only_luns: read_only.map(|(&lun, _)| lun).collect(),
            luns: luns.into_keys().collect(),
            commands_under_way: connections.iter().map(|c| c.iscsi.tasks()).sum::<usize>()
                + session.orphans.len(),
            commands: sum(|c| c.commands),
            bytes_received: sum(|c| c.received),
            bytes_sent: sum(|c| c.sent),
            rates: api::Rates {
                commands: sum(|c| c.rates.commands),
                bytes_received: sum(|c| c.rates.bytes_received),
                bytes_sent: sum(|c| c.rates.bytes_sent),
            },
        }
    }
}

/// The operational keys, as they are written in login.
fn keys(parameters: &SessionParameters) -> BTreeMap<String, String> {
    let digest = |is_on: bool| if is_on { "CRC32C" } else { "None" }.to_owned();
    let boolean = |is_on: bool| if is_on { "Yes" } else { "No" }.to_owned();
    let number = |value: u32| value.to_string();
    let keys = [
        ("HeaderDigest", digest(parameters.header_digest)),
        ("DataDigest", digest(parameters.data_digest)),
        ("MaxConnections", number(parameters.max_connections)),
        ("InitialR2T", boolean(parameters.initial_r2t)),
        ("ImmediateData", boolean(parameters.immediate_data)),
        (
            "InitiatorMaxRecvDataSegmentLength",
            number(parameters.initiator_max_recv_data_segment_length),
        ),
        ("TargetMaxRecvDataSegmentLength", number(parameters.target_max_recv_data_segment_length)),
        ("MaxBurstLength", number(parameters.max_burst_length)),
        ("FirstBurstLength", number(parameters.first_burst_length)),
        ("DefaultTime2Wait", number(parameters.default_time2wait)),
        ("DefaultTime2Retain", number(parameters.default_time2retain)),
        ("MaxOutstandingR2T", number(parameters.max_outstanding_r2t)),
        ("DataPDUInOrder", boolean(parameters.data_pdu_in_order)),
        ("DataSequenceInOrder", boolean(parameters.data_sequence_in_order)),
        ("ErrorRecoveryLevel", number(parameters.error_recovery_level)),
        ("iSCSIProtocolLevel", number(parameters.protocol_level)),
    ];
    keys.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}
