//! Machines that live on a LUN: one is installed by the guest and booted by QEMU, whose disk is
//! the LUN by libiscsi; firmware, boot loader, kernel and system come from there.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use guest::{Bench, Need, Report};
use harness::program::run;

/// Installs a system on `$D`: boot loader, kernel, and a root file system with files to compare.
const INSTALL: &str = include_str!("boot/install.sh");

/// How long a machine may take from power-on to power-off.
const LIFE_TIMEOUT: Duration = Duration::from_secs(480);

#[test]
fn a_machine_boots_from_a_lun() -> Result<()> {
    let mut bench = Bench::start(1, 1)?;
    let mut report = Report::new("boot");
    let mut check = |name, run: fn(&mut Bench) -> Result<()>| {
        report.check(&mut bench, name, Need::None, run);
    };
    check("the guest installs a system on the LUN", install);
    check("qemu boots it from iscsi:// and it runs", first_boot);
    check("it boots again after kill -9 of the daemon, with header digests", second_boot);
    check("iPXE, an initiator in firmware, boots the same LUN", firmware_boot);
    check("the guest finds what the machine wrote", look);
    report.finish(&bench)
}

fn install(bench: &mut Bench) -> Result<()> {
    let portal = bench.portals[0];
    bench.log_in(portal, &[])?;
    bench.machine.set("D", &bench.disk(portal, 0))?;
    bench.sh(INSTALL)?;
    bench.log_out(portal)
}

/// Runs a machine with so much of its command line until it powers itself off; returns what it
/// wrote to its console.
fn live(bench: &Bench, words: &[&str]) -> Result<String> {
    let console = bench.array.beside("console");
    let serial = format!("file:{}", console.display());
    let machine = [
        ["-machine", "q35,accel=tcg"],
        ["-nodefaults", "-no-reboot"],
        ["-cpu", "max"],
        ["-m", "512M"],
        ["-display", "none"],
        ["-vga", "std"],
        ["-serial", &serial],
    ];
    let arguments = [machine.as_flattened(), words].concat();
    let outcome = run(Path::new("qemu-system-x86_64"), &arguments, LIFE_TIMEOUT);
    let bytes = fs::read(&console).context("the machine's console")?;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    outcome.and_then(|outcome| outcome.success()).with_context(|| text.clone())?;
    Ok(text)
}

fn boot(bench: &Bench, iscsi: &str, wanted: &str) -> Result<()> {
    let drive = format!("file={},format=raw,if=virtio,cache=none", bench.array.lun_url(0)?);
    let iscsi = format!("initiator-name=iqn.2026-01.org.example:booted{iscsi}");
    let said = live(bench, &["-drive", &drive, "-iscsi", &iscsi])?;
    ensure!(said.contains(wanted), "'{wanted}' is not in\n{said}");
    Ok(())
}

fn first_boot(bench: &mut Bench) -> Result<()> {
    boot(bench, "", "gantry: all files are right, boot 1")
}

fn second_boot(bench: &mut Bench) -> Result<()> {
    bench.array.kill()?;
    bench.array.restart()?;
    boot(bench, ",header-digest=CRC32C", "gantry: all files are right, boot 2")
}

/// The network card's ROM has its orders from a script; the kernel that it loads finds no disk, as
/// nobody tells it of the target, and says so.
fn firmware_boot(bench: &mut Bench) -> Result<()> {
    let folder = bench.array.beside("tftp");
    fs::create_dir_all(&folder)?;
    let (port, target) = (bench.portals[0].port(), bench.array.target_name()?);
    let script = format!("#!ipxe\nsanboot iscsi:10.0.2.2::{port}::{target}\n");
    fs::write(folder.join("boot.ipxe"), script)?;
    let network = format!("user,id=net,tftp={},bootfile=boot.ipxe", folder.display());
    let card = "virtio-net-pci,netdev=net,bootindex=0";
    let said = live(bench, &["-netdev", &network, "-device", card])?;
    let wanted = "gantry: there is no disk";
    ensure!(said.contains(wanted), "'{wanted}' is not in\n{said}");
    Ok(())
}

fn look(bench: &mut Bench) -> Result<()> {
    bench.log_in(bench.portals[0], &[])?;
    let boots = bench.sh("mount -t ext4 $D /mnt/s; cat /mnt/s/boots; umount /mnt/s")?;
    ensure!(boots.trim().lines().count() == 2, "{boots}");
    Ok(())
}
