//! The service actions of PERSISTENT RESERVE OUT (SPC-4 5.12.7 to 5.12.11), as transitions.

use super::{PersistentReservations, Registrant, Reservation, ReservationType, Transition};
use crate::completion::{Completion, Status};
use crate::limits::REGISTRATIONS_PER_UNIT_MAX;
use crate::sense::{self, Sense, SenseCode};

/// Bytes of the parameter list that sense data points at.
const SERVICE_ACTION_RESERVATION_KEY: usize = 8;
const SPEC_I_PT: usize = 20;
const TRANSPORT_ID_OF_MOVE: usize = 24;

/// REGISTER, and REGISTER AND IGNORE EXISTING KEY.
pub(crate) struct Registration<'a> {
    /// The nexus that the command came through.
    pub(crate) nexus: &'a Registrant,
    /// RESERVATION KEY; `None` if the existing key is to be ignored.
    pub(crate) key: Option<u64>,
    /// SERVICE ACTION RESERVATION KEY; zero unregisters.
    pub(crate) new_key: u64,
    /// Everyone that is to be registered, the nexus among them: more than it with SPEC_I_PT or
    /// ALL_TG_PT.
    pub(crate) everyone: Vec<Registrant>,
    /// Whether TransportIDs were given.
    pub(crate) spec_i_pt: bool,
    pub(crate) aptpl: bool,
}

/// REGISTER AND MOVE.
pub(crate) struct Move<'a> {
    pub(crate) nexus: &'a Registrant,
    pub(crate) key: u64,
    pub(crate) new_key: u64,
    pub(crate) to: Registrant,
    pub(crate) unregister: bool,
    pub(crate) aptpl: bool,
}

type Result<T> = std::result::Result<T, Completion>;

impl PersistentReservations {
    pub(crate) fn register(&self, request: Registration<'_>) -> Result<Transition> {
        let current = self.key_of(request.nexus);
        if request.key.is_some_and(|key| key != current.unwrap_or(0)) {
            return Err(Status::ReservationConflict.into());
        }
        // SPC-4 table 48: only who is not registered may register others.
        if request.spec_i_pt && (current.is_some() || request.new_key == 0) {
            return Err(invalid_list(SPEC_I_PT));
        }
        let mut next = self.transition();
        if current.is_none() && request.new_key == 0 {
            return Ok(next);
        }
        for who in request.everyone {
            let is_meant =
                who == *request.nexus || current.is_none() || self.key_of(&who) == current;
            match request.new_key {
                0 if is_meant => next.unregister(&who),
                0 => {}
                key => next.enter(who, key)?,
            }
        }
        next.state.aptpl = request.aptpl;
        next.state.advance_generation();
        Ok(next)
    }

    pub(crate) fn reserve(
        &self,
        nexus: &Registrant,
        key: u64,
        kind: ReservationType,
    ) -> Result<Transition> {
        self.check_key(nexus, key)?;
        let mut next = self.transition();
        match &self.reservation {
            None => next.state.hold(nexus, kind),
            // SPC-4 5.12.9: the holder may ask again for what it holds.
            Some(held) if held.kind == kind && self.is_holder(nexus) => {}
            Some(_) => return Err(Status::ReservationConflict.into()),
        }
        Ok(next)
    }

    pub(crate) fn release(
        &self,
        nexus: &Registrant,
        key: u64,
        kind: Option<ReservationType>,
    ) -> Result<Transition> {
        self.check_key(nexus, key)?;
        let mut next = self.transition();
        let Some(held) = self.reservation.as_ref().filter(|_| self.is_holder(nexus)) else {
            return Ok(next);
        };
        if kind != Some(held.kind) {
            return Err(Sense::from(sense::INVALID_RELEASE_OF_PERSISTENT_RESERVATION).into());
        }
        next.release(nexus);
        Ok(next)
    }

    pub(crate) fn clear(&self, nexus: &Registrant, key: u64) -> Result<Transition> {
        self.check_key(nexus, key)?;
        let mut next = self.transition();
        next.tell_registrants_but(nexus, sense::RESERVATIONS_PREEMPTED);
        next.state.keys.clear();
        next.state.reservation = None;
        next.state.advance_generation();
        Ok(next)
    }

    /// PREEMPT; those that lose their registration are also named in [`Transition::aborted`].
    pub(crate) fn preempt(
        &self,
        nexus: &Registrant,
        key: u64,
        victim: u64,
        kind: Option<ReservationType>,
    ) -> Result<Transition> {
        self.check_key(nexus, key)?;
        let takes_over = match &self.reservation {
            Some(held) => match &held.holder {
                None => victim == 0,
                Some(holder) => self.key_of(holder) == Some(victim),
            },
            None => false,
        };
        let victims = self.keys.iter().filter(|(who, held)| match victim {
            0 => *who != nexus,
            _ => **held == victim && !(takes_over && *who == nexus),
        });
        let victims: Vec<Registrant> = victims.map(|(who, _)| who.clone()).collect();
        match takes_over {
            true => self.take_over(nexus, victims, kind.ok_or_else(invalid_type)?),
            // SPC-4 5.12.11.2.4: zero names no registrant.
            false if victim == 0 => Err(invalid_list(SERVICE_ACTION_RESERVATION_KEY)),
            false if victims.is_empty() => Err(Status::ReservationConflict.into()),
            false => Ok(self.remove(nexus, victims)),
        }
    }

