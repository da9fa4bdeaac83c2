//! Volumes on a file, with several hosts; Debian's vmfs-tools are the witness.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;

use super::*;
use crate::file::{FileContent, Fill};
use crate::format::{Options, format};
use crate::image::FileDisk;
use crate::lock::LockMode;
use crate::partition::Table;
use crate::vmdk::DiskFormat;

pub(super) const MIB: u64 = 1 << 20;

pub(super) struct Bench {
    folder: TempDir,
    disk: FileDisk,
}

impl Bench {
    pub(super) fn new(size: u64, lease_ms: u32) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let mut disk = FileDisk::create(&folder.path().join("lun.img"), size)?;
        let options = Options {
            label: "datastore1".into(),
            uuid: Uuid([7; 16]),
            table: Table::None,
            ats_only: false,
            lease_ms: Some(lease_ms),
        };
        format(&mut disk, &options)?;
        Ok(Self { folder, disk })
    }

    pub(super) fn host(&self, number: u8, locking: Locking) -> Result<Volume<FileDisk>> {
        let mount = Mount {
            host: Uuid([number; 16]),
            name: format!("esx{number}"),
            locking,
            ats_heartbeat: true,
        };
        Ok(Volume::mount(self.disk.another_host(), mount)?)
    }

    /// The LUN has so many bytes from then on.
    pub(super) fn enlarge(&mut self, size: u64) -> Result<()> {
        Ok(self.disk.enlarge(size)?)
    }

    /// Another LUN for the same hosts.
    pub(super) fn add_lun(&self, name: &str, size: u64) -> Result<FileDisk> {
        Ok(self.disk.create_beside(&self.folder.path().join(format!("{name}.img")), size)?)
    }

    /// The LUN of the datastore's head.
    pub(super) fn lun(&mut self) -> &mut FileDisk {
        &mut self.disk
    }

    /// The images of all LUNs that the head says belong to the datastore.
    pub(super) fn images(&self) -> Vec<std::path::PathBuf> {
        let names = probe(&mut self.disk.another_host()).map_or(Vec::new(), |found| found.disks);
        let others = names.iter().skip(1).map(|name| format!("{name}.img"));
        let all = std::iter::once("lun.img".to_owned()).chain(others);
        all.map(|name| self.folder.path().join(name)).collect()
    }

    /// What fsck.vmfs counts, which must all be 0.
    pub(super) fn check(&self) -> Result<()> {
        self.check_with_to_be_zeroed(0)
    }

    /// fsck.vmfs calls a block lost that a file has with the flag 'to be zeroed': it compares
    /// addresses with the flag in them.
    pub(super) fn check_with_to_be_zeroed(&self, blocks: u32) -> Result<()> {
        let lost = format!("Lost blocks        : {blocks}");
        let images = self.images();
        let paths = images.iter().map(|image| image.to_str().context("a path"));
        let printed = witness("fsck.vmfs", &paths.collect::<Result<Vec<_>>>()?)?;
        let counts: Vec<&str> = printed
            .lines()
            .filter(|line| {
                ["Unallocated", "Lost", "Undefined", "Orphaned", "Directory"]
                    .iter()
                    .any(|word| line.starts_with(word) && line.contains(" : "))
            })
            .collect();
        ensure!(
            counts.len() == 5 && counts.iter().all(|line| line.ends_with(": 0") || **line == lost),
            "{printed}"
        );
        ensure!(!printed.contains("multiple inodes"), "{printed}");
        Ok(())
    }

    pub(super) fn cat(&self, path: &str) -> Result<Vec<u8>> {
        let output = Command::new("debugvmfs").args(self.images()).args(["cat", path]).output()?;
        ensure!(output.status.success(), "debugvmfs: {output:?}");
        Ok(output.stdout)
    }
}

