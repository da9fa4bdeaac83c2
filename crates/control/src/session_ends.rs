//! Sessions that have to end after a change of the configuration: those of initiators that proved
//! less than is wanted of them now.

use std::collections::BTreeSet;

use array::{Chap, Configuration, Host, Secrets};

/// Configuration and secrets that belong together.
pub type Version<'a> = (&'a Configuration, &'a Secrets);

/// Sessions that are to end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ends {
    /// Every session of these initiators.
    pub initiators: BTreeSet<String>,
    /// Every discovery session.
    pub discovery: bool,
}

/// The sessions that began on terms that a change has done away with.
pub fn ended_by(before: Version<'_>, after: Version<'_>) -> Ends {
    let account = |(configuration, secrets): Version<'_>| {
        (configuration.discovery_chap_name.clone(), secrets.discovery.clone())
    };
    let wanted = account(after);
    let discovery = wanted.0.is_some() && account(before) != wanted;
    Ends { initiators: renewed(before, after), discovery }
}

/// What a host's initiators must prove.
struct Terms<'a> {
    host: Option<&'a Host>,
    chap: Option<&'a Chap>,
}

/// Initiators that must log in again: those that came to a host with a CHAP account or left any host,
/// and all of a host whose account is new or has another name or secret. Who proved more than is
/// wanted now may stay.
fn renewed(before: Version<'_>, after: Version<'_>) -> BTreeSet<String> {
    if before.0.hosts.ptr_eq(&after.0.hosts) && before.1.hosts.ptr_eq(&after.1.hosts) {
        return BTreeSet::new();
    }
    let terms = |(configuration, secrets): Version<'_>, name: &str| {
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

#[cfg(test)]
mod tests;
