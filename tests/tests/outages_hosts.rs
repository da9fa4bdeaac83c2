//! Outages, silent paths and permanent device loss, as a host treats them. Time-outs are ESXi's, divided
//! where a test would wait for them (`--divide-times`).

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use harness::hostkit::{Host, array, fsck, image_of};
use harness::path::Path;
use harness::program::{Finished, Running};
use harness::{Array, Value, number};

/// Divides the time-outs by this: a command is aborted after 3 s.
const FAST: [&str; 2] = ["--divide-times", "10"];

/// More than any of these tests should ever wait; a host that waits without end fails here.
const PATIENCE: Duration = Duration::from_secs(100);

fn fast<'a>(words: &[&'a str]) -> Vec<&'a str> {
    [&FAST[..], words].concat()
}

/// The address of a LUN by way of a path.
fn by_way_of(path: &Path, array: &Array, url: &str) -> String {
    url.replace(&array.portal().to_string(), &path.address().to_string())
}

/// A host with a datastore `ds`, on which there is a disk `t.vmdk` of 64 MiB.
fn with_disk(urls: &[&str]) -> Result<(Host, String)> {
    let host = Host::new("esx1", urls)?;
    let device = host.devices()?.remove(0);
    host.vmkfstools(&["-C", "vmfs5", "-S", "ds", &format!("{device}:1")])?;
    host.vmkfstools(&["-c", "64m", "-d", "eagerzeroedthick", "ds/t.vmdk"])?;
    Ok((host, device))
}

/// A machine that uses the disk for some seconds.
fn machine(host: &Host, global: &[&str], seconds: &str, more: &[&str]) -> Result<Running> {
    let run = ["vm", "run", "ds/t.vmdk", "--pattern", "random-mix4k", "--seconds", seconds];
    host.start(&[global, &run, more].concat())
}

fn ended(machine: Running) -> Result<(Finished, Value)> {
    let finished = machine.wait(PATIENCE)?;
    ensure!(finished.status.success(), "{}{}", finished.stdout, finished.stderr);
    let figures = serde_json::from_str(&finished.stdout).context("figures")?;
    Ok((finished, figures))
}

fn is_whole(array: &Array) -> Result<()> {
    let folder = tempfile::tempdir()?;
    ensure!(fsck(&image_of(array, 0, folder.path())?)? == [0; 5], "fsck.vmfs complains");
    Ok(())
}

#[test]
fn an_array_that_is_killed_and_back_in_six_seconds_costs_a_machine_nothing() -> Result<()> {
    let mut array = Array::start()?;
    array.create_pool("p", "2G")?;
    array.create_lun("p/v", "1G")?;
    let (host, _) = with_disk(&[&array.lun_url(0)?])?;
    let machine = machine(&host, &[], "10", &["--outstanding", "8"])?;
    thread::sleep(Duration::from_secs(2));
    array.kill()?;
    thread::sleep(Duration::from_secs(6));
    array.restart()?;
    let (finished, figures) = ended(machine)?;
    assert_eq!(number(&figures, "/stuns")?, 1);
    let stunned = figures["stunned_seconds"].as_f64().context("seconds")?;
    ensure!((5.0..12.0).contains(&stunned), "stunned for {stunned} s");
    ensure!(number(&figures, "/operations")? > 0);
    for words in ["all paths are down", "stunned", "a path is back", "resumed"] {
        ensure!(finished.stderr.contains(words), "no '{words}' in {}", finished.stderr);
    }
    host.run(&["file", "touch", "ds/after"])?;
    is_whole(&array)
}

#[test]
fn a_silent_path_costs_a_datastore_nothing_that_has_another_one() -> Result<()> {
    for ats in ["1", "0"] {
        let array = array(&[("v", "1G")])?;
        let path = Path::start(array.portal())?;
        let url = array.lun_url(0)?;
        let other = by_way_of(&path, &array, &url);
        let host = Host::new("esx1", &[&other, &url])?;
        host.run(&["esxcfg-advcfg", "-s", ats, "/VMFS3/HardwareAcceleratedLocking"])?;
        let device = host.devices()?.remove(0);
        let robin = ["storage", "nmp", "psp", "roundrobin", "deviceconfig", "set", "-t", "iops"];
        host.run(&[&["esxcli"], &robin[..], &["-I", "1", "-d", &device]].concat())?;
        host.vmkfstools(&["-C", "vmfs5", "-S", "ds", &format!("{device}:1")])?;
        host.vmkfstools(&["-c", "64m", "-d", "thin", "ds/t.vmdk"])?;
        let machine = machine(&host, &FAST, "6", &[])?;
        thread::sleep(Duration::from_millis(900));
        path.silence_after(0);
        let (finished, figures) = ended(machine)?;
        ensure!(number(&figures, "/stuns")? == 0, "ATS {ats}: {figures} {}", finished.stderr);
        ensure!(number(&figures, "/operations")? > 0);
        let paths = host.run(&fast(&["esxcli", "storage", "core", "path", "list"]))?;
        ensure!(paths.contains("State: dead") && paths.contains("State: active"), "{paths}");
        is_whole(&array)?;
    }
    Ok(())
}

