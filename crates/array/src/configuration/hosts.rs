//! Hosts and host groups: which initiator names belong to which host.

use std::collections::BTreeSet;

use block::SwitchesOff;
use serde::{Deserialize, Serialize};

use super::Configuration;
use super::lun_maps::Rest;
use super::rate_limits::{RateLimits, Share};
use crate::limits::{HOST_GROUPS_MAX, HOSTS_MAX, INITIATORS_PER_HOST_MAX};
use crate::{ANY_HOST, ArrayError, check_name};

/// One or several initiators that see the same LUNs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Host {
    /// iSCSI names.
    pub initiators: BTreeSet<String>,
    /// The name by which its initiators log in with CHAP; its secret lies elsewhere. While this is
    /// set nobody gets in without the secret, even if the secret was lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chap_name: Option<String>,
    /// Primitives that are off for it, on every volume.
    #[serde(
        default,
        with = "super::switches::names",
        skip_serializing_if = "SwitchesOff::is_empty"
    )]
    pub switches_off: SwitchesOff,
    /// How much work it gets done.
    #[serde(default, skip_serializing_if = "RateLimits::is_default")]
    pub limits: RateLimits,
    /// What it gets of pools for which other hosts wait, too.
    #[serde(default, skip_serializing_if = "Share::is_default")]
    pub share: Share,
}

impl Configuration {
    /// Adds a host.
    pub fn create_host(&mut self, name: &str, host: Host) -> Result<(), ArrayError> {
        self.check_new_name("host", name)?;
        if self.hosts.len() >= HOSTS_MAX {
            return Err(ArrayError::TooMany { kind: "hosts", max: HOSTS_MAX });
        }
        if host.initiators.len() > INITIATORS_PER_HOST_MAX {
            return Err(ArrayError::TooMany { kind: "initiators", max: INITIATORS_PER_HOST_MAX });
        }
        host.limits.check()?;
        host.initiators.iter().try_for_each(|initiator| self.check_new_initiator(initiator))?;
        self.hosts.insert(name.to_owned(), host);
        Ok(())
    }

    /// Replaces a host's initiators and CHAP name; its maps stay.
    pub fn change_host(&mut self, name: &str, host: Host) -> Result<(), ArrayError> {
        self.check_host(name)?;
        let before = self.hosts.remove(name);
        let changed = self.create_host(name, host);
        if changed.is_err() {
            self.hosts.extend(before.map(|host| (name.to_owned(), host)));
        }
        changed
    }

    /// Removes a host that no volume is mapped to and that is in no group. `now` is the time as in
    /// [`Rest`].
    pub fn delete_host(&mut self, name: &str, now: u64) -> Result<(), ArrayError> {
        self.check_host(name)?;
        let group = self.host_groups.iter().find(|(_, hosts)| hosts.contains(name));
        if let Some((group, _)) = group {
            return Err(ArrayError::HostInGroup { host: name.to_owned(), group: group.clone() });
        }
        self.check_no_maps(name)?;
        self.forget_name(name, now);
        self.hosts.remove(name);
        Ok(())
    }

    /// Adds a group of hosts, or replaces its members. Who joins must be able to see what the group
    /// sees by the group's numbers.
    pub fn set_host_group(
        &mut self,
        name: &str,
        hosts: BTreeSet<String>,
        rest: &Rest<'_>,
    ) -> Result<(), ArrayError> {
        if !self.host_groups.contains_key(name) {
            self.check_new_name("group", name)?;
            if self.host_groups.len() >= HOST_GROUPS_MAX {
                return Err(ArrayError::TooMany { kind: "host groups", max: HOST_GROUPS_MAX });
            }
        }
        hosts.iter().try_for_each(|host| self.check_host(host))?;
        self.check_joining(name, &hosts, rest)?;
        self.leave_group(name, &hosts, rest.now);
        self.host_groups.insert(name.to_owned(), hosts);
        Ok(())
    }

    /// Removes a group that no volume is mapped to. `now` is the time as in [`Rest`].
    pub fn delete_host_group(&mut self, name: &str, now: u64) -> Result<(), ArrayError> {
        if !self.host_groups.contains_key(name) {
            return Err(ArrayError::NotFound { kind: "group", name: name.to_owned() });
        }
        self.check_no_maps(name)?;
        self.forget_name(name, now);
        self.host_groups.remove(name);
        Ok(())
    }

    /// The host that an initiator belongs to.
    pub fn host_of(&self, initiator: &str) -> Option<&str> {
        let owns = |host: &Host| host.initiators.contains(initiator);
        self.hosts.iter().find(|(_, host)| owns(host)).map(|(name, _)| name.as_str())
    }

    pub(super) fn check_host(&self, name: &str) -> Result<(), ArrayError> {
        if self.hosts.contains_key(name) {
            Ok(())
        } else {
            Err(ArrayError::NotFound { kind: "host", name: name.to_owned() })
        }
    }

    fn check_new_name(&self, kind: &'static str, name: &str) -> Result<(), ArrayError> {
        check_name(name)?;
        let is_taken = name == ANY_HOST
            || self.hosts.contains_key(name)
            || self.host_groups.contains_key(name);
        if is_taken { Err(ArrayError::NameTaken { kind, name: name.to_owned() }) } else { Ok(()) }
    }

    fn check_no_maps(&self, name: &str) -> Result<(), ArrayError> {
        if self.has_maps(name) { Err(ArrayError::HostInUse(name.to_owned())) } else { Ok(()) }
    }

    fn check_new_initiator(&self, initiator: &str) -> Result<(), ArrayError> {
        // RFC 7143 4.2.7.1: a type designator and at most 223 bytes.
        let known_type = ["iqn.", "eui.", "naa."].iter().any(|t| initiator.starts_with(t));
        if !known_type || initiator.len() > 223 || initiator.contains(char::is_whitespace) {
            return Err(ArrayError::InvalidInitiatorName(initiator.to_owned()));
        }
        match self.host_of(initiator) {
            Some(host) => Err(ArrayError::InitiatorTaken {
                initiator: initiator.to_owned(),
                host: host.to_owned(),
            }),
            None => Ok(()),
        }
    }
}
