//! Simulated hosts: words and output as ESXi's, paths, CHAP, the doctor, a full array.

use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use harness::hostkit::{Host, array, fsck, image_of};
use harness::path::Path;
use harness::tgt::Tgt;
use harness::{Array, Value, number, text};

const MOVE: &str = "/DataMover/HardwareAcceleratedMove";

#[test]
fn settings_are_listed_and_set_with_esxis_words_and_output() -> Result<()> {
    let array = array(&[("v", "1G")])?;
    let host = Host::new("esx1", &[&array.lun_url(0)?])?;
    let advanced = ["esxcli", "system", "settings", "advanced"];
    let list = || host.run(&[&advanced[..], &["list", "-o", MOVE]].concat());
    let expected = "   Path: /DataMover/HardwareAcceleratedMove\n   Type: integer\n   Int Value: 1\n   Default Int Value: 1\n   Min Value: 0\n   Max Value: 1\n   String Value: \n   Default String Value: \n   Valid Characters: \n   Description: Enable hardware accelerated VMFS data movement (requires compliant hardware)\n";
    assert_eq!(list()?, expected);
    for words in [["set", "-o", MOVE, "-i", "0"], ["set", "--int-value", "0", "--option", MOVE]] {
        assert_eq!(host.run(&[&advanced[..], &words].concat())?, "");
        assert_eq!(list()?, expected.replace("   Int Value: 1", "   Int Value: 0"));
    }
    let set = host.run(&["esxcfg-advcfg", "-s", "1", MOVE])?;
    assert_eq!(set, "Value of HardwareAcceleratedMove is 1\n");
    assert_eq!(host.run(&["esxcfg-advcfg", "-g", MOVE])?, set);
    let spelled = "/VMFS3/useATSForHBOnVMFS5";
    assert_eq!(host.run(&["esxcfg-advcfg", "-g", spelled])?, "Value of UseATSForHBOnVMFS5 is 1\n");
    for words in [
        vec!["set", "-o", MOVE, "-i", "2"],
        vec!["set", "-o", MOVE, "-i", "one"],
        vec!["set", "-o", MOVE],
        vec!["set", "-o", "/DataMover/Other", "-i", "1"],
        vec!["set", "-x", MOVE, "-i", "1"],
        vec!["remove"],
    ] {
        host.attempt(&[&advanced[..], &words].concat())?.failure()?;
    }
    assert_eq!(list()?, expected);
    Ok(())
}

#[test]
fn a_device_is_listed_by_its_naa_identifier_and_its_offloads_become_known_by_use() -> Result<()> {
    let array = array(&[("v", "1G")])?;
    let host = Host::new("esx1", &[&array.lun_url(0)?])?;
    let device = host.devices()?.remove(0);
    assert_eq!(array.gantry_json(&["volume", "show", "p/v"])?["naa"], device.as_str());
    let status = ["esxcli", "storage", "core", "device", "vaai", "status", "get", "-d", &device];
    let lines = |ats: &str, zero: &str| {
        format!(
            "{device}\n   VAAI Plugin Name: \n   ATS Status: {ats}\n   Clone Status: unknown\n   Zero Status: {zero}\n   Delete Status: unknown\n"
        )
    };
    assert_eq!(host.run(&status)?, lines("unknown", "unknown"));
    host.vmkfstools(&["-C", "vmfs5", "-S", "ds", &format!("{device}:1")])?;
    assert_eq!(host.run(&status)?, lines("supported", "supported"));
    let listed = host.run(&["esxcli", "storage", "core", "device", "list"])?;
    for line in
        ["   Size: 1024", "   Is SSD: false", "   VAAI Status: supported", "   Vendor: GANTRY  "]
    {
        assert!(listed.lines().any(|found| found == line), "{line:?} in {listed}");
    }
    host.run(&["rescan"])?;
    assert_eq!(host.run(&status)?, lines("unknown", "unknown"));
    let listed = host.run(&["esxcli", "storage", "core", "device", "list"])?;
    assert!(listed.contains("   VAAI Status: unknown\n"), "{listed}");
    host.attempt(&["esxcli", "storage", "core", "device", "list", "-d", "naa.1"])?.failure()?;
    Ok(())
}

