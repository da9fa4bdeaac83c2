//! An array without space refuses writes of the host that takes a dead one's slot over, or of one
//! that mounts: each write in turn, after a death at each write of an operation. The journal record
//! is kept until all its changes are made.

use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::refusals::{OPERATIONS, Operation, check};
use super::tests::{Bench, MIB, get, pattern, put};
use super::*;
use crate::image::{FileDisk, Refusal};

const LEASE: Duration = Duration::from_secs(16);

/// Operations whose transactions differ: one file, many clusters, freeing, two directories.
const TRIED: [&str; 4] = [
    "write a file that outgrows its sub-block",
    "allocate blocks of many clusters",
    "rename in a directory and to another one",
    "delete a file",
];

/// Fate of the host that takes over, when a write was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Then {
    TriesAgain,
    IsGone,
}

/// Looks at all heartbeats; then a lease goes by.
fn wait_a_lease(volume: &mut Volume<FileDisk>) -> Result<()> {
    for number in 0..HOSTS_MAX {
        volume.is_silent(heartbeat::address(number))?;
    }
    volume.disk().pass(LEASE);
    Ok(())
}

/// Dies at a write of an operation, then has its slot taken over by a host some of whose writes are
/// refused. Returns whether it died, and whether there were refusals.
fn one(operation: &Operation, death: u64, refusal: &Refusal, then: Then) -> Result<[bool; 2]> {
    let bench = Bench::new(2 << 30, LEASE.as_millis() as u32)?;
    let mut dead = bench.host(1, Locking::Ats)?;
    let empty = dead.space()?;
    put(&mut dead, "old", &pattern(100_000, 1))?;
    (operation.prepare)(&mut dead)?;
    dead.disk().die_after_writes(death);
    if (operation.carry_out)(&mut dead).is_ok() {
        return Ok([false, false]);
    }
    drop(dead);
    let mut taker = bench.host(2, Locking::Ats)?;
    wait_a_lease(&mut taker)?;
    taker.disk().refuse(refusal.clone());
    let taken = taker.take_over_dead();
    let refused = taker.disk().refused() > 0;
    ensure!(refused == taken.is_err(), "{taken:?}");
    taker.disk().refuse(Refusal::None);
    if then == Then::IsGone {
        let done = taker.stats().takeovers;
        drop(taker);
        taker = bench.host(3, Locking::Ats)?;
        wait_a_lease(&mut taker)?;
        let left = taker.take_over_dead()?;
        ensure!(done + left == 2, "{done} before and {left} after");
    } else {
        // Nobody else wrote meanwhile: it goes on at once.
        taker.take_over_dead()?;
        ensure!(taker.stats().takeovers == 1, "{:?}", taker.stats());
    }
    check(&bench, taker, empty)?;
    Ok([true, refused])
}

fn at_every_write(refusal: fn(u64) -> Refusal, then: Then) -> Result<()> {
    let mut refusals = 0;
    for name in TRIED {
        let found = OPERATIONS.iter().find(|operation| operation.name == name);
        let operation = found.with_context(|| name.to_owned())?;
        for death in 0.. {
            let mut number = 0;
            let died = loop {
                let [died, refused] = one(operation, death, &refusal(number), then)
                    .with_context(|| format!("{name}, dead at {death}, refused {number}"))?;
                if !refused {
                    break died;
                }
                number += 1;
            };
            refusals += number;
            if !died {
                break;
            }
        }
    }
    ensure!(refusals > 100, "only {refusals} writes were refused");
    Ok(())
}

#[test]
fn a_write_of_a_takeover_is_refused_and_the_host_tries_again() -> Result<()> {
    at_every_write(|n| Refusal::Numbers(n..n + 1), Then::TriesAgain)
}

#[test]
fn a_write_of_a_takeover_is_refused_and_the_host_is_gone() -> Result<()> {
    at_every_write(|n| Refusal::Numbers(n..n + 1), Then::IsGone)
}

