//! The bench: LUNs of an array, and simulated hosts that make and mount datastores on them.

use std::collections::BTreeMap;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use vmfs::format::Options;
use vmfs::partition::Table;
use vmfs::{Disk, Mount, Uuid, Volume};

use super::model::{Array, LunWords};
use super::space;
use super::watch::statistics;
use crate::esxi::datastore::{Datastore, locking, try_ats};
use crate::esxi::lun::{Identity, Lun};
use crate::esxi::settings::Settings;
use crate::esxi::state::new_uuid;
use crate::esxi::vaai::Status;
use crate::initiator::session::{HeaderDigest, Session};

/// Datastores of ours are named so, and may be overwritten.
pub const LABEL: &str = "gantry-validate";

/// Bytes at the beginning of a LUN that hold zeros if nobody uses it.
const HEAD: u64 = 1 << 20;

/// Whether the host may offload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vaai {
    /// All settings 0.
    Off,
    /// All settings 1.
    On,
}

impl Vaai {
    /// The settings of a host.
    pub fn settings(self) -> Settings {
        let on = self == Self::On;
        Settings {
            hardware_accelerated_move: on,
            hardware_accelerated_init: on,
            hardware_accelerated_locking: on,
            ats_for_heartbeat: on,
            ..Settings::default()
        }
    }
}

/// A LUN of the array, with all addresses that lead to it.
#[derive(Clone, Debug)]
struct Unit {
    urls: Vec<String>,
    words: LunWords,
    product: String,
    thin: bool,
}

/// The LUNs under test.
#[derive(Clone, Debug)]
pub struct Bench {
    units: Vec<Unit>,
    iqn: String,
    hosts: BTreeMap<String, Uuid>,
}

impl Bench {
    /// Connects to all addresses; those that lead to the same LUN are paths to it.
    ///
    /// # Errors
    /// When one does not answer.
    pub fn connect(urls: &[String]) -> Result<Self> {
        let iqn = format!("iqn.1998-01.com.vmware:validate-{:08x}", std::process::id());
        let mut bench = Self { units: Vec::new(), iqn, hosts: BTreeMap::new() };
        let mut named: Vec<(String, Vec<String>)> = Vec::new();
        for url in urls {
            // A standby path tells the name, and need not tell more.
            let mut session = Session::connect(url, &bench.iqn, HeaderDigest::None)?;
            let name = Identity::ask(&mut session)?.name();
            match named.iter_mut().find(|(known, _)| *known == name) {
                Some((_, paths)) => paths.push(url.clone()),
                None => named.push((name, vec![url.clone()])),
            }
        }
        for (_, urls) in named {
            let lun = Lun::connect(&urls, &bench.iqn, &Settings::default())?;
            bench.units.push(Unit::of(urls, &lun));
        }
        for host in ["esx1", "esx2"] {
            bench.hosts.insert(host.to_owned(), new_uuid()?);
        }
        Ok(bench)
    }

    /// LUNs.
    pub fn count(&self) -> usize {
        self.units.len()
    }

    /// Addresses that lead to a LUN.
    pub fn paths(&self, unit: usize) -> &[String] {
        &self.units[unit].urls
    }

    /// Has the array's own counters of these LUNs read while cases run, where they have log page
    /// 19h.
    pub(super) fn choose_statistics(&self) {
        let urls = self.units.iter().map(|unit| unit.urls[0].as_str());
        statistics::choose(urls, &self.iqn);
    }

    /// Bytes of a LUN.
    pub fn size_bytes(&self, unit: usize) -> u64 {
        self.units[unit].words.size_bytes
    }

    /// The array in its own words.
    pub fn words(&self) -> Array {
        Array {
            product: self.units.first().map(|unit| unit.product.clone()).unwrap_or_default(),
            luns: self.units.iter().map(|unit| unit.words.clone()).collect(),
        }
    }

    /// The LUN that copies go to: the second one, or the only one.
    pub fn other(&self) -> usize {
        1.min(self.units.len() - 1)
    }

    /// A host's view of a LUN.
    ///
    /// # Errors
    /// When no path answers.
    pub fn lun(&self, unit: usize, host: &str, settings: &Settings) -> Result<Lun> {
        let iqn = format!("{}-{host}", self.iqn);
        Ok(Lun::connect(&self.units[unit].urls, &iqn, settings)?)
    }

    /// As [`Bench::lun`], over one path only.
    ///
    /// # Errors
    /// When it does not answer.
    pub fn lun_by_one_path(&self, unit: usize, host: &str) -> Result<Lun> {
        let iqn = format!("{}-{host}", self.iqn);
        Ok(Lun::connect(&self.units[unit].urls[..1], &iqn, &Settings::default())?)
    }

    /// Refuses LUNs on which something is that is not ours.
    ///
    /// # Errors
    /// When there is.
    pub fn refuse_used(&self) -> Result<()> {
        for (number, unit) in self.units.iter().enumerate() {
            let mut lun = self.lun(number, "esx1", &Settings::default())?;
            let ours = vmfs::volume::probe(&mut lun).is_ok_and(|found| found.label == LABEL);
            let head = lun.read_bytes(0, HEAD)?;
            ensure!(
                ours || head.iter().all(|byte| *byte == 0),
                "{} is in use: all that is on it would be lost. Give an empty LUN, or --erase",
                unit.words.paths.join(", ")
            );
        }
        Ok(())
    }

    /// The same bench, where each LUN has two paths at least: a second session to the same portal
    /// where only one is known.
    pub fn with_two_paths(&self) -> Self {
        let mut bench = self.clone();
        for unit in bench.units.iter_mut().filter(|unit| unit.urls.len() == 1) {
            unit.urls.push(unit.urls[0].clone());
        }
        bench
    }

