//! Datastores over several LUNs (`vmkfstools -Z`): machines, clones and UNMAP across the seam,
//! hosts that were not told, an extent that is missing or silent, extents of several arrays;
//! Debian's vmfs-tools read both LUNs.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use harness::hostkit::{Fuse, Host, array, fsck_all, image_of};
use harness::path::Path;
use harness::program::{Finished, Running};
use harness::tgt::Tgt;
use harness::waiting::wait_until;
use harness::{Array, Value, number};
use rustix::process::{Pid, Signal, kill_process};

const MIB: usize = 1 << 20;

/// More than a host should ever wait here.
const PATIENCE: Duration = Duration::from_secs(200);

/// MiB of the machine's disk.
const DISK: usize = 240;

/// MiB of it that the head has room for: it lies on both LUNs.
const NEAR: usize = 120;

/// Fills a datastore with zeroes that the array writes, but for so many MiB.
fn fill_but(host: &Host, left: usize) -> Result<()> {
    let listed = host.run(&["esxcli", "--formatter=json", "storage", "filesystem", "list"])?;
    let volumes: Value = serde_json::from_str(&listed)?;
    let free = volumes[0]["Free"].as_u64().context("free bytes")? as usize / MIB;
    let size = format!("{}m", free.checked_sub(left).context("more is left")?);
    host.vmkfstools(&["-c", &size, "-d", "eagerzeroedthick", "ds/fill.vmdk"]).map(drop)
}

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

/// What `vm run --pattern sequential-write1m` leaves of a disk of so many MiB.
fn written(size: usize) -> Vec<u8> {
    let mut bytes = vec![0x5a; size * MIB];
    for number in 1..=size {
        let at = number % size * MIB;
        bytes[at..at + 8].copy_from_slice(&(number as u64).to_le_bytes());
    }
    bytes
}

/// Does something while a program runs for a tenth of the time only: what it would fill
/// meanwhile lasts on a slow machine too.
fn beside_slowed<T>(program: &Running, work: impl FnOnce() -> Result<T>) -> Result<T> {
    let id = i32::try_from(program.process_id())?;
    let process = Pid::from_raw(id).context("a process id")?;
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let slowed = scope.spawn(|| -> Result<()> {
            while !done.load(Ordering::Relaxed) {
                kill_process(process, Signal::STOP)?;
                thread::sleep(Duration::from_millis(90));
                kill_process(process, Signal::CONT)?;
                thread::sleep(Duration::from_millis(10));
            }
            Ok(())
        });
        let worked = work();
        done.store(true, Ordering::Relaxed);
        slowed.join().expect("a thread that does not panic")?;
        worked
    })
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
    fill_but(second, NEAR)?;
    second.vmkfstools(&["-c", &format!("{DISK}m"), "-d", "thin", "ds/t.vmdk"])?;
    let run = ["vm", "run", "ds/t.vmdk", "--pattern", "sequential-write1m", "--operations"];
    let count = DISK.to_string();
    let machine = second.start(&[&run[..], &[&count, "--seconds", "100"]].concat())?;
    let (worked, printed) = beside_slowed(&machine, || bench.span(1, "0\n"))?;
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
        ensure!(volume.read(name)? == written(DISK), "{name} differs");
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

/// A head of 1 GiB and an extent of 1 GiB behind a path of its own; `near.vmdk` lies on the head,
/// `far.vmdk` on both.
struct Apart {
    array: Array,
    host: Host,
    path: Path,
    devices: Vec<String>,
}

/// MiB of the disk on both, of which [`NEAR`] are on the head.
const FAR: usize = 240;

fn apart() -> Result<Apart> {
    let array = array(&[("a", "1G"), ("b", "1G")])?;
    let path = Path::start(array.portal())?;
    let behind =
        array.lun_url(1)?.replace(&array.portal().to_string(), &path.address().to_string());
    let host = Host::new("esx1", &[&array.lun_url(0)?, &behind])?;
    host.run(&["rescan"])?;
    let mut devices = Vec::new();
    for name in ["p/a", "p/b"] {
        let naa = array.gantry_json(&["volume", "show", name])?["naa"].clone();
        devices.push(naa.as_str().context("an identifier")?.to_owned());
    }
    let [head, extent] = [0, 1].map(|number: usize| format!("{}:1", devices[number]));
    host.vmkfstools(&["-C", "vmfs5", "-S", "ds", &head])?;
    for name in ["near", "late"] {
        let path = format!("ds/{name}.vmdk");
        host.vmkfstools(&["-c", "64m", "-d", "eagerzeroedthick", &path])?;
    }
    fill_but(&host, NEAR)?;
    let ended = host.answer(&["vmkfstools", "-Z", &extent, &head], "0\n")?;
    ensure!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    host.vmkfstools(&["-c", &format!("{FAR}m"), "-d", "thin", "ds/far.vmdk"])?;
    Ok(Apart { array, host, path, devices })
}

