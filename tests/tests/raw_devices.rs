//! Raw devices as Forklift's populator uses them: disks cloned to a LUN without a datastore, devices that are
//! turned off, and the lines of its xcopy-validate.

use anyhow::{Context, Result, ensure};
use harness::hostkit::{Host, array};
use harness::tgt::Tgt;
use harness::{Array, Value};

/// An array with a datastore `ds` that holds the disk d.vmdk, and a LUN without one, which is full.
struct Bench {
    array: Array,
    host: Host,
    device: String,
    raw: String,
}

fn bench() -> Result<Bench> {
    let array = array(&[("a", "2G"), ("raw", "128M")])?;
    let urls = [array.lun_url(0)?, array.lun_url(1)?];
    let host = Host::new("esx1", &[&urls[0], &urls[1]])?;
    let mut devices = Vec::new();
    for volume in ["p/a", "p/raw"] {
        let naa = array.gantry_json(&["volume", "show", volume])?["naa"].clone();
        devices.push(naa.as_str().context("an identifier")?.to_owned());
    }
    let [device, raw] = devices.try_into().ok().context("two devices")?;
    host.vmkfstools(&["-C", "vmfs5", "-S", "ds", &format!("{device}:1")])?;
    host.vmkfstools(&["-c", "100m", "-d", "thin", "ds/d.vmdk"])?;
    let run = ["vm", "run", "ds/d.vmdk", "--pattern", "sequential-write1m"];
    host.run(&[&run[..], &["--seconds", "60", "--operations", "30"]].concat())?;
    host.run(&["fill", &urls[1]])?;
    Ok(Bench { array, host, device, raw })
}

impl Bench {
    fn clone_to(&self, device: &str, more: &[&str]) -> Result<Value> {
        let format = format!("rdm:/vmfs/devices/disks/{device}");
        let words = ["-i", "ds/d.vmdk", "-d", &format, "ds/d.vmdk-rdmdisk-1"];
        self.host.vmkfstools(&[&words[..], more].concat())
    }

    fn refused(&self, words: &[&str]) -> Result<String> {
        let finished = self.host.attempt(words)?;
        ensure!(!finished.status.success(), "{words:?} succeeded: {}", finished.stdout);
        Ok(finished.stderr)
    }

    fn esxcli(&self, words: &str) -> Result<String> {
        self.host.run(&["esxcli"].into_iter().chain(words.split(' ')).collect::<Vec<_>>())
    }

    fn readiness(&self) -> Result<(i32, String)> {
        let finished = self.host.attempt(&["xcopy-validate", "--datastore", "ds"])?;
        Ok((finished.status.code().context("an exit status")?, finished.stdout))
    }
}

/// The SHA-256 of a LUN's first bytes, read by another initiator.
fn hash(bench: &Bench, lun: u16, length: &str) -> Result<String> {
    let url = bench.array.lun_url(lun)?;
    let said = bench.host.run(&["--json", "hash", &url, "--length", length])?;
    let said: Value = serde_json::from_str(&said)?;
    Ok(said["sha256"].as_str().context("a sum")?.to_owned())
}

