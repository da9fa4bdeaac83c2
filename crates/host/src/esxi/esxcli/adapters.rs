//! `esxcli iscsi` and `esxcli storage core adapter`: the software iSCSI adapter, discovery, sessions.

use std::collections::BTreeSet;

use anyhow::{Result, ensure};

use super::output::{Layout, Output, Records, Value};
use super::words::Options;
use crate::esxi::esxtop::ADAPTER;
use crate::esxi::state::{Host, Portal};
use crate::esxi::topology;

/// Portals that are asked for their targets at most.
const PORTALS_MAX: usize = 64;

const DRIVER: &str = "iscsi_vmk";
const DESCRIPTION: &str = "iSCSI Software Adapter";

fn records(
    kind: &'static str,
    heads: &'static [&'static str],
    rows: Vec<Vec<Value>>,
) -> Result<Output> {
    let rows = rows.into_iter().map(|row| (String::new(), row)).collect();
    Ok(Output::Records(Records { kind, layout: Layout::Table, title: None, heads, rows }))
}

/// Refuses the names of adapters that there are not.
fn check_adapter(host: &Host, options: &Options) -> Result<()> {
    if let Some(name) = options.get("adapter") {
        ensure!(name == ADAPTER && !host.record.iscsi_is_off, "Error: Adapter {name} not found");
    }
    Ok(())
}

pub(super) fn software_get(host: &mut Host, _: &Options) -> Result<Output> {
    Ok(Output::One((!host.record.iscsi_is_off).into()))
}

pub(super) fn software_set(host: &mut Host, options: &Options) -> Result<Output> {
    let is_on = options.truth("enabled").unwrap_or(true);
    host.change(|record| {
        record.iscsi_is_off = !is_on;
        if !is_on {
            record.devices.clear();
        }
        Ok(())
    })?;
    let word = if is_on { "Enabled" } else { "Disabled" };
    Ok(Output::One(format!("Software iSCSI {word}").into()))
}

fn adapters(host: &Host) -> impl Iterator<Item = &'static str> {
    (!host.record.iscsi_is_off).then_some(ADAPTER).into_iter()
}

pub(super) fn list(host: &mut Host, options: &Options) -> Result<Output> {
    check_adapter(host, options)?;
    let row = |name: &str| -> Vec<Value> {
        let uid = format!("iscsi.{name}");
        vec![name.into(), DRIVER.into(), "online".into(), uid.into(), DESCRIPTION.into()]
    };
    let heads = &["Adapter", "Driver", "State", "UID", "Description"];
    records("iScsiAdapter", heads, adapters(host).map(row).collect())
}

pub(super) fn core_list(host: &mut Host, _: &Options) -> Result<Output> {
    let row = |name: &str| -> Vec<Value> {
        let iqn = host.record.iqn.as_str();
        let can = "Second Level Lun ID";
        vec![
            name.into(),
            DRIVER.into(),
            "online".into(),
            iqn.into(),
            can.into(),
            DESCRIPTION.into(),
        ]
    };
    let heads = &["HBA Name", "Driver", "Link State", "UID", "Capabilities", "Description"];
    records("HBA", heads, adapters(host).map(row).collect())
}

pub(super) fn get(host: &mut Host, options: &Options) -> Result<Output> {
    check_adapter(host, options)?;
    let values = vec![
        host.record.iqn.as_str().into(),
        "".into(),
        "VMware".into(),
        DESCRIPTION.into(),
        DESCRIPTION.into(),
        "".into(),
        DRIVER.into(),
        true.into(),
        false.into(),
        false.into(),
        false.into(),
    ];
    Ok(Output::Records(Records {
        kind: "iScsiAdapter",
        layout: Layout::Blocks,
        title: Some("Adapter"),
        heads: &[
            "Name",
            "Alias",
            "Vendor",
            "Model",
            "Description",
            "Serial Number",
            "Driver Name",
            "Is Initiator",
            "Is Target",
            "Using TCP Offload Engine",
            "Using ISCSI Offload Engine",
        ],
        rows: vec![(ADAPTER.to_owned(), values)],
    }))
}

/// HOST:PORT, with iSCSI's port where none is given.
fn address(options: &Options) -> Result<String> {
    let text = options.need("address")?;
    let has_port = match text.rsplit_once(':') {
        Some((host, port)) => {
            port.parse::<u16>().is_ok() && (!host.contains(':') || host.ends_with(']'))
        }
        None => false,
    };
    ensure!(!text.is_empty() && !text.contains(['/', ' ', '@']), "Error: {text} is no address");
    Ok(if has_port { text.to_owned() } else { format!("{text}:3260") })
}

