//! Command and status numbering (RFC 7143 4.2.2), with serial number arithmetic (RFC 1982).

use crate::pdu::Bhs;

/// Whether `left` comes after `right`.
fn is_after(left: u32, right: u32) -> bool {
    (left.wrapping_sub(right) as i32) > 0
}

/// What to do with a numbered request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    /// Carry it out.
    Accept,
    /// It is outside the window: as if it had not come (RFC 7143 4.2.2.1).
    Ignore,
    /// A request before it is missing, which cannot happen on one intact connection.
    Gap,
}

/// The counters of a session with one connection.
#[derive(Debug, Default)]
pub(crate) struct Numbers {
    stat_sn: u32,
    exp_cmd_sn: u32,
    /// Last value told to the initiator; never goes back.
    max_cmd_sn: u32,
}

impl Numbers {
    /// Starts from what the first login request says.
    pub(crate) fn start(cmd_sn: u32, exp_stat_sn: u32) -> Self {
        Self { stat_sn: exp_stat_sn, exp_cmd_sn: cmd_sn, max_cmd_sn: cmd_sn }
    }

    /// Opens the window so that `free` more commands fit.
    pub(crate) fn open_window(&mut self, free: u32) {
        let max_cmd_sn = self.exp_cmd_sn.wrapping_add(free).wrapping_sub(1);
        if is_after(max_cmd_sn, self.max_cmd_sn) {
            self.max_cmd_sn = max_cmd_sn;
        }
    }

    pub(crate) fn admit(&mut self, bhs: &Bhs) -> Admission {
        if bhs.immediate() {
            return Admission::Accept;
        }
        let cmd_sn = bhs.cmd_sn();
        if cmd_sn == self.exp_cmd_sn && !is_after(cmd_sn, self.max_cmd_sn) {
            self.exp_cmd_sn = cmd_sn.wrapping_add(1);
            return Admission::Accept;
        }
        if is_after(cmd_sn, self.exp_cmd_sn) && !is_after(cmd_sn, self.max_cmd_sn) {
            return Admission::Gap;
        }
        Admission::Ignore
    }

    /// Numbers a response that carries status.
    pub(crate) fn stamp_status(&mut self, bhs: &mut Bhs) {
        self.stamp(bhs);
        self.stat_sn = self.stat_sn.wrapping_add(1);
    }

    /// Fills in the next StatSN without using it up: R2T and a ping.
    pub(crate) fn stamp(&mut self, bhs: &mut Bhs) {
        bhs.set_u32(24, self.stat_sn);
        self.stamp_window(bhs);
    }

    /// Fills in ExpCmdSN and MaxCmdSN only: Data-In without status.
    pub(crate) fn stamp_window(&self, bhs: &mut Bhs) {
        bhs.set_u32(28, self.exp_cmd_sn);
        bhs.set_u32(32, self.max_cmd_sn);
    }
}
