//! SPDK's iscsi_tgt, built by whoever points at it; configured by JSON-RPC over its Unix socket.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use harness::Value;
use harness::array::free_address;
use harness::program::Running;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

const TARGET: &str = "iqn.2016-06.io.spdk:bench";
const PATIENCE: Duration = Duration::from_secs(60);
const BLOCK_BYTES: u64 = 512;

/// Memory besides what its LUNs in memory take, MiB.
const OWN_MEMORY_MIB: u64 = 1024;

/// How it waits, and where it keeps blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Looks at its sockets all the time; blocks in memory.
    Polling,
    /// Sleeps; blocks in memory.
    Interrupt,
    /// Polls; blocks in files, by io_uring, without flushes.
    File,
}

#[derive(Debug)]
pub(crate) struct Spdk {
    daemon: Running,
    /// Addresses of its LUNs.
    pub(crate) urls: Vec<String>,
    pub(crate) version: String,
}

impl Spdk {
    /// Starts it with these LUNs: names and bytes.
    pub(crate) fn start(
        program: &Path,
        folder: &Path,
        mode: Mode,
        luns: &[(&str, u64)],
    ) -> Result<Self> {
        fs::create_dir_all(folder)?;
        let socket = folder.join("rpc.sock");
        let program = program.to_str().context("a printable path")?;
        let rpc = socket.to_str().context("a printable path")?;
        let bytes: u64 = luns.iter().map(|(_, bytes)| bytes).sum();
        let memory = ((bytes >> 20) + OWN_MEMORY_MIB).to_string();
        let mut words = vec!["-c", "0", program, "-m", "0x1", "--no-huge", "-s", &memory];
        words.extend(["--iova-mode", "va", "--disable-cpumask-locks", "-r", rpc]);
        if mode == Mode::Interrupt {
            words.push("--interrupt-mode");
        }
        let mut daemon = Running::start(Path::new("taskset"), &words)?;
        let mut control = Control::connect(&mut daemon, &socket)?;
        let version = control.call("spdk_get_version", json!({}))?;
        let version = version["version"].as_str().unwrap_or("SPDK").to_owned();
        let address = free_address()?;
        let portal = json!({"host": address.ip().to_string(), "port": address.port().to_string()});
        control.call("iscsi_create_portal_group", json!({"tag": 1, "portals": [portal]}))?;
        let anyone = json!({"tag": 1, "initiators": ["ANY"], "netmasks": ["127.0.0.1/32"]});
        control.call("iscsi_create_initiator_group", anyone)?;
        let mut rows = Vec::new();
        for (lun, (name, bytes)) in luns.iter().enumerate() {
            control.create_device(mode, folder, name, *bytes)?;
            rows.push(json!({"bdev_name": name, "lun_id": lun}));
        }
        let target = json!({
            "name": TARGET, "alias_name": "bench", "pg_ig_maps": [{"pg_tag": 1, "ig_tag": 1}],
            "luns": rows, "queue_depth": 128, "disable_chap": true,
        });
        control.call("iscsi_create_target_node", target)?;
        let url = |lun| format!("iscsi://{address}/{TARGET}/{lun}");
        Ok(Self { daemon, urls: (0..luns.len()).map(url).collect(), version })
    }

    pub(crate) fn process_id(&self) -> u32 {
        self.daemon.process_id()
    }

    /// Stops the process, so that its polling takes nothing from others.
    pub(crate) fn sleep(&self) -> Result<()> {
        self.signal(Signal::STOP)
    }

    /// Lets the process run as long as something takes.
    pub(crate) fn while_awake<T>(&self, something: impl FnOnce() -> Result<T>) -> Result<T> {
        self.signal(Signal::CONT)?;
        let result = something();
        self.sleep()?;
        result
    }

    fn signal(&self, signal: Signal) -> Result<()> {
        let process = Pid::from_raw(self.process_id().cast_signed()).context("a process")?;
        Ok(kill_process(process, signal)?)
    }
}

/// The JSON-RPC socket.
struct Control {
    socket: UnixStream,
}

impl Control {
    /// Waits for the socket.
    fn connect(daemon: &mut Running, path: &Path) -> Result<Self> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Ok(socket) = UnixStream::connect(path) {
                socket.set_read_timeout(Some(PATIENCE))?;
                return Ok(Self { socket });
            }
            if !daemon.is_running()? || Instant::now() > deadline {
                bail!("SPDK did not start; run it by hand with --no-huge to see why");
            }
            thread::sleep(Duration::from_millis(50));
        }
    }

    fn call(&mut self, method: &str, parameters: Value) -> Result<Value> {
        let mut request = json!({"jsonrpc": "2.0", "id": 1, "method": method});
        if parameters.as_object().is_some_and(|members| !members.is_empty()) {
            request["params"] = parameters;
        }
        self.socket.write_all(request.to_string().as_bytes())?;
        let mut answer = Vec::new();
        let mut buffer = [0; 4096];
        loop {
            let count = self.socket.read(&mut buffer)?;
            answer.extend_from_slice(&buffer[..count]);
            if let Ok(value) = serde_json::from_slice::<Value>(&answer) {
                if !value["error"].is_null() {
                    bail!("SPDK refuses {method}: {}", value["error"]);
                }
                return Ok(value["result"].clone());
            }
            if count == 0 {
                bail!("SPDK ended the connection of {method}");
            }
        }
    }

    fn create_device(&mut self, mode: Mode, folder: &Path, name: &str, bytes: u64) -> Result<()> {
        match mode {
            Mode::Polling | Mode::Interrupt => {
                let device = json!({"name": name, "num_blocks": bytes / BLOCK_BYTES, "block_size": BLOCK_BYTES});
                self.call("bdev_malloc_create", device).map(drop)
            }
            Mode::File => {
                let path: PathBuf = folder.join(name);
                File::create(&path)?.set_len(bytes)?;
                let device = json!({"name": name, "filename": path, "block_size": BLOCK_BYTES});
                self.call("bdev_uring_create", device).map(drop)
            }
        }
    }
}
