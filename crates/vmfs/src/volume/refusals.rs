//! An array without space refuses a write in the middle of an operation: each write of each
//! operation in turn. Afterwards the volume is whole, for the host itself, for another one, and for
//! fsck.vmfs.

use std::ops::ControlFlow;

use anyhow::{Context, Result, ensure};

use super::tests::{Bench, MIB, get, pattern, put};
use super::*;
use crate::file::{File, Fill};
use crate::image::{FileDisk, Refusal};
use crate::space::Space;
use crate::vmdk::{DiskDescriptor, DiskFormat};
use crate::{FileKind, LockMode};

type Step = fn(&mut Volume<FileDisk>) -> Result<()>;

pub(super) struct Operation {
    pub(super) name: &'static str,
    pub(super) prepare: Step,
    pub(super) carry_out: Step,
}

/// Checks a mapping of a raw device, and a descriptor that is replaced: both are whole at every
/// moment.
fn check_descriptors(volume: &mut Volume<FileDisk>) -> Result<()> {
    if volume.status("kept.vmdk").is_ok() {
        let found = volume.disk_descriptor("kept.vmdk")?;
        ensure!([7, 8, 90].map(kept).contains(&found), "{found:?}");
    }
    if volume.status("raw-rdm.vmdk").is_ok_and(|pointer| pointer.length > 0) {
        ensure!(get(volume, "raw-rdm.vmdk")? == b"naa.6001\n");
        ensure!(volume.disk_descriptor("raw.vmdk")?.raw);
    }
    Ok(())
}

/// A descriptor of a disk whose parent has a name of so many times a hundred letters.
fn kept(hundreds: usize) -> DiskDescriptor {
    let parent = Some((format!("{}.vmdk", "p".repeat(100 * hundreds)), 1));
    let extent = "kept-delta.vmdk".to_owned();
    DiskDescriptor { size: 64 * MIB, extent, thin: true, cid: 5, parent, raw: false }
}

fn nothing(_: &mut Volume<FileDisk>) -> Result<()> {
    Ok(())
}

/// Makes a file with this content, and changes it.
fn with_file(
    volume: &mut Volume<FileDisk>,
    path: &str,
    work: impl FnOnce(&mut Volume<FileDisk>, &mut File) -> Result<()>,
) -> Result<()> {
    let mut file = volume.open(path, LockMode::Exclusive)?;
    let done = work(volume, &mut file);
    volume.close(file)?;
    done
}

