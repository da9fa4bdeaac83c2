//! Closing of sessions: by an administrator, or because what their initiators must prove has
//! changed since they logged in.

use std::collections::BTreeSet;

use api::Problem;
use array::{Chap, Configuration, Host, Secrets};

use super::sessions::find_session;
use super::{Management, Progress};
use crate::iscsi::Sessions;

#[cfg(test)]
mod tests;

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
        before: (&Configuration, &Secrets),
        after: (&Configuration, &Secrets),
    ) {
        let initiators = renewed(before, after);
        if !initiators.is_empty() {
            self.session_ends.push(SessionEnd::Initiators(initiators));
        }
        let account = |(configuration, secrets): (&Configuration, &Secrets)| {
            (configuration.discovery_chap_name.clone(), secrets.discovery.clone())
        };
        let wanted = account(after);
        if wanted.0.is_some() && account(before) != wanted {
            self.session_ends.push(SessionEnd::Discovery);
        }
    }
}

/// What a host's initiators must prove.
struct Terms<'a> {
    host: Option<&'a Host>,
    chap: Option<&'a Chap>,
}

/// Initiators that must log in again: those that came to a host with a CHAP account or left any host,
/// and all of a host whose account is new or has another name or secret. Who proved more than is
/// wanted now may stay.
fn renewed(
    before: (&Configuration, &Secrets),
    after: (&Configuration, &Secrets),
) -> BTreeSet<String> {
    if before.0.hosts.ptr_eq(&after.0.hosts) && before.1.hosts.ptr_eq(&after.1.hosts) {
        return BTreeSet::new();
    }
    let terms = |(configuration, secrets): (&'_ Configuration, &'_ Secrets), name: &str| {
        (configuration.hosts.get(name).cloned(), secrets.hosts.get(name).cloned())
    };
    let names: BTreeSet<&String> = before.0.hosts.keys().chain(after.0.hosts.keys()).collect();
    let mut initiators = BTreeSet::new();
    for name in names {
        let (old, new) = (terms(before, name), terms(after, name));
        if old != new {
            let old = Terms { host: old.0.as_ref(), chap: old.1.as_ref() };
            let new = Terms { host: new.0.as_ref(), chap: new.1.as_ref() };
            initiators.extend(renewed_of_host(&old, &new));
        }
    }
    initiators
}

fn renewed_of_host(old: &Terms<'_>, new: &Terms<'_>) -> BTreeSet<String> {
    let initiators =
        |terms: &Terms<'_>| terms.host.map(|host| host.initiators.clone()).unwrap_or_default();
    let (had, has) = (initiators(old), initiators(new));
    let account = |terms: &Terms<'_>| {
        let name = terms.host.and_then(|host| host.chap_name.clone());
        name.map(|name| (name, terms.chap.cloned()))
    };
    let (left, came) = (&had - &has, &has - &had);
    match (account(old), account(new)) {
        (_, None) => left,
        (old, new) if old == new => &left | &came,
        (_, Some(_)) => &had | &has,
    }
}
