//! The data mover: with offloads and without, whole and cut short, every byte is the same; what
//! falls back says why.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use harness::hostkit::{Fuse, Host, array, fsck, image_of};
use harness::tgt::Tgt;
use harness::{Array, Value, number};

const MIB: u64 = 1 << 20;

/// An array with two LUNs, one host, and a datastore on each: ds0 and ds1.
struct Bench {
    array: Array,
    host: Host,
    devices: Vec<String>,
    folder: tempfile::TempDir,
}

fn bench() -> Result<Bench> {
    let array = array(&[("a", "2G"), ("b", "2G")])?;
    let urls = [array.lun_url(0)?, array.lun_url(1)?];
    let host = Host::new("esx1", &[&urls[0], &urls[1]])?;
    let mut devices = Vec::new();
    for (number, volume) in ["p/a", "p/b"].into_iter().enumerate() {
        let naa = array.gantry_json(&["volume", "show", volume])?["naa"].clone();
        let device = naa.as_str().context("an identifier")?.to_owned();
        let label = format!("ds{number}");
        host.vmkfstools(&["-C", "vmfs5", "-S", &label, &format!("{device}:1")])?;
        devices.push(device);
    }
    Ok(Bench { array, host, devices, folder: tempfile::tempdir()? })
}

impl Bench {
    /// A thin disk of 100 MiB of which some parts are written.
    fn source(&self) -> Result<()> {
        self.host.vmkfstools(&["-c", "100m", "-d", "thin", "ds0/s.vmdk"])?;
        let run = ["vm", "run", "ds0/s.vmdk", "--pattern", "sequential-write1m"];
        self.host.run(&[&run[..], &["--seconds", "60", "--operations", "30"]].concat()).map(|_| ())
    }

    fn image(&self, lun: u16) -> Result<std::path::PathBuf> {
        image_of(&self.array, lun, self.folder.path())
    }

    fn set(&self, path: &str, value: &str) -> Result<()> {
        self.host.run(&["esxcfg-advcfg", "-s", value, path]).map(|_| ())
    }

    fn data(&self, lun: u16, name: &str) -> Result<Vec<u8>> {
        Fuse::mount(&self.image(lun)?)?.read(name)
    }
}

fn reason(report: &Value) -> String {
    let fallbacks = report["fallbacks"].as_object();
    fallbacks.into_iter().flatten().map(|(reason, _)| reason.as_str()).collect()
}

#[test]
fn clones_with_and_without_offload_are_the_source_and_say_how_they_were_made() -> Result<()> {
    let bench = bench()?;
    bench.source()?;
    let mut names = Vec::new();
    for offload in ["1", "0"] {
        bench.set("/DataMover/HardwareAcceleratedMove", offload)?;
        bench.set("/DataMover/HardwareAcceleratedInit", offload)?;
        for format in ["thin", "zeroedthick", "eagerzeroedthick"] {
            let name = format!("{format}{offload}");
            let path = format!("ds1/{name}.vmdk");
            let report = bench.host.vmkfstools(&["-i", "ds0/s.vmdk", "-d", format, &path])?;
            let (by_array, by_host) =
                (number(&report, "/offloaded_bytes")?, number(&report, "/host_bytes")?);
            ensure!(if offload == "1" { by_host == 0 } else { by_array == 0 }, "{report}");
            ensure!(by_array + by_host > 0, "{report}");
            assert_eq!(reason(&report).contains("HardwareAcceleratedMove is 0"), offload == "0");
            names.push(format!("{name}-flat.vmdk"));
        }
    }
    let source = bench.data(0, "s-flat.vmdk")?;
    assert_eq!(source.len() as u64, 100 * MIB);
    let fuse = Fuse::mount(&bench.image(1)?)?;
    for name in names {
        ensure!(fuse.read(&name)? == source, "{name} differs");
    }
    let (rd, wr) = (
        bench.host.counter(&bench.devices[0], "CLONE_RD")?,
        bench.host.counter(&bench.devices[1], "CLONE_WR")?,
    );
    assert!(rd > 0.0 && (rd - wr).abs() < 0.5, "{rd} {wr}");
    let status =
        bench.host.run(&["esxcli", "storage", "core", "device", "vaai", "status", "get"])?;
    assert!(status.contains("   Clone Status: supported\n"), "{status}");
    Ok(())
}

