//! `esxcfg-scsidevs`: the devices, adapters and volumes of a host in the lists that came before
//! `esxcli`.

use std::fmt::Write;

use anyhow::{Result, bail};

use crate::esxi::esxcli::{display_name, vml};
use crate::esxi::esxtop::ADAPTER;
use crate::esxi::lun::Lun;
use crate::esxi::state::{Device, Host};

/// The options that are understood, and what they do.
pub const OPTIONS: [(&str, &str); 6] = [
    ("-l", "the devices, in full"),
    ("-c", "the devices, a line each"),
    ("-u", "the devices and their other names"),
    ("-m", "the datastores and their partitions"),
    ("-a", "the adapters"),
    ("-A", "the adapters and their devices"),
];

/// Carries out `esxcfg-scsidevs OPTION`; returns what it prints.
///
/// # Errors
/// Unknown words, devices that do not answer.
pub fn run(host: &Host, words: &[String]) -> Result<String> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["-l" | "--list"] => devices(host, full),
        ["-c" | "--compact-list"] => {
            let head = compact_line([
                "Device UID",
                "Device Type",
                "Console Device",
                "Size",
                "Multipath Plugin",
                "Display Name",
            ]);
            Ok(head + &devices(host, compact)?)
        }
        ["-u" | "--uids"] => {
            let head = format!("{:<40} Other UIDs\n", "Primary UID");
            Ok(head + &devices(host, |name, _, lun| format!("{name:<40} {}\n", vml(lun)))?)
        }
        ["-m" | "--vmfs"] => volumes(host),
        ["-a" | "--hbas"] => Ok(adapter(host)),
        ["-A" | "--hba-device-list"] => {
            devices(host, |name, _, _| format!("{ADAPTER}     {name}\n"))
        }
        _ => {
            let options = OPTIONS.map(|(option, does)| format!("  {option}  {does}\n"));
            bail!("usage: esxcfg-scsidevs OPTION\n{}", options.concat().trim_end())
        }
    }
}

fn devices(host: &Host, print: fn(&str, &Device, &Lun) -> String) -> Result<String> {
    let mut out = String::new();
    for (name, device, lun) in host.reachable() {
        out += &print(name, device, &lun);
    }
    Ok(out)
}

fn compact_line([uid, kind, console, size, plugin, name]: [&str; 6]) -> String {
    format!("{uid:<28} {kind:<16} {console:<50} {size:<9} {plugin:<8}{name}\n")
}

fn compact(name: &str, _: &Device, lun: &Lun) -> String {
    let size = format!("{}MB", lun.identity.size_bytes >> 20);
    let console = format!("/vmfs/devices/disks/{name}");
    compact_line([name, "Direct-Access", &console, &size, "NMP", &display_name(name, lun)])
}

fn full(name: &str, device: &Device, lun: &Lun) -> String {
    let identity = &lun.identity;
    let mut out = String::new();
    let _ = writeln!(out, "{name}");
    for line in [
        "Device Type: Direct-Access".to_owned(),
        format!("Size: {} MB", identity.size_bytes >> 20),
        format!("Display Name: {}", display_name(name, lun)),
        "Multipath Plugin: NMP".to_owned(),
        format!("Console Device: /vmfs/devices/disks/{name}"),
        format!("Devfs Path: /vmfs/devices/disks/{name}"),
        format!(
            "Vendor: {:<8}  Model: {:<16}  Revis: {:<4}",
            identity.vendor, identity.product, identity.revision
        ),
        format!("SCSI Level: {}  Is Pseudo: false Status: on", identity.scsi_level),
        "Is RDM Capable: true  Is Removable: false".to_owned(),
        "Is Local: false  Is SSD: false".to_owned(),
        "Other Names:".to_owned(),
        format!("   {}", vml(lun)),
        format!("VAAI Status: {}", device.vaai.overall()),
    ] {
        let _ = writeln!(out, "   {line}");
    }
    out
}

fn volumes(host: &Host) -> Result<String> {
    let mut out = String::new();
    for (_, _, mut lun) in host.reachable() {
        if let Ok(found) = vmfs::volume::probe(&mut lun) {
            let (uuid, label) = (found.uuid, terminal::printable(&found.label));
            for (number, disk) in found.disks.iter().enumerate() {
                let partition = format!("{disk}:1");
                let path = format!("/vmfs/devices/disks/{partition}");
                let _ = writeln!(out, "{partition:<64} {path} {uuid}  {number}  {label}");
            }
        }
    }
    Ok(out)
}

fn adapter(host: &Host) -> String {
    if host.record.iscsi_is_off {
        return String::new();
    }
    let iqn = &host.record.iqn;
    format!("{ADAPTER:<8}{:<18}{:<10}{iqn:<40} iSCSI Software Adapter\n", "iscsi_vmk", "online")
}
