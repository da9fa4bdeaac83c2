//! PERSISTENT RESERVE OUT (SPC-4 6.16): the parameter list; what it does is in the room `reservations`.

use reservations::{Move, Registration, ReservationType};

use crate::change::Change;
use crate::command::{Action, Execution};
use crate::completion::Completion;
use crate::persistent::{self, Registrant, Transition};
use crate::sense::{self, Sense};
use crate::transport_id;

/// Length of the parameter list without TransportIDs.
const BASIC_LIST_BYTES: usize = 24;

/// First TransportID of SPEC_I_PT, behind the length of all of them.
const TRANSPORT_IDS: usize = 28;

/// The bits of byte 20.
const FLAGS: usize = 20;
const SPEC_I_PT: u8 = 0x08;
const ALL_TG_PT: u8 = 0x04;
const APTPL: u8 = 0x01;

/// Byte 17 of REGISTER AND MOVE.
const MOVE_FLAGS: usize = 17;
const UNREG: u8 = 0x02;

/// The fields that every parameter list begins with.
#[derive(Clone, Copy)]
struct Keys {
    /// RESERVATION KEY.
    key: u64,
    /// SERVICE ACTION RESERVATION KEY.
    action_key: u64,
}

/// REGISTER.
pub(super) fn register(execution: &mut Execution<'_>) -> Result<Action, Completion> {
    let spec_i_pt = list(execution)?.get(FLAGS).is_some_and(|flags| flags & SPEC_I_PT != 0);
    let specified = if spec_i_pt { specified_ports(execution)? } else { Vec::new() };
    if !spec_i_pt {
        basic_list(execution)?;
    }
    let keys = keys(execution)?;
    registration(execution, Some(keys.key), specified, spec_i_pt)
}

/// REGISTER AND IGNORE EXISTING KEY.
pub(super) fn register_and_ignore(execution: &mut Execution<'_>) -> Result<Action, Completion> {
    if list(execution)?.get(FLAGS).is_some_and(|flags| flags & SPEC_I_PT != 0) {
        return Err(invalid(FLAGS));
    }
    basic_list(execution)?;
    registration(execution, None, Vec::new(), false)
}

/// RESERVE.
pub(super) fn reserve(execution: &mut Execution<'_>) -> Result<Action, Completion> {
    let keys = keys_of_basic_list(execution)?;
    let kind = kind(execution)?.ok_or_else(|| Sense::invalid_cdb_bit(2, 3))?;
    let nexus = execution.nexus.registrant();
    act(execution.unit()?.persistent.reserve(nexus, keys.key, kind)?)
}

/// RELEASE.
pub(super) fn release(execution: &mut Execution<'_>) -> Result<Action, Completion> {
    let keys = keys_of_basic_list(execution)?;
    let kind = kind(execution)?;
    let nexus = execution.nexus.registrant();
    act(execution.unit()?.persistent.release(nexus, keys.key, kind)?)
}

/// CLEAR.
pub(super) fn clear(execution: &mut Execution<'_>) -> Result<Action, Completion> {
    let keys = keys_of_basic_list(execution)?;
    let nexus = execution.nexus.registrant();
    act(execution.unit()?.persistent.clear(nexus, keys.key)?)
}

/// PREEMPT: the tasks of who is preempted go on.
pub(super) fn preempt(execution: &mut Execution<'_>) -> Result<Action, Completion> {
    act(Transition { preempted: Vec::new(), ..preemption(execution)? })
}

/// PREEMPT AND ABORT.
pub(super) fn preempt_and_abort(execution: &mut Execution<'_>) -> Result<Action, Completion> {
    act(preemption(execution)?)
}

fn preemption(execution: &Execution<'_>) -> Result<Transition, Completion> {
    let keys = keys_of_basic_list(execution)?;
    let kind = kind(execution)?;
    let nexus = execution.nexus.registrant();
    Ok(execution.unit()?.persistent.preempt(nexus, keys.key, keys.action_key, kind)?)
}

/// REGISTER AND MOVE.
pub(super) fn register_and_move(execution: &mut Execution<'_>) -> Result<Action, Completion> {
    let list = list(execution)?;
    let length = be_u32(list, 20)? as usize;
    // SPC-4 6.16.4: the TransportID is all that follows.
    if length > list.len() - BASIC_LIST_BYTES {
        return Err(list_length_error());
    }
    let nexus = execution.nexus.registrant();
    let Keys { key, action_key } = keys(execution)?;
    let flags = list[MOVE_FLAGS];
    let port = u16::from_be_bytes([list[18], list[19]]);
    // Who is not registered hears of nothing else.
    execution.unit()?.persistent.check_key(nexus, key)?;
    if !execution.port_groups.has_port(port) {
        return Err(invalid(18));
    }
    let to = initiator_port(execution, &list[BASIC_LIST_BYTES..BASIC_LIST_BYTES + length])
        .filter(|(_, used)| *used == length)
        .map(|(to, _)| Registrant { relative_target_port: port, ..to })
        .ok_or_else(|| invalid(BASIC_LIST_BYTES))?;
    let request = Move {
        by: nexus,
        key,
        new_key: action_key,
        to,
        unregister: flags & UNREG != 0,
        persists: flags & APTPL != 0,
    };
    act(execution.unit()?.persistent.register_and_move(request)?)
}

