//! An array and a guest beside it, ready to log in.

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::{Context, Result};
use harness::array::free_address;
use harness::pdu::RawSession;
use harness::{Array, Value, number};
use tempfile::TempDir;

use crate::packages::cache_folder;
use crate::{Finished, Hardware, Machine, Root};

/// The guest's name as initiator.
pub const INITIATOR: &str = "iqn.2026-01.org.example:guest";

/// What a distribution has running when its user logs in to a target.
const PRELUDE: &str = "
    modprobe -a iscsi_tcp sg sd_mod scsi_dh_alua dm-multipath dm-service-time xfs
    mount -t tracefs trace /sys/kernel/tracing
    /lib/systemd/systemd-udevd --daemon
    iscsid
";

/// Functions that scripts may use.
const FUNCTIONS: &str = include_str!("functions.sh");

/// An array with a pool `p`, and a guest.
#[derive(Debug)]
pub struct Bench {
    /// The array.
    pub array: Array,
    /// The guest.
    pub machine: Machine,
    /// The addresses of the array's portals.
    pub portals: Vec<SocketAddr>,
    /// Operation codes and service actions that the target reports.
    pub operations: Vec<(u8, Option<u16>)>,
    target: String,
    _scratch: TempDir,
}

impl Bench {
    /// Starts both; the array has so many portals and so many LUNs `p/v0`, `p/v1` and so on, of
    /// 1 GiB each, which all initiators see under the numbers 0, 1 and so on.
    ///
    /// # Errors
    /// When one of them does not start: its log.
    pub fn start(portal_count: usize, lun_count: usize) -> Result<Self> {
        Self::start_with(portal_count, lun_count, Hardware::default())
    }

    /// The same with another guest.
    ///
    /// # Errors
    /// When one of them does not start: its log.
    pub fn start_with(portal_count: usize, lun_count: usize, hardware: Hardware) -> Result<Self> {
        let root = Root::get()?;
        let scratch = tempfile::Builder::new().prefix("gantry-test-").tempdir()?;
        let portals = (0..portal_count).map(|_| free_address()).collect::<Result<Vec<_>>>()?;
        let more: Vec<_> = portals[1..].iter().map(SocketAddr::to_string).collect();
        let words: Vec<_> = more.iter().flat_map(|portal| ["--iscsi", portal]).collect();
        let array = Array::at(&scratch.path().join("data"), portals[0])?;
        let mut array = array.with_words(&[], &words);
        array.restart()?;
        array.create_pool("p", "4G")?;
        for number in 0..lun_count {
            array.create_lun(&format!("p/v{number}"), "1G")?;
        }
        let target = array.target_name()?;
        let machine = Machine::boot(&root, hardware)?;
        let operations = if lun_count > 0 { operations(&array, &target) } else { Ok(Vec::new()) };
        let operations = operations.with_context(|| format!("log:\n{}", array.log()))?;
        let mut bench = Self { array, machine, portals, operations, target, _scratch: scratch };
        prepare(&mut bench.machine, INITIATOR, &bench.target, &bench.portals)?;
        Ok(bench)
    }

    /// Boots a second guest for the same array, with a name of its own.
    ///
    /// # Errors
    /// When it does not start: its log.
    pub fn boot_another(&self, initiator: &str, hardware: Hardware) -> Result<Machine> {
        let mut machine = Machine::boot(&Root::get()?, hardware)?;
        prepare(&mut machine, initiator, &self.target, &self.portals)?;
        Ok(machine)
    }

    /// Runs a script that must succeed, and returns what it printed. It knows the target's name
    /// as `$T`, its portals as `$P1` and so on, and what is in functions.sh.
    ///
    /// # Errors
    /// When one of its commands fails.
    pub fn sh(&mut self, script: &str) -> Result<String> {
        self.machine.sh(script)
    }

    /// Runs a script to its end, which is its first failing command.
    ///
    /// # Errors
    /// When the guest does not answer.
    pub fn try_sh(&mut self, script: &str) -> Result<Finished> {
        self.machine.try_sh(script)
    }

    /// Waits until a script succeeds.
    ///
    /// # Errors
    /// When it does not in time: what it printed last.
    pub fn until(&mut self, script: &str) -> Result<String> {
        self.machine.until(script)
    }

