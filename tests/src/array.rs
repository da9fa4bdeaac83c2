//! A daemon of our own, on free loopback ports, in a directory that goes with it.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::net::{SocketAddr, TcpListener};
use std::ops::Range;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::fs::{FlockOperation, flock};
use rustix::process::{Pid, Signal, getuid, kill_process};
use serde_json::Value;
use tempfile::TempDir;

use crate::binaries::binary;
use crate::program::{Finished, POLL_INTERVAL, run};
use crate::{number, text};

/// How long the daemon may take to serve, or to stop when asked.
const PATIENCE: Duration = Duration::from_secs(30);

/// How long a daemon that is starting may take to answer one question.
const READY_TIMEOUT: Duration = Duration::from_secs(2);

/// How long one administrator's command may take.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(60);

/// What went over all iSCSI connections since the daemon started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// From initiators, in bytes.
    pub received: u64,
    /// To initiators, in bytes.
    pub sent: u64,
    /// SCSI commands completed.
    pub commands: u64,
}

impl Traffic {
    /// What was added since an earlier look.
    pub fn since(self, earlier: Self) -> Self {
        Self {
            received: self.received - earlier.received,
            sent: self.sent - earlier.sent,
            commands: self.commands - earlier.commands,
        }
    }

    /// Bytes in both directions.
    pub fn bytes(self) -> u64 {
        self.received + self.sent
    }
}

/// A daemon under test. When this value goes, the daemon is killed and its directory removed.
#[derive(Debug)]
pub struct Array {
    data: PathBuf,
    scratch: Option<TempDir>,
    iscsi: SocketAddr,
    http: SocketAddr,
    prefix: Vec<String>,
    arguments: Vec<String>,
    binaries: Option<PathBuf>,
    child: Option<Child>,
}

impl Array {
    /// Starts a daemon with a new, empty data directory.
    ///
    /// # Errors
    /// When it does not serve in time: its log.
    pub fn start() -> Result<Self> {
        let mut array = Self::prepare()?;
        array.restart()?;
        Ok(array)
    }

    /// A daemon with a new, empty data directory, that does not run yet.
    ///
    /// # Errors
    /// When there is no place for it.
    pub fn prepare() -> Result<Self> {
        let scratch = tempfile::Builder::new().prefix("gantry-test-").tempdir()?;
        let mut array = Self::at(&scratch.path().join("data"), free_address()?)?;
        array.scratch = Some(scratch);
        Ok(array)
    }

    /// An array with a data directory of the caller's, which stays. It does not run yet.
    ///
    /// # Errors
    /// When there is no free port.
    pub fn at(data: &Path, iscsi: SocketAddr) -> Result<Self> {
        Ok(Self {
            data: data.to_owned(),
            scratch: None,
            iscsi,
            http: free_address()?,
            prefix: Vec::new(),
            arguments: Vec::new(),
            binaries: None,
            child: None,
        })
    }

    /// Words to put before the daemon's command line (for example `taskset -c 0`) at its next
    /// start, and arguments to put behind it.
    pub fn with_words(mut self, prefix: &[&str], arguments: &[&str]) -> Self {
        self.prefix = prefix.iter().map(|&word| word.to_owned()).collect();
        self.arguments = arguments.iter().map(|&word| word.to_owned()).collect();
        self
    }

    /// Arguments to put behind the others from its next start on.
    pub fn add_arguments(&mut self, arguments: &[&str]) {
        self.arguments.extend(arguments.iter().map(|&word| word.to_owned()));
    }

    /// Takes the daemon and the command line from a folder.
    pub fn with_binaries(mut self, folder: &Path) -> Self {
        self.binaries = Some(folder.to_owned());
        self
    }

    fn binary(&self, name: &str) -> Result<PathBuf> {
        match &self.binaries {
            Some(folder) => Ok(folder.join(name)),
            None => binary(name),
        }
    }

    /// Starts the daemon, which must not run, and says how long it took to serve.
    ///
    /// # Errors
    /// When it does not serve in time: its log.
    pub fn restart(&mut self) -> Result<Duration> {
        ensure!(self.child.is_none(), "the daemon runs already");
        let started = Instant::now();
        self.child = Some(self.spawn()?);
        while !self.is_ready() {
            if let Some(status) = self.child_mut()?.try_wait()? {
                self.child = None;
                bail!("the daemon stopped ({status}):\n{}", self.log());
            }
            ensure!(started.elapsed() < PATIENCE, "the daemon does not serve:\n{}", self.log());
            thread::sleep(POLL_INTERVAL);
        }
        Ok(started.elapsed())
    }

