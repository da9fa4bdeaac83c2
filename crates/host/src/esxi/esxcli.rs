//! Subcommands of `esxcli` and `esxcfg-advcfg`, with ESXi's output.

mod claimrule;

use std::fmt::Write;

use anyhow::{Context, Result, bail, ensure};

use crate::esxi::datastore;
use crate::esxi::lun::Lun;
use crate::esxi::mover;
use crate::esxi::settings::{ADVANCED, Advanced, Settings};
use crate::esxi::state::{Device, Host};
use crate::esxi::vaai::Status;

/// The subcommands that are understood, and what they do.
pub const SUBCOMMANDS: [(&str, &str); 16] = [
    ("system settings advanced list [-o PATH] [-d]", "the settings; with -d only changed ones"),
    (
        "system settings advanced set -o PATH -i N",
        "changes one; with -d instead of -i to its default",
    ),
    (
        "storage core adapter rescan",
        "looks for devices; what is believed of their offloads is forgotten",
    ),
    ("storage core device list [-d DEVICE]", "the devices"),
    ("storage core device capacity list [-d DEVICE]", "their sizes and formats"),
    ("storage core device vaai status get [-d DEVICE]", "what is believed of their offloads"),
    ("storage core path list [-d DEVICE]", "the paths, active or dead"),
    ("storage core claimrule list -c VAAI", "claim rules, loaded (runtime) and saved (file)"),
    (
        "storage core claimrule add -c VAAI -r N -t vendor -V VENDOR -M MODEL -P PLUGIN [-a] [-s] [-m MIB] [-k KIB]",
        "saves a rule: how XCOPY is cut for an array",
    ),
    ("storage core claimrule remove -c VAAI -r N", "forgets one"),
    ("storage core claimrule load -c VAAI", "makes the saved rules count"),
    (
        "storage nmp psp roundrobin deviceconfig set -t iops -I N -d DEVICE",
        "commands on a path before the next one; for all devices of the host",
    ),
    ("storage vmfs lockmode list", "how datastores lock"),
    ("storage vmfs extent list", "which device a datastore is on"),
    (
        "storage vmfs unmap -l LABEL [-n BLOCKS]",
        "gives free blocks back to the array, so many at a time",
    ),
    ("storage vmfs unmap -u UUID [-n BLOCKS]", "likewise"),
];

/// Options after the subcommand: `-o X`, `--option X`, `--option=X`.
struct Options<'a>(Vec<(&'a str, Option<&'a str>)>);

impl<'a> Options<'a> {
    fn parse(words: &'a [String], switches: &[&str]) -> Result<Self> {
        let mut options = Vec::new();
        let mut words = words.iter().map(String::as_str);
        while let Some(word) = words.next() {
            ensure!(word.starts_with('-'), "Error: Unknown command or argument {word}");
            match word.split_once('=') {
                Some((name, value)) => options.push((name, Some(value))),
                None if switches.contains(&word) => options.push((word, None)),
                None => {
                    let value = words.next();
                    options.push((word, Some(value.with_context(|| format!("{word}: no value"))?)));
                }
            }
        }
        Ok(Self(options))
    }

    fn get(&self, names: [&str; 2]) -> Option<&'a str> {
        self.0.iter().find(|(name, _)| names.contains(name)).and_then(|(_, value)| *value)
    }

    fn has(&self, names: [&str; 2]) -> bool {
        self.0.iter().any(|(name, _)| names.contains(name))
    }

    fn only(&self, known: &[&str]) -> Result<()> {
        for (name, _) in &self.0 {
            ensure!(known.contains(name), "Error: Invalid option {name}");
        }
        Ok(())
    }
}

fn number(text: Option<&str>, name: &str) -> Result<u64> {
    let text = text.with_context(|| format!("Error: Missing required parameter {name}"))?;
    text.parse().with_context(|| format!("Error: {name} {text} is not a number"))
}

/// Carries out `esxcli SUBCOMMAND`; returns what it prints.
///
/// # Errors
/// Unknown words, values that are not allowed, devices that do not answer.
pub fn run(host: &mut Host, words: &[String]) -> Result<String> {
    let count = words.iter().take_while(|word| !word.starts_with('-')).count();
    let (command, rest) = words.split_at(count);
    let command = command.join(" ");
    match command.as_str() {
        "system settings advanced list" => list_settings(host, rest),
        "system settings advanced set" => set_setting(host, rest),
        "storage core adapter rescan" => rescan(host),
        "storage core device list" => for_devices(host, rest, device_list),
        "storage core device capacity list" => capacity_list(host, rest),
        "storage core device vaai status get" => for_devices(host, rest, vaai_status),
        "storage core path list" => for_devices(host, rest, path_list),
        "storage core claimrule list" => claimrule::list(host, rest),
        "storage core claimrule add" => claimrule::add(host, rest),
        "storage core claimrule remove" => claimrule::remove(host, rest),
        "storage core claimrule load" => claimrule::load(host, rest),
        "storage nmp psp roundrobin deviceconfig set" => round_robin(host, rest),
        "storage vmfs lockmode list" => lockmode_list(host),
        "storage vmfs extent list" => extent_list(host),
        "storage vmfs unmap" => unmap(host, rest),
        _ => bail!("Error: Unknown command or namespace {command}"),
    }
}

