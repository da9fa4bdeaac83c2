//! PERSISTENT RESERVE IN (SPC-4 6.15).

use crate::command::{Action, Execution};
use crate::completion::Completion;
use crate::persistent::{self, PersistentReservations, Registrant};
use crate::transport_id;

/// SPC-4 6.15.4, byte 2: CRH, SIP_C, ATP_C and PTPL_C.
const CAPABILITIES: u8 = 0x1d;

/// Byte 3: TMV; PTPL_A beside it when it is so.
const TYPE_MASK_VALID: u8 = 0x80;
const APTPL_ACTIVE: u8 = 0x01;

/// READ KEYS.
pub(super) fn read_keys(execution: &mut Execution<'_>) -> Result<Action, Completion> {
    let state = &execution.unit()?.persistent;
    let keys = state.keys().values().flat_map(|key| key.to_be_bytes());
    answer(execution, state, keys.collect())
}

/// READ RESERVATION.
pub(super) fn read_reservation(execution: &mut Execution<'_>) -> Result<Action, Completion> {
    let state = &execution.unit()?.persistent;
    let mut data = Vec::new();
    if let Some(held) = state.reservation() {
        // SPC-4 6.15.3.2: the key is zero where all registrants hold it.
        let key = held.holder.as_ref().and_then(|holder| state.key_of(holder)).unwrap_or(0);
        data.extend(key.to_be_bytes());
        data.extend([0, 0, 0, 0, 0, persistent::type_code(held.kind), 0, 0]);
    }
    answer(execution, state, data)
}

/// REPORT CAPABILITIES.
pub(super) fn report_capabilities(execution: &mut Execution<'_>) -> Result<Action, Completion> {
    let aptpl = if execution.unit()?.persistent.persists() { APTPL_ACTIVE } else { 0 };
    let [low, high] = type_mask().to_le_bytes();
    let data = vec![0, 8, CAPABILITIES, TYPE_MASK_VALID | aptpl, low, high, 0, 0];
    Ok(Action::data(data, u32::from(execution.cdb.u16(7))))
}

/// SPC-4 table 161: a bit per type code.
fn type_mask() -> u16 {
    (0..16).filter(|&code| persistent::parse_type(code).is_some()).map(|code| 1 << code).sum()
}

/// READ FULL STATUS.
pub(super) fn read_full_status(execution: &mut Execution<'_>) -> Result<Action, Completion> {
    let state = &execution.unit()?.persistent;
    let descriptors = state.keys().iter().flat_map(|(who, key)| full_status(state, who, *key));
    answer(execution, state, descriptors.collect())
}

fn full_status(state: &PersistentReservations, who: &Registrant, key: u64) -> Vec<u8> {
    const R_HOLDER: u8 = 0x01;
    let held = state.reservation().filter(|_| state.is_holder(who));
    let mut descriptor = key.to_be_bytes().to_vec();
    descriptor.extend([0; 4]);
    descriptor.push(if held.is_some() { R_HOLDER } else { 0 });
    descriptor.push(held.map_or(0, |held| persistent::type_code(held.kind)));
    descriptor.extend([0; 4]);
    descriptor.extend(who.relative_target_port.to_be_bytes());
    let transport_id = transport_id::emit(who);
    descriptor.extend((transport_id.len() as u32).to_be_bytes());
    descriptor.extend(transport_id);
    descriptor
}

/// PRGENERATION, ADDITIONAL LENGTH, and what follows.
fn answer(
    execution: &Execution<'_>,
    state: &PersistentReservations,
    content: Vec<u8>,
) -> Result<Action, Completion> {
    let mut data = state.generation().to_be_bytes().to_vec();
    data.extend((content.len() as u32).to_be_bytes());
    data.extend(content);
    Ok(Action::data(data, u32::from(execution.cdb.u16(7))))
}
