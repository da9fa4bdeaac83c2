//! The emulated machine, and the line on which it is told what to run.

use std::fmt;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use harness::program::{POLL_INTERVAL, Running};
use tempfile::TempDir;

use crate::{Root, initramfs};

/// How long the guest may take from power-on to the first command.
const BOOT_TIMEOUT: Duration = Duration::from_secs(480);

/// What the line may take on top of a command's own time-out.
const LINE_GRACE: Duration = Duration::from_secs(60);

/// How long a script may take.
const SCRIPT_TIMEOUT: Duration = Duration::from_secs(300);

/// How long a condition may take to come true.
const CONDITION_TIMEOUT: Duration = Duration::from_secs(240);

/// How often a condition is looked at.
const CONDITION_INTERVAL: Duration = Duration::from_millis(250);

/// What the emulated machine has.
#[derive(Clone, Debug)]
pub struct Hardware {
    /// Memory, MiB.
    pub memory_mib: u32,
    /// Ports of this machine's loopback address that lead to ones of the guest's.
    pub forwards: Vec<(u16, u16)>,
    /// A folder of this machine that the guest may mount, read-only: 9P, tag [`SHARE_TAG`].
    pub share: Option<PathBuf>,
}

/// The name by which the guest mounts a shared folder.
pub const SHARE_TAG: &str = "share";

impl Default for Hardware {
    /// An initiator's.
    fn default() -> Self {
        Self { memory_mib: 640, forwards: Vec::new(), share: None }
    }
}

/// The guest's address in the emulator's network, as agent.sh sets it.
const ADDRESS: &str = "10.0.2.15";

/// How a command in the guest ended.
#[derive(Clone, Debug)]
pub struct Finished {
    /// The command, for messages.
    pub script: String,
    /// Its exit status; 124 or 143 if it did not end in time.
    pub status: i32,
    /// What it printed, both outputs together.
    pub output: String,
}

impl Finished {
    /// What it printed, if it succeeded.
    ///
    /// # Errors
    /// When it failed: the command and what it printed.
    pub fn success(self) -> Result<String> {
        ensure!(self.status == 0, "{self}");
        Ok(self.output)
    }

    /// What it printed, if it failed with this status.
    ///
    /// # Errors
    /// When it ended with another: the command and what it printed.
    pub fn failure(self, status: i32) -> Result<String> {
        ensure!(self.status == status, "status {status} was expected: {self}");
        Ok(self.output)
    }
}

impl fmt::Display for Finished {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "'{}' ended with {}:\n{}", self.script, self.status, self.output)
    }
}

/// A running guest. When this value goes, so does the guest.
#[derive(Debug)]
pub struct Machine {
    emulator: Running,
    line: BufReader<TcpStream>,
    scratch: TempDir,
    /// Everything that was run, for a failure's log.
    transcript: String,
}

impl Machine {
    /// Boots a guest.
    ///
    /// # Errors
    /// When it does not come up in time: what it wrote to its console.
    pub fn boot(root: &Root, hardware: Hardware) -> Result<Self> {
        let scratch = tempfile::Builder::new().prefix("gantry-guest-").tempdir()?;
        fs::write(scratch.path().join("initramfs"), initramfs::build(root)?)?;
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let port = listener.local_addr()?.port();
        let arguments = arguments(root, &scratch, &hardware, port);
        // The kernel ends the emulator if this program dies before it can.
        let mut emulator = Running::start(&PathBuf::from("setpriv"), &arguments)?;
        let console = || fs::read_to_string(scratch.path().join("console")).unwrap_or_default();
        let stream = accept(&listener, &mut emulator)
            .with_context(|| format!("the guest does not start:\n{}", console()))?;
        stream.set_nodelay(true)?;
        Ok(Self { emulator, line: BufReader::new(stream), scratch, transcript: String::new() })
    }

    /// Sets an environment variable for all that runs from now on.
    ///
    /// # Errors
    /// When the guest is gone.
    pub fn set(&mut self, name: &str, value: &str) -> Result<()> {
        let quoted = value.replace('\'', r"'\''");
        let line = format!("export {name}='{quoted}'\n");
        Ok(self.line.get_mut().write_all(line.as_bytes())?)
    }

    /// Runs a shell script to its end.
    ///
    /// # Errors
    /// When the guest does not answer.
    pub fn run(&mut self, timeout: Duration, script: &str) -> Result<Finished> {
        let outcome = self.exchange(timeout, script).with_context(|| {
            format!("the guest does not answer to '{script}'; its log:\n{}", self.log())
        })?;
        self.transcript.push_str(&format!("# {outcome}"));
        Ok(outcome)
    }

    /// Runs a script that must succeed, and returns what it printed. It knows what is in
    /// functions.sh.
    ///
    /// # Errors
    /// When one of its commands fails.
    pub fn sh(&mut self, script: &str) -> Result<String> {
        self.try_sh(script)?.success()
    }