/// Twice, as a host locks either way. A reservation goes with its path, and what was done under it
/// has to be done again.
#[test]
fn when_a_path_dies_its_commands_go_another_way() -> Result<()> {
    for ats in ["1", "0"] {
        let array = array(&[("v", "1G")])?;
        let path = Path::start(array.portal())?;
        let url = array.lun_url(0)?;
        let other = url.replace(&array.portal().to_string(), &path.address().to_string());
        let host = Host::new("esx1", &[&other, &url])?;
        host.run(&["esxcfg-advcfg", "-s", ats, "/VMFS3/HardwareAcceleratedLocking"])?;
        let device = host.devices()?.remove(0);
        let robin = ["storage", "nmp", "psp", "roundrobin", "deviceconfig", "set", "-t", "iops"];
        host.run(&[&["esxcli"], &robin[..], &["-I", "1", "-d", &device]].concat())?;
        host.vmkfstools(&["-C", "vmfs5", "-S", "ds", &format!("{device}:1")])?;
        host.vmkfstools(&["-c", "64m", "-d", "thin", "ds/t.vmdk"])?;
        let run = ["vm", "run", "ds/t.vmdk", "--pattern", "random-mix4k", "--seconds", "2"];
        let machine = host.start(&run)?;
        thread::sleep(Duration::from_millis(700));
        path.cut();
        let printed = machine.wait(Duration::from_secs(60))?.success()?;
        let outcome: Value = serde_json::from_str(&printed)?;
        assert!(number(&outcome, "/operations")? > 0);
        let paths = host.run(&["esxcli", "storage", "core", "path", "list"])?;
        assert!(paths.contains("State: dead") && paths.contains("State: active"), "{paths}");
        let folder = tempfile::tempdir()?;
        assert_eq!(fsck(&image_of(&array, 0, folder.path())?)?, [0; 5]);
    }
    Ok(())
}

#[test]
fn a_host_logs_in_with_chap_as_its_address_says() -> Result<()> {
    let tgt = Tgt::start(64 << 20)?;
    let account = ["--mode", "account", "--user", "esx", "--password", "secret-of-twelve"];
    tgt.control(&[&["--op", "new"], &account[..]].concat())?;
    tgt.control(&["--op", "bind", "--mode", "account", "--tid", "1", "--user", "esx"])?;
    let devices = |account: &str| Host::new("esx1", &[&tgt.url(account)])?.devices();
    assert_eq!(devices("esx%secret-of-twelve@")?.len(), 1);
    assert_eq!(devices("esx%another-password@")?.len(), 0);
    assert_eq!(devices("")?.len(), 0);
    Ok(())
}

fn diagnosis(url: &str, words: &[&str]) -> Result<Value> {
    let host = Host::new("esx1", &[])?;
    let printed = host.run(&[&["--json", "doctor", url], words].concat())?;
    serde_json::from_str(&printed).context("a diagnosis")
}

fn works<'a>(diagnosis: &'a Value, primitive: &str) -> &'a str {
    let findings = diagnosis["findings"].as_array().into_iter().flatten();
    let found = findings.filter(|found| found["primitive"] == primitive);
    found.filter_map(|found| found["works"].as_str()).next().unwrap_or("missing")
}