fn witness(program: &str, arguments: &[&str]) -> Result<String> {
    let output = Command::new(program)
        .args(arguments)
        .output()
        .with_context(|| format!("{program} is missing: 'cargo xtask setup'"))?;
    ensure!(output.status.success(), "{program}: {output:?}");
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

pub(super) fn pattern(length: usize, seed: u64) -> Vec<u8> {
    let mut state = seed | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    (0..length).map(|_| next()).collect()
}

pub(super) fn put(volume: &mut Volume<FileDisk>, path: &str, bytes: &[u8]) -> Result<()> {
    let mut file = volume.create(path)?;
    volume.write_at(&mut file, 0, bytes)?;
    Ok(volume.close(file)?)
}

pub(super) fn get(volume: &mut Volume<FileDisk>, path: &str) -> Result<Vec<u8>> {
    let file = volume.open(path, LockMode::ReadOnly)?;
    let mut bytes = vec![0; file.length() as usize];
    volume.read_at(&file, 0, &mut bytes)?;
    volume.close(file)?;
    Ok(bytes)
}

#[test]
fn a_new_volume_is_accepted_by_the_witness() -> Result<()> {
    let bench = Bench::new(2 << 30, 16_000)?;
    bench.check()?;
    let mut volume = bench.host(1, Locking::Ats)?;
    assert_eq!(volume.label(), "datastore1");
    let names: Vec<_> = volume.list("/")?.into_iter().map(|entry| entry.name).collect();
    let system = [".vh.sf", ".fdc.sf", ".fbb.sf", ".pbc.sf", ".sbc.sf", ".jbc.sf", ".sdd.sf"];
    assert_eq!(names, system);
    volume.unmount()?;
    Ok(())
}

#[test]
fn files_of_every_size_are_read_back_by_us_and_by_the_witness() -> Result<()> {
    let bench = Bench::new(2 << 30, 16_000)?;
    let mut volume = bench.host(1, Locking::Ats)?;
    volume.create_directory("vm")?;
    let sizes = [0, 1, 511, 512, 8192, 8193, MIB as usize, 3 * MIB as usize + 17];
    for size in sizes {
        put(&mut volume, &format!("vm/f{size}"), &pattern(size, size as u64))?;
    }
    for size in sizes {
        let path = format!("vm/f{size}");
        assert!(get(&mut volume, &path)? == pattern(size, size as u64), "{path}");
        assert!(bench.cat(&format!("/{path}"))? == pattern(size, size as u64), "{path}");
    }
    volume.unmount()?;
    bench.check()
}

#[test]
fn a_file_that_grows_piece_by_piece_keeps_what_it_had() -> Result<()> {
    let bench = Bench::new(2 << 30, 16_000)?;
    let mut volume = bench.host(1, Locking::Ats)?;
    let mut file = volume.create("log")?;
    let bytes = pattern(2 * MIB as usize + 5000, 5);
    for (number, piece) in bytes.chunks(3333).enumerate() {
        volume.write_at(&mut file, number as u64 * 3333, piece)?;
    }
    volume.set_length(&mut file, 5000)?;
    volume.set_length(&mut file, 9000)?;
    volume.close(file)?;
    let mut expected = bytes[..5000].to_vec();
    expected.resize(9000, 0);
    assert!(get(&mut volume, "log")? == expected);
    volume.unmount()?;
    bench.check()
}

#[test]
fn a_file_of_pointer_blocks_is_read_at_its_end_and_deleted_whole() -> Result<()> {
    let bench = Bench::new(3 << 30, 16_000)?;
    let mut volume = bench.host(1, Locking::Ats)?;
    let before = volume.space()?;
    let mut file = volume.create("large")?;
    volume.allocate(&mut file, [0, 1500 * MIB], Fill::AsIs)?;
    volume.set_length(&mut file, 1500 * MIB)?;
    let tail = pattern(MIB as usize, 9);
    volume.write_at(&mut file, 1499 * MIB, &tail)?;
    assert_eq!(file.allocated(), 1500 * MIB);
    volume.close(file)?;
    bench.check()?;
    let read = bench.cat("/large")?;
    assert!(read.len() as u64 == 1500 * MIB && read[1499 * MIB as usize..] == tail[..]);
    volume.remove_path("large")?;
    assert_eq!(volume.space()?, before);
    volume.unmount()?;
    bench.check()
}

/// Several pointer blocks in one transaction, and clusters that have one free block each.
#[test]
fn a_file_takes_what_is_left_in_many_clusters() -> Result<()> {
    let bench = Bench::new(12 << 30, 16_000)?;
    let mut volume = bench.host(1, Locking::Ats)?;
    let before = volume.space()?;
    let all = before.free_bytes / MIB - 1;
    let mut file = volume.create("large")?;
    volume.set_length(&mut file, all * MIB)?;
    let transactions = volume.stats().transactions;
    volume.allocate(&mut file, [0, 5120 * MIB], Fill::ToBeZeroed)?;
    assert_eq!(volume.stats().transactions, transactions + 1);
    volume.allocate(&mut file, [5120 * MIB, (all - 5120) * MIB], Fill::ToBeZeroed)?;
    assert_eq!((file.allocated(), u64::from(file.to_be_zeroed())), (all * MIB, all));
    volume.mark_written(&mut file, [0, all * MIB])?;
    assert_eq!(file.to_be_zeroed(), 0);
    let holes: Vec<u64> = (0..all).step_by(150).collect();
    for hole in &holes {
        volume.punch(&mut file, [hole * MIB, MIB])?;
    }
    let mut small = volume.create("small")?;
    volume.set_length(&mut small, holes.len() as u64 * MIB)?;
    volume.allocate(&mut small, [0, holes.len() as u64 * MIB], Fill::AsIs)?;
    assert_eq!(small.allocated(), holes.len() as u64 * MIB);
    volume.close(small)?;
    volume.close(file)?;
    bench.check()?;
    volume.remove_path("small")?;
    volume.remove_path("large")?;
    assert_eq!(volume.space()?, before);
    volume.unmount()?;
    bench.check()
}

#[test]
fn a_sparse_file_beyond_256_gib_goes_through_two_levels_of_pointers() -> Result<()> {
    let bench = Bench::new(2 << 30, 16_000)?;
    let mut volume = bench.host(1, Locking::Ats)?;
    let before = volume.space()?;
    let mut file = volume.create("huge")?;
    let (a, b) = (pattern(4096, 1), pattern(4096, 2));
    volume.write_at(&mut file, 300 * MIB, &a)?;
    volume.write_at(&mut file, 1500 << 30, &b)?;
    let mut found = vec![0; 4096];
    volume.read_at(&file, 300 * MIB, &mut found)?;
    assert!(found == a);
    volume.read_at(&file, 1500 << 30, &mut found)?;
    assert!(found == b);
    volume.read_at(&file, 1400 << 30, &mut found)?;
    assert!(found == vec![0; 4096]);
    volume.set_length(&mut file, 301 * MIB)?;
    volume.read_at(&file, 300 * MIB, &mut found)?;
    assert!(found == a);
    volume.close(file)?;
    volume.remove_path("huge")?;
    assert_eq!(volume.space()?, before);
    volume.unmount()?;
    bench.check()
}

#[test]
fn the_three_formats_of_disks_take_their_space_as_they_should() -> Result<()> {
    let bench = Bench::new(2 << 30, 16_000)?;
    let mut volume = bench.host(1, Locking::Ats)?;
    for format in [DiskFormat::Thin, DiskFormat::ZeroedThick] {
        let path = format!("{}.vmdk", format.name());
        let mut file = volume.create_disk(&path, 300 * MIB, format)?;
        let thick = format == DiskFormat::ZeroedThick;
        assert_eq!(file.allocated(), if thick { 300 * MIB } else { 0 });
        assert_eq!(u64::from(file.to_be_zeroed()), if thick { 300 } else { 0 });
        volume.write_at(&mut file, 5 * MIB + 4096, &pattern(4096, 3))?;
        assert_eq!(file.allocated(), if thick { 300 * MIB } else { MIB });
        let extents = volume.extents(&file, 5 * MIB, MIB)?;
        assert!(matches!(extents[0].content, FileContent::Data(_)), "{extents:?}");
        let mut found = vec![1; MIB as usize];
        volume.read_at(&file, 5 * MIB, &mut found)?;
        assert!(
            found[..4096].iter().all(|byte| *byte == 0) && found[4096..8192] == pattern(4096, 3)
        );
        volume.close(file)?;
        assert!(
            bench.cat(&format!("/{}-flat.vmdk", format.name()))?[5 * MIB as usize..][..8192]
                == found[..8192]
        );
    }
    bench.check_with_to_be_zeroed(299)?;
    for name in ["thin.vmdk", "zeroedthick.vmdk"] {
        volume.remove_disk(name)?;
    }
    volume.unmount()?;
    bench.check()
}

#[test]
fn a_raw_device_mapping_names_its_device_and_has_no_data_of_its_own() -> Result<()> {
    let bench = Bench::new(1 << 30, 16_000)?;
    let mut volume = bench.host(1, Locking::Ats)?;
    for (path, pointer) in
        [("vm.vmdk", "vm-rdm.vmdk"), ("vm.vmdk-rdmdisk-7", "vm.vmdk-rdmdisk-7-rdm.vmdk")]
    {
        volume.create_raw_mapping(path, 5 * MIB, "naa.6001")?;
        let descriptor = volume.disk_descriptor(path)?;
        assert_eq!((descriptor.raw, descriptor.size), (true, 5 * MIB));
        assert_eq!(get(&mut volume, pointer)?, b"naa.6001\n");
        let taken = volume.create_raw_mapping(path, 5 * MIB, "naa.6002");
        assert!(matches!(taken, Err(Error::Exists(_))), "{taken:?}");
        let opened = volume.open_disk(path, LockMode::ReadOnly);
        assert!(matches!(opened, Err(Error::Argument(_))), "nobody writes over the name");
        assert!(matches!(volume.open_chain(path, LockMode::ReadOnly), Err(Error::Argument(_))));
        volume.remove_disk(path)?;
        assert!(volume.status(path).is_err() && volume.status(pointer).is_err());
    }
    volume.unmount()?;
    bench.check()
}

#[test]
fn names_that_are_wrong_missing_or_taken_are_refused() -> Result<()> {
    let bench = Bench::new(1 << 30, 16_000)?;
    let mut volume = bench.host(1, Locking::Ats)?;
    volume.create_directory("d")?;
    put(&mut volume, "d/f", b"x")?;
    assert!(matches!(volume.create("d/f"), Err(Error::Exists(_))));
    assert!(matches!(volume.create("e/f"), Err(Error::NotFound(_))));
    assert!(matches!(volume.create("d/f/g"), Err(Error::Kind(_))));
    assert!(matches!(volume.create(&"n".repeat(128)), Err(Error::Name(_))));
    assert!(matches!(volume.create("/"), Err(Error::Name(_))));
    assert!(matches!(volume.open("d", LockMode::ReadOnly), Err(Error::Kind(_))));
    assert!(matches!(volume.remove_path("d"), Err(Error::NotEmpty(_))));
    assert!(matches!(volume.remove_path(".fbb.sf"), Err(Error::Kind(_))));
    assert!(matches!(volume.rename("d/f", "d/f"), Err(Error::Exists(_))));
    volume.rename("d/f", "g")?;
    volume.remove_path("d")?;
    assert_eq!(get(&mut volume, "g")?, b"x");
    volume.unmount()?;
    bench.check()
}

#[test]
fn a_disk_of_the_published_size_fits() -> Result<()> {
    let bench = Bench::new(501 << 30, 16_000)?;
    let mut volume = bench.host(1, Locking::Ats)?;
    let disk = volume.create_disk("vm.vmdk", 200 << 30, DiskFormat::ZeroedThick)?;
    volume.close(disk)?;
    volume.unmount()?;
    bench.check_with_to_be_zeroed(200 << 10)
}

#[test]
fn a_full_volume_says_so_and_stays_whole() -> Result<()> {
    let bench = Bench::new(300 * MIB, 16_000)?;
    let mut volume = bench.host(1, Locking::Ats)?;
    let made = volume.create_disk("big.vmdk", 4 << 30, DiskFormat::ZeroedThick);
    assert!(matches!(made, Err(Error::NoSpace)));
    let mut thin = volume.create_disk("thin.vmdk", 4 << 30, DiskFormat::Thin)?;
    let chunk = vec![1; 16 * MIB as usize];
    let failed = (0..40).find_map(|n| volume.write_at(&mut thin, n * 16 * MIB, &chunk).err());
    assert!(matches!(failed, Some(Error::NoSpace)));
    volume.close(thin)?;
    volume.unmount()?;
    bench.check()
}

#[test]
fn a_file_that_another_host_has_open_is_locked() -> Result<()> {
    let bench = Bench::new(1 << 30, 1000)?;
    let (mut a, mut b) = (bench.host(1, Locking::Ats)?, bench.host(2, Locking::Ats)?);
    let file = a.create("f")?;
    let beating = std::thread::spawn(move || -> Result<_> {
        for _ in 0..15 {
            a.pulse()?;
            std::thread::sleep(Duration::from_millis(100));
        }
        a.close(file)?;
        Ok(a)
    });
    let opened = b.open("f", LockMode::Exclusive);
    let owner = Uuid([1; 16]).to_string();
    assert!(matches!(opened, Err(Error::Locked { owner: ref found }) if *found == owner));
    let mut a = beating.join().expect("no panic")?;
    let (first, second) = (a.open("f", LockMode::ReadOnly)?, b.open("f", LockMode::ReadOnly)?);
    a.close(first)?;
    assert!(matches!(b.write_at(&mut { second }, 0, b"x"), Err(Error::ReadOnly)));
    Ok(())
}

#[test]
fn hosts_that_work_at_once_lose_nothing_in_either_lock_mode() -> Result<()> {
    for locking in [Locking::Ats, Locking::Scsi] {
        let bench = Bench::new(2 << 30, 16_000)?;
        let workers: Vec<_> = (1..=4_u8)
            .map(|number| {
                let mut volume = bench.host(number, locking)?;
                Ok(std::thread::spawn(move || -> Result<Stats> {
                    for round in 0..25_u64 {
                        let bytes = pattern(1000 * round as usize, round);
                        put(&mut volume, &format!("h{number}-{round}"), &bytes)?;
                        volume.touch("shared")?;
                        if round % 3 == 0 {
                            volume.remove_path(&format!("h{number}-{round}"))?;
                        }
                    }
                    let stats = volume.stats();
                    volume.unmount()?;
                    Ok(stats)
                }))
            })
            .collect::<Result<_>>()?;
        for worker in workers {
            assert!(worker.join().expect("no panic")?.locks > 100);
        }
        bench.check()?;
        let mut volume = bench.host(9, locking)?;
        for (number, round) in (1..=4).flat_map(|n| (0..25_u64).map(move |round| (n, round))) {
            let found = get(&mut volume, &format!("h{number}-{round}"));
            match round % 3 {
                0 => assert!(found.is_err()),
                _ => assert!(found? == pattern(1000 * round as usize, round)),
            }
        }
    }
    Ok(())
}

#[test]
fn a_host_mounts_while_another_has_the_disk_reserved_for_a_moment() -> Result<()> {
    let bench = Bench::new(1 << 30, 16_000)?;
    let mut other = bench.disk.another_host();
    other.reserve()?;
    let releases = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(100));
        other.release()
    });
    bench.host(1, Locking::Scsi)?.touch("file")?;
    releases.join().expect("no panic")?;
    bench.check()
}

