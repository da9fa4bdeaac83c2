//! `esxcli storage core device`, `storage core path` and `storage nmp`: devices and their paths.

use anyhow::{Context, Result, bail, ensure};

use super::output::{Layout, Output, Records, Value};
use super::words::Options;
use crate::esxi::lun::{Lun, PathState, parse_groups};
use crate::esxi::state::{Device, Host};
use crate::esxi::topology::{self, PathName};

/// The devices that are asked for, each connected.
fn for_devices<T>(
    host: &Host,
    options: &Options,
    print: &mut dyn FnMut(&str, &Device, &mut Lun) -> T,
) -> Result<Vec<T>> {
    if let Some(name) = options.get("device") {
        let device = host.record.devices.get(name);
        let device =
            device.with_context(|| format!("Unable to get device list: No such device {name}"))?;
        return Ok(vec![print(name, device, &mut host.look_at(name)?)]);
    }
    let each = host.visible();
    Ok(each.map(|(name, device, mut lun)| print(name, device, &mut lun)).collect())
}

fn blocks(
    kind: &'static str,
    title: Option<&'static str>,
    heads: &'static [&'static str],
    rows: Vec<(String, Vec<Value>)>,
) -> Output {
    Output::Records(Records { kind, layout: Layout::Blocks, title, heads, rows })
}

pub(super) fn vaai_status(host: &mut Host, options: &Options) -> Result<Output> {
    let rows = for_devices(host, options, &mut |name, device, lun| {
        let vaai = &device.vaai;
        let rule = lun.settings.claim_rule(&lun.identity.vendor, &lun.identity.product);
        let mut values: Vec<Value> = vec![rule.map_or("", |rule| rule.plugin.as_str()).into()];
        let all = [vaai.ats, vaai.clone, vaai.zero, vaai.delete];
        values.extend(all.iter().map(|status| status.to_string().into()));
        (name.to_owned(), values)
    })?;
    let heads = &["VAAI Plugin Name", "ATS Status", "Clone Status", "Zero Status", "Delete Status"];
    Ok(blocks("VAAIDeviceStatus", Some("Device"), heads, rows))
}

/// `vml.` name: 01, the address method's zeros, the serial number and the product's first six
/// letters as bytes.
pub(crate) fn vml(lun: &Lun) -> String {
    let product = format!("{:6.6}", lun.identity.product);
    let text = lun.identity.serial.bytes().chain(product.bytes());
    let hex: String = text.map(|byte| format!("{byte:02x}")).collect();
    format!("vml.0100000000{hex}")
}

/// A device's name for people.
pub(crate) fn display_name(name: &str, lun: &Lun) -> String {
    format!("{} iSCSI Disk ({name})", lun.identity.vendor)
}

fn device_values(name: &str, device: &Device, lun: &Lun, is_off: bool) -> Vec<Value> {
    let identity = &lun.identity;
    vec![
        display_name(name, lun).into(),
        true.into(),
        (identity.size_bytes >> 20).into(),
        "Direct-Access ".into(),
        "NMP".into(),
        format!("/vmfs/devices/disks/{name}").into(),
        format!("{:8}", identity.vendor).into(),
        format!("{:16}", identity.product).into(),
        format!("{:4}", identity.revision).into(),
        u64::from(identity.scsi_level).into(),
        false.into(),
        if is_off { "off" } else { "on" }.into(),
        true.into(),
        false.into(),
        false.into(),
        false.into(),
        false.into(),
        false.into(),
        false.into(),
        Value::Number(0),
        Value::Number(0),
        if identity.thin { "yes" } else { "unknown" }.into(),
        "".into(),
        device.vaai.overall().to_string().into(),
        vml(lun).into(),
        true.into(),
        false.into(),
        false.into(),
        false.into(),
        Value::Number(128),
        Value::Number(32),
        "unknown".into(),
        "unknown".into(),
        "unknown".into(),
        false.into(),
        false.into(),
        Value::Number(0),
        "NO PROTECTION".into(),
        "NO GUARD SUPPORT".into(),
        false.into(),
        "NO GUARD SUPPORT".into(),
        false.into(),
    ]
}

