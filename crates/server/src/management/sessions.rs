//! Routes of sessions: how they look to the administrator.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use api::{Problem, Route};
use array::{Access, Configuration, VisibleLun};
use iscsi::{AuthenticationMethod, SessionParameters};
use slab::Slab;

use super::describe::hexadecimal;
use super::gathering::{Gather, Scene, Subject};
use super::problems::not_found;
use super::{Management, Progress};
use crate::described::Described;
use crate::iscsi::{Connection, Session, Sessions};
use crate::yielding::{free, pause, sort_by};

/// Every normal session in full-feature phase.
pub(super) fn list_sessions(sessions: &Sessions) -> Progress {
    Progress::gather(Route::ListSessions, handles(sessions), look, |management, _, found| {
        let configuration = Arc::clone(&management.configuration);
        Described::list(move |list| {
            whole(found, &configuration).into_iter().for_each(|session| list.push(&session));
        })
    })
}

/// One session.
///
/// # Errors
/// 404 when no session has that handle.
pub(super) fn show_session(sessions: &Sessions, handle: &str) -> Result<Progress, Problem> {
    let tsih = find_session(sessions, handle)?;
    let subject = Subject { route: Route::ShowSession, with_secrets: false, session: Some(tsih) };
    Ok(Progress::Gather(subject, Box::new(OneSession { tsih, found: None })))
}

/// The handle that a path names, if there is such a session.
///
/// # Errors
/// 404 when there is none.
pub(super) fn find_session(sessions: &Sessions, handle: &str) -> Result<u16, Problem> {
    let tsih = handle.parse().ok().filter(|&tsih| sessions.get(tsih).is_some());
    tsih.ok_or_else(|| no_session(handle))
}

fn no_session(handle: &str) -> Problem {
    let problem = not_found(&format!("there is no session '{}'", handle.escape_debug()));
    problem.with("object", "session").with("name", handle)
}

/// A look at one session, which may end before its turn comes.
struct OneSession {
    tsih: u16,
    found: Option<SessionFacts>,
}

impl Gather for OneSession {
    fn look(&mut self, management: &Management, scene: Scene<'_>) -> bool {
        self.found = look(management, scene, self.tsih);
        false
    }

    fn describe(
        self: Box<Self>,
        management: &Management,
        _: Scene<'_>,
    ) -> Result<Described, Problem> {
        let found = self.found.ok_or_else(|| no_session(&self.tsih.to_string()))?;
        let configuration = Arc::clone(&management.configuration);
        Ok(Described::later(move || whole(vec![found], &configuration).pop()))
    }
}

/// The target, with its portals and sessions.
pub(super) fn show_target(sessions: &Sessions) -> Progress {
    let describe = |management: &Management, scene: Scene<'_>, found: Vec<SessionFacts>| {
        let configuration = Arc::clone(&management.configuration);
        let without_sessions = management.describe_target(scene);
        let describe = move || {
            let sessions = whole(found, &configuration);
            api::Target { sessions, ..without_sessions }
        };
        Described::later_and(describe, |target: api::Target| free(target.sessions))
    };
    Progress::gather(Route::ShowTarget, handles(sessions), look, describe)
}

fn handles(sessions: &Sessions) -> std::vec::IntoIter<u16> {
    let handles: Vec<u16> = sessions.iter().map(|(tsih, _)| tsih).collect();
    handles.into_iter()
}

/// What the reactor knows of a session. What takes more than copying is left to the thread that
/// writes.
struct SessionFacts {
    /// Without its keys and its ISID, and without what the configuration says of it.
    session: api::Session,
    isid: [u8; 6],
    parameters: SessionParameters,
}

fn look(_: &Management, scene: Scene<'_>, tsih: u16) -> Option<SessionFacts> {
    let session = scene.sessions.get(tsih)?;
    Some(describe_session(tsih, session, scene.connections))
}

/// The sessions with what the configuration says of them, in the order in which they are shown.
fn whole(found: Vec<SessionFacts>, configuration: &Configuration) -> Vec<api::Session> {
    let mut seen: HashMap<String, BTreeMap<u16, VisibleLun>> = HashMap::new();
    let mut sessions = Vec::with_capacity(found.len());
    for SessionFacts { mut session, isid, parameters } in found {
        session.isid = hexadecimal(&isid);
        session.keys = keys(&parameters);
        let luns = seen
            .entry(session.initiator.clone())
            .or_insert_with_key(|initiator| configuration.visible_luns(initiator));
        let read_only = luns.iter().filter(|(_, lun)| lun.access == Access::ReadOnly);
        session.read_only_luns = read_only.map(|(&lun, _)| lun).collect();
        session.luns = luns.keys().copied().collect();
        session.host = configuration.host_of(&session.initiator).map(str::to_owned);
        sessions.push(session);
        pause();
    }
    free(seen.into_iter().collect());
    sort_by(&mut sessions, |a, b| (&a.initiator, a.tsih).cmp(&(&b.initiator, b.tsih)));
    sessions
}

fn describe_session(
    tsih: u16,
    session: &Session,
    all_connections: &Slab<Connection>,
) -> SessionFacts {
    let connections: Vec<&Connection> =
        session.connections.iter().filter_map(|&slot| all_connections.get(slot)).collect();
    let sum = |part: fn(&Connection) -> u64| connections.iter().map(|&c| part(c)).sum::<u64>();
    let first = connections.first();
    let none = || "none".to_owned();
    let lost = session.lost.as_ref().map(|lost| lost.handle.parameters().clone());
    let parameters = first.map(|first| first.iscsi.parameters().clone()).or(lost);
    let parameters = parameters.unwrap_or_default();
    let described = api::Session {
        initiator: session.port.name.clone(),
        host: None,
        address: first.map_or_else(none, |first| first.address.to_string()),
        portal: first.map_or_else(none, |first| first.portal.to_string()),
        isid: String::new(),
        tsih,
        authentication: match parameters.authentication {
            AuthenticationMethod::None => "None",
            AuthenticationMethod::Chap => "CHAP",
        }
        .to_owned(),
        connections: connections.len(),
        keys: BTreeMap::new(),
        read_only_luns: Vec::new(),
        luns: Vec::new(),
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
    };
    SessionFacts { session: described, isid: session.port.isid, parameters }
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
