//! Volumes that grow into a LUN that was enlarged: beside other hosts, when the host dies or the
//! array refuses at any write, and for Debian's vmfs-tools.

use anyhow::{Context, Result, ensure};

use super::tests::{Bench, MIB, get, pattern, put};
use super::*;
use crate::file::Fill;
use crate::format::{Options, format};
use crate::image::{FileDisk, Refusal};
use crate::partition::Table;

const GIB: u64 = 1 << 30;

/// Takes all that is free; returns the file's bytes.
pub(super) fn fill(volume: &mut Volume<FileDisk>, path: &str) -> Result<u64> {
    let free = volume.space()?.free_bytes;
    let mut file = volume.create(path)?;
    volume.set_length(&mut file, free)?;
    let taken = volume.allocate(&mut file, [0, free], Fill::AsIs);
    volume.close(file)?;
    Ok(taken.map(|()| free)?)
}

/// Writes and reads the last bytes of a file, here and by the witness.
fn use_the_end(bench: &Bench, volume: &mut Volume<FileDisk>, path: &str) -> Result<()> {
    let mut file = volume.open(path, crate::LockMode::Exclusive)?;
    let (length, tail) = (file.length(), pattern(100_000, 4));
    let written = volume.write_at(&mut file, length - 100_000, &tail);
    volume.close(file)?;
    written?;
    let read = bench.cat(&format!("/{path}"))?;
    ensure!(
        read.len() as u64 == length && read.ends_with(&tail),
        "the witness reads something else"
    );
    Ok(())
}

#[test]
fn a_full_volume_grows_and_its_new_space_is_used_and_read_by_the_witness() -> Result<()> {
    for locking in [Locking::Ats, Locking::Scsi] {
        let mut bench = Bench::new(GIB, 16_000)?;
        let mut volume = bench.host(1, locking)?;
        put(&mut volume, "old", &pattern(3 * MIB as usize, 1))?;
        fill(&mut volume, "full")?;
        assert_eq!(volume.space()?.free_bytes, 0);
        bench.enlarge(3 * GIB)?;
        let grown = volume.grow()?;
        assert_eq!([grown.before_bytes, grown.after_bytes], [3 * GIB / 4, 11 * GIB / 4]);
        bench.check()?;
        let space = volume.space()?;
        assert_eq!((space.total_bytes, space.free_bytes), (11 * GIB / 4, 2 * GIB));
        assert_eq!(fill(&mut volume, "new")?, 2 * GIB);
        use_the_end(&bench, &mut volume, "new")?;
        assert_eq!(volume.grow()?.after_bytes, grown.after_bytes, "there is no room for more");
        volume.unmount()?;
        bench.check()?;
        let mut other = bench.host(2, locking)?;
        assert!(get(&mut other, "old")? == pattern(3 * MIB as usize, 1));
    }
    Ok(())
}

/// Bitmaps, descriptors, pointer blocks and sub-blocks outgrow the blocks that they had.
#[test]
fn a_small_volume_grows_to_the_largest_size_with_what_many_files_need() -> Result<()> {
    let mut bench = Bench::new(2 * GIB, 16_000)?;
    let mut volume = bench.host(1, Locking::Ats)?;
    let few = volume.space()?.free_descriptors;
    for size in [150 * GIB, 700 * GIB, 3072 * GIB] {
        bench.enlarge(size)?;
        volume.grow()?;
        bench.check().with_context(|| format!("{size} bytes"))?;
    }
    let space = volume.space()?;
    assert_eq!(space.total_bytes, 2048 * GIB);
    assert!(space.free_descriptors > 100_000 && few < 2100, "{few}, then {space:?}");
    let fresh = Bench::new(3072 * GIB, 16_000)?;
    let same = fresh.host(1, Locking::Ats)?.space()?;
    let blocks = |space: crate::space::Space| space.free_bytes / MIB;
    assert_eq!(space.free_descriptors, same.free_descriptors);
    assert!(blocks(same) - blocks(space) < 8, "{} of {}", blocks(space), blocks(same));
    let mut file = volume.create("large")?;
    volume.set_length(&mut file, 1024 * GIB)?;
    volume.allocate(&mut file, [0, 1024 * GIB], Fill::AsIs)?;
    volume.write_at(&mut file, 1023 * GIB, b"far behind")?;
    volume.close(file)?;
    volume.remove_path("large")?;
    assert_eq!(volume.space()?, space);
    volume.unmount()?;
    bench.check()
}

#[test]
fn a_host_that_has_the_volume_mounted_uses_what_another_one_added() -> Result<()> {
    let mut bench = Bench::new(GIB, 16_000)?;
    let (mut a, mut b) = (bench.host(1, Locking::Ats)?, bench.host(2, Locking::Ats)?);
    fill(&mut b, "full")?;
    bench.enlarge(2 * GIB)?;
    a.grow()?;
    put(&mut a, "by a", &pattern(5 * MIB as usize, 1))?;
    assert!(get(&mut b, "by a")? == pattern(5 * MIB as usize, 1));
    put(&mut b, "by b", &pattern(7 * MIB as usize, 2))?;
    assert!(get(&mut a, "by b")? == pattern(7 * MIB as usize, 2));
    assert_eq!(a.space()?, b.space()?);
    b.remove_path("by a")?;
    a.unmount()?;
    b.unmount()?;
    bench.check()
}