const DEVICE_HEADS: &[&str] = &[
    "Display Name",
    "Has Settable Display Name",
    "Size",
    "Device Type",
    "Multipath Plugin",
    "Devfs Path",
    "Vendor",
    "Model",
    "Revision",
    "SCSI Level",
    "Is Pseudo",
    "Status",
    "Is RDM Capable",
    "Is Local",
    "Is Removable",
    "Is SSD",
    "Is VVOL PE",
    "Is Offline",
    "Is Perennially Reserved",
    "Queue Full Sample Size",
    "Queue Full Threshold",
    "Thin Provisioning Status",
    "Attached Filters",
    "VAAI Status",
    "Other UIDs",
    "Is Shared Clusterwide",
    "Is SAS",
    "Is USB",
    "Is Boot Device",
    "Device Max Queue Depth",
    "No of outstanding IOs with competing worlds",
    "Drive Type",
    "RAID Level",
    "Number of Physical Drives",
    "Protection Enabled",
    "PI Activated",
    "PI Type",
    "PI Protection Mask",
    "Supported Guard Types",
    "DIX Enabled",
    "DIX Guard Type",
    "Emulated DIX/DIF Enabled",
];

pub(super) fn list(host: &mut Host, options: &Options) -> Result<Output> {
    let rows = for_devices(host, options, &mut |name, device, lun| {
        let is_off = host.record.detached.contains(name);
        (name.to_owned(), device_values(name, device, lun, is_off))
    })?;
    Ok(blocks("SCSIDevice", Some("Device"), DEVICE_HEADS, rows))
}

/// Turns a device on or off: one that is off is not used, and stays off over rescans.
pub(super) fn set(host: &mut Host, options: &Options) -> Result<Output> {
    let device = options.need("device")?.to_owned();
    let is_off = match options.need("state")? {
        "off" => true,
        "on" => false,
        other => bail!("Error: Invalid state {other}: on or off"),
    };
    ensure!(host.record.devices.contains_key(&device), "Error: No such device {device}");
    host.change(|record| {
        if is_off {
            record.detached.insert(device)
        } else {
            record.detached.remove(&device)
        };
        Ok(())
    })?;
    Ok(Output::Nothing)
}

/// Lists the devices that are off, also those that no path leads to any more.
pub(super) fn detached_list(host: &mut Host, _: &Options) -> Result<Output> {
    let row = |name: &String| (String::new(), vec![name.as_str().into(), "off".into()]);
    Ok(Output::Records(Records {
        kind: "DetachedDevice",
        layout: Layout::Table,
        title: None,
        heads: &["Device UID", "State"],
        rows: host.record.detached.iter().map(row).collect(),
    }))
}

/// Forgets that a device is off.
pub(super) fn detached_remove(host: &mut Host, options: &Options) -> Result<Output> {
    let device = options.need("device")?;
    host.change(|record| {
        ensure!(record.detached.remove(device), "Error: {device} is not in the detached list");
        Ok(())
    })?;
    Ok(Output::Nothing)
}

pub(super) fn capacity_list(host: &mut Host, options: &Options) -> Result<Output> {
    let rows = for_devices(host, options, &mut |name, _, lun| {
        let identity = &lun.identity;
        let physical = 512_u64 << identity.physical_exponent;
        let values = vec![
            name.into(),
            physical.into(),
            Value::Number(512),
            (identity.size_bytes / 512).into(),
            Value::Mebibytes(identity.size_bytes),
            if physical == 512 { "512n" } else { "512e" }.into(),
        ];
        (String::new(), values)
    })?;
    Ok(Output::Records(Records {
        kind: "DeviceCapacity",
        layout: Layout::Table,
        title: None,
        heads: &[
            "Device",
            "Physical Blocksize",
            "Logical Blocksize",
            "Logical Block Count",
            "Size",
            "Format Type",
        ],
        rows,
    }))
}

/// The paths of a device by name, and what each is good for.
pub(crate) fn paths_of(names: &[PathName], lun: &Lun) -> Vec<(PathName, PathState)> {
    let named = |(url, state): (&str, PathState)| {
        let name = names.iter().find(|name| name.url == url)?;
        Some((name.clone(), state))
    };
    lun.paths().filter_map(named).collect()
}

pub(super) fn path_list(host: &mut Host, options: &Options) -> Result<Output> {
    let names = topology::paths(&host.record);
    let wanted = options.get("path");
    let found = for_devices(host, options, &mut |device, _, lun| {
        let row = |(path, state): (PathName, PathState)| {
            let uid = path.uid(host, device);
            let is_wanted = wanted.is_none_or(|name| name == uid || name == path.runtime());
            is_wanted.then(|| path_values(host, (device, lun), &path, &uid, state))
        };
        paths_of(&names, lun).into_iter().filter_map(row).collect::<Vec<_>>()
    })?;
    let rows: Vec<_> = found.into_iter().flatten().collect();
    ensure!(wanted.is_none() || !rows.is_empty(), "Unable to get path list: No such path");
    let heads = &[
        "UID",
        "Runtime Name",
        "Device",
        "Device Display Name",
        "Adapter",
        "Channel",
        "Target",
        "LUN",
        "Plugin",
        "State",
        "Transport",
        "Adapter Identifier",
        "Target Identifier",
        "Adapter Transport Details",
        "Target Transport Details",
        "Maximum IO Size",
    ];
    Ok(blocks("SCSIPath", None, heads, rows))
}

