//! NVMe's reservation commands (NVM Express Base 2.0: Reservation Register, Acquire, Release and Report)
//! said in this room's words, and a volume that SCSI and NVMe reach both.

use super::*;

/// NVMe's host identifier: a host is one registrant, through whichever controller it comes.
type HostId = [u8; 16];

/// A registrant of a volume that both protocols reach. The files of iSCSI's registrants read as
/// before.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(untagged)]
enum Either {
    Nexus(Registrant),
    Host { host_id: HostId },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Status {
    ReservationConflict,
    InvalidField,
    /// What a host sees when there is no room: a status for which the specification has no own code.
    InternalError,
}

impl From<Refusal> for Status {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::NotRegistered
            | Refusal::Reserved
            | Refusal::NotHeldAlone
            | Refusal::UnknownKey => Self::ReservationConflict,
            Refusal::ZeroKey
            | Refusal::RegistersOthers
            | Refusal::MovedToItself
            | Refusal::OtherType
            | Refusal::NoSuchType => Self::InvalidField,
            Refusal::OutOfResources => Self::InternalError,
        }
    }
}

/// RREGA of Reservation Register.
#[derive(Clone, Copy)]
enum Rrega {
    Register,
    Unregister,
    Replace,
}

/// RTYPE.
fn kind(code: u8) -> Option<ReservationType> {
    code.checked_sub(1).and_then(|at| KINDS_OF_NVME.get(usize::from(at)).copied())
}

const KINDS_OF_NVME: [ReservationType; 6] = KINDS;

type Answer<R> = Result<Transition<R>, Status>;

/// Reservation Register: CRKEY, NRKEY, IEKEY and CPTPL.
fn register<R: Clone + Ord>(
    state: &Reservations<R>,
    (host, action): (&R, Rrega),
    (current, new): (u64, u64),
    ignores_key: bool,
    cptpl: u8,
) -> Answer<R> {
    let is_registered = state.key_of(host).is_some();
    let (key, new_key) = match action {
        // Registering again with the same key is no error.
        Rrega::Register if state.key_of(host) == Some(new) => (Some(new), new),
        Rrega::Register => (Some(0), new),
        Rrega::Unregister | Rrega::Replace if !is_registered => {
            return Err(Status::ReservationConflict);
        }
        Rrega::Unregister => ((!ignores_key).then_some(current), 0),
        Rrega::Replace => ((!ignores_key).then_some(current), new),
    };
    let persists = match cptpl {
        0 => None,
        2 => Some(false),
        3 => Some(true),
        _ => return Err(Status::InvalidField),
    };
    let everyone = vec![host.clone()];
    let names_others = false;
    let request = Registration { by: host, key, new_key, everyone, names_others, persists };
    Ok(state.register(request)?)
}

/// Reservation Acquire: acquire (RACQA 0), preempt (1), preempt and abort (2).
fn acquire<R: Clone + Ord>(
    state: &Reservations<R>,
    (host, action): (&R, u8),
    (current, preempted): (u64, u64),
    rtype: u8,
) -> Answer<R> {
    match action {
        0 => Ok(state.reserve(host, current, kind(rtype).ok_or(Status::InvalidField)?)?),
        1 | 2 => {
            let done = state.preempt(host, current, preempted, kind(rtype))?;
            let preempted = if action == 2 { done.preempted } else { Vec::new() };
            Ok(Transition { preempted, ..done })
        }
        _ => Err(Status::InvalidField),
    }
}

/// Reservation Release: release (RRELA 0), clear (1).
fn release<R: Clone + Ord>(
    state: &Reservations<R>,
    (host, action): (&R, u8),
    current: u64,
    rtype: u8,
) -> Answer<R> {
    match action {
        0 => Ok(state.release(host, current, kind(rtype))?),
        1 => Ok(state.clear(host, current)?),
        _ => Err(Status::InvalidField),
    }
}

/// Reservation Report: GEN, RTYPE, REGCTL, PTPLS, then each registrant with RCSTS and RKEY.
fn report(state: &Reservations<HostId>) -> (u32, u8, Vec<(HostId, bool, u64)>, bool) {
    let held = state.reservation().map(|held| held.kind);
    let rtype = KINDS_OF_NVME.iter().position(|&kind| Some(kind) == held);
    let registrants = state.keys().iter().map(|(&who, &key)| (who, state.is_holder(&who), key));
    let rtype = rtype.map_or(0, |at| at as u8 + 1);
    (state.generation(), rtype, registrants.collect(), state.persists())
}

/// NVMe's notifications have three kinds, as this room has.
fn log_page_type(notice: Notice) -> u8 {
    match notice {
        Notice::RegistrationPreempted => 1,
        Notice::ReservationReleased => 2,
        Notice::ReservationPreempted => 3,
    }
}

