//! Volumes over several disks: added while others use them, when the host dies or the array refuses
//! at any write, with a disk missing, and for Debian's vmfs-tools.

use anyhow::{Context, Result, ensure};

use super::growing::fill;
use super::tests::{Bench, MIB, get, pattern, put};
use super::*;
use crate::file::{FileContent, Fill};
use crate::format::{Options, format};
use crate::image::{FileDisk, Refusal};
use crate::partition::Table;

const GIB: u64 = 1 << 30;

fn span(volume: &mut Volume<FileDisk>, name: &str) -> Result<crate::Grown> {
    let disk = volume.disk().another(name)?;
    Ok(volume.span(disk)?)
}

/// Writes a file over all that is free, with its end and a pattern at each seam.
fn write_across(volume: &mut Volume<FileDisk>, path: &str) -> Result<u64> {
    let length = fill(volume, path)?;
    let mut file = volume.open(path, crate::LockMode::Exclusive)?;
    let places = volume.extents(&file, 0, length)?;
    for (number, extent) in places.iter().enumerate() {
        let end = extent.offset + extent.length;
        let bytes = pattern(10_000, number as u64);
        volume.write_at(&mut file, end - 10_000, &bytes)?;
    }
    let disks: std::collections::BTreeSet<usize> = places
        .iter()
        .filter_map(|extent| match extent.content {
            FileContent::Data(place) | FileContent::ToBeZeroed(place) => Some(place.disk),
            FileContent::Hole => None,
        })
        .collect();
    volume.close(file)?;
    ensure!(disks.len() == volume.layout().len(), "{disks:?}");
    Ok(length)
}

#[test]
fn a_full_volume_takes_two_more_disks_and_the_witness_reads_files_over_all_of_them() -> Result<()> {
    for locking in [Locking::Ats, Locking::Scsi] {
        let bench = Bench::new(GIB, 16_000)?;
        for name in ["b", "c"] {
            bench.add_lun(name, 2 * GIB)?;
        }
        let mut volume = bench.host(1, locking)?;
        put(&mut volume, "old", &pattern(3 * MIB as usize, 1))?;
        fill(&mut volume, "full")?;
        volume.remove_path("old")?;
        put(&mut volume, "old", &pattern(2 * MIB as usize, 1))?;
        let grown = span(&mut volume, "b")?;
        assert_eq!([grown.before_bytes, grown.after_bytes], [3 * GIB / 4, 10 * GIB / 4]);
        bench.check()?;
        write_across(&mut volume, "second")?;
        span(&mut volume, "c")?;
        bench.check()?;
        let free = volume.space()?.free_bytes;
        let mut file = volume.create("third")?;
        volume.set_length(&mut file, free)?;
        volume.allocate(&mut file, [0, free], Fill::AsIs)?;
        volume.write_at(&mut file, free - 100_000, &pattern(100_000, 4))?;
        volume.close(file)?;
        ensure!(bench.cat("/third")?.ends_with(&pattern(100_000, 4)), "the witness differs");
        let mut other = bench.host(2, locking)?;
        assert_eq!(other.space()?, volume.space()?);
        ensure!(get(&mut other, "second")? == bench.cat("/second")?, "the witness differs");
        assert!(get(&mut other, "old")? == pattern(2 * MIB as usize, 1));
        let layout: Vec<_> = other.layout().into_iter().map(|disk| disk.name).collect();
        assert_eq!(layout, ["lun", "b", "c"]);
        other.unmount()?;
        volume.remove_path("second")?;
        volume.remove_path("third")?;
        volume.unmount()?;
        bench.check()?;
    }
    Ok(())
}