fn list_settings(host: &Host, rest: &[String]) -> Result<String> {
    let options = Options::parse(rest, &["-d", "--delta"])?;
    options.only(&["-o", "--option", "-d", "--delta"])?;
    let settings = &host.record.settings;
    let changed = |setting: &&Advanced| {
        !options.has(["-d", "--delta"]) || setting.get(settings) != setting.default
    };
    let chosen: Vec<&Advanced> = match options.get(["-o", "--option"]) {
        Some(path) => vec![find_setting(path)?],
        None => ADVANCED.iter().collect(),
    };
    let texts = chosen.into_iter().filter(changed).map(|setting| describe(setting, settings));
    Ok(texts.collect::<Vec<_>>().join("\n"))
}

fn find_setting(path: &str) -> Result<&'static Advanced> {
    Advanced::find(path).with_context(|| format!("Unable to find option {path}"))
}

fn describe(setting: &Advanced, settings: &Settings) -> String {
    format!(
        "   Path: {}\n   Type: integer\n   Int Value: {}\n   Default Int Value: {}\n   \
         Min Value: {}\n   Max Value: {}\n   String Value: \n   Default String Value: \n   \
         Valid Characters: \n   Description: {}\n",
        setting.path,
        setting.get(settings),
        setting.default,
        setting.min,
        setting.max,
        setting.description,
    )
}

fn set_setting(host: &mut Host, rest: &[String]) -> Result<String> {
    let options = Options::parse(rest, &["-d", "--default"])?;
    options.only(&["-o", "--option", "-i", "--int-value", "-d", "--default"])?;
    let path = options.get(["-o", "--option"]).context("Error: Missing required parameter -o")?;
    let setting = find_setting(path)?;
    let value = if options.has(["-d", "--default"]) {
        setting.default
    } else {
        number(options.get(["-i", "--int-value"]), "-i|--int-value")?
    };
    change_setting(host, setting, value)?;
    Ok(String::new())
}

fn change_setting(host: &mut Host, setting: &Advanced, value: u64) -> Result<()> {
    host.change(|record| {
        let done = setting.set(&mut record.settings, value);
        ensure!(
            done,
            "Unable to set {}: {value} is not between {} and {}",
            setting.path,
            setting.min,
            setting.max
        );
        Ok(())
    })
}

/// Carries out `esxcfg-advcfg -g PATH` and `-s VALUE PATH`.
///
/// # Errors
/// Unknown words and paths, values that are not allowed.
pub fn advcfg(host: &mut Host, words: &[String]) -> Result<String> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let setting = match words[..] {
        ["-g" | "--get", path] => find_setting(path)?,
        ["-s" | "--set", value, path] => {
            let setting = find_setting(path)?;
            change_setting(host, setting, number(Some(value), "value")?)?;
            setting
        }
        _ => bail!("usage: esxcfg-advcfg -g PATH | -s VALUE PATH"),
    };
    Ok(format!("Value of {} is {}\n", setting.name(), setting.get(&host.record.settings)))
}

fn rescan(host: &mut Host) -> Result<String> {
    for (_, lun) in host.rescan()? {
        host.finish(lun)?;
    }
    Ok(String::new())
}

fn for_devices(
    host: &mut Host,
    rest: &[String],
    print: fn(&str, &Device, &Lun) -> String,
) -> Result<String> {
    let options = Options::parse(rest, &[])?;
    options.only(&["-d", "--device"])?;
    let wanted = options.get(["-d", "--device"]);
    if let Some(name) = wanted {
        ensure!(
            host.record.devices.contains_key(name),
            "Unable to get device list: No such device {name}"
        );
    }
    let mut texts = Vec::new();
    for (name, device) in &host.record.devices {
        if wanted.is_none_or(|wanted| wanted == name) {
            texts.push(print(name, device, &host.lun(name)?));
        }
    }
    Ok(texts.join("\n"))
}

fn vaai_status(name: &str, device: &Device, lun: &Lun) -> String {
    let vaai = &device.vaai;
    let rule = lun.settings.claim_rule(&lun.identity.vendor, &lun.identity.product);
    let plugin = rule.map_or("", |rule| rule.plugin.as_str());
    format!(
        "{name}\n   VAAI Plugin Name: {plugin}\n   ATS Status: {}\n   Clone Status: {}\n   \
         Zero Status: {}\n   Delete Status: {}\n",
        vaai.ats, vaai.clone, vaai.zero, vaai.delete
    )
}

