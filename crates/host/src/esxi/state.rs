//! A simulated host between runs: a folder with its name, paths, settings and counters.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};
use vmfs::Uuid;

use crate::esxi::counters::Counters;
use crate::esxi::lun::Lun;
use crate::esxi::settings::Settings;
use crate::esxi::vaai::Vaai;
use crate::initiator::session::{self, Session, SessionError};

/// What the folder's host.json holds.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Record {
    /// The host's name.
    pub name: String,
    /// Its iSCSI name.
    pub iqn: String,
    /// Its identifier on datastores.
    pub uuid: String,
    /// Addresses of LUNs, each a path: iscsi://[USER%PASSWORD@]HOST:PORT/TARGET/LUN.
    pub paths: Vec<String>,
    /// Portals that are asked for their targets (dynamic discovery).
    #[serde(default)]
    pub portals: Vec<Portal>,
    /// Whether the software iSCSI initiator is off.
    #[serde(default)]
    pub iscsi_is_off: bool,
    /// Its settings.
    #[serde(default)]
    pub settings: Settings,
    /// Devices as of the last rescan.
    #[serde(default)]
    pub devices: BTreeMap<String, Device>,
    /// Devices that were turned off; a rescan turns none on.
    #[serde(default)]
    pub detached: BTreeSet<String>,
}

/// A portal that is asked for its targets.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Portal {
    /// HOST:PORT.
    pub address: String,
    /// Addresses of LUNs that were found when it answered last, as `paths`.
    pub found: Vec<String>,
    /// Tags of portal groups of what was found: HOST:PORT, tag.
    pub tags: Vec<(String, u16)>,
    /// Why it did not answer the last time; empty when it did.
    pub last_error: String,
}

/// A device as of the last rescan.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Device {
    /// Its paths.
    pub paths: Vec<String>,
    /// What is believed of its offloads.
    pub vaai: Vaai,
    /// The datastore on it.
    pub datastore: Option<String>,
}

/// A host's folder.
#[derive(Clone, Debug)]
pub struct Host {
    folder: PathBuf,
    /// As last read or saved.
    pub record: Record,
}

/// Bytes that nobody can guess: for identifiers.
pub fn random() -> Result<[u8; 16]> {
    let mut bytes = [0; 16];
    File::open("/dev/urandom")?.read_exact(&mut bytes).context("reading /dev/urandom")?;
    Ok(bytes)
}

/// A new identifier in VMware's form: time first.
///
/// # Errors
/// When there is no randomness.
pub fn new_uuid() -> Result<Uuid> {
    let mut bytes = random()?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs() as u32;
    bytes[..4].copy_from_slice(&now.to_le_bytes());
    Ok(Uuid(bytes))
}

impl Portal {
    fn ask(&mut self, iqn: &str) -> Result<(), SessionError> {
        let (mut found, mut tags) = (Vec::new(), Vec::new());
        for target in session::send_targets(&self.address, iqn)? {
            let place = format!("iscsi://{}/{}", target.portal, target.name);
            match Session::disks(&format!("{place}/0"), iqn) {
                Ok(luns) => found.extend(luns.iter().map(|lun| format!("{place}/{lun}"))),
                Err(error) => terminal::complain!("{error}"),
            }
            tags.push((target.portal, target.tag));
        }
        (self.found, self.tags) = (found, tags);
        Ok(())
    }
}

impl Record {
    /// Addresses of LUNs, named and found, each once; none while the initiator is off.
    pub fn all_paths(&self) -> Vec<String> {
        if self.iscsi_is_off {
            return Vec::new();
        }
        let found = self.portals.iter().flat_map(|portal| &portal.found);
        let mut all: Vec<String> = Vec::new();
        for url in self.paths.iter().chain(found) {
            if !all.contains(url) {
                all.push(url.clone());
            }
        }
        all
    }
}

impl Host {
    /// Makes a new host in a new or empty folder.
    ///
    /// # Errors
    /// When there is a host already.
    pub fn create(folder: &Path, name: &str, iqn: Option<&str>) -> Result<Self> {
        fs::create_dir_all(folder.join("live"))?;
        ensure!(!folder.join("host.json").exists(), "{} has a host already", folder.display());
        let suffix: String = random()?[..4].iter().map(|byte| format!("{byte:02x}")).collect();
        let iqn =
            iqn.map_or_else(|| format!("iqn.1998-01.com.vmware:{name}-{suffix}"), str::to_owned);
        let record = Record {
            name: name.to_owned(),
            iqn,
            uuid: new_uuid()?.to_string(),
            paths: Vec::new(),
            portals: Vec::new(),
            iscsi_is_off: false,
            settings: Settings::default(),
            devices: BTreeMap::new(),
            detached: BTreeSet::new(),
        };
        let host = Self { folder: folder.to_owned(), record };
        host.save()?;
        Ok(host)
    }

