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
            let words = ["-i", "ds0/s.vmdk", "--verify", "-d", format, &path];
            let report = bench.host.vmkfstools(&words)?;
            let sum = bench.host.run(&["file", "hash", &path])?;
            assert_eq!(report["verified"].as_str(), Some(sum.trim()));
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
    let rule = "add -c VAAI -r 914 -t vendor -V GANTRY -P VMW_VAAIP_T10 -a -s -m 128";
    for words in [rule, "load -c VAAI"] {
        let words: Vec<&str> = words.split(' ').collect();
        bench.host.run(&[&["esxcli", "storage", "core", "claimrule"], &words[..]].concat())?;
    }
    let commands = number(&cost("1", "ds1/c.vmdk")?.0, "/offloaded_commands")?;
    assert!((2..=6).contains(&commands), "{commands}: 128 MiB, or less where a window is shorter");
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
    // It is read block by block, and zeros stay behind.
    assert_eq!(number(&report, "/host_bytes")?, 0);
    assert_eq!(number(&report, "/skipped_bytes")?, 16 << 20);
    bench.source()?;
    bench.host.vmkfstools(&["-i", "ds0/s.vmdk", "-d", "eagerzeroedthick", "ds0/z.vmdk"])?;
    let report = bench.host.vmkfstools(&["-i", "ds0/z.vmdk", "-d", "thin", "ds1/u.vmdk"])?;
    let copied = number(&report, "/host_bytes")?;
    assert!(copied > 0 && number(&report, "/skipped_bytes")? > 0, "{report}");
    assert!(bench.data(1, "u-flat.vmdk")? == bench.data(0, "s-flat.vmdk")?);
    assert_eq!(fsck(&bench.image(1)?)?, [0; 5]);
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
    let is_thin = || -> Result<bool> {
        let text = bench.data(0, "s.vmdk")?;
        Ok(String::from_utf8_lossy(&text).contains("thinProvisioned = \"1\""))
    };
    assert!(is_thin()?);
    let zeroed = number(&tell(&["-j", "ds0/s.vmdk"])?, "/zeroed_bytes")?;
    assert!(zeroed > 0);
    assert!(!is_thin()?);
    assert!(bench.data(0, "s-flat.vmdk")? == source);
    let punched = tell(&["-K", "ds0/s.vmdk"])?;
    assert!(number(&punched, "/unmapped_bytes")? >= zeroed);
    assert!(is_thin()?);
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
fn a_guests_unmap_reaches_the_array_only_with_enable_block_delete() -> Result<()> {
    let bench = bench()?;
    bench.source()?;
    let expected = bench.data(0, "s-flat.vmdk")?;
    let trim = |offset: u64, length: u64| -> Result<u64> {
        let range = ["--offset", &offset.to_string(), "--length", &length.to_string()];
        let words = [&["vm", "trim", "ds0/s.vmdk"], &range[..]].concat();
        let report: Value = serde_json::from_str(&bench.host.run(&words)?)?;
        number(&report, "/report/unmapped_bytes")
    };
    // Two whole blocks are in it: first without, then two others with the setting.
    assert_eq!(trim(MIB + 512, 3 * MIB)?, 0);
    bench.set("/VMFS3/EnableBlockDelete", "1")?;
    assert_eq!(trim(5 * MIB, 2 * MIB)?, 2 * MIB);
    assert_eq!(trim(5 * MIB, 2 * MIB)?, 0, "it was given back already");
    assert!(trim(99 * MIB, 2 * MIB).is_err());
    let found = bench.data(0, "s-flat.vmdk")?;
    for (block, (is, was)) in
        found.chunks(MIB as usize).zip(expected.chunks(MIB as usize)).enumerate()
    {
        match block {
            2 | 3 | 5 | 6 => ensure!(is.iter().all(|byte| *byte == 0), "block {block}"),
            _ => ensure!(is == was, "block {block}"),
        }
    }
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
    let ended = clone.wait(Duration::from_secs(60))?;
    assert!(
        ended.stdout.contains("% done.\r") && !ended.stdout.contains("100%"),
        "{}",
        ended.stdout
    );
    let said = ended.failure()?;
    assert!(said.contains("Cancelled"), "{said}");
    assert!(!bench.host.run(&["file", "ls", "ds1"])?.contains("c.vmdk"));
    assert_eq!(fsck(&bench.image(1)?)?, [0; 5]);
    Ok(())
}

