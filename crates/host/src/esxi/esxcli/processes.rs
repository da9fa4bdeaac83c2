//! `esxcli vm process`: virtual machines that run on this host, from files that each keeps in the
//! host's folder while it does.

use anyhow::Result;

use super::output::{Layout, Output, Records, Value};
use super::words::Options;
use crate::esxi::state::Host;
use crate::esxi::vm;

pub(super) fn list(host: &mut Host, _: &Options) -> Result<Output> {
    let row = |world: vm::World| {
        let values = vec![
            world.id.into(),
            Value::Number(0),
            u64::from(world.process).into(),
            world.uuid.into(),
            world.name.clone().into(),
            world.config.into(),
        ];
        (world.name, values)
    };
    Ok(Output::Records(Records {
        kind: "VirtualMachine",
        layout: Layout::Blocks,
        title: None,
        heads: &["World ID", "Process ID", "VMX Cartel ID", "UUID", "Display Name", "Config File"],
        rows: vm::worlds(host)?.into_iter().map(row).collect(),
    }))
}
