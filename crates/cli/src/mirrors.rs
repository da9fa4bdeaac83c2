//! Subcommands for members of mirrors and spares, and devices that leave.

use anyhow::{Context, Result, bail};
use api::{
    AttachMember, ControlDeparture, ControlResilver, DepartureAction, Pool, RemoveDevice,
    ResilverAction, SetSpares, TaskKind,
};
use reqwest::Method;

use crate::commands::Invocation;
use crate::pools::{
    DepartureArgument, PoolCommand, ResilverArgument, SpareCommand, absolute_device, pool_route,
};

impl Invocation {
    /// Commands about mirrors; others are none of them.
    pub(crate) fn mirrors(&self, command: &PoolCommand) -> Result<()> {
        match command {
            PoolCommand::Attach { name, device, mirror, size, witness } => {
                self.attach(name, device, *mirror, *size, *witness)
            }
            PoolCommand::Detach { name, device } => {
                let (pool, member) = self.member(name, device)?;
                self.delete(
                    &format!("{}/members/{member}", pool_route(&pool.name)?),
                    &format!("{device} has left pool {name}. It was not erased."),
                )
            }
            PoolCommand::Replace { name, old, new, size } => {
                let (pool, member) = self.member(name, old)?;
                let mirror = mirror_of(&pool, &member).context("no mirror has that device")?;
                let body = AttachMember {
                    mirror,
                    device: absolute_device(new)?,
                    size_bytes: *size,
                    replaces: Some(member),
                    witness: false,
                };
                let said =
                    format!("{new} has joined mirror {mirror} of pool {name} and is being filled.");
                self.join_mirror(name, &body, said)
            }
            PoolCommand::Return { name, device } => {
                let (_, member) = self.member(name, device)?;
                let route = format!("{}/members/{member}/return", pool_route(name)?);
                self.changed::<Pool>(Method::POST, &route, &serde_json::json!({}), |_| {
                    format!("{device} is a member of its mirror again.")
                })
            }
            PoolCommand::Resilver { name, action, device } => {
                let member = device.as_ref().map(|device| self.member(name, device)).transpose()?;
                let action = match action {
                    ResilverArgument::Pause => ResilverAction::Pause,
                    ResilverArgument::Resume => ResilverAction::Resume,
                    ResilverArgument::Cancel => ResilverAction::Cancel,
                };
                let body = ControlResilver { action, member: member.map(|(_, member)| member) };
                let route = format!("{}/resilver", pool_route(name)?);
                self.changed::<Pool>(Method::POST, &route, &body, |_| {
                    format!("Changed the resilvers of pool {name}.")
                })
            }
            PoolCommand::RemoveDevice { name, device, rate, until_gone } => {
                self.remove_device(name, *device, *rate, *until_gone)
            }
            PoolCommand::Departure { name, action, rate } => {
                let (action, said) = match action {
                    DepartureArgument::Pause => (DepartureAction::Pause, "rests"),
                    DepartureArgument::Resume => (DepartureAction::Resume, "goes on leaving"),
                    DepartureArgument::Cancel => (DepartureAction::Cancel, "stays"),
                };
                let body = ControlDeparture { action, rate_bytes: *rate };
                let route = format!("{}/departure", pool_route(name)?);
                self.changed::<Pool>(Method::POST, &route, &body, |_| {
                    format!("The device of pool {name} that was leaving {said}.")
                })
            }
            PoolCommand::Spare(command) => self.spare(command),
            _ => Ok(()),
        }
    }

    fn attach(
        &self,
        name: &str,
        device: &str,
        mirror: Option<usize>,
        size_bytes: Option<u64>,
        witness: bool,
    ) -> Result<()> {
        let pool: Pool = self.client.get(&pool_route(name)?)?;
        let count = if pool.mirrors.is_empty() { pool.devices.len() } else { pool.mirrors.len() };
        let mirror = match mirror {
            Some(mirror) => mirror,
            None if count == 1 => 0,
            None => bail!("the pool has {count} mirrors or devices: say which one by --mirror"),
        };
        let device_name = absolute_device(device)?;
        let body =
            AttachMember { mirror, device: device_name, size_bytes, replaces: None, witness };
        let said = if witness {
            format!("{device} is the witness of mirror {mirror} of pool {name}.")
        } else {
            format!("{device} has joined mirror {mirror} of pool {name} and is being filled.")
        };
        self.join_mirror(name, &body, said)
    }

    fn join_mirror(&self, name: &str, body: &AttachMember, said: String) -> Result<()> {
        let route = format!("{}/members", pool_route(name)?);
        self.changed::<Pool>(Method::POST, &route, body, |_| said)
    }

    fn remove_device(
        &self,
        name: &str,
        device: usize,
        rate_bytes: Option<u64>,
        until_gone: bool,
    ) -> Result<()> {
        let route = format!("{}/devices/{device}/remove", pool_route(name)?);
        let body = RemoveDevice { rate_bytes };
        if !until_gone {
            return self.changed::<Pool>(Method::POST, &route, &body, |_| {
                format!("Device {device} of pool {name} is leaving: see 'gantry pool show {name}'.")
            });
        }
        let _: Pool = self.client.send(Method::POST, &route, &body)?;
        self.wait_for_newest(TaskKind::RemoveDevice, &format!("device {name}/{device}"))
    }

    /// The pool, and the identity of the member that a name or identity means.
    fn member(&self, name: &str, device: &str) -> Result<(Pool, String)> {
        let pool: Pool = self.client.get(&pool_route(name)?)?;
        let wanted = absolute_device(device)?;
        let members = || pool.mirrors.iter().flat_map(|mirror| &mirror.members);
        let found = members().find(|member| {
            member.uuid == device || member.device.as_deref() == Some(wanted.as_str())
        });
        match found.map(|member| member.uuid.clone()) {
            Some(member) => Ok((pool, member)),
            None => bail!("no mirror of pool {name} has {device}: see 'gantry pool show {name}'"),
        }
    }

    fn spare(&self, command: &SpareCommand) -> Result<()> {
        let (SpareCommand::Add { name, device, .. } | SpareCommand::Remove { name, device }) =
            command;
        let pool: Pool = self.client.get(&pool_route(name)?)?;
        let wanted = absolute_device(device)?;
        let mut devices: Vec<String> =
            pool.spares.iter().filter(|spare| **spare != wanted).cloned().collect();
        let is_there = devices.len() < pool.spares.len();
        let (size_bytes, text) = match command {
            SpareCommand::Add { size, .. } => {
                devices.push(wanted);
                (*size, format!("{device} is a spare of pool {name}."))
            }
            SpareCommand::Remove { .. } if is_there => {
                (None, format!("{device} is no spare of pool {name} any more."))
            }
            SpareCommand::Remove { .. } => bail!("{device} is no spare of pool {name}"),
        };
        let route = format!("{}/spares", pool_route(name)?);
        let body = SetSpares { devices, size_bytes };
        self.changed::<Pool>(Method::PUT, &route, &body, |_| text)
    }
}

fn mirror_of(pool: &Pool, member: &str) -> Option<usize> {
    let has = |mirror: &&api::Mirror| mirror.members.iter().any(|one| one.uuid == member);
    pool.mirrors.iter().find(has).map(|mirror| mirror.index)
}
