//! Hosts and host groups as they are shown, and the names of initiators as iSCSI folds them.

use std::sync::Arc;

use api::{Discovery, Group, Host, Problem};
use array::{ArrayError, Configuration};
use control::chap;
use control::hosts::{self, describe_group, describe_host};

use super::problems::refused;
use super::{Management, Progress};

impl Management {
    pub(super) fn show_host(&self, name: &str) -> Result<Host, Problem> {
        hosts::host(&self.configuration, name).map_err(|error| refused(&error))?;
        Ok(describe_host(&self.configuration, &self.secrets, name))
    }

    /// Every host.
    pub(super) fn list_hosts(&self) -> Progress {
        let (configuration, secrets) = (Arc::clone(&self.configuration), Arc::clone(&self.secrets));
        Progress::later(move || -> Vec<Host> {
            let names = configuration.hosts.keys();
            names.map(|name| describe_host(&configuration, &secrets, name)).collect()
        })
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

    pub(super) fn describe_discovery(&self) -> Discovery {
        chap::describe_discovery(&self.configuration, &self.secrets)
    }
}

/// Checks the name of an initiator as login does, and folds it, so that it is found there.
pub(super) fn fold_initiator(name: &str) -> Result<String, String> {
    iscsi::fold_name(name).map_err(|error| format!("'{}': {error}", name.escape_debug()))
}

/// Folds names that an earlier version saved as they were typed: who logs in is known by the folded
/// name.
pub(super) fn fold_saved_initiators(configuration: &mut Configuration) {
    let fold = |(name, host): (&String, &array::Host)| {
        let initiators = host.initiators.iter().map(|name| name.to_lowercase()).collect();
        (name.clone(), array::Host { initiators, ..host.clone() })
    };
    configuration.hosts = configuration.hosts.iter().map(fold).collect();
}