/// A host dies after each number of writes in turn; whatever it was doing, the next host finishes
/// or forgets it, and nothing is lost or leaked.
#[test]
fn whenever_a_host_dies_another_takes_over_a_whole_volume() -> Result<()> {
    let bench = Bench::new(1 << 30, 100)?;
    let mut survivor = bench.host(1, Locking::Ats)?;
    put(&mut survivor, "old", &pattern(100_000, 1))?;
    for writes in 0..48 {
        let mut dying = bench.host(2, Locking::Ats)?;
        dying.disk().die_after_writes(writes);
        let worked = (|| -> Result<()> {
            put(&mut dying, "new", &pattern(50_000, 2))?;
            dying.touch("old")?;
            dying.rename("new", "newer")?;
            dying.remove_path("newer")?;
            Ok(())
        })();
        survivor.touch("old")?;
        for name in ["new", "newer"] {
            match survivor.remove_path(name) {
                Ok(()) | Err(Error::NotFound(_)) => {}
                other => other.with_context(|| format!("after {writes} writes"))?,
            }
        }
        put(&mut survivor, "probe", b"x")?;
        survivor.remove_path("probe")?;
        bench.check().with_context(|| format!("after {writes} writes"))?;
        if worked.is_ok() {
            break;
        }
    }
    assert!(get(&mut survivor, "old")? == pattern(100_000, 1));
    assert!(survivor.stats().takeovers > 10);
    Ok(())
}