#[test]
fn a_disk_is_cloned_to_a_raw_device_with_and_without_offload_and_over_what_was_there() -> Result<()>
{
    let bench = bench()?;
    let disk = bench.host.run(&["file", "hash", "ds/d.vmdk"])?;
    let report = bench.clone_to(&bench.raw, &["--verify"])?;
    assert_eq!(report["offloaded_bytes"], 30 << 20, "{report}");
    assert_eq!((&report["host_bytes"], &report["zeroed_bytes"]), (&0.into(), &(70 << 20).into()));
    assert_eq!(report["verified"], disk.trim());
    assert_eq!(hash(&bench, 1, "100M")?, disk.trim());
    // Behind the disk, the device is as it was.
    let url = bench.array.lun_url(1)?;
    assert!(bench.host.run(&["check", &url, "--zero", "--offset", "100M"]).is_err());
    // The mapping names the device, is no disk for others, and goes without the data.
    bench.host.run(&["file", "get", "ds/d.vmdk-rdmdisk-1-rdm.vmdk", "/dev/null"])?;
    let used = bench.refused(&["file", "hash", "ds/d.vmdk-rdmdisk-1"])?;
    assert!(used.contains("raw device mapping"), "{used}");
    let taken = bench.clone_to(&bench.raw, &[]).expect_err("the mapping is there");
    assert!(taken.to_string().contains("exists"), "{taken}");
    bench.host.vmkfstools(&["-U", "ds/d.vmdk-rdmdisk-1"])?;
    assert_eq!(hash(&bench, 1, "100M")?, disk.trim());

    bench.host.run(&["fill", &url, "--seed", "7"])?;
    bench.host.run(&["esxcfg-advcfg", "-s", "0", "/DataMover/HardwareAcceleratedMove"])?;
    bench.host.run(&["esxcfg-advcfg", "-s", "0", "/DataMover/HardwareAcceleratedInit"])?;
    let report = bench.clone_to(&bench.raw, &[])?;
    assert_eq!(
        (&report["offloaded_bytes"], &report["host_bytes"]),
        (&0.into(), &(30 << 20).into())
    );
    assert_eq!(hash(&bench, 1, "100M")?, disk.trim());
    Ok(())
}

#[test]
fn datastores_small_devices_and_devices_that_are_off_are_no_destinations() -> Result<()> {
    let bench = bench()?;
    let own = bench.clone_to(&bench.device, &[]).expect_err("the source's device");
    assert!(own.to_string().contains("the datastore ds, which would be lost"), "{own}");
    bench.host.vmkfstools(&["-X", "200m", "ds/d.vmdk"])?;
    let small = bench.clone_to(&bench.raw, &[]).expect_err("a device that is too small");
    assert!(small.to_string().contains("choose a larger device"), "{small}");
    assert!(!bench.host.run(&["file", "ls", "ds"])?.contains("rdm"), "nothing is left");
    let missing = bench.clone_to("naa.6000", &[]).expect_err("no device");
    assert!(missing.to_string().contains("no such device"), "{missing}");

    let (off, on) =
        ("storage core device set --state off -d", "storage core device set --state on -d");
    bench.esxcli(&format!("{off} {}", bench.raw))?;
    bench.esxcli("storage core adapter rescan -t add -a")?;
    let list = format!("storage core device list -d {}", bench.raw);
    assert!(bench.esxcli(&list)?.contains("Status: off"));
    assert!(bench.esxcli("storage core device detached list")?.contains(&bench.raw));
    let unused = bench.clone_to(&bench.raw, &[]).expect_err("a device that is off");
    assert!(unused.to_string().contains("the device is off"), "{unused}");
    // The others are used as before.
    assert!(bench.esxcli("storage vmfs extent list")?.contains(&bench.device));
    bench.esxcli(&format!("{on} {}", bench.raw))?;
    assert!(bench.esxcli(&list)?.contains("Status: on"));
    bench.esxcli(&format!("{off} {}", bench.raw))?;
    bench.esxcli(&format!("storage core device detached remove -d {}", bench.raw))?;
    assert!(bench.esxcli(&list)?.contains("Status: on"));
    for wrong in [
        format!("storage core device detached remove -d {}", bench.raw),
        format!("storage core device set --state gone -d {}", bench.raw),
        "storage core device set --state off -d naa.6000".to_owned(),
        "storage core adapter rescan -t some -a".to_owned(),
    ] {
        assert!(bench.esxcli(&wrong).is_err(), "{wrong}");
    }
    Ok(())
}

