//! Witness device of a mirror: a member without a copy, which holds the membership list.
//!
//! Who opens a mirror without some of its current members must hold the witness, or else every copy that the list names.
//! So the list by which an owner goes on without a member takes effect only when the witness has it, and the one by which
//! it goes on without the witness only when every copy has it that somebody could open with the witness.
//!
//! Two owners that were cut off from each other may both have proposed lists; their generations say nothing then. The
//! list on the witness decides: what was proposed on an older one than it never took effect.

use super::Mirror;
use super::list::{List, ListChange, ListName};
use super::member::{MemberNumber, MemberSet};
use super::port::Port;
use super::reliance::{FoundWitness, Reliance};
use super::status::MemberState;

impl Mirror {
    /// Takes over what was found of its witness.
    pub(super) fn adopt_witness(&mut self, found: FoundWitness) {
        let FoundWitness { rivals, basis, sent, known } = found;
        let rivals = self.places(|member| rivals.contains(&member.uuid));
        self.reliance = Reliance { rivals, basis, sent, known };
    }

    /// Whether somebody else could open it with the witness.
    pub(crate) fn relies_on_witness(&self) -> bool {
        !self.reliance.rivals.is_empty()
    }

    /// Slots of the members with which somebody who holds the witness could open it, if all of them are there.
    pub(super) fn rivals(&self) -> Option<Vec<u8>> {
        self.reliance.rivals.iter().map(|member| self.members[member].slot).collect()
    }

    /// The witness, if it is there.
    pub(super) fn witness_there(&self) -> Option<MemberNumber> {
        self.member_where(|member| member.is_witness_there())
    }

    /// Whether a list that says what is the case now can take effect. One that cannot is never written: found alone
    /// on a member it would let that be opened without those that it leaves out.
    pub(super) fn may_propose(&self) -> bool {
        self.witness_there().is_some() || !self.has_rivals_besides(self.written_to())
    }

    /// Whether the durable list leaves the witness out, and members have a newer one that relies on it and never took
    /// effect: one more without it takes that back. Else the next member that fails could not be left out.
    pub(super) fn must_revoke(&self) -> bool {
        self.list.witness().is_none() && self.relies_on_witness() && self.may_propose()
    }

    /// Whether somebody who holds the witness could open it with a member that is not among these.
    pub(super) fn has_rivals_besides(&self, members: MemberSet) -> bool {
        !self.reliance.rivals.without(members).is_empty()
    }

    /// Generation of the last list that took effect with the witness, and the one that may come there after it.
    pub(super) fn at_witness(&self) -> (u64, Option<ListName>) {
        (self.reliance.basis, self.reliance.sent)
    }

    /// A list is being written: whoever finds it on a member relies on it.
    pub(super) fn note_proposed(&mut self, list: &List) {
        if list.witness().is_some() {
            let current = self.current_by(list);
            self.reliance.rivals = self.reliance.rivals.or(current);
        }
    }

    /// A list is being written to the witness.
    pub(super) fn note_sent_to_witness(&mut self, list: List) {
        self.reliance.sent = Some(list.name());
        if !self.reliance.known.contains(&list) {
            self.reliance.known.push(list);
        }
    }

    /// The durable list took effect.
    pub(super) fn note_in_effect(&mut self) {
        self.reliance.rivals = MemberSet::default();
        if self.list.witness().is_some() {
            self.reliance.rivals = self.current_by(&self.list);
            self.reliance.basis = self.list.generation;
            self.reliance.sent = None;
            self.reliance.known = vec![self.list.clone()];
        }
    }

    fn current_by(&self, list: &List) -> MemberSet {
        let current: Vec<[u8; 16]> = list.current().collect();
        self.places(|member| member.is_listed && current.contains(&member.uuid))
    }

    /// Whether a list that all members have which are there takes effect.
    pub(super) fn takes_effect(&self, change: &ListChange) -> bool {
        match change.list.witness() {
            Some(witness) => {
                let witness = self.member_where(|member| member.uuid == witness);
                witness.is_some_and(|witness| change.done.contains(witness))
            }
            None => !self.has_rivals_besides(change.done),
        }
    }

    /// The list on its way cannot take effect any more: another one takes its place, if that can.
    pub(super) fn supersede(&mut self, port: &mut Port) {
        let Some(change) = &self.change else { return };
        let is_another = self.entries() != change.list.entries;
        if change.is_told || change.is_under_way() || !is_another || !self.may_propose() {
            return;
        }
        let generation = change.list.generation;
        self.change = None;
        self.step = self.step.max(generation + 1 - self.list.generation);
        self.propose(port);
    }

    /// Whether a list that was found on the witness is one that this owner, or one before it, gave it. Another one is
    /// of somebody who opened the mirror since.
    pub(crate) fn knows_of_witness(&self, found: Option<&List>) -> bool {
        found.is_none_or(|list| {
            list.generation <= self.reliance.basis
                || self.reliance.sent == Some(list.name())
                || self.reliance.known.contains(list)
        })
    }

    /// The witness that was admitted joins, or comes back, with a list that this owner knows: that one is in effect.
    pub(super) fn join_witness(&mut self, port: &mut Port, place: MemberNumber, newest: u64) {
        self.step = self.step.max((newest + 1).saturating_sub(self.list.generation));
        self.reliance.basis = self.reliance.basis.max(newest);
        let member = &mut self.members[place];
        member.state = MemberState::Witness;
        member.takes_part();
        let is_as_listed =
            self.change.as_ref().is_some_and(|change| change.list.entries == self.entries());
        match &mut self.change {
            Some(change) if is_as_listed && !change.is_told => change.witness = Some(place),
            Some(_) | None => {}
        }
        self.supersede(port);
        self.settle_list(port);
        self.propose(port);
    }
}