    /// Opens a host's folder.
    ///
    /// # Errors
    /// When there is none.
    pub fn open(folder: &Path) -> Result<Self> {
        let path = folder.join("host.json");
        let text = fs::read_to_string(&path).with_context(|| {
            format!("{} has no host: make one with 'gantry-host host-create'", folder.display())
        })?;
        let record = serde_json::from_str(&text).with_context(|| format!("{path:?}"))?;
        Ok(Self { folder: folder.to_owned(), record })
    }

    /// As its folder has it now.
    pub(crate) fn reopened(&self) -> Result<Self> {
        Self::open(&self.folder)
    }

    fn save(&self) -> Result<()> {
        let temporary = self.folder.join(format!("host.json.{}", std::process::id()));
        fs::write(&temporary, serde_json::to_vec_pretty(&self.record)?)?;
        Ok(fs::rename(temporary, self.folder.join("host.json"))?)
    }

    /// Changes the record, alone among the host's processes.
    ///
    /// # Errors
    /// When the folder cannot be written, or the change fails.
    pub fn change(&mut self, change: impl FnOnce(&mut Record) -> Result<()>) -> Result<()> {
        let lock = File::create(self.folder.join("lock"))?;
        lock.lock()?;
        self.record = Self::open(&self.folder)?.record;
        change(&mut self.record)?;
        self.save()
    }

    /// The host's identifier on datastores.
    ///
    /// # Errors
    /// When the folder was damaged.
    pub fn uuid(&self) -> Result<Uuid> {
        Uuid::parse(&self.record.uuid).context("host.json has no usable uuid")
    }

    /// Connects all paths, groups them to devices, and forgets what was believed of them.
    ///
    /// # Errors
    /// When the folder cannot be written. Paths that do not answer are left out, with a word.
    pub fn rescan(&mut self) -> Result<Vec<(String, Lun)>> {
        if !self.record.iscsi_is_off {
            self.discover()?;
        }
        let mut groups: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for url in &self.record.all_paths() {
            let one = std::slice::from_ref(url);
            match Lun::connect(one, &self.record.iqn, &self.record.settings) {
                Ok(lun) => groups.entry(lun.identity.name()).or_default().push(url.clone()),
                Err(error) => terminal::complain!("{url}: {error}"),
            }
        }
        let mut devices = BTreeMap::new();
        let mut luns = Vec::new();
        for (name, paths) in groups {
            let mut lun = Lun::connect(&paths, &self.record.iqn, &self.record.settings)?;
            let datastore = vmfs::volume::probe(&mut lun).ok();
            let datastore = datastore.map(|found| terminal::printable(&found.label));
            devices.insert(name.clone(), Device { paths, vaai: Vaai::default(), datastore });
            luns.push((name, lun));
        }
        self.change(|record| {
            record.devices = devices;
            Ok(())
        })?;
        Ok(luns)
    }

    /// Asks all portals for their targets, and these for their disks. What a portal named before
    /// stays while it does not answer.
    ///
    /// # Errors
    /// When the folder cannot be written.
    pub fn discover(&mut self) -> Result<()> {
        if self.record.portals.is_empty() {
            return Ok(());
        }
        let mut portals = self.record.portals.clone();
        for portal in &mut portals {
            portal.last_error.clear();
            if let Err(error) = portal.ask(&self.record.iqn) {
                terminal::complain!("{}: {error}", portal.address);
                portal.last_error = error.to_string();
            }
        }
        self.change(|record| {
            for asked in portals {
                let known = record.portals.iter_mut().find(|one| one.address == asked.address);
                if let Some(known) = known {
                    *known = asked;
                }
            }
            Ok(())
        })
    }

    /// Connects a device.
    ///
    /// # Errors
    /// When there is no such device, it is off, or there is no path to it.
    pub fn lun(&self, name: &str) -> Result<Lun> {
        ensure!(
            !self.record.detached.contains(name),
            "{name}: the device is off; 'esxcli storage core device set --state on' turns it on"
        );
        self.look_at(name)
    }