#[test]
fn the_doctor_finds_every_offload_of_ours_and_leaves_the_lun_as_it_was() -> Result<()> {
    let array = array(&[("v", "64M")])?;
    let url = array.lun_url(0)?;
    harness::initiator::qemu_io(&["-f", "raw", &url], &["write -P 0x5a 0 64M"])?;
    let cautious = diagnosis(&url, &[])?;
    assert_eq!((works(&cautious, "ATS"), works(&cautious, "Zero")), ("supported", "unknown"));
    let thorough = diagnosis(&url, &["--scratch"])?;
    for primitive in ["ATS", "Clone", "Zero", "Delete", "Reserve"] {
        assert_eq!(works(&thorough, primitive), "supported", "{primitive}: {thorough}");
    }
    harness::initiator::qemu_io(&["-f", "raw", &url], &["read -P 0x5a 0 64M"])?;
    let events = array.gantry_json(&["events"])?;
    // The volume is full on purpose, and that is told.
    let is_about_space = |event: &Value| event["message"].as_str().unwrap_or("").contains("full");
    let all = events.as_array().into_iter().flatten();
    let bad = all.filter(|event| event["severity"] != "information");
    let bad: Vec<_> = bad.filter(|event| !is_about_space(event)).collect();
    assert!(bad.is_empty(), "a probe that does no harm: {bad:?}");
    Ok(())
}

#[test]
fn the_doctor_says_of_tgt_that_it_does_not_copy() -> Result<()> {
    let tgt = Tgt::start(64 << 20)?;
    let found = diagnosis(&tgt.url(""), &["--scratch"])?;
    let expected = [
        ("ATS", "unsupported"),
        ("Clone", "unsupported"),
        ("Zero", "supported"),
        ("Delete", "unsupported"),
        ("Reserve", "supported"),
    ];
    for (primitive, status) in expected {
        assert_eq!(works(&found, primitive), status, "{primitive}: {found}");
    }
    let host = Host::new("esx1", &[])?;
    let said = host.run(&["doctor", &tgt.url("")])?;
    for line in [
        "   so: locks by RESERVE and RELEASE: hosts wait for each other, the whole LUN at once",
        "   so: clones and migrations go through the host: every byte crosses the wire twice",
        "- no XCOPY: clones are read and written by the host",
    ] {
        assert!(said.lines().any(|found| found == line), "{line:?} in {said}");
    }
    Ok(())
}

#[test]
fn claim_rules_are_added_listed_loaded_and_removed_with_esxis_words() -> Result<()> {
    let array = array(&[("v", "1G")])?;
    let host = Host::new("esx1", &[&array.lun_url(0)?])?;
    let rule = |words: &[&str]| {
        let esxcli = ["esxcli", "storage", "core", "claimrule"];
        host.attempt(&[&esxcli[..], words].concat())
    };
    let matches = ["-t", "vendor", "-V", "GANTRY", "-M", "*", "-P", "VMW_VAAIP_T10"];
    let add = |more: &[&str]| rule(&[&["add", "-c", "VAAI"], &matches[..], more].concat());
    add(&["-r", "914", "-a", "-s", "-m", "200"])?.success()?;
    let list = || rule(&["list", "--claimrule-class=VAAI"])?.success();
    let line = |class: &str| {
        let of = "vendor  VMW_VAAIP_T10  vendor=GANTRY model=*";
        format!("VAAI         914  {class}  {of}  {:>31}  {:>27}  {:>23}\n", "true", "true", "200")
    };
    let heads = "Rule Class  Rule  Class    Type    Plugin         Matches                XCOPY Use Array Reported Values  XCOPY Use Multiple Segments  XCOPY Max Transfer Size\n----------  ----  -------  ------  -------------  ---------------------  -------------------------------  ---------------------------  -----------------------\n";
    let of_file = heads.replace("  Class  ", "  Class").replace("  -------  ", "  -----  ");
    assert_eq!(list()?, format!("{of_file}{}", line("file ")));
    rule(&["load", "--claimrule-class=VAAI"])?.success()?;
    assert_eq!(list()?, format!("{heads}{}{}", line("runtime"), line("file   ")));
    let status = ["esxcli", "storage", "core", "device", "vaai", "status", "get"];
    assert!(host.run(&status)?.contains("   VAAI Plugin Name: VMW_VAAIP_T10\n"));
    for wrong in [
        &["-r", "914", "-a"][..],
        &["-r", "915", "-s"],
        &["-r", "915", "-m", "16"],
        &["-r", "915", "-a", "-m", "16", "-k", "4096"],
        &["-r", "915", "-a", "-m", "many"],
        &["-a"],
    ] {
        add(wrong)?.failure()?;
    }
    rule(&["add", "-r", "1", "-t", "vendor", "-P", "X", "-c", "VAAI"])?.failure()?;
    rule(&["list"])?.failure()?;
    rule(&["remove", "-c", "VAAI", "-r", "914"])?.success()?;
    rule(&["remove", "-c", "VAAI", "-r", "914"])?.failure()?;
    assert_eq!(list()?.lines().count(), 3, "it is loaded until the next load");
    Ok(())
}