const A: HostId = [0xa; 16];
const B: HostId = [0xb; 16];
const OTHER: HostId = [7; 16];

fn registered() -> Reservations<HostId> {
    let state = Reservations::default();
    let state = register(&state, (&A, Rrega::Register), (0, 1), false, 3).unwrap().state;
    register(&state, (&B, Rrega::Register), (0, 2), false, 0).unwrap().state
}

#[test]
fn a_host_registers_replaces_and_unregisters_as_nvme_says() {
    let state = registered();
    assert_eq!(report(&state), (2, 0, vec![(A, false, 1), (B, false, 2)], true));
    let with = |action, keys, ignores| register(&state, (&A, action), keys, ignores, 0);
    assert!(with(Rrega::Register, (0, 1), false).is_ok(), "the same key again");
    let refused = Err(Status::ReservationConflict);
    assert_eq!(with(Rrega::Register, (0, 9), false), refused);
    assert_eq!(with(Rrega::Replace, (9, 3), false), refused);
    assert_eq!(with(Rrega::Replace, (9, 3), true).unwrap().state.key_of(&A), Some(3));
    assert_eq!(with(Rrega::Unregister, (1, 0), false).unwrap().state.key_of(&A), None);
    assert_eq!(register(&state, (&OTHER, Rrega::Replace), (0, 3), true, 0), refused);
    let invalid = register(&state, (&A, Rrega::Replace), (1, 3), false, 1);
    assert_eq!(invalid, Err(Status::InvalidField));
}

#[test]
fn a_reservation_is_acquired_preempted_released_and_cleared_as_nvme_says() {
    for rtype in 1..=6 {
        let held = acquire(&registered(), (&A, 0), (1, 0), rtype).unwrap().state;
        let kind = kind(rtype).unwrap();
        assert_eq!(report(&held).1, rtype);
        assert_eq!(held.conflicts(&B, Access::Write), !kind.admits_registrants());
        assert!(held.conflicts(&OTHER, Access::Write), "a host that is not registered");
        let other = acquire(&held, (&B, 0), (2, 0), rtype);
        assert_eq!(other.is_ok(), kind.is_held_by_all());
        let wrong = release(&held, (&A, 0), 1, rtype % 6 + 1);
        assert_eq!(wrong, Err(Status::InvalidField));
        let cleared = release(&held, (&B, 1), 2, 0).unwrap();
        assert_eq!(cleared.told.iter().map(|told| log_page_type(told.1)).collect::<Vec<_>>(), [3]);
        assert!(cleared.state.keys().is_empty());
    }
    let held = acquire(&registered(), (&A, 0), (1, 0), 1).unwrap().state;
    let preempted = acquire(&held, (&B, 2), (2, 1), 2).unwrap();
    assert_eq!(preempted.preempted, [A]);
    assert_eq!(preempted.told, [(A, Notice::RegistrationPreempted)]);
    assert_eq!(report(&preempted.state).1, 2);
    assert_eq!(acquire(&held, (&B, 1), (2, 0), 1), Err(Status::InvalidField));
    assert_eq!(acquire(&held, (&B, 0), (2, 0), 9), Err(Status::InvalidField));
}

#[test]
fn hosts_of_both_protocols_keep_each_other_out_and_what_iscsi_stored_reads_as_before() {
    let stored = held_by_a(ReservationType::WriteExclusive).durable().unwrap();
    let text = serde_json::to_string(&stored).unwrap();
    let read: DurableReservations<Either> = serde_json::from_str(&text).unwrap();
    assert_eq!(serde_json::to_string(&read).unwrap(), text);
    let state = Reservations::restore(read);
    let (host, initiator) = (Either::Host { host_id: A }, Either::Nexus(who("a")));
    assert!(state.conflicts(&host, Access::Write) && !state.conflicts(&host, Access::Read));
    let state = register(&state, (&host, Rrega::Register), (0, 7), false, 0).unwrap().state;
    let taken = acquire(&state, (&host, 1), (7, 1), 2).unwrap();
    let b = Either::Nexus(who("b"));
    assert_eq!(taken.told[0], (initiator.clone(), Notice::RegistrationPreempted));
    assert!(taken.told.contains(&(b.clone(), Notice::ReservationReleased)));
    assert!(taken.state.conflicts(&initiator, Access::Read) && taken.state.is_holder(&host));
    let text = serde_json::to_string(&taken.state.durable().unwrap()).unwrap();
    let back = Reservations::<Either>::restore(serde_json::from_str(&text).unwrap());
    assert!(back.is_holder(&host) && back.key_of(&b) == Some(2));
}
