//! The touch loop: many hosts that change the same datastore's metadata as fast as they can.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde::Serialize;
use vmfs::{Locking, Mount, Volume};

use crate::esxi::counters::Counters;
use crate::esxi::lun::Lun;
use crate::esxi::settings::Settings;
use crate::esxi::state::new_uuid;

/// A loop to run.
#[derive(Clone, Debug)]
pub struct Loop {
    /// Paths to the LUN.
    pub urls: Vec<String>,
    /// Hosts, each with a session of its own on each path.
    pub hosts: u32,
    /// Touches of each host: of its own file, and as many of one that all share.
    pub rounds: u32,
    /// How they lock.
    pub locking: Locking,
}

/// What came of it.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct TouchFigures {
    /// Files touched.
    pub touches: u64,
    /// Seconds.
    pub seconds: f64,
    /// Touches per second.
    pub per_second: f64,
    /// The slowest touch, in milliseconds.
    pub slowest_ms: u64,
    /// On-disk locks acquired.
    pub locks: u64,
    /// RESERVATION CONFLICTs.
    pub conflicts: u64,
    /// COMPARE AND WRITEs that lost a race.
    pub miscompares: u64,
    /// RESERVEs.
    pub reserves: u64,
    /// COMPARE AND WRITEs that won.
    pub ats: u64,
    /// Bytes on the wire.
    pub wire_bytes: u64,
}

/// Runs a loop; every touch must succeed.
///
/// # Errors
/// The first touch that failed.
pub fn run(order: &Loop) -> Result<TouchFigures> {
    ensure!((1..=64).contains(&order.hosts), "1 to 64 hosts");
    let started = Instant::now();
    let hosts: Vec<_> = (0..order.hosts)
        .map(|number| {
            let order = order.clone();
            std::thread::spawn(move || one_host(&order, number))
        })
        .collect();
    let mut sum = TouchFigures::default();
    for host in hosts {
        let one = host.join().ok().context("a host panicked")??;
        sum.touches += one.touches;
        sum.slowest_ms = sum.slowest_ms.max(one.slowest_ms);
        sum.locks += one.locks;
        sum.conflicts += one.conflicts;
        sum.miscompares += one.miscompares;
        sum.reserves += one.reserves;
        sum.ats += one.ats;
        sum.wire_bytes += one.wire_bytes;
    }
    sum.seconds = started.elapsed().as_secs_f64();
    sum.per_second = sum.touches as f64 / sum.seconds;
    Ok(sum)
}

fn one_host(order: &Loop, number: u32) -> Result<TouchFigures> {
    let name = format!("touch{number}");
    let iqn = format!("iqn.1998-01.com.vmware:{name}-{:08x}", std::process::id());
    let lun = Lun::connect(&order.urls, &iqn, &Settings::default())?;
    let mount = Mount {
        host: new_uuid()?,
        name: name.clone(),
        locking: order.locking,
        ats_heartbeat: true,
    };
    let mut volume = Volume::mount(lun, mount)?;
    let mut slowest = Duration::ZERO;
    for round in 0..order.rounds {
        for path in [name.as_str(), "touched-by-all"] {
            let started = Instant::now();
            volume.touch(path).with_context(|| format!("{name}, round {round}, {path}"))?;
            slowest = slowest.max(started.elapsed());
        }
    }
    let stats = volume.stats();
    let mut counters = Counters::default();
    for mut lun in volume.unmount()? {
        lun.measure_wire();
        counters.add(&lun.counters);
    }
    Ok(TouchFigures {
        touches: u64::from(order.rounds) * 2,
        slowest_ms: slowest.as_millis() as u64,
        locks: stats.locks,
        conflicts: counters.cons,
        miscompares: stats.contention.miscompares,
        reserves: counters.resv,
        ats: counters.ats,
        wire_bytes: counters.wire_bytes,
        ..TouchFigures::default()
    })
}