#[test]
fn tables_are_as_esxcli_prints_them() -> Result<()> {
    let array = array(&[("v", "1G")])?;
    let host = Host::new("esx1", &[&array.lun_url(0)?])?;
    let device = host.devices()?.remove(0);
    host.vmkfstools(&["-C", "vmfs5", "-S", "ds", &format!("{device}:1")])?;
    let modes = host.run(&["esxcli", "storage", "vmfs", "lockmode", "list"])?;
    let uuid = modes.lines().nth(2).and_then(|line| line.split_whitespace().nth(1));
    let uuid = uuid.context("a line")?.to_owned();
    assert_eq!(
        modes,
        format!(
            "Volume Name  UUID                                 Type    Locking Mode  ATS Compatible  ATS Upgrade Modes  ATS Incompatibility Reason\n\
             -----------  -----------------------------------  ------  ------------  --------------  -----------------  --------------------------\n\
             ds           {uuid}  VMFS-5  ATS                     true  None\n"
        )
    );
    let capacity = host.run(&["esxcli", "storage", "core", "device", "capacity", "list"])?;
    let row = |physical: &str, kind: &str| {
        let (logical, count) = ("512", "2097152");
        format!("{device}  {physical:>18}  {logical:>17}  {count:>19}  1024 MiB  {kind}")
    };
    let found = capacity.lines().nth(2).context("a row")?;
    assert!(found == row("512", "512n") || found == row("4096", "512e"), "{capacity}");
    let unmap = ["esxcli", "storage", "vmfs", "unmap", "-u", &uuid, "--reclaim-unit=100"];
    assert_eq!(host.run(&unmap)?, "");
    for wrong in [&["-n", "0", "-l", "ds"][..], &["-n", "200"], &["-l", "other"], &["-l"]] {
        let unmap = ["esxcli", "storage", "vmfs", "unmap"];
        host.attempt(&[&unmap[..], wrong].concat())?.failure()?;
    }
    Ok(())
}

#[test]
fn counters_are_seen_live_and_as_a_series_and_add_up() -> Result<()> {
    let array = array(&[("v", "1G")])?;
    let host = Host::new("esx1", &[&array.lun_url(0)?])?;
    let device = host.devices()?.remove(0);
    host.vmkfstools(&["-C", "vmfs5", "-S", "ds", &format!("{device}:1")])?;
    host.vmkfstools(&["-c", "64m", "-d", "eagerzeroedthick", "ds/e.vmdk"])?;
    let run = ["vm", "run", "ds/e.vmdk", "--pattern", "random-mix4k", "--outstanding", "8"];
    let before = array.traffic()?;
    let machine = host.start(&[&run[..], &["--seconds", "3"]].concat())?;
    let series = host.run(&["--json", "esxtop", "-d", "0.4", "-n", "12"])?;
    let outcome: Value = serde_json::from_str(&machine.wait(Duration::from_secs(60))?.success()?)?;
    let samples: Vec<Value> = series.lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
    let sum = |name: &str, field: &str| -> Result<u64> {
        let of = samples.iter().filter(|sample| sample["device"] == name);
        of.map(|sample| number(sample, &format!("/change/{field}"))).sum()
    };
    assert!(samples.iter().filter(|s| s["change"]["writes"].as_u64() > Some(0)).count() > 2);
    let (read, written) = (sum(&device, "reads")?, sum(&device, "writes")?);
    let operations = number(&outcome, "/operations")?;
    // Beside the machine's there are reads and writes of metadata.
    assert!(read + written >= operations * 9 / 10, "{read} + {written} of {operations}");
    assert_eq!(sum("vmhba64", "writes")?, written);
    let wire = host.counter(&device, "READS/s")?;
    assert!(wire.abs() < 1.0, "a single look has no rates");
    let seen = array.traffic()?.since(before).bytes();
    let counted = sum(&device, "wire_bytes")?;
    assert!(counted <= seen + seen / 10 && counted > number(&outcome, "/bytes")? / 2);
    Ok(())
}