/// `vml.` name: 01, the address method's zeros, the serial number and the product's first six
/// letters as bytes.
fn vml(lun: &Lun) -> String {
    let product = format!("{:6.6}", lun.identity.product);
    let text = lun.identity.serial.bytes().chain(product.bytes());
    let hex: String = text.map(|byte| format!("{byte:02x}")).collect();
    format!("vml.0100000000{hex}")
}

fn device_list(name: &str, device: &Device, lun: &Lun) -> String {
    let identity = &lun.identity;
    let fields = [
        ("Display Name", format!("{} iSCSI Disk ({name})", identity.vendor)),
        ("Has Settable Display Name", "true".into()),
        ("Size", (identity.size_bytes >> 20).to_string()),
        ("Device Type", "Direct-Access ".into()),
        ("Multipath Plugin", "NMP".into()),
        ("Devfs Path", format!("/vmfs/devices/disks/{name}")),
        ("Vendor", format!("{:8}", identity.vendor)),
        ("Model", format!("{:16}", identity.product)),
        ("Revision", format!("{:4}", identity.revision)),
        ("SCSI Level", identity.scsi_level.to_string()),
        ("Is Pseudo", "false".into()),
        ("Status", "on".into()),
        ("Is RDM Capable", "true".into()),
        ("Is Local", "false".into()),
        ("Is Removable", "false".into()),
        ("Is SSD", "false".into()),
        ("Is VVOL PE", "false".into()),
        ("Is Offline", "false".into()),
        ("Is Perennially Reserved", "false".into()),
        ("Queue Full Sample Size", "0".into()),
        ("Queue Full Threshold", "0".into()),
        ("Thin Provisioning Status", if identity.thin { "yes" } else { "unknown" }.into()),
        ("Attached Filters", String::new()),
        ("VAAI Status", device.vaai.overall().to_string()),
        ("Other UIDs", vml(lun)),
        ("Is Shared Clusterwide", "true".into()),
        ("Is SAS", "false".into()),
        ("Is USB", "false".into()),
        ("Is Boot Device", "false".into()),
        ("Device Max Queue Depth", "128".into()),
        ("No of outstanding IOs with competing worlds", "32".into()),
        ("Drive Type", "unknown".into()),
        ("RAID Level", "unknown".into()),
        ("Number of Physical Drives", "unknown".into()),
        ("Protection Enabled", "false".into()),
        ("PI Activated", "false".into()),
        ("PI Type", "0".into()),
        ("PI Protection Mask", "NO PROTECTION".into()),
        ("Supported Guard Types", "NO GUARD SUPPORT".into()),
        ("DIX Enabled", "false".into()),
        ("DIX Guard Type", "NO GUARD SUPPORT".into()),
        ("Emulated DIX/DIF Enabled", "false".into()),
    ];
    let mut text = format!("{name}\n");
    for (field, value) in fields {
        let _ = writeln!(text, "   {field}: {value}");
    }
    text
}

fn path_list(name: &str, _: &Device, lun: &Lun) -> String {
    let path = |(url, active): (&str, bool)| {
        let state = if active { "active" } else { "dead" };
        format!("{url}\n   Device: {name}\n   State: {state}\n   Transport: iscsi\n")
    };
    lun.paths().map(path).collect::<Vec<_>>().join("\n")
}

/// Whether esxcli puts a cell at the right of its column: numbers, sizes, truth.
fn is_at_right(cell: &str) -> bool {
    let number = cell.strip_suffix(" MiB").unwrap_or(cell);
    matches!(cell, "true" | "false") || number.parse::<u64>().is_ok()
}

/// A table as esxcli prints it: columns as wide as their widest entry, dashes below the heads.
fn table(heads: &[&str], rows: &[Vec<String>]) -> String {
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].len());
        cells.chain([heads[column].len()]).max().unwrap_or(0)
    };
    let at_right =
        |column: usize| !rows.is_empty() && rows.iter().all(|row| is_at_right(&row[column]));
    let columns: Vec<(usize, bool)> = (0..heads.len()).map(|n| (width(n), at_right(n))).collect();
    let cell = |(cell, (width, right)): (&str, &(usize, bool))| {
        if *right { format!("{cell:>width$}") } else { format!("{cell:width$}") }
    };
    let line = |cells: &mut dyn Iterator<Item = &str>| {
        let cells: Vec<String> = cells.zip(&columns).map(cell).collect();
        format!("{}\n", cells.join("  ").trim_end())
    };
    let dashes: Vec<String> = columns.iter().map(|(width, _)| "-".repeat(*width)).collect();
    let mut text = line(&mut heads.iter().copied());
    text += &line(&mut dashes.iter().map(String::as_str));
    rows.iter().for_each(|row| text += &line(&mut row.iter().map(String::as_str)));
    text
}