    fn take_over(
        &self,
        nexus: &Registrant,
        victims: Vec<Registrant>,
        kind: ReservationType,
    ) -> Result<Transition> {
        let changes_kind = self.reservation.as_ref().is_some_and(|held| held.kind != kind);
        let mut next = self.transition();
        next.state.reservation = None;
        next.drop_victims(nexus, victims);
        // SPC-4 5.12.11.2.3: who stays registered learns that the old type is gone.
        if changes_kind {
            next.tell_registrants_but(nexus, sense::RESERVATIONS_RELEASED);
        }
        next.state.hold(nexus, kind);
        next.state.advance_generation();
        Ok(next)
    }

    fn remove(&self, nexus: &Registrant, victims: Vec<Registrant>) -> Transition {
        let mut next = self.transition();
        next.drop_victims(nexus, victims);
        if next.state.keys.is_empty() {
            next.state.reservation = None;
        }
        next.state.advance_generation();
        next
    }

    pub(crate) fn register_and_move(&self, request: Move<'_>) -> Result<Transition> {
        self.check_key(request.nexus, request.key)?;
        let held = self.reservation.as_ref().filter(|_| self.is_holder(request.nexus));
        // SPC-4 table 50: what all registrants hold cannot be moved.
        let kind = match held {
            Some(held) if !held.kind.is_held_by_all() => held.kind,
            _ => return Err(Status::ReservationConflict.into()),
        };
        if request.new_key == 0 {
            return Err(invalid_list(SERVICE_ACTION_RESERVATION_KEY));
        }
        if request.to == *request.nexus {
            return Err(invalid_list(TRANSPORT_ID_OF_MOVE));
        }
        let mut next = self.transition();
        next.enter(request.to.clone(), request.new_key)?;
        next.state.hold(&request.to, kind);
        if request.unregister {
            next.state.keys.remove(request.nexus);
        }
        next.state.aptpl = request.aptpl;
        next.state.advance_generation();
        Ok(next)
    }

    fn transition(&self) -> Transition {
        Transition { state: self.clone(), told: Vec::new(), aborted: Vec::new() }
    }

    /// Ends a command of who is not registered with that key.
    pub(crate) fn check_key(&self, nexus: &Registrant, key: u64) -> Result<()> {
        match self.key_of(nexus) {
            Some(registered) if registered == key => Ok(()),
            _ => Err(Status::ReservationConflict.into()),
        }
    }

    fn hold(&mut self, nexus: &Registrant, kind: ReservationType) {
        let holder = (!kind.is_held_by_all()).then(|| nexus.clone());
        self.reservation = Some(Reservation { kind, holder });
    }

    fn advance_generation(&mut self) {
        self.generation = self.generation.wrapping_add(1);
    }
}

impl Transition {
    fn enter(&mut self, who: Registrant, key: u64) -> Result<()> {
        let keys = &mut self.state.keys;
        if keys.len() >= REGISTRATIONS_PER_UNIT_MAX && !keys.contains_key(&who) {
            return Err(Sense::from(sense::INSUFFICIENT_REGISTRATION_RESOURCES).into());
        }
        keys.insert(who, key);
        Ok(())
    }

    /// SPC-4 5.12.11.3: a reservation goes with its holder's registration, or with the last one.
    fn unregister(&mut self, who: &Registrant) {
        let held = self.state.is_holder(who);
        self.state.keys.remove(who);
        let kind = self.state.reservation.as_ref().map(|held| held.kind);
        let remains =
            kind.is_some_and(ReservationType::is_held_by_all) && !self.state.keys.is_empty();
        if held && !remains {
            self.release(who);
        }
    }

    /// SPC-4 5.12.11.2.2: registrants that could use the reservation are told.
    fn release(&mut self, nexus: &Registrant) {
        let held = self.state.reservation.take();
        if held.is_some_and(|held| held.kind.admits_registrants()) {
            self.tell_registrants_but(nexus, sense::RESERVATIONS_RELEASED);
        }
    }

    fn drop_victims(&mut self, nexus: &Registrant, victims: Vec<Registrant>) {
        for who in &victims {
            self.state.keys.remove(who);
        }
        let others = victims.iter().filter(|who| *who != nexus);
        self.told.extend(others.map(|who| (who.clone(), sense::REGISTRATIONS_PREEMPTED)));
        self.aborted = victims;
    }

    fn tell_registrants_but(&mut self, nexus: &Registrant, condition: SenseCode) {
        let others = self.state.keys.keys().filter(|who| *who != nexus);
        self.told.extend(others.map(|who| (who.clone(), condition)));
    }
}

fn invalid_list(byte: usize) -> Completion {
    Sense::in_parameter_list(sense::INVALID_FIELD_IN_PARAMETER_LIST, byte).into()
}

fn invalid_type() -> Completion {
    Sense::invalid_cdb_field(2).into()
}