/// A pool that the machine's writes fill, and that gets space while it waits.
#[test]
fn a_machine_pauses_while_the_array_is_full_and_goes_on_when_it_is_not() -> Result<()> {
    let array = Array::start()?;
    array.gantry(&["pool", "create", "p", "--device", "memory:", "--size", "1G"])?;
    array.create_lun("p/v", "1G")?;
    array.create_lun("p/other", "1G")?;
    let host = Host::new("esx1", &[&array.lun_url(0)?])?;
    let device = host.devices()?.remove(0);
    host.vmkfstools(&["-C", "vmfs5", "-S", "ds", &format!("{device}:1")])?;
    host.vmkfstools(&["-c", "600m", "-d", "thin", "ds/t.vmdk"])?;
    host.run(&["fill", &array.lun_url(1)?, "--length", &(800 << 20).to_string()])?;
    let run = ["vm", "run", "ds/t.vmdk", "--pattern", "sequential-write1m"];
    let mut machine =
        host.start(&[&run[..], &["--seconds", "90", "--operations", "400"]].concat())?;
    let full = || -> Result<bool> {
        Ok(number(&array.gantry_json(&["pool", "show", "p"])?, "/counters/data_bytes_written")?
            > 930 << 20)
    };
    while machine.is_running()? && !full()? {
        thread::sleep(Duration::from_millis(50));
    }
    thread::sleep(Duration::from_secs(1));
    array.gantry(&["pool", "extend", "p", "--size", "3G"])?;
    let outcome: Value = serde_json::from_str(&machine.wait(Duration::from_secs(100))?.success()?)?;
    assert!(number(&outcome, "/pauses")? > 0, "{outcome}");
    assert_eq!(number(&outcome, "/operations")?, 400);
    let counters = host.run(&["--json", "esxtop", "-n", "1"])?;
    let counters: Value = serde_json::from_str(counters.lines().last().context("a line")?)?;
    assert!(number(&counters, "/sums/space_warnings")? > 0, "it was told before: {counters}");
    Ok(())
}