#[test]
fn an_offloaded_clone_moves_next_to_nothing_over_the_wire() -> Result<()> {
    let bench = bench()?;
    bench.host.vmkfstools(&["-c", "256m", "-d", "eagerzeroedthick", "ds0/e.vmdk"])?;
    let cost = |offload: &str, path: &str| -> Result<(Value, u64)> {
        bench.set("/DataMover/HardwareAcceleratedMove", offload)?;
        let before = bench.array.traffic()?;
        let report = bench.host.vmkfstools(&["-i", "ds0/e.vmdk", path])?;
        Ok((report, bench.array.traffic()?.since(before).bytes()))
    };
    let (report, bytes) = cost("1", "ds1/a.vmdk")?;
    let commands = number(&report, "/offloaded_commands")?;
    assert!((64..=68).contains(&commands), "{commands}: 256 MiB by 4 MiB");
    assert!(bytes < 2 * MIB, "{bytes}");
    bench.set("/DataMover/MaxHWTransferSize", "16384")?;
    let commands = number(&cost("1", "ds1/b.vmdk")?.0, "/offloaded_commands")?;
    assert!(
        (16..=20).contains(&commands),
        "{commands}: a few more where a disk is not in one piece"
    );
    let rule = ["claimrule", "add", "-a", "-s", "-m", "128"];
    bench.host.run(&[&["esxcli", "storage", "core"], &rule[..]].concat())?;
    let commands = number(&cost("1", "ds1/c.vmdk")?.0, "/offloaded_commands")?;
    assert!((4..=6).contains(&commands), "{commands}: windows of 64 MiB");
    let (report, bytes) = cost("0", "ds1/d.vmdk")?;
    assert_eq!(number(&report, "/host_bytes")?, 256 * MIB);
    assert!(bytes > 512 * MIB, "{bytes}");
    Ok(())
}

#[test]
fn an_eager_zeroed_source_is_not_offloaded_to_a_thin_destination() -> Result<()> {
    let bench = bench()?;
    bench.host.vmkfstools(&["-c", "16m", "-d", "eagerzeroedthick", "ds0/e.vmdk"])?;
    let report = bench.host.vmkfstools(&["-i", "ds0/e.vmdk", "-d", "thin", "ds1/t.vmdk"])?;
    assert_eq!(number(&report, "/offloaded_bytes")?, 0);
    assert!(reason(&report).contains("eagerzeroedthick and the destination VMDK type is thin"));
    Ok(())
}

#[test]
fn a_migration_with_a_live_writer_loses_none_of_its_writes() -> Result<()> {
    let bench = bench()?;
    bench.source()?;
    let mut expected = bench.data(0, "s-flat.vmdk")?;
    let printed =
        bench.host.run(&["vm", "migrate", "ds0/s.vmdk", "ds1/m.vmdk", "--writes", "12"])?;
    let outcome: Value = serde_json::from_str(&printed)?;
    let writes = outcome["writes"].as_array().context("writes")?;
    assert_eq!(writes.len(), 24);
    for (number, at) in writes.iter().enumerate() {
        let at = usize::try_from(at.as_u64().context("a place")?)?;
        expected[at..at + 65_536].fill(number as u8 | 1);
    }
    assert!(bench.data(1, "m-flat.vmdk")? == expected);
    assert!(!bench.host.run(&["file", "ls", "ds0"])?.contains("s.vmdk"));
    assert_eq!(fsck(&bench.image(0)?)?, [0; 5]);
    Ok(())
}