pub(super) fn sendtarget_add(host: &mut Host, options: &Options) -> Result<Output> {
    check_adapter(host, options)?;
    let address = address(options)?;
    host.change(|record| {
        let portals = &mut record.portals;
        ensure!(
            portals.iter().all(|one| one.address != address),
            "Error: {address} is there already"
        );
        ensure!(portals.len() < PORTALS_MAX, "Error: there are {PORTALS_MAX} addresses already");
        portals.push(Portal { address, ..Portal::default() });
        Ok(())
    })?;
    host.discover()?;
    Ok(Output::Nothing)
}

pub(super) fn sendtarget_remove(host: &mut Host, options: &Options) -> Result<Output> {
    check_adapter(host, options)?;
    let address = address(options)?;
    host.change(|record| {
        let before = record.portals.len();
        record.portals.retain(|one| one.address != address);
        ensure!(record.portals.len() < before, "Error: {address} is not there");
        Ok(())
    })?;
    Ok(Output::Nothing)
}

pub(super) fn sendtarget_list(host: &mut Host, options: &Options) -> Result<Output> {
    check_adapter(host, options)?;
    let row = |one: &Portal| vec![ADAPTER.into(), one.address.as_str().into()];
    let rows = host.record.portals.iter().map(row).collect();
    records("SendTarget", &["Adapter", "Sendtarget"], rows)
}

/// Targets that were named when paths were added.
pub(super) fn statictarget_list(host: &mut Host, options: &Options) -> Result<Output> {
    check_adapter(host, options)?;
    let paths = topology::paths(&host.record);
    let named = paths.iter().filter(|path| host.record.paths.contains(&path.url));
    let targets: BTreeSet<_> = named.map(|path| (&path.target, &path.portal)).collect();
    let row = |(target, portal): (&String, &String)| {
        vec![ADAPTER.into(), portal.as_str().into(), target.as_str().into()]
    };
    let rows = targets.into_iter().map(row).collect();
    records("StaticTarget", &["Adapter", "Target Address", "Target Name"], rows)
}

pub(super) fn rediscover(host: &mut Host, options: &Options) -> Result<Output> {
    check_adapter(host, options)?;
    host.discover()?;
    Ok(Output::Nothing)
}

pub(super) fn target_list(host: &mut Host, options: &Options) -> Result<Output> {
    check_adapter(host, options)?;
    let paths = topology::paths(&host.record);
    let targets: BTreeSet<_> = paths.iter().map(|path| &path.target).collect();
    let row = |target: &String| -> Vec<Value> {
        let of = paths.iter().filter(|path| path.target == *target);
        let named = of.clone().any(|path| host.record.paths.contains(&path.url));
        let portals = host.record.portals.iter();
        let asked =
            portals.clone().find(|one| of.clone().any(|path| one.found.contains(&path.url)));
        let error = match asked.map_or("", |portal| portal.last_error.as_str()) {
            "" => "No Error",
            error => error,
        };
        let method = if named { "STATIC" } else { "SENDTARGETS" };
        vec![ADAPTER.into(), target.as_str().into(), "".into(), method.into(), error.into()]
    };
    let rows = targets.into_iter().map(row).collect();
    records("Target", &["Adapter", "Target", "Alias", "Discovery Method", "Last Error"], rows)
}

/// A session for each target at each portal: as many as this host makes while it uses a device.
pub(super) fn session_list(host: &mut Host, options: &Options) -> Result<Output> {
    check_adapter(host, options)?;
    let mut seen = BTreeSet::new();
    let mut rows = Vec::new();
    for path in topology::paths(&host.record) {
        let isid = path.isid();
        let title = format!("{ADAPTER},{},{isid}", path.target);
        if seen.insert(title.clone()) {
            let method = if path.uses_chap { "chap" } else { "none" };
            let values = vec![
                ADAPTER.into(),
                path.target.into(),
                isid.into(),
                u64::from(path.tag).into(),
                method.into(),
                path.portal.into(),
            ];
            rows.push((title, values));
        }
    }
    Ok(Output::Records(Records {
        kind: "Session",
        layout: Layout::Blocks,
        title: None,
        heads: &[
            "Adapter",
            "Target",
            "ISID",
            "TargetPortalGroupTag",
            "AuthenticationMethod",
            "ConnectionAddress",
        ],
        rows,
    }))
}

/// Looks for devices, whatever the type of the rescan: what does not answer is not there any more.
pub(super) fn rescan(host: &mut Host, options: &Options) -> Result<Output> {
    check_adapter(host, options)?;
    let kind = options.get("type").unwrap_or("all");
    ensure!(
        ["add", "all", "delete", "update"].contains(&kind),
        "Error: Invalid type {kind}: add, all, delete or update"
    );
    for (_, lun) in host.rescan()? {
        host.finish(lun)?;
    }
    Ok(Output::Nothing)
}