/// The three commands that README shows, and what they lead to.
#[test]
fn a_portal_is_asked_for_its_targets_with_esxis_words() -> Result<()> {
    let array = array(&[("v", "1G"), ("w", "1G")])?;
    let host = Host::new("esx1", &[])?;
    let portal = array.portal().to_string();
    let esxcli = |words: &str| {
        let words = words.replace("PORTAL", &portal);
        host.attempt(&[&["esxcli"], &words.split(' ').collect::<Vec<_>>()[..]].concat())
    };
    assert_eq!(
        esxcli("iscsi software set --enabled=false")?.success()?,
        "Software iSCSI Disabled\n"
    );
    let add = "iscsi adapter discovery sendtarget add --adapter=vmhba64 --address=PORTAL";
    esxcli(add)?.failure()?;
    assert_eq!(esxcli("iscsi software set --enabled=true")?.success()?, "Software iSCSI Enabled\n");
    assert_eq!(esxcli(add)?.success()?, "");
    esxcli(add)?.failure()?;
    assert_eq!(esxcli("storage core adapter rescan --adapter=vmhba64")?.success()?, "");
    let found = esxcli("--formatter=json storage core device list")?.success()?;
    let found: Value = serde_json::from_str(&found)?;
    let names: Vec<Value> = ["v", "w"]
        .iter()
        .map(
            |name| Ok(array.gantry_json(&["volume", "show", &format!("p/{name}")])?["naa"].clone()),
        )
        .collect::<Result<_>>()?;
    let listed: Vec<&Value> = found.as_array().context("a list")?.iter().collect();
    assert_eq!(listed.len(), 2);
    assert!(names.iter().all(|name| listed.iter().any(|device| device["Device"] == *name)));
    assert_eq!(listed[0]["Size"], 1024);
    let target = array.target_name()?;
    let sessions = esxcli("iscsi session list")?.success()?;
    assert!(sessions.starts_with(&format!("vmhba64,{target},00023d000001\n   Adapter: vmhba64\n")));
    let listed = esxcli("iscsi adapter discovery sendtarget list")?.success()?;
    assert_eq!(listed.lines().nth(2), Some(format!("vmhba64  {portal}").as_str()));
    let targets = esxcli("--formatter=csv iscsi adapter target list")?.success()?;
    assert_eq!(
        targets,
        format!(
            "Adapter,Alias,DiscoveryMethod,LastError,Target,\nvmhba64,,SENDTARGETS,No Error,{target},\n"
        )
    );
    // One that does not answer keeps what it said before.
    let lost = Host::new("esx2", &[])?;
    lost.run(&[
        "esxcli",
        "iscsi",
        "adapter",
        "discovery",
        "sendtarget",
        "add",
        "-A",
        "vmhba64",
        "-a",
        "127.0.0.1:1",
    ])?;
    assert_eq!(lost.devices()?.len(), 0);
    esxcli("iscsi adapter discovery sendtarget remove -A vmhba64 -a PORTAL")?.success()?;
    assert_eq!(host.devices()?.len(), 0);
    Ok(())
}

#[test]
fn paths_and_policies_are_listed_as_esxi_lists_them() -> Result<()> {
    let array = array(&[("v", "1G")])?;
    let url = array.lun_url(0)?;
    let path = Path::start(array.portal())?;
    let other = url.replace(&array.portal().to_string(), &path.address().to_string());
    let host = Host::new("esx1", &[&url, &other])?;
    let device = host.devices()?.remove(0);
    let esxcli =
        |words: &str| host.run(&[&["esxcli"], &words.split(' ').collect::<Vec<_>>()[..]].concat());
    let paths = esxcli("storage core path list")?;
    let blocks: Vec<&str> = paths.split("\n\n").collect();
    assert_eq!(blocks.len(), 2);
    for (channel, block) in blocks.iter().enumerate() {
        let name = format!("vmhba64:C{channel}:T0:L0");
        for line in [
            &format!("   Runtime Name: {name}"),
            &format!("   Device: {device}"),
            &format!("   Channel: {channel}"),
            "   State: active",
            "   Transport: iscsi",
        ] {
            assert!(block.lines().any(|found| found == line), "{line} in {block}");
        }
        let uid = block.lines().next().context("a title")?;
        let by_name = esxcli(&format!("storage core path list -p {name}"))?;
        assert_eq!(by_name.trim_end(), block.trim_end());
        assert_eq!(esxcli(&format!("storage core path list --path={uid}"))?, by_name);
    }
    let nmp = esxcli("storage nmp device list")?;
    for line in [
        "   Storage Array Type: VMW_SATP_ALUA",
        "   Path Selection Policy: VMW_PSP_RR",
        "   Working Paths: vmhba64:C0:T0:L0, vmhba64:C1:T0:L0",
    ] {
        assert!(nmp.lines().any(|found| found == line), "{line} in {nmp}");
    }
    assert!(nmp.contains("TPG_state=AO}"), "{nmp}");
    let adapters = esxcli("storage core adapter list")?;
    assert!(adapters.starts_with("HBA Name  Driver     Link State  UID"), "{adapters}");
    Ok(())
}