fn capacity_list(host: &Host, rest: &[String]) -> Result<String> {
    let options = Options::parse(rest, &[])?;
    options.only(&["-d", "--device"])?;
    let wanted = options.get(["-d", "--device"]);
    let mut rows = Vec::new();
    let names = host.record.devices.keys();
    for name in names.filter(|name| wanted.is_none_or(|wanted| wanted == *name)) {
        let identity = host.lun(name)?.identity;
        let physical = 512 << identity.physical_exponent;
        rows.push(vec![
            name.clone(),
            physical.to_string(),
            "512".into(),
            (identity.size_bytes / 512).to_string(),
            format!("{} MiB", identity.size_bytes >> 20),
            if physical == 512 { "512n" } else { "512e" }.into(),
        ]);
    }
    let heads = [
        "Device",
        "Physical Blocksize",
        "Logical Blocksize",
        "Logical Block Count",
        "Size",
        "Format Type",
    ];
    Ok(table(&heads, &rows))
}

fn round_robin(host: &mut Host, rest: &[String]) -> Result<String> {
    let options = Options::parse(rest, &[])?;
    options.only(&["-d", "--device", "-t", "--type", "-I", "--iops"])?;
    let iops = number(options.get(["-I", "--iops"]), "-I|--iops")?;
    ensure!(iops > 0, "Error: --iops is at least 1");
    host.change(|record| {
        record.settings.round_robin_iops = iops;
        Ok(())
    })?;
    Ok(String::new())
}

fn lockmode_list(host: &Host) -> Result<String> {
    let mut rows = Vec::new();
    for (name, device) in &host.record.devices {
        let mut lun = host.lun(name)?;
        let Ok(found) = vmfs::volume::probe(&mut lun) else { continue };
        let compatible = device.vaai.ats != Status::Unsupported;
        rows.push(vec![
            found.label,
            found.uuid.to_string(),
            "VMFS-5".into(),
            if found.ats_only { "ATS" } else { "ATS+SCSI" }.into(),
            compatible.to_string(),
            if found.ats_only || !compatible { "None" } else { "Online" }.into(),
            if compatible { "" } else { "Device does not support ATS" }.into(),
        ]);
    }
    let heads = [
        "Volume Name",
        "UUID",
        "Type",
        "Locking Mode",
        "ATS Compatible",
        "ATS Upgrade Modes",
        "ATS Incompatibility Reason",
    ];
    Ok(table(&heads, &rows))
}

fn extent_list(host: &Host) -> Result<String> {
    let mut rows = Vec::new();
    for name in host.record.devices.keys() {
        let mut lun = host.lun(name)?;
        if let Ok(found) = vmfs::volume::probe(&mut lun) {
            let uuid = found.uuid.to_string();
            rows.push(vec![found.label, uuid, "0".into(), name.clone(), "1".into()]);
        }
    }
    Ok(table(&["Volume Name", "VMFS UUID", "Extent Number", "Device Name", "Partition"], &rows))
}

fn unmap(host: &mut Host, rest: &[String]) -> Result<String> {
    let options = Options::parse(rest, &[])?;
    options.only(&["-l", "--volume-label", "-u", "--volume-uuid", "-n", "--reclaim-unit"])?;
    let label = options.get(["-l", "--volume-label"]);
    let name =
        label.or(options.get(["-u", "--volume-uuid"])).context("Error: -l or -u is needed")?;
    let unit = options.get(["-n", "--reclaim-unit"]);
    let unit = unit.map_or(Ok(200), |unit| number(Some(unit), "-n|--reclaim-unit"))?;
    ensure!(unit > 0, "Error: --reclaim-unit is at least 1");
    let mut store = datastore::mount(host, name)?;
    let free = store.volume.space()?.free_bytes;
    let done =
        mover::reclaim(&mut store, [free, unit], &mut |_, _| std::ops::ControlFlow::Continue(()));
    store.finish(host)?;
    done.map(|_| String::new())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_truth_stand_at_the_right_as_esxcli_puts_them() {
        let row = |name: &str, size: &str, flag: &str| {
            vec![name.to_owned(), size.to_owned(), flag.to_owned(), "512n".to_owned()]
        };
        let rows = [row("naa.1", "1024 MiB", "true"), row("naa.22", "7 MiB", "false")];
        let expected = "\
Device      Size  Compatible  Format Type
------  --------  ----------  -----------
naa.1   1024 MiB        true  512n
naa.22     7 MiB       false  512n
";
        assert_eq!(table(&["Device", "Size", "Compatible", "Format Type"], &rows), expected);
    }
}
