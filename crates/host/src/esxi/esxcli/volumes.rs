//! `esxcli storage filesystem` and `esxcli storage vmfs`: datastores.

use std::ops::ControlFlow;

use anyhow::{Context, Result, ensure};

use super::output::{Layout, Output, Records, Value};
use super::words::Options;
use crate::esxi::state::Host;
use crate::esxi::vaai::Status;
use crate::esxi::{datastore, mover};

fn records(kind: &'static str, heads: &'static [&'static str], rows: Vec<Vec<Value>>) -> Output {
    let rows = rows.into_iter().map(|row| (String::new(), row)).collect();
    Output::Records(Records { kind, layout: Layout::Table, title: None, heads, rows })
}

/// A volume that cannot be mounted is listed without its space.
pub(super) fn filesystem_list(host: &mut Host, _: &Options) -> Result<Output> {
    let volumes = host.reachable().filter_map(|(_, _, mut lun)| vmfs::volume::probe(&mut lun).ok());
    let volumes: Vec<_> = volumes.collect();
    let mut rows = Vec::new();
    for found in volumes {
        let uuid = found.uuid.to_string();
        let space = match datastore::mount(host, &uuid) {
            Ok(mut store) => {
                let space = store.volume.space();
                store.finish(host)?;
                space.ok()
            }
            Err(_) => None,
        };
        rows.push(vec![
            format!("/vmfs/volumes/{uuid}").into(),
            terminal::printable(&found.label).into(),
            uuid.into(),
            space.is_some().into(),
            "VMFS-5".into(),
            space.map_or(0, |space| space.total_bytes).into(),
            space.map_or(0, |space| space.free_bytes).into(),
        ]);
    }
    let heads = &["Mount Point", "Volume Name", "UUID", "Mounted", "Type", "Size", "Free"];
    Ok(records("FileSystem", heads, rows))
}

pub(super) fn lockmode_list(host: &mut Host, _: &Options) -> Result<Output> {
    let mut rows = Vec::new();
    for (_, device, mut lun) in host.reachable() {
        let Ok(found) = vmfs::volume::probe(&mut lun) else { continue };
        let compatible = device.vaai.ats != Status::Unsupported;
        rows.push(vec![
            terminal::printable(&found.label).into(),
            found.uuid.to_string().into(),
            "VMFS-5".into(),
            if found.ats_only { "ATS" } else { "ATS+SCSI" }.into(),
            compatible.into(),
            if found.ats_only || !compatible { "None" } else { "Online" }.into(),
            if compatible { "" } else { "Device does not support ATS" }.into(),
        ]);
    }
    let heads = &[
        "Volume Name",
        "UUID",
        "Type",
        "Locking Mode",
        "ATS Compatible",
        "ATS Upgrade Modes",
        "ATS Incompatibility Reason",
    ];
    Ok(records("LockMode", heads, rows))
}

pub(super) fn extent_list(host: &mut Host, _: &Options) -> Result<Output> {
    let mut rows = Vec::new();
    for (_, _, mut lun) in host.reachable() {
        if let Ok(found) = vmfs::volume::probe(&mut lun) {
            for (number, disk) in (0..).zip(found.disks) {
                rows.push(vec![
                    terminal::printable(&found.label).into(),
                    found.uuid.to_string().into(),
                    Value::Number(number),
                    disk.into(),
                    Value::Number(1),
                ]);
            }
        }
    }
    let heads = &["Volume Name", "VMFS UUID", "Extent Number", "Device Name", "Partition"];
    Ok(records("VmfsExtent", heads, rows))
}

pub(super) fn unmap(host: &mut Host, options: &Options) -> Result<Output> {
    let name = options.get("volume-label").or(options.get("volume-uuid"));
    let name = name.context("Error: -l or -u is needed")?;
    let unit = options.number("reclaim-unit").unwrap_or(200);
    ensure!(unit > 0, "Error: --reclaim-unit is at least 1");
    let mut store = datastore::mount(host, name)?;
    let free = store.volume.space()?.free_bytes;
    let done = mover::reclaim(&mut store, [free, unit], &mut |_, _| ControlFlow::Continue(()));
    store.finish(host)?;
    done.map(|_| Output::Nothing)
}
