//! Subcommands for hosts, groups, portals and discovery.

use anyhow::Result;
use api::{
    ChangeHost, CreateHost, CreatePortal, Discovery, Group, Host, Portal, SetGroup, SetPathState,
};
use reqwest::Method;

use crate::arguments::{DiscoveryCommand, GroupCommand, HostCommand, PortalCommand};
use crate::chap::read_chap;
use crate::commands::{Invocation, check_segment};
use crate::tables::{discovery_details, groups_table, hosts_table, portals_table};

impl Invocation {
    pub(crate) fn host(&self, command: &HostCommand) -> Result<()> {
        match command {
            HostCommand::Create { name, initiators, chap } => {
                let chap = read_chap(chap)?;
                let body = CreateHost { name: name.clone(), initiators: initiators.clone(), chap };
                self.changed::<Host>(Method::POST, "/v1/hosts", &body, |host| {
                    format!("Created host {}.", host.name)
                })
            }
            HostCommand::Primitives { name, primitives } => self.host_primitives(name, primitives),
            HostCommand::Limit { name, limits } => self.host_limit(name, *limits),
            HostCommand::Tag(arguments) => self.tag_host(arguments),
            HostCommand::List => {
                self.show(&self.client.get::<Vec<Host>>("/v1/hosts")?, |hosts| hosts_table(hosts))
            }
            HostCommand::Change { name, initiators, chap, no_chap } => {
                check_segment("host", name)?;
                let initiators = Some(initiators.clone()).filter(|names| !names.is_empty());
                let body = ChangeHost { initiators, chap: read_chap(chap)?, no_chap: *no_chap };
                let route = format!("/v1/hosts/{name}");
                self.changed::<Host>(Method::PATCH, &route, &body, |host| {
                    format!("Changed host {}.", host.name)
                })
            }
            HostCommand::Delete { name } => {
                check_segment("host", name)?;
                self.delete(&format!("/v1/hosts/{name}"), &format!("Deleted host {name}."))
            }
        }
    }

    pub(crate) fn group(&self, command: &GroupCommand) -> Result<()> {
        match command {
            GroupCommand::Set { name, hosts } => {
                check_segment("group", name)?;
                let body = SetGroup { hosts: hosts.clone() };
                let route = format!("/v1/groups/{name}");
                self.changed::<Group>(Method::PUT, &route, &body, |group| {
                    format!("Group {} has {} host(s).", group.name, group.hosts.len())
                })
            }
            GroupCommand::List => self
                .show(&self.client.get::<Vec<Group>>("/v1/groups")?, |groups| groups_table(groups)),
            GroupCommand::Tag(arguments) => self.tag_group(arguments),
            GroupCommand::Delete { name } => {
                check_segment("group", name)?;
                self.delete(&format!("/v1/groups/{name}"), &format!("Deleted group {name}."))
            }
        }
    }

    pub(crate) fn portal(&self, command: &PortalCommand) -> Result<()> {
        match command {
            PortalCommand::Create { address, group, redirect } => {
                let body = CreatePortal {
                    address: address.to_string(),
                    target_portal_group_tag: *group,
                    redirect: redirect.map(|address| address.to_string()),
                };
                self.changed::<Portal>(Method::POST, "/v1/portals", &body, |portal| {
                    let group = portal.target_portal_group_tag;
                    format!("Listening on {} in group {group}.", portal.address)
                })
            }
            PortalCommand::List => {
                let portals = self.client.get::<Vec<Portal>>("/v1/portals")?;
                self.show(&portals, |portals| portals_table(portals))
            }
            PortalCommand::State { group, state } => {
                let route = format!("/v1/portal-groups/{group}/state");
                let body = SetPathState { state: *state };
                self.changed::<SetPathState>(Method::PUT, &route, &body, |set| {
                    format!("Group {group} is {}.", set.state.name())
                })
            }
            PortalCommand::Delete { address } => {
                // Brackets have another meaning in a URL.
                let name = address.to_string().replace('[', "%5B").replace(']', "%5D");
                self.delete(
                    &format!("/v1/portals/{name}"),
                    &format!("No longer listening on {address}."),
                )
            }
        }
    }

    pub(crate) fn discovery(&self, command: &DiscoveryCommand) -> Result<()> {
        match command {
            DiscoveryCommand::Show => {
                let discovery: Discovery = self.client.get("/v1/discovery/chap")?;
                self.show(&discovery, discovery_details)
            }
            DiscoveryCommand::SetChap { chap } => {
                let Some(chap) = read_chap(chap)? else {
                    anyhow::bail!("--chap-user and --chap-secret-file are missing");
                };
                self.changed::<Discovery>(Method::PUT, "/v1/discovery/chap", &chap, |_| {
                    "Discovery wants CHAP from now on.".to_owned()
                })
            }
            DiscoveryCommand::NoChap => {
                self.delete("/v1/discovery/chap", "Discovery wants no proof from now on.")
            }
        }
    }
}