/// What a host does to its disks, each word of `vmkfstools` once; returns every file's content.
fn a_days_work(offloads: &str) -> Result<Vec<(String, Vec<u8>)>> {
    let bench = bench()?;
    for path in [
        "/DataMover/HardwareAcceleratedMove",
        "/DataMover/HardwareAcceleratedInit",
        "/VMFS3/UseATSForHBOnVMFS5",
    ] {
        bench.set(path, offloads)?;
    }
    let offloaded = || -> Result<f64> {
        let count = |column| bench.host.counter(&bench.devices[0], column);
        Ok(count("ZERO")? + count("CLONE_RD")?)
    };
    let before = offloaded()?;
    bench.source()?;
    let words = [
        "-c 16m -d zeroedthick ds0/z.vmdk",
        "-c 16m -d eagerzeroedthick ds0/e.vmdk",
        "-i ds0/s.vmdk -d thin ds1/a.vmdk",
        "-i ds1/a.vmdk -d eagerzeroedthick ds1/b.vmdk",
        "-i ds0/s.vmdk -d zeroedthick ds0/c.vmdk",
        "-j ds1/a.vmdk",
        "-k ds0/z.vmdk",
        "-K ds0/s.vmdk",
        "-X 20m ds0/e.vmdk",
        "-k ds0/e.vmdk",
        "-w ds0/c.vmdk",
    ];
    for (number, line) in words.iter().enumerate() {
        bench.host.vmkfstools(&line.split(' ').collect::<Vec<_>>())?;
        if number == 0 {
            let run = ["vm", "run", "ds0/z.vmdk", "--pattern", "random-write4k"];
            bench.host.run(&[&run[..], &["--operations", "100", "--seconds", "60"]].concat())?;
        }
    }
    bench.host.run(&["vm", "migrate", "ds0/z.vmdk", "ds1/z.vmdk", "--writes", "8"])?;
    bench.host.vmkfstools(&["-y", "20", "ds0"])?;
    let mut found = Vec::new();
    for (lun, names) in [(0, &["s", "e", "c"][..]), (1, &["a", "b", "z"])] {
        let image = bench.image(lun)?;
        assert_eq!(fsck(&image)?, [0; 5]);
        let volume = Fuse::mount(&image)?;
        for name in names {
            found.push(((*name).to_owned(), volume.read(&format!("{name}-flat.vmdk"))?));
        }
    }
    assert_eq!(offloaded()? > before, offloads == "1");
    Ok(found)
}

#[test]
fn all_offloads_and_none_leave_the_same_bytes() -> Result<()> {
    for ((name, with), (_, without)) in a_days_work("1")?.into_iter().zip(a_days_work("0")?) {
        ensure!(with == without, "{name} differs");
        ensure!(
            name == "c" || with.iter().any(|byte| *byte != 0) || name == "e",
            "{name} is empty"
        );
    }
    Ok(())
}

/// A file of a datastore, read by the host itself.
fn content(host: &Host, path: &str) -> Result<Vec<u8>> {
    let local = tempfile::tempdir()?;
    let to = local.path().join("file");
    host.run(&["file", "get", path, to.to_str().context("a path")?])?;
    Ok(fs::read(to)?)
}

/// Two hosts' arrays of the same product: EXTENDED COPY is tried, fails, and the host copies.
#[test]
fn a_clone_that_the_array_cannot_do_is_done_by_the_host_and_counted_as_failed() -> Result<()> {
    let (one, two) = (array(&[("a", "1G")])?, array(&[("a", "1G")])?);
    let host = Host::new("esx1", &[&one.lun_url(0)?, &two.lun_url(0)?])?;
    let devices = host.devices()?;
    for (number, device) in devices.iter().enumerate() {
        let label = format!("ds{number}");
        host.vmkfstools(&["-C", "vmfs5", "-S", &label, &format!("{device}:1")])?;
    }
    host.vmkfstools(&["-c", "24m", "ds0/s.vmdk"])?;
    let run = ["vm", "run", "ds0/s.vmdk", "--pattern", "sequential-write1m"];
    host.run(&[&run[..], &["--operations", "20", "--seconds", "60"]].concat())?;
    let report = host.vmkfstools(&["-i", "ds0/s.vmdk", "ds1/c.vmdk"])?;
    assert_eq!(reason(&report), "the array failed EXTENDED COPY", "{report}");
    assert!(number(&report, "/failed_commands")? > 0);
    assert!(host.counter(&devices[1], "CLONE_F")? > 0.0);
    assert!(content(&host, "ds1/c-flat.vmdk")? == content(&host, "ds0/s-flat.vmdk")?);
    // Inside one array the offload is as good as ever.
    let report = host.vmkfstools(&["-i", "ds1/c.vmdk", "ds1/d.vmdk"])?;
    assert_eq!(number(&report, "/host_bytes")?, 0);
    Ok(())
}