    fn spawn(&self) -> Result<Child> {
        let log = OpenOptions::new().create(true).append(true).open(self.log_path())?;
        let mut words: Vec<OsString> = self.prefix.iter().map(OsString::from).collect();
        words.push(self.binary("gantryd")?.into());
        words.extend(["--data".into(), self.data.clone().into()]);
        words.extend(["--iscsi".into(), self.iscsi.to_string().into()]);
        words.extend(["--http".into(), self.http.to_string().into()]);
        words.extend(self.arguments.iter().map(OsString::from));
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        // Ctrl-C is for us; the daemon is asked to stop by name.
        command.process_group(0);
        command.spawn().context("starting the daemon")
    }

    /// Served and every pool open, or refused with a reason.
    fn is_ready(&self) -> bool {
        let answer = self.gantry_within(READY_TIMEOUT, &["pool", "list", "--json"]);
        let answer = answer.and_then(Finished::success).unwrap_or_default();
        let pools: Vec<Value> = match serde_json::from_str(&answer) {
            Ok(pools) => pools,
            Err(_) => return false,
        };
        pools.iter().all(|pool| pool["state"] != "opening")
    }

    fn log_path(&self) -> PathBuf {
        self.data.with_extension("log")
    }

    /// Everything that the daemon has written to its log.
    pub fn log(&self) -> String {
        fs::read_to_string(self.log_path()).unwrap_or_default()
    }

    fn child_mut(&mut self) -> Result<&mut Child> {
        self.child.as_mut().context("the daemon does not run")
    }

    /// The daemon's process.
    ///
    /// # Errors
    /// When it does not run.
    pub fn process_id(&self) -> Result<u32> {
        self.child.as_ref().map(Child::id).context("the daemon does not run")
    }

    /// Whether the daemon is the process that was started, and lives.
    ///
    /// # Errors
    /// When the kernel does not say.
    pub fn is_running(&mut self) -> Result<bool> {
        match &mut self.child {
            Some(child) => Ok(child.try_wait()?.is_none()),
            None => Ok(false),
        }
    }

    /// Kills the daemon as a power cut would: nothing is flushed, nobody is told.
    ///
    /// # Errors
    /// When it had ended by itself before.
    pub fn kill(&mut self) -> Result<()> {
        let mut child = self.child.take().context("the daemon does not run")?;
        child.kill()?;
        let status = child.wait()?;
        ensure!(status.signal() == Some(9), "the daemon had stopped ({status}):\n{}", self.log());
        Ok(())
    }

