//! Command and status numbering (RFC 7143 4.2.2), with serial number arithmetic (RFC 1982).

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::pdu::Bhs;

/// Whether `left` comes after `right`.
pub(crate) fn is_after(left: u32, right: u32) -> bool {
    (left.wrapping_sub(right) as i32) > 0
}

/// Decision about a numbered request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    /// Carry it out.
    Accept,
    /// Ignore the request: it is outside the window (RFC 7143 4.2.2.1).
    Ignore,
    /// A request before it has not come yet: on another connection, or after an error.
    Gap,
}

/// Command numbering that all connections of a session share.
#[derive(Debug, Default)]
struct Commands {
    exp_cmd_sn: u32,
    /// Last value told to the initiator; never goes back.
    max_cmd_sn: u32,
    /// Commands under way on all connections.
    under_way: u32,
}

/// The command numbers of a session, which its connections share.
#[derive(Clone, Debug, Default)]
pub(crate) struct SessionNumbers(Arc<Mutex<Commands>>);

impl SessionNumbers {
    fn lock(&self) -> MutexGuard<'_, Commands> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The counters of one connection, and those of its session.
#[derive(Debug, Default)]
pub(crate) struct Numbers {
    stat_sn: u32,
    /// Commands of this connection that the session counts as under way.
    counted: u32,
    session: SessionNumbers,
}

impl Numbers {
    /// Starts a session from what the first login request says.
    pub(crate) fn start(cmd_sn: u32, exp_stat_sn: u32) -> Self {
        let commands = Commands { exp_cmd_sn: cmd_sn, max_cmd_sn: cmd_sn, under_way: 0 };
        let session = SessionNumbers(Arc::new(Mutex::new(commands)));
        Self { stat_sn: exp_stat_sn, counted: 0, session }
    }

    /// Goes on with the command numbers of another connection's session.
    pub(crate) fn join(&mut self, session: SessionNumbers) {
        self.session = session;
    }

    /// Handle to the numbering, for another connection of the session.
    pub(crate) fn session(&self) -> SessionNumbers {
        self.session.clone()
    }

    /// Opens the window so that all connections together have `max` commands at most; this one has
    /// `under_way`.
    pub(crate) fn open_window(&mut self, under_way: u32, max: u32) {
        let mut commands = self.session.lock();
        commands.under_way = commands.under_way - self.counted + under_way;
        self.counted = under_way;
        let free = max.saturating_sub(commands.under_way);
        let max_cmd_sn = commands.exp_cmd_sn.wrapping_add(free).wrapping_sub(1);
        if is_after(max_cmd_sn, commands.max_cmd_sn) {
            commands.max_cmd_sn = max_cmd_sn;
        }
    }

    /// The connection has no commands any more.
    pub(crate) fn leave(&mut self) {
        self.session.lock().under_way -= self.counted;
        self.counted = 0;
    }

    /// The number of the next request in order.
    pub(crate) fn exp_cmd_sn(&self) -> u32 {
        self.session.lock().exp_cmd_sn
    }

    /// Whether a request is in the window and others before it have not come.
    pub(crate) fn is_early(&self, bhs: &Bhs) -> bool {
        let commands = self.session.lock();
        let cmd_sn = bhs.cmd_sn();
        !is_after(cmd_sn, commands.max_cmd_sn) && is_after(cmd_sn, commands.exp_cmd_sn)
    }

    pub(crate) fn admit(&mut self, bhs: &Bhs) -> Admission {
        if bhs.immediate() {
            return Admission::Accept;
        }
        let mut commands = self.session.lock();
        let cmd_sn = bhs.cmd_sn();
        if is_after(cmd_sn, commands.max_cmd_sn) || is_after(commands.exp_cmd_sn, cmd_sn) {
            return Admission::Ignore;
        }
        if cmd_sn != commands.exp_cmd_sn {
            return Admission::Gap;
        }
        commands.exp_cmd_sn = cmd_sn.wrapping_add(1);
        Admission::Accept
    }

    /// Numbers a response that carries status; returns its number.
    pub(crate) fn stamp_status(&mut self, bhs: &mut Bhs) -> u32 {
        let stat_sn = self.stat_sn;
        self.stamp(bhs);
        self.stat_sn = self.stat_sn.wrapping_add(1);
        stat_sn
    }

    /// Fills in the next StatSN without using it up: R2T and a ping.
    pub(crate) fn stamp(&mut self, bhs: &mut Bhs) {
        bhs.set_u32(24, self.stat_sn);
        self.stamp_window(bhs);
    }

    /// Fills in ExpCmdSN and MaxCmdSN only: Data-In without status.
    pub(crate) fn stamp_window(&self, bhs: &mut Bhs) {
        let commands = self.session.lock();
        bhs.set_u32(28, commands.exp_cmd_sn);
        bhs.set_u32(32, commands.max_cmd_sn);
    }
}
