//! Ceph cluster of one machine, for tests: a monitor and three OSDs that keep objects in memory.

use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use tempfile::TempDir;

use crate::process;

/// OSDs; pools keep three copies, of which two are enough.
const OSDS: usize = 3;

/// How long a step may take.
const PATIENCE: Duration = Duration::from_secs(120);

/// A cluster that runs. Its processes end with it.
pub(crate) struct Cluster {
    folder: TempDir,
    conf: PathBuf,
    address: Ipv4Addr,
}

/// Where machines of a test reach the cluster (`harness::machines`).
const FOR_MACHINES: Ipv4Addr = Ipv4Addr::new(10, 213, 0, 1);

impl Cluster {
    /// Starts a cluster on loopback, with the pool `rbd`.
    pub(crate) fn start() -> Result<Self> {
        Self::start_at(Ipv4Addr::LOCALHOST)
    }

    /// The same, at an address of this machine that network namespaces on a bridge reach, too.
    pub(crate) fn start_for_machines() -> Result<Self> {
        let address = format!("{FOR_MACHINES}/32");
        process::run("ip", &["addr", "replace", &address, "dev", "lo"])?;
        Self::start_at(FOR_MACHINES)
    }

    fn start_at(address: Ipv4Addr) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("gantry-ceph-").tempdir()?;
        let conf = folder.path().join("ceph.conf");
        let cluster = Self { folder, conf, address };
        let id = fs::read_to_string("/proc/sys/kernel/random/uuid")?;
        let port = TcpListener::bind((address, 0))?.local_addr()?.port();
        fs::write(&cluster.conf, configuration(cluster.folder.path(), id.trim(), (address, port)))?;
        cluster.start_monitor(id.trim(), port)?;
        (0..OSDS).try_for_each(|number| cluster.add_osd(number))?;
        cluster.wait_for_osds()?;
        cluster.ceph(&["osd", "pool", "create", "rbd", "16"])?;
        cluster.run("rbd", &["pool", "init", "rbd"])?;
        Ok(cluster)
    }

    /// Its configuration file, beside which the processes leave their ids.
    pub(crate) fn conf(&self) -> &Path {
        &self.conf
    }

    /// Makes an image.
    pub(crate) fn create_image(&self, pool: &str, name: &str, size: &str) -> Result<()> {
        self.run("rbd", &["create", "--size", size, &format!("{pool}/{name}")])
    }

    /// Clients that begin from now on find this line in its configuration.
    pub(crate) fn configure(&self, line: &str) -> Result<()> {
        let text = fs::read_to_string(&self.conf)?;
        Ok(fs::write(&self.conf, format!("{text}{line}\n"))?)
    }

    /// Ends it.
    pub(crate) fn stop(self) -> Result<()> {
        self.end_processes()
    }

    fn start_monitor(&self, id: &str, port: u16) -> Result<()> {
        let map = self.path("monmap");
        let address = format!("[v2:{}:{port}/0]", self.address);
        self.run("monmaptool", &["--create", "--fsid", id, "--addv", "a", &address, &map])?;
        self.run("ceph-mon", &["-i", "a", "--mkfs", "--monmap", &map])?;
        self.run("ceph-mon", &["-i", "a"])
    }

    fn add_osd(&self, number: usize) -> Result<()> {
        let id = fs::read_to_string("/proc/sys/kernel/random/uuid")?;
        fs::create_dir(self.folder.path().join(format!("osd{number}")))?;
        self.ceph(&["osd", "new", id.trim()])?;
        let name = number.to_string();
        self.run("ceph-osd", &["-i", &name, "--mkfs", "--osd-uuid", id.trim()])?;
        self.run("ceph-osd", &["-i", &name])
    }

    fn wait_for_osds(&self) -> Result<()> {
        let begun = Instant::now();
        let conf = self.conf.to_str().context("a printable path")?;
        while begun.elapsed() < PATIENCE {
            let state = process::output("ceph", &["-c", conf, "osd", "stat"])?;
            if state.contains(&format!("{OSDS} up")) {
                return Ok(());
            }
            thread::sleep(Duration::from_millis(200));
        }
        bail!("not all of the cluster's {OSDS} OSDs have come up")
    }

    fn ceph(&self, arguments: &[&str]) -> Result<()> {
        self.run("ceph", arguments)
    }

    fn run(&self, program: &str, arguments: &[&str]) -> Result<()> {
        process::run_with(program, arguments, &[("CEPH_CONF", self.conf.as_os_str())])
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    fn processes(&self) -> Result<Vec<Pid>> {
        let mut found = Vec::new();
        for entry in fs::read_dir(self.folder.path())? {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "pid") {
                let text = fs::read_to_string(&path)?;
                found.extend(text.trim().parse().ok().and_then(Pid::from_raw));
            }
        }
        Ok(found)
    }

    /// Kills the processes: what they hold is thrown away.
    fn end_processes(&self) -> Result<()> {
        let processes = self.processes()?;
        for &process in &processes {
            // One that a test has killed is gone already.
            let _ = kill_process(process, Signal::KILL);
        }
        let begun = Instant::now();
        while processes.iter().any(|&process| test_kill_process(process).is_ok()) {
            if begun.elapsed() > PATIENCE {
                bail!("processes of the cluster do not end");
            }
            thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let _ = self.end_processes();
        if self.address == FOR_MACHINES {
            let address = format!("{FOR_MACHINES}/32");
            let _ = process::run("ip", &["addr", "del", &address, "dev", "lo"]);
        }
    }
}

fn configuration(folder: &Path, id: &str, (address, port): (Ipv4Addr, u16)) -> String {
    let folder = folder.display();
    format!(
        "[global]
fsid = {id}
mon host = v2:{address}:{port}
public addr = {address}
auth supported = none
run dir = {folder}
log file = {folder}/$name.log
pid file = {folder}/$name.pid
admin socket = {folder}/$name.$pid.asok
mon data = {folder}/mon
osd data = {folder}/osd$id
osd objectstore = memstore
memstore device bytes = 2147483648
osd crush chooseleaf type = 0
osd pool default size = {OSDS}
osd pool default min size = 2
osd heartbeat interval = 1
osd heartbeat grace = 4
mon osd min down reporters = 1
"
    )
}
