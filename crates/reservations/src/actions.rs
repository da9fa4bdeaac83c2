//! Actions on reservations, as transitions: register, reserve, release, clear, preempt, move (SPC-4
//! 5.12.7 to 5.12.11; NVMe: Reservation Register, Acquire and Release).

use super::{Notice, Refusal, Reservation, ReservationType, Reservations, Transition};
use crate::limits::REGISTRATIONS_MAX;

/// Registers, changes a key or unregisters.
#[derive(Clone, Debug)]
pub struct Registration<'a, R> {
    /// Whoever asks.
    pub by: &'a R,
    /// The key that it must be registered with, zero for none; `None` if any will do.
    pub key: Option<u64>,
    /// The new key; zero unregisters.
    pub new_key: u64,
    /// Everyone that is to be registered, whoever asks among them.
    pub everyone: Vec<R>,
    /// Whether others were named, which only who is not registered may do (SPC-4: SPEC_I_PT).
    pub names_others: bool,
    /// Whether the state outlasts a loss of power from now on; `None` leaves that as it is.
    pub persists: Option<bool>,
}

/// Passes a reservation on to another registrant, which is registered by that.
#[derive(Clone, Debug)]
pub struct Move<'a, R> {
    /// Whoever asks and holds the reservation.
    pub by: &'a R,
    /// Its key.
    pub key: u64,
    /// The key of the new holder.
    pub new_key: u64,
    /// The new holder.
    pub to: R,
    /// Whether the old holder is unregistered.
    pub unregister: bool,
    /// Whether the state outlasts a loss of power from now on.
    pub persists: bool,
}

type Result<T> = std::result::Result<T, Refusal>;

impl<R: Clone + Ord> Reservations<R> {
    /// Registers whoever asks, and others that it names, or changes or removes the registration.
    ///
    /// # Errors
    /// [`Refusal::NotRegistered`], [`Refusal::RegistersOthers`], [`Refusal::OutOfResources`].
    pub fn register(&self, request: Registration<'_, R>) -> Result<Transition<R>> {
        let current = self.key_of(request.by);
        if request.key.is_some_and(|key| key != current.unwrap_or(0)) {
            return Err(Refusal::NotRegistered);
        }
        // SPC-4 table 48: only who is not registered may register others.
        if request.names_others && (current.is_some() || request.new_key == 0) {
            return Err(Refusal::RegistersOthers);
        }
        let mut next = self.transition();
        if current.is_none() && request.new_key == 0 {
            return Ok(next);
        }
        for who in request.everyone {
            let is_meant = who == *request.by || current.is_none() || self.key_of(&who) == current;
            match request.new_key {
                0 if is_meant => next.unregister(&who),
                0 => {}
                key => next.enter(who, key)?,
            }
        }
        next.state.persists = request.persists.unwrap_or(self.persists);
        next.state.advance_generation();
        Ok(next)
    }

    /// Takes the reservation; who holds it with this type may ask again.
    ///
    /// # Errors
    /// [`Refusal::NotRegistered`], [`Refusal::Reserved`].
    pub fn reserve(&self, by: &R, key: u64, kind: ReservationType) -> Result<Transition<R>> {
        self.check_key(by, key)?;
        let mut next = self.transition();
        match &self.reservation {
            None => next.state.hold(by, kind),
            // SPC-4 5.12.9: the holder may ask again for what it holds.
            Some(held) if held.kind == kind && self.is_holder(by) => {}
            Some(_) => return Err(Refusal::Reserved),
        }
        Ok(next)
    }

    /// Gives the reservation up; does nothing for a registrant that does not hold it. `None` is a type
    /// that does not exist.
    ///
    /// # Errors
    /// [`Refusal::NotRegistered`], [`Refusal::OtherType`].
    pub fn release(
        &self,
        by: &R,
        key: u64,
        kind: Option<ReservationType>,
    ) -> Result<Transition<R>> {
        self.check_key(by, key)?;
        let mut next = self.transition();
        let Some(held) = self.reservation.as_ref().filter(|_| self.is_holder(by)) else {
            return Ok(next);
        };
        if kind != Some(held.kind) {
            return Err(Refusal::OtherType);
        }
        next.release(by);
        Ok(next)
    }

    /// Removes all registrations and the reservation.
    ///
    /// # Errors
    /// [`Refusal::NotRegistered`].
    pub fn clear(&self, by: &R, key: u64) -> Result<Transition<R>> {
        self.check_key(by, key)?;
        let mut next = self.transition();
        next.tell_registrants_but(by, Notice::ReservationPreempted);
        next.state.keys.clear();
        next.state.reservation = None;
        next.state.advance_generation();
        Ok(next)
    }

