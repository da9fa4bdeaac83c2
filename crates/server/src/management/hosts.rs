//! Routes of hosts and host groups, and of their CHAP accounts.

use std::collections::BTreeSet;
use std::sync::Arc;

use api::{ChangeHost, CreateHost, Discovery, Group, Problem, SetGroup};
use array::{ArrayError, Chap, Configuration, Credential, Host, Secret, Secrets, Tagged};

use super::problems::{bad_request, refused};
use super::{Management, Progress};
use crate::data_plane::DataPlane;

impl Management {
    pub(super) fn create_host(&mut self, request: CreateHost) -> Result<Progress, Problem> {
        let chap = request.chap.map(check_chap).transpose()?;
        let host = Host {
            initiators: fold_initiators(&request.initiators)?,
            chap_name: chap.as_ref().map(|chap| chap.initiator.name.clone()),
        };
        let name = request.name;
        let change = |configuration: &mut Configuration, secrets: &mut Secrets| {
            configuration.create_host(&name, host)?;
            // A host of this name that was deleted in a crash may have left its secret.
            secrets.hosts.remove(&name);
            secrets.hosts.extend(chap.map(|chap| (name.clone(), chap)));
            Ok(name)
        };
        self.change_with_secrets(change, |management, _, name| {
            Ok(Progress::answer(&management.describe_host(&name)))
        })
    }

    pub(super) fn change_host(
        &mut self,
        name: &str,
        request: ChangeHost,
    ) -> Result<Progress, Problem> {
        if request.no_chap && request.chap.is_some() {
            return Err(bad_request(&"a host has a CHAP account or none: choose one of the two"));
        }
        let chap = request.chap.map(check_chap).transpose()?;
        let initiators = request.initiators.as_deref().map(fold_initiators).transpose()?;
        let change = |configuration: &mut Configuration, secrets: &mut Secrets| {
            let not_found = || ArrayError::NotFound { kind: "host", name: name.to_owned() };
            let mut host = configuration.hosts.get(name).ok_or_else(not_found)?.clone();
            if let Some(initiators) = initiators {
                host.initiators = initiators;
            }
            if let Some(chap) = chap {
                host.chap_name = Some(chap.initiator.name.clone());
                secrets.hosts.insert(name.to_owned(), chap);
            } else if request.no_chap {
                host.chap_name = None;
                secrets.hosts.remove(name);
            }
            configuration.change_host(name, host)?;
            Ok(name.to_owned())
        };
        self.change_with_secrets(change, |management, _, name| {
            Ok(Progress::answer(&management.describe_host(&name)))
        })
    }

    pub(super) fn delete_host(&mut self, name: &str) -> Result<Progress, Problem> {
        let now = self.lun_rest.now();
        let change = |configuration: &mut Configuration, secrets: &mut Secrets| {
            configuration.delete_host(name, now)?;
            configuration.forget_tags(Tagged::Host(name));
            secrets.hosts.remove(name);
            Ok(())
        };
        self.change_with_secrets(change, |_, _, ()| Ok(Progress::done()))
    }

    pub(super) fn show_host(&self, name: &str) -> Result<api::Host, Problem> {
        if !self.configuration.hosts.contains_key(name) {
            let name = name.to_owned();
            return Err(refused(&ArrayError::NotFound { kind: "host", name }));
        }
        Ok(self.describe_host(name))
    }

    pub(super) fn show_group(&self, name: &str) -> Result<Group, Problem> {
        let missing = || refused(&ArrayError::NotFound { kind: "group", name: name.to_owned() });
        describe_group(&self.configuration, name).ok_or_else(missing)
    }

    /// Every group of hosts.
    pub(super) fn list_groups(&self) -> Progress {
        let configuration = Arc::clone(&self.configuration);
        Progress::later(move || -> Vec<Group> {
            let names = configuration.host_groups.keys();
            names.filter_map(|name| describe_group(&configuration, name)).collect()
        })
    }

