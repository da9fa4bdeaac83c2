//! Datastores: VMFS-5 volumes on LUNs, mounted by one host.

use anyhow::{Context, Result, bail};
use vmfs::format::Options;
use vmfs::partition::Table;
use vmfs::{Disk, DiskError, Locking, Mount, Place, Volume};

use crate::esxi::counters::Counters;
use crate::esxi::lun::Lun;
use crate::esxi::state::{Host, new_uuid};
use crate::esxi::vaai::Status;

/// A mounted datastore.
pub struct Datastore {
    /// The device that its head is on.
    pub device: String,
    /// The volume.
    pub volume: Volume<Lun>,
}

/// A path on a datastore: its name or identifier, and the path inside.
pub fn split_path(path: &str) -> Result<(&str, &str)> {
    let inside = path.strip_prefix("/vmfs/volumes/").unwrap_or(path).trim_start_matches('/');
    let (store, rest) = inside.split_once('/').unwrap_or((inside, ""));
    if store.is_empty() {
        bail!("{path}: write /vmfs/volumes/DATASTORE/PATH");
    }
    Ok((store, rest))
}

/// Finds out whether COMPARE AND WRITE works, by replacing a sector with itself.
///
/// # Errors
/// When the LUN cannot be read.
pub fn try_ats(lun: &mut Lun) -> Result<()> {
    if lun.vaai.ats != Status::Unknown {
        return Ok(());
    }
    let mut sector = [0; 512];
    lun.read(0, &mut sector)?;
    match lun.compare_and_write(0, &sector, &sector) {
        Ok(_) | Err(DiskError::Unsupported) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// How a host locks on a LUN: as its settings say and the LUN can.
pub fn locking(lun: &Lun) -> Locking {
    let ats = lun.settings.hardware_accelerated_locking && lun.vaai.ats == Status::Supported;
    if ats { Locking::Ats } else { Locking::Scsi }
}

/// Whether a device holds a part of a datastore whose head this host does not see: one that is gone, or
/// one that other hosts use.
///
/// # Errors
/// When the datastore's head is there, or the device cannot be reached.
pub fn is_stray_extent(host: &Host, device: &str) -> Result<bool> {
    if !vmfs::is_extent(&mut host.lun(device)?) {
        return Ok(false);
    }
    if let Ok(head) = head_of(host, device) {
        bail!(
            "{device} is an extent of the datastore on {head}: delete that first, by -C on {head}:1"
        );
    }
    Ok(true)
}

/// Makes a datastore on a device: ATS-only where COMPARE AND WRITE works and is enabled. What is on the
/// device is lost; [`is_stray_extent`] tells whether that is part of another datastore.
///
/// # Errors
/// When neither COMPARE AND WRITE nor RESERVE works: 'Not supported', as ESXi says.
pub fn format(host: &mut Host, device: &str, label: &str, lease_ms: Option<u32>) -> Result<()> {
    let mut lun = host.lun(device)?;
    try_ats(&mut lun)?;
    let locking = locking(&lun);
    if locking == Locking::Scsi {
        let reserved = lun.reserve().and_then(|()| lun.release());
        if reserved == Err(DiskError::Unsupported) {
            bail!("Failed to create FS on dev [{device}] fs [{label}]: Not supported");
        }
        reserved?;
    }
    let options = Options {
        label: label.to_owned(),
        uuid: new_uuid()?,
        table: Table::Gpt,
        ats_only: locking == Locking::Ats,
        lease_ms,
    };
    vmfs::format::format(&mut lun, &options)?;
    host.finish(lun)?;
    host.change(|record| {
        let found = record.devices.get_mut(device).context("the device is gone")?;
        found.datastore = Some(label.to_owned());
        Ok(())
    })
}

/// Mounts the datastore of a name or identifier.
///
/// # Errors
/// When there is none, or it cannot be mounted.
pub fn mount(host: &Host, name: &str) -> Result<Datastore> {
    for (device, known) in &host.record.devices {
        if known.datastore.as_deref() == Some(name) {
            return mount_lun(host, device, host.lun(device)?);
        }
    }
    for (device, _, mut lun) in host.reachable() {
        let found = vmfs::volume::probe(&mut lun);
        if found.is_ok_and(|found| found.label == name || found.uuid.to_string() == name) {
            return mount_lun(host, device, lun);
        }
    }
    bail!("{name}: no such datastore; 'gantry-host rescan' finds new ones")
}

/// Mounts the datastore on a device.
///
/// # Errors
/// When there is no such device or no datastore on it, or it cannot be mounted.
pub fn mount_device(host: &Host, device: &str) -> Result<Datastore> {
    mount_lun(host, device, host.lun(device)?)
}

/// The device on which the head of the datastore lies of which a device has a part.
///
/// # Errors
/// When no datastore that this host sees has it, or a device cannot be reached.
pub fn head_of(host: &Host, device: &str) -> Result<String> {
    let mut unreachable = None;
    for name in host.used_devices() {
        let mut lun = match host.lun(name) {
            Ok(lun) => lun,
            Err(error) => {
                unreachable = Some(error);
                continue;
            }
        };
        let found = vmfs::volume::probe(&mut lun);
        let of_it = |disk: &String| disk == device;
        if name == device && found.is_ok() || found.is_ok_and(|found| found.disks.iter().any(of_it))
        {
            return Ok(name.clone());
        }
    }
    // It may be the one of which this device is a part.
    if let Some(error) = unreachable {
        return Err(error);
    }
    bail!("{device}: no datastore is on it; 'gantry-host rescan' finds new ones")
}

/// Mounts datastores, in the order of their names; one that is named twice in a row only once.
///
/// # Errors
/// When one cannot be mounted; the others are unmounted then.
pub fn mount_all(host: &mut Host, names: &[&str]) -> Result<Vec<Datastore>> {
    let mut names = names.to_vec();
    names.dedup();
    let mut stores = Vec::new();
    for name in names {
        match mount(host, name) {
            Ok(store) => stores.push(store),
            Err(error) => {
                finish_all(stores, host)?;
                return Err(error);
            }
        }
    }
    Ok(stores)
}

/// Unmounts all of them.
///
/// # Errors
/// The first failure.
pub fn finish_all(stores: Vec<Datastore>, host: &mut Host) -> Result<()> {
    let finish = |done: Result<()>, store: Datastore| done.and(store.finish(host));
    stores.into_iter().fold(Ok(()), finish)
}

fn mount_lun(host: &Host, device: &str, mut lun: Lun) -> Result<Datastore> {
    try_ats(&mut lun)?;
    let mount = Mount {
        host: host.uuid()?,
        name: host.record.name.clone(),
        locking: locking(&lun),
        ats_heartbeat: lun.settings.ats_for_heartbeat,
    };
    let volume = Volume::mount(lun, mount)?;
    let missing = volume.missing();
    if !missing.is_empty() {
        terminal::complain!(
            "{} is degraded: {} missing; what lies there cannot be read, and nothing is put there",
            volume.label(),
            missing.join(", ")
        );
    }
    Ok(Datastore { device: device.to_owned(), volume })
}

impl Datastore {
    /// Unmounts, and adds to the host's counters.
    ///
    /// # Errors
    /// When the heartbeat was lost or the folder cannot be written.
    pub fn finish(self, host: &mut Host) -> Result<()> {
        self.volume.unmount()?.into_iter().try_for_each(|lun| host.finish(lun))
    }

    /// What was done on all of its LUNs.
    pub fn counters(&mut self) -> Counters {
        let mut sum = Counters::default();
        self.volume.disks().for_each(|lun| sum.add(&lun.counters));
        sum
    }

    /// The LUN of a place.
    ///
    /// # Errors
    /// When it is missing.
    pub fn lun(&mut self, place: Place) -> Result<&mut Lun> {
        Ok(self.volume.disk_at(place)?)
    }
}