impl Apart {
    /// A machine that uses a disk; time-outs are ESXi's, divided by 10.
    fn machine(&self, disk: &str, pattern: &str, more: &[&str]) -> Result<Running> {
        let run = ["--divide-times", "10", "vm", "run", disk, "--pattern", pattern];
        self.host.start(&[&run[..], more].concat())
    }

    fn is_whole(&self) -> Result<()> {
        let folder = tempfile::tempdir()?;
        let images = [0, 1].map(|lun| image_of(&self.array, lun, folder.path()));
        let images = images.into_iter().collect::<Result<Vec<_>>>()?;
        ensure!(fsck_all(&images)? == [0; 5], "fsck.vmfs complains");
        let far = Fuse::mount_all(&images)?.read("far-flat.vmdk")?;
        ensure!(far == written(FAR), "far.vmdk differs");
        Ok(())
    }
}

fn figures(ended: &Finished) -> Result<Value> {
    ensure!(ended.status.success(), "{}{}", ended.stdout, ended.stderr);
    serde_json::from_str(&ended.stdout).context("figures")
}

#[test]
fn an_extent_without_a_path_stops_only_what_lies_on_it_and_nothing_is_lost() -> Result<()> {
    let apart = apart()?;
    let near = apart.machine("ds/near.vmdk", "random-mix4k", &["--seconds", "10"])?;
    let count = FAR.to_string();
    let far = ["--operations", &count, "--seconds", "100", "--patience", "100"];
    // The disk has more than 40 MiB on the extent.
    apart.path.silence_after(40 << 20);
    let far = apart.machine("ds/far.vmdk", "sequential-write1m", &far)?;
    wait_until("the machine is stunned", || Ok(far.complaints()?.contains("stunned:")))?;
    // Who comes now finds the datastore degraded, and the head as good as ever.
    let late = ["--operations", "20", "--seconds", "100"];
    let late = apart.machine("ds/late.vmdk", "sequential-write1m", &late)?;
    let late = late.wait(PATIENCE)?;
    ensure!(late.stderr.contains("ds is degraded"), "{}", late.stderr);
    assert_eq!(number(&figures(&late)?, "/operations")?, 20);
    apart.path.speak();
    let (near, far) = (figures(&near.wait(PATIENCE)?)?, figures(&far.wait(PATIENCE)?)?);
    assert_eq!(number(&near, "/stuns")?, 0);
    ensure!(number(&far, "/stuns")? >= 1, "{far}");
    assert_eq!(number(&far, "/operations")?, FAR as u64);
    apart.is_whole()
}

#[test]
fn an_extent_that_says_that_it_is_gone_fails_what_lies_on_it_with_its_name() -> Result<()> {
    let apart = apart()?;
    let count = FAR.to_string();
    apart.host.run(&[
        "vm",
        "run",
        "ds/far.vmdk",
        "--pattern",
        "sequential-write1m",
        "--operations",
        &count,
    ])?;
    let near = apart.machine("ds/near.vmdk", "random-mix4k", &["--seconds", "6"])?;
    let far = apart.machine("ds/far.vmdk", "random-mix4k", &["--seconds", "100"])?;
    thread::sleep(Duration::from_secs(2));
    apart.array.gantry(&["volume", "unmap", "p/b", "--host", "any"])?;
    let words = far.wait(PATIENCE)?.failure()?;
    for part in [&apart.devices[1], "permanently lost (PDL)"] {
        ensure!(words.contains(part), "no '{part}' in {words}");
    }
    ensure!(!words.contains("all paths are down"), "nobody waits for it: {words}");
    let near = figures(&near.wait(PATIENCE)?)?;
    assert_eq!(number(&near, "/stuns")?, 0);
    let read = apart.host.attempt(&["file", "hash", "ds/far.vmdk"])?.failure()?;
    ensure!(read.contains("is missing: map its LUN"), "{read}");
    apart.array.gantry(&["volume", "map", "p/b", "--host", "any"])?;
    apart.host.run(&["rescan"])?;
    apart.host.run(&["file", "hash", "ds/far.vmdk"]).map(|_| ())
}