/// The same while it takes and gives the blocks of several clusters at once.
#[test]
fn a_host_dies_while_it_works_on_many_clusters_and_nothing_is_lost() -> Result<()> {
    let bench = Bench::new(2 << 30, 100)?;
    let mut survivor = bench.host(1, Locking::Ats)?;
    let free = survivor.space()?.free_bytes;
    for writes in 0..200 {
        let mut dying = bench.host(2, Locking::Ats)?;
        dying.disk().die_after_writes(writes);
        let worked = (|| -> Result<()> {
            let mut file = dying.create("large")?;
            dying.set_length(&mut file, 1100 * MIB)?;
            dying.allocate(&mut file, [0, 1100 * MIB], Fill::AsIs)?;
            dying.close(file)?;
            dying.remove_path("large")?;
            Ok(())
        })();
        match survivor.remove_path("large") {
            Ok(()) | Err(Error::NotFound(_)) => {}
            other => other.with_context(|| format!("after {writes} writes"))?,
        }
        // Takes the locks that the dead host left on any cluster.
        let mut file = survivor.create("probe")?;
        survivor.set_length(&mut file, 1100 * MIB)?;
        survivor.allocate(&mut file, [0, 1100 * MIB], Fill::AsIs)?;
        survivor.close(file)?;
        survivor.remove_path("probe")?;
        assert_eq!(survivor.space()?.free_bytes, free, "after {writes} writes");
        bench.check().with_context(|| format!("after {writes} writes"))?;
        if worked.is_ok() {
            assert!(writes > 30, "several clusters at once are many writes");
            return Ok(());
        }
    }
    panic!("the host never came to its end");
}

