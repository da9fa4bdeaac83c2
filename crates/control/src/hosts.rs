//! Hosts and groups of hosts: changes of them, and their descriptions.

use std::collections::BTreeSet;

use api::{ChangeHost, CreateHost, Group, Problem, SetGroup};
use array::{ArrayError, Chap, Configuration, Host, Rest, Secrets, Tagged};

use crate::change::{Answer, Applied, ConfigurationChange, Draft, Touched, View};
use crate::problems::{bad_request, refused};
use crate::{chap, primitives, rate_limits};

/// How a front end checks the name of an initiator, and writes it so that it is found at login.
pub type FoldName = fn(&str) -> Result<String, String>;

/// A change of hosts and groups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// A new host.
    CreateHost {
        /// Its name.
        name: String,
        /// Folded names of its initiators.
        initiators: BTreeSet<String>,
        /// What they must prove.
        chap: Option<Chap>,
    },
    /// A host has other initiators, or another account.
    ChangeHost {
        /// Its name.
        name: String,
        /// Folded names of its initiators; `None` leaves them as they are.
        initiators: Option<BTreeSet<String>>,
        /// What becomes of its account.
        account: Account,
    },
    /// A host goes, with its tags and its secret.
    DeleteHost(String),
    /// A group is made, or has other members.
    SetGroup {
        /// Its name.
        name: String,
        /// Names of hosts.
        hosts: BTreeSet<String>,
    },
    /// A group goes, with its tags.
    DeleteGroup(String),
}

/// What becomes of the CHAP account of a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Account {
    /// It stays.
    Kept,
    /// It goes: whoever names the host's initiators gets in.
    Deleted,
    /// There is this one from now on.
    Set(Chap),
}

/// Reads the request for a new host.
///
/// # Errors
/// When its account or the name of an initiator is none.
pub fn create(request: CreateHost, fold: FoldName) -> Result<Change, Problem> {
    let chap = request.chap.map(chap::parse).transpose()?;
    let initiators = fold_initiators(&request.initiators, fold)?;
    Ok(Change::CreateHost { name: request.name, initiators, chap })
}

/// Reads the request for a change of a host.
///
/// # Errors
/// When it asks for an account and for none, or its account or the name of an initiator is none.
pub fn change(name: &str, request: ChangeHost, fold: FoldName) -> Result<Change, Problem> {
    if request.no_chap && request.chap.is_some() {
        return Err(bad_request(&"a host has a CHAP account or none: choose one of the two"));
    }
    let chap = request.chap.map(chap::parse).transpose()?;
    let initiators = request.initiators.as_deref();
    let initiators = initiators.map(|names| fold_initiators(names, fold)).transpose()?;
    let account = match chap {
        Some(chap) => Account::Set(chap),
        None if request.no_chap => Account::Deleted,
        None => Account::Kept,
    };
    Ok(Change::ChangeHost { name: name.to_owned(), initiators, account })
}

/// Reads the request for a group.
pub fn set_group(name: &str, request: SetGroup) -> Change {
    Change::SetGroup { name: name.to_owned(), hosts: request.hosts.into_iter().collect() }
}

/// Checks the names of initiators as login does, and folds them, so that they are found there.
fn fold_initiators(names: &[String], fold: FoldName) -> Result<BTreeSet<String>, Problem> {
    let folded = names.iter().map(|name| fold(name));
    folded.collect::<Result<_, String>>().map_err(|text| bad_request(&text))
}

impl ConfigurationChange for Change {
    fn apply(&self, draft: &mut Draft, _: u64, view: &dyn View) -> Result<Applied, Problem> {
        match self {
            Self::CreateHost { name, initiators, chap } => {
                create_host(draft, name, initiators, chap.as_ref())
            }
            Self::ChangeHost { name, initiators, account } => {
                change_host(draft, name, initiators.as_ref(), account)
            }
            Self::DeleteHost(name) => delete_host(draft, name, view.rest().now),
            Self::SetGroup { name, hosts } => {
                let held = view.held();
                let rest = Rest { held: &held, ..view.rest() };
                put_group(&mut draft.array, name, hosts, &rest)
            }
            Self::DeleteGroup(name) => delete_group(&mut draft.array, name, view.rest().now),
        }
    }
}