    /// Removes the registrations with the key `victim`, and takes over the reservation if one of them
    /// holds it; zero stands for all others where all registrants hold it. `kind` is the type that the
    /// reservation has then; `None` is one that does not exist.
    ///
    /// # Errors
    /// [`Refusal::NotRegistered`], [`Refusal::UnknownKey`], [`Refusal::ZeroKey`],
    /// [`Refusal::NoSuchType`].
    pub fn preempt(
        &self,
        by: &R,
        key: u64,
        victim: u64,
        kind: Option<ReservationType>,
    ) -> Result<Transition<R>> {
        self.check_key(by, key)?;
        let takes_over = match &self.reservation {
            Some(held) => match &held.holder {
                None => victim == 0,
                Some(holder) => self.key_of(holder) == Some(victim),
            },
            None => false,
        };
        let victims = self.keys.iter().filter(|(who, held)| match victim {
            0 => *who != by,
            _ => **held == victim && !(takes_over && *who == by),
        });
        let victims: Vec<R> = victims.map(|(who, _)| who.clone()).collect();
        match takes_over {
            true => self.take_over(by, victims, kind.ok_or(Refusal::NoSuchType)?),
            // SPC-4 5.12.11.2.4: zero names no registrant.
            false if victim == 0 => Err(Refusal::ZeroKey),
            false if victims.is_empty() => Err(Refusal::UnknownKey),
            false => Ok(self.remove(by, victims)),
        }
    }

    fn take_over(&self, by: &R, victims: Vec<R>, kind: ReservationType) -> Result<Transition<R>> {
        let changes_kind = self.reservation.as_ref().is_some_and(|held| held.kind != kind);
        let mut next = self.transition();
        next.state.reservation = None;
        next.drop_victims(by, victims);
        // SPC-4 5.12.11.2.3: who stays registered learns that the old type is gone.
        if changes_kind {
            next.tell_registrants_but(by, Notice::ReservationReleased);
        }
        next.state.hold(by, kind);
        next.state.advance_generation();
        Ok(next)
    }

    fn remove(&self, by: &R, victims: Vec<R>) -> Transition<R> {
        let mut next = self.transition();
        next.drop_victims(by, victims);
        if next.state.keys.is_empty() {
            next.state.reservation = None;
        }
        next.state.advance_generation();
        next
    }

    /// Passes the reservation on, and registers its new holder.
    ///
    /// # Errors
    /// [`Refusal::NotRegistered`], [`Refusal::NotHeldAlone`], [`Refusal::ZeroKey`],
    /// [`Refusal::MovedToItself`], [`Refusal::OutOfResources`].
    pub fn register_and_move(&self, request: Move<'_, R>) -> Result<Transition<R>> {
        self.check_key(request.by, request.key)?;
        let held = self.reservation.as_ref().filter(|_| self.is_holder(request.by));
        // SPC-4 table 50: what all registrants hold cannot be moved.
        let kind = match held {
            Some(held) if !held.kind.is_held_by_all() => held.kind,
            _ => return Err(Refusal::NotHeldAlone),
        };
        if request.new_key == 0 {
            return Err(Refusal::ZeroKey);
        }
        if request.to == *request.by {
            return Err(Refusal::MovedToItself);
        }
        let mut next = self.transition();
        next.enter(request.to.clone(), request.new_key)?;
        next.state.hold(&request.to, kind);
        if request.unregister {
            next.state.keys.remove(request.by);
        }
        next.state.persists = request.persists;
        next.state.advance_generation();
        Ok(next)
    }

    fn transition(&self) -> Transition<R> {
        Transition { state: self.clone(), told: Vec::new(), preempted: Vec::new() }
    }

    /// Whether `who` is registered with that key.
    ///
    /// # Errors
    /// [`Refusal::NotRegistered`].
    pub fn check_key(&self, who: &R, key: u64) -> Result<()> {
        match self.key_of(who) {
            Some(registered) if registered == key => Ok(()),
            _ => Err(Refusal::NotRegistered),
        }
    }

    fn hold(&mut self, by: &R, kind: ReservationType) {
        let holder = (!kind.is_held_by_all()).then(|| by.clone());
        self.reservation = Some(Reservation { kind, holder });
    }

    fn advance_generation(&mut self) {
        self.generation = self.generation.wrapping_add(1);
    }
}

impl<R: Clone + Ord> Transition<R> {
    fn enter(&mut self, who: R, key: u64) -> Result<()> {
        let keys = &mut self.state.keys;
        if keys.len() >= REGISTRATIONS_MAX && !keys.contains_key(&who) {
            return Err(Refusal::OutOfResources);
        }
        keys.insert(who, key);
        Ok(())
    }

    /// SPC-4 5.12.11.3: a reservation goes with its holder's registration, or with the last one.
    fn unregister(&mut self, who: &R) {
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
    fn release(&mut self, by: &R) {
        let held = self.state.reservation.take();
        if held.is_some_and(|held| held.kind.admits_registrants()) {
            self.tell_registrants_but(by, Notice::ReservationReleased);
        }
    }

    fn drop_victims(&mut self, by: &R, victims: Vec<R>) {
        for who in &victims {
            self.state.keys.remove(who);
        }
        let others = victims.iter().filter(|who| *who != by);
        self.told.extend(others.map(|who| (who.clone(), Notice::RegistrationPreempted)));
        self.preempted = victims;
    }

    fn tell_registrants_but(&mut self, by: &R, notice: Notice) {
        let others = self.state.keys.keys().filter(|who| *who != by);
        self.told.extend(others.map(|who| (who.clone(), notice)));
    }
}