fn path_values(
    host: &Host,
    (device, lun): (&str, &Lun),
    path: &PathName,
    uid: &str,
    state: PathState,
) -> (String, Vec<Value>) {
    let iqn = host.record.iqn.as_str();
    let details =
        format!("IQN={} Alias= Session={} PortalTag={}", path.target, path.isid(), path.tag);
    let values = vec![
        uid.into(),
        path.runtime().into(),
        device.into(),
        display_name(device, lun).into(),
        crate::esxi::esxtop::ADAPTER.into(),
        (path.channel as u64).into(),
        (path.number as u64).into(),
        path.lun.into(),
        "NMP".into(),
        state.word().into(),
        "iscsi".into(),
        iqn.into(),
        path.target_identifier().into(),
        iqn.into(),
        details.into(),
        Value::Number(131_072),
    ];
    (uid.to_owned(), values)
}

/// How the array is handled: its type, and what that says of the device.
pub(crate) fn array_type(lun: &mut Lun) -> (&'static str, String) {
    if lun.identity.tpgs == 0 {
        return ("VMW_SATP_DEFAULT_AA", "{action_OnRetryErrors=off}".to_owned());
    }
    let on = |bit: u8| if lun.identity.tpgs & bit != 0 { "on" } else { "off" };
    let support = format!(
        "implicit_support={}; explicit_support={}; explicit_allow=on; alua_followover=on; \
         action_OnRetryErrors=off;",
        on(1),
        on(2)
    );
    let groups = lun.target_port_groups().map(|answer| parse_groups(&answer)).unwrap_or_default();
    let groups: String = groups
        .iter()
        .map(|(id, state)| format!("{{TPG_id={id},TPG_state={}}}", state.word()))
        .collect();
    ("VMW_SATP_ALUA", format!("{{{support} {groups}}}"))
}

pub(super) fn nmp_list(host: &mut Host, options: &Options) -> Result<Output> {
    let names = topology::paths(&host.record);
    let iops = host.record.settings.round_robin_iops;
    let rows = for_devices(host, options, &mut |name, _, lun| {
        let (satp, satp_config) = array_type(lun);
        let policy = if iops == 1000 { "rr" } else { "iops" };
        let config = format!(
            "{{policy={policy},iops={iops},bytes=10485760,useANO=0; lastPathIndex=0: \
             NumIOsPending=0,numBytesPending=0}}"
        );
        let active = paths_of(&names, lun).into_iter();
        let active = active.filter(|(_, state)| *state == PathState::Active);
        let working = active.map(|(path, _)| path.runtime()).collect();
        let values = vec![
            display_name(name, lun).into(),
            satp.into(),
            satp_config.into(),
            "VMW_PSP_RR".into(),
            config.into(),
            "".into(),
            Value::List(working),
            false.into(),
        ];
        (name.to_owned(), values)
    })?;
    let heads = &[
        "Device Display Name",
        "Storage Array Type",
        "Storage Array Type Device Config",
        "Path Selection Policy",
        "Path Selection Policy Device Config",
        "Path Selection Policy Device Custom Config",
        "Working Paths",
        "Is USB",
    ];
    Ok(blocks("NMPDevice", Some("Device"), heads, rows))
}

pub(super) fn round_robin_get(host: &mut Host, options: &Options) -> Result<Output> {
    let device = options.need("device")?;
    ensure!(host.record.devices.contains_key(device), "Error: No such device {device}");
    let iops = host.record.settings.round_robin_iops;
    let values = vec![
        Value::Number(10_485_760),
        device.into(),
        iops.into(),
        if iops == 1000 { "Default" } else { "Iops" }.into(),
        false.into(),
    ];
    let heads = &[
        "Byte Limit",
        "Device",
        "IOOperation Limit",
        "Limit Type",
        "Use Active Unoptimized Paths",
    ];
    Ok(blocks("RoundRobinDeviceConfig", None, heads, vec![(String::new(), values)]))
}

pub(super) fn round_robin_set(host: &mut Host, options: &Options) -> Result<Output> {
    ensure!(options.get("type").is_none_or(|kind| kind == "iops"), "Error: --type must be iops");
    let iops = options.number("iops").context("Error: Missing required parameter -I|--iops")?;
    ensure!(iops > 0, "Error: --iops is at least 1");
    host.change(|record| {
        record.settings.round_robin_iops = iops;
        Ok(())
    })?;
    Ok(Output::Nothing)
}