// The mark of a host that began a takeover was taken for a sign of life of the dead one.
#[test]
fn a_takeover_that_came_to_nothing_keeps_no_other_host_from_it() -> Result<()> {
    let bench = Bench::new(1 << 30, LEASE.as_millis() as u32)?;
    let mut dead = bench.host(1, Locking::Ats)?;
    let kept = dead.create("f")?;
    drop((kept, dead));
    let (mut taker, mut third) = (bench.host(2, Locking::Ats)?, bench.host(3, Locking::Ats)?);
    wait_a_lease(&mut third)?;
    wait_a_lease(&mut taker)?;
    third.pulse()?;
    // Its mark is written; nothing after it is.
    taker.disk().refuse(Refusal::Numbers(1..u64::MAX));
    ensure!(taker.take_over_dead().is_err() && taker.stats().takeovers == 0);
    drop(taker);
    let number = (0..HOSTS_MAX).find_map(|number| {
        let (_, slot) = third.read_slot(heartbeat::address(number)).ok()?;
        (slot.host == Uuid([1; 16])).then_some(number)
    });
    let address = heartbeat::address(number.context("the dead host's slot")?);
    ensure!(third.is_silent(address)?, "it is not known to live");
    third.disk().pass(LEASE);
    ensure!(third.take_over_dead()? >= 1);
    third.remove_path("f")?;
    Ok(())
}

/// Mounts as host 2 with a disk that refuses some writes; returns whether it did.
fn mount_refused(bench: &mut Bench, locking: Locking, refusal: Refusal) -> Result<bool> {
    let mut disk = bench.lun().another_host();
    disk.pass(LEASE);
    disk.refuse(refusal);
    let watch = disk.another("lun")?;
    let mount = Mount { host: Uuid([2; 16]), name: "esx2".into(), locking, ats_heartbeat: true };
    let mounted = Volume::mount(disk, mount);
    let refused = watch.refused() > 0;
    match mounted {
        Ok(mut volume) => {
            ensure!(!refused || locking == Locking::Scsi, "it is mounted without its slot");
            volume.disk().refuse(Refusal::None);
            volume.unmount()?;
        }
        Err(Error::Disk(DiskError::OutOfSpace)) => ensure!(refused),
        Err(error) => return Err(error.into()),
    }
    Ok(refused)
}

#[test]
fn a_mount_whose_write_is_refused_takes_no_slot_and_keeps_no_reservation() -> Result<()> {
    for locking in [Locking::Ats, Locking::Scsi] {
        let mut bench = Bench::new(1 << 30, LEASE.as_millis() as u32)?;
        let mut watcher = bench.host(1, Locking::Ats)?;
        for last in [u64::MAX, 1] {
            let refused = mount_refused(&mut bench, locking, Refusal::Numbers(0..last))?;
            ensure!(refused, "mounting writes nothing");
            let hosts = watcher.hosts()?;
            ensure!(hosts.len() == 1, "{hosts:?}");
            watcher.touch("f")?;
        }
        ensure!(!mount_refused(&mut bench, locking, Refusal::None)?);
        watcher.unmount()?;
        bench.check()?;
    }
    Ok(())
}

// Where every slot is a dead host's, mounting takes them over: the journals, too, must be kept.
#[test]
fn a_mount_that_takes_slots_over_is_refused_at_each_write_of_one_takeover() -> Result<()> {
    let mut refusals = 0;
    // The mark, runs of changes, the cleared record, the cleared slot.
    for number in 0..8 {
        let mut bench = Bench::new(2 << 30, 200)?;
        let mut dead = bench.host(1, Locking::Ats)?;
        put(&mut dead, "old", &pattern(100_000, 1))?;
        put(&mut dead, "f", &pattern(3 * MIB as usize, 3))?;
        // In the middle of the changes of its transaction.
        dead.disk().die_after_writes(8);
        ensure!(dead.remove_path("f").is_err());
        for number in 1..HOSTS_MAX {
            bench.host(number as u8 + 1, Locking::Ats)?;
        }
        // Of the slots before it a mark and a clear slot are written.
        let first = heartbeat::number(dead.slot.address).context("a slot")? * 2;
        let refused = Refusal::Numbers(first + number..first + number + 1);
        // Where the lease ends between two slots, a clear one is taken before all are taken over.
        refusals += u64::from(mount_refused(&mut bench, Locking::Ats, refused)?);
        let mut other = bench.host(99, Locking::Ats)?;
        other.take_over_dead()?;
        bench.check()?;
        ensure!(get(&mut other, "old")? == pattern(100_000, 1));
        ensure!(other.hosts()?.len() == 1);
        other.unmount()?;
    }
    ensure!(refusals > 0, "no write was refused");
    Ok(())
}