    /// Makes an empty datastore. Its free space is given back to the array first, where that is
    /// possible.
    ///
    /// # Errors
    /// When the LUN fails, or offers neither COMPARE AND WRITE nor RESERVE.
    pub fn format(&self, unit: usize) -> Result<()> {
        let mut lun = self.lun(unit, "esx1", &Settings::default())?;
        if self.units[unit].thin {
            // An array that refuses UNMAP is judged by the honesty card, not here.
            let _ = lun.unmap_range([0, lun.identity.size_bytes]);
        }
        try_ats(&mut lun)?;
        if lun.vaai.ats != Status::Supported {
            lun.reserve()
                .and_then(|()| lun.release())
                .context("no datastore can be made: neither COMPARE AND WRITE nor RESERVE works")?;
        }
        let options = Options {
            label: LABEL.to_owned(),
            uuid: new_uuid()?,
            table: Table::Gpt,
            ats_only: false,
            lease_ms: None,
        };
        Ok(vmfs::format::format(&mut lun, &options)?)
    }

    /// Makes a LUN one that [`Bench::refuse_used`] takes for empty.
    ///
    /// # Errors
    /// As a command.
    pub fn empty(&self, unit: usize) -> Result<()> {
        let mut lun = self.lun(unit, "esx1", &Settings::default())?;
        Ok(lun.zero_range([0, HEAD])?)
    }

    /// Mounts the datastore of a LUN.
    ///
    /// # Errors
    /// When there is none.
    pub fn mount(&self, unit: usize, host: &str, settings: &Settings) -> Result<Datastore> {
        self.mount_lun(self.lun(unit, host, settings)?, host)
    }

    fn mount_lun(&self, mut lun: Lun, host: &str) -> Result<Datastore> {
        if lun.settings.hardware_accelerated_locking {
            try_ats(&mut lun)?;
        }
        let Some(uuid) = self.hosts.get(host) else { bail!("{host} is no host of the bench") };
        let mount = Mount {
            host: *uuid,
            name: host.to_owned(),
            locking: locking(&lun),
            ats_heartbeat: lun.settings.ats_for_heartbeat,
        };
        let device = lun.identity.name();
        Ok(Datastore { device, volume: Volume::mount(lun, mount)? })
    }

    /// Mounts source and destination: two LUNs, or one twice as the same number.
    ///
    /// # Errors
    /// As [`Bench::mount`].
    pub fn mount_all(&self, settings: &Settings) -> Result<Vec<Datastore>> {
        (0..=self.other()).map(|unit| self.mount(unit, "esx1", settings)).collect()
    }

    /// Whether a LUN takes UNMAP.
    pub fn is_thin(&self, unit: usize) -> bool {
        self.units[unit].thin
    }

    /// Bytes that the array uses for a LUN, if it says so.
    pub fn space(&self, unit: usize) -> Option<u64> {
        let mut lun = self.lun(unit, "esx1", &Settings::default()).ok()?;
        space::used(&mut lun).map(|(bytes, _)| bytes)
    }
}

impl Unit {
    fn of(urls: Vec<String>, lun: &Lun) -> Self {
        let identity = &lun.identity;
        let words = LunWords {
            name: identity.name(),
            size_bytes: identity.size_bytes,
            paths: urls.iter().map(|url| without_account(url)).collect(),
            advertised: advertised(lun),
        };
        Self {
            urls,
            words,
            product: format!("{} {} {}", identity.vendor, identity.product, identity.revision),
            thin: identity.thin,
        }
    }
}

fn advertised(lun: &Lun) -> Vec<(String, String)> {
    let identity = &lun.identity;
    let limit = |blocks: u64| match blocks {
        0 => "no limit told".to_owned(),
        blocks => format!("{blocks} blocks"),
    };
    let copy = identity.copy.map_or_else(
        || "no operating parameters".to_owned(),
        |(segments, bytes)| format!("{segments} segments of {bytes} bytes"),
    );
    let rows = [
        ("MAXIMUM COMPARE AND WRITE LENGTH", identity.ats_blocks_max.to_string()),
        ("MAXIMUM WRITE SAME LENGTH", limit(identity.write_same_blocks_max)),
        ("MAXIMUM UNMAP LBA COUNT", limit(u64::from(identity.unmap_blocks_max))),
        ("MAXIMUM UNMAP BLOCK DESCRIPTOR COUNT", identity.unmap_descriptors_max.to_string()),
        ("OPTIMAL UNMAP GRANULARITY", limit(u64::from(identity.unmap_granularity))),
        ("LBPME, LBPRZ", format!("{}, {}", identity.thin, identity.reads_zeros)),
        ("3PC", identity.third_party_copy.to_string()),
        ("EXTENDED COPY", copy),
        ("TPGS", identity.tpgs.to_string()),
    ];
    rows.map(|(name, value)| (name.to_owned(), value)).to_vec()
}

/// An address without user and password.
pub fn without_account(url: &str) -> String {
    let Some(rest) = url.strip_prefix("iscsi://") else { return url.to_owned() };
    let rest = rest.split('?').next().unwrap_or(rest);
    let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
    let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
    format!("iscsi://{host}/{path}")
}

/// Seconds since a moment.
pub fn seconds_since(moment: Instant) -> f64 {
    moment.elapsed().as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_do_not_reach_the_report() {
        let plain = "iscsi://[::1]:3260/iqn.a:b/1";
        assert_eq!(without_account("iscsi://u%p@[::1]:3260/iqn.a:b/1?target_password=x"), plain);
        assert_eq!(without_account(plain), plain);
    }
}