    /// Makes the guest know the target at an address, and logs in with the given settings.
    ///
    /// # Errors
    /// When the login fails.
    pub fn log_in(&mut self, portal: SocketAddr, settings: &[(&str, &str)]) -> Result<()> {
        self.try_log_in(portal, settings)?.success()?;
        Ok(())
    }

    /// The same when the login may fail; the guest knows the address from then on.
    ///
    /// # Errors
    /// When the guest does not answer.
    pub fn try_log_in(
        &mut self,
        portal: SocketAddr,
        settings: &[(&str, &str)],
    ) -> Result<Finished> {
        let record = format!("iscsiadm -m node -T $T -p {portal}");
        let mut script = format!("{record} -o new >/dev/null\n");
        for (name, value) in settings {
            script.push_str(&format!("{record} -o update -n '{name}' -v '{value}'\n"));
        }
        self.try_sh(&format!("{script}{record} --login\nudevadm settle"))
    }

    /// Logs out and forgets the address.
    ///
    /// # Errors
    /// When the logout fails.
    pub fn log_out(&mut self, portal: SocketAddr) -> Result<()> {
        let record = format!("iscsiadm -m node -T $T -p {portal}");
        self.sh(&format!("{record} --logout\n{record} -o delete\nudevadm settle"))?;
        Ok(())
    }

    /// The device file of a LUN as it is reached through a portal.
    pub fn disk(&self, portal: SocketAddr, lun: u16) -> String {
        format!("/dev/disk/by-path/ip-{portal}-iscsi-{}-lun-{lun}", self.target)
    }

    /// The pool, as `gantry pool show` tells it.
    ///
    /// # Errors
    /// When the daemon does not answer.
    pub fn pool(&self) -> Result<Value> {
        self.array.gantry_json(&["pool", "show", "p"])
    }

    /// A number of the pool at a JSON pointer.
    ///
    /// # Errors
    /// When the daemon does not answer or there is no such number.
    pub fn pool_number(&self, pointer: &str) -> Result<u64> {
        number(&self.pool()?, pointer)
    }

    /// Keeps what guest and daemon said, and returns where.
    pub(crate) fn keep_log(&self, title: &str) -> Result<PathBuf> {
        let path = cache_folder()?.join(format!("{}.log", title.replace(' ', "-")));
        let text = format!("{}\n{}", self.array.log(), self.machine.log());
        fs::write(&path, text).with_context(|| format!("writing {}", path.display()))?;
        Ok(path)
    }
}

/// Starts what a distribution has running, under a name.
fn prepare(
    machine: &mut Machine,
    initiator: &str,
    target: &str,
    portals: &[SocketAddr],
) -> Result<()> {
    let name = format!("echo InitiatorName={initiator} >/etc/iscsi/initiatorname.iscsi");
    let functions = format!("cat >/run/functions.sh <<'END'\n{FUNCTIONS}\nEND");
    machine.set("T", target)?;
    for (index, portal) in portals.iter().enumerate() {
        machine.set(&format!("P{}", index + 1), &portal.to_string())?;
    }
    for script in [&name, &functions, PRELUDE] {
        machine.sh(script)?;
    }
    Ok(())
}

/// What the target says it can, asked for by an initiator that is not the guest: REPORT SUPPORTED
/// OPERATION CODES, all commands (SPC-4 6.35.2).
fn operations(array: &Array, target: &str) -> Result<Vec<(u8, Option<u16>)>> {
    let name = "iqn.2026-01.org.example:bench";
    let mut session = RawSession::log_in(array.portal(), name, target)?;
    let cdb = [0xa3, 0x0c, 0, 0, 0, 0, 0, 0, 0x40, 0, 0, 0];
    let answer = session.read(0, &cdb, 0x4000)?.good()?;
    let descriptors = answer.get(4..).context("the list has a header")?;
    Ok(descriptors.chunks_exact(8).map(operation).collect())
}

/// One command descriptor without a timeouts descriptor; SERVACTV is bit 0 of byte 5.
fn operation(descriptor: &[u8]) -> (u8, Option<u16>) {
    let action = u16::from_be_bytes([descriptor[2], descriptor[3]]);
    (descriptor[0], (descriptor[5] & 1 == 1).then_some(action))
}