#[test]
fn readiness_is_told_in_the_words_of_xcopy_validate_and_by_the_exit_status() -> Result<()> {
    let bench = bench()?;
    let (failures, said) = bench.readiness()?;
    for line in [
        "[PASS] HardwareAcceleratedMove = 1",
        "[PASS] HardwareAcceleratedInit = 1",
        "[WARN] MaxHWTransferSize = 4096 (VMware default; xcopy works but may cause overhead at high I/O",
        "[FAIL] VAAI Plugin Name is empty -- no VAAI plugin bound to device",
        "[PASS] Clone Status = supported",
        "[FAIL] No VAAI claim rule found for vendor=GANTRY",
        "[PASS] Path health: 1 paths (1 active, 0 standby, 0 dead)",
        "[INFO] Clone stats: cloneReadOps=0x0000000000000000 cloneWriteOps=0x0000000000000000 (no xcopy",
        "=== Summary [ds]: 2 PASS, 0 WARN, 2 FAIL -- XCOPY configuration issues ===",
    ] {
        assert!(said.contains(line), "{line} is missing in\n{said}");
    }
    assert_eq!(failures, 2);
    // What it says is done, and then it is content. 'run' is not a word of the kit: a load is enough.
    let fixes = said.lines().filter_map(|line| line.strip_prefix("  esxcli "));
    for fix in fixes.filter(|fix| !fix.contains("claimrule run")) {
        let quoted = fix.split('\'').enumerate();
        let words = quoted.flat_map(|(number, part)| match number % 2 {
            0 => part.split_whitespace().collect::<Vec<_>>(),
            _ => vec![part],
        });
        let words: Vec<&str> = ["esxcli"].into_iter().chain(words).collect();
        bench.host.run(&words)?;
    }
    bench.host.run(&["esxcfg-advcfg", "-s", "16384", "/DataMover/MaxHWTransferSize"])?;
    bench.clone_to(&bench.raw, &[])?;
    let (failures, said) = bench.readiness()?;
    assert!(said.contains("4 PASS, 0 WARN, 0 FAIL -- XCOPY should work"), "{said}");
    assert!(said.contains("[PASS] VAAI Plugin Name = VMW_VAAIP_T10"), "{said}");
    assert!(!said.contains("[FAIL]") && !said.contains("[WARN]") && failures == 0, "{said}");
    Ok(())
}

#[test]
fn readiness_asks_for_what_there_is_and_names_it() -> Result<()> {
    let bench = bench()?;
    let other = bench.refused(&["xcopy-validate", "--datastore", "other"])?;
    assert!(other.contains("'other' was not found") && other.contains("following: ds"), "{other}");
    let path = bench.refused(&["xcopy-validate", "--vmdk", "ds/d.vmdk"])?;
    assert!(path.contains("Could not extract datastore name"), "{path}");
    bench.refused(&["xcopy-validate"])?;
    bench.refused(&["xcopy-validate", "--all-datastores", "--datastore", "ds"])?;
    let vmdk = ["--json", "xcopy-validate", "--vmdk", "/vmfs/volumes/ds/d.vmdk"];
    let said: Value = serde_json::from_str(&bench.host.attempt(&vmdk)?.stdout)?;
    assert_eq!(said["devices"][0]["datastore"], "ds");
    assert_eq!(said["devices"][0]["lines"][1]["level"], "PASS", "{said}");
    Ok(())
}

#[test]
fn an_array_without_extended_copy_fails_the_clone_status() -> Result<()> {
    let tgt = Tgt::start(2 << 30)?;
    let host = Host::new("esx1", &[&tgt.url("")])?;
    let devices = host.devices()?;
    host.vmkfstools(&["-C", "vmfs5", "-S", "ds", &format!("{}:1", devices[0])])?;
    let finished = host.attempt(&["xcopy-validate", "--all-datastores"])?;
    let said = finished.stdout;
    assert!(said.contains("[FAIL] Clone Status = unsupported (must be 'supported')"), "{said}");
    assert_eq!(finished.status.code(), Some(3), "{said}");
    Ok(())
}