    pub(super) fn set_group(
        &mut self,
        plane: &DataPlane,
        name: &str,
        request: SetGroup,
    ) -> Result<Progress, Problem> {
        let held = self.lun_rest.held(plane);
        let rest = self.lun_rest.rest(&held);
        let hosts = request.hosts.iter().cloned().collect();
        let group = name.to_owned();
        self.change(
            |configuration| configuration.set_host_group(name, hosts, &rest),
            move |management, _, ()| Ok(Progress::answer(&management.show_group(&group)?)),
        )
    }

    pub(super) fn delete_group(&mut self, name: &str) -> Result<Progress, Problem> {
        let now = self.lun_rest.now();
        self.change(
            |configuration| {
                configuration.delete_host_group(name, now)?;
                configuration.forget_tags(Tagged::Group(name));
                Ok(())
            },
            |_, _, ()| Ok(Progress::done()),
        )
    }

    pub(super) fn set_discovery_chap(&mut self, chap: api::Chap) -> Result<Progress, Problem> {
        let chap = check_chap(chap)?;
        let change = |configuration: &mut Configuration, secrets: &mut Secrets| {
            configuration.discovery_chap_name = Some(chap.initiator.name.clone());
            secrets.discovery = Some(chap);
            Ok(())
        };
        self.change_with_secrets(change, |management, _, ()| {
            Ok(Progress::answer(&management.describe_discovery()))
        })
    }

    pub(super) fn describe_discovery(&self) -> Discovery {
        let chap = self.secrets.discovery.as_ref();
        Discovery {
            chap_user: self.configuration.discovery_chap_name.clone(),
            mutual: chap.is_some_and(|chap| chap.target.is_some()),
        }
    }

    pub(super) fn delete_discovery_chap(&mut self) -> Result<Progress, Problem> {
        let change = |configuration: &mut Configuration, secrets: &mut Secrets| {
            configuration.discovery_chap_name = None;
            secrets.discovery = None;
            Ok(())
        };
        self.change_with_secrets(change, |_, _, ()| Ok(Progress::done()))
    }
}

/// Checks the names of initiators as login does, and folds them, so that they are found there.
pub(super) fn fold_initiators(names: &[String]) -> Result<BTreeSet<String>, Problem> {
    let folded = names.iter().map(|name| fold_initiator(name));
    folded.collect::<Result<_, String>>().map_err(|text| bad_request(&text))
}

/// One of them; else why it is none.
pub(super) fn fold_initiator(name: &str) -> Result<String, String> {
    iscsi::fold_name(name).map_err(|error| format!("'{}': {error}", name.escape_debug()))
}

/// Folds names that an earlier version saved as they were typed: who logs in is known by the folded
/// name.
pub(super) fn fold_saved_initiators(configuration: &mut Configuration) {
    let fold = |(name, host): (&String, &Host)| {
        let initiators = host.initiators.iter().map(|name| name.to_lowercase()).collect();
        (name.clone(), Host { initiators, ..host.clone() })
    };
    configuration.hosts = configuration.hosts.iter().map(fold).collect();
}

/// Checks names and secrets; no refusal repeats a secret.
pub(super) fn check_chap(chap: api::Chap) -> Result<Chap, Problem> {
    let credential = |name: String, secret: api::Secret| {
        let secret = Secret::new(secret.0).map_err(|error| refused(&error))?;
        Ok::<_, Problem>(Credential { name, secret })
    };
    let target = match (chap.mutual_user, chap.mutual_secret) {
        (Some(name), Some(secret)) => Some(credential(name, secret)?),
        (None, None) => None,
        _ => return Err(bad_request(&"mutual CHAP needs a name and a secret: give both")),
    };
    let chap = Chap { initiator: credential(chap.user, chap.secret)?, target };
    chap.check().map_err(|error| refused(&error))?;
    Ok(chap)
}

fn describe_group(configuration: &Configuration, name: &str) -> Option<Group> {
    let hosts = configuration.host_groups.get(name)?;
    Some(Group {
        name: name.to_owned(),
        hosts: hosts.iter().cloned().collect(),
        tags: configuration.tags(Tagged::Group(name)),
    })
}