#[test]
fn a_host_that_has_the_volume_mounted_uses_a_disk_that_another_one_added() -> Result<()> {
    let bench = Bench::new(GIB, 16_000)?;
    let (mut a, mut b) = (bench.host(1, Locking::Ats)?, bench.host(2, Locking::Ats)?);
    fill(&mut b, "full")?;
    bench.add_lun("b", 2 * GIB)?;
    span(&mut a, "b")?;
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

/// The head keeps all metadata, also where it is nearly full: files that need more of it than the
/// head has are refused, and the rest of the volume is used.
#[test]
fn metadata_stays_on_the_head_and_only_the_last_disk_grows() -> Result<()> {
    let mut bench = Bench::new(GIB, 16_000)?;
    let mut volume = bench.host(1, Locking::Ats)?;
    let mut disks = [bench.add_lun("b", GIB)?, bench.add_lun("c", GIB)?];
    span(&mut volume, "b")?;
    span(&mut volume, "c")?;
    disks[1].enlarge(4 * GIB)?;
    bench.lun().enlarge(4 * GIB)?;
    disks[0].enlarge(4 * GIB)?;
    let grown = volume.grow()?;
    assert_eq!([grown.before_bytes, grown.after_bytes], [9 * GIB / 4, 21 * GIB / 4]);
    let bytes: Vec<_> = volume.layout().into_iter().map(|disk| disk.bytes).collect();
    assert_eq!(bytes, [Some(3 * GIB / 4), Some(3 * GIB / 4), Some(15 * GIB / 4)]);
    for number in 0..40 {
        volume.create_directory(&format!("d{number}"))?;
        put(&mut volume, &format!("d{number}/small"), &pattern(5000, number))?;
    }
    for kind in Resource::ALL {
        let blocks = volume.resource(kind).blocks.clone();
        let inside = |address: &u32| volume.is_on_head(u64::from(address >> 6));
        assert!(blocks.iter().all(inside), "{kind:?}");
    }
    volume.unmount()?;
    bench.check()
}

/// Makes a file of 200 MiB with something at both ends.
fn put_marked(volume: &mut Volume<FileDisk>, path: &str) -> Result<()> {
    let mut file = volume.create(path)?;
    volume.set_length(&mut file, 200 * MIB)?;
    volume.allocate(&mut file, [0, 200 * MIB], Fill::AsIs)?;
    for at in [0, 199 * MIB] {
        volume.write_at(&mut file, at, &pattern(MIB as usize, at + 1))?;
    }
    Ok(volume.close(file)?)
}

/// Whether such a file can be read from end to end, and is as it was.
fn is_marked(volume: &mut Volume<FileDisk>, path: &str) -> Result<bool> {
    let file = volume.open(path, crate::LockMode::ReadOnly)?;
    let found = volume.extents(&file, 0, 200 * MIB).map(|_| ());
    let mut same = true;
    for at in [0, 199 * MIB] {
        let mut bytes = vec![0; MIB as usize];
        if volume.read_at(&file, at, &mut bytes).is_ok() {
            same &= bytes == pattern(MIB as usize, at + 1);
        }
    }
    volume.close(file)?;
    found?;
    Ok(same)
}

#[test]
fn a_volume_with_a_disk_missing_is_used_as_far_as_the_rest_goes() -> Result<()> {
    let bench = Bench::new(GIB, 16_000)?;
    let b = bench.add_lun("b", GIB)?;
    bench.add_lun("c", GIB)?;
    let mut volume = bench.host(1, Locking::Ats)?;
    span(&mut volume, "b")?;
    span(&mut volume, "c")?;
    let names: Vec<String> = (0..9).map(|number| format!("f{number}")).collect();
    for name in &names {
        put_marked(&mut volume, name)?;
    }
    let whole = volume.space()?;
    volume.unmount()?;
    b.hide(&b);
    let mut volume = bench.host(1, Locking::Ats)?;
    assert_eq!(volume.missing(), ["b"]);
    let space = volume.space()?;
    assert_eq!(space.total_bytes, whole.total_bytes);
    let (mut read, mut lost) = (0, 0);
    for name in &names {
        match is_marked(&mut volume, name) {
            Ok(same) => read += u64::from(same),
            Err(error) => {
                assert!(error.to_string().contains("b is missing"), "{error:#}");
                lost += 1;
            }
        }
    }
    assert!(read > 0 && lost > 0 && read + lost == 9, "{read} read, {lost} lost");
    volume.remove_path(&names[0])?;
    put(&mut volume, "small", &pattern(5000, 9))?;
    fill(&mut volume, "rest")?;
    assert!(matches!(volume.grow(), Err(Error::Degraded(_))));
    let another = bench.add_lun("d", GIB)?.another_host();
    assert!(matches!(volume.span(another), Err(Error::Degraded(_))));
    b.show(&b);
    assert_eq!(volume.space()?.total_bytes, whole.total_bytes);
    assert!(volume.missing().is_empty(), "it came back");
    for name in &names[1..] {
        assert!(is_marked(&mut volume, name)?, "{name}");
    }
    assert_eq!(volume.layout().len(), 3);
    volume.unmount()?;
    bench.check()
}

#[test]
fn disks_that_cannot_be_added_are_refused_and_stay_as_they_are() -> Result<()> {
    let bench = Bench::new(GIB, 16_000)?;
    let options = |label: &str, number: u8| Options {
        label: label.into(),
        uuid: Uuid([number; 16]),
        table: Table::None,
        ats_only: false,
        lease_ms: None,
    };
    format(&mut bench.add_lun("other", GIB)?, &options("theirs", 9))?;
    bench.add_lun("small", 270 * MIB)?;
    bench.add_lun("b", GIB)?;
    bench.add_lun("of theirs", GIB)?;
    let mut volume = bench.host(1, Locking::Ats)?;
    let mount = Mount {
        host: Uuid([5; 16]),
        name: "esx5".into(),
        locking: Locking::Ats,
        ats_heartbeat: true,
    };
    let mut theirs = Volume::mount(volume.disk().another("other")?, mount)?;
    span(&mut theirs, "of theirs")?;
    span(&mut volume, "b")?;
    let refused = |volume: &mut Volume<FileDisk>, name: &str, words: &str| -> Result<()> {
        let error = span(volume, name).err().context("it was not refused")?;
        ensure!(error.to_string().contains(words), "{name}: {error}");
        Ok(())
    };
    refused(&mut volume, "lun", "an extent of this datastore already")?;
    refused(&mut volume, "b", "an extent of this datastore already")?;
    refused(&mut volume, "other", "other is the datastore theirs already")?;
    refused(&mut volume, "of theirs", "an extent of another datastore already")?;
    refused(&mut volume, "small", "too small")?;
    assert!(probe(&mut volume.disk().another("b")?).is_err(), "an extent is no datastore");
    assert_eq!(volume.layout().len(), 2);
    assert_eq!(theirs.layout().len(), 2);
    Ok(())
}

/// Between the look at a disk and its claim another host may finish.
#[test]
fn a_disk_that_became_an_extent_since_it_was_looked_at_is_not_claimed() -> Result<()> {
    for locking in [Locking::Ats, Locking::Scsi] {
        let bench = Bench::new(GIB, 16_000)?;
        bench.add_lun("b", GIB)?;
        let mut volume = bench.host(1, locking)?;
        let mut disk = volume.disk().another("b")?;
        span(&mut volume, "b")?;
        let (theirs, ours) = (Uuid([9; 16]), volume.head.uuid);
        let mut claim =
            |uuid, first| lvm::claim(&mut disk, [0, first], [Uuid([8; 16]), uuid], locking).is_ok();
        assert!(!claim(theirs, GIB), "for another volume");
        assert!(!claim(ours, volume.head.size), "a second time for the same");
        volume.space()?;
        assert!(volume.missing().is_empty());
    }
    Ok(())
}

/// With a partition table the claim lies in another sector than without one.
#[test]
fn a_disk_that_is_claimed_behind_a_partition_table_is_not_claimed_without_one() -> Result<()> {
    const TABLES: [Table; 2] = [Table::None, Table::Gpt];
    for locking in [Locking::Ats, Locking::Scsi] {
        for (theirs, ours) in [(TABLES[0], TABLES[1]), (TABLES[1], TABLES[0])] {
            let bench = Bench::new(GIB, 16_000)?;
            let mut disk = bench.add_lun("b", GIB)?;
            let mut claim = |table, number: u8| {
                let place = [partition::first_byte(table), GIB];
                let identity = [Uuid([number; 16]), Uuid([number + 1; 16])];
                lvm::claim(&mut disk, place, identity, locking)
            };
            let claimed = claim(theirs, 10)?;
            for _ in 0..2 {
                let error = claim(ours, 20).err().context("claimed twice")?.to_string();
                ensure!(error.contains("being added to another datastore"), "{error}");
            }
            let part = claimed.part;
            partition::write(&mut disk, theirs, [10; 16])?;
            let volume = bench.host(1, locking)?;
            let mut head = volume.head.changed(part.end(), 2);
            head.uuid = Uuid([11; 16]);
            claimed.complete(&mut disk, &head.of_part(part), locking)?;
            let place = [partition::first_byte(ours), GIB];
            let identity = [Uuid([20; 16]), Uuid([21; 16])];
            let late = lvm::claim(&mut disk, place, identity, locking).err().context("claimed")?;
            ensure!(late.to_string().contains("has just become an extent"), "{late}");
            ensure!(lvm::read(&mut disk, part.partition)?.uuid == Uuid([11; 16]), "overwritten");
        }
    }
    Ok(())
}

/// Several hosts add the same disk at once, to two volumes: one of them gets it. Where the volumes
/// have different tables, all may be told to try again.
#[test]
fn a_disk_that_two_volumes_want_at_once_becomes_part_of_one() -> Result<()> {
    let both = |table| [(Locking::Ats, table), (Locking::Scsi, table)];
    for (locking, table) in [both(Table::None), both(Table::Gpt)].concat() {
        let bench = Bench::new(GIB, 16_000)?;
        let options = Options {
            label: "theirs".into(),
            uuid: Uuid([9; 16]),
            table,
            ats_only: false,
            lease_ms: None,
        };
        format(&mut bench.add_lun("other", GIB)?, &options)?;
        bench.add_lun("b", GIB)?;
        let mut hosts = vec![bench.host(1, locking)?, bench.host(2, locking)?];
        let mount =
            Mount { host: Uuid([5; 16]), name: "esx5".into(), locking, ats_heartbeat: true };
        let disk = hosts[0].disk().another_host().another("other")?;
        hosts.push(Volume::mount(disk, mount)?);
        let workers: Vec<_> = hosts
            .into_iter()
            .map(|mut volume| {
                std::thread::spawn(move || {
                    let spanned = span(&mut volume, "b").is_ok();
                    (spanned, volume)
                })
            })
            .collect();
        let mut ended: Vec<_> =
            workers.into_iter().map(|worker| worker.join().expect("no panic")).collect();
        let count = |ended: &[(bool, _)]| ended.iter().filter(|(spanned, _)| *spanned).count();
        if table == Table::Gpt && count(&ended) == 0 {
            for (spanned, volume) in &mut ended {
                *spanned = span(volume, "b").is_ok();
            }
        }
        assert_eq!(count(&ended), 1);
        for (_, mut volume) in ended {
            volume.space()?;
            let ours = volume.label() == "datastore1";
            let disks = volume.layout().len();
            assert!(volume.missing().is_empty(), "{}", volume.label());
            assert!(disks == 1 || disks == 2, "{ours}");
            volume.unmount()?;
        }
        bench.check()?;
    }
    Ok(())
}

/// Between two states at each write: old size or new, and adding the disk again goes on.
fn after_each_write(
    mut hinder: impl FnMut(&mut FileDisk, u64),
    mut relieve: impl FnMut(&mut FileDisk),
) -> Result<u64> {
    for writes in 0..400 {
        let bench = Bench::new(GIB, 10)?;
        bench.add_lun("b", GIB)?;
        bench.add_lun("c", 2 * GIB)?;
        let mut volume = bench.host(1, Locking::Ats)?;
        put(&mut volume, "old", &pattern(100_000, 1))?;
        span(&mut volume, "b")?;
        hinder(volume.disk(), writes);
        let worked = span(&mut volume, "c").is_ok();
        relieve(volume.disk());
        drop(volume);
        let state = || format!("after {writes} writes");
        let mut other = bench.host(2, Locking::Ats).with_context(state)?;
        other.take_over_dead()?;
        let found = other.space()?.total_bytes;
        ensure!([6 * GIB / 4, 13 * GIB / 4].contains(&found), "{found} {}", state());
        ensure!(get(&mut other, "old")? == pattern(100_000, 1), state());
        put(&mut other, "between", &pattern(2 * MIB as usize, 2)).with_context(state)?;
        if other.layout().len() == 2 {
            span(&mut other, "c").with_context(state)?;
        }
        let grown = other.grow().with_context(state)?;
        ensure!(grown.after_bytes == 13 * GIB / 4, "{grown:?} {}", state());
        bench.check().with_context(state)?;
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
fn a_host_dies_at_any_write_while_it_adds_a_disk() -> Result<()> {
    let writes = after_each_write(FileDisk::die_after_writes, |_| {})?;
    assert!(writes > 20, "only {writes}");
    Ok(())
}

#[test]
fn the_array_refuses_any_write_while_a_disk_is_added() -> Result<()> {
    let refuse = |disk: &mut FileDisk, n| disk.refuse(Refusal::Numbers(n..n + 1));
    after_each_write(refuse, |disk| disk.refuse(Refusal::None))?;
    let refuse = |disk: &mut FileDisk, n| disk.refuse(Refusal::Numbers(n..u64::MAX));
    after_each_write(refuse, |disk| disk.refuse(Refusal::None))?;
    Ok(())
}

#[test]
fn a_head_that_was_read_before_another_host_added_a_disk_is_read_again() -> Result<()> {
    let bench = Bench::new(GIB, 10)?;
    bench.add_lun("b", GIB)?;
    let mut first = bench.host(1, Locking::Ats)?;
    let mut second = bench.host(2, Locking::Ats)?;
    second.open_disks_anew()?;
    span(&mut first, "b")?;
    second.open_system_files()?;
    assert_eq!(second.layout().len(), 2);
    assert_eq!(second.space()?.total_bytes, 6 * GIB / 4);
    Ok(())
}
