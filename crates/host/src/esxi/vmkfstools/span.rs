//! `vmkfstools -Z` (`--spanfs`): a datastore takes another LUN as an extent.

use std::io::{self, BufRead, Write};
use std::path::PathBuf;

use anyhow::{Context, Result, bail, ensure};
use vmfs::Locking;

use crate::esxi::datastore;
use crate::esxi::lun::Lun;
use crate::esxi::mover::Report;
use crate::esxi::state::Host;
use crate::esxi::vaai::Status;

/// Adds a device to the datastore on another one, if whoever asks for it says yes.
pub(super) fn span(
    host: &mut Host,
    [device, head]: [&str; 2],
    seen_by: &[PathBuf],
) -> Result<Report> {
    refuse(host, [device, head], seen_by)?;
    ask(device)?;
    let lun = connect(host, device)?;
    let mut store = datastore::mount_device(host, head)?;
    let label = store.volume.label().to_owned();
    let grown = store.volume.span(lun);
    store.finish(host)?;
    let added = grown.map(|grown| grown.after_bytes - grown.before_bytes)?;
    terminal::say!("Successfully spanned volume: {label} over {device}:1, by {} MB", added >> 20);
    Ok(Report::default())
}

fn connect(host: &Host, device: &str) -> Result<Lun> {
    let mut lun = host.lun(device)?;
    datastore::try_ats(&mut lun)?;
    Ok(lun)
}

/// Refuses what cannot be, before anybody is asked.
fn refuse(host: &mut Host, [device, head]: [&str; 2], seen_by: &[PathBuf]) -> Result<()> {
    for folder in seen_by {
        let other = Host::open(folder)?;
        ensure!(
            other.record.devices.contains_key(device),
            "{} does not see {device}: map its LUN to all hosts of the datastore and rescan there",
            other.record.name
        );
    }
    let mut lun = connect(host, device)?;
    let found = datastore::head_of(host, head)?;
    ensure!(found == head, "{head} is an extent: name the datastore's head, {found}:1");
    let mut store = datastore::mount_device(host, head)?;
    let refused = store.volume.refuse_disk(&mut lun);
    let locking = datastore::locking(store.volume.disk());
    store.finish(host)?;
    refused?;
    ensure!(
        locking == Locking::Scsi || lun.vaai.ats == Status::Supported,
        "{device} does not support ATS, by which the datastore locks"
    );
    host.finish(lun)
}

/// Asks as ESXi does; the answer is a line of standard input.
pub(super) fn ask(device: &str) -> Result<()> {
    terminal::progress!(
        "VMware ESX Question:\nAll data on device {device}:1 will be lost. Continue and format?\n\n\
         0) _Yes\n1) _No\n\nSelect a number from 0-1: "
    );
    io::stdout().flush().context("asking")?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer).context("reading the answer")?;
    match answer.trim() {
        "0" => Ok(()),
        _ => bail!("nothing was changed: answer 0 to overwrite {device}:1"),
    }
}