fn registration(
    execution: &Execution<'_>,
    key: Option<u64>,
    specified: Vec<Registrant>,
    spec_i_pt: bool,
) -> Result<Action, Completion> {
    let flags = list(execution)?[FLAGS];
    let nexus = execution.nexus.registrant();
    let mut everyone = vec![nexus.clone()];
    everyone.extend(specified);
    if flags & ALL_TG_PT != 0 {
        everyone = on_all_ports(execution, &everyone);
    }
    let request = Registration {
        by: nexus,
        key,
        new_key: keys(execution)?.action_key,
        everyone,
        names_others: spec_i_pt,
        persists: Some(flags & APTPL != 0),
    };
    act(execution.unit()?.persistent.register(request)?)
}

fn act(transition: Transition) -> Result<Action, Completion> {
    Ok(Action::Change(Box::new(Change::of_reservations(transition))))
}

fn on_all_ports(execution: &Execution<'_>, initiators: &[Registrant]) -> Vec<Registrant> {
    let at = |who: &Registrant, port| Registrant { relative_target_port: port, ..who.clone() };
    let ports = || execution.port_groups.ports();
    initiators.iter().flat_map(|who| ports().map(move |port| at(who, port))).collect()
}

/// SPC-4 6.16.3: the TransportIDs behind the basic list.
fn specified_ports(execution: &Execution<'_>) -> Result<Vec<Registrant>, Completion> {
    let list = list(execution)?;
    let length = be_u32(list, BASIC_LIST_BYTES)? as usize;
    if list.len() - TRANSPORT_IDS != length {
        return Err(list_length_error());
    }
    let mut ports = Vec::new();
    let mut at = TRANSPORT_IDS;
    while at < list.len() {
        let (port, used) = initiator_port(execution, &list[at..]).ok_or_else(|| invalid(at))?;
        ports.push(port);
        at += used;
    }
    Ok(ports)
}

/// The initiator port that a TransportID names, at the port of this nexus. One that names the whole
/// initiator device stands for its only port that is logged in.
fn initiator_port(execution: &Execution<'_>, bytes: &[u8]) -> Option<(Registrant, usize)> {
    let (named, used) = transport_id::parse(bytes)?;
    let isid = match named.isid {
        Some(isid) => isid,
        None => {
            let mut isids = execution.peers.iter().filter(|peer| peer.initiator_name == named.name);
            let only = isids.next()?.isid;
            isids.all(|other| other.isid == only).then_some(only)?
        }
    };
    let relative_target_port = execution.nexus.registrant().relative_target_port;
    Some((Registrant { initiator_name: named.name, isid, relative_target_port }, used))
}

/// SCOPE and TYPE; `None` if there is no such type.
fn kind(execution: &Execution<'_>) -> Result<Option<ReservationType>, Completion> {
    let scope_and_type = execution.cdb.u8(2);
    // SPC-4 6.15.3.3: only logical unit scope is not obsolete.
    if scope_and_type >> 4 != 0 {
        return Err(Sense::invalid_cdb_bit(2, 7).into());
    }
    Ok(persistent::parse_type(scope_and_type & 0x0f))
}

/// The whole parameter list, as long as the CDB says.
fn list<'a>(execution: &'a Execution<'_>) -> Result<&'a [u8], Completion> {
    let length = execution.cdb.u32(5) as usize;
    if length < BASIC_LIST_BYTES {
        return Err(list_length_error());
    }
    execution.data_out.get(..length).ok_or_else(list_length_error)
}

fn basic_list(execution: &Execution<'_>) -> Result<(), Completion> {
    match list(execution)?.len() {
        BASIC_LIST_BYTES => Ok(()),
        _ => Err(list_length_error()),
    }
}

fn keys_of_basic_list(execution: &Execution<'_>) -> Result<Keys, Completion> {
    basic_list(execution)?;
    keys(execution)
}

fn keys(execution: &Execution<'_>) -> Result<Keys, Completion> {
    let (keys, _) = list(execution)?.as_chunks::<8>();
    Ok(Keys { key: u64::from_be_bytes(keys[0]), action_key: u64::from_be_bytes(keys[1]) })
}

fn be_u32(list: &[u8], at: usize) -> Result<u32, Completion> {
    let bytes = list.get(at..).and_then(|rest| rest.first_chunk());
    bytes.map(|bytes| u32::from_be_bytes(*bytes)).ok_or_else(list_length_error)
}

fn list_length_error() -> Completion {
    Sense::from(sense::PARAMETER_LIST_LENGTH_ERROR).into()
}

fn invalid(byte: usize) -> Completion {
    Sense::in_parameter_list(sense::INVALID_FIELD_IN_PARAMETER_LIST, byte).into()
}