    /// The devices that are not off.
    pub(crate) fn used_devices(&self) -> impl Iterator<Item = &String> {
        self.record.devices.keys().filter(|name| !self.record.detached.contains(*name))
    }

    /// Connects a device to look at it, even if it is off.
    ///
    /// # Errors
    /// When there is no such device, or no path to it.
    pub(crate) fn look_at(&self, name: &str) -> Result<Lun> {
        let Some(device) = self.record.devices.get(name) else {
            bail!("{name}: no such device; 'gantry-host rescan' finds new ones");
        };
        let mut lun = Lun::connect(&device.paths, &self.record.iqn, &self.record.settings)?;
        lun.vaai = device.vaai;
        lun.belongs_to(self.clone());
        lun.publish_to(self.live_file(name));
        Ok(lun)
    }

    /// Connects every device that answers and is not off; standard error tells why one does not.
    pub fn reachable(&self) -> impl Iterator<Item = (&String, &Device, Lun)> {
        self.used_devices().filter_map(|name| self.answering(name))
    }

    /// Connects every device that answers, also those that are off.
    pub(crate) fn visible(&self) -> impl Iterator<Item = (&String, &Device, Lun)> {
        self.record.devices.keys().filter_map(|name| self.answering(name))
    }

    fn answering<'a>(&'a self, name: &'a String) -> Option<(&'a String, &'a Device, Lun)> {
        match self.look_at(name) {
            Ok(lun) => Some((name, &self.record.devices[name], lun)),
            Err(error) => {
                terminal::complain!("{name}: {error:#}");
                None
            }
        }
    }

    /// A file for the counters of one connection to a device, which `esxtop` looks at.
    fn live_file(&self, name: &str) -> PathBuf {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        self.folder.join("live").join(format!("{}.{number}-{name}.json", std::process::id()))
    }

    /// Shows the counters of a device to `esxtop` now.
    ///
    /// # Errors
    /// Never; what is wrong with the folder shows in [`Host::finish`].
    pub fn publish(&self, lun: &mut Lun) -> Result<()> {
        lun.publish();
        Ok(())
    }

    /// Adds what this process did to the sums, and keeps what it learned of the offloads.
    ///
    /// # Errors
    /// When the folder cannot be written.
    pub fn finish(&mut self, mut lun: Lun) -> Result<()> {
        lun.measure_wire();
        let name = lun.identity.name();
        let folder = self.folder.clone();
        self.change(|record| {
            if let Some(device) = record.devices.get_mut(&name) {
                device.vaai = lun.vaai;
            }
            let mut sums = read_sums(&folder)?;
            sums.entry(name).or_default().add(&lun.counters);
            fs::write(folder.join("counters.json"), serde_json::to_vec(&sums)?)?;
            lun.stop_publishing();
            Ok(())
        })
    }

    /// The folder for what processes of this host show of themselves while they run.
    pub(crate) fn live_folder(&self) -> PathBuf {
        self.folder.join("live")
    }

    /// The counters of all devices, those of running processes among them.
    ///
    /// # Errors
    /// When the folder cannot be read.
    pub fn counters(&self) -> Result<BTreeMap<String, Counters>> {
        let lock = File::create(self.folder.join("lock"))?;
        lock.lock()?;
        let mut sums = read_sums(&self.folder)?;
        for entry in fs::read_dir(self.folder.join("live"))? {
            let path = entry?.path();
            let name = path.file_stem().and_then(|name| name.to_str()).unwrap_or_default();
            if path.extension().is_some_and(|kind| kind == "json")
                && let Some((_, device)) = name.split_once('-')
            {
                let bytes = match fs::read(&path) {
                    // A connection that ended meanwhile.
                    Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
                    other => other?,
                };
                let counters: Counters = serde_json::from_slice(&bytes)?;
                sums.entry(device.to_owned()).or_default().add(&counters);
            }
        }
        Ok(sums)
    }
}

fn read_sums(folder: &Path) -> Result<BTreeMap<String, Counters>> {
    match fs::read(folder.join("counters.json")) {
        Ok(bytes) => Ok(serde_json::from_slice(&bytes)?),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(BTreeMap::new()),
        Err(error) => Err(error.into()),
    }
}
