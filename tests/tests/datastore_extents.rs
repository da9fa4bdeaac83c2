//! Datastores over several LUNs (`vmkfstools -Z`): machines, clones and UNMAP across the seam,
//! hosts that were not told, an extent that is missing; Debian's vmfs-tools read both LUNs.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use harness::hostkit::{Fuse, Host, array, fsck_all, image_of};
use harness::{Array, Value, number};

const MIB: usize = 1 << 20;
/// MiB of the machine's disk: more than the head has, so that it lies on both LUNs.
const DISK: usize = 900;

/// An array with three LUNs that two hosts see, and a datastore `ds` on the first.
struct Bench {
    array: Array,
    hosts: [Host; 2],
    devices: Vec<String>,
}

fn bench(ats: bool) -> Result<Bench> {
    let array = array(&[("a", "1G"), ("b", "3G"), ("small", "200M")])?;
    let urls = [array.lun_url(0)?, array.lun_url(1)?, array.lun_url(2)?];
    let urls: Vec<&str> = urls.iter().map(String::as_str).collect();
    let hosts = [Host::new("esx1", &urls)?, Host::new("esx2", &urls)?];
    let mut devices = Vec::new();
    for name in ["p/a", "p/b", "p/small"] {
        let naa = array.gantry_json(&["volume", "show", name])?["naa"].clone();
        devices.push(naa.as_str().context("an identifier")?.to_owned());
    }
    if !ats {
        for host in &hosts {
            host.run(&["esxcfg-advcfg", "-s", "0", "/VMFS3/HardwareAcceleratedLocking"])?;
        }
    }
    hosts[0].vmkfstools(&["-C", "vmfs5", "-S", "ds", &format!("{}:1", devices[0])])?;
    hosts[1].run(&["rescan"])?;
    Ok(Bench { array, hosts, devices })
}

impl Bench {
    /// `vmkfstools -Z` of a LUN to the head, with an answer; what it printed.
    fn span(&self, device: usize, answer: &str) -> Result<(bool, String)> {
        let partition = |number: usize| format!("/vmfs/devices/disks/{}:1", self.devices[number]);
        let words = ["vmkfstools", "-Z", &partition(device), &partition(0)];
        let ended = self.hosts[0].answer(&words, answer)?;
        let printed = [ended.stdout, ended.stderr].concat();
        Ok((ended.status.success(), String::from_utf8_lossy(&printed).into_owned()))
    }

    fn refused(&self, device: usize, answer: &str, words: &str) -> Result<()> {
        let (worked, printed) = self.span(device, answer)?;
        ensure!(!worked && printed.contains(words), "{printed}");
        Ok(())
    }
}

/// What `vm run --pattern sequential-write1m` leaves of the disk.
fn written_disk() -> Vec<u8> {
    let mut bytes = vec![0x5a; DISK * MIB];
    for number in 1..=DISK {
        let at = number % DISK * MIB;
        bytes[at..at + 8].copy_from_slice(&(number as u64).to_le_bytes());
    }
    bytes
}

fn spans_two_luns(ats: bool) -> Result<()> {
    let bench = bench(ats)?;
    let [first, second] = &bench.hosts;
    bench.refused(0, "0\n", "-Z takes two partitions")?;
    bench.refused(2, "0\n", "too small")?;
    let blind = Host::new("esx3", &[&bench.array.lun_url(0)?])?;
    blind.run(&["rescan"])?;
    let [head, new] = [0, 1].map(|number: usize| format!("{}:1", bench.devices[number]));
    let words = ["vmkfstools", "--seen-by", blind.folder(), "-Z", &new, &head];
    let refused = first.attempt(&words)?.failure()?;
    ensure!(refused.contains("esx3 does not see"), "{refused}");
    bench.refused(1, "1\n", "nothing was changed")?;
    bench.refused(1, "", "nothing was changed")?;
    second.vmkfstools(&["-c", &format!("{DISK}m"), "-d", "thin", "ds/t.vmdk"])?;
    let run = ["vm", "run", "ds/t.vmdk", "--pattern", "sequential-write1m", "--operations"];
    let count = DISK.to_string();
    let machine = second.start(&[&run[..], &[&count, "--seconds", "100"]].concat())?;
    let (worked, printed) = bench.span(1, "0\n")?;
    ensure!(worked && printed.contains("All data on device"), "{printed}");
    ensure!(printed.contains("Successfully spanned volume: ds over"), "{printed}");
    let ended = machine.wait(Duration::from_secs(200))?.success()?;
    let outcome: Value = serde_json::from_str(&ended)?;
    assert_eq!(number(&outcome, "/operations")?, DISK as u64);
    bench.refused(1, "0\n", "an extent of this datastore already")?;
    let report = first.vmkfstools(&["-i", "ds/t.vmdk", "-d", "thin", "ds/c.vmdk", "--verify"])?;
    assert_eq!(number(&report, "/offloaded_bytes")?, (DISK * MIB) as u64, "{report}");
    let reclaimed = second.vmkfstools(&["-y", "100", "ds"])?;
    ensure!(number(&reclaimed, "/unmapped_bytes")? > 1 << 30, "{reclaimed}");
    let new = &bench.devices[1];
    ensure!(first.counter(new, "CLONE_WR")? > 0.0 && second.counter(new, "DELETE")? > 0.0);
    let shown = second.run(&["vmkfstools", "-Ph", "ds"])?;
    ensure!(shown.contains("spanning 2 partitions"), "{shown}");
    let listed = second.run(&["esxcli", "storage", "vmfs", "extent", "list"])?;
    for device in &bench.devices[..2] {
        ensure!(shown.contains(&format!("\t{device}:1")) && listed.contains(device), "{shown}");
    }
    let folder = tempfile::tempdir()?;
    let images = [0, 1].map(|lun| image_of(&bench.array, lun, folder.path()));
    let images = images.into_iter().collect::<Result<Vec<_>>>()?;
    assert_eq!(fsck_all(&images)?, [0; 5]);
    let volume = Fuse::mount_all(&images)?;
    for name in ["t-flat.vmdk", "c-flat.vmdk"] {
        ensure!(volume.read(name)? == written_disk(), "{name} differs");
    }
    drop(volume);
    head_alone(&bench)
}

/// The LUN behind the head is gone: the datastore is degraded, and the head is used.
fn head_alone(bench: &Bench) -> Result<()> {
    bench.array.gantry(&["volume", "unmap", "p/b", "--host", "any"])?;
    let host = &bench.hosts[0];
    host.attempt(&["rescan"])?;
    let shown = host.run(&["vmkfstools", "-P", "ds"])?;
    ensure!(
        shown.contains(&format!("(device {}:1 might be offline)", bench.devices[1])),
        "{shown}"
    );
    let ended = host.attempt(&["file", "touch", "ds/small"])?;
    ensure!(ended.status.success() && ended.stderr.contains("ds is degraded"), "{}", ended.stderr);
    let lost = host.attempt(&["file", "hash", "ds/t.vmdk"])?.failure()?;
    ensure!(lost.contains("is missing"), "{lost}");
    bench.array.gantry(&["volume", "map", "p/b", "--host", "any"])?;
    host.run(&["rescan"])?;
    host.run(&["file", "hash", "ds/t.vmdk"]).map(|_| ())
}

#[test]
fn a_datastore_spans_two_luns_under_a_machine_of_a_host_that_was_not_told() -> Result<()> {
    spans_two_luns(true)
}

#[test]
fn a_datastore_spans_two_luns_with_reservations() -> Result<()> {
    spans_two_luns(false)
}