#[test]
fn hosts_that_grow_a_volume_at_once_and_others_that_fill_it_agree() -> Result<()> {
    let mut bench = Bench::new(GIB, 16_000)?;
    let hosts: Vec<_> = (1..=4).map(|n| bench.host(n, Locking::Ats)).collect::<Result<_>>()?;
    bench.enlarge(20 * GIB)?;
    let workers = (1_u64..).zip(hosts).map(|(number, mut volume)| {
        std::thread::spawn(move || -> Result<()> {
            if number <= 2 {
                volume.grow()?;
            }
            for round in 0..10 {
                put(&mut volume, &format!("h{number}-{round}"), &pattern(2 << 20, number))?;
            }
            volume.unmount()?;
            Ok(())
        })
    });
    let workers: Vec<_> = workers.collect();
    workers.into_iter().try_for_each(|worker| worker.join().expect("no panic"))?;
    bench.check()?;
    let mut volume = bench.host(9, Locking::Ats)?;
    assert_eq!(volume.space()?.total_bytes, 79 * GIB / 4);
    for number in 1..=4 {
        assert!(get(&mut volume, &format!("h{number}-9"))? == pattern(2 << 20, number));
    }
    Ok(())
}

/// Between two states at each write: old size or new, and growing again goes on.
fn after_each_write(
    mut hinder: impl FnMut(&mut FileDisk, u64),
    mut relieve: impl FnMut(&mut FileDisk),
) -> Result<u64> {
    let fresh = Bench::new(9 * GIB, 10)?.host(1, Locking::Ats)?.space()?;
    for writes in 0..400 {
        let mut bench = Bench::new(GIB, 10)?;
        let mut growing = bench.host(1, Locking::Ats)?;
        put(&mut growing, "old", &pattern(100_000, 1))?;
        bench.enlarge(9 * GIB)?;
        hinder(growing.disk(), writes);
        let worked = growing.grow().is_ok();
        relieve(growing.disk());
        drop(growing);
        let state = || format!("after {writes} writes");
        let mut other = bench.host(2, Locking::Ats).with_context(state)?;
        other.take_over_dead()?;
        bench.check().with_context(state)?;
        let found = other.space()?.total_bytes;
        ensure!([3 * GIB / 4, 35 * GIB / 4].contains(&found), "{found} {}", state());
        ensure!(get(&mut other, "old")? == pattern(100_000, 1), state());
        put(&mut other, "between", &pattern(2 * MIB as usize, 2)).with_context(state)?;
        let grown = other.grow().with_context(state)?;
        ensure!(grown.after_bytes == 35 * GIB / 4, "{grown:?} {}", state());
        ensure!(other.space()?.free_descriptors + 2 == fresh.free_descriptors, state());
        fill(&mut other, "all").with_context(state)?;
        ensure!(get(&mut other, "between")? == pattern(2 * MIB as usize, 2), state());
        other.unmount()?;
        bench.check().with_context(state)?;
        if worked {
            return Ok(writes);
        }
    }
    anyhow::bail!("it never came to its end")
}

#[test]
fn a_host_dies_at_any_write_while_it_grows_a_volume() -> Result<()> {
    let writes = after_each_write(FileDisk::die_after_writes, |_| {})?;
    assert!(writes > 20, "only {writes}");
    Ok(())
}

#[test]
fn the_array_refuses_any_write_while_a_volume_grows() -> Result<()> {
    let refuse = |disk: &mut FileDisk, n| disk.refuse(Refusal::Numbers(n..n + 1));
    after_each_write(refuse, |disk| disk.refuse(Refusal::None))?;
    let refuse = |disk: &mut FileDisk, n| disk.refuse(Refusal::Numbers(n..u64::MAX));
    after_each_write(refuse, |disk| disk.refuse(Refusal::None))?;
    Ok(())
}

#[test]
fn partition_tables_end_where_the_enlarged_disk_does() -> Result<()> {
    for table in [Table::Gpt, Table::Mbr] {
        let folder = tempfile::tempdir()?;
        let mut disk = FileDisk::create(&folder.path().join("lun.img"), GIB)?;
        let options = Options {
            label: "a".into(),
            uuid: Uuid([3; 16]),
            table,
            ats_only: true,
            lease_ms: None,
        };
        format(&mut disk, &options)?;
        let expected = folder.path().join("fresh.img");
        let mut fresh = FileDisk::create(&expected, 2 * GIB)?;
        format(&mut fresh, &options)?;
        disk.enlarge(2 * GIB)?;
        let (host, name) = (Uuid([1; 16]), "esx1".into());
        let mount = Mount { host, name, locking: Locking::Ats, ats_heartbeat: true };
        let mut volume = Volume::mount(disk.another_host(), mount)?;
        volume.grow()?;
        volume.unmount()?;
        for [at, length] in [[0, 512 * 34], [2 * GIB - 33 * 512, 33 * 512]] {
            let (mut grown, mut made) = (vec![0; length as usize], vec![0; length as usize]);
            disk.read(at, &mut grown)?;
            fresh.read(at, &mut made)?;
            assert!(grown == made, "{table:?} at {at}");
        }
        assert_eq!(probe(&mut disk)?.size_bytes, probe(&mut fresh)?.size_bytes);
    }
    Ok(())
}