pub(super) const OPERATIONS: [Operation; 16] = [
    Operation { name: "touch a new file", prepare: nothing, carry_out: |v| Ok(v.touch("new")?) },
    Operation { name: "touch an old file", prepare: nothing, carry_out: |v| Ok(v.touch("old")?) },
    Operation {
        name: "write a small file",
        prepare: nothing,
        carry_out: |v| put(v, "small", &pattern(900, 3)),
    },
    Operation {
        name: "write a file that outgrows its sub-block",
        prepare: |v| put(v, "f", &pattern(5000, 3)),
        carry_out: |v| with_file(v, "f", |v, f| Ok(v.write_at(f, 5000, &pattern(9000, 4))?)),
    },
    Operation {
        name: "allocate blocks of many clusters",
        prepare: |v| put(v, "f", b""),
        carry_out: |v| {
            with_file(v, "f", |v, f| {
                v.set_length(f, 700 * MIB)?;
                Ok(v.allocate(f, [0, 700 * MIB], Fill::ToBeZeroed)?)
            })
        },
    },
    Operation {
        name: "mark blocks as written, punch holes",
        prepare: |v| {
            put(v, "f", b"")?;
            with_file(v, "f", |v, f| {
                v.set_length(f, 400 * MIB)?;
                Ok(v.allocate(f, [0, 400 * MIB], Fill::ToBeZeroed)?)
            })
        },
        carry_out: |v| {
            with_file(v, "f", |v, f| {
                v.mark_written(f, [0, 20 * MIB])?;
                Ok(v.punch(f, [10 * MIB, 300 * MIB])?)
            })
        },
    },
    Operation {
        name: "write into a thin disk",
        prepare: |v| {
            let disk = v.create_disk("t.vmdk", 600 * MIB, DiskFormat::Thin)?;
            Ok(v.close(disk)?)
        },
        carry_out: |v| {
            with_file(v, "t-flat.vmdk", |v, f| Ok(v.write_at(f, 300 * MIB + 4096, &[7; 8192])?))
        },
    },
    Operation {
        name: "shorten a file",
        prepare: |v| {
            put(v, "f", b"")?;
            with_file(v, "f", |v, f| {
                v.set_length(f, 500 * MIB)?;
                Ok(v.allocate(f, [0, 500 * MIB], Fill::AsIs)?)
            })
        },
        carry_out: |v| with_file(v, "f", |v, f| Ok(v.set_length(f, 3 * MIB)?)),
    },
    Operation {
        name: "rename in a directory and to another one",
        prepare: |v| {
            v.create_directory("d")?;
            put(v, "f", &pattern(900, 3))
        },
        carry_out: |v| {
            v.rename("f", "g")?;
            Ok(v.rename("g", "d/h")?)
        },
    },
    Operation {
        name: "delete a file",
        prepare: |v| put(v, "f", &pattern(3 * MIB as usize, 3)),
        carry_out: |v| Ok(v.remove_path("f")?),
    },
    Operation {
        name: "make and delete a directory",
        prepare: nothing,
        carry_out: |v| {
            v.create_directory("d")?;
            Ok(v.remove_path("d")?)
        },
    },
    Operation {
        name: "fill a directory beyond its first sub-block",
        prepare: |v| {
            v.create_directory("d")?;
            (0..56).try_for_each(|n| put(v, &format!("d/{n}"), b""))
        },
        carry_out: |v| (0..3).try_for_each(|n| put(v, &format!("d/more{n}"), b"")),
    },
    Operation {
        name: "make a thick disk",
        prepare: nothing,
        carry_out: |v| {
            let disk = v.create_disk("z.vmdk", 300 * MIB, DiskFormat::ZeroedThick)?;
            Ok(v.close(disk)?)
        },
    },
    Operation {
        name: "map a raw device",
        prepare: nothing,
        carry_out: |v| Ok(v.create_raw_mapping("raw.vmdk", 5 * MIB, "naa.6001")?),
    },
    Operation {
        name: "replace a descriptor by longer ones and a shorter one",
        prepare: |v| Ok(v.create_descriptor("kept.vmdk", &kept(7))?),
        carry_out: |v| {
            [8, 90, 8].into_iter().try_for_each(|length| {
                v.replace_descriptor("kept.vmdk", &kept(length))?;
                ensure!(v.disk_descriptor("kept.vmdk")? == kept(length));
                Ok(())
            })
        },
    },
    Operation {
        name: "take, write and remove a snapshot",
        prepare: |v| {
            let disk = v.create_disk("s.vmdk", 64 * MIB, DiskFormat::Thin)?;
            Ok(v.close(disk)?)
        },
        carry_out: |v| {
            let mut chain = v.open_chain("s.vmdk", LockMode::Exclusive)?;
            let done = (|| -> Result<String> {
                v.snapshot(&mut chain)?;
                v.write_chain(&mut chain, 5 * MIB, &[3; 4096])?;
                let gone = v.merge_down(&mut chain, 0, &mut |_| ControlFlow::Continue(()))?;
                gone.context("it was not stopped")
            })();
            v.close_chain(chain)?;
            Ok(v.remove_disk(&done?)?)
        },
    },
];

/// What happens to the host after a write was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Then {
    /// The array has space again; the host tries again and unmounts.
    TriesAgain,
    /// The host unmounts while the array is still full.
    Unmounts,
    /// The host is gone; another one takes over when there is space again.
    IsGone,
}

/// Blocks that are to be zeroed in all files: fsck.vmfs calls them lost.
fn to_be_zeroed(volume: &mut Volume<FileDisk>, directory: &str) -> Result<u32> {
    let mut sum = 0;
    for entry in volume.list(directory)? {
        let path = format!("{directory}/{}", entry.name);
        sum += match entry.kind {
            FileKind::Directory => to_be_zeroed(volume, &path)?,
            FileKind::File => volume.status(&path)?.to_be_zeroed,
            FileKind::System => 0,
        };
    }
    Ok(sum)
}

/// Deletes all files: each block that is taken must be found by it.
fn delete_all(volume: &mut Volume<FileDisk>, directory: &str) -> Result<()> {
    for entry in volume.list(directory)? {
        let path = format!("{directory}/{}", entry.name);
        if entry.kind == FileKind::Directory {
            delete_all(volume, &path)?;
        }
        if entry.kind != FileKind::System {
            volume.remove_path(&path).with_context(|| path.clone())?;
        }
    }
    Ok(())
}

