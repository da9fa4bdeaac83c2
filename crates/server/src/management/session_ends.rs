//! Closing of sessions: by an administrator, or because what their initiators must prove has
//! changed since they logged in.

use std::collections::BTreeSet;

use api::Problem;
use control::session_ends::{self, Ends, Version};

use super::sessions::find_session;
use super::{Management, Progress};
use crate::iscsi::Sessions;

/// Sessions that are to end; the reactor, which has them, does it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SessionEnd {
    /// The session with this handle.
    Handle(u16),
    /// Every session of these initiators.
    Initiators(BTreeSet<String>),
    /// Every discovery session.
    Discovery,
}

impl Management {
    /// The sessions that are to end since the last call.
    pub(crate) fn take_session_ends(&mut self) -> Vec<SessionEnd> {
        std::mem::take(&mut self.session_ends)
    }

    /// Closes the session with a handle; its initiator may log in again.
    pub(super) fn close_session(
        &mut self,
        sessions: &Sessions,
        handle: &str,
    ) -> Result<Progress, Problem> {
        let tsih = find_session(sessions, handle)?;
        self.session_ends.push(SessionEnd::Handle(tsih));
        Ok(Progress::answer(&()))
    }

    /// Notes whose sessions began on terms that a change has done away with.
    pub(super) fn end_sessions_of_changed_hosts(
        &mut self,
        before: Version<'_>,
        after: Version<'_>,
    ) {
        let Ends { initiators, discovery } = session_ends::ended_by(before, after);
        if !initiators.is_empty() {
            self.session_ends.push(SessionEnd::Initiators(initiators));
        }
        if discovery {
            self.session_ends.push(SessionEnd::Discovery);
        }
    }
}