/// Another vendor's LUN, and one whose physical blocks are larger than the disk's last piece.
#[test]
fn clones_to_other_arrays_and_unaligned_ones_are_not_offloaded() -> Result<()> {
    let (ours, tgt) = (array(&[("a", "1G")])?, Tgt::start(1 << 30)?);
    let update = ["--op", "update", "--mode", "logicalunit", "--tid", "1", "--lun", "1"];
    tgt.control(&[&update[..], &["--params", "lbppbe=3"]].concat())?;
    let host = Host::new("esx1", &[&ours.lun_url(0)?, &tgt.url("")])?;
    for device in host.devices()? {
        let listed = host.run(&["esxcli", "storage", "core", "device", "list", "-d", &device])?;
        let label = if listed.contains("Vendor: IET") { "tgt" } else { "ours" };
        host.vmkfstools(&["-C", "vmfs5", "-S", label, &format!("{device}:1")])?;
        // 10 MiB, and a sector more.
        for (size, name) in [("10485760", "e"), ("10486272", "u")] {
            let path = format!("{label}/{name}.vmdk");
            host.vmkfstools(&["-c", size, "-d", "eagerzeroedthick", &path])?;
        }
    }
    let reasons = |from: &str, to: &str| -> Result<String> {
        let report = host.vmkfstools(&["-i", from, to])?;
        assert_eq!(number(&report, "/offloaded_commands")?, 0);
        assert!(content(&host, &to.replace(".", "-flat."))?.iter().all(|byte| *byte == 0));
        Ok(reason(&report))
    };
    let other = "source and destination are on different arrays";
    assert_eq!(reasons("ours/e.vmdk", "tgt/x.vmdk")?, other);
    assert_eq!(reasons("tgt/e.vmdk", "ours/x.vmdk")?, other);
    let said = reasons("tgt/u.vmdk", "tgt/y.vmdk")?;
    assert!(said.contains("not aligned to the minimum alignment"), "{said}");
    Ok(())
}

/// Redo logs in the files of a virtual machine, as QEMU reads them, in a clone and after removal.
#[test]
fn snapshots_of_a_machine_are_redo_logs_that_qemu_reads_and_clones_do_not_offload() -> Result<()> {
    let bench = bench()?;
    let vm = |words: &str| {
        bench.host.run(&[&["vm"], &words.split(' ').collect::<Vec<_>>()[..]].concat())
    };
    let run = "--pattern random-mix4k --seconds 60 --operations 300";
    vm("create ds0/m --disk 24m:thin --disk 8m:eagerzeroedthick")?;
    vm(&format!("run ds0/m {run}"))?;
    for label in ["one", "two"] {
        vm(&format!("snapshot ds0/m {label}"))?;
        vm("run ds0/m --pattern sequential-write1m --seconds 60 --operations 9")?;
        vm(&format!("run ds0/m {run}"))?;
    }
    assert_eq!(vm("snapshots ds0/m")?, "one\ntwo\n");
    let machine = |lun: u16, name: &str, layers: &[&str]| -> Result<Vec<u8>> {
        let local = tempfile::tempdir()?;
        let raw = local.path().join("raw");
        let [from, to] = [&local.path().join(layers.last().context("a layer")?), &raw];
        let [from, to] = [from, to].map(|path| path.to_str().unwrap_or_default());
        Fuse::mount(&bench.image(lun)?)?.copy(name, layers, local.path())?;
        harness::initiator::qemu_img(&["convert", "-f", "vmdk", "-O", "raw", from, to])?;
        Ok(fs::read(&raw)?)
    };
    const ALL: [&str; 6] = [
        "m-flat.vmdk",
        "m-000001-delta.vmdk",
        "m-000002-delta.vmdk",
        "m.vmdk",
        "m-000001.vmdk",
        "m-000002.vmdk",
    ];
    const BASE: [&str; 2] = ["m-flat.vmdk", "m.vmdk"];
    let newest = machine(0, "m", &ALL)?;
    assert_eq!(newest.len(), 24 << 20);
    assert!(machine(0, "m", &BASE)? != newest);
    let report = bench.host.vmkfstools(&["-i", "ds0/m/m-000002.vmdk", "ds1/one.vmdk"])?;
    assert!(reason(&report).contains("sparse or hosted"), "{report}");
    assert!(bench.data(1, "one-flat.vmdk")? == newest);
    let report: Value =
        serde_json::from_str(vm("deploy ds0/m ds1/copy")?.lines().last().context("a report")?)?;
    let why = reason(&report["report"]);
    assert_eq!(why, "the source virtual machine has a snapshot", "{report}");
    assert!(machine(1, "copy", &["copy-flat.vmdk", "copy.vmdk"])? == newest);
    bench.host.attempt(&["vm", "unsnapshot", "ds0/m", "three"])?.failure()?;
    vm("unsnapshot ds0/m one")?;
    let left = ["m-flat.vmdk", "m-000002-delta.vmdk", "m.vmdk", "m-000002.vmdk"];
    assert!(machine(0, "m", &left)? == newest);
    vm("unsnapshot ds0/m")?;
    assert!(machine(0, "m", &BASE)? == newest);
    let files = bench.host.run(&["file", "ls", "ds0/m"])?;
    assert!(!files.contains("-0000"), "{files}");
    let moved = vm("relocate ds0/m ds1/moved --writes 5")?;
    let moved: Value = serde_json::from_str(moved.lines().last().context("a report")?)?;
    assert_eq!(number(&moved, "/report/host_bytes")?, 0, "{moved}");
    assert!(
        bench
            .host
            .attempt(&["vm", "run", "ds0/m", "--pattern", "random-read4k"])?
            .failure()
            .is_ok()
    );
    vm("run ds1/moved --pattern random-read4k --seconds 60 --operations 10")?;
    for machine in ["ds1/moved", "ds1/copy"] {
        vm(&format!("destroy {machine}"))?;
    }
    assert_eq!((fsck(&bench.image(0)?)?, fsck(&bench.image(1)?)?), ([0; 5], [0; 5]));
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
