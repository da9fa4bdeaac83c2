//! Error limit of reads: a member that answers many with errors is left out as one whose write failed, unless
//! no other member is better.

use super::Mirror;
use super::member::{Member, MemberNumber};
use super::port::Port;
use super::status::MemberState;
use crate::limits::{READ_ERRORS_MAX, READ_ERRORS_PERIOD};

impl Port {
    /// Whether a period in which errors of reads are counted has begun.
    pub(super) fn is_new_period(&mut self) -> bool {
        let has_begun = self.now.saturating_sub(self.period_since) >= READ_ERRORS_PERIOD;
        if has_begun {
            self.period_since = self.now;
        }
        has_begun
    }
}

impl Mirror {
    /// A member answered a read with an error. At the limit the mirror goes on without it, if another
    /// current member is well: what the last good copy cannot read now and then is better than nothing.
    pub(super) fn read_failed(&mut self, port: &mut Port, member: MemberNumber) {
        let failed = &mut self.members[member].failed_reads;
        *failed = failed.saturating_add(1);
        let is_over = *failed >= READ_ERRORS_MAX;
        let is_well =
            |other: &Member| other.is_readable() && other.failed_reads < READ_ERRORS_MAX / 2;
        if !is_over
            || self.members[member].state != MemberState::Current
            || !self.members.iter().any(is_well)
        {
            return;
        }
        self.members[member].is_unreliable = true;
        self.give_up(port, member);
    }

    pub(super) fn forget_failed_reads(&mut self) {
        self.members.iter_mut().for_each(|member| member.failed_reads = 0);
    }
}