#[test]
fn volumes_and_running_machines_are_listed_as_esxi_lists_them() -> Result<()> {
    let array = array(&[("v", "1G")])?;
    let host = Host::new("esx1", &[&array.lun_url(0)?])?;
    let device = host.devices()?.remove(0);
    host.vmkfstools(&["-C", "vmfs5", "-S", "ds", &format!("{device}:1")])?;
    let esxcli =
        |words: &str| host.run(&[&["esxcli"], &words.split(' ').collect::<Vec<_>>()[..]].concat());
    let volumes: Value =
        serde_json::from_str(&esxcli("--formatter=json storage filesystem list")?)?;
    let uuid = volumes[0]["UUID"].as_str().context("an identifier")?.to_owned();
    assert_eq!(volumes[0]["MountPoint"], format!("/vmfs/volumes/{uuid}"));
    assert_eq!(volumes[0]["Mounted"], true);
    let shown = |words: &[&str]| host.run(&[&["vmkfstools"], words].concat());
    let exact = shown(&["-P", "/vmfs/volumes/ds"])?;
    let (size, free) = (&volumes[0]["Size"], &volumes[0]["Free"]);
    assert!(
        exact.contains(&format!("Capacity {size} (")) && exact.contains(&format!(", {free} ("))
    );
    assert!(shown(&["-Ph", "ds"])?.contains(" GB available, file block size 1 MB"));
    let mapped = host.run(&["esxcfg-scsidevs", "-m"])?;
    let words: Vec<&str> = mapped.split_whitespace().collect();
    let partition = format!("{device}:1");
    let disk = format!("/vmfs/devices/disks/{partition}");
    assert_eq!(words, [partition.as_str(), &disk, &uuid, "0", "ds"]);
    for option in ["-l", "-c", "-u", "-A"] {
        assert!(host.run(&["esxcfg-scsidevs", option])?.contains(&device), "{option}");
    }
    assert!(host.run(&["esxcfg-scsidevs", "-a"])?.contains("vmhba64"));
    host.attempt(&["esxcfg-scsidevs", "-z"])?.failure()?;
    host.run(&["vm", "create", "ds/web", "--disk", "64m:eagerzeroedthick"])?;
    assert_eq!(esxcli("vm process list")?, "");
    let machine =
        host.start(&["vm", "run", "ds/web", "--pattern", "random-mix4k", "--seconds", "4"])?;
    let mut running = String::new();
    for _ in 0..100 {
        running = esxcli("vm process list")?;
        if !running.is_empty() {
            break;
        }
        thread::sleep(Duration::from_millis(50));
    }
    assert!(running.starts_with("web\n   World ID: "), "{running}");
    assert!(running.contains(&format!("   Config File: /vmfs/volumes/{uuid}/web/web.vmx\n")));
    assert!(running.contains("   UUID: 56 4d "), "{running}");
    machine.wait(Duration::from_secs(60))?.success()?;
    assert_eq!(esxcli("vm process list")?, "");
    Ok(())
}

#[test]
fn a_running_machine_changes_hosts_and_its_locks_with_it() -> Result<()> {
    let array = array(&[("v", "1G")])?;
    let url = array.lun_url(0)?;
    let (host, other) = (Host::new("esx1", &[&url])?, Host::new("esx2", &[&url])?);
    let device = host.devices()?.remove(0);
    host.vmkfstools(&["-C", "vmfs5", "-S", "ds", &format!("{device}:1")])?;
    other.run(&["rescan"])?;
    host.run(&["vm", "create", "ds/web", "--disk", "64m:thin"])?;
    let folder = other.folder();
    let vmotion = ["vm", "vmotion", "ds/web", "--destination", folder, "--seconds", "2"];
    let moved: Value = serde_json::from_str(&host.run(&vmotion)?)?;
    for side in ["source", "destination"] {
        assert!(number(&moved, &format!("/{side}/operations"))? > 0, "{moved}");
    }
    assert!(moved["switchover_ms"].as_f64().is_some_and(|ms| ms > 0.0 && ms < 30_000.0), "{moved}");
    assert!(number(&moved, "/ats")? > 0 && moved["conflicts"] == 0, "{moved}");
    let sums = [&host, &other].map(|host| host.run(&["file", "hash", "ds/web/web.vmdk"]));
    let [first, second] = sums;
    assert_eq!(first?, second?);
    let same = host.folder();
    host.attempt(&["vm", "vmotion", "ds/web", "--destination", same])?.failure()?;
    host.attempt(&["vm", "vmotion", "ds/none", "--destination", folder])?.failure()?;
    host.attempt(&["vm", "vmotion", "ds/web/web.vmdk", "--destination", folder])?.failure()?;
    let scratch = tempfile::tempdir()?;
    let [unallocated, _, rest @ ..] = fsck(&image_of(&array, 0, scratch.path())?)?;
    assert_eq!((unallocated, rest), (0, [0; 3]));
    Ok(())
}