#[test]
fn hosts_that_take_the_blocks_of_many_clusters_at_once_share_none() -> Result<()> {
    for locking in [Locking::Ats, Locking::Scsi] {
        let bench = Bench::new(4 << 30, 16_000)?;
        let workers: Vec<_> = (1..=3_u8)
            .map(|number| {
                let mut volume = bench.host(number, locking)?;
                Ok(std::thread::spawn(move || -> Result<()> {
                    for round in 0..6_u64 {
                        let path = format!("h{number}");
                        let mut file = volume.create(&path)?;
                        volume.set_length(&mut file, (450 + round) * MIB)?;
                        volume.allocate(&mut file, [0, (450 + round) * MIB], Fill::AsIs)?;
                        volume.close(file)?;
                        if round < 5 {
                            volume.remove_path(&path)?;
                        }
                    }
                    volume.unmount()?;
                    Ok(())
                }))
            })
            .collect::<Result<_>>()?;
        workers.into_iter().try_for_each(|worker| worker.join().expect("no panic"))?;
        bench.check()?;
    }
    Ok(())
}

#[test]
fn a_host_that_was_taken_over_cannot_change_anything_any_more() -> Result<()> {
    let bench = Bench::new(1 << 30, 50)?;
    let mut paused = bench.host(1, Locking::Ats)?;
    let mut file = paused.create("f")?;
    let mut other = bench.host(2, Locking::Ats)?;
    let taken = other.open("f", LockMode::Exclusive)?;
    assert!(matches!(paused.write_at(&mut file, 0, b"late"), Err(Error::LostHeartbeat)));
    assert!(matches!(paused.touch("g"), Err(Error::LostHeartbeat)));
    other.close(taken)?;
    Ok(())
}