    /// Asks the daemon to stop, and waits for its end.
    ///
    /// # Errors
    /// When it does not stop in time.
    pub fn stop(&mut self) -> Result<ExitStatus> {
        let mut child = self.child.take().context("the daemon does not run")?;
        if let Some(status) = child.try_wait()? {
            bail!("the daemon had stopped ({status}):\n{}", self.log());
        }
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw).context("a process id")?;
        kill_process(pid, Signal::TERM)?;
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = child.try_wait()? {
                return Ok(status);
            }
            if Instant::now() > deadline {
                child.kill()?;
                child.wait()?;
                bail!("the daemon did not stop:\n{}", self.log());
            }
            thread::sleep(POLL_INTERVAL);
        }
    }

    /// The address of the iSCSI portal.
    pub fn portal(&self) -> SocketAddr {
        self.iscsi
    }

    /// The address of the management interface.
    pub fn http(&self) -> SocketAddr {
        self.http
    }

    /// The data directory.
    pub fn data(&self) -> &Path {
        &self.data
    }

    /// A path beside the data directory, which goes with it.
    pub fn beside(&self, name: &str) -> PathBuf {
        self.data.with_file_name(name)
    }

    /// Runs an administrator's command to its end, whatever that is.
    ///
    /// # Errors
    /// When it cannot be run.
    pub fn try_gantry(&self, arguments: &[&str]) -> Result<Finished> {
        self.gantry_within(COMMAND_TIMEOUT, arguments)
    }

    fn gantry_within(&self, timeout: Duration, arguments: &[&str]) -> Result<Finished> {
        let data = self.data.to_str().context("a printable path")?;
        run(&self.binary("gantry")?, &[&["--data", data], arguments].concat(), timeout)
    }

    /// Runs an administrator's command that must succeed, and returns what it printed.
    ///
    /// # Errors
    /// When it fails.
    pub fn gantry(&self, arguments: &[&str]) -> Result<String> {
        self.try_gantry(arguments)?.success()
    }

    /// The same, with the answer as JSON.
    ///
    /// # Errors
    /// When it fails, or does not answer in JSON.
    pub fn gantry_json(&self, arguments: &[&str]) -> Result<Value> {
        let text = self.gantry(&[arguments, &["--json"]].concat())?;
        serde_json::from_str(&text).with_context(|| format!("not JSON: {text}"))
    }

    /// Creates a pool on a new file beside the data directory.
    ///
    /// # Errors
    /// When the daemon refuses.
    pub fn create_pool(&self, name: &str, size: &str) -> Result<PathBuf> {
        let path = self.beside(&format!("{name}.img"));
        let device = format!("file:{}", path.display());
        self.gantry(&["pool", "create", name, "--device", &device, "--size", size])?;
        Ok(path)
    }

    /// Creates a volume and maps it to every initiator; returns its LUN number.
    ///
    /// # Errors
    /// When the daemon refuses.
    pub fn create_lun(&self, path: &str, size: &str) -> Result<u16> {
        self.gantry(&["volume", "create", path, "--size", size])?;
        let map = self.gantry_json(&["volume", "map", path, "--host", "any"])?;
        Ok(u16::try_from(number(&map, "/lun")?)?)
    }

    /// The target's iSCSI name.
    ///
    /// # Errors
    /// When the daemon does not answer.
    pub fn target_name(&self) -> Result<String> {
        Ok(text(&self.gantry_json(&["target", "show"])?, "/name")?.to_owned())
    }

    /// The address of a LUN, as libiscsi and QEMU write it.
    ///
    /// # Errors
    /// When the daemon does not answer.
    pub fn lun_url(&self, lun: u16) -> Result<String> {
        Ok(format!("iscsi://{}/{}/{lun}", self.iscsi, self.target_name()?))
    }

    /// What went over all iSCSI connections since the daemon started.
    ///
    /// # Errors
    /// When the daemon does not answer.
    pub fn traffic(&self) -> Result<Traffic> {
        let target = self.gantry_json(&["target", "show"])?;
        Ok(Traffic {
            received: number(&target, "/bytes_received")?,
            sent: number(&target, "/bytes_sent")?,
            commands: number(&target, "/commands")?,
        })
    }
}

impl Drop for Array {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            // Both fail only for a daemon that has ended already.
            let _ = child.kill();
            let _ = child.wait();
        }
        if thread::panicking() {
            eprintln!("log of the daemon:\n{}", self.log());
        }
    }
}

/// Ports that Linux does not give to outgoing connections: one that is free now stays so until it
/// is listened on.
const PORTS: Range<u16> = 10_000..32_000;

/// How many ports were looked at.
static PORTS_SEEN: AtomicU32 = AtomicU32::new(0);

/// Files by whose locks test programs that run beside each other have ports for themselves.
static PORTS_CLAIMED: Mutex<Vec<File>> = Mutex::new(Vec::new());

/// A loopback address with a port that nobody listens on and no other test program will, another one each
/// time.
///
/// # Errors
/// When there is none, or ports cannot be claimed.
pub fn free_address() -> Result<SocketAddr> {
    for _ in PORTS {
        // Test programs that run one after the other, or beside each other, begin far apart.
        let seen = PORTS_SEEN.fetch_add(1, Ordering::Relaxed);
        let number = std::process::id().wrapping_mul(101).wrapping_add(seen);
        let port = PORTS.start + (number % PORTS.len() as u32) as u16;
        if claim(port)?
            && let Ok(listener) = TcpListener::bind(("127.0.0.1", port))
        {
            return Ok(listener.local_addr()?);
        }
    }
    bail!("no port between {} and {} is free", PORTS.start, PORTS.end)
}

/// Claims a port as long as this program runs; `false` if another one has.
fn claim(port: u16) -> Result<bool> {
    let name = format!("gantry-test-ports-{}", getuid().as_raw());
    let folder = std::env::temp_dir().join(name);
    fs::create_dir_all(&folder)?;
    let file = File::create(folder.join(port.to_string()))?;
    if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
        return Ok(false);
    }
    PORTS_CLAIMED.lock().unwrap_or_else(PoisonError::into_inner).push(file);
    Ok(true)
}
