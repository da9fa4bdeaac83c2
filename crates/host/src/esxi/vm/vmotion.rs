//! vMotion: a running virtual machine changes hosts while its files stay. One host stops at a write,
//! lets go of the machine's locks on the datastore, and the other one takes them and goes on.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde::Serialize;

use super::{Run, WorkloadFigures, run_until};
use crate::esxi::datastore::Datastore;
use crate::esxi::state::Host;

/// A running machine to move.
#[derive(Clone, Debug)]
pub struct Vmotion {
    /// What it does meanwhile; half of the time on each host.
    pub run: Run,
}

/// What came of it.
#[derive(Clone, Debug, Serialize)]
pub struct Moved {
    /// What the machine did on the first host.
    pub source: WorkloadFigures,
    /// And on the second one.
    pub destination: WorkloadFigures,
    /// Milliseconds between the last access through the first host and the first through the
    /// second: locks and files change hands.
    pub switchover_ms: f64,
    /// COMPARE AND WRITEs that both hosts sent for it.
    pub ats: u64,
    /// Of these, those that found another content: each is tried again.
    pub ats_misses: u64,
    /// RESERVATION CONFLICTs that both hosts met.
    pub conflicts: u64,
}

/// Moves a machine from one host to another, both of which have its datastore mounted.
///
/// # Errors
/// When a host cannot run it: it is no machine, or in use. After a failure on the second host it is
/// powered off.
pub fn vmotion(hosts: [&Host; 2], stores: &mut [Datastore; 2], order: &Vmotion) -> Result<Moved> {
    ensure!(!order.run.path.ends_with(".vmdk"), "{} is no virtual machine", order.run.path);
    let half = Run { duration: order.run.duration / 2, ..order.run.clone() };
    let before = stores.each_mut().map(Datastore::counters);
    let mut last = None::<Instant>;
    let [first, second] = stores;
    let source = run_until(hosts[0], first, &half, &mut || {
        last = Some(Instant::now());
        false
    })
    .context("on the first host")?;
    let mut began = None::<Duration>;
    let destination = run_until(hosts[1], second, &half, &mut || {
        began = began.or(last.map(|last| last.elapsed()));
        false
    })
    .context("on the second host; the machine is powered off")?;
    let mut counted = stores.each_mut().map(Datastore::counters);
    for (counters, before) in counted.iter_mut().zip(&before) {
        *counters = counters.since(before);
    }
    Ok(Moved {
        source,
        destination,
        switchover_ms: began.map_or(0.0, |time| time.as_secs_f64() * 1e3),
        ats: counted.iter().map(|counters| counters.ats).sum(),
        ats_misses: counted.iter().map(|counters| counters.atsf).sum(),
        conflicts: counted.iter().map(|counters| counters.cons).sum(),
    })
}
