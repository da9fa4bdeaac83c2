//! Demonstration: every offload against the same work done by the host.

mod initiator;
mod report;

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::Args;
use harness::{Array, Traffic, number};

use crate::{setup, test, workspace};
use initiator::Initiator;
use report::Row;

/// Tells a folder of ours, which may be removed, from any other.
const MARK: &str = "made-by-gantry-demo";

/// The profile of Cargo.toml in which the demo's programs, and this one, are built: a fraction of
/// the processor time of a release.
const PROFILE: &str = "demo";

/// How often the waiting demo looks whether it should end.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Where the array keeps its data; an earlier demo there is replaced.
    #[arg(long, value_name = "DIR", default_value = "demo-data")]
    data: PathBuf,
    /// The portal's address.
    #[arg(long, value_name = "IP:PORT", default_value = "127.0.0.1:3260")]
    iscsi: SocketAddr,
    /// How much is written and copied, in MiB.
    #[arg(long, value_name = "MIB", default_value_t = 1024)]
    size_mib: u64,
    /// Stop at the end instead of leaving the array running.
    #[arg(long)]
    exit: bool,
}

/// Runs the demo; without `--exit` it returns after Ctrl-C.
pub(crate) fn run(options: &Options) -> Result<()> {
    setup::for_build()?;
    test::build_in(PROFILE)?;
    let stop = stop_flag()?;
    let mut demo = Demo::start(options)?;
    let rows = demo.offloads()?;
    terminal::progress!("\n{}\n\n", report::table(&rows));
    if !options.exit {
        demo.serve(&stop)?;
    }
    let status = demo.array.stop()?;
    ensure!(status.success(), "the daemon stopped with {status}:\n{}", demo.array.log());
    Ok(())
}

/// Set by Ctrl-C and SIGTERM.
fn stop_flag() -> Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    Ok(stop)
}

/// A folder for the demo, empty but for its mark.
fn prepare_folder(path: &Path) -> Result<PathBuf> {
    if path.exists() {
        let is_empty = fs::read_dir(path)?.next().is_none();
        ensure!(
            is_empty || path.join(MARK).exists(),
            "{} was not made by a demo: name another folder with --data",
            path.display()
        );
        fs::remove_dir_all(path)?;
    }
    fs::create_dir_all(path).with_context(|| format!("creating {}", path.display()))?;
    fs::write(path.join(MARK), "")?;
    Ok(path.canonicalize()?)
}

struct Demo {
    array: Array,
    initiator: Initiator,
    source: String,
    copy: String,
    /// Bytes of one step.
    length: u64,
}

impl Demo {
    fn start(options: &Options) -> Result<Self> {
        let folder = prepare_folder(&options.data)?;
        let binaries = workspace::folder_of(PROFILE);
        let mut array = Array::at(&folder.join("array"), options.iscsi)?.with_binaries(&binaries);
        array.restart()?;
        let length = options.size_mib << 20;
        array.create_pool("demo", &(6 * length + (1 << 30)).to_string())?;
        let size = (2 * length).to_string();
        let source = array.create_lun("demo/source", &size)?;
        let copy = array.create_lun("demo/copy", &size)?;
        Ok(Self {
            source: array.lun_url(source)?,
            copy: array.lun_url(copy)?,
            initiator: Initiator::new(&binaries),
            array,
            length,
        })
    }

    /// Every step, measured. The first half of each LUN is for the offloads, the second half of
    /// the copy for the same work done by the host.
    fn offloads(&mut self) -> Result<Vec<Row>> {
        let Self { initiator, source, copy, length, .. } = &*self;
        let (offloaded, by_host, length) = (0, *length, *length);
        Ok(vec![
            self.step("write", "by host", || initiator.fill(source, 0, length))?,
            self.step("clone", "EXTENDED COPY", || {
                initiator.copy_offloaded(source, copy, offloaded, length)
            })?,
            self.step("verify", "read by host", || initiator.check(copy, offloaded, length))?,
            self.step("clone", "by host", || initiator.copy(source, copy, by_host, length))?,
            self.step("verify", "read by host", || initiator.check(copy, by_host, length))?,
            self.step("zero", "WRITE SAME", || initiator.zero_offloaded(copy, offloaded, length))?,
            self.step("verify", "read by host", || initiator.check_zero(copy, offloaded, length))?,
            self.step("zero", "by host", || initiator.zero(copy, by_host, length))?,
            self.step("verify", "read by host", || initiator.check_zero(copy, by_host, length))?,
            self.step("delete", "UNMAP", || initiator.unmap(source, 0, length))?,
            self.step("verify", "read by host", || initiator.check_zero(source, 0, length))?,
        ])
    }

    fn step(
        &self,
        work: &'static str,
        how: &'static str,
        run: impl FnOnce() -> Result<()>,
    ) -> Result<Row> {
        terminal::complain!("{work} ({how}) ...");
        let before = self.array.traffic()?;
        let started = Instant::now();
        run()
            .with_context(|| format!("{work} ({how}); the daemon's log:\n{}", self.array.log()))?;
        let elapsed = started.elapsed();
        let traffic: Traffic = self.array.traffic()?.since(before);
        Ok(Row { work, how, elapsed, traffic, used_bytes: self.used_bytes()? })
    }

    fn used_bytes(&self) -> Result<u64> {
        number(&self.array.gantry_json(&["pool", "show", "demo"])?, "/space/used_bytes")
    }

    fn serve(&mut self, stop: &AtomicBool) -> Result<()> {
        let data = self.array.data().display();
        terminal::progress!("The array runs until you press Ctrl-C. Meanwhile:\n\n");
        let gantry = workspace::folder_of(PROFILE).join("gantry");
        let gantry = gantry.display();
        terminal::progress!("  {gantry} --data {data} volume list\n");
        terminal::progress!("  {gantry} --data {data} pool show demo\n");
        terminal::progress!("  qemu-img info {}\n", self.source);
        terminal::progress!(
            "  iscsiadm --mode discovery --type sendtargets --portal {}\n",
            self.array.portal()
        );
        while !stop.load(Ordering::Relaxed) {
            ensure!(self.array.is_running()?, "the daemon stopped:\n{}", self.array.log());
            thread::sleep(POLL_INTERVAL);
        }
        terminal::progress!("\nStopping.\n");
        Ok(())
    }
}