#[test]
fn a_silent_array_ends_the_doctor_wherever_it_falls_silent() -> Result<()> {
    let array = array(&[("v", "64M")])?;
    let path = Path::start(array.portal())?;
    let url = by_way_of(&path, &array, &array.lun_url(0)?);
    let host = Host::new("esx1", &[])?;
    for bytes in [0, 60, 700, 1500, 4000, 9000] {
        path.silence_after(bytes);
        let begun = Instant::now();
        // What it could not find out is an error or a finding, but there is an end.
        let finished = host.attempt(&fast(&["doctor", &url, "--scratch"]))?;
        let words = format!("{}{}", finished.stdout, finished.stderr);
        ensure!(begun.elapsed() < PATIENCE / 2, "{bytes} bytes: {words}");
        ensure!(!finished.status.success() || words.contains("not answered"), "{bytes}: {words}");
    }
    path.speak();
    host.run(&["doctor", &url, "--scratch"]).map(|_| ())
}

#[test]
fn without_a_path_commands_wait_and_then_fail_and_go_on_when_there_is_one() -> Result<()> {
    let array = array(&[("v", "1G")])?;
    let path = Path::start(array.portal())?;
    let (host, _) = with_disk(&[&by_way_of(&path, &array, &array.lun_url(0)?)])?;
    // A machine waits longer than the host's 140 s, here 1.4.
    let global = ["--divide-times", "100"];
    let patient = machine(&host, &global, "2", &[])?;
    thread::sleep(Duration::from_millis(700));
    path.silence_after(0);
    thread::sleep(Duration::from_secs(4));
    path.speak();
    let (finished, figures) = ended(patient)?;
    ensure!(finished.stderr.contains("commands fail"), "{}", finished.stderr);
    ensure!(number(&figures, "/stuns")? >= 1, "{figures}");
    let held =
        host.start(&[&global[..], &["file", "hold", "ds/t.vmdk", "--seconds", "60"]].concat())?;
    thread::sleep(Duration::from_millis(700));
    path.cut();
    let words = held.wait(PATIENCE)?.failure()?;
    ensure!(words.contains("all paths are down"), "{words}");
    Ok(())
}

#[test]
fn a_device_that_says_that_it_is_gone_is_not_waited_for() -> Result<()> {
    let array = array(&[("v", "1G")])?;
    let (host, _) = with_disk(&[&array.lun_url(0)?])?;
    let machine = machine(&host, &[], "60", &[])?;
    thread::sleep(Duration::from_millis(700));
    let begun = Instant::now();
    array.gantry(&["volume", "unmap", "p/v", "--host", "any"])?;
    let words = machine.wait(PATIENCE)?.failure()?;
    ensure!(words.contains("permanently lost (PDL)"), "{words}");
    ensure!(begun.elapsed() < Duration::from_secs(40), "{:?}", begun.elapsed());
    Ok(())
}

/// A device that does not answer is told of, and costs lists and datastores of others nothing.
#[test]
fn a_silent_device_is_left_out_of_lists_and_other_datastores_are_used() -> Result<()> {
    let array = array(&[("a", "1G"), ("b", "1G")])?;
    let path = Path::start(array.portal())?;
    let silent = by_way_of(&path, &array, &array.lun_url(1)?);
    let (host, device) = with_disk(&[&array.lun_url(0)?])?;
    host.run(&["adapter-add", &silent])?;
    let other = host.devices()?.into_iter().find(|name| *name != device);
    let other = other.context("two devices")?;
    let listed = host.run(&["esxcli", "--formatter=json", "storage", "filesystem", "list"])?;
    let volumes: Value = serde_json::from_str(&listed)?;
    let uuid = volumes[0]["UUID"].as_str().context("an identifier")?.to_owned();
    path.silence_after(0);
    for words in [
        &["esxcli", "storage", "vmfs", "extent", "list"][..],
        &["esxcli", "storage", "vmfs", "lockmode", "list"],
        &["esxcli", "storage", "filesystem", "list"],
        &["esxcli", "storage", "core", "device", "list"],
        &["esxcfg-scsidevs", "-m"],
        &["esxcfg-scsidevs", "-c"],
        // By its identifier, for which all devices are looked at.
        &["file", "touch", &format!("{uuid}/after")],
    ] {
        let finished = host.attempt(&fast(words))?;
        let printed = format!("{}{}", finished.stdout, finished.stderr);
        ensure!(finished.is_success(), "{words:?}: {printed}");
        ensure!(!finished.stdout.contains(&other), "{words:?}: {printed}");
        let is_told = finished.stderr.contains(&other) || words[0] == "file";
        ensure!(is_told, "{words:?}: {printed}");
    }
    for words in [
        &["esxcli", "storage", "core", "device", "list", "-d", &other][..],
        &["vmkfstools", "-C", "vmfs5", "-S", "other", &format!("{other}:1")],
    ] {
        host.attempt(&fast(words))?.failure()?;
    }
    path.speak();
    let devices = host.run(&["esxcli", "storage", "core", "device", "list"])?;
    ensure!(devices.contains(&other) && devices.contains(&device), "{devices}");
    is_whole(&array)
}
