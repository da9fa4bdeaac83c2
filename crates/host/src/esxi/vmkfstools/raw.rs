//! `vmkfstools -i DISK -d rdm:DEVICE MAPPING`: clones a disk to a raw device, and makes a raw device mapping
//! on a datastore that names the device.

use anyhow::{Result, ensure};

use super::{Teller, with_store};
use crate::esxi::datastore::{self, split_path};
use crate::esxi::lun::Lun;
use crate::esxi::mover::{self, Report};
use crate::esxi::state::Host;

/// What to clone, and where to.
pub(super) struct Order<'a> {
    pub(super) source: &'a str,
    pub(super) device: &'a str,
    pub(super) mapping: &'a str,
    pub(super) verify: bool,
}

/// Clones. The mapping goes again when the clone fails; the device then holds part of it.
pub(super) fn clone(host: &mut Host, order: &Order<'_>) -> Result<Report> {
    let mut lun = host.lun(order.device)?;
    let known = host.record.devices.get(order.device).and_then(|found| found.datastore.as_ref());
    ensure!(
        known.is_none(),
        "{} has the datastore {}, which would be lost",
        order.device,
        known.map_or("", String::as_str)
    );
    ensure!(
        !vmfs::is_extent(&mut lun),
        "{} is an extent of a datastore, which would be lost",
        order.device
    );
    terminal::progress!(
        "Destination disk format: raw device map\nCloning disk '{}'...\n",
        order.source
    );
    let (name, mapping) = split_path(order.mapping)?;
    ensure!(
        name == split_path(order.source)?.0,
        "{}: the mapping belongs to the source's datastore",
        order.mapping
    );
    let size = lun.identity.size_bytes;
    with_store(host, order.mapping, |store, _, _| {
        Ok(store.volume.create_raw_mapping(mapping, size, order.device)?)
    })?;
    let cloned = clone_and_compare(host, &mut lun, order);
    host.finish(lun)?;
    if cloned.is_err() {
        with_store(host, order.mapping, |store, _, _| Ok(store.volume.remove_disk(mapping)?))?;
    }
    cloned
}

fn clone_and_compare(host: &mut Host, lun: &mut Lun, order: &Order<'_>) -> Result<Report> {
    let (name, source) = split_path(order.source)?;
    let mut store = datastore::mount(host, name)?;
    let teller = Teller::new(host, "Clone")?;
    let mut report =
        mover::clone_to_device(&mut store, source, lun, &mut |done, all| teller.tell(done, all));
    if let (true, Ok(report)) = (order.verify, &mut report) {
        let teller = Teller::new(host, "Verify")?;
        let mut tell = |done, all| teller.tell(done, all);
        let size = store.volume.disk_descriptor(source)?.size;
        let sums = [
            mover::checksum(&mut store, source, &mut tell)?,
            mover::checksum_of_device(lun, size, &mut tell)?,
        ];
        ensure!(sums[0] == sums[1], "{} is NOT what {} is: {sums:?}", order.device, order.source);
        report.verified = Some(sums[0].clone());
    }
    store.finish(host)?;
    report
}