fn create_host(
    draft: &mut Draft,
    name: &str,
    initiators: &BTreeSet<String>,
    chap: Option<&Chap>,
) -> Result<Applied, Problem> {
    let Draft { array, secrets } = draft;
    let chap_name = chap.map(|chap| chap.initiator.name.clone());
    let host = Host { initiators: initiators.clone(), chap_name, ..Host::default() };
    array.create_host(name, host).map_err(|error| refused(&error))?;
    // A host of this name that was deleted in a crash may have left its secret.
    secrets.hosts.remove(name);
    secrets.hosts.extend(chap.map(|chap| (name.to_owned(), chap.clone())));
    Ok(Applied::new(Touched::All, Answer::of(&describe_host(array, secrets, name))?))
}

fn change_host(
    draft: &mut Draft,
    name: &str,
    initiators: Option<&BTreeSet<String>>,
    account: &Account,
) -> Result<Applied, Problem> {
    let Draft { array, secrets } = draft;
    let mut host = host(array, name).map_err(|error| refused(&error))?.clone();
    if let Some(initiators) = initiators {
        host.initiators.clone_from(initiators);
    }
    match account {
        Account::Kept => {}
        Account::Deleted => {
            host.chap_name = None;
            secrets.hosts.remove(name);
        }
        Account::Set(chap) => {
            host.chap_name = Some(chap.initiator.name.clone());
            secrets.hosts.insert(name.to_owned(), chap.clone());
        }
    }
    array.change_host(name, host).map_err(|error| refused(&error))?;
    Ok(Applied::new(Touched::All, Answer::of(&describe_host(array, secrets, name))?))
}

fn delete_host(draft: &mut Draft, name: &str, now: u64) -> Result<Applied, Problem> {
    draft.array.delete_host(name, now).map_err(|error| refused(&error))?;
    draft.array.forget_tags(Tagged::Host(name));
    draft.secrets.hosts.remove(name);
    Ok(Applied::new(Touched::All, Answer::DONE))
}

/// Whoever was a member, and whoever is one now, may see other LUNs.
fn put_group(
    array: &mut Configuration,
    name: &str,
    hosts: &BTreeSet<String>,
    rest: &Rest<'_>,
) -> Result<Applied, Problem> {
    let mut touched = hosts.clone();
    touched.extend(array.host_groups.get(name).into_iter().flatten().cloned());
    array.set_host_group(name, hosts.clone(), rest).map_err(|error| refused(&error))?;
    Ok(Applied::new(Touched::Names(touched), Answer::of(&describe_group(array, name))?))
}

fn delete_group(array: &mut Configuration, name: &str, now: u64) -> Result<Applied, Problem> {
    let members = array.host_groups.get(name).cloned().unwrap_or_default();
    array.delete_host_group(name, now).map_err(|error| refused(&error))?;
    array.forget_tags(Tagged::Group(name));
    Ok(Applied::new(Touched::Names(members), Answer::DONE))
}

/// The host of that name.
///
/// # Errors
/// When there is none.
pub fn host<'a>(array: &'a Configuration, name: &str) -> Result<&'a Host, ArrayError> {
    let not_found = || ArrayError::NotFound { kind: "host", name: name.to_owned() };
    array.hosts.get(name).ok_or_else(not_found)
}

/// A host as administrators see it; one that is not there has no initiators.
pub fn describe_host(array: &Configuration, secrets: &Secrets, name: &str) -> api::Host {
    let host = array.hosts.get(name);
    let initiators = host.into_iter().flat_map(|host| host.initiators.iter().cloned());
    let chap = secrets.hosts.get(name);
    let (limits, share) = array.limits_of_host(name);
    api::Host {
        name: name.to_owned(),
        initiators: initiators.collect(),
        chap_user: host.and_then(|host| host.chap_name.clone()),
        mutual_chap: chap.is_some_and(|chap| chap.target.is_some()),
        primitives: primitives::describe(array.switches_off_of_host(name)),
        limits: rate_limits::describe(limits),
        share: share.get(),
        tags: array.tags(Tagged::Host(name)),
    }
}

/// A group of hosts as administrators see it.
pub fn describe_group(array: &Configuration, name: &str) -> Option<Group> {
    let hosts = array.host_groups.get(name)?;
    Some(Group {
        name: name.to_owned(),
        hosts: hosts.iter().cloned().collect(),
        tags: array.tags(Tagged::Group(name)),
    })
}

#[cfg(test)]
mod tests;