#[test]
fn inflate_eager_zero_overwrite_and_punch_keep_or_clear_what_they_should() -> Result<()> {
    let bench = bench()?;
    bench.source()?;
    let source = bench.data(0, "s-flat.vmdk")?;
    let tell = |words: &[&str]| bench.host.vmkfstools(words);
    let zeroed = number(&tell(&["-j", "ds0/s.vmdk"])?, "/zeroed_bytes")?;
    assert!(zeroed > 0);
    assert!(bench.data(0, "s-flat.vmdk")? == source);
    let punched = tell(&["-K", "ds0/s.vmdk"])?;
    assert!(number(&punched, "/unmapped_bytes")? >= zeroed);
    assert!(bench.data(0, "s-flat.vmdk")? == source);
    tell(&["-c", "20m", "ds0/z.vmdk"])?;
    assert_eq!(number(&tell(&["-k", "ds0/z.vmdk"])?, "/zeroed_bytes")?, 20 * MIB);
    assert_eq!(number(&tell(&["-k", "ds0/z.vmdk"])?, "/zeroed_bytes")?, 0);
    tell(&["-w", "ds0/s.vmdk"])?;
    assert!(bench.data(0, "s-flat.vmdk")?.iter().all(|byte| *byte == 0));
    assert_eq!(fsck(&bench.image(0)?)?, [0; 5]);
    Ok(())
}

#[test]
fn reclaim_gives_the_space_of_deleted_disks_back_to_the_pool() -> Result<()> {
    let bench = bench()?;
    bench.source()?;
    let mapped = || -> Result<u64> {
        number(&bench.array.gantry_json(&["volume", "show", "p/a"])?, "/mapped_bytes")
    };
    let with_disk = mapped()?;
    bench.host.vmkfstools(&["-U", "ds0/s.vmdk"])?;
    assert!(mapped()? + MIB > with_disk, "a deleted file's blocks stay mapped");
    bench.host.run(&["esxcli", "storage", "vmfs", "unmap", "-l", "ds0", "-n", "200"])?;
    assert!(mapped()? + MIB < with_disk);
    assert!(bench.host.counter(&bench.devices[0], "DELETE")? > 0.0);
    assert_eq!(fsck(&bench.image(0)?)?, [0; 5]);
    Ok(())
}

#[test]
fn a_cancelled_clone_leaves_nothing_behind() -> Result<()> {
    let bench = bench()?;
    bench.set("/DataMover/HardwareAcceleratedMove", "0")?;
    bench.host.vmkfstools(&["-c", "900m", "-d", "eagerzeroedthick", "ds0/e.vmdk"])?;
    let clone = bench.host.start(&["vmkfstools", "-i", "ds0/e.vmdk", "ds1/c.vmdk"])?;
    thread::sleep(Duration::from_millis(400));
    let pid = clone.process_id().to_string();
    harness::program::run(Path::new("kill"), &["-INT", &pid], Duration::from_secs(5))?.success()?;
    let said = clone.wait(Duration::from_secs(60))?.failure()?;
    assert!(said.contains("Cancelled"), "{said}");
    assert!(!bench.host.run(&["file", "ls", "ds1"])?.contains("c.vmdk"));
    assert_eq!(fsck(&bench.image(1)?)?, [0; 5]);
    Ok(())
}

/// tgt has no EXTENDED COPY: the host finds out, copies itself, and does not ask again.
#[test]
fn on_an_array_without_offloads_everything_works_and_says_what_fell_back() -> Result<()> {
    let tgt = Tgt::start(2 << 30)?;
    let host = Host::new("esx1", &[&tgt.url("")])?;
    let device = host.devices()?.remove(0);
    host.vmkfstools(&["-C", "vmfs5", "-S", "ds", &format!("{device}:1")])?;
    host.vmkfstools(&["-c", "20m", "-d", "eagerzeroedthick", "ds/e.vmdk"])?;
    for path in ["ds/a.vmdk", "ds/b.vmdk"] {
        let report = host.vmkfstools(&["-i", "ds/e.vmdk", path])?;
        assert_eq!(number(&report, "/host_bytes")?, 20 * MIB);
        assert!(reason(&report).contains("does not support EXTENDED COPY"), "{report}");
    }
    assert!(host.counter(&device, "CLONE_F")? <= 8.0);
    let status = host.run(&["esxcli", "storage", "core", "device", "vaai", "status", "get"])?;
    assert!(status.contains("   Clone Status: unsupported\n"), "{status}");
    let local = tempfile::tempdir()?;
    let path = local.path().join("b");
    host.run(&["file", "get", "ds/b-flat.vmdk", path.to_str().context("a path")?])?;
    assert!(fs::read(path)? == vec![0; 20 * MIB as usize]);
    Ok(())
}