    /// Runs a script to its end, which is its first failing command.
    ///
    /// # Errors
    /// When the guest does not answer.
    pub fn try_sh(&mut self, script: &str) -> Result<Finished> {
        let prelude = "set -e; [ ! -e /run/functions.sh ] || . /run/functions.sh";
        self.run(SCRIPT_TIMEOUT, &format!("{prelude}\n{script}"))
    }

    /// Waits until a script succeeds.
    ///
    /// # Errors
    /// When it does not in time: what it printed last.
    pub fn until(&mut self, script: &str) -> Result<String> {
        let deadline = Instant::now() + CONDITION_TIMEOUT;
        loop {
            let outcome = self.try_sh(script)?;
            if outcome.status == 0 {
                return Ok(outcome.output);
            }
            if Instant::now() > deadline {
                bail!("not within {CONDITION_TIMEOUT:?}: {outcome}");
            }
            thread::sleep(CONDITION_INTERVAL);
        }
    }

    fn exchange(&mut self, timeout: Duration, script: &str) -> Result<Finished> {
        let quoted = script.replace('\'', r"'\''");
        let line = format!(
            "timeout -k 5 {} sh -c '{quoted}' </dev/null >/run/output 2>&1; \
             echo $? $(wc -c </run/output); cat /run/output\n",
            timeout.as_secs()
        );
        let stream = self.line.get_mut();
        stream.set_read_timeout(Some(timeout + LINE_GRACE))?;
        stream.write_all(line.as_bytes())?;
        let mut head = String::new();
        self.line.read_line(&mut head)?;
        let (status, length) =
            head.trim().split_once(' ').context("an exit status and a length")?;
        let mut output = vec![0; length.parse()?];
        self.line.read_exact(&mut output)?;
        Ok(Finished {
            script: script.to_owned(),
            status: status.parse()?,
            output: String::from_utf8_lossy(&output).into_owned(),
        })
    }

    /// The console, and everything that was run.
    pub fn log(&self) -> String {
        let console = fs::read(self.scratch.path().join("console")).unwrap_or_default();
        format!("{}\n{}", String::from_utf8_lossy(&console), self.transcript)
    }

    /// Whether the emulator still runs.
    ///
    /// # Errors
    /// When the kernel does not say.
    pub fn is_running(&mut self) -> Result<bool> {
        self.emulator.is_running()
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("log of the guest:\n{}", self.log());
        }
    }
}

/// What QEMU is told of a folder that the guest reads.
fn shared(folder: &Path, tag: &str) -> String {
    let folder = folder.display();
    format!("local,path={folder},mount_tag={tag},security_model=none,readonly=on,multidevs=remap")
}

fn arguments(root: &Root, scratch: &TempDir, hardware: &Hardware, port: u16) -> Vec<String> {
    let file = |name: &str| scratch.path().join(name).display().to_string();
    let share = shared(root.folder(), "root");
    let console = format!("file:{}", file("console"));
    let command_line = format!(
        "console=ttyS0 panic=-1 loglevel=6 nokaslr mitigations=off audit=0 no_timer_check \
         random.trust_cpu=on agent={port}"
    );
    let memory = format!("{}M", hardware.memory_mib);
    let forward =
        |(near, far): &(u16, u16)| format!(",hostfwd=tcp:127.0.0.1:{near}-{ADDRESS}:{far}");
    let forwards: String = hardware.forwards.iter().map(forward).collect();
    let network = format!("user,id=net,restrict=off{forwards}");
    let kernel = root.kernel().display().to_string();
    let initramfs = file("initramfs");
    let words = [
        ["--pdeathsig", "KILL"],
        ["qemu-system-x86_64", "-nodefaults"],
        ["-no-reboot", "-no-user-config"],
        ["-machine", "q35"],
        ["-accel", "tcg,thread=multi"],
        ["-cpu", "max"],
        ["-smp", "2"],
        ["-m", &memory],
        ["-display", "none"],
        ["-serial", &console],
        ["-kernel", &kernel],
        ["-initrd", &initramfs],
        ["-append", &command_line],
        ["-virtfs", &share],
        ["-netdev", &network],
        ["-device", "virtio-net-pci,netdev=net,romfile="],
        ["-device", "virtio-rng-pci"],
    ];
    let more = hardware.share.iter().map(|folder| shared(folder, SHARE_TAG));
    let more = more.flat_map(|share| ["-virtfs".to_owned(), share]);
    words.iter().flatten().map(|&word| word.to_owned()).chain(more).collect()
}

fn accept(listener: &TcpListener, emulator: &mut Running) -> Result<TcpStream> {
    listener.set_nonblocking(true)?;
    let deadline = Instant::now() + BOOT_TIMEOUT;
    while Instant::now() < deadline {
        if let Ok((stream, _)) = listener.accept() {
            stream.set_nonblocking(false)?;
            return Ok(stream);
        }
        ensure!(emulator.is_running()?, "the emulator has stopped");
        thread::sleep(POLL_INTERVAL);
    }
    bail!("it took longer than {BOOT_TIMEOUT:?}")
}