#[test]
fn more_hosts_than_heartbeat_slots_are_refused() -> Result<()> {
    let bench = Bench::new(1 << 30, 100)?;
    let mut mounted = Vec::new();
    for number in 0..64 {
        let mut volume = bench.host(number, Locking::Ats)?;
        mounted.iter_mut().try_for_each(|volume: &mut Volume<FileDisk>| volume.pulse())?;
        volume.pulse()?;
        mounted.push(volume);
    }
    assert_eq!(mounted[0].hosts()?.len(), 64);
    mounted.pop().context("64 hosts")?.unmount()?;
    assert_eq!(mounted[0].hosts()?.len(), 63);
    Ok(())
}

/// The stamp of host 1's heartbeat, as another host reads it.
fn stamp(watcher: &mut Volume<FileDisk>) -> Result<u64> {
    for number in 0..HOSTS_MAX {
        let (_, slot) = watcher.read_slot(heartbeat::address(number))?;
        if slot.in_use && slot.host == Uuid([1; 16]) {
            return Ok(slot.stamp_us);
        }
    }
    anyhow::bail!("host 1 has no slot")
}

// ESXi's period with ATS for the heartbeat; also a lease that another array set is not missed.
#[test]
fn a_heartbeat_is_written_every_3_s_and_five_times_in_a_short_lease() -> Result<()> {
    for (lease_ms, period_ms) in [(16_000, 3000), (60_000, 3000), (10_000, 2000)] {
        for locking in [Locking::Ats, Locking::Scsi] {
            let bench = Bench::new(1 << 30, lease_ms)?;
            let (mut host, mut watcher) = (bench.host(1, locking)?, bench.host(2, locking)?);
            for _ in 0..3 {
                host.pulse()?;
                let before = stamp(&mut watcher)?;
                host.disk().pass(Duration::from_millis(period_ms - 1000));
                host.pulse_if_due()?;
                ensure!(stamp(&mut watcher)? == before, "{lease_ms} ms: early");
                host.disk().pass(Duration::from_secs(1));
                host.pulse_if_due()?;
                ensure!(stamp(&mut watcher)? > before, "{lease_ms} ms: late");
            }
        }
    }
    Ok(())
}