#[test]
fn templates_do_not_run_and_go_where_a_cluster_has_space() -> Result<()> {
    let array = array(&[("a", "1G"), ("b", "2G"), ("c", "1G"), ("d", "1G")])?;
    let urls: Vec<String> = (0..4).map(|lun| array.lun_url(lun)).collect::<Result<_>>()?;
    let host = Host::new("esx1", &urls.iter().map(String::as_str).collect::<Vec<_>>())?;
    for (number, url) in urls.iter().enumerate() {
        let listed = Host::new("look", &[url])?.devices()?.remove(0);
        host.vmkfstools(&["-C", "vmfs5", "-S", &format!("ds{number}"), &format!("{listed}:1")])?;
    }
    host.run(&["vm", "create", "ds0/gold", "--disk", "64m:eagerzeroedthick"])?;
    host.run(&["vm", "template", "ds0/gold"])?;
    let run = ["vm", "run", "ds0/gold", "--pattern", "random-mix4k", "--seconds", "1"];
    assert!(host.attempt(&run)?.stderr.contains("template"));
    assert!(host.run(&["file", "ls", "ds0/gold"])?.contains("gold.vmtx"));
    let cluster = ["--cluster", "ds0,ds1,ds2,ds3"];
    let deploy = |name: &str, more: &[&str]| -> Result<Value> {
        let words = [&["vm", "deploy", "ds0/gold", name][..], &cluster, more].concat();
        let printed = host.run(&words)?;
        Ok(serde_json::from_str(printed.lines().last().context("a line")?)?)
    };
    let mut places = Vec::new();
    for name in ["one", "two", "three"] {
        let deployed = deploy(name, &[])?;
        assert!(number(&deployed, "/report/offloaded_bytes")? == 64 << 20, "{deployed}");
        places.push(text(&deployed, "/machine")?.to_owned());
    }
    assert!(places[0].starts_with("ds1/"), "the largest one is as good as empty: {places:?}");
    let mut stores: Vec<&str> = places.iter().filter_map(|place| place.split('/').next()).collect();
    stores.sort_unstable();
    stores.dedup();
    assert!(stores.len() > 1, "all on one: {places:?}");
    host.attempt(&["vm", "deploy", "ds0/gold", "ds1/x", "--cluster", "ds1"])?.failure()?;
    // A running Windows guest that is quiesced is copied by the host, and the reason is named.
    host.run(&["vm", "set", "ds0/gold", "guestOS", "windows9Server64Guest"])?;
    assert!(deploy("four", &["--powered-on"])?["report"]["host_bytes"] == 0);
    host.run(&["vm", "set", "ds0/gold", "disk.EnableUUID", "TRUE"])?;
    let quiesced = deploy("five", &["--powered-on"])?;
    let reasons = quiesced["report"]["fallbacks"].as_object().context("reasons")?;
    assert!(reasons.keys().any(|reason| reason.contains("disk.EnableUUID")), "{quiesced}");
    assert!(number(&deploy("six", &[])?, "/report/offloaded_bytes")? > 0);
    host.attempt(&["vm", "set", "ds0/gold", "scsi0:0.fileName", "x.vmdk"])?.failure()?;
    host.run(&["vm", "template", "ds0/gold", "--undo"])?;
    host.run(&run)?;
    Ok(())
}