#[test]
fn a_device_that_is_an_extent_is_not_formatted() -> Result<()> {
    let apart = apart()?;
    let [head, extent] = [0, 1].map(|number: usize| format!("{}:1", apart.devices[number]));
    let words = ["vmkfstools", "-C", "vmfs5", "-S", "new", &extent];
    let refused = apart.host.attempt(&words)?.failure()?;
    ensure!(refused.contains("is an extent of the datastore on"), "{refused}");
    // A host that does not see the head does not know whose it is.
    let blind = Host::new("esx2", &[&apart.array.lun_url(1)?])?;
    blind.run(&["rescan"])?;
    for typed in ["", "1\n"] {
        let ended = blind.answer(&words, typed)?;
        let printed = String::from_utf8_lossy(&[ended.stdout, ended.stderr].concat()).into_owned();
        ensure!(!ended.status.success() && printed.contains("nothing was changed"), "{printed}");
        ensure!(printed.contains("whose head this host does not see"), "{printed}");
    }
    apart.host.run(&["file", "hash", "ds/far.vmdk"])?;
    // The datastore is gone; what was its extent is free, after the question.
    apart.host.vmkfstools(&["-C", "vmfs5", "-S", "other", &head])?;
    let ended = apart.host.answer(&words, "0\n")?;
    ensure!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    apart.host.run(&["file", "touch", "new/file"]).map(|_| ())
}

/// The reason why a clone was read and written, as its report has it.
fn reason(report: &Value) -> Result<String> {
    let reasons = report["fallbacks"].as_object().context("fallbacks")?;
    ensure!(reasons.len() == 1, "{report}");
    Ok(reasons.keys().next().context("a reason")?.clone())
}

/// A datastore over an extent of `ours` and one of another array. Neither has room for a disk and its
/// copy, and the head has none for a disk: wherever they are laid out, blocks go from array to array.
fn over_two_arrays(ours: &Array, other: &str) -> Result<Host> {
    let host = Host::new("esx1", &[&ours.lun_url(0)?, other])?;
    // tgt has no COMPARE AND WRITE.
    host.run(&["esxcfg-advcfg", "-s", "0", "/VMFS3/HardwareAcceleratedLocking"])?;
    let head = ours.gantry_json(&["volume", "show", "p/a"])?["naa"].clone();
    let head = head.as_str().context("an identifier")?;
    let extent = host.devices()?.into_iter().find(|device| device != head).context("an extent")?;
    let head = format!("{head}:1");
    host.vmkfstools(&["-C", "vmfs5", "-S", "ds", &head])?;
    host.vmkfstools(&["-c", "450m", "-d", "eagerzeroedthick", "ds/fill.vmdk"])?;
    let words = ["vmkfstools", "-Z", &format!("{extent}:1"), &head];
    let ended = host.answer(&words, "0\n")?;
    ensure!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    host.vmkfstools(&["-c", "520m", "-d", "thin", "ds/s.vmdk"])?;
    let run = ["vm", "run", "ds/s.vmdk", "--pattern", "sequential-write1m"];
    host.run(&[&run[..], &["--operations", "520", "--seconds", "100"]].concat())?;
    Ok(host)
}

#[test]
fn a_clone_on_extents_of_two_arrays_is_read_and_written_and_says_why() -> Result<()> {
    let (ours, tgt) = (array(&[("a", "1G")])?, Tgt::start(1 << 30)?);
    let host = over_two_arrays(&ours, &tgt.url(""))?;
    let report = host.vmkfstools(&["-i", "ds/s.vmdk", "-d", "thin", "ds/c.vmdk", "--verify"])?;
    assert_eq!(
        reason(&report)?,
        "the VMFS datastore has multiple LUNs or extents on different arrays"
    );
    assert_eq!(number(&report, "/offloaded_commands")?, 0);
    ensure!(report["verified"].is_string(), "{report}");
    // Two arrays of one product look like one: the array itself refuses.
    let (one, two) = (array(&[("a", "1G")])?, array(&[("a", "1G")])?);
    let host = over_two_arrays(&one, &two.lun_url(0)?)?;
    let report = host.vmkfstools(&["-i", "ds/s.vmdk", "-d", "thin", "ds/c.vmdk", "--verify"])?;
    assert_eq!(reason(&report)?, "the array failed EXTENDED COPY");
    ensure!(number(&report, "/failed_commands")? > 0, "{report}");
    ensure!(report["verified"].is_string(), "{report}");
    // Which of both was asked depends on where the disks lie.
    let refusals = |array: &Array| array.gantry(&["offload", "list", "--json"]);
    let (one, two) = (refusals(&one)?, refusals(&two)?);
    let reason = "copy target device not reachable";
    ensure!(one.contains(reason) || two.contains(reason), "{one}{two}");
    Ok(())
}
