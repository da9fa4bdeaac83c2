//! Snapshots against a model in memory; QEMU is the witness for what lies in the files.

use std::ops::ControlFlow;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::*;
use crate::chain::Chain;
use crate::format::{Options, format};
use crate::image::FileDisk;
use crate::partition::Table;
use crate::vmdk::DiskFormat;
use crate::{Locking, Mount, Uuid};

const SIZE: u64 = 9 << 20;

struct Bench {
    folder: tempfile::TempDir,
    volume: Volume<FileDisk>,
    model: Vec<u8>,
    random: u64,
}

fn mounted(disk: FileDisk, host: u8) -> Result<Volume<FileDisk>> {
    let mount = Mount {
        host: Uuid([host; 16]),
        name: format!("esx{host}"),
        locking: Locking::Ats,
        ats_heartbeat: true,
    };
    Ok(Volume::mount(disk, mount)?)
}

fn bench() -> Result<Bench> {
    let folder = tempfile::tempdir()?;
    let mut disk = FileDisk::create(&folder.path().join("lun.img"), 2 << 30)?;
    let options = Options {
        label: "ds".into(),
        uuid: Uuid([7; 16]),
        table: Table::None,
        ats_only: true,
        lease_ms: Some(200),
    };
    format(&mut disk, &options)?;
    let mut volume = mounted(disk, 1)?;
    let file = volume.create_disk("d.vmdk", SIZE, DiskFormat::Thin)?;
    volume.close(file)?;
    Ok(Bench { folder, volume, model: vec![0; SIZE as usize], random: 77 })
}

impl Bench {
    fn below(&mut self, limit: u64) -> u64 {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(99);
        (self.random >> 33) % limit
    }

    /// Some writes of any place and length.
    fn write(&mut self, chain: &mut Chain, count: u32) -> Result<()> {
        for _ in 0..count {
            let length = match self.below(8) {
                0 => 1 + self.below(6000),
                1..=3 => 8,
                _ => 1 + self.below(20),
            };
            let at = self.below(SIZE / 512 - length) * 512;
            let seed = self.below(255) as u8;
            let bytes: Vec<u8> =
                (0..length * 512).map(|n| seed ^ (n / 512) as u8 ^ n as u8).collect();
            self.volume.write_chain(chain, at, &bytes)?;
            self.model[at as usize..at as usize + bytes.len()].copy_from_slice(&bytes);
        }
        Ok(())
    }

    fn check(&mut self, chain: &mut Chain) -> Result<()> {
        let mut found = vec![1; SIZE as usize];
        self.volume.read_chain(chain, 0, &mut found)?;
        ensure!(found == self.model, "the chain {:?} reads otherwise", chain.paths());
        Ok(())
    }

    /// What QEMU finds in the files.
    fn witness(&mut self, names: &[&str]) -> Result<Vec<u8>> {
        let out = tempfile::tempdir()?;
        for name in names {
            let delta = if name.contains('-') { "-delta.vmdk" } else { "-flat.vmdk" };
            for name in [(*name).to_owned(), name.replace(".vmdk", delta)] {
                let image = self.folder.path().join("lun.img");
                let output = Command::new("debugvmfs").arg(image).args(["cat", &name]).output()?;
                ensure!(output.status.success(), "debugvmfs cat {name}: {output:?}");
                std::fs::write(out.path().join(&name), output.stdout)?;
            }
        }
        let last = out.path().join(names.last().context("a disk")?);
        convert(&last, &out.path().join("raw"))
    }
}

fn convert(from: &Path, to: &Path) -> Result<Vec<u8>> {
    let words = ["convert", "-f", "vmdk", "-O", "raw"];
    let output = Command::new("qemu-img").args(words).arg(from).arg(to).output()?;
    ensure!(output.status.success(), "qemu-img: {}", String::from_utf8_lossy(&output.stderr));
    Ok(std::fs::read(to)?)
}

fn to_the_end(_: u64) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

#[test]
fn snapshots_read_as_the_disk_did_and_qemu_reads_them_alike() -> Result<()> {
    let mut bench = bench()?;
    let mut chain = bench.volume.open_chain("d.vmdk", LockMode::Exclusive)?;
    bench.write(&mut chain, 30)?;
    let before = bench.model.clone();
    assert_eq!(bench.volume.snapshot(&mut chain)?, "d-000001.vmdk");
    bench.write(&mut chain, 60)?;
    assert_eq!(bench.volume.snapshot(&mut chain)?, "d-000002.vmdk");
    bench.write(&mut chain, 60)?;
    bench.check(&mut chain)?;
    bench.volume.close_chain(chain)?;
    let mut chain = bench.volume.open_chain("d-000002.vmdk", LockMode::Exclusive)?;
    bench.check(&mut chain)?;
    bench.write(&mut chain, 20)?;
    bench.volume.close_chain(chain)?;
    let names = ["d.vmdk", "d-000001.vmdk", "d-000002.vmdk"];
    ensure!(bench.witness(&names)? == bench.model, "QEMU reads otherwise");
    ensure!(bench.witness(&names[..1])? == before, "the base changed");
    Ok(())
}