/// Runs an operation with refusals; returns whether there were any.
fn one(operation: &Operation, refusal: &Refusal, then: Then) -> Result<bool> {
    let bench = Bench::new(2 << 30, 10)?;
    let mut volume = bench.host(1, Locking::Ats)?;
    let empty = volume.space()?;
    put(&mut volume, "old", &pattern(100_000, 1))?;
    (operation.prepare)(&mut volume)?;
    volume.disk().refuse(refusal.clone());
    let done = (operation.carry_out)(&mut volume);
    let refused = volume.disk().refused() > 0;
    ensure!(done.is_ok() || refused, "without a refusal: {done:?}");
    if matches!(refusal, Refusal::FullFrom(_)) {
        // What is there can be seen while the array is full.
        ensure!(get(&mut volume, "old")? == pattern(100_000, 1));
        volume.list("/")?;
    }
    match then {
        Then::TriesAgain => {
            volume.disk().refuse(Refusal::None);
            match (operation.carry_out)(&mut volume) {
                Ok(()) => {}
                // What was made before the refusal stays.
                Err(error) => {
                    let known = error.downcast_ref::<Error>();
                    let known = matches!(known, Some(Error::Exists(_) | Error::NotFound(_)));
                    ensure!(known || error.to_string().contains("not a disk"), "again: {error:?}");
                }
            }
            volume.unmount()?;
        }
        Then::Unmounts => {
            // Where the array refuses also what takes no space, it is as if the host were gone.
            let _ = volume.unmount();
        }
        Then::IsGone => drop(volume),
    }
    let mut other = bench.host(2, Locking::Ats)?;
    other.take_over_dead()?;
    check(&bench, other, empty)?;
    Ok(refused)
}

/// The volume is whole and all that is in it can be deleted, as a living host and fsck.vmfs see it.
pub(super) fn check(bench: &Bench, mut volume: Volume<FileDisk>, empty: Space) -> Result<()> {
    bench.check_with_to_be_zeroed(to_be_zeroed(&mut volume, "")?)?;
    ensure!(get(&mut volume, "old")? == pattern(100_000, 1), "the other file changed");
    ensure!(bench.cat("/old")? == pattern(100_000, 1), "vmfs-tools read something else");
    check_descriptors(&mut volume)?;
    delete_all(&mut volume, "")?;
    ensure!(volume.space()? == empty, "{:?} was {empty:?}", volume.space()?);
    volume.unmount()?;
    bench.check()
}

fn at_every_write(refusal: fn(u64) -> Refusal, then: Then) -> Result<()> {
    let mut refused = 0;
    for operation in &OPERATIONS {
        let mut number = 0;
        while one(operation, &refusal(number), then)
            .with_context(|| format!("{}, write {number}, then it {then:?}", operation.name))?
        {
            number += 1;
        }
        // Of what only overwrites, a full array refuses nothing.
        let overwrites = matches!(refusal(0), Refusal::FullFrom(_));
        ensure!(number > 0 || overwrites, "{} writes nothing", operation.name);
        refused += number;
    }
    ensure!(refused > 15, "only {refused} writes were refused");
    Ok(())
}

#[test]
fn a_single_write_is_refused_and_the_host_tries_again() -> Result<()> {
    at_every_write(|n| Refusal::Numbers(n..n + 1), Then::TriesAgain)
}

#[test]
fn a_single_write_is_refused_and_the_host_is_gone() -> Result<()> {
    at_every_write(|n| Refusal::Numbers(n..n + 1), Then::IsGone)
}

#[test]
fn every_write_is_refused_for_some_time_and_the_host_tries_again() -> Result<()> {
    at_every_write(|n| Refusal::Numbers(n..u64::MAX), Then::TriesAgain)
}

#[test]
fn every_write_is_refused_until_the_host_is_gone() -> Result<()> {
    at_every_write(|n| Refusal::Numbers(n..u64::MAX), Then::Unmounts)
}

#[test]
fn an_array_runs_full_and_the_host_unmounts() -> Result<()> {
    at_every_write(Refusal::FullFrom, Then::Unmounts)
}

#[test]
fn an_array_runs_full_and_has_space_again() -> Result<()> {
    at_every_write(Refusal::FullFrom, Then::TriesAgain)
}

/// A disk or a mapping that is not made because one write was refused leaves nothing.
#[test]
fn of_a_disk_that_could_not_be_made_nothing_is_left() -> Result<()> {
    let makes: [Step; 2] = [
        |v| Ok(v.create_raw_mapping("raw.vmdk", 5 * MIB, "naa.6001")?),
        |v| {
            let disk = v.create_disk("raw.vmdk", 300 * MIB, DiskFormat::ZeroedThick)?;
            Ok(v.close(disk)?)
        },
    ];
    for (which, make) in makes.into_iter().enumerate() {
        for number in 0.. {
            let bench = Bench::new(2 << 30, 10)?;
            let mut volume = bench.host(1, Locking::Ats)?;
            volume.disk().refuse(Refusal::Numbers(number..number + 1));
            let made = make(&mut volume);
            let refused = volume.disk().refused() > 0;
            volume.disk().refuse(Refusal::None);
            if made.is_err() {
                let left: Vec<String> =
                    volume.list("")?.into_iter().map(|entry| entry.name).collect();
                let left = left.iter().filter(|name| name.starts_with("raw")).count();
                ensure!(left == 0, "{which}, write {number}: {left} files are left");
            }
            volume.unmount()?;
            if !refused {
                break;
            }
        }
    }
    Ok(())
}