#[test]
fn an_ats_only_volume_is_not_mounted_without_ats() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let mut disk = FileDisk::create(&folder.path().join("lun.img"), 1 << 30)?;
    let options = Options {
        label: "a".into(),
        uuid: Uuid([3; 16]),
        table: Table::Gpt,
        ats_only: true,
        lease_ms: None,
    };
    format(&mut disk, &options)?;
    let identity = probe(&mut disk)?;
    assert_eq!((identity.ats_only, identity.lease_ms), (true, 16_000));
    let mount =
        |locking| Mount { host: Uuid([1; 16]), name: "esx1".into(), locking, ats_heartbeat: true };
    assert!(Volume::mount(disk.another_host(), mount(Locking::Scsi)).is_err());
    Volume::mount(disk.another_host(), mount(Locking::Ats))?.unmount()?;
    Ok(())
}

#[test]
fn what_is_no_volume_is_refused_without_a_change() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("lun.img");
    let mut disk = FileDisk::create(&path, 1 << 30)?;
    assert!(matches!(probe(&mut disk), Err(Error::Format(_))));
    damage(&path, 0x10_0000, &[0xff; 512])?;
    assert!(matches!(probe(&mut disk), Err(Error::Format(_))));
    for (at, bytes) in [
        (0x10_0004, &[9][..]),
        (0x10_0200, &[1]),
        (0x110_0000 + 0x20_0000, &[0]),
        (0x110_0000 + 0x20_0004, &[3]),
        (0x110_0000 + 0x40_0000, &[0]),
        (0x110_0000 + 0x40_0000 + 0x1_8000 + 0x200, &[0xff]),
    ] {
        let bench = Bench::new(1 << 30, 1000)?;
        damage(&bench.images()[0], at, bytes)?;
        let mount = bench.host(1, Locking::Ats);
        let listed = mount.and_then(|mut volume| Ok(volume.list("/")?));
        assert!(listed.is_err(), "damage at {at:x}");
    }
    Ok(())
}

fn damage(path: &Path, at: u64, bytes: &[u8]) -> Result<()> {
    use std::os::unix::fs::FileExt;
    let file = std::fs::OpenOptions::new().read(true).write(true).open(path)?;
    let mut old = vec![0; bytes.len()];
    file.read_exact_at(&mut old, at)?;
    ensure!(old != bytes, "the same at {at:x}");
    Ok(file.write_all_at(bytes, at)?)
}

#[test]
fn sizes_and_labels_that_cannot_be_are_refused_with_what_can_be() -> Result<()> {
    let bench = Bench::new(300 * MIB, 16_000)?;
    let mut volume = bench.host(1, Locking::Ats)?;
    for size in [0, 512, MIB + 1, (62 << 40) + 512, 99 << 40, u64::MAX - 511] {
        let refused = volume.create_disk("a.vmdk", size, DiskFormat::Thin);
        ensure!(matches!(refused, Err(Error::Argument(_))), "{size}");
    }
    assert!(volume.list("")?.iter().all(|entry| entry.name != "a.vmdk"));
    let largest = volume.create_disk("a.vmdk", 62 << 40, DiskFormat::Thin)?;
    volume.close(largest)?;
    let wrong = volume.remove_path("").expect_err("the root cannot be removed");
    assert_eq!(wrong.to_string(), "/: Directory not empty");
    volume.unmount()?;
    bench.check()?;
    let mut disk = bench.disk.another_host();
    let before = probe(&mut disk)?;
    let long = "x".repeat(128);
    for label in ["", ".", "..", "a/b", "../x", " a", "a ", "a\nb", "\u{1b}[2J", &long] {
        let options = Options {
            label: label.into(),
            uuid: Uuid([8; 16]),
            table: Table::None,
            ats_only: false,
            lease_ms: None,
        };
        ensure!(matches!(format(&mut disk, &options), Err(Error::Argument(_))), "{label:?}");
    }
    assert_eq!(probe(&mut disk)?.uuid, before.uuid, "a refused label changes nothing");
    Ok(())
}