#[test]
fn snapshots_are_removed_in_any_order_and_leave_nothing_behind() -> Result<()> {
    for order in [[0, 0, 0], [2, 1, 0], [1, 0, 0]] {
        let mut bench = bench()?;
        let free = bench.volume.space()?.free_bytes;
        let mut chain = bench.volume.open_chain("d.vmdk", LockMode::Exclusive)?;
        for _ in 0..3 {
            bench.write(&mut chain, 25)?;
            bench.volume.snapshot(&mut chain)?;
        }
        bench.write(&mut chain, 25)?;
        for number in order {
            let gone = bench.volume.merge_down(&mut chain, number, &mut to_the_end)?;
            bench.volume.remove_disk(&gone.context("it was not stopped")?)?;
            bench.check(&mut chain)?;
            bench.write(&mut chain, 5)?;
        }
        assert_eq!(chain.paths(), ["d.vmdk"]);
        bench.volume.close_chain(chain)?;
        ensure!(bench.witness(&["d.vmdk"])? == bench.model, "QEMU reads otherwise");
        let names = bench.volume.list("/")?;
        assert_eq!(names.iter().filter(|entry| entry.name.contains(".vmdk")).count(), 2);
        bench.volume.remove_disk("d.vmdk")?;
        assert_eq!(bench.volume.space()?.free_bytes, free);
    }
    Ok(())
}

#[test]
fn a_merge_that_is_stopped_can_be_done_again() -> Result<()> {
    let mut bench = bench()?;
    let mut chain = bench.volume.open_chain("d.vmdk", LockMode::Exclusive)?;
    bench.volume.snapshot(&mut chain)?;
    bench.write(&mut chain, 50)?;
    let mut heard = Vec::new();
    let stopped = bench.volume.merge_down(&mut chain, 0, &mut |done| {
        heard.push(done);
        if heard.len() == 2 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    assert_eq!((stopped, heard), (None, vec![200, 400]));
    bench.write(&mut chain, 5)?;
    bench.check(&mut chain)?;
    assert!(bench.volume.merge_down(&mut chain, 0, &mut to_the_end)?.is_some());
    bench.check(&mut chain)
}

/// The header is behind what was taken when a host dies: it must never say that what holds data is
/// free.
#[test]
fn what_a_host_wrote_before_it_died_is_kept_and_not_written_over() -> Result<()> {
    let mut bench = bench()?;
    let mut chain = bench.volume.open_chain("d.vmdk", LockMode::Exclusive)?;
    let path = bench.volume.snapshot(&mut chain)?;
    bench.write(&mut chain, 40)?;
    drop(chain);
    let disk = bench.volume.disk().another_host();
    bench.volume = mounted(disk, 2)?;
    let mut chain = bench.volume.open_chain(&path, LockMode::Exclusive)?;
    bench.check(&mut chain)?;
    bench.write(&mut chain, 40)?;
    bench.check(&mut chain)
}

#[test]
fn wrong_chains_and_ranges_are_refused() -> Result<()> {
    let mut bench = bench()?;
    let mut chain = bench.volume.open_chain("d.vmdk", LockMode::Exclusive)?;
    for (offset, length) in [(1, 512), (0, 100), (SIZE, 512), (SIZE - 512, 1024), (u64::MAX, 512)] {
        assert!(bench.volume.write_chain(&mut chain, offset, &vec![0; length]).is_err());
        assert!(bench.volume.read_chain(&mut chain, offset, &mut vec![0; length]).is_err());
    }
    assert!(bench.volume.merge_down(&mut chain, 0, &mut to_the_end).is_err());
    let path = bench.volume.snapshot(&mut chain)?;
    bench.volume.close_chain(chain)?;
    let mut chain = bench.volume.open_chain(&path, LockMode::ReadOnly)?;
    let refused = bench.volume.write_chain(&mut chain, 0, &[0; 512]);
    assert!(matches!(refused, Err(Error::ReadOnly)), "{refused:?}");
    assert!(bench.volume.merge_down(&mut chain, 0, &mut to_the_end).is_err());
    bench.volume.close_chain(chain)?;
    let mut delta = bench.volume.open("d-000001-delta.vmdk", LockMode::Exclusive)?;
    bench.volume.write_at(&mut delta, 0, b"KDMV")?;
    bench.volume.close(delta)?;
    let refused = bench.volume.open_chain(&path, LockMode::ReadOnly).map(|_| ());
    assert!(matches!(refused, Err(Error::Format(_))), "{refused:?}");
    let mut descriptor = bench.volume.disk_descriptor(&path)?;
    descriptor.parent = Some(("d-000001.vmdk".into(), 1));
    bench.volume.replace_descriptor(&path, &descriptor)?;
    let refused = bench.volume.open_chain(&path, LockMode::ReadOnly).map(|_| ());
    assert!(matches!(refused, Err(Error::Format(_))), "its own parent: {refused:?}");
    // Nothing stayed locked.
    let chain = bench.volume.open_chain("d.vmdk", LockMode::Exclusive)?;
    Ok(bench.volume.close_chain(chain)?)
}
